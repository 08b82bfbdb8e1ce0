/* The element rule of a worklist, and its reading as pairs. The worklist itself: cpu.h. */
#ifndef SPARGE_CPU_WORKLIST_H
#define SPARGE_CPU_WORKLIST_H

#include "cpu/cpu.h"

/* What a query may see of the keys on its row block's lists: key j is kept iff j < sink_end or begin <= j < end. */
typedef struct cpu_key_range {
    int64_t begin, end, sink_end;
} cpu_key_range;

cpu_key_range cpu_worklist_range(const sparge_problem *problem, const cpu_worklist *work, int64_t query);

/* Sets kept[query * seqlen_k + key] for every pair of one head that the worklist computes, in the caller's tokens. */
void cpu_worklist_pairs(const sparge_plan *plan, int32_t batch, int32_t head, uint8_t *kept);

#endif
