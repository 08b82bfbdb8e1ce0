/* Block means and block self-similarity of Q and K (SpargeAttn, paper 3.2 and 3.3), bit for bit reproducible.
 *
 * A block is BS = BQ or BK rows of x (D channels), the last one n <= BS. In f32, round to nearest, no contraction but
 * where it says fused:
 *
 *   x[t][d]  the input; for K with smooth_k minus the token mean (one subtraction)
 *   mean[d]  = rowsum_t(x[t][d]) / n
 *   len[t]   = sqrt(sum of squares of x[t], in the order of cpu_isa.sum_squares; channels padded to 64 or 128)
 *   inv[t]   = 1 / len[t], or 0 where len[t] = 0
 *   sim      = chansum_d(s[d] * s[d]) / (n * n),  s[d] = rowsum_t(x[t][d] * inv[t]), product and sum fused
 *
 * rowsum: lane r of BS / 16 adds rows r, r + BS / 16, r + 2 BS / 16, ... in order, from 0; then the upper half of the
 * lanes is added to the lower one until one is left. So a GPU thread that holds 8 channels of 16 rows is a lane.
 * chansum adds neighbours, term[i] = term[2i] + term[2i + 1], until one is left.
 * sim is the mean cosine over all ordered pairs of rows, a row with itself included: sum of cosines = |sum of units|^2.
 *
 * Parity mode (upstream.md 2.1, 2.2) rounds where the official code does: x of K and the means to the input's 16-bit
 * type, units to binary16. Units are divided by their length there, and both sums pad their terms with +0 to a power of
 * two P and halve their number until one is left: the sum over rows adds term[i + P/2] to term[i], and so on; squares
 * are added as chansum does. A zero row makes sim NaN. (That a partial block is never similar is select's rule.) */
#ifndef SPARGE_CPU_POOL_H
#define SPARGE_CPU_POOL_H

#include "cpu/cpu.h"

/* Takes prepared.q_pool and k_pool where the selection reads them, and q_sim and k_sim where it judges by them. */
sparge_status cpu_pool_plan(sparge_plan *plan);

/* Fills what cpu_pool_plan took from prepared.q, k and, with smooth_k, k_mean. Nothing to do without pools. */
void cpu_pool_run(sparge_plan *plan);

/* One block: rows [begin, begin + count) of one head. center: what to subtract, float[D], or NULL. divisor: of the
 * mean, in rows. mean: float[D]; sim: one float, or NULL. */
typedef struct cpu_pool_block {
    int64_t begin;
    int32_t count, block; /* n, BS */
    int32_t divisor;
    const float *center;
    int upstream;
} cpu_pool_block;
void cpu_pool_one(const sparge_context *context, const sparge_tensor *x, int64_t batch, int64_t head,
                  const cpu_pool_block *what, float *mean, float *sim);

#endif
