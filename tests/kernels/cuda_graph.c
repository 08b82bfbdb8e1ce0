/* Runs of the CUDA backend captured into graphs: a graph replays prepare, select and attend on what the inputs hold when it
 * is launched, and gives the bits of a plain run. Needs a GPU.
 *
 * While a run is captured, a second stream is captured too, one that is ordered with the default stream: anything that a
 * run gave to the default stream would fail (cudaErrorStreamCaptureImplicit), as would whatever waits or allocates. */
#include "cuda_case.h"

#include <unistd.h>

#include <cuda_runtime_api.h>

#include "cuda/cuda.h"

enum { TENSORS = 4, CONTENTS = 2 }; /* q, k, v, o; what the inputs hold in turn */

typedef struct graph_case {
    const char *method, *settings;
} graph_case;

static const graph_case cases[] = {
    {"dense-f16", ""},
    {"dense-int8-f16", ""},
    {"dense-int8-fp8", ""},
    {"sparge-f16", "tau=0.9 theta=0.3"},
    {"sparge-int8-f16", "topk=0.4 block_q=64"},
    {"sparge-int8-fp8", "tau=0.9 theta=0.2"},
    {"sparge-int8-fp8", "tau=0.95 theta=0.2 lambda=-4"},
    {"sparge-int8-fp8", "tau=0.95 theta=0.2 lambda=-4 block_k=128"},
    {"minference-block", "sparsity=0.5"},
    {"skip-softmax", "threshold=0.01"},
    {"mask", ""},
};

/* Tensors, a plan and what a run left. */
typedef struct fixture {
    sparge_context *context;
    sparge_problem problem;
    sparge_tensor tensor[TENSORS];
    float *lse;
    sparge_plan *plan;
} fixture;

typedef struct output {
    void *o, *lse;
    sparge_stats stats;
} output;

static void expect_cuda(cudaError_t code, const char *what)
{
    if (code != cudaSuccess)
        fail_msg("%s: %s", what, cudaGetErrorString(code));
}

static cudaStream_t stream_of(const fixture *f)
{
    return cuda_context_of(f->context)->stream;
}

static size_t lse_bytes(const fixture *f)
{
    return (size_t)(f->problem.batch * f->problem.heads_q * f->problem.seqlen_q) * sizeof *f->lse;
}

static sparge_io io_of(const fixture *f)
{
    return (sparge_io){.q = f->tensor[0], .k = f->tensor[1], .v = f->tensor[2], .o = f->tensor[3], .lse = f->lse};
}

/* Other numbers in the same memory, and outputs that say if nothing writes them. */
static void fill(const fixture *f, int content)
{
    const sparge_generator generator = {.kind = SPARGE_GENERATE_STRUCTURED,
                                        .seed = 9 + (uint64_t)content,
                                        .heads_q = f->problem.heads_q,
                                        .heads_kv = f->problem.heads_kv,
                                        .correlation = 0.9f,
                                        .scale_length = 50,
                                        .sharpness = 2,
                                        .channel_offset = 1,
                                        .head_spread = 0.5f};
    for (int i = 0; i < TENSORS - 1; i++)
        expect_ok(f->context, sparge_generate(f->context, &generator, (sparge_tensor_role)i, &f->tensor[i]));
    expect_ok(f->context, sparge_fill(f->context, f->tensor[3].data, 0xff, tensor_bytes(&f->tensor[3])));
    expect_ok(f->context, sparge_fill(f->context, f->lse, 0xff, lse_bytes(f)));
    expect_ok(f->context, sparge_synchronize(f->context));
}

static output read_output(const fixture *f)
{
    output out = {.o = case_download(f->context, f->tensor[3].data, tensor_bytes(&f->tensor[3])),
                  .lse = case_download(f->context, f->lse, lse_bytes(f))};
    expect_ok(f->context, sparge_plan_get_stats(f->plan, &out.stats));
    return out;
}

static void release_output(output *out)
{
    free(out->o);
    free(out->lse);
}

/* Every second block, so that no row is empty. */
static void write_mask(const fixture *f, const char *path)
{
    sparge_block_mask mask;
    assert_int_equal(sparge_block_mask_create(&mask, &f->problem, 128, 64, NULL), SPARGE_OK);
    for (int64_t i = 0; i < (int64_t)mask.batch * mask.heads * mask.rows; i++)
        for (int64_t j = 0; j < mask.cols; j++)
            mask.value[i * mask.cols + j] = (uint8_t)((i + j) % 2 == 0 || j == 0);
    assert_int_equal(sparge_block_mask_write(&mask, path, NULL), SPARGE_OK);
    sparge_block_mask_release(&mask);
}

static sparge_params *params_for(const fixture *f, const graph_case *c)
{
    char path[] = "/tmp/sparge-graph-XXXXXX", settings[128];
    if (strcmp(c->method, "mask") != 0)
        return case_params(c->method, c->settings);
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    write_mask(f, path);
    snprintf(settings, sizeof settings, "file=%s", path);
    return case_params(c->method, settings);
}

static fixture open_fixture(sparge_context *context, const sparge_problem *p)
{
    fixture f = {.context = context, .problem = *p};
    for (int i = 0; i < TENSORS; i++) {
        const int of_q = i == SPARGE_ROLE_Q || i > SPARGE_ROLE_V;
        f.tensor[i] = sparge_tensor_hnd(NULL, p->dtype, p->batch, of_q ? p->heads_q : p->heads_kv,
                                        of_q ? p->seqlen_q : p->seqlen_k, p->head_dim);
        f.tensor[i].data = case_alloc(context, tensor_bytes(&f.tensor[i]));
    }
    f.lse = case_alloc(context, lse_bytes(&f));
    return f;
}

static void close_fixture(fixture *f)
{
    for (int i = 0; i < TENSORS; i++)
        sparge_free(f->context, f->tensor[i].data);
    sparge_free(f->context, f->lse);
}

/* Stage by stage, as the harness times them. */
static void run_stages(const fixture *f)
{
    static const int stages[] = {SPARGE_STAGE_PREPARE, SPARGE_STAGE_SELECT, SPARGE_STAGE_ATTEND};
    const sparge_io io = io_of(f);
    for (int i = 0; i < 3; i++)
        expect_ok(f->context, sparge_plan_run(f->plan, stages[i], &io));
}

/* A run as a graph. The caller's device is another one where there is one, and stays. */
static cudaGraphExec_t capture(const fixture *f)
{
    cudaStream_t ordered;
    cudaGraph_t graph, nothing;
    cudaGraphExec_t executable;
    int devices = 0, device = -1;
    size_t nodes = 0;
    expect_cuda(cudaStreamCreate(&ordered), "a stream that waits for the default stream");
    expect_cuda(cudaStreamBeginCapture(ordered, cudaStreamCaptureModeGlobal), "capturing it");
    expect_cuda(cudaStreamBeginCapture(stream_of(f), cudaStreamCaptureModeGlobal), "capturing the context's stream");
    expect_cuda(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    expect_cuda(cudaSetDevice(devices - 1), "cudaSetDevice");
    run_stages(f);
    expect_cuda(cudaGetDevice(&device), "cudaGetDevice");
    assert_int_equal(device, devices - 1);
    expect_cuda(cudaSetDevice(cuda_context_of(f->context)->device), "cudaSetDevice");
    expect_cuda(cudaStreamEndCapture(stream_of(f), &graph), "the end of the capture");
    expect_cuda(cudaStreamEndCapture(ordered, &nothing), "the default stream was used");
    expect_cuda(cudaGraphGetNodes(nothing, NULL, &nodes), "cudaGraphGetNodes");
    assert_int_equal(nodes, 0);
    expect_cuda(cudaGraphGetNodes(graph, NULL, &nodes), "cudaGraphGetNodes");
    assert_true(nodes > 0);
    expect_cuda(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    expect_cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
    expect_cuda(cudaGraphDestroy(nothing), "cudaGraphDestroy");
    expect_cuda(cudaStreamDestroy(ordered), "cudaStreamDestroy");
    return executable;
}

static void compare(const fixture *f, const graph_case *c, int content, const output *plain)
{
    output replayed = read_output(f);
    const sparge_stats *a = &plain->stats, *b = &replayed.stats;
    if (memcmp(plain->o, replayed.o, tensor_bytes(&f->tensor[3])) != 0)
        fail_msg("%s %s: content %d: O of the graph has other bits", c->method, c->settings, content);
    if (memcmp(plain->lse, replayed.lse, lse_bytes(f)) != 0)
        fail_msg("%s %s: content %d: LSE of the graph has other bits", c->method, c->settings, content);
    assert_int_equal(a->visible, b->visible);
    assert_int_equal(a->qk, b->qk);
    assert_true(a->pv_skipped == b->pv_skipped);
    release_output(&replayed);
}

static void check_case(sparge_context *context, const graph_case *c, const sparge_problem *p)
{
    fixture f = open_fixture(context, p);
    sparge_params *params = params_for(&f, c);
    output plain[CONTENTS];
    expect_ok(context, sparge_plan_create(context, params, p, &f.plan));
    for (int content = 0; content < CONTENTS; content++) {
        fill(&f, content);
        run_stages(&f);
        plain[content] = read_output(&f);
    }
    assert_memory_not_equal(plain[0].o, plain[1].o, tensor_bytes(&f.tensor[3]));
    cudaGraphExec_t graph = capture(&f);
    for (int content = 0; content < CONTENTS; content++) {
        fill(&f, content);
        expect_cuda(cudaGraphLaunch(graph, stream_of(&f)), "cudaGraphLaunch");
        compare(&f, c, content, &plain[content]);
        release_output(&plain[content]);
    }
    expect_cuda(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy");
    sparge_plan_destroy(f.plan);
    if (strcmp(c->method, "mask") == 0)
        unlink(sparge_params_get(params, "file"));
    sparge_params_destroy(params);
    close_fixture(&f);
}

static void graphs_give_what_plain_runs_give(void **state)
{
    const cuda_case *contexts = *state;
    static const sparge_problem problems[] = {
        {.batch = 2,
         .heads_q = 4,
         .heads_kv = 2,
         .seqlen_q = 515,
         .seqlen_k = 515,
         .head_dim = 128,
         .dtype = SPARGE_F16,
         .causal = SPARGE_CAUSAL_BOTTOM_RIGHT},
        {.batch = 1,
         .heads_q = 2,
         .heads_kv = 1,
         .seqlen_q = 300,
         .seqlen_k = 700,
         .head_dim = 40,
         .dtype = SPARGE_BF16,
         .causal = SPARGE_CAUSAL_NONE}, /* copies padded to 64 channels */
        {.batch = 1,
         .heads_q = 2,
         .heads_kv = 2,
         .seqlen_q = 200,
         .seqlen_k = 257,
         .head_dim = 13,
         .dtype = SPARGE_F16,
         .causal = SPARGE_CAUSAL_NONE}, /* rows at odd addresses */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t j = 0; j < sizeof problems / sizeof *problems; j++)
            check_case(contexts->cuda, &cases[i], &problems[j]);
}

/* Parity mode has its own kernels, and takes fewer problems. */
static void parity_mode_is_captured_too(void **state)
{
    const cuda_case *contexts = *state;
    static const graph_case parity[] = {{"sparge-int8-f16", "compat=upstream"}, {"sparge-int8-fp8", "compat=upstream"}};
    static const sparge_problem problem = {.batch = 1,
                                           .heads_q = 2,
                                           .heads_kv = 2,
                                           .seqlen_q = 512,
                                           .seqlen_k = 512,
                                           .head_dim = 128,
                                           .dtype = SPARGE_F16,
                                           .causal = SPARGE_CAUSAL_TOP_LEFT};
    for (size_t i = 0; i < sizeof parity / sizeof *parity; i++)
        check_case(contexts->cuda, &parity[i], &problem);
}

/* A method that the backend has and that the list above lacks would go untested. */
static void every_method_is_in_the_list(void **state)
{
    const cuda_case *contexts = *state;
    const sparge_problem plain = {.batch = 1,
                                  .heads_q = 2,
                                  .heads_kv = 2,
                                  .seqlen_q = 2048,
                                  .seqlen_k = 2048,
                                  .head_dim = 64,
                                  .dtype = SPARGE_F16,
                                  .grid = {.t = 8, .h = 16, .w = 16}};
    for (size_t i = 0; i < sparge_method_count(); i++) {
        const char *name = sparge_method_name(sparge_method_at(i));
        int listed = 0;
        for (size_t j = 0; j < sizeof cases / sizeof *cases; j++)
            listed |= strcmp(cases[j].method, name) == 0;
        if (listed)
            continue;
        for (int causal = SPARGE_CAUSAL_NONE; causal <= SPARGE_CAUSAL_BOTTOM_RIGHT; causal++) {
            sparge_problem problem = plain;
            sparge_params *params = case_params(name, "");
            sparge_plan *plan = NULL;
            problem.causal = (sparge_causal)causal;
            if (sparge_plan_create(contexts->cuda, params, &problem, &plan) == SPARGE_OK)
                fail_msg("%s: the cuda backend has it, the list of cases does not", name);
            sparge_params_destroy(params);
        }
    }
}

int main(void)
{
    if (sparge_backend_device_count("cuda") == 0) {
        puts("no CUDA device: nothing to test");
        return EXIT_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_give_what_plain_runs_give),
        cmocka_unit_test(parity_mode_is_captured_too),
        cmocka_unit_test(every_method_is_in_the_list),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
