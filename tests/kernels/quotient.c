/* The quotient of kernels/cuda/prepare/numbers.cuh is the correctly rounded one.
 *
 * near = a r and near + (a - near b) r, with r = 1 / b rounded: before its last rounding the result is off by less than
 * 6 / (2 B) units in its last place (B: b's mantissa as an integer of [2^23, 2^24)), so it can only differ from a / b
 * where a / b lies that close to the middle between two floats. For every b, all such a are found by solving
 *
 *   A 2^k - B M = r,  |r| <= 6,  k = 24 where A >= B, else 25
 *
 * and tried. SPARGE_TEST_ALL=1 does every b (half a minute), otherwise every 97th. */
#include "check.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum { REACH = 24 }; /* four times what is needed */

/* (2^k)^-1 modulo an odd b > 1. */
static uint64_t inverse_of_power(uint64_t b, int k)
{
    uint64_t result = 1, base = (b + 1) / 2;
    for (; k > 0; k /= 2) {
        if (k % 2)
            result = result * base % b;
        base = base * base % b;
    }
    return result;
}

static int is_rounded(uint64_t numerator, uint64_t denominator)
{
    const float a = (float)numerator, b = (float)denominator, r = 1.0f / b;
    const float near = a * r;
    return fmaf(fmaf(-near, b, a), r, near) == a / b;
}

/* Tries all hard numerators of one denominator; returns how many. */
static int64_t try_denominator(uint64_t b, int64_t *wrong)
{
    int64_t tried = 0;
    uint64_t odd = b;
    int twos = 0;
    for (; odd % 2 == 0; odd /= 2)
        twos++;
    for (int k = 24; k <= 25; k++) {
        const uint64_t low = k == 24 ? b : 1u << 23, high = k == 24 ? 1u << 24 : b;
        const uint64_t inverse = odd > 1 ? inverse_of_power(odd, k - twos) : 0;
        for (int64_t r = -REACH; r <= REACH; r++) {
            if (r % ((int64_t)1 << twos) != 0)
                continue;
            const int64_t residue = ((r >> twos) % (int64_t)odd + (int64_t)odd) % (int64_t)odd;
            uint64_t a = odd > 1 ? (uint64_t)residue * inverse % odd : 0;
            a += a < low ? (low - a + odd - 1) / odd * odd : 0;
            for (; a < high; a += odd, tried++)
                *wrong += !is_rounded(a, b);
        }
    }
    return tried;
}

static void hard_quotients(void **state)
{
    (void)state;
    const uint64_t step = getenv("SPARGE_TEST_ALL") ? 1 : 97;
    int64_t wrong = 0, tried = 0;
    for (uint64_t b = 1u << 23; b < 1u << 24; b += step)
        tried += try_denominator(b, &wrong);
    assert_int_equal(wrong, 0);
    assert_true(tried > 1000000);
    /* The product alone is not the quotient: the test would notice. */
    int64_t off = 0;
    for (int i = 1; i < 1000; i++)
        off += (float)i * (1.0f / 49.0f) != (float)i / 49.0f;
    assert_true(off > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(hard_quotients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
