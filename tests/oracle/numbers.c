/* Binary formats by their definition: sign, exponent, mantissa. Encoding searches the ordered list of positive codes for
 * the two neighbours of a value, so that it depends on nothing but decoding. */
#include "oracle/oracle.h"

#include <math.h>
#include <string.h>

typedef struct layout {
    int exponent_bits, mantissa_bits, bias;
    uint32_t largest; /* largest finite positive code */
} layout;

static layout layout_of(oracle_format format)
{
    switch (format) {
    case ORACLE_F16:
        return (layout){5, 10, 15, 0x7bff};
    case ORACLE_BF16:
        return (layout){8, 7, 127, 0x7f7f};
    case ORACLE_E4M3:
        break;
    }
    return (layout){4, 3, 7, 0x7e};
}

/* 2^exponent, for normal doubles; ldexp is too slow for millions of codes. */
static double power_of_two(int exponent)
{
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Value of a positive code, continued past the largest finite one as if the exponent had no special values. */
static double magnitude(layout f, uint32_t code)
{
    int exponent = (int)(code >> f.mantissa_bits);
    double mantissa = (double)(code & ((1u << f.mantissa_bits) - 1u));

    if (exponent == 0)
        return mantissa * power_of_two(1 - f.bias - f.mantissa_bits);
    return (mantissa + power_of_two(f.mantissa_bits)) * power_of_two(exponent - f.bias - f.mantissa_bits);
}

double oracle_decode(oracle_format format, uint32_t code)
{
    layout f = layout_of(format);
    uint32_t sign = 1u << (f.exponent_bits + f.mantissa_bits);
    uint32_t positive = code & (sign - 1u);
    double value;

    if (positive <= f.largest)
        value = magnitude(f, positive);
    else if (format != ORACLE_E4M3 && positive == f.largest + 1u)
        value = INFINITY;
    else
        return NAN;
    return (code & sign) ? -value : value;
}

uint32_t oracle_encode(oracle_format format, double value)
{
    layout f = layout_of(format);
    uint32_t sign = signbit(value) ? 1u << (f.exponent_bits + f.mantissa_bits) : 0u;
    uint32_t below = 0, above = f.largest + 1u;
    double x = fabs(value), middle;

    if (isnan(value))
        return sign | (f.largest + (format == ORACLE_E4M3 ? 1u : 2u));
    if (x >= magnitude(f, above))
        return sign | (format == ORACLE_E4M3 ? f.largest : above);

    /* below <= x < above */
    while (above - below > 1u) {
        uint32_t code = below + (above - below) / 2u;
        if (magnitude(f, code) <= x)
            below = code;
        else
            above = code;
    }
    middle = (magnitude(f, below) + magnitude(f, above)) / 2.0; /* exact: one more bit than the format has */
    if (x > middle || (x == middle && (below & 1u)))
        below = above;
    if (format == ORACLE_E4M3 && below > f.largest)
        below = f.largest;
    return sign | below;
}

double oracle_round(oracle_format format, double value)
{
    return oracle_decode(format, oracle_encode(format, value));
}

double oracle_unit_roundoff(oracle_format format)
{
    return ldexp(1.0, -layout_of(format).mantissa_bits - 1);
}

double oracle_subnormal_roundoff(oracle_format format)
{
    layout f = layout_of(format);
    return ldexp(1.0, -f.bias - f.mantissa_bits);
}
