/* The exponentials in pairs of 16 bits (kernels/cuda/sm90/packed_exp.cuh) against exp2 in double, for every score that can
 * matter at many scales. Runs on the host: what the header takes from the GPU is made here, from its definition. Needs no
 * GPU. */
extern "C" { /* which cmocka.h does not say itself */
#include "check.h"
}

#include <math.h>
#include <stdint.h>
#include <string.h>

#define __device__
#define __forceinline__ inline
#define SPARGE_PTX_PACKED_CUH /* below is what it has */

static double f16_value(uint32_t bits)
{
    const int exponent = static_cast<int>(bits >> 10 & 31), mantissa = static_cast<int>(bits & 1023);
    const double size = exponent == 0    ? ldexp(mantissa, -24)
                        : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                         : ldexp(1024 + mantissa, exponent - 25);
    return bits & 0x8000 ? -size : size;
}

/* The nearest f16, ties to even. */
static uint32_t f16_of(double x)
{
    const uint32_t sign = signbit(x) ? 0x8000 : 0;
    const double size = fabs(x);
    int exponent;
    if (size >= 65520)
        return sign | 0x7c00;
    frexp(size, &exponent);
    const int step = exponent - 11 > -24 ? exponent - 11 : -24; /* log2 of the distance of numbers there */
    const double steps = nearbyint(ldexp(size, -step));
    return sign | (step == -24 ? static_cast<uint32_t>(steps)
                               : static_cast<uint32_t>((step + 24) << 10) + static_cast<uint32_t>(steps));
}

static double e4m3_value(uint32_t code)
{
    const int exponent = static_cast<int>(code >> 3 & 15), mantissa = static_cast<int>(code & 7);
    return exponent == 0 ? ldexp(mantissa, -9) : ldexp(8 + mantissa, exponent - 10);
}

/* The nearest e4m3 of a number that is not negative, ties to even. */
static uint32_t e4m3_of(double x)
{
    uint32_t best = 0;
    for (uint32_t code = 1; code <= 126; code++) {
        const double nearer = fabs(e4m3_value(code) - x) - fabs(e4m3_value(best) - x);
        if (nearer < 0 || (nearer == 0 && code % 2 == 0))
            best = code;
    }
    return best;
}

namespace sparge::ptx
{
static uint32_t fma_f16x2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d = 0;
    for (int shift = 0; shift < 32; shift += 16) /* exact in double */
        d |= f16_of(f16_value(a >> shift & 0xffff) * f16_value(b >> shift & 0xffff) + f16_value(c >> shift & 0xffff))
             << shift;
    return d;
}
static uint32_t f16x2_of(float x)
{
    return f16_of(static_cast<double>(x)) * 0x10001u;
}
static float reciprocal(float x)
{
    return 1 / x;
}
static uint32_t e4m3x4_of_f16(uint32_t low, uint32_t high)
{
    return e4m3_of(f16_value(low & 0xffff)) | e4m3_of(f16_value(low >> 16)) << 8 |
           e4m3_of(f16_value(high & 0xffff)) << 16 | e4m3_of(f16_value(high >> 16)) << 24;
}
} // namespace sparge::ptx

static uint32_t __byte_perm(uint32_t x, uint32_t y, uint32_t selector)
{
    const uint64_t bytes = static_cast<uint64_t>(y) << 32 | x;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++)
        result |= static_cast<uint32_t>(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return result;
}

static uint32_t of_halves(uint32_t a, uint32_t b, int (*operation)(int, int))
{
    const int low = operation(static_cast<int16_t>(a), static_cast<int16_t>(b));
    const int high = operation(static_cast<int16_t>(a >> 16), static_cast<int16_t>(b >> 16));
    return (static_cast<uint32_t>(low) & 0xffff) | static_cast<uint32_t>(high) << 16;
}
static int larger(int a, int b)
{
    return a > b ? a : b;
}
static int sum(int a, int b)
{
    return static_cast<int16_t>(a + b);
}
static uint32_t __vmaxs2(uint32_t a, uint32_t b)
{
    return of_halves(a, b, larger);
}
static int smaller(int a, int b)
{
    return a < b ? a : b;
}
static uint32_t __vmins2(uint32_t a, uint32_t b)
{
    return of_halves(a, b, smaller);
}
static uint32_t __vimax3_s16x2(uint32_t a, uint32_t b, uint32_t c)
{
    return __vmaxs2(__vmaxs2(a, b), c);
}
static uint32_t __viaddmax_s16x2(uint32_t a, uint32_t b, uint32_t c)
{
    return __vmaxs2(of_halves(a, b, sum), c);
}
static bool __all_sync(unsigned, bool x)
{
    return x;
}
static bool __any_sync(unsigned, bool x)
{
    return x;
}
static uint32_t max(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}
static uint32_t __float_as_uint(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

#include "cuda/sm90/packed_exp.cuh"

using sparge::sm90::exponential;
using sparge::sm90::packed_form;
using sparge::sm90::packed_turn;

static const float p_exponent = 6; /* as in the kernel */

/* Of the score S = 256 y + 128, in the middle of what S >> 8 cuts off, so that the cut itself is no error: the weight, what it
 * was rounded from, and the row's largest. */
struct weight {
    double rounded, value;
    uint32_t largest;
};

template <exponential Form> static weight weight_of(const packed_turn<Form, 1> &turn, int y)
{
    const int32_t score = 256 * y + 128, scores[4] = {score, score, score, score};
    uint32_t largest = sparge::sm90::f16_ones;
    const uint32_t word = turn.word(0, 0, scores, largest), pair = turn.pair(0, 0, score, score);
    assert_int_equal(word, (word & 0xff) * 0x01010101u);
    const double rounded = e4m3_value(word & 0xff);
    if constexpr (Form == exponential::accurate)
        return {rounded, f16_value(turn.averaged(0, 0, pair) & 0xffff), largest};
    else
        return {rounded, rounded, largest};
}

template <exponential Form> static void check_row(float unit, float m, double least, double most)
{
    using form = packed_form<Form>;
    const float scale[1] = {unit / 256}, references[2] = {m, m};
    packed_turn<Form, 1> turn;
    if (!turn.holds(references, p_exponent) || !turn.start(scale, references, p_exponent))
        fail_msg("unit %g, m %g: refused", (double)unit, (double)m);
    const int first = static_cast<int>(floor((m - 40) / unit)), last = static_cast<int>(floor((m + 4) / unit));
    double before = 0;
    for (int y = first; y <= last && y < 8192; y++) {
        if (y < -8192)
            continue;
        const double exponent = (double)unit * (y + 0.5) - (double)m + (double)p_exponent;
        const struct weight made = weight_of(turn, y);
        const double weight = made.rounded, exact = exp2(exponent), value = made.value;
        const uint32_t largest = made.largest;
        const bool above = turn.above(largest, sparge::sm90::f16_ones);
        if (turn.above(turn.bounded(largest), sparge::sm90::f16_ones) || (!above && turn.bounded(largest) != largest))
            fail_msg("unit %g, m %g, y %d: bounded to %x", (double)unit, (double)m, y, turn.bounded(largest));
        if (exponent > 8.95 && !above)
            fail_msg("unit %g, m %g, y %d: 2^%g passes for a weight that P can be", (double)unit, (double)m, y,
                     exponent);
        if (exponent < 8.6 && above)
            fail_msg("unit %g, m %g, y %d: 2^%g is called too large", (double)unit, (double)m, y, exponent);
        if (above)
            break;
        if (weight < before)
            fail_msg("unit %g, m %g, y %d: the weight falls to %g", (double)unit, (double)m, y, weight);
        before = weight;
        if (exponent < form::low - 0.1 && weight != 0)
            fail_msg("unit %g, m %g, y %d: 2^%g is %g, not 0", (double)unit, (double)m, y, exponent, weight);
        if (exponent > -5.9 && !(value >= exact * least && value <= exact * most))
            fail_msg("unit %g, m %g, y %d: 2^%g is %g, off by %g", (double)unit, (double)m, y, exponent, value,
                     value / exact - 1);
        if (exponent > form::low + 0.2 && exponent < 8 &&
            fabs((double)turn.exponent_of(largest) - exponent) > 0.6 / (double)form::steps + (double)unit + 0.01)
            fail_msg("unit %g, m %g, y %d: the exponent %g is read as %g", (double)unit, (double)m, y, exponent,
                     (double)turn.exponent_of(largest));
    }
}

template <exponential Form> static void check_form(double least, double most)
{
    using form = packed_form<Form>;
    for (int i = 0; i <= 12; i++) {
        float unit = form::least_unit * powf(form::most_unit / form::least_unit, static_cast<float>(i) / 12);
        unit = fminf(fmaxf(unit, form::least_unit), form::most_unit);
        for (int j = -6; j <= 6; j++)
            check_row<Form>(unit, 7.3f * static_cast<float>(j) + 0.37f * static_cast<float>(i), least, most);
    }
}

/* 0.75 % of the two mantissas, half a step of z and a quarter of the slope's rounding (in 51.2 steps an octave), a few of the
 * base's in 1024. */
static void accurate_weights_are_within_two_percent(void **state)
{
    (void)state;
    check_form<exponential::accurate>(0.98, 1.02);
}

/* A straight mantissa (-0 / +6.1 %), half a code (4.4 %), and y_low rounded to a unit of at most an eighth of an octave, half
 * of which is left, as is half of the middle of what is cut off: factors that a row's sum has as well. */
static void fast_weights_are_within_a_code(void **state)
{
    (void)state;
    check_form<exponential::fast>(0.85, 1.22);
}

template <exponential Form> static void check_refusals()
{
    using form = packed_form<Form>;
    static const float good[2] = {0, 0};
    const float units[] = {form::least_unit * 0.999f, form::most_unit * 1.001f, 0, -form::most_unit, NAN, INFINITY};
    packed_turn<Form, 1> turn;
    for (const float unit : units) {
        const float scale[1] = {unit / 256};
        assert_false(turn.start(scale, good, p_exponent));
    }
    const float bounds[] = {form::least_unit, form::most_unit};
    for (const float unit : bounds) {
        const float scale[1] = {unit / 256};
        assert_true(turn.start(scale, good, p_exponent));
    }
    assert_true(turn.holds(good, p_exponent));
    const float references[] = {-INFINITY, INFINITY, NAN, 20000 * form::most_unit, -20000 * form::most_unit};
    for (const float m : references) {
        const float low[2] = {0, m}, high[2] = {m, 0};
        assert_false(turn.holds(low, p_exponent));
        assert_false(turn.holds(high, p_exponent));
    }
}

static void what_pairs_cannot_hold_is_refused(void **state)
{
    (void)state;
    check_refusals<exponential::accurate>();
    check_refusals<exponential::fast>();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accurate_weights_are_within_two_percent),
        cmocka_unit_test(fast_weights_are_within_a_code),
        cmocka_unit_test(what_pairs_cannot_hold_is_refused),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
