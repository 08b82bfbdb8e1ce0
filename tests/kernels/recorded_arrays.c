/* What prepare left of a recorded case. The recorded head dims are those that the CUDA backend does not pad, so only its
 * FP8 V lies in another order than the CPU's. */
#include "recorded.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#ifdef SPARGE_HAVE_CUDA
#include "cuda/cuda.h"
#endif

typedef struct places { /* in the backend's memory */
    const void *k_mean, *q8, *k8, *q_scale, *k_scale, *v8, *v_scale, *q_pool, *k_pool, *q_sim, *k_sim;
} places;

static places of_cpu(const sparge_plan *plan)
{
    const cpu_prepared *p = &cpu_plan_of(plan)->prepared;
    return (places){p->k_mean,  p->q8,     p->k8,     p->q_scale, p->k_scale, p->v8,
                    p->v_scale, p->q_pool, p->k_pool, p->q_sim,   p->k_sim};
}

static places places_of(const recorded_run *run)
{
#ifdef SPARGE_HAVE_CUDA
    if (run->context->backend == &sparge_backend_cuda) {
        const cuda_prepared *p = &cuda_plan_of(run->plan)->prepared;
        assert_int_equal(p->padded_dim, run->problem.head_dim);
        return (places){p->k_mean,  p->q8,     p->k8,     p->q_scale, p->k_scale, p->v8,
                        p->v_scale, p->q_pool, p->k_pool, p->q_sim,   p->k_sim};
    }
#endif
    return of_cpu(run->plan);
}

static void *fetch(const recorded_run *run, const void *memory, int64_t count, size_t bytes)
{
    if (!memory)
        return NULL;
    void *host = malloc((size_t)count * bytes);
    assert_non_null(host);
    assert_int_equal(sparge_download(run->context, host, memory, (size_t)count * bytes), SPARGE_OK);
    return host;
}

#ifdef SPARGE_HAVE_CUDA
/* From [head][tile of 64 keys][channel][64 keys], in groups of 16 in the tensor cores' order (cuda_prepared). */
static uint8_t *plain_v8(const recorded_run *run, const void *memory, int64_t heads, int64_t tokens, int64_t dim)
{
    const int64_t padded = cuda_plan_of(run->plan)->prepared.padded_keys;
    uint8_t *device = fetch(run, memory, heads * padded * dim, 1), *plain = malloc((size_t)(heads * tokens * dim));
    assert_non_null(plain);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t t = 0; t < tokens; t++)
            for (int64_t d = 0; d < dim; d++) {
                const int64_t in_tile = t % 64 / 16 * 16 + 4 * (t % 8 / 2) + 2 * (t % 16 / 8) + t % 2;
                plain[(h * tokens + t) * dim + d] = device[((h * padded + t / 64 * 64) * dim + d * 64) + in_tile];
            }
    free(device);
    return plain;
}
#endif

static uint8_t *fetch_v8(const recorded_run *run, const void *memory, int64_t heads, int64_t tokens, int64_t dim)
{
#ifdef SPARGE_HAVE_CUDA
    if (memory && run->context->backend == &sparge_backend_cuda)
        return plain_v8(run, memory, heads, tokens, dim);
#endif
    return fetch(run, memory, heads * tokens * dim, 1);
}

recorded_arrays recorded_run_arrays(const recorded_run *run)
{
    const sparge_recipe *recipe = &run->plan->recipe;
    const int64_t heads = run->problem.heads_q, tokens = run->problem.seqlen_q, dim = run->problem.head_dim;
    const int64_t rows = heads * ((tokens + recipe->block_q - 1) / recipe->block_q);
    const int64_t cols = heads * ((tokens + recipe->block_k - 1) / recipe->block_k);
    const places from = places_of(run);
    return (recorded_arrays){
        .k_mean = fetch(run, from.k_mean, heads * dim, sizeof(float)),
        .q8 = fetch(run, from.q8, heads * tokens * dim, 1),
        .k8 = fetch(run, from.k8, heads * tokens * dim, 1),
        .q_scale = fetch(run, from.q_scale, rows, sizeof(float)),
        .k_scale = fetch(run, from.k_scale, cols, sizeof(float)),
        .v8 = fetch_v8(run, from.v8, heads, tokens, dim),
        .v_scale = fetch(run, from.v_scale, heads * dim, sizeof(float)),
        .q_pool = fetch(run, from.q_pool, rows * dim, sizeof(float)),
        .k_pool = fetch(run, from.k_pool, cols * dim, sizeof(float)),
        .q_sim = fetch(run, from.q_sim, rows, sizeof(float)),
        .k_sim = fetch(run, from.k_sim, cols, sizeof(float)),
    };
}

void recorded_arrays_release(recorded_arrays *a)
{
    void *const memory[] = {a->k_mean,  a->q8,     a->k8,     a->q_scale, a->k_scale, a->v8,
                            a->v_scale, a->q_pool, a->k_pool, a->q_sim,   a->k_sim};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        free(memory[i]);
    memset(a, 0, sizeof *a);
}
