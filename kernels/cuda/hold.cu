/* The blocking kernel: one thread that spins on a word in mapped host memory, so that what is launched behind it queues up.
 *
 * Each hold draws a ticket; release writes the newest ticket, which opens every gate up to it. The kernel gives up after
 * ten seconds of the device's clock: a host that dies or forgets must not hang the device. */
#include <stdlib.h>

#include "cuda/cuda.h"

struct cuda_gate {
    unsigned *opened;        /* mapped host memory: the newest ticket released */
    unsigned *opened_device; /* the same word, as the device addresses it */
    unsigned ticket;
};

namespace
{

constexpr unsigned long long give_up_ns = 10000000000ull;

__device__ unsigned long long global_timer_ns()
{
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

__global__ void wait_for_ticket(const volatile unsigned *opened, unsigned ticket)
{
    const unsigned long long begin_ns = global_timer_ns();
    /* Tickets are compared by their difference, so that they may wrap. */
    while (static_cast<int>(*opened - ticket) < 0 && global_timer_ns() - begin_ns < give_up_ns)
        __nanosleep(200);
}

} // namespace

sparge_status cuda_gate_create(sparge_context *context)
{
    cuda_gate *gate = static_cast<cuda_gate *>(calloc(1, sizeof(cuda_gate)));
    if (!gate)
        return sparge_context_fail(context, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for a context");
    cuda_context_of(context)->gate = gate;
    void *word = NULL, *device = NULL;
    sparge_status status =
        cuda_check(context, cudaHostAlloc(&word, sizeof(unsigned), cudaHostAllocMapped), "mapped host memory");
    if (status != SPARGE_OK)
        return status;
    gate->opened = static_cast<unsigned *>(word);
    *gate->opened = 0;
    status = cuda_check(context, cudaHostGetDevicePointer(&device, word, 0), "mapped host memory");
    gate->opened_device = static_cast<unsigned *>(device);
    return status;
}

void cuda_gate_destroy(sparge_context *context)
{
    cuda_gate *gate = cuda_context_of(context)->gate;
    if (!gate)
        return;
    if (gate->opened)
        cudaFreeHost(gate->opened);
    free(gate);
    cuda_context_of(context)->gate = NULL;
}

sparge_status cuda_hold(sparge_context *context)
{
    cuda_gate *gate = cuda_context_of(context)->gate;
    gate->ticket++;
    wait_for_ticket<<<1, 1, 0, cuda_context_of(context)->stream>>>(gate->opened_device, gate->ticket);
    return cuda_check(context, cudaGetLastError(), "launching the blocking kernel");
}

sparge_status cuda_release(sparge_context *context)
{
    cuda_gate *gate = cuda_context_of(context)->gate;
    *static_cast<volatile unsigned *>(gate->opened) = gate->ticket;
    return SPARGE_OK;
}
