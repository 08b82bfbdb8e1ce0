/* The token mean of K, which smoothing subtracts (upstream.md 2.1).
 *
 * k_mean[b][h][d] = (sum over all tokens) / Lk, divided in double and rounded once to f32; in parity mode then to the
 * input's 16-bit type. The sum: within a chunk of CPU_MEAN_CHUNK tokens, lane r adds the tokens r, r + 8, r + 16, ... of
 * the chunk in order, from 0; then lane[r] += lane[r + h] for h = 4, 2, 1: all of that in f32, in parity mode in double.
 * In double, the chunks' sums of a run of CPU_MEAN_RUN chunks are added in order, then the runs' sums; in parity mode all
 * chunks' sums in order. */
#ifndef SPARGE_CPU_SMOOTH_H
#define SPARGE_CPU_SMOOTH_H

#include "cpu/cpu.h"

enum { CPU_MEAN_CHUNK = 256, CPU_MEAN_LANES = 8, CPU_MEAN_RUN = 32 };

sparge_status cpu_smooth_plan(sparge_plan *plan);
void cpu_smooth_run(sparge_plan *plan);

#endif
