/* Synthetic Q, K, V: the same numbers on every backend.
 *
 * A generator describes a distribution; the backend fills a tensor with it (sparge_generate). The random numbers come
 * from a counter-based generator (Philox4x32-10) keyed by seed, tensor role, head and element, and the arithmetic uses
 * correctly rounded IEEE operations only, contraction off: every backend writes the same bits.
 * The models are documented in docs/workloads.md. */
#ifndef SPARGE_GENERATE_H
#define SPARGE_GENERATE_H

#include "sparge/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sparge_generator_kind {
    SPARGE_GENERATE_NORMAL = 0, /* independent, mean 0, variance 1 */
    SPARGE_GENERATE_UNIFORM,    /* independent, uniform in [-1, 1) */
    SPARGE_GENERATE_STRUCTURED  /* smooth fields along the axes of the grid (or the sequence), noise, offsets, sinks */
} sparge_generator_kind;

typedef enum sparge_tensor_role { SPARGE_ROLE_Q = 0, SPARGE_ROLE_K, SPARGE_ROLE_V } sparge_tensor_role;

typedef struct sparge_generator {
    sparge_generator_kind kind;
    uint64_t seed;
    int32_t heads_q, heads_kv; /* the heads of one group share their field */
    sparge_grid grid;          /* t = h = w = 0: a plain sequence */
    /* The rest is read by SPARGE_GENERATE_STRUCTURED only. */
    float correlation;  /* 0..1: share of variance that comes from the smooth field, rest is independent noise */
    float scale_length; /* distance between the field's anchors: tokens, or grid cells per axis; 1..1e9 */
    float sharpness;    /* factor on Q: larger makes the softmax more peaked; above 0, up to 1e4 */
    float query_offset; /* size of a direction that all queries of a KV group share, which makes them alike in any token
                             order; 0..1e4 */
    float channel_offset; /* size of a constant per-channel offset of K (what K smoothing removes); 0..1e4 */
    float sink_strength;  /* extra score of the first sink_tokens keys for an average query, in nats at the scale
                             1/sqrt(head_dim); 0..1e4, above 0 only with query_offset > 0: else no average query exists */
    int32_t sink_tokens;  /* >= 0 */
    float head_spread;    /* 0..1: how much correlation and sharpness vary between heads */
} sparge_generator;

#ifdef __cplusplus
}
#endif
#endif
