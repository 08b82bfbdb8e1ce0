/* See fixture.h. */
#define _XOPEN_SOURCE 700 /* nftw */
#include "fixture.h"

#include <ftw.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int make_folder(void **state)
{
    /* In memory where there is such a place: these tests sync a lot. */
    int in_memory = access("/dev/shm", W_OK) == 0;
    char *folder = strdup(in_memory ? "/dev/shm/sparge-results-XXXXXX" : "/tmp/sparge-results-XXXXXX");
    if (folder == NULL || mkdtemp(folder) == NULL || chmod(folder, 0755) != 0)
        return -1;
    *state = folder;
    return 0;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

int remove_folder(void **state)
{
    int failed = nftw(*state, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return failed;
}

const char *in_folder(const char *folder, const char *name, char path[PATH_SIZE])
{
    int length = snprintf(path, PATH_SIZE, "%s/%s", folder, name);
    assert_in_range(length, 1, PATH_SIZE - 1);
    return path;
}

void assert_ok(rs_status status, const rs_error *error)
{
    if (status != RS_OK)
        fail_msg("status %d: %s", (int)status, error->text);
}

void assert_refused(rs_status status, const rs_error *error, rs_status expected, const char *path)
{
    if (status != expected)
        fail_msg("status %d instead of %d: %s", (int)status, (int)expected, error->text);
    assert_int_equal(error->status, expected);
    assert_int_equal(strncmp(error->text, path, strlen(path)), 0);
    assert_true(strlen(error->text) > strlen(path) + 3);
    assert_null(strchr(error->text, '\n'));
}

rs_store *open_store(const char *path, rs_mode mode)
{
    rs_store *store;
    rs_error error;
    assert_ok(rs_open(path, mode, &store, &error), &error);
    assert_non_null(store);
    return store;
}

void close_store(rs_store *store)
{
    rs_error error;
    assert_ok(rs_close(store, &error), &error);
}

rs_run plain_run(void)
{
    rs_run run = rs_run_unknown();
    run.started_utc = "2026-08-24T12:00:00Z";
    run.command = "sparge-bench sweep";
    run.backend = "fake";
    run.device_name = "fake";
    run.device_units = 1;
    run.cpu_threads = 2;
    run.seed = 1;
    return run;
}

rs_point plain_point(int64_t seqlen)
{
    return (rs_point){.workload = "random",
                      .workload_hash = "0",
                      .order = "row",
                      .grid = "",
                      .seed = 1,
                      .method = "dense-f16",
                      .parameters = "{}",
                      .settings = "",
                      .backend = "fake",
                      .device = "fake",
                      .batch = 1,
                      .heads_q = 2,
                      .heads_kv = 1,
                      .seqlen_q = seqlen,
                      .seqlen_k = seqlen,
                      .head_dim = 64,
                      .dtype = "f16",
                      .causal = "none",
                      .scale = 0.125};
}

int64_t begin_run(rs_store *store)
{
    rs_run run = plain_run();
    rs_error error;
    int64_t id = 0;
    assert_ok(rs_run_begin(store, &run, &id, &error), &error);
    assert_true(id > 0);
    return id;
}

int64_t begin_measurement(rs_store *store, int64_t run_id, int64_t seqlen)
{
    rs_point point = plain_point(seqlen);
    rs_error error;
    int64_t point_id = 0, id = 0;
    assert_ok(rs_point_intern(store, &point, &point_id, &error), &error);
    assert_ok(rs_measurement_begin(store, run_id, point_id, "sparge-bench sweep --here", &id, &error), &error);
    assert_true(id > 0);
    return id;
}

int64_t visit_ns(int32_t position, int32_t launch)
{
    return 1000 * (int64_t)position + 10 * launch + 1;
}

rs_status add_visit(rs_store *store, int64_t measurement_id, int32_t position, rs_error *error)
{
    rs_sample samples[4];
    for (int32_t i = 0; i < 4; i++)
        samples[i] = (rs_sample){.ns = visit_ns(position, i), .launch = i, .stage = RS_TOTAL};
    rs_visit visit = {.position = position,
                      .kind = "total",
                      .timer = "fake",
                      .started_ns = position,
                      .launches = 4,
                      .clock_mhz = NAN,
                      .memory_clock_mhz = NAN,
                      .power_mw = NAN,
                      .temperature_c = NAN,
                      .energy_mj = -1,
                      .power_capped_ns = -1,
                      .software_thermal_ns = -1,
                      .hardware_thermal_ns = -1,
                      .power_braked_ns = -1,
                      .flags = "",
                      .samples = samples,
                      .sample_count = 4};
    return rs_visit_add(store, measurement_id, &visit, error);
}

int32_t visits_of(rs_store *store, int64_t seqlen, int64_t *measurement_id)
{
    rs_point point = plain_point(seqlen);
    rs_error error;
    rs_outcome outcome;
    char key[65];
    int64_t id;
    int32_t visits;
    assert_ok(rs_point_key(&point, key, &error), &error);
    assert_ok(rs_point_state(store, key, &outcome, &id, &visits, &error), &error);
    if (measurement_id != NULL)
        *measurement_id = id;
    return visits;
}

uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

unsigned char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long end = ftell(file);
    assert_true(end >= 0);
    rewind(file);
    *size = (size_t)end;
    unsigned char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

int file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

void query_text(const char *path, const char *sql, char *text, size_t size)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    const char *value = (const char *)sqlite3_column_text(statement, 0);
    snprintf(text, size, "%s", value != NULL ? value : "NULL");
    sqlite3_finalize(statement);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

int64_t query_integer(const char *path, const char *sql)
{
    char text[64];
    query_text(path, sql, text, sizeof text);
    return strtoll(text, NULL, 10);
}

void assert_one_sound_file(const char *path)
{
    static const char *const suffixes[] = {"-wal", "-shm", "-journal"};
    char text[256];
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        snprintf(text, sizeof text, "%s%s", path, suffixes[i]);
        if (file_exists(text))
            fail_msg("%s is still there", text);
    }
    size_t size;
    unsigned char *bytes = read_file(path, &size);
    assert_true(size >= 100);
    assert_int_equal(bytes[18], 1); /* write and read version: 1 = rollback journal, 2 = WAL */
    assert_int_equal(bytes[19], 1);
    free(bytes);
    query_text(path, "PRAGMA integrity_check", text, sizeof text);
    assert_string_equal(text, "ok");
    assert_int_equal(query_integer(path, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
}
