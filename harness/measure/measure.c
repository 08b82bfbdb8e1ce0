/* The course of a measurement. Every way to end fills the result through end(). */
#include "measure/measure.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "measure/need.h"
#include "measure/nvtx.h"

/* What one call of sb_session_measure works with. */
typedef struct course {
    sb_session *session;
    const sb_point *point;
    const sparge_problem *problem;
    sb_result *result;
    sb_need need;
    sparge_plan *plan;
    sparge_io io[SB_MAX_INPUT_SETS]; /* one for each set of inputs, all with the same output */
    int32_t visits;                  /* that stand */
    int64_t sum_ns;                  /* of their samples */
    int64_t lost, zero;
    int stopped;
} course;

int64_t sb_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static rs_facts unknown_facts(void)
{
    return (rs_facts){
        .sparsity = NAN,
        .sparsity_mg = NAN,
        .sparsity_pv = NAN,
        .pv_unit = -1,
        .block_q = -1,
        .block_k = -1,
        .units_visible = -1,
        .units_qk = -1,
        .units_pv_skipped = NAN,
        .dense_ops = NAN,
        .executed_ops = NAN,
        .workspace_bytes = -1,
        .sim_q = NAN,
        .sim_k = NAN,
        .error_rows = -1,
        .error_all_rows = -1,
        .rel_l1 = NAN,
        .rel_l2 = NAN,
        .cosine = NAN,
        .rmse = NAN,
        .max_abs = NAN,
        .nonfinite = -1,
    };
}

sparge_status sb_session_open(sparge_context *context, const sb_measure_options *options, sb_session *session)
{
    memset(session, 0, sizeof *session);
    session->context = context;
    session->options = *options;
    session->timer.context = context;
    session->started_ns = sb_clock_ns();
    sb_nvtx_begin("run");
    sparge_status status = sparge_device_get_info(context, &session->device);
    session->options.schedule.is_device = strcmp(session->device.backend, "cuda") == 0;
    return status;
}

static void drop_inputs(sb_session *session)
{
    while (session->input_sets > 0)
        sb_inputs_release(session->context, &session->inputs[--session->input_sets]);
    if (session->has_reference)
        sb_reference_release(&session->reference);
    session->has_reference = 0;
}

void sb_session_close(sb_session *session)
{
    drop_inputs(session);
    sb_timer_release(&session->timer);
    sb_nvtx_end();
}

/* Sets the outcome; returns -1 so that ending is one statement. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static int
end(course *c, rs_outcome outcome, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(c->result->reason, sizeof c->result->reason, format, list);
    va_end(list);
    c->result->outcome = outcome;
    return -1;
}

static int end_with_status(course *c, sparge_status status, const char *text)
{
    rs_outcome outcome = status == SPARGE_ERROR_UNSUPPORTED ? RS_SKIPPED : RS_FAILED;
    return end(c, outcome, "%s", text && text[0] ? text : sparge_status_name(status));
}

static int end_with_context(course *c, sparge_status status)
{
    return end_with_status(c, status, sparge_error_string(c->session->context));
}

/* Refuses what would not fit before anything is taken for it. */
static int check_memory(course *c)
{
    sb_memory memory;
    sparge_error error = {0};
    char reason[SB_REASON_TEXT];
    sparge_status status = sb_need_of(c->session, c->point, &c->need, &error);
    if (status == SPARGE_OK)
        status = sb_need_memory(c->session, &memory, &error);
    if (status != SPARGE_OK)
        return end_with_status(c, status, error.text);
    if (sb_need_fits(c->session, &c->need, &memory, reason, sizeof reason))
        return 0;
    return end(c, RS_SKIPPED, "%s", reason);
}

static int provide_inputs(course *c)
{
    sb_session *s = c->session;
    if (s->input_sets > 0 && s->workload_index == c->point->workload_index)
        return 0;
    drop_inputs(s);
    s->workload_index = c->point->workload_index;
    while (s->input_sets < c->need.sets) {
        sparge_error error = {0};
        sparge_status status = sb_inputs_create(s->context, &c->point->workload, &s->inputs[s->input_sets], &error);
        if (status != SPARGE_OK)
            return end_with_status(c, status, error.text);
        s->input_sets++;
    }
    return 0;
}

static int provide_plan(course *c)
{
    sb_session *s = c->session;
    sparge_tensor *o = &c->io[0].o;
    *o = sparge_tensor_hnd(NULL, c->problem->dtype, c->problem->batch, c->problem->heads_q, c->problem->seqlen_q,
                           c->problem->head_dim);
    sparge_status status = sparge_plan_create(s->context, c->point->params, c->problem, &c->plan);
    if (status != SPARGE_OK)
        return end_with_context(c, status);
    status = sparge_alloc(s->context, (size_t)c->need.output, &o->data);
    if (status != SPARGE_OK)
        return end_with_context(c, status);
    for (size_t i = 0; i < s->input_sets; i++)
        c->io[i] = (sparge_io){.q = s->inputs[i].q, .k = s->inputs[i].k, .v = s->inputs[i].v, .o = *o};
    status = sparge_fill(s->context, o->data, 0xff, (size_t)c->need.output);
    return status == SPARGE_OK ? 0 : end_with_context(c, status);
}

/* *launch_ns: the time of the last warm-up launch. */
static int warm_up(course *c, int64_t *launch_ns)
{
    sb_session *s = c->session;
    int64_t sum_ns = 0;
    s->timer.asks = 0; /* between single launches it would let the device cool down */
    for (int32_t launches = 0; sb_schedule_warms(&s->options.schedule, launches, sum_ns); launches++) {
        sb_visit visit;
        int64_t before_ns = sb_clock_ns();
        sparge_status status = sb_visit_run(&s->timer, c->plan, c->io, 1, SB_VISIT_TOTAL, 1, s->options.stop, &visit);
        if (status != SPARGE_OK)
            return end_with_context(c, status);
        int64_t wall_ns = sb_clock_ns() - before_ns;
        *launch_ns = visit.sum_ns > 0 ? visit.sum_ns : wall_ns; /* of a timer that lost the record */
        sum_ns += *launch_ns;
        c->stopped = visit.interrupted;
        sb_visit_release(&visit);
        if (c->stopped)
            return end(c, RS_PARTIAL, "interrupted");
    }
    /* Warm-up must not have written what the timed launches are checked for. */
    sparge_status status = sparge_fill(s->context, c->io[0].o.data, 0xff, (size_t)c->need.output);
    return status == SPARGE_OK ? 0 : end_with_context(c, status);
}

static const char *timer_name(const sb_session *session)
{
    if (strcmp(session->device.backend, "cuda") == 0)
        return "cuda-event";
    return strcmp(session->device.backend, "fake") == 0 ? "fake" : "monotonic-raw";
}

/* "partial,lost,power-capped": what is worth knowing about a visit, as the store keeps it. */
static void flags_text(const sb_visit *visit, int resumed, char *text, size_t size)
{
    const int64_t *slowed = visit->slowed_ns;
    const int hot = slowed[SPARGE_SLOWDOWN_SOFTWARE_THERMAL] > 0 || slowed[SPARGE_SLOWDOWN_HARDWARE_THERMAL] > 0;
    const char *const words[] = {resumed ? "resumed" : "",
                                 visit->interrupted ? "partial" : "",
                                 visit->lost > 0 ? "lost" : "",
                                 slowed[SPARGE_SLOWDOWN_POWER_CAP] > 0 ? "power-capped" : "",
                                 hot ? "hot" : "",
                                 slowed[SPARGE_SLOWDOWN_POWER_BRAKE] > 0 ? "power-braked" : ""};
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i][0] != '\0')
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? "," : "", words[i]);
}

static double known(int64_t value)
{
    return value >= 0 ? (double)value : NAN;
}

static int record_visit(course *c, const sb_visit *visit, int resumed, int64_t started_ns, sb_visit_fn fn, void *user)
{
    char flags[64];
    flags_text(visit, resumed, flags, sizeof flags);
    rs_visit row = {
        .position = c->visits,
        .kind = visit->kind == SB_VISIT_TOTAL ? "total" : "stages",
        .timer = timer_name(c->session),
        .started_ns = started_ns - c->session->started_ns,
        .launches = visit->launches,
        .clock_mhz = known(visit->during.sm_clock_mhz),
        .memory_clock_mhz = known(visit->during.memory_clock_mhz),
        .power_mw = known(visit->during.power_mw),
        .temperature_c = known(visit->during.temperature_c),
        .energy_mj = visit->energy_mj,
        .power_capped_ns = visit->slowed_ns[SPARGE_SLOWDOWN_POWER_CAP],
        .software_thermal_ns = visit->slowed_ns[SPARGE_SLOWDOWN_SOFTWARE_THERMAL],
        .hardware_thermal_ns = visit->slowed_ns[SPARGE_SLOWDOWN_HARDWARE_THERMAL],
        .power_braked_ns = visit->slowed_ns[SPARGE_SLOWDOWN_POWER_BRAKE],
        .flags = flags,
        .samples = visit->sample,
        .sample_count = visit->sample_count,
    };
    return fn(user, &row);
}

/* *code: what fn returned. */
static int run_visits(course *c, int32_t launches, sb_visit_fn fn, void *user, int *code)
{
    sb_session *s = c->session;
    const sb_schedule *schedule = &s->options.schedule;
    int32_t earlier = c->visits;
    int64_t begun_ns = sb_clock_ns();
    s->timer.asks = 1;
    while (sb_schedule_continues(schedule, c->visits, c->sum_ns)) {
        int64_t now_ns = sb_clock_ns();
        if (now_ns - begun_ns >= schedule->max_time_ns)
            break;
        sb_visit visit;
        sb_visit_kind kind = c->visits % 2 == 0 ? SB_VISIT_TOTAL : SB_VISIT_STAGES;
        sparge_status status =
            sb_visit_run(&s->timer, c->plan, c->io, s->input_sets, kind, launches, s->options.stop, &visit);
        if (status != SPARGE_OK)
            return end_with_context(c, status);
        c->stopped = visit.interrupted;
        if (visit.launches > 0) {
            int resumed = earlier > 0 && c->visits == earlier;
            *code = record_visit(c, &visit, resumed, now_ns, fn, user);
            c->visits++;
            c->sum_ns += visit.sum_ns;
            c->lost += (int64_t)visit.lost;
            c->zero += (int64_t)visit.zero;
        }
        sb_visit_release(&visit);
        if (*code != 0)
            return end(c, RS_PARTIAL, "the results could not be written");
        if (c->stopped)
            return end(c, RS_PARTIAL, "interrupted");
    }
    if (c->visits > earlier)
        return 0;
    /* Nothing was left to time; the output is still to be made. */
    sparge_status status = sparge_plan_run(c->plan, SPARGE_STAGE_ALL, &c->io[0]);
    return status == SPARGE_OK ? 0 : end_with_context(c, status);
}

static int gather_facts(course *c)
{
    rs_facts *facts = &c->result->facts;
    sparge_stats stats;
    sparge_status status = sparge_plan_get_stats(c->plan, &stats);
    if (status != SPARGE_OK)
        return end_with_context(c, status);
    facts->sparsity = stats.sparsity;
    facts->sparsity_mg = stats.sparsity_mg;
    facts->sparsity_pv = stats.sparsity_pv;
    facts->sparsity_basis = stats.basis == SPARGE_BASIS_PAIR ? "pair" : "block";
    facts->pv_unit = stats.pv_unit;
    facts->block_q = stats.block_q;
    facts->block_k = stats.block_k;
    facts->units_visible = stats.visible;
    facts->units_qk = stats.qk;
    facts->units_pv_skipped = stats.pv_skipped;
    facts->dense_ops = sparge_problem_dense_ops(c->problem);
    facts->executed_ops = stats.executed_ops;
    size_t workspace = sparge_plan_workspace_bytes(c->plan);
    facts->workspace_bytes = workspace > INT64_MAX ? -1 : (int64_t)workspace;
    c->result->has_facts = 1;
    double sim_q, sim_k;
    if (sparge_plan_get_similarity(c->plan, &sim_q, &sim_k) == SPARGE_OK) { /* most methods have none */
        facts->sim_q = sim_q;
        facts->sim_k = sim_k;
    }
    return 0;
}

static int provide_reference(course *c)
{
    sb_session *s = c->session;
    if (s->options.error_rows == 0 || s->has_reference)
        return 0;
    sparge_error error = {0};
    sparge_status status =
        sb_reference_create(s->context, c->problem, &s->inputs[0], s->options.error_rows, c->point->request.seed,
                            s->options.stop, &s->reference, &c->stopped, &error);
    if (status != SPARGE_OK)
        return end_with_status(c, status, error.text);
    if (c->stopped)
        return end(c, RS_PARTIAL, "interrupted");
    s->has_reference = 1;
    return 0;
}

static int check_output(course *c)
{
    sb_session *s = c->session;
    rs_facts *facts = &c->result->facts;
    const sb_reference *reference = s->options.error_rows != 0 ? &s->reference : NULL;
    sb_error_sums sums = {0};
    sparge_error error = {0};
    sparge_status status = sb_reference_compare(s->context, &c->io[0].o, reference, &facts->nonfinite, &sums, &error);
    if (status != SPARGE_OK)
        return end_with_status(c, status, error.text);
    facts->error_rows = reference ? reference->rows : 0;
    facts->error_all_rows = reference && reference->all;
    if (reference) {
        sb_errors errors = sb_errors_of(&sums);
        facts->rel_l1 = errors.rel_l1;
        facts->rel_l2 = errors.rel_l2;
        facts->cosine = errors.cosine;
        facts->rmse = errors.rmse;
        facts->max_abs = errors.max_abs;
    }
    if (facts->nonfinite > 0)
        return end(c, RS_FAILED, "output: %lld values are NaN or infinite, or were never written",
                   (long long)facts->nonfinite);
    return 0;
}

static int judge_times(course *c)
{
    int32_t needed = sb_schedule_needed(&c->session->options.schedule);
    if (c->lost > 0)
        return end(c, RS_UNMEASURED, "the timer lost %lld records", (long long)c->lost);
    if (c->zero > 0)
        return end(c, RS_UNMEASURED, "the timer gave 0 ns for %lld launches or stages", (long long)c->zero);
    if (c->visits < needed)
        return end(c, RS_UNMEASURED, "the time cap of %.3g s (--max-time) ended the point after %d of %d visits",
                   (double)c->session->options.schedule.max_time_ns / 1e9, c->visits, needed);
    c->result->outcome = RS_DONE;
    return 0;
}

int sb_session_measure(sb_session *session, const sb_point *point, const sb_earlier *earlier, sb_visit_fn fn,
                       void *user, sb_result *result)
{
    memset(result, 0, sizeof *result);
    result->facts = unknown_facts();
    course c = {
        .session = session,
        .point = point,
        .problem = &point->workload.problem,
        .result = result,
        .visits = earlier->visits,
        .sum_ns = earlier->sum_ns,
        .zero = earlier->zero,
    };
    int code = 0;
    int64_t launch_ns = 0;
    sparge_error error = {0};
    char label[192];
    sb_point_label(point, label, sizeof label);
    sb_nvtx_begin("point %s, %lld x %lld tokens", label, (long long)c.problem->seqlen_q,
                  (long long)c.problem->seqlen_k);
    /* What the method cannot do, parameters that --method all left incomplete included, is known before memory is. */
    sparge_status status = sparge_params_check(point->params, c.problem, &error);
    if (status != SPARGE_OK)
        end(&c, RS_SKIPPED, "%s", error.text);
    else if (check_memory(&c) == 0 && provide_inputs(&c) == 0 && provide_plan(&c) == 0 &&
             warm_up(&c, &launch_ns) == 0 &&
             run_visits(&c, sb_schedule_launches(&session->options.schedule, launch_ns), fn, user, &code) == 0 &&
             gather_facts(&c) == 0 && provide_reference(&c) == 0 && check_output(&c) == 0)
        judge_times(&c);
    sparge_plan_destroy(c.plan);
    sparge_free(session->context, c.io[0].o.data);
    sb_nvtx_end();
    return code;
}
