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

typedef struct wrapper {
    FILE *out;
    int indent, width;
    int column; /* where the next character goes */
    int words;  /* on this line */
} wrapper;

static void end_line(wrapper *w)
{
    fputc('\n', w->out);
    w->column = 0;
    w->words = 0;
}

static void put(wrapper *w, const char *text, size_t bytes)
{
    int columns = columns_of(text, bytes);
    if (w->words > 0 && w->column + 1 + columns > w->width)
        end_line(w);
    int blanks = w->words > 0 ? 1 : w->column < w->indent ? w->indent - w->column : 0;
    fprintf(w->out, "%*s%.*s", blanks, "", (int)bytes, text);
    w->column += blanks + columns;
    w->words++;
}

static void put_words(wrapper *w, const char *line, size_t length)
{
    for (size_t i = 0; i < length;) {
        size_t word = strcspn(line + i, " \n");
        if (word > 0)
            put(w, line + i, word);
        i += word + 1;
    }
}

void sb_help_wrap(const char *text, int indent, int column, int width, FILE *out)
{
    wrapper w = {.out = out, .indent = indent, .width = width, .column = column};
    while (*text) {
        size_t length = strcspn(text, "\n");
        int verbatim = *text == ' ';
        if ((length == 0 || verbatim) && w.words > 0)
            end_line(&w);
        if (verbatim)
            put(&w, text, length);
        else
            put_words(&w, text, length);
        if (length == 0 || verbatim)
            end_line(&w);
        text += length + (text[length] == '\n');
    }
    if (w.column > 0)
        end_line(&w);
}
