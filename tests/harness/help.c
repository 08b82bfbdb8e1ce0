/* Help texts: wrapping, and the tables that they are printed from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/commands.h"
#include "help/help.h"

/* What `text` becomes; to be freed. */
static char *wrapped(const char *text, int indent, int column, int width)
{
    char *result = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&result, &size);
    assert_non_null(out);
    sb_help_wrap(text, indent, column, width, out);
    assert_int_equal(fclose(out), 0);
    return result;
}

static void expect(const char *text, int indent, int column, int width, const char *expected)
{
    char *result = wrapped(text, indent, column, width);
    assert_string_equal(result, expected);
    free(result);
}

static void wraps_words(void **state)
{
    (void)state;
    expect("one two three", 0, 0, 7, "one two\nthree\n");
    expect("one two three", 0, 0, 80, "one two three\n");
    expect("one\ntwo\nthree", 0, 0, 80, "one two three\n");
    expect("one two three", 4, 0, 11, "    one two\n    three\n");
    expect("one two three", 4, 2, 11, "  one two\n    three\n");    /* the head of an option stands in the margin */
    expect("one two three", 4, 6, 12, "one\n    two\n    three\n"); /* or reaches beyond it */
    expect("unbreakable word", 2, 0, 5, "  unbreakable\n  word\n");
    expect("\xce\xbb \xcf\x84 \xce\xb8", 0, 0, 5, "\xce\xbb \xcf\x84 \xce\xb8\n"); /* columns, not bytes */
    expect("", 0, 3, 80, "\n");
}

static void keeps_paragraphs_and_verbatim_lines(void **state)
{
    (void)state;
    expect("one\n\ntwo", 2, 0, 80, "  one\n\n  two\n");
    expect("see\n  a  b\n  c\nthen", 2, 0, 80, "  see\n    a  b\n    c\n  then\n");
    expect("see\n\n  verbatim and longer\n\nthen", 0, 0, 8, "see\n\n  verbatim and longer\n\nthen\n");
}

/* Words of random text come out once each, in order, within the width. */
static void loses_no_word(void **state)
{
    uint32_t random = 3;
    (void)state;
    for (int round = 0; round < 300; round++) {
        char text[256] = "";
        size_t length = 0;
        for (int word = 0; word < 20; word++) {
            random = random * 1664525u + 1013904223u;
            int letters = 1 + (int)(random >> 20) % 9;
            for (int i = 0; i < letters; i++)
                text[length++] = (char)('a' + word);
            text[length++] = ' ';
        }
        text[length - 1] = '\0';
        random = random * 1664525u + 1013904223u;
        int indent = (int)(random >> 16) % 8, width = 20 + (int)(random >> 20) % 40;
        char *result = wrapped(text, indent, 0, width);
        char joined[256] = "";
        for (char *line = strtok(result, "\n"); line; line = strtok(NULL, "\n")) {
            assert_in_range(strlen(line), 1, (size_t)width);
            assert_int_equal(strspn(line, " "), (size_t)indent);
            strcat(joined, *joined ? " " : "");
            strcat(joined, line + indent);
        }
        assert_string_equal(joined, text);
        free(result);
    }
}

/* What the table of commands must be for parser, help and completion to work. */
static void checks_the_tables(void **state)
{
    (void)state;
    assert_true(sb_command_count > 8);
    for (size_t i = 0; i < sb_command_count; i++) {
        const sb_command *command = sb_commands[i];
        const sb_option *option, *other;
        assert_ptr_equal(sb_command_find(command->name), command);
        assert_non_null(command->run);
        assert_true(strlen(command->summary) > 10 && strlen(command->summary) <= 80);
        assert_non_null(command->operands);
        assert_non_null(command->description);
        assert_true(command->operands_max < 0 || command->operands_min <= command->operands_max);
        for (size_t j = 0; (option = sb_command_option(command, j)) != NULL; j++) {
            assert_true(strlen(option->help) > 5);
            if (!option->name)
                continue;
            if (strcmp(option->name, "help") == 0 || option->letter == 'h')
                fail_msg("'%s' takes --help or -h for itself", command->name);
            if (option->help[strlen(option->help) - 1] != '.')
                fail_msg("the help of --%s of '%s' is no sentence", option->name, command->name);
            for (size_t k = j + 1; (other = sb_command_option(command, k)) != NULL; k++)
                if (other->name &&
                    (strcmp(option->name, other->name) == 0 || (option->letter && option->letter == other->letter)))
                    fail_msg("--%s and --%s of '%s' clash", option->name, other->name, command->name);
        }
    }
    assert_null(sb_command_find("no-such-command"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wraps_words),
        cmocka_unit_test(keeps_paragraphs_and_verbatim_lines),
        cmocka_unit_test(loses_no_word),
        cmocka_unit_test(checks_the_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
