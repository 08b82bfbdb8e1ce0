/* splitmix64 (Steele, Lea, Flood 2014): one multiply-xorshift hash of a counter. */
#include "oracle/oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

oracle_rng oracle_rng_seed(uint64_t seed)
{
    return (oracle_rng){seed};
}

uint64_t oracle_rng_bits(oracle_rng *rng)
{
    uint64_t z = rng->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

double oracle_rng_uniform(oracle_rng *rng)
{
    return (double)(oracle_rng_bits(rng) >> 11) * 0x1p-53;
}

double oracle_rng_normal(oracle_rng *rng)
{
    double radius = sqrt(-2.0 * log(1.0 - oracle_rng_uniform(rng))); /* Box-Muller; 1 - u is never 0 */

    return radius * cos(6.283185307179586477 * oracle_rng_uniform(rng));
}

int64_t oracle_rng_between(oracle_rng *rng, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(oracle_rng_bits(rng) % (uint64_t)(hi - lo + 1));
}

void *oracle_alloc(size_t count, size_t bytes)
{
    void *memory = calloc(count > 0 ? count : 1, bytes);

    if (!memory) {
        fprintf(stderr, "oracle: no memory for %zu x %zu bytes\n", count, bytes);
        abort();
    }
    return memory;
}
