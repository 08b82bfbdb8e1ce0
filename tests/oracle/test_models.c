/* The oracle's models of quantised arithmetic, PV skipping and error bounds. */
#include "oracle/oracle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void int8_of_known_values(void **state)
{
    /* Scale (1 + 1e-7): 0.5 is just below the boundary that rounds away from zero, 2.5 and 126.5 likewise. */
    double x[] = {127.0, 0.5, -0.500001, 2.4, -126.6, 0.0, 4.0, -4.0}, out[8], doubt[8];
    static const double expected[] = {127.0, 0.0, -1.0, 2.0, -127.0, 0.0};

    (void)state;
    oracle_quantise_int8(x, 4, 2, (oracle_sharing){3, 1, 1}, NULL, out, doubt);
    for (size_t i = 0; i < 6; i++)
        assert_true(fabs(out[i] - expected[i] * (1.0 + 1e-7)) < 1e-9);
    assert_true(fabs(doubt[1] - 1.0) < 1e-6); /* float32 cannot tell on which side of 0.5 it lies */
    assert_true(doubt[0] == 0.0 && doubt[2] == 0.0 && doubt[3] == 0.0 && doubt[5] == 0.0);
    assert_true(fabs(out[6] - 4.0) < 2e-5 && out[7] == -out[6]); /* the next block has its own scale */
}

static void int8_scales_are_shared_as_said(void **state)
{
    /* Of blocks of 8 tokens, those with equal (token mod 4) / 2: 0, 1, 4, 5 and 2, 3, 6, 7; then a block of one. */
    double x[] = {1.0, 2.0, 10.0, 20.0, 3.0, 127.0, 30.0, 1270.0, 5.0}, out[9], doubt[9];

    (void)state;
    oracle_quantise_int8(x, 9, 1, (oracle_sharing){8, 4, 2}, NULL, out, doubt);
    for (size_t i = 0; i < 8; i++)
        assert_true(fabs(out[i] - x[i]) < 2e-6 * fabs(x[i]) + 1e-5);
    x[5] = 1.0; /* now the largest of its group is 3 */
    oracle_quantise_int8(x, 9, 1, (oracle_sharing){8, 4, 2}, NULL, out, doubt);
    assert_true(fabs(out[4] - 3.0) < 2e-5 && fabs(out[0] - 42.0 * 3.0 / 127.0) < 1e-4);
    assert_true(fabs(out[8] - 5.0) < 2e-5);
}

static void int8_error_is_half_a_step(void **state)
{
    enum { N = 64, D = 16 };
    double x[N * D], out[N * D], doubt[N * D], largest = 0.0;
    oracle_rng rng = oracle_rng_seed(9);

    (void)state;
    for (int i = 0; i < N * D; i++) {
        x[i] = oracle_rng_normal(&rng);
        largest = fmax(largest, fabs(x[i]));
    }
    oracle_quantise_int8(x, N, D, (oracle_sharing){N, 1, 1}, NULL, out, doubt);
    for (int i = 0; i < N * D; i++)
        assert_true(fabs(out[i] - x[i]) <= 0.5 * (largest / 127.0 + 1e-7) * (1.0 + 1e-12));
}

static void e4m3_per_channel(void **state)
{
    /* Channel 0: maximum 2 maps to 448, so 1 -> 224 exactly and 0.01 -> 2.24 -> 2.25. Channel 1 is zero. */
    double v[] = {2.0, 0.0, 1.0, 0.0, -0.01, 0.0}, out[6], doubt[6];

    (void)state;
    oracle_quantise_e4m3(v, 3, 2, 448.0, out, doubt);
    assert_true(out[0] == 2.0 && out[2] == 1.0 && fabs(out[4] + 2.25 / 224.0) < 1e-15);
    assert_true(out[1] == 0.0 && out[3] == 0.0 && out[5] == 0.0);
    for (size_t i = 0; i < 6; i++)
        assert_true(doubt[i] == 0.0);
}

static void smoothing(void **state)
{
    double k[] = {1.0, 10.0, 3.0, 10.0}, mean[2], smoothed[4], error[2];

    (void)state;
    oracle_smooth(k, 2, 2, mean, smoothed, error);
    assert_true(mean[0] == 2.0 && mean[1] == 10.0);
    assert_true(smoothed[0] == -1.0 && smoothed[2] == 1.0 && smoothed[1] == 0.0 && smoothed[3] == 0.0);
    assert_true(error[0] > 0.0 && error[1] > error[0] && error[1] < 1e-5);
}

/* One channel, q = 1: the scores are the keys. Tiles of two keys, maxima 5, 1, 7, 6.5 for row 0 and half of that for
 * row 1 (q = 0.5). */
static void skip_votes_by_hand(void **state)
{
    static const double q[] = {1.0, 0.5}, k[] = {5.0, 4.0, 1.0, 0.0, 7.0, 2.0, 6.5, 6.0};
    oracle_shape shape = {2, 8, 1, ORACLE_FULL, 1.0};
    uint8_t pv[16];
    oracle_skip skip = {2, 2, 1, -3.0, 1e-9};
    oracle_skip_result result = oracle_skip_pv(&shape, &skip, q, k, NULL, pv);
    static const uint8_t row_units[] = {1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

    /* Row 0, tile 1: 1 - 5 = -4 < -3 skips; row 1: -2 does not. Nothing else skips. */
    (void)state;
    assert_memory_equal(pv, row_units, sizeof pv);
    assert_true(result.skipped == 0.5 && result.ambiguous == 0);

    skip.unit = 2; /* one vote for both rows */
    result = oracle_skip_pv(&shape, &skip, q, k, NULL, pv);
    assert_true(result.skipped == 0.0);

    skip.lambda = -1.5;
    result = oracle_skip_pv(&shape, &skip, q, k, NULL, pv);
    assert_true(result.skipped == 1.0 && pv[2] == 0 && pv[3] == 0 && pv[10] == 0 && pv[11] == 0 && pv[6] == 1);

    skip.lambda = -2.0; /* strict, and exactly on the threshold */
    result = oracle_skip_pv(&shape, &skip, q, k, NULL, pv);
    assert_true(result.skipped == 0.0 && result.ambiguous == 1);

    skip.lambda = -INFINITY;
    result = oracle_skip_pv(&shape, &skip, q, k, NULL, pv);
    assert_true(result.skipped == 0.0 && result.ambiguous == 0);
}

/* Skipped tiles stay in the row sum or not. */
static void skip_denominators(void **state)
{
    static const double q = 1.0, k[] = {0.0, -2.0}, v[] = {1.0, 100.0};
    static const uint8_t all[] = {1, 1}, first[] = {1, 0};
    oracle_shape shape = {1, 2, 1, ORACLE_FULL, 1.0};
    oracle_arithmetic exact = {ORACLE_F16, 1.0, ORACLE_F16, 0.0, 0.0};
    double o, lse, bound, lse_bound, deviation;
    oracle_expectation out = {&o, &lse, &bound, &lse_bound, &deviation};

    (void)state;
    oracle_expect(&shape, &(oracle_inputs){&q, k, v, NULL, NULL, NULL, all, first}, &exact, &out);
    assert_true(fabs(o - 1.0 / (1.0 + exp(-2.0))) < 1e-14 && fabs(lse - log1p(exp(-2.0))) < 1e-14);
    oracle_expect(&shape, &(oracle_inputs){&q, k, v, NULL, NULL, NULL, first, NULL}, &exact, &out);
    assert_true(o == 1.0 && lse == 0.0);
}

/* Attention in float32 with a rounded P, written plainly: the bound must hold, and not by a wide margin. */
static void naive_float(const oracle_shape *s, const double *q, const double *k, const double *v,
                        const oracle_arithmetic *arithmetic, double *o, double *lse)
{
    float *p = oracle_alloc((size_t)s->lk, sizeof *p);

    for (int64_t i = 0; i < s->lq; i++) {
        float largest = -INFINITY, sum = 0.0F;

        for (int64_t j = 0; j < s->lk; j++) {
            float dot = 0.0F;

            for (int64_t d = 0; d < s->dim; d++)
                dot += (float)q[i * s->dim + d] * (float)k[j * s->dim + d];
            p[j] = dot * (float)s->scale;
            largest = p[j] > largest ? p[j] : largest;
        }
        for (int64_t j = 0; j < s->lk; j++) {
            p[j] = expf(p[j] - largest);
            sum += p[j];
            p[j] = (float)oracle_round(arithmetic->p_format, (double)p[j] * arithmetic->p_range);
        }
        for (int64_t d = 0; d < s->dim; d++) {
            float total = 0.0F;

            for (int64_t j = 0; j < s->lk; j++)
                total += p[j] * (float)v[j * s->dim + d];
            o[i * s->dim + d] = oracle_round(arithmetic->o_format, (double)(total / sum) / arithmetic->p_range);
        }
        lse[i] = (double)(largest + logf(sum));
    }
    free(p);
}

static void bounds_hold_and_bind(void **state)
{
    enum { LQ = 40, LK = 150, D = 32 };
    static const oracle_arithmetic arithmetics[] = {{ORACLE_F16, 1.0, ORACLE_F16, 0x1p-22, 0.0},
                                                    {ORACLE_BF16, 1.0, ORACLE_BF16, 0x1p-22, 0.0},
                                                    {ORACLE_E4M3, 448.0, ORACLE_F16, 0x1p-22, 0.0}};
    static double q[LQ * D], k[LK * D], v[LK * D], o[LQ * D], lse[LQ], seen_o[LQ * D], seen_lse[LQ], o_bound[LQ * D],
        lse_bound[LQ], deviation[LQ * D];
    oracle_expectation out = {o, lse, o_bound, lse_bound, deviation};
    oracle_shape shape = {LQ, LK, D, ORACLE_FULL, 0.4};
    oracle_rng rng = oracle_rng_seed(77);

    (void)state;
    for (int i = 0; i < LQ * D; i++)
        q[i] = oracle_round(ORACLE_BF16, oracle_rng_normal(&rng));
    for (int i = 0; i < LK * D; i++) {
        k[i] = oracle_round(ORACLE_BF16, oracle_rng_normal(&rng));
        v[i] = oracle_round(ORACLE_BF16, oracle_rng_normal(&rng));
    }
    for (size_t a = 0; a < sizeof arithmetics / sizeof *arithmetics; a++) {
        double squares = 0.0, expected = 0.0, closest = 0.0;

        oracle_expect(&shape, &(oracle_inputs){q, k, v, NULL, NULL, NULL, NULL, NULL}, &arithmetics[a], &out);
        naive_float(&shape, q, k, v, &arithmetics[a], seen_o, seen_lse);
        for (int i = 0; i < LQ * D; i++) {
            double error = fabs(seen_o[i] - o[i]);

            assert_true(error <= o_bound[i]);
            closest = fmax(closest, error / o_bound[i]);
            squares += error * error;
            expected += deviation[i] * deviation[i];
        }
        for (int i = 0; i < LQ; i++)
            assert_true(fabs(seen_lse[i] - lse[i]) <= lse_bound[i]);
        assert_true(closest > 0.25); /* somewhere the bound is nearly used up */
        assert_true(squares < expected && squares > expected / 9.0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(int8_of_known_values),
        cmocka_unit_test(int8_scales_are_shared_as_said),
        cmocka_unit_test(int8_error_is_half_a_step),
        cmocka_unit_test(e4m3_per_channel),
        cmocka_unit_test(smoothing),
        cmocka_unit_test(skip_votes_by_hand),
        cmocka_unit_test(skip_denominators),
        cmocka_unit_test(bounds_hold_and_bind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
