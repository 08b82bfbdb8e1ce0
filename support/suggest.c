/* Nearest names by optimal string alignment distance. Names are short, so three fixed rows are enough. */
#include "suggest.h"

#include <stdint.h>
#include <string.h>

enum { LONGEST = 64 };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t sb_edit_distance(const char *a, const char *b)
{
    size_t length_a = strlen(a), length_b = strlen(b);
    size_t row[3][LONGEST + 1]; /* row[i % 3][j]: distance of the first i letters of a to the first j of b */
    if (length_a > LONGEST || length_b > LONGEST)
        return SIZE_MAX;
    for (size_t j = 0; j <= length_b; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= length_a; i++) {
        size_t *now = row[i % 3], *before = row[(i - 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= length_b; j++) {
            size_t substituted = before[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = smaller(substituted, smaller(before[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = smaller(now[j], row[(i - 2) % 3][j - 2] + 1);
        }
    }
    return row[length_a % 3][length_b];
}

/* Smaller is nearer; SIZE_MAX = not near. A prefix counts as the smallest edit, shorter completions first. */
static size_t score(const char *word, const char *candidate)
{
    size_t length = strlen(word);
    if (length >= 2 && strncmp(word, candidate, length) == 0)
        return strlen(candidate) - length;
    size_t distance = sb_edit_distance(word, candidate);
    size_t allowed = length / 3 > 1 ? length / 3 : 1;
    if (length < 2 || distance > allowed)
        return SIZE_MAX;
    return 100 * distance; /* after any prefix */
}

const char *sb_nearer(const char *word, const char *best, const char *candidate)
{
    size_t new_score = score(word, candidate);
    if (new_score == SIZE_MAX || (best && score(word, best) <= new_score))
        return best;
    return candidate;
}
