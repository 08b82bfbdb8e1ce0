/* Wrapping text to a width. Widths count code points, so that an en dash or a Greek letter is one column. */
#include "help/help.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { NARROWEST = 40, WIDEST = 100, USUAL = 80 };

static int clamp_width(long columns)
{
    if (columns < NARROWEST)
        return NARROWEST;
    return columns > WIDEST ? WIDEST : (int)columns;
}

int sb_help_width(FILE *out)
{
    const char *columns = getenv("COLUMNS");
    if (columns && *columns) {
        char *end;
        long value = strtol(columns, &end, 10);
        if (*end == '\0' && value > 0)
            return clamp_width(value);
    }
    struct winsize size;
    int file = fileno(out);
    if (file >= 0 && isatty(file) && ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return clamp_width(size.ws_col);
    return USUAL;
}

static int columns_of(const char *word, size_t bytes)
{
    int columns = 0;
    for (size_t i = 0; i < bytes; i++)
        columns += ((unsigned char)word[i] & 0xc0) != 0x80;
    return columns;
}

static void start_line(int indent, FILE *out)
{
    fprintf(out, "\n%*s", indent, "");
}

void sb_help_wrap(const char *text, int indent, int column, int width, FILE *out)
{
    int at_margin = 1; /* nothing on the line yet but its indent */
    if (column < indent) {
        fprintf(out, "%*s", indent - column, "");
        column = indent;
    }
    while (*text) {
        if (*text == '\n') {
            size_t newlines = strspn(text, "\n");
            int verbatim = text[newlines] == ' ';
            text += newlines;
            if (*text == '\0')
                break;
            if (newlines > 1)
                fputc('\n', out);
            if (newlines > 1 || verbatim) {
                start_line(indent, out);
                column = indent;
                at_margin = 1;
            }
            if (verbatim) {
                size_t bytes = strcspn(text, "\n");
                fprintf(out, "%.*s", (int)bytes, text);
                text += bytes;
                if (*text == '\n' && text[1] != ' ' && text[1] != '\n' && text[1] != '\0') {
                    start_line(indent, out);
                    text++;
                }
            }
            continue;
        }
        if (*text == ' ') {
            text++;
            continue;
        }
        size_t bytes = strcspn(text, " \n");
        int size = columns_of(text, bytes);
        if (!at_margin && column + 1 + size > width) {
            start_line(indent, out);
            column = indent;
            at_margin = 1;
        }
        fprintf(out, "%s%.*s", at_margin ? "" : " ", (int)bytes, text);
        column += size + !at_margin;
        at_margin = 0;
        text += bytes;
    }
    fputc('\n', out);
}
