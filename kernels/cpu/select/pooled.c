/* MInference's block-sparse selection (baselines.md 1.5): per row of blocks the k key blocks with the largest product of
 * mean-pooled Q and K. No scale, no softmax: they would not change the order. No block is forced, not even the
 * diagonal one. */
#include "cpu/select/numeric.h"
#include "cpu/select/select.h"

#include <math.h>
#include <string.h>

static sparge_status plan_pooled(sparge_plan *plan)
{
    sparge_status status = cpu_select_take_mask(plan);
    if (status != SPARGE_OK)
        return status;
    const size_t cols = (size_t)cpu_plan_of(plan)->mask.cols;
    return cpu_select_take_scratch(plan, cols * (sizeof(float) + 2 * sizeof(int32_t)));
}

static int64_t count_kept(const sparge_recipe *recipe, int64_t visible)
{
    if (!recipe->pooled.use_sparsity)
        return recipe->pooled.k < visible ? recipe->pooled.k : visible;
    const int64_t kept = (int64_t)floor((1.0 - recipe->pooled.sparsity) * (double)visible + 0.5);
    return kept > 1 ? kept : visible > 1 ? 1 : visible;
}

static sparge_status run_pooled(sparge_plan *plan)
{
    cpu_plan *cpu = cpu_plan_of(plan);
    const sparge_problem *p = &plan->problem;
    const sparge_recipe *recipe = &plan->recipe;
    const sparge_block_mask *mask = &cpu->mask;
    const int64_t rows = (int64_t)mask->batch * mask->heads * mask->rows;
    const int64_t group = p->heads_q / p->heads_kv;
#pragma omp parallel for schedule(dynamic, 8) num_threads(cpu_threads(plan->context))
    for (int64_t i = 0; i < rows; i++) {
        const int64_t bh = i / mask->rows;
        const int64_t kv = bh / p->heads_q * p->heads_kv + bh % p->heads_q / group;
        const float *q = cpu->prepared.q_pool + i * p->head_dim;
        const float *k = cpu->prepared.k_pool + kv * mask->cols * p->head_dim;
        const int64_t visible = cpu_select_visible_cols(plan, i % mask->rows);
        float *score = cpu_select_scratch(plan);
        int32_t *order = (int32_t *)(score + mask->cols), *spare = order + mask->cols;
        if (!recipe->upstream)
            cpu_scores(plan->context, score, q, k, visible, p->head_dim, 1);
        for (int64_t col = 0; col < visible; col++) {
            if (recipe->upstream)
                score[col] = cpu_round16(cpu_dot(q, k + col * p->head_dim, p->head_dim), p->dtype);
            if (isnan(score[col]))
                score[col] = INFINITY; /* nothing is known about this block: rank it first */
            order[col] = (int32_t)col;
        }
        cpu_sort_falling(score, order, spare, visible);
        uint8_t *out = mask->value + i * mask->cols;
        memset(out, 0, (size_t)mask->cols);
        const int64_t kept = count_kept(recipe, visible);
        for (int64_t n = 0; n < kept; n++)
            out[order[n]] = 1;
    }
    return cpu_worklist_from_mask(plan);
}

const cpu_selector cpu_select_pooled = {plan_pooled, run_pooled};
