/* One normal variate from 32 random bits, by inversion, in correctly rounded binary32 operations only: add, subtract,
 * multiply, divide, square root and integer conversion (ieee.h): the same bits everywhere.
 *
 * Bit 31 is the sign. The other 31 bits m give the tail probability p = (m + 1/2) / 2^32, in (0, 1/2), and the variate
 * is x with P(X > x) = p. Two steps:
 *     w = -ln p        from the exponent of p and 2 atanh((f - 1) / (f + 1)) for its fraction f in [sqrt 1/2, sqrt 2)
 *     x = P(sqrt w)    x is nearly linear in sqrt w; two polynomials of degree 8, on sqrt w < 2 and above
 * The polynomials interpolate x at the Chebyshev points of their interval (error of each below 2.3e-7, of the whole in
 * binary32 below 1e-6). The tails are those of the normal distribution up to the largest variate, 6.34. */
#ifndef SPARGE_GENERATE_NORMAL_H
#define SPARGE_GENERATE_NORMAL_H

#include <stdint.h>
#include <string.h>

#include "generate/ieee.h"

static inline SPARGE_HOST_DEVICE float normal_from_bits(uint32_t bits)
{
    const float inner[9] = {1.03225047f,   1.77301929f,    -0.170684339f, 0.0885409183f,  -0.0484176754f,
                            0.0270057757f, -0.0169284113f, 0.0134270017f, -0.00683758866f};
    const float outer[9] = {4.23750369f,     1.51599826f,      -0.0224760121f,  0.00527619932f,  -0.00127862071f,
                            0.000305524852f, -7.78218206e-05f, 2.78629318e-05f, -6.98782841e-06f};
    const uint32_t sqrt_half = 0x3f3504f3u; /* the bits of sqrt(1/2) */

    float scaled = (float)(bits << 1 | 1u); /* 2^33 p */
    uint32_t word;
    memcpy(&word, &scaled, sizeof word);
    word -= sqrt_half;
    int32_t exponent = (int32_t)(word >> 23);
    word = (word & 0x007fffffu) + sqrt_half;
    float fraction;
    memcpy(&fraction, &word, sizeof fraction);

    float s = ieee_quotient(fraction - 1.0f, fraction + 1.0f);
    float z = ieee_product(s, s);
    float log_fraction = 2.0f / 9;
    log_fraction = ieee_product(z, log_fraction) + 2.0f / 7;
    log_fraction = ieee_product(z, log_fraction) + 2.0f / 5;
    log_fraction = ieee_product(z, log_fraction) + 2.0f / 3;
    log_fraction = ieee_product(z, log_fraction) + 2.0f;
    log_fraction = ieee_product(s, log_fraction);
    float root = ieee_root(ieee_product((float)(33 - exponent), 0.693147181f) - log_fraction);

    const int is_inner = root < 2.0f;
    float t = root - (is_inner ? 1.375f : 3.375f);
    float x = is_inner ? inner[8] : outer[8];
    for (int i = 7; i >= 0; i--)
        x = ieee_product(x, t) + (is_inner ? inner[i] : outer[i]);
    return bits >> 31 ? -x : x;
}

/* Uniform in [-1, 1) from the upper 24 bits; exact in binary32. */
static inline SPARGE_HOST_DEVICE float uniform_from_bits(uint32_t bits)
{
    return ieee_product((float)(bits >> 8), 0x1p-23f) - 1.0f;
}

#endif
