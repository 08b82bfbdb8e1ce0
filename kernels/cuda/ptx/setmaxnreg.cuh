/* setmaxnreg: moves registers between the warpgroups of a CTA (sm_90a). Executed by every warp of a group. */
#ifndef SPARGE_PTX_SETMAXNREG_CUH
#define SPARGE_PTX_SETMAXNREG_CUH

namespace sparge::ptx
{

/* Registers a thread from now on, a multiple of 8 in 24..256. */
template <int Registers> __device__ __forceinline__ void setmaxnreg_dec()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(Registers));
}

/* Waits until the other groups have given up enough. */
template <int Registers> __device__ __forceinline__ void setmaxnreg_inc()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(Registers));
}

} // namespace sparge::ptx

#endif
