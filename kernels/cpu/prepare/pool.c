/* Pooling: see pool.h for the arithmetic. Parallel over blocks; a block is one thread's, so the order of its
 * sums is fixed. */
#include "cpu/prepare/pool.h"

#include "cpu/load.h"

#include <math.h>
#include <string.h>

enum { MAX_ROWS = 128, MAX_CHANNELS = SPARGE_MAX_HEAD_DIM, LANE_ROWS = 16, MAX_LANES = MAX_ROWS / LANE_ROWS };

typedef float pool_row[MAX_CHANNELS];

/* Parity mode's sum over rows, all channels at once; the sums end in row 0. Rows from `count` on are zero. */
static void sum_rows_upstream(pool_row *row, int32_t block)
{
    for (int32_t half = block / 2; half >= 1; half /= 2)
        for (int32_t t = 0; t < half; t++)
            for (int32_t d = 0; d < MAX_CHANNELS; d++)
                row[t][d] += row[t + half][d];
}

/* The sum over the squares of one row's channels, neighbours first. */
static float chansum_squares(const float *row, int32_t channels)
{
    float term[MAX_CHANNELS];
    for (int32_t d = 0; d < MAX_CHANNELS; d++)
        term[d] = row[d] * row[d];
    for (int32_t pairs = channels <= 64 ? 32 : 64; pairs >= 1; pairs /= 2)
        for (int32_t i = 0; i < pairs; i++)
            term[i] = term[2 * i] + term[2 * i + 1];
    return term[0];
}

static void load_block(const sparge_context *context, const sparge_tensor *x, int64_t batch, int64_t head,
                       const cpu_pool_block *what, pool_row *row)
{
    const int32_t channels = (int32_t)x->shape[3];
    memset(row, 0, (size_t)what->block * sizeof *row);
    for (int32_t t = 0; t < what->count; t++) {
        cpu_load_row(context, x, batch, head, what->begin + t, row[t]);
        if (!what->center)
            continue;
        for (int32_t d = 0; d < channels; d++)
            row[t][d] -= what->center[d];
        if (what->upstream)
            cpu_round_16(context, x->dtype, row[t], (size_t)channels);
    }
}

/* Parity mode: divides each row by its length; a row of length 0 becomes NaN. */
static void make_units_upstream(const sparge_context *context, pool_row *row, int32_t count, int32_t channels)
{
    for (int32_t t = 0; t < count; t++) {
        const float length = sqrtf(chansum_squares(row[t], channels));
        for (int32_t d = 0; d < channels; d++)
            row[t][d] /= length;
        cpu_round_16(context, SPARGE_F16, row[t], (size_t)channels);
    }
}

static void pool_upstream(const sparge_context *context, const cpu_pool_block *what, sparge_dtype dtype,
                          int32_t channels, pool_row *row, float *mean, float *sim)
{
    pool_row unit[MAX_ROWS];
    if (sim)
        memcpy(unit, row, (size_t)what->block * sizeof *row);
    sum_rows_upstream(row, what->block);
    for (int32_t d = 0; d < channels; d++)
        mean[d] = row[0][d] / (float)what->divisor;
    cpu_round_16(context, dtype, mean, (size_t)channels);
    if (!sim)
        return;
    make_units_upstream(context, unit, what->count, channels);
    sum_rows_upstream(unit, what->block);
    *sim = chansum_squares(unit[0], channels) / (float)(what->count * what->count);
}

/* The lanes' sums, added up in lane 0. */
static void add_lanes(pool_row *lane, int32_t lanes)
{
    for (int32_t half = lanes / 2; half >= 1; half /= 2)
        for (int32_t r = 0; r < half; r++)
            for (int32_t d = 0; d < MAX_CHANNELS; d++)
                lane[r][d] += lane[r + half][d];
}

void cpu_pool_one(const sparge_context *context, const sparge_tensor *x, int64_t batch, int64_t head,
                  const cpu_pool_block *what, float *mean, float *sim)
{
    const cpu_isa *isa = cpu_context_isa(context);
    const int32_t channels = (int32_t)x->shape[3], lanes = what->block / LANE_ROWS;
    const size_t padded = channels <= 64 ? 64 : 128;
    pool_row row[MAX_ROWS], sum[MAX_LANES] = {{0}}, unit_sum[MAX_LANES] = {{0}};
    load_block(context, x, batch, head, what, row);
    if (what->upstream) {
        pool_upstream(context, what, x->dtype, channels, row, mean, sim);
        return;
    }
    for (int32_t t = 0; t < what->count; t++) {
        isa->add_scaled(sum[t % lanes], row[t], 1, padded);
        if (!sim)
            continue;
        const float length = sqrtf(isa->sum_squares(row[t], padded));
        isa->add_scaled(unit_sum[t % lanes], row[t], length == 0 ? 0 : 1 / length, padded);
    }
    add_lanes(sum, lanes);
    for (int32_t d = 0; d < channels; d++)
        mean[d] = sum[0][d] / (float)what->divisor;
    if (!sim)
        return;
    add_lanes(unit_sum, lanes);
    *sim = chansum_squares(unit_sum[0], channels) / (float)(what->count * what->count);
}

static int64_t blocks_of(int64_t tokens, int32_t block)
{
    return (tokens + block - 1) / block;
}

sparge_status cpu_pool_plan(sparge_plan *plan)
{
    const sparge_recipe *recipe = &plan->recipe;
    const sparge_problem *p = &plan->problem;
    cpu_prepared *out = &cpu_plan_of(plan)->prepared;
    const int judges = recipe->select == SPARGE_SELECT_MEANSIM;
    if (!judges && recipe->select != SPARGE_SELECT_POOLED_TOPK && recipe->select != SPARGE_SELECT_FLEX)
        return SPARGE_OK;
    const size_t rows_q = (size_t)(p->batch * blocks_of(p->seqlen_q, recipe->block_q)) * (size_t)p->heads_q;
    const size_t rows_k = (size_t)(p->batch * blocks_of(p->seqlen_k, recipe->block_k)) * (size_t)p->heads_kv;
    const size_t row_bytes = (size_t)p->head_dim * sizeof(float);
    sparge_status status = cpu_take(plan, rows_q, row_bytes, (void **)&out->q_pool);
    if (status == SPARGE_OK)
        status = cpu_take(plan, rows_k, row_bytes, (void **)&out->k_pool);
    if (status == SPARGE_OK && judges)
        status = cpu_take(plan, rows_q, sizeof(float), (void **)&out->q_sim);
    if (status == SPARGE_OK && judges)
        status = cpu_take(plan, rows_k, sizeof(float), (void **)&out->k_sim);
    return status;
}

static void pool_tensor(const sparge_plan *plan, const sparge_tensor *x, int32_t block, const float *center,
                        float *pool, float *sim)
{
    const sparge_recipe *recipe = &plan->recipe;
    const int64_t heads = x->shape[1], tokens = x->shape[2], channels = x->shape[3];
    const int64_t blocks = blocks_of(tokens, block), total = x->shape[0] * heads * blocks;
    /* MInference pads the sequence with zeros before pooling, so its last mean divides by the whole block. */
    const int padded = recipe->upstream && recipe->select == SPARGE_SELECT_POOLED_TOPK;
#pragma omp parallel for schedule(static) num_threads(cpu_threads(plan->context))
    for (int64_t i = 0; i < total; i++) {
        const int64_t bh = i / blocks, begin = i % blocks * block;
        const int32_t count = tokens - begin < block ? (int32_t)(tokens - begin) : block;
        const cpu_pool_block what = {
            .begin = begin,
            .count = count,
            .block = block,
            .divisor = padded ? block : count,
            .center = center ? center + bh * channels : NULL,
            .upstream = recipe->upstream,
        };
        cpu_pool_one(plan->context, x, bh / heads, bh % heads, &what, pool + i * channels, sim ? sim + i : NULL);
    }
}

void cpu_pool_run(sparge_plan *plan)
{
    const sparge_recipe *recipe = &plan->recipe;
    const cpu_prepared *in = &cpu_plan_of(plan)->prepared;
    if (!in->q_pool)
        return;
    pool_tensor(plan, &in->q, recipe->block_q, NULL, in->q_pool, in->q_sim);
    pool_tensor(plan, &in->k, recipe->block_k, recipe->smooth_k ? in->k_mean : NULL, in->k_pool, in->k_sim);
}
