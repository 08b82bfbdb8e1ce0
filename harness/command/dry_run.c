/* A table on stdout, the total on stderr. What the results file holds already is looked up, not touched. */
#include "command/dry_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/database.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "measure/memory.h"
#include "plan/ledger.h"
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

static void add_columns(an_table *table)
{
    static const struct {
        const char *name;
        an_cell_type type;
    } columns[] = {{"workload", AN_TEXT}, {"order", AN_TEXT},      {"batch", AN_NUMBER},       {"heads", AN_NUMBER},
                   {"seqlen", AN_NUMBER}, {"head_dim", AN_NUMBER}, {"dtype", AN_TEXT},         {"causal", AN_TEXT},
                   {"method", AN_TEXT},   {"bytes", AN_NUMBER},    {"predicted_s", AN_NUMBER}, {"note", AN_TEXT}};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        an_table_column(table, columns[i].name, columns[i].type);
}

static void add_point(an_table *table, const sb_point *point, const sb_prediction *prediction, const char *note)
{
    const sparge_problem *problem = &point->workload.problem;
    char label[512];
    sb_point_label(point, label, sizeof label);
    an_table_text(table, point->workload.name);
    an_table_text(table, wl_order_name(point->workload.order));
    an_table_integer(table, problem->batch);
    an_table_integer(table, problem->heads_q);
    an_table_integer(table, problem->seqlen_q);
    an_table_integer(table, problem->head_dim);
    an_table_text(table, sparge_dtype_name(problem->dtype));
    an_table_text(table, sparge_causal_name(problem->causal));
    an_table_text(table, label);
    if (prediction->bytes > INT64_MAX)
        an_table_number(table, NAN, "%.0f");
    else
        an_table_integer(table, (int64_t)prediction->bytes);
    an_table_number(table, prediction->ns / 1e9, "%.3g");
    an_table_text(table, note);
}

/* Why the point needs no measuring, or will not be measured; "" if it will. */
static const char *note_of(const sb_ledger *ledger, const char *key, const sb_prediction *prediction,
                           uint64_t available)
{
    const sb_ledger_entry *entry = sb_ledger_find(ledger, key);
    if (entry && sb_outcome_is_finished(entry->outcome))
        return "in the file";
    if (prediction->skipped)
        return prediction->reason;
    return prediction->bytes > available ? "needs more memory than is available" : "";
}

int sb_dry_run(const sb_arguments *arguments, const sb_sweep_options *options, const sb_points *points,
               const sb_prediction *prediction, const sb_rates *rates, const sparge_device_info *device)
{
    sb_ledger ledger;
    int code = read_ledger(options, &ledger);
    if (code != SB_EXIT_OK)
        return code;
    uint64_t available = sb_memory_available_on(device), largest = 0;
    if (options->measure.max_memory > 0 && options->measure.max_memory < available)
        available = options->measure.max_memory;
    double total_ns = 0.0;
    size_t due = 0;
    an_table *table = an_table_create();
    if (table)
        add_columns(table);
    for (size_t i = 0; table && i < points->count && code == SB_EXIT_OK; i++) {
        sb_record record;
        rs_error error;
        if (sb_record_point(&points->point[i], device, &record, &error) != RS_OK) {
            code = sb_fail(SB_EXIT_ENVIRONMENT, "%s", error.text);
            break;
        }
        const char *note = note_of(&ledger, record.key, &prediction[i], available);
        add_point(table, &points->point[i], &prediction[i], note);
        if (note[0] != '\0')
            continue;
        due++;
        total_ns += prediction[i].ns;
        if (prediction[i].bytes > largest)
            largest = prediction[i].bytes;
    }
    if (code == SB_EXIT_OK)
        code = sb_output_table(arguments, table, NULL);
    an_table_destroy(table);
    sb_ledger_release(&ledger);
    if (code == SB_EXIT_OK && !options->quiet) {
        char time[32], bytes[32], equal[64] = "";
        if (points->duplicates > 0)
            snprintf(equal, sizeof equal, " (%zu equal ones left out)", points->duplicates);
        sb_duration_text(total_ns, time, sizeof time);
        sb_memory_text(largest, bytes, sizeof bytes);
        fprintf(stderr,
                "sparge-bench: %zu point%s%s, %zu to measure; up to %s and the methods' workspace; about %s at the "
                "%.3g GFLOP/s that dense-f16 just reached on %s\n",
                points->count, points->count == 1 ? "" : "s", equal, due, bytes, time, rates->dense_ops / 1e9,
                device->name);
    }
    return code;
}
