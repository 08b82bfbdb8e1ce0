/* The .safetensors reader: map the file, parse its JSON header with jansson, check every number in it, and hand out
 * pointers into the mapping.
 *
 * The checks, in order: the header's length against the file's, the JSON itself (duplicate keys are an error), each
 * entry on its own (keys, dtype, shape, offsets), and then all entries together: sorted by offset they must tile the
 * data exactly. A reader that passes all this can trust data and bytes of every tensor.
 *
 * Nothing is copied, so data has the alignment the file gives it, which may be none: read it with memcpy. */
#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

enum { LENGTH_BYTES = 8, MAX_HEADER_BYTES = 100 * 1000 * 1000 };

struct st_file {
    const unsigned char *bytes;
    size_t size;
    int mapped;   /* bytes came from mmap and are unmapped by st_close */
    json_t *root; /* owns the names and the metadata */
    json_t *metadata;
    st_tensor *tensor; /* by ascending offset */
    size_t count;
};

typedef struct dtype_bits {
    const char *name;
    unsigned bits;
} dtype_bits;

static const dtype_bits dtypes[] = {
    {"BOOL", 8}, {"U8", 8},   {"I8", 8},    {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"U16", 16},
    {"I16", 16}, {"F16", 16}, {"BF16", 16}, {"U32", 32},    {"I32", 32},    {"F32", 32},    {"U64", 64},
    {"I64", 64}, {"F64", 64}, {"C64", 64},  {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},
};

/* Text from the file made fit for a one-line message: no control characters, bounded, cut between UTF-8 sequences. */
typedef struct shown {
    char text[80];
} shown;

static shown show(const char *text)
{
    shown out;
    size_t limit = sizeof out.text - sizeof "...";
    size_t length = strlen(text);
    size_t keep = length <= limit ? length : limit;
    while (keep < length && keep > 0 && ((unsigned char)text[keep] & 0xc0) == 0x80)
        keep--;
    for (size_t i = 0; i < keep; i++)
        out.text[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
    strcpy(out.text + keep, keep < length ? "..." : "");
    return out;
}

static sparge_status fail_entry(sparge_error *error, const char *path, const char *tensor, const char *what)
{
    return sparge_fail(error, SPARGE_ERROR_IO, "%s: tensor '%s': %s", path, show(tensor).text, what);
}

/* ---- one entry of the header ---- */

static unsigned find_dtype(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(name, dtypes[i].name) == 0)
            return dtypes[i].bits;
    }
    return 0;
}

static sparge_status read_shape(const json_t *value, const char *path, st_tensor *tensor, uint64_t *elements,
                                sparge_error *error)
{
    if (!json_is_array(value))
        return fail_entry(error, path, tensor->name, "shape is not an array");
    size_t rank = json_array_size(value);
    if (rank > ST_MAX_RANK)
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: tensor '%s': rank %zu, the limit is %d", path,
                           show(tensor->name).text, rank, ST_MAX_RANK);
    tensor->rank = (int)rank;
    *elements = 1;
    for (size_t axis = 0; axis < rank; axis++) {
        const json_t *extent = json_array_get(value, axis);
        if (!json_is_integer(extent))
            return sparge_fail(error, SPARGE_ERROR_IO, "%s: tensor '%s': shape[%zu] is not an integer", path,
                               show(tensor->name).text, axis);
        tensor->shape[axis] = json_integer_value(extent);
        if (tensor->shape[axis] < 0)
            return sparge_fail(error, SPARGE_ERROR_IO, "%s: tensor '%s': shape[%zu] is negative: %" PRId64, path,
                               show(tensor->name).text, axis, tensor->shape[axis]);
        if (__builtin_mul_overflow(*elements, (uint64_t)tensor->shape[axis], elements) || *elements > INT64_MAX)
            return fail_entry(error, path, tensor->name, "the product of its shape overflows");
    }
    return SPARGE_OK;
}

static sparge_status read_offsets(const json_t *value, const char *path, const char *name, size_t data_bytes,
                                  size_t offset[2], sparge_error *error)
{
    if (!json_is_array(value) || json_array_size(value) != 2)
        return fail_entry(error, path, name, "data_offsets is not an array of two");
    json_int_t end[2];
    for (size_t i = 0; i < 2; i++) {
        if (!json_is_integer(json_array_get(value, i)))
            return fail_entry(error, path, name, "data_offsets are not integers");
        end[i] = json_integer_value(json_array_get(value, i));
    }
    if (end[0] < 0 || end[1] < end[0])
        return sparge_fail(error, SPARGE_ERROR_IO,
                           "%s: tensor '%s': data_offsets [%" JSON_INTEGER_FORMAT ", %" JSON_INTEGER_FORMAT
                           "] are not an ascending range",
                           path, show(name).text, end[0], end[1]);
    if ((uint64_t)end[1] > data_bytes)
        return sparge_fail(error, SPARGE_ERROR_IO,
                           "%s: tensor '%s': data_offsets [%" JSON_INTEGER_FORMAT ", %" JSON_INTEGER_FORMAT
                           "] go past the file's %zu bytes of data",
                           path, show(name).text, end[0], end[1], data_bytes);
    offset[0] = (size_t)end[0];
    offset[1] = (size_t)end[1];
    return SPARGE_OK;
}

static sparge_status read_entry(const char *name, const json_t *entry, const char *path, const unsigned char *data,
                                size_t data_bytes, st_tensor *tensor, sparge_error *error)
{
    tensor->name = name;
    if (!json_is_object(entry))
        return fail_entry(error, path, name, "its entry is not an object");
    const json_t *dtype = json_object_get(entry, "dtype");
    const json_t *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (!dtype || !shape || !offsets)
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: tensor '%s': no %s", path, show(name).text,
                           !dtype   ? "dtype"
                           : !shape ? "shape"
                                    : "data_offsets");
    if (json_object_size(entry) != 3)
        return fail_entry(error, path, name, "keys other than dtype, shape and data_offsets");

    if (!json_is_string(dtype))
        return fail_entry(error, path, name, "dtype is not a string");
    unsigned bits = find_dtype(json_string_value(dtype));
    if (bits == 0)
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: tensor '%s': unknown dtype '%s'", path, show(name).text,
                           show(json_string_value(dtype)).text);
    snprintf(tensor->dtype, sizeof tensor->dtype, "%s", json_string_value(dtype));

    uint64_t elements = 0;
    size_t offset[2] = {0, 0};
    sparge_status status = read_shape(shape, path, tensor, &elements, error);
    if (status == SPARGE_OK)
        status = read_offsets(offsets, path, name, data_bytes, offset, error);
    if (status != SPARGE_OK)
        return status;

    uint64_t total_bits;
    if (__builtin_mul_overflow(elements, (uint64_t)bits, &total_bits))
        return fail_entry(error, path, name, "its size in bits overflows");
    if (total_bits % 8 != 0)
        return fail_entry(error, path, name, "it does not end on a whole byte");
    if (total_bits / 8 != offset[1] - offset[0])
        return sparge_fail(error, SPARGE_ERROR_IO,
                           "%s: tensor '%s': dtype %s and shape need %" PRIu64 " bytes, data_offsets give %zu", path,
                           show(name).text, tensor->dtype, total_bits / 8, offset[1] - offset[0]);
    tensor->data = data + offset[0];
    tensor->bytes = offset[1] - offset[0];
    return SPARGE_OK;
}

/* ---- the header as a whole ---- */

static int by_place(const void *a, const void *b)
{
    const st_tensor *x = a, *y = b;
    const unsigned char *px = x->data, *py = y->data;
    if (px != py)
        return px < py ? -1 : 1;
    if (x->bytes != y->bytes) /* empty tensors before the one that starts at the same place */
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Sorted by place, every tensor must start where the one before it ended, and the last end with the file. */
static sparge_status check_tiling(st_file *file, const char *path, const unsigned char *data, size_t data_bytes,
                                  sparge_error *error)
{
    if (file->count > 1)
        qsort(file->tensor, file->count, sizeof file->tensor[0], by_place);
    size_t end = 0;
    for (size_t i = 0; i < file->count; i++) {
        const st_tensor *tensor = &file->tensor[i];
        size_t begin = (size_t)((const unsigned char *)tensor->data - data);
        if (begin < end)
            return sparge_fail(error, SPARGE_ERROR_IO, "%s: tensor '%s': overlaps tensor '%s' at byte %zu of the data",
                               path, show(tensor->name).text, show(file->tensor[i - 1].name).text, begin);
        if (begin > end)
            return sparge_fail(error, SPARGE_ERROR_IO,
                               "%s: tensor '%s': a hole of %zu bytes before it, at byte %zu of the data", path,
                               show(tensor->name).text, begin - end, end);
        end = begin + tensor->bytes;
    }
    if (end != data_bytes)
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: %zu bytes after the last tensor", path, data_bytes - end);
    return SPARGE_OK;
}

static sparge_status check_metadata(const json_t *metadata, const char *path, sparge_error *error)
{
    if (!json_is_object(metadata))
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: __metadata__ is not an object", path);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)metadata, key, value)
    {
        if (!json_is_string(value))
            return sparge_fail(error, SPARGE_ERROR_IO, "%s: __metadata__ '%s' is not a string", path, show(key).text);
    }
    return SPARGE_OK;
}

static sparge_status read_header(st_file *file, const char *path, sparge_error *error)
{
    if (file->size < LENGTH_BYTES)
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: %zu bytes are too few for a .safetensors file", path,
                           file->size);
    uint64_t header_bytes = 0;
    for (unsigned i = 0; i < LENGTH_BYTES; i++)
        header_bytes |= (uint64_t)file->bytes[i] << (8 * i);
    if (header_bytes > MAX_HEADER_BYTES)
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: header of %" PRIu64 " bytes, the limit is %d", path,
                           header_bytes, MAX_HEADER_BYTES);
    if (header_bytes > file->size - LENGTH_BYTES)
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: truncated: header of %" PRIu64 " bytes in a file of %zu", path,
                           header_bytes, file->size);

    const char *header = (const char *)file->bytes + LENGTH_BYTES;
    const unsigned char *data = file->bytes + LENGTH_BYTES + header_bytes;
    size_t data_bytes = file->size - LENGTH_BYTES - (size_t)header_bytes;
    json_error_t json_error;
    file->root = json_loadb(header, (size_t)header_bytes, JSON_REJECT_DUPLICATES, &json_error);
    if (!file->root) {
        if (json_error_code(&json_error) == json_error_out_of_memory)
            return sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY, "%s: out of memory reading the header", path);
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: header is not valid JSON: %s, at byte %d", path,
                           show(json_error.text).text, json_error.position);
    }
    if (!json_is_object(file->root))
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: header is not a JSON object", path);

    file->metadata = json_object_get(file->root, "__metadata__");
    sparge_status status = file->metadata ? check_metadata(file->metadata, path, error) : SPARGE_OK;
    if (status != SPARGE_OK)
        return status;

    size_t count = json_object_size(file->root) - (file->metadata ? 1 : 0);
    file->tensor = calloc(count ? count : 1, sizeof file->tensor[0]);
    if (!file->tensor)
        return sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY, "%s: out of memory for %zu tensors", path, count);
    const char *name;
    json_t *entry;
    json_object_foreach(file->root, name, entry)
    {
        if (entry == file->metadata)
            continue;
        status = read_entry(name, entry, path, data, data_bytes, &file->tensor[file->count], error);
        if (status != SPARGE_OK)
            return status;
        file->count++;
    }
    return check_tiling(file, path, data, data_bytes, error);
}

/* ---- opening and asking ---- */

/* Takes over the mapping, also on failure. */
static sparge_status open_bytes(const void *bytes, size_t size, int mapped, const char *path, st_file **file,
                                sparge_error *error)
{
    *file = NULL;
    st_file *opened = calloc(1, sizeof *opened);
    if (!opened) {
        if (mapped)
            munmap((void *)(uintptr_t)bytes, size);
        return sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY, "%s: out of memory", path);
    }
    opened->bytes = bytes;
    opened->size = size;
    opened->mapped = mapped;
    sparge_status status = read_header(opened, path, error);
    if (status != SPARGE_OK) {
        st_close(opened);
        return status;
    }
    *file = opened;
    return SPARGE_OK;
}

sparge_status st_open_memory(const void *bytes, size_t size, const char *name, st_file **file, sparge_error *error)
{
    return open_bytes(bytes, size, 0, name, file, error);
}

sparge_status st_open(const char *path, st_file **file, sparge_error *error)
{
    *file = NULL;
    /* O_NONBLOCK: opening a pipe by mistake must fail below, not wait for a writer. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return sparge_fail(error, SPARGE_ERROR_IO, "cannot open %s: %s", path, strerror(errno));
    struct stat info;
    void *bytes = MAP_FAILED;
    sparge_status status = SPARGE_OK;
    if (fstat(descriptor, &info) != 0)
        status = sparge_fail(error, SPARGE_ERROR_IO, "cannot stat %s: %s", path, strerror(errno));
    else if (!S_ISREG(info.st_mode))
        status = sparge_fail(error, SPARGE_ERROR_IO, "%s: not a regular file", path);
    else if (info.st_size < LENGTH_BYTES)
        status = sparge_fail(error, SPARGE_ERROR_IO, "%s: %jd bytes are too few for a .safetensors file", path,
                             (intmax_t)info.st_size);
    else if ((uintmax_t)info.st_size > SIZE_MAX)
        status = sparge_fail(error, SPARGE_ERROR_IO, "%s: too large for this machine's address space", path);
    else if ((bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0)) == MAP_FAILED)
        status = sparge_fail(error, SPARGE_ERROR_IO, "cannot map %s: %s", path, strerror(errno));
    close(descriptor);
    return status == SPARGE_OK ? open_bytes(bytes, (size_t)info.st_size, 1, path, file, error) : status;
}

void st_close(st_file *file)
{
    if (!file)
        return;
    free(file->tensor);
    json_decref(file->root);
    if (file->mapped)
        munmap((void *)(uintptr_t)file->bytes, file->size);
    free(file);
}

size_t st_count(const st_file *file)
{
    return file->count;
}

const st_tensor *st_at(const st_file *file, size_t index)
{
    return index < file->count ? &file->tensor[index] : NULL;
}

const st_tensor *st_find(const st_file *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++) {
        if (strcmp(file->tensor[i].name, name) == 0)
            return &file->tensor[i];
    }
    return NULL;
}

const char *st_metadata(const st_file *file, const char *key)
{
    return file->metadata ? json_string_value(json_object_get(file->metadata, key)) : NULL;
}
