/* sparge_generate on the CPU: makes every row in binary32, rounds it to the tensor's dtype, in parallel over rows. */
#include <stdlib.h>

#include "cpu/cpu.h"
#include "cpu/generate/structured.h"

static void store_row(const float *row, const sparge_tensor *tensor, int64_t batch, int64_t head, int64_t token)
{
    int64_t offset = batch * tensor->stride[0] + head * tensor->stride[1] + token * tensor->stride[2];
    int64_t channels = tensor->shape[3];
    if (tensor->dtype == SPARGE_F32) {
        float *out = (float *)tensor->data + offset;
        for (int64_t c = 0; c < channels; c++)
            out[c] = row[c];
        return;
    }
    uint16_t *out = (uint16_t *)tensor->data + offset;
    for (int64_t c = 0; c < channels; c++)
        out[c] = tensor->dtype == SPARGE_F16 ? sparge_f16_from_f32(row[c]) : sparge_bf16_from_f32(row[c]);
}

static void generate_independent(sparge_context *context, const sparge_generator *generator, sparge_tensor_role role,
                                 const sparge_tensor *tensor)
{
    generate_stream stream = generate_stream_of(role);
    int64_t heads = tensor->shape[1], tokens = tensor->shape[2], rows = tensor->shape[0] * heads * tokens;
    int channels = (int)tensor->shape[3];
#pragma omp parallel for schedule(static) num_threads(cpu_threads(context))
    for (int64_t r = 0; r < rows; r++) {
        float row[SPARGE_MAX_HEAD_DIM];
        int64_t batch = r / (heads * tokens), head = r / tokens % heads, token = r % tokens;
        if (generator->kind == SPARGE_GENERATE_UNIFORM)
            generate_uniform_row(generator->seed, stream, batch, head, token, channels, row);
        else
            generate_normal_row(generator->seed, stream, batch, head, token, channels, row);
        store_row(row, tensor, batch, head, token);
    }
}

static sparge_status generate_structured(sparge_context *context, const sparge_generator *generator,
                                         sparge_tensor_role role, const sparge_tensor *tensor)
{
    const int64_t heads = tensor->shape[1], tokens = tensor->shape[2];
    const int channels = (int)tensor->shape[3];
    const structured_layout layout = structured_layout_of(generator, tokens);
    size_t bytes;
    float *anchor = NULL;
    if (!__builtin_mul_overflow((size_t)layout.total, (size_t)channels * sizeof *anchor, &bytes))
        anchor = malloc(bytes > 0 ? bytes : 1);
    if (!anchor)
        return sparge_context_fail(context, SPARGE_ERROR_OUT_OF_MEMORY,
                                   "out of memory for %lld anchors of the structured generator",
                                   (long long)layout.total);
    int64_t anchors_of = -1; /* the batch and group that the table belongs to */
    for (int64_t bh = 0; bh < tensor->shape[0] * heads; bh++) {
        const structured_head head = structured_head_make(generator, role, bh / heads, bh % heads, channels);
        const structured_rows rows = {generator->seed, role, channels, &layout, &head, anchor};
        int64_t owner = head.batch * generator->heads_kv + head.group;
        if (owner != anchors_of) {
            anchors_of = owner;
#pragma omp parallel for schedule(static) num_threads(cpu_threads(context))
            for (int64_t i = 0; i < layout.total; i++)
                structured_anchor(generator->seed, &layout, head.batch, head.group, i, channels, anchor + i * channels);
        }
#pragma omp parallel for schedule(static) num_threads(cpu_threads(context))
        for (int64_t token = 0; token < tokens; token++) {
            float row[SPARGE_MAX_HEAD_DIM];
            structured_row(&rows, token, row);
            store_row(row, tensor, head.batch, head.head, token);
        }
    }
    free(anchor);
    return SPARGE_OK;
}

sparge_status cpu_generate(sparge_context *context, const sparge_generator *generator, sparge_tensor_role role,
                           const sparge_tensor *tensor)
{
    if (generator->kind != SPARGE_GENERATE_STRUCTURED || role == SPARGE_ROLE_V) {
        generate_independent(context, generator, role, tensor);
        return SPARGE_OK;
    }
    return generate_structured(context, generator, role, tensor);
}
