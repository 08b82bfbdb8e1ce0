/* The CUDA backend's contexts, memory, events and permutation. Needs a GPU. */
#include "cuda_case.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include <cuda_runtime_api.h>

static void info_describes_the_device(void **state)
{
    const cuda_case *c = *state;
    sparge_device_info info;
    int major = 0, minor = 0, units = 0;
    assert_int_equal(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
    assert_int_equal(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), cudaSuccess);
    assert_int_equal(cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
    expect_ok(c->cuda, sparge_device_get_info(c->cuda, &info));
    assert_string_equal(info.backend, "cuda");
    char arch[16];
    snprintf(arch, sizeof arch, "sm_%d%d", major, minor);
    assert_string_equal(info.arch, arch);
    assert_int_equal(info.units, units);
    assert_true(strlen(info.name) > 3 && info.memory_bytes > (uint64_t)1 << 30 && info.l2_bytes > 0);

    assert_int_equal(strlen(info.uuid), strlen("GPU-00000000-0000-0000-0000-000000000000"));
    assert_memory_equal(info.uuid, "GPU-", 4);
    for (size_t i = 4; i < strlen(info.uuid); i++)
        assert_true(i == 12 || i == 17 || i == 22 || i == 27 ? info.uuid[i] == '-'
                                                             : isxdigit((unsigned char)info.uuid[i]));

    /* A version begins with a number: "580.159.04", "13.0". */
    assert_true(isdigit((unsigned char)info.driver[0]) && strchr(info.driver, '.') != NULL);
    assert_true(isdigit((unsigned char)info.runtime[0]) && strchr(info.runtime, '.') != NULL);

    /* Lines of "key: value", none of them cut off. */
    static const char *const keys[] = {
        "CUDA of the driver: ", "shared memory: ",       "registers: ", "memory bus: ", "ECC: ",
        "highest SM clock: ",   "highest memory clock: "};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        assert_non_null(strstr(info.details, keys[i]));
    assert_true(strlen(info.details) < sizeof info.details - 1);
    print_message("%s %s %s, %d SMs, %.1f GiB\n%s\n", info.name, info.arch, info.uuid, (int)info.units,
                  (double)info.memory_bytes / 1073741824.0, info.details);
}

static void auto_prefers_the_device(void **state)
{
    (void)state;
    sparge_context *context;
    sparge_error error;
    sparge_device_info info;
    assert_string_equal(sparge_backend_name(0), "cuda");
    assert_int_equal(sparge_context_create("auto", 0, 0, &context, &error), SPARGE_OK);
    expect_ok(context, sparge_device_get_info(context, &info));
    assert_string_equal(info.backend, "cuda");
    sparge_context_destroy(context);
}

static void memory_comes_back_as_it_went(void **state)
{
    const cuda_case *c = *state;
    static const size_t sizes[] = {1, 3, 255, 4096, 1000003, (size_t)64 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const size_t bytes = sizes[i];
        unsigned char *out = malloc(bytes);
        assert_non_null(out);
        for (size_t j = 0; j < bytes; j++)
            out[j] = (unsigned char)(j * 7 + j / 251 + i);
        char *memory = case_alloc(c->cuda, bytes);
        assert_int_equal((uintptr_t)memory % 256, 0);
        expect_ok(c->cuda, sparge_fill(c->cuda, memory, 0xff, bytes));
        unsigned char *back = case_download(c->cuda, memory, bytes);
        for (size_t j = 0; j < bytes; j++)
            if (back[j] != 0xff)
                fail_msg("byte %zu of %zu is not filled", j, bytes);
        free(back);
        expect_ok(c->cuda, sparge_upload(c->cuda, memory, out, bytes));
        expect_ok(c->cuda, sparge_fill(c->cuda, memory + bytes / 2, 0, bytes / 3));
        memset(out + bytes / 2, 0, bytes / 3);
        back = case_download(c->cuda, memory, bytes);
        assert_memory_equal(out, back, bytes);
        free(back);
        free(out);
        sparge_free(c->cuda, memory);
    }
    expect_ok(c->cuda, sparge_upload(c->cuda, NULL, NULL, 0));
    expect_ok(c->cuda, sparge_download(c->cuda, NULL, NULL, 0));
    expect_ok(c->cuda, sparge_fill(c->cuda, NULL, 0, 0));
    sparge_free(c->cuda, case_alloc(c->cuda, 0));
}

static void too_much_memory_is_refused_in_plain_words(void **state)
{
    const cuda_case *c = *state;
    sparge_device_info info;
    expect_ok(c->cuda, sparge_device_get_info(c->cuda, &info));
    const size_t asked[] = {(size_t)info.memory_bytes + 1, SIZE_MAX};
    for (size_t i = 0; i < 2; i++) {
        void *memory = &info;
        char number[32];
        snprintf(number, sizeof number, "%zu bytes", asked[i]);
        assert_int_equal(sparge_alloc(c->cuda, asked[i], &memory), SPARGE_ERROR_OUT_OF_MEMORY);
        assert_null(memory);
        assert_non_null(strstr(sparge_error_string(c->cuda), number));
        assert_non_null(strstr(sparge_error_string(c->cuda), "free"));
        assert_null(strchr(sparge_error_string(c->cuda), '\n'));
    }
    sparge_free(c->cuda, case_alloc(c->cuda, 4096)); /* and the context works on */
}

static void errors_are_told_once(void **state)
{
    const cuda_case *c = *state;
    unsigned char host[16] = {0};
    assert_int_equal(sparge_fill(c->cuda, NULL, 0, sizeof host), SPARGE_ERROR_DEVICE);
    assert_non_null(strstr(sparge_error_string(c->cuda), "filling device memory: "));
    assert_non_null(strstr(sparge_error_string(c->cuda), "(cudaError"));
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    void *memory = case_alloc(c->cuda, sizeof host);
    expect_ok(c->cuda, sparge_upload(c->cuda, memory, host, sizeof host));
    sparge_free(c->cuda, memory);

    sparge_context *context;
    sparge_error error;
    const int devices = sparge_backend_device_count("cuda");
    assert_int_equal(sparge_context_create("cuda", devices, 0, &context, &error), SPARGE_ERROR_DEVICE);
    assert_null(context);
    assert_non_null(strstr(error.text, "backend cuda has"));
}

static void events_measure_the_stream(void **state)
{
    const cuda_case *c = *state;
    enum { BYTES = 512 << 20 };
    sparge_event *event[3];
    void *memory = case_alloc(c->cuda, BYTES);
    for (int i = 0; i < 3; i++)
        expect_ok(c->cuda, sparge_event_create(c->cuda, &event[i]));
    int64_t ns;
    assert_int_equal(sparge_event_elapsed_ns(event[0], event[1], &ns), SPARGE_ERROR_INVALID_ARGUMENT);
    expect_ok(c->cuda, sparge_fill(c->cuda, memory, 1, BYTES));
    expect_ok(c->cuda, sparge_event_record(event[0]));
    expect_ok(c->cuda, sparge_fill(c->cuda, memory, 2, BYTES));
    expect_ok(c->cuda, sparge_event_record(event[1]));
    for (int i = 0; i < 8; i++)
        expect_ok(c->cuda, sparge_fill(c->cuda, memory, 3, BYTES));
    expect_ok(c->cuda, sparge_event_record(event[2]));
    const int64_t one = elapsed_ns(c->cuda, event[0], event[1]), eight = elapsed_ns(c->cuda, event[1], event[2]);
    /* 512 MiB at more than 0.1 and less than 50 TB/s. */
    assert_true(one > 10000 && one < 5000000);
    assert_true(eight > 4 * one && eight < 16 * one);
    assert_true(llabs(elapsed_ns(c->cuda, event[0], event[2]) - one - eight) <= 4000);
    assert_int_equal(elapsed_ns(c->cuda, event[1], event[1]), 0);
    for (int i = 0; i < 3; i++)
        sparge_event_destroy(event[i]);
    sparge_free(c->cuda, memory);
}

/* Everything that enters the backend, with `caller` current before. The permuted copy makes kernels run, too. */
static void enter_everywhere(sparge_context *context, int caller)
{
    static const int64_t source[] = {1, 0};
    float host[2] = {1, 2};
    void *from, *to;
    sparge_event *event;
    int64_t ns;
    int current = -1;
    assert_int_equal(cudaSetDevice(caller), cudaSuccess);
#define STILL_CURRENT(call)                                                                                            \
    do {                                                                                                               \
        expect_ok(context, (call));                                                                                    \
        assert_int_equal(cudaGetDevice(&current), cudaSuccess);                                                        \
        assert_int_equal(current, caller);                                                                             \
    } while (0)
    sparge_device_info info;
    sparge_error error;
    uint64_t left, total;
    STILL_CURRENT(sparge_device_get_info(context, &info));
    STILL_CURRENT(sparge_device_describe("cuda", 0, &info, &error));
    STILL_CURRENT(sparge_device_get_memory(context, &left, &total));
    const sparge_problem problem = {
        .batch = 1, .heads_q = 1, .heads_kv = 1, .seqlen_q = 64, .seqlen_k = 64, .head_dim = 64, .dtype = SPARGE_F16};
    sparge_params *params;
    size_t bytes;
    assert_int_equal(sparge_params_create(sparge_method_find("sparge-f16"), &params), SPARGE_OK);
    STILL_CURRENT(sparge_plan_size(context, params, &problem, &bytes));
    sparge_params_destroy(params);
    STILL_CURRENT(sparge_alloc(context, sizeof host, &from));
    STILL_CURRENT(sparge_alloc(context, sizeof host, &to));
    STILL_CURRENT(sparge_upload(context, from, host, sizeof host));
    STILL_CURRENT(sparge_fill(context, to, 0xff, sizeof host));
    sparge_tensor a = sparge_tensor_hnd(from, SPARGE_F32, 1, 1, 2, 1), b = a;
    b.data = to;
    STILL_CURRENT(sparge_permute_tokens(context, &a, &b, source));
    STILL_CURRENT(sparge_event_create(context, &event));
    STILL_CURRENT(sparge_event_record(event));
    STILL_CURRENT(sparge_event_elapsed_ns(event, event, &ns));
    STILL_CURRENT(sparge_synchronize(context));
    STILL_CURRENT(sparge_hold(context));
    STILL_CURRENT(sparge_release(context));
    STILL_CURRENT(sparge_download(context, host, to, sizeof host));
    assert_true(host[0] == 2 && host[1] == 1);
    sparge_event_destroy(event);
    STILL_CURRENT(SPARGE_OK);
    sparge_free(context, to);
    sparge_free(context, from);
    STILL_CURRENT(SPARGE_OK);
#undef STILL_CURRENT
}

static void the_callers_device_stays_current(void **state)
{
    (void)state;
    const int devices = sparge_backend_device_count("cuda");
    for (int device = 0; device < devices && device < 2; device++)
        for (int caller = 0; caller < devices && caller < 2; caller++) {
            sparge_context *context;
            sparge_error error;
            int current = -1;
            assert_int_equal(cudaSetDevice(caller), cudaSuccess);
            assert_int_equal(sparge_context_create("cuda", device, 0, &context, &error), SPARGE_OK);
            assert_int_equal(cudaGetDevice(&current), cudaSuccess);
            assert_int_equal(current, caller);
            enter_everywhere(context, caller);
            sparge_context_destroy(context);
            assert_int_equal(cudaGetDevice(&current), cudaSuccess);
            assert_int_equal(current, caller);
        }
    if (devices < 2)
        print_message("one device: that another one stays current was not tried\n");
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
}

/* ---- permutation ---- */

typedef struct permute_case {
    sparge_dtype dtype;
    int64_t batch, heads, tokens, channels;
    int from_nhd, to_nhd;
    int64_t padding; /* elements between the rows of `to` */
} permute_case;

static sparge_tensor permute_view(void *data, const permute_case *p, int nhd, int64_t padding)
{
    sparge_tensor view = nhd ? sparge_tensor_nhd(data, p->dtype, p->batch, p->heads, p->tokens, p->channels + padding)
                             : sparge_tensor_hnd(data, p->dtype, p->batch, p->heads, p->tokens, p->channels + padding);
    view.shape[3] = p->channels;
    return view;
}

/* A permutation that mixes well: i -> (a i + 3) mod tokens with a coprime to it. */
static void fill_permutation(int64_t *source, int64_t tokens)
{
    int64_t a = tokens / 3 + 1;
    for (int again = 1; again;) {
        int64_t x = a, y = tokens;
        while (y) {
            const int64_t rest = x % y;
            x = y;
            y = rest;
        }
        again = x != 1;
        a += again;
    }
    for (int64_t i = 0; i < tokens; i++)
        source[i] = (a * i + 3) % tokens;
}

static void check_permutation(const cuda_case *c, const permute_case *p)
{
    const size_t size = sparge_dtype_bytes(p->dtype);
    const size_t rows = (size_t)(p->batch * p->heads * p->tokens);
    const size_t from_bytes = rows * (size_t)p->channels * size,
                 to_bytes = rows * (size_t)(p->channels + p->padding) * size;
    unsigned char *host = malloc(from_bytes), *expected = malloc(to_bytes);
    int64_t *source = malloc((size_t)p->tokens * sizeof *source);
    assert_true(host && expected && source);
    for (size_t i = 0; i < from_bytes; i++)
        host[i] = (unsigned char)(i * 2654435761u >> 13);
    memset(expected, 0xee, to_bytes);
    fill_permutation(source, p->tokens);
    sparge_tensor from = permute_view(host, p, p->from_nhd, 0), to = permute_view(expected, p, p->to_nhd, p->padding);
    expect_ok(c->cpu, sparge_permute_tokens(c->cpu, &from, &to, source));

    from.data = case_alloc(c->cuda, from_bytes);
    to.data = case_alloc(c->cuda, to_bytes);
    expect_ok(c->cuda, sparge_upload(c->cuda, from.data, host, from_bytes));
    expect_ok(c->cuda, sparge_fill(c->cuda, to.data, 0xee, to_bytes));
    expect_ok(c->cuda, sparge_permute_tokens(c->cuda, &from, &to, source));
    unsigned char *back = case_download(c->cuda, to.data, to_bytes);
    assert_memory_equal(back, expected, to_bytes);
    free(back);
    sparge_free(c->cuda, from.data);
    sparge_free(c->cuda, to.data);
    free(source);
    free(expected);
    free(host);
}

static void permutation_equals_the_cpus(void **state)
{
    const cuda_case *c = *state;
    static const permute_case cases[] = {{SPARGE_F16, 1, 1, 1, 1, 0, 0, 0},     {SPARGE_F16, 2, 3, 70, 128, 0, 0, 0},
                                         {SPARGE_BF16, 2, 3, 70, 128, 1, 0, 0}, {SPARGE_F16, 2, 3, 101, 13, 0, 1, 0},
                                         {SPARGE_F32, 1, 4, 33, 13, 1, 0, 0},   {SPARGE_F32, 3, 2, 129, 72, 0, 0, 0},
                                         {SPARGE_F16, 1, 2, 257, 64, 0, 0, 4},  {SPARGE_F16, 1, 2, 257, 64, 1, 1, 1},
                                         {SPARGE_BF16, 1, 1, 1000, 2, 0, 0, 0}, {SPARGE_F32, 2, 1, 5, 1, 0, 0, 3},
                                         {SPARGE_F16, 1, 1, 5000, 64, 0, 0, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_permutation(c, &cases[i]);
}

int main(void)
{
    if (sparge_backend_device_count("cuda") == 0) {
        puts("no CUDA device: nothing to test");
        return EXIT_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(info_describes_the_device),
        cmocka_unit_test(auto_prefers_the_device),
        cmocka_unit_test(memory_comes_back_as_it_went),
        cmocka_unit_test(too_much_memory_is_refused_in_plain_words),
        cmocka_unit_test(errors_are_told_once),
        cmocka_unit_test(events_measure_the_stream),
        cmocka_unit_test(the_callers_device_stays_current),
        cmocka_unit_test(permutation_equals_the_cpus),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
