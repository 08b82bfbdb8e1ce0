/* Where a command's data goes: standard output or a file; and in which format. */
#ifndef HARNESS_OUTPUT_H
#define HARNESS_OUTPUT_H

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

/* Writes the table in the format of --format to `path`; NULL or "-" is standard output. `table` may be NULL (out of
 * memory). SB_EXIT_OK, or an exit code after one line on stderr: SB_EXIT_ENVIRONMENT if something did not arrive in the
 * file (what does not arrive on standard output is told by main), or if the file is a database. */
int sb_output_table(const sb_arguments *arguments, const an_table *table, const char *path);

/* Prints the path of the page of a report in `folder`. */
void sb_output_page(const char *folder);

#endif
