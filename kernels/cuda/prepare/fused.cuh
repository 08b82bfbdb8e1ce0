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
 *   grid order:   K stats of the first group
 *     each group:   Q tiles (half)   K tiles (half)   V stats   K tiles (half)   K stats of the next group
 *                   Q tiles (half)   V tiles
 *
 * A group is as many KV heads as keep their K within about a third of the L2 cache (2 at 32k tokens on an H200), so that
 * the second reads of K and V come from there. CTAs start in the order of their index, and only tiles wait, for stats
 * earlier in the grid: those are running or done, and wait for nobody, so there is always progress. At least two
 * halves of tiles lie between stats and their first use, which covers the time that the last stats take; and a tile waits
 * after its loads have been issued.
 *
 * Traffic, INT8 and FP8 with pooling, Lq = Lk = L, H heads of D channels: Q, K, V once from DRAM, 6 D bytes a token and
 * head; K and V a second time from L2, 4 D; INT8 and FP8 out, 3 D. At H = 32, L = 32768, D = 128: 805 + 403 MB through
 * DRAM and 537 MB more from L2. On an H200 the counters had the L2 cache nearer to its limit than DRAM and the issue slots
 * to theirs. */
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
    const uint32_t all_heads = number(s.heads), full = number(s.group_heads), ratio = number(s.q_heads_per_head);
    const uint32_t last_group = (all_heads - 1) / full, k_stats = number(s.k_stats);
    const auto at = [&](kind what, uint32_t first_head, int32_t per_head, uint32_t i) {
        return piece{what, first_head + i / number(per_head), static_cast<int>(i % number(per_head))};
    };
    const auto heads_of = [&](uint32_t group) {
        return group > last_group ? 0 : group == last_group ? all_heads - group * full : full;
    };
    if (cta < heads_of(0) * k_stats)
        return at(kind::k_stats, 0, s.k_stats, cta);
    uint32_t i = cta - heads_of(0) * k_stats;
    uint32_t group = i / (full * number(s.cta_per_head));
    i -= group * full * number(s.cta_per_head);
    if (group + 1 == last_group) { /* the K stats in it are those of the last group, which may have fewer heads */
        const uint32_t size = full * (number(s.cta_per_head) - k_stats) + heads_of(last_group) * k_stats;
        if (i >= size) {
            i -= size;
            group++;
        }
    }
    const uint32_t first = group * full, heads = heads_of(group);
    const uint32_t q = heads * ratio * number(s.q_slabs), k = heads * number(s.k_slabs);
    const uint32_t v_stats = heads * number(s.v_stats), next_stats = heads_of(group + 1) * k_stats;
    if (i < q / 2)
        return at(kind::q_tile, first * ratio, s.q_slabs, i);
    i -= q / 2;
    if (i < k / 2)
        return at(kind::k_tile, first, s.k_slabs, i);
    i -= k / 2;
    if (i < v_stats)
        return at(kind::v_stats, first, s.v_stats, i);
    i -= v_stats;
    if (i < k - k / 2)
        return at(kind::k_tile, first, s.k_slabs, k / 2 + i);
    i -= k - k / 2;
    if (i < next_stats)
        return at(kind::k_stats, first + full, s.k_stats, i);
    i -= next_stats;
    if (i < q - q / 2)
        return at(kind::q_tile, first * ratio, s.q_slabs, q / 2 + i);
    return at(kind::v_tile, first, s.v_slabs, i - (q - q / 2));
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
__global__ void __launch_bounds__(threads, 5) prepare_pieces(const __grid_constant__ prepare_args args)
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
    if (key.judge)
        return key.int8 ? prepare_pieces<T, D, true, pooling::judged, false>
                        : prepare_pieces<T, D, false, pooling::judged, false>;
    if (key.pool)
        return key.int8 ? nullptr : prepare_pieces<T, D, false, pooling::means, false>;
    if (key.int8)
        return key.fine ? prepare_pieces<T, D, true, pooling::none, true>
                        : prepare_pieces<T, D, true, pooling::none, false>;
    return nullptr;
}

} // namespace sparge::prepare

#endif
