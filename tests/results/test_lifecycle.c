/* What a sweep does in order, what it may not do, and how it takes up a point that it had begun. */
#include "fixture.h"

#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

static const rs_facts no_facts = {.sparsity = NAN,
                                  .sparsity_mg = NAN,
                                  .sparsity_pv = NAN,
                                  .pv_unit = -1,
                                  .block_q = -1,
                                  .block_k = -1,
                                  .units_visible = -1,
                                  .units_qk = -1,
                                  .units_pv_skipped = NAN,
                                  .dense_ops = NAN,
                                  .executed_ops = NAN,
                                  .workspace_bytes = -1,
                                  .sim_q = NAN,
                                  .sim_k = NAN,
                                  .error_rows = -1,
                                  .error_all_rows = -1,
                                  .rel_l1 = NAN,
                                  .rel_l2 = NAN,
                                  .cosine = NAN,
                                  .rmse = NAN,
                                  .max_abs = NAN,
                                  .nonfinite = -1};

static void assert_state(rs_store *store, int64_t seqlen, rs_outcome outcome, int64_t measurement_id, int32_t visits)
{
    rs_point point = plain_point(seqlen);
    rs_error error;
    char key[65];
    rs_outcome found;
    int64_t id;
    int32_t count;
    assert_ok(rs_point_key(&point, key, &error), &error);
    assert_ok(rs_point_state(store, key, &found, &id, &count, &error), &error);
    assert_string_equal(rs_outcome_name(found), rs_outcome_name(outcome));
    assert_int_equal(id, measurement_id);
    assert_int_equal(count, visits);
}

static void end(rs_store *store, int64_t measurement_id, rs_outcome outcome)
{
    rs_error error;
    assert_ok(rs_measurement_end(store, measurement_id, outcome, "why", NULL, &error), &error);
}

static void a_point_goes_through_its_states(void **state)
{
    char path[PATH_SIZE];
    rs_error error;
    rs_store *store = open_store(in_folder(*state, "states.db", path), RS_WRITE);
    assert_state(store, 64, RS_RUNNING, 0, 0); /* nobody knows the point */
    int64_t run = begin_run(store);
    int64_t id = begin_measurement(store, run, 64);
    assert_state(store, 64, RS_RUNNING, id, 0);
    assert_ok(add_visit(store, id, 0, &error), &error);
    assert_ok(add_visit(store, id, 1, &error), &error);
    assert_state(store, 64, RS_RUNNING, id, 2);
    end(store, id, RS_PARTIAL);
    assert_state(store, 64, RS_PARTIAL, id, 2);
    close_store(store);

    /* The next process goes on with what is there. */
    store = open_store(path, RS_WRITE);
    assert_ok(add_visit(store, id, 2, &error), &error);
    assert_state(store, 64, RS_PARTIAL, id, 3);
    end(store, id, RS_DONE);
    assert_state(store, 64, RS_DONE, id, 3);
    assert_state(store, 65, RS_RUNNING, 0, 0); /* another point is not touched by any of this */
    close_store(store);
}

static void every_end_counts_as_finished_except_partial(void **state)
{
    static const rs_outcome ends[] = {RS_DONE, RS_SKIPPED, RS_FAILED, RS_UNMEASURED};
    char path[PATH_SIZE];
    rs_error error;
    rs_store *store = open_store(in_folder(*state, "ends.db", path), RS_WRITE);
    int64_t run = begin_run(store);
    for (int i = 0; i < 4; i++) {
        int64_t id = begin_measurement(store, run, 100 + i);
        end(store, id, ends[i]);
        assert_state(store, 100 + i, ends[i], id, 0);
        assert_refused(add_visit(store, id, 0, &error), &error, RS_ERROR_ARGUMENT, path);
        assert_refused(rs_measurement_end(store, id, RS_DONE, NULL, NULL, &error), &error, RS_ERROR_ARGUMENT, path);
    }
    close_store(store);
}

/* A finished measurement outweighs a newer unfinished one; of several finished ones the newest counts. */
static void the_newest_finished_measurement_counts(void **state)
{
    char path[PATH_SIZE];
    rs_store *store = open_store(in_folder(*state, "newest.db", path), RS_WRITE);
    int64_t first = begin_measurement(store, begin_run(store), 7);
    int64_t second = begin_measurement(store, begin_run(store), 7);
    int64_t third = begin_measurement(store, begin_run(store), 7);
    assert_state(store, 7, RS_RUNNING, third, 0);
    end(store, first, RS_FAILED);
    assert_state(store, 7, RS_FAILED, first, 0);
    end(store, second, RS_DONE);
    assert_state(store, 7, RS_DONE, second, 0);
    end(store, third, RS_PARTIAL);
    assert_state(store, 7, RS_DONE, second, 0);
    close_store(store);
}

typedef struct last_row {
    rs_outcome outcome;
    rs_facts facts;
    char reason[64], run_status[16], ended_utc[32], note[64];
} last_row;

static int keep_row(void *user, const rs_row *row)
{
    last_row *last = user;
    last->outcome = row->outcome;
    last->facts = row->facts;
    last->facts.sparsity_basis = NULL;
    strcpy(last->reason, row->reason != NULL ? row->reason : "NULL");
    strcpy(last->run_status, row->run.status);
    strcpy(last->ended_utc, row->run.ended_utc != NULL ? row->run.ended_utc : "NULL");
    strcpy(last->note, row->run.note != NULL ? row->run.note : "NULL");
    return 0;
}

static void what_is_not_known_reads_as_not_known(void **state)
{
    char path[PATH_SIZE];
    rs_error error;
    last_row last;
    rs_store *store = open_store(in_folder(*state, "unknown.db", path), RS_WRITE);
    int64_t id = begin_measurement(store, begin_run(store), 64);
    for (int written = 0; written < 2; written++) {
        if (written)
            assert_ok(rs_measurement_end(store, id, RS_DONE, NULL, &no_facts, &error), &error);
        assert_ok(rs_rows(store, keep_row, &last, &error), &error);
        assert_int_equal(last.outcome, written ? RS_DONE : RS_RUNNING);
        assert_true(isnan(last.facts.sparsity) && isnan(last.facts.rel_l1) && isnan(last.facts.dense_ops));
        assert_int_equal(last.facts.block_q, -1);
        assert_int_equal(last.facts.workspace_bytes, -1);
        assert_int_equal(last.facts.nonfinite, -1);
        assert_int_equal(last.facts.error_rows, 0);
        assert_int_equal(last.facts.error_all_rows, 0);
        assert_string_equal(last.reason, "NULL");
    }
    close_store(store);
    assert_int_equal(query_integer(path, "SELECT count(*) FROM measurement WHERE sparsity IS NULL AND block_q IS NULL"
                                         " AND error_rows IS NULL AND cosine IS NULL"),
                     1);
}

static void facts_stay_when_an_end_brings_none(void **state)
{
    char path[PATH_SIZE];
    rs_error error;
    last_row last;
    rs_store *store = open_store(in_folder(*state, "keep.db", path), RS_WRITE);
    int64_t id = begin_measurement(store, begin_run(store), 64);
    rs_facts facts = no_facts;
    facts.sparsity = 0.5;
    assert_ok(rs_measurement_end(store, id, RS_PARTIAL, NULL, &facts, &error), &error);
    end(store, id, RS_DONE);
    assert_ok(rs_rows(store, keep_row, &last, &error), &error);
    assert_true(last.facts.sparsity == 0.5);
    assert_string_equal(last.reason, "why");
    close_store(store);
}

static void a_run_ends(void **state)
{
    char path[PATH_SIZE];
    rs_error error;
    last_row last;
    rs_store *store = open_store(in_folder(*state, "run.db", path), RS_WRITE);
    int64_t run = begin_run(store);
    begin_measurement(store, run, 64);
    assert_ok(rs_run_end(store, run, "partial", "no NVML", &error), &error);
    assert_ok(rs_run_end(store, run, "done", NULL, &error), &error); /* the note stays */
    assert_ok(rs_rows(store, keep_row, &last, &error), &error);
    assert_string_equal(last.run_status, "done");
    assert_string_equal(last.note, "no NVML");
    assert_int_equal(strlen(last.ended_utc), strlen("2026-08-24T12:00:00.000Z"));
    assert_int_equal(last.ended_utc[10], 'T');
    assert_int_equal(last.ended_utc[19], '.'); /* milliseconds, as started_utc has them */
    assert_int_equal(last.ended_utc[23], 'Z');
    assert_refused(rs_run_end(store, run, "finished", NULL, &error), &error, RS_ERROR_ARGUMENT, path);
    assert_refused(rs_run_end(store, run + 1, "done", NULL, &error), &error, RS_ERROR_NOT_FOUND, path);
    close_store(store);
}

static void an_abandoned_run_is_partial(void **state)
{
    char path[PATH_SIZE];
    rs_error error;
    last_row last;
    rs_store *store = open_store(in_folder(*state, "abandoned.db", path), RS_WRITE);
    int64_t run = begin_run(store);
    begin_measurement(store, run, 64);
    assert_ok(rs_run_abandon(store, run, &error), &error);
    assert_ok(rs_rows(store, keep_row, &last, &error), &error);
    assert_string_equal(last.run_status, "partial");
    assert_string_equal(last.ended_utc, "NULL");                     /* nobody knows when */
    assert_ok(rs_run_end(store, run, "done", NULL, &error), &error); /* it lived, and says so */
    assert_ok(rs_run_abandon(store, run, &error), &error);
    assert_ok(rs_rows(store, keep_row, &last, &error), &error);
    assert_string_equal(last.run_status, "done");
    close_store(store);
}

static void rows_that_do_not_exist_are_named(void **state)
{
    char path[PATH_SIZE];
    rs_error error;
    int64_t id;
    rs_store *store = open_store(in_folder(*state, "missing.db", path), RS_WRITE);
    int64_t run = begin_run(store);
    int64_t measurement = begin_measurement(store, run, 64);
    assert_refused(rs_measurement_begin(store, run, 99, NULL, &id, &error), &error, RS_ERROR_NOT_FOUND, path);
    assert_refused(rs_measurement_begin(store, 99, 1, NULL, &id, &error), &error, RS_ERROR_NOT_FOUND, path);
    assert_refused(rs_measurement_begin(store, run, 1, NULL, &id, &error), &error, RS_ERROR_ARGUMENT, path);
    assert_refused(add_visit(store, measurement + 1, 0, &error), &error, RS_ERROR_NOT_FOUND, path);
    assert_refused(rs_measurement_end(store, measurement + 1, RS_DONE, NULL, NULL, &error), &error, RS_ERROR_NOT_FOUND,
                   path);
    close_store(store);
    assert_int_equal(query_integer(path, "SELECT count(*) FROM measurement"), 1);
}

/* Each line breaks one rule of a visit; nothing of the visit may stay behind. */
static void wrong_visits_leave_nothing(void **state)
{
    char path[PATH_SIZE];
    rs_error error;
    rs_store *store = open_store(in_folder(*state, "visits.db", path), RS_WRITE);
    int64_t id = begin_measurement(store, begin_run(store), 64);
    const rs_sample good = {5, 0, RS_TOTAL};
    const struct {
        rs_visit visit;
        rs_sample second;
    } wrong[] = {
        {{.position = -1, .kind = "total", .timer = "fake", .launches = 2}, {5, 1, RS_TOTAL}},
        {{.position = 0, .kind = "totals", .timer = "fake", .launches = 2}, {5, 1, RS_TOTAL}},
        {{.position = 0, .kind = NULL, .timer = "fake", .launches = 2}, {5, 1, RS_TOTAL}},
        {{.position = 0, .kind = "total", .timer = NULL, .launches = 2}, {5, 1, RS_TOTAL}},
        {{.position = 0, .kind = "total", .timer = "fake", .launches = 1}, {5, 1, RS_TOTAL}},
        {{.position = 0, .kind = "total", .timer = "fake", .launches = 2}, {5, -1, RS_TOTAL}},
        {{.position = 0, .kind = "total", .timer = "fake", .launches = 2}, {5, 0, RS_TOTAL}}, /* twice */
        {{.position = 0, .kind = "total", .timer = "fake", .launches = 2}, {-5, 1, RS_TOTAL}},
        {{.position = 0, .kind = "total", .timer = "fake", .launches = 2}, {5, 1, RS_ATTEND}},
        {{.position = 0, .kind = "total", .timer = "fake", .launches = 2}, {5, 1, (rs_stage)9}},
        {{.position = 0, .kind = "stages", .timer = "fake", .launches = 2}, {5, 1, RS_SELECT}}, /* the first is total */
        {{.position = 0, .kind = "total", .timer = "fake", .launches = 2, .clock_mhz = -1}, {5, 1, RS_TOTAL}},
        {{.position = 0, .kind = "total", .timer = "fake", .launches = 2, .power_mw = -1}, {5, 1, RS_TOTAL}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const rs_sample samples[2] = {good, wrong[i].second};
        rs_visit visit = wrong[i].visit;
        visit.samples = samples;
        visit.sample_count = 2;
        if (rs_visit_add(store, id, &visit, &error) == RS_OK)
            fail_msg("wrong visit %zu was taken", i);
        assert_refused(error.status, &error, RS_ERROR_ARGUMENT, path);
    }
    assert_ok(add_visit(store, id, 0, &error), &error);
    assert_refused(add_visit(store, id, 0, &error), &error, RS_ERROR_ARGUMENT, path); /* the position is taken */
    close_store(store);
    assert_int_equal(query_integer(path, "SELECT count(*) FROM visit"), 1);
    assert_int_equal(query_integer(path, "SELECT count(*) FROM sample"), 4);
}

static void wrong_points_are_refused(void **state)
{
    char path[PATH_SIZE];
    rs_error error;
    int64_t id;
    rs_store *store = open_store(in_folder(*state, "points.db", path), RS_WRITE);
    static const char *const not_canonical[] = {
        "", "{", "[]", "1", "{\"b\":1,\"a\":1}", "{\"a\":1,\"a\":2}", "{\"a\": 1}", " {}", "{\"a\":1,}", NULL,
    };
    for (size_t i = 0; i < sizeof not_canonical / sizeof not_canonical[0]; i++) {
        rs_point point = plain_point(64);
        point.parameters = not_canonical[i];
        if (rs_point_intern(store, &point, &id, &error) == RS_OK)
            fail_msg("parameters %s were taken", not_canonical[i]);
        assert_refused(error.status, &error, RS_ERROR_ARGUMENT, path);
    }
    rs_point wrong[10];
    for (size_t i = 0; i < 10; i++)
        wrong[i] = plain_point(64);
    wrong[0].batch = 0;
    wrong[1].heads_q = -1;
    wrong[2].seqlen_k = 0;
    wrong[3].text_tokens = -1;
    wrong[4].threads = -1;
    wrong[5].scale = NAN;
    wrong[6].scale = INFINITY;
    wrong[7].method = "";
    wrong[8].device = NULL;
    wrong[9].settings = NULL;
    for (size_t i = 0; i < 10; i++) {
        if (rs_point_intern(store, &wrong[i], &id, &error) == RS_OK)
            fail_msg("wrong point %zu was taken", i);
        assert_refused(error.status, &error, RS_ERROR_ARGUMENT, path);
    }
    close_store(store);
    assert_int_equal(query_integer(path, "SELECT count(*) FROM point"), 0);
}

static void wrong_ends_and_facts_are_refused(void **state)
{
    char path[PATH_SIZE];
    rs_error error;
    rs_store *store = open_store(in_folder(*state, "facts.db", path), RS_WRITE);
    int64_t id = begin_measurement(store, begin_run(store), 64);
    static const rs_outcome need_reason[] = {RS_SKIPPED, RS_FAILED, RS_UNMEASURED};
    for (size_t i = 0; i < 3; i++) {
        assert_refused(rs_measurement_end(store, id, need_reason[i], NULL, NULL, &error), &error, RS_ERROR_ARGUMENT,
                       path);
        assert_refused(rs_measurement_end(store, id, need_reason[i], "", NULL, &error), &error, RS_ERROR_ARGUMENT,
                       path);
    }
    assert_refused(rs_measurement_end(store, id, RS_RUNNING, NULL, NULL, &error), &error, RS_ERROR_ARGUMENT, path);
    assert_refused(rs_measurement_end(store, id, (rs_outcome)6, "x", NULL, &error), &error, RS_ERROR_ARGUMENT, path);
    rs_facts wrong[7];
    for (size_t i = 0; i < 7; i++)
        wrong[i] = no_facts;
    wrong[0].sparsity = 1.01;
    wrong[1].sparsity_pv = -0.5;
    wrong[2].sparsity_basis = "tile";
    wrong[3].cosine = 1.5;
    wrong[4].rel_l1 = -1e-3;
    wrong[5].error_all_rows = 2;
    wrong[6].dense_ops = -1;
    for (size_t i = 0; i < 7; i++) {
        if (rs_measurement_end(store, id, RS_DONE, NULL, &wrong[i], &error) == RS_OK)
            fail_msg("wrong facts %zu were taken", i);
        assert_refused(error.status, &error, RS_ERROR_ARGUMENT, path);
    }
    assert_state(store, 64, RS_RUNNING, id, 0);
    close_store(store);
}

static void a_reader_cannot_write(void **state)
{
    char path[PATH_SIZE];
    rs_error error;
    int64_t id;
    close_store(open_store(in_folder(*state, "reader.db", path), RS_WRITE));
    rs_store *store = open_store(path, RS_READ);
    rs_run run = plain_run();
    rs_point point = plain_point(1);
    assert_refused(rs_run_begin(store, &run, &id, &error), &error, RS_ERROR_READ_ONLY, path);
    assert_refused(rs_point_intern(store, &point, &id, &error), &error, RS_ERROR_READ_ONLY, path);
    assert_refused(add_visit(store, 1, 0, &error), &error, RS_ERROR_READ_ONLY, path);
    assert_refused(rs_document_add(store, 1, "k", "{}", &error), &error, RS_ERROR_READ_ONLY, path);
    close_store(store);
}

/* Points are the same if and only if all their fields are, but for settings, which follow from the others; the key is
 * stable from release to release. */
static void keys_tell_points_apart(void **state)
{
    (void)state;
    rs_error error;
    rs_point points[23];
    char keys[23][65];
    for (size_t i = 0; i < 23; i++)
        points[i] = plain_point(64);
    points[1].workload = "mochi";
    points[2].workload_hash = "1";
    points[3].order = "hilbert";
    points[4].grid = "1x2x3";
    points[5].text_tokens = 1;
    points[6].seed = UINT64_MAX;
    points[7].method = "dense-f17";
    points[8].parameters = "{\"a\":1}";
    points[9].backend = "cpu";
    points[10].device = "h200";
    points[11].batch = 2;
    points[12].heads_q = 4;
    points[13].heads_kv = 2;
    points[14].seqlen_q = 65;
    points[15].seqlen_k = 65;
    points[16].head_dim = 128;
    points[17].dtype = "bf16";
    points[18].causal = "top-left";
    points[19].scale = nextafter(0.125, 1);
    points[20].threads = 1;
    points[21].id = 5; /* not part of what a point is */
    points[22].settings = "a=1";
    for (size_t i = 0; i < 23; i++) {
        assert_ok(rs_point_key(&points[i], keys[i], &error), &error);
        for (size_t j = 0; j < i && i < 21; j++)
            assert_string_not_equal(keys[i], keys[j]);
    }
    assert_string_equal(keys[21], keys[0]);
    assert_string_equal(keys[22], keys[0]);
    assert_string_equal(keys[0], "75eaebb1cb2bf054e1b17643bef7259299358aeac21215bf72fa2d26957aa9f4");

    /* Text cannot move from one field to the next. */
    rs_point a = plain_point(64), b = plain_point(64);
    char key_a[65], key_b[65];
    a.workload = "x\nworkload_hash 1 0";
    b.workload = "x";
    b.workload_hash = "1 0";
    assert_ok(rs_point_key(&a, key_a, &error), &error);
    assert_ok(rs_point_key(&b, key_b, &error), &error);
    assert_string_not_equal(key_a, key_b);
}

static int note_run(void *user, const rs_run *run)
{
    char *notes = user;
    size_t used = strlen(notes);
    snprintf(notes + used, 256 - used, "%d %s %s %s;", (int)run->id, run->status, run->command, run->device_name);
    return strcmp(run->status, "partial") == 0;
}

static void runs_are_listed_without_measurements(void **state)
{
    char path[PATH_SIZE], notes[256] = "";
    rs_error error;
    rs_store *store = open_store(in_folder(*state, "runs.db", path), RS_WRITE);
    static const char *const ends[] = {"done", "partial", "failed"};
    for (int i = 0; i < 3; i++) {
        rs_run run = plain_run();
        int64_t id;
        run.command = i == 0 ? "first" : "later";
        assert_ok(rs_run_begin(store, &run, &id, &error), &error);
        assert_ok(rs_run_end(store, id, ends[i], NULL, &error), &error);
    }
    assert_ok(rs_runs(store, note_run, notes, &error), &error);
    close_store(store);
    assert_string_equal(notes, "1 done first fake;2 partial later fake;"); /* the third was stopped before */
}

static void names_are_as_stored(void **state)
{
    (void)state;
    static const char *const names[] = {"running", "done", "skipped", "partial", "failed", "unmeasured"};
    for (int i = 0; i < 6; i++)
        assert_string_equal(rs_outcome_name((rs_outcome)i), names[i]);
    assert_string_equal(rs_outcome_name((rs_outcome)6), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_point_goes_through_its_states),
        cmocka_unit_test(every_end_counts_as_finished_except_partial),
        cmocka_unit_test(the_newest_finished_measurement_counts),
        cmocka_unit_test(what_is_not_known_reads_as_not_known),
        cmocka_unit_test(facts_stay_when_an_end_brings_none),
        cmocka_unit_test(a_run_ends),
        cmocka_unit_test(an_abandoned_run_is_partial),
        cmocka_unit_test(rows_that_do_not_exist_are_named),
        cmocka_unit_test(wrong_visits_leave_nothing),
        cmocka_unit_test(wrong_points_are_refused),
        cmocka_unit_test(wrong_ends_and_facts_are_refused),
        cmocka_unit_test(a_reader_cannot_write),
        cmocka_unit_test(keys_tell_points_apart),
        cmocka_unit_test(runs_are_listed_without_measurements),
        cmocka_unit_test(names_are_as_stored),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
