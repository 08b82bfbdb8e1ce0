/* Captured files: what a good one becomes, and what each bad one is told. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "workloads.h"

/* A header with q [B,Hq,Lq,D], k and v [B,Hk,Lk,D] of one dtype, one after the other. */
typedef struct shapes {
    const char *dtype;
    int batch, heads_q, heads_kv, tokens_q, tokens_k, head_dim;
} shapes;

static int dtype_bytes(const char *dtype)
{
    return strcmp(dtype, "F32") == 0 ? 4 : 2;
}

static size_t data_bytes(const shapes *s)
{
    return (size_t)(s->batch * s->head_dim * (s->heads_q * s->tokens_q + 2 * s->heads_kv * s->tokens_k) *
                    dtype_bytes(s->dtype));
}

static image make_file(const shapes *s, const char *metadata)
{
    char header[2048];
    int q = s->batch * s->heads_q * s->tokens_q * s->head_dim * dtype_bytes(s->dtype);
    int k = s->batch * s->heads_kv * s->tokens_k * s->head_dim * dtype_bytes(s->dtype);
    snprintf(header, sizeof header,
             "{\"__metadata__\":{%s},"
             "\"q\":{\"dtype\":\"%s\",\"shape\":[%d,%d,%d,%d],\"data_offsets\":[0,%d]},"
             "\"k\":{\"dtype\":\"%s\",\"shape\":[%d,%d,%d,%d],\"data_offsets\":[%d,%d]},"
             "\"v\":{\"dtype\":\"%s\",\"shape\":[%d,%d,%d,%d],\"data_offsets\":[%d,%d]}}",
             metadata, s->dtype, s->batch, s->heads_q, s->tokens_q, s->head_dim, q, s->dtype, s->batch, s->heads_kv,
             s->tokens_k, s->head_dim, q, q + k, s->dtype, s->batch, s->heads_kv, s->tokens_k, s->head_dim, q + k,
             q + 2 * k);
    return image_make(header, NULL, data_bytes(s));
}

static const shapes usual = {"F16", 1, 4, 2, 12, 12, 8};

static void test_reads_everything(void **state)
{
    (void)state;
    image made = make_file(&usual, "\"model\":\"Some Model\",\"layer\":\"7\",\"step\":\"20\",\"head_begin\":\"4\","
                                   "\"grid\":\"1x2x5\",\"text_before\":\"2\",\"text_after\":\"0\",\"causal\":\"none\","
                                   "\"scale\":\"0.125\",\"text\":\"a cat\",\"unknown\":\"is fine\"");
    char *path = image_write_file(&made, "all");
    wl_captured *file;
    sparge_error error;
    if (wl_captured_open(path, &file, &error) != SPARGE_OK)
        fail_msg("%s", error.text);
    const wl_captured_info *info = wl_captured_get_info(file);
    assert_string_equal(info->model, "Some Model");
    assert_string_equal(info->text, "a cat");
    assert_int_equal(info->layer, 7);
    assert_int_equal(info->step, 20);
    assert_int_equal(info->head_begin, 4);
    const sparge_problem *p = &info->problem;
    assert_int_equal(p->batch, 1);
    assert_int_equal(p->heads_q, 4);
    assert_int_equal(p->heads_kv, 2);
    assert_int_equal(p->seqlen_q, 12);
    assert_int_equal(p->seqlen_k, 12);
    assert_int_equal(p->head_dim, 8);
    assert_int_equal(p->dtype, SPARGE_F16);
    assert_int_equal(p->causal, SPARGE_CAUSAL_NONE);
    assert_true(p->scale == 0.125f);
    assert_int_equal(p->grid.t, 1);
    assert_int_equal(p->grid.h, 2);
    assert_int_equal(p->grid.w, 5);
    assert_int_equal(p->grid.text_before, 2);
    assert_int_equal(p->grid.text_after, 0);
    size_t header = made.size - data_bytes(&usual);
    const size_t begin[] = {0, 4 * 12 * 8 * 2, 6 * 12 * 8 * 2};
    for (int role = 0; role < 3; role++) {
        sparge_tensor tensor = wl_captured_tensor(file, (sparge_tensor_role)role);
        assert_int_equal(tensor.shape[1], role == 0 ? 4 : 2);
        assert_int_equal(tensor.stride[1], 12 * 8);
        assert_int_equal((uintptr_t)tensor.data % 2, 0); /* wherever the header ends */
        assert_memory_equal(tensor.data, made.bytes + header + begin[role],
                            (size_t)(tensor.shape[1] * tensor.stride[1] * 2));
    }
    wl_captured_close(file);
    image_remove_file(path);
    image_free(&made);
}

/* Headers of every length modulo 8: the data is aligned for its type all the same. */
static void test_unaligned_data(void **state)
{
    (void)state;
    const shapes wide = {"F32", 1, 1, 1, 3, 3, 4};
    static const char padding[] = "12345678";
    for (int extra = 0; extra < 8; extra++) {
        char metadata[64];
        snprintf(metadata, sizeof metadata, "\"text\":\"%.*s\"", extra, padding);
        image made = make_file(&wide, metadata);
        char *path = image_write_file(&made, "unaligned");
        wl_captured *file;
        sparge_error error;
        if (wl_captured_open(path, &file, &error) != SPARGE_OK)
            fail_msg("%s", error.text);
        const unsigned char *data = made.bytes + made.size - data_bytes(&wide);
        for (int role = 0; role < 3; role++) {
            sparge_tensor tensor = wl_captured_tensor(file, (sparge_tensor_role)role);
            assert_int_equal(tensor.dtype, SPARGE_F32);
            assert_int_equal((uintptr_t)tensor.data % 4, 0);
            assert_memory_equal(tensor.data, data + role * 48, 48);
        }
        wl_captured_close(file);
        image_remove_file(path);
        image_free(&made);
    }
}

static void test_defaults(void **state)
{
    (void)state;
    const shapes unequal = {"BF16", 2, 3, 1, 5, 9, 16};
    image made = make_file(&unequal, "");
    char *path = image_write_file(&made, "plain");
    wl_captured *file;
    assert_int_equal(wl_captured_open(path, &file, NULL), SPARGE_OK);
    const wl_captured_info *info = wl_captured_get_info(file);
    assert_string_equal(info->model, "");
    assert_int_equal(info->layer, -1);
    assert_int_equal(info->step, -1);
    assert_int_equal(info->head_begin, -1);
    assert_int_equal(info->problem.dtype, SPARGE_BF16);
    assert_int_equal(info->problem.seqlen_q, 5);
    assert_int_equal(info->problem.seqlen_k, 9);
    assert_int_equal(info->problem.grid.t, 0);
    assert_int_equal(info->problem.causal, SPARGE_CAUSAL_NONE);
    assert_true(info->problem.scale == 0);
    wl_captured_close(file);
    image_remove_file(path);
    image_free(&made);
}

static void refuse_file(image made, const char *message)
{
    char *path = image_write_file(&made, "bad");
    wl_captured *file;
    sparge_error error;
    assert_int_equal(wl_captured_open(path, &file, &error), SPARGE_ERROR_IO);
    assert_null(file);
    if (!strstr(error.text, message) || strncmp(error.text, path, strlen(path)) != 0)
        fail_msg("expected '%s' in '%s'", message, error.text);
    image_remove_file(path);
    image_free(&made);
}

static void refuse(shapes s, const char *metadata, const char *message)
{
    refuse_file(make_file(&s, metadata), message);
}

static void test_bad_shapes(void **state)
{
    (void)state;
    refuse((shapes){"F16", 1, 3, 2, 4, 4, 8}, "", "heads_q = 3: must be a multiple of heads_kv = 2");
    refuse((shapes){"F16", 1, 1, 1, 4, 4, 136}, "", "head_dim = 136: must be in 1..128");
    refuse((shapes){"I16", 1, 1, 1, 4, 4, 8}, "", "tensor 'q': dtype I16, must be F16, BF16 or F32");
    refuse((shapes){"F16", 1, 1, 1, 0, 4, 8}, "", "tensor 'q': shape[2] is 0");
    refuse((shapes){"F16", 0, 1, 1, 4, 4, 8}, "", "tensor 'q': shape[0] is 0");
}

static void test_tensors_that_do_not_fit_together(void **state)
{
    (void)state;
    static const struct {
        const char *q, *k, *v, *message;
    } cases[] = {
        {"F16\",\"shape\":[1,1,2,4", "F16\",\"shape\":[1,1,2,4", "BF16\",\"shape\":[1,1,2,4",
         "dtype of q is f16, of v bf16: must be equal"},
        {"F16\",\"shape\":[1,1,2,4", "F16\",\"shape\":[1,1,2,4", "F16\",\"shape\":[1,1,4,2",
         "token count of k is 2, of v 4: must be equal"},
        {"F16\",\"shape\":[1,1,2,4", "F16\",\"shape\":[1,1,2,4", "F16\",\"shape\":[1,2,2,2",
         "head count of k is 1, of v 2: must be equal"},
        {"F16\",\"shape\":[1,1,2,4", "F16\",\"shape\":[1,1,4,2", "F16\",\"shape\":[1,1,4,2",
         "head dim of q is 4, of k 2: must be equal"},
        {"F16\",\"shape\":[2,1,1,4", "F16\",\"shape\":[1,1,2,4", "F16\",\"shape\":[1,1,2,4",
         "batch of q is 2, of k 1: must be equal"},
        {"F16\",\"shape\":[1,2,4", "F16\",\"shape\":[1,1,2,4", "F16\",\"shape\":[1,1,2,4",
         "tensor 'q': rank 3, must be 4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char header[512];
        snprintf(header, sizeof header,
                 "{\"q\":{\"dtype\":\"%s],\"data_offsets\":[0,16]},\"k\":{\"dtype\":\"%s],\"data_offsets\":[16,32]},"
                 "\"v\":{\"dtype\":\"%s],\"data_offsets\":[32,48]}}",
                 cases[i].q, cases[i].k, cases[i].v);
        refuse_file(image_make(header, NULL, 48), cases[i].message);
    }
    refuse_file(image_make("{}", NULL, 0), "no tensor 'q': a captured file has q, k and v");
    refuse_file(image_make("{\"q\":{\"dtype\":\"F16\",\"shape\":[1,1,1,1],\"data_offsets\":[0,2]}}", NULL, 2),
                "no tensor 'k'");
    refuse_file(image_make("{", NULL, 0), "header is not valid JSON");
}

static void test_bad_metadata(void **state)
{
    (void)state;
    refuse(usual, "\"grid\":\"1x2x5\"", "grid 1x2x5 with 0 + 0 text tokens does not have seqlen_q = 12");
    refuse(usual, "\"grid\":\"2x6\"", "metadata grid = '2x6': must be TxHxW");
    refuse(usual, "\"grid\":\"1x3x4x1\"", "metadata grid = '1x3x4x1': must be TxHxW");
    refuse(usual, "\"grid\":\"0x3x4\"", "metadata grid = '0x3x4'");
    refuse(usual, "\"grid\":\"-1x3x4\"", "metadata grid = '-1x3x4'");
    refuse(usual, "\"grid\":\" 1x3x4\"", "metadata grid = ' 1x3x4'");
    refuse(usual, "\"grid\":\"1x3x99999999999999999999\"", "metadata grid = '1x3x9999");
    refuse(usual, "\"grid\":\"2147483647x2147483647x2147483647\"", "does not have seqlen_q");
    refuse(usual, "\"text_before\":\"2\"", "text_before or text_after without grid");
    refuse(usual, "\"text_after\":\"2\"", "text_before or text_after without grid");
    refuse(usual, "\"grid\":\"1x2x5\",\"text_after\":\"two\"", "metadata text_after = 'two': must be an integer");
    refuse(usual, "\"layer\":\"-1\"", "metadata layer = '-1': must be an integer from 0");
    refuse(usual, "\"layer\":\"\"", "metadata layer = '': must be an integer");
    refuse(usual, "\"step\":\"3.5\"", "metadata step = '3.5': must be an integer");
    refuse(usual, "\"head_begin\":\"4294967296\"", "metadata head_begin = '4294967296'");
    refuse(usual, "\"causal\":\"true\"", "metadata causal = 'true': must be none, top-left or bottom-right");
    refuse(usual, "\"scale\":\"0\"", "metadata scale = '0': must be a finite number above 0");
    refuse(usual, "\"scale\":\"inf\"", "metadata scale = 'inf'");
    refuse(usual, "\"scale\":\"nan\"", "metadata scale = 'nan'");
    refuse(usual, "\"scale\":\"0.1x\"", "metadata scale = '0.1x'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_everything), cmocka_unit_test(test_unaligned_data),
        cmocka_unit_test(test_defaults),         cmocka_unit_test(test_bad_shapes),
        cmocka_unit_test(test_bad_metadata),     cmocka_unit_test(test_tensors_that_do_not_fit_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
