/* Exact attention of one head, row by row, two passes over the keys. */
#include "oracle/oracle.h"

#include <math.h>
#include <stdlib.h>

int oracle_visible(const oracle_shape *shape, int64_t i, int64_t j)
{
    switch (shape->causal) {
    case ORACLE_TOP_LEFT:
        return j <= i;
    case ORACLE_BOTTOM_RIGHT: /* the last query sees the last key */
        return j - shape->lk <= i - shape->lq;
    case ORACLE_FULL:
        break;
    }
    return 1;
}

int64_t oracle_visible_pairs(const oracle_shape *shape)
{
    int64_t pairs = 0;

    for (int64_t i = 0; i < shape->lq; i++)
        for (int64_t j = 0; j < shape->lk; j++)
            pairs += oracle_visible(shape, i, j);
    return pairs;
}

int oracle_block_visible(const oracle_shape *shape, int64_t block_q, int64_t block_k, int64_t row, int64_t col)
{
    for (int64_t i = row * block_q; i < (row + 1) * block_q && i < shape->lq; i++)
        for (int64_t j = col * block_k; j < (col + 1) * block_k && j < shape->lk; j++)
            if (oracle_visible(shape, i, j))
                return 1;
    return 0;
}

int64_t oracle_kv_head(int64_t head_q, int64_t heads_q, int64_t heads_kv)
{
    return head_q * heads_kv / heads_q;
}

void oracle_attention(const oracle_shape *shape, const double *q, const double *k, const double *v, const uint8_t *keep,
                      double *o, double *lse)
{
    int64_t lk = shape->lk, dim = shape->dim;
    double *score = oracle_alloc((size_t)lk, sizeof *score);

    for (int64_t i = 0; i < shape->lq; i++) {
        double largest = -INFINITY, sum = 0.0;

        for (int64_t j = 0; j < lk; j++) {
            double dot = 0.0;

            score[j] = -INFINITY;
            if (!oracle_visible(shape, i, j) || (keep && !keep[i * lk + j]))
                continue;
            for (int64_t d = 0; d < dim; d++)
                dot += q[i * dim + d] * k[j * dim + d];
            score[j] = shape->scale * dot;
            largest = fmax(largest, score[j]);
        }
        for (int64_t d = 0; d < dim; d++)
            o[i * dim + d] = 0.0;
        if (lse)
            lse[i] = -INFINITY;
        if (largest == -INFINITY)
            continue;
        for (int64_t j = 0; j < lk; j++) {
            double weight = score[j] == -INFINITY ? 0.0 : exp(score[j] - largest);

            sum += weight;
            for (int64_t d = 0; weight > 0.0 && d < dim; d++)
                o[i * dim + d] += weight * v[j * dim + d];
        }
        for (int64_t d = 0; d < dim; d++)
            o[i * dim + d] /= sum;
        if (lse)
            lse[i] = largest + log(sum);
    }
    free(score);
}
