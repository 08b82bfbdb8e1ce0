/* "did you mean": the name in a list that a mistyped word most likely stands for. */
#ifndef SUPPORT_SUGGEST_H
#define SUPPORT_SUGGEST_H

#include <stddef.h>

/* Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal string alignment).
 * SIZE_MAX for words longer than 64 characters: nobody mistypes those by one letter. */
size_t sb_edit_distance(const char *a, const char *b);

/* Keeps the better of `best` (NULL at first) and `candidate` for `word`; NULL while nothing is near enough: a candidate
 * that begins with the word, or at most one edit per three letters. Call once per candidate. */
const char *sb_nearer(const char *word, const char *best, const char *candidate);

#endif
