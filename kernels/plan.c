/* Plans: checks, the recipe, and the ratios derived from a backend's counts. */
#include "sparge/plan.h"

#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "checks.h"

/* A plan to run, or one that only knows its size. */
static sparge_status make_plan(sparge_context *context, const sparge_params *params, const sparge_problem *problem,
                               int sizing, sparge_plan **plan)
{
    sparge_error *error = &context->error;
    *plan = NULL;
    if (!params)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "params is NULL");
    sparge_status status = sparge_problem_check(problem, error);
    if (status != SPARGE_OK)
        return status;
    sparge_plan *created = calloc(1, sizeof *created);
    if (!created)
        return sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for a plan");
    created->context = context;
    created->problem = *problem;
    created->sizing = sizing;
    status = sparge_recipe_create(params, problem, &created->recipe, error);
    if (status != SPARGE_OK) {
        free(created);
        return status;
    }
    status = context->backend->plan_create(created);
    if (status != SPARGE_OK) {
        sparge_recipe_release(&created->recipe);
        free(created);
        return status;
    }
    *plan = created;
    return SPARGE_OK;
}

sparge_status sparge_plan_create(sparge_context *context, const sparge_params *params, const sparge_problem *problem,
                                 sparge_plan **plan)
{
    return make_plan(context, params, problem, 0, plan);
}

sparge_status sparge_plan_size(sparge_context *context, const sparge_params *params, const sparge_problem *problem,
                               size_t *bytes)
{
    sparge_plan *plan;
    *bytes = 0;
    sparge_status status = make_plan(context, params, problem, 1, &plan);
    if (status != SPARGE_OK)
        return status;
    *bytes = plan->workspace_bytes;
    sparge_plan_destroy(plan);
    return SPARGE_OK;
}

void sparge_plan_destroy(sparge_plan *plan)
{
    if (!plan)
        return;
    plan->context->backend->plan_destroy(plan);
    sparge_recipe_release(&plan->recipe);
    free(plan);
}

size_t sparge_plan_workspace_bytes(const sparge_plan *plan)
{
    return plan->workspace_bytes;
}

int sparge_plan_stages(const sparge_plan *plan)
{
    const sparge_recipe *recipe = &plan->recipe;
    int stages = SPARGE_STAGE_ATTEND;
    /* A selection that depends on the shape alone is made once, when the plan is created. */
    int looks_at_data = recipe->select != SPARGE_SELECT_ALL && recipe->select != SPARGE_SELECT_BAND &&
                        recipe->select != SPARGE_SELECT_STA && recipe->select != SPARGE_SELECT_MASK;
    if (looks_at_data)
        stages |= SPARGE_STAGE_SELECT;
    if (recipe->arithmetic != SPARGE_ARITHMETIC_F16 || recipe->select == SPARGE_SELECT_MEANSIM ||
        recipe->select == SPARGE_SELECT_POOLED_TOPK || recipe->select == SPARGE_SELECT_FLEX ||
        recipe->select == SPARGE_SELECT_STA)
        stages |= SPARGE_STAGE_PREPARE;
    return stages;
}

sparge_status sparge_plan_run(sparge_plan *plan, int stages, const sparge_io *io)
{
    sparge_error *error = &plan->context->error;
    const sparge_problem *problem = &plan->problem;
    if (stages <= 0 || (stages & ~SPARGE_STAGE_ALL))
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "stages = %d: must be a union of SPARGE_STAGE_*",
                           stages);
    if (!io)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "io is NULL");
    sparge_status status = sparge_check_qkv(problem, &io->q, &io->k, &io->v, error);
    if (status == SPARGE_OK)
        status = sparge_check_tensor("o", &io->o, problem->dtype, problem->batch, problem->heads_q, problem->seqlen_q,
                                     problem->head_dim, error);
    if (status != SPARGE_OK)
        return status;
    int has = sparge_plan_stages(plan);
    int last = stages & SPARGE_STAGE_ATTEND ? SPARGE_STAGE_ATTEND : stages & SPARGE_STAGE_SELECT;
    int needed = last ? has & (last - 1) & ~stages : 0; /* stages before the last one asked for, not asked for */
    if (needed & ~plan->stages_run)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT,
                           "stages = %d: an earlier stage of this method has not run yet", stages);
    status = plan->context->backend->plan_run(plan, stages & has, io);
    if (status == SPARGE_OK)
        plan->stages_run |= stages & has;
    return status;
}

/* Results of stages that have not run do not exist yet. */
static sparge_status check_has_run(sparge_plan *plan, int stages, const char *what)
{
    int needed = stages & sparge_plan_stages(plan);
    if ((plan->stages_run & needed) == needed)
        return SPARGE_OK;
    return sparge_context_fail(plan->context, SPARGE_ERROR_INVALID_ARGUMENT, "%s: the plan has not run yet", what);
}

sparge_status sparge_plan_get_stats(sparge_plan *plan, sparge_stats *stats)
{
    sparge_status status = check_has_run(plan, SPARGE_STAGE_ALL, "stats");
    if (status != SPARGE_OK)
        return status;
    memset(stats, 0, sizeof *stats);
    status = plan->context->backend->plan_stats(plan, stats);
    if (status != SPARGE_OK)
        return status;
    if (stats->visible > 0) {
        stats->sparsity_mg = 1.0 - (double)stats->qk / (double)stats->visible;
        stats->sparsity_pv = stats->pv_skipped / (double)stats->visible;
    }
    stats->sparsity = stats->sparsity_mg + stats->sparsity_pv / 2;
    return SPARGE_OK;
}

sparge_status sparge_plan_get_block_mask(sparge_plan *plan, sparge_block_mask *mask)
{
    memset(mask, 0, sizeof *mask);
    sparge_status status = check_has_run(plan, SPARGE_STAGE_SELECT, "block mask");
    if (status == SPARGE_OK)
        status = sparge_block_mask_create(mask, &plan->problem, plan->recipe.block_q, plan->recipe.block_k,
                                          &plan->context->error);
    if (status != SPARGE_OK)
        return status;
    status = plan->context->backend->plan_block_mask(plan, mask);
    if (status != SPARGE_OK)
        sparge_block_mask_release(mask);
    return status;
}

sparge_status sparge_plan_get_pairs(sparge_plan *plan, int32_t batch, int32_t head, uint8_t *kept)
{
    const sparge_problem *problem = &plan->problem;
    if (batch < 0 || batch >= problem->batch || head < 0 || head >= problem->heads_q)
        return sparge_context_fail(plan->context, SPARGE_ERROR_INVALID_ARGUMENT,
                                   "batch %d, head %d: must be in 0..%d and 0..%d", batch, head, problem->batch - 1,
                                   problem->heads_q - 1);
    sparge_status status = check_has_run(plan, SPARGE_STAGE_PREPARE | SPARGE_STAGE_SELECT, "pairs");
    if (status != SPARGE_OK)
        return status;
    memset(kept, 0, (size_t)(problem->seqlen_q * problem->seqlen_k));
    return plan->context->backend->plan_pairs(plan, batch, head, kept);
}

sparge_status sparge_plan_get_similarity(sparge_plan *plan, double *sim_q, double *sim_k)
{
    sparge_status status = check_has_run(plan, SPARGE_STAGE_PREPARE, "similarity");
    return status == SPARGE_OK ? plan->context->backend->plan_similarity(plan, sim_q, sim_k) : status;
}
