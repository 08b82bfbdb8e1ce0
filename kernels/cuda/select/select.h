/* Selection on CUDA from the inside: the arguments of its kernels. */
#ifndef SPARGE_CUDA_SELECT_H
#define SPARGE_CUDA_SELECT_H

#include <cuda_runtime_api.h>
#include <stdint.h>

enum {
    SELECT_TILE = 128, /* rows and columns of a score tile */
    SELECT_SCORE_THREADS = 128,
    SELECT_ORDER_THREADS = 512,
    SELECT_MOST_COLS = 16384 /* key blocks of a row: 1024 threads of 16 */
};

typedef enum select_rule {
    SELECT_BY_MASS = 0, /* MEANSIM with tau: the most probable blocks while their mass is at most share of all */
    SELECT_BY_SHARE,    /* MEANSIM with topk: share of the visible blocks, rounded up */
    SELECT_BY_COUNT,    /* POOLED_TOPK: `count` blocks */
    SELECT_BY_SPARSITY, /* POOLED_TOPK: round(kept * visible) blocks */
    SELECT_FROM_MASK    /* MASK: the mask is there already */
} select_rule;

/* r = (batch * heads_q + head) * rows + row numbers the row blocks. */
typedef struct select_args {
    select_rule rule;
    int32_t heads_q, heads_kv, head_dim;
    int32_t block_q, block_k;
    int64_t rows, cols; /* of the mask of one head */
    int64_t row_blocks; /* batch * heads_q * rows */
    int64_t seqlen_q, seqlen_k;
    int64_t causal_shift; /* query i sees the keys before clamp(i + 1 + shift, 0, Lk) */

    const float *q_pool, *k_pool; /* [B][H][n][D] */
    const float *q_sim, *k_sim;   /* [B][H][n]; NULL: nothing is judged by similarity */
    float scale;
    const double *share; /* [heads_q]: tau or topk */
    const float *theta;  /* [heads_q] or NULL: off */
    int64_t count;
    double kept;  /* 1 - sparsity */
    int32_t sink; /* non-zero: the first block is always kept */

    /* While the scores are not yet used, row r's lie in its list: bits of floats instead of tile indices. */
    uint8_t *mask;
    int32_t *list, *list_count;
    int64_t list_stride; /* a multiple of 4 */
    int32_t tiles;       /* of a head: ceil(Lk / 64) */

    /* cuda_counts */
    unsigned long long *visible, *qk, *extra;
    unsigned long long visible_blocks;
} select_args;

typedef struct order_args {
    const int32_t *list_count;
    int32_t *order;
    int64_t row_blocks, group; /* in all; of a group that is sorted by itself */
    int32_t tiles;
} order_args;

#ifdef __cplusplus

/* Key blocks that row block `row` sees: a prefix of all. block_k is 64 or 128. */
__host__ __device__ inline int64_t select_visible_cols(const select_args &args, int64_t row)
{
    int64_t end = (row + 1) * args.block_q; /* one past the block's last query */
    end = (end < args.seqlen_q ? end : args.seqlen_q) + args.causal_shift;
    end = end < 0 ? 0 : end < args.seqlen_k ? end : args.seqlen_k;
    return (end + args.block_k - 1) >> (args.block_k == 64 ? 6 : 7);
}

/* Each launches one kernel. */
cudaError_t select_launch_scores(const select_args &args, cudaStream_t stream);
cudaError_t select_launch_rows(const select_args &args, cudaStream_t stream);
cudaError_t select_launch_order(const order_args &args, cudaStream_t stream);
/* Sets the three counts, where no scores kernel does it. */
cudaError_t select_launch_counts(const select_args &args, unsigned long long qk, cudaStream_t stream);
/* Parity mode: the mask from the pooled rows; adds to *extra. The lists' memory holds scores afterwards. */
cudaError_t select_launch_upstream(const select_args &args, int bf16, cudaStream_t stream);

#endif
#endif
