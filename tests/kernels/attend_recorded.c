/* The attention kernels on the official block maps. Parity mode is as far from exact attention on the map as the
 * official kernel is, and a fiftieth of that from its output; fixed mode is about as far as the official kernel, and no further on
 * average where nothing is skipped; 16-bit attention is close to exact. */
#include "recorded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "oracle/oracle.h"

enum { SETTINGS = 2 };

static const char *const settings[SETTINGS] = {"s0.6c0.98", "s-0.1k0.25"};

/* Rows that the map leaves without a key are 0 here, and an average of some keys in the official output: left out. */
static int row_is_empty(const double *exact, int64_t dim)
{
    for (int64_t d = 0; d < dim; d++)
        if (exact[d] != 0)
            return 0;
    return 1;
}

/* Copies the rows that are not empty in `exact`; returns how many elements that are. */
static int64_t keep_rows(const double *exact, int64_t rows, int64_t dim, const double *from, double *to)
{
    int64_t count = 0;
    for (int64_t i = 0; i < rows; i++)
        if (!row_is_empty(exact + i * dim, dim))
            for (int64_t d = 0; d < dim; d++)
                to[count++] = from[i * dim + d];
    return count;
}

static double *doubles_of_f32(const float *from, int64_t count)
{
    double *to = oracle_alloc((size_t)count, sizeof *to);
    for (int64_t i = 0; i < count; i++)
        to[i] = (double)from[i];
    return to;
}

static double *doubles_of_f16(const uint16_t *from, int64_t count)
{
    double *to = oracle_alloc((size_t)count, sizeof *to);
    for (int64_t i = 0; i < count; i++)
        to[i] = (double)sparge_f32_from_f16(from[i]);
    return to;
}

typedef struct errors {
    double official, mine, between; /* rel_l2 to exact attention on the map; mine to the official output */
    int64_t empty_rows;
} errors;

static errors compare(const recorded *r, const recorded_run *run, const char *shape, const char *setting)
{
    const int64_t rows = r->heads * r->tokens, count = rows * r->head_dim;
    uint16_t *output = recorded_run_output(run);
    float *lse = run->lse ? recorded_run_lse(run) : NULL;
    double *exact = doubles_of_f32(recorded_data(r, shape, "masked_f64", setting, "F32"), count);
    double *official = doubles_of_f16(recorded_data(r, shape, "out", setting, "F16"), count);
    double *mine = doubles_of_f16(output, count);
    double *some[3];
    const double *all[3] = {exact, official, mine};
    int64_t kept = 0;
    for (int i = 0; i < 3; i++) {
        some[i] = oracle_alloc((size_t)count, sizeof **some);
        kept = keep_rows(exact, rows, r->head_dim, all[i], some[i]);
    }
    for (int64_t i = 0; i < rows; i++)
        if (row_is_empty(exact + i * r->head_dim, r->head_dim)) {
            assert_true(row_is_empty(mine + i * r->head_dim, r->head_dim));
            assert_true(!lse || lse[i] == -INFINITY);
        }
    const errors e = {.official = oracle_compare(some[1], some[0], kept).rel_l2,
                      .mine = oracle_compare(some[2], some[0], kept).rel_l2,
                      .between = oracle_compare(some[2], some[1], kept).rel_l2,
                      .empty_rows = rows - kept / r->head_dim};
    free(output);
    free(lse);
    free(exact);
    free(official);
    free(mine);
    for (int i = 0; i < 3; i++)
        free(some[i]);
    return e;
}

/* The recorded map as a file of the method `mask`. */
static void write_map(const recorded *r, const char *shape, const char *setting, const char *path)
{
    sparge_block_mask mask;
    sparge_error error = {0};
    int32_t block_q, block_k;
    const sparge_problem problem = {.batch = 1,
                                    .heads_q = (int32_t)r->heads,
                                    .heads_kv = (int32_t)r->heads,
                                    .seqlen_q = r->tokens,
                                    .seqlen_k = r->tokens,
                                    .head_dim = (int32_t)r->head_dim,
                                    .dtype = SPARGE_F16};
    recorded_blocks(shape, &block_q, &block_k);
    if (sparge_block_mask_create(&mask, &problem, block_q, block_k, &error) != SPARGE_OK)
        fail_msg("%s", error.text);
    memcpy(mask.value, recorded_data(r, shape, "map", setting, "U8"), (size_t)(mask.heads * mask.rows * mask.cols));
    if (sparge_block_mask_write(&mask, path, &error) != SPARGE_OK)
        fail_msg("%s", error.text);
    sparge_block_mask_release(&mask);
}

typedef enum run_mode {
    MODE_PARITY,
    MODE_FIXED,
    MODE_BARE, /* fixed, without the PV skip and the LSE: Hopper's kernels with packed exponentials */
    RUN_MODES
} run_mode;

static const char *const mode_names[RUN_MODES] = {"parity", "fixed", "bare"};

static errors run(sparge_context *context, int index, const char *shape, const char *setting, const char *arithmetic,
                  run_mode mode)
{
    char folder[] = "/tmp/sparge-recorded-XXXXXX", path[64], text[256];
    int32_t block_q, block_k;
    recorded r;
    recorded_run on;
    recorded_open(&r, index);
    recorded_blocks(shape, &block_q, &block_k);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/map.npy", folder);
    write_map(&r, shape, setting, path);
    int end = snprintf(text, sizeof text, "file=%s attend=%s block_q=%d block_k=%d compat=%s", path, arithmetic,
                       block_q, block_k, mode == MODE_PARITY ? "upstream" : "fixed");
    if (mode != MODE_BARE) /* pvthreshd = 50, the official default, voted on by whole row blocks */
        snprintf(text + end, sizeof text - (size_t)end, " pv_unit=%d lambda=%.17g", block_q, -50 * log(2.0));
    recorded_run_open(&on, context, &r, "mask", text);
    if (mode == MODE_BARE) {
        sparge_free(context, on.lse);
        on.lse = NULL;
    }
    recorded_run_stages(&on, SPARGE_STAGE_ALL);
    const errors e = compare(&r, &on, shape, setting);
    print_message("%s %s@%s %s %s: rel_l2 %.5f, official %.5f, to it %.5f; %d rows without keys\n", r.name, shape,
                  setting, arithmetic, mode_names[mode], e.mine, e.official, e.between, (int)e.empty_rows);
    recorded_run_close(&on);
    recorded_close(&r);
    unlink(path);
    rmdir(folder);
    return e;
}

/* 64x128 is the official INT8/FP8 kernel, 128x64 its INT8/F16 one. */
static void official_maps_give_official_accuracy(void **state)
{
    for (int fp8 = 0; fp8 < 2; fp8++) {
        const char *shape = fp8 ? "64x128" : "128x64";
        const char *arithmetic = fp8 ? "int8-fp8" : "int8-f16";
        double bare_to_official = 0;
        for (int index = 0; index < UPSTREAM_CASES; index++)
            for (int s = 0; s < SETTINGS; s++) {
                const errors parity = run(*state, index, shape, settings[s], arithmetic, MODE_PARITY);
                assert_true(parity.mine <= 1.01 * parity.official);
                assert_true(parity.between <= 1e-3);
                const errors fixed = run(*state, index, shape, settings[s], arithmetic, MODE_FIXED);
                assert_true(fixed.mine <= 1.1 * fixed.official);
                const errors bare = run(*state, index, shape, settings[s], arithmetic, MODE_BARE);
                assert_true(bare.mine <= 1.1 * bare.official);
                bare_to_official += bare.mine / bare.official / (UPSTREAM_CASES * SETTINGS);
                const errors f16 = run(*state, index, shape, settings[s], "f16", MODE_FIXED);
                assert_true(f16.mine <= 1e-3);
            }
        print_message("%s without the PV skip: on average %.3f of the official error\n", arithmetic, bare_to_official);
        assert_true(bare_to_official <= 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(official_maps_give_official_accuracy)};
    const int nothing = recorded_start();
    return nothing ? nothing : cmocka_run_group_tests(tests, recorded_setup, recorded_teardown);
}
