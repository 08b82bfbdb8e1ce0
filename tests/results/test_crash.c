/* Writers that are killed, that meet each other, and that find the disk full: what had been committed stands, what was
 * under way has not happened, and work goes on. */
#define _GNU_SOURCE /* unshare */
#include "fixture.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SEQLEN = 64 };

/* Children do not use cmocka: they end with an exit code. */
#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, error.text);                   \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static int exit_code_of(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void sleep_us(long us)
{
    const struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

/* Finds or begins the measurement of the point and says how many visits it has. */
static int64_t take_up(rs_store *store, int32_t *visits)
{
    rs_error error = {.status = RS_OK};
    rs_run run = plain_run();
    rs_point point = plain_point(SEQLEN);
    rs_outcome outcome;
    char key[65];
    int64_t id, run_id, point_id;
    REQUIRE(rs_point_key(&point, key, &error) == RS_OK);
    REQUIRE(rs_point_state(store, key, &outcome, &id, visits, &error) == RS_OK);
    if (id != 0)
        return id;
    REQUIRE(rs_run_begin(store, &run, &run_id, &error) == RS_OK);
    REQUIRE(rs_point_intern(store, &point, &point_id, &error) == RS_OK);
    REQUIRE(rs_measurement_begin(store, run_id, point_id, NULL, &id, &error) == RS_OK);
    return id;
}

/* Adds visits until it is killed, and acknowledges each through the pipe. Now and then it closes and opens again. */
static void write_for_ever(const char *path, int acknowledge)
{
    rs_error error = {.status = RS_OK};
    for (;;) {
        rs_store *store;
        int32_t visits;
        REQUIRE(rs_open(path, RS_WRITE, &store, &error) == RS_OK);
        int64_t id = take_up(store, &visits);
        for (int i = 0; i < 25; i++, visits++) {
            REQUIRE(add_visit(store, id, visits, &error) == RS_OK);
            REQUIRE(write(acknowledge, &visits, sizeof visits) == (ssize_t)sizeof visits);
        }
        REQUIRE(rs_close(store, &error) == RS_OK);
    }
}

/* Runs the writer until it has acknowledged `count` visits, and a little longer, and kills it. The number of visits it
 * acknowledged in all; `before` without any. */
static int32_t kill_a_writer(const char *path, int count, long longer_us, int32_t before)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        write_for_ever(path, ends[1]);
    }
    assert_true(child > 0);
    close(ends[1]);
    int32_t acknowledged = before, position;
    for (int killed = 0;;) {
        if (!killed && acknowledged - before >= count) {
            sleep_us(longer_us);
            assert_int_equal(kill(child, SIGKILL), 0);
            killed = 1;
        }
        ssize_t got = read(ends[0], &position, sizeof position);
        if (got == 0)
            break;
        assert_int_equal(got, (ssize_t)sizeof position);
        assert_int_equal(position, acknowledged);
        acknowledged++;
    }
    close(ends[0]);
    assert_int_equal(exit_code_of(child), -SIGKILL);
    return acknowledged;
}

/* Samples of every committed visit are all there: a visit is never half-written. */
static void assert_visits_are_whole(const char *path)
{
    assert_int_equal(query_integer(path, "SELECT count(*) FROM visit WHERE"
                                         " (SELECT count(*) FROM sample WHERE visit_id = visit.id) <> launches"
                                         " OR (SELECT max(ns) FROM sample WHERE visit_id = visit.id)"
                                         " <> 1000 * position + 31"),
                     0);
}

static void a_killed_writer_loses_at_most_the_visit_under_way(void **state)
{
    enum { KILLS = 200, KILLS_PER_FILE = 10 };
    char path[PATH_SIZE], name[32];
    uint64_t random = 1;
    int32_t visits = 0, not_acknowledged = 0, total = 0;
    for (int i = 0; i < KILLS; i++) {
        if (i % KILLS_PER_FILE == 0) {
            snprintf(name, sizeof name, "killed-%d.db", i);
            in_folder(*state, name, path);
            visits = 0;
        }
        /* Every fourth one falls into the opening, for the first of a file into its creation. */
        int count = i % 4 == 0 ? 0 : 1 + (int)(next_random(&random) % 60);
        long longer_us = (long)(next_random(&random) % (count == 0 ? 6000 : 400));
        int32_t acknowledged = kill_a_writer(path, count, longer_us, visits);
        total += acknowledged - visits;
        if (!file_exists(path))
            continue;
        /* Readers and writers both recover. A reader of a file whose creation was killed finds it empty. */
        rs_store *store;
        rs_error error;
        rs_status status = rs_open(path, i % 2 ? RS_WRITE : RS_READ, &store, &error);
        if (i % 2 == 0 && status == RS_ERROR_FOREIGN && acknowledged == 0) {
            visits = 0;
            continue;
        }
        assert_ok(status, &error);
        visits = visits_of(store, SEQLEN, NULL);
        close_store(store);
        assert_in_range(visits, acknowledged, acknowledged + 1);
        not_acknowledged += visits - acknowledged;
        /* A reader may leave the start of a rollback journal that never came into force; a writer leaves nothing. */
        if (i % 2)
            assert_one_sound_file(path);
        else
            assert_int_equal(query_integer(path, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
        assert_visits_are_whole(path);
    }
    assert_true(total > KILLS); /* the writers did get to write */
    print_message("%d kills, %d visits acknowledged, %d committed but not acknowledged\n", KILLS, (int)total,
                  (int)not_acknowledged);
}

/* Waits until the parent closes its end of the pipe. */
static void wait_for(int barrier)
{
    rs_error error = {.status = RS_OK};
    char nothing;
    REQUIRE(read(barrier, &nothing, 1) == 0);
}

static void write_visits(const char *path, int start, int ready, int finish, int count)
{
    rs_error error = {.status = RS_OK};
    rs_store *store;
    int32_t visits = 0;
    rs_run run = plain_run();
    rs_point point = plain_point(SEQLEN);
    int64_t run_id, point_id, id;
    wait_for(start);
    REQUIRE(rs_open(path, RS_WRITE, &store, &error) == RS_OK);
    REQUIRE(rs_run_begin(store, &run, &run_id, &error) == RS_OK);
    REQUIRE(rs_point_intern(store, &point, &point_id, &error) == RS_OK);
    REQUIRE(rs_measurement_begin(store, run_id, point_id, NULL, &id, &error) == RS_OK);
    for (; visits < count; visits++)
        REQUIRE(add_visit(store, id, visits, &error) == RS_OK);
    REQUIRE(rs_measurement_end(store, id, RS_DONE, NULL, NULL, &error) == RS_OK);
    REQUIRE(write(ready, "", 1) == 1);
    wait_for(finish);
    REQUIRE(rs_close(store, &error) == RS_OK);
    _exit(0);
}

/* So many processes at once: they open the file at the same moment, and close it at the same moment. */
static void write_together(const char *path, int processes, int visits)
{
    int start[2], ready[2], finish[2];
    pid_t children[4];
    assert_in_range(processes, 1, 4);
    assert_int_equal(pipe(start) | pipe(ready) | pipe(finish), 0);
    for (int i = 0; i < processes; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            close(start[1]);
            close(ready[0]);
            close(finish[1]);
            write_visits(path, start[0], ready[1], finish[0], visits);
        }
        assert_true(children[i] > 0);
    }
    close(start[0]);
    close(ready[1]);
    close(finish[0]);
    close(start[1]);
    char byte;
    for (int i = 0; i < processes; i++)
        assert_int_equal(read(ready[0], &byte, 1), 1);
    close(finish[1]);
    close(ready[0]);
    for (int i = 0; i < processes; i++)
        assert_int_equal(exit_code_of(children[i]), 0);
}

static void two_writers_both_land(void **state)
{
    char path[PATH_SIZE];
    write_together(in_folder(*state, "two.db", path), 2, 200);
    assert_one_sound_file(path);
    assert_visits_are_whole(path);
    assert_int_equal(query_integer(path, "SELECT count(*) FROM visit"), 400);
    assert_int_equal(query_integer(path, "SELECT count(*) FROM measurement WHERE outcome = 'done'"), 2);
    assert_int_equal(query_integer(path, "SELECT count(*) FROM point"), 1);
    assert_int_equal(query_integer(path, "SELECT count(*) FROM device"), 1);
    assert_int_equal(query_integer(path, "SELECT count(DISTINCT uuid) FROM run"), 2);
}

/* Short lives, so that creation meets creation and closing meets closing. */
static void writers_that_come_and_go_leave_one_file(void **state)
{
    char path[PATH_SIZE], name[32];
    for (int round = 0; round < 30; round++) {
        snprintf(name, sizeof name, "crowd-%d.db", round);
        write_together(in_folder(*state, name, path), 4, 1);
        assert_one_sound_file(path);
        assert_int_equal(query_integer(path, "SELECT count(*) FROM visit"), 4);
    }
}

/* Adds visits until the store says that the disk is full; then more must fail too, and closing must not lose any.
 * Exit code 0: as it should be. The number of visits that were taken goes through the pipe. */
static void fill_up(const char *path, int taken)
{
    rs_error error = {.status = RS_OK};
    rs_store *store;
    int32_t visits;
    REQUIRE(rs_open(path, RS_WRITE, &store, &error) == RS_OK);
    int64_t id = take_up(store, &visits);
    rs_status status = RS_OK;
    while (status == RS_OK && visits < 20000) {
        status = add_visit(store, id, visits, &error);
        visits += status == RS_OK;
    }
    REQUIRE(status == RS_ERROR_FULL);
    REQUIRE(strncmp(error.text, path, strlen(path)) == 0 && strchr(error.text, '\n') == NULL);
    REQUIRE(write(taken, &visits, sizeof visits) == (ssize_t)sizeof visits);
    /* What is there can still be read. */
    int64_t *ns;
    size_t count;
    REQUIRE(rs_samples(store, id, RS_TOTAL, &ns, NULL, &count, &error) == RS_OK);
    REQUIRE(count == 4 * (size_t)visits);
    free(ns);
    status = rs_close(store, &error);
    REQUIRE(status == RS_OK || status == RS_ERROR_FULL);
}

/* After space was found: all that was taken is there, and writing goes on. */
static void go_on(const char *path, int32_t taken)
{
    rs_error error = {.status = RS_OK};
    rs_store *store;
    int32_t visits;
    REQUIRE(rs_open(path, RS_WRITE, &store, &error) == RS_OK);
    int64_t id = take_up(store, &visits);
    REQUIRE(visits == taken);
    REQUIRE(add_visit(store, id, visits, &error) == RS_OK);
    REQUIRE(rs_close(store, &error) == RS_OK);
}

/* Reading asks for no space, neither when it begins nor when it ends. */
static void read_only(const char *path, int32_t taken)
{
    rs_error error = {.status = RS_OK};
    rs_store *store;
    int64_t *ns;
    size_t count;
    REQUIRE(rs_open(path, RS_READ, &store, &error) == RS_OK);
    REQUIRE(rs_samples(store, 1, RS_TOTAL, &ns, NULL, &count, &error) == RS_OK);
    REQUIRE(count == 4 * (size_t)taken);
    free(ns);
    REQUIRE(rs_close(store, &error) == RS_OK);
}

static int32_t receive(int from)
{
    int32_t value = -1;
    assert_int_equal(read(from, &value, sizeof value), (ssize_t)sizeof value);
    return value;
}

static void a_limit_on_file_size_is_a_full_disk(void **state)
{
    char path[PATH_SIZE];
    in_folder(*state, "limited.db", path);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        rs_error error = {.status = RS_OK};
        const struct rlimit limit = {.rlim_cur = 400000, .rlim_max = RLIM_INFINITY};
        REQUIRE(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
        REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        fill_up(path, ends[1]);
        _exit(0);
    }
    assert_int_equal(exit_code_of(child), 0);
    int32_t taken = receive(ends[0]);
    assert_true(taken > 0);
    close(ends[0]);
    close(ends[1]);
    go_on(path, taken);
    assert_one_sound_file(path);
    assert_visits_are_whole(path);
    assert_int_equal(query_integer(path, "SELECT count(*) FROM visit"), taken + 1);
}

/* A disk of `size` of its own, seen by this process only. */
static int mount_small_disk(const char *folder, const char *size)
{
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return 0;
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && mount("tmpfs", folder, "tmpfs", 0, size) == 0;
}

static void fill_small_disk(const char *folder, const char *size)
{
    rs_error error = {.status = RS_OK};
    char path[PATH_SIZE];
    int ends[2];
    int32_t taken;
    if (!mount_small_disk(folder, size))
        _exit(77);
    in_folder(folder, "full.db", path);
    REQUIRE(pipe(ends) == 0);
    fill_up(path, ends[1]);
    REQUIRE(read(ends[0], &taken, sizeof taken) == (ssize_t)sizeof taken);
    REQUIRE(taken > 0);
    read_only(path, taken);
    REQUIRE(mount("tmpfs", folder, "tmpfs", MS_REMOUNT, "size=8m") == 0);
    go_on(path, taken);
    _exit(0);
}

/* Several sizes, so that the end comes in the log, in its index and in the file itself. */
static void a_full_disk_loses_nothing(void **state)
{
    static const char *const sizes[] = {"size=280k", "size=300k", "size=516k", "size=1m"};
    char folder[PATH_SIZE];
    assert_int_equal(mkdir(in_folder(*state, "disk", folder), 0755), 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        pid_t child = fork();
        if (child == 0)
            fill_small_disk(folder, sizes[i]);
        int code = exit_code_of(child);
        if (code == 77) {
            print_message("no mounts here: only the limit on file size is tested\n");
            skip();
        }
        if (code != 0)
            fail_msg("on a disk of %s: exit code %d", sizes[i], code);
    }
}

/* There is no room for even the empty tables. */
static void creating_on_a_full_disk_says_so(void **state)
{
    char path[PATH_SIZE];
    in_folder(*state, "no-room.db", path);
    pid_t child = fork();
    if (child == 0) {
        rs_error error = {.status = RS_OK};
        rs_store *store;
        const struct rlimit limit = {.rlim_cur = 20000, .rlim_max = RLIM_INFINITY};
        REQUIRE(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
        REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        REQUIRE(rs_open(path, RS_WRITE, &store, &error) == RS_ERROR_FULL);
        REQUIRE(store == NULL && strncmp(error.text, path, strlen(path)) == 0);
        _exit(0);
    }
    assert_int_equal(exit_code_of(child), 0);
    close_store(open_store(path, RS_WRITE)); /* and later there is */
    assert_one_sound_file(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_writer_loses_at_most_the_visit_under_way),
        cmocka_unit_test(two_writers_both_land),
        cmocka_unit_test(writers_that_come_and_go_leave_one_file),
        cmocka_unit_test(a_limit_on_file_size_is_a_full_disk),
        cmocka_unit_test(a_full_disk_loses_nothing),
        cmocka_unit_test(creating_on_a_full_disk_says_so),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
