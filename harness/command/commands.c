/* The table of commands. */
#include "command/commands.h"

#include <string.h>

const sb_command *const sb_commands[] = {
    &sb_command_sweep,   &sb_command_verify, &sb_command_similarity, &sb_command_report,
    &sb_command_compare, &sb_command_export, &sb_command_merge,      &sb_command_list,
    &sb_command_info,    &sb_command_help,   &sb_command_manual,
};
const size_t sb_command_count = sizeof sb_commands / sizeof *sb_commands;

const sb_command *sb_command_find(const char *name)
{
    for (size_t i = 0; i < sb_command_count; i++)
        if (strcmp(sb_commands[i]->name, name) == 0)
            return sb_commands[i];
    return NULL;
}
