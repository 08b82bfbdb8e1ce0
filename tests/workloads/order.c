/* Token orders: permutations, their definitions cell by cell, and what makes a Hilbert curve one. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workloads.h"

static int64_t cells_of(const sparge_grid *grid)
{
    return (int64_t)grid->t * grid->h * grid->w;
}

static int64_t tokens_of(const sparge_grid *grid)
{
    return cells_of(grid) + grid->text_before + grid->text_after;
}

static int64_t *order_of(const sparge_grid *grid, wl_order order, uint64_t seed)
{
    int64_t *source = malloc((size_t)tokens_of(grid) * sizeof *source);
    assert_non_null(source);
    sparge_error error;
    if (wl_order_permutation(grid, order, seed, source, &error) != SPARGE_OK)
        fail_msg("%s", error.text);
    return source;
}

static void check_permutation(const int64_t *source, int64_t count)
{
    unsigned char *seen = calloc((size_t)count, 1);
    assert_non_null(seen);
    for (int64_t i = 0; i < count; i++) {
        assert_in_range(source[i], 0, count - 1);
        assert_false(seen[source[i]]++);
    }
    free(seen);
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void test_every_order_is_a_permutation_that_leaves_text_in_place(void **state)
{
    (void)state;
    uint32_t random = 1;
    for (int round = 0; round < 200; round++) {
        sparge_grid grid = {.t = 1 + (int32_t)(next_random(&random) % 9),
                            .h = 1 + (int32_t)(next_random(&random) % 12),
                            .w = 1 + (int32_t)(next_random(&random) % 12),
                            .text_before = (int32_t)(next_random(&random) % 4),
                            .text_after = (int32_t)(next_random(&random) % 4)};
        int64_t tokens = tokens_of(&grid);
        for (int order = 0; order < WL_ORDER_COUNT; order++) {
            int64_t *source = order_of(&grid, (wl_order)order, 5);
            check_permutation(source, tokens);
            for (int64_t i = 0; i < grid.text_before; i++)
                assert_int_equal(source[i], i);
            for (int64_t i = tokens - grid.text_after; i < tokens; i++)
                assert_int_equal(source[i], i);
            free(source);
        }
    }
}

/* By definition: the coordinates of consecutive positions count up with the named axis fastest. */
static void test_nested_orders(void **state)
{
    (void)state;
    const sparge_grid grid = {.t = 3, .h = 4, .w = 5, .text_before = 2};
    int64_t *row = order_of(&grid, WL_ORDER_ROW, 0), *column = order_of(&grid, WL_ORDER_COLUMN, 0);
    int64_t *time = order_of(&grid, WL_ORDER_TIME, 0);
    for (int t = 0; t < 3; t++)
        for (int h = 0; h < 4; h++)
            for (int w = 0; w < 5; w++) {
                int64_t token = 2 + (t * 4 + h) * 5 + w;
                assert_int_equal(row[token], token);
                assert_int_equal(column[2 + (t * 5 + w) * 4 + h], token);
                assert_int_equal(time[2 + (h * 5 + w) * 3 + t], token);
            }
    free(row);
    free(column);
    free(time);
}

static void test_random_is_seeded_and_even(void **state)
{
    (void)state;
    const sparge_grid grid = {.t = 2, .h = 3, .w = 4};
    int64_t *a = order_of(&grid, WL_ORDER_RANDOM, 1), *again = order_of(&grid, WL_ORDER_RANDOM, 1);
    int64_t *b = order_of(&grid, WL_ORDER_RANDOM, 2);
    assert_memory_equal(a, again, 24 * sizeof *a);
    assert_memory_not_equal(a, b, 24 * sizeof *a);
    free(a);
    free(again);
    free(b);
    /* 24000 shuffles: every token at every place about 1000 times; 6 standard deviations are 186 */
    int count[24][24] = {{0}};
    for (uint64_t seed = 0; seed < 24000; seed++) {
        int64_t *source = order_of(&grid, WL_ORDER_RANDOM, seed);
        for (int i = 0; i < 24; i++)
            count[i][source[i]]++;
        free(source);
    }
    for (int i = 0; i < 24; i++)
        for (int j = 0; j < 24; j++)
            assert_in_range(count[i][j], 814, 1186);
}

typedef struct step_counts {
    int64_t longer; /* steps that do not go to a face neighbour */
    int64_t longest;
} step_counts;

static int64_t distance(const sparge_grid *grid, int64_t a, int64_t b)
{
    int64_t plane = (int64_t)grid->h * grid->w;
    return llabs(a / plane - b / plane) + llabs(a / grid->w % grid->h - b / grid->w % grid->h) +
           llabs(a % grid->w - b % grid->w);
}

static step_counts hilbert_steps(const sparge_grid *grid)
{
    int64_t *source = order_of(grid, WL_ORDER_HILBERT, 0);
    check_permutation(source, tokens_of(grid));
    step_counts counts = {0, 0};
    for (int64_t i = 1; i < tokens_of(grid); i++) {
        int64_t step = distance(grid, source[i - 1], source[i]);
        counts.longer += step > 1;
        counts.longest = step > counts.longest ? step : counts.longest;
    }
    free(source);
    return counts;
}

/* Every box up to 12 x 12 x 12: a path of neighbours where all extents are even or one is 1; else a few diagonals. */
static void test_hilbert_steps_in_all_small_boxes(void **state)
{
    (void)state;
    for (int32_t t = 1; t <= 12; t++)
        for (int32_t h = 1; h <= 12; h++)
            for (int32_t w = 1; w <= 12; w++) {
                const sparge_grid grid = {.t = t, .h = h, .w = w};
                step_counts counts = hilbert_steps(&grid);
                if ((t % 2 == 0 && h % 2 == 0 && w % 2 == 0) || t == 1 || h == 1 || w == 1)
                    assert_int_equal(counts.longer, 0);
                assert_true(counts.longest <= 2);
                assert_true(counts.longer <= 2 || counts.longer * 100 <= 5 * cells_of(&grid));
            }
}

static void test_hilbert_steps_in_the_models_grids(void **state)
{
    (void)state;
    for (size_t i = 0; i < wl_preset_count(); i++) {
        sparge_grid grid = wl_preset_at(i)->grid;
        if (grid.t == 0)
            continue;
        grid.text_before = grid.text_after = 0;
        step_counts counts = hilbert_steps(&grid);
        assert_true(counts.longest <= 2);
        assert_true(counts.longer * 100 <= cells_of(&grid)); /* at most one step in a hundred */
    }
    const sparge_grid thin[] = {{.t = 3, .h = 3, .w = 500}, {.t = 2, .h = 3, .w = 301}, {.t = 201, .h = 5, .w = 3}};
    for (size_t i = 0; i < 3; i++) {
        step_counts counts = hilbert_steps(&thin[i]);
        assert_true(counts.longest <= 2);
        assert_true(counts.longer * 100 <= 3 * cells_of(&thin[i]));
    }
}

/* On a cube of side 2^n every aligned run of 8^k positions is an aligned sub-cube of side 2^k, and steps go to
 * neighbours: the definition of a Hilbert curve. */
static void test_hilbert_on_cubes(void **state)
{
    (void)state;
    for (int32_t side = 2; side <= 32; side *= 2) {
        const sparge_grid grid = {.t = side, .h = side, .w = side};
        assert_int_equal(hilbert_steps(&grid).longer, 0);
        int64_t *source = order_of(&grid, WL_ORDER_HILBERT, 0);
        for (int64_t sub = 2; sub < side; sub *= 2) {
            int64_t run = sub * sub * sub;
            for (int64_t i = 0; i < cells_of(&grid); i++) {
                int64_t a = source[i], b = source[i / run * run];
                assert_int_equal(a / side / side / sub, b / side / side / sub);
                assert_int_equal(a / side % side / sub, b / side % side / sub);
                assert_int_equal(a % side / sub, b % side / sub);
            }
        }
        free(source);
    }
}

/* Mean distance between the cells of a run of 64, by brute force: near that of a 4 x 4 x 4 cube (3.81 with the pairs of
 * distinct cells), and far below row order's. */
static double mean_distance(const sparge_grid *grid, wl_order order)
{
    int64_t *source = order_of(grid, order, 0);
    double sum = 0, pairs = 0;
    for (int64_t first = 0; first + 64 <= cells_of(grid); first += 64)
        for (int64_t i = first; i < first + 64; i++)
            for (int64_t j = first; j < i; j++) {
                sum += (double)distance(grid, source[i], source[j]);
                pairs++;
            }
    free(source);
    return sum / pairs;
}

static void test_hilbert_is_local(void **state)
{
    (void)state;
    const sparge_grid cube = {.t = 16, .h = 16, .w = 16};
    double ideal = 3.75 * 64 / 63; /* 3 axes, mean 5/4 each, the pairs of a cell with itself taken out */
    assert_true(fabs(mean_distance(&cube, WL_ORDER_HILBERT) - ideal) < 1e-9);
    const sparge_grid grids[] = {{.t = 14, .h = 30, .w = 53},
                                 {.t = 13, .h = 30, .w = 45},
                                 {.t = 12, .h = 10, .w = 17},
                                 {.t = 15, .h = 15, .w = 15}};
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        double hilbert = mean_distance(&grids[i], WL_ORDER_HILBERT);
        assert_true(hilbert < 1.2 * ideal);
        assert_true(hilbert < 0.75 * mean_distance(&grids[i], WL_ORDER_ROW));
        assert_true(hilbert < 0.75 * mean_distance(&grids[i], WL_ORDER_TIME));
        assert_true(hilbert < 0.75 * mean_distance(&grids[i], WL_ORDER_COLUMN));
        assert_true(hilbert < 0.5 * mean_distance(&grids[i], WL_ORDER_RANDOM));
    }
}

static void test_names(void **state)
{
    (void)state;
    sparge_error error;
    wl_order order;
    for (int i = 0; i < WL_ORDER_COUNT; i++) {
        assert_int_equal(wl_order_parse(wl_order_name((wl_order)i), &order, &error), SPARGE_OK);
        assert_int_equal(order, i);
    }
    assert_int_equal(wl_order_parse("Hilbert", &order, &error), SPARGE_ERROR_INVALID_ARGUMENT);
    assert_string_equal(error.text, "order 'Hilbert': must be row, column, time, random or hilbert");
    assert_string_equal(wl_order_name((wl_order)WL_ORDER_COUNT), "?");
}

static void test_refuses_what_is_no_grid(void **state)
{
    (void)state;
    const sparge_grid bad[] = {{0},
                               {.t = 1, .h = 1, .w = 0},
                               {.t = -1, .h = 1, .w = 1},
                               {.t = 1, .h = 1, .w = 1, .text_before = -1},
                               {.t = INT32_MAX, .h = INT32_MAX, .w = INT32_MAX}};
    int64_t source[1];
    sparge_error error;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(wl_order_permutation(&bad[i], WL_ORDER_ROW, 0, source, &error), SPARGE_ERROR_INVALID_ARGUMENT);
        assert_non_null(strstr(error.text, "needs a grid"));
    }
    const sparge_grid one = {.t = 1, .h = 1, .w = 1};
    assert_int_equal(wl_order_permutation(&one, (wl_order)9, 0, source, &error), SPARGE_ERROR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_order_is_a_permutation_that_leaves_text_in_place),
        cmocka_unit_test(test_nested_orders),
        cmocka_unit_test(test_random_is_seeded_and_even),
        cmocka_unit_test(test_hilbert_steps_in_all_small_boxes),
        cmocka_unit_test(test_hilbert_steps_in_the_models_grids),
        cmocka_unit_test(test_hilbert_on_cubes),
        cmocka_unit_test(test_hilbert_is_local),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_refuses_what_is_no_grid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
