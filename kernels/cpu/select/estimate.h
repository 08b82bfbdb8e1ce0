/* Attention of the last few queries over all keys, summed by key (vertical) and by diagonal (slash): the estimate that
 * MInference and FlexPrefill start from. */
#ifndef SPARGE_CPU_SELECT_ESTIMATE_H
#define SPARGE_CPU_SELECT_ESTIMATE_H

#include "cpu/cpu.h"

/* Queries scored at a time: keys are converted from 16 bits once for all of them. */
enum { CPU_ESTIMATE_GROUP = 8 };

/* For queries r = Lq - last .. Lq - 1 in order: A[r, :] = softmax over visible keys of cpu_dot(q_r, k_j) * scale;
 * vertical[j] += A[r, j] and slash[|r - j|] += A[r, j]. Both have Lk entries (Lq = Lk); rows is workspace of
 * CPU_ESTIMATE_GROUP * Lk. */
void cpu_estimate(const sparge_plan *plan, int64_t batch, int64_t head, int64_t last, float *rows, float *vertical,
                  float *slash);

#endif
