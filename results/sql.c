/* Statements, transactions and errors of the results store: the only place that knows SQLite's result codes. */
#include "internal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void flatten_to_one_line(char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n' || *text == '\r')
            *text = ' ';
    }
}

rs_status rs_succeed(rs_error *error)
{
    if (error != NULL) {
        error->status = RS_OK;
        error->text[0] = '\0';
    }
    return RS_OK;
}

rs_status rs_fail(rs_error *error, rs_status status, const char *path, const char *format, ...)
{
    if (error == NULL)
        return status;
    error->status = status;
    int used = snprintf(error->text, sizeof error->text, "%s: ", path);
    if (used >= 0 && (size_t)used < sizeof error->text) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error->text + used, sizeof error->text - (size_t)used, format, arguments);
        va_end(arguments);
    }
    flatten_to_one_line(error->text);
    return status;
}

/* A failed write is "disk full" also where a quota or a limit on the size of files stopped it. */
static int is_out_of_space(int code, int os_error)
{
    if ((code & 0xff) == SQLITE_FULL)
        return 1;
    return (code & 0xff) == SQLITE_IOERR && (os_error == ENOSPC || os_error == EDQUOT || os_error == EFBIG);
}

static rs_status status_of(int code, int os_error)
{
    if (is_out_of_space(code, os_error))
        return RS_ERROR_FULL;
    switch (code & 0xff) {
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
        return RS_ERROR_ARGUMENT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return RS_ERROR_BUSY;
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return RS_ERROR_READ_ONLY;
    case SQLITE_CORRUPT:
        return RS_ERROR_CORRUPT;
    case SQLITE_NOTADB:
        return RS_ERROR_FOREIGN;
    default:
        return RS_ERROR_OTHER;
    }
}

static rs_status fail_saying(const rs_store *store, rs_error *error, int code, const char *what, const char *text)
{
    int os_error = errno; /* of the call that SQLite saw fail; sqlite3_system_errno knows nothing of failed writes */
    rs_status status = status_of(code, os_error);
    if (code == SQLITE_CONSTRAINT_FOREIGNKEY)
        return rs_fail(error, RS_ERROR_NOT_FOUND, store->path, "%s: it refers to a row that does not exist", what);
    if (code == SQLITE_CONSTRAINT_UNIQUE || code == SQLITE_CONSTRAINT_PRIMARYKEY)
        return rs_fail(error, RS_ERROR_ARGUMENT, store->path, "%s: there is such a row already (%s)", what, text);
    if (status == RS_ERROR_FULL)
        return rs_fail(error, status, store->path, "%s: no space left; what was committed before stands", what);
    if (status == RS_ERROR_BUSY)
        return rs_fail(error, status, store->path, "%s: another process kept the file locked for more than %d s", what,
                       RS_BUSY_TIMEOUT_MS / 1000);
    if (code == SQLITE_READONLY_ROLLBACK || code == SQLITE_READONLY_RECOVERY || code == SQLITE_READONLY_CANTINIT)
        return rs_fail(error, status, store->path,
                       "%s: a killed writer left a journal that a read-only folder keeps from being replayed; copy the "
                       "file and its -wal or -journal to a folder that can be written",
                       what);
    if ((code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN)
        return rs_fail(error, status, store->path, "%s: %s (%s)", what, text, strerror(os_error));
    return rs_fail(error, status, store->path, "%s: %s", what, text);
}

rs_status rs_fail_sqlite(const rs_store *store, rs_error *error, int code, const char *what)
{
    return fail_saying(store, error, code, what, sqlite3_errmsg(store->db));
}

static void keep_error(rs_query *query, int code)
{
    query->code = code;
    snprintf(query->text, sizeof query->text, "%s", sqlite3_errmsg(query->store->db));
}

void rs_query_begin(rs_query *query, const rs_store *store, const char *what, const char *sql)
{
    *query = (rs_query){.store = store, .what = what};
    int code = sqlite3_prepare_v2(store->db, sql, -1, &query->statement, NULL);
    if (code != SQLITE_OK)
        keep_error(query, code);
}

static void bind_null(rs_query *query)
{
    query->parameter++;
    if (query->code == SQLITE_OK)
        query->code = sqlite3_bind_null(query->statement, query->parameter);
}

void rs_bind_text(rs_query *query, const char *value)
{
    if (value == NULL) {
        bind_null(query);
        return;
    }
    query->parameter++;
    if (query->code == SQLITE_OK)
        query->code = sqlite3_bind_text(query->statement, query->parameter, value, -1, SQLITE_STATIC);
}

void rs_bind_integer(rs_query *query, int64_t value)
{
    query->parameter++;
    if (query->code == SQLITE_OK)
        query->code = sqlite3_bind_int64(query->statement, query->parameter, value);
}

void rs_bind_count(rs_query *query, int64_t value)
{
    if (value < 0)
        bind_null(query);
    else
        rs_bind_integer(query, value);
}

void rs_bind_real(rs_query *query, double value)
{
    if (isnan(value)) {
        bind_null(query);
        return;
    }
    query->parameter++;
    if (query->code == SQLITE_OK)
        query->code = sqlite3_bind_double(query->statement, query->parameter, value);
}

void rs_bind_unsigned(rs_query *query, uint64_t value)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, value);
    query->parameter++;
    if (query->code == SQLITE_OK)
        query->code = sqlite3_bind_text(query->statement, query->parameter, digits, length, SQLITE_TRANSIENT);
}

int rs_step(rs_query *query)
{
    if (query->code != SQLITE_OK)
        return 0;
    query->column = 0;
    int code = sqlite3_step(query->statement);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        keep_error(query, code);
    return code == SQLITE_ROW;
}

void rs_again(rs_query *query)
{
    query->parameter = 0;
    if (query->code == SQLITE_OK)
        query->code = sqlite3_reset(query->statement);
}

const char *rs_column_text(rs_query *query)
{
    return (const char *)sqlite3_column_text(query->statement, query->column++);
}

int64_t rs_column_integer(rs_query *query)
{
    return sqlite3_column_int64(query->statement, query->column++);
}

static int next_is_null(const rs_query *query)
{
    return sqlite3_column_type(query->statement, query->column) == SQLITE_NULL;
}

int64_t rs_column_count(rs_query *query)
{
    int unknown = next_is_null(query);
    int64_t value = rs_column_integer(query);
    return unknown ? -1 : value;
}

double rs_column_real(rs_query *query)
{
    int unknown = next_is_null(query);
    double value = sqlite3_column_double(query->statement, query->column++);
    return unknown ? (double)NAN : value;
}

uint64_t rs_column_unsigned(rs_query *query)
{
    const char *digits = rs_column_text(query);
    return digits == NULL ? 0 : strtoull(digits, NULL, 10);
}

rs_status rs_query_end(rs_query *query, rs_error *error)
{
    /* A statement that was not stepped to its end may still fail here. */
    int finalized = sqlite3_finalize(query->statement);
    query->statement = NULL;
    if (query->text[0] != '\0')
        return fail_saying(query->store, error, query->code, query->what, query->text);
    int code = query->code != SQLITE_OK ? query->code : finalized;
    return code == SQLITE_OK ? RS_OK : rs_fail_sqlite(query->store, error, code, query->what);
}

rs_status rs_execute(const rs_store *store, const char *sql, const char *what, rs_error *error)
{
    int code = sqlite3_exec(store->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? RS_OK : rs_fail_sqlite(store, error, code, what);
}

rs_status rs_begin(const rs_store *store, const char *what, rs_error *error)
{
    if (store->mode != RS_WRITE)
        return rs_fail(error, RS_ERROR_READ_ONLY, store->path, "%s: the file was opened for reading", what);
    return rs_execute(store, "BEGIN IMMEDIATE", what, error);
}

void rs_rollback(const rs_store *store)
{
    /* SQLite has already rolled back after some errors, a full disk among them. */
    if (!sqlite3_get_autocommit(store->db))
        sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
}

static rs_status commit(const rs_store *store, const char *what, rs_error *error)
{
    int code = sqlite3_exec(store->db, "COMMIT", NULL, NULL, NULL);
    if (code == SQLITE_OK)
        return rs_succeed(error);
    rs_status status = rs_fail_sqlite(store, error, code, what);
    rs_rollback(store);
    return status;
}

rs_status rs_finish(const rs_store *store, rs_status status, const char *what, rs_error *error)
{
    if (status == RS_OK)
        return commit(store, what, error);
    rs_rollback(store);
    return status;
}
