/* Block masks: visibility of blocks by brute force, files round trip, malformed files are refused with a reason. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sparge/block_mask.h"

static char path[] = "/tmp/sparge-mask-XXXXXX";

static int make_path(void **state)
{
    (void)state;
    int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static sparge_problem problem_of(int64_t seqlen_q, int64_t seqlen_k, sparge_causal causal)
{
    return (sparge_problem){.batch = 2,
                            .heads_q = 3,
                            .heads_kv = 1,
                            .seqlen_q = seqlen_q,
                            .seqlen_k = seqlen_k,
                            .head_dim = 8,
                            .dtype = SPARGE_F16,
                            .causal = causal};
}

static void test_block_visibility_pair_by_pair(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 63, 64, 65, 128, 200, 300};
    for (int a = 0; a < 3; a++)
        for (size_t x = 0; x < 7; x++)
            for (size_t y = 0; y < 7; y++)
                for (int32_t bq = 64; bq <= 128; bq += 64)
                    for (int32_t bk = 64; bk <= 128; bk += 64) {
                        sparge_problem p = problem_of(lengths[x], lengths[y], (sparge_causal)a);
                        for (int64_t row = 0; row * bq < p.seqlen_q; row++)
                            for (int64_t col = 0; col * bk < p.seqlen_k; col++) {
                                int visible = 0;
                                for (int64_t i = row * bq; i < (row + 1) * bq && i < p.seqlen_q; i++)
                                    visible |= col * bk < sparge_problem_visible_end(&p, i);
                                assert_int_equal(sparge_block_visible(&p, bq, bk, row, col), visible);
                            }
                    }
}

static void test_files_round_trip(void **state)
{
    (void)state;
    sparge_problem p = problem_of(300, 1000, SPARGE_CAUSAL_NONE);
    sparge_block_mask mask, read;
    assert_int_equal(sparge_block_mask_create(&mask, &p, 128, 64, NULL), SPARGE_OK);
    assert_int_equal(mask.rows, 3);
    assert_int_equal(mask.cols, 16);
    size_t count = 2 * 3 * 3 * 16;
    for (size_t i = 0; i < count; i++)
        mask.value[i] = i * 7 % 3 == 0;
    assert_int_equal(sparge_block_mask_write(&mask, path, NULL), SPARGE_OK);
    assert_int_equal(sparge_block_mask_read(&read, path, 128, 64, NULL), SPARGE_OK);
    assert_int_equal(read.batch, 2);
    assert_int_equal(read.heads, 3);
    assert_int_equal(read.rows, 3);
    assert_int_equal(read.cols, 16);
    assert_memory_equal(read.value, mask.value, count);
    assert_int_equal(sparge_block_mask_check(&read, &p, NULL), SPARGE_OK);
    sparge_problem other = problem_of(300, 1025, SPARGE_CAUSAL_NONE);
    sparge_error error = {0};
    assert_int_equal(sparge_block_mask_check(&read, &other, &error), SPARGE_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "[2, 3, 3, 17]"));
    sparge_block_mask_release(&mask);
    sparge_block_mask_release(&read);
    sparge_block_mask_release(&read);
}

static void write_file(const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* A version-1 file with the given dict text and data of `count` bytes 2. */
static size_t compose(char *out, const char *dict, size_t count)
{
    size_t length = strlen(dict);
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)(length & 0xff);
    out[9] = (char)(length >> 8);
    memcpy(out + 10, dict, length);
    memset(out + 10 + length, 2, count);
    return 10 + length + count;
}

static void expect_error(const char *fragment)
{
    sparge_error error = {0};
    sparge_block_mask mask;
    assert_int_equal(sparge_block_mask_read(&mask, path, 64, 64, &error), SPARGE_ERROR_IO);
    assert_null(mask.value);
    if (!strstr(error.text, fragment) || !strstr(error.text, path))
        fail_msg("\"%s\" should name the file and say \"%s\"", error.text, fragment);
}

static void test_what_numpy_writes_is_read(void **state)
{
    (void)state;
    /* numpy 1.26: np.save of np.full((1, 2, 1, 3), 2, np.uint8): 128 bytes of header. */
    char bytes[512];
    char dict[119];
    memset(dict, ' ', sizeof dict);
    const char *text = "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 2, 1, 3), }";
    memcpy(dict, text, strlen(text));
    dict[117] = '\n';
    dict[118] = 0;
    write_file(bytes, compose(bytes, dict, 6));
    sparge_block_mask mask;
    assert_int_equal(sparge_block_mask_read(&mask, path, 64, 128, NULL), SPARGE_OK);
    assert_int_equal(mask.heads, 2);
    assert_int_equal(mask.cols, 3);
    for (int i = 0; i < 6; i++)
        assert_int_equal(mask.value[i], 1); /* any non-zero is 1 */
    sparge_block_mask_release(&mask);
}

static void test_malformed_files(void **state)
{
    (void)state;
    static const struct {
        const char *dict;
        size_t data;
        const char *fragment;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 4), }", 4, "bool or uint8"},
        {"{'fortran_order': False, 'shape': (1, 1, 1, 4), }", 4, "bool or uint8"},
        {"{'descr': '|u1', 'fortran_order': True, 'shape': (1, 1, 1, 4), }", 4, "C order"},
        {"{'descr': '|u1', 'fortran_order': False, }", 4, "shape"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 4), }", 4, "shape"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 4, 1), }", 4, "four axes"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 0, 1, 4), }", 4, "each >= 1"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (1, -1, 1, 4), }", 4, "each >= 1"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 99999999999999999999), }", 4, "each >= 1"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (2147483647, 2147483647, 2147483647, 2147483647), }", 4,
         "needs"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 4), }", 3, "holds 3 bytes"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 4), }", 5, "holds 5 bytes"},
        {"", 0, "bool or uint8"},
    };
    char bytes[512];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file(bytes, compose(bytes, cases[i].dict, cases[i].data));
        expect_error(cases[i].fragment);
    }
    write_file("", 0);
    expect_error("no .npy file");
    write_file("\x93NUMPY\x01\x00\xff\x00{'descr'", 18);
    expect_error("inside its header");
    write_file("\x93NUMPY\x09\x00\x01\x00 ", 11);
    expect_error("version");
    sparge_block_mask mask;
    sparge_error error = {0};
    assert_int_equal(sparge_block_mask_read(&mask, "/nonexistent/mask.npy", 64, 64, &error), SPARGE_ERROR_IO);
    assert_non_null(strstr(error.text, "/nonexistent/mask.npy"));
    assert_int_equal(sparge_block_mask_read(&mask, path, 32, 64, &error), SPARGE_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(error.text, "block_q = 32"));
}

/* Every prefix and every single-byte change of a good file gives a mask or an error, never a crash. */
static void test_mutated_files(void **state)
{
    (void)state;
    char bytes[256], changed[256];
    size_t size = compose(bytes, "{'descr': '|b1', 'fortran_order': False, 'shape': (1, 2, 2, 2), }\n", 8);
    for (size_t cut = 0; cut < size; cut++) {
        sparge_block_mask mask;
        write_file(bytes, cut);
        assert_int_not_equal(sparge_block_mask_read(&mask, path, 64, 64, NULL), SPARGE_OK);
    }
    for (size_t at = 0; at < size; at++)
        for (int value = 0; value < 256; value += 51) {
            sparge_block_mask mask;
            memcpy(changed, bytes, size);
            changed[at] = (char)value;
            write_file(changed, size);
            sparge_block_mask_read(&mask, path, 64, 64, NULL);
            sparge_block_mask_release(&mask);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_block_visibility_pair_by_pair),
        cmocka_unit_test(test_files_round_trip),
        cmocka_unit_test(test_what_numpy_writes_is_read),
        cmocka_unit_test(test_malformed_files),
        cmocka_unit_test(test_mutated_files),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
