/* Error metrics against sums in long double, and the properties of row samples. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "measure/errors.h"

static double uniform(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*seed >> 11) / 9007199254740992.0 - 0.5;
}

static void assert_close(double value, long double expected)
{
    if (!(fabsl((long double)value - expected) <= 1e-12L * (1.0L + fabsl(expected))))
        fail_msg("%.17g is not %.17g", value, (double)expected);
}

static void metrics_equal_their_definitions(void **state)
{
    (void)state;
    enum { N = 1000 };
    static double exact[N];
    static float measured[N];
    uint64_t seed = 3;
    for (int round = 0; round < 20; round++) {
        long double l1 = 0, d1 = 0, l2 = 0, d2 = 0, m2 = 0, product = 0, largest = 0;
        for (int i = 0; i < N; i++) {
            exact[i] = uniform(&seed);
            measured[i] = (float)(exact[i] + 0.1 * uniform(&seed));
            long double o = exact[i], m = (long double)measured[i], d = fabsl(o - m);
            l1 += fabsl(o);
            d1 += d;
            l2 += o * o;
            d2 += d * d;
            m2 += m * m;
            product += o * m;
            largest = fmaxl(largest, d);
        }
        sb_error_sums sums = {0};
        sb_errors_add(&sums, exact, measured, N / 3); /* in two parts, as heads are */
        sb_errors_add(&sums, exact + N / 3, measured + N / 3, N - N / 3);
        sb_errors errors = sb_errors_of(&sums);
        assert_close(errors.rel_l1, d1 / l1);
        assert_close(errors.rel_l2, sqrtl(d2 / l2));
        assert_close(errors.rmse, sqrtl(d2 / N));
        assert_close(errors.cosine, product / sqrtl(l2 * m2));
        assert_close(errors.max_abs, largest);
        assert_int_equal(errors.nonfinite, 0);
    }
}

static void values_that_are_not_finite_are_counted_and_left_out(void **state)
{
    (void)state;
    const double exact[] = {1.0, 2.0, 3.0, 4.0};
    const float measured[] = {1.0F, NAN, INFINITY, 4.5F};
    sb_error_sums sums = {0};
    sb_errors_add(&sums, exact, measured, 4);
    sb_errors errors = sb_errors_of(&sums);
    assert_int_equal(errors.nonfinite, 2);
    assert_close(errors.rel_l1, 0.5L / 5.0L);
    assert_close(errors.max_abs, 0.5L);
    const float nothing[] = {NAN, NAN, -INFINITY, NAN};
    memset(&sums, 0, sizeof sums);
    sb_errors_add(&sums, exact, nothing, 4);
    errors = sb_errors_of(&sums);
    assert_int_equal(errors.nonfinite, 4);
    assert_true(isnan(errors.rel_l1) && isnan(errors.rmse) && isnan(errors.cosine) && isnan(errors.max_abs));
}

/* Exact attention that is not finite has no error to tell, least of all none. */
static void nothing_is_close_to_what_is_not_finite(void **state)
{
    (void)state;
    const double bad[] = {NAN, INFINITY, -INFINITY};
    const float measured[] = {1.0F, 2.0F, 3.0F};
    for (size_t b = 0; b < sizeof bad / sizeof *bad; b++)
        for (size_t at = 0; at < 3; at++) {
            double exact[] = {1.0, 2.0, 3.0};
            exact[at] = bad[b];
            sb_error_sums sums = {0};
            sb_errors_add(&sums, exact, measured, 3);
            sb_errors errors = sb_errors_of(&sums);
            assert_false(errors.rel_l1 <= 1e30);
            assert_false(errors.rel_l2 <= 1e30);
            assert_false(errors.rmse <= 1e30);
            assert_false(errors.max_abs <= 1e30);
            assert_false(errors.cosine > 0.0);
        }
}

static void zero_outputs_have_no_relative_error(void **state)
{
    (void)state;
    const double zero[] = {0.0, 0.0};
    const float same[] = {0.0F, 0.0F}, other[] = {0.0F, 1.0F};
    sb_error_sums sums = {0};
    sb_errors_add(&sums, zero, same, 2);
    sb_errors errors = sb_errors_of(&sums);
    assert_true(errors.rel_l1 == 0.0 && errors.rel_l2 == 0.0 && isnan(errors.cosine));
    sb_errors_add(&sums, zero, other, 2);
    errors = sb_errors_of(&sums);
    assert_true(isnan(errors.rel_l1) && isnan(errors.rel_l2) && errors.max_abs == 1.0);
}

static int holds(const int64_t *rows, int64_t count, int64_t row)
{
    for (int64_t i = 0; i < count; i++)
        if (rows[i] == row)
            return 1;
    return 0;
}

static void samples_are_ascending_spread_and_hold_the_edges(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 2, 63, 64, 65, 127, 128, 129, 200, 1000, 1025, 4096, 44520, 1000003};
    static const int64_t wanted[] = {1, 2, 9, 10, 11, 64, 256, 999};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (size_t w = 0; w < sizeof wanted / sizeof *wanted; w++) {
            int64_t length = lengths[l], *rows, count;
            assert_int_equal(sb_error_rows(length, wanted[w], 5, &rows, &count), 0);
            assert_int_equal(count, wanted[w] < length ? wanted[w] : length);
            for (int64_t i = 0; i < count; i++) {
                assert_true(rows[i] >= 0 && rows[i] < length);
                assert_true(i == 0 || rows[i] > rows[i - 1]);
            }
            assert_true(holds(rows, count, 0));
            assert_true(count < 2 || holds(rows, count, length - 1));
            if (count >= 10 && length > 128) {
                int64_t last64 = (length - 1) / 64 * 64, last128 = (length - 1) / 128 * 128;
                const int64_t edges[] = {63, 64, 127, 128, last64, last64 - 1, last128, last128 - 1};
                for (size_t e = 0; e < sizeof edges / sizeof *edges; e++)
                    assert_true(holds(rows, count, edges[e]));
            }
            /* No stretch of the sequence is left out: a gap is at most two strata and the edges between. */
            for (int64_t i = 1; count > 10 && i < count; i++)
                assert_true(rows[i] - rows[i - 1] <= 2 * (length / (count - 10) + 1) + 10);
            free(rows);
        }
}

static void samples_follow_the_seed(void **state)
{
    (void)state;
    int64_t *a, *b, *c, n;
    assert_int_equal(sb_error_rows(100000, 256, 1, &a, &n), 0);
    assert_int_equal(sb_error_rows(100000, 256, 1, &b, &n), 0);
    assert_int_equal(sb_error_rows(100000, 256, 2, &c, &n), 0);
    assert_memory_equal(a, b, 256 * sizeof *a);
    assert_memory_not_equal(a, c, 256 * sizeof *a);
    free(a);
    free(b);
    free(c);
    assert_int_equal(sb_error_rows(1000, -1, 1, &a, &n), 0);
    assert_int_equal(n, 1000);
    assert_int_equal(a[999], 999);
    free(a);
    assert_int_equal(sb_error_rows(1000, 0, 1, &a, &n), 0);
    assert_int_equal(n, 0);
    free(a);
}

/* Over many seeds every row outside the edges is drawn about equally often. */
static void samples_are_uniform(void **state)
{
    (void)state;
    enum { LENGTH = 500, ROWS = 60, SEEDS = 4000 };
    static int drawn[LENGTH];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        int64_t *rows, count;
        assert_int_equal(sb_error_rows(LENGTH, ROWS, seed * 7919, &rows, &count), 0);
        for (int64_t i = 0; i < count; i++)
            drawn[rows[i]]++;
        free(rows);
    }
    double expected = (double)SEEDS * (ROWS - 8) / (LENGTH - 8); /* 8 edges: the last 64- and 128-row blocks differ */
    int edges = 0;
    for (int i = 0; i < LENGTH; i++) {
        if (drawn[i] == SEEDS) {
            edges++;
            continue;
        }
        assert_true(fabs(drawn[i] - expected) < 0.3 * expected);
    }
    assert_in_range(edges, 8, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_equal_their_definitions),
        cmocka_unit_test(values_that_are_not_finite_are_counted_and_left_out),
        cmocka_unit_test(nothing_is_close_to_what_is_not_finite),
        cmocka_unit_test(zero_outputs_have_no_relative_error),
        cmocka_unit_test(samples_are_ascending_spread_and_hold_the_edges),
        cmocka_unit_test(samples_follow_the_seed),
        cmocka_unit_test(samples_are_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
