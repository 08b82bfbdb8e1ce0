/* The rules of a point's length, without a clock: everything is decided from sums. */
#include "measure/schedule.h"

static const int64_t visit_ns = 20 * 1000000;
static const int64_t warmup_ns = 100 * 1000000;
enum { MAX_WARMUP = 3 };

static int64_t at_least(int64_t value, int64_t limit)
{
    return value < limit ? limit : value;
}

int32_t sb_schedule_launches(const sb_schedule *schedule, int64_t launch_ns)
{
    if (schedule->launches > 0)
        return schedule->launches;
    int64_t t = at_least(launch_ns, 1);
    int64_t launches = (visit_ns + t - 1) / t;
    if (schedule->is_device)
        return (int32_t)at_least(launches, SB_MIN_DEVICE_LAUNCHES);
    launches = at_least(launches, SB_MIN_CPU_LAUNCHES);
    return launches > SB_MAX_CPU_LAUNCHES ? SB_MAX_CPU_LAUNCHES : (int32_t)launches;
}

int sb_schedule_warms(const sb_schedule *schedule, int32_t launches, int64_t sum_ns)
{
    if (launches == 0)
        return 1;
    if (schedule->warmup >= 0)
        return launches < schedule->warmup;
    return launches < MAX_WARMUP && sum_ns < warmup_ns;
}

int32_t sb_schedule_needed(const sb_schedule *schedule)
{
    return 2 * (schedule->visits > 0 ? schedule->visits : SB_MIN_VISITS);
}

int sb_schedule_continues(const sb_schedule *schedule, int32_t visits, int64_t sum_ns)
{
    if (visits < sb_schedule_needed(schedule))
        return 1;
    if (visits % 2 != 0)
        return 1; /* a pair is never left half done */
    return schedule->visits == 0 && visits < 2 * SB_MAX_VISITS && sum_ns < schedule->min_time_ns;
}

int64_t sb_schedule_predict(const sb_schedule *schedule, int64_t launch_ns)
{
    int64_t t = at_least(launch_ns, 1), sum_ns = 0, wait_ns = 0;
    for (int32_t launches = 0; sb_schedule_warms(schedule, launches, wait_ns); launches++)
        wait_ns += t;
    for (int32_t visits = 0; sb_schedule_continues(schedule, visits, sum_ns); visits++)
        sum_ns += t * sb_schedule_launches(schedule, t);
    return wait_ns + sum_ns;
}
