/* Rows of the structured model (generate/model.h) on the CPU, one at a time. */
#ifndef SPARGE_CPU_STRUCTURED_H
#define SPARGE_CPU_STRUCTURED_H

#include "generate/model.h"

/* What the rows of one head need. */
typedef struct structured_rows {
    uint64_t seed;
    sparge_tensor_role role;
    int channels;
    const structured_layout *layout;
    const structured_head *head;
    const float *anchor; /* the table of the head's batch and group */
} structured_rows;

/* Anchor `index` of the table: a normal vector scaled to length sqrt(channels). */
void structured_anchor(uint64_t seed, const structured_layout *layout, int64_t batch, int64_t group, int64_t index,
                       int channels, float *out);

void structured_row(const structured_rows *rows, int64_t token, float *out);

#endif
