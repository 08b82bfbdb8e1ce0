/* Copies a tensor with its tokens in another order: to[b, h, i, :] = from[b, h, source[i], :].
 *
 * A thread copies one word of a row; consecutive threads copy consecutive words, so a row of 128 channels of 16 bits is
 * 16 threads with words of 16 bytes. Traffic: every row read and written once, and `source` once a head. */
#include "cuda/permute.h"

#include "cuda/memory.h"

namespace
{

constexpr int threads = 256;

/* A tensor's rows in words. */
struct rows_view {
    char *data;
    int64_t stride[3]; /* bytes from one batch, head, token to the next */
};

struct permute_args {
    rows_view from, to;
    const int64_t *source;
    int64_t heads, tokens, words, count; /* words of a row; words in all */
};

template <typename Word> __global__ void __launch_bounds__(threads) permute_kernel(const permute_args args)
{
    const int64_t index = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
    if (index >= args.count)
        return;
    const int64_t row = index / args.words, word = index % args.words;
    const int64_t bh = row / args.tokens, token = row % args.tokens;
    const int64_t batch = bh / args.heads, head = bh % args.heads;
    const char *from = args.from.data + batch * args.from.stride[0] + head * args.from.stride[1] +
                       args.source[token] * args.from.stride[2];
    char *to = args.to.data + batch * args.to.stride[0] + head * args.to.stride[1] + token * args.to.stride[2];
    reinterpret_cast<Word *>(to)[word] = reinterpret_cast<const Word *>(from)[word];
}

rows_view view(const sparge_tensor *tensor)
{
    const int64_t size = static_cast<int64_t>(sparge_dtype_bytes(tensor->dtype));
    rows_view rows = {static_cast<char *>(tensor->data), {}};
    for (int axis = 0; axis < 3; axis++) /* the stride of an axis of one is never used and may be anything */
        rows.stride[axis] = tensor->shape[axis] > 1 ? tensor->stride[axis] * size : 0;
    return rows;
}

/* The widest word that divides every address of both tensors, and a row. */
int64_t word_bytes(const permute_args &args, int64_t row_bytes)
{
    uint64_t bits = static_cast<uint64_t>(row_bytes);
    for (const rows_view *rows : {&args.from, &args.to}) {
        bits |= reinterpret_cast<uintptr_t>(rows->data);
        for (int64_t stride : rows->stride)
            bits |= static_cast<uint64_t>(stride);
    }
    return bits % 16 == 0 ? 16 : bits % 8 == 0 ? 8 : bits % 4 == 0 ? 4 : 2;
}

cudaError_t launch(const permute_args &args, int64_t bytes, cudaStream_t stream)
{
    const int64_t blocks = (args.count + threads - 1) / threads; /* below 2^31: memory has less than 2^40 words */
    const dim3 grid(static_cast<unsigned>(blocks));
    if (bytes == 16)
        permute_kernel<uint4><<<grid, threads, 0, stream>>>(args);
    else if (bytes == 8)
        permute_kernel<uint2><<<grid, threads, 0, stream>>>(args);
    else if (bytes == 4)
        permute_kernel<uint32_t><<<grid, threads, 0, stream>>>(args);
    else
        permute_kernel<uint16_t><<<grid, threads, 0, stream>>>(args);
    return cudaGetLastError();
}

} // namespace

cudaError_t cuda_permute_probe(int *arch)
{
    cudaFuncAttributes attributes = {};
    const cudaError_t code = cudaFuncGetAttributes(&attributes, permute_kernel<uint4>);
    *arch = attributes.binaryVersion;
    return code;
}

sparge_status cuda_permute(sparge_context *context, const sparge_tensor *from, const sparge_tensor *to,
                           const int64_t *source)
{
    static const char what[] = "permuting tokens";
    const cudaStream_t stream = cuda_context_of(context)->stream;
    const int64_t row_bytes = from->shape[3] * static_cast<int64_t>(sparge_dtype_bytes(from->dtype));
    permute_args args = {view(from), view(to), nullptr, from->shape[1], from->shape[2], 0, 0};
    const int64_t bytes = word_bytes(args, row_bytes);
    args.words = row_bytes / bytes;
    args.count = from->shape[0] * args.heads * args.tokens * args.words;
    const size_t order_bytes = static_cast<size_t>(args.tokens) * sizeof *source;
    void *order;
    sparge_status status = cuda_allocate(context, what, order_bytes, &order);
    if (status != SPARGE_OK)
        return status;
    args.source = static_cast<const int64_t *>(order);
    status = cuda_check(context, cudaMemcpyAsync(order, source, order_bytes, cudaMemcpyHostToDevice, stream), what);
    if (status == SPARGE_OK)
        status = cuda_check(context, launch(args, bytes, stream), what);
    if (status == SPARGE_OK)
        status = cuda_check(context, cudaStreamSynchronize(stream), what);
    cuda_deallocate(order);
    return status;
}
