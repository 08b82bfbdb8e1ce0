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

/* What is wrong, and the limit, stand behind the value: a long one must not push them out of the line. */
static void long_values_leave_room_for_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *option, *reason;
    } cases[] = {
        {"--seqlen", "too long for a number"}, {"--workload", "list workloads"},
        {"--method", "list methods"},          {"--causal", "none of none, top-left, bottom-right"},
        {"--dtype", "neither f16 nor bf16"},   {"--compat", "neither fixed nor upstream"},
        {"--heads", "too long for a number"},  {"--zip", "this command has"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[256];
        snprintf(command, sizeof command, "sparge-bench sweep --dry-run %s $(printf %%0100000d 1)%s 2> err",
                 cases[i].option, strcmp(cases[i].option, "--zip") == 0 ? ",x" : "");
        assert_int_equal(shell(command), 2);
        snprintf(
            command, sizeof command,
            "test $(wc -l < err) = 1 && test $(wc -c < err) -lt 4200 && grep -q -e '%s' err && grep -q -e '%s' err",
            cases[i].option, cases[i].reason);
        if (shell(command) != 0)
            fail_msg("the error of a long %s does not say \"%s\"", cases[i].option, cases[i].reason);
    }
}

static void filters_know_the_names_of_options(void **state)
{
    (void)state;
    assert_int_equal(
        shell("sparge-bench sweep --backend fake --workload random --seqlen 64 --heads 1 --method dense-f16 "
              "--causal none,causal --visits 1 --launches 1 -q --db c.db > made.txt"),
        0);
    assert_int_equal(shell("sparge-bench export c.db --where causal=causal > a.csv && "
                           "sparge-bench export c.db --where causal=bottom-right > b.csv && cmp a.csv b.csv && "
                           "test $(wc -l < a.csv) = 2"),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(exports_do_not_replace_results, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(long_values_leave_room_for_the_reason, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(filters_know_the_names_of_options, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(closed_streams_spill_into_no_file, enter_folder, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
