/* What the attention kernels of every generation do with rows of S, P and O. */
#ifndef SPARGE_CUDA_ATTEND_ROWS_CUH
#define SPARGE_CUDA_ATTEND_ROWS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <math_constants.h>
#include <string.h>

#include "attend.h"

namespace sparge
{

/* Rows of shared memory are made of 16-byte chunks, XORed with the row so that ldmatrix meets no bank conflict. */
template <int RowBytes> __device__ __forceinline__ uint32_t chunk_offset(int row, int chunk)
{
    constexpr int chunks = RowBytes / 16;
    static_assert(chunks == 4 || chunks == 8 || chunks == 16, "row of 64, 128 or 256 bytes");
    const int swizzled = chunks == 4 ? chunk ^ ((row >> 1) & 3) : chunk ^ (row & 7);
    return static_cast<uint32_t>(row * RowBytes + swizzled * 16);
}

__device__ __forceinline__ uint32_t pack(float low, float high, __half)
{
    const __half2 pair = __floats2half2_rn(low, high);
    uint32_t word;
    memcpy(&word, &pair, sizeof word);
    return word;
}

__device__ __forceinline__ uint32_t pack(float low, float high, __nv_bfloat16)
{
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    uint32_t word;
    memcpy(&word, &pair, sizeof word);
    return word;
}

/* Four e4m3 codes, saturating, a lowest. */
__device__ __forceinline__ uint32_t pack_e4m3(float a, float b, float c, float d)
{
    const uint32_t low = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E4M3);
    const uint32_t high = __nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, __NV_E4M3);
    return low | high << 16;
}

__device__ __forceinline__ float exp2_approx(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* The number, r in attend.h, of the work-th row block that is begun. */
template <bool Lists> __device__ __forceinline__ int row_block_number(const attend_args &args, int work)
{
    if (Lists && args.order)
        return args.order[work];
    const int group = args.heads_together, odd_heads = args.batch * args.heads_q % group;
    const int rest = work - odd_heads * args.row_blocks; /* counted from the first whole group */
    const int first_head = rest < 0 ? 0 : odd_heads + rest / (group * args.row_blocks) * group;
    const int heads = rest < 0 ? odd_heads : group, i = work - first_head * args.row_blocks;
    return (first_head + i % heads) * args.row_blocks + args.row_blocks - 1 - i / heads;
}

/* Maximum and sum over the four lanes that share a row. */
__device__ __forceinline__ float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

__device__ __forceinline__ float quad_sum(float x)
{
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

/* Stores a chunk of a row of O element by element: where O is not aligned to 16 bytes. */
__device__ __forceinline__ void store_elements(char *to, const char *from, int elements)
{
    for (int e = 0; e < 8 && e < elements; e++)
        reinterpret_cast<uint16_t *>(to)[e] = reinterpret_cast<const uint16_t *>(from)[e];
}

} // namespace sparge

#endif
