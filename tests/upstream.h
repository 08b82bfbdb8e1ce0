/* The recorded behaviour of the official code: one safetensors file a case (README.md beside the files). A test of it
 * returns UPSTREAM_SKIP from main() where they are absent. */
#ifndef TESTS_UPSTREAM_H
#define TESTS_UPSTREAM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { UPSTREAM_CASES = 4, UPSTREAM_SKIP = 77 };

typedef struct upstream_case {
    const char *name;
    int64_t tokens, head_dim;
    int causal; /* top-left */
} upstream_case;

static const upstream_case upstream_cases[UPSTREAM_CASES] = {
    {"ref_n1000_d128_struct_causal", 1000, 128, 1},
    {"ref_n1000_d64_struct_full", 1000, 64, 0},
    {"ref_n1024_d128_struct_causal", 1024, 128, 1},
    {"ref_n1024_d64_struct_full", 1024, 64, 0},
};

static inline const char *upstream_folder(void)
{
    const char *folder = getenv("SPARGE_UPSTREAM_DATA");
    return folder ? folder : SPARGE_UPSTREAM_DATA;
}

static inline void upstream_path(int index, char *path, size_t size)
{
    snprintf(path, size, "%s/%s.safetensors", upstream_folder(), upstream_cases[index].name);
}

/* Is the folder there? Says where it was looked for if not. A file that is missing in it fails its test. */
static inline int upstream_present(void)
{
    int present = access(upstream_folder(), R_OK) == 0;
    if (!present)
        printf("skipped: no recorded data at %s (SPARGE_UPSTREAM_DATA names the folder)\n", upstream_folder());
    return present;
}

#endif
