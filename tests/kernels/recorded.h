/* Recorded cases (upstream.h) as cases of the attend tests. */
#ifndef TESTS_KERNELS_RECORDED_H
#define TESTS_KERNELS_RECORDED_H

#include "attend_case.h"
#include "safetensors.h"
#include "upstream.h"

typedef struct recorded {
    st_file *file;
    const char *name;
    int64_t heads, tokens, head_dim;
    int causal; /* top-left */
} recorded;

void recorded_open(recorded *r, int index);
void recorded_close(recorded *r);

/* The tensor "<prefix>.<name>", or "<name>" with prefix NULL; fails the test if it is absent or of another dtype. */
const void *recorded_data(const recorded *r, const char *prefix, const char *name, const char *dtype);

/* A case with the recorded q, k and v, causal as recorded. */
void recorded_case(const recorded *r, attend_case *c);

/* Block shape as in the tensors' names: "64x128" or "128x64". */
void recorded_blocks(const char *shape, int32_t *block_q, int32_t *block_k);

#endif
