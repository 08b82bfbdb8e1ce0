/* sweep --dry-run: the points with their memory and predicted time, measured by nobody and written nowhere. */
#ifndef HARNESS_DRY_RUN_H
#define HARNESS_DRY_RUN_H

#include "command/sweep_options.h"
#include "measure/predict.h"

/* `prediction` of each point. SB_EXIT_OK, or an exit code after one line on stderr. */
int sb_dry_run(const sb_arguments *arguments, const sb_sweep_options *options, const sb_points *points,
               const sb_prediction *prediction, const sb_rates *rates, const sparge_device_info *device);

#endif
