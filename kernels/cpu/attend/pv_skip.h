/* The PV skip test (paper 3.4, Alg. 1; upstream.md 2.9 step 3): one vote per `unit` consecutive rows of a row block.
 *
 *   fixed mode:   skip iff  max over the unit's rows of (m_tile - m_new) < threshold
 *   parity mode:  skip iff  m_tile - m_old <= threshold for every row, never for a unit with padding rows (upstream's
 *                 zero-filled rows object) and never in the last tiles of a row (cpu_attend_job.skip_guarded)
 *
 * m_tile is the row's maximum over the tile, m_old and m_new the running maximum before and after it, all in base-2
 * units. A row that sees no key of the tile (m_tile = -inf) agrees to skip. A unit without a real row has no vote. */
#ifndef SPARGE_CPU_PV_SKIP_H
#define SPARGE_CPU_PV_SKIP_H

#include <stdint.h>

typedef struct pv_skip_rule {
    float threshold;
    int32_t unit;
    int upstream;
} pv_skip_rule;

/* Writes active[row] = 0 for the rows of units that skip, else 1, for the units that cover rows [begin, end) of
 * `rows`; begin is a multiple of the unit. Rows beyond `rows` are padding: active[] up to `end` is written, m_old and
 * m_tile are not read there. Returns the number of votes that said skip. */
int32_t pv_skip_vote(const pv_skip_rule *rule, const float *m_old, const float *m_tile, int32_t begin, int32_t end,
                     int32_t rows, float *active);

#endif
