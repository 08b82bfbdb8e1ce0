/* Tables: each format against a reading of it that is not ours, and by the letter. */
#include "check.h"
#include "table.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *written(const an_table *table, an_format format)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_int_equal(an_table_write(table, format, out), 0);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void assert_written(const an_table *table, an_format format, const char *expected)
{
    char *text = written(table, format);
    assert_string_equal(text, expected);
    free(text);
}

static an_table *example(void)
{
    an_table *table = an_table_create();
    assert_non_null(table);
    an_table_column(table, "name", AN_TEXT);
    an_table_column(table, "n", AN_NUMBER);
    an_table_column(table, "ms", AN_NUMBER);
    an_table_text(table, "a|b_c");
    an_table_integer(table, -3);
    an_table_number(table, 0.1, "%.2f");
    an_table_text(table, "say \"hi\", you");
    an_table_text(table, NULL);
    an_table_number(table, NAN, "%.2f");
    return table;
}

static void formats_by_the_letter(void **unused)
{
    (void)unused;
    an_table *table = example();
    assert_int_equal(an_table_rows(table), 2);
    assert_written(table, AN_TABLE,
                   "name            n    ms\n"
                   "a|b_c          -3  0.10\n"
                   "say \"hi\", you          \n");
    assert_written(table, AN_MARKDOWN,
                   "| name | n | ms |\n"
                   "| --- | ---: | ---: |\n"
                   "| a\\|b_c | -3 | 0.10 |\n"
                   "| say \"hi\", you |  |  |\n");
    assert_written(table, AN_CSV,
                   "name,n,ms\r\n"
                   "a|b_c,-3,0.1\r\n"
                   "\"say \"\"hi\"\", you\",,\r\n");
    assert_written(table, AN_JSON,
                   "{\"schema_version\":1,\"rows\":[\n"
                   "{\"name\":\"a|b_c\",\"n\":-3,\"ms\":0.1},\n"
                   "{\"name\":\"say \\\"hi\\\", you\",\"n\":null,\"ms\":null}\n]}\n");
    assert_written(table, AN_JSONL,
                   "{\"name\":\"a|b_c\",\"n\":-3,\"ms\":0.1}\n"
                   "{\"name\":\"say \\\"hi\\\", you\",\"n\":null,\"ms\":null}\n");
    an_table_destroy(table);
}

static void numbers_round_trip(void **unused)
{
    (void)unused;
    const double values[] = {0.1,  1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 1e15 + 0.5, 123456789012345680.0,
                             1e-5, 100,     2.5};
    const size_t count = sizeof values / sizeof *values;
    an_table *table = an_table_create();
    assert_non_null(table);
    an_table_column(table, "x", AN_NUMBER);
    for (size_t i = 0; i < count; i++)
        an_table_number(table, values[i], "%.1f");
    char *text = written(table, AN_JSON);
    json_t *whole = json_loads(text, 0, NULL), *rows = json_object_get(whole, "rows");
    assert_int_equal(json_integer_value(json_object_get(whole, "schema_version")), 1);
    assert_int_equal(json_array_size(rows), count);
    for (size_t i = 0; i < count; i++) {
        const json_t *x = json_object_get(json_array_get(rows, i), "x");
        assert_true(json_is_real(x));
        assert_true(json_real_value(x) == values[i]);
    }
    json_decref(whole);
    free(text);
    char *csv = written(table, AN_CSV);
    const char *line = csv;
    for (size_t i = 0; i < count; i++) {
        line = strstr(line, "\r\n");
        assert_non_null(line);
        line += strlen("\r\n");
        assert_true(strtod(line, NULL) == values[i]);
    }
    assert_true(strstr(csv, "\r\n0.1\r\n") && strstr(csv, "\r\n2.5\r\n")); /* no longer than needed */
    free(csv);
    an_table_destroy(table);
}

static void infinities(void **unused)
{
    (void)unused;
    an_table *table = an_table_create();
    assert_non_null(table);
    an_table_column(table, "lambda", AN_NUMBER);
    an_table_number(table, -INFINITY, "%.3g");
    assert_written(table, AN_CSV, "lambda\r\n-inf\r\n");
    assert_written(table, AN_JSONL, "{\"lambda\":null}\n");
    assert_written(table, AN_TABLE, "lambda\n  -inf\n");
    an_table_destroy(table);
}

static void width_is_that_of_a_terminal(void **unused)
{
    (void)unused;
    an_table *table = an_table_create();
    assert_non_null(table);
    an_table_column(table, "w", AN_TEXT);
    an_table_column(table, "x", AN_NUMBER);
    const char *const names[] = {"caf\xc3\xa9", "e\xcc\x81", "\xe6\xb3\xa8\xe6\x84\x8f", "\xf0\x9f\x9a\x80", "abcd"};
    for (size_t i = 0; i < 5; i++) {
        an_table_text(table, names[i]);
        an_table_integer(table, 1);
    }
    assert_written(table, AN_TABLE,
                   "w     x\n"
                   "caf\xc3\xa9  1\n"
                   "e\xcc\x81     1\n"
                   "\xe6\xb3\xa8\xe6\x84\x8f  1\n"
                   "\xf0\x9f\x9a\x80    1\n"
                   "abcd  1\n");
    an_table_destroy(table);
}

static void hostile_text(void **unused)
{
    (void)unused;
    an_table *table = an_table_create();
    assert_non_null(table);
    an_table_column(table, "x", AN_TEXT);
    an_table_text(table, "\x1b[2J\n\\|<b>_i_ *s* `c` \xff \xc3");
    assert_written(table, AN_TABLE, "x\n?[2J?\\|<b>_i_ *s* `c` ? ?\n");
    assert_written(table, AN_MARKDOWN, "| x |\n| --- |\n| ?\\[2J?\\\\\\|\\<b>\\_i\\_ \\*s\\* \\`c\\` ? ? |\n");
    assert_written(table, AN_CSV, "x\r\n\"\x1b[2J\n\\|<b>_i_ *s* `c` \xff \xc3\"\r\n");
    char *text = written(table, AN_JSONL);
    json_t *row = json_loads(text, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(row, "x")),
                        "\x1b[2J\n\\|<b>_i_ *s* `c` \xef\xbf\xbd \xef\xbf\xbd");
    json_decref(row);
    free(text);

    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_int_equal(an_table_write_html(table, out), 0);
    an_html_text("a<b>&\"'", out);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "<td>?[2J?\\|&lt;b&gt;_i_ *s* `c` ? ?</td>"));
    assert_non_null(strstr(text, "a&lt;b&gt;&amp;&quot;&#39;"));
    free(text);
    an_table_destroy(table);
}

static void csv_keeps_spaces_and_line_ends(void **unused)
{
    (void)unused;
    an_table *table = an_table_create();
    assert_non_null(table);
    an_table_column(table, "a,b", AN_TEXT);
    an_table_text(table, " x ");
    an_table_text(table, "1\r\n2");
    an_table_text(table, "");
    assert_written(table, AN_CSV, "\"a,b\"\r\n\" x \"\r\n\"1\r\n2\"\r\n\r\n");
    an_table_destroy(table);
}

static void empty_tables(void **unused)
{
    (void)unused;
    an_table *table = an_table_create();
    assert_non_null(table);
    assert_written(table, AN_TABLE, "");
    assert_written(table, AN_MARKDOWN, "");
    assert_int_equal(an_table_rows(table), 0);
    an_table_column(table, "x", AN_TEXT);
    assert_written(table, AN_TABLE, "x\n");
    assert_written(table, AN_MARKDOWN, "| x |\n| --- |\n");
    assert_written(table, AN_CSV, "x\r\n");
    assert_written(table, AN_JSON, "{\"schema_version\":1,\"rows\":[]}\n");
    assert_written(table, AN_JSONL, "");
    an_table_destroy(table);
}

static void write_errors_are_told(void **unused)
{
    (void)unused;
    an_table *table = example();
    static const an_format formats[] = {AN_TABLE, AN_MARKDOWN, AN_CSV, AN_JSON, AN_JSONL};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        FILE *full = fopen("/dev/full", "w");
        if (!full)
            skip();
        setbuf(full, NULL);
        assert_int_equal(an_table_write(table, formats[i], full), -1);
        fclose(full);
    }
    an_table_destroy(table);
}

static void format_names(void **unused)
{
    (void)unused;
    static const struct {
        const char *name;
        an_format format;
    } names[] = {{"table", AN_TABLE}, {"md", AN_MARKDOWN}, {"csv", AN_CSV}, {"json", AN_JSON}, {"jsonl", AN_JSONL}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        an_format format = AN_TABLE;
        assert_int_equal(an_format_parse(names[i].name, &format), 1);
        assert_int_equal(format, names[i].format);
    }
    an_format format = AN_CSV;
    assert_int_equal(an_format_parse("xml", &format), 0);
    assert_int_equal(an_format_parse("", &format), 0);
    assert_int_equal(format, AN_CSV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_by_the_letter),
        cmocka_unit_test(numbers_round_trip),
        cmocka_unit_test(infinities),
        cmocka_unit_test(width_is_that_of_a_terminal),
        cmocka_unit_test(hostile_text),
        cmocka_unit_test(csv_keeps_spaces_and_line_ends),
        cmocka_unit_test(empty_tables),
        cmocka_unit_test(write_errors_are_told),
        cmocka_unit_test(format_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
