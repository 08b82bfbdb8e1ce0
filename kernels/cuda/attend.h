/* What an attention kernel of any generation is given. Device pointers; strides in elements. */
#ifndef SPARGE_CUDA_ATTEND_H
#define SPARGE_CUDA_ATTEND_H

#include <stdint.h>

enum { ATTEND_TILE_KEYS = 64 }; /* keys of one tile; lists count in these */

typedef struct attend_operand {
    const void *data;
    int64_t     batch_stride, head_stride, token_stride;
} attend_operand;

typedef struct attend_output {
    void   *data;
    int64_t batch_stride, head_stride, token_stride;
} attend_output;

typedef struct attend_args {
    attend_operand q, k, v; /* 16-bit, or INT8 q and k; FP8 v is [B][Hkv][D][v_padded_keys], keys permuted */
    attend_output  o;       /* 16-bit */
    float         *lse;     /* [B][Hq][Lq] or NULL */
    int32_t        batch, heads_q, heads_kv, head_dim;
    int64_t        seqlen_q, seqlen_k;
    int64_t        causal_shift; /* query i sees the keys before min(i + 1 + causal_shift, Lk) */
    float          scale_log2;   /* softmax scale * log2(e) */

    /* INT8: scale of a row block and of BK keys; FP8: scale of a channel. */
    const float *q_scale, *k_scale, *v_scale;
    int32_t      row_blocks;     /* per head: ceil(Lq / BQ) */
    int32_t      k_scale_blocks; /* per head: ceil(Lk / BK) */
    int32_t      k_scale_shift;  /* tile index >> shift = its scale block */
    int64_t      v_padded_keys;
    const float *lse_offset; /* [B][Hq][Lq] added to the LSE (q . k_mean * scale, in nats), or NULL */

    /* Sparse: for (b, h, row block) r, list[r * list_stride ..] are count[r] ascending tile indices. NULL: all tiles. */
    const int32_t *list, *count;
    int64_t        list_stride;
    const int32_t *order; /* blockIdx.x -> r, longest first; NULL: row blocks from the last to the first, head by head */

    /* PV skip: a vote of pv_unit rows skips if max(m_local - m_new) < lambda_log2[head]. NULL: off. */
    const float        *lambda_log2;
    int32_t             pv_unit;
    int32_t             pv_drop; /* non-zero: skipped tiles do not count in the row sum either */
    unsigned long long *pv_skipped; /* skipped votes, scaled by 64 / votes of the tile's row block, summed */
} attend_args;

#endif
