#include "image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

image image_make(const char *header, const void *data, size_t data_bytes)
{
    size_t header_bytes = strlen(header);
    image made = {.size = 8 + header_bytes + data_bytes};
    made.bytes = malloc(made.size);
    assert_non_null(made.bytes);
    for (unsigned i = 0; i < 8; i++)
        made.bytes[i] = (unsigned char)((uint64_t)header_bytes >> (8 * i));
    memcpy(made.bytes + 8, header, header_bytes);
    for (size_t i = 0; i < data_bytes; i++)
        made.bytes[8 + header_bytes + i] = data ? ((const unsigned char *)data)[i] : (unsigned char)i;
    return made;
}

void image_free(image *made)
{
    free(made->bytes);
    made->bytes = NULL;
}

char *image_write_file(const image *made, const char *name)
{
    char folder[] = "/tmp/sparge-workloads-XXXXXX";
    assert_non_null(mkdtemp(folder));
    size_t size = sizeof folder + strlen(name) + sizeof "/.safetensors";
    char *path = malloc(size);
    assert_non_null(path);
    snprintf(path, size, "%s/%s.safetensors", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(made->bytes, 1, made->size, file), made->size);
    assert_int_equal(fclose(file), 0);
    return path;
}

void image_remove_file(char *path)
{
    assert_int_equal(unlink(path), 0);
    *strrchr(path, '/') = '\0';
    assert_int_equal(rmdir(path), 0);
    free(path);
}

image image_read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    assert_true(size >= 0);
    rewind(file);
    image read = {.bytes = malloc((size_t)size + (size == 0)), .size = (size_t)size};
    assert_non_null(read.bytes);
    assert_int_equal(fread(read.bytes, 1, read.size, file), read.size);
    fclose(file);
    return read;
}
