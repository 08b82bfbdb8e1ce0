/* report: figures (.gp + SVG + PDF + PNG), tables (Markdown, CSV) and one index.html into a folder.
 *
 * Figures: latency and TOPS against sequence length, error against sparsity, speed against sparsity, sparsity against
 * sequence length, stage breakdown, and self-similarity by token order if the store has it. Every .gp is
 * self-contained. A figure without data is left out, and the page says why. */
#ifndef ANALYSIS_REPORT_H
#define ANALYSIS_REPORT_H

#include "rows.h"

typedef enum an_report_status {
    AN_REPORT_OK = 0,
    AN_REPORT_NO_GNUPLOT, /* .gp files and tables were written, no pictures */
    AN_REPORT_IO,
    AN_REPORT_STORE,
    AN_REPORT_MEMORY
} an_report_status;

typedef struct an_report_options {
    const char *title;   /* NULL: from the store */
    const char *gnuplot; /* program; NULL: "gnuplot" on PATH */
} an_report_options;

/* `out` is created if missing. error_text[512] gets one line on failure. */
an_report_status an_report(rs_store *store, const char *database_path, const char *out,
                           const an_report_options *options, char *error_text, size_t error_size);

#endif
