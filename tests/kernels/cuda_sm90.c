/* The kernels for compute capability 9.0 against the portable ones of sm80/, on ragged and odd shapes; and against
 * themselves, bit by bit, many times. Needs such a GPU.
 *
 * Both run in this process: a context whose `portable` is set takes the portable kernels. That each context takes the kernel
 * that is meant is read from the graph of a captured run. */
#include "cuda_case.h"

#include <math.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#include "cuda/cuda.h"

enum { TENSORS = 4, REPEATS = 1000 }; /* q, k, v, o */

typedef struct sm90_case {
    const char *method, *settings; /* "tau=0.9 theta=0.3"; of `mask` the block sizes alone */
    sparge_problem problem;
    int is_nhd;
} sm90_case;

typedef struct contexts {
    sparge_context *newest, *portable;
} contexts;

/* Tensors and a plan in a context. */
typedef struct side {
    sparge_context *context;
    sparge_tensor tensor[TENSORS];
    float *lse;
    sparge_plan *plan;
} side;

static size_t lse_bytes(const sparge_problem *p)
{
    return (size_t)(p->batch * p->heads_q * p->seqlen_q) * sizeof(float);
}

static sparge_tensor tensor_of(const sparge_problem *p, int role, int is_nhd)
{
    const int of_q = role == SPARGE_ROLE_Q || role > SPARGE_ROLE_V;
    const int64_t heads = of_q ? p->heads_q : p->heads_kv, tokens = of_q ? p->seqlen_q : p->seqlen_k;
    return is_nhd ? sparge_tensor_nhd(NULL, p->dtype, p->batch, heads, tokens, p->head_dim)
                  : sparge_tensor_hnd(NULL, p->dtype, p->batch, heads, tokens, p->head_dim);
}

/* Numbers of the standard normal distribution. As they are independent, an NHD view of them is as good as any. */
static void fill(const side *s, const sparge_problem *p)
{
    const sparge_generator generator = {
        .kind = SPARGE_GENERATE_NORMAL, .seed = 3, .heads_q = p->heads_q, .heads_kv = p->heads_kv};
    for (int i = 0; i <= SPARGE_ROLE_V; i++) {
        sparge_tensor dense = tensor_of(p, i, 0);
        dense.data = s->tensor[i].data;
        expect_ok(s->context, sparge_generate(s->context, &generator, (sparge_tensor_role)i, &dense));
    }
}

/* Outputs that say if nothing writes them. */
static void poison(const side *s, const sparge_problem *p)
{
    expect_ok(s->context, sparge_fill(s->context, s->tensor[3].data, 0xff, tensor_bytes(&s->tensor[3])));
    expect_ok(s->context, sparge_fill(s->context, s->lse, 0xff, lse_bytes(p)));
}

/* Every third block, and whole rows of blocks without any. */
static void write_mask(const sparge_problem *p, int32_t block_q, int32_t block_k, const char *path)
{
    sparge_block_mask mask;
    assert_int_equal(sparge_block_mask_create(&mask, p, block_q, block_k, NULL), SPARGE_OK);
    for (int64_t i = 0; i < (int64_t)mask.batch * mask.heads * mask.rows; i++)
        for (int64_t j = 0; j < mask.cols; j++)
            mask.value[i * mask.cols + j] = (uint8_t)(i % 4 != 3 && (i + j) % 3 == 0);
    assert_int_equal(sparge_block_mask_write(&mask, path, NULL), SPARGE_OK);
    sparge_block_mask_release(&mask);
}

static sparge_params *params_of(const sm90_case *c)
{
    if (strcmp(c->method, "mask") != 0)
        return case_params(c->method, c->settings);
    char path[] = "/tmp/sparge-sm90-XXXXXX", settings[160];
    int block_q, block_k;
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(sscanf(c->settings, "block_q=%d block_k=%d", &block_q, &block_k), 2);
    write_mask(&c->problem, block_q, block_k, path);
    snprintf(settings, sizeof settings, "%s file=%s", c->settings, path);
    return case_params(c->method, settings);
}

static side open_side(sparge_context *context, const sm90_case *c)
{
    side s = {.context = context};
    sparge_params *params = params_of(c);
    for (int i = 0; i < TENSORS; i++) {
        s.tensor[i] = tensor_of(&c->problem, i, c->is_nhd);
        s.tensor[i].data = case_alloc(context, tensor_bytes(&s.tensor[i]));
    }
    s.lse = case_alloc(context, lse_bytes(&c->problem));
    fill(&s, &c->problem);
    expect_ok(context, sparge_plan_create(context, params, &c->problem, &s.plan));
    if (strcmp(c->method, "mask") == 0)
        unlink(sparge_params_get(params, "file"));
    sparge_params_destroy(params);
    return s;
}

static void close_side(side *s)
{
    sparge_plan_destroy(s->plan);
    for (int i = 0; i < TENSORS; i++)
        sparge_free(s->context, s->tensor[i].data);
    sparge_free(s->context, s->lse);
}

static void run(const side *s, int stages)
{
    const sparge_io io = {.q = s->tensor[0], .k = s->tensor[1], .v = s->tensor[2], .o = s->tensor[3], .lse = s->lse};
    expect_ok(s->context, sparge_plan_run(s->plan, stages, &io));
}

static void describe(const sm90_case *c, char *text, size_t size)
{
    const sparge_problem *p = &c->problem;
    snprintf(text, size, "%s %s, B %d H %d/%d L %d x %d D %d %s causal %s %s", c->method, c->settings, (int)p->batch,
             (int)p->heads_q, (int)p->heads_kv, (int)p->seqlen_q, (int)p->seqlen_k, (int)p->head_dim,
             sparge_dtype_name(p->dtype), sparge_causal_name(p->causal), c->is_nhd ? "NHD" : "HND");
}

static float value_of(uint16_t bits, sparge_dtype dtype)
{
    return dtype == SPARGE_F16 ? sparge_f32_from_f16(bits) : sparge_f32_from_bf16(bits);
}

/* Of a row of one output from that of another: squares of the distance and of the length. */
typedef struct squares {
    double difference, length;
} squares;

/* Fails where the relative L2 distance of the row-th row of all heads is more than `may`. */
static squares compare_row(const sm90_case *c, const sparge_tensor *o, const uint16_t *got, const uint16_t *expected,
                           int64_t row, double may)
{
    const sparge_problem *p = &c->problem;
    const int64_t bh = row / p->seqlen_q, token = row % p->seqlen_q;
    const int64_t at = bh / p->heads_q * o->stride[0] + bh % p->heads_q * o->stride[1] + token * o->stride[2];
    squares of = {0, 0};
    for (int64_t d = 0; d < p->head_dim; d++) {
        const double x = (double)value_of(got[at + d], p->dtype), y = (double)value_of(expected[at + d], p->dtype);
        of.difference += (x - y) * (x - y);
        of.length += y * y;
    }
    if (!(of.difference <= may * may * of.length)) {
        char text[256];
        describe(c, text, sizeof text);
        fail_msg("%s: row %d of head %d: O is off by %g of its length %g", text, (int)token, (int)bh,
                 sqrt(of.difference / of.length), sqrt(of.length));
    }
    return of;
}

/* The relative L2 distance of every row. Two kernels differ by how they round P and O: by some 2^-11 in f16 and 2^-8 in
 * bf16, independently from key to key. Rows without keys are zeros and -inf in both. */
static void compare(const side *newest, const side *portable, const sm90_case *c)
{
    const sparge_problem *p = &c->problem;
    const sparge_tensor *o = &newest->tensor[3];
    const double bound = p->dtype == SPARGE_F16 ? 0.003 : 0.024;
    uint16_t *a = case_download(newest->context, o->data, tensor_bytes(o));
    uint16_t *b = case_download(portable->context, portable->tensor[3].data, tensor_bytes(o));
    float *lse[2] = {case_download(newest->context, newest->lse, lse_bytes(p)),
                     case_download(portable->context, portable->lse, lse_bytes(p))};
    for (int64_t row = 0; row < (int64_t)p->batch * p->heads_q * p->seqlen_q; row++) {
        const squares of = compare_row(c, o, a, b, row, bound);
        if (!(fabs((double)lse[0][row] - (double)lse[1][row]) <= 1e-4) &&
            !(lse[1][row] == -INFINITY && lse[0][row] == -INFINITY && of.length == 0)) {
            char text[256];
            describe(c, text, sizeof text);
            fail_msg("%s: row %d of head %d: LSE %g, not %g", text, (int)(row % p->seqlen_q), (int)(row / p->seqlen_q),
                     (double)lse[0][row], (double)lse[1][row]);
        }
    }
    free(a);
    free(b);
    free(lse[0]);
    free(lse[1]);
}

static const struct {
    const char *method, *settings;
} methods[] = {
    {"dense-f16", ""},
    {"sparge-f16", "topk=0.4"},
    {"sparge-f16", "topk=0.4 block_q=64"},
    {"sparge-f16", "topk=0.4 block_k=128"},
    {"minference-block", "sparsity=0.5"},
    {"mask", "block_q=128 block_k=64"},
    {"mask", "block_q=64 block_k=128"},
    {"dense-int8-f16", ""},
    {"sparge-int8-f16", "topk=0.4"},
    {"sparge-int8-f16", "topk=0.4 block_q=64"},
    {"dense-int8-f16", "scales=warp"},
    {"dense-int8-f16", "scales=block"},
    {"dense-int8-fp8", ""},
    {"dense-int8-fp8", "scales=warp"},
    {"dense-int8-fp8", "scales=block"},
    {"sparge-int8-fp8", "topk=0.4"},
    {"sparge-int8-fp8", "topk=0.4 block_q=64"},
    {"sparge-int8-fp8", "topk=0.4 block_q=64 block_k=128"},
};
/* The last ones round P to e4m3 under another reference than the portable kernels: how near they are to exact attention is
 * for property_methods to judge. */
enum { ROUNDED_ALIKE = 12 };

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const struct {
    int64_t lq, lk;
    int32_t batch, heads_q, heads_kv, dim;
} shapes[] = {
    {1, 1, 1, 1, 1, 64},
    {1, 700, 1, 2, 1, 128},
    {77, 1, 2, 2, 2, 128},
    {63, 65, 1, 2, 2, 64},
    {64, 64, 1, 1, 1, 128},
    {65, 63, 1, 1, 1, 128},
    {127, 129, 1, 4, 2, 128},
    {128, 192, 2, 2, 1, 64},
    {129, 193, 1, 2, 2, 96},
    {191, 383, 1, 3, 1, 64},
    {192, 384, 2, 1, 1, 128},
    {193, 385, 1, 2, 1, 128},
    {300, 100, 1, 2, 2, 128},
    {300, 333, 2, 4, 2, 104},
    {257, 383, 1, 2, 1, 13},
    {190, 450, 2, 2, 2, 40},
    {576, 577, 1, 2, 2, 64},
    {700, 1500, 1, 2, 1, 128},
    {1500, 1430, 1, 2, 2, 64},
    {129, 300, 2, 80, 40, 64},
    /* More row blocks than CTAs find room; then five of them a CTA: INT8/FP8's two records are written anew, and again. */
    {130, 513, 3, 64, 32, 128},
    {257, 300, 2, 120, 120, 64},
    /* K and V of all heads do not fit in L2: several groups of heads. 133 turns: references are adjusted before some. */
    {200, 17000, 1, 40, 20, 64},
};

static sm90_case case_of(const char *method, const char *settings, size_t shape, int causal, int number)
{
    return (sm90_case){.method = method,
                       .settings = settings,
                       .is_nhd = number % 2,
                       .problem = {.batch = shapes[shape].batch,
                                   .heads_q = shapes[shape].heads_q,
                                   .heads_kv = shapes[shape].heads_kv,
                                   .seqlen_q = shapes[shape].lq,
                                   .seqlen_k = shapes[shape].lk,
                                   .head_dim = shapes[shape].dim,
                                   .dtype = number / 2 % 2 ? SPARGE_BF16 : SPARGE_F16,
                                   .causal = (sparge_causal)causal}};
}

static void the_kernels_agree_with_the_portable_ones(void **state)
{
    const contexts *both = *state;
    int cases = 0;
    for (size_t i = 0; i < ROUNDED_ALIKE; i++)
        for (size_t j = 0; j < COUNT(shapes); j++)
            for (int causal = SPARGE_CAUSAL_NONE; causal <= SPARGE_CAUSAL_BOTTOM_RIGHT; causal++, cases++) {
                const sm90_case c = case_of(methods[i].method, methods[i].settings, j, causal, cases);
                side newest = open_side(both->newest, &c), portable = open_side(both->portable, &c);
                poison(&newest, &c.problem);
                poison(&portable, &c.problem);
                run(&newest, SPARGE_STAGE_ALL);
                run(&portable, SPARGE_STAGE_ALL);
                compare(&newest, &portable, &c);
                close_side(&newest);
                close_side(&portable);
            }
}

/* The relative L2 distance of two runs' outputs, over all rows; none may be further off than a row may. */
static double distance(const side *got, const side *expected, const sm90_case *c, double row_may)
{
    const sparge_problem *p = &c->problem;
    const sparge_tensor *o = &got->tensor[3];
    uint16_t *a = case_download(got->context, o->data, tensor_bytes(o));
    uint16_t *b = case_download(expected->context, expected->tensor[3].data, tensor_bytes(o));
    squares all = {0, 0};
    for (int64_t row = 0; row < (int64_t)p->batch * p->heads_q * p->seqlen_q; row++) {
        const squares of = compare_row(c, o, a, b, row, row_may);
        all.difference += of.difference;
        all.length += of.length;
    }
    free(a);
    free(b);
    return all.length > 0 ? sqrt(all.difference / all.length) : 0;
}

/* Runs that ask for the LSE have exact exponentials: those that do not must give the same bits with exp=exact, and otherwise
 * differ by little more than the rounding of P to e4m3. */
static void forms_of_the_exponential_are_near_the_exact_one(void **state)
{
    const contexts *both = *state;
    static const struct {
        const char *method, *settings;
    } fp8[] = {
        {"dense-int8-fp8", ""},
        {"dense-int8-fp8", "scales=block"},
        {"sparge-int8-fp8", "topk=0.4"},
        {"sparge-int8-fp8", "topk=0.4 block_q=64"},
        {"sparge-int8-fp8", "topk=0.4 block_q=64 block_k=128"},
    };
    static const struct {
        const char *exp;
        double may, row_may;
    } forms[] = {{"exact", 0, 0}, {"accurate", 0.04, 0.12}, {"fast", 0.06, 0.25}};
    int cases = 0, differ[COUNT(forms)] = {0};
    for (size_t i = 0; i < COUNT(fp8); i++)
        for (size_t j = 0; j < COUNT(shapes); j++)
            for (int causal = SPARGE_CAUSAL_NONE; causal <= SPARGE_CAUSAL_BOTTOM_RIGHT; causal++, cases++) {
                const sm90_case c = case_of(fp8[i].method, fp8[i].settings, j, causal, cases);
                side exact = open_side(both->newest, &c);
                poison(&exact, &c.problem);
                run(&exact, SPARGE_STAGE_ALL);
                for (size_t f = 0; f < COUNT(forms); f++) {
                    char text[160];
                    snprintf(text, sizeof text, "%s%sexp=%s", c.settings, *c.settings ? " " : "", forms[f].exp);
                    const sm90_case of_form = case_of(c.method, text, j, causal, cases);
                    side form = open_side(both->newest, &of_form);
                    poison(&form, &c.problem);
                    sparge_free(form.context, form.lse);
                    form.lse = NULL;
                    run(&form, SPARGE_STAGE_ALL);
                    const double off = distance(&form, &exact, &of_form, forms[f].row_may);
                    differ[f] += off > 0;
                    if (off > forms[f].may) {
                        char what[256];
                        describe(&of_form, what, sizeof what);
                        fail_msg("%s: off by %g, more than %g", what, off, forms[f].may);
                    }
                    close_side(&form);
                }
                close_side(&exact);
            }
    assert_int_equal(differ[0], 0);
    assert_true(differ[1] > 0 && differ[2] > 0); /* they ran */
}

/* Is the one kernel that attend launches of that generation: "sm80" or "sm90"? */
static void expect_generation(sparge_context *context, const sm90_case *c, const char *generation)
{
    enum { MOST_NODES = 4 };
    side s = open_side(context, c);
    const cudaStream_t stream = cuda_context_of(context)->stream;
    cudaGraph_t graph;
    cudaGraphNode_t node[MOST_NODES];
    struct cudaKernelNodeParams kernel;
    size_t nodes = MOST_NODES;
    const char *name = NULL;
    char text[256];
    describe(c, text, sizeof text);
    run(&s, SPARGE_STAGE_ALL);
    assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
    run(&s, SPARGE_STAGE_ATTEND);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    assert_int_equal(cudaGraphGetNodes(graph, node, &nodes), cudaSuccess);
    assert_int_equal(nodes, 1);
    assert_int_equal(cudaGraphKernelNodeGetParams(node[0], &kernel), cudaSuccess);
    assert_int_equal(cudaFuncGetName(&name, kernel.func), cudaSuccess);
    if (!strstr(name, generation))
        fail_msg("%s: the kernel is %s, not one of %s", text, name, generation);
    assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
    close_side(&s);
}

static const sparge_problem small = {
    .batch = 1, .heads_q = 2, .heads_kv = 1, .seqlen_q = 300, .seqlen_k = 700, .head_dim = 128, .dtype = SPARGE_F16};

static void each_context_takes_its_kernels(void **state)
{
    const contexts *both = *state;
    for (int dim = 64; dim <= 128; dim += 64)
        for (size_t i = 0; i < COUNT(methods); i++) {
            sm90_case c = {.method = methods[i].method, .settings = methods[i].settings, .problem = small};
            c.problem.head_dim = dim;
            expect_generation(both->newest, &c, "sm90");
            expect_generation(both->portable, &c, "sm80");
        }
}

/* With the LSE, and without. */
static void repeated_runs_give_the_same_bits(void **state)
{
    const contexts *both = *state;
    for (size_t i = 0; i < 2 * COUNT(methods); i++) {
        const sm90_case c = {.method = methods[i / 2].method, .settings = methods[i / 2].settings, .problem = small};
        side s = open_side(both->newest, &c);
        float *const lse_memory = s.lse;
        const size_t bytes = tensor_bytes(&s.tensor[3]);
        void *o = NULL, *lse = NULL;
        for (int turn = 0; turn < REPEATS; turn++) {
            poison(&s, &c.problem);
            s.lse = i % 2 ? NULL : lse_memory;
            run(&s, turn == 0 ? SPARGE_STAGE_ALL : SPARGE_STAGE_ATTEND);
            s.lse = lse_memory;
            void *again_o = case_download(s.context, s.tensor[3].data, bytes);
            void *again_lse = case_download(s.context, s.lse, lse_bytes(&c.problem));
            if (turn > 0) {
                assert_memory_equal(o, again_o, bytes);
                assert_memory_equal(lse, again_lse, lse_bytes(&c.problem));
                free(again_o);
                free(again_lse);
            } else {
                o = again_o;
                lse = again_lse;
            }
        }
        free(o);
        free(lse);
        close_side(&s);
    }
}

static int setup(void **state)
{
    static contexts both;
    both = (contexts){case_context("cuda"), case_context("cuda")};
    cuda_context_of(both.portable)->portable = 1;
    *state = &both;
    return 0;
}

static int teardown(void **state)
{
    const contexts *both = *state;
    sparge_context_destroy(both->newest);
    sparge_context_destroy(both->portable);
    return 0;
}

int main(void)
{
    sparge_device_info info;
    sparge_error error;
    if (sparge_backend_device_count("cuda") == 0 || sparge_device_describe("cuda", 0, &info, &error) != SPARGE_OK ||
        strcmp(info.arch, "sm_90") != 0) {
        puts("no CUDA device of compute capability 9.0: nothing to test");
        return EXIT_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_context_takes_its_kernels),
        cmocka_unit_test(the_kernels_agree_with_the_portable_ones),
        cmocka_unit_test(forms_of_the_exponential_are_near_the_exact_one),
        cmocka_unit_test(repeated_runs_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
