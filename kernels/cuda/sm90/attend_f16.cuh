/* 16-bit attention by TMA and wgmma, for sm_90a: dense, or over lists of 64-key tiles.
 *
 * A CTA computes row blocks of BQ = 64 * Consumers queries of one head, one after the other: its first is the blockIdx.x-th,
 * and then it takes the next one from the queue that all CTAs share, as many as fit on the device. Of its warpgroups (128
 * threads), the first loads and each of the others computes 64 rows:
 *
 *            Keys             D channels
 *        +----------+        +-----------+
 *   64   |    S     |   64   |     O     |    consumer 0        S, P and O never leave registers; a consumer's warp w
 *        +----------+        +-----------+                      has its rows 16w .. 16w + 15
 *   64   |    S     |   64   |     O     |    consumer 1
 *        +----------+        +-----------+
 *
 * A turn is a step of Keys keys: two or three tiles of 64, the next ones of the row block, wherever they are. The last turn
 * may lack tiles: they are loaded from key -64, where there is nothing, as zeros, and masked.
 *
 * Pipeline. K and V have two stages each. A stage is full when TMA has brought its bytes, and empty when every consumer has
 * read it; the barriers `full` and `empty` say so. The producer's one thread waits for empty stages and starts copies, as
 * far ahead as the stages go, into the next row block too; Q's room is empty when a row block's last scores are there, and
 * with Q comes the row block's number. A consumer runs each product beside the softmax of the turn before:
 *
 *   tensor     S = Q K(j)^T | O += P V(j-1) ............. | S = Q K(j+1)^T | O += P V(j)
 *   other                   | mask, max, exp2 of turn j   | P = S in 16 bits
 *   signals             K(j) empty              V(j-1) empty
 *
 * P is 2^(score - m), where m, the row's reference, is raised to the largest score only when that is more than `headroom`
 * above it: seldom, so that O is hardly ever rescaled, which then is done after the product that runs. P
 * stays in the registers that the product reads, so S is packed into it only when that is done. The consumers are not
 * kept in step: while one packs, the other's products run.
 *
 * Shared memory: Q, BQ rows, then two stages of K, then two of V. Each is kept in pieces of 64 channels (rows of 128 bytes,
 * the swizzle of wgmma.cuh), piece after piece; a copy brings 64 rows of a piece. O is stored from registers.
 * Registers a thread: the producer gives up all but 24; a consumer has Keys / 2 for S, Keys / 4 for P, D / 2 for O.
 * Traffic: Q read and O written once; K and V read once a row block, mostly from L2, where the row blocks of a head that run
 * together find them: 2 * 2 * D * Keys bytes a turn.
 *
 * Numbers: scores are in log2 units; masked scores are -inf. The row sum adds P before it is rounded, in f32, as does O; a
 * row that has seen no key has l = 0. */
#ifndef SPARGE_SM90_ATTEND_F16_CUH
#define SPARGE_SM90_ATTEND_F16_CUH

#include <float.h>
#include <limits.h>

#include "pieces.cuh"

namespace sparge::sm90
{

template <int D_, int Keys_, int Consumers_, int Ctas_> struct shape : cta_shape<Consumers_, Ctas_> {
    static constexpr int D = D_, Keys = Keys_;
    static constexpr int pieces = D / piece, tiles = Keys / tile_keys; /* of a turn */
    static constexpr int q_bytes = shape::rows * D * 2, stage_bytes = Keys * D * 2;
    static constexpr int shared_bytes = 1024 + q_bytes + 4 * stage_bytes; /* with room to align */
    using ring = sm90::ring<2, stage_bytes>;
};

/* P may grow to 2^headroom before the reference is raised. That is far below 65504, where binary16 ends; and P is never less
 * than it would be relative to the row's largest score, so no small P is lost for it. */
constexpr float headroom = 8;

/* The reference of a row that has seen no key: below all scores, and with it 2^(-inf - m) is 0. */
constexpr float no_reference = -FLT_MAX;

/* Of a CTA, in shared memory. */
template <typename S> struct cta_memory {
    uint32_t q, q_full, q_empty; /* addresses */
    typename S::ring k, v;
    volatile int32_t *work; /* the number of the row block that Q is of, and its tiles; -1: no more */
};

/* The producer's one thread. */
template <typename S, bool Lists>
__device__ __forceinline__ void produce(const tensor_maps &maps, const attend_args &args, const cta_memory<S> &memory)
{
    const auto load = [&](const typename S::ring &r, const CUtensorMap *map, const row_block_place &p, int first,
                          int j) {
        int tile[S::tiles];
#pragma unroll
        for (int t = 0; t < S::tiles; t++)
            tile[t] = tile_at<Lists>(p, j * S::tiles + t, -1);
        load_turn<S>(r, first + j, map, p, tile);
    };
    const uint32_t row_blocks =
        static_cast<uint32_t>(args.row_blocks) * static_cast<uint32_t>(args.batch * args.heads_q);
    uint32_t work = blockIdx.x;
    uint32_t q_parity = 1; /* Q's room begins empty: the first wait passes at once */
    int first = 0;         /* turn of the row block, counted from the CTA's first one */
#pragma unroll 1
    while (work < row_blocks) {
        const int number = row_block_number<Lists>(args, static_cast<int>(work));
        const row_block_place p = place_of<S, Lists>(args, number);
        const int turns = (p.tiles + S::tiles - 1) / S::tiles;
        if (turns > 0)
            load(memory.k, &maps.k, p, first, 0);
        ptx::mbarrier_wait_parity(memory.q_empty, q_parity);
        q_parity ^= 1;
        memory.work[0] = number;
        memory.work[1] = p.tiles;
        ptx::mbarrier_arrive_expect_tx(memory.q_full, S::q_bytes);
#pragma unroll
        for (int c = 0; c < S::pieces; c++)
#pragma unroll
            for (int i = 0; i < S::Consumers; i++)
                ptx::cp_async_bulk_tensor_4d(memory.q + (c * S::Consumers + i) * box_bytes, &maps.q, memory.q_full,
                                             c * piece, p.first_row + i * 64, p.head, p.batch);
                /* In the order of use: scores are computed a turn ahead of the output. */
#pragma unroll 1
        for (int j = 0; j < turns; j++) {
            if (j + 1 < turns)
                load(memory.k, &maps.k, p, first, j + 1);
            load(memory.v, &maps.v, p, first, j);
        }
        first += turns;
        work = gridDim.x + atomicAdd(args.queue, 1);
    }
    ptx::mbarrier_wait_parity(memory.q_empty, q_parity);
    memory.work[0] = -1;
    ptx::mbarrier_arrive(memory.q_full);
    leave_queue(args);
}

/* Does every row see all keys of a turn? whole: tiles before this one are seen by every row of the consumer. */
template <typename S, bool Lists>
__device__ __forceinline__ bool is_whole(const row_block_place &p, int turn, int whole)
{
    const int last = turn * S::tiles + S::tiles - 1;
    return last < p.tiles && (Lists ? __ldg(p.list + min(last, p.tiles - 1)) : last) < whole; /* lists ascend */
}

/* Sets scores of keys that their row does not see to -inf: in turns at the diagonal or at the end. first_row: of the
 * consumer. */
template <typename S, bool Lists>
__device__ __forceinline__ void mask_scores(float (&s)[S::Keys / 2], const row_block_place &p, int turn,
                                            const attend_args &args, int first_row)
{
    const int first = turn * S::tiles;
    constexpr int runs = Lists ? S::tiles : 1, run_keys = S::Keys / runs; /* of keys that follow each other */
    const int thread = static_cast<int>(threadIdx.x) % warpgroup, row = first_row + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int end = visible_end(args, row + h * 8);
#pragma unroll
        for (int r = 0; r < runs; r++) {
            const int tile = Lists ? tile_at<Lists>(p, first + r, end / tile_keys + 1) : first;
            const int seen = end - tile * tile_keys - thread % 4 * 2; /* keys, from the thread's first one on */
#pragma unroll
            for (int i = 0; i < run_keys / 8; i++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    if (i * 8 + e >= seen)
                        s[4 * (r * run_keys / 8 + i) + 2 * h + e] = -CUDART_INF_F;
        }
    }
}

/* What a consumer's thread holds of rows `row` and row + 8: S and O as wgmma lays them out, the references in log2 units, the
 * sums of the thread's P. */
template <typename S> struct row_pair {
    float s[S::Keys / 2]; /* scores; then P */
    float o[S::D / 2];
    float m[2], l[2];
    bool raised;    /* references of the warp, so that O is still to be multiplied by alpha */
    float alpha[2]; /* of its rows, if so */
    /* Is a reference of the warp so low that a negative score could be more than `headroom` above it? If not, a thread whose
     * scores of a turn are all negative has no need to know how large they are. */
    bool low;

    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (int i = 0; i < S::D / 2; i++)
            o[i] = 0;
        m[0] = m[1] = no_reference;
        l[0] = l[1] = 0;
        raised = false;
        low = true;
    }

    /* If a turn's largest scores, top of the thread's own columns, have left a reference of the warp behind, raises all those
     * that are lower than their row's largest score. */
    __device__ __forceinline__ void raise(float (&top)[2], float scale_log2)
    {
        if (!__any_sync(~0u, fmaf(top[0], scale_log2, -m[0]) > headroom || fmaf(top[1], scale_log2, -m[1]) > headroom))
            return;
        raised = true;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float to = fmaxf(m[h], quad_max(top[h]) * scale_log2);
            alpha[h] = exp2_approx(m[h] - to);
            m[h] = to;
            l[h] *= alpha[h];
        }
        low = __any_sync(~0u, m[0] < -headroom || m[1] < -headroom);
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

    /* The largest scores of the thread's own columns. */
    __device__ __forceinline__ void largest(float (&top)[2]) const
    {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            top[h] = fmaxf(s[2 * h], s[2 * h + 1]);
#pragma unroll
            for (int i = 1; i < S::Keys / 8; i++)
                top[h] = fmaxf(top[h], fmaxf(s[4 * i + 2 * h], s[4 * i + 2 * h + 1]));
        }
    }

    /* The same in half the instructions: floats compare like the integers of the same bits, unless both are negative. Where
     * all are negative, so is this, but it is the smallest. */
    __device__ __forceinline__ void largest_of_bits(float (&top)[2]) const
    {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int32_t most[2] = {INT_MIN, INT_MIN};
#pragma unroll
            for (int i = 0; i < S::Keys / 8; i++)
                most[i % 2] =
                    __vimax3_s32(most[i % 2], __float_as_int(s[4 * i + 2 * h]), __float_as_int(s[4 * i + 2 * h + 1]));
            top[h] = __int_as_float(max(most[0], most[1]));
        }
    }

    /* Scores -> P in place. */
    __device__ __forceinline__ void softmax(float scale_log2)
    {
        float top[2];
        if (low)
            largest(top);
        else
            largest_of_bits(top);
        raise(top, scale_log2);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float sum[2] = {0, 0};
#pragma unroll
            for (int i = 0; i < S::Keys / 8; i++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    float &x = s[4 * i + 2 * h + e];
                    x = exp2_approx(fmaf(x, scale_log2, -m[h]));
                    sum[e] += x;
                }
            l[h] += sum[0] + sum[1];
        }
    }
};

/* Divides, rounds and stores a consumer's rows. */
template <typename T16, typename S>
__device__ __forceinline__ void store_rows(const attend_args &args, const row_block_place &p, int consumer,
                                           const row_pair<S> &rows)
{
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int first = p.first_row + consumer * 64 + static_cast<int>(threadIdx.x) % warpgroup / 32 * 16 + lane / 4;
    float inverse[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int row = first + h * 8;
        const float sum = quad_sum(rows.l[h]);
        inverse[h] = sum > 0 ? 1 / sum : 0;
        if (args.lse && lane % 4 == 0 && row < args.seqlen_q)
            args.lse[p.batch_head * args.seqlen_q + row] =
                sum > 0 ? (rows.m[h] + log2f(sum)) * CUDART_LN2_F : -CUDART_INF_F;
    }
    store_eights<S::D>(args, p, first, [&](int eight, int h) {
        const int at = 4 * eight + 2 * h;
        return pack(rows.o[at] * inverse[h], rows.o[at + 1] * inverse[h], T16());
    });
}

template <typename T16, typename S, bool Lists>
__global__ void __launch_bounds__(S::threads, S::Ctas)
    attend_f16(const __grid_constant__ tensor_maps maps, const __grid_constant__ attend_args args)
{
    extern __shared__ char raw[];
    __shared__ alignas(8) uint64_t barriers[10];
    __shared__ int32_t work[2];
    const uint32_t q_shared = (ptx::shared_address(raw) + 1023) & ~1023u, q_full = ptx::shared_address(barriers);
    const cta_memory<S> memory = {q_shared,
                                  q_full,
                                  q_full + 8,
                                  {q_shared + S::q_bytes, q_full + 16},
                                  {q_shared + S::q_bytes + 2 * S::stage_bytes, q_full + 48},
                                  work};
    const typename S::ring &k = memory.k, &v = memory.v;

    if (threadIdx.x == 0) {
        for (const CUtensorMap *map : {&maps.q, &maps.k, &maps.v})
            ptx::prefetch_tensormap(map);
        ptx::mbarrier_init(memory.q_full, 1);
        ptx::mbarrier_init(memory.q_empty, S::Consumers * warpgroup);
        for (int i = 0; i < 2; i++)
            for (const typename S::ring *r : {&k, &v}) {
                ptx::mbarrier_init(r->full(i), 1);
                ptx::mbarrier_init(r->empty(i), S::Consumers);
            }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();

    if (threadIdx.x < warpgroup) {
        ptx::setmaxnreg_dec<S::producer_registers>();
        if (threadIdx.x < 32 && ptx::elect_one())
            produce<S, Lists>(maps, args, memory);
        return;
    }
    ptx::setmaxnreg_inc<S::consumer_registers>();
    /* The same in a warp, which the compiler sees from the shuffle: descriptors then need no registers of the threads. */
    const int consumer = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / warpgroup, 0) - 1;
    const bool signals = threadIdx.x % warpgroup == 0;

    row_pair<S> rows;
    uint32_t prob[S::Keys / 16][4];

    const uint64_t q_first = ptx::wgmma_descriptor(memory.q + consumer * box_bytes, 0),
                   k_first = ptx::wgmma_descriptor(k.data, 0),
                   v_first = ptx::wgmma_descriptor(v.data, S::tiles * box_bytes);
    const auto start_scores = [&](int turn) {
        const uint64_t a = q_first, b = k_first + (turn & 1) * (S::stage_bytes / 16);
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < S::D / 16; step++) {
            const int c = step / 4, within = step % 4 * 32; /* piece, bytes */
            ptx::wgmma_m64k16_ss<T16, S::Keys>(rows.s, a + (c * S::Consumers * box_bytes + within) / 16,
                                               b + (c * S::tiles * box_bytes + within) / 16, step > 0);
        }
        ptx::wgmma_commit();
    };
    const auto start_output = [&](int turn) {
        const uint64_t b = v_first + (turn & 1) * (S::stage_bytes / 16);
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < S::Keys / 16; step++)
            ptx::wgmma_m64k16_rs<T16, S::D>(rows.o, prob[step], b + step * 16 * piece_bytes / 16);
        ptx::wgmma_commit();
    };
    const auto pack_probabilities = [&] {
#pragma unroll
        for (int step = 0; step < S::Keys / 16; step++)
#pragma unroll
            for (int word = 0; word < 4; word++) {
                const int at = 8 * step + 4 * (word / 2) + 2 * (word % 2);
                prob[step][word] = pack(rows.s[at], rows.s[at + 1], T16());
            }
    };

    int end = 0; /* of the row block's turns, counted from the CTA's first one */
    uint32_t q_parity = 0;
#pragma unroll 1
    while (true) {
        ptx::mbarrier_wait_parity(memory.q_full, q_parity);
        q_parity ^= 1;
        int number = same_in_warp(memory.work[0]);
        const int tiles = same_in_warp(memory.work[1]);
        if (number < 0)
            return;
        row_block_place p = place_of<S, Lists>(args, number);
        p.tiles = tiles;
        const int first_row = p.first_row + consumer * 64, whole = visible_end(args, first_row) / tile_keys;
        const int first = end;
        end += (p.tiles + S::tiles - 1) / S::tiles;
        rows.clear();
        if (end > first) {
            k.wait_full(first);
            start_scores(first);
            ptx::wgmma_wait<0>();
            ptx::wgmma_pin(rows.s);
            if (signals)
                ptx::mbarrier_arrive(k.empty(first));
            if (!is_whole<S, Lists>(p, 0, whole))
                mask_scores<S, Lists>(rows.s, p, 0, args, first_row);
            rows.softmax(args.scale_log2);
            rows.rescale();
            pack_probabilities();
            if (end > first + 1)
                k.wait_full(first + 1);
            bool v_is_there = false;
#pragma unroll 1
            for (int j = first + 1; j < end; j++) {
                start_scores(j);
                if (!v_is_there)
                    v.wait_full(j - 1);
                start_output(j - 1);
                const bool all_seen = is_whole<S, Lists>(p, j - first, whole);
                ptx::wgmma_wait<1>();
                ptx::wgmma_pin(rows.s);
                if (signals)
                    ptx::mbarrier_arrive(k.empty(j));
                /* Here, so that the answers come beside the softmax. */
                const bool k_is_there = k.is_full(j + 1);
                v_is_there = v.is_full(j);
                if (!all_seen)
                    mask_scores<S, Lists>(rows.s, p, j - first, args, first_row);
                rows.softmax(args.scale_log2);
                ptx::wgmma_pin(rows.s);
                /* Also so that a branch stands between the softmax and the wait below: ptxas moves that wait up to the last
                 * branch, and the softmax would then run beside nothing. */
                if (j + 1 < end && !k_is_there)
                    k.wait_full(j + 1);
                ptx::wgmma_wait<0>();
                ptx::wgmma_pin(rows.o);
                if (signals)
                    ptx::mbarrier_arrive(v.empty(j - 1));
                rows.rescale();
                pack_probabilities();
            }
        }
        ptx::mbarrier_arrive(memory.q_empty); /* each thread has read `work`, and its warp's products Q */
        if (end > first) {
            v.wait_full(end - 1);
            start_output(end - 1);
            ptx::wgmma_wait<0>();
            ptx::wgmma_pin(rows.o);
            if (signals)
                ptx::mbarrier_arrive(v.empty(end - 1));
        }
        /* Finds the place again instead of keeping it in registers that the loop needs. */
        asm volatile("" : "+r"(number));
        store_rows<T16, S>(args, place_of<S, Lists>(args, number), consumer, rows);
    }
}

template <typename T16, typename S, bool Lists> attend_kernel_entry entry_of()
{
    return {reinterpret_cast<const void *>(&attend_f16<T16, S, Lists>),
            S::rows,
            S::threads,
            S::shared_bytes,
            1,
            nullptr,
            S::Ctas};
}

template <typename T16, typename Dense, typename Lists128, typename Lists64> attend_kernel_entry entry_of(int rows)
{
    switch (rows) {
    case 64:
        return entry_of<T16, Lists64, true>();
    case 128:
        return entry_of<T16, Lists128, true>();
    default:
        return entry_of<T16, Dense, false>();
    }
}

template <typename Dense, typename Lists128, typename Lists64>
attend_kernel_entry entry_of(const attend_kernel_key &key)
{
    return key.bf16 ? entry_of<__nv_bfloat16, Dense, Lists128, Lists64>(key.rows)
                    : entry_of<__half, Dense, Lists128, Lists64>(key.rows);
}

} // namespace sparge::sm90

#endif
