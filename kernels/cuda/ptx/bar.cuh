/* bar: barriers of some of a CTA's threads. Barrier 0 is __syncthreads'. */
#ifndef SPARGE_PTX_BAR_CUH
#define SPARGE_PTX_BAR_CUH

#include <stdint.h>

namespace sparge::ptx
{

/* threads: a multiple of 32, the same in every warp that comes. */
__device__ __forceinline__ void bar_sync(uint32_t barrier, uint32_t threads)
{
    asm volatile("bar.sync %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}

} // namespace sparge::ptx

#endif
