/* Attend: sets up a run of the worklist, spreads its row blocks over the threads, and counts what was computed. */
#include "cpu/attend/attend.h"

#include <math.h>
#include <omp.h>

#include "cpu/context.h"

/* Upstream's exponent offset on FP8 paths: log2 of 447.9, so that P fills e4m3's range (upstream.md 2.9 step 4). */
static const float UPSTREAM_FP8_BIAS = 8.807f;
static const float E4M3_LARGEST = 448.0f;

/* The head's threshold in base-2 units; -inf = never skip. */
static double skip_threshold(const sparge_recipe *recipe, int32_t head)
{
    if (recipe->skip_softmax_threshold > 0)
        return log2(recipe->skip_softmax_threshold);
    return sparge_per_head_value(&recipe->lambda, head) * LOG2_E;
}

static int skip_enabled(const sparge_plan *plan)
{
    for (int32_t head = 0; head < plan->problem.heads_q; head++)
        if (skip_threshold(&plan->recipe, head) > -INFINITY)
            return 1;
    return 0;
}

static sparge_status check_recipe(sparge_plan *plan)
{
    const sparge_recipe *recipe = &plan->recipe;
    sparge_context *context = plan->context;
    if (recipe->exp == SPARGE_EXP_FAST)
        return sparge_context_fail(context, SPARGE_ERROR_UNSUPPORTED,
                                   "exp = fast: the cpu backend has only the accurate exponential");
    if (!skip_enabled(plan))
        return SPARGE_OK;
    if (!cpu_plan_of(plan)->mask.value)
        return sparge_context_fail(context, SPARGE_ERROR_UNSUPPORTED,
                                   "lambda: the PV skip test needs a selection on a block grid");
    for (int32_t head = 0; recipe->skip_softmax_threshold > 0 && head < plan->problem.heads_q; head++)
        if (sparge_per_head_value(&recipe->lambda, head) > -INFINITY)
            return sparge_context_fail(context, SPARGE_ERROR_UNSUPPORTED,
                                       "lambda and a skip-softmax threshold cannot be combined");
    if (recipe->pv_unit < 1 || recipe->pv_unit > recipe->block_q || recipe->block_q % recipe->pv_unit ||
        (recipe->pv_unit & (recipe->pv_unit - 1)))
        return sparge_context_fail(context, SPARGE_ERROR_UNSUPPORTED,
                                   "pv_unit = %d: must be a power of two that divides block_q = %d", recipe->pv_unit,
                                   recipe->block_q);
    return SPARGE_OK;
}

sparge_status cpu_attend_plan(sparge_plan *plan)
{
    cpu_plan *cpu = cpu_plan_of(plan);
    const size_t row_blocks = (size_t)cpu->work.row_blocks;
    void *attend, *workspace, *order, *keys, *skipped, *threshold;
    sparge_status status = check_recipe(plan);
    if (status == SPARGE_OK)
        status = cpu_take(plan, 1, sizeof(cpu_attend), &attend);
    if (status == SPARGE_OK)
        status = cpu_take(plan, (size_t)cpu_threads(plan->context), sizeof(cpu_attend_workspace), &workspace);
    if (status == SPARGE_OK)
        status = cpu_take(plan, row_blocks, sizeof(int64_t), &order);
    if (status == SPARGE_OK)
        status = cpu_take(plan, row_blocks, sizeof(int64_t), &keys);
    if (status == SPARGE_OK)
        status = cpu_take(plan, row_blocks, sizeof(int64_t), &skipped);
    if (status == SPARGE_OK)
        status = cpu_take(plan, (size_t)plan->problem.heads_q, sizeof(float), &threshold);
    if (status != SPARGE_OK)
        return status;
    cpu->attend = attend;
    *cpu->attend = (cpu_attend){
        .workspace = workspace, .order = order, .keys = keys, .skipped = skipped, .skip_threshold = threshold};
    for (int32_t head = 0; head < plan->problem.heads_q; head++)
        cpu->attend->skip_threshold[head] = (float)skip_threshold(&plan->recipe, head);
    return SPARGE_OK;
}

/* The arithmetic of P V: fixed mode, or upstream's with V cast to f16. */
static void set_arithmetic(cpu_attend_job *job)
{
    const sparge_recipe *recipe = job->recipe;
    job->p_scale = 1.0f;
    if (recipe->arithmetic == SPARGE_ARITHMETIC_INT8_FP8) {
        job->p_type = ATTEND_P_E4M3;
        if (recipe->upstream)
            job->exponent_bias = UPSTREAM_FP8_BIAS;
        else
            job->p_scale = E4M3_LARGEST;
    } else if (recipe->arithmetic == SPARGE_ARITHMETIC_INT8_F16 && recipe->upstream) {
        job->p_type = ATTEND_P_F16;
        job->round_v = job->problem->dtype == SPARGE_BF16;
        job->sum_rounded = 1;
    } else {
        job->p_type = job->problem->dtype == SPARGE_F16 ? ATTEND_P_F16 : ATTEND_P_BF16;
    }
    job->add_smoothed = recipe->arithmetic != SPARGE_ARITHMETIC_F16 && job->prepared->k_mean != NULL;
}

static void set_skip(cpu_attend_job *job, const sparge_plan *plan)
{
    const sparge_recipe *recipe = job->recipe;
    job->skip_enabled = skip_enabled(plan);
    if (!job->skip_enabled)
        return;
    job->skip_keeps_sum = recipe->pv_keeps_denominator && !recipe->upstream && !(recipe->skip_softmax_threshold > 0);
    job->skip_upstream = recipe->upstream;
    job->skip_unit = recipe->pv_unit;
    job->skip_threshold = cpu_plan_of(plan)->attend->skip_threshold;
    if (recipe->upstream) /* the tiles that upstream masks: BQ / BK of them, at least one */
        job->skip_guarded = recipe->block_q > recipe->block_k ? recipe->block_q / recipe->block_k : 1;
}

/* Sorts row blocks by length into `order`, the longest first, in a fixed order: what starts last is then short. A
 * counting sort with BUCKETS lengths is as good as an exact one here. */
static void order_row_blocks(const cpu_worklist *work, cpu_attend *attend)
{
    enum { BUCKETS = 256 };
    int64_t longest = 1, start[BUCKETS + 1] = {0};
    for (int64_t i = 0; i < work->row_blocks; i++) {
        const cpu_row_block *block = &work->row_block[i];
        int64_t keys = block->column_end - block->column_begin;
        for (int64_t s = block->segment_begin; s < block->segment_end; s++)
            keys += work->segment[s].k_count;
        attend->keys[i] = keys;
        longest = keys > longest ? keys : longest;
    }
    for (int64_t i = 0; i < work->row_blocks; i++)
        start[BUCKETS - attend->keys[i] * (BUCKETS - 1) / longest]++; /* 1..BUCKETS */
    for (int b = 0; b < BUCKETS; b++)
        start[b + 1] += start[b];
    for (int64_t i = 0; i < work->row_blocks; i++)
        attend->order[start[BUCKETS - attend->keys[i] * (BUCKETS - 1) / longest - 1]++] = i;
}

/* pv_skipped: per row block, (votes that said skip) / (votes), summed over blocks with equal numbers of votes first, so
 * that the sum is exact. */
static void count_skips(sparge_stats *stats, const cpu_worklist *work, const cpu_attend *attend, int32_t unit)
{
    int64_t skipped[ATTEND_MAX_ROWS + 1] = {0};
    for (int64_t i = 0; i < work->row_blocks; i++)
        skipped[(work->row_block[i].q_count + unit - 1) / unit] += attend->skipped[i];
    for (int32_t votes = 1; votes <= ATTEND_MAX_ROWS; votes++)
        stats->pv_skipped += (double)skipped[votes] / votes;
}

static void count(sparge_plan *plan, const cpu_attend_job *job)
{
    cpu_plan *cpu = cpu_plan_of(plan);
    sparge_stats *stats = &cpu->stats;
    const double per_pair = 2.0 * plan->problem.head_dim; /* operations of one product per (query, key) */
    stats->pv_skipped = 0;
    stats->pv_unit = job->skip_unit;
    stats->executed_ops = 0;
    if (stats->basis == SPARGE_BASIS_PAIR) {
        for (int64_t i = 0; i < cpu->work.row_blocks; i++)
            stats->executed_ops += 2 * per_pair * (double)cpu->work.row_block[i].q_count * (double)cpu->attend->keys[i];
        return;
    }
    if (job->skip_enabled)
        count_skips(stats, &cpu->work, cpu->attend, job->skip_unit);
    const double products = 2.0 * (double)stats->qk - stats->pv_skipped;
    stats->executed_ops = per_pair * plan->recipe.block_q * plan->recipe.block_k * products;
}

sparge_status cpu_attend_run(sparge_plan *plan, const sparge_io *io)
{
    cpu_plan *cpu = cpu_plan_of(plan);
    cpu_attend *attend = cpu->attend;
    const float scale = sparge_problem_scale(&plan->problem);
    cpu_attend_job job = {.problem = &plan->problem,
                          .recipe = &plan->recipe,
                          .prepared = &cpu->prepared,
                          .work = &cpu->work,
                          .token = cpu->permuted,
                          .o = io->o,
                          .lse = io->lse,
                          .scale = scale,
                          .scale_log2e = (float)((double)scale * LOG2_E)};
    set_arithmetic(&job);
    set_skip(&job, plan);
    order_row_blocks(&cpu->work, attend);
    const cpu_isa *isa = cpu_context_isa(plan->context);
    const int64_t row_blocks = cpu->work.row_blocks;
#pragma omp parallel for schedule(dynamic, 1) num_threads(cpu_threads(plan->context))
    for (int64_t i = 0; i < row_blocks; i++) {
        const int64_t index = attend->order[i];
        attend->skipped[index] = isa->attend_row_block(&job, index, &attend->workspace[omp_get_thread_num()]);
    }
    count(plan, &job);
    return SPARGE_OK;
}
