#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "point_arguments.h"

void parse_arguments(const sb_command *command, const char *line, test_arguments *out)
{
    size_t length = strlen(line);
    out->text = calloc(2 * length + 2, 1);
    out->word = calloc(length + 2, sizeof *out->word);
    assert_true(out->text && out->word);
    out->count = 0;
    char *end = out->text;
    for (const char *p = line; *p;) {
        p += strspn(p, " ");
        if (*p == '\0')
            break;
        out->word[out->count++] = end;
        int quoted = 0;
        for (; *p && (quoted || *p != ' '); p++)
            if (*p == '\'')
                quoted = !quoted;
            else if (*p == '\\' && !quoted)
                *end++ = *++p;
            else
                *end++ = *p;
        *end++ = '\0';
    }
    int code;
    out->arguments = sb_arguments_parse(command, out->count, out->word, &code);
    if (!out->arguments)
        fail_msg("the command line was refused: %s", line);
}

void release_arguments(test_arguments *arguments)
{
    sb_arguments_destroy(arguments->arguments);
    free(arguments->text);
    free(arguments->word);
}

static int saved_stderr = -1;
static FILE *captured;

void capture_stderr(void)
{
    fflush(stderr);
    saved_stderr = dup(STDERR_FILENO);
    captured = tmpfile();
    assert_true(saved_stderr >= 0 && captured);
    assert_true(dup2(fileno(captured), STDERR_FILENO) >= 0);
}

void release_stderr(char *text, size_t size)
{
    fflush(stderr);
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    rewind(captured);
    size_t length = fread(text, 1, size - 1, captured);
    text[length] = '\0';
    fclose(captured);
}
