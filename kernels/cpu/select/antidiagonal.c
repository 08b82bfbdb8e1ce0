/* XAttention's selection (baselines.md 3). With stride S, strided query i stands for tokens [S i, S i + S), strided key j
 * likewise; their score is the sum along the patch's antidiagonal,
 *
 *   sum over s = 0 .. S-1 of q[S i + S-1 - s] . k[S j + s],  times scale / S
 *
 * Softmax over the visible strided keys of a strided query; a block's mass is the sum over its strided pairs. Blocks are
 * taken by falling mass while the mass taken before is below threshold of the row's. Causal: block 0 and the last
 * visible (diagonal) block come first, and their mass counts.
 *
 * Tokens past the end are zero; strided keys wholly past the end, and strided queries wholly past it, do not exist. The
 * official code also sets column block 0 where it is not causal, as a by-product of rewriting rejected indices to 0;
 * this one does not. */
#include "cpu/load.h"
#include "cpu/select/numeric.h"
#include "cpu/select/select.h"

#include <math.h>
#include <string.h>

enum { MOST_STRIDE = 16, GROUP = 8 }; /* GROUP: strided queries scored at a time */

typedef float patch[MOST_STRIDE][SPARGE_MAX_HEAD_DIM];

typedef struct row_scratch {
    uint64_t *mass; /* of each key block */
    float *score;   /* of each strided key, for GROUP strided queries */
    float *rank;    /* of each key block, for sorting */
    int32_t *order, *spare;
} row_scratch;

static int64_t strided(int64_t tokens, int64_t stride)
{
    return (tokens + stride - 1) / stride;
}

static sparge_status plan_antidiagonal(sparge_plan *plan)
{
    sparge_status status = cpu_select_take_mask(plan);
    if (status != SPARGE_OK)
        return status;
    const size_t cols = (size_t)cpu_plan_of(plan)->mask.cols;
    const size_t keys = (size_t)strided(plan->problem.seqlen_k, plan->recipe.antidiagonal.stride);
    return cpu_select_take_scratch(plan, cols * (sizeof(uint64_t) + sizeof(float) + 2 * sizeof(int32_t)) +
                                             keys * GROUP * sizeof(float));
}

static row_scratch carve_scratch(const sparge_plan *plan)
{
    const int64_t cols = cpu_plan_of(plan)->mask.cols;
    row_scratch s = {.mass = cpu_select_scratch(plan)};
    s.rank = (float *)(s.mass + cols);
    s.order = (int32_t *)(s.rank + cols);
    s.spare = s.order + cols;
    s.score = (float *)(s.spare + cols);
    return s;
}

/* Rows [first, first + stride) of a head; rows past the end are zero. */
static void load_patch(const sparge_context *context, const sparge_tensor *x, int64_t batch, int64_t head,
                       int64_t first, int64_t stride, patch out)
{
    memset(out, 0, (size_t)stride * sizeof out[0]);
    for (int64_t s = 0; s < stride && first + s < x->shape[2]; s++)
        cpu_load_row(context, x, batch, head, first + s, out[s]);
}

/* Strided keys that strided query i sees: what its last token sees. */
static int64_t keys_seen(const sparge_plan *plan, int64_t i)
{
    const int64_t stride = plan->recipe.antidiagonal.stride, end = (i + 1) * stride;
    const int64_t last = (end < plan->problem.seqlen_q ? end : plan->problem.seqlen_q) - 1;
    return strided(sparge_problem_visible_end(&plan->problem, last), stride);
}

static float patch_score(patch q, patch k, int64_t stride, int32_t channels)
{
    float lane[CPU_DOT_LANES] = {0};
    for (int64_t s = 0; s < stride; s++)
        cpu_dot_add(lane, q[stride - 1 - s], k[s], channels);
    return cpu_dot_sum(lane);
}

/* Adds the probabilities of strided queries [first, first + count) to the blocks' masses (numeric.h). Keys are
 * converted from 16 bits once for all of them. */
static void add_queries(const sparge_plan *plan, int64_t batch, int64_t head, int64_t first, int64_t count,
                        const row_scratch *scratch)
{
    const sparge_problem *p = &plan->problem;
    const cpu_prepared *in = &cpu_plan_of(plan)->prepared;
    const int64_t stride = plan->recipe.antidiagonal.stride, kv = head / (p->heads_q / p->heads_kv);
    const int64_t keys = strided(p->seqlen_k, stride), seen = keys_seen(plan, first + count - 1);
    const float scale = sparge_problem_scale(p) / (float)stride;
    patch q[GROUP], k;
    for (int64_t g = 0; g < count; g++)
        load_patch(plan->context, &in->q, batch, head, (first + g) * stride, stride, q[g]);
    for (int64_t j = 0; j < seen; j++) {
        load_patch(plan->context, &in->k, batch, kv, j * stride, stride, k);
        for (int64_t g = 0; g < count; g++)
            scratch->score[g * keys + j] = patch_score(q[g], k, stride, p->head_dim) * scale;
    }
    for (int64_t g = 0; g < count; g++) {
        float *score = scratch->score + g * keys;
        const int64_t of_query = keys_seen(plan, first + g);
        cpu_softmax(score, of_query);
        for (int64_t j = 0; j < of_query; j++)
            scratch->mass[j * stride / plan->recipe.block_k] += cpu_mass(score[j]);
    }
}

/* Takes blocks from the order until the mass taken before the next one reaches the threshold. */
static void take_blocks(const sparge_plan *plan, int64_t visible, const row_scratch *s, uint8_t *out)
{
    uint64_t total = 0, taken = 0;
    for (int64_t col = 0; col < visible; col++)
        total += s->mass[col];
    const double threshold = plan->recipe.antidiagonal.threshold;
    if (plan->problem.causal != SPARGE_CAUSAL_NONE) {
        out[0] = out[visible - 1] = 1;
        taken = s->mass[0] + (visible > 1 ? s->mass[visible - 1] : 0);
    } else {
        out[s->order[0]] = 1; /* a row is never empty, not even with threshold 0 */
        taken = s->mass[s->order[0]];
    }
    for (int64_t n = 0; n < visible && cpu_mass_below(taken, threshold, total); n++) {
        const int32_t col = s->order[n];
        if (out[col])
            continue;
        out[col] = 1;
        taken += s->mass[col];
    }
}

static void select_row(const sparge_plan *plan, int64_t batch, int64_t head, int64_t row, uint8_t *out)
{
    const int64_t stride = plan->recipe.antidiagonal.stride, block_q = plan->recipe.block_q;
    const int64_t visible = cpu_select_visible_cols(plan, row), queries = strided(plan->problem.seqlen_q, stride);
    const row_scratch s = carve_scratch(plan);
    if (visible == 0)
        return;
    memset(s.mass, 0, (size_t)visible * sizeof *s.mass);
    const int64_t end = (row + 1) * block_q / stride < queries ? (row + 1) * block_q / stride : queries;
    for (int64_t i = row * block_q / stride; i < end; i += GROUP)
        add_queries(plan, batch, head, i, end - i < GROUP ? end - i : GROUP, &s);
    for (int64_t col = 0; col < visible; col++) {
        s.rank[col] = (float)s.mass[col];
        s.order[col] = (int32_t)col;
    }
    cpu_sort_falling(s.rank, s.order, s.spare, visible);
    take_blocks(plan, visible, &s, out);
}

static sparge_status run_antidiagonal(sparge_plan *plan)
{
    const sparge_problem *p = &plan->problem;
    const sparge_block_mask *mask = &cpu_plan_of(plan)->mask;
    const int64_t rows = (int64_t)mask->batch * mask->heads * mask->rows;
#pragma omp parallel for schedule(dynamic, 1) num_threads(cpu_threads(plan->context))
    for (int64_t i = 0; i < rows; i++) {
        const int64_t bh = i / mask->rows;
        uint8_t *out = mask->value + i * mask->cols;
        memset(out, 0, (size_t)mask->cols);
        select_row(plan, bh / p->heads_q, bh % p->heads_q, i % mask->rows, out);
    }
    return cpu_worklist_from_mask(plan);
}

const cpu_selector cpu_select_antidiagonal = {plan_antidiagonal, run_antidiagonal};
