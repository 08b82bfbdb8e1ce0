/* Block self-similarity as the paper defines it (section 3.2), next to what the methods compute (plan.h).
 *
 *     CosSim(X) = mean(X X^T / |max(X X^T)|)      X: the n rows of one block
 *
 * The largest entry of a Gram matrix lies on its diagonal and its entries sum to |sum of rows|^2, so that
 * CosSim(X) = |sum of rows|^2 / (n^2 max |row|^2): no Gram matrix is needed. A block of zeros has 0. */
#ifndef HARNESS_COSSIM_H
#define HARNESS_COSSIM_H

#include "sparge/sparge.h"

/* Of one block: `rows` rows of `channels` values, one after the other. */
double sb_cossim_block(const float *block, int64_t rows, int64_t channels);

/* The mean over all blocks of `block_rows` tokens (the last one of each head may be shorter), heads and batches of a
 * dense HND tensor of 16-bit type in backend memory. `centred`: the mean over the tokens of each head is subtracted
 * first, as SpargeAttn does with K: its smoothing is what makes the paper's Sim-k of a random order small. */
sparge_status sb_cossim_mean(sparge_context *context, const sparge_tensor *tensor, int64_t block_rows, int centred,
                             double *mean, sparge_error *error);

#endif
