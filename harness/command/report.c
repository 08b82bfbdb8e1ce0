/* report: figures, tables and a page from a results file. */
#include "cli/database.h"
#include "cli/output.h"
#include "command/commands.h"
#include "report.h"

static int run(const sb_command *command, const sb_arguments *arguments)
{
    (void)command;
    const char *path = sb_operand(arguments, 0);
    const char *out = sb_argument(arguments, "output");
    const an_report_options options = {.title = sb_argument(arguments, "title"),
                                       .gnuplot = sb_argument(arguments, "gnuplot")};
    char text[512] = "";
    if (*out == '\0')
        return sb_fail(SB_EXIT_USAGE, "--output is empty: it names the folder to write");
    rs_store *store = sb_database_open(path, RS_READ);
    if (!store)
        return SB_EXIT_ENVIRONMENT;
    an_report_status status = an_report(store, path, out, &options, text, sizeof text);
    int code = sb_database_close(store);
    if (status == AN_REPORT_OK || status == AN_REPORT_NO_GNUPLOT)
        sb_output_page(out);
    if (status == AN_REPORT_NO_GNUPLOT)
        return sb_fail(SB_EXIT_ENVIRONMENT, "no pictures, only tables and .gp files were written: %s", text);
    if (status == AN_REPORT_MEMORY)
        return sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for the report of '%s'", path);
    if (status != AN_REPORT_OK)
        return sb_fail(SB_EXIT_ENVIRONMENT, "%s", text);
    return code;
}

static const sb_option options[] = {
    {.name = "output",
     .letter = 'o',
     .value = "FOLDER",
     .default_value = "report",
     .complete = "folders",
     .help = "Where to write; created if it is missing."},
    {.name = "title", .value = "TEXT", .help = "Title of the page; by default made from the results."},
    {.name = "gnuplot",
     .value = "PROGRAM",
     .complete = "files",
     .help = "The gnuplot to run; by default the one on PATH."},
};

const sb_command sb_command_report = {
    .name = "report",
    .summary = "draw figures and tables from a results file",
    .operands = "DB",
    .operands_min = 1,
    .operands_max = 1,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .description = "Writes index.html, tables (Markdown and CSV) and figures (SVG, PDF, PNG and the .gp file each is "
                   "drawn from) into a folder and prints the page's path. Without gnuplot the tables and .gp files "
                   "are still written, and the exit code is 3.",
    .examples = "sparge-bench report results.db -o report/",
    .run = run,
    .complete_operands = "files",
};
