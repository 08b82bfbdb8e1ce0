/* Worklists: taking their memory, building them from a block mask, and reading them back as (query, key) pairs. */
#include "cpu/worklist.h"

#include "cpu/select/select.h"

sparge_status cpu_worklist_take(sparge_plan *plan, int64_t row_blocks, int64_t segments, int64_t columns)
{
    cpu_worklist *work = &cpu_plan_of(plan)->work;
    void *row_block, *segment, *column;
    sparge_status status = cpu_take(plan, (size_t)row_blocks, sizeof *work->row_block, &row_block);
    if (status == SPARGE_OK)
        status = cpu_take(plan, (size_t)segments, sizeof *work->segment, &segment);
    if (status == SPARGE_OK)
        status = cpu_take(plan, (size_t)columns, sizeof *work->column, &column);
    if (status != SPARGE_OK)
        return status;
    work->row_block = row_block;
    work->row_blocks = row_blocks;
    work->segment = segment;
    work->segment_capacity = segments;
    work->column = column;
    work->column_capacity = columns;
    return SPARGE_OK;
}

/* Appends the kept blocks of one mask row as segments. */
static sparge_status append_mask_row(sparge_plan *plan, const uint8_t *value, int64_t cols)
{
    cpu_worklist *work = &cpu_plan_of(plan)->work;
    const int64_t block_k = plan->recipe.block_k, seqlen_k = plan->problem.seqlen_k;
    for (int64_t col = 0; col < cols; col++) {
        if (!value[col])
            continue;
        if (work->segments == work->segment_capacity)
            return sparge_context_fail(plan->context, SPARGE_ERROR_INTERNAL, "worklist: more than %lld segments",
                                       (long long)work->segment_capacity);
        const int64_t begin = col * block_k;
        const int64_t count = seqlen_k - begin < block_k ? seqlen_k - begin : block_k;
        work->segment[work->segments++] = (cpu_segment){.k_begin = begin, .k_count = (int32_t)count};
    }
    return SPARGE_OK;
}

sparge_status cpu_worklist_from_mask(sparge_plan *plan)
{
    cpu_plan *cpu = cpu_plan_of(plan);
    cpu_worklist *work = &cpu->work;
    const sparge_block_mask *mask = &cpu->mask;
    const int64_t row_blocks = (int64_t)mask->batch * mask->heads * mask->rows;
    if (work->row_blocks != row_blocks)
        return sparge_context_fail(plan->context, SPARGE_ERROR_INTERNAL, "worklist: %lld row blocks for a mask of %lld",
                                   (long long)work->row_blocks, (long long)row_blocks);
    work->segments = 0;
    work->columns = 0;
    for (int64_t i = 0; i < row_blocks; i++) {
        const int64_t bh = i / mask->rows;
        const int64_t q_begin = i % mask->rows * mask->block_q;
        const int64_t q_left = plan->problem.seqlen_q - q_begin;
        cpu_row_block *block = &work->row_block[i];
        *block = (cpu_row_block){.batch = (int32_t)(bh / mask->heads),
                                 .head = (int32_t)(bh % mask->heads),
                                 .q_count = (int32_t)(q_left < mask->block_q ? q_left : mask->block_q),
                                 .q_begin = q_begin,
                                 .segment_begin = work->segments};
        const sparge_status status = append_mask_row(plan, mask->value + i * mask->cols, mask->cols);
        if (status != SPARGE_OK)
            return status;
        block->segment_end = work->segments;
    }
    cpu->stats.basis = SPARGE_BASIS_BLOCK;
    cpu->stats.block_q = mask->block_q;
    cpu->stats.block_k = mask->block_k;
    cpu->stats.visible = 0;
    for (int64_t row = 0; row < mask->rows; row++)
        cpu->stats.visible += (int64_t)mask->batch * mask->heads * cpu_select_visible_cols(plan, row);
    cpu->stats.qk = work->segments;
    return SPARGE_OK;
}

cpu_key_range cpu_worklist_range(const sparge_problem *problem, const cpu_worklist *work, int64_t query)
{
    cpu_key_range range = {.begin = 0, .end = sparge_problem_visible_end(problem, query)};
    range.sink_end = work->sink < range.end ? work->sink : range.end;
    if (query >= work->dense_from)
        return range;
    if (work->begin_offset != INT64_MIN && query + work->begin_offset > 0)
        range.begin = query + work->begin_offset;
    if (work->end_offset != INT64_MAX && query + work->end_offset < range.end)
        range.end = query + work->end_offset;
    return range;
}

static int keeps(const cpu_key_range *range, int64_t key)
{
    return key < range->sink_end || (key >= range->begin && key < range->end);
}

void cpu_worklist_pairs(const sparge_plan *plan, int32_t batch, int32_t head, uint8_t *kept)
{
    const cpu_plan *cpu = cpu_plan_of(plan);
    const cpu_worklist *work = &cpu->work;
    const int64_t *token = cpu->permuted;
    for (int64_t b = 0; b < work->row_blocks; b++) {
        const cpu_row_block *block = &work->row_block[b];
        if (block->batch != batch || block->head != head)
            continue;
        for (int64_t query = block->q_begin; query < block->q_begin + block->q_count; query++) {
            const cpu_key_range range = cpu_worklist_range(&plan->problem, work, query);
            uint8_t *row = kept + (token ? token[query] : query) * plan->problem.seqlen_k;
            for (int64_t s = block->segment_begin; s < block->segment_end; s++)
                for (int32_t j = 0; j < work->segment[s].k_count; j++) {
                    const int64_t key = work->segment[s].k_begin + j;
                    if (keeps(&range, key))
                        row[token ? token[key] : key] = 1;
                }
            for (int64_t c = block->column_begin; c < block->column_end; c++) {
                const int64_t key = work->column[c];
                if (keeps(&range, key))
                    row[token ? token[key] : key] = 1;
            }
        }
    }
}
