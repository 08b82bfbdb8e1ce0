/* Random cases: shapes, contents and strided, poisoned memory. */
#include "property.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint16_t poison = 0x7fa5; /* a NaN in f16 and in bf16 */

uint64_t property_seed(uint64_t fallback)
{
    const char *text = getenv("SPARGE_TEST_SEED");

    return text ? strtoull(text, NULL, 0) : fallback;
}

int64_t property_cases(int64_t fallback)
{
    const char *text = getenv("SPARGE_TEST_CASES");

    return text ? strtoll(text, NULL, 0) : fallback;
}

void property_describe(property_run *run, uint64_t seed, const char *format, ...)
{
    va_list arguments;

    run->seed = seed;
    run->printed = 0;
    va_start(arguments, format);
    vsnprintf(run->description, sizeof run->description, format, arguments);
    va_end(arguments);
}

int property_check(property_run *run, int holds, const char *format, ...)
{
    va_list arguments;

    if (holds)
        return 1;
    run->failures++;
    if (run->printed)
        return 0;
    run->printed = 1;
    fprintf(stderr, "FAILED ");
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n    %s\n    rerun: SPARGE_TEST_BACKEND=%s SPARGE_TEST_SEED=%" PRIu64 " SPARGE_TEST_CASES=1 %s\n",
            run->description, property_backend(), run->seed, run->program);
    return 0;
}

oracle_format property_format(sparge_dtype dtype)
{
    return dtype == SPARGE_BF16 ? ORACLE_BF16 : ORACLE_F16;
}

oracle_shape property_shape(const sparge_problem *problem)
{
    static const oracle_causal causal[] = {ORACLE_FULL, ORACLE_TOP_LEFT, ORACLE_BOTTOM_RIGHT};

    return (oracle_shape){problem->seqlen_q, problem->seqlen_k, problem->head_dim, causal[problem->causal],
                          problem->scale > 0.0F ? (double)problem->scale : 1.0 / sqrt((double)problem->head_dim)};
}

const double *property_head(const double *values, const sparge_problem *problem, int64_t heads, int64_t tokens,
                            int64_t batch, int64_t head)
{
    return values + (batch * heads + head) * tokens * problem->head_dim;
}

/* ---- Shapes ---- */

static int64_t random_length(oracle_rng *rng)
{
    int64_t edge;

    switch (oracle_rng_between(rng, 0, 4)) {
    case 0: /* next to the edge of a block */
        edge = 64 * oracle_rng_between(rng, 0, 4) + oracle_rng_between(rng, -1, 2);
        return edge < 1 ? 1 : edge;
    case 1:
        return oracle_rng_between(rng, 1, 6);
    case 2:
        return oracle_rng_between(rng, 1, 300);
    default:
        return oracle_rng_between(rng, 1, 160);
    }
}

static void random_grid(sparge_problem *p, oracle_rng *rng)
{
    sparge_grid *g = &p->grid;

    g->t = (int32_t)oracle_rng_between(rng, 1, 4);
    g->h = (int32_t)oracle_rng_between(rng, 1, 8);
    g->w = (int32_t)oracle_rng_between(rng, 1, 8);
    if (oracle_rng_between(rng, 0, 1)) {
        g->text_before = (int32_t)oracle_rng_between(rng, 0, 20);
        g->text_after = (int32_t)oracle_rng_between(rng, 0, 20);
    }
    p->seqlen_q = p->seqlen_k = (int64_t)g->t * g->h * g->w + g->text_before + g->text_after;
}

static void random_problem(sparge_problem *p, oracle_rng *rng)
{
    static const int32_t dims[] = {1, 40, 64, 64, 96, 128, 128};

    memset(p, 0, sizeof *p);
    p->batch = (int32_t)oracle_rng_between(rng, 1, 3);
    p->heads_kv = (int32_t)oracle_rng_between(rng, 1, 2);
    p->heads_q = p->heads_kv * (int32_t)oracle_rng_between(rng, 1, 4);
    p->seqlen_q = random_length(rng);
    p->seqlen_k = oracle_rng_between(rng, 0, 1) ? p->seqlen_q : random_length(rng);
    if (oracle_rng_between(rng, 0, 9) == 0) /* the causal edge near a corner of the block grid */
        p->seqlen_k = p->seqlen_q + 64 * oracle_rng_between(rng, 0, 2) + oracle_rng_between(rng, 0, 3);
    p->head_dim = dims[oracle_rng_between(rng, 0, 6)];
    p->dtype = oracle_rng_between(rng, 0, 1) ? SPARGE_F16 : SPARGE_BF16;
    p->causal = (sparge_causal)oracle_rng_between(rng, SPARGE_CAUSAL_NONE, SPARGE_CAUSAL_BOTTOM_RIGHT);
    if (oracle_rng_between(rng, 0, 3) == 0)
        p->scale = (float)(0.05 + 0.3 * oracle_rng_uniform(rng));
    if (oracle_rng_between(rng, 0, 4) == 0) {
        random_grid(p, rng);
        if (oracle_rng_between(rng, 0, 3) > 0)
            p->causal = SPARGE_CAUSAL_NONE;
    }
}

/* ---- Contents ---- */

typedef enum role { ROLE_Q, ROLE_K, ROLE_V } role;

/* place: 0 at the first token, towards 1 at the last. */
static double random_value(property_content content, role r, const double *anchor, double channel, int64_t d,
                           double place, oracle_rng *rng)
{
    double x = oracle_rng_normal(rng);

    switch (content) {
    case CONTENT_PEAKED:
        return r == ROLE_Q ? 6.0 * x : x;
    case CONTENT_BLOCKY:
        return r == ROLE_V ? x : 2.0 * anchor[d] + 0.3 * x;
    case CONTENT_K_OFFSET:
        return r == ROLE_K ? x + 30.0 * channel : x;
    case CONTENT_ZERO_K:
        return r == ROLE_K ? 0.0 : x;
    case CONTENT_CONSTANT_K:
        return r == ROLE_K ? channel : x;
    case CONTENT_ZERO_CHANNELS:
        return d % 3 == (int64_t)r ? 0.0 : x;
    case CONTENT_CONSTANT_CHANNELS:
        return r != ROLE_Q && d % 2 == 0 ? channel : x;
    case CONTENT_LARGE_V:
        return r == ROLE_V ? 60000.0 * (2.0 * oracle_rng_uniform(rng) - 1.0) : x;
    case CONTENT_TINY:
        return 0x1p-14 * x;
    case CONTENT_HUGE_SCORES:
        return r == ROLE_V ? x : 3000.0 * x;
    case CONTENT_RISING:
        return r == ROLE_Q ? x : x * (1.0 + (r == ROLE_V ? 30.0 : 3.0) * place * place * place);
    case CONTENT_NORMAL:
    case CONTENT_ZERO_ROWS:
    case CONTENT_COUNT:
        break;
    }
    return x;
}

static double *random_values(const property_case *c, role r, oracle_rng *rng)
{
    const sparge_problem *p = &c->problem;
    oracle_format format = property_format(p->dtype);
    int64_t heads = r == ROLE_Q ? p->heads_q : p->heads_kv, tokens = r == ROLE_Q ? p->seqlen_q : p->seqlen_k;
    int64_t dim = p->head_dim;
    double *values = oracle_alloc((size_t)(p->batch * heads * tokens * dim), sizeof *values);
    double anchor[SPARGE_MAX_HEAD_DIM] = {0}, channel[SPARGE_MAX_HEAD_DIM];

    for (int64_t head = 0; head < p->batch * heads; head++) {
        for (int64_t d = 0; d < dim; d++)
            channel[d] = oracle_rng_normal(rng);
        for (int64_t t = 0; t < tokens; t++) {
            int zero_row = c->content == CONTENT_ZERO_ROWS && r != ROLE_V && oracle_rng_between(rng, 0, 3) == 0;

            for (int64_t d = 0; t % 32 == 0 && d < dim; d++)
                anchor[d] = oracle_rng_normal(rng);
            for (int64_t d = 0; d < dim; d++) {
                double x = random_value(c->content, r, anchor, channel[d], d, (double)t / (double)tokens, rng);

                values[(head * tokens + t) * dim + d] = zero_row ? 0.0 : oracle_round(format, x);
            }
        }
    }
    return values;
}

/* ---- Memory ---- */

static void place(property_tensor *t, sparge_context *context, const sparge_problem *p, int64_t heads, int64_t tokens,
                  int nhd, oracle_rng *rng)
{
    static const int64_t gaps[] = {0, 0, 1, 8};
    int64_t gap[3], dim = p->head_dim, inner, outer;
    size_t bytes;

    for (size_t i = 0; i < 3; i++)
        gap[i] = gaps[oracle_rng_between(rng, 0, 3)];
    inner = dim + gap[0];
    outer = (nhd ? heads : tokens) * inner + gap[1];
    memset(t, 0, sizeof *t);
    t->view.dtype = p->dtype;
    t->view.shape[0] = p->batch;
    t->view.shape[1] = heads;
    t->view.shape[2] = tokens;
    t->view.shape[3] = dim;
    t->view.stride[0] = (nhd ? tokens : heads) * outer + gap[2];
    t->view.stride[1] = nhd ? inner : outer;
    t->view.stride[2] = nhd ? outer : inner;
    t->view.stride[3] = 1;
    t->first = (size_t)(oracle_rng_between(rng, 0, 1) ? 64 : oracle_rng_between(rng, 64, 80));
    t->count = t->first + (size_t)(p->batch * t->view.stride[0]) + 64;
    t->host = oracle_alloc(t->count, sizeof *t->host);
    t->inside = oracle_alloc(t->count, 1);
    bytes = t->count * sizeof *t->host;
    if (sparge_alloc(context, bytes, &t->memory) != SPARGE_OK) {
        fprintf(stderr, "%s\n", sparge_error_string(context));
        abort();
    }
    t->view.data = (uint16_t *)t->memory + t->first;
    for (size_t i = 0; i < t->count; i++)
        t->host[i] = poison;
}

static size_t element(const property_tensor *t, int64_t b, int64_t h, int64_t token, int64_t d)
{
    const int64_t *stride = t->view.stride;

    return t->first + (size_t)(b * stride[0] + h * stride[1] + token * stride[2] + d);
}

/* Element `i` of the dense order. */
static size_t dense_element(const property_tensor *t, int64_t i)
{
    const int64_t *shape = t->view.shape;

    return element(t, i / (shape[3] * shape[2] * shape[1]), i / (shape[3] * shape[2]) % shape[1],
                   i / shape[3] % shape[2], i % shape[3]);
}

static int64_t elements(const property_tensor *t)
{
    return t->view.shape[0] * t->view.shape[1] * t->view.shape[2] * t->view.shape[3];
}

static void store(property_tensor *t, sparge_context *context, const double *values)
{
    for (int64_t i = 0; i < elements(t); i++) {
        size_t at = dense_element(t, i);

        t->inside[at] = 1;
        if (values)
            t->host[at] = (uint16_t)oracle_encode(property_format(t->view.dtype), values[i]);
    }
    sparge_upload(context, t->memory, t->host, t->count * sizeof *t->host);
}

void property_case_create(property_case *c, sparge_context *context, uint64_t seed)
{
    static const char *const contents[] = {
        "normal",    "peaked",  "blocky", "K offset",    "zero K", "constant K", "zero channels", "constant channels",
        "zero rows", "large V", "tiny",   "huge scores", "rising"};
    oracle_rng rng = oracle_rng_seed(seed);
    const sparge_problem *p = &c->problem;
    int nhd;

    rng.state = oracle_rng_bits(&rng); /* neighbouring seeds must not give shifted sequences */
    memset(c, 0, sizeof *c);
    c->seed = seed;
    random_problem(&c->problem, &rng);
    if (oracle_rng_between(&rng, 0, 3) == 0) /* more of those with meaningful error statistics */
        c->content = oracle_rng_between(&rng, 0, 1) ? CONTENT_NORMAL : CONTENT_BLOCKY;
    else
        c->content = (property_content)oracle_rng_between(&rng, 0, CONTENT_COUNT - 1);
    nhd = (int)oracle_rng_between(&rng, 0, 1);
    c->q_values = random_values(c, ROLE_Q, &rng);
    c->k_values = random_values(c, ROLE_K, &rng);
    c->v_values = random_values(c, ROLE_V, &rng);
    place(&c->q, context, p, p->heads_q, p->seqlen_q, nhd, &rng);
    place(&c->k, context, p, p->heads_kv, p->seqlen_k, nhd, &rng);
    place(&c->v, context, p, p->heads_kv, p->seqlen_k, nhd, &rng);
    place(&c->o, context, p, p->heads_q, p->seqlen_q, nhd, &rng);
    store(&c->q, context, c->q_values);
    store(&c->k, context, c->k_values);
    store(&c->v, context, c->v_values);
    store(&c->o, context, NULL);
    c->lse_count = (size_t)(p->batch * p->heads_q * p->seqlen_q);
    if (sparge_alloc(context, (c->lse_count + 2 * PROPERTY_LSE_GUARD) * sizeof(float), (void **)&c->lse_memory) !=
        SPARGE_OK) {
        fprintf(stderr, "%s\n", sparge_error_string(context));
        abort();
    }
    snprintf(c->text, sizeof c->text,
             "B%d Hq%d Hkv%d Lq%" PRId64 " Lk%" PRId64 " D%d %s causal=%s scale=%g grid=%dx%dx%d+%d+%d %s %s", p->batch,
             p->heads_q, p->heads_kv, p->seqlen_q, p->seqlen_k, p->head_dim, sparge_dtype_name(p->dtype),
             sparge_causal_name(p->causal), (double)p->scale, p->grid.t, p->grid.h, p->grid.w, p->grid.text_before,
             p->grid.text_after, contents[c->content], nhd ? "NHD" : "HND");
}

static void discard(property_tensor *t, sparge_context *context)
{
    sparge_free(context, t->memory);
    free(t->host);
    free(t->inside);
}

void property_case_release(property_case *c, sparge_context *context)
{
    discard(&c->q, context);
    discard(&c->k, context);
    discard(&c->v, context);
    discard(&c->o, context);
    sparge_free(context, c->lse_memory);
    free(c->q_values);
    free(c->k_values);
    free(c->v_values);
    memset(c, 0, sizeof *c);
}

/* ---- Runs ---- */

sparge_io property_case_io(property_case *c, sparge_context *context)
{
    for (size_t i = 0; i < c->o.count; i++)
        c->o.host[i] = poison;
    sparge_upload(context, c->o.memory, c->o.host, c->o.count * sizeof *c->o.host);
    sparge_fill(context, c->lse_memory, 0xff, (c->lse_count + 2 * PROPERTY_LSE_GUARD) * sizeof(float));
    return (sparge_io){c->q.view, c->k.view, c->v.view, c->o.view, c->lse_memory + PROPERTY_LSE_GUARD};
}

property_output property_case_output(property_run *run, property_case *c)
{
    size_t guarded = c->lse_count + 2 * PROPERTY_LSE_GUARD;
    float *lse = oracle_alloc(guarded, sizeof *lse);
    property_output output = {.o_count = (size_t)elements(&c->o), .lse_count = c->lse_count};
    size_t written_outside = 0;

    output.o = oracle_alloc(output.o_count, sizeof *output.o);
    output.lse = oracle_alloc(output.lse_count, sizeof *output.lse);
    sparge_synchronize(run->context);
    sparge_download(run->context, c->o.host, c->o.memory, c->o.count * sizeof *c->o.host);
    sparge_download(run->context, lse, c->lse_memory, guarded * sizeof *lse);
    for (size_t i = 0; i < c->o.count; i++)
        written_outside += !c->o.inside[i] && c->o.host[i] != poison;
    property_check(run, written_outside == 0, "%zu elements outside O were written", written_outside);
    for (size_t i = 0; i < guarded; i++) {
        uint32_t bits;

        memcpy(&bits, &lse[i], sizeof bits);
        if (i >= PROPERTY_LSE_GUARD && i < guarded - PROPERTY_LSE_GUARD)
            output.lse[i - PROPERTY_LSE_GUARD] = lse[i];
        else
            property_check(run, bits == UINT32_MAX, "memory outside LSE was written");
    }
    for (size_t i = 0; i < output.o_count; i++)
        output.o[i] = c->o.host[dense_element(&c->o, (int64_t)i)];
    free(lse);
    return output;
}

void property_output_release(property_output *output)
{
    free(output->o);
    free(output->lse);
    memset(output, 0, sizeof *output);
}

int property_output_equal(const property_output *a, const property_output *b)
{
    return a->o_count == b->o_count && a->lse_count == b->lse_count &&
           memcmp(a->o, b->o, a->o_count * sizeof *a->o) == 0 &&
           memcmp(a->lse, b->lse, a->lse_count * sizeof *a->lse) == 0;
}
