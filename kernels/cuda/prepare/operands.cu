/* Copies of Q, K and V with aligned rows, where the caller's are not.
 *
 * A thread writes one 16-byte chunk and reads its channels one by one. Traffic: the tensor read and written once; the
 * loads are narrow, but tensors that need this are rare. */
#include "operands.h"

#include "launch.cuh"

namespace
{

constexpr int threads = 256, chunk_channels = 8;

struct copy_args {
    const uint16_t *from;
    int64_t stride[3];                              /* elements */
    int64_t heads, tokens, channels, chunks, count; /* chunks of a row, in all */
    uint4 *to;
};

__global__ void __launch_bounds__(threads) copy_rows(const copy_args args)
{
    const int64_t index = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
    if (index >= args.count)
        return;
    const int64_t row = index / args.chunks, first = index % args.chunks * chunk_channels;
    const int64_t bh = row / args.tokens, token = row % args.tokens;
    const uint16_t *from = args.from + bh / args.heads * args.stride[0] + bh % args.heads * args.stride[1] +
                           token * args.stride[2] + first;
    uint32_t word[chunk_channels / 2];
    for (int i = 0; i < chunk_channels / 2; i++) {
        const uint32_t low = first + 2 * i < args.channels ? from[2 * i] : 0;
        const uint32_t high = first + 2 * i + 1 < args.channels ? from[2 * i + 1] : 0;
        word[i] = low | high << 16;
    }
    args.to[index] = make_uint4(word[0], word[1], word[2], word[3]);
}

int64_t padded_channels(const sparge_problem &problem)
{
    return (problem.head_dim + chunk_channels - 1) / chunk_channels * chunk_channels;
}

/* The tensor with strides of 0 along axes of extent 1: theirs are never used and may be anything. */
sparge_tensor used_strides(sparge_tensor x)
{
    for (int axis = 0; axis < 3; axis++)
        if (x.shape[axis] == 1)
            x.stride[axis] = 0;
    return x;
}

bool is_aligned(const sparge_tensor &x)
{
    const int64_t bits = x.shape[3] | x.stride[0] | x.stride[1] | x.stride[2];
    return reinterpret_cast<uintptr_t>(x.data) % 16 == 0 && bits % chunk_channels == 0;
}

sparge_status take_copy(sparge_plan *plan, int64_t heads, int64_t tokens, void **copy)
{
    const size_t rows = static_cast<size_t>(plan->problem.batch) * static_cast<size_t>(heads);
    size_t row_bytes;
    if (__builtin_mul_overflow(static_cast<size_t>(tokens), 2 * static_cast<size_t>(padded_channels(plan->problem)),
                               &row_bytes))
        return sparge_context_fail(plan->context, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for aligned copies");
    return cuda_take(plan, rows, row_bytes, copy);
}

sparge_status bind(sparge_plan *plan, const sparge_tensor &given, void **copy, sparge_tensor *bound)
{
    const sparge_tensor x = used_strides(given);
    if (is_aligned(x)) {
        *bound = x;
        return SPARGE_OK;
    }
    if (!*copy) {
        const sparge_status status = take_copy(plan, x.shape[1], x.shape[2], copy);
        if (status != SPARGE_OK)
            return status;
    }
    *bound = sparge_tensor_hnd(*copy, x.dtype, x.shape[0], x.shape[1], x.shape[2], padded_channels(plan->problem));
    copy_args args = {};
    args.from = static_cast<const uint16_t *>(x.data);
    for (int axis = 0; axis < 3; axis++)
        args.stride[axis] = x.stride[axis];
    args.heads = x.shape[1];
    args.tokens = x.shape[2];
    args.channels = x.shape[3];
    args.chunks = bound->shape[3] / chunk_channels;
    args.count = x.shape[0] * x.shape[1] * x.shape[2] * args.chunks;
    args.to = static_cast<uint4 *>(*copy);
    const int64_t ctas = (args.count + threads - 1) / threads;
    if (ctas > INT32_MAX)
        return sparge_context_fail(plan->context, SPARGE_ERROR_UNSUPPORTED,
                                   "a tensor of %lld rows that is not aligned to 16 bytes: the cuda backend copies at "
                                   "most 2^39 bytes",
                                   static_cast<long long>(args.count / args.chunks));
    return cuda_check(plan->context,
                      sparge::launch(copy_rows, ctas, threads, 0, cuda_context_of(plan->context)->stream, args),
                      "launching the copy to aligned rows");
}

} // namespace

sparge_status cuda_operands_plan(sparge_plan *plan, cuda_operand_copies *copies)
{
    const sparge_problem &p = plan->problem;
    if (p.head_dim % chunk_channels == 0)
        return SPARGE_OK;
    sparge_status status = take_copy(plan, p.heads_q, p.seqlen_q, &copies->q);
    if (status == SPARGE_OK)
        status = take_copy(plan, p.heads_kv, p.seqlen_k, &copies->k);
    return status == SPARGE_OK ? take_copy(plan, p.heads_kv, p.seqlen_k, &copies->v) : status;
}

sparge_status cuda_operands_run(sparge_plan *plan, cuda_operand_copies *copies, const sparge_io *io)
{
    cuda_prepared *prepared = &cuda_plan_of(plan)->prepared;
    sparge_status status = bind(plan, io->q, &copies->q, &prepared->q);
    if (status == SPARGE_OK)
        status = bind(plan, io->k, &copies->k, &prepared->k);
    return status == SPARGE_OK ? bind(plan, io->v, &copies->v, &prepared->v) : status;
}
