/* Order statistics and multiple testing: quantiles, the median with its exact interval, Benjamini-Hochberg.
 * Mann-Whitney is in mann_whitney.c, the bootstrap in bootstrap.c. */
#include "stats.h"

#include <math.h>
#include <stdlib.h>

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void an_sort(double *x, size_t n)
{
    if (n > 1)
        qsort(x, n, sizeof *x, compare_doubles);
}

double an_quantile_sorted(const double *x, size_t n, double q)
{
    if (n == 0)
        return NAN;
    const double position = q * (double)(n - 1);
    const double whole = floor(position);
    if (whole >= (double)(n - 1))
        return x[n - 1];
    const size_t i = (size_t)whole;
    return x[i] + (position - whole) * (x[i + 1] - x[i]);
}

/* P(X = k) for X ~ Binomial(n, 1/2), by logarithms so that 2^-n does not underflow. */
static double half_binomial(double n, double k)
{
    return exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * log(2));
}

an_estimate an_median_sorted(const double *x, size_t n, double level)
{
    an_estimate e = {NAN, NAN, NAN, NAN};
    e.value = an_quantile_sorted(x, n, 0.5);
    if (n < 2)
        return e;

    /* [x_(k), x_(n+1-k)] misses the median if fewer than k samples lie on one side of it:
     * coverage = 1 - 2 P(X <= k - 1). Find the largest k whose two tails still fit. Terms more than 10 standard
     * deviations (sqrt(n)/2 each) from the mean are below 1e-22 and are left out. */
    const double size = (double)n;
    const double first = fmax(0, floor(size / 2 - 5 * sqrt(size)));
    double term = half_binomial(size, first), tail = 0;
    double k = 0, miss = 0;
    for (double i = first; i < floor(size / 2); i += 1) {
        tail += term;
        if (2 * tail > 1 - level)
            break;
        k = i + 1;
        miss = 2 * tail;
        term *= (size - i) / (i + 1);
    }
    if (k < 1) { /* not even the extremes reach the level */
        k = 1;
        miss = 2 * half_binomial(size, 0);
    }
    const size_t rank = (size_t)k;
    e.low = x[rank - 1];
    e.high = x[n - rank];
    e.coverage = 1 - miss;
    return e;
}

typedef struct ranked_p {
    double p;
    size_t index;
} ranked_p;

static int compare_ranked(const void *a, const void *b)
{
    const ranked_p *x = a, *y = b;
    return (x->p > y->p) - (x->p < y->p);
}

int an_benjamini_hochberg(const double *p, size_t m, double *adjusted)
{
    if (m == 0)
        return 0;
    ranked_p *rank = calloc(m, sizeof *rank);
    if (!rank)
        return -1;
    size_t family = 0;
    for (size_t i = 0; i < m; i++) {
        if (isnan(p[i]))
            adjusted[i] = NAN;
        else
            rank[family++] = (ranked_p){p[i], i};
    }
    if (family > 1)
        qsort(rank, family, sizeof *rank, compare_ranked);

    /* From the largest p down: p_(i) m / i, never above what a larger p got. */
    double smallest = 1;
    for (size_t i = family; i-- > 0;) {
        smallest = fmin(smallest, rank[i].p * ((double)family / (double)(i + 1)));
        adjusted[rank[i].index] = smallest;
    }
    free(rank);
    return 0;
}
