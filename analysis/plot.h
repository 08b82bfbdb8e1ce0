/* Figures as gnuplot scripts with their data inside. Every script draws NAME.svg, NAME.pdf and NAME.png beside itself,
 * or under the name in the gnuplot variable `base`. Works with gnuplot 5.4 and 6. */
#ifndef ANALYSIS_PLOT_H
#define ANALYSIS_PLOT_H

#include <stddef.h>
#include <stdio.h>

#include "rows.h"

/* How the series of one label looks, the same in every figure of a report: the colour belongs to the method's family
 * (shaded by member), point type and dashes to the label. */
typedef struct plot_style {
    const char *label, *method; /* of the row that brought it up */
    char colour[8];             /* "#0072b2" */
    int point_type, dash_type;
} plot_style;

typedef struct plot_styles {
    plot_style *style;
    size_t count;
} plot_styles;

int plot_styles_make(plot_styles *styles, const an_rows *rows); /* -1 if out of memory */
void plot_styles_release(plot_styles *styles);
const plot_style *plot_style_of_label(const plot_styles *styles, const char *label); /* NULL if there is none */

/* Dense methods have open points: where figures begin at sparsity 0, sparse methods lie on top of them. */
int plot_is_dense(const char *method);

typedef struct plot_point {
    double x, y, low, high; /* NAN low and high: no interval */
} plot_point;

typedef struct plot_series {
    const char *title;
    const plot_style *style;
    plot_point *point; /* ascending in x */
    size_t points;
    int joined; /* by a line */
    int large;  /* larger points: seen around those of other series in the same place */
} plot_series;

typedef enum plot_scale {
    PLOT_RATE = 0, /* linear from 0; logarithmic if the values lie more than a factor of 20 apart */
    PLOT_SHARE,    /* linear, 0 to 1 */
    PLOT_LOG,
    PLOT_TOKENS /* logarithmic, ticks at lengths: 1k, 2k, ... */
} plot_scale;

typedef struct plot_axis {
    const char *label; /* with its unit */
    plot_scale scale;
} plot_axis;

typedef struct plot_lines {
    const char *title;
    const char *source; /* a comment in the script: where the data is from */
    plot_axis x, y;
    const plot_series *series;
    size_t count;
} plot_lines;
int plot_write_lines(const plot_lines *lines, FILE *out);

/* Stacked horizontal bars: one bar a label, one part a stage, and the total, which is measured on its own. */
typedef struct plot_bar {
    const char *label;
    double stage[3]; /* prepare, select, attend in ms; 0 where the method has no such stage */
    an_estimate total;
} plot_bar;
int plot_write_bars(const char *title, const char *source, const plot_bar *bar, size_t count, FILE *out);

/* Self-similarity by token order: two panels of dots, one row an order. */
typedef struct plot_order {
    const char *name;
    double sim_q, sim_k, sparsity, rel_l1; /* NAN = not known */
} plot_order;
int plot_write_orders(const char *title, const char *source, const plot_order *order, size_t count, FILE *out);

/* Parts of a script (plot_script.c). */
typedef struct plot_frame {
    double height;        /* of the plotting area, as a fraction of the picture's width */
    size_t entries;       /* in the legend under the plot */
    size_t longest_entry; /* characters */
} plot_frame;

void plot_begin(const char *title, const char *source, FILE *out);
/* Opens the loop over the three terminals; what is written until plot_end_drawing is drawn on each. The title is left
 * out of the PDF: a paper has captions. */
void plot_begin_drawing(const char *title, const plot_frame *frame, FILE *out);
void plot_end_drawing(FILE *out);
/* A string literal; control characters become spaces, what is longer than a legend's line is cut in the middle. In tic
 * labels '%' starts a format and is doubled. */
void plot_string(const char *text, FILE *out);
void plot_tic_string(const char *text, FILE *out);
size_t plot_string_length(const char *text); /* characters shown */
/* A title: a long one has several lines, broken after commas. */
void plot_title(const char *text, FILE *out);
/* Three digits, or all of the whole part: a time in a picture needs no exponent. */
void plot_short_number(double value, char *text, size_t size);
/* A number of a data block; '?' where it is not known. */
void plot_number(double value, FILE *out);
/* Label, range and ticks of axis "x" or "y" for data in [min, max]; `value`: all positions, for PLOT_TOKENS. */
void plot_write_axis(const char *which, const plot_axis *axis, double min, double max, const double *value,
                     size_t count, FILE *out);

#endif
