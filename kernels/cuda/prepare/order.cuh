/* Which piece of the work each CTA of prepare does.
 *
 *   grid order:   K stats of the first group
 *     each group:   Q tiles (half)   K tiles (half)   V stats   K tiles (half)   K stats of the next group
 *                   Q tiles (half)   V tiles
 *
 * A group is as many KV heads as keep their K within about a third of the L2 cache (2 at 32k tokens on an H200), so that
 * the second reads of K and V come from there. CTAs start in the order of their index, and only tiles wait, for stats
 * earlier in the grid: those are running or done, and wait for nobody, so there is always progress. At least two
 * halves of tiles lie between stats and their first use, which covers the time that the last stats take; and a tile waits
 * after its loads have been issued. */
#ifndef SPARGE_CUDA_PREPARE_ORDER_CUH
#define SPARGE_CUDA_PREPARE_ORDER_CUH

#include "prepare.h"

namespace sparge::prepare
{

enum class kind { k_stats, q_tile, k_tile, v_stats, v_tile };

struct piece {
    kind what;
    uint32_t head; /* query head of a Q tile, else KV head; batch entries are consecutive */
    int index;     /* within the head */
};

/* All numbers of CTAs are below 2^31 (make_schedule). */
__host__ __device__ __forceinline__ piece find_piece(const prepare_schedule &s, uint32_t cta)
{
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
    /* A group has the K stats of the next one instead of its own; the last may have fewer heads, so fewer of them. */
    const uint32_t of_group = full * number(s.cta_per_head);
    const uint32_t before_last = last_group * of_group - (full - heads_of(last_group)) * k_stats;
    uint32_t i = cta - heads_of(0) * k_stats;
    const uint32_t group = i < before_last ? i / of_group : last_group;
    i -= i < before_last ? group * of_group : before_last;
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

} // namespace sparge::prepare

#endif
