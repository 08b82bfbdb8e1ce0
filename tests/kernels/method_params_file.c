/* Files of per-head parameters: what is read, and every way in which a file is refused. */
#include "check.h"
#include "sparge/sparge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/method_params_XXXXXX";

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static sparge_params *params_of(const char *method)
{
    sparge_params *params;
    assert_int_equal(sparge_params_create(sparge_method_find(method), &params), SPARGE_OK);
    return params;
}

static const sparge_problem problem = {
    .batch = 1, .heads_q = 4, .heads_kv = 2, .seqlen_q = 256, .seqlen_k = 256, .head_dim = 64};

static const char good[] =
    "{\"schema\": \"sparge-params\", \"version\": 1, \"method\": \"sparge-int8-fp8\", \"heads\": 4,"
    " \"provenance\": {\"by\": \"hand\"},"
    " \"values\": {\"tau\": [0.5, 0.75, 1, 0], \"lambda\": [-10.5, \"-inf\", 0, -7]}}";

static void accepted(void **state)
{
    sparge_params *from_file = params_of("sparge-int8-fp8"), *by_hand = params_of("sparge-int8-fp8"), *copy;
    static const double tau[] = {0.5, 0.75, 1, 0};
    const double lambda[] = {-10.5, -strtod("inf", NULL), 0, -7};
    sparge_error error = {0};
    (void)state;
    write_file(good);
    if (sparge_params_set(from_file, "params", path, &error) != SPARGE_OK)
        fail_msg("%s", error.text);
    assert_string_equal(sparge_params_get(from_file, "params"), path);
    assert_int_equal(sparge_params_set_heads(by_hand, "tau", tau, 4, &error), SPARGE_OK);
    assert_int_equal(sparge_params_set_heads(by_hand, "lambda", lambda, 4, &error), SPARGE_OK);
    assert_string_equal(sparge_params_get(from_file, "tau"), sparge_params_get(by_hand, "tau"));
    assert_string_equal(sparge_params_get(from_file, "lambda"), sparge_params_get(by_hand, "lambda"));
    assert_string_equal(sparge_params_get(from_file, "theta"), "0.6");
    assert_int_equal(sparge_params_check(from_file, &problem, &error), SPARGE_OK);

    /* The values live in the parameters, not in the file. */
    unlink(path);
    assert_int_equal(sparge_params_clone(from_file, &copy), SPARGE_OK);
    assert_string_equal(sparge_params_get(copy, "tau"), sparge_params_get(by_hand, "tau"));
    assert_int_equal(sparge_params_set(copy, "params", "", &error), SPARGE_OK);
    assert_string_equal(sparge_params_get(copy, "tau"), "0.98");
    assert_string_equal(sparge_params_get(copy, "lambda"), "-inf");
    assert_string_equal(sparge_params_get(copy, "params"), "");
    sparge_params_destroy(from_file);
    sparge_params_destroy(by_hand);
    sparge_params_destroy(copy);
}

/* A later file replaces the per-head values of an earlier one, all of them. */
static void replaced(void **state)
{
    sparge_params *params = params_of("sparge-int8-fp8");
    sparge_error error = {0};
    (void)state;
    write_file(good);
    assert_int_equal(sparge_params_set(params, "params", path, &error), SPARGE_OK);
    write_file("{\"schema\": \"sparge-params\", \"version\": 1, \"method\": \"sparge-int8-fp8\", \"heads\": 1,"
               " \"values\": {\"theta\": [0.25]}}");
    assert_int_equal(sparge_params_set(params, "params", path, &error), SPARGE_OK);
    assert_string_equal(sparge_params_get(params, "tau"), "0.98");
    assert_memory_equal(sparge_params_get(params, "theta"), "per-head:", 9);
    assert_int_equal(sparge_params_check(params, &problem, &error), SPARGE_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(error.text, "theta: 1 per-head values for 4 query heads"));
    sparge_params_destroy(params);
}

#define FILE_OF(method_, heads_, values_)                                                                              \
    "{\"schema\": \"sparge-params\", \"version\": 1, \"method\": \"" method_ "\", \"heads\": " heads_                  \
    ", \"values\": " values_ "}"

static const struct {
    const char *text, *names;
} malformed[] = {
    {"", "line"},
    {"{", "line"},
    {"[1, 2]", "not a JSON object"},
    {"{\"schema\": \"sparge-params\", \"schema\": \"sparge-params\"}", "duplicate"},
    {"{}", "schema"},
    {"{\"schema\": 1}", "schema"},
    {"{\"schema\": \"sparge-mask\"}", "schema"},
    {"{\"schema\": \"sparge-params\"}", "version"},
    {"{\"schema\": \"sparge-params\", \"version\": 2}", "version"},
    {"{\"schema\": \"sparge-params\", \"version\": 1.0}", "version"},
    {"{\"schema\": \"sparge-params\", \"version\": \"1\"}", "version"},
    {"{\"schema\": \"sparge-params\", \"version\": 1}", "method"},
    {FILE_OF("sparge-f16", "1", "{\"tau\": [1]}"), "sparge-f16"},
    {"{\"schema\": \"sparge-params\", \"version\": 1, \"method\": \"sparge-int8-fp8\", \"values\": {\"tau\": [1]}}",
     "heads"},
    {FILE_OF("sparge-int8-fp8", "0", "{\"tau\": []}"), "heads"},
    {FILE_OF("sparge-int8-fp8", "-1", "{\"tau\": [1]}"), "heads"},
    {FILE_OF("sparge-int8-fp8", "1e9", "{\"tau\": [1]}"), "heads"},
    {FILE_OF("sparge-int8-fp8", "9999999999", "{\"tau\": [1]}"), "heads"},
    {FILE_OF("sparge-int8-fp8", "2000000000", "{\"tau\": [1]}"), "tau"},
    {FILE_OF("sparge-int8-fp8", "2", "{\"tau\": [1]}"), "tau"},
    {FILE_OF("sparge-int8-fp8", "2", "{\"tau\": [1, 1], \"theta\": [0, 0, 0]}"), "theta"},
    {FILE_OF("sparge-int8-fp8", "1", "{\"tau\": 1}"), "tau"},
    {FILE_OF("sparge-int8-fp8", "1", "{\"tau\": [\"1\"]}"), "tau"},
    {FILE_OF("sparge-int8-fp8", "1", "{\"tau\": [null]}"), "tau"},
    {FILE_OF("sparge-int8-fp8", "1", "{\"tau\": [1.5]}"), "tau"},
    {FILE_OF("sparge-int8-fp8", "1", "{\"tau\": [\"-inf\"]}"), "tau"},
    {FILE_OF("sparge-int8-fp8", "1", "{\"lambda\": [\"inf\"]}"), "lambda"},
    {FILE_OF("sparge-int8-fp8", "1", "{\"tua\": [1]}"), "tua"},
    {FILE_OF("sparge-int8-fp8", "1", "{\"exp\": [1]}"), "exp"},
    {FILE_OF("sparge-int8-fp8", "1", "{}"), "values"},
    {FILE_OF("sparge-int8-fp8", "1", "[1]"), "values"},
    {FILE_OF("sparge-int8-fp8", "1", "{\"tau\": [1]}, \"layer\": 3"), "layer"},
    {FILE_OF("sparge-int8-fp8", "1", "{\"tau\": [1]}, \"provenance\": \"me\""), "provenance"},
    {FILE_OF("sparge-int8-fp8", "1", "{\"tau\": [1]}") " x", "line"},
};

static void refused(void **state)
{
    static const double tau[] = {0.5, 0.25};
    sparge_params *params = params_of("sparge-int8-fp8");
    char before[64];
    (void)state;
    assert_int_equal(sparge_params_set_heads(params, "tau", tau, 2, NULL), SPARGE_OK);
    snprintf(before, sizeof before, "%s", sparge_params_get(params, "tau"));
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        sparge_error error = {0};
        write_file(malformed[i].text);
        const sparge_status status = sparge_params_set(params, "params", path, &error);
        if (status != SPARGE_ERROR_IO && status != SPARGE_ERROR_INVALID_ARGUMENT)
            fail_msg("accepted: %s", malformed[i].text);
        assert_int_equal(status, error.status);
        if (!strstr(error.text, malformed[i].names) || !strstr(error.text, path) || strchr(error.text, '\n'))
            fail_msg("'%s' should be one line with the path and %s", error.text, malformed[i].names);
        assert_string_equal(sparge_params_get(params, "tau"), before); /* nothing changed */
        assert_string_equal(sparge_params_get(params, "params"), "");
        assert_string_equal(sparge_params_get(params, "theta"), "0.6");
    }
    sparge_error error = {0};
    assert_int_equal(sparge_params_set(params, "params", "/no/such/file.json", &error), SPARGE_ERROR_IO);
    assert_non_null(strstr(error.text, "/no/such/file.json"));
    sparge_params_destroy(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(accepted), cmocka_unit_test(replaced),
                                       cmocka_unit_test(refused)};
    const int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    close(fd);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
