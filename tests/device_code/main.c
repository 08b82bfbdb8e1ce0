/* device_code list PROGRAM          kernels: architecture, registers, stack bytes, code bytes, name
 * device_code hash PROGRAM ARCH     SHA-256 of the machine code for an architecture, e.g. sm_90a
 * device_code compiler PROGRAM      what made the machine code */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_code.h"

static void list(const device_code *code)
{
    for (size_t i = 0; i < code->kernel_count; i++) {
        const device_kernel *k = &code->kernels[i];
        printf("%s %d %d %zu %s\n", k->arch, k->registers, k->stack_bytes, k->code_bytes, k->name);
    }
}

static int run(const device_code *code, int count, char **words)
{
    char hash[SB_SHA256_HEX_SIZE];
    if (count == 3 && strcmp(words[1], "list") == 0) {
        list(code);
    } else if (count == 3 && strcmp(words[1], "compiler") == 0) {
        printf("%s\n", code->compiler);
    } else if (count == 4 && strcmp(words[1], "hash") == 0) {
        if (device_code_hash(code, words[3], hash) != 0) {
            fprintf(stderr, "device_code: %s: no machine code for %s\n", words[2], words[3]);
            return EXIT_FAILURE;
        }
        printf("%s\n", hash);
    } else {
        fprintf(stderr, "usage: device_code list|compiler PROGRAM, device_code hash PROGRAM ARCH\n");
        return 2;
    }
    return EXIT_SUCCESS;
}

int main(int count, char **words)
{
    device_code code = {0};
    int result = 2;
    if (count > 2 && device_code_read(&code, words[2]) != 0) {
        fprintf(stderr, "device_code: %s: %s\n", words[2], code.error);
        result = EXIT_FAILURE;
    } else {
        result = run(&code, count, words);
    }
    device_code_release(&code);
    return result;
}
