/* compare: the unpaired first form. Rows of A and B that measure the same point, apart from the build, are matched;
 * ratio of medians with a bootstrap interval, Mann-Whitney over all matched points with Benjamini-Hochberg. Verdicts are
 * labelled "unpaired": drift between the two runs is not cancelled (docs/statistics.md). */
#ifndef ANALYSIS_COMPARE_H
#define ANALYSIS_COMPARE_H

#include "rows.h"

typedef enum an_verdict {
    AN_SAME = 0,
    AN_REGRESSED,
    AN_IMPROVED,
    AN_INCONCLUSIVE,
    AN_ONLY_A,
    AN_ONLY_B,
    AN_UNMEASURED
} an_verdict;
const char *an_verdict_name(an_verdict verdict); /* "same", "regressed", ... */

typedef struct an_compare_options {
    double threshold; /* relative change one agrees to ignore, e.g. 0.02 */
    double q;         /* false discovery rate, e.g. 0.05 */
    unsigned long seed;
} an_compare_options;

typedef struct an_comparison {
    const an_row *a, *b; /* NULL for only-b, only-a */
    an_estimate ratio;   /* time B / time A */
    double p, p_adjusted;
    an_verdict verdict;
    char reason[128]; /* of an inconclusive or unmeasured verdict; else "" */
} an_comparison;

typedef struct an_comparisons {
    an_comparison *item;
    size_t count, regressed, improved;
} an_comparisons;

/* Of several rows of one point the last of each side counts. First the points of A in their order, then those only in
 * B. Returns 0, or -1 if out of memory. The rows must outlive the result. */
int an_compare(const an_rows *a, const an_rows *b, const an_compare_options *options, an_comparisons *out);
void an_comparisons_release(an_comparisons *comparisons);
an_table *an_comparisons_table(const an_comparisons *comparisons);

#endif
