/* The ledger's choice among the measurements of a point, and the locks that tell living runs from dead ones. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "measure/measure.h"
#include "plan/ledger.h"

static char path[] = "/tmp/sb_ledger_XXXXXX";
static rs_store *store;
static rs_error error;

static int open_file(void **state)
{
    (void)state;
    strcpy(path, "/tmp/sb_ledger_XXXXXX");
    int file = mkstemp(path);
    if (file < 0)
        return -1;
    close(file);
    unlink(path);
    return rs_open(path, RS_WRITE, &store, &error) == RS_OK ? 0 : -1;
}

static int close_file(void **state)
{
    (void)state;
    int failed = rs_close(store, &error) != RS_OK;
    unlink(path);
    return failed ? -1 : 0;
}

static int64_t begin(const char *binary, const char *host)
{
    int64_t id;
    const rs_run run = {.started_utc = "2026-08-11T12:00:00.000Z",
                        .status = "running",
                        .git_dirty = -1,
                        .binary_sha256 = binary,
                        .host = host,
                        .backend = "cpu",
                        .device_name = "test",
                        .device_units = 1,
                        .device_memory_bytes = -1,
                        .cpu_threads = 1};
    assert_int_equal(rs_run_begin(store, &run, &id, &error), RS_OK);
    return id;
}

static int64_t begin_run(const char *binary)
{
    return begin(binary, NULL);
}

static int64_t begin_run_on(const char *host)
{
    return begin("now", host);
}

static rs_point point_of(int seqlen)
{
    return (rs_point){.workload = "w",
                      .workload_hash = "h",
                      .order = "row",
                      .grid = "",
                      .method = "m",
                      .parameters = "{}",
                      .settings = "",
                      .backend = "cpu",
                      .device = "test",
                      .batch = 1,
                      .heads_q = 1,
                      .heads_kv = 1,
                      .seqlen_q = seqlen,
                      .seqlen_k = seqlen,
                      .head_dim = 64,
                      .dtype = "f16",
                      .causal = "none",
                      .scale = 0.125,
                      .threads = 1};
}

/* A measurement of the point of this length; RS_RUNNING leaves it open. */
static int64_t add(int64_t run, int seqlen, rs_outcome outcome)
{
    const rs_point point = point_of(seqlen);
    int64_t point_id, id;
    assert_int_equal(rs_point_intern(store, &point, &point_id, &error), RS_OK);
    assert_int_equal(rs_measurement_begin(store, run, point_id, "repro", &id, &error), RS_OK);
    if (outcome != RS_RUNNING)
        assert_int_equal(rs_measurement_end(store, id, outcome, "reason", NULL, &error), RS_OK);
    return id;
}

static const sb_ledger_entry *find(const sb_ledger *ledger, int seqlen)
{
    char key[65];
    const rs_point point = point_of(seqlen);
    assert_int_equal(rs_point_key(&point, key, &error), RS_OK);
    return sb_ledger_find(ledger, key);
}

static void finished_measurements_come_first_then_the_newest(void **state)
{
    (void)state;
    sb_ledger ledger;
    int64_t old = begin_run("old"), now = begin_run("now");
    add(old, 1, RS_DONE);
    int64_t newer = add(now, 1, RS_FAILED);
    int64_t finished = add(old, 2, RS_DONE);
    add(now, 2, RS_PARTIAL);
    add(old, 3, RS_PARTIAL);
    int64_t open = add(now, 3, RS_RUNNING);
    int64_t skipped = add(old, 4, RS_SKIPPED);
    assert_int_equal(sb_ledger_load(store, 0, "now", &ledger, &error), RS_OK);
    assert_int_equal(ledger.count, 4);
    assert_int_equal(ledger.newest, skipped);
    assert_int_equal(find(&ledger, 1)->measurement_id, newer);
    assert_int_equal(find(&ledger, 1)->outcome, RS_FAILED);
    assert_true(find(&ledger, 1)->same_build);
    assert_int_equal(find(&ledger, 2)->measurement_id, finished);
    assert_false(find(&ledger, 2)->same_build);
    assert_int_equal(find(&ledger, 3)->measurement_id, open);
    assert_int_equal(find(&ledger, 3)->run_id, now);
    assert_true(find(&ledger, 3)->run_is_open);
    assert_null(find(&ledger, 5));
    sb_ledger_release(&ledger);
    /* Of the newer run alone */
    assert_int_equal(sb_ledger_load(store, now, "now", &ledger, &error), RS_OK);
    assert_int_equal(ledger.count, 3);
    assert_int_equal(find(&ledger, 2)->outcome, RS_PARTIAL);
    assert_null(find(&ledger, 4));
    assert_int_equal(ledger.newest, skipped);
    sb_ledger_release(&ledger);
    assert_int_equal(rs_run_end(store, now, "done", NULL, &error), RS_OK);
    assert_int_equal(sb_ledger_load(store, 0, "now", &ledger, &error), RS_OK);
    assert_false(find(&ledger, 3)->run_is_open);
    sb_ledger_release(&ledger);
}

static void an_empty_file_has_an_empty_ledger(void **state)
{
    (void)state;
    sb_ledger ledger;
    assert_int_equal(sb_ledger_load(store, 0, "now", &ledger, &error), RS_OK);
    assert_int_equal(ledger.count, 0);
    assert_null(find(&ledger, 1));
    sb_ledger_release(&ledger);
}

static void outcomes_are_finished_or_not(void **state)
{
    (void)state;
    assert_false(sb_outcome_is_finished(RS_RUNNING));
    assert_false(sb_outcome_is_finished(RS_PARTIAL));
    assert_true(sb_outcome_is_finished(RS_DONE));
    assert_true(sb_outcome_is_finished(RS_SKIPPED));
    assert_true(sb_outcome_is_finished(RS_FAILED));
    assert_true(sb_outcome_is_finished(RS_UNMEASURED));
}

/* A process that dies by kill -9 leaves no lock behind. */
static void locks_die_with_their_process(void **state)
{
    (void)state;
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        sb_run_lock theirs;
        int failed = sb_run_lock_open(path, &theirs) != 0 || sb_run_lock_take(&theirs, 7) != 0;
        if (failed || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    sb_run_lock lock;
    assert_int_equal(sb_run_lock_open(path, &lock), 0);
    assert_true(sb_run_lock_is_held(&lock, 7));
    assert_false(sb_run_lock_is_held(&lock, 8));
    assert_int_equal(sb_run_lock_take(&lock, 7), -1);
    assert_int_equal(sb_run_lock_take(&lock, 8), 0);
    /* The store goes on beside it. */
    begin_run("now");
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_false(sb_run_lock_is_held(&lock, 7));
    assert_int_equal(sb_run_lock_take(&lock, 7), 0);
    sb_run_lock_close(&lock);
    close(ready[0]);
    close(ready[1]);
}

typedef struct statuses {
    char of[8][16]; /* of run 1, 2, ... */
    int ended[8];
} statuses;

static int note_status(void *user, const rs_run *run)
{
    statuses *s = user;
    assert_in_range(run->id, 1, 7);
    snprintf(s->of[run->id], sizeof s->of[0], "%s", run->status);
    s->ended[run->id] = run->ended_utc != NULL;
    return 0;
}

/* Only runs that are open, of this host, and whose lock nobody holds. */
static void runs_of_dead_processes_are_ended(void **state)
{
    (void)state;
    statuses s = {0};
    sb_run_lock living, lock;
    int64_t dead = begin_run_on("here"), held = begin_run_on("here"), elsewhere = begin_run_on("there"),
            unknown = begin_run_on(NULL), done = begin_run_on("here");
    assert_int_equal(rs_run_end(store, done, "done", NULL, &error), RS_OK);
    assert_int_equal(sb_run_lock_open(path, &living), 0);
    assert_int_equal(sb_run_lock_take(&living, held), 0);
    assert_int_equal(sb_run_lock_open(path, &lock), 0);
    assert_int_equal(sb_runs_abandon(store, &lock, "here", &error), RS_OK);
    assert_int_equal(rs_runs(store, note_status, &s, &error), RS_OK);
    assert_string_equal(s.of[dead], "partial");
    assert_false(s.ended[dead]); /* nobody knows when */
    assert_string_equal(s.of[held], "running");
    assert_string_equal(s.of[elsewhere], "running");
    assert_string_equal(s.of[unknown], "running");
    assert_string_equal(s.of[done], "done");
    sb_run_lock_close(&living);
    assert_int_equal(sb_runs_abandon(store, &lock, "here", &error), RS_OK);
    assert_int_equal(rs_runs(store, note_status, &s, &error), RS_OK);
    assert_string_equal(s.of[held], "partial");
    assert_string_equal(s.of[done], "done");
    sb_run_lock_close(&lock);
}

int main(void)
{
#define WITH_FILE(test) cmocka_unit_test_setup_teardown(test, open_file, close_file)
    const struct CMUnitTest tests[] = {
        WITH_FILE(finished_measurements_come_first_then_the_newest),
        WITH_FILE(an_empty_file_has_an_empty_ledger),
        cmocka_unit_test(outcomes_are_finished_or_not),
        WITH_FILE(locks_die_with_their_process),
        WITH_FILE(runs_of_dead_processes_are_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
