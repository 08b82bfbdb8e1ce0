/* sweep: measures every point that the options name and that the results file does not hold yet.
 *
 * The file is the state of the sweep: what it says about a point decides whether the point is passed over, continued or
 * begun, so the command that died is resumed by giving it again. A point that fails is recorded and the sweep goes on;
 * a file that cannot be written ends it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/database.h"
#include "cli/device_options.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "command/dry_run.h"
#include "command/sweep_options.h"
#include "measure/predict.h"
#include "measure/provenance.h"
#include "plan/ledger.h"
#include "plan/record.h"

/* How the points of this sweep stand. */
typedef struct tally {
    size_t outcome[RS_UNMEASURED + 1]; /* of points measured now */
    size_t earlier[RS_UNMEASURED + 1]; /* of points that the file held already */
    size_t other_build;                /* of the latter, measured by another build */
    size_t elsewhere;                  /* being measured by another sweep right now */
} tally;

typedef struct sweep {
    const sb_arguments *arguments;
    sb_sweep_options options;
    sb_points points;
    sb_devices devices;
    sparge_context **context; /* of each device */
    sb_provenance provenance;
    rs_store *store;
    sb_run_lock lock;
    int64_t first_run_id; /* of this command; 0: none has begun */
    sb_ledger ledger;
    sb_progress progress;
    int64_t *measurement_id; /* of each point on each device; 0: none */
    tally tally;
    an_table *summary; /* what stdout gets at the end */
    sb_dry_run dry;

    /* Of the device whose turn it is. */
    int turn; /* from 0 */
    sb_session session;
    sparge_device_info device; /* the session's, named as results name it */
    int64_t run_id;            /* 0: not begun */
    sb_prediction *prediction; /* of each point; NULL where nothing is drawn */
    int64_t current_id;        /* the measurement that visits are added to */
} sweep;

static int fail_store(const rs_error *error)
{
    return sb_fail(SB_EXIT_ENVIRONMENT, "%s", error->text);
}

/* A note on stderr, without disturbing the progress line. */
static void say(sweep *s, const sb_point *point, const char *what, const char *reason)
{
    char label[512];
    sb_progress_clear(&s->progress);
    sb_point_label(point, label, sizeof label);
    fprintf(stderr, "sparge-bench: %s on %s, %lld tokens: %s: %s\n", label, point->workload.name,
            (long long)point->workload.problem.seqlen_q, what, reason);
}

static int add_visit(void *user, const rs_visit *visit)
{
    sweep *s = user;
    rs_error error;
    if (rs_visit_add(s->store, s->current_id, visit, &error) == RS_OK)
        return 0;
    sb_progress_clear(&s->progress);
    return fail_store(&error);
}

/* The visits that an abandoned measurement has already. */
static int read_earlier(sweep *s, const char *key, int64_t measurement_id, sb_earlier *earlier)
{
    static const rs_stage stages[] = {RS_TOTAL, RS_PREPARE, RS_SELECT, RS_ATTEND};
    rs_error error;
    rs_outcome outcome;
    int64_t newest;
    int32_t visits;
    if (rs_point_state(s->store, key, &outcome, &newest, &visits, &error) != RS_OK)
        return fail_store(&error);
    if (newest == measurement_id)
        earlier->visits = visits;
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        int64_t *ns = NULL;
        int32_t *visit = NULL;
        size_t count;
        if (rs_samples(s->store, measurement_id, stages[i], &ns, &visit, &count, &error) != RS_OK)
            return fail_store(&error);
        for (size_t n = 0; n < count; n++) {
            earlier->sum_ns += ns[n];
            earlier->zero += ns[n] == 0;
            if (visit[n] >= earlier->visits)
                earlier->visits = visit[n] + 1;
        }
        free(ns);
        free(visit);
    }
    return SB_EXIT_OK;
}

static int load_ledger(sweep *s)
{
    rs_error error;
    sb_ledger_release(&s->ledger);
    if (sb_ledger_load(s->store, s->options.since, s->provenance.binary_sha256, &s->ledger, &error) != RS_OK)
        return fail_store(&error);
    return SB_EXIT_OK;
}

/* What the file says about the point now: another sweep may have written since the ledger was read. */
static int find_entry(sweep *s, const char *key, const sb_ledger_entry **entry)
{
    rs_error error;
    rs_outcome outcome;
    int64_t newest;
    int32_t visits;
    if (rs_point_state(s->store, key, &outcome, &newest, &visits, &error) != RS_OK)
        return fail_store(&error);
    const sb_ledger_entry *known = sb_ledger_find(&s->ledger, key);
    if (newest > s->ledger.newest || (known && newest == known->measurement_id && outcome != known->outcome)) {
        int code = load_ledger(s);
        if (code != SB_EXIT_OK)
            return code;
        known = sb_ledger_find(&s->ledger, key);
    }
    *entry = known;
    return SB_EXIT_OK;
}

/* What visits lack, and why; said on the terminal where it could be had. status: of asking the device for it. */
static void tell_of_telemetry(sweep *s, sparge_status status, char *text, size_t size)
{
    if (status == SPARGE_OK) {
        snprintf(text, size, "kernel records, counters");
        return;
    }
    const char *reason = sparge_error_string(s->session.context);
    snprintf(text, size, "clocks, power, energy, temperature, slowdowns (%s), kernel records, counters", reason);
    if (strcmp(s->session.device.backend, "cpu") == 0)
        return;
    sb_progress_clear(&s->progress);
    fprintf(stderr, "sparge-bench: sweep: clocks, power, energy and temperature are not recorded: %s\n", reason);
}

/* Begins the device's run, with the first point that has something to measure: a sweep that finds all points measured
 * leaves no run behind. */
static int begin_run(sweep *s)
{
    rs_error error;
    char lacking[320], note[512];
    sb_provenance_stamp(&s->provenance);
    rs_run run = sb_provenance_run(&s->provenance, &s->session.device);
    run.command = sb_command_line(s->arguments);
    run.seed = s->points.point[0].request.seed;
    double load[1] = {0};
    getloadavg(load, 1);
    const char *policy = getenv("OMP_WAIT_POLICY");
    tell_of_telemetry(s, sb_provenance_add_device(&s->provenance, s->session.context, &s->session.device, &run),
                      lacking, sizeof lacking);
    if (run.processes > 1) {
        sb_progress_clear(&s->progress);
        fprintf(stderr, "sparge-bench: sweep: %d processes compute on the device: times are of a shared one\n",
                run.processes);
    }
    snprintf(note, sizeof note,
             "not measured on this backend: %s; load average at the start: %.2f; OMP_WAIT_POLICY=%.100s", lacking,
             load[0], policy ? policy : "");
    if (load[0] > 0.5 && sb_progress_draws(stderr, s->options.quiet)) {
        sb_progress_clear(&s->progress);
        fprintf(stderr, "sparge-bench: sweep: the machine is busy (load average %.1f): times will be too long\n",
                load[0]);
    }
    run.note = note;
    if (rs_run_begin(s->store, &run, &s->run_id, &error) != RS_OK)
        return fail_store(&error);
    if (s->first_run_id == 0)
        s->first_run_id = s->run_id;
    if (sb_run_lock_take(&s->lock, s->run_id) != 0)
        return sb_fail(SB_EXIT_ENVIRONMENT, "%s: cannot lock the file for this run", s->options.database);
    return SB_EXIT_OK;
}

/* Takes up the abandoned measurement of `entry`, or begins a new one (entry NULL). */
static int begin_measurement(sweep *s, const sb_point *point, const sb_record *record, const sb_ledger_entry *entry,
                             sb_earlier *earlier)
{
    rs_error error;
    if (entry) {
        s->current_id = entry->measurement_id;
        if (entry->run_is_open && entry->run_id != s->run_id &&
            rs_run_abandon(s->store, entry->run_id, &error) != RS_OK)
            return fail_store(&error);
        return read_earlier(s, record->key, entry->measurement_id, earlier);
    }
    int64_t point_id;
    char *repro = sb_sweep_repro(s->arguments, point->repro, s->device.backend, s->devices.first + s->turn);
    if (!repro)
        return sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for a command");
    rs_status status = rs_point_intern(s->store, &record->point, &point_id, &error);
    if (status == RS_OK)
        status = rs_measurement_begin(s->store, s->run_id, point_id, repro, &s->current_id, &error);
    free(repro);
    return status == RS_OK ? SB_EXIT_OK : fail_store(&error);
}

static int measure_point(sweep *s, const sb_point *point, const sb_record *record, const sb_ledger_entry *entry)
{
    sb_earlier earlier = {0};
    sb_result result;
    rs_error error;
    int code = s->run_id != 0 ? SB_EXIT_OK : begin_run(s);
    if (code == SB_EXIT_OK)
        code = begin_measurement(s, point, record, entry, &earlier);
    if (code == SB_EXIT_OK)
        code = sb_session_measure(&s->session, point, &earlier, add_visit, s, &result);
    if (code != SB_EXIT_OK)
        return code;
    const char *reason = result.outcome == RS_DONE ? NULL : result.reason;
    if (rs_measurement_end(s->store, s->current_id, result.outcome, reason, result.has_facts ? &result.facts : NULL,
                           &error) != RS_OK)
        return fail_store(&error);
    s->tally.outcome[result.outcome]++;
    int is_error = result.outcome == RS_FAILED || result.outcome == RS_UNMEASURED;
    if (is_error || (result.outcome == RS_SKIPPED && !s->options.quiet))
        say(s, point, rs_outcome_name(result.outcome), result.reason);
    return SB_EXIT_OK;
}

/* *measured_ns: 0 if there was nothing to do. */
static int visit_point(sweep *s, size_t index, double *measured_ns)
{
    const sb_point *point = &s->points.point[index];
    int64_t *measurement_id = &s->measurement_id[(size_t)s->turn * s->points.count + index];
    const sb_ledger_entry *entry = NULL;
    sb_record record;
    rs_error error;
    *measured_ns = 0.0;
    if (sb_record_point(point, &s->device, &record, &error) != RS_OK)
        return fail_store(&error);
    int code = s->options.fresh && s->options.since == 0 ? SB_EXIT_OK : find_entry(s, record.key, &entry);
    if (code != SB_EXIT_OK)
        return code;
    if (entry && sb_outcome_is_finished(entry->outcome)) {
        *measurement_id = entry->measurement_id;
        s->tally.earlier[entry->outcome]++;
        s->tally.other_build += !entry->same_build;
        return SB_EXIT_OK;
    }
    if (entry && entry->run_id != s->run_id && sb_run_lock_is_held(&s->lock, entry->run_id)) {
        *measurement_id = entry->measurement_id;
        s->tally.elsewhere++;
        return SB_EXIT_OK;
    }
    if (entry && !entry->same_build)
        entry = NULL; /* half a measurement of another program is not continued by this one */
    int64_t begun_ns = sb_clock_ns();
    code = measure_point(s, point, &record, entry);
    *measurement_id = s->current_id;
    *measured_ns = (double)(sb_clock_ns() - begun_ns);
    return code;
}

static int visit_all(sweep *s)
{
    double predicted_ns = 0.0;
    for (size_t i = 0; s->prediction && i < s->points.count; i++)
        predicted_ns += s->prediction[i].ns;
    sb_progress_begin(&s->progress, stderr, s->options.quiet, s->points.count, predicted_ns);
    int code = SB_EXIT_OK;
    for (size_t i = 0; i < s->points.count && code == SB_EXIT_OK && !sb_interrupted(); i++) {
        char label[512], line[1024];
        double elapsed_ns;
        sb_point_label(&s->points.point[i], label, sizeof label);
        snprintf(line, sizeof line, "%s, %s, %lld tokens%s%s", label, s->points.point[i].workload.name,
                 (long long)s->points.point[i].workload.problem.seqlen_q, s->devices.count > 1 ? ", " : "",
                 s->devices.count > 1 ? s->device.name : "");
        sb_progress_point(&s->progress, line);
        code = visit_point(s, i, &elapsed_ns);
        sb_progress_done(&s->progress, s->prediction ? s->prediction[i].ns : 0.0, elapsed_ns);
    }
    sb_progress_clear(&s->progress);
    return code;
}

/* --- before and after --- */

/* rates: NULL if they are not known. */
static int predict(sweep *s, const sb_rates *rates)
{
    s->prediction = sb_predict_all(&s->points, &s->options.measure, rates);
    return s->prediction ? SB_EXIT_OK : sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for the predictions");
}

static int end_run(sweep *s, int code)
{
    rs_error error;
    if (s->run_id == 0)
        return code;
    const char *status = sb_interrupted() ? "partial" : code == SB_EXIT_OK ? "done" : "failed";
    if (rs_run_end(s->store, s->run_id, status, NULL, &error) != RS_OK && code == SB_EXIT_OK)
        return fail_store(&error);
    return code;
}

/* The rows of this sweep's points, in the order of the devices and the points. */
static int make_summary(sweep *s)
{
    an_rows rows, mine = {0};
    rs_error error;
    if (an_rows_load(s->store, 0, &rows, &error) != RS_OK)
        return fail_store(&error);
    const size_t count = (size_t)s->devices.count * s->points.count;
    mine.row = calloc(count, sizeof *mine.row);
    for (size_t i = 0; mine.row && i < count; i++)
        for (size_t r = 0; r < rows.count; r++)
            if (s->measurement_id[i] != 0 && rows.row[r].row.measurement_id == s->measurement_id[i])
                mine.row[mine.count++] = rows.row[r];
    s->summary = mine.row ? an_rows_summary(&mine) : NULL;
    free(mine.row);
    an_rows_release(&rows);
    return s->summary ? SB_EXIT_OK : sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for the table");
}

static void print_tally(const sweep *s)
{
    const tally *t = &s->tally;
    size_t earlier = 0;
    if (s->options.quiet)
        return;
    const size_t points = (size_t)s->devices.count * s->points.count;
    fprintf(stderr, "sparge-bench: %zu point%s:", points, points == 1 ? "" : "s");
    const char *comma = " ";
    for (int i = RS_DONE; i <= RS_UNMEASURED; i++) {
        earlier += t->earlier[i];
        if (t->outcome[i] == 0)
            continue;
        fprintf(stderr, "%s%zu %s", comma, t->outcome[i], rs_outcome_name((rs_outcome)i));
        comma = ", ";
    }
    if (earlier > 0) {
        fprintf(stderr, "%s%zu measured before", comma, earlier);
        comma = ", ";
    }
    if (t->elsewhere > 0)
        fprintf(stderr, "%s%zu being measured by another sweep", comma, t->elsewhere);
    fprintf(stderr, "\n");
    if (t->other_build > 0)
        fprintf(stderr,
                "sparge-bench: %zu of the points measured before were measured by another build; --fresh "
                "measures them again\n",
                t->other_build);
}

static int interrupted(const sweep *s)
{
    fprintf(stderr, "sparge-bench: interrupted; resume with\n%s", sb_command_line(s->arguments));
    if (s->options.fresh && s->options.since == 0 && s->first_run_id != 0)
        fprintf(stderr, " --since %lld", (long long)s->first_run_id);
    fprintf(stderr, "\n");
    return SB_EXIT_INTERRUPTED;
}

static int judge(const sweep *s)
{
    const tally *t = &s->tally;
    size_t bad = t->outcome[RS_FAILED] + t->outcome[RS_UNMEASURED] + t->earlier[RS_FAILED] + t->earlier[RS_UNMEASURED];
    return bad > 0 ? SB_EXIT_MEASUREMENT : SB_EXIT_OK;
}

/* With the session open. Rates that cannot be measured, because the device is full or dense-f16 fails on it, are no reason
 * not to try the points: there is then no predicted time. */
static int measure_device(sweep *s)
{
    sb_rates rates;
    int code = SB_EXIT_OK;
    if (sb_progress_draws(stderr, s->options.quiet) && sb_rates_measure(s->session.context, &rates, NULL) == SPARGE_OK)
        code = predict(s, &rates);
    s->run_id = 0;
    return code == SB_EXIT_OK ? end_run(s, visit_all(s)) : code;
}

static int list_device(sweep *s)
{
    sb_rates rates;
    sparge_error error = {0};
    const int is_known = sb_rates_measure(s->session.context, &rates, &error) == SPARGE_OK;
    const sb_rates *known = is_known ? &rates : NULL;
    int code = predict(s, known);
    if (code != SB_EXIT_OK)
        return code;
    return sb_dry_run_add(&s->dry, &s->session, &s->device, &s->points, s->prediction, known, error.text);
}

/* One device after the other: only one session holds memory at a time. */
static int on_each_device(sweep *s, int (*work)(sweep *s))
{
    int code = SB_EXIT_OK;
    for (s->turn = 0; s->turn < s->devices.count && code == SB_EXIT_OK && !sb_interrupted(); s->turn++) {
        sparge_context *context = s->context[s->turn];
        if (sb_session_open(context, &s->options.measure, &s->session) == SPARGE_OK) {
            s->device = s->session.device;
            code = sb_devices_label(&s->devices, s->devices.first + s->turn, s->device.name);
            if (code == SB_EXIT_OK)
                code = work(s);
        } else {
            code = sb_fail(SB_EXIT_ENVIRONMENT, "%s", sparge_error_string(context));
        }
        sb_session_close(&s->session);
        free(s->prediction);
        s->prediction = NULL;
    }
    return code;
}

/* With the store open. */
static int sweep_store(sweep *s)
{
    if (sb_run_lock_open(s->options.database, &s->lock) != 0)
        return sb_fail(SB_EXIT_ENVIRONMENT, "%s: cannot lock the file for this run", s->options.database);
    rs_error error;
    if (sb_runs_abandon(s->store, &s->lock, s->provenance.host, &error) != RS_OK)
        return fail_store(&error);
    int code = load_ledger(s);
    if (code != SB_EXIT_OK)
        return code;
    if (sb_interrupt_install() != 0)
        return sb_fail(SB_EXIT_ENVIRONMENT, "cannot handle Ctrl-C");
    code = on_each_device(s, measure_device);
    return code == SB_EXIT_OK ? make_summary(s) : code;
}

/* With the store closed: a reader that went away (`sweep | head`) ends the program here, and the results stay one file. */
static int tell(const sweep *s)
{
    int code = sb_output_table(s->arguments, s->summary, NULL);
    print_tally(s);
    if (sb_interrupted())
        return interrupted(s);
    return code == SB_EXIT_OK ? judge(s) : code;
}

static int measure_all(sweep *s)
{
    s->measurement_id = calloc((size_t)s->devices.count * s->points.count, sizeof *s->measurement_id);
    if (!s->measurement_id)
        return sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for the list of points");
    s->store = sb_database_open(s->options.database, RS_WRITE);
    if (!s->store)
        return SB_EXIT_ENVIRONMENT;
    s->lock.file = -1;
    sb_provenance_gather(&s->provenance);
    int code = sweep_store(s);
    int closed = sb_database_close(s->store);
    sb_run_lock_close(&s->lock);
    if (code == SB_EXIT_OK)
        code = tell(s);
    return code == SB_EXIT_OK ? closed : code;
}

static int list_all(sweep *s)
{
    int code = sb_dry_run_begin(&s->options, &s->dry);
    if (code == SB_EXIT_OK)
        code = on_each_device(s, list_device);
    return code == SB_EXIT_OK ? sb_dry_run_print(s->arguments, &s->dry, s->options.quiet) : code;
}

/* All of them before anything is measured: a device that this build has no code for is told at once. */
static int open_devices(sweep *s)
{
    int code = sb_devices_parse(s->arguments, 1, &s->devices);
    if (code != SB_EXIT_OK)
        return code;
    s->context = calloc((size_t)s->devices.count, sizeof(sparge_context *));
    if (!s->context)
        return sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for %d devices", s->devices.count);
    for (int i = 0; i < s->devices.count && code == SB_EXIT_OK; i++) {
        code = sb_devices_open(s->arguments, &s->devices, s->devices.first + i, &s->context[i]);
        sparge_telemetry now;
        if (code == SB_EXIT_OK && s->options.require_nvml &&
            sparge_device_get_telemetry(s->context[i], &now) != SPARGE_OK)
            code = sb_fail(SB_EXIT_ENVIRONMENT, "--require nvml: %s", sparge_error_string(s->context[i]));
    }
    return code;
}

int sb_sweep_run(const sb_command *command, const sb_arguments *arguments)
{
    (void)command;
    sweep s = {.arguments = arguments};
    int code = sb_sweep_options_parse(arguments, &s.options);
    if (code == SB_EXIT_OK)
        code = sb_points_create(arguments, &s.points);
    if (code == SB_EXIT_OK)
        code = open_devices(&s);
    if (code == SB_EXIT_OK)
        code = s.options.dry_run ? list_all(&s) : measure_all(&s);
    an_table_destroy(s.summary);
    sb_dry_run_release(&s.dry);
    sb_ledger_release(&s.ledger);
    free(s.measurement_id);
    for (int i = 0; s.context && i < s.devices.count; i++)
        sparge_context_destroy(s.context[i]);
    free(s.context);
    sb_points_release(&s.points);
    return code;
}
