/* Reading: rows of measurements, samples, documents, and what a sweep needs to resume. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static rs_outcome outcome_of(const char *name)
{
    for (int outcome = RS_RUNNING; outcome <= RS_UNMEASURED; outcome++) {
        if (name != NULL && strcmp(name, rs_outcome_name((rs_outcome)outcome)) == 0)
            return (rs_outcome)outcome;
    }
    return RS_FAILED; /* the schema allows no other name */
}

rs_status rs_point_state(rs_store *store, const char *point_key, rs_outcome *outcome, int64_t *measurement_id,
                         int32_t *visits, rs_error *error)
{
    rs_query query;
    *outcome = RS_RUNNING;
    *measurement_id = 0;
    *visits = 0;
    /* Anything finished comes before anything unfinished; then the newest. */
    rs_query_begin(&query, store, "looking up a point",
                   "SELECT measurement.id, outcome, (SELECT count(*) FROM visit WHERE measurement_id = measurement.id)"
                   " FROM measurement JOIN point ON point.id = measurement.point_id WHERE point.key = ?1"
                   " ORDER BY outcome IN ('running', 'partial'), measurement.id DESC LIMIT 1");
    rs_bind_text(&query, point_key);
    if (rs_step(&query)) {
        *measurement_id = rs_column_integer(&query);
        *outcome = outcome_of(rs_column_text(&query));
        *visits = (int32_t)rs_column_integer(&query);
    }
    rs_status status = rs_query_end(&query, error);
    return status == RS_OK ? rs_succeed(error) : status;
}

static void read_run(rs_query *query, rs_run *run)
{
    run->id = rs_column_integer(query);
    run->started_utc = rs_column_text(query);
    run->ended_utc = rs_column_text(query);
    run->status = rs_column_text(query);
    run->command = rs_column_text(query);
    run->host = rs_column_text(query);
    run->os = rs_column_text(query);
    run->cpu_model = rs_column_text(query);
    run->cpu_threads = (int)rs_column_count(query);
    run->driver = rs_column_text(query);
    run->cuda_runtime = rs_column_text(query);
    run->device_code_sha256 = rs_column_text(query);
    run->power_limit_mw = rs_column_count(query);
    run->max_sm_clock_mhz = (int)rs_column_count(query);
    run->ecc = (int)rs_column_count(query);
    run->persistence = (int)rs_column_count(query);
    run->mig = (int)rs_column_count(query);
    run->vbios = rs_column_text(query);
    run->pci = rs_column_text(query);
    run->processes = (int)rs_column_count(query);
    run->seed = rs_column_unsigned(query);
    run->note = rs_column_text(query);
    run->program_version = rs_column_text(query);
    run->git_sha = rs_column_text(query);
    run->git_dirty = (int)rs_column_count(query);
    run->build_type = rs_column_text(query);
    run->compiler = rs_column_text(query);
    run->compiler_flags = rs_column_text(query);
    run->binary_sha256 = rs_column_text(query);
    run->backend = rs_column_text(query);
    run->device_name = rs_column_text(query);
    run->device_uuid = rs_column_text(query);
    run->device_arch = rs_column_text(query);
    run->device_units = (int)rs_column_count(query);
    run->device_memory_bytes = rs_column_count(query);
}

static void read_point(rs_query *query, rs_point *point)
{
    point->id = rs_column_integer(query);
    point->key = rs_column_text(query);
    point->workload = rs_column_text(query);
    point->workload_hash = rs_column_text(query);
    point->order = rs_column_text(query);
    point->grid = rs_column_text(query);
    point->text_tokens = rs_column_integer(query);
    point->seed = rs_column_unsigned(query);
    point->method = rs_column_text(query);
    point->parameters = rs_column_text(query);
    point->settings = rs_column_text(query);
    point->backend = rs_column_text(query);
    point->device = rs_column_text(query);
    point->batch = rs_column_integer(query);
    point->heads_q = rs_column_integer(query);
    point->heads_kv = rs_column_integer(query);
    point->seqlen_q = rs_column_integer(query);
    point->seqlen_k = rs_column_integer(query);
    point->head_dim = rs_column_integer(query);
    point->dtype = rs_column_text(query);
    point->causal = rs_column_text(query);
    point->scale = rs_column_real(query);
    point->threads = (int)rs_column_integer(query);
}

static void read_facts(rs_query *query, rs_facts *facts)
{
    facts->sparsity = rs_column_real(query);
    facts->sparsity_mg = rs_column_real(query);
    facts->sparsity_pv = rs_column_real(query);
    facts->sparsity_basis = rs_column_text(query);
    facts->pv_unit = (int32_t)rs_column_count(query);
    facts->block_q = (int32_t)rs_column_count(query);
    facts->block_k = (int32_t)rs_column_count(query);
    facts->units_visible = rs_column_count(query);
    facts->units_qk = rs_column_count(query);
    facts->units_pv_skipped = rs_column_real(query);
    facts->dense_ops = rs_column_real(query);
    facts->executed_ops = rs_column_real(query);
    facts->workspace_bytes = rs_column_count(query);
    facts->sim_q = rs_column_real(query);
    facts->sim_k = rs_column_real(query);
    facts->error_rows = rs_column_integer(query); /* NULL: 0, nothing compared */
    facts->error_all_rows = (int)rs_column_integer(query);
    facts->rel_l1 = rs_column_real(query);
    facts->rel_l2 = rs_column_real(query);
    facts->cosine = rs_column_real(query);
    facts->rmse = rs_column_real(query);
    facts->max_abs = rs_column_real(query);
    facts->nonfinite = rs_column_count(query);
}

/* The columns that read_run takes. */
#define SELECT_RUNS                                                                                                    \
    "SELECT run.id, " RS_RUN_COLUMNS ", " RS_BUILD_COLUMNS ", " RS_DEVICE_COLUMNS                                      \
    " FROM (SELECT id, build_id, device_id, " RS_RUN_COLUMNS " FROM run) AS run"                                       \
    " JOIN build ON build.id = run.build_id JOIN device ON device.id = run.device_id"

rs_status rs_runs(rs_store *store, rs_run_fn fn, void *user, rs_error *error)
{
    rs_query query;
    rs_query_begin(&query, store, "reading the runs", SELECT_RUNS " ORDER BY run.id");
    int stop = 0;
    while (!stop && rs_step(&query)) {
        rs_run run;
        read_run(&query, &run);
        stop = fn(user, &run);
    }
    rs_status status = rs_query_end(&query, error);
    return status == RS_OK ? rs_succeed(error) : status;
}

/* The statement gives one row for the id bound to it, whose texts live until it is used again. */
static int look_up(rs_query *query, int64_t id)
{
    rs_again(query);
    rs_bind_integer(query, id);
    return rs_step(query);
}

/* Run and point have columns of the same names, so each comes from a statement of its own. */
rs_status rs_rows(rs_store *store, rs_row_fn fn, void *user, rs_error *error)
{
    static const char what[] = "reading the rows";
    rs_query measurement, run, point;
    rs_query_begin(&measurement, store, what,
                   "SELECT id, run_id, point_id, outcome, reason, repro, " RS_FACT_COLUMNS
                   " FROM measurement ORDER BY id");
    rs_query_begin(&run, store, what, SELECT_RUNS " WHERE run.id = ?1");
    rs_query_begin(&point, store, what, "SELECT id, " RS_POINT_COLUMNS " FROM point WHERE id = ?1");

    int stop = 0;
    while (!stop && rs_step(&measurement)) {
        rs_row row;
        row.measurement_id = rs_column_integer(&measurement);
        int64_t run_id = rs_column_integer(&measurement);
        int64_t point_id = rs_column_integer(&measurement);
        row.outcome = outcome_of(rs_column_text(&measurement));
        row.reason = rs_column_text(&measurement);
        row.repro = rs_column_text(&measurement);
        read_facts(&measurement, &row.facts);
        if (!look_up(&run, run_id) || !look_up(&point, point_id))
            break;
        read_run(&run, &row.run);
        read_point(&point, &row.point);
        stop = fn(user, &row);
    }
    /* A row that refers to nothing would end the loop early without an error of SQLite's. */
    int dangling = !stop && measurement.code == SQLITE_OK && run.code == SQLITE_OK && point.code == SQLITE_OK &&
                   sqlite3_stmt_busy(measurement.statement);
    rs_status status = rs_succeed(error);
    if (dangling)
        status = rs_fail(error, RS_ERROR_CORRUPT, store->path, "%s: a measurement without its run or point", what);
    rs_query *const queries[] = {&measurement, &run, &point};
    for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++) {
        rs_status ended = rs_query_end(queries[i], status == RS_OK ? error : NULL);
        if (status == RS_OK)
            status = ended;
    }
    return status;
}

/* Growing arrays of the samples read; either may be left out. */
typedef struct sample_list {
    int64_t *ns;
    int32_t *visit;
    int wants_ns, wants_visit;
    size_t count, capacity;
} sample_list;

static int reserve(sample_list *list)
{
    if (list->count < list->capacity)
        return 1;
    if (list->capacity > SIZE_MAX / 2 / sizeof *list->ns)
        return 0;
    size_t capacity = list->capacity == 0 ? 256 : 2 * list->capacity;
    if (list->wants_ns) {
        int64_t *ns = realloc(list->ns, capacity * sizeof *ns);
        if (ns == NULL)
            return 0;
        list->ns = ns;
    }
    if (list->wants_visit) {
        int32_t *visit = realloc(list->visit, capacity * sizeof *visit);
        if (visit == NULL)
            return 0;
        list->visit = visit;
    }
    list->capacity = capacity;
    return 1;
}

rs_status rs_samples(rs_store *store, int64_t measurement_id, rs_stage stage, int64_t **ns, int32_t **visit,
                     size_t *count, rs_error *error)
{
    sample_list list = {.wants_ns = ns != NULL, .wants_visit = visit != NULL};
    int out_of_memory = 0;
    rs_query query;
    rs_query_begin(&query, store, "reading samples",
                   "SELECT visit.position, sample.ns FROM visit JOIN sample ON sample.visit_id = visit.id"
                   " WHERE visit.measurement_id = ?1 AND sample.stage = ?2 ORDER BY visit.position, sample.launch");
    rs_bind_integer(&query, measurement_id);
    rs_bind_text(&query, rs_stage_name(stage));
    while (!out_of_memory && rs_step(&query)) {
        out_of_memory = !reserve(&list);
        if (out_of_memory)
            break;
        int32_t position = (int32_t)rs_column_integer(&query);
        int64_t sample_ns = rs_column_integer(&query);
        if (list.wants_visit)
            list.visit[list.count] = position;
        if (list.wants_ns)
            list.ns[list.count] = sample_ns;
        list.count++;
    }
    rs_status status = rs_query_end(&query, error);
    if (out_of_memory)
        status = rs_fail(error, RS_ERROR_OTHER, store->path, "reading samples: out of memory");
    if (status != RS_OK) {
        free(list.ns);
        free(list.visit);
        list = (sample_list){0};
    }
    if (ns != NULL)
        *ns = list.ns;
    if (visit != NULL)
        *visit = list.visit;
    *count = list.count;
    return status == RS_OK ? rs_succeed(error) : status;
}

rs_status rs_documents(rs_store *store, const char *kind, rs_document_fn fn, void *user, rs_error *error)
{
    rs_query query;
    rs_query_begin(&query, store, "reading documents",
                   "SELECT run_id, kind, json FROM document WHERE ?1 IS NULL OR kind = ?1 ORDER BY id");
    rs_bind_text(&query, kind);
    int stop = 0;
    while (!stop && rs_step(&query)) {
        int64_t run_id = rs_column_integer(&query);
        const char *document_kind = rs_column_text(&query);
        const char *json = rs_column_text(&query);
        stop = fn(user, run_id, document_kind, json);
    }
    rs_status status = rs_query_end(&query, error);
    return status == RS_OK ? rs_succeed(error) : status;
}
