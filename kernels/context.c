/* Contexts, memory and events: argument checks once for every backend, then the backend's own function. */
#include "sparge/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "checks.h"

/* In order of preference for "auto". */
static const sparge_backend *const backends[] = {
#ifdef SPARGE_HAVE_CUDA
    &sparge_backend_cuda,
#endif
    &sparge_backend_cpu, &sparge_backend_fake};
enum { BACKENDS = sizeof backends / sizeof backends[0] };

sparge_status sparge_context_fail(sparge_context *context, sparge_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(context->error.text, sizeof context->error.text, format, arguments);
    va_end(arguments);
    context->error.status = status;
    return status;
}

size_t sparge_backend_count(void)
{
    return BACKENDS;
}

const char *sparge_backend_name(size_t index)
{
    return index < BACKENDS ? backends[index]->name : NULL;
}

const char *sparge_backend_summary(size_t index)
{
    return index < BACKENDS ? backends[index]->summary : NULL;
}

static const sparge_backend *find_backend(const char *name)
{
    for (size_t i = 0; i < BACKENDS; i++)
        if (strcmp(backends[i]->name, name) == 0)
            return backends[i];
    return NULL;
}

int sparge_backend_device_count(const char *backend)
{
    const sparge_backend *found = backend ? find_backend(backend) : NULL;
    return found ? found->device_count() : 0;
}

/* *chosen is NULL where it fails. */
static sparge_status choose_backend(const char *name, const sparge_backend **chosen, sparge_error *error)
{
    *chosen = NULL;
    if (!name)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "backend is NULL");
    if (strcmp(name, "auto") == 0) {
        for (size_t i = 0; i < BACKENDS && !*chosen; i++)
            if (!backends[i]->hidden && backends[i]->device_count() > 0)
                *chosen = backends[i];
        return *chosen ? SPARGE_OK : sparge_fail(error, SPARGE_ERROR_DEVICE, "backend auto: no backend has a device");
    }
    *chosen = find_backend(name);
    if (*chosen)
        return SPARGE_OK;
    char names[128] = "auto";
    for (size_t i = 0; i < BACKENDS; i++) {
        if (backends[i]->hidden)
            continue;
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, ", %s", backends[i]->name);
    }
    return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "backend %s: unknown, must be one of %s", name, names);
}

/* The backend of a device that is there. */
static sparge_status choose_device(const char *name, int device, const sparge_backend **chosen, sparge_error *error)
{
    sparge_status status = choose_backend(name, chosen, error);
    if (status != SPARGE_OK)
        return status;
    int devices = (*chosen)->device_count();
    if (device >= 0 && device < devices)
        return SPARGE_OK;
    return sparge_fail(error, SPARGE_ERROR_DEVICE, "device %d: backend %s has %d device%s", device, (*chosen)->name,
                       devices, devices == 1 ? "" : "s");
}

const char *sparge_backend_choose(const char *backend, sparge_error *error)
{
    const sparge_backend *chosen;
    return choose_backend(backend, &chosen, error) == SPARGE_OK ? chosen->name : NULL;
}

sparge_status sparge_context_create(const char *backend, int device, int threads, sparge_context **context,
                                    sparge_error *error)
{
    if (!context)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "context is NULL");
    *context = NULL;
    if (threads < 0)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "threads = %d: must be >= 0 (0 = all)", threads);
    const sparge_backend *chosen;
    sparge_status status = choose_device(backend, device, &chosen, error);
    if (status != SPARGE_OK)
        return status;
    sparge_context *created = calloc(1, sizeof *created);
    if (!created)
        return sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for a context");
    created->backend = chosen;
    created->device = device;
    created->threads = threads;
    status = chosen->open(created);
    if (status != SPARGE_OK) {
        sparge_fail(error, status, "%s", created->error.text);
        free(created);
        return status;
    }
    *context = created;
    return SPARGE_OK;
}

void sparge_context_destroy(sparge_context *context)
{
    if (!context)
        return;
    context->backend->close(context);
    free(context);
}

const char *sparge_error_string(const sparge_context *context)
{
    return context ? context->error.text : "";
}

sparge_status sparge_device_get_info(sparge_context *context, sparge_device_info *info)
{
    memset(info, 0, sizeof *info);
    return context->backend->info(context, info);
}

/* Through a context that is made for it. */
static sparge_status describe_by_context(const char *backend, int device, sparge_device_info *info, sparge_error *error)
{
    sparge_context *context;
    sparge_status status = sparge_context_create(backend, device, 0, &context, error);
    if (status != SPARGE_OK)
        return status;
    status = sparge_device_get_info(context, info);
    if (status != SPARGE_OK)
        sparge_fail(error, status, "%s", sparge_error_string(context));
    sparge_context_destroy(context);
    return status;
}

sparge_status sparge_device_describe(const char *backend, int device, sparge_device_info *info, sparge_error *error)
{
    memset(info, 0, sizeof *info);
    const sparge_backend *chosen;
    sparge_status status = choose_device(backend, device, &chosen, error);
    if (status != SPARGE_OK)
        return status;
    return chosen->describe ? chosen->describe(device, info, error)
                            : describe_by_context(chosen->name, device, info, error);
}

sparge_status sparge_device_get_memory(sparge_context *context, uint64_t *free_bytes, uint64_t *total_bytes)
{
    *free_bytes = *total_bytes = UINT64_MAX;
    return context->backend->memory ? context->backend->memory(context, free_bytes, total_bytes) : SPARGE_OK;
}

sparge_status sparge_device_get_telemetry(sparge_context *context, sparge_telemetry *telemetry)
{
    memset(telemetry, 0xff, sizeof *telemetry); /* all -1 */
    if (!context->backend->telemetry)
        return sparge_context_fail(context, SPARGE_ERROR_UNSUPPORTED,
                                   "the backend %s tells nothing of clocks, power and heat", context->backend->name);
    return context->backend->telemetry(context, telemetry);
}

sparge_status sparge_device_get_state(sparge_context *context, sparge_device_state *state)
{
    *state = (sparge_device_state){-1, -1, -1, -1, -1, "", ""};
    if (!context->backend->state)
        return sparge_context_fail(context, SPARGE_ERROR_UNSUPPORTED,
                                   "the backend %s tells nothing of how it is set up", context->backend->name);
    return context->backend->state(context, state);
}

sparge_status sparge_alloc(sparge_context *context, size_t bytes, void **memory)
{
    *memory = NULL;
    return context->backend->alloc(context, bytes, memory);
}

void sparge_free(sparge_context *context, void *memory)
{
    if (memory)
        context->backend->free(context, memory);
}

sparge_status sparge_upload(sparge_context *context, void *memory, const void *host, size_t bytes)
{
    return context->backend->upload(context, memory, host, bytes);
}

sparge_status sparge_download(sparge_context *context, void *host, const void *memory, size_t bytes)
{
    return context->backend->download(context, host, memory, bytes);
}

sparge_status sparge_fill(sparge_context *context, void *memory, int byte, size_t bytes)
{
    return context->backend->fill(context, memory, byte, bytes);
}

sparge_status sparge_synchronize(sparge_context *context)
{
    return context->backend->synchronize(context);
}

sparge_status sparge_hold(sparge_context *context)
{
    return context->backend->hold ? context->backend->hold(context) : SPARGE_OK;
}

sparge_status sparge_release(sparge_context *context)
{
    return context->backend->release ? context->backend->release(context) : SPARGE_OK;
}

sparge_status sparge_generate(sparge_context *context, const sparge_generator *generator, sparge_tensor_role role,
                              const sparge_tensor *tensor)
{
    sparge_status status = sparge_check_generate(generator, role, tensor, &context->error);
    return status == SPARGE_OK ? context->backend->generate(context, generator, role, tensor) : status;
}

sparge_status sparge_permute_tokens(sparge_context *context, const sparge_tensor *from, const sparge_tensor *to,
                                    const int64_t *source)
{
    sparge_status status = sparge_check_permute(from, to, source, &context->error);
    return status == SPARGE_OK ? context->backend->permute(context, from, to, source) : status;
}

sparge_status sparge_event_create(sparge_context *context, sparge_event **event)
{
    *event = NULL;
    sparge_event *created = calloc(1, sizeof *created);
    if (!created)
        return sparge_context_fail(context, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for an event");
    created->context = context;
    sparge_status status = context->backend->event_create(created);
    if (status != SPARGE_OK) {
        free(created);
        return status;
    }
    *event = created;
    return SPARGE_OK;
}

void sparge_event_destroy(sparge_event *event)
{
    if (!event)
        return;
    event->context->backend->event_destroy(event);
    free(event);
}

sparge_status sparge_event_record(sparge_event *event)
{
    sparge_status status = event->context->backend->event_record(event);
    event->recorded = event->recorded || status == SPARGE_OK;
    return status;
}

sparge_status sparge_event_elapsed_ns(const sparge_event *begin, const sparge_event *end, int64_t *ns)
{
    if (!begin->recorded || !end->recorded)
        return sparge_context_fail(begin->context, SPARGE_ERROR_INVALID_ARGUMENT, "%s: the event was never recorded",
                                   begin->recorded ? "end" : "begin");
    return begin->context->backend->event_elapsed(begin, end, ns);
}

sparge_status sparge_exact(sparge_context *context, const sparge_problem *problem, const sparge_tensor *q,
                           const sparge_tensor *k, const sparge_tensor *v, const int64_t *rows, int64_t n_rows,
                           double *o, double *lse)
{
    sparge_error *error = &context->error;
    sparge_status status = sparge_problem_check(problem, error);
    if (status == SPARGE_OK)
        status = sparge_check_qkv(problem, q, k, v, error);
    if (status != SPARGE_OK)
        return status;
    if (!o)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "o is NULL");
    if (!rows && n_rows != problem->seqlen_q)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT,
                           "n_rows = %lld: must be seqlen_q = %lld where rows is NULL", (long long)n_rows,
                           (long long)problem->seqlen_q);
    if (n_rows < 0)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "n_rows = %lld: must be >= 0", (long long)n_rows);
    for (int64_t i = 0; rows && i < n_rows; i++)
        if (rows[i] < 0 || rows[i] >= problem->seqlen_q)
            return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "rows[%lld] = %lld: must be in 0..%lld",
                               (long long)i, (long long)rows[i], (long long)problem->seqlen_q - 1);
    return context->backend->exact(context, problem, q, k, v, rows, n_rows, o, lse);
}
