/* Plans of the CUDA backend against the CPU's: what is unsupported and why, counts, masks, pairs, similarities, and
 * outputs in bounds. Needs a GPU. (The properties of every method run on it with SPARGE_TEST_BACKEND=cuda.) */
#include "cuda_case.h"

#include <math.h>
#include <string.h>

enum { TENSORS = 4 }; /* q, k, v, o */

typedef struct plan_case {
    const char *method, *settings; /* "tau=0.9 theta=0.3" */
    sparge_problem problem;
    double bound; /* of the relative L2 distance between the two outputs */
} plan_case;

/* One of the backends, with a plan that has run. */
typedef struct side {
    sparge_context *context;
    sparge_tensor tensor[TENSORS];
    float *lse;
    sparge_plan *plan;
} side;

static void open_tensors(side *s, const sparge_problem *p)
{
    static const sparge_generator model = {.kind = SPARGE_GENERATE_STRUCTURED,
                                           .seed = 9,
                                           .correlation = 0.9f,
                                           .scale_length = 50,
                                           .sharpness = 2,
                                           .query_offset = 0.5f,
                                           .channel_offset = 1,
                                           .sink_strength = 3,
                                           .sink_tokens = 2,
                                           .head_spread = 0.5f};
    sparge_generator generator = model;
    generator.heads_q = p->heads_q;
    generator.heads_kv = p->heads_kv;
    for (int i = 0; i < TENSORS; i++) {
        const int of_q = i == SPARGE_ROLE_Q || i > SPARGE_ROLE_V;
        sparge_tensor *x = &s->tensor[i];
        *x = sparge_tensor_hnd(NULL, p->dtype, p->batch, of_q ? p->heads_q : p->heads_kv,
                               of_q ? p->seqlen_q : p->seqlen_k, p->head_dim);
        x->data = case_alloc(s->context, tensor_bytes(x));
        if (i <= SPARGE_ROLE_V)
            expect_ok(s->context, sparge_generate(s->context, &generator, (sparge_tensor_role)i, x));
        else
            expect_ok(s->context, sparge_fill(s->context, x->data, 0xff, tensor_bytes(x)));
    }
    const size_t lse_bytes = (size_t)(p->batch * p->heads_q * p->seqlen_q) * sizeof *s->lse;
    s->lse = case_alloc(s->context, lse_bytes);
    expect_ok(s->context, sparge_fill(s->context, s->lse, 0xff, lse_bytes));
}

static side open_side(sparge_context *context, const plan_case *c)
{
    side s = {.context = context};
    sparge_params *params = case_params(c->method, c->settings);
    open_tensors(&s, &c->problem);
    expect_ok(context, sparge_plan_create(context, params, &c->problem, &s.plan));
    sparge_params_destroy(params);
    const sparge_io io = {.q = s.tensor[0], .k = s.tensor[1], .v = s.tensor[2], .o = s.tensor[3], .lse = s.lse};
    for (int turn = 0; turn < 2; turn++) /* counts must be those of one run */
        expect_ok(context, sparge_plan_run(s.plan, SPARGE_STAGE_ALL, &io));
    return s;
}

static void close_side(side *s)
{
    sparge_plan_destroy(s->plan);
    for (int i = 0; i < TENSORS; i++)
        sparge_free(s->context, s->tensor[i].data);
    sparge_free(s->context, s->lse);
}

static float value_of(const uint16_t *bits, int64_t at, sparge_dtype dtype)
{
    return dtype == SPARGE_F16 ? sparge_f32_from_f16(bits[at]) : sparge_f32_from_bf16(bits[at]);
}

static void compare_outputs(const side *cpu, const side *cuda, const plan_case *c)
{
    const sparge_problem *p = &c->problem;
    const int64_t rows = (int64_t)p->batch * p->heads_q * p->seqlen_q, count = rows * p->head_dim;
    uint16_t *o[2] = {case_download(cpu->context, cpu->tensor[3].data, (size_t)count * sizeof **o),
                      case_download(cuda->context, cuda->tensor[3].data, (size_t)count * sizeof **o)};
    float *lse[2] = {case_download(cpu->context, cpu->lse, (size_t)rows * sizeof **lse),
                     case_download(cuda->context, cuda->lse, (size_t)rows * sizeof **lse)};
    double difference = 0, square = 0;
    for (int64_t i = 0; i < count; i++) {
        const double a = (double)value_of(o[0], i, p->dtype), b = (double)value_of(o[1], i, p->dtype);
        difference += (a - b) * (a - b);
        square += a * a;
    }
    const double distance = sqrt(difference / square);
    if (!(distance <= c->bound))
        fail_msg("%s %s: o differs by %g", c->method, c->settings, distance);
    for (int64_t i = 0; i < rows; i++)
        if (!(fabs((double)lse[0][i] - (double)lse[1][i]) <= 0.02) && !(isinf(lse[0][i]) && lse[0][i] == lse[1][i]))
            fail_msg("%s %s: lse[%lld] = %g, the CPU says %g", c->method, c->settings, (long long)i, (double)lse[1][i],
                     (double)lse[0][i]);
    for (int i = 0; i < 2; i++) {
        free(o[i]);
        free(lse[i]);
    }
}

static void compare_stats(const side *cpu, const side *cuda, const plan_case *c)
{
    sparge_stats a, b;
    expect_ok(cpu->context, sparge_plan_get_stats(cpu->plan, &a));
    expect_ok(cuda->context, sparge_plan_get_stats(cuda->plan, &b));
    assert_int_equal(b.basis, a.basis);
    assert_int_equal(b.visible, a.visible);
    assert_int_equal(b.qk, a.qk);
    assert_int_equal(b.extra, a.extra);
    assert_int_equal(b.block_q, a.block_q);
    assert_int_equal(b.block_k, a.block_k);
    assert_int_equal(b.pv_unit, a.pv_unit);
    /* A vote whose scores lie at the threshold may fall either way: sums are rounded in another order. */
    if (!(fabs(b.pv_skipped - a.pv_skipped) <= 0.01 * (double)a.visible))
        fail_msg("%s %s: pv_skipped = %g, the CPU says %g", c->method, c->settings, b.pv_skipped, a.pv_skipped);
    const double products = 2.0 * (double)b.qk - b.pv_skipped;
    assert_true(fabs(b.executed_ops / (2.0 * c->problem.head_dim * b.block_q * b.block_k * products) - 1) < 1e-12);
    assert_true(sparge_plan_workspace_bytes(cuda->plan) > 0);
}

static void compare_selection(const side *cpu, const side *cuda, const plan_case *c)
{
    const sparge_problem *p = &c->problem;
    sparge_block_mask a, b;
    expect_ok(cpu->context, sparge_plan_get_block_mask(cpu->plan, &a));
    expect_ok(cuda->context, sparge_plan_get_block_mask(cuda->plan, &b));
    assert_int_equal(a.rows, b.rows);
    assert_int_equal(a.cols, b.cols);
    assert_memory_equal(a.value, b.value, (size_t)((int64_t)a.batch * a.heads * a.rows * a.cols));
    sparge_block_mask_release(&a);
    sparge_block_mask_release(&b);
    const size_t pairs = (size_t)(p->seqlen_q * p->seqlen_k);
    uint8_t *kept = malloc(2 * pairs);
    assert_non_null(kept);
    expect_ok(cpu->context, sparge_plan_get_pairs(cpu->plan, p->batch - 1, p->heads_q - 1, kept));
    expect_ok(cuda->context, sparge_plan_get_pairs(cuda->plan, p->batch - 1, p->heads_q - 1, kept + pairs));
    assert_memory_equal(kept, kept + pairs, pairs);
    free(kept);
}

static void compare_similarity(const side *cpu, const side *cuda)
{
    double a[2], b[2];
    const sparge_status status = sparge_plan_get_similarity(cpu->plan, &a[0], &a[1]);
    assert_int_equal(sparge_plan_get_similarity(cuda->plan, &b[0], &b[1]), status);
    if (status != SPARGE_OK) {
        assert_string_equal(sparge_error_string(cpu->context), sparge_error_string(cuda->context));
        return;
    }
    assert_true(fabs(a[0] - b[0]) <= 1e-12 && fabs(a[1] - b[1]) <= 1e-12);
}

static sparge_problem problem_of(int64_t lq, int64_t lk, int32_t head_dim, sparge_dtype dtype, sparge_causal causal)
{
    return (sparge_problem){.batch = 2,
                            .heads_q = 4,
                            .heads_kv = 2,
                            .seqlen_q = lq,
                            .seqlen_k = lk,
                            .head_dim = head_dim,
                            .dtype = dtype,
                            .causal = causal};
}

/* Bounds: two roundings to the output's type, and where P or V are quantised, their steps. */
static void plans_agree_with_the_cpus(void **state)
{
    const cuda_case *contexts = *state;
    static const struct {
        const char *method, *settings;
        double bound;
    } methods[] = {
        {"dense-f16", "", 0.006},
        {"dense-int8-f16", "", 0.006},
        {"dense-int8-f16", "block_q=64 block_k=128", 0.006},
        {"dense-int8-fp8", "", 0.03},
        {"sparge-f16", "tau=0.9 theta=0.3", 0.006},
        {"sparge-int8-f16", "topk=0.4 block_q=64", 0.006},
        {"sparge-int8-fp8", "tau=0.8 theta=0.2 block_k=128", 0.03},
        {"sparge-int8-fp8", "tau=0.95 theta=0.2 lambda=-4", 0.03},
        {"sparge-f16", "tau=0.95 theta=0.2 lambda=-3 pv_unit=16", 0.02},
        {"minference-block", "sparsity=0.5", 0.006},
        {"sparge-int8-f16", "tau=0.95 theta=0.2 lambda=-3 block_k=128 block_q=64", 0.02},
        {"sparge-f16", "topk=0.7 lambda=-2 pv_unit=32 block_k=128", 0.02},
        {"skip-softmax", "threshold=0.01", 0.02},
        {"skip-softmax", "threshold=0.01 block_k=128 attend=int8-fp8", 0.03},
    };
    const sparge_problem problems[] = {
        problem_of(500, 500, 64, SPARGE_F16, SPARGE_CAUSAL_NONE),
        problem_of(515, 515, 128, SPARGE_BF16, SPARGE_CAUSAL_BOTTOM_RIGHT),
        problem_of(200, 700, 128, SPARGE_F16, SPARGE_CAUSAL_BOTTOM_RIGHT),
        problem_of(300, 130, 40, SPARGE_BF16, SPARGE_CAUSAL_TOP_LEFT),
        problem_of(257, 383, 13, SPARGE_F16, SPARGE_CAUSAL_NONE),
    };
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        for (size_t j = 0; j < sizeof problems / sizeof problems[0]; j++) {
            const plan_case c = {methods[i].method, methods[i].settings, problems[j], methods[i].bound};
            side cpu = open_side(contexts->cpu, &c), cuda = open_side(contexts->cuda, &c);
            compare_outputs(&cpu, &cuda, &c);
            compare_stats(&cpu, &cuda, &c);
            compare_selection(&cpu, &cuda, &c);
            compare_similarity(&cpu, &cuda);
            close_side(&cpu);
            close_side(&cuda);
        }
}

/* In parity mode both backends have the same numbers up to the order of sums, FP8 included: V, and all that P's rounding
 * depends on, is the same. */
static void parity_mode_agrees_with_the_cpus(void **state)
{
    const cuda_case *contexts = *state;
    static const struct {
        const char *method, *settings;
    } methods[] = {
        {"sparge-f16", "tau=0.9 theta=0.3"},
        {"sparge-f16", "topk=0.5 lambda=-2 pv_unit=16"},
        {"sparge-int8-f16", "topk=0.4"},
        {"sparge-int8-f16", "tau=0.95 theta=0.2 lambda=-2"},
        {"sparge-int8-f16", "tau=0.95 theta=0.1 lambda=-3 pv_unit=32 block_k=128"},
        {"sparge-int8-fp8", "tau=0.95 theta=0.2 block_q=64 block_k=128"},
        {"sparge-int8-fp8", "topk=0.6 lambda=-3 block_q=64 block_k=128"},
        {"sparge-int8-fp8", "tau=0.9 theta=0.1 lambda=-2 pv_unit=64 sink=on"},
        {"minference-block", "sparsity=0.5"},
        {"minference-block", "k=3"},
    };
    sparge_problem problems[] = {
        problem_of(512, 512, 64, SPARGE_F16, SPARGE_CAUSAL_NONE),
        problem_of(512, 512, 64, SPARGE_BF16, SPARGE_CAUSAL_TOP_LEFT),
        problem_of(515, 515, 128, SPARGE_BF16, SPARGE_CAUSAL_NONE),
        problem_of(515, 515, 128, SPARGE_F16, SPARGE_CAUSAL_TOP_LEFT),
        problem_of(300, 700, 128, SPARGE_F16, SPARGE_CAUSAL_NONE),
    };
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        for (size_t j = 0; j < sizeof problems / sizeof problems[0]; j++) {
            char settings[128];
            problems[j].heads_kv = problems[j].heads_q; /* the official predictor takes nothing else */
            snprintf(settings, sizeof settings, "%s compat=upstream", methods[i].settings);
            const plan_case c = {methods[i].method, settings, problems[j], 0.004};
            side cpu = open_side(contexts->cpu, &c), cuda = open_side(contexts->cuda, &c);
            compare_outputs(&cpu, &cuda, &c);
            compare_stats(&cpu, &cuda, &c);
            compare_selection(&cpu, &cuda, &c);
            compare_similarity(&cpu, &cuda);
            close_side(&cpu);
            close_side(&cuda);
        }
}

static void what_is_missing_says_so(void **state)
{
    const cuda_case *contexts = *state;
    static const struct {
        const char *method, *settings, *reason;
    } missing[] = {
        {"minference-vs", "", "selection"},
        {"minference-vs-grid", "", "selection"},
        {"minference-ashape", "", "selection"},
        {"flexprefill", "", "selection"},
        {"xattention", "", "selection"},
        {"window", "", "selection"},
        {"dense-int8-f16", "exp=fast", "exp = fast"},
    };
    const sparge_problem problem = problem_of(512, 512, 128, SPARGE_F16, SPARGE_CAUSAL_TOP_LEFT);
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        sparge_plan *plan = NULL;
        sparge_params *params = case_params(missing[i].method, missing[i].settings);
        const sparge_status status = sparge_plan_create(contexts->cuda, params, &problem, &plan);
        const char *text = sparge_error_string(contexts->cuda);
        sparge_params_destroy(params);
        assert_null(plan);
        if (status != SPARGE_ERROR_UNSUPPORTED || !strstr(text, missing[i].reason) || !strstr(text, missing[i].method))
            fail_msg("%s %s: %s: %s", missing[i].method, missing[i].settings, sparge_status_name(status), text);
    }
}

/* A plan that does not fit says so, and what it had taken before is free again. */
static void plans_that_do_not_fit_leave_nothing_behind(void **state)
{
    const cuda_case *contexts = *state;
    sparge_device_info info;
    expect_ok(contexts->cuda, sparge_device_get_info(contexts->cuda, &info));
    sparge_problem problem = problem_of(1 << 20, 1 << 20, 128, SPARGE_F16, SPARGE_CAUSAL_NONE);
    problem.batch = 16;
    problem.heads_q = problem.heads_kv = 64; /* INT8 Q and K: 2 * 16 * 64 * 2^20 * 128 bytes */
    assert_true((double)info.memory_bytes < 2.0 * 16 * 64 * 1048576 * 128);
    sparge_params *params = case_params("dense-int8-f16", "");
    for (int turn = 0; turn < 3; turn++) {
        sparge_plan *plan = NULL;
        assert_int_equal(sparge_plan_create(contexts->cuda, params, &problem, &plan), SPARGE_ERROR_OUT_OF_MEMORY);
        assert_non_null(strstr(sparge_error_string(contexts->cuda), "memory of the plan"));
        assert_null(plan);
        const size_t most = (size_t)info.memory_bytes / 10 * 7;
        sparge_free(contexts->cuda, case_alloc(contexts->cuda, most));
    }
    sparge_params_destroy(params);
}

int main(void)
{
    if (sparge_backend_device_count("cuda") == 0) {
        puts("no CUDA device: nothing to test");
        return EXIT_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_agree_with_the_cpus),
        cmocka_unit_test(parity_mode_agrees_with_the_cpus),
        cmocka_unit_test(what_is_missing_says_so),
        cmocka_unit_test(plans_that_do_not_fit_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
