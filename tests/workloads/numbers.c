/* The random numbers under the generators: Philox against its published vectors, the normal and uniform variates against
 * their distributions. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "generate/normal.h"
#include "generate/philox.h"
#include "generated.h"

/* The known answers that Random123 1.09 ships for philox4x32 with 10 rounds (tests/kat_vectors). */
static void test_philox_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], answer[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        philox_words counter;
        memcpy(counter.word, known[i].counter, sizeof counter.word);
        uint64_t key = (uint64_t)known[i].key[1] << 32 | known[i].key[0];
        philox_words answer = philox4x32(counter, key);
        assert_memory_equal(answer.word, known[i].answer, sizeof answer.word);
    }
}

/* x with P(X > x) = p, by Newton's method on erfc from a guess near it. */
static double exact_quantile(double p, double guess)
{
    double x = guess;
    for (int i = 0; i < 4; i++)
        x += (0.5 * erfc(x / sqrt(2)) - p) * sqrt(2 * M_PI) * exp(x * x / 2);
    return x;
}

static void check_variate(uint32_t bits)
{
    double p = ((double)(bits & 0x7fffffffu) + 0.5) / 4294967296.0;
    double x = (double)normal_from_bits(bits & 0x7fffffffu);
    double error = fabs(x - exact_quantile(p, x));
    if (!(error < 1e-6))
        fail_msg("bits %08x: %.9g is %.3g from the quantile", bits, x, error);
    assert_true(normal_from_bits(bits | 0x80000000u) == -normal_from_bits(bits & 0x7fffffffu));
}

static void test_variates_are_quantiles(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 5000; bits++) { /* the extreme tail */
        check_variate(bits);
        check_variate(0x7fffffffu - bits);
    }
    for (uint32_t bits = 0; bits < 0x7fff0000u; bits += 9973)
        check_variate(bits);
    for (uint32_t n = 0; n < 31; n++) /* around every change of exponent */
        for (uint32_t off = 0; off < 64; off++)
            check_variate((((uint32_t)1 << n) + off - 32) & 0x7fffffffu);
    assert_true(fabs((double)normal_from_bits(0) - 6.338) < 1e-3); /* the largest variate */
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double normal_cdf(double x)
{
    return 0.5 * erfc(-x / sqrt(2));
}

static double uniform_cdf(double x)
{
    return x < -1 ? 0 : x > 1 ? 1 : (x + 1) / 2;
}

typedef struct moments {
    double mean, variance, skewness, kurtosis, smallest, largest, ks;
} moments;

/* Moments and the Kolmogorov-Smirnov distance to `cdf`. Sorts the values. */
static moments measure(float *value, size_t count, double (*cdf)(double))
{
    moments m = {0};
    double n = (double)count, second = 0, third = 0, fourth = 0;
    for (size_t i = 0; i < count; i++)
        m.mean += (double)value[i] / n;
    for (size_t i = 0; i < count; i++) {
        double d = (double)value[i] - m.mean;
        second += d * d / n;
        third += d * d * d / n;
        fourth += d * d * d * d / n;
    }
    m.variance = second;
    m.skewness = third / pow(second, 1.5);
    m.kurtosis = fourth / (second * second);
    qsort(value, count, sizeof *value, by_value);
    m.smallest = (double)value[0];
    m.largest = (double)value[count - 1];
    for (size_t i = 0; i < count; i++) {
        double f = cdf((double)value[i]);
        m.ks = fmax(m.ks, fmax(f - (double)i / n, (double)(i + 1) / n - f));
    }
    return m;
}

enum { HEADS = 4, TOKENS = 2048, CHANNELS = 128, VALUES = HEADS * TOKENS * CHANNELS };

static sparge_tensor make(sparge_generator_kind kind, sparge_tensor_role role, uint64_t seed)
{
    const sparge_generator generator = {.kind = kind, .seed = seed, .heads_q = HEADS, .heads_kv = HEADS};
    return generated_make(&generator, role, SPARGE_F32, 1, TOKENS, CHANNELS, 0);
}

/* Bounds are five standard deviations of the estimate, and 2.7 / sqrt n for KS (probability 1e-6). */
static void test_normal_distribution(void **state)
{
    (void)state;
    for (int role = SPARGE_ROLE_Q; role <= SPARGE_ROLE_V; role++) {
        sparge_tensor tensor = make(SPARGE_GENERATE_NORMAL, (sparge_tensor_role)role, 3);
        moments m = measure(tensor.data, VALUES, normal_cdf);
        double root = sqrt((double)VALUES);
        assert_true(fabs(m.mean) < 5 / root);
        assert_true(fabs(m.variance - 1) < 5 * sqrt(2) / root);
        assert_true(fabs(m.skewness) < 5 * sqrt(6) / root);
        assert_true(fabs(m.kurtosis - 3) < 5 * sqrt(24) / root);
        assert_true(m.ks < 2.7 / root);
        assert_true(m.largest > 4.2 && m.largest < 6.34 && m.smallest < -4.2 && m.smallest > -6.34);
        generated_free(&tensor);
    }
}

static void test_uniform_distribution(void **state)
{
    (void)state;
    sparge_tensor tensor = make(SPARGE_GENERATE_UNIFORM, SPARGE_ROLE_K, 3);
    moments m = measure(tensor.data, VALUES, uniform_cdf);
    double root = sqrt((double)VALUES);
    assert_true(fabs(m.mean) < 5 * sqrt(1.0 / 3) / root);
    assert_true(fabs(m.variance - 1.0 / 3) < 5 * sqrt(4.0 / 45) / root);
    assert_true(fabs(m.kurtosis - 1.8) < 0.02);
    assert_true(m.ks < 2.7 / root);
    assert_true(m.smallest >= -1 && m.smallest < -0.9999 && m.largest < 1 && m.largest > 0.9999);
    generated_free(&tensor);
}

static double correlation(const float *a, const float *b, size_t count)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < count; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

/* Neighbours along every axis of the counter, roles and seeds have nothing to do with each other. */
static void test_numbers_are_uncorrelated(void **state)
{
    (void)state;
    sparge_tensor q = make(SPARGE_GENERATE_NORMAL, SPARGE_ROLE_Q, 3),
                  k = make(SPARGE_GENERATE_NORMAL, SPARGE_ROLE_K, 3);
    sparge_tensor v = make(SPARGE_GENERATE_NORMAL, SPARGE_ROLE_V, 3);
    sparge_tensor other = make(SPARGE_GENERATE_NORMAL, SPARGE_ROLE_Q, 4);
    sparge_tensor high = make(SPARGE_GENERATE_NORMAL, SPARGE_ROLE_Q, 3 + ((uint64_t)1 << 32));
    const float *a = q.data;
    const double bound = 5 / sqrt((double)VALUES / 2);
    static const int lags[] = {1, 2, 3, 4, 5, 8, 64, CHANNELS, 2 * CHANNELS, TOKENS * CHANNELS};
    for (size_t i = 0; i < sizeof lags / sizeof lags[0]; i++)
        assert_true(fabs(correlation(a, a + lags[i], (size_t)(VALUES - lags[i]))) < bound);
    assert_true(fabs(correlation(a, k.data, VALUES)) < bound);
    assert_true(fabs(correlation(a, v.data, VALUES)) < bound);
    assert_true(fabs(correlation(a, other.data, VALUES)) < bound);
    assert_true(fabs(correlation(a, high.data, VALUES)) < bound);
    generated_free(&q);
    generated_free(&k);
    generated_free(&v);
    generated_free(&other);
    generated_free(&high);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_known_answers),     cmocka_unit_test(test_variates_are_quantiles),
        cmocka_unit_test(test_normal_distribution),      cmocka_unit_test(test_uniform_distribution),
        cmocka_unit_test(test_numbers_are_uncorrelated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
