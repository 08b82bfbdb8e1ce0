/* Property tests of the public API against the oracle: random cases, and what must hold for every method on each.
 *
 * A case is a pure function of its seed; on a failure the seed and the case are printed, and
 * SPARGE_TEST_SEED=<seed> SPARGE_TEST_CASES=1 runs that case alone. SPARGE_TEST_CASES lengthens a run,
 * SPARGE_TEST_BACKEND chooses the backend (default cpu), SPARGE_TEST_METHOD restricts test_property_methods and
 * test_property_runs to the methods named in it. */
#ifndef TESTS_KERNELS_PROPERTY_H
#define TESTS_KERNELS_PROPERTY_H

#include "oracle/oracle.h"
#include "sparge/sparge.h"

/* ---- Settings and failures ---- */

uint64_t property_seed(uint64_t fallback);
int64_t property_cases(int64_t fallback);

/* Failures are printed and counted, so that one run shows more than the first. */
typedef struct property_run {
    const char *program; /* for the rerun command */
    sparge_context *context;
    uint64_t seed;          /* of the current case */
    char description[2048]; /* of the current case, method and parameters */
    int failures, printed;
    int64_t heads_compared; /* with the oracle, element by element */
    double tiles_skipped;   /* inside kernels, where the oracle's count was compared */
} property_run;

/* What is tested from here on. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
void property_describe(property_run *run, uint64_t seed, const char *format, ...);

/* Counts a failure unless `holds`, and prints the first of each description; returns `holds`. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
int property_check(property_run *run, int holds, const char *format, ...);

/* ---- The backend under test (property_backend.c) ---- */

const char *property_backend(void);

/* What a test program begins with: 0, or the exit code with which it ends: there is no device, or no method, to test. */
int property_start(void);

/* Is the method to be tested? `only`: names of methods in one string; NULL for all. */
int property_wants(const sparge_method *method, const char *only);

/* Does the backend answer that it does not have the method? Fails the test where that is not what is expected of it. A
 * mask file is written below `folder`. */
int property_lacks(sparge_context *context, const sparge_method *method, const char *folder);

/* ---- Cases (property_case.c) ---- */

typedef enum property_content {
    CONTENT_NORMAL = 0,
    CONTENT_PEAKED,        /* large Q: a few keys take all the weight */
    CONTENT_BLOCKY,        /* runs of 32 tokens resemble each other, so that block selection has something to find */
    CONTENT_K_OFFSET,      /* one large constant per channel of K */
    CONTENT_ZERO_K,        /* uniform attention */
    CONTENT_CONSTANT_K,    /* the same, with non-zero scores */
    CONTENT_ZERO_CHANNELS, /* some channels of Q, K and V are zero */
    CONTENT_CONSTANT_CHANNELS, /* some channels of K and V are constant */
    CONTENT_ZERO_ROWS,         /* some tokens of Q and K are zero: no direction */
    CONTENT_LARGE_V,           /* up to 60000 */
    CONTENT_TINY,              /* around the smallest normal f16 */
    CONTENT_HUGE_SCORES,       /* up to 10^7: one key takes all, differences far beyond the range of exp */
    CONTENT_RISING,            /* magnitudes of K and V grow along the sequence: the last tokens set the scales */
    CONTENT_COUNT
} property_content;

/* A 16-bit tensor inside a larger allocation whose rest is poisoned with NaN. */
typedef struct property_tensor {
    sparge_tensor view;  /* data: backend memory */
    uint16_t *host;      /* the whole allocation */
    uint8_t *inside;     /* 1 where the view has an element */
    size_t count, first; /* elements of the allocation; the view's first */
    void *memory;        /* backend memory of the whole allocation */
} property_tensor;

typedef struct property_case {
    uint64_t seed;
    sparge_problem problem;
    property_content content;
    property_tensor q, k, v, o;
    double *q_values, *k_values, *v_values; /* [B][H][L][D] */
    float *lse_memory;                      /* backend memory, with guards */
    size_t lse_count;
    char text[512];
} property_case;

/* Shapes, contents and strides from the seed. */
void property_case_create(property_case *c, sparge_context *context, uint64_t seed);
void property_case_release(property_case *c, sparge_context *context);

enum { PROPERTY_LSE_GUARD = 16 };

/* The io of a run into freshly poisoned outputs. */
sparge_io property_case_io(property_case *c, sparge_context *context);

/* What a run left: o [B][Hq][Lq][D] as 16-bit codes and lse [B][Hq][Lq]; dense copies, to be freed. Checks that nothing
 * outside the views was written. */
typedef struct property_output {
    uint16_t *o;
    float *lse;
    size_t o_count, lse_count;
} property_output;

property_output property_case_output(property_run *run, property_case *c);
void property_output_release(property_output *output);
int property_output_equal(const property_output *a, const property_output *b); /* bit by bit */

oracle_shape property_shape(const sparge_problem *problem);
oracle_format property_format(sparge_dtype dtype);

/* Head `head` of a dense [B][H][L][D] array. */
const double *property_head(const double *values, const sparge_problem *problem, int64_t heads, int64_t tokens,
                            int64_t batch, int64_t head);

/* ---- Parameters (property_params.c) ---- */

/* Which parameters may leave their defaults. */
typedef enum property_freedom {
    PROPERTY_DEFAULTS = 0,
    PROPERTY_ANY,       /* each with probability 0.4 */
    PROPERTY_WITH_SKIP, /* the same, and in-kernel skipping always on */
    PROPERTY_UPSTREAM,  /* the same, and parity mode always on: for methods that have it */
} property_freedom;

/* New parameters of the method. Those that need a file get one: a random block mask, written below `folder`. `text`
 * describes what was set. */
sparge_params *property_params_create(const sparge_method *method, const sparge_problem *problem,
                                      property_freedom freedom, oracle_rng *rng, const char *folder, char *text,
                                      size_t text_size);

/* ---- The properties of one finished run (property_expect.c) ---- */

void property_check_run(property_run *run, property_case *c, const sparge_params *params, sparge_plan *plan,
                        const property_output *output, oracle_rng *rng);

#endif
