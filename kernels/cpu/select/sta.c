/* Sliding tile attention (baselines.md 3): tokens of a T x H x W grid laid out tile by tile, a tile of queries attends
 * the tiles in a window around it; text attends and is attended by all.
 *
 * Everything follows from the shape, so it is made when the plan is. plan->permuted puts the tokens of a tile next to
 * each other; tiles are in row-major order of the tile grid, and so are the tokens in a tile. Row blocks do not cross
 * tiles. All heads share one copy of the segments, and so do the row blocks of a tile. */
#include "cpu/select/select.h"

#include <string.h>

typedef struct tile_grid {
    int32_t cells[3], tile[3], tiles[3]; /* T, H, W: cells of the grid, of a tile, tiles of the grid */
    int32_t reach[3];                    /* tiles on each side of the window's middle; -1: the whole axis */
    int64_t text_before, end, tokens;    /* the grid's tokens are [text_before, end) */
} tile_grid;

static tile_grid make_grid(const sparge_plan *plan)
{
    const sparge_grid *from = &plan->problem.grid;
    tile_grid grid = {.cells = {from->t, from->h, from->w}, .text_before = from->text_before};
    for (int axis = 0; axis < 3; axis++) {
        grid.tile[axis] = plan->recipe.sta.tile[axis];
        grid.tiles[axis] = (grid.cells[axis] + grid.tile[axis] - 1) / grid.tile[axis];
        const int32_t window = plan->recipe.sta.window[axis];
        grid.reach[axis] = window >= grid.tiles[axis] ? -1 : window / 2;
    }
    grid.end = grid.text_before + (int64_t)from->t * from->h * from->w;
    grid.tokens = grid.end + from->text_after;
    return grid;
}

static int64_t tile_count(const tile_grid *grid)
{
    return (int64_t)grid->tiles[0] * grid->tiles[1] * grid->tiles[2];
}

static void tile_at(const tile_grid *grid, int64_t index, int32_t at[3])
{
    at[2] = (int32_t)(index % grid->tiles[2]);
    at[1] = (int32_t)(index / grid->tiles[2] % grid->tiles[1]);
    at[0] = (int32_t)(index / grid->tiles[2] / grid->tiles[1]);
}

/* Cells [begin, end) of tile `at` along an axis; the last one may be cut off by the grid's border. */
static void extent(const tile_grid *grid, int axis, int32_t at, int32_t *begin, int32_t *end)
{
    *begin = at * grid->tile[axis];
    *end = *begin + grid->tile[axis] < grid->cells[axis] ? *begin + grid->tile[axis] : grid->cells[axis];
}

/* The cells [from, to) of a tile. */
static void cells_of(const tile_grid *grid, int64_t index, int32_t from[3], int32_t to[3])
{
    int32_t at[3];
    tile_at(grid, index, at);
    for (int axis = 0; axis < 3; axis++)
        extent(grid, axis, at[axis], &from[axis], &to[axis]);
}

/* Fills the tiles' first positions, begin[tile_count + 1]. */
static void find_tiles(const tile_grid *grid, int64_t *begin)
{
    int32_t from[3], to[3];
    begin[0] = grid->text_before;
    for (int64_t index = 0; index < tile_count(grid); index++) {
        cells_of(grid, index, from, to);
        begin[index + 1] = begin[index] + (int64_t)(to[0] - from[0]) * (to[1] - from[1]) * (to[2] - from[2]);
    }
}

static void lay_out(const tile_grid *grid, int64_t *permuted)
{
    int32_t from[3], to[3];
    int64_t position = 0;
    for (; position < grid->text_before; position++)
        permuted[position] = position;
    for (int64_t index = 0; index < tile_count(grid); index++) {
        cells_of(grid, index, from, to);
        for (int64_t t = from[0]; t < to[0]; t++)
            for (int64_t h = from[1]; h < to[1]; h++)
                for (int64_t w = from[2]; w < to[2]; w++)
                    permuted[position++] = grid->text_before + (t * grid->cells[1] + h) * grid->cells[2] + w;
    }
    for (; position < grid->tokens; position++)
        permuted[position] = position;
}

/* Does the window of query tile q hold key tile k along the axis? At the border the window keeps its size. */
static int in_window(const tile_grid *grid, int axis, int32_t q, int32_t k)
{
    const int32_t reach = grid->reach[axis];
    if (reach < 0)
        return 1;
    const int32_t last = grid->tiles[axis] - 1 - reach;
    const int32_t middle = q < reach ? reach : q > last ? last : q;
    return k >= middle - reach && k <= middle + reach;
}

/* Where the lists grow; with segment NULL they are only counted. */
typedef struct writer {
    const sparge_plan *plan;
    cpu_segment *segment;
    cpu_row_block *row_block;
    int64_t segments, row_blocks;
} writer;

/* The first position from which edges are counted: INT8 scales belong to the grid of BQ and BK, so nothing may cross
 * its lines; otherwise whole blocks from the range's own beginning are the better fit. */
static int64_t origin(const sparge_plan *plan, int64_t begin)
{
    return plan->recipe.arithmetic == SPARGE_ARITHMETIC_F16 ? begin : 0;
}

static void add_keys(writer *w, int64_t begin, int64_t end)
{
    const int64_t from = origin(w->plan, begin);
    cpu_segment *out = w->segment ? w->segment + w->segments : NULL;
    const int64_t added = cpu_select_cut(begin - from, end - from, w->plan->recipe.block_k, out);
    for (int64_t i = 0; out && i < added; i++)
        out[i].k_begin += from;
    w->segments += added;
}

/* The keys of a query tile: neighbouring tiles and text are joined to one range before they are cut. */
static void add_window(writer *w, const tile_grid *grid, const int64_t *begin, int64_t query_tile)
{
    int32_t q[3], k[3];
    tile_at(grid, query_tile, q);
    int64_t from = 0, to = grid->text_before;
    for (int64_t index = 0; index < tile_count(grid); index++) {
        tile_at(grid, index, k);
        if (!in_window(grid, 0, q[0], k[0]) || !in_window(grid, 1, q[1], k[1]) || !in_window(grid, 2, q[2], k[2]))
            continue;
        if (begin[index] != to) {
            add_keys(w, from, to);
            from = begin[index];
        }
        to = begin[index + 1];
    }
    if (grid->end != to) {
        add_keys(w, from, to);
        from = grid->end;
    }
    add_keys(w, from, grid->tokens);
}

/* Row blocks of queries [begin, end) on the segments from `first` on. */
static void add_queries(writer *w, int64_t begin, int64_t end, int64_t first)
{
    const int64_t block = w->plan->recipe.block_q, from = origin(w->plan, begin);
    while (begin < end) {
        const int64_t edge = from + ((begin - from) / block + 1) * block, stop = edge < end ? edge : end;
        if (w->row_block)
            w->row_block[w->row_blocks] = (cpu_row_block){
                .q_begin = begin,
                .q_count = (int32_t)(stop - begin),
                .segment_begin = first,
                .segment_end = w->segments,
            };
        w->row_blocks++;
        begin = stop;
    }
}

/* The lists of one head. */
static void write_head(writer *w, const tile_grid *grid, const int64_t *begin)
{
    int64_t first = 0;
    if (grid->text_before > 0 || grid->end < grid->tokens) {
        add_keys(w, 0, grid->tokens);
        add_queries(w, 0, grid->text_before, first);
        add_queries(w, grid->end, grid->tokens, first);
    }
    for (int64_t index = 0; index < tile_count(grid); index++) {
        first = w->segments;
        add_window(w, grid, begin, index);
        add_queries(w, begin[index], begin[index + 1], first);
    }
}

static sparge_status plan_sta(sparge_plan *plan)
{
    cpu_plan *cpu = cpu_plan_of(plan);
    const tile_grid grid = make_grid(plan);
    const int64_t heads = (int64_t)plan->problem.batch * plan->problem.heads_q;
    int64_t *begin;
    sparge_status status = cpu_take(plan, (size_t)grid.tokens, sizeof *cpu->permuted, (void **)&cpu->permuted);
    if (status == SPARGE_OK)
        status = cpu_take(plan, (size_t)tile_count(&grid) + 1, sizeof *begin, (void **)&begin);
    if (status != SPARGE_OK)
        return status;
    find_tiles(&grid, begin);
    writer count = {.plan = plan};
    write_head(&count, &grid, begin);
    status = cpu_worklist_take(plan, cpu_select_product(heads, count.row_blocks), count.segments, 0);
    if (status != SPARGE_OK || plan->sizing)
        return status;
    lay_out(&grid, cpu->permuted);
    writer fill = {.plan = plan, .segment = cpu->work.segment, .row_block = cpu->work.row_block};
    write_head(&fill, &grid, begin);
    cpu->work.segments = fill.segments;
    for (int64_t i = 0; i < cpu->work.row_blocks; i++) {
        const int64_t bh = i / fill.row_blocks;
        cpu->work.row_block[i] = cpu->work.row_block[i % fill.row_blocks];
        cpu->work.row_block[i].batch = (int32_t)(bh / plan->problem.heads_q);
        cpu->work.row_block[i].head = (int32_t)(bh % plan->problem.heads_q);
    }
    return SPARGE_OK;
}

static sparge_status run_sta(sparge_plan *plan)
{
    cpu_select_count_pairs(plan);
    return SPARGE_OK;
}

const cpu_selector cpu_select_sta = {plan_sta, run_sta};
