/* Result rows as a short table: what sweep prints at its end, and the report's table of results. */
#include "rows.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void order_text(const rs_point *p, char *text, size_t size)
{
    snprintf(text, size, "%s", p->order);
}

static void heads_text(const rs_point *p, char *text, size_t size)
{
    if (p->heads_q == p->heads_kv)
        snprintf(text, size, "%lld", (long long)p->heads_q);
    else
        snprintf(text, size, "%lld/%lld", (long long)p->heads_q, (long long)p->heads_kv);
}

static void batch_text(const rs_point *p, char *text, size_t size)
{
    snprintf(text, size, "%lld", (long long)p->batch);
}

static void head_dim_text(const rs_point *p, char *text, size_t size)
{
    snprintf(text, size, "%lld", (long long)p->head_dim);
}

static void dtype_text(const rs_point *p, char *text, size_t size)
{
    snprintf(text, size, "%s", p->dtype);
}

static void causal_text(const rs_point *p, char *text, size_t size)
{
    snprintf(text, size, "%s", p->causal);
}

static void seed_text(const rs_point *p, char *text, size_t size)
{
    snprintf(text, size, "%llu", (unsigned long long)p->seed);
}

static void threads_text(const rs_point *p, char *text, size_t size)
{
    snprintf(text, size, "%d", p->threads);
}

static void device_text(const rs_point *p, char *text, size_t size)
{
    snprintf(text, size, "%s", p->device);
}

/* What a sweep may vary beside workload, length and method. */
static const struct axis {
    const char *name;
    void (*text)(const rs_point *p, char *text, size_t size);
    an_cell_type type;
} axes[] = {
    {"order", order_text, AN_TEXT},         {"heads", heads_text, AN_NUMBER},     {"batch", batch_text, AN_NUMBER},
    {"head_dim", head_dim_text, AN_NUMBER}, {"dtype", dtype_text, AN_TEXT},       {"causal", causal_text, AN_TEXT},
    {"seed", seed_text, AN_NUMBER},         {"threads", threads_text, AN_NUMBER}, {"device", device_text, AN_TEXT},
};
enum { AXES = sizeof axes / sizeof *axes, AXIS_TEXT = 128 };

/* Do rows of one workload differ in it? That another workload has other heads is the workload's name to say. */
static int varies(const an_rows *rows, const struct axis *axis)
{
    char here[AXIS_TEXT], there[AXIS_TEXT];
    for (size_t i = 0; i < rows->count; i++) {
        const rs_point *p = &rows->row[i].row.point;
        size_t first = 0;
        while (strcmp(rows->row[first].row.point.workload, p->workload) != 0)
            first++;
        axis->text(&rows->row[first].row.point, there, sizeof there);
        axis->text(p, here, sizeof here);
        if (strcmp(here, there) != 0)
            return 1;
    }
    return 0;
}

static void axis_cell(an_table *table, const struct axis *axis, const rs_point *p)
{
    char text[AXIS_TEXT], *end = NULL;
    axis->text(p, text, sizeof text);
    errno = 0;
    const long long number = axis->type == AN_NUMBER ? strtoll(text, &end, 10) : 0;
    if (end && *end == '\0' && errno == 0)
        an_table_integer(table, number);
    else
        an_table_text(table, text); /* "32/8" heads; a seed of all 64 bits */
}

/* theta of a method that judges its blocks by it; NAN if there is none or one for each head. */
static double theta_of(const rs_point *p)
{
    json_t *parameters = json_loads(p->parameters, 0, NULL);
    const char *text = json_string_value(json_object_get(parameters, "theta"));
    char *end = NULL;
    double theta = text ? strtod(text, &end) : NAN;
    if (!text || end == text || *end != '\0')
        theta = NAN;
    json_decref(parameters);
    return theta;
}

/* Why a method of the sparge family skipped no block, where its blocks say so; 0 if there is nothing to say. */
static int similarity_note(const an_row *r, char *text, size_t size)
{
    const rs_facts *f = &r->row.facts;
    if (r->row.outcome != RS_DONE || f->sparsity_mg != 0 || !(isfinite(f->sim_q) && isfinite(f->sim_k)))
        return 0;
    const double theta = theta_of(&r->row.point);
    if (!(f->sim_q <= theta || f->sim_k <= theta))
        return 0;
    snprintf(text, size, "blocks too unlike: sim_q %.3f, sim_k %.3f, theta %g", f->sim_q, f->sim_k, theta);
    return 1;
}

int an_rows_have_notes(const an_rows *rows)
{
    char text[AXIS_TEXT];
    for (size_t i = 0; i < rows->count; i++)
        if (similarity_note(&rows->row[i], text, sizeof text))
            return 1;
    return 0;
}

an_table *an_rows_summary(const an_rows *rows)
{
    static const char *const numbers[] = {"total_ms", "ms_low", "ms_high", "tops", "sparsity", "rel_l1"};
    char text[AXIS_TEXT];
    int shown[AXES];
    an_table *table = an_table_create();
    if (!table)
        return NULL;
    an_table_column(table, "workload", AN_TEXT);
    for (size_t a = 0; a < AXES; a++) {
        shown[a] = varies(rows, &axes[a]);
        if (shown[a])
            an_table_column(table, axes[a].name, axes[a].type);
    }
    an_table_column(table, "seqlen", AN_NUMBER);
    an_table_column(table, "method", AN_TEXT);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        an_table_column(table, numbers[i], AN_NUMBER);
    an_table_column(table, "status", AN_TEXT);
    const int notes = an_rows_have_notes(rows);
    if (notes)
        an_table_column(table, "note", AN_TEXT);
    for (size_t i = 0; i < rows->count; i++) {
        const an_row *r = &rows->row[i];
        an_table_text(table, r->row.point.workload);
        for (size_t a = 0; a < AXES; a++) {
            if (shown[a])
                axis_cell(table, &axes[a], &r->row.point);
        }
        an_table_integer(table, r->row.point.seqlen_q);
        an_table_text(table, r->label);
        an_table_short(table, r->total_ms.value);
        an_table_short(table, r->total_ms.low);
        an_table_short(table, r->total_ms.high);
        an_table_short(table, r->tops);
        an_table_number(table, r->row.facts.sparsity, "%.3f");
        an_table_number(table, r->row.facts.rel_l1, "%.2e");
        an_table_text(table, rs_outcome_name(r->row.outcome));
        if (notes)
            an_table_text(table, similarity_note(r, text, sizeof text) ? text : NULL);
    }
    return table;
}
