/* libFuzzer target: any bytes as a .safetensors file. Built with -DSPARGE_BUILD_FUZZERS=ON and clang:
 *
 *     build/tests/workloads/fuzz_safetensors -max_len=4096 tests/workloads/corpus
 *
 * Keep what it finds in the corpus, named valid_ or bad_: the test runs all of it. */
#include "safetensors_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    walk_safetensors(bytes, size);
    return 0;
}
