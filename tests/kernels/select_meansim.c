/* SpargeAttn's selection in fixed mode against a re-implementation in double, written as the paper states it: explicit
 * means, all pairwise cosines, softmax, full sort, cumulative sum. And what parameters promise. */
#include "check.h"
#include "select_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BLOCKS = 16 };

typedef struct settings {
    double tau, topk, theta; /* topk, theta: NAN = off */
    int smooth, sink;
} settings;

typedef const double *(*token_of)(const select_case *c, int64_t batch, int64_t head, int64_t token);

/* Mean and mean pairwise cosine of rows [begin, end), minus `center`. */
static double pool(const select_case *c, token_of token, int64_t batch, int64_t head, int64_t begin, int64_t end,
                   const double *center, double *mean)
{
    const int32_t channels = c->problem.head_dim;
    double *row = calloc((size_t)((end - begin) * channels), sizeof *row), sim = 0;
    assert_non_null(row);
    memset(mean, 0, (size_t)channels * sizeof *mean);
    for (int64_t t = begin; t < end; t++) {
        double *x = row + (t - begin) * channels, length = 0;
        for (int32_t d = 0; d < channels; d++) {
            x[d] = token(c, batch, head, t)[d] - center[d];
            mean[d] += x[d] / (double)(end - begin);
            length += x[d] * x[d];
        }
        for (int32_t d = 0; d < channels && length > 0; d++)
            x[d] /= sqrt(length);
    }
    for (int64_t s = 0; s < end - begin; s++)
        for (int64_t t = 0; t < end - begin; t++)
            for (int32_t d = 0; d < channels; d++)
                sim += row[s * channels + d] * row[t * channels + d];
    free(row);
    return sim / (double)((end - begin) * (end - begin));
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The row's map; *near is set if a decision was within 1e-5 of falling the other way. */
static void expect_row(const settings *set, double scale, int64_t visible, int32_t channels, const double *q,
                       double q_sim, const double *k, const double *k_sim, uint8_t *map, int *near)
{
    double p[MOST_BLOCKS], total = 0, most = -INFINITY, sum = 0;
    int64_t candidates = 0, taken = 0, wanted;
    for (int64_t j = 0; j < visible; j++) {
        const int judged = !isnan(set->theta), fixed = judged && !(k_sim[j] > set->theta);
        *near |= judged && (fabs(k_sim[j] - set->theta) < 1e-5 || fabs(q_sim - set->theta) < 1e-5);
        map[j] = (uint8_t)(fixed || (judged && !(q_sim > set->theta)) || (set->sink && j == 0));
        double dot = 0;
        for (int32_t d = 0; d < channels; d++)
            dot += q[d] * k[j * channels + d];
        p[j] = fixed ? -INFINITY : dot * scale;
        most = fmax(most, p[j]);
        candidates += !fixed;
    }
    for (int64_t j = 0; j < visible; j++)
        total += p[j] = isinf(p[j]) ? 0 : exp(p[j] - most);
    wanted = isnan(set->topk) ? candidates : (int64_t)fmax(1, ceil(set->topk * (double)visible));
    uint8_t used[MOST_BLOCKS] = {0};
    for (; taken < least(wanted, candidates); taken++) {
        int64_t best = -1;
        for (int64_t j = 0; j < visible; j++)
            if (!used[j] && !(p[j] == 0 && !isnan(set->theta) && !(k_sim[j] > set->theta)) &&
                (best < 0 || p[j] > p[best]))
                best = j;
        sum += p[best] / total;
        if (isnan(set->topk)) {
            *near |= fabs(sum - set->tau) < 1e-5;
            if (sum > set->tau && taken > 0)
                break;
        }
        used[best] = map[best] = 1;
        if (isnan(set->topk) && sum > set->tau)
            break;
        for (int64_t j = 0; j < visible; j++)
            *near |= !used[j] && fabs(p[j] - p[best]) < 1e-5 * p[best];
    }
}

typedef struct pools {
    double *mean, *sim;
} pools;

static pools pool_all(const select_case *c, token_of token, int64_t batch, int64_t head, int64_t tokens, int32_t block,
                      const double *center)
{
    const int64_t blocks = (tokens + block - 1) / block;
    pools out = {calloc((size_t)(blocks * c->problem.head_dim), sizeof(double)),
                 calloc((size_t)blocks, sizeof(double))};
    assert_true(out.mean && out.sim && blocks <= MOST_BLOCKS);
    for (int64_t i = 0; i < blocks; i++)
        out.sim[i] = pool(c, token, batch, head, i * block, least((i + 1) * block, tokens), center,
                          out.mean + i * c->problem.head_dim);
    return out;
}

static void k_mean(const select_case *c, int64_t batch, int64_t head, double *mean)
{
    const sparge_problem *p = &c->problem;
    for (int64_t t = 0; t < p->seqlen_k; t++)
        for (int32_t d = 0; d < p->head_dim; d++)
            mean[d] += case_k(c, batch, head, t)[d] / (double)p->seqlen_k;
}

static void compare_head(const select_case *c, int64_t batch, int64_t head, const settings *set, int64_t *rows,
                         int64_t *excused)
{
    const sparge_problem *p = &c->problem;
    const double zero[SPARGE_MAX_HEAD_DIM] = {0};
    double center[SPARGE_MAX_HEAD_DIM] = {0};
    if (set->smooth)
        k_mean(c, batch, head, center);
    const pools q = pool_all(c, case_q, batch, head, p->seqlen_q, c->mask.block_q, zero);
    const pools k = pool_all(c, case_k, batch, head, p->seqlen_k, c->mask.block_k, center);
    for (int64_t row = 0; row < c->mask.rows; row++, ++*rows) {
        uint8_t expected[MOST_BLOCKS] = {0};
        int near = 0;
        expect_row(set, sparge_problem_scale(p), case_cols_visible(c, row), p->head_dim, q.mean + row * p->head_dim,
                   q.sim[row], k.mean, k.sim, expected, &near);
        if (memcmp(expected, case_mask_row(c, batch, head, row), (size_t)c->mask.cols) == 0)
            continue;
        if (!near)
            fail_msg("batch %d, head %d, row %d differs", (int)batch, (int)head, (int)row);
        ++*excused;
    }
    free(q.mean);
    free(q.sim);
    free(k.mean);
    free(k.sim);
}

static int64_t count_mask(const select_case *c)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < (int64_t)c->mask.batch * c->mask.heads * c->mask.rows * c->mask.cols; i++)
        kept += c->mask.value[i];
    return kept;
}

static int64_t count_visible(const select_case *c)
{
    int64_t visible = 0;
    for (int64_t row = 0; row < c->mask.rows; row++)
        visible += case_cols_visible(c, row);
    return visible * c->mask.batch * c->mask.heads;
}

static settings random_settings(uint64_t *rng, char *text, size_t size)
{
    static const char *const edges[] = {"64", "128"};
    settings set = {.tau = 0.98, .topk = NAN, .theta = 0.6};
    set.smooth = (int)case_between(rng, 0, 1);
    set.sink = case_between(rng, 0, 3) == 0;
    int used = snprintf(text, size, "block_q=%s block_k=%s smooth_k=%s sink=%s", edges[case_between(rng, 0, 1)],
                        edges[case_between(rng, 0, 1)], set.smooth ? "on" : "off", set.sink ? "on" : "off");
    const int64_t kind = case_between(rng, 0, 2);
    if (kind == 0) {
        set.topk = (double)case_between(rng, 0, 100) / 100;
        set.theta = NAN;
        used += snprintf(text + used, size - (size_t)used, " topk=%.2f", set.topk);
    } else {
        set.tau = (double)case_between(rng, 30, 100) / 100;
        used += snprintf(text + used, size - (size_t)used, " tau=%.2f", set.tau);
    }
    if (case_between(rng, 0, 1)) {
        set.theta = (double)case_between(rng, 2, 9) / 10;
        snprintf(text + used, size - (size_t)used, " theta=%.1f", set.theta);
    }
    return set;
}

static void brute_force(void **state)
{
    uint64_t rng = 1;
    int64_t rows = 0, excused = 0, kept = 0, visible = 0;
    (void)state;
    for (int n = 0; n < 40; n++) {
        select_case c;
        char text[256];
        const sparge_problem p = case_problem(&rng, 800, 0);
        const settings set = random_settings(&rng, text, sizeof text);
        case_open(&c, &p, &rng);
        case_plan(&c, "sparge-f16", text);
        case_select(&c);
        for (int64_t i = 0; i < (int64_t)p.batch * p.heads_q; i++)
            compare_head(&c, i / p.heads_q, i % p.heads_q, &set, &rows, &excused);
        kept += count_mask(&c);
        visible += count_visible(&c);
        case_close(&c);
    }
    printf("%d rows, %d within 1e-5 of a threshold, density %.2f\n", (int)rows, (int)excused,
           (double)kept / (double)visible);
    assert_true(excused * 200 <= rows);
    assert_true(kept * 10 > visible && kept * 10 < visible * 9); /* the cases are neither empty nor dense */
}

/* Each head obeys its own parameters: the rows of a per-head plan equal those of uniform plans. */
static void per_head(void **state)
{
    uint64_t rng = 2;
    select_case c;
    sparge_problem p = {.batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 700, .seqlen_k = 900, .head_dim = 64};
    static const double tau[] = {0.5, 0.9, 0.7, 1}, theta[] = {0.2, 0.6, 0.9, -1};
    uint8_t *together;
    size_t bytes;
    (void)state;
    case_open(&c, &p, &rng);
    case_plan(&c, "sparge-f16", "");
    assert_int_equal(sparge_params_set_heads(c.params, "tau", tau, 4, NULL), SPARGE_OK);
    assert_int_equal(sparge_params_set_heads(c.params, "theta", theta, 4, NULL), SPARGE_OK);
    sparge_plan_destroy(c.plan);
    assert_int_equal(sparge_plan_create(c.context, c.params, &p, &c.plan), SPARGE_OK);
    case_select(&c);
    bytes = (size_t)(c.mask.batch * c.mask.heads * c.mask.rows * c.mask.cols);
    together = malloc(bytes);
    assert_non_null(together);
    memcpy(together, c.mask.value, bytes);
    for (int64_t h = 0; h < 4; h++) {
        char text[64];
        snprintf(text, sizeof text, "tau=%g theta=%g", tau[h], theta[h]);
        case_plan(&c, "sparge-f16", text);
        case_select(&c);
        const size_t head_bytes = (size_t)(c.mask.rows * c.mask.cols);
        for (int64_t b = 0; b < 2; b++)
            assert_memory_equal(case_mask_row(&c, b, h, 0), together + (size_t)(b * 4 + h) * head_bytes, head_bytes);
    }
    free(together);
    case_close(&c);
}

/* tau = 1 and topk = 1 are dense, tau = 0 keeps one block a row, theta = 1 distrusts every block; counts are exact. */
static void ends(void **state)
{
    static const struct {
        const char *text;
        int dense, one;
    } cases[] = {
        {"tau=1 theta=-1", 1, 0}, {"topk=1", 1, 0}, {"tau=0.1 theta=1", 1, 0},
        {"tau=0 theta=-1", 0, 1}, {"topk=0", 0, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int causal = 0; causal < 3; causal++) {
            uint64_t rng = 3;
            select_case c;
            const sparge_problem p = {.batch = 1,
                                      .heads_q = 2,
                                      .heads_kv = 1,
                                      .seqlen_q = 500,
                                      .seqlen_k = 700,
                                      .head_dim = 32,
                                      .causal = (sparge_causal)causal};
            sparge_stats stats;
            case_open(&c, &p, &rng);
            case_plan(&c, "sparge-f16", cases[i].text);
            case_select(&c);
            assert_int_equal(sparge_plan_run(c.plan, SPARGE_STAGE_ALL, &c.io), SPARGE_OK);
            assert_int_equal(sparge_plan_get_stats(c.plan, &stats), SPARGE_OK);
            assert_int_equal(stats.basis, SPARGE_BASIS_BLOCK);
            assert_int_equal(stats.visible, count_visible(&c));
            assert_int_equal(stats.qk, count_mask(&c));
            if (cases[i].dense)
                assert_int_equal(stats.qk, stats.visible);
            if (cases[i].one)
                assert_int_equal(stats.qk, 2 * c.mask.rows);
            assert_int_equal(stats.extra, strstr(cases[i].text, "theta=1") ? stats.visible : 0);
            case_close(&c);
        }
}

/* Parity mode counts topk of all key blocks, rounded down, also where it is causal. */
static void upstream_topk(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        uint64_t rng = 4;
        select_case c;
        const sparge_problem p = {.batch = 1,
                                  .heads_q = 2,
                                  .heads_kv = 2,
                                  .seqlen_q = 1024,
                                  .seqlen_k = 1024,
                                  .head_dim = 64,
                                  .causal = causal ? SPARGE_CAUSAL_TOP_LEFT : SPARGE_CAUSAL_NONE};
        case_open(&c, &p, &rng);
        case_plan(&c, "sparge-f16", "compat=upstream topk=0.3");
        case_select(&c);
        for (int64_t i = 0; i < 2 * c.mask.rows; i++) {
            const uint8_t *row = case_mask_row(&c, 0, i / c.mask.rows, i % c.mask.rows);
            int64_t kept = 0;
            for (int64_t j = 0; j < c.mask.cols; j++)
                kept += row[j];
            assert_int_equal(kept, least(4, case_cols_visible(&c, i % c.mask.rows))); /* 0.3 * 16 = 4.8 */
        }
        case_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(brute_force), cmocka_unit_test(per_head),
                                       cmocka_unit_test(upstream_topk), cmocka_unit_test(ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
