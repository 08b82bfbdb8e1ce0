/* Times of the CUDA backend's prepare and select at the sizes that matter, kernel by kernel.
 *
 *   bench_cuda_prepare          check (random cases against the CPU), then times
 *   bench_cuda_prepare times    times only
 *
 * Each stage is captured into a graph: that it can be is part of the check. Its kernels are then also launched one by one.
 * Median of 20, CUDA events; bytes are those that must move (each input read once, each output written once).
 * A kernel launched alone finds what the whole stage left behind: the line of select_rows says nothing, since it then reads
 * lists where its scores were. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_cuda.h"
#include "cuda/cuda.h"
#include "cuda_arrays.h"

enum { REPEATS = 20, MOST_NODES = 16 };

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

typedef struct timer {
    cudaStream_t stream;
    cudaEvent_t begin, end;
} timer;

typedef void (*launch_function)(const void *what, cudaStream_t stream);

static void launch_graph(const void *what, cudaStream_t stream)
{
    require(cudaGraphLaunch((cudaGraphExec_t)what, stream) == cudaSuccess, "graph launch");
}

static void launch_kernel(const void *what, cudaStream_t stream)
{
    const struct cudaKernelNodeParams *p = what;
    require(cudaLaunchKernel(p->func, p->gridDim, p->blockDim, p->kernelParams, p->sharedMemBytes, stream) ==
                cudaSuccess,
            "kernel launch");
}

/* Median in milliseconds. */
static double median_ms(const timer *t, launch_function launch, const void *what)
{
    float ms[REPEATS];
    for (int i = -3; i < REPEATS; i++) {
        float elapsed;
        require(cudaEventRecord(t->begin, t->stream) == cudaSuccess, "event");
        launch(what, t->stream);
        require(cudaEventRecord(t->end, t->stream) == cudaSuccess, "event");
        require(cudaEventSynchronize(t->end) == cudaSuccess, "run");
        require(cudaEventElapsedTime(&elapsed, t->begin, t->end) == cudaSuccess, "event");
        if (i >= 0)
            ms[i] = elapsed;
    }
    qsort(ms, REPEATS, sizeof ms[0], by_value);
    return ms[REPEATS / 2];
}

static void time_stage(sparge_context *context, const timer *t, sparge_plan *plan, int stage, const sparge_io *io,
                       const char *name, double bytes)
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    require(cudaStreamBeginCapture(t->stream, cudaStreamCaptureModeRelaxed) == cudaSuccess, "capture");
    expect(context, sparge_plan_run(plan, stage, io), name);
    require(cudaStreamEndCapture(t->stream, &graph) == cudaSuccess, "capture");
    require(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess, "graph");
    const double ms = median_ms(t, launch_graph, executable);
    printf("  %-8s %8.4f ms  %7.1f MB  %6.2f TB/s\n", name, ms, bytes / 1e6, bytes / ms / 1e9);
    cudaGraphNode_t node[MOST_NODES];
    size_t nodes = MOST_NODES;
    require(cudaGraphGetNodes(graph, node, &nodes) == cudaSuccess, "nodes");
    for (size_t i = 0; stage == SPARGE_STAGE_SELECT && i < nodes; i++) {
        enum cudaGraphNodeType type;
        struct cudaKernelNodeParams parameters;
        require(cudaGraphNodeGetType(node[i], &type) == cudaSuccess, "node");
        if (type != cudaGraphNodeTypeKernel)
            continue;
        require(cudaGraphKernelNodeGetParams(node[i], &parameters) == cudaSuccess, "node");
        printf("    kernel of %7u x %4u  %8.4f ms\n", parameters.gridDim.x, parameters.blockDim.x,
               median_ms(t, launch_kernel, &parameters));
    }
    require(cudaGraphExecDestroy(executable) == cudaSuccess && cudaGraphDestroy(graph) == cudaSuccess, "graph");
}

static sparge_tensor make_tensor(sparge_context *context, const sparge_problem *p, sparge_tensor_role role,
                                 int64_t tokens)
{
    const int is_q = role == SPARGE_ROLE_Q;
    const sparge_generator generator = {.kind = SPARGE_GENERATE_STRUCTURED,
                                        .seed = 7,
                                        .heads_q = p->heads_q,
                                        .heads_kv = p->heads_kv,
                                        .correlation = 0.8f,
                                        .scale_length = 64,
                                        .sharpness = 2,
                                        .query_offset = 0.5f,
                                        .channel_offset = 1,
                                        .sink_strength = 3,
                                        .sink_tokens = 4,
                                        .head_spread = 0.5f};
    sparge_tensor x = sparge_tensor_hnd(NULL, p->dtype, p->batch, is_q ? p->heads_q : p->heads_kv, tokens, p->head_dim);
    const size_t bytes = (size_t)(x.stride[0] * x.shape[0]) * sizeof(uint16_t);
    expect(context, sparge_alloc(context, bytes, &x.data), "input");
    expect(context, sparge_generate(context, &generator, role, &x), "input");
    return x;
}

/* name: a parameter with a value of its own, or NULL. */
static void time_problem(sparge_context *context, const char *method, const char *name, const char *value,
                         const sparge_problem *p)
{
    const cuda_context *cuda = cuda_context_of(context);
    timer t = {.stream = cuda->stream};
    require(cudaEventCreate(&t.begin) == cudaSuccess && cudaEventCreate(&t.end) == cudaSuccess, "event");
    sparge_params *params;
    sparge_plan *plan;
    expect(context, sparge_params_create(sparge_method_find(method), &params), method);
    if (name)
        expect(context, sparge_params_set(params, name, value, NULL), name);
    expect(context, sparge_plan_create(context, params, p, &plan), method);
    sparge_io io = {.q = make_tensor(context, p, SPARGE_ROLE_Q, p->seqlen_q),
                    .k = make_tensor(context, p, SPARGE_ROLE_K, p->seqlen_k),
                    .v = make_tensor(context, p, SPARGE_ROLE_V, p->seqlen_k)};
    io.o = io.q; /* not written: attend does not run */
    const int has = sparge_plan_stages(plan);
    expect(context, sparge_plan_run(plan, has & (SPARGE_STAGE_PREPARE | SPARGE_STAGE_SELECT), &io), method);
    expect(context, sparge_synchronize(context), method);
    printf("%s %s%s%s B%d H%d/%d L%" PRId64 " D%d %s %s\n", method, name ? name : "", name ? "=" : "",
           name ? value : "", p->batch, p->heads_q, p->heads_kv, p->seqlen_k, p->head_dim, sparge_dtype_name(p->dtype),
           p->causal ? "causal" : "full");
    const double q = (double)p->batch * p->heads_q * (double)p->seqlen_q * p->head_dim;
    const double k = (double)p->batch * p->heads_kv * (double)p->seqlen_k * p->head_dim;
    const sparge_recipe *recipe = &plan->recipe;
    double bytes = 2 * (q + k);
    if (recipe->arithmetic != SPARGE_ARITHMETIC_F16)
        bytes += q + k;
    if (recipe->arithmetic == SPARGE_ARITHMETIC_INT8_FP8)
        bytes += 3 * k;
    if (has & SPARGE_STAGE_PREPARE)
        time_stage(context, &t, plan, SPARGE_STAGE_PREPARE, &io, "prepare", bytes);
    if (has & SPARGE_STAGE_SELECT) {
        const double blocks = q / p->head_dim / recipe->block_q * (double)p->seqlen_k / recipe->block_k;
        cuda_counts counts;
        time_stage(context, &t, plan, SPARGE_STAGE_SELECT, &io, "select", 13 * blocks);
        expect(context, sparge_download(context, &counts, cuda_plan_of(plan)->counts, sizeof counts), "counts");
        printf("  kept %.3f of %llu blocks, %llu of them fixed\n", (double)counts.qk / (double)counts.visible,
               counts.visible, counts.extra);
    }
    sparge_plan_destroy(plan);
    sparge_params_destroy(params);
    sparge_free(context, io.q.data);
    sparge_free(context, io.k.data);
    sparge_free(context, io.v.data);
    require(cudaEventDestroy(t.begin) == cudaSuccess && cudaEventDestroy(t.end) == cudaSuccess, "event");
}

static int check(sparge_context *cuda)
{
    sparge_context *cpu;
    sparge_error error;
    int differing = 0, cases = 0;
    require(sparge_context_create("cpu", 0, 0, &cpu, &error) == SPARGE_OK, "cpu context");
    for (uint64_t seed = 1; seed <= 300; seed++, cases++) {
        const arrays_case random = arrays_random(seed, seed % 8 == 0 ? 2000 : 300);
        differing += arrays_compare(cpu, cuda, &random) != 0;
    }
    for (int i = 0; i < 4; i++, cases++) {
        const arrays_case row = {.problem = {.batch = 1,
                                             .heads_q = 2,
                                             .heads_kv = 1,
                                             .seqlen_q = 130 + i,
                                             .seqlen_k = i < 2 ? 40000 + i : 140000 + i,
                                             .head_dim = 128,
                                             .dtype = i % 2 ? SPARGE_BF16 : SPARGE_F16},
                                 .method = "sparge-int8-fp8",
                                 .settings = i % 2 ? "topk=0.3" : "tau=0.9 theta=-1",
                                 .content = ARRAYS_DRIFT,
                                 .seed = (uint64_t)i};
        differing += arrays_compare(cpu, cuda, &row) != 0;
    }
    const arrays_case many = {
        .problem = {.batch = 2, .heads_q = 24, .heads_kv = 24, .seqlen_q = 9000, .seqlen_k = 9000, .head_dim = 128},
        .method = "sparge-int8-fp8",
        .settings = "tau=0.9 theta=0.1",
        .content = ARRAYS_DRIFT,
        .seed = 99};
    differing += arrays_compare(cpu, cuda, &many) != 0;
    printf("check: %d cases, %d differ from the CPU\n", cases + 1, differing);
    sparge_context_destroy(cpu);
    return differing;
}

int main(int argc, char **argv)
{
    sparge_context *cuda;
    sparge_error error;
    if (sparge_context_create("cuda", 0, 0, &cuda, &error) != SPARGE_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 77;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    const int differing = argc > 1 && strcmp(argv[1], "times") == 0 ? 0 : check(cuda);
    const sparge_problem video = {
        .batch = 1, .heads_q = 32, .heads_kv = 32, .seqlen_q = 32768, .seqlen_k = 32768, .head_dim = 128};
    const sparge_problem text = {
        .batch = 1, .heads_q = 8, .heads_kv = 8, .seqlen_q = 131072, .seqlen_k = 131072, .head_dim = 128};
    sparge_problem grouped = video, narrow = video, causal = text;
    grouped.heads_kv = 8;
    narrow.head_dim = 64;
    causal.causal = SPARGE_CAUSAL_BOTTOM_RIGHT;
    time_problem(cuda, "sparge-int8-fp8", "theta", "-1", &video);
    time_problem(cuda, "sparge-int8-fp8", NULL, NULL, &video);
    time_problem(cuda, "sparge-f16", "theta", "-1", &video);
    time_problem(cuda, "dense-int8-fp8", NULL, NULL, &video);
    time_problem(cuda, "sparge-int8-fp8", "theta", "-1", &grouped);
    time_problem(cuda, "sparge-int8-fp8", "theta", "-1", &narrow);
    time_problem(cuda, "sparge-int8-fp8", "theta", "-1", &text);
    time_problem(cuda, "sparge-int8-fp8", "theta", "-1", &causal);
    time_problem(cuda, "sparge-int8-fp8", "topk", "0.25", &video);
    time_problem(cuda, "sparge-int8-fp8", "topk", "0.25", &text);
    time_problem(cuda, "sparge-int8-fp8", "topk", "0.25", &causal);
    sparge_context_destroy(cuda);
    return differing != 0;
}
