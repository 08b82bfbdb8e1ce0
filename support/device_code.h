/* The machine code for GPUs inside a program: its kernels, what each takes, and a hash of all of it.
 *
 * nvcc puts the code into the section .nv_fatbin of the program: a run of containers, each with one ELF file (a cubin) for
 * each architecture. cuobjdump shows the same, but is not in every toolkit. */
#ifndef SPARGE_DEVICE_CODE_H
#define SPARGE_DEVICE_CODE_H

#include <stddef.h>

#include "sha256.h"

typedef struct device_kernel {
    char arch[16];    /* "sm_90a" */
    const char *name; /* mangled */
    int registers;    /* of a thread */
    int stack_bytes;  /* local memory of a thread, functions that it calls included: spills and arrays */
    size_t code_bytes;
} device_kernel;

/* What is loaded with a kernel: instructions and constants. */
typedef struct device_section {
    char arch[16];
    char hash[SB_SHA256_HEX_SIZE];
} device_section;

typedef struct device_code {
    unsigned char *file;
    size_t size;
    device_kernel *kernels;
    size_t kernel_count, kernel_room;
    device_section *sections;
    size_t section_count, section_room;
    char compiler[128]; /* of the cubins, in ptxas's own words */
    char error[256];
} device_code;

/* Reads a program. 0, or -1 with `error` set; to be released either way. */
int device_code_read(device_code *code, const char *path);
void device_code_release(device_code *code);

/* Of the architectures there is code for, that whose code a device of `arch` ("sm_86") runs: its own, or the newest before it
 * of its generation. NULL: none. */
const char *device_code_arch(const device_code *code, const char *arch);

/* The hash of the sections of one architecture, whatever their order and their names: the same sources give the same hash
 * in every folder, although the folder's name is part of the names of some kernels. 0, or -1 if there is no such code. */
int device_code_hash(const device_code *code, const char *arch, char hash[SB_SHA256_HEX_SIZE]);

#endif
