/* wl_resolve: from what the user asked for to a complete, checked workload.
 *
 * A name is a preset's, or a path: something with a slash in it or ending in .safetensors. Presets are described by
 * their table and the request's changes; captured files by what they hold, cut to the request. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sha256.h"
#include "suggest.h"
#include "workloads.h"

static sparge_status invalid(sparge_error *error, const wl_request *request, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static sparge_status invalid(sparge_error *error, const wl_request *request, const char *format, ...)
{
    char text[SPARGE_ERROR_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "workload %s: %s", request->name, text);
}

static int looks_like_path(const char *name)
{
    static const char suffix[] = ".safetensors";
    size_t length = strlen(name), tail = sizeof suffix - 1;
    return strchr(name, '/') || (length >= tail && strcmp(name + length - tail, suffix) == 0);
}

static sparge_status unknown_name(const char *name, sparge_error *error)
{
    const char *nearest = NULL;
    for (size_t i = 0; i < wl_preset_count(); i++)
        nearest = sb_nearer(name, nearest, wl_preset_at(i)->name);
    if (nearest)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "workload '%.64s': unknown, did you mean %s?", name,
                           nearest);
    char names[384] = "";
    for (size_t i = 0; i < wl_preset_count(); i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", wl_preset_at(i)->name);
    }
    return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT,
                       "workload '%.64s': must be a .safetensors file or one of %s", name, names);
}

/* ---- what presets and captured files share ---- */

/* heads_q becomes the request's, heads_kv follows. `most`: 0 where any number can be had. */
static sparge_status keep_heads(const wl_request *request, int32_t most, sparge_problem *problem, sparge_error *error)
{
    if (request->heads <= 0)
        return SPARGE_OK;
    int32_t group = problem->heads_q / problem->heads_kv;
    if (most > 0 && request->heads > most)
        return invalid(error, request, "heads = %d: it has %d query heads", request->heads, most);
    if (request->heads % group != 0)
        return invalid(error, request, "heads = %d: must be a multiple of %d, the query heads of one KV head",
                       request->heads, group);
    problem->heads_q = request->heads;
    problem->heads_kv = request->heads / group;
    return SPARGE_OK;
}

static sparge_status check_order(const wl_request *request, sparge_problem *problem, sparge_error *error)
{
    if (request->order == WL_ORDER_ROW)
        return SPARGE_OK;
    if ((unsigned)request->order >= WL_ORDER_COUNT)
        return invalid(error, request, "order = %d: not a token order", (int)request->order);
    if (problem->grid.t == 0)
        return invalid(error, request, "order = %s: it has no grid", wl_order_name(request->order));
    if (problem->causal != SPARGE_CAUSAL_NONE)
        return invalid(error, request, "order = %s: a causal problem cannot be reordered",
                       wl_order_name(request->order));
    problem->grid.reordered = 1;
    return SPARGE_OK;
}

/* ---- presets ---- */

static int64_t grid_cells(const sparge_grid *grid)
{
    return (int64_t)grid->t * grid->h * grid->w;
}

/* Scales t, h and w by one factor f, rounded to whole cells, so that the length comes nearest to `tokens`. Axes of one
 * cell stay: an image remains one. As f grows the rounded grid changes only where f * extent passes half a cell, so
 * walking those points in order meets every grid there is. */
static void scale_grid(sparge_grid *grid, int64_t tokens)
{
    int64_t text = (int64_t)grid->text_before + grid->text_after;
    const int64_t full[3] = {grid->t, grid->h, grid->w};
    int64_t size[3] = {1, 1, 1};
    int64_t below[3] = {1, 1, 1};
    while (text + size[0] * size[1] * size[2] < tokens) {
        memcpy(below, size, sizeof below);
        int next = -1; /* the axis whose next step, f = (size + 1/2) / full, comes first */
        for (int axis = 0; axis < 3; axis++) {
            if (full[axis] > 1 && (next < 0 || (2 * size[axis] + 1) * full[next] < (2 * size[next] + 1) * full[axis]))
                next = axis;
        }
        if (next < 0) /* one cell: nothing to scale */
            return;
        const int64_t step = 2 * size[next] + 1;
        for (int axis = 0; axis < 3; axis++) { /* axes that step at the same f step together */
            if (full[axis] > 1 && (2 * below[axis] + 1) * full[next] == step * full[axis])
                size[axis]++;
        }
    }
    int64_t above_by = text + size[0] * size[1] * size[2] - tokens;
    int64_t below_by = tokens - (text + below[0] * below[1] * below[2]);
    const int64_t *best = below_by >= 0 && below_by <= above_by ? below : size;
    grid->t = (int32_t)best[0];
    grid->h = (int32_t)best[1];
    grid->w = (int32_t)best[2];
}

static void set_length(const wl_request *request, const wl_preset *preset, wl_workload *workload)
{
    sparge_problem *problem = &workload->problem;
    int64_t tokens = request->seqlen > 0 ? request->seqlen : preset->default_seqlen;
    problem->grid = preset->grid;
    if (preset->grid.t > 0) {
        int64_t text = (int64_t)preset->grid.text_before + preset->grid.text_after;
        int64_t own = grid_cells(&preset->grid) + text;
        if (request->seqlen > 0 && request->seqlen != own)
            scale_grid(&problem->grid, request->seqlen);
        tokens = grid_cells(&problem->grid) + text;
        if (tokens != own)
            snprintf(workload->note, sizeof workload->note, "grid scaled to %dx%dx%d: %lld tokens", problem->grid.t,
                     problem->grid.h, problem->grid.w, (long long)tokens);
    }
    problem->seqlen_q = problem->seqlen_k = tokens;
}

/* Everything that the numbers depend on, in one line. %a is exact. */
static void hash_generator(const sparge_generator *g, const sparge_problem *p, char hex[SB_SHA256_HEX_SIZE])
{
    char text[1024];
    int length =
        snprintf(text, sizeof text,
                 "sparge-generator 1 kind=%d seed=%llu batch=%d heads=%d/%d tokens=%lld/%lld dim=%d dtype=%s "
                 "grid=%dx%dx%d+%d+%d correlation=%a scale_length=%a sharpness=%a query_offset=%a channel_offset=%a "
                 "sink_strength=%a sink_tokens=%d head_spread=%a",
                 (int)g->kind, (unsigned long long)g->seed, p->batch, g->heads_q, g->heads_kv, (long long)p->seqlen_q,
                 (long long)p->seqlen_k, p->head_dim, sparge_dtype_name(p->dtype), g->grid.t, g->grid.h, g->grid.w,
                 g->grid.text_before, g->grid.text_after, (double)g->correlation, (double)g->scale_length,
                 (double)g->sharpness, (double)g->query_offset, (double)g->channel_offset, (double)g->sink_strength,
                 g->sink_tokens, (double)g->head_spread);
    sb_sha256 hash;
    sb_sha256_begin(&hash);
    sb_sha256_update(&hash, text, (size_t)length);
    sb_sha256_end(&hash, hex);
}

/* The request's heads, of at most `most` (as at keep_heads), and the checks of what came out. */
static sparge_status finish_problem(const wl_request *request, int32_t most, sparge_problem *problem,
                                    sparge_error *error)
{
    sparge_status status = keep_heads(request, most, problem, error);
    if (status == SPARGE_OK)
        status = check_order(request, problem, error);
    sparge_error why;
    if (status == SPARGE_OK && sparge_problem_check(problem, &why) != SPARGE_OK)
        status = invalid(error, request, "%s", why.text);
    return status;
}

static sparge_status resolve_preset(const wl_request *request, const wl_preset *preset, wl_workload *workload,
                                    sparge_error *error)
{
    sparge_problem *problem = &workload->problem;
    workload->kind = WL_SYNTHETIC;
    snprintf(workload->name, sizeof workload->name, "%s", preset->name);
    problem->batch = request->batch > 0 ? request->batch : 1;
    problem->heads_q = preset->heads_q;
    problem->heads_kv = preset->heads_kv;
    problem->head_dim = request->head_dim > 0 ? request->head_dim : preset->head_dim;
    problem->dtype = request->dtype >= 0 ? (sparge_dtype)request->dtype : preset->dtype;
    problem->causal = request->causal >= 0 ? (sparge_causal)request->causal : preset->causal;
    set_length(request, preset, workload);

    /* A plain generator has as many heads as asked for; a model only its own. */
    int is_model = preset->layers > 0;
    sparge_status status = finish_problem(request, is_model ? preset->heads_q : 0, problem, error);
    if (status != SPARGE_OK)
        return status;

    workload->generator = preset->generator;
    workload->generator.seed = request->seed;
    workload->generator.heads_q = problem->heads_q;
    workload->generator.heads_kv = problem->heads_kv;
    workload->generator.grid = problem->grid;
    workload->generator.grid.reordered = 0; /* numbers are made in row order */
    hash_generator(&workload->generator, problem, workload->hash);
    return SPARGE_OK;
}

/* ---- captured files ---- */

/* Shapes and the rows used, as stored: the problem's first batches, heads and tokens. */
static void hash_captured(const wl_captured *captured, const sparge_problem *problem, char hex[SB_SHA256_HEX_SIZE])
{
    sb_sha256 hash;
    sb_sha256_begin(&hash);
    for (int role = SPARGE_ROLE_Q; role <= SPARGE_ROLE_V; role++) {
        sparge_tensor tensor = wl_captured_tensor(captured, (sparge_tensor_role)role);
        int32_t heads = role == SPARGE_ROLE_Q ? problem->heads_q : problem->heads_kv;
        int64_t tokens = role == SPARGE_ROLE_Q ? problem->seqlen_q : problem->seqlen_k;
        char text[128];
        int length =
            snprintf(text, sizeof text, "sparge-captured 1 role=%d batch=%d heads=%d tokens=%lld dim=%d %s\n", role,
                     problem->batch, heads, (long long)tokens, problem->head_dim, sparge_dtype_name(tensor.dtype));
        sb_sha256_update(&hash, text, (size_t)length);
        size_t element = sparge_dtype_bytes(tensor.dtype);
        for (int64_t b = 0; b < problem->batch; b++) {
            for (int64_t h = 0; h < heads; h++) {
                size_t offset = (size_t)(b * tensor.stride[0] + h * tensor.stride[1]) * element;
                sb_sha256_update(&hash, (const char *)tensor.data + offset,
                                 (size_t)(tokens * tensor.shape[3]) * element);
            }
        }
    }
    sb_sha256_end(&hash, hex);
}

static sparge_status cut_tokens(const wl_request *request, wl_workload *workload, sparge_error *error)
{
    sparge_problem *problem = &workload->problem;
    if (request->seqlen <= 0 || (request->seqlen == problem->seqlen_q && request->seqlen == problem->seqlen_k))
        return SPARGE_OK;
    if (problem->seqlen_q != problem->seqlen_k)
        return invalid(error, request, "seqlen = %lld: it has %lld queries and %lld keys and cannot be cut",
                       (long long)request->seqlen, (long long)problem->seqlen_q, (long long)problem->seqlen_k);
    if (request->seqlen > problem->seqlen_k)
        return invalid(error, request, "seqlen = %lld: it has %lld tokens", (long long)request->seqlen,
                       (long long)problem->seqlen_k);
    snprintf(workload->note, sizeof workload->note, "the first %lld of %lld tokens%s", (long long)request->seqlen,
             (long long)problem->seqlen_k, problem->grid.t > 0 ? ", without their grid" : "");
    problem->seqlen_q = problem->seqlen_k = request->seqlen;
    problem->grid = (sparge_grid){0}; /* a part of a grid is none */
    return SPARGE_OK;
}

static sparge_status resolve_captured(const wl_request *request, wl_workload *workload, sparge_error *error)
{
    sparge_status status = wl_captured_open(request->name, &workload->captured, error);
    if (status != SPARGE_OK)
        return status;
    workload->kind = WL_CAPTURED;
    const char *slash = strrchr(request->name, '/');
    snprintf(workload->name, sizeof workload->name, "%s", slash ? slash + 1 : request->name);
    sparge_problem *problem = &workload->problem;
    *problem = wl_captured_get_info(workload->captured)->problem;

    if (request->head_dim > 0 && request->head_dim != problem->head_dim)
        return invalid(error, request, "head_dim = %d: it has %d", request->head_dim, problem->head_dim);
    if (request->batch > problem->batch)
        return invalid(error, request, "batch = %d: it has %d", request->batch, problem->batch);
    if (request->batch > 0)
        problem->batch = request->batch;
    if (request->causal >= 0)
        problem->causal = (sparge_causal)request->causal;

    /* Numbers of 32 bits are rounded to either type; those of 16 bits are used as they are. */
    if (problem->dtype == SPARGE_F32)
        problem->dtype = request->dtype >= 0 ? (sparge_dtype)request->dtype : SPARGE_F16;
    else if (request->dtype >= 0 && (sparge_dtype)request->dtype != problem->dtype)
        return invalid(error, request, "dtype = %s: it holds %s", sparge_dtype_name((sparge_dtype)request->dtype),
                       sparge_dtype_name(problem->dtype));

    status = cut_tokens(request, workload, error);
    if (status == SPARGE_OK)
        status = finish_problem(request, problem->heads_q, problem, error);
    if (status != SPARGE_OK)
        return status;
    hash_captured(workload->captured, problem, workload->hash);
    return SPARGE_OK;
}

/* ---- the interface ---- */

sparge_status wl_resolve(const wl_request *request, wl_workload *workload, sparge_error *error)
{
    memset(workload, 0, sizeof *workload);
    if (!request->name || request->name[0] == '\0')
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "workload: no name");
    if (request->seqlen > INT32_MAX) /* far above what a problem may have, and far from overflow below */
        return invalid(error, request, "seqlen = %lld: must be at most %d", (long long)request->seqlen, INT32_MAX);
    workload->order = request->order;
    workload->seed = request->seed;
    const wl_preset *preset = wl_preset_find(request->name);
    sparge_status status;
    if (preset)
        status = resolve_preset(request, preset, workload, error);
    else if (looks_like_path(request->name))
        status = resolve_captured(request, workload, error);
    else
        status = unknown_name(request->name, error);
    if (status != SPARGE_OK)
        wl_release(workload);
    return status;
}

void wl_release(wl_workload *workload)
{
    wl_captured_close(workload->captured);
    memset(workload, 0, sizeof *workload);
}
