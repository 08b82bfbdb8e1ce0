/* The .safetensors reader on the recorded official files, written by another program. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "safetensors.h"
#include "sparge/tensor.h"
#include "upstream.h"

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
    for (int i = 0; i < UPSTREAM_CASES; i++) {
        char path[1024];
        upstream_path(i, path, sizeof path);
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
            assert_int_equal(tensor->shape[2], upstream_cases[i].tokens);
            assert_int_equal(tensor->shape[3], upstream_cases[i].head_dim);
        }
        assert_non_null(st_metadata(file, "case"));
        assert_null(st_metadata(file, "no such key"));
        const st_tensor *km = st_find(file, "km");
        assert_non_null(km);
        check_mean(st_find(file, "k"), km, upstream_cases[i].tokens, upstream_cases[i].head_dim);
        st_close(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_recorded_files)};
    return upstream_present() ? cmocka_run_group_tests(tests, NULL, NULL) : UPSTREAM_SKIP;
}
