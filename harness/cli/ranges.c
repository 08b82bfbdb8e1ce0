/* Number lists: a list is split at its commas, each item is a number or a progression, and all values pass through one
 * growing array that drops duplicates and bounds the length.
 *
 * Integers are exact: every multiplication and addition is checked before it is done. Reals are computed as
 * begin + i * step (never accumulated) and rounded to the 15 digits in which they were written. */
#include "cli/ranges.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUES = 4096, ITEM_SIZE = 128 };

typedef struct range {
    char begin[ITEM_SIZE], end[ITEM_SIZE], step[ITEM_SIZE];
    int is_progression;
    char rule; /* '*' or '+'; '*' with the step "2" where none was written */
} range;

typedef struct report {
    char *text;
    size_t size;
} report;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static int
fail(const report *error, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (error->size > 0)
        vsnprintf(error->text, error->size, format, list);
    va_end(list);
    return -1;
}

/* length < ITEM_SIZE */
static void copy_text(char *to, const char *text, size_t length)
{
    memcpy(to, text, length);
    to[length] = '\0';
}

/* Where the step's operator stands in "end+step": the first '*' or '+' that is not the sign of an exponent. */
static const char *find_operator(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] == '*' || (text[i] == '+' && (i == 0 || tolower((unsigned char)text[i - 1]) != 'e')))
            return text + i;
    return NULL;
}

/* Splits one item into the texts of its numbers. */
static int split_item(const char *item, size_t length, range *out, const report *error)
{
    memset(out, 0, sizeof *out);
    if (length == 0)
        return fail(error, "an item of the list is empty");
    if (length >= ITEM_SIZE)
        return fail(error, "\"%.32s...\" is too long for a number", item);
    size_t dots = 0;
    while (dots + 1 < length && !(item[dots] == '.' && item[dots + 1] == '.'))
        dots++;
    if (dots + 1 >= length) {
        copy_text(out->begin, item, length);
        return 0;
    }
    const char *end = item + dots + 2;
    size_t end_length = length - dots - 2;
    const char *rule = find_operator(end, end_length);
    out->is_progression = 1;
    out->rule = rule ? *rule : '*';
    copy_text(out->begin, item, dots);
    copy_text(out->end, end, rule ? (size_t)(rule - end) : end_length);
    if (rule)
        copy_text(out->step, rule + 1, (size_t)(item + length - rule) - 1);
    else
        copy_text(out->step, "2", 1);
    const char *missing = !*out->begin ? "begin" : !*out->end ? "end" : !*out->step ? "step" : NULL;
    return missing ? fail(error, "the range %.*s has no %s", (int)length, item, missing) : 0;
}

/* --- integers --- */

static int multiply(int64_t a, int64_t b, int64_t *product) /* a, b >= 0 */
{
    if (a != 0 && b > INT64_MAX / a)
        return -1;
    *product = a * b;
    return 0;
}

static int add(int64_t a, int64_t b, int64_t *sum) /* b >= 0 */
{
    if (a > INT64_MAX - b)
        return -1;
    *sum = a + b;
    return 0;
}

/* "64k" where the value is a multiple of 1024, else its digits. */
static const char *show_integer(int64_t value, char *text, size_t size)
{
    static const char *const suffix[] = {"", "k", "m", "g"};
    int power = 0;
    while (power < 3 && value != 0 && value % 1024 == 0) {
        value /= 1024;
        power++;
    }
    snprintf(text, size, "%lld%s", (long long)value, suffix[power]);
    return text;
}

static int parse_integer(const char *text, int64_t *value, const report *error)
{
    const char *p = text;
    int negative = *p == '-';
    p += negative;
    if (!isdigit((unsigned char)*p))
        return fail(error, "\"%s\" is not a whole number", text);
    int64_t magnitude = 0;
    for (; isdigit((unsigned char)*p); p++)
        if (multiply(magnitude, 10, &magnitude) || add(magnitude, *p - '0', &magnitude))
            return fail(error, "\"%s\" is larger than %lld", text, (long long)INT64_MAX);
    const char *suffixes = "kmg";
    const char *suffix = *p ? strchr(suffixes, tolower((unsigned char)*p)) : NULL;
    if (suffix) {
        for (long power = suffix - suffixes; power >= 0; power--)
            if (multiply(magnitude, 1024, &magnitude))
                return fail(error, "\"%s\" is larger than %lld", text, (long long)INT64_MAX);
        p++;
    }
    if (*p != '\0')
        return fail(error, "\"%s\" is not a whole number (k, m, g = 1024, 1024^2, 1024^3)", text);
    *value = negative ? -magnitude : magnitude;
    return 0;
}

typedef struct integer_list {
    int64_t *value;
    size_t count;
    int64_t min, max;
} integer_list;

static int append_integer(integer_list *list, int64_t value, const report *error)
{
    char a[32], b[32];
    if (value < list->min || value > list->max) {
        int low = value < list->min;
        const char *limit = show_integer(low ? list->min : list->max, b, sizeof b);
        return fail(error, "%s is %s the limit of %s", show_integer(value, a, sizeof a), low ? "below" : "above",
                    limit);
    }
    for (size_t i = 0; i < list->count; i++)
        if (list->value[i] == value)
            return 0;
    if (list->count == MAX_VALUES)
        return fail(error, "the list holds more than %d values", MAX_VALUES);
    list->value[list->count++] = value;
    return 0;
}

/* The value after `value`; -1 if it would overflow. */
static int next_integer(char rule, int64_t value, int64_t step, int64_t *next)
{
    return rule == '*' ? multiply(value, step, next) : add(value, step, next);
}

static int expand_integers(const range *item, integer_list *list, const report *error)
{
    int64_t begin, end, step;
    char a[32], b[32], c[32];
    if (parse_integer(item->begin, &begin, error) != 0)
        return -1;
    if (!item->is_progression)
        return append_integer(list, begin, error);
    if (parse_integer(item->end, &end, error) != 0 || parse_integer(item->step, &step, error) != 0)
        return -1;
    if (begin > end)
        return fail(error, "%s..%s begins above its end", item->begin, item->end);
    if (item->rule == '*' && (step < 2 || begin < 1)) {
        return fail(error, "%s..%s*%s needs a begin of at least 1 and a factor of at least 2", item->begin, item->end,
                    item->step);
    }
    if (item->rule == '+' && step < 1)
        return fail(error, "%s..%s+%s needs a step of at least 1", item->begin, item->end, item->step);
    int64_t value = begin;
    for (;;) {
        if (append_integer(list, value, error) != 0)
            return -1;
        int64_t next;
        int overflows = next_integer(item->rule, value, step, &next) != 0;
        if (value == end)
            return 0;
        if (overflows || next > end) {
            show_integer(value, b, sizeof b);
            if (overflows) {
                return fail(error, "the range %s..%s%c%s misses its end; the nearest end is %s", item->begin, item->end,
                            item->rule, item->step, b);
            }
            return fail(error, "the range %s..%s%c%s misses its end %s; the nearest ends are %s and %s", item->begin,
                        item->end, item->rule, item->step, show_integer(end, a, sizeof a), b,
                        show_integer(next, c, sizeof c));
        }
        value = next;
    }
}

/* --- reals --- */

/* [-]digits[.digits][e[+-]digits], the digits before the point may be missing; or [-]inf. What strtod reads, less
 * hexadecimal, NaN, blanks and a point at the end. */
static int parse_real(const char *text, double *value, const report *error)
{
    const char *p = text + (*text == '-');
    if (strcmp(p, "inf") == 0) {
        *value = *text == '-' ? -INFINITY : INFINITY;
        return 0;
    }
    int valid = isdigit((unsigned char)*p) != 0;
    while (isdigit((unsigned char)*p))
        p++;
    if (*p == '.') {
        p++;
        valid = isdigit((unsigned char)*p) != 0;
        while (isdigit((unsigned char)*p))
            p++;
    }
    if (*p == 'e' || *p == 'E') {
        p++;
        p += *p == '-' || *p == '+';
        valid = valid && isdigit((unsigned char)*p);
        while (isdigit((unsigned char)*p))
            p++;
    }
    if (!valid || *p != '\0')
        return fail(error, "\"%s\" is not a number", text);
    *value = strtod(text, NULL);
    if (!isfinite(*value))
        return fail(error, "\"%s\" is too large for a double", text);
    return 0;
}

typedef struct real_list {
    double *value;
    size_t count;
    double min, max;
} real_list;

static int append_real(real_list *list, double value, const report *error)
{
    if (value < list->min || value > list->max) {
        int low = value < list->min;
        return fail(error, "%.15g is %s the limit of %.15g", value, low ? "below" : "above",
                    low ? list->min : list->max);
    }
    for (size_t i = 0; i < list->count; i++)
        if (list->value[i] == value)
            return 0;
    if (list->count == MAX_VALUES)
        return fail(error, "the list holds more than %d values", MAX_VALUES);
    list->value[list->count++] = value;
    return 0;
}

/* To the decimal number of 15 digits that a user would have written: 0.05 + 2 * 0.15 is 0.35, not 0.35000000000000003. */
static double round_decimal(double value)
{
    char text[64];
    snprintf(text, sizeof text, "%.15g", value);
    return strtod(text, NULL);
}

static double real_at(const range *item, double begin, double step, int index)
{
    return round_decimal(item->rule == '*' ? begin * pow(step, index) : begin + step * index);
}

static int expand_reals(const range *item, real_list *list, const report *error)
{
    double begin, end, step;
    if (parse_real(item->begin, &begin, error) != 0)
        return -1;
    if (!item->is_progression)
        return append_real(list, begin, error);
    if (parse_real(item->end, &end, error) != 0 || parse_real(item->step, &step, error) != 0)
        return -1;
    if (!isfinite(begin) || !isfinite(end) || !isfinite(step))
        return fail(error, "the range %s..%s%c%s is not finite", item->begin, item->end, item->rule, item->step);
    if (begin > end)
        return fail(error, "%s..%s begins above its end", item->begin, item->end);
    if (item->rule == '*' && !(step > 1.0 && begin > 0.0))
        return fail(error, "%s..%s*%s needs a begin above 0 and a factor above 1", item->begin, item->end, item->step);
    if (item->rule == '+' && !(step > 0.0))
        return fail(error, "%s..%s+%s needs a step above 0", item->begin, item->end, item->step);
    for (int i = 0; i <= MAX_VALUES; i++) {
        double value = real_at(item, begin, step, i);
        /* Rounding of the decimal texts, not a miss of the user's: 1e-9 of a step. */
        if (fabs(value - end) <= 1e-9 * fmax(fabs(end), item->rule == '+' ? step : 0.0))
            return append_real(list, end, error);
        if (value > end) {
            return fail(error, "the range %s..%s%c%s misses its end; the nearest ends are %.15g and %.15g", item->begin,
                        item->end, item->rule, item->step, real_at(item, begin, step, i - 1), value);
        }
        if (append_real(list, value, error) != 0)
            return -1;
    }
    return fail(error, "the range %s..%s%c%s holds more than %d values", item->begin, item->end, item->rule, item->step,
                MAX_VALUES);
}

/* --- lists --- */

/* Calls `expand` for each item of the list. */
static int for_each_item(const char *text, int (*expand)(const range *, void *, const report *), void *list,
                         const report *error)
{
    for (const char *item = text;;) {
        const char *comma = strchr(item, ',');
        size_t length = comma ? (size_t)(comma - item) : strlen(item);
        range parsed;
        if (split_item(item, length, &parsed, error) != 0 || expand(&parsed, list, error) != 0)
            return -1;
        if (!comma)
            return 0;
        item = comma + 1;
    }
}

static int expand_integers_item(const range *item, void *list, const report *error)
{
    return expand_integers(item, list, error);
}

static int expand_reals_item(const range *item, void *list, const report *error)
{
    return expand_reals(item, list, error);
}

int sb_range_integers(const char *text, int64_t min, int64_t max, int64_t **values, size_t *count, char *error_text,
                      size_t error_size)
{
    report error = {error_text, error_size};
    integer_list list = {malloc(MAX_VALUES * sizeof(int64_t)), 0, min, max};
    *values = NULL;
    *count = 0;
    if (!list.value)
        return fail(&error, "out of memory");
    if (for_each_item(text, expand_integers_item, &list, &error) != 0) {
        free(list.value);
        return -1;
    }
    *values = list.value;
    *count = list.count;
    return 0;
}

int sb_range_reals(const char *text, double min, double max, double **values, size_t *count, char *error_text,
                   size_t error_size)
{
    report error = {error_text, error_size};
    real_list list = {malloc(MAX_VALUES * sizeof(double)), 0, min, max};
    *values = NULL;
    *count = 0;
    if (!list.value)
        return fail(&error, "out of memory");
    if (for_each_item(text, expand_reals_item, &list, &error) != 0) {
        free(list.value);
        return -1;
    }
    *values = list.value;
    *count = list.count;
    return 0;
}
