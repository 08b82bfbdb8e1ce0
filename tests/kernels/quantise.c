/* INT8 Q and K, FP8 V and the mean of K follow their definitions. (prepare_recorded.c: what the official code has.) */
#include "attend_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/prepare/quantise.h"

static void prepare(attend_case *c, sparge_arithmetic arithmetic, int32_t block_q, int32_t block_k,
                    sparge_scales scales)
{
    c->recipe = case_recipe(arithmetic);
    c->recipe.block_q = block_q;
    c->recipe.block_k = block_k;
    c->recipe.pv_unit = block_q;
    c->recipe.scales = scales;
    case_plan(c, NULL);
    case_run(c, SPARGE_STAGE_PREPARE);
}

static sparge_problem small_problem(sparge_dtype dtype)
{
    return (sparge_problem){.batch = 2,
                            .heads_q = 4,
                            .heads_kv = 2,
                            .seqlen_q = 150,
                            .seqlen_k = 203,
                            .head_dim = 40,
                            .dtype = dtype,
                            .causal = SPARGE_CAUSAL_NONE};
}

/* Do rows a and b share a scale, by the definition in SageAttention's terms? */
static int share_q(sparge_scales scales, int64_t a, int64_t b, int32_t block)
{
    if (scales == SPARGE_SCALES_BLOCK)
        return a / block == b / block;
    return a / 32 == b / 32 && (scales == SPARGE_SCALES_WARP || (a - b) % 8 == 0);
}

static int share_k(sparge_scales scales, int64_t a, int64_t b, int32_t block)
{
    const int same_columns = (a & 6) == (b & 6); /* the same pair of the 8 columns of an accumulator tile */
    return a / block == b / block && (scales != SPARGE_SCALES_THREAD || same_columns);
}

/* Every element of one tensor from its definition. offset: what was subtracted, float[heads][D], or NULL. */
static void check_int8(const sparge_tensor *x, const float *offset, int is_k, sparge_scales scales, int32_t block,
                       const int8_t *x8, const float *scale, int64_t scales_of_head,
                       int64_t (*index)(const sparge_recipe *, int64_t), const sparge_recipe *recipe)
{
    const int64_t heads = x->shape[0] * x->shape[1], tokens = x->shape[2], dim = x->shape[3];
    float *values = oracle_alloc((size_t)(tokens * dim), sizeof *values);
    for (int64_t h = 0; h < heads; h++) {
        for (int64_t t = 0; t < tokens; t++)
            for (int64_t d = 0; d < dim; d++)
                values[t * dim + d] =
                    (float)case_get(x, h / x->shape[1], h % x->shape[1], t, d) - (offset ? offset[h * dim + d] : 0.0f);
        for (int64_t t = 0; t < tokens; t++) {
            float max = 0;
            for (int64_t u = 0; u < tokens; u++)
                if (is_k ? share_k(scales, t, u, block) : share_q(scales, t, u, block))
                    for (int64_t d = 0; d < dim; d++)
                        max = fmaxf(max, fabsf(values[u * dim + d]));
            const float expected = fmaf(max, 1.0f / 127.0f, 1e-7f);
            assert_in_range(index(recipe, t), 0, scales_of_head - 1);
            assert_true(scale[h * scales_of_head + index(recipe, t)] == expected);
            for (int64_t d = 0; d < dim; d++) {
                const double q = (double)values[t * dim + d] * (double)(1.0f / expected);
                assert_int_equal(x8[(h * tokens + t) * dim + d], lrint(q));
            }
        }
    }
    free(values);
}

static void int8_follows_its_definition(void **state)
{
    (void)state;
    for (int dtype = SPARGE_F16; dtype <= SPARGE_BF16; dtype++)
        for (int scales = SPARGE_SCALES_BLOCK; scales <= SPARGE_SCALES_THREAD; scales++) {
            const sparge_problem problem = small_problem((sparge_dtype)dtype);
            attend_case c;
            case_open(&c, &problem, CASE_NHD, 2, NULL);
            case_fill_normal(&c, 8, 3, 2);
            prepare(&c, SPARGE_ARITHMETIC_INT8_F16, 64, 128, (sparge_scales)scales);
            const cpu_prepared *p = &cpu_plan_of(&c.plan)->prepared;
            check_int8(&c.io.q, NULL, 0, (sparge_scales)scales, 64, p->q8, p->q_scale,
                       cpu_q_scales(&problem, &c.recipe), cpu_q_scale_index, &c.recipe);
            check_int8(&c.io.k, p->k_mean, 1, (sparge_scales)scales, 128, p->k8, p->k_scale,
                       cpu_k_scales(&problem, &c.recipe), cpu_k_scale_index, &c.recipe);
            for (int64_t h = 0; h < 4; h++)
                for (int64_t d = 0; d < problem.head_dim; d++) {
                    double sum = 0, size = 0;
                    for (int64_t t = 0; t < problem.seqlen_k; t++) {
                        sum += case_get(&c.io.k, h / 2, h % 2, t, d);
                        size += fabs(case_get(&c.io.k, h / 2, h % 2, t, d));
                    }
                    const double off =
                        fabs((double)p->k_mean[h * problem.head_dim + d] * (double)problem.seqlen_k - sum);
                    assert_true(off <= size * 0x1p-20);
                }
            case_close(&c);
        }
}

static void fp8_follows_its_definition(void **state)
{
    (void)state;
    for (int dtype = SPARGE_F16; dtype <= SPARGE_BF16; dtype++) {
        const sparge_problem problem = small_problem((sparge_dtype)dtype);
        attend_case c;
        case_open(&c, &problem, CASE_PADDED_ROWS, 2, NULL);
        case_fill_normal(&c, 8, 3, 2);
        for (int64_t t = 0; t < problem.seqlen_k; t++) {
            case_set(&c.io.v, 0, 1, t, 3, 0.0);                   /* a zero channel */
            case_set(&c.io.v, 1, 0, t, 39, dtype ? 1e-39 : 6e-8); /* one of subnormals */
            case_set(&c.io.v, 1, 1, t, 0, t == 77 ? 60000.0 : 1.0);
        }
        prepare(&c, SPARGE_ARITHMETIC_INT8_FP8, 64, 128, SPARGE_SCALES_BLOCK);
        const cpu_prepared *p = &cpu_plan_of(&c.plan)->prepared;
        for (int64_t h = 0; h < 4; h++)
            for (int64_t d = 0; d < problem.head_dim; d++) {
                float max = 0;
                for (int64_t t = 0; t < problem.seqlen_k; t++)
                    max = fmaxf(max, fabsf((float)case_get(&c.io.v, h / 2, h % 2, t, d)));
                max = fmaxf(max, 0x1p-100f);
                const float scale = p->v_scale[h * problem.head_dim + d];
                assert_true(isfinite(scale) && scale == max * (1.0f / 448.0f));
                for (int64_t t = 0; t < problem.seqlen_k; t++) {
                    const float scaled = (float)case_get(&c.io.v, h / 2, h % 2, t, d) * (448.0f / max);
                    assert_int_equal(p->v8[(h * problem.seqlen_k + t) * problem.head_dim + d],
                                     sparge_e4m3_from_f32(scaled));
                }
            }
        case_run(&c, SPARGE_STAGE_ATTEND); /* the zero channel stays zero, nothing becomes NaN */
        for (int64_t t = 0; t < problem.seqlen_q; t++)
            for (int64_t d = 0; d < problem.head_dim; d++) {
                assert_true(isfinite(case_get(&c.io.o, 0, 2, t, d)));
                assert_true(d != 3 || case_get(&c.io.o, 0, 2, t, d) == 0.0);
            }
        case_close(&c);
    }
}

/* A scale is never 0: max = 0 gives the floor, and zeros divide to zeros. */
static void zero_rows_have_the_floor_as_scale(void **state)
{
    (void)state;
    const sparge_problem problem = small_problem(SPARGE_F16);
    attend_case c;
    case_open(&c, &problem, CASE_HND, 1, NULL); /* all zero */
    prepare(&c, SPARGE_ARITHMETIC_INT8_F16, 64, 128, SPARGE_SCALES_BLOCK);
    const cpu_prepared *p = &cpu_plan_of(&c.plan)->prepared;
    assert_true(p->q_scale[0] == 1e-7f && p->k_scale[0] == 1e-7f);
    for (int64_t i = 0; i < problem.seqlen_k * problem.head_dim; i++)
        assert_int_equal(p->k8[i], 0);
    case_run(&c, SPARGE_STAGE_ATTEND);
    assert_true(case_get(&c.io.o, 0, 0, 0, 0) == 0.0);
    case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(int8_follows_its_definition),
        cmocka_unit_test(fp8_follows_its_definition),
        cmocka_unit_test(zero_rows_have_the_floor_as_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
