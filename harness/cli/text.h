/* Text that grows: built piece by piece, a failed allocation is remembered and reported once, at the end. */
#ifndef HARNESS_TEXT_H
#define HARNESS_TEXT_H

#include <stddef.h>

typedef struct sb_text {
    char *data; /* NUL-terminated; NULL while empty */
    size_t length, capacity;
    int failed;
} sb_text;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void sb_text_add(sb_text *text, const char *format, ...);

/* A blank and `word`, quoted so that a POSIX shell reads it as one word. */
void sb_text_add_word(sb_text *text, const char *word);

/* The text, to be freed by the caller; NULL if memory ran out. Leaves *text empty. */
char *sb_text_take(sb_text *text);

/* Splits at commas; "\," is a comma and "\\" a backslash of an item. Items are in one block: free(*items). -1 if memory
 * runs out. An empty text has one empty item. */
int sb_text_split(const char *text, char ***items, size_t *count);

/* The inverse for one item, to be freed: backslashes before its commas and backslashes. NULL if memory runs out. */
char *sb_text_escape(const char *item);

#endif
