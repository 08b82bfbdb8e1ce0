/* Generators and the exact reference of the CUDA backend against the CPU's: the same bits, and 1e-12. Needs a GPU. */
#include "cuda_case.h"

#include <math.h>
#include <string.h>

#include "cpu/generate/structured.h"

/* ---- generators ---- */

static const sparge_generator everything = {
    .kind = SPARGE_GENERATE_STRUCTURED,
    .seed = 0x123456789abcdef0,
    .heads_q = 6,
    .heads_kv = 2,
    .grid = {.t = 5, .h = 6, .w = 7, .text_before = 3, .text_after = 20},
    .correlation = 0.7f,
    .scale_length = 2.5f,
    .sharpness = 1.3f,
    .query_offset = 0.4f,
    .channel_offset = 1.5f,
    .sink_strength = 5.0f,
    .sink_tokens = 5,
    .head_spread = 0.6f,
};

static int64_t heads_of(const sparge_generator *generator, sparge_tensor_role role)
{
    return role == SPARGE_ROLE_Q ? generator->heads_q : generator->heads_kv;
}

static void check_generator(const cuda_case *c, const sparge_generator *generator, sparge_tensor_role role,
                            sparge_dtype dtype, int64_t batch, int64_t tokens, int64_t channels)
{
    sparge_tensor host = sparge_tensor_hnd(NULL, dtype, batch, heads_of(generator, role), tokens, channels);
    sparge_tensor device = host;
    const size_t bytes = tensor_bytes(&host), guard = 64;
    host.data = malloc(bytes);
    assert_non_null(host.data);
    expect_ok(c->cpu, sparge_generate(c->cpu, generator, role, &host));
    device.data = case_alloc(c->cuda, bytes + guard);
    expect_ok(c->cuda, sparge_fill(c->cuda, device.data, 0xee, bytes + guard));
    expect_ok(c->cuda, sparge_generate(c->cuda, generator, role, &device));
    unsigned char *back = case_download(c->cuda, device.data, bytes + guard);
    const unsigned char *expected = host.data;
    for (size_t i = 0; i < bytes; i++)
        if (back[i] != expected[i])
            fail_msg("kind %d role %d %s [%d, %d, %d, %d]: differs in element %zu", generator->kind, role,
                     sparge_dtype_name(dtype), (int)batch, (int)host.shape[1], (int)tokens, (int)channels,
                     i / sparge_dtype_bytes(dtype));
    for (size_t i = 0; i < guard; i++)
        assert_int_equal(back[bytes + i], 0xee);
    free(back);
    free(host.data);
    sparge_free(c->cuda, device.data);
}

static void check_every_type(const cuda_case *c, const sparge_generator *generator, int64_t batch, int64_t tokens,
                             int64_t channels)
{
    for (int role = SPARGE_ROLE_Q; role <= SPARGE_ROLE_V; role++)
        for (int dtype = SPARGE_F16; dtype <= SPARGE_F32; dtype++)
            check_generator(c, generator, (sparge_tensor_role)role, (sparge_dtype)dtype, batch, tokens, channels);
}

static const int64_t odd_channels[] = {1, 3, 13, 64, 66, 127, 128};
enum { ODD_CHANNELS = sizeof odd_channels / sizeof odd_channels[0] };

static void independent_bits_are_the_cpus(void **state)
{
    sparge_generator generator = {.seed = 77, .heads_q = 6, .heads_kv = 3};
    for (int kind = SPARGE_GENERATE_NORMAL; kind <= SPARGE_GENERATE_UNIFORM; kind++)
        for (int i = 0; i < ODD_CHANNELS; i++) {
            generator.kind = (sparge_generator_kind)kind;
            generator.seed = generator.seed * 0x9e3779b97f4a7c15u + 1;
            check_every_type(*state, &generator, 2, i % 2 ? 1 : 71, odd_channels[i]);
        }
}

static void structured_bits_are_the_cpus(void **state)
{
    for (int i = 0; i < ODD_CHANNELS; i++)
        check_every_type(*state, &everything, 2, 233, odd_channels[i]);

    sparge_generator sequence = everything; /* a plain sequence, an anchor at each token */
    sequence.grid = (sparge_grid){0};
    sequence.scale_length = 1;
    check_every_type(*state, &sequence, 1, 101, 128);
    check_every_type(*state, &sequence, 3, 1, 64); /* one token: no field at all */

    sparge_generator image = everything; /* axes of one cell, no text, no sinks */
    image.grid = (sparge_grid){.t = 1, .h = 9, .w = 1};
    image.sink_strength = 0;
    check_every_type(*state, &image, 1, 9, 64);

    sparge_generator text = everything; /* mostly text: rows on and off the grid within a warp */
    text.grid = (sparge_grid){.t = 1, .h = 1, .w = 1, .text_before = 1, .text_after = 31};
    text.correlation = 1;
    text.head_spread = 0;
    check_every_type(*state, &text, 2, 33, 72);
}

/* So many anchors that the tables of one launch hold some of the owners only. */
static void owners_in_several_launches(void **state)
{
    sparge_generator many = everything;
    many.grid = (sparge_grid){0};
    many.scale_length = 1;
    many.heads_q = 10;
    many.heads_kv = 5;
    check_generator(*state, &many, SPARGE_ROLE_Q, SPARGE_BF16, 1, 60000, 128);
    check_generator(*state, &many, SPARGE_ROLE_K, SPARGE_F16, 1, 60000, 128);
}

/* One row of Q as the CPU makes it. */
static void expected_row(const sparge_generator *generator, int64_t head, int64_t token, int64_t tokens, int channels,
                         float *row)
{
    if (generator->kind != SPARGE_GENERATE_STRUCTURED) {
        generate_normal_row(generator->seed, STREAM_Q, 0, head, token, channels, row);
        return;
    }
    const structured_layout layout = structured_layout_of(generator, tokens);
    const structured_head numbers = structured_head_make(generator, SPARGE_ROLE_Q, 0, head, channels);
    float *anchor = malloc((size_t)(layout.total * channels) * sizeof *anchor);
    assert_non_null(anchor);
    for (int64_t i = 0; i < layout.total; i++)
        structured_anchor(generator->seed, &layout, 0, numbers.group, i, channels, anchor + i * channels);
    const structured_rows rows = {generator->seed, SPARGE_ROLE_Q, channels, &layout, &numbers, anchor};
    structured_row(&rows, token, row);
    free(anchor);
}

static void check_rows(const cuda_case *c, const sparge_generator *generator, const sparge_tensor *q,
                       const int64_t *source)
{
    const int64_t heads = q->shape[1], tokens = q->shape[2];
    const int channels = (int)q->shape[3];
    const int64_t limit = ((int64_t)1 << 31) / channels; /* the row that holds element 2^31 */
    const int64_t rows[] = {0, tokens - 1, limit - 1, limit, limit + 1, heads * tokens - 1};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int64_t token = rows[i] % tokens;
        float row[SPARGE_MAX_HEAD_DIM];
        uint16_t got[SPARGE_MAX_HEAD_DIM];
        expected_row(generator, rows[i] / tokens, source ? source[token] : token, tokens, channels, row);
        expect_ok(c->cuda, sparge_download(c->cuda, got, (const uint16_t *)q->data + rows[i] * channels,
                                           (size_t)channels * sizeof got[0]));
        for (int d = 0; d < channels; d++)
            if (got[d] != sparge_bf16_from_f32(row[d]))
                fail_msg("kind %d: row %lld channel %d differs", generator->kind, (long long)rows[i], d);
    }
}

/* 2.4e9 elements: offsets, element counts and thread counts beyond 32 bits. */
static void more_than_2_to_31_elements(void **state)
{
    const cuda_case *c = *state;
    sparge_tensor q = sparge_tensor_hnd(NULL, SPARGE_BF16, 1, 30, 640007, 128), permuted = q;
    const size_t bytes = tensor_bytes(&q);
    if (sparge_alloc(c->cuda, bytes, &q.data) != SPARGE_OK ||
        sparge_alloc(c->cuda, bytes, &permuted.data) != SPARGE_OK) {
        print_message("not tried: %s\n", sparge_error_string(c->cuda));
        sparge_free(c->cuda, q.data);
        return;
    }
    sparge_generator generator = everything;
    generator.heads_q = generator.heads_kv = 30;
    generator.grid = (sparge_grid){0};
    generator.scale_length = 64;
    for (int kind = SPARGE_GENERATE_NORMAL; kind <= SPARGE_GENERATE_STRUCTURED; kind += 2) {
        generator.kind = (sparge_generator_kind)kind;
        expect_ok(c->cuda, sparge_fill(c->cuda, q.data, 0xff, bytes));
        expect_ok(c->cuda, sparge_generate(c->cuda, &generator, SPARGE_ROLE_Q, &q));
        check_rows(c, &generator, &q, NULL);
    }
    int64_t *source = malloc((size_t)q.shape[2] * sizeof *source);
    assert_non_null(source);
    for (int64_t i = 0; i < q.shape[2]; i++)
        source[i] = q.shape[2] - 1 - i;
    expect_ok(c->cuda, sparge_permute_tokens(c->cuda, &q, &permuted, source));
    check_rows(c, &generator, &permuted, source);
    free(source);
    sparge_free(c->cuda, q.data);
    sparge_free(c->cuda, permuted.data);
}

/* ---- exact ---- */

typedef struct exact_case {
    sparge_problem problem;
    int nhd;
    int64_t padding; /* elements after each row of K */
    float sharpness;
} exact_case;

/* Numbers for one operand, in the layout of the case, in host and device memory. */
static void exact_operand(const cuda_case *c, const exact_case *e, sparge_tensor_role role, sparge_tensor *host,
                          sparge_tensor *device)
{
    const sparge_problem *p = &e->problem;
    const int64_t tokens = role == SPARGE_ROLE_Q ? p->seqlen_q : p->seqlen_k;
    const int64_t padding = role == SPARGE_ROLE_K ? e->padding : 0;
    sparge_generator generator = {.kind = SPARGE_GENERATE_STRUCTURED,
                                  .seed = 5,
                                  .heads_q = p->heads_q,
                                  .heads_kv = p->heads_kv,
                                  .correlation = 0.5f,
                                  .scale_length = 16,
                                  .sharpness = e->sharpness,
                                  .channel_offset = 0.5f};
    sparge_tensor dense = sparge_tensor_hnd(NULL, p->dtype, p->batch, heads_of(&generator, role), tokens, p->head_dim);
    const int64_t *s = dense.shape;
    *host = e->nhd ? sparge_tensor_nhd(NULL, p->dtype, s[0], s[1], s[2], s[3] + padding)
                   : sparge_tensor_hnd(NULL, p->dtype, s[0], s[1], s[2], s[3] + padding);
    const size_t bytes = tensor_bytes(host);
    host->shape[3] = p->head_dim;
    dense.data = malloc(tensor_bytes(&dense));
    host->data = malloc(bytes);
    assert_true(dense.data && host->data);
    memset(host->data, 0xff, bytes); /* NaN: reading between the rows shows */
    expect_ok(c->cpu, sparge_generate(c->cpu, &generator, role, &dense));
    for (int64_t row = 0; row < s[0] * s[1] * s[2]; row++) {
        const int64_t batch = row / s[2] / s[1], head = row / s[2] % s[1], token = row % s[2];
        memcpy((uint16_t *)host->data + batch * host->stride[0] + head * host->stride[1] + token * host->stride[2],
               (const uint16_t *)dense.data + row * s[3], (size_t)s[3] * sizeof(uint16_t));
    }
    free(dense.data);
    *device = *host;
    device->data = case_alloc(c->cuda, bytes);
    expect_ok(c->cuda, sparge_upload(c->cuda, device->data, host->data, bytes));
}

static double largest(const double *x, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fabs(x[i]) > most && isfinite(x[i]) ? fabs(x[i]) : most;
    return most;
}

static void expect_close(const double *got, const double *expected, int64_t count, const char *what)
{
    const double limit = 1e-12 * largest(expected, count);
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(got[i] - expected[i]) <= limit) && !(got[i] == -INFINITY && expected[i] == -INFINITY))
            fail_msg("%s %lld: %.17g, the CPU says %.17g", what, (long long)i, got[i], expected[i]);
}

static void check_exact(const cuda_case *c, const exact_case *e, const int64_t *rows, int64_t n_rows)
{
    const sparge_problem *p = &e->problem;
    const int64_t count = (int64_t)p->batch * p->heads_q * n_rows;
    sparge_tensor host[3], device[3];
    double *result[4]; /* o and lse of the CPU, then of CUDA */
    for (int i = 0; i < 3; i++)
        exact_operand(c, e, (sparge_tensor_role)i, &host[i], &device[i]);
    for (int i = 0; i < 4; i++) {
        const size_t bytes = (size_t)(i % 2 ? count : count * p->head_dim) * sizeof(double);
        result[i] = malloc(bytes);
        assert_non_null(result[i]);
        memset(result[i], 0xff, bytes);
    }
    expect_ok(c->cpu, sparge_exact(c->cpu, p, &host[0], &host[1], &host[2], rows, n_rows, result[0], result[1]));
    expect_ok(c->cuda,
              sparge_exact(c->cuda, p, &device[0], &device[1], &device[2], rows, n_rows, result[2], result[3]));
    expect_close(result[2], result[0], count * p->head_dim, "o");
    expect_close(result[3], result[1], count, "lse");
    memset(result[2], 0xff, (size_t)(count * p->head_dim) * sizeof(double));
    expect_ok(c->cuda, sparge_exact(c->cuda, p, &device[0], &device[1], &device[2], rows, n_rows, result[2], NULL));
    expect_close(result[2], result[0], count * p->head_dim, "o without lse");
    for (int i = 0; i < 3; i++) {
        free(host[i].data);
        sparge_free(c->cuda, device[i].data);
    }
    for (int i = 0; i < 4; i++)
        free(result[i]);
}

static exact_case exact_of(int32_t batch, int32_t heads_q, int32_t heads_kv, int64_t lq, int64_t lk, int32_t head_dim,
                           sparge_causal causal)
{
    return (exact_case){.problem = {.batch = batch,
                                    .heads_q = heads_q,
                                    .heads_kv = heads_kv,
                                    .seqlen_q = lq,
                                    .seqlen_k = lk,
                                    .head_dim = head_dim,
                                    .causal = causal},
                        .sharpness = 2};
}

static void exact_is_the_cpus_to_1e_12(void **state)
{
    static const int64_t lengths[][2] = {{1, 1}, {9, 70}, {70, 9}, {65, 130}, {40, 64}};
    static const int32_t dims[] = {1, 13, 64, 72, 128};
    for (size_t i = 0; i < 5; i++)
        for (int causal = SPARGE_CAUSAL_NONE; causal <= SPARGE_CAUSAL_BOTTOM_RIGHT; causal++)
            for (int dtype = SPARGE_F16; dtype <= SPARGE_BF16; dtype++) {
                exact_case e = exact_of(2, 4, 2, lengths[i][0], lengths[i][1], dims[(i + (size_t)causal) % 5],
                                        (sparge_causal)causal);
                e.problem.dtype = (sparge_dtype)dtype;
                e.problem.scale = i % 2 ? 0.25f : 0;
                e.nhd = dtype;
                e.padding = (int64_t)i;
                check_exact(*state, &e, NULL, e.problem.seqlen_q);
            }
}

static void exact_of_chosen_rows(void **state)
{
    static const int64_t rows[] = {199, 0, 3, 3, 64, 127, 128, 5, 150, 90, 17, 198, 197, 1, 2, 8, 9, 60, 61};
    exact_case e = exact_of(2, 3, 3, 200, 150, 72, SPARGE_CAUSAL_BOTTOM_RIGHT);
    check_exact(*state, &e, rows, sizeof rows / sizeof rows[0]);
    check_exact(*state, &e, rows, 1);
    check_exact(*state, &e, rows, 16);
    check_exact(*state, &e, rows, 0);
}

static void large_scores_do_not_overflow(void **state)
{
    exact_case e = exact_of(1, 1, 1, 20, 300, 64, SPARGE_CAUSAL_NONE);
    e.problem.scale = 1000;
    check_exact(*state, &e, NULL, 20);
}

/* More rows than one launch takes; 13 rows in the last group of each head. */
static void exact_in_several_launches(void **state)
{
    exact_case e = exact_of(2, 7, 1, 5005, 40, 8, SPARGE_CAUSAL_TOP_LEFT);
    check_exact(*state, &e, NULL, 5005);
}

/* ---- times ---- */

static void *device_tensor(const cuda_case *c, sparge_tensor *tensor)
{
    return tensor->data = case_alloc(c->cuda, tensor_bytes(tensor));
}

/* 32k tokens, 32 heads, D = 128: what a sweep needs for every point. */
static void a_sweeps_point_takes_milliseconds(void **state)
{
    const cuda_case *c = *state;
    enum { TOKENS = 32768, HEADS = 32, CHANNELS = 128, ROWS = 256 };
    sparge_event *begin, *end;
    expect_ok(c->cuda, sparge_event_create(c->cuda, &begin));
    expect_ok(c->cuda, sparge_event_create(c->cuda, &end));
    sparge_tensor x[3];
    sparge_generator generator = everything;
    generator.heads_q = generator.heads_kv = HEADS;
    generator.grid = (sparge_grid){.t = 8, .h = 64, .w = 64};
    static const char *const kinds[] = {"normal", "uniform", "structured"};
    for (int kind = 0; kind < 3; kind++) {
        generator.kind = (sparge_generator_kind)kind;
        for (int role = 0; role < 3; role++) {
            if (kind == 0) {
                x[role] = sparge_tensor_hnd(NULL, SPARGE_BF16, 1, HEADS, TOKENS, CHANNELS);
                device_tensor(c, &x[role]);
            }
            expect_ok(c->cuda, sparge_event_record(begin));
            expect_ok(c->cuda, sparge_generate(c->cuda, &generator, (sparge_tensor_role)role, &x[role]));
            expect_ok(c->cuda, sparge_event_record(end));
            const double ms = (double)elapsed_ns(c->cuda, begin, end) / 1e6;
            print_message("%-10s role %d, 32k x 32 x 128 bf16: %8.3f ms\n", kinds[kind], role, ms);
            assert_true(ms < 200);
        }
    }
    const sparge_problem problem = {.batch = 1,
                                    .heads_q = HEADS,
                                    .heads_kv = HEADS,
                                    .seqlen_q = TOKENS,
                                    .seqlen_k = TOKENS,
                                    .head_dim = CHANNELS,
                                    .dtype = SPARGE_BF16};
    int64_t rows[ROWS];
    for (int64_t i = 0; i < ROWS; i++)
        rows[i] = i * (TOKENS / ROWS) + i % 7;
    double *o = malloc((size_t)HEADS * ROWS * CHANNELS * sizeof *o);
    assert_non_null(o);
    for (int turn = 0; turn < 2; turn++) { /* the first one loads the kernel */
        expect_ok(c->cuda, sparge_event_record(begin));
        expect_ok(c->cuda, sparge_exact(c->cuda, &problem, &x[0], &x[1], &x[2], rows, ROWS, o, NULL));
        expect_ok(c->cuda, sparge_event_record(end));
    }
    const double ms = (double)elapsed_ns(c->cuda, begin, end) / 1e6;
    print_message("exact, 256 rows x 32 heads x 32k keys x 128: %8.3f ms, %.1f Tflop/s\n", ms,
                  4.0 * HEADS * ROWS * CHANNELS * TOKENS / ms / 1e9);
    assert_true(ms < 1000);
    free(o);
    for (int role = 0; role < 3; role++)
        sparge_free(c->cuda, x[role].data);
    sparge_event_destroy(begin);
    sparge_event_destroy(end);
}

int main(void)
{
    if (sparge_backend_device_count("cuda") == 0) {
        puts("no CUDA device: nothing to test");
        return EXIT_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(independent_bits_are_the_cpus),     cmocka_unit_test(structured_bits_are_the_cpus),
        cmocka_unit_test(owners_in_several_launches),        cmocka_unit_test(more_than_2_to_31_elements),
        cmocka_unit_test(exact_is_the_cpus_to_1e_12),        cmocka_unit_test(exact_of_chosen_rows),
        cmocka_unit_test(large_scores_do_not_overflow),      cmocka_unit_test(exact_in_several_launches),
        cmocka_unit_test(a_sweeps_point_takes_milliseconds),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
