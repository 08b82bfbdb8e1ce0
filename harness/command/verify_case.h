/* verify's check of one method on one shape.
 *
 * A method that skips work is right if it computes exactly the pairs that it says it computes: its output is compared
 * with float64 attention over those pairs (sparge_plan_get_pairs), written out here with plain loops. What it skips is
 * a matter of quality, which sweep measures. */
#ifndef HARNESS_VERIFY_CASE_H
#define HARNESS_VERIFY_CASE_H

#include "measure/inputs.h"

typedef struct sb_verify_shape {
    const char *name;
    sparge_problem problem;
} sb_verify_shape;

extern const sb_verify_shape sb_verify_shapes[];
extern const size_t sb_verify_shape_count;

/* Inputs of one shape, in backend memory and as doubles. */
typedef struct sb_verify_inputs {
    const sb_verify_shape *shape;
    sb_inputs inputs;
    double *q, *k, *v;
} sb_verify_inputs;

sparge_status sb_verify_inputs_create(sparge_context *context, const sb_verify_shape *shape, uint64_t seed,
                                      sb_verify_inputs *inputs, sparge_error *error);
void sb_verify_inputs_release(sparge_context *context, sb_verify_inputs *inputs);

typedef struct sb_verify_result {
    double sparsity;
    double rel_l1, rel_l1_bound;
    double lse_error, lse_bound; /* largest |difference|; INFINITY where only one side is -inf */
    int64_t nonfinite;
    int64_t invisible; /* pairs computed that the causal mask hides */
    int passed;
} sb_verify_result;

/* UNSUPPORTED with the reason where the method cannot do the shape. `arithmetic` is "f16", "int8-f16" or "int8-fp8" and
 * gives the bounds. */
sparge_status sb_verify_run(sparge_context *context, const sb_verify_inputs *inputs, const sparge_params *params,
                            const char *arithmetic, sb_verify_result *result, sparge_error *error);

/* The library's exact reference against the loops here: the largest difference, relative to the largest output. */
sparge_status sb_verify_exact(sparge_context *context, const sb_verify_inputs *inputs, double *difference,
                              sparge_error *error);

#endif
