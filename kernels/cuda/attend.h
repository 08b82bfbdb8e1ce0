/* What an attention kernel of any generation is given. Device pointers; strides in elements. */
#ifndef SPARGE_CUDA_ATTEND_H
#define SPARGE_CUDA_ATTEND_H

#include <stdint.h>

enum {
    ATTEND_TILE_KEYS = 64,  /* keys of one tile; lists count in these */
    ATTEND_VOTE_SHARE = 840 /* divisible by every number of votes a row block can have, 1..8 */
};

/* log2(448): with FP8, P is scaled to e4m3's range. */
#define ATTEND_E4M3_OFFSET 8.807354922f

typedef struct attend_operand {
    const void *data;
    int64_t batch_stride, head_stride, token_stride;
} attend_operand;

typedef struct attend_output {
    void *data;
    int64_t batch_stride, head_stride, token_stride;
} attend_output;

/* kernels/cpu/prepare/quantise.h says which rows and keys share a scale. */
typedef enum attend_scales { ATTEND_SCALES_BLOCK = 0, ATTEND_SCALES_WARP, ATTEND_SCALES_THREAD } attend_scales;

typedef struct attend_args {
    attend_operand q, k, v; /* 16-bit, or INT8 q and k; FP8 v: see v_padded_keys */
    attend_output o;        /* 16-bit */
    float *lse;             /* [B][Hq][Lq] or NULL */
    int32_t batch, heads_q, heads_kv;
    int32_t head_dim; /* channels of O that are written */
    int32_t load_dim; /* channels of Q, K and 16-bit V that are read; a multiple of 8 (16-bit) */
    int32_t o_scalar; /* non-zero: O is not 16-byte aligned everywhere, store element by element */
    int64_t seqlen_q, seqlen_k;
    int64_t causal_shift; /* query i sees the keys before min(i + 1 + causal_shift, Lk) */
    float scale_log2;     /* softmax scale * log2(e) */

    /* INT8: scales of Q and K, q_scales and k_scales of them a head; FP8: scale of a channel of V. */
    const float *q_scale, *k_scale, *v_scale;
    attend_scales scales;
    int32_t q_scales, k_scales;
    int32_t q_scale_rows;    /* BQ, where a block has one */
    int32_t k_scale_shift;   /* tile index >> shift = its block of BK keys */
    int32_t k_scale_groups;  /* scales of a block of K: 1 or 4 */
    int32_t row_blocks;      /* per head: ceil(Lq / BQ) */
    int64_t v_padded_keys;   /* FP8 V is [B][Hkv][v_padded_keys / 64][v_channels][64 keys] */
    int32_t v_channels;      /* D of the kernel: 64 or 128 */
    const float *lse_offset; /* [B][Hq][Lq] added to the LSE (q . k_mean * scale, in nats), or NULL */

    /* Sparse: for (b, h, row block) r, list[r * list_stride ..] are count[r] ascending tile indices. NULL: all tiles. */
    const int32_t *list, *count;
    int64_t list_stride;
    /* blockIdx.x, or number in the queue -> r, longest first. NULL: row blocks from the last, which sees most keys, to the
     * first, of heads_together heads at a time; the first group may have fewer. */
    const int32_t *order;
    int32_t heads_together;

    /* Of kernels with persistent CTAs, which take row blocks from it: the next one and how many CTAs are done. Zero between
     * launches: the last CTA leaves it so. */
    uint32_t *queue;

    /* PV skip: a vote of pv_unit rows skips if max(m_local - m_new) < lambda_log2[head]. Of kernels with votes only. */
    const float *lambda_log2;
    int32_t pv_unit;
    int32_t pv_guarded;             /* the last turns of a row block that never skip: tiles of vote_keys keys */
    int32_t pv_drop;                /* non-zero: skipped tiles do not count in the row sum either */
    unsigned long long *pv_skipped; /* sum of ATTEND_VOTE_SHARE * skipped votes / votes of the row block */

    /* What differs in parity mode (kernels/cpu/attend/row_block.h), which only kernels with votes have. */
    int32_t pv_upstream;  /* skip if m_local - m_old <= lambda_log2 for every row; padding rows never agree */
    float p_offset;       /* FP8: added to every exponent; ATTEND_E4M3_OFFSET in fixed mode */
    int32_t sums_rounded; /* INT8_F16: the row sum adds P as rounded */
    int32_t o_bf16;       /* INT8: O is bfloat16, whatever V is */
} attend_args;

/* A compiled kernel: launch with `threads` and `shared_bytes`, one CTA a row block of `rows` queries, or fewer that share
 * them out: persistent_ctas. Its parameters are an attend_args, and before it the tensor_maps of Q, K and V where it loads
 * by them. */
typedef struct attend_kernel_entry {
    const void *function; /* NULL: there is none */
    int32_t rows, threads;
    int32_t shared_bytes;
    int32_t tensor_maps;     /* non-zero: it takes them */
    const void *with_lse;    /* runs that ask for the LSE launch this one instead; NULL: `function` does both */
    int32_t persistent_ctas; /* an SM: each takes row blocks from the queue; 0: one CTA a row block */
} attend_kernel_entry;

/* Which kernel; `arithmetic` is a sparge_arithmetic. */
typedef struct attend_kernel_key {
    int arithmetic;
    int bf16;       /* non-zero: bfloat16 instead of binary16 */
    int head_dim;   /* 64 or 128 */
    int rows;       /* 64 or 128; 0: the kernel's choice, for all tiles without lists */
    int lists;      /* non-zero: over lists of tiles */
    int block_keys; /* INT8: keys of a block of K, 64 or 128: no scale is of more */
    int exp;        /* a sparge_exp; kernels with one form of exponential only do not look */
    int vote_keys;  /* with the PV skip: keys that are voted on together, 64 or 128; 0: without */
} attend_kernel_key;

#ifdef __cplusplus
extern "C" {
#endif

/* The mma.sync kernels (sm80/). */
attend_kernel_entry sm80_attend_kernel(attend_kernel_key key);
/* The wgmma kernels (sm90/), for compute capability 9.0 alone; in this build if SPARGE_HAVE_SM90A is defined. Those
 * without the PV skip. */
attend_kernel_entry sm90_attend_kernel(attend_kernel_key key);

#ifdef __cplusplus
}
#endif

#endif
