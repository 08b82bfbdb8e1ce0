/* NVML (internal to kernels/cuda): what the driver tells of itself and of a device while that works.
 *
 * The library comes with the driver. It is opened when it is first asked, by the name libnvidia-ml.so.1 where the dynamic linker
 * looks (LD_LIBRARY_PATH, then the system's folders), so that the program starts on machines without one. */
#ifndef SPARGE_CUDA_NVML_H
#define SPARGE_CUDA_NVML_H

#include <stddef.h>

#include "sparge/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "580.159.04"; "" on a machine without NVML. The CUDA runtime knows only which CUDA the driver can. */
void cuda_driver_version(char *text, size_t size);

typedef struct cuda_nvml cuda_nvml;

/* uuid: "GPU-...", as CUDA tells it: the two number devices differently. NULL if there is nothing to be had, with one line in
 * `reason` that says why. */
cuda_nvml *cuda_nvml_open(const char *uuid, char *reason, size_t size);
/* What is not told is -1, or "". */
void cuda_nvml_read(const cuda_nvml *nvml, sparge_telemetry *telemetry);
void cuda_nvml_read_state(const cuda_nvml *nvml, sparge_device_state *state); /* but for `pci`, which CUDA knows */
void cuda_nvml_close(cuda_nvml *nvml);                                        /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
