/* Recipes (internal): what a method asks of a backend, with typed and checked parameters.
 *
 * A method's file turns (params, problem) into a recipe; a backend executes recipes and knows nothing of method names
 * or parameter texts. A new method that combines existing stages needs no backend change. */
#ifndef SPARGE_RECIPE_H
#define SPARGE_RECIPE_H

#include "sparge/method.h"

/* Arithmetic of the two products. F16: the input's 16-bit type for Q, K, V and P with f32 accumulation.
 * INT8: Q and K quantised per block (upstream.md 2.7). FP8: V per channel and P in e4m3 (upstream.md 2.8, 2.9). */
typedef enum sparge_arithmetic {
    SPARGE_ARITHMETIC_F16 = 0,
    SPARGE_ARITHMETIC_INT8_F16,
    SPARGE_ARITHMETIC_INT8_FP8
} sparge_arithmetic;

/* The largest magnitude of FP8 V. The products of 256 keys with P up to 448 then add up to less than 65504, what f16
 * accumulators hold (kernels/cuda/sm90); a value keeps its three bits down to 1/32 of its channel's largest, and is
 * rounded to multiples of 1/256 of that below. */
#define SPARGE_FP8_V_MAX 0.5F

typedef enum sparge_select {
    SPARGE_SELECT_ALL = 0,        /* dense */
    SPARGE_SELECT_MEANSIM,        /* SpargeAttn: pooled scores with self-similarity judge, CDF or top-k */
    SPARGE_SELECT_POOLED_TOPK,    /* MInference block-sparse: pooled scores, top-k */
    SPARGE_SELECT_VERTICAL_SLASH, /* MInference: token-offset blocks and gathered columns */
    SPARGE_SELECT_VERTICAL_SLASH_GRID,
    SPARGE_SELECT_BAND,         /* A-shape, sliding window with sink: token edges */
    SPARGE_SELECT_FLEX,         /* FlexPrefill */
    SPARGE_SELECT_STA,          /* sliding tile attention */
    SPARGE_SELECT_ANTIDIAGONAL, /* XAttention */
    SPARGE_SELECT_MASK          /* a block mask from a file */
} sparge_select;

typedef enum sparge_exp { SPARGE_EXP_EXACT = 0, SPARGE_EXP_ACCURATE, SPARGE_EXP_FAST } sparge_exp;

/* Granularity of the INT8 scales of Q and K. */
typedef enum sparge_scales { SPARGE_SCALES_BLOCK = 0, SPARGE_SCALES_WARP, SPARGE_SCALES_THREAD } sparge_scales;

/* A parameter that may differ by query head. */
typedef struct sparge_per_head {
    double uniform;
    double *head; /* heads_q values owned by the recipe, or NULL: uniform for all */
} sparge_per_head;

static inline double sparge_per_head_value(const sparge_per_head *p, int32_t head)
{
    return p->head ? p->head[head] : p->uniform;
}

typedef struct sparge_recipe {
    const sparge_method *method;
    sparge_arithmetic arithmetic;
    sparge_select select;
    sparge_exp exp;
    sparge_scales scales;
    int32_t block_q, block_k; /* of the mask; no INT8 scale is of more */
    int smooth_k;             /* subtract K's token mean before pooling and quantising */
    int upstream;             /* parity mode: 16-bit rounding points and quirks of the official code */
    float fp8_v_max;          /* V's channel maximum maps to this: SPARGE_FP8_V_MAX, 2.25 in parity mode */

    /* PV skip (paper 3.4): a vote of pv_unit query rows skips P V of a tile if max(m_local - m_new) < lambda, in nats.
     * -inf = off. pv_keeps_denominator: skipped tiles still count in the row sum (paper, Alg. 1 line 13). */
    sparge_per_head lambda;
    int32_t pv_unit;
    int pv_keeps_denominator;
    /* skip-softmax (BLASST): skip the tile's softmax and PV if exp(m_local - m_running) < threshold for all rows of the
     * unit; threshold = this value, 0 = off. Skipped tiles are dropped from the row sum. */
    double skip_softmax_threshold;

    struct {
        sparge_per_head tau, topk, theta;
        int use_topk, use_theta;
        int sink;
    } meansim;
    struct {
        int64_t k;
        double sparsity;
        int use_sparsity;
    } pooled; /* blocks per row, or target sparsity */
    struct {
        sparge_per_head vertical, slash;
        int64_t last_q;
    } vslash; /* tokens; queries of the estimate */
    struct {
        int64_t sink, local, dense_rows;
    } band; /* tokens */
    struct {
        double gamma, tau;
        int64_t min_budget, max_budget;
    } flex; /* budgets in tokens, max 0 = none */
    struct {
        int32_t tile[3], window[3];
    } sta; /* cells of T, H, W; tiles of T, H, W */
    struct {
        int64_t stride;
        double threshold;
    } antidiagonal;
    struct {
        char path[1024];
    } mask;
} sparge_recipe;

/* What a method's file provides. */
struct sparge_method {
    const char *name, *summary, *stands_for;
    const sparge_param_desc *params;
    size_t param_count;
    sparge_arithmetic arithmetic; /* where the name fixes it; other methods have the parameter `attend` */
    /* Fills *recipe (zeroed, method set) from checked values; INVALID_ARGUMENT or UNSUPPORTED with a reason otherwise. */
    sparge_status (*resolve)(const sparge_params *params, const sparge_problem *problem, sparge_recipe *recipe,
                             sparge_error *error);
};

/* problem must have passed sparge_problem_check. */
sparge_status sparge_recipe_create(const sparge_params *params, const sparge_problem *problem, sparge_recipe *recipe,
                                   sparge_error *error);
void sparge_recipe_release(sparge_recipe *recipe);

/* Typed access for resolve functions. The values of an unset parameter are 0, -1 for a choice. */
int sparge_params_is_set(const sparge_params *params, const char *name); /* has a value, default or given */
double sparge_params_real(const sparge_params *params, const char *name);
int64_t sparge_params_integer(const sparge_params *params, const char *name);
int sparge_params_choice(const sparge_params *params, const char *name); /* index into `choices` */
const char *sparge_params_text(const sparge_params *params, const char *name);
/* Copies the per-head values; INVALID_ARGUMENT if their count is not heads_q. */
sparge_status sparge_params_per_head(const sparge_params *params, const char *name, int32_t heads_q,
                                     sparge_per_head *out, sparge_error *error);

#endif
