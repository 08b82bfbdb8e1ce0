/* How long a point is measured: the launches of a visit and the number of visits (design.md section 6).
 *
 * Visits alternate: position 0, 2, 4, ... are "total", 1, 3, 5, ... "stages"; two of them are a pair. A point is complete
 * after `visits` pairs if that is given, else after at least 3 pairs that sum to min_time, and at most 20. */
#ifndef HARNESS_SCHEDULE_H
#define HARNESS_SCHEDULE_H

#include <stdint.h>

enum {
    SB_MIN_VISITS = 3,
    SB_MIN_CPU_LAUNCHES = 2, /* three visits then hold the six samples that a 95 % interval of the median needs */
    SB_MAX_VISITS = 20,
    SB_MAX_CPU_LAUNCHES = 64, /* a CPU needs no long visits to stay warm; every sample is a row of the file */
    SB_MIN_DEVICE_LAUNCHES = 5
};

typedef struct sb_schedule {
    int is_device;       /* a GPU */
    int32_t visits;      /* pairs; 0 = by time */
    int32_t launches;    /* of a visit; 0 = by time */
    int32_t warmup;      /* launches before the first visit; -1 = by time */
    int64_t min_time_ns; /* sum of a point's samples that is enough */
    int64_t max_time_ns; /* wall-clock time of a point's visits after which no other begins */
} sb_schedule;

/* K for launches that take launch_ns: max(5, ceil(20 ms / t)) on a device, 2 to 64 launches that fill 20 ms on a CPU. */
int32_t sb_schedule_launches(const sb_schedule *schedule, int64_t launch_ns);

/* Is another warm-up launch due after `launches` that took sum_ns? At least one always is. */
int sb_schedule_warms(const sb_schedule *schedule, int32_t launches, int64_t sum_ns);

/* Is another visit due after `visits` visits of both kinds, whose samples sum to sum_ns? */
int sb_schedule_continues(const sb_schedule *schedule, int32_t visits, int64_t sum_ns);

/* Visits of both kinds without which the times of a point are not to be trusted. */
int32_t sb_schedule_needed(const sb_schedule *schedule);

/* The time that a point will take, for --dry-run and the progress bar: warm-up and visits of launches of launch_ns. */
int64_t sb_schedule_predict(const sb_schedule *schedule, int64_t launch_ns);

#endif
