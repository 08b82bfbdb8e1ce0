/* Arithmetic whose order and rounding are part of a definition (prepare/pool.h, prepare/quantise.h, select/numeric.h):
 * the bits are the same on every instruction set, and on the GPU. fmaf is one instruction where the set has it and a
 * call, slow and right, where it does not. Included by each isa_*.c. */
#ifndef SPARGE_CPU_SUMS_H
#define SPARGE_CPU_SUMS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sparge/tensor.h"

enum { SUM_LANES = 8 };

static void add_scaled(float *sum, const float *x, float factor, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] = fmaf(x[i], factor, sum[i]);
}

static float sum_squares(const float *x, size_t count)
{
    float eight[SPARGE_MAX_HEAD_DIM / SUM_LANES];
    size_t terms = count / SUM_LANES;
    for (size_t c = 0; c < terms; c++) {
        eight[c] = 0;
        for (size_t i = 0; i < SUM_LANES; i++)
            eight[c] = fmaf(x[c * SUM_LANES + i], x[c * SUM_LANES + i], eight[c]);
    }
    for (; terms > 1; terms /= 2)
        for (size_t c = 0; c < terms / 2; c++)
            eight[c] = eight[2 * c] + eight[2 * c + 1];
    return eight[0];
}

static float dot(const float *a, const float *b, size_t count)
{
    float lane[SUM_LANES] = {0};
    size_t i = 0;
    for (; i + SUM_LANES <= count; i += SUM_LANES)
        for (size_t l = 0; l < SUM_LANES; l++)
            lane[l] = fmaf(a[i + l], b[i + l], lane[l]);
    for (; i < count; i++)
        lane[i % SUM_LANES] = fmaf(a[i], b[i], lane[i % SUM_LANES]);
    float sum = lane[0];
    for (size_t l = 1; l < SUM_LANES; l++)
        sum += lane[l];
    return sum;
}

static void dots(float *to, const float *a, const float *rows, size_t count, size_t channels)
{
    for (size_t r = 0; r < count; r++)
        to[r] = dot(a, rows + r * channels, channels);
}

/* The sum with 1.5 * 2^23 has the nearest integer in its low bits. */
static void i8_from_f32(int8_t *to, const float *x, float inverse, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float sum = fmaf(x[i], inverse, 0x1.8p23f);
        int32_t bits;
        memcpy(&bits, &sum, sizeof bits);
        to[i] = (int8_t)(sum == sum ? (bits & 0xff) - 2 * (bits & 0x80) : -1);
    }
}

#endif
