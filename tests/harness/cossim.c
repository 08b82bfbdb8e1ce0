/* Block self-similarity against its definition: the whole Gram matrix, divided by its largest entry, averaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "measure/cossim.h"

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static float random_value(uint32_t *state)
{
    return (float)next(state) / (float)(1 << 23) - 1.0f;
}

static double by_definition(const float *x, int64_t rows, int64_t channels)
{
    double *gram = malloc((size_t)(rows * rows) * sizeof *gram);
    double largest = -INFINITY, sum = 0;
    assert_non_null(gram);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < rows; j++) {
            double dot = 0;
            for (int64_t c = 0; c < channels; c++)
                dot += (double)x[i * channels + c] * (double)x[j * channels + c];
            gram[i * rows + j] = dot;
            largest = fmax(largest, dot);
        }
    for (int64_t i = 0; i < rows * rows; i++)
        sum += gram[i] / fabs(largest);
    free(gram);
    return sum / (double)(rows * rows);
}

static void equals_the_definition(void **state)
{
    uint32_t random = 7;
    (void)state;
    for (int round = 0; round < 100; round++) {
        int64_t rows = 1 + next(&random) % 70, channels = 1 + next(&random) % 40;
        float offset = (float)(next(&random) % 3);
        float x[70 * 40];
        for (int64_t i = 0; i < rows * channels; i++)
            x[i] = random_value(&random) + offset;
        assert_true(fabs(sb_cossim_block(x, rows, channels) - by_definition(x, rows, channels)) < 1e-12);
    }
}

static void knows_the_extremes(void **state)
{
    const float equal[6] = {1, 2, 1, 2, 1, 2}, opposite[4] = {1, 0, -1, 0}, orthogonal[4] = {3, 0, 0, 3}, zero[4] = {0};
    (void)state;
    assert_true(fabs(sb_cossim_block(equal, 3, 2) - 1) < 1e-15);
    assert_true(sb_cossim_block(opposite, 2, 2) == 0);
    assert_true(fabs(sb_cossim_block(orthogonal, 2, 2) - 0.5) < 1e-15); /* only the diagonal */
    assert_true(sb_cossim_block(zero, 2, 2) == 0);
}

/* A tensor of two batches and three heads, with a last block that is shorter. */
static void averages_over_blocks_and_heads(void **state)
{
    enum { B = 2, H = 3, L = 37, D = 8, BLOCK = 16 };
    static const sparge_dtype dtypes[] = {SPARGE_F16, SPARGE_BF16};
    uint16_t bits[B * H * L * D];
    float rounded[B * H * L * D];
    sparge_error error;
    sparge_context *context = NULL;
    uint32_t random = 11;
    (void)state;
    assert_int_equal(sparge_context_create("cpu", 0, 1, &context, &error), SPARGE_OK);
    for (int d = 0; d < 2; d++) {
        for (int i = 0; i < B * H * L * D; i++) {
            float value = random_value(&random) + (float)(i % D);
            bits[i] = dtypes[d] == SPARGE_F16 ? sparge_f16_from_f32(value) : sparge_bf16_from_f32(value);
            rounded[i] = dtypes[d] == SPARGE_F16 ? sparge_f32_from_f16(bits[i]) : sparge_f32_from_bf16(bits[i]);
        }
        for (int centred = 0; centred < 2; centred++) {
            double expected = 0, mean = -1;
            for (int h = 0; h < B * H; h++) {
                float head[L * D];
                for (int c = 0; c < D; c++) {
                    double sum = 0;
                    for (int t = 0; t < L; t++)
                        sum += (double)rounded[(h * L + t) * D + c];
                    for (int t = 0; t < L; t++)
                        head[t * D + c] = rounded[(h * L + t) * D + c] - (centred ? (float)(sum / L) : 0.0f);
                }
                expected += by_definition(head, 16, D) + by_definition(head + 16 * D, 16, D) +
                            by_definition(head + 32 * D, 5, D);
            }
            expected /= 3 * B * H;
            sparge_tensor tensor = sparge_tensor_hnd(bits, dtypes[d], B, H, L, D);
            assert_int_equal(sb_cossim_mean(context, &tensor, BLOCK, centred, &mean, &error), SPARGE_OK);
            assert_true(fabs(mean - expected) < 1e-9);
        }
    }
    sparge_tensor wrong = sparge_tensor_hnd(bits, SPARGE_F32, B, H, L / 2, D);
    double mean;
    assert_int_equal(sb_cossim_mean(context, &wrong, BLOCK, 0, &mean, &error), SPARGE_ERROR_INVALID_ARGUMENT);
    wrong.dtype = SPARGE_F16;
    assert_int_equal(sb_cossim_mean(context, &wrong, 0, 0, &mean, &error), SPARGE_ERROR_INVALID_ARGUMENT);
    sparge_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_definition),
        cmocka_unit_test(knows_the_extremes),
        cmocka_unit_test(averages_over_blocks_and_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
