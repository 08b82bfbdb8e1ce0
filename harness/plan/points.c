/* Axes to points: an odometer over the common axes, and for each of its states one over every method's parameters.
 * A workload is resolved once for all methods that run on it: hashing a captured file is not free. */
#include "plan/points.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/text.h"
#include "plan/axes.h"
#include "sha256.h"

enum { MAX_POINTS = 1000000 };

/* Everything that points share. */
typedef struct shared {
    sb_axes axes; /* the requests' strings */
    wl_workload *workload;
    size_t workload_count;
} shared;

static int out_of_memory(void)
{
    return sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for the list of points");
}

/* Steps to the next state of the free axes that belong to `method` (NULL: the common ones). 0 after the last. */
static int advance(const sb_axes *axes, const sparge_method *method, size_t *index)
{
    for (size_t i = axes->count; i-- > 0;) {
        const sb_axis *axis = &axes->axis[i];
        if (axis->method != method || axis->tied_to != i)
            continue;
        if (++index[i] < axis->count)
            return 1;
        index[i] = 0;
    }
    return 0;
}

static size_t index_of(const sb_axes *axes, const size_t *index, size_t axis)
{
    return index[axes->axis[axis].tied_to];
}

static int64_t number_of(const sb_axes *axes, const size_t *index, sb_common_axis axis)
{
    return axes->axis[axis].number[index_of(axes, index, axis)];
}

static wl_request make_request(const sb_axes *axes, const size_t *index)
{
    return (wl_request){
        .name = axes->axis[SB_AXIS_WORKLOAD].text[index_of(axes, index, SB_AXIS_WORKLOAD)],
        .seqlen = number_of(axes, index, SB_AXIS_SEQLEN),
        .heads = (int32_t)number_of(axes, index, SB_AXIS_HEADS),
        .batch = (int32_t)number_of(axes, index, SB_AXIS_BATCH),
        .head_dim = (int32_t)number_of(axes, index, SB_AXIS_HEAD_DIM),
        .dtype = (int)number_of(axes, index, SB_AXIS_DTYPE),
        .causal = (int)number_of(axes, index, SB_AXIS_CAUSAL),
        .seed = (uint64_t)number_of(axes, index, SB_AXIS_SEED),
        .order = (wl_order)number_of(axes, index, SB_AXIS_ORDER),
    };
}

/* --- one point --- */

static int set_parameters(const sb_axes *axes, const size_t *index, sb_point *point)
{
    const sparge_method *method = sparge_params_method(point->params);
    sparge_error error;
    if (axes->compat && sparge_method_param_find(method, "compat") &&
        sparge_params_set(point->params, "compat", axes->compat, &error) != SPARGE_OK)
        return sb_fail(SB_EXIT_USAGE, "--compat %s: %s", axes->compat, error.text);
    for (size_t i = SB_COMMON_AXES; i < axes->count; i++) {
        const sb_axis *axis = &axes->axis[i];
        if (axis->method != method)
            continue;
        const char *value = axis->text[index_of(axes, index, i)];
        if (sparge_params_set(point->params, axis->param, value, &error) != SPARGE_OK)
            return sb_fail(SB_EXIT_USAGE, "--set %s=%s: %s", axis->name, value, error.text);
    }
    return SB_EXIT_OK;
}

/* The digest of a regular file's bytes; -1 if it can't be read. */
static int hash_file(const char *path, char hex[SB_SHA256_HEX_SIZE])
{
    unsigned char bytes[65536];
    struct stat status;
    FILE *file = stat(path, &status) == 0 && S_ISREG(status.st_mode) ? fopen(path, "rb") : NULL;
    if (!file)
        return -1;
    sb_sha256 hash;
    sb_sha256_begin(&hash);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, file)) > 0;)
        sb_sha256_update(&hash, bytes, n);
    int failed = ferror(file);
    sb_sha256_end(&hash, hex);
    fclose(file);
    return failed ? -1 : 0;
}

/* A value as it is stored. What a file holds makes a point, not the folder where it lies: it is "name@digest", so that
 * a file that was changed is another point and one that was moved is not. One that can't be read keeps its path; its
 * points fail. ("params" is read when it is set and shows a digest of its values by itself.) */
static json_t *stored_value(const sparge_params *params, const sparge_param_desc *desc)
{
    const char *value = sparge_params_get(params, desc->name);
    char hex[SB_SHA256_HEX_SIZE];
    if (desc->type != SPARGE_PARAM_PATH || strcmp(desc->name, "params") == 0 || hash_file(value, hex) != 0)
        return json_string(value);
    const char *slash = strrchr(value, '/');
    return json_sprintf("%s@%.16s", slash ? slash + 1 : value, hex);
}

static json_t *parameters_object(const sparge_params *params)
{
    const sparge_method *method = sparge_params_method(params);
    json_t *object = json_object();
    int failed = object == NULL;
    for (size_t i = 0; i < sparge_method_param_count(method) && !failed; i++) {
        const sparge_param_desc *desc = sparge_method_param_at(method, i);
        failed = json_object_set_new(object, desc->name, stored_value(params, desc)) != 0;
    }
    if (!failed)
        return object;
    json_decref(object);
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    const sparge_param_desc *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* Is the parameter at its default? One that another replaces is unset by default as long as that one is given. */
static int is_default(const sparge_param_desc *desc, const sparge_params *params, const sparge_params *defaults)
{
    const char *value = sparge_params_get(params, desc->name);
    const char *replacement = desc->replaced_by ? sparge_params_get(params, desc->replaced_by) : NULL;
    if (replacement && strcmp(replacement, sparge_params_get(defaults, desc->replaced_by)) != 0)
        return *value == '\0';
    return strcmp(value, sparge_params_get(defaults, desc->name)) == 0;
}

/* `stored` is what parameters_object gave. */
static char *settings_text(const sparge_params *params, const json_t *stored)
{
    const sparge_method *method = sparge_params_method(params);
    const size_t count = sparge_method_param_count(method);
    const sparge_param_desc **sorted = calloc(count + 1, sizeof *sorted);
    sparge_params *defaults = NULL;
    sb_text text = {0};
    sb_text_add(&text, "%s", ""); /* no settings are an empty text, not none */
    if (!sorted || sparge_params_create(method, &defaults) != SPARGE_OK)
        text.failed = 1;
    for (size_t i = 0; sorted && i < count; i++)
        sorted[i] = sparge_method_param_at(method, i);
    if (!text.failed)
        qsort(sorted, count, sizeof *sorted, by_name);
    for (size_t i = 0; i < count && !text.failed; i++)
        if (!is_default(sorted[i], params, defaults))
            sb_text_add(&text, "%s%s=%s", text.length ? " " : "", sorted[i]->name,
                        json_string_value(json_object_get(stored, sorted[i]->name)));
    sparge_params_destroy(defaults);
    free(sorted);
    return sb_text_take(&text);
}

static void add_option(sb_text *text, const char *option, const char *value)
{
    sb_text_add_word(text, option);
    sb_text_add_word(text, value);
}

static void add_number(sb_text *text, const char *option, int64_t value)
{
    char digits[32];
    if (value <= 0)
        return;
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    add_option(text, option, digits);
}

/* The parameters as they were given, so that one which another replaces stays unset. */
static void add_parameters(sb_text *text, const sb_axes *axes, const size_t *index, const sparge_method *method)
{
    if (axes->compat && sparge_method_param_find(method, "compat"))
        add_option(text, "--compat", axes->compat);
    for (size_t i = SB_COMMON_AXES; i < axes->count; i++) {
        const sb_axis *axis = &axes->axis[i];
        if (axis->method != method)
            continue;
        char *value = sb_text_escape(axis->text[index_of(axes, index, i)]);
        sb_text set = {0};
        sb_text_add(&set, "%s=%s", axis->name, value ? value : "");
        char *word = sb_text_take(&set);
        if (value && word)
            add_option(text, "--set", word);
        else
            text->failed = 1;
        free(word);
        free(value);
    }
}

static char *make_repro(const sb_axes *axes, const size_t *index, const sb_point *point)
{
    const wl_request *request = &point->request;
    const sparge_method *method = sparge_params_method(point->params);
    sb_text text = {0};
    sb_text_add(&text, "sparge-bench sweep");
    char *name = sb_text_escape(request->name);
    if (!name)
        return NULL;
    add_option(&text, "--workload", name);
    free(name);
    if (request->order != WL_ORDER_ROW)
        add_option(&text, "--order", wl_order_name(request->order));
    add_number(&text, "--seqlen", request->seqlen);
    add_number(&text, "--heads", request->heads);
    add_number(&text, "--batch", request->batch);
    add_number(&text, "--head-dim", request->head_dim);
    if (request->dtype >= 0)
        add_option(&text, "--dtype", sparge_dtype_name((sparge_dtype)request->dtype));
    if (request->causal >= 0)
        add_option(&text, "--causal", sparge_causal_name((sparge_causal)request->causal));
    sb_text_add(&text, " --seed %llu", (unsigned long long)request->seed);
    add_option(&text, "--method", sparge_method_name(method));
    add_parameters(&text, axes, index, method);
    return sb_text_take(&text);
}

static void release_point(sb_point *point)
{
    sparge_params_destroy(point->params);
    free(point->repro);
    free(point->parameters);
    free(point->settings);
}

static int make_point(const sb_axes *axes, const size_t *index, const sparge_method *method, sb_point *point)
{
    if (sparge_params_create(method, &point->params) != SPARGE_OK)
        return out_of_memory();
    int code = set_parameters(axes, index, point);
    if (code != SB_EXIT_OK)
        return code;
    /* Contradictions between parameters are the user's to solve; what a method cannot do is recorded by the sweep. */
    sparge_error error;
    if (!axes->all_methods &&
        sparge_params_check(point->params, &point->workload.problem, &error) == SPARGE_ERROR_INVALID_ARGUMENT)
        return sb_fail(SB_EXIT_USAGE, "%s on %s: %s", sparge_method_name(method), point->workload.name, error.text);
    json_t *parameters = parameters_object(point->params);
    point->parameters = parameters ? json_dumps(parameters, JSON_SORT_KEYS | JSON_COMPACT) : NULL;
    point->settings = parameters ? settings_text(point->params, parameters) : NULL;
    json_decref(parameters);
    point->repro = make_repro(axes, index, point);
    return point->parameters && point->settings && point->repro ? SB_EXIT_OK : out_of_memory();
}

/* --- all points --- */

static int append_point(sb_points *points, size_t *capacity, sb_point **point)
{
    if (points->count == MAX_POINTS)
        return sb_fail(SB_EXIT_USAGE, "the options name more than %d points", MAX_POINTS);
    if (points->count == *capacity) {
        size_t larger = *capacity ? 2 * *capacity : 64;
        sb_point *list = realloc(points->point, larger * sizeof *list);
        if (!list)
            return out_of_memory();
        points->point = list;
        *capacity = larger;
    }
    *point = &points->point[points->count++];
    memset(*point, 0, sizeof **point);
    return SB_EXIT_OK;
}

static int resolve_workload(shared *owned, const wl_request *request)
{
    wl_workload *list = realloc(owned->workload, (owned->workload_count + 1) * sizeof *list);
    if (!list)
        return out_of_memory();
    owned->workload = list;
    sparge_error error = {0};
    sparge_status status = wl_resolve(request, &list[owned->workload_count], &error);
    if (status == SPARGE_ERROR_OUT_OF_MEMORY)
        return out_of_memory();
    if (status != SPARGE_OK)
        return sb_fail(SB_EXIT_USAGE, "--workload %s: %s", request->name, error.text);
    owned->workload_count++;
    return SB_EXIT_OK;
}

/* The points of one workload: every method with every combination of its parameters. */
static int add_methods(sb_points *points, size_t *capacity, size_t *index, const wl_request *request)
{
    shared *owned = points->owned;
    const sb_axes *axes = &owned->axes;
    for (size_t m = 0; m < axes->method_count; m++) {
        do {
            sb_point *point = NULL;
            int code = append_point(points, capacity, &point);
            if (code != SB_EXIT_OK)
                return code;
            point->request = *request;
            point->workload_index = owned->workload_count - 1;
            point->workload = owned->workload[point->workload_index];
            code = make_point(axes, index, axes->method[m], point);
            if (code != SB_EXIT_OK)
                return code;
        } while (advance(axes, axes->method[m], index));
    }
    return SB_EXIT_OK;
}

/* What makes two points the same measurement. */
static char *identity(const sb_point *point)
{
    const wl_workload *w = &point->workload;
    const sparge_problem *p = &w->problem;
    sb_text text = {0};
    sb_text_add(&text, "%s\n%s\n%d %llu\n%d %d %d %lld %lld %d %d %d %a\n%d %d %d %d %d\n%s\n%s", w->name, w->hash,
                (int)w->order, (unsigned long long)w->seed, p->batch, p->heads_q, p->heads_kv, (long long)p->seqlen_q,
                (long long)p->seqlen_k, p->head_dim, (int)p->dtype, (int)p->causal, (double)sparge_problem_scale(p),
                p->grid.t, p->grid.h, p->grid.w, p->grid.text_before, p->grid.text_after,
                sparge_method_name(sparge_params_method(point->params)), point->parameters);
    return sb_text_take(&text);
}

typedef struct named_point {
    char *identity;
    size_t index;
} named_point;

static int by_identity(const void *a, const void *b)
{
    const named_point *x = a, *y = b;
    int order = strcmp(x->identity, y->identity);
    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

/* Keeps the first of equal points. */
static int remove_duplicates(sb_points *points)
{
    named_point *named = calloc(points->count, sizeof *named);
    char *twice = calloc(points->count, 1);
    int failed = !named || !twice;
    size_t count = 0;
    for (; count < points->count && !failed; count++) {
        named[count] = (named_point){identity(&points->point[count]), count};
        failed = named[count].identity == NULL;
    }
    if (!failed) {
        qsort(named, count, sizeof *named, by_identity);
        for (size_t i = 1; i < count; i++)
            twice[named[i].index] = strcmp(named[i].identity, named[i - 1].identity) == 0;
        size_t kept = 0;
        for (size_t i = 0; i < count; i++)
            if (twice[i])
                release_point(&points->point[i]);
            else
                points->point[kept++] = points->point[i];
        points->count = kept;
        points->duplicates = count - kept;
    }
    for (size_t i = 0; named && i < count; i++)
        free(named[i].identity);
    free(named);
    free(twice);
    return failed ? out_of_memory() : SB_EXIT_OK;
}

int sb_points_create(const sb_arguments *arguments, sb_points *points)
{
    memset(points, 0, sizeof *points);
    shared *owned = calloc(1, sizeof *owned);
    if (!owned)
        return out_of_memory();
    points->owned = owned;
    int code = sb_axes_parse(arguments, &owned->axes);
    size_t *index = code == SB_EXIT_OK ? calloc(owned->axes.count, sizeof *index) : NULL;
    if (code == SB_EXIT_OK && !index)
        code = out_of_memory();
    if (code == SB_EXIT_OK) {
        size_t capacity = 0;
        do {
            wl_request request = make_request(&owned->axes, index);
            code = resolve_workload(owned, &request);
            if (code == SB_EXIT_OK)
                code = add_methods(points, &capacity, index, &request);
        } while (code == SB_EXIT_OK && advance(&owned->axes, NULL, index));
    }
    if (code == SB_EXIT_OK)
        code = remove_duplicates(points);
    free(index);
    if (code != SB_EXIT_OK)
        sb_points_release(points);
    return code;
}

void sb_points_release(sb_points *points)
{
    shared *owned = points->owned;
    for (size_t i = 0; i < points->count; i++)
        release_point(&points->point[i]);
    free(points->point);
    if (owned) {
        for (size_t i = 0; i < owned->workload_count; i++)
            wl_release(&owned->workload[i]);
        free(owned->workload);
        sb_axes_release(&owned->axes);
        free(owned);
    }
    memset(points, 0, sizeof *points);
}

void sb_point_label(const sb_point *point, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s", sparge_method_name(sparge_params_method(point->params)), *point->settings ? " " : "",
             point->settings);
}
