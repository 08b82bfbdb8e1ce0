/* The program in the hands of someone who mistypes: no slip of a command line may cost results that took hours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static int enter_folder(void **state)
{
    (void)state;
    char path[4096];
    snprintf(path, sizeof path, "%s:%s", SPARGE_BENCH_FOLDER, getenv("PATH"));
    setenv("PATH", path, 1);
    strcpy(folder, "/tmp/sb_clumsy_XXXXXX");
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return chdir("/") == 0 ? system(command) : -1;
}

/* The exit code of a shell command in which sparge-bench is the program under test. */
static int shell(const char *command)
{
    int status = system(command);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void make_results(void)
{
    assert_int_equal(
        shell("sparge-bench sweep --backend fake --workload random --seqlen 64 --heads 1 --method dense-f16 "
              "--visits 1 --launches 1 -q --db a.db > made.txt"),
        0);
    assert_int_equal(shell("cp a.db kept.db"), 0);
}

static void exports_do_not_replace_results(void **state)
{
    (void)state;
    make_results();
    assert_int_equal(shell("ln -s a.db link.db && ln a.db hard.db && : > empty && echo old > old.csv"), 0);
    static const char *const targets[] = {"a.db", "./a.db", "link.db", "hard.db", "kept.db"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        char command[128];
        snprintf(command, sizeof command, "sparge-bench export a.db -o %s 2> err", targets[i]);
        assert_int_equal(shell(command), 3);
        assert_int_equal(shell("cmp a.db kept.db && grep -q 'it is a database' err && test $(wc -l < err) = 1"), 0);
    }
    assert_int_equal(shell("sparge-bench export a.db -o empty && sparge-bench export a.db -o old.csv && "
                           "sparge-bench export a.db -o new.csv && cmp old.csv new.csv && cmp empty new.csv && "
                           "test $(wc -l < new.csv) = 2"),
                     0);
}

/* A closed stream's number goes to the next file that is opened: nothing that is printed may land in it. */
static void closed_streams_spill_into_no_file(void **state)
{
    (void)state;
    make_results();
    assert_int_equal(shell("sparge-bench export a.db -o whole.csv"), 0);
    assert_int_equal(shell("sparge-bench export a.db -o closed.csv <&- >&- 2>&-"), 0);
    assert_int_equal(shell("cmp whole.csv closed.csv"), 0);
    assert_int_equal(shell("sparge-bench export a.db >&- 2> err"), 3);
    assert_int_equal(shell("grep -q 'cannot write to standard output' err"), 0);
    /* The database would be stdout or stderr, were SQLite not as careful by itself. */
    assert_int_equal(
        shell("sparge-bench sweep --backend fake --workload random --seqlen 64 --heads 1 --method dense-f16 "
              "--visits 1 --launches 1 --db b.db <&- >&- 2>&-"),
        3);
    assert_int_equal(shell("sparge-bench export b.db > b.csv && test $(wc -l < b.csv) = 2"), 0);
    /* Nothing may be open at 0 to 2 that can be written to by accident. */
    assert_int_equal(shell("sparge-bench report a.db -o r --gnuplot /nowhere <&- >&- 2>&-"), 3);
    assert_int_equal(shell("head -n 1 r/index.html | grep -qx '<!DOCTYPE html>' && tail -n 1 r/index.html | grep -q "
                           "'</html>'"),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(exports_do_not_replace_results, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(closed_streams_spill_into_no_file, enter_folder, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
