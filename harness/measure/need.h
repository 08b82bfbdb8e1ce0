/* The memory that a point needs, from its shapes and the method's plan, before any of it is taken. */
#ifndef HARNESS_NEED_H
#define HARNESS_NEED_H

#include "measure/measure.h"
#include "measure/memory.h"

/* Bytes. Sums stop at UINT64_MAX, which no memory has. */
typedef struct sb_need {
    uint64_t inputs;    /* one set of Q, K and V, and what making it takes besides */
    uint64_t copies;    /* the other sets, which launches walk through in turn */
    uint64_t workspace; /* the plan's */
    uint64_t output;
    uint64_t device; /* the sum of these */
    uint64_t host;   /* the exact reference, and captured tensors on their way to the device */
    size_t sets;
} sb_need;

/* UNSUPPORTED if the method cannot do the problem on the session's backend, with the reason. */
sparge_status sb_need_of(const sb_session *session, const sb_point *point, sb_need *need, sparge_error *error);

/* What there is for a point: what is free now, and what the session holds for the point before it. */
sparge_status sb_need_memory(const sb_session *session, sb_memory *memory, sparge_error *error);

/* Of `memory`: the host's part too where that is the host's. */
uint64_t sb_need_total(const sb_need *need, const sb_memory *memory);

/* 1 if the point fits into `memory` and --max-memory; else 0, with one line on what is missing. */
int sb_need_fits(const sb_session *session, const sb_need *need, const sb_memory *memory, char *reason, size_t size);

#endif
