/* NVML as kernels/cuda reads it, against a library of known readings (fake_nvml.c), which CTest puts where the dynamic linker looks.
 * Needs no GPU. With the argument `missing`: without any NVML. */
#include "check.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/nvml.h"

static void fail_in(const char *function)
{
    assert_int_equal(setenv("FAKE_NVML", function, 1), 0);
}

static void readings_are_those_of_the_library(void **state)
{
    char reason[128] = "", version[64];
    sparge_telemetry now;
    (void)state;
    fail_in("");
    cuda_driver_version(version, sizeof version);
    assert_string_equal(version, "580.0.1");
    cuda_nvml *nvml = cuda_nvml_open("GPU-1", reason, sizeof reason);
    if (!nvml)
        fail_msg("%s", reason);
    cuda_nvml_read(nvml, &now);
    assert_int_equal(now.sm_clock_mhz, 1755);
    assert_int_equal(now.memory_clock_mhz, 3201);
    assert_int_equal(now.temperature_c, -1); /* the library lacks the function */
    assert_int_equal(now.power_mw, 123456);
    assert_int_equal(now.power_limit_mw, 700000);
    assert_true(now.energy_mj == 5000000000);
    assert_true(now.slowed_ns[SPARGE_SLOWDOWN_POWER_CAP] == 10000000074);
    assert_true(now.slowed_ns[SPARGE_SLOWDOWN_SOFTWARE_THERMAL] == 77);
    assert_true(now.slowed_ns[SPARGE_SLOWDOWN_HARDWARE_THERMAL] == 10000000270);
    assert_true(now.slowed_ns[SPARGE_SLOWDOWN_POWER_BRAKE] == -1); /* this field alone is not supported */
    sparge_device_state setup;
    cuda_nvml_read_state(nvml, &setup);
    assert_int_equal(setup.max_sm_clock_mhz, 1980);
    assert_int_equal(setup.ecc, 1);
    assert_int_equal(setup.persistence, 0);
    assert_int_equal(setup.mig, -1); /* the library lacks the function */
    assert_int_equal(setup.processes, 3);
    assert_string_equal(setup.vbios, "96.00.89");
    cuda_nvml_close(nvml);
}

/* One reading that fails leaves the others as they are. */
static void what_is_not_told_is_unknown(void **state)
{
    char reason[128] = "";
    sparge_telemetry now;
    (void)state;
    sparge_device_state setup;
    static const char *const failing[] = {"GetClockInfo", "PowerUsage", "PowerLimit",  "Energy", "FieldValues",
                                          "MaxClock",     "EccMode",    "Persistence", "Vbios",  "Processes"};
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        fail_in("");
        cuda_nvml *nvml = cuda_nvml_open("GPU-1", reason, sizeof reason);
        assert_non_null(nvml);
        fail_in(failing[i]);
        cuda_nvml_read(nvml, &now);
        assert_true((now.sm_clock_mhz == -1 && now.memory_clock_mhz == -1) == (i == 0));
        assert_true((now.power_mw == -1) == (i == 1));
        assert_true((now.power_limit_mw == -1) == (i == 2));
        assert_true((now.energy_mj == -1) == (i == 3));
        assert_true((now.slowed_ns[0] == -1) == (i == 4));
        cuda_nvml_read_state(nvml, &setup);
        assert_true((setup.max_sm_clock_mhz == -1) == (i == 5));
        assert_true((setup.ecc == -1) == (i == 6));
        assert_true((setup.persistence == -1) == (i == 7));
        assert_true((setup.vbios[0] == '\0') == (i == 8));
        assert_true((setup.processes == -1) == (i == 9));
        cuda_nvml_close(nvml);
    }
}

static void refusals_name_the_library_and_the_function(void **state)
{
    char reason[128], version[64] = "x";
    (void)state;
    fail_in("Init");
    assert_null(cuda_nvml_open("GPU-1", reason, sizeof reason));
    assert_string_equal(reason, "libnvidia-ml.so.1: nvmlInit_v2: Driver Not Loaded");
    cuda_driver_version(version, sizeof version);
    assert_string_equal(version, "");
    fail_in("");
    assert_null(cuda_nvml_open("GPU-2", reason, sizeof reason));
    assert_string_equal(reason, "libnvidia-ml.so.1: nvmlDeviceGetHandleByUUID of GPU-2: Not Found");
    cuda_nvml_close(NULL);
}

static int without_a_library(void)
{
    char reason[128] = "", version[64] = "x";
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library) {
        dlclose(library);
        return 77;
    }
    cuda_driver_version(version, sizeof version);
    const int refused = !cuda_nvml_open("GPU-1", reason, sizeof reason);
    return refused && !*version && strstr(reason, "libnvidia-ml.so.1: not found") ? 0 : 1;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readings_are_those_of_the_library),
        cmocka_unit_test(what_is_not_told_is_unknown),
        cmocka_unit_test(refusals_name_the_library_and_the_function),
    };
    if (argc > 1 && strcmp(argv[1], "missing") == 0)
        return without_a_library();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
