/* A point's measurement on the scripted backend: which samples are kept, in which order, and how each way to end is
 * told; and inputs from files and in other orders. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "command/commands.h"
#include "measure/need.h"
#include "point_arguments.h"

enum { MAX_SAMPLES = 4096, MAX_VISITS = 64 };

/* Everything that the recorder was given. */
typedef struct log {
    rs_visit visit[MAX_VISITS];
    char flags[MAX_VISITS][64];
    rs_sample sample[MAX_SAMPLES]; /* of all visits, one after the other */
    size_t visits, samples;
    int refuse_at; /* the visit whose recording fails; -1: none */
} log_book;

static int record(void *user, const rs_visit *visit)
{
    log_book *l = user;
    if (l->refuse_at >= 0 && l->visits == (size_t)l->refuse_at)
        return 33;
    assert_true(l->visits < MAX_VISITS && l->samples + visit->sample_count <= MAX_SAMPLES);
    l->visit[l->visits] = *visit;
    snprintf(l->flags[l->visits], sizeof l->flags[0], "%s", visit->flags);
    memcpy(l->sample + l->samples, visit->samples, visit->sample_count * sizeof *visit->samples);
    l->samples += visit->sample_count;
    l->visits++;
    return 0;
}

/* One bench for a test: context, points, session, log. */
typedef struct bench {
    test_arguments arguments;
    sb_points points;
    sparge_context *context;
    sb_session session;
    log_book *log;
} bench;

static int stop_after; /* calls of stop() until it says so; negative: never */
static int stop(void)
{
    return stop_after >= 0 && stop_after-- == 0;
}

static void open_bench(bench *b, const char *backend, const char *scenario, const char *line, int32_t visits,
                       int32_t launches)
{
    sparge_error error;
    setenv("SPARGE_FAKE", scenario, 1);
    parse_arguments(&sb_command_sweep, line, &b->arguments);
    assert_int_equal(sb_points_create(b->arguments.arguments, &b->points), SB_EXIT_OK);
    assert_int_equal(sparge_context_create(backend, 0, 1, &b->context, &error), SPARGE_OK);
    const sb_measure_options options = {
        .schedule = {.visits = visits, .launches = launches, .warmup = 1, .max_time_ns = INT64_C(60000000000)},
        .error_rows = SB_ERROR_ROWS_DEFAULT,
        .stop = stop,
    };
    stop_after = -1;
    assert_int_equal(sb_session_open(b->context, &options, &b->session), SPARGE_OK);
    b->log = calloc(1, sizeof *b->log);
    assert_non_null(b->log);
    b->log->refuse_at = -1;
}

static void close_bench(bench *b)
{
    sb_session_close(&b->session);
    sparge_context_destroy(b->context);
    sb_points_release(&b->points);
    release_arguments(&b->arguments);
    free(b->log);
}

static sb_result measure(bench *b, size_t point)
{
    const sb_earlier nothing = {0};
    sb_result result;
    assert_int_equal(sb_session_measure(&b->session, &b->points.point[point], &nothing, record, b->log, &result), 0);
    return result;
}

static const char small[] = "--method dense-f16,sparge-f16 --workload random --heads 2 --head-dim 64 --seqlen 128,192";

static void all_samples_are_kept_in_order(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, "fake", "drift=0.01", small, 3, 5);
    sb_result result = measure(&b, 1); /* sparge-f16: three stages */
    assert_int_equal(result.outcome, RS_DONE);
    assert_int_equal(b.log->visits, 6);
    assert_int_equal(b.log->samples, 3 * 5 + 3 * 5 * 3);
    const rs_sample *sample = b.log->sample;
    int64_t last_total = 0, last_attend = 0;
    for (size_t v = 0; v < 6; v++) {
        const rs_visit *visit = &b.log->visit[v];
        int stages = v % 2 != 0;
        assert_int_equal(visit->position, v);
        assert_string_equal(visit->kind, stages ? "stages" : "total");
        assert_string_equal(visit->timer, "fake");
        assert_string_equal(b.log->flags[v], "");
        assert_int_equal(visit->launches, 5);
        assert_int_equal(visit->sample_count, stages ? 15 : 5);
        assert_true(visit->clock_mhz == 1000 && visit->power_mw == 1e5 && visit->temperature_c == 50);
        assert_true(visit->memory_clock_mhz == 2000 && visit->power_capped_ns == 0);
        int64_t sum_ns = 0;
        for (size_t i = 0; i < visit->sample_count; i++)
            sum_ns += sample[i].ns;
        assert_in_range(visit->energy_mj, sum_ns / 10000 - 1, sum_ns / 10000 + 1); /* 100 W */
        assert_true(visit->started_ns >= 0 && (v == 0 || visit->started_ns >= b.log->visit[v - 1].started_ns));
        for (int32_t k = 0; k < 5; k++)
            for (int i = 0; i < (stages ? 3 : 1); i++, sample++) {
                assert_int_equal(sample->launch, k);
                assert_int_equal(sample->stage, stages ? RS_PREPARE + i : RS_TOTAL);
                /* The clock drifts up with every launch: the order is the order of the launches. */
                int64_t *last = sample->stage == RS_TOTAL ? &last_total : &last_attend;
                if (sample->stage == RS_TOTAL || sample->stage == RS_ATTEND) {
                    assert_true(sample->ns > *last);
                    *last = sample->ns;
                }
            }
    }
    close_bench(&b);
}

/* What a device tells of itself is kept with each visit; what it does not tell is unknown, not zero. */
static void visits_tell_of_the_device(void **state)
{
    (void)state;
    static const struct {
        const char *backend, *scenario, *flags;
        int told;
    } cases[] = {{"fake", "", "", 1},
                 {"fake", "capped=1", "power-capped", 1},
                 {"fake", "telemetry=0", "", 0},
                 {"cpu", "", "", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bench b;
        open_bench(&b, cases[i].backend, cases[i].scenario, small, 3, 2);
        sb_result result = measure(&b, 0);
        assert_int_equal(result.outcome, RS_DONE);
        assert_true(b.log->visits > 0);
        for (size_t v = 0; v < b.log->visits; v++) {
            const rs_visit *visit = &b.log->visit[v];
            assert_string_equal(b.log->flags[v], cases[i].flags);
            assert_int_equal(!isnan(visit->clock_mhz), cases[i].told);
            assert_int_equal(!isnan(visit->power_mw), cases[i].told);
            assert_int_equal(!isnan(visit->temperature_c), cases[i].told);
            assert_int_equal(visit->energy_mj >= 0, cases[i].told);
            assert_int_equal(visit->power_braked_ns, cases[i].told ? 0 : -1);
            assert_int_equal(visit->power_capped_ns > 0, cases[i].flags[0] != '\0');
        }
        close_bench(&b);
    }
}

/* Without noise the scripted clock gives exact times: 5 us + operations at 1 TFLOP/s (kernels/fake/fake.h). */
static void times_are_those_of_the_clock(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, "fake", "", small, 3, 2);
    sb_result result = measure(&b, 0);
    assert_int_equal(result.outcome, RS_DONE);
    double ns = 5000.0 + 4.0 * 64 * 128 * 128 * 2 * 1e-3;
    for (size_t i = 0; i < b.log->samples; i++)
        assert_in_range(b.log->sample[i].ns, (uintmax_t)ns - 1, (uintmax_t)ns + 1);
    assert_true(result.facts.dense_ops == 4.0 * 64 * 128 * 128 * 2);
    assert_true(result.facts.sparsity == 0.0);
    close_bench(&b);
}

static void lost_records_make_a_point_unmeasured(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, "fake", "lost=4", small, 3, 5);
    sb_result result = measure(&b, 0);
    assert_int_equal(result.outcome, RS_UNMEASURED);
    assert_non_null(strstr(result.reason, "lost"));
    assert_true(b.log->samples > 0 && b.log->samples < 30); /* what came is kept, what did not leaves a gap */
    int flagged = 0;
    for (size_t v = 0; v < b.log->visits; v++)
        flagged += strcmp(b.log->flags[v], "lost") == 0;
    assert_true(flagged > 0);
    assert_true(isfinite(result.facts.rel_l1)); /* the output was right all the same */
    close_bench(&b);
}

static void times_of_zero_make_a_point_unmeasured(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, "fake", "zero=10", small, 3, 5);
    sb_result result = measure(&b, 0);
    assert_int_equal(result.outcome, RS_UNMEASURED);
    assert_non_null(strstr(result.reason, "0 ns"));
    assert_int_equal(b.log->samples, 30);
    close_bench(&b);
}

static void outputs_that_are_not_finite_fail(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, "fake", "poison=dense-f16", small, 3, 2);
    sb_result result = measure(&b, 0);
    assert_int_equal(result.outcome, RS_FAILED);
    assert_non_null(strstr(result.reason, "NaN"));
    assert_int_equal(result.facts.nonfinite, 1);
    assert_int_equal(measure(&b, 1).outcome, RS_DONE); /* another method is not touched by it */
    close_bench(&b);
}

static void launches_that_fail_fail_the_point(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, "fake", "fail=sparge-f16", small, 3, 2);
    sb_result result = measure(&b, 1);
    assert_int_equal(result.outcome, RS_FAILED);
    assert_non_null(strstr(result.reason, "scripted"));
    assert_int_equal(b.log->visits, 0);
    assert_int_equal(measure(&b, 0).outcome, RS_DONE);
    close_bench(&b);
}

static void what_a_method_cannot_do_is_skipped(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, "fake", "", "--method minference-vs,sta --workload random --heads 1 --head-dim 64 --seqlen 128", 3,
               1);
    for (size_t i = 0; i < 2; i++) {
        sb_result result = measure(&b, i);
        assert_int_equal(result.outcome, RS_SKIPPED);
        assert_true(result.reason[0] != '\0');
        assert_false(result.has_facts);
    }
    assert_int_equal(b.log->visits, 0);
    close_bench(&b);
}

/* What the first point of `small` needs: Q, K, V take 3 * 2 * 128 * 64 * 2 bytes, O as much as Q, the reference four times
 * that; the workspace is the plan's to say. */
static sb_need need_of(const bench *b)
{
    sb_need need;
    sparge_error error = {0};
    assert_int_equal(sb_need_of(&b->session, &b->points.point[0], &need, &error), SPARGE_OK);
    assert_int_equal(need.inputs, 3 * 2 * 128 * 64 * 2);
    assert_int_equal(need.output, 2 * 128 * 64 * 2);
    assert_int_equal(need.host, 2 * 128 * 64 * 8);
    assert_true(need.workspace > 0);
    assert_int_equal(need.device, need.inputs + need.copies + need.workspace + need.output);
    return need;
}

static void points_without_memory_are_skipped(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, "fake", "", small, 3, 1);
    sb_need need = need_of(&b);
    /* In the host's memory the reference counts too. */
    b.session.options.max_memory = need.device + need.host - 1;
    sb_result result = measure(&b, 0);
    assert_int_equal(result.outcome, RS_SKIPPED);
    assert_non_null(strstr(result.reason, "memory: needs "));
    assert_non_null(strstr(result.reason, "(inputs 96.0 KiB, copies 0 B, workspace "));
    assert_non_null(strstr(result.reason, "output 32.0 KiB, reference 128.0 KiB), --max-memory allows "));
    assert_null(strchr(result.reason, '\n'));
    assert_false(b.session.input_sets); /* nothing was taken */
    assert_int_equal(b.log->visits, 0);
    b.session.options.max_memory++;
    assert_int_equal(measure(&b, 0).outcome, RS_DONE);
    close_bench(&b);
}

/* The limits are exact: with every byte of the need there the point is measured, and with one less it is not begun. */
static void a_device_with_little_memory_is_asked_before_it_is_used(void **state)
{
    (void)state;
    bench b;
    char scenario[64];
    uint64_t left, total;
    open_bench(&b, "fake", "memory=1073741824", small, 3, 1);
    sb_need need = need_of(&b);
    b.session.options.schedule.is_device = 1;
    b.session.device.l2_bytes = need.inputs; /* two sets beside the first hold twice the cache */
    sb_need rotated = need_of(&b);
    assert_int_equal(rotated.sets, 3);
    assert_int_equal(rotated.copies, 2 * need.inputs);
    close_bench(&b);

    for (int rotates = 0; rotates < 2; rotates++) {
        const uint64_t enough = rotates ? rotated.device : need.device;
        for (int missing = 0; missing < 2; missing++) {
            snprintf(scenario, sizeof scenario, "memory=%llu", (unsigned long long)enough - (unsigned)missing);
            open_bench(&b, "fake", scenario, small, 3, 1);
            b.session.options.schedule.is_device = rotates;
            b.session.device.l2_bytes = need.inputs;
            sb_result result = measure(&b, 0);
            assert_int_equal(result.outcome, missing ? RS_SKIPPED : RS_DONE);
            assert_int_equal(b.session.input_sets, missing ? 0 : rotates ? 3 : 1);
            if (missing) {
                assert_int_equal(sparge_device_get_memory(b.context, &left, &total), SPARGE_OK);
                assert_int_equal(left, total);
                assert_non_null(strstr(result.reason, " are free"));
                assert_null(strstr(result.reason, "reference"));
            } else { /* and once more: what the session holds is not missed */
                b.log->visits = b.log->samples = 0;
                assert_int_equal(measure(&b, 0).outcome, RS_DONE);
            }
            close_bench(&b);
        }
    }
}

static void need_is_counted_in_64_bits(void **state)
{
    (void)state;
    bench b;
    sb_need need;
    sb_memory memory;
    sparge_error error = {0};
    char reason[SB_REASON_TEXT];
    open_bench(&b, "fake", "memory=1073741824",
               "--method dense-f16 --workload random --batch 8 --heads 64 --head-dim 128 --seqlen 1m", 3, 1);
    const uint64_t elements = (uint64_t)8 * 64 * 128 << 20; /* 2^36 */
    assert_int_equal(sb_need_of(&b.session, &b.points.point[0], &need, &error), SPARGE_OK);
    assert_int_equal(need.inputs, 3 * 2 * elements);
    assert_int_equal(need.output, 2 * elements);
    assert_true(need.device > 4 * 2 * elements && need.device < UINT64_MAX);
    assert_int_equal(sb_need_memory(&b.session, &memory, &error), SPARGE_OK);
    assert_true(memory.is_own && memory.free == 1073741824 && memory.total == 1073741824);
    assert_false(sb_need_fits(&b.session, &need, &memory, reason, sizeof reason));
    assert_non_null(strstr(reason, "inputs 384.0 GiB, copies 0 B, workspace "));
    assert_non_null(strstr(reason, "output 128.0 GiB), 1.0 GiB of 1.0 GiB are free"));
    assert_int_equal(measure(&b, 0).outcome, RS_SKIPPED);
    close_bench(&b);
}

/* Interrupted after any number of launches and taken up again, a point has all its visits, once. */
static void interrupted_points_are_continued(void **state)
{
    (void)state;
    for (int launches = 0; launches < 24; launches++) {
        bench b;
        open_bench(&b, "fake", "", small, 3, 3);
        stop_after = launches;
        sb_result result = measure(&b, 0);
        assert_int_equal(result.outcome, launches <= 19 ? RS_PARTIAL : RS_DONE); /* 1 + 18 launches, the reference */
        if (result.outcome == RS_PARTIAL) {
            assert_string_equal(result.reason, "interrupted");
            size_t before = b.log->visits;
            int cut = before > 0 && b.log->visit[before - 1].launches < 3;
            assert_string_equal(before > 0 ? b.log->flags[before - 1] : "", cut ? "partial" : "");
            assert_int_equal(cut, launches > 0 && (launches - 1) % 3 != 0 && launches < 19);
            const sb_earlier earlier = {.visits = (int32_t)before};
            stop_after = -1;
            assert_int_equal(sb_session_measure(&b.session, &b.points.point[0], &earlier, record, b.log, &result), 0);
            assert_int_equal(result.outcome, RS_DONE);
            assert_int_equal(b.log->visits, 6);
            if (before > 0 && before < 6)
                assert_string_equal(b.log->flags[before], "resumed");
        }
        for (size_t v = 0; v < 6; v++)
            assert_int_equal(b.log->visit[v].position, v);
        assert_int_equal(result.facts.nonfinite, 0);
        assert_true(result.facts.rel_l1 < 1e-3);
        close_bench(&b);
    }
}

static void the_time_cap_is_told(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, "fake", "", small, 3, 2);
    b.session.options.schedule.max_time_ns = 0;
    sb_result result = measure(&b, 0);
    assert_int_equal(result.outcome, RS_UNMEASURED);
    assert_non_null(strstr(result.reason, "--max-time"));
    assert_int_equal(b.log->visits, 0);
    assert_true(result.facts.rel_l1 < 1e-3);
    close_bench(&b);
}

static void a_recorder_that_fails_ends_the_measurement(void **state)
{
    (void)state;
    bench b;
    const sb_earlier nothing = {0};
    sb_result result;
    open_bench(&b, "fake", "", small, 3, 2);
    b.log->refuse_at = 2;
    assert_int_equal(sb_session_measure(&b.session, &b.points.point[0], &nothing, record, b.log, &result), 33);
    assert_int_equal(b.log->visits, 2);
    close_bench(&b);
}

static void errors_are_measured_on_the_rows_asked_for(void **state)
{
    (void)state;
    static const struct {
        const char *seqlen;
        int64_t wanted, rows;
        int all;
    } cases[] = {{"1024", SB_ERROR_ROWS_DEFAULT, 1024, 1},
                 {"1025", SB_ERROR_ROWS_DEFAULT, 256, 0},
                 {"1025", SB_ERROR_ROWS_ALL, 1025, 1},
                 {"1025", 10, 10, 0},
                 {"200", 5000, 200, 1},
                 {"200", 0, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bench b;
        char line[128];
        snprintf(line, sizeof line, "--method dense-f16 --workload random --heads 1 --head-dim 64 --seqlen %s",
                 cases[i].seqlen);
        open_bench(&b, "cpu", "", line, 1, 1);
        b.session.options.error_rows = cases[i].wanted;
        sb_result result = measure(&b, 0);
        assert_int_equal(result.outcome, RS_DONE);
        assert_string_equal(b.log->visit[0].timer, "monotonic-raw");
        assert_int_equal(result.facts.error_rows, cases[i].rows);
        assert_int_equal(result.facts.error_all_rows, cases[i].all);
        assert_int_equal(result.facts.nonfinite, 0);
        if (cases[i].rows > 0) {
            assert_true(result.facts.rel_l1 > 1e-6 && result.facts.rel_l1 < 1e-3);
            assert_true(result.facts.rel_l2 > 1e-6 && result.facts.rel_l2 < 1e-3);
            assert_true(result.facts.cosine > 0.999999);
            assert_true(result.facts.max_abs > 0 && result.facts.rmse < result.facts.max_abs);
        } else {
            assert_true(isnan(result.facts.rel_l1) && isnan(result.facts.cosine));
        }
        close_bench(&b);
    }
}

static void facts_come_from_the_plan(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, "fake", "", "--method sparge-f16 --set topk=0.5 --heads 2 --head-dim 64 --seqlen 512", 3, 1);
    sb_result result = measure(&b, 0);
    assert_int_equal(result.outcome, RS_DONE);
    assert_string_equal(result.facts.sparsity_basis, "block");
    assert_int_equal(result.facts.block_q, 128);
    assert_int_equal(result.facts.block_k, 64);
    assert_int_equal(result.facts.units_visible, 2 * 4 * 8);
    assert_int_equal(result.facts.units_qk, 2 * 4 * 4);
    assert_true(result.facts.sparsity == 0.5);
    assert_true(result.facts.executed_ops == result.facts.dense_ops / 2);
    assert_true(result.facts.workspace_bytes > 0);
    assert_true(result.facts.sim_q > -1 && result.facts.sim_q <= 1 && result.facts.sim_k > -1);
    close_bench(&b);
}

/* Points of one workload share inputs and reference; the next workload gets its own. */
static void workloads_are_made_once(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, "fake", "", small, 1, 1);
    measure(&b, 0);
    const void *q = b.session.inputs[0].q.data, *exact = b.session.reference.o;
    measure(&b, 1);
    assert_ptr_equal(b.session.inputs[0].q.data, q);
    assert_ptr_equal(b.session.reference.o, exact);
    assert_int_equal(b.session.inputs[0].q.shape[2], 128);
    measure(&b, 2);
    assert_int_equal(b.session.inputs[0].q.shape[2], 192);
    assert_int_equal(b.session.reference.rows, 192);
    close_bench(&b);
}

/* --- inputs --- */

/* Value of channel d of token i of head h of tensor t (0..2) in the file below: exact in f16. */
static float stored(int t, int h, int i, int d)
{
    return (float)(t * 700 + h * 200 + i * 16 + d);
}

enum { FILE_HEADS = 3, FILE_TOKENS = 12, FILE_WIDTH = 16 };

/* `bad` replaces one value, the last channel of the last token of head 1 of tensor `bad_tensor` (-1: of none). */
static void write_captured(const char *path, int bad_tensor, float bad)
{
    enum { VALUES = FILE_HEADS * FILE_TOKENS * FILE_WIDTH, BYTES = VALUES * 4 };
    char header[512];
    int length = snprintf(header, sizeof header,
                          "{\"q\":{\"dtype\":\"F32\",\"shape\":[1,%d,%d,%d],\"data_offsets\":[0,%d]},"
                          "\"k\":{\"dtype\":\"F32\",\"shape\":[1,%d,%d,%d],\"data_offsets\":[%d,%d]},"
                          "\"v\":{\"dtype\":\"F32\",\"shape\":[1,%d,%d,%d],\"data_offsets\":[%d,%d]}}",
                          FILE_HEADS, FILE_TOKENS, FILE_WIDTH, BYTES, FILE_HEADS, FILE_TOKENS, FILE_WIDTH, BYTES,
                          2 * BYTES, FILE_HEADS, FILE_TOKENS, FILE_WIDTH, 2 * BYTES, 3 * BYTES);
    while (length % 8 != 0)
        header[length++] = ' ';
    uint64_t size = (uint64_t)length;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(&size, 8, 1, file), 1);
    assert_int_equal(fwrite(header, (size_t)length, 1, file), 1);
    for (int t = 0; t < 3; t++)
        for (int h = 0; h < FILE_HEADS; h++)
            for (int i = 0; i < FILE_TOKENS; i++)
                for (int d = 0; d < FILE_WIDTH; d++) {
                    int is_bad = t == bad_tensor && h == 1 && i == FILE_TOKENS - 1 && d == FILE_WIDTH - 1;
                    float value = is_bad ? bad : stored(t, h, i, d);
                    assert_int_equal(fwrite(&value, 4, 1, file), 1);
                }
    assert_int_equal(fclose(file), 0);
}

static void captured_files_are_cut_and_rounded(void **state)
{
    (void)state;
    char path[] = "/tmp/sb_test_XXXXXX.safetensors", line[256];
    int file = mkstemps(path, (int)strlen(".safetensors"));
    assert_true(file >= 0);
    close(file);
    write_captured(path, -1, 0.0F);
    snprintf(line, sizeof line, "--method dense-f16 --workload %s --heads 2 --seqlen 5", path);
    bench b;
    open_bench(&b, "cpu", "", line, 1, 1);
    assert_int_equal(measure(&b, 0).outcome, RS_DONE);
    const sparge_tensor *tensor[] = {&b.session.inputs[0].q, &b.session.inputs[0].k, &b.session.inputs[0].v};
    for (int t = 0; t < 3; t++) {
        const uint16_t *data = tensor[t]->data; /* the CPU's memory is ours */
        assert_int_equal(tensor[t]->dtype, SPARGE_F16);
        assert_int_equal(tensor[t]->shape[1], 2);
        assert_int_equal(tensor[t]->shape[2], 5);
        for (int h = 0; h < 2; h++)
            for (int i = 0; i < 5; i++)
                for (int d = 0; d < FILE_WIDTH; d++)
                    assert_true(sparge_f32_from_f16(data[(h * 5 + i) * FILE_WIDTH + d]) == stored(t, h, i, d));
    }
    close_bench(&b);
    unlink(path);
}

/* A method that skips the block of a NaN would look exact: such inputs are refused, by name, whatever the method. Only
 * what is used counts, as it is used: 1e5 is infinite as f16 and fine as bf16. */
static void inputs_that_are_not_finite_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *options, *reason; /* NULL: fine */
        int tensor;
        float value;
    } cases[] = {
        {"", "q has 1 values that are NaN or infinite as f16, first at [0, 1, 11, 15]", 0, NAN},
        {"", "k has 1 values", 1, -INFINITY},
        {"", "v has 1 values", 2, NAN},
        {"", "v has 1 values that are NaN or infinite as f16", 2, 1e5F},
        {"--dtype bf16", NULL, 2, 1e5F},
        {"--heads 1", NULL, 2, NAN},
        {"--seqlen 11", NULL, 2, NAN},
    };
    char path[] = "/tmp/sb_test_XXXXXX.safetensors", line[256];
    int file = mkstemps(path, (int)strlen(".safetensors"));
    assert_true(file >= 0);
    close(file);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_captured(path, cases[i].tensor, cases[i].value);
        snprintf(line, sizeof line,
                 "--method dense-f16,window --set window.local=1 --set window.sink=0 --workload %s %s", path,
                 cases[i].options);
        bench b;
        open_bench(&b, "cpu", "", line, 1, 1);
        for (size_t n = 0; n < 2; n++) {
            sb_result result = measure(&b, n);
            assert_int_equal(result.outcome, cases[i].reason ? RS_FAILED : RS_DONE);
            if (cases[i].reason && !strstr(result.reason, cases[i].reason))
                fail_msg("\"%s\" does not say \"%s\"", result.reason, cases[i].reason);
        }
        close_bench(&b);
    }
    unlink(path);
}

/* In another token order, position p holds what row-major order has at source[p]. */
static void orders_permute_all_three_tensors(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, "cpu", "", "--method dense-f16 --workload mochi --heads 1 --seqlen 600 --order row,hilbert,random",
               1, 1);
    assert_int_equal(b.points.count, 3);
    sb_inputs row, other;
    sparge_error error;
    assert_int_equal(sb_inputs_create(b.context, &b.points.point[0].workload, &row, &error), SPARGE_OK);
    assert_null(row.source);
    for (size_t n = 1; n < 3; n++) {
        assert_int_equal(sb_inputs_create(b.context, &b.points.point[n].workload, &other, &error), SPARGE_OK);
        assert_non_null(other.source);
        const sparge_tensor *from[] = {&row.q, &row.k, &row.v}, *to[] = {&other.q, &other.k, &other.v};
        int64_t tokens = row.q.shape[2], moved = 0;
        for (int t = 0; t < 3; t++) {
            size_t width = (size_t)from[t]->shape[3];
            const uint16_t *a = from[t]->data, *p = to[t]->data;
            for (int64_t i = 0; i < tokens; i++) {
                assert_memory_equal(p + (size_t)i * width, a + (size_t)other.source[i] * width, width * sizeof *a);
                moved += other.source[i] != i;
            }
        }
        assert_true(moved > tokens);
        sb_inputs_release(b.context, &other);
    }
    sb_inputs_release(b.context, &row);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_samples_are_kept_in_order),
        cmocka_unit_test(visits_tell_of_the_device),
        cmocka_unit_test(times_are_those_of_the_clock),
        cmocka_unit_test(lost_records_make_a_point_unmeasured),
        cmocka_unit_test(times_of_zero_make_a_point_unmeasured),
        cmocka_unit_test(outputs_that_are_not_finite_fail),
        cmocka_unit_test(launches_that_fail_fail_the_point),
        cmocka_unit_test(what_a_method_cannot_do_is_skipped),
        cmocka_unit_test(points_without_memory_are_skipped),
        cmocka_unit_test(a_device_with_little_memory_is_asked_before_it_is_used),
        cmocka_unit_test(need_is_counted_in_64_bits),
        cmocka_unit_test(interrupted_points_are_continued),
        cmocka_unit_test(the_time_cap_is_told),
        cmocka_unit_test(a_recorder_that_fails_ends_the_measurement),
        cmocka_unit_test(errors_are_measured_on_the_rows_asked_for),
        cmocka_unit_test(facts_come_from_the_plan),
        cmocka_unit_test(workloads_are_made_once),
        cmocka_unit_test(captured_files_are_cut_and_rounded),
        cmocka_unit_test(inputs_that_are_not_finite_are_refused),
        cmocka_unit_test(orders_permute_all_three_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
