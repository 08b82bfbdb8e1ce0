/* Tables for machines: CSV (RFC 4180), JSON and JSON lines. */
#include "table_internal.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void csv_text(const char *text, FILE *out)
{
    if (!strpbrk(text, ",\"\r\n") && text[0] != ' ' && (text[0] == '\0' || text[strlen(text) - 1] != ' ')) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (const char *c = text; *c; c++) {
        if (*c == '"')
            fputc('"', out);
        fputc(*c, out);
    }
    fputc('"', out);
}

static void csv_cell(const table_cell *cell, FILE *out)
{
    char number[NUMBER_TEXT];
    if (cell && cell->kind == CELL_REAL && isfinite(cell->real)) {
        table_shortest(cell->real, number);
        fputs(number, out);
    } else if (cell && cell->kind == CELL_REAL) {
        fputs(cell->real < 0 ? "-inf" : "inf", out);
    } else {
        csv_text(table_readable(cell, number), out);
    }
}

int table_write_csv(const an_table *table, FILE *out)
{
    for (size_t c = 0; c < table->columns; c++) {
        if (c)
            fputc(',', out);
        csv_text(table->column[c].name, out);
    }
    fputs("\r\n", out);
    for (size_t r = 0; r < an_table_rows(table); r++) {
        for (size_t c = 0; c < table->columns; c++) {
            if (c)
                fputc(',', out);
            csv_cell(table_at(table, r, c), out);
        }
        fputs("\r\n", out);
    }
    return ferror(out) ? -1 : 0;
}

/* A JSON string. Bytes that are not UTF-8 (names of files can hold any) become U+FFFD. */
static int json_text(const char *text, FILE *out)
{
    json_t *value = json_string(text);
    if (!value) {
        const size_t length = strlen(text);
        char *clean = length < SIZE_MAX / 3 ? malloc(3 * length + 1) : NULL; /* each bad byte becomes three */
        if (!clean)
            return -1;
        char *end = clean;
        for (const char *from = text; *from;) {
            const char *begin = from;
            const int bad = table_code_point(&from) == 0xfffd && from - begin == 1;
            const size_t bytes = bad ? 3 : (size_t)(from - begin);
            memcpy(end, bad ? "\xef\xbf\xbd" : begin, bytes);
            end += bytes;
        }
        *end = '\0';
        value = json_string(clean);
        free(clean);
    }
    const int status = value ? json_dumpf(value, out, JSON_ENCODE_ANY) : -1;
    json_decref(value);
    return status;
}

static int json_cell(const table_cell *cell, FILE *out)
{
    if (cell && cell->kind == CELL_STRING)
        return json_text(cell->text, out);
    if (cell && cell->kind == CELL_INTEGER)
        return fprintf(out, "%lld", (long long)cell->integer) < 0 ? -1 : 0;
    if (cell && cell->kind == CELL_REAL && isfinite(cell->real)) {
        char number[NUMBER_TEXT];
        json_t *value = json_real(cell->real);
        const size_t precision = (size_t)table_shortest(cell->real, number);
        const int status = value ? json_dumpf(value, out, JSON_ENCODE_ANY | JSON_REAL_PRECISION(precision)) : -1;
        json_decref(value);
        return status;
    }
    return fputs("null", out) < 0 ? -1 : 0;
}

static int json_row(const an_table *table, size_t row, FILE *out)
{
    fputc('{', out);
    for (size_t c = 0; c < table->columns; c++) {
        if (c)
            fputc(',', out);
        if (json_text(table->column[c].name, out) != 0)
            return -1;
        fputc(':', out);
        if (json_cell(table_at(table, row, c), out) != 0)
            return -1;
    }
    fputc('}', out);
    return 0;
}

int table_write_json(const an_table *table, an_format format, FILE *out)
{
    const size_t rows = an_table_rows(table);
    if (format == AN_JSON)
        fputs("{\"schema_version\":1,\"rows\":[", out);
    for (size_t r = 0; r < rows; r++) {
        if (format == AN_JSON)
            fputs(r ? ",\n" : "\n", out);
        if (json_row(table, r, out) != 0)
            return -1;
        if (format == AN_JSONL)
            fputc('\n', out);
    }
    if (format == AN_JSON)
        fputs(rows ? "\n]}\n" : "]}\n", out);
    return ferror(out) ? -1 : 0;
}
