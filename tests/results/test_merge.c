/* Merging: every run arrives once, whole, and finds its place whatever the row ids are. */
#include "fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Everything in the file but row ids, as one text: equal texts, equal content. */
static void dump(const char *path, char *text, size_t size)
{
    static const char sql[] =
        "SELECT group_concat(line, char(10)) FROM (SELECT line FROM ("
        "SELECT json_array('m', run.uuid, run.status, run.note, run.started_utc, run.seed, device.name, device.uuid,"
        " build.git_sha, point.key, point.method, outcome, reason, repro, sparsity, rel_l1, block_q) AS line"
        " FROM measurement JOIN run ON run.id = run_id JOIN point ON point.id = point_id"
        " JOIN device ON device.id = device_id JOIN build ON build.id = build_id"
        " UNION ALL SELECT json_array('v', run.uuid, point.key, visit.position, kind, timer, launches, launch, stage, "
        "ns)"
        " FROM sample JOIN visit ON visit.id = visit_id JOIN measurement ON measurement.id = measurement_id"
        " JOIN run ON run.id = run_id JOIN point ON point.id = point_id"
        " UNION ALL SELECT json_array('d', run.uuid, position, kind, json) FROM document JOIN run ON run.id = run_id"
        " UNION ALL SELECT json_array('r', uuid) FROM run"
        ") ORDER BY line)";
    query_text(path, sql, text, size);
    assert_true(strlen(text) + 1 < size);
}

enum { DUMP_SIZE = 1 << 18 };

static void assert_same_content(const char *a, const char *b)
{
    char *text_a = malloc(DUMP_SIZE), *text_b = malloc(DUMP_SIZE);
    assert_non_null(text_a);
    assert_non_null(text_b);
    dump(a, text_a, DUMP_SIZE);
    dump(b, text_b, DUMP_SIZE);
    assert_string_equal(text_a, text_b);
    free(text_a);
    free(text_b);
}

/* A run with measurements of these lengths: done, with visits, facts and a document. */
static void add_run(rs_store *store, const char *device, const int64_t *seqlens, size_t count)
{
    rs_run run = plain_run();
    rs_error error;
    int64_t run_id;
    run.device_name = device;
    run.device_uuid = strcmp(device, "a") == 0 ? NULL : "uuid";
    assert_ok(rs_run_begin(store, &run, &run_id, &error), &error);
    for (size_t i = 0; i < count; i++) {
        int64_t id = begin_measurement(store, run_id, seqlens[i]);
        for (int32_t position = 0; position <= (int32_t)i; position++)
            assert_ok(add_visit(store, id, position, &error), &error);
        rs_facts facts = {.sparsity = 0.25 * (double)i, .sparsity_mg = NAN, .rel_l1 = 1e-3, .block_q = 128};
        assert_ok(rs_measurement_end(store, id, RS_DONE, NULL, &facts, &error), &error);
    }
    assert_ok(rs_document_add(store, run_id, "similarity", "{\"first\":1}", &error), &error);
    assert_ok(rs_document_add(store, run_id, "similarity", "{\"second\":2}", &error), &error);
    assert_ok(rs_run_end(store, run_id, "done", "note", &error), &error);
}

static void merge(const char *to_path, const char *from_path, int64_t added, int64_t present)
{
    rs_error error;
    int64_t runs_added, runs_present;
    rs_store *to = open_store(to_path, RS_WRITE);
    rs_store *from = open_store(from_path, RS_READ);
    assert_ok(rs_merge(to, from, &runs_added, &runs_present, &error), &error);
    assert_int_equal(runs_added, added);
    assert_int_equal(runs_present, present);
    close_store(from);
    close_store(to);
    assert_one_sound_file(to_path);
    assert_one_sound_file(from_path);
}

static const int64_t short_ones[] = {64, 128, 256}, long_ones[] = {4096, 256, 64, 8192};

static void merging_is_the_same_in_any_order_and_again(void **state)
{
    char a[PATH_SIZE], b[PATH_SIZE], all[PATH_SIZE], ab[PATH_SIZE], ba[PATH_SIZE];
    in_folder(*state, "all.db", all);
    rs_store *store = open_store(in_folder(*state, "a.db", a), RS_WRITE);
    add_run(store, "a", short_ones, 3);
    add_run(store, "b", long_ones, 4);
    close_store(store);
    store = open_store(in_folder(*state, "b.db", b), RS_WRITE);
    add_run(store, "b", long_ones, 2); /* points 4096 and 256 are shared, under other row ids */
    add_run(store, "c", short_ones, 1);
    add_run(store, "a", long_ones, 4);
    close_store(store);

    merge(in_folder(*state, "ab.db", ab), a, 2, 0);
    assert_same_content(ab, a);
    merge(ab, b, 3, 0);
    merge(in_folder(*state, "ba.db", ba), b, 3, 0);
    merge(ba, a, 2, 0);
    assert_same_content(ab, ba);
    assert_int_equal(query_integer(ab, "SELECT count(*) FROM run"), 5);
    assert_int_equal(query_integer(ab, "SELECT count(*) FROM point"), 5);
    assert_int_equal(query_integer(ab, "SELECT count(*) FROM device"), 3);
    assert_int_equal(query_integer(ab, "SELECT count(*) FROM measurement"), 3 + 4 + 2 + 1 + 4);
    assert_int_equal(query_integer(ab, "SELECT count(*) FROM document"), 10);

    merge(ab, b, 0, 3);
    merge(ab, a, 0, 2);
    merge(ab, ba, 0, 5);
    assert_same_content(ab, ba);
    assert_int_equal(query_integer(ab, "SELECT count(*) FROM sample"),
                     query_integer(a, "SELECT count(*) FROM sample") + query_integer(b, "SELECT count(*) FROM sample"));
}

/* A run that was merged while it was still running is brought up to date later. */
static void a_run_that_went_on_is_brought_up_to_date(void **state)
{
    char source[PATH_SIZE], target[PATH_SIZE];
    rs_error error;
    rs_store *store = open_store(in_folder(*state, "growing.db", source), RS_WRITE);
    int64_t run = begin_run(store);
    int64_t finished = begin_measurement(store, run, 64);
    assert_ok(add_visit(store, finished, 0, &error), &error);
    assert_ok(rs_measurement_end(store, finished, RS_DONE, NULL, NULL, &error), &error);
    int64_t id = begin_measurement(store, run, 128);
    assert_ok(add_visit(store, id, 0, &error), &error);
    assert_ok(rs_document_add(store, run, "k", "1", &error), &error);
    close_store(store);
    merge(in_folder(*state, "archive.db", target), source, 1, 0);
    assert_same_content(source, target);

    store = open_store(source, RS_WRITE);
    assert_ok(add_visit(store, id, 1, &error), &error);
    assert_ok(rs_measurement_end(store, id, RS_FAILED, "went wrong", NULL, &error), &error);
    begin_measurement(store, run, 256);
    assert_ok(rs_document_add(store, run, "k", "2", &error), &error);
    assert_ok(rs_run_end(store, run, "failed", "a note", &error), &error);
    close_store(store);
    merge(target, source, 0, 1);
    assert_same_content(source, target);

    /* And the other way round nothing moves: the older copy has nothing to say. */
    char older[PATH_SIZE];
    in_folder(*state, "older.db", older);
    merge(older, source, 1, 0);
    merge(source, older, 0, 1);
    assert_same_content(source, older);
}

/* A copy whose run was taken for dead learns that it ended; from a copy of the living run it learns nothing. */
static void an_abandoned_run_takes_the_end_that_it_had(void **state)
{
    char source[PATH_SIZE], early[PATH_SIZE], target[PATH_SIZE];
    rs_error error;
    rs_store *store = open_store(in_folder(*state, "living.db", source), RS_WRITE);
    int64_t run = begin_run(store);
    close_store(store);
    merge(in_folder(*state, "early.db", early), source, 1, 0);
    merge(in_folder(*state, "dead.db", target), source, 1, 0);
    store = open_store(target, RS_WRITE);
    assert_ok(rs_run_abandon(store, run, &error), &error);
    close_store(store);
    merge(target, early, 0, 1);
    assert_int_equal(query_integer(target, "SELECT count(*) FROM run WHERE status = 'partial'"), 1);
    store = open_store(source, RS_WRITE);
    assert_ok(rs_run_end(store, run, "done", NULL, &error), &error);
    close_store(store);
    merge(target, source, 0, 1);
    assert_int_equal(query_integer(target, "SELECT count(*) FROM run WHERE status = 'done'"), 1);
    assert_same_content(source, target);
}

/* What is finished here stays as it is, also if the other copy went another way. */
static void nothing_finished_is_overwritten(void **state)
{
    char first[PATH_SIZE], second[PATH_SIZE];
    rs_error error;
    rs_store *store = open_store(in_folder(*state, "first.db", first), RS_WRITE);
    int64_t run = begin_run(store);
    int64_t id = begin_measurement(store, run, 64);
    assert_ok(add_visit(store, id, 0, &error), &error);
    close_store(store);
    size_t size;
    unsigned char *bytes = read_file(first, &size);
    write_file(in_folder(*state, "second.db", second), bytes, size);
    free(bytes);

    store = open_store(first, RS_WRITE);
    assert_ok(rs_measurement_end(store, id, RS_DONE, NULL, NULL, &error), &error);
    assert_ok(rs_run_end(store, run, "done", NULL, &error), &error);
    close_store(store);
    store = open_store(second, RS_WRITE);
    assert_ok(add_visit(store, id, 1, &error), &error);
    assert_ok(rs_measurement_end(store, id, RS_FAILED, "elsewhere", NULL, &error), &error);
    assert_ok(rs_run_end(store, run, "failed", "elsewhere", &error), &error);
    close_store(store);
    merge(first, second, 0, 1);
    assert_int_equal(query_integer(first, "SELECT count(*) FROM visit"), 1);
    char text[16];
    query_text(first, "SELECT outcome FROM measurement", text, sizeof text);
    assert_string_equal(text, "done");
    query_text(first, "SELECT status FROM run", text, sizeof text);
    assert_string_equal(text, "done");
}

static void merging_needs_two_files_and_a_writer(void **state)
{
    char path[PATH_SIZE], other[PATH_SIZE], linked[PATH_SIZE];
    rs_error error;
    int64_t added, present;
    rs_store *store = open_store(in_folder(*state, "self.db", path), RS_WRITE);
    add_run(store, "a", short_ones, 1);
    assert_int_equal(link(path, in_folder(*state, "hardlink.db", linked)), 0);
    assert_refused(rs_merge(store, store, &added, &present, &error), &error, RS_ERROR_ARGUMENT, path);
    rs_store *again = open_store(path, RS_READ);
    assert_refused(rs_merge(store, again, &added, &present, &error), &error, RS_ERROR_ARGUMENT, path);
    close_store(again);
    close_store(store);
    assert_int_equal(unlink(linked), 0);

    close_store(open_store(in_folder(*state, "other.db", other), RS_WRITE));
    rs_store *reader = open_store(path, RS_READ), *from = open_store(other, RS_READ);
    assert_refused(rs_merge(reader, from, &added, &present, &error), &error, RS_ERROR_READ_ONLY, path);
    close_store(reader);
    close_store(from);
}

/* The source may be in use: its writer goes on, and what is committed is copied. */
static void a_source_in_use_can_be_merged(void **state)
{
    char path[PATH_SIZE], target[PATH_SIZE];
    rs_error error;
    int64_t added, present;
    rs_store *writer = open_store(in_folder(*state, "in-use.db", path), RS_WRITE);
    int64_t id = begin_measurement(writer, begin_run(writer), 64);
    assert_ok(add_visit(writer, id, 0, &error), &error);
    rs_store *to = open_store(in_folder(*state, "copy.db", target), RS_WRITE);
    assert_ok(rs_merge(to, writer, &added, &present, &error), &error);
    assert_int_equal(added, 1);
    assert_ok(add_visit(writer, id, 1, &error), &error);
    assert_ok(rs_merge(to, writer, &added, &present, &error), &error);
    assert_int_equal(present, 1);
    assert_int_equal(visits_of(to, 64, NULL), 2);
    close_store(to);
    close_store(writer);
    assert_same_content(path, target);
    assert_one_sound_file(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merging_is_the_same_in_any_order_and_again),
        cmocka_unit_test(a_run_that_went_on_is_brought_up_to_date),
        cmocka_unit_test(an_abandoned_run_takes_the_end_that_it_had),
        cmocka_unit_test(nothing_finished_is_overwritten),
        cmocka_unit_test(merging_needs_two_files_and_a_writer),
        cmocka_unit_test(a_source_in_use_can_be_merged),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
