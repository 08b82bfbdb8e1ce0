/* Block masks: which BQ x BK blocks of the score matrix are computed, per (batch, query head).
 *
 * Host memory. value[((b * heads + h) * rows + i) * cols + j] is 1 if block (i, j), queries [i*BQ, i*BQ+BQ) and keys
 * [j*BK, j*BK+BK), is computed and 0 if it is skipped. Blocks without a visible pair are always 0. */
#ifndef SPARGE_BLOCK_MASK_H
#define SPARGE_BLOCK_MASK_H

#include "sparge/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sparge_block_mask {
    int32_t batch, heads;     /* heads = query heads */
    int32_t block_q, block_k; /* BQ, BK: 64 or 128 */
    int64_t rows, cols;       /* ceil(Lq / BQ), ceil(Lk / BK) */
    uint8_t *value;
} sparge_block_mask;

/* Allocates an all-zero mask of the problem's size. Free with sparge_block_mask_release. */
sparge_status sparge_block_mask_create(sparge_block_mask *mask, const sparge_problem *problem, int32_t block_q,
                                       int32_t block_k, sparge_error *error);
void sparge_block_mask_release(sparge_block_mask *mask); /* also of a zeroed or released mask */

/* 1 if block (row, col) holds at least one visible pair. */
int sparge_block_visible(const sparge_problem *problem, int32_t block_q, int32_t block_k, int64_t row, int64_t col);

/* Files are NumPy's .npy (format 1.0 to 3.0): a C-ordered array [batch, heads, rows, cols] of |b1 or |u1, non-zero =
 * compute; numpy.save writes one. The block sizes are not in the file: the reader states them. Reading checks the header
 * against the file's size; whether the shape fits a problem is checked by sparge_block_mask_check. */
sparge_status sparge_block_mask_read(sparge_block_mask *mask, const char *path, int32_t block_q, int32_t block_k,
                                     sparge_error *error);
sparge_status sparge_block_mask_write(const sparge_block_mask *mask, const char *path, sparge_error *error);

/* batch and heads may be 1 in the mask: it then serves all of the problem's. rows and cols must be the problem's, else
 * UNSUPPORTED: a mask of one length cannot do another. */
sparge_status sparge_block_mask_check(const sparge_block_mask *mask, const sparge_problem *problem,
                                      sparge_error *error);

#ifdef __cplusplus
}
#endif
#endif
