/* How fast attend is: against the machine's own multiply-add rate, and how its time falls with the density of a mask.
 *
 * Prints both numbers for one thread and for all, and fails below what a maintainer should accept: dense-f16 at 4096
 * tokens, D = 128, reaches 40 % of the rate of a loop of multiply-adds on registers, and a mask of density 0.25 is
 * 3.4 times as fast as one of density 1. Time is the processor time of the program's threads, and the best of several
 * alternated runs counts, so that other programs on the machine disturb little; the wall-clock rate is printed beside.
 * Skipped (77) in builds whose speed means nothing: sanitizers, no optimisation. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cpu/context.h"
#include "sparge/sparge.h"

/* BENCH_SANITIZED comes from CMake: not every compiler tells which sanitizers are on. */
#if defined(BENCH_SANITIZED) || !defined(__OPTIMIZE__)
#define MEANINGLESS 1
#else
#define MEANINGLESS 0
#endif

enum { TOKENS = 4096, HEAD_DIM = 128, HEADS = 2, RUNS = 9, EXIT_SKIP = 77 };
static const double PEAK_SHARE = 0.40, MASK_SPEEDUP = 3.4;

static void die(const char *what)
{
    fprintf(stderr, "bench_attend: %s\n", what);
    exit(EXIT_FAILURE);
}

static double clock_s(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Multiply-add operations per second on registers that all threads could do: the best single thread of several runs with
 * every thread busy, times the threads. */
static double peak_rate(sparge_context *context, int threads)
{
    const cpu_isa *isa = cpu_context_isa(context);
    double best = 0;
    for (int run = 0; run < RUNS; run++) {
#pragma omp parallel num_threads(threads) reduction(max : best)
        {
            double flops;
            const double begin = clock_s(CLOCK_THREAD_CPUTIME_ID);
            const float sink = isa->fma_peak(2000000, &flops);
            const double rate = flops / (clock_s(CLOCK_THREAD_CPUTIME_ID) - begin);
            if (sink != 0 && rate > best)
                best = rate;
        }
    }
    return best * threads;
}

typedef struct bench {
    sparge_context *context;
    sparge_problem problem;
    sparge_io io;
    void *memory[4];
} bench;

static void bench_open(bench *b, int threads)
{
    sparge_error error;
    memset(b, 0, sizeof *b);
    if (sparge_context_create("cpu", 0, threads, &b->context, &error) != SPARGE_OK)
        die(error.text);
    b->problem = (sparge_problem){.batch = 1,
                                  .heads_q = HEADS,
                                  .heads_kv = HEADS,
                                  .seqlen_q = TOKENS,
                                  .seqlen_k = TOKENS,
                                  .head_dim = HEAD_DIM,
                                  .dtype = SPARGE_F16};
    const sparge_generator generator = {.kind = SPARGE_GENERATE_NORMAL, .seed = 1, .heads_q = HEADS, .heads_kv = HEADS};
    sparge_tensor *tensors[] = {&b->io.q, &b->io.k, &b->io.v, &b->io.o};
    for (int i = 0; i < 4; i++) {
        if (sparge_alloc(b->context, sizeof(uint16_t) * HEADS * TOKENS * HEAD_DIM, &b->memory[i]) != SPARGE_OK)
            die(sparge_error_string(b->context));
        *tensors[i] = sparge_tensor_hnd(b->memory[i], SPARGE_F16, 1, HEADS, TOKENS, HEAD_DIM);
        if (i < 3 && sparge_generate(b->context, &generator, (sparge_tensor_role)i, tensors[i]) != SPARGE_OK)
            die(sparge_error_string(b->context));
    }
}

static void bench_close(bench *b)
{
    for (int i = 0; i < 4; i++)
        sparge_free(b->context, b->memory[i]);
    sparge_context_destroy(b->context);
}

static sparge_plan *plan_of(bench *b, const char *method, const char *name, const char *value)
{
    sparge_params *params;
    sparge_plan *plan;
    sparge_error error;
    if (sparge_params_create(sparge_method_find(method), &params) != SPARGE_OK)
        die("no parameters");
    if (name && sparge_params_set(params, name, value, &error) != SPARGE_OK)
        die(error.text);
    if (sparge_plan_create(b->context, params, &b->problem, &plan) != SPARGE_OK)
        die(sparge_error_string(b->context));
    sparge_params_destroy(params);
    return plan;
}

typedef struct seconds {
    double wall, processor; /* processor: of all threads, divided by their number */
} seconds;

static seconds attend_s(bench *b, sparge_plan *plan, int threads)
{
    const seconds begin = {clock_s(CLOCK_MONOTONIC_RAW), clock_s(CLOCK_PROCESS_CPUTIME_ID)};
    if (sparge_plan_run(plan, SPARGE_STAGE_ATTEND, &b->io) != SPARGE_OK)
        die(sparge_error_string(b->context));
    return (seconds){clock_s(CLOCK_MONOTONIC_RAW) - begin.wall,
                     (clock_s(CLOCK_PROCESS_CPUTIME_ID) - begin.processor) / threads};
}

/* Every row keeps one block in `step`, staggered from row to row. */
static void write_mask(const bench *b, const char *path, int step)
{
    sparge_block_mask mask;
    sparge_error error;
    if (sparge_block_mask_create(&mask, &b->problem, 128, 64, &error) != SPARGE_OK)
        die(error.text);
    for (int64_t i = 0; i < HEADS * mask.rows * mask.cols; i++)
        mask.value[i] = (i % mask.cols + 7 * (i / mask.cols)) % step == 0;
    if (sparge_block_mask_write(&mask, path, &error) != SPARGE_OK)
        die(error.text);
    sparge_block_mask_release(&mask);
}

/* The three plans run in turns, so that what disturbs one disturbs the others. */
static int measure(int threads)
{
    bench b;
    bench_open(&b, threads);
    char full[] = "/tmp/bench_attend_full_XXXXXX", quarter[] = "/tmp/bench_attend_quarter_XXXXXX";
    const int fd_full = mkstemp(full), fd_quarter = mkstemp(quarter);
    if (fd_full < 0 || fd_quarter < 0)
        die("no temporary file in /tmp");
    close(fd_full);
    close(fd_quarter);
    write_mask(&b, full, 1);
    write_mask(&b, quarter, 4);
    sparge_plan *plan[] = {plan_of(&b, "dense-f16", NULL, NULL), plan_of(&b, "mask", "file", full),
                           plan_of(&b, "mask", "file", quarter)};
    unlink(full);
    unlink(quarter);
    seconds best[3] = {{1e30, 1e30}, {1e30, 1e30}, {1e30, 1e30}};
    for (int run = 0; run < RUNS; run++)
        for (int i = 0; i < 3; i++) {
            const seconds time = attend_s(&b, plan[i], threads);
            best[i].wall = time.wall < best[i].wall ? time.wall : best[i].wall;
            best[i].processor = time.processor < best[i].processor ? time.processor : best[i].processor;
        }
    const double peak = peak_rate(b.context, threads), ops = sparge_problem_dense_ops(&b.problem);
    const double rate = ops / best[0].processor;
    const double speedup = best[1].processor / best[2].processor;
    printf("%d thread%s, %s: dense-f16 %.1f of %.1f Gop/s = %.1f %% of peak (floor %.0f %%; %.1f Gop/s by the wall "
           "clock); density 0.25: %.2f times as fast as 1.0 (floor %.1f)\n",
           threads, threads == 1 ? "" : "s", cpu_context_isa(b.context)->name, rate * 1e-9, peak * 1e-9,
           100 * rate / peak, 100 * PEAK_SHARE, ops / best[0].wall * 1e-9, speedup, MASK_SPEEDUP);
    for (int i = 0; i < 3; i++)
        sparge_plan_destroy(plan[i]);
    bench_close(&b);
    return rate / peak >= PEAK_SHARE && speedup >= MASK_SPEEDUP;
}

int main(void)
{
    if (MEANINGLESS) {
        printf("skipped: a build with a sanitizer or without optimisation\n");
        return EXIT_SKIP;
    }
    int ok = measure(1);
    if (omp_get_num_procs() > 1)
        ok &= measure(omp_get_num_procs());
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
