/* Rounding generated numbers to a tensor's type: to nearest even, overflow to infinity, as sparge_f16_from_f32 and
 * sparge_bf16_from_f32. */
#ifndef SPARGE_CUDA_GENERATE_STORE_CUH
#define SPARGE_CUDA_GENERATE_STORE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace sparge::generate
{

template <typename T> __device__ __forceinline__ T rounded(float value);

template <> __device__ __forceinline__ float rounded<float>(float value)
{
    return value;
}

template <> __device__ __forceinline__ __half rounded<__half>(float value)
{
    return __float2half_rn(value);
}

template <> __device__ __forceinline__ __nv_bfloat16 rounded<__nv_bfloat16>(float value)
{
    return __float2bfloat16_rn(value);
}

} // namespace sparge::generate

#endif
