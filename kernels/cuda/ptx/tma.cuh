/* TMA: bulk copies of boxes of a tensor from global to shared memory (sm_90). One thread starts a copy. */
#ifndef SPARGE_PTX_TMA_CUH
#define SPARGE_PTX_TMA_CUH

#include <cuda.h>
#include <stdint.h>

namespace sparge::ptx
{

/* Copies the box whose first element is (x, y, z, w), x innermost, and reports its bytes to `barrier`. What lies outside the
 * tensor, also at negative coordinates, is written as zeros and counts like the rest. */
__device__ __forceinline__ void cp_async_bulk_tensor_4d(uint32_t shared, const CUtensorMap *map, uint32_t barrier,
                                                        int32_t x, int32_t y, int32_t z, int32_t w)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];\n" ::"r"(shared),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}

/* The same of a tensor of three dimensions. */
__device__ __forceinline__ void cp_async_bulk_tensor_3d(uint32_t shared, const CUtensorMap *map, uint32_t barrier,
                                                        int32_t x, int32_t y, int32_t z)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];\n" ::"r"(shared),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

/* Fetches a map that will be used soon. */
__device__ __forceinline__ void prefetch_tensormap(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];\n" ::"l"(map) : "memory");
}

} // namespace sparge::ptx

#endif
