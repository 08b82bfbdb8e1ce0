/* SHA-256 against the examples of FIPS 180-4 / NIST's CAVP and against itself cut into pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sha256.h"

static void assert_hash(const void *bytes, size_t size, const char *expected)
{
    sb_sha256 hash;
    char hex[SB_SHA256_HEX_SIZE];
    sb_sha256_begin(&hash);
    sb_sha256_update(&hash, bytes, size);
    sb_sha256_end(&hash, hex);
    assert_string_equal(hex, expected);
}

static void published_vectors(void **state)
{
    (void)state;
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    assert_hash("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_hash("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_hash(two_blocks, 56, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");

    size_t million = 1000000;
    char *letters = malloc(million);
    assert_non_null(letters);
    memset(letters, 'a', million);
    assert_hash(letters, million, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(letters);
}

/* Every way to cut 200 bytes in three gives the hash of the whole: all lengths of the partial block are met. */
static void pieces_hash_like_the_whole(void **state)
{
    (void)state;
    uint8_t bytes[200];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 37 + 11);
    for (size_t size = 0; size <= sizeof bytes; size += 5) {
        sb_sha256 hash;
        char whole[SB_SHA256_HEX_SIZE], cut[SB_SHA256_HEX_SIZE];
        sb_sha256_begin(&hash);
        sb_sha256_update(&hash, bytes, size);
        sb_sha256_end(&hash, whole);
        for (size_t a = 0; a <= size; a += 3) {
            for (size_t b = a; b <= size; b += 7) {
                sb_sha256_begin(&hash);
                sb_sha256_update(&hash, bytes, a);
                sb_sha256_update(&hash, bytes + a, b - a);
                sb_sha256_update(&hash, bytes + b, size - b);
                sb_sha256_end(&hash, cut);
                assert_string_equal(cut, whole);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors),
        cmocka_unit_test(pieces_hash_like_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
