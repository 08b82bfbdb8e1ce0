/* Contract of the method table and of parameter sets (method.h), over whatever the table holds. */
#include "api.h"

#include <math.h>
#include <stdio.h>

static sparge_params *params_of(const char *method)
{
    sparge_params *params = NULL;

    assert_int_equal(sparge_params_create(sparge_method_find(method), &params), SPARGE_OK);
    return params;
}

static void method_table(void **state)
{
    (void)state;
    assert_true(sparge_method_count() >= 10);
    assert_null(sparge_method_at(sparge_method_count()));
    assert_null(sparge_method_find("no-such"));
    assert_null(sparge_method_find(""));
    for (size_t i = 0; i < sparge_method_count(); i++) {
        const sparge_method *method = sparge_method_at(i);

        assert_ptr_equal(sparge_method_find(sparge_method_name(method)), method);
        assert_true(strlen(sparge_method_summary(method)) > 10);
        assert_true(strlen(sparge_method_stands_for(method)) > 5);
        assert_null(sparge_method_param_at(method, sparge_method_param_count(method)));
        assert_null(sparge_method_param_find(method, "no-such"));
    }
}

static void descriptors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sparge_method_count(); i++) {
        const sparge_method *method = sparge_method_at(i);

        for (size_t p = 0; p < sparge_method_param_count(method); p++) {
            const sparge_param_desc *d = sparge_method_param_at(method, p);

            assert_ptr_equal(sparge_method_param_find(method, d->name), d);
            assert_true(d->name[0] && d->unit && d->default_value && strlen(d->meaning) > 10);
            assert_int_equal(d->type == SPARGE_PARAM_CHOICE, d->choices != NULL);
            if (d->type == SPARGE_PARAM_REAL || d->type == SPARGE_PARAM_INTEGER)
                assert_true(d->min < d->max);
            if (d->replaced_by)
                assert_non_null(sparge_method_param_find(method, d->replaced_by));
        }
    }
}

/* Every parameter starts at its default and returns there. */
static void defaults(void **state)
{
    (void)state;
    for (size_t i = 0; i < sparge_method_count(); i++) {
        const sparge_method *method = sparge_method_at(i);
        sparge_params *params = params_of(sparge_method_name(method));

        assert_ptr_equal(sparge_params_method(params), method);
        for (size_t p = 0; p < sparge_method_param_count(method); p++) {
            const sparge_param_desc *d = sparge_method_param_at(method, p);
            char before[256];
            sparge_error error;

            snprintf(before, sizeof before, "%s", sparge_params_get(params, d->name));
            if (d->type == SPARGE_PARAM_CHOICE || d->type == SPARGE_PARAM_PATH)
                assert_string_equal(before, d->default_value);
            else if (d->default_value[0])
                assert_true(strtod(before, NULL) == strtod(d->default_value, NULL));
            else
                assert_string_equal(before, "");
            assert_int_equal(sparge_params_set(params, d->name, "", &error), SPARGE_OK);
            assert_string_equal(sparge_params_get(params, d->name), before);
        }
        assert_null(sparge_params_get(params, "no-such"));
        sparge_params_destroy(params);
    }
    sparge_params_destroy(NULL);
}

/* Just outside the range, not a number, not a choice: refused with the parameter's name, and nothing changes. */
static void refused_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sparge_method_count(); i++) {
        const sparge_method *method = sparge_method_at(i);
        sparge_params *params = params_of(sparge_method_name(method));

        for (size_t p = 0; p < sparge_method_param_count(method); p++) {
            const sparge_param_desc *d = sparge_method_param_at(method, p);
            char before[256], low[64], high[64];
            const char *const bad[] = {"x", "1x", "--1", "nan", " 1", "1 ", low, high};
            sparge_error error;

            if (d->type == SPARGE_PARAM_PATH)
                continue;
            snprintf(before, sizeof before, "%s", sparge_params_get(params, d->name));
            snprintf(low, sizeof low, "%.17g", isinf(d->min) ? (double)NAN : d->min - 1.0);
            snprintf(high, sizeof high, "%.17g", isinf(d->max) ? (double)NAN : d->max + 1.0);
            for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
                memset(&error, 0, sizeof error);
                assert_fails(sparge_params_set(params, d->name, bad[b], &error), SPARGE_ERROR_INVALID_ARGUMENT,
                             error.text, d->name);
                assert_string_equal(sparge_params_get(params, d->name), before);
            }
            if (d->type == SPARGE_PARAM_INTEGER)
                assert_fails(sparge_params_set(params, d->name, "1.5", &error), SPARGE_ERROR_INVALID_ARGUMENT,
                             error.text, d->name);
            assert_int_equal(sparge_params_set(params, d->name, "x", NULL), SPARGE_ERROR_INVALID_ARGUMENT);
        }
        sparge_params_destroy(params);
    }
}

static void accepted_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sparge_method_count(); i++) {
        const sparge_method *method = sparge_method_at(i);
        sparge_params *params = params_of(sparge_method_name(method));

        for (size_t p = 0; p < sparge_method_param_count(method); p++) {
            const sparge_param_desc *d = sparge_method_param_at(method, p);
            sparge_error error;
            char text[64];

            if (d->type == SPARGE_PARAM_REAL || d->type == SPARGE_PARAM_INTEGER) {
                const double ends[] = {d->min, d->max};

                for (size_t e = 0; e < 2; e++) {
                    snprintf(text, sizeof text, "%.17g", ends[e]);
                    if (d->type == SPARGE_PARAM_INTEGER && isinf(ends[e]))
                        continue;
                    assert_int_equal(sparge_params_set(params, d->name, text, &error), SPARGE_OK);
                    assert_true(strtod(sparge_params_get(params, d->name), NULL) == ends[e]);
                }
            }
            for (const char *c = d->choices; c && *c; c += strcspn(c, "|"), c += *c == '|') {
                snprintf(text, sizeof text, "%.*s", (int)strcspn(c, "|"), c);
                assert_int_equal(sparge_params_set(params, d->name, text, &error), SPARGE_OK);
                assert_string_equal(sparge_params_get(params, d->name), text);
            }
        }
        sparge_params_destroy(params);
    }
}

static void canonical_text(void **state)
{
    static const char *const spellings[][2] = {
        {"0.90", "0.9"}, {"9e-1", "0.9"}, {".5", "0.5"}, {"1.0", "1"}, {"0", "0"}};
    sparge_params *params = params_of("sparge-f16");
    sparge_error error;

    (void)state;
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        assert_int_equal(sparge_params_set(params, "tau", spellings[i][0], &error), SPARGE_OK);
        assert_string_equal(sparge_params_get(params, "tau"), spellings[i][1]);
    }
    assert_fails(sparge_params_set(params, "taw", "1", &error), SPARGE_ERROR_INVALID_ARGUMENT, error.text, "taw");
    sparge_params_destroy(params);
}

static void clones_are_independent(void **state)
{
    static const double heads[] = {0.1, 0.2};
    sparge_params *a = params_of("sparge-f16"), *b = NULL;
    sparge_error error;

    (void)state;
    assert_int_equal(sparge_params_set(a, "tau", "0.25", &error), SPARGE_OK);
    assert_int_equal(sparge_params_set_heads(a, "theta", heads, 2, &error), SPARGE_OK);
    assert_int_equal(sparge_params_clone(a, &b), SPARGE_OK);
    assert_int_equal(sparge_params_set(a, "tau", "0.75", &error), SPARGE_OK);
    assert_string_equal(sparge_params_get(b, "tau"), "0.25");
    assert_string_equal(sparge_params_get(b, "theta"), sparge_params_get(a, "theta"));
    sparge_params_destroy(a);
    assert_string_equal(sparge_params_get(b, "tau"), "0.25");
    assert_memory_equal(sparge_params_get(b, "theta"), "per-head:", 9);
    assert_int_equal(strlen(sparge_params_get(b, "theta")), 9 + 16);
    sparge_params_destroy(b);
}

static void per_head_values(void **state)
{
    static const double good[] = {0.1, 0.2, 0.3, 0.4}, bad[] = {0.1, 1.5, 0.3, 0.4};
    sparge_problem problem = {
        .batch = 1, .heads_q = 4, .heads_kv = 2, .seqlen_q = 100, .seqlen_k = 100, .head_dim = 64, .dtype = SPARGE_F16};
    sparge_params *params = params_of("sparge-f16");
    sparge_error error = {0};
    char text[64];

    (void)state;
    assert_fails(sparge_params_set_heads(params, "tau", bad, 4, &error), SPARGE_ERROR_INVALID_ARGUMENT, error.text,
                 "head 1");
    assert_fails(sparge_params_set_heads(params, "exp", good, 4, &error), SPARGE_ERROR_INVALID_ARGUMENT, error.text,
                 "exp");
    assert_int_equal(sparge_params_set_heads(params, "tau", good, 4, &error), SPARGE_OK);
    snprintf(text, sizeof text, "%s", sparge_params_get(params, "tau"));
    assert_int_equal(sparge_params_check(params, &problem, &error), SPARGE_OK);
    assert_int_equal(sparge_params_set_heads(params, "tau", good, 3, &error), SPARGE_OK);
    assert_string_not_equal(sparge_params_get(params, "tau"), text);
    assert_fails(sparge_params_check(params, &problem, &error), SPARGE_ERROR_INVALID_ARGUMENT, error.text, "tau");
    sparge_params_destroy(params);
}

static void contradictions(void **state)
{
    sparge_problem problem = {
        .batch = 1, .heads_q = 2, .heads_kv = 2, .seqlen_q = 100, .seqlen_k = 100, .head_dim = 64, .dtype = SPARGE_F16};
    sparge_params *params = params_of("sparge-int8-fp8");
    sparge_error error = {0};

    (void)state;
    assert_int_equal(sparge_params_check(params, &problem, &error), SPARGE_OK);
    assert_int_equal(sparge_params_set(params, "topk", "0.5", &error), SPARGE_OK);
    assert_int_equal(sparge_params_check(params, &problem, &error), SPARGE_OK);
    assert_string_equal(sparge_params_get(params, "tau"), "");
    assert_string_equal(sparge_params_get(params, "theta"), ""); /* topk switches theta off unless given */
    assert_int_equal(sparge_params_set(params, "tau", "0.9", &error), SPARGE_OK);
    assert_fails(sparge_params_check(params, &problem, &error), SPARGE_ERROR_INVALID_ARGUMENT, error.text, "topk");
    assert_int_equal(sparge_params_set(params, "topk", "", &error), SPARGE_OK);
    assert_int_equal(sparge_params_check(params, &problem, &error), SPARGE_OK);
    problem.head_dim = 129;
    assert_fails(sparge_params_check(params, &problem, &error), SPARGE_ERROR_INVALID_ARGUMENT, error.text, "head_dim");
    sparge_params_destroy(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(method_table),    cmocka_unit_test(descriptors),     cmocka_unit_test(defaults),
        cmocka_unit_test(refused_values),  cmocka_unit_test(accepted_values), cmocka_unit_test(canonical_text),
        cmocka_unit_test(per_head_values), cmocka_unit_test(contradictions),  cmocka_unit_test(clones_are_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
