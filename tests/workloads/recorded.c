/* The .safetensors reader on the recorded official files, written by another program. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "safetensors.h"
#include "sparge/tensor.h"

enum { SKIPPED = 77 };

typedef struct recorded {
    const char *file;
    int64_t tokens, head_dim;
} recorded;

static const recorded files[] = {{"ref_n1000_d128_struct_causal", 1000, 128},
                                 {"ref_n1000_d64_struct_full", 1000, 64},
                                 {"ref_n1024_d128_struct_causal", 1024, 128},
                                 {"ref_n1024_d64_struct_full", 1024, 64}};

static const char *folder(void)
{
    const char *set = getenv("SPARGE_UPSTREAM_DATA");
    return set ? set : SPARGE_UPSTREAM_DATA;
}

/* km is the mean of k over the tokens, as the README there says: the bytes are where the header puts them. */
static void check_mean(const st_tensor *k, const st_tensor *km, int64_t tokens, int64_t head_dim)
{
    const int64_t heads = k->shape[1];
    assert_string_equal(km->dtype, "F16");
    assert_int_equal(km->bytes, heads * head_dim * 2);
    const uint16_t *key = k->data, *mean = km->data;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t d = 0; d < head_dim; d++) {
            double sum = 0;
            for (int64_t i = 0; i < tokens; i++)
                sum += (double)sparge_f32_from_f16(key[(h * tokens + i) * head_dim + d]);
            double stored = (double)sparge_f32_from_f16(mean[h * head_dim + d]);
            assert_true(fabs(sum / (double)tokens - stored) < 2e-3);
        }
}

static void test_recorded_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s.safetensors", folder(), files[i].file);
        st_file *file;
        sparge_error error;
        if (st_open(path, &file, &error) != SPARGE_OK)
            fail_msg("%s", error.text);
        static const char *const names[] = {"q", "k", "v"};
        for (int t = 0; t < 3; t++) {
            const st_tensor *tensor = st_find(file, names[t]);
            assert_non_null(tensor);
            assert_string_equal(tensor->dtype, "F16");
            assert_int_equal(tensor->rank, 4);
            assert_int_equal(tensor->shape[0], 1);
            assert_int_equal(tensor->shape[2], files[i].tokens);
            assert_int_equal(tensor->shape[3], files[i].head_dim);
        }
        assert_non_null(st_metadata(file, "case"));
        assert_null(st_metadata(file, "no such key"));
        const st_tensor *km = st_find(file, "km");
        assert_non_null(km);
        check_mean(st_find(file, "k"), km, files[i].tokens, files[i].head_dim);
        st_close(file);
    }
}

int main(void)
{
    if (access(folder(), R_OK) != 0) {
        fprintf(stderr, "skipped: no recorded data in %s\n", folder());
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_recorded_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
