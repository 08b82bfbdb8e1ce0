/* Recorded cases (upstream.h) on a backend: their tensors, plans on the recorded inputs, and what prepare left of them.
 *
 * SPARGE_TEST_BACKEND chooses the backend, default cpu. */
#ifndef TESTS_KERNELS_RECORDED_H
#define TESTS_KERNELS_RECORDED_H

#include "check.h"

#include "safetensors.h"
#include "sparge/sparge.h"
#include "upstream.h"

/* What a test program begins with: 0, or the exit code with which it ends, having said what is not there. */
int recorded_start(void);

/* cmocka's setup and teardown: *state is a context of the backend under test. */
int recorded_setup(void **state);
int recorded_teardown(void **state);

typedef struct recorded {
    st_file *file;
    const char *name;
    int64_t heads, tokens, head_dim;
    int causal; /* top-left */
} recorded;

void recorded_open(recorded *r, int index);
void recorded_close(recorded *r);

/* The tensor "what", "prefix.what" or "prefix.what@setting"; NULL for what is not in its name. Fails the test if it is
 * absent or of another dtype. */
const st_tensor *recorded_tensor(const recorded *r, const char *prefix, const char *what, const char *setting,
                                 const char *dtype);
const void *recorded_data(const recorded *r, const char *prefix, const char *what, const char *setting,
                          const char *dtype);

/* Block shape as in the tensors' names: "64x128" or "128x64". */
void recorded_blocks(const char *shape, int32_t *block_q, int32_t *block_k);

/* A plan for the recorded q, k and v, in the backend's memory. */
typedef struct recorded_run {
    sparge_context *context;
    sparge_problem problem;
    sparge_tensor tensor[4]; /* q, k, v, o */
    float *lse;
    sparge_plan *plan;
} recorded_run;

/* settings: "tau=0.9 theta=0.3". */
void recorded_run_open(recorded_run *run, sparge_context *context, const recorded *r, const char *method,
                       const char *settings);
void recorded_run_stages(recorded_run *run, int stages);
void recorded_run_close(recorded_run *run);

/* o and lse in host memory, malloc'ed. */
uint16_t *recorded_run_output(const recorded_run *run);
float *recorded_run_lse(const recorded_run *run);

/* What prepare left, in host memory and in the layouts of cpu_prepared, whatever the backend. NULL: there is none. */
typedef struct recorded_arrays {
    float *k_mean;
    int8_t *q8, *k8;
    float *q_scale, *k_scale; /* of blocks */
    uint8_t *v8;              /* [head][token][channel] */
    float *v_scale;
    float *q_pool, *k_pool, *q_sim, *k_sim;
} recorded_arrays;

recorded_arrays recorded_run_arrays(const recorded_run *run);
void recorded_arrays_release(recorded_arrays *arrays);

#endif
