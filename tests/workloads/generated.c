#include "generated.h"

#include <stdlib.h>

#include "check.h"

size_t generated_bytes(const sparge_tensor *tensor)
{
    return (size_t)(tensor->shape[0] * tensor->stride[0]) * sparge_dtype_bytes(tensor->dtype);
}

sparge_tensor generated_make(const sparge_generator *generator, sparge_tensor_role role, sparge_dtype dtype,
                             int64_t batch, int64_t tokens, int64_t channels, int threads)
{
    int64_t heads = role == SPARGE_ROLE_Q ? generator->heads_q : generator->heads_kv;
    sparge_tensor tensor = sparge_tensor_hnd(NULL, dtype, batch, heads, tokens, channels);
    tensor.data = malloc(generated_bytes(&tensor));
    assert_non_null(tensor.data);
    sparge_context *context;
    sparge_error error;
    if (sparge_context_create("cpu", 0, threads, &context, &error) != SPARGE_OK)
        fail_msg("%s", error.text);
    if (sparge_generate(context, generator, role, &tensor) != SPARGE_OK)
        fail_msg("%s", sparge_error_string(context));
    sparge_context_destroy(context);
    return tensor;
}

void generated_free(sparge_tensor *tensor)
{
    free(tensor->data);
    tensor->data = NULL;
}

const float *generated_row(const sparge_tensor *tensor, int64_t batch, int64_t head, int64_t token)
{
    return (const float *)tensor->data + batch * tensor->stride[0] + head * tensor->stride[1] +
           token * tensor->stride[2];
}
