/* Prepare on CUDA from the inside: the arguments of its one large kernel, and the order of that kernel's CTAs. */
#ifndef SPARGE_CUDA_PREPARE_H
#define SPARGE_CUDA_PREPARE_H

#include <cuda_runtime_api.h>
#include <stdint.h>

enum {
    PREPARE_THREADS = 128,
    PREPARE_ROWS = 16,   /* rows of a thread: a slab is 128 rows of 128 channels, or 256 of 64 */
    PREPARE_CHUNK = 256, /* tokens of a partial sum of K and of a partial maximum of V: CPU_MEAN_CHUNK */
    PREPARE_LANES = 8,   /* CPU_MEAN_LANES */
    PREPARE_RUN = 32     /* chunks of K whose sums are added up together: CPU_MEAN_RUN */
};

typedef struct prepare_tensor { /* 16-bit; rows are 16-byte aligned */
    const uint16_t *data;
    int64_t batch_stride, head_stride, token_stride; /* elements */
    int64_t tokens;
    int32_t heads; /* of one batch entry */
} prepare_tensor;

/* Which rows of a block share an INT8 scale (kernels/cpu/prepare/quantise.h). */
typedef enum prepare_groups {
    PREPARE_GROUP_BLOCK = 0,  /* all of the block's */
    PREPARE_GROUP_WARP,       /* 32 consecutive */
    PREPARE_GROUP_ROW_THREAD, /* 4 of 32 with equal row mod 8 */
    PREPARE_GROUP_KEY_THREAD  /* those with equal (key mod 8) / 2 */
} prepare_groups;

/* Q or K: blocks of `block` rows. Output pointers are NULL where nobody wants the output. */
typedef struct prepare_side {
    prepare_tensor x;
    const float *center; /* [heads][head_dim] to subtract, or NULL */
    int32_t block;       /* 64 or 128 */
    int32_t blocks;      /* of a head */
    int8_t *x8;          /* [heads][tokens][padded_dim] */
    float *scale;        /* [heads][scales] */
    int32_t scales;
    prepare_groups groups;
    float *pool, *sim; /* [heads][blocks][head_dim], [heads][blocks] */
} prepare_side;

/* CTAs of each kind for one KV head, and how many heads go together (fused.cuh). */
typedef struct prepare_schedule {
    int32_t heads; /* batch * heads_kv */
    int32_t q_heads_per_head;
    int32_t group_heads; /* KV heads that go through the phases together */
    int32_t k_stats, v_stats, q_slabs, k_slabs, v_slabs;
    int32_t cta_per_head; /* sum of the five */
} prepare_schedule;

typedef struct prepare_args {
    prepare_side q, k;
    prepare_tensor v;
    int32_t head_dim;
    int32_t load_chunks; /* 16-byte chunks of a row that exist: ceil(head_dim / 8) */
    prepare_schedule schedule;

    float *k_mean;    /* [heads][head_dim], NULL without smoothing */
    float *k_partial; /* [heads][chunks][padded_dim] */
    double *k_run;    /* [heads][runs][padded_dim] */
    uint8_t *v8;      /* NULL without FP8 */
    float *v_scale;   /* [heads][padded_dim] */
    float *v_factor;  /* [heads][padded_dim]: fp8_v_max / channel maximum */
    int64_t padded_keys;
    int32_t chunks, runs;       /* of a head: ceil(Lk / PREPARE_CHUNK), ceil(chunks / PREPARE_RUN) */
    float v_max, v_max_inverse; /* fp8_v_max */
    float v_tiny;               /* a channel's maximum is raised to this */

    /* Zero when the kernel starts: counters and flags [heads], counters of runs [heads][runs], and the bits of V's channel
     * maxima [heads][padded_dim]. */
    unsigned *k_arrived, *k_ready, *v_arrived, *v_ready, *k_run_arrived, *v_most;
} prepare_args;

typedef struct prepare_kernel_key {
    int bf16;
    int padded_dim; /* 64 or 128 */
    int int8;       /* quantise Q and K */
    int pool;       /* block means; alone not with int8 */
    int judge;      /* and self-similarity */
    int fine;       /* scales finer than a block */
} prepare_kernel_key;

/* Launch with schedule.heads * schedule.cta_per_head CTAs of PREPARE_THREADS; NULL: there is none. */
typedef void (*prepare_kernel)(prepare_args args);

#ifdef __cplusplus
prepare_kernel prepare_kernel_f16(prepare_kernel_key key);
prepare_kernel prepare_kernel_bf16(prepare_kernel_key key);
#endif

#endif
