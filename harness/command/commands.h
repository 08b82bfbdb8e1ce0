/* The commands of sparge-bench. Each is defined in the file of its name. */
#ifndef HARNESS_COMMANDS_H
#define HARNESS_COMMANDS_H

#include "cli/options.h"

extern const sb_command sb_command_sweep;
extern const sb_command sb_command_verify;
extern const sb_command sb_command_similarity;
extern const sb_command sb_command_report;
extern const sb_command sb_command_compare;
extern const sb_command sb_command_export;
extern const sb_command sb_command_merge;
extern const sb_command sb_command_list;
extern const sb_command sb_command_info;
extern const sb_command sb_command_help;
extern const sb_command sb_command_manual;

/* All of them, in the order of help. */
extern const sb_command *const sb_commands[];
extern const size_t sb_command_count;

/* NULL if there is none of this name. */
const sb_command *sb_command_find(const char *name);

#endif
