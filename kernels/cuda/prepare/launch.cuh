/* Launching a kernel that takes one struct. */
#ifndef SPARGE_CUDA_PREPARE_LAUNCH_CUH
#define SPARGE_CUDA_PREPARE_LAUNCH_CUH

#include <cuda_runtime_api.h>

namespace sparge
{

template <typename Args>
cudaError_t launch(void (*kernel)(Args), int64_t ctas, int threads, size_t shared_bytes, cudaStream_t stream, Args args)
{
    void *parameters[] = {&args};
    return cudaLaunchKernel(reinterpret_cast<const void *>(kernel), dim3(static_cast<unsigned>(ctas)),
                            dim3(static_cast<unsigned>(threads)), parameters, shared_bytes, stream);
}

} // namespace sparge

#endif
