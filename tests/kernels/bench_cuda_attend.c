/* Times of the CUDA backend's attend stage at the sizes that matter.
 *
 *   bench_cuda_attend [ARITHMETIC] [PARAM=VALUE]... [portable]
 *
 * ARITHMETIC: f16 (default), int8-f16 or int8-fp8. PARAM: of the method, such as exp=exact. Kernels are those that plans take
 * on this device; with `portable`, those of sm80/.
 *
 * Before it is timed, each run is checked: sampled rows of some heads against attention in double on the host, under the
 * same mask. `tops` counts the visible pairs, `executed` the blocks that are computed. Masks are of equally many blocks in
 * every row, random ones, other ones for every head; a band at the diagonal; or uneven: every eighth row has all blocks, and
 * the others share what is left, at random. Median of single launches after some that warm up. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_cuda.h"
#include "cuda/cuda.h"
#include "sparge/sparge.h"

enum { WARM_UP = 4, LAUNCHES = 15, CHECKED_ROWS = 6, CHECKED_HEADS = 2, MAX_SETTINGS = 8 };

/* From the command line. */
static const char *arithmetic = "f16";
static char *settings[MAX_SETTINGS]; /* PARAM, then its VALUE */
static const char *values[MAX_SETTINGS];
static int setting_count;

static int is_f16(void)
{
    return strcmp(arithmetic, "f16") == 0;
}

typedef enum mask_kind { MASK_RANDOM, MASK_BAND, MASK_UNEVEN } mask_kind;

static const char *const mask_names[] = {"", " band", " uneven"};

typedef struct bench_case {
    sparge_problem problem;
    double density; /* 0: dense; else a mask */
    mask_kind kind;
    int32_t block_q, block_k;
} bench_case;

/* ---- Masks ---- */

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* `wanted` of the row's first `visible` blocks: each is kept with the probability that leaves the rest to come out right. */
static void choose_blocks(uint8_t *row, int64_t visible, int64_t wanted, uint64_t *state)
{
    for (int64_t j = 0; j < visible; j++) {
        row[j] = (double)next_random(state) * (double)(visible - j) < (double)wanted * 2147483648.0;
        wanted -= row[j];
    }
}

/* Row i of all heads', of which `visible` blocks are visible. */
static void choose_row(const bench_case *c, sparge_block_mask *mask, int64_t i, int64_t visible, uint64_t *state)
{
    uint8_t *row = mask->value + i * mask->cols;
    double density = c->density;
    if (c->kind == MASK_UNEVEN)
        density = i % 8 == 0 ? 1 : (8 * density - 1) / 7;
    int64_t wanted = (int64_t)((double)visible * density + 0.5);
    wanted = wanted > 0 ? wanted : visible > 0;
    if (c->kind != MASK_BAND) {
        choose_blocks(row, visible, wanted, state);
        return;
    }
    const int64_t middle = i % mask->rows * mask->cols / mask->rows;
    int64_t first = middle - wanted / 2;
    if (first + wanted > visible)
        first = visible - wanted;
    memset(row + (first > 0 ? first : 0), 1, (size_t)wanted);
}

static sparge_block_mask make_mask(const bench_case *c)
{
    sparge_block_mask mask;
    uint64_t state = 1;
    require(sparge_block_mask_create(&mask, &c->problem, c->block_q, c->block_k, NULL) == SPARGE_OK, "mask");
    for (int64_t i = 0; i < (int64_t)mask.batch * mask.heads * mask.rows; i++) {
        int64_t visible = 0;
        while (visible < mask.cols && sparge_block_visible(&c->problem, c->block_q, c->block_k, i % mask.rows, visible))
            visible++;
        choose_row(c, &mask, i, visible, &state);
    }
    return mask;
}

static void set(sparge_params *params, const char *name, const char *value)
{
    sparge_error error;
    if (sparge_params_set(params, name, value, &error) == SPARGE_OK)
        return;
    fprintf(stderr, "%s\n", error.text);
    exit(1);
}

static void set_number(sparge_params *params, const char *name, int32_t value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", (int)value);
    set(params, name, text);
}

static sparge_params *params_of(const bench_case *c, const sparge_block_mask *mask, char *path)
{
    sparge_params *params;
    char dense[32];
    snprintf(dense, sizeof dense, "dense-%s", arithmetic);
    const sparge_method *method = sparge_method_find(mask ? "mask" : dense);
    require(method && sparge_params_create(method, &params) == SPARGE_OK, "ARITHMETIC is f16, int8-f16 or int8-fp8");
    for (int i = 0; i < setting_count; i++)
        set(params, settings[i], values[i]);
    if (!mask)
        return params;
    const int file = mkstemp(path);
    require(file >= 0 && close(file) == 0, path);
    require(sparge_block_mask_write(mask, path, NULL) == SPARGE_OK, path);
    set_number(params, "block_q", c->block_q);
    set_number(params, "block_k", c->block_k);
    set(params, "file", path);
    set(params, "attend", arithmetic);
    return params;
}

/* ---- Check ---- */

static double value_of(uint16_t bits, sparge_dtype dtype)
{
    return (double)(dtype == SPARGE_F16 ? sparge_f32_from_f16(bits) : sparge_f32_from_bf16(bits));
}

static uint16_t *read_rows(sparge_context *context, const sparge_tensor *x, int64_t head, int64_t first, int64_t rows)
{
    const size_t bytes = (size_t)(rows * x->shape[3]) * sizeof(uint16_t);
    uint16_t *host = malloc(bytes);
    require(host != NULL, "host memory");
    expect(context,
           sparge_download(context, host, (uint16_t *)x->data + head * x->stride[1] + first * x->stride[2], bytes),
           "download");
    return host;
}

/* One row in double; scores has room for all keys. Returns the LSE. */
static double exact_row(const bench_case *c, const uint8_t *blocks, int64_t row, const uint16_t *q, const uint16_t *k,
                        const uint16_t *v, double *scores, double *o)
{
    const sparge_problem *p = &c->problem;
    const int32_t dim = p->head_dim;
    const int64_t end = sparge_problem_visible_end(p, row);
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < end; j++) {
        scores[j] = -INFINITY;
        if (blocks && !blocks[j / c->block_k])
            continue;
        double dot = 0;
        for (int32_t d = 0; d < dim; d++)
            dot += value_of(q[d], p->dtype) * value_of(k[j * dim + d], p->dtype);
        scores[j] = dot * (double)sparge_problem_scale(p);
        top = fmax(top, scores[j]);
    }
    memset(o, 0, sizeof *o * (size_t)dim);
    for (int64_t j = 0; j < end; j++) {
        if (scores[j] == -INFINITY)
            continue;
        const double weight = exp(scores[j] - top);
        sum += weight;
        for (int32_t d = 0; d < dim; d++)
            o[d] += weight * value_of(v[j * dim + d], p->dtype);
    }
    for (int32_t d = 0; d < dim; d++)
        o[d] = sum > 0 ? o[d] / sum : 0;
    return top + log(sum);
}

/* The relative L2 error over the sample; stops the program where it is too large. */
static double check(sparge_context *context, const bench_case *c, const sparge_block_mask *mask, const sparge_io *io)
{
    const sparge_problem *p = &c->problem;
    double difference = 0, square = 0, worst_lse = 0, o[SPARGE_MAX_HEAD_DIM];
    double *scores = malloc((size_t)p->seqlen_k * sizeof *scores);
    require(scores != NULL, "host memory");
    for (int64_t i = 0; i < CHECKED_HEADS; i++) {
        const int64_t head = i * (p->heads_q - 1) / (CHECKED_HEADS - 1);
        const int64_t kv_head = head / (p->heads_q / p->heads_kv);
        uint16_t *k = read_rows(context, &io->k, kv_head, 0, p->seqlen_k);
        uint16_t *v = read_rows(context, &io->v, kv_head, 0, p->seqlen_k);
        for (int64_t r = 0; r < CHECKED_ROWS; r++) {
            const int64_t row = r * (p->seqlen_q - 1) / (CHECKED_ROWS - 1);
            uint16_t *q = read_rows(context, &io->q, head, row, 1), *got = read_rows(context, &io->o, head, row, 1);
            float lse = 0;
            if (io->lse)
                expect(context, sparge_download(context, &lse, io->lse + head * p->seqlen_q + row, sizeof lse),
                       "download");
            const uint8_t *blocks = mask ? mask->value + (head * mask->rows + row / c->block_q) * mask->cols : NULL;
            const double exact_lse = exact_row(c, blocks, row, q, k, v, scores, o);
            if (io->lse && isfinite(exact_lse))
                worst_lse = fmax(worst_lse, fabs((double)lse - exact_lse));
            for (int32_t d = 0; d < p->head_dim; d++) {
                const double error = value_of(got[d], p->dtype) - o[d];
                difference += error * error;
                square += o[d] * o[d];
            }
            free(q);
            free(got);
        }
        free(k);
        free(v);
    }
    free(scores);
    const double error = sqrt(difference / square);
    const double limit = !is_f16() ? 0.07 : p->dtype == SPARGE_F16 ? 0.002 : 0.01;
    if (!(error < limit) || !(worst_lse < 1e-3)) {
        fprintf(stderr, "wrong: O is off by %g, LSE by %g\n", error, worst_lse);
        exit(1);
    }
    return error;
}

/* ---- Times ---- */

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double median_ns(sparge_context *context, sparge_plan *plan, const sparge_io *io)
{
    sparge_event *event[LAUNCHES + 1];
    int64_t ns[LAUNCHES];
    for (int i = 0; i <= LAUNCHES; i++)
        expect(context, sparge_event_create(context, &event[i]), "event");
    for (int i = 0; i < WARM_UP; i++)
        expect(context, sparge_plan_run(plan, SPARGE_STAGE_ATTEND, io), "attend");
    expect(context, sparge_event_record(event[0]), "event");
    for (int i = 0; i < LAUNCHES; i++) {
        expect(context, sparge_plan_run(plan, SPARGE_STAGE_ATTEND, io), "attend");
        expect(context, sparge_event_record(event[i + 1]), "event");
    }
    for (int i = 0; i < LAUNCHES; i++)
        expect(context, sparge_event_elapsed_ns(event[i], event[i + 1], &ns[i]), "event");
    for (int i = 0; i <= LAUNCHES; i++)
        sparge_event_destroy(event[i]);
    qsort(ns, LAUNCHES, sizeof ns[0], by_value);
    return (double)ns[LAUNCHES / 2];
}

static sparge_tensor make_tensor(sparge_context *context, const sparge_problem *p, int role)
{
    const int of_q = role == SPARGE_ROLE_Q || role > SPARGE_ROLE_V;
    const sparge_generator generator = {
        .kind = SPARGE_GENERATE_NORMAL, .seed = 7, .heads_q = p->heads_q, .heads_kv = p->heads_kv};
    sparge_tensor x = sparge_tensor_hnd(NULL, p->dtype, p->batch, of_q ? p->heads_q : p->heads_kv,
                                        of_q ? p->seqlen_q : p->seqlen_k, p->head_dim);
    expect(context, sparge_alloc(context, (size_t)(x.stride[0] * x.shape[0]) * sizeof(uint16_t), &x.data), "tensor");
    if (role <= SPARGE_ROLE_V)
        expect(context, sparge_generate(context, &generator, (sparge_tensor_role)role, &x), "input");
    return x;
}

static void time_case(sparge_context *context, const bench_case *c)
{
    const sparge_problem *p = &c->problem;
    char path[] = "/tmp/sparge-bench-mask-XXXXXX";
    sparge_block_mask mask = {0};
    sparge_plan *plan;
    sparge_stats stats;
    void *lse = NULL;
    if (c->density > 0)
        mask = make_mask(c);
    sparge_params *params = params_of(c, c->density > 0 ? &mask : NULL, path);
    if (is_f16()) /* other kernels run where the LSE of INT8 and FP8 is wanted */
        expect(context, sparge_alloc(context, (size_t)(p->batch * p->heads_q * p->seqlen_q) * sizeof(float), &lse),
               "LSE");
    const sparge_io io = {.q = make_tensor(context, p, 0),
                          .k = make_tensor(context, p, 1),
                          .v = make_tensor(context, p, 2),
                          .o = make_tensor(context, p, 3),
                          .lse = lse};
    expect(context, sparge_plan_create(context, params, p, &plan), "plan");
    if (c->density > 0)
        unlink(path);
    expect(context, sparge_plan_run(plan, SPARGE_STAGE_ALL, &io), "run");
    const double error = check(context, c, c->density > 0 ? &mask : NULL, &io);
    const double ns = median_ns(context, plan, &io);
    expect(context, sparge_plan_get_stats(plan, &stats), "stats");
    const double visible = (double)sparge_problem_visible_pairs(p) * (double)p->batch * p->heads_q;
    char blocks[32] = "dense";
    if (c->density > 0)
        snprintf(blocks, sizeof blocks, "%dx%d%s", (int)c->block_q, (int)c->block_k, mask_names[c->kind]);
    printf("%-13s H%d/%d L%-6" PRId64
           " D%-3d %-4s %-6s density %.3f  %9.4f ms  tops %6.0f  executed %5.0f  error %.1e\n",
           blocks, (int)p->heads_q, (int)p->heads_kv, p->seqlen_q, (int)p->head_dim, sparge_dtype_name(p->dtype),
           p->causal ? "causal" : "full", (double)stats.qk / (double)stats.visible, ns * 1e-6,
           4.0 * p->head_dim * visible / ns * 1e-3, stats.executed_ops / ns * 1e-3, error);
    sparge_plan_destroy(plan);
    sparge_params_destroy(params);
    sparge_block_mask_release(&mask);
    sparge_free(context, io.q.data);
    sparge_free(context, io.k.data);
    sparge_free(context, io.v.data);
    sparge_free(context, io.o.data);
    sparge_free(context, lse);
}

/* Causal, with so few row blocks that their order tells. */
static void time_few_heads(sparge_context *context, bench_case c)
{
    c.problem.causal = SPARGE_CAUSAL_BOTTOM_RIGHT;
    for (c.problem.seqlen_q = 8192; c.problem.seqlen_q <= 16384; c.problem.seqlen_q *= 2)
        for (int heads = 4; heads <= 16; heads *= 2) {
            c.problem.seqlen_k = c.problem.seqlen_q;
            c.problem.heads_q = c.problem.heads_kv = heads;
            time_case(context, &c);
        }
}

/* Other shares of heads, and other masks, at one size. */
static void time_others(sparge_context *context, bench_case c)
{
    c.problem.seqlen_q = c.problem.seqlen_k = 32768;
    c.problem.causal = SPARGE_CAUSAL_NONE;
    c.problem.heads_kv = 8;
    time_case(context, &c);
    c.problem.heads_q = 8;
    time_case(context, &c);
    c.problem.heads_q = c.problem.heads_kv = 32;
    c.density = 0.25;
    for (int block_q = 128; block_q >= 64; block_q -= 64)
        for (int kind = MASK_BAND; kind <= MASK_UNEVEN; kind++) {
            c.block_q = block_q;
            c.block_k = !is_f16() && block_q == 64 ? 128 : 64;
            c.kind = (mask_kind)kind;
            time_case(context, &c);
        }
}

int main(int argc, char **argv)
{
    sparge_context *context;
    sparge_error error;
    if (sparge_context_create("cuda", 0, 0, &context, &error) != SPARGE_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 77;
    }
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (strcmp(argv[i], "portable") == 0) {
            cuda_context_of(context)->portable = 1;
        } else if (value) {
            require(setting_count < MAX_SETTINGS, "fewer parameters");
            *value = '\0';
            settings[setting_count] = argv[i];
            values[setting_count++] = value + 1;
        } else {
            arithmetic = argv[i];
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    static const double densities[] = {1, 0.5, 0.25, 0.1, 0.05};
    static const struct {
        int64_t tokens;
        sparge_causal causal;
    } shapes[] = {
        {32768, SPARGE_CAUSAL_NONE},
        {32768, SPARGE_CAUSAL_BOTTOM_RIGHT},
        {8192, SPARGE_CAUSAL_NONE},
        {8192, SPARGE_CAUSAL_BOTTOM_RIGHT},
    };
    for (int dim = 128; dim >= 64; dim -= 64) {
        bench_case c = {.problem = {.batch = 1, .heads_q = 32, .heads_kv = 32, .head_dim = dim}};
        for (int dtype = 0; dtype < (is_f16() ? 2 : 1); dtype++)
            for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
                c.problem.dtype = dtype ? SPARGE_BF16 : SPARGE_F16;
                c.problem.seqlen_q = c.problem.seqlen_k = shapes[i].tokens;
                c.problem.causal = shapes[i].causal;
                time_case(context, &c);
            }
        c.problem.dtype = SPARGE_F16;
        time_few_heads(context, c);
        time_others(context, c);
        for (size_t i = 0; i < 2; i++)
            for (size_t j = 0; j < sizeof densities / sizeof densities[0]; j++)
                for (int block_q = 128; block_q >= 64; block_q -= 64) {
                    c.problem.seqlen_q = c.problem.seqlen_k = shapes[i].tokens;
                    c.problem.causal = shapes[i].causal;
                    c.density = densities[j];
                    c.block_q = block_q;
                    c.block_k = !is_f16() && block_q == 64 ? 128 : 64; /* the paper's, and the official sm_90 one */
                    time_case(context, &c);
                }
    }
    sparge_context_destroy(context);
    return 0;
}
