/* Mann-Whitney U, two-sided.
 *
 * Small samples: the exact distribution of the rank sum over all C(n+m, n) ways to deal the pooled (mid)ranks into two
 * groups, counted by dynamic programming. Midranks are halves of integers, so twice the rank sum is an integer, ties
 * are no special case, and "at least as far from the mean" is an exact comparison. */
#include "stats.h"

#include <math.h>
#include <stdlib.h>

enum {
    EXACT_MAX = 40,                                       /* pooled samples; C(40, 20) = 1.4e11 is exact in a double */
    GROUP_MAX = EXACT_MAX / 2,                            /* the smaller group */
    SUM_MAX = GROUP_MAX * (2 * EXACT_MAX - GROUP_MAX + 1) /* twice the sum of the GROUP_MAX largest ranks */
};

/* What one merge of two sorted samples says about their ranks. */
typedef struct pooled_ranks {
    double rank_sum_2;     /* twice the sum of x's midranks */
    double ties;           /* sum of t^3 - t over groups of t equal values */
    int rank_2[EXACT_MAX]; /* twice the midranks of the pooled sample; only if n + m <= EXACT_MAX */
} pooled_ranks;

static void pool(const double *x, size_t n, const double *y, size_t m, pooled_ranks *out)
{
    out->rank_sum_2 = 0;
    out->ties = 0;
    size_t i = 0, j = 0;
    while (i < n || j < m) {
        const double value = j >= m || (i < n && x[i] <= y[j]) ? x[i] : y[j];
        const size_t first = i + j, x_first = i;
        while (i < n && !(x[i] > value))
            i++;
        while (j < m && !(y[j] > value))
            j++;
        const size_t last = i + j; /* the group holds the ranks first + 1 .. last */
        const double rank_2 = (double)(first + 1 + last), t = (double)(last - first);
        out->rank_sum_2 += rank_2 * (double)(i - x_first);
        out->ties += t * (t * t - 1);
        for (size_t r = first; r < last && n + m <= EXACT_MAX; r++)
            out->rank_2[r] = (int)rank_2;
    }
}

/* P(|W - E W| >= deviation_2 / 2) for the rank sum W of `group` ranks drawn from `total`, total <= EXACT_MAX and
 * group <= GROUP_MAX. The larger group's deviation is the same, so the smaller one is the cheaper question. */
static double exact_p(const pooled_ranks *pooled, size_t group, size_t total, double deviation_2)
{
    double ways[GROUP_MAX + 1][SUM_MAX + 1]; /* [members][twice the rank sum] */
    for (size_t members = 0; members <= group; members++)
        for (size_t sum = 0; sum <= SUM_MAX; sum++)
            ways[members][sum] = 0;
    ways[0][0] = 1;
    for (size_t r = 0; r < total; r++) {
        const size_t rank_2 = (size_t)pooled->rank_2[r];
        for (size_t members = group < r + 1 ? group : r + 1; members > 0; members--)
            for (size_t sum = rank_2; sum <= SUM_MAX; sum++)
                ways[members][sum] += ways[members - 1][sum - rank_2];
    }
    const double mean_2 = (double)group * (double)(total + 1);
    double all = 0, extreme = 0;
    for (size_t sum = 0; sum <= SUM_MAX; sum++) {
        all += ways[group][sum];
        if (fabs((double)sum - mean_2) >= deviation_2)
            extreme += ways[group][sum];
    }
    return extreme / all;
}

double an_mann_whitney_sorted(const double *x, size_t n, const double *y, size_t m)
{
    if (n == 0 || m == 0)
        return 1;
    pooled_ranks pooled;
    pool(x, n, y, m, &pooled);
    const double total = (double)n + (double)m;
    const double deviation_2 = fabs(pooled.rank_sum_2 - (double)n * (total + 1));
    if (n + m <= EXACT_MAX)
        return exact_p(&pooled, n < m ? n : m, n + m, deviation_2);

    const double variance = (double)n * (double)m / 12 * (total + 1 - pooled.ties / (total * (total - 1)));
    if (!(variance > 0))
        return 1; /* every value is equal */
    const double z = fmax(0, deviation_2 / 2 - 0.5) / sqrt(variance);
    return erfc(z / sqrt(2));
}

double an_mann_whitney_smallest(size_t n, size_t m)
{
    if (n == 0 || m == 0)
        return 1;
    const double a = (double)n, b = (double)m;
    return fmin(1, 2 * exp(lgamma(a + 1) + lgamma(b + 1) - lgamma(a + b + 1)));
}
