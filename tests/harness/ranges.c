/* Ranges of the command line: a table of texts, and random progressions against a plain loop in 128-bit integers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/ranges.h"

typedef struct integer_case {
    const char *text;
    int64_t min, max;
    int64_t value[8];
    size_t count;       /* 0: an error */
    const char *expect; /* part of the error */
} integer_case;

static const integer_case integer_cases[] = {
    {"1", 1, 10, {1}, 1, NULL},
    {"8k..128k", 1, INT64_MAX, {8192, 16384, 32768, 65536, 131072}, 5, NULL},
    {"8k..128k*4", 1, INT64_MAX, {8192, 32768, 131072}, 3, NULL},
    {"8k..32k+8k", 1, INT64_MAX, {8192, 16384, 24576, 32768}, 4, NULL},
    {"1k,2k,3000", 1, INT64_MAX, {1024, 2048, 3000}, 3, NULL},
    {"2K,1M,1g", 1, INT64_MAX, {2048, 1048576, 1073741824}, 3, NULL},
    {"4k,1k..4k,7", 1, INT64_MAX, {4096, 1024, 2048, 7}, 4, NULL},
    {"5..5", 1, 10, {5}, 1, NULL},
    {"5..5+3", 1, 10, {5}, 1, NULL},
    {"1..3+1,2..4+1", 1, 10, {1, 2, 3, 4}, 4, NULL},
    {"-2..2+2", -5, 5, {-2, 0, 2}, 3, NULL},
    {"0", 0, 0, {0}, 1, NULL},
    {"9223372036854775807", 0, INT64_MAX, {INT64_MAX}, 1, NULL},
    {"-9223372036854775807..9223372036854775807+9223372036854775807",
     INT64_MIN,
     INT64_MAX,
     {-INT64_MAX, 0, INT64_MAX},
     3,
     NULL},
    {"8k..100k", 1, INT64_MAX, {0}, 0, "nearest ends are 64k and 128k"},
    {"8k..100k+8k", 1, INT64_MAX, {0}, 0, "nearest ends are 96k and 104k"},
    {"1..100*3", 1, INT64_MAX, {0}, 0, "nearest ends are 81 and 243"},
    {"3..9223372036854775807", 1, INT64_MAX, {0}, 0, "nearest end is 6442450944g"},
    {"0..8", 0, 10, {0}, 0, "at least 1"},
    {"1..8*1", 0, 10, {0}, 0, "factor of at least 2"},
    {"1..8+0", 0, 10, {0}, 0, "step of at least 1"},
    {"1..8+-1", 0, 10, {0}, 0, "step of at least 1"},
    {"8..1", 0, 10, {0}, 0, "begins above its end"},
    {"0", 1, 10, {0}, 0, "0 is below the limit of 1"},
    {"8k..128k", 1, 65536, {0}, 0, "128k is above the limit of 64k"},
    {"9223372036854775808", 0, INT64_MAX, {0}, 0, "larger than"},
    {"9007199254740992k", 0, INT64_MAX, {0}, 0, "larger than"},
    {"1..5000+1", 1, INT64_MAX, {0}, 0, "more than 4096"},
    {"", 0, 10, {0}, 0, "empty"},
    {"1,,2", 0, 10, {0}, 0, "empty"},
    {"1,", 0, 10, {0}, 0, "empty"},
    {"1..", 0, 10, {0}, 0, "the range 1.. has no end"},
    {"2,1k..,3", 0, 10, {0}, 0, "the range 1k.. has no end"},
    {"1..*2", 0, 10, {0}, 0, "the range 1..*2 has no end"},
    {"..8", 0, 10, {0}, 0, "the range ..8 has no begin"},
    {"1..8*", 0, 10, {0}, 0, "the range 1..8* has no step"},
    {"1..8+", 0, 10, {0}, 0, "the range 1..8+ has no step"},
    {"1...8", 0, 10, {0}, 0, "not a whole number"},
    {"1..2..4", 0, 10, {0}, 0, "not a whole number"},
    {"1kk", 0, 10000, {0}, 0, "not a whole number"},
    {"1.5", 0, 10, {0}, 0, "not a whole number"},
    {"+1", 0, 10, {0}, 0, "not a whole number"},
    {" 1", 0, 10, {0}, 0, "not a whole number"},
    {"1 ", 0, 10, {0}, 0, "not a whole number"},
    {"0x10", 0, 100, {0}, 0, "not a whole number"},
    {"1t", 0, 100, {0}, 0, "not a whole number"},
    {"eight", 0, 10, {0}, 0, "\"eight\" is not a whole number"},
};

static void integers_follow_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof integer_cases / sizeof *integer_cases; i++) {
        const integer_case *c = &integer_cases[i];
        int64_t *values;
        size_t count;
        char error[256] = "";
        int failed = sb_range_integers(c->text, c->min, c->max, &values, &count, error, sizeof error);
        if (c->count == 0) {
            if (!failed || !strstr(error, c->expect))
                fail_msg("\"%s\": expected an error with \"%s\", got \"%s\"", c->text, c->expect, error);
            assert_null(values);
            assert_null(strchr(error, '\n'));
            continue;
        }
        if (failed)
            fail_msg("\"%s\": %s", c->text, error);
        assert_int_equal(count, c->count);
        assert_memory_equal(values, c->value, count * sizeof *values);
        free(values);
    }
}

typedef struct real_case {
    const char *text;
    double min, max;
    double value[8];
    size_t count;
    const char *expect;
} real_case;

static const real_case real_cases[] = {
    {"0.05..0.95+0.15", 0, 1, {0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95}, 7, NULL},
    {"0.9,0.95", 0, 1, {0.9, 0.95}, 2, NULL},
    {"1e-3..1e-1*10", 0, 1, {1e-3, 1e-2, 1e-1}, 3, NULL},
    {"0.1..0.8", 0, 1, {0.1, 0.2, 0.4, 0.8}, 4, NULL},
    {"1e+0..3e+0+1e+0", 0, 5, {1, 2, 3}, 3, NULL},
    {"-10..-2+4", -20, 0, {-10, -6, -2}, 3, NULL},
    {"-inf,-5", -INFINITY, 0, {-INFINITY, -5}, 2, NULL},
    {"0.5,0.50,5e-1", 0, 1, {0.5}, 1, NULL},
    {"0.1..0.3+0.1", 0, 0.3, {0.1, 0.2, 0.3}, 3, NULL},
    {"0.05..0.9+0.15", 0, 1, {0}, 0, "nearest ends are 0.8 and 0.95"},
    {"0.1..0.5*2", 0, 1, {0}, 0, "nearest ends are 0.4 and 0.8"},
    {"0..1*2", 0, 1, {0}, 0, "begin above 0"},
    {"0.1..0.5*1", 0, 1, {0}, 0, "factor above 1"},
    {"0.1..0.5+0", 0, 1, {0}, 0, "step above 0"},
    {"0.5..0.1", 0, 1, {0}, 0, "begins above its end"},
    {"0..1+1e-9", 0, 1, {0}, 0, "more than 4096"},
    {"1.5", 0, 1, {0}, 0, "1.5 is above the limit of 1"},
    {"-0.5", 0, 1, {0}, 0, "-0.5 is below the limit of 0"},
    {"nan", 0, 1, {0}, 0, "not a number"},
    {"0x1p-2", 0, 1, {0}, 0, "not a number"},
    {"1.", 0, 1, {0}, 0, "not a number"},
    {".5,-.25,.5e1", -1, 9, {0.5, -0.25, 5}, 3, NULL},
    {".", 0, 1, {0}, 0, "not a number"},
    {"-.", 0, 1, {0}, 0, "not a number"},
    {".e1", 0, 1, {0}, 0, "not a number"},
    {"0.1..", 0, 1, {0}, 0, "the range 0.1.. has no end"},
    {"1e", 0, 1, {0}, 0, "not a number"},
    {"1e999", 0, 1, {0}, 0, "too large"},
    {"0..inf+1", 0, INFINITY, {0}, 0, "not finite"},
    {"", 0, 1, {0}, 0, "empty"},
};

static void reals_follow_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof real_cases / sizeof *real_cases; i++) {
        const real_case *c = &real_cases[i];
        double *values;
        size_t count;
        char error[256] = "";
        int failed = sb_range_reals(c->text, c->min, c->max, &values, &count, error, sizeof error);
        if (c->count == 0) {
            if (!failed || !strstr(error, c->expect))
                fail_msg("\"%s\": expected an error with \"%s\", got \"%s\"", c->text, c->expect, error);
            continue;
        }
        if (failed)
            fail_msg("\"%s\": %s", c->text, error);
        assert_int_equal(count, c->count);
        assert_memory_equal(values, c->value, count * sizeof *values); /* the very doubles a user would write */
        free(values);
    }
}

/* splitmix64 */
static uint64_t draw(uint64_t *seed)
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* __int128 is no part of C11. */
__extension__ typedef __int128 wide;

/* Any begin, end and step: the values are those of the loop in exact arithmetic, and an end that it misses is an error
 * whose two nearest ends are accepted when typed in. */
static void progressions_equal_a_plain_loop(void **state)
{
    (void)state;
    uint64_t seed = 20260811;
    int hits = 0, misses = 0;
    for (int round = 0; round < 20000; round++) {
        int multiplies = (int)(draw(&seed) & 1);
        int64_t begin = 1 + (int64_t)(draw(&seed) >> (1 + draw(&seed) % 62));
        int64_t step = 2 + (int64_t)(draw(&seed) >> (2 + draw(&seed) % 61));
        int steps = (int)(draw(&seed) % 7);
        wide end = begin;
        for (int i = 0; i < steps; i++) {
            end = multiplies ? end * step : end + step;
            if (end > INT64_MAX)
                break;
        }
        if (end > INT64_MAX)
            continue;
        int64_t off = draw(&seed) % 2 ? (int64_t)(draw(&seed) % 3) : 0;
        if (end + off > INT64_MAX)
            continue;
        char text[128], error[256] = "";
        snprintf(text, sizeof text, "%lld..%lld%c%lld", (long long)begin, (long long)(int64_t)(end + off),
                 multiplies ? '*' : '+', (long long)step);
        int64_t *values = NULL;
        size_t count = 0;
        int failed = sb_range_integers(text, 1, INT64_MAX, &values, &count, error, sizeof error);
        wide expected = begin;
        int reachable = 0;
        while (expected < end + off)
            expected = multiplies ? expected * step : expected + step;
        reachable = expected == end + off;
        assert_int_equal(!failed, reachable);
        if (failed) {
            misses++;
            assert_non_null(strstr(error, "nearest end"));
            continue;
        }
        hits++;
        expected = begin;
        for (size_t i = 0; i < count; i++) {
            assert_true(values[i] == expected);
            expected = multiplies ? expected * step : expected + step;
        }
        assert_int_equal(values[count - 1], end + off);
        free(values);
    }
    assert_true(hits > 1000 && misses > 1000);
}

/* The ends that an error names are ends that the same progression accepts. */
static void named_ends_are_accepted(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int round = 0; round < 500; round++) {
        int64_t begin = 1 + (int64_t)(draw(&seed) % 5000), step = 2 + (int64_t)(draw(&seed) % 3000);
        int64_t end = begin + (int64_t)(draw(&seed) % 2000000);
        char rule = draw(&seed) % 2 ? '*' : '+', text[128], error[256] = "", low[32], high[32];
        int64_t *values;
        size_t count;
        snprintf(text, sizeof text, "%lld..%lld%c%lld", (long long)begin, (long long)end, rule, (long long)step);
        if (sb_range_integers(text, 1, INT64_MAX, &values, &count, error, sizeof error) == 0) {
            free(values);
            continue;
        }
        const char *ends = strstr(error, "nearest ends are ");
        if (!ends) {
            assert_non_null(strstr(error, "more than 4096"));
            continue;
        }
        assert_int_equal(sscanf(ends, "nearest ends are %31s and %31s", low, high), 2);
        for (int i = 0; i < 2; i++) {
            snprintf(text, sizeof text, "%lld..%s%c%lld", (long long)begin, i ? high : low, rule, (long long)step);
            if (sb_range_integers(text, 1, INT64_MAX, &values, &count, error, sizeof error) != 0)
                fail_msg("%s: %s", text, error);
            assert_true(i ? values[count - 1] > end : values[count - 1] < end);
            free(values);
        }
    }
}

/* Random bytes never crash, and a list that is accepted lies within its limits. */
static void noise_is_refused_or_within_limits(void **state)
{
    (void)state;
    static const char alphabet[] = "0123456789kmg.,*+-e inf";
    uint64_t seed = 99;
    for (int round = 0; round < 20000; round++) {
        char text[24];
        size_t length = draw(&seed) % (sizeof text - 1);
        for (size_t i = 0; i < length; i++)
            text[i] = alphabet[draw(&seed) % (sizeof alphabet - 1)];
        text[length] = '\0';
        char error[64] = "";
        int64_t *integers;
        double *reals;
        size_t count;
        if (sb_range_integers(text, -100, 1 << 20, &integers, &count, error, sizeof error) == 0) {
            assert_true(count > 0);
            for (size_t i = 0; i < count; i++)
                assert_true(integers[i] >= -100 && integers[i] <= 1 << 20);
            free(integers);
        } else {
            assert_true(error[0] != '\0');
        }
        error[0] = '\0';
        if (sb_range_reals(text, -100, 100, &reals, &count, error, sizeof error) == 0) {
            for (size_t i = 0; i < count; i++)
                assert_true(reals[i] >= -100 && reals[i] <= 100);
            free(reals);
        } else {
            assert_true(error[0] != '\0');
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_follow_the_table),         cmocka_unit_test(reals_follow_the_table),
        cmocka_unit_test(progressions_equal_a_plain_loop),   cmocka_unit_test(named_ends_are_accepted),
        cmocka_unit_test(noise_is_refused_or_within_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
