/* FP8 V. Parallel over (batch, head) for the channel maxima and over token chunks for the rounding. */
#include "cpu/prepare/fp8.h"

#include <math.h>
#include <string.h>

#include "cpu/load.h"

enum { CHUNK_TOKENS = 256 };

static int64_t chunks_of(const sparge_problem *problem)
{
    return (problem->seqlen_k + CHUNK_TOKENS - 1) / CHUNK_TOKENS;
}

sparge_status cpu_fp8_plan(sparge_plan *plan)
{
    cpu_prepared *prepared = &cpu_plan_of(plan)->prepared;
    const sparge_problem *problem = &plan->problem;
    if (plan->recipe.arithmetic != SPARGE_ARITHMETIC_INT8_FP8)
        return SPARGE_OK;
    const size_t heads = (size_t)problem->batch * (size_t)problem->heads_kv;
    const size_t head_dim = (size_t)problem->head_dim;
    void *v8, *scale, *chunk_max;
    sparge_status status = cpu_take(plan, heads * (size_t)problem->seqlen_k, head_dim, &v8);
    if (status == SPARGE_OK)
        status = cpu_take(plan, heads, head_dim * sizeof(float), &scale);
    if (status == SPARGE_OK)
        status = cpu_take(plan, heads * (size_t)chunks_of(problem), head_dim * sizeof(float), &chunk_max);
    if (status != SPARGE_OK)
        return status;
    prepared->v8 = v8;
    prepared->v_scale = scale;
    cpu_plan_of(plan)->v_max = chunk_max;
    return SPARGE_OK;
}

static void load_v(const sparge_plan *plan, int64_t head, int64_t token, float *row)
{
    const sparge_problem *problem = &plan->problem;
    cpu_load_row(plan->context, &cpu_plan_of(plan)->prepared.v, head / problem->heads_kv, head % problem->heads_kv,
                 token, row);
    if (plan->recipe.upstream && problem->dtype == SPARGE_BF16)
        cpu_round_16(plan->context, SPARGE_F16, row, (size_t)problem->head_dim);
}

static int64_t chunk_end(const sparge_problem *problem, int64_t chunk)
{
    const int64_t end = (chunk + 1) * CHUNK_TOKENS;
    return end < problem->seqlen_k ? end : problem->seqlen_k;
}

/* A NaN is passed over here; it stays NaN in v8. */
static void chunk_maximum(const sparge_plan *plan, int64_t head, int64_t chunk, float *max)
{
    const int32_t head_dim = plan->problem.head_dim;
    float row[SPARGE_MAX_HEAD_DIM];
    for (int32_t d = 0; d < head_dim; d++)
        max[d] = CPU_FP8_TINY;
    for (int64_t token = chunk * CHUNK_TOKENS; token < chunk_end(&plan->problem, chunk); token++) {
        load_v(plan, head, token, row);
        for (int32_t d = 0; d < head_dim; d++) {
            const float magnitude = fabsf(row[d]);
            max[d] = magnitude > max[d] ? magnitude : max[d];
        }
    }
}

static void round_chunk(const sparge_plan *plan, int64_t head, int64_t chunk, const float *factor)
{
    const sparge_problem *problem = &plan->problem;
    const cpu_isa *isa = cpu_context_isa(plan->context);
    uint8_t *v8 = cpu_plan_of(plan)->prepared.v8;
    float row[SPARGE_MAX_HEAD_DIM];
    for (int64_t token = chunk * CHUNK_TOKENS; token < chunk_end(problem, chunk); token++) {
        load_v(plan, head, token, row);
        for (int32_t d = 0; d < problem->head_dim; d++)
            row[d] *= factor[d];
        isa->e4m3_from_f32(v8 + (head * problem->seqlen_k + token) * problem->head_dim, row, (size_t)problem->head_dim);
    }
}

void cpu_fp8_run(sparge_plan *plan)
{
    cpu_plan *cpu = cpu_plan_of(plan);
    const sparge_problem *problem = &plan->problem;
    if (!cpu->prepared.v8)
        return;
    const int32_t head_dim = problem->head_dim;
    const int64_t heads = (int64_t)problem->batch * problem->heads_kv, chunks = chunks_of(problem);
    const int threads = cpu_threads(plan->context);
    const float v_max = plan->recipe.fp8_v_max;
    float *max = cpu->v_max; /* [head][chunk][channel]; then, in chunk 0, fp8_v_max / a */
#pragma omp parallel for num_threads(threads)
    for (int64_t i = 0; i < heads * chunks; i++)
        chunk_maximum(plan, i / chunks, i % chunks, max + i * head_dim);
    for (int64_t i = 0; i < heads * head_dim; i++) {
        float *of_head = max + i / head_dim * chunks * head_dim + i % head_dim;
        float a = 0;
        for (int64_t chunk = 0; chunk < chunks; chunk++)
            a = of_head[chunk * head_dim] > a ? of_head[chunk * head_dim] : a;
        cpu->prepared.v_scale[i] = a * (1.0f / v_max);
        of_head[0] = v_max / a;
    }
#pragma omp parallel for num_threads(threads)
    for (int64_t i = 0; i < heads * chunks; i++)
        round_chunk(plan, i / chunks, i % chunks, max + i / chunks * chunks * head_dim);
}
