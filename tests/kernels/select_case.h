/* A small problem with data, planned and selected on the CPU: what the tests of selection share. */
#ifndef TESTS_KERNELS_SELECT_CASE_H
#define TESTS_KERNELS_SELECT_CASE_H

#include "sparge/sparge.h"

typedef struct select_case {
    sparge_context *context;
    sparge_problem problem;
    uint16_t *q, *k, *v, *o;   /* dense HND, the problem's dtype */
    double *q_value, *k_value; /* the same numbers */
    sparge_io io;
    sparge_params *params;
    sparge_plan *plan;
    sparge_block_mask mask; /* after case_select, for methods on a block grid */
} select_case;

/* splitmix64; the stream of one test. */
uint64_t case_random(uint64_t *state);
int64_t case_between(uint64_t *state, int64_t low, int64_t high);
double case_uniform(uint64_t *state); /* [0, 1) */
double case_normal(uint64_t *state);  /* roughly: a sum of uniforms */

/* Random shape: batch, GQA, ragged lengths up to max_tokens, a causal mode. equal: Lq = Lk. */
sparge_problem case_problem(uint64_t *state, int64_t max_tokens, int equal);

/* Q and K that drift along the tokens (so that blocks resemble themselves), with stretches of noise, sinks, and a key
 * offset; V zero. */
void case_open(select_case *c, const sparge_problem *problem, uint64_t *state);
void case_close(select_case *c);

/* settings: "tau=0.9 theta=0.3" or "". Fails the test if the plan is refused. */
void case_plan(select_case *c, const char *method, const char *settings);

/* Runs prepare and select; fetches the mask if the method has one. */
void case_select(select_case *c);

/* Row pointers: a token's channels, and a mask's row. */
const double *case_q(const select_case *c, int64_t batch, int64_t head, int64_t token);
const double *case_k(const select_case *c, int64_t batch, int64_t query_head, int64_t token);
const uint8_t *case_mask_row(const select_case *c, int64_t batch, int64_t head, int64_t row);
int64_t case_cols_visible(const select_case *c, int64_t row);

#endif
