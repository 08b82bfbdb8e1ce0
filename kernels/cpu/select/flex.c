/* FlexPrefill's selection (baselines.md 2), in f32 and with exact sums instead of the official 16-bit steps.
 *
 * Per head:  the attention of the last B queries gives mass per key and per diagonal.
 *   budgets  how many keys, and diagonals, hold gamma of the mass; in blocks of 128
 *   branch   query-aware if pooled scores predict the mass of the key blocks: sqrt(JSD) < tau; both budgets are then
 *            the minimum
 *   union    the best vertical blocks and block diagonals, block 0 and diagonal 0 always among them
 *   query-aware heads add the blocks of the whole map with the largest pooled probabilities, gamma of the total
 *
 * Not causal (ours): the estimate is not masked, a diagonal stands for both sides. */
#include "cpu/prepare/pool.h"
#include "cpu/select/estimate.h"
#include "cpu/select/numeric.h"
#include "cpu/select/select.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { BUDGET_UNIT = 128 }; /* of the official code, whatever the block */

typedef struct head_scratch {
    float *rows;                      /* of the estimate */
    float *vertical, *slash;          /* Lk each */
    float *score;                     /* n */
    int32_t *order, *spare;           /* n */
    double *key_mass, *diagonal_mass; /* blocks each */
} head_scratch;

typedef struct flex_head {
    int64_t batch;
    int32_t head; /* query head */
    const float *q_pool, *k_pool;
    uint8_t *out;
} flex_head;

static int64_t block_count(const sparge_plan *plan)
{
    return cpu_plan_of(plan)->mask.rows;
}

/* Sequences too short to be worth it are dense. */
static int is_dense(const sparge_plan *plan)
{
    const int64_t block = plan->recipe.block_q, budget = plan->recipe.flex.min_budget;
    const int64_t rounded = (budget + block - 1) / block * block;
    return plan->problem.seqlen_q <= (rounded > 2 * block ? rounded : 2 * block);
}

static int64_t scratch_entries(const sparge_plan *plan)
{
    const int64_t blocks = block_count(plan), all = blocks * blocks;
    return all > plan->problem.seqlen_k ? all : plan->problem.seqlen_k;
}

static sparge_status plan_flex(sparge_plan *plan)
{
    sparge_status status = cpu_select_take_mask(plan);
    if (status != SPARGE_OK || is_dense(plan))
        return status;
    const int64_t blocks = block_count(plan), tokens = plan->problem.seqlen_k;
    if (blocks > 46340 || tokens > INT32_MAX) /* blocks * blocks must fit in an int32_t */
        return sparge_context_fail(plan->context, SPARGE_ERROR_UNSUPPORTED,
                                   "%" PRId64 " tokens: flexprefill numbers at most 46340 x 46340 blocks", tokens);
    const size_t bytes = (size_t)blocks * 2 * sizeof(double) +
                         (size_t)tokens * (CPU_ESTIMATE_GROUP + 2) * sizeof(float) +
                         (size_t)scratch_entries(plan) * (sizeof(float) + 2 * sizeof(int32_t));
    return cpu_select_take_scratch(plan, bytes);
}

static head_scratch carve_scratch(const sparge_plan *plan)
{
    const int64_t tokens = plan->problem.seqlen_k, blocks = block_count(plan), entries = scratch_entries(plan);
    head_scratch s = {.key_mass = cpu_select_scratch(plan)};
    s.diagonal_mass = s.key_mass + blocks;
    s.rows = (float *)(s.diagonal_mass + blocks);
    s.vertical = s.rows + CPU_ESTIMATE_GROUP * tokens;
    s.slash = s.vertical + tokens;
    s.score = s.slash + tokens;
    s.order = (int32_t *)(s.score + entries);
    s.spare = s.order + entries;
    return s;
}

static void number(int32_t *order, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        order[i] = (int32_t)i;
}

static int64_t least_budget(const sparge_plan *plan)
{
    const int64_t block = plan->recipe.block_q, blocks = (plan->recipe.flex.min_budget + block - 1) / block;
    return blocks > 1 ? blocks : 1;
}

/* Blocks' worth of the largest entries that hold gamma of the mass: 1 + prefix sums that are at most gamma, in units of
 * 128, plus 1; within the budgets. Entries are probabilities, whose masses (numeric.h) have exact sums. */
static int64_t budget(const sparge_plan *plan, const float *mass, int64_t count, const head_scratch *s)
{
    const sparge_recipe *recipe = &plan->recipe;
    const int64_t block = recipe->block_q, blocks = block_count(plan);
    uint64_t total = 0, sum = 0;
    for (int64_t i = 0; i < count; i++)
        total += cpu_mass(mass[i]);
    number(s->order, count);
    cpu_sort_falling(mass, s->order, s->spare, count);
    int64_t needed = 1;
    for (int64_t i = 0; i < count; i++, needed++) {
        sum += cpu_mass(mass[s->order[i]]);
        if (!cpu_mass_within(sum, recipe->flex.gamma, total))
            break;
    }
    const int64_t least = least_budget(plan);
    int64_t most = recipe->flex.max_budget ? (recipe->flex.max_budget + block - 1) / block : blocks;
    most = most < blocks ? most : blocks;
    const int64_t wanted = needed / BUDGET_UNIT + 1;
    const int64_t raised = wanted > least ? wanted : least;
    return raised < most ? raised : most;
}

/* Sums of the estimate by key block and by block diagonal, in double and by rising index. Diagonals are counted from the
 * far end, as in the official code: where N is no multiple of B, diagonal s holds the offsets from B * s - (B - N % B)
 * on. */
static void pool_mass(const sparge_plan *plan, const head_scratch *s)
{
    const int64_t tokens = plan->problem.seqlen_k, block = plan->recipe.block_q, blocks = block_count(plan);
    memset(s->key_mass, 0, (size_t)blocks * sizeof *s->key_mass);
    memset(s->diagonal_mass, 0, (size_t)blocks * sizeof *s->diagonal_mass);
    for (int64_t i = 0; i < tokens; i++) {
        s->key_mass[i / block] += s->vertical[i];
        s->diagonal_mass[blocks - 1 - (tokens - 1 - i) / block] += s->slash[i];
    }
}

/* Pooled scores of the last queries against every key block, without a causal mask, as probabilities. */
static void predict_last(const sparge_plan *plan, const flex_head *h, int64_t last, const head_scratch *s)
{
    const sparge_problem *p = &plan->problem;
    const int64_t blocks = block_count(plan);
    const cpu_pool_block what = {
        .begin = p->seqlen_q - last, .count = (int32_t)last, .block = plan->recipe.block_q, .divisor = (int32_t)last};
    float mean[SPARGE_MAX_HEAD_DIM];
    cpu_pool_one(plan->context, &cpu_plan_of(plan)->prepared.q, h->batch, h->head, &what, mean, NULL);
    cpu_scores(plan->context, s->score, mean, h->k_pool, blocks, p->head_dim, sparge_problem_scale(p));
    cpu_softmax(s->score, blocks);
}

/* Square root of the Jensen-Shannon divergence (natural log) of score[] and the key blocks' mass; NaN, hence never below
 * tau, where one of them has an exact zero. */
static double divergence(const sparge_plan *plan, const head_scratch *s)
{
    const int64_t blocks = block_count(plan);
    double total = 0, sum = 0;
    for (int64_t j = 0; j < blocks; j++)
        total += s->key_mass[j];
    for (int64_t j = 0; j < blocks; j++) {
        const double a = s->score[j], b = s->key_mass[j] / total, middle = (a + b) / 2;
        if (!(a > 0 && b > 0))
            return NAN;
        sum += a * log(a / middle) + b * log(b / middle);
    }
    return sqrt(sum > 0 ? sum / 2 : 0);
}

/* The numbers of blocks or diagonals by falling mass, number 0 first, into s->order. */
static void heaviest(const double *mass, int64_t blocks, const head_scratch *s)
{
    for (int64_t i = 0; i < blocks; i++)
        s->score[i] = (float)mass[i];
    s->score[0] = INFINITY;
    number(s->order, blocks);
    cpu_sort_falling(s->score, s->order, s->spare, blocks);
}

static void mark_verticals(const sparge_plan *plan, const flex_head *h, int64_t count, const head_scratch *s)
{
    const int64_t blocks = block_count(plan);
    heaviest(s->key_mass, blocks, s);
    for (int64_t n = 0; n < count; n++)
        for (int64_t i = 0; i < blocks; i++)
            if (s->order[n] < cpu_select_visible_cols(plan, i))
                h->out[i * blocks + s->order[n]] = 1;
}

static void mark_diagonals(const sparge_plan *plan, const flex_head *h, int64_t count, const head_scratch *s)
{
    const int64_t blocks = block_count(plan);
    heaviest(s->diagonal_mass, blocks, s);
    for (int64_t n = 0; n < count; n++)
        for (int64_t j = 0; j + s->order[n] < blocks; j++) {
            const int64_t i = j + s->order[n];
            h->out[i * blocks + j] = 1;
            if (plan->problem.causal == SPARGE_CAUSAL_NONE)
                h->out[j * blocks + i] = 1;
        }
}

/* The query-aware addition: the longest prefix of all blocks by falling probability that holds at most gamma of the sum
 * over all rows (each row's probabilities sum to 1). */
static void mark_probable(const sparge_plan *plan, const flex_head *h, const head_scratch *s)
{
    const sparge_problem *p = &plan->problem;
    const int64_t blocks = block_count(plan);
    int64_t candidates = 0;
    uint64_t total = 0, sum = 0;
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t visible = cpu_select_visible_cols(plan, i);
        float *score = s->score + i * blocks;
        cpu_scores(plan->context, score, h->q_pool + i * p->head_dim, h->k_pool, visible, p->head_dim,
                   sparge_problem_scale(p));
        for (int64_t j = 0; j < visible; j++)
            s->order[candidates++] = (int32_t)(i * blocks + j);
        cpu_softmax(score, visible);
        for (int64_t j = 0; j < visible; j++)
            total += cpu_mass(score[j]);
    }
    cpu_sort_falling(s->score, s->order, s->spare, candidates);
    for (int64_t n = 0; n < candidates; n++) {
        sum += cpu_mass(s->score[s->order[n]]);
        if (!cpu_mass_within(sum, plan->recipe.flex.gamma, total))
            break;
        h->out[s->order[n]] = 1;
    }
}

/* Returns 1 for a query-aware head. */
static int select_head(const sparge_plan *plan, const flex_head *h)
{
    const int64_t tokens = plan->problem.seqlen_k, last = plan->recipe.block_q;
    const head_scratch s = carve_scratch(plan);
    cpu_estimate(plan, h->batch, h->head, last, s.rows, s.vertical, s.slash);
    for (int64_t i = 0; i < tokens; i++) {
        s.vertical[i] /= (float)last;
        s.slash[i] /= (float)last;
    }
    int64_t verticals = budget(plan, s.vertical, tokens, &s), diagonals = budget(plan, s.slash, tokens, &s);
    pool_mass(plan, &s);
    predict_last(plan, h, last, &s);
    const int aware = divergence(plan, &s) < plan->recipe.flex.tau;
    if (aware)
        verticals = diagonals = least_budget(plan);
    mark_verticals(plan, h, verticals, &s);
    mark_diagonals(plan, h, diagonals, &s);
    if (aware)
        mark_probable(plan, h, &s);
    return aware;
}

static sparge_status run_flex(sparge_plan *plan)
{
    if (is_dense(plan))
        return cpu_select_all.run(plan);
    cpu_plan *cpu = cpu_plan_of(plan);
    const sparge_problem *p = &plan->problem;
    const int64_t heads = (int64_t)p->batch * p->heads_q, blocks = block_count(plan);
    int64_t aware = 0;
#pragma omp parallel for schedule(dynamic, 1) num_threads(cpu_threads(plan->context)) reduction(+ : aware)
    for (int64_t i = 0; i < heads; i++) {
        const int32_t head = (int32_t)(i % p->heads_q);
        const int64_t kv = i / p->heads_q * p->heads_kv + head / (p->heads_q / p->heads_kv);
        const flex_head h = {
            .batch = i / p->heads_q,
            .head = head,
            .q_pool = cpu->prepared.q_pool + i * blocks * p->head_dim,
            .k_pool = cpu->prepared.k_pool + kv * blocks * p->head_dim,
            .out = cpu->mask.value + i * blocks * blocks,
        };
        memset(h.out, 0, (size_t)(blocks * blocks));
        aware += select_head(plan, &h);
    }
    cpu->stats.extra = aware;
    return cpu_worklist_from_mask(plan);
}

const cpu_selector cpu_select_flex = {plan_flex, run_flex};
