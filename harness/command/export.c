/* export: the measurements of a results file as one table. */
#include <stdlib.h>

#include "cli/database.h"
#include "cli/output.h"
#include "cli/where.h"
#include "command/commands.h"

static int run(const sb_command *command, const sb_arguments *arguments)
{
    (void)command;
    an_rows rows, kept;
    an_format format;
    int code = sb_output_format(arguments, &format); /* before a large file is read in vain */
    if (code == SB_EXIT_OK)
        code = sb_database_rows(sb_operand(arguments, 0), sb_argument(arguments, "all") == NULL, &rows);
    if (code != SB_EXIT_OK)
        return code;
    code = sb_where_apply(arguments, &rows, &kept);
    if (code == SB_EXIT_OK) {
        an_table *table = an_rows_table(&kept);
        code = sb_output_table(arguments, table, sb_argument(arguments, "output"));
        an_table_destroy(table);
        free(kept.row);
    }
    an_rows_release(&rows);
    return code;
}

static const sb_option options[] = {
    SB_FORMAT_OPTION("csv"),
    {.name = "output",
     .letter = 'o',
     .value = "FILE",
     .complete = "files",
     .help = "Write to this file instead of standard output."},
    {.name = "all", .help = "All measurements, not only the newest of each point."},
    {.name = "where",
     .value = "KEY=VALUE[,VALUE]...",
     .repeatable = 1,
     .help = "Only measurements that have one of the values; several --where must all hold. Keys: " SB_WHERE_KEYS
             ". Numbers may be ranges: seqlen=8k..32k."},
};

const sb_command sb_command_export = {
    .name = "export",
    .summary = "print the measurements of a results file as a table",
    .operands = "DB",
    .operands_min = 1,
    .operands_max = 1,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .description = "One row for each measured point, with its times, rates, sparsity, errors and provenance. "
                   "docs/schema.md describes the columns.",
    .examples = "sparge-bench export results.db > results.csv\n"
                "sparge-bench export results.db --format json --where method=dense-f16,sparge-f16 --where seqlen=8k",
    .run = run,
    .complete_operands = "files",
};
