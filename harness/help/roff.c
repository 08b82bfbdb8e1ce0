/* The man page, in the man macros. Text is escaped so that no word of it is ever a request. */
#include "help/help.h"

#include <string.h>

#include "command/commands.h"
#include "sparge/sparge.h"

/* One line of text: backslashes and hyphens as such, no request at its beginning. */
static void put(const char *text, size_t length, FILE *out)
{
    if (length > 0 && (text[0] == '.' || text[0] == '\''))
        fputs("\\&", out);
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\\')
            fputs("\\e", out);
        else if (text[i] == '-')
            fputs("\\-", out);
        else
            fputc(text[i], out);
    }
}

static void put_string(const char *text, FILE *out)
{
    put(text, strlen(text), out);
}

/* Paragraphs as at sb_help_wrap: .PP between them, lines that begin with a space unfilled. */
static void put_paragraphs(const char *text, FILE *out)
{
    int verbatim = 0;
    while (*text) {
        size_t length = strcspn(text, "\n");
        int now = *text == ' ';
        if (now != verbatim)
            fputs(now ? ".nf\n" : ".fi\n", out);
        verbatim = now;
        if (length == 0) {
            fputs(".PP\n", out);
        } else {
            put(text, length, out);
            fputc('\n', out);
        }
        text += length + (text[length] == '\n');
    }
    if (verbatim)
        fputs(".fi\n", out);
}

static void put_option(const sb_option *option, FILE *out)
{
    fputs(".TP\n", out);
    if (option->letter)
        fprintf(out, "\\fB\\-%c\\fR, ", option->letter);
    fputs("\\fB\\-\\-", out);
    put_string(option->name, out);
    fputs("\\fR", out);
    if (option->value) {
        fputs(" \\fI", out);
        put_string(option->value, out);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    put_paragraphs(option->help, out);
    if (option->default_value) {
        fputs("Default: ", out);
        put_string(option->default_value, out);
        fputs(".\n", out);
    }
    if (option->repeatable)
        fputs("May be given several times.\n", out);
}

static void put_options(const sb_option *options, size_t count, FILE *out)
{
    for (size_t i = 0; i < count; i++) {
        if (options[i].name) {
            put_option(&options[i], out);
        } else {
            fputs(".PP\n\\fI", out);
            put_string(options[i].help, out);
            fputs("\\fR\n", out);
        }
    }
}

static void put_examples(const char *examples, FILE *out)
{
    fputs(".PP\nExamples:\n.PP\n.nf\n.RS\n", out);
    put_paragraphs(examples, out);
    fputs(".RE\n.fi\n", out);
}

static void put_command(const sb_command *command, FILE *out)
{
    fprintf(out, ".SS \"sparge\\-bench %s [OPTION]...%s%s\"\n", command->name, *command->operands ? " " : "",
            command->operands);
    put_paragraphs(command->description, out);
    if (command->shared)
        fputs(".PP\nAlso takes the\n.B OPTIONS THAT NAME POINTS\nbelow.\n", out);
    put_options(command->options, command->option_count, out);
    if (command->examples && *command->examples)
        put_examples(command->examples, out);
}

void sb_manual_roff(FILE *out)
{
    const sb_command *sharing = sb_help_sharing_command();
    fprintf(out,
            ".\\\" Made by \"sparge-bench manual man\".\n"
            ".TH SPARGE\\-BENCH 1 \"\" \"sparge\\-bench %s\" \"User Commands\"\n"
            ".SH NAME\nsparge\\-bench \\- benchmark SpargeAttn and the attentions it is compared with\n"
            ".SH SYNOPSIS\n.B sparge\\-bench\n.I COMMAND\n[\\fIOPTION\\fR]... [\\fIOPERAND\\fR]...\n"
            ".SH DESCRIPTION\n",
            sparge_version());
    put_paragraphs(sb_help_introduction, out);
    fputs(".PP\n\\fBsparge\\-bench\\fR \\fICOMMAND\\fR \\fB\\-\\-help\\fR explains a command.\n.SH COMMANDS\n", out);
    for (size_t i = 0; i < sb_command_count; i++)
        if (!sb_commands[i]->hidden)
            put_command(sb_commands[i], out);
    if (sharing) {
        fputs(".SH OPTIONS THAT NAME POINTS\n", out);
        put_options(sharing->shared, *sharing->shared_count, out);
    }
    fputs(".SH EXIT STATUS\n", out);
    for (size_t i = 0; i < sb_help_exit_code_count; i++)
        fprintf(out, ".TP\n.B %d\n%s\n", sb_help_exit_codes[i].code, sb_help_exit_codes[i].meaning);
    fputs(".SH ENVIRONMENT\n", out);
    for (size_t i = 0; i < sb_help_variable_count; i++)
        fprintf(out, ".TP\n.B %s\n%s\n", sb_help_variables[i].name, sb_help_variables[i].meaning);
    fputs(".SH SEE ALSO\n.BR gnuplot (1),\n.BR sqlite3 (1)\n", out);
}
