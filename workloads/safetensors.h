/* A reader for .safetensors files: an 8-byte little-endian header length, a JSON header, then the tensors' bytes.
 *
 * The file is mapped, never copied. Everything in the header is checked before it is believed: sizes, dtypes, shape
 * products, offsets (in range, not overlapping, no holes), duplicate names. A file that is not exactly right gives one
 * line of error. Format: https://huggingface.co/docs/safetensors
 *
 * Tensors lie where the file puts them, aligned or not: copy elements out with memcpy, or check the address first.
 * The file must not be truncated while it is open (reading a lost page is a SIGBUS). */
#ifndef WORKLOADS_SAFETENSORS_H
#define WORKLOADS_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "sparge/status.h"

typedef struct st_file st_file;

enum { ST_MAX_RANK = 8 };

typedef struct st_tensor {
    const char *name;
    char dtype[16]; /* as stored: "F16", "BF16", "F32", "F64", "I8", "I32", "I64", "U8", "BOOL", "F8_E4M3", ... */
    int rank;
    int64_t shape[ST_MAX_RANK];
    const void *data; /* any alignment */
    size_t bytes;     /* exactly what dtype and shape need */
} st_tensor;

/* On failure *file is NULL. */
sparge_status st_open(const char *path, st_file **file, sparge_error *error);
/* The same on bytes in memory that outlive *file; `name` stands for the path in messages (fuzzing, tests). */
sparge_status st_open_memory(const void *bytes, size_t size, const char *name, st_file **file, sparge_error *error);
void st_close(st_file *file); /* NULL is fine */

size_t st_count(const st_file *file);
const st_tensor *st_at(const st_file *file, size_t index);       /* by ascending offset; NULL past the end */
const st_tensor *st_find(const st_file *file, const char *name); /* NULL if absent */
const char *st_metadata(const st_file *file, const char *key);   /* __metadata__ value, NULL if absent */

#endif
