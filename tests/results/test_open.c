/* Opening: files that are not ours are refused and left alone, files in places that cannot be written are read, and the
 * migrations bring a file from version to version. */
#include "fixture.h"

#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534 };

/* A store with one measurement of length 64 and `visits` visits. */
static void make_store(const char *path, int32_t visits)
{
    rs_error error;
    rs_store *store = open_store(path, RS_WRITE);
    int64_t id = begin_measurement(store, begin_run(store), 64);
    for (int32_t i = 0; i < visits; i++)
        assert_ok(add_visit(store, id, i, &error), &error);
    close_store(store);
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* Both modes refuse the file with this status, and not a byte of it changes. */
static void assert_refused_untouched(const char *path, rs_status reading, rs_status writing)
{
    size_t size_before, size_after;
    unsigned char *before = read_file(path, &size_before);
    for (int mode = RS_READ; mode <= RS_WRITE; mode++) {
        rs_store *store;
        rs_error error;
        rs_status expected = mode == RS_READ ? reading : writing;
        rs_status status = rs_open(path, (rs_mode)mode, &store, &error);
        assert_refused(status, &error, expected, path);
        assert_null(store);
        unsigned char *after = read_file(path, &size_after);
        assert_int_equal(size_after, size_before);
        assert_memory_equal(after, before, size_before);
        free(after);
    }
    free(before);
}

static void a_new_file_is_ours_and_whole(void **state)
{
    char path[PATH_SIZE];
    make_store(in_folder(*state, "new.db", path), 2);
    assert_one_sound_file(path);
    assert_int_equal(query_integer(path, "PRAGMA application_id"), RS_APPLICATION_ID);
    assert_int_equal(query_integer(path, "PRAGMA user_version"), rs_migration_count);
    assert_int_equal(query_integer(path,
                                   "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
                                   " AND name NOT LIKE 'sqlite%' AND NOT strict"),
                     0);
    rs_store *store = open_store(path, RS_READ);
    assert_int_equal(visits_of(store, 64, NULL), 2);
    close_store(store);
    assert_one_sound_file(path);
}

static void writers_use_the_log(void **state)
{
    char path[PATH_SIZE];
    rs_store *store = open_store(in_folder(*state, "wal.db", path), RS_WRITE);
    char mode[16];
    query_text(path, "PRAGMA journal_mode", mode, sizeof mode);
    assert_string_equal(mode, "wal");
    assert_int_equal(query_integer(path, "PRAGMA user_version"), rs_migration_count);
    close_store(store);
    assert_one_sound_file(path);
}

static void odd_names_are_names(void **state)
{
    static const char *const names[] = {"a b?mode=memory.db", "100%25 #1.db", "\u00fc\u6ce8.db",
                                        ":memory:",           "file:x",       "'\".db"};
    char path[PATH_SIZE], previous[PATH_SIZE];
    assert_non_null(getcwd(previous, sizeof previous));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        make_store(in_folder(*state, names[i], path), 1);
        assert_true(file_exists(path));
        assert_int_equal(chdir(*state), 0);
        rs_store *store = open_store(names[i], RS_WRITE); /* the same by its relative name */
        assert_int_equal(visits_of(store, 64, NULL), 1);
        close_store(store);
        assert_int_equal(chdir(previous), 0);
    }
}

static void a_link_leads_to_the_file(void **state)
{
    char path[PATH_SIZE], link_path[PATH_SIZE], folder[PATH_SIZE];
    assert_int_equal(mkdir(in_folder(*state, "linked", folder), 0755), 0);
    make_store(in_folder(*state, "linked/real.db", path), 1);
    assert_int_equal(symlink("linked/real.db", in_folder(*state, "link.db", link_path)), 0);
    rs_error error;
    int64_t id;
    rs_store *store = open_store(link_path, RS_WRITE);
    assert_int_equal(visits_of(store, 64, &id), 1);
    assert_ok(add_visit(store, id, 1, &error), &error);
    close_store(store);
    assert_one_sound_file(path);
}

static void missing_files_and_folders(void **state)
{
    char path[PATH_SIZE];
    rs_store *store;
    rs_error error;
    in_folder(*state, "missing.db", path);
    assert_refused(rs_open(path, RS_READ, &store, &error), &error, RS_ERROR_NOT_FOUND, path);
    assert_false(file_exists(path));
    in_folder(*state, "no/such/folder.db", path);
    assert_refused(rs_open(path, RS_READ, &store, &error), &error, RS_ERROR_NOT_FOUND, path);
    assert_refused(rs_open(path, RS_WRITE, &store, &error), &error, RS_ERROR_NOT_FOUND, path);
    assert_refused(rs_open(*state, RS_READ, &store, &error), &error, RS_ERROR_FOREIGN, *state);
    assert_refused(rs_open(*state, RS_WRITE, &store, &error), &error, RS_ERROR_FOREIGN, *state);
    assert_int_equal(rs_open("", RS_WRITE, &store, &error), RS_ERROR_ARGUMENT);
    assert_int_equal(rs_open(NULL, RS_READ, &store, &error), RS_ERROR_ARGUMENT);
    assert_int_equal(rs_open(path, RS_READ, &store, NULL), RS_ERROR_NOT_FOUND); /* nobody wants the text */
    assert_ok(rs_close(NULL, &error), &error);
}

static void foreign_files_are_left_alone(void **state)
{
    char path[PATH_SIZE];
    const char text[] = "workload,method,total_ms\nrandom,dense-f16,1.0\n";
    write_file(in_folder(*state, "table.csv", path), text, sizeof text - 1);
    assert_refused_untouched(path, RS_ERROR_FOREIGN, RS_ERROR_FOREIGN);
    unsigned char noise[9000];
    uint64_t random = 5;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (unsigned char)next_random(&random);
    write_file(in_folder(*state, "noise.bin", path), noise, sizeof noise);
    assert_refused_untouched(path, RS_ERROR_FOREIGN, RS_ERROR_FOREIGN);
    run_sql(in_folder(*state, "other.db", path), "CREATE TABLE run (id INTEGER); PRAGMA user_version = 1");
    assert_refused_untouched(path, RS_ERROR_FOREIGN, RS_ERROR_FOREIGN);
    run_sql(in_folder(*state, "gpkg.db", path), "PRAGMA application_id = 1196444487; CREATE TABLE t (x)");
    assert_refused_untouched(path, RS_ERROR_FOREIGN, RS_ERROR_FOREIGN);
    run_sql(in_folder(*state, "foreign-wal.db", path), "PRAGMA journal_mode = WAL; CREATE TABLE t (x)");
    assert_refused_untouched(path, RS_ERROR_FOREIGN, RS_ERROR_FOREIGN);
}

static void newer_files_are_left_alone(void **state)
{
    char path[PATH_SIZE], sql[64];
    make_store(in_folder(*state, "newer.db", path), 1);
    snprintf(sql, sizeof sql, "PRAGMA user_version = %d", rs_migration_count + 1);
    run_sql(path, sql);
    assert_refused_untouched(path, RS_ERROR_NEWER, RS_ERROR_NEWER);
}

/* Cut anywhere: refused, or (cut in free space at the end) still whole. */
static void truncated_files_are_left_alone(void **state)
{
    char path[PATH_SIZE], cut_path[PATH_SIZE];
    make_store(in_folder(*state, "whole.db", path), 40);
    in_folder(*state, "cut.db", cut_path);
    size_t size;
    unsigned char *bytes = read_file(path, &size);
    const size_t cuts[] = {1, 15, 50, 99, 100, 512, 4095, 4096, 5000, size / 2, size - 4096, size - 1};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        write_file(cut_path, bytes, cuts[i]);
        rs_status expected = cuts[i] < 100 ? RS_ERROR_FOREIGN : RS_ERROR_CORRUPT;
        assert_refused_untouched(cut_path, expected, expected);
    }
    free(bytes);
}

static int count_rows(void *user, const rs_row *row)
{
    (void)row;
    ++*(int *)user;
    return 0;
}

/* Garbage in any one page: a writer notices at once and changes nothing, a reader at the latest when it reads. */
static void damaged_pages_are_noticed(void **state)
{
    char path[PATH_SIZE], bad_path[PATH_SIZE];
    make_store(in_folder(*state, "good.db", path), 40);
    in_folder(*state, "bad.db", bad_path);
    size_t size;
    unsigned char *bytes = read_file(path, &size);
    int64_t sample_root = query_integer(path, "SELECT rootpage FROM sqlite_schema WHERE name = 'sample'");
    int64_t measurement_root = query_integer(path, "SELECT rootpage FROM sqlite_schema WHERE name = 'measurement'");
    const int64_t pages[] = {sample_root, measurement_root};
    for (size_t i = 0; i < 2; i++) {
        unsigned char *bad = malloc(size);
        assert_non_null(bad);
        memcpy(bad, bytes, size);
        memset(bad + (pages[i] - 1) * 4096, 0xa5, 4096);
        write_file(bad_path, bad, size);
        rs_store *store;
        rs_error error;
        assert_refused(rs_open(bad_path, RS_WRITE, &store, &error), &error, RS_ERROR_CORRUPT, bad_path);
        store = open_store(bad_path, RS_READ);
        int rows = 0;
        int64_t *ns;
        size_t count;
        rs_status status = i == 0 ? rs_samples(store, 1, RS_TOTAL, &ns, NULL, &count, &error)
                                  : rs_rows(store, count_rows, &rows, &error);
        assert_refused(status, &error, RS_ERROR_CORRUPT, bad_path);
        rs_close(store, &error);
        size_t size_after;
        unsigned char *after = read_file(bad_path, &size_after);
        assert_int_equal(size_after, size);
        assert_memory_equal(after, bad, size);
        free(after);
        free(bad);
    }
    free(bytes);
}

static void an_empty_file_is_filled_by_a_writer(void **state)
{
    char path[PATH_SIZE];
    rs_store *store;
    rs_error error;
    write_file(in_folder(*state, "empty.db", path), "", 0);
    assert_refused(rs_open(path, RS_READ, &store, &error), &error, RS_ERROR_FOREIGN, path);
    make_store(path, 1);
    assert_one_sound_file(path);
}

/* In a child that is not root and may not write here. Ends with exit code 0 if everything is as it should be. */
#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, error.text);                   \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static void read_as_nobody(const char *path, int32_t visits)
{
    rs_error error = {.status = RS_OK};
    rs_store *store;
    rs_outcome outcome;
    int64_t id;
    int32_t found = -1;
    char key[65], changed[PATH_SIZE + 8];
    if (geteuid() == 0)
        REQUIRE(setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
    REQUIRE(rs_open(path, RS_WRITE, &store, &error) == RS_ERROR_READ_ONLY);
    REQUIRE(strncmp(error.text, path, strlen(path)) == 0);
    REQUIRE(rs_open(path, RS_READ, &store, &error) == RS_OK);
    rs_point point = plain_point(64);
    REQUIRE(rs_point_key(&point, key, &error) == RS_OK);
    REQUIRE(rs_point_state(store, key, &outcome, &id, &found, &error) == RS_OK);
    REQUIRE(found == visits);
    REQUIRE(rs_close(store, &error) == RS_OK);
    snprintf(changed, sizeof changed, "%s.new", path);
    REQUIRE(rs_open(changed, RS_WRITE, &store, &error) == RS_ERROR_READ_ONLY);
    _exit(0);
}

static void assert_readable_by_nobody(const char *path, int32_t visits)
{
    pid_t child = fork();
    if (child == 0)
        read_as_nobody(path, visits);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_read_only_folder_is_enough_for_reading(void **state)
{
    char folder[PATH_SIZE], path[PATH_SIZE], side[PATH_SIZE];
    assert_int_equal(mkdir(in_folder(*state, "read-only", folder), 0755), 0);
    make_store(in_folder(*state, "read-only/results.db", path), 3);
    size_t size, size_after;
    for (int in_wal_mode = 0; in_wal_mode < 2; in_wal_mode++) {
        if (in_wal_mode) /* as another program may leave it: no -wal, but the header asks for one */
            run_sql(path, "PRAGMA journal_mode = WAL");
        assert_int_equal(chmod(path, 0444) | chmod(folder, 0555), 0);
        unsigned char *before = read_file(path, &size);
        assert_readable_by_nobody(path, 3);
        unsigned char *after = read_file(path, &size_after);
        assert_int_equal(size, size_after);
        assert_memory_equal(before, after, size);
        assert_false(file_exists(in_folder(*state, "read-only/results.db-shm", side)));
        assert_false(file_exists(in_folder(*state, "read-only/results.db-wal", side)));
        free(before);
        free(after);
        assert_int_equal(chmod(folder, 0755) | chmod(path, 0644), 0);
    }
}

/* A writer that dies before it closes: the log stays beside the file. */
static void leave_a_log(const char *path, int32_t visits)
{
    pid_t child = fork();
    if (child == 0) {
        rs_error error = {.status = RS_OK};
        rs_store *store;
        rs_run run = plain_run();
        rs_point point = plain_point(64);
        int64_t run_id, point_id, id;
        REQUIRE(rs_open(path, RS_WRITE, &store, &error) == RS_OK);
        REQUIRE(rs_run_begin(store, &run, &run_id, &error) == RS_OK);
        REQUIRE(rs_point_intern(store, &point, &point_id, &error) == RS_OK);
        REQUIRE(rs_measurement_begin(store, run_id, point_id, NULL, &id, &error) == RS_OK);
        for (int32_t i = 0; i < visits; i++)
            REQUIRE(add_visit(store, id, i, &error) == RS_OK);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    char wal[PATH_SIZE + 8];
    snprintf(wal, sizeof wal, "%s-wal", path);
    assert_true(file_exists(wal));
}

/* The log is read where it lies, and folded into the file as soon as somebody may. */
static void a_log_left_behind_is_read(void **state)
{
    char folder[PATH_SIZE], path[PATH_SIZE];
    assert_int_equal(mkdir(in_folder(*state, "log", folder), 0755), 0);
    leave_a_log(in_folder(*state, "log/results.db", path), 7);
    assert_int_equal(chmod(folder, 0555), 0);
    assert_readable_by_nobody(path, 7);
    assert_int_equal(chmod(folder, 0755), 0);
    rs_store *store = open_store(path, RS_READ);
    assert_int_equal(visits_of(store, 64, NULL), 7);
    close_store(store);
    assert_one_sound_file(path);
    store = open_store(path, RS_READ);
    assert_int_equal(visits_of(store, 64, NULL), 7);
    close_store(store);
}

/* What another program left in WAL mode is one file again after we have read it where we may write. */
static void reading_tidies_up_where_it_may(void **state)
{
    char path[PATH_SIZE];
    make_store(in_folder(*state, "tidy.db", path), 3);
    run_sql(path, "PRAGMA journal_mode = WAL");
    rs_store *store = open_store(path, RS_READ);
    assert_int_equal(visits_of(store, 64, NULL), 3);
    close_store(store);
    assert_one_sound_file(path);
}

/* Two handles in one process, one of them writing: the reader sees what is committed, and closing it first does not
 * take the writer's locks away. */
static void a_reader_beside_a_writer(void **state)
{
    char path[PATH_SIZE];
    rs_error error;
    int64_t id;
    make_store(in_folder(*state, "beside.db", path), 1);
    rs_store *writer = open_store(path, RS_WRITE);
    rs_store *reader = open_store(path, RS_READ);
    assert_int_equal(visits_of(writer, 64, &id), 1);
    assert_ok(add_visit(writer, id, 1, &error), &error);
    assert_int_equal(visits_of(reader, 64, NULL), 2);
    close_store(reader);
    assert_ok(add_visit(writer, id, 2, &error), &error);
    reader = open_store(path, RS_READ);
    close_store(writer);
    assert_int_equal(visits_of(reader, 64, NULL), 3);
    close_store(reader); /* the last one: it leaves WAL mode though it only read */
    assert_one_sound_file(path);
}

/* Migrations of our own on a bare store. */
static const rs_migration steps[] = {
    {"001_a.sql", "CREATE TABLE parent (id INTEGER PRIMARY KEY) STRICT;"
                  "CREATE TABLE child (id INTEGER PRIMARY KEY, parent_id INTEGER REFERENCES parent (id)) STRICT;"
                  "INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1, 1)"},
    {"002_b.sql", "ALTER TABLE child ADD COLUMN note TEXT; UPDATE child SET note = 'two'"},
    {"003_fails.sql", "UPDATE child SET note = 'three'; SELECT no_such_function()"},
};
static const rs_migration dangling = {"002_dangling.sql", "UPDATE child SET parent_id = 7; CREATE TABLE extra (x)"};

static rs_store open_bare(char *path)
{
    rs_store store = {.path = path, .mode = RS_WRITE};
    assert_int_equal(sqlite3_open(path, &store.db), SQLITE_OK);
    sqlite3_extended_result_codes(store.db, 1);
    return store;
}

static int64_t version_of(const rs_store *store)
{
    rs_error error;
    int64_t application_id, version;
    assert_ok(rs_schema_version(store, &application_id, &version, &error), &error);
    return version;
}

static void migrations_go_step_by_step(void **state)
{
    char path[PATH_SIZE];
    rs_error error;
    in_folder(*state, "steps.db", path);
    rs_store store = open_bare(path);
    assert_int_equal(version_of(&store), 0);
    assert_ok(rs_migrate(&store, steps, 1, &error), &error);
    assert_int_equal(version_of(&store), 1);
    assert_ok(rs_migrate(&store, steps, 1, &error), &error); /* again: nothing */
    assert_ok(rs_migrate(&store, steps, 2, &error), &error);
    assert_int_equal(version_of(&store), 2);
    assert_refused(rs_migrate(&store, steps, 3, &error), &error, RS_ERROR_OTHER, path);
    assert_non_null(strstr(error.text, "003_fails.sql"));
    assert_int_equal(version_of(&store), 2);
    assert_int_equal(sqlite3_close(store.db), SQLITE_OK);
    char note[16];
    query_text(path, "SELECT note FROM child", note, sizeof note);
    assert_string_equal(note, "two");
}

static int32_t visits_of_key(rs_store *store, const char *key)
{
    rs_error error;
    rs_outcome outcome;
    int64_t id;
    int32_t visits;
    assert_ok(rs_point_state(store, key, &outcome, &id, &visits, &error), &error);
    return visits;
}

/* A file of every earlier version, with a visit in it, is brought to this one: nothing is lost, what is new is unknown, and
 * the measurement goes on. */
static void files_of_earlier_versions_are_brought_up_to_date(void **state)
{
    static const char rows[] =
        "INSERT INTO build (id) VALUES (1); INSERT INTO device (id, name) VALUES (1, 'old');"
        "INSERT INTO run (id, uuid, status, build_id, device_id, seed)"
        " VALUES (1, '0123456789abcdef0123456789abcdef', 'running', 1, 1, '1');"
        "INSERT INTO point VALUES (1, printf('%064d', 7), 'random', '0', 'row', '', 0, '1', 'dense-f16', '{}', '', "
        "'fake', 'old',"
        " 1, 1, 1, 64, 64, 64, 'f16', 'none', 1, 0);"
        "INSERT INTO measurement (id, run_id, point_id, outcome) VALUES (1, 1, 1, 'running');"
        "INSERT INTO visit (id, measurement_id, position, kind, timer, started_ns, launches, clock_mhz, flags)"
        " VALUES (1, 1, 0, 'total', 'fake', 5, 2, 1500, 'lost');"
        "INSERT INTO sample VALUES (1, 0, 'total', 40); INSERT INTO sample VALUES (1, 1, 'total', 60)";
    for (int version = 1; version < rs_migration_count; version++) {
        char path[PATH_SIZE], name[32], text[64];
        rs_error error;
        snprintf(name, sizeof name, "version-%d.db", version);
        in_folder(*state, name, path);
        rs_store bare = open_bare(path), *store;
        assert_ok(rs_migrate(&bare, rs_migrations, version, &error), &error);
        assert_int_equal(sqlite3_close(bare.db), SQLITE_OK);
        run_sql(path, rows);
        /* Read, and merged from, as it is. */
        char merged[PATH_SIZE], key[65];
        snprintf(key, sizeof key, "%064d", 7);
        int64_t added, present;
        store = open_store(path, RS_READ);
        rs_store *to = open_store(in_folder(*state, "merged.db", merged), RS_WRITE);
        assert_int_equal(visits_of_key(store, key), 1);
        assert_ok(rs_merge(to, store, &added, &present, &error), &error);
        assert_int_equal(added + present, 1);
        assert_int_equal(visits_of_key(to, key), 1);
        close_store(to);
        close_store(store);
        assert_int_equal(query_integer(path, "PRAGMA user_version"), version);
        assert_one_sound_file(path);
        store = open_store(path, RS_WRITE);
        assert_ok(add_visit(store, 1, 1, &error), &error);
        close_store(store);
        assert_int_equal(query_integer(path, "PRAGMA user_version"), rs_migration_count);
        query_text(path,
                   "SELECT clock_mhz || ' ' || flags || ' ' || coalesce(energy_mj, 'unknown') FROM visit WHERE id = 1",
                   text, sizeof text);
        assert_string_equal(text, "1500.0 lost unknown");
        assert_int_equal(query_integer(path, "SELECT sum(ns) FROM sample WHERE visit_id = 1"), 100);
        assert_int_equal(query_integer(path, "SELECT count(*) FROM visit"), 2);
    }
}

static void a_migration_may_not_break_references(void **state)
{
    char path[PATH_SIZE];
    rs_error error;
    in_folder(*state, "dangling.db", path);
    rs_store store = open_bare(path);
    const rs_migration migrations[] = {steps[0], dangling};
    assert_refused(rs_migrate(&store, migrations, 2, &error), &error, RS_ERROR_CORRUPT, path);
    assert_non_null(strstr(error.text, "child"));
    assert_int_equal(version_of(&store), 0); /* all or nothing: the first has not happened either */
    assert_ok(rs_migrate(&store, migrations, 1, &error), &error);
    assert_refused(rs_migrate(&store, migrations, 2, &error), &error, RS_ERROR_CORRUPT, path);
    assert_int_equal(version_of(&store), 1);
    assert_int_equal(sqlite3_close(store.db), SQLITE_OK);
    assert_int_equal(query_integer(path, "SELECT parent_id FROM child"), 1);
    assert_int_equal(query_integer(path, "SELECT count(*) FROM sqlite_schema WHERE name = 'extra'"), 0);
}

static int ignore_row(void *user, const rs_row *row)
{
    (void)user;
    (void)row;
    return 0;
}

/* Tables that are not as this version knows them (somebody's hand, a version between two releases): SQLite's reason is
 * told, whichever of several statements it belongs to. */
static void other_columns_are_named(void **state)
{
    static const char *const columns[][2] = {
        {"measurement", "repro"}, {"run", "seed"}, {"point", "workload"}, {"build", "git_sha"}};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        char path[PATH_SIZE], sql[128], expected[64];
        rs_error error = {.status = RS_OK};
        in_folder(*state, columns[i][0], path);
        rs_store *store = open_store(path, RS_WRITE);
        int64_t run = begin_run(store);
        begin_measurement(store, run, 64);
        close_store(store);
        sqlite3 *db = NULL;
        snprintf(sql, sizeof sql, "ALTER TABLE %s RENAME COLUMN %s TO other", columns[i][0], columns[i][1]);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        store = open_store(path, RS_READ);
        assert_refused(rs_rows(store, ignore_row, NULL, &error), &error, RS_ERROR_OTHER, path);
        snprintf(expected, sizeof expected, "%s", columns[i][1]);
        if (!strstr(error.text, "no such column") || !strstr(error.text, expected))
            fail_msg("%s", error.text);
        close_store(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_columns_are_named),
        cmocka_unit_test(a_new_file_is_ours_and_whole),
        cmocka_unit_test(writers_use_the_log),
        cmocka_unit_test(odd_names_are_names),
        cmocka_unit_test(a_link_leads_to_the_file),
        cmocka_unit_test(missing_files_and_folders),
        cmocka_unit_test(foreign_files_are_left_alone),
        cmocka_unit_test(newer_files_are_left_alone),
        cmocka_unit_test(truncated_files_are_left_alone),
        cmocka_unit_test(damaged_pages_are_noticed),
        cmocka_unit_test(an_empty_file_is_filled_by_a_writer),
        cmocka_unit_test(a_read_only_folder_is_enough_for_reading),
        cmocka_unit_test(a_log_left_behind_is_read),
        cmocka_unit_test(reading_tidies_up_where_it_may),
        cmocka_unit_test(a_reader_beside_a_writer),
        cmocka_unit_test(migrations_go_step_by_step),
        cmocka_unit_test(files_of_earlier_versions_are_brought_up_to_date),
        cmocka_unit_test(a_migration_may_not_break_references),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
