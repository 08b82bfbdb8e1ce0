#include "attend_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/context.h"

enum { POISON_ELEMENTS = 256, POISON_16 = 0xffff, ROW_PADDING = 24 };

static void require(int holds, const attend_case *c, const char *what)
{
    if (!holds)
        fail_msg("%s: %s", what, c->context ? sparge_error_string(c->context) : "no context");
}

static sparge_tensor make_tensor(attend_case *c, int index, int64_t heads, int64_t tokens, case_layout layout)
{
    const sparge_problem *p = &c->problem;
    const int64_t row = p->head_dim + (layout == CASE_PADDED_ROWS ? ROW_PADDING : 0);
    c->elements[index] = (size_t)(p->batch * heads * tokens * row) + 2 * POISON_ELEMENTS;
    c->memory[index] = malloc(c->elements[index] * sizeof *c->memory[index]);
    assert_non_null(c->memory[index]);
    memset(c->memory[index], 0xff, c->elements[index] * sizeof *c->memory[index]);
    uint16_t *data = c->memory[index] + POISON_ELEMENTS;
    sparge_tensor tensor = layout == CASE_NHD ? sparge_tensor_nhd(data, p->dtype, p->batch, heads, tokens, p->head_dim)
                                              : sparge_tensor_hnd(data, p->dtype, p->batch, heads, tokens, p->head_dim);
    if (layout == CASE_PADDED_ROWS) {
        tensor.stride[2] = row;
        tensor.stride[1] = tokens * row;
        tensor.stride[0] = heads * tokens * row;
    }
    return tensor;
}

static void for_each_element(const sparge_tensor *tensor, void (*visit)(uint16_t *element, void *user), void *user)
{
    for (int64_t b = 0; b < tensor->shape[0]; b++)
        for (int64_t h = 0; h < tensor->shape[1]; h++)
            for (int64_t t = 0; t < tensor->shape[2]; t++)
                for (int64_t d = 0; d < tensor->shape[3]; d++)
                    visit((uint16_t *)tensor->data + b * tensor->stride[0] + h * tensor->stride[1] +
                              t * tensor->stride[2] + d,
                          user);
}

static void set_zero(uint16_t *element, void *user)
{
    (void)user;
    *element = 0;
}

void case_open(attend_case *c, const sparge_problem *problem, case_layout layout, int threads, const char *isa)
{
    sparge_error error = {0};
    memset(c, 0, sizeof *c);
    if (sparge_context_create("cpu", 0, threads, &c->context, &error) != SPARGE_OK)
        fail_msg("%s", error.text);
    if (isa)
        require(cpu_context_use_isa(c->context, isa) == SPARGE_OK, c, "isa");
    c->problem = *problem;
    require(sparge_problem_check(problem, &c->context->error) == SPARGE_OK, c, "problem");
    sparge_tensor *tensors[] = {&c->io.q, &c->io.k, &c->io.v, &c->io.o};
    for (int i = 0; i < 4; i++) {
        const int of_k = i == 1 || i == 2;
        *tensors[i] = make_tensor(c, i, of_k ? problem->heads_kv : problem->heads_q,
                                  of_k ? problem->seqlen_k : problem->seqlen_q, layout);
        if (i < 3)
            for_each_element(tensors[i], set_zero, NULL);
    }
    c->lse_count = (size_t)(problem->batch * problem->heads_q * problem->seqlen_q);
    c->lse_memory = malloc((c->lse_count + 2 * POISON_ELEMENTS) * sizeof *c->lse_memory);
    assert_non_null(c->lse_memory);
    memset(c->lse_memory, 0xff, (c->lse_count + 2 * POISON_ELEMENTS) * sizeof *c->lse_memory);
    c->lse = c->io.lse = c->lse_memory + POISON_ELEMENTS;
}

void case_close(attend_case *c)
{
    if (c->plan.state)
        sparge_backend_cpu.plan_destroy(&c->plan);
    for (int i = 0; i < 4; i++)
        free(c->memory[i]);
    free(c->lse_memory);
    sparge_context_destroy(c->context);
}

sparge_recipe case_recipe(sparge_arithmetic arithmetic)
{
    return (sparge_recipe){.method = sparge_method_find("dense-f16"),
                           .arithmetic = arithmetic,
                           .select = SPARGE_SELECT_ALL,
                           .exp = SPARGE_EXP_ACCURATE,
                           .scales = SPARGE_SCALES_BLOCK,
                           .block_q = 128,
                           .block_k = 64,
                           .smooth_k = arithmetic != SPARGE_ARITHMETIC_F16,
                           .fp8_v_max = 448.0f,
                           .lambda = {.uniform = -INFINITY},
                           .pv_unit = 128,
                           .pv_keeps_denominator = 1};
}

double case_get(const sparge_tensor *tensor, int64_t batch, int64_t head, int64_t token, int64_t channel)
{
    const uint16_t *at = (const uint16_t *)tensor->data + batch * tensor->stride[0] + head * tensor->stride[1] +
                         token * tensor->stride[2] + channel;
    return (double)(tensor->dtype == SPARGE_F16 ? sparge_f32_from_f16(*at) : sparge_f32_from_bf16(*at));
}

void case_set(const sparge_tensor *tensor, int64_t batch, int64_t head, int64_t token, int64_t channel, double value)
{
    uint16_t *at = (uint16_t *)tensor->data + batch * tensor->stride[0] + head * tensor->stride[1] +
                   token * tensor->stride[2] + channel;
    *at = tensor->dtype == SPARGE_F16 ? sparge_f16_from_f32((float)value) : sparge_bf16_from_f32((float)value);
}

static void fill(const sparge_tensor *tensor, oracle_rng *rng, double factor, double offset)
{
    for (int64_t b = 0; b < tensor->shape[0]; b++)
        for (int64_t h = 0; h < tensor->shape[1]; h++)
            for (int64_t d = 0; d < tensor->shape[3]; d++) {
                const double constant = offset * oracle_rng_normal(rng);
                for (int64_t t = 0; t < tensor->shape[2]; t++)
                    case_set(tensor, b, h, t, d, factor * oracle_rng_normal(rng) + constant);
            }
}

void case_fill_normal(attend_case *c, uint64_t seed, double sharpness, double k_offset)
{
    oracle_rng rng = oracle_rng_seed(seed);
    fill(&c->io.q, &rng, sharpness, 0);
    fill(&c->io.k, &rng, 1, k_offset);
    fill(&c->io.v, &rng, 1, 0);
}

void case_plan(attend_case *c, const uint8_t *mask)
{
    if (c->plan.state)
        sparge_backend_cpu.plan_destroy(&c->plan);
    c->plan = (sparge_plan){.context = c->context, .problem = c->problem, .recipe = c->recipe};
    require(sparge_backend_cpu.plan_create(&c->plan) == SPARGE_OK, c, "plan");
    if (!mask)
        return;
    const sparge_block_mask *own = &cpu_plan_of(&c->plan)->mask;
    const int64_t blocks = (int64_t)own->batch * own->heads * own->rows * own->cols;
    for (int64_t i = 0; i < blocks; i++)
        own->value[i] = own->value[i] && mask[i];
    require(cpu_worklist_from_mask(&c->plan) == SPARGE_OK, c, "worklist");
}

void case_run(attend_case *c, int stages)
{
    require(sparge_backend_cpu.plan_run(&c->plan, stages, &c->io) == SPARGE_OK, c, "run");
}

double *case_head(const sparge_tensor *tensor, int64_t batch, int64_t head)
{
    const int64_t tokens = tensor->shape[2], channels = tensor->shape[3];
    double *dense = oracle_alloc((size_t)(tokens * channels), sizeof *dense);
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t d = 0; d < channels; d++)
            dense[t * channels + d] = case_get(tensor, batch, head, t, d);
    return dense;
}

double *case_output(const attend_case *c, int64_t batch, int64_t head)
{
    return case_head(&c->io.o, batch, head);
}

void case_oracle(const attend_case *c, int64_t batch, int64_t head, const uint8_t *keep, double *o, double *lse)
{
    const sparge_problem *p = &c->problem;
    const int64_t head_kv = oracle_kv_head(head, p->heads_q, p->heads_kv);
    const oracle_shape shape = {.lq = p->seqlen_q,
                                .lk = p->seqlen_k,
                                .dim = p->head_dim,
                                .causal = p->causal == SPARGE_CAUSAL_NONE       ? ORACLE_FULL
                                          : p->causal == SPARGE_CAUSAL_TOP_LEFT ? ORACLE_TOP_LEFT
                                                                                : ORACLE_BOTTOM_RIGHT,
                                .scale = p->scale > 0 ? (double)p->scale : 1 / sqrt((double)p->head_dim)};
    double *q = case_head(&c->io.q, batch, head), *k = case_head(&c->io.k, batch, head_kv);
    double *v = case_head(&c->io.v, batch, head_kv);
    oracle_attention(&shape, q, k, v, keep, o, lse);
    free(q);
    free(k);
    free(v);
}

static void poison_element(uint16_t *element, void *user)
{
    *element = POISON_16; /* from here on only the poison is of interest */
    (void)user;
}

int case_poison_intact(const attend_case *c)
{
    /* A copy of o's memory with its elements poisoned again must be poison all over. */
    uint16_t *copy = malloc(c->elements[3] * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, c->memory[3], c->elements[3] * sizeof *copy);
    sparge_tensor o = c->io.o;
    o.data = copy + POISON_ELEMENTS;
    for_each_element(&o, poison_element, NULL);
    int intact = 1;
    for (size_t i = 0; i < c->elements[3]; i++)
        intact &= copy[i] == POISON_16;
    free(copy);
    for (size_t i = 0; i < POISON_ELEMENTS; i++)
        intact &= isnan(c->lse_memory[i]) && isnan(c->lse_memory[POISON_ELEMENTS + c->lse_count + i]);
    return intact;
}

double rel_l2(const double *a, const double *b, int64_t count)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    return norm > 0 ? sqrt(difference / norm) : sqrt(difference);
}
