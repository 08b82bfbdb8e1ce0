/* Plans of the CUDA backend: the vtable's plan functions, with the context's device already current. */
#ifndef SPARGE_CUDA_PLAN_H
#define SPARGE_CUDA_PLAN_H

#include "cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Why the backend cannot execute a recipe with the code of an architecture (90 for sm_90), or NULL if it can. */
const char *cuda_unsupported_reason(const sparge_recipe *recipe, int arch);

/* Does any head skip P V in the kernel, by lambda or by skip-softmax? */
int cuda_skips_in_kernel(const sparge_recipe *recipe, int32_t heads_q);

/* Heads of queries, of all batches, whose K and V fill 9/16 of the L2 cache at most: their row blocks may be begun together.
 * At least one; in GQA a multiple of those that share K and V. */
int64_t cuda_heads_in_cache(const sparge_plan *plan);

sparge_status cuda_plan_create(sparge_plan *plan);
void cuda_plan_destroy(sparge_plan *plan);
sparge_status cuda_plan_run(sparge_plan *plan, int stages, const sparge_io *io);
sparge_status cuda_plan_stats(sparge_plan *plan, sparge_stats *stats);
sparge_status cuda_plan_block_mask(sparge_plan *plan, sparge_block_mask *mask);
sparge_status cuda_plan_pairs(sparge_plan *plan, int32_t batch, int32_t head, uint8_t *kept);
sparge_status cuda_plan_similarity(sparge_plan *plan, double *sim_q, double *sim_k);

#ifdef __cplusplus
}
#endif
#endif
