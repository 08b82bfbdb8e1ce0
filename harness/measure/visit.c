/* Timing: events are recorded around the launches, then read in order. */
#include "measure/visit.h"

#include "measure/nvtx.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { STAGES = 3 };

/* What one pair of events surrounds. */
typedef struct span {
    int stages; /* SPARGE_STAGE_* */
    rs_stage name;
} span;

static int spans_of(const sparge_plan *plan, sb_visit_kind kind, span out[STAGES])
{
    static const span stage[STAGES] = {
        {SPARGE_STAGE_PREPARE, RS_PREPARE}, {SPARGE_STAGE_SELECT, RS_SELECT}, {SPARGE_STAGE_ATTEND, RS_ATTEND}};
    int count = 0;
    if (kind == SB_VISIT_TOTAL) {
        out[count++] = (span){SPARGE_STAGE_ALL, RS_TOTAL};
        return count;
    }
    for (int i = 0; i < STAGES; i++)
        if (sparge_plan_stages(plan) & stage[i].stages)
            out[count++] = stage[i];
    return count;
}

static sparge_status reserve_events(sb_timer *timer, size_t count)
{
    if (count <= timer->count)
        return SPARGE_OK;
    sparge_event **event = realloc(timer->event, count * sizeof *event);
    if (!event)
        return SPARGE_ERROR_OUT_OF_MEMORY;
    timer->event = event;
    while (timer->count < count) {
        sparge_status status = sparge_event_create(timer->context, &event[timer->count]);
        if (status != SPARGE_OK)
            return status;
        timer->count++;
    }
    return SPARGE_OK;
}

void sb_timer_release(sb_timer *timer)
{
    for (size_t i = 0; i < timer->count; i++)
        sparge_event_destroy(timer->event[i]);
    free(timer->event);
    memset(timer, 0, sizeof *timer);
}

static sparge_status launch(sb_timer *timer, sparge_plan *plan, const sparge_io *io, const span *spans, int count,
                            size_t event)
{
    sparge_status status = SPARGE_OK;
    for (int i = 0; i < count && status == SPARGE_OK; i++, event += 2) {
        status = sparge_event_record(timer->event[event]);
        if (status == SPARGE_OK) {
            sb_nvtx_begin("%s", rs_stage_name(spans[i].name));
            status = sparge_plan_run(plan, spans[i].stages, io);
            sb_nvtx_end();
        }
        if (status == SPARGE_OK)
            status = sparge_event_record(timer->event[event + 1]);
    }
    return status;
}

/* A pair without a time is counted and leaves a gap: the other samples keep their launch numbers. */
static void read_samples(const sb_timer *timer, const span *spans, int count, sb_visit *visit)
{
    size_t event = 0;
    for (int32_t k = 0; k < visit->launches; k++) {
        for (int i = 0; i < count; i++, event += 2) {
            int64_t ns;
            if (sparge_event_elapsed_ns(timer->event[event], timer->event[event + 1], &ns) != SPARGE_OK || ns < 0) {
                visit->lost++;
                continue;
            }
            visit->zero += ns == 0;
            visit->sum_ns += ns;
            visit->sample[visit->sample_count++] = (rs_sample){.ns = ns, .launch = k, .stage = spans[i].name};
        }
    }
}

/* Queues up to `most` launches behind a hold, then lets them go. */
static sparge_status launch_held(sb_timer *timer, sparge_plan *plan, const sparge_io *io, size_t sets,
                                 const span *spans, int count, int32_t most, int (*stop)(void), sb_visit *visit)
{
    int32_t end = visit->launches + most;
    sparge_status status = sparge_hold(timer->context);
    while (status == SPARGE_OK && visit->launches < end) {
        if (stop()) {
            visit->interrupted = 1;
            break;
        }
        size_t event = 2 * (size_t)visit->launches * (size_t)count;
        status = launch(timer, plan, &io[(size_t)visit->launches % sets], spans, count, event);
        visit->launches += status == SPARGE_OK;
    }
    sparge_status released = sparge_release(timer->context); /* also after a failure: what is queued must end */
    return status == SPARGE_OK ? released : status;
}

/* All -1 if the device tells nothing, or is not asked. */
static sparge_telemetry read_telemetry(sb_timer *timer)
{
    sparge_telemetry now;
    memset(&now, 0xff, sizeof now); /* all -1 */
    if (timer->asks && sparge_device_get_telemetry(timer->context, &now) != SPARGE_OK)
        timer->asks = 0;
    return now;
}

/* Of counters; -1 if either is not known, or if it began anew. */
static int64_t counted(int64_t before, int64_t after)
{
    return before >= 0 && after >= before ? after - before : -1;
}

static void add_telemetry(const sparge_telemetry *before, const sparge_telemetry *after, sb_visit *visit)
{
    visit->energy_mj = counted(before->energy_mj, after->energy_mj);
    for (int i = 0; i < SPARGE_SLOWDOWNS; i++)
        visit->slowed_ns[i] = counted(before->slowed_ns[i], after->slowed_ns[i]);
}

sparge_status sb_visit_run(sb_timer *timer, sparge_plan *plan, const sparge_io *io, size_t sets, sb_visit_kind kind,
                           int32_t launches, int (*stop)(void), sb_visit *visit)
{
    span spans[STAGES];
    int count = spans_of(plan, kind, spans);
    memset(visit, 0, sizeof *visit);
    visit->kind = kind;
    size_t samples = (size_t)launches * (size_t)count;
    visit->sample = calloc(samples, sizeof *visit->sample);
    if (!visit->sample)
        return SPARGE_ERROR_OUT_OF_MEMORY;
    sb_nvtx_begin("visit %s", kind == SB_VISIT_TOTAL ? "total" : "stages");
    const sparge_telemetry before = read_telemetry(timer); /* first: it may leave an error's text of its own */
    sparge_status status = reserve_events(timer, 2 * samples);
    int32_t held = SPARGE_HOLD_RUNS / count;
    while (status == SPARGE_OK && visit->launches < launches && !visit->interrupted) {
        int32_t left = launches - visit->launches;
        status = launch_held(timer, plan, io, sets, spans, count, left < held ? left : held, stop, visit);
    }
    visit->during = read_telemetry(timer); /* all launches are queued, and the last ones run */
    sparge_status waited = sparge_synchronize(timer->context);
    if (status == SPARGE_OK)
        status = waited;
    const sparge_telemetry after = read_telemetry(timer);
    add_telemetry(&before, &after, visit);
    if (status == SPARGE_OK)
        read_samples(timer, spans, count, visit);
    else
        sb_visit_release(visit);
    sb_nvtx_end();
    return status;
}

void sb_visit_release(sb_visit *visit)
{
    free(visit->sample);
    visit->sample = NULL;
    visit->sample_count = 0;
}
