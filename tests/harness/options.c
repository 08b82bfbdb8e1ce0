/* The command-line parser: every way to write an option, and the message of every mistake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/options.h"
#include "suggest.h"

static const sb_option shared[] = {
    {.help = "Shared"},
    {.name = "method", .value = "LIST", .repeatable = 1, .help = "Methods."},
    {.name = "order", .value = "LIST", .default_value = "row", .help = "Orders."},
};
static const size_t shared_count = sizeof shared / sizeof *shared;
static const sb_option own[] = {
    {.help = "Own"},
    {.name = "order", .value = "LIST", .default_value = "row,hilbert", .help = "Other orders."},
    {.name = "output", .letter = 'o', .value = "FILE", .help = "Output."},
    {.name = "quiet", .letter = 'q', .help = "Quiet."},
    {.name = "verbose", .letter = 'v', .help = "Verbose."},
};

static int run(const sb_command *command, const sb_arguments *arguments)
{
    (void)command;
    (void)arguments;
    return 0;
}

static const sb_command command = {
    .name = "try",
    .summary = "try it",
    .operands = "A [B]",
    .operands_min = 1,
    .operands_max = 2,
    .options = own,
    .option_count = sizeof own / sizeof *own,
    .description = "First paragraph, long enough that it must be wrapped somewhere when the width is small.\n\nSecond.",
    .examples = "sparge-bench try a",
    .run = run,
    .shared = shared,
    .shared_count = &shared_count,
};

/* Parses with stdout and stderr caught in text[2][4096]. */
static sb_arguments *parse_caught(char text[2][4096], int *code, int argc, char **argv)
{
    FILE *streams[2] = {stdout, stderr};
    int saved[2];
    FILE *caught[2];
    for (int i = 0; i < 2; i++) {
        caught[i] = tmpfile();
        assert_non_null(caught[i]);
        fflush(streams[i]);
        saved[i] = dup(i + 1);
        assert_true(dup2(fileno(caught[i]), i + 1) >= 0);
    }
    sb_arguments *arguments = sb_arguments_parse(&command, argc, argv, code);
    for (int i = 0; i < 2; i++) {
        fflush(streams[i]);
        assert_true(dup2(saved[i], i + 1) >= 0);
        close(saved[i]);
        rewind(caught[i]);
        text[i][fread(text[i], 1, 4095, caught[i])] = '\0';
        fclose(caught[i]);
    }
    return arguments;
}

enum { MAX_WORDS = 16 };

/* `words` separated by '|'. The copy stays alive as the arguments point into it. */
typedef struct words {
    char copy[512];
    char *argv[MAX_WORDS];
    int argc;
} words;

static void split(const char *line, words *out)
{
    out->argc = 0;
    snprintf(out->copy, sizeof out->copy, "%s", line);
    for (char *at = out->copy; *line;) {
        assert_true(out->argc < MAX_WORDS);
        out->argv[out->argc++] = at;
        at = strchr(at, '|');
        if (!at)
            break;
        *at++ = '\0';
    }
}

static sb_arguments *parse(const char *line, words *out)
{
    char text[2][4096];
    int code = -1;
    split(line, out);
    sb_arguments *arguments = parse_caught(text, &code, out->argc, out->argv);
    assert_string_equal(text[1], "");
    assert_string_equal(text[0], "");
    assert_non_null(arguments);
    assert_int_equal(code, SB_EXIT_OK);
    return arguments;
}

/* One line on stderr that contains `needle`, exit code 2, nothing on stdout. */
static void refuse(const char *line, const char *needle)
{
    char text[2][4096];
    int code = -1;
    words split_words;
    split(line, &split_words);
    sb_arguments *arguments = parse_caught(text, &code, split_words.argc, split_words.argv);
    assert_null(arguments);
    assert_int_equal(code, SB_EXIT_USAGE);
    assert_string_equal(text[0], "");
    assert_int_equal(strncmp(text[1], "sparge-bench: ", 14), 0);
    if (!strstr(text[1], needle))
        fail_msg("'%s': expected '%s' in '%s'", line, needle, text[1]);
    char *newline = strchr(text[1], '\n');
    assert_non_null(newline);
    assert_int_equal(newline[1], '\0');
}

static void accepts_every_spelling(void **state)
{
    static const char *const lines[] = {
        "--output|x.db|a", "--output=x.db|a", "-o|x.db|a",       "-ox.db|a",
        "a|-qo|x.db",      "-vqox.db|a",      "a|--output|x.db", "--output=old|-o|x.db|a"};
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        words w;
        sb_arguments *arguments = parse(lines[i], &w);
        assert_string_equal(sb_argument(arguments, "output"), "x.db");
        assert_int_equal(sb_operand_count(arguments), 1);
        assert_string_equal(sb_operand(arguments, 0), "a");
        sb_arguments_destroy(arguments);
    }
}

static void keeps_repeated_options_in_order(void **state)
{
    words w;
    sb_arguments *arguments = parse("--method|a|x|--method=b|--method|", &w);
    (void)state;
    assert_int_equal(sb_argument_count(arguments, "method"), 3);
    assert_string_equal(sb_argument_at(arguments, "method", 0), "a");
    assert_string_equal(sb_argument_at(arguments, "method", 1), "b");
    assert_string_equal(sb_argument_at(arguments, "method", 2), "");
    assert_null(sb_argument_at(arguments, "method", 3));
    assert_string_equal(sb_argument(arguments, "method"), "");
    sb_arguments_destroy(arguments);
}

static void tells_flags_defaults_and_absence_apart(void **state)
{
    words w;
    sb_arguments *arguments = parse("-q|a", &w);
    (void)state;
    assert_string_equal(sb_argument(arguments, "quiet"), "");
    assert_int_equal(sb_argument_count(arguments, "quiet"), 1);
    assert_null(sb_argument(arguments, "verbose"));
    assert_null(sb_argument(arguments, "method"));
    assert_string_equal(sb_argument(arguments, "order"), "row,hilbert"); /* its own, not the shared one */
    assert_int_equal(sb_argument_count(arguments, "order"), 0);
    assert_null(sb_argument(arguments, "no-such-option"));
    sb_arguments_destroy(arguments);
}

static void ends_options_at_two_dashes(void **state)
{
    words w;
    sb_arguments *arguments = parse("-|--|--quiet", &w);
    (void)state;
    assert_int_equal(sb_operand_count(arguments), 2);
    assert_string_equal(sb_operand(arguments, 0), "-");
    assert_string_equal(sb_operand(arguments, 1), "--quiet");
    assert_null(sb_operand(arguments, 2));
    assert_null(sb_argument(arguments, "quiet"));
    sb_arguments_destroy(arguments);
    arguments = parse("a|--|--", &w);
    assert_string_equal(sb_operand(arguments, 1), "--");
    sb_arguments_destroy(arguments);
    arguments = parse("--output|--|a", &w); /* a value is a value */
    assert_string_equal(sb_argument(arguments, "output"), "--");
    sb_arguments_destroy(arguments);
}

static void refuses_mistakes_by_name(void **state)
{
    (void)state;
    refuse("--metod=x|a", "unknown option '--metod' of 'try'; did you mean '--method'?");
    refuse("--meth|x|a", "did you mean '--method'?"); /* prefixes are not accepted, only suggested */
    refuse("--zzzzzz|a", "unknown option '--zzzzzz' of 'try'; 'sparge-bench try --help'");
    refuse("--hlep|a", "did you mean '--help'?");
    refuse("-x|a", "unknown option '-x'");
    refuse("-qx|a", "unknown option '-qx'");
    refuse("a|--output", "option '--output' of 'try' needs a value (FILE)");
    refuse("a|-qo", "option '-o' of 'try' needs a value (FILE)");
    refuse("--output|--method=x|a", "needs a value (FILE), but the option '--method=x' follows");
    refuse("--quiet=1|a", "'--quiet' of 'try' takes no value, but '1' was given");
    refuse("", "'try' needs at least A [B]: 0 given");
    refuse("a|b|c", "'try' takes only A [B], but 'c' was given too");
    refuse("--ne\nw|a", "unknown option '--ne w'"); /* still one line */
}

static void quotes_the_command_line(void **state)
{
    words w;
    sb_arguments *arguments = parse("--output|a b|it's|--method=x,y", &w);
    (void)state;
    const char *line = sb_command_line(arguments);
    assert_string_equal(line, "sparge-bench try --output 'a b' 'it'\\''s' --method=x,y");
    /* The shell reads back what was given. */
    char shell[256], read[256];
    snprintf(shell, sizeof shell, "set -- %s; printf '%%s|' \"$@\"", line);
    FILE *pipe = popen(shell, "r");
    assert_non_null(pipe);
    read[fread(read, 1, sizeof read - 1, pipe)] = '\0';
    assert_int_equal(pclose(pipe), 0);
    assert_string_equal(read, "sparge-bench|try|--output|a b|it's|--method=x,y|");
    sb_arguments_destroy(arguments);
}

static void survives_null(void **state)
{
    (void)state;
    assert_null(sb_argument(NULL, "x"));
    assert_int_equal(sb_argument_count(NULL, "x"), 0);
    assert_null(sb_argument_at(NULL, "x", 0));
    assert_int_equal(sb_operand_count(NULL), 0);
    assert_null(sb_operand(NULL, 0));
    assert_null(sb_command_line(NULL));
    sb_arguments_destroy(NULL);
    words w;
    sb_arguments *arguments = parse("a", &w);
    assert_null(sb_argument(arguments, NULL));
    assert_int_equal(sb_argument_count(arguments, NULL), 0);
    sb_arguments_destroy(arguments);
}

static void prints_help_within_the_width(void **state)
{
    static const char *const widths[] = {"40", "60", "80", "200"};
    (void)state;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        char text[2][4096];
        int code = -1;
        char first[] = "--nonsense", second[] = "--help"; /* --help wins over mistakes */
        char *argv[] = {first, second};
        setenv("COLUMNS", widths[i], 1);
        assert_null(parse_caught(text, &code, 2, argv));
        unsetenv("COLUMNS");
        assert_int_equal(code, SB_EXIT_OK);
        assert_string_equal(text[1], "");
        size_t limit = (size_t)atoi(widths[i]) < 100 ? (size_t)atoi(widths[i]) : 100;
        for (char *line = strtok(text[0], "\n"); line; line = strtok(NULL, "\n"))
            assert_in_range(strlen(line), 1, limit);
    }
}

static void lists_each_option_once_in_help(void **state)
{
    char text[2][4096], word[] = "-h";
    char *argv[] = {word};
    int code = -1;
    (void)state;
    assert_null(parse_caught(text, &code, 1, argv));
    static const char *const expected[] = {"Usage: sparge-bench try [OPTION]... A [B]",
                                           "\nShared:\n",
                                           "\nOwn:\n",
                                           "--method LIST",
                                           "-o, --output FILE",
                                           "[default: row,hilbert]",
                                           "[repeatable]",
                                           "\n\nSecond.\n",
                                           "Examples:\n  sparge-bench try a\n"};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (!strstr(text[0], expected[i]))
            fail_msg("'%s' is not in the help:\n%s", expected[i], text[0]);
    const char *order = strstr(text[0], "--order");
    assert_non_null(order);
    assert_null(strstr(order + 1, "--order"));
}

/* Distances by the definition: exhaustive recursion over the last operation. */
static size_t distance_by_recursion(const char *a, size_t n, const char *b, size_t m)
{
    if (n == 0 || m == 0)
        return n + m;
    size_t best = distance_by_recursion(a, n - 1, b, m - 1) + (a[n - 1] != b[m - 1]);
    size_t other = distance_by_recursion(a, n - 1, b, m) + 1;
    best = other < best ? other : best;
    other = distance_by_recursion(a, n, b, m - 1) + 1;
    best = other < best ? other : best;
    if (n > 1 && m > 1 && a[n - 1] == b[m - 2] && a[n - 2] == b[m - 1]) {
        other = distance_by_recursion(a, n - 2, b, m - 2) + 1;
        best = other < best ? other : best;
    }
    return best;
}

static void measures_edit_distance(void **state)
{
    unsigned random = 1;
    (void)state;
    assert_int_equal(sb_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(sb_edit_distance("swepe", "sweep"), 1);
    assert_int_equal(sb_edit_distance("", "abc"), 3);
    for (int round = 0; round < 500; round++) {
        char text[2][8];
        size_t length[2];
        for (int i = 0; i < 2; i++) {
            random = random * 1664525u + 1013904223u;
            length[i] = (random >> 16) % 7;
            for (size_t j = 0; j < length[i]; j++) {
                random = random * 1664525u + 1013904223u;
                text[i][j] = (char)('a' + (random >> 16) % 3);
            }
            text[i][length[i]] = '\0';
        }
        assert_int_equal(sb_edit_distance(text[0], text[1]),
                         distance_by_recursion(text[0], length[0], text[1], length[1]));
    }
}

static void suggests_only_what_is_near(void **state)
{
    (void)state;
    assert_null(sb_nearer("sweep", NULL, "report"));
    assert_string_equal(sb_nearer("swep", NULL, "sweep"), "sweep");
    assert_string_equal(sb_nearer("sweep", "sweet", "sweep"), "sweep");
    assert_string_equal(sb_nearer("exp", "exit", "export"), "export"); /* the beginning counts most */
    assert_null(sb_nearer("x", NULL, "xylophone"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_every_spelling),
        cmocka_unit_test(keeps_repeated_options_in_order),
        cmocka_unit_test(tells_flags_defaults_and_absence_apart),
        cmocka_unit_test(ends_options_at_two_dashes),
        cmocka_unit_test(refuses_mistakes_by_name),
        cmocka_unit_test(quotes_the_command_line),
        cmocka_unit_test(survives_null),
        cmocka_unit_test(prints_help_within_the_width),
        cmocka_unit_test(lists_each_option_once_in_help),
        cmocka_unit_test(measures_edit_distance),
        cmocka_unit_test(suggests_only_what_is_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
