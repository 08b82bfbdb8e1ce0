/* Labels: a method's name and those of its parameters that differ within the set, "sparge-int8-fp8 tau=0.9". */
#include "rows.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* The parameters of a row as a JSON object, and whether a parameter of its method varies: one object per method,
 * shared by its rows, holding the names that do. */
typedef struct row_parameters {
    json_t *values;
    json_t *varying;
} row_parameters;

static int equal_or_both_missing(const json_t *a, const json_t *b)
{
    return (!a && !b) || json_equal(a, b); /* json_equal is false if one is NULL */
}

/* Adds to `varying` the names whose values differ between two rows of one method. */
static int add_differences(json_t *varying, json_t *a, json_t *b)
{
    json_t *const sides[] = {a, b};
    for (size_t side = 0; side < 2; side++) {
        const char *name;
        json_t *value;
        json_object_foreach(sides[side], name, value)
        {
            if (!equal_or_both_missing(json_object_get(a, name), json_object_get(b, name)) &&
                json_object_set_new(varying, name, json_true()) != 0)
                return -1;
        }
    }
    return 0;
}

static int find_varying(const an_rows *rows, row_parameters *parameters)
{
    json_t *methods = json_object(); /* method -> index of its first row */
    if (!methods)
        return -1;
    int status = 0;
    for (size_t i = 0; i < rows->count && status == 0; i++) {
        const char *method = rows->row[i].row.point.method;
        const json_t *known = json_object_get(methods, method);
        if (!known) {
            parameters[i].varying = json_object();
            if (!parameters[i].varying || json_object_set_new(methods, method, json_integer((json_int_t)i)) != 0)
                status = -1;
            continue;
        }
        const row_parameters *first = &parameters[json_integer_value(known)];
        parameters[i].varying = json_incref(first->varying);
        status = add_differences(first->varying, first->values, parameters[i].values);
    }
    json_decref(methods);
    return status;
}

/* A string as it is, anything else as JSON. Caller frees. */
static char *value_text(const json_t *value)
{
    return json_is_string(value) ? strdup(json_string_value(value)) : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
}

static char *label_of(const char *method, const row_parameters *parameters)
{
    char *label = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&label, &bytes);
    if (!out)
        return NULL;
    fputs(method, out);
    int failed = 0;
    const char *name;
    json_t *value;
    json_object_foreach(parameters->values, name, value)
    {
        if (!json_object_get(parameters->varying, name))
            continue;
        char *text = value_text(value);
        if (!text)
            failed = 1;
        else if (*text) /* unset */
            fprintf(out, " %s=%s", name, text);
        free(text);
    }
    failed |= ferror(out) != 0;
    failed |= fclose(out) != 0;
    if (failed) {
        free(label);
        return NULL;
    }
    return label;
}

int an_rows_set_labels(an_rows *rows)
{
    if (rows->count == 0)
        return 0;
    row_parameters *parameters = calloc(rows->count, sizeof *parameters);
    if (!parameters)
        return -1;
    int status = 0;
    for (size_t i = 0; i < rows->count && status == 0; i++) {
        const char *text = rows->row[i].row.point.parameters;
        parameters[i].values = text ? json_loads(text, 0, NULL) : NULL;
        if (!json_is_object(parameters[i].values)) { /* not what the store writes: no parameters to show */
            json_decref(parameters[i].values);
            parameters[i].values = json_object();
        }
        if (!parameters[i].values)
            status = -1;
    }
    if (status == 0)
        status = find_varying(rows, parameters);
    for (size_t i = 0; i < rows->count && status == 0; i++) {
        free(rows->row[i].label);
        rows->row[i].label = label_of(rows->row[i].row.point.method, &parameters[i]);
        if (!rows->row[i].label)
            status = -1;
    }
    for (size_t i = 0; i < rows->count; i++) {
        json_decref(parameters[i].values);
        json_decref(parameters[i].varying);
    }
    free(parameters);
    return status;
}
