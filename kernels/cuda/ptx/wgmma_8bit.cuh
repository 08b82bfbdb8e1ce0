/* wgmma on 8-bit operands (sm_90a): scores in s8, P V in e4m3. See wgmma.cuh; here 32 of k a product.
 *
 * Both operands are K-major. Rows in shared memory are as wide as their swizzle, 128 or 64 bytes; the next 32 of k are 32
 * bytes on.
 *
 * Fragments (warp w of the group, lane l, g = 16w + l / 4, q = l % 4):
 *   A 64 x 32, 4 words of four bytes: rows g, g + 8, g, g + 8; columns 4q .. 4q + 3 of the first, first, second, second 16
 *   D 64 x N in s32: d[4j + 2h + e] = row g + 8h, column 8j + 2q + e; in f16: d[2j + h] = the pair of columns 8j + 2q */
#ifndef SPARGE_PTX_WGMMA_8BIT_CUH
#define SPARGE_PTX_WGMMA_8BIT_CUH

#include <stdint.h>

namespace sparge::ptx
{

/* An address as descriptors have it. */
__device__ __forceinline__ uint32_t wgmma_address(uint32_t shared)
{
    return (shared & 0x3ffff) >> 4;
}

/* An operand `bytes` further on has a descriptor larger by bytes / 16. */
template <int RowBytes> __device__ __forceinline__ uint64_t wgmma_descriptor_8bit(uint32_t address)
{
    static_assert(RowBytes == 128 || RowBytes == 64, "a swizzle as wide as a row");
    constexpr uint64_t swizzle = RowBytes == 128 ? 1 : 2, next_rows = 8 * RowBytes;
    return static_cast<uint64_t>(address) | next_rows >> 4 << 32 | swizzle << 62;
}

#define SPARGE_D_4(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define SPARGE_D_16(i) SPARGE_D_4(i), SPARGE_D_4(i + 4), SPARGE_D_4(i + 8), SPARGE_D_4(i + 12)

/* D = A B^T + (add ? D : 0): A 64 x 32 and B 128 x 32 in shared memory, s8; D in s32. */
__device__ __forceinline__ void wgmma_m64n128k32_s8(int32_t (&d)[64], uint64_t a, uint64_t b, bool add)
{
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 "setp.ne.b32 add, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
                 "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, "
                 "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
                 "%62, %63"
                 "}, %64, %65, add;\n"
                 "}\n"
                 : SPARGE_D_16(0), SPARGE_D_16(16), SPARGE_D_16(32), SPARGE_D_16(48)
                 : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}

/* D = A B^T + (add ? D : 0): A 64 x 32 in registers, B 136 x 32 in shared memory, e4m3; D in f16. */
__device__ __forceinline__ void wgmma_e4m3(uint32_t (&d)[34], const uint32_t *a, uint64_t b, bool add)
{
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 "setp.ne.b32 add, %39, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n136k32.f16.e4m3.e4m3 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
                 "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33"
                 "}, {%34, %35, %36, %37}, %38, add, 1, 1;\n"
                 "}\n"
                 : SPARGE_D_16(0), SPARGE_D_16(16), "+r"(d[32]), "+r"(d[33])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
}

/* The same with a B of 72 x 32. */
__device__ __forceinline__ void wgmma_e4m3(uint32_t (&d)[18], const uint32_t *a, uint64_t b, bool add)
{
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 "setp.ne.b32 add, %23, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n72k32.f16.e4m3.e4m3 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17"
                 "}, {%18, %19, %20, %21}, %22, add, 1, 1;\n"
                 "}\n"
                 : SPARGE_D_16(0), "+r"(d[16]), "+r"(d[17])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)));
}

#undef SPARGE_D_16
#undef SPARGE_D_4

} // namespace sparge::ptx

#endif
