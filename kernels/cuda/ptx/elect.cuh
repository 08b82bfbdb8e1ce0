/* elect.sync: one lane of a warp. */
#ifndef SPARGE_PTX_ELECT_CUH
#define SPARGE_PTX_ELECT_CUH

#include <stdint.h>

namespace sparge::ptx
{

/* True in one lane, which ptxas then knows to be alone: where it only sees a condition on the thread's number, it puts a
 * loop around every instruction that takes uniform registers, such as TMA's. All lanes of the warp must come. */
__device__ __forceinline__ bool elect_one()
{
    uint32_t elected;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "elect.sync _|p, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "}\n"
                 : "=r"(elected));
    return elected != 0;
}

} // namespace sparge::ptx

#endif
