/* A doubling buffer, shell quoting, and lists with commas. */
#include "cli/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for `more` characters and the NUL. */
static int reserve(sb_text *text, size_t more)
{
    if (text->failed || more > SIZE_MAX / 4 || text->length > SIZE_MAX / 4) {
        text->failed = 1;
        return -1;
    }
    size_t needed = text->length + more + 1;
    if (needed <= text->capacity)
        return 0;
    size_t capacity = needed < 64 ? 64 : 2 * needed;
    char *data = realloc(text->data, capacity);
    if (!data) {
        text->failed = 1;
        return -1;
    }
    text->data = data;
    text->capacity = capacity;
    return 0;
}

void sb_text_add(sb_text *text, const char *format, ...)
{
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    int length = vsnprintf(NULL, 0, format, list);
    if (length < 0 || reserve(text, (size_t)length) != 0) {
        text->failed = 1;
    } else {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
    va_end(list);
}

void sb_text_add_word(sb_text *text, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%_-+=:,./";
    const char *blank = text->length > 0 ? " " : "";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        sb_text_add(text, "%s%s", blank, word);
        return;
    }
    sb_text_add(text, "%s'", blank);
    for (; *word; word++)
        if (*word == '\'')
            sb_text_add(text, "'\\''");
        else
            sb_text_add(text, "%c", *word);
    sb_text_add(text, "'");
}

char *sb_text_take(sb_text *text)
{
    char *data = text->data;
    if (!text->failed && !data)
        data = calloc(1, 1);
    if (text->failed) {
        free(data);
        data = NULL;
    }
    *text = (sb_text){0};
    return data;
}

int sb_text_split(const char *text, char ***items, size_t *count)
{
    size_t length = strlen(text), commas = 0;
    for (size_t i = 0; i < length; i++)
        commas += text[i] == ',';
    *items = NULL;
    *count = 0;
    if (length > SIZE_MAX / 16)
        return -1;
    char **list = malloc((commas + 1) * sizeof *list + length + 1);
    if (!list)
        return -1;
    char *out = (char *)(list + commas + 1);
    size_t n = 0;
    list[n++] = out;
    for (const char *p = text; *p; p++) {
        if (*p == '\\' && (p[1] == ',' || p[1] == '\\')) {
            *out++ = *++p;
        } else if (*p == ',') {
            *out++ = '\0';
            list[n++] = out;
        } else {
            *out++ = *p;
        }
    }
    *out = '\0';
    *items = list;
    *count = n;
    return 0;
}

char *sb_text_escape(const char *item)
{
    sb_text text = {0};
    for (const char *p = item; *p; p++)
        sb_text_add(&text, *p == ',' || *p == '\\' ? "\\%c" : "%c", *p);
    return sb_text_take(&text);
}
