/* The quantised arithmetics in float64, with the doubt that float32 rounding leaves about each element.
 *
 * An implementation forms x / s in float32, with relative error below 2^-22 (two roundings and the scale's own), plus
 * what the error of x itself brings. Where that interval holds a rounding boundary, `doubt` is the distance between the
 * two results; elsewhere both agree exactly in integers. */
#include "oracle/oracle.h"

#include <math.h>
#include <stdlib.h>

static const double quotient_error = 0x1p-22;

static double half_away(double x)
{
    return x < 0.0 ? -floor(0.5 - x) : floor(x + 0.5);
}

static int share(oracle_sharing by, int64_t a, int64_t b)
{
    return a / by.block == b / by.block && a % by.period / by.width == b % by.period / by.width;
}

double oracle_quantise_int8(const double *x, int64_t tokens, int64_t dim, oracle_sharing sharing,
                            const double *input_error, double *out, double *doubt)
{
    double scale_error = 0.0, largest_error = 0.0;

    for (int64_t d = 0; input_error && d < dim; d++)
        largest_error = fmax(largest_error, input_error[d]);
    for (int64_t t = 0; t < tokens; t++) {
        int64_t begin = t / sharing.block * sharing.block;
        double largest = 0.0, scale;

        for (int64_t u = begin; u < begin + sharing.block && u < tokens; u++)
            for (int64_t d = 0; share(sharing, t, u) && d < dim; d++)
                largest = fmax(largest, fabs(x[u * dim + d]));
        scale = largest / 127.0 + 1e-7;
        scale_error = fmax(scale_error, largest_error / 127.0 / scale);

        for (int64_t d = 0; d < dim; d++) {
            int64_t at = t * dim + d;
            double quotient = x[at] / scale;
            double width = fabs(quotient) * (quotient_error + largest_error / 127.0 / scale) +
                           (input_error ? input_error[d] / scale : 0.0);

            out[at] = half_away(quotient) * scale;
            doubt[at] = (half_away(quotient + width) - half_away(quotient - width)) * scale;
        }
    }
    return scale_error;
}

void oracle_quantise_e4m3(const double *v, int64_t tokens, int64_t dim, double range, double *out, double *doubt)
{
    for (int64_t d = 0; d < dim; d++) {
        double largest = 0.0;

        for (int64_t t = 0; t < tokens; t++)
            largest = fmax(largest, fabs(v[t * dim + d]));
        for (int64_t t = 0; t < tokens; t++) {
            int64_t at = t * dim + d;
            double quotient = largest > 0.0 ? v[at] / largest * range : 0.0;
            double low = oracle_round(ORACLE_E4M3, quotient * (1.0 - quotient_error));
            double high = oracle_round(ORACLE_E4M3, quotient * (1.0 + quotient_error));

            out[at] = oracle_round(ORACLE_E4M3, quotient) * (largest / range);
            doubt[at] = fabs(high - low) * (largest / range);
        }
    }
}

void oracle_smooth(const double *k, int64_t tokens, int64_t dim, double *mean, double *smoothed, double *error)
{
    for (int64_t d = 0; d < dim; d++) {
        double sum = 0.0, magnitude = 0.0, largest = 0.0;

        for (int64_t t = 0; t < tokens; t++) {
            sum += k[t * dim + d];
            magnitude += fabs(k[t * dim + d]);
            largest = fmax(largest, fabs(k[t * dim + d]));
        }
        mean[d] = sum / (double)tokens;
        for (int64_t t = 0; t < tokens; t++)
            smoothed[t * dim + d] = k[t * dim + d] - mean[d];
        /* n - 1 additions and a division in any order, then one subtraction. */
        error[d] = 0x1p-24 * (magnitude + 2.0 * fabs(mean[d]) + largest);
    }
}
