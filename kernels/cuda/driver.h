/* The driver's version (internal to kernels/cuda). */
#ifndef SPARGE_CUDA_DRIVER_H
#define SPARGE_CUDA_DRIVER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "580.159.04", as NVML tells it; "" on a machine without NVML. The CUDA runtime knows only which CUDA the driver can. */
void cuda_driver_version(char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
