/* The token mean of K. Parallel over (batch, head, chunk); the chunks' sums are added in order afterwards. */
#include "cpu/prepare/smooth.h"

#include <string.h>

#include "cpu/load.h"

static int64_t chunks_of(const sparge_problem *problem)
{
    return (problem->seqlen_k + CPU_MEAN_CHUNK - 1) / CPU_MEAN_CHUNK;
}

sparge_status cpu_smooth_plan(sparge_plan *plan)
{
    cpu_plan *cpu = cpu_plan_of(plan);
    const sparge_problem *problem = &plan->problem;
    if (!plan->recipe.smooth_k)
        return SPARGE_OK;
    const size_t heads = (size_t)problem->batch * (size_t)problem->heads_kv;
    void *mean, *sum;
    sparge_status status = cpu_take(plan, heads, (size_t)problem->head_dim * sizeof(float), &mean);
    if (status == SPARGE_OK)
        status = cpu_take(plan, heads * (size_t)chunks_of(problem), (size_t)problem->head_dim * sizeof(double), &sum);
    if (status != SPARGE_OK)
        return status;
    cpu->prepared.k_mean = mean;
    cpu->mean_sum = sum;
    return SPARGE_OK;
}

/* a + b, rounded to float but in parity mode: the sum of two floats in double rounds to their float sum. */
static double add(const sparge_plan *plan, double a, double b)
{
    return plan->recipe.upstream ? a + b : (double)(float)(a + b);
}

/* Sum over one chunk of tokens. */
static void sum_chunk(const sparge_plan *plan, int64_t head, int64_t chunk, double *sum)
{
    const sparge_problem *problem = &plan->problem;
    const int64_t begin = chunk * CPU_MEAN_CHUNK;
    const int64_t end = begin + CPU_MEAN_CHUNK < problem->seqlen_k ? begin + CPU_MEAN_CHUNK : problem->seqlen_k;
    float row[SPARGE_MAX_HEAD_DIM];
    double lane[CPU_MEAN_LANES][SPARGE_MAX_HEAD_DIM] = {{0}};
    for (int64_t token = begin; token < end; token++) {
        double *to = lane[(token - begin) % CPU_MEAN_LANES];
        cpu_load_row(plan->context, &cpu_plan_of(plan)->prepared.k, head / problem->heads_kv, head % problem->heads_kv,
                     token, row);
        for (int32_t d = 0; d < problem->head_dim; d++)
            to[d] = add(plan, to[d], (double)row[d]);
    }
    for (int32_t half = CPU_MEAN_LANES / 2; half >= 1; half /= 2)
        for (int32_t r = 0; r < half; r++)
            for (int32_t d = 0; d < problem->head_dim; d++)
                lane[r][d] = add(plan, lane[r][d], lane[r + half][d]);
    memcpy(sum, lane[0], (size_t)problem->head_dim * sizeof *sum);
}

void cpu_smooth_run(sparge_plan *plan)
{
    cpu_plan *cpu = cpu_plan_of(plan);
    const sparge_problem *problem = &plan->problem;
    if (!plan->recipe.smooth_k)
        return;
    const int64_t heads = (int64_t)problem->batch * problem->heads_kv, chunks = chunks_of(problem);
    const int32_t head_dim = problem->head_dim;
    double *sum = cpu->mean_sum;
#pragma omp parallel for num_threads(cpu_threads(plan->context))
    for (int64_t i = 0; i < heads * chunks; i++)
        sum_chunk(plan, i / chunks, i % chunks, sum + i * head_dim);
    for (int64_t i = 0; i < heads * head_dim; i++) {
        double total = 0, run = 0;
        for (int64_t chunk = 0; chunk < chunks; chunk++) {
            run += sum[(i / head_dim * chunks + chunk) * head_dim + i % head_dim];
            if (chunk == chunks - 1 || (!plan->recipe.upstream && (chunk + 1) % CPU_MEAN_RUN == 0)) {
                total += run;
                run = 0;
            }
        }
        cpu->prepared.k_mean[i] = (float)(total / (double)problem->seqlen_k);
    }
    if (plan->recipe.upstream)
        cpu_round_16(plan->context, problem->dtype, cpu->prepared.k_mean, (size_t)(heads * head_dim));
}
