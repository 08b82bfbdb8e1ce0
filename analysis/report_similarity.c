/* Self-similarity by token order, from the store's documents of kind "similarity":
 *
 *     {"workload": "mochi", "method": "sparge-f16", "settings": "theta=0.2", "batch": 1, "heads_q": 4, "heads_kv": 4,
 *      "head_dim": 128, "dtype": "bf16", "causal": "none", "seed": "1", "grid": "4x16x64", "text_tokens": 0,
 *      "rows": [{"order": "hilbert", "sim_q": 0.57, "sim_k": 0.48, "sparsity": 0.39, "rel_l1": 0.039, "tokens": 4096,
 *                "sim_q_paper": 0.61, "sim_k_paper": 0.52}, ...]}
 *
 * sim_q and sim_k are those by which the method judged its blocks, sim_*_paper follow the formula of the paper; a figure
 * shows the former, or the latter where the method judges by none. Further members are passed over; a member that is
 * missing or null is not known. Of several documents that differ in their rows only, the last counts. */
#include "report_internal.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What tells documents apart, in the order of titles and file names. */
typedef enum document_field {
    DOCUMENT_WORKLOAD = 0,
    DOCUMENT_LABEL,
    DOCUMENT_GRID,
    DOCUMENT_TEXT,
    DOCUMENT_BATCH,
    DOCUMENT_HEADS,
    DOCUMENT_HEAD_DIM,
    DOCUMENT_DTYPE,
    DOCUMENT_CAUSAL,
    DOCUMENT_SEED,
    DOCUMENT_FIELDS
} document_field;

typedef struct document {
    const char *field[DOCUMENT_FIELDS]; /* "" where the document does not say */
    json_t *json;
    int64_t run_id;
    const char *title, *slug;
} document;

typedef struct documents {
    report *r;
    document *item; /* in the order in which they first came */
    size_t count;
} documents;

/* A member, a text or a number, in words; "" where it is missing. */
static const char *text_of(report *r, const json_t *json, const char *name)
{
    const json_t *value = json_object_get(json, name);
    if (json_is_integer(value))
        return report_text(r, "%lld", (long long)json_integer_value(value));
    return json_is_string(value) ? report_text(r, "%s", json_string_value(value)) : "";
}

/* The text between two others, or "" if there is none. */
static const char *between(report *r, const char *before, const char *text, const char *after)
{
    return *text ? report_text(r, "%s%s%s", before, text, after) : "";
}

static void describe(report *r, const json_t *json, const char *field[DOCUMENT_FIELDS])
{
    const char *settings = text_of(r, json, "settings"), *text_tokens = text_of(r, json, "text_tokens");
    const char *heads_q = text_of(r, json, "heads_q"), *heads_kv = text_of(r, json, "heads_kv");
    const char *batch = text_of(r, json, "batch"), *causal = text_of(r, json, "causal");
    field[DOCUMENT_WORKLOAD] = text_of(r, json, "workload");
    field[DOCUMENT_LABEL] = report_text(r, "%s%s", text_of(r, json, "method"), between(r, " ", settings, ""));
    field[DOCUMENT_GRID] = between(r, "grid ", text_of(r, json, "grid"), "");
    field[DOCUMENT_TEXT] = strcmp(text_tokens, "0") == 0 ? "" : between(r, "", text_tokens, " text tokens");
    field[DOCUMENT_BATCH] = strcmp(batch, "1") == 0 ? "" : between(r, "batch ", batch, "");
    field[DOCUMENT_HEADS] = strcmp(heads_q, heads_kv) == 0 ? between(r, "", heads_q, " heads")
                                                           : report_text(r, "%s/%s heads", heads_q, heads_kv);
    field[DOCUMENT_HEAD_DIM] = between(r, "D ", text_of(r, json, "head_dim"), "");
    field[DOCUMENT_DTYPE] = text_of(r, json, "dtype");
    field[DOCUMENT_CAUSAL] = strcmp(causal, "none") == 0 ? "not causal" : between(r, "causal ", causal, "");
    field[DOCUMENT_SEED] = between(r, "seed ", text_of(r, json, "seed"), "");
}

static document *find(const documents *d, const char *const field[DOCUMENT_FIELDS])
{
    for (size_t i = 0; i < d->count; i++) {
        size_t equal = 0;
        while (equal < DOCUMENT_FIELDS && strcmp(d->item[i].field[equal], field[equal]) == 0)
            equal++;
        if (equal == DOCUMENT_FIELDS)
            return &d->item[i];
    }
    return NULL;
}

static int take_document(void *user, int64_t run_id, const char *kind, const char *text)
{
    documents *d = user;
    (void)kind;
    json_t *json = json_loads(text, 0, NULL);
    if (!json_is_array(json_object_get(json, "rows"))) {
        json_decref(json); /* not of this form: an other version's */
        return 0;
    }
    document taken = {.json = json, .run_id = run_id};
    describe(d->r, json, taken.field);
    document *known = find(d, taken.field);
    if (known) {
        json_decref(known->json);
        *known = taken;
        return 0;
    }
    document *moved = realloc(d->item, (d->count + 1) * sizeof *moved);
    if (!moved) {
        json_decref(json);
        report_no_memory(d->r);
        return 1;
    }
    d->item = moved;
    d->item[d->count++] = taken;
    return 0;
}

/* The workload and what is known of the problem; the file name has only what documents of the workload differ in. */
static void name_document(documents *d, size_t index)
{
    document *item = &d->item[index];
    const char *workload = report_workload_name(d->r, item->field[DOCUMENT_WORKLOAD]);
    item->title = workload;
    const char *slug = report_file_part(d->r, workload);
    for (document_field f = DOCUMENT_LABEL; f < DOCUMENT_FIELDS; f++) {
        int differs = 0;
        if (!*item->field[f])
            continue;
        for (size_t j = 0; j < d->count; j++)
            differs |= strcmp(d->item[j].field[DOCUMENT_WORKLOAD], item->field[DOCUMENT_WORKLOAD]) == 0 &&
                       strcmp(d->item[j].field[f], item->field[f]) != 0;
        if (f != DOCUMENT_SEED || differs)
            item->title = report_text(d->r, "%s, %s", item->title, item->field[f]);
        if (differs)
            slug = report_text(d->r, "%s-%s", slug, report_file_part(d->r, item->field[f]));
    }
    item->slug = slug;
    for (size_t n = 2, before = 0; before < index; before++)
        if (strcmp(d->item[before].slug, item->slug) == 0) {
            item->slug = report_text(d->r, "%s-%zu", slug, n++);
            before = (size_t)-1; /* look again from the first */
        }
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
    static const char *const texts[] = {"workload", "method", "problem", "order"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        an_table_column(table, texts[i], AN_TEXT);
    for (size_t i = 0; i < COLUMNS; i++)
        an_table_column(table, columns[i].name, AN_NUMBER);
    an_table_column(table, "run", AN_NUMBER);
}

/* "grid 4x16x64, 4 heads, D 128, bf16, not causal, seed 1" */
static const char *problem_of(report *r, const document *item)
{
    const char *text = "";
    for (document_field f = DOCUMENT_GRID; f < DOCUMENT_FIELDS; f++)
        if (*item->field[f])
            text = report_text(r, "%s%s%s", text, *text ? ", " : "", item->field[f]);
    return text;
}

static void add_row(report *r, const document *item, const char *order, const json_t *row)
{
    an_table *table = r->similarity;
    an_table_text(table, item->field[DOCUMENT_WORKLOAD]);
    an_table_text(table, item->field[DOCUMENT_LABEL]);
    an_table_text(table, problem_of(r, item));
    an_table_text(table, order);
    for (size_t i = 0; i < COLUMNS; i++)
        an_table_number(table, number_of(row, columns[i].name), columns[i].format);
    an_table_integer(table, item->run_id);
}

static void write_script(report *r, const document *item, const plot_order *order, size_t count, const char *name)
{
    report_file file;
    if (report_file_open(r, report_text(r, "%s/figures/%s.gp", r->out, name), &file) != AN_REPORT_OK)
        return;
    plot_write_orders(item->title, r->database, order, count, file.out);
    report_file_close(r, &file);
}

static an_report_status make_figure(report *r, const document *item)
{
    const json_t *rows = json_object_get(item->json, "rows");
    const size_t count = json_array_size(rows);
    const int papers = only_the_papers(rows);
    report_figure figure = {.heading = report_text(r, "Self-similarity by token order: %s", item->title),
                            .text = "the stored table has no rows"};
    plot_order *order = calloc(count + 1, sizeof *order);
    if (!order)
        return report_no_memory(r);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(rows, i);
        order[i] = order_of(row, papers);
        add_row(r, item, order[i].name, row);
    }
    if (count > 0) {
        figure.name = report_text(r, "similarity-%s", item->slug);
        figure.text =
            report_text(r,
                        "Mean self-similarity of the blocks of Q and K%s, the sparsity that follows and the "
                        "relative L1 error, for each order in which the tokens of the grid were laid out as a "
                        "sequence. %s, %s, %s; run %lld.",
                        papers ? " by the paper's formula" : ", as the method judges it",
                        report_workload_name(r, item->field[DOCUMENT_WORKLOAD]), item->field[DOCUMENT_LABEL],
                        problem_of(r, item), (long long)item->run_id);
        write_script(r, item, order, count, figure.name);
    }
    free(order);
    return report_add_figure(r, &figure);
}

static void make_figures(report *r, documents *d)
{
    r->similarity = an_table_create();
    r->similarity_run = calloc(d->count, sizeof *r->similarity_run);
    if (!r->similarity || !r->similarity_run) {
        report_no_memory(r);
        return;
    }
    add_columns(r->similarity);
    for (size_t i = 0; i < d->count && r->status == AN_REPORT_OK; i++) {
        r->similarity_run[r->similarity_runs++] = d->item[i].run_id;
        name_document(d, i);
        make_figure(r, &d->item[i]);
    }
}

an_report_status report_make_similarity(report *r, rs_store *store)
{
    rs_error error;
    documents d = {.r = r};
    if (rs_documents(store, "similarity", take_document, &d, &error) != RS_OK)
        report_fail(r, AN_REPORT_STORE, "%s", error.text);
    if (d.count > 0 && r->status == AN_REPORT_OK)
        make_figures(r, &d);
    for (size_t i = 0; i < d.count; i++)
        json_decref(d.item[i].json);
    free(d.item);
    return r->status;
}
