/* The write-ahead log, and closing. A file at rest is in rollback-journal mode, so that it is one file and can be read from
 * a read-only folder. A writer creates or migrates the schema in that mode, then turns on WAL, in which readers and
 * writers do not stop each other; whoever closes last turns it off again. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { RETRY_MS = 2, CLOSE_WAIT_MS = 2000 };

/* Asks for a journal mode; *is_set says whether it took effect. Busy is no error here. */
static int set_journal_mode(sqlite3 *db, const char *sql, const char *mode, int *is_set)
{
    sqlite3_stmt *statement = NULL;
    *is_set = 0;
    int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (code == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        *is_set = text != NULL && strcmp(text, mode) == 0;
    }
    int finalized = sqlite3_finalize(statement);
    if (code == SQLITE_OK)
        code = finalized;
    return (code & 0xff) == SQLITE_BUSY ? SQLITE_OK : code;
}

rs_status rs_enter_wal_mode(const rs_store *store, rs_error *error)
{
    int is_wal = 0;
    for (int waited_ms = 0; !is_wal; waited_ms += RETRY_MS) {
        int code = set_journal_mode(store->db, "PRAGMA journal_mode = WAL", "wal", &is_wal);
        if (code != SQLITE_OK)
            return rs_fail_sqlite(store, error, code, "turning on the write-ahead log");
        if (!is_wal && waited_ms >= RS_BUSY_TIMEOUT_MS)
            return rs_fail_sqlite(store, error, SQLITE_BUSY, "turning on the write-ahead log");
        if (!is_wal)
            sqlite3_sleep(RETRY_MS);
    }
    /* In WAL mode NORMAL loses nothing when the process dies, and no consistency when the machine does. */
    return rs_execute(store, "PRAGMA synchronous = NORMAL", "opening", error);
}

void rs_free(rs_store *store)
{
    sqlite3_close_v2(store->db);
    free(store->path);
    free(store->read_uri);
    free(store->folder);
    free(store);
}

/* Two that close at the same moment would each see the other and leave WAL mode on for good. So closing is one at a time:
 * a lock on the folder, which is not among the locks that SQLite uses. A file system without such locks, or somebody who
 * holds it for long, costs no more than that courtesy. */
static int lock_folder(const char *folder)
{
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int waited_ms = 0; descriptor >= 0 && waited_ms < CLOSE_WAIT_MS; waited_ms += RETRY_MS) {
        if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
            break;
        sqlite3_sleep(RETRY_MS);
    }
    return descriptor;
}

rs_status rs_close(rs_store *store, rs_error *error)
{
    if (store == NULL)
        return rs_succeed(error);
    rs_status status = rs_succeed(error);
    int folder_lock = -1;
    if (store->may_write) {
        int is_rollback; /* no: others still use the file, and the last of them will see to it */
        folder_lock = lock_folder(store->folder);
        sqlite3_exec(store->db, "PRAGMA query_only = OFF", NULL, NULL, NULL);
        int code = set_journal_mode(store->db, "PRAGMA journal_mode = DELETE", "delete", &is_rollback);
        /* A reader has what it came for: on a full disk the tidying up is left to the next writer. */
        if (code != SQLITE_OK && store->mode == RS_WRITE)
            status = rs_fail_sqlite(store, error, code, "closing (keep the file and its -wal together)");
    }
    rs_free(store);
    if (folder_lock >= 0)
        close(folder_lock);
    return status;
}
