/* Scalar conversions against the definition: the nearest representable value, found by search in float64. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sparge/tensor.h"

typedef struct minifloat {
    const char *name;
    int exponent_bits, mantissa_bits, bias;
    int has_infinity; /* else: saturates */
    double largest;
} minifloat;

static const minifloat f16 = {"f16", 5, 10, 15, 1, 65504};
static const minifloat bf16 = {"bf16", 8, 7, 127, 1, 0x1.fep127};
static const minifloat e4m3 = {"e4m3", 4, 3, 7, 0, 448};

/* The value of a non-negative bit pattern, from the definition of the format. */
static double value_of(const minifloat *format, uint32_t bits)
{
    uint32_t exponent = bits >> format->mantissa_bits;
    uint32_t mantissa = bits & ((1u << format->mantissa_bits) - 1u);
    if (exponent == 0)
        return ldexp((double)mantissa, 1 - format->bias - format->mantissa_bits);
    return ldexp((double)(mantissa + (1u << format->mantissa_bits)),
                 (int)exponent - format->bias - format->mantissa_bits);
}

static uint32_t encode(const minifloat *format, float value)
{
    if (format == &f16)
        return sparge_f16_from_f32(value);
    return format == &bf16 ? sparge_bf16_from_f32(value) : sparge_e4m3_from_f32(value);
}

static float decode(const minifloat *format, uint32_t bits)
{
    if (format == &f16)
        return sparge_f32_from_f16((uint16_t)bits);
    return format == &bf16 ? sparge_f32_from_bf16((uint16_t)bits) : sparge_f32_from_e4m3((uint8_t)bits);
}

static uint32_t largest_pattern(const minifloat *format)
{
    uint32_t infinity = ((1u << format->exponent_bits) - 1u) << format->mantissa_bits;
    return format->has_infinity ? infinity - 1 : infinity + 6; /* e4m3: only S.1111.111 is NaN */
}

/* The pattern nearest to |value|, ties to the even pattern; past the middle to the next power: infinity or saturation. */
static uint32_t nearest(const minifloat *format, double magnitude)
{
    uint32_t low = 0, high = largest_pattern(format);
    if (magnitude >= format->largest) {
        if (!format->has_infinity)
            return high;
        double ulp = format->largest - value_of(format, high - 1);
        return magnitude >= format->largest + ulp / 2 ? high + 1 : high;
    }
    while (high - low > 1) { /* value_of(low) <= magnitude < value_of(high) */
        uint32_t middle = (low + high) / 2;
        if (value_of(format, middle) <= magnitude)
            low = middle;
        else
            high = middle;
    }
    double below = magnitude - value_of(format, low), above = value_of(format, high) - magnitude;
    if (below == above)
        return low & 1 ? high : low;
    return below < above ? low : high;
}

static void check_value(const minifloat *format, float value)
{
    uint32_t sign = signbit(value) ? 1u << (format->exponent_bits + format->mantissa_bits) : 0;
    uint32_t want = nearest(format, fabs((double)value)) | sign;
    uint32_t got = encode(format, value);
    if (got != want)
        fail_msg("%s of %.9g: got 0x%x, want 0x%x", format->name, (double)value, got, want);
}

static void check_format(const minifloat *format)
{
    uint32_t last = largest_pattern(format);
    uint32_t sign = 1u << (format->exponent_bits + format->mantissa_bits);
    for (uint32_t bits = 0; bits <= last; bits++) {
        double value = value_of(format, bits);
        assert_true((double)decode(format, bits) == value);
        assert_true((double)decode(format, bits | sign) == -value);
        assert_true(signbit(decode(format, bits | sign)));
        assert_int_equal(encode(format, (float)value), bits);
        if (bits == last)
            continue;
        /* The middle to the next value and its neighbours: every rounding decision there is. */
        float middle = (float)((value + value_of(format, bits + 1)) / 2);
        check_value(format, middle);
        check_value(format, -middle);
        check_value(format, nextafterf(middle, 0));
        check_value(format, nextafterf(middle, INFINITY));
    }
}

static void test_every_value_and_every_middle(void **state)
{
    (void)state;
    check_format(&f16);
    check_format(&bf16);
    check_format(&e4m3);
}

static void test_random_floats(void **state)
{
    (void)state;
    uint32_t bits = 12345;
    for (int i = 0; i < 300000; i++) {
        bits = bits * 1664525u + 1013904223u;
        float value;
        memcpy(&value, &bits, sizeof value);
        if (isnan(value))
            continue;
        check_value(&f16, value);
        check_value(&bf16, value);
        check_value(&e4m3, value);
    }
}

static void test_special_values(void **state)
{
    (void)state;
    assert_int_equal(sparge_f16_from_f32(INFINITY), 0x7c00);
    assert_int_equal(sparge_f16_from_f32(-INFINITY), 0xfc00);
    assert_int_equal(sparge_f16_from_f32(65519.996f), 0x7bff);
    assert_int_equal(sparge_f16_from_f32(65520.0f), 0x7c00);
    assert_int_equal(sparge_bf16_from_f32(INFINITY), 0x7f80);
    assert_int_equal(sparge_e4m3_from_f32(INFINITY), 0x7e);
    assert_int_equal(sparge_e4m3_from_f32(-1e30f), 0xfe);
    assert_true(isinf(sparge_f32_from_f16(0x7c00)) && isinf(sparge_f32_from_bf16(0xff80)));
    assert_true(isnan(sparge_f32_from_f16(sparge_f16_from_f32(NAN))));
    assert_true(isnan(sparge_f32_from_bf16(sparge_bf16_from_f32(NAN))));
    assert_true(isnan(sparge_f32_from_e4m3(sparge_e4m3_from_f32(NAN))));
    assert_true(isnan(sparge_f32_from_e4m3(0x7f)) && isnan(sparge_f32_from_e4m3(0xff)));
    /* A NaN whose payload lies in the bits that are cut off must not become infinity. */
    uint32_t low_payload = 0x7f800001u;
    float value;
    memcpy(&value, &low_payload, sizeof value);
    assert_true(isnan(sparge_f32_from_f16(sparge_f16_from_f32(value))));
    assert_true(isnan(sparge_f32_from_bf16(sparge_bf16_from_f32(value))));
}

static void test_layouts_address_the_same_element(void **state)
{
    (void)state;
    sparge_tensor hnd = sparge_tensor_hnd(NULL, SPARGE_F16, 2, 3, 5, 7);
    sparge_tensor nhd = sparge_tensor_nhd(NULL, SPARGE_F16, 2, 3, 5, 7);
    for (int64_t b = 0; b < 2; b++)
        for (int64_t h = 0; h < 3; h++)
            for (int64_t l = 0; l < 5; l++)
                for (int64_t d = 0; d < 7; d++) {
                    assert_int_equal(b * hnd.stride[0] + h * hnd.stride[1] + l * hnd.stride[2] + d * hnd.stride[3],
                                     ((b * 3 + h) * 5 + l) * 7 + d);
                    assert_int_equal(b * nhd.stride[0] + h * nhd.stride[1] + l * nhd.stride[2] + d * nhd.stride[3],
                                     ((b * 5 + l) * 3 + h) * 7 + d);
                }
    assert_memory_equal(hnd.shape, nhd.shape, sizeof hnd.shape);
}

static void test_dtypes_have_names_and_sizes(void **state)
{
    (void)state;
    static const struct {
        sparge_dtype dtype;
        const char *name;
        size_t bytes;
    } table[] = {{SPARGE_F16, "f16", 2}, {SPARGE_BF16, "bf16", 2}, {SPARGE_F32, "f32", 4},
                 {SPARGE_F64, "f64", 8}, {SPARGE_I8, "i8", 1},     {SPARGE_E4M3, "e4m3", 1}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_string_equal(sparge_dtype_name(table[i].dtype), table[i].name);
        assert_int_equal(sparge_dtype_bytes(table[i].dtype), table[i].bytes);
    }
    assert_string_equal(sparge_dtype_name((sparge_dtype)99), "?");
    assert_int_equal(sparge_dtype_bytes((sparge_dtype)99), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_value_and_every_middle),
        cmocka_unit_test(test_random_floats),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_layouts_address_the_same_element),
        cmocka_unit_test(test_dtypes_have_names_and_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
