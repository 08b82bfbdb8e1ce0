/* Attend: executes a worklist with online softmax. The shared state; what is computed is described in row_block.h.
 *
 * Scores are kept in base-2 units: s = q.k * scale * log2(e), so that p = 2^(s - m). */
#ifndef SPARGE_CPU_ATTEND_H
#define SPARGE_CPU_ATTEND_H

#include "cpu/cpu.h"
#include "cpu/isa/isa.h"
#include "cpu/worklist.h"

enum {
    ATTEND_MAX_ROWS = 128,                        /* of a row block */
    ATTEND_MAX_KEYS = 128,                        /* of a tile */
    ATTEND_COLUMN_TILE = 64,                      /* gathered columns per tile */
    ATTEND_ROW_STRIDE = SPARGE_MAX_HEAD_DIM + 16, /* floats between keys of a tile: an odd number of lines */
    ATTEND_PANEL_FLOATS = ATTEND_MAX_ROWS * SPARGE_MAX_HEAD_DIM
};

#define LN_2 0.69314718055994530942
#define LOG2_E 1.44269504088896340736

/* What P is rounded to before P V. */
typedef enum attend_p_type { ATTEND_P_F16 = 0, ATTEND_P_BF16, ATTEND_P_E4M3 } attend_p_type;

/* One run: the same for every row block. */
typedef struct cpu_attend_job {
    const sparge_problem *problem;
    const sparge_recipe *recipe;
    const cpu_prepared *prepared;
    const cpu_worklist *work;
    const int64_t *token; /* position -> row of o and lse, or NULL */
    sparge_tensor o;
    float *lse;

    float scale, scale_log2e;
    attend_p_type p_type;
    float p_scale;       /* P is multiplied by this before rounding */
    float exponent_bias; /* added to every exponent, row sums included (upstream's 8.807) */
    int sum_rounded;     /* the row sum adds the rounded P (upstream's f16 kernel) */
    int round_v;         /* V goes through f16 (upstream casts bf16 V) */
    int add_smoothed;    /* the scores lack q . k_mean: add it to the LSE */

    /* PV skip, see pv_skip.h. */
    int skip_enabled, skip_keeps_sum, skip_upstream;
    int32_t skip_unit;           /* rows per vote */
    int64_t skip_guarded;        /* the last tiles of a row block that never skip */
    const float *skip_threshold; /* per query head, base-2 units */
} cpu_attend_job;

/* Per thread. Panels are VEC_LANES * 2 rows wide: q and o [panel][channel][row], s [panel][key][row]. */
typedef struct cpu_attend_workspace {
    _Alignas(64) float q[ATTEND_PANEL_FLOATS];
    float o[ATTEND_PANEL_FLOATS];
    float s[ATTEND_MAX_ROWS * ATTEND_MAX_KEYS];
    float k[ATTEND_MAX_KEYS * ATTEND_ROW_STRIDE];
    float v[ATTEND_MAX_KEYS * ATTEND_ROW_STRIDE];
    float m[ATTEND_MAX_ROWS], l[ATTEND_MAX_ROWS]; /* running maximum and sum */
    float m_tile[ATTEND_MAX_ROWS];                /* maximum of the current tile */
    float q_scale[ATTEND_MAX_ROWS];               /* scale_log2e, times the row's INT8 scale */
    float active[ATTEND_MAX_ROWS];                /* 0 where the row's vote says skip, else 1 */
    int32_t begin[ATTEND_MAX_ROWS], end[ATTEND_MAX_ROWS],
        sink_end[ATTEND_MAX_ROWS]; /* visible, minus the tile's base */
    cpu_key_range range[ATTEND_MAX_ROWS];
    float k_scale[ATTEND_MAX_KEYS];
    int64_t key[ATTEND_MAX_KEYS];
    float row[SPARGE_MAX_HEAD_DIM + 16];
    uint16_t row16[SPARGE_MAX_HEAD_DIM];
} cpu_attend_workspace;

/* Of a plan. */
typedef struct cpu_attend {
    cpu_attend_workspace *workspace; /* [threads] */
    int64_t *order;                  /* row blocks, the longest first */
    int64_t *keys;                   /* [row blocks]: keys on its lists */
    int64_t *skipped;                /* [row blocks]: votes that said skip */
    float *skip_threshold;           /* [heads_q] */
} cpu_attend;

#endif
