/* Binary32 operations that are rounded once, whatever compiles them: the generators give the same bits on every backend.
 *
 * nvcc contracts a * b + c into one rounding by default, and has options that make division and square root approximate
 * or flush small numbers. What those options could change is spelled with the functions below, which stand for the
 * instructions that they leave alone; only a product can be contracted into a sum, so sums need no such name. C files
 * are compiled with -ffp-contract=off. */
#ifndef SPARGE_GENERATE_IEEE_H
#define SPARGE_GENERATE_IEEE_H

#include <math.h>

#ifdef __CUDACC__
#define SPARGE_HOST_DEVICE __host__ __device__
#else
#define SPARGE_HOST_DEVICE
#endif

static inline SPARGE_HOST_DEVICE float ieee_product(float a, float b)
{
#ifdef __CUDA_ARCH__
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
}

static inline SPARGE_HOST_DEVICE float ieee_quotient(float a, float b)
{
#ifdef __CUDA_ARCH__
    return __fdiv_rn(a, b);
#else
    return a / b;
#endif
}

static inline SPARGE_HOST_DEVICE float ieee_root(float a)
{
#ifdef __CUDA_ARCH__
    return __fsqrt_rn(a);
#else
    return sqrtf(a);
#endif
}

#endif
