/* Problems: visibility, counts and checks, against counting one pair at a time. */
#include "check.h"

#include <math.h>
#include <string.h>

#include "sparge/problem.h"

static const sparge_causal alignments[] = {SPARGE_CAUSAL_NONE, SPARGE_CAUSAL_TOP_LEFT, SPARGE_CAUSAL_BOTTOM_RIGHT};

static sparge_problem small_problem(void)
{
    return (sparge_problem){
        .batch = 1, .heads_q = 4, .heads_kv = 2, .seqlen_q = 100, .seqlen_k = 100, .head_dim = 64, .dtype = SPARGE_F16};
}

/* The definition, pair by pair: the diagonal starts at (0, 0) or ends at (Lq - 1, Lk - 1). */
static int sees(const sparge_problem *p, int64_t query, int64_t key)
{
    switch (p->causal) {
    case SPARGE_CAUSAL_TOP_LEFT:
        return key <= query;
    case SPARGE_CAUSAL_BOTTOM_RIGHT:
        return p->seqlen_k - 1 - key >= p->seqlen_q - 1 - query;
    default:
        return 1;
    }
}

static void test_visibility_pair_by_pair(void **state)
{
    (void)state;
    sparge_problem p = small_problem();
    for (size_t a = 0; a < 3; a++)
        for (p.seqlen_q = 1; p.seqlen_q <= 17; p.seqlen_q++)
            for (p.seqlen_k = 1; p.seqlen_k <= 17; p.seqlen_k++) {
                p.causal = alignments[a];
                int64_t pairs = 0;
                for (int64_t i = 0; i < p.seqlen_q; i++) {
                    int64_t end = sparge_problem_visible_end(&p, i);
                    for (int64_t j = 0; j < p.seqlen_k; j++) {
                        assert_int_equal(j < end, sees(&p, i, j));
                        pairs += sees(&p, i, j);
                    }
                }
                assert_int_equal(sparge_problem_visible_pairs(&p), pairs);
                assert_true(sparge_problem_dense_ops(&p) == 4.0 * 64 * (double)pairs * 1 * 4);
            }
}

static void test_counts_do_not_overflow(void **state)
{
    (void)state;
    sparge_problem p = small_problem();
    p.seqlen_q = p.seqlen_k = (int64_t)1 << 30;
    assert_int_equal(sparge_problem_visible_pairs(&p), (int64_t)1 << 60);
    p.causal = SPARGE_CAUSAL_BOTTOM_RIGHT;
    assert_int_equal(sparge_problem_visible_pairs(&p), ((int64_t)1 << 59) + ((int64_t)1 << 29));
    p.seqlen_q = 1;
    assert_int_equal(sparge_problem_visible_pairs(&p), (int64_t)1 << 30);
}

static void test_scale(void **state)
{
    (void)state;
    sparge_problem p = small_problem();
    assert_true(sparge_problem_scale(&p) == 0.125f);
    p.scale = 0.5f;
    assert_true(sparge_problem_scale(&p) == 0.5f);
}

static void expect_invalid(const sparge_problem *p, const char *fragment)
{
    sparge_error error = {0};
    assert_int_equal(sparge_problem_check(p, &error), SPARGE_ERROR_INVALID_ARGUMENT);
    assert_int_equal(error.status, SPARGE_ERROR_INVALID_ARGUMENT);
    if (!strstr(error.text, fragment))
        fail_msg("\"%s\" does not name \"%s\"", error.text, fragment);
    assert_null(strchr(error.text, '\n'));
    assert_int_equal(sparge_problem_check(p, NULL), SPARGE_ERROR_INVALID_ARGUMENT);
}

#define REJECTS(field, bad_value, fragment)                                                                            \
    do {                                                                                                               \
        sparge_problem p = small_problem();                                                                            \
        p.field = bad_value;                                                                                           \
        expect_invalid(&p, fragment);                                                                                  \
    } while (0)

static void test_checks_name_the_field(void **state)
{
    (void)state;
    sparge_problem good = small_problem();
    assert_int_equal(sparge_problem_check(&good, NULL), SPARGE_OK);
    expect_invalid(NULL, "problem");
    REJECTS(batch, 0, "batch = 0");
    REJECTS(heads_q, 0, "heads_q = 0");
    REJECTS(heads_kv, -1, "heads_kv = -1");
    REJECTS(heads_q, 3, "multiple of heads_kv");
    REJECTS(seqlen_q, 0, "seqlen_q = 0");
    REJECTS(seqlen_k, (int64_t)1 << 31, "seqlen_k");
    REJECTS(head_dim, 129, "head_dim = 129");
    REJECTS(dtype, SPARGE_F32, "f32");
    REJECTS(causal, (sparge_causal)7, "causal = 7");
    REJECTS(scale, -1.0f, "scale");
    REJECTS(scale, NAN, "scale");
    REJECTS(scale, INFINITY, "scale");
}

static void test_grid_must_have_the_tokens(void **state)
{
    (void)state;
    sparge_problem p = small_problem();
    p.grid = (sparge_grid){.t = 2, .h = 6, .w = 8, .text_before = 1, .text_after = 3};
    assert_int_equal(sparge_problem_check(&p, NULL), SPARGE_OK);
    p.grid.text_after = 4;
    expect_invalid(&p, "2x6x8");
    p.grid.text_after = -1;
    expect_invalid(&p, "grid");
    p.grid = (sparge_grid){.t = 0, .h = 6, .w = 8};
    expect_invalid(&p, "grid");
    p.grid = (sparge_grid){.t = INT32_MAX, .h = INT32_MAX, .w = INT32_MAX}; /* the product needs 93 bits */
    expect_invalid(&p, "grid");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_visibility_pair_by_pair),
        cmocka_unit_test(test_counts_do_not_overflow),
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_checks_name_the_field),
        cmocka_unit_test(test_grid_must_have_the_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
