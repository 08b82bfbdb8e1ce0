/* Problems and data for the tests of selection. */
#include "select_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

uint64_t case_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int64_t case_between(uint64_t *state, int64_t low, int64_t high)
{
    return low + (int64_t)(case_random(state) % (uint64_t)(high - low + 1));
}

double case_uniform(uint64_t *state)
{
    return (double)(case_random(state) >> 11) * 0x1p-53;
}

double case_normal(uint64_t *state)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += case_uniform(state);
    return sum;
}

sparge_problem case_problem(uint64_t *state, int64_t max_tokens, int equal)
{
    static const int32_t heads[][2] = {{1, 1}, {2, 2}, {4, 2}, {3, 1}}, dims[] = {16, 40, 64, 128};
    const int32_t *h = heads[case_between(state, 0, 3)];
    sparge_problem p = {
        .batch = (int32_t)case_between(state, 1, 2),
        .heads_q = h[0],
        .heads_kv = h[1],
        .seqlen_q = case_between(state, 1, max_tokens),
        .seqlen_k = case_between(state, 1, max_tokens),
        .head_dim = dims[case_between(state, 0, 3)],
        .dtype = case_between(state, 0, 1) ? SPARGE_F16 : SPARGE_BF16,
        .causal = (sparge_causal)case_between(state, 0, 2),
    };
    if (case_between(state, 0, 3) == 0)
        p.scale = 0.05F;
    if (equal)
        p.seqlen_k = p.seqlen_q;
    return p;
}

static void *take(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);
    assert_non_null(memory);
    return memory;
}

/* One head: a drifting direction plus noise; every fourth stretch of 96 tokens is noise alone. */
static void fill(uint16_t *code, double *value, int64_t tokens, int32_t channels, sparge_dtype dtype, double offset,
                 uint64_t *state)
{
    double drift[SPARGE_MAX_HEAD_DIM];
    for (int32_t d = 0; d < channels; d++)
        drift[d] = case_normal(state);
    for (int64_t t = 0; t < tokens; t++)
        for (int32_t d = 0; d < channels; d++) {
            drift[d] = 0.98 * drift[d] + 0.2 * case_normal(state);
            const double smooth = t / 96 % 4 == 3 ? 0 : drift[d];
            const float x = (float)(smooth + 0.4 * case_normal(state) + offset * (d % 3));
            const int64_t at = t * channels + d;
            code[at] = dtype == SPARGE_F16 ? sparge_f16_from_f32(x) : sparge_bf16_from_f32(x);
            value[at] = dtype == SPARGE_F16 ? sparge_f32_from_f16(code[at]) : sparge_f32_from_bf16(code[at]);
        }
}

void case_open(select_case *c, const sparge_problem *problem, uint64_t *state)
{
    sparge_error error = {0};
    *c = (select_case){.problem = *problem};
    const sparge_problem *p = &c->problem;
    if (sparge_context_create("cpu", 0, 0, &c->context, &error) != SPARGE_OK)
        fail_msg("%s", error.text);
    const size_t q_size = (size_t)(p->batch * p->seqlen_q * p->head_dim) * (size_t)p->heads_q;
    const size_t k_size = (size_t)(p->batch * p->seqlen_k * p->head_dim) * (size_t)p->heads_kv;
    c->q = take(q_size, sizeof *c->q);
    c->o = take(q_size, sizeof *c->o);
    c->k = take(k_size, sizeof *c->k);
    c->v = take(k_size, sizeof *c->v);
    c->q_value = take(q_size, sizeof *c->q_value);
    c->k_value = take(k_size, sizeof *c->k_value);
    for (int64_t i = 0; i < (int64_t)p->batch * p->heads_q; i++) {
        const int64_t at = i * p->seqlen_q * p->head_dim;
        fill(c->q + at, c->q_value + at, p->seqlen_q, p->head_dim, p->dtype, 0, state);
    }
    for (int64_t i = 0; i < (int64_t)p->batch * p->heads_kv; i++) {
        const int64_t at = i * p->seqlen_k * p->head_dim;
        fill(c->k + at, c->k_value + at, p->seqlen_k, p->head_dim, p->dtype, 0.5, state);
    }
    c->io.q = sparge_tensor_hnd(c->q, p->dtype, p->batch, p->heads_q, p->seqlen_q, p->head_dim);
    c->io.k = sparge_tensor_hnd(c->k, p->dtype, p->batch, p->heads_kv, p->seqlen_k, p->head_dim);
    c->io.v = sparge_tensor_hnd(c->v, p->dtype, p->batch, p->heads_kv, p->seqlen_k, p->head_dim);
    c->io.o = sparge_tensor_hnd(c->o, p->dtype, p->batch, p->heads_q, p->seqlen_q, p->head_dim);
}

static void drop_plan(select_case *c)
{
    sparge_block_mask_release(&c->mask);
    sparge_plan_destroy(c->plan);
    sparge_params_destroy(c->params);
    c->plan = NULL;
    c->params = NULL;
}

void case_close(select_case *c)
{
    drop_plan(c);
    sparge_context_destroy(c->context);
    free(c->q);
    free(c->k);
    free(c->v);
    free(c->o);
    free(c->q_value);
    free(c->k_value);
}

void case_plan(select_case *c, const char *method, const char *settings)
{
    char copy[512], *rest = copy, *word;
    sparge_error error = {0};
    drop_plan(c);
    assert_int_equal(sparge_params_create(sparge_method_find(method), &c->params), SPARGE_OK);
    assert_true(strlen(settings) < sizeof copy);
    strcpy(copy, settings);
    while ((word = strtok_r(rest, " ", &rest))) {
        char *value = strchr(word, '=');
        assert_non_null(value);
        *value++ = '\0';
        if (sparge_params_set(c->params, word, value, &error) != SPARGE_OK)
            fail_msg("%s", error.text);
    }
    if (sparge_plan_create(c->context, c->params, &c->problem, &c->plan) != SPARGE_OK)
        fail_msg("%s %s: %s", method, settings, sparge_error_string(c->context));
}

void case_select(select_case *c)
{
    sparge_block_mask_release(&c->mask);
    if (sparge_plan_run(c->plan, SPARGE_STAGE_PREPARE | SPARGE_STAGE_SELECT, &c->io) != SPARGE_OK)
        fail_msg("%s", sparge_error_string(c->context));
    const sparge_status status = sparge_plan_get_block_mask(c->plan, &c->mask);
    assert_true(status == SPARGE_OK || status == SPARGE_ERROR_UNSUPPORTED);
}

const double *case_q(const select_case *c, int64_t batch, int64_t head, int64_t token)
{
    const sparge_problem *p = &c->problem;
    return c->q_value + ((batch * p->heads_q + head) * p->seqlen_q + token) * p->head_dim;
}

const double *case_k(const select_case *c, int64_t batch, int64_t query_head, int64_t token)
{
    const sparge_problem *p = &c->problem;
    const int64_t head = query_head / (p->heads_q / p->heads_kv);
    return c->k_value + ((batch * p->heads_kv + head) * p->seqlen_k + token) * p->head_dim;
}

const uint8_t *case_mask_row(const select_case *c, int64_t batch, int64_t head, int64_t row)
{
    return c->mask.value + ((batch * c->mask.heads + head) * c->mask.rows + row) * c->mask.cols;
}

int64_t case_cols_visible(const select_case *c, int64_t row)
{
    int64_t count = 0;
    while (count < c->mask.cols && sparge_block_visible(&c->problem, c->mask.block_q, c->mask.block_k, row, count))
        count++;
    return count;
}
