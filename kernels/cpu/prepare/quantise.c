/* INT8 Q and K. Parallel over the blocks that hold whole scale groups: BQ rows of Q, BK keys of K. */
#include "cpu/prepare/quantise.h"

#include <math.h>
#include <string.h>

#include "cpu/load.h"

static const float RECIPROCAL_127 = 1.0f / 127.0f, SCALE_FLOOR = 1e-7f;

/* One of Q and K. */
typedef struct int8_side {
    const sparge_tensor *x;
    const float *mean; /* [B][H][D] to subtract, or NULL */
    int upstream;
    int32_t block;
    int64_t scales; /* of one head */
    int64_t (*scale_index)(const sparge_recipe *recipe, int64_t token);
    int8_t *x8;
    float *scale;
} int8_side;

sparge_status cpu_quantise_plan(sparge_plan *plan)
{
    cpu_prepared *prepared = &cpu_plan_of(plan)->prepared;
    const sparge_problem *problem = &plan->problem;
    const sparge_recipe *recipe = &plan->recipe;
    if (recipe->arithmetic == SPARGE_ARITHMETIC_F16)
        return SPARGE_OK;
    const size_t heads_q = (size_t)problem->batch * (size_t)problem->heads_q;
    const size_t heads_kv = (size_t)problem->batch * (size_t)problem->heads_kv;
    const size_t head_dim = (size_t)problem->head_dim;
    void *q8, *k8, *q_scale, *k_scale;
    sparge_status status = cpu_take(plan, heads_q * (size_t)problem->seqlen_q, head_dim, &q8);
    if (status == SPARGE_OK)
        status = cpu_take(plan, heads_kv * (size_t)problem->seqlen_k, head_dim, &k8);
    if (status == SPARGE_OK)
        status = cpu_take(plan, heads_q * (size_t)cpu_q_scales(problem, recipe), sizeof(float), &q_scale);
    if (status == SPARGE_OK)
        status = cpu_take(plan, heads_kv * (size_t)cpu_k_scales(problem, recipe), sizeof(float), &k_scale);
    if (status != SPARGE_OK)
        return status;
    prepared->q8 = q8;
    prepared->k8 = k8;
    prepared->q_scale = q_scale;
    prepared->k_scale = k_scale;
    return SPARGE_OK;
}

static void load_smoothed(const sparge_plan *plan, const int8_side *side, int64_t batch, int64_t head, int64_t token,
                          float *row)
{
    const int64_t channels = side->x->shape[3];
    cpu_load_row(plan->context, side->x, batch, head, token, row);
    if (!side->mean)
        return;
    const float *mean = side->mean + (batch * side->x->shape[1] + head) * channels;
    for (int64_t d = 0; d < channels; d++)
        row[d] -= mean[d];
    if (side->upstream)
        cpu_round_16(plan->context, side->x->dtype, row, (size_t)channels);
}

/* Raises *max to the largest magnitude of the row. Compared as integers, floats of one sign order the same way, and NaN
 * is above infinity: a NaN makes the scale NaN, which the output then shows. */
static void raise_to_magnitude(float *max, const float *row, int64_t channels)
{
    uint32_t largest, bits;
    memcpy(&largest, max, sizeof largest);
    for (int64_t d = 0; d < channels; d++) {
        memcpy(&bits, &row[d], sizeof bits);
        bits &= 0x7fffffffu;
        largest = bits > largest ? bits : largest;
    }
    memcpy(max, &largest, sizeof largest);
}

/* Parity mode: trunc(x / s + 0.5 sign(x)). The clamp is for NaN and infinity only, whose conversion C does not define. */
static int8_t quantised_upstream(float x, float scale)
{
    const float rounded = x / scale + (x < 0 ? -0.5f : 0.5f);
    return (int8_t)(rounded < 128.0f ? (rounded > -128.0f ? rounded : -128.0f) : 127.0f);
}

/* Block `block` of one head. The scales that its rows use are consecutive and no other block's. */
static void quantise_block(const sparge_plan *plan, const int8_side *side, int64_t head, int64_t block)
{
    const int64_t heads = side->x->shape[1], tokens = side->x->shape[2], channels = side->x->shape[3];
    const int64_t begin = block * side->block;
    const int64_t end = begin + side->block < tokens ? begin + side->block : tokens;
    float *scale = side->scale + head * side->scales;
    float row[SPARGE_MAX_HEAD_DIM];
    int64_t first = side->scales, last = 0;
    for (int64_t token = begin; token < end; token++) {
        const int64_t index = side->scale_index(&plan->recipe, token);
        first = index < first ? index : first;
        last = index > last ? index : last;
    }
    for (int64_t i = first; i <= last; i++)
        scale[i] = 0;
    for (int64_t token = begin; token < end; token++) {
        load_smoothed(plan, side, head / heads, head % heads, token, row);
        raise_to_magnitude(&scale[side->scale_index(&plan->recipe, token)], row, channels);
    }
    for (int64_t i = first; i <= last; i++)
        scale[i] = fmaf(scale[i], RECIPROCAL_127, SCALE_FLOOR);
    for (int64_t token = begin; token < end; token++) {
        const float s = scale[side->scale_index(&plan->recipe, token)];
        int8_t *x8 = side->x8 + (head * tokens + token) * channels;
        load_smoothed(plan, side, head / heads, head % heads, token, row);
        if (!side->upstream) {
            cpu_context_isa(plan->context)->i8_from_f32(x8, row, isnan(s) ? 0 : 1.0f / s, (size_t)channels);
            continue;
        }
        for (int64_t d = 0; d < channels; d++)
            x8[d] = quantised_upstream(row[d], s);
    }
}

static void quantise(const sparge_plan *plan, const int8_side *side)
{
    const int64_t heads = side->x->shape[0] * side->x->shape[1];
    const int64_t blocks = (side->x->shape[2] + side->block - 1) / side->block;
#pragma omp parallel for num_threads(cpu_threads(plan->context))
    for (int64_t i = 0; i < heads * blocks; i++)
        quantise_block(plan, side, i / blocks, i % blocks);
}

void cpu_quantise_run(sparge_plan *plan)
{
    const cpu_prepared *prepared = &cpu_plan_of(plan)->prepared;
    const sparge_recipe *recipe = &plan->recipe;
    if (!prepared->q8)
        return;
    const int8_side q = {.x = &prepared->q,
                         .upstream = recipe->upstream,
                         .block = recipe->block_q,
                         .scales = cpu_q_scales(&plan->problem, recipe),
                         .scale_index = cpu_q_scale_index,
                         .x8 = prepared->q8,
                         .scale = prepared->q_scale};
    const int8_side k = {.x = &prepared->k,
                         .mean = recipe->smooth_k ? prepared->k_mean : NULL,
                         .upstream = recipe->upstream,
                         .block = recipe->block_k,
                         .scales = cpu_k_scales(&plan->problem, recipe),
                         .scale_index = cpu_k_scale_index,
                         .x8 = prepared->k8,
                         .scale = prepared->k_scale};
    quantise(plan, &q);
    quantise(plan, &k);
}
