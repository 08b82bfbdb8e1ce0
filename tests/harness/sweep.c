/* The program itself, in processes of its own: what is left after kill -9 and Ctrl-C, sweeps that write to one file at
 * once, and exit codes. The backend is the scripted one, which can sleep in its launches. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "store.h"

/* Every test works in a new folder below /tmp, where stdout and stderr of its programs are files. */
static char folder[64];

static int enter_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/sb_sweep_XXXXXX");
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return chdir("/") == 0 ? system(command) : -1;
}

/* Starts a shell command in which sparge-bench is the program under test; `output` is the name of its two files. */
static pid_t start(const char *scenario, const char *command, const char *output)
{
    char path[4096], out[128], err[128], line[8192];
    snprintf(path, sizeof path, "%s:%s", SPARGE_BENCH_FOLDER, getenv("PATH"));
    snprintf(out, sizeof out, "%s.out", output);
    snprintf(err, sizeof err, "%s.err", output);
    snprintf(line, sizeof line, "exec %s", command);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    int o = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600), e = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (o < 0 || e < 0 || dup2(o, 1) < 0 || dup2(e, 2) < 0)
        _exit(99);
    setenv("PATH", path, 1);
    setenv("SPARGE_FAKE", scenario, 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    _exit(99);
}

/* The exit code, or minus the signal that ended it. */
static int finish(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int run(const char *scenario, const char *command)
{
    return finish(start(scenario, command, "run"));
}

static void pause_ms(long ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&time, &time) != 0)
        assert_int_equal(errno, EINTR);
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s: no such file", path);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    size_t length = fread(text, 1, (1 << 20) - 1, file);
    assert_true(length < (1 << 20) - 1);
    fclose(file);
    return text;
}

static void assert_text(const char *path, const char *part)
{
    char *text = read_text(path);
    if (!strstr(text, part))
        fail_msg("%s does not hold \"%s\" but\n%s", path, part, text);
    free(text);
}

/* --- what a results file holds --- */

enum { MAX_ROWS = 64 };
typedef struct held {
    int64_t measurement[MAX_ROWS], run[MAX_ROWS];
    char key[MAX_ROWS][65];
    rs_outcome outcome[MAX_ROWS];
    char reason[MAX_ROWS][256];
    char run_status[MAX_ROWS][16];
    int rows;
} held;

static int hold_row(void *user, const rs_row *row)
{
    held *h = user;
    assert_true(h->rows < MAX_ROWS);
    h->measurement[h->rows] = row->measurement_id;
    h->run[h->rows] = row->run.id;
    h->outcome[h->rows] = row->outcome;
    snprintf(h->key[h->rows], sizeof h->key[0], "%s", row->point.key);
    snprintf(h->reason[h->rows], sizeof h->reason[0], "%s", row->reason ? row->reason : "");
    snprintf(h->run_status[h->rows], sizeof h->run_status[0], "%s", row->run.status);
    h->rows++;
    return 0;
}

static rs_store *open_store(const char *path)
{
    rs_store *store;
    rs_error error;
    if (rs_open(path, RS_READ, &store, &error) != RS_OK)
        fail_msg("%s", error.text);
    return store;
}

static held read_rows(const char *path)
{
    held h = {.rows = 0};
    rs_error error;
    rs_store *store = open_store(path);
    assert_int_equal(rs_rows(store, hold_row, &h, &error), RS_OK);
    assert_int_equal(rs_close(store, &error), RS_OK);
    return h;
}

static int count_outcome(const held *h, rs_outcome outcome)
{
    int count = 0;
    for (int i = 0; i < h->rows; i++)
        count += h->outcome[i] == outcome;
    return count;
}

static int keys_differ(const held *h)
{
    for (int i = 0; i < h->rows; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(h->key[i], h->key[j]) == 0)
                return 0;
    return 1;
}

/* `total` samples of whole launches and of attend, in `visits` visits of each kind. */
static void assert_samples(const char *path, int64_t measurement, size_t total, int32_t visits)
{
    rs_store *store = open_store(path);
    rs_error error;
    static const rs_stage stages[] = {RS_TOTAL, RS_ATTEND};
    for (int s = 0; s < 2; s++) {
        int64_t *ns;
        int32_t *visit, seen = 0, last = -1;
        size_t count;
        assert_int_equal(rs_samples(store, measurement, stages[s], &ns, &visit, &count, &error), RS_OK);
        assert_int_equal(count, total);
        for (size_t i = 0; i < count; i++) {
            assert_true(ns[i] > 0 && visit[i] >= last && visit[i] % 2 == s);
            seen += visit[i] != last;
            last = visit[i];
        }
        assert_int_equal(seen, visits);
        free(ns);
        free(visit);
    }
    assert_int_equal(rs_close(store, &error), RS_OK);
}

/* --- kill -9 --- */

static const char six_points[] =
    "sparge-bench sweep --backend fake --threads 1 --workload random --heads 1 --head-dim 64 "
    "--seqlen 64..256 --method dense-f16,sparge-f16 --visits 3 --launches 3 --warmup 1 "
    "--db r.db";

static void killed_sweeps_are_resumed_by_the_same_command(void **state)
{
    (void)state;
    unsigned seed = 20260811;
    int killed = 0;
    int32_t visits_before = 0;
    for (int round = 0; round < 20; round++) {
        pid_t pid = start("sleep_ms=2", six_points, "run");
        seed = seed * 1103515245u + 12345u;
        pause_ms((long)(seed >> 16) % 90);
        kill(pid, SIGKILL);
        int code = finish(pid);
        killed += code == -SIGKILL;
        if (access("r.db", F_OK) != 0)
            continue; /* killed before it made the file */
        /* What was committed stands: the number of visits never goes back. */
        rs_store *store;
        rs_error error;
        if (rs_open("r.db", RS_READ, &store, &error) != RS_OK)
            continue; /* killed while the file was being made: the next sweep must cope */
        held h = {.rows = 0};
        int32_t visits = 0;
        assert_int_equal(rs_rows(store, hold_row, &h, &error), RS_OK);
        for (int i = 0; i < h.rows; i++) {
            rs_outcome outcome;
            int64_t measurement;
            int32_t count;
            assert_int_equal(rs_point_state(store, h.key[i], &outcome, &measurement, &count, &error), RS_OK);
            visits += count;
        }
        assert_int_equal(rs_close(store, &error), RS_OK);
        assert_true(visits >= visits_before);
        visits_before = visits;
    }
    assert_true(killed >= 10);
    assert_int_equal(run("sleep_ms=2", six_points), 0);
    held h = read_rows("r.db");
    assert_int_equal(h.rows, 6);
    assert_true(keys_differ(&h));
    assert_int_equal(count_outcome(&h, RS_DONE), 6);
    for (int i = 0; i < h.rows; i++) {
        assert_samples("r.db", h.measurement[i], 9, 3);
        assert_string_not_equal(h.run_status[i], "running"); /* the killed ones are known to be dead */
    }
    assert_int_equal(access("r.db-wal", F_OK), -1);
    /* And once more: nothing is left to do. */
    assert_int_equal(run("", six_points), 0);
    assert_text("run.err", "6 measured before");
    h = read_rows("r.db");
    assert_int_equal(h.rows, 6);
}

/* --- Ctrl-C --- */

/* Until the program has made its first measurement. */
static void wait_for_measurement(const char *path)
{
    for (int i = 0; i < 500; i++) {
        rs_store *store;
        rs_error error;
        held h = {.rows = 0};
        if (access(path, F_OK) == 0 && rs_open(path, RS_READ, &store, &error) == RS_OK) {
            rs_rows(store, hold_row, &h, &error);
            rs_close(store, &error);
        }
        if (h.rows > 0)
            return;
        pause_ms(10);
    }
    fail_msg("the sweep does not begin");
}

/* The command between "resume with" and the end of the text. */
static void read_resume_command(char *command, size_t size)
{
    char *text = read_text("run.err");
    char *begin = strstr(text, "resume with\n");
    if (!begin)
        fail_msg("no resume command in: %s", text);
    begin += strlen("resume with\n");
    snprintf(command, size, "%.*s", (int)strcspn(begin, "\n"), begin);
    free(text);
}

static void the_first_interrupt_ends_in_order(void **state)
{
    (void)state;
    char command[2048];
    pid_t pid = start("sleep_ms=40", six_points, "run");
    wait_for_measurement("r.db");
    pause_ms(100);
    kill(pid, SIGINT);
    assert_int_equal(finish(pid), 130);
    held h = read_rows("r.db");
    assert_int_equal(count_outcome(&h, RS_PARTIAL), 1);
    assert_string_equal(h.reason[h.rows - 1], "interrupted");
    assert_string_equal(h.run_status[0], "partial");
    assert_int_equal(access("r.db-wal", F_OK), -1);
    int64_t partial = h.measurement[h.rows - 1];
    read_resume_command(command, sizeof command);
    assert_string_equal(command, six_points);
    assert_int_equal(run("", command), 0);
    h = read_rows("r.db");
    assert_int_equal(h.rows, 6);
    assert_int_equal(count_outcome(&h, RS_DONE), 6);
    int continued = 0;
    for (int i = 0; i < h.rows; i++)
        continued += h.measurement[i] == partial;
    assert_int_equal(continued, 1);
}

static void the_second_signal_ends_at_once(void **state)
{
    (void)state;
    pid_t pid = start("sleep_ms=40", six_points, "run");
    wait_for_measurement("r.db");
    /* Two kinds, so that both are delivered however fast they follow each other. */
    kill(pid, SIGINT);
    kill(pid, SIGTERM);
    assert_int_equal(finish(pid), 130);
    char *text = read_text("run.err");
    assert_null(strstr(text, "resume with"));
    free(text);
    assert_int_equal(run("", six_points), 0);
    held h = read_rows("r.db");
    assert_int_equal(count_outcome(&h, RS_DONE), 6);
}

/* An interrupted --fresh is resumed without measuring again what it had measured, nor passing over what was old. */
static void an_interrupted_fresh_sweep_is_resumed(void **state)
{
    (void)state;
    char command[2048];
    assert_int_equal(run("", six_points), 0);
    snprintf(command, sizeof command, "%s --fresh", six_points);
    pid_t pid = start("sleep_ms=10", command, "run");
    for (int i = 0; i < 500 && read_rows("r.db").rows < 8; i++)
        pause_ms(10);
    kill(pid, SIGINT);
    assert_int_equal(finish(pid), 130);
    read_resume_command(command, sizeof command);
    assert_non_null(strstr(command, "--fresh --since 2"));
    assert_int_equal(run("", command), 0);
    held h = read_rows("r.db");
    assert_int_equal(h.rows, 12);
    assert_int_equal(count_outcome(&h, RS_DONE), 12);
}

/* --- several sweeps, one file --- */

static void two_sweeps_share_one_file(void **state)
{
    (void)state;
    static const char base[] =
        "sparge-bench sweep --backend fake --threads 1 --workload random --heads 1 --head-dim 64 "
        "--seqlen 64..256 --visits 3 --launches 2 --db r.db --method ";
    char a[512], b[512];
    snprintf(a, sizeof a, "%sdense-f16,window", base);
    snprintf(b, sizeof b, "%ssparge-f16,xattention", base);
    pid_t first = start("sleep_ms=3", a, "first"), second = start("sleep_ms=3", b, "second");
    assert_int_equal(finish(first), 0);
    assert_int_equal(finish(second), 0);
    held h = read_rows("r.db");
    assert_int_equal(h.rows, 12);
    assert_true(keys_differ(&h));
    assert_int_equal(count_outcome(&h, RS_DONE), 12);
    for (int i = 0; i < h.rows; i++)
        assert_samples("r.db", h.measurement[i], 6, 3);
    assert_int_equal(access("r.db-wal", F_OK), -1);
}

static void a_point_that_another_sweep_measures_is_left_to_it(void **state)
{
    (void)state;
    pid_t first = start("sleep_ms=20", six_points, "first");
    wait_for_measurement("r.db");
    assert_int_equal(run("", six_points), 0);
    assert_text("run.err", "being measured by another sweep");
    held h = read_rows("r.db");
    assert_true(count_outcome(&h, RS_RUNNING) <= 1);
    assert_int_equal(finish(first), 0);
    h = read_rows("r.db");
    assert_int_equal(h.rows, 6);
    assert_int_equal(count_outcome(&h, RS_DONE), 6);
}

/* --- no file is touched, exit codes --- */

static void a_dry_run_writes_nothing(void **state)
{
    (void)state;
    assert_int_equal(
        run("", "sparge-bench sweep --backend fake --seqlen 1k..4k --method all --heads 2 --dry-run --db n.db"), 0);
    assert_int_equal(access("n.db", F_OK), -1);
    assert_text("run.out", "4096");
    assert_text("run.err", "48 points");
    assert_int_equal(run("", six_points), 0);
    struct stat before, after;
    char *bytes = read_text("r.db");
    char command[1024];
    assert_int_equal(stat("r.db", &before), 0);
    snprintf(command, sizeof command, "%s --dry-run", six_points);
    assert_int_equal(run("", command), 0);
    assert_text("run.out", "in the file");
    assert_text("run.err", "0 to measure");
    char *again = read_text("r.db");
    assert_int_equal(stat("r.db", &after), 0);
    assert_int_equal(after.st_size, before.st_size);
    assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
    assert_memory_equal(again, bytes, (size_t)(before.st_size < (1 << 20) - 1 ? before.st_size : (1 << 20) - 1));
    free(bytes);
    free(again);
}

typedef struct exit_case {
    const char *scenario, *command;
    int code;
    const char *expect; /* on stderr */
} exit_case;

#define TINY                                                                                                           \
    "sparge-bench sweep --backend fake --workload random --heads 1 --head-dim 64 --seqlen 64 --visits 1 --launches 1 "

static const exit_case exits[] = {
    {"", TINY "--method dense-f16 --db a.db", 0, "1 done"},
    {"", TINY "--method minference-vs,sta --db b.db", 0, "2 skipped"},
    {"", TINY "--method all --db c.db", 0, "skipped: file: not given"},
    {"poison=window", TINY "--method dense-f16,window,sparge-f16 --db d.db", 4, "failed: output: 1 values are NaN"},
    {"fail=window", TINY "--method dense-f16,window,sparge-f16 --db e.db", 4, "2 done, 1 failed"},
    {"lost=1", TINY "--method dense-f16 --db f.db", 4, "unmeasured: the timer lost"},
    {"zero=1", TINY "--method dense-f16 --db g.db", 4, "unmeasured: the timer gave 0 ns"},
    {"", TINY "--method dense-f16 --max-memory 1k --db h.db", 0, "--max-memory allows 1.0 KiB"},
    {"", TINY "--method dense-f16", 2, "needs --db"},
    {"", TINY "--method dense-f17 --db x.db", 2, "did you mean"},
    {"", TINY "--method dense-f16 --db x.db --visits x", 2, "--visits x"},
    {"", TINY "--method dense-f16 --db x.db --launches 1,2", 2, "takes one number"},
    {"", TINY "--method dense-f16 --db x.db --min-time -1", 2, "--min-time -1"},
    {"", TINY "--method dense-f16 --db x.db --error-rows 0", 2, "--error-rows 0"},
    {"", TINY "--method dense-f16 --db x.db --format yaml", 2, "yaml"},
    {"nonsense", TINY "--method dense-f16 --db x.db", 2, "nonsense"},
    {"", TINY "--backend nope --db x.db", 2, "nope"},
    {"devices=2", TINY "--device 2 --db x.db", 3, "--device 2: this machine has 2 fake devices, numbers 0 to 1"},
    {"", TINY "--device every --db x.db", 2, "--device every"},
    {"", "sparge-bench verify --backend fake --device all", 2, "--device all"},
    {"", TINY "--backend cuda --device 1000 --db x.db", 3, "cuda"},
    {"", TINY "--method dense-f16 --db nowhere/x.db", 3, "nowhere/x.db"},
    {"", TINY "--method dense-f16 --db .", 3, "sparge-bench: "},
    {"", TINY "--method dense-f16 --db /bin/sh", 3, "/bin/sh"},
    {"", "sparge-bench verify --backend fake --method dense-f16 --format csv", 0, "18 checks passed, 0 failed"},
    {"poison=dense-f16", "sparge-bench verify --backend fake --method dense-f16", 1, "9 failed"},
    {"", "sparge-bench verify --method windo", 2, "did you mean 'window'"},
};

static void exit_codes_follow_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof exits / sizeof *exits; i++) {
        int code = run(exits[i].scenario, exits[i].command);
        char *text = read_text("run.err");
        if (code != exits[i].code || !strstr(text, exits[i].expect))
            fail_msg("SPARGE_FAKE=%s %s\nexpected %d and \"%s\", got %d and\n%s", exits[i].scenario, exits[i].command,
                     exits[i].code, exits[i].expect, code, text);
        free(text);
        assert_int_equal(access("x.db", F_OK), -1); /* mistakes make no file */
    }
}

/* A failed point stays failed until it is measured afresh. */
static void failed_points_are_finished_points(void **state)
{
    (void)state;
    assert_int_equal(run("fail=dense-f16", TINY "--method dense-f16,window --db r.db"), 4);
    assert_int_equal(run("", TINY "--method dense-f16,window --db r.db"), 4);
    assert_text("run.err", "2 measured before");
    assert_int_equal(run("", TINY "--method dense-f16,window --db r.db --fresh"), 0);
    assert_int_equal(run("", TINY "--method dense-f16,window --db r.db"), 0);
    held h = read_rows("r.db");
    assert_int_equal(h.rows, 4);
    assert_int_equal(count_outcome(&h, RS_FAILED), 1);
}

static void summaries_are_quiet_where_asked(void **state)
{
    (void)state;
    assert_int_equal(run("", TINY "--method dense-f16,sta --db r.db --quiet --format csv"), 0);
    char *text = read_text("run.err");
    assert_string_equal(text, "");
    free(text);
    text = read_text("run.out");
    assert_non_null(strstr(text, "random,64,dense-f16,"));
    assert_null(strchr(text, '\033'));
    free(text);
}

int main(void)
{
#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(killed_sweeps_are_resumed_by_the_same_command),
        IN_A_FOLDER(the_first_interrupt_ends_in_order),
        IN_A_FOLDER(the_second_signal_ends_at_once),
        IN_A_FOLDER(an_interrupted_fresh_sweep_is_resumed),
        IN_A_FOLDER(two_sweeps_share_one_file),
        IN_A_FOLDER(a_point_that_another_sweep_measures_is_left_to_it),
        IN_A_FOLDER(a_dry_run_writes_nothing),
        IN_A_FOLDER(exit_codes_follow_the_table),
        IN_A_FOLDER(failed_points_are_finished_points),
        IN_A_FOLDER(summaries_are_quiet_where_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
