/* The rules of a point's length against design.md section 6, and progress: durations and the time left. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/progress.h"
#include "measure/memory.h"
#include "measure/schedule.h"

static const int64_t ms = 1000000;

static void launches_fill_twenty_milliseconds(void **state)
{
    (void)state;
    const sb_schedule gpu = {.is_device = 1}, cpu = {0}, fixed = {.launches = 7};
    /* K = max(5, ceil(20 ms / t)) on a device, without an upper bound */
    assert_int_equal(sb_schedule_launches(&gpu, 20 * ms), 5);
    assert_int_equal(sb_schedule_launches(&gpu, 4 * ms), 5);
    assert_int_equal(sb_schedule_launches(&gpu, 4 * ms - 1), 6);
    assert_int_equal(sb_schedule_launches(&gpu, 3 * ms), 7);
    assert_int_equal(sb_schedule_launches(&gpu, 5000), 4000);
    assert_int_equal(sb_schedule_launches(&gpu, 1000 * ms), 5);
    /* the least visits and launches together make the six samples that an interval of the median needs */
    assert_int_equal(sb_schedule_launches(&cpu, 1000 * ms), 2);
    assert_true(SB_MIN_VISITS * SB_MIN_CPU_LAUNCHES >= 6);
    assert_int_equal(sb_schedule_launches(&cpu, 10 * ms), 2);
    assert_int_equal(sb_schedule_launches(&cpu, 10 * ms - 1), 3);
    assert_int_equal(sb_schedule_launches(&cpu, 10), SB_MAX_CPU_LAUNCHES);
    assert_int_equal(sb_schedule_launches(&cpu, 0), SB_MAX_CPU_LAUNCHES); /* a timer without a time */
    assert_int_equal(sb_schedule_launches(&fixed, 1), 7);
    assert_int_equal(sb_schedule_launches(&fixed, 1000 * ms), 7);
}

/* Visits made when each of them sums to visit_ns. */
static int32_t visits_made(const sb_schedule *schedule, int64_t visit_ns)
{
    int32_t visits = 0;
    for (int64_t sum_ns = 0; sb_schedule_continues(schedule, visits, sum_ns); sum_ns += visit_ns)
        visits++;
    return visits;
}

static void visits_go_on_until_there_are_enough(void **state)
{
    (void)state;
    const sb_schedule timed = {.min_time_ns = 1000 * ms}, counted = {.visits = 4, .min_time_ns = 1000 * ms};
    assert_int_equal(visits_made(&timed, 5000 * ms), 2 * SB_MIN_VISITS); /* long launches: the least */
    assert_int_equal(visits_made(&timed, 1 * ms), 2 * SB_MAX_VISITS);    /* short ones: the most */
    assert_int_equal(visits_made(&timed, 100 * ms), 10);                 /* between: by time */
    assert_int_equal(visits_made(&timed, 90 * ms), 12);                  /* 11.1, and no half pair */
    assert_int_equal(visits_made(&counted, 1), 8);
    assert_int_equal(visits_made(&counted, 5000 * ms), 8);
    assert_int_equal(sb_schedule_needed(&timed), 2 * SB_MIN_VISITS);
    assert_int_equal(sb_schedule_needed(&counted), 8);
    /* A visit that was cut short is followed by its partner. */
    assert_true(sb_schedule_continues(&timed, 7, 5000 * ms));
    assert_false(sb_schedule_continues(&timed, 8, 5000 * ms));
}

static void warmup_is_short(void **state)
{
    (void)state;
    const sb_schedule automatic = {.warmup = -1}, fixed = {.warmup = 2};
    assert_true(sb_schedule_warms(&automatic, 0, 0));
    assert_true(sb_schedule_warms(&automatic, 1, 99 * ms));
    assert_false(sb_schedule_warms(&automatic, 1, 100 * ms));
    assert_false(sb_schedule_warms(&automatic, 3, 0));
    assert_true(sb_schedule_warms(&fixed, 1, 5000 * ms));
    assert_false(sb_schedule_warms(&fixed, 2, 0));
}

static void predictions_count_every_launch(void **state)
{
    (void)state;
    const sb_schedule counted = {.visits = 3, .launches = 4, .warmup = 2};
    assert_int_equal(sb_schedule_predict(&counted, 10 * ms), (2 + 6 * 4) * 10 * ms);
    const sb_schedule timed = {.warmup = -1, .min_time_ns = 1000 * ms};
    assert_int_equal(sb_schedule_predict(&timed, 500 * ms), (1 + 6 * 2) * 500 * ms);
}

static void durations_are_short_texts(void **state)
{
    (void)state;
    static const struct {
        double s;
        const char *text;
    } cases[] = {{0.0, "0 ms"},      {0.0123, "12 ms"},  {0.9994, "999 ms"},     {0.9996, "1.0 s"},
                 {9.94, "9.9 s"},    {9.96, "10 s"},     {99.4, "99 s"},         {99.6, "2 min"},
                 {3000.0, "50 min"}, {5969.0, "99 min"}, {7500.0, "2 h 05 min"}, {7199.9, "2 h 00 min"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        sb_duration_text(cases[i].s * 1e9, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
}

static void time_left_learns_from_what_passed(void **state)
{
    (void)state;
    sb_progress progress;
    FILE *file = tmpfile();
    assert_non_null(file);
    sb_progress_begin(&progress, file, 0, 4, 40e9);
    assert_true(sb_progress_left_ns(&progress) == 40e9);
    sb_progress_point(&progress, "a point");
    sb_progress_done(&progress, 10e9, 20e9); /* twice as long as predicted */
    assert_true(sb_progress_left_ns(&progress) == 60e9);
    sb_progress_done(&progress, 10e9, 0.0); /* was there already: says nothing about the prediction */
    assert_true(sb_progress_left_ns(&progress) == 40e9);
    sb_progress_clear(&progress);
    assert_int_equal(ftell(file), 0); /* a file is no terminal: nothing is drawn */
    fclose(file);
}

static void memory_is_told_in_units(void **state)
{
    (void)state;
    char text[32];
    sb_memory_text(1023, text, sizeof text);
    assert_string_equal(text, "1023 B");
    sb_memory_text(1536, text, sizeof text);
    assert_string_equal(text, "1.5 KiB");
    sb_memory_text(UINT64_MAX, text, sizeof text);
    assert_string_equal(text, "more than any memory");
    uint64_t available = sb_memory_available();
    assert_true(available > (uint64_t)1 << 20); /* this program runs */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_fill_twenty_milliseconds),
        cmocka_unit_test(visits_go_on_until_there_are_enough),
        cmocka_unit_test(warmup_is_short),
        cmocka_unit_test(predictions_count_every_launch),
        cmocka_unit_test(durations_are_short_texts),
        cmocka_unit_test(time_left_learns_from_what_passed),
        cmocka_unit_test(memory_is_told_in_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
