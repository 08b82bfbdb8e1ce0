/* The parts of a report, shared by report*.c and plot*.c. */
#ifndef ANALYSIS_REPORT_INTERNAL_H
#define ANALYSIS_REPORT_INTERNAL_H

#include "plot.h"
#include "report.h"

/* What a family's points have in common, in the order of titles and file names. */
typedef enum family_field {
    FAMILY_WORKLOAD = 0,
    FAMILY_ORDER,
    FAMILY_BATCH,
    FAMILY_HEADS,
    FAMILY_HEAD_DIM,
    FAMILY_DTYPE,
    FAMILY_CAUSAL,
    FAMILY_QUERIES, /* "" where there are as many queries as keys */
    FAMILY_SCALE,   /* "" where it is 1/sqrt(D) */
    FAMILY_INPUT,   /* "" where one name and seed are one input; else the beginning of its hash */
    FAMILY_SEED,
    FAMILY_BACKEND,
    FAMILY_DEVICE,
    FAMILY_THREADS,
    FAMILY_FIELDS
} family_field;

/* The rows that may share one figure: one workload and one problem at different sequence lengths. */
typedef struct report_family {
    const char *field[FAMILY_FIELDS];
    const char *title;  /* "mochi, 24 heads, D 128, bf16, not causal" */
    const char *slug;   /* for file names; the workload, and in what its families differ */
    const an_row **row; /* every outcome, in the order of the store */
    size_t rows;
} report_family;

typedef struct report_figure {
    const report_family *family; /* NULL: not of a family (self-similarity) */
    const char *heading;
    const char *name; /* file name without its ending; NULL: there was nothing to draw */
    const char *text; /* the caption, or why there is no figure */
    int drawn;
} report_figure;

/* Rows that are drawn as one series. */
typedef struct report_curve {
    const char *title;
    const plot_style *style;
    const an_row **row;
    size_t rows;
    int joined; /* by a line */
} report_curve;

typedef struct report_curves {
    report_curve *curve;
    size_t count;
} report_curves;

typedef struct report {
    const char *database, *title, *gnuplot;
    const char *out;
    an_rows rows;
    report_family *family;
    size_t families;
    plot_styles styles;
    report_figure *figure;
    size_t figures, figure_capacity;
    an_table *similarity;    /* NULL if the store has none */
    int64_t *similarity_run; /* the runs that its documents come from */
    size_t similarity_runs;
    int gnuplot_missing;
    const char *no_pictures; /* the first reason why a figure was not drawn, or NULL */
    struct report_string *strings;
    an_report_status status; /* the first failure, with its line in error */
    char *error;
    size_t error_size;
} report;

/* A formatted string that lives as long as the report. "" after noting the failure if there is no memory. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
const char *
report_text(report *r, const char *format, ...);
/* Notes the first failure and returns it. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
an_report_status
report_fail(report *r, an_report_status status, const char *format, ...);
an_report_status report_no_memory(report *r);

/* report_families.c */
an_report_status report_make_families(report *r);
int report_is_measured(const an_row *row); /* done, with samples */
/* A captured file's name without its ending, unless a workload of the report is called so. */
const char *report_workload_name(report *r, const char *name);
/* A part of a file name: letters, digits, '.', '_', '-'; anything else becomes one '-'. */
const char *report_file_part(report *r, const char *text);

/* report_curves.c: the curves of rows, in the order of r->styles. Released by the caller, also after a failure. */
an_report_status report_curves_by_label(report *r, const an_row *const *row, size_t rows, report_curves *curves);
an_report_status report_curves_by_parameter(report *r, const an_row *const *row, size_t rows, report_curves *curves);
void report_curves_release(report_curves *curves);

/* report_figures.c, report_similarity.c: write the .gp files and fill r->figure. */
an_report_status report_make_figures(report *r);
an_report_status report_make_similarity(report *r, rs_store *store);
an_report_status report_add_figure(report *r, const report_figure *figure);

/* report_page.c */
an_report_status report_write_page(report *r, rs_store *store);
an_table *report_unmeasured_table(const report *r);

/* report_files.c. A file appears under its name only when it is whole. */
typedef struct report_file {
    FILE *out;
    const char *path, *temporary;
} report_file;
an_report_status report_make_folder(report *r, const char *path);
an_report_status report_file_open(report *r, const char *path, report_file *file);
an_report_status report_file_close(report *r, report_file *file);

/* report_gnuplot.c: draws every figure. A missing gnuplot is noted in r->no_pictures. */
an_report_status report_draw(report *r);

#endif
