/* MInference's patterns: the converter against its golden vectors and a set-based reading of the definition; whole
 * selections against re-implementations in double. */
#include "check.h"
#include "cpu/cpu.h"
#include "cpu/select/vs_convert.h"
#include "select_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TILE = CPU_VS_TILE, MOST = 1024 };

typedef struct converted {
    int64_t tile[MOST], tiles, columns;
    int32_t column[MOST];
} converted;

/* --- The converter alone --- */

static void expect(const converted *got, const int64_t *tiles, size_t tile_count, const int32_t *columns,
                   size_t column_count)
{
    assert_int_equal(got->tiles, tile_count);
    assert_int_equal(got->columns, column_count);
    for (size_t i = 0; i < tile_count; i++)
        assert_int_equal(got->tile[i], tiles[i]);
    for (size_t i = 0; i < column_count; i++)
        assert_int_equal(got->column[i], columns[i]);
}

/* baselines.md 1.3: N = 256, verticals {0, 1, 2, 70, 130}. */
static void golden_vectors(void **state)
{
    static const int32_t vertical[] = {0, 1, 2, 70, 130};
    static const int32_t slash_a[] = {190, 100, 66, 5, 1, 0}, slash_b[] = {150, 140, 63, 0};
    static const int64_t tiles_a[4][4] = {{0}, {0, 64}, {0, 64, 128}, {2, 92, 156, 220}};
    static const int64_t tiles_b[4][4] = {{0}, {1, 65}, {0, 65, 129}, {42, 106, 170, 234}};
    static const size_t tile_count_a[] = {1, 2, 3, 4}, tile_count_b[] = {1, 2, 3, 4};
    static const int32_t columns_a[4][3] = {{0}, {0}, {0}, {0, 1, 70}}, columns_b[4][3] = {{0}, {0}, {0}, {0, 1, 2}};
    static const size_t column_count_a[] = {0, 0, 0, 3}, column_count_b[] = {0, 1, 0, 3};
    (void)state;
    for (int64_t row = 0; row < 4; row++) {
        converted got;
        cpu_vs_lists lists = {vertical, 5, slash_a, 6};
        cpu_vs_convert(&lists, row, got.tile, &got.tiles, got.column, &got.columns);
        expect(&got, tiles_a[row], tile_count_a[row], columns_a[row], column_count_a[row]);
        lists = (cpu_vs_lists){vertical, 5, slash_b, 4};
        cpu_vs_convert(&lists, row, got.tile, &got.tiles, got.column, &got.columns);
        expect(&got, tiles_b[row], tile_count_b[row], columns_b[row], column_count_b[row]);
    }
}

static int64_t random_subset(uint64_t *rng, int64_t below, int64_t about, int32_t *out)
{
    int64_t count = 0;
    for (int64_t i = 0; i < below; i++)
        if (case_between(rng, 0, below - 1) < about)
            out[count++] = (int32_t)i;
    return count;
}

/* Every visible position on a vertical or slash is covered, no key twice, runs overshoot by at most 63, columns lie
 * before the row block. */
static void converter_properties(void **state)
{
    uint64_t rng = 11;
    (void)state;
    for (int n = 0; n < 2000; n++) {
        static int32_t vertical[MOST], slash[MOST];
        static uint8_t times[2 * MOST], wanted[2 * MOST];
        const int64_t tokens = case_between(&rng, 1, MOST), rows = (tokens + TILE - 1) / TILE;
        cpu_vs_lists lists = {.vertical = vertical, .slash = slash};
        lists.verticals = random_subset(&rng, tokens, case_between(&rng, 0, 60), vertical);
        lists.slashes = random_subset(&rng, tokens, case_between(&rng, 1, 60), slash);
        if (lists.slashes == 0 || slash[0] != 0)
            slash[lists.slashes > 0 ? 0 : lists.slashes++] = 0;
        for (int64_t i = 0; i < lists.slashes / 2; i++) { /* descending */
            const int32_t swap = slash[i];
            slash[i] = slash[lists.slashes - 1 - i];
            slash[lists.slashes - 1 - i] = swap;
        }
        const int64_t row = case_between(&rng, 0, rows - 1), begin = row * TILE;
        converted got;
        cpu_vs_convert(&lists, row, got.tile, &got.tiles, got.column, &got.columns);
        assert_true(got.tiles <= cpu_vs_most_tiles(row, lists.slashes));
        memset(times, 0, sizeof times);
        memset(wanted, 0, sizeof wanted);
        for (int64_t t = 0; t < got.tiles; t++)
            for (int64_t k = 0; k < TILE; k++)
                times[got.tile[t] + k]++;
        for (int64_t c = 0; c < got.columns; c++) {
            assert_true(got.column[c] < begin);
            times[got.column[c]]++;
        }
        for (int64_t k = 0; k < 2 * MOST; k++)
            assert_true(times[k] <= 1);
        for (int64_t q = begin; q < begin + TILE && q < tokens; q++) {
            for (int64_t s = 0; s < lists.slashes; s++)
                if (slash[s] <= q)
                    wanted[q - slash[s]] = 1;
            for (int64_t v = 0; v < lists.verticals; v++)
                if (vertical[v] <= q)
                    wanted[vertical[v]] = 1;
        }
        for (int64_t k = 0; k < tokens; k++)
            assert_true(!wanted[k] || times[k]);
        /* Each run starts at the range of one offset and ends at most 63 past the range of another. */
        for (int64_t t = 0; t < got.tiles; t++) {
            const int64_t end = got.tile[t] + TILE;
            if (t + 1 < got.tiles && got.tile[t + 1] == end)
                continue;
            int64_t nearest = INT64_MAX;
            for (int64_t s = 0; s < lists.slashes; s++) {
                const int64_t reach = begin + TILE - slash[s] > TILE ? begin + TILE - slash[s] : TILE;
                if (slash[s] < begin + TILE && end >= reach && end - reach < nearest)
                    nearest = end - reach;
            }
            assert_true(nearest <= TILE - 1);
        }
    }
}

/* --- Whole selections --- */

typedef struct lists {
    uint8_t *vertical, *slash; /* by key, by offset */
} lists;

/* Marks the `count` best scores, the first `forced` before all others; *near if the last one in and the first one out
 * are within 1e-6. */
static void mark_best(const double *score, int64_t n, int64_t forced, int64_t count, uint8_t *out, int *near)
{
    double last = INFINITY;
    for (int64_t taken = 0; taken <= count && taken < n; taken++) {
        int64_t best = -1;
        for (int64_t i = 0; i < n; i++) {
            if (out[i])
                continue;
            if (i < forced) {
                best = i;
                break;
            }
            if (best < 0 || score[i] > score[best])
                best = i;
        }
        if (taken == count) {
            *near |= best >= forced && fabs(score[best] - last) < 1e-6;
            break;
        }
        out[best] = 1;
        last = best < forced ? INFINITY : score[best];
    }
}

static lists expect_lists(const select_case *c, int64_t batch, int64_t head, int64_t vertical, int64_t slash, int *near)
{
    const int64_t n = c->problem.seqlen_k, last = n < 64 ? n : 64;
    double *by_key = calloc((size_t)n, sizeof *by_key), *by_offset = calloc((size_t)n, sizeof *by_offset);
    double *a = calloc((size_t)n, sizeof *a);
    lists out = {calloc((size_t)n, 1), calloc((size_t)n, 1)};
    assert_true(by_key && by_offset && a && out.vertical && out.slash);
    for (int64_t q = n - last; q < n; q++) {
        double most = -INFINITY, sum = 0;
        for (int64_t k = 0; k <= q; k++) {
            a[k] = 0;
            for (int32_t d = 0; d < c->problem.head_dim; d++)
                a[k] += case_q(c, batch, head, q)[d] * case_k(c, batch, head, k)[d];
            a[k] *= (double)sparge_problem_scale(&c->problem);
            most = fmax(most, a[k]);
        }
        for (int64_t k = 0; k <= q; k++)
            sum += a[k] = exp(a[k] - most);
        for (int64_t k = 0; k <= q; k++) {
            by_key[k] += a[k] / sum;
            by_offset[q - k] += a[k] / sum;
        }
    }
    mark_best(by_key, n, 30, vertical, out.vertical, near);
    mark_best(by_offset, n, 100, slash, out.slash, near);
    free(by_key);
    free(by_offset);
    free(a);
    return out;
}

/* What the definition asks for (wanted), and all that it may compute (allowed): the 64-key range of each slash and the
 * overshoot of at most 63 keys. */
static void check_exact(const select_case *c, const lists *l, const uint8_t *pairs, int64_t *computed)
{
    const int64_t n = c->problem.seqlen_k;
    for (int64_t q = 0; q < n; q++) {
        const int64_t begin = q / TILE * TILE, end = begin + TILE;
        for (int64_t k = 0; k < n; k++) {
            const int kept = pairs[q * n + k];
            *computed += kept;
            if (k > q) {
                assert_false(kept);
                continue;
            }
            const int wanted = l->vertical[k] || l->slash[q - k];
            assert_true(kept || !wanted);
            if (wanted || !kept)
                continue;
            int allowed = 0;
            for (int64_t o = 0; o < n && o < end && !allowed; o++)
                if (l->slash[o]) {
                    const int64_t reach = end - o > TILE ? end - o : TILE;
                    allowed = k >= reach - TILE && k < reach + TILE - 1;
                }
            assert_true(allowed);
        }
    }
}

static void check_grid(const select_case *c, int64_t batch, int64_t head, const uint8_t *exact, const lists *l)
{
    const int64_t n = c->problem.seqlen_k, block_q = c->mask.block_q, block_k = c->mask.block_k;
    int64_t extra = 0;
    for (int64_t i = 0; i < c->mask.rows; i++)
        for (int64_t j = 0; j < c->mask.cols; j++) {
            int touched = 0, near = 0;
            for (int64_t q = i * block_q; q < (i + 1) * block_q && q < n; q++)
                for (int64_t k = j * block_k; k < (j + 1) * block_k && k < n; k++) {
                    touched |= exact[q * n + k];
                    near |= k <= q && (l->vertical[k] || l->slash[q - k]);
                }
            const int kept = case_mask_row(c, batch, head, i)[j];
            assert_true(kept || !touched); /* a superset of what the exact form computes */
            assert_true(kept || !near);
            extra += kept && !touched;
        }
    /* A run's tail can touch a block only with pairs that are not visible; nothing else adds blocks. */
    assert_true(extra <= c->mask.rows);
}

static void vertical_slash(void **state)
{
    static const int64_t tokens[] = {1, 31, 63, 64, 65, 127, 256, 449, 640, 767, 577};
    uint64_t rng = 12;
    int64_t compared = 0, computed = 0, visible = 0;
    (void)state;
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        sparge_problem p = case_problem(&rng, 8, 1);
        select_case c;
        sparge_stats stats;
        char text[128];
        const int64_t n = tokens[i], vertical = case_between(&rng, 1, 80), slash = case_between(&rng, 1, 140);
        p.seqlen_q = p.seqlen_k = n;
        p.causal = case_between(&rng, 0, 1) ? SPARGE_CAUSAL_TOP_LEFT : SPARGE_CAUSAL_BOTTOM_RIGHT;
        case_open(&c, &p, &rng);
        uint8_t *pairs = malloc((size_t)(n * n));
        assert_non_null(pairs);
        int64_t of_case = 0, heads_compared = 0;
        for (int64_t h = 0; h < (int64_t)p.batch * p.heads_q; h++) {
            int near = 0;
            const int64_t batch = h / p.heads_q, head = h % p.heads_q;
            lists l = expect_lists(&c, batch, head, vertical < 30 ? 30 : vertical, slash < 50 ? 50 : slash, &near);
            snprintf(text, sizeof text, "vertical=%d slash=%d", (int)vertical, (int)slash);
            case_plan(&c, "minference-vs", text);
            case_select(&c);
            assert_int_equal(sparge_plan_get_pairs(c.plan, (int32_t)batch, (int32_t)head, pairs), SPARGE_OK);
            if (!near)
                check_exact(&c, &l, pairs, &of_case);
            heads_compared += !near;
            case_plan(&c, "minference-vs-grid",
                      case_between(&rng, 0, 1) ? text : strcat(text, " block_q=64 block_k=128"));
            case_select(&c);
            if (!near)
                check_grid(&c, batch, head, pairs, &l);
            free(l.vertical);
            free(l.slash);
        }
        snprintf(text, sizeof text, "vertical=%d slash=%d", (int)vertical, (int)slash);
        case_plan(&c, "minference-vs", text);
        assert_int_equal(sparge_plan_run(c.plan, SPARGE_STAGE_ALL, &c.io), SPARGE_OK);
        assert_int_equal(sparge_plan_get_stats(c.plan, &stats), SPARGE_OK);
        assert_int_equal(stats.basis, SPARGE_BASIS_PAIR);
        assert_int_equal(stats.visible, p.batch * p.heads_q * n * (n + 1) / 2);
        compared += heads_compared;
        if (heads_compared == (int64_t)p.batch * p.heads_q)
            assert_int_equal(stats.qk, of_case);
        computed += stats.qk;
        visible += stats.visible;
        free(pairs);
        case_close(&c);
    }
    assert_true(compared > 20 && computed < visible);
}

/* All verticals and all slashes: dense. The smallest sizes still hold the diagonal. */
static void vertical_slash_ends(void **state)
{
    static const int64_t tokens[] = {64, 65, 127, 128, 321};
    (void)state;
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        uint64_t rng = 13;
        select_case c;
        const int64_t n = tokens[i];
        const sparge_problem p = {.batch = 1,
                                  .heads_q = 1,
                                  .heads_kv = 1,
                                  .seqlen_q = n,
                                  .seqlen_k = n,
                                  .head_dim = 16,
                                  .causal = SPARGE_CAUSAL_BOTTOM_RIGHT};
        uint8_t *pairs = malloc((size_t)(n * n));
        assert_non_null(pairs);
        case_open(&c, &p, &rng);
        case_plan(&c, "minference-vs", "vertical=100000 slash=100000");
        case_select(&c);
        assert_int_equal(sparge_plan_get_pairs(c.plan, 0, 0, pairs), SPARGE_OK);
        for (int64_t q = 0; q < n; q++)
            for (int64_t k = 0; k < n; k++)
                assert_int_equal(pairs[q * n + k], k <= q);
        case_plan(&c, "minference-vs", "vertical=1 slash=1"); /* raised to 30 and 50 */
        case_select(&c);
        assert_int_equal(sparge_plan_get_pairs(c.plan, 0, 0, pairs), SPARGE_OK);
        for (int64_t q = 0; q < n; q++)
            for (int64_t k = 0; k <= q; k++)
                assert_true(pairs[q * n + k] || (k >= 30 && q - k >= 50));
        free(pairs);
        case_close(&c);
    }
}

static void block_mean(const double *(*token)(const select_case *, int64_t, int64_t, int64_t), const select_case *c,
                       int64_t head, int64_t block, int64_t tokens, double *mean)
{
    const int64_t begin = block * 64, end = begin + 64 < tokens ? begin + 64 : tokens;
    for (int32_t d = 0; d < c->problem.head_dim; d++) {
        mean[d] = 0;
        for (int64_t t = begin; t < end; t++)
            mean[d] += token(c, head / c->problem.heads_q, head % c->problem.heads_q, t)[d] / (double)(end - begin);
    }
}

/* Every kept block scores at least as much as every block left out, and their number is right. */
static void check_pooled_row(const select_case *c, int64_t head, int64_t row, int64_t wanted)
{
    const sparge_problem *p = &c->problem;
    const uint8_t *map = case_mask_row(c, head / p->heads_q, head % p->heads_q, row);
    const int64_t visible = case_cols_visible(c, row);
    double q[SPARGE_MAX_HEAD_DIM], k[SPARGE_MAX_HEAD_DIM], lowest_in = INFINITY, highest_out = -INFINITY;
    int64_t kept = 0;
    block_mean(case_q, c, head, row, p->seqlen_q, q);
    for (int64_t j = 0; j < c->mask.cols; j++) {
        double score = 0;
        block_mean(case_k, c, head, j, p->seqlen_k, k);
        for (int32_t d = 0; d < p->head_dim; d++)
            score += q[d] * k[d];
        kept += map[j];
        if (j >= visible)
            assert_int_equal(map[j], 0);
        else if (map[j])
            lowest_in = fmin(lowest_in, score);
        else
            highest_out = fmax(highest_out, score);
    }
    assert_int_equal(kept, wanted < visible ? wanted : visible);
    assert_true(lowest_in >= highest_out - 1e-5);
}

static void pooled(void **state)
{
    uint64_t rng = 14;
    (void)state;
    for (int n = 0; n < 25; n++) {
        const sparge_problem p = case_problem(&rng, 900, 0);
        const int64_t k = case_between(&rng, 1, 6), percent = case_between(&rng, 0, 100);
        char text[64];
        select_case c;
        case_open(&c, &p, &rng);
        for (int by_share = 0; by_share < 2; by_share++) {
            if (by_share)
                snprintf(text, sizeof text, "sparsity=%.2f", (double)percent / 100);
            else
                snprintf(text, sizeof text, "k=%d", (int)k);
            case_plan(&c, "minference-block", text);
            case_select(&c);
            assert_true(c.mask.block_q == 64 && c.mask.block_k == 64);
            for (int64_t i = 0; i < (int64_t)p.batch * p.heads_q * c.mask.rows; i++) {
                const int64_t visible = case_cols_visible(&c, i % c.mask.rows);
                const int64_t share = (int64_t)floor((double)((100 - percent) * visible) / 100 + 0.5);
                check_pooled_row(&c, i / c.mask.rows, i % c.mask.rows, by_share ? (share > 1 ? share : 1) : k);
            }
        }
        case_close(&c);
    }
}

/* k = 100 leaves rows of up to 100 blocks dense, with or without the official padding. */
static void pooled_default_is_dense_when_short(void **state)
{
    static const char *const text[] = {"", "compat=upstream"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        uint64_t rng = 15;
        select_case c;
        sparge_stats stats;
        const sparge_problem p = {.batch = 1,
                                  .heads_q = 1,
                                  .heads_kv = 1,
                                  .seqlen_q = 1024,
                                  .seqlen_k = 1024,
                                  .head_dim = 64,
                                  .causal = SPARGE_CAUSAL_TOP_LEFT};
        case_open(&c, &p, &rng);
        case_plan(&c, "minference-block", text[i]);
        assert_int_equal(sparge_plan_run(c.plan, SPARGE_STAGE_ALL, &c.io), SPARGE_OK);
        assert_int_equal(sparge_plan_get_stats(c.plan, &stats), SPARGE_OK);
        assert_int_equal(stats.visible, 16 * 17 / 2);
        assert_int_equal(stats.qk, stats.visible);
        case_close(&c);
    }
}

/* Densities at 8K that the published parameters give (baselines.md 1.5 and 1.6, worked out there by hand). */
static void published_densities(void **state)
{
    static const struct {
        const char *method, *text;
        double density;
    } cases[] = {
        {"minference-block", "", 0.951},
        {"minference-ashape", "", 0.750},
        {"minference-ashape", "sink=1024 local=4096", 0.859},
        {"minference-ashape", "sink=100 local=800", 0.208},
        {"minference-ashape", "sink=8 local=512", 0.123},
    };
    const sparge_problem p = {.batch = 1,
                              .heads_q = 1,
                              .heads_kv = 1,
                              .seqlen_q = 8192,
                              .seqlen_k = 8192,
                              .head_dim = 16,
                              .causal = SPARGE_CAUSAL_BOTTOM_RIGHT};
    uint64_t rng = 16;
    select_case c;
    (void)state;
    case_open(&c, &p, &rng);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sparge_stats stats;
        case_plan(&c, cases[i].method, cases[i].text);
        assert_int_equal(sparge_plan_run(c.plan, SPARGE_STAGE_ALL, &c.io), SPARGE_OK);
        assert_int_equal(sparge_plan_get_stats(c.plan, &stats), SPARGE_OK);
        if (fabs(1 - stats.sparsity_mg - cases[i].density) > 6e-4)
            fail_msg("%s %s: density %.4f, not %.3f", cases[i].method, cases[i].text, 1 - stats.sparsity_mg,
                     cases[i].density);
    }
    case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_vectors),
        cmocka_unit_test(converter_properties),
        cmocka_unit_test(vertical_slash),
        cmocka_unit_test(vertical_slash_ends),
        cmocka_unit_test(pooled),
        cmocka_unit_test(pooled_default_is_dense_when_short),
        cmocka_unit_test(published_densities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
