/* Which machine code a device runs, and programs without any. What is read of real ones: tests/device_code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "device_code.h"

static void a_device_runs_the_newest_code_of_its_generation(void **state)
{
    (void)state;
    device_kernel kernels[] = {{.arch = "sm_89"}, {.arch = "sm_80"}, {.arch = "sm_90a"}, {.arch = "sm_80"}};
    const device_code code = {.kernels = kernels, .kernel_count = 4};
    static const char *const cases[][2] = {
        {"sm_80", "sm_80"}, {"sm_86", "sm_80"}, {"sm_89", "sm_89"}, {"sm_90", "sm_90a"},
        {"sm_75", NULL},    {"sm_100", NULL},   {"x86-64", NULL},   {"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *arch = device_code_arch(&code, cases[i][0]);
        if (!arch || !cases[i][1])
            assert_true(!arch && !cases[i][1]);
        else
            assert_string_equal(arch, cases[i][1]);
    }
}

/* This program has no code for a GPU; a text and a missing file are no programs. */
static void what_has_no_code_is_refused_with_a_reason(void **state)
{
    (void)state;
    static const char *const paths[] = {"/proc/self/exe", "/proc/self/status", "/nowhere"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        device_code code;
        assert_int_equal(device_code_read(&code, paths[i]), -1);
        assert_true(code.error[0] != '\0');
        assert_null(device_code_arch(&code, "sm_90"));
        device_code_release(&code);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_runs_the_newest_code_of_its_generation),
        cmocka_unit_test(what_has_no_code_is_refused_with_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
