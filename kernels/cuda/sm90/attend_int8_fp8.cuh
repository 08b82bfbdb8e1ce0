/* INT8 Q K^T and FP8 P V by TMA and wgmma, for sm_90a: dense, or over lists of 64-key tiles.
 *
 * A CTA computes row blocks of 64 or 128 queries of one head, one after the other, as it takes them from a queue. Of its
 * warpgroups the first loads (int8_fp8_producer.cuh), and each of the others, the consumers, computes 64 rows
 * (int8_fp8_rows.cuh), in turns of 128 keys: two tiles of 64, the next ones of the row block, wherever they are. A last turn may
 * lack one: it is loaded from where there is nothing, as zeros, and masked. A stage of shared memory holds what a turn reads:
 * K of its own keys, and V of those before. The producer is as far ahead as there are empty stages, into the next row block too;
 * Q's room is empty when a row block's last scores are there.
 *
 *   tensor     S = Q K(j)^T | T += P V(j-1) .......................... | S = Q K(j+1)^T | T += P V(j)
 *   other      constants of | max, exp2 of turn j, P in e4m3            | O += T, if due
 *              turn j       |
 *   signals                                                     stage empty
 *
 * S is s32; its scale is the thread's of Q times the thread's of the tile's K (int8_scores.cuh). Exponentials are of three forms (Form): exact
 * ones, by ex2 in f32; and in pairs of 16 bits, packed_exp.cuh, which are left to the exact form where they cannot be had, in
 * masked turns, and in the first one. Kernels that store the LSE have the exact form, and add up P before it is rounded.
 *
 * P is 2^(score - m + p_exponent), where m, the row's reference, is raised when P would pass 448. A warp that does so keeps
 * the other three of its group waiting, so it must be rare: m leaves room to grow, and is adjusted now and again
 * (next_adjusted).
 * S's registers, four neighbouring columns a thread, become words of P without leaving the thread: V's keys lie in the order
 * that makes it so (cuda.h).
 *
 * T adds e4m3 products in f16, which takes half the registers and half the tensor cores' time in the register file, and
 * holds some turns (turns_of_t), fewer where their sums are large (t_is_full) or a reference is moved; then it is added to
 * O, in f32. V^T has eight more rows in shared memory, the first of quarters, which makes column D of T a quarter of the sum
 * of P as rounded: the softmax's denominator costs no instruction.
 *
 * Shared memory: Q, rows of D bytes; stages of K, 128 x D, and of V^T, twice (D + 8) x 64; rows as wide as the swizzle.
 * Registers: the producer gives up all but 24; S 64, T (D + 8) / 4, O D / 2, P 16 that are read and 16 to come, which change
 * places from turn to turn: the loop's body is of two.
 * Traffic: K and V read once a row block, mostly from L2: 2 * 128 * D bytes a turn. */
#ifndef SPARGE_SM90_ATTEND_INT8_FP8_CUH
#define SPARGE_SM90_ATTEND_INT8_FP8_CUH

#include <type_traits>

#include "../ptx/wgmma_8bit.cuh"
#include "methods/recipe.h"
#include "int8_fp8_producer.cuh"
#include "int8_fp8_rows.cuh"

namespace sparge::sm90
{

/* Divides by the sums of P, scales by V's scales, rounds, stores. v_scale: of the thread's channels. */
template <typename S, exponential Form, bool Lse>
__device__ __forceinline__ void store_rows(const attend_args &args, const row_block_place &p, int consumer,
                                           const consumer_state<S, Form, Lse> &state, const float2 (&v_scale)[S::D / 8])
{
    const int thread = thread_anew(), lane = thread % 32;
    const int row = p.first_row + consumer * 64 + thread % warpgroup / 32 * 16 + lane / 4;
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
    store_eights<S::D>(args, p, row, [&](int eight, int h) {
        const float first = state.o[4 * eight + 2 * h] * inverse[h] * v_scale[eight].x,
                    second = state.o[4 * eight + 2 * h + 1] * inverse[h] * v_scale[eight].y;
        return args.o_bf16 ? pack(first, second, __nv_bfloat16()) : pack(first, second, __half());
    });
}

/* A consumer's part of the row block whose Q is there: `number`, with the parity of the next one's q_full in its highest bit,
 * so that both take one register; the row block's record is the other one. Returns that bit. */
template <typename S, bool Lists, exponential Form, bool Lse>
__device__ __forceinline__ uint32_t attend_rows(const attend_args &args, uint32_t number, int consumer,
                                                int8_fp8_memory<S> &memory)
{
    const volatile row_block_record<S> &record = memory.record[number >> 31 ^ 1];
    row_block_place p = place_of<Lists>(args, record, static_cast<int>(number & ~(1u << 31)));
    p.tiles = same_in_warp(p.tiles);
    const int kv_batch_head = p.batch * args.heads_kv + p.kv_head;
    const int turns = same_in_warp(turns_of<S>(p.tiles));
    const int first_row = same_in_warp(p.first_row) + consumer * 64;
    stage_ring<S> &ring = memory.ring;
    const int whole = visible_end(args, first_row) / tile_keys;
    const bool signals = threadIdx.x % warpgroup == 0;
    const float q_scale = record.q_scale[consumer * 16 + q_scale_of_thread()];
    const int k_scales = kv_batch_head * args.k_scales + k_scale_of_lane(args, thread_anew() % 4);
    /* Is 0, which ptxas must not know: from a copy it would take both halves of P for the same registers, see them written while
     * a product runs, and run all products one after the other. */
    const uint32_t zero = static_cast<uint32_t>(args.batch) >> 31;

    consumer_state<S, Form, Lse> state;
    state.clear();
    const uint64_t q_descriptor = ptx::wgmma_descriptor_8bit<S::D>(ptx::wgmma_address(memory.q + consumer * 64 * S::D));
    const int first_stage = same_in_warp(static_cast<int>(ptx::wgmma_address(ring.data))); /* not to be found anew */
    const auto start_scores = [&] {
        const uint64_t b = ptx::wgmma_descriptor_8bit<S::D>(first_stage + ring.stage * (S::stage_bytes / 16));
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < S::D / 32; step++)
            ptx::wgmma_m64n128k32_s8(state.s, q_descriptor + step * 2, b + step * 2, step > 0);
        ptx::wgmma_commit();
    };
    /* Adds to T, or makes it anew. */
    const auto start_output = [&](const uint32_t(&prob)[S::p_words], bool add) {
        const uint64_t b =
            ptx::wgmma_descriptor_8bit<tile_keys>(first_stage + ring.stage * (S::stage_bytes / 16) + S::k_bytes / 16);
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < S::keys / 32; step++)
            ptx::wgmma_e4m3(state.t, prob + 4 * step, b + step / 2 * (S::v_tile_bytes / 16) + step % 2 * 2,
                            add || step > 0);
        ptx::wgmma_commit();
    };

    /* Of the turn to come: are all its keys seen by all rows, and its tiles' scales. The tiles, on which these hang, are read
     * another turn ahead. */
    int tile_ahead[S::tiles];
    float k_scale[S::scales];
    bool whole_ahead = static_cast<uint32_t>(same_in_warp(record.tile[S::tiles - 1])) < static_cast<uint32_t>(whole);
#pragma unroll
    for (int t = 0; t < S::tiles; t++) {
        if (t < S::scales)
            k_scale[t] = record.k_scale[t][thread_anew() % 4];
        tile_ahead[t] = Lists ? same_in_warp(record.tile[S::tiles + t]) : S::tiles + t;
    }
    const auto scales_to_log2 = [&](float(&scale)[S::scales]) {
#pragma unroll
        for (int x = 0; x < S::scales; x++)
            scale[x] = q_scale * k_scale[x];
    };
    const auto look_ahead = [&](int turn) {
        /* Tiles ascend; a turn's last one is -1, or past the last, if it lacks one. */
        whole_ahead = static_cast<uint32_t>(tile_ahead[S::tiles - 1]) < static_cast<uint32_t>(whole);
#pragma unroll
        for (int t = 0; t < S::scales; t++)
            k_scale[t] = k_scale_of(args, k_scales, Lists ? tile_ahead[t] : min(tile_ahead[t], p.tiles - 1));
        if constexpr (Lists)
            tiles_of_turn<S, Lists>(p, turn + 1, tile_ahead);
        else
#pragma unroll
            for (int t = 0; t < S::tiles; t++)
                tile_ahead[t] = (turn + 1) * S::tiles + t;
    };
    /* in_pairs: may it be done by `packed`, which is then of this turn? is_whole: all rows see all keys. */
    const auto softmax = [&](uint32_t(&next_p)[S::p_words], int turn, packed_turn<Form, S::scales> &packed,
                             bool in_pairs, bool is_whole, const float(&scale)[S::scales]) {
        if constexpr (Form != exponential::exact)
            if (in_pairs && state.softmax(next_p, packed))
                return;
        int seen[S::tiles][2] = {};
        if (is_whole) {
            state.template softmax<false>(next_p, scale, seen, wanted_exponent(turn));
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
        state.template softmax<true>(next_p, scale, seen, wanted_exponent(turn));
    };

    float2 v_scale[S::D / 8];
    const auto load_v_scale = [&] {
        const float *of_thread = args.v_scale + static_cast<int64_t>(kv_batch_head) * S::D + thread_anew() % 4 * 2;
#pragma unroll
        for (int i = 0; i < S::D / 8; i++)
            v_scale[i] = __ldg(reinterpret_cast<const float2 *>(of_thread + i * 8));
    };

    if (turns > 0) {
        packed_turn<Form, S::scales> packed;
        ptx::mbarrier_wait_parity(ring.full(), ring.parity);
        start_scores();
        ptx::wgmma_wait<0>();
        ptx::wgmma_pin(state.s);
        if (signals)
            ptx::mbarrier_arrive(ring.empty());
        ring.next();
        if (turns == 1)
            ptx::mbarrier_arrive(memory.q_empty);
        {
            float scale[S::scales];
            scales_to_log2(scale);
            const bool is_whole = whole_ahead;
            look_ahead(1);
            softmax(state.p[0], 0, packed, false, is_whole, scale);
        }
        state.rescale(); /* zeros */
        uint32_t stage_is_there = 0;
        int adjusted = first_adjusted;
        /* odd: is j? A constant: so P's registers are, and less is asked in a loop that is bound by what it issues. */
        const auto turn = [&](auto odd, int j) {
            constexpr int Odd = decltype(odd)::value;
            if (!stage_is_there)
                ptx::mbarrier_wait_parity(ring.full(), ring.parity);
            start_scores();
            start_output(state.p[1 - Odd], !Odd || j % turns_of_t<Form> != 1);
            /* While the scores come. */
            if (!Odd && j == adjusted) {
                state.adjust(wanted_exponent(j), wanted_exponent(j) - wanted_exponent(j - 1));
                adjusted = next_adjusted(j);
            }
            float scale[S::scales];
            scales_to_log2(scale);
            const bool is_whole = whole_ahead;
            bool in_pairs = false;
            if constexpr (Form != exponential::exact)
                in_pairs = packed.start(scale, state.m, p_exponent) && state.in_pairs && is_whole;
            look_ahead(j + 1);
            ptx::wgmma_wait<1>();
            ptx::wgmma_pin(state.s);
            if (j + 1 == turns) /* each thread has read the record, and its warp's products Q */
                ptx::mbarrier_arrive(memory.q_empty);
            const uint32_t empty = ring.empty();
            ring.next();
            stage_is_there = ptx::mbarrier_test_parity(ring.full(), ring.parity);
            softmax(state.p[Odd], j, packed, in_pairs, is_whole, scale);
            ptx::wgmma_wait<0>();
            ptx::wgmma_pin(state.t);
            if (signals)
                ptx::mbarrier_arrive(empty);
            if (!Odd && j % turns_of_t<Form> == 0) {
                state.flush();
            } else if (state.moved || (!Odd && state.t_is_full())) {
                state.flush();
                state.clear_t();
            }
            if (state.moved)
                state.rescale();
        };
#pragma unroll 1
        for (int j = 1; j < turns; j += 2) {
            turn(std::true_type(), j);
            if (j + 1 == turns) {
#pragma unroll
                for (int i = 0; i < S::p_words; i++)
                    state.p[0][i] = state.p[1][i] + zero;
                break;
            }
            turn(std::false_type(), j + 1);
        }
        ptx::mbarrier_wait_parity(ring.full(), ring.parity);
        start_output(state.p[0], turns % turns_of_t<Form> != 1);
        load_v_scale();
        ptx::wgmma_wait<0>();
        ptx::wgmma_pin(state.t);
        if (signals)
            ptx::mbarrier_arrive(ring.empty());
        ring.next();
        state.flush();
    } else {
        ptx::mbarrier_arrive(memory.q_empty);
        load_v_scale();
    }
    /* Finds the place again instead of keeping it in registers that the loop needs. */
    asm volatile("" : "+r"(number));
    p = place_of<S, Lists>(args, static_cast<int>(number & ~(1u << 31)));
    store_rows<S, Form, Lse>(args, p, consumer, state, v_scale);
    return number & 1u << 31;
}

template <typename S, bool Lists, exponential Form, bool Lse>
__global__ void __launch_bounds__(S::threads, S::Ctas)
    attend_int8_fp8(const __grid_constant__ tensor_maps maps, const __grid_constant__ attend_args args)
{
    extern __shared__ char raw[];
    __shared__ alignas(8) uint64_t barriers[5 + 2 * S::stages];
    __shared__ row_block_record<S> record[2];
    const uint32_t raw_shared = ptx::shared_address(raw), q_shared = (raw_shared + 1023) & ~1023u;
    const uint32_t q_full = ptx::shared_address(barriers);
    int8_fp8_memory<S> memory = {
        q_shared, q_full, q_full + 8, q_full + 16, q_full + 32, {q_shared + S::q_bytes, q_full + 40, 0, 0}, record};

    write_quarters<S>(raw + (memory.ring.data - raw_shared));
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(memory.q_full, 1);
        ptx::mbarrier_init(memory.q_empty, S::Consumers * warpgroup);
        for (int i = 0; i < 2; i++)
            ptx::mbarrier_init(memory.record_full + 8 * i, 32);
        ptx::mbarrier_init(memory.record_wanted, 1);
        for (int i = 0; i < S::stages; i++) {
            ptx::mbarrier_init(memory.ring.barriers + 8 * i, 1);
            ptx::mbarrier_init(memory.ring.barriers + 8 * (S::stages + i), S::Consumers);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();

    /* The same in all lanes, and known to be by the compiler. */
    const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / warpgroup, 0);
    if (group == 0) {
        ptx::setmaxnreg_dec<S::producer_registers>();
        if (threadIdx.x < 32 && ptx::elect_one())
            produce<S, Lists>(maps, args, memory);
        if (threadIdx.x / 32 == 1)
            look_for_work<S, Lists>(args, memory);
        return;
    }
    ptx::setmaxnreg_inc<S::consumer_registers>();
    uint32_t parity = 0; /* of q_full, in the highest bit, beside the row block's number */
#pragma unroll 1
    while (true) {
        ptx::mbarrier_wait_parity(memory.q_full, parity >> 31);
        const int number = same_in_warp(memory.record[parity >> 31].number);
        if (number < 0)
            return;
        parity = attend_rows<S, Lists, Form, Lse>(args, (~parity & 1u << 31) | static_cast<uint32_t>(number), group - 1,
                                                  memory);
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

/* Blocks of 64 queries are of lists alone. Wide64: those with blocks of 128 keys. */
template <typename Rows128, typename Rows64, typename Wide64>
attend_kernel_entry entry_int8_fp8(const attend_kernel_key &key)
{
    if (!key.lists)
        return key.rows == 128 ? entry_int8_fp8<Rows128, false>(key.exp) : attend_kernel_entry{};
    if (key.rows == 128)
        return entry_int8_fp8<Rows128, true>(key.exp);
    return key.block_keys == 128 ? entry_int8_fp8<Wide64, true>(key.exp) : entry_int8_fp8<Rows64, true>(key.exp);
}

} // namespace sparge::sm90

#endif
