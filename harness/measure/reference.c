/* Exact attention in pieces that a Ctrl-C can end, and the comparison head by head. */
#include "measure/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double piece_ops = 1e9; /* about a second of float64 on one core */

int64_t sb_reference_rows(const sparge_problem *problem, int64_t wanted)
{
    if (wanted == SB_ERROR_ROWS_DEFAULT)
        wanted = problem->seqlen_q <= SB_ERROR_ALL_UP_TO ? SB_ERROR_ROWS_ALL : SB_ERROR_ROWS;
    return wanted == SB_ERROR_ROWS_ALL || wanted > problem->seqlen_q ? problem->seqlen_q : wanted;
}

int sb_reference_bytes(const sparge_problem *problem, int64_t wanted, size_t *bytes)
{
    sparge_tensor o = sparge_tensor_hnd(NULL, SPARGE_F64, problem->batch, problem->heads_q,
                                        sb_reference_rows(problem, wanted), problem->head_dim);
    return sb_tensor_bytes(&o, bytes);
}

/* Copies a piece [heads][piece][width] to its rows of [heads][rows][width]. */
static void place(const double *piece, int64_t piece_rows, double *o, int64_t rows, int64_t begin, int64_t heads,
                  int64_t width)
{
    for (int64_t h = 0; h < heads; h++)
        memcpy(o + (h * rows + begin) * width, piece + h * piece_rows * width,
               (size_t)(piece_rows * width) * sizeof *o);
}

sparge_status sb_reference_create(sparge_context *context, const sparge_problem *problem, const sb_inputs *inputs,
                                  int64_t wanted, uint64_t seed, int (*stop)(void), sb_reference *reference,
                                  int *stopped, sparge_error *error)
{
    memset(reference, 0, sizeof *reference);
    *stopped = 0;
    size_t bytes;
    int64_t count = sb_reference_rows(problem, wanted);
    int64_t heads = (int64_t)problem->batch * problem->heads_q, width = problem->head_dim;
    double row_ops = 4.0 * (double)heads * (double)width * (double)problem->seqlen_k;
    int64_t piece_rows = (int64_t)fmax(1.0, fmin((double)count, piece_ops / row_ops));
    double *piece = NULL;
    if (sb_reference_bytes(problem, wanted, &bytes) == 0 &&
        sb_error_rows(problem->seqlen_q, count, seed, &reference->row, &reference->rows) == 0) {
        reference->o = malloc(bytes);
        piece = malloc((size_t)(heads * piece_rows * width) * sizeof *piece);
    }
    sparge_status status = SPARGE_OK;
    if (!reference->o || !piece)
        status = sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for %lld rows of exact attention",
                             (long long)count);
    for (int64_t begin = 0; begin < count && status == SPARGE_OK && !*stopped; begin += piece_rows) {
        int64_t rows = count - begin < piece_rows ? count - begin : piece_rows;
        *stopped = stop();
        if (*stopped)
            break;
        status = sparge_exact(context, problem, &inputs->q, &inputs->k, &inputs->v, reference->row + begin, rows, piece,
                              NULL);
        if (status != SPARGE_OK)
            sparge_fail(error, status, "exact attention: %s", sparge_error_string(context));
        else
            place(piece, rows, reference->o, count, begin, heads, width);
    }
    free(piece);
    reference->all = count == problem->seqlen_q;
    if (status != SPARGE_OK || *stopped)
        sb_reference_release(reference);
    return status;
}

void sb_reference_release(sb_reference *reference)
{
    free(reference->row);
    free(reference->o);
    memset(reference, 0, sizeof *reference);
}

static void widen(const uint16_t *from, sparge_dtype dtype, size_t count, float *to)
{
    for (size_t i = 0; i < count; i++)
        to[i] = dtype == SPARGE_F16 ? sparge_f32_from_f16(from[i]) : sparge_f32_from_bf16(from[i]);
}

sparge_status sb_reference_compare(sparge_context *context, const sparge_tensor *output, const sb_reference *reference,
                                   int64_t *nonfinite, sb_error_sums *sums, sparge_error *error)
{
    int64_t heads = output->shape[0] * output->shape[1], tokens = output->shape[2], width = output->shape[3];
    size_t head_values = (size_t)(tokens * width), head_bytes = head_values * sizeof(uint16_t);
    uint16_t *raw = malloc(head_bytes);
    float *row = malloc((size_t)width * sizeof *row);
    sparge_status status = SPARGE_OK;
    *nonfinite = 0;
    if (!raw || !row)
        status = sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for the output of one head");
    for (int64_t h = 0; h < heads && status == SPARGE_OK; h++) {
        status = sparge_download(context, raw, (const char *)output->data + (size_t)h * head_bytes, head_bytes);
        if (status != SPARGE_OK) {
            sparge_fail(error, status, "%s", sparge_error_string(context));
            break;
        }
        for (int64_t i = 0; i < tokens; i++) {
            widen(raw + i * width, output->dtype, (size_t)width, row);
            for (int64_t d = 0; d < width; d++)
                *nonfinite += !isfinite(row[d]);
        }
        for (int64_t r = 0; reference && r < reference->rows; r++) {
            widen(raw + reference->row[r] * width, output->dtype, (size_t)width, row);
            sb_errors_add(sums, reference->o + (h * reference->rows + r) * width, row, (size_t)width);
        }
    }
    free(row);
    free(raw);
    return status;
}
