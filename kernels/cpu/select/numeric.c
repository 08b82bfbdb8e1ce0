/* Softmax and sorting for selection. */
#include "cpu/select/numeric.h"

#include <math.h>
#include <string.h>

#include "cpu/context.h"
#include "cpu/select/exp.h"

void cpu_scores(const sparge_context *context, float *score, const float *a, const float *rows, int64_t count,
                int32_t channels, float scale)
{
    cpu_context_isa(context)->dots(score, a, rows, (size_t)count, (size_t)channels);
    for (int64_t i = 0; i < count; i++)
        score[i] *= scale;
}

uint64_t cpu_softmax_terms(float *score, int64_t count)
{
    float most = -INFINITY;
    for (int64_t i = 0; i < count; i++)
        most = score[i] > most ? score[i] : most;
    uint64_t sum = 0;
    for (int64_t i = 0; i < count; i++) {
        score[i] = cpu_select_exp(score[i] - most); /* -inf - -inf is NaN, which gives 0 */
        sum += cpu_mass(score[i]);
    }
    return sum;
}

void cpu_softmax(float *score, int64_t count)
{
    const uint64_t sum = cpu_softmax_terms(score, count);
    if (sum == 0)
        return;
    /* Dividing the terms, not their masses, keeps probabilities below 2^-27 apart from zero. */
    const float total = (float)sum * 0x1p-27F;
    for (int64_t i = 0; i < count; i++)
        score[i] /= total;
}

/* Merges the sorted runs from[0, middle) and from[middle, count). */
static void merge(const float *score, const int32_t *from, int32_t *to, int64_t middle, int64_t count)
{
    int64_t left = 0, right = middle;
    for (int64_t i = 0; i < count; i++) {
        const int take_left = right == count || (left < middle && score[from[left]] >= score[from[right]]);
        to[i] = take_left ? from[left++] : from[right++];
    }
}

void cpu_sort_falling(const float *score, int32_t *index, int32_t *spare, int64_t count)
{
    int32_t *from = index, *to = spare;
    for (int64_t run = 1; run < count; run *= 2) {
        for (int64_t begin = 0; begin < count; begin += 2 * run) {
            const int64_t length = count - begin < 2 * run ? count - begin : 2 * run;
            merge(score, from + begin, to + begin, run < length ? run : length, length);
        }
        int32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != index)
        memcpy(index, from, (size_t)count * sizeof *index);
}
