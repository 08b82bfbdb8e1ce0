/* What must hold for every file that opens; shared by the test and the fuzz target. Ends the program where it does not. */
#ifndef TESTS_WORKLOADS_SAFETENSORS_WALK_H
#define TESTS_WORKLOADS_SAFETENSORS_WALK_H

#include <stdlib.h>
#include <string.h>

#include "safetensors.h"

static inline void walk_require(int holds)
{
    if (!holds)
        abort();
}

/* Opens the bytes as a file and, if that succeeds, touches everything in it. Returns 1 if it opened. */
static inline int walk_safetensors(const void *bytes, size_t size)
{
    st_file *file;
    sparge_error error = {.status = SPARGE_OK};
    sparge_status status = st_open_memory(bytes, size, "in memory", &file, &error);
    if (status != SPARGE_OK) {
        walk_require(file == NULL && error.status == status);
        walk_require(strncmp(error.text, "in memory: ", 11) == 0);
        for (const char *c = error.text; *c; c++) /* one line, nothing that moves a terminal's cursor */
            walk_require((unsigned char)*c >= 0x20 && *c != 0x7f);
        return 0;
    }
    const unsigned char *end = NULL;
    for (size_t i = 0; i < st_count(file); i++) {
        const st_tensor *tensor = st_at(file, i);
        walk_require(tensor->rank >= 0 && tensor->rank <= ST_MAX_RANK);
        walk_require(st_find(file, tensor->name) == tensor);
        const unsigned char *data = tensor->data;
        walk_require(end == NULL || data == end);
        unsigned sum = 0;
        for (size_t byte = 0; byte < tensor->bytes; byte++)
            sum += data[byte];
        walk_require(tensor->bytes == 0 || sum <= 255 * tensor->bytes);
        end = data + tensor->bytes;
    }
    walk_require(end == NULL || end == (const unsigned char *)bytes + size);
    walk_require(st_at(file, st_count(file)) == NULL);
    st_metadata(file, "model");
    st_close(file);
    return 1;
}

#endif
