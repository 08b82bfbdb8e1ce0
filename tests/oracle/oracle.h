/* The oracle: a naive reference for the tests, in float64, that shares no code with libsparge.
 *
 * It is written from the public headers, upstream.md (section 2) and the paper only, has its own number formats, random
 * numbers and visibility rule, and does everything the slow and obvious way. Arrays of one head are dense and row-major:
 * q, o [lq][dim], k, v [lk][dim], pairs [lq][lk]. */
#ifndef ORACLE_H
#define ORACLE_H

#include <stddef.h>
#include <stdint.h>

/* ---- Number formats (numbers.c). Encoding rounds to nearest, ties to the even code. ---- */

typedef enum oracle_format { ORACLE_F16 = 0, ORACLE_BF16, ORACLE_E4M3 } oracle_format;

double oracle_decode(oracle_format format, uint32_t code);

/* f16 and bf16 overflow to infinity, e4m3 saturates at 448. NaN gives a NaN. */
uint32_t oracle_encode(oracle_format format, double value);

double oracle_round(oracle_format format, double value);

/* Largest relative rounding error of a normal number, and largest absolute one of a subnormal. */
double oracle_unit_roundoff(oracle_format format);
double oracle_subnormal_roundoff(oracle_format format);

/* ---- Random numbers (random.c): splitmix64. ---- */

typedef struct oracle_rng {
    uint64_t state;
} oracle_rng;

oracle_rng oracle_rng_seed(uint64_t seed);
uint64_t oracle_rng_bits(oracle_rng *rng);
double oracle_rng_uniform(oracle_rng *rng);                          /* [0, 1) */
double oracle_rng_normal(oracle_rng *rng);                           /* mean 0, variance 1 */
int64_t oracle_rng_between(oracle_rng *rng, int64_t lo, int64_t hi); /* inclusive */

/* ---- Attention (attention.c) ---- */

typedef enum oracle_causal { ORACLE_FULL = 0, ORACLE_TOP_LEFT, ORACLE_BOTTOM_RIGHT } oracle_causal;

typedef struct oracle_shape { /* of one head */
    int64_t lq, lk, dim;
    oracle_causal causal;
    double scale;
} oracle_shape;

/* Does query i see key j? */
int oracle_visible(const oracle_shape *shape, int64_t i, int64_t j);
int64_t oracle_visible_pairs(const oracle_shape *shape);
int oracle_block_visible(const oracle_shape *shape, int64_t block_q, int64_t block_k, int64_t row, int64_t col);

/* KV head that query head h reads. */
int64_t oracle_kv_head(int64_t head_q, int64_t heads_q, int64_t heads_kv);

/* O = softmax(scale q k^T) v over the visible pairs with keep != 0 (NULL: all); a row without pairs gives 0 and -inf.
 * lse may be NULL. */
void oracle_attention(const oracle_shape *shape, const double *q, const double *k, const double *v, const uint8_t *keep,
                      double *o, double *lse);

/* ---- Error of a against the reference b (metrics.c) ---- */

typedef struct oracle_error {
    double rel_l1, rel_l2, cosine, rmse, max_abs; /* over the elements where both are finite */
    int64_t non_finite;                           /* elements where a is not */
} oracle_error;

oracle_error oracle_compare(const double *a, const double *b, int64_t count);

/* ---- Quantisers (quantise.c). `doubt` is how far a float32 implementation may land from `out`, because its quotient
 * can fall on the other side of a rounding boundary; 0 for most elements. ---- */

/* Tokens that share a scale: of one block, and with equal (token mod period) / width. {block, 1, 1}: all of a block. */
typedef struct oracle_sharing {
    int64_t block, period, width;
} oracle_sharing;

/* INT8 with scales s = max|x| / 127 + 1e-7 (upstream.md 2.7), rounded to the nearest integers; a
 * tie goes away from zero here, and `doubt` covers the other side. out = the dequantised values. input_error: absolute
 * error of x[.][d] in the implementation, NULL for exact inputs. Returns the largest relative error of a scale. */
double oracle_quantise_int8(const double *x, int64_t tokens, int64_t dim, oracle_sharing sharing,
                            const double *input_error, double *out, double *doubt);

/* e4m3 with one scale per channel that maps max|v| to `range`; out = the dequantised values. A zero channel stays 0. */
void oracle_quantise_e4m3(const double *v, int64_t tokens, int64_t dim, double range, double *out, double *doubt);

/* Token mean of k per channel, the smoothed k' = k - mean, and the error of k' with a mean summed in float32. */
void oracle_smooth(const double *k, int64_t tokens, int64_t dim, double *mean, double *smoothed, double *error);

/* ---- Skipping inside the kernel (skip.c) ---- */

typedef struct oracle_skip {
    int64_t block_q, block_k; /* a Q block's key tiles are taken in ascending order */
    int64_t unit;             /* query rows per vote */
    double lambda;            /* nats; a vote skips PV of a tile if max over its rows (m_local - m_new) < lambda */
    double margin;            /* votes that close to lambda may go either way in another arithmetic */
} oracle_skip;

typedef struct oracle_skip_result {
    double skipped;    /* blocks: each by the share of its votes that skipped */
    int64_t ambiguous; /* votes within the margin */
} oracle_skip_result;

/* pv: the pairs of `keep` whose PV product is computed [lq][lk]. */
oracle_skip_result oracle_skip_pv(const oracle_shape *shape, const oracle_skip *skip, const double *q, const double *k,
                                  const uint8_t *keep, uint8_t *pv);

/* ---- Error bounds (bound.c) ---- */

/* How an implementation computes. Score, row sum and PV accumulate in float32; scores are exact products of what q and k
 * hold. Derivation of the bounds: bound.c. */
typedef struct oracle_arithmetic {
    oracle_format p_format; /* of P before the PV product */
    double p_range;         /* P = 1 is stored as this: 1, or 448 for e4m3 */
    oracle_format o_format;
    double exp_error;   /* relative, of the exponential */
    double scale_error; /* relative, of the INT8 scales, on top of float32 rounding */
} oracle_arithmetic;

typedef struct oracle_expectation { /* all dense, memory of the caller */
    double *o, *lse;                /* as oracle_attention */
    double *o_bound;                /* |O' - O| cannot exceed it */
    double *lse_bound;              /* likewise; the row sum is taken before P is rounded */
    double *o_deviation; /* expected size of |O' - O| if rounding errors are independent, plus what is not random */
} oracle_expectation;

typedef struct oracle_inputs {
    const double *q, *k, *v;                   /* as the arithmetic sees them */
    const double *q_doubt, *k_doubt, *v_doubt; /* or NULL */
    const uint8_t *keep;                       /* pairs in the row sum; NULL = all visible */
    const uint8_t *keep_pv;                    /* pairs in the PV product; NULL = keep */
} oracle_inputs;

void oracle_expect(const oracle_shape *shape, const oracle_inputs *in, const oracle_arithmetic *arithmetic,
                   const oracle_expectation *out);

/* malloc that ends the test program when there is no memory. */
void *oracle_alloc(size_t count, size_t bytes);

#endif
