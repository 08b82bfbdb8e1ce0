/* Contract of contexts, memory and events (context.h). */
#include "api.h"

static void backends(void **state)
{
    (void)state;
    assert_true(sparge_backend_count() >= 1);
    for (size_t i = 0; i < sparge_backend_count(); i++) {
        assert_true(strlen(sparge_backend_name(i)) > 0 && strlen(sparge_backend_summary(i)) > 0);
        assert_true(sparge_backend_device_count(sparge_backend_name(i)) >= 0);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(sparge_backend_name(i), sparge_backend_name(j));
    }
    assert_null(sparge_backend_name(sparge_backend_count()));
    assert_true(sparge_backend_device_count("cpu") >= 1);
    assert_int_equal(sparge_backend_device_count("no-such"), 0);
}

static void bad_contexts(void **state)
{
    sparge_error error = {0};
    sparge_context *context = (sparge_context *)&error;

    (void)state;
    assert_fails(sparge_context_create("no-such", 0, 0, &context, &error), SPARGE_ERROR_INVALID_ARGUMENT, error.text,
                 "no-such");
    assert_null(context);
    assert_fails(sparge_context_create("cpu", 0, -1, &context, &error), SPARGE_ERROR_INVALID_ARGUMENT, error.text,
                 "threads = -1");
    assert_int_not_equal(sparge_context_create("cpu", 99, 0, &context, &error), SPARGE_OK);
    assert_message(error.text, "device 99");
    assert_int_not_equal(sparge_context_create("cpu", -1, 0, &context, &error), SPARGE_OK);
    assert_message(error.text, "device -1");
    assert_int_not_equal(sparge_context_create(NULL, 0, 0, &context, &error), SPARGE_OK);
    assert_int_not_equal(sparge_context_create("no-such", 0, 0, &context, NULL), SPARGE_OK);
    sparge_context_destroy(NULL);
}

static void automatic_backend(void **state)
{
    sparge_context *context;
    sparge_device_info info;
    sparge_error error;

    (void)state;
    assert_int_equal(sparge_context_create("auto", 0, 0, &context, &error), SPARGE_OK);
    assert_int_equal(sparge_device_get_info(context, &info), SPARGE_OK);
    assert_string_not_equal(info.backend, "fake");
    sparge_context_destroy(context);
}

static void device_info(void **state)
{
    sparge_context *context;
    sparge_device_info info;
    sparge_error error;

    (void)state;
    assert_int_equal(sparge_context_create("cpu", 0, 1, &context, &error), SPARGE_OK);
    assert_int_equal(sparge_device_get_info(context, &info), SPARGE_OK);
    assert_string_equal(info.backend, "cpu");
    assert_true(strlen(info.name) > 0 && strlen(info.arch) > 0);
    assert_int_equal(info.units, 1);
    assert_true(info.memory_bytes > 1u << 20);
    sparge_context_destroy(context);
}

/* A context says the same of its device as nobody's. */
static void devices_are_described_without_a_context(void **state)
{
    sparge_context *context = api_context();
    sparge_device_info with, without;
    sparge_error error = {0};
    (void)state;
    assert_int_equal(sparge_device_get_info(context, &with), SPARGE_OK);
    assert_string_equal(sparge_backend_choose(with.backend, &error), with.backend);
    assert_int_equal(sparge_device_describe(with.backend, 0, &without, &error), SPARGE_OK);
    assert_string_equal(without.name, with.name);
    assert_string_equal(without.uuid, with.uuid);
    assert_string_equal(without.arch, with.arch);
    assert_string_equal(without.driver, with.driver);
    assert_string_equal(without.runtime, with.runtime);
    assert_string_equal(without.details, with.details);
    assert_int_equal(without.units, with.units);
    assert_int_equal(with.runtime[0] != '\0', strcmp(with.backend, "cuda") == 0);
    assert_fails(sparge_device_describe(with.backend, -1, &without, &error), SPARGE_ERROR_DEVICE, error.text,
                 "device -1");
    assert_fails(sparge_device_describe("no-such", 0, &without, &error), SPARGE_ERROR_INVALID_ARGUMENT, error.text,
                 "no-such");
    assert_fails(sparge_device_describe(NULL, 0, &without, &error), SPARGE_ERROR_INVALID_ARGUMENT, error.text,
                 "backend is NULL");
    assert_null(sparge_backend_choose("no-such", &error));
    assert_message(error.text, "no-such");
    assert_null(sparge_backend_choose(NULL, &error));
    assert_message(error.text, "backend is NULL");
    const char *chosen = sparge_backend_choose("auto", &error);
    assert_non_null(chosen);
    assert_true(sparge_backend_device_count(chosen) > 0);
    sparge_context_destroy(context);
}

static void free_memory_is_told_where_the_device_has_its_own(void **state)
{
    sparge_context *context = api_context();
    sparge_device_info info;
    uint64_t before, after, total;
    void *memory;
    (void)state;
    assert_int_equal(sparge_device_get_info(context, &info), SPARGE_OK);
    assert_int_equal(sparge_device_get_memory(context, &before, &total), SPARGE_OK);
    assert_true(before <= total);
    if (strcmp(info.backend, "cuda") == 0) {
        assert_int_equal(sparge_alloc(context, (size_t)64 << 20, &memory), SPARGE_OK);
        assert_int_equal(sparge_device_get_memory(context, &after, &total), SPARGE_OK);
        assert_true(after + ((uint64_t)64 << 20) <= before);
        sparge_free(context, memory);
    } else {
        assert_true(before == UINT64_MAX && total == UINT64_MAX);
    }
    sparge_context_destroy(context);
}

/* Of a GPU what is told is in the range of such devices; of a CPU there is nothing, and the reason is told. */
static void telemetry_is_told_or_refused_with_a_reason(void **state)
{
    sparge_context *context = api_context();
    sparge_device_info info;
    sparge_telemetry now;
    (void)state;
    assert_int_equal(sparge_device_get_info(context, &info), SPARGE_OK);
    const sparge_status status = sparge_device_get_telemetry(context, &now);
    if (strcmp(info.backend, "cpu") == 0 || status != SPARGE_OK) {
        assert_int_equal(status, SPARGE_ERROR_UNSUPPORTED);
        assert_message(sparge_error_string(context), strcmp(info.backend, "cpu") == 0 ? "cpu" : "libnvidia-ml.so.1");
        assert_true(now.sm_clock_mhz == -1 && now.power_mw == -1 && now.energy_mj == -1);
    } else {
        assert_true(now.sm_clock_mhz == -1 || (now.sm_clock_mhz > 0 && now.sm_clock_mhz < 10000));
        assert_true(now.temperature_c == -1 || (now.temperature_c > 0 && now.temperature_c < 150));
        assert_true(now.power_mw == -1 || (now.power_mw > 1000 && now.power_mw < 2000000));
        print_message("SM %d MHz, memory %d MHz, %d C, %lld of %lld mW, %lld mJ, slowed %lld %lld %lld %lld ns\n",
                      (int)now.sm_clock_mhz, (int)now.memory_clock_mhz, (int)now.temperature_c, (long long)now.power_mw,
                      (long long)now.power_limit_mw, (long long)now.energy_mj, (long long)now.slowed_ns[0],
                      (long long)now.slowed_ns[1], (long long)now.slowed_ns[2], (long long)now.slowed_ns[3]);
    }
    sparge_context_destroy(context);
}

static void how_a_device_is_set_up_is_told_or_refused_with_a_reason(void **state)
{
    sparge_context *context = api_context();
    sparge_device_info info;
    sparge_device_state setup;
    (void)state;
    assert_int_equal(sparge_device_get_info(context, &info), SPARGE_OK);
    const sparge_status status = sparge_device_get_state(context, &setup);
    if (strcmp(info.backend, "cpu") == 0 || status != SPARGE_OK) {
        assert_int_equal(status, SPARGE_ERROR_UNSUPPORTED);
        assert_message(sparge_error_string(context), strcmp(info.backend, "cpu") == 0 ? "cpu" : "libnvidia-ml.so.1");
        assert_true(setup.ecc == -1 && setup.mig == -1 && setup.processes == -1 && !*setup.vbios && !*setup.pci);
    } else {
        assert_in_range(setup.ecc + 1, 0, 2);
        assert_in_range(setup.persistence + 1, 0, 2);
        assert_in_range(setup.mig + 1, 0, 2);
        assert_true(setup.max_sm_clock_mhz == -1 || (setup.max_sm_clock_mhz > 0 && setup.max_sm_clock_mhz < 10000));
        assert_int_equal(strlen(setup.pci), strlen("00000000:1b:00.0"));
        print_message("PCI %s, VBIOS %s, ECC %d, persistence %d, MIG %d, at most %d MHz, %d processes\n", setup.pci,
                      setup.vbios, (int)setup.ecc, (int)setup.persistence, (int)setup.mig, (int)setup.max_sm_clock_mhz,
                      (int)setup.processes);
    }
    sparge_context_destroy(context);
}

static void error_string_starts_empty_and_is_per_context(void **state)
{
    sparge_context *a = api_context(), *b = api_context();
    sparge_tensor none = {0};

    (void)state;
    assert_string_equal(sparge_error_string(a), "");
    assert_int_equal(sparge_permute_tokens(a, &none, &none, NULL), SPARGE_ERROR_INVALID_ARGUMENT);
    assert_message(sparge_error_string(a), "from");
    assert_string_equal(sparge_error_string(b), "");
    sparge_context_destroy(a);
    sparge_context_destroy(b);
}

static void memory(void **state)
{
    static const size_t sizes[] = {1, 100, 4096, 1000003};
    sparge_context *context = api_context();

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = sizes[i];
        unsigned char *out = malloc(bytes), *back = malloc(bytes);
        void *device = NULL;

        assert_non_null(out);
        assert_non_null(back);
        for (size_t j = 0; j < bytes; j++)
            out[j] = (unsigned char)(j * 7 + i);
        assert_int_equal(sparge_alloc(context, bytes, &device), SPARGE_OK);
        assert_true((uintptr_t)device % 256 == 0);
        assert_int_equal(sparge_upload(context, device, out, bytes), SPARGE_OK);
        assert_int_equal(sparge_download(context, back, device, bytes), SPARGE_OK);
        assert_memory_equal(out, back, bytes);
        assert_int_equal(sparge_fill(context, device, 0xff, bytes), SPARGE_OK);
        assert_int_equal(sparge_download(context, back, device, bytes), SPARGE_OK);
        for (size_t j = 0; j < bytes; j++)
            assert_int_equal(back[j], 0xff);
        sparge_free(context, device);
        free(back);
        free(out);
    }
    sparge_free(context, NULL);
    sparge_context_destroy(context);
}

static void too_much_memory(void **state)
{
    sparge_context *context = api_context();
    void *device = context;

    (void)state;
    assert_fails(sparge_alloc(context, SIZE_MAX / 2, &device), SPARGE_ERROR_OUT_OF_MEMORY, sparge_error_string(context),
                 "9223372036854775807");
    assert_null(device);
    assert_fails(sparge_alloc(context, SIZE_MAX, &device), SPARGE_ERROR_OUT_OF_MEMORY, sparge_error_string(context),
                 "18446744073709551615");
    sparge_context_destroy(context);
}

static void events(void **state)
{
    sparge_context *context = api_context();
    sparge_event *a, *b, *c;
    int64_t ab, bc, ac;

    (void)state;
    assert_int_equal(sparge_event_create(context, &a), SPARGE_OK);
    assert_int_equal(sparge_event_create(context, &b), SPARGE_OK);
    assert_int_equal(sparge_event_create(context, &c), SPARGE_OK);
    assert_int_equal(sparge_event_record(a), SPARGE_OK);
    assert_int_equal(sparge_event_record(b), SPARGE_OK);
    assert_int_equal(sparge_event_record(c), SPARGE_OK);
    assert_int_equal(sparge_event_elapsed_ns(a, b, &ab), SPARGE_OK);
    assert_int_equal(sparge_event_elapsed_ns(b, c, &bc), SPARGE_OK);
    assert_int_equal(sparge_event_elapsed_ns(a, c, &ac), SPARGE_OK);
    assert_true(ab >= 0 && bc >= 0);
    assert_int_equal(ab + bc, ac);
    assert_int_equal(sparge_event_elapsed_ns(a, a, &ab), SPARGE_OK);
    assert_int_equal(ab, 0);
    sparge_event_destroy(a);
    sparge_event_destroy(b);
    sparge_event_destroy(c);
    sparge_event_destroy(NULL);
    sparge_context_destroy(context);
}

/* An event that was never recorded has no time. */
static void unrecorded_event(void **state)
{
    sparge_context *context = api_context();
    sparge_event *a, *b;
    int64_t ns;

    (void)state;
    assert_int_equal(sparge_event_create(context, &a), SPARGE_OK);
    assert_int_equal(sparge_event_create(context, &b), SPARGE_OK);
    assert_int_equal(sparge_event_record(a), SPARGE_OK);
    assert_fails(sparge_event_elapsed_ns(a, b, &ns), SPARGE_ERROR_INVALID_ARGUMENT, sparge_error_string(context),
                 "event");
    sparge_event_destroy(a);
    sparge_event_destroy(b);
    sparge_context_destroy(context);
}

static void bad_permutations(void **state)
{
    sparge_context *context = api_context();
    float from[6] = {0}, to[6] = {0};
    sparge_tensor x = sparge_tensor_hnd(from, SPARGE_F32, 1, 1, 3, 2),
                  y = sparge_tensor_hnd(to, SPARGE_F32, 1, 1, 3, 2);
    sparge_tensor shorter = sparge_tensor_hnd(to, SPARGE_F32, 1, 1, 2, 2);
    sparge_tensor bytes = sparge_tensor_hnd(from, SPARGE_I8, 1, 1, 3, 2);
    sparge_tensor strided = y, empty = x;

    (void)state;
    strided.stride[3] = 2;
    empty.shape[2] = -3;
    assert_fails(sparge_permute_tokens(context, &empty, &empty, (const int64_t[]){0, 1, 2}),
                 SPARGE_ERROR_INVALID_ARGUMENT, sparge_error_string(context), "from: every axis");
    assert_fails(sparge_permute_tokens(context, &x, &y, (const int64_t[]){0, 1, 3}), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(context), "source[2] = 3");
    assert_fails(sparge_permute_tokens(context, &x, &y, (const int64_t[]){0, -1, 2}), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(context), "source[1] = -1");
    assert_fails(sparge_permute_tokens(context, &x, &y, (const int64_t[]){0, 1, 1}), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(context), "source[2] = 1");
    assert_fails(sparge_permute_tokens(context, &x, &shorter, (const int64_t[]){0, 1, 2}),
                 SPARGE_ERROR_INVALID_ARGUMENT, sparge_error_string(context), "to");
    assert_fails(sparge_permute_tokens(context, &bytes, &bytes, (const int64_t[]){0, 1, 2}),
                 SPARGE_ERROR_INVALID_ARGUMENT, sparge_error_string(context), "dtype");
    assert_fails(sparge_permute_tokens(context, &x, &strided, (const int64_t[]){0, 1, 2}),
                 SPARGE_ERROR_INVALID_ARGUMENT, sparge_error_string(context), "stride[3]");
    assert_fails(sparge_permute_tokens(context, &x, &x, (const int64_t[]){0, 1, 2}), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(context), "overlap");
    for (size_t i = 0; i < 6; i++)
        assert_true(to[i] == 0.0F);
    sparge_context_destroy(context);
}

static void bad_generators(void **state)
{
    sparge_context *context = api_context();
    void *numbers;
    sparge_generator good = {.kind = SPARGE_GENERATE_STRUCTURED,
                             .heads_q = 2,
                             .heads_kv = 1,
                             .correlation = 0.5F,
                             .scale_length = 2.0F,
                             .sharpness = 1.0F};
    sparge_tensor tensor, nhd, f64;
    sparge_generator g;

    (void)state;
    assert_int_equal(sparge_alloc(context, 2 * 4 * 8 * sizeof(float), &numbers), SPARGE_OK);
    tensor = f64 = sparge_tensor_hnd(numbers, SPARGE_F32, 1, 2, 4, 8);
    nhd = sparge_tensor_nhd(numbers, SPARGE_F32, 1, 2, 4, 8);
    f64.dtype = SPARGE_F64;
    g = good;
    g.correlation = 1.5F;
    assert_fails(sparge_generate(context, &g, SPARGE_ROLE_Q, &tensor), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(context), "correlation = 1.5");
    g = good;
    g.scale_length = 0.5F;
    assert_fails(sparge_generate(context, &g, SPARGE_ROLE_Q, &tensor), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(context), "scale_length = 0.5");
    g = good;
    g.heads_kv = 3;
    assert_fails(sparge_generate(context, &g, SPARGE_ROLE_Q, &tensor), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(context), "heads_kv = 3");
    g = good;
    g.kind = (sparge_generator_kind)17;
    assert_fails(sparge_generate(context, &g, SPARGE_ROLE_Q, &tensor), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(context), "kind = 17");
    assert_fails(sparge_generate(context, &good, SPARGE_ROLE_K, &tensor), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(context), "heads");
    assert_fails(sparge_generate(context, &good, SPARGE_ROLE_Q, &nhd), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(context), "HND");
    assert_fails(sparge_generate(context, &good, SPARGE_ROLE_Q, &f64), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(context), "dtype");
    assert_fails(sparge_generate(context, &good, (sparge_tensor_role)9, &tensor), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(context), "role");
    assert_int_equal(sparge_generate(context, &good, SPARGE_ROLE_Q, &tensor), SPARGE_OK);
    sparge_free(context, numbers);
    sparge_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backends),
        cmocka_unit_test(bad_contexts),
        cmocka_unit_test(automatic_backend),
        cmocka_unit_test(device_info),
        cmocka_unit_test(devices_are_described_without_a_context),
        cmocka_unit_test(free_memory_is_told_where_the_device_has_its_own),
        cmocka_unit_test(telemetry_is_told_or_refused_with_a_reason),
        cmocka_unit_test(how_a_device_is_set_up_is_told_or_refused_with_a_reason),
        cmocka_unit_test(error_string_starts_empty_and_is_per_context),
        cmocka_unit_test(memory),
        cmocka_unit_test(too_much_memory),
        cmocka_unit_test(events),
        cmocka_unit_test(unrecorded_event),
        cmocka_unit_test(bad_permutations),
        cmocka_unit_test(bad_generators),
    };
    return api_is_idle() ? 77 : cmocka_run_group_tests(tests, NULL, NULL);
}
