/* Which figures a family of rows gives, from which of its numbers, and what their captions must say. */
#include "report_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The coordinates of a row in a figure; 0 if it has none there. */
typedef int (*point_fn)(const an_row *row, plot_point *point);

typedef enum grouping { BY_LABEL = 0, BY_PARAMETER } grouping;

typedef struct figure_kind {
    const char *name, *heading;
    plot_axis x, y;
    point_fn point;
    grouping series;
    int one_length; /* only the rows of one sequence length */
    int timed;      /* the caption explains intervals */
    const char *caption, *missing;
} figure_kind;

static double length_of(const an_row *row)
{
    return (double)row->row.point.seqlen_k;
}

static int latency_point(const an_row *row, plot_point *p)
{
    *p = (plot_point){length_of(row), row->total_ms.value, row->total_ms.low, row->total_ms.high};
    return p->y > 0;
}

/* A rate with the interval that the time's interval gives. */
static int rate_point(double x, double tops, const an_estimate *time, plot_point *p)
{
    *p = (plot_point){x, tops, tops * time->value / time->high, tops * time->value / time->low};
    return tops > 0 && isfinite(x);
}

static int tops_point(const an_row *row, plot_point *p)
{
    return rate_point(length_of(row), row->tops, &row->total_ms, p);
}

static int attend_tops_point(const an_row *row, plot_point *p)
{
    return rate_point(length_of(row), row->attend_tops, &row->attend_ms, p);
}

static int speed_point(const an_row *row, plot_point *p)
{
    return rate_point(row->row.facts.sparsity, row->tops, &row->total_ms, p);
}

static int error_point(const an_row *row, plot_point *p)
{
    *p = (plot_point){row->row.facts.sparsity, row->row.facts.rel_l1, NAN, NAN};
    return isfinite(p->x) && p->y > 0 && isfinite(p->y);
}

static int sparsity_point(const an_row *row, plot_point *p)
{
    *p = (plot_point){length_of(row), row->row.facts.sparsity, NAN, NAN};
    return isfinite(p->y);
}

/* Nothing that three decimals would show: a dense method, or a window wider than the sequence. */
static int skips_nothing(const plot_series *series)
{
    for (size_t i = 0; i < series->points; i++)
        if (series->point[i].y >= 5e-4)
            return 0;
    return 1;
}

static const figure_kind kinds[] = {
    {"latency",
     "Latency by sequence length",
     {"sequence length (tokens)", PLOT_TOKENS},
     {"time (ms)", PLOT_LOG},
     latency_point,
     BY_LABEL,
     0,
     1,
     "Time from Q, K and V in memory to O, all stages included and measured as one.",
     "no point has a measured time"},
    {"tops",
     "Speed by sequence length",
     {"sequence length (tokens)", PLOT_TOKENS},
     {"dense-equivalent TOPS", PLOT_RATE},
     tops_point,
     BY_LABEL,
     0,
     1,
     "Operations of dense attention (4 D for each visible pair of a query and a key, every head) divided by the time "
     "from Q, K and V to O, all stages included: skipped work counts as done, so a sparse method may exceed the "
     "hardware's peak.",
     "no point has both a time and an operation count"},
    {"attend-tops",
     "Speed of the attention stage alone",
     {"sequence length (tokens)", PLOT_TOKENS},
     {"dense-equivalent TOPS, attend only", PLOT_RATE},
     attend_tops_point,
     BY_LABEL,
     0,
     1,
     "Operations of dense attention divided by the time of the attend stage alone: without preparing the inputs and "
     "without selecting what to compute.",
     "no point has a time for the attend stage"},
    {"error-sparsity",
     "Error by sparsity",
     {"sparsity (share of products skipped)", PLOT_SHARE},
     {"relative L1 error", PLOT_LOG},
     error_point,
     BY_PARAMETER,
     1,
     0,
     "Sum of |O - O'| over the sum of |O|, where O is exact attention on the same inputs.",
     "no point has both a sparsity and an error above zero"},
    {"speed-sparsity",
     "Speed by sparsity",
     {"sparsity (share of products skipped)", PLOT_SHARE},
     {"dense-equivalent TOPS", PLOT_RATE},
     speed_point,
     BY_PARAMETER,
     1,
     1,
     "Operations of dense attention divided by the time from Q, K and V to O, all stages included.",
     "no point has a sparsity, a time and an operation count"},
    {"sparsity-length",
     "Sparsity by sequence length",
     {"sequence length (tokens)", PLOT_TOKENS},
     {"sparsity (share of products skipped)", PLOT_SHARE},
     sparsity_point,
     BY_LABEL,
     0,
     0,
     "Share of the QK and PV products of dense attention, over visible blocks or pairs, that were skipped. Methods "
     "that skip nothing are left out.",
     "no method skipped anything"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static int has_stages(const an_row *row)
{
    return isfinite(row->prepare_ms.value) || isfinite(row->select_ms.value) || isfinite(row->attend_ms.value);
}

static int stage_point(const an_row *row, plot_point *p)
{
    *p = (plot_point){.x = length_of(row)};
    return has_stages(row);
}

static int has_point(const an_row *row, point_fn point, plot_point *p)
{
    return report_is_measured(row) && point(row, p);
}

/* The sequence length at which most rows have a point; of equals, the longest. 0 if none has. */
static int64_t fullest_length(const report_family *family, point_fn point)
{
    int64_t best = 0;
    size_t best_count = 0;
    plot_point p;
    for (size_t i = 0; i < family->rows; i++) {
        const int64_t length = family->row[i]->row.point.seqlen_k;
        size_t count = 0;
        for (size_t j = 0; j < family->rows; j++)
            count += family->row[j]->row.point.seqlen_k == length && has_point(family->row[j], point, &p);
        if (count > best_count || (count > 0 && count == best_count && length > best)) {
            best = length;
            best_count = count;
        }
    }
    return best;
}

static int compare_points(const void *a, const void *b)
{
    const plot_point *p = a, *q = b;
    return p->x != q->x ? (p->x > q->x) - (p->x < q->x) : (p->y > q->y) - (p->y < q->y);
}

/* What a caption counts. */
typedef struct caption_counts {
    size_t points, few, single;
    size_t sampled; /* error from a sample of the query rows */
} caption_counts;

static void count_row(const an_row *row, const an_estimate *time, caption_counts *counts)
{
    counts->points++;
    counts->single += isfinite(time->low) ? 0 : 1;
    counts->few += isfinite(time->low) && time->coverage < 0.95;
    counts->sampled += row->row.facts.error_all_rows ? 0 : 1;
}

/* The points of one curve; NULL if out of memory. */
static plot_point *points_of(const report_curve *curve, const figure_kind *kind)
{
    plot_point *point = calloc(curve->rows + 1, sizeof *point);
    for (size_t i = 0; point && i < curve->rows; i++)
        kind->point(curve->row[i], &point[i]);
    if (point)
        qsort(point, curve->rows, sizeof *point, compare_points);
    return point;
}

static const char *where(report *r, const report_family *family)
{
    const char *threads = family->field[FAMILY_THREADS];
    return report_text(r, "%s, %s backend%s%s", family->field[FAMILY_DEVICE], family->field[FAMILY_BACKEND],
                       *threads ? ", " : "", threads);
}

static const char *tokens(report *r, int64_t length)
{
    return length % 1024 == 0 ? report_text(r, "%lldk tokens", (long long)length / 1024)
                              : report_text(r, "%lld tokens", (long long)length);
}

static const char *caption(report *r, const report_family *family, const figure_kind *kind, int64_t length,
                           const caption_counts *counts)
{
    const char *text = report_text(r, "%s %s", kind->caption, family->title);
    if (length)
        text = report_text(r, "%s, %s (where most points were measured)", text, tokens(r, length));
    text = report_text(r, "%s; %s; %s.", text, family->field[FAMILY_SEED], where(r, family));
    if (kind->timed)
        text =
            report_text(r, "%s Points are medians over all launches, bars 95 %% intervals (order statistics).", text);
    if (kind->timed && counts->few)
        text = report_text(r,
                           "%s %zu of %zu points have 2 to 5 samples: their bars span all samples and cover less "
                           "than 95 %%.",
                           text, counts->few, counts->points);
    if (kind->timed && counts->single)
        text = report_text(r, "%s %zu of %zu points are a single sample and have no bar.", text, counts->single,
                           counts->points);
    if (kind->point == error_point && counts->sampled)
        text = report_text(r, "%s For %zu of %zu points the error is that of a sample of the query rows.", text,
                           counts->sampled, counts->points);
    return text;
}

static an_report_status open_script(report *r, const char *name, report_file *file)
{
    return report_file_open(r, report_text(r, "%s/figures/%s.gp", r->out, name), file);
}

static void release_series(plot_series *series, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(series[i].point);
    free(series);
}

/* The rows that have a point in the figure; *count is their number. NULL if out of memory. */
static const an_row **rows_of(const report_family *family, const figure_kind *kind, int64_t length, size_t *count)
{
    const an_row **row = calloc(family->rows + 1, sizeof *row);
    plot_point unused;
    *count = 0;
    for (size_t i = 0; row && i < family->rows; i++)
        if ((!length || family->row[i]->row.point.seqlen_k == length) &&
            has_point(family->row[i], kind->point, &unused))
            row[(*count)++] = family->row[i];
    return row;
}

/* One series for each curve that shows something; *made is their number. NULL if out of memory. */
static plot_series *series_of(const report_curves *curves, const figure_kind *kind, size_t *made)
{
    plot_series *series = calloc(curves->count + 1, sizeof *series);
    *made = 0;
    for (size_t c = 0; series && c < curves->count; c++) {
        const report_curve *curve = &curves->curve[c];
        plot_series *next = &series[*made];
        *next = (plot_series){.title = curve->title,
                              .style = curve->style,
                              .point = points_of(curve, kind),
                              .points = curve->rows,
                              .joined = curve->joined && curve->rows > 1,
                              .large = kind->series == BY_PARAMETER && plot_is_dense(curve->style->method)};
        if (!next->point) {
            release_series(series, *made);
            return NULL;
        }
        if (kind->point == sparsity_point && skips_nothing(next)) {
            free(next->point);
            continue;
        }
        ++*made;
    }
    return series;
}

static void write_lines(report *r, const char *name, const plot_lines *lines)
{
    report_file file;
    if (open_script(r, name, &file) != AN_REPORT_OK)
        return;
    if (plot_write_lines(lines, file.out) != 0 && !ferror(file.out))
        report_no_memory(r);
    report_file_close(r, &file);
}

static an_report_status make_lines(report *r, const report_family *family, const figure_kind *kind)
{
    const int64_t length = kind->one_length ? fullest_length(family, kind->point) : 0;
    report_figure figure = {.family = family, .heading = kind->heading, .text = kind->missing};
    report_curves curves = {0};
    caption_counts counts = {0};
    size_t rows, count = 0;
    const an_row **row = rows_of(family, kind, length, &rows);
    if (!row)
        return report_no_memory(r);
    for (size_t i = 0; i < rows; i++)
        count_row(row[i], kind->point == attend_tops_point ? &row[i]->attend_ms : &row[i]->total_ms, &counts);
    if (kind->series == BY_LABEL)
        report_curves_by_label(r, row, rows, &curves);
    else
        report_curves_by_parameter(r, row, rows, &curves);
    plot_series *series = r->status == AN_REPORT_OK ? series_of(&curves, kind, &count) : NULL;
    if (!series)
        report_no_memory(r);
    if (count > 0) {
        figure.name = report_text(r, "%s-%s", kind->name, family->slug);
        figure.text = caption(r, family, kind, length, &counts);
        const char *title = length ? report_text(r, "%s, %s", family->title, tokens(r, length)) : family->title;
        const plot_lines lines = {
            .title = title, .source = r->database, .x = kind->x, .y = kind->y, .series = series, .count = count};
        write_lines(r, figure.name, &lines);
    }
    if (series)
        release_series(series, count);
    report_curves_release(&curves);
    free(row);
    return report_add_figure(r, &figure);
}

static double known_or_zero(double value)
{
    return isfinite(value) ? value : 0;
}

static an_report_status make_stages(report *r, const report_family *family)
{
    static const char heading[] = "Where the time goes";
    report_figure figure = {.family = family, .heading = heading, .text = "no point has times of its stages"};
    const int64_t length = fullest_length(family, stage_point);
    plot_bar *bar = calloc(family->rows + 1, sizeof *bar);
    if (!bar)
        return report_no_memory(r);
    size_t count = 0;
    plot_point unused;
    for (size_t s = 0; s < r->styles.count; s++) {
        for (size_t i = 0; i < family->rows; i++) {
            const an_row *row = family->row[i];
            if (row->row.point.seqlen_k == length && strcmp(row->label, r->styles.style[s].label) == 0 &&
                has_point(row, stage_point, &unused))
                bar[count++] = (plot_bar){row->label,
                                          {known_or_zero(row->prepare_ms.value), known_or_zero(row->select_ms.value),
                                           known_or_zero(row->attend_ms.value)},
                                          row->total_ms};
        }
    }
    if (count > 0) {
        report_file file;
        const char *title = report_text(r, "%s, %s", family->title, tokens(r, length));
        figure.name = report_text(r, "stages-%s", family->slug);
        figure.text = report_text(
            r,
            "Median time of each stage, timed one by one, stacked; the diamond is the median of the whole method "
            "timed as one, with its 95 %% interval and its value. The two need not agree: stages timed apart start "
            "with other caches and launch gaps. %s (where most points were measured); %s; %s.",
            title, family->field[FAMILY_SEED], where(r, family));
        if (open_script(r, figure.name, &file) == AN_REPORT_OK) {
            plot_write_bars(title, r->database, bar, count, file.out);
            report_file_close(r, &file);
        }
    }
    free(bar);
    return report_add_figure(r, &figure);
}

an_report_status report_add_figure(report *r, const report_figure *figure)
{
    if (r->figures == r->figure_capacity) {
        const size_t larger = r->figure_capacity ? 2 * r->figure_capacity : 16;
        report_figure *moved = realloc(r->figure, larger * sizeof *moved);
        if (!moved)
            return report_no_memory(r);
        r->figure = moved;
        r->figure_capacity = larger;
    }
    r->figure[r->figures++] = *figure;
    return r->status;
}

static int any_measured(const report_family *family)
{
    for (size_t i = 0; i < family->rows; i++)
        if (report_is_measured(family->row[i]))
            return 1;
    return 0;
}

an_report_status report_make_figures(report *r)
{
    for (size_t f = 0; f < r->families && r->status == AN_REPORT_OK; f++) {
        const report_family *family = &r->family[f];
        if (!any_measured(family)) {
            const report_figure none = {.family = family, .heading = "Figures", .text = "no point was measured"};
            report_add_figure(r, &none);
            continue;
        }
        for (size_t k = 0; k < KINDS && r->status == AN_REPORT_OK; k++)
            make_lines(r, family, &kinds[k]);
        make_stages(r, family);
    }
    return r->status;
}
