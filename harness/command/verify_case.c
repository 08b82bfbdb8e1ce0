/* Shapes, the reference over kept pairs, and the comparison. */
#include "command/verify_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure/errors.h"

#define SELF(l) .seqlen_q = (l), .seqlen_k = (l)

const sb_verify_shape sb_verify_shapes[] = {
    {"whole blocks", {.batch = 1, .heads_q = 2, .heads_kv = 2, SELF(256), .head_dim = 64, .dtype = SPARGE_F16}},
    {"ragged, GQA", {.batch = 2, .heads_q = 2, .heads_kv = 1, SELF(300), .head_dim = 128, .dtype = SPARGE_F16}},
    {"ragged, D 96, bf16", {.batch = 1, .heads_q = 2, .heads_kv = 2, SELF(321), .head_dim = 96, .dtype = SPARGE_BF16}},
    {"causal",
     {.batch = 1,
      .heads_q = 2,
      .heads_kv = 2,
      SELF(384),
      .head_dim = 64,
      .dtype = SPARGE_F16,
      .causal = SPARGE_CAUSAL_BOTTOM_RIGHT}},
    {"causal, ragged, GQA, bf16",
     {.batch = 1,
      .heads_q = 4,
      .heads_kv = 2,
      SELF(333),
      .head_dim = 128,
      .dtype = SPARGE_BF16,
      .causal = SPARGE_CAUSAL_BOTTOM_RIGHT}},
    {"more keys, bottom-right",
     {.batch = 1,
      .heads_q = 2,
      .heads_kv = 2,
      .seqlen_q = 130,
      .seqlen_k = 300,
      .head_dim = 64,
      .dtype = SPARGE_F16,
      .causal = SPARGE_CAUSAL_BOTTOM_RIGHT}},
    {"queries without keys",
     {.batch = 1,
      .heads_q = 1,
      .heads_kv = 1,
      .seqlen_q = 300,
      .seqlen_k = 130,
      .head_dim = 64,
      .dtype = SPARGE_F16,
      .causal = SPARGE_CAUSAL_BOTTOM_RIGHT}},
    {"fewer keys, top-left",
     {.batch = 1,
      .heads_q = 1,
      .heads_kv = 1,
      .seqlen_q = 300,
      .seqlen_k = 130,
      .head_dim = 80,
      .dtype = SPARGE_F16,
      .causal = SPARGE_CAUSAL_TOP_LEFT}},
    {"grid 7x9x10 and text",
     {.batch = 1,
      .heads_q = 1,
      .heads_kv = 1,
      SELF(650),
      .head_dim = 64,
      .dtype = SPARGE_F16,
      .grid = {.t = 7, .h = 9, .w = 10, .text_before = 8, .text_after = 12}}},
};
const size_t sb_verify_shape_count = sizeof sb_verify_shapes / sizeof *sb_verify_shapes;

/* What an arithmetic may differ from the exact result of the same pairs: rounding of P, V, O, and of INT8 Q and K.
 * LSE in nats. Measured on these shapes, times two or more. */
typedef struct bounds {
    const char *arithmetic;
    sparge_dtype dtype;
    double rel_l1, lse;
} bounds;

static const bounds bounds_table[] = {
    {"f16", SPARGE_F16, 1e-3, 1e-4},       {"f16", SPARGE_BF16, 5e-3, 1e-4},     {"int8-f16", SPARGE_F16, 4e-2, 0.15},
    {"int8-f16", SPARGE_BF16, 4e-2, 0.15}, {"int8-fp8", SPARGE_F16, 8e-2, 0.15}, {"int8-fp8", SPARGE_BF16, 8e-2, 0.15},
};

static const bounds *find_bounds(const char *arithmetic, sparge_dtype dtype)
{
    for (size_t i = 0; i < sizeof bounds_table / sizeof *bounds_table; i++)
        if (strcmp(bounds_table[i].arithmetic, arithmetic) == 0 && bounds_table[i].dtype == dtype)
            return &bounds_table[i];
    return NULL;
}

/* --- inputs --- */

/* A 16-bit tensor of the backend as doubles. NULL after *status. */
static double *download(sparge_context *context, const sparge_tensor *tensor, sparge_status *status)
{
    size_t bytes = 0;
    if (sb_tensor_bytes(tensor, &bytes) != 0) {
        *status = SPARGE_ERROR_INTERNAL;
        return NULL;
    }
    size_t values = bytes / sizeof(uint16_t);
    uint16_t *raw = malloc(bytes);
    double *out = malloc(values * sizeof *out);
    *status = raw && out ? sparge_download(context, raw, tensor->data, bytes) : SPARGE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < values && *status == SPARGE_OK; i++)
        out[i] = (double)(tensor->dtype == SPARGE_F16 ? sparge_f32_from_f16(raw[i]) : sparge_f32_from_bf16(raw[i]));
    free(raw);
    if (*status != SPARGE_OK) {
        free(out);
        return NULL;
    }
    return out;
}

sparge_status sb_verify_inputs_create(sparge_context *context, const sb_verify_shape *shape, uint64_t seed,
                                      sb_verify_inputs *inputs, sparge_error *error)
{
    const sparge_problem *p = &shape->problem;
    /* Structured, so that sparse methods have something to select. */
    wl_workload workload = {
        .name = "verify",
        .kind = WL_SYNTHETIC,
        .problem = *p,
        .generator = {.kind = SPARGE_GENERATE_STRUCTURED,
                      .seed = seed,
                      .heads_q = p->heads_q,
                      .heads_kv = p->heads_kv,
                      .grid = p->grid,
                      .correlation = 0.8F,
                      .scale_length = 24.0F,
                      .sharpness = 1.5F,
                      .channel_offset = 1.0F,
                      .query_offset = 1.0F,
                      .sink_strength = 2.0F,
                      .sink_tokens = 2,
                      .head_spread = 0.2F},
        .order = WL_ORDER_ROW,
    };
    memset(inputs, 0, sizeof *inputs);
    inputs->shape = shape;
    sparge_status status = sb_inputs_create(context, &workload, &inputs->inputs, error);
    if (status != SPARGE_OK)
        return status;
    inputs->q = download(context, &inputs->inputs.q, &status);
    if (status == SPARGE_OK)
        inputs->k = download(context, &inputs->inputs.k, &status);
    if (status == SPARGE_OK)
        inputs->v = download(context, &inputs->inputs.v, &status);
    if (status != SPARGE_OK) {
        sparge_fail(error, status, "inputs of '%s': %s", shape->name, sparge_error_string(context));
        sb_verify_inputs_release(context, inputs);
    }
    return status;
}

void sb_verify_inputs_release(sparge_context *context, sb_verify_inputs *inputs)
{
    sb_inputs_release(context, &inputs->inputs);
    free(inputs->q);
    free(inputs->k);
    free(inputs->v);
    memset(inputs, 0, sizeof *inputs);
}

/* --- the reference --- */

/* Four sums, so that the additions need not wait for each other. */
static double dot(const double *a, const double *b, int32_t width)
{
    double sum[4] = {0.0};
    int32_t d = 0;
    for (; d + 4 <= width; d += 4)
        for (int32_t lane = 0; lane < 4; lane++)
            sum[lane] += a[d + lane] * b[d + lane];
    for (; d < width; d++)
        sum[0] += a[d] * b[d];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* o[0..D) and lse of one query over the keys with kept[j] != 0 (kept NULL: the visible ones). score: Lk values. */
static void attend_row(const sparge_problem *p, const double *q, const double *k, const double *v, int64_t query,
                       const uint8_t *kept, double *score, double *o, double *lse)
{
    int64_t end = sparge_problem_visible_end(p, query);
    int32_t width = p->head_dim;
    double largest = -INFINITY, sum = 0.0, scale = 1.0 / sqrt((double)width);
    for (int64_t j = 0; j < end; j++) {
        score[j] = -INFINITY;
        if (kept && !kept[j])
            continue;
        score[j] = dot(q, k + j * width, width) * scale;
        largest = fmax(largest, score[j]);
    }
    for (int32_t d = 0; d < width; d++)
        o[d] = 0.0;
    for (int64_t j = 0; j < end; j++) {
        if (isinf(score[j]))
            continue;
        double weight = exp(score[j] - largest);
        sum += weight;
        for (int32_t d = 0; d < width; d++)
            o[d] += weight * v[j * width + d];
    }
    for (int32_t d = 0; d < width && sum > 0.0; d++)
        o[d] /= sum;
    *lse = sum > 0.0 ? largest + log(sum) : -INFINITY;
}

/* All rows of one head. */
static void attend_head(const sb_verify_inputs *in, int32_t b, int32_t h, const uint8_t *kept, double *score, double *o,
                        double *lse)
{
    const sparge_problem *p = &in->shape->problem;
    int64_t width = p->head_dim, kv = (int64_t)b * p->heads_kv + h / (p->heads_q / p->heads_kv);
    const double *q = in->q + ((int64_t)b * p->heads_q + h) * p->seqlen_q * width;
    const double *k = in->k + kv * p->seqlen_k * width, *v = in->v + kv * p->seqlen_k * width;
    for (int64_t i = 0; i < p->seqlen_q; i++)
        attend_row(p, q + i * width, k, v, i, kept ? kept + i * p->seqlen_k : NULL, score, o + i * width, &lse[i]);
}

/* --- comparison --- */

typedef struct buffers {
    uint8_t *kept;
    double *score, *o, *lse; /* of one head */
    float *row;
    double *measured; /* the whole output */
    float *measured_lse;
} buffers;

static int take_buffers(const sparge_problem *p, buffers *b)
{
    size_t lq = (size_t)p->seqlen_q, lk = (size_t)p->seqlen_k, width = (size_t)p->head_dim;
    *b = (buffers){
        .kept = malloc(lq * lk),
        .score = malloc(lk * sizeof(double)),
        .o = malloc(lq * width * sizeof(double)),
        .lse = malloc(lq * sizeof(double)),
        .row = malloc(width * sizeof(float)),
    };
    return b->kept && b->score && b->o && b->lse && b->row ? 0 : -1;
}

static void release_buffers(buffers *b)
{
    free(b->kept);
    free(b->score);
    free(b->o);
    free(b->lse);
    free(b->row);
    free(b->measured);
    free(b->measured_lse);
}

static int64_t count_invisible(const sparge_problem *p, const uint8_t *kept)
{
    int64_t count = 0;
    for (int64_t i = 0; i < p->seqlen_q; i++)
        for (int64_t j = sparge_problem_visible_end(p, i); j < p->seqlen_k; j++)
            count += kept[i * p->seqlen_k + j] != 0;
    return count;
}

static double lse_difference(double exact, float measured)
{
    if (isinf(exact) || !isfinite(measured))
        return isinf(exact) && isinf(measured) && measured < 0 ? 0.0 : INFINITY;
    return fabs(exact - (double)measured);
}

static sparge_status compare_heads(const sb_verify_inputs *in, sparge_plan *plan, buffers *b, sb_verify_result *result)
{
    const sparge_problem *p = &in->shape->problem;
    size_t width = (size_t)p->head_dim;
    sb_error_sums sums = {0};
    for (int32_t batch = 0; batch < p->batch; batch++)
        for (int32_t head = 0; head < p->heads_q; head++) {
            sparge_status status = sparge_plan_get_pairs(plan, batch, head, b->kept);
            if (status != SPARGE_OK)
                return status;
            result->invisible += count_invisible(p, b->kept);
            attend_head(in, batch, head, b->kept, b->score, b->o, b->lse);
            int64_t first = ((int64_t)batch * p->heads_q + head) * p->seqlen_q;
            for (int64_t i = 0; i < p->seqlen_q; i++) {
                for (size_t d = 0; d < width; d++)
                    b->row[d] = (float)b->measured[(size_t)(first + i) * width + d];
                sb_errors_add(&sums, b->o + (size_t)i * width, b->row, width);
                result->lse_error = fmax(result->lse_error, lse_difference(b->lse[i], b->measured_lse[first + i]));
            }
        }
    sb_errors errors = sb_errors_of(&sums);
    result->rel_l1 = errors.rel_l1;
    result->nonfinite = errors.nonfinite;
    return SPARGE_OK;
}

/* Runs the plan into memory that starts as NaN and brings output and LSE to the host. */
static sparge_status run_plan(sparge_context *context, sparge_plan *plan, const sb_verify_inputs *in, buffers *b)
{
    const sparge_problem *p = &in->shape->problem;
    sparge_io io = {.q = in->inputs.q, .k = in->inputs.k, .v = in->inputs.v, .o = in->inputs.q};
    size_t o_bytes, lse_bytes = (size_t)p->batch * (size_t)p->heads_q * (size_t)p->seqlen_q * sizeof(float);
    if (sb_tensor_bytes(&io.o, &o_bytes) != 0)
        return SPARGE_ERROR_INTERNAL;
    void *lse = NULL;
    io.o.data = NULL;
    b->measured_lse = malloc(lse_bytes);
    sparge_status status = b->measured_lse ? SPARGE_OK : SPARGE_ERROR_OUT_OF_MEMORY;
    if (status == SPARGE_OK)
        status = sparge_alloc(context, o_bytes, &io.o.data);
    if (status == SPARGE_OK)
        status = sparge_alloc(context, lse_bytes, &lse);
    io.lse = lse;
    if (status == SPARGE_OK)
        status = sparge_fill(context, io.o.data, 0xff, o_bytes);
    if (status == SPARGE_OK)
        status = sparge_fill(context, lse, 0xff, lse_bytes);
    if (status == SPARGE_OK)
        status = sparge_plan_run(plan, SPARGE_STAGE_ALL, &io);
    if (status == SPARGE_OK)
        status = sparge_synchronize(context);
    if (status == SPARGE_OK)
        b->measured = download(context, &io.o, &status);
    if (status == SPARGE_OK)
        status = sparge_download(context, b->measured_lse, lse, lse_bytes);
    sparge_free(context, lse);
    sparge_free(context, io.o.data);
    return status;
}

sparge_status sb_verify_run(sparge_context *context, const sb_verify_inputs *inputs, const sparge_params *params,
                            const char *arithmetic, sb_verify_result *result, sparge_error *error)
{
    const sparge_problem *p = &inputs->shape->problem;
    memset(result, 0, sizeof *result);
    const bounds *limit = find_bounds(arithmetic, p->dtype);
    if (!limit)
        return sparge_fail(error, SPARGE_ERROR_INTERNAL, "no bounds for %s in %s", arithmetic,
                           sparge_dtype_name(p->dtype));
    sparge_status status = sparge_params_check(params, p, error);
    if (status != SPARGE_OK)
        return status;
    sparge_plan *plan = NULL;
    buffers b = {0};
    sparge_stats stats = {0};
    status = sparge_plan_create(context, params, p, &plan);
    if (status == SPARGE_OK && take_buffers(p, &b) != 0)
        status = SPARGE_ERROR_OUT_OF_MEMORY;
    if (status == SPARGE_OK)
        status = run_plan(context, plan, inputs, &b);
    if (status == SPARGE_OK)
        status = sparge_plan_get_stats(plan, &stats);
    if (status == SPARGE_OK)
        status = compare_heads(inputs, plan, &b, result);
    if (status != SPARGE_OK) {
        const char *text = sparge_error_string(context);
        sparge_fail(error, status, "%s", text[0] ? text : sparge_status_name(status));
    }
    release_buffers(&b);
    sparge_plan_destroy(plan);
    result->sparsity = stats.sparsity;
    result->rel_l1_bound = limit->rel_l1;
    result->lse_bound = limit->lse;
    result->passed = status == SPARGE_OK && result->nonfinite == 0 && result->invisible == 0 &&
                     result->rel_l1 <= limit->rel_l1 && result->lse_error <= limit->lse;
    return status;
}

sparge_status sb_verify_exact(sparge_context *context, const sb_verify_inputs *inputs, double *difference,
                              sparge_error *error)
{
    const sparge_problem *p = &inputs->shape->problem;
    const sb_inputs *in = &inputs->inputs;
    size_t head = (size_t)p->seqlen_q * (size_t)p->head_dim;
    size_t heads = (size_t)p->batch * (size_t)p->heads_q;
    double *exact = malloc(heads * head * sizeof *exact), largest = 0.0;
    buffers b = {0};
    sparge_status status = exact && take_buffers(p, &b) == 0 ? SPARGE_OK : SPARGE_ERROR_OUT_OF_MEMORY;
    *difference = 0.0;
    if (status == SPARGE_OK)
        status = sparge_exact(context, p, &in->q, &in->k, &in->v, NULL, p->seqlen_q, exact, NULL);
    for (size_t h = 0; h < heads && status == SPARGE_OK; h++) {
        attend_head(inputs, (int32_t)(h / (size_t)p->heads_q), (int32_t)(h % (size_t)p->heads_q), NULL, b.score, b.o,
                    b.lse);
        for (size_t i = 0; i < head; i++) {
            *difference = fmax(*difference, fabs(b.o[i] - exact[h * head + i]));
            largest = fmax(largest, fabs(b.o[i]));
        }
    }
    *difference /= largest > 0.0 ? largest : 1.0;
    if (status != SPARGE_OK)
        sparge_fail(error, status, "exact attention: %s", sparge_error_string(context));
    release_buffers(&b);
    free(exact);
    return status;
}
