/* Help, man page, shell completion and docs/cli.md: all printed from the option tables of the commands. */
#ifndef HARNESS_HELP_H
#define HARNESS_HELP_H

#include <stdio.h>

#include "cli/options.h"

/* Columns for text on `out`: COLUMNS if it is set, else the terminal's width, else 80; at most 100, at least 40. */
int sb_help_width(FILE *out);

/* `sparge-bench --help` and `sparge-bench COMMAND --help`. */
void sb_help_overview(int width, FILE *out);
void sb_help_command(const sb_command *command, int width, FILE *out);

/* The same facts for other readers. */
void sb_manual_roff(FILE *out);     /* man page, section 1 */
void sb_manual_bash(FILE *out);     /* completion script */
void sb_manual_markdown(FILE *out); /* docs/cli.md */

/* Text in paragraphs: a blank line ends one, single newlines are spaces, lines that begin with a space are kept as they
 * are. Each line starts with `indent` spaces, except that the first one continues at `column`. Ends with a newline. */
void sb_help_wrap(const char *text, int indent, int column, int width, FILE *out);

/* A command whose shared options stand for those of all, for pages that describe them only once; NULL if there is none.
 * (There is one set of shared options: those that name points.) */
const sb_command *sb_help_sharing_command(void);

/* The program in one paragraph, its exit codes, and the environment variables it reads. */
extern const char *const sb_help_introduction;
typedef struct sb_help_exit_code {
    int code;
    const char *meaning;
} sb_help_exit_code;
extern const sb_help_exit_code sb_help_exit_codes[];
extern const size_t sb_help_exit_code_count;
typedef struct sb_help_variable {
    const char *name, *meaning;
} sb_help_variable;
extern const sb_help_variable sb_help_variables[];
extern const size_t sb_help_variable_count;

#endif
