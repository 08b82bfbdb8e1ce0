/* The two products of a tile, as register-blocked micro-kernels; included by each isa_*.c.
 *
 * Query rows lie in the lanes of the vectors: a panel is PANEL = 2 * VEC_LANES rows, and keys or channels are broadcast.
 *
 *        q panel [channel][row]          p panel [key][row]
 *        +--- PANEL rows ---+            +--- PANEL rows ---+
 *   k -> | s[key][row]      |       v -> | o[channel][row]  |
 *   TILE_UNROLL keys at a time      TILE_UNROLL channels at a time
 *
 * so a row's maximum and sum over keys never cross lanes, K and V are used as they lie in memory, and there are
 * 2 * TILE_UNROLL independent accumulators to cover the latency of the multiply-add. */
#ifndef SPARGE_CPU_TILE_H
#define SPARGE_CPU_TILE_H

#include "cpu/attend/attend.h"
#include "cpu/isa/convert.h"

enum {
    PANEL = 2 * VEC_LANES,
    /* Accumulators plus two operands and a broadcast fit the registers: 12 + 3 of 16, 16 + 3 of 32. */
    TILE_UNROLL = VEC_LANES == 16 ? 8 : 6
};

#define TILE_INLINE static inline __attribute__((always_inline))

/* What the scores of a tile need besides Q and K. */
typedef struct tile_view {
    const float *k, *v; /* [key][ATTEND_ROW_STRIDE] */
    const float *k_scale;
    const int64_t *key; /* absolute positions, ascending */
    int32_t keys;
    int masked; /* some row does not see some key: begin, end and sink_end of the workspace apply */
} tile_view;

/* How many of the `left` keys or channels to take next: full groups, and a remainder that is not too narrow. */
static inline int32_t next_group(int32_t left)
{
    if (left >= TILE_UNROLL + 3 || left == TILE_UNROLL)
        return TILE_UNROLL;
    return left > TILE_UNROLL / 2 + 1 ? (left + 1) / 2 : left;
}

/* Scores of `n` keys from `first` on against one panel, scaled, masked and stored; their maxima go into max[]. */
TILE_INLINE void scores_group(const int n, const tile_view *tile, int32_t first, const float *q, int32_t head_dim,
                              const float *q_scale, const int32_t *begin, const int32_t *end, const int32_t *sink_end,
                              float *s, vec max[2])
{
    vec sum[TILE_UNROLL][2];
    const float *k = tile->k + (int64_t)first * ATTEND_ROW_STRIDE;
    for (int i = 0; i < n; i++)
        sum[i][0] = sum[i][1] = vec_set(0.0f);
    for (int32_t d = 0; d < head_dim; d++) {
        const vec q0 = vec_load(q + (int64_t)d * PANEL), q1 = vec_load(q + (int64_t)d * PANEL + VEC_LANES);
        for (int i = 0; i < n; i++) {
            const vec x = vec_set(k[i * ATTEND_ROW_STRIDE + d]);
            sum[i][0] = vec_fma(x, q0, sum[i][0]);
            sum[i][1] = vec_fma(x, q1, sum[i][1]);
        }
    }
    for (int i = 0; i < n; i++) {
        const vec k_scale = vec_set(tile->k_scale[first + i]);
        const ivec position = ivec_set((int32_t)(tile->key[first + i] - tile->key[0]));
        for (int half = 0; half < 2; half++) {
            const int at = half * VEC_LANES;
            vec score = vec_mul(sum[i][half], vec_mul(vec_load(q_scale + at), k_scale));
            if (tile->masked) {
                const vmask in_range =
                    mask_andnot(ivec_gt(ivec_load(end + at), position), ivec_gt(ivec_load(begin + at), position));
                const vmask seen = mask_or(in_range, ivec_gt(ivec_load(sink_end + at), position));
                score = vec_select(seen, score, vec_set(-INFINITY));
            }
            vec_store(s + (int64_t)(first + i) * PANEL + at, score);
            max[half] = vec_max(score, max[half]);
        }
    }
}

/* S of one panel: s[key][row] in base-2 units, -inf where the row does not see the key, and m_tile[row]. `panel` is the
 * panel's first row. */
static void tile_scores(const tile_view *tile, cpu_attend_workspace *w, int32_t panel, int32_t head_dim)
{
    const float *q = w->q + (int64_t)panel * head_dim;
    float *s = w->s + (int64_t)panel * tile->keys;
    vec max[2] = {vec_set(-INFINITY), vec_set(-INFINITY)};
#define SCORES(n)                                                                                                      \
    case n:                                                                                                            \
        scores_group(n, tile, first, q, head_dim, w->q_scale + panel, w->begin + panel, w->end + panel,                \
                     w->sink_end + panel, s, max);                                                                     \
        break
    for (int32_t first = 0; first < tile->keys;) {
        const int32_t n = next_group(tile->keys - first);
        switch (n) {
            SCORES(1);
            SCORES(2);
            SCORES(3);
            SCORES(4);
            SCORES(5);
            SCORES(6);
#if VEC_LANES_ARE_16
            SCORES(7);
            SCORES(8);
#endif
        default:
            break;
        }
        first += n;
    }
#undef SCORES
    vec_store(w->m_tile + panel, max[0]);
    vec_store(w->m_tile + panel + VEC_LANES, max[1]);
}

/* o[channel][row] = o * alpha + sum over keys of v[key][channel] * p[key][row], for `n` channels. The tile's sum is
 * completed before it meets the running output (two-level accumulation). */
TILE_INLINE void output_group(const int n, const float *v, int32_t keys, const float *p, const vec alpha[2], float *o)
{
    vec sum[TILE_UNROLL][2];
    for (int i = 0; i < n; i++)
        sum[i][0] = sum[i][1] = vec_set(0.0f);
    for (int32_t j = 0; j < keys; j++) {
        const vec p0 = vec_load(p + (int64_t)j * PANEL), p1 = vec_load(p + (int64_t)j * PANEL + VEC_LANES);
        for (int i = 0; i < n; i++) {
            const vec x = vec_set(v[(int64_t)j * ATTEND_ROW_STRIDE + i]);
            sum[i][0] = vec_fma(x, p0, sum[i][0]);
            sum[i][1] = vec_fma(x, p1, sum[i][1]);
        }
    }
    for (int i = 0; i < n; i++)
        for (int half = 0; half < 2; half++) {
            float *to = o + i * PANEL + half * VEC_LANES;
            vec_store(to, vec_fma(vec_load(to), alpha[half], sum[i][half]));
        }
}

static void tile_output(const tile_view *tile, cpu_attend_workspace *w, int32_t panel, int32_t head_dim,
                        const vec alpha[2])
{
    const float *p = w->s + (int64_t)panel * tile->keys;
    float *o = w->o + (int64_t)panel * head_dim;
#define OUTPUT(n)                                                                                                      \
    case n:                                                                                                            \
        output_group(n, tile->v + first, tile->keys, p, alpha, o + (int64_t)first * PANEL);                            \
        break
    for (int32_t first = 0; first < head_dim;) {
        const int32_t n = next_group(head_dim - first);
        switch (n) {
            OUTPUT(1);
            OUTPUT(2);
            OUTPUT(3);
            OUTPUT(4);
            OUTPUT(5);
            OUTPUT(6);
#if VEC_LANES_ARE_16
            OUTPUT(7);
            OUTPUT(8);
#endif
        default:
            break;
        }
        first += n;
    }
#undef OUTPUT
}

#endif
