/* Instructions on pairs of 16-bit numbers in a word, the first one lowest, and what goes with them (sm_90). */
#ifndef SPARGE_PTX_PACKED_CUH
#define SPARGE_PTX_PACKED_CUH

#include <stdint.h>

namespace sparge::ptx
{

/* a b + c of f16 pairs, rounded once; subnormal numbers as such. */
__device__ __forceinline__ uint32_t fma_f16x2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;\n" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

/* The same f16, nearest to x, twice. */
__device__ __forceinline__ uint32_t f16x2_of(float x)
{
    uint32_t d;
    asm("cvt.rn.f16x2.f32 %0, %1, %1;\n" : "=r"(d) : "f"(x));
    return d;
}

/* Two f16 pairs as four e4m3, saturating, `low` lowest. */
__device__ __forceinline__ uint32_t e4m3x4_of_f16(uint32_t low, uint32_t high)
{
    uint32_t d;
    asm("{\n"
        ".reg .b16 low, high;\n"
        "cvt.rn.satfinite.e4m3x2.f16x2 low, %1;\n"
        "cvt.rn.satfinite.e4m3x2.f16x2 high, %2;\n"
        "mov.b32 %0, {low, high};\n"
        "}\n"
        : "=r"(d)
        : "r"(low), "r"(high));
    return d;
}

/* 1 / x to 1 ulp; of subnormal numbers, infinity. */
__device__ __forceinline__ float reciprocal(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

} // namespace sparge::ptx

#endif
