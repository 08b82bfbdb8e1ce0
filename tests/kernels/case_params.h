/* Parameters of a method, from text as on the command line. */
#ifndef TESTS_KERNELS_CASE_PARAMS_H
#define TESTS_KERNELS_CASE_PARAMS_H

#include "check.h"

#include <stdio.h>
#include <string.h>

#include "sparge/sparge.h"

/* settings: "tau=0.9 theta=0.3", shorter than 8192 characters. */
static inline sparge_params *case_params(const char *method, const char *settings)
{
    sparge_params *params = NULL;
    sparge_error error = {.status = SPARGE_OK};
    char text[8192], *rest = text;
    assert_true((size_t)snprintf(text, sizeof text, "%s", settings) < sizeof text);
    assert_non_null(sparge_method_find(method));
    assert_int_equal(sparge_params_create(sparge_method_find(method), &params), SPARGE_OK);
    for (char *item = strtok_r(text, " ", &rest); item; item = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(item, '=');
        assert_non_null(value);
        *value = '\0';
        if (sparge_params_set(params, item, value + 1, &error) != SPARGE_OK)
            fail_msg("%s: %s", method, error.text);
    }
    return params;
}

#endif
