/* wgmma: matrix products of a warpgroup, 64 rows by N columns, 16 of k, operands in shared memory (sm_90a).
 *
 * Products run beside other instructions: wgmma_fence, products, wgmma_commit, and after wgmma_wait the result may be read
 * and the operands overwritten.
 *
 * Operands in shared memory have rows of 128 bytes (64 values), in the 128-byte swizzle that TMA writes: eight rows are an
 * atom of 1024 bytes, aligned to 1024. K-major (rows are A's or B's own, k runs along them): the next 16 of k are 32 bytes
 * on. MN-major (rows are k): the next 16 of k are 2048 bytes on.
 *
 * Fragments (warp w of the group, lane l, g = 16w + l / 4, q = l % 4), as in mma.cuh:
 *   A 64 x 16, 4 words: rows g, g + 8, g, g + 8; columns 2q, 2q + 1 of the first, first, second, second eight
 *   D 64 x N, N / 2 values: d[4j + 2h + e] = row g + 8h, column 8j + 2q + e */
#ifndef SPARGE_PTX_WGMMA_CUH
#define SPARGE_PTX_WGMMA_CUH

#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

namespace sparge::ptx
{

/* Where an operand is. next_columns: bytes to the next 64 columns of an MN-major one; of no use for a K-major one. An
 * operand `bytes` further on has a descriptor larger by bytes / 16. */
__device__ __forceinline__ uint64_t wgmma_descriptor(uint32_t shared, uint32_t next_columns)
{
    constexpr uint64_t swizzle_128 = 1ull << 62, next_rows = 1024;
    return static_cast<uint64_t>((shared & 0x3ffff) >> 4) | static_cast<uint64_t>(next_columns >> 4) << 16 |
           next_rows >> 4 << 32 | swizzle_128;
}

/* Before products: what other instructions have written to D or A registers is seen by them. */
__device__ __forceinline__ void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}

/* Waits until at most N of the newest groups are still running. */
template <int N> __device__ __forceinline__ void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(N) : "memory");
}

/* Stores of this thread to shared memory are seen by products (and bulk copies) that start after a barrier. */
__device__ __forceinline__ void fence_proxy_async()
{
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}

/* After a wait, for what was in flight: uses of these registers stay behind it. */
template <int N> __device__ __forceinline__ void wgmma_pin(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

/* Of integers, or of pairs of f16. */
template <typename Word, int N> __device__ __forceinline__ void wgmma_pin(Word (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+r"(d[i])::"memory");
}

/* Operand lists for 32, 64 and 96 registers of D. */
#define SPARGE_NAMES_32                                                                                                \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "   \
    "%24, %25, %26, %27, %28, %29, %30, %31"
#define SPARGE_NAMES_64                                                                                                \
    SPARGE_NAMES_32                                                                                                    \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, "                \
    "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SPARGE_NAMES_96                                                                                                \
    SPARGE_NAMES_64                                                                                                    \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, "                \
    "%83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define SPARGE_D_8(i)                                                                                                  \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]),        \
        "+f"(d[i + 7])
#define SPARGE_D_32 SPARGE_D_8(0), SPARGE_D_8(8), SPARGE_D_8(16), SPARGE_D_8(24)
#define SPARGE_D_64 SPARGE_D_32, SPARGE_D_8(32), SPARGE_D_8(40), SPARGE_D_8(48), SPARGE_D_8(56)
#define SPARGE_D_96 SPARGE_D_64, SPARGE_D_8(64), SPARGE_D_8(72), SPARGE_D_8(80), SPARGE_D_8(88)

/* first ..: the numbers of the operands that follow D's. */
#define SPARGE_WGMMA_SS(n, registers, first, second, third, type)                                                      \
    asm volatile("{\n"                                                                                                 \
                 ".reg .pred add;\n"                                                                                   \
                 "setp.ne.b32 add, %" #third ", 0;\n"                                                                  \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" SPARGE_NAMES_##registers         \
                 "}, %" #first ", %" #second ", add, 1, 1, 0, 0;\n"                                                    \
                 "}\n"                                                                                                 \
                 : SPARGE_D_##registers                                                                                \
                 : "l"(a), "l"(b), "r"(static_cast<int>(add)))
#define SPARGE_WGMMA_RS(n, registers, first, second, third, fourth, fifth, type)                                       \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" SPARGE_NAMES_##registers         \
                 "}, {%" #first ", %" #second ", %" #third ", %" #fourth "}, %" #fifth ", 1, 1, 1, 1;\n"               \
                 : SPARGE_D_##registers                                                                                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

/* D = A B^T + (add ? D : 0): A 64 x 16 and B N x 16, both K-major; N = 64, 128 or 192. */
template <typename T, int N>
__device__ __forceinline__ void wgmma_m64k16_ss(float (&d)[N / 2], uint64_t a, uint64_t b, bool add)
{
    constexpr bool half = std::is_same_v<T, __half>;
    if constexpr (N == 64 && half)
        SPARGE_WGMMA_SS(64, 32, 32, 33, 34, "f16");
    else if constexpr (N == 64)
        SPARGE_WGMMA_SS(64, 32, 32, 33, 34, "bf16");
    else if constexpr (N == 128 && half)
        SPARGE_WGMMA_SS(128, 64, 64, 65, 66, "f16");
    else if constexpr (N == 128)
        SPARGE_WGMMA_SS(128, 64, 64, 65, 66, "bf16");
    else if constexpr (half)
        SPARGE_WGMMA_SS(192, 96, 96, 97, 98, "f16");
    else
        SPARGE_WGMMA_SS(192, 96, 96, 97, 98, "bf16");
}

/* D += A B: A 64 x 16 in registers, B 16 x N, MN-major; N = 64 or 128. */
template <typename T, int N>
__device__ __forceinline__ void wgmma_m64k16_rs(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b)
{
    constexpr bool half = std::is_same_v<T, __half>;
    if constexpr (N == 64 && half)
        SPARGE_WGMMA_RS(64, 32, 32, 33, 34, 35, 36, "f16");
    else if constexpr (N == 64)
        SPARGE_WGMMA_RS(64, 32, 32, 33, 34, 35, 36, "bf16");
    else if constexpr (half)
        SPARGE_WGMMA_RS(128, 64, 64, 65, 66, 67, 68, "f16");
    else
        SPARGE_WGMMA_RS(128, 64, 64, 65, 66, 67, 68, "bf16");
}

#undef SPARGE_WGMMA_RS
#undef SPARGE_WGMMA_SS
#undef SPARGE_D_96
#undef SPARGE_D_64
#undef SPARGE_D_32
#undef SPARGE_D_8
#undef SPARGE_NAMES_96
#undef SPARGE_NAMES_64
#undef SPARGE_NAMES_32

} // namespace sparge::ptx

#endif
