/* Parameter values: text in, checked numbers and canonical text out.
 *
 * Each value keeps its canonical text beside its number, so that equal values always read the same. A parameter that
 * was not given has its descriptor's default, except while the parameter that replaces it is set: then it is unset. */
#include "methods/params.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATH_TEXT = 1023, NUMBER_TEXT = 32, HASH_TEXT = 32 };

typedef struct param_value {
    char *text;    /* canonical; "" if unset */
    double number; /* REAL, INTEGER, and the index of a CHOICE */
    double *head;  /* one value per query head, or NULL */
    size_t heads;
    int given;
} param_value;

struct sparge_params {
    const sparge_method *method;
    param_value value[];
};

static char *copy_text(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

/* The shortest decimal text that reads back as the same number. */
static void format_number(double value, char text[NUMBER_TEXT])
{
    if (value == 0)
        value = 0; /* -0 and 0 are the same value */
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, NUMBER_TEXT, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    if (value == floor(value) && fabs(value) < 9e15)
        snprintf(text, NUMBER_TEXT, "%.0f", value);
}

static sparge_status check_number(const sparge_param_desc *desc, double value, sparge_error *error)
{
    char text[NUMBER_TEXT], low[NUMBER_TEXT], high[NUMBER_TEXT];
    format_number(value, text);
    format_number(desc->min, low);
    format_number(desc->max, high);
    if (!(value >= desc->min && value <= desc->max))
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "%s: %s is outside its range, %s to %s%s%s%s",
                           desc->name, text, low, high, desc->unit[0] ? " (" : "", desc->unit,
                           desc->unit[0] ? ")" : "");
    if (desc->type == SPARGE_PARAM_INTEGER && value != floor(value))
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "%s: %s is not a whole number", desc->name, text);
    return SPARGE_OK;
}

static sparge_status parse_number(const sparge_param_desc *desc, const char *text, double *value, sparge_error *error)
{
    char *end = NULL;
    errno = 0;
    *value = strtod(text, &end);
    int blank = text[0] == ' ' || (text[0] >= '\t' && text[0] <= '\r');
    if (end == text || *end != '\0' || blank || isnan(*value))
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "%s: '%s' is not a number", desc->name, text);
    return check_number(desc, *value, error);
}

static int choice_index(const char *choices, const char *text)
{
    size_t length = strlen(text);
    int index = 0;
    for (const char *at = choices; *at != '\0'; index++) {
        size_t word = strcspn(at, "|");
        if (word == length && strncmp(at, text, length) == 0)
            return index;
        at += word + (at[word] == '|');
    }
    return -1;
}

/* Parses into *number and *canonical (allocated). */
static sparge_status parse_value(const sparge_param_desc *desc, const char *text, double *number, char **canonical,
                                 sparge_error *error)
{
    char written[NUMBER_TEXT];
    *number = 0;
    const char *keep = text;
    if (desc->type == SPARGE_PARAM_CHOICE) {
        int index = choice_index(desc->choices, text);
        if (index < 0)
            return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "%s: '%s' is not one of %s", desc->name, text,
                               desc->choices);
        *number = index;
    } else if (desc->type == SPARGE_PARAM_PATH) {
        if (strlen(text) > MAX_PATH_TEXT)
            return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "%s: a path of %zu bytes is longer than %d",
                               desc->name, strlen(text), MAX_PATH_TEXT);
    } else {
        sparge_status status = parse_number(desc, text, number, error);
        if (status != SPARGE_OK)
            return status;
        format_number(*number, written);
        keep = written;
    }
    *canonical = copy_text(keep);
    return *canonical ? SPARGE_OK : sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY, "%s: out of memory", desc->name);
}

static void clear_value(param_value *value)
{
    free(value->text);
    free(value->head);
    *value = (param_value){0};
}

static sparge_status default_value(const sparge_param_desc *desc, param_value *value, sparge_error *error)
{
    *value = (param_value){.number = desc->type == SPARGE_PARAM_CHOICE ? -1 : 0};
    if (desc->default_value[0] != '\0')
        return parse_value(desc, desc->default_value, &value->number, &value->text, error);
    value->text = copy_text("");
    return value->text ? SPARGE_OK : sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY, "%s: out of memory", desc->name);
}

static size_t value_index(const sparge_params *params, const sparge_param_desc *desc)
{
    return (size_t)(desc - params->method->params);
}

static const param_value *find_value(const sparge_params *params, const char *name)
{
    const sparge_param_desc *desc = sparge_method_param_find(params->method, name);
    return desc ? &params->value[value_index(params, desc)] : NULL;
}

static sparge_status find_desc(const sparge_params *params, const char *name, const sparge_param_desc **desc,
                               sparge_error *error)
{
    *desc = sparge_method_param_find(params->method, name);
    if (*desc)
        return SPARGE_OK;
    char known[SPARGE_ERROR_TEXT] = "";
    size_t used = 0;
    for (size_t i = 0; i < params->method->param_count && used < sizeof known; i++)
        used +=
            (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", params->method->params[i].name);
    return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "method %s has no parameter '%s'; it has: %s",
                       params->method->name, name ? name : "(null)", known);
}

static sparge_params *allocate(const sparge_method *method)
{
    sparge_params *params = calloc(1, sizeof *params + method->param_count * sizeof params->value[0]);
    if (params)
        params->method = method;
    return params;
}

sparge_status sparge_params_create(const sparge_method *method, sparge_params **params)
{
    *params = NULL;
    if (!method)
        return SPARGE_ERROR_INVALID_ARGUMENT;
    sparge_params *made = allocate(method);
    if (!made)
        return SPARGE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < method->param_count; i++) {
        sparge_status status = default_value(&method->params[i], &made->value[i], NULL);
        if (status != SPARGE_OK) {
            sparge_params_destroy(made);
            /* A default that its own descriptor rejects is a bug of the table. */
            return status == SPARGE_ERROR_INVALID_ARGUMENT ? SPARGE_ERROR_INTERNAL : status;
        }
    }
    *params = made;
    return SPARGE_OK;
}

sparge_status sparge_params_clone(const sparge_params *params, sparge_params **copy)
{
    *copy = NULL;
    sparge_params *made = allocate(params->method);
    if (!made)
        return SPARGE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < params->method->param_count; i++) {
        const param_value *from = &params->value[i];
        param_value *to = &made->value[i];
        to->number = from->number;
        to->given = from->given;
        to->text = copy_text(from->text);
        if (from->head) {
            to->head = malloc(from->heads * sizeof *to->head);
            if (to->head)
                memcpy(to->head, from->head, from->heads * sizeof *to->head);
            to->heads = from->heads;
        }
        if (!to->text || (from->head && !to->head)) {
            sparge_params_destroy(made);
            return SPARGE_ERROR_OUT_OF_MEMORY;
        }
    }
    *copy = made;
    return SPARGE_OK;
}

void sparge_params_destroy(sparge_params *params)
{
    if (!params)
        return;
    for (size_t i = 0; i < params->method->param_count; i++)
        clear_value(&params->value[i]);
    free(params);
}

static sparge_status drop_heads(sparge_params *params, sparge_error *error)
{
    for (size_t i = 0; i < params->method->param_count; i++) {
        if (!params->value[i].head)
            continue;
        clear_value(&params->value[i]);
        sparge_status status = default_value(&params->method->params[i], &params->value[i], error);
        if (status != SPARGE_OK)
            return status;
    }
    return SPARGE_OK;
}

/* Replaces all per-head values by those of the file, or by none; all or nothing. */
static sparge_status read_file(sparge_params *params, const char *path, sparge_error *error)
{
    sparge_params *next = NULL;
    sparge_status status = sparge_params_clone(params, &next);
    if (status != SPARGE_OK)
        return sparge_fail(error, status, "params: out of memory");
    status = drop_heads(next, error);
    if (status == SPARGE_OK && path[0] != '\0')
        status = sparge_params_read_file(next, path, error);
    if (status == SPARGE_OK)
        for (size_t i = 0; i < params->method->param_count; i++) {
            param_value swap = params->value[i];
            params->value[i] = next->value[i];
            next->value[i] = swap;
        }
    sparge_params_destroy(next);
    return status;
}

sparge_status sparge_params_set(sparge_params *params, const char *name, const char *value, sparge_error *error)
{
    const sparge_param_desc *desc;
    sparge_status status = find_desc(params, name, &desc, error);
    if (status != SPARGE_OK)
        return status;
    if (!value)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "%s: no value", name);
    param_value next = {.given = value[0] != '\0'};
    status = next.given ? parse_value(desc, value, &next.number, &next.text, error) : default_value(desc, &next, error);
    if (status == SPARGE_OK && strcmp(desc->name, SPARGE_PARAMS_FILE) == 0)
        status = read_file(params, value, error);
    if (status != SPARGE_OK) {
        clear_value(&next);
        return status;
    }
    param_value *slot = &params->value[value_index(params, desc)];
    clear_value(slot);
    *slot = next;
    return SPARGE_OK;
}

/* FNV-1a over the values' bytes: equal lists give equal text. */
static void format_hash(const double *values, size_t count, char text[HASH_TEXT])
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        for (int byte = 0; byte < 8; byte++)
            hash = (hash ^ ((bits >> (8 * byte)) & 0xff)) * UINT64_C(0x100000001b3);
    }
    snprintf(text, HASH_TEXT, "per-head:%016" PRIx64, hash);
}

sparge_status sparge_params_set_heads(sparge_params *params, const char *name, const double *values, size_t count,
                                      sparge_error *error)
{
    const sparge_param_desc *desc;
    sparge_status status = find_desc(params, name, &desc, error);
    if (status != SPARGE_OK)
        return status;
    if (!desc->per_head)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "%s: takes one value for all heads, not one per head",
                           name);
    if (!values || count == 0 || count > INT32_MAX)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "%s: %zu per-head values, need 1 to %d", name,
                           values ? count : 0, INT32_MAX);
    for (size_t i = 0; i < count; i++) {
        sparge_error why = {0};
        if (check_number(desc, values[i], &why) != SPARGE_OK)
            return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "head %zu: %s", i, why.text);
    }
    char hash[HASH_TEXT];
    param_value next = {.heads = count, .given = 1, .head = malloc(count * sizeof *next.head)};
    if (next.head) {
        for (size_t i = 0; i < count; i++)
            next.head[i] = values[i] == 0 ? 0 : values[i]; /* -0 and 0 are the same value */
        format_hash(next.head, count, hash);
        next.text = copy_text(hash);
    }
    if (!next.text) {
        clear_value(&next);
        return sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY, "%s: out of memory", name);
    }
    param_value *slot = &params->value[value_index(params, desc)];
    clear_value(slot);
    *slot = next;
    return SPARGE_OK;
}

const sparge_method *sparge_params_method(const sparge_params *params)
{
    return params->method;
}

static int is_given(const sparge_params *params, const char *name)
{
    const param_value *value = find_value(params, name);
    return value && value->given;
}

int sparge_params_is_set(const sparge_params *params, const char *name)
{
    const char *text = sparge_params_get(params, name);
    return text && text[0] != '\0';
}

const char *sparge_params_get(const sparge_params *params, const char *name)
{
    const param_value *value = find_value(params, name);
    if (!value)
        return NULL;
    const char *replaced_by = sparge_method_param_find(params->method, name)->replaced_by;
    return !value->given && replaced_by && is_given(params, replaced_by) ? "" : value->text;
}

double sparge_params_real(const sparge_params *params, const char *name)
{
    const param_value *value = find_value(params, name);
    return value ? value->number : 0;
}

int64_t sparge_params_integer(const sparge_params *params, const char *name)
{
    return (int64_t)sparge_params_real(params, name);
}

int sparge_params_choice(const sparge_params *params, const char *name)
{
    const param_value *value = find_value(params, name);
    return value ? (int)value->number : -1;
}

const char *sparge_params_text(const sparge_params *params, const char *name)
{
    return sparge_params_get(params, name);
}

sparge_status sparge_params_per_head(const sparge_params *params, const char *name, int32_t heads_q,
                                     sparge_per_head *out, sparge_error *error)
{
    const param_value *value = find_value(params, name);
    *out = (sparge_per_head){.uniform = value ? value->number : 0};
    if (!value || !value->head)
        return SPARGE_OK;
    if (value->heads != (size_t)heads_q)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "%s: %zu per-head values for %d query heads", name,
                           value->heads, heads_q);
    out->head = malloc(value->heads * sizeof *out->head);
    if (!out->head)
        return sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY, "%s: out of memory", name);
    memcpy(out->head, value->head, value->heads * sizeof *out->head);
    return SPARGE_OK;
}
