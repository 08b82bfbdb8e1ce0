/* The ledger of a results file: which points it holds already, and which of those are still being measured.
 *
 * A sweep that runs holds a lock on the file for its run. The kernel drops it with the process, however that ends, so a
 * measurement left "running" is known to be abandoned when nobody holds the lock of its run. */
#ifndef HARNESS_LEDGER_H
#define HARNESS_LEDGER_H

#include "store.h"

typedef struct sb_ledger_entry {
    char key[65]; /* of the point */
    int64_t measurement_id, run_id;
    rs_outcome outcome;
    int same_build;  /* measured by the program that is running now */
    int run_is_open; /* its run has not been ended */
} sb_ledger_entry;

typedef struct sb_ledger {
    sb_ledger_entry *entry; /* one for each point: a finished measurement before an unfinished one, then the newest */
    size_t count;
    int64_t newest; /* the largest measurement id seen */
} sb_ledger;

/* Reads the measurements of runs >= since. binary_sha256 is the running program's. */
rs_status sb_ledger_load(rs_store *store, int64_t since, const char *binary_sha256, sb_ledger *ledger, rs_error *error);
void sb_ledger_release(sb_ledger *ledger);
const sb_ledger_entry *sb_ledger_find(const sb_ledger *ledger, const char *key); /* NULL if there is none */

int sb_outcome_is_finished(rs_outcome outcome); /* done, skipped, failed or unmeasured */

/* The lock of a run. Open it after rs_open and close it after rs_close: closing any descriptor of the file takes
 * SQLite's own locks away. */
typedef struct sb_run_lock {
    int file; /* -1: not open */
} sb_run_lock;
int sb_run_lock_open(const char *path, sb_run_lock *lock); /* 0, or -1 with errno */
void sb_run_lock_close(sb_run_lock *lock);
int sb_run_lock_take(sb_run_lock *lock, int64_t run_id); /* 0, or -1 with errno */
/* Does a living process hold the lock of this run? Not asked about the own run. */
int sb_run_lock_is_held(const sb_run_lock *lock, int64_t run_id);

/* Ends the runs of this host that nobody holds the lock of: killed processes left them open. A run that is between its
 * beginning and its lock is taken for one of them, and puts that right when it ends. */
rs_status sb_runs_abandon(rs_store *store, const sb_run_lock *lock, const char *host, rs_error *error);

#endif
