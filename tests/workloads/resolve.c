/* Presets and wl_resolve: the paper's geometry, requests that change it, and requests that cannot be met. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "sha256.h"
#include "workloads.h"

static wl_request request_for(const char *name)
{
    return (wl_request){.name = name, .dtype = -1, .causal = -1};
}

static wl_workload resolve(const wl_request *request)
{
    wl_workload workload;
    sparge_error error;
    if (wl_resolve(request, &workload, &error) != SPARGE_OK)
        fail_msg("%s", error.text);
    assert_int_equal(sparge_problem_check(&workload.problem, NULL), SPARGE_OK);
    assert_int_equal(strlen(workload.hash), 64);
    return workload;
}

static void refuse(const wl_request *request, const char *message)
{
    wl_workload workload;
    sparge_error error;
    sparge_status status = wl_resolve(request, &workload, &error);
    if (status == SPARGE_OK || !strstr(error.text, message))
        fail_msg("expected '%s' in '%s'", message, status == SPARGE_OK ? "(no error)" : error.text);
    wl_release(&workload); /* harmless */
}

/* ---- presets ---- */

typedef struct geometry {
    const char *name;
    int heads_q, heads_kv, head_dim, layers;
    int64_t tokens; /* 0: any */
    int causal;
} geometry;

/* Lengths and heads as the papers and model cards give them (reference/paper.md section 3). */
static const geometry published[] = {
    {"llama3.1-8b", 32, 8, 128, 32, 0, 1},        {"qwen2.5-7b", 28, 4, 128, 28, 0, 1},
    {"cogvideox-2b", 30, 30, 64, 30, 17776, 0},   {"mochi", 24, 24, 128, 48, 22516, 0},
    {"open-sora-plan", 24, 24, 96, 32, 38400, 0}, {"flux", 24, 24, 128, 57, 4608, 0},
    {"sd3.5-large", 38, 38, 64, 38, 4429, 0},     {"wan2.1-1.3b", 12, 12, 128, 30, 32760, 0},
    {"wan2.1-14b", 40, 40, 128, 40, 32760, 0},    {"wan2.1-14b-720p", 40, 40, 128, 40, 75600, 0},
    {"hunyuanvideo", 24, 24, 128, 60, 119056, 0}, {"ltx-video", 32, 32, 64, 28, 0, 0},
    {"ltx-video-13b", 32, 32, 128, 48, 8160, 0},
};

static void test_published_geometry(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        const geometry *g = &published[i];
        const wl_preset *preset = wl_preset_find(g->name);
        if (!preset)
            fail_msg("no preset %s", g->name);
        assert_int_equal(preset->layers, g->layers);
        wl_request request = request_for(g->name);
        wl_workload w = resolve(&request);
        assert_int_equal(w.problem.heads_q, g->heads_q);
        assert_int_equal(w.problem.heads_kv, g->heads_kv);
        assert_int_equal(w.problem.head_dim, g->head_dim);
        assert_int_equal(w.problem.causal, g->causal ? SPARGE_CAUSAL_BOTTOM_RIGHT : SPARGE_CAUSAL_NONE);
        assert_int_equal(w.problem.seqlen_q, w.problem.seqlen_k);
        if (g->tokens > 0)
            assert_int_equal(w.problem.seqlen_q, g->tokens);
        assert_string_equal(w.note, "");
        assert_string_equal(w.name, g->name);
        wl_release(&w);
    }
}

static void test_presets_are_complete(void **state)
{
    (void)state;
    assert_null(wl_preset_at(wl_preset_count()));
    assert_null(wl_preset_find("no such"));
    for (size_t i = 0; i < wl_preset_count(); i++) {
        const wl_preset *preset = wl_preset_at(i);
        assert_ptr_equal(wl_preset_find(preset->name), preset); /* no name twice */
        assert_true(strlen(preset->summary) > 0 && strlen(preset->source) > 0);
        assert_true((preset->grid.t > 0) != (preset->default_seqlen > 0));
        if (preset->generator.sink_strength > 0)
            assert_true(preset->generator.query_offset > 0);
    }
}

static void test_structured_defaults_are_the_peers(void **state)
{
    (void)state;
    wl_request request = request_for("structured");
    wl_workload w = resolve(&request);
    assert_int_equal(w.problem.heads_q, 8);
    assert_int_equal(w.problem.head_dim, 128);
    assert_int_equal(w.problem.causal, SPARGE_CAUSAL_NONE);
    assert_int_equal(w.problem.dtype, SPARGE_F16);
    const sparge_generator *g = &w.generator;
    assert_int_equal(g->kind, SPARGE_GENERATE_STRUCTURED);
    assert_true(g->correlation == 0.8f && g->scale_length == 256 && g->sharpness == 1.6f);
    assert_true(g->query_offset == 0 && g->channel_offset == 0 && g->sink_strength == 0 && g->head_spread == 0);
    assert_int_equal(g->grid.t, 0);
    wl_release(&w);
}

/* ---- requests ---- */

static void test_requests_are_honoured(void **state)
{
    (void)state;
    wl_request request = {.name = "llama3.1-8b",
                          .seqlen = 1000,
                          .heads = 8,
                          .batch = 3,
                          .head_dim = 64,
                          .dtype = SPARGE_F16,
                          .causal = SPARGE_CAUSAL_TOP_LEFT,
                          .seed = 77};
    wl_workload w = resolve(&request);
    assert_int_equal(w.kind, WL_SYNTHETIC);
    assert_int_equal(w.problem.seqlen_q, 1000);
    assert_int_equal(w.problem.heads_q, 8);
    assert_int_equal(w.problem.heads_kv, 2);
    assert_int_equal(w.problem.batch, 3);
    assert_int_equal(w.problem.head_dim, 64);
    assert_int_equal(w.problem.dtype, SPARGE_F16);
    assert_int_equal(w.problem.causal, SPARGE_CAUSAL_TOP_LEFT);
    assert_int_equal(w.generator.heads_q, 8);
    assert_int_equal(w.generator.heads_kv, 2);
    assert_true(w.generator.seed == 77 && w.seed == 77);
    wl_release(&w);

    request = request_for("random"); /* plain generators have any number of heads */
    request.heads = 100;
    w = resolve(&request);
    assert_int_equal(w.problem.heads_q, 100);
    assert_int_equal(w.problem.heads_kv, 100);
    wl_release(&w);
}

static void test_orders(void **state)
{
    (void)state;
    wl_request request = request_for("mochi");
    request.order = WL_ORDER_HILBERT;
    wl_workload w = resolve(&request);
    assert_int_equal(w.problem.grid.reordered, 1);
    assert_int_equal(w.generator.grid.reordered, 0);
    assert_int_equal(w.order, WL_ORDER_HILBERT);
    wl_release(&w);
    request.order = WL_ORDER_ROW;
    w = resolve(&request);
    assert_int_equal(w.problem.grid.reordered, 0);
    wl_release(&w);
}

static void test_what_cannot_be_met(void **state)
{
    (void)state;
    wl_request r = request_for(NULL);
    refuse(&r, "workload: no name");
    r.name = "";
    refuse(&r, "workload: no name");
    r = request_for("mocchi");
    refuse(&r, "workload 'mocchi': unknown, did you mean mochi?");
    r = request_for("llama");
    refuse(&r, "did you mean llama3.1-8b?");
    r = request_for("zzzzzzzz");
    refuse(&r, "must be a .safetensors file or one of llama3.1-8b, qwen2.5-7b,");
    r = request_for("./nothing");
    refuse(&r, "cannot open ./nothing: No such file");
    r = request_for("nothing.safetensors");
    refuse(&r, "cannot open nothing.safetensors: No such file");

    r = request_for("llama3.1-8b");
    r.heads = 6;
    refuse(&r, "heads = 6: must be a multiple of 4, the query heads of one KV head");
    r.heads = 36;
    refuse(&r, "heads = 36: it has 32 query heads");
    r = request_for("random");
    r.head_dim = 129;
    refuse(&r, "head_dim = 129: must be in 1..128");
    r = request_for("random");
    r.dtype = SPARGE_F32;
    refuse(&r, "dtype = f32: must be f16 or bf16");
    r = request_for("random");
    r.causal = 7;
    refuse(&r, "causal = 7");
    r = request_for("random");
    r.seqlen = (int64_t)1 << 40;
    refuse(&r, "seqlen = 1099511627776: must be at most");
    r.seqlen = INT32_MAX;
    refuse(&r, "seqlen_q = 2147483647: must be in 1..");
    r = request_for("random");
    r.order = WL_ORDER_HILBERT;
    refuse(&r, "order = hilbert: it has no grid");
    r = request_for("mochi");
    r.order = WL_ORDER_TIME;
    r.causal = SPARGE_CAUSAL_BOTTOM_RIGHT;
    refuse(&r, "order = time: a causal problem cannot be reordered");
    r = request_for("mochi");
    r.order = (wl_order)9;
    refuse(&r, "order = 9: not a token order");
}

/* ---- scaled grids ---- */

/* Brute force: all factors on a fine net, the nearest length, the smaller of two equally near. */
static int64_t nearest_length(const sparge_grid *grid, int64_t tokens)
{
    int64_t text = grid->text_before + grid->text_after, best = -1;
    for (double f = 0; f < 4; f += 1.0 / 4096 / 16) {
        int64_t n = text;
        int64_t t = grid->t == 1 ? 1 : (int64_t)fmax(1, floor(f * grid->t + 0.5));
        int64_t h = grid->h == 1 ? 1 : (int64_t)fmax(1, floor(f * grid->h + 0.5));
        int64_t w = grid->w == 1 ? 1 : (int64_t)fmax(1, floor(f * grid->w + 0.5));
        n += t * h * w;
        if (best < 0 || llabs(n - tokens) < llabs(best - tokens))
            best = n;
    }
    return best;
}

static void test_grids_scale_to_the_nearest_length(void **state)
{
    (void)state;
    static const char *const names[] = {"mochi", "flux", "cogvideox-2b", "wan2.1-1.3b"};
    static const int64_t lengths[] = {1, 300, 1024, 2800, 4096, 8192, 22000, 40000};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
            wl_request request = request_for(names[n]);
            request.seqlen = lengths[l];
            wl_workload w = resolve(&request);
            const sparge_grid *full = &wl_preset_find(names[n])->grid, *grid = &w.problem.grid;
            assert_int_equal(w.problem.seqlen_q, nearest_length(full, lengths[l]));
            assert_int_equal(grid->text_before, full->text_before);
            assert_int_equal(grid->text_after, full->text_after);
            assert_int_equal(w.generator.grid.w, grid->w);
            char note[128];
            snprintf(note, sizeof note, "grid scaled to %dx%dx%d: %lld tokens", grid->t, grid->h, grid->w,
                     (long long)w.problem.seqlen_q);
            assert_string_equal(w.note, note);
            wl_release(&w);
        }
    wl_request own = request_for("mochi");
    own.seqlen = 22516;
    wl_workload w = resolve(&own);
    assert_string_equal(w.note, "");
    assert_int_equal(w.problem.grid.w, 53);
    wl_release(&w);
}

/* ---- hashes ---- */

static void hash_of(const wl_request *request, char hash[SB_SHA256_HEX_SIZE])
{
    wl_workload w = resolve(request);
    memcpy(hash, w.hash, sizeof w.hash);
    wl_release(&w);
}

static void test_hashes_tell_numbers_apart(void **state)
{
    (void)state;
    char base[65], other[65];
    wl_request request = request_for("mochi");
    hash_of(&request, base);
    hash_of(&request, other);
    assert_string_equal(base, other);
    request.order = WL_ORDER_HILBERT; /* the same numbers, laid out otherwise */
    request.causal = SPARGE_CAUSAL_NONE;
    hash_of(&request, other);
    assert_string_equal(base, other);
    wl_request changed[6];
    for (int i = 0; i < 6; i++)
        changed[i] = request_for("mochi");
    changed[0].seed = 1;
    changed[1].seqlen = 4096;
    changed[2].batch = 2;
    changed[3].heads = 3;
    changed[4].head_dim = 64;
    changed[5].dtype = SPARGE_F16;
    for (int i = 0; i < 6; i++) {
        hash_of(&changed[i], other);
        assert_string_not_equal(base, other);
    }
}

/* ---- captured files ---- */

/* q [2,4,6,2], k and v [2,2,6,2] of F16: 96 + 48 + 48 numbers; a grid of 1x2x3. */
static char *write_captured(const char *metadata)
{
    char header[1024];
    snprintf(header, sizeof header,
             "{\"__metadata__\":{%s},\"q\":{\"dtype\":\"F16\",\"shape\":[2,4,6,2],\"data_offsets\":[0,192]},"
             "\"k\":{\"dtype\":\"F16\",\"shape\":[2,2,6,2],\"data_offsets\":[192,288]},"
             "\"v\":{\"dtype\":\"F16\",\"shape\":[2,2,6,2],\"data_offsets\":[288,384]}}",
             metadata);
    image made = image_make(header, NULL, 384);
    char *path = image_write_file(&made, "sample");
    image_free(&made);
    return path;
}

static void test_captured(void **state)
{
    (void)state;
    char *path = write_captured("\"grid\":\"1x2x3\",\"scale\":\"0.5\"");
    wl_request request = request_for(path);
    wl_workload w = resolve(&request);
    assert_int_equal(w.kind, WL_CAPTURED);
    assert_string_equal(w.name, "sample.safetensors");
    assert_non_null(w.captured);
    assert_int_equal(w.problem.batch, 2);
    assert_int_equal(w.problem.heads_q, 4);
    assert_int_equal(w.problem.grid.w, 3);
    assert_true(w.problem.scale == 0.5f);
    assert_string_equal(w.note, "");
    char whole[65];
    memcpy(whole, w.hash, sizeof whole);
    wl_release(&w);
    assert_null(w.captured);

    request.seqlen = 4;
    request.heads = 2;
    request.batch = 1;
    request.causal = SPARGE_CAUSAL_BOTTOM_RIGHT;
    w = resolve(&request);
    assert_int_equal(w.problem.batch, 1);
    assert_int_equal(w.problem.heads_q, 2);
    assert_int_equal(w.problem.heads_kv, 1);
    assert_int_equal(w.problem.seqlen_q, 4);
    assert_int_equal(w.problem.seqlen_k, 4);
    assert_int_equal(w.problem.grid.t, 0);
    assert_int_equal(w.problem.causal, SPARGE_CAUSAL_BOTTOM_RIGHT);
    assert_string_equal(w.note, "the first 4 of 6 tokens, without their grid");
    assert_string_not_equal(w.hash, whole);
    wl_release(&w);

    request = request_for(path);
    request.order = WL_ORDER_RANDOM;
    w = resolve(&request);
    assert_int_equal(w.problem.grid.reordered, 1);
    assert_string_equal(w.hash, whole);
    wl_release(&w);

    request = request_for(path);
    request.heads = 5;
    refuse(&request, "heads = 5: it has 4 query heads");
    request.heads = 3;
    refuse(&request, "heads = 3: must be a multiple of 2");
    request = request_for(path);
    request.batch = 3;
    refuse(&request, "batch = 3: it has 2");
    request = request_for(path);
    request.seqlen = 7;
    refuse(&request, "seqlen = 7: it has 6 tokens");
    request = request_for(path);
    request.head_dim = 64;
    refuse(&request, "head_dim = 64: it has 2");
    request = request_for(path);
    request.dtype = SPARGE_BF16;
    refuse(&request, "dtype = bf16: it holds f16");
    request = request_for(path);
    request.seqlen = 4;
    request.order = WL_ORDER_HILBERT;
    refuse(&request, "order = hilbert: it has no grid");
    image_remove_file(path);
}

/* The hash covers the bytes used and no others: the description and the rows, hashed here by hand. */
static void test_captured_hash(void **state)
{
    (void)state;
    char *path = write_captured("");
    wl_request request = request_for(path);
    request.seqlen = 3;
    request.heads = 2;
    wl_workload w = resolve(&request);
    unsigned char data[384];
    for (int i = 0; i < 384; i++)
        data[i] = (unsigned char)i;
    static const struct {
        int role, begin, heads_stored, heads;
    } parts[] = {{0, 0, 4, 2}, {1, 192, 2, 1}, {2, 288, 2, 1}};
    sb_sha256 sha;
    sb_sha256_begin(&sha);
    for (int p = 0; p < 3; p++) {
        char text[128];
        int length = snprintf(text, sizeof text, "sparge-captured 1 role=%d batch=2 heads=%d tokens=3 dim=2 f16\n",
                              parts[p].role, parts[p].heads);
        sb_sha256_update(&sha, text, (size_t)length);
        for (int b = 0; b < 2; b++)
            for (int h = 0; h < parts[p].heads; h++)
                sb_sha256_update(&sha, data + parts[p].begin + (b * parts[p].heads_stored + h) * 6 * 2 * 2, 3 * 2 * 2);
    }
    char expected[SB_SHA256_HEX_SIZE];
    sb_sha256_end(&sha, expected);
    assert_string_equal(w.hash, expected);
    wl_release(&w);
    image_remove_file(path);
}

static void test_captured_32_bits(void **state)
{
    (void)state;
    image made = image_make("{\"q\":{\"dtype\":\"F32\",\"shape\":[1,1,2,2],\"data_offsets\":[0,16]},"
                            "\"k\":{\"dtype\":\"F32\",\"shape\":[1,1,3,2],\"data_offsets\":[16,40]},"
                            "\"v\":{\"dtype\":\"F32\",\"shape\":[1,1,3,2],\"data_offsets\":[40,64]}}",
                            NULL, 64);
    char *path = image_write_file(&made, "wide");
    wl_request request = request_for(path);
    wl_workload w = resolve(&request);
    assert_int_equal(w.problem.dtype, SPARGE_F16);
    wl_release(&w);
    request.dtype = SPARGE_BF16;
    w = resolve(&request);
    assert_int_equal(w.problem.dtype, SPARGE_BF16);
    wl_release(&w);
    request.seqlen = 2;
    refuse(&request, "seqlen = 2: it has 2 queries and 3 keys and cannot be cut");
    image_remove_file(path);
    image_free(&made);
}

/* The sample in the repository is what its README says. */
static void test_committed_sample(void **state)
{
    (void)state;
    wl_request request = request_for(SPARGE_SOURCE_DIR "/workloads/samples/smollm2-135m-layer15.safetensors");
    wl_workload w = resolve(&request);
    assert_string_equal(w.name, "smollm2-135m-layer15.safetensors");
    assert_int_equal(w.problem.heads_q, 6);
    assert_int_equal(w.problem.heads_kv, 2);
    assert_int_equal(w.problem.seqlen_q, 4096);
    assert_int_equal(w.problem.head_dim, 64);
    assert_int_equal(w.problem.dtype, SPARGE_F16);
    assert_true(w.problem.causal != SPARGE_CAUSAL_NONE);
    assert_int_equal(wl_captured_get_info(w.captured)->layer, 15);
    wl_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_geometry),
        cmocka_unit_test(test_presets_are_complete),
        cmocka_unit_test(test_structured_defaults_are_the_peers),
        cmocka_unit_test(test_requests_are_honoured),
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_what_cannot_be_met),
        cmocka_unit_test(test_grids_scale_to_the_nearest_length),
        cmocka_unit_test(test_hashes_tell_numbers_apart),
        cmocka_unit_test(test_captured),
        cmocka_unit_test(test_captured_hash),
        cmocka_unit_test(test_captured_32_bits),
        cmocka_unit_test(test_committed_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
