/* Exponentials on pairs of 16-bit numbers, for INT8 scores and P in e4m3: no conversion and no ex2, and two weights an
 * instruction where an f32 form takes one.
 *
 * A score in octaves is unit y, y = S >> 8 (exact in 16 bits: |S| <= 127^2 D < 2^21) and unit the octaves of 256 of S. With
 * y_low the y of the exponent `low` of the row's smallest weight, u = max(y - y_low, 0) is a small integer, and, as the bits
 * of an f16, u 2^-24: subnormal numbers and the first normal ones lie on one line up to u = 2048. So one FMA,
 *
 *     (unit steps 2^14) (u 2^-24) + 1 = 1 + z 2^-10,
 *
 * rounds u to the integer z, in `steps` an octave, in the low ten bits. From z
 *
 *   fast       z is the e4m3 code of a power of two with a straight mantissa, -0 / +6.1 % from it: P.
 *   accurate   h = 1024 / steps z + base, base for where y_low lies between integers, holds the bits of an f16 A of the same
 *              kind; B, of bits h + 512, half an octave on, errs the other way where A errs most, and A + B / sqrt(2) is
 *              within 0.75 % of one line. Rounded to e4m3.
 *
 * Cutting S off after bit 8 adds an error of unit / sqrt(12) octaves rms, which decides how coarse `unit` may be; how fine, is
 * decided by u < 2048 having to reach from the largest weight to none. A turn whose units are outside of these bounds (start()
 * says so) is left to the exact form, and so are rows whose y_low 16 bits may not hold (holds()), and a turn where a weight is
 * larger than P may be (above()): then the row's reference has to be raised. */
#ifndef SPARGE_SM90_PACKED_EXP_CUH
#define SPARGE_SM90_PACKED_EXP_CUH

#include <stdint.h>

#include "../ptx/packed.cuh"

namespace sparge::sm90
{

/* The exponential of a kernel: sparge_exp (methods/recipe.h). */
enum class exponential { exact, accurate, fast };

/* low: exponent of z = 0. most: z of the largest exponent that P may have, 8.8. */
template <exponential Form> struct packed_form;
template <> struct packed_form<exponential::accurate> {
    static constexpr int factor = 20, most = 1013;
    static constexpr float steps = 1024.f / factor, low = -11, least_unit = 1023 / steps / 2047, most_unit = 0.0625f;
};
template <> struct packed_form<exponential::fast> {
    static constexpr int most = 126;
    static constexpr float steps = 8, low = -7, least_unit = most / steps / 2047, most_unit = 0.125f;
};

/* Adding it to a float of less than 2^22 leaves the nearest integer in the low bits. */
constexpr float round_bias = 12582912; /* 1.5 * 2^23 */
constexpr uint32_t f16_ones = 0x3c003c00u;

/* What turns a tile's scores of one row into weights. */
struct packed_row {
    uint32_t minus_low, base; /* pairs: -y_low; of `accurate`, base less what the bits of 1 give */
};

/* Of a turn whose tiles have Scales scales. Exponents are those of P, in log2 units; m is a row's reference, and `exponent`
 * that of P there. */
template <exponential Form, int Scales> struct packed_turn {
    using form = packed_form<Form>;
    packed_row row[Scales][2];
    uint32_t slope[Scales]; /* pair: of the FMA */

    /* Can 16 bits hold y_low of the two rows at every scale that start() takes? The same in a warp. */
    static __device__ __forceinline__ bool holds(const float (&m)[2], float exponent)
    {
        constexpr float most_reach = 16384 * form::least_unit;
        return __all_sync(~0u, fabsf(exponent - form::low - m[0]) < most_reach &&
                                   fabsf(exponent - form::low - m[1]) < most_reach);
    }

    /* scale: octaves a unit of S, the thread's. False: not possible, the same in a warp. holds(m, exponent) must be true. */
    __device__ __forceinline__ bool start(const float (&scale)[Scales], const float (&m)[2], float exponent)
    {
        constexpr float cut = 256, bits_per_cut = 1024 * cut;
        bool fits = true;
        float reach[2], bits_at_zero[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            reach[h] = fmaf(m[h], -1 / cut, (exponent - form::low) / cut);
            /* The exponent of y is unit (y + 1/2) - m + exponent: the middle of what was cut off. 15: the f16 exponent's
             * offset; -1.054: A + B / sqrt(2) is 2.076 times the power of two. */
            bits_at_zero[h] = fmaf(-1024.f, m[h], 1024 * (exponent + 15 - 1.054f) + round_bias);
        }
#pragma unroll
        for (int x = 0; x < Scales; x++) {
            fits = fits && scale[x] >= form::least_unit / cut && scale[x] <= form::most_unit / cut;
            slope[x] = ptx::f16x2_of(scale[x] * (cut * form::steps * 16384));
            const float per_scale = ptx::reciprocal(scale[x]);
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float rounded = fmaf(reach[h], per_scale, round_bias); /* - y_low */
                row[x][h].minus_low = twice_low_half(rounded);
                row[x][h].base = 0;
                if constexpr (Form == exponential::accurate) {
                    const float low = fmaf(rounded, -bits_per_cut, round_bias * bits_per_cut); /* exact */
                    const float bits = fmaf(scale[x], low, fmaf(scale[x], bits_per_cut / 2, bits_at_zero[h]));
                    row[x][h].base = (__float_as_uint(bits) - __float_as_uint(round_bias)) * 0x10001u -
                                     f16_ones * static_cast<uint32_t>(form::factor);
                }
            }
        }
#pragma unroll
        for (int x = 0; x < Scales; x++)
#pragma unroll
            for (int h = 0; h < 2; h++) /* now: the compiler would put it off until S is there */
                asm volatile("" : "+r"(row[x][h].minus_low), "+r"(row[x][h].base), "+r"(slope[x]));
        return __all_sync(~0u, fits);
    }

    /* Four neighbouring scores of scale x, row h, in pairs -> weights in e4m3. largest: the row's z so far, as pairs of
     * 1 + z 2^-10. */
    __device__ __forceinline__ uint32_t word(int x, int h, const int32_t (&s)[4], uint32_t &largest) const
    {
        const uint32_t first = pair(x, h, s[0], s[1]), second = pair(x, h, s[2], s[3]);
        largest = __vimax3_s16x2(largest, first, second);
        if constexpr (Form == exponential::accurate)
            return ptx::e4m3x4_of_f16(averaged(x, h, first), averaged(x, h, second));
        else
            return __byte_perm(first, second, 0x6420);
    }

    /* Of two neighbouring scores, 1 + z 2^-10. */
    __device__ __forceinline__ uint32_t pair(int x, int h, int32_t first, int32_t second) const
    {
        const uint32_t y = __byte_perm(static_cast<uint32_t>(first), static_cast<uint32_t>(second), 0x6521);
        return ptx::fma_f16x2(__viaddmax_s16x2(y, row[x][h].minus_low, 0), slope[x], f16_ones);
    }

    /* Of `accurate`: the f16 to be rounded. */
    __device__ __forceinline__ uint32_t averaged(int x, int h, uint32_t pair) const
    {
        const uint32_t half_octave = 512 * 0x10001u, inverse_sqrt2 = 0x39a839a8u;
        const uint32_t a = pair * form::factor + row[x][h].base;
        return ptx::fma_f16x2(a + half_octave, inverse_sqrt2, a);
    }

    /* Is one of the weights, the largest of the two rows, larger than P may be? The same in a warp. */
    static __device__ __forceinline__ bool above(uint32_t first, uint32_t second)
    {
        /* In the sign of either half. */
        const uint32_t signs = __vmaxs2(first, second) + (0x7fff7fffu - f16_ones - form::most * 0x10001u);
        return __any_sync(~0u, (signs & 0x80008000u) != 0);
    }

    /* The largest that is not above. */
    static __device__ __forceinline__ uint32_t bounded(uint32_t largest)
    {
        return __vmins2(largest, f16_ones + form::most * 0x10001u);
    }

    /* The exponent of the larger of a pair of 1 + z 2^-10. */
    static __device__ __forceinline__ float exponent_of(uint32_t largest)
    {
        const uint32_t z = max(largest & 0xffff, largest >> 16) - (f16_ones & 0xffff);
        return form::low + static_cast<float>(z) * (1 / form::steps);
    }

    static __device__ __forceinline__ uint32_t twice_low_half(float x)
    {
        return __byte_perm(__float_as_uint(x), 0, 0x1010);
    }
};

} // namespace sparge::sm90

#endif
