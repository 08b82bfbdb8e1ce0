/* Parameters that several methods have, read in one place. */
#include "methods/shared.h"

#include <inttypes.h>

/* 64 or 128 of block_q and block_k; `fallback` where the method has no such parameter. */
static int32_t block_edge(const sparge_params *params, const char *name, int32_t fallback)
{
    int index = sparge_params_choice(params, name);
    return index < 0 ? fallback : 64 << index;
}

static sparge_status resolve_pv_unit(const sparge_params *params, sparge_recipe *recipe, sparge_error *error)
{
    int index = sparge_params_choice(params, "pv_unit");
    recipe->pv_unit = index >= 0 ? 16 << index : recipe->upstream ? recipe->block_q : 64;
    if (recipe->pv_unit > recipe->block_q)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "pv_unit: %d rows are more than block_q = %d",
                           recipe->pv_unit, recipe->block_q);
    return SPARGE_OK;
}

/* The official kernels' own limits (upstream.md 1.1 and 2.9); beyond them there is nothing to be equal to. */
static sparge_status check_upstream(const sparge_problem *problem, sparge_error *error)
{
    if (problem->head_dim != 64 && problem->head_dim != 128)
        return sparge_fail(error, SPARGE_ERROR_UNSUPPORTED,
                           "compat=upstream: head_dim %d, the official code has 64 and 128", problem->head_dim);
    if (problem->seqlen_q < 128)
        return sparge_fail(error, SPARGE_ERROR_UNSUPPORTED,
                           "compat=upstream: %" PRId64 " queries, the official code needs 128", problem->seqlen_q);
    if (problem->causal == SPARGE_CAUSAL_BOTTOM_RIGHT && problem->seqlen_q != problem->seqlen_k)
        return sparge_fail(error, SPARGE_ERROR_UNSUPPORTED,
                           "compat=upstream: the official code aligns causal masks top-left, not bottom-right");
    return SPARGE_OK;
}

sparge_status method_resolve_shared(const sparge_params *params, const sparge_problem *problem, sparge_recipe *recipe,
                                    sparge_error *error)
{
    int attend = sparge_params_choice(params, "attend");
    recipe->arithmetic = attend < 0 ? recipe->method->arithmetic : (sparge_arithmetic)attend;
    recipe->exp = recipe->arithmetic == SPARGE_ARITHMETIC_F16 ? SPARGE_EXP_EXACT : SPARGE_EXP_ACCURATE;
    if (sparge_params_is_set(params, "exp"))
        recipe->exp = (sparge_exp)sparge_params_choice(params, "exp");
    recipe->smooth_k = sparge_params_choice(params, "smooth_k") == 1;
    recipe->block_q = block_edge(params, "block_q", 128);
    recipe->block_k = block_edge(params, "block_k", 64);
    recipe->upstream = sparge_params_choice(params, "compat") == 1;
    recipe->scales = SPARGE_SCALES_BLOCK;
    if (sparge_params_is_set(params, "scales"))
        recipe->scales = (sparge_scales)sparge_params_choice(params, "scales");
    else if (recipe->arithmetic != SPARGE_ARITHMETIC_F16 && !recipe->upstream)
        recipe->scales = SPARGE_SCALES_THREAD;
    if (recipe->upstream) {
        recipe->pv_keeps_denominator = 0;
        recipe->fp8_v_max = 2.25F;
        sparge_status status = check_upstream(problem, error);
        if (status != SPARGE_OK)
            return status;
    }
    if (sparge_method_param_find(recipe->method, "lambda")) {
        sparge_status status = sparge_params_per_head(params, "lambda", problem->heads_q, &recipe->lambda, error);
        if (status != SPARGE_OK)
            return status;
    }
    if (sparge_method_param_find(recipe->method, "pv_unit"))
        return resolve_pv_unit(params, recipe, error);
    return SPARGE_OK;
}

sparge_status method_need_causal(const sparge_problem *problem, const char *why, sparge_error *error)
{
    if (problem->causal != SPARGE_CAUSAL_NONE)
        return SPARGE_OK;
    return sparge_fail(error, SPARGE_ERROR_UNSUPPORTED, "not causal: %s", why);
}

sparge_status method_need_equal_lengths(const sparge_problem *problem, const char *why, sparge_error *error)
{
    if (problem->seqlen_q == problem->seqlen_k)
        return SPARGE_OK;
    return sparge_fail(error, SPARGE_ERROR_UNSUPPORTED, "%" PRId64 " queries and %" PRId64 " keys: %s",
                       problem->seqlen_q, problem->seqlen_k, why);
}
