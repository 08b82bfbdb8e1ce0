/* Every method of the table on random problems, inputs, strides and parameters, held against the oracle. */
#include "property.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { MAX_METHODS = 64, ATTEMPTS = 4 };

typedef struct tally {
    int lacks[MAX_METHODS]; /* the backend does not have it */
    int64_t ran[MAX_METHODS], unsupported[MAX_METHODS];
} tally;

/* A plan of the method for the case. Random parameters may contradict each other (INVALID_ARGUMENT) or ask for what the
 * method cannot do (UNSUPPORTED); both must say why, and the defaults, tried last but for parity mode, never contradict.
 * NULL if nothing was supported. */
static sparge_plan *plan_for(property_run *run, property_case *c, const sparge_method *method, property_freedom freedom,
                             oracle_rng *rng, const char *folder, sparge_params **params)
{
    for (int attempt = 0; attempt <= ATTEMPTS - (freedom == PROPERTY_UPSTREAM); attempt++) {
        int last = attempt == ATTEMPTS;
        char text[1280];
        sparge_plan *plan = NULL;
        sparge_status status, checked;
        sparge_error error = {0};

        *params = property_params_create(method, &c->problem, last ? PROPERTY_DEFAULTS : freedom, rng, folder, text,
                                         sizeof text);
        property_describe(run, c->seed, "%s | %s", c->text, text);
        checked = sparge_params_check(*params, &c->problem, &error);
        status = sparge_plan_create(run->context, *params, &c->problem, &plan);
        if (status == SPARGE_OK) {
            property_check(run, checked == SPARGE_OK, "a plan was made, but params_check says %s", error.text);
            return plan;
        }
        property_check(run, plan == NULL, "plan_create failed and left a plan");
        property_check(run, status == SPARGE_ERROR_UNSUPPORTED || (status == SPARGE_ERROR_INVALID_ARGUMENT && !last),
                       "plan_create: %s: %s", sparge_status_name(status), sparge_error_string(run->context));
        property_check(run, strlen(sparge_error_string(run->context)) > 10, "no reason given");
        property_check(run, checked == SPARGE_OK || (checked == status && strlen(error.text) > 10),
                       "params_check says %s, plan_create %s", sparge_status_name(checked), sparge_status_name(status));
        sparge_params_destroy(*params);
    }
    return NULL;
}

static void run_case(property_run *run, property_case *c, property_freedom freedom, const char *folder,
                     const char *only, tally *counts)
{
    for (size_t i = 0; i < sparge_method_count(); i++) {
        const sparge_method *method = sparge_method_at(i);
        oracle_rng rng = oracle_rng_seed(c->seed * 1000 + i);
        sparge_params *params;
        sparge_plan *plan;

        if (!property_wants(method, only) || counts->lacks[i])
            continue;
        plan = plan_for(run, c, method, freedom, &rng, folder, &params);
        if (!plan) {
            counts->unsupported[i]++;
            continue;
        }
        counts->ran[i]++;
        sparge_io io = property_case_io(c, run->context);
        if (property_check(run, sparge_plan_run(plan, SPARGE_STAGE_ALL, &io) == SPARGE_OK, "run: %s",
                           sparge_error_string(run->context))) {
            property_output output = property_case_output(run, c);

            property_check_run(run, c, params, plan, &output, &rng);
            property_output_release(&output);
        }
        sparge_plan_destroy(plan);
        sparge_params_destroy(params);
    }
}

/* Fails if a method that the backend has was chosen and never ran. */
static void print_tally(const tally *counts, const char *only, int complete)
{
    for (size_t i = 0; i < sparge_method_count(); i++) {
        const char *name = sparge_method_name(sparge_method_at(i));

        if (!property_wants(sparge_method_at(i), only))
            continue;
        if (counts->lacks[i]) {
            print_message("%-20s not in the backend %s\n", name, property_backend());
            continue;
        }
        print_message("%-20s ran %3" PRId64 ", unsupported %3" PRId64 "\n", name, counts->ran[i],
                      counts->unsupported[i]);
        if (complete && counts->ran[i] == 0)
            fail_msg("%s never ran", name);
    }
}

/* `only`: names of the methods to run, in one string; NULL for all. */
static void run_all(property_freedom freedom, uint64_t seed, int64_t cases, const char *only)
{
    char folder[] = "/tmp/sparge-property-XXXXXX", path[64];
    property_run run = {.program = "test_property_methods"};
    tally counts = {0};
    sparge_error error;
    int complete = property_cases(-1) < 0;

    assert_non_null(mkdtemp(folder));
    assert_true(sparge_method_count() <= MAX_METHODS);
    if (sparge_context_create(property_backend(), 0, 1, &run.context, &error) != SPARGE_OK)
        fail_msg("%s", error.text);
    for (size_t i = 0; i < sparge_method_count(); i++)
        counts.lacks[i] = property_lacks(run.context, sparge_method_at(i), folder);
    for (int64_t i = 0; i < property_cases(cases); i++) {
        property_case c;

        property_case_create(&c, run.context, property_seed(seed) + (uint64_t)i);
        run_case(&run, &c, freedom, folder, only, &counts);
        property_case_release(&c, run.context);
    }
    print_tally(&counts, only, complete);
    print_message("%" PRId64 " heads compared in full, %.1f tiles skipped in kernels\n", run.heads_compared,
                  run.tiles_skipped);
    if (complete && !getenv("SPARGE_TEST_METHOD") && freedom != PROPERTY_UPSTREAM) /* whose rounding no oracle knows */
        assert_true(run.heads_compared > 0 && (freedom != PROPERTY_WITH_SKIP || run.tiles_skipped > 100.0));
    sparge_context_destroy(run.context);
    snprintf(path, sizeof path, "%s/mask.npy", folder);
    unlink(path);
    rmdir(folder);
    assert_int_equal(run.failures, 0);
}

static void every_method(void **state)
{
    (void)state;
    run_all(PROPERTY_ANY, 1000, 60, NULL);
}

static void skipping_in_the_kernel(void **state)
{
    (void)state;
    run_all(PROPERTY_WITH_SKIP, 500000, 50, "sparge-f16 sparge-int8-f16 sparge-int8-fp8 skip-softmax mask");
}

static void parity_mode(void **state)
{
    (void)state;
    run_all(PROPERTY_UPSTREAM, 900000, 300, "sparge-f16 sparge-int8-f16 sparge-int8-fp8 minference-block mask");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method),
        cmocka_unit_test(skipping_in_the_kernel),
        cmocka_unit_test(parity_mode),
    };
    const int nothing = property_start();

    if (nothing)
        return nothing;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
