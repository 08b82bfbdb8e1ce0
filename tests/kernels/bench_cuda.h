/* Shared by the programs that print times of the CUDA backend: what fails ends them, saying what it was. */
#ifndef TESTS_KERNELS_BENCH_CUDA_H
#define TESTS_KERNELS_BENCH_CUDA_H

#include <stdio.h>
#include <stdlib.h>

#include "sparge/sparge.h"

static inline void require(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "failed: %s\n", what);
    exit(1);
}

static inline void expect(sparge_context *context, sparge_status status, const char *what)
{
    if (status == SPARGE_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, sparge_error_string(context));
    exit(1);
}

#endif
