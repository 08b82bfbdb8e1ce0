/* The attention kernels on the official block maps. Parity mode is as far from exact attention on the map as the official
 * kernel is, and a fiftieth of that from its output; fixed mode is about as far as the official kernel; 16-bit attention
 * is close to exact. */
#include "recorded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const settings[] = {"s0.6c0.98", "s-0.1k0.25"};

/* Rows that the map leaves without a key are 0 here, and an average of some keys in the official output: left out. */
static int row_is_empty(const double *exact, int64_t dim)
{
    for (int64_t d = 0; d < dim; d++)
        if (exact[d] != 0)
            return 0;
    return 1;
}

/* Copies the rows that are not empty in `exact`; returns how many elements that are. */
static int64_t keep_rows(const double *exact, int64_t rows, int64_t dim, const double *from, double *to)
{
    int64_t count = 0;
    for (int64_t i = 0; i < rows; i++)
        if (!row_is_empty(exact + i * dim, dim))
            for (int64_t d = 0; d < dim; d++)
                to[count++] = from[i * dim + d];
    return count;
}

static double *doubles_of_f32(const float *from, int64_t count)
{
    double *to = oracle_alloc((size_t)count, sizeof *to);
    for (int64_t i = 0; i < count; i++)
        to[i] = (double)from[i];
    return to;
}

static double *doubles_of_f16(const uint16_t *from, int64_t count)
{
    double *to = oracle_alloc((size_t)count, sizeof *to);
    for (int64_t i = 0; i < count; i++)
        to[i] = (double)sparge_f32_from_f16(from[i]);
    return to;
}

typedef struct errors {
    double official, mine, between; /* rel_l2 to exact attention on the map; mine to the official output */
    int64_t empty_rows;
} errors;

static errors compare(const recorded *r, const attend_case *c, const char *shape, const char *setting)
{
    char name[64];
    snprintf(name, sizeof name, "masked_f64@%s", setting);
    const int64_t rows = r->heads * r->tokens, count = rows * r->head_dim;
    double *exact = doubles_of_f32(recorded_data(r, shape, name, "F32"), count);
    snprintf(name, sizeof name, "out@%s", setting);
    double *official = doubles_of_f16(recorded_data(r, shape, name, "F16"), count);
    double *mine = doubles_of_f16(c->io.o.data, count);
    double *some[3];
    const double *all[3] = {exact, official, mine};
    int64_t kept = 0;
    for (int i = 0; i < 3; i++) {
        some[i] = oracle_alloc((size_t)count, sizeof **some);
        kept = keep_rows(exact, rows, r->head_dim, all[i], some[i]);
    }
    for (int64_t i = 0; i < rows; i++)
        if (row_is_empty(exact + i * r->head_dim, r->head_dim)) {
            assert_true(row_is_empty(mine + i * r->head_dim, r->head_dim));
            assert_true(c->lse[i] == -INFINITY);
        }
    const errors e = {.official = rel_l2(some[1], some[0], kept),
                      .mine = rel_l2(some[2], some[0], kept),
                      .between = rel_l2(some[2], some[1], kept),
                      .empty_rows = rows - kept / r->head_dim};
    free(exact);
    free(official);
    free(mine);
    for (int i = 0; i < 3; i++)
        free(some[i]);
    return e;
}

static errors run(int index, const char *shape, const char *setting, sparge_arithmetic arithmetic, int upstream)
{
    recorded r;
    attend_case c;
    char name[64];
    recorded_open(&r, index);
    recorded_case(&r, &c);
    c.recipe = case_recipe(arithmetic);
    recorded_blocks(shape, &c.recipe.block_q, &c.recipe.block_k);
    c.recipe.upstream = upstream;
    c.recipe.fp8_v_max = upstream ? 2.25f : 448.0f;
    c.recipe.lambda.uniform = -50 * log(2.0); /* pvthreshd = 50, the official default */
    c.recipe.pv_unit = c.recipe.block_q;
    snprintf(name, sizeof name, "map@%s", setting);
    case_plan(&c, recorded_data(&r, shape, name, "U8"));
    case_run(&c, SPARGE_STAGE_PREPARE | SPARGE_STAGE_ATTEND);
    const errors e = compare(&r, &c, shape, setting);
    print_message("%s %s@%s arithmetic %d %s: rel_l2 %.5f, official %.5f, to it %.5f; %d rows without keys\n", r.name,
                  shape, setting, (int)arithmetic, upstream ? "parity" : "fixed", e.mine, e.official, e.between,
                  (int)e.empty_rows);
    case_close(&c);
    recorded_close(&r);
    return e;
}

/* 64x128 is the official INT8/FP8 kernel, 128x64 its INT8/F16 one. */
static void official_maps_give_official_accuracy(void **state)
{
    (void)state;
    for (int index = 0; index < UPSTREAM_CASES; index++)
        for (int s = 0; s < 2; s++)
            for (int fp8 = 0; fp8 < 2; fp8++) {
                const char *shape = fp8 ? "64x128" : "128x64";
                const sparge_arithmetic arithmetic = fp8 ? SPARGE_ARITHMETIC_INT8_FP8 : SPARGE_ARITHMETIC_INT8_F16;
                const errors parity = run(index, shape, settings[s], arithmetic, 1);
                assert_true(parity.mine <= 1.01 * parity.official);
                assert_true(parity.between <= 1e-3);
                const errors fixed = run(index, shape, settings[s], arithmetic, 0);
                assert_true(fixed.mine <= 1.1 * fixed.official);
                const errors f16 = run(index, shape, settings[s], SPARGE_ARITHMETIC_F16, 0);
                assert_true(f16.mine <= 1e-3);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(official_maps_give_official_accuracy)};
    return upstream_present() ? cmocka_run_group_tests(tests, NULL, NULL) : UPSTREAM_SKIP;
}
