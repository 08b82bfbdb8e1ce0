/* SHA-256 (FIPS 180-4) of a byte stream: names workloads and points by their content. */
#ifndef SUPPORT_SHA256_H
#define SUPPORT_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SB_SHA256_HEX_SIZE = 65 }; /* 64 lower-case hex digits and the terminator */

typedef struct sb_sha256 {
    uint32_t state[8];
    uint64_t length_bytes; /* taken in so far */
    uint8_t block[64];     /* the bytes that do not fill a block yet */
} sb_sha256;

void sb_sha256_begin(sb_sha256 *hash);
void sb_sha256_update(sb_sha256 *hash, const void *bytes, size_t size);
void sb_sha256_end(sb_sha256 *hash, char hex[SB_SHA256_HEX_SIZE]);

#endif
