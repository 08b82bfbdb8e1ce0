/* Conversions, roundings and the exponential on vectors; included by each isa_*.c.
 *
 * A narrow float type with b mantissa bits and smallest normal 2^e rounds as follows. Normal magnitudes: add half of
 * the dropped bits (less one, plus the last kept bit: ties to even) to the float's bits and clear them; a carry moves
 * into the exponent, as it should. Below 2^e the spacing is constant, 2^(e-b), which is the spacing of floats around
 * 2^(e-b+23): adding and subtracting that number rounds there, to nearest even. */
#ifndef SPARGE_CPU_CONVERT_H
#define SPARGE_CPU_CONVERT_H

#include "cpu/isa/vector.h"

#include <math.h>
#include <stddef.h>

enum { F32_MAGNITUDE = 0x7fffffff, F32_INFINITY = 0x7f800000 };

static inline vec round_dropping(vec magnitude, int drop)
{
    const ivec bits = vec_bits(magnitude);
    const ivec odd = ivec_and(ivec_shr(bits, drop), ivec_set(1));
    const ivec rounded = ivec_add(ivec_add(bits, ivec_set((1 << (drop - 1)) - 1)), odd);
    return vec_from_bits(ivec_and(rounded, ivec_set(-(1 << drop))));
}

static inline ivec sign_of(ivec bits)
{
    return ivec_and(bits, ivec_set(INT32_MIN));
}

/* Lanes that are NaN, given the bits of the magnitude. */
static inline vmask is_nan_bits(ivec magnitude)
{
    return ivec_gt(magnitude, ivec_set(F32_INFINITY));
}

static inline vec round_to_e4m3(vec x)
{
    const ivec bits = vec_bits(x);
    const ivec magnitude_bits = ivec_and(bits, ivec_set(F32_MAGNITUDE));
    const vec magnitude = vec_from_bits(magnitude_bits);
    const vec normal = round_dropping(magnitude, 20);
    const vec spacing = vec_set(0x1p14f); /* around 2^14 floats are 2^-9 apart, like e4m3's subnormals */
    const vec subnormal = vec_sub(vec_add(magnitude, spacing), spacing);
    vec rounded = vec_select(vec_lt(magnitude, vec_set(0x1p-6f)), subnormal, normal);
    rounded = vec_select(vec_lt(rounded, vec_set(448.0f)), rounded, vec_set(448.0f));
    rounded = vec_select(is_nan_bits(magnitude_bits), magnitude, rounded);
    return vec_from_bits(ivec_or(vec_bits(rounded), sign_of(bits)));
}

static inline vec round_to_bf16(vec x)
{
    const ivec bits = vec_bits(x);
    const vec rounded = round_dropping(x, 16);
    return vec_select(is_nan_bits(ivec_and(bits, ivec_set(F32_MAGNITUDE))), x, rounded);
}

#if !VEC_HAS_F16
static inline vec vec_round_f16(vec x)
{
    const ivec bits = vec_bits(x);
    const ivec magnitude_bits = ivec_and(bits, ivec_set(F32_MAGNITUDE));
    const vec magnitude = vec_from_bits(magnitude_bits);
    const vec normal = round_dropping(magnitude, 13);
    const vec spacing = vec_set(0.5f); /* around 1/2 floats are 2^-24 apart, like f16's subnormals */
    const vec subnormal = vec_sub(vec_add(magnitude, spacing), spacing);
    vec rounded = vec_select(vec_lt(magnitude, vec_set(0x1p-14f)), subnormal, normal);
    rounded = vec_select(vec_lt(rounded, vec_set(65536.0f)), rounded, vec_set(INFINITY));
    rounded = vec_select(is_nan_bits(magnitude_bits), magnitude, rounded);
    return vec_from_bits(ivec_or(vec_bits(rounded), sign_of(bits)));
}

/* f16 -> f32: the bits moved to their place are the value times 2^-112, subnormals included. */
static inline vec vec_load_f16(const uint16_t *p)
{
    const ivec bits = ivec_load_u16(p);
    const ivec magnitude = ivec_shl(ivec_and(bits, ivec_set(0x7fff)), 13);
    const vec finite = vec_mul(vec_from_bits(magnitude), vec_set(0x1p112f));
    const ivec special = ivec_or(magnitude, ivec_set(F32_INFINITY));
    const ivec value = ivec_select(ivec_gt(magnitude, ivec_set((0x7c00 << 13) - 1)), special, vec_bits(finite));
    return vec_from_bits(ivec_or(value, ivec_shl(ivec_and(bits, ivec_set(0x8000)), 16)));
}

static inline void vec_store_f16(uint16_t *p, vec x)
{
    const ivec sign = ivec_shr(sign_of(vec_bits(x)), 16);
    const ivec rounded = ivec_and(vec_bits(vec_round_f16(x)), ivec_set(F32_MAGNITUDE));
    const vec shifted = vec_mul(vec_from_bits(rounded), vec_set(0x1p-112f));
    ivec bits = ivec_shr(vec_bits(shifted), 13);
    bits = ivec_select(ivec_gt(rounded, ivec_set(F32_INFINITY - 1)), ivec_set(0x7c00), bits);
    bits = ivec_select(is_nan_bits(rounded), ivec_set(0x7e00), bits);
    ivec_store_u16(p, ivec_or(bits, sign));
}
#endif

static inline vec vec_load_bf16(const uint16_t *p)
{
    return vec_from_bits(ivec_shl(ivec_load_u16(p), 16));
}

static inline void vec_store_bf16(uint16_t *p, vec x)
{
    const ivec bits = vec_bits(x);
    const ivec rounded = ivec_shr(vec_bits(round_dropping(x, 16)), 16);
    const ivec quiet = ivec_or(ivec_shr(bits, 16), ivec_set(0x40));
    ivec_store_u16(p, ivec_select(is_nan_bits(ivec_and(bits, ivec_set(F32_MAGNITUDE))), quiet, rounded));
}

static inline vec vec_load_i8(const int8_t *p)
{
    return vec_from_ivec(ivec_load_i8(p));
}

/* e4m3 -> f32: as for f16; the only special values are NaN, 0x7f and 0xff. */
static inline vec vec_load_e4m3(const uint8_t *p)
{
    const ivec bits = ivec_load_u8(p);
    const ivec code = ivec_and(bits, ivec_set(0x7f));
    const vec finite = vec_mul(vec_from_bits(ivec_shl(code, 20)), vec_set(0x1p120f));
    const ivec value = ivec_select(ivec_gt(code, ivec_set(0x7e)), ivec_set(0x7fc00000), vec_bits(finite));
    return vec_from_bits(ivec_or(value, ivec_shl(ivec_and(bits, ivec_set(0x80)), 24)));
}

static inline void vec_store_e4m3(uint8_t *p, vec x)
{
    const ivec sign = ivec_shr(sign_of(vec_bits(x)), 24);
    const ivec rounded = ivec_and(vec_bits(round_to_e4m3(x)), ivec_set(F32_MAGNITUDE));
    const ivec code = ivec_shr(vec_bits(vec_mul(vec_from_bits(rounded), vec_set(0x1p-120f))), 20);
    const ivec bits = ivec_or(ivec_select(is_nan_bits(rounded), ivec_set(0x7f), code), sign);
    int32_t lanes[VEC_LANES];
    memcpy(lanes, &bits, sizeof lanes);
    for (int i = 0; i < VEC_LANES; i++)
        p[i] = (uint8_t)lanes[i];
}

/* 2^x = 2^n * 2^f with n = round(x) and |f| <= 1/2. The polynomial is the minimax one of degree 6 for 2^f with constant
 * term 1 (so that 2^0 = 1); its relative error with these float coefficients is 1.6e-8. Adding 1.5 * 2^23 leaves n in
 * the low bits. Results below 2^-126 are flushed to 0; they round to 0 in f16 and e4m3 anyway. */
static inline vec vec_exp2(vec x)
{
    const vec magic = vec_set(0x1.8p23f);
    const vec shifted = vec_add(x, magic);
    const vec f = vec_sub(x, vec_sub(shifted, magic));
    vec p = vec_set(0x1.41fbbcp-13f);
    p = vec_fma(p, f, vec_set(0x1.5f3e52p-10f));
    p = vec_fma(p, f, vec_set(0x1.3b2d4cp-7f));
    p = vec_fma(p, f, vec_set(0x1.c6aee8p-5f));
    p = vec_fma(p, f, vec_set(0x1.ebfbdcp-3f));
    p = vec_fma(p, f, vec_set(0x1.62e43p-1f));
    p = vec_fma(p, f, vec_set(1.0f));
    const ivec two_to_n = ivec_add(ivec_shl(vec_bits(shifted), 23), ivec_set(0x3f800000));
    return vec_select(vec_lt(x, vec_set(-126.0f)), vec_set(0.0f), vec_mul(p, vec_from_bits(two_to_n)));
}

/* Array forms. The last, partial vector goes through a small buffer, so that nothing beyond `count` is touched. */

#define CONVERT_TO_F32(name, type, load)                                                                               \
    static void name(float *to, const type *from, size_t count)                                                        \
    {                                                                                                                  \
        size_t i = 0;                                                                                                  \
        for (; i + VEC_LANES <= count; i += VEC_LANES)                                                                 \
            vec_store(to + i, load(from + i));                                                                         \
        if (i < count) {                                                                                               \
            type in[VEC_LANES] = {0};                                                                                  \
            float out[VEC_LANES];                                                                                      \
            memcpy(in, from + i, (count - i) * sizeof *in);                                                            \
            vec_store(out, load(in));                                                                                  \
            memcpy(to + i, out, (count - i) * sizeof *out);                                                            \
        }                                                                                                              \
    }

#define CONVERT_FROM_F32(name, type, store)                                                                            \
    static void name(type *to, const float *from, size_t count)                                                        \
    {                                                                                                                  \
        size_t i = 0;                                                                                                  \
        for (; i + VEC_LANES <= count; i += VEC_LANES)                                                                 \
            store(to + i, vec_load(from + i));                                                                         \
        if (i < count) {                                                                                               \
            float in[VEC_LANES] = {0};                                                                                 \
            type out[VEC_LANES];                                                                                       \
            memcpy(in, from + i, (count - i) * sizeof *in);                                                            \
            store(out, vec_load(in));                                                                                  \
            memcpy(to + i, out, (count - i) * sizeof *out);                                                            \
        }                                                                                                              \
    }

#define CONVERT_IN_PLACE(name, function)                                                                               \
    static void name(float *values, size_t count)                                                                      \
    {                                                                                                                  \
        size_t i = 0;                                                                                                  \
        for (; i + VEC_LANES <= count; i += VEC_LANES)                                                                 \
            vec_store(values + i, function(vec_load(values + i)));                                                     \
        if (i < count) {                                                                                               \
            float some[VEC_LANES] = {0};                                                                               \
            memcpy(some, values + i, (count - i) * sizeof *some);                                                      \
            vec_store(some, function(vec_load(some)));                                                                 \
            memcpy(values + i, some, (count - i) * sizeof *some);                                                      \
        }                                                                                                              \
    }

CONVERT_TO_F32(f32_from_f16, uint16_t, vec_load_f16)
CONVERT_TO_F32(f32_from_bf16, uint16_t, vec_load_bf16)
CONVERT_TO_F32(f32_from_i8, int8_t, vec_load_i8)
CONVERT_TO_F32(f32_from_e4m3, uint8_t, vec_load_e4m3)
CONVERT_FROM_F32(f16_from_f32, uint16_t, vec_store_f16)
CONVERT_FROM_F32(bf16_from_f32, uint16_t, vec_store_bf16)
CONVERT_FROM_F32(e4m3_from_f32, uint8_t, vec_store_e4m3)
CONVERT_IN_PLACE(round_f16, vec_round_f16)
CONVERT_IN_PLACE(round_bf16, round_to_bf16)
CONVERT_IN_PLACE(round_e4m3, round_to_e4m3)
CONVERT_IN_PLACE(exp2_array, vec_exp2)

#undef CONVERT_TO_F32
#undef CONVERT_FROM_F32
#undef CONVERT_IN_PLACE

#endif
