/* docs/cli.md. A test compares the committed page with what is printed here. */
#include "help/help.h"

#include <string.h>

#include "command/commands.h"

/* Text of a table cell: on one line, with the characters escaped that Markdown would take for markup. */
static void put_cell(const char *text, FILE *out)
{
    for (; *text; text++) {
        if (strchr("\\|<*_`", *text))
            fputc('\\', out);
        fputc(*text == '\n' ? ' ' : *text, out);
    }
}

/* Paragraphs as at sb_help_wrap: lines that begin with a space become code blocks. */
static void put_paragraphs(const char *text, FILE *out)
{
    int verbatim = 0;
    while (*text) {
        size_t length = strcspn(text, "\n");
        int now = *text == ' ';
        if (now != verbatim)
            fputs(now ? "\n```\n" : "```\n", out);
        verbatim = now;
        fprintf(out, "%.*s\n", (int)length, text);
        text += length + (text[length] == '\n');
    }
    if (verbatim)
        fputs("```\n", out);
}

static void put_options(const sb_option *options, size_t count, FILE *out)
{
    int in_table = 0;
    for (size_t i = 0; i < count; i++) {
        const sb_option *option = &options[i];
        if (!option->name) {
            fprintf(out, "\n**%s**\n", option->help);
            in_table = 0;
            continue;
        }
        if (!in_table)
            fputs("\n| option | default | meaning |\n| --- | --- | --- |\n", out);
        in_table = 1;
        fputs("| `", out);
        if (option->letter)
            fprintf(out, "-%c`, `", option->letter);
        fprintf(out, "--%s%s", option->name, option->value ? " " : "");
        for (const char *c = option->value ? option->value : ""; *c; c++)
            fprintf(out, *c == '|' ? "\\|" : "%c", *c);
        fputs("` | ", out);
        if (option->default_value) {
            fputc('`', out);
            fputs(option->default_value, out);
            fputs("` ", out);
        }
        fputs("| ", out);
        put_cell(option->help, out);
        fputs(option->repeatable ? " May be given several times. |\n" : " |\n", out);
    }
}

static void put_command(const sb_command *command, FILE *out)
{
    fprintf(out, "\n## %s\n\n```\nsparge-bench %s [OPTION]...%s%s\n```\n\n", command->name, command->name,
            *command->operands ? " " : "", command->operands);
    put_paragraphs(command->description, out);
    if (command->shared)
        fputs("\nAlso takes the [options that name points](#options-that-name-points).\n", out);
    put_options(command->options, command->option_count, out);
    if (command->examples && *command->examples)
        fprintf(out, "\n```sh\n%s\n```\n", command->examples);
}

void sb_manual_markdown(FILE *out)
{
    const sb_command *sharing = sb_help_sharing_command();
    fputs(
        "# The command line\n\n<!-- Made by `sparge-bench manual markdown`; a test checks that it is current. -->\n\n",
        out);
    fprintf(out, "```\nsparge-bench COMMAND [OPTION]... [OPERAND]...\n```\n\n%s\n", sb_help_introduction);
    fputs("\n| command | |\n| --- | --- |\n", out);
    for (size_t i = 0; i < sb_command_count; i++)
        if (!sb_commands[i]->hidden)
            fprintf(out, "| [%s](#%s) | %s |\n", sb_commands[i]->name, sb_commands[i]->name, sb_commands[i]->summary);
    fputs(
        "\nData goes to standard output; progress, warnings and errors go to standard error, progress only if that is "
        "a terminal. `--help` after a command prints what this page says of it.\n",
        out);
    for (size_t i = 0; i < sb_command_count; i++)
        if (!sb_commands[i]->hidden)
            put_command(sb_commands[i], out);
    if (sharing) {
        fputs("\n## Options that name points\n", out);
        put_options(sharing->shared, *sharing->shared_count, out);
    }
    fputs("\n## Exit codes\n\n| code | meaning |\n| --- | --- |\n", out);
    for (size_t i = 0; i < sb_help_exit_code_count; i++)
        fprintf(out, "| %d | %s |\n", sb_help_exit_codes[i].code, sb_help_exit_codes[i].meaning);
    fputs("\n## Environment\n\n| variable | meaning |\n| --- | --- |\n", out);
    for (size_t i = 0; i < sb_help_variable_count; i++)
        fprintf(out, "| `%s` | %s |\n", sb_help_variables[i].name, sb_help_variables[i].meaning);
}
