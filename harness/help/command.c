/* `sparge-bench COMMAND --help`. */
#include "help/help.h"

#include <string.h>

enum { OPTION_COLUMN = 26 };

static void print_option(const sb_option *option, int width, FILE *out)
{
    char head[128], text[1024];
    if (option->letter)
        snprintf(head, sizeof head, "  -%c, --%s%s%s", option->letter, option->name, option->value ? " " : "",
                 option->value ? option->value : "");
    else
        snprintf(head, sizeof head, "      --%s%s%s", option->name, option->value ? " " : "",
                 option->value ? option->value : "");
    snprintf(text, sizeof text, "%s%s%s%s%s", option->help, option->default_value ? " [default: " : "",
             option->default_value ? option->default_value : "", option->default_value ? "]" : "",
             option->repeatable ? " [repeatable]" : "");
    int column = fprintf(out, "%s", head);
    if (column > OPTION_COLUMN - 2) {
        fputc('\n', out);
        column = 0;
    }
    sb_help_wrap(text, OPTION_COLUMN, column, width, out);
}

/* One command line, continued in the shell's way before options that do not fit. */
static void print_example(const char *line, size_t length, int width, FILE *out)
{
    size_t i = strcspn(line, " \n");
    size_t column = (size_t)fprintf(out, "  %.*s", (int)i, line);
    while (i < length) {
        size_t end = i + 1; /* up to the next option */
        while (end < length && !(line[end] == ' ' && line[end + 1] == '-'))
            end++;
        if (column + (end - i) + 2 > (size_t)width) {
            fputs(" \\\n     ", out);
            column = 5;
        }
        column += (size_t)fprintf(out, "%.*s", (int)(end - i), line + i);
        i = end;
    }
    fputc('\n', out);
}

static void print_examples(const char *examples, int width, FILE *out)
{
    fputs("\nExamples:\n", out);
    while (*examples) {
        size_t length = strcspn(examples, "\n");
        if (length > 0)
            print_example(examples, length, width, out);
        examples += length + (examples[length] == '\n');
    }
}

void sb_help_command(const sb_command *command, int width, FILE *out)
{
    const sb_option *option;
    int heading = 0;
    char usage[512];
    snprintf(usage, sizeof usage, "Usage: sparge-bench %s [OPTION]... %s", command->name, command->operands);
    sb_help_wrap(usage, 7, 7, width, out);
    fputc('\n', out);
    sb_help_wrap(command->description, 0, 0, width, out);
    for (size_t i = 0; (option = sb_command_option(command, i)) != NULL; i++) {
        if (!option->name) {
            fprintf(out, "\n%s:\n", option->help);
        } else {
            if (!heading)
                fputs("\nOptions:\n", out);
            print_option(option, width, out);
        }
        heading = 1;
    }
    if (!heading)
        fputs("\nOptions:\n", out);
    static const sb_option help = {.name = "help", .letter = 'h', .help = "Print this text."};
    print_option(&help, width, out);
    if (command->examples && *command->examples)
        print_examples(command->examples, width, out);
}
