/* Attention of the last few queries over all keys, summed by key (vertical) and by diagonal (slash): the estimate that
 * MInference and FlexPrefill start from. */
#ifndef SPARGE_CPU_SELECT_ESTIMATE_H
#define SPARGE_CPU_SELECT_ESTIMATE_H

#include "cpu/cpu.h"

/* For queries r = Lq - last .. Lq - 1 in order: A[r, :] = softmax over visible keys of cpu_dot(q_r, k_j) * scale;
 * vertical[j] += A[r, j] and slash[|r - j|] += A[r, j]. All three arrays have Lk entries (Lq = Lk); row is workspace. */
void cpu_estimate(const sparge_plan *plan, int64_t batch, int64_t head, int64_t last, float *row, float *vertical,
                  float *slash);

#endif
