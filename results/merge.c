/* Merging: copies runs from one results file into another, one transaction a run.
 *
 * Row ids mean nothing outside their file, so rows find each other by what they are: runs by uuid, points by key,
 * measurements by run and point, visits and documents by position. A run that both files have is brought up to date:
 * what is unfinished here takes the further visits and the outcome that it has there. Nothing else here changes. */
#include "internal.h"

#include <stdio.h>
#include <sys/stat.h>

typedef struct merge_job {
    const rs_store *to;
    const char *what; /* "merging FROM.db", for messages */
} merge_job;

/* In all statements: ?1 is the run's id there (in source), ?2 its id here (in main). */
static const char *const add_run_sql[] = {
    "INSERT INTO main.device (" RS_DEVICE_COLUMNS ") SELECT " RS_DEVICE_COLUMNS
    " FROM source.device WHERE id = (SELECT device_id FROM source.run WHERE id = ?1) ON CONFLICT DO NOTHING",

    "INSERT INTO main.build (" RS_BUILD_COLUMNS ") SELECT " RS_BUILD_COLUMNS
    " FROM source.build WHERE id = (SELECT build_id FROM source.run WHERE id = ?1) ON CONFLICT DO NOTHING",

    "INSERT INTO main.run (uuid, build_id, device_id, " RS_RUN_COLUMNS ") SELECT uuid,"
    " (SELECT here.id FROM main.build AS here JOIN source.build AS there"
    "  ON here.program_version IS there.program_version AND here.git_sha IS there.git_sha"
    "  AND here.git_dirty IS there.git_dirty AND here.build_type IS there.build_type"
    "  AND here.compiler IS there.compiler AND here.compiler_flags IS there.compiler_flags"
    "  AND here.binary_sha256 IS there.binary_sha256 WHERE there.id = run.build_id),"
    " (SELECT here.id FROM main.device AS here JOIN source.device AS there"
    "  ON here.backend IS there.backend AND here.name IS there.name AND here.uuid IS there.uuid"
    "  AND here.arch IS there.arch AND here.units IS there.units AND here.memory_bytes IS there.memory_bytes"
    "  WHERE there.id = run.device_id), " RS_RUN_COLUMNS
    " FROM source.run AS run WHERE id = ?1 ON CONFLICT (uuid) DO NOTHING",
};

static const char *const fill_run_sql[] = {
    "UPDATE main.run SET (ended_utc, status, note) ="
    " (SELECT there.ended_utc, there.status, there.note FROM source.run AS there WHERE there.id = ?1)"
    /* Of runs that are running here, or were taken for abandoned and have ended all the same. */
    " WHERE id = ?2 AND (status = 'running' OR ended_utc IS NULL"
    "  AND (SELECT there.ended_utc FROM source.run AS there WHERE there.id = ?1) IS NOT NULL)",

    "INSERT INTO main.point (" RS_POINT_COLUMNS ") SELECT " RS_POINT_COLUMNS
    " FROM source.point WHERE id IN (SELECT point_id FROM source.measurement WHERE run_id = ?1)"
    " ORDER BY id ON CONFLICT (key) DO NOTHING",

    /* New measurements come as running; then they are filled like those that were unfinished before. */
    "INSERT INTO main.measurement (run_id, point_id, outcome, repro)"
    " SELECT ?2, here.id, 'running', m.repro FROM source.measurement AS m"
    " JOIN source.point AS there ON there.id = m.point_id JOIN main.point AS here ON here.key = there.key"
    " WHERE m.run_id = ?1 ORDER BY m.id ON CONFLICT (run_id, point_id) DO NOTHING",

    "DELETE FROM temp.unfinished",
    "INSERT INTO temp.unfinished (there, here)"
    " SELECT m.id, mine.id FROM source.measurement AS m"
    " JOIN source.point AS there ON there.id = m.point_id JOIN main.point AS here ON here.key = there.key"
    " JOIN main.measurement AS mine ON mine.run_id = ?2 AND mine.point_id = here.id"
    " WHERE m.run_id = ?1 AND mine.outcome IN ('running', 'partial')",

    "DELETE FROM temp.new_visit",
    "INSERT INTO temp.new_visit (there)"
    " SELECT visit.id FROM source.visit AS visit JOIN temp.unfinished AS pair ON pair.there = visit.measurement_id"
    " WHERE NOT EXISTS (SELECT 1 FROM main.visit AS mine"
    "                   WHERE mine.measurement_id = pair.here AND mine.position = visit.position)",

    "INSERT INTO main.visit (measurement_id, " RS_VISIT_COLUMNS ") SELECT pair.here, " RS_VISIT_COLUMNS
    " FROM temp.new_visit AS new JOIN source.visit AS visit ON visit.id = new.there"
    " JOIN temp.unfinished AS pair ON pair.there = visit.measurement_id ORDER BY visit.id",

    "INSERT INTO main.sample (visit_id, launch, stage, ns) SELECT mine.id, sample.launch, sample.stage, sample.ns"
    " FROM temp.new_visit AS new JOIN source.visit AS visit ON visit.id = new.there"
    " JOIN temp.unfinished AS pair ON pair.there = visit.measurement_id"
    " JOIN main.visit AS mine ON mine.measurement_id = pair.here AND mine.position = visit.position"
    " JOIN source.sample AS sample ON sample.visit_id = visit.id",

    "UPDATE main.measurement SET (outcome, reason, " RS_FACT_COLUMNS ") ="
    " (SELECT outcome, reason, " RS_FACT_COLUMNS " FROM source.measurement AS there"
    "  JOIN temp.unfinished AS pair ON pair.there = there.id WHERE pair.here = measurement.id)"
    " WHERE id IN (SELECT pair.here FROM temp.unfinished AS pair"
    "              JOIN source.measurement AS there ON there.id = pair.there WHERE there.outcome <> 'running')",

    "INSERT INTO main.document (run_id, position, kind, json)"
    " SELECT ?2, position, kind, json FROM source.document WHERE run_id = ?1 ORDER BY position"
    " ON CONFLICT (run_id, position) DO NOTHING",
};

static rs_status execute(const merge_job *job, const char *sql, int64_t there, int64_t here, rs_error *error)
{
    rs_query query;
    rs_query_begin(&query, job->to, job->what, sql);
    int parameters = sqlite3_bind_parameter_count(query.statement);
    if (parameters >= 1)
        rs_bind_integer(&query, there);
    if (parameters >= 2)
        rs_bind_integer(&query, here);
    rs_step(&query);
    return rs_query_end(&query, error);
}

static rs_status execute_all(const merge_job *job, const char *const *sql, size_t count, int64_t there, int64_t here,
                             rs_error *error)
{
    rs_status status = RS_OK;
    for (size_t i = 0; i < count && status == RS_OK; i++)
        status = execute(job, sql[i], there, here, error);
    return status;
}

static rs_status select_id(const merge_job *job, const char *sql, int64_t argument, int64_t *id, rs_error *error)
{
    rs_query query;
    rs_query_begin(&query, job->to, job->what, sql);
    rs_bind_integer(&query, argument);
    *id = rs_step(&query) ? rs_column_integer(&query) : 0;
    return rs_query_end(&query, error);
}

/* Inside a transaction. */
static rs_status copy_run(const merge_job *job, int64_t there, int *added, rs_error *error)
{
    static const char find_sql[] = "SELECT id FROM main.run WHERE uuid = (SELECT uuid FROM source.run WHERE id = ?1)";
    int64_t before = 0, here = 0;
    rs_status status = select_id(job, find_sql, there, &before, error);
    if (status == RS_OK && before == 0)
        status = execute_all(job, add_run_sql, sizeof add_run_sql / sizeof add_run_sql[0], there, 0, error);
    if (status == RS_OK)
        status = select_id(job, find_sql, there, &here, error);
    if (status == RS_OK)
        status = execute_all(job, fill_run_sql, sizeof fill_run_sql / sizeof fill_run_sql[0], there, here, error);
    *added = before == 0;
    return status;
}

static rs_status copy_all_runs(const merge_job *job, int64_t *runs_added, int64_t *runs_present, rs_error *error)
{
    int64_t there = 0;
    for (;;) {
        rs_status status =
            select_id(job, "SELECT ifnull(min(id), 0) FROM source.run WHERE id > ?1", there, &there, error);
        if (status != RS_OK || there == 0)
            return status;
        int added = 0;
        status = rs_begin(job->to, job->what, error);
        if (status == RS_OK)
            status = rs_finish(job->to, copy_run(job, there, &added, error), job->what, error);
        if (status != RS_OK)
            return status;
        *runs_added += added;
        *runs_present += !added;
    }
}

static int is_same_file(const rs_store *a, const rs_store *b)
{
    struct stat first, second;
    return a == b || (stat(a->path, &first) == 0 && stat(b->path, &second) == 0 && first.st_dev == second.st_dev &&
                      first.st_ino == second.st_ino);
}

static rs_status merge_attached(const merge_job *job, int64_t *runs_added, int64_t *runs_present, rs_error *error)
{
    static const char *const prepare_sql[] = {
        "CREATE TEMP TABLE unfinished (there INTEGER PRIMARY KEY, here INTEGER NOT NULL UNIQUE)",
        "CREATE TEMP TABLE new_visit (there INTEGER PRIMARY KEY)",
    };
    static const char *const tidy_sql[] = {"DROP TABLE IF EXISTS temp.unfinished",
                                           "DROP TABLE IF EXISTS temp.new_visit"};
    rs_status status = execute_all(job, prepare_sql, sizeof prepare_sql / sizeof prepare_sql[0], 0, 0, error);
    if (status == RS_OK)
        status = copy_all_runs(job, runs_added, runs_present, error);
    rs_status tidied =
        execute_all(job, tidy_sql, sizeof tidy_sql / sizeof tidy_sql[0], 0, 0, status == RS_OK ? error : NULL);
    return status == RS_OK ? tidied : status;
}

rs_status rs_merge(rs_store *to, rs_store *from, int64_t *runs_added, int64_t *runs_present, rs_error *error)
{
    *runs_added = 0;
    *runs_present = 0;
    char what[256];
    snprintf(what, sizeof what, "merging %s", from->path);
    const merge_job job = {.to = to, .what = what};
    if (to->mode != RS_WRITE)
        return rs_fail(error, RS_ERROR_READ_ONLY, to->path, "%s: the file was opened for reading", what);
    if (is_same_file(to, from))
        return rs_fail(error, RS_ERROR_ARGUMENT, to->path, "%s: it is the same file", what);

    rs_query attach;
    rs_query_begin(&attach, to, what, "ATTACH ?1 AS source");
    rs_bind_text(&attach, from->read_uri);
    rs_step(&attach);
    rs_status status = rs_query_end(&attach, error);
    if (status != RS_OK)
        return status;
    status = merge_attached(&job, runs_added, runs_present, error);
    rs_status detached = execute(&job, "DETACH source", 0, 0, status == RS_OK ? error : NULL);
    if (status == RS_OK)
        status = detached;
    return status == RS_OK ? rs_succeed(error) : status;
}
