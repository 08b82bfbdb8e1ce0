/* The plan of a sweep: the points that the options name, before anything is allocated or run. */
#ifndef HARNESS_POINTS_H
#define HARNESS_POINTS_H

#include "cli/options.h"
#include "workloads.h"

typedef struct sb_point {
    wl_request request;    /* strings owned by the sb_points */
    wl_workload workload;  /* resolved; owned by the sb_points */
    size_t workload_index; /* equal for points that share their workload; such points follow each other */
    sparge_params *params;
    char *repro;      /* "sparge-bench sweep ...": the options that name this point alone, no others */
    char *parameters; /* canonical JSON object of all parameters, keys sorted */
    char *settings;   /* those that differ from their defaults, sorted: "sink=on topk=0.25", or "" */
} sb_point;

typedef struct sb_points {
    sb_point *point;
    size_t count;
    size_t duplicates; /* equal points that were left out */
    void *owned;
} sb_points;

/* The options that name points, shared by sweep and similarity: --method, --workload, --seqlen, --heads, --batch,
 * --head-dim, --dtype, --causal, --order, --seed, --set, --zip, --compat. */
extern const sb_option sb_point_options[];
extern const size_t sb_point_option_count;

/* Cartesian product in the order workload, order, seqlen, ..., method, parameters; --zip a,b walks these axes together.
 * SB_EXIT_OK, or an exit code after one line on stderr. */
int sb_points_create(const sb_arguments *arguments, sb_points *points);
void sb_points_release(sb_points *points);

/* "sparge-int8-fp8 tau=0.9": the method and its settings. */
void sb_point_label(const sb_point *point, char *text, size_t size);

#endif
