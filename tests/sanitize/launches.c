/* See launches.h. cudaLaunchKernel is what the sources call, __cudaLaunchKernel what nvcc makes of <<<>>>, and
 * cudaLaunchKernelExC what launches with attributes use. */
#include "launches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

enum { MOST_KERNELS = 1024 };

static const char *names[MOST_KERNELS];
static size_t name_count, launch_count, default_count;

cudaError_t __real_cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                    cudaStream_t stream);
cudaError_t __wrap_cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                    cudaStream_t stream);
cudaError_t __real___cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                      cudaStream_t stream);
cudaError_t __wrap___cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                      cudaStream_t stream);
cudaError_t __real_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel, void **arguments);
cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel, void **arguments);

/* cudaFuncGetName takes a function of the host or a cudaKernel_t; the name stays where it is. */
static void note(const void *kernel, cudaStream_t stream)
{
    const char *name = NULL;
    launch_count++;
    default_count += stream == NULL || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
    if (cudaFuncGetName(&name, kernel) != cudaSuccess) {
        fprintf(stderr, "a launched kernel has no name: %s\n", cudaGetErrorString(cudaGetLastError()));
        exit(EXIT_FAILURE);
    }
    if (launches_include(name))
        return;
    if (name_count == MOST_KERNELS) {
        fprintf(stderr, "more than %d kernels\n", MOST_KERNELS);
        exit(EXIT_FAILURE);
    }
    names[name_count++] = name;
}

cudaError_t __wrap_cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                    cudaStream_t stream)
{
    note(kernel, stream);
    return __real_cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}

cudaError_t __wrap___cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                      cudaStream_t stream)
{
    note((const void *)kernel, stream);
    return __real___cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}

cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel, void **arguments)
{
    note(kernel, config->stream);
    return __real_cudaLaunchKernelExC(config, kernel, arguments);
}

int launches_include(const char *name)
{
    for (size_t i = 0; i < name_count; i++)
        if (strcmp(names[i], name) == 0)
            return 1;
    return 0;
}

size_t launches_count(void)
{
    return launch_count;
}

size_t launches_on_default_stream(void)
{
    return default_count;
}
