/* Command-line options: one table per subcommand, from which parsing, --help, the man page and the shell completion come.
 *
 * Long options with getopt_long semantics (--name value, --name=value, unambiguous prefixes are NOT accepted), a few
 * with a short letter, operands anywhere, "--" ends options. */
#ifndef HARNESS_OPTIONS_H
#define HARNESS_OPTIONS_H

#include <stddef.h>

enum sb_exit { /* exit codes of the program: docs in design.md section 5 */
               SB_EXIT_OK = 0,
               SB_EXIT_REGRESSION = 1, /* a regression or a failed verification */
               SB_EXIT_USAGE = 2,
               SB_EXIT_ENVIRONMENT = 3,
               SB_EXIT_MEASUREMENT = 4,
               SB_EXIT_INTERRUPTED = 130
};

typedef struct sb_arguments sb_arguments; /* the parsed command line */

/* An entry without a name is a heading for the options that follow it; its help is the heading's text. */
typedef struct sb_option {
    const char *name;          /* "seqlen": long option without dashes */
    char letter;               /* 'o', or 0 */
    const char *value;         /* placeholder, "RANGE"; NULL = a flag */
    const char *default_value; /* shown in help and returned when not given; NULL = none */
    const char *complete;      /* what completion offers: "methods", "workloads", "orders", "backends",
                                  "parameters", "files", "folders", "a|b|c", or NULL */
    int repeatable;
    const char *help; /* one or two sentences */
} sb_option;

typedef struct sb_command {
    const char *name;
    const char *summary;            /* one line, for the list of commands */
    const char *operands;           /* "A.db B.db", "" if none */
    int operands_min, operands_max; /* -1 = any number */
    const sb_option *options;       /* without --help, which every command has */
    size_t option_count;
    const char *description; /* paragraphs for --help and the man page */
    const char *examples;    /* one command per line */
    int (*run)(const struct sb_command *command, const sb_arguments *arguments);
    const sb_option *shared;       /* options that several commands have (sb_point_options), shown first; or NULL */
    const size_t *shared_count;    /* where their number is; NULL if shared is */
    int hidden;                    /* not in help, man page or completion */
    const char *complete_operands; /* as sb_option.complete, or "commands" */
} sb_command;

/* The option at `index`, shared ones first, headings included; NULL past the end. An option of the command's own table
 * replaces the shared one of the same name. */
const sb_option *sb_command_option(const sb_command *command, size_t index);

/* The last value given, else the default, else NULL. For flags: "" if given, else NULL. */
const char *sb_argument(const sb_arguments *arguments, const char *option);
size_t sb_argument_count(const sb_arguments *arguments, const char *option); /* times given */
const char *sb_argument_at(const sb_arguments *arguments, const char *option, size_t index);
size_t sb_operand_count(const sb_arguments *arguments);
const char *sb_operand(const sb_arguments *arguments, size_t index);
/* The whole command line as the user gave it, shell-quoted. */
const char *sb_command_line(const sb_arguments *arguments);

/* Parses argv after the command's name; argv must outlive the result. NULL after printing one line to stderr (exit code SB_EXIT_USAGE) or after
 * printing help to stdout (*exit_code = 0). */
sb_arguments *sb_arguments_parse(const sb_command *command, int argc, char **argv, int *exit_code);
void sb_arguments_destroy(sb_arguments *arguments);

/* "sparge-bench: text" on stderr, one line (control characters become spaces); returns `exit_code`, so that failing is
 * one statement. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
int sb_fail(int exit_code, const char *format, ...);

#endif
