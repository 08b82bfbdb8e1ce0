/* The ratio of two medians with a BCa bootstrap interval (Efron 1987; two samples as Davison & Hinkley 1997, 5.3.2).
 *
 * A resample is never drawn: its median needs only the one or two middle order statistics of n uniform indices, and
 * these have a Beta distribution. The result is distributed exactly as if n indices had been drawn and sorted, at a
 * cost that does not depend on n. */
#include "stats.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum { RESAMPLES = 9999, NOMINAL_MIN = 6 };

/* A 64-bit counter, scrambled by two rounds of xor-shift and multiply (SplitMix64: Steele, Lea & Flood 2014). */
typedef struct generator {
    uint64_t counter;
} generator;

static uint64_t next_bits(generator *g)
{
    uint64_t z = g->counter += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Uniform in (0, 1): never an end, so that its logarithm is finite. */
static double next_uniform(generator *g)
{
    return ((double)(next_bits(g) >> 12) + 0.5) * 0x1p-52;
}

static double next_normal(generator *g)
{
    const double radius = sqrt(-2 * log(next_uniform(g)));
    return radius * cos(2 * acos(-1) * next_uniform(g));
}

/* Gamma with shape >= 1 and scale 1, by rejection (Marsaglia & Tsang 2000). */
static double next_gamma(generator *g, double shape)
{
    const double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = next_normal(g), root = 1 + c * x;
        if (root <= 0)
            continue;
        const double v = root * root * root;
        if (log(next_uniform(g)) < x * x / 2 + d - d * v + d * log(v))
            return d * v;
    }
}

/* The k-th smallest of n independent uniforms. */
static double next_order_statistic(generator *g, size_t k, size_t n)
{
    const double below = next_gamma(g, (double)k), above = next_gamma(g, (double)(n + 1 - k));
    return below / (below + above);
}

static double at_fraction(const double *x, size_t n, double fraction)
{
    const size_t i = (size_t)(fraction * (double)n);
    return x[i < n ? i : n - 1];
}

/* The median of n draws with replacement from sorted x. */
static double next_median(generator *g, const double *x, size_t n)
{
    if (n % 2 == 1)
        return at_fraction(x, n, next_order_statistic(g, n / 2 + 1, n));
    /* The upper of the two middle ones; below it lie n/2 independent uniforms, the lower one is their maximum. */
    const size_t half = n / 2;
    const double upper = next_order_statistic(g, half + 1, n);
    const double lower = upper * pow(next_uniform(g), 1 / (double)half);
    return (at_fraction(x, n, lower) + at_fraction(x, n, upper)) / 2;
}

/* The median of sorted x without x[left_out], n >= 2. */
static double median_without(const double *x, size_t n, size_t left_out)
{
    const size_t rest = n - 1, high = rest / 2, low = (rest - 1) / 2;
    const double a = x[low < left_out ? low : low + 1], b = x[high < left_out ? high : high + 1];
    return (a + b) / 2;
}

/* Adds one sample's jackknife influence values on the log of its median to the sums of squares and cubes. */
static void add_influence(const double *x, size_t n, double sign, double *squares, double *cubes)
{
    double mean = 0;
    for (size_t i = 0; i < n; i++)
        mean += log(median_without(x, n, i));
    mean /= (double)n;
    for (size_t i = 0; i < n; i++) {
        const double influence =
            sign * (double)(n - 1) * (mean - log(median_without(x, n, i))) / (double)n; /* l_i / n */
        *squares += influence * influence;
        *cubes += influence * influence * influence;
    }
}

static double normal_cdf(double z)
{
    return erfc(-z / sqrt(2)) / 2;
}

/* By bisection: a handful of calls per estimate, and no table of coefficients to trust. */
static double normal_quantile(double p)
{
    double low = -40, high = 40;
    for (int i = 0; i < 100; i++) {
        const double middle = (low + high) / 2;
        if (normal_cdf(middle) < p)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

an_estimate an_median_ratio_sorted(const double *x, size_t n, const double *y, size_t m, double level,
                                   unsigned long seed)
{
    an_estimate e = {NAN, NAN, NAN, NAN};
    if (n < 2 || m < 2 || !(x[0] > 0) || !(y[0] > 0))
        return e;
    double *ratio = malloc(RESAMPLES * sizeof *ratio);
    if (!ratio)
        return e;

    e.value = an_quantile_sorted(y, m, 0.5) / an_quantile_sorted(x, n, 0.5);
    generator g = {seed};
    double below = 0; /* resamples under the estimate; those equal to it count half */
    for (size_t r = 0; r < RESAMPLES; r++) {
        const double median_x = next_median(&g, x, n);
        ratio[r] = next_median(&g, y, m) / median_x;
        below += ratio[r] < e.value ? 1 : ratio[r] > e.value ? 0 : 0.5;
    }
    an_sort(ratio, RESAMPLES);

    double squares = 0, cubes = 0;
    add_influence(x, n, -1, &squares, &cubes);
    add_influence(y, m, 1, &squares, &cubes);
    const double acceleration = squares > 0 ? cubes / (6 * pow(squares, 1.5)) : 0;
    const double bias = normal_quantile(fmin(fmax(below, 0.5), RESAMPLES - 0.5) / RESAMPLES);

    double end[2];
    for (int side = 0; side < 2; side++) {
        const double z = bias + normal_quantile(side == 0 ? (1 - level) / 2 : (1 + level) / 2);
        const double shrink = 1 - acceleration * z;
        /* A shrink of 0 or less is beyond the largest quantile on that side. */
        const double q = shrink > 0 ? normal_cdf(bias + z / shrink) : (double)side;
        end[side] = an_quantile_sorted(ratio, RESAMPLES, q);
    }
    free(ratio);
    e.low = end[0];
    e.high = end[1];
    e.coverage = n < NOMINAL_MIN || m < NOMINAL_MIN ? NAN : level;
    return e;
}
