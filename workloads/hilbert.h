/* A Hilbert curve through a box of any size. */
#ifndef WORKLOADS_HILBERT_H
#define WORKLOADS_HILBERT_H

#include <stdint.h>

/* cell[i] = row-major index (last axis fastest) of the curve's i-th cell; extents >= 1. Every cell occurs once.
 * Steps go to a face neighbour; where an odd extent makes that impossible, some go to a diagonal neighbour that differs
 * by one in two axes: never more than 5 in 100 steps (or 2 in a tiny box), below 1 in 100 in the grids of video models.
 * Boxes with even extents, or with an extent of 1, have no such step. */
void hilbert_curve(const int32_t extent[3], int64_t *cell);

#endif
