/* The CUDA backend: devices, contexts, memory and events. Plans are in plan.c, kernels in the .cu files.
 *
 * A context has one non-blocking stream of its own, on which everything runs. Each entry point leaves the caller's
 * current device as it found it (memory.h). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda/nvml.h"
#include "cuda/memory.h"
#include "cuda/permute.h"
#include "cuda/plan.h"

enum { MIN_ARCH = 80 };

/* A machine without a driver, or whose driver is too old, has no device: that is no error. */
static int device_count(void)
{
    int devices = 0;
    if (cudaGetDeviceCount(&devices) == cudaSuccess)
        return devices;
    (void)cudaGetLastError();
    return 0;
}

/* The context's device, current when this is called. */
static sparge_status open_device(sparge_context *context)
{
    cuda_context *cuda = cuda_context_of(context);
    sparge_status status =
        cuda_check(context, cudaGetDeviceProperties(&cuda->properties, cuda->device), "cudaGetDeviceProperties");
    if (status != SPARGE_OK)
        return status;
    const int arch = cuda->properties.major * 10 + cuda->properties.minor;
    if (arch < MIN_ARCH)
        return sparge_context_fail(context, SPARGE_ERROR_UNSUPPORTED,
                                   "device %d, %s: its architecture is sm_%d, the cuda backend needs sm_%d or later",
                                   cuda->device, cuda->properties.name, arch, MIN_ARCH);
    const cudaError_t code = cuda_permute_probe(&cuda->arch);
    if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorInvalidDeviceFunction) {
        (void)cudaGetLastError();
        return sparge_context_fail(context, SPARGE_ERROR_UNSUPPORTED,
                                   "device %d, %s: this build has no code for sm_%d (CMAKE_CUDA_ARCHITECTURES)",
                                   cuda->device, cuda->properties.name, arch);
    }
    status = cuda_check(context, code, "loading the kernels");
    if (status != SPARGE_OK)
        return status;
    status = cuda_check(context, cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking), "making a stream");
    return status == SPARGE_OK ? cuda_gate_create(context) : status;
}

/* Also of a context that was not opened to the end. */
static void dispose(sparge_context *context)
{
    cuda_context *cuda = cuda_context_of(context);
    int caller_device;
    (void)cuda_enter(context, &caller_device);
    if (cuda->stream) {
        (void)cudaStreamSynchronize(cuda->stream);
        (void)cudaStreamDestroy(cuda->stream);
    }
    cuda_gate_destroy(context);
    (void)cuda_leave(context, caller_device, SPARGE_OK);
    cuda_nvml_close(cuda->nvml);
    free(cuda);
    context->state = NULL;
}

static sparge_status open_context(sparge_context *context)
{
    cuda_context *cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        return sparge_context_fail(context, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for the cuda context");
    cuda->device = context->device;
    context->state = cuda;
    int caller_device;
    sparge_status status = cuda_enter(context, &caller_device);
    if (status == SPARGE_OK)
        status = cuda_leave(context, caller_device, open_device(context));
    if (status != SPARGE_OK)
        dispose(context);
    return status;
}

static void close_context(sparge_context *context)
{
    (void)cuda_release(context); /* what is still held would be waited for in vain */
    dispose(context);
}

/* Device information. */

static int attribute(int device, enum cudaDeviceAttr which)
{
    int value = 0;
    if (cudaDeviceGetAttribute(&value, which, device) != cudaSuccess)
        (void)cudaGetLastError(); /* not every device tells everything: 0 stands for unknown */
    return value;
}

static void format_uuid(const cudaUUID_t *uuid, char *text, size_t size)
{
    static const int dash_before[] = {4, 6, 8, 10};
    int used = snprintf(text, size, "GPU-");
    for (int i = 0, dash = 0; i < 16; i++) {
        const char *separator = "";
        if (dash < 4 && i == dash_before[dash]) {
            separator = "-";
            dash++;
        }
        used += snprintf(text + used, size - (size_t)used, "%s%02x", separator, (unsigned char)uuid->bytes[i]);
    }
}

static void add_details(int device, const struct cudaDeviceProp *p, sparge_device_info *info)
{
    int driver = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess)
        (void)cudaGetLastError();
    int used = snprintf(info->details, sizeof info->details,
                        "CUDA of the driver: %d.%d\nshared memory: %zu KiB a block, %zu KiB an SM\n"
                        "registers: %d a block, %d an SM\nmemory bus: %d bits\nECC: %s",
                        driver / 1000, driver % 1000 / 10, p->sharedMemPerBlockOptin / 1024,
                        p->sharedMemPerMultiprocessor / 1024, p->regsPerBlock, p->regsPerMultiprocessor,
                        p->memoryBusWidth, p->ECCEnabled ? "on" : "off");
    const int clock_khz = attribute(device, cudaDevAttrClockRate),
              memory_khz = attribute(device, cudaDevAttrMemoryClockRate);
    if (clock_khz > 0 && memory_khz > 0 && used > 0 && (size_t)used < sizeof info->details)
        snprintf(info->details + used, sizeof info->details - (size_t)used,
                 "\nhighest SM clock: %d MHz\nhighest memory clock: %d MHz", clock_khz / 1000, memory_khz / 1000);
}

static void fill_info(int device, const struct cudaDeviceProp *p, sparge_device_info *info)
{
    int runtime = 0;
    snprintf(info->backend, sizeof info->backend, "cuda");
    snprintf(info->name, sizeof info->name, "%.127s", p->name);
    format_uuid(&p->uuid, info->uuid, sizeof info->uuid);
    snprintf(info->arch, sizeof info->arch, "sm_%d", p->major * 10 + p->minor);
    cuda_driver_version(info->driver, sizeof info->driver);
    if (cudaRuntimeGetVersion(&runtime) == cudaSuccess)
        snprintf(info->runtime, sizeof info->runtime, "%d.%d", runtime / 1000, runtime % 1000 / 10);
    info->units = p->multiProcessorCount;
    info->memory_bytes = p->totalGlobalMem;
    info->l2_bytes = p->l2CacheSize > 0 ? (uint64_t)p->l2CacheSize : 0;
    add_details(device, p, info);
}

/* Asks the driver, and makes no CUDA context on the device. */
static sparge_status describe(int device, sparge_device_info *info, sparge_error *error)
{
    struct cudaDeviceProp properties;
    const cudaError_t code = cudaGetDeviceProperties(&properties, device);
    if (code != cudaSuccess) {
        (void)cudaGetLastError();
        return sparge_fail(error, SPARGE_ERROR_DEVICE, "device %d: cudaGetDeviceProperties: %s (%s)", device,
                           cudaGetErrorString(code), cudaGetErrorName(code));
    }
    fill_info(device, &properties, info);
    return SPARGE_OK;
}

static sparge_status device_info(sparge_context *context, sparge_device_info *info)
{
    const cuda_context *cuda = cuda_context_of(context);
    fill_info(cuda->device, &cuda->properties, info);
    return SPARGE_OK;
}

static sparge_status device_memory(sparge_context *context, uint64_t *free_bytes, uint64_t *total_bytes)
{
    int caller_device;
    sparge_status status = cuda_enter(context, &caller_device);
    if (status != SPARGE_OK)
        return status;
    return cuda_leave(context, caller_device, cuda_memory(context, free_bytes, total_bytes));
}

/* NVML is opened when it is first asked. */
static sparge_status need_nvml(sparge_context *context, cuda_context *cuda)
{
    if (cuda->nvml)
        return SPARGE_OK;
    char uuid[64], reason[160];
    format_uuid(&cuda->properties.uuid, uuid, sizeof uuid);
    cuda->nvml = cuda_nvml_open(uuid, reason, sizeof reason);
    if (!cuda->nvml)
        return sparge_context_fail(context, SPARGE_ERROR_UNSUPPORTED, "device %d: %s", cuda->device, reason);
    return SPARGE_OK;
}

static sparge_status device_telemetry(sparge_context *context, sparge_telemetry *telemetry)
{
    cuda_context *cuda = cuda_context_of(context);
    const sparge_status status = need_nvml(context, cuda);
    if (status == SPARGE_OK)
        cuda_nvml_read(cuda->nvml, telemetry);
    return status;
}

static sparge_status device_state(sparge_context *context, sparge_device_state *state)
{
    cuda_context *cuda = cuda_context_of(context);
    const sparge_status status = need_nvml(context, cuda);
    if (status != SPARGE_OK)
        return status;
    cuda_nvml_read_state(cuda->nvml, state);
    snprintf(state->pci, sizeof state->pci, "%08x:%02x:%02x.0", (unsigned)cuda->properties.pciDomainID,
             (unsigned)cuda->properties.pciBusID, (unsigned)cuda->properties.pciDeviceID);
    return SPARGE_OK;
}

/* Memory. */

static sparge_status allocate(sparge_context *context, size_t bytes, void **memory)
{
    int caller_device;
    sparge_status status = cuda_enter(context, &caller_device);
    if (status != SPARGE_OK)
        return status;
    return cuda_leave(context, caller_device, cuda_allocate(context, "device memory", bytes, memory));
}

static void deallocate(sparge_context *context, void *memory)
{
    int caller_device;
    (void)cuda_enter(context, &caller_device);
    cuda_deallocate(memory);
    (void)cuda_leave(context, caller_device, SPARGE_OK);
}

static sparge_status wait_for_stream(sparge_context *context)
{
    return cuda_check(context, cudaStreamSynchronize(cuda_context_of(context)->stream), "waiting for the stream");
}

static sparge_status copy(sparge_context *context, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                          const char *what)
{
    int caller_device;
    if (bytes == 0)
        return SPARGE_OK;
    sparge_status status = cuda_enter(context, &caller_device);
    if (status != SPARGE_OK)
        return status;
    status = cuda_check(context, cudaMemcpyAsync(to, from, bytes, kind, cuda_context_of(context)->stream), what);
    if (status == SPARGE_OK)
        status = wait_for_stream(context);
    return cuda_leave(context, caller_device, status);
}

static sparge_status upload(sparge_context *context, void *memory, const void *host, size_t bytes)
{
    return copy(context, memory, host, bytes, cudaMemcpyHostToDevice, "copying to the device");
}

static sparge_status download(sparge_context *context, void *host, const void *memory, size_t bytes)
{
    return copy(context, host, memory, bytes, cudaMemcpyDeviceToHost, "copying from the device");
}

static sparge_status fill(sparge_context *context, void *memory, int byte, size_t bytes)
{
    int caller_device;
    if (bytes == 0)
        return SPARGE_OK;
    sparge_status status = cuda_enter(context, &caller_device);
    if (status != SPARGE_OK)
        return status;
    status = cuda_check(context, cudaMemsetAsync(memory, byte, bytes, cuda_context_of(context)->stream),
                        "filling device memory");
    return cuda_leave(context, caller_device, status);
}

static sparge_status synchronize(sparge_context *context)
{
    int caller_device;
    sparge_status status = cuda_enter(context, &caller_device);
    return status == SPARGE_OK ? cuda_leave(context, caller_device, wait_for_stream(context)) : status;
}

static sparge_status hold(sparge_context *context)
{
    int caller_device;
    sparge_status status = cuda_enter(context, &caller_device);
    return status == SPARGE_OK ? cuda_leave(context, caller_device, cuda_hold(context)) : status;
}

/* Operations on tensors. */

static sparge_status generate(sparge_context *context, const sparge_generator *generator, sparge_tensor_role role,
                              const sparge_tensor *tensor)
{
    int caller_device;
    sparge_status status = cuda_enter(context, &caller_device);
    if (status != SPARGE_OK)
        return status;
    return cuda_leave(context, caller_device, cuda_generate(context, generator, role, tensor));
}

static sparge_status permute(sparge_context *context, const sparge_tensor *from, const sparge_tensor *to,
                             const int64_t *source)
{
    int caller_device;
    sparge_status status = cuda_enter(context, &caller_device);
    if (status != SPARGE_OK)
        return status;
    return cuda_leave(context, caller_device, cuda_permute(context, from, to, source));
}

static sparge_status exact(sparge_context *context, const sparge_problem *problem, const sparge_tensor *q,
                           const sparge_tensor *k, const sparge_tensor *v, const int64_t *rows, int64_t n_rows,
                           double *o, double *lse)
{
    int caller_device;
    sparge_status status = cuda_enter(context, &caller_device);
    if (status != SPARGE_OK)
        return status;
    return cuda_leave(context, caller_device, cuda_exact(context, problem, q, k, v, rows, n_rows, o, lse));
}

/* Events. */

static sparge_status event_create(sparge_event *event)
{
    int caller_device;
    sparge_status status = cuda_enter(event->context, &caller_device);
    if (status != SPARGE_OK)
        return status;
    cudaEvent_t made = NULL;
    status = cuda_check(event->context, cudaEventCreateWithFlags(&made, cudaEventDefault), "making an event");
    event->state = made;
    return cuda_leave(event->context, caller_device, status);
}

static void event_destroy(sparge_event *event)
{
    int caller_device;
    (void)cuda_enter(event->context, &caller_device);
    (void)cudaEventDestroy(event->state);
    (void)cuda_leave(event->context, caller_device, SPARGE_OK);
}

static sparge_status event_record(sparge_event *event)
{
    sparge_context *context = event->context;
    int caller_device;
    sparge_status status = cuda_enter(context, &caller_device);
    if (status != SPARGE_OK)
        return status;
    status = cuda_check(context, cudaEventRecord(event->state, cuda_context_of(context)->stream), "recording an event");
    return cuda_leave(context, caller_device, status);
}

static sparge_status elapsed(const sparge_event *begin, const sparge_event *end, int64_t *ns)
{
    sparge_context *context = begin->context;
    float ms = 0;
    sparge_status status = cuda_check(context, cudaEventSynchronize(begin->state), "waiting for an event");
    if (status == SPARGE_OK)
        status = cuda_check(context, cudaEventSynchronize(end->state), "waiting for an event");
    if (status == SPARGE_OK)
        status = cuda_check(context, cudaEventElapsedTime(&ms, begin->state, end->state), "the time between events");
    *ns = (int64_t)llround((double)ms * 1e6);
    return status;
}

static sparge_status event_elapsed(const sparge_event *begin, const sparge_event *end, int64_t *ns)
{
    int caller_device;
    sparge_status status = cuda_enter(begin->context, &caller_device);
    return status == SPARGE_OK ? cuda_leave(begin->context, caller_device, elapsed(begin, end, ns)) : status;
}

/* Plans. */

static sparge_status plan_create(sparge_plan *plan)
{
    int caller_device;
    sparge_status status = cuda_enter(plan->context, &caller_device);
    return status == SPARGE_OK ? cuda_leave(plan->context, caller_device, cuda_plan_create(plan)) : status;
}

static void plan_destroy(sparge_plan *plan)
{
    int caller_device;
    (void)cuda_enter(plan->context, &caller_device);
    cuda_plan_destroy(plan);
    (void)cuda_leave(plan->context, caller_device, SPARGE_OK);
}

static sparge_status plan_run(sparge_plan *plan, int stages, const sparge_io *io)
{
    int caller_device;
    sparge_status status = cuda_enter(plan->context, &caller_device);
    return status == SPARGE_OK ? cuda_leave(plan->context, caller_device, cuda_plan_run(plan, stages, io)) : status;
}

static sparge_status plan_stats(sparge_plan *plan, sparge_stats *stats)
{
    int caller_device;
    sparge_status status = cuda_enter(plan->context, &caller_device);
    return status == SPARGE_OK ? cuda_leave(plan->context, caller_device, cuda_plan_stats(plan, stats)) : status;
}

static sparge_status plan_block_mask(sparge_plan *plan, sparge_block_mask *mask)
{
    int caller_device;
    sparge_status status = cuda_enter(plan->context, &caller_device);
    return status == SPARGE_OK ? cuda_leave(plan->context, caller_device, cuda_plan_block_mask(plan, mask)) : status;
}

static sparge_status plan_pairs(sparge_plan *plan, int32_t batch, int32_t head, uint8_t *kept)
{
    int caller_device;
    sparge_status status = cuda_enter(plan->context, &caller_device);
    if (status != SPARGE_OK)
        return status;
    return cuda_leave(plan->context, caller_device, cuda_plan_pairs(plan, batch, head, kept));
}

static sparge_status plan_similarity(sparge_plan *plan, double *sim_q, double *sim_k)
{
    int caller_device;
    sparge_status status = cuda_enter(plan->context, &caller_device);
    if (status != SPARGE_OK)
        return status;
    return cuda_leave(plan->context, caller_device, cuda_plan_similarity(plan, sim_q, sim_k));
}

const sparge_backend sparge_backend_cuda = {
    .name = "cuda",
    .summary = "NVIDIA GPUs from sm_80 on, with tensor-core kernels",
    .hidden = 0,
    .device_count = device_count,
    .describe = describe,
    .open = open_context,
    .close = close_context,
    .info = device_info,
    .memory = device_memory,
    .telemetry = device_telemetry,
    .state = device_state,
    .alloc = allocate,
    .free = deallocate,
    .upload = upload,
    .download = download,
    .fill = fill,
    .generate = generate,
    .permute = permute,
    .synchronize = synchronize,
    .hold = hold,
    .release = cuda_release,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_elapsed = event_elapsed,
    .exact = exact,
    .plan_create = plan_create,
    .plan_destroy = plan_destroy,
    .plan_run = plan_run,
    .plan_stats = plan_stats,
    .plan_block_mask = plan_block_mask,
    .plan_pairs = plan_pairs,
    .plan_similarity = plan_similarity,
};
