/* Launches every kernel of the CUDA backend on small problems of every kind, for compute-sanitizer to watch. Results are
 * compared elsewhere (tests/kernels); here a run must only succeed.
 *
 * That every kernel was launched is not believed but checked: the names of the launched ones (launches.h) against those in
 * this program's own machine code for the device (device_code.h). Also checked: nothing went to the default stream.
 *
 * Problems have at most 2048 queries and keys; only the kernels that select among very many blocks of keys need more keys,
 * and get 64 queries of one head. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/cuda.h"
#include "device_code.h"
#include "launches.h"
#include "sparge/sparge.h"

enum { EXIT_SKIPPED = 77, TENSORS = 4 }; /* q, k, v, o */

typedef struct run_case {
    const char *method, *settings; /* "tau=0.9 theta=0.3" */
    sparge_problem problem;
    int layout;  /* 0: HND; 1: NHD; 2: NHD at an odd address and with odd strides */
    int has_lse; /* wants the LSE */
} run_case;

static void give_up(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

static void give_up(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(EXIT_FAILURE);
}

static void must(sparge_context *context, sparge_status status, const char *what)
{
    if (status != SPARGE_OK)
        give_up("%s: %s: %s", what, sparge_status_name(status), sparge_error_string(context));
}

static void *take(sparge_context *context, size_t bytes)
{
    void *memory = NULL;
    must(context, sparge_alloc(context, bytes, &memory), "memory");
    return memory;
}

/* ---- Tensors ---- */

static sparge_generator generator_of(const sparge_problem *p, sparge_generator_kind kind)
{
    return (sparge_generator){.kind = kind,
                              .seed = 5,
                              .heads_q = p->heads_q,
                              .heads_kv = p->heads_kv,
                              .correlation = 0.9f,
                              .scale_length = 50,
                              .sharpness = 2,
                              .query_offset = 0.5f,
                              .channel_offset = 1,
                              .sink_strength = 3,
                              .sink_tokens = 2,
                              .head_spread = 0.5f};
}

/* A tensor of the role in the layout; *memory is what holds it. Inputs are generated densely and then moved there. */
static sparge_tensor tensor_of(sparge_context *context, const sparge_problem *p, int role, int layout, void **memory)
{
    const int of_q = role == SPARGE_ROLE_Q || role > SPARGE_ROLE_V;
    const int64_t heads = of_q ? p->heads_q : p->heads_kv, tokens = of_q ? p->seqlen_q : p->seqlen_k;
    const int64_t gap = layout == 2 ? 3 : 0; /* elements after a token's heads, and before the first */
    sparge_tensor x = sparge_tensor_hnd(NULL, p->dtype, p->batch, heads, tokens, p->head_dim), dense = x;
    if (layout > 0) {
        x.stride[1] = p->head_dim;
        x.stride[2] = heads * p->head_dim + gap;
        x.stride[0] = tokens * x.stride[2];
    }
    const size_t bytes = (size_t)(p->batch * x.stride[0] + gap) * sizeof(uint16_t);
    *memory = take(context, bytes);
    must(context, sparge_fill(context, *memory, 0xff, bytes), "fill");
    x.data = (uint16_t *)*memory + gap;
    if (role > SPARGE_ROLE_V)
        return x;
    const sparge_generator generator = generator_of(p, SPARGE_GENERATE_STRUCTURED);
    int64_t *same = malloc((size_t)tokens * sizeof *same);
    if (!same)
        give_up("out of memory");
    for (int64_t i = 0; i < tokens; i++)
        same[i] = i;
    dense.data = take(context, (size_t)(p->batch * dense.stride[0]) * sizeof(uint16_t));
    must(context, sparge_generate(context, &generator, (sparge_tensor_role)role, &dense), "generate");
    must(context, sparge_permute_tokens(context, &dense, &x, same), "permute");
    sparge_free(context, dense.data);
    free(same);
    return x;
}

/* ---- Parameters ---- */

static void set(sparge_params *params, const char *name, const char *value)
{
    sparge_error error;
    if (sparge_params_set(params, name, value, &error) != SPARGE_OK)
        give_up("%s", error.text);
}

/* Two blocks of three; the last row of blocks is empty. */
static void set_mask(sparge_params *params, const sparge_problem *p, int32_t block_q, int32_t block_k)
{
    char path[] = "/tmp/sparge-every-kernel-XXXXXX";
    const int file = mkstemp(path);
    sparge_block_mask mask;
    if (file < 0 || sparge_block_mask_create(&mask, p, block_q, block_k, NULL) != SPARGE_OK)
        give_up("a mask file cannot be made");
    close(file);
    for (int64_t i = 0; i < (int64_t)mask.batch * mask.heads * mask.rows * mask.cols; i++)
        mask.value[i] = i % 3 != 2 && (mask.rows == 1 || i / mask.cols % mask.rows != mask.rows - 1);
    if (sparge_block_mask_write(&mask, path, NULL) != SPARGE_OK)
        give_up("%s cannot be written", path);
    sparge_block_mask_release(&mask);
    set(params, "file", path);
}

static sparge_params *params_of(const run_case *c)
{
    sparge_params *params = NULL;
    char text[256], *rest = text;
    int32_t block[2] = {128, 64};
    if (!sparge_method_find(c->method) || sparge_params_create(sparge_method_find(c->method), &params) != SPARGE_OK)
        give_up("no method %s", c->method);
    snprintf(text, sizeof text, "%s", c->settings);
    for (char *item = strtok_r(text, " ", &rest); item; item = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(item, '=');
        if (!value)
            give_up("%s: no value", item);
        *value++ = '\0';
        set(params, item, value);
        if (strcmp(item, "block_q") == 0 || strcmp(item, "block_k") == 0)
            block[item[6] == 'k'] = (int32_t)strtol(value, NULL, 10);
    }
    if (strcmp(c->method, "mask") == 0)
        set_mask(params, &c->problem, block[0], block[1]);
    return params;
}

/* ---- Runs ---- */

static void run(sparge_context *context, const run_case *c)
{
    const sparge_problem *p = &c->problem;
    sparge_params *params = params_of(c);
    sparge_plan *plan = NULL;
    sparge_tensor tensor[TENSORS];
    void *memory[TENSORS], *lse = NULL;
    sparge_stats stats;
    char what[512];
    snprintf(what, sizeof what, "%s %s, Lq %d Lk %d D %d", c->method, c->settings, (int)p->seqlen_q, (int)p->seqlen_k,
             (int)p->head_dim);
    for (int i = 0; i < TENSORS; i++)
        tensor[i] = tensor_of(context, p, i, c->layout, &memory[i]);
    if (c->has_lse)
        lse = take(context, (size_t)(p->batch * p->heads_q * p->seqlen_q) * sizeof(float));
    const sparge_io io = {.q = tensor[0], .k = tensor[1], .v = tensor[2], .o = tensor[3], .lse = lse};
    must(context, sparge_plan_create(context, params, p, &plan), what);
    for (int turn = 0; turn < 2; turn++) /* the second finds what the first left in the plan */
        must(context, sparge_plan_run(plan, SPARGE_STAGE_ALL, &io), what);
    must(context, sparge_plan_get_stats(plan, &stats), what);
    sparge_plan_destroy(plan);
    if (strcmp(c->method, "mask") == 0)
        unlink(sparge_params_get(params, "file"));
    sparge_params_destroy(params);
    sparge_free(context, lse);
    for (int i = 0; i < TENSORS; i++)
        sparge_free(context, memory[i]);
}

static const struct {
    const char *method, *settings;
} methods[] = {
    {"dense-f16", ""},
    {"dense-int8-f16", ""},
    {"dense-int8-f16", "block_q=64 block_k=128 scales=block"},
    {"dense-int8-f16", "scales=warp smooth_k=off"},
    {"dense-int8-fp8", "scales=block"},
    {"minference-block", "sparsity=0.5"},
    {"minference-block", "k=2"},
    {"skip-softmax", "threshold=0.01"},
    {"mask", ""},
    {"mask", "block_q=64 block_k=128 attend=int8-fp8"},
};

/* Of each of the sparge methods: the shapes of a row block and of a vote, and the rules of selection. */
static const char *const sparge_methods[] = {"sparge-f16", "sparge-int8-f16", "sparge-int8-fp8"};
static const char *const sparge_settings[] = {
    "tau=0.9 theta=0.3",
    "topk=0.4 block_q=64",
    "tau=0.9 theta=0.3 lambda=-4",
    "tau=0.9 theta=0.3 lambda=-4 block_q=64 pv_unit=16",
    "topk=0.6 sink=on lambda=-4 block_k=128 scales=block",
    "tau=0.9 theta=0.3 lambda=-4 block_q=64 block_k=128",
};

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Every method and setting on one problem. */
static void run_all(sparge_context *context, run_case c)
{
    for (size_t i = 0; i < COUNT(methods); i++) {
        c.method = methods[i].method;
        c.settings = methods[i].settings;
        run(context, &c);
    }
    for (size_t i = 0; i < COUNT(sparge_methods); i++)
        for (size_t j = 0; j < COUNT(sparge_settings); j++) {
            c.method = sparge_methods[i];
            c.settings = sparge_settings[j];
            run(context, &c);
        }
}

/* Ragged ends, grouped heads. */
static sparge_problem small_problem(int dtype, int wide)
{
    return (sparge_problem){.batch = 1,
                            .heads_q = 2,
                            .heads_kv = 1,
                            .seqlen_q = 200,
                            .seqlen_k = 330,
                            .head_dim = wide ? 128 : 64,
                            .dtype = dtype ? SPARGE_BF16 : SPARGE_F16,
                            .causal = SPARGE_CAUSAL_BOTTOM_RIGHT};
}

/* Both types and head dims: every instance of the attention and prepare kernels. */
static void run_instances(sparge_context *context)
{
    for (int dtype = 0; dtype < 2; dtype++)
        for (int wide = 0; wide < 2; wide++)
            run_all(context, (run_case){.problem = small_problem(dtype, wide), .has_lse = 1});
}

/* One problem of each type and width. */
static void run_types(sparge_context *context, const run_case *chosen, size_t count, int has_lse)
{
    for (int dtype = 0; dtype < 2; dtype++)
        for (int wide = 0; wide < 2; wide++)
            for (size_t i = 0; i < count; i++) {
                run_case c = chosen[i];
                c.has_lse = has_lse;
                c.problem = small_problem(dtype, wide);
                run(context, &c);
            }
}

/* Kernels that other ones stand in for on this device, or where the LSE is wanted. */
static void run_stand_ins(sparge_context *context)
{
    static const run_case portable[] = {
        {.method = "dense-f16", .settings = ""},
        {.method = "sparge-f16", .settings = "topk=0.4 block_q=64"},
        {.method = "dense-int8-f16", .settings = ""},
        {.method = "sparge-int8-f16", .settings = "topk=0.4 block_q=64"},
        {.method = "dense-int8-fp8", .settings = ""},
        {.method = "sparge-int8-fp8", .settings = "topk=0.4"},
        {.method = "sparge-int8-fp8", .settings = "topk=0.4 block_q=64"},
    };
    static const run_case without_lse[] = {
        {.method = "dense-int8-fp8", .settings = "exp=exact"},
        {.method = "dense-int8-fp8", .settings = "exp=accurate"},
        {.method = "dense-int8-fp8", .settings = "exp=fast"},
        {.method = "sparge-int8-fp8", .settings = "topk=0.4 exp=exact"},
        {.method = "sparge-int8-fp8", .settings = "topk=0.4 exp=accurate"},
        {.method = "sparge-int8-fp8", .settings = "topk=0.4 exp=fast"},
        {.method = "sparge-int8-fp8", .settings = "topk=0.4 block_q=64 exp=exact"},
        {.method = "sparge-int8-fp8", .settings = "topk=0.4 block_q=64 exp=accurate"},
        {.method = "sparge-int8-fp8", .settings = "topk=0.4 block_q=64 exp=fast"},
        {.method = "sparge-int8-fp8", .settings = "topk=0.4 block_q=64 block_k=128 exp=exact"},
        {.method = "sparge-int8-fp8", .settings = "topk=0.4 block_q=64 block_k=128 exp=accurate"},
        {.method = "sparge-int8-fp8", .settings = "topk=0.4 block_q=64 block_k=128 exp=fast"},
    };
    cuda_context_of(context)->portable = 1;
    run_types(context, portable, COUNT(portable), 1);
    cuda_context_of(context)->portable = 0;
    run_types(context, without_lse, COUNT(without_lse), 0);
}

/* Shapes and layouts: one query, one key, queries without keys, whole blocks, long, channels padded to 64 and 128, rows at
 * odd addresses. */
static void run_shapes(sparge_context *context)
{
    static const struct {
        int64_t lq, lk;
        int32_t batch, dim;
        sparge_causal causal;
        int layout;
    } shapes[] = {
        {1, 1, 1, 64, SPARGE_CAUSAL_NONE, 0},
        {1, 700, 1, 128, SPARGE_CAUSAL_BOTTOM_RIGHT, 0},
        {300, 100, 1, 128, SPARGE_CAUSAL_BOTTOM_RIGHT, 0},
        {256, 256, 2, 128, SPARGE_CAUSAL_TOP_LEFT, 1},
        {2048, 2048, 1, 64, SPARGE_CAUSAL_NONE, 0},
        {190, 450, 2, 40, SPARGE_CAUSAL_TOP_LEFT, 1},
        {130, 257, 1, 13, SPARGE_CAUSAL_NONE, 2},
        {129, 193, 2, 96, SPARGE_CAUSAL_BOTTOM_RIGHT, 2},
    };
    static const run_case chosen[] = {
        {.method = "dense-f16", .settings = ""},
        {.method = "dense-int8-fp8", .settings = ""},
        {.method = "sparge-f16", .settings = "tau=0.9 theta=0.3"},
        {.method = "sparge-int8-fp8", .settings = "tau=0.9 theta=0.3 lambda=-4"},
    };
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (size_t j = 0; j < COUNT(chosen); j++) {
            run_case c = chosen[j];
            c.layout = shapes[i].layout;
            c.has_lse = j % 2 == 1;
            c.problem = (sparge_problem){.batch = shapes[i].batch,
                                         .heads_q = 4,
                                         .heads_kv = 2,
                                         .seqlen_q = shapes[i].lq,
                                         .seqlen_k = shapes[i].lk,
                                         .head_dim = shapes[i].dim,
                                         .dtype = i % 2 ? SPARGE_BF16 : SPARGE_F16,
                                         .causal = shapes[i].causal};
            run(context, &c);
        }
}

/* The official code's parity mode has kernels of its own; it takes no grouped heads and at least 128 queries. */
static void run_parity(sparge_context *context)
{
    for (int dtype = 0; dtype < 2; dtype++)
        for (size_t i = 0; i < COUNT(sparge_methods); i++) {
            const sparge_problem problem = {.batch = 1,
                                            .heads_q = 2,
                                            .heads_kv = 2,
                                            .seqlen_q = 300,
                                            .seqlen_k = 330,
                                            .head_dim = i % 2 ? 64 : 128,
                                            .dtype = dtype ? SPARGE_BF16 : SPARGE_F16,
                                            .causal = i % 2 ? SPARGE_CAUSAL_NONE : SPARGE_CAUSAL_TOP_LEFT};
            run(context, &(run_case){.method = sparge_methods[i], .settings = "compat=upstream", .problem = problem});
        }
}

/* Rows of very many blocks: 64 queries of one head. */
static void run_wide(sparge_context *context)
{
    static const int64_t blocks[] = {300, 600, 1100, 2100, 4200};
    for (size_t i = 0; i < COUNT(blocks); i++) {
        const sparge_problem problem = {.batch = 1,
                                        .heads_q = 1,
                                        .heads_kv = 1,
                                        .seqlen_q = 64,
                                        .seqlen_k = blocks[i] * 64 - 20,
                                        .head_dim = 64,
                                        .dtype = SPARGE_F16};
        run(context, &(run_case){.method = "sparge-f16", .settings = "topk=0.01", .problem = problem});
        run(context, &(run_case){.method = "sparge-f16", .settings = "tau=0.05 theta=-1", .problem = problem});
    }
}

/* Generators, the exact reference, permutations of every word size, and the kernel that holds the others up. */
static void run_operations(sparge_context *context)
{
    static const sparge_generator_kind kinds[] = {SPARGE_GENERATE_NORMAL, SPARGE_GENERATE_UNIFORM,
                                                  SPARGE_GENERATE_STRUCTURED};
    static const sparge_dtype dtypes[] = {SPARGE_F16, SPARGE_BF16, SPARGE_F32};
    static const int32_t dims[] = {1, 13, 64, 100, 128};
    for (size_t kind = 0; kind < COUNT(kinds); kind++)
        for (size_t dtype = 0; dtype < COUNT(dtypes); dtype++)
            for (size_t dim = 0; dim < COUNT(dims); dim++)
                for (int role = SPARGE_ROLE_Q; role <= SPARGE_ROLE_V; role++) {
                    const sparge_problem p = {.heads_q = 2, .heads_kv = 2};
                    sparge_generator generator = generator_of(&p, kinds[kind]);
                    sparge_tensor x = sparge_tensor_hnd(NULL, dtypes[dtype], 1, 2, 300, dims[dim]);
                    x.data = take(context, (size_t)(2 * 300 * dims[dim]) * sparge_dtype_bytes(x.dtype));
                    if (dim % 2)
                        generator.grid = (sparge_grid){.t = 4, .h = 7, .w = 10, .text_before = 5, .text_after = 15};
                    must(context, sparge_generate(context, &generator, (sparge_tensor_role)role, &x), "generate");
                    sparge_free(context, x.data);
                }
    for (size_t dtype = 0; dtype < 2; dtype++)
        for (size_t dim = 0; dim < COUNT(dims); dim++) {
            const sparge_problem p = {.batch = 1,
                                      .heads_q = 2,
                                      .heads_kv = 1,
                                      .seqlen_q = 100,
                                      .seqlen_k = 170,
                                      .head_dim = dims[dim],
                                      .dtype = dtypes[dtype],
                                      .causal = SPARGE_CAUSAL_BOTTOM_RIGHT};
            static const int64_t rows[] = {99, 0, 42};
            static double o[2 * 100 * SPARGE_MAX_HEAD_DIM], lse[2 * 100];
            void *memory[3];
            sparge_tensor x[3];
            for (int role = 0; role < 3; role++) /* the layouts of 13 and 100 channels have words of 2 and 8 bytes */
                x[role] = tensor_of(context, &p, role, dim == 1 ? 2 : 1, &memory[role]);
            must(context, sparge_exact(context, &p, &x[0], &x[1], &x[2], NULL, p.seqlen_q, o, lse), "exact");
            must(context, sparge_exact(context, &p, &x[0], &x[1], &x[2], rows, 3, o, NULL), "exact rows");
            for (int role = 0; role < 3; role++)
                sparge_free(context, memory[role]);
        }
    must(context, sparge_hold(context), "hold");
    must(context, sparge_release(context), "release");
    must(context, sparge_synchronize(context), "synchronize");
}

/* Words of 4 bytes: two channels. */
static void run_narrow(sparge_context *context)
{
    const sparge_problem p = {
        .batch = 1, .heads_q = 2, .heads_kv = 2, .seqlen_q = 70, .seqlen_k = 70, .head_dim = 2, .dtype = SPARGE_F16};
    run(context, &(run_case){.method = "dense-f16", .settings = "", .problem = p, .layout = 1});
}

/* ---- Was everything launched? ---- */

static int report(const sparge_device_info *info)
{
    static const char program[] = "/proc/self/exe";
    device_code code;
    size_t launched = 0, expected = 0;
    if (device_code_read(&code, program) != 0)
        give_up("%s: %s", program, code.error);
    const char *arch = device_code_arch(&code, info->arch);
    if (!arch)
        give_up("this program has no code for %s", info->arch);
    for (size_t i = 0; i < code.kernel_count; i++) {
        const char *name = code.kernels[i].name;
        if (strcmp(code.kernels[i].arch, arch) != 0)
            continue;
        expected++;
        if (launches_include(name))
            launched++;
        else
            fprintf(stderr, "never launched: %s\n", name);
    }
    printf("%s: %zu of %zu kernels launched, %zu launches\n", arch, launched, expected, launches_count());
    if (launches_on_default_stream())
        fprintf(stderr, "%zu launches on the default stream\n", launches_on_default_stream());
    device_code_release(&code);
    return launched != expected || launches_on_default_stream() ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(void)
{
    sparge_context *context = NULL;
    sparge_device_info info;
    sparge_error error;
    if (sparge_backend_device_count("cuda") == 0) {
        puts("no CUDA device: nothing to launch");
        return EXIT_SKIPPED;
    }
    if (sparge_context_create("cuda", 0, 0, &context, &error) != SPARGE_OK)
        give_up("%s", error.text);
    must(context, sparge_device_get_info(context, &info), "device");
    run_operations(context);
    run_instances(context);
    run_stand_ins(context);
    run_shapes(context);
    run_narrow(context);
    run_parity(context);
    run_wide(context);
    must(context, sparge_synchronize(context), "synchronize");
    sparge_context_destroy(context);
    return report(&info);
}
