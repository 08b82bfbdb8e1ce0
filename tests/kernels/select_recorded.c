/* Parity mode against the recordings of the official code: block means, self-similarity, and block maps.
 *
 * The official scores, probabilities and sums are 16-bit, so blocks with nearly equal probability may fall either way:
 * maps must be equal except where one block is swapped for another of the same score, or where the running sum meets the
 * threshold within 16-bit rounding. */
#include "check.h"
#include "cpu/cpu.h"
#include "cpu/prepare/pool.h"
#include "safetensors.h"
#include "upstream.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *block_q, *block_k;
} shapes[] = {{"64x128", "64", "128"}, {"128x64", "128", "64"}};
static const struct {
    const char *name, *theta, *param, *value;
} settings[] = {
    {"s0.6c0.98", "0.6", "tau", "0.98"},
    {"s0.1c0.9", "0.1", "tau", "0.9"},
    {"s-0.1k0.5", "-0.1", "topk", "0.5"},
    {"s-0.1k0.25", "-0.1", "topk", "0.25"},
};

typedef struct recording {
    st_file *file;
    sparge_problem problem;
    sparge_io io;
    void *o;
} recording;

/* The tensor "what", "shape.what" or "shape.what@setting". */
static const st_tensor *tensor(const recording *r, const char *shape, const char *what, const char *setting)
{
    char name[128];
    snprintf(name, sizeof name, "%s%s%s%s%s", shape, shape[0] ? "." : "", what, setting[0] ? "@" : "", setting);
    const st_tensor *found = st_find(r->file, name);
    if (!found)
        fail_msg("no tensor %s", name);
    return found;
}

static sparge_tensor view(const st_tensor *t)
{
    return sparge_tensor_hnd((void *)(uintptr_t)t->data, SPARGE_F16, t->shape[0], t->shape[1], t->shape[2],
                             t->shape[3]);
}

static void open_recording(recording *r, int index)
{
    char path[1024];
    sparge_error error = {0};
    upstream_path(index, path, sizeof path);
    if (st_open(path, &r->file, &error) != SPARGE_OK)
        fail_msg("%s", error.text);
    const st_tensor *q = tensor(r, "", "q", ""), *k = tensor(r, "", "k", ""), *v = tensor(r, "", "v", "");
    r->problem = (sparge_problem){
        .batch = (int32_t)q->shape[0],
        .heads_q = (int32_t)q->shape[1],
        .heads_kv = (int32_t)k->shape[1],
        .seqlen_q = q->shape[2],
        .seqlen_k = k->shape[2],
        .head_dim = (int32_t)q->shape[3],
        .dtype = SPARGE_F16,
        .causal = upstream_cases[index].causal ? SPARGE_CAUSAL_TOP_LEFT : SPARGE_CAUSAL_NONE,
    };
    r->o = calloc(1, q->bytes);
    assert_non_null(r->o);
    r->io = (sparge_io){.q = view(q), .k = view(k), .v = view(v), .o = view(q)};
    r->io.o.data = r->o;
}

static void close_recording(recording *r)
{
    st_close(r->file);
    free(r->o);
}

static sparge_plan *plan_of(sparge_context *context, const recording *r, size_t shape, size_t setting, int smooth)
{
    sparge_params *params;
    sparge_plan *plan;
    sparge_error error = {0};
    assert_int_equal(sparge_params_create(sparge_method_find("sparge-f16"), &params), SPARGE_OK);
    const char *const set[][2] = {{"compat", "upstream"},
                                  {"smooth_k", smooth ? "on" : "off"},
                                  {"block_q", shapes[shape].block_q},
                                  {"block_k", shapes[shape].block_k},
                                  {"theta", settings[setting].theta},
                                  {settings[setting].param, settings[setting].value}};
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++)
        if (sparge_params_set(params, set[i][0], set[i][1], &error) != SPARGE_OK)
            fail_msg("%s", error.text);
    if (sparge_plan_create(context, params, &r->problem, &plan) != SPARGE_OK)
        fail_msg("%s", sparge_error_string(context));
    sparge_params_destroy(params);
    assert_int_equal(sparge_plan_run(plan, SPARGE_STAGE_PREPARE | SPARGE_STAGE_SELECT, &r->io), SPARGE_OK);
    return plan;
}

/* Means are equal as 16-bit numbers but for the last bit; similarities but for what 16-bit unit rows leave. */
static void check_pool(const float *pool, const float *sim, const st_tensor *mean, const st_tensor *simval,
                       int64_t tokens, int32_t block)
{
    const int64_t blocks = mean->shape[2], channels = mean->shape[3];
    size_t different = 0, count = mean->bytes / 2;
    for (size_t i = 0; i < count; i++) {
        uint16_t code;
        memcpy(&code, (const char *)mean->data + 2 * i, 2);
        const float expected = sparge_f32_from_f16(code);
        different += pool[i] != expected;
        assert_true(fabsf(pool[i] - expected) <= fmaxf(fabsf(expected) * 0x1p-10F, 0x1p-24F));
    }
    assert_true(different * 100 <= count); /* a mean next to a rounding boundary is the exception */
    for (size_t i = 0; i < count / (size_t)channels; i++) {
        float expected;
        memcpy(&expected, (const char *)simval->data + 4 * i, 4);
        const int64_t left = tokens - (int64_t)i % blocks * block;
        assert_true(left > 0 && fabsf(sim[i] - expected) <= 1e-3F);
    }
}

static void pools(void **state)
{
    sparge_context *context = *state;
    for (int f = 0; f < UPSTREAM_CASES; f++)
        for (size_t s = 0; s < 2; s++) {
            recording r;
            open_recording(&r, f);
            sparge_plan *plan = plan_of(context, &r, s, 0, 1);
            const cpu_prepared *in = &cpu_plan_of(plan)->prepared;
            check_pool(in->q_pool, in->q_sim, tensor(&r, shapes[s].name, "q_mean", ""),
                       tensor(&r, shapes[s].name, "q_simval", ""), r.problem.seqlen_q, plan->recipe.block_q);
            check_pool(in->k_pool, in->k_sim, tensor(&r, shapes[s].name, "k_mean", ""),
                       tensor(&r, shapes[s].name, "k_simval", ""), r.problem.seqlen_k, plan->recipe.block_k);
            sparge_plan_destroy(plan);
            close_recording(&r);
        }
}

/* Score of a block from our pools, in double: what decides between blocks. */
static double score(const sparge_plan *plan, int64_t head, int64_t row, int64_t col)
{
    const cpu_plan *cpu = cpu_plan_of(plan);
    const int32_t channels = plan->problem.head_dim;
    const float *q = cpu->prepared.q_pool + (head * cpu->mask.rows + row) * channels;
    const float *k = cpu->prepared.k_pool + (head * cpu->mask.cols + col) * channels;
    double dot = 0;
    for (int32_t d = 0; d < channels; d++)
        dot += (double)q[d] * k[d];
    return dot / sqrt(channels);
}

/* Lowest score of the blocks only in a, highest of those only in b. */
static void compare_row(const sparge_plan *plan, int64_t head, int64_t row, const uint8_t *ours, const uint8_t *theirs,
                        size_t *swapped)
{
    const int64_t cols = cpu_plan_of(plan)->mask.cols;
    int64_t more = 0, less = 0;
    double our_score = 0, their_score = 0;
    for (int64_t col = 0; col < cols; col++) {
        if (ours[col] && !theirs[col]) {
            more++;
            our_score = score(plan, head, row, col);
        }
        if (!ours[col] && theirs[col]) {
            less++;
            their_score = score(plan, head, row, col);
        }
    }
    if (more == 0 && less == 0)
        return;
    *swapped += 1;
    if (more != 1 || less != 1 || fabs(our_score - their_score) > 4e-3 * fmax(1, fabs(our_score)))
        fail_msg("head %d, row %d: %d blocks more, %d less than recorded", (int)head, (int)row, (int)more, (int)less);
}

static void maps(void **state)
{
    sparge_context *context = *state;
    size_t rows = 0, swapped = 0;
    for (int f = 0; f < UPSTREAM_CASES; f++)
        for (size_t s = 0; s < 2; s++)
            for (size_t t = 0; t < sizeof settings / sizeof settings[0]; t++)
                for (int smooth = 0; smooth < 2; smooth++) {
                    recording r;
                    open_recording(&r, f);
                    const st_tensor *map = tensor(&r, shapes[s].name, smooth ? "map" : "mapraw", settings[t].name);
                    sparge_plan *plan = plan_of(context, &r, s, t, smooth);
                    sparge_block_mask mask;
                    assert_int_equal(sparge_plan_get_block_mask(plan, &mask), SPARGE_OK);
                    assert_true(map->shape[2] == mask.rows && map->shape[3] == mask.cols);
                    for (int64_t i = 0; i < mask.heads * mask.rows; i++, rows++)
                        compare_row(plan, i / mask.rows, i % mask.rows, mask.value + i * mask.cols,
                                    (const uint8_t *)map->data + i * mask.cols, &swapped);
                    sparge_block_mask_release(&mask);
                    sparge_plan_destroy(plan);
                    close_recording(&r);
                }
    printf("%zu rows, %zu with a tie decided the other way\n", rows, swapped);
    assert_true(swapped * 50 < rows);
}

/* The recorded lists say the same as the maps: ascending, delta-coded. */
static void lists(void **state)
{
    static const size_t with_lists[] = {0, 3};
    (void)state;
    for (int f = 0; f < UPSTREAM_CASES; f++)
        for (size_t s = 0; s < 2; s++)
            for (size_t t = 0; t < 2; t++) {
                recording r;
                open_recording(&r, f);
                const char *setting = settings[with_lists[t]].name;
                const st_tensor *map = tensor(&r, shapes[s].name, "map", setting);
                const st_tensor *lut = tensor(&r, shapes[s].name, "lut", setting);
                const st_tensor *valid = tensor(&r, shapes[s].name, "valid", setting);
                const int64_t rows = map->shape[1] * map->shape[2], cols = map->shape[3];
                for (int64_t i = 0; i < rows; i++) {
                    int32_t count, step, col = 0;
                    memcpy(&count, (const char *)valid->data + 4 * i, 4);
                    int64_t kept = 0;
                    for (int64_t j = 0; j < cols; j++)
                        kept += ((const uint8_t *)map->data)[i * cols + j];
                    assert_int_equal(count, kept);
                    for (int32_t n = 0; n < count; n++) {
                        memcpy(&step, (const char *)lut->data + 4 * (i * cols + n), 4);
                        col += step;
                        assert_true(col < cols && ((const uint8_t *)map->data)[i * cols + col]);
                    }
                }
                close_recording(&r);
            }
}

static int set_up(void **state)
{
    sparge_context *context;
    sparge_error error;
    if (sparge_context_create("cpu", 0, 0, &context, &error) != SPARGE_OK)
        return 1;
    *state = context;
    return 0;
}

static int tear_down(void **state)
{
    sparge_context_destroy(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pools), cmocka_unit_test(maps), cmocka_unit_test(lists)};
    return upstream_present() ? cmocka_run_group_tests(tests, set_up, tear_down) : UPSTREAM_SKIP;
}
