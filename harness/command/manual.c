/* manual (hidden): the man page, the completion script and docs/cli.md, for the build and for packagers. */
#include <string.h>

#include "command/commands.h"
#include "help/help.h"

static int run(const sb_command *command, const sb_arguments *arguments)
{
    static const struct {
        const char *name;
        void (*print)(FILE *out);
    } forms[] = {{"man", sb_manual_roff}, {"bash", sb_manual_bash}, {"markdown", sb_manual_markdown}};
    const char *name = sb_operand(arguments, 0);
    (void)command;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (strcmp(forms[i].name, name) == 0) {
            forms[i].print(stdout);
            return SB_EXIT_OK;
        }
    }
    return sb_fail(SB_EXIT_USAGE, "no manual of the form '%s'; there are man, bash and markdown", name);
}

const sb_command sb_command_manual = {
    .name = "manual",
    .summary = "print the man page, the bash completion or docs/cli.md",
    .operands = "man|bash|markdown",
    .operands_min = 1,
    .operands_max = 1,
    .description = "Prints the man page (roff), the completion script for bash, or docs/cli.md, from the tables that "
                   "also parse the command line.",
    .run = run,
    .hidden = 1,
};
