/* Visits: K back-to-back launches of a plan, timed by the backend's events.
 *
 * A "total" visit has one pair of events around all stages of each launch, a "stages" visit one pair around each stage.
 * All events are recorded before the first is read, so that reading never stands between two launches of a device; and a
 * device is held while launches queue up, so that the host's cost of a launch is not in its time. What the device tells of
 * clocks, power and heat is read while the last launches run. */
#ifndef HARNESS_VISIT_H
#define HARNESS_VISIT_H

#include "sparge/sparge.h"
#include "store.h"

/* Events of one context, made as they are needed and used again by later visits. */
typedef struct sb_timer {
    sparge_context *context;
    sparge_event **event;
    size_t count;
    int asks; /* non-zero: visits read the device's telemetry; 0 again if it has none */
} sb_timer;

void sb_timer_release(sb_timer *timer);

typedef enum sb_visit_kind { SB_VISIT_TOTAL = 0, SB_VISIT_STAGES } sb_visit_kind;

typedef struct sb_visit {
    sb_visit_kind kind;
    int32_t launches;  /* that ran: fewer than asked for if it was interrupted */
    rs_sample *sample; /* in the order of launch and stage; free() */
    size_t sample_count;
    size_t lost; /* pairs of events without a time */
    size_t zero; /* samples of 0 ns */
    int64_t sum_ns;
    int interrupted;
    int64_t energy_mj;                   /* of the visit; -1: not known */
    sparge_telemetry during;             /* while the last launches ran: all -1 if the device does not tell */
    int64_t slowed_ns[SPARGE_SLOWDOWNS]; /* of the visit: for which clocks were held down; -1: not known */
} sb_visit;

/* Runs `launches` launches, fewer if stop() becomes non-zero; launch k uses io[k mod sets]. On failure the message is in sparge_error_string. */
sparge_status sb_visit_run(sb_timer *timer, sparge_plan *plan, const sparge_io *io, size_t sets, sb_visit_kind kind,
                           int32_t launches, int (*stop)(void), sb_visit *visit);
void sb_visit_release(sb_visit *visit);

#endif
