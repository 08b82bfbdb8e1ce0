/* Prepare and select of the CUDA backend beside the CPU's, array by array: the numbers must be the same bits. */
#ifndef TESTS_KERNELS_CUDA_ARRAYS_H
#define TESTS_KERNELS_CUDA_ARRAYS_H

#include "sparge/sparge.h"

typedef enum arrays_content {
    ARRAYS_NORMAL = 0,
    ARRAYS_DRIFT,     /* neighbours resemble each other, K has an offset per channel */
    ARRAYS_TIES,      /* few different values: many equal scores */
    ARRAYS_ZERO_ROWS, /* tokens and channels of zeros */
    ARRAYS_TINY,      /* around the smallest normal f16; bf16: down to 1e-38 */
    ARRAYS_LARGE,     /* up to the largest f16; bf16: 1e30 */
    ARRAYS_NAN,       /* some NaN and infinities */
    ARRAYS_CONTENTS
} arrays_content;

typedef struct arrays_case {
    sparge_problem problem;
    const char *method, *settings; /* "tau=0.9 theta=0.3" */
    int per_head;                  /* 1: other values of tau or topk, and theta, for every head */
    arrays_content content;
    int layout; /* 0 HND, 1 NHD, 2 HND with padding that keeps 16-byte alignment, 3 odd strides and address */
    uint64_t seed;
} arrays_case;

/* Describes the case in `text`. */
void arrays_describe(const arrays_case *c, char *text, size_t size);

/* Runs prepare and select on both; on the device twice, what they write poisoned before. Returns the number of
 * arrays that differ; prints one line for each, and for every failure, to stderr. */
int arrays_compare(sparge_context *cpu, sparge_context *cuda, const arrays_case *c);

/* A random case. largest: tokens. */
arrays_case arrays_random(uint64_t seed, int64_t largest);

#endif
