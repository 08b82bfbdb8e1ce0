/* Builds .safetensors images in memory and writes them to temporary files. */
#ifndef TESTS_WORKLOADS_IMAGE_H
#define TESTS_WORKLOADS_IMAGE_H

#include <stddef.h>
#include <stdint.h>

typedef struct image {
    unsigned char *bytes; /* exactly `size` bytes of malloc, so that a sanitizer sees a read past the end */
    size_t size;
} image;

/* The header as text, then the data (NULL: bytes 0, 1, 2, ...). */
image image_make(const char *header, const void *data, size_t data_bytes);
void image_free(image *made);

/* A new file in the temporary folder, NAME.safetensors; its path must be freed after image_remove_file. */
char *image_write_file(const image *made, const char *name);
void image_remove_file(char *path);

/* Reads a whole file. */
image image_read_file(const char *path);

#endif
