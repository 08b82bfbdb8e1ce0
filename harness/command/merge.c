/* merge: several results files into one. */
#include <sys/stat.h>

#include "cli/database.h"
#include "cli/output.h"
#include "command/commands.h"

static int same_file(const char *a, const char *b)
{
    struct stat at, bt;
    return stat(a, &at) == 0 && stat(b, &bt) == 0 && at.st_dev == bt.st_dev && at.st_ino == bt.st_ino;
}

/* Every input must open before the output is touched. */
static int check_inputs(const sb_arguments *arguments)
{
    const char *out = sb_operand(arguments, 0);
    for (size_t i = 1; i < sb_operand_count(arguments); i++) {
        const char *in = sb_operand(arguments, i);
        if (same_file(out, in))
            return sb_fail(SB_EXIT_USAGE, "'%s' is both the output and an input", in);
        rs_store *store = sb_database_open(in, RS_READ);
        if (!store || sb_database_close(store) != SB_EXIT_OK)
            return SB_EXIT_ENVIRONMENT;
    }
    return SB_EXIT_OK;
}

static int merge_one(rs_store *to, const char *path, an_table *table)
{
    rs_error error = {.status = RS_OK};
    int64_t added = 0, present = 0;
    rs_store *from = sb_database_open(path, RS_READ);
    if (!from)
        return SB_EXIT_ENVIRONMENT;
    int code = SB_EXIT_OK;
    if (rs_merge(to, from, &added, &present, &error) != RS_OK)
        code = sb_fail(SB_EXIT_ENVIRONMENT, "merging '%s': %s", path, error.text);
    if (code == SB_EXIT_OK) {
        code = sb_database_close(from);
    } else {
        rs_close(from, &error); /* the first failure has been told */
    }
    an_table_text(table, path);
    an_table_integer(table, added);
    an_table_integer(table, present);
    return code;
}

static int run(const sb_command *command, const sb_arguments *arguments)
{
    (void)command;
    an_format format;
    int code = sb_output_format(arguments, &format);
    if (code == SB_EXIT_OK)
        code = check_inputs(arguments);
    if (code != SB_EXIT_OK)
        return code;
    an_table *table = an_table_create();
    if (!table)
        return sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for the table");
    an_table_column(table, "file", AN_TEXT);
    an_table_column(table, "runs_added", AN_NUMBER);
    an_table_column(table, "runs_present", AN_NUMBER);
    rs_store *to = sb_database_open(sb_operand(arguments, 0), RS_WRITE);
    code = to ? SB_EXIT_OK : SB_EXIT_ENVIRONMENT;
    for (size_t i = 1; i < sb_operand_count(arguments) && code == SB_EXIT_OK; i++)
        code = merge_one(to, sb_operand(arguments, i), table);
    int closed = sb_database_close(to);
    if (code == SB_EXIT_OK)
        code = closed;
    if (code == SB_EXIT_OK)
        code = sb_output_table(arguments, table, NULL);
    an_table_destroy(table);
    return code;
}

static const sb_option options[] = {SB_FORMAT_OPTION("table")};

const sb_command sb_command_merge = {
    .name = "merge",
    .summary = "copy the runs of several results files into one",
    .operands = "OUT.db IN.db...",
    .operands_min = 2,
    .operands_max = -1,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .description = "Copies every run of the inputs that OUT.db does not have yet; OUT.db is created if it is missing. "
                   "Runs are known by a random identifier, so that merging twice changes nothing.",
    .examples = "sparge-bench merge all.db monday.db tuesday.db",
    .run = run,
    .complete_operands = "files",
};
