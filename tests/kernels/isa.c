/* Conversions, roundings and the exponential of every instruction set against the scalar functions of sparge/tensor.h
 * and libm: all 2^16 codes, and floats that cover every exponent, ties, subnormals, overflow and NaN. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/isa/isa.h"
#include "sparge/tensor.h"

enum { CODES = 1 << 16 };

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static int same_float(float a, float b)
{
    return isnan(a) ? isnan(b) != 0 : bits_of(a) == bits_of(b);
}

/* All upper halves of a float (sign, exponent, 7 bits of mantissa) with the lower halves in which 16-bit and 8-bit
 * roundings can differ: around ties of every width, and pseudo-random ones. */
enum { LOW_HALVES = 22, FLOATS = CODES * LOW_HALVES };

static float *dense_floats(void)
{
    static const uint16_t low[18] = {0x0000, 0x0001, 0x0fff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x2001, 0x3000,
                                     0x3001, 0x5000, 0x7000, 0x7fff, 0x8000, 0x8001, 0xf000, 0xf001, 0xffff};
    float *values = malloc(FLOATS * sizeof *values);
    assert_non_null(values);
    uint32_t random = 1;
    for (uint32_t high = 0; high < CODES; high++)
        for (uint32_t i = 0; i < LOW_HALVES; i++) {
            random = random * 1664525u + 1013904223u;
            values[high * LOW_HALVES + i] = float_of(high << 16 | (i < 18 ? low[i] : random >> 16));
        }
    return values;
}

static void codes_become_the_same_floats(void **state)
{
    (void)state;
    uint16_t *codes = malloc(CODES * sizeof *codes);
    float *floats = malloc(CODES * sizeof *floats);
    assert_non_null(codes);
    assert_non_null(floats);
    for (uint32_t i = 0; i < CODES; i++)
        codes[i] = (uint16_t)i;
    const cpu_isa *isa;
    for (int n = 0; (isa = cpu_isa_at(n)) != NULL; n++) {
        isa->f32_from_f16(floats, codes, CODES);
        for (uint32_t i = 0; i < CODES; i++)
            assert_true(same_float(floats[i], sparge_f32_from_f16(codes[i])));
        isa->f32_from_bf16(floats, codes, CODES);
        for (uint32_t i = 0; i < CODES; i++)
            assert_true(same_float(floats[i], sparge_f32_from_bf16(codes[i])));
        uint8_t bytes[256];
        for (int i = 0; i < 256; i++)
            bytes[i] = (uint8_t)i;
        isa->f32_from_e4m3(floats, bytes, 256);
        for (int i = 0; i < 256; i++)
            assert_true(same_float(floats[i], sparge_f32_from_e4m3(bytes[i])));
        int8_t integers[256];
        for (int i = 0; i < 256; i++)
            integers[i] = (int8_t)(i - 128);
        isa->f32_from_i8(floats, integers, 256);
        for (int i = 0; i < 256; i++)
            assert_true(floats[i] == (float)(i - 128));
    }
    free(codes);
    free(floats);
}

static void floats_become_the_same_codes(void **state)
{
    (void)state;
    float *values = dense_floats();
    uint16_t *half = malloc(FLOATS * sizeof *half), *brain = malloc(FLOATS * sizeof *brain);
    uint8_t *byte = malloc(FLOATS);
    assert_true(half && brain && byte);
    const cpu_isa *isa;
    for (int n = 0; (isa = cpu_isa_at(n)) != NULL; n++) {
        isa->f16_from_f32(half, values, FLOATS);
        isa->bf16_from_f32(brain, values, FLOATS);
        isa->e4m3_from_f32(byte, values, FLOATS);
        for (size_t i = 0; i < FLOATS; i++) {
            if (!same_float(sparge_f32_from_f16(half[i]), sparge_f32_from_f16(sparge_f16_from_f32(values[i]))) ||
                !same_float(sparge_f32_from_bf16(brain[i]), sparge_f32_from_bf16(sparge_bf16_from_f32(values[i]))) ||
                byte[i] != sparge_e4m3_from_f32(values[i]))
                fail_msg("%s: %a -> f16 %04x, bf16 %04x, e4m3 %02x", isa->name, (double)values[i], half[i], brain[i],
                         byte[i]);
        }
    }
    free(values);
    free(half);
    free(brain);
    free(byte);
}

static void rounding_equals_converting_there_and_back(void **state)
{
    (void)state;
    float *values = dense_floats(), *rounded = malloc(FLOATS * sizeof *rounded);
    assert_non_null(rounded);
    const cpu_isa *isa;
    for (int n = 0; (isa = cpu_isa_at(n)) != NULL; n++) {
        memcpy(rounded, values, FLOATS * sizeof *rounded);
        isa->round_f16(rounded, FLOATS);
        for (size_t i = 0; i < FLOATS; i++)
            assert_true(same_float(rounded[i], sparge_f32_from_f16(sparge_f16_from_f32(values[i]))));
        memcpy(rounded, values, FLOATS * sizeof *rounded);
        isa->round_bf16(rounded, FLOATS);
        for (size_t i = 0; i < FLOATS; i++)
            assert_true(same_float(rounded[i], sparge_f32_from_bf16(sparge_bf16_from_f32(values[i]))));
        memcpy(rounded, values, FLOATS * sizeof *rounded);
        isa->round_e4m3(rounded, FLOATS);
        for (size_t i = 0; i < FLOATS; i++)
            assert_true(same_float(rounded[i], sparge_f32_from_e4m3(sparge_e4m3_from_f32(values[i]))));
    }
    free(values);
    free(rounded);
}

/* Arrays whose length is no multiple of the vector: nothing beyond the end is written. */
static void odd_lengths_stay_inside(void **state)
{
    (void)state;
    const cpu_isa *isa;
    for (int n = 0; (isa = cpu_isa_at(n)) != NULL; n++)
        for (size_t count = 0; count < 40; count++) {
            uint16_t codes[48], back[48];
            float floats[48];
            for (int i = 0; i < 48; i++) {
                codes[i] = (uint16_t)(0x3c00 + i);
                back[i] = 0xabcd;
                floats[i] = -7.0f;
            }
            isa->f32_from_f16(floats, codes, count);
            isa->f16_from_f32(back, floats, count);
            for (size_t i = 0; i < 48; i++) {
                assert_true(floats[i] == (i < count ? sparge_f32_from_f16(codes[i]) : -7.0f));
                assert_int_equal(back[i], i < count ? codes[i] : 0xabcd);
            }
        }
}

static double ulp_of(double value)
{
    int exponent;
    frexp(value, &exponent);
    return ldexp(1.0, exponent - 24);
}

static void exponential_is_within_two_ulp(void **state)
{
    (void)state;
    enum { COUNT = 1 << 20 };
    float *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y);
    assert_true(x && y);
    for (int i = 0; i < COUNT; i++) /* -130..10, and densely around 0 */
        x[i] = i % 2 ? -130.0f + 140.0f * (float)i / COUNT : 1.5f * (float)(i - COUNT / 2) / COUNT;
    const float special[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, -0.5f, -126.0f, -INFINITY, NAN, -1e30f, 8.807f};
    memcpy(x, special, sizeof special);
    const cpu_isa *isa;
    for (int n = 0; (isa = cpu_isa_at(n)) != NULL; n++) {
        double worst = 0;
        memcpy(y, x, COUNT * sizeof *y);
        isa->exp2(y, COUNT);
        for (int i = 0; i < COUNT; i++) {
            if (isnan(x[i])) {
                assert_true(isnan(y[i]));
                continue;
            }
            if (x[i] < -126.0f) {
                assert_true(y[i] == 0.0f);
                continue;
            }
            const double exact = exp2((double)x[i]);
            const double ulps = fabs((double)y[i] - exact) / ulp_of(exact);
            worst = ulps > worst ? ulps : worst;
        }
        assert_true(y[0] == 1.0f && y[1] == 1.0f && y[2] == 2.0f && y[3] == 0.5f);
        print_message("%s: exp2 within %.2f ulp\n", isa->name, worst);
        assert_true(worst < 2.0);
    }
    free(x);
    free(y);
}

/* In [-2, 2), with all 24 bits in use. */
static float uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(*state >> 32) * 0x1p-30f;
}

/* The sums that a definition prescribes have the same bits on every instruction set: the baseline's, whose fmaf is the C
 * library's. The integers are the nearest ones of the unrounded product. */
static void prescribed_sums_are_equal(void **state)
{
    enum { CHANNELS = 128, ROWS = 11 };
    const cpu_isa *isa, *baseline = cpu_isa_find("baseline");
    uint64_t rng = 77;
    (void)state;
    for (int n = 0; (isa = cpu_isa_at(n)) != NULL; n++)
        for (size_t count = 1; count <= CHANNELS; count++) {
            float x[CHANNELS], rows[ROWS * CHANNELS], sum[2][CHANNELS], score[2][ROWS];
            int8_t x8[CHANNELS];
            for (size_t i = 0; i < CHANNELS; i++) {
                x[i] = (float)uniform(&rng);
                sum[0][i] = sum[1][i] = (float)uniform(&rng);
            }
            for (size_t i = 0; i < ROWS * CHANNELS; i++)
                rows[i] = (float)uniform(&rng);
            isa->add_scaled(sum[0], x, 0.3f, count);
            baseline->add_scaled(sum[1], x, 0.3f, count);
            assert_memory_equal(sum[0], sum[1], sizeof sum[0]);
            isa->dots(score[0], x, rows, ROWS, count);
            baseline->dots(score[1], x, rows, ROWS, count);
            assert_memory_equal(score[0], score[1], sizeof score[0]);
            if (count == 64 || count == 128)
                assert_true(isa->sum_squares(x, count) == baseline->sum_squares(x, count));
            x[0] = 127 / 25.0f;
            x[count - 1] = count > 1 ? -2.5f / 25.0f : NAN;
            isa->i8_from_f32(x8, x, 25.0f, count);
            for (size_t i = 0; i < count; i++)
                assert_int_equal(x8[i], isnan(x[i]) ? -1 : lrint((double)x[i] * 25.0));
        }
}

static void every_machine_has_the_baseline(void **state)
{
    (void)state;
    const cpu_isa *baseline = cpu_isa_find("baseline");
    assert_non_null(baseline);
    assert_null(cpu_isa_find("avx1024"));
    int count = 0;
    while (cpu_isa_at(count))
        count++;
    assert_ptr_equal(cpu_isa_at(count - 1), baseline);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_become_the_same_floats),
        cmocka_unit_test(floats_become_the_same_codes),
        cmocka_unit_test(rounding_equals_converting_there_and_back),
        cmocka_unit_test(odd_lengths_stay_inside),
        cmocka_unit_test(exponential_is_within_two_ulp),
        cmocka_unit_test(prescribed_sums_are_equal),
        cmocka_unit_test(every_machine_has_the_baseline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
