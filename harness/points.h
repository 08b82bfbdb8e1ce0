/* The plan of a sweep: the points that the options name, before anything is allocated or run. */
#ifndef HARNESS_POINTS_H
#define HARNESS_POINTS_H

#include "options.h"
#include "workloads.h"

typedef struct sb_point {
    wl_request     request;   /* strings owned by the sb_points */
    wl_workload    workload;  /* resolved */
    sparge_params *params;
    char          *repro;     /* the command that makes this point alone */
} sb_point;

typedef struct sb_points {
    sb_point *point;
    size_t    count;
    void     *owned;
} sb_points;

/* The options that name points, shared by sweep, verify, profile and similarity: --method, --workload, --seqlen,
 * --heads, --batch, --head-dim, --dtype, --causal, --order, --seed, --set, --zip, --compat. */
extern const sb_option sb_point_options[];
extern const size_t    sb_point_option_count;

/* Cartesian product in the order workload, order, seqlen, ..., method, parameters; --zip a,b walks these axes together.
 * SB_EXIT_OK, or an exit code after one line on stderr. */
int  sb_points_create(const sb_arguments *arguments, sb_points *points);
void sb_points_release(sb_points *points);

#endif
