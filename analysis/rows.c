/* Loading result rows: every measurement of a store with medians, intervals, rates and a label. Tables are made in
 * row_tables.c. */
#include "rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double interval_level = 0.95;

/* One string of an an_rows, in a list that an_rows_release walks. */
struct an_text {
    struct an_text *next;
    char text[];
};

/* A copy that lives as long as the rows; NULL stays NULL. *failed is set if there is no memory. */
static const char *keep(an_rows *rows, const char *text, int *failed)
{
    if (!text)
        return NULL;
    const size_t bytes = strlen(text) + 1;
    struct an_text *copy = malloc(sizeof *copy + bytes);
    if (!copy) {
        *failed = 1;
        return NULL;
    }
    memcpy(copy->text, text, bytes);
    copy->next = rows->texts;
    rows->texts = copy;
    return copy->text;
}

/* Replaces every string of a row of the store, which dies with the callback, by a copy. */
static int keep_texts(an_rows *rows, rs_row *row)
{
    rs_run *run = &row->run;
    rs_point *point = &row->point;
    const char **const texts[] = {
        &run->started_utc, &run->ended_utc,    &run->status,          &run->command,        &run->program_version,
        &run->git_sha,     &run->build_type,   &run->compiler,        &run->compiler_flags, &run->binary_sha256,
        &run->backend,     &run->device_name,  &run->device_uuid,     &run->device_arch,    &run->host,
        &run->os,          &run->cpu_model,    &run->driver,          &run->cuda_runtime,   &run->note,
        &point->key,       &point->workload,   &point->workload_hash, &point->order,        &point->grid,
        &point->method,    &point->parameters, &point->settings,      &point->backend,      &point->device,
        &point->dtype,     &point->causal,     &row->reason,          &row->repro,          &row->facts.sparsity_basis,
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = keep(rows, *texts[i], &failed);
    return failed ? -1 : 0;
}

typedef struct loading {
    an_rows *rows;
    size_t capacity;
    int failed; /* out of memory */
} loading;

static int load_row(void *user, const rs_row *row)
{
    loading *l = user;
    if (l->rows->count == l->capacity) {
        const size_t larger = l->capacity ? 2 * l->capacity : 64;
        an_row *moved = larger <= SIZE_MAX / sizeof *moved ? realloc(l->rows->row, larger * sizeof *moved) : NULL;
        if (!moved) {
            l->failed = 1;
            return 1;
        }
        l->rows->row = moved;
        l->capacity = larger;
    }
    const an_estimate unknown = {NAN, NAN, NAN, NAN};
    an_row *added = &l->rows->row[l->rows->count];
    *added = (an_row){.row = *row,
                      .total_ms = unknown,
                      .prepare_ms = unknown,
                      .select_ms = unknown,
                      .attend_ms = unknown,
                      .tops = NAN,
                      .attend_tops = NAN,
                      .executed_tops = NAN};
    if (keep_texts(l->rows, &added->row) != 0) {
        l->failed = 1;
        return 1;
    }
    l->rows->count++;
    return 0;
}

static an_estimate median_ms(double *ns, size_t count)
{
    an_sort(ns, count);
    an_estimate e = an_median_sorted(ns, count, interval_level);
    e.value /= 1e6;
    e.low /= 1e6;
    e.high /= 1e6;
    return e;
}

/* 10^12 operations a second; NAN if either number is unknown. */
static double tera_rate(double operations, double ms)
{
    return operations >= 0 && ms > 0 ? operations / (ms * 1e9) : NAN;
}

int an_row_set_samples(an_row *row, rs_stage stage, const int64_t *ns, size_t count)
{
    if (count > SIZE_MAX / sizeof(double))
        return -1;
    double *in_order = malloc((count ? count : 1) * sizeof *in_order);
    double *sorted = malloc((count ? count : 1) * sizeof *sorted);
    if (!in_order || !sorted) {
        free(in_order);
        free(sorted);
        return -1;
    }
    for (size_t i = 0; i < count; i++)
        in_order[i] = sorted[i] = (double)ns[i];
    an_estimate *const estimate[] = {[RS_TOTAL] = &row->total_ms,
                                     [RS_PREPARE] = &row->prepare_ms,
                                     [RS_SELECT] = &row->select_ms,
                                     [RS_ATTEND] = &row->attend_ms};
    *estimate[stage] = median_ms(sorted, count);
    free(sorted);
    if (stage == RS_TOTAL) {
        free(row->total_ns);
        row->total_ns = in_order;
        row->total_count = count;
    } else {
        free(in_order);
    }
    row->tops = tera_rate(row->row.facts.dense_ops, row->total_ms.value);
    row->attend_tops = tera_rate(row->row.facts.dense_ops, row->attend_ms.value);
    row->executed_tops = tera_rate(row->row.facts.executed_ops, row->attend_ms.value);
    return 0;
}

static size_t count_visits(const int32_t *visit, size_t count)
{
    size_t visits = 0;
    for (size_t i = 0; i < count; i++)
        visits += i == 0 || visit[i] != visit[i - 1];
    return visits;
}

static rs_status load_samples(rs_store *store, an_row *row, int *failed, rs_error *error)
{
    for (rs_stage stage = RS_TOTAL; stage <= RS_ATTEND; stage++) {
        int64_t *ns = NULL;
        int32_t *visit = NULL;
        size_t count = 0;
        const rs_status status =
            rs_samples(store, row->row.measurement_id, stage, &ns, stage == RS_TOTAL ? &visit : NULL, &count, error);
        if (status != RS_OK)
            return status;
        if (stage == RS_TOTAL)
            row->visits = count_visits(visit, count);
        if (an_row_set_samples(row, stage, ns, count) != 0)
            *failed = 1;
        free(ns);
        free(visit);
    }
    return RS_OK;
}

int an_rows_set_labels(an_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        an_row *row = &rows->row[i];
        const char *method = row->row.point.method, *settings = row->row.point.settings;
        const size_t size = strlen(method) + strlen(settings) + 2;
        free(row->label);
        row->label = malloc(size);
        if (!row->label)
            return -1;
        snprintf(row->label, size, "%s%s%s", method, *settings ? " " : "", settings);
    }
    return 0;
}

static int compare_keys(const void *a, const void *b)
{
    const an_row *const *x = a, *const *y = b;
    const int order = strcmp((*x)->row.point.key, (*y)->row.point.key);
    return order ? order : (*x > *y) - (*x < *y);
}

/* Keeps the last row of every point, in the order they have. Rows without samples own nothing but their strings. */
static int keep_latest(an_rows *rows)
{
    if (rows->count < 2)
        return 0;
    an_row **by_key = malloc(rows->count * sizeof *by_key);
    char *drop = calloc(rows->count, 1);
    if (!by_key || !drop) {
        free(by_key);
        free(drop);
        return -1;
    }
    for (size_t i = 0; i < rows->count; i++)
        by_key[i] = &rows->row[i];
    qsort(by_key, rows->count, sizeof(an_row *), compare_keys);
    for (size_t i = 0; i + 1 < rows->count; i++)
        if (strcmp(by_key[i]->row.point.key, by_key[i + 1]->row.point.key) == 0)
            drop[by_key[i] - rows->row] = 1;
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; i++)
        if (!drop[i])
            rows->row[kept++] = rows->row[i];
    rows->count = kept;
    free(by_key);
    free(drop);
    return 0;
}

rs_status an_rows_load(rs_store *store, int latest, an_rows *rows, rs_error *error)
{
    *rows = (an_rows){0};
    loading l = {.rows = rows};
    rs_status status = rs_rows(store, load_row, &l, error);
    if (status == RS_OK && !l.failed && latest && keep_latest(rows) != 0)
        l.failed = 1;
    for (size_t i = 0; status == RS_OK && !l.failed && i < rows->count; i++)
        status = load_samples(store, &rows->row[i], &l.failed, error);
    if (status == RS_OK && !l.failed && an_rows_set_labels(rows) != 0)
        l.failed = 1;
    if (status == RS_OK && l.failed) {
        status = RS_ERROR_OTHER;
        *error = (rs_error){.status = status, .text = "out of memory while reading the results"};
    }
    if (status != RS_OK)
        an_rows_release(rows);
    return status;
}

void an_rows_release(an_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        free(rows->row[i].label);
        free(rows->row[i].total_ns);
    }
    free(rows->row);
    while (rows->texts) {
        struct an_text *next = rows->texts->next;
        free(rows->texts);
        rows->texts = next;
    }
    *rows = (an_rows){0};
}
