/* One pass over the measurements, sorted by point; and locks of one byte per run, far behind the end of the file.
 *
 * The locks are Linux's open-file-description locks: unlike POSIX locks they belong to the descriptor, so that neither
 * SQLite nor a second store in this process can drop them. */
#define _GNU_SOURCE
#include "plan/ledger.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int sb_outcome_is_finished(rs_outcome outcome)
{
    return outcome != RS_RUNNING && outcome != RS_PARTIAL;
}

typedef struct loading {
    sb_ledger *ledger;
    size_t capacity;
    int64_t since;
    const char *binary_sha256;
    int failed;
} loading;

static int add_row(void *user, const rs_row *row)
{
    loading *l = user;
    sb_ledger *ledger = l->ledger;
    if (row->measurement_id > ledger->newest)
        ledger->newest = row->measurement_id;
    if (row->run.id < l->since)
        return 0;
    if (ledger->count == l->capacity) {
        size_t larger = l->capacity ? 2 * l->capacity : 256;
        sb_ledger_entry *entry =
            larger <= SIZE_MAX / sizeof *entry ? realloc(ledger->entry, larger * sizeof *entry) : NULL;
        if (!entry) {
            l->failed = 1;
            return 1;
        }
        ledger->entry = entry;
        l->capacity = larger;
    }
    const char *binary = row->run.binary_sha256, *status = row->run.status;
    sb_ledger_entry *entry = &ledger->entry[ledger->count++];
    *entry = (sb_ledger_entry){
        .measurement_id = row->measurement_id,
        .run_id = row->run.id,
        .outcome = row->outcome,
        .same_build = binary && strcmp(binary, l->binary_sha256) == 0,
        .run_is_open = status && strcmp(status, "running") == 0,
    };
    strncpy(entry->key, row->point.key, sizeof entry->key - 1);
    return 0;
}

/* By key; of one key, the entry to keep comes first. */
static int by_key(const void *a, const void *b)
{
    const sb_ledger_entry *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    if (order != 0)
        return order;
    order = sb_outcome_is_finished(y->outcome) - sb_outcome_is_finished(x->outcome);
    if (order != 0)
        return order;
    return (x->measurement_id < y->measurement_id) - (x->measurement_id > y->measurement_id);
}

static int key_only(const void *key, const void *entry)
{
    return strcmp(key, ((const sb_ledger_entry *)entry)->key);
}

rs_status sb_ledger_load(rs_store *store, int64_t since, const char *binary_sha256, sb_ledger *ledger, rs_error *error)
{
    memset(ledger, 0, sizeof *ledger);
    loading l = {.ledger = ledger, .since = since, .binary_sha256 = binary_sha256};
    rs_status status = rs_rows(store, add_row, &l, error);
    if (status == RS_OK && l.failed) {
        *error = (rs_error){.status = RS_ERROR_OTHER, .text = "out of memory for the list of measurements"};
        status = RS_ERROR_OTHER;
    }
    if (status != RS_OK) {
        sb_ledger_release(ledger);
        return status;
    }
    if (ledger->count > 0)
        qsort(ledger->entry, ledger->count, sizeof *ledger->entry, by_key);
    size_t kept = 0;
    for (size_t i = 0; i < ledger->count; i++)
        if (kept == 0 || strcmp(ledger->entry[kept - 1].key, ledger->entry[i].key) != 0)
            ledger->entry[kept++] = ledger->entry[i];
    ledger->count = kept;
    return RS_OK;
}

void sb_ledger_release(sb_ledger *ledger)
{
    free(ledger->entry);
    memset(ledger, 0, sizeof *ledger);
}

const sb_ledger_entry *sb_ledger_find(const sb_ledger *ledger, const char *key)
{
    if (ledger->count == 0)
        return NULL;
    return bsearch(key, ledger->entry, ledger->count, sizeof *ledger->entry, key_only);
}

/* SQLite locks bytes near 2^30; these begin at 2^62. */
static struct flock byte_of(int64_t run_id)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (INT64_C(1) << 62) + run_id, .l_len = 1};
}

int sb_run_lock_open(const char *path, sb_run_lock *lock)
{
    lock->file = open(path, O_RDWR | O_CLOEXEC);
    return lock->file >= 0 ? 0 : -1;
}

void sb_run_lock_close(sb_run_lock *lock)
{
    if (lock->file >= 0)
        close(lock->file);
    lock->file = -1;
}

int sb_run_lock_take(sb_run_lock *lock, int64_t run_id)
{
    struct flock byte = byte_of(run_id);
    return fcntl(lock->file, F_OFD_SETLK, &byte);
}

int sb_run_lock_is_held(const sb_run_lock *lock, int64_t run_id)
{
    struct flock byte = byte_of(run_id);
    return fcntl(lock->file, F_OFD_GETLK, &byte) == 0 && byte.l_type != F_UNLCK;
}

typedef struct left_open {
    const sb_run_lock *lock;
    const char *host;
    int64_t *run;
    size_t count, capacity;
    int failed;
} left_open;

static int note_run(void *user, const rs_run *run)
{
    left_open *l = user;
    if (strcmp(run->status, "running") != 0 || !run->host || strcmp(run->host, l->host) != 0 ||
        sb_run_lock_is_held(l->lock, run->id))
        return 0;
    if (l->count == l->capacity) {
        size_t larger = l->capacity ? 2 * l->capacity : 16;
        int64_t *moved = larger <= SIZE_MAX / sizeof *moved ? realloc(l->run, larger * sizeof *moved) : NULL;
        if (!moved) {
            l->failed = 1;
            return 1;
        }
        l->run = moved;
        l->capacity = larger;
    }
    l->run[l->count++] = run->id;
    return 0;
}

rs_status sb_runs_abandon(rs_store *store, const sb_run_lock *lock, const char *host, rs_error *error)
{
    left_open l = {.lock = lock, .host = host};
    rs_status status = rs_runs(store, note_run, &l, error);
    if (status == RS_OK && l.failed) {
        *error = (rs_error){.status = RS_ERROR_OTHER, .text = "out of memory for the list of runs"};
        status = RS_ERROR_OTHER;
    }
    for (size_t i = 0; i < l.count && status == RS_OK; i++)
        status = rs_run_abandon(store, l.run[i], error);
    free(l.run);
    return status;
}
