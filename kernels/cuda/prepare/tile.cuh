/* Q and K: INT8 values and scales, block means and self-similarity, from one read of the data.
 *
 * A slab holds one, two or four blocks of BS = 64 or 128 rows. With R = BS / 16 a slot has the rows r, r + R, r + 2R, ...
 * of its block (r = slot mod R):
 *
 *   block 0   slot 0: rows 0, R, 2R, ...      a slot is a lane of the sums over rows (pool.h): the 16 rows of a thread are
 *             slot 1: rows 1, R + 1, ...      added in order, and R sums are left to add across slots
 *             ...
 *   block 1   slot R: rows 0, R, ...
 *
 *   1. load; subtract the mean; maximum of magnitudes, sums over rows, squares of 8 neighbouring channels
 *   2. lengths of rows: the lanes of a slot exchange halves of their squares until each has whole rows
 *   3. x * (1 / scale) -> INT8; sums over rows of x * (1 / length)
 *   4. one warp a block finishes the two sums over rows, and the similarity
 *
 * Scales: one a block, or finer ones (Fine), whose groups of rows (prepare_groups) are unions of what a thread has in
 * rows of one class: those with equal a / 4 and a mod 2.
 *
 * Arithmetic an element of Q with everything on, in instructions: 2 conversions, a half for the maximum, and one each for the sum, the
 * squares, the INT8 value and the unit vectors' sum, 3/4 to pack bytes: 7.25; K with its mean subtracted twice: 9.75. A
 * slab of 32 KiB in, 16 KiB out. */
#ifndef SPARGE_CUDA_PREPARE_TILE_CUH
#define SPARGE_CUDA_PREPARE_TILE_CUH

#include "slab.cuh"

namespace sparge::prepare
{

constexpr int row_classes = 8;

/* The class of a thread's row a, or one for all. */
template <bool Fine> __device__ __forceinline__ constexpr int class_of_row(int a)
{
    return Fine ? a / 4 * 2 + a % 2 : 0;
}

/* The largest magnitudes of a thread's part of a slab, by class, NaN if there is one. */
template <typename T, bool Fine>
__device__ __forceinline__ void max_magnitudes_of(float (&most)[Fine ? row_classes : 1], const slab &data)
{
    using pair = typename pair_of<T>::type;
    constexpr int of_class = Fine ? 1 : 4; /* not one after the other */
    uint32_t pairs[Fine ? row_classes : 1][of_class] = {};
#pragma unroll
    for (int a = 0; a < rows_of_thread; a++) {
        const uint4 row = data.row(a);
        const uint32_t word[4] = {row.x, row.y, row.z, row.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t &larger = pairs[class_of_row<Fine>(a)][i % of_class];
            larger = max_magnitudes<pair, true>(larger, word[i]);
        }
    }
#pragma unroll
    for (int c = 0; c < (Fine ? row_classes : 1); c++) {
#pragma unroll
        for (int i = 1; i < of_class; i++)
            pairs[c][0] = max_magnitudes<pair, true>(pairs[c][0], pairs[c][i]);
        const float2 two = unpack<T>(pairs[c][0]);
        most[c] = max_magnitude(two.x, two.y);
    }
}

constexpr int fine_groups_max = 64; /* scales of a slab with groups finer than a block: 256 rows / 4 */

template <int D> struct tile_shared {
    using S = slab_shape<D>;
    union {
        slab data;
        struct {
            float mean[S::slots * D]; /* sums over the rows of a slot */
            float unit[S::slots * D];
        } sum; /* when the data has been used */
    };
    float warp_max[threads / 32];
    unsigned group_max[fine_groups_max];
    float group_inverse[fine_groups_max]; /* 1 / scale */
};

/* How K's mean is subtracted; partial: in a slab with rows past the end. */
enum class centering { none, full, partial };

/* What is left of a block beside INT8. */
enum class pooling { none, means, judged };

/* Where a thread stands. */
template <int D> struct tile_place {
    int chunk, slot;
    int parts;     /* R: slots of a block */
    int sub, part; /* block within the slab; slot within the block */
    uint32_t head;
    int block, count; /* block within the head, rows of it that exist: <= 0 beyond the last block */
    int rows;         /* rows of this thread that exist */

    __device__ __forceinline__ tile_place(const prepare_side &side, uint32_t head, int slab_index) : head(head)
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
    }
    __device__ __forceinline__ int row(int a) const { return a * parts + part; } /* within the block */
};

/* Of 8 neighbouring channels. */
__device__ __forceinline__ float sum_of_squares(const float (&x)[8])
{
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 8; i++)
        sum = __fmaf_rn(x[i], x[i], sum);
    return sum;
}

__device__ __forceinline__ void store_8(float *to, const float (&x)[8])
{
    reinterpret_cast<float4 *>(to)[0] = make_float4(x[0], x[1], x[2], x[3]);
    reinterpret_cast<float4 *>(to)[1] = make_float4(x[4], x[5], x[6], x[7]);
}

/* Row a of the slab, less the mean; rows that do not exist are zero. */
template <typename T, centering C, int D>
__device__ __forceinline__ void row_values(float (&x)[8], const slab &data, const tile_place<D> &at, int a,
                                           const float (&center)[8])
{
    unpack<T>(x, data.row(a));
    if constexpr (C != centering::none) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            x[i] = __fsub_rn(x[i], center[i]);
    }
    if constexpr (C == centering::partial) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            x[i] = a < at.rows ? x[i] : 0;
    }
}

/* Sums over the lanes of a slot, neighbours first: square[a] is this lane's part of row a. Each step halves the rows that a
 * lane looks after; it ends with the whole sums of the rows that lane_of_row gives it, in square[0], square[1], ... */
template <int Chunks, int Distance = 1> __device__ __forceinline__ void add_over_lanes(float (&square)[rows_of_thread])
{
    constexpr int rows = rows_of_thread / 2 / Distance;
    const bool upper = threadIdx.x & Distance;
#pragma unroll
    for (int a = 0; a < rows; a++) {
        const float mine = upper ? square[a + rows] : square[a], other = upper ? square[a] : square[a + rows];
        square[a] = __fadd_rn(mine, __shfl_xor_sync(~0u, other, Distance));
    }
    if constexpr (2 * Distance < Chunks)
        add_over_lanes<Chunks, 2 * Distance>(square);
}

/* The lane, of those of its slot, that add_over_lanes leaves row a with: the row's upper bits reversed. */
template <int Chunks> __device__ __forceinline__ constexpr int lane_of_row(int a)
{
    int lane = 0;
    for (int distance = 1, rows = rows_of_thread / 2; distance < Chunks; distance *= 2, rows /= 2)
        lane |= a & rows ? distance : 0;
    return lane;
}

__device__ __forceinline__ float inverse_length(float squares)
{
    const float length = __fsqrt_rn(squares);
    return length == 0 ? 0 : __frcp_rn(length);
}

__device__ __forceinline__ void load_center(float (&center)[8], const float *mean, int head_dim, int channel)
{
    if (head_dim % 8 == 0) { /* so that the eight lie on 32 bytes */
        if (channel >= head_dim)
            return;
        const float4 low = __ldcg(reinterpret_cast<const float4 *>(mean + channel));
        const float4 high = __ldcg(reinterpret_cast<const float4 *>(mean + channel + 4));
        center[0] = low.x, center[1] = low.y, center[2] = low.z, center[3] = low.w;
        center[4] = high.x, center[5] = high.y, center[6] = high.z, center[7] = high.w;
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (channel + i < head_dim)
            center[i] = __ldcg(mean + channel + i);
}

/* A scale that is NaN gives 0, so that channels that do not exist stay 0. */
__device__ __forceinline__ float inverse_scale(float scale)
{
    return isnan(scale) ? 0 : __frcp_rn(scale);
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
        side.scale[static_cast<int64_t>(at.head) * side.scales + at.block] = scale;
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

/* The larger of two magnitudes, as bits: NaN is above all. */
__device__ __forceinline__ unsigned larger_of(float a, float b)
{
    return max(__float_as_uint(a), __float_as_uint(b));
}

/* Four pairs of a thread's classes share a scale at every granularity: 2 h + b, where h = a / 8, and b is a / 4 mod 2 of
 * blocks of 128 rows (parts = 8), a mod 2 of blocks of 64. Or there is one scale. */
template <int Scales> __device__ __forceinline__ float inverse_of_row(const float (&inverse)[Scales], int a, int parts)
{
    if constexpr (Scales == 1)
        return inverse[0];
    else
        return parts == 8 ? inverse[a / 8 * 2 + a / 4 % 2] : inverse[a / 8 * 2 + a % 2];
}

/* Scales finer than a block, from the maxima of a thread's classes: first of the lanes of a slot, then of the groups,
 * through shared memory. inverse: 1 / scale of the thread's pairs of classes. group_max is zero, and known to be by all threads. */
template <int D>
__device__ __forceinline__ void fine_scales(const prepare_side &side, const tile_place<D> &at,
                                            const float (&most)[row_classes], int slab_index, tile_shared<D> &shared,
                                            float (&inverse)[4])
{
    const int of_block = groups_of_block(side.groups, side.block), of_slab = slab_shape<D>::slots / at.parts * of_block;
    /* Within the slab; by one of the pair's rows. */
    const auto group_of_pair = [&](int i) {
        return at.sub * of_block + group_of_row(side.groups, at.row(i / 2 * 8 + i % 2 * (at.parts == 8 ? 4 : 1)));
    };
    unsigned pair[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int h = i / 2 * 4, b = i % 2;
        pair[i] =
            at.parts == 8 ? larger_of(most[h + 2 * b], most[h + 2 * b + 1]) : larger_of(most[h + b], most[h + b + 2]);
    }
    /* Lane i of the first four of a slot ends with pair i, the others with copies. */
    const bool odd = at.chunk & 1, upper = at.chunk & 2;
#pragma unroll
    for (int h = 0; h < 2; h++)
        pair[h] =
            max(odd ? pair[2 * h + 1] : pair[2 * h], __shfl_xor_sync(~0u, odd ? pair[2 * h] : pair[2 * h + 1], 1));
    unsigned bits = max(upper ? pair[1] : pair[0], __shfl_xor_sync(~0u, upper ? pair[0] : pair[1], 2));
#pragma unroll
    for (int distance = 4; distance < slab_shape<D>::chunks; distance *= 2)
        bits = max(bits, __shfl_xor_sync(~0u, bits, distance));
    if (at.chunk < 4)
        atomicMax(&shared.group_max[group_of_pair(at.chunk)], bits);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < of_slab; i += threads) {
        const int block = slab_index * (slab_shape<D>::slots / at.parts) + i / of_block, group = i % of_block;
        const int64_t first = static_cast<int64_t>(block) * side.block + first_row_of_group(side.groups, group);
        const float scale = __fmaf_rn(__uint_as_float(shared.group_max[i]), 1.0f / 127.0f, 1e-7f);
        shared.group_inverse[i] = inverse_scale(scale);
        const int64_t index = static_cast<int64_t>(block) * of_block + group;
        if (block < side.blocks && index < side.scales)
            side.scale[static_cast<int64_t>(at.head) * side.scales + index] =
                first < side.x.tokens ? scale : 0; /* 0: a group without rows */
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; i++)
        inverse[i] = shared.group_inverse[group_of_pair(i)];
}

/* Step 3: INT8 of one row: the nearest integer is in the low bits of the sum with 1.5 * 2^23. */
__device__ __forceinline__ uint2 quantised(const float (&x)[8], float inverse)
{
    uint32_t value[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        value[i] = __float_as_uint(__fmaf_rn(x[i], inverse, 0x1.8p23f));
    return make_uint2(pack_bytes(value[0], value[1], value[2], value[3]),
                      pack_bytes(value[4], value[5], value[6], value[7]));
}

/* The rest of the sums over rows, the mean and the similarity; one warp for block `sub` of the slab. Neighbouring lanes
 * have neighbouring channels. */
template <int D, pooling P>
__device__ __forceinline__ void finish_block(const prepare_side &side, int head_dim, uint32_t head, int slab_index,
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
    float *pool = side.pool + (static_cast<int64_t>(head) * side.blocks + block) * head_dim;
    float sum[per_lane];
#pragma unroll
    for (int i = 0; i < per_lane; i++) {
        const int channel = 32 * i + lane;
        if (channel < head_dim)
            pool[channel] = __fdiv_rn(sum_over_slots(shared.sum.mean, channel), static_cast<float>(count));
        if constexpr (P == pooling::judged) {
            const float unit = sum_over_slots(shared.sum.unit, channel);
            sum[i] = __fmul_rn(unit, unit);
        }
    }
    if constexpr (P == pooling::judged) {
#pragma unroll
        for (int i = 0; i < per_lane; i++)
#pragma unroll
            for (int distance = 1; distance < 32; distance *= 2)
                sum[i] = __fadd_rn(sum[i], __shfl_xor_sync(~0u, sum[i], distance));
        if (lane == 0)
            side.sim[static_cast<int64_t>(head) * side.blocks + block] =
                __fdiv_rn(add_neighbours<per_lane>(sum), static_cast<float>(count * count));
    }
}

/* Slab `slab_index` of one head of Q or K. `wait` returns once side.center may be read. */
template <typename T, int D, bool Int8, pooling P, bool Fine, centering C, typename Wait>
__device__ __forceinline__ void tile(const prepare_side &side, int head_dim, int load_chunks, uint32_t head,
                                     int slab_index, Wait wait, tile_shared<D> &shared)
{
    using S = slab_shape<D>;
    const tile_place<D> at(side, head, slab_index);
    const int64_t first = static_cast<int64_t>(at.block) * side.block + at.part;
    slab &data = shared.data;
    load_slab(data, head_of(side.x, head) + first * side.x.token_stride + at.chunk * 8, at.parts * side.x.token_stride,
              at.chunk < load_chunks ? at.rows : 0);
    if constexpr (Fine) {
        if (threadIdx.x < fine_groups_max)
            shared.group_max[threadIdx.x] = 0;
        __syncthreads();
    }
    float center[8] = {};
    if constexpr (C != centering::none) {
        wait();
        load_center(center, side.center + static_cast<int64_t>(head) * head_dim, head_dim, at.chunk * 8);
    }
    wait_for_slab();

    /* 1 */
    float sum[8] = {}, most[Fine ? row_classes : 1] = {}, square[rows_of_thread];
    if constexpr (Int8 && C == centering::none)
        max_magnitudes_of<T, Fine>(most, data);
    if constexpr (P != pooling::none || (Int8 && C != centering::none)) {
#pragma unroll
        for (int a = 0; a < rows_of_thread; a++) {
            float x[8];
            row_values<T, C>(x, data, at, a, center);
            if constexpr (Int8 && C != centering::none)
#pragma unroll
                for (int i = 0; i < 8; i++)
                    most[class_of_row<Fine>(a)] = max_magnitude(most[class_of_row<Fine>(a)], x[i]);
            if constexpr (P != pooling::none)
#pragma unroll
                for (int i = 0; i < 8; i++)
                    sum[i] = __fadd_rn(sum[i], x[i]);
            if constexpr (P == pooling::judged)
                square[a] = sum_of_squares(x);
        }
    }

    /* 2 */
    constexpr int own_rows = rows_of_thread / S::chunks; /* that a lane ends with: 1 or 2 */
    float unit[own_rows];
    if constexpr (P == pooling::judged) {
        add_over_lanes<S::chunks>(square);
#pragma unroll
        for (int i = 0; i < own_rows; i++)
            unit[i] = inverse_length(square[i]);
    }
    float inverse[Fine ? 4 : 1] = {};
    if constexpr (Fine) {
        fine_scales(side, at, most, slab_index, shared, inverse);
    } else if constexpr (Int8) {
        const unsigned bits = __reduce_max_sync(~0u, __float_as_uint(most[0]));
        if (threadIdx.x % 32 == 0)
            shared.warp_max[threadIdx.x / 32] = __uint_as_float(bits);
        __syncthreads();
        inverse[0] = inverse_scale(block_scale(side, at, shared));
    }

    /* 3 */
    if constexpr (Int8 || P == pooling::judged) {
        int8_t *x8 = side.x8 + (head * side.x.tokens + first) * D + at.chunk * 8;
        float unit_sum[8] = {};
#pragma unroll
        for (int a = 0; a < rows_of_thread; a++) {
            float x[8];
            row_values<T, C>(x, data, at, a, center);
            if constexpr (Int8)
                if (a < at.rows)
                    __stcs(reinterpret_cast<uint2 *>(x8 + a * at.parts * D),
                           quantised(x, inverse_of_row(inverse, a, at.parts)));
            if constexpr (P == pooling::judged) {
                const float factor = __shfl_sync(~0u, unit[a % own_rows], lane_of_row<S::chunks>(a), S::chunks);
#pragma unroll
                for (int i = 0; i < 8; i++)
                    unit_sum[i] = __fmaf_rn(x[i], factor, unit_sum[i]);
            }
        }
        if constexpr (P == pooling::judged) {
            __syncthreads(); /* everybody has used the data */
            store_8(shared.sum.unit + at.slot * D + at.chunk * 8, unit_sum);
        }
    }
    if constexpr (P == pooling::means)
        __syncthreads();
    if constexpr (P != pooling::none)
        store_8(shared.sum.mean + at.slot * D + at.chunk * 8, sum);

    /* 4 */
    if constexpr (P != pooling::none) {
        __syncthreads();
        const int warp = static_cast<int>(threadIdx.x) / 32;
        if (warp < slab_shape<D>::slots / at.parts)
            finish_block<D, P>(side, head_dim, head, slab_index, warp, shared);
    }
}

} // namespace sparge::prepare

#endif
