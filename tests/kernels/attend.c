/* Attend against the oracle and against itself: shapes, layouts, rules, threads, instruction sets, empty rows, poison. */
#include "attend_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/isa/isa.h"

enum { PREPARE_AND_ATTEND = SPARGE_STAGE_PREPARE | SPARGE_STAGE_ATTEND };

static const sparge_arithmetic arithmetics[] = {SPARGE_ARITHMETIC_F16, SPARGE_ARITHMETIC_INT8_F16,
                                                SPARGE_ARITHMETIC_INT8_FP8};

/* Largest relative L2 error that the rounding of the arithmetic explains, on normal inputs: P and O in f16 2^-11 or bf16
 * 2^-8, INT8 about 1 % of the scores, e4m3 2^-4 per element of P and V (twice, divided by sqrt(12)). */
static double tolerance(sparge_arithmetic arithmetic, sparge_dtype dtype)
{
    const double narrow = dtype == SPARGE_F16 ? 6e-4 : 5e-3;
    return arithmetic == SPARGE_ARITHMETIC_F16 ? narrow : arithmetic == SPARGE_ARITHMETIC_INT8_F16 ? 0.03 : 0.06;
}

static sparge_problem problem_of(int32_t heads_q, int32_t heads_kv, int64_t lq, int64_t lk, int32_t head_dim,
                                 sparge_dtype dtype, sparge_causal causal)
{
    return (sparge_problem){.batch = 2,
                            .heads_q = heads_q,
                            .heads_kv = heads_kv,
                            .seqlen_q = lq,
                            .seqlen_k = lk,
                            .head_dim = head_dim,
                            .dtype = dtype,
                            .causal = causal};
}

/* Compares every head with the oracle on keep (NULL: all visible). */
static void check_against_oracle(const attend_case *c, const uint8_t *keep, double limit, double lse_limit)
{
    const sparge_problem *p = &c->problem;
    const int64_t count = p->seqlen_q * p->head_dim;
    double *expected = oracle_alloc((size_t)count, sizeof *expected);
    double *lse = oracle_alloc((size_t)p->seqlen_q, sizeof *lse);
    for (int32_t batch = 0; batch < p->batch; batch++)
        for (int32_t head = 0; head < p->heads_q; head++) {
            case_oracle(c, batch, head, keep, expected, lse);
            double *got = case_output(c, batch, head);
            const double error = rel_l2(got, expected, count);
            if (!(error <= limit))
                fail_msg("lq %d lk %d d %d causal %d arithmetic %d dtype %d head %d: rel_l2 %g > %g", (int)p->seqlen_q,
                         (int)p->seqlen_k, p->head_dim, (int)p->causal, (int)c->recipe.arithmetic, (int)p->dtype, head,
                         error, limit);
            for (int64_t i = 0; i < p->seqlen_q; i++) {
                const double mine = (double)c->lse[((int64_t)batch * p->heads_q + head) * p->seqlen_q + i];
                if (lse[i] == -INFINITY)
                    assert_true(mine == -INFINITY);
                else if (!(fabs(mine - lse[i]) <= lse_limit))
                    fail_msg("lq %d lk %d d %d: lse[%d] = %g, not %g", (int)p->seqlen_q, (int)p->seqlen_k, p->head_dim,
                             (int)i, mine, lse[i]);
            }
            free(got);
        }
    free(expected);
    free(lse);
}

static void shapes_match_the_oracle(void **state)
{
    (void)state;
    static const struct {
        int64_t lq, lk;
        int32_t head_dim;
    } shapes[] = {{1, 1, 1},     {1, 300, 64},   {7, 5, 40},    {128, 64, 128}, {129, 65, 72},
                  {200, 133, 8}, {100, 260, 96}, {260, 100, 3}, {64, 192, 127}, {33, 1, 128}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int causal = SPARGE_CAUSAL_NONE; causal <= SPARGE_CAUSAL_BOTTOM_RIGHT; causal++)
            for (size_t a = 0; a < 3; a++)
                for (int dtype = SPARGE_F16; dtype <= SPARGE_BF16; dtype++) {
                    const sparge_problem problem = problem_of(4, 2, shapes[s].lq, shapes[s].lk, shapes[s].head_dim,
                                                              (sparge_dtype)dtype, (sparge_causal)causal);
                    attend_case c;
                    case_open(&c, &problem, CASE_PADDED_ROWS, 1, NULL);
                    case_fill_normal(&c, 17 + s, 1, a == 0 ? 0 : 2);
                    c.recipe = case_recipe(arithmetics[a]);
                    case_plan(&c, NULL);
                    case_run(&c, PREPARE_AND_ATTEND);
                    check_against_oracle(&c, NULL, tolerance(arithmetics[a], problem.dtype), a == 0 ? 2e-5 : 0.1);
                    assert_true(case_poison_intact(&c));
                    case_close(&c);
                }
}

/* Every block shape and scale granularity is the same attention. */
static void block_shapes_and_scales_match_the_oracle(void **state)
{
    (void)state;
    const sparge_problem problem = problem_of(2, 1, 300, 290, 64, SPARGE_F16, SPARGE_CAUSAL_BOTTOM_RIGHT);
    static const int32_t blocks[][2] = {{64, 64}, {64, 128}, {128, 64}, {128, 128}};
    for (size_t b = 0; b < 4; b++)
        for (int scales = SPARGE_SCALES_BLOCK; scales <= SPARGE_SCALES_THREAD; scales++)
            for (size_t a = 0; a < 3; a++) {
                attend_case c;
                case_open(&c, &problem, CASE_HND, 2, NULL);
                case_fill_normal(&c, 5, 1, 2);
                c.recipe = case_recipe(arithmetics[a]);
                c.recipe.block_q = blocks[b][0];
                c.recipe.block_k = blocks[b][1];
                c.recipe.scales = (sparge_scales)scales;
                case_plan(&c, NULL);
                case_run(&c, PREPARE_AND_ATTEND);
                check_against_oracle(&c, NULL, tolerance(arithmetics[a], SPARGE_F16), 0.1);
                case_close(&c);
            }
}

/* The bits of o of one case, for comparisons. */
static uint16_t *run_bits(const sparge_problem *problem, sparge_arithmetic arithmetic, case_layout layout, int threads,
                          const char *isa, float *lse)
{
    attend_case c;
    case_open(&c, problem, layout, threads, isa);
    case_fill_normal(&c, 99, 2, 1);
    c.recipe = case_recipe(arithmetic);
    c.recipe.lambda.uniform = -6;
    c.recipe.pv_unit = 16;
    case_plan(&c, NULL);
    case_run(&c, PREPARE_AND_ATTEND);
    const size_t count = (size_t)(problem->batch * problem->heads_q * problem->seqlen_q * problem->head_dim);
    uint16_t *bits = oracle_alloc(count, sizeof *bits);
    size_t i = 0;
    for (int64_t b = 0; b < problem->batch; b++)
        for (int64_t h = 0; h < problem->heads_q; h++)
            for (int64_t t = 0; t < problem->seqlen_q; t++)
                for (int64_t d = 0; d < problem->head_dim; d++)
                    bits[i++] =
                        ((const uint16_t *)
                             c.io.o.data)[b * c.io.o.stride[0] + h * c.io.o.stride[1] + t * c.io.o.stride[2] + d];
    memcpy(lse, c.lse, c.lse_count * sizeof *lse);
    case_close(&c);
    return bits;
}

static void threads_and_layouts_do_not_change_a_bit(void **state)
{
    (void)state;
    for (size_t a = 0; a < 3; a++) {
        const sparge_problem problem = problem_of(4, 2, 333, 400, 80, SPARGE_BF16, SPARGE_CAUSAL_BOTTOM_RIGHT);
        const size_t bytes = sizeof(uint16_t) * (size_t)(problem.batch * problem.heads_q * 333 * 80);
        float lse[3][2 * 4 * 333];
        uint16_t *one = run_bits(&problem, arithmetics[a], CASE_HND, 1, NULL, lse[0]);
        uint16_t *three = run_bits(&problem, arithmetics[a], CASE_HND, 3, NULL, lse[1]);
        uint16_t *nhd = run_bits(&problem, arithmetics[a], CASE_NHD, 2, NULL, lse[2]);
        assert_memory_equal(one, three, bytes);
        assert_memory_equal(one, nhd, bytes);
        assert_memory_equal(lse[0], lse[1], sizeof lse[0]);
        assert_memory_equal(lse[0], lse[2], sizeof lse[0]);
        free(one);
        free(three);
        free(nhd);
    }
}

static void instruction_sets_agree(void **state)
{
    (void)state;
    const sparge_problem problem = problem_of(2, 2, 200, 330, 100, SPARGE_F16, SPARGE_CAUSAL_TOP_LEFT);
    const int64_t count = (int64_t)problem.batch * 2 * 200 * 100;
    for (size_t a = 0; a < 3; a++) {
        float reference_lse[2 * 2 * 200], lse[2 * 2 * 200];
        uint16_t *reference = run_bits(&problem, arithmetics[a], CASE_HND, 2, "baseline", reference_lse);
        const cpu_isa *isa;
        for (int i = 0; (isa = cpu_isa_at(i)) != NULL; i++) {
            uint16_t *bits = run_bits(&problem, arithmetics[a], CASE_HND, 2, isa->name, lse);
            double difference = 0, norm = 0;
            for (int64_t e = 0; e < count; e++) {
                const double x = oracle_decode(ORACLE_F16, bits[e]), y = oracle_decode(ORACLE_F16, reference[e]);
                difference += (x - y) * (x - y);
                norm += y * y;
            }
            /* A float that differs in the last place may round P to the neighbour: rare, and one step of its type. */
            if (!(sqrt(difference / norm) <= 3e-4))
                fail_msg("%s against baseline: rel_l2 %g", isa->name, sqrt(difference / norm));
            for (size_t r = 0; r < sizeof lse / sizeof lse[0]; r++)
                assert_true(lse[r] == reference_lse[r] || fabsf(lse[r] - reference_lse[r]) <= 2e-5f);
            free(bits);
        }
        free(reference);
    }
}

/* Row block 1 keeps nothing; with more queries than keys, bottom-right leaves the first queries without a key. */
static void rows_without_keys_are_zero(void **state)
{
    (void)state;
    const sparge_problem problem = problem_of(1, 1, 300, 200, 64, SPARGE_F16, SPARGE_CAUSAL_BOTTOM_RIGHT);
    for (size_t a = 0; a < 3; a++) {
        attend_case c;
        case_open(&c, &problem, CASE_HND, 2, NULL);
        case_fill_normal(&c, 3, 1, 1);
        c.recipe = case_recipe(arithmetics[a]);
        uint8_t mask[2][1][3][4];
        memset(mask, 1, sizeof mask);
        for (int b = 0; b < 2; b++)
            memset(mask[b][0][1], 0, sizeof mask[b][0][1]);
        case_plan(&c, &mask[0][0][0][0]);
        case_run(&c, PREPARE_AND_ATTEND);
        uint8_t *keep = oracle_alloc(300 * 200, 1);
        for (int i = 0; i < 300; i++)
            memset(keep + i * 200, i / 128 != 1, 200);
        check_against_oracle(&c, keep, tolerance(arithmetics[a], SPARGE_F16), 0.1);
        int empty = 0;
        for (int i = 0; i < 300; i++) {
            if (i >= 100 && i / 128 != 1)
                continue;
            empty++;
            assert_true(c.lse[i] == -INFINITY);
            for (int d = 0; d < 64; d++)
                assert_int_equal(((uint16_t *)c.io.o.data)[i * 64 + d], 0);
        }
        assert_int_equal(empty, 100 + 128);
        free(keep);
        case_close(&c);
    }
}

/* A worklist as the token-granular methods make it, for head (0, 0): odd row blocks and segments, gathered columns, and
 * one of three element rules: none, a lower edge with a sink, both edges with a sink and dense last rows. */
enum {
    LIST_LQ = 150,
    LIST_LK = 500,
    LIST_D = 64,
    LIST_SINK = 66,
    LIST_DENSE_FROM = 120,
    LIST_BEGIN = 250,
    LIST_END = 330
};

static const cpu_segment list_segments[] = {{0, 37}, {64, 3}, {70, 58}, {192, 64}, {300, 20}, {384, 1}, {448, 52}};
enum { LIST_SEGMENTS = sizeof list_segments / sizeof list_segments[0], LIST_COLUMNS = 66 };

/* Odd keys between the segments: more than one tile of columns. */
static int32_t list_column(int i)
{
    return i < 32 ? 129 + 2 * i : i < 54 ? 257 + 2 * (i - 32) : 401 + 2 * (i - 54);
}

static void set_rule(cpu_worklist *work, int rule)
{
    if (rule >= 1) {
        work->begin_offset = LIST_BEGIN;
        work->sink = LIST_SINK;
    }
    if (rule == 2) {
        work->end_offset = LIST_END;
        work->dense_from = LIST_DENSE_FROM;
    }
}

static int rule_keeps(int rule, int query, int key)
{
    if (rule == 0 || key < LIST_SINK || (rule == 2 && query >= LIST_DENSE_FROM))
        return 1;
    return key >= query + LIST_BEGIN && (rule == 1 || key < query + LIST_END);
}

static uint8_t *listed_pairs(int rule)
{
    uint8_t listed[LIST_LK] = {0}, *keep = oracle_alloc(LIST_LQ * LIST_LK, 1);
    for (int s = 0; s < LIST_SEGMENTS; s++)
        memset(listed + list_segments[s].k_begin, 1, (size_t)list_segments[s].k_count);
    for (int i = 0; i < LIST_COLUMNS; i++)
        listed[list_column(i)] = 1;
    for (int query = 0; query < LIST_LQ; query++)
        for (int key = 0; key < LIST_LK; key++)
            keep[query * LIST_LK + key] = listed[key] && rule_keeps(rule, query, key);
    return keep;
}

static void check_list(size_t a, int rule)
{
    const sparge_problem problem = problem_of(1, 1, LIST_LQ, LIST_LK, LIST_D, SPARGE_F16, SPARGE_CAUSAL_BOTTOM_RIGHT);
    attend_case c;
    case_open(&c, &problem, CASE_HND, 2, NULL);
    case_fill_normal(&c, 3, 1, 1);
    c.recipe = case_recipe(arithmetics[a]);
    case_plan(&c, NULL);
    cpu_worklist *work = &cpu_plan_of(&c.plan)->work;
    assert_true(work->row_blocks >= 3);
    work->row_blocks = 3;
    static const int32_t begin[] = {0, 50, 128, LIST_LQ};
    for (int i = 0; i < 3; i++)
        work->row_block[i] = (cpu_row_block){.q_begin = begin[i],
                                             .q_count = begin[i + 1] - begin[i],
                                             .segment_end = LIST_SEGMENTS,
                                             .column_end = LIST_COLUMNS};
    assert_true(work->segment_capacity >= LIST_SEGMENTS);
    memcpy(work->segment, list_segments, sizeof list_segments);
    int32_t columns[LIST_COLUMNS];
    for (int i = 0; i < LIST_COLUMNS; i++)
        columns[i] = list_column(i);
    work->column = columns;
    set_rule(work, rule);
    cpu_plan_of(&c.plan)->stats.basis = SPARGE_BASIS_PAIR;
    case_run(&c, PREPARE_AND_ATTEND);

    uint8_t *keep = listed_pairs(rule), *pairs = calloc(LIST_LQ, LIST_LK);
    double expected[LIST_LQ * LIST_D], lse[LIST_LQ];
    case_oracle(&c, 0, 0, keep, expected, lse);
    double *got = case_output(&c, 0, 0);
    const double error = rel_l2(got, expected, LIST_LQ * LIST_D);
    if (!(error <= tolerance(arithmetics[a], SPARGE_F16)))
        fail_msg("arithmetic %d rule %d: rel_l2 %g", (int)a, rule, error);
    for (int i = 0; i < LIST_LQ; i++)
        assert_true(fabs((double)c.lse[i] - lse[i]) <= (a == 0 ? 2e-5 : 0.1));
    int64_t keys = LIST_COLUMNS;
    for (int s = 0; s < LIST_SEGMENTS; s++)
        keys += list_segments[s].k_count;
    assert_true(cpu_plan_of(&c.plan)->stats.executed_ops == 4.0 * LIST_D * LIST_LQ * (double)keys);
    assert_non_null(pairs);
    assert_int_equal(sparge_backend_cpu.plan_pairs(&c.plan, 0, 0, pairs), SPARGE_OK);
    for (int i = 0; i < LIST_LQ; i++)
        for (int j = 0; j < LIST_LK; j++)
            assert_int_equal(pairs[i * LIST_LK + j], keep[i * LIST_LK + j] && j < i + 1 + LIST_LK - LIST_LQ);
    free(pairs);
    free(keep);
    free(got);
    case_close(&c);
}

static void segments_columns_and_bands_match_the_oracle(void **state)
{
    (void)state;
    for (size_t a = 0; a < 3; a++)
        for (int rule = 0; rule < 3; rule++)
            check_list(a, rule);
}

/* Sliding tiles: tokens are permuted on the way in, and o and lse back on the way out. */
static void permuted_tokens_come_back_in_order(void **state)
{
    (void)state;
    sparge_problem problem = problem_of(2, 1, 2 * 7 * 9 + 5, 2 * 7 * 9 + 5, 64, SPARGE_F16, SPARGE_CAUSAL_NONE);
    problem.grid = (sparge_grid){.t = 2, .h = 7, .w = 9, .text_before = 2, .text_after = 3};
    for (size_t a = 0; a < 3; a++) {
        attend_case c;
        case_open(&c, &problem, CASE_NHD, 2, NULL);
        case_fill_normal(&c, 6, 1, 1);
        c.recipe = case_recipe(arithmetics[a]);
        c.recipe.select = SPARGE_SELECT_STA;
        for (int axis = 0; axis < 3; axis++) {
            c.recipe.sta.tile[axis] = axis + 1; /* 1 x 2 x 3 */
            c.recipe.sta.window[axis] = axis == 0 ? 1 : 3;
        }
        case_plan(&c, NULL);
        assert_non_null(cpu_plan_of(&c.plan)->permuted);
        case_run(&c, PREPARE_AND_ATTEND);
        const size_t pairs = (size_t)(problem.seqlen_q * problem.seqlen_k);
        uint8_t *keep = calloc(pairs, 1);
        assert_non_null(keep);
        assert_int_equal(sparge_backend_cpu.plan_pairs(&c.plan, 1, 1, keep), SPARGE_OK);
        assert_non_null(memchr(keep, 0, pairs));
        check_against_oracle(&c, keep, tolerance(arithmetics[a], SPARGE_F16), a == 0 ? 2e-5 : 0.1);
        free(keep);
        case_close(&c);
    }
}

/* What is not a number in the input must be visible in the output, not turned into zeros. */
static void nan_inputs_show(void **state)
{
    (void)state;
    const sparge_problem problem = problem_of(1, 1, 130, 130, 64, SPARGE_F16, SPARGE_CAUSAL_NONE);
    for (size_t a = 0; a < 3; a++)
        for (int which = 0; which < 3; which++) {
            attend_case c;
            case_open(&c, &problem, CASE_HND, 1, NULL);
            case_fill_normal(&c, 3, 1, 0);
            const sparge_tensor *tensors[] = {&c.io.q, &c.io.k, &c.io.v};
            case_set(tensors[which], 0, 0, 7, 5, NAN);
            c.recipe = case_recipe(arithmetics[a]);
            case_plan(&c, NULL);
            case_run(&c, PREPARE_AND_ATTEND);
            assert_true(isnan(case_get(&c.io.o, 0, 0, 7, 5)));
            assert_true(!isnan(case_get(&c.io.o, 1, 0, 7, 5)));
            case_close(&c);
        }
}

static void expect_refused(attend_case *c, const char *reason)
{
    c->plan = (sparge_plan){.context = c->context, .problem = c->problem, .recipe = c->recipe};
    assert_int_equal(sparge_backend_cpu.plan_create(&c->plan), SPARGE_ERROR_UNSUPPORTED);
    assert_null(c->plan.state);
    assert_non_null(strstr(sparge_error_string(c->context), reason));
}

static void refuses_what_it_cannot_do(void **state)
{
    (void)state;
    const sparge_problem problem = problem_of(1, 1, 10, 10, 64, SPARGE_F16, SPARGE_CAUSAL_NONE);
    attend_case c;
    case_open(&c, &problem, CASE_HND, 1, NULL);
    c.recipe = case_recipe(SPARGE_ARITHMETIC_F16);
    c.recipe.exp = SPARGE_EXP_FAST;
    expect_refused(&c, "exp = fast");
    c.recipe = case_recipe(SPARGE_ARITHMETIC_F16);
    c.recipe.lambda.uniform = -3;
    c.recipe.pv_unit = 48;
    expect_refused(&c, "pv_unit = 48");
    c.recipe.pv_unit = 64;
    c.recipe.skip_softmax_threshold = 0.1;
    expect_refused(&c, "lambda");
    c.recipe = case_recipe(SPARGE_ARITHMETIC_F16);
    c.recipe.select = SPARGE_SELECT_BAND;
    c.recipe.band.local = 4;
    c.recipe.lambda.uniform = -3;
    expect_refused(&c, "block grid");
    c.recipe = case_recipe(SPARGE_ARITHMETIC_F16);
    c.problem.batch = c.problem.heads_q = 1 << 16;
    c.problem.seqlen_q = c.problem.seqlen_k = (int64_t)1 << 30;
    c.plan = (sparge_plan){.context = c.context, .problem = c.problem, .recipe = c.recipe};
    assert_int_equal(sparge_backend_cpu.plan_create(&c.plan), SPARGE_ERROR_OUT_OF_MEMORY);
    assert_null(c.plan.state);
    case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_match_the_oracle),
        cmocka_unit_test(block_shapes_and_scales_match_the_oracle),
        cmocka_unit_test(threads_and_layouts_do_not_change_a_bit),
        cmocka_unit_test(instruction_sets_agree),
        cmocka_unit_test(rows_without_keys_are_zero),
        cmocka_unit_test(segments_columns_and_bands_match_the_oracle),
        cmocka_unit_test(permuted_tokens_come_back_in_order),
        cmocka_unit_test(nan_inputs_show),
        cmocka_unit_test(refuses_what_it_cannot_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
