/* The umbrella header: linkage, version, and that nothing else is needed. That every header compiles alone, twice, as C
 * and as C++, is checked while building (CMakeLists.txt makes one file a header). */
#include "sparge/sparge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#ifdef SPARGE_HEADERS_CXX
const char *sparge_version_from_cxx(void); /* headers.cc */
#endif

static void version(void **state)
{
    char text[32];

    (void)state;
    snprintf(text, sizeof text, "%d.%d.%d", SPARGE_VERSION_MAJOR, SPARGE_VERSION_MINOR, SPARGE_VERSION_PATCH);
    assert_string_equal(sparge_version(), text);
#ifdef SPARGE_HEADERS_CXX
    assert_string_equal(sparge_version_from_cxx(), text);
#endif
}

/* Numbers that files, databases and other languages may have stored. */
static void values_are_fixed(void **state)
{
    (void)state;
    assert_int_equal(SPARGE_OK, 0);
    assert_int_equal(SPARGE_F16, 0);
    assert_int_equal(SPARGE_E4M3, 5);
    assert_int_equal(SPARGE_STAGE_ALL, SPARGE_STAGE_PREPARE | SPARGE_STAGE_SELECT | SPARGE_STAGE_ATTEND);
    assert_int_equal(SPARGE_CAUSAL_BOTTOM_RIGHT, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(version), cmocka_unit_test(values_are_fixed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
