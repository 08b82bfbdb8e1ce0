/* Tables: building them cell by cell, and what their writers share. People's formats are in table_text.c, machines' in
 * table_data.c. */
#include "table_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int an_format_parse(const char *name, an_format *format)
{
    static const struct {
        const char *name;
        an_format format;
    } formats[] = {{"table", AN_TABLE}, {"md", AN_MARKDOWN}, {"csv", AN_CSV}, {"json", AN_JSON}, {"jsonl", AN_JSONL}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(name, formats[i].name) == 0) {
            *format = formats[i].format;
            return 1;
        }
    }
    return 0;
}

an_table *an_table_create(void)
{
    return calloc(1, sizeof(an_table));
}

void an_table_destroy(an_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->columns; i++)
        free(table->column[i].name);
    for (size_t i = 0; i < table->cells; i++)
        free(table->cell[i].text);
    free(table->column);
    free(table->cell);
    free(table);
}

/* Room for one more element: the array, moved if it had to grow; NULL (and the array as it was) if out of memory. */
static void *grown(void *array, size_t count, size_t *capacity, size_t element_bytes)
{
    if (count < *capacity)
        return array;
    const size_t larger = *capacity ? *capacity * 2 : 16;
    if (larger > SIZE_MAX / element_bytes)
        return NULL;
    void *moved = realloc(array, larger * element_bytes);
    if (moved)
        *capacity = larger;
    return moved;
}

void an_table_column(an_table *table, const char *name, an_cell_type type)
{
    char *copy = strdup(name);
    void *column = grown(table->column, table->columns, &table->column_capacity, sizeof *table->column);
    if (column)
        table->column = column;
    if (!copy || !column) {
        free(copy);
        table->failed = 1;
        return;
    }
    table->column[table->columns++] = (table_column){copy, type};
}

static void add_cell(an_table *table, cell_kind kind, const char *text, int64_t integer, double real)
{
    char *copy = text ? strdup(text) : NULL;
    void *cell = grown(table->cell, table->cells, &table->cell_capacity, sizeof *table->cell);
    if (cell)
        table->cell = cell;
    if ((text && !copy) || !cell) {
        free(copy);
        table->failed = 1;
        return;
    }
    table->cell[table->cells++] = (table_cell){kind, copy, integer, real};
}

void an_table_text(an_table *table, const char *value)
{
    add_cell(table, value ? CELL_STRING : CELL_MISSING, value, 0, NAN);
}

void an_table_integer(an_table *table, int64_t value)
{
    add_cell(table, CELL_INTEGER, NULL, value, NAN);
}

void an_table_number(an_table *table, double value, const char *format)
{
    if (isnan(value)) {
        add_cell(table, CELL_MISSING, NULL, 0, NAN);
        return;
    }
    char text[512]; /* "%f" of the largest double has 317 characters */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, format, value);
#pragma GCC diagnostic pop
    add_cell(table, CELL_REAL, text, 0, value);
}

void an_table_short(an_table *table, double value)
{
    an_table_number(table, value, fabs(value) >= 9999.5 ? "%.0f" : "%.4g");
}

size_t an_table_rows(const an_table *table)
{
    return table->columns ? (table->cells + table->columns - 1) / table->columns : 0;
}

const table_cell *table_at(const an_table *table, size_t row, size_t column)
{
    const size_t i = row * table->columns + column;
    return i < table->cells ? &table->cell[i] : NULL;
}

int table_shortest(double value, char text[NUMBER_TEXT])
{
    int precision = 0;
    do
        snprintf(text, NUMBER_TEXT, "%.*g", ++precision, value);
    while (precision < 17 && strtod(text, NULL) != value);
    return precision;
}

const char *table_readable(const table_cell *cell, char number[NUMBER_TEXT])
{
    if (!cell || cell->kind == CELL_MISSING)
        return "";
    if (cell->kind != CELL_INTEGER)
        return cell->text;
    snprintf(number, NUMBER_TEXT, "%lld", (long long)cell->integer);
    return number;
}

uint32_t table_code_point(const char **text)
{
    static const struct {
        uint8_t mask, lead;
        uint32_t smallest; /* shorter values must use a shorter form */
    } form[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    const unsigned char *s = (const unsigned char *)*text;
    for (size_t length = 1; length <= 4; length++) {
        if ((s[0] & form[length - 1].mask) != form[length - 1].lead)
            continue;
        uint32_t code = s[0] & (uint32_t)(uint8_t)~form[length - 1].mask;
        for (size_t i = 1; i < length; i++) {
            if ((s[i] & 0xc0) != 0x80) {
                *text += 1;
                return 0xfffd;
            }
            code = code << 6 | (s[i] & 0x3f);
        }
        const int valid = code >= form[length - 1].smallest && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
        *text += valid ? length : 1;
        return valid ? code : 0xfffd;
    }
    *text += 1;
    return 0xfffd;
}

int an_table_write(const an_table *table, an_format format, FILE *out)
{
    if (table->failed)
        return -1;
    switch (format) {
    case AN_TABLE:
        return table_write_aligned(table, out);
    case AN_MARKDOWN:
        return table_write_markdown(table, out);
    case AN_CSV:
        return table_write_csv(table, out);
    case AN_JSON:
    case AN_JSONL:
        return table_write_json(table, format, out);
    }
    return -1;
}
