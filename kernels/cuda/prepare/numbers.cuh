/* Arithmetic of prepare and select that gives the CPU's bits: every operation is rounded on its own, whatever the flags
 * of the compiler. */
#ifndef SPARGE_CUDA_PREPARE_NUMBERS_CUH
#define SPARGE_CUDA_PREPARE_NUMBERS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
#include <string.h>

namespace sparge::prepare
{

/* Two 16-bit values of a word as floats, the lower half first. */
template <typename T> __device__ __forceinline__ float2 unpack(uint32_t word);

template <> __device__ __forceinline__ float2 unpack<__half>(uint32_t word)
{
    __half2 pair;
    memcpy(&pair, &word, sizeof word);
    return __half22float2(pair);
}

template <> __device__ __forceinline__ float2 unpack<__nv_bfloat16>(uint32_t word)
{
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}

template <typename T> __device__ __forceinline__ void unpack(float (&value)[8], uint4 chunk)
{
    const uint32_t word[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 pair = unpack<T>(word[i]);
        value[2 * i] = pair.x;
        value[2 * i + 1] = pair.y;
    }
}

/* The larger of m and |x|; NaN if either is NaN. */
__device__ __forceinline__ float max_magnitude(float m, float x)
{
#ifdef __CUDA_ARCH__
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(m), "f"(fabsf(x)));
    return larger;
#else
    return m != m || fabsf(x) > m || x != x ? (m != m ? m : fabsf(x)) : m;
#endif
}

/* x / y rounded to nearest, given r = 1 / y rounded to nearest: Markstein's two fused steps. Both are needed: x * r alone
 * is off by up to 1.5 units in the last place. That the result is the correctly rounded one is checked for every pair of
 * mantissas for which it could be in doubt (tests/kernels/quotient.c). r must be normal, and no step may underflow unless
 * the quotient does not matter: |x| >= 2^-100, or a quotient so small that nothing sees its last bit. y = r = 0 gives 0,
 * or NaN for an infinite x: what x / infinity is. */
__device__ __forceinline__ float quotient(float x, float y, float r)
{
    const float near = __fmul_rn(x, r);
    return __fmaf_rn(__fmaf_rn(-near, y, x), r, near);
}

/* trunc(q + 0.5 sign(q)) of |q| < 128. */
__device__ __forceinline__ int rounded_away(float q)
{
    return __float2int_rz(__fadd_rn(q, copysignf(0.5f, q)));
}

/* The sum of N values, neighbours first. */
template <int N> __device__ __forceinline__ float add_neighbours(const float *term)
{
    if constexpr (N == 1)
        return term[0];
    else
        return __fadd_rn(add_neighbours<N / 2>(term), add_neighbours<N / 2>(term + N / 2));
}

__device__ __forceinline__ uint32_t pack_bytes(int a, int b, int c, int d)
{
    return __byte_perm(__byte_perm(static_cast<uint32_t>(a), static_cast<uint32_t>(b), 0x0040),
                       __byte_perm(static_cast<uint32_t>(c), static_cast<uint32_t>(d), 0x0040), 0x5410);
}

} // namespace sparge::prepare

#endif
