/* mbarrier: arrival counters in shared memory on which bulk copies report their bytes (sm_90).
 *
 * A phase ends when all arrivals and all expected bytes have come; then the next begins. Phases are told apart by parity: a
 * wait for the parity of the phase before the first passes at once. */
#ifndef SPARGE_PTX_MBARRIER_CUH
#define SPARGE_PTX_MBARRIER_CUH

#include <stdint.h>

namespace sparge::ptx
{

__device__ __forceinline__ void mbarrier_init(uint32_t barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals) : "memory");
}

/* Makes initialised barriers known to the copy engine. */
__device__ __forceinline__ void fence_mbarrier_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}

/* Arrives, and lets the phase wait for so many bytes more. */
__device__ __forceinline__ void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void mbarrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}

/* Waits until the phase of this parity has ended. */
__device__ __forceinline__ void mbarrier_wait_parity(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again_%=:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again_%=;\n"
                 "}\n" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* Non-zero if the phase of this parity has ended. */
__device__ __forceinline__ uint32_t mbarrier_test_parity(uint32_t barrier, uint32_t parity)
{
    uint32_t ended;
    asm volatile("{\n"
                 ".reg .pred ended;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, ended;\n"
                 "}\n"
                 : "=r"(ended)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return ended;
}

} // namespace sparge::ptx

#endif
