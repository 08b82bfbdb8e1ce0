/* `sparge-bench --help`, and the facts about the whole program that help, man page and docs share. */
#include "help/help.h"

#include "command/commands.h"

const char *const sb_help_introduction =
    "Measures SpargeAttn and the attentions it is compared with: how fast each is at which sequence length, sparsity "
    "and accuracy, where its time goes, and whether it became slower. Results are kept in one SQLite file, from which "
    "tables, figures and comparisons are made.";

const sb_help_exit_code sb_help_exit_codes[] = {
    {SB_EXIT_OK, "fine"},
    {SB_EXIT_REGRESSION, "a regression, or a failed verification"},
    {SB_EXIT_USAGE, "a mistake on the command line"},
    {SB_EXIT_ENVIRONMENT, "something is missing: a file, a permission, memory, a device, gnuplot"},
    {SB_EXIT_MEASUREMENT, "an invalid measurement"},
    {SB_EXIT_INTERRUPTED, "interrupted"},
};
const size_t sb_help_exit_code_count = sizeof sb_help_exit_codes / sizeof *sb_help_exit_codes;

const sb_help_variable sb_help_variables[] = {
    {"NO_COLOR", "Nothing is ever coloured, with or without it."},
    {"COLUMNS", "Width of the help texts, at most 100; by default the terminal's width."},
};
const size_t sb_help_variable_count = sizeof sb_help_variables / sizeof *sb_help_variables;

void sb_help_overview(int width, FILE *out)
{
    fputs("Usage: sparge-bench COMMAND [OPTION]... [OPERAND]...\n\n", out);
    sb_help_wrap(sb_help_introduction, 0, 0, width, out);
    fputs("\nCommands:\n", out);
    for (size_t i = 0; i < sb_command_count; i++) {
        if (sb_commands[i]->hidden)
            continue;
        int column = fprintf(out, "  %-12s", sb_commands[i]->name);
        sb_help_wrap(sb_commands[i]->summary, 14, column, width, out);
    }
    fputc('\n', out);
    sb_help_wrap("'sparge-bench COMMAND --help' explains a command, 'sparge-bench --version' prints the version.", 0, 0,
                 width, out);
    fputs("\nExit codes:\n", out);
    for (size_t i = 0; i < sb_help_exit_code_count; i++)
        fprintf(out, "  %-4d%s\n", sb_help_exit_codes[i].code, sb_help_exit_codes[i].meaning);
}

const sb_command *sb_help_sharing_command(void)
{
    for (size_t i = 0; i < sb_command_count; i++)
        if (!sb_commands[i]->hidden && sb_commands[i]->shared)
            return sb_commands[i];
    return NULL;
}
