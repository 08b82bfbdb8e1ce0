/* PV skip votes. Plain comparisons of floats, the same on every instruction set. */
#include "cpu/attend/pv_skip.h"

#include <math.h>

/* Does this row insist on computing P V? */
static int objects(const pv_skip_rule *rule, float m_old, float m_tile)
{
    if (m_tile == -INFINITY)
        return rule->threshold == -INFINITY;
    if (rule->upstream)
        return !(m_tile - m_old <= rule->threshold);
    const float m_new = m_tile > m_old ? m_tile : m_old;
    return !(m_tile - m_new < rule->threshold);
}

static int unit_skips(const pv_skip_rule *rule, const float *m_old, const float *m_tile, int32_t begin, int32_t end)
{
    for (int32_t row = begin; row < end; row++)
        if (objects(rule, m_old[row], m_tile[row]))
            return 0;
    return 1;
}

int32_t pv_skip_vote(const pv_skip_rule *rule, const float *m_old, const float *m_tile, int32_t begin, int32_t end,
                     int32_t rows, float *active)
{
    int32_t skipped = 0;
    for (int32_t first = begin; first < end; first += rule->unit) {
        const int32_t last = first + rule->unit;
        const int32_t real = last < rows ? last : rows;
        int skips = first < rows;
        if (rule->upstream && last > rows)
            skips = 0;
        skips = skips && unit_skips(rule, m_old, m_tile, first, real);
        skipped += skips;
        for (int32_t row = first; row < last && row < end; row++)
            active[row] = skips ? 0.0f : 1.0f;
    }
    return skipped;
}
