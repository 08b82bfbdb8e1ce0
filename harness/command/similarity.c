/* similarity: how the order of tokens changes the self-similarity of blocks, and with it sparsity and error (paper,
 * section 3.7 and Tables 4 and 9). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/device_options.h"
#include "cli/output.h"
#include "command/commands.h"
#include "command/similarity.h"
#include "measure/reference.h"

static int measure_point(sparge_context *context, const sb_point *point, int64_t error_rows, sb_similarity_row *row)
{
    sb_inputs inputs;
    sparge_error error = {.status = SPARGE_OK};
    const wl_workload *workload = &point->workload;
    row->point = point;
    sparge_status status = sb_inputs_create(context, workload, &inputs, &error);
    if (status == SPARGE_OK) {
        status = sb_locality_measure(context, point, &inputs, error_rows, &row->locality, &error);
        sb_inputs_release(context, &inputs);
    }
    if (status == SPARGE_OK) {
        row->measured = 1;
        return SB_EXIT_OK;
    }
    if (status == SPARGE_ERROR_UNSUPPORTED) { /* a row with its reason, as sweep records it */
        snprintf(row->reason, sizeof row->reason, "%s", error.text);
        return SB_EXIT_OK;
    }
    return sb_fail(SB_EXIT_ENVIRONMENT, "%s, %s order: %s", workload->name, wl_order_name(workload->order), error.text);
}

static void add_number(an_table *table, int measured, double value, const char *format)
{
    an_table_number(table, measured ? value : NAN, format);
}

static an_table *make_table(const sb_similarity_row *rows, size_t count)
{
    static const struct {
        const char *name;
        an_cell_type type;
    } columns[] = {{"workload", AN_TEXT},      {"order", AN_TEXT},         {"method", AN_TEXT},
                   {"tokens", AN_NUMBER},      {"sim_q", AN_NUMBER},       {"sim_k", AN_NUMBER},
                   {"sim_q_paper", AN_NUMBER}, {"sim_k_paper", AN_NUMBER}, {"sparsity", AN_NUMBER},
                   {"rel_l1", AN_NUMBER},      {"error_rows", AN_NUMBER},  {"note", AN_TEXT}};
    an_table *table = an_table_create();
    for (size_t i = 0; table && i < sizeof columns / sizeof *columns; i++)
        an_table_column(table, columns[i].name, columns[i].type);
    for (size_t i = 0; table && i < count; i++) {
        const sb_similarity_row *row = &rows[i];
        const wl_workload *workload = &row->point->workload;
        const sb_locality *locality = &row->locality;
        char label[256];
        sb_point_label(row->point, label, sizeof label);
        an_table_text(table, workload->name);
        an_table_text(table, wl_order_name(workload->order));
        an_table_text(table, label);
        an_table_integer(table, workload->problem.seqlen_k);
        add_number(table, row->measured, locality->sim_q, "%.4f");
        add_number(table, row->measured, locality->sim_k, "%.4f");
        add_number(table, row->measured, locality->sim_q_paper, "%.4f");
        add_number(table, row->measured, locality->sim_k_paper, "%.4f");
        add_number(table, row->measured, locality->sparsity, "%.4f");
        add_number(table, row->measured, locality->rel_l1, "%.5f");
        add_number(table, row->measured, (double)locality->error_rows, "%.0f");
        an_table_text(table, *row->reason ? row->reason : *workload->note ? workload->note : NULL);
    }
    return table;
}

static int read_error_rows(const sb_arguments *arguments, int64_t *rows)
{
    const char *text = sb_argument(arguments, "error-rows");
    *rows = text ? SB_ERROR_ROWS_ALL : SB_ERROR_ROWS_DEFAULT;
    if (!text || strcmp(text, "all") == 0)
        return SB_EXIT_OK;
    return sb_integer_option(arguments, "error-rows", 1, INT64_MAX, rows);
}

static int run(const sb_command *command, const sb_arguments *arguments)
{
    sb_points points;
    an_format format;
    int64_t error_rows;
    sparge_context *context = NULL;
    (void)command;
    int code = sb_output_format(arguments, &format);
    if (code == SB_EXIT_OK)
        code = read_error_rows(arguments, &error_rows);
    if (code == SB_EXIT_OK)
        code = sb_points_create(arguments, &points);
    if (code != SB_EXIT_OK)
        return code;
    sb_similarity_row *rows = calloc(points.count, sizeof *rows);
    code = rows ? sb_context_open(arguments, &context)
                : sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for %zu points", points.count);
    for (size_t i = 0; i < points.count && code == SB_EXIT_OK; i++)
        code = measure_point(context, &points.point[i], error_rows, &rows[i]);
    if (code == SB_EXIT_OK)
        code = sb_similarity_store(arguments, context, rows, points.count);
    if (code == SB_EXIT_OK) {
        an_table *table = make_table(rows, points.count);
        code = sb_output_table(arguments, table, NULL);
        an_table_destroy(table);
    }
    const char *folder = sb_argument(arguments, "output");
    if (code == SB_EXIT_OK && folder && format == AN_TABLE) /* the other formats are for programs */
        sb_output_page(folder);
    sparge_context_destroy(context);
    free(rows);
    sb_points_release(&points);
    return code;
}

static const sb_option options[] = {
    {.help = "Which orders and methods"},
    {.name = "order",
     .value = "LIST",
     .default_value = "row,hilbert,column,time,random",
     .complete = "orders",
     .help = "Token orders to compare."},
    {.name = "method",
     .letter = 'm',
     .value = "LIST",
     .default_value = "sparge-f16",
     .complete = "methods",
     .repeatable = 1,
     .help = "Methods; those of the sparge family know the similarity of their blocks."},
    {.name = "workload",
     .letter = 'w',
     .value = "LIST",
     .default_value = "mochi",
     .complete = "workloads",
     .repeatable = 1,
     .help = "Workloads on a grid: video and image presets, or captured .safetensors files."},
    {.help = "Running and output"},
    SB_DEVICE_OPTIONS,
    {.name = "error-rows",
     .value = "N|all",
     .help = "Query rows compared with exact attention. By default all of short problems, else 256."},
    {.name = "db", .value = "FILE", .complete = "files", .help = "Also store the table in this results file."},
    {.name = "output",
     .letter = 'o',
     .value = "FOLDER",
     .complete = "folders",
     .help = "Also draw the report into this folder; with --format table the page's path is printed last. Without --db "
             "the results file is made there too."},
    SB_FORMAT_OPTION("table"),
};

const sb_command sb_command_similarity = {
    .name = "similarity",
    .summary = "block self-similarity, sparsity and error by token order",
    .operands = "",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .description =
        "Lays the tokens of a workload out in each order, runs the method once, and tells how alike the tokens of its "
        "blocks are, which sparsity that allows and at which error.\n\n"
        "sim_q and sim_k are mean cosines, as the official code computes them; sim_q_paper and sim_k_paper are "
        "mean(X X^T / |max(X X^T)|), as the paper defines them. K is taken after its mean over the tokens was "
        "subtracted. All are averages over blocks, heads and batches.\n\n"
        "Nothing is timed. On a CPU, --seqlen and --heads make video presets small enough.",
    .examples = "sparge-bench similarity --workload mochi --seqlen 4k --heads 4 --set theta=0.2\n"
                "sparge-bench similarity --workload mochi,cogvideox-2b --seqlen 8k --set theta=0.2 -o figures/",
    .run = run,
    .shared = sb_point_options,
    .shared_count = &sb_point_option_count,
};
