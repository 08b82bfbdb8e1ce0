/* The .safetensors reader: the corpus, malformed headers with the message each must give, and mutated files. */
#include "check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "safetensors.h"
#include "safetensors_walk.h"

#define CORPUS SPARGE_SOURCE_DIR "/tests/workloads/corpus"

typedef struct malformed {
    const char *header;
    size_t data_bytes;
    const char *message; /* a part of it */
} malformed;

#define ENTRY(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const malformed cases[] = {
    {"", 0, "header is not valid JSON"},
    {"null", 0, "header is not"},
    {"\"text\"", 0, "header is not"},
    {"[]", 0, "header is not a JSON object"},
    {"{\"x\":", 0, "header is not valid JSON"},
    {"{}}", 0, "end of file expected"},
    {"{} {}", 0, "end of file expected"},
    {"{\"x\":" ENTRY("U8", "[0]", "[0,0]") ",\"x\":" ENTRY("U8", "[0]", "[0,0]") "}", 0, "duplicate object key"},
    {"{\"x\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "duplicate object key"},
    {"{\"x\":" ENTRY("U8", "[NaN]", "[0,0]") "}", 0, "header is not valid JSON"},
    {"{\"x\":" ENTRY("U8", "[Infinity]", "[0,0]") "}", 0, "header is not valid JSON"},
    {"{\"x\":" ENTRY("U8", "[99999999999999999999]", "[0,0]") "}", 0, "header is not valid JSON"},
    {"{\"\\u0000\":1}", 0, "header is not valid JSON"},
    {"{\"x\":7}", 0, "tensor 'x': its entry is not an object"},
    {"{\"x\":[]}", 0, "tensor 'x': its entry is not an object"},
    {"{\"x\":{\"shape\":[],\"data_offsets\":[0,0]}}", 0, "tensor 'x': no dtype"},
    {"{\"x\":{\"dtype\":\"U8\",\"data_offsets\":[0,0]}}", 0, "tensor 'x': no shape"},
    {"{\"x\":{\"dtype\":\"U8\",\"shape\":[]}}", 0, "tensor 'x': no data_offsets"},
    {"{\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"more\":1}}", 0, "tensor 'x': keys other than"},
    {"{\"x\":{\"dtype\":8,\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "tensor 'x': dtype is not a string"},
    {"{\"x\":" ENTRY("F99", "[1]", "[0,1]") "}", 1, "tensor 'x': unknown dtype 'F99'"},
    {"{\"x\":" ENTRY("f32", "[1]", "[0,4]") "}", 4, "tensor 'x': unknown dtype 'f32'"},
    {"{\"x\":" ENTRY("", "[1]", "[0,4]") "}", 4, "tensor 'x': unknown dtype ''"},
    {"{\"x\":" ENTRY("U8", "3", "[0,3]") "}", 3, "tensor 'x': shape is not an array"},
    {"{\"x\":" ENTRY("U8", "{}", "[0,3]") "}", 3, "tensor 'x': shape is not an array"},
    {"{\"x\":" ENTRY("U8", "[1.0]", "[0,1]") "}", 1, "tensor 'x': shape[0] is not an integer"},
    {"{\"x\":" ENTRY("U8", "[1,\"2\"]", "[0,2]") "}", 2, "tensor 'x': shape[1] is not an integer"},
    {"{\"x\":" ENTRY("U8", "[1,true]", "[0,2]") "}", 2, "tensor 'x': shape[1] is not an integer"},
    {"{\"x\":" ENTRY("U8", "[-1]", "[0,0]") "}", 0, "tensor 'x': shape[0] is negative: -1"},
    {"{\"x\":" ENTRY("U8", "[2,-3]", "[0,0]") "}", 0, "tensor 'x': shape[1] is negative: -3"},
    {"{\"x\":" ENTRY("U8", "[9223372036854775807,2]", "[0,0]") "}", 0,
     "tensor 'x': the product of its shape overflows"},
    {"{\"x\":" ENTRY("U8", "[4294967296,4294967296]", "[0,0]") "}", 0, "the product of its shape overflows"},
    {"{\"x\":" ENTRY("U8", "[4294967296,2147483648]", "[0,0]") "}", 0, "the product of its shape overflows"},
    {"{\"x\":" ENTRY("F64", "[9223372036854775807]", "[0,0]") "}", 0, "tensor 'x': its size in bits overflows"},
    {"{\"x\":" ENTRY("F4", "[3]", "[0,2]") "}", 2, "tensor 'x': it does not end on a whole byte"},
    {"{\"x\":" ENTRY("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, "tensor 'x': rank 9, the limit is 8"},
    {"{\"x\":" ENTRY("F32", "[2]", "[0,4]") "}", 4, "dtype F32 and shape need 8 bytes, data_offsets give 4"},
    {"{\"x\":" ENTRY("U8", "[]", "[0,0]") "}", 0, "dtype U8 and shape need 1 bytes, data_offsets give 0"},
    {"{\"x\":" ENTRY("U8", "[1]", "0") "}", 1, "tensor 'x': data_offsets is not an array of two"},
    {"{\"x\":" ENTRY("U8", "[1]", "[0]") "}", 1, "tensor 'x': data_offsets is not an array of two"},
    {"{\"x\":" ENTRY("U8", "[1]", "[0,1,1]") "}", 1, "tensor 'x': data_offsets is not an array of two"},
    {"{\"x\":" ENTRY("U8", "[1]", "[0,1.0]") "}", 1, "tensor 'x': data_offsets are not integers"},
    {"{\"x\":" ENTRY("U8", "[1]", "[-1,0]") "}", 1, "data_offsets [-1, 0] are not an ascending range"},
    {"{\"x\":" ENTRY("U8", "[1]", "[1,0]") "}", 1, "data_offsets [1, 0] are not an ascending range"},
    {"{\"x\":" ENTRY("U8", "[4]", "[0,4]") "}", 3, "data_offsets [0, 4] go past the file's 3 bytes of data"},
    {"{\"x\":" ENTRY("U8", "[4]", "[9223372036854775803,9223372036854775807]") "}", 4, "go past the file's 4 bytes"},
    {"{\"x\":" ENTRY("U8", "[4]", "[0,4]") ",\"y\":" ENTRY("U8", "[4]", "[2,6]") "}", 6,
     "tensor 'y': overlaps tensor 'x' at byte 2"},
    {"{\"x\":" ENTRY("U8", "[4]", "[0,4]") ",\"y\":" ENTRY("U8", "[4]", "[0,4]") "}", 4,
     "tensor 'y': overlaps tensor 'x' at byte 0"},
    {"{\"x\":" ENTRY("U8", "[2]", "[0,2]") ",\"y\":" ENTRY("U8", "[2]", "[4,6]") "}", 6,
     "tensor 'y': a hole of 2 bytes before it, at byte 2"},
    {"{\"x\":" ENTRY("U8", "[2]", "[1,3]") "}", 3, "tensor 'x': a hole of 1 bytes before it, at byte 0"},
    {"{\"x\":" ENTRY("U8", "[0]", "[1,1]") "}", 1, "tensor 'x': a hole of 1 bytes before it"},
    {"{\"x\":" ENTRY("U8", "[2]", "[0,2]") "}", 5, "3 bytes after the last tensor"},
    {"{}", 1, "1 bytes after the last tensor"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
    {"{\"__metadata__\":{\"layer\":3}}", 0, "__metadata__ 'layer' is not a string"},
    {"{\"__metadata__\":{\"a\":\"b\",\"c\":null}}", 0, "__metadata__ 'c' is not a string"},
    {"{\"a\\nb\\u001b[2J\":7}", 0, "tensor 'a?b?[2J': its entry"},
    {"{\"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890\":7}", 0,
     "90123456789012345...': its entry"},
    /* a name cut at the limit must not be cut inside the three bytes of a character */
    {"{\"012345678901234567890123456789012345678901234567890123456789012345678901234\xe2\x82\xac\xe2\x82\xac\":7}", 0,
     "8901234...': its entry"},
};

static void expect_refusal(const void *bytes, size_t size, const char *message)
{
    st_file *file;
    sparge_error error;
    assert_int_equal(st_open_memory(bytes, size, "bad.safetensors", &file, &error), SPARGE_ERROR_IO);
    assert_null(file);
    if (!strstr(error.text, message) || strncmp(error.text, "bad.safetensors: ", 17) != 0)
        fail_msg("expected '%s' in '%s'", message, error.text);
}

static void test_malformed_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        image made = image_make(cases[i].header, NULL, cases[i].data_bytes);
        expect_refusal(made.bytes, made.size, cases[i].message);
        assert_int_equal(walk_safetensors(made.bytes, made.size), 0);
        image_free(&made);
    }
}

static void test_header_length(void **state)
{
    (void)state;
    image made = image_make("{\"x\":" ENTRY("U8", "[4]", "[0,4]") "}", NULL, 4);
    assert_int_equal(walk_safetensors(made.bytes, made.size), 1);
    /* every truncation is an error: of the length, of the header, of the data */
    for (size_t size = 0; size < made.size; size++) {
        unsigned char *cut = malloc(size + (size == 0));
        memcpy(cut, made.bytes, size);
        expect_refusal(cut, size,
                       size < 8               ? "too few for a .safetensors file"
                       : size < made.size - 4 ? "truncated: header of"
                                              : "go past the file's");
        free(cut);
    }
    made.bytes[7] = 0xff;
    expect_refusal(made.bytes, made.size, "the limit is 100000000");
    image_free(&made);
}

static void test_reads_what_is_there(void **state)
{
    (void)state;
    static const char header[] =
        "{\"__metadata__\":{\"model\":\"m\",\"empty\":\"\"},"
        "\"second\":" ENTRY("F16", "[2,3]", "[1,13]") ","
                                                      "\"none\":" ENTRY("F32", "[0,7]",
                                                                        "[13,13]") ","
                                                                                   "\"first\":" ENTRY("U8", "[1]",
                                                                                                      "[0,1]") "}   \n";
    image made = image_make(header, NULL, 13);
    st_file *file;
    sparge_error error;
    assert_int_equal(st_open_memory(made.bytes, made.size, "good", &file, &error), SPARGE_OK);
    assert_int_equal(st_count(file), 3);
    assert_string_equal(st_at(file, 0)->name, "first");
    assert_string_equal(st_at(file, 1)->name, "second");
    assert_string_equal(st_at(file, 2)->name, "none");
    assert_null(st_at(file, 3));
    const st_tensor *second = st_find(file, "second");
    assert_string_equal(second->dtype, "F16");
    assert_int_equal(second->rank, 2);
    assert_int_equal(second->shape[0], 2);
    assert_int_equal(second->shape[1], 3);
    assert_int_equal(second->bytes, 12);
    assert_int_equal(((const unsigned char *)second->data)[0], 1);
    assert_int_equal(((const unsigned char *)second->data)[11], 12);
    assert_null(st_find(file, "third"));
    assert_null(st_find(file, "__metadata__"));
    assert_string_equal(st_metadata(file, "model"), "m");
    assert_string_equal(st_metadata(file, "empty"), "");
    assert_null(st_metadata(file, "second"));
    st_close(file);
    image_free(&made);
}

static void test_files_that_cannot_be_mapped(void **state)
{
    (void)state;
    st_file *file;
    sparge_error error;
    assert_int_equal(st_open("/nonexistent/x.safetensors", &file, &error), SPARGE_ERROR_IO);
    assert_non_null(strstr(error.text, "/nonexistent/x.safetensors: No such file"));
    assert_int_equal(st_open("/tmp", &file, &error), SPARGE_ERROR_IO);
    assert_non_null(strstr(error.text, "/tmp: not a regular file"));
    assert_int_equal(st_open("/dev/zero", &file, &error), SPARGE_ERROR_IO);
    assert_non_null(strstr(error.text, "/dev/zero: not a regular file"));
    image empty = {0};
    empty.bytes = malloc(1);
    char *path = image_write_file(&empty, "empty");
    assert_int_equal(st_open(path, &file, &error), SPARGE_ERROR_IO);
    assert_non_null(strstr(error.text, "0 bytes are too few"));
    image_remove_file(path);
    image_free(&empty);
    st_close(NULL);
}

/* Calls `visit` for each file of the corpus; its name says whether it must open. */
static size_t for_corpus(void (*visit)(const char *name, const image *bytes, void *context), void *context)
{
    DIR *folder = opendir(CORPUS);
    assert_non_null(folder);
    size_t files = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        char path[512];
        snprintf(path, sizeof path, CORPUS "/%s", entry->d_name);
        image bytes = image_read_file(path);
        visit(entry->d_name, &bytes, context);
        image_free(&bytes);
        files++;
    }
    closedir(folder);
    return files;
}

static void check_corpus_file(const char *name, const image *bytes, void *context)
{
    (void)context;
    int valid = strncmp(name, "valid_", 6) == 0;
    if (walk_safetensors(bytes->bytes, bytes->size) != valid)
        fail_msg("corpus/%s must %s", name, valid ? "open" : "be refused");
}

static void test_corpus(void **state)
{
    (void)state;
    assert_true(for_corpus(check_corpus_file, NULL) >= 30);
}

typedef struct mutation_counts {
    int opened, refused;
} mutation_counts;

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* One to four changes: a bit, a byte, a digit, a piece removed or doubled. */
static size_t mutate(const image *from, unsigned char *to, uint32_t *random)
{
    size_t size = from->size;
    memcpy(to, from->bytes, size);
    for (uint32_t changes = 1 + next_random(random) % 4; changes > 0 && size > 0; changes--) {
        size_t at = next_random(random) % size, length = 1 + next_random(random) % 8;
        if (length > size - at)
            length = size - at;
        switch (next_random(random) % 6) {
        case 0:
            to[at] = (unsigned char)(to[at] ^ 1u << next_random(random) % 8);
            break;
        case 1:
            to[at] = (unsigned char)next_random(random);
            break;
        case 2:
            to[at] = (unsigned char)('0' + next_random(random) % 10);
            break;
        case 3:
            to[at] = (unsigned char)"{}[]:,\"-.e"[next_random(random) % 10];
            break;
        case 4:
            memmove(to + at, to + at + length, size - at - length);
            size -= length;
            break;
        default:
            if (size + length <= from->size + 64) {
                memmove(to + at + length, to + at, size - at);
                size += length;
            }
            break;
        }
    }
    return size;
}

static void mutate_corpus_file(const char *name, const image *bytes, void *context)
{
    mutation_counts *counts = context;
    if (strncmp(name, "valid_", 6) != 0)
        return;
    unsigned char *room = malloc(bytes->size + 64);
    assert_non_null(room);
    uint32_t random = (uint32_t)bytes->size;
    for (int round = 0; round < 2500; round++) {
        size_t size = mutate(bytes, room, &random);
        unsigned char *exact = malloc(size + (size == 0)); /* so that a read past the end is a read past a block */
        assert_non_null(exact);
        memcpy(exact, room, size);
        if (walk_safetensors(exact, size))
            counts->opened++;
        else
            counts->refused++;
        free(exact);
    }
    free(room);
}

static void test_mutations(void **state)
{
    (void)state;
    mutation_counts counts = {0};
    for_corpus(mutate_corpus_file, &counts);
    assert_true(counts.opened + counts.refused >= 20000);
    assert_true(counts.opened > 200); /* changed names, dtypes and data: still files */
    assert_true(counts.refused > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_malformed_headers),
        cmocka_unit_test(test_header_length),
        cmocka_unit_test(test_reads_what_is_there),
        cmocka_unit_test(test_files_that_cannot_be_mapped),
        cmocka_unit_test(test_corpus),
        cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
