/* Q and K: INT8 values and scales, block means and self-similarity, from one read of the data.
 *
 * A slab holds one, two or four blocks of BS = 64 or 128 rows. With R = BS / 16 a slot has the rows r, r + R, r + 2R, ...
 * of its block (r = slot mod R):
 *
 *   block 0   slot 0: rows 0, R, 2R, ...      the tree over rows (pool.h) first adds rows BS/2 apart, then BS/4, ...:
 *             slot 1: rows 1, R + 1, ...      16 rows of a thread are its upper four levels, and R partial sums are
 *             ...                             left to add across slots
 *   block 1   slot R: rows 0, R, ...
 *
 *   1. load; subtract the mean; maximum of magnitudes, sums over rows, squares of 8 neighbouring channels
 *   2. lengths of rows: the squares of a slot's rows go through shared memory, so that a lane finishes whole rows
 *   3. x / scale -> INT8; x / length, sums over rows
 *   4. one warp a block finishes the two sums over rows, and the similarity
 *
 * Divisions are by a row's length and by a block's scale, so each costs a product with a reciprocal and two fused steps
 * (quotient). Where these could leave the normal range (infinite or absurdly small data) plain divisions are used.
 *
 * About 18 instructions an element with everything on; a slab of 32 KiB in, 16 KiB out. */
#ifndef SPARGE_CUDA_PREPARE_TILE_CUH
#define SPARGE_CUDA_PREPARE_TILE_CUH

#include "slab.cuh"

namespace sparge::prepare
{

constexpr int fine_groups_max = 64; /* scales of a slab with groups finer than a block: 256 rows / 4 */

template <int D> struct tile_shared {
    using S = slab_shape<D>;
    /* Rows a slot apart are so far from each other that neither writing by column nor reading by row meets one bank
     * more than twice. */
    static constexpr int square_row = S::chunks + 1;
    static constexpr int square_slot = rows_of_thread * square_row + (D == 64 ? 24 : 0);
    float square[S::slots * square_slot]; /* sums over 8 channels, [slot][row][chunk] */
    float2 length[S::rows];               /* length and its reciprocal, [slot][row] */
    float mean[S::slots * D];             /* sums over the rows of a slot */
    float unit[S::slots * D];
    float warp_max[threads / 32];
    unsigned group_max[fine_groups_max];
    float2 group_scale[fine_groups_max]; /* scale and its reciprocal */
};

/* Where a thread stands. */
template <int D> struct tile_place {
    int chunk, slot;
    int parts;     /* R: slots of a block */
    int sub, part; /* block within the slab; slot within the block */
    int64_t head;
    int block, count; /* block within the head, rows of it that exist: <= 0 beyond the last block */
    int rows;         /* rows of this thread that exist */
    bool partial;     /* the block is not full */

    __device__ __forceinline__ tile_place(const prepare_side &side, int64_t head, int slab_index) : head(head)
    {
        using S = slab_shape<D>;
        chunk = static_cast<int>(threadIdx.x) % S::chunks;
        slot = static_cast<int>(threadIdx.x) / S::chunks;
        parts = side.block / rows_of_thread;
        sub = slot / parts;
        part = slot % parts;
        block = slab_index * (S::slots / parts) + sub;
        const int64_t left = side.x.tokens - static_cast<int64_t>(block) * side.block;
        count = left < side.block ? static_cast<int>(left) : side.block;
        rows = rows_below(count, part, parts);
        partial = count < side.block;
    }
    __device__ __forceinline__ int row(int a) const { return a * parts + part; } /* within the block */
};

/* The tree over a thread's rows: first + stride, first + 2 stride, ... `row(a, sum)` gives row a. The order of visits
 * keeps at most four partial sums alive. */
template <int First, int Stride, typename Row> __device__ __forceinline__ void add_rows(float (&sum)[8], Row &row)
{
    if constexpr (Stride == rows_of_thread) {
        row(First, sum);
    } else {
        float upper[8];
        add_rows<First, 2 * Stride>(sum, row);
        add_rows<First + Stride, 2 * Stride>(upper, row);
#pragma unroll
        for (int i = 0; i < 8; i++)
            sum[i] = __fadd_rn(sum[i], upper[i]);
    }
}

__device__ __forceinline__ float sum_of_squares(const float (&x)[8])
{
    float term[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        term[i] = __fmul_rn(x[i], x[i]);
#pragma unroll
    for (int pairs = 4; pairs >= 1; pairs /= 2)
#pragma unroll
        for (int i = 0; i < pairs; i++)
            term[i] = __fadd_rn(term[2 * i], term[2 * i + 1]);
    return term[0];
}

__device__ __forceinline__ void store_8(float *to, const float (&x)[8])
{
    reinterpret_cast<float4 *>(to)[0] = make_float4(x[0], x[1], x[2], x[3]);
    reinterpret_cast<float4 *>(to)[1] = make_float4(x[4], x[5], x[6], x[7]);
}

/* Row a of the slab, less the mean; rows that do not exist are zero. */
template <typename T, bool Center, int D>
__device__ __forceinline__ void row_values(float (&x)[8], const slab &data, const tile_place<D> &at, int a,
                                           const float (&center)[8])
{
    unpack<T>(x, data.row[a]);
    if constexpr (Center) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            x[i] = __fsub_rn(x[i], center[i]);
        if (at.partial && a >= at.rows) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                x[i] = 0;
        }
    }
}

/* Lengths of the rows of this warp's slots. True if a quotient by one of them may not take the fast way. */
template <int D> __device__ __forceinline__ bool find_lengths(tile_shared<D> &shared)
{
    using S = slab_shape<D>;
    using H = tile_shared<D>;
    constexpr int warp_rows = S::rows / (threads / 32);
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    bool unusual = false;
    __syncwarp();
#pragma unroll
    for (int i = lane; i < warp_rows; i += 32) {
        const int row = warp * warp_rows + i;
        const float *square =
            shared.square + row / rows_of_thread * H::square_slot + row % rows_of_thread * H::square_row;
        float term[S::chunks];
#pragma unroll
        for (int c = 0; c < S::chunks; c++)
            term[c] = square[c];
#pragma unroll
        for (int pairs = S::chunks / 2; pairs >= 1; pairs /= 2)
#pragma unroll
            for (int c = 0; c < pairs; c++)
                term[c] = __fadd_rn(term[2 * c], term[2 * c + 1]);
        const float length = __fsqrt_rn(term[0]);
        unusual |= !(length == 0 || (length >= 0x1p-40f && length <= 0x1p60f));
        shared.length[row] = make_float2(length, length > 0 ? __frcp_rn(length) : 0);
    }
    return __any_sync(~0u, unusual);
}

/* Scales of one block from its maximum: the whole block's, known to each of its threads. */
template <int D>
__device__ __forceinline__ float block_scale(const prepare_side &side, const tile_place<D> &at,
                                             const tile_shared<D> &shared)
{
    const int warps = at.parts * slab_shape<D>::chunks / 32;
    unsigned most = 0; /* magnitudes order like their bits, NaN above all */
    for (int i = 0; i < warps; i++) {
        const unsigned bits = __float_as_uint(shared.warp_max[at.sub * warps + i]);
        most = bits > most ? bits : most;
    }
    const float scale = __fmaf_rn(__uint_as_float(most), 1.0f / 127.0f, 1e-7f);
    if (at.count > 0 && at.part == 0 && at.chunk == 0)
        side.scale[at.head * side.scales + at.block] = scale;
    return scale;
}

__device__ __forceinline__ int groups_of_block(prepare_groups groups, int block)
{
    switch (groups) {
    case PREPARE_GROUP_WARP:
        return block / 32;
    case PREPARE_GROUP_ROW_THREAD:
        return block / 4;
    case PREPARE_GROUP_KEY_THREAD:
        return 4;
    default:
        return 1;
    }
}

__device__ __forceinline__ int group_of_row(prepare_groups groups, int row)
{
    switch (groups) {
    case PREPARE_GROUP_WARP:
        return row / 32;
    case PREPARE_GROUP_ROW_THREAD:
        return row / 32 * 8 + row % 8;
    case PREPARE_GROUP_KEY_THREAD:
        return row % 8 / 2;
    default:
        return 0;
    }
}

__device__ __forceinline__ int first_row_of_group(prepare_groups groups, int group)
{
    switch (groups) {
    case PREPARE_GROUP_WARP:
        return group * 32;
    case PREPARE_GROUP_ROW_THREAD:
        return group / 8 * 32 + group % 8;
    case PREPARE_GROUP_KEY_THREAD:
        return group * 2;
    default:
        return 0;
    }
}

/* Scales finer than a block: maxima of rows, then of groups, through shared memory. */
template <typename T, bool Center, int D>
__device__ __forceinline__ void fine_scales(const prepare_side &side, const tile_place<D> &at, const slab &data,
                                            const float (&center)[8], int slab_index, tile_shared<D> &shared)
{
    const int of_block = groups_of_block(side.groups, side.block), of_slab = slab_shape<D>::slots / at.parts * of_block;
    if (threadIdx.x < fine_groups_max)
        shared.group_max[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int a = 0; a < rows_of_thread; a++) {
        float x[8], most = 0;
        row_values<T, Center>(x, data, at, a, center);
#pragma unroll
        for (int i = 0; i < 8; i++)
            most = max_magnitude(most, x[i]);
        if (a < at.rows)
            atomicMax(&shared.group_max[at.sub * of_block + group_of_row(side.groups, at.row(a))],
                      __float_as_uint(most));
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < of_slab; i += threads) {
        const int block = slab_index * (slab_shape<D>::slots / at.parts) + i / of_block, group = i % of_block;
        const int64_t first = static_cast<int64_t>(block) * side.block + first_row_of_group(side.groups, group);
        const float scale = __fmaf_rn(__uint_as_float(shared.group_max[i]), 1.0f / 127.0f, 1e-7f);
        shared.group_scale[i] = make_float2(scale, __frcp_rn(scale));
        const int64_t index = static_cast<int64_t>(block) * of_block + group;
        if (block < side.blocks && index < side.scales)
            side.scale[at.head * side.scales + index] = first < side.x.tokens ? scale : 0; /* 0: a group without rows */
    }
    __syncthreads();
}

/* Step 3: INT8 and units of one row, the first `channels` of its eight channels. Fast: see quotient. */
template <bool Fast>
__device__ __forceinline__ uint2 quantised(const float (&x)[8], float scale, float reciprocal, int channels)
{
    int value[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        value[i] = Fast           ? rounded_away(quotient(x[i], scale, reciprocal))
                   : i < channels ? rounded_away_clamped(__fdiv_rn(x[i], scale), x[i])
                                  : 0; /* not 0 / NaN */
    return make_uint2(pack_bytes(value[0], value[1], value[2], value[3]),
                      pack_bytes(value[4], value[5], value[6], value[7]));
}

template <bool Fast> __device__ __forceinline__ void make_unit(float (&x)[8], float2 length)
{
#pragma unroll
    for (int i = 0; i < 8; i++)
        if constexpr (Fast)
            x[i] = quotient(x[i], length.x, length.y);
        else if (length.x != 0)
            x[i] = __fdiv_rn(x[i], length.x);
}

/* The rest of the tree over rows, the mean and the similarity; one warp for block `sub` of the slab. Neighbouring lanes
 * have neighbouring channels. */
template <int D>
__device__ __forceinline__ void finish_block(const prepare_side &side, int head_dim, int64_t head, int slab_index,
                                             int sub, const tile_shared<D> &shared)
{
    constexpr int per_lane = D / 32;
    const int parts = side.block / rows_of_thread, lane = static_cast<int>(threadIdx.x) % 32;
    const int block = slab_index * (slab_shape<D>::slots / parts) + sub;
    if (block >= side.blocks)
        return;
    const int64_t left = side.x.tokens - static_cast<int64_t>(block) * side.block;
    const int count = left < side.block ? static_cast<int>(left) : side.block;
    const auto sum_over_slots = [&](const float *slots, int channel) {
        const float *term = slots + sub * parts * D + channel;
        float sum[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum[i] = parts == 8 ? __fadd_rn(term[i * D], term[(i + 4) * D]) : term[i * D];
        return __fadd_rn(__fadd_rn(sum[0], sum[2]), __fadd_rn(sum[1], sum[3]));
    };
    float *pool = side.pool + (head * side.blocks + block) * head_dim;
    float sum[per_lane];
#pragma unroll
    for (int i = 0; i < per_lane; i++) {
        const int channel = 32 * i + lane;
        if (channel < head_dim)
            pool[channel] = __fdiv_rn(sum_over_slots(shared.mean, channel), static_cast<float>(count));
        if (side.sim) {
            const float unit = sum_over_slots(shared.unit, channel);
            sum[i] = __fmul_rn(unit, unit);
        }
    }
    if (!side.sim)
        return;
#pragma unroll
    for (int i = 0; i < per_lane; i++)
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2)
            sum[i] = __fadd_rn(sum[i], __shfl_xor_sync(~0u, sum[i], distance));
#pragma unroll
    for (int pairs = per_lane / 2; pairs >= 1; pairs /= 2)
#pragma unroll
        for (int i = 0; i < pairs; i++)
            sum[i] = __fadd_rn(sum[2 * i], sum[2 * i + 1]);
    if (lane == 0)
        side.sim[head * side.blocks + block] = __fdiv_rn(sum[0], static_cast<float>(count * count));
}

/* Step 3 for all rows of a thread; returns the sums of the units in `sum`. */
template <typename T, int D, bool Int8, bool Pool, bool Fine, bool Center, bool Fast>
__device__ __forceinline__ void divide_rows(float (&sum)[8], const prepare_side &side, const tile_place<D> &at,
                                            const slab &data, const float (&center)[8], float scale, int head_dim,
                                            const tile_shared<D> &shared)
{
    const float reciprocal = Int8 && Fast && !Fine ? __frcp_rn(scale) : 0;
    const int64_t first = static_cast<int64_t>(at.block) * side.block + at.part;
    int8_t *x8 = side.x8 + (at.head * side.x.tokens + first) * D + at.chunk * 8;
    auto row = [&](int a, float(&x)[8]) {
        row_values<T, Center>(x, data, at, a, center);
        if constexpr (Int8) {
            float2 divisor = make_float2(scale, reciprocal);
            if constexpr (Fine)
                divisor = shared.group_scale[at.sub * groups_of_block(side.groups, side.block) +
                                             group_of_row(side.groups, at.row(a))];
            const uint2 bytes = quantised<Fast>(x, divisor.x, divisor.y, head_dim - at.chunk * 8);
            if (a < at.rows)
                __stcs(reinterpret_cast<uint2 *>(x8 + static_cast<int64_t>(a) * at.parts * D), bytes);
        }
        if constexpr (Pool)
            if (side.sim)
                make_unit<Fast>(x, shared.length[at.slot * rows_of_thread + a]);
    };
    if constexpr (Pool) {
        add_rows<0, 1>(sum, row);
    } else {
#pragma unroll
        for (int a = 0; a < rows_of_thread; a++)
            row(a, sum);
    }
}

/* Slab `slab_index` of one head of Q or K. `wait` returns once side.center may be read. */
template <typename T, int D, bool Int8, bool Pool, bool Fine, bool Center, typename Load, typename Wait>
__device__ __forceinline__ void tile(const prepare_side &side, int head_dim, int load_chunks, int64_t head,
                                     int slab_index, Load load, Wait wait, tile_shared<D> &shared)
{
    const tile_place<D> at(side, head, slab_index);
    slab data;
    const int64_t first = static_cast<int64_t>(at.block) * side.block + at.part;
    load_slab(data, head_of(side.x, head) + first * side.x.token_stride + at.chunk * 8, at.parts * side.x.token_stride,
              at.chunk < load_chunks ? at.rows : 0, load);
    float center[8] = {};
    if constexpr (Center) {
        wait();
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (at.chunk * 8 + i < head_dim)
                center[i] = __ldcg(side.center + head * head_dim + at.chunk * 8 + i);
    }

    float sum[8], most = 0;
    bool unusual = false;
    auto row = [&](int a, float(&x)[8]) {
        row_values<T, Center>(x, data, at, a, center);
        if constexpr (Int8)
#pragma unroll
            for (int i = 0; i < 8; i++)
                most = max_magnitude(most, x[i]);
        if constexpr (Pool)
            if (side.sim)
                shared.square[at.slot * tile_shared<D>::square_slot + a * tile_shared<D>::square_row + at.chunk] =
                    sum_of_squares(x);
    };
    if constexpr (Pool) {
        add_rows<0, 1>(sum, row);
        store_8(shared.mean + at.slot * D + at.chunk * 8, sum);
        if (side.sim)
            unusual = find_lengths<D>(shared);
    } else if constexpr (!Fine) {
#pragma unroll
        for (int a = 0; a < rows_of_thread; a++)
            row(a, sum);
    }
    float scale = 1;
    if constexpr (Fine) {
        fine_scales<T, Center>(side, at, data, center, slab_index, shared);
        const int of_block = groups_of_block(side.groups, side.block);
        for (int i = 0; i < of_block; i++)
            unusual |= !(shared.group_scale[at.sub * of_block + i].x <= 3e38f);
    } else if constexpr (Int8) {
        const unsigned bits = __reduce_max_sync(~0u, __float_as_uint(most));
        if (threadIdx.x % 32 == 0)
            shared.warp_max[threadIdx.x / 32] = __uint_as_float(bits);
        __syncthreads();
        scale = block_scale(side, at, shared);
        unusual |= !(scale <= 3e38f);
    }
    __syncwarp(); /* lengths */
    if (unusual)
        divide_rows<T, D, Int8, Pool, Fine, Center, false>(sum, side, at, data, center, scale, head_dim, shared);
    else
        divide_rows<T, D, Int8, Pool, Fine, Center, true>(sum, side, at, data, center, scale, head_dim, shared);
    if constexpr (Pool) {
        if (side.sim)
            store_8(shared.unit + at.slot * D + at.chunk * 8, sum);
        __syncthreads();
        const int warp = static_cast<int>(threadIdx.x) / 32;
        if (warp < slab_shape<D>::slots / at.parts)
            finish_block<D>(side, head_dim, head, slab_index, warp, shared);
    }
}

} // namespace sparge::prepare

#endif
