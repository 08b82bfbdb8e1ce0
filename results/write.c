/* Writing: each function is one transaction. */
#include "internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const outcome_names[] = {
    [RS_RUNNING] = "running", [RS_DONE] = "done",     [RS_SKIPPED] = "skipped",
    [RS_PARTIAL] = "partial", [RS_FAILED] = "failed", [RS_UNMEASURED] = "unmeasured",
};

static const char *const stage_names[] = {
    [RS_TOTAL] = "total", [RS_PREPARE] = "prepare", [RS_SELECT] = "select", [RS_ATTEND] = "attend"};

static int is_outcome(rs_outcome outcome)
{
    return (size_t)outcome < sizeof outcome_names / sizeof outcome_names[0];
}

const char *rs_outcome_name(rs_outcome outcome)
{
    return is_outcome(outcome) ? outcome_names[outcome] : "unknown";
}

const char *rs_stage_name(rs_stage stage)
{
    return (size_t)stage < sizeof stage_names / sizeof stage_names[0] ? stage_names[stage] : "unknown";
}

/* Runs a statement that gives one integer. *found (may be NULL) says whether there was a row. */
static rs_status finish_scalar(rs_query *query, int64_t *value, int *found, rs_error *error)
{
    int row = rs_step(query);
    *value = row ? rs_column_integer(query) : 0;
    if (found != NULL)
        *found = row;
    return rs_query_end(query, error);
}

static rs_status finish_write(rs_query *query, rs_error *error)
{
    rs_step(query);
    return rs_query_end(query, error);
}

static void bind_device(rs_query *query, const rs_run *run)
{
    rs_bind_text(query, run->backend);
    rs_bind_text(query, run->device_name);
    rs_bind_text(query, run->device_uuid);
    rs_bind_text(query, run->device_arch);
    rs_bind_count(query, run->device_units);
    rs_bind_count(query, run->device_memory_bytes);
}

static void bind_build(rs_query *query, const rs_run *run)
{
    rs_bind_text(query, run->program_version);
    rs_bind_text(query, run->git_sha);
    rs_bind_count(query, run->git_dirty);
    rs_bind_text(query, run->build_type);
    rs_bind_text(query, run->compiler);
    rs_bind_text(query, run->compiler_flags);
    rs_bind_text(query, run->binary_sha256);
}

/* The id of the row that equals the run's device or build, which is inserted if there is none. */
static rs_status intern(const rs_store *store, const rs_run *run, void (*bind)(rs_query *, const rs_run *),
                        const char *select_sql, const char *insert_sql, int64_t *id, rs_error *error)
{
    rs_query query;
    int found;
    rs_query_begin(&query, store, "beginning a run", select_sql);
    bind(&query, run);
    rs_status status = finish_scalar(&query, id, &found, error);
    if (status != RS_OK || found)
        return status;
    rs_query_begin(&query, store, "beginning a run", insert_sql);
    bind(&query, run);
    return finish_scalar(&query, id, NULL, error);
}

static rs_status intern_device(const rs_store *store, const rs_run *run, int64_t *id, rs_error *error)
{
    return intern(store, run, bind_device,
                  "SELECT id FROM device WHERE backend IS ?1 AND name IS ?2 AND uuid IS ?3 AND arch IS ?4"
                  " AND units IS ?5 AND memory_bytes IS ?6",
                  "INSERT INTO device (" RS_DEVICE_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?) RETURNING id", id, error);
}

static rs_status intern_build(const rs_store *store, const rs_run *run, int64_t *id, rs_error *error)
{
    return intern(store, run, bind_build,
                  "SELECT id FROM build WHERE program_version IS ?1 AND git_sha IS ?2 AND git_dirty IS ?3"
                  " AND build_type IS ?4 AND compiler IS ?5 AND compiler_flags IS ?6 AND binary_sha256 IS ?7",
                  "INSERT INTO build (" RS_BUILD_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id", id, error);
}

/* 128 random bits from the system. */
static rs_status make_uuid(const rs_store *store, char uuid[33], rs_error *error)
{
    unsigned char bytes[16];
    if (getentropy(bytes, sizeof bytes) != 0)
        return rs_fail(error, RS_ERROR_OTHER, store->path, "beginning a run: the system gives no random bytes");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(uuid + 2 * i, 3, "%02x", bytes[i]);
    return RS_OK;
}

rs_run rs_run_unknown(void)
{
    return (rs_run){.status = "running",
                    .git_dirty = -1,
                    .device_units = -1,
                    .device_memory_bytes = -1,
                    .cpu_threads = -1,
                    .power_limit_mw = -1,
                    .max_sm_clock_mhz = -1,
                    .ecc = -1,
                    .persistence = -1,
                    .mig = -1,
                    .processes = -1};
}

static rs_status insert_run(const rs_store *store, const rs_run *run, int64_t build_id, int64_t device_id,
                            int64_t *run_id, rs_error *error)
{
    char uuid[33];
    rs_status status = make_uuid(store, uuid, error);
    if (status != RS_OK)
        return status;
    rs_query query;
    rs_query_begin(&query, store, "beginning a run",
                   "INSERT INTO run (uuid, build_id, device_id, " RS_RUN_COLUMNS ")"
                   " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id");
    rs_bind_text(&query, uuid);
    rs_bind_integer(&query, build_id);
    rs_bind_integer(&query, device_id);
    rs_bind_text(&query, run->started_utc);
    rs_bind_text(&query, run->ended_utc);
    rs_bind_text(&query, run->status != NULL ? run->status : "running");
    rs_bind_text(&query, run->command);
    rs_bind_text(&query, run->host);
    rs_bind_text(&query, run->os);
    rs_bind_text(&query, run->cpu_model);
    rs_bind_count(&query, run->cpu_threads);
    rs_bind_text(&query, run->driver);
    rs_bind_text(&query, run->cuda_runtime);
    rs_bind_text(&query, run->device_code_sha256);
    rs_bind_count(&query, run->power_limit_mw);
    rs_bind_count(&query, run->max_sm_clock_mhz);
    rs_bind_count(&query, run->ecc);
    rs_bind_count(&query, run->persistence);
    rs_bind_count(&query, run->mig);
    rs_bind_text(&query, run->vbios);
    rs_bind_text(&query, run->pci);
    rs_bind_count(&query, run->processes);
    rs_bind_unsigned(&query, run->seed);
    rs_bind_text(&query, run->note);
    return finish_scalar(&query, run_id, NULL, error);
}

rs_status rs_run_begin(rs_store *store, const rs_run *run, int64_t *run_id, rs_error *error)
{
    static const char what[] = "beginning a run";
    int64_t build_id = 0, device_id = 0;
    rs_status status = rs_begin(store, what, error);
    if (status != RS_OK)
        return status;
    status = intern_device(store, run, &device_id, error);
    if (status == RS_OK)
        status = intern_build(store, run, &build_id, error);
    if (status == RS_OK)
        status = insert_run(store, run, build_id, device_id, run_id, error);
    return rs_finish(store, status, what, error);
}

rs_status rs_run_end(rs_store *store, int64_t run_id, const char *run_status, const char *note, rs_error *error)
{
    static const char what[] = "ending a run";
    rs_status status = rs_begin(store, what, error);
    if (status != RS_OK)
        return status;
    rs_query query;
    rs_query_begin(&query, store, what,
                   "UPDATE run SET ended_utc = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), status = ?1,"
                   " note = ifnull(?2, note) WHERE id = ?3");
    rs_bind_text(&query, run_status);
    rs_bind_text(&query, note);
    rs_bind_integer(&query, run_id);
    status = finish_write(&query, error);
    if (status == RS_OK && sqlite3_changes(store->db) == 0)
        status = rs_fail(error, RS_ERROR_NOT_FOUND, store->path, "%s: there is no run %" PRId64, what, run_id);
    return rs_finish(store, status, what, error);
}

rs_status rs_run_abandon(rs_store *store, int64_t run_id, rs_error *error)
{
    static const char what[] = "ending an abandoned run";
    rs_status status = rs_begin(store, what, error);
    if (status != RS_OK)
        return status;
    rs_query query;
    rs_query_begin(&query, store, what, "UPDATE run SET status = 'partial' WHERE id = ?1 AND status = 'running'");
    rs_bind_integer(&query, run_id);
    return rs_finish(store, finish_write(&query, error), what, error);
}

/* Two spellings of the same parameters would be two points. */
static rs_status check_parameters(const rs_store *store, const char *parameters, rs_error *error)
{
    rs_query query;
    rs_query_begin(&query, store, "adding a point",
                   "SELECT CASE WHEN NOT json_valid(?1) THEN 0 WHEN json_type(?1) <> 'object' THEN 0"
                   " WHEN json(?1) <> ?1 THEN 0 ELSE NOT EXISTS ("
                   "SELECT 1 FROM (SELECT key, lag(key) OVER (ORDER BY id) AS before FROM json_each(?1))"
                   " WHERE before >= key) END");
    rs_bind_text(&query, parameters);
    int64_t canonical;
    rs_status status = finish_scalar(&query, &canonical, NULL, error);
    if (status == RS_OK && !canonical)
        return rs_fail(error, RS_ERROR_ARGUMENT, store->path,
                       "point: parameters must be a JSON object without spaces, its keys sorted and distinct: %s",
                       parameters);
    return status;
}

static rs_status insert_point(const rs_store *store, const rs_point *point, const char *key, int64_t *point_id,
                              rs_error *error)
{
    rs_query query;
    rs_query_begin(&query, store, "adding a point",
                   "INSERT INTO point (" RS_POINT_COLUMNS
                   ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id");
    rs_bind_text(&query, key);
    rs_bind_text(&query, point->workload);
    rs_bind_text(&query, point->workload_hash);
    rs_bind_text(&query, point->order);
    rs_bind_text(&query, point->grid);
    rs_bind_integer(&query, point->text_tokens);
    rs_bind_unsigned(&query, point->seed);
    rs_bind_text(&query, point->method);
    rs_bind_text(&query, point->parameters);
    rs_bind_text(&query, point->settings);
    rs_bind_text(&query, point->backend);
    rs_bind_text(&query, point->device);
    rs_bind_integer(&query, point->batch);
    rs_bind_integer(&query, point->heads_q);
    rs_bind_integer(&query, point->heads_kv);
    rs_bind_integer(&query, point->seqlen_q);
    rs_bind_integer(&query, point->seqlen_k);
    rs_bind_integer(&query, point->head_dim);
    rs_bind_text(&query, point->dtype);
    rs_bind_text(&query, point->causal);
    rs_bind_real(&query, point->scale);
    rs_bind_integer(&query, point->threads);
    return finish_scalar(&query, point_id, NULL, error);
}

rs_status rs_point_intern(rs_store *store, const rs_point *point, int64_t *point_id, rs_error *error)
{
    static const char what[] = "adding a point";
    char key[65];
    rs_status status = rs_point_check(point, store->path, error);
    if (status == RS_OK)
        status = rs_point_key(point, key, error);
    if (status == RS_OK)
        status = rs_begin(store, what, error);
    if (status != RS_OK)
        return status;
    rs_query query;
    int found = 0;
    rs_query_begin(&query, store, what, "SELECT id FROM point WHERE key = ?1");
    rs_bind_text(&query, key);
    status = finish_scalar(&query, point_id, &found, error);
    if (status == RS_OK && !found)
        status = check_parameters(store, point->parameters, error);
    if (status == RS_OK && !found)
        status = insert_point(store, point, key, point_id, error);
    return rs_finish(store, status, what, error);
}

rs_status rs_measurement_begin(rs_store *store, int64_t run_id, int64_t point_id, const char *repro,
                               int64_t *measurement_id, rs_error *error)
{
    static const char what[] = "beginning a measurement";
    rs_status status = rs_begin(store, what, error);
    if (status != RS_OK)
        return status;
    rs_query query;
    rs_query_begin(&query, store, what,
                   "INSERT INTO measurement (run_id, point_id, outcome, repro) VALUES (?, ?, 'running', ?)"
                   " RETURNING id");
    rs_bind_integer(&query, run_id);
    rs_bind_integer(&query, point_id);
    rs_bind_text(&query, repro);
    status = finish_scalar(&query, measurement_id, NULL, error);
    return rs_finish(store, status, what, error);
}

/* Inside the transaction that is to change it: does the measurement exist, and may it still change? */
static rs_status require_unfinished(const rs_store *store, int64_t measurement_id, const char *what, rs_error *error)
{
    rs_query query;
    rs_query_begin(&query, store, what, "SELECT outcome IN ('running', 'partial') FROM measurement WHERE id = ?1");
    rs_bind_integer(&query, measurement_id);
    int64_t unfinished;
    int found;
    rs_status status = finish_scalar(&query, &unfinished, &found, error);
    if (status != RS_OK)
        return status;
    if (!found)
        return rs_fail(error, RS_ERROR_NOT_FOUND, store->path, "%s: there is no measurement %" PRId64, what,
                       measurement_id);
    if (!unfinished)
        return rs_fail(error, RS_ERROR_ARGUMENT, store->path, "%s: measurement %" PRId64 " is finished", what,
                       measurement_id);
    return RS_OK;
}

static rs_status check_samples(const rs_store *store, const rs_visit *visit, rs_error *error)
{
    int of_stages = visit->kind != NULL && strcmp(visit->kind, "stages") == 0;
    for (size_t i = 0; i < visit->sample_count; i++) {
        const rs_sample *sample = &visit->samples[i];
        if (sample->launch < 0 || sample->launch >= visit->launches)
            return rs_fail(error, RS_ERROR_ARGUMENT, store->path,
                           "visit %d: sample %zu is of launch %d, must be in 0..%d", (int)visit->position, i,
                           (int)sample->launch, (int)visit->launches - 1);
        if ((sample->stage != RS_TOTAL) != of_stages)
            return rs_fail(error, RS_ERROR_ARGUMENT, store->path,
                           "visit %d: sample %zu is of stage %s in a visit of %s", (int)visit->position, i,
                           rs_stage_name(sample->stage), visit->kind != NULL ? visit->kind : "no kind");
    }
    return RS_OK;
}

static rs_status insert_visit(const rs_store *store, int64_t measurement_id, const rs_visit *visit, int64_t *visit_id,
                              rs_error *error)
{
    rs_query query;
    rs_query_begin(&query, store, "adding a visit",
                   "INSERT INTO visit (measurement_id, " RS_VISIT_COLUMNS
                   ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                   " RETURNING id");
    rs_bind_integer(&query, measurement_id);
    rs_bind_integer(&query, visit->position);
    rs_bind_text(&query, visit->kind);
    rs_bind_text(&query, visit->timer);
    rs_bind_integer(&query, visit->started_ns);
    rs_bind_integer(&query, visit->launches);
    rs_bind_real(&query, visit->clock_mhz);
    rs_bind_real(&query, visit->memory_clock_mhz);
    rs_bind_real(&query, visit->power_mw);
    rs_bind_real(&query, visit->temperature_c);
    rs_bind_count(&query, visit->energy_mj);
    rs_bind_count(&query, visit->power_capped_ns);
    rs_bind_count(&query, visit->software_thermal_ns);
    rs_bind_count(&query, visit->hardware_thermal_ns);
    rs_bind_count(&query, visit->power_braked_ns);
    rs_bind_text(&query, visit->flags != NULL ? visit->flags : "");
    return finish_scalar(&query, visit_id, NULL, error);
}

static rs_status insert_samples(const rs_store *store, int64_t visit_id, const rs_visit *visit, rs_error *error)
{
    rs_query query;
    rs_query_begin(&query, store, "adding a visit",
                   "INSERT INTO sample (visit_id, launch, stage, ns) VALUES (?, ?, ?, ?)");
    for (size_t i = 0; i < visit->sample_count && query.code == SQLITE_OK; i++) {
        rs_again(&query);
        rs_bind_integer(&query, visit_id);
        rs_bind_integer(&query, visit->samples[i].launch);
        rs_bind_text(&query, rs_stage_name(visit->samples[i].stage));
        rs_bind_integer(&query, visit->samples[i].ns);
        rs_step(&query);
    }
    return rs_query_end(&query, error);
}

rs_status rs_visit_add(rs_store *store, int64_t measurement_id, const rs_visit *visit, rs_error *error)
{
    static const char what[] = "adding a visit";
    rs_status status = check_samples(store, visit, error);
    if (status == RS_OK)
        status = rs_begin(store, what, error);
    if (status != RS_OK)
        return status;
    int64_t visit_id = 0;
    status = require_unfinished(store, measurement_id, what, error);
    if (status == RS_OK)
        status = insert_visit(store, measurement_id, visit, &visit_id, error);
    if (status == RS_OK)
        status = insert_samples(store, visit_id, visit, error);
    return rs_finish(store, status, what, error);
}

static void bind_facts(rs_query *query, const rs_facts *facts)
{
    rs_bind_real(query, facts->sparsity);
    rs_bind_real(query, facts->sparsity_mg);
    rs_bind_real(query, facts->sparsity_pv);
    rs_bind_text(query, facts->sparsity_basis);
    rs_bind_count(query, facts->pv_unit);
    rs_bind_count(query, facts->block_q);
    rs_bind_count(query, facts->block_k);
    rs_bind_count(query, facts->units_visible);
    rs_bind_count(query, facts->units_qk);
    rs_bind_real(query, facts->units_pv_skipped);
    rs_bind_real(query, facts->dense_ops);
    rs_bind_real(query, facts->executed_ops);
    rs_bind_count(query, facts->workspace_bytes);
    rs_bind_real(query, facts->sim_q);
    rs_bind_real(query, facts->sim_k);
    rs_bind_count(query, facts->error_rows);
    rs_bind_count(query, facts->error_all_rows);
    rs_bind_real(query, facts->rel_l1);
    rs_bind_real(query, facts->rel_l2);
    rs_bind_real(query, facts->cosine);
    rs_bind_real(query, facts->rmse);
    rs_bind_real(query, facts->max_abs);
    rs_bind_count(query, facts->nonfinite);
}

static rs_status update_outcome(const rs_store *store, int64_t measurement_id, rs_outcome outcome, const char *reason,
                                const rs_facts *facts, rs_error *error)
{
    static const char what[] = "ending a measurement";
    rs_query query;
    rs_query_begin(&query, store, what,
                   facts == NULL
                       ? "UPDATE measurement SET outcome = ?, reason = ? WHERE id = ?"
                       : "UPDATE measurement SET (" RS_FACT_COLUMNS ", outcome, reason) ="
                         " (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE id = ?");
    if (facts != NULL)
        bind_facts(&query, facts);
    rs_bind_text(&query, rs_outcome_name(outcome));
    rs_bind_text(&query, reason);
    rs_bind_integer(&query, measurement_id);
    return finish_write(&query, error);
}

rs_status rs_measurement_end(rs_store *store, int64_t measurement_id, rs_outcome outcome, const char *reason,
                             const rs_facts *facts, rs_error *error)
{
    static const char what[] = "ending a measurement";
    if (!is_outcome(outcome) || outcome == RS_RUNNING)
        return rs_fail(error, RS_ERROR_ARGUMENT, store->path, "%s: outcome %d (%s) is no end", what, (int)outcome,
                       rs_outcome_name(outcome));
    rs_status status = rs_begin(store, what, error);
    if (status != RS_OK)
        return status;
    status = require_unfinished(store, measurement_id, what, error);
    if (status == RS_OK)
        status = update_outcome(store, measurement_id, outcome, reason, facts, error);
    return rs_finish(store, status, what, error);
}

rs_status rs_document_add(rs_store *store, int64_t run_id, const char *kind, const char *json, rs_error *error)
{
    static const char what[] = "adding a document";
    rs_status status = rs_begin(store, what, error);
    if (status != RS_OK)
        return status;
    rs_query query;
    rs_query_begin(&query, store, what,
                   "INSERT INTO document (run_id, position, kind, json)"
                   " VALUES (?1, (SELECT ifnull(max(position) + 1, 0) FROM document WHERE run_id = ?1), ?2, ?3)");
    rs_bind_integer(&query, run_id);
    rs_bind_text(&query, kind);
    rs_bind_text(&query, json);
    status = finish_write(&query, error);
    return rs_finish(store, status, what, error);
}
