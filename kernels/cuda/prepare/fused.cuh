/* Prepare in one kernel: every CTA does one piece of one of five kinds, and the order of the CTAs makes the second reads
 * of K and V hit the L2 cache.
 *
 *   kind       reads            leaves                                   waits for
 *   K stats    256 keys of K    k_mean (the head's last one)             -
 *   Q tile     a slab of Q      INT8, scales, block means, similarity    -
 *   K tile     a slab of K      the same                                 k_mean of its head, where K is smoothed
 *   V stats    256 keys of V    v_scale (the head's last one)            -
 *   V tile     a slab of V      FP8, transposed                          v_scale of its head
 *
 *   grid order, for one group of KV heads after the other:
 *     K stats ...  Q tiles (half) ...  K tiles ...  V stats ...  Q tiles (half) ...  V tiles ...
 *
 * A group is as many heads as keep their K within about half of the L2 cache (4 at 32k tokens on an H200). CTAs start in
 * the order of their index, and only tiles wait, for stats earlier in the grid: those are running or done, and wait for
 * nobody, so there is always progress. The half of Q's tiles in between covers the time the last stats take, and a tile
 * waits after its loads have been issued.
 *
 * Traffic, INT8 and FP8 with pooling, Lq = Lk = L, H heads of D channels: Q, K, V once from DRAM, 6 D bytes a token and
 * head; K and V a second time from L2, 4 D; INT8 and FP8 out, 3 D. At H = 32, L = 32768, D = 128: 805 + 403 MB through
 * DRAM, 0.28 ms at 4.3 TB/s (0.41 ms if no second read hit). Instructions an element, counted in the SASS: Q 20, K 23, V
 * and the stats 3 each: 215 M warp instructions, 0.23 ms of an H200's issue slots at 1.75 GHz. Prediction: 0.33-0.40 ms. */
#ifndef SPARGE_CUDA_PREPARE_FUSED_CUH
#define SPARGE_CUDA_PREPARE_FUSED_CUH

#include "fp8.cuh"
#include "tile.cuh"

namespace sparge::prepare
{

template <int D> union fused_shared {
    tile_shared<D> tile;
    stats_shared<D> stats;
};

enum class kind { k_stats, q_tile, k_tile, v_stats, v_tile };

struct piece {
    kind what;
    uint32_t head; /* query head of a Q tile, else KV head; batch entries are consecutive */
    int index;     /* within the head */
};

/* All numbers of CTAs are below 2^31 (make_schedule). */
__device__ __forceinline__ piece find_piece(const prepare_args &args, uint32_t cta)
{
    const prepare_schedule &s = args.schedule;
    const auto number = [](int32_t x) { return static_cast<uint32_t>(x); };
    const uint32_t of_group = number(s.group_heads) * number(s.cta_per_head);
    const uint32_t first = cta / of_group * number(s.group_heads), left = number(s.heads) - first;
    const uint32_t heads = left < number(s.group_heads) ? left : number(s.group_heads);
    const uint32_t ratio = number(s.q_heads_per_head);
    const uint32_t q_all = heads * ratio * number(s.q_slabs), q_half = args.v8 ? q_all / 2 : q_all;
    uint32_t i = cta % of_group;
    const auto at = [&](kind what, uint32_t first_head, int32_t per_head) {
        return piece{what, first_head + i / number(per_head), static_cast<int>(i % number(per_head))};
    };
    if (i < heads * number(s.k_stats))
        return at(kind::k_stats, first, s.k_stats);
    i -= heads * number(s.k_stats);
    if (i < q_half)
        return at(kind::q_tile, first * ratio, s.q_slabs);
    i -= q_half;
    if (i < heads * number(s.k_slabs))
        return at(kind::k_tile, first, s.k_slabs);
    i -= heads * number(s.k_slabs);
    if (i < heads * number(s.v_stats))
        return at(kind::v_stats, first, s.v_stats);
    i -= heads * number(s.v_stats);
    if (i < q_all - q_half) {
        i += q_half;
        return at(kind::q_tile, first * ratio, s.q_slabs);
    }
    i -= q_all - q_half;
    return at(kind::v_tile, first, s.v_slabs);
}

template <typename T, int D, bool Int8, pooling P, bool Fine>
__device__ __forceinline__ void k_tile(const prepare_args &args, const piece &p, tile_shared<D> &shared)
{
    const auto wait = [&] { wait_for_flag(args.k_ready + p.head); };
    if ((p.index + int64_t(1)) * slab_shape<D>::rows <= args.k.x.tokens)
        tile<T, D, Int8, P, Fine, centering::full>(args.k, args.head_dim, args.load_chunks, p.head, p.index, wait,
                                                   shared);
    else
        tile<T, D, Int8, P, Fine, centering::partial>(args.k, args.head_dim, args.load_chunks, p.head, p.index, wait,
                                                      shared);
}

template <typename T, int D, bool Int8, pooling P, bool Fine>
__global__ void __launch_bounds__(threads, 4) prepare_pieces(const __grid_constant__ prepare_args args)
{
    __shared__ fused_shared<D> shared;
    const piece p = find_piece(args, blockIdx.x);
    switch (p.what) {
    case kind::k_stats:
        k_stats<T, D>(args, p.head, p.index, shared.stats);
        return;
    case kind::v_stats:
        v_stats<T, D>(args, p.head, p.index, shared.stats);
        return;
    case kind::v_tile:
        v_tile<T, D>(args, p.head, p.index);
        return;
    case kind::k_tile:
        if (args.k.center) {
            k_tile<T, D, Int8, P, Fine>(args, p, shared.tile);
            return;
        }
        break;
    case kind::q_tile:
        break;
    }
    tile<T, D, Int8, P, Fine, centering::none>(
        p.what == kind::q_tile ? args.q : args.k, args.head_dim, args.load_chunks, p.head, p.index, [] {}, shared.tile);
}

template <typename T, int D, pooling P> prepare_kernel choose_int8(bool int8)
{
    return int8 ? prepare_pieces<T, D, true, P, false> : prepare_pieces<T, D, false, P, false>;
}

template <typename T, int D> prepare_kernel choose(prepare_kernel_key key)
{
    if (key.pool)
        return key.judge ? choose_int8<T, D, pooling::judged>(key.int8) : choose_int8<T, D, pooling::means>(key.int8);
    if (key.int8)
        return key.fine ? prepare_pieces<T, D, true, pooling::none, true>
                        : prepare_pieces<T, D, true, pooling::none, false>;
    return nullptr;
}

} // namespace sparge::prepare

#endif
