/* Similarity tables as JSON documents: {"workload", "method", "settings", "grid", ..., "rows": [{"order", "sim_q", ...}]};
 * analysis/report_similarity.c reads them. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/database.h"
#include "command/similarity.h"
#include "measure/provenance.h"
#include "report.h"

static int same_but_order(const sb_point *a, const sb_point *b)
{
    const sparge_problem *p = &a->workload.problem, *q = &b->workload.problem;
    return strcmp(a->workload.name, b->workload.name) == 0 && a->workload.seed == b->workload.seed &&
           sparge_params_method(a->params) == sparge_params_method(b->params) &&
           strcmp(a->parameters, b->parameters) == 0 && p->batch == q->batch && p->heads_q == q->heads_q &&
           p->heads_kv == q->heads_kv && p->seqlen_k == q->seqlen_k && p->head_dim == q->head_dim &&
           p->dtype == q->dtype && p->causal == q->causal && p->grid.t == q->grid.t && p->grid.h == q->grid.h &&
           p->grid.w == q->grid.w && p->grid.text_before == q->grid.text_before &&
           p->grid.text_after == q->grid.text_after;
}

/* JSON has no NaN. */
static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *describe_row(const sb_similarity_row *row)
{
    const sb_locality *l = &row->locality;
    const wl_workload *workload = &row->point->workload;
    return json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:i, s:i}", "order", wl_order_name(workload->order),
                     "tokens", (json_int_t)workload->problem.seqlen_k, "sim_q", number_or_null(l->sim_q), "sim_k",
                     number_or_null(l->sim_k), "sim_q_paper", number_or_null(l->sim_q_paper), "sim_k_paper",
                     number_or_null(l->sim_k_paper), "sparsity", number_or_null(l->sparsity), "rel_l1",
                     number_or_null(l->rel_l1), "error_rows", (json_int_t)l->error_rows, "block_q", (int)l->block_q,
                     "block_k", (int)l->block_k);
}

/* What all rows of a document share. Takes `rows` over, also on failure. */
static json_t *describe_point(const sb_point *point, json_t *rows)
{
    char grid[64], seed[32]; /* text, since a seed has 64 bits without sign */
    const sparge_problem *p = &point->workload.problem;
    snprintf(grid, sizeof grid, "%dx%dx%d", p->grid.t, p->grid.h, p->grid.w);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)point->workload.seed);
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:s, s:s, s:s, s:s, s:I, s:o}", "workload",
                     point->workload.name, "method", sparge_method_name(sparge_params_method(point->params)),
                     "settings", point->settings, "batch", (int)p->batch, "heads_q", (int)p->heads_q, "heads_kv",
                     (int)p->heads_kv, "head_dim", (int)p->head_dim, "dtype", sparge_dtype_name(p->dtype), "causal",
                     sparge_causal_name(p->causal), "seed", seed, "grid", grid, "text_tokens",
                     (json_int_t)p->grid.text_before + p->grid.text_after, "rows", rows);
}

/* The document of the rows like rows[first]; NULL if memory runs out. */
static char *make_document(const sb_similarity_row *rows, size_t count, size_t first)
{
    const sb_point *point = rows[first].point;
    json_t *list = json_array();
    int failed = list == NULL;
    for (size_t i = first; i < count && !failed; i++)
        if (rows[i].measured && same_but_order(point, rows[i].point))
            failed = json_array_append_new(list, describe_row(&rows[i])) != 0;
    json_t *document = describe_point(point, list);
    char *text = failed || !document ? NULL : json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(10));
    json_decref(document);
    return text;
}

static int is_first_of_its_kind(const sb_similarity_row *rows, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (rows[i].measured && same_but_order(rows[i].point, rows[index].point))
            return 0;
    return rows[index].measured;
}

static int add_documents(rs_store *store, int64_t run, const sb_similarity_row *rows, size_t count)
{
    rs_error error = {.status = RS_OK};
    for (size_t i = 0; i < count; i++) {
        if (!is_first_of_its_kind(rows, i))
            continue;
        char *text = make_document(rows, count, i);
        if (!text)
            return sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for the similarity of %s", rows[i].point->workload.name);
        rs_status status = rs_document_add(store, run, "similarity", text, &error);
        free(text);
        if (status != RS_OK)
            return sb_fail(SB_EXIT_ENVIRONMENT, "%s", error.text);
    }
    return SB_EXIT_OK;
}

static int add_run(const sb_arguments *arguments, sparge_context *context, rs_store *store,
                   const sb_similarity_row *rows, size_t count)
{
    sb_provenance provenance;
    sparge_device_info device;
    rs_error error = {.status = RS_OK};
    int64_t run_id;
    if (sparge_device_get_info(context, &device) != SPARGE_OK)
        return sb_fail(SB_EXIT_ENVIRONMENT, "%s", sparge_error_string(context));
    sb_provenance_gather(&provenance);
    rs_run run = sb_provenance_run(&provenance, &device);
    run.command = sb_command_line(arguments);
    run.seed = count ? rows[0].point->workload.seed : 0;
    if (rs_run_begin(store, &run, &run_id, &error) != RS_OK)
        return sb_fail(SB_EXIT_ENVIRONMENT, "%s", error.text);
    int code = add_documents(store, run_id, rows, count);
    if (rs_run_end(store, run_id, code == SB_EXIT_OK ? "done" : "failed", NULL, &error) != RS_OK && code == SB_EXIT_OK)
        code = sb_fail(SB_EXIT_ENVIRONMENT, "%s", error.text);
    return code;
}

static int draw(rs_store *store, const char *path, const char *folder)
{
    const an_report_options options = {.title = NULL};
    char text[512] = "";
    switch (an_report(store, path, folder, &options, text, sizeof text)) {
    case AN_REPORT_OK:
        return SB_EXIT_OK;
    case AN_REPORT_NO_GNUPLOT:
        return sb_fail(SB_EXIT_ENVIRONMENT, "no pictures, only tables and .gp files were written: %s", text);
    case AN_REPORT_MEMORY:
        return sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for the report");
    case AN_REPORT_IO:
    case AN_REPORT_STORE:
        break;
    }
    return sb_fail(SB_EXIT_ENVIRONMENT, "%s", text);
}

int sb_similarity_store(const sb_arguments *arguments, sparge_context *context, const sb_similarity_row *rows,
                        size_t count)
{
    const char *folder = sb_argument(arguments, "output"), *path = sb_argument(arguments, "db");
    char inside[4096];
    if (!folder && !path)
        return SB_EXIT_OK;
    if (folder && mkdir(folder, 0777) != 0 && errno != EEXIST)
        return sb_fail(SB_EXIT_ENVIRONMENT, "cannot make the folder '%s': %s", folder, strerror(errno));
    if (!path) {
        if (snprintf(inside, sizeof inside, "%s/similarity.db", folder) >= (int)sizeof inside)
            return sb_fail(SB_EXIT_USAGE, "--output %s: the path is too long", folder);
        path = inside;
    }
    rs_store *store = sb_database_open(path, RS_WRITE);
    if (!store)
        return SB_EXIT_ENVIRONMENT;
    int code = add_run(arguments, context, store, rows, count);
    if (code == SB_EXIT_OK && folder)
        code = draw(store, path, folder);
    int closed = sb_database_close(store);
    return code == SB_EXIT_OK ? closed : code;
}
