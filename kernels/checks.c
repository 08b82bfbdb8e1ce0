/* Argument checks of the public functions. */
#include "checks.h"

#include <stdlib.h>

#include "generate/model.h"

static sparge_status invalid(sparge_error *error, const char *name, const char *what)
{
    return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "%s: %s", name, what);
}

sparge_status sparge_check_tensor(const char *name, const sparge_tensor *tensor, sparge_dtype dtype, int64_t batch,
                                  int64_t heads, int64_t tokens, int64_t channels, sparge_error *error)
{
    if (!tensor || !tensor->data)
        return invalid(error, name, "data is NULL");
    if (tensor->dtype != dtype)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "%s: dtype is %s, must be %s", name,
                           sparge_dtype_name(tensor->dtype), sparge_dtype_name(dtype));
    const int64_t want[4] = {batch, heads, tokens, channels};
    for (int axis = 0; axis < 4; axis++)
        if (tensor->shape[axis] != want[axis])
            return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT,
                               "%s: shape is [%lld, %lld, %lld, %lld], must be [%lld, %lld, %lld, %lld]", name,
                               (long long)tensor->shape[0], (long long)tensor->shape[1], (long long)tensor->shape[2],
                               (long long)tensor->shape[3], (long long)want[0], (long long)want[1], (long long)want[2],
                               (long long)want[3]);
    if (tensor->stride[3] != 1)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "%s: stride[3] = %lld, must be 1", name,
                           (long long)tensor->stride[3]);
    for (int axis = 0; axis < 3; axis++)
        if (tensor->shape[axis] > 1 && tensor->stride[axis] < 1)
            return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "%s: stride[%d] = %lld, must be >= 1", name, axis,
                               (long long)tensor->stride[axis]);
    return SPARGE_OK;
}

sparge_status sparge_check_qkv(const sparge_problem *problem, const sparge_tensor *q, const sparge_tensor *k,
                               const sparge_tensor *v, sparge_error *error)
{
    const sparge_problem *p = problem;
    sparge_status status = sparge_check_tensor("q", q, p->dtype, p->batch, p->heads_q, p->seqlen_q, p->head_dim, error);
    if (status == SPARGE_OK)
        status = sparge_check_tensor("k", k, p->dtype, p->batch, p->heads_kv, p->seqlen_k, p->head_dim, error);
    if (status == SPARGE_OK)
        status = sparge_check_tensor("v", v, p->dtype, p->batch, p->heads_kv, p->seqlen_k, p->head_dim, error);
    return status;
}

/* A tensor whose own dtype and shape rule: present, of floating-point values that are copied or made, not empty. */
static sparge_status check_values(const char *name, const sparge_tensor *tensor, sparge_error *error)
{
    if (!tensor || !tensor->data)
        return invalid(error, name, "data is NULL");
    if (tensor->dtype != SPARGE_F16 && tensor->dtype != SPARGE_BF16 && tensor->dtype != SPARGE_F32)
        return invalid(error, name, "dtype must be f16, bf16 or f32");
    for (int axis = 0; axis < 4; axis++)
        if (tensor->shape[axis] < 1)
            return invalid(error, name, "every axis must be >= 1");
    return SPARGE_OK;
}

static int densely_packed(const sparge_tensor *tensor)
{
    return tensor->stride[3] == 1 && tensor->stride[2] == tensor->shape[3] &&
           tensor->stride[1] == tensor->shape[2] * tensor->stride[2] &&
           tensor->stride[0] == tensor->shape[1] * tensor->stride[1];
}

static sparge_status check_range(sparge_error *error, const char *name, float value, float max)
{
    if (value >= 0 && value <= max)
        return SPARGE_OK;
    return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "generator.%s = %g: must be in 0..%g", name, (double)value,
                       (double)max);
}

static sparge_status check_structured(const sparge_generator *generator, sparge_error *error)
{
    if (check_range(error, "correlation", generator->correlation, 1) != SPARGE_OK ||
        check_range(error, "head_spread", generator->head_spread, 1) != SPARGE_OK ||
        check_range(error, "query_offset", generator->query_offset, 1e4f) != SPARGE_OK ||
        check_range(error, "channel_offset", generator->channel_offset, 1e4f) != SPARGE_OK ||
        check_range(error, "sink_strength", generator->sink_strength, 1e4f) != SPARGE_OK)
        return SPARGE_ERROR_INVALID_ARGUMENT;
    if (!(generator->scale_length >= 1 && generator->scale_length <= 1e9f))
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "generator.scale_length = %g: must be in 1..1e9",
                           (double)generator->scale_length);
    if (!(generator->sharpness > 0 && generator->sharpness <= 1e4f))
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "generator.sharpness = %g: must be in (0, 1e4]",
                           (double)generator->sharpness);
    if (generator->sink_tokens < 0)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "generator.sink_tokens = %d: must be >= 0",
                           generator->sink_tokens);
    if (generator->sink_strength > 0 && generator->query_offset == 0)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "generator.sink_strength = %g: needs query_offset > 0",
                           (double)generator->sink_strength);
    return SPARGE_OK;
}

sparge_status sparge_check_generate(const sparge_generator *generator, sparge_tensor_role role,
                                    const sparge_tensor *tensor, sparge_error *error)
{
    if (!generator)
        return invalid(error, "generator", "is NULL");
    sparge_status status = check_values("tensor", tensor, error);
    if (status != SPARGE_OK)
        return status;
    if (tensor->shape[0] > GENERATE_MAX_BATCH || tensor->shape[1] > GENERATE_MAX_HEADS)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT,
                           "tensor: batch %lld with %lld heads, the limit of each is %d", (long long)tensor->shape[0],
                           (long long)tensor->shape[1], GENERATE_MAX_HEADS);
    if (tensor->shape[3] > SPARGE_MAX_HEAD_DIM)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "tensor: %lld channels, the limit is %d",
                           (long long)tensor->shape[3], SPARGE_MAX_HEAD_DIM);
    if (!densely_packed(tensor))
        return invalid(error, "tensor", "must be densely packed HND");
    if (generator->heads_q < 1 || generator->heads_kv < 1 || generator->heads_q % generator->heads_kv != 0)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT,
                           "generator: heads_q = %d must be a multiple of heads_kv = %d, both >= 1", generator->heads_q,
                           generator->heads_kv);
    if (role != SPARGE_ROLE_Q && role != SPARGE_ROLE_K && role != SPARGE_ROLE_V)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "role = %d: not a sparge_tensor_role", (int)role);
    int64_t heads = role == SPARGE_ROLE_Q ? generator->heads_q : generator->heads_kv;
    if (tensor->shape[1] != heads)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "tensor: has %lld heads, the generator %lld",
                           (long long)tensor->shape[1], (long long)heads);
    switch (generator->kind) {
    case SPARGE_GENERATE_NORMAL:
    case SPARGE_GENERATE_UNIFORM:
        return SPARGE_OK;
    case SPARGE_GENERATE_STRUCTURED:
        break;
    default:
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "generator.kind = %d: not a sparge_generator_kind",
                           (int)generator->kind);
    }
    const sparge_grid *grid = &generator->grid;
    if (grid->t != 0 || grid->h != 0 || grid->w != 0) {
        if (grid->t < 1 || grid->h < 1 || grid->w < 1 || grid->text_before < 0 || grid->text_after < 0 ||
            (int64_t)grid->h * grid->w > tensor->shape[2] / grid->t ||
            (int64_t)grid->t * grid->h * grid->w + grid->text_before + grid->text_after != tensor->shape[2])
            return sparge_fail(
                error, SPARGE_ERROR_INVALID_ARGUMENT,
                "generator.grid %dx%dx%d with %d + %d text tokens does not have the tensor's %lld tokens", grid->t,
                grid->h, grid->w, grid->text_before, grid->text_after, (long long)tensor->shape[2]);
    }
    return check_structured(generator, error);
}

sparge_status sparge_check_permute(const sparge_tensor *from, const sparge_tensor *to, const int64_t *source,
                                   sparge_error *error)
{
    sparge_status status = check_values("from", from, error);
    if (status != SPARGE_OK)
        return status;
    if (!source)
        return invalid(error, "source", "is NULL");
    const int64_t *s = from->shape;
    status = sparge_check_tensor("from", from, from->dtype, s[0], s[1], s[2], s[3], error);
    if (status == SPARGE_OK)
        status = sparge_check_tensor("to", to, from->dtype, s[0], s[1], s[2], s[3], error);
    if (status != SPARGE_OK)
        return status;
    if (from->data == to->data)
        return invalid(error, "to", "must not overlap from");
    unsigned char *seen = calloc((size_t)s[2], 1);
    if (!seen)
        return sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for checking a permutation of %lld tokens",
                           (long long)s[2]);
    for (int64_t i = 0; status == SPARGE_OK && i < s[2]; i++) {
        if (source[i] < 0 || source[i] >= s[2])
            status = sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "source[%lld] = %lld: must be in 0..%lld",
                                 (long long)i, (long long)source[i], (long long)s[2] - 1);
        else if (seen[source[i]]++)
            status = sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "source[%lld] = %lld: occurs twice",
                                 (long long)i, (long long)source[i]);
    }
    free(seen);
    return status;
}
