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
    double coverage;         /* of [low, high], >= the level asked for; NAN if n is too small for any interval */
} an_estimate;

/* Median of sorted x with the exact distribution-free interval from order statistics (binomial): the narrowest
 * symmetric pair with coverage >= level. n < 6 cannot reach 0.95: low = min, high = max and the coverage they have. */
an_estimate an_median_sorted(const double *x, size_t n, double level);

/* Two-sided Mann-Whitney U: exact (by counting, ties by enumeration of the tied distribution) for n + m <= 40 without
 * ties or n, m <= 12 with ties; else normal with tie and continuity correction. 1 if n or m is 0. */
double an_mann_whitney(const double *x, size_t n, const double *y, size_t m);

/* Benjamini-Hochberg adjusted p-values, in the order of p. NAN entries are left out of the family and stay NAN.
 * adjusted may equal p. Returns 0, or -1 if out of memory. */
int an_benjamini_hochberg(const double *p, size_t m, double *adjusted);

/* Ratio of medians median(y)/median(x) with a seeded BCa bootstrap interval (9999 resamples). Allocates; NANs on
 * failure or if either side has fewer than 2 samples. */
an_estimate an_median_ratio(const double *x, size_t n, const double *y, size_t m, double level, unsigned long seed);

#endif
