/* Device memory and the current device (internal to kernels/cuda). */
#ifndef SPARGE_CUDA_MEMORY_H
#define SPARGE_CUDA_MEMORY_H

#include "cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every entry point of the backend works on the context's device and leaves the caller's current device as it was:
 * cuda_enter at its begin, and at its end cuda_leave, which passes `status` on. */
sparge_status cuda_enter(sparge_context *context, int *caller_device);
sparge_status cuda_leave(sparge_context *context, int caller_device, sparge_status status);

/* Device memory, not cleared. What does not fit the free memory is refused before it is asked for; `what` begins the
 * message. */
sparge_status cuda_allocate(sparge_context *context, const char *what, size_t bytes, void **memory);
void cuda_deallocate(void *memory); /* NULL is fine */

/* The device's memory: what an allocation can count on, and all. */
sparge_status cuda_memory(sparge_context *context, uint64_t *free_bytes, uint64_t *total_bytes);

/* count * bytes, or OUT_OF_MEMORY naming `what` where that is beyond size_t. */
sparge_status cuda_size_product(sparge_context *context, const char *what, size_t count, size_t bytes, size_t *product);

/* Frees all that cuda_take and cuda_take_host gave. */
void cuda_plan_release(sparge_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
