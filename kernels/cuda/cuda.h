/* The CUDA backend from the inside: what its stages hand to each other. Mirrors kernels/cpu/cpu.h.
 *
 *   prepare/  q, k, v   ->  cuda_prepared   (smoothing, INT8, FP8, pooling, self-similarity)
 *   select/   scores    ->  cuda_lists      (block mask, tile lists, order of the row blocks)
 *   sm80/ ... lists     ->  o, lse, counts
 *
 * Everything runs on the context's stream and nothing synchronises or allocates in a run, so that a run can be captured
 * into a graph. All pointers are device memory of the plan unless said. nq = ceil(Lq / BQ) and so on. */
#ifndef SPARGE_CUDA_H
#define SPARGE_CUDA_H

#include <cuda_runtime_api.h>

#include "backend.h"
#include "cuda/attend.h"

typedef struct cuda_context {
    int device;
    cudaStream_t stream; /* non-blocking, the context's own */
    struct cudaDeviceProp properties;
    int arch;               /* of the code that runs, 90 for sm_90: not always the device's */
    struct cuda_gate *gate; /* of hold and release: hold.cu */
    int portable;           /* set by tests: plans take the kernels of sm80/ also where there are newer ones */
    struct cuda_nvml *nvml; /* opened when it is first asked: nvml.h */
} cuda_context;

/* What prepare leaves behind. NULL where the recipe does not need it. */
typedef struct cuda_prepared {
    sparge_tensor q, k, v; /* what the kernels read: the caller's tensors, or padded copies where head_dim is not a
                              multiple of 8 or a stride or address is not a multiple of 16 bytes */
    float *k_mean;         /* [B][Hkv][D] */
    int8_t *q8, *k8;       /* [B][H][L][padded_dim], padded_dim = 64 or 128, channels from D on zero */
    float *q_scale;        /* [B][Hq][scales of a head]: layouts of kernels/cpu/prepare/quantise.h */
    float *k_scale;        /* [B][Hkv][scales of a head] */
    uint8_t *v8;           /* e4m3 [B][Hkv][padded_keys / 64][padded_dim][64 keys]; in each group of 16 keys, key t is
                              stored at 4 * (t % 8 / 2) + 2 * (t / 8) + t % 2; keys from Lk on and channels from D on
                              are zero */
    float *v_scale;        /* [B][Hkv][padded_dim], 0 from D on */
    int32_t q_scales, k_scales; /* scales of a head */
    int64_t padded_keys;        /* Lk rounded up to 128 */
    int32_t padded_dim;
    float *q_pool, *k_pool; /* [B][H][n][D] */
    float *q_sim, *k_sim;   /* [B][H][n] */
    float *lse_offset;      /* [B][Hq][Lq]: q . k_mean * scale, where K is smoothed and the run asks for the LSE */
} cuda_prepared;

/* Lists over tiles of ATTEND_TILE_KEYS keys, for each row block r = (batch * Hq + head) * nq + row. */
typedef struct cuda_lists {
    uint8_t *mask;  /* [B][Hq][nq][nk] on the BQ x BK grid; NULL: dense */
    int32_t *list;  /* [r][list_stride] ascending tile indices */
    int32_t *count; /* [r] */
    int32_t *order; /* permutation of r, longest list first (within groups of heads that share L2) */
    int64_t list_stride;
} cuda_lists;

typedef struct cuda_counts {        /* on the device; read by plan_stats */
    unsigned long long visible, qk; /* blocks */
    unsigned long long pv_skipped;  /* in 1/840 of a tile's row block */
    unsigned long long extra;
} cuda_counts;

typedef struct cuda_plan {
    cuda_prepared prepared;
    cuda_lists lists;
    cuda_counts *counts;
    void *memory;                                      /* list of the allocations of cuda_take */
    void *prepare_state, *select_state, *attend_state; /* each stage's own, taken with cuda_take_host */
} cuda_plan;

static inline cuda_context *cuda_context_of(const sparge_context *context)
{
    return (cuda_context *)context->state;
}
static inline cuda_plan *cuda_plan_of(const sparge_plan *plan)
{
    return (cuda_plan *)plan->state;
}

/* Query i sees the keys before min(i + 1 + shift, Lk). */
static inline int64_t cuda_causal_shift(const sparge_problem *problem)
{
    switch (problem->causal) {
    case SPARGE_CAUSAL_TOP_LEFT:
        return 0;
    case SPARGE_CAUSAL_BOTTOM_RIGHT:
        return problem->seqlen_k - problem->seqlen_q;
    default:
        return INT64_MAX / 4; /* beyond every key */
    }
}

#ifdef __cplusplus
extern "C" {
#endif

/* Zeroed device memory, aligned to 256 bytes, freed with the plan and counted in its workspace_bytes; the product is
 * overflow-checked, and what does not fit the free memory is refused before it is asked for. Of a plan that is only sized
 * (plan->sizing) it counts and gives an address without memory: *_plan functions then copy nothing to it. */
sparge_status cuda_take(sparge_plan *plan, size_t count, size_t bytes, void **memory);
/* Zeroed host memory, freed with the plan. */
sparge_status cuda_take_host(sparge_plan *plan, size_t bytes, void **memory);

/* OK, or SPARGE_ERROR_DEVICE with "WHAT: CUDA's own text". */
sparge_status cuda_check(sparge_context *context, cudaError_t error, const char *what);

/* hold and release: a kernel that waits for a word in host memory. The gate is made with the context. */
sparge_status cuda_gate_create(sparge_context *context);
void cuda_gate_destroy(sparge_context *context);
sparge_status cuda_hold(sparge_context *context);
sparge_status cuda_release(sparge_context *context);

/* Stage entry points; *_plan once, *_run on the stream. */
sparge_status cuda_prepare_plan(sparge_plan *plan);
sparge_status cuda_prepare_run(sparge_plan *plan, const sparge_io *io);
sparge_status cuda_select_plan(sparge_plan *plan);
sparge_status cuda_select_run(sparge_plan *plan, const sparge_io *io);
sparge_status cuda_attend_plan(sparge_plan *plan);
sparge_status cuda_attend_run(sparge_plan *plan, const sparge_io *io);

sparge_status cuda_generate(sparge_context *context, const sparge_generator *generator, sparge_tensor_role role,
                            const sparge_tensor *tensor);
sparge_status cuda_exact(sparge_context *context, const sparge_problem *problem, const sparge_tensor *q,
                         const sparge_tensor *k, const sparge_tensor *v, const int64_t *rows, int64_t n_rows, double *o,
                         double *lse);

#ifdef __cplusplus
}
#endif
#endif
