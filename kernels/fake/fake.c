/* The fake backend: every operation is the CPU backend's, except that time is virtual and failures are scripted. */
#include "fake.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend.h"

/* The CPU backend runs on a context of its own, so that its state and errors stay apart from ours. */
typedef struct fake_state {
    sparge_context inner;
    fake_scenario scenario;
    int64_t now_ns; /* the virtual clock */
    int64_t launches, elapsed_calls;
    uint64_t random;
    int64_t allocated_bytes;
} fake_state;

static fake_state *state_of(const sparge_context *context)
{
    return context->state;
}

/* Hands the inner context's failure to the outer one. */
static sparge_status forward(sparge_context *context, sparge_status status)
{
    if (status != SPARGE_OK)
        context->error = state_of(context)->inner.error;
    return status;
}

/* splitmix64 (Steele, Lea, Flood 2014): small, and any seed will do. */
static uint64_t random_bits(fake_state *state)
{
    uint64_t z = state->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double random_uniform(fake_state *state)
{
    return (double)(random_bits(state) >> 11) * 0x1p-53;
}

/* Twelve uniforms: normal enough for timing noise. */
static double random_normal(fake_state *state)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += random_uniform(state);
    return sum;
}

/* One where the scenario is malformed: opening a context then says so. */
static int fake_device_count(void)
{
    fake_scenario scenario;
    return fake_scenario_parse(getenv("SPARGE_FAKE"), &scenario, NULL) == SPARGE_OK ? (int)scenario.devices : 1;
}

static sparge_status fake_open(sparge_context *context)
{
    fake_state *state = calloc(1, sizeof *state);
    if (!state)
        return sparge_context_fail(context, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for a context");
    sparge_status status = fake_scenario_parse(getenv("SPARGE_FAKE"), &state->scenario, &context->error);
    if (status == SPARGE_OK) {
        state->random = state->scenario.seed;
        state->inner.backend = &sparge_backend_cpu;
        state->inner.threads = context->threads;
        status = sparge_backend_cpu.open(&state->inner);
        if (status != SPARGE_OK)
            context->error = state->inner.error;
    }
    if (status != SPARGE_OK) {
        free(state);
        return status;
    }
    context->state = state;
    return SPARGE_OK;
}

static void fake_close(sparge_context *context)
{
    sparge_backend_cpu.close(&state_of(context)->inner);
    free(context->state);
}

static sparge_status fake_info(sparge_context *context, sparge_device_info *info)
{
    sparge_status status = forward(context, sparge_backend_cpu.info(&state_of(context)->inner, info));
    snprintf(info->backend, sizeof info->backend, "fake");
    snprintf(info->name, sizeof info->name, "fake device");
    snprintf(info->uuid, sizeof info->uuid, "FAKE-%d", context->device);
    snprintf(info->driver, sizeof info->driver, "scripted");
    snprintf(info->runtime, sizeof info->runtime, "none");
    if (state_of(context)->scenario.memory_bytes > 0)
        info->memory_bytes = (uint64_t)state_of(context)->scenario.memory_bytes;
    return status;
}

/* What the scenario's limit leaves: blocks of fake_alloc and the plans' workspaces are counted. */
static sparge_status fake_memory(sparge_context *context, uint64_t *free_bytes, uint64_t *total_bytes)
{
    const fake_state *state = state_of(context);
    if (state->scenario.memory_bytes == 0)
        return SPARGE_OK;
    *total_bytes = (uint64_t)state->scenario.memory_bytes;
    *free_bytes = *total_bytes - (uint64_t)state->allocated_bytes;
    return SPARGE_OK;
}

/* Does the device tell anything? */
static sparge_status tells(sparge_context *context)
{
    return state_of(context)->scenario.telemetry
               ? SPARGE_OK
               : sparge_context_fail(context, SPARGE_ERROR_UNSUPPORTED, "device %d: SPARGE_FAKE says telemetry=0",
                                     context->device);
}

static sparge_status fake_telemetry(sparge_context *context, sparge_telemetry *telemetry)
{
    const fake_state *state = state_of(context);
    if (tells(context) != SPARGE_OK)
        return SPARGE_ERROR_UNSUPPORTED;
    *telemetry = (sparge_telemetry){.sm_clock_mhz = 1000,
                                    .memory_clock_mhz = 2000,
                                    .temperature_c = 50,
                                    .power_mw = 100000,
                                    .power_limit_mw = 200000,
                                    .energy_mj = state->now_ns / 10000};
    if (state->scenario.capped)
        telemetry->slowed_ns[SPARGE_SLOWDOWN_POWER_CAP] = state->now_ns;
    return SPARGE_OK;
}

static sparge_status fake_device_state(sparge_context *context, sparge_device_state *device)
{
    if (tells(context) != SPARGE_OK)
        return SPARGE_ERROR_UNSUPPORTED;
    *device = (sparge_device_state){.ecc = 1,
                                    .persistence = 0,
                                    .mig = 0,
                                    .max_sm_clock_mhz = 1500,
                                    .processes = state_of(context)->scenario.shared ? 2 : 1,
                                    .vbios = "fake",
                                    .pci = "00000000:01:00.0"};
    return SPARGE_OK;
}

static int fits(const fake_state *state, size_t bytes)
{
    const int64_t limit = state->scenario.memory_bytes;
    return limit == 0 || bytes <= (uint64_t)(limit - state->allocated_bytes);
}

/* The size of a block is kept in front of it, to know what freeing gives back. */
enum { HEADER_BYTES = 256 };

static sparge_status fake_alloc(sparge_context *context, size_t bytes, void **memory)
{
    fake_state *state = state_of(context);
    if (bytes > INT64_MAX - HEADER_BYTES || !fits(state, bytes))
        return sparge_context_fail(context, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory: %zu bytes", bytes);
    void *block;
    sparge_status status = forward(context, sparge_backend_cpu.alloc(&state->inner, bytes + HEADER_BYTES, &block));
    if (status != SPARGE_OK)
        return status;
    memcpy(block, &bytes, sizeof bytes);
    state->allocated_bytes += (int64_t)bytes;
    *memory = (char *)block + HEADER_BYTES;
    return SPARGE_OK;
}

static void fake_free(sparge_context *context, void *memory)
{
    fake_state *state = state_of(context);
    char *block = (char *)memory - HEADER_BYTES;
    size_t bytes;
    memcpy(&bytes, block, sizeof bytes);
    state->allocated_bytes -= (int64_t)bytes;
    sparge_backend_cpu.free(&state->inner, block);
}

static sparge_status fake_upload(sparge_context *context, void *memory, const void *host, size_t bytes)
{
    return forward(context, sparge_backend_cpu.upload(&state_of(context)->inner, memory, host, bytes));
}

static sparge_status fake_download(sparge_context *context, void *host, const void *memory, size_t bytes)
{
    return forward(context, sparge_backend_cpu.download(&state_of(context)->inner, host, memory, bytes));
}

static sparge_status fake_fill(sparge_context *context, void *memory, int byte, size_t bytes)
{
    return forward(context, sparge_backend_cpu.fill(&state_of(context)->inner, memory, byte, bytes));
}

static sparge_status fake_generate(sparge_context *context, const sparge_generator *generator, sparge_tensor_role role,
                                   const sparge_tensor *tensor)
{
    return forward(context, sparge_backend_cpu.generate(&state_of(context)->inner, generator, role, tensor));
}

static sparge_status fake_permute(sparge_context *context, const sparge_tensor *from, const sparge_tensor *to,
                                  const int64_t *source)
{
    return forward(context, sparge_backend_cpu.permute(&state_of(context)->inner, from, to, source));
}

static sparge_status fake_synchronize(sparge_context *context)
{
    (void)context;
    return SPARGE_OK;
}

static sparge_status fake_event_create(sparge_event *event)
{
    (void)event;
    return SPARGE_OK;
}

static void fake_event_destroy(sparge_event *event)
{
    (void)event;
}

static sparge_status fake_event_record(sparge_event *event)
{
    event->ns = state_of(event->context)->now_ns;
    return SPARGE_OK;
}

static sparge_status fake_event_elapsed(const sparge_event *begin, const sparge_event *end, int64_t *ns)
{
    fake_state *state = state_of(begin->context);
    state->elapsed_calls++;
    if (state->scenario.lost > 0 && state->elapsed_calls % state->scenario.lost == 0)
        return sparge_context_fail(begin->context, SPARGE_ERROR_DEVICE, "the record of an event was lost (scripted)");
    *ns = end->ns - begin->ns;
    if (state->scenario.zero > 0 && state->elapsed_calls % state->scenario.zero == 0)
        *ns = 0;
    return SPARGE_OK;
}

static sparge_status fake_exact(sparge_context *context, const sparge_problem *problem, const sparge_tensor *q,
                                const sparge_tensor *k, const sparge_tensor *v, const int64_t *rows, int64_t n_rows,
                                double *o, double *lse)
{
    return forward(context,
                   sparge_backend_cpu.exact(&state_of(context)->inner, problem, q, k, v, rows, n_rows, o, lse));
}

static sparge_status fake_plan_create(sparge_plan *plan)
{
    sparge_plan *inner = calloc(1, sizeof *inner);
    if (!inner)
        return sparge_context_fail(plan->context, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for a plan");
    *inner = *plan; /* the recipe's arrays stay ours and outlive the inner plan */
    inner->context = &state_of(plan->context)->inner;
    sparge_status status = forward(plan->context, sparge_backend_cpu.plan_create(inner));
    if (status != SPARGE_OK) {
        free(inner);
        return status;
    }
    plan->workspace_bytes = inner->workspace_bytes;
    if (!plan->sizing && !fits(state_of(plan->context), plan->workspace_bytes)) {
        sparge_backend_cpu.plan_destroy(inner);
        free(inner);
        return sparge_context_fail(plan->context, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for the plan: %zu bytes",
                                   plan->workspace_bytes);
    }
    if (!plan->sizing)
        state_of(plan->context)->allocated_bytes += (int64_t)plan->workspace_bytes;
    plan->state = inner;
    return SPARGE_OK;
}

static void fake_plan_destroy(sparge_plan *plan)
{
    if (!plan->sizing)
        state_of(plan->context)->allocated_bytes -= (int64_t)plan->workspace_bytes;
    sparge_backend_cpu.plan_destroy(plan->state);
    free(plan->state);
}

static const fake_rule *find_rule(const sparge_plan *plan, fake_rule_kind kind)
{
    const fake_scenario *scenario = &state_of(plan->context)->scenario;
    for (int i = 0; i < scenario->rules; i++)
        if (scenario->rule[i].kind == kind && strcmp(scenario->rule[i].method, plan->recipe.method->name) == 0)
            return &scenario->rule[i];
    return NULL;
}

/* The factor of this launch that the scenario's clock, noise and spikes give. */
static double launch_factor(fake_state *state)
{
    const fake_scenario *scenario = &state->scenario;
    double factor = 1 + scenario->drift * (double)state->launches;
    if (scenario->step_launch >= 0 && state->launches >= scenario->step_launch)
        factor *= scenario->step_factor;
    factor *= 1 + scenario->noise * random_normal(state);
    if (random_uniform(state) < scenario->spike)
        factor *= 5;
    return factor > 0.01 ? factor : 0.01;
}

/* Virtual time of the stages run, from the work that the inner plan really did. */
static void advance_clock(sparge_plan *plan, int stages)
{
    static const int weight[3] = {1, 1, 8}; /* prepare, select, attend */
    fake_state *state = state_of(plan->context);
    sparge_stats stats = {0};
    double density = 1;
    if (sparge_backend_cpu.plan_stats(plan->state, &stats) == SPARGE_OK && stats.visible > 0)
        density = (double)stats.qk / (double)stats.visible;
    int all = sparge_plan_stages(plan);
    double total = 0, run = 0;
    for (int i = 0; i < 3; i++) {
        total += all >> i & 1 ? weight[i] : 0;
        run += stages >> i & 1 ? weight[i] : 0;
    }
    double ns = (5000 + sparge_problem_dense_ops(&plan->problem) * density * 1e-3) * run / total;
    const fake_rule *slow = find_rule(plan, FAKE_SLOW);
    ns *= launch_factor(state) * (slow ? slow->factor : 1);
    state->now_ns += (int64_t)(ns < 1 ? 1 : ns);
    if (stages & SPARGE_STAGE_ATTEND)
        state->launches++;
}

static void poison_output(const sparge_io *io)
{
    uint16_t not_a_number = 0x7fff; /* in f16 and in bf16 */
    memcpy(io->o.data, &not_a_number, sizeof not_a_number);
}

static sparge_status fake_plan_run(sparge_plan *plan, int stages, const sparge_io *io)
{
    fake_state *state = state_of(plan->context);
    if (find_rule(plan, FAKE_FAIL))
        return sparge_context_fail(plan->context, SPARGE_ERROR_DEVICE, "launch failed (scripted)");
    sparge_status status = forward(plan->context, sparge_backend_cpu.plan_run(plan->state, stages, io));
    if (status != SPARGE_OK)
        return status;
    advance_clock(plan, stages);
    if ((stages & SPARGE_STAGE_ATTEND) && find_rule(plan, FAKE_POISON))
        poison_output(io);
    if (state->scenario.sleep_ms > 0) {
        double seconds = floor(state->scenario.sleep_ms / 1000);
        struct timespec pause = {.tv_sec = (time_t)seconds,
                                 .tv_nsec = (long)((state->scenario.sleep_ms - seconds * 1000) * 1e6)};
        nanosleep(&pause, NULL); /* a signal cuts it short, which is what an interrupted launch wants */
    }
    return SPARGE_OK;
}

static sparge_status fake_plan_stats(sparge_plan *plan, sparge_stats *stats)
{
    return forward(plan->context, sparge_backend_cpu.plan_stats(plan->state, stats));
}

static sparge_status fake_plan_block_mask(sparge_plan *plan, sparge_block_mask *mask)
{
    return forward(plan->context, sparge_backend_cpu.plan_block_mask(plan->state, mask));
}

static sparge_status fake_plan_pairs(sparge_plan *plan, int32_t batch, int32_t head, uint8_t *kept)
{
    return forward(plan->context, sparge_backend_cpu.plan_pairs(plan->state, batch, head, kept));
}

static sparge_status fake_plan_similarity(sparge_plan *plan, double *sim_q, double *sim_k)
{
    return forward(plan->context, sparge_backend_cpu.plan_similarity(plan->state, sim_q, sim_k));
}

const sparge_backend sparge_backend_fake = {
    .name = "fake",
    .summary = "the CPU's numbers under a scripted clock, for tests",
    .hidden = 1,
    .device_count = fake_device_count,
    .open = fake_open,
    .close = fake_close,
    .info = fake_info,
    .memory = fake_memory,
    .telemetry = fake_telemetry,
    .state = fake_device_state,
    .alloc = fake_alloc,
    .free = fake_free,
    .upload = fake_upload,
    .download = fake_download,
    .fill = fake_fill,
    .generate = fake_generate,
    .permute = fake_permute,
    .synchronize = fake_synchronize,
    .event_create = fake_event_create,
    .event_destroy = fake_event_destroy,
    .event_record = fake_event_record,
    .event_elapsed = fake_event_elapsed,
    .exact = fake_exact,
    .plan_create = fake_plan_create,
    .plan_destroy = fake_plan_destroy,
    .plan_run = fake_plan_run,
    .plan_stats = fake_plan_stats,
    .plan_block_mask = fake_plan_block_mask,
    .plan_pairs = fake_plan_pairs,
    .plan_similarity = fake_plan_similarity,
};
