/* Statistics against enumeration, published tables and properties. */
#include "check.h"
#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 1;

static double uniform(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(state >> 11) + 0.5) * 0x1p-53;
}

static double normal(void)
{
    const double radius = sqrt(-2 * log(uniform()));
    return radius * cos(6.283185307179586 * uniform());
}

static void assert_near(double value, double expected, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance))
        fail_msg("%.17g is not within %g of %.17g", value, tolerance, expected);
}

static void quantiles_are_type_7(void **unused)
{
    (void)unused;
    double x[10];
    for (int i = 0; i < 10; i++)
        x[i] = 10 - i;
    an_sort(x, 10);
    assert_near(an_quantile_sorted(x, 10, 0.25), 3.25, 1e-12); /* R: quantile(1:10, .25) */
    assert_near(an_quantile_sorted(x, 10, 0.9), 9.1, 1e-12);
    assert_near(an_quantile_sorted(x, 10, 0.5), 5.5, 1e-12);
    assert_near(an_quantile_sorted(x, 10, 0), 1, 0);
    assert_near(an_quantile_sorted(x, 10, 1), 10, 0);
    assert_near(an_quantile_sorted(x, 1, 0.3), 1, 0);
    assert_true(isnan(an_quantile_sorted(x, 0, 0.5)));
}

/* P(X <= k), X ~ Binomial(n, 1/2), n <= 62, in integers: Pascal's triangle. */
static double half_binomial_cdf(int n, int k)
{
    uint64_t row[64] = {1};
    for (int i = 1; i <= n; i++)
        for (int j = i; j > 0; j--)
            row[j] += row[j - 1];
    uint64_t sum = 0;
    for (int i = 0; i <= k; i++)
        sum += row[i];
    return (double)sum / (double)(UINT64_C(1) << n);
}

static void median_intervals_are_exact(void **unused)
{
    (void)unused;
    static const double levels[] = {0.8, 0.9, 0.95, 0.99};
    double x[62];
    for (int i = 0; i < 62; i++)
        x[i] = i + 1;
    for (size_t l = 0; l < 4; l++) {
        for (int n = 2; n <= 62; n++) {
            int rank = 1; /* the largest whose interval still covers enough */
            while (rank + 1 <= n / 2 && 1 - 2 * half_binomial_cdf(n, rank) >= levels[l])
                rank++;
            const an_estimate e = an_median_sorted(x, (size_t)n, levels[l]);
            assert_near(e.low, rank, 0);
            assert_near(e.high, n + 1 - rank, 0);
            assert_near(e.value, (n + 1) / 2.0, 1e-12);
            assert_near(e.coverage, 1 - 2 * half_binomial_cdf(n, rank - 1), 1e-12);
        }
    }
}

/* Ranks of the 95 % interval as printed in textbooks of nonparametric statistics. */
static void median_intervals_match_the_tables(void **unused)
{
    (void)unused;
    static const struct {
        size_t n;
        double low;
    } table[] = {{6, 1},  {8, 1},  {9, 2},  {11, 2},  {12, 3},  {15, 4},
                 {17, 5}, {20, 6}, {25, 8}, {30, 10}, {50, 18}, {100, 40}};
    double *x = malloc(1000000 * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < 1000000; i++)
        x[i] = (double)(i + 1);
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) {
        const an_estimate e = an_median_sorted(x, table[t].n, 0.95);
        assert_near(e.low, table[t].low, 0);
        assert_true(e.coverage >= 0.95);
    }
    /* Large n: the normal approximation of the rank, n/2 - 1.96 sqrt(n)/2. */
    const an_estimate e = an_median_sorted(x, 1000000, 0.95);
    assert_near(e.low, 500000 - 979.98, 2);
    assert_near(e.high, 500001 + 979.98, 2);
    assert_true(e.coverage >= 0.95 && e.coverage < 0.951);
    free(x);
}

static void small_medians_say_what_they_cover(void **unused)
{
    (void)unused;
    const double x[] = {1, 2, 3, 4, 5};
    an_estimate e = an_median_sorted(x, 5, 0.95);
    assert_near(e.low, 1, 0);
    assert_near(e.high, 5, 0);
    assert_near(e.coverage, 0.9375, 1e-12);
    e = an_median_sorted(x, 1, 0.95);
    assert_near(e.value, 1, 0);
    assert_true(isnan(e.low) && isnan(e.high) && isnan(e.coverage));
    e = an_median_sorted(x, 0, 0.95);
    assert_true(isnan(e.value) && isnan(e.low));
}

/* Twice (U - mean U) of the chosen members against the others, by comparing all pairs. */
static int deviation_2(const double *pooled, size_t total, unsigned chosen)
{
    int twice_u = 0, pairs = 0;
    for (size_t i = 0; i < total; i++) {
        for (size_t j = 0; j < total; j++) {
            if ((chosen >> i & 1) == 0 || (chosen >> j & 1) == 1)
                continue;
            twice_u += pooled[i] > pooled[j] ? 2 : pooled[i] == pooled[j] ? 1 : 0;
            pairs++;
        }
    }
    return abs(twice_u - pairs);
}

/* The share of all ways to choose n of the pooled values that deviate at least as much. */
static double enumerated_p(const double *x, size_t n, const double *y, size_t m)
{
    double pooled[16];
    memcpy(pooled, x, n * sizeof *x);
    memcpy(pooled + n, y, m * sizeof *y);
    const int observed = deviation_2(pooled, n + m, (1u << n) - 1);
    size_t all = 0, extreme = 0;
    for (unsigned chosen = 0; chosen < 1u << (n + m); chosen++) {
        size_t members = 0;
        for (size_t i = 0; i < n + m; i++)
            members += chosen >> i & 1;
        if (members != n)
            continue;
        all++;
        extreme += deviation_2(pooled, n + m, chosen) >= observed;
    }
    return (double)extreme / (double)all;
}

static void mann_whitney_equals_enumeration(void **unused)
{
    (void)unused;
    for (int round = 0; round < 300; round++) {
        /* Few different values give many ties; every tenth round has none, every 40th the largest size. */
        const size_t most = round % 40 == 0 ? 8 : 5;
        const size_t n = round % 40 == 0 ? 8 : 1 + (size_t)(uniform() * (double)most);
        const size_t m = round % 40 == 0 ? 8 : 1 + (size_t)(uniform() * (double)most);
        const double values = round % 10 == 0 ? 1e9 : 2 + 6 * uniform();
        double x[8], y[8];
        for (size_t i = 0; i < n; i++)
            x[i] = floor(values * uniform());
        for (size_t i = 0; i < m; i++)
            y[i] = floor(values * uniform());
        an_sort(x, n);
        an_sort(y, m);
        assert_near(an_mann_whitney_sorted(x, n, y, m), enumerated_p(x, n, y, m), 1e-12);
    }
}

/* Sorted samples of sizes n and m without ties in which exactly u pairs have x > y. */
static void samples_with_u(double *x, size_t n, double *y, size_t m, size_t u)
{
    for (size_t j = 0; j < m; j++)
        y[j] = (double)j;
    for (size_t i = n; i-- > 0;) {
        const size_t above = u < m ? u : m;
        x[i] = (double)above - 0.9 + 0.01 * (double)i;
        u -= above;
    }
}

/* Critical values of U, two-sided at 5 % (Mann & Whitney's table as extended and reprinted in textbooks). */
static void mann_whitney_matches_the_table(void **unused)
{
    (void)unused;
    static const struct {
        size_t n, m, critical;
    } table[] = {
        {4, 4, 0},  {5, 5, 2},   {5, 8, 6},  {6, 6, 5},   {6, 10, 11},  {7, 7, 8},    {7, 9, 12},
        {8, 8, 13}, {8, 10, 17}, {9, 9, 17}, {9, 10, 20}, {10, 10, 23}, {15, 15, 64}, {20, 20, 127},
    };
    double x[20], y[20];
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) {
        samples_with_u(x, table[t].n, y, table[t].m, table[t].critical);
        assert_true(an_mann_whitney_sorted(x, table[t].n, y, table[t].m) <= 0.05);
        samples_with_u(x, table[t].n, y, table[t].m, table[t].critical + 1);
        assert_true(an_mann_whitney_sorted(x, table[t].n, y, table[t].m) > 0.05);
    }
}

static void mann_whitney_smallest_p(void **unused)
{
    (void)unused;
    assert_near(an_mann_whitney_smallest(5, 5), 2.0 / 252, 1e-12);
    assert_near(an_mann_whitney_smallest(3, 3), 0.1, 1e-12);
    assert_near(an_mann_whitney_smallest(1, 1), 1, 1e-12);
    assert_near(an_mann_whitney_smallest(0, 4), 1, 0);
    double x[10], y[10];
    samples_with_u(x, 10, y, 10, 0);
    assert_near(an_mann_whitney_sorted(x, 10, y, 10), an_mann_whitney_smallest(10, 10), 1e-15);
}

/* A permutation test with random shuffles as the reference of the normal approximation. */
static double shuffled_p(const double *x, size_t n, const double *y, size_t m, int rounds)
{
    double pooled[128];
    memcpy(pooled, x, n * sizeof *x);
    memcpy(pooled + n, y, m * sizeof *y);
    double observed = 0;
    int extreme = 0;
    for (int r = -1; r < rounds; r++) {
        double u = 0;
        for (size_t i = 0; i < n; i++)
            for (size_t j = n; j < n + m; j++)
                u += pooled[i] > pooled[j] ? 1 : pooled[i] == pooled[j] ? 0.5 : 0;
        const double deviation = fabs(u - (double)(n * m) / 2);
        if (r < 0)
            observed = deviation;
        else
            extreme += deviation >= observed - 1e-9;
        for (size_t i = n + m; i-- > 1;) {
            const size_t other = (size_t)(uniform() * (double)(i + 1));
            const double moved = pooled[i];
            pooled[i] = pooled[other];
            pooled[other] = moved;
        }
    }
    return (double)extreme / rounds;
}

static void mann_whitney_of_large_samples(void **unused)
{
    (void)unused;
    for (int round = 0; round < 12; round++) {
        const size_t n = 25 + (size_t)round * 3, m = 30;
        const int rounds = 4000;
        double x[64], y[64];
        for (size_t i = 0; i < n; i++)
            x[i] = floor(normal() * 4); /* ties */
        for (size_t i = 0; i < m; i++)
            y[i] = floor(normal() * 4 + round * 0.3);
        an_sort(x, n);
        an_sort(y, m);
        const double p = an_mann_whitney_sorted(x, n, y, m), reference = shuffled_p(x, n, y, m, rounds);
        assert_near(p, reference, 0.01 + 4 * sqrt(p * (1 - p) / rounds));
        assert_near(an_mann_whitney_sorted(y, m, x, n), p, 1e-12);
    }
    double same[50];
    for (size_t i = 0; i < 50; i++)
        same[i] = 7;
    assert_near(an_mann_whitney_sorted(same, 50, same, 50), 1, 0);
    assert_near(an_mann_whitney_sorted(same, 5, same, 5), 1, 0);
    assert_near(an_mann_whitney_sorted(same, 0, same, 5), 1, 0);
}

static void benjamini_hochberg_by_hand(void **unused)
{
    (void)unused;
    double p[] = {0.01, 0.04, NAN, 0.03, 0.005};
    const double expected[] = {0.02, 0.04, NAN, 0.04, 0.02};
    assert_int_equal(an_benjamini_hochberg(p, 5, p), 0); /* in place */
    for (size_t i = 0; i < 5; i++) {
        if (isnan(expected[i]))
            assert_true(isnan(p[i]));
        else
            assert_near(p[i], expected[i], 1e-15);
    }
    assert_int_equal(an_benjamini_hochberg(p, 0, p), 0);
}

/* adjusted <= q exactly for the p that the step-up procedure rejects at q. */
static void benjamini_hochberg_steps_up(void **unused)
{
    (void)unused;
    for (int round = 0; round < 200; round++) {
        double p[40], adjusted[40], sorted[40];
        const size_t m = 1 + (size_t)(uniform() * 40);
        for (size_t i = 0; i < m; i++)
            sorted[i] = p[i] = pow(uniform(), 3);
        an_sort(sorted, m);
        assert_int_equal(an_benjamini_hochberg(p, m, adjusted), 0);
        const double q = 0.02 + 0.2 * uniform();
        double limit = -1; /* the largest rejected p */
        for (size_t i = 0; i < m; i++)
            if (sorted[i] <= q * (double)(i + 1) / (double)m)
                limit = sorted[i];
        for (size_t i = 0; i < m; i++) {
            assert_true(adjusted[i] >= p[i] && adjusted[i] <= 1);
            assert_int_equal(adjusted[i] <= q, p[i] <= limit);
            for (size_t j = 0; j < m; j++)
                assert_true(p[i] > p[j] || adjusted[i] <= adjusted[j]);
        }
    }
}

/* Resampling for real, as the textbook says. */
static void resampled_quantiles(const double *x, size_t n, const double *y, size_t m, double *low, double *high)
{
    enum { ROUNDS = 20000 };
    double *ratio = malloc(ROUNDS * sizeof *ratio);
    assert_non_null(ratio);
    for (size_t r = 0; r < ROUNDS; r++) {
        double a[32], b[32];
        for (size_t i = 0; i < n; i++)
            a[i] = x[(size_t)(uniform() * (double)n)];
        for (size_t i = 0; i < m; i++)
            b[i] = y[(size_t)(uniform() * (double)m)];
        an_sort(a, n);
        an_sort(b, m);
        ratio[r] = an_quantile_sorted(b, m, 0.5) / an_quantile_sorted(a, n, 0.5);
    }
    an_sort(ratio, ROUNDS);
    *low = an_quantile_sorted(ratio, ROUNDS, 0.025);
    *high = an_quantile_sorted(ratio, ROUNDS, 0.975);
    free(ratio);
}

/* For samples that are symmetric on the log scale the corrections are small: BCa must be near the plain percentile
 * interval of real resampling, for odd and even sizes. */
static void bootstrap_agrees_with_resampling(void **unused)
{
    (void)unused;
    static const size_t sizes[][2] = {{15, 15}, {16, 16}, {21, 30}, {30, 11}};
    for (size_t s = 0; s < 4; s++) {
        const size_t n = sizes[s][0], m = sizes[s][1];
        double x[32], y[32], low, high;
        for (size_t i = 0; i < n; i++)
            x[i] = exp(0.2 * ((double)i - (double)(n - 1) / 2) / (double)n);
        for (size_t i = 0; i < m; i++)
            y[i] = 1.5 * exp(0.3 * ((double)i - (double)(m - 1) / 2) / (double)m);
        resampled_quantiles(x, n, y, m, &low, &high);
        const an_estimate e = an_median_ratio_sorted(x, n, y, m, 0.95, 1);
        assert_near(e.value, 1.5, 1e-3); /* of even sizes the mean of the middle two is not quite on the curve */
        assert_near(log(e.low), log(low), 0.1 * (log(high) - log(low)));
        assert_near(log(e.high), log(high), 0.1 * (log(high) - log(low)));
        assert_near(e.coverage, 0.95, 0);
    }
}

static void bootstrap_covers_the_truth(void **unused)
{
    (void)unused;
    enum { ROUNDS = 400 };
    const double truth = 1.1;
    int covered = 0, above = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double x[20], y[25];
        for (size_t i = 0; i < 20; i++)
            x[i] = exp(0.05 * normal());
        for (size_t i = 0; i < 25; i++)
            y[i] = truth * exp(0.05 * normal());
        an_sort(x, 20);
        an_sort(y, 25);
        const an_estimate e = an_median_ratio_sorted(x, 20, y, 25, 0.95, (unsigned long)round);
        assert_true(e.low <= e.value && e.value <= e.high);
        covered += e.low <= truth && truth <= e.high;
        above += e.low > truth;
    }
    assert_in_range(covered, 0.92 * ROUNDS, 0.99 * ROUNDS);
    assert_in_range(above, 1, 0.05 * ROUNDS);
}

static void bootstrap_properties(void **unused)
{
    (void)unused;
    double x[9], y[12], scaled[12];
    for (size_t i = 0; i < 9; i++)
        x[i] = 1 + uniform();
    for (size_t i = 0; i < 12; i++)
        y[i] = 2 + uniform();
    an_sort(x, 9);
    an_sort(y, 12);
    for (size_t i = 0; i < 12; i++)
        scaled[i] = 4 * y[i]; /* a power of two: exact */
    const an_estimate e = an_median_ratio_sorted(x, 9, y, 12, 0.95, 7);
    const an_estimate again = an_median_ratio_sorted(x, 9, y, 12, 0.95, 7);
    const an_estimate four = an_median_ratio_sorted(x, 9, scaled, 12, 0.95, 7);
    const an_estimate wider = an_median_ratio_sorted(x, 9, y, 12, 0.99, 7);
    assert_memory_equal(&e, &again, sizeof e); /* seeded */
    assert_near(four.low, 4 * e.low, 1e-12);
    assert_near(four.high, 4 * e.high, 1e-12);
    assert_true(wider.low <= e.low && wider.high >= e.high && wider.high > wider.low);

    const double constant[] = {3, 3, 3, 3, 3, 3};
    const an_estimate one = an_median_ratio_sorted(constant, 6, constant, 6, 0.95, 1);
    assert_near(one.low, 1, 0);
    assert_near(one.high, 1, 0);
    assert_true(isnan(an_median_ratio_sorted(constant, 5, constant, 6, 0.95, 1).coverage));
    assert_true(isnan(an_median_ratio_sorted(constant, 1, constant, 6, 0.95, 1).value));
    const double zero[] = {0, 1, 2};
    assert_true(isnan(an_median_ratio_sorted(zero, 3, constant, 6, 0.95, 1).value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_type_7),
        cmocka_unit_test(median_intervals_are_exact),
        cmocka_unit_test(median_intervals_match_the_tables),
        cmocka_unit_test(small_medians_say_what_they_cover),
        cmocka_unit_test(mann_whitney_equals_enumeration),
        cmocka_unit_test(mann_whitney_matches_the_table),
        cmocka_unit_test(mann_whitney_smallest_p),
        cmocka_unit_test(mann_whitney_of_large_samples),
        cmocka_unit_test(benjamini_hochberg_by_hand),
        cmocka_unit_test(benjamini_hochberg_steps_up),
        cmocka_unit_test(bootstrap_agrees_with_resampling),
        cmocka_unit_test(bootstrap_covers_the_truth),
        cmocka_unit_test(bootstrap_properties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
