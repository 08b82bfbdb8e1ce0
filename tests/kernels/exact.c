/* sparge_exact against the oracle: two float64 implementations that share nothing. */
#include "attend_case.h"

#include <math.h>
#include <stdlib.h>

static sparge_problem problem_of(int64_t lq, int64_t lk, int32_t head_dim, sparge_dtype dtype, sparge_causal causal,
                                 float scale)
{
    return (sparge_problem){.batch = 2,
                            .heads_q = 4,
                            .heads_kv = 2,
                            .seqlen_q = lq,
                            .seqlen_k = lk,
                            .head_dim = head_dim,
                            .dtype = dtype,
                            .causal = causal,
                            .scale = scale};
}

/* rows: NULL = all. */
static void check(const sparge_problem *problem, case_layout layout, int threads, const int64_t *rows, int64_t n_rows)
{
    attend_case c;
    case_open(&c, problem, layout, threads, NULL);
    case_fill_normal(&c, 11, 2, 1);
    const int64_t d = problem->head_dim, heads = (int64_t)problem->batch * problem->heads_q;
    double *o = oracle_alloc((size_t)(heads * n_rows * d), sizeof *o);
    double *lse = oracle_alloc((size_t)(heads * n_rows), sizeof *lse);
    assert_int_equal(sparge_exact(c.context, problem, &c.io.q, &c.io.k, &c.io.v, rows, n_rows, o, lse), SPARGE_OK);
    double *expected = oracle_alloc((size_t)(problem->seqlen_q * d), sizeof *expected);
    double *expected_lse = oracle_alloc((size_t)problem->seqlen_q, sizeof *expected_lse);
    for (int64_t bh = 0; bh < heads; bh++) {
        case_oracle(&c, bh / problem->heads_q, bh % problem->heads_q, NULL, expected, expected_lse);
        for (int64_t r = 0; r < n_rows; r++) {
            const int64_t row = rows ? rows[r] : r;
            if (expected_lse[row] == -INFINITY)
                assert_true(lse[bh * n_rows + r] == -INFINITY);
            else
                assert_true(fabs(lse[bh * n_rows + r] - expected_lse[row]) <= 1e-12);
            for (int64_t i = 0; i < d; i++)
                assert_true(fabs(o[(bh * n_rows + r) * d + i] - expected[row * d + i]) <= 1e-12);
        }
    }
    free(o);
    free(lse);
    free(expected);
    free(expected_lse);
    case_close(&c);
}

static void all_rows_match_the_oracle(void **state)
{
    (void)state;
    static const int64_t lengths[][2] = {{1, 1}, {9, 70}, {70, 9}, {65, 130}};
    static const int32_t dims[] = {1, 13, 64, 128};
    for (size_t i = 0; i < 4; i++)
        for (int causal = SPARGE_CAUSAL_NONE; causal <= SPARGE_CAUSAL_BOTTOM_RIGHT; causal++)
            for (int dtype = SPARGE_F16; dtype <= SPARGE_BF16; dtype++) {
                const sparge_problem problem =
                    problem_of(lengths[i][0], lengths[i][1], dims[(i + (size_t)causal) % 4], (sparge_dtype)dtype,
                               (sparge_causal)causal, i % 2 ? 0.25f : 0.0f);
                check(&problem, (case_layout)(i % 3), 1 + (int)i, NULL, problem.seqlen_q);
            }
}

static void sampled_rows_match_the_oracle(void **state)
{
    (void)state;
    const int64_t rows[] = {199, 0, 3, 3, 64, 127, 128, 5, 150, 90, 17};
    const sparge_problem problem = problem_of(200, 150, 72, SPARGE_F16, SPARGE_CAUSAL_BOTTOM_RIGHT, 0);
    check(&problem, CASE_NHD, 2, rows, sizeof rows / sizeof rows[0]);
    check(&problem, CASE_NHD, 2, rows, 1);
}

/* Scores around 10^4: exp of anything but a difference to the maximum would overflow. */
static void large_scores_do_not_overflow(void **state)
{
    (void)state;
    const sparge_problem problem = problem_of(4, 40, 64, SPARGE_F16, SPARGE_CAUSAL_NONE, 1000.0f);
    attend_case c;
    case_open(&c, &problem, CASE_HND, 1, NULL);
    case_fill_normal(&c, 1, 1, 0);
    double o[2 * 4 * 4 * 64], lse[2 * 4 * 4];
    assert_int_equal(sparge_exact(c.context, &problem, &c.io.q, &c.io.k, &c.io.v, NULL, 4, o, lse), SPARGE_OK);
    for (size_t i = 0; i < sizeof o / sizeof o[0]; i++)
        assert_true(isfinite(o[i]));
    for (size_t i = 0; i < sizeof lse / sizeof lse[0]; i++)
        assert_true(isfinite(lse[i]) && lse[i] > 1000);
    case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_rows_match_the_oracle),
        cmocka_unit_test(sampled_rows_match_the_oracle),
        cmocka_unit_test(large_scores_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
