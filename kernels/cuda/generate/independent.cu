/* Independent numbers: one Philox block, four channels of a row, a thread. The tensor is dense, so consecutive threads
 * write consecutive memory. Traffic: every element written once. */
#include "cuda/generate/generate.h"
#include "cuda/generate/store.cuh"
#include "cuda/memory.h"

namespace
{

constexpr int threads = 256;

struct independent_args {
    void *out; /* dense rows */
    uint64_t seed;
    generate_stream stream;
    int64_t heads, tokens;
    int64_t count; /* threads in all: rows * groups */
    int32_t channels, groups;
};

template <typename T, bool Uniform> __global__ void __launch_bounds__(threads) independent_kernel(independent_args args)
{
    const int64_t index = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
    if (index >= args.count)
        return;
    const int64_t row = index / args.groups;
    const int group = static_cast<int>(index % args.groups);
    const int64_t bh = row / args.tokens, token = row % args.tokens;
    const philox_words random = generate_words(args.seed, args.stream, bh / args.heads, bh % args.heads, token, group);
    T *out = static_cast<T *>(args.out) + row * args.channels + group * 4;
    const int left = args.channels - group * 4;
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (i < left)
            out[i] = sparge::generate::rounded<T>(Uniform ? uniform_from_bits(random.word[i])
                                                          : normal_from_bits(random.word[i]));
}

template <typename T> void launch(const independent_args &args, bool uniform, cudaStream_t stream)
{
    const dim3 grid(static_cast<unsigned>((args.count + threads - 1) / threads));
    if (uniform)
        independent_kernel<T, true><<<grid, threads, 0, stream>>>(args);
    else
        independent_kernel<T, false><<<grid, threads, 0, stream>>>(args);
}

} // namespace

sparge_status cuda_generate_independent(sparge_context *context, const sparge_generator *generator,
                                        sparge_tensor_role role, const sparge_tensor *tensor)
{
    const cudaStream_t stream = cuda_context_of(context)->stream;
    const bool uniform = generator->kind == SPARGE_GENERATE_UNIFORM;
    independent_args args = {};
    args.out = tensor->data;
    args.seed = generator->seed;
    args.stream = generate_stream_of(role);
    args.heads = tensor->shape[1];
    args.tokens = tensor->shape[2];
    args.channels = static_cast<int32_t>(tensor->shape[3]);
    args.groups = (args.channels + 3) / 4;
    args.count = tensor->shape[0] * args.heads * args.tokens * args.groups;
    if (tensor->dtype == SPARGE_F32)
        launch<float>(args, uniform, stream);
    else if (tensor->dtype == SPARGE_F16)
        launch<__half>(args, uniform, stream);
    else
        launch<__nv_bfloat16>(args, uniform, stream);
    const sparge_status status = cuda_check(context, cudaGetLastError(), "launching the generator");
    return status == SPARGE_OK ? cuda_check(context, cudaStreamSynchronize(stream), "generating") : status;
}
