/* Error sums and row samples. */
#include "measure/errors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void sb_errors_add(sb_error_sums *sums, const double *exact, const float *measured, size_t count)
{
    sb_error_sums s = *sums;
    for (size_t i = 0; i < count; i++) {
        double o = exact[i], m = (double)measured[i];
        if (!isfinite(m)) {
            s.nonfinite++;
            continue;
        }
        double difference = fabs(o - m);
        s.difference_l1 += difference;
        s.difference_sq += difference * difference;
        s.exact_l1 += fabs(o);
        s.exact_sq += o * o;
        s.measured_sq += m * m;
        s.product += o * m;
        s.values++;
        if (difference > s.max_abs || isnan(difference)) /* a NaN stays the largest */
            s.max_abs = difference;
    }
    *sums = s;
}

/* No difference from nothing is no error; any difference from nothing, and any from NaN, has no relative size. */
static double ratio(double part, double whole)
{
    if (whole > 0.0)
        return part / whole;
    return part == 0.0 && whole == 0.0 ? 0.0 : NAN;
}

sb_errors sb_errors_of(const sb_error_sums *sums)
{
    sb_errors errors = {NAN, NAN, NAN, NAN, NAN, sums->nonfinite};
    if (sums->values == 0)
        return errors;
    errors.rel_l1 = ratio(sums->difference_l1, sums->exact_l1);
    errors.rel_l2 = ratio(sqrt(sums->difference_sq), sqrt(sums->exact_sq));
    errors.rmse = sqrt(sums->difference_sq / (double)sums->values);
    errors.max_abs = sums->max_abs;
    double norms = sqrt(sums->exact_sq) * sqrt(sums->measured_sq);
    double cosine = norms > 0.0 ? sums->product / norms : NAN;
    errors.cosine = isnan(cosine) ? NAN : fmax(-1.0, fmin(1.0, cosine)); /* fmin() would make 1 of NaN */
    return errors;
}

/* splitmix64 (Steele, Lea, Flood 2014): one step. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

enum { MAX_EDGES = 10 };

/* The rows that every sample holds, most important first. */
static int64_t edge_rows(int64_t seqlen, int64_t wanted, int64_t edge[MAX_EDGES])
{
    int64_t last64 = (seqlen - 1) / 64 * 64, last128 = (seqlen - 1) / 128 * 128;
    const int64_t candidate[MAX_EDGES] = {0, seqlen - 1, 63, 64, last64, last64 - 1, 127, 128, last128, last128 - 1};
    int64_t count = 0;
    for (int i = 0; i < MAX_EDGES && count < wanted; i++) {
        int64_t row = candidate[i];
        int known = row < 0 || row >= seqlen;
        for (int64_t j = 0; j < count; j++)
            known |= edge[j] == row;
        if (!known)
            edge[count++] = row;
    }
    return count;
}

int sb_error_rows(int64_t seqlen, int64_t wanted, uint64_t seed, int64_t **rows, int64_t *count)
{
    int all = wanted < 0 || wanted >= seqlen;
    int64_t n = all ? seqlen : wanted;
    *rows = NULL;
    *count = 0;
    if ((uint64_t)n > SIZE_MAX / sizeof **rows)
        return -1;
    int64_t *list = malloc(n > 0 ? (size_t)n * sizeof *list : 1);
    if (!list)
        return -1;
    *rows = list;
    *count = n;
    if (all) {
        for (int64_t i = 0; i < n; i++)
            list[i] = i;
        return 0;
    }
    int64_t edge[MAX_EDGES];
    int64_t edges = edge_rows(seqlen, n, edge);
    qsort(edge, (size_t)edges, sizeof *edge, ascending);
    /* The other rows are numbered without gaps, so that a stratum can draw among them alone. */
    int64_t others = seqlen - edges, strata = n - edges;
    for (int64_t i = 0; i < strata; i++) {
        int64_t begin = (int64_t)((double)others * (double)i / (double)strata);
        int64_t end = (int64_t)((double)others * (double)(i + 1) / (double)strata);
        int64_t row = begin + (int64_t)(draw(&seed) % (uint64_t)(end > begin ? end - begin : 1));
        for (int64_t e = 0; e < edges; e++)
            row += edge[e] <= row;
        list[i] = row;
    }
    memcpy(list + strata, edge, (size_t)edges * sizeof *edge);
    qsort(list, (size_t)n, sizeof *list, ascending);
    return 0;
}
