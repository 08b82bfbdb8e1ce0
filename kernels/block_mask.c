/* Block masks in host memory and as .npy files. */
#include "sparge/block_mask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sparge_status check_block_size(const char *name, int32_t value, sparge_error *error)
{
    if (value == 64 || value == 128)
        return SPARGE_OK;
    return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "%s = %d: must be 64 or 128", name, value);
}

/* batch * heads * rows * cols, or -1 if it does not fit. All factors >= 1. */
static int64_t block_count(int64_t batch, int64_t heads, int64_t rows, int64_t cols)
{
    const int64_t factor[4] = {batch, heads, rows, cols};
    int64_t count = 1;
    for (int i = 0; i < 4; i++) {
        if (factor[i] > INT64_MAX / 2 / count)
            return -1;
        count *= factor[i];
    }
    return count;
}

static sparge_status allocate(sparge_block_mask *mask, sparge_error *error)
{
    int64_t count = block_count(mask->batch, mask->heads, mask->rows, mask->cols);
    mask->value = count > 0 ? calloc((size_t)count, 1) : NULL;
    if (!mask->value)
        return sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for a block mask of %d x %d x %lld x %lld",
                           mask->batch, mask->heads, (long long)mask->rows, (long long)mask->cols);
    return SPARGE_OK;
}

sparge_status sparge_block_mask_create(sparge_block_mask *mask, const sparge_problem *problem, int32_t block_q,
                                       int32_t block_k, sparge_error *error)
{
    memset(mask, 0, sizeof *mask);
    if (check_block_size("block_q", block_q, error) != SPARGE_OK ||
        check_block_size("block_k", block_k, error) != SPARGE_OK)
        return SPARGE_ERROR_INVALID_ARGUMENT;
    mask->batch = problem->batch;
    mask->heads = problem->heads_q;
    mask->block_q = block_q;
    mask->block_k = block_k;
    mask->rows = (problem->seqlen_q + block_q - 1) / block_q;
    mask->cols = (problem->seqlen_k + block_k - 1) / block_k;
    return allocate(mask, error);
}

void sparge_block_mask_release(sparge_block_mask *mask)
{
    if (!mask)
        return;
    free(mask->value);
    memset(mask, 0, sizeof *mask);
}

int sparge_block_visible(const sparge_problem *problem, int32_t block_q, int32_t block_k, int64_t row, int64_t col)
{
    int64_t last_query = (row + 1) * block_q - 1;
    if (last_query >= problem->seqlen_q)
        last_query = problem->seqlen_q - 1;
    /* visible_end never falls with the query, so the block's last query sees the most. */
    return col * block_k < sparge_problem_visible_end(problem, last_query);
}

sparge_status sparge_block_mask_check(const sparge_block_mask *mask, const sparge_problem *problem, sparge_error *error)
{
    int64_t rows = (problem->seqlen_q + mask->block_q - 1) / mask->block_q;
    int64_t cols = (problem->seqlen_k + mask->block_k - 1) / mask->block_k;
    if ((mask->batch != 1 && mask->batch != problem->batch) || (mask->heads != 1 && mask->heads != problem->heads_q) ||
        mask->rows != rows || mask->cols != cols)
        return sparge_fail(error, SPARGE_ERROR_UNSUPPORTED,
                           "block mask: shape is [%d, %d, %lld, %lld], the problem needs [%d, %d, %lld, %lld] at "
                           "%dx%d blocks (batch and heads may be 1)",
                           mask->batch, mask->heads, (long long)mask->rows, (long long)mask->cols, problem->batch,
                           problem->heads_q, (long long)rows, (long long)cols, mask->block_q, mask->block_k);
    return SPARGE_OK;
}

/* --- .npy: "\x93NUMPY", major, minor, header length (2 bytes little-endian, 4 from version 2 on), a Python dict --- */

static const char npy_magic[] = "\x93NUMPY";
enum { NPY_MAGIC = 6, NPY_MAX_HEADER = 4096 };

static sparge_status bad_file(sparge_error *error, const char *path, const char *what)
{
    return sparge_fail(error, SPARGE_ERROR_IO, "%s: %s", path, what);
}

/* Finds 'key': in the dict and returns what follows, blanks skipped; NULL if it is missing. */
static const char *dict_value(const char *header, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s'", key);
    const char *at = strstr(header, quoted);
    if (!at)
        return NULL;
    at += strlen(quoted);
    at += strspn(at, " ");
    if (*at != ':')
        return NULL;
    at++;
    return at + strspn(at, " ");
}

static sparge_status parse_npy_header(const char *header, const char *path, int64_t shape[4], sparge_error *error)
{
    const char *descr = dict_value(header, "descr");
    if (!descr || (strncmp(descr, "'|b1'", 5) != 0 && strncmp(descr, "'|u1'", 5) != 0))
        return bad_file(error, path, "not an array of bool or uint8 (descr must be '|b1' or '|u1')");
    const char *order = dict_value(header, "fortran_order");
    if (!order || strncmp(order, "False", 5) != 0)
        return bad_file(error, path, "not in C order (fortran_order must be False)");
    const char *at = dict_value(header, "shape");
    if (!at || *at != '(')
        return bad_file(error, path, "has no shape");
    at++;
    for (int axis = 0; axis < 4; axis++) {
        char *end;
        errno = 0;
        long long size = strtoll(at, &end, 10);
        if (end == at || errno || size < 1 || size > INT32_MAX)
            return bad_file(error, path, "shape must be (batch, heads, rows, cols), each >= 1");
        shape[axis] = size;
        at = end + strspn(end, " ");
        if (axis < 3) {
            if (*at != ',')
                return bad_file(error, path, "shape must be (batch, heads, rows, cols), each >= 1");
            at++;
        }
    }
    at += *at == ',';
    at += strspn(at, " ");
    if (*at != ')')
        return bad_file(error, path, "shape must have exactly four axes: (batch, heads, rows, cols)");
    return SPARGE_OK;
}

static sparge_status read_npy(sparge_block_mask *mask, FILE *file, const char *path, sparge_error *error)
{
    unsigned char lead[12];
    if (fread(lead, 1, 10, file) != 10 || memcmp(lead, npy_magic, NPY_MAGIC) != 0)
        return bad_file(error, path, "is no .npy file");
    if (lead[6] < 1 || lead[6] > 3)
        return bad_file(error, path, "unknown .npy version (1, 2 and 3 are read)");
    size_t length = (size_t)lead[8] | (size_t)lead[9] << 8;
    if (lead[6] > 1) {
        if (fread(lead + 10, 1, 2, file) != 2)
            return bad_file(error, path, "ends inside its header");
        length |= (size_t)lead[10] << 16 | (size_t)lead[11] << 24;
    }
    char header[NPY_MAX_HEADER + 1];
    if (length > NPY_MAX_HEADER)
        return bad_file(error, path, "its header is longer than 4096 bytes");
    if (fread(header, 1, length, file) != length)
        return bad_file(error, path, "ends inside its header");
    header[length] = 0;
    int64_t shape[4];
    sparge_status status = parse_npy_header(header, path, shape, error);
    if (status != SPARGE_OK)
        return status;
    mask->batch = (int32_t)shape[0];
    mask->heads = (int32_t)shape[1];
    mask->rows = shape[2];
    mask->cols = shape[3];
    int64_t count = block_count(shape[0], shape[1], shape[2], shape[3]);
    /* Compare with the file before taking memory: a forged header must not make us allocate. */
    long data = ftell(file);
    if (data < 0 || fseek(file, 0, SEEK_END) != 0)
        return bad_file(error, path, "cannot be sought in");
    int64_t bytes = (int64_t)ftell(file) - data;
    if (count < 0 || bytes != count || fseek(file, data, SEEK_SET) != 0)
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: holds %lld bytes of data, its shape needs %lld", path,
                           (long long)bytes, (long long)count);
    status = allocate(mask, error);
    if (status != SPARGE_OK)
        return status;
    if (fread(mask->value, 1, (size_t)count, file) != (size_t)count)
        return bad_file(error, path, "could not be read to its end");
    for (int64_t i = 0; i < count; i++)
        mask->value[i] = mask->value[i] != 0;
    return SPARGE_OK;
}

sparge_status sparge_block_mask_read(sparge_block_mask *mask, const char *path, int32_t block_q, int32_t block_k,
                                     sparge_error *error)
{
    memset(mask, 0, sizeof *mask);
    if (check_block_size("block_q", block_q, error) != SPARGE_OK ||
        check_block_size("block_k", block_k, error) != SPARGE_OK)
        return SPARGE_ERROR_INVALID_ARGUMENT;
    FILE *file = fopen(path, "rb");
    if (!file)
        return bad_file(error, path, strerror(errno));
    sparge_block_mask read = {.block_q = block_q, .block_k = block_k};
    sparge_status status = read_npy(&read, file, path, error);
    fclose(file);
    if (status == SPARGE_OK)
        *mask = read;
    else
        sparge_block_mask_release(&read);
    return status;
}

sparge_status sparge_block_mask_write(const sparge_block_mask *mask, const char *path, sparge_error *error)
{
    char header[256];
    int text =
        snprintf(header, sizeof header, "{'descr': '|u1', 'fortran_order': False, 'shape': (%d, %d, %lld, %lld), }",
                 mask->batch, mask->heads, (long long)mask->rows, (long long)mask->cols);
    /* The format wants data to start at a multiple of 64 and the header to end in a newline. */
    int padded = (10 + text + 1 + 63) / 64 * 64 - 10;
    memset(header + text, ' ', (size_t)(padded - text - 1));
    header[padded - 1] = '\n';
    const unsigned char lead[4] = {1, 0, (unsigned char)(padded & 0xff), (unsigned char)(padded >> 8)};
    FILE *file = fopen(path, "wb");
    if (!file)
        return bad_file(error, path, strerror(errno));
    size_t count = (size_t)block_count(mask->batch, mask->heads, mask->rows, mask->cols);
    int ok = fwrite(npy_magic, 1, NPY_MAGIC, file) == NPY_MAGIC && fwrite(lead, 1, 4, file) == 4 &&
             fwrite(header, 1, (size_t)padded, file) == (size_t)padded && fwrite(mask->value, 1, count, file) == count;
    ok = fclose(file) == 0 && ok;
    return ok ? SPARGE_OK : bad_file(error, path, "could not be written to its end");
}
