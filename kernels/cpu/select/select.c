/* Selection: dispatch by kind, and the memory that kinds on the block grid share. */
#include "cpu/select/select.h"

#include "cpu/worklist.h"

#include <omp.h>

enum { CACHE_LINE = 64 };

static const cpu_selector *selector_of(const sparge_plan *plan)
{
    static const cpu_selector *const selectors[] = {
        [SPARGE_SELECT_ALL] = &cpu_select_all,
        [SPARGE_SELECT_MEANSIM] = &cpu_select_meansim,
        [SPARGE_SELECT_POOLED_TOPK] = &cpu_select_pooled,
        [SPARGE_SELECT_VERTICAL_SLASH] = &cpu_select_vertical_slash,
        [SPARGE_SELECT_VERTICAL_SLASH_GRID] = &cpu_select_vertical_slash_grid,
        [SPARGE_SELECT_BAND] = &cpu_select_band,
        [SPARGE_SELECT_FLEX] = &cpu_select_flex,
        [SPARGE_SELECT_STA] = &cpu_select_sta,
        [SPARGE_SELECT_ANTIDIAGONAL] = &cpu_select_antidiagonal,
        [SPARGE_SELECT_MASK] = &cpu_select_mask,
    };
    return selectors[plan->recipe.select];
}

sparge_status cpu_select_plan(sparge_plan *plan)
{
    cpu_worklist *work = &cpu_plan_of(plan)->work;
    work->begin_offset = INT64_MIN;
    work->end_offset = INT64_MAX;
    work->sink = 0;
    work->dense_from = INT64_MAX;
    return selector_of(plan)->plan(plan);
}

sparge_status cpu_select_run(sparge_plan *plan, const sparge_io *io)
{
    (void)io; /* Q and K are read through prepared, where they may be permuted */
    cpu_plan_of(plan)->stats.extra = 0;
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

int64_t cpu_select_cut(int64_t begin, int64_t end, int64_t block_k, cpu_segment *out)
{
    int64_t count = 0;
    while (begin < end) {
        const int64_t edge = (begin / block_k + 1) * block_k, stop = edge < end ? edge : end;
        if (out)
            out[count] = (cpu_segment){.k_begin = begin, .k_count = (int32_t)(stop - begin)};
        count++;
        begin = stop;
    }
    return count;
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

/* Keys of [begin, end) that the range keeps. */
static int64_t keys_kept(const cpu_key_range *range, int64_t begin, int64_t end)
{
    const int64_t sink_end = range->sink_end < end ? range->sink_end : end;
    const int64_t sink = sink_end > begin ? sink_end - begin : 0;
    int64_t from = range->begin > begin ? range->begin : begin;
    from = from > begin + sink ? from : begin + sink; /* sink keys are counted already */
    const int64_t to = range->end < end ? range->end : end;
    return sink + (to > from ? to - from : 0);
}

enum { MOST_ROWS = 128 };

/* The ranges of a row block's queries, and the keys that all of them keep. */
typedef struct row_ranges {
    cpu_key_range row[MOST_ROWS];
    int32_t rows;
    int64_t common_begin, common_end;
} row_ranges;

static void find_ranges(const sparge_plan *plan, const cpu_row_block *block, row_ranges *ranges)
{
    ranges->rows = block->q_count;
    ranges->common_begin = 0;
    ranges->common_end = INT64_MAX;
    for (int32_t i = 0; i < block->q_count; i++) {
        const cpu_key_range range = cpu_worklist_range(&plan->problem, &cpu_plan_of(plan)->work, block->q_begin + i);
        ranges->row[i] = range;
        ranges->common_begin = range.begin > ranges->common_begin ? range.begin : ranges->common_begin;
        ranges->common_end = range.end < ranges->common_end ? range.end : ranges->common_end;
    }
}

static int64_t pairs_of_keys(const row_ranges *ranges, int64_t begin, int64_t end)
{
    if (begin >= ranges->common_begin && end <= ranges->common_end)
        return ranges->rows * (end - begin);
    int64_t pairs = 0;
    for (int32_t i = 0; i < ranges->rows; i++)
        pairs += keys_kept(&ranges->row[i], begin, end);
    return pairs;
}

static int64_t row_block_pairs(const sparge_plan *plan, const cpu_row_block *block)
{
    const cpu_worklist *work = &cpu_plan_of(plan)->work;
    row_ranges ranges;
    find_ranges(plan, block, &ranges);
    int64_t pairs = 0;
    for (int64_t s = block->segment_begin; s < block->segment_end; s++)
        pairs += pairs_of_keys(&ranges, work->segment[s].k_begin, work->segment[s].k_begin + work->segment[s].k_count);
    for (int64_t c = block->column_begin; c < block->column_end; c++)
        pairs += pairs_of_keys(&ranges, work->column[c], work->column[c] + (int64_t)1);
    return pairs;
}

void cpu_select_count_pairs(sparge_plan *plan)
{
    const sparge_problem *p = &plan->problem;
    const cpu_worklist *work = &cpu_plan_of(plan)->work;
    int64_t pairs = 0;
#pragma omp parallel for schedule(dynamic, 8) num_threads(cpu_threads(plan->context)) reduction(+ : pairs)
    for (int64_t b = 0; b < work->row_blocks; b++)
        pairs += row_block_pairs(plan, &work->row_block[b]);
    sparge_stats *stats = &cpu_plan_of(plan)->stats;
    stats->basis = SPARGE_BASIS_PAIR;
    stats->block_q = stats->block_k = 0;
    stats->visible = (int64_t)p->batch * p->heads_q * sparge_problem_visible_pairs(p);
    stats->qk = pairs;
}
