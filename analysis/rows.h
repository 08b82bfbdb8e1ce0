/* Result rows: one measurement with its statistics, as `export`, `report` and `compare` see it. */
#ifndef ANALYSIS_ROWS_H
#define ANALYSIS_ROWS_H

#include "stats.h"
#include "store.h"
#include "table.h"

typedef struct an_row {
    rs_row row; /* strings owned by the an_rows */
    char *
        label; /* the method and its settings, those parameters that are not at their defaults: "sparge-f16 tau=0.95" */
    an_estimate total_ms, prepare_ms, select_ms, attend_ms; /* median, 95 % interval; NAN where not measured */
    double tops, attend_tops, executed_tops;                /* 10^12/s; design.md 4.1 */
    double *total_ns;                                       /* all samples in order */
    size_t total_count;
    size_t visits; /* that the samples come from */
} an_row;

typedef struct an_rows {
    an_row *row;
    size_t count;
    struct an_text *texts; /* the strings of rows read from a store */
} an_rows;

/* Loads every measurement (all outcomes). With latest != 0 only the newest measurement of each point. */
rs_status an_rows_load(rs_store *store, int latest, an_rows *rows, rs_error *error);
void an_rows_release(an_rows *rows);

/* The two halves of loading, for rows that do not come from a store: the statistics and rates of one row from its
 * samples (in order; copied), and the labels of a whole set. 0, or -1 if out of memory. */
int an_row_set_samples(an_row *row, rs_stage stage, const int64_t *ns, size_t count);
int an_rows_set_labels(an_rows *rows);

/* The export columns of docs/schema.md, in order. Caller destroys. NULL if out of memory. */
an_table *an_rows_table(const an_rows *rows);
/* The short table that sweep prints at its end: workload, what varies within a workload (order, heads, ...), seqlen,
 * method, time with its interval, tops, sparsity, rel_l1, status; and a note where a row needs one. */
an_table *an_rows_summary(const an_rows *rows);
int an_rows_have_notes(const an_rows *rows); /* 1: some rows skipped no block since blocks are less alike than theta */

#endif
