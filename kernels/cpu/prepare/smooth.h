/* The token mean of K, which smoothing subtracts (upstream.md 2.1).
 *
 * k_mean[b][h][d] = (sum over all tokens in double, in ascending chunks of CPU_MEAN_CHUNK tokens, the chunks' sums added
 * in order) / Lk, rounded once to f32; in parity mode then to the input's 16-bit type. The double sum of 16-bit numbers
 * is nearly always exact, so any order of summation gives the same bits. */
#ifndef SPARGE_CPU_SMOOTH_H
#define SPARGE_CPU_SMOOTH_H

#include "cpu/cpu.h"

enum { CPU_MEAN_CHUNK = 1024 };

sparge_status cpu_smooth_plan(sparge_plan *plan);
void cpu_smooth_run(sparge_plan *plan);

#endif
