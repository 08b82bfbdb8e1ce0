/* Prepare and select of the CUDA backend: every array they leave equals the CPU's, bit for bit. Needs a GPU.
 *
 * SPARGE_TEST_SEED and SPARGE_TEST_CASES choose and lengthen the random part. */
#include "cuda_case.h"

#include <inttypes.h>
#include <stdint.h>
#include <unistd.h>

#include "cuda/cuda.h"
#include "cuda_arrays.h"

static uint64_t from_environment(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : fallback;
}

/* Prepare takes as many KV heads together as keep their K within 3/8 of the L2 cache (prepare/order.cuh), of short cases
 * all; a cache of this size makes it take `heads`. */
static int cache_for(const sparge_problem *p, int64_t heads)
{
    return (int)((heads * p->seqlen_k * p->head_dim * 2 + 2) / 3 * 8);
}

/* The device's own cache, then smaller ones: one to five heads together. */
static void random_cases(void **state)
{
    const cuda_case *c = *state;
    const uint64_t first = from_environment("SPARGE_TEST_SEED", 1), count = from_environment("SPARGE_TEST_CASES", 400);
    int *cache = &cuda_context_of(c->cuda)->properties.l2CacheSize, differing = 0;
    const int real_cache = *cache;
    for (uint64_t seed = first; seed < first + count; seed++) {
        const arrays_case random = arrays_random(seed, seed % 8 == 0 ? 2000 : 300);
        const int64_t heads = (int64_t)(seed % 6);
        *cache = heads == 0 ? real_cache : cache_for(&random.problem, heads);
        differing += arrays_compare(c->cpu, c->cuda, &random) != 0;
    }
    *cache = real_cache;
    assert_int_equal(differing, 0);
}

/* Rows of 625 to 2188 blocks: the kernels have other shapes there. */
static void long_rows(void **state)
{
    const cuda_case *c = *state;
    static const char *const settings[] = {"tau=0.9 theta=-1", "tau=0.5 theta=-1", "topk=0.3",
                                           "tau=0.95 theta=-1 block_q=64"};
    int differing = 0;
    for (int i = 0; i < 12; i++) {
        const arrays_case row = {
            .problem = {.batch = 1,
                        .heads_q = 2,
                        .heads_kv = 1,
                        .seqlen_q = 130 + i,
                        .seqlen_k = i < 6 ? 40000 + 64 * i : 140000 + i,
                        .head_dim = i % 2 ? 8 : 72,
                        .dtype = i % 2 ? SPARGE_BF16 : SPARGE_F16,
                        .causal = i % 3 ? SPARGE_CAUSAL_BOTTOM_RIGHT : SPARGE_CAUSAL_NONE},
            .method = "sparge-int8-fp8",
            .settings = settings[i % 4],
            .content = i % 5 == 4 ? ARRAYS_TIES : (arrays_content)(i % 2),
            .seed = (uint64_t)i,
        };
        differing += arrays_compare(c->cpu, c->cuda, &row) != 0;
    }
    assert_int_equal(differing, 0);
}

/* Lists from a mask file: for all heads, or one for each. */
static void mask_files(void **state)
{
    const cuda_case *c = *state;
    uint64_t rng = 5;
    for (int i = 0; i < 12; i++) {
        char path[] = "/tmp/sparge-mask-XXXXXX", settings[128];
        const int32_t block_q = i % 2 ? 64 : 128, block_k = i / 2 % 2 ? 64 : 128;
        const sparge_problem p = {.batch = 2,
                                  .heads_q = 4,
                                  .heads_kv = 2,
                                  .seqlen_q = 100 + 150 * i,
                                  .seqlen_k = 130 + 130 * i,
                                  .head_dim = 64,
                                  .dtype = SPARGE_F16,
                                  .causal = (sparge_causal)(i % 3)};
        sparge_problem of_file = p;
        if (i % 4 == 3)
            of_file.batch = of_file.heads_q = of_file.heads_kv = 1;
        sparge_block_mask mask;
        assert_int_equal(sparge_block_mask_create(&mask, &of_file, block_q, block_k, NULL), SPARGE_OK);
        for (int64_t j = 0; j < mask.batch * mask.heads * mask.rows * mask.cols; j++) {
            rng = rng * UINT64_C(6364136223846793005) + 1442695040888963407u;
            mask.value[j] = (uint8_t)((rng >> 62) == 0);
        }
        const int file = mkstemp(path);
        assert_true(file >= 0);
        close(file);
        assert_int_equal(sparge_block_mask_write(&mask, path, NULL), SPARGE_OK);
        snprintf(settings, sizeof settings, "file=%s block_q=%d block_k=%d attend=%s", path, block_q, block_k,
                 i % 3 ? "int8-f16" : "f16");
        const arrays_case of_mask = {.problem = p, .method = "mask", .settings = settings, .seed = (uint64_t)i};
        const int differing = arrays_compare(c->cpu, c->cuda, &of_mask);
        unlink(path);
        sparge_block_mask_release(&mask);
        assert_int_equal(differing, 0);
    }
}

/* The same with the device's own cache, which two of the three KV heads fit; the third is a group by itself. */
static void heads_beyond_the_cache(void **state)
{
    const cuda_case *c = *state;
    static const char *const methods[] = {"dense-int8-fp8", "sparge-int8-fp8", "sparge-f16"};
    const int64_t cache = cuda_context_of(c->cuda)->properties.l2CacheSize;
    int differing = 0;
    for (int i = 0; i < 3; i++) {
        const arrays_case row = {.problem = {.batch = 1,
                                             .heads_q = 3,
                                             .heads_kv = 3,
                                             .seqlen_q = 1000,
                                             .seqlen_k = cache / 8 * 3 / (2 * 128 * 2),
                                             .head_dim = 128,
                                             .dtype = SPARGE_F16},
                                 .method = methods[i],
                                 .settings = "",
                                 .seed = (uint64_t)i};
        differing += arrays_compare(c->cpu, c->cuda, &row) != 0;
    }
    assert_int_equal(differing, 0);
}

int main(void)
{
    if (sparge_backend_device_count("cuda") == 0) {
        printf("skipped: no CUDA device\n");
        return EXIT_SKIPPED;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_cases), cmocka_unit_test(heads_beyond_the_cache),
                                       cmocka_unit_test(long_rows), cmocka_unit_test(mask_files)};
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
