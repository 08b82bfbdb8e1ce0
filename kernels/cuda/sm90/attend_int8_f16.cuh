/* INT8 Q K^T and 16-bit P V by TMA and wgmma, for sm_90a: dense, or over lists of 64-key tiles.
 *
 * One CTA computes one row block of 64 * Consumers queries of one head, 128 or 64. Of its warpgroups the first loads, and
 * each of the others computes 64 rows, in turns of 128 keys: two tiles of 64, the next ones of the row block, wherever they
 * are. A last turn may lack one: it is loaded from where there is nothing, as zeros, and masked.
 *
 *   tensor     S = Q K(j)^T | O += P V(j-1) ............. | S = Q K(j+1)^T | O += P V(j)
 *   other                   | mask, max, exp2 of turn j   | P = S in 16 bits
 *   signals             K(j) empty               V(j-1) empty
 *
 * S is s32; its scale is the thread's of Q times the thread's of the tile's K (int8_scores.cuh), so the largest score of a thread
 * in a row is the larger of two integer maxima, each times its scale. P is 2^(score - m), where m, the row's reference, is raised to the largest
 * score only when that is more than `headroom` above it: seldom, so that O is hardly ever rescaled, which then is
 * done after the product that runs. S's registers become words of P without leaving the thread.
 *
 * Shared memory: room for Q, then Stages stages of K, then of V, each a turn's. Rows of Q and K are as wide as their
 * swizzle, D bytes; V lies in pieces of 64 channels (pieces.cuh). O is staged where Q was.
 * Registers a thread: the producer gives up all but 24; a consumer has 64 for S, 32 for P, D / 2 for O.
 * Traffic: Q read and O written once; K and V read once a row block, mostly from L2: 3 * 128 * D bytes a turn.
 *
 * Numbers: the row sum adds P before it is rounded. A row that has seen no key has m = -inf, l = 0. */
#ifndef SPARGE_SM90_ATTEND_INT8_F16_CUH
#define SPARGE_SM90_ATTEND_INT8_F16_CUH

#include "../ptx/wgmma_8bit.cuh"
#include "int8_scores.cuh"
#include "pieces.cuh"

namespace sparge::sm90
{

template <int D_, int Consumers_, int Ctas_, int Stages_> struct int8_f16_shape : cta_shape<Consumers_, Ctas_> {
    using cta = cta_shape<Consumers_, Ctas_>;
    static constexpr int D = D_, Stages = Stages_;
    static constexpr int pieces = D / piece, tiles = 2, keys = tiles * tile_keys; /* of a turn */
    static constexpr int q_bytes = cta::rows * D, k_bytes = keys * D, v_bytes = keys * D * 2,
                         o_bytes = cta::rows * D * 2;
    /* A consumer's rows of Q begin where it stages its first piece of O. One that is alone has also read all of K by then,
     * and its second piece goes there. */
    static constexpr int q_room = cta::Consumers == 1 ? box_bytes : o_bytes;
    static_assert(q_room + k_bytes >= o_bytes && 64 * D <= box_bytes, "room for Q and O");
    static constexpr int shared_bytes = 1024 + q_room + Stages * (k_bytes + v_bytes); /* with room to align */
    using k_ring = ring<Stages, k_bytes>;
    using v_ring = ring<Stages, v_bytes>;
};

/* P may grow to 2^headroom before the reference is raised: far from where f16 ends, and small P are no less exact for it. */
constexpr float headroom = 8;

/* The producer's one thread. */
template <typename S, bool Lists>
__device__ __forceinline__ void produce(const tensor_maps &maps, const row_block_place &p, int turns, uint32_t q_shared,
                                        uint32_t q_full, const typename S::k_ring &k, const typename S::v_ring &v,
                                        int kv_batch_head)
{
    ptx::mbarrier_arrive_expect_tx(q_full, S::q_bytes);
#pragma unroll
    for (int i = 0; i < S::Consumers; i++)
        ptx::cp_async_bulk_tensor_3d(q_shared + i * box_bytes, &maps.q, q_full, 0, p.first_row + i * 64, p.batch_head);
#pragma unroll 1
    for (int j = 0; j < turns; j++) {
        int tile[S::tiles];
#pragma unroll
        for (int t = 0; t < S::tiles; t++)
            tile[t] = tile_at<Lists>(p, j * S::tiles + t, -1);
        k.wait_empty(j);
        ptx::mbarrier_arrive_expect_tx(k.full(j), S::k_bytes);
#pragma unroll
        for (int t = 0; t < S::tiles; t++)
            ptx::cp_async_bulk_tensor_3d(k.at(j) + t * tile_keys * S::D, &maps.k, k.full(j), 0, tile[t] * tile_keys,
                                         kv_batch_head);
        load_turn<S>(v, j, &maps.v, p, tile);
    }
}

/* What a consumer's thread holds: rows `row` and row + 8 of S, P and O as wgmma lays them out. */
template <typename T16, typename S> struct row_pair {
    int32_t s[S::keys / 2]; /* scores; then P, the bits of floats */
    float o[S::D / 2];
    uint32_t p[S::keys / 16][4];
    float m[2], l[2]; /* reference in log2 units, sum of the thread's P */
    bool raised;      /* references of the warp, so that O is still to be multiplied by alpha */
    float alpha[2];   /* of its rows, if so */

    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (int i = 0; i < S::D / 2; i++)
            o[i] = 0;
        m[0] = m[1] = -CUDART_INF_F;
        l[0] = l[1] = 0;
        raised = false;
    }

    /* Raises the references that a turn's largest scores have left behind. */
    __device__ __forceinline__ void raise(const float (&top)[2])
    {
        if (!__any_sync(~0u, top[0] > m[0] + headroom || top[1] > m[1] + headroom))
            return;
        raised = true;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float to = fmaxf(m[h], quad_max(top[h]));
            alpha[h] = m[h] == to ? 1 : exp2_approx(m[h] - to); /* both may be -inf */
            m[h] = to;
            l[h] *= alpha[h];
        }
    }

    /* When the product that ran is done, and all warps of the group have waited for it: not where references are raised, for
     * the wait is the group's. */
    __device__ __forceinline__ void rescale()
    {
        if (!raised)
            return;
        raised = false;
        scale_rows(o, alpha);
    }

    /* Scores -> P. scale: of each tile's scores, to log2 units. seen[t][h]: keys of tile t that row h sees. */
    template <bool Masked>
    __device__ __forceinline__ void softmax(const float (&scale)[S::tiles], const int (&seen)[S::tiles][2])
    {
        const int lane_key = static_cast<int>(threadIdx.x) % 4 * 2;
        float top[2];
        largest_scores<Masked>(s, scale, seen, lane_key, top);
        raise(top);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float base = m[h] == -CUDART_INF_F ? 0 : m[h];
            float sum = 0;
#pragma unroll
            for (int x = 0; x < S::tiles; x++)
#pragma unroll
                for (int i = 0; i < 8; i++)
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        int32_t &score = s[4 * (8 * x + i) + 2 * h + e];
                        float value = exp2_approx(fmaf(static_cast<float>(score), scale[x], -base));
                        if constexpr (Masked) /* a tiny scale could bring INT_MIN back to life */
                            value = i * 8 + e + lane_key < seen[x][h] ? value : 0;
                        sum += value;
                        score = __float_as_int(value);
                    }
            l[h] += sum;
        }
    }

    /* P in 16 bits: of 16 keys, word h + 2 g is row h of the columns 2q, 2q + 1 of the g-th eight. */
    __device__ __forceinline__ void pack()
    {
#pragma unroll
        for (int step = 0; step < S::keys / 16; step++)
#pragma unroll
            for (int g = 0; g < 2; g++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int at = 4 * (2 * step + g) + 2 * h;
                    p[step][h + 2 * g] = sparge::pack(__int_as_float(s[at]), __int_as_float(s[at + 1]), T16());
                }
    }
};

/* Divides, rounds, and stores a consumer's rows, by way of `stage`, where its rows of Q were. */
template <typename T16, typename S>
__device__ __forceinline__ void store_rows(const attend_args &args, const row_block_place &p, int consumer, char *stage,
                                           const float (&o)[S::D / 2], const float (&m)[2], const float (&l)[2])
{
    const int lane = static_cast<int>(threadIdx.x) % 32, warp_row = static_cast<int>(threadIdx.x) % warpgroup / 32 * 16;
    ptx::bar_sync(1 + consumer, warpgroup);         /* all four warps are done with Q */
    const auto chunk_at = [&](int row, int chunk) { /* 16 bytes of a row of the consumer */
                                                    return stage + (chunk / 8 * S::Consumers + consumer) * box_bytes +
                                                           chunk_offset<piece_bytes>(row, chunk % 8);
    };
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int local_row = warp_row + lane / 4 + h * 8;
        const int row = p.first_row + consumer * 64 + local_row;
        const float sum = quad_sum(l[h]);
        const float inverse = sum > 0 ? 1 / sum : 0;
        if (args.lse && lane % 4 == 0 && row < args.seqlen_q) {
            const int64_t index = p.batch_head * args.seqlen_q + row;
            float lse = sum > 0 ? (m[h] + log2f(sum)) * CUDART_LN2_F : -CUDART_INF_F;
            if (args.lse_offset)
                lse += args.lse_offset[index];
            args.lse[index] = lse;
        }
#pragma unroll
        for (int d = 0; d < S::D / 8; d++)
            *reinterpret_cast<uint32_t *>(chunk_at(local_row, d) + lane % 4 * 4) =
                pack(o[4 * d + 2 * h] * inverse, o[4 * d + 2 * h + 1] * inverse, T16());
    }
    __syncwarp(); /* a warp stages and stores its own rows only */
    char *out = static_cast<char *>(args.o.data) + (p.batch * args.o.batch_stride + p.head * args.o.head_stride) * 2;
    constexpr int chunks = S::D / 8, steps = 16 * chunks / 32;
    const auto each_chunk = [&](int step, auto store) {
        const int local_row = warp_row + (step * 32 + lane) / chunks, chunk = (step * 32 + lane) % chunks;
        const int row = p.first_row + consumer * 64 + local_row;
        if (row < args.seqlen_q && chunk * 8 < args.head_dim)
            store(out + row * args.o.token_stride * 2 + chunk * 16, chunk_at(local_row, chunk), chunk * 8);
    };
    if (args.o_scalar) {
#pragma unroll 1
        for (int step = 0; step < steps; step++)
            each_chunk(step, [&](char *to, const char *from, int channel) {
                store_elements(to, from, args.head_dim - channel);
            });
        return;
    }
#pragma unroll
    for (int step = 0; step < steps; step++)
        each_chunk(step, [&](char *to, const char *from, int) {
            *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(from);
        });
}

template <typename T16, typename S, bool Lists>
__global__ void __launch_bounds__(S::threads, S::Ctas)
    attend_int8_f16(const __grid_constant__ tensor_maps maps, const __grid_constant__ attend_args args)
{
    extern __shared__ char raw[];
    __shared__ alignas(8) uint64_t barriers[1 + 4 * S::Stages];
    const uint32_t raw_shared = ptx::shared_address(raw), q_shared = (raw_shared + 1023) & ~1023u;
    const uint32_t q_full = ptx::shared_address(barriers);
    const typename S::k_ring k = {q_shared + S::q_room, q_full + 8};
    const typename S::v_ring v = {k.data + S::Stages * S::k_bytes, k.barriers + 16 * S::Stages};
    const row_block_place p = find_place<S, Lists>(args);
    const int kv_batch_head = p.batch * args.heads_kv + p.kv_head;
    const int turns = (p.tiles + S::tiles - 1) / S::tiles;

    if (threadIdx.x == 0) {
        for (const CUtensorMap *map : {&maps.q, &maps.k, &maps.v})
            ptx::prefetch_tensormap(map);
        ptx::mbarrier_init(q_full, 1);
        for (int i = 0; i < S::Stages; i++) {
            ptx::mbarrier_init(k.full(i), 1);
            ptx::mbarrier_init(v.full(i), 1);
            ptx::mbarrier_init(k.empty(i), S::Consumers);
            ptx::mbarrier_init(v.empty(i), S::Consumers);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();

    if (threadIdx.x < warpgroup) {
        ptx::setmaxnreg_dec<S::producer_registers>();
        if (threadIdx.x < 32 && turns > 0 && ptx::elect_one())
            produce<S, Lists>(maps, p, turns, q_shared, q_full, k, v, kv_batch_head);
        return;
    }
    ptx::setmaxnreg_inc<S::consumer_registers>();
    /* The same in a warp, which the compiler sees from the shuffle: descriptors then need no registers of the threads. */
    const int consumer = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / warpgroup, 0) - 1;
    const int first_row = p.first_row + consumer * 64, whole = visible_end(args, first_row) / tile_keys;
    const int row = first_row + static_cast<int>(threadIdx.x) % warpgroup / 32 * 16 + threadIdx.x % 32 / 4;
    const bool signals = threadIdx.x % warpgroup == 0;
    const float q_scale = q_scale_of(args, p.batch_head, first_row, q_scale_of_thread());
    const int k_scales = kv_batch_head * args.k_scales + k_scale_of_lane(args, static_cast<int>(threadIdx.x) % 32);

    row_pair<T16, S> state;
    state.clear();
    const auto start_scores = [&](int turn) {
        const uint64_t a = ptx::wgmma_descriptor_8bit<S::D>(ptx::wgmma_address(q_shared + consumer * box_bytes));
        const uint64_t b = ptx::wgmma_descriptor_8bit<S::D>(ptx::wgmma_address(k.at(turn)));
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < S::D / 32; step++)
            ptx::wgmma_m64n128k32_s8(state.s, a + step * 2, b + step * 2, step > 0);
        ptx::wgmma_commit();
    };
    const auto start_output = [&](int turn) {
        const uint64_t b = ptx::wgmma_descriptor(v.at(turn), S::tiles * box_bytes);
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < S::keys / 16; step++)
            ptx::wgmma_m64k16_rs<T16, S::D>(state.o, state.p[step], b + step * 16 * piece_bytes / 16);
        ptx::wgmma_commit();
    };

    /* A turn's tiles and their scales, read a turn ahead; the tiles another turn before the scales, which hang on them. */
    int tile[S::tiles], tile_ahead[S::tiles];
    float scale[S::tiles];
    const auto look_ahead = [&](int turn) {
#pragma unroll
        for (int t = 0; t < S::tiles; t++) {
            tile[t] = tile_ahead[t];
            scale[t] = k_scale_of(args, k_scales, tile[t]);
            tile_ahead[t] = tile_at<Lists>(p, (turn + 1) * S::tiles + t, -1);
        }
    };
    const auto softmax = [&] {
        const float scales[S::tiles] = {q_scale * scale[0], q_scale * scale[1]};
        int seen[S::tiles][2] = {};
        if (tile[0] < whole && tile[1] >= 0 && tile[1] < whole) {
            state.template softmax<false>(scales, seen);
            return;
        }
#pragma unroll
        for (int t = 0; t < S::tiles; t++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int end = visible_end(args, row + h * 8) - tile[t] * tile_keys;
                seen[t][h] = tile[t] < 0 ? 0 : min(max(end, 0), tile_keys);
            }
        state.template softmax<true>(scales, seen);
    };

    if (turns > 0) {
#pragma unroll
        for (int t = 0; t < S::tiles; t++)
            tile_ahead[t] = tile_at<Lists>(p, t, -1);
        look_ahead(0);
        ptx::mbarrier_wait_parity(q_full, 0);
        k.wait_full(0);
        start_scores(0);
        ptx::wgmma_wait<0>();
        ptx::wgmma_pin(state.s);
        if (signals)
            ptx::mbarrier_arrive(k.empty(0));
        softmax();
        look_ahead(1);
        state.rescale();
        state.pack();
#pragma unroll 1
        for (int j = 1; j < turns; j++) {
            k.wait_full(j);
            start_scores(j);
            v.wait_full(j - 1);
            start_output(j - 1);
            ptx::wgmma_wait<1>();
            ptx::wgmma_pin(state.s);
            if (signals)
                ptx::mbarrier_arrive(k.empty(j));
            softmax();
            look_ahead(j + 1);
            ptx::wgmma_wait<0>();
            ptx::wgmma_pin(state.o);
            if (signals)
                ptx::mbarrier_arrive(v.empty(j - 1));
            state.rescale();
            state.pack();
        }
        v.wait_full(turns - 1);
        start_output(turns - 1);
        ptx::wgmma_wait<0>();
        ptx::wgmma_pin(state.o);
    }
    store_rows<T16, S>(args, p, consumer, raw + (q_shared - raw_shared), state.o, state.m, state.l);
}

template <typename T16, typename S, bool Lists> attend_kernel_entry entry_int8_f16()
{
    return {reinterpret_cast<const void *>(&attend_int8_f16<T16, S, Lists>),
            S::rows,
            S::threads,
            S::shared_bytes,
            1,
            nullptr,
            0};
}

/* Blocks of 64 queries are of lists alone. */
template <typename T16, typename Rows128, typename Rows64> attend_kernel_entry entry_int8_f16(int rows, int lists)
{
    if (lists)
        return rows == 64 ? entry_int8_f16<T16, Rows64, true>() : entry_int8_f16<T16, Rows128, true>();
    return rows == 128 ? entry_int8_f16<T16, Rows128, false>() : attend_kernel_entry{};
}

template <typename Rows128, typename Rows64> attend_kernel_entry entry_int8_f16(const attend_kernel_key &key)
{
    return key.bf16 ? entry_int8_f16<__nv_bfloat16, Rows128, Rows64>(key.rows, key.lists)
                    : entry_int8_f16<__half, Rows128, Rows64>(key.rows, key.lists);
}

} // namespace sparge::sm90

#endif
