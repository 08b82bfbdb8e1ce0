/* What `similarity` keeps of its rows: a document in a results file for each workload, and the figures drawn from it. */
#ifndef HARNESS_SIMILARITY_H
#define HARNESS_SIMILARITY_H

#include "measure/locality.h"

typedef struct sb_similarity_row {
    const sb_point *point;
    int measured; /* 0: `reason` says why not */
    sb_locality locality;
    char reason[SPARGE_ERROR_TEXT];
} sb_similarity_row;

/* Stores the measured rows as --db and --output ask, one document of kind "similarity" for the rows that differ in their
 * order only, and draws the report into the folder of --output. Without either it does nothing. SB_EXIT_OK, or an exit
 * code after one line on stderr. */
int sb_similarity_store(const sb_arguments *arguments, sparge_context *context, const sb_similarity_row *rows,
                        size_t count);

#endif
