/* The prepare stage: what a recipe needs of it, its memory, its launches. The work is in fused.cuh (in parity mode in
 * upstream.cu), operands.cu and, for runs that ask for the LSE, lse_offset below. */
#include "prepare.h"

#include "cpu/prepare/fp8.h"
#include "cpu/prepare/quantise.h"
#include "cpu/prepare/smooth.h"

#include "launch.cuh"
#include "numbers.cuh"
#include "operands.h"
#include "upstream.h"

static_assert(int(PREPARE_CHUNK) == int(CPU_MEAN_CHUNK) && int(PREPARE_LANES) == int(CPU_MEAN_LANES) &&
                  int(PREPARE_RUN) == int(CPU_MEAN_RUN),
              "K's mean is summed as on the CPU");

namespace
{

struct prepare_state {
    cuda_operand_copies copies;
    prepare_args args;     /* but for the tensors of a run */
    bool works;            /* there is something to do beyond the operands */
    prepare_kernel kernel; /* NULL in parity mode */
    uint16_t *v16;         /* parity mode: V as f16, where the input is not and P V is to be */
    unsigned *flags;       /* of all kinds, cleared before the kernel; NULL if nothing waits */
    size_t flags_bytes;
};

/* What the recipe asks for. */
struct needs {
    bool int8, fp8, pool, judge, mean;
};

needs find_needs(const sparge_recipe &recipe)
{
    needs n = {};
    n.int8 = recipe.arithmetic != SPARGE_ARITHMETIC_F16;
    n.fp8 = recipe.arithmetic == SPARGE_ARITHMETIC_INT8_FP8;
    n.judge = recipe.select == SPARGE_SELECT_MEANSIM;
    n.pool = n.judge || recipe.select == SPARGE_SELECT_POOLED_TOPK || recipe.select == SPARGE_SELECT_FLEX;
    n.mean = recipe.smooth_k && (n.int8 || n.pool);
    return n;
}

int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Device memory for count_a * count_b elements, none of them negative. */
template <typename T> sparge_status take(sparge_plan *plan, int64_t count_a, int64_t count_b, T **memory)
{
    size_t count;
    if (__builtin_mul_overflow(static_cast<size_t>(count_a), static_cast<size_t>(count_b), &count))
        return sparge_context_fail(plan->context, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for the prepare stage");
    void *taken;
    const sparge_status status = cuda_take(plan, count, sizeof(T), &taken);
    *memory = static_cast<T *>(taken);
    return status;
}

prepare_groups groups_of(sparge_scales scales, bool keys)
{
    if (scales == SPARGE_SCALES_THREAD)
        return keys ? PREPARE_GROUP_KEY_THREAD : PREPARE_GROUP_ROW_THREAD;
    return scales == SPARGE_SCALES_WARP && !keys ? PREPARE_GROUP_WARP : PREPARE_GROUP_BLOCK;
}

sparge_status take_side(sparge_plan *plan, const needs &n, bool keys, prepare_side *side)
{
    const sparge_problem &p = plan->problem;
    const sparge_recipe &recipe = plan->recipe;
    const int32_t padded_dim = cuda_plan_of(plan)->prepared.padded_dim;
    const int64_t heads = static_cast<int64_t>(p.batch) * (keys ? p.heads_kv : p.heads_q);
    const int64_t tokens = keys ? p.seqlen_k : p.seqlen_q;
    side->block = keys ? recipe.block_k : recipe.block_q;
    side->blocks = static_cast<int32_t>(ceil_div(tokens, side->block));
    side->groups = groups_of(recipe.scales, keys);
    side->scales = static_cast<int32_t>(keys ? cpu_k_scales(&p, &recipe) : cpu_q_scales(&p, &recipe));
    sparge_status status = SPARGE_OK;
    if (n.int8)
        status = take(plan, heads * tokens, padded_dim, &side->x8);
    if (status == SPARGE_OK && n.int8)
        status = take(plan, heads, side->scales, &side->scale);
    if (status == SPARGE_OK && n.pool)
        status = take(plan, heads * side->blocks, p.head_dim, &side->pool);
    if (status == SPARGE_OK && n.judge)
        status = take(plan, heads, side->blocks, &side->sim);
    return status;
}

sparge_status take_stats(sparge_plan *plan, const needs &n, prepare_state *state)
{
    const sparge_problem &p = plan->problem;
    cuda_prepared *prepared = &cuda_plan_of(plan)->prepared;
    prepare_args &args = state->args;
    const int64_t heads = static_cast<int64_t>(p.batch) * p.heads_kv, padded_dim = prepared->padded_dim;
    args.chunks = static_cast<int32_t>(ceil_div(p.seqlen_k, PREPARE_CHUNK));
    args.runs = static_cast<int32_t>(ceil_div(args.chunks, PREPARE_RUN));
    sparge_status status = SPARGE_OK;
    if (n.mean || n.fp8) {
        const int64_t words = heads * (4 + args.runs + (n.fp8 ? padded_dim : 0));
        status = take(plan, words, 1, &state->flags);
        state->flags_bytes = static_cast<size_t>(words) * sizeof(unsigned);
    }
    if (status != SPARGE_OK)
        return status;
    if (state->flags) {
        args.k_arrived = state->flags;
        args.k_ready = args.k_arrived + heads;
        args.v_arrived = args.k_ready + heads;
        args.v_ready = args.v_arrived + heads;
        args.k_run_arrived = args.v_ready + heads;
    }
    if (n.mean) {
        status = take(plan, heads, p.head_dim, &args.k_mean);
        if (status == SPARGE_OK)
            status = take(plan, heads * args.chunks, padded_dim, &args.k_partial);
        if (status == SPARGE_OK)
            status = take(plan, heads * args.runs, padded_dim, &args.k_run);
        args.k.center = args.k_mean;
    }
    if (status == SPARGE_OK && n.fp8) {
        args.padded_keys = prepared->padded_keys;
        args.v_max = plan->recipe.fp8_v_max;
        args.v_max_inverse = 1.0f / args.v_max;
        args.v_tiny = CPU_FP8_TINY;
        status = take(plan, heads * padded_dim, args.padded_keys, &args.v8);
        if (status == SPARGE_OK)
            status = take(plan, heads, padded_dim, &args.v_scale);
        if (status == SPARGE_OK)
            status = take(plan, heads, padded_dim, &args.v_factor);
        if (status == SPARGE_OK)
            args.v_most = args.k_run_arrived + heads * args.runs;
    }
    if (status == SPARGE_OK && n.mean && n.int8)
        status = take(plan, static_cast<int64_t>(p.batch) * p.heads_q, p.seqlen_q, &prepared->lse_offset);
    return status;
}

/* How many KV heads go together: their K fills 3/8 of the L2 cache at most. */
sparge_status make_schedule(sparge_plan *plan, const needs &n, prepare_args *args)
{
    const sparge_problem &p = plan->problem;
    const cuda_prepared &prepared = cuda_plan_of(plan)->prepared;
    prepare_schedule &s = args->schedule;
    const int64_t slots = PREPARE_THREADS / (prepared.padded_dim / 8), slab_rows = slots * PREPARE_ROWS;
    const int64_t cache = cuda_context_of(plan->context)->properties.l2CacheSize;
    const int64_t head_bytes = p.seqlen_k * p.head_dim * 2, fitting = cache / 8 * 3 / head_bytes;
    s.heads = p.batch * p.heads_kv;
    s.q_heads_per_head = p.heads_q / p.heads_kv;
    s.group_heads = static_cast<int32_t>(fitting < 1 ? 1 : fitting < s.heads ? fitting : s.heads);
    const int64_t stats = ceil_div(args->chunks, slots / PREPARE_LANES);
    s.k_stats = n.mean ? static_cast<int32_t>(stats) : 0;
    s.v_stats = n.fp8 ? static_cast<int32_t>(stats) : 0;
    s.q_slabs = static_cast<int32_t>(ceil_div(p.seqlen_q, slab_rows));
    s.k_slabs = static_cast<int32_t>(ceil_div(p.seqlen_k, slab_rows));
    s.v_slabs = n.fp8 ? s.k_slabs : 0;
    const int64_t of_head =
        static_cast<int64_t>(p.heads_q / p.heads_kv) * s.q_slabs + s.k_stats + s.v_stats + s.k_slabs + s.v_slabs;
    if (of_head > INT32_MAX / s.heads)
        return sparge_context_fail(plan->context, SPARGE_ERROR_UNSUPPORTED,
                                   "%d heads of %lld queries and %lld keys: the cuda backend prepares at most 2^31 "
                                   "pieces of %lld rows",
                                   p.batch * p.heads_q, static_cast<long long>(p.seqlen_q),
                                   static_cast<long long>(p.seqlen_k), static_cast<long long>(slab_rows));
    s.cta_per_head = static_cast<int32_t>(of_head);
    return SPARGE_OK;
}

void publish(cuda_prepared *prepared, const prepare_args &args)
{
    prepared->k_mean = args.k_mean;
    prepared->q8 = args.q.x8;
    prepared->k8 = args.k.x8;
    prepared->q_scale = args.q.scale;
    prepared->k_scale = args.k.scale;
    prepared->q_scales = args.q.scales;
    prepared->k_scales = args.k.scales;
    prepared->v8 = args.v8;
    prepared->v_scale = args.v_scale;
    prepared->q_pool = args.q.pool;
    prepared->k_pool = args.k.pool;
    prepared->q_sim = args.q.sim;
    prepared->k_sim = args.k.sim;
}

sparge_status choose_kernel(sparge_plan *plan, const needs &n, prepare_state *state)
{
    const sparge_problem &p = plan->problem;
    const prepare_kernel_key key = {p.dtype == SPARGE_BF16,
                                    cuda_plan_of(plan)->prepared.padded_dim,
                                    n.int8,
                                    n.pool,
                                    n.judge,
                                    n.int8 && plan->recipe.scales != SPARGE_SCALES_BLOCK};
    state->kernel = key.bf16 ? prepare_kernel_bf16(key) : prepare_kernel_f16(key);
    if (!state->kernel)
        return sparge_context_fail(plan->context, SPARGE_ERROR_INTERNAL, "no prepare kernel for this plan");
    return SPARGE_OK;
}

/* bf16 V for P V in 16 bits, which are f16 in parity mode. */
sparge_status take_v16(sparge_plan *plan, prepare_state *state)
{
    const sparge_problem &p = plan->problem;
    if (p.dtype != SPARGE_BF16 || plan->recipe.arithmetic != SPARGE_ARITHMETIC_INT8_F16)
        return SPARGE_OK;
    return take(plan, static_cast<int64_t>(p.batch) * p.heads_kv * p.seqlen_k, ceil_div(p.head_dim, 8) * 8,
                &state->v16);
}

sparge_status plan_work(sparge_plan *plan, const needs &n, prepare_state *state)
{
    const sparge_problem &p = plan->problem;
    state->works = true;
    sparge_status status = plan->recipe.upstream ? take_v16(plan, state) : choose_kernel(plan, n, state);
    if (status == SPARGE_OK)
        status = take_side(plan, n, false, &state->args.q);
    if (status == SPARGE_OK)
        status = take_side(plan, n, true, &state->args.k);
    if (status == SPARGE_OK)
        status = take_stats(plan, n, state);
    if (status == SPARGE_OK)
        status = make_schedule(plan, n, &state->args);
    state->args.head_dim = p.head_dim;
    state->args.load_chunks = (p.head_dim + 7) / 8;
    publish(&cuda_plan_of(plan)->prepared, state->args);
    return status;
}

prepare_tensor view(const sparge_tensor &x)
{
    return {static_cast<const uint16_t *>(x.data), x.stride[0], x.stride[1], x.stride[2], x.shape[2],
            static_cast<int32_t>(x.shape[1])};
}

sparge_status run_kernel(sparge_plan *plan, const prepare_state *state, const prepare_args &args)
{
    const cudaStream_t stream = cuda_context_of(plan->context)->stream;
    sparge_status status = SPARGE_OK;
    if (state->flags)
        status = cuda_check(plan->context, cudaMemsetAsync(state->flags, 0, state->flags_bytes, stream),
                            "clearing the flags of the prepare kernel");
    if (status == SPARGE_OK)
        status = cuda_check(plan->context,
                            sparge::launch(state->kernel,
                                           static_cast<int64_t>(args.schedule.heads) * args.schedule.cta_per_head,
                                           PREPARE_THREADS, 0, stream, args),
                            "launching the prepare kernel");
    return status;
}

sparge_status run_upstream(sparge_plan *plan, const prepare_state *state, const prepare_args &args)
{
    const sparge_problem &p = plan->problem;
    sparge_tensor &v = cuda_plan_of(plan)->prepared.v;
    const upstream_prepare_args upstream = {args, p.dtype == SPARGE_BF16,
                                            plan->recipe.select == SPARGE_SELECT_POOLED_TOPK, state->v16,
                                            static_cast<int32_t>(v.shape[3])};
    if (state->v16) /* what the attention kernel reads */
        v = sparge_tensor_hnd(state->v16, SPARGE_F16, p.batch, p.heads_kv, p.seqlen_k, v.shape[3]);
    return cuda_check(plan->context, upstream_prepare_launch(upstream, cuda_context_of(plan->context)->stream),
                      "launching the parity mode's prepare kernels");
}

/* q . k_mean * scale: what smoothing takes away from every score of a row. One warp a row, sums in double. */
struct offset_args {
    prepare_tensor q;
    const float *k_mean;
    int64_t rows;
    int32_t head_dim, group; /* query heads of a KV head */
    double scale;
    float *offset;
};

constexpr int offset_threads = 256;

template <typename T> __global__ void __launch_bounds__(offset_threads) find_lse_offset(const offset_args args)
{
    const int64_t row = (static_cast<int64_t>(blockIdx.x) * offset_threads + threadIdx.x) / 32;
    if (row >= args.rows)
        return;
    const int64_t head = row / args.q.tokens, token = row % args.q.tokens;
    const uint16_t *q = args.q.data + head / args.q.heads * args.q.batch_stride +
                        head % args.q.heads * args.q.head_stride + token * args.q.token_stride;
    const float *mean = args.k_mean + head / args.group * args.head_dim;
    double sum = 0;
    for (int d = static_cast<int>(threadIdx.x) % 32; d < args.head_dim; d += 32)
        sum += static_cast<double>(sparge::prepare::unpack<T>(q[d]).x) * static_cast<double>(mean[d]);
    for (int distance = 16; distance >= 1; distance /= 2)
        sum += __shfl_xor_sync(~0u, sum, distance);
    if (threadIdx.x % 32 == 0)
        args.offset[row] = static_cast<float>(sum * args.scale);
}

sparge_status run_lse_offset(sparge_plan *plan)
{
    const sparge_problem &p = plan->problem;
    const cuda_prepared &prepared = cuda_plan_of(plan)->prepared;
    offset_args args = {};
    args.q = view(prepared.q);
    args.k_mean = prepared.k_mean;
    args.rows = static_cast<int64_t>(p.batch) * p.heads_q * p.seqlen_q;
    args.head_dim = p.head_dim;
    args.group = p.heads_q / p.heads_kv;
    args.scale = static_cast<double>(sparge_problem_scale(&p));
    args.offset = prepared.lse_offset;
    const int64_t ctas = ceil_div(args.rows, offset_threads / 32);
    if (ctas > INT32_MAX)
        return sparge_context_fail(plan->context, SPARGE_ERROR_UNSUPPORTED,
                                   "LSE of %lld rows: the cuda backend gives at most 2^34 with smooth_k",
                                   static_cast<long long>(args.rows));
    const auto kernel = p.dtype == SPARGE_F16 ? find_lse_offset<__half> : find_lse_offset<__nv_bfloat16>;
    return cuda_check(plan->context,
                      sparge::launch(kernel, ctas, offset_threads, 0, cuda_context_of(plan->context)->stream, args),
                      "launching the LSE's share of K's mean");
}

} // namespace

sparge_status cuda_prepare_plan(sparge_plan *plan)
{
    const sparge_problem &p = plan->problem;
    cuda_plan *cuda = cuda_plan_of(plan);
    void *memory;
    sparge_status status = cuda_take_host(plan, sizeof(prepare_state), &memory);
    if (status != SPARGE_OK)
        return status;
    prepare_state *state = static_cast<prepare_state *>(memory);
    cuda->prepare_state = state;
    cuda->prepared.padded_dim = p.head_dim <= 64 ? 64 : 128;
    cuda->prepared.padded_keys = ceil_div(p.seqlen_k, 128) * 128;
    status = cuda_operands_plan(plan, &state->copies);
    const needs n = find_needs(plan->recipe);
    return status == SPARGE_OK && (n.int8 || n.pool) ? plan_work(plan, n, state) : status;
}

sparge_status cuda_prepare_run(sparge_plan *plan, const sparge_io *io)
{
    cuda_plan *cuda = cuda_plan_of(plan);
    prepare_state *state = static_cast<prepare_state *>(cuda->prepare_state);
    sparge_status status = cuda_operands_run(plan, &state->copies, io);
    if (status != SPARGE_OK || !state->works)
        return status;
    prepare_args args = state->args;
    args.q.x = view(cuda->prepared.q);
    args.k.x = view(cuda->prepared.k);
    args.v = view(cuda->prepared.v);
    status = state->kernel ? run_kernel(plan, state, args) : run_upstream(plan, state, args);
    if (status == SPARGE_OK && io->lse && cuda->prepared.lse_offset)
        status = run_lse_offset(plan);
    return status;
}
