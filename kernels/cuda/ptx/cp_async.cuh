/* cp.async: 16-byte copies from global to shared memory that run beside the arithmetic (sm_80). */
#ifndef SPARGE_PTX_CP_ASYNC_CUH
#define SPARGE_PTX_CP_ASYNC_CUH

#include <stdint.h>

namespace sparge::ptx
{

__device__ __forceinline__ uint32_t shared_address(const void *pointer)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/* Copies 16 bytes, or writes 16 zero bytes where `valid` is false (the source is then not read). */
__device__ __forceinline__ void cp_async_16(uint32_t shared, const void *global, bool valid)
{
    const int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}

/* A policy for the copy below: its lines leave the L2 cache first. */
__device__ __forceinline__ uint64_t evict_first()
{
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;\n" : "=l"(policy));
    return policy;
}

__device__ __forceinline__ void cp_async_16(uint32_t shared, const void *global, bool valid, uint64_t policy)
{
    const int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;\n" ::"r"(shared), "l"(global),
                 "r"(bytes), "l"(policy)
                 : "memory");
}

__device__ __forceinline__ void cp_async_commit()
{
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}

/* Waits until at most N of the newest groups of this thread are still running. */
template <int N> __device__ __forceinline__ void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}

} // namespace sparge::ptx

#endif
