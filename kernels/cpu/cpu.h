/* The CPU backend from the inside: what its three stages hand to each other.
 *
 *   prepare/  q, k, v  ->  cpu_prepared   (smoothing, INT8, FP8, pooling, self-similarity, token permutation)
 *   select/   scores   ->  cpu_worklist   (and the block mask it came from)
 *   attend/   worklist ->  o, lse, counts
 *
 * All memory belongs to the plan and is taken at plan_create; OpenMP parallel over (head, query block); every output
 * row is computed by one thread in a fixed order, so results do not depend on the number of threads. */
#ifndef SPARGE_CPU_H
#define SPARGE_CPU_H

#include "backend.h"

/* What prepare leaves behind. Pointers are NULL where the recipe does not need them. nq = ceil(Lq / BQ) and so on. */
typedef struct cpu_prepared {
    sparge_tensor q, k, v;  /* what select and attend read: the caller's tensors, or permuted copies (sta) */
    float *k_mean;          /* [B][Hkv][D]; rounded to the input's 16-bit type in parity mode */
    int8_t *q8, *k8;        /* [B][H][L][D], dense */
    float *q_scale;         /* [B][Hq][nq]: one per BQ rows (SPARGE_SCALES_BLOCK; others see prepare/quantise.h) */
    float *k_scale;         /* [B][Hkv][nk] */
    uint8_t *v8;            /* e4m3 [B][Hkv][Lk][D] */
    float *v_scale;         /* [B][Hkv][D] */
    float *q_pool, *k_pool; /* block means [B][H][n][D]; K after subtracting k_mean */
    float *q_sim, *k_sim;   /* mean cosine of each block [B][H][n] */
} cpu_prepared;

/* A row block: consecutive queries of one head that compute the same keys, except for each row's own visibility.
 * Its keys are the segments, then the gathered columns. Segments are ascending and disjoint; none crosses a multiple of
 * BK where the arithmetic is INT8 (one scale per segment); columns appear in no segment. */
typedef struct cpu_row_block {
    int32_t batch, head; /* query head */
    int32_t q_count;     /* 1..128 */
    int64_t q_begin;
    int64_t segment_begin, segment_end; /* into cpu_worklist.segment */
    int64_t column_begin, column_end;   /* into cpu_worklist.column */
} cpu_row_block;

typedef struct cpu_segment {
    int64_t k_begin;
    int32_t k_count; /* 1..128; clipped to seqlen_k */
} cpu_segment;

typedef struct cpu_worklist {
    cpu_row_block *row_block;
    int64_t row_blocks;
    cpu_segment *segment;
    int64_t segments, segment_capacity;
    int32_t *column;
    int64_t columns, column_capacity;
    /* Per-element rule on top of the lists: query i keeps key j iff j < end(i) and
     * (j < sink or i >= dense_from or i + begin_offset <= j < i + end_offset).
     * No rule: begin_offset = INT64_MIN, end_offset = INT64_MAX (test for these values before adding), sink = 0,
     * dense_from = INT64_MAX. cpu_select_plan sets these. */
    int64_t begin_offset, end_offset, sink, dense_from;
} cpu_worklist;

typedef struct cpu_plan {
    cpu_prepared prepared;
    cpu_worklist work;
    sparge_block_mask mask; /* of the last select; value NULL for token-granular selections */
    int64_t *permuted;      /* sta: position -> row-major token, [Lq]; NULL otherwise */
    sparge_stats stats;     /* counts; select sets visible, qk and extra, attend pv_skipped and executed_ops */
    void *scratch;          /* select's workspace */
    size_t scratch_bytes;
    double *mean_sum; /* prepare's partial sums of K's mean and partial maxima of V */
    float *v_max;
    struct cpu_attend *attend; /* attend's tables and per-thread workspace (attend/attend.h) */
    void *memory;              /* list of the allocations of cpu_take */
} cpu_plan;

static inline cpu_plan *cpu_plan_of(const sparge_plan *plan)
{
    return (cpu_plan *)plan->state;
}

/* Threads of this context. */
int cpu_threads(const sparge_context *context);

/* Stage entry points. *_plan sizes and allocates (through cpu_take), once; *_run fills. backend.c calls, at
 * plan_create: select_plan, prepare_plan, attend_plan (so that prepare and attend see plan->permuted), then
 * select_run(plan, NULL) for the selections that are no stage of their own (sparge_plan_stages); at plan_run: sets
 * prepared.q, k, v to the io's tensors unless they are permuted copies, then prepare_run, select_run, attend_run as
 * asked. */
sparge_status cpu_prepare_plan(sparge_plan *plan);
sparge_status cpu_prepare_run(sparge_plan *plan, const sparge_io *io);
sparge_status cpu_select_plan(sparge_plan *plan);
sparge_status cpu_select_run(sparge_plan *plan, const sparge_io *io);
sparge_status cpu_attend_plan(sparge_plan *plan);
sparge_status cpu_attend_run(sparge_plan *plan, const sparge_io *io);

/* Zeroed memory, aligned to 64 bytes, that is freed with the plan and counted in its workspace_bytes; count * bytes is
 * overflow-checked. count = 0 gives a pointer that must not be dereferenced. */
sparge_status cpu_take(sparge_plan *plan, size_t count, size_t bytes, void **memory);

/* Takes the worklist's arrays: exactly row_blocks, at most `segments` segments and `columns` columns. Called by
 * cpu_select_plan, which also takes plan->mask for selections on a block grid (kernels/cpu/select/select.c). */
sparge_status cpu_worklist_take(sparge_plan *plan, int64_t row_blocks, int64_t segments, int64_t columns);

/* Worklist building blocks for select/: from a mask on the BQ x BK grid (one row block per (b, h, row), segments = the
 * blocks kept), with exact counts of visible and computed blocks into plan stats. */
sparge_status cpu_worklist_from_mask(sparge_plan *plan);

sparge_status cpu_generate(sparge_context *context, const sparge_generator *generator, sparge_tensor_role role,
                           const sparge_tensor *tensor);
sparge_status cpu_exact(sparge_context *context, const sparge_problem *problem, const sparge_tensor *q,
                        const sparge_tensor *k, const sparge_tensor *v, const int64_t *rows, int64_t n_rows, double *o,
                        double *lse);

#endif
