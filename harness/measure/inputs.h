/* Inputs of a workload in backend memory: generated there, or uploaded from a captured file, in the workload's order. */
#ifndef HARNESS_INPUTS_H
#define HARNESS_INPUTS_H

#include "workloads.h"

typedef struct sb_inputs {
    sparge_tensor q, k, v; /* dense HND */
    int64_t *source;       /* host: the token permutation applied, NULL for row order */
} sb_inputs;

sparge_status sb_inputs_create(sparge_context *context, const wl_workload *workload, sb_inputs *inputs,
                               sparge_error *error);
void sb_inputs_release(sparge_context *context, sb_inputs *inputs);

/* Backend memory that sb_inputs_create takes at most. -1 if no size_t holds it. */
int sb_inputs_bytes(const wl_workload *workload, size_t *bytes);
/* Bytes of a dense tensor, overflow-checked: 0 or -1. */
int sb_tensor_bytes(const sparge_tensor *tensor, size_t *bytes);

#endif
