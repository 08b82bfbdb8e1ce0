/* Memory of the CUDA backend: allocations that are refused in plain words, the lists of what plans own, and the errors
 * of the runtime as status and text. */
#include "cuda/memory.h"

#include <stdlib.h>

sparge_status cuda_check(sparge_context *context, cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return SPARGE_OK;
    (void)cudaGetLastError(); /* told here: the next call must not meet it again */
    return sparge_context_fail(context, SPARGE_ERROR_DEVICE, "%s: %s (%s)", what, cudaGetErrorString(error),
                               cudaGetErrorName(error));
}

sparge_status cuda_enter(sparge_context *context, int *caller_device)
{
    const int device = cuda_context_of(context)->device;
    *caller_device = device;
    cudaError_t error = cudaGetDevice(caller_device);
    if (error == cudaSuccess && *caller_device != device)
        error = cudaSetDevice(device);
    return cuda_check(context, error, "making the device current");
}

sparge_status cuda_leave(sparge_context *context, int caller_device, sparge_status status)
{
    if (caller_device == cuda_context_of(context)->device)
        return status;
    const cudaError_t error = cudaSetDevice(caller_device);
    return status == SPARGE_OK ? cuda_check(context, error, "making the caller's device current again") : status;
}

sparge_status cuda_size_product(sparge_context *context, const char *what, size_t count, size_t bytes, size_t *product)
{
    if (!__builtin_mul_overflow(count, bytes, product))
        return SPARGE_OK;
    return sparge_context_fail(context, SPARGE_ERROR_OUT_OF_MEMORY,
                               "%s: %zu times %zu bytes are more than there can be", what, count, bytes);
}

sparge_status cuda_allocate(sparge_context *context, const char *what, size_t bytes, void **memory)
{
    size_t left, total;
    *memory = NULL;
    const sparge_status status = cuda_check(context, cudaMemGetInfo(&left, &total), what);
    if (status != SPARGE_OK)
        return status;
    if (bytes <= left) {
        const cudaError_t error = cudaMalloc(memory, bytes ? bytes : 1);
        if (error == cudaSuccess)
            return SPARGE_OK;
        if (error != cudaErrorMemoryAllocation)
            return cuda_check(context, error, what);
        (void)cudaGetLastError();
        *memory = NULL;
    }
    return sparge_context_fail(context, SPARGE_ERROR_OUT_OF_MEMORY,
                               "%s: %zu bytes do not fit, %zu of the device's %zu are free", what, bytes, left, total);
}

sparge_status cuda_memory(sparge_context *context, uint64_t *free_bytes, uint64_t *total_bytes)
{
    /* For what cudaMalloc rounds up (2 MiB an allocation), what kernels take when they are loaded, and what generating
     * inputs and the exact reference take for a while (64 MiB). */
    static const size_t kept_back = (size_t)192 << 20;
    size_t left, total;
    const sparge_status status = cuda_check(context, cudaMemGetInfo(&left, &total), "asking for the free memory");
    if (status != SPARGE_OK)
        return status;
    *free_bytes = left > kept_back ? left - kept_back : 0;
    *total_bytes = total;
    return SPARGE_OK;
}

void cuda_deallocate(void *memory)
{
    (void)cudaFree(memory);
}

/* Each allocation of a plan has an entry in the plan's list, taken before the memory itself. */
typedef struct plan_memory {
    struct plan_memory *next;
    void *device, *host;
} plan_memory;

static plan_memory *add_entry(sparge_plan *plan)
{
    plan_memory *entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->next = cuda_plan_of(plan)->memory;
    cuda_plan_of(plan)->memory = entry;
    return entry;
}

static sparge_status no_host_memory(const sparge_plan *plan, size_t bytes)
{
    return sparge_context_fail(plan->context, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for the plan: %zu bytes",
                               bytes);
}

/* What cuda_take does for a plan that is only sized. The address stands for memory: it is never read nor written. */
static sparge_status count_alone(sparge_plan *plan, size_t bytes, void **memory)
{
    static char stand_in;
    if (__builtin_add_overflow(plan->workspace_bytes, bytes, &plan->workspace_bytes))
        return sparge_context_fail(plan->context, SPARGE_ERROR_OUT_OF_MEMORY,
                                   "memory of the plan: more than there can be");
    *memory = &stand_in;
    return SPARGE_OK;
}

sparge_status cuda_take(sparge_plan *plan, size_t count, size_t bytes, void **memory)
{
    static const char what[] = "memory of the plan";
    sparge_context *context = plan->context;
    size_t total = 0;
    *memory = NULL;
    sparge_status status = cuda_size_product(context, what, count, bytes, &total);
    if (status != SPARGE_OK)
        return status;
    if (plan->sizing)
        return count_alone(plan, total, memory);
    plan_memory *entry = add_entry(plan);
    if (!entry)
        return no_host_memory(plan, sizeof *entry);
    status = cuda_allocate(context, what, total, &entry->device);
    if (status == SPARGE_OK && total > 0)
        status = cuda_check(context, cudaMemsetAsync(entry->device, 0, total, cuda_context_of(context)->stream), what);
    if (status != SPARGE_OK)
        return status;
    *memory = entry->device;
    plan->workspace_bytes += total;
    return SPARGE_OK;
}

sparge_status cuda_take_host(sparge_plan *plan, size_t bytes, void **memory)
{
    *memory = NULL;
    plan_memory *entry = add_entry(plan);
    if (!entry || !(entry->host = calloc(bytes ? bytes : 1, 1)))
        return no_host_memory(plan, bytes);
    *memory = entry->host;
    return SPARGE_OK;
}

void cuda_plan_release(sparge_plan *plan)
{
    plan_memory *entry = cuda_plan_of(plan)->memory;
    cuda_plan_of(plan)->memory = NULL;
    while (entry) {
        plan_memory *next = entry->next;
        cuda_deallocate(entry->device);
        free(entry->host);
        free(entry);
        entry = next;
    }
}
