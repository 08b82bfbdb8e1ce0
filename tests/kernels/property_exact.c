/* sparge_exact, sparge_permute_tokens and sparge_generate against the oracle and their contracts. */
#include "property.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct fixture {
    property_run run;
} fixture;

static int set_up(void **state)
{
    fixture *f = oracle_alloc(1, sizeof *f);
    sparge_error error;

    *state = f;
    f->run.program = "test_property_exact";
    if (sparge_context_create(property_backend(), 0, 2, &f->run.context, &error) != SPARGE_OK)
        fail_msg("%s", error.text);
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    sparge_context_destroy(f->run.context);
    free(f);
    return 0;
}

/* Float64 in another order than the oracle's: relative to what the sums are made of, scores included, whose rounding is
 * amplified by the exponential. */
static void check_exact_head(property_run *run, const property_case *c, int64_t batch, int64_t query_head,
                             const double *o, const double *lse)
{
    const sparge_problem *p = &c->problem;
    oracle_shape shape = property_shape(p);
    int64_t kv = oracle_kv_head(query_head, p->heads_q, p->heads_kv);
    const double *q = property_head(c->q_values, p, p->heads_q, p->seqlen_q, batch, query_head);
    const double *k = property_head(c->k_values, p, p->heads_kv, p->seqlen_k, batch, kv);
    const double *v = property_head(c->v_values, p, p->heads_kv, p->seqlen_k, batch, kv);
    double *expected = oracle_alloc((size_t)(shape.lq * shape.dim), sizeof *expected);
    double *expected_lse = oracle_alloc((size_t)shape.lq, sizeof *expected_lse);
    double largest = 0.0;

    oracle_attention(&shape, q, k, v, NULL, expected, expected_lse);
    for (int64_t i = 0; i < shape.lk * shape.dim; i++)
        largest = fmax(largest, fabs(v[i]));
    for (int64_t i = 0; i < shape.lq; i++) {
        double size = 1.0, tolerance; /* of the row's scores before cancellation */

        for (int64_t j = 0; j < shape.lk; j++) {
            double sum = 0.0;

            for (int64_t d = 0; d < shape.dim; d++)
                sum += shape.scale * fabs(q[i * shape.dim + d] * k[j * shape.dim + d]);
            size = fmax(size, sum);
        }
        tolerance = 1e-14 * size;
        if (!property_check(run, lse[i] == expected_lse[i] || fabs(lse[i] - expected_lse[i]) <= tolerance,
                            "LSE of query %" PRId64 " is %.17g, not %.17g", i, lse[i], expected_lse[i]))
            break;
        for (int64_t d = 0; d < shape.dim; d++)
            property_check(run, fabs(o[i * shape.dim + d] - expected[i * shape.dim + d]) <= tolerance * largest,
                           "O of query %" PRId64 " channel %" PRId64 " is %.17g, not %.17g", i, d, o[i * shape.dim + d],
                           expected[i * shape.dim + d]);
    }
    free(expected_lse);
    free(expected);
}

/* Selected rows, repeated and out of order, have the bits that the full result has. */
static void check_rows(property_run *run, const property_case *c, const double *o, const double *lse, oracle_rng *rng)
{
    const sparge_problem *p = &c->problem;
    int64_t heads = (int64_t)p->batch * p->heads_q, dim = p->head_dim, rows[7];
    int64_t n = oracle_rng_between(rng, 1, 7);
    double *some = oracle_alloc((size_t)(heads * n * dim), sizeof *some);
    double *some_lse = oracle_alloc((size_t)(heads * n), sizeof *some_lse);

    for (int64_t i = 0; i < n; i++)
        rows[i] = oracle_rng_between(rng, 0, p->seqlen_q - 1);
    property_check(
        run, sparge_exact(run->context, p, &c->q.view, &c->k.view, &c->v.view, rows, n, some, some_lse) == SPARGE_OK,
        "selected rows: %s", sparge_error_string(run->context));
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < n; i++)
            property_check(
                run,
                memcmp(some + (h * n + i) * dim, o + (h * p->seqlen_q + rows[i]) * dim, (size_t)dim * sizeof *o) == 0 &&
                    memcmp(some_lse + h * n + i, lse + h * p->seqlen_q + rows[i], sizeof *lse) == 0,
                "query %" PRId64 " alone differs from the whole result", rows[i]);
    free(some_lse);
    free(some);
}

static void exact_equals_the_oracle(void **state)
{
    fixture *f = *state;
    property_run *run = &f->run;

    run->failures = 0;
    for (int64_t i = 0; i < property_cases(16); i++) {
        property_case c;
        uint64_t seed = property_seed(30000) + (uint64_t)i;
        oracle_rng rng = oracle_rng_seed(seed + 7);

        property_case_create(&c, run->context, seed);
        const sparge_problem *p = &c.problem;
        int64_t heads = (int64_t)p->batch * p->heads_q, dim = p->head_dim;
        double *o = oracle_alloc((size_t)(heads * p->seqlen_q * dim), sizeof *o);
        double *lse = oracle_alloc((size_t)(heads * p->seqlen_q), sizeof *lse);

        property_describe(run, seed, "%s | sparge_exact", c.text);
        if (property_check(run,
                           sparge_exact(run->context, p, &c.q.view, &c.k.view, &c.v.view, NULL, p->seqlen_q, o, lse) ==
                               SPARGE_OK,
                           "%s", sparge_error_string(run->context))) {
            for (int64_t h = 0; h < heads; h++)
                check_exact_head(run, &c, h / p->heads_q, h % p->heads_q, o + h * p->seqlen_q * dim,
                                 lse + h * p->seqlen_q);
            check_rows(run, &c, o, lse, &rng);
            property_check(run,
                           sparge_exact(run->context, p, &c.q.view, &c.k.view, &c.v.view, NULL, p->seqlen_q, o, NULL) ==
                               SPARGE_OK,
                           "without LSE: %s", sparge_error_string(run->context));
        }
        free(lse);
        free(o);
        property_case_release(&c, run->context);
    }
    assert_int_equal(run->failures, 0);
}

static uint16_t code_at(const property_tensor *t, int64_t b, int64_t h, int64_t token, int64_t d)
{
    const int64_t *stride = t->view.stride;

    return t->host[t->first + (size_t)(b * stride[0] + h * stride[1] + token * stride[2] + d)];
}

/* Q permuted into the place of O: both of the same shape, each with its own strides. */
static void permutation(void **state)
{
    fixture *f = *state;
    property_run *run = &f->run;

    run->failures = 0;
    for (int64_t i = 0; i < property_cases(16); i++) {
        property_case c;
        uint64_t seed = property_seed(31000) + (uint64_t)i;
        oracle_rng rng = oracle_rng_seed(seed);

        property_case_create(&c, run->context, seed);
        int64_t n = c.problem.seqlen_q, *source = oracle_alloc((size_t)n, sizeof *source);

        property_describe(run, seed, "%s | sparge_permute_tokens", c.text);
        for (int64_t t = 0; t < n; t++) { /* inside-out shuffle */
            int64_t other = oracle_rng_between(&rng, 0, t);

            source[t] = source[other];
            source[other] = t;
        }
        property_case_io(&c, run->context);
        property_check(run, sparge_permute_tokens(run->context, &c.q.view, &c.o.view, source) == SPARGE_OK, "%s",
                       sparge_error_string(run->context));
        property_output output = property_case_output(run, &c); /* checks the padding */
        for (int64_t b = 0, at = 0; b < c.problem.batch; b++)
            for (int64_t h = 0; h < c.problem.heads_q; h++)
                for (int64_t t = 0; t < n; t++)
                    for (int64_t d = 0; d < c.problem.head_dim; d++, at++)
                        property_check(run, output.o[at] == code_at(&c.q, b, h, source[t], d),
                                       "token %" PRId64 " should be %" PRId64, t, source[t]);
        property_output_release(&output);
        free(source);
        property_case_release(&c, run->context);
    }
    assert_int_equal(run->failures, 0);
}

static void permutation_of_f32(void **state)
{
    fixture *f = *state;
    static const int64_t source[] = {2, 0, 1};
    float from[2 * 3 * 2], to[2 * 3 * 2];
    void *a = NULL, *b = NULL;

    for (int i = 0; i < 12; i++)
        from[i] = (float)i + 0.5F;
    assert_int_equal(sparge_alloc(f->run.context, sizeof from, &a), SPARGE_OK);
    assert_int_equal(sparge_alloc(f->run.context, sizeof to, &b), SPARGE_OK);
    sparge_upload(f->run.context, a, from, sizeof from);
    sparge_tensor x = sparge_tensor_hnd(a, SPARGE_F32, 1, 2, 3, 2), y = sparge_tensor_nhd(b, SPARGE_F32, 1, 2, 3, 2);
    assert_int_equal(sparge_permute_tokens(f->run.context, &x, &y, source), SPARGE_OK);
    sparge_download(f->run.context, to, b, sizeof to);
    for (int h = 0; h < 2; h++)
        for (int t = 0; t < 3; t++)
            for (int d = 0; d < 2; d++)
                assert_true(to[t * 4 + h * 2 + d] == from[h * 6 + source[t] * 2 + d]);
    sparge_free(f->run.context, a);
    sparge_free(f->run.context, b);
}

/* ---- Generated numbers ---- */

enum { G_BATCH = 2, G_HEADS_Q = 4, G_HEADS_KV = 2, G_TOKENS = 300, G_DIM = 64 };

static sparge_generator generator(sparge_generator_kind kind, uint64_t seed)
{
    return (sparge_generator){.kind = kind,
                              .seed = seed,
                              .heads_q = G_HEADS_Q,
                              .heads_kv = G_HEADS_KV,
                              .correlation = 0.8F,
                              .scale_length = 16.0F,
                              .sharpness = 1.5F,
                              .channel_offset = 2.0F,
                              .query_offset = 1.0F,
                              .sink_strength = 3.0F,
                              .sink_tokens = 2,
                              .head_spread = 0.3F};
}

/* float32 numbers of a tensor [2, heads of the role, 300, 64]; to be freed. */
static float *generate(sparge_context *context, const sparge_generator *g, sparge_tensor_role role, size_t *count)
{
    int64_t heads = role == SPARGE_ROLE_Q ? G_HEADS_Q : G_HEADS_KV;
    void *memory = NULL;
    float *numbers;

    *count = (size_t)(G_BATCH * heads * G_TOKENS * G_DIM);
    numbers = oracle_alloc(*count, sizeof *numbers);
    assert_int_equal(sparge_alloc(context, *count * sizeof *numbers, &memory), SPARGE_OK);
    sparge_fill(context, memory, 0xff, *count * sizeof *numbers);
    sparge_tensor tensor = sparge_tensor_hnd(memory, SPARGE_F32, G_BATCH, heads, G_TOKENS, G_DIM);
    assert_int_equal(sparge_generate(context, g, role, &tensor), SPARGE_OK);
    sparge_download(context, numbers, memory, *count * sizeof *numbers);
    sparge_free(context, memory);
    return numbers;
}

static void generated_numbers_repeat(void **state)
{
    static const sparge_generator_kind kinds[] = {SPARGE_GENERATE_NORMAL, SPARGE_GENERATE_UNIFORM,
                                                  SPARGE_GENERATE_STRUCTURED};
    fixture *f = *state;
    sparge_context *single;
    sparge_error error;

    assert_int_equal(sparge_context_create(property_backend(), 0, 1, &single, &error), SPARGE_OK);
    for (size_t kind = 0; kind < 3; kind++) {
        for (int role = SPARGE_ROLE_Q; role <= SPARGE_ROLE_V; role++) {
            sparge_generator g = generator(kinds[kind], 42), other_seed = generator(kinds[kind], 43);
            size_t count, head = G_TOKENS * G_DIM, equal = 0;
            float *a = generate(f->run.context, &g, (sparge_tensor_role)role, &count);
            float *b = generate(single, &g, (sparge_tensor_role)role, &count);
            float *c = generate(f->run.context, &other_seed, (sparge_tensor_role)role, &count);

            assert_memory_equal(a, b, count * sizeof *a);
            for (size_t i = 0; i < count; i++) {
                assert_true(isfinite(a[i]));
                equal += a[i] == c[i];
            }
            assert_true(equal < count / 100);                            /* the seed matters */
            assert_memory_not_equal(a, a + head, head * sizeof *a);      /* the head matters */
            assert_memory_not_equal(a, a + count / 2, head * sizeof *a); /* the batch matters */
            free(a);
            free(b);
            free(c);
        }
    }
    sparge_context_destroy(single);
}

static void generated_roles_differ(void **state)
{
    fixture *f = *state;
    sparge_generator g = generator(SPARGE_GENERATE_NORMAL, 1);
    size_t count;
    float *k = generate(f->run.context, &g, SPARGE_ROLE_K, &count),
          *v = generate(f->run.context, &g, SPARGE_ROLE_V, &count);
    size_t equal = 0;

    for (size_t i = 0; i < count; i++)
        equal += k[i] == v[i];
    assert_true(equal < count / 100);
    free(k);
    free(v);
}

/* Mean, variance, fourth moment and correlation of neighbours of 153600 numbers: five standard errors. */
static void generated_distributions(void **state)
{
    static const struct {
        sparge_generator_kind kind;
        double variance, fourth;
    } cases[] = {{SPARGE_GENERATE_NORMAL, 1.0, 3.0}, {SPARGE_GENERATE_UNIFORM, 1.0 / 3.0, 1.0 / 5.0}};
    fixture *f = *state;

    for (size_t i = 0; i < 2; i++) {
        sparge_generator g = generator(cases[i].kind, 7);
        size_t count;
        float *x = generate(f->run.context, &g, SPARGE_ROLE_Q, &count);
        double n, mean = 0.0, square = 0.0, fourth = 0.0, along = 0.0, across = 0.0, error;

        n = (double)count;
        error = 5.0 / sqrt(n);
        for (size_t at = 0; at < count; at++) {
            double a = (double)x[at];

            mean += a / n;
            square += a * a / n;
            fourth += a * a * a * a / n;
            along += at + 1 < count ? a * (double)x[at + 1] / n : 0.0;
            across += at + G_DIM < count ? a * (double)x[at + G_DIM] / n : 0.0;
            if (cases[i].kind == SPARGE_GENERATE_UNIFORM)
                assert_true(x[at] >= -1.0F && x[at] < 1.0F);
        }
        assert_true(fabs(mean) < error * sqrt(cases[i].variance));
        assert_true(fabs(square - cases[i].variance) < error * sqrt(cases[i].fourth - square * square));
        assert_true(fabs(fourth - cases[i].fourth) < 12.0 * error); /* the eighth normal moment is 105 */
        assert_true(fabs(along) < error * cases[i].variance && fabs(across) < error * cases[i].variance);
        free(x);
    }
}

/* 16-bit tensors hold the same numbers, rounded. */
static void generated_dtypes_agree(void **state)
{
    static const sparge_dtype dtypes[] = {SPARGE_F16, SPARGE_BF16};
    fixture *f = *state;
    sparge_generator g = generator(SPARGE_GENERATE_NORMAL, 3);
    size_t count;
    float *x = generate(f->run.context, &g, SPARGE_ROLE_V, &count);

    for (size_t i = 0; i < 2; i++) {
        uint16_t *codes = oracle_alloc(count, sizeof *codes);
        void *memory = NULL;

        assert_int_equal(sparge_alloc(f->run.context, count * sizeof *codes, &memory), SPARGE_OK);
        sparge_tensor tensor = sparge_tensor_hnd(memory, dtypes[i], G_BATCH, G_HEADS_KV, G_TOKENS, G_DIM);
        assert_int_equal(sparge_generate(f->run.context, &g, SPARGE_ROLE_V, &tensor), SPARGE_OK);
        sparge_download(f->run.context, codes, memory, count * sizeof *codes);
        for (size_t at = 0; at < count; at++)
            assert_int_equal(codes[at], oracle_encode(property_format(dtypes[i]), (double)x[at]));
        sparge_free(f->run.context, memory);
        free(codes);
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_equals_the_oracle), cmocka_unit_test(permutation),
        cmocka_unit_test(permutation_of_f32),      cmocka_unit_test(generated_numbers_repeat),
        cmocka_unit_test(generated_roles_differ),  cmocka_unit_test(generated_distributions),
        cmocka_unit_test(generated_dtypes_agree),
    };
    const int nothing = property_start();

    if (nothing)
        return nothing;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
