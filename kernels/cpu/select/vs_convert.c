/* A merge of two sorted lists, see vs_convert.h. */
#include "cpu/select/vs_convert.h"

typedef struct run {
    int64_t begin, end; /* end - begin is a multiple of 64 */
} run;

static void flush(const run *open, int64_t *tile, int64_t *tiles)
{
    for (int64_t k = open->begin; k < open->end; k += CPU_VS_TILE)
        tile[(*tiles)++] = k;
}

/* Emits the verticals in front of the run and passes those inside it. */
static int64_t take_columns(const cpu_vs_lists *lists, int64_t next, const run *open, int32_t *column, int64_t *columns)
{
    for (; next < lists->verticals && lists->vertical[next] < open->end; next++)
        if (lists->vertical[next] < open->begin)
            column[(*columns)++] = lists->vertical[next];
    return next;
}

void cpu_vs_convert(const cpu_vs_lists *lists, int64_t row, int64_t *tile, int64_t *tiles, int32_t *column,
                    int64_t *columns)
{
    const int64_t end = (row + 1) * CPU_VS_TILE;
    *tiles = *columns = 0;
    int64_t s = 0, v = 0;
    while (s < lists->slashes && lists->slash[s] >= end)
        s++; /* the diagonal starts below this row block */
    if (s == lists->slashes)
        return;
    run open = {0};
    for (int first = 1; s < lists->slashes; s++, first = 0) {
        const int64_t reach = end - lists->slash[s] > CPU_VS_TILE ? end - lists->slash[s] : CPU_VS_TILE;
        if (first) {
            open = (run){reach - CPU_VS_TILE, reach};
        } else if (reach > open.end + CPU_VS_TILE) {
            v = take_columns(lists, v, &open, column, columns);
            flush(&open, tile, tiles);
            open = (run){reach - CPU_VS_TILE, reach};
        } else if (reach > open.end) {
            v = take_columns(lists, v, &open, column, columns);
            open.end += CPU_VS_TILE;
        }
    }
    take_columns(lists, v, &open, column, columns);
    flush(&open, tile, tiles);
}
