/* Plans: a method with its parameters, made ready for one problem on one context.
 *
 * A run has at most three stages. prepare: everything in the pre-pass over Q, K and V (smoothing, quantisation,
 * pooling, self-similarity, token permutation). select: from the scores to the list of blocks or tokens to compute.
 * attend: the attention itself. Running SPARGE_STAGE_ALL equals running the three in order.
 * All memory is taken when the plan is created; running allocates nothing, with one exception: the first run on a device
 * with tensors that are not aligned to 16 bytes in address and strides takes memory for aligned copies. */
#ifndef SPARGE_PLAN_H
#define SPARGE_PLAN_H

#include "sparge/block_mask.h"
#include "sparge/context.h"
#include "sparge/method.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sparge_plan sparge_plan;

enum { SPARGE_STAGE_PREPARE = 1, SPARGE_STAGE_SELECT = 2, SPARGE_STAGE_ATTEND = 4, SPARGE_STAGE_ALL = 7 };

/* Shapes must be the problem's: q, o [B,Hq,Lq,D], k, v [B,Hkv,Lk,D], all of problem.dtype. */
typedef struct sparge_io {
    sparge_tensor q, k, v, o;
    float *lse; /* backend memory, float[B][Hq][Lq], natural log of the sum of exp(scaled true scores); or NULL */
} sparge_io;

typedef enum sparge_basis { SPARGE_BASIS_BLOCK = 0, SPARGE_BASIS_PAIR } sparge_basis;

/* What the last run computed. Counts are exact sums over batch and heads. A block counts 1 if it holds a visible pair;
 * token-granular methods count visible pairs (basis PAIR).
 * sparsity = sparsity_mg + sparsity_pv / 2 (paper section 4: a PV-only skip saves one of two products). */
typedef struct sparge_stats {
    sparge_basis basis;
    int64_t visible;    /* blocks or pairs that dense attention needs */
    int64_t qk;         /* of these, computed in QK */
    double pv_skipped;  /* of `qk`, skipped in PV; a block whose votes are split counts by its share */
    int32_t pv_unit;    /* query rows per PV skip vote; 0 where there is no test */
    double sparsity_mg; /* 1 - qk / visible */
    double sparsity_pv; /* pv_skipped / visible */
    double sparsity;
    double executed_ops;      /* operations of the products really computed, masked halves of tiles included */
    int32_t block_q, block_k; /* 0 for token-granular methods */
    int64_t extra; /* method-specific: query-aware heads of flexprefill, fixed blocks of sparge, ...; else 0 */
} sparge_stats;

/* UNSUPPORTED (with the reason in sparge_error_string) where the method or backend cannot do the problem. The params
 * are copied. */
sparge_status sparge_plan_create(sparge_context *context, const sparge_params *params, const sparge_problem *problem,
                                 sparge_plan **plan);
void sparge_plan_destroy(sparge_plan *plan); /* NULL is fine */

/* The workspace that a plan would have, without taking it: sparge_plan_workspace_bytes of the plan that
 * sparge_plan_create would make, or its error. OUT_OF_MEMORY: more than any address space holds. */
sparge_status sparge_plan_size(sparge_context *context, const sparge_params *params, const sparge_problem *problem,
                               size_t *bytes);

/* Backend memory held by the plan (outputs and inputs excluded). */
size_t sparge_plan_workspace_bytes(const sparge_plan *plan);

/* Which of the stages this method has. */
int sparge_plan_stages(const sparge_plan *plan);

/* `stages` is a non-empty union of SPARGE_STAGE_*; later stages use what earlier ones left in the plan. Asynchronous on
 * devices. */
sparge_status sparge_plan_run(sparge_plan *plan, int stages, const sparge_io *io);

/* Of the last complete run; waits for it. */
sparge_status sparge_plan_get_stats(sparge_plan *plan, sparge_stats *stats);

/* The blocks chosen by the last select, for methods on a block grid; UNSUPPORTED for token-granular ones.
 * Allocates *mask. */
sparge_status sparge_plan_get_block_mask(sparge_plan *plan, sparge_block_mask *mask);

/* For tests and small problems, every method: kept[query * Lk + key] = 1 if the last select computes that pair.
 * Host memory of Lq * Lk bytes. */
sparge_status sparge_plan_get_pairs(sparge_plan *plan, int32_t batch, int32_t head, uint8_t *kept);

/* Mean self-similarity of the blocks of Q and K in the last prepare (paper section 3.2; Table 4 and 9), averaged over
 * batch and heads; UNSUPPORTED for methods that do not compute it. */
sparge_status sparge_plan_get_similarity(sparge_plan *plan, double *sim_q, double *sim_k);

#ifdef __cplusplus
}
#endif
#endif
