/* Prepare in one kernel: every CTA does one piece of one of five kinds, and the order of the CTAs (order.cuh) makes
 * the second reads of K and V hit the L2 cache.
 *
 *   kind       reads            leaves                                   waits for
 *   K stats    256 keys of K    k_mean (the head's last one)             -
 *   Q tile     a slab of Q      INT8, scales, block means, similarity    -
 *   K tile     a slab of K      the same                                 k_mean of its head, where K is smoothed
 *   V stats    256 keys of V    v_scale (the head's last one)            -
 *   V tile     a slab of V      FP8, transposed                          v_scale of its head
 *
 * Traffic, INT8 and FP8 with pooling, Lq = Lk = L, H heads of D channels: Q, K, V once from DRAM, 6 D bytes a token and
 * head; K and V a second time from L2, 4 D; INT8 and FP8 out, 3 D. At H = 32, L = 32768, D = 128: 805 + 403 MB through
 * DRAM and 537 MB more from L2. On an H200 the counters had the L2 cache nearer to its limit than DRAM and the issue slots
 * to theirs. */
#ifndef SPARGE_CUDA_PREPARE_FUSED_CUH
#define SPARGE_CUDA_PREPARE_FUSED_CUH

#include "fp8.cuh"
#include "order.cuh"
#include "tile.cuh"

namespace sparge::prepare
{

template <int D> union fused_shared {
    tile_shared<D> tile;
    stats_shared<D> stats;
};

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
__global__ void __launch_bounds__(threads, 5) prepare_pieces(const __grid_constant__ prepare_args args)
{
    __shared__ fused_shared<D> shared;
    const piece p = find_piece(args.schedule, blockIdx.x);
    switch (p.what) {
    case kind::k_stats:
        k_stats<T, D>(args, p.head, p.index, shared.stats);
        return;
    case kind::v_stats:
        v_stats<T, D>(args, p.head, p.index, shared.stats);
        return;
    case kind::v_tile:
        v_tile<T, D>(args, p.head, p.index, shared.tile.data);
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

/* Block means alone are only wanted of 16-bit methods. */
template <typename T, int D> prepare_kernel choose(prepare_kernel_key key)
{
    if (key.judge && !key.int8)
        return prepare_pieces<T, D, false, pooling::judged, false>;
    if (key.judge)
        return key.fine ? prepare_pieces<T, D, true, pooling::judged, true>
                        : prepare_pieces<T, D, true, pooling::judged, false>;
    if (key.pool)
        return key.int8 ? nullptr : prepare_pieces<T, D, false, pooling::means, false>;
    if (key.int8)
        return key.fine ? prepare_pieces<T, D, true, pooling::none, true>
                        : prepare_pieces<T, D, true, pooling::none, false>;
    return nullptr;
}

} // namespace sparge::prepare

#endif
