/* Prepare in parity mode against the recordings of the official code: the mean of K, INT8 and FP8 bit for bit, block
 * means and self-similarity within what 16-bit sums leave. */
#include "recorded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/oracle.h"

static const char *const shapes[] = {"64x128", "128x64"};

/* What prepare leaves of a recorded case with the block shape "64x128" or "128x64". */
static recorded_arrays prepare(sparge_context *context, const recorded *r, const char *method, const char *shape)
{
    int32_t block_q, block_k;
    char settings[128];
    recorded_run run;
    recorded_blocks(shape, &block_q, &block_k);
    snprintf(settings, sizeof settings, "compat=upstream block_q=%d block_k=%d", block_q, block_k);
    recorded_run_open(&run, context, r, method, settings);
    recorded_run_stages(&run, SPARGE_STAGE_PREPARE);
    const recorded_arrays arrays = recorded_run_arrays(&run);
    recorded_run_close(&run);
    return arrays;
}

static void mean_of_k_is_the_recorded_one(void **state)
{
    for (int i = 0; i < UPSTREAM_CASES; i++) {
        recorded r;
        recorded_open(&r, i);
        recorded_arrays a = prepare(*state, &r, "sparge-int8-f16", "128x64");
        const uint16_t *km = recorded_data(&r, NULL, "km", NULL, "F16");
        for (int64_t j = 0; j < r.heads * r.head_dim; j++)
            assert_int_equal(sparge_f16_from_f32(a.k_mean[j]), km[j]);
        recorded_arrays_release(&a);
        recorded_close(&r);
    }
}

static void int8_is_the_recorded_one(void **state)
{
    for (int i = 0; i < UPSTREAM_CASES; i++)
        for (int s = 0; s < 2; s++) {
            recorded r;
            int32_t block_q, block_k;
            recorded_open(&r, i);
            recorded_blocks(shapes[s], &block_q, &block_k);
            recorded_arrays a = prepare(*state, &r, "sparge-int8-f16", shapes[s]);
            const size_t elements = (size_t)(r.heads * r.tokens * r.head_dim);
            const size_t rows = (size_t)(r.heads * ((r.tokens + block_q - 1) / block_q));
            const size_t cols = (size_t)(r.heads * ((r.tokens + block_k - 1) / block_k));
            assert_memory_equal(a.q_scale, recorded_data(&r, shapes[s], "q_scale", NULL, "F32"), rows * sizeof(float));
            assert_memory_equal(a.k_scale, recorded_data(&r, shapes[s], "k_scale", NULL, "F32"), cols * sizeof(float));
            assert_memory_equal(a.q8, recorded_data(&r, shapes[s], "q_int8", NULL, "I8"), elements);
            assert_memory_equal(a.k8, recorded_data(&r, shapes[s], "k_int8", NULL, "I8"), elements);
            recorded_arrays_release(&a);
            recorded_close(&r);
        }
}

/* Where the official kernel stores token t of a group of 16 (upstream.md 2.8). */
static int64_t official_position(int64_t t)
{
    const int64_t in = t % 16;
    return t - in + in % 8 / 2 * 4 + in / 8 * 2 + in % 2;
}

/* The official code multiplies by an approximate quotient: where v times the exact one is within 2^-22 of a tie, its
 * code may be the neighbour. */
static int official_code_is_possible(uint8_t official, double scaled)
{
    return official == oracle_encode(ORACLE_E4M3, scaled * (1 - 0x1p-22)) ||
           official == oracle_encode(ORACLE_E4M3, scaled * (1 + 0x1p-22));
}

static void fp8_is_the_recorded_one(void **state)
{
    for (int i = 0; i < UPSTREAM_CASES; i++) {
        recorded r;
        recorded_open(&r, i);
        recorded_arrays a = prepare(*state, &r, "sparge-int8-fp8", "64x128");
        const uint16_t *v = recorded_data(&r, NULL, "v", NULL, "F16");
        const uint8_t *v8 = recorded_data(&r, NULL, "v_fp8", NULL, "U8");
        const int64_t padded = (r.tokens + 127) / 128 * 128;
        int64_t different = 0;
        assert_memory_equal(a.v_scale, recorded_data(&r, NULL, "v_scale", NULL, "F32"),
                            (size_t)(r.heads * r.head_dim) * sizeof(float));
        for (int64_t h = 0; h < r.heads; h++)
            for (int64_t t = 0; t < r.tokens; t++)
                for (int64_t d = 0; d < r.head_dim; d++) {
                    const uint8_t official = v8[(h * r.head_dim + d) * padded + official_position(t)];
                    const int64_t at = (h * r.tokens + t) * r.head_dim + d;
                    if (a.v8[at] == official)
                        continue;
                    different++;
                    const double scale = (double)a.v_scale[h * r.head_dim + d];
                    assert_true(official_code_is_possible(official, (double)sparge_f32_from_f16(v[at]) / scale));
                }
        assert_true(different <= r.heads * r.tokens * r.head_dim / 5000);
        recorded_arrays_release(&a);
        recorded_close(&r);
    }
}

/* Means are equal as 16-bit numbers but for the last bit; similarities but for what 16-bit unit rows leave. */
static void check_pool(const float *pool, const float *sim, const st_tensor *mean, const st_tensor *simval,
                       int64_t tokens, int32_t block)
{
    const int64_t blocks = mean->shape[2], channels = mean->shape[3];
    size_t different = 0, count = mean->bytes / 2;
    for (size_t i = 0; i < count; i++) {
        uint16_t code;
        memcpy(&code, (const char *)mean->data + 2 * i, 2);
        const float expected = sparge_f32_from_f16(code);
        different += pool[i] != expected;
        assert_true(fabsf(pool[i] - expected) <= fmaxf(fabsf(expected) * 0x1p-10F, 0x1p-24F));
    }
    assert_true(different * 100 <= count); /* a mean next to a rounding boundary is the exception */
    for (size_t i = 0; i < count / (size_t)channels; i++) {
        float expected;
        memcpy(&expected, (const char *)simval->data + 4 * i, 4);
        const int64_t left = tokens - (int64_t)i % blocks * block;
        assert_true(left > 0 && fabsf(sim[i] - expected) <= 1e-3F);
    }
}

static void pools_are_the_recorded_ones(void **state)
{
    for (int i = 0; i < UPSTREAM_CASES; i++)
        for (int s = 0; s < 2; s++) {
            recorded r;
            int32_t block_q, block_k;
            recorded_open(&r, i);
            recorded_blocks(shapes[s], &block_q, &block_k);
            recorded_arrays a = prepare(*state, &r, "sparge-f16", shapes[s]);
            check_pool(a.q_pool, a.q_sim, recorded_tensor(&r, shapes[s], "q_mean", NULL, "F16"),
                       recorded_tensor(&r, shapes[s], "q_simval", NULL, "F32"), r.tokens, block_q);
            check_pool(a.k_pool, a.k_sim, recorded_tensor(&r, shapes[s], "k_mean", NULL, "F16"),
                       recorded_tensor(&r, shapes[s], "k_simval", NULL, "F32"), r.tokens, block_k);
            recorded_arrays_release(&a);
            recorded_close(&r);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mean_of_k_is_the_recorded_one),
        cmocka_unit_test(int8_is_the_recorded_one),
        cmocka_unit_test(fp8_is_the_recorded_one),
        cmocka_unit_test(pools_are_the_recorded_ones),
    };
    const int nothing = recorded_start();
    return nothing ? nothing : cmocka_run_group_tests(tests, recorded_setup, recorded_teardown);
}
