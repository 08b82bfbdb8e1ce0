/* One attention on the CPU backend for the tests of its inside: a problem with its tensors, a recipe that the test fills
 * field by field (no method in between), and a plan whose block mask or worklist the test may replace. */
#ifndef TESTS_KERNELS_ATTEND_CASE_H
#define TESTS_KERNELS_ATTEND_CASE_H

#include "check.h"

#include "cpu/cpu.h"
#include "oracle/oracle.h"

typedef enum case_layout { CASE_HND = 0, CASE_NHD, CASE_PADDED_ROWS } case_layout;

typedef struct attend_case {
    sparge_context *context;
    sparge_problem problem;
    sparge_recipe recipe;
    sparge_plan plan; /* state is NULL until case_plan */
    sparge_io io;
    uint16_t *memory[4]; /* q, k, v, o: poisoned with NaN around the elements */
    size_t elements[4];  /* of the memory, poison included */
    float *lse;          /* float[B][Hq][Lq] between two poisoned rows */
    float *lse_memory;
    size_t lse_count;
} attend_case;

/* isa: NULL = the machine's best. Tensors are zero, o and lse poisoned. */
void case_open(attend_case *c, const sparge_problem *problem, case_layout layout, int threads, const char *isa);
void case_close(attend_case *c);

/* 128 x 64 blocks, no PV skip, K smoothed where it is INT8. */
sparge_recipe case_recipe(sparge_arithmetic arithmetic);

/* q, k, v: normal numbers, q times `sharpness`, k plus a constant per channel of that size. */
void case_fill_normal(attend_case *c, uint64_t seed, double sharpness, double k_offset);

/* Element access in the caller's layout; set rounds to the tensor's type. */
double case_get(const sparge_tensor *tensor, int64_t batch, int64_t head, int64_t token, int64_t channel);
void case_set(const sparge_tensor *tensor, int64_t batch, int64_t head, int64_t token, int64_t channel, double value);

/* Creates the plan with every visible block, then keeps those of mask[B][Hq][rows][cols] (NULL = all). */
void case_plan(attend_case *c, const uint8_t *mask);
void case_run(attend_case *c, int stages);

/* One head as dense doubles, malloc'ed: [tokens][channels]. */
double *case_head(const sparge_tensor *tensor, int64_t batch, int64_t head);

/* The oracle's answer for one query head on the pairs of keep[lq][lk] (NULL = all visible). */
void case_oracle(const attend_case *c, int64_t batch, int64_t head, const uint8_t *keep, double *o, double *lse);

/* o of one query head as dense doubles, malloc'ed. */
double *case_output(const attend_case *c, int64_t batch, int64_t head);

/* Is everything around the elements of o and lse still poison? */
int case_poison_intact(const attend_case *c);

double rel_l2(const double *a, const double *b, int64_t count);

#endif
