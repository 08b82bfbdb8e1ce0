/* The CPU backend: memory, events and plans; the stages are in prepare/, select/ and attend/.
 *
 * Everything is synchronous: a function has finished its work when it returns. */
#include <errno.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cpu/context.h"
#include "cpu/cpu.h"
#include "cpu/worklist.h"

enum { MEMORY_ALIGNMENT = 256 };

typedef struct cpu_context {
    int threads;
    const cpu_isa *isa;
} cpu_context;

static cpu_context *cpu_context_of(const sparge_context *context)
{
    return (cpu_context *)context->state;
}

int cpu_threads(const sparge_context *context)
{
    return cpu_context_of(context)->threads;
}

const cpu_isa *cpu_context_isa(const sparge_context *context)
{
    return cpu_context_of(context)->isa;
}

sparge_status cpu_context_use_isa(sparge_context *context, const char *name)
{
    const cpu_isa *isa = cpu_isa_find(name);
    if (!isa)
        return sparge_context_fail(context, SPARGE_ERROR_UNSUPPORTED, "instruction set %s: not on this machine", name);
    cpu_context_of(context)->isa = isa;
    return SPARGE_OK;
}

static int cpu_device_count(void)
{
    return 1;
}

static sparge_status cpu_open(sparge_context *context)
{
    cpu_context *cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return sparge_context_fail(context, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for the cpu context");
    cpu->threads = context->threads > 0 ? context->threads : omp_get_num_procs();
    cpu->isa = cpu_isa_at(0);
    context->state = cpu;
    return SPARGE_OK;
}

static void cpu_close(sparge_context *context)
{
    free(context->state);
    context->state = NULL;
}

/* Device information. */

static void cpu_model_name(char *name, size_t size)
{
    snprintf(name, size, "unknown CPU");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file)
        return;
    char line[256];
    while (fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(name, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
        break;
    }
    fclose(file);
}

static const char *machine_architecture(void)
{
#if defined(__x86_64__)
    return "x86-64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "other";
#endif
}

static uint64_t last_level_cache_bytes(void)
{
    const int levels[] = {
#ifdef _SC_LEVEL4_CACHE_SIZE
        _SC_LEVEL4_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE,
#endif
        -1};
    for (size_t i = 0; levels[i] >= 0; i++) {
        const long bytes = sysconf(levels[i]);
        if (bytes > 0)
            return (uint64_t)bytes;
    }
    return 0;
}

static sparge_status cpu_info(sparge_context *context, sparge_device_info *info)
{
    const cpu_context *cpu = cpu_context_of(context);
    snprintf(info->backend, sizeof info->backend, "cpu");
    cpu_model_name(info->name, sizeof info->name);
    if (gethostname(info->uuid, sizeof info->uuid - 1) != 0)
        info->uuid[0] = '\0';
    snprintf(info->arch, sizeof info->arch, "%s %s", machine_architecture(), cpu->isa->name);
    info->units = cpu->threads;
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0)
        info->memory_bytes = (uint64_t)pages * (uint64_t)page_bytes;
    info->l2_bytes = last_level_cache_bytes();
    snprintf(info->details, sizeof info->details,
             "processors: %d\nvector lanes: %d floats\ninstruction sets:", omp_get_num_procs(), cpu->isa->lanes);
    const cpu_isa *isa;
    for (int i = 0; (isa = cpu_isa_at(i)) != NULL; i++) {
        const size_t used = strlen(info->details);
        snprintf(info->details + used, sizeof info->details - used, " %s", isa->name);
    }
    return SPARGE_OK;
}

/* Memory. */

static sparge_status cpu_alloc(sparge_context *context, size_t bytes, void **memory)
{
    const size_t size = bytes ? bytes : 1;
    const int failed = posix_memalign(memory, MEMORY_ALIGNMENT, size);
    if (failed) {
        *memory = NULL;
        return sparge_context_fail(context, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory: %zu bytes", bytes);
    }
    return SPARGE_OK;
}

static void cpu_free(sparge_context *context, void *memory)
{
    (void)context;
    free(memory);
}

static sparge_status copy(sparge_context *context, void *to, const void *from, size_t bytes)
{
    (void)context;
    if (bytes)
        memcpy(to, from, bytes);
    return SPARGE_OK;
}

static sparge_status cpu_fill(sparge_context *context, void *memory, int byte, size_t bytes)
{
    (void)context;
    if (bytes)
        memset(memory, byte, bytes);
    return SPARGE_OK;
}

static sparge_status cpu_synchronize(sparge_context *context)
{
    (void)context;
    return SPARGE_OK;
}

/* Row [batch, head, token] of a tensor. */
static char *row_of(const sparge_tensor *tensor, int64_t batch, int64_t head, int64_t token)
{
    const int64_t at = batch * tensor->stride[0] + head * tensor->stride[1] + token * tensor->stride[2];
    return (char *)tensor->data + at * (int64_t)sparge_dtype_bytes(tensor->dtype);
}

static sparge_status cpu_permute(sparge_context *context, const sparge_tensor *from, const sparge_tensor *to,
                                 const int64_t *source)
{
    const int64_t heads = from->shape[1], tokens = from->shape[2];
    const int64_t rows = from->shape[0] * heads * tokens;
    const size_t bytes = (size_t)from->shape[3] * sparge_dtype_bytes(from->dtype);
#pragma omp parallel for num_threads(cpu_threads(context))
    for (int64_t i = 0; i < rows; i++) {
        const int64_t batch = i / tokens / heads, head = i / tokens % heads, token = i % tokens;
        memcpy(row_of(to, batch, head, token), row_of(from, batch, head, source[token]), bytes);
    }
    return SPARGE_OK;
}

/* Events are time stamps: work has ended when the function that did it returns. */

static sparge_status cpu_event_create(sparge_event *event)
{
    event->ns = 0;
    return SPARGE_OK;
}

static void cpu_event_destroy(sparge_event *event)
{
    (void)event;
}

static sparge_status cpu_event_record(sparge_event *event)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC_RAW, &now) != 0)
        return sparge_context_fail(event->context, SPARGE_ERROR_DEVICE, "clock_gettime(CLOCK_MONOTONIC_RAW): %s",
                                   strerror(errno));
    event->ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    return SPARGE_OK;
}

static sparge_status cpu_event_elapsed(const sparge_event *begin, const sparge_event *end, int64_t *ns)
{
    *ns = end->ns - begin->ns;
    return SPARGE_OK;
}

/* Plans. Each allocation of a plan is preceded by its link in the plan's list.
 *
 * A plan that is only sized takes address space without memory behind it (MAP_NORESERVE): the stages' plan functions may
 * write to what they take, and only the pages they write to become real. */

typedef struct plan_memory {
    struct plan_memory *next;
    size_t mapped; /* bytes of the mapping; 0: from posix_memalign */
} plan_memory;

enum { PLAN_MEMORY_ALIGNMENT = 64 };

static plan_memory *map_zeroes(size_t size)
{
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        return NULL;
    plan_memory *link = mapped;
    link->mapped = size;
    return link;
}

/* `size` zeroed bytes behind their link. */
static plan_memory *take_zeroes(size_t size)
{
    void *taken;
    if (posix_memalign(&taken, PLAN_MEMORY_ALIGNMENT, PLAN_MEMORY_ALIGNMENT + size) != 0)
        return NULL;
    memset(taken, 0, PLAN_MEMORY_ALIGNMENT + size);
    return taken;
}

sparge_status cpu_take(sparge_plan *plan, size_t count, size_t bytes, void **memory)
{
    cpu_plan *cpu = cpu_plan_of(plan);
    const size_t limit = SIZE_MAX - PLAN_MEMORY_ALIGNMENT;
    *memory = NULL;
    if (bytes && count > limit / bytes)
        return sparge_context_fail(plan->context, SPARGE_ERROR_OUT_OF_MEMORY,
                                   "out of memory for the plan: %zu times %zu bytes is too much", count, bytes);
    const size_t total = count * bytes;
    plan_memory *link = plan->sizing ? map_zeroes(PLAN_MEMORY_ALIGNMENT + total) : take_zeroes(total);
    if (!link)
        return sparge_context_fail(plan->context, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for the plan: %zu bytes",
                                   total);
    link->next = cpu->memory;
    cpu->memory = link;
    *memory = (char *)link + PLAN_MEMORY_ALIGNMENT;
    plan->workspace_bytes += total;
    return SPARGE_OK;
}

static void cpu_plan_destroy(sparge_plan *plan)
{
    cpu_plan *cpu = cpu_plan_of(plan);
    if (!cpu)
        return;
    plan_memory *link = cpu->memory;
    while (link) {
        plan_memory *next = link->next;
        if (link->mapped > 0)
            (void)munmap(link, link->mapped);
        else
            free(link);
        link = next;
    }
    free(cpu);
    plan->state = NULL;
}

/* Every array of prepare and attend has at most BYTES_PER_TOKEN bytes per token and head, and a little more where the
 * last block is partial. Checked once here, so that the products of their sizes cannot overflow. */
static sparge_status check_size(sparge_plan *plan)
{
    enum { BYTES_PER_TOKEN = 8 * SPARGE_MAX_HEAD_DIM, PARTIAL_BLOCK = 1024 };
    const sparge_problem *problem = &plan->problem;
    const int64_t longest = problem->seqlen_q > problem->seqlen_k ? problem->seqlen_q : problem->seqlen_k;
    const uint64_t heads = (uint64_t)problem->batch * (uint64_t)problem->heads_q; /* below 2^62 */
    const uint64_t limit = (uint64_t)PTRDIFF_MAX / BYTES_PER_TOKEN;
    if ((uint64_t)longest > limit - PARTIAL_BLOCK || heads > limit / ((uint64_t)longest + PARTIAL_BLOCK))
        return sparge_context_fail(plan->context, SPARGE_ERROR_OUT_OF_MEMORY,
                                   "out of memory for the plan: %d batches of %d heads of %lld tokens are too many",
                                   problem->batch, problem->heads_q, (long long)longest);
    return SPARGE_OK;
}

static sparge_status cpu_plan_create(sparge_plan *plan)
{
    sparge_status status = check_size(plan);
    if (status != SPARGE_OK)
        return status;
    plan->state = calloc(1, sizeof(cpu_plan));
    if (!plan->state)
        return sparge_context_fail(plan->context, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for a plan");
    plan->workspace_bytes = 0;
    status = cpu_select_plan(plan);
    if (status == SPARGE_OK)
        status = cpu_prepare_plan(plan);
    if (status == SPARGE_OK)
        status = cpu_attend_plan(plan);
    if (status == SPARGE_OK && !plan->sizing && !(sparge_plan_stages(plan) & SPARGE_STAGE_SELECT))
        status = cpu_select_run(plan, NULL);
    if (status != SPARGE_OK)
        cpu_plan_destroy(plan);
    return status;
}

static sparge_status cpu_plan_run(sparge_plan *plan, int stages, const sparge_io *io)
{
    cpu_plan *cpu = cpu_plan_of(plan);
    if (!cpu->permuted) {
        cpu->prepared.q = io->q;
        cpu->prepared.k = io->k;
        cpu->prepared.v = io->v;
    }
    sparge_status status = SPARGE_OK;
    if (stages & SPARGE_STAGE_PREPARE)
        status = cpu_prepare_run(plan, io);
    if (status == SPARGE_OK && (stages & SPARGE_STAGE_SELECT))
        status = cpu_select_run(plan, io);
    if (status == SPARGE_OK && (stages & SPARGE_STAGE_ATTEND))
        status = cpu_attend_run(plan, io);
    return status;
}

static sparge_status cpu_plan_stats(sparge_plan *plan, sparge_stats *stats)
{
    *stats = cpu_plan_of(plan)->stats;
    return SPARGE_OK;
}

static sparge_status cpu_plan_block_mask(sparge_plan *plan, sparge_block_mask *mask)
{
    const sparge_block_mask *chosen = &cpu_plan_of(plan)->mask;
    if (!chosen->value)
        return sparge_context_fail(plan->context, SPARGE_ERROR_UNSUPPORTED,
                                   "method %s selects tokens, not blocks: it has no block mask",
                                   sparge_method_name(plan->recipe.method));
    const int64_t blocks = (int64_t)chosen->batch * chosen->heads * chosen->rows * chosen->cols;
    memcpy(mask->value, chosen->value, (size_t)blocks);
    return SPARGE_OK;
}

static sparge_status cpu_plan_pairs(sparge_plan *plan, int32_t batch, int32_t head, uint8_t *kept)
{
    cpu_worklist_pairs(plan, batch, head, kept);
    return SPARGE_OK;
}

static double mean(const float *values, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)values[i];
    return sum / (double)count;
}

static sparge_status cpu_plan_similarity(sparge_plan *plan, double *sim_q, double *sim_k)
{
    const cpu_prepared *prepared = &cpu_plan_of(plan)->prepared;
    const sparge_problem *problem = &plan->problem;
    const sparge_recipe *recipe = &plan->recipe;
    if (!prepared->q_sim || !prepared->k_sim)
        return sparge_context_fail(plan->context, SPARGE_ERROR_UNSUPPORTED,
                                   "method %s does not compute the self-similarity of blocks",
                                   sparge_method_name(recipe->method));
    const int64_t rows = (problem->seqlen_q + recipe->block_q - 1) / recipe->block_q;
    const int64_t cols = (problem->seqlen_k + recipe->block_k - 1) / recipe->block_k;
    *sim_q = mean(prepared->q_sim, (int64_t)problem->batch * problem->heads_q * rows);
    *sim_k = mean(prepared->k_sim, (int64_t)problem->batch * problem->heads_kv * cols);
    return SPARGE_OK;
}

const sparge_backend sparge_backend_cpu = {
    .name = "cpu",
    .summary = "C with OpenMP and vector instructions; the yardstick for the other backends",
    .hidden = 0,
    .device_count = cpu_device_count,
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .upload = copy,
    .download = copy,
    .fill = cpu_fill,
    .generate = cpu_generate,
    .permute = cpu_permute,
    .synchronize = cpu_synchronize,
    .event_create = cpu_event_create,
    .event_destroy = cpu_event_destroy,
    .event_record = cpu_event_record,
    .event_elapsed = cpu_event_elapsed,
    .exact = cpu_exact,
    .plan_create = cpu_plan_create,
    .plan_destroy = cpu_plan_destroy,
    .plan_run = cpu_plan_run,
    .plan_stats = cpu_plan_stats,
    .plan_block_mask = cpu_plan_block_mask,
    .plan_pairs = cpu_plan_pairs,
    .plan_similarity = cpu_plan_similarity,
};
