/* Schema migrations: each brings the file from one user_version to the next and ends with a check of all foreign keys. All
 * that a file lacks are one transaction, so that it is as some version of the program left it, and a new one empty or whole. */
#include "internal.h"

#include <inttypes.h>
#include <stdio.h>

static rs_status pragma_integer(const rs_store *store, const char *sql, int64_t *value, rs_error *error)
{
    rs_query query;
    rs_query_begin(&query, store, "reading the schema's version", sql);
    *value = rs_step(&query) ? rs_column_integer(&query) : 0;
    return rs_query_end(&query, error);
}

rs_status rs_schema_version(const rs_store *store, int64_t *application_id, int64_t *version, rs_error *error)
{
    rs_status status = pragma_integer(store, "PRAGMA application_id", application_id, error);
    if (status == RS_OK)
        status = pragma_integer(store, "PRAGMA user_version", version, error);
    return status;
}

static rs_status check_foreign_keys(const rs_store *store, const char *name, rs_error *error)
{
    rs_query query;
    rs_query_begin(&query, store, name, "PRAGMA foreign_key_check");
    int broken = rs_step(&query);
    const char *table = broken ? rs_column_text(&query) : NULL;
    rs_status status = RS_OK;
    if (broken)
        status = rs_fail(error, RS_ERROR_CORRUPT, store->path, "%s: a row of table %s refers to a row that is missing",
                         name, table != NULL ? table : "?");
    rs_status ended = rs_query_end(&query, broken ? NULL : error);
    return broken ? status : ended;
}

/* Inside a transaction; *applied says whether there was something to do. */
static rs_status apply_next(const rs_store *store, const rs_migration *migrations, int count, int *applied,
                            rs_error *error)
{
    int64_t application_id, version;
    *applied = 0;
    /* Read again: another process may have been here between our look and our lock. */
    rs_status status = rs_schema_version(store, &application_id, &version, error);
    if (status != RS_OK || version >= count)
        return status;

    const rs_migration *next = &migrations[version];
    status = rs_execute(store, next->sql, next->name, error);
    if (status == RS_OK)
        status = check_foreign_keys(store, next->name, error);
    if (status != RS_OK)
        return status;

    char set_version[64];
    snprintf(set_version, sizeof set_version, "PRAGMA user_version = %" PRId64, version + 1);
    *applied = 1;
    return rs_execute(store, set_version, next->name, error);
}

static rs_status apply_all(const rs_store *store, const rs_migration *migrations, int count, rs_error *error)
{
    int applied;
    rs_status status;
    do
        status = apply_next(store, migrations, count, &applied, error);
    while (status == RS_OK && applied);
    return status;
}

rs_status rs_migrate(const rs_store *store, const rs_migration *migrations, int count, rs_error *error)
{
    rs_status status = rs_begin(store, "updating the schema", error);
    if (status != RS_OK)
        return status;
    return rs_finish(store, apply_all(store, migrations, count, error), "updating the schema", error);
}
