/* Plans on CUDA: which recipes there are kernels for, the order of the stages, and reading back what a run did.
 *
 * A run only puts work on the context's stream. Reading results waits for the stream. */
#include "cuda/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/memory.h"

int cuda_skips_in_kernel(const sparge_recipe *recipe, int32_t heads_q)
{
    if (recipe->skip_softmax_threshold > 0)
        return 1;
    for (int32_t head = 0; head < heads_q; head++)
        if (sparge_per_head_value(&recipe->lambda, head) > -INFINITY)
            return 1;
    return 0;
}

const char *cuda_unsupported_reason(const sparge_recipe *recipe, int arch)
{
    switch (recipe->select) {
    case SPARGE_SELECT_ALL:
    case SPARGE_SELECT_MEANSIM:
    case SPARGE_SELECT_POOLED_TOPK:
    case SPARGE_SELECT_MASK:
        break;
    case SPARGE_SELECT_VERTICAL_SLASH:
    case SPARGE_SELECT_VERTICAL_SLASH_GRID:
    case SPARGE_SELECT_BAND:
    case SPARGE_SELECT_FLEX:
    case SPARGE_SELECT_STA:
    case SPARGE_SELECT_ANTIDIAGONAL:
        return "the cuda backend does not have this selection yet";
    }
    if (recipe->upstream && recipe->scales != SPARGE_SCALES_BLOCK)
        return "compat = upstream: the cuda backend has it with one INT8 scale a block only";
    if (recipe->arithmetic == SPARGE_ARITHMETIC_INT8_FP8 && arch < 89)
        return "FP8 products need an sm_89 or later device, and code for one in this build (CMAKE_CUDA_ARCHITECTURES)";
    return NULL;
}

int64_t cuda_heads_in_cache(const sparge_plan *plan)
{
    const sparge_problem *p = &plan->problem;
    const sparge_arithmetic arithmetic = plan->recipe.arithmetic;
    const int64_t padded_dim = p->head_dim <= 64 ? 64 : 128;
    const int64_t token_bytes = (arithmetic == SPARGE_ARITHMETIC_F16 ? 2 * p->head_dim : padded_dim) +
                                (arithmetic == SPARGE_ARITHMETIC_INT8_FP8 ? padded_dim : 2 * p->head_dim);
    const int64_t cache = cuda_context_of(plan->context)->properties.l2CacheSize;
    const int64_t fitting = cache / 16 * 9 / (p->seqlen_k * token_bytes), heads = (int64_t)p->batch * p->heads_kv;
    return (fitting < 1 ? 1 : fitting < heads ? fitting : heads) * (p->heads_q / p->heads_kv);
}

static int64_t rows_of(const sparge_plan *plan)
{
    return (plan->problem.seqlen_q + plan->recipe.block_q - 1) / plan->recipe.block_q;
}

static int64_t cols_of(const sparge_plan *plan)
{
    return (plan->problem.seqlen_k + plan->recipe.block_k - 1) / plan->recipe.block_k;
}

static sparge_status synchronize(sparge_context *context)
{
    return cuda_check(context, cudaStreamSynchronize(cuda_context_of(context)->stream), "waiting for the stream");
}

sparge_status cuda_plan_create(sparge_plan *plan)
{
    sparge_context *context = plan->context;
    const char *reason = cuda_unsupported_reason(&plan->recipe, cuda_context_of(context)->arch);
    if (reason)
        return sparge_context_fail(context, SPARGE_ERROR_UNSUPPORTED, "method %s: %s",
                                   sparge_method_name(plan->recipe.method), reason);
    cuda_plan *cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        return sparge_context_fail(context, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for a plan");
    plan->state = cuda;
    plan->workspace_bytes = 0;
    void *counts = NULL;
    sparge_status status = cuda_take(plan, 1, sizeof *cuda->counts, &counts);
    cuda->counts = counts;
    if (status == SPARGE_OK)
        status = cuda_select_plan(plan);
    if (status == SPARGE_OK)
        status = cuda_prepare_plan(plan);
    if (status == SPARGE_OK)
        status = cuda_attend_plan(plan);
    if (status == SPARGE_OK && !plan->sizing && !(sparge_plan_stages(plan) & SPARGE_STAGE_SELECT))
        status = cuda_select_run(plan, NULL);
    if (status == SPARGE_OK && !plan->sizing) /* so that no part of making a plan is timed with its first run */
        status = synchronize(context);
    if (status != SPARGE_OK)
        cuda_plan_destroy(plan);
    return status;
}

void cuda_plan_destroy(sparge_plan *plan)
{
    if (!plan->state)
        return;
    (void)cudaStreamSynchronize(cuda_context_of(plan->context)->stream); /* a run may still use the memory */
    cuda_plan_release(plan);
    free(plan->state);
    plan->state = NULL;
}

sparge_status cuda_plan_run(sparge_plan *plan, int stages, const sparge_io *io)
{
    /* Where a method has no prepare stage, prepare still says where Q, K and V are: the caller's, or padded copies. */
    const int prepares = stages & SPARGE_STAGE_PREPARE || !(sparge_plan_stages(plan) & SPARGE_STAGE_PREPARE);
    sparge_status status = prepares ? cuda_prepare_run(plan, io) : SPARGE_OK;
    if (status == SPARGE_OK && (stages & SPARGE_STAGE_SELECT))
        status = cuda_select_run(plan, io);
    if (status == SPARGE_OK && (stages & SPARGE_STAGE_ATTEND))
        status = cuda_attend_run(plan, io);
    return status;
}

/* Copies from the device after everything before it on the stream, and waits. */
static sparge_status read_back(sparge_plan *plan, void *host, const void *device, size_t bytes, const char *what)
{
    sparge_context *context = plan->context;
    const sparge_status status = cuda_check(
        context, cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, cuda_context_of(context)->stream), what);
    return status == SPARGE_OK ? synchronize(context) : status;
}

static int skips_pv(const sparge_plan *plan)
{
    if (plan->recipe.skip_softmax_threshold > 0)
        return 1;
    for (int32_t head = 0; head < plan->problem.heads_q; head++)
        if (sparge_per_head_value(&plan->recipe.lambda, head) > -INFINITY)
            return 1;
    return 0;
}

sparge_status cuda_plan_stats(sparge_plan *plan, sparge_stats *stats)
{
    const sparge_recipe *recipe = &plan->recipe;
    cuda_counts counts;
    const sparge_status status =
        read_back(plan, &counts, cuda_plan_of(plan)->counts, sizeof counts, "reading the counts");
    if (status != SPARGE_OK)
        return status;
    stats->basis = SPARGE_BASIS_BLOCK;
    stats->block_q = recipe->block_q;
    stats->block_k = recipe->block_k;
    stats->visible = (int64_t)counts.visible;
    stats->qk = (int64_t)counts.qk;
    stats->extra = (int64_t)counts.extra;
    if (skips_pv(plan)) {
        stats->pv_unit = recipe->pv_unit;
        stats->pv_skipped = (double)counts.pv_skipped / ATTEND_VOTE_SHARE;
    }
    const double products = 2.0 * (double)stats->qk - stats->pv_skipped;
    stats->executed_ops = 2.0 * plan->problem.head_dim * recipe->block_q * recipe->block_k * products;
    return SPARGE_OK;
}

/* The blocks of one (batch, head), or of all where bh is -1, as the last select chose them. */
static sparge_status read_mask(sparge_plan *plan, int64_t bh, uint8_t *value)
{
    const uint8_t *mask = cuda_plan_of(plan)->lists.mask;
    const int64_t rows = rows_of(plan), cols = cols_of(plan);
    const int64_t heads = bh < 0 ? (int64_t)plan->problem.batch * plan->problem.heads_q : 1;
    if (mask)
        return read_back(plan, value, mask + (bh < 0 ? 0 : bh * rows * cols), (size_t)(heads * rows * cols),
                         "reading the block mask");
    for (int64_t row = 0; row < heads * rows; row++) /* dense: all that is visible */
        for (int64_t col = 0; col < cols; col++)
            value[row * cols + col] = (uint8_t)sparge_block_visible(&plan->problem, plan->recipe.block_q,
                                                                    plan->recipe.block_k, row % rows, col);
    return SPARGE_OK;
}

sparge_status cuda_plan_block_mask(sparge_plan *plan, sparge_block_mask *mask)
{
    return read_mask(plan, -1, mask->value);
}

sparge_status cuda_plan_pairs(sparge_plan *plan, int32_t batch, int32_t head, uint8_t *kept)
{
    const sparge_problem *problem = &plan->problem;
    const int64_t rows = rows_of(plan), cols = cols_of(plan);
    uint8_t *mask = malloc((size_t)(rows * cols));
    if (!mask)
        return sparge_context_fail(plan->context, SPARGE_ERROR_OUT_OF_MEMORY,
                                   "out of memory for a block mask of %lld x %lld", (long long)rows, (long long)cols);
    const sparge_status status = read_mask(plan, (int64_t)batch * problem->heads_q + head, mask);
    for (int64_t query = 0; status == SPARGE_OK && query < problem->seqlen_q; query++) {
        const uint8_t *row = mask + query / plan->recipe.block_q * cols;
        const int64_t end = sparge_problem_visible_end(problem, query);
        for (int64_t key = 0; key < end; key++)
            kept[query * problem->seqlen_k + key] = row[key / plan->recipe.block_k] != 0;
    }
    free(mask);
    return status;
}

/* Mean of floats on the device, summed in double in their order. */
static sparge_status mean(sparge_plan *plan, const float *values, int64_t count, double *result)
{
    float *host = malloc((size_t)count * sizeof *host);
    if (!host)
        return sparge_context_fail(plan->context, SPARGE_ERROR_OUT_OF_MEMORY,
                                   "out of memory for the similarities of %lld blocks", (long long)count);
    const sparge_status status =
        read_back(plan, host, values, (size_t)count * sizeof *host, "reading the blocks' similarity");
    double sum = 0;
    for (int64_t i = 0; status == SPARGE_OK && i < count; i++)
        sum += (double)host[i];
    free(host);
    *result = sum / (double)count;
    return status;
}

sparge_status cuda_plan_similarity(sparge_plan *plan, double *sim_q, double *sim_k)
{
    const cuda_prepared *prepared = &cuda_plan_of(plan)->prepared;
    const sparge_problem *problem = &plan->problem;
    if (!prepared->q_sim || !prepared->k_sim)
        return sparge_context_fail(plan->context, SPARGE_ERROR_UNSUPPORTED,
                                   "method %s does not compute the self-similarity of blocks",
                                   sparge_method_name(plan->recipe.method));
    const sparge_status status =
        mean(plan, prepared->q_sim, (int64_t)problem->batch * problem->heads_q * rows_of(plan), sim_q);
    if (status != SPARGE_OK)
        return status;
    return mean(plan, prepared->k_sim, (int64_t)problem->batch * problem->heads_kv * cols_of(plan), sim_k);
}
