/* Curves: which rows a figure joins. By label, a curve is a method with its settings. By parameter, where lengths are
 * equal, a curve holds the rows of a method that differ in one parameter alone: one that sweeps tau and topk has two.
 *
 * Candidates are all groups of rows that agree in every parameter but one; the group that adds most rows is taken until
 * none adds any. A group may hold rows of an earlier curve: two sweeps that cross share the point where they do. */
#include "report_internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* The rows of one method. */
typedef struct members {
    const an_row **row;
    json_t **values; /* the parameters of each */
    char *taken;     /* 1: in a curve already */
    size_t count;
    json_t *varying; /* object: the names of the parameters in which they differ */
} members;

static report_curve *add_curve(report *r, report_curves *curves, size_t capacity)
{
    const report_curve empty = {.row = calloc(capacity + 1, sizeof *empty.row)};
    report_curve *moved = realloc(curves->curve, (curves->count + 1) * sizeof *moved);
    if (moved)
        curves->curve = moved;
    if (!moved || !empty.row) {
        free(empty.row);
        report_no_memory(r);
        return NULL;
    }
    moved[curves->count] = empty;
    return &moved[curves->count++];
}

void report_curves_release(report_curves *curves)
{
    for (size_t i = 0; i < curves->count; i++)
        free(curves->curve[i].row);
    free(curves->curve);
    *curves = (report_curves){0};
}

an_report_status report_curves_by_label(report *r, const an_row *const *row, size_t rows, report_curves *curves)
{
    for (size_t s = 0; s < r->styles.count; s++) {
        report_curve *curve = NULL;
        for (size_t i = 0; i < rows; i++) {
            if (strcmp(row[i]->label, r->styles.style[s].label) != 0)
                continue;
            if (!curve)
                curve = add_curve(r, curves, rows);
            if (!curve)
                return r->status;
            curve->title = r->styles.style[s].label;
            curve->style = &r->styles.style[s];
            curve->joined = 1;
            curve->row[curve->rows++] = row[i];
        }
    }
    return r->status;
}

static int is_number(const json_t *value)
{
    const char *text = json_string_value(value);
    char *end = NULL;
    if (!text)
        return json_is_number(value);
    strtod(text, &end);
    return end != text && *end == '\0';
}

static int is_equal(const json_t *a, const json_t *b, const char *name)
{
    const json_t *x = json_object_get(a, name), *y = json_object_get(b, name);
    return (!x && !y) || json_equal(x, y); /* json_equal is false if one is NULL */
}

/* May both stand on one curve of `name`: numbers there, and everything else equal? */
static int on_one_curve(const members *m, size_t i, size_t j, const char *name)
{
    const char *other;
    json_t *unused;
    if (!is_number(json_object_get(m->values[i], name)) || !is_number(json_object_get(m->values[j], name)))
        return 0;
    json_object_foreach(m->varying, other, unused)
    {
        if (strcmp(other, name) != 0 && !is_equal(m->values[i], m->values[j], other))
            return 0;
    }
    return 1;
}

static int find_varying(members *m)
{
    m->varying = json_object();
    for (size_t i = 1; m->varying && i < m->count; i++) {
        json_t *const sides[] = {m->values[0], m->values[i]};
        for (size_t side = 0; side < 2; side++) {
            const char *name;
            json_t *value;
            json_object_foreach(sides[side], name, value)
            {
                if (!is_equal(sides[0], sides[1], name) && json_object_set_new(m->varying, name, json_true()) != 0)
                    return -1;
            }
        }
    }
    return m->varying ? 0 : -1;
}

/* How many rows would the curve of `name` through row `through` have, and how many of them are not yet in a curve? */
static size_t count_new(const members *m, size_t through, const char *name, size_t *all)
{
    size_t added = 0;
    *all = 0;
    for (size_t i = 0; i < m->count; i++) {
        if (!on_one_curve(m, through, i, name))
            continue;
        ++*all;
        added += !m->taken[i];
    }
    return added;
}

/* The settings of a row without that of `name`, which the curve runs through. */
static const char *title_of(report *r, const an_row *row, const char *name)
{
    const char *title = row->row.point.method;
    for (const char *word = row->row.point.settings; *word;) {
        const int length = (int)strcspn(word, " ");
        const size_t named = strcspn(word, "=");
        if (named != strlen(name) || strncmp(word, name, named) != 0)
            title = report_text(r, "%s %.*s", title, length, word);
        word += length;
        word += *word == ' ';
    }
    return report_text(r, "%s %s", title, name);
}

static int take(report *r, members *m, size_t through, const char *name, report_curves *curves)
{
    report_curve *curve = add_curve(r, curves, m->count);
    if (!curve)
        return 0;
    curve->joined = 1;
    curve->title = title_of(r, m->row[through], name);
    for (size_t i = 0; i < m->count; i++) {
        if (!on_one_curve(m, through, i, name))
            continue;
        if (!curve->style && !m->taken[i])
            curve->style = plot_style_of_label(&r->styles, m->row[i]->label);
        curve->row[curve->rows++] = m->row[i];
        m->taken[i] = 1;
    }
    return 1;
}

/* The largest curve that is left; 0 if none is. */
static int take_largest(report *r, members *m, report_curves *curves)
{
    size_t best = 0, best_through = 0;
    const char *best_name = NULL;
    for (size_t i = 0; i < m->count; i++) {
        const char *name;
        json_t *unused;
        if (m->taken[i])
            continue;
        json_object_foreach(m->varying, name, unused)
        {
            size_t all;
            const size_t added = count_new(m, i, name, &all);
            if (all > 1 && added > best) {
                best = added;
                best_through = i;
                best_name = name;
            }
        }
    }
    return best_name && take(r, m, best_through, best_name, curves);
}

static void take_rest(report *r, members *m, report_curves *curves)
{
    for (size_t i = 0; i < m->count; i++) {
        report_curve *curve = m->taken[i] ? NULL : add_curve(r, curves, 1);
        if (!curve)
            continue;
        curve->title = m->row[i]->label;
        curve->style = plot_style_of_label(&r->styles, m->row[i]->label);
        curve->row[curve->rows++] = m->row[i];
    }
}

static void add_method(report *r, const char *method, const an_row *const *row, size_t rows, members *m,
                       report_curves *curves)
{
    m->count = 0;
    for (size_t i = 0; i < rows; i++) {
        if (strcmp(row[i]->row.point.method, method) != 0)
            continue;
        json_t *values = json_loads(row[i]->row.point.parameters, 0, NULL);
        m->taken[m->count] = 0;
        m->values[m->count] = values;
        m->row[m->count++] = row[i];
        if (!values)
            report_no_memory(r); /* the store holds valid JSON only */
    }
    if (r->status == AN_REPORT_OK && find_varying(m) != 0)
        report_no_memory(r);
    while (r->status == AN_REPORT_OK && take_largest(r, m, curves))
        continue;
    take_rest(r, m, curves);
    for (size_t i = 0; i < m->count; i++)
        json_decref(m->values[i]);
    json_decref(m->varying);
    m->varying = NULL;
}

an_report_status report_curves_by_parameter(report *r, const an_row *const *row, size_t rows, report_curves *curves)
{
    members m = {.row = calloc(rows + 1, sizeof *m.row),
                 .values = calloc(rows + 1, sizeof *m.values),
                 .taken = calloc(rows + 1, 1)};
    if (!m.row || !m.values || !m.taken)
        report_no_memory(r);
    for (size_t s = 0; s < r->styles.count && r->status == AN_REPORT_OK; s++) {
        const char *method = r->styles.style[s].method;
        size_t first = 0;
        while (strcmp(r->styles.style[first].method, method) != 0)
            first++;
        if (first == s)
            add_method(r, method, row, rows, &m, curves);
    }
    free(m.row);
    free(m.values);
    free(m.taken);
    return r->status;
}
