/* The views say what the export says: same columns, same numbers. */
#include "fixture.h"

#include "rows.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Random measurements: none, odd and even numbers of samples, ties, some without stages or facts. */
static void fill(rs_store *store)
{
    rs_error error;
    uint64_t random = 77;
    int64_t run = begin_run(store);
    for (int64_t i = 1; i <= 40; i++) {
        int64_t id = begin_measurement(store, run, i);
        int32_t visits = (int32_t)(next_random(&random) % 4);
        for (int32_t position = 0; position < visits; position++) {
            int of_stages = position == 2;
            rs_sample samples[9];
            size_t count = 1 + next_random(&random) % 9;
            for (size_t s = 0; s < count; s++)
                samples[s] = (rs_sample){.ns = 1 + (int64_t)(next_random(&random) % 50) * 100000,
                                         .launch = (int32_t)(of_stages ? s / 3 : s),
                                         .stage = of_stages ? (rs_stage)(RS_PREPARE + (int)(s % 3)) : RS_TOTAL};
            rs_visit visit = {.position = position,
                              .kind = of_stages ? "stages" : "total",
                              .timer = "fake",
                              .launches = 9,
                              .samples = samples,
                              .sample_count = count};
            assert_ok(rs_visit_add(store, id, &visit, &error), &error);
        }
        rs_facts facts = {.dense_ops = 1e12, .executed_ops = 3e11, .sparsity = NAN};
        assert_ok(rs_measurement_end(store, id, RS_DONE, NULL, i % 5 == 0 ? NULL : &facts, &error), &error);
    }
}

static double column(sqlite3_stmt *statement, const char *name)
{
    for (int i = 0; i < sqlite3_column_count(statement); i++) {
        if (strcmp(sqlite3_column_name(statement, i), name) == 0)
            return sqlite3_column_type(statement, i) == SQLITE_NULL ? (double)NAN : sqlite3_column_double(statement, i);
    }
    fail_msg("the view has no column %s", name);
    return 0;
}

static void assert_close(double view, double export, const char *name, int64_t id)
{
    if (isnan(view) != isnan(export) || fabs(view - export) > 1e-12 * fabs(export))
        fail_msg("%s of measurement %d: %.17g in the view, %.17g in the export", name, (int)id, view, export);
}

static void numbers_are_those_of_the_export(void **state)
{
    char path[PATH_SIZE];
    rs_error error;
    an_rows rows;
    rs_store *store = open_store(in_folder(*state, "numbers.db", path), RS_WRITE);
    fill(store);
    assert_ok(an_rows_load(store, 0, &rows, &error), &error);
    close_store(store);

    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT * FROM results ORDER BY measurement_id", -1, &statement, NULL),
                     SQLITE_OK);
    size_t timed = 0;
    for (size_t i = 0; i < rows.count; i++) {
        const an_row *r = &rows.row[i];
        int64_t id = r->row.measurement_id;
        assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
        const struct {
            const char *name;
            double value;
        } expected[] = {
            {"measurement_id", (double)id},      {"total_ms", r->total_ms.value},
            {"prepare_ms", r->prepare_ms.value}, {"select_ms", r->select_ms.value},
            {"attend_ms", r->attend_ms.value},   {"samples", (double)r->total_count},
            {"visits", (double)r->visits},       {"tops", r->tops},
            {"attend_tops", r->attend_tops},     {"executed_tops", r->executed_tops},
        };
        for (size_t c = 0; c < sizeof expected / sizeof expected[0]; c++)
            assert_close(column(statement, expected[c].name), expected[c].value, expected[c].name, id);
        timed += isnan(r->attend_tops) ? 0 : 1;
    }
    assert_int_equal(sqlite3_step(statement), SQLITE_DONE);
    assert_int_equal(rows.count, 40);
    assert_true(timed > 3);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    an_rows_release(&rows);
}

static int is_interval(const char *name)
{
    size_t length = strlen(name);
    return (length > 7 && strcmp(name + length - 7, "_ms_low") == 0) ||
           (length > 8 && strcmp(name + length - 8, "_ms_high") == 0);
}

/* In the same order too, except for the intervals, and for measurement_id at the end. */
static void columns_are_those_of_the_export(void **state)
{
    char path[PATH_SIZE], header[4096];
    rs_error error;
    an_rows rows;
    rs_store *store = open_store(in_folder(*state, "columns.db", path), RS_WRITE);
    assert_ok(an_rows_load(store, 0, &rows, &error), &error);
    close_store(store);
    an_table *table = an_rows_table(&rows);
    assert_non_null(table);
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(an_table_write(table, AN_CSV, file), 0);
    rewind(file);
    assert_non_null(fgets(header, sizeof header, file));
    fclose(file);
    an_table_destroy(table);
    an_rows_release(&rows);

    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT * FROM results", -1, &statement, NULL), SQLITE_OK);
    int count = 0;
    for (char *name = strtok(header, ",\r\n"); name != NULL; name = strtok(NULL, ",\r\n")) {
        if (is_interval(name))
            continue;
        assert_true(count < sqlite3_column_count(statement));
        assert_string_equal(sqlite3_column_name(statement, count), name);
        count++;
    }
    assert_int_equal(sqlite3_column_count(statement), count + 1);
    assert_string_equal(sqlite3_column_name(statement, count), "measurement_id");
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_the_export),
        cmocka_unit_test(columns_are_those_of_the_export),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
