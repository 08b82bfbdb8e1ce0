/* Tables of text cells, written as aligned text, Markdown, CSV (RFC 4180), JSON or JSON lines. */
#ifndef ANALYSIS_TABLE_H
#define ANALYSIS_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum an_format { AN_TABLE = 0, AN_MARKDOWN, AN_CSV, AN_JSON, AN_JSONL } an_format;
int an_format_parse(const char *name, an_format *format); /* table md csv json jsonl; 0 if none of them */

typedef enum an_cell_type { AN_TEXT = 0, AN_NUMBER } an_cell_type;

typedef struct an_table an_table;
an_table *an_table_create(void); /* NULL if out of memory */
void an_table_destroy(an_table *table);
/* Columns first, then rows cell by cell. A failed allocation is remembered and makes an_table_write fail. */
void an_table_column(an_table *table, const char *name, an_cell_type type);
void an_table_text(an_table *table, const char *value); /* NULL = missing (null in JSON, empty elsewhere) */
void an_table_integer(an_table *table, int64_t value);
void an_table_number(an_table *table, double value, const char *format); /* NAN = missing; format for text, e.g. "%.3f";
                                                                            JSON and CSV get %.17g's shortest round trip */
/* The same with the text of four digits, or all of the whole part: 0.1234, 12.34, 12345. */
void an_table_short(an_table *table, double value);
/* JSON is {"schema_version":1,"rows":[{...}]}; infinite numbers are null there, "inf" and "-inf" elsewhere. Aligned text
 * and Markdown show control characters as '?'. CSV lines end in CR LF. 0, or -1 on a write error or an earlier
 * allocation failure. */
int an_table_write(const an_table *table, an_format format, FILE *out);
/* The same as an HTML <table> element, for pages. */
int an_table_write_html(const an_table *table, FILE *out);

size_t an_table_rows(const an_table *table);
/* `text` with the five characters that mean something in HTML escaped and control characters shown as '?'. */
void an_html_text(const char *text, FILE *out);

#endif
