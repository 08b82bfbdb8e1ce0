/* exp of selection on the device: kernels/cpu/select/exp.h, the same bits. */
#ifndef SPARGE_CUDA_SELECT_EXP_CUH
#define SPARGE_CUDA_SELECT_EXP_CUH

#include <stdint.h>

namespace sparge::select
{

__device__ __forceinline__ float select_exp(float x)
{
    const float magic = 12582912.0f;
    const float t = __fadd_rn(__fmul_rn(x, 1.44269504f), magic);
    const float k = __fsub_rn(t, magic);
    float r = __fsub_rn(x, __fmul_rn(k, 0.693359375f));
    r = __fsub_rn(r, __fmul_rn(k, -2.12194440e-4f));
    float p = 1.98412698e-4f;
    p = __fadd_rn(__fmul_rn(p, r), 1.38888889e-3f);
    p = __fadd_rn(__fmul_rn(p, r), 8.33333333e-3f);
    p = __fadd_rn(__fmul_rn(p, r), 4.16666667e-2f);
    p = __fadd_rn(__fmul_rn(p, r), 1.66666667e-1f);
    p = __fadd_rn(__fmul_rn(p, r), 0.5f);
    p = __fadd_rn(__fmul_rn(p, r), 1.0f);
    p = __fadd_rn(__fmul_rn(p, r), 1.0f);
    /* t has k in its low bits, and none of its exponent's reach the result. */
    const float result = __fmul_rn(p, __uint_as_float((__float_as_uint(t) + 127) << 23));
    return x >= -87.0f ? result : 0.0f;
}

/* A value of [0, 1] in units of 2^-27, rounded down. */
__device__ __forceinline__ uint32_t mass_of(float value)
{
    return __float2uint_rz(__fmul_rn(value, 0x1p27f));
}

} // namespace sparge::select

#endif
