/* Comparing the CUDA backend's prepare and select with the CPU's. */
#include "cuda_arrays.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/load.h"
#include "cpu/prepare/quantise.h"
#include "cuda/cuda.h"

enum { GUARD_ELEMENTS = 64 };

static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int64_t between(uint64_t *state, int64_t low, int64_t high)
{
    return low + (int64_t)(next(state) % (uint64_t)(high - low + 1));
}

static float normal(uint64_t *state)
{
    float sum = -2;
    for (int i = 0; i < 4; i++)
        sum += (float)(next(state) >> 40) * 0x1p-24f;
    return sum * 1.7320508f;
}

static void *allocate(size_t count, size_t bytes)
{
    void *memory = calloc(count ? count : 1, bytes);
    if (!memory) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return memory;
}

static void expect(sparge_context *context, sparge_status status, const char *what)
{
    if (status == SPARGE_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, sparge_error_string(context));
    exit(1);
}

static const char *content_name(arrays_content content)
{
    static const char *const names[] = {"normal", "drift", "ties", "zero-rows", "tiny", "large", "nan"};
    return names[content];
}

void arrays_describe(const arrays_case *c, char *text, size_t size)
{
    const sparge_problem *p = &c->problem;
    snprintf(text, size,
             "%s %s%s B%d H%d/%d Lq%" PRId64 " Lk%" PRId64 " D%d %s causal=%s scale=%g %s layout%d seed=%" PRIu64,
             c->method, c->settings, c->per_head ? " per-head" : "", p->batch, p->heads_q, p->heads_kv, p->seqlen_q,
             p->seqlen_k, p->head_dim, sparge_dtype_name(p->dtype), sparge_causal_name(p->causal), (double)p->scale,
             content_name(c->content), c->layout, c->seed);
}

/* ---- Tensors: the same on the host and on the device, NaN all around ---- */

typedef struct side {
    uint16_t *host;
    void *device;
    size_t elements;
    sparge_tensor on_host, on_device;
} side;

static float value_of(const arrays_case *c, int is_k, const float *drift, int64_t head, int64_t token, int32_t d,
                      uint64_t *rng)
{
    const int bf16 = c->problem.dtype == SPARGE_BF16;
    switch (c->content) {
    case ARRAYS_DRIFT:
        return drift[d] + (token / 192 % 3 == 1 ? 2.0f : 0.3f) * normal(rng) + (is_k ? (float)(d % 7) - 2 : 0);
    case ARRAYS_TIES:
        return (float)((token / 64 + d + head) % 3) - (is_k ? 1.0f : 0.0f);
    case ARRAYS_ZERO_ROWS:
        return token % 5 == 0 || d % 9 == 3 || (token / 64) % 3 == 2 ? 0 : normal(rng);
    case ARRAYS_TINY:
        return normal(rng) * (bf16 ? ldexpf(1, -(int)between(rng, 10, 126)) : 0x1p-14f);
    case ARRAYS_LARGE:
        return normal(rng) * (bf16 ? 1e29f : 15000.0f);
    case ARRAYS_NAN:
        if (next(rng) % 4096 == 0)
            return next(rng) % 2 ? NAN : next(rng) % 2 ? INFINITY : -INFINITY;
        return normal(rng);
    case ARRAYS_NORMAL:
    default:
        return normal(rng);
    }
}

static void fill(const arrays_case *c, side *s, int is_k, uint64_t rng)
{
    const sparge_tensor *x = &s->on_host;
    float drift[SPARGE_MAX_HEAD_DIM];
    for (int64_t bh = 0; bh < x->shape[0] * x->shape[1]; bh++) {
        memset(drift, 0, sizeof drift);
        for (int64_t t = 0; t < x->shape[2]; t++) {
            const int64_t b = bh / x->shape[1], h = bh % x->shape[1];
            uint16_t *row = (uint16_t *)x->data + b * x->stride[0] + h * x->stride[1] + t * x->stride[2];
            for (int32_t d = 0; d < c->problem.head_dim; d++) {
                drift[d] = 0.98f * drift[d] + 0.3f * normal(&rng);
                const float value = value_of(c, is_k, drift, h, t, d, &rng);
                row[d] = x->dtype == SPARGE_F16 ? sparge_f16_from_f32(value) : sparge_bf16_from_f32(value);
            }
        }
    }
}

static void open_side(const arrays_case *c, sparge_context *cuda, side *s, int32_t heads, int64_t tokens, int is_k,
                      uint64_t rng)
{
    const sparge_problem *p = &c->problem;
    const int64_t odd = c->layout == 3 ? 3 : 0, channels = p->head_dim;
    sparge_tensor x = sparge_tensor_hnd(NULL, p->dtype, p->batch, heads, tokens, channels);
    if (c->layout == 1)
        x = sparge_tensor_nhd(NULL, p->dtype, p->batch, heads, tokens, channels);
    if (c->layout >= 2) {
        x.stride[2] = c->layout == 2 ? (channels + 7) / 8 * 8 + 16 : channels + 5;
        x.stride[1] = x.stride[2] * tokens + (c->layout == 2 ? 24 : 7);
        x.stride[0] = x.stride[1] * heads + (c->layout == 2 ? 8 : 1);
    }
    s->elements = (size_t)(x.stride[0] * p->batch + 2 * GUARD_ELEMENTS);
    s->host = allocate(s->elements, sizeof *s->host);
    for (size_t i = 0; i < s->elements; i++)
        s->host[i] = 0x7fff; /* NaN */
    expect(cuda, sparge_alloc(cuda, s->elements * sizeof *s->host, &s->device), "input");
    s->on_host = s->on_device = x;
    s->on_host.data = s->host + GUARD_ELEMENTS + odd;
    s->on_device.data = (uint16_t *)s->device + GUARD_ELEMENTS + odd;
    fill(c, s, is_k, rng);
    expect(cuda, sparge_upload(cuda, s->device, s->host, s->elements * sizeof *s->host), "input");
}

static void close_side(sparge_context *cuda, side *s)
{
    free(s->host);
    sparge_free(cuda, s->device);
}

/* ---- Comparison ---- */

typedef struct comparison {
    sparge_context *cuda;
    const arrays_case *c;
    int differences;
} comparison;

/* format: of index, count, got and expected, whose types are these parameters'. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void report(comparison *run, const char *array, const char *format, int64_t index, int64_t count, double got,
                   double expected)
{
    char text[512];
    arrays_describe(run->c, text, sizeof text);
    run->differences++;
    fprintf(stderr, "DIFFERS %s: ", array);
    fprintf(stderr, format, index, count, got, expected);
    fprintf(stderr, "\n    %s\n", text);
}
#pragma GCC diagnostic pop

static void *fetch(comparison *run, const void *device, size_t bytes)
{
    void *host = allocate(bytes, 1);
    if (bytes)
        expect(run->cuda, sparge_download(run->cuda, host, device, bytes), "reading an array");
    return host;
}

static int same_float(float a, float b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

/* rows of `width` floats; the device's are `pitch` wide, its channels beyond `width` zero. */
static void compare_floats(comparison *run, const char *name, const float *device, const float *expected, int64_t rows,
                           int64_t width, int64_t pitch)
{
    if ((device == NULL) != (expected == NULL)) {
        report(run, name, "taken by one backend only (%" PRId64 "%" PRId64 " %g %g)", 0, 0, 0, 0);
        return;
    }
    if (!device)
        return;
    float *got = fetch(run, device, (size_t)(rows * pitch) * sizeof *got);
    int64_t wrong = 0, first = -1;
    for (int64_t i = 0; i < rows * pitch; i++) {
        const float want = i % pitch < width ? expected[i / pitch * width + i % pitch] : 0;
        if (!same_float(got[i], want)) {
            first = first < 0 ? i : first;
            wrong++;
        }
    }
    if (wrong)
        report(run, name, "element %" PRId64 ", %" PRId64 " in all: %.9g, CPU %.9g", first, wrong, (double)got[first],
               first % pitch < width ? (double)expected[first / pitch * width + first % pitch] : 0.0);
    free(got);
}

static void compare_int8(comparison *run, const char *name, const int8_t *device, const int8_t *expected, int64_t rows,
                         int64_t width, int64_t pitch)
{
    if (!expected)
        return;
    int8_t *got = fetch(run, device, (size_t)(rows * pitch));
    int64_t wrong = 0, first = -1;
    for (int64_t i = 0; i < rows * pitch; i++)
        if (got[i] != (i % pitch < width ? expected[i / pitch * width + i % pitch] : 0)) {
            first = first < 0 ? i : first;
            wrong++;
        }
    if (wrong)
        report(run, name, "element %" PRId64 ", %" PRId64 " in all: %g, CPU %g", first, wrong, (double)got[first],
               first % pitch < width ? (double)expected[first / pitch * width + first % pitch] : 0.0);
    free(got);
}

/* The device's V is transposed, in tiles of 64 keys, those in the tensor cores' order, and padded with zeros. */
static void compare_v8(comparison *run, const cuda_prepared *device, const uint8_t *expected)
{
    if (!expected)
        return;
    const sparge_problem *p = &run->c->problem;
    const int64_t heads = (int64_t)p->batch * p->heads_kv, keys = device->padded_keys, dim = device->padded_dim;
    uint8_t *got = fetch(run, device->v8, (size_t)(heads * keys * dim));
    int64_t wrong = 0, first = -1;
    for (int64_t i = 0; i < heads * keys * dim; i++) {
        const int64_t head = i / keys / dim, tile = i / 64 / dim % (keys / 64), d = i / 64 % dim, at = i % 16;
        /* at = 4 * (t % 8 / 2) + 2 * (t / 8) + t % 2 */
        const int64_t t = tile * 64 + i % 64 / 16 * 16 + at / 4 * 2 + at % 4 / 2 * 8 + at % 2;
        const uint8_t want =
            t < p->seqlen_k && d < p->head_dim ? expected[(head * p->seqlen_k + t) * p->head_dim + d] : 0;
        if (got[i] != want && !((got[i] & 0x7f) == 0x7f && (want & 0x7f) == 0x7f)) {
            first = first < 0 ? i : first;
            wrong++;
        }
    }
    if (wrong)
        report(run, "v8", "element %" PRId64 ", %" PRId64 " in all: code %g (CPU %g)", first, wrong, (double)got[first],
               0);
    free(got);
}

static void compare_prepared(comparison *run, const cuda_prepared *device, const cpu_prepared *host)
{
    const sparge_problem *p = &run->c->problem;
    const int64_t heads_q = (int64_t)p->batch * p->heads_q, heads_kv = (int64_t)p->batch * p->heads_kv;
    const int64_t dim = p->head_dim, padded = device->padded_dim;
    if (device->k_mean)
        compare_floats(run, "k_mean", device->k_mean, host->k_mean, heads_kv, dim, dim);
    compare_int8(run, "q8", device->q8, host->q8, heads_q * p->seqlen_q, dim, padded);
    compare_int8(run, "k8", device->k8, host->k8, heads_kv * p->seqlen_k, dim, padded);
    compare_floats(run, "q_scale", device->q_scale, host->q_scale, heads_q, device->q_scales, device->q_scales);
    compare_floats(run, "k_scale", device->k_scale, host->k_scale, heads_kv, device->k_scales, device->k_scales);
    compare_floats(run, "v_scale", device->v_scale, host->v_scale, heads_kv, dim, padded);
    compare_v8(run, device, host->v8);
}

static void compare_pools(comparison *run, const cuda_prepared *device, const cpu_prepared *host, int64_t rows,
                          int64_t cols)
{
    const sparge_problem *p = &run->c->problem;
    const int64_t heads_q = (int64_t)p->batch * p->heads_q, heads_kv = (int64_t)p->batch * p->heads_kv;
    compare_floats(run, "q_pool", device->q_pool, host->q_pool, heads_q * rows, p->head_dim, p->head_dim);
    compare_floats(run, "k_pool", device->k_pool, host->k_pool, heads_kv * cols, p->head_dim, p->head_dim);
    compare_floats(run, "q_sim", device->q_sim, host->q_sim, heads_q, rows, rows);
    compare_floats(run, "k_sim", device->k_sim, host->k_sim, heads_kv, cols, cols);
}

/* Lists follow from the mask; the order is a permutation. */
static void compare_lists(comparison *run, const cuda_lists *device, const sparge_block_mask *mask)
{
    const sparge_problem *p = &run->c->problem;
    const int64_t row_blocks = (int64_t)mask->batch * mask->heads * mask->rows, blocks = row_blocks * mask->cols;
    uint8_t *got = fetch(run, device->mask, (size_t)blocks);
    int32_t *list = fetch(run, device->list, (size_t)(row_blocks * device->list_stride) * sizeof *list);
    int32_t *count = fetch(run, device->count, (size_t)row_blocks * sizeof *count);
    int32_t *order = fetch(run, device->order, (size_t)row_blocks * sizeof *order);
    uint8_t *seen = allocate((size_t)row_blocks, 1);
    int64_t wrong = 0, first = -1;
    for (int64_t i = 0; i < blocks; i++)
        if (got[i] != mask->value[i]) {
            first = first < 0 ? i : first;
            wrong++;
        }
    if (wrong)
        report(run, "mask", "block %" PRId64 ", %" PRId64 " in all: %g, CPU %g", first, wrong, got[first],
               mask->value[first]);
    const int64_t tiles = (p->seqlen_k + ATTEND_TILE_KEYS - 1) / ATTEND_TILE_KEYS, of_block = mask->block_k / 64;
    for (int64_t r = 0; r < row_blocks; r++) {
        int64_t n = 0, bad = 0;
        for (int64_t tile = 0; tile < tiles; tile++)
            if (mask->value[r * mask->cols + tile / of_block]) {
                bad += n >= count[r] || list[r * device->list_stride + n] != tile;
                n++;
            }
        if (bad || n != count[r]) {
            report(run, "list", "row block %" PRId64 ", %" PRId64 " wrong tiles: count %g, expected %g", r, bad,
                   count[r], (double)n);
            break;
        }
    }
    for (int64_t i = 0; i < row_blocks; i++) {
        if (order[i] < 0 || order[i] >= row_blocks || seen[order[i]]) {
            report(run, "order", "entry %" PRId64 " of %" PRId64 ": %g is no part of a permutation (%g)", i, row_blocks,
                   order[i], 0);
            break;
        }
        seen[order[i]] = 1;
    }
    free(got);
    free(list);
    free(count);
    free(order);
    free(seen);
}

static void compare_counts(comparison *run, const cuda_counts *device, const sparge_stats *stats)
{
    cuda_counts *got = fetch(run, device, sizeof *got);
    if ((int64_t)got->visible != stats->visible)
        report(run, "visible", "%" PRId64 "%" PRId64 "%g, CPU %g", 0, 0, (double)got->visible, (double)stats->visible);
    if ((int64_t)got->qk != stats->qk)
        report(run, "qk", "%" PRId64 "%" PRId64 "%g, CPU %g", 0, 0, (double)got->qk, (double)stats->qk);
    if ((int64_t)got->extra != stats->extra)
        report(run, "extra", "%" PRId64 "%" PRId64 "%g, CPU %g", 0, 0, (double)got->extra, (double)stats->extra);
    free(got);
}

/* q . k_mean * scale, in double. */
static void compare_lse_offset(comparison *run, sparge_context *cpu, const float *device, const sparge_tensor *q,
                               const float *k_mean)
{
    const sparge_problem *p = &run->c->problem;
    const int64_t rows = (int64_t)p->batch * p->heads_q * p->seqlen_q;
    float *got = fetch(run, device, (size_t)rows * sizeof *got);
    float x[SPARGE_MAX_HEAD_DIM];
    for (int64_t r = 0; r < rows; r++) {
        const int64_t bh = r / p->seqlen_q, b = bh / p->heads_q, h = bh % p->heads_q;
        const float *mean = k_mean + (b * p->heads_kv + h / (p->heads_q / p->heads_kv)) * p->head_dim;
        double dot = 0, size = 0;
        cpu_load_row(cpu, q, b, h, r % p->seqlen_q, x);
        for (int32_t d = 0; d < p->head_dim; d++) {
            dot += (double)x[d] * (double)mean[d];
            size += fabs((double)x[d] * (double)mean[d]);
        }
        const double scale = (double)sparge_problem_scale(p), want = dot * scale;
        if (fabs((double)got[r] - want) > 1e-6 * (fabs(want) + 1e-9 * size * scale) + 1e-37 && isfinite(want) &&
            fabs(want) < 3e38) {
            report(run, "lse_offset", "row %" PRId64 " of %" PRId64 ": %.9g, expected %.9g", r, rows, (double)got[r],
                   want);
            break;
        }
    }
    free(got);
}

/* ---- One case ---- */

static void set_parameters(const arrays_case *c, sparge_context *context, sparge_params *params)
{
    char text[256];
    snprintf(text, sizeof text, "%s", c->settings);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        char *value = strchr(word, '=');
        *value = '\0';
        expect(context, sparge_params_set(params, word, value + 1, NULL), word);
    }
    if (!c->per_head)
        return;
    double share[64], theta[64];
    for (int32_t h = 0; h < c->problem.heads_q; h++) {
        share[h] = 0.95 / (h + 1);
        theta[h] = 0.1 * h - 0.2;
    }
    const char *name = strstr(c->settings, "topk") ? "topk" : "tau";
    expect(context, sparge_params_set_heads(params, name, share, (size_t)c->problem.heads_q, NULL), name);
    expect(context, sparge_params_set_heads(params, "theta", theta, (size_t)c->problem.heads_q, NULL), "theta");
}

/* What the stages are about to write. */
static void poison(comparison *run, const cuda_plan *cuda, int stages, int64_t rows, int64_t cols)
{
    const sparge_problem *p = &run->c->problem;
    const cuda_prepared *d = &cuda->prepared;
    const int64_t heads_q = (int64_t)p->batch * p->heads_q, heads_kv = (int64_t)p->batch * p->heads_kv;
    const int64_t dim = p->head_dim, row_blocks = heads_q * rows;
    enum { OF_PREPARE = 12 };
    const struct {
        void *memory;
        int64_t bytes;
    } arrays[] = {
        {d->k_mean, heads_kv * dim * 4},
        {d->q8, heads_q * p->seqlen_q * d->padded_dim},
        {d->k8, heads_kv * p->seqlen_k * d->padded_dim},
        {d->q_scale, heads_q * d->q_scales * 4},
        {d->k_scale, heads_kv * d->k_scales * 4},
        {d->v8, heads_kv * d->padded_dim * d->padded_keys},
        {d->v_scale, heads_kv * d->padded_dim * 4},
        {d->q_pool, row_blocks * dim * 4},
        {d->k_pool, heads_kv * cols * dim * 4},
        {d->q_sim, row_blocks * 4},
        {d->k_sim, heads_kv * cols * 4},
        {d->lse_offset, heads_q * p->seqlen_q * 4},
        {cuda->lists.mask, row_blocks * cols},
        {cuda->lists.list, row_blocks * cuda->lists.list_stride * 4},
        {cuda->lists.count, row_blocks * 4},
        {cuda->lists.order, row_blocks * 4},
        {cuda->counts, (int64_t)sizeof *cuda->counts},
    };
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        if (arrays[i].memory && stages & (i < OF_PREPARE ? SPARGE_STAGE_PREPARE : SPARGE_STAGE_SELECT))
            expect(run->cuda, sparge_fill(run->cuda, arrays[i].memory, 0xff, (size_t)arrays[i].bytes), "poison");
}

static void compare_plans(comparison *run, const sparge_plan *cpu, const sparge_plan *cuda, const sparge_io *io)
{
    const cpu_plan *host = cpu_plan_of(cpu);
    const cuda_plan *device = cuda_plan_of(cuda);
    if (sparge_plan_stages(cpu) & SPARGE_STAGE_PREPARE) {
        compare_prepared(run, &device->prepared, &host->prepared);
        if (device->prepared.lse_offset)
            compare_lse_offset(run, cpu->context, device->prepared.lse_offset, &io->q, host->prepared.k_mean);
    }
    if (sparge_plan_stages(cpu) & SPARGE_STAGE_SELECT)
        compare_pools(run, &device->prepared, &host->prepared, host->mask.rows, host->mask.cols);
    if (device->lists.mask)
        compare_lists(run, &device->lists, &host->mask);
    compare_counts(run, device->counts, &host->stats);
}

int arrays_compare(sparge_context *cpu, sparge_context *cuda, const arrays_case *c)
{
    const sparge_problem *p = &c->problem;
    comparison run = {.cuda = cuda, .c = c};
    sparge_params *params;
    sparge_plan *cpu_made, *cuda_made;
    side q, k, v, o;
    const sparge_method *method = sparge_method_find(c->method);
    expect(cpu, method ? sparge_params_create(method, &params) : SPARGE_ERROR_INVALID_ARGUMENT, c->method);
    set_parameters(c, cpu, params);
    expect(cpu, sparge_plan_create(cpu, params, p, &cpu_made), "CPU plan");
    expect(cuda, sparge_plan_create(cuda, params, p, &cuda_made), "CUDA plan");
    open_side(c, cuda, &q, p->heads_q, p->seqlen_q, 0, c->seed * 4 + 1);
    open_side(c, cuda, &k, p->heads_kv, p->seqlen_k, 1, c->seed * 4 + 2);
    open_side(c, cuda, &v, p->heads_kv, p->seqlen_k, 0, c->seed * 4 + 3);
    open_side(c, cuda, &o, p->heads_q, p->seqlen_q, 0, c->seed * 4);
    void *lse;
    expect(cuda, sparge_alloc(cuda, (size_t)p->batch * (size_t)p->heads_q * (size_t)p->seqlen_q * sizeof(float), &lse),
           "LSE");
    const sparge_io on_host = {.q = q.on_host, .k = k.on_host, .v = v.on_host, .o = o.on_host};
    const sparge_io on_device = {.q = q.on_device, .k = k.on_device, .v = v.on_device, .o = o.on_device, .lse = lse};
    const int stages = sparge_plan_stages(cpu_made) & (SPARGE_STAGE_PREPARE | SPARGE_STAGE_SELECT);
    const int64_t rows = (p->seqlen_q + cuda_made->recipe.block_q - 1) / cuda_made->recipe.block_q;
    const int64_t cols = (p->seqlen_k + cuda_made->recipe.block_k - 1) / cuda_made->recipe.block_k;
    for (int again = 0; stages && again < 2; again++) {
        poison(&run, cuda_plan_of(cuda_made), stages, rows, cols);
        expect(cuda, sparge_plan_run(cuda_made, stages, &on_device), "CUDA run");
    }
    if (stages)
        expect(cpu, sparge_plan_run(cpu_made, stages, &on_host), "CPU run");
    compare_plans(&run, cpu_made, cuda_made, &on_host);
    sparge_plan_destroy(cpu_made);
    sparge_plan_destroy(cuda_made);
    sparge_params_destroy(params);
    sparge_free(cuda, lse);
    close_side(cuda, &q);
    close_side(cuda, &k);
    close_side(cuda, &v);
    close_side(cuda, &o);
    return run.differences;
}

/* ---- Random cases ---- */

/* What parity mode takes, from what fixed mode does. */
static void make_parity(sparge_problem *p, char *text, size_t size)
{
    const size_t used = strlen(text);
    p->heads_kv = p->heads_q;
    p->head_dim = p->head_dim <= 64 ? 64 : 128;
    p->seqlen_q += 127;
    if (p->causal == SPARGE_CAUSAL_BOTTOM_RIGHT)
        p->seqlen_k = p->seqlen_q;
    snprintf(text + used, size - used, "%s compat=upstream", strstr(text, "scales") ? " scales=block" : "");
}

arrays_case arrays_random(uint64_t seed, int64_t largest)
{
    static const int32_t heads[][2] = {{1, 1}, {2, 2}, {4, 2}, {3, 1}, {6, 3}};
    static const int32_t dims[] = {40, 64, 96, 128, 33, 100, 8, 128};
    static const char *const shapes[] = {"block_q=128 block_k=64", "block_q=64 block_k=128", "block_q=64 block_k=64",
                                         "block_q=128 block_k=128"};
    static const char *const picks[] = {"tau=0.98",
                                        "tau=0.5",
                                        "tau=0.9 theta=-1",
                                        "tau=1",
                                        "tau=0",
                                        "topk=0.3",
                                        "topk=0.5 theta=0.3",
                                        "topk=0.01",
                                        "tau=0.7 theta=0.2",
                                        "topk=1",
                                        "tau=0.95 sink=on",
                                        "topk=0.2 sink=on"};
    static const char *const scales[] = {"block", "warp", "thread"};
    static const char *const sparge[] = {"sparge-int8-fp8", "sparge-int8-f16", "sparge-f16"};
    static const char *const dense[] = {"dense-int8-fp8", "dense-int8-f16"};
    static char settings[8][256]; /* of the last cases */
    uint64_t state = seed;
    char *text = settings[seed % 8];
    const int32_t *h = heads[between(&state, 0, 4)];
    arrays_case c = {
        .problem = {.batch = (int32_t)between(&state, 1, 2),
                    .heads_q = h[0],
                    .heads_kv = h[1],
                    .seqlen_q = between(&state, 1, largest),
                    .seqlen_k = between(&state, 1, largest),
                    .head_dim = dims[between(&state, 0, 7)],
                    .dtype = between(&state, 0, 1) ? SPARGE_F16 : SPARGE_BF16,
                    .causal = (sparge_causal)between(&state, 0, 2),
                    .scale = between(&state, 0, 2) ? 0 : 0.7f},
        .settings = text,
        .content = (arrays_content)between(&state, 0, ARRAYS_CONTENTS - 1),
        .layout = (int)between(&state, 0, 3),
        .seed = seed,
    };
    const char *shape = shapes[between(&state, 0, 3)], *smooth = between(&state, 0, 3) ? "on" : "off";
    switch (between(&state, 0, 5)) {
    case 0:
        c.method = dense[between(&state, 0, 1)];
        snprintf(text, sizeof settings[0], "%s smooth_k=%s scales=%s", shape, smooth, scales[between(&state, 0, 2)]);
        break;
    case 1:
        c.method = "minference-block";
        c.problem.causal = c.problem.causal == SPARGE_CAUSAL_TOP_LEFT ? SPARGE_CAUSAL_NONE : c.problem.causal;
        if (between(&state, 0, 1))
            snprintf(text, sizeof settings[0], "k=%" PRId64, between(&state, 1, 6));
        else
            snprintf(text, sizeof settings[0], "sparsity=0.%" PRId64, between(&state, 0, 9));
        break;
    default:
        c.method = sparge[between(&state, 0, 2)];
        snprintf(text, sizeof settings[0], "%s smooth_k=%s %s scales=%s", shape, smooth, picks[between(&state, 0, 11)],
                 scales[between(&state, 0, 2)]);
        c.per_head = between(&state, 0, 3) == 0;
        break;
    }
    if (strncmp(c.method, "dense", 5) != 0 && between(&state, 0, 3) == 0)
        make_parity(&c.problem, text, sizeof settings[0]);
    return c;
}
