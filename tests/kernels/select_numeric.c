/* The numbers of selection: exp against libm, sorting against its definition, pooling against double, and the order of
 * sums as the headers write it down. */
#include "check.h"
#include "cpu/cpu.h"
#include "cpu/prepare/pool.h"
#include "cpu/select/exp.h"
#include "cpu/select/numeric.h"
#include "select_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void exponential(void **state)
{
    double worst = 0;
    (void)state;
    for (int i = 0; i <= 870000; i++) {
        const float x = (float)-i * 1e-4F;
        const double exact = exp((double)x), error = fabs((double)cpu_select_exp(x) - exact) / exact;
        worst = fmax(worst, error);
    }
    assert_true(worst < 2 * 0x1p-23); /* 2 ulp at most */
    assert_true(cpu_select_exp(0) == 1 && cpu_select_exp(-0.0F) == 1);
    assert_true(cpu_select_exp(-87.5F) == 0 && cpu_select_exp(-INFINITY) == 0 && cpu_select_exp(NAN) == 0);
    assert_true(cpu_select_exp(-87.0F) >= 0x1p-126F);
    float last = 1;
    for (float x = 0; x > -3; x -= 1e-4F) { /* nearly monotone: no step up beyond its own error */
        assert_true(cpu_select_exp(x) <= last * (1 + 0x1p-22F));
        last = cpu_select_exp(x);
    }
}

/* Probabilities sum to one, -inf has none, shifting all scores changes nothing much. */
static void probabilities(void **state)
{
    uint64_t rng = 51;
    (void)state;
    for (int n = 0; n < 200; n++) {
        float score[300], shifted[300];
        const int64_t count = case_between(&rng, 1, 300);
        double sum = 0;
        for (int64_t i = 0; i < count; i++) {
            score[i] = i && case_between(&rng, 0, 9) == 0 ? -INFINITY : (float)(10 * case_normal(&rng));
            shifted[i] = score[i] + 64;
        }
        cpu_softmax(shifted, count);
        const float first = score[0];
        cpu_softmax(score, count);
        assert_true(!isinf(first));
        for (int64_t i = 0; i < count; i++) {
            sum += score[i];
            assert_true(fabsf(score[i] - shifted[i]) < 1e-4F);
        }
        assert_true(fabs(sum - 1) < 1e-5);
    }
    float none[2] = {-INFINITY, -INFINITY};
    assert_int_equal(cpu_softmax_terms(none, 2), 0);
    assert_true(none[0] == 0 && none[1] == 0);
}

static void sorting(void **state)
{
    uint64_t rng = 52;
    (void)state;
    for (int n = 0; n < 500; n++) {
        float score[400];
        int32_t order[400], spare[400];
        const int64_t count = case_between(&rng, 0, 400);
        uint8_t seen[400] = {0};
        for (int64_t i = 0; i < count; i++) {
            score[i] = case_between(&rng, 0, 20) == 0 ? -INFINITY : (float)case_between(&rng, -8, 8);
            order[i] = (int32_t)i;
        }
        cpu_sort_falling(score, order, spare, count);
        for (int64_t i = 0; i < count; i++) {
            assert_true(order[i] >= 0 && order[i] < count && !seen[order[i]]);
            seen[order[i]] = 1;
            if (i > 0)
                assert_true(score[order[i - 1]] > score[order[i]] ||
                            (score[order[i - 1]] == score[order[i]] && order[i - 1] < order[i]));
        }
    }
}

static void dot_order(void **state)
{
    uint64_t rng = 53;
    (void)state;
    for (int32_t count = 1; count <= 128; count++) {
        float a[128], b[128], lane[8] = {0};
        double exact = 0, size = 0;
        for (int32_t i = 0; i < count; i++) {
            a[i] = (float)case_normal(&rng);
            b[i] = (float)case_normal(&rng);
            exact += (double)a[i] * b[i];
            size += fabs((double)a[i] * b[i]);
            const float product = a[i] * b[i];
            lane[i % 8] += product;
        }
        const float even = (lane[0] + lane[4]) + (lane[2] + lane[6]), odd = (lane[1] + lane[5]) + (lane[3] + lane[7]);
        assert_true(cpu_dot(a, b, count) == even + odd);
        assert_true(fabs(cpu_dot(a, b, count) - exact) <= size * 1e-6);
    }
}

/* cpu_isa.dots: fused products, added up in order; more rows than it takes at a time. */
static void score_order(void **state)
{
    uint64_t rng = 55;
    sparge_context *context;
    (void)state;
    assert_int_equal(sparge_context_create("cpu", 0, 1, &context, NULL), SPARGE_OK);
    for (int32_t count = 1; count <= 128; count++) {
        float a[128], rows[11 * 128], score[11];
        for (int32_t i = 0; i < count; i++)
            a[i] = (float)case_normal(&rng);
        for (int32_t i = 0; i < 11 * count; i++)
            rows[i] = (float)case_normal(&rng);
        cpu_scores(context, score, a, rows, 11, count, 0.125f);
        for (int32_t r = 0; r < 11; r++) {
            float sum = 0;
            for (int32_t i = 0; i < count; i++)
                sum = fmaf(a[i], rows[r * count + i], sum);
            assert_true(score[r] == sum * 0.125f);
        }
    }
    sparge_context_destroy(context);
}

/* cpu_isa.sum_squares: groups of eight, each added in order and fused, then neighbours until one is left. */
static float group_sum(const float *x, int32_t groups)
{
    if (groups > 1)
        return group_sum(x, groups / 2) + group_sum(x + groups / 2 * 8, groups / 2);
    float sum = 0;
    for (int32_t i = 0; i < 8; i++)
        sum = fmaf(x[i], x[i], sum);
    return sum;
}

/* The sum over channels: neighbours are added until one term is left. */
static float pair_sum(const float *term, int32_t count)
{
    return count == 1 ? term[0] : pair_sum(term, count / 2) + pair_sum(term + count / 2, count / 2);
}

/* The sum over rows of value * factor: lane r of `lanes` has the rows r, r + lanes, ...; then halves are added. */
static float lane_tree(const float *value, const float *factor, int32_t count, int32_t lanes, int32_t first,
                       int32_t step)
{
    if (step < lanes)
        return lane_tree(value, factor, count, lanes, first, 2 * step) +
               lane_tree(value, factor, count, lanes, first + step, 2 * step);
    float sum = 0;
    for (int32_t t = first; t < count; t += lanes)
        sum = fmaf(value[t], factor[t], sum);
    return sum;
}

static void pooling(void **state)
{
    uint64_t rng = 54;
    sparge_context *context;
    (void)state;
    assert_int_equal(sparge_context_create("cpu", 0, 1, &context, NULL), SPARGE_OK);
    for (int n = 0; n < 60; n++) {
        const int32_t block = case_between(&rng, 0, 1) ? 64 : 128, count = (int32_t)case_between(&rng, 1, block);
        const int32_t channels = (int32_t)case_between(&rng, 1, 128), padded = channels <= 64 ? 64 : 128;
        uint16_t *code = calloc((size_t)(count * channels), sizeof *code);
        float center[128], mean[128], sim, column[128], inverse[128], one[128], squares[128], sums[128] = {0};
        assert_non_null(code);
        for (int32_t i = 0; i < count * channels; i++)
            code[i] = sparge_f16_from_f32((float)case_normal(&rng) + 1);
        for (int32_t d = 0; d < channels; d++)
            center[d] = (float)case_normal(&rng);
        const int32_t zero_row = case_between(&rng, 0, 2) == 0 ? (int32_t)case_between(&rng, 0, count - 1) : -1;
        if (zero_row >= 0)
            for (int32_t d = 0; d < channels; d++) {
                center[d] = sparge_f32_from_f16(sparge_f16_from_f32(center[d]));
                code[zero_row * channels + d] = sparge_f16_from_f32(center[d]);
            }
        const sparge_tensor x = sparge_tensor_hnd(code, SPARGE_F16, 1, 1, count, channels);
        const cpu_pool_block what = {.count = count, .block = block, .divisor = count, .center = center};
        cpu_pool_one(context, &x, 0, 0, &what, mean, &sim);
        double exact = 0, sum[128] = {0};
        for (int32_t t = 0; t < count; t++) {
            float value[128] = {0};
            double length = 0;
            for (int32_t d = 0; d < channels; d++) {
                value[d] = sparge_f32_from_f16(code[t * channels + d]) - center[d];
                length += (double)value[d] * value[d];
            }
            const float norm = sqrtf(group_sum(value, padded / 8));
            assert_int_equal(norm == 0, t == zero_row);
            inverse[t] = norm > 0 ? 1 / norm : 0;
            one[t] = 1;
            for (int32_t d = 0; d < channels; d++)
                sum[d] += length > 0 ? value[d] / sqrt(length) : 0;
        }
        for (int32_t d = 0; d < channels; d++) {
            for (int32_t t = 0; t < count; t++)
                column[t] = sparge_f32_from_f16(code[t * channels + d]) - center[d];
            assert_true(mean[d] == lane_tree(column, one, count, block / 16, 0, 1) / (float)count);
            sums[d] = lane_tree(column, inverse, count, block / 16, 0, 1);
            exact += sum[d] * sum[d];
        }
        for (int32_t d = 0; d < padded; d++)
            squares[d] = sums[d] * sums[d];
        assert_true(sim == pair_sum(squares, padded) / (float)(count * count));
        assert_true(fabs(sim - exact / ((double)count * count)) < 1e-5);
        free(code);
    }
    sparge_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(exponential), cmocka_unit_test(probabilities),
                                       cmocka_unit_test(sorting),     cmocka_unit_test(dot_order),
                                       cmocka_unit_test(score_order), cmocka_unit_test(pooling)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
