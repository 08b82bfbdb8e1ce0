/* Self-similarity by token order, from the store's documents of kind "similarity":
 *
 *     {"workload": "mochi", "rows": [{"order": "hilbert", "sim_q": 0.57, "sim_k": 0.48, "sparsity": 0.39,
 *                                     "rel_l1": 0.039, "tokens": 22000,
 *                                     "sim_q_paper": 0.61, "sim_k_paper": 0.52}, ...]}
 *
 * sim_q and sim_k are those by which the method judged its blocks, sim_*_paper follow the formula of the paper; a figure
 * shows the former, or the latter where the method judges by none. Further members are passed over; a member that is
 * missing or null is not known. Of several documents of one workload the last counts. */
#include "report_internal.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The last document of each workload, in the order in which the workloads first came. */
typedef struct documents {
    report *r;
    json_t *list; /* array */
} documents;

static const char *workload_of(const json_t *document)
{
    const char *name = json_string_value(json_object_get(document, "workload"));
    return name ? name : "";
}

static int take_document(void *user, int64_t run_id, const char *kind, const char *json)
{
    documents *d = user;
    (void)run_id;
    (void)kind;
    json_t *document = json_loads(json, 0, NULL);
    if (!json_is_array(json_object_get(document, "rows"))) {
        json_decref(document); /* not of this form: an other version's */
        return 0;
    }
    size_t i = 0;
    while (i < json_array_size(d->list) && strcmp(workload_of(json_array_get(d->list, i)), workload_of(document)) != 0)
        i++;
    const int status = i < json_array_size(d->list) ? json_array_set_new(d->list, i, document)
                                                    : json_array_append_new(d->list, document);
    if (status != 0)
        report_no_memory(d->r);
    return status;
}

static double number_of(const json_t *row, const char *name)
{
    const json_t *value = json_object_get(row, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* Does no row have the similarity that the method judged by? */
static int only_the_papers(const json_t *rows)
{
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (!isnan(number_of(json_array_get(rows, i), "sim_q")) || !isnan(number_of(json_array_get(rows, i), "sim_k")))
            return 0;
    return 1;
}

static plot_order order_of(const json_t *row, int papers)
{
    const char *name = json_string_value(json_object_get(row, "order"));
    return (plot_order){.name = name ? name : "",
                        .sim_q = number_of(row, papers ? "sim_q_paper" : "sim_q"),
                        .sim_k = number_of(row, papers ? "sim_k_paper" : "sim_k"),
                        .sparsity = number_of(row, "sparsity"),
                        .rel_l1 = number_of(row, "rel_l1")};
}

static const struct {
    const char *name, *format;
} columns[] = {{"tokens", "%.0f"},      {"sim_q", "%.3f"},    {"sim_k", "%.3f"}, {"sim_q_paper", "%.3f"},
               {"sim_k_paper", "%.3f"}, {"sparsity", "%.3f"}, {"rel_l1", "%.4f"}};
enum { COLUMNS = sizeof columns / sizeof *columns };

static void add_columns(an_table *table)
{
    an_table_column(table, "workload", AN_TEXT);
    an_table_column(table, "order", AN_TEXT);
    for (size_t i = 0; i < COLUMNS; i++)
        an_table_column(table, columns[i].name, AN_NUMBER);
}

static void add_row(an_table *table, const char *workload, const char *order, const json_t *row)
{
    an_table_text(table, workload);
    an_table_text(table, order);
    for (size_t i = 0; i < COLUMNS; i++)
        an_table_number(table, number_of(row, columns[i].name), columns[i].format);
}

/* A file name of its own: the workload's letters and digits, and a number where several documents exist. */
static const char *name_of(report *r, size_t index, size_t count)
{
    return count == 1 ? "similarity" : report_text(r, "similarity-%zu", index + 1);
}

static an_report_status make_figure(report *r, const json_t *document, const char *name)
{
    const json_t *rows = json_object_get(document, "rows");
    const size_t count = json_array_size(rows);
    const char *workload = report_text(r, "%s", workload_of(document));
    const int papers = only_the_papers(rows);
    report_figure figure = {.heading = report_text(r, "Self-similarity by token order: %s", workload),
                            .text = "the stored table has no rows"};
    plot_order *order = calloc(count + 1, sizeof *order);
    if (!order)
        return report_no_memory(r);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(rows, i);
        order[i] = order_of(row, papers);
        add_row(r->similarity, workload, order[i].name, row);
    }
    report_file file;
    if (count > 0) {
        figure.name = name;
        figure.text = report_text(r,
                                  "%s: mean self-similarity of the blocks of Q and K%s, the sparsity that follows and "
                                  "the relative L1 error, for each order in which the tokens of the grid were laid "
                                  "out as a sequence.",
                                  workload, papers ? " by the paper's formula" : ", as the method judges it");
        if (report_file_open(r, report_text(r, "%s/figures/%s.gp", r->out, name), &file) == AN_REPORT_OK) {
            plot_write_orders(workload, r->database, order, count, file.out);
            report_file_close(r, &file);
        }
    }
    free(order);
    return report_add_figure(r, &figure);
}

an_report_status report_make_similarity(report *r, rs_store *store)
{
    rs_error error;
    documents d = {r, json_array()};
    if (!d.list)
        return report_no_memory(r);
    if (rs_documents(store, "similarity", take_document, &d, &error) != RS_OK)
        report_fail(r, AN_REPORT_STORE, "%s", error.text);
    const size_t count = json_array_size(d.list);
    if (count > 0 && r->status == AN_REPORT_OK) {
        r->similarity = an_table_create();
        if (r->similarity)
            add_columns(r->similarity);
        else
            report_no_memory(r);
    }
    for (size_t i = 0; i < count && r->status == AN_REPORT_OK; i++)
        make_figure(r, json_array_get(d.list, i), name_of(r, i, count));
    json_decref(d.list);
    return r->status;
}
