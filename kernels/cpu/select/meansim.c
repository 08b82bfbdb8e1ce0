/* SpargeAttn's block selection (paper 3.2 and 3.3, Algorithm 1), and in parity mode the official code's (upstream.md
 * 2.3 to 2.5).
 *
 * Per row of blocks: score every visible key block by its pooled rows; take the best until their probability reaches
 * tau, or a fixed number of them; add the blocks that pooling cannot be trusted with. A score is
 *
 *   cpu_scores: q_pool . k_pool * scale
 *
 * and the probabilities are integers (numeric.h), so the choice is the same on every backend. */
#include "cpu/select/numeric.h"
#include "cpu/select/select.h"

#include <math.h>
#include <string.h>

typedef struct row_scratch {
    float *score;           /* of every visible block, then its probability */
    int32_t *order, *spare; /* candidates: visible blocks with a usable score */
} row_scratch;

typedef struct row_of_blocks {
    const float *q_pool, *k_pool; /* one mean; all means of the KV head */
    const float *k_sim;           /* of all key blocks of the KV head */
    float q_sim;
    int32_t head;
    int64_t row, visible;
} row_of_blocks;

static row_scratch carve_scratch(void *memory, int64_t cols)
{
    row_scratch scratch = {.score = memory};
    scratch.order = (int32_t *)(scratch.score + cols);
    scratch.spare = scratch.order + cols;
    return scratch;
}

static sparge_status plan_meansim(sparge_plan *plan)
{
    sparge_status status = cpu_select_take_mask(plan);
    if (status != SPARGE_OK)
        return status;
    const size_t cols = (size_t)cpu_plan_of(plan)->mask.cols;
    return cpu_select_take_scratch(plan, cols * (sizeof(float) + 2 * sizeof(int32_t)));
}

/* A block whose rows do not resemble each other; in parity mode every partial block is one (NaN in the official code). */
static int is_dissimilar(const sparge_plan *plan, float similarity, int32_t head, int partial)
{
    const sparge_recipe *recipe = &plan->recipe;
    if (recipe->upstream && partial)
        return 1;
    if (!recipe->meansim.use_theta)
        return recipe->upstream && isnan(similarity);
    return !(similarity > (float)sparge_per_head_value(&recipe->meansim.theta, head));
}

/* Scores of the visible blocks, into scratch. */
static void score_row(const sparge_plan *plan, const row_of_blocks *r, float *score)
{
    const sparge_problem *p = &plan->problem;
    if (!plan->recipe.upstream) {
        cpu_scores(plan->context, score, r->q_pool, r->k_pool, r->visible, p->head_dim, sparge_problem_scale(p));
        return;
    }
    for (int64_t col = 0; col < r->visible; col++) {
        const float dot = cpu_dot(r->q_pool, r->k_pool + col * p->head_dim, p->head_dim);
        score[col] = cpu_round16(cpu_round16(dot, p->dtype) * (1.0F / sqrtf((float)p->head_dim)), p->dtype);
    }
}

/* Longest prefix of the sorted candidates whose mass is at most tau of all, at least one. */
static int64_t count_by_mass(float *score, const int32_t *order, int64_t candidates, int64_t visible, double tau)
{
    const uint64_t total = cpu_softmax_terms(score, visible);
    uint64_t sum = 0;
    int64_t count = 0;
    for (; count < candidates; count++) {
        sum += cpu_mass(score[order[count]]);
        if (!cpu_mass_within(sum, tau, total))
            break;
    }
    return count > 0 ? count : 1;
}

/* The same as the official code does it: probabilities and their running sum rounded to 16 bits. */
static int64_t count_by_mass_16(float *score, const int32_t *order, int64_t candidates, int64_t visible, float tau,
                                sparge_dtype dtype)
{
    cpu_softmax(score, visible);
    float sum = 0;
    int64_t count = 0;
    while (count < candidates) {
        sum = cpu_round16(sum + cpu_round16(score[order[count]], dtype), dtype);
        if (!(sum <= tau))
            break;
        count++;
    }
    return count > 0 ? count : 1;
}

/* A share of the visible blocks, rounded up (a product that misses a whole number by 1e-9 is that number); in parity
 * mode of all blocks, rounded down. */
static int64_t count_by_share(const sparge_plan *plan, double share, int64_t visible)
{
    const int64_t cols = cpu_plan_of(plan)->mask.cols;
    const double count =
        plan->recipe.upstream ? floorf((float)share * (float)cols) : ceil(share * (double)visible - 1e-9);
    return count > 1 ? (int64_t)count : 1;
}

static int64_t count_chosen(const sparge_plan *plan, const row_of_blocks *r, const row_scratch *scratch,
                            int64_t candidates)
{
    const sparge_recipe *recipe = &plan->recipe;
    int64_t count;
    if (recipe->meansim.use_topk)
        count = count_by_share(plan, sparge_per_head_value(&recipe->meansim.topk, r->head), r->visible);
    else if (recipe->upstream)
        count = count_by_mass_16(scratch->score, scratch->order, candidates, r->visible,
                                 (float)sparge_per_head_value(&recipe->meansim.tau, r->head), plan->problem.dtype);
    else
        count = count_by_mass(scratch->score, scratch->order, candidates, r->visible,
                              sparge_per_head_value(&recipe->meansim.tau, r->head));
    return count < candidates ? count : candidates;
}

/* Fills the visible part of one mask row (zero before); returns how many blocks are computed for want of similarity. */
static int64_t select_row(const sparge_plan *plan, const row_of_blocks *r, const row_scratch *scratch, uint8_t *out)
{
    const sparge_problem *p = &plan->problem;
    const sparge_recipe *recipe = &plan->recipe;
    if (r->visible == 0)
        return 0;
    if (is_dissimilar(plan, r->q_sim, r->head, (r->row + 1) * recipe->block_q > p->seqlen_q)) {
        memset(out, 1, (size_t)r->visible);
        return r->visible;
    }
    int64_t candidates = 0, fixed = 0;
    score_row(plan, r, scratch->score);
    for (int64_t col = 0; col < r->visible; col++) {
        const int partial = (col + 1) * recipe->block_k > p->seqlen_k;
        if (is_dissimilar(plan, r->k_sim[col], r->head, partial) || isnan(scratch->score[col])) {
            out[col] = 1;
            fixed++;
            scratch->score[col] = -INFINITY;
        } else {
            scratch->order[candidates++] = (int32_t)col;
        }
    }
    cpu_sort_falling(scratch->score, scratch->order, scratch->spare, candidates);
    const int64_t chosen = count_chosen(plan, r, scratch, candidates);
    for (int64_t i = 0; i < chosen; i++)
        out[scratch->order[i]] = 1;
    if (recipe->meansim.sink)
        out[0] = 1;
    return fixed;
}

static sparge_status run_meansim(sparge_plan *plan)
{
    cpu_plan *cpu = cpu_plan_of(plan);
    const sparge_problem *p = &plan->problem;
    const cpu_prepared *in = &cpu->prepared;
    const sparge_block_mask *mask = &cpu->mask;
    const int64_t rows = (int64_t)mask->batch * mask->heads * mask->rows;
    const int64_t group = p->heads_q / p->heads_kv;
    int64_t fixed = 0;
#pragma omp parallel for schedule(dynamic, 8) num_threads(cpu_threads(plan->context)) reduction(+ : fixed)
    for (int64_t i = 0; i < rows; i++) {
        const int64_t bh = i / mask->rows, head = bh % p->heads_q;
        const int64_t kv = bh / p->heads_q * p->heads_kv + head / group;
        const row_of_blocks r = {
            .q_pool = in->q_pool + i * p->head_dim,
            .k_pool = in->k_pool + kv * mask->cols * p->head_dim,
            .k_sim = in->k_sim + kv * mask->cols,
            .q_sim = in->q_sim[i],
            .head = (int32_t)head,
            .row = i % mask->rows,
            .visible = cpu_select_visible_cols(plan, i % mask->rows),
        };
        const row_scratch scratch = carve_scratch(cpu_select_scratch(plan), mask->cols);
        uint8_t *out = mask->value + i * mask->cols;
        memset(out, 0, (size_t)mask->cols);
        fixed += select_row(plan, &r, &scratch, out);
    }
    cpu->stats.extra = fixed;
    return cpu_worklist_from_mask(plan);
}

const cpu_selector cpu_select_meansim = {plan_meansim, run_meansim};
