/* Filters over result rows. A value that nothing in the file has is a mistake (usually of the typing kind), not an empty
 * result. */
#include "cli/where.h"

#include <stdlib.h>
#include <string.h>

#include "cli/ranges.h"
#include "suggest.h"

static const char *workload(const rs_row *row)
{
    return row->point.workload;
}
static const char *order(const rs_row *row)
{
    return row->point.order;
}
static const char *method(const rs_row *row)
{
    return row->point.method;
}
static const char *backend(const rs_row *row)
{
    return row->point.backend;
}
static const char *device(const rs_row *row)
{
    return row->point.device;
}
static const char *dtype(const rs_row *row)
{
    return row->point.dtype;
}
static const char *causal(const rs_row *row)
{
    return row->point.causal;
}
static const char *status(const rs_row *row)
{
    return rs_outcome_name(row->outcome);
}
static int64_t seqlen(const rs_row *row)
{
    return row->point.seqlen_q;
}
static int64_t heads(const rs_row *row)
{
    return row->point.heads_q;
}
static int64_t batch(const rs_row *row)
{
    return row->point.batch;
}
static int64_t head_dim(const rs_row *row)
{
    return row->point.head_dim;
}

/* A key reads text or a number. */
typedef struct key {
    const char *name;
    const char *(*text)(const rs_row *row);
    int64_t (*number)(const rs_row *row);
} key;

static const key keys[] = {
    {"workload", workload, NULL}, {"order", order, NULL}, {"method", method, NULL}, {"backend", backend, NULL},
    {"device", device, NULL},     {"dtype", dtype, NULL}, {"causal", causal, NULL}, {"status", status, NULL},
    {"seqlen", NULL, seqlen},     {"heads", NULL, heads}, {"batch", NULL, batch},   {"head-dim", NULL, head_dim},
};
enum { KEYS = sizeof keys / sizeof *keys };

static const key *find_key(const char *name, size_t length)
{
    for (size_t i = 0; i < KEYS; i++)
        if (strlen(keys[i].name) == length && memcmp(keys[i].name, name, length) == 0)
            return &keys[i];
    return NULL;
}

/* Marks in accepted[] the rows whose number is in the list. */
static int match_numbers(const char *filter, const key *by, const char *values, const an_rows *rows, char *accepted)
{
    int64_t *value = NULL;
    size_t count = 0;
    char text[256];
    if (sb_range_integers(values, 1, INT64_MAX, &value, &count, text, sizeof text) != 0)
        return sb_fail(SB_EXIT_USAGE, "--where '%s': %s", filter, text);
    int code = SB_EXIT_OK;
    for (size_t i = 0; i < count && code == SB_EXIT_OK; i++) {
        int found = 0;
        for (size_t j = 0; j < rows->count; j++)
            if (by->number(&rows->row[j].row) == value[i])
                found = accepted[j] = 1;
        if (!found)
            code = sb_fail(SB_EXIT_USAGE, "--where '%s': no measurement has %s %lld", filter, by->name,
                           (long long)value[i]);
    }
    free(value);
    return code;
}

/* Marks in accepted[] the rows whose text is `value` (`length` bytes). */
static int match_text(const char *filter, const key *by, const char *value, size_t length, const an_rows *rows,
                      char *accepted)
{
    char word[256];
    const char *best = NULL;
    int found = 0;
    if (length == 0 || length >= sizeof word)
        return sb_fail(SB_EXIT_USAGE, "--where '%s': a value is empty or longer than 255 bytes", filter);
    memcpy(word, value, length);
    word[length] = '\0';
    if (by->text == causal && strcmp(word, "causal") == 0) /* the same as at --causal */
        strcpy(word, "bottom-right");
    for (size_t i = 0; i < rows->count; i++) {
        const char *have = by->text(&rows->row[i].row);
        if (!have)
            continue;
        if (strcmp(have, word) == 0)
            found = accepted[i] = 1;
        best = sb_nearer(word, best, have);
    }
    if (found)
        return SB_EXIT_OK;
    if (best)
        return sb_fail(SB_EXIT_USAGE, "--where '%s': no measurement has %s '%s'; did you mean '%s'?", filter, by->name,
                       word, best);
    return sb_fail(SB_EXIT_USAGE, "--where '%s': no measurement has %s '%s'", filter, by->name, word);
}

static int match(const char *filter, const an_rows *rows, char *accepted)
{
    size_t length = strcspn(filter, "=");
    const key *by = find_key(filter, length);
    if (filter[length] != '=')
        return sb_fail(SB_EXIT_USAGE, "--where '%s' is not KEY=VALUE", filter);
    if (!by)
        return sb_fail(SB_EXIT_USAGE, "--where '%s': the key is none of " SB_WHERE_KEYS, filter);
    const char *values = filter + length + 1;
    if (by->number)
        return match_numbers(filter, by, values, rows, accepted);
    for (;;) {
        size_t bytes = strcspn(values, ",");
        int code = match_text(filter, by, values, bytes, rows, accepted);
        if (code != SB_EXIT_OK || values[bytes] == '\0')
            return code;
        values += bytes + 1;
    }
}

int sb_where_apply(const sb_arguments *arguments, const an_rows *rows, an_rows *kept)
{
    size_t filters = sb_argument_count(arguments, "where");
    char *keep = malloc(rows->count + 1);
    char *accepted = malloc(rows->count + 1);
    int code = SB_EXIT_OK;
    kept->count = 0;
    kept->row = calloc(rows->count + 1, sizeof *kept->row);
    if (!keep || !accepted || !kept->row) {
        code = sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for %zu measurements", rows->count);
    } else {
        memset(keep, 1, rows->count + 1);
        for (size_t i = 0; i < filters && code == SB_EXIT_OK; i++) {
            memset(accepted, 0, rows->count + 1);
            code = match(sb_argument_at(arguments, "where", i), rows, accepted);
            for (size_t j = 0; j < rows->count; j++)
                keep[j] = keep[j] && accepted[j];
        }
        for (size_t j = 0; j < rows->count && code == SB_EXIT_OK; j++)
            if (keep[j])
                kept->row[kept->count++] = rows->row[j];
    }
    free(keep);
    free(accepted);
    if (code != SB_EXIT_OK) {
        free(kept->row);
        kept->row = NULL;
    }
    return code;
}
