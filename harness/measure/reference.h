/* The exact output that an output is compared with: float64 attention of all rows, or of a sample of them. */
#ifndef HARNESS_REFERENCE_H
#define HARNESS_REFERENCE_H

#include "measure/errors.h"
#include "measure/inputs.h"

typedef struct sb_reference {
    int64_t *row; /* query rows compared, ascending, the same for every head */
    int64_t rows;
    int all;   /* these are all rows */
    double *o; /* [batch][heads_q][rows][head_dim] */
} sb_reference;

/* Rows that are compared where the user does not say: all of a short problem, else SB_ERROR_ROWS. */
enum { SB_ERROR_ROWS = 256, SB_ERROR_ALL_UP_TO = 1024, SB_ERROR_ROWS_DEFAULT = -2, SB_ERROR_ROWS_ALL = -1 };
int64_t sb_reference_rows(const sparge_problem *problem, int64_t wanted);

/* Host memory of the reference. -1 if no size_t holds it. */
int sb_reference_bytes(const sparge_problem *problem, int64_t wanted, size_t *bytes);

/* `wanted` > 0 rows, or one of the two constants above; drawn by `seed`. Works in pieces of about a second; if stop()
 * becomes non-zero between two, *stopped is set and there is no reference. */
sparge_status sb_reference_create(sparge_context *context, const sparge_problem *problem, const sb_inputs *inputs,
                                  int64_t wanted, uint64_t seed, int (*stop)(void), sb_reference *reference,
                                  int *stopped, sparge_error *error);
void sb_reference_release(sb_reference *reference);

/* Counts the values of the whole output that are not finite, and compares the reference's rows (NULL: none). `sums` starts
 * from zero. */
sparge_status sb_reference_compare(sparge_context *context, const sparge_tensor *output, const sb_reference *reference,
                                   int64_t *nonfinite, sb_error_sums *sums, sparge_error *error);

#endif
