/* --where KEY=VALUE[,VALUE]...: which measurements of a results file are meant. */
#ifndef HARNESS_WHERE_H
#define HARNESS_WHERE_H

#include "cli/options.h"
#include "rows.h"

/* "workload, order, method, ..." for help. */
#define SB_WHERE_KEYS "workload, order, method, backend, device, dtype, causal, status, seqlen, heads, batch, head-dim"

/* Keeps the rows that every --where of the command line accepts. kept->row is a new array of the same rows: release it
 * with free(), and before `rows`. SB_EXIT_OK; SB_EXIT_USAGE after one line on stderr for an unknown key, a malformed
 * value, or a value that no row has. */
int sb_where_apply(const sb_arguments *arguments, const an_rows *rows, an_rows *kept);

#endif
