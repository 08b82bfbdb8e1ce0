/* sparge_generate: rows depend on nothing but their place, the structured model is what docs/workloads.md says, and the
 * numbers do not change from one version to the next. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generate/model.h"
#include "generated.h"
#include "sha256.h"

/* Grid, text on both sides, GQA, sinks, offsets and spread: everything at once. 5 * 6 * 7 + 3 + 20 = 233 tokens. */
static const sparge_generator everything = {
    .kind = SPARGE_GENERATE_STRUCTURED,
    .seed = 0x123456789abcdef0,
    .heads_q = 4,
    .heads_kv = 2,
    .grid = {.t = 5, .h = 6, .w = 7, .text_before = 3, .text_after = 20},
    .correlation = 0.7f,
    .scale_length = 2.5f,
    .sharpness = 1.3f,
    .query_offset = 0.4f,
    .channel_offset = 1.5f,
    .sink_strength = 5.0f,
    .sink_tokens = 2,
    .head_spread = 0.6f,
};

static const sparge_generator peers = {
    .kind = SPARGE_GENERATE_STRUCTURED,
    .seed = 1,
    .heads_q = 4,
    .heads_kv = 4,
    .correlation = 0.8f,
    .scale_length = 256,
    .sharpness = 1.6f,
};

/* ---- the model again, in double and from the document ---- */

static double dot(const double *a, const double *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void to_length(double *x, int n)
{
    double length = sqrt(dot(x, x, n));
    for (int i = 0; i < n; i++)
        x[i] *= sqrt(n) / length;
}

static void normal_vector(const sparge_generator *g, int stream, int64_t b, int64_t h, int64_t token, int n,
                          double *out)
{
    float row[SPARGE_MAX_HEAD_DIM];
    generate_normal_row(g->seed, (generate_stream)stream, b, h, token, n, row);
    for (int i = 0; i < n; i++)
        out[i] = (double)row[i];
}

static void line(const sparge_generator *g, int axis, int64_t b, int64_t group, int64_t cell, int n, double *out)
{
    double place = (double)cell / (double)g->scale_length, left[128], right[128];
    int64_t index = (int64_t)floor(place);
    normal_vector(g, STREAM_FIELD + axis, b, group, index, n, left);
    normal_vector(g, STREAM_FIELD + axis, b, group, index + 1, n, right);
    to_length(left, n);
    to_length(right, n);
    for (int i = 0; i < n; i++)
        out[i] = left[i] + (place - (double)index) * (right[i] - left[i]);
    to_length(out, n);
}

static void field(const sparge_generator *g, int64_t b, int64_t group, int64_t token, int n, double *out)
{
    const sparge_grid *grid = &g->grid;
    int64_t cells = (int64_t)grid->t * grid->h * grid->w, cell = token - grid->text_before;
    if (grid->t == 0) {
        line(g, FIELD_W, b, group, token, n, out);
    } else if (cell < 0) {
        line(g, FIELD_TEXT, b, group, token, n, out);
    } else if (cell >= cells) {
        line(g, FIELD_TEXT, b, group, token - cells, n, out);
    } else {
        double t[128], h[128], w[128];
        line(g, FIELD_T, b, group, cell / (grid->h * grid->w), n, t);
        line(g, FIELD_H, b, group, cell / grid->w % grid->h, n, h);
        line(g, FIELD_W, b, group, cell % grid->w, n, w);
        for (int i = 0; i < n; i++)
            out[i] = t[i] + h[i] + w[i];
        to_length(out, n);
    }
}

static double swing(const sparge_generator *g, int stream, int64_t head, int word)
{
    uint32_t bits = generate_words(g->seed, (generate_stream)stream, 0, head, 0, 0).word[word];
    return (double)g->head_spread * ((double)(bits >> 8) / 8388608.0 - 1);
}

static void expected_row(const sparge_generator *g, sparge_tensor_role role, int64_t b, int64_t head, int64_t token,
                         int n, double *out)
{
    int is_q = role == SPARGE_ROLE_Q;
    int64_t group = is_q ? head / (g->heads_q / g->heads_kv) : head;
    double noise[128], offset[128], direction[128];
    float sign[128];
    double c = (double)g->correlation;
    c += swing(g, is_q ? STREAM_Q_HEAD : STREAM_K_HEAD, head, 0) * fmin(c, 1 - c);
    double factor = is_q ? (double)g->sharpness * (1 + swing(g, STREAM_Q_HEAD, head, 1) / 2) : 1;
    field(g, b, group, token, n, out);
    normal_vector(g, is_q ? STREAM_Q : STREAM_K, b, head, token, n, noise);
    generate_uniform_row(g->seed, STREAM_Q_OFFSET, 0, group, 0, n, sign);
    for (int i = 0; i < n; i++)
        direction[i] = sign[i] < 0 ? -1 : 1;
    normal_vector(g, STREAM_K_OFFSET, 0, head, 0, n, offset);
    for (int i = 0; i < n; i++) {
        offset[i] = is_q ? (double)g->query_offset * direction[i] : (double)g->channel_offset * offset[i];
        out[i] = factor * (sqrt(c) * out[i] + sqrt(1 - c) * noise[i] + offset[i]);
        if (!is_q && token < g->sink_tokens && g->sink_strength > 0)
            out[i] +=
                (double)g->sink_strength / ((double)g->sharpness * (double)g->query_offset * sqrt(n)) * direction[i];
    }
}

static void check_model(const sparge_generator *g, int64_t batch, int64_t tokens, int channels)
{
    for (int role = SPARGE_ROLE_Q; role <= SPARGE_ROLE_K; role++) {
        sparge_tensor tensor = generated_make(g, (sparge_tensor_role)role, SPARGE_F32, batch, tokens, channels, 0);
        for (int64_t b = 0; b < batch; b++)
            for (int64_t h = 0; h < tensor.shape[1]; h++)
                for (int64_t i = 0; i < tokens; i++) {
                    double expected[128];
                    expected_row(g, (sparge_tensor_role)role, b, h, i, channels, expected);
                    const float *row = generated_row(&tensor, b, h, i);
                    for (int c = 0; c < channels; c++)
                        if (!(fabs((double)row[c] - expected[c]) < 2e-4))
                            fail_msg("role %d batch %d head %d token %d channel %d: %g, the model says %g", role,
                                     (int)b, (int)h, (int)i, c, (double)row[c], expected[c]);
                }
        generated_free(&tensor);
    }
}

static void test_structured_is_the_documented_model(void **state)
{
    (void)state;
    check_model(&everything, 2, 233, 64);
    check_model(&everything, 1, 233, 13); /* not a multiple of four */
    check_model(&peers, 1, 600, 128);
    sparge_generator image = everything;
    image.grid = (sparge_grid){.t = 2, .h = 9, .w = 8, .text_before = 1};
    image.scale_length = 100; /* longer than any axis */
    check_model(&image, 1, 145, 32);
}

static double mean_cosine_in_blocks(const sparge_tensor *tensor, int64_t block)
{
    double sum = 0, blocks = 0;
    const int n = (int)tensor->shape[3];
    for (int64_t h = 0; h < tensor->shape[1]; h++)
        for (int64_t first = 0; first + block <= tensor->shape[2]; first += block) {
            double total[128] = {0}, unit[128];
            for (int64_t i = first; i < first + block; i++) {
                for (int c = 0; c < n; c++)
                    unit[c] = (double)generated_row(tensor, 0, h, i)[c];
                double length = sqrt(dot(unit, unit, n));
                for (int c = 0; c < n; c++)
                    total[c] += unit[c] / length;
            }
            sum += dot(total, total, n) / (double)(block * block);
            blocks++;
        }
    return sum / blocks;
}

/* What peers-h200.md says of its inputs: mean cosine inside a 128-token block about 0.75, attention local. */
static void test_structured_is_the_peers_model(void **state)
{
    (void)state;
    sparge_tensor q = generated_make(&peers, SPARGE_ROLE_Q, SPARGE_F32, 1, 4096, 128, 0);
    sparge_tensor k = generated_make(&peers, SPARGE_ROLE_K, SPARGE_F32, 1, 4096, 128, 0);
    assert_true(fabs(mean_cosine_in_blocks(&q, 128) - 0.75) < 0.03);
    assert_true(fabs(mean_cosine_in_blocks(&k, 128) - 0.75) < 0.03);
    double q_square = 0, k_square = 0, same = 0, near = 0, far = 0;
    const int64_t rows = 4 * 4096;
    for (int64_t h = 0; h < 4; h++)
        for (int64_t i = 0; i < 4096; i++)
            for (int c = 0; c < 128; c++) {
                double a = (double)generated_row(&q, 0, h, i)[c], b = (double)generated_row(&k, 0, h, i)[c];
                q_square += a * a / (double)(rows * 128);
                k_square += b * b / (double)(rows * 128);
                same += a * b / (double)(rows * 128);
                near += a * (double)generated_row(&k, 0, h, i >= 64 ? i - 64 : i + 64)[c] / (double)(rows * 128);
                far += a * (double)generated_row(&k, 0, h, (i + 2048) % 4096)[c] / (double)(rows * 128);
            }
    assert_true(fabs(q_square - 1.6 * 1.6) < 0.02);
    assert_true(fabs(k_square - 1) < 0.01);
    assert_true(fabs(same - 1.6 * 0.8) < 0.01); /* q and k share the field */
    assert_true(near < same - 0.02 && near > 0.7 * same);
    assert_true(fabs(far) < 0.05);
    generated_free(&q);
    generated_free(&k);
}

/* The score of a sink for an average query is sink_strength above that of the same key without it. */
static void test_sink_strength(void **state)
{
    (void)state;
    sparge_generator with = peers, without;
    with.heads_q = 8;
    with.query_offset = 0.5f;
    with.sink_strength = 7;
    with.sink_tokens = 3;
    without = with;
    without.sink_strength = 0;
    sparge_tensor q = generated_make(&with, SPARGE_ROLE_Q, SPARGE_F32, 1, 4096, 128, 0);
    sparge_tensor k = generated_make(&with, SPARGE_ROLE_K, SPARGE_F32, 1, 8, 128, 0);
    sparge_tensor plain = generated_make(&without, SPARGE_ROLE_K, SPARGE_F32, 1, 8, 128, 0);
    for (int64_t sink = 0; sink < 8; sink++) {
        double extra = 0;
        for (int64_t h = 0; h < 8; h++)
            for (int64_t i = 0; i < 4096; i++)
                for (int c = 0; c < 128; c++)
                    extra += (double)generated_row(&q, 0, h, i)[c] *
                             (double)(generated_row(&k, 0, h / 2, sink)[c] - generated_row(&plain, 0, h / 2, sink)[c]);
        extra /= 8 * 4096 * sqrt(128);
        assert_true(fabs(extra - (sink < 3 ? 7 : 0)) < 0.35);
    }
    generated_free(&q);
    generated_free(&k);
    generated_free(&plain);
}

/* ---- rows alone ---- */

static void test_any_number_of_threads(void **state)
{
    (void)state;
    const sparge_generator normal = {.kind = SPARGE_GENERATE_NORMAL, .seed = 9, .heads_q = 3, .heads_kv = 1};
    const sparge_generator *const generators[] = {&everything, &normal};
    for (int g = 0; g < 2; g++)
        for (int role = SPARGE_ROLE_Q; role <= SPARGE_ROLE_V; role++) {
            sparge_tensor one = generated_make(generators[g], (sparge_tensor_role)role, SPARGE_F16, 2, 233, 72, 1);
            for (int threads = 2; threads <= 7; threads += 5) {
                sparge_tensor more =
                    generated_make(generators[g], (sparge_tensor_role)role, SPARGE_F16, 2, 233, 72, threads);
                assert_memory_equal(one.data, more.data, generated_bytes(&one));
                generated_free(&more);
            }
            generated_free(&one);
        }
}

static void check_shared_rows(const sparge_tensor *small, const sparge_tensor *large)
{
    for (int64_t b = 0; b < small->shape[0]; b++)
        for (int64_t h = 0; h < small->shape[1]; h++)
            for (int64_t i = 0; i < small->shape[2]; i++)
                assert_memory_equal(generated_row(small, b, h, i), generated_row(large, b, h, i),
                                    (size_t)small->shape[3] * sizeof(float));
}

/* A sequence is the beginning of a longer one; the first heads and batches are those of a larger problem. */
static void test_small_problems_are_parts_of_large_ones(void **state)
{
    (void)state;
    for (int kind = SPARGE_GENERATE_NORMAL; kind <= SPARGE_GENERATE_STRUCTURED; kind++)
        for (int role = SPARGE_ROLE_Q; role <= SPARGE_ROLE_V; role++) {
            sparge_generator few = peers;
            few.kind = (sparge_generator_kind)kind;
            few.heads_q = 4;
            few.heads_kv = 2;
            few.scale_length = 16;
            sparge_generator many = few;
            many.heads_q = 12;
            many.heads_kv = 6;
            sparge_tensor small = generated_make(&few, (sparge_tensor_role)role, SPARGE_F32, 1, 100, 24, 0);
            sparge_tensor large = generated_make(&many, (sparge_tensor_role)role, SPARGE_F32, 2, 150, 24, 0);
            check_shared_rows(&small, &large);
            generated_free(&small);
            generated_free(&large);
        }
}

static void test_seeds_and_batches_differ(void **state)
{
    (void)state;
    sparge_generator other = everything;
    other.seed++;
    sparge_tensor a = generated_make(&everything, SPARGE_ROLE_K, SPARGE_F32, 2, 233, 16, 0);
    sparge_tensor b = generated_make(&other, SPARGE_ROLE_K, SPARGE_F32, 2, 233, 16, 0);
    assert_memory_not_equal(a.data, b.data, generated_bytes(&a));
    for (int64_t i = 0; i < 233; i++)
        assert_memory_not_equal(generated_row(&a, 0, 0, i), generated_row(&a, 1, 0, i), 16 * sizeof(float));
    generated_free(&a);
    generated_free(&b);
}

static void test_sixteen_bits_are_rounded_from_32(void **state)
{
    (void)state;
    sparge_tensor exact = generated_make(&everything, SPARGE_ROLE_Q, SPARGE_F32, 1, 233, 20, 0);
    sparge_tensor half = generated_make(&everything, SPARGE_ROLE_Q, SPARGE_F16, 1, 233, 20, 0);
    sparge_tensor brain = generated_make(&everything, SPARGE_ROLE_Q, SPARGE_BF16, 1, 233, 20, 0);
    for (size_t i = 0; i < generated_bytes(&exact) / sizeof(float); i++) {
        float value = ((const float *)exact.data)[i];
        assert_int_equal(((const uint16_t *)half.data)[i], sparge_f16_from_f32(value));
        assert_int_equal(((const uint16_t *)brain.data)[i], sparge_bf16_from_f32(value));
    }
    generated_free(&exact);
    generated_free(&half);
    generated_free(&brain);
}

/* One channel, where neighbouring anchors can be opposite and their middle has no direction: no NaN. */
static void test_degenerate_shapes_are_finite(void **state)
{
    (void)state;
    sparge_generator thin = everything;
    thin.scale_length = 2;
    sparge_generator point = everything;
    point.grid = (sparge_grid){.t = 1, .h = 1, .w = 1};
    sparge_tensor made[] = {generated_make(&thin, SPARGE_ROLE_K, SPARGE_F32, 1, 233, 1, 0),
                            generated_make(&point, SPARGE_ROLE_Q, SPARGE_F32, 1, 1, 8, 0)};
    for (int m = 0; m < 2; m++) {
        for (size_t i = 0; i < generated_bytes(&made[m]) / sizeof(float); i++)
            assert_true(isfinite(((const float *)made[m].data)[i]));
        generated_free(&made[m]);
    }
}

/* ---- refusals ---- */

static void refuse(const sparge_generator *generator, const sparge_tensor *tensor, const char *message)
{
    sparge_context *context;
    assert_int_equal(sparge_context_create("cpu", 0, 1, &context, NULL), SPARGE_OK);
    assert_int_equal(sparge_generate(context, generator, SPARGE_ROLE_Q, tensor), SPARGE_ERROR_INVALID_ARGUMENT);
    if (!strstr(sparge_error_string(context), message))
        fail_msg("expected '%s' in '%s'", message, sparge_error_string(context));
    sparge_context_destroy(context);
}

static void test_refusals(void **state)
{
    (void)state;
    static uint16_t room[70000];
    sparge_tensor wide = sparge_tensor_hnd(room, SPARGE_F16, 1, 1, 1, 129);
    sparge_tensor heads = sparge_tensor_hnd(room, SPARGE_F16, 1, 70000, 1, 1);
    sparge_tensor batches = sparge_tensor_hnd(room, SPARGE_F16, 70000, 1, 1, 1);
    sparge_tensor fine = sparge_tensor_hnd(room, SPARGE_F16, 1, 1, 4, 4);
    sparge_generator g = peers;
    g.heads_q = g.heads_kv = 1;
    refuse(&g, &wide, "129 channels, the limit is 128");
    refuse(&g, &batches, "batch 70000 with 1 heads, the limit of each is 65536");
    g.sink_strength = 1;
    refuse(&g, &fine, "generator.sink_strength = 1: needs query_offset > 0");
    g.query_offset = -1;
    refuse(&g, &fine, "generator.query_offset = -1: must be in 0..10000");
    g.query_offset = NAN;
    refuse(&g, &fine, "generator.query_offset = ");
    g.heads_q = g.heads_kv = 70000;
    refuse(&g, &heads, "batch 1 with 70000 heads, the limit of each is 65536");
}

/* ---- the numbers stay ---- */

typedef struct golden {
    const char *what;
    const sparge_generator *generator;
    sparge_tensor_role role;
    sparge_dtype dtype;
    int64_t batch, tokens, channels;
    const char *hash; /* SHA-256 of the tensor's bytes, little endian */
} golden;

static void test_golden_hashes(void **state)
{
    (void)state;
    static const sparge_generator normal = {.kind = SPARGE_GENERATE_NORMAL, .seed = 42, .heads_q = 2, .heads_kv = 1};
    static const sparge_generator uniform = {.kind = SPARGE_GENERATE_UNIFORM, .seed = 42, .heads_q = 2, .heads_kv = 1};
    /* A change here changes every result of every workload: raise the number after "sparge-generator" in
     * workloads/resolve.c with it, so that old and new results are told apart. */
    const golden cases[] = {
        {"normal q f32", &normal, SPARGE_ROLE_Q, SPARGE_F32, 2, 37, 64,
         "0fef2806f1a96b44f18b94d6c8ad730a567b12d6c96348512d4efb8cd6e5439f"},
        {"normal k f16", &normal, SPARGE_ROLE_K, SPARGE_F16, 1, 100, 128,
         "a422bbebcf961b1fe33dab29dc7d98934b5990c586758bac0484c248f499fb19"},
        {"normal v bf16", &normal, SPARGE_ROLE_V, SPARGE_BF16, 1, 100, 33,
         "147585328155df0986f892e130cf442e5b5aa4672c2f523304e2dcbbea41c7cc"},
        {"uniform q f16", &uniform, SPARGE_ROLE_Q, SPARGE_F16, 1, 50, 64,
         "52a6c2f9de1630772b450d3e74f7969a2f119758a76e9a5fc3faf3f05616ddcb"},
        {"peers q f16", &peers, SPARGE_ROLE_Q, SPARGE_F16, 1, 300, 128,
         "4bbe0457cc7fd24d217a8525cba62346db3bc01c9d82386df247deae24bf653a"},
        {"peers k f32", &peers, SPARGE_ROLE_K, SPARGE_F32, 1, 300, 128,
         "d38c8fa94f5308ae990f0f572ae028b26b6b9f477d13756ebc48df8d45252707"},
        {"everything q f32", &everything, SPARGE_ROLE_Q, SPARGE_F32, 2, 233, 64,
         "be7b163d5f171b5c96ad402420d239e4a89352f6797236c928283f64f3c3c822"},
        {"everything k f32", &everything, SPARGE_ROLE_K, SPARGE_F32, 2, 233, 64,
         "d0a3b728bfe2909ec3e12b83479c1ac3e6f3211c47e7caa89a6516af585a3966"},
        {"everything v f16", &everything, SPARGE_ROLE_V, SPARGE_F16, 1, 233, 64,
         "d8f446f83d89cdea28ab5ac243ff07c1f2f74573b97512116ec3e7dad0dc3252"},
    };
    int changed = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const golden *c = &cases[i];
        sparge_tensor tensor = generated_make(c->generator, c->role, c->dtype, c->batch, c->tokens, c->channels, 0);
        char hash[SB_SHA256_HEX_SIZE];
        sb_sha256 sha;
        sb_sha256_begin(&sha);
        sb_sha256_update(&sha, tensor.data, generated_bytes(&tensor));
        sb_sha256_end(&sha, hash);
        if (strcmp(hash, c->hash) != 0) {
            print_error("%s: %s\n", c->what, hash);
            changed++;
        }
        generated_free(&tensor);
    }
    assert_int_equal(changed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_structured_is_the_documented_model),
        cmocka_unit_test(test_structured_is_the_peers_model),
        cmocka_unit_test(test_sink_strength),
        cmocka_unit_test(test_any_number_of_threads),
        cmocka_unit_test(test_small_problems_are_parts_of_large_ones),
        cmocka_unit_test(test_seeds_and_batches_differ),
        cmocka_unit_test(test_sixteen_bits_are_rounded_from_32),
        cmocka_unit_test(test_degenerate_shapes_are_finite),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_golden_hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
