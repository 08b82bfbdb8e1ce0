/* What each method says about problems and parameters it cannot do: the status, and a reason that names the cause. */
#include "check.h"
#include "methods/recipe.h"
#include "sparge/sparge.h"

#include <math.h>
#include <string.h>

static const sparge_problem base = {.batch = 1,
                                    .heads_q = 4,
                                    .heads_kv = 2,
                                    .seqlen_q = 2048,
                                    .seqlen_k = 2048,
                                    .head_dim = 64,
                                    .causal = SPARGE_CAUSAL_BOTTOM_RIGHT};

enum { NOT_CAUSAL = 1, UNEQUAL = 2, ODD_DIM = 4, SHORT = 8, GRID = 16, REORDERED = 32, MHA = 64, TINY = 128 };

static sparge_problem problem_of(int change)
{
    sparge_problem p = base;
    if (change & NOT_CAUSAL)
        p.causal = SPARGE_CAUSAL_NONE;
    if (change & UNEQUAL)
        p.seqlen_k = 4096;
    if (change & ODD_DIM)
        p.head_dim = 96;
    if (change & SHORT)
        p.seqlen_q = p.seqlen_k = 127;
    if (change & TINY)
        p.seqlen_q = p.seqlen_k = 1;
    if (change & GRID)
        p.grid = (sparge_grid){.t = 8, .h = 16, .w = 16};
    if (change & REORDERED)
        p.grid.reordered = 1;
    if (change & MHA)
        p.heads_kv = p.heads_q;
    return p;
}

static const struct {
    const char *method, *set;
    int change;
    sparge_status status;
    const char *names;
} cases[] = {
    {"dense-f16", "", 0, SPARGE_OK, ""},
    {"dense-int8-fp8", "scales=thread", TINY, SPARGE_OK, ""},
    {"sparge-f16", "", NOT_CAUSAL | UNEQUAL | ODD_DIM, SPARGE_OK, ""},
    {"sparge-int8-f16", "topk=0.5 tau=0.9", 0, SPARGE_ERROR_INVALID_ARGUMENT, "tau = 0.9 and topk = 0.5"},
    {"sparge-int8-f16", "topk=0.5 theta=0.3", 0, SPARGE_OK, ""},
    {"sparge-f16", "pv_unit=128 block_q=64", 0, SPARGE_ERROR_INVALID_ARGUMENT, "pv_unit: 128"},
    {"sparge-f16", "pv_unit=128 block_q=128", 0, SPARGE_OK, ""},
    {"sparge-f16", "compat=upstream", 0, SPARGE_ERROR_UNSUPPORTED, "4 query and 2 KV heads"},
    {"sparge-f16", "compat=upstream", MHA, SPARGE_OK, ""},
    {"sparge-f16", "compat=upstream", MHA | UNEQUAL, SPARGE_ERROR_UNSUPPORTED, "top-left"},
    {"sparge-f16", "compat=upstream", MHA | UNEQUAL | NOT_CAUSAL, SPARGE_OK, ""},
    {"sparge-f16", "compat=upstream", MHA | ODD_DIM, SPARGE_ERROR_UNSUPPORTED, "head_dim 96"},
    {"sparge-f16", "compat=upstream", MHA | SHORT, SPARGE_ERROR_UNSUPPORTED, "127 queries"},
    {"minference-vs", "", 0, SPARGE_OK, ""},
    {"minference-vs", "", TINY, SPARGE_OK, ""},
    {"minference-vs", "", NOT_CAUSAL, SPARGE_ERROR_UNSUPPORTED, "not causal"},
    {"minference-vs-grid", "", NOT_CAUSAL, SPARGE_ERROR_UNSUPPORTED, "not causal"},
    {"minference-vs", "", UNEQUAL, SPARGE_ERROR_UNSUPPORTED, "2048 queries and 4096 keys"},
    {"minference-ashape", "", UNEQUAL, SPARGE_OK, ""},
    {"minference-ashape", "", NOT_CAUSAL, SPARGE_ERROR_UNSUPPORTED, "window"},
    {"minference-block", "", NOT_CAUSAL | UNEQUAL, SPARGE_OK, ""},
    {"minference-block", "k=5 sparsity=0.5", 0, SPARGE_ERROR_INVALID_ARGUMENT, "k = 5 and sparsity = 0.5"},
    {"flexprefill", "", NOT_CAUSAL, SPARGE_OK, ""},
    {"flexprefill", "", UNEQUAL, SPARGE_ERROR_UNSUPPORTED, "equal lengths"},
    {"flexprefill", "max_budget=512", 0, SPARGE_ERROR_INVALID_ARGUMENT, "max_budget = 512 is below min_budget = 1024"},
    {"window", "", NOT_CAUSAL, SPARGE_OK, ""},
    {"window", "", UNEQUAL, SPARGE_OK, ""},
    {"window", "", NOT_CAUSAL | UNEQUAL, SPARGE_ERROR_UNSUPPORTED, "diagonal"},
    {"sta", "", NOT_CAUSAL, SPARGE_ERROR_UNSUPPORTED, "grid"},
    {"sta", "", NOT_CAUSAL | GRID, SPARGE_OK, ""},
    {"sta", "", GRID, SPARGE_ERROR_UNSUPPORTED, "bottom-right"},
    {"sta", "", NOT_CAUSAL | GRID | REORDERED, SPARGE_ERROR_UNSUPPORTED, "row-major"},
    {"sta", "window_h=4", NOT_CAUSAL | GRID, SPARGE_ERROR_INVALID_ARGUMENT, "window_h: 4 is even"},
    {"xattention", "", NOT_CAUSAL | UNEQUAL, SPARGE_OK, ""},
    {"skip-softmax", "", 0, SPARGE_OK, ""},
    {"skip-softmax", "", SHORT, SPARGE_ERROR_UNSUPPORTED, "scale_factor = 1000"},
    {"skip-softmax", "threshold=0.01", SHORT, SPARGE_OK, ""},
    {"skip-softmax", "threshold=0.01 scale_factor=9", 0, SPARGE_ERROR_INVALID_ARGUMENT,
     "threshold = 0.01 and scale_factor = 9"},
    {"mask", "", 0, SPARGE_ERROR_INVALID_ARGUMENT, "file"},
    {"mask", "file=/some/where.npy", 0, SPARGE_OK, ""},
};

static void set_all(sparge_params *params, const char *settings)
{
    char copy[256], *rest = copy, *word;
    assert_true(strlen(settings) < sizeof copy);
    strcpy(copy, settings);
    while ((word = strtok_r(rest, " ", &rest))) {
        char *value = strchr(word, '=');
        *value++ = '\0';
        assert_int_equal(sparge_params_set(params, word, value, NULL), SPARGE_OK);
    }
}

static void limits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const sparge_problem p = problem_of(cases[i].change);
        sparge_params *params;
        sparge_error error = {0};
        assert_int_equal(sparge_params_create(sparge_method_find(cases[i].method), &params), SPARGE_OK);
        set_all(params, cases[i].set);
        const sparge_status status = sparge_params_check(params, &p, &error);
        if (status != cases[i].status || !strstr(error.text, cases[i].names))
            fail_msg("%s %s: %s, '%s'", cases[i].method, cases[i].set, sparge_status_name(status), error.text);
        sparge_params_destroy(params);
    }
}

static sparge_recipe recipe_of(const char *method, const char *settings, int change)
{
    const sparge_problem p = problem_of(change);
    sparge_params *params;
    sparge_recipe recipe;
    assert_int_equal(sparge_params_create(sparge_method_find(method), &params), SPARGE_OK);
    set_all(params, settings);
    assert_int_equal(sparge_recipe_create(params, &p, &recipe, NULL), SPARGE_OK);
    sparge_params_destroy(params);
    return recipe;
}

/* Defaults and modes that the design fixes, as a backend sees them. */
static void recipes(void **state)
{
    (void)state;
    sparge_recipe r = recipe_of("sparge-int8-fp8", "", 0);
    assert_true(r.arithmetic == SPARGE_ARITHMETIC_INT8_FP8 && r.select == SPARGE_SELECT_MEANSIM);
    assert_true(r.block_q == 128 && r.block_k == 64 && r.smooth_k && !r.upstream);
    assert_true(r.exp == SPARGE_EXP_ACCURATE && (double)r.fp8_v_max == 0.5 && r.pv_keeps_denominator &&
                r.pv_unit == 64);
    assert_true(r.meansim.tau.uniform == 0.98 && r.meansim.theta.uniform == 0.6);
    assert_true(r.meansim.use_theta && !r.meansim.use_topk && isinf(r.lambda.uniform) && r.lambda.uniform < 0);
    r = recipe_of("sparge-int8-fp8", "compat=upstream topk=0.5 lambda=-3.5", MHA);
    assert_true(r.upstream && r.fp8_v_max == 2.25F && !r.pv_keeps_denominator && r.pv_unit == 128);
    assert_true(r.meansim.use_topk && !r.meansim.use_theta && r.lambda.uniform == -3.5);
    r = recipe_of("sparge-f16", "", 0);
    assert_true(r.exp == SPARGE_EXP_EXACT && r.arithmetic == SPARGE_ARITHMETIC_F16);
    r = recipe_of("xattention", "attend=int8-f16 stride=16", 0);
    assert_true(r.exp == SPARGE_EXP_ACCURATE && r.arithmetic == SPARGE_ARITHMETIC_INT8_F16);
    assert_true(r.antidiagonal.stride == 16 && r.block_q == 128 && r.block_k == 128 && r.antidiagonal.threshold == 0.9);
    r = recipe_of("skip-softmax", "", 0);
    assert_true(r.skip_softmax_threshold == 1000.0 / 2048 && r.select == SPARGE_SELECT_ALL);
    r = recipe_of("minference-vs", "vertical=10 slash=100 ratio=0.25", 0);
    assert_true(r.vslash.vertical.uniform == 30 && r.vslash.slash.uniform == 50 && r.vslash.last_q == 64);
    r = recipe_of("minference-vs", "vertical=1001 slash=6096 ratio=0.5", 0);
    assert_true(r.vslash.vertical.uniform == 500 && r.vslash.slash.uniform == 3048);
    r = recipe_of("minference-block", "", 0);
    assert_true(r.pooled.k == 100 && !r.pooled.use_sparsity && r.block_q == 64 && r.block_k == 64);
    r = recipe_of("flexprefill", "", 0);
    assert_true(r.flex.gamma == 0.9 && r.flex.tau == 0.1 && r.flex.min_budget == 1024 && r.flex.max_budget == 0);
    assert_true(r.block_q == 128 && r.block_k == 128);
}

/* An unknown parameter is answered with the method's name and its list. */
static void unknown_parameter(void **state)
{
    sparge_params *params;
    sparge_error error = {0};
    (void)state;
    assert_int_equal(sparge_params_create(sparge_method_find("minference-vs"), &params), SPARGE_OK);
    assert_int_equal(sparge_params_set(params, "tau", "0.9", &error), SPARGE_ERROR_INVALID_ARGUMENT);
    assert_string_equal(error.text,
                        "method minference-vs has no parameter 'tau'; it has: vertical, slash, ratio, exp, params");
    assert_int_equal(sparge_params_set(params, "ratio", "17", &error), SPARGE_ERROR_INVALID_ARGUMENT);
    assert_string_equal(error.text, "ratio: 17 is outside its range, 0 to 16 (fraction)");
    assert_int_equal(sparge_params_set(params, "exp", "quick", &error), SPARGE_ERROR_INVALID_ARGUMENT);
    assert_string_equal(error.text, "exp: 'quick' is not one of exact|accurate|fast");
    sparge_params_destroy(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(limits), cmocka_unit_test(recipes),
                                       cmocka_unit_test(unknown_parameter)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
