/* Parity mode's rounding points: the nearest value of a 16-bit type. */
#ifndef SPARGE_CUDA_PREPARE_ROUND_CUH
#define SPARGE_CUDA_PREPARE_ROUND_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace sparge
{

template <typename T> __device__ float round_16(float x);

template <> __device__ inline float round_16<__half>(float x)
{
    return __half2float(__float2half_rn(x));
}

template <> __device__ inline float round_16<__nv_bfloat16>(float x)
{
    return __bfloat162float(__float2bfloat16_rn(x));
}

} // namespace sparge

#endif
