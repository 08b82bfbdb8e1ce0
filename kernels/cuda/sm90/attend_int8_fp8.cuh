/* INT8 Q K^T and FP8 P V by TMA and wgmma, for sm_90a: dense, or over lists of 64-key tiles.
 *
 * A CTA computes row blocks of 64 or 128 queries of one head, one after the other, as it takes them from a queue. Of its
 * warpgroups the first loads, and each of the others, the consumers, computes 64 rows, in turns of 128 keys: two tiles of 64,
 * the next ones of the row block, wherever they are. A last turn may lack one: it is loaded from where there is nothing, as
 * zeros, and masked. The producer is as far ahead as there are empty stages, into the next row block too: Q's room is empty
 * when a row block's last scores are there, and with Q comes the row block's number.
 *
 *   tensor     S = Q K(j)^T | T += P V(j-1) .......................... | S = Q K(j+1)^T | T += P V(j)
 *   other      constants of | max, exp2 of turn j, P in e4m3            | O += T, if due
 *              turn j       |
 *   signals             K(j) empty                             V(j-1) empty
 *
 * S is s32; its scale is that of the row block's Q times that of the tile's K. Exponentials are of three forms (Form): exact
 * ones, by ex2 in f32; and in pairs of 16 bits, packed_exp.cuh, which are left to the exact form where they cannot be had, in
 * masked turns, and in the first one. Kernels that store the LSE have the exact form, and add up P before it is rounded.
 *
 * P is 2^(score - m + p_exponent), where m, the row's reference, is raised when P would pass 448. A warp that does so keeps
 * the other three of its group waiting, so it must be rare: m leaves room to grow, and is adjusted now and again (adjusts).
 * S's registers, four neighbouring columns a thread, become words of P without leaving the thread: V's keys lie in the order
 * that makes it so (cuda.h).
 *
 * T adds e4m3 products in f16, which takes half the registers and half the tensor cores' time in the register file, and
 * holds four turns, or two if their sums are large (t_is_full); then it is added to O, in f32. V^T has eight more rows in
 * shared memory, the first of quarters, which makes column D of T a quarter of the sum of P as rounded: the softmax's
 * denominator costs no instruction.
 *
 * Shared memory: Q, rows of D bytes; stages of K, 128 x D, and of V^T, twice (D + 8) x 64; rows as wide as the swizzle.
 * Registers: the producer gives up all but 24; S 64, T (D + 8) / 4, O D / 2, P 16 that are read and 16 to come.
 * Traffic: K and V read once a row block, mostly from L2: 2 * 128 * D bytes a turn. */
#ifndef SPARGE_SM90_ATTEND_INT8_FP8_CUH
#define SPARGE_SM90_ATTEND_INT8_FP8_CUH

#include "../ptx/wgmma_8bit.cuh"
#include "methods/recipe.h"
#include "int8_scores.cuh"
#include "packed_exp.cuh"
#include "pieces.cuh"

namespace sparge::sm90
{

/* Consumers: of 64 rows each. Ctas: that share an SM. */
template <int D_, int Consumers_, int Ctas_, int Stages_> struct int8_fp8_shape : cta_shape<Consumers_, Ctas_> {
    static constexpr int D = D_, stages = Stages_;
    static constexpr int tiles = 2, keys = tiles * tile_keys;
    static constexpr int q_bytes = 64 * Consumers_ * D, k_bytes = keys * D;
    static constexpr int v_tile_bytes = (D + 8) * tile_keys,
                         v_bytes = tiles * v_tile_bytes; /* with the row of quarters */
    static constexpr int s_registers = keys / 2, o_registers = D / 2, t_registers = (D + 8) / 4;
    static constexpr int p_words = keys / 8, turns_of_t = 4;
    static constexpr int shared_bytes = 1024 + q_bytes + stages * (k_bytes + v_bytes);
};

/* P is 2^(score - m + p_exponent), m the row's reference, and at most 2^(p_exponent + p_headroom): then m is raised. */
constexpr float p_exponent = 6, p_headroom = 2.8f;

/* The exponent that references are adjusted to give a row's largest P: more as the row block goes on, since scores that pass
 * all before them get rare, and since weights that matter by being many may be the smaller the more they are. */
__device__ __forceinline__ float wanted_exponent(int turn)
{
    return turn < 64 ? 6 : turn < 128 ? 7 : 8;
}

/* Turns in front of which references are adjusted: when most of what a row's largest score will grow by has been seen, and
 * then now and again. */
__device__ __forceinline__ bool adjusts(int turn)
{
    return turn == 8 || turn == 32 || turn % 64 == 0;
}

/* Stages of K or V that are used in turn. */
struct stage_ring {
    uint32_t data, bytes, barriers; /* of `stages` full ones, then empty ones */
    int stages;
    int stage;
    uint32_t parity;

    __device__ uint32_t at() const { return data + stage * bytes; }
    __device__ uint32_t full() const { return barriers + stage * 8; }
    __device__ uint32_t empty() const { return barriers + (stages + stage) * 8; }
    __device__ void next()
    {
        if (++stage == stages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

/* The rows below V's in every stage: one of quarters (0x28 in e4m3; with ones, sums of P would leave f16) and seven of
 * zeros. The swizzle leaves an atom's first row where it is. */
template <typename S> __device__ __forceinline__ void write_quarters(char *v)
{
    constexpr int words = 8 * tile_keys / 4;
    for (int i = static_cast<int>(threadIdx.x); i < S::stages * S::tiles * words; i += S::threads) {
        uint32_t *rows = reinterpret_cast<uint32_t *>(v + i / words * S::v_tile_bytes + S::D * tile_keys);
        rows[i % words] = i % words < tile_keys / 4 ? 0x28282828u : 0;
    }
    ptx::fence_proxy_async();
}

/* What a CTA's warpgroups share: addresses in shared memory, and the row block whose Q is there: its number, or -1 after the
 * last, and its tiles. */
struct int8_fp8_memory {
    uint32_t q, q_full, q_empty;
    stage_ring k, v;
    volatile int32_t *work;
};

/* The producer's one thread: row blocks from the queue, as far ahead as there are empty stages. */
template <typename S, bool Lists>
__device__ __forceinline__ void produce(const tensor_maps &maps, const attend_args &args, int8_fp8_memory memory)
{
    stage_ring &k = memory.k, &v = memory.v;
    const uint32_t row_blocks =
        static_cast<uint32_t>(args.row_blocks) * static_cast<uint32_t>(args.batch * args.heads_q);
    uint32_t work = blockIdx.x, q_parity = 1;
    k.parity = v.parity = 1; /* all begin empty: the first waits pass at once */
#pragma unroll 1
    while (work < row_blocks) {
        const int number = row_block_number<Lists>(args, static_cast<int>(work));
        const row_block_place p = place_of<S, Lists>(args, number);
        const int kv_batch_head = p.batch * args.heads_kv + p.kv_head;
        const int turns = (p.tiles + S::tiles - 1) / S::tiles;
        const auto load_k = [&](int turn) {
            ptx::mbarrier_wait_parity(k.empty(), k.parity);
            ptx::mbarrier_arrive_expect_tx(k.full(), S::k_bytes);
#pragma unroll
            for (int t = 0; t < S::tiles; t++)
                ptx::cp_async_bulk_tensor_3d(k.at() + t * tile_keys * S::D, &maps.k, k.full(), 0,
                                             tile_at<Lists>(p, turn * S::tiles + t, -1) * tile_keys, kv_batch_head);
            k.next();
        };
        const auto load_v = [&](int turn) {
            ptx::mbarrier_wait_parity(v.empty(), v.parity);
            ptx::mbarrier_arrive_expect_tx(v.full(), S::tiles * S::D * tile_keys);
#pragma unroll
            for (int t = 0; t < S::tiles; t++)
                ptx::cp_async_bulk_tensor_3d(v.at() + t * S::v_tile_bytes, &maps.v, v.full(), 0,
                                             tile_at<Lists>(p, turn * S::tiles + t, -1) * S::D, kv_batch_head);
            v.next();
        };
        if (turns > 0)
            load_k(0);
        ptx::mbarrier_wait_parity(memory.q_empty, q_parity);
        q_parity ^= 1;
        memory.work[0] = number;
        memory.work[1] = p.tiles;
        ptx::mbarrier_arrive_expect_tx(memory.q_full, S::q_bytes);
#pragma unroll
        for (int i = 0; i < S::Consumers; i++)
            ptx::cp_async_bulk_tensor_3d(memory.q + i * 64 * S::D, &maps.q, memory.q_full, 0, p.first_row + i * 64,
                                         p.batch_head);
#pragma unroll 1
        for (int j = 0; j < turns; j++) { /* in the order of use: scores are computed a turn ahead of the output */
            if (j + 1 < turns)
                load_k(j + 1);
            load_v(j);
        }
        work = gridDim.x + atomicAdd(args.queue, 1);
    }
    ptx::mbarrier_wait_parity(memory.q_empty, q_parity);
    memory.work[0] = -1;
    ptx::mbarrier_arrive(memory.q_full);
    leave_queue(args);
}

/* What a consumer's thread holds: rows `row` and row + 8 of S, O and T as wgmma lays them out. */
template <typename S, exponential Form, bool Lse> struct consumer_state {
    int32_t s[S::s_registers];
    float o[S::o_registers], quarter[2]; /* column D: a quarter of the sum of P, the first lane's of each four */
    uint32_t t[S::t_registers], p[S::p_words], next_p[S::p_words]; /* of the running product, of the next one */
    float m[2], l[2]; /* reference in log2 units; sum of P, of kernels that store the LSE */
    bool moved;       /* references of the warp, so that O and T are still to be multiplied by alpha */
    float alpha[2];   /* of its rows, if so */
    /* The thread's largest P since m was set: of packed turns as packed_turn::largest(), of exact ones the exponent's bits. */
    uint32_t largest[2];

    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (int i = 0; i < S::o_registers; i++)
            o[i] = 0;
        clear_t();
        moved = false;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            m[h] = -CUDART_INF_F;
            alpha[h] = 1;
            l[h] = quarter[h] = 0;
            largest[h] = none();
        }
    }

    __device__ __forceinline__ void clear_t()
    {
#pragma unroll
        for (int i = 0; i < S::t_registers; i++)
            t[i] = 0;
    }

    /* O += T. What is in T has been counted. */
    __device__ __forceinline__ void flush()
    {
#pragma unroll
        for (int i = 0; i < S::o_registers / 2; i++) {
            const float2 two = halves(t[i]);
            o[2 * i] += two.x;
            o[2 * i + 1] += two.y;
        }
#pragma unroll
        for (int h = 0; h < 2; h++)
            quarter[h] += halves(t[S::o_registers / 2 + h]).x;
    }

    static __device__ __forceinline__ float2 halves(uint32_t word)
    {
        __half2 pair;
        memcpy(&pair, &word, sizeof pair);
        return __half22float2(pair);
    }

    static __device__ __forceinline__ uint32_t none()
    {
        return Form == exponential::exact ? __float_as_uint(-CUDART_INF_F) : f16_ones;
    }

    /* The exponent of `largest`. */
    __device__ __forceinline__ float largest_exponent(int h) const
    {
        if constexpr (Form == exponential::exact)
            return __uint_as_float(largest[h]);
        else
            return packed_turn<Form, S::tiles>::exponent_of(largest[h]);
    }

    /* New references for P that is made from now on. */
    __device__ __forceinline__ void set_references(const float (&to)[2])
    {
        moved = true;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float factor = m[h] == to[h] ? 1 : exp2_approx(m[h] - to[h]); /* both may be -inf */
            m[h] = to[h];
            alpha[h] *= factor;
            l[h] *= factor;
            largest[h] = none();
        }
    }

    /* When the product that ran is done, and all warps of the group have waited for it: not where references are set, for the
     * wait is the group's. T must have been counted. */
    __device__ __forceinline__ void rescale()
    {
        scale_rows(o, alpha);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            quarter[h] *= alpha[h];
            alpha[h] = 1;
        }
        moved = false;
    }

    /* If a turn's largest scores, top of the thread's own columns, have left references behind, raises all those of the warp
     * that are lower. The other warps of the group wait for the one that does: it must be rare. */
    __device__ __forceinline__ void raise(const float (&top)[2], float wanted)
    {
        if (!__any_sync(~0u, top[0] > m[0] + p_headroom || top[1] > m[1] + p_headroom))
            return;
        const float to[2] = {fmaxf(m[0], quad_max(top[0]) + p_exponent - wanted),
                             fmaxf(m[1], quad_max(top[1]) + p_exponent - wanted)};
        set_references(to);
    }

    /* Before the scores of a turn: raises references to where the largest P since the last time has the exponent `wanted`, and
     * lowers all by `lower`. */
    __device__ __forceinline__ void adjust(float wanted, float lower)
    {
        float to[2];
        bool any = false;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float by = fmaxf(quad_max(largest_exponent(h)) - wanted, -lower);
            any = any || by > 0.25f || lower != 0;
            to[h] = m[h] + by;
        }
        if (__any_sync(~0u, any))
            set_references(to);
    }

    /* Scores -> P. scale: of each tile's scores, to log2 units. seen[t][h]: keys of tile t that row h sees. */
    template <bool Masked>
    __device__ __forceinline__ void softmax(const float (&scale)[S::tiles], const int (&seen)[S::tiles][2],
                                            float wanted)
    {
        const int lane_key = thread_anew() % 4 * 2;
        float top[2];
        largest_scores<Masked>(s, scale, seen, lane_key, top);
        raise(top, wanted);
        float shift[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            shift[h] = p_exponent - (m[h] == -CUDART_INF_F ? 0 : m[h]);
            if constexpr (Form == exponential::exact)
                largest[h] = __float_as_uint(fmaxf(__uint_as_float(largest[h]), top[h] + shift[h]));
        }
        each_word([&](int word, int x, int h, int a) {
            float value[4];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int at = a + e % 2 + e / 2 * 4;
                value[e] = exp2_approx(fmaf(static_cast<float>(s[at]), scale[x], shift[h]));
                if constexpr (Masked) /* a tiny scale could bring INT_MIN back to life */
                    value[e] = at / 4 % 8 * 8 + e % 2 + lane_key < seen[x][h] ? value[e] : 0;
                if constexpr (Lse)
                    l[h] += value[e];
            }
            next_p[word] = pack_e4m3(value[0], value[1], value[2], value[3]);
        });
    }

    /* The same in pairs, of a turn whose keys are all seen. False: a weight is too large. */
    __device__ __forceinline__ bool softmax(packed_turn<Form, S::tiles> &turn)
    {
        each_word([&](int word, int x, int h, int a) {
            next_p[word] = turn.word(turn.pair(x, h, s[a], s[a + 1]), turn.pair(x, h, s[a + 4], s[a + 5]));
        });
        const uint32_t of_turn[2] = {turn.largest(0), turn.largest(1)};
        if (turn.above(of_turn[0], of_turn[1]))
            return false;
        largest[0] = __vmaxs2(largest[0], of_turn[0]);
        largest[1] = __vmaxs2(largest[1], of_turn[1]);
        return true;
    }

    /* Of P in e4m3, as words: of k step k, word h + 2 g is row h of the columns 2q, 2q + 1 of the eight keys 4k + 2g, and of
     * the next. f(word, its tile, row, its first score). */
    template <typename F> static __device__ __forceinline__ void each_word(F &&f)
    {
#pragma unroll
        for (int k = 0; k < S::p_words / 4; k++)
#pragma unroll
            for (int g = 0; g < 2; g++)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    f(4 * k + h + 2 * g, k / 2, h, 4 * (4 * k + 2 * g) + 2 * h);
    }

    /* zero: is 0, which ptxas must not know: it would take both for the same registers, see them written while a product
     * runs, and run all products one after the other. */
    __device__ __forceinline__ void take_p(uint32_t zero)
    {
#pragma unroll
        for (int i = 0; i < S::p_words; i++)
            p[i] = next_p[i] + zero;
    }

    /* Could T not hold two more turns? The same in a warp. Column D, the first lane's of each four, has a quarter of the sum
     * of P, so |T| is at most four times V's largest of it. */
    __device__ __forceinline__ bool t_is_full() const
    {
        const uint32_t largest = 4000 / 2 - 1024 + (11 + 15 << 10); /* in f16 */
        return __any_sync(~0u, max(t[S::D / 4], t[S::D / 4 + 1]) > largest);
    }
};

/* Divides by the sums of P, scales by V's scales, rounds, stores. */
template <typename S, exponential Form, bool Lse>
__device__ __forceinline__ void store_rows(const attend_args &args, const row_block_place &p, int consumer,
                                           const consumer_state<S, Form, Lse> &state)
{
    const int thread = thread_anew(), lane = thread % 32;
    const int row = p.first_row + consumer * 64 + thread % warpgroup / 32 * 16 + lane / 4;
    const float *v_scale = args.v_scale + static_cast<int64_t>(p.batch * args.heads_kv + p.kv_head) * S::D;
    float inverse[2];
#pragma unroll
    for (int h = 0; h < 2; h++) { /* while all lanes are together: some rows may not exist */
        const float sum = 4 * __shfl_sync(~0u, state.quarter[h], lane & ~3); /* column D: the first lane's */
        inverse[h] = sum != 0 ? 1 / sum : 0;                                 /* NaN stays NaN */
        if constexpr (Lse) {
            const float exact_sum = quad_sum(state.l[h]);
            if (lane % 4 == 0 && row + 8 * h < args.seqlen_q) {
                const int64_t index = static_cast<int64_t>(p.batch_head) * args.seqlen_q + row + 8 * h;
                const float offset = args.lse_offset ? args.lse_offset[index] : 0;
                args.lse[index] = state.m[h] == -CUDART_INF_F
                                      ? -CUDART_INF_F
                                      : (state.m[h] + log2f(exact_sum) - p_exponent) * CUDART_LN2_F + offset;
            }
        }
    }
    uint16_t *out = static_cast<uint16_t *>(args.o.data) + p.batch * args.o.batch_stride + p.head * args.o.head_stride +
                    static_cast<int64_t>(row) * args.o.token_stride;
#pragma unroll
    for (int i = 0; i < S::D / 8; i++) {
        const int channel = i * 8 + lane % 4 * 2;
        if (channel >= args.head_dim)
            continue;
        const float2 scale = __ldg(reinterpret_cast<const float2 *>(v_scale + channel));
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if (row + 8 * h >= args.seqlen_q)
                continue;
            const float first = state.o[4 * i + 2 * h] * inverse[h] * scale.x,
                        second = state.o[4 * i + 2 * h + 1] * inverse[h] * scale.y;
            const uint32_t pair = args.o_bf16 ? pack(first, second, __nv_bfloat16()) : pack(first, second, __half());
            uint16_t *to = out + h * 8 * args.o.token_stride + channel;
            if (!args.o_scalar) {
                *reinterpret_cast<uint32_t *>(to) = pair;
            } else {
                to[0] = static_cast<uint16_t>(pair);
                if (channel + 1 < args.head_dim)
                    to[1] = static_cast<uint16_t>(pair >> 16);
            }
        }
    }
}

/* A consumer's part of a row block whose Q is there: `work` without its highest bit, which is kept for the caller so that both
 * take one register. */
template <typename S, bool Lists, exponential Form, bool Lse>
__device__ __forceinline__ uint32_t attend_rows(const attend_args &args, uint32_t work, int tiles, int consumer,
                                                int8_fp8_memory &memory)
{
    row_block_place p = place_of<S, Lists>(args, static_cast<int>(work & ~(1u << 31)));
    p.tiles = tiles;
    const int kv_batch_head = p.batch * args.heads_kv + p.kv_head;
    const int turns = (p.tiles + S::tiles - 1) / S::tiles;
    const int first_row = p.first_row + consumer * 64;
    stage_ring &k = memory.k, &v = memory.v;
    const int whole = visible_end(args, first_row) / tile_keys;
    const bool signals = threadIdx.x % warpgroup == 0;
    const float q_scale =
        args.scale_log2 * args.q_scale[static_cast<int64_t>(p.batch_head) * args.q_scales + p.first_row / S::rows];
    int k_scales = kv_batch_head * args.k_scales;
    asm volatile("" : "+r"(k_scales)); /* not uniform: what is read there must not take the way by uniform registers */
    const uint32_t zero = static_cast<uint32_t>(args.batch) >> 31;

    consumer_state<S, Form, Lse> state;
    state.clear();
    const uint64_t q_descriptor = ptx::wgmma_descriptor_8bit<S::D>(memory.q + consumer * 64 * S::D);
    const auto start_scores = [&] {
        const uint64_t b = ptx::wgmma_descriptor_8bit<S::D>(k.at());
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < S::D / 32; step++)
            ptx::wgmma_m64n128k32_s8(state.s, q_descriptor + step * 2, b + step * 2, step > 0);
        ptx::wgmma_commit();
    };
    /* Adds to T, or makes it anew. */
    const auto start_output = [&](bool add) {
        const uint64_t b = ptx::wgmma_descriptor_8bit<tile_keys>(v.at());
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < S::keys / 32; step++)
            ptx::wgmma_e4m3(state.t, state.p + 4 * step, b + step / 2 * (S::v_tile_bytes / 16) + step % 2 * 2,
                            add || step > 0);
        ptx::wgmma_commit();
    };

    /* Of the turn to come: are all its keys seen by all rows, and its tiles' scales. The tiles, on which these hang, are read
     * another turn ahead. */
    int tile_ahead[S::tiles];
#pragma unroll
    for (int t = 0; t < S::tiles; t++)
        tile_ahead[t] = tile_at<Lists>(p, t, -1);
    float k_scale[S::tiles];
    bool whole_ahead;
    const auto look_ahead = [&](int turn) {
        /* Tiles ascend; a turn's last one is -1 if it lacks one. */
        whole_ahead = static_cast<uint32_t>(tile_ahead[S::tiles - 1]) < static_cast<uint32_t>(whole);
#pragma unroll
        for (int t = 0; t < S::tiles; t++) {
            k_scale[t] = __ldg(args.k_scale + (k_scales + (max(tile_ahead[t], 0) >> args.k_scale_shift)));
            tile_ahead[t] = tile_at<Lists>(p, (turn + 1) * S::tiles + t, -1);
        }
    };
    /* in_pairs: `packed` is of this turn; or pairs cannot hold its weights. is_whole: all rows see all keys. */
    const auto softmax = [&](int turn, packed_turn<Form, S::tiles> &packed, bool in_pairs, bool is_whole,
                             const float(&scale)[S::tiles]) {
        if constexpr (Form != exponential::exact)
            if (in_pairs && state.softmax(packed))
                return;
        int seen[S::tiles][2] = {};
        if (is_whole) {
            state.template softmax<false>(scale, seen, wanted_exponent(turn));
            return;
        }
        const int thread = thread_anew(), row = first_row + thread % warpgroup / 32 * 16 + thread % 32 / 4;
#pragma unroll
        for (int t = 0; t < S::tiles; t++) {
            const int at = tile_at<Lists>(p, turn * S::tiles + t, -1);
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int end = visible_end(args, row + h * 8) - at * tile_keys;
                seen[t][h] = at < 0 ? 0 : min(max(end, 0), tile_keys);
            }
        }
        state.template softmax<true>(scale, seen, wanted_exponent(turn));
    };

    if (turns > 0) {
        packed_turn<Form, S::tiles> packed;
        look_ahead(0);
        ptx::mbarrier_wait_parity(k.full(), k.parity);
        start_scores();
        ptx::wgmma_wait<0>();
        ptx::wgmma_pin(state.s);
        if (signals)
            ptx::mbarrier_arrive(k.empty());
        k.next();
        {
            const float scale[S::tiles] = {q_scale * k_scale[0], q_scale * k_scale[1]};
            const bool is_whole = whole_ahead;
            look_ahead(1);
            softmax(0, packed, false, is_whole, scale);
        }
        state.rescale(); /* zeros */
        state.take_p(zero);
        bool add = false; /* to T */
        uint32_t k_is_there = 0, v_is_there = 0;
#pragma unroll 1
        for (int j = 1; j < turns; j++) {
            if (!k_is_there)
                ptx::mbarrier_wait_parity(k.full(), k.parity);
            start_scores();
            if (!v_is_there)
                ptx::mbarrier_wait_parity(v.full(), v.parity);
            start_output(add);
            /* While the scores come. */
            add = j % S::turns_of_t != 0;
            if (adjusts(j))
                state.adjust(wanted_exponent(j), wanted_exponent(j) - wanted_exponent(j - 1));
            const float scale[S::tiles] = {q_scale * k_scale[0], q_scale * k_scale[1]};
            const bool is_whole = whole_ahead;
            bool in_pairs = false;
            if constexpr (Form != exponential::exact)
                in_pairs = packed.start(scale, state.m, p_exponent, is_whole);
            look_ahead(j + 1);
            ptx::wgmma_wait<1>();
            ptx::wgmma_pin(state.s);
            if (signals)
                ptx::mbarrier_arrive(k.empty());
            k.next();
            k_is_there = ptx::mbarrier_test_parity(k.full(), k.parity);
            stage_ring next_v = v;
            next_v.next();
            v_is_there = ptx::mbarrier_test_parity(next_v.full(), next_v.parity);
            softmax(j, packed, in_pairs, is_whole, scale);
            ptx::wgmma_wait<0>();
            ptx::wgmma_pin(state.t);
            if (signals)
                ptx::mbarrier_arrive(v.empty());
            v.next();
            if (!add) {
                state.flush();
            } else if (state.moved || (j % S::turns_of_t == S::turns_of_t / 2 && state.t_is_full())) {
                state.flush();
                state.clear_t();
            }
            if (state.moved)
                state.rescale();
            state.take_p(zero);
        }
        ptx::mbarrier_arrive(memory.q_empty); /* each thread has read `work`, and its warp's products Q */
        ptx::mbarrier_wait_parity(v.full(), v.parity);
        start_output(add);
        ptx::wgmma_wait<0>();
        ptx::wgmma_pin(state.t);
        if (signals)
            ptx::mbarrier_arrive(v.empty());
        v.next();
        state.flush();
    } else {
        ptx::mbarrier_arrive(memory.q_empty);
    }
    /* Finds the place again instead of keeping it in registers that the loop needs. */
    asm volatile("" : "+r"(work));
    store_rows<S, Form, Lse>(args, place_of<S, Lists>(args, static_cast<int>(work & ~(1u << 31))), consumer, state);
    return work & 1u << 31;
}

template <typename S, bool Lists, exponential Form, bool Lse>
__global__ void __launch_bounds__(S::threads, S::Ctas)
    attend_int8_fp8(const __grid_constant__ tensor_maps maps, const __grid_constant__ attend_args args)
{
    extern __shared__ char raw[];
    __shared__ alignas(8) uint64_t barriers[2 + 4 * S::stages];
    __shared__ int32_t work[2];
    const uint32_t raw_shared = ptx::shared_address(raw), q_shared = (raw_shared + 1023) & ~1023u;
    const uint32_t q_full = ptx::shared_address(barriers), k_data = q_shared + S::q_bytes;
    int8_fp8_memory memory = {
        q_shared,
        q_full,
        q_full + 8,
        {k_data, S::k_bytes, q_full + 16, S::stages, 0, 0},
        {k_data + S::stages * S::k_bytes, S::v_bytes, q_full + 16 + 16 * S::stages, S::stages, 0, 0},
        work};
    stage_ring &k = memory.k, &v = memory.v;

    write_quarters<S>(raw + (v.data - raw_shared));
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(memory.q_full, 1);
        ptx::mbarrier_init(memory.q_empty, S::Consumers * warpgroup);
        for (int i = 0; i < S::stages; i++)
            for (const stage_ring *r : {&k, &v}) {
                ptx::mbarrier_init(r->barriers + 8 * i, 1);
                ptx::mbarrier_init(r->barriers + 8 * (S::stages + i), S::Consumers);
            }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();

    /* The same in all lanes, and known to be by the compiler. */
    const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / warpgroup, 0);
    if (group == 0) {
        ptx::setmaxnreg_dec<S::producer_registers>();
        if (threadIdx.x == 0)
            produce<S, Lists>(maps, args, memory);
        return;
    }
    ptx::setmaxnreg_inc<S::consumer_registers>();
    uint32_t parity = 0; /* of q_full, in the highest bit, beside the row block's number */
#pragma unroll 1
    while (true) {
        ptx::mbarrier_wait_parity(memory.q_full, parity >> 31);
        const int number = same_in_warp(memory.work[0]), tiles = same_in_warp(memory.work[1]);
        if (number < 0)
            return;
        parity = attend_rows<S, Lists, Form, Lse>(args, (~parity & 1u << 31) | static_cast<uint32_t>(number), tiles,
                                                  group - 1, memory);
    }
}

/* Kernels that store the LSE, which is of the exact exponentials. */
template <typename S, bool Lists, exponential Form> attend_kernel_entry entry_int8_fp8()
{
    return {reinterpret_cast<const void *>(&attend_int8_fp8<S, Lists, Form, false>),
            S::rows,
            S::threads,
            S::shared_bytes,
            1,
            reinterpret_cast<const void *>(&attend_int8_fp8<S, Lists, exponential::exact, true>),
            S::Ctas};
}

template <typename S, bool Lists> attend_kernel_entry entry_int8_fp8(int exp)
{
    switch (exp) {
    case SPARGE_EXP_FAST:
        return entry_int8_fp8<S, Lists, exponential::fast>();
    case SPARGE_EXP_ACCURATE:
        return entry_int8_fp8<S, Lists, exponential::accurate>();
    default:
        return entry_int8_fp8<S, Lists, exponential::exact>();
    }
}

/* Blocks of 64 queries are of lists alone. */
template <typename Rows128, typename Rows64> attend_kernel_entry entry_int8_fp8(const attend_kernel_key &key)
{
    if (!key.block_scales)
        return {};
    if (key.lists)
        return key.rows == 64 ? entry_int8_fp8<Rows64, true>(key.exp) : entry_int8_fp8<Rows128, true>(key.exp);
    return key.rows == 128 ? entry_int8_fp8<Rows128, false>(key.exp) : attend_kernel_entry{};
}

} // namespace sparge::sm90

#endif
