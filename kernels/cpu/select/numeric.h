/* Numbers of selection: dot products in a fixed order, and probability masses as integers.
 *
 * Sums of masses are integer sums: they have no rounding and so no order, which is what makes masks bit-equal between
 * backends without a prescribed reduction. */
#ifndef SPARGE_CPU_SELECT_NUMERIC_H
#define SPARGE_CPU_SELECT_NUMERIC_H

#include <stdint.h>

#include "sparge/context.h"
#include "sparge/tensor.h"

enum { CPU_DOT_LANES = 8 };

/* Adds a[i] * b[i] to lane[i % 8], i ascending; multiply and add are rounded apart. */
static inline void cpu_dot_add(float lane[CPU_DOT_LANES], const float *a, const float *b, int32_t count)
{
    int32_t i = 0;
    for (; i + CPU_DOT_LANES <= count; i += CPU_DOT_LANES)
        for (int32_t l = 0; l < CPU_DOT_LANES; l++)
            lane[l] += a[i + l] * b[i + l];
    for (; i < count; i++)
        lane[i % CPU_DOT_LANES] += a[i] * b[i];
}

/* The lanes' sum: lane[l] += lane[l + h] for h = 4, 2, 1. */
static inline float cpu_dot_sum(float lane[CPU_DOT_LANES])
{
    for (int32_t half = CPU_DOT_LANES / 2; half >= 1; half /= 2)
        for (int32_t l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

static inline float cpu_dot(const float *a, const float *b, int32_t count)
{
    float lane[CPU_DOT_LANES] = {0};
    cpu_dot_add(lane, a, b, count);
    return cpu_dot_sum(lane);
}

/* Block scores: score[i] = (a . row i of rows[count][channels]) * scale, the dot product in the order of cpu_isa.dots. */
void cpu_scores(const sparge_context *context, float *score, const float *a, const float *rows, int64_t count,
                int32_t channels, float scale);

/* A value of [0, 1] in units of 2^-27, rounded down: 31 of them sum to less than 2^32, which a GPU thread relies on. */
static inline uint32_t cpu_mass(float value)
{
    return (uint32_t)(value * 0x1p27F);
}

/* Is a sum of masses below 2^52 at most, or less than, the part `share` of a total? */
static inline int cpu_mass_within(uint64_t sum, double share, uint64_t total)
{
    return (double)sum <= share * (double)total;
}

static inline int cpu_mass_below(uint64_t sum, double share, uint64_t total)
{
    return (double)sum < share * (double)total;
}

static inline float cpu_round16(float value, sparge_dtype dtype)
{
    return dtype == SPARGE_F16 ? sparge_f32_from_f16(sparge_f16_from_f32(value))
                               : sparge_f32_from_bf16(sparge_bf16_from_f32(value));
}

/* Turns scores[count] into exp(score - max) in place; -inf gives 0. Returns the sum of their masses; 0 if all are -inf. */
uint64_t cpu_softmax_terms(float *score, int64_t count);

/* The same, divided by the sum: the row's probabilities. */
void cpu_softmax(float *score, int64_t count);

/* Sorts index[count] by falling score[index], equal scores in the order given. spare[count]: workspace. */
void cpu_sort_falling(const float *score, int32_t *index, int32_t *spare, int64_t count);

#endif
