/* The oracle's attention, visibility rule and metrics against closed forms. */
#include "oracle/oracle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void assert_close(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance))
        fail_msg("%.17g is not %.17g", a, b);
}

/* Equal scores: O is the mean of V, LSE = score + ln n. */
static void uniform_attention(void **state)
{
    enum { LQ = 3, LK = 7, D = 4 };
    oracle_shape shape = {LQ, LK, D, ORACLE_FULL, 0.5};
    double q[LQ * D], k[LK * D], v[LK * D], o[LQ * D], lse[LQ];

    (void)state;
    for (int i = 0; i < LQ * D; i++)
        q[i] = i * 0.25;
    for (int i = 0; i < LK * D; i++) {
        k[i] = (i % D) + 1.0;
        v[i] = (double)(i / D) * (1.0 + i % D);
    }
    oracle_attention(&shape, q, k, v, NULL, o, lse);
    for (int i = 0; i < LQ; i++) {
        double score = 0.0;

        for (int d = 0; d < D; d++) {
            score += 0.5 * q[i * D + d] * (d + 1.0);
            assert_close(o[i * D + d], 3.0 * (1.0 + d), 1e-14);
        }
        assert_close(lse[i], score + log(7.0), 1e-13);
    }
}

/* One key far above the others: O is its value. */
static void one_hot(void **state)
{
    enum { N = 5, D = 2 };
    oracle_shape shape = {N, N, D, ORACLE_FULL, 1.0};
    double q[N * D], k[N * D], v[N * D], o[N * D], lse[N];

    (void)state;
    for (int i = 0; i < N; i++) {
        double angle = 6.283185307179586 * i / N;

        q[i * D] = 1e4 * cos(angle);
        q[i * D + 1] = 1e4 * sin(angle);
        k[i * D] = cos(angle);
        k[i * D + 1] = sin(angle);
        v[i * D] = i;
        v[i * D + 1] = -i;
    }
    oracle_attention(&shape, q, k, v, NULL, o, lse);
    for (int i = 0; i < N; i++) {
        assert_close(o[i * D], i, 1e-13);
        assert_close(o[i * D + 1], -i, 1e-13);
        assert_close(lse[i], 1e4, 1e-10);
    }
}

/* Two keys: the weight of the second is the logistic function of the difference. */
static void two_keys(void **state)
{
    oracle_shape shape = {1, 2, 1, ORACLE_FULL, 0.3};
    double q = 2.0, k[2] = {-1.0, 4.0}, v[2] = {10.0, 20.0}, o, lse;
    uint8_t keep[2] = {0, 1};

    (void)state;
    oracle_attention(&shape, &q, k, v, NULL, &o, &lse);
    assert_close(o, 10.0 + 10.0 / (1.0 + exp(-3.0)), 1e-13);
    assert_close(lse, 2.4 + log1p(exp(-3.0)), 1e-14);
    oracle_attention(&shape, &q, k, v, keep, &o, &lse);
    assert_close(o, 20.0, 0.0);
    assert_close(lse, 2.4, 1e-15);
    keep[1] = 0;
    oracle_attention(&shape, &q, k, v, keep, &o, &lse);
    assert_true(o == 0.0 && lse == -INFINITY);
}

/* Drawn by hand from the table in problem.h. */
static void causal_alignments(void **state)
{
    static const char *const top_left_35[] = {"x....", "xx...", "xxx.."};
    static const char *const bottom_right_35[] = {"xxx..", "xxxx.", "xxxxx"};
    static const char *const top_left_53[] = {"x..", "xx.", "xxx", "xxx", "xxx"};
    static const char *const bottom_right_53[] = {"...", "...", "x..", "xx.", "xxx"};
    static const struct {
        int64_t lq, lk, pairs;
        oracle_causal causal;
        const char *const *picture;
    } cases[] = {{3, 5, 6, ORACLE_TOP_LEFT, top_left_35},
                 {3, 5, 12, ORACLE_BOTTOM_RIGHT, bottom_right_35},
                 {5, 3, 12, ORACLE_TOP_LEFT, top_left_53},
                 {5, 3, 6, ORACLE_BOTTOM_RIGHT, bottom_right_53}};

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        oracle_shape shape = {cases[c].lq, cases[c].lk, 1, cases[c].causal, 1.0};

        for (int64_t i = 0; i < shape.lq; i++)
            for (int64_t j = 0; j < shape.lk; j++)
                assert_int_equal(oracle_visible(&shape, i, j), cases[c].picture[i][j] == 'x');
        assert_int_equal(oracle_visible_pairs(&shape), cases[c].pairs);
    }
    assert_true(oracle_block_visible(&(oracle_shape){5, 3, 1, ORACLE_BOTTOM_RIGHT, 1.0}, 2, 2, 1, 0));
    assert_false(oracle_block_visible(&(oracle_shape){5, 3, 1, ORACLE_BOTTOM_RIGHT, 1.0}, 2, 2, 0, 0));
    assert_false(oracle_block_visible(&(oracle_shape){5, 3, 1, ORACLE_BOTTOM_RIGHT, 1.0}, 2, 2, 1, 1));
}

static void causal_equals_a_mask(void **state)
{
    enum { LQ = 9, LK = 6, D = 3 };
    double q[LQ * D], k[LK * D], v[LK * D], o[LQ * D], lse[LQ], o_mask[LQ * D], lse_mask[LQ];
    oracle_rng rng = oracle_rng_seed(5);

    (void)state;
    for (int i = 0; i < LQ * D; i++)
        q[i] = oracle_rng_normal(&rng);
    for (int i = 0; i < LK * D; i++) {
        k[i] = oracle_rng_normal(&rng);
        v[i] = oracle_rng_normal(&rng);
    }
    for (int causal = ORACLE_TOP_LEFT; causal <= ORACLE_BOTTOM_RIGHT; causal++) {
        oracle_shape shape = {LQ, LK, D, (oracle_causal)causal, 0.7}, full = {LQ, LK, D, ORACLE_FULL, 0.7};
        uint8_t keep[LQ * LK];

        for (int i = 0; i < LQ * LK; i++)
            keep[i] = (uint8_t)oracle_visible(&shape, i / LK, i % LK);
        oracle_attention(&shape, q, k, v, NULL, o, lse);
        oracle_attention(&full, q, k, v, keep, o_mask, lse_mask);
        assert_memory_equal(o, o_mask, sizeof o);
        assert_memory_equal(lse, lse_mask, sizeof lse);
        if (causal == ORACLE_BOTTOM_RIGHT)
            assert_true(o[0] == 0.0 && lse[0] == -INFINITY && lse[2] == -INFINITY && isfinite(lse[3]));
    }
}

static void gqa_heads(void **state)
{
    static const int64_t expected[] = {0, 0, 0, 1, 1, 1};

    (void)state;
    for (int64_t h = 0; h < 6; h++) {
        assert_int_equal(oracle_kv_head(h, 6, 2), expected[h]);
        assert_int_equal(oracle_kv_head(h, 6, 6), h);
        assert_int_equal(oracle_kv_head(h, 6, 1), 0);
    }
}

static void metrics(void **state)
{
    double a[] = {3.0, -1.0, NAN, INFINITY}, b[] = {4.0, -3.0, 1.0, 1.0};
    oracle_error e = oracle_compare(a, b, 4);

    (void)state;
    assert_close(e.rel_l1, 3.0 / 7.0, 1e-15);
    assert_close(e.rel_l2, sqrt(5.0) / 5.0, 1e-15);
    assert_close(e.cosine, 15.0 / (5.0 * sqrt(10.0)), 1e-15);
    assert_close(e.rmse, sqrt(2.5), 1e-15);
    assert_close(e.max_abs, 2.0, 0.0);
    assert_int_equal(e.non_finite, 2);
    e = oracle_compare(b, b, 4);
    assert_true(e.rel_l1 == 0.0 && e.rel_l2 == 0.0 && e.cosine == 1.0 && e.rmse == 0.0 && e.non_finite == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_attention),
        cmocka_unit_test(one_hot),
        cmocka_unit_test(two_keys),
        cmocka_unit_test(causal_alignments),
        cmocka_unit_test(causal_equals_a_mask),
        cmocka_unit_test(gqa_heads),
        cmocka_unit_test(metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
