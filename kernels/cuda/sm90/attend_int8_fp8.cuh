/* INT8 Q K^T and FP8 P V by TMA and wgmma, for sm_90a: dense, or over lists of 64-key tiles.
 *
 * One CTA computes one row block of 128 queries of one head. Of its warpgroups the first loads, and each of the two others
 * computes 64 rows, in turns of 128 keys: two tiles of 64, the next ones of the row block, wherever they are. A last turn
 * may lack one: it is loaded from where there is nothing, as zeros, and masked.
 *
 *   tensor     S = Q K(j)^T | T += P V(j-1) ............. | S = Q K(j+1)^T | T += P V(j)
 *   other                   | mask, max, exp2 of turn j   | P = S in e4m3
 *   signals             K(j) empty               V(j-1) empty
 *
 * S is s32; its scale is that of the row block's Q times that of the tile's K, so a row's largest score is the larger of
 * two integer maxima, each times its scale. P is 2^(score - m + 7), where m, the row's reference, is raised to the largest
 * score only when P would pass 448: seldom, so that O is hardly ever rescaled, and the warp that does it first waits for the
 * product that runs. S's registers, four neighbouring columns a thread, become words of P without leaving the thread: V's
 * keys lie in the order that makes it so (cuda.h).
 *
 * T adds e4m3 products in f16, which takes half the registers and half the tensor cores' time in the register file, and
 * holds two turns (SPARGE_FP8_V_MAX): then it is added to O, in f32. V^T has eight more rows in shared memory, the first
 * of quarters, which makes column D of T a quarter of the sum of P as rounded: the softmax's denominator costs no
 * instruction. The LSE wants the sum of P before rounding; kernels that store it (Lse) add that up too.
 *
 * Shared memory: Q, 128 rows of D bytes; four stages of K, 128 x D, and of V^T, twice (D + 8) x 64; rows as wide as the
 * swizzle. Registers: the producer gives up all but 24; S 64, T (D + 8) / 4, O (D + 8) / 2, P 16.
 * Traffic: K and V read once a row block, mostly from L2: 2 * 128 * D bytes a turn. */
#ifndef SPARGE_SM90_ATTEND_INT8_FP8_CUH
#define SPARGE_SM90_ATTEND_INT8_FP8_CUH

#include <limits.h>
#include <type_traits>

#include "../ptx/wgmma_8bit.cuh"
#include "row_block.cuh"

namespace sparge::sm90
{

template <int D_> struct int8_fp8_shape {
    static constexpr int D = D_, Consumers = 2, rows = 64 * Consumers, threads = warpgroup * (1 + Consumers);
    static constexpr int tiles = 2, keys = tiles * tile_keys, stages = 4;
    static constexpr int q_bytes = rows * D, k_bytes = keys * D;
    static constexpr int v_tile_bytes = (D + 8) * tile_keys,
                         v_bytes = tiles * v_tile_bytes; /* with the row of quarters */
    static constexpr int s_registers = keys / 2, o_registers = (D + 8) / 2, t_registers = (D + 8) / 4;
    static constexpr int p_words = keys / 8, turns_of_t = 2;
    static constexpr int shared_bytes = 1024 + q_bytes + stages * (k_bytes + v_bytes);
};

/* P is at most 2^p_exponent when the reference is raised, and may grow by 2^headroom before it is raised again. */
constexpr float p_exponent = 7, headroom = 1.8f;

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

/* The producer's one thread. */
template <typename S, bool Lists>
__device__ __forceinline__ void produce(const tensor_maps &maps, const row_block_place &p, int turns, uint32_t q_shared,
                                        uint32_t q_full, stage_ring k, stage_ring v, int kv_batch_head)
{
    ptx::mbarrier_arrive_expect_tx(q_full, S::q_bytes);
#pragma unroll
    for (int i = 0; i < S::Consumers; i++)
        ptx::cp_async_bulk_tensor_3d(q_shared + i * 64 * S::D, &maps.q, q_full, 0, p.first_row + i * 64, p.batch_head);
    k.parity = v.parity = 1; /* stages begin empty: the first waits pass at once */
#pragma unroll 1
    for (int j = 0; j < turns; j++) {
        int tile[S::tiles];
#pragma unroll
        for (int t = 0; t < S::tiles; t++)
            tile[t] = tile_at<Lists>(p, j * S::tiles + t, -1);
        ptx::mbarrier_wait_parity(k.empty(), k.parity);
        ptx::mbarrier_arrive_expect_tx(k.full(), S::k_bytes);
#pragma unroll
        for (int t = 0; t < S::tiles; t++)
            ptx::cp_async_bulk_tensor_3d(k.at() + t * tile_keys * S::D, &maps.k, k.full(), 0, tile[t] * tile_keys,
                                         kv_batch_head);
        ptx::mbarrier_wait_parity(v.empty(), v.parity);
        ptx::mbarrier_arrive_expect_tx(v.full(), S::tiles * S::D * tile_keys);
#pragma unroll
        for (int t = 0; t < S::tiles; t++)
            ptx::cp_async_bulk_tensor_3d(v.at() + t * S::v_tile_bytes, &maps.v, v.full(), 0, tile[t] * S::D,
                                         kv_batch_head);
        k.next();
        v.next();
    }
}

/* What a consumer's thread holds: rows `row` and row + 8 of S, O and T as wgmma lays them out. */
template <typename S, bool Lse> struct consumer_state {
    int32_t s[S::s_registers]; /* scores; then P, the bits of floats */
    float o[S::o_registers];
    uint32_t t[S::t_registers], p[S::p_words];
    float m[2], l[2]; /* reference in log2 units; sum of P, of kernels that store the LSE */

    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (int i = 0; i < S::o_registers; i++)
            o[i] = 0;
#pragma unroll
        for (int i = 0; i < S::t_registers; i++)
            t[i] = 0;
        m[0] = m[1] = -CUDART_INF_F;
        l[0] = l[1] = 0;
    }

    /* O += T. */
    __device__ __forceinline__ void flush()
    {
#pragma unroll
        for (int i = 0; i < S::t_registers; i++) {
            __half2 pair;
            memcpy(&pair, &t[i], sizeof pair);
            const float2 two = __half22float2(pair);
            o[2 * i] += two.x;
            o[2 * i + 1] += two.y;
            t[i] = 0;
        }
    }

    /* Raises the references that a turn's largest scores have left behind. */
    __device__ __forceinline__ void raise(const float (&top)[2])
    {
        if (!__any_sync(~0u, top[0] > m[0] + headroom || top[1] > m[1] + headroom))
            return;
        ptx::wgmma_wait<0>();
        ptx::wgmma_pin(t);
        flush();
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if (!(top[h] > m[h] + headroom))
                continue;
            const float alpha = exp2_approx(m[h] - top[h]);
            m[h] = top[h];
            l[h] *= alpha;
#pragma unroll
            for (int i = 0; i < S::o_registers / 4; i++) {
                o[4 * i + 2 * h] *= alpha;
                o[4 * i + 2 * h + 1] *= alpha;
            }
        }
    }

    /* Scores -> P. scale: of each tile's scores, to log2 units. seen[t][h]: keys of tile t that row h sees. */
    template <bool Masked>
    __device__ __forceinline__ void softmax(const float (&scale)[S::tiles], const int (&seen)[S::tiles][2])
    {
        const int lane_key = static_cast<int>(threadIdx.x) % 4 * 2;
        float top[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            top[h] = -CUDART_INF_F;
#pragma unroll
            for (int x = 0; x < S::tiles; x++) {
                int32_t most = INT_MIN;
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    int32_t(&pair)[2] = reinterpret_cast<int32_t(&)[2]>(s[4 * (8 * x + i) + 2 * h]);
                    if constexpr (Masked)
#pragma unroll
                        for (int e = 0; e < 2; e++)
                            pair[e] = i * 8 + e + lane_key < seen[x][h] ? pair[e] : INT_MIN;
                    most = __vimax3_s32(most, pair[0], pair[1]);
                }
                if (!Masked || most != INT_MIN)
                    top[h] = fmaxf(top[h], static_cast<float>(most) * scale[x]);
            }
            top[h] = quad_max(top[h]);
        }
        raise(top);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float shift = p_exponent - (m[h] == -CUDART_INF_F ? 0 : m[h]);
#pragma unroll
            for (int x = 0; x < S::tiles; x++)
#pragma unroll
                for (int i = 0; i < 8; i++)
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        int32_t &score = s[4 * (8 * x + i) + 2 * h + e];
                        float value = exp2_approx(fmaf(static_cast<float>(score), scale[x], shift));
                        if constexpr (Masked) /* a tiny scale could bring INT_MIN back to life */
                            value = i * 8 + e + lane_key < seen[x][h] ? value : 0;
                        if constexpr (Lse)
                            l[h] += value;
                        score = __float_as_int(value);
                    }
        }
    }

    /* P in e4m3: of k step k, word h + 2 g is row h of the columns 2q, 2q + 1 of the eight keys 4k + 2g, and of the next. */
    __device__ __forceinline__ void pack()
    {
#pragma unroll
        for (int k = 0; k < S::p_words / 4; k++)
#pragma unroll
            for (int g = 0; g < 2; g++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int a = 4 * (4 * k + 2 * g) + 2 * h;
                    p[4 * k + h + 2 * g] = pack_e4m3(__int_as_float(s[a]), __int_as_float(s[a + 1]),
                                                     __int_as_float(s[a + 4]), __int_as_float(s[a + 5]));
                }
    }
};

/* Divides by the sums of P, scales by V's scales, rounds, stores. */
template <typename T16, typename S, bool Lse>
__device__ __forceinline__ void store_rows(const attend_args &args, const row_block_place &p, int kv_batch_head,
                                           int row, const consumer_state<S, Lse> &state)
{
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const float *v_scale = args.v_scale + static_cast<int64_t>(kv_batch_head) * S::D;
    float sum[2], exact_sum[2]; /* found while all lanes are together: some rows may not exist */
#pragma unroll
    for (int h = 0; h < 2; h++) { /* column D is the first lane's of each four */
        sum[h] = 4 * __shfl_sync(~0u, state.o[S::D / 2 + 2 * h], lane & ~3);
        exact_sum[h] = Lse ? quad_sum(state.l[h]) : 0;
    }
#pragma unroll
    for (int h = 0; h < 2; h++, row += 8) {
        const float inverse = sum[h] != 0 ? 1 / sum[h] : 0; /* NaN stays NaN */
        if constexpr (Lse) {
            if (lane % 4 == 0 && row < args.seqlen_q) {
                const int64_t index = static_cast<int64_t>(p.batch_head) * args.seqlen_q + row;
                const float offset = args.lse_offset ? args.lse_offset[index] : 0;
                args.lse[index] = state.m[h] == -CUDART_INF_F
                                      ? -CUDART_INF_F
                                      : (state.m[h] + log2f(exact_sum[h]) - p_exponent) * CUDART_LN2_F + offset;
            }
        }
        if (row >= args.seqlen_q)
            continue;
        uint16_t *out = static_cast<uint16_t *>(args.o.data) + p.batch * args.o.batch_stride +
                        p.head * args.o.head_stride + static_cast<int64_t>(row) * args.o.token_stride;
#pragma unroll
        for (int i = 0; i < S::D / 8; i++) {
            const int channel = i * 8 + lane % 4 * 2;
            if (channel >= args.head_dim)
                continue;
            const float2 scale = __ldg(reinterpret_cast<const float2 *>(v_scale + channel));
            const uint32_t pair =
                pack(state.o[4 * i + 2 * h] * inverse * scale.x, state.o[4 * i + 2 * h + 1] * inverse * scale.y, T16());
            if (!args.o_scalar) {
                *reinterpret_cast<uint32_t *>(out + channel) = pair;
            } else {
                out[channel] = static_cast<uint16_t>(pair);
                if (channel + 1 < args.head_dim)
                    out[channel + 1] = static_cast<uint16_t>(pair >> 16);
            }
        }
    }
}

template <typename T16, typename S, bool Lists, bool Lse>
__global__ void __launch_bounds__(S::threads, 1)
    attend_int8_fp8(const __grid_constant__ tensor_maps maps, const __grid_constant__ attend_args args)
{
    extern __shared__ char raw[];
    __shared__ alignas(8) uint64_t barriers[1 + 4 * S::stages];
    const uint32_t raw_shared = ptx::shared_address(raw), q_shared = (raw_shared + 1023) & ~1023u;
    const uint32_t q_full = ptx::shared_address(barriers);
    stage_ring k = {q_shared + S::q_bytes, S::k_bytes, q_full + 8, S::stages, 0, 0};
    stage_ring v = {k.data + S::stages * S::k_bytes, S::v_bytes, k.barriers + 16 * S::stages, S::stages, 0, 0};
    const row_block_place p = find_place<S, Lists>(args);
    const int kv_batch_head = p.batch * args.heads_kv + p.kv_head;
    const int turns = (p.tiles + S::tiles - 1) / S::tiles;

    write_quarters<S>(raw + (v.data - raw_shared));
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(q_full, 1);
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
        ptx::setmaxnreg_dec<24>();
        if (threadIdx.x == 0 && turns > 0)
            produce<S, Lists>(maps, p, turns, q_shared, q_full, k, v, kv_batch_head);
        return;
    }
    ptx::setmaxnreg_inc<240>();
    const int first_row = p.first_row + (group - 1) * 64;
    const int row = first_row + static_cast<int>(threadIdx.x) % warpgroup / 32 * 16 + threadIdx.x % 32 / 4;
    const int whole = visible_end(args, first_row) / tile_keys;
    const bool signals = threadIdx.x % warpgroup == 0;
    const float q_scale =
        args.scale_log2 * args.q_scale[static_cast<int64_t>(p.batch_head) * args.q_scales + p.first_row / S::rows];
    const float *k_scale = args.k_scale + static_cast<int64_t>(kv_batch_head) * args.k_scales;

    consumer_state<S, Lse> state;
    state.clear();
    const auto start_scores = [&] {
        const uint64_t a = ptx::wgmma_descriptor_8bit<S::D>(q_shared + (group - 1) * 64 * S::D);
        const uint64_t b = ptx::wgmma_descriptor_8bit<S::D>(k.at());
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < S::D / 32; step++)
            ptx::wgmma_m64n128k32_s8(state.s, a + step * 2, b + step * 2, step > 0);
        ptx::wgmma_commit();
    };
    const auto start_output = [&] {
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < S::keys / 32; step++) {
            const uint64_t b = ptx::wgmma_descriptor_8bit<tile_keys>(v.at() + step / 2 * S::v_tile_bytes);
            ptx::wgmma_e4m3(state.t, state.p + 4 * step, b + step % 2 * 2);
        }
        ptx::wgmma_commit();
    };

    /* A turn's tiles and their scales, read a turn ahead; the tiles another turn before the scales, which hang on them. */
    int tile[S::tiles], tile_ahead[S::tiles];
    float scale[S::tiles];
    const auto look_ahead = [&](int turn) {
#pragma unroll
        for (int t = 0; t < S::tiles; t++) {
            tile[t] = tile_ahead[t];
            scale[t] = __ldg(k_scale + (max(tile[t], 0) >> args.k_scale_shift));
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
        ptx::mbarrier_wait_parity(k.full(), k.parity);
        start_scores();
        ptx::wgmma_wait<0>();
        ptx::wgmma_pin(state.s);
        if (signals)
            ptx::mbarrier_arrive(k.empty());
        k.next();
        softmax();
        look_ahead(1);
        state.pack();
#pragma unroll 1
        for (int j = 1; j < turns; j++) {
            ptx::mbarrier_wait_parity(k.full(), k.parity);
            start_scores();
            ptx::mbarrier_wait_parity(v.full(), v.parity);
            start_output();
            ptx::wgmma_wait<1>();
            ptx::wgmma_pin(state.s);
            if (signals)
                ptx::mbarrier_arrive(k.empty());
            k.next();
            softmax();
            look_ahead(j + 1);
            ptx::wgmma_wait<0>();
            ptx::wgmma_pin(state.t);
            if (signals)
                ptx::mbarrier_arrive(v.empty());
            v.next();
            if (j % S::turns_of_t == 0)
                state.flush();
            state.pack();
        }
        ptx::mbarrier_wait_parity(v.full(), v.parity);
        start_output();
        ptx::wgmma_wait<0>();
        ptx::wgmma_pin(state.t);
        state.flush();
    }
    store_rows<T16, S, Lse>(args, p, kv_batch_head, row, state);
}

template <typename T16, typename S, bool Lists> attend_kernel_entry entry_int8_fp8()
{
    return {
        reinterpret_cast<const void *>(&attend_int8_fp8<T16, S, Lists, false>), S::rows, S::threads, S::shared_bytes, 1,
        reinterpret_cast<const void *>(&attend_int8_fp8<T16, S, Lists, true>)};
}

template <typename S> attend_kernel_entry entry_int8_fp8(const attend_kernel_key &key)
{
    if (key.rows != S::rows || !key.block_scales)
        return {};
    if (key.bf16)
        return key.lists ? entry_int8_fp8<__nv_bfloat16, S, true>() : entry_int8_fp8<__nv_bfloat16, S, false>();
    return key.lists ? entry_int8_fp8<__half, S, true>() : entry_int8_fp8<__half, S, false>();
}

} // namespace sparge::sm90

#endif
