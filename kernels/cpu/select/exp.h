/* exp for selection: the same bits on every backend.
 *
 * For x <= 0, in f32, each operation rounded to nearest on its own (no fused multiply-add):
 *
 *   t = x * LOG2E + MAGIC       MAGIC = 1.5 * 2^23, so that t's low bits are k = round(x * log2 e)
 *   k = t - MAGIC
 *   r = (x - k * LN2_HIGH) - k * LN2_LOW         LN2_HIGH has 9 bits: k * LN2_HIGH is exact
 *   p = (((((((C7 * r + C6) * r + C5) * r + C4) * r + C3) * r + C2) * r + 1) * r + 1      Cn = 1 / n! in f32
 *   exp = p * 2^k
 *
 * x < -87 and NaN give 0, so no result is subnormal. Within 2 ulp of the true value; exp(0) = 1 exactly. */
#ifndef SPARGE_CPU_SELECT_EXP_H
#define SPARGE_CPU_SELECT_EXP_H

#include <stdint.h>
#include <string.h>

static inline float cpu_select_exp(float x)
{
    if (!(x >= -87.0F))
        return 0.0F;
    const float magic = 12582912.0F;
    const float t = x * 1.44269504F + magic;
    const float k = t - magic;
    float r = x - k * 0.693359375F;
    r = r - k * -2.12194440e-4F;
    float p = 1.98412698e-4F;
    p = p * r + 1.38888889e-3F;
    p = p * r + 8.33333333e-3F;
    p = p * r + 4.16666667e-2F;
    p = p * r + 1.66666667e-1F;
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    const uint32_t bits = (uint32_t)((int32_t)k + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

#endif
