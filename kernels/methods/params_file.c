/* Files of per-head parameters: JSON, read strictly.
 *
 *   { "schema": "sparge-params", "version": 1, "method": "sparge-int8-fp8", "heads": 4,
 *     "provenance": { ... },                                  optional, for people; never read
 *     "values": { "tau": [0.97, 0.98, 0.98, 0.95], "lambda": [-10.5, "-inf", "-inf", -7] } }
 *
 * A key that does not belong, a list of another length, a value outside its range or a file for another method is an
 * error: tuned values that silently land on the wrong heads are worse than none. */
#include "methods/params.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char schema[] = "sparge-params";
enum { VERSION = 1 };

static sparge_status check_keys(const json_t *root, const char *path, sparge_error *error)
{
    static const char *const known[] = {"schema", "version", "method", "heads", "values", "provenance"};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)root, key, value)
    {
        size_t i = 0;
        while (i < sizeof known / sizeof known[0] && strcmp(key, known[i]) != 0)
            i++;
        if (i == sizeof known / sizeof known[0])
            return sparge_fail(error, SPARGE_ERROR_IO, "%s: unknown key \"%s\"", path, key);
    }
    return SPARGE_OK;
}

static sparge_status check_header(const json_t *root, const sparge_method *method, const char *path, size_t *heads,
                                  sparge_error *error)
{
    const char *found = json_string_value(json_object_get(root, "schema"));
    if (!found || strcmp(found, schema) != 0)
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: \"schema\" is not \"%s\"", path, schema);
    const json_t *version = json_object_get(root, "version");
    if (!json_is_integer(version) || json_integer_value(version) != VERSION)
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: \"version\" is not %d", path, VERSION);
    found = json_string_value(json_object_get(root, "method"));
    if (!found || strcmp(found, method->name) != 0)
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: \"method\" is %s%s, not %s", path, found ? "" : "missing",
                           found ? found : "", method->name);
    const json_t *count = json_object_get(root, "heads");
    if (!json_is_integer(count) || json_integer_value(count) < 1 || json_integer_value(count) > INT32_MAX)
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: \"heads\" is not a number of heads from 1 to %d", path,
                           INT32_MAX);
    *heads = (size_t)json_integer_value(count);
    const json_t *provenance = json_object_get(root, "provenance");
    if (provenance && !json_is_object(provenance))
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: \"provenance\" is not an object", path);
    return check_keys(root, path, error);
}

/* A JSON number, or the strings "inf" and "-inf", which JSON has no numbers for. */
static int read_number(const json_t *value, double *number)
{
    const char *text = json_string_value(value);
    if (text && strcmp(text, "inf") == 0)
        *number = INFINITY;
    else if (text && strcmp(text, "-inf") == 0)
        *number = -INFINITY;
    else if (json_is_number(value))
        *number = json_number_value(value);
    else
        return 0;
    return 1;
}

static sparge_status read_list(sparge_params *params, const char *name, const json_t *list, size_t heads,
                               double *scratch, const char *path, sparge_error *error)
{
    if (!json_is_array(list) || json_array_size(list) != heads)
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: \"%s\" is not a list of %zu values", path, name, heads);
    for (size_t i = 0; i < heads; i++)
        if (!read_number(json_array_get(list, i), &scratch[i]))
            return sparge_fail(error, SPARGE_ERROR_IO, "%s: \"%s\", head %zu: not a number", path, name, i);
    sparge_error why = {0};
    sparge_status status = sparge_params_set_heads(params, name, scratch, heads, &why);
    return status == SPARGE_OK ? SPARGE_OK : sparge_fail(error, status, "%s: %s", path, why.text);
}

static sparge_status read_values(sparge_params *params, json_t *root, const char *path, sparge_error *error)
{
    size_t heads = 0;
    sparge_status status = check_header(root, sparge_params_method(params), path, &heads, error);
    if (status != SPARGE_OK)
        return status;
    json_t *values = json_object_get(root, "values");
    if (!json_is_object(values) || json_object_size(values) == 0)
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: \"values\" is not an object with at least one parameter", path);
    /* The lists are in memory, so a count that does not match one of them is caught before `heads` sizes anything. */
    const json_t *first = json_object_iter_value(json_object_iter(values));
    if (json_array_size(first) != heads)
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: \"%s\" is not a list of %zu values", path,
                           json_object_iter_key(json_object_iter(values)), heads);
    double *scratch = malloc(heads * sizeof *scratch);
    if (!scratch)
        return sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY, "%s: out of memory", path);
    const char *name;
    json_t *list;
    json_object_foreach(values, name, list)
    {
        status = read_list(params, name, list, heads, scratch, path, error);
        if (status != SPARGE_OK)
            break;
    }
    free(scratch);
    return status;
}

sparge_status sparge_params_read_file(sparge_params *params, const char *path, sparge_error *error)
{
    json_error_t why;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: %s (line %d)", path, why.text, why.line);
    sparge_status status = json_is_object(root) ? read_values(params, root, path, error)
                                                : sparge_fail(error, SPARGE_ERROR_IO, "%s: not a JSON object", path);
    json_decref(root);
    return status;
}
