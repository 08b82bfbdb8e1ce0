/* The backend that the property tests run on, and the methods that it does not have.
 *
 * A method that a backend lacks is left out because the list below says so, and the list is held against the backend's own
 * answers: a method neither drops out of the tests unseen nor stays out of them once it is there. */
#include "property.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { EXIT_SKIPPED = 77 };

static const struct {
    const char *backend, *method;
    int below; /* on devices of an architecture before this one */
} lacking[] = {
    {"cuda", "dense-int8-fp8", 89},
    {"cuda", "flexprefill", INT_MAX},
    {"cuda", "minference-ashape", INT_MAX},
    {"cuda", "minference-vs", INT_MAX},
    {"cuda", "minference-vs-grid", INT_MAX},
    {"cuda", "sparge-int8-fp8", 89},
    {"cuda", "sta", INT_MAX},
    {"cuda", "window", INT_MAX},
    {"cuda", "xattention", INT_MAX},
};

const char *property_backend(void)
{
    const char *text = getenv("SPARGE_TEST_BACKEND");

    return text ? text : "cpu";
}

int property_start(void)
{
    int chosen = 0;

    for (size_t i = 0; i < sparge_method_count(); i++)
        chosen += property_wants(sparge_method_at(i), NULL);
    if (chosen == 0) {
        fprintf(stderr, "SPARGE_TEST_METHOD = %s: names no method\n", getenv("SPARGE_TEST_METHOD"));
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < sparge_backend_count(); i++) {
        if (strcmp(sparge_backend_name(i), property_backend()) != 0 ||
            sparge_backend_device_count(property_backend()) > 0)
            continue;
        printf("no device of the backend %s: nothing to test\n", property_backend());
        return EXIT_SKIPPED;
    }
    return 0; /* a backend that this build does not have fails when a context is made */
}

int property_wants(const sparge_method *method, const char *only)
{
    const char *chosen = getenv("SPARGE_TEST_METHOD"), *name = sparge_method_name(method);

    return (!chosen || strstr(chosen, name)) && (!only || strstr(only, name));
}

static int listed(sparge_context *context, const char *method)
{
    sparge_device_info info;
    int arch = 0;

    assert_int_equal(sparge_device_get_info(context, &info), SPARGE_OK);
    if (strncmp(info.arch, "sm_", 3) == 0)
        arch = (int)strtol(info.arch + 3, NULL, 10);
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++)
        if (strcmp(lacking[i].backend, info.backend) == 0 && strcmp(lacking[i].method, method) == 0)
            return arch < lacking[i].below;
    return 0;
}

int property_lacks(sparge_context *context, const sparge_method *method, const char *folder)
{
    /* Nothing about this problem is special: the defaults of every method can do it, causal or not. */
    sparge_problem plain = {.batch = 1,
                            .heads_q = 2,
                            .heads_kv = 2,
                            .seqlen_q = 2048,
                            .seqlen_k = 2048,
                            .head_dim = 64,
                            .dtype = SPARGE_F16,
                            .grid = {.t = 8, .h = 16, .w = 16}};
    oracle_rng rng = oracle_rng_seed(1);
    char text[1280];
    sparge_params *params = property_params_create(method, &plain, PROPERTY_DEFAULTS, &rng, folder, text, sizeof text);
    sparge_plan *plan = NULL;
    sparge_error error = {0};
    sparge_status status;

    if (sparge_params_check(params, &plain, &error) != SPARGE_OK)
        plain.causal = SPARGE_CAUSAL_BOTTOM_RIGHT;
    if (sparge_params_check(params, &plain, &error) != SPARGE_OK)
        fail_msg("%s: %s", text, error.text);
    status = sparge_plan_create(context, params, &plain, &plan);
    if (status != SPARGE_OK && status != SPARGE_ERROR_UNSUPPORTED)
        fail_msg("%s: %s: %s", text, sparge_status_name(status), sparge_error_string(context));
    if (status == SPARGE_OK && listed(context, sparge_method_name(method)))
        fail_msg("%s: the backend %s has it, and the list of those it lacks names it", text, property_backend());
    if (status != SPARGE_OK && !listed(context, sparge_method_name(method)))
        fail_msg("%s: not in the list of those that the backend lacks, but %s", text, sparge_error_string(context));
    sparge_plan_destroy(plan);
    sparge_params_destroy(params);
    return status != SPARGE_OK;
}
