/* Command lines as sb_arguments, and what a call writes to stderr. */
#ifndef TESTS_HARNESS_POINT_ARGUMENTS_H
#define TESTS_HARNESS_POINT_ARGUMENTS_H

#include "cli/options.h"

/* Parses a command line that a POSIX shell would split the same way (blanks, single quotes, backslashes outside them).
 * The words live until release_arguments. Fails the test if the command's table refuses it. */
typedef struct test_arguments {
    sb_arguments *arguments;
    char *text; /* the words, one after the other */
    char **word;
    int count;
} test_arguments;
void parse_arguments(const sb_command *command, const char *line, test_arguments *out);
void release_arguments(test_arguments *arguments);

/* Between the two, stderr goes to a file; the text is what came, cut at `size`. */
void capture_stderr(void);
void release_stderr(char *text, size_t size);

#endif
