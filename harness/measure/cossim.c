/* Block self-similarity on the host, one head at a time: a head is the most that is ever copied from the device. */
#include "measure/cossim.h"

#include <stdint.h>
#include <stdlib.h>

double sb_cossim_block(const float *block, int64_t rows, int64_t channels)
{
    double squared_sum = 0, largest = 0;
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0;
        for (int64_t r = 0; r < rows; r++)
            sum += (double)block[r * channels + c];
        squared_sum += sum * sum;
    }
    for (int64_t r = 0; r < rows; r++) {
        double squared = 0;
        for (int64_t c = 0; c < channels; c++)
            squared += (double)block[r * channels + c] * (double)block[r * channels + c];
        if (squared > largest)
            largest = squared;
    }
    return largest > 0 ? squared_sum / ((double)rows * (double)rows * largest) : 0;
}

static void widen(const uint16_t *from, sparge_dtype dtype, int64_t count, float *to)
{
    if (dtype == SPARGE_F16) {
        for (int64_t i = 0; i < count; i++)
            to[i] = sparge_f32_from_f16(from[i]);
    } else {
        for (int64_t i = 0; i < count; i++)
            to[i] = sparge_f32_from_bf16(from[i]);
    }
}

static void centre(float *head, int64_t tokens, int64_t channels)
{
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0;
        for (int64_t t = 0; t < tokens; t++)
            sum += (double)head[t * channels + c];
        float mean = (float)(sum / (double)tokens);
        for (int64_t t = 0; t < tokens; t++)
            head[t * channels + c] -= mean;
    }
}

/* The sum over the blocks of one head. */
static double head_sum(const float *head, int64_t tokens, int64_t channels, int64_t block_rows)
{
    double sum = 0;
    for (int64_t begin = 0; begin < tokens; begin += block_rows) {
        int64_t rows = tokens - begin < block_rows ? tokens - begin : block_rows;
        sum += sb_cossim_block(head + begin * channels, rows, channels);
    }
    return sum;
}

sparge_status sb_cossim_mean(sparge_context *context, const sparge_tensor *tensor, int64_t block_rows, int centred,
                             double *mean, sparge_error *error)
{
    int64_t heads = tensor->shape[0] * tensor->shape[1], tokens = tensor->shape[2], channels = tensor->shape[3];
    if (tensor->dtype != SPARGE_F16 && tensor->dtype != SPARGE_BF16)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "tensor.dtype = %s: must be f16 or bf16",
                           sparge_dtype_name(tensor->dtype));
    if (block_rows < 1)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "block_rows = %lld: must be >= 1",
                           (long long)block_rows);
    if (channels < 1 || tokens < 1 || tokens > INT64_MAX / (int64_t)sizeof(float) / channels)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "tensor of %lld tokens and %lld channels is too large",
                           (long long)tokens, (long long)channels);
    size_t values = (size_t)(tokens * channels);
    uint16_t *bits = malloc(values * sizeof *bits);
    float *head = malloc(values * sizeof *head);
    sparge_status status = SPARGE_OK;
    double sum = 0;
    if (!bits || !head)
        status = sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for one head of %zu values", values);
    for (int64_t h = 0; h < heads && status == SPARGE_OK; h++) {
        const uint16_t *from = (const uint16_t *)tensor->data + (size_t)h * values;
        status = sparge_download(context, bits, from, values * sizeof *bits);
        if (status != SPARGE_OK) {
            sparge_fail(error, status, "%s", sparge_error_string(context));
            break;
        }
        widen(bits, tensor->dtype, (int64_t)values, head);
        if (centred)
            centre(head, tokens, channels);
        sum += head_sum(head, tokens, channels, block_rows);
    }
    free(bits);
    free(head);
    *mean = sum / ((double)heads * (double)((tokens + block_rows - 1) / block_rows));
    return status;
}
