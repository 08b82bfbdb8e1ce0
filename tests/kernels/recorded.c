/* Recorded cases on a backend. */
#include "recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case_params.h"

static const char *backend_under_test(void)
{
    const char *text = getenv("SPARGE_TEST_BACKEND");
    return text ? text : "cpu";
}

int recorded_start(void)
{
    if (sparge_backend_device_count(backend_under_test()) == 0) {
        printf("skipped: no device of the backend %s\n", backend_under_test());
        return UPSTREAM_SKIP;
    }
    return upstream_present() ? 0 : UPSTREAM_SKIP;
}

int recorded_setup(void **state)
{
    sparge_context *context = NULL;
    sparge_error error = {0};
    if (sparge_context_create(backend_under_test(), 0, 2, &context, &error) != SPARGE_OK)
        fail_msg("%s", error.text);
    *state = context;
    return 0;
}

int recorded_teardown(void **state)
{
    sparge_context_destroy(*state);
    return 0;
}

/* ---- Files ---- */

void recorded_open(recorded *r, int index)
{
    char path[4096];
    sparge_error error = {0};
    upstream_path(index, path, sizeof path);
    if (st_open(path, &r->file, &error) != SPARGE_OK)
        fail_msg("%s", error.text);
    r->name = upstream_cases[index].name;
    const st_tensor *q = st_find(r->file, "q");
    assert_non_null(q);
    assert_int_equal(q->rank, 4);
    r->heads = q->shape[1];
    r->tokens = q->shape[2];
    r->head_dim = q->shape[3];
    r->causal = upstream_cases[index].causal;
}

void recorded_close(recorded *r)
{
    st_close(r->file);
}

const st_tensor *recorded_tensor(const recorded *r, const char *prefix, const char *what, const char *setting,
                                 const char *dtype)
{
    char name[128];
    snprintf(name, sizeof name, "%s%s%s%s%s", prefix ? prefix : "", prefix ? "." : "", what, setting ? "@" : "",
             setting ? setting : "");
    const st_tensor *tensor = st_find(r->file, name);
    if (!tensor || strcmp(tensor->dtype, dtype) != 0)
        fail_msg("%s: no tensor %s of dtype %s", r->name, name, dtype);
    return tensor;
}

const void *recorded_data(const recorded *r, const char *prefix, const char *what, const char *setting,
                          const char *dtype)
{
    return recorded_tensor(r, prefix, what, setting, dtype)->data;
}

void recorded_blocks(const char *shape, int32_t *block_q, int32_t *block_k)
{
    assert_int_equal(sscanf(shape, "%dx%d", block_q, block_k), 2);
}

/* ---- Runs ---- */

static void require(const recorded_run *run, sparge_status status)
{
    if (status != SPARGE_OK)
        fail_msg("%s: %s", sparge_status_name(status), sparge_error_string(run->context));
}

static void *take(const recorded_run *run, size_t bytes, const void *from)
{
    void *memory = NULL;
    require(run, sparge_alloc(run->context, bytes, &memory));
    require(run, from ? sparge_upload(run->context, memory, from, bytes)
                      : sparge_fill(run->context, memory, 0xff, bytes)); /* NaN */
    return memory;
}

static size_t rows_of(const recorded_run *run)
{
    return (size_t)run->problem.heads_q * (size_t)run->problem.seqlen_q;
}

void recorded_run_open(recorded_run *run, sparge_context *context, const recorded *r, const char *method,
                       const char *settings)
{
    static const char *const names[] = {"q", "k", "v"};
    *run = (recorded_run){.context = context,
                          .problem = {.batch = 1,
                                      .heads_q = (int32_t)r->heads,
                                      .heads_kv = (int32_t)r->heads,
                                      .seqlen_q = r->tokens,
                                      .seqlen_k = r->tokens,
                                      .head_dim = (int32_t)r->head_dim,
                                      .dtype = SPARGE_F16,
                                      .causal = r->causal ? SPARGE_CAUSAL_TOP_LEFT : SPARGE_CAUSAL_NONE}};
    const size_t bytes = rows_of(run) * (size_t)r->head_dim * sizeof(uint16_t);
    for (int i = 0; i < 4; i++)
        run->tensor[i] =
            sparge_tensor_hnd(take(run, bytes, i < 3 ? recorded_data(r, NULL, names[i], NULL, "F16") : NULL),
                              SPARGE_F16, 1, r->heads, r->tokens, r->head_dim);
    run->lse = take(run, rows_of(run) * sizeof *run->lse, NULL);
    sparge_params *params = case_params(method, settings);
    require(run, sparge_plan_create(context, params, &run->problem, &run->plan));
    sparge_params_destroy(params);
}

void recorded_run_stages(recorded_run *run, int stages)
{
    const sparge_io io = {
        .q = run->tensor[0], .k = run->tensor[1], .v = run->tensor[2], .o = run->tensor[3], .lse = run->lse};
    require(run, sparge_plan_run(run->plan, stages, &io));
}

void recorded_run_close(recorded_run *run)
{
    sparge_plan_destroy(run->plan);
    for (int i = 0; i < 4; i++)
        sparge_free(run->context, run->tensor[i].data);
    sparge_free(run->context, run->lse);
}

static void *fetch(const recorded_run *run, const void *memory, size_t bytes)
{
    void *host = malloc(bytes);
    assert_non_null(host);
    require(run, sparge_download(run->context, host, memory, bytes));
    return host;
}

uint16_t *recorded_run_output(const recorded_run *run)
{
    return fetch(run, run->tensor[3].data, rows_of(run) * (size_t)run->problem.head_dim * sizeof(uint16_t));
}

float *recorded_run_lse(const recorded_run *run)
{
    return fetch(run, run->lse, rows_of(run) * sizeof(float));
}
