/* FlexPrefill's selection against a re-implementation in double that forms whole attention matrices, and its corner
 * cases. */
#include "check.h"
#include "select_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TOKENS = 1600, MOST_BLOCKS = 26 };

typedef struct settings {
    double gamma, tau;
    int64_t min_budget, max_budget, block;
} settings;

typedef struct prediction {
    uint8_t map[MOST_BLOCKS][MOST_BLOCKS];
    int aware, near; /* near: some decision was close enough to fall the other way */
} prediction;

static double dot(const double *a, const double *b, int32_t count)
{
    double sum = 0;
    for (int32_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static int falling(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* 1 + how many prefix sums, largest first, stay within gamma. */
static int64_t needed(const double *x, int64_t count, double gamma, int *near)
{
    static double sorted[MOST_TOKENS];
    double sum = 0;
    int64_t n = 1;
    memcpy(sorted, x, (size_t)count * sizeof *x);
    qsort(sorted, (size_t)count, sizeof *sorted, falling);
    for (int64_t i = 0; i < count; i++) {
        sum += sorted[i];
        n += sum <= gamma;
        *near |= fabs(sum - gamma) < 2e-6 && (n % 128 == 0 || n % 128 == 127); /* only whole units matter */
    }
    return n;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    value = value > low ? value : low;
    return value < high ? value : high;
}

/* The `count` largest of x as flags; the first is always in. */
static void choose(const double *x, int64_t blocks, int64_t count, uint8_t *chosen, int *near)
{
    memset(chosen, 0, (size_t)blocks);
    double last = INFINITY;
    for (int64_t taken = 0; taken <= count && taken < blocks; taken++) {
        int64_t best = -1;
        for (int64_t i = 0; i < blocks; i++)
            if (!chosen[i] && (best < 0 || i == 0 || (x[i] > x[best] && best != 0)))
                best = i;
        if (taken == count) {
            *near |= best > 0 && fabs(x[best] - last) < 1e-6;
            return;
        }
        chosen[best] = 1;
        last = best == 0 ? INFINITY : x[best];
    }
}

static void mean_of(const double *(*token)(const select_case *, int64_t, int64_t, int64_t), const select_case *c,
                    int64_t batch, int64_t head, int64_t begin, int64_t end, double *mean)
{
    for (int32_t d = 0; d < c->problem.head_dim; d++) {
        mean[d] = 0;
        for (int64_t t = begin; t < end; t++)
            mean[d] += token(c, batch, head, t)[d] / (double)(end - begin);
    }
}

static int sees(const select_case *c, int64_t q, int64_t k)
{
    return c->problem.causal == SPARGE_CAUSAL_NONE || k <= q;
}

/* Attention of the last B queries, by key and by distance. */
static void estimate(const select_case *c, int64_t batch, int64_t head, int64_t block, double *by_key,
                     double *by_offset)
{
    const int64_t n = c->problem.seqlen_k;
    static double a[MOST_TOKENS];
    memset(by_key, 0, (size_t)n * sizeof *by_key);
    memset(by_offset, 0, (size_t)n * sizeof *by_offset);
    for (int64_t q = n - block; q < n; q++) {
        double most = -INFINITY, sum = 0;
        for (int64_t k = 0; k < n; k++) {
            a[k] = sees(c, q, k) ? dot(case_q(c, batch, head, q), case_k(c, batch, head, k), c->problem.head_dim) *
                                       (double)sparge_problem_scale(&c->problem)
                                 : -INFINITY;
            most = fmax(most, a[k]);
        }
        for (int64_t k = 0; k < n; k++)
            sum += a[k] = exp(a[k] - most);
        for (int64_t k = 0; k < n; k++) {
            by_key[k] += a[k] / sum / (double)block;
            by_offset[q > k ? q - k : k - q] += a[k] / sum / (double)block;
        }
    }
}

static void softmax(double *x, int64_t count)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, x[i]);
    for (int64_t i = 0; i < count; i++)
        sum += x[i] = exp(x[i] - most);
    for (int64_t i = 0; i < count; i++)
        x[i] /= sum;
}

typedef struct candidate {
    double p;
    int64_t at;
} candidate;

static int more_probable(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    return x->p != y->p ? (x->p < y->p) - (x->p > y->p) : (x->at > y->at) - (x->at < y->at);
}

static void add_query_aware(const select_case *c, int64_t batch, int64_t head, const settings *set, prediction *out)
{
    const int64_t n = c->problem.seqlen_k, blocks = (n + set->block - 1) / set->block;
    static candidate list[MOST_BLOCKS * MOST_BLOCKS];
    double q[SPARGE_MAX_HEAD_DIM], k[SPARGE_MAX_HEAD_DIM], p[MOST_BLOCKS], sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t seen = c->problem.causal == SPARGE_CAUSAL_NONE ? blocks : i + 1;
        mean_of(case_q, c, batch, head, i * set->block, clamp((i + 1) * set->block, 0, n), q);
        for (int64_t j = 0; j < seen; j++) {
            mean_of(case_k, c, batch, head, j * set->block, clamp((j + 1) * set->block, 0, n), k);
            p[j] = dot(q, k, c->problem.head_dim) * (double)sparge_problem_scale(&c->problem);
        }
        softmax(p, seen);
        for (int64_t j = 0; j < seen; j++)
            list[count++] = (candidate){p[j], i * blocks + j};
    }
    qsort(list, (size_t)count, sizeof *list, more_probable);
    for (int64_t i = 0; i < count; i++) {
        sum += list[i].p;
        out->near |= fabs(sum - set->gamma * (double)blocks) < 1e-5 ||
                     (i + 1 < count && sum < set->gamma * (double)blocks && fabs(list[i].p - list[i + 1].p) < 1e-7 &&
                      sum + list[i + 1].p > set->gamma * (double)blocks);
        if (sum > set->gamma * (double)blocks)
            break;
        out->map[list[i].at / blocks][list[i].at % blocks] = 1;
    }
}

static double divergence(const double *p, const double *v, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += p[i] * log(2 * p[i] / (p[i] + v[i])) + v[i] * log(2 * v[i] / (p[i] + v[i]));
    return sqrt(fmax(0, sum / 2));
}

static prediction predict(const select_case *c, int64_t batch, int64_t head, const settings *set)
{
    static double by_key[MOST_TOKENS], by_offset[MOST_TOKENS];
    const int64_t n = c->problem.seqlen_k, b = set->block, blocks = (n + b - 1) / b;
    const int64_t least = clamp((set->min_budget + b - 1) / b, 1, blocks);
    const int64_t most = set->max_budget ? clamp((set->max_budget + b - 1) / b, 1, blocks) : blocks;
    double vertical[MOST_BLOCKS] = {0}, slash[MOST_BLOCKS] = {0}, p[MOST_BLOCKS];
    double q[SPARGE_MAX_HEAD_DIM], k[SPARGE_MAX_HEAD_DIM];
    uint8_t columns[MOST_BLOCKS], diagonals[MOST_BLOCKS];
    prediction out = {.aware = 0};
    estimate(c, batch, head, b, by_key, by_offset);
    int64_t v = clamp(needed(by_key, n, set->gamma, &out.near) / 128 + 1, least, most);
    int64_t s = clamp(needed(by_offset, n, set->gamma, &out.near) / 128 + 1, least, most);
    for (int64_t i = 0; i < n; i++) {
        vertical[i / b] += by_key[i];
        slash[blocks - 1 - (n - 1 - i) / b] += by_offset[i];
    }
    mean_of(case_q, c, batch, head, n - b, n, q);
    for (int64_t j = 0; j < blocks; j++) {
        mean_of(case_k, c, batch, head, j * b, clamp((j + 1) * b, 0, n), k);
        p[j] = dot(q, k, c->problem.head_dim) * (double)sparge_problem_scale(&c->problem);
    }
    softmax(p, blocks);
    const double distance = divergence(p, vertical, blocks);
    out.aware = distance < set->tau;
    out.near |= fabs(distance - set->tau) < 1e-5;
    if (out.aware)
        v = s = least;
    choose(vertical, blocks, v, columns, &out.near);
    choose(slash, blocks, s, diagonals, &out.near);
    for (int64_t i = 0; i < blocks; i++)
        for (int64_t j = 0; j < blocks; j++)
            if (sees(c, i, j))
                out.map[i][j] = columns[j] || diagonals[i > j ? i - j : j - i];
    if (out.aware)
        add_query_aware(c, batch, head, set, &out);
    return out;
}

static void plan_with(select_case *c, const settings *set)
{
    char text[160];
    int used = snprintf(text, sizeof text, "gamma=%.2f tau=%.2f min_budget=%d block=%d", set->gamma, set->tau,
                        (int)set->min_budget, (int)set->block);
    if (set->max_budget)
        snprintf(text + used, sizeof text - (size_t)used, " max_budget=%d", (int)set->max_budget);
    case_plan(c, "flexprefill", text);
    case_select(c);
}

static void brute_force(void **state)
{
    uint64_t rng = 21;
    int64_t heads = 0, compared = 0, aware = 0;
    (void)state;
    for (int n = 0; n < 24; n++) {
        sparge_problem p = case_problem(&rng, 8, 1);
        const settings set = {
            .gamma = (double)case_between(&rng, 30, 99) / 100,
            .tau = (double)case_between(&rng, 0, 4) / 10,
            .min_budget = case_between(&rng, 0, 300),
            .max_budget = case_between(&rng, 0, 1) ? case_between(&rng, 300, 600) : 0,
            .block = case_between(&rng, 0, 1) ? 64 : 128,
        };
        select_case c;
        p.seqlen_q = p.seqlen_k = case_between(&rng, 520, MOST_TOKENS * set.block / 128);
        p.scale = (float)case_uniform(&rng);
        p.causal = case_between(&rng, 0, 2) == 0 ? SPARGE_CAUSAL_NONE : SPARGE_CAUSAL_BOTTOM_RIGHT;
        case_open(&c, &p, &rng);
        plan_with(&c, &set);
        int64_t case_aware = 0, case_near = 0;
        for (int64_t h = 0; h < (int64_t)p.batch * p.heads_q; h++, heads++) {
            const prediction expected = predict(&c, h / p.heads_q, h % p.heads_q, &set);
            case_aware += expected.aware;
            case_near += expected.near;
            if (expected.near)
                continue;
            compared++;
            for (int64_t row = 0; row < c.mask.rows; row++)
                assert_memory_equal(case_mask_row(&c, h / p.heads_q, h % p.heads_q, row), expected.map[row],
                                    (size_t)c.mask.cols);
        }
        aware += case_aware;
        sparge_stats stats;
        assert_int_equal(sparge_plan_run(c.plan, SPARGE_STAGE_ATTEND, &c.io), SPARGE_OK);
        assert_int_equal(sparge_plan_get_stats(c.plan, &stats), SPARGE_OK);
        if (case_near == 0)
            assert_int_equal(stats.extra, case_aware);
        case_close(&c);
    }
    printf("%d heads, %d compared, %d query-aware\n", (int)heads, (int)compared, (int)aware);
    assert_true(compared * 10 >= heads * 9);
    assert_true(aware > 5 && aware < heads - 5);
}

static select_case causal_case(int64_t tokens, uint64_t seed)
{
    uint64_t rng = seed;
    select_case c;
    const sparge_problem p = {.batch = 1,
                              .heads_q = 2,
                              .heads_kv = 1,
                              .seqlen_q = tokens,
                              .seqlen_k = tokens,
                              .head_dim = 16,
                              .causal = SPARGE_CAUSAL_BOTTOM_RIGHT};
    case_open(&c, &p, &rng);
    return c;
}

static sparge_stats run_stats(select_case *c)
{
    sparge_stats stats;
    assert_int_equal(sparge_plan_run(c->plan, SPARGE_STAGE_ALL, &c->io), SPARGE_OK);
    assert_int_equal(sparge_plan_get_stats(c->plan, &stats), SPARGE_OK);
    return stats;
}

/* Up to the minimum budget, and up to two blocks, everything is computed; one token more is sparse. */
static void dense_fallback(void **state)
{
    static const struct {
        int64_t tokens;
        const char *text;
        int dense;
    } cases[] = {
        {256, "min_budget=0 gamma=0.1 tau=0", 1},
        {257, "min_budget=0 gamma=0.1 tau=0", 0},
        {384, "min_budget=257 gamma=0.1 tau=0", 1},
        {513, "min_budget=257 gamma=0.1 tau=0", 0},
        {1024, "", 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        select_case c = causal_case(cases[i].tokens, 22);
        case_plan(&c, "flexprefill", cases[i].text);
        const sparge_stats stats = run_stats(&c);
        assert_int_equal(stats.qk == stats.visible, cases[i].dense);
        case_close(&c);
    }
}

/* tau = 0 is never query-aware; equal keys are, for any tau above; the sink block and the diagonal are in every row. */
static void branches(void **state)
{
    (void)state;
    select_case c = causal_case(896, 23);
    case_plan(&c, "flexprefill", "tau=0 min_budget=128 gamma=0.3");
    assert_int_equal(run_stats(&c).extra, 0);
    case_select(&c);
    for (int64_t h = 0; h < 2; h++)
        for (int64_t row = 0; row < c.mask.rows; row++)
            assert_true(case_mask_row(&c, 0, h, row)[0] && case_mask_row(&c, 0, h, row)[row]);
    for (int64_t i = 0; i < 896 * 16; i++)
        c.k[i] = sparge_f16_from_f32(0.25F);
    case_plan(&c, "flexprefill", "tau=0.2 min_budget=128 gamma=0.3");
    assert_int_equal(run_stats(&c).extra, 2);
    case_select(&c);
    for (int64_t h = 0; h < 2; h++)
        for (int64_t row = 0; row < c.mask.rows; row++)
            assert_true(case_mask_row(&c, 0, h, row)[0] && case_mask_row(&c, 0, h, row)[row]);
    case_close(&c);
}

/* One key takes all attention to the last bit: the other blocks' mass is zero, the divergence is no number, and the head
 * is not query-aware whatever tau. */
static void zero_mass(void **state)
{
    (void)state;
    select_case c = causal_case(640, 24);
    for (int64_t i = 0; i < 640 * 16; i++)
        c.k[i] = sparge_f16_from_f32(i / 16 == 200 ? 60.0F : -60.0F);
    for (int64_t i = 0; i < 2 * 640 * 16; i++)
        c.q[i] = sparge_f16_from_f32(8.0F);
    case_plan(&c, "flexprefill", "tau=1 min_budget=128 gamma=0.9");
    const sparge_stats stats = run_stats(&c);
    assert_int_equal(stats.extra, 0);
    case_select(&c);
    assert_int_equal(case_mask_row(&c, 0, 0, 4)[1], 0); /* budget 1: only the forced block 0 */
    assert_int_equal(case_mask_row(&c, 0, 0, 4)[0], 1);
    case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(brute_force), cmocka_unit_test(dense_fallback),
                                       cmocka_unit_test(branches), cmocka_unit_test(zero_mass)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
