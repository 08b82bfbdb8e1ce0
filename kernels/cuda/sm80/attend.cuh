/* Attention by mma.sync and cp.async, for sm_80 and later: dense, or over lists of 64-key tiles.
 *
 * One CTA computes one row block of BQ = Warps * WarpRows queries of one head:
 *
 *          64 keys            D channels
 *        +--------+          +-----------+
 *   BQ   |   S    |     BQ   |     O     |      warp w owns rows w * WarpRows ..; S, P and O never leave registers
 *        +--------+          +-----------+
 *
 * Pipeline, two stages each of K and V in shared memory, one tile per turn:
 *
 *   cp.async   K(j+1) ........  V(j+1) ........
 *   tensor     S = Q K(j)^T                      O += P V(j)
 *   other                 mask, max, exp2, P
 *
 * Two CTAs of four warps of 32 rows share an SM, so that one's softmax runs beside the other's products.
 *
 * With the PV skip, the rows of a unit vote on each tile between its maxima and its exponentials. Where they vote on blocks
 * of 128 keys, a turn is two tiles: the stages hold one turn, K(j+1) is loaded after the votes on turn j, V(j+1) after its
 * product.
 *
 * Parity mode (kernels/cpu/attend/row_block.h) is some run-time values of the kernels with votes.
 *
 * Arithmetic (kernels/methods/recipe.h): F16 = 16-bit Q K and P V; INT8_F16 = s8 Q K, 16-bit P V; INT8_FP8 = s8 Q K,
 * e4m3 P V, P scaled to 448; how the products are summed depends on the device (native_e4m3).
 * Numbers: scores are kept in log2 units; masked scores are -inf; a row that has seen no key has m = -inf, l = 0. */
#ifndef SPARGE_SM80_ATTEND_CUH
#define SPARGE_SM80_ATTEND_CUH

#include <cfloat>
#include <type_traits>

#include <cuda_fp8.h>

#include "../attend_rows.cuh"
#include "../ptx/cp_async.cuh"
#include "../ptx/mma.cuh"

namespace sparge::sm80
{

enum class arithmetic { f16, int8_f16, int8_fp8 }; /* the values of sparge_arithmetic */

constexpr int tile_keys = ATTEND_TILE_KEYS;

/* Where the tensor cores take e4m3 from registers (sm_89, sm_120), they keep about 14 bits of a sum, so a tile's product is
 * added to O in f32 (two-level accumulation). On sm_90 and sm_100 mma.sync has no e4m3: the same rounded values, widened
 * to f16, go through the f16 product with its whole f32 accumulator. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
constexpr bool native_e4m3 = false;
#else
constexpr bool native_e4m3 = true;
#endif

/* Starts copying rows [first, first + Rows) of a matrix; rows from `end` on and chunks from `valid_bytes` on are zero.
 * A thread copies the same chunk of every (Threads / chunks)-th row, so its swizzle is the same in all of them. */
template <int Rows, int RowBytes, int Threads>
__device__ __forceinline__ void load_rows(uint32_t shared, const char *base, int64_t row_stride_bytes, int64_t first,
                                          int64_t end, int valid_bytes)
{
    constexpr int chunks = RowBytes / 16;
    constexpr int step = Threads / chunks; /* rows */
    static_assert(Rows % step == 0 && step % 8 == 0, "threads must share the copy evenly and keep the swizzle");
    const int row = static_cast<int>(threadIdx.x) / chunks, chunk = static_cast<int>(threadIdx.x) % chunks;
    const char *from = base + (first + row) * row_stride_bytes + chunk * 16;
    const int left = static_cast<int>(min(end - first, static_cast<int64_t>(Rows))) - row; /* rows that exist */
    const bool channel = chunk * 16 < valid_bytes;
    shared += chunk_offset<RowBytes>(row, chunk);
#pragma unroll
    for (int i = 0; i < Rows; i += step) {
        const bool valid = channel && i < left;
        ptx::cp_async_16(shared + i * RowBytes, from, valid); /* an address outside is not read */
        from += step * row_stride_bytes;
    }
}

/* The sum of the two f16 values of a word. */
__device__ __forceinline__ float unpack_sum(uint32_t word)
{
    __half2 pair;
    memcpy(&pair, &word, sizeof word);
    const float2 wide = __half22float2(pair);
    return wide.x + wide.y;
}

/* Two e4m3 values as f16: exact. */
__device__ __forceinline__ uint32_t widen_e4m3(uint32_t pair)
{
    const __half2_raw wide = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(pair), __NV_E4M3);
    return wide.x | static_cast<uint32_t>(wide.y) << 16;
}

template <typename T16, arithmetic A, int D, int WarpRows, int Warps> struct shape {
    static constexpr int rows = WarpRows * Warps;
    static constexpr int threads = Warps * 32;
    static constexpr int qk_bytes = A == arithmetic::f16 ? 2 * D : D; /* of a row of Q or K */
    static constexpr bool fp8 = A == arithmetic::int8_fp8;
    static constexpr int v_rows = fp8 ? D : tile_keys;
    static constexpr int v_bytes = fp8 ? tile_keys : 2 * D; /* of a row of the V stage */
    static constexpr int q_stage = rows * qk_bytes;
    static constexpr int k_stage = tile_keys * qk_bytes;
    static constexpr int v_stage = v_rows * v_bytes;
    static constexpr int o_stage = rows * 2 * D; /* the output, staged where Q and K were */
    static constexpr int stages_bytes = q_stage + 2 * k_stage + 2 * v_stage;
    static constexpr int shared_bytes = stages_bytes > o_stage ? stages_bytes : o_stage;
};

/* Does a row insist on P V of keys whose largest score is `local`? kernels/cpu/attend/pv_skip.c */
__device__ __forceinline__ bool objects(bool upstream, float lambda, float before, float local)
{
    if (local == -CUDART_INF_F)
        return lambda == -CUDART_INF_F;
    return upstream ? !(local - before <= lambda) : !(local - fmaxf(before, local) < lambda);
}

/* VoteKeys: 0, or the 64 or 128 keys that are voted on together. */
template <typename T16, arithmetic A, int D, int WarpRows, int Warps, int VoteKeys>
__global__ void __launch_bounds__(Warps * 32, WarpRows == 32 && D == 128 ? 2 : 1) attend_kernel(const attend_args args)
{
    using S = shape<T16, A, D, WarpRows, Warps>;
    constexpr bool Votes = VoteKeys != 0;
    constexpr int parts = VoteKeys == 2 * tile_keys ? 2 : 1; /* tiles of a turn */
    constexpr int m_tiles = WarpRows / 16;
    constexpr int n_tiles = tile_keys / 8; /* of S */
    constexpr int d_tiles = D / 8;         /* of O */
    const float p_offset = !S::fp8 ? 0.0f : Votes ? args.p_offset : ATTEND_E4M3_OFFSET;

    extern __shared__ __align__(1024) char shared[];
    __shared__ uint32_t votes[Votes ? Warps * m_tiles : 1];

    /* --- which row block --- */
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int work = row_block_number<true>(args, static_cast<int>(blockIdx.x));
    const int row_block = work % args.row_blocks, batch_head = work / args.row_blocks;
    const int head = batch_head % args.heads_q, batch = batch_head / args.heads_q;
    const int kv_head = head / (args.heads_q / args.heads_kv);
    const int kv_batch_head = batch * args.heads_kv + kv_head;
    const int64_t first_row = static_cast<int64_t>(row_block) * S::rows;

    const auto visible_end = [&](int64_t row) {
        const int64_t end = row + 1 + args.causal_shift;
        return end < args.seqlen_k ? (end > 0 ? end : 0) : args.seqlen_k;
    };
    const int64_t last_row = min(first_row + S::rows, args.seqlen_q) - 1;
    const int tiles =
        args.list ? args.count[work] : static_cast<int>((visible_end(last_row) + tile_keys - 1) / tile_keys);
    const int turns = (tiles + parts - 1) / parts;
    /* Tiles before this one are seen by every row of the block. */
    const int whole_tiles = static_cast<int>(visible_end(first_row) / tile_keys);
    const int real_rows = static_cast<int>(last_row + 1 - first_row);
    /* The first tile of turn j; a second one follows it, or holds no key that is seen. The list's address is made anew
     * for every turn: kept, it would cost two registers that the loop does not have. */
    const auto tile_at = [&](int j) {
        int r = work;
        asm volatile("" : "+r"(r));
        return args.list ? __ldg(args.list + r * args.list_stride + j * parts) : j * parts;
    };
    const auto stage_of = [&](int j, int part) { return parts == 2 ? part : j & 1; };

    constexpr int qk_size = A == arithmetic::f16 ? 2 : 1;
    const char *q =
        static_cast<const char *>(args.q.data) + (batch * args.q.batch_stride + head * args.q.head_stride) * qk_size;
    const char *k =
        static_cast<const char *>(args.k.data) + (batch * args.k.batch_stride + kv_head * args.k.head_stride) * qk_size;
    const char *v = static_cast<const char *>(args.v.data) +
                    (S::fp8 ? static_cast<int64_t>(kv_batch_head) * args.v_channels * args.v_padded_keys
                            : (batch * args.v.batch_stride + kv_head * args.v.head_stride) * 2);

    const uint32_t q_shared = ptx::shared_address(shared);
    const uint32_t k_shared = q_shared + S::q_stage, v_shared = k_shared + 2 * S::k_stage;

    /* What this lane addresses in ldmatrix: step k adds k * 32 bytes by XOR, which the swizzle commutes with. */
    const uint32_t q_lane = q_shared + chunk_offset<S::qk_bytes>(warp * WarpRows + lane % 16, lane / 16);
    const uint32_t k_lane = k_shared + chunk_offset<S::qk_bytes>(lane % 8 + lane / 16 * 8, lane / 8 % 2);
    const uint32_t v_lane = v_shared + (!S::fp8       ? chunk_offset<S::v_bytes>(lane % 16, lane / 16)
                                        : native_e4m3 ? chunk_offset<S::v_bytes>(lane % 8, lane / 8)
                                                      : chunk_offset<S::v_bytes>(lane, 0));

    const auto load_k = [&](int j) {
        const int64_t key = static_cast<int64_t>(tile_at(j)) * tile_keys;
#pragma unroll
        for (int part = 0; part < parts; part++)
            load_rows<tile_keys, S::qk_bytes, S::threads>(k_shared + stage_of(j, part) * S::k_stage, k,
                                                          args.k.token_stride * qk_size, key + part * tile_keys,
                                                          args.seqlen_k, args.load_dim * qk_size);
    };
    const auto load_v = [&](int j) {
        const int64_t first = static_cast<int64_t>(tile_at(j)) * tile_keys;
#pragma unroll
        for (int part = 0; part < parts; part++) {
            const uint32_t stage = v_shared + stage_of(j, part) * S::v_stage;
            const int64_t key = first + part * tile_keys;
            if constexpr (S::fp8)
                load_rows<D, tile_keys, S::threads>(stage, v + key * args.v_channels, tile_keys, 0, args.v_channels,
                                                    tile_keys);
            else
                load_rows<tile_keys, 2 * D, S::threads>(stage, v, args.v.token_stride * 2, key, args.seqlen_k,
                                                        args.load_dim * 2);
        }
    };

    /* --- state of the rows: m_tile, and within it rows g and g + 8 --- */
    float o[m_tiles][d_tiles][4];
    float m[m_tiles][2], l[m_tiles][2];
#pragma unroll
    for (int i = 0; i < m_tiles; i++) {
#pragma unroll
        for (int d = 0; d < d_tiles; d++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                o[i][d][e] = 0;
        m[i][0] = m[i][1] = -CUDART_INF_F;
        l[i][0] = l[i][1] = 0;
    }
    const int warp_row = warp * WarpRows;
    const auto row_of = [&](int i, int half) { return first_row + warp_row + i * 16 + lane / 4 + half * 8; };

    /* INT8: a thread's rows share one scale of Q, its keys one of K, at every granularity (quantise.h of the CPU). */
    float row_scale = args.scale_log2;
    int k_scale_first = 0; /* fits: K with 2^31 scales would have 2^31 * 16 * D bytes */
    if constexpr (A != arithmetic::f16) {
        const int64_t last_group = (args.seqlen_q - 1) / 32; /* a warp's rows may all lie past the end */
        const int64_t warp_group = min(static_cast<int64_t>(first_row + warp_row) / 32, last_group);
        const int64_t group = args.scales == ATTEND_SCALES_BLOCK ? row_block : warp_group;
        row_scale *= args.q_scale[static_cast<int64_t>(batch_head) * args.q_scales +
                                  (args.scales == ATTEND_SCALES_THREAD ? group * 8 + lane / 4 : group)];
        k_scale_first = kv_batch_head * args.k_scales + (args.scales == ATTEND_SCALES_THREAD ? lane % 4 : 0);
    }
    float lambda = 0;
    uint32_t skipped = 0;
    constexpr bool may_round_v = Votes && A == arithmetic::int8_f16 && std::is_same_v<T16, __half>; /* parity mode */
    const bool sums_rounded = may_round_v && args.sums_rounded;
    if constexpr (Votes)
        lambda = args.lambda_log2[head];

    /* --- prologue: Q and K(0), V(0) --- */
    if (tiles > 0) {
        load_rows<S::rows, S::qk_bytes, S::threads>(q_shared, q, args.q.token_stride * qk_size, first_row,
                                                    args.seqlen_q, args.load_dim * qk_size);
        load_k(0);
        ptx::cp_async_commit();
        load_v(0);
        ptx::cp_async_commit();
    }

#pragma unroll 1
    for (int j = 0; j < turns; j++) {
        const int first_tile = tile_at(j);

        /* K(j) has landed for every warp, and every warp is done with P V(j-1): the older stages are free. */
        ptx::cp_async_wait<1>();
        __syncthreads();
        if constexpr (parts == 1) {
            if (j + 1 < turns)
                load_k(j + 1);
            ptx::cp_async_commit();
        }

        /* S = Q K^T */
        float s[parts][m_tiles][n_tiles][4];
#pragma unroll
        for (int part = 0; part < parts; part++) {
            const uint32_t k_stage = k_lane + stage_of(j, part) * S::k_stage;
            int32_t s_int[A == arithmetic::f16 ? 1 : m_tiles][A == arithmetic::f16 ? 1 : n_tiles][4];
#pragma unroll
            for (int i = 0; i < m_tiles; i++)
#pragma unroll
                for (int n = 0; n < n_tiles; n++)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        if constexpr (A == arithmetic::f16)
                            s[part][i][n][e] = 0;
                        else
                            s_int[i][n][e] = 0;
#pragma unroll
            for (int step = 0; step < S::qk_bytes / 32; step++) {
                uint32_t a[m_tiles][4];
#pragma unroll
                for (int i = 0; i < m_tiles; i++)
                    ptx::ldmatrix_x4(a[i], (q_lane ^ step * 32) + i * 16 * S::qk_bytes);
#pragma unroll
                for (int n = 0; n < n_tiles; n += 2) {
                    uint32_t b[4];
                    ptx::ldmatrix_x4(b, (k_stage ^ step * 32) + n * 8 * S::qk_bytes);
#pragma unroll
                    for (int i = 0; i < m_tiles; i++) {
                        if constexpr (A == arithmetic::f16) {
                            ptx::mma_m16n8k16<T16>(s[part][i][n], a[i], b[0], b[1]);
                            ptx::mma_m16n8k16<T16>(s[part][i][n + 1], a[i], b[2], b[3]);
                        } else {
                            ptx::mma_m16n8k32_s8(s_int[i][n], a[i], b[0], b[1]);
                            ptx::mma_m16n8k32_s8(s_int[i][n + 1], a[i], b[2], b[3]);
                        }
                    }
                }
            }
            if constexpr (A != arithmetic::f16)
#pragma unroll
                for (int i = 0; i < m_tiles; i++)
#pragma unroll
                    for (int n = 0; n < n_tiles; n++)
#pragma unroll
                        for (int e = 0; e < 4; e++)
                            s[part][i][n][e] = static_cast<float>(s_int[i][n][e]);
        }
        float factor = row_scale; /* raw score -> log2 units */
        if constexpr (A != arithmetic::f16) {
            factor *= __ldg(args.k_scale + k_scale_first +
                            (first_tile >> args.k_scale_shift) * (args.scales == ATTEND_SCALES_THREAD ? 4 : 1));
            /* The scale of keys that do not exist is 0, and -inf * 0 is not -inf. */
            factor = fmaxf(factor, FLT_MIN);
        }

        /* Keys that a row does not see: only tiles at the diagonal or at the end. */
#pragma unroll
        for (int part = 0; part < parts; part++) {
            const int tile = first_tile + part;
            if (tile < whole_tiles)
                continue;
#pragma unroll
            for (int i = 0; i < m_tiles; i++)
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const int seen =
                        static_cast<int>(min(visible_end(row_of(i, half)) - static_cast<int64_t>(tile) * tile_keys,
                                             static_cast<int64_t>(tile_keys)));
#pragma unroll
                    for (int n = 0; n < n_tiles; n++)
#pragma unroll
                        for (int e = 0; e < 2; e++)
                            if (n * 8 + lane % 4 * 2 + e >= seen)
                                s[part][i][n][half * 2 + e] = -CUDART_INF_F;
                }
        }

        /* New maxima; the old sums and outputs move to the new reference. */
        float local[m_tiles][2];
#pragma unroll
        for (int i = 0; i < m_tiles; i++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float top = fmaxf(s[0][i][0][half * 2], s[0][i][0][half * 2 + 1]);
#pragma unroll
                for (int n = 1; n < parts * n_tiles; n++)
                    top = fmaxf(top, fmaxf(s[n / n_tiles][i][n % n_tiles][half * 2],
                                           s[n / n_tiles][i][n % n_tiles][half * 2 + 1]));
                local[i][half] = quad_max(top * factor); /* factors are positive */
            }

        bool skip[m_tiles];
        if constexpr (Votes) {
#pragma unroll
            for (int i = 0; i < m_tiles; i++) {
                bool needs = j >= turns - args.pv_guarded;
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const bool real = warp_row + i * 16 + lane / 4 + half * 8 < real_rows;
                    needs |=
                        real ? objects(args.pv_upstream, lambda, m[i][half], local[i][half]) : args.pv_upstream != 0;
                }
                const bool any = __any_sync(~0u, needs);
                skip[i] = !any;
                if (lane == 0)
                    votes[warp * m_tiles + i] = any;
            }
            __syncthreads();
            const int per_unit = args.pv_unit / 16; /* m_tiles of a vote */
#pragma unroll
            for (int i = 0; i < m_tiles; i++) {
                const int first = (warp * m_tiles + i) / per_unit * per_unit;
                bool any = false;
                for (int t = first; t < first + per_unit; t++)
                    any |= votes[t] != 0;
                skip[i] = !any;
                const bool real = first * 16 < real_rows;
                if (lane == 0 && first == warp * m_tiles + i && skip[i] && real)
                    skipped++;
            }
        }

        if constexpr (parts == 2) { /* every warp has voted, so it is done with K(j) */
            if (j + 1 < turns)
                load_k(j + 1);
            ptx::cp_async_commit();
        }

        /* P as A fragments: words of rows g and g + 8 in turn. */
        constexpr int p_steps = S::fp8 ? tile_keys / 32 : tile_keys / 16;
        uint32_t p[parts][m_tiles][p_steps][4];
#pragma unroll
        for (int i = 0; i < m_tiles; i++) {
            if constexpr (Votes) {
                if (args.pv_drop && skip[i])
                    continue; /* as if the tile were not there */
            }
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float top = fmaxf(m[i][half], local[i][half]);
                const float base = top == -CUDART_INF_F ? 0 : top; /* no key yet: exp2(-inf - 0) = 0 */
                const float alpha = exp2_approx(m[i][half] - base);
                m[i][half] = top;
                l[i][half] *= alpha;
#pragma unroll
                for (int d = 0; d < d_tiles; d++) {
                    o[i][d][half * 2] *= alpha;
                    o[i][d][half * 2 + 1] *= alpha;
                }
                const float shift = p_offset - base;
#pragma unroll
                for (int n = 0; n < parts * n_tiles; n += 2) {
                    const int part = n / n_tiles, column = n % n_tiles;
                    float x[4]; /* columns 2q, 2q + 1 of two neighbouring S tiles */
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        x[e] = exp2_approx(fmaf(s[part][i][column + e / 2][half * 2 + e % 2], factor, shift));
                        if (!sums_rounded)
                            l[i][half] += x[e];
                    }
                    if constexpr (S::fp8) {
                        p[part][i][column / 4][column % 4 + half] = pack_e4m3(x[0], x[1], x[2], x[3]);
                    } else {
                        p[part][i][column / 2][half] = pack(x[0], x[1], T16());
                        p[part][i][column / 2][2 + half] = pack(x[2], x[3], T16());
                    }
                }
                if (sums_rounded)
#pragma unroll
                    for (int step = 0; step < parts * p_steps; step++)
                        l[i][half] += unpack_sum(p[step / p_steps][i][step % p_steps][half]) +
                                      unpack_sum(p[step / p_steps][i][step % p_steps][2 + half]);
            }
        }

        bool needed = true;
        if constexpr (Votes) {
            needed = false;
#pragma unroll
            for (int i = 0; i < m_tiles; i++) {
                needed |= !skip[i];
                if (skip[i])
#pragma unroll
                    for (int step = 0; step < parts * p_steps; step++)
#pragma unroll
                        for (int word = 0; word < 4; word++)
                            p[step / p_steps][i][step % p_steps][word] = 0;
            }
        }

        /* V(j) has landed for every warp, and every warp is done with K(j). */
        ptx::cp_async_wait<1>();
        __syncthreads();
        if constexpr (parts == 1) {
            if (j + 1 < turns)
                load_v(j + 1);
            ptx::cp_async_commit();
        }

        /* O += P V */
#pragma unroll
        for (int part = 0; part < parts; part++) {
            const uint32_t v_stage = v_lane + stage_of(j, part) * S::v_stage;
            if (!needed)
                continue;
            if constexpr (!S::fp8) {
#pragma unroll
                for (int step = 0; step < p_steps; step++) {
#pragma unroll
                    for (int d = 0; d < d_tiles; d += 2) {
                        uint32_t b[4];
                        ptx::ldmatrix_x4_trans(b, (v_stage ^ d * 16) + step * 16 * S::v_bytes);
#pragma unroll
                        for (int i = 0; i < m_tiles; i++) {
                            ptx::mma_m16n8k16<T16>(o[i][d], p[part][i][step], b[0], b[1]);
                            ptx::mma_m16n8k16<T16>(o[i][d + 1], p[part][i][step], b[2], b[3]);
                        }
                    }
                }
            } else if constexpr (native_e4m3) {
#pragma unroll
                for (int d = 0; d < d_tiles; d++) {
                    uint32_t b[4]; /* both k-steps of one channel tile */
                    ptx::ldmatrix_x4(b, v_stage + d * 8 * S::v_bytes);
#pragma unroll
                    for (int i = 0; i < m_tiles; i++) {
                        float sum[4] = {0, 0, 0, 0};
                        ptx::mma_m16n8k32_e4m3(sum, p[part][i][0], b[0], b[1]);
                        ptx::mma_m16n8k32_e4m3(sum, p[part][i][1], b[2], b[3]);
#pragma unroll
                        for (int e = 0; e < 4; e++)
                            o[i][d][e] += sum[e];
                    }
                }
            } else {
                /* V's key order makes each of its words the two f16 words of 16 keys, and P's words likewise. */
#pragma unroll
                for (int step = 0; step < tile_keys / 16; step++) {
                    uint32_t a[m_tiles][4];
#pragma unroll
                    for (int i = 0; i < m_tiles; i++)
#pragma unroll
                        for (int half = 0; half < 2; half++) {
                            const uint32_t word = p[part][i][step / 2][step % 2 * 2 + half];
                            a[i][half] = widen_e4m3(word & 0xffff);
                            a[i][2 + half] = widen_e4m3(word >> 16);
                        }
#pragma unroll
                    for (int d = 0; d < d_tiles; d += 4) {
                        uint32_t b[4]; /* 16 keys of four channel tiles */
                        ptx::ldmatrix_x4(b, (v_stage ^ step * 16) + d * 8 * S::v_bytes);
#pragma unroll
                        for (int n = 0; n < 4; n++) {
                            const uint32_t b0 = widen_e4m3(b[n] & 0xffff), b1 = widen_e4m3(b[n] >> 16);
#pragma unroll
                            for (int i = 0; i < m_tiles; i++)
                                ptx::mma_m16n8k16<__half>(o[i][d + n], a[i], b0, b1);
                        }
                    }
                }
            }
        }
        if constexpr (parts == 2) {
            __syncthreads(); /* every warp is done with V(j) */
            if (j + 1 < turns)
                load_v(j + 1);
            ptx::cp_async_commit();
        }
    }
    ptx::cp_async_wait<0>();
    __syncthreads(); /* Q's stage becomes the output's */

    /* --- epilogue: divide, round, through shared memory to whole rows --- */
    char *stage = shared;
#pragma unroll
    for (int i = 0; i < m_tiles; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float sum = quad_sum(l[i][half]);
            const float inverse = sum > 0 ? 1 / sum : 0;
            const int local_row = warp_row + i * 16 + lane / 4 + half * 8;
            const int64_t row = first_row + local_row;
            if (args.lse && lane % 4 == 0 && row < args.seqlen_q) {
                const int64_t at = static_cast<int64_t>(batch_head) * args.seqlen_q + row;
                const float offset = args.lse_offset ? args.lse_offset[at] : 0;
                args.lse[at] = sum > 0 ? (m[i][half] + log2f(sum) - p_offset) * CUDART_LN2_F + offset : -CUDART_INF_F;
            }
#pragma unroll
            for (int d = 0; d < d_tiles; d++) {
                float x = o[i][d][half * 2] * inverse, y = o[i][d][half * 2 + 1] * inverse;
                if constexpr (S::fp8) {
                    const int channel = d * 8 + lane % 4 * 2;
                    const float *scale = args.v_scale + static_cast<int64_t>(kv_batch_head) * args.v_channels;
                    x *= scale[channel];
                    y *= scale[channel + 1];
                }
                uint32_t word = pack(x, y, T16());
                if (may_round_v && args.o_bf16)
                    word = pack(x, y, __nv_bfloat16());
                *reinterpret_cast<uint32_t *>(stage + chunk_offset<2 * D>(local_row, d) + lane % 4 * 4) = word;
            }
        }
    __syncwarp(); /* a warp stages and stores its own rows only */
    char *out = static_cast<char *>(args.o.data) + (batch * args.o.batch_stride + head * args.o.head_stride) * 2;
    constexpr int chunks = 2 * D / 16;
#pragma unroll
    for (int index = lane; index < WarpRows * chunks; index += 32) {
        const int local_row = warp_row + index / chunks, chunk = index % chunks;
        const int64_t row = first_row + local_row;
        if (row >= args.seqlen_q || chunk * 8 >= args.head_dim)
            continue;
        const char *from = stage + chunk_offset<2 * D>(local_row, chunk);
        char *to = out + row * args.o.token_stride * 2 + chunk * 16;
        if (!args.o_scalar)
            *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(from);
        else
            store_elements(to, from, args.head_dim - chunk * 8);
    }
    if constexpr (Votes) {
        /* Votes of this row block that have a real row; each skipped one is worth its share of a tile. */
        const int units = (real_rows + args.pv_unit - 1) / args.pv_unit;
        if (lane == 0 && skipped)
            atomicAdd(args.pv_skipped, static_cast<unsigned long long>(skipped) * (ATTEND_VOTE_SHARE / units));
    }
}

} // namespace sparge::sm80

#endif
