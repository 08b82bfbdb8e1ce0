/* The options of sweep, checked. */
#ifndef HARNESS_SWEEP_OPTIONS_H
#define HARNESS_SWEEP_OPTIONS_H

#include "cli/options.h"
#include "measure/measure.h"
#include "table.h"

typedef struct sb_sweep_options {
    const char *database; /* NULL only with dry_run */
    sb_measure_options measure;
    an_format format;
    int dry_run, quiet, fresh;
    int require_nvml; /* devices that tell nothing of clocks and power are refused */
    int64_t since;    /* measurements of runs before this one do not count; 0 = all count */
} sb_sweep_options;

/* What the command runs (sweep.c). */
int sb_sweep_run(const sb_command *command, const sb_arguments *arguments);

/* SB_EXIT_OK, or SB_EXIT_USAGE after one line on stderr. */
int sb_sweep_options_parse(const sb_arguments *arguments, sb_sweep_options *options);

/* The point's command with the measuring options that were given, on this device; into a file of its own, so that it
 * measures even where the point stands already. To be freed; NULL if memory runs out. */
char *sb_sweep_repro(const sb_arguments *arguments, const char *point_command, const char *backend, int device);

#endif
