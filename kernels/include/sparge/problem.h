/* A problem: the shape and the semantics of one attention, O = softmax(scale * Q K^T + causal mask) V. */
#ifndef SPARGE_PROBLEM_H
#define SPARGE_PROBLEM_H

#include "sparge/status.h"
#include "sparge/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Query i sees the keys [0, end(i)):  none: Lk;  top-left: min(i + 1, Lk);  bottom-right: clamp(i + 1 + Lk - Lq, 0, Lk).
 * A query with end(i) = 0 has the output 0 and LSE -inf. */
typedef enum sparge_causal { SPARGE_CAUSAL_NONE = 0, SPARGE_CAUSAL_TOP_LEFT, SPARGE_CAUSAL_BOTTOM_RIGHT } sparge_causal;

/* "none", "top-left", "bottom-right". */
const char *sparge_causal_name(sparge_causal causal);

/* What the token axis means for image and video models: text_before text tokens, then a t x h x w grid in row-major
 * order (w fastest), then text_after text tokens. All zero where there is no grid. Only methods that work on the grid
 * (sta) read it. If set, text_before + t*h*w + text_after equals both sequence lengths. */
typedef struct sparge_grid {
    int32_t t, h, w;
    int32_t text_before, text_after;
    int32_t reordered; /* non-zero: the grid tokens are not in row-major order (another token order was applied) */
} sparge_grid;

enum { SPARGE_MAX_HEAD_DIM = 128 };

typedef struct sparge_problem {
    int32_t batch;             /* 1..65536 */
    int32_t heads_q, heads_kv; /* 1..65536, a multiple of heads_kv; query head h reads KV head h / (heads_q/heads_kv) */
    int64_t seqlen_q, seqlen_k; /* tokens, 1..2^30 */
    int32_t head_dim;           /* 1..SPARGE_MAX_HEAD_DIM */
    sparge_dtype dtype;         /* SPARGE_F16 or SPARGE_BF16: of Q, K, V and O */
    sparge_causal causal;
    float scale; /* of the scores, > 0 and finite; 0 means 1/sqrt(head_dim) */
    sparge_grid grid;
} sparge_problem;

/* SPARGE_OK, or SPARGE_ERROR_INVALID_ARGUMENT naming the first field outside its range. `error` may be NULL. */
sparge_status sparge_problem_check(const sparge_problem *problem, sparge_error *error);

/* The scale in force: problem->scale, or 1/sqrt(head_dim) where that is 0. */
float sparge_problem_scale(const sparge_problem *problem);

/* end(i) as defined at sparge_causal: the number of keys that query `query` sees. */
int64_t sparge_problem_visible_end(const sparge_problem *problem, int64_t query);

/* Visible (query, key) pairs of one head. */
int64_t sparge_problem_visible_pairs(const sparge_problem *problem);

/* Operations of dense attention: 4 * head_dim * visible pairs * batch * heads_q (2 each for QK and PV, multiply and
 * add counted apart). The numerator of every "dense-equivalent" rate. */
double sparge_problem_dense_ops(const sparge_problem *problem);

#ifdef __cplusplus
}
#endif
#endif
