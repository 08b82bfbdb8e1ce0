/* The fake backend: scenarios are parsed strictly, and times follow the script to the nanosecond. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake/fake.h"
#include "sparge/sparge.h"

static void test_scenario_values(void **state)
{
    (void)state;
    fake_scenario s;
    assert_int_equal(fake_scenario_parse(NULL, &s, NULL), SPARGE_OK);
    assert_int_equal(s.seed, 1);
    assert_int_equal(s.step_launch, -1);
    assert_int_equal(
        fake_scenario_parse("seed=9,noise=0.01,drift=0.001,spike=0.5,step=3:1.5,slow=dense-f16:2,"
                            "fail=a,poison=b,lost=4,zero=5,memory=1000,devices=2,telemetry=0,capped=1,sleep_ms=2.5",
                            &s, NULL),
        SPARGE_OK);
    assert_int_equal(s.seed, 9);
    assert_true(s.noise == 0.01 && s.drift == 0.001 && s.spike == 0.5 && s.sleep_ms == 2.5);
    assert_int_equal(s.step_launch, 3);
    assert_true(s.step_factor == 1.5);
    assert_int_equal(s.rules, 3);
    assert_string_equal(s.rule[0].method, "dense-f16");
    assert_true(s.rule[0].factor == 2);
    assert_int_equal(s.lost, 4);
    assert_int_equal(s.zero, 5);
    assert_int_equal(s.memory_bytes, 1000);
    assert_int_equal(s.devices, 2);
    assert_int_equal(s.telemetry, 0);
    assert_int_equal(s.capped, 1);
}

static void test_malformed_scenarios(void **state)
{
    (void)state;
    static const char *const bad[] = {"noise",      "noise=",      "noise=x", "noise=1",  "unknown=1",  "step=1",
                                      "step=a:2",   "slow=m",      "slow=:2", "slow=m:0", "fail=",      "memory=0",
                                      "lost=-1",    "seed=1x",     "=1",      "spike=2",  "step=3:nan", "devices=0",
                                      "devices=65", "telemetry=2", "capped=2"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fake_scenario s;
        sparge_error error = {0};
        if (fake_scenario_parse(bad[i], &s, &error) == SPARGE_OK)
            fail_msg("\"%s\" was accepted", bad[i]);
        assert_non_null(strstr(error.text, "SPARGE_FAKE"));
    }
}

typedef struct bench {
    sparge_context *context;
    sparge_plan *plan;
    sparge_io io;
    sparge_event *begin, *end;
} bench;

static sparge_problem bench_problem(void)
{
    return (sparge_problem){
        .batch = 1, .heads_q = 1, .heads_kv = 1, .seqlen_q = 70, .seqlen_k = 70, .head_dim = 64, .dtype = SPARGE_F16};
}

static bench bench_open(const char *scenario)
{
    bench b = {0};
    sparge_error error = {0};
    sparge_problem p = bench_problem();
    assert_int_equal(setenv("SPARGE_FAKE", scenario, 1), 0);
    if (sparge_context_create("fake", 0, 1, &b.context, &error) != SPARGE_OK)
        fail_msg("%s", error.text);
    sparge_params *params;
    assert_int_equal(sparge_params_create(sparge_method_find("dense-f16"), &params), SPARGE_OK);
    assert_int_equal(sparge_plan_create(b.context, params, &p, &b.plan), SPARGE_OK);
    sparge_params_destroy(params);
    sparge_tensor *tensors[4] = {&b.io.q, &b.io.k, &b.io.v, &b.io.o};
    for (int i = 0; i < 4; i++) {
        void *memory;
        assert_int_equal(sparge_alloc(b.context, 70 * 64 * 2, &memory), SPARGE_OK);
        assert_int_equal(sparge_fill(b.context, memory, 0, 70 * 64 * 2), SPARGE_OK);
        *tensors[i] = sparge_tensor_hnd(memory, SPARGE_F16, 1, 1, 70, 64);
    }
    assert_int_equal(sparge_event_create(b.context, &b.begin), SPARGE_OK);
    assert_int_equal(sparge_event_create(b.context, &b.end), SPARGE_OK);
    return b;
}

static void bench_close(bench *b)
{
    sparge_event_destroy(b->begin);
    sparge_event_destroy(b->end);
    sparge_free(b->context, b->io.q.data);
    sparge_free(b->context, b->io.k.data);
    sparge_free(b->context, b->io.v.data);
    sparge_free(b->context, b->io.o.data);
    sparge_plan_destroy(b->plan);
    sparge_context_destroy(b->context);
    unsetenv("SPARGE_FAKE");
}

static sparge_status launch(bench *b, int64_t *ns)
{
    sparge_event_record(b->begin);
    sparge_status status = sparge_plan_run(b->plan, SPARGE_STAGE_ALL, &b->io);
    sparge_event_record(b->end);
    return status == SPARGE_OK ? sparge_event_elapsed_ns(b->begin, b->end, ns) : status;
}

static double base_ns(void)
{
    sparge_problem p = bench_problem();
    return 5000 + sparge_problem_dense_ops(&p) * 1e-3;
}

static void test_times_follow_the_script(void **state)
{
    (void)state;
    bench b = bench_open("step=2:1.5,slow=dense-f16:2,drift=0.1");
    for (int i = 0; i < 4; i++) {
        int64_t ns;
        assert_int_equal(launch(&b, &ns), SPARGE_OK);
        double want = base_ns() * 2 * (1 + 0.1 * i) * (i >= 2 ? 1.5 : 1);
        assert_true(fabs((double)ns - want) <= 1);
    }
    bench_close(&b);
}

static void test_noise_has_the_size_asked_for_and_repeats(void **state)
{
    (void)state;
    enum { N = 2000 };
    static int64_t first[N];
    for (int round = 0; round < 2; round++) {
        bench b = bench_open("seed=5,noise=0.02");
        double sum = 0, squares = 0;
        for (int i = 0; i < N; i++) {
            int64_t ns;
            assert_int_equal(launch(&b, &ns), SPARGE_OK);
            double relative = (double)ns / base_ns() - 1;
            sum += relative;
            squares += relative * relative;
            if (round == 0)
                first[i] = ns;
            else
                assert_int_equal(ns, first[i]);
        }
        double deviation = sqrt(squares / N - sum / N * (sum / N));
        assert_true(fabs(sum / N) < 0.002);
        assert_true(deviation > 0.018 && deviation < 0.022);
        bench_close(&b);
    }
}

static size_t workspace_of_bench(void)
{
    sparge_context *context;
    sparge_params *params;
    sparge_problem p = bench_problem();
    size_t bytes;
    assert_int_equal(setenv("SPARGE_FAKE", "", 1), 0);
    assert_int_equal(sparge_context_create("fake", 0, 1, &context, NULL), SPARGE_OK);
    assert_int_equal(sparge_params_create(sparge_method_find("dense-f16"), &params), SPARGE_OK);
    assert_int_equal(sparge_plan_size(context, params, &p, &bytes), SPARGE_OK);
    assert_true(bytes > 0);
    sparge_params_destroy(params);
    sparge_context_destroy(context);
    return bytes;
}

static void test_devices(void **state)
{
    (void)state;
    sparge_device_info info;
    sparge_error error = {0};
    uint64_t left, total;
    assert_int_equal(setenv("SPARGE_FAKE", "devices=3,memory=4096", 1), 0);
    assert_int_equal(sparge_backend_device_count("fake"), 3);
    for (int device = 0; device < 3; device++) {
        sparge_context *context;
        char uuid[16];
        snprintf(uuid, sizeof uuid, "FAKE-%d", device);
        assert_int_equal(sparge_device_describe("fake", device, &info, &error), SPARGE_OK);
        assert_string_equal(info.uuid, uuid);
        assert_int_equal(info.memory_bytes, 4096);
        assert_int_equal(sparge_context_create("fake", device, 1, &context, &error), SPARGE_OK);
        assert_int_equal(sparge_device_get_memory(context, &left, &total), SPARGE_OK);
        assert_int_equal(left, 4096);
        sparge_context_destroy(context);
    }
    assert_int_equal(sparge_device_describe("fake", 3, &info, &error), SPARGE_ERROR_DEVICE);
    assert_non_null(strstr(error.text, "device 3: backend fake has 3 devices"));
    assert_int_equal(setenv("SPARGE_FAKE", "nonsense", 1), 0);
    assert_int_equal(sparge_backend_device_count("fake"), 1);
    unsetenv("SPARGE_FAKE");
}

static void test_scripted_failures(void **state)
{
    (void)state;
    int64_t ns;
    bench b = bench_open("fail=dense-f16");
    assert_int_equal(launch(&b, &ns), SPARGE_ERROR_DEVICE);
    assert_non_null(strstr(sparge_error_string(b.context), "scripted"));
    bench_close(&b);

    b = bench_open("lost=2,zero=3");
    assert_int_equal(launch(&b, &ns), SPARGE_OK);
    assert_true(ns > 0);
    assert_int_equal(launch(&b, &ns), SPARGE_ERROR_DEVICE);
    assert_int_equal(launch(&b, &ns), SPARGE_OK);
    assert_int_equal(ns, 0);
    bench_close(&b);

    b = bench_open("poison=dense-f16");
    assert_int_equal(launch(&b, &ns), SPARGE_OK);
    assert_true(isnan(sparge_f32_from_f16(*(uint16_t *)b.io.o.data)));
    bench_close(&b);

    /* Room for the plan and the four tensors of 8960 bytes, and 14160 bytes more. */
    size_t workspace = workspace_of_bench();
    char limit[64];
    snprintf(limit, sizeof limit, "memory=%zu", workspace + 50000);
    b = bench_open(limit);
    void *memory;
    uint64_t left, total;
    assert_int_equal(sparge_device_get_memory(b.context, &left, &total), SPARGE_OK);
    assert_int_equal(total, workspace + 50000);
    assert_int_equal(left, 50000 - 4 * 8960);
    assert_int_equal(sparge_alloc(b.context, 20000, &memory), SPARGE_ERROR_OUT_OF_MEMORY);
    sparge_free(b.context, b.io.o.data); /* freeing gives the bytes back */
    b.io.o.data = NULL;
    assert_int_equal(sparge_alloc(b.context, 8000, &memory), SPARGE_OK);
    sparge_free(b.context, memory);
    sparge_params *params;
    sparge_plan *second;
    sparge_problem p = bench_problem();
    assert_int_equal(sparge_params_create(sparge_method_find("dense-f16"), &params), SPARGE_OK);
    assert_int_equal(sparge_plan_create(b.context, params, &p, &second), SPARGE_ERROR_OUT_OF_MEMORY);
    sparge_plan_destroy(b.plan); /* and so does destroying a plan */
    assert_int_equal(sparge_plan_create(b.context, params, &p, &b.plan), SPARGE_OK);
    sparge_params_destroy(params);
    bench_close(&b);

    assert_int_equal(setenv("SPARGE_FAKE", "nonsense", 1), 0);
    sparge_context *context;
    sparge_error error = {0};
    assert_int_equal(sparge_context_create("fake", 0, 0, &context, &error), SPARGE_ERROR_INVALID_ARGUMENT);
    assert_null(context);
    assert_non_null(strstr(error.text, "nonsense"));
    unsetenv("SPARGE_FAKE");
}

/* Energy follows the virtual clock: 100 W. */
static void test_telemetry(void **state)
{
    (void)state;
    bench b = bench_open("telemetry=1");
    sparge_telemetry before, after;
    int64_t ns = 0;
    assert_int_equal(sparge_device_get_telemetry(b.context, &before), SPARGE_OK);
    assert_int_equal(launch(&b, &ns), SPARGE_OK);
    assert_int_equal(sparge_device_get_telemetry(b.context, &after), SPARGE_OK);
    assert_true(after.sm_clock_mhz == 1000 && after.power_mw == 100000 && after.power_limit_mw == 200000);
    assert_true(llabs(after.energy_mj - before.energy_mj - ns / 10000) <= 1);
    sparge_device_state setup;
    assert_int_equal(sparge_device_get_state(b.context, &setup), SPARGE_OK);
    assert_int_equal(setup.processes, 1);
    bench_close(&b);
    b = bench_open("shared=1");
    assert_int_equal(sparge_device_get_state(b.context, &setup), SPARGE_OK);
    assert_true(setup.processes == 2 && setup.ecc == 1 && setup.mig == 0);
    bench_close(&b);
    b = bench_open("telemetry=0");
    assert_int_equal(sparge_device_get_telemetry(b.context, &before), SPARGE_ERROR_UNSUPPORTED);
    assert_non_null(strstr(sparge_error_string(b.context), "telemetry=0"));
    assert_true(before.sm_clock_mhz == -1 && before.energy_mj == -1 && before.slowed_ns[0] == -1);
    assert_int_equal(sparge_device_get_state(b.context, &setup), SPARGE_ERROR_UNSUPPORTED);
    assert_true(setup.processes == -1 && !*setup.pci);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scenario_values),
        cmocka_unit_test(test_malformed_scenarios),
        cmocka_unit_test(test_telemetry),
        cmocka_unit_test(test_times_follow_the_script),
        cmocka_unit_test(test_noise_has_the_size_asked_for_and_repeats),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_scripted_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
