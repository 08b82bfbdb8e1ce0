/* Inputs: each of Q, K, V is made in a tensor of its own and, where the workload has another token order, permuted into
 * a second one. Captured tensors are cut to the problem's batch, heads and tokens on the host before they are uploaded. */
#include "measure/inputs.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The context's message as the caller's error. */
static sparge_status fail_as(sparge_context *context, sparge_status status, sparge_error *error)
{
    return status == SPARGE_OK ? status : sparge_fail(error, status, "%s", sparge_error_string(context));
}

static sparge_tensor shape_of(const sparge_problem *problem, sparge_tensor_role role)
{
    int is_q = role == SPARGE_ROLE_Q;
    return sparge_tensor_hnd(NULL, problem->dtype, problem->batch, is_q ? problem->heads_q : problem->heads_kv,
                             is_q ? problem->seqlen_q : problem->seqlen_k, problem->head_dim);
}

int sb_tensor_bytes(const sparge_tensor *tensor, size_t *bytes)
{
    size_t size = sparge_dtype_bytes(tensor->dtype);
    for (int axis = 0; axis < 4; axis++) {
        if (tensor->shape[axis] < 1 || (uint64_t)tensor->shape[axis] > SIZE_MAX / size)
            return -1;
        size *= (size_t)tensor->shape[axis];
    }
    *bytes = size;
    return 0;
}

int sb_inputs_bytes(const wl_workload *workload, size_t *bytes)
{
    size_t sum = 0, largest = 0;
    for (int role = SPARGE_ROLE_Q; role <= SPARGE_ROLE_V; role++) {
        sparge_tensor tensor = shape_of(&workload->problem, (sparge_tensor_role)role);
        size_t one;
        if (sb_tensor_bytes(&tensor, &one) != 0 || one > SIZE_MAX / 8)
            return -1;
        sum += one;
        if (one > largest)
            largest = one;
    }
    if (workload->order != WL_ORDER_ROW)
        sum += largest; /* the tensor that is being permuted */
    *bytes = sum;
    return 0;
}

static float to_float(const void *data, sparge_dtype dtype, size_t index)
{
    switch (dtype) {
    case SPARGE_F16:
        return sparge_f32_from_f16(((const uint16_t *)data)[index]);
    case SPARGE_BF16:
        return sparge_f32_from_bf16(((const uint16_t *)data)[index]);
    default:
        return ((const float *)data)[index];
    }
}

/* Row by row: the stored tensor may hold more batches, heads, tokens than the problem uses, and another type. */
static void cut(const sparge_tensor *from, const sparge_tensor *to)
{
    size_t width = (size_t)to->shape[3];
    uint16_t *out = to->data;
    for (int64_t b = 0; b < to->shape[0]; b++)
        for (int64_t h = 0; h < to->shape[1]; h++)
            for (int64_t i = 0; i < to->shape[2]; i++, out += width) {
                size_t row = (size_t)(b * from->stride[0] + h * from->stride[1] + i * from->stride[2]);
                if (from->dtype == to->dtype) {
                    memcpy(out, (const uint16_t *)from->data + row, width * sizeof *out);
                    continue;
                }
                for (size_t d = 0; d < width; d++) {
                    float value = to_float(from->data, from->dtype, row + d);
                    out[d] = to->dtype == SPARGE_F16 ? sparge_f16_from_f32(value) : sparge_bf16_from_f32(value);
                }
            }
}

/* Attention of a NaN is NaN, and a method that skips the block of one would look better than exact attention. F32 above
 * the range of f16 becomes infinite in cut(). */
static sparge_status refuse_nonfinite(const wl_workload *workload, const char *name, const sparge_tensor *tensor,
                                      sparge_error *error)
{
    const int64_t *shape = tensor->shape;
    size_t count = (size_t)(shape[0] * shape[1] * shape[2] * shape[3]), first = 0, found = 0;
    for (size_t i = count; i-- > 0;)
        if (!isfinite(to_float(tensor->data, tensor->dtype, i))) {
            first = i;
            found++;
        }
    if (found == 0)
        return SPARGE_OK;
    size_t channels = (size_t)shape[3], tokens = (size_t)shape[2], heads = (size_t)shape[1];
    size_t row = first / channels;
    return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT,
                       "%s: %s has %zu values that are NaN or infinite as %s, first at [%zu, %zu, %zu, %zu]",
                       workload->name, name, found, sparge_dtype_name(tensor->dtype), row / tokens / heads,
                       row / tokens % heads, row % tokens, first % channels);
}

static sparge_status upload_captured(sparge_context *context, const wl_workload *workload, sparge_tensor_role role,
                                     const sparge_tensor *tensor, size_t bytes, sparge_error *error)
{
    static const char *const names[] = {"q", "k", "v"};
    sparge_tensor from = wl_captured_tensor(workload->captured, role);
    for (int axis = 0; axis < 4; axis++)
        if (from.shape[axis] < tensor->shape[axis] || (axis == 3 && from.shape[3] != tensor->shape[3]))
            return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT,
                               "%s: axis %d of %s has %lld, the problem needs %lld", workload->name, axis, names[role],
                               (long long)from.shape[axis], (long long)tensor->shape[axis]);
    sparge_tensor host = *tensor;
    host.data = malloc(bytes);
    if (!host.data)
        return sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY, "%s: out of memory for %zu bytes of %s", workload->name,
                           bytes, names[role]);
    cut(&from, &host);
    sparge_status status = refuse_nonfinite(workload, names[role], &host, error);
    if (status == SPARGE_OK)
        status = fail_as(context, sparge_upload(context, tensor->data, host.data, bytes), error);
    free(host.data);
    return status;
}

/* One tensor in row-major token order. tensor->data is taken also if filling it fails. */
static sparge_status make_tensor(sparge_context *context, const wl_workload *workload, sparge_tensor_role role,
                                 sparge_tensor *tensor, sparge_error *error)
{
    size_t bytes;
    *tensor = shape_of(&workload->problem, role);
    if (sb_tensor_bytes(tensor, &bytes) != 0)
        return sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY, "%s: a tensor of %lld tokens does not fit into memory",
                           workload->name, (long long)tensor->shape[2]);
    sparge_status status = sparge_alloc(context, bytes, &tensor->data);
    if (status != SPARGE_OK)
        return fail_as(context, status, error);
    if (workload->kind == WL_CAPTURED)
        return upload_captured(context, workload, role, tensor, bytes, error);
    return fail_as(context, sparge_generate(context, &workload->generator, role, tensor), error);
}

static sparge_status reorder(sparge_context *context, const int64_t *source, sparge_tensor *tensor, sparge_error *error)
{
    size_t bytes;
    sparge_tensor ordered = *tensor;
    if (sb_tensor_bytes(tensor, &bytes) != 0)
        return sparge_fail(error, SPARGE_ERROR_INTERNAL, "a tensor that exists has no size");
    sparge_status status = sparge_alloc(context, bytes, &ordered.data);
    if (status == SPARGE_OK)
        status = sparge_permute_tokens(context, tensor, &ordered, source);
    if (status == SPARGE_OK)
        status = sparge_synchronize(context);
    if (status != SPARGE_OK) {
        fail_as(context, status, error);
        sparge_free(context, ordered.data);
        return status;
    }
    sparge_free(context, tensor->data);
    *tensor = ordered;
    return SPARGE_OK;
}

static sparge_status make_source(const wl_workload *workload, int64_t **source, sparge_error *error)
{
    size_t count = (size_t)workload->problem.seqlen_q;
    if (workload->problem.seqlen_q != workload->problem.seqlen_k)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT,
                           "order %s: needs as many queries (%lld) as keys (%lld)", wl_order_name(workload->order),
                           (long long)workload->problem.seqlen_q, (long long)workload->problem.seqlen_k);
    *source = count <= SIZE_MAX / sizeof **source ? malloc(count * sizeof **source) : NULL;
    if (!*source)
        return sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for the order of %zu tokens", count);
    return wl_order_permutation(&workload->problem.grid, workload->order, workload->seed, *source, error);
}

sparge_status sb_inputs_create(sparge_context *context, const wl_workload *workload, sb_inputs *inputs,
                               sparge_error *error)
{
    memset(inputs, 0, sizeof *inputs);
    sparge_tensor *tensor[] = {&inputs->q, &inputs->k, &inputs->v};
    sparge_status status = SPARGE_OK;
    if (workload->order != WL_ORDER_ROW)
        status = make_source(workload, &inputs->source, error);
    for (int role = SPARGE_ROLE_Q; role <= SPARGE_ROLE_V && status == SPARGE_OK; role++) {
        status = make_tensor(context, workload, (sparge_tensor_role)role, tensor[role], error);
        if (status == SPARGE_OK && inputs->source)
            status = reorder(context, inputs->source, tensor[role], error);
    }
    if (status == SPARGE_OK)
        status = fail_as(context, sparge_synchronize(context), error);
    if (status != SPARGE_OK)
        sb_inputs_release(context, inputs);
    return status;
}

void sb_inputs_release(sparge_context *context, sb_inputs *inputs)
{
    sparge_free(context, inputs->q.data);
    sparge_free(context, inputs->k.data);
    sparge_free(context, inputs->v.data);
    free(inputs->source);
    memset(inputs, 0, sizeof *inputs);
}
