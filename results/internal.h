/* What the files of the results store share: the handle, errors, statements, transactions, migrations.
 *
 * A query is a prepared statement with a sticky error: preparing, binding and stepping may be written one after the
 * other, and rs_query_end says whether all of it worked. */
#ifndef RESULTS_INTERNAL_H
#define RESULTS_INTERNAL_H

#include "store.h"

#include <sqlite3.h>

enum {
    RS_APPLICATION_ID = 0x53706242, /* "SpbB": 001_initial.sql sets it */
    RS_BUSY_TIMEOUT_MS = 10000
};

struct rs_store {
    sqlite3 *db;
    char *path;     /* as given: for messages */
    char *read_uri; /* opens the same file for reading: to ATTACH it */
    char *folder;   /* that it lies in */
    rs_mode mode;
    int may_write; /* file and folder are writable: also known of a store opened for reading */
};

/* Columns that are written, read and merged in the same order. */
#define RS_DEVICE_COLUMNS "backend, name, uuid, arch, units, memory_bytes"
#define RS_BUILD_COLUMNS "program_version, git_sha, git_dirty, build_type, compiler, compiler_flags, binary_sha256"
#define RS_RUN_COLUMNS                                                                                                 \
    "started_utc, ended_utc, status, command, host, os, cpu_model, cpu_threads, driver, cuda_runtime, "                \
    "device_code_sha256, power_limit_mw, max_sm_clock_mhz, ecc, persistence, mig, vbios, pci, processes, seed, note"
#define RS_VISIT_COLUMNS                                                                                               \
    "position, kind, timer, started_ns, launches, clock_mhz, memory_clock_mhz, power_mw, temperature_c, energy_mj, "   \
    "power_capped_ns, software_thermal_ns, hardware_thermal_ns, power_braked_ns, flags"
#define RS_POINT_COLUMNS                                                                                               \
    "key, workload, workload_hash, token_order, grid, text_tokens, seed, method, parameters, settings, backend, "      \
    "device, "                                                                                                         \
    "batch, heads_q, heads_kv, seqlen_q, seqlen_k, head_dim, dtype, causal, scale, threads"
#define RS_FACT_COLUMNS                                                                                                \
    "sparsity, sparsity_mg, sparsity_pv, sparsity_basis, pv_unit, block_q, block_k, units_visible, units_qk, "         \
    "units_pv_skipped, dense_ops, executed_ops, workspace_bytes, sim_q, sim_k, error_rows, error_all_rows, rel_l1, "   \
    "rel_l2, cosine, rmse, max_abs, nonfinite"

/* Errors: fills *error (NULL is fine) with "path: text", one line, and returns `status`. */
#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
rs_status
rs_fail(rs_error *error, rs_status status, const char *path, const char *format, ...);
/* From SQLite's last error on the store's connection. `what` was being done: "adding a visit". */
rs_status rs_fail_sqlite(const rs_store *store, rs_error *error, int code, const char *what);
rs_status rs_succeed(rs_error *error);

typedef struct rs_query {
    const rs_store *store;
    const char *what;
    sqlite3_stmt *statement;
    int code;       /* SQLITE_OK, or the first error */
    char text[160]; /* SQLite's words for it: the connection's are those of its last call */
    int parameter;  /* the one bound last */
    int column;     /* the next to be read */
} rs_query;

void rs_query_begin(rs_query *query, const rs_store *store, const char *what, const char *sql);
void rs_bind_text(rs_query *query, const char *value); /* NULL: NULL. The text must live until the step. */
void rs_bind_integer(rs_query *query, int64_t value);
void rs_bind_count(rs_query *query, int64_t value);     /* negative, not known: NULL */
void rs_bind_real(rs_query *query, double value);       /* NAN, not known: NULL */
void rs_bind_unsigned(rs_query *query, uint64_t value); /* decimal text: SQLite's integers are signed */
int rs_step(rs_query *query);                           /* 1: a row; 0: no more, or an error */
void rs_again(rs_query *query);                         /* ready for the next bindings */
const char *rs_column_text(rs_query *query);            /* NULL for NULL; lives until the next step */
int64_t rs_column_integer(rs_query *query);
int64_t rs_column_count(rs_query *query); /* NULL: -1 */
double rs_column_real(rs_query *query);   /* NULL: NAN */
uint64_t rs_column_unsigned(rs_query *query);
rs_status rs_query_end(rs_query *query, rs_error *error); /* releases it */

rs_status rs_execute(const rs_store *store, const char *sql, const char *what, rs_error *error);

/* A write transaction. */
rs_status rs_begin(const rs_store *store, const char *what, rs_error *error);
void rs_rollback(const rs_store *store);
/* Ends it: commits if `status` is RS_OK, else rolls back and keeps the error. A commit that fails has rolled back. */
rs_status rs_finish(const rs_store *store, rs_status status, const char *what, rs_error *error);

/* journal.c */
rs_status rs_enter_wal_mode(const rs_store *store, rs_error *error);
void rs_free(rs_store *store);

/* point_key.c. What a point must be, told by name; `path` is for the message. */
rs_status rs_point_check(const rs_point *point, const char *path, rs_error *error);

/* migrate.c. Brings the schema to version `count`; migration i makes version i + 1. */
typedef struct rs_migration {
    const char *name; /* "001_initial.sql" */
    const char *sql;
} rs_migration;
extern const rs_migration rs_migrations[]; /* made from results/schema/ when the program is built */
extern const int rs_migration_count;
rs_status rs_migrate(const rs_store *store, const rs_migration *migrations, int count, rs_error *error);
rs_status rs_schema_version(const rs_store *store, int64_t *application_id, int64_t *version, rs_error *error);

#endif
