/* From verticals and slashes to key ranges and columns (MInference's converter, baselines.md 1.3).
 *
 * A row block is 64 queries from 64 * row on. Each slash offset o covers the 64 keys that end at max(64 * (row + 1) - o,
 * 64): for all 64 queries, everything on the diagonal q - k = o. Overlapping and touching ranges are merged into runs of
 * whole 64-key tiles, so a run may reach up to 63 keys further than its last offset asks. Verticals outside every run
 * remain as single columns; they all lie before the row block. */
#ifndef SPARGE_CPU_SELECT_VS_CONVERT_H
#define SPARGE_CPU_SELECT_VS_CONVERT_H

#include <stdint.h>

enum { CPU_VS_TILE = 64 };

typedef struct cpu_vs_lists {
    const int32_t *vertical; /* ascending, distinct */
    int64_t verticals;
    const int32_t *slash; /* descending, distinct; ends with 0, without which verticals near the diagonal are lost */
    int64_t slashes;
} cpu_vs_lists;

/* Most tiles that row block `row` can have. */
static inline int64_t cpu_vs_most_tiles(int64_t row, int64_t slashes)
{
    return slashes < row + 1 ? slashes : row + 1;
}

/* Writes the first keys of the tiles (room for cpu_vs_most_tiles) and the columns (room for all verticals), both
 * ascending and distinct. Tiles are not clipped to the number of keys. */
void cpu_vs_convert(const cpu_vs_lists *lists, int64_t row, int64_t *tile, int64_t *tiles, int32_t *column,
                    int64_t *columns);

#endif
