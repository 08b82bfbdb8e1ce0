/* Opening a results file: what is not ours, too new or damaged is refused before anything is written. The first bytes
 * tell most of it; then SQLite recovers what a killed writer left, and the same is asked in SQL. */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEADER_BYTES = 100, /* offsets in it: https://sqlite.org/fileformat2.html#the_database_header */
    PAGE_SIZE_AT = 16,
    READ_VERSION_AT = 19,
    USER_VERSION_AT = 60,
    APPLICATION_ID_AT = 68,
    WAL_VERSION = 2
};

/* What is known about the file before SQL touches it. */
typedef struct file_facts {
    char *real_path; /* symbolic links resolved: the side files lie beside the real file */
    char *folder;    /* of real_path */
    int exists;
    int may_write; /* file and folder */
    int has_wal, has_journal;
    int64_t size;
    unsigned char header[HEADER_BYTES];
} file_facts;

static int64_t big_endian_32(const unsigned char *p)
{
    return (int64_t)p[0] << 24 | (int64_t)p[1] << 16 | (int64_t)p[2] << 8 | (int64_t)p[3];
}

static int64_t big_endian_16(const unsigned char *p)
{
    return (int64_t)p[0] << 8 | (int64_t)p[1];
}

static char *join(const char *a, const char *b)
{
    size_t size = strlen(a) + strlen(b) + 1;
    char *text = malloc(size);
    if (text != NULL)
        snprintf(text, size, "%s%s", a, b);
    return text;
}

/* "file:" URI of a path: everything but plain characters is percent-encoded. "./" keeps a relative name such as
 * ":memory:" a file name. */
static char *make_uri(const char *path, const char *query)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
    const char *prefix = path[0] == '/' ? "file://" : "file:./";
    size_t length = strlen(path);
    if (length > SIZE_MAX / 4)
        return NULL;
    size_t size = strlen(prefix) + 3 * length + strlen(query) + 1;
    char *uri = malloc(size);
    if (uri == NULL)
        return NULL;
    size_t used = (size_t)snprintf(uri, size, "%s", prefix);
    for (const char *p = path; *p != '\0'; p++) {
        if (strchr(plain, *p) != NULL)
            uri[used++] = *p;
        else
            used += (size_t)snprintf(uri + used, size - used, "%%%02X", (unsigned)(unsigned char)*p);
    }
    snprintf(uri + used, size - used, "%s", query);
    return uri;
}

static int has_content(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && info.st_size > 0;
}

/* The permissions of `facts->real_path`, its folder and the journals beside it. */
static rs_status look_around_file(const char *path, file_facts *facts, rs_error *error)
{
    const char *slash = strrchr(facts->real_path, '/');
    facts->folder = slash == NULL ? strdup(".") : strndup(facts->real_path, (size_t)(slash - facts->real_path) + 1);
    char *wal = join(facts->real_path, "-wal");
    char *journal = join(facts->real_path, "-journal");
    rs_status status = RS_OK;
    if (facts->folder == NULL || wal == NULL || journal == NULL) {
        status = rs_fail(error, RS_ERROR_OTHER, path, "out of memory");
    } else if (access(facts->folder, F_OK) != 0) {
        status = rs_fail(error, RS_ERROR_NOT_FOUND, path, "no such folder");
    } else {
        facts->may_write = access(facts->folder, W_OK) == 0 && (!facts->exists || access(facts->real_path, W_OK) == 0);
        facts->has_wal = has_content(wal);
        facts->has_journal = has_content(journal);
    }
    free(wal);
    free(journal);
    return status;
}

/* Reads the header through SQLite: closing a descriptor of our own would drop the locks that other connections of this
 * process hold on the file. No lock is taken and no journal is looked at. */
static rs_status read_header(const char *path, file_facts *facts, rs_error *error)
{
    char *uri = make_uri(facts->real_path, "?mode=ro");
    if (uri == NULL)
        return rs_fail(error, RS_ERROR_OTHER, path, "out of memory");
    sqlite3 *db = NULL;
    sqlite3_file *file = NULL;
    sqlite3_int64 size = 0;
    int code = sqlite3_open_v2(uri, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    free(uri);
    if (code == SQLITE_OK)
        code = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (code == SQLITE_OK)
        code = file->pMethods->xFileSize(file, &size);
    if (code == SQLITE_OK && size >= HEADER_BYTES)
        code = file->pMethods->xRead(file, facts->header, HEADER_BYTES, 0);
    int os_error = db != NULL ? sqlite3_system_errno(db) : 0;
    sqlite3_close(db);
    if (code != SQLITE_OK)
        return rs_fail(error, RS_ERROR_OTHER, path, "cannot be read: %s",
                       os_error != 0 ? strerror(os_error) : sqlite3_errstr(code));
    return RS_OK;
}

static rs_status look_at_file(const char *path, rs_mode mode, file_facts *facts, rs_error *error)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        if (errno != ENOENT)
            return rs_fail(error, RS_ERROR_OTHER, path, "cannot be opened: %s", strerror(errno));
        if (mode == RS_READ)
            return rs_fail(error, RS_ERROR_NOT_FOUND, path, "no such file");
        facts->real_path = strdup(path);
    } else {
        if (!S_ISREG(info.st_mode))
            return rs_fail(error, RS_ERROR_FOREIGN, path, "%s, not a results file",
                           S_ISDIR(info.st_mode) ? "is a folder" : "is not a regular file");
        facts->exists = 1;
        facts->size = info.st_size;
        facts->real_path = realpath(path, NULL);
    }
    if (facts->real_path == NULL)
        return rs_fail(error, RS_ERROR_OTHER, path, "cannot be opened: %s", strerror(errno));
    rs_status status = look_around_file(path, facts, error);
    return status == RS_OK && facts->exists ? read_header(path, facts, error) : status;
}

static rs_status refuse_version(const char *path, int64_t version, rs_error *error)
{
    return rs_fail(error, RS_ERROR_NEWER, path, "written by a newer version (schema %lld, this program knows up to %d)",
                   (long long)version, rs_migration_count);
}

/* Refuses what is not ours or not whole without touching it. A rollback journal means that the header may be half-written: SQLite
 * has to put it right first, and the same questions are asked again in SQL. */
static rs_status check_header(const char *path, rs_mode mode, const file_facts *facts, rs_error *error)
{
    if (!facts->exists || facts->has_journal || (facts->size == 0 && mode == RS_WRITE))
        return RS_OK;
    if (facts->size == 0)
        return rs_fail(error, RS_ERROR_FOREIGN, path, "is empty, not a results file");
    if (memcmp(facts->header, "SQLite format 3", 16) != 0)
        return rs_fail(error, RS_ERROR_FOREIGN, path, "not a SQLite file, so not a results file");
    if (big_endian_32(facts->header + APPLICATION_ID_AT) != RS_APPLICATION_ID)
        return rs_fail(error, RS_ERROR_FOREIGN, path, "a SQLite file of another program, not a results file");
    int64_t version = big_endian_32(facts->header + USER_VERSION_AT);
    if (version > rs_migration_count)
        return refuse_version(path, version, error);
    /* SQLite finds whole pages missing, but fills up the last one with zeros. */
    int64_t page_size = big_endian_16(facts->header + PAGE_SIZE_AT);
    page_size = page_size == 1 ? 65536 : page_size;
    if (!facts->has_wal && (page_size == 0 || facts->size % page_size != 0))
        return rs_fail(error, RS_ERROR_CORRUPT, path, "damaged: cut short after %lld bytes", (long long)facts->size);
    return RS_OK;
}

static const char *uri_query(rs_mode mode, const file_facts *facts)
{
    if (mode == RS_WRITE)
        return "?mode=rwc";
    /* Reading with the right to write lets SQLite recover what a killed writer left, and lets us tidy up at the end. */
    if (facts->may_write)
        return "?mode=rw";
    /* WAL needs side files that cannot be made here; without a -wal the file itself is complete. */
    if (facts->header[READ_VERSION_AT] == WAL_VERSION && !facts->has_wal)
        return "?mode=ro&immutable=1";
    return "?mode=ro";
}

static rs_status connect_store(rs_store *store, const char *uri, rs_error *error)
{
    int flags = SQLITE_OPEN_URI | (store->mode == RS_WRITE ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                                   : store->may_write      ? SQLITE_OPEN_READWRITE
                                                           : SQLITE_OPEN_READONLY);
    int code = sqlite3_open_v2(uri, &store->db, flags, NULL);
    if (store->db == NULL)
        return rs_fail(error, RS_ERROR_OTHER, store->path, "out of memory");
    if (code != SQLITE_OK)
        return rs_fail_sqlite(store, error, code, "opening");
    sqlite3_extended_result_codes(store->db, 1);
    sqlite3_busy_timeout(store->db, RS_BUSY_TIMEOUT_MS);
    return RS_OK;
}

static rs_status count_schema_objects(const rs_store *store, int64_t *count, rs_error *error)
{
    rs_query query;
    rs_query_begin(&query, store, "opening", "SELECT count(*) FROM sqlite_schema");
    *count = rs_step(&query) ? rs_column_integer(&query) : 0;
    return rs_query_end(&query, error);
}

typedef struct identity {
    int64_t application_id, version, objects;
} identity;

/* All of it at one moment, since another process may be creating the file right now. */
static rs_status read_identity(const rs_store *store, identity *found, rs_error *error)
{
    rs_status status = rs_execute(store, "BEGIN", "opening", error);
    if (status != RS_OK)
        return status;
    status = count_schema_objects(store, &found->objects, error);
    if (status == RS_OK)
        status = rs_schema_version(store, &found->application_id, &found->version, error);
    rs_rollback(store); /* nothing was written */
    return status;
}

/* Is it ours, and at a version that we know? *fresh: an empty database, to be filled by the migrations. *is_older: of an
 * earlier version. */
static rs_status check_identity(const rs_store *store, int *fresh, int *is_older, rs_error *error)
{
    identity found;
    rs_status status = read_identity(store, &found, error);
    if (status != RS_OK)
        return status;
    *fresh = found.application_id == 0 && found.version == 0 && found.objects == 0;
    if (*fresh && store->mode == RS_WRITE)
        return RS_OK;
    if (found.application_id != RS_APPLICATION_ID)
        return rs_fail(error, RS_ERROR_FOREIGN, store->path, "%s, not a results file",
                       *fresh ? "is empty" : "a SQLite file of another program");
    if (found.version > rs_migration_count)
        return refuse_version(store->path, found.version, error);
    *is_older = found.version < rs_migration_count;
    return RS_OK;
}

/* A sweep may append for hours: better to learn at its start that the file is damaged. */
static rs_status check_integrity(const rs_store *store, rs_error *error)
{
    rs_query query;
    rs_query_begin(&query, store, "checking the file", "PRAGMA quick_check(1)");
    const char *verdict = rs_step(&query) ? rs_column_text(&query) : NULL;
    int damaged = verdict != NULL && strcmp(verdict, "ok") != 0;
    if (damaged)
        rs_fail(error, RS_ERROR_CORRUPT, store->path, "damaged: %s", verdict);
    rs_status status = rs_query_end(&query, damaged ? NULL : error);
    return damaged ? RS_ERROR_CORRUPT : status;
}

static rs_status prepare_for_writing(const rs_store *store, int fresh, rs_error *error)
{
    rs_status status = fresh ? RS_OK : check_integrity(store, error);
    if (status == RS_OK)
        status = rs_migrate(store, rs_migrations, rs_migration_count, error);
    if (status == RS_OK)
        status = rs_enter_wal_mode(store, error);
    if (status == RS_OK)
        status = rs_execute(store, "PRAGMA foreign_keys = ON", "opening", error);
    return status;
}

/* A file of an earlier version, opened for reading, is read from a copy in memory that is brought up to date; the file stays
 * as it is. Connections of this process can attach the copy by its name. */
static rs_status read_from_a_copy(rs_store *store, rs_error *error)
{
    char uri[64];
    rs_store copy = {.path = store->path, .mode = RS_WRITE};
    snprintf(uri, sizeof uri, "file:/sparge-results-%p?vfs=memdb", (void *)store);
    rs_status status = connect_store(&copy, uri, error);
    if (status == RS_OK) {
        rs_query query;
        rs_query_begin(&query, store, "copying a file of an older version", "VACUUM INTO ?1");
        rs_bind_text(&query, uri);
        rs_step(&query);
        status = rs_query_end(&query, error);
    }
    if (status == RS_OK)
        status = rs_migrate(&copy, rs_migrations, rs_migration_count, error);
    char *read_uri = strdup(uri);
    if (status == RS_OK && read_uri == NULL)
        status = rs_fail(error, RS_ERROR_OTHER, store->path, "out of memory");
    if (status != RS_OK) {
        free(read_uri);
        sqlite3_close(copy.db);
        return status;
    }
    sqlite3_close(store->db);
    free(store->read_uri);
    store->db = copy.db;
    store->read_uri = read_uri;
    store->may_write = 0; /* nothing to tidy up */
    return RS_OK;
}

static rs_status open_with_facts(rs_store *store, const file_facts *facts, rs_error *error)
{
    const char *query = uri_query(store->mode, facts);
    int immutable = strstr(query, "immutable") != NULL;
    char *uri = make_uri(facts->real_path, query);
    store->read_uri = make_uri(facts->real_path, immutable ? query : "?mode=ro");
    store->folder = strdup(facts->folder);
    store->may_write = facts->may_write;
    if (uri == NULL || store->read_uri == NULL || store->folder == NULL) {
        free(uri);
        return rs_fail(error, RS_ERROR_OTHER, store->path, "out of memory");
    }
    rs_status status = connect_store(store, uri, error);
    free(uri);
    int fresh = 0, is_older = 0;
    if (status == RS_OK)
        status = check_identity(store, &fresh, &is_older, error);
    if (status == RS_OK && store->mode == RS_READ && is_older)
        status = read_from_a_copy(store, error);
    if (status == RS_OK && store->mode == RS_READ)
        return rs_execute(store, "PRAGMA query_only = ON", "opening", error);
    return status == RS_OK ? prepare_for_writing(store, fresh, error) : status;
}

rs_status rs_open(const char *path, rs_mode mode, rs_store **out, rs_error *error)
{
    *out = NULL;
    if (path == NULL || path[0] == '\0')
        return rs_fail(error, RS_ERROR_ARGUMENT, "results file", "its path is empty");

    file_facts facts = {0};
    rs_status status = look_at_file(path, mode, &facts, error);
    if (status == RS_OK)
        status = check_header(path, mode, &facts, error);
    if (status == RS_OK && mode == RS_WRITE && !facts.may_write)
        status = rs_fail(error, RS_ERROR_READ_ONLY, path, "cannot be written: the %s is read-only",
                         facts.exists ? "file or its folder" : "folder");
    rs_store *store = NULL;
    if (status == RS_OK) {
        store = calloc(1, sizeof *store);
        if (store != NULL)
            store->path = strdup(path);
        if (store == NULL || store->path == NULL)
            status = rs_fail(error, RS_ERROR_OTHER, path, "out of memory");
    }
    if (status == RS_OK) {
        store->mode = mode;
        status = open_with_facts(store, &facts, error);
    }
    free(facts.real_path);
    free(facts.folder);
    if (status != RS_OK) {
        if (store != NULL)
            rs_free(store);
        return status;
    }
    *out = store;
    return rs_succeed(error);
}
