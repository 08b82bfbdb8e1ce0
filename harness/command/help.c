/* help: the overview, or the help of one command. */
#include "help/help.h"

#include "command/commands.h"
#include "suggest.h"

static int run(const sb_command *command, const sb_arguments *arguments)
{
    (void)command;
    const char *name = sb_operand(arguments, 0);
    if (!name) {
        sb_help_overview(sb_help_width(stdout), stdout);
        return SB_EXIT_OK;
    }
    const sb_command *wanted = sb_command_find(name);
    if (!wanted) {
        const char *best = NULL;
        for (size_t i = 0; i < sb_command_count; i++)
            if (!sb_commands[i]->hidden)
                best = sb_nearer(name, best, sb_commands[i]->name);
        return sb_fail(SB_EXIT_USAGE, "no help on '%s': there is no such command%s%s%s", name,
                       best ? "; did you mean '" : "", best ? best : "", best ? "'?" : "");
    }
    sb_help_command(wanted, sb_help_width(stdout), stdout);
    return SB_EXIT_OK;
}

const sb_command sb_command_help = {
    .name = "help",
    .summary = "print the help of a command",
    .operands = "[COMMAND]",
    .operands_max = 1,
    .description = "Prints the list of commands, or what 'sparge-bench COMMAND --help' prints.",
    .examples = "sparge-bench help sweep",
    .run = run,
    .complete_operands = "commands",
};
