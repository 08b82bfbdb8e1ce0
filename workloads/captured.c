/* Captured files: Q, K and V of one attention call of a real model, in a .safetensors file. docs/workloads.md fixes the
 * format; tensors stay in the mapping, and are copied only where the file leaves them unaligned. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "safetensors.h"
#include "workloads.h"

enum { ROLES = 3 };

static const char *const role_name[ROLES] = {"q", "k", "v"};

struct wl_captured {
    st_file *file;
    wl_captured_info info;
    sparge_tensor tensor[ROLES];
    void *copy[ROLES]; /* aligned copies of tensors that are unaligned in the file, else NULL */
};

static int parse_dtype(const char *name, sparge_dtype *dtype)
{
    static const struct {
        const char *name;
        sparge_dtype dtype;
    } known[] = {{"F16", SPARGE_F16}, {"BF16", SPARGE_BF16}, {"F32", SPARGE_F32}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(name, known[i].name) == 0) {
            *dtype = known[i].dtype;
            return 1;
        }
    }
    return 0;
}

/* ---- tensors ---- */

static sparge_status take_tensor(wl_captured *captured, int role, const char *path, sparge_error *error)
{
    const st_tensor *stored = st_find(captured->file, role_name[role]);
    if (!stored)
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: no tensor '%s': a captured file has q, k and v", path,
                           role_name[role]);
    sparge_dtype dtype;
    if (!parse_dtype(stored->dtype, &dtype))
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: tensor '%s': dtype %s, must be F16, BF16 or F32", path,
                           role_name[role], stored->dtype);
    if (stored->rank != 4)
        return sparge_fail(error, SPARGE_ERROR_IO,
                           "%s: tensor '%s': rank %d, must be 4: [batch, heads, tokens, channels]", path,
                           role_name[role], stored->rank);
    for (int axis = 0; axis < 4; axis++) {
        if (stored->shape[axis] < 1)
            return sparge_fail(error, SPARGE_ERROR_IO, "%s: tensor '%s': shape[%d] is 0", path, role_name[role], axis);
    }
    const void *data = stored->data;
    if ((uintptr_t)data % sparge_dtype_bytes(dtype) != 0) {
        captured->copy[role] = malloc(stored->bytes);
        if (!captured->copy[role])
            return sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY,
                               "%s: tensor '%s': out of memory for an aligned copy of %zu bytes", path, role_name[role],
                               stored->bytes);
        memcpy(captured->copy[role], data, stored->bytes);
        data = captured->copy[role];
    }
    /* The view is read only, but a sparge_tensor has no const data. */
    captured->tensor[role] = sparge_tensor_hnd((void *)(uintptr_t)data, dtype, stored->shape[0], stored->shape[1],
                                               stored->shape[2], stored->shape[3]);
    return SPARGE_OK;
}

static sparge_status check_equal(const char *path, const char *what, int64_t a, const char *a_name, int64_t b,
                                 const char *b_name, sparge_error *error)
{
    if (a == b)
        return SPARGE_OK;
    return sparge_fail(error, SPARGE_ERROR_IO, "%s: %s of %s is %lld, of %s %lld: must be equal", path, what, a_name,
                       (long long)a, b_name, (long long)b);
}

static sparge_status check_shapes(const wl_captured *captured, const char *path, sparge_error *error)
{
    const sparge_tensor *q = &captured->tensor[SPARGE_ROLE_Q], *k = &captured->tensor[SPARGE_ROLE_K];
    const sparge_tensor *v = &captured->tensor[SPARGE_ROLE_V];
    static const char *const axis_name[4] = {"batch", "head count", "token count", "head dim"};
    for (int role = 1; role < ROLES; role++) {
        if (captured->tensor[role].dtype != q->dtype)
            return sparge_fail(error, SPARGE_ERROR_IO, "%s: dtype of q is %s, of %s %s: must be equal", path,
                               sparge_dtype_name(q->dtype), role_name[role],
                               sparge_dtype_name(captured->tensor[role].dtype));
    }
    for (int axis = 0; axis < 4; axis++) {
        sparge_status status = check_equal(path, axis_name[axis], k->shape[axis], "k", v->shape[axis], "v", error);
        if (status == SPARGE_OK && (axis == 0 || axis == 3))
            status = check_equal(path, axis_name[axis], q->shape[axis], "q", k->shape[axis], "k", error);
        if (status != SPARGE_OK)
            return status;
    }
    return SPARGE_OK;
}

/* ---- metadata ---- */

static sparge_status bad_metadata(const char *path, const char *key, const char *value, const char *must,
                                  sparge_error *error)
{
    return sparge_fail(error, SPARGE_ERROR_IO, "%s: metadata %s = '%.60s': must be %s", path, key, value, must);
}

/* Digits up to INT32_MAX at *at, which moves past them; 0 if there are none or they are too many. */
static int parse_count(const char **at, int32_t *out)
{
    int64_t value = 0;
    const char *digit = *at;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        value = value * 10 + (*digit - '0');
        if (value > INT32_MAX)
            return 0;
    }
    if (digit == *at)
        return 0;
    *at = digit;
    *out = (int32_t)value;
    return 1;
}

/* Absent keys leave *out as it is. */
static sparge_status read_integer(const wl_captured *captured, const char *path, const char *key, int32_t *out,
                                  sparge_error *error)
{
    const char *text = st_metadata(captured->file, key);
    if (!text)
        return SPARGE_OK;
    const char *at = text;
    if (!parse_count(&at, out) || *at != '\0')
        return bad_metadata(path, key, text, "an integer from 0 to 2147483647", error);
    return SPARGE_OK;
}

static sparge_status read_scale(const wl_captured *captured, const char *path, float *scale, sparge_error *error)
{
    const char *text = st_metadata(captured->file, "scale");
    if (!text)
        return SPARGE_OK;
    char *end;
    float value = strtof(text, &end);
    if (end == text || *end != '\0' || !(value > 0) || isinf(value))
        return bad_metadata(path, "scale", text, "a finite number above 0", error);
    *scale = value;
    return SPARGE_OK;
}

static sparge_status read_causal(const wl_captured *captured, const char *path, sparge_causal *causal,
                                 sparge_error *error)
{
    const char *text = st_metadata(captured->file, "causal");
    if (!text)
        return SPARGE_OK;
    for (int i = SPARGE_CAUSAL_NONE; i <= SPARGE_CAUSAL_BOTTOM_RIGHT; i++) {
        if (strcmp(text, sparge_causal_name((sparge_causal)i)) == 0) {
            *causal = (sparge_causal)i;
            return SPARGE_OK;
        }
    }
    return bad_metadata(path, "causal", text, "none, top-left or bottom-right", error);
}

static sparge_status read_grid(const wl_captured *captured, const char *path, sparge_grid *grid, sparge_error *error)
{
    const char *text = st_metadata(captured->file, "grid");
    if (!text) {
        if (st_metadata(captured->file, "text_before") || st_metadata(captured->file, "text_after"))
            return sparge_fail(error, SPARGE_ERROR_IO, "%s: metadata text_before or text_after without grid", path);
        return SPARGE_OK;
    }
    int32_t *const extent[3] = {&grid->t, &grid->h, &grid->w};
    const char *at = text;
    for (int axis = 0; axis < 3; axis++) {
        if (!parse_count(&at, extent[axis]) || *extent[axis] < 1 || *at != (axis < 2 ? 'x' : '\0'))
            return bad_metadata(path, "grid", text, "TxHxW, each at least 1, as 14x30x53", error);
        at++;
    }
    sparge_status status = read_integer(captured, path, "text_before", &grid->text_before, error);
    return status == SPARGE_OK ? read_integer(captured, path, "text_after", &grid->text_after, error) : status;
}

static void read_text(const wl_captured *captured, const char *key, char *out, size_t size)
{
    const char *text = st_metadata(captured->file, key);
    snprintf(out, size, "%s", text ? text : "");
}

static sparge_status read_metadata(wl_captured *captured, const char *path, sparge_error *error)
{
    wl_captured_info *info = &captured->info;
    info->layer = info->step = info->head_begin = -1;
    read_text(captured, "model", info->model, sizeof info->model);
    read_text(captured, "text", info->text, sizeof info->text);
    sparge_status status = read_integer(captured, path, "layer", &info->layer, error);
    if (status == SPARGE_OK)
        status = read_integer(captured, path, "step", &info->step, error);
    if (status == SPARGE_OK)
        status = read_integer(captured, path, "head_begin", &info->head_begin, error);
    if (status == SPARGE_OK)
        status = read_scale(captured, path, &info->problem.scale, error);
    if (status == SPARGE_OK)
        status = read_causal(captured, path, &info->problem.causal, error);
    if (status == SPARGE_OK)
        status = read_grid(captured, path, &info->problem.grid, error);
    return status;
}

/* The problem that the shapes and the metadata make together; sparge_problem_check knows its limits. */
static sparge_status make_problem(wl_captured *captured, const char *path, sparge_error *error)
{
    const sparge_tensor *q = &captured->tensor[SPARGE_ROLE_Q], *k = &captured->tensor[SPARGE_ROLE_K];
    sparge_problem *problem = &captured->info.problem;
    for (int axis = 0; axis < 4; axis++) {
        if (axis != 2 && (q->shape[axis] > INT32_MAX || k->shape[axis] > INT32_MAX))
            return sparge_fail(error, SPARGE_ERROR_IO, "%s: shape[%d] is above 2147483647", path, axis);
    }
    problem->batch = (int32_t)q->shape[0];
    problem->heads_q = (int32_t)q->shape[1];
    problem->heads_kv = (int32_t)k->shape[1];
    problem->seqlen_q = q->shape[2];
    problem->seqlen_k = k->shape[2];
    problem->head_dim = (int32_t)q->shape[3];
    sparge_problem checked = *problem;
    checked.dtype = q->dtype == SPARGE_F32 ? SPARGE_F16 : q->dtype; /* what it is uploaded as */
    sparge_error why;
    if (sparge_problem_check(&checked, &why) != SPARGE_OK)
        return sparge_fail(error, SPARGE_ERROR_IO, "%s: %s", path, why.text);
    problem->dtype = q->dtype;
    return SPARGE_OK;
}

/* ---- the interface ---- */

sparge_status wl_captured_open(const char *path, wl_captured **file, sparge_error *error)
{
    *file = NULL;
    wl_captured *captured = calloc(1, sizeof *captured);
    if (!captured)
        return sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY, "%s: out of memory", path);
    sparge_status status = st_open(path, &captured->file, error);
    for (int role = 0; role < ROLES && status == SPARGE_OK; role++)
        status = take_tensor(captured, role, path, error);
    if (status == SPARGE_OK)
        status = check_shapes(captured, path, error);
    if (status == SPARGE_OK)
        status = read_metadata(captured, path, error);
    if (status == SPARGE_OK)
        status = make_problem(captured, path, error);
    if (status != SPARGE_OK) {
        wl_captured_close(captured);
        return status;
    }
    *file = captured;
    return SPARGE_OK;
}

void wl_captured_close(wl_captured *file)
{
    if (!file)
        return;
    for (int role = 0; role < ROLES; role++)
        free(file->copy[role]);
    st_close(file->file);
    free(file);
}

const wl_captured_info *wl_captured_get_info(const wl_captured *file)
{
    return &file->info;
}

sparge_tensor wl_captured_tensor(const wl_captured *file, sparge_tensor_role role)
{
    return file->tensor[role];
}
