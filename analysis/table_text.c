/* Tables for people: aligned text, Markdown and HTML. */
#include "table_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static int is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

/* Columns of a terminal: 0 for combining marks and joiners, 2 for East Asian wide characters and pictographs. */
static size_t code_point_width(uint32_t code)
{
    static const struct {
        uint32_t first, last;
        size_t width;
    } range[] = {
        {0x0300, 0x036f, 0}, {0x200b, 0x200f, 0},   {0x20d0, 0x20ff, 0},   {0xfe00, 0xfe0f, 0}, {0x1100, 0x115f, 2},
        {0x2e80, 0xa4cf, 2}, {0xac00, 0xd7a3, 2},   {0xf900, 0xfaff, 2},   {0xfe30, 0xfe6f, 2}, {0xff00, 0xff60, 2},
        {0xffe0, 0xffe6, 2}, {0x1f300, 0x1faff, 2}, {0x20000, 0x3fffd, 2},
    };
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (code >= range[i].first && code <= range[i].last)
            return range[i].width;
    return 1;
}

static size_t text_width(const char *text)
{
    size_t width = 0;
    while (*text) {
        const uint32_t code = table_code_point(&text);
        width += is_control(code) ? 1 : code_point_width(code);
    }
    return width;
}

/* Copies the text, control characters and bytes that are not UTF-8 as '?': a name must not move the cursor. */
static void put_plain(const char *text, FILE *out)
{
    while (*text) {
        const char *begin = text;
        const uint32_t code = table_code_point(&text);
        if (is_control(code) || (code == 0xfffd && text - begin == 1))
            fputc('?', out);
        else
            fwrite(begin, 1, (size_t)(text - begin), out);
    }
}

static void put_spaces(size_t count, FILE *out)
{
    fprintf(out, "%*s", (int)count, "");
}

static void put_aligned(const char *text, size_t width, an_cell_type type, int last, FILE *out)
{
    const size_t padding = width - text_width(text);
    if (type == AN_NUMBER)
        put_spaces(padding, out);
    put_plain(text, out);
    if (type == AN_TEXT && !last)
        put_spaces(padding, out);
}

int table_write_aligned(const an_table *table, FILE *out)
{
    char number[NUMBER_TEXT];
    const size_t rows = an_table_rows(table);
    size_t *width = calloc(table->columns + 1, sizeof *width);
    if (!width)
        return -1;
    for (size_t c = 0; c < table->columns; c++) {
        width[c] = text_width(table->column[c].name);
        for (size_t r = 0; r < rows; r++) {
            const size_t w = text_width(table_readable(table_at(table, r, c), number));
            width[c] = w > width[c] ? w : width[c];
        }
    }
    for (size_t line = 0; line <= rows; line++) {
        for (size_t c = 0; c < table->columns; c++) {
            const char *text = line == 0 ? table->column[c].name : table_readable(table_at(table, line - 1, c), number);
            if (c)
                fputs("  ", out);
            put_aligned(text, width[c], table->column[c].type, c + 1 == table->columns, out);
        }
        if (table->columns)
            fputc('\n', out);
    }
    free(width);
    return ferror(out) ? -1 : 0;
}

/* '_' means nothing inside a word, and names are full of it. */
static int is_inner_underscore(const char *text, const char *at)
{
    return at > text && isalnum((unsigned char)at[-1]) && isalnum((unsigned char)at[1]);
}

static void put_markdown(const char *text, FILE *out)
{
    const char *const whole = text;
    while (*text) {
        const char *begin = text;
        const uint32_t code = table_code_point(&text);
        if (is_control(code) || (code == 0xfffd && text - begin == 1)) {
            fputc('?', out);
            continue;
        }
        if (strchr("\\|`*<[", *begin) || (*begin == '_' && !is_inner_underscore(whole, begin)))
            fputc('\\', out);
        fwrite(begin, 1, (size_t)(text - begin), out);
    }
}

int table_write_markdown(const an_table *table, FILE *out)
{
    char number[NUMBER_TEXT];
    if (table->columns == 0)
        return 0;
    fputc('|', out);
    for (size_t c = 0; c < table->columns; c++) {
        fputc(' ', out);
        put_markdown(table->column[c].name, out);
        fputs(" |", out);
    }
    fputs("\n|", out);
    for (size_t c = 0; c < table->columns; c++)
        fputs(table->column[c].type == AN_NUMBER ? " ---: |" : " --- |", out);
    fputc('\n', out);
    for (size_t r = 0; r < an_table_rows(table); r++) {
        fputc('|', out);
        for (size_t c = 0; c < table->columns; c++) {
            fputc(' ', out);
            put_markdown(table_readable(table_at(table, r, c), number), out);
            fputs(" |", out);
        }
        fputc('\n', out);
    }
    return ferror(out) ? -1 : 0;
}

void an_html_text(const char *text, FILE *out)
{
    while (*text) {
        const char *begin = text;
        const uint32_t code = table_code_point(&text);
        if (is_control(code) || (code == 0xfffd && text - begin == 1))
            fputc('?', out);
        else if (code == '&')
            fputs("&amp;", out);
        else if (code == '<')
            fputs("&lt;", out);
        else if (code == '>')
            fputs("&gt;", out);
        else if (code == '"')
            fputs("&quot;", out);
        else if (code == '\'')
            fputs("&#39;", out);
        else
            fwrite(begin, 1, (size_t)(text - begin), out);
    }
}

int an_table_write_html(const an_table *table, FILE *out)
{
    static const char *const align[] = {[AN_TEXT] = "", [AN_NUMBER] = " class=\"number\""};
    char number[NUMBER_TEXT];
    if (table->failed)
        return -1;
    fputs("<table>\n<thead><tr>", out);
    for (size_t c = 0; c < table->columns; c++) {
        fprintf(out, "<th%s>", align[table->column[c].type]);
        an_html_text(table->column[c].name, out);
        fputs("</th>", out);
    }
    fputs("</tr></thead>\n<tbody>\n", out);
    for (size_t r = 0; r < an_table_rows(table); r++) {
        fputs("<tr>", out);
        for (size_t c = 0; c < table->columns; c++) {
            fprintf(out, "<td%s>", align[table->column[c].type]);
            an_html_text(table_readable(table_at(table, r, c), number), out);
            fputs("</td>", out);
        }
        fputs("</tr>\n", out);
    }
    fputs("</tbody>\n</table>\n", out);
    return ferror(out) ? -1 : 0;
}
