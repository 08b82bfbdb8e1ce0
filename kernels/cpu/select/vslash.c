/* MInference's vertical-slash selection (baselines.md 1.2 and 1.3), exact at token offsets or rounded to the block grid.
 *
 * Per head: the attention of the last 64 queries, summed by key and by diagonal, names the best keys (verticals) and
 * diagonals (slashes); the converter turns them into 64-key tiles and single columns per 64 queries. The grid form marks
 * every BQ x BK block that one of those touches. */
#include "cpu/select/estimate.h"
#include "cpu/select/numeric.h"
#include "cpu/select/select.h"
#include "cpu/select/vs_convert.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { FORCED_VERTICALS = 30, FORCED_SLASHES = 100 };

typedef struct head_scratch {
    float *rows, *vertical, *slash;
    int32_t *vertical_order, *slash_order, *spare;
    int64_t *tile;
    int32_t *column;
} head_scratch;

static int64_t tile_rows(const sparge_plan *plan)
{
    return (plan->problem.seqlen_q + CPU_VS_TILE - 1) / CPU_VS_TILE;
}

/* Lk entries of each array but rows and tile, which has one per row block. */
static sparge_status take_scratch(sparge_plan *plan)
{
    const int64_t tokens = plan->problem.seqlen_k;
    if (tokens > INT32_MAX)
        return sparge_context_fail(plan->context, SPARGE_ERROR_UNSUPPORTED,
                                   "%" PRId64 " keys: vertical-slash numbers at most %d", tokens, INT32_MAX);
    return cpu_select_take_scratch(plan, (size_t)tile_rows(plan) * sizeof(int64_t) +
                                             (size_t)tokens *
                                                 ((CPU_ESTIMATE_GROUP + 2) * sizeof(float) + 4 * sizeof(int32_t)));
}

static head_scratch carve_scratch(const sparge_plan *plan, int64_t row_blocks)
{
    const int64_t n = plan->problem.seqlen_k;
    head_scratch s = {.tile = cpu_select_scratch(plan)};
    s.rows = (float *)(s.tile + row_blocks);
    s.vertical = s.rows + CPU_ESTIMATE_GROUP * n;
    s.slash = s.vertical + n;
    s.vertical_order = (int32_t *)(s.slash + n);
    s.slash_order = s.vertical_order + n;
    s.spare = s.slash_order + n;
    s.column = s.spare + n;
    return s;
}

static int64_t kept(const sparge_per_head *size, int32_t head, int64_t tokens)
{
    const double value = sparge_per_head_value(size, head);
    return value < (double)tokens ? (int64_t)value : tokens;
}

/* The `count` best entries of score into order[0, count), by rising or falling index; equal scores: the smaller index is
 * the better one. The first `forced` entries come before all others. */
static void best(float *score, int64_t tokens, int64_t forced, int64_t count, int falling, int32_t *order,
                 int32_t *spare)
{
    for (int64_t i = 0; i < tokens; i++) {
        order[i] = (int32_t)i;
        if (i < forced)
            score[i] = INFINITY;
    }
    cpu_sort_falling(score, order, spare, tokens);
    int32_t *chosen = spare; /* 1 for the entries taken */
    memset(chosen, 0, (size_t)tokens * sizeof *chosen);
    for (int64_t i = 0; i < count; i++)
        chosen[order[i]] = 1;
    int64_t written = 0;
    for (int64_t i = 0; i < tokens; i++) {
        const int64_t index = falling ? tokens - 1 - i : i;
        if (chosen[index])
            order[written++] = (int32_t)index;
    }
}

static cpu_vs_lists estimate_lists(const sparge_plan *plan, int64_t batch, int32_t head, head_scratch *s)
{
    const sparge_recipe *recipe = &plan->recipe;
    const int64_t n = plan->problem.seqlen_k;
    const int64_t last = recipe->vslash.last_q < n ? recipe->vslash.last_q : n;
    const cpu_vs_lists lists = {
        .vertical = s->vertical_order,
        .verticals = kept(&recipe->vslash.vertical, head, n),
        .slash = s->slash_order,
        .slashes = kept(&recipe->vslash.slash, head, n),
    };
    cpu_estimate(plan, batch, head, last, s->rows, s->vertical, s->slash);
    best(s->vertical, n, FORCED_VERTICALS, lists.verticals, 0, s->vertical_order, s->spare);
    best(s->slash, n, FORCED_SLASHES, lists.slashes, 1, s->slash_order, s->spare);
    return lists;
}

static int64_t most_tiles(const sparge_plan *plan, int32_t head, int64_t row)
{
    return cpu_vs_most_tiles(row, kept(&plan->recipe.vslash.slash, head, plan->problem.seqlen_k));
}

/* Columns all lie before their row block. */
static int64_t most_columns(const sparge_plan *plan, int32_t head, int64_t row)
{
    return kept(&plan->recipe.vslash.vertical, head, row * CPU_VS_TILE);
}

static sparge_status take_worklist(sparge_plan *plan, int64_t rows)
{
    const sparge_problem *p = &plan->problem;
    int64_t segments = 0, columns = 0;
    for (int32_t head = 0; head < p->heads_q; head++)
        for (int64_t row = 0; row < rows; row++) {
            segments += most_tiles(plan, head, row);
            columns += most_columns(plan, head, row);
        }
    /* At most Lk per row block each, so the sums over the heads of one batch entry are far from overflow. */
    return cpu_worklist_take(plan, (int64_t)p->batch * p->heads_q * rows, cpu_select_product(p->batch, segments),
                             cpu_select_product(p->batch, columns));
}

/* Each row block owns a range of segments and columns as large as it can ever need, so heads are independent. */
static sparge_status plan_exact(sparge_plan *plan)
{
    const sparge_problem *p = &plan->problem;
    const int64_t rows = tile_rows(plan);
    sparge_status status = take_scratch(plan);
    if (status == SPARGE_OK)
        status = take_worklist(plan, rows);
    if (status != SPARGE_OK || plan->sizing)
        return status;
    cpu_worklist *work = &cpu_plan_of(plan)->work;
    for (int64_t i = 0; i < work->row_blocks; i++) {
        const int64_t row = i % rows, bh = i / rows, left = p->seqlen_q - row * CPU_VS_TILE;
        const int32_t head = (int32_t)(bh % p->heads_q);
        work->row_block[i] = (cpu_row_block){
            .batch = (int32_t)(bh / p->heads_q),
            .head = head,
            .q_count = (int32_t)(left < CPU_VS_TILE ? left : CPU_VS_TILE),
            .q_begin = row * CPU_VS_TILE,
            .segment_begin = work->segments,
            .segment_end = work->segments,
            .column_begin = work->columns,
            .column_end = work->columns,
        };
        work->segments += most_tiles(plan, head, row);
        work->columns += most_columns(plan, head, row);
    }
    return SPARGE_OK;
}

static void fill_row_block(const sparge_plan *plan, const cpu_vs_lists *lists, int64_t row, const head_scratch *s,
                           cpu_row_block *block)
{
    cpu_worklist *work = &cpu_plan_of(plan)->work;
    int64_t tiles, columns;
    cpu_vs_convert(lists, row, s->tile, &tiles, s->column, &columns);
    block->segment_end = block->segment_begin;
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t left = plan->problem.seqlen_k - s->tile[t];
        if (left > 0)
            work->segment[block->segment_end++] =
                (cpu_segment){.k_begin = s->tile[t], .k_count = (int32_t)(left < CPU_VS_TILE ? left : CPU_VS_TILE)};
    }
    memcpy(work->column + block->column_begin, s->column, (size_t)columns * sizeof *s->column);
    block->column_end = block->column_begin + columns;
}

static sparge_status run_exact(sparge_plan *plan)
{
    const sparge_problem *p = &plan->problem;
    cpu_worklist *work = &cpu_plan_of(plan)->work;
    const int64_t rows = tile_rows(plan), heads = (int64_t)p->batch * p->heads_q;
#pragma omp parallel for schedule(dynamic, 1) num_threads(cpu_threads(plan->context))
    for (int64_t i = 0; i < heads; i++) {
        head_scratch scratch = carve_scratch(plan, rows);
        const cpu_vs_lists lists = estimate_lists(plan, i / p->heads_q, (int32_t)(i % p->heads_q), &scratch);
        for (int64_t row = 0; row < rows; row++)
            fill_row_block(plan, &lists, row, &scratch, &work->row_block[i * rows + row]);
    }
    cpu_select_count_pairs(plan);
    return SPARGE_OK;
}

static sparge_status plan_grid(sparge_plan *plan)
{
    sparge_status status = cpu_select_take_mask(plan);
    return status == SPARGE_OK ? take_scratch(plan) : status;
}

/* Marks the blocks of one row of 64 queries in its row of the grid. */
static void mark_row(const sparge_plan *plan, const cpu_vs_lists *lists, int64_t row, const head_scratch *s,
                     uint8_t *out)
{
    const int64_t block_k = plan->recipe.block_k;
    const int64_t visible = cpu_select_visible_cols(plan, row * CPU_VS_TILE / plan->recipe.block_q);
    int64_t tiles, columns;
    cpu_vs_convert(lists, row, s->tile, &tiles, s->column, &columns);
    for (int64_t t = 0; t < tiles; t++)
        for (int64_t col = s->tile[t] / block_k; col <= (s->tile[t] + CPU_VS_TILE - 1) / block_k && col < visible;
             col++)
            out[col] = 1;
    for (int64_t c = 0; c < columns; c++)
        out[s->column[c] / block_k] = 1;
}

static sparge_status run_grid(sparge_plan *plan)
{
    const sparge_problem *p = &plan->problem;
    const sparge_block_mask *mask = &cpu_plan_of(plan)->mask;
    const int64_t heads = (int64_t)p->batch * p->heads_q, rows = tile_rows(plan);
#pragma omp parallel for schedule(dynamic, 1) num_threads(cpu_threads(plan->context))
    for (int64_t i = 0; i < heads; i++) {
        head_scratch scratch = carve_scratch(plan, rows);
        const cpu_vs_lists lists = estimate_lists(plan, i / p->heads_q, (int32_t)(i % p->heads_q), &scratch);
        uint8_t *out = mask->value + i * mask->rows * mask->cols;
        memset(out, 0, (size_t)(mask->rows * mask->cols));
        for (int64_t row = 0; row < rows; row++)
            mark_row(plan, &lists, row, &scratch, out + row * CPU_VS_TILE / mask->block_q * mask->cols);
    }
    return cpu_worklist_from_mask(plan);
}

const cpu_selector cpu_select_vertical_slash = {plan_exact, run_exact};
const cpu_selector cpu_select_vertical_slash_grid = {plan_grid, run_grid};
