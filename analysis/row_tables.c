/* Result rows as a table: the export, one column per fact. */
#include "rows.h"

#include <math.h>

/* Facts that are counts: negative = not known. */
static void count_cell(an_table *table, int64_t value)
{
    if (value < 0)
        an_table_text(table, NULL);
    else
        an_table_integer(table, value);
}

static void estimate_columns(an_table *table, const char *name)
{
    static const char *const suffix[] = {"", "_low", "_high"};
    for (size_t i = 0; i < 3; i++) {
        char column[64];
        snprintf(column, sizeof column, "%s%s", name, suffix[i]);
        an_table_column(table, column, AN_NUMBER);
    }
}

static void estimate_cells(an_table *table, const an_estimate *estimate)
{
    an_table_short(table, estimate->value);
    an_table_short(table, estimate->low);
    an_table_short(table, estimate->high);
}

/* Adds the columns named in a list that ends with NULL. */
static void add_columns(an_table *table, an_cell_type type, const char *const *name)
{
    for (; *name; name++)
        an_table_column(table, *name, type);
}

static void export_columns(an_table *table)
{
    static const char *const workload[] = {"workload", "workload_hash", "order", "grid", NULL};
    static const char *const method[] = {"method", "parameters", "settings", "backend", "device", NULL};
    static const char *const shape[] = {"batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_k", "head_dim", NULL};
    static const char *const semantics[] = {"dtype", "causal", NULL};
    static const char *const sparsity[] = {"seed", "threads", "sparsity", "sparsity_mg", "sparsity_pv", NULL};
    static const char *const blocks[] = {"sim_q", "sim_k", "pv_unit", "block_q", "block_k", NULL};
    static const char *const stage[] = {"total_ms", "prepare_ms", "select_ms", "attend_ms", NULL};
    static const char *const rates[] = {"samples", "visits", "tops", "attend_tops", "executed_tops", NULL};
    static const char *const error[] = {"rel_l1",    "rel_l2",     "cosine",         "rmse", "max_abs",
                                        "nonfinite", "error_rows", "error_all_rows", NULL};
    static const char *const origin[] = {"status", "reason", "repro", NULL};
    static const char *const provenance[] = {"started_utc", "git_sha", "point_key", NULL};
    add_columns(table, AN_TEXT, workload);
    an_table_column(table, "text_tokens", AN_NUMBER);
    add_columns(table, AN_TEXT, method);
    add_columns(table, AN_NUMBER, shape);
    add_columns(table, AN_TEXT, semantics);
    add_columns(table, AN_NUMBER, sparsity);
    an_table_column(table, "sparsity_basis", AN_TEXT);
    add_columns(table, AN_NUMBER, blocks);
    for (size_t i = 0; stage[i]; i++)
        estimate_columns(table, stage[i]);
    add_columns(table, AN_NUMBER, rates);
    add_columns(table, AN_NUMBER, error);
    an_table_column(table, "workspace_bytes", AN_NUMBER);
    add_columns(table, AN_TEXT, origin);
    an_table_column(table, "run", AN_NUMBER);
    add_columns(table, AN_TEXT, provenance);
}

/* Seeds use all 64 bits; the upper half does not fit a table's integer and is written as text. */
static void seed_cell(an_table *table, uint64_t seed)
{
    char text[32];
    if (seed <= INT64_MAX) {
        an_table_integer(table, (int64_t)seed);
        return;
    }
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    an_table_text(table, text);
}

static void export_row(an_table *table, const an_row *r)
{
    const rs_point *p = &r->row.point;
    const rs_facts *f = &r->row.facts;
    an_table_text(table, p->workload);
    an_table_text(table, p->workload_hash);
    an_table_text(table, p->order);
    an_table_text(table, p->grid);
    an_table_integer(table, p->text_tokens);
    an_table_text(table, p->method);
    an_table_text(table, p->parameters);
    an_table_text(table, p->settings);
    an_table_text(table, p->backend);
    an_table_text(table, p->device);
    an_table_integer(table, p->batch);
    an_table_integer(table, p->heads_q);
    an_table_integer(table, p->heads_kv);
    an_table_integer(table, p->seqlen_q);
    an_table_integer(table, p->seqlen_k);
    an_table_integer(table, p->head_dim);
    an_table_text(table, p->dtype);
    an_table_text(table, p->causal);
    seed_cell(table, p->seed);
    an_table_integer(table, p->threads);
    an_table_number(table, f->sparsity, "%.4f");
    an_table_number(table, f->sparsity_mg, "%.4f");
    an_table_number(table, f->sparsity_pv, "%.4f");
    an_table_text(table, f->sparsity_basis);
    an_table_number(table, f->sim_q, "%.4f");
    an_table_number(table, f->sim_k, "%.4f");
    count_cell(table, f->pv_unit);
    count_cell(table, f->block_q);
    count_cell(table, f->block_k);
    estimate_cells(table, &r->total_ms);
    estimate_cells(table, &r->prepare_ms);
    estimate_cells(table, &r->select_ms);
    estimate_cells(table, &r->attend_ms);
    an_table_integer(table, (int64_t)r->total_count);
    an_table_integer(table, (int64_t)r->visits);
    an_table_short(table, r->tops);
    an_table_short(table, r->attend_tops);
    an_table_short(table, r->executed_tops);
    an_table_number(table, f->rel_l1, "%.3e");
    an_table_number(table, f->rel_l2, "%.3e");
    an_table_number(table, f->cosine, "%.6f");
    an_table_number(table, f->rmse, "%.3e");
    an_table_number(table, f->max_abs, "%.3e");
    count_cell(table, f->nonfinite);
    count_cell(table, f->error_rows);
    count_cell(table, f->error_rows > 0 ? f->error_all_rows : -1);
    count_cell(table, f->workspace_bytes);
    an_table_text(table, rs_outcome_name(r->row.outcome));
    an_table_text(table, r->row.reason);
    an_table_text(table, r->row.repro);
    an_table_integer(table, r->row.run.id);
    an_table_text(table, r->row.run.started_utc);
    an_table_text(table, r->row.run.git_sha);
    an_table_text(table, p->key);
}

an_table *an_rows_table(const an_rows *rows)
{
    an_table *table = an_table_create();
    if (!table)
        return NULL;
    export_columns(table);
    for (size_t i = 0; i < rows->count; i++)
        export_row(table, &rows->row[i]);
    return table;
}
