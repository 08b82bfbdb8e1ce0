/* Element types, layouts and scalar conversions. */
#include "sparge/tensor.h"

#include <string.h>

size_t sparge_dtype_bytes(sparge_dtype dtype)
{
    switch (dtype) {
    case SPARGE_F16:
    case SPARGE_BF16:
        return 2;
    case SPARGE_F32:
        return 4;
    case SPARGE_F64:
        return 8;
    case SPARGE_I8:
    case SPARGE_E4M3:
        return 1;
    }
    return 0;
}

const char *sparge_dtype_name(sparge_dtype dtype)
{
    switch (dtype) {
    case SPARGE_F16:
        return "f16";
    case SPARGE_BF16:
        return "bf16";
    case SPARGE_F32:
        return "f32";
    case SPARGE_F64:
        return "f64";
    case SPARGE_I8:
        return "i8";
    case SPARGE_E4M3:
        return "e4m3";
    }
    return "?";
}

static sparge_tensor view(void *data, sparge_dtype dtype, int64_t batch, int64_t heads, int64_t tokens,
                          int64_t channels)
{
    sparge_tensor tensor = {.data = data, .dtype = dtype, .shape = {batch, heads, tokens, channels}};
    tensor.stride[0] = heads * tokens * channels;
    tensor.stride[3] = 1;
    return tensor;
}

sparge_tensor sparge_tensor_hnd(void *data, sparge_dtype dtype, int64_t batch, int64_t heads, int64_t tokens,
                                int64_t channels)
{
    sparge_tensor tensor = view(data, dtype, batch, heads, tokens, channels);
    tensor.stride[1] = tokens * channels;
    tensor.stride[2] = channels;
    return tensor;
}

sparge_tensor sparge_tensor_nhd(void *data, sparge_dtype dtype, int64_t batch, int64_t heads, int64_t tokens,
                                int64_t channels)
{
    sparge_tensor tensor = view(data, dtype, batch, heads, tokens, channels);
    tensor.stride[1] = channels;
    tensor.stride[2] = heads * channels;
    return tensor;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Rounds value (as an integer significand) right by `shift` bits, to nearest, ties to even. 1 <= shift <= 31. */
static uint32_t shift_right_to_nearest_even(uint32_t value, uint32_t shift)
{
    uint32_t half = 1u << (shift - 1);
    uint32_t odd = (value >> shift) & 1u;
    return (value + half - 1u + odd) >> shift;
}

/* A minifloat of 4..5 exponent bits: sign | exponent | mantissa. Normal results come from rounding the float's own
 * exponent and mantissa together, so that a carry moves into the exponent; subnormal ones from shifting the
 * significand. `bits` is the float's magnitude; the result may exceed the largest finite value: the caller saturates. */
static uint32_t round_magnitude(uint32_t bits, int mantissa_bits, int bias)
{
    uint32_t drop = (uint32_t)(23 - mantissa_bits);
    int exponent = (int)(bits >> 23) - 127;
    if (exponent >= 1 - bias)
        return shift_right_to_nearest_even(bits, drop) - ((uint32_t)(127 - bias) << mantissa_bits);
    uint32_t shift = drop + (uint32_t)(1 - bias - exponent);
    if (shift > 25) /* below half of the smallest subnormal, float subnormals included */
        return 0;
    return shift_right_to_nearest_even((bits & 0x7fffffu) | 0x800000u, shift);
}

uint16_t sparge_f16_from_f32(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) /* NaN: quiet, keep what fits of the payload */
        return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
    if (magnitude >= 0x47800000u) /* >= 65536, infinity included */
        return (uint16_t)(sign | 0x7c00u);
    return (uint16_t)(sign | round_magnitude(magnitude, 10, 15)); /* 65520 and above carries into infinity */
}

float sparge_f32_from_f16(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t exponent = (bits >> 10) & 0x1fu;
    uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 0x1fu)
        return float_of(sign | 0x7f800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0));
    if (exponent == 0) {
        float magnitude = (float)mantissa * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return float_of(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

uint16_t sparge_bf16_from_f32(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float sparge_f32_from_bf16(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

uint8_t sparge_e4m3_from_f32(float value)
{
    enum { LARGEST = 0x7e, NOT_A_NUMBER = 0x7f };
    uint32_t bits = bits_of(value);
    uint32_t sign = (bits >> 24) & 0x80u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint8_t)(sign | NOT_A_NUMBER);
    if (magnitude >= 0x43e00000u) /* >= 448, infinity included */
        return (uint8_t)(sign | LARGEST);
    uint32_t rounded = round_magnitude(magnitude, 3, 7);
    return (uint8_t)(sign | (rounded > LARGEST ? LARGEST : rounded));
}

float sparge_f32_from_e4m3(uint8_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x80u) << 24;
    uint32_t exponent = (bits >> 3) & 0xfu;
    uint32_t mantissa = bits & 0x7u;
    if (exponent == 0xfu && mantissa == 0x7u)
        return float_of(sign | 0x7fc00000u);
    if (exponent == 0) {
        float magnitude = (float)mantissa * 0x1p-9f;
        return sign ? -magnitude : magnitude;
    }
    return float_of(sign | ((exponent + 120u) << 23) | (mantissa << 20));
}
