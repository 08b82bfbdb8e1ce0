/* SHA-256 as FIPS 180-4 writes it; variable names are the standard's. */
#include "sha256.h"

#include <string.h>

enum { BLOCK_BYTES = 64, LENGTH_BYTES = 8 };

/* First 32 bits of the fractional parts of the cube roots of the first 64 primes (section 4.2.2). */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, unsigned n)
{
    return (x >> n) | (x << (32 - n));
}

static uint32_t load_big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static void compress(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64];
    for (int t = 0; t < 16; t++)
        w[t] = load_big_endian(block + 4 * t);
    for (int t = 16; t < 64; t++) {
        uint32_t x = w[t - 15], y = w[t - 2];
        uint32_t sigma0 = rotate_right(x, 7) ^ rotate_right(x, 18) ^ x >> 3;
        uint32_t sigma1 = rotate_right(y, 17) ^ rotate_right(y, 19) ^ y >> 10;
        w[t] = sigma1 + w[t - 7] + sigma0 + w[t - 16];
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int t = 0; t < 64; t++) {
        uint32_t sum1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
        uint32_t t1 = h + sum1 + ((e & f) ^ (~e & g)) + round_constants[t] + w[t];
        uint32_t sum0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
        uint32_t t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void sb_sha256_begin(sb_sha256 *hash)
{
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(hash->state, initial, sizeof initial);
    hash->length_bytes = 0;
}

void sb_sha256_update(sb_sha256 *hash, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    size_t used = (size_t)(hash->length_bytes % BLOCK_BYTES);
    hash->length_bytes += size;
    if (used > 0 && size >= BLOCK_BYTES - used) {
        memcpy(hash->block + used, p, BLOCK_BYTES - used);
        compress(hash->state, hash->block);
        p += BLOCK_BYTES - used;
        size -= BLOCK_BYTES - used;
        used = 0;
    }
    while (used == 0 && size >= BLOCK_BYTES) {
        compress(hash->state, p);
        p += BLOCK_BYTES;
        size -= BLOCK_BYTES;
    }
    if (size > 0)
        memcpy(hash->block + used, p, size);
}

void sb_sha256_end(sb_sha256 *hash, char hex[SB_SHA256_HEX_SIZE])
{
    static const uint8_t padding[BLOCK_BYTES] = {0x80};
    uint64_t length_bits = hash->length_bytes * 8;
    size_t used = (size_t)(hash->length_bytes % BLOCK_BYTES);
    size_t last_blocks = used < BLOCK_BYTES - LENGTH_BYTES ? 1 : 2;
    size_t pad = last_blocks * BLOCK_BYTES - LENGTH_BYTES - used;
    uint8_t length[LENGTH_BYTES];
    for (int i = 0; i < LENGTH_BYTES; i++)
        length[i] = (uint8_t)(length_bits >> (56 - 8 * i));
    sb_sha256_update(hash, padding, pad);
    sb_sha256_update(hash, length, sizeof length);

    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 64; i++)
        hex[i] = digits[hash->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    hex[64] = '\0';
}
