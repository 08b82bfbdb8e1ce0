/* XAttention's selection against a re-implementation in double that sums every antidiagonal pair of tokens by itself. */
#include "check.h"
#include "select_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 128, MOST_BLOCKS = 8, MOST_STRIDED = 128 };

/* Score of the stride x stride patch at tokens (q, k): pairs on its antidiagonal, tokens past the end count nothing. */
static double patch_score(const select_case *c, int64_t batch, int64_t head, int64_t q, int64_t k, int64_t stride)
{
    const sparge_problem *p = &c->problem;
    double sum = 0;
    for (int64_t s = 0; s < stride; s++) {
        const int64_t query = q + stride - 1 - s, key = k + s;
        if (query >= p->seqlen_q || key >= p->seqlen_k)
            continue;
        for (int32_t d = 0; d < p->head_dim; d++)
            sum += case_q(c, batch, head, query)[d] * case_k(c, batch, head, key)[d];
    }
    return sum * (double)sparge_problem_scale(p) / (double)stride;
}

/* Mass of each key block for one row of blocks. */
static void row_mass(const select_case *c, int64_t batch, int64_t head, int64_t row, int64_t stride, double *mass)
{
    const sparge_problem *p = &c->problem;
    for (int64_t q = row * BLOCK; q < (row + 1) * BLOCK && q < p->seqlen_q; q += stride) {
        double e[MOST_STRIDED], most = -INFINITY, sum = 0;
        const int64_t last = q + stride - 1 < p->seqlen_q ? q + stride - 1 : p->seqlen_q - 1;
        const int64_t end = sparge_problem_visible_end(p, last);
        int64_t count = 0;
        for (int64_t k = 0; k < end; k += stride, count++) {
            assert_true(count < MOST_STRIDED);
            e[count] = patch_score(c, batch, head, q, k, stride);
            most = fmax(most, e[count]);
        }
        for (int64_t j = 0; j < count; j++)
            sum += e[j] = exp(e[j] - most);
        for (int64_t j = 0; j < count; j++)
            mass[j * stride / BLOCK] += e[j] / sum;
    }
}

/* Forced blocks first where causal, then by falling mass until what was taken reaches the share. */
static void choose(const double *mass, int64_t visible, double threshold, int causal, uint8_t *map, int *near)
{
    double total = 0, taken = 0;
    for (int64_t j = 0; j < visible; j++)
        total += mass[j];
    if (causal && visible > 0) {
        map[0] = map[visible - 1] = 1;
        taken = mass[0] + (visible > 1 ? mass[visible - 1] : 0);
    }
    for (int64_t n = 0; n < visible; n++) {
        int64_t best = -1;
        for (int64_t j = 0; j < visible; j++)
            if (!map[j] && (best < 0 || mass[j] > mass[best]))
                best = j;
        *near |= fabs(taken - threshold * total) < 1e-5 * total;
        if (best < 0 || (taken >= threshold * total && (n > 0 || causal)))
            return;
        for (int64_t j = 0; j < visible; j++)
            *near |= j != best && !map[j] && fabs(mass[j] - mass[best]) < 1e-6 * total;
        map[best] = 1;
        taken += mass[best];
    }
}

static void brute_force(void **state)
{
    uint64_t rng = 31;
    int64_t rows = 0, compared = 0, kept = 0, visible_blocks = 0;
    (void)state;
    for (int n = 0; n < 24; n++) {
        const sparge_problem p = case_problem(&rng, 900, 0);
        const int64_t stride = case_between(&rng, 0, 1) ? 16 : 8;
        const double threshold = (double)case_between(&rng, 0, 100) / 100;
        char text[64];
        select_case c;
        case_open(&c, &p, &rng);
        snprintf(text, sizeof text, "stride=%d threshold=%.2f", (int)stride, threshold);
        case_plan(&c, "xattention", text);
        case_select(&c);
        assert_true(c.mask.block_q == BLOCK && c.mask.block_k == BLOCK);
        for (int64_t i = 0; i < (int64_t)p.batch * p.heads_q * c.mask.rows; i++, rows++) {
            const int64_t h = i / c.mask.rows, row = i % c.mask.rows, visible = case_cols_visible(&c, row);
            const uint8_t *map = case_mask_row(&c, h / p.heads_q, h % p.heads_q, row);
            double mass[MOST_BLOCKS] = {0};
            uint8_t expected[MOST_BLOCKS] = {0};
            int near = 0;
            row_mass(&c, h / p.heads_q, h % p.heads_q, row, stride, mass);
            choose(mass, visible, threshold, p.causal != SPARGE_CAUSAL_NONE, expected, &near);
            for (int64_t j = 0; j < c.mask.cols; j++)
                kept += map[j];
            visible_blocks += visible;
            assert_true(visible == 0 || memchr(map, 1, (size_t)c.mask.cols)); /* no empty row */
            if (near)
                continue;
            compared++;
            assert_memory_equal(map, expected, (size_t)c.mask.cols);
        }
        case_close(&c);
    }
    printf("%d rows, %d compared, density %.2f\n", (int)rows, (int)compared, (double)kept / (double)visible_blocks);
    assert_true(compared * 10 >= rows * 9);
    assert_true(kept * 20 < visible_blocks * 19);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(brute_force)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
