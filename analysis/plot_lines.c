/* Figures of points and lines over two axes: latency, rates, errors, sparsity. */
#include "plot.h"

#include <math.h>
#include <stdlib.h>

typedef struct extent {
    double min, max;
} extent;

static void include(extent *e, double value)
{
    if (!isfinite(value))
        return;
    e->min = fmin(e->min, value);
    e->max = fmax(e->max, value);
}

static int write_axes(const plot_lines *lines, FILE *out)
{
    size_t points = 0;
    for (size_t s = 0; s < lines->count; s++)
        points += lines->series[s].points;
    double *x = malloc((points ? points : 1) * sizeof *x);
    if (!x)
        return -1;
    extent horizontal = {INFINITY, -INFINITY}, vertical = {INFINITY, -INFINITY};
    size_t filled = 0;
    for (size_t s = 0; s < lines->count; s++) {
        for (size_t i = 0; i < lines->series[s].points; i++) {
            const plot_point *p = &lines->series[s].point[i];
            x[filled++] = p->x;
            include(&horizontal, p->x);
            include(&vertical, p->y);
            include(&vertical, p->low);
            include(&vertical, p->high);
        }
    }
    plot_write_axis("x", &lines->x, horizontal.min, horizontal.max, x, filled, out);
    plot_write_axis("y", &lines->y, vertical.min, vertical.max, NULL, 0, out);
    free(x);
    return 0;
}

static void write_data(const plot_series *series, size_t number, FILE *out)
{
    fprintf(out, "# x y low high\n$series%zu << EOD\n", number);
    for (size_t i = 0; i < series->points; i++) {
        const plot_point *p = &series->point[i];
        plot_number(p->x, out);
        plot_number(p->y, out);
        plot_number(p->low, out);
        plot_number(p->high, out);
        fputc('\n', out);
    }
    fputs("EOD\n", out);
}

static int has_intervals(const plot_series *series)
{
    for (size_t i = 0; i < series->points; i++)
        if (isfinite(series->point[i].low))
            return 1;
    return 0;
}

static void write_series(const plot_series *series, size_t number, FILE *out)
{
    const plot_style *style = series->style;
    /* Not yerrorbars: they clear the ground around their point, and with it the points of other series there. */
    if (has_intervals(series))
        fprintf(out,
                "$series%zu using 1:3:(0):($4-$3) with vectors heads size screen 0.004,90 linecolor rgb '%s' notitle, "
                "\\\n        ",
                number, style->colour);
    fprintf(out, "$series%zu using 1:2 with %s linecolor rgb '%s' pointtype %d", number,
            series->joined ? "linespoints" : "points", style->colour, style->point_type);
    if (series->large)
        fputs(" pointsize 2", out);
    if (series->joined)
        fprintf(out, " dashtype %d", style->dash_type);
    fputs(" title ", out);
    plot_string(series->title, out);
    fputs(" noenhanced", out);
}

int plot_write_lines(const plot_lines *lines, FILE *out)
{
    plot_frame frame = {.height = 0.55, .entries = lines->count};
    for (size_t s = 0; s < lines->count; s++) {
        const size_t length = plot_string_length(lines->series[s].title);
        frame.longest_entry = length > frame.longest_entry ? length : frame.longest_entry;
    }
    plot_begin(lines->title, lines->source, out);
    for (size_t s = 0; s < lines->count; s++)
        write_data(&lines->series[s], s + 1, out);
    if (write_axes(lines, out) != 0)
        return -1;
    plot_begin_drawing(lines->title, &frame, out);
    fputs("    plot ", out);
    for (size_t s = 0; s < lines->count; s++) {
        if (s)
            fputs(", \\\n        ", out);
        write_series(&lines->series[s], s + 1, out);
    }
    fputc('\n', out);
    plot_end_drawing(out);
    return ferror(out) ? -1 : 0;
}
