/* The select stage: what a recipe selects by, its memory, and its launches.
 *
 *   scores.cu     scores of all visible blocks       (into the memory of the lists)
 *   upstream.cu   parity mode: pooled rows -> mask   (and from there on as for a mask from a file)
 *   rows.cu       scores or mask -> mask, lists, counts
 *   order.cu      lengths of lists -> order of row blocks */
#include "select.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda.h"
#include "cuda/plan.h"

namespace
{

struct select_state {
    select_args args; /* but for prepare's arrays, which are taken after select's plan */
    order_args order;
    bool dense, upstream; /* upstream: parity mode, and the data decides */
};

int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

sparge_status take(sparge_plan *plan, int64_t count_a, int64_t count_b, size_t bytes, void **memory)
{
    size_t count;
    if (__builtin_mul_overflow(static_cast<size_t>(count_a), static_cast<size_t>(count_b), &count))
        return sparge_context_fail(plan->context, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for the select stage");
    return cuda_take(plan, count, bytes, memory);
}

sparge_status upload(sparge_plan *plan, void *to, const void *from, size_t bytes)
{
    sparge_context *context = plan->context;
    const cudaStream_t stream = cuda_context_of(context)->stream;
    if (plan->sizing)
        return SPARGE_OK;
    sparge_status status = cuda_check(context, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream),
                                      "copying the selection's parameters");
    if (status == SPARGE_OK) /* the host's copy may go away when this returns */
        status = cuda_check(context, cudaStreamSynchronize(stream), "copying the selection's parameters");
    return status;
}

/* The rule, with a device copy of its parameters by head. */
sparge_status set_rule(sparge_plan *plan, select_args *args)
{
    const sparge_recipe &recipe = plan->recipe;
    const size_t heads = static_cast<size_t>(plan->problem.heads_q);
    if (recipe.select == SPARGE_SELECT_MASK) {
        args->rule = SELECT_FROM_MASK;
        return SPARGE_OK;
    }
    if (recipe.select == SPARGE_SELECT_POOLED_TOPK) {
        args->rule = recipe.pooled.use_sparsity ? SELECT_BY_SPARSITY : SELECT_BY_COUNT;
        args->count = recipe.pooled.k;
        args->kept = 1.0 - recipe.pooled.sparsity;
        args->scale = 1;
        return SPARGE_OK;
    }
    args->rule = recipe.meansim.use_topk ? SELECT_BY_SHARE : SELECT_BY_MASS;
    args->scale = recipe.upstream ? 1.0f / sqrtf(static_cast<float>(args->head_dim)) /* whatever the caller's is */
                                  : sparge_problem_scale(&plan->problem);
    args->sink = recipe.meansim.sink;
    void *host, *device;
    sparge_status status = cuda_take_host(plan, heads * (sizeof(double) + sizeof(float)), &host);
    if (status == SPARGE_OK)
        status = cuda_take(plan, heads, sizeof(double) + sizeof(float), &device);
    if (status != SPARGE_OK)
        return status;
    double *share = static_cast<double *>(host);
    float *theta = reinterpret_cast<float *>(share + heads);
    for (int32_t h = 0; h < plan->problem.heads_q; h++) {
        share[h] = sparge_per_head_value(recipe.meansim.use_topk ? &recipe.meansim.topk : &recipe.meansim.tau, h);
        theta[h] = static_cast<float>(sparge_per_head_value(&recipe.meansim.theta, h));
    }
    args->share = static_cast<double *>(device);
    if (recipe.meansim.use_theta)
        args->theta = reinterpret_cast<const float *>(args->share + heads);
    return upload(plan, device, host, heads * (sizeof(double) + sizeof(float)));
}

sparge_status take_lists(sparge_plan *plan, select_state *state)
{
    cuda_lists *lists = &cuda_plan_of(plan)->lists;
    select_args &args = state->args;
    void *mask, *list, *count, *order;
    sparge_status status = take(plan, args.row_blocks, args.cols, 1, &mask);
    if (status == SPARGE_OK)
        status = take(plan, args.row_blocks, args.list_stride, sizeof(int32_t), &list);
    if (status == SPARGE_OK)
        status = take(plan, args.row_blocks, 1, sizeof(int32_t), &count);
    if (status == SPARGE_OK)
        status = take(plan, args.row_blocks, 1, sizeof(int32_t), &order);
    if (status != SPARGE_OK)
        return status;
    lists->mask = args.mask = static_cast<uint8_t *>(mask);
    lists->list = args.list = static_cast<int32_t *>(list);
    lists->count = args.list_count = static_cast<int32_t *>(count);
    lists->order = static_cast<int32_t *>(order);
    lists->list_stride = args.list_stride;
    state->order = {args.list_count, lists->order, args.row_blocks, cuda_heads_in_cache(plan) * args.rows, args.tiles};
    return SPARGE_OK;
}

/* Blocks without a visible pair are never computed, whatever the file says. A file with one batch or head entry serves
 * them all. */
void fill_mask(const sparge_block_mask &file, const sparge_problem &p, const select_args &args, uint8_t *mask)
{
    for (int64_t r = 0; r < args.row_blocks; r++) {
        const int64_t row = r % args.rows, bh = r / args.rows;
        const int64_t batch = file.batch == 1 ? 0 : bh / p.heads_q, head = file.heads == 1 ? 0 : bh % p.heads_q;
        const uint8_t *from = file.value + ((batch * file.heads + head) * file.rows + row) * file.cols;
        const int64_t visible = select_visible_cols(args, row);
        for (int64_t col = 0; col < visible; col++)
            mask[r * args.cols + col] = from[col] != 0;
    }
}

sparge_status upload_mask(sparge_plan *plan, const select_args &args)
{
    sparge_context *context = plan->context;
    sparge_block_mask file = {};
    sparge_status status = sparge_block_mask_read(&file, plan->recipe.mask.path, plan->recipe.block_q,
                                                  plan->recipe.block_k, &context->error);
    if (status == SPARGE_OK)
        status = sparge_block_mask_check(&file, &plan->problem, &context->error);
    if (status == SPARGE_OK && !plan->sizing) {
        const size_t bytes = static_cast<size_t>(args.row_blocks) * static_cast<size_t>(args.cols);
        uint8_t *mask = static_cast<uint8_t *>(calloc(bytes, 1));
        if (mask) {
            fill_mask(file, plan->problem, args, mask);
            status = upload(plan, args.mask, mask, bytes);
        } else {
            status = sparge_context_fail(context, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for a mask of %zu bytes",
                                         bytes);
        }
        free(mask);
    }
    sparge_block_mask_release(&file);
    return status;
}

void set_shape(const sparge_plan *plan, select_args *args)
{
    const sparge_problem &p = plan->problem;
    cuda_counts *counts = cuda_plan_of(plan)->counts;
    args->heads_q = p.heads_q;
    args->heads_kv = p.heads_kv;
    args->head_dim = p.head_dim;
    args->block_q = plan->recipe.block_q;
    args->block_k = plan->recipe.block_k;
    args->rows = ceil_div(p.seqlen_q, args->block_q);
    args->cols = ceil_div(p.seqlen_k, args->block_k);
    args->row_blocks = args->rows * p.batch * p.heads_q;
    args->seqlen_q = p.seqlen_q;
    args->seqlen_k = p.seqlen_k;
    args->causal_shift = cuda_causal_shift(&p);
    args->tiles = static_cast<int32_t>(ceil_div(p.seqlen_k, ATTEND_TILE_KEYS));
    args->list_stride = ceil_div(args->tiles, 4) * 4;
    args->visible = &counts->visible;
    args->qk = &counts->qk;
    args->extra = &counts->extra;
    for (int64_t row = 0; row < args->rows; row++)
        args->visible_blocks += static_cast<unsigned long long>(select_visible_cols(*args, row));
    args->visible_blocks *= static_cast<unsigned long long>(p.batch) * static_cast<unsigned long long>(p.heads_q);
}

sparge_status check_limits(const sparge_plan *plan, const select_args &args)
{
    if (args.cols > SELECT_MOST_COLS)
        return sparge_context_fail(plan->context, SPARGE_ERROR_UNSUPPORTED,
                                   "%lld keys in blocks of %d: the cuda backend selects among at most %d blocks",
                                   static_cast<long long>(args.seqlen_k), args.block_k, SELECT_MOST_COLS);
    const int64_t score_tiles = ceil_div(args.rows, SELECT_TILE) * ceil_div(args.cols, SELECT_TILE);
    const int64_t heads = args.row_blocks / args.rows;
    if (args.row_blocks > INT32_MAX || score_tiles > INT32_MAX / heads)
        return sparge_context_fail(plan->context, SPARGE_ERROR_UNSUPPORTED,
                                   "batch * heads_q * row blocks = %lld: the cuda backend takes at most 2^31 - 1",
                                   static_cast<long long>(args.row_blocks));
    return SPARGE_OK;
}

} // namespace

sparge_status cuda_select_plan(sparge_plan *plan)
{
    void *memory;
    sparge_status status = cuda_take_host(plan, sizeof(select_state), &memory);
    if (status != SPARGE_OK)
        return status;
    select_state *state = static_cast<select_state *>(memory);
    cuda_plan_of(plan)->select_state = state;
    set_shape(plan, &state->args);
    state->dense = plan->recipe.select == SPARGE_SELECT_ALL;
    if (state->dense)
        return SPARGE_OK;
    status = check_limits(plan, state->args);
    if (status == SPARGE_OK)
        status = set_rule(plan, &state->args);
    if (status == SPARGE_OK)
        status = take_lists(plan, state);
    if (status != SPARGE_OK)
        return status;
    state->upstream = plan->recipe.upstream && state->args.rule != SELECT_FROM_MASK;
    return state->args.rule == SELECT_FROM_MASK ? upload_mask(plan, state->args) : SPARGE_OK;
}

sparge_status cuda_select_run(sparge_plan *plan, const sparge_io *io)
{
    (void)io; /* Q and K are seen through their pools only */
    const select_state *state = static_cast<const select_state *>(cuda_plan_of(plan)->select_state);
    const cuda_prepared &prepared = cuda_plan_of(plan)->prepared;
    sparge_context *context = plan->context;
    const cudaStream_t stream = cuda_context_of(context)->stream;
    select_args args = state->args;
    if (state->dense)
        return cuda_check(context, select_launch_counts(args, args.visible_blocks, stream),
                          "launching the block counts");
    args.q_pool = prepared.q_pool;
    args.k_pool = prepared.k_pool;
    args.q_sim = prepared.q_sim;
    args.k_sim = prepared.k_sim;
    sparge_status status =
        args.rule == SELECT_FROM_MASK || state->upstream
            ? cuda_check(context, select_launch_counts(args, 0, stream), "launching the block counts")
            : cuda_check(context, select_launch_scores(args, stream), "launching the scores kernel");
    if (status == SPARGE_OK && state->upstream) {
        status = cuda_check(context, select_launch_upstream(args, plan->problem.dtype == SPARGE_BF16, stream),
                            "launching the parity mode's selection");
        args.rule = SELECT_FROM_MASK;
    }
    if (status == SPARGE_OK)
        status = cuda_check(context, select_launch_rows(args, stream), "launching the selection of blocks");
    if (status == SPARGE_OK)
        status = cuda_check(context, select_launch_order(state->order, stream), "launching the order of row blocks");
    return status;
}
