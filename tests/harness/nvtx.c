/* The ranges that a sweep of the scripted backend leaves with an NVTX tool (nvtx_tool.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#ifdef SPARGE_HAVE_NVTX

enum { DEPTH = 4 };

/* What a range of each depth may be called. */
static int is_named(int depth, const char *name)
{
    static const char *const words[DEPTH][5] = {
        {"run"},
        {"point dense-f16, 256 x 256 tokens", "point sparge-f16 topk=0.5, 256 x 256 tokens"},
        {"visit total", "visit stages"},
        {"total", "prepare", "select", "attend"},
    };
    for (int i = 0; i < 5 && words[depth][i]; i++)
        if (strcmp(words[depth][i], name) == 0)
            return 1;
    return 0;
}

static void ranges_are_nested_as_the_results_are(void **state)
{
    (void)state;
    char folder[] = "/tmp/sb_nvtx_XXXXXX", command[1024], line[512];
    assert_non_null(mkdtemp(folder));
    snprintf(
        command, sizeof command,
        "cd %s && NVTX_INJECTION64_PATH=%s SPARGE_TEST_NVTX_LOG=%s/log %s/sparge-bench sweep --backend fake --seqlen "
        "256"
        " --method dense-f16,sparge-f16 --set topk=0.5 --min-time 0.01 --error-rows none --db r.db >/dev/null 2>&1",
        folder, SPARGE_NVTX_TOOL, folder, SPARGE_BENCH_FOLDER);
    assert_int_equal(system(command), 0);
    snprintf(line, sizeof line, "%s/log", folder);
    FILE *log = fopen(line, "r");
    assert_non_null(log);
    static const char prefix[] = "+ sparge-bench: ";
    int depth = 0, begun[DEPTH] = {0}, totals = 0, stages = 0;
    while (fgets(line, sizeof line, log)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '-') {
            depth--;
            assert_true(depth >= 0);
            continue;
        }
        assert_true(strncmp(line, prefix, strlen(prefix)) == 0 && depth < DEPTH);
        const char *name = line + strlen(prefix);
        if (!is_named(depth, name))
            fail_msg("a range of depth %d is called \"%s\"", depth, name);
        totals += strcmp(name, "total") == 0;
        stages += strcmp(name, "attend") == 0;
        begun[depth++]++;
    }
    fclose(log);
    assert_int_equal(depth, 0);
    assert_int_equal(begun[0], 1);
    assert_int_equal(begun[1], 2);
    assert_true(begun[2] >= 4 && totals > 0 && stages > 0);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranges_are_nested_as_the_results_are)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    printf("skipped: this build found no NVTX header, which comes with the CUDA toolkit\n");
    return 77;
}

#endif
