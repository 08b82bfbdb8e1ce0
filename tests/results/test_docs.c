/* docs/schema.md is true: each example query runs and finds something, each table, view and column is described, and
 * nothing is described that is not there. */
#include "fixture.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char document_path[] = SPARGE_SOURCE_DIR "/docs/schema.md";

/* A run with a row for every example: two methods on one problem, stages, a skipped point, a document. */
static void fill(const char *path)
{
    rs_error error;
    rs_store *store = open_store(path, RS_WRITE);
    int64_t run = begin_run(store);
    const char *const methods[] = {"dense-f16", "sparge-int8-fp8", "sta"};
    for (int i = 0; i < 3; i++) {
        rs_point point = plain_point(1024);
        int64_t point_id, id;
        point.method = methods[i];
        point.parameters = i == 1 ? "{\"tau\":\"0.98\"}" : "{}";
        assert_ok(rs_point_intern(store, &point, &point_id, &error), &error);
        assert_ok(rs_measurement_begin(store, run, point_id, "again", &id, &error), &error);
        if (i == 2) {
            assert_ok(rs_measurement_end(store, id, RS_SKIPPED, "needs a grid", NULL, &error), &error);
            continue;
        }
        assert_ok(add_visit(store, id, 0, &error), &error);
        const rs_sample samples[] = {{200, 0, RS_PREPARE}, {300, 0, RS_SELECT}, {500, 0, RS_ATTEND}};
        rs_visit visit = {.position = 1,
                          .kind = "stages",
                          .timer = "fake",
                          .launches = 1,
                          .clock_mhz = 1980,
                          .power_mw = 7e5,
                          .temperature_c = NAN,
                          .samples = samples,
                          .sample_count = 3};
        assert_ok(rs_visit_add(store, id, &visit, &error), &error);
        const rs_sample second = {1000000000, 0, RS_TOTAL};
        visit = (rs_visit){.position = 2,
                           .kind = "total",
                           .timer = "fake",
                           .launches = 1,
                           .energy_mj = 500000,
                           .samples = &second,
                           .sample_count = 1};
        assert_ok(rs_visit_add(store, id, &visit, &error), &error);
        rs_facts facts = {.sparsity = 0.5, .dense_ops = 1e9, .executed_ops = 5e8, .rel_l1 = 0.01};
        assert_ok(rs_measurement_end(store, id, RS_DONE, NULL, &facts, &error), &error);
    }
    assert_ok(rs_document_add(store, run, "similarity", "{\"rows\":[{\"order\":\"row\",\"sim_q\":0.5}]}", &error),
              &error);
    assert_ok(rs_run_end(store, run, "done", NULL, &error), &error);
    close_store(store);
}

static sqlite3 *open_filled(const char *folder)
{
    char path[PATH_SIZE];
    sqlite3 *db;
    in_folder(folder, "documented.db", path);
    if (!file_exists(path))
        fill(path);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    return db;
}

static char *read_document(void)
{
    size_t size;
    char *text = (char *)read_file(document_path, &size);
    text[size] = '\0';
    return text;
}

static int count_rows(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s\n%s", sqlite3_errmsg(db), sql);
    int rows = 0, code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW)
        rows++;
    if (code != SQLITE_DONE)
        fail_msg("%s\n%s", sqlite3_errmsg(db), sql);
    sqlite3_finalize(statement);
    return rows;
}

static void every_example_finds_something(void **state)
{
    static const char fence[] = "```sql\n";
    sqlite3 *db = open_filled(*state);
    char *text = read_document();
    int examples = 0;
    for (char *start = strstr(text, fence); start != NULL; start = strstr(start, fence)) {
        start += strlen(fence);
        char *end = strstr(start, "```");
        assert_non_null(end);
        *end = '\0';
        if (count_rows(db, start) == 0)
            fail_msg("finds nothing:\n%s", start);
        examples++;
        start = end + 1;
    }
    assert_true(examples >= 8);
    free(text);
    sqlite3_close(db);
}

/* The section of a table: from "### `name`" to the next heading. The caller frees. */
static char *section_of(const char *text, const char *table)
{
    char heading[128];
    snprintf(heading, sizeof heading, "\n### `%s`\n", table);
    const char *start = strstr(text, heading);
    if (start == NULL)
        fail_msg("docs/schema.md has no section on %s", table);
    start += strlen(heading);
    const char *end = strstr(start, "\n## "), *sub = strstr(start, "\n### ");
    if (sub != NULL && (end == NULL || sub < end))
        end = sub;
    return end == NULL ? strdup(start) : strndup(start, (size_t)(end - start));
}

static void every_column_is_described(void **state)
{
    sqlite3 *db = open_filled(*state);
    char *text = read_document();
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT t.name, group_concat(c.name) FROM sqlite_schema AS t,"
                                        " pragma_table_info(t.name) AS c WHERE t.type IN ('table', 'view')"
                                        " AND t.name NOT LIKE 'sqlite%' GROUP BY t.name",
                                        -1, &statement, NULL),
                     SQLITE_OK);
    int tables = 0, documented = 0;
    while (sqlite3_step(statement) == SQLITE_ROW) {
        const char *table = (const char *)sqlite3_column_text(statement, 0);
        char *columns = strdup((const char *)sqlite3_column_text(statement, 1));
        char *section = section_of(text, table);
        int described = 0, there = 0;
        for (char *row = strstr(section, "\n| `"); row != NULL; row = strstr(row + 1, "\n| `"))
            described++;
        for (char *column = strtok(columns, ","); column != NULL; column = strtok(NULL, ",")) {
            char row[128];
            snprintf(row, sizeof row, "\n| `%s` |", column);
            if (strstr(section, row) == NULL)
                fail_msg("docs/schema.md does not describe %s.%s", table, column);
            there++;
        }
        if (described != there)
            fail_msg("docs/schema.md describes %d columns of %s, which has %d", described, table, there);
        free(columns);
        free(section);
        tables++;
    }
    sqlite3_finalize(statement);
    for (char *heading = strstr(text, "\n### `"); heading != NULL; heading = strstr(heading + 1, "\n### `"))
        documented++;
    assert_int_equal(documented, tables);
    free(text);
    sqlite3_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_example_finds_something),
        cmocka_unit_test(every_column_is_described),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
