/* The cells of a table, for the files that write it. */
#ifndef ANALYSIS_TABLE_INTERNAL_H
#define ANALYSIS_TABLE_INTERNAL_H

#include "table.h"

typedef enum cell_kind { CELL_MISSING = 0, CELL_STRING, CELL_INTEGER, CELL_REAL } cell_kind;

typedef struct table_cell {
    cell_kind kind;
    char *text; /* CELL_STRING: the value; CELL_REAL: formatted for people */
    int64_t integer;
    double real;
} table_cell;

typedef struct table_column {
    char *name;
    an_cell_type type;
} table_column;

struct an_table {
    table_column *column;
    size_t columns, column_capacity;
    table_cell *cell; /* row by row; the last row may be unfinished */
    size_t cells, cell_capacity;
    int failed; /* an allocation failed: the table is not whole */
};

enum { NUMBER_TEXT = 40 };

/* The cell (row, column); NULL where an unfinished last row has none. */
const table_cell *table_at(const an_table *table, size_t row, size_t column);
/* The shortest decimal text that reads back as `value`, which is finite. Returns its precision. */
int table_shortest(double value, char text[NUMBER_TEXT]);
/* What people read: the string, the integer, the formatted number, "" if missing. `number` is room for an integer. */
const char *table_readable(const table_cell *cell, char number[NUMBER_TEXT]);

/* Reads one code point and moves *text on; U+FFFD for a byte that is not valid UTF-8. Not at the end of the string. */
uint32_t table_code_point(const char **text);

int table_write_aligned(const an_table *table, FILE *out);
int table_write_markdown(const an_table *table, FILE *out);
int table_write_csv(const an_table *table, FILE *out);
int table_write_json(const an_table *table, an_format format, FILE *out);

#endif
