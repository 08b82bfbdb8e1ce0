/* The attend stage: picks a kernel for the plan, fills its arguments, launches it. */
#include <math.h>
#include <string.h>

#include "cuda/cuda.h"
#include "cuda/plan.h"
#include "cuda/tensor_maps.h"

namespace
{

struct attend_state {
    attend_kernel_entry kernel;
    float *lambda_log2; /* device, [Hq]; NULL without PV skip */
    void *encoder;      /* of tensor maps; NULL where the kernel takes none */
    uint32_t *queue;    /* device, of row blocks; NULL where each has a CTA */
};

const double log2_e = 1.4426950408889634;

/* Upstream's exponent offset with FP8: log2 of 447.9. */
const float upstream_e4m3_offset = 8.807f;

/* PV skip and skip-softmax are one mechanism: a threshold in log2 units for every head. */
sparge_status take_lambda(sparge_plan *plan, attend_state *state)
{
    const sparge_recipe &recipe = plan->recipe;
    const int32_t heads = plan->problem.heads_q;
    void *host, *device;
    sparge_status status = cuda_take_host(plan, sizeof(float) * static_cast<size_t>(heads), &host);
    if (status == SPARGE_OK)
        status = cuda_take(plan, static_cast<size_t>(heads), sizeof(float), &device);
    if (status != SPARGE_OK)
        return status;
    for (int32_t h = 0; h < heads; h++) {
        const double threshold = recipe.skip_softmax_threshold > 0 ? log2(recipe.skip_softmax_threshold)
                                                                   : sparge_per_head_value(&recipe.lambda, h) * log2_e;
        static_cast<float *>(host)[h] = static_cast<float>(threshold);
    }
    state->lambda_log2 = static_cast<float *>(device);
    if (plan->sizing)
        return SPARGE_OK;
    return sparge_upload(plan->context, device, host, sizeof(float) * static_cast<size_t>(heads));
}

/* The newest kernel for the context's device that there is. */
attend_kernel_entry choose_kernel(const cuda_context *context, const attend_kernel_key &key)
{
#ifdef SPARGE_HAVE_SM90A
    if (!context->portable && context->properties.major == 9 && context->properties.minor == 0) {
        const attend_kernel_entry entry = sm90_attend_kernel(key);
        if (entry.function)
            return entry;
    }
#else
    (void)context;
#endif
    return sm80_attend_kernel(key);
}

attend_operand operand_16(const sparge_tensor &x)
{
    return {x.data, x.stride[0], x.stride[1], x.stride[2]};
}

attend_operand operand_dense(const void *data, int64_t heads, int64_t tokens, int64_t channels)
{
    return {data, heads * tokens * channels, tokens * channels, channels};
}

bool aligned_16(const sparge_tensor &x)
{
    const int64_t bytes = 2 * (x.stride[0] | x.stride[1] | x.stride[2]);
    return (reinterpret_cast<uintptr_t>(x.data) | static_cast<uintptr_t>(bytes)) % 16 == 0 && x.shape[3] % 8 == 0;
}

/* Turns at the end of a row block that never skip: in parity mode those that upstream masks, and all of them where no
 * head skips. */
int32_t guarded(const sparge_recipe &recipe, int32_t heads_q)
{
    if (!recipe.upstream)
        return 0;
    if (!cuda_skips_in_kernel(&recipe, heads_q))
        return INT32_MAX;
    return recipe.block_q > recipe.block_k ? recipe.block_q / recipe.block_k : 1;
}

/* One head after the other where row blocks are equally long. Where they are not, those of a head alone would leave SMs
 * without work at the end, unless they are many more than SMs; more heads than that take each other's place in L2. */
int32_t heads_together(const sparge_plan *plan, int32_t row_blocks)
{
    if (plan->problem.causal == SPARGE_CAUSAL_NONE)
        return 1;
    const int64_t wanted = cuda_context_of(plan->context)->properties.multiProcessorCount * int64_t(3) / 2,
                  enough = (wanted + row_blocks - 1) / row_blocks, heads = cuda_heads_in_cache(plan);
    return static_cast<int32_t>(enough < heads ? enough : heads);
}

attend_args fill_arguments(const sparge_plan *plan, const sparge_io *io, const attend_state *state)
{
    const sparge_problem &problem = plan->problem;
    const sparge_recipe &recipe = plan->recipe;
    const cuda_plan *cuda = cuda_plan_of(plan);
    const cuda_prepared &prepared = cuda->prepared;
    attend_args args = {};
    args.batch = problem.batch;
    args.heads_q = problem.heads_q;
    args.heads_kv = problem.heads_kv;
    args.head_dim = problem.head_dim;
    args.seqlen_q = problem.seqlen_q;
    args.seqlen_k = problem.seqlen_k;
    args.causal_shift = cuda_causal_shift(&problem);
    args.scale_log2 = static_cast<float>(static_cast<double>(sparge_problem_scale(&problem)) * log2_e);
    args.row_blocks = static_cast<int32_t>((problem.seqlen_q + state->kernel.rows - 1) / state->kernel.rows);
    args.o = {io->o.data, io->o.stride[0], io->o.stride[1], io->o.stride[2]};
    args.o_scalar = !aligned_16(io->o);
    args.lse = io->lse;
    args.v = operand_16(prepared.v);
    if (recipe.arithmetic == SPARGE_ARITHMETIC_F16) {
        args.q = operand_16(prepared.q);
        args.k = operand_16(prepared.k);
        args.load_dim = static_cast<int32_t>(prepared.q.shape[3]);
    } else {
        args.q = operand_dense(prepared.q8, problem.heads_q, problem.seqlen_q, prepared.padded_dim);
        args.k = operand_dense(prepared.k8, problem.heads_kv, problem.seqlen_k, prepared.padded_dim);
        args.load_dim = recipe.arithmetic == SPARGE_ARITHMETIC_INT8_F16 ? static_cast<int32_t>(prepared.v.shape[3])
                                                                        : prepared.padded_dim;
        args.q_scale = prepared.q_scale;
        args.k_scale = prepared.k_scale;
        args.scales = static_cast<attend_scales>(recipe.scales);
        args.q_scales = prepared.q_scales;
        args.k_scales = prepared.k_scales;
        args.q_scale_rows = recipe.block_q;
        args.k_scale_shift = recipe.block_k == 128 ? 1 : 0;
        args.k_scale_groups = recipe.scales == SPARGE_SCALES_THREAD ? 4 : 1;
        args.lse_offset = io->lse && recipe.smooth_k ? prepared.lse_offset : NULL;
    }
    if (recipe.arithmetic == SPARGE_ARITHMETIC_INT8_FP8) {
        args.v = {prepared.v8, 0, 0, 0};
        args.v_scale = prepared.v_scale;
        args.v_padded_keys = prepared.padded_keys;
        args.v_channels = prepared.padded_dim;
    }
    args.list = cuda->lists.list;
    args.count = cuda->lists.count;
    args.list_stride = cuda->lists.list_stride;
    args.order = cuda->lists.order;
    args.heads_together = heads_together(plan, args.row_blocks);
    args.queue = state->queue;
    args.lambda_log2 = state->lambda_log2;
    args.pv_unit = recipe.pv_unit > 0 ? recipe.pv_unit : recipe.block_q; /* parity mode also of methods without votes */
    args.pv_drop = recipe.skip_softmax_threshold > 0 || !recipe.pv_keeps_denominator;
    args.pv_skipped = &cuda->counts->pv_skipped;
    args.pv_guarded = guarded(recipe, problem.heads_q);
    args.pv_upstream = recipe.upstream;
    args.p_offset = recipe.upstream ? upstream_e4m3_offset : ATTEND_E4M3_OFFSET;
    args.sums_rounded = recipe.upstream;
    args.o_bf16 = problem.dtype == SPARGE_BF16;
    return args;
}

/* INT8 Q and K; V in tiles of 64 keys where it is FP8. */
sparge_status make_maps_8bit(const sparge_plan *plan, const attend_state *state, tensor_maps *maps)
{
    const sparge_problem &p = plan->problem;
    const cuda_prepared &prepared = cuda_plan_of(plan)->prepared;
    const int32_t dim = prepared.padded_dim;
    const int64_t heads_q = static_cast<int64_t>(p.batch) * p.heads_q,
                  heads_kv = static_cast<int64_t>(p.batch) * p.heads_kv;
    const tensor_planes q = {prepared.q8, dim, p.seqlen_q, heads_q, TENSOR_MAP_ROWS};
    const tensor_planes k = {prepared.k8, dim, p.seqlen_k, heads_kv, TENSOR_MAP_ROWS};
    const tensor_planes v = {prepared.v8, ATTEND_TILE_KEYS, prepared.padded_keys / ATTEND_TILE_KEYS * dim, heads_kv,
                             dim};
    sparge_status status = tensor_map_make_planes(plan->context, state->encoder, &q, "q8", &maps->q);
    if (status == SPARGE_OK)
        status = tensor_map_make_planes(plan->context, state->encoder, &k, "k8", &maps->k);
    if (status != SPARGE_OK)
        return status;
    return plan->recipe.arithmetic == SPARGE_ARITHMETIC_INT8_FP8
               ? tensor_map_make_planes(plan->context, state->encoder, &v, "v8", &maps->v)
               : tensor_map_make(plan->context, state->encoder, &prepared.v, "v", &maps->v);
}

sparge_status make_maps(const sparge_plan *plan, const attend_state *state, tensor_maps *maps)
{
    if (plan->recipe.arithmetic != SPARGE_ARITHMETIC_F16)
        return make_maps_8bit(plan, state, maps);
    const cuda_prepared &prepared = cuda_plan_of(plan)->prepared;
    sparge_status status = tensor_map_make(plan->context, state->encoder, &prepared.q, "q", &maps->q);
    if (status == SPARGE_OK)
        status = tensor_map_make(plan->context, state->encoder, &prepared.k, "k", &maps->k);
    return status == SPARGE_OK ? tensor_map_make(plan->context, state->encoder, &prepared.v, "v", &maps->v) : status;
}

unsigned grid_size(const sparge_plan *plan, const attend_state *state, const attend_args &args)
{
    const int64_t row_blocks = static_cast<int64_t>(args.row_blocks) * args.batch * args.heads_q,
                  resident = static_cast<int64_t>(state->kernel.persistent_ctas) *
                             cuda_context_of(plan->context)->properties.multiProcessorCount;
    return static_cast<unsigned>(resident > 0 && resident < row_blocks ? resident : row_blocks);
}

} // namespace

sparge_status cuda_attend_plan(sparge_plan *plan)
{
    const sparge_problem &problem = plan->problem;
    const sparge_recipe &recipe = plan->recipe;
    void *memory;
    sparge_status status = cuda_take_host(plan, sizeof(attend_state), &memory);
    if (status != SPARGE_OK)
        return status;
    attend_state *state = static_cast<attend_state *>(memory);
    cuda_plan_of(plan)->attend_state = state;
    const bool votes = recipe.upstream || cuda_skips_in_kernel(&recipe, problem.heads_q);
    /* Parity mode casts V to f16 where P V is in 16 bits. */
    const bool bf16 =
        problem.dtype == SPARGE_BF16 && !(recipe.upstream && recipe.arithmetic == SPARGE_ARITHMETIC_INT8_F16);
    /* Dense 16-bit attention has no mask and no scales: its row block is the kernel's choice. */
    const bool free_rows = recipe.select == SPARGE_SELECT_ALL && recipe.arithmetic == SPARGE_ARITHMETIC_F16 && !votes;
    const attend_kernel_key key = {recipe.arithmetic,
                                   bf16,
                                   problem.head_dim <= 64 ? 64 : 128,
                                   free_rows ? 0 : recipe.block_q,
                                   recipe.select != SPARGE_SELECT_ALL,
                                   recipe.block_k,
                                   recipe.exp,
                                   votes ? recipe.block_k : 0};
    state->kernel = choose_kernel(cuda_context_of(plan->context), key);
    if (!state->kernel.function && recipe.exp == SPARGE_EXP_FAST)
        return sparge_context_fail(plan->context, SPARGE_ERROR_UNSUPPORTED,
                                   "method %s: exp = fast: the cuda backend has it for INT8/FP8 without the PV skip, "
                                   "on compute capability 9.0",
                                   sparge_method_name(recipe.method));
    if (!state->kernel.function)
        return sparge_context_fail(plan->context, SPARGE_ERROR_INTERNAL, "no attention kernel for this plan");
    const int64_t blocks = (problem.seqlen_q + state->kernel.rows - 1) / state->kernel.rows;
    if (blocks * problem.batch * problem.heads_q > INT32_MAX)
        return sparge_context_fail(plan->context, SPARGE_ERROR_UNSUPPORTED,
                                   "batch * heads_q * row blocks = %lld: the cuda backend takes at most 2^31 - 1",
                                   static_cast<long long>(blocks * problem.batch * problem.heads_q));
    for (const void *function : {state->kernel.function, state->kernel.with_lse})
        if (status == SPARGE_OK && function)
            status = cuda_check(
                plan->context,
                cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, state->kernel.shared_bytes),
                "shared memory of the attention kernel");
    if (status == SPARGE_OK && state->kernel.tensor_maps)
        status = tensor_map_encoder(plan->context, &state->encoder);
    if (status == SPARGE_OK && state->kernel.persistent_ctas > 0) {
        status = cuda_take(plan, 2, sizeof *state->queue, &memory);
        state->queue = static_cast<uint32_t *>(memory);
    }
    return status == SPARGE_OK && votes ? take_lambda(plan, state) : status;
}

sparge_status cuda_attend_run(sparge_plan *plan, const sparge_io *io)
{
    const attend_state *state = static_cast<const attend_state *>(cuda_plan_of(plan)->attend_state);
    const cudaStream_t stream = cuda_context_of(plan->context)->stream;
    attend_args args = fill_arguments(plan, io, state);
    if (state->lambda_log2) {
        sparge_status status = cuda_check(
            plan->context, cudaMemsetAsync(args.pv_skipped, 0, sizeof *args.pv_skipped, stream), "clearing the counts");
        if (status != SPARGE_OK)
            return status;
    }
    tensor_maps maps;
    void *with_maps[] = {&maps, &args};
    void **parameters = with_maps + 1;
    if (state->encoder) {
        const sparge_status status = make_maps(plan, state, &maps);
        if (status != SPARGE_OK)
            return status;
        parameters = with_maps;
    }
    const void *function = io->lse && state->kernel.with_lse ? state->kernel.with_lse : state->kernel.function;
    const dim3 grid(grid_size(plan, state, args));
    return cuda_check(plan->context,
                      cudaLaunchKernel(function, grid, dim3(static_cast<unsigned>(state->kernel.threads)), parameters,
                                       static_cast<size_t>(state->kernel.shared_bytes), stream),
                      "launching the attention kernel");
}
