/* One row block of attention; included by each isa_*.c.
 *
 *   Q rows -> panels (transposed, float)
 *   for every tile (a segment, or up to 64 gathered columns), ascending:
 *       K, V rows of the tile -> float
 *       for every group of rows that vote together:
 *           S = Q K^T, scaled and masked; row maxima       tile.h
 *           vote on skipping P V                           pv_skip.h
 *           m, l, P = round(2^(S - m))                     softmax.h
 *           O = O * alpha + P V                            tile.h
 *   O / l, times V's scale -> 16 bits; LSE
 *
 * Arithmetic, exactly: products and sums in f32 (INT8 scores are below 2^24 and therefore exact integers); P is rounded
 * to V's 16-bit type or, times 448, to e4m3; the row sum takes P before rounding. The exponential is always the one of
 * convert.h, which is as good as float allows: it serves exp = exact and exp = accurate; exp = fast is refused.
 *
 * Parity mode follows upstream.md 2.9 in its exponent offset, row sum, V type and PV skip. It does not imitate the
 * sums inside the tensor cores (f16 over a tile in the official INT8/F16 kernel), whose order is nowhere defined.
 *
 * A key that a row does not see has P = 0, not no product: infinities and NaNs of V reach the rows of their tile. */
#ifndef SPARGE_CPU_ROW_BLOCK_H
#define SPARGE_CPU_ROW_BLOCK_H

#include "cpu/attend/pv_skip.h"
#include "cpu/attend/softmax.h"
#include "cpu/prepare/quantise.h"

static void load_16(float *to, const sparge_tensor *tensor, int64_t batch, int64_t head, int64_t token)
{
    const uint16_t *row = (const uint16_t *)tensor->data + batch * tensor->stride[0] + head * tensor->stride[1] +
                          token * tensor->stride[2];
    const size_t count = (size_t)tensor->shape[3];
    if (tensor->dtype == SPARGE_F16)
        f32_from_f16(to, row, count);
    else
        f32_from_bf16(to, row, count);
}

static void load_queries(const cpu_attend_job *job, const cpu_row_block *block, cpu_attend_workspace *w)
{
    const cpu_prepared *prepared = job->prepared;
    const sparge_problem *problem = job->problem;
    const int32_t head_dim = problem->head_dim;
    const int64_t bh = (int64_t)block->batch * problem->heads_q + block->head;
    const int32_t padded = (block->q_count + PANEL - 1) / PANEL * PANEL;
    memset(w->q, 0, sizeof(float) * (size_t)(padded * head_dim));
    memset(w->o, 0, sizeof(float) * (size_t)(padded * head_dim));
    for (int32_t i = 0; i < padded; i++) {
        w->m[i] = -INFINITY;
        w->l[i] = 0.0f;
        w->active[i] = 1.0f;
        w->q_scale[i] = job->scale_log2e;
        if (i >= block->q_count)
            continue;
        const int64_t token = block->q_begin + i;
        w->range[i] = cpu_worklist_range(problem, job->work, token);
        if (prepared->q8) {
            f32_from_i8(w->row, prepared->q8 + (bh * problem->seqlen_q + token) * head_dim, (size_t)head_dim);
            w->q_scale[i] *=
                prepared->q_scale[bh * cpu_q_scales(problem, job->recipe) + cpu_q_scale_index(job->recipe, token)];
        } else {
            load_16(w->row, &prepared->q, block->batch, block->head, token);
        }
        float *to = w->q + (int64_t)(i / PANEL) * PANEL * head_dim + i % PANEL;
        for (int32_t d = 0; d < head_dim; d++)
            to[(int64_t)d * PANEL] = w->row[d];
    }
}

/* Rows of K and V at the positions w->key[0..keys). */
static void load_keys(const cpu_attend_job *job, const cpu_row_block *block, cpu_attend_workspace *w, int32_t keys)
{
    const cpu_prepared *prepared = job->prepared;
    const sparge_problem *problem = job->problem;
    const size_t head_dim = (size_t)problem->head_dim;
    const int32_t head = block->head / (problem->heads_q / problem->heads_kv);
    const int64_t bh = (int64_t)block->batch * problem->heads_kv + head;
    for (int32_t j = 0; j < keys; j++) {
        const int64_t token = w->key[j];
        const size_t at = (size_t)(bh * problem->seqlen_k + token) * head_dim;
        float *k = w->k + (int64_t)j * ATTEND_ROW_STRIDE, *v = w->v + (int64_t)j * ATTEND_ROW_STRIDE;
        if (prepared->k8) {
            f32_from_i8(k, prepared->k8 + at, head_dim);
            w->k_scale[j] =
                prepared->k_scale[bh * cpu_k_scales(problem, job->recipe) + cpu_k_scale_index(job->recipe, token)];
        } else {
            load_16(k, &prepared->k, block->batch, head, token);
            w->k_scale[j] = 1.0f;
        }
        if (prepared->v8)
            f32_from_e4m3(v, prepared->v8 + at, head_dim);
        else
            load_16(v, &prepared->v, block->batch, head, token);
        if (job->round_v)
            round_f16(v, head_dim);
    }
}

static int32_t clamp_to_tile(int64_t position, int64_t base)
{
    const int64_t relative = position - base;
    return relative < 0 ? 0 : relative > INT32_MAX ? INT32_MAX : (int32_t)relative;
}

/* Does every row see every key? If not, begin, end and sink_end are set. Padding rows see all. */
static int tile_is_masked(const cpu_row_block *block, cpu_attend_workspace *w, int32_t keys)
{
    const int64_t base = w->key[0], last = w->key[keys - 1];
    int masked = 0;
    for (int32_t i = 0; i < block->q_count && !masked; i++)
        masked = (base < w->range[i].begin || last >= w->range[i].end) && last >= w->range[i].sink_end;
    if (!masked)
        return 0;
    const int32_t padded = (block->q_count + PANEL - 1) / PANEL * PANEL;
    for (int32_t i = 0; i < padded; i++) {
        const int real = i < block->q_count;
        w->begin[i] = real ? clamp_to_tile(w->range[i].begin, base) : 0;
        w->end[i] = real ? clamp_to_tile(w->range[i].end, base) : INT32_MAX;
        w->sink_end[i] = real ? clamp_to_tile(w->range[i].sink_end, base) : 0;
    }
    return 1;
}

/* 0, 1 or some of the panel's rows are active. */
static void panel_activity(const cpu_attend_workspace *w, int32_t panel, int *any, int *all)
{
    *any = 0;
    *all = 1;
    for (int32_t i = panel; i < panel + PANEL; i++) {
        *any |= w->active[i] != 0.0f;
        *all &= w->active[i] != 0.0f;
    }
}

/* S, votes, softmax and P V of one tile, whose keys are loaded. Returns the votes that said skip. */
static int64_t run_tile(const cpu_attend_job *job, const cpu_row_block *block, cpu_attend_workspace *w,
                        const tile_view *tile, int may_skip)
{
    const int32_t head_dim = job->problem->head_dim;
    const int32_t padded = (block->q_count + PANEL - 1) / PANEL * PANEL;
    const int32_t group = job->skip_enabled && job->skip_unit > PANEL ? job->skip_unit : PANEL;
    int64_t skipped = 0;
    for (int32_t first = 0; first < padded; first += group) {
        const int32_t end = first + group < padded ? first + group : padded;
        for (int32_t panel = first; panel < end; panel += PANEL)
            tile_scores(tile, w, panel, head_dim);
        if (may_skip) {
            const pv_skip_rule rule = {
                .threshold = job->skip_threshold[block->head], .unit = job->skip_unit, .upstream = job->skip_upstream};
            skipped += pv_skip_vote(&rule, w->m, w->m_tile, first, end, block->q_count, w->active);
        }
        for (int32_t panel = first; panel < end; panel += PANEL) {
            int any = 1, all = 1;
            if (may_skip)
                panel_activity(w, panel, &any, &all);
            if (!any && !job->skip_keeps_sum)
                continue; /* no row's maximum moved: m, l and o stay as they are */
            vec alpha[2];
            tile_softmax(job, w, tile->keys, panel, !all, alpha);
            if (any)
                tile_output(tile, w, panel, head_dim, alpha);
        }
    }
    return skipped;
}

/* The tile of w->key[0..keys). */
static int64_t attend_tile(const cpu_attend_job *job, const cpu_row_block *block, cpu_attend_workspace *w, int32_t keys,
                           int may_skip)
{
    load_keys(job, block, w, keys);
    const tile_view tile = {.k = w->k,
                            .v = w->v,
                            .k_scale = w->k_scale,
                            .key = w->key,
                            .keys = keys,
                            .masked = tile_is_masked(block, w, keys)};
    return run_tile(job, block, w, &tile, may_skip);
}

/* q . k_mean * scale: what smoothing took away from every score of the row. */
static double smoothed_score(const cpu_attend_job *job, const cpu_row_block *block, int64_t query,
                             cpu_attend_workspace *w)
{
    const sparge_problem *problem = job->problem;
    const int32_t head = block->head / (problem->heads_q / problem->heads_kv);
    const float *mean = job->prepared->k_mean + ((int64_t)block->batch * problem->heads_kv + head) * problem->head_dim;
    load_16(w->row, &job->prepared->q, block->batch, block->head, query);
    double dot = 0;
    for (int32_t d = 0; d < problem->head_dim; d++)
        dot += (double)w->row[d] * (double)mean[d];
    return dot * (double)job->scale;
}

static void store_row(const cpu_attend_job *job, const cpu_row_block *block, cpu_attend_workspace *w, int32_t i)
{
    const sparge_problem *problem = job->problem;
    const int32_t head_dim = problem->head_dim;
    const int64_t query = block->q_begin + i;
    const int64_t row = job->token ? job->token[query] : query;
    const int empty = w->l[i] == 0.0f; /* not m = -inf: a row of NaN scores has that, too */
    const float inverse = empty ? 0.0f : 1.0f / (w->l[i] * job->p_scale);
    const float *o = w->o + (int64_t)(i / PANEL) * PANEL * head_dim + i % PANEL;
    for (int32_t d = 0; d < head_dim; d++)
        w->row[d] = o[(int64_t)d * PANEL] * inverse;
    if (job->prepared->v8) {
        const int32_t head = block->head / (problem->heads_q / problem->heads_kv);
        const float *v_scale = job->prepared->v_scale + ((int64_t)block->batch * problem->heads_kv + head) * head_dim;
        for (int32_t d = 0; d < head_dim; d++)
            w->row[d] *= v_scale[d];
    }
    if (job->o.dtype == SPARGE_F16)
        f16_from_f32(w->row16, w->row, (size_t)head_dim);
    else
        bf16_from_f32(w->row16, w->row, (size_t)head_dim);
    uint16_t *to = (uint16_t *)job->o.data + block->batch * job->o.stride[0] + block->head * job->o.stride[1] +
                   row * job->o.stride[2];
    memcpy(to, w->row16, sizeof(uint16_t) * (size_t)head_dim);
    if (!job->lse)
        return;
    double lse = -INFINITY;
    if (!empty) {
        lse = ((double)w->m[i] - (double)job->exponent_bias) * LN_2 + log((double)w->l[i]);
        if (job->add_smoothed)
            lse += smoothed_score(job, block, query, w);
    }
    job->lse[((int64_t)block->batch * problem->heads_q + block->head) * problem->seqlen_q + row] = (float)lse;
}

static int64_t attend_row_block(const cpu_attend_job *job, int64_t index, cpu_attend_workspace *w)
{
    const cpu_worklist *work = job->work;
    const cpu_row_block *block = &work->row_block[index];
    int64_t skipped = 0;
    load_queries(job, block, w);
    for (int64_t s = block->segment_begin; s < block->segment_end; s++) {
        const cpu_segment *segment = &work->segment[s];
        for (int32_t j = 0; j < segment->k_count; j++)
            w->key[j] = segment->k_begin + j;
        const int may_skip = job->skip_enabled && s < block->segment_end - job->skip_guarded;
        skipped += attend_tile(job, block, w, segment->k_count, may_skip);
    }
    for (int64_t c = block->column_begin; c < block->column_end; c += ATTEND_COLUMN_TILE) {
        const int64_t left = block->column_end - c;
        const int32_t keys = (int32_t)(left < ATTEND_COLUMN_TILE ? left : ATTEND_COLUMN_TILE);
        for (int32_t j = 0; j < keys; j++)
            w->key[j] = work->column[c + j];
        skipped += attend_tile(job, block, w, keys, 0);
    }
    for (int32_t i = 0; i < block->q_count; i++)
        store_row(job, block, w, i);
    return skipped;
}

#endif
