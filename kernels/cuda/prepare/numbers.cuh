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

/* The same of two pairs of 16-bit values, m's being magnitudes. Without KeepNan a NaN gives way to a number. */
template <typename Pair, bool KeepNan> __device__ __forceinline__ uint32_t max_magnitudes(uint32_t m, uint32_t x)
{
    Pair a, b;
    memcpy(&a, &m, sizeof m);
    memcpy(&b, &x, sizeof x);
    a = KeepNan ? __hmax2_nan(a, __habs2(b)) : __hmax2(a, __habs2(b));
    memcpy(&m, &a, sizeof m);
    return m;
}

template <typename T> struct pair_of;
template <> struct pair_of<__half> {
    using type = __half2;
};
template <> struct pair_of<__nv_bfloat16> {
    using type = __nv_bfloat162;
};

/* The sum of N values, neighbours first. */
template <int N> __device__ __forceinline__ float add_neighbours(const float *term)
{
    if constexpr (N == 1)
        return term[0];
    else
        return __fadd_rn(add_neighbours<N / 2>(term), add_neighbours<N / 2>(term + N / 2));
}

/* The low bytes of four words, a lowest. */
__device__ __forceinline__ uint32_t pack_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

} // namespace sparge::prepare

#endif
