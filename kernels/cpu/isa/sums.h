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

enum { SUM_GROUP = 8 };

static void add_scaled(float *sum, const float *x, float factor, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] = fmaf(x[i], factor, sum[i]);
}

static float sum_squares(const float *x, size_t count)
{
    float eight[SPARGE_MAX_HEAD_DIM / SUM_GROUP];
    size_t terms = count / SUM_GROUP;
    for (size_t c = 0; c < terms; c++) {
        eight[c] = 0;
        for (size_t i = 0; i < SUM_GROUP; i++)
            eight[c] = fmaf(x[c * SUM_GROUP + i], x[c * SUM_GROUP + i], eight[c]);
    }
    for (; terms > 1; terms /= 2)
        for (size_t c = 0; c < terms / 2; c++)
            eight[c] = eight[2 * c] + eight[2 * c + 1];
    return eight[0];
}

/* Eight rows at a time: one chain alone would wait for each of its steps. */
static void dots(float *to, const float *a, const float *rows, size_t count, size_t channels)
{
    size_t r = 0;
    for (; r + 8 <= count; r += 8) {
        float sum[8] = {0};
        for (size_t i = 0; i < channels; i++)
            for (size_t j = 0; j < 8; j++)
                sum[j] = fmaf(a[i], rows[(r + j) * channels + i], sum[j]);
        memcpy(to + r, sum, sizeof sum);
    }
    for (; r < count; r++) {
        to[r] = 0;
        for (size_t i = 0; i < channels; i++)
            to[r] = fmaf(a[i], rows[r * channels + i], to[r]);
    }
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
