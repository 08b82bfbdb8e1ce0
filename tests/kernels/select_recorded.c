/* Block maps in parity mode against the recordings of the official code.
 *
 * The official scores, probabilities and sums are 16-bit, so blocks with nearly equal probability may fall either way:
 * maps must be equal except where one block is swapped for another of the same score, or where the running sum meets the
 * threshold within 16-bit rounding. */
#include "recorded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const shapes[] = {"64x128", "128x64"};
static const struct {
    const char *name, *params;
} settings[] = {
    {"s0.6c0.98", "theta=0.6 tau=0.98"},
    {"s0.1c0.9", "theta=0.1 tau=0.9"},
    {"s-0.1k0.5", "theta=-0.1 topk=0.5"},
    {"s-0.1k0.25", "theta=-0.1 topk=0.25"},
};

/* Score of a block from our pools, in double: what decides between blocks. */
static double score(const recorded_arrays *a, const sparge_block_mask *mask, int32_t channels, int64_t head,
                    int64_t row, int64_t col)
{
    const float *q = a->q_pool + (head * mask->rows + row) * channels;
    const float *k = a->k_pool + (head * mask->cols + col) * channels;
    double dot = 0;
    for (int32_t d = 0; d < channels; d++)
        dot += (double)q[d] * (double)k[d];
    return dot / sqrt(channels);
}

/* Equal, or one block swapped for another of the same score; returns whether it was. */
static int compare_row(const recorded_arrays *a, const sparge_block_mask *mask, int32_t channels, int64_t head,
                       int64_t row, const uint8_t *theirs)
{
    const uint8_t *ours = mask->value + (head * mask->rows + row) * mask->cols;
    int64_t more = 0, less = 0;
    double our_score = 0, their_score = 0;
    for (int64_t col = 0; col < mask->cols; col++) {
        if (ours[col] && !theirs[col]) {
            more++;
            our_score = score(a, mask, channels, head, row, col);
        }
        if (!ours[col] && theirs[col]) {
            less++;
            their_score = score(a, mask, channels, head, row, col);
        }
    }
    if (more == 0 && less == 0)
        return 0;
    if (more != 1 || less != 1 || fabs(our_score - their_score) > 4e-3 * fmax(1, fabs(our_score)))
        fail_msg("head %d, row %d: %d blocks more, %d less than recorded", (int)head, (int)row, (int)more, (int)less);
    return 1;
}

typedef struct tally {
    size_t rows, swapped;
} tally;

static void compare_map(sparge_context *context, const recorded *r, const char *shape, size_t setting, int smooth,
                        tally *counts)
{
    char text[128];
    int32_t block_q, block_k;
    recorded_run run;
    sparge_block_mask mask;
    recorded_blocks(shape, &block_q, &block_k);
    snprintf(text, sizeof text, "compat=upstream smooth_k=%s block_q=%d block_k=%d %s", smooth ? "on" : "off", block_q,
             block_k, settings[setting].params);
    recorded_run_open(&run, context, r, "sparge-f16", text);
    recorded_run_stages(&run, SPARGE_STAGE_PREPARE | SPARGE_STAGE_SELECT);
    recorded_arrays arrays = recorded_run_arrays(&run);
    assert_int_equal(sparge_plan_get_block_mask(run.plan, &mask), SPARGE_OK);
    const st_tensor *map = recorded_tensor(r, shape, smooth ? "map" : "mapraw", settings[setting].name, "U8");
    const uint8_t *theirs = map->data;
    assert_true(map->shape[2] == mask.rows && map->shape[3] == mask.cols);
    for (int64_t i = 0; i < mask.heads * mask.rows; i++) {
        counts->rows++;
        counts->swapped += (size_t)compare_row(&arrays, &mask, (int32_t)r->head_dim, i / mask.rows, i % mask.rows,
                                               theirs + i * mask.cols);
    }
    sparge_block_mask_release(&mask);
    recorded_arrays_release(&arrays);
    recorded_run_close(&run);
}

static void maps(void **state)
{
    tally counts = {0};
    for (int f = 0; f < UPSTREAM_CASES; f++) {
        recorded r;
        recorded_open(&r, f);
        for (size_t s = 0; s < 2; s++)
            for (size_t t = 0; t < sizeof settings / sizeof settings[0]; t++)
                for (int smooth = 0; smooth < 2; smooth++)
                    compare_map(*state, &r, shapes[s], t, smooth, &counts);
        recorded_close(&r);
    }
    printf("%zu rows, %zu with a tie decided the other way\n", counts.rows, counts.swapped);
    assert_true(counts.swapped * 50 < counts.rows);
}

/* The recorded lists say the same as the maps: ascending, delta-coded. */
static void lists(void **state)
{
    static const size_t with_lists[] = {0, 3};
    (void)state;
    for (int f = 0; f < UPSTREAM_CASES; f++)
        for (size_t s = 0; s < 2; s++)
            for (size_t t = 0; t < 2; t++) {
                recorded r;
                recorded_open(&r, f);
                const char *setting = settings[with_lists[t]].name;
                const st_tensor *map = recorded_tensor(&r, shapes[s], "map", setting, "U8");
                const st_tensor *lut = recorded_tensor(&r, shapes[s], "lut", setting, "I32");
                const st_tensor *valid = recorded_tensor(&r, shapes[s], "valid", setting, "I32");
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
                recorded_close(&r);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(maps), cmocka_unit_test(lists)};
    const int nothing = recorded_start();
    return nothing ? nothing : cmocka_run_group_tests(tests, recorded_setup, recorded_teardown);
}
