/* Online softmax of one panel of a tile; included by each isa_*.c. */
#ifndef SPARGE_CPU_SOFTMAX_H
#define SPARGE_CPU_SOFTMAX_H

#include "cpu/attend/tile.h"

TILE_INLINE vec round_p(vec p, const attend_p_type type)
{
    switch (type) {
    case ATTEND_P_F16:
        return vec_round_f16(p);
    case ATTEND_P_BF16:
        return round_to_bf16(p);
    case ATTEND_P_E4M3:
    default:
        return round_to_e4m3(p);
    }
}

/* Turns the scores of `VEC_LANES` rows into rounded P, in place, and returns the sum of p. `partly`: rows that are not
 * active get P = 0, and count in the sum only if skip_keeps_sum. */
TILE_INLINE vec exponentials(const cpu_attend_job *job, const attend_p_type type, const int partly, float *s,
                             int32_t keys, vec shift, const float *active)
{
    vec sum = vec_set(0.0f);
    const vec p_scale = vec_set(job->p_scale);
    const vmask skipped = vec_lt(vec_load(active), vec_set(0.5f));
    for (int32_t j = 0; j < keys; j++) {
        const vec p = vec_exp2(vec_sub(vec_load(s + (int64_t)j * PANEL), shift));
        vec rounded = round_p(vec_mul(p, p_scale), type);
        vec counted = job->sum_rounded ? rounded : p;
        if (partly) {
            rounded = vec_select(skipped, vec_set(0.0f), rounded);
            if (!job->skip_keeps_sum)
                counted = vec_select(skipped, vec_set(0.0f), counted);
        }
        sum = vec_add(sum, counted);
        vec_store(s + (int64_t)j * PANEL, rounded);
    }
    return sum;
}

/* Moves the running maximum to include the tile, P into w->s and the sum of p into w->l. alpha: what the sums so far
 * are to be multiplied by. partly: some row of the panel is not active. */
static void tile_softmax(const cpu_attend_job *job, cpu_attend_workspace *w, int32_t keys, int32_t panel, int partly,
                         vec alpha[2])
{
    for (int half = 0; half < 2; half++) {
        const int32_t at = panel + half * VEC_LANES;
        float *s = w->s + (int64_t)panel * keys + half * VEC_LANES;
        const vec m_old = vec_load(w->m + at);
        const vec m_new = vec_max(vec_load(w->m_tile + at), m_old);
        /* A row that has seen no key yet: any finite number gives p = 2^-inf = 0. */
        const vec m = vec_select(vec_lt(vec_set(-INFINITY), m_new), m_new, vec_set(0.0f));
        const vec shift = vec_sub(m, vec_set(job->exponent_bias));
        vec sum;
#define EXPONENTIALS(type)                                                                                             \
    (partly ? exponentials(job, type, 1, s, keys, shift, w->active + at)                                               \
            : exponentials(job, type, 0, s, keys, shift, w->active + at))
        if (job->p_type == ATTEND_P_F16)
            sum = EXPONENTIALS(ATTEND_P_F16);
        else if (job->p_type == ATTEND_P_BF16)
            sum = EXPONENTIALS(ATTEND_P_BF16);
        else
            sum = EXPONENTIALS(ATTEND_P_E4M3);
#undef EXPONENTIALS
        alpha[half] = vec_exp2(vec_sub(m_old, m));
        vec_store(w->l + at, vec_fma(vec_load(w->l + at), alpha[half], sum));
        vec_store(w->m + at, m_new);
    }
}

#endif
