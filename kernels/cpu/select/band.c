/* A band of keys around or before each query, and sink tokens: A-shape, tri-shape, sliding window (baselines.md 1.6).
 *
 * Nothing depends on the data. Every head has the same lists, so one copy of the segments serves all. A row block of BQ
 * queries lists the pieces, cut at multiples of BK, that its rows' sinks and bands touch; the worklist's element rule
 * cuts exactly. */
#include "cpu/select/select.h"
#include "cpu/worklist.h"

/* The pieces for queries [q_begin, q_begin + q_count). */
static int64_t cut_row_block(const sparge_plan *plan, int64_t q_begin, int64_t q_count, cpu_segment *out)
{
    const cpu_worklist *work = &cpu_plan_of(plan)->work;
    /* Both edges of the band and the sinks' end never fall with the query, except that a dense row begins at 0. */
    const cpu_key_range first = cpu_worklist_range(&plan->problem, work, q_begin);
    const cpu_key_range last = cpu_worklist_range(&plan->problem, work, q_begin + q_count - 1);
    const int64_t begin = first.begin < last.begin ? first.begin : last.begin, block_k = plan->recipe.block_k;
    int64_t sink_end = last.sink_end;
    if (sink_end >= begin)
        return cpu_select_cut(0, sink_end > last.end ? sink_end : last.end, block_k, out);
    const int64_t count = cpu_select_cut(0, sink_end, block_k, out);
    return count + cpu_select_cut(begin, last.end, block_k, out ? out + count : NULL);
}

static sparge_status plan_band(sparge_plan *plan)
{
    const sparge_problem *p = &plan->problem;
    const sparge_recipe *recipe = &plan->recipe;
    cpu_worklist *work = &cpu_plan_of(plan)->work;
    const int64_t shift = p->causal == SPARGE_CAUSAL_BOTTOM_RIGHT ? p->seqlen_k - p->seqlen_q : 0;
    work->begin_offset = shift - recipe->band.local + 1;
    if (p->causal == SPARGE_CAUSAL_NONE)
        work->end_offset = recipe->band.local;
    work->sink = recipe->band.sink;
    if (recipe->band.dense_rows > 0)
        work->dense_from = p->seqlen_q - recipe->band.dense_rows;
    const int64_t rows = (p->seqlen_q + recipe->block_q - 1) / recipe->block_q;
    int64_t segments = 0;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t begin = row * recipe->block_q, left = p->seqlen_q - begin;
        segments += cut_row_block(plan, begin, left < recipe->block_q ? left : recipe->block_q, NULL);
    }
    const int64_t row_blocks = cpu_select_product((int64_t)p->batch * p->heads_q, rows);
    return cpu_worklist_take(plan, row_blocks, segments, 0);
}

static sparge_status run_band(sparge_plan *plan)
{
    const sparge_problem *p = &plan->problem;
    const int64_t block_q = plan->recipe.block_q, rows = (p->seqlen_q + block_q - 1) / block_q;
    cpu_worklist *work = &cpu_plan_of(plan)->work;
    work->segments = 0;
    for (int64_t i = 0; i < work->row_blocks; i++) {
        const int64_t row = i % rows, left = p->seqlen_q - row * block_q, bh = i / rows;
        cpu_row_block *block = &work->row_block[i];
        *block = (cpu_row_block){
            .batch = (int32_t)(bh / p->heads_q),
            .head = (int32_t)(bh % p->heads_q),
            .q_begin = row * block_q,
            .q_count = (int32_t)(left < block_q ? left : block_q),
            .segment_begin = work->segments,
        };
        if (bh == 0) {
            work->segments += cut_row_block(plan, block->q_begin, block->q_count, work->segment + work->segments);
            block->segment_end = work->segments;
        } else {
            block->segment_begin = work->row_block[row].segment_begin;
            block->segment_end = work->row_block[row].segment_end;
        }
    }
    cpu_select_count_pairs(plan);
    return SPARGE_OK;
}

const cpu_selector cpu_select_band = {plan_band, run_band};
