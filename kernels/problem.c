/* Shapes and semantics of a problem. */
#include "sparge/problem.h"

#include <math.h>

/* Keeps every element count of a tensor, and every pair count of a problem, far inside int64. */
static const int64_t max_tokens = (int64_t)1 << 30;
static const int32_t max_heads = 1 << 16;
static const int32_t max_batch = 1 << 16;

const char *sparge_causal_name(sparge_causal causal)
{
    switch (causal) {
    case SPARGE_CAUSAL_NONE:
        return "none";
    case SPARGE_CAUSAL_TOP_LEFT:
        return "top-left";
    case SPARGE_CAUSAL_BOTTOM_RIGHT:
        return "bottom-right";
    }
    return "?";
}

static sparge_status out_of_range(sparge_error *error, const char *field, int64_t value, int64_t max)
{
    return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "%s = %lld: must be in 1..%lld", field, (long long)value,
                       (long long)max);
}

static sparge_status check_grid(const sparge_problem *problem, sparge_error *error)
{
    const sparge_grid *grid = &problem->grid;
    if (grid->t == 0 && grid->h == 0 && grid->w == 0 && grid->text_before == 0 && grid->text_after == 0)
        return SPARGE_OK;
    if (grid->t < 1 || grid->h < 1 || grid->w < 1 || grid->text_before < 0 || grid->text_after < 0)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT,
                           "grid %dx%dx%d with text %d before and %d after: sizes must be >= 1 and text >= 0", grid->t,
                           grid->h, grid->w, grid->text_before, grid->text_after);
    /* Each product is checked before the next: 2^31 * 2^31 fits in 64 bits, three factors need not. */
    int64_t plane = (int64_t)grid->h * grid->w;
    int64_t tokens = plane > max_tokens / grid->t ? max_tokens + 1 : plane * grid->t;
    tokens += (int64_t)grid->text_before + grid->text_after;
    if (tokens != problem->seqlen_q || tokens != problem->seqlen_k)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT,
                           "grid %dx%dx%d with %d + %d text tokens does not have seqlen_q = %lld and seqlen_k = %lld "
                           "tokens",
                           grid->t, grid->h, grid->w, grid->text_before, grid->text_after, (long long)problem->seqlen_q,
                           (long long)problem->seqlen_k);
    return SPARGE_OK;
}

sparge_status sparge_problem_check(const sparge_problem *problem, sparge_error *error)
{
    if (!problem)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "problem is NULL");
    if (problem->batch < 1 || problem->batch > max_batch)
        return out_of_range(error, "batch", problem->batch, max_batch);
    if (problem->heads_q < 1 || problem->heads_q > max_heads)
        return out_of_range(error, "heads_q", problem->heads_q, max_heads);
    if (problem->heads_kv < 1 || problem->heads_kv > max_heads)
        return out_of_range(error, "heads_kv", problem->heads_kv, max_heads);
    if (problem->heads_q % problem->heads_kv != 0)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "heads_q = %d: must be a multiple of heads_kv = %d",
                           problem->heads_q, problem->heads_kv);
    if (problem->seqlen_q < 1 || problem->seqlen_q > max_tokens)
        return out_of_range(error, "seqlen_q", problem->seqlen_q, max_tokens);
    if (problem->seqlen_k < 1 || problem->seqlen_k > max_tokens)
        return out_of_range(error, "seqlen_k", problem->seqlen_k, max_tokens);
    if (problem->head_dim < 1 || problem->head_dim > SPARGE_MAX_HEAD_DIM)
        return out_of_range(error, "head_dim", problem->head_dim, SPARGE_MAX_HEAD_DIM);
    if (problem->dtype != SPARGE_F16 && problem->dtype != SPARGE_BF16)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "dtype = %s: must be f16 or bf16",
                           sparge_dtype_name(problem->dtype));
    if (problem->causal != SPARGE_CAUSAL_NONE && problem->causal != SPARGE_CAUSAL_TOP_LEFT &&
        problem->causal != SPARGE_CAUSAL_BOTTOM_RIGHT)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "causal = %d: not a sparge_causal",
                           (int)problem->causal);
    if (!(problem->scale >= 0) || isinf(problem->scale))
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT,
                           "scale = %g: must be finite and > 0, or 0 for 1/sqrt(head_dim)", (double)problem->scale);
    return check_grid(problem, error);
}

float sparge_problem_scale(const sparge_problem *problem)
{
    return problem->scale > 0 ? problem->scale : (float)(1.0 / sqrt((double)problem->head_dim));
}

int64_t sparge_problem_visible_end(const sparge_problem *problem, int64_t query)
{
    int64_t end = problem->seqlen_k;
    if (problem->causal == SPARGE_CAUSAL_TOP_LEFT)
        end = query + 1;
    else if (problem->causal == SPARGE_CAUSAL_BOTTOM_RIGHT)
        end = query + 1 + problem->seqlen_k - problem->seqlen_q;
    if (end < 0)
        return 0;
    return end < problem->seqlen_k ? end : problem->seqlen_k;
}

int64_t sparge_problem_visible_pairs(const sparge_problem *problem)
{
    int64_t rows = problem->seqlen_q;
    int64_t keys = problem->seqlen_k;
    if (problem->causal == SPARGE_CAUSAL_NONE)
        return rows * keys;
    /* end(i) = clamp(i + 1 + shift, 0, keys) grows by one a row between `first` and `full`, both clamped to the rows. */
    int64_t shift = problem->causal == SPARGE_CAUSAL_BOTTOM_RIGHT ? keys - rows : 0;
    int64_t first = shift < 0 ? -shift : 0; /* rows before it see nothing */
    int64_t full = keys - shift;            /* rows from it on see every key */
    if (first > rows)
        first = rows;
    if (full > rows)
        full = rows;
    int64_t growing = full - first; /* these see first + 1 + shift, ..., full + shift keys */
    return growing * (first + full + 1 + 2 * shift) / 2 + (rows - full) * keys;
}

double sparge_problem_dense_ops(const sparge_problem *problem)
{
    return 4.0 * problem->head_dim * (double)sparge_problem_visible_pairs(problem) * problem->batch * problem->heads_q;
}
