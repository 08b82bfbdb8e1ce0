/* Where a command's data goes: standard output or a file; and in which format. */
#ifndef HARNESS_OUTPUT_H
#define HARNESS_OUTPUT_H

#include <stdio.h>

#include "cli/options.h"
#include "table.h"

/* The entry of --format in a command's table, so that it reads the same everywhere. */
#define SB_FORMAT_OPTION(default_format)                                                                               \
    {                                                                                                                  \
        .name = "format", .value = "FORMAT", .default_value = default_format, .complete = "table|md|csv|json|jsonl",   \
        .help = "How tables are written: table, md (Markdown), csv, json or "                                          \
                "jsonl (one object a line)."                                                                           \
    }

/* The format of --format. SB_EXIT_OK, or SB_EXIT_USAGE after one line on stderr. */
int sb_output_format(const sb_arguments *arguments, an_format *format);

/* Opens `path` for writing; NULL or "-" is standard output. NULL after one line on stderr (SB_EXIT_ENVIRONMENT). */
FILE *sb_output_open(const char *path);
/* SB_EXIT_OK, or SB_EXIT_ENVIRONMENT after one line on stderr if anything written to `out` did not arrive. */
int sb_output_close(FILE *out, const char *path);

/* Writes the table to `path` (as at sb_output_open) in the format of --format. `table` may be NULL (out of memory). */
int sb_output_table(const sb_arguments *arguments, const an_table *table, const char *path);

#endif
