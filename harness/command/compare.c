/* compare: the points that two results files share, and which of them became slower. */
#include "compare.h"

#include <errno.h>
#include <stdlib.h>

#include "cli/database.h"
#include "cli/output.h"
#include "command/commands.h"

/* The whole text is one finite number in [min, max], with an optional '%' if `percent`. */
static int read_number(const char *name, const char *text, int percent, double min, double max, double *value)
{
    char *end = NULL;
    errno = 0;
    *value = strtod(text, &end);
    if (percent && end != text && *end == '%')
        end++;
    if (end == text || *end != '\0' || errno == ERANGE || !(*value >= min && *value <= max))
        return sb_fail(SB_EXIT_USAGE, "--%s '%s' is no number from %g to %g%s", name, text, min, max,
                       percent ? " (percent)" : "");
    return SB_EXIT_OK;
}

static size_t count_matched(const an_comparisons *comparisons)
{
    size_t matched = 0;
    for (size_t i = 0; i < comparisons->count; i++)
        matched += comparisons->item[i].a && comparisons->item[i].b;
    return matched;
}

/* The verdict in one line: under tables that people read, on stderr beside data for programs. */
static void print_summary(const an_comparisons *comparisons, const an_compare_options *options, FILE *out)
{
    fprintf(out,
            "unpaired: %zu of %zu points are in both files; %zu regressed, %zu improved (threshold %g %%, q %g); drift "
            "between the two runs is not cancelled\n",
            count_matched(comparisons), comparisons->count, comparisons->regressed, comparisons->improved,
            100 * options->threshold, options->q);
}

static int print(const sb_arguments *arguments, const an_compare_options *options, const an_comparisons *comparisons)
{
    an_format format;
    int code = sb_output_format(arguments, &format);
    an_table *table = an_comparisons_table(comparisons);
    if (code == SB_EXIT_OK)
        code = sb_output_table(arguments, table, NULL);
    an_table_destroy(table);
    if (code != SB_EXIT_OK)
        return code;
    int for_people = format == AN_TABLE || format == AN_MARKDOWN;
    if (for_people)
        putchar('\n');
    print_summary(comparisons, options, for_people ? stdout : stderr);
    if (count_matched(comparisons) == 0)
        return sb_fail(SB_EXIT_MEASUREMENT, "nothing was compared: '%s' and '%s' have no point in common",
                       sb_operand(arguments, 0), sb_operand(arguments, 1));
    return comparisons->regressed > 0 ? SB_EXIT_REGRESSION : SB_EXIT_OK;
}

static int run(const sb_command *command, const sb_arguments *arguments)
{
    (void)command;
    an_compare_options options = {.seed = 1}; /* fixed: the same files give the same verdicts */
    an_format format;
    an_rows a, b;
    double percent;
    int code = sb_output_format(arguments, &format);
    if (code == SB_EXIT_OK)
        code = read_number("threshold", sb_argument(arguments, "threshold"), 1, 0, 100, &percent);
    if (code == SB_EXIT_OK)
        code = read_number("q", sb_argument(arguments, "q"), 0, 1e-6, 0.5, &options.q);
    if (code == SB_EXIT_OK)
        code = sb_database_rows(sb_operand(arguments, 0), 1, &a);
    if (code != SB_EXIT_OK)
        return code;
    options.threshold = percent / 100;
    code = sb_database_rows(sb_operand(arguments, 1), 1, &b);
    if (code == SB_EXIT_OK) {
        an_comparisons comparisons;
        if (an_compare(&a, &b, &options, &comparisons) == 0) {
            code = print(arguments, &options, &comparisons);
            an_comparisons_release(&comparisons);
        } else {
            code = sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for the comparison");
        }
        an_rows_release(&b);
    }
    an_rows_release(&a);
    return code;
}

static const sb_option options[] = {
    {.name = "threshold",
     .value = "PERCENT",
     .default_value = "2",
     .help = "Changes of the median time up to this many percent are agreed to be no change."},
    {.name = "q",
     .value = "RATE",
     .default_value = "0.05",
     .help = "False discovery rate: the expected share of wrong alarms among the alarms, over all points."},
    SB_FORMAT_OPTION("table"),
};

const sb_command sb_command_compare = {
    .name = "compare",
    .summary = "compare two results files point by point; exit code 1 on a regression",
    .operands = "A.db B.db",
    .operands_min = 2,
    .operands_max = 2,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .description = "Matches the newest measurements of the points that both files have and judges the ratio of the "
                   "median times, B / A: regressed, improved, same or inconclusive. The two runs happened at different "
                   "times, so that drift between them is not cancelled: verdicts are unpaired. Either side needs at "
                   "least six samples of a point, which sweep takes unless --visits or --launches say less.",
    .examples = "sparge-bench compare before.db after.db\n"
                "sparge-bench compare before.db after.db --threshold 5 --format md",
    .run = run,
    .complete_operands = "files",
};
