/* Selection: dispatch by kind, and the memory that kinds on the block grid share. */
#include "cpu/select/select.h"

#include <omp.h>

enum { CACHE_LINE = 64 };

static const cpu_selector *selector_of(const sparge_plan *plan)
{
    switch (plan->recipe.select) {
    case SPARGE_SELECT_ALL:
        return &cpu_select_all;
    case SPARGE_SELECT_MASK:
        return &cpu_select_mask;
    default:
        return NULL;
    }
}

sparge_status cpu_select_plan(sparge_plan *plan)
{
    cpu_worklist *work = &cpu_plan_of(plan)->work;
    work->begin_offset = INT64_MIN;
    work->end_offset = INT64_MAX;
    work->sink = 0;
    work->dense_from = INT64_MAX;
    const cpu_selector *selector = selector_of(plan);
    if (!selector)
        return sparge_context_fail(plan->context, SPARGE_ERROR_INTERNAL, "selection %d has no code on the CPU",
                                   (int)plan->recipe.select);
    return selector->plan(plan);
}

sparge_status cpu_select_run(sparge_plan *plan, const sparge_io *io)
{
    (void)io; /* Q and K are read through prepared, where they may be permuted */
    sparge_stats *stats = &cpu_plan_of(plan)->stats;
    stats->extra = 0;
    return selector_of(plan)->run(plan);
}

int64_t cpu_select_product(int64_t a, int64_t b)
{
    if (a < 0 || b < 0 || (b > 0 && a > INT64_MAX / b))
        return -1;
    return a * b;
}

static sparge_status too_large(const sparge_plan *plan, const char *what)
{
    return sparge_context_fail(plan->context, SPARGE_ERROR_OUT_OF_MEMORY, "selection: %s needs more than 2^63 bytes",
                               what);
}

int64_t cpu_select_visible_cols(const sparge_plan *plan, int64_t row)
{
    const sparge_problem *p = &plan->problem;
    const int64_t block_q = plan->recipe.block_q, block_k = plan->recipe.block_k;
    const int64_t end = row * block_q + block_q;
    const int64_t last = (end < p->seqlen_q ? end : p->seqlen_q) - 1;
    return (sparge_problem_visible_end(p, last) + block_k - 1) / block_k;
}

sparge_status cpu_select_take_mask(sparge_plan *plan)
{
    const sparge_problem *p = &plan->problem;
    sparge_block_mask *mask = &cpu_plan_of(plan)->mask;
    *mask = (sparge_block_mask){
        .batch = p->batch,
        .heads = p->heads_q,
        .block_q = plan->recipe.block_q,
        .block_k = plan->recipe.block_k,
        .rows = (p->seqlen_q + plan->recipe.block_q - 1) / plan->recipe.block_q,
        .cols = (p->seqlen_k + plan->recipe.block_k - 1) / plan->recipe.block_k,
    };
    int64_t visible = 0; /* at most rows * cols, which fits: see the product below */
    const int64_t heads = (int64_t)p->batch * p->heads_q;
    const int64_t row_blocks = cpu_select_product(heads, mask->rows);
    const int64_t blocks = cpu_select_product(row_blocks, mask->cols);
    if (blocks < 0)
        return too_large(plan, "the block mask");
    for (int64_t row = 0; row < mask->rows; row++)
        visible += cpu_select_visible_cols(plan, row);
    sparge_status status = cpu_take(plan, (size_t)blocks, 1, (void **)&mask->value);
    return status == SPARGE_OK ? cpu_worklist_take(plan, row_blocks, heads * visible, 0) : status;
}

sparge_status cpu_select_take_scratch(sparge_plan *plan, size_t per_thread)
{
    cpu_plan *cpu = cpu_plan_of(plan);
    if (per_thread > SIZE_MAX - CACHE_LINE)
        return too_large(plan, "scratch");
    cpu->scratch_bytes = (per_thread + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    return cpu_take(plan, (size_t)cpu_threads(plan->context), cpu->scratch_bytes, &cpu->scratch);
}

void *cpu_select_scratch(const sparge_plan *plan)
{
    const cpu_plan *cpu = cpu_plan_of(plan);
    return (char *)cpu->scratch + (size_t)omp_get_thread_num() * cpu->scratch_bytes;
}
