/* Philox4x32-10: a counter-based random number generator (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy
 * as 1, 2, 3", SC 2011). Ten rounds of multiply, xor and swap turn a counter of 4 words and a key of 2 words into 4
 * random words; there is no state, so any element of any tensor can be made alone.
 *
 * The generators use the seed as the key. The counter says which number is wanted; see generate_words in model.h. */
#ifndef SPARGE_GENERATE_PHILOX_H
#define SPARGE_GENERATE_PHILOX_H

#include <stdint.h>

#include "generate/ieee.h"

typedef struct philox_words {
    uint32_t word[4];
} philox_words;

static inline SPARGE_HOST_DEVICE philox_words philox4x32(philox_words counter, uint64_t key)
{
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    uint32_t x0 = counter.word[0], x1 = counter.word[1], x2 = counter.word[2], x3 = counter.word[3];
    for (int round = 0; round < 10; round++) {
        uint64_t product0 = (uint64_t)0xd2511f53u * x0;
        uint64_t product1 = (uint64_t)0xcd9e8d57u * x2;
        x0 = (uint32_t)(product1 >> 32) ^ x1 ^ key0;
        x1 = (uint32_t)product1;
        x2 = (uint32_t)(product0 >> 32) ^ x3 ^ key1;
        x3 = (uint32_t)product0;
        key0 += 0x9e3779b9u; /* the key schedule: a Weyl sequence per word */
        key1 += 0xbb67ae85u;
    }
    const philox_words words = {{x0, x1, x2, x3}};
    return words;
}

#endif
