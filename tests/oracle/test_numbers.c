/* The oracle's number formats and random numbers against published values. */
#include "oracle/oracle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const oracle_format formats[] = {ORACLE_F16, ORACLE_BF16, ORACLE_E4M3};
static const uint32_t codes[] = {0x10000, 0x10000, 0x100};

/* IEEE 754-2008 table 3.5 parameters; OCP 8-bit floating point specification 1.0, table 2. */
static void published_values(void **state)
{
    (void)state;
    assert_true(oracle_decode(ORACLE_F16, 0x3c00) == 1.0);
    assert_true(oracle_decode(ORACLE_F16, 0x7bff) == 65504.0);
    assert_true(oracle_decode(ORACLE_F16, 0xfbff) == -65504.0);
    assert_true(oracle_decode(ORACLE_F16, 0x0400) == 0x1p-14);
    assert_true(oracle_decode(ORACLE_F16, 0x0001) == 0x1p-24);
    assert_true(oracle_decode(ORACLE_F16, 0x03ff) == 1023 * 0x1p-24);
    assert_true(oracle_decode(ORACLE_F16, 0x3555) == 0.333251953125);
    assert_true(oracle_decode(ORACLE_F16, 0x7c00) == INFINITY);
    assert_true(oracle_decode(ORACLE_F16, 0xfc00) == -INFINITY);
    assert_true(isnan(oracle_decode(ORACLE_F16, 0x7e00)));
    assert_true(oracle_decode(ORACLE_F16, 0x8000) == 0.0 && signbit(oracle_decode(ORACLE_F16, 0x8000)));

    assert_true(oracle_decode(ORACLE_BF16, 0x3f80) == 1.0);
    assert_true(oracle_decode(ORACLE_BF16, 0xc049) == -3.140625);
    assert_true(oracle_decode(ORACLE_BF16, 0x7f7f) == 255 * 0x1p120);
    assert_true(oracle_decode(ORACLE_BF16, 0x0001) == 0x1p-133);
    assert_true(oracle_decode(ORACLE_BF16, 0x7f80) == INFINITY);
    assert_true(isnan(oracle_decode(ORACLE_BF16, 0xffff)));

    assert_true(oracle_decode(ORACLE_E4M3, 0x38) == 1.0);
    assert_true(oracle_decode(ORACLE_E4M3, 0x7e) == 448.0);
    assert_true(oracle_decode(ORACLE_E4M3, 0xfe) == -448.0);
    assert_true(oracle_decode(ORACLE_E4M3, 0x08) == 0x1p-6);
    assert_true(oracle_decode(ORACLE_E4M3, 0x07) == 0.875 * 0x1p-6);
    assert_true(oracle_decode(ORACLE_E4M3, 0x01) == 0x1p-9);
    assert_true(isnan(oracle_decode(ORACLE_E4M3, 0x7f)) && isnan(oracle_decode(ORACLE_E4M3, 0xff)));
}

static void encoding_inverts_decoding(void **state)
{
    (void)state;
    for (size_t f = 0; f < 3; f++) {
        for (uint32_t code = 0; code < codes[f]; code++) {
            double value = oracle_decode(formats[f], code);

            if (isnan(value))
                assert_true(isnan(oracle_round(formats[f], value)));
            else if (isinf(value) && formats[f] == ORACLE_E4M3)
                fail();
            else
                assert_int_equal(oracle_encode(formats[f], value), code);
        }
    }
}

/* Between neighbours c and c + 1: the middle goes to the even code, a hair off it to the nearer one. */
static void encoding_rounds_to_nearest_even(void **state)
{
    static const uint32_t largest[] = {0x7bff, 0x7f7f, 0x7e};

    (void)state;
    for (size_t f = 0; f < 3; f++) {
        for (uint32_t code = 0; code < largest[f]; code++) {
            double low = oracle_decode(formats[f], code), high = oracle_decode(formats[f], code + 1);
            double middle = (low + high) / 2.0;

            assert_int_equal(oracle_encode(formats[f], middle), code + (code & 1u));
            assert_int_equal(oracle_encode(formats[f], nextafter(middle, 0.0)), code);
            assert_int_equal(oracle_encode(formats[f], nextafter(middle, INFINITY)), code + 1);
            assert_int_equal(oracle_encode(formats[f], -nextafter(middle, INFINITY)), (code + 1) | (codes[f] >> 1));
        }
    }
}

static void overflow(void **state)
{
    (void)state;
    assert_int_equal(oracle_encode(ORACLE_F16, 65519.99), 0x7bff);
    assert_int_equal(oracle_encode(ORACLE_F16, 65520.0), 0x7c00);
    assert_int_equal(oracle_encode(ORACLE_F16, -1e300), 0xfc00);
    assert_int_equal(oracle_encode(ORACLE_BF16, INFINITY), 0x7f80);
    assert_int_equal(oracle_encode(ORACLE_E4M3, 463.9), 0x7e);
    assert_int_equal(oracle_encode(ORACLE_E4M3, 480.0), 0x7e);
    assert_int_equal(oracle_encode(ORACLE_E4M3, INFINITY), 0x7e);
    assert_int_equal(oracle_encode(ORACLE_E4M3, -1e9), 0xfe);
}

static void roundoff_is_attained(void **state)
{
    (void)state;
    for (size_t f = 0; f < 3; f++) {
        double unit = oracle_unit_roundoff(formats[f]), tiny = oracle_subnormal_roundoff(formats[f]);

        assert_true(oracle_round(formats[f], 1.0 + unit) == 1.0);
        assert_true(oracle_round(formats[f], (1.0 + unit) * (1.0 + 1e-12)) == 1.0 + 2.0 * unit);
        assert_true(oracle_round(formats[f], tiny) == 0.0);
        assert_true(oracle_round(formats[f], tiny * 1.0001) == 2.0 * tiny);
    }
}

/* splitmix64 with seed 1234567: the first outputs of the generator's reference test vector. */
static void random_numbers(void **state)
{
    static const uint64_t expected[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                        UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
                                        UINT64_C(16408922859458223821)};
    oracle_rng rng = oracle_rng_seed(1234567);
    double mean = 0.0, square = 0.0, fourth = 0.0;
    int seen[5] = {0};

    (void)state;
    for (size_t i = 0; i < 5; i++)
        assert_true(oracle_rng_bits(&rng) == expected[i]);
    for (int i = 0; i < 100000; i++) {
        double x = oracle_rng_normal(&rng);

        mean += x / 1e5;
        square += x * x / 1e5;
        fourth += x * x * x * x / 1e5;
        seen[oracle_rng_between(&rng, -2, 2) + 2]++;
    }
    assert_true(fabs(mean) < 0.015 && fabs(square - 1.0) < 0.02 && fabs(fourth - 3.0) < 0.15);
    for (size_t i = 0; i < 5; i++)
        assert_in_range(seen[i], 19000, 21000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_values),
        cmocka_unit_test(encoding_inverts_decoding),
        cmocka_unit_test(overflow),
        cmocka_unit_test(encoding_rounds_to_nearest_even),
        cmocka_unit_test(roundoff_is_attained),
        cmocka_unit_test(random_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
