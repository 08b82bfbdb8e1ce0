/* Selections that depend on the shape alone, pair by pair against their definitions: dense, bands, sliding tiles, masks
 * from files. */
#include "check.h"
#include "select_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int (*pair_rule)(const sparge_problem *problem, const int64_t *numbers, int64_t query, int64_t key);

/* Every head computes exactly the visible pairs of the rule, and the counts say so. */
static void check_pairs(select_case *c, pair_rule rule, const int64_t *numbers)
{
    const sparge_problem *p = &c->problem;
    const size_t bytes = (size_t)(p->seqlen_q * p->seqlen_k);
    uint8_t *expected = calloc(bytes, 1), *pairs = malloc(bytes);
    int64_t visible = 0, kept = 0;
    sparge_stats stats;
    assert_true(expected && pairs);
    for (int64_t q = 0; q < p->seqlen_q; q++)
        for (int64_t k = 0; k < sparge_problem_visible_end(p, q); k++) {
            visible++;
            kept += expected[q * p->seqlen_k + k] = (uint8_t)(rule(p, numbers, q, k) != 0);
        }
    for (int32_t h = 0; h < p->batch * p->heads_q; h++) {
        assert_int_equal(sparge_plan_get_pairs(c->plan, h / p->heads_q, h % p->heads_q, pairs), SPARGE_OK);
        assert_memory_equal(pairs, expected, bytes);
    }
    assert_int_equal(sparge_plan_run(c->plan, SPARGE_STAGE_ALL, &c->io), SPARGE_OK);
    assert_int_equal(sparge_plan_get_stats(c->plan, &stats), SPARGE_OK);
    if (stats.basis == SPARGE_BASIS_PAIR) {
        assert_int_equal(stats.visible, visible * p->batch * p->heads_q);
        assert_int_equal(stats.qk, kept * p->batch * p->heads_q);
    }
    free(expected);
    free(pairs);
}

static const char *random_arithmetic(uint64_t *rng)
{
    static const char *const names[] = {"f16", "int8-f16", "int8-fp8"};
    return names[case_between(rng, 0, 2)];
}

static int rule_all(const sparge_problem *p, const int64_t *numbers, int64_t query, int64_t key)
{
    (void)p;
    (void)numbers;
    (void)query;
    (void)key;
    return 1;
}

static void dense(void **state)
{
    static const char *const methods[] = {"dense-f16", "dense-int8-f16", "dense-int8-fp8", "skip-softmax"};
    uint64_t rng = 41;
    (void)state;
    for (int n = 0; n < 12; n++) {
        const sparge_problem p = case_problem(&rng, 300, 0);
        select_case c;
        case_open(&c, &p, &rng);
        case_plan(&c, methods[n % 4], n % 4 == 3 ? "threshold=0" : "");
        case_select(&c);
        check_pairs(&c, rule_all, NULL);
        case_close(&c);
    }
}

/* The key position that a query stands at. */
static int64_t diagonal(const sparge_problem *p, int64_t query)
{
    return query + (p->causal == SPARGE_CAUSAL_BOTTOM_RIGHT ? p->seqlen_k - p->seqlen_q : 0);
}

/* numbers: sink, local, dense rows. */
static int rule_band(const sparge_problem *p, const int64_t *numbers, int64_t query, int64_t key)
{
    const int64_t distance = diagonal(p, query) - key;
    return key < numbers[0] || (distance < numbers[1] && -distance < numbers[1]) || query >= p->seqlen_q - numbers[2];
}

static void bands(void **state)
{
    uint64_t rng = 42;
    (void)state;
    for (int n = 0; n < 40; n++) {
        sparge_problem p = case_problem(&rng, 500, 0);
        const int ashape = n % 2 && p.causal != SPARGE_CAUSAL_NONE;
        const int64_t numbers[3] = {case_between(&rng, 0, 200), case_between(&rng, 1, 200),
                                    ashape ? case_between(&rng, 0, 150) : 0};
        char text[128];
        select_case c;
        if (p.causal == SPARGE_CAUSAL_NONE)
            p.seqlen_k = p.seqlen_q;
        case_open(&c, &p, &rng);
        if (ashape)
            snprintf(text, sizeof text, "sink=%d local=%d dense_rows=%d", (int)numbers[0], (int)numbers[1],
                     (int)numbers[2]);
        else
            snprintf(text, sizeof text, "sink=%d local=%d attend=%s", (int)numbers[0], (int)numbers[1],
                     random_arithmetic(&rng));
        case_plan(&c, ashape ? "minference-ashape" : "window", text);
        case_select(&c);
        assert_null(c.mask.value);
        check_pairs(&c, rule_band, numbers);
        case_close(&c);
    }
}

/* numbers: tile t, h, w, window t, h, w. */
static int rule_sta(const sparge_problem *p, const int64_t *numbers, int64_t query, int64_t key)
{
    const sparge_grid *g = &p->grid;
    const int64_t cells[3] = {g->t, g->h, g->w}, end = g->text_before + (int64_t)g->t * g->h * g->w;
    if (query < g->text_before || query >= end || key < g->text_before || key >= end)
        return 1;
    int64_t q = query - g->text_before, k = key - g->text_before;
    for (int axis = 2; axis >= 0; axis--) {
        const int64_t tile = numbers[axis], window = numbers[3 + axis];
        const int64_t tiles = (cells[axis] + tile - 1) / tile;
        int64_t middle = q % cells[axis] / tile;
        const int64_t other = k % cells[axis] / tile;
        q /= cells[axis];
        k /= cells[axis];
        if (window >= tiles)
            continue;
        while (middle - window / 2 < 0)
            middle++;
        while (middle + window / 2 >= tiles)
            middle--;
        if (other < middle - window / 2 || other > middle + window / 2)
            return 0;
    }
    return 1;
}

static void sliding_tiles(void **state)
{
    uint64_t rng = 43;
    (void)state;
    for (int n = 0; n < 30; n++) {
        sparge_problem p = case_problem(&rng, 8, 1);
        int64_t numbers[6];
        char text[160];
        select_case c;
        p.causal = SPARGE_CAUSAL_NONE;
        p.grid = (sparge_grid){
            .t = (int32_t)case_between(&rng, 1, 6),
            .h = (int32_t)case_between(&rng, 1, 10),
            .w = (int32_t)case_between(&rng, 1, 10),
            .text_before = case_between(&rng, 0, 1) ? (int32_t)case_between(&rng, 1, 40) : 0,
            .text_after = case_between(&rng, 0, 1) ? (int32_t)case_between(&rng, 1, 140) : 0,
        };
        p.seqlen_q = p.seqlen_k = (int64_t)p.grid.t * p.grid.h * p.grid.w + p.grid.text_before + p.grid.text_after;
        for (int axis = 0; axis < 3; axis++) {
            numbers[axis] = case_between(&rng, 1, 4);
            numbers[3 + axis] = 2 * case_between(&rng, 0, 2) + 1;
        }
        snprintf(text, sizeof text, "tile_t=%d tile_h=%d tile_w=%d window_t=%d window_h=%d window_w=%d attend=%s",
                 (int)numbers[0], (int)numbers[1], (int)numbers[2], (int)numbers[3], (int)numbers[4], (int)numbers[5],
                 random_arithmetic(&rng));
        case_open(&c, &p, &rng);
        case_plan(&c, "sta", text);
        case_select(&c);
        check_pairs(&c, rule_sta, numbers);
        case_close(&c);
    }
}

/* What the file says, blocks without a visible pair excepted; a file for one head serves all. */
static void mask_files(void **state)
{
    uint64_t rng = 44;
    char path[] = "/tmp/select_static_XXXXXX";
    const int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    close(fd);
    for (int n = 0; n < 12; n++) {
        const sparge_problem p = case_problem(&rng, 400, 0);
        sparge_problem of_file = p;
        const int32_t block_q = case_between(&rng, 0, 1) ? 64 : 128, block_k = case_between(&rng, 0, 1) ? 64 : 128;
        sparge_block_mask file;
        select_case c;
        char text[128];
        if (case_between(&rng, 0, 1))
            of_file.heads_q = of_file.heads_kv = of_file.batch = 1;
        assert_int_equal(sparge_block_mask_create(&file, &of_file, block_q, block_k, NULL), SPARGE_OK);
        for (int64_t i = 0; i < (int64_t)file.batch * file.heads * file.rows * file.cols; i++)
            file.value[i] = (uint8_t)case_between(&rng, 0, 1);
        assert_int_equal(sparge_block_mask_write(&file, path, NULL), SPARGE_OK);
        case_open(&c, &p, &rng);
        snprintf(text, sizeof text, "file=%s block_q=%d block_k=%d attend=%s", path, (int)block_q, (int)block_k,
                 random_arithmetic(&rng));
        case_plan(&c, "mask", text);
        case_select(&c);
        for (int64_t h = 0; h < (int64_t)p.batch * p.heads_q; h++)
            for (int64_t i = 0; i < c.mask.rows; i++)
                for (int64_t j = 0; j < c.mask.cols; j++) {
                    const int64_t from = file.heads == 1 && file.batch == 1 ? 0 : h;
                    const int wanted = file.value[(from * file.rows + i) * file.cols + j] &&
                                       sparge_block_visible(&p, block_q, block_k, i, j);
                    assert_int_equal(case_mask_row(&c, h / p.heads_q, h % p.heads_q, i)[j], wanted);
                }
        sparge_block_mask_release(&file);
        case_close(&c);
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(dense), cmocka_unit_test(bands),
                                       cmocka_unit_test(sliding_tiles), cmocka_unit_test(mask_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
