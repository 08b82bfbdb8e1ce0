/* Comparisons: matching, verdicts, and how often they are wrong in simulated A/A and A/B pairs. */
#include "check.h"
#include "compare.h"
#include "synthetic.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const an_compare_options usual = {.threshold = 0.02, .q = 0.05, .seed = 1};

/* A row of `method` with n samples around `us` microseconds, noise from *state. */
static void fill(an_row *row, const char *method, double us, size_t n, uint64_t *state)
{
    *row = (an_row){.row = {.point = {.workload = "w",
                                      .workload_hash = "0123456789abcdef",
                                      .order = "row",
                                      .grid = "",
                                      .method = method,
                                      .parameters = "{}",
                                      .backend = "fake",
                                      .device = "d",
                                      .batch = 1,
                                      .heads_q = 1,
                                      .heads_kv = 1,
                                      .seqlen_q = 128,
                                      .seqlen_k = 128,
                                      .head_dim = 64,
                                      .dtype = "f16",
                                      .causal = "none",
                                      .scale = 0.125},
                            .outcome = RS_DONE}};
    int64_t *ns = calloc(n + 1, sizeof *ns);
    assert_non_null(ns);
    for (size_t i = 0; i < n; i++)
        ns[i] = (int64_t)(us * 1000 * synthetic_noise(state));
    assert_int_equal(an_row_set_samples(row, RS_TOTAL, ns, n), 0);
    free(ns);
    row->label = strdup(method);
    assert_non_null(row->label);
}

static void release(an_row *row, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(row[i].total_ns);
        free(row[i].label);
    }
}

/* One point, n samples a side. */
static an_comparison compare_one(double us_a, double us_b, size_t n, const an_compare_options *options)
{
    uint64_t state = 42;
    an_row a, b;
    fill(&a, "m", us_a, n, &state);
    fill(&b, "m", us_b, n, &state);
    const an_rows set_a = {.row = &a, .count = 1}, set_b = {.row = &b, .count = 1};
    an_comparisons out;
    assert_int_equal(an_compare(&set_a, &set_b, options, &out), 0);
    assert_int_equal(out.count, 1);
    an_comparison c = out.item[0];
    assert_int_equal(out.regressed, c.verdict == AN_REGRESSED);
    assert_int_equal(out.improved, c.verdict == AN_IMPROVED);
    an_comparisons_release(&out);
    release(&a, 1);
    release(&b, 1);
    c.a = c.b = NULL;
    return c;
}

static void verdicts(void **unused)
{
    (void)unused;
    an_comparison c = compare_one(100, 110, 20, &usual);
    assert_int_equal(c.verdict, AN_REGRESSED);
    assert_string_equal(c.reason, "");
    assert_true(c.ratio.low > 1.02 && c.ratio.low < 1.1 && c.ratio.high > 1.1 - 0.01);
    assert_true(c.p < 1e-6 && c.p_adjusted == c.p);
    assert_int_equal(compare_one(110, 100, 20, &usual).verdict, AN_IMPROVED);
    assert_int_equal(compare_one(100, 100, 20, &usual).verdict, AN_SAME);
    assert_int_equal(compare_one(100, 101, 60, &usual).verdict, AN_SAME); /* less than one agreed to ignore */

    c = compare_one(100, 102, 20, &usual); /* the change is the threshold */
    assert_int_equal(c.verdict, AN_INCONCLUSIVE);
    assert_string_equal(c.reason, "interval straddles the threshold");

    c = compare_one(100, 150, 3, &usual);
    assert_int_equal(c.verdict, AN_INCONCLUSIVE);
    assert_string_equal(c.reason, "too few samples: the smallest possible p is 0.1 with 3 and 3");
    assert_int_equal(compare_one(100, 100, 1, &usual).verdict, AN_INCONCLUSIVE);

    /* 252 ways to deal 5 and 5: p is 0.0079 at best, the interval has no nominal coverage. */
    assert_int_equal(compare_one(100, 200, 5, &usual).verdict, AN_INCONCLUSIVE);
    assert_int_equal(compare_one(100, 200, 6, &usual).verdict, AN_REGRESSED);
    const an_compare_options strict = {.threshold = 0.02, .q = 1e-4, .seed = 1};
    c = compare_one(100, 200, 6, &strict);
    assert_int_equal(c.verdict, AN_INCONCLUSIVE);
    assert_non_null(strstr(c.reason, "too few samples"));
}

static void correction_for_many_points(void **unused)
{
    (void)unused;
    /* One true change of 7 samples a side (smallest p 2/3432 = 5.8e-4) among 200 points without one: 200 p > q. */
    enum { POINTS = 200 };
    static char name[POINTS][8];
    an_row a[POINTS], b[POINTS];
    uint64_t state = 7;
    for (size_t i = 0; i < POINTS; i++) {
        snprintf(name[i], sizeof name[i], "m%zu", i);
        fill(&a[i], name[i], 100, 7, &state);
        fill(&b[i], name[i], i == 0 ? 130 : 100, 7, &state);
    }
    const an_rows set_a = {.row = a, .count = POINTS}, set_b = {.row = b, .count = POINTS};
    an_comparisons out;
    assert_int_equal(an_compare(&set_a, &set_b, &usual, &out), 0);
    assert_true(out.item[0].p < 0.001 && out.item[0].p_adjusted > 0.05);
    assert_int_equal(out.item[0].verdict, AN_INCONCLUSIVE);
    assert_string_equal(out.item[0].reason, "not significant after correction for the number of points");
    assert_int_equal(out.regressed, 0);
    an_comparisons_release(&out);
    release(a, POINTS);
    release(b, POINTS);
}

static void false_alarms_are_rare_and_changes_found(void **unused)
{
    (void)unused;
    enum { POINTS = 40, ROUNDS = 10, CHANGED = 8 };
    static char name[POINTS][8];
    uint64_t state = 99;
    size_t alarms = 0, found = 0, same = 0;
    for (int round = 0; round < ROUNDS; round++) {
        an_row a[POINTS], b[POINTS];
        for (size_t i = 0; i < POINTS; i++) {
            snprintf(name[i], sizeof name[i], "m%zu", i);
            fill(&a[i], name[i], 100, 20, &state);
            fill(&b[i], name[i], i < CHANGED ? 110 : 100, 20, &state);
        }
        const an_rows set_a = {.row = a, .count = POINTS}, set_b = {.row = b, .count = POINTS};
        an_comparisons out;
        assert_int_equal(an_compare(&set_a, &set_b, &usual, &out), 0);
        for (size_t i = 0; i < POINTS; i++) {
            const an_verdict v = out.item[i].verdict;
            found += i < CHANGED && v == AN_REGRESSED;
            alarms += i >= CHANGED && (v == AN_REGRESSED || v == AN_IMPROVED);
            same += i >= CHANGED && v == AN_SAME;
        }
        an_comparisons_release(&out);
        release(a, POINTS);
        release(b, POINTS);
    }
    assert_int_equal(alarms, 0);
    assert_true(found >= ROUNDS * CHANGED * 99 / 100);
    assert_true(same >= ROUNDS * (POINTS - CHANGED) * 9 / 10);
}

static void matching(void **unused)
{
    (void)unused;
    uint64_t state = 3;
    an_row a[4], b[5];
    fill(&a[0], "z", 100, 10, &state);
    fill(&a[1], "only-in-a", 100, 10, &state);
    fill(&a[2], "twice", 100, 10, &state);
    fill(&a[3], "twice", 200, 10, &state); /* measured again: counts */
    fill(&b[0], "twice", 200, 10, &state);
    fill(&b[1], "only-in-b", 100, 10, &state);
    fill(&b[2], "z", 100, 10, &state);
    fill(&b[3], "z", 100, 10, &state);
    b[3].row.point.seqlen_k = 256; /* another point */
    fill(&b[4], "twice", 200, 10, &state);
    b[4].row.point.parameters = "{\"tau\":\"0.5\"}";
    const an_rows set_a = {.row = a, .count = 4}, set_b = {.row = b, .count = 5};
    an_comparisons out;
    assert_int_equal(an_compare(&set_a, &set_b, &usual, &out), 0);
    assert_int_equal(out.count, 6);
    static const an_verdict expected[] = {AN_SAME, AN_ONLY_A, AN_SAME, AN_ONLY_B, AN_ONLY_B, AN_ONLY_B};
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(out.item[i].verdict, expected[i]);
    assert_ptr_equal(out.item[0].a, &a[0]);
    assert_ptr_equal(out.item[0].b, &b[2]);
    assert_ptr_equal(out.item[1].a, &a[1]);
    assert_ptr_equal(out.item[2].a, &a[3]);
    assert_ptr_equal(out.item[2].b, &b[0]);
    assert_null(out.item[3].a);
    assert_ptr_equal(out.item[3].b, &b[1]);
    an_comparisons_release(&out);

    const an_rows none = {0};
    assert_int_equal(an_compare(&none, &none, &usual, &out), 0);
    assert_int_equal(out.count, 0);
    an_comparisons_release(&out);
    release(a, 4);
    release(b, 5);
}

static void unmeasured_points(void **unused)
{
    (void)unused;
    uint64_t state = 3;
    an_row a[4], b[4];
    static const char *const names[] = {"failed", "skipped", "hash", "empty"};
    for (size_t i = 0; i < 4; i++) {
        fill(&a[i], names[i], 100, 10, &state);
        fill(&b[i], names[i], 200, i == 3 ? 0 : 10, &state);
    }
    b[0].row.outcome = RS_FAILED;
    b[0].row.reason = "output has 3 NaN";
    a[1].row.outcome = RS_SKIPPED;
    a[1].row.reason = "needs a grid";
    b[2].row.point.workload_hash = "fedcba9876543210";
    const an_rows set_a = {.row = a, .count = 4}, set_b = {.row = b, .count = 4};
    an_comparisons out;
    assert_int_equal(an_compare(&set_a, &set_b, &usual, &out), 0);
    static const char *const reasons[] = {"failed in B: output has 3 NaN", "skipped in A: needs a grid",
                                          "the inputs differ: workload hash 0123456789ab in A, fedcba987654 in B",
                                          "no samples in B"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(out.item[i].verdict, AN_UNMEASURED);
        assert_string_equal(out.item[i].reason, reasons[i]);
        assert_true(isnan(out.item[i].p));
    }
    assert_int_equal(out.regressed, 0);

    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    an_table *table = an_comparisons_table(&out);
    assert_non_null(memory);
    assert_non_null(table);
    assert_int_equal(an_table_write(table, AN_JSON, memory), 0);
    assert_int_equal(fclose(memory), 0);
    an_table_destroy(table);
    json_t *whole = json_loads(text, 0, NULL);
    const json_t *first = json_array_get(json_object_get(whole, "rows"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "verdict")), "unmeasured");
    assert_string_equal(json_string_value(json_object_get(first, "method")), "failed");
    assert_true(json_is_null(json_object_get(first, "ratio")));
    json_decref(whole);
    free(text);
    an_comparisons_release(&out);
    release(a, 4);
    release(b, 4);
}

static void verdict_names(void **unused)
{
    (void)unused;
    assert_string_equal(an_verdict_name(AN_SAME), "same");
    assert_string_equal(an_verdict_name(AN_REGRESSED), "regressed");
    assert_string_equal(an_verdict_name(AN_UNMEASURED), "unmeasured");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts),
        cmocka_unit_test(correction_for_many_points),
        cmocka_unit_test(false_alarms_are_rare_and_changes_found),
        cmocka_unit_test(matching),
        cmocka_unit_test(unmeasured_points),
        cmocka_unit_test(verdict_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
