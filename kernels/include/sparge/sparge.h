/* libsparge: SpargeAttn and the attentions its paper compares with (arXiv 2502.18137).
 *
 *     sparge_context *ctx;   sparge_context_create("auto", 0, 0, &ctx, &error);
 *     sparge_params  *par;   sparge_params_create(sparge_method_find("sparge-int8-fp8"), &par);
 *     sparge_params_set(par, "tau", "0.95", &error);
 *     sparge_plan    *plan;  sparge_plan_create(ctx, par, &problem, &plan);
 *     sparge_plan_run(plan, SPARGE_STAGE_ALL, &io);
 *
 * Read in this order: problem.h, tensor.h, method.h, context.h, plan.h. */
#ifndef SPARGE_SPARGE_H
#define SPARGE_SPARGE_H

#define SPARGE_VERSION_MAJOR 0
#define SPARGE_VERSION_MINOR 1
#define SPARGE_VERSION_PATCH 0

#include "sparge/block_mask.h"
#include "sparge/context.h"
#include "sparge/generate.h"
#include "sparge/method.h"
#include "sparge/plan.h"
#include "sparge/problem.h"
#include "sparge/status.h"
#include "sparge/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0" */
const char *sparge_version(void);

#ifdef __cplusplus
}
#endif
#endif
