/* Statistics, without allocation except where said. Formulas and sources: docs/statistics.md. */
#ifndef ANALYSIS_STATS_H
#define ANALYSIS_STATS_H

#include <stddef.h>

/* Sorts ascending, in place. */
void an_sort(double *x, size_t n);

/* Linear-interpolation quantile (type 7) of sorted x; q in [0,1]; NAN for n = 0. */
double an_quantile_sorted(const double *x, size_t n, double q);

/* A value with its interval. */
typedef struct an_estimate {
    double value, low, high; /* NAN where unknown */
    double coverage;         /* of [low, high]; NAN if n is too small for any interval */
} an_estimate;

/* Median of sorted x with the exact distribution-free interval from order statistics (binomial): the narrowest
 * symmetric pair with coverage >= level. Samples too small for that (n < 6 at 0.95) get low = min, high = max and the
 * coverage these have; a single sample has no interval. */
an_estimate an_median_sorted(const double *x, size_t n, double level);

/* Two-sided Mann-Whitney U of sorted x and y: the exact permutation distribution, ties included, for n + m <= 40; else
 * normal with tie and continuity correction. 1 if n or m is 0. */
double an_mann_whitney_sorted(const double *x, size_t n, const double *y, size_t m);

/* The smallest p that two samples of these sizes without ties can have: 2 / C(n + m, n). 1 if n or m is 0. */
double an_mann_whitney_smallest(size_t n, size_t m);

/* Benjamini-Hochberg adjusted p-values, in the order of p. NAN entries are left out of the family and stay NAN.
 * adjusted may equal p. Returns 0, or -1 if out of memory. */
int an_benjamini_hochberg(const double *p, size_t m, double *adjusted);

/* Ratio of medians median(y)/median(x) of sorted, positive x and y with a seeded BCa bootstrap interval (9999
 * resamples). Allocates. NANs on failure, if a value is not positive or if either side has fewer than 2 samples;
 * the coverage is nominal, and NAN if either side has fewer than 6. */
an_estimate an_median_ratio_sorted(const double *x, size_t n, const double *y, size_t m, double level,
                                   unsigned long seed);

#endif
