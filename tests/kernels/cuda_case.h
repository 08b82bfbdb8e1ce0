/* Shared by the tests of the CUDA backend: the two contexts that are compared, and tensors in either's memory. */
#ifndef TESTS_KERNELS_CUDA_CASE_H
#define TESTS_KERNELS_CUDA_CASE_H

#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case_params.h"
#include "sparge/sparge.h"

enum { EXIT_SKIPPED = 77 };

typedef struct cuda_case {
    sparge_context *cpu, *cuda;
} cuda_case;

static inline sparge_context *case_context(const char *backend)
{
    sparge_context *context = NULL;
    sparge_error error = {.status = SPARGE_OK};
    if (sparge_context_create(backend, 0, 0, &context, &error) != SPARGE_OK)
        fail_msg("%s: %s", backend, error.text);
    return context;
}

static inline int case_setup(void **state)
{
    static cuda_case contexts;
    contexts = (cuda_case){case_context("cpu"), case_context("cuda")};
    *state = &contexts;
    return 0;
}

static inline int case_teardown(void **state)
{
    const cuda_case *contexts = *state;
    sparge_context_destroy(contexts->cpu);
    sparge_context_destroy(contexts->cuda);
    return 0;
}

static inline void expect_ok(sparge_context *context, sparge_status status)
{
    if (status != SPARGE_OK)
        fail_msg("%s: %s", sparge_status_name(status), sparge_error_string(context));
}

static inline void *case_alloc(sparge_context *context, size_t bytes)
{
    void *memory = NULL;
    expect_ok(context, sparge_alloc(context, bytes, &memory));
    return memory;
}

/* The whole of some backend memory, malloc'ed. */
static inline void *case_download(sparge_context *context, const void *memory, size_t bytes)
{
    void *host = malloc(bytes);
    assert_non_null(host);
    expect_ok(context, sparge_download(context, host, memory, bytes));
    return host;
}

static inline size_t tensor_bytes(const sparge_tensor *tensor)
{
    const int64_t *s = tensor->shape;
    return (size_t)(s[0] * s[1] * s[2] * s[3]) * sparge_dtype_bytes(tensor->dtype);
}

static inline int64_t elapsed_ns(sparge_context *context, sparge_event *begin, sparge_event *end)
{
    int64_t ns = -1;
    expect_ok(context, sparge_event_elapsed_ns(begin, end, &ns));
    return ns;
}

#endif
