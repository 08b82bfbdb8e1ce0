/* A table on stdout, the totals on stderr. What the results file holds already is looked up, not touched. */
#include "command/dry_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/database.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "measure/need.h"
#include "plan/record.h"

/* The ledger of the results file; empty where there is no file yet. */
static int read_ledger(const sb_sweep_options *options, sb_ledger *ledger)
{
    rs_error error;
    memset(ledger, 0, sizeof *ledger);
    if (!options->database || access(options->database, F_OK) != 0 || (options->fresh && options->since == 0))
        return SB_EXIT_OK;
    rs_store *store = sb_database_open(options->database, RS_READ);
    if (!store)
        return SB_EXIT_ENVIRONMENT;
    rs_status status = sb_ledger_load(store, options->since, "", ledger, &error);
    int closed = sb_database_close(store);
    if (status != RS_OK)
        return sb_fail(SB_EXIT_ENVIRONMENT, "%s", error.text);
    return closed;
}

/* Bytes beyond any memory are no number. */
static void add_bytes(an_table *table, uint64_t bytes)
{
    if (bytes > INT64_MAX)
        an_table_number(table, NAN, "%.0f");
    else
        an_table_integer(table, (int64_t)bytes);
}

static void add_columns(an_table *table)
{
    static const struct {
        const char *name;
        an_cell_type type;
    } columns[] = {{"device", AN_TEXT},         {"workload", AN_TEXT},
                   {"order", AN_TEXT},          {"batch", AN_NUMBER},
                   {"heads", AN_NUMBER},        {"seqlen", AN_NUMBER},
                   {"head_dim", AN_NUMBER},     {"dtype", AN_TEXT},
                   {"causal", AN_TEXT},         {"method", AN_TEXT},
                   {"bytes", AN_NUMBER},        {"input_bytes", AN_NUMBER},
                   {"copy_bytes", AN_NUMBER},   {"workspace_bytes", AN_NUMBER},
                   {"output_bytes", AN_NUMBER}, {"host_bytes", AN_NUMBER},
                   {"predicted_s", AN_NUMBER},  {"note", AN_TEXT}};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        an_table_column(table, columns[i].name, columns[i].type);
}

int sb_dry_run_begin(const sb_sweep_options *options, sb_dry_run *dry)
{
    int code = read_ledger(options, &dry->ledger);
    if (code != SB_EXIT_OK)
        return code;
    dry->table = an_table_create();
    if (!dry->table)
        return sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for the table");
    add_columns(dry->table);
    return SB_EXIT_OK;
}

static void add_point(an_table *table, const char *device, const sb_point *point, const sb_need *need, double seconds,
                      const char *note)
{
    const sparge_problem *problem = &point->workload.problem;
    char label[512];
    sb_point_label(point, label, sizeof label);
    an_table_text(table, device);
    an_table_text(table, point->workload.name);
    an_table_text(table, wl_order_name(point->workload.order));
    an_table_integer(table, problem->batch);
    an_table_integer(table, problem->heads_q);
    an_table_integer(table, problem->seqlen_q);
    an_table_integer(table, problem->head_dim);
    an_table_text(table, sparge_dtype_name(problem->dtype));
    an_table_text(table, sparge_causal_name(problem->causal));
    an_table_text(table, label);
    add_bytes(table, need->device);
    add_bytes(table, need->inputs);
    add_bytes(table, need->copies);
    add_bytes(table, need->workspace);
    add_bytes(table, need->output);
    add_bytes(table, need->host);
    an_table_number(table, seconds, "%.3g");
    an_table_text(table, note);
}

/* What the totals are about. */
typedef struct totals {
    size_t due;
    double ns;        /* 0 where nothing is predicted */
    uint64_t largest; /* of points that the method can do and that are not in the file; 0: there are none */
} totals;

/* `note` says why the point needs no measuring, or will not be measured; "" if it will. */
static int add_planned(sb_dry_run *dry, const sb_session *session, const sparge_device_info *device,
                       const sb_memory *memory, const sb_point *point, const sb_prediction *prediction,
                       int is_predicted, totals *sum)
{
    sb_record record;
    rs_error error;
    sb_need need = {0};
    sparge_error reason = {0};
    char note[SB_REASON_TEXT] = "";
    if (sb_record_point(point, device, &record, &error) != RS_OK)
        return sb_fail(SB_EXIT_ENVIRONMENT, "%s", error.text);
    const sb_ledger_entry *entry = sb_ledger_find(&dry->ledger, record.key);
    const int can = !prediction->skipped && sb_need_of(session, point, &need, &reason) == SPARGE_OK;
    if (!can) /* nothing is known of it */
        memset(&need, 0xff, sizeof need);
    if (entry && sb_outcome_is_finished(entry->outcome))
        snprintf(note, sizeof note, "in the file");
    else if (!can)
        snprintf(note, sizeof note, "%s", prediction->skipped ? prediction->reason : reason.text);
    else {
        const uint64_t needed = sb_need_total(&need, memory);
        sum->largest = needed > sum->largest ? needed : sum->largest;
        if (sb_need_fits(session, &need, memory, note, sizeof note)) {
            sum->due++;
            sum->ns += prediction->ns;
        }
    }
    add_point(dry->table, device->name, point, &need, is_predicted ? prediction->ns / 1e9 : NAN, note);
    return SB_EXIT_OK;
}

static void add_totals(sb_dry_run *dry, const totals *sum, const sparge_device_info *device, const sb_memory *memory,
                       const sb_points *points)
{
    char text[32], total[32];
    sb_text *line = &dry->totals;
    sb_text_add(line, "sparge-bench: %zu point%s", points->count, points->count == 1 ? "" : "s");
    if (points->duplicates > 0)
        sb_text_add(line, " (%zu equal ones left out)", points->duplicates);
    sb_text_add(line, ", %zu to measure; ", sum->due);
    sb_memory_text(sum->largest, text, sizeof text);
    if (sum->largest > 0)
        sb_text_add(line, "the largest needs %s, ", text);
    sb_memory_text(memory->free, text, sizeof text);
    sb_memory_text(memory->total, total, sizeof total);
    sb_text_add(line, "%s of the %s of %s are free; ", text, total, memory->is_own ? device->name : "this machine");
}

static void add_time(sb_dry_run *dry, double ns, const sb_rates *rates, const char *unknown)
{
    char text[32];
    sb_duration_text(ns, text, sizeof text);
    if (rates)
        sb_text_add(&dry->totals, "about %s at the %.3g GFLOP/s that dense-f16 just reached\n", text,
                    rates->dense_ops / 1e9);
    else
        sb_text_add(&dry->totals, "no time is predicted: %s\n", unknown);
}

int sb_dry_run_add(sb_dry_run *dry, const sb_session *session, const sparge_device_info *device,
                   const sb_points *points, const sb_prediction *prediction, const sb_rates *rates, const char *unknown)
{
    sb_memory memory;
    sparge_error error = {0};
    totals sum = {0};
    if (sb_need_memory(session, &memory, &error) != SPARGE_OK)
        return sb_fail(SB_EXIT_ENVIRONMENT, "%s", error.text);
    int code = SB_EXIT_OK;
    for (size_t i = 0; i < points->count && code == SB_EXIT_OK; i++)
        code = add_planned(dry, session, device, &memory, &points->point[i], &prediction[i], rates != NULL, &sum);
    if (code != SB_EXIT_OK)
        return code;
    add_totals(dry, &sum, device, &memory, points);
    add_time(dry, sum.ns, rates, unknown);
    return SB_EXIT_OK;
}

int sb_dry_run_print(const sb_arguments *arguments, sb_dry_run *dry, int quiet)
{
    int code = sb_output_table(arguments, dry->table, NULL);
    char *lines = sb_text_take(&dry->totals);
    if (code == SB_EXIT_OK && !lines)
        code = sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for the totals");
    if (code == SB_EXIT_OK && !quiet)
        fputs(lines, stderr);
    free(lines);
    return code;
}

void sb_dry_run_release(sb_dry_run *dry)
{
    an_table_destroy(dry->table);
    sb_ledger_release(&dry->ledger);
    free(sb_text_take(&dry->totals));
}
