/* One point from memory check to facts: inputs, plan, warm-up, visits, output check, error.
 *
 * A session belongs to one context and keeps what consecutive points share: events, and the inputs and the exact
 * reference of their workload. */
#ifndef HARNESS_MEASURE_H
#define HARNESS_MEASURE_H

#include "measure/reference.h"
#include "measure/schedule.h"
#include "measure/visit.h"
#include "plan/points.h"

typedef struct sb_measure_options {
    sb_schedule schedule;
    int64_t error_rows;  /* rows compared, or SB_ERROR_ROWS_DEFAULT, SB_ERROR_ROWS_ALL; 0 = no error columns */
    uint64_t max_memory; /* bytes that a point may take; 0 = what is available */
    int (*stop)(void);   /* asked between launches and pieces of the reference: non-zero ends the point as partial */
} sb_measure_options;

enum { SB_MAX_INPUT_SETS = 64 };

typedef struct sb_session {
    sparge_context *context;
    sparge_device_info device;
    sb_measure_options options;
    int64_t started_ns; /* visits are stamped relative to this: sb_clock_ns */
    sb_timer timer;
    int has_reference;
    size_t workload_index; /* of the inputs */
    /* The same numbers in `input_sets` places, which launches walk through in turn: on a device so many that a launch
     * finds nothing of its inputs in the last-level cache (twice its size lies between two uses), elsewhere one. */
    sb_inputs inputs[SB_MAX_INPUT_SETS];
    size_t input_sets; /* 0: no inputs yet */
    sb_reference reference;
} sb_session;

/* Takes the context's device info; options->schedule.is_device is set from it. */
sparge_status sb_session_open(sparge_context *context, const sb_measure_options *options, sb_session *session);
void sb_session_close(sb_session *session); /* not the context */

/* What stands already of a point that was interrupted. All zero: nothing. */
typedef struct sb_earlier {
    int32_t visits;
    int64_t sum_ns;
    int64_t zero; /* samples of 0 ns */
} sb_earlier;

/* Called with every visit. Non-zero ends the measurement. */
typedef int (*sb_visit_fn)(void *user, const rs_visit *visit);

enum { SB_REASON_TEXT = SPARGE_ERROR_TEXT + 64 };
typedef struct sb_result {
    rs_outcome outcome; /* done, skipped, partial, failed or unmeasured */
    char reason[SB_REASON_TEXT];
    rs_facts facts;
    int has_facts;
} sb_result;

/* 0 with *result, or what `fn` returned. */
int sb_session_measure(sb_session *session, const sb_point *point, const sb_earlier *earlier, sb_visit_fn fn,
                       void *user, sb_result *result);

/* CLOCK_MONOTONIC in nanoseconds. */
int64_t sb_clock_ns(void);

#endif
