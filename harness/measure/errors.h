/* Error of an output against exact attention, and which rows of a long problem are compared.
 *
 * rel_l1 = sum |O - O'| / sum |O| (the paper's), rel_l2 = ||O - O'|| / ||O||, cosine = <O, O'> / (||O|| ||O'||),
 * rmse = ||O - O'|| / sqrt(n), max_abs = max |O - O'|; O exact, O' measured, over all values added. Values of O' that
 * are not finite are counted and take no part in the rest. */
#ifndef HARNESS_ERRORS_H
#define HARNESS_ERRORS_H

#include <stddef.h>
#include <stdint.h>

/* Running sums; start from all zero. */
typedef struct sb_error_sums {
    double difference_l1, difference_sq;
    double exact_l1, exact_sq;
    double measured_sq, product;
    double max_abs;
    int64_t values, nonfinite;
} sb_error_sums;

typedef struct sb_errors {
    double rel_l1, rel_l2, cosine, rmse,
        max_abs; /* NAN without a single finite value; cosine also where O or O' is 0 */
    int64_t nonfinite;
} sb_errors;

void sb_errors_add(sb_error_sums *sums, const double *exact, const float *measured, size_t count);
sb_errors sb_errors_of(const sb_error_sums *sums);

/* The rows to compare: all if wanted >= seqlen (or wanted < 0), else `wanted` of them, ascending. A sample always holds
 * (as far as it reaches) the first and the last row and the rows on both sides of the first and the last edge of 64-
 * and 128-row blocks; the rest is stratified: one row from each of equal parts of the sequence, drawn by `seed`.
 * The same arguments give the same rows. Free *rows. 0, or -1 if memory runs out. */
int sb_error_rows(int64_t seqlen, int64_t wanted, uint64_t seed, int64_t **rows, int64_t *count);

#endif
