/* Sizes of plans that are not made: equal to the plans' own, on every method, and counted in 64 bits. */
#include "api.h"

#include <stdio.h>
#include <sys/resource.h>

static const sparge_problem problems[] = {
    {.batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 300, .seqlen_k = 420, .head_dim = 64, .dtype = SPARGE_F16},
    {.batch = 2,
     .heads_q = 2,
     .heads_kv = 2,
     .seqlen_q = 256,
     .seqlen_k = 256,
     .head_dim = 50,
     .dtype = SPARGE_BF16,
     .causal = SPARGE_CAUSAL_BOTTOM_RIGHT},
    {.batch = 1,
     .heads_q = 1,
     .heads_kv = 1,
     .seqlen_q = 4 * 12 * 12,
     .seqlen_k = 4 * 12 * 12,
     .head_dim = 128,
     .dtype = SPARGE_F16,
     .grid = {.t = 4, .h = 12, .w = 12}},
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

/* 1 if the method does the problem on this backend. */
static int compare(sparge_context *context, const sparge_params *params, const sparge_problem *problem)
{
    sparge_plan *plan;
    size_t bytes = 1;
    const char *name = sparge_method_name(sparge_params_method(params));
    sparge_status sized = sparge_plan_size(context, params, problem, &bytes);
    char reason[SPARGE_ERROR_TEXT];
    snprintf(reason, sizeof reason, "%s", sparge_error_string(context));
    sparge_status made = sparge_plan_create(context, params, problem, &plan);
    if (sized != made)
        fail_msg("%s: sizing gives %s, making %s", name, sparge_status_name(sized), sparge_status_name(made));
    if (made != SPARGE_OK) {
        assert_int_equal(bytes, 0);
        assert_string_equal(reason, sparge_error_string(context));
        return 0;
    }
    if (bytes != sparge_plan_workspace_bytes(plan))
        fail_msg("%s: sized as %zu bytes, is %zu", name, bytes, sparge_plan_workspace_bytes(plan));
    sparge_plan_destroy(plan);
    return 1;
}

static void sizes_are_those_of_the_plans(void **state)
{
    sparge_context *context = api_context();
    (void)state;
    int done = 0;
    for (size_t m = 0; m < sparge_method_count(); m++) {
        sparge_params *params;
        assert_int_equal(sparge_params_create(sparge_method_at(m), &params), SPARGE_OK);
        for (int p = 0; p < PROBLEMS; p++)
            done += compare(context, params, &problems[p]);
        if (sparge_method_param_find(sparge_method_at(m), "lambda")) {
            assert_int_equal(sparge_params_set(params, "lambda", "-5", NULL), SPARGE_OK);
            done += compare(context, params, &problems[0]);
        }
        sparge_params_destroy(params);
    }
    assert_true(done > 20);
    sparge_context_destroy(context);
}

/* 2^32 elements a tensor: a plan that would fill this machine's memory many times over, and is sized all the same. */
static void sizes_are_counted_in_64_bits(void **state)
{
    static const sparge_problem large = {.batch = 2,
                                         .heads_q = 32,
                                         .heads_kv = 32,
                                         .seqlen_q = 1 << 20,
                                         .seqlen_k = 1 << 20,
                                         .head_dim = 64,
                                         .dtype = SPARGE_F16};
    sparge_context *context = api_context();
    sparge_params *params;
    size_t bytes;
    (void)state;
    assert_int_equal(sparge_params_create(sparge_method_find("sparge-int8-fp8"), &params), SPARGE_OK);
    assert_int_equal(sparge_plan_size(context, params, &large, &bytes), SPARGE_OK);
    const size_t elements = (size_t)64 << 26, blocks = (size_t)64 << (13 + 14);
    assert_true(bytes > 3 * elements + blocks); /* Q and K as INT8, V as FP8, the mask */
    assert_true(bytes < 100 * elements);
    sparge_params_destroy(params);
    sparge_context_destroy(context);
}

/* Lists that follow from the shape alone are made with the plan, but not to learn its size. */
static void sizing_takes_little_memory(void **state)
{
    static const sparge_problem large = {.batch = 64,
                                         .heads_q = 16,
                                         .heads_kv = 16,
                                         .seqlen_q = 1 << 20,
                                         .seqlen_k = 1 << 20,
                                         .head_dim = 64,
                                         .dtype = SPARGE_F16};
    const long most_kib = 128 << 10;
    sparge_context *context = api_context();
    struct rusage before, after;
    (void)state;
    for (size_t m = 0; m < sparge_method_count(); m++) {
        sparge_problem problem = large;
        sparge_params *params;
        size_t bytes;
        assert_int_equal(sparge_params_create(sparge_method_at(m), &params), SPARGE_OK);
        if (strcmp(sparge_method_name(sparge_method_at(m)), "sta") == 0)
            problem.grid = (sparge_grid){.t = 64, .h = 128, .w = 128};
        if (strncmp(sparge_method_name(sparge_method_at(m)), "minference", strlen("minference")) == 0)
            problem.causal = SPARGE_CAUSAL_BOTTOM_RIGHT;
        getrusage(RUSAGE_SELF, &before);
        (void)sparge_plan_size(context, params, &problem, &bytes);
        getrusage(RUSAGE_SELF, &after);
        if (after.ru_maxrss - before.ru_maxrss > most_kib)
            fail_msg("%s: sizing took %ld KiB", sparge_method_name(sparge_method_at(m)),
                     after.ru_maxrss - before.ru_maxrss);
        sparge_params_destroy(params);
    }
    sparge_context_destroy(context);
}

static void sizes_beyond_any_memory_are_refused(void **state)
{
    static const sparge_problem largest = {.batch = 65536,
                                           .heads_q = 65536,
                                           .heads_kv = 65536,
                                           .seqlen_q = 1 << 30,
                                           .seqlen_k = 1 << 30,
                                           .head_dim = 128,
                                           .dtype = SPARGE_F16};
    sparge_context *context = api_context();
    sparge_params *params;
    size_t bytes;
    (void)state;
    assert_int_equal(sparge_params_create(sparge_method_find("sparge-int8-fp8"), &params), SPARGE_OK);
    sparge_status status = sparge_plan_size(context, params, &largest, &bytes);
    assert_true(status == SPARGE_ERROR_OUT_OF_MEMORY || status == SPARGE_ERROR_UNSUPPORTED);
    assert_message(sparge_error_string(context), "");
    assert_int_equal(bytes, 0);
    sparge_params_destroy(params);
    sparge_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_those_of_the_plans),
        cmocka_unit_test(sizes_are_counted_in_64_bits),
        cmocka_unit_test(sizing_takes_little_memory),
        cmocka_unit_test(sizes_beyond_any_memory_are_refused),
    };
    return api_is_idle() ? 77 : cmocka_run_group_tests(tests, NULL, NULL);
}
