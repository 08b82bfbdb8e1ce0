/* The two skipping rules, naively: SpargeAttn's second stage (paper, Alg. 1, section 3.4) and skip-softmax, which is the
 * same test with lambda = ln(threshold).
 *
 * m_new includes the tile, so m_local - m_new <= 0 and a tile that raises the maximum never skips. Rows that see no key
 * of the tile have m_local = -inf and vote to skip. A tile without any kept pair for the Q block is not computed at all
 * and takes no part. */
#include "oracle/oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double tile_max(const oracle_shape *shape, const double *q, const double *k, const uint8_t *keep, int64_t i,
                       int64_t begin, int64_t end)
{
    double largest = -INFINITY;

    for (int64_t j = begin; j < end; j++) {
        double dot = 0.0;

        if (!oracle_visible(shape, i, j) || (keep && !keep[i * shape->lk + j]))
            continue;
        for (int64_t d = 0; d < shape->dim; d++)
            dot += q[i * shape->dim + d] * k[j * shape->dim + d];
        largest = fmax(largest, shape->scale * dot);
    }
    return largest;
}

static int tile_computed(const oracle_shape *shape, const uint8_t *keep, int64_t row_begin, int64_t row_end,
                         int64_t begin, int64_t end)
{
    for (int64_t i = row_begin; i < row_end; i++)
        for (int64_t j = begin; j < end; j++)
            if (oracle_visible(shape, i, j) && (!keep || keep[i * shape->lk + j]))
                return 1;
    return 0;
}

oracle_skip_result oracle_skip_pv(const oracle_shape *shape, const oracle_skip *skip, const double *q, const double *k,
                                  const uint8_t *keep, uint8_t *pv)
{
    oracle_skip_result result = {0};
    double *running = oracle_alloc((size_t)shape->lq, sizeof *running);

    for (int64_t i = 0; i < shape->lq; i++) {
        running[i] = -INFINITY;
        for (int64_t j = 0; j < shape->lk; j++)
            pv[i * shape->lk + j] = (uint8_t)(oracle_visible(shape, i, j) && (!keep || keep[i * shape->lk + j]));
    }
    for (int64_t row = 0; row < shape->lq; row += skip->block_q) {
        int64_t row_end = row + skip->block_q < shape->lq ? row + skip->block_q : shape->lq;

        for (int64_t begin = 0; begin < shape->lk; begin += skip->block_k) {
            int64_t end = begin + skip->block_k < shape->lk ? begin + skip->block_k : shape->lk;
            int64_t votes = 0, skips = 0;

            if (!tile_computed(shape, keep, row, row_end, begin, end))
                continue;
            for (int64_t unit = row; unit < row_end; unit += skip->unit) {
                int64_t unit_end = unit + skip->unit < row_end ? unit + skip->unit : row_end;
                double vote = -INFINITY;

                for (int64_t i = unit; i < unit_end; i++) {
                    double local = tile_max(shape, q, k, keep, i, begin, end);

                    running[i] = fmax(running[i], local);
                    if (local > -INFINITY)
                        vote = fmax(vote, local - running[i]);
                }
                votes++;
                if (fabs(vote - skip->lambda) <= skip->margin)
                    result.ambiguous++;
                if (!(vote < skip->lambda))
                    continue;
                skips++;
                for (int64_t i = unit; i < unit_end; i++)
                    memset(pv + i * shape->lk + begin, 0, (size_t)(end - begin));
            }
            result.skipped += (double)skips / (double)votes;
        }
    }
    free(running);
    return result;
}
