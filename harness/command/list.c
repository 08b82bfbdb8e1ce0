/* list: what there is to choose from: methods, their parameters, workloads, token orders, backends.
 *
 * Nothing is known here; every row comes from the table that also parses the option. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/text.h"
#include "command/commands.h"
#include "suggest.h"
#include "workloads.h"

/* One kind of thing to list: its columns, and its rows. */
typedef struct subject {
    const char *name;
    int (*fill)(const sb_arguments *arguments, an_table *table); /* an exit code */
    int (*names)(const sb_arguments *arguments, FILE *out);      /* for --names: one a line; an exit code */
} subject;

static void add_columns(an_table *table, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        an_table_column(table, names[i], AN_TEXT);
}

static int is_hidden_backend(const char *name)
{
    return strcmp(name, "fake") == 0;
}

/* "tau=0.98 topk theta=0.6 lambda": a parameter without default is unset. To be freed; NULL if memory runs out. */
static char *describe_parameters(const sparge_method *method)
{
    sb_text text = {0};
    for (size_t i = 0; i < sparge_method_param_count(method); i++) {
        const sparge_param_desc *param = sparge_method_param_at(method, i);
        sb_text_add(&text, "%s%s%s%s", i ? " " : "", param->name, *param->default_value ? "=" : "",
                    param->default_value);
    }
    return sb_text_take(&text);
}

static int fill_methods(const sb_arguments *arguments, an_table *table)
{
    static const char *const columns[] = {"method", "summary", "stands_for", "parameters"};
    (void)arguments;
    add_columns(table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < sparge_method_count(); i++) {
        const sparge_method *method = sparge_method_at(i);
        char *parameters = describe_parameters(method);
        if (!parameters)
            return sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for the table");
        an_table_text(table, sparge_method_name(method));
        an_table_text(table, sparge_method_summary(method));
        an_table_text(table, sparge_method_stands_for(method));
        an_table_text(table, parameters);
        free(parameters);
    }
    return SB_EXIT_OK;
}

static int name_methods(const sb_arguments *arguments, FILE *out)
{
    (void)arguments;
    for (size_t i = 0; i < sparge_method_count(); i++)
        fprintf(out, "%s\n", sparge_method_name(sparge_method_at(i)));
    return SB_EXIT_OK;
}

/* "0..1", "integer 1..", "f16|int8-f16", "file". */
static void describe_range(const sparge_param_desc *param, char *out, size_t size)
{
    if (param->type == SPARGE_PARAM_CHOICE) {
        snprintf(out, size, "%s", param->choices);
        return;
    }
    if (param->type == SPARGE_PARAM_PATH) {
        snprintf(out, size, "file");
        return;
    }
    char low[32] = "", high[32] = "";
    if (isfinite(param->min))
        snprintf(low, sizeof low, "%.12g", param->min);
    if (isfinite(param->max))
        snprintf(high, sizeof high, "%.12g", param->max);
    snprintf(out, size, "%s%s..%s", param->type == SPARGE_PARAM_INTEGER ? "integer " : "", *low ? low : "-inf",
             *high ? high : "inf");
}

static void fill_method_parameters(const sparge_method *method, an_table *table)
{
    for (size_t i = 0; i < sparge_method_param_count(method); i++) {
        const sparge_param_desc *param = sparge_method_param_at(method, i);
        char range[256];
        describe_range(param, range, sizeof range);
        an_table_text(table, sparge_method_name(method));
        an_table_text(table, param->name);
        an_table_text(table, range);
        an_table_text(table, *param->default_value ? param->default_value : NULL);
        an_table_text(table, param->unit);
        an_table_text(table, param->per_head ? "yes" : "no");
        an_table_text(table, param->meaning);
    }
}

static int fail_unknown_method(const char *name)
{
    const char *best = NULL;
    for (size_t i = 0; i < sparge_method_count(); i++)
        best = sb_nearer(name, best, sparge_method_name(sparge_method_at(i)));
    if (best)
        return sb_fail(SB_EXIT_USAGE, "unknown method '%s'; did you mean '%s'?", name, best);
    return sb_fail(SB_EXIT_USAGE, "unknown method '%s'; 'sparge-bench list methods' lists them", name);
}

/* The methods named after "parameters", or all. *method is NULL past the end. SB_EXIT_OK or SB_EXIT_USAGE. */
static int chosen_method(const sb_arguments *arguments, size_t index, const sparge_method **method)
{
    size_t given = sb_operand_count(arguments) > 1 ? sb_operand_count(arguments) - 1 : 0;
    if (given == 0) {
        *method = sparge_method_at(index);
        return SB_EXIT_OK;
    }
    *method = NULL;
    if (index >= given)
        return SB_EXIT_OK;
    const char *name = sb_operand(arguments, index + 1);
    *method = sparge_method_find(name);
    return *method ? SB_EXIT_OK : fail_unknown_method(name);
}

static int fill_parameters(const sb_arguments *arguments, an_table *table)
{
    static const char *const columns[] = {"method", "parameter", "range", "default", "unit", "per_head", "meaning"};
    const sparge_method *method;
    add_columns(table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0;; i++) {
        int code = chosen_method(arguments, i, &method);
        if (code != SB_EXIT_OK || !method)
            return code;
        fill_method_parameters(method, table);
    }
}

static int name_parameters(const sb_arguments *arguments, FILE *out)
{
    const sparge_method *method;
    for (size_t i = 0;; i++) {
        int code = chosen_method(arguments, i, &method);
        if (code != SB_EXIT_OK || !method)
            return code;
        for (size_t j = 0; j < sparge_method_param_count(method); j++)
            fprintf(out, "%s.%s\n", sparge_method_name(method), sparge_method_param_at(method, j)->name);
    }
}

static void add_size(an_table *table, int64_t value)
{
    if (value > 0)
        an_table_integer(table, value);
    else
        an_table_text(table, NULL);
}

/* A preset as it is without any option. */
static int fill_workload(const wl_preset *preset, an_table *table)
{
    wl_workload workload;
    sparge_error error;
    const wl_request request = {.name = preset->name, .dtype = -1, .causal = -1, .seed = 1};
    if (wl_resolve(&request, &workload, &error) != SPARGE_OK)
        return sb_fail(SB_EXIT_ENVIRONMENT, "workload '%s': %s", preset->name, error.text);
    const sparge_problem *problem = &workload.problem;
    const sparge_grid *grid = &problem->grid;
    char shape[64];
    snprintf(shape, sizeof shape, "%dx%dx%d", (int)grid->t, (int)grid->h, (int)grid->w);
    an_table_text(table, preset->name);
    an_table_text(table, preset->summary);
    an_table_integer(table, problem->seqlen_k);
    an_table_integer(table, problem->heads_q);
    an_table_integer(table, problem->heads_kv);
    an_table_integer(table, problem->head_dim);
    an_table_text(table, sparge_dtype_name(problem->dtype));
    an_table_text(table, sparge_causal_name(problem->causal));
    an_table_text(table, grid->t ? shape : NULL);
    add_size(table, (int64_t)grid->text_before + grid->text_after);
    add_size(table, preset->layers);
    an_table_text(table, preset->source && *preset->source ? preset->source : NULL);
    wl_release(&workload);
    return SB_EXIT_OK;
}

static int fill_workloads(const sb_arguments *arguments, an_table *table)
{
    static const struct {
        const char *name;
        an_cell_type type;
    } columns[] = {{"workload", AN_TEXT},   {"summary", AN_TEXT},       {"tokens", AN_NUMBER}, {"heads_q", AN_NUMBER},
                   {"heads_kv", AN_NUMBER}, {"head_dim", AN_NUMBER},    {"dtype", AN_TEXT},    {"causal", AN_TEXT},
                   {"grid", AN_TEXT},       {"text_tokens", AN_NUMBER}, {"layers", AN_NUMBER}, {"source", AN_TEXT}};
    int code = SB_EXIT_OK;
    (void)arguments;
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        an_table_column(table, columns[i].name, columns[i].type);
    for (size_t i = 0; i < wl_preset_count() && code == SB_EXIT_OK; i++)
        code = fill_workload(wl_preset_at(i), table);
    return code;
}

static int name_workloads(const sb_arguments *arguments, FILE *out)
{
    (void)arguments;
    for (size_t i = 0; i < wl_preset_count(); i++)
        fprintf(out, "%s\n", wl_preset_at(i)->name);
    return SB_EXIT_OK;
}

static int fill_orders(const sb_arguments *arguments, an_table *table)
{
    static const char *const columns[] = {"order", "layout"};
    static const char *const layout[WL_ORDER_COUNT] = {
        [WL_ORDER_ROW] = "w fastest, then h, then t: how models lay tokens out",
        [WL_ORDER_COLUMN] = "h fastest, then w, then t",
        [WL_ORDER_TIME] = "t fastest, then w, then h",
        [WL_ORDER_RANDOM] = "a seeded shuffle",
        [WL_ORDER_HILBERT] = "along a 3-D Hilbert curve (paper section 3.7)",
    };
    (void)arguments;
    add_columns(table, columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < WL_ORDER_COUNT; i++) {
        an_table_text(table, wl_order_name((wl_order)i));
        an_table_text(table, layout[i]);
    }
    return SB_EXIT_OK;
}

static int name_orders(const sb_arguments *arguments, FILE *out)
{
    (void)arguments;
    for (int i = 0; i < WL_ORDER_COUNT; i++)
        fprintf(out, "%s\n", wl_order_name((wl_order)i));
    return SB_EXIT_OK;
}

static int fill_backends(const sb_arguments *arguments, an_table *table)
{
    int all = sb_argument(arguments, "all") != NULL;
    an_table_column(table, "backend", AN_TEXT);
    an_table_column(table, "devices", AN_NUMBER);
    an_table_column(table, "summary", AN_TEXT);
    for (size_t i = 0; i < sparge_backend_count(); i++) {
        const char *name = sparge_backend_name(i);
        if (is_hidden_backend(name) && !all)
            continue;
        an_table_text(table, name);
        an_table_integer(table, sparge_backend_device_count(name));
        an_table_text(table, sparge_backend_summary(i));
    }
    return SB_EXIT_OK;
}

static int name_backends(const sb_arguments *arguments, FILE *out)
{
    (void)arguments;
    for (size_t i = 0; i < sparge_backend_count(); i++)
        if (!is_hidden_backend(sparge_backend_name(i)))
            fprintf(out, "%s\n", sparge_backend_name(i));
    return SB_EXIT_OK;
}

static const subject subjects[] = {
    {"methods", fill_methods, name_methods},       {"parameters", fill_parameters, name_parameters},
    {"workloads", fill_workloads, name_workloads}, {"orders", fill_orders, name_orders},
    {"backends", fill_backends, name_backends},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

static const subject *find_subject(const char *name)
{
    const char *best = NULL;
    for (size_t i = 0; i < SUBJECTS; i++) {
        if (strcmp(subjects[i].name, name) == 0)
            return &subjects[i];
        best = sb_nearer(name, best, subjects[i].name);
    }
    if (best)
        sb_fail(SB_EXIT_USAGE, "nothing to list under '%s'; did you mean '%s'?", name, best);
    else
        sb_fail(SB_EXIT_USAGE,
                "nothing to list under '%s'; there are methods, parameters, workloads, orders and backends", name);
    return NULL;
}

static int run(const sb_command *command, const sb_arguments *arguments)
{
    (void)command;
    const char *name = sb_operand(arguments, 0);
    const subject *found = find_subject(name ? name : "methods");
    if (!found)
        return SB_EXIT_USAGE;
    if (sb_operand_count(arguments) > 1 && found->fill != fill_parameters)
        return sb_fail(SB_EXIT_USAGE, "'list %s' takes no names, but '%s' was given", found->name,
                       sb_operand(arguments, 1));
    if (sb_argument(arguments, "names"))
        return found->names(arguments, stdout);
    an_table *table = an_table_create();
    if (!table)
        return sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for the table");
    int code = found->fill(arguments, table);
    if (code == SB_EXIT_OK)
        code = sb_output_table(arguments, table, NULL);
    an_table_destroy(table);
    return code;
}

static const sb_option options[] = {
    SB_FORMAT_OPTION("table"),
    {.name = "names", .help = "Print only the names, one a line."},
    {.name = "all", .help = "Also list what is meant for tests: the fake backend."},
};

const sb_command sb_command_list = {
    .name = "list",
    .summary = "list methods, parameters, workloads, token orders, backends",
    .operands = "[methods | parameters [METHOD]... | workloads | orders | backends]",
    .operands_max = -1,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .description = "Lists what the other commands can be asked for. Without an operand: the methods. 'parameters' "
                   "describes the parameters that --set takes, of the methods named or of all.",
    .examples = "sparge-bench list\n"
                "sparge-bench list parameters sparge-int8-fp8\n"
                "sparge-bench list workloads --format md",
    .run = run,
    .complete_operands = "methods|parameters|workloads|orders|backends",
};
