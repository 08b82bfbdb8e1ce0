/* sweep --dry-run: the points with their memory and predicted time, measured by nobody and written nowhere. */
#ifndef HARNESS_DRY_RUN_H
#define HARNESS_DRY_RUN_H

#include "cli/text.h"
#include "command/sweep_options.h"
#include "measure/predict.h"
#include "plan/ledger.h"

typedef struct sb_dry_run {
    an_table *table;
    sb_ledger ledger; /* of the results file, if there is one */
    sb_text totals;   /* one line for each device */
} sb_dry_run;

/* SB_EXIT_OK, or an exit code after one line on stderr. */
int sb_dry_run_begin(const sb_sweep_options *options, sb_dry_run *dry);

/* Adds the points on one device. `device` is that of the session, named as results name it; `prediction` is of each
 * point; rates: NULL if they could not be measured, for the reason in `unknown`. */
int sb_dry_run_add(sb_dry_run *dry, const sb_session *session, const sparge_device_info *device,
                   const sb_points *points, const sb_prediction *prediction, const sb_rates *rates,
                   const char *unknown);

/* The table on stdout, the totals on stderr unless `quiet`. */
int sb_dry_run_print(const sb_arguments *arguments, sb_dry_run *dry, int quiet);
void sb_dry_run_release(sb_dry_run *dry); /* also of a zeroed one */

#endif
