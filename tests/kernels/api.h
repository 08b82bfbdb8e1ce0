/* Shared by the tests of the public API's contract: a context on the backend under test and small problems. */
#ifndef TESTS_KERNELS_API_H
#define TESTS_KERNELS_API_H

#include "sparge/sparge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Is there nothing to test, because the backend asked for has no device here? */
static inline int api_is_idle(void)
{
    const char *backend = getenv("SPARGE_TEST_BACKEND");

    return backend && sparge_backend_device_count(backend) == 0;
}

static inline sparge_context *api_context(void)
{
    const char *backend = getenv("SPARGE_TEST_BACKEND");
    sparge_context *context = NULL;
    sparge_error error = {0};

    if (sparge_context_create(backend ? backend : "cpu", 0, 0, &context, &error) != SPARGE_OK)
        fail_msg("%s", error.text);
    return context;
}

/* The message is one line and names the argument. */
static inline void assert_message(const char *text, const char *names)
{
    if (strlen(text) < 8 || strchr(text, '\n') || !strstr(text, names))
        fail_msg("message '%s' should be one line naming '%s'", text, names);
}

static inline void assert_fails(sparge_status status, sparge_status expected, const char *text, const char *names)
{
    if (status != expected)
        fail_msg("status is %s, not %s (%s)", sparge_status_name(status), sparge_status_name(expected), text);
    assert_message(text, names);
}

#endif
