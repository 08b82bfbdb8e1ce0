/* Axes: the lists of values that the options of a sweep name, before they are multiplied to points.
 *
 * The common axes come first, in the order in which points run through them; then one axis for each parameter of a
 * method that --set names, in the order given. */
#ifndef HARNESS_AXES_H
#define HARNESS_AXES_H

#include "cli/options.h"
#include "workloads.h"

typedef enum sb_common_axis {
    SB_AXIS_WORKLOAD = 0,
    SB_AXIS_ORDER,
    SB_AXIS_SEQLEN,
    SB_AXIS_HEADS,
    SB_AXIS_BATCH,
    SB_AXIS_HEAD_DIM,
    SB_AXIS_DTYPE,
    SB_AXIS_CAUSAL,
    SB_AXIS_SEED,
    SB_COMMON_AXES
} sb_common_axis;

typedef struct sb_axis {
    char name[128];              /* "seqlen"; a parameter's is "METHOD.param" */
    const sparge_method *method; /* whose parameter this is; NULL for a common axis */
    const char *param;           /* static */
    char **text;                 /* the values as text (workload, parameters), else NULL */
    int64_t *number;             /* the values as numbers or enum values (the other common axes), else NULL */
    size_t count;
    int given;      /* 0: one value that stands for "the workload's own" (numbers: 0 or -1) */
    int zipped;     /* named by a --zip */
    size_t tied_to; /* the axis whose index this one follows (--zip): the first of its group, or itself */
} sb_axis;

typedef struct sb_axes {
    sb_axis *axis;
    size_t count;
    const sparge_method **method; /* selected, in the order given, without repetitions */
    size_t method_count;
    int all_methods;    /* --method all: methods that need more than their defaults are points all the same */
    const char *compat; /* NULL, "fixed" or "upstream" */
} sb_axes;

/* SB_EXIT_OK, or an exit code after one line on stderr. */
int sb_axes_parse(const sb_arguments *arguments, sb_axes *axes);
void sb_axes_release(sb_axes *axes);

/* The methods of --method alone; free(*methods). */
int sb_methods_parse(const sb_arguments *arguments, const sparge_method ***methods, size_t *count);

#endif
