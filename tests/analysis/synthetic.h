/* A results store with plausible numbers, made up by formulas: what the report and comparison tests read. */
#ifndef TESTS_ANALYSIS_SYNTHETIC_H
#define TESTS_ANALYSIS_SYNTHETIC_H

#include "store.h"

typedef struct synthetic_point {
    const char *workload, *order, *method, *parameters, *causal;
    const char *settings; /* NULL: all at their defaults */
    int64_t heads_q, heads_kv, seqlen;
    int edition;     /* another input of the same name */
    double ms;       /* median of the total; 0 = no samples */
    double stage[3]; /* shares of it; all 0 = the stages were not timed */
    double sparsity, rel_l1;
    int samples;
    rs_outcome outcome;
    const char *reason;
} synthetic_point;

/* An empty store with one run begun; asserts that everything works, as the others do. */
rs_store *synthetic_open(const char *path, int64_t *run_id);
int64_t synthetic_begin_run(rs_store *store);
void synthetic_add(rs_store *store, int64_t run_id, const synthetic_point *point);
/* Ends the run and closes the store. */
void synthetic_close(rs_store *store, int64_t run_id);

/* Two workloads, 1k to 64k, six methods, three sparsities, points that are skipped or sampled once. */
void synthetic_sweep(const char *path);

/* Deterministic noise around 1: mostly within 1 %, now and then a spike. */
double synthetic_noise(uint64_t *state);

#endif
