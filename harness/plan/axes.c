/* Options to axes: every value is checked here or, for a parameter, by setting it on its method once. */
#include "plan/axes.h"

#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ranges.h"
#include "cli/text.h"
#include "plan/zip.h"
#include "suggest.h"

enum { MAX_TOKENS_LOG2 = 40, MAX_HEADS = 1 << 16 };

static int out_of_memory(void)
{
    return sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for the list of points");
}

static sb_axis *append_axis(sb_axes *axes)
{
    sb_axis *axis = realloc(axes->axis, (axes->count + 1) * sizeof *axis);
    if (!axis)
        return NULL;
    axes->axis = axis;
    axis += axes->count;
    memset(axis, 0, sizeof *axis);
    axis->tied_to = axes->count++;
    return axis;
}

/* --- methods --- */

static int select_method(sb_axes *axes, const sparge_method *method)
{
    for (size_t i = 0; i < axes->method_count; i++)
        if (axes->method[i] == method)
            return SB_EXIT_OK;
    const sparge_method **list = realloc(axes->method, (axes->method_count + 1) * sizeof *list);
    if (!list)
        return out_of_memory();
    axes->method = list;
    list[axes->method_count++] = method;
    return SB_EXIT_OK;
}

static int unknown_method(const char *option, const char *name)
{
    const char *best = NULL;
    for (size_t i = 0; i < sparge_method_count(); i++)
        best = sb_nearer(name, best, sparge_method_name(sparge_method_at(i)));
    if (best)
        return sb_fail(SB_EXIT_USAGE, "%s: unknown method '%s'; did you mean '%s'?", option, name, best);
    return sb_fail(SB_EXIT_USAGE, "%s: unknown method '%s'; 'sparge-bench list methods' names all", option, name);
}

static int select_methods(sb_axes *axes, const char *list)
{
    char **name;
    size_t count;
    if (sb_text_split(list, &name, &count) != 0)
        return out_of_memory();
    int code = SB_EXIT_OK;
    for (size_t i = 0; i < count && code == SB_EXIT_OK; i++) {
        const sparge_method *method = sparge_method_find(name[i]);
        if (method) {
            code = select_method(axes, method);
        } else if (strcmp(name[i], "all") == 0) {
            axes->all_methods = 1;
            for (size_t m = 0; m < sparge_method_count() && code == SB_EXIT_OK; m++)
                code = select_method(axes, sparge_method_at(m));
        } else {
            code = unknown_method("--method", name[i]);
        }
    }
    free(name);
    return code;
}

/* --- common axes --- */

static int check_workload_name(const char *name)
{
    static const char *const generators[] = {"random", "uniform", "structured"};
    const char *best = NULL;
    for (size_t i = 0; i < sizeof generators / sizeof *generators; i++) {
        if (strcmp(name, generators[i]) == 0)
            return SB_EXIT_OK;
        best = sb_nearer(name, best, generators[i]);
    }
    if (wl_preset_find(name) || strchr(name, '/') || strstr(name, ".safetensors"))
        return SB_EXIT_OK; /* of files, wl_resolve says what is wrong */
    for (size_t i = 0; i < wl_preset_count(); i++)
        best = sb_nearer(name, best, wl_preset_at(i)->name);
    if (best)
        return sb_fail(SB_EXIT_USAGE, "--workload: unknown workload '%s'; did you mean '%s'?", name, best);
    return sb_fail(SB_EXIT_USAGE,
                   "--workload: unknown workload '%s'; 'sparge-bench list workloads' names all, captured files end in "
                   ".safetensors",
                   name);
}

/* Appends the workloads of one list to the axis. */
static int add_workloads(sb_axis *axis, const char *list)
{
    char **name;
    size_t count;
    if (sb_text_split(list, &name, &count) != 0)
        return out_of_memory();
    int code = SB_EXIT_OK;
    char **text = realloc(axis->text, (axis->count + count) * sizeof *text);
    if (text)
        axis->text = text;
    else
        code = out_of_memory();
    for (size_t i = 0; i < count && code == SB_EXIT_OK; i++) {
        code = check_workload_name(name[i]);
        if (code == SB_EXIT_OK && !(text[axis->count] = strdup(name[i])))
            code = out_of_memory();
        axis->count += code == SB_EXIT_OK;
    }
    free(name);
    return code;
}

static int number_axis(const sb_arguments *arguments, sb_axis *axis, int64_t min, int64_t max)
{
    const char *text = sb_argument(arguments, axis->name);
    char error[256];
    if (!text) {
        axis->number = calloc(1, sizeof *axis->number);
        axis->count = 1;
        return axis->number ? SB_EXIT_OK : out_of_memory();
    }
    axis->given = 1;
    if (sb_range_integers(text, min, max, &axis->number, &axis->count, error, sizeof error) != 0)
        return sb_fail(SB_EXIT_USAGE, "--%s %s: %s", axis->name, text, error);
    return SB_EXIT_OK;
}

/* -1 for a name that is none. */
static int causal_of(const char *name)
{
    static const sparge_causal values[] = {SPARGE_CAUSAL_NONE, SPARGE_CAUSAL_TOP_LEFT, SPARGE_CAUSAL_BOTTOM_RIGHT};
    if (strcmp(name, "causal") == 0)
        return SPARGE_CAUSAL_BOTTOM_RIGHT;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (strcmp(name, sparge_causal_name(values[i])) == 0)
            return (int)values[i];
    return -1;
}

static int parse_causal(const char *name, int64_t *value)
{
    *value = causal_of(name);
    if (*value >= 0)
        return SB_EXIT_OK;
    return sb_fail(SB_EXIT_USAGE, "--causal: '%s' is none of none, top-left, bottom-right, causal (= bottom-right)",
                   name);
}

static int parse_dtype(const char *name, int64_t *value)
{
    *value = SPARGE_F16;
    if (strcmp(name, "bf16") == 0)
        *value = SPARGE_BF16;
    else if (strcmp(name, "f16") != 0)
        return sb_fail(SB_EXIT_USAGE, "--dtype: '%s' is neither f16 nor bf16", name);
    return SB_EXIT_OK;
}

static int parse_order(const char *name, int64_t *value)
{
    wl_order order;
    sparge_error error;
    if (wl_order_parse(name, &order, &error) != SPARGE_OK)
        return sb_fail(SB_EXIT_USAGE, "--order: %s", error.text);
    *value = (int64_t)order;
    return SB_EXIT_OK;
}

/* An axis of enumerated names; `absent` stands for the option not given. */
static int name_axis(const sb_arguments *arguments, sb_axis *axis, int64_t absent,
                     int (*parse)(const char *, int64_t *))
{
    const char *text = sb_argument(arguments, axis->name);
    char **name = NULL;
    size_t count = 1;
    if (text && sb_text_split(text, &name, &count) != 0)
        return out_of_memory();
    axis->given = text != NULL;
    axis->number = calloc(count, sizeof *axis->number);
    int code = axis->number ? SB_EXIT_OK : out_of_memory();
    for (size_t i = 0; i < count && code == SB_EXIT_OK; i++) {
        axis->number[i] = absent;
        if (text)
            code = parse(name[i], &axis->number[i]);
        axis->count = i + 1;
    }
    free(name);
    return code;
}

static int parse_common(const sb_arguments *arguments, sb_axes *axes)
{
    static const char *const names[SB_COMMON_AXES] = {"workload", "order", "seqlen", "heads", "batch",
                                                      "head-dim", "dtype", "causal", "seed"};
    for (int i = 0; i < SB_COMMON_AXES; i++) {
        sb_axis *axis = append_axis(axes);
        if (!axis)
            return out_of_memory();
        snprintf(axis->name, sizeof axis->name, "%s", names[i]);
    }
    sb_axis *axis = axes->axis;
    size_t lists = sb_argument_count(arguments, "workload");
    int code = lists ? SB_EXIT_OK : add_workloads(&axis[SB_AXIS_WORKLOAD], sb_argument(arguments, "workload"));
    for (size_t i = 0; i < lists && code == SB_EXIT_OK; i++)
        code = add_workloads(&axis[SB_AXIS_WORKLOAD], sb_argument_at(arguments, "workload", i));
    axis[SB_AXIS_WORKLOAD].given = 1;
    if (code == SB_EXIT_OK)
        code = name_axis(arguments, &axis[SB_AXIS_ORDER], WL_ORDER_ROW, parse_order);
    if (code == SB_EXIT_OK)
        code = number_axis(arguments, &axis[SB_AXIS_SEQLEN], 1, (int64_t)1 << MAX_TOKENS_LOG2);
    if (code == SB_EXIT_OK)
        code = number_axis(arguments, &axis[SB_AXIS_HEADS], 1, MAX_HEADS);
    if (code == SB_EXIT_OK)
        code = number_axis(arguments, &axis[SB_AXIS_BATCH], 1, MAX_HEADS);
    if (code == SB_EXIT_OK)
        code = number_axis(arguments, &axis[SB_AXIS_HEAD_DIM], 1, SPARGE_MAX_HEAD_DIM);
    if (code == SB_EXIT_OK)
        code = name_axis(arguments, &axis[SB_AXIS_DTYPE], -1, parse_dtype);
    if (code == SB_EXIT_OK)
        code = name_axis(arguments, &axis[SB_AXIS_CAUSAL], -1, parse_causal);
    if (code == SB_EXIT_OK)
        code = number_axis(arguments, &axis[SB_AXIS_SEED], 0, INT64_MAX);
    return code;
}

/* --- parameters --- */

/* The selected method of "METHOD.param" or the only one that has "param"; *param is the descriptor. */
static int find_parameter(const sb_axes *axes, const char *name, const sparge_method **method,
                          const sparge_param_desc **param)
{
    const char *dot = strchr(name, '.');
    *method = NULL;
    *param = NULL;
    if (dot) {
        char owner[64];
        snprintf(owner, sizeof owner, "%.*s", (int)(dot - name), name);
        for (size_t i = 0; i < axes->method_count; i++)
            if (strcmp(sparge_method_name(axes->method[i]), owner) == 0)
                *method = axes->method[i];
        if (!*method && !sparge_method_find(owner))
            return unknown_method("--set", owner);
        if (!*method)
            return sb_fail(SB_EXIT_USAGE, "--set %s: the method '%s' is not selected by --method", name, owner);
        *param = sparge_method_param_find(*method, dot + 1);
    }
    for (size_t i = 0; i < axes->method_count && !dot; i++) {
        const sparge_param_desc *found = sparge_method_param_find(axes->method[i], name);
        if (found && *param)
            return sb_fail(SB_EXIT_USAGE, "--set %s: both '%s' and '%s' have this parameter; write %s.%s or %s.%s",
                           name, sparge_method_name(*method), sparge_method_name(axes->method[i]),
                           sparge_method_name(*method), name, sparge_method_name(axes->method[i]), name);
        if (found) {
            *param = found;
            *method = axes->method[i];
        }
    }
    if (*param)
        return SB_EXIT_OK;
    sb_text known = {0};
    for (size_t i = 0; i < axes->method_count; i++)
        for (size_t p = 0; (!dot || axes->method[i] == *method) && p < sparge_method_param_count(axes->method[i]); p++)
            sb_text_add(&known, "%s%s.%s", known.length ? ", " : "", sparge_method_name(axes->method[i]),
                        sparge_method_param_at(axes->method[i], p)->name);
    char *list = sb_text_take(&known);
    int code = sb_fail(SB_EXIT_USAGE, "--set %s: no selected method has this parameter; there are: %s", name,
                       list && *list ? list : "none");
    free(list);
    return code;
}

/* A value as it is handed to sparge_params_set: ranges and k, m, g are resolved, everything else stays as written. */
static int add_values(sb_axis *axis, const sparge_param_desc *param, const char *item, const char *option)
{
    char error[256], digits[64];
    int64_t *integers = NULL;
    double *reals = NULL;
    size_t count = 1;
    int is_range = strstr(item, "..") != NULL;
    int failed = 0;
    if (param->type == SPARGE_PARAM_INTEGER && item[0] != '\0')
        failed = sb_range_integers(item, INT64_MIN, INT64_MAX, &integers, &count, error, sizeof error);
    else if (param->type == SPARGE_PARAM_REAL && is_range)
        failed = sb_range_reals(item, -INFINITY, INFINITY, &reals, &count, error, sizeof error);
    if (failed)
        return sb_fail(SB_EXIT_USAGE, "--set %s: %s", option, error);
    char **text = realloc(axis->text, (axis->count + count) * sizeof *text);
    int code = text ? SB_EXIT_OK : out_of_memory();
    if (text)
        axis->text = text;
    for (size_t i = 0; i < count && code == SB_EXIT_OK; i++) {
        if (integers)
            snprintf(digits, sizeof digits, "%lld", (long long)integers[i]);
        else if (reals)
            snprintf(digits, sizeof digits, "%.15g", reals[i]);
        text[axis->count] = strdup(integers || reals ? digits : item);
        if (!text[axis->count])
            code = out_of_memory();
        axis->count += code == SB_EXIT_OK;
    }
    free(integers);
    free(reals);
    return code;
}

/* Parameters are stored as JSON, which holds no other bytes. */
static int is_utf8(const char *text)
{
    json_t *string = json_string(text);
    int is_text = string != NULL;
    json_decref(string);
    return is_text;
}

/* The values must be acceptable one by one; whether they fit each other is a matter of the point. */
static int check_values(const sb_axis *axis)
{
    sparge_params *params = NULL;
    sparge_error error;
    if (sparge_params_create(axis->method, &params) != SPARGE_OK)
        return out_of_memory();
    int code = SB_EXIT_OK;
    for (size_t i = 0; i < axis->count && code == SB_EXIT_OK; i++)
        if (!is_utf8(axis->text[i]))
            code = sb_fail(SB_EXIT_USAGE, "--set %s=%s: the value is not UTF-8", axis->name, axis->text[i]);
        else if (sparge_params_set(params, axis->param, axis->text[i], &error) != SPARGE_OK)
            code = sb_fail(SB_EXIT_USAGE, "--set %s=%s: %s", axis->name, axis->text[i], error.text);
    sparge_params_destroy(params);
    return code;
}

static int add_parameter(sb_axes *axes, const char *option)
{
    const char *equals = strchr(option, '=');
    char name[128];
    if (!equals || equals == option || (size_t)(equals - option) >= sizeof name)
        return sb_fail(SB_EXIT_USAGE, "--set %s: expected [METHOD.]param=value,...", option);
    snprintf(name, sizeof name, "%.*s", (int)(equals - option), option);
    const sparge_method *method;
    const sparge_param_desc *param;
    int code = find_parameter(axes, name, &method, &param);
    if (code != SB_EXIT_OK)
        return code;
    for (size_t i = SB_COMMON_AXES; i < axes->count; i++)
        if (axes->axis[i].method == method && strcmp(axes->axis[i].param, param->name) == 0)
            return sb_fail(SB_EXIT_USAGE, "--set %s: %s is set twice; write its values as one list", option,
                           axes->axis[i].name);
    sb_axis *axis = append_axis(axes);
    char **item;
    size_t count;
    if (!axis || sb_text_split(equals + 1, &item, &count) != 0)
        return out_of_memory();
    snprintf(axis->name, sizeof axis->name, "%s.%s", sparge_method_name(method), param->name);
    axis->method = method;
    axis->param = param->name;
    axis->given = 1;
    for (size_t i = 0; i < count && code == SB_EXIT_OK; i++)
        code = add_values(axis, param, item[i], option);
    free(item);
    return code == SB_EXIT_OK ? check_values(axis) : code;
}

static int parse_compat(const sb_arguments *arguments, sb_axes *axes)
{
    const char *compat = sb_argument(arguments, "compat");
    if (!compat)
        return SB_EXIT_OK;
    if (strcmp(compat, "fixed") != 0 && strcmp(compat, "upstream") != 0)
        return sb_fail(SB_EXIT_USAGE, "--compat: '%s' is neither fixed nor upstream", compat);
    axes->compat = compat;
    for (size_t i = 0; i < axes->method_count; i++)
        if (sparge_method_param_find(axes->method[i], "compat"))
            return SB_EXIT_OK;
    return sb_fail(SB_EXIT_USAGE, "--compat %s: no selected method has the parameter 'compat'", compat);
}

static int parse_methods(const sb_arguments *arguments, sb_axes *axes)
{
    size_t lists = sb_argument_count(arguments, "method");
    int code = lists ? SB_EXIT_OK : select_methods(axes, sb_argument(arguments, "method"));
    for (size_t i = 0; i < lists && code == SB_EXIT_OK; i++)
        code = select_methods(axes, sb_argument_at(arguments, "method", i));
    return code;
}

int sb_methods_parse(const sb_arguments *arguments, const sparge_method ***methods, size_t *count)
{
    sb_axes axes = {0};
    int code = parse_methods(arguments, &axes);
    if (code != SB_EXIT_OK) {
        sb_axes_release(&axes);
        return code;
    }
    *methods = axes.method;
    *count = axes.method_count;
    return SB_EXIT_OK;
}

int sb_axes_parse(const sb_arguments *arguments, sb_axes *axes)
{
    memset(axes, 0, sizeof *axes);
    int code = parse_methods(arguments, axes);
    if (code == SB_EXIT_OK)
        code = parse_common(arguments, axes);
    for (size_t i = 0; i < sb_argument_count(arguments, "set") && code == SB_EXIT_OK; i++)
        code = add_parameter(axes, sb_argument_at(arguments, "set", i));
    if (code == SB_EXIT_OK)
        code = parse_compat(arguments, axes);
    for (size_t i = 0; i < sb_argument_count(arguments, "zip") && code == SB_EXIT_OK; i++)
        code = sb_axes_zip(axes, sb_argument_at(arguments, "zip", i));
    if (code != SB_EXIT_OK)
        sb_axes_release(axes);
    return code;
}

void sb_axes_release(sb_axes *axes)
{
    for (size_t i = 0; i < axes->count; i++) {
        for (size_t j = 0; axes->axis[i].text && j < axes->axis[i].count; j++)
            free(axes->axis[i].text[j]);
        free(axes->axis[i].text);
        free(axes->axis[i].number);
    }
    free(axes->axis);
    free(axes->method);
    memset(axes, 0, sizeof *axes);
}
