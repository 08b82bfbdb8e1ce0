/* How far an implementation in lower precision may land from float64, element by element.
 *
 * One row; u = 2^-24 (float32), n keys, w_j the softmax weights, l = sum exp(s_j - max s) >= 1.
 *
 * 1. Scores. q and k are exact in the arithmetic, their products too (11 + 11 or 8 + 8 bits, or integers), so the sum
 *    over D errs by at most (D + 8) u A_j with A_j = scale * sum_d |q_d k_jd| (the 8: scale factors), plus
 *    scale * sum_d (|k_jd| dq_d + |q_d| dk_jd + dq_d dk_jd) for what quantisation leaves in doubt.
 * 2. Exponent. Subtracting the running maximum and passing to log2 rounds at the size of the scores; the exponential
 *    errs by exp_error; both again for every rescaling of the accumulators, of which there are fewer than 1 + n / 32.
 *    Sums of n terms add n u. Together the weight j is off by a factor within e^(+-e_j).
 * 3. Hence, with E = sum w_j (e^e_j - 1) and N_d = sum w_j (e^e_j - 1) |v_jd| + sum w_j e^e_j dv_jd, what is left without
 *    rounding of P is |O' - O| <= (N_d + E |O_d|) / (1 - E), the `floor`.
 * 4. P is rounded: relatively by r while normal, absolutely by a / range below, so N_d grows by
 *    r sum w_j e^e_j |v_jd| + a / range sum |v_jd| / l, and E by r if the row sum uses rounded P.
 * 5. O is rounded to its own format.
 *
 * If the roundings of step 4 and 5 are independent, their mean square is much smaller. A rounding error is uniform within
 * half a step and a step is 2r relative to the bottom of its binade, so its square averages r^2 / 3 * mean of 1 / m^2 for
 * m in [1, 2) = r^2 / 6; r^2 / 3 is used, for values near the bottom of a binade. */
#include "oracle/oracle.h"

#include <math.h>
#include <stdlib.h>

static const double u = 0x1p-24;

typedef struct row {
    double *score, *slack;        /* s_j and e_j; score -inf where there is no pair */
    double largest, largest_size; /* max s_j, max |s_j| */
    int64_t keys;
} row;

static void row_scores(const oracle_shape *shape, const oracle_inputs *in, const oracle_arithmetic *arithmetic,
                       int64_t i, row *r)
{
    int64_t dim = shape->dim;
    double exponent_error;

    r->largest = -INFINITY;
    r->largest_size = 0.0;
    r->keys = 0;
    for (int64_t j = 0; j < shape->lk; j++) {
        double dot = 0.0, size = 0.0, doubt = 0.0;

        r->score[j] = -INFINITY;
        if (!oracle_visible(shape, i, j) || (in->keep && !in->keep[i * shape->lk + j]))
            continue;
        for (int64_t d = 0; d < dim; d++) {
            double q = in->q[i * dim + d], k = in->k[j * dim + d];

            dot += q * k;
            size += fabs(q * k);
        }
        if (in->q_doubt && in->k_doubt) {
            for (int64_t d = 0; d < dim; d++) {
                double dq = in->q_doubt[i * dim + d], dk = in->k_doubt[j * dim + d];

                doubt += fabs(in->k[j * dim + d]) * dq + fabs(in->q[i * dim + d]) * dk + dq * dk;
            }
        }
        r->score[j] = shape->scale * dot;
        r->slack[j] = shape->scale * ((((double)dim + 8.0) * u + arithmetic->scale_error) * size + doubt);
        r->largest = fmax(r->largest, r->score[j]);
        r->largest_size = fmax(r->largest_size, fabs(r->score[j]));
        r->keys++;
    }
    exponent_error = (1.0 + (double)r->keys / 32.0) * (arithmetic->exp_error + 4.0 * u * r->largest_size) +
                     ((double)r->keys + 8.0) * u;
    for (int64_t j = 0; j < shape->lk; j++)
        if (r->score[j] > -INFINITY)
            r->slack[j] += exponent_error;
}

/* Weighted sums over the keys, per channel. */
typedef struct sums {
    double *o, *numerator, *p_error, *variance;
} sums;

static void add_key(sums *s, const double *v, const double *v_doubt, int64_t dim, double weight, double slack,
                    double p_relative, double p_absolute)
{
    double growth = expm1(slack), relative = p_relative * weight * (1.0 + growth);
    double squares = (relative * relative + p_absolute * p_absolute) / 3.0;

    for (int64_t d = 0; d < dim; d++) {
        double dv = v_doubt ? v_doubt[d] : 0.0;

        s->o[d] += weight * v[d];
        s->numerator[d] += weight * growth * fabs(v[d]) + weight * (1.0 + growth) * dv;
        s->p_error[d] += (relative + p_absolute) * (fabs(v[d]) + dv);
        s->variance[d] += squares * (v[d] * v[d] + dv * dv);
    }
}

static void row_outputs(const oracle_shape *shape, const oracle_inputs *in, const oracle_arithmetic *arithmetic,
                        int64_t i, const row *r, sums *s, const oracle_expectation *out)
{
    int64_t dim = shape->dim, lk = shape->lk;
    double p_relative = oracle_unit_roundoff(arithmetic->p_format);
    double p_absolute = oracle_subnormal_roundoff(arithmetic->p_format) / arithmetic->p_range;
    double o_relative = oracle_unit_roundoff(arithmetic->o_format);
    double o_absolute = oracle_subnormal_roundoff(arithmetic->o_format);
    double sum = 0.0, error = 0.0, weight_squares = 0.0, rest;

    for (int64_t d = 0; d < dim; d++)
        s->o[d] = s->numerator[d] = s->p_error[d] = s->variance[d] = 0.0;
    for (int64_t j = 0; j < lk; j++)
        if (r->score[j] > -INFINITY)
            sum += exp(r->score[j] - r->largest);
    for (int64_t j = 0; j < lk; j++) {
        double weight;

        if (r->score[j] == -INFINITY)
            continue;
        weight = exp(r->score[j] - r->largest) / sum;
        error += weight * expm1(r->slack[j]);
        weight_squares += weight * weight;
        if (!in->keep_pv || in->keep_pv[i * lk + j])
            add_key(s, in->v + j * dim, in->v_doubt ? in->v_doubt + j * dim : NULL, dim, weight, r->slack[j],
                    p_relative, p_absolute / sum);
    }
    out->lse[i] = r->largest + log(sum);
    out->lse_bound[i] = error < 1.0 ? -log1p(-error) + 4.0 * u * (r->largest_size + log(sum) + 1.0) : INFINITY;

    rest = 1.0 - error - p_relative;
    for (int64_t d = 0; d < dim; d++) {
        int64_t at = i * dim + d;
        double size = fabs(s->o[d]);
        double floor = rest > 0.0 ? (s->numerator[d] + error * size) / rest : INFINITY;
        double bound = rest > 0.0 ? (s->numerator[d] + s->p_error[d] + (error + p_relative) * size) / rest : INFINITY;
        double variance = s->variance[d] + p_relative * p_relative / 3.0 * weight_squares * size * size +
                          (o_relative * o_relative * size * size + o_absolute * o_absolute) / 3.0;

        out->o[at] = s->o[d];
        out->o_bound[at] = bound + o_relative * (size + bound) + o_absolute;
        out->o_deviation[at] = sqrt(variance) + floor;
    }
}

void oracle_expect(const oracle_shape *shape, const oracle_inputs *in, const oracle_arithmetic *arithmetic,
                   const oracle_expectation *out)
{
    int64_t dim = shape->dim;
    double *channels = oracle_alloc((size_t)(4 * dim), sizeof *channels);
    sums s = {channels, channels + dim, channels + 2 * dim, channels + 3 * dim};
    row r = {.score = oracle_alloc((size_t)shape->lk, sizeof(double)),
             .slack = oracle_alloc((size_t)shape->lk, sizeof(double))};

    for (int64_t i = 0; i < shape->lq; i++) {
        row_scores(shape, in, arithmetic, i, &r);
        if (r.keys > 0) {
            row_outputs(shape, in, arithmetic, i, &r, &s, out);
            continue;
        }
        out->lse[i] = -INFINITY;
        out->lse_bound[i] = 0.0;
        for (int64_t d = 0; d < dim; d++)
            out->o[i * dim + d] = out->o_bound[i * dim + d] = out->o_deviation[i * dim + d] = 0.0;
    }
    free(r.slack);
    free(r.score);
    free(channels);
}
