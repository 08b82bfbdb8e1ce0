/* INT8 Q and K (upstream.md 2.7) and how their scales are laid out.
 *
 * The rows that share a scale: s = fma(max|x|, 1/127, 1e-7), x8 = the integer nearest to x * (1 / s), the reciprocal
 * rounded to f32, the product not, ties to even; so |x8| <= 127. A scale that is not finite has no meaningful x8:
 * 1 / NaN then counts as 0, and a product that is NaN gives -1. x is Q as it is, and K minus its token mean where the
 * recipe smooths. Taking 1/127 as a float and the multiply-add as fused is what the official code was compiled to: in
 * parity mode the recorded scales are reproduced bit for bit.
 *
 * Parity mode: x8 = trunc(x / s + 0.5 sign(x)), round half away from zero; f32, one rounding per operation; K minus its
 * mean is rounded to the input's 16-bit type first.
 *
 *   scales   Q: rows with one scale                     K: keys with one scale
 *   block    a block of BQ                              a block of BK
 *   warp     32 consecutive rows                        a block of BK
 *   thread   the 4 rows of 32 with equal row mod 8      the BK / 4 keys of a block with equal (key mod 8) / 2
 *
 * warp and thread are SageAttention's finer granularities: the rows and keys that one warp, or one thread of a warp,
 * holds in the fragments of a 16x8 tensor-core tile. The scales of one head are consecutive: all of block or group 0,
 * then 1, ...; within a group by row mod 8 (Q) or (key mod 8) / 2 (K). */
#ifndef SPARGE_CPU_QUANTISE_H
#define SPARGE_CPU_QUANTISE_H

#include "cpu/cpu.h"

enum { CPU_WARP_ROWS = 32, CPU_THREAD_ROW_GROUPS = 8, CPU_THREAD_KEY_GROUPS = 4 };

/* Which scale of its head a row of Q, a key of K, has. */
static inline int64_t cpu_q_scale_index(const sparge_recipe *recipe, int64_t row)
{
    switch (recipe->scales) {
    case SPARGE_SCALES_THREAD:
        return row / CPU_WARP_ROWS * CPU_THREAD_ROW_GROUPS + row % CPU_THREAD_ROW_GROUPS;
    case SPARGE_SCALES_WARP:
        return row / CPU_WARP_ROWS;
    case SPARGE_SCALES_BLOCK:
    default:
        return row / recipe->block_q;
    }
}

static inline int64_t cpu_k_scale_index(const sparge_recipe *recipe, int64_t key)
{
    if (recipe->scales == SPARGE_SCALES_THREAD)
        return key / recipe->block_k * CPU_THREAD_KEY_GROUPS + key % 8 / 2;
    return key / recipe->block_k;
}

/* Scales of one head. */
static inline int64_t cpu_q_scales(const sparge_problem *problem, const sparge_recipe *recipe)
{
    const int64_t rows = recipe->scales == SPARGE_SCALES_BLOCK ? recipe->block_q : CPU_WARP_ROWS;
    const int64_t groups = (problem->seqlen_q + rows - 1) / rows;
    return recipe->scales == SPARGE_SCALES_THREAD ? groups * CPU_THREAD_ROW_GROUPS : groups;
}

static inline int64_t cpu_k_scales(const sparge_problem *problem, const sparge_recipe *recipe)
{
    const int64_t blocks = (problem->seqlen_k + recipe->block_k - 1) / recipe->block_k;
    return recipe->scales == SPARGE_SCALES_THREAD ? blocks * CPU_THREAD_KEY_GROUPS : blocks;
}

/* Takes and fills prepared.q8, k8, q_scale and k_scale from prepared.q, k and k_mean. */
sparge_status cpu_quantise_plan(sparge_plan *plan);
void cpu_quantise_run(sparge_plan *plan);

#endif
