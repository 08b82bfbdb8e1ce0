/* Prepare in parity mode: the bits of the official code, by way of kernels/cpu/prepare (pool.h, quantise.h and fp8.h
 * say what is rounded where). Written to be read beside those files: plain kernels, one output each, divisions as
 * divisions.
 *
 *   find_mean     one CTA a KV head       K -> k_mean
 *   pool_block    one CTA a block         a block of Q or K -> its mean and its self-similarity
 *   quantise      one CTA a block         a block of Q or K -> INT8 and its scale
 *   round_v       one CTA a KV head       V -> FP8 and the scales of its channels
 *   copy_v        one CTA a token         bf16 V -> f16
 *
 * A thread is a channel everywhere; those from head_dim on hold zeros. Every operation is rounded on its own. */
#include "upstream.h"

#include <cuda_fp8.h>

#include "launch.cuh"
#include "numbers.cuh"
#include "round.cuh"

namespace
{

using sparge::round_16;
using sparge::prepare::unpack;

constexpr int channels = 128, most_rows = 128; /* of a block */

template <typename T> __device__ float element(const prepare_tensor &x, int64_t head, int64_t token, int channel)
{
    const uint16_t *row =
        x.data + head / x.heads * x.batch_stride + head % x.heads * x.head_stride + token * x.token_stride;
    return unpack<T>(row[channel]).x;
}

/* An element of Q, or of K minus its mean, which is rounded to 16 bits; 0 where there is none. */
template <typename T>
__device__ float centred(const prepare_side &side, int head_dim, int64_t head, int64_t token, int channel)
{
    if (channel >= head_dim || token >= side.x.tokens)
        return 0;
    const float x = element<T>(side.x, head, token, channel);
    return side.center ? round_16<T>(__fsub_rn(x, side.center[head * head_dim + channel])) : x;
}

/* ---- K's mean ---- */

template <typename T> __global__ void __launch_bounds__(channels) find_mean(const upstream_prepare_args args)
{
    const int64_t head = blockIdx.x;
    const int channel = static_cast<int>(threadIdx.x);
    const prepare_tensor &k = args.of.k.x;
    if (channel >= args.of.head_dim)
        return;
    double total = 0;
    for (int64_t begin = 0; begin < k.tokens; begin += PREPARE_CHUNK) {
        double lane[PREPARE_LANES] = {};
        for (int i = 0; i < PREPARE_CHUNK && begin + i < k.tokens; i++)
            lane[i % PREPARE_LANES] += static_cast<double>(element<T>(k, head, begin + i, channel));
        for (int half = PREPARE_LANES / 2; half >= 1; half /= 2)
            for (int r = 0; r < half; r++)
                lane[r] += lane[r + half];
        total += lane[0];
    }
    const float mean = __double2float_rn(__ddiv_rn(total, static_cast<double>(k.tokens)));
    args.of.k_mean[head * args.of.head_dim + channel] = round_16<T>(mean);
}

/* ---- Block means and self-similarity ---- */

/* The sum of x * x over the CTA's threads, neighbours first. */
__device__ float sum_squares(float x)
{
    __shared__ float of_warp[channels / 32];
    float sum = __fmul_rn(x, x);
    for (int distance = 1; distance < 32; distance *= 2)
        sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, distance));
    __syncthreads(); /* the last call's sums have been read */
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    return __fadd_rn(__fadd_rn(of_warp[0], of_warp[1]), __fadd_rn(of_warp[2], of_warp[3]));
}

/* The sum of `rows` terms, a power of two: the upper half is added to the lower one until one is left. */
__device__ float sum_rows(float *term, int rows)
{
    for (int half = rows / 2; half >= 1; half /= 2)
        for (int t = 0; t < half; t++)
            term[t] = __fadd_rn(term[t], term[t + half]);
    return term[0];
}

template <typename T>
__global__ void __launch_bounds__(channels)
    pool_block(const upstream_prepare_args args, const __grid_constant__ prepare_side side)
{
    const int64_t head = blockIdx.x / side.blocks, begin = blockIdx.x % side.blocks * static_cast<int64_t>(side.block);
    const int channel = static_cast<int>(threadIdx.x), head_dim = args.of.head_dim;
    const int64_t left = side.x.tokens - begin;
    const int count = left < side.block ? static_cast<int>(left) : side.block;
    float x[most_rows];
    for (int t = 0; t < side.block; t++)
        x[t] = centred<T>(side, head_dim, head, begin + t, channel);
    const float sum = sum_rows(x, side.block);
    if (channel < head_dim)
        side.pool[static_cast<int64_t>(blockIdx.x) * head_dim + channel] =
            round_16<T>(__fdiv_rn(sum, static_cast<float>(args.whole_divisor ? side.block : count)));
    if (!side.sim)
        return;
    for (int t = 0; t < side.block; t++)
        x[t] = centred<T>(side, head_dim, head, begin + t, channel);
    for (int t = 0; t < count; t++) { /* units are f16 whatever the input; a row of zeros gives NaN */
        const float length = __fsqrt_rn(sum_squares(x[t]));
        x[t] = channel < head_dim ? round_16<__half>(__fdiv_rn(x[t], length)) : 0;
    }
    const float similarity = __fdiv_rn(sum_squares(sum_rows(x, side.block)), static_cast<float>(count * count));
    if (channel == 0)
        side.sim[blockIdx.x] = similarity;
}

/* ---- INT8 ---- */

/* trunc(x / scale + 0.5 sign(x)); the limits are for NaN and infinity. */
__device__ int8_t quantised(float x, float scale)
{
    const float rounded = __fadd_rn(__fdiv_rn(x, scale), x < 0 ? -0.5f : 0.5f);
    return static_cast<int8_t>(__float2int_rz(rounded < 128.0f ? (rounded > -128.0f ? rounded : -128.0f) : 127.0f));
}

template <typename T>
__global__ void __launch_bounds__(channels)
    quantise(const upstream_prepare_args args, const __grid_constant__ prepare_side side)
{
    const int64_t head = blockIdx.x / side.blocks, begin = blockIdx.x % side.blocks * static_cast<int64_t>(side.block);
    const int64_t end = begin + side.block < side.x.tokens ? begin + side.block : side.x.tokens;
    const int channel = static_cast<int>(threadIdx.x), head_dim = args.of.head_dim, padded = head_dim <= 64 ? 64 : 128;
    /* Magnitudes as integers, in which NaN is above infinity: it makes the scale NaN, and the output shows it. */
    __shared__ unsigned largest;
    if (channel == 0)
        largest = 0;
    __syncthreads();
    for (int64_t token = begin; token < end; token++)
        atomicMax(&largest, __float_as_uint(fabsf(centred<T>(side, head_dim, head, token, channel))));
    __syncthreads();
    const float scale = __fmaf_rn(__uint_as_float(largest), 1.0f / 127.0f, 1e-7f);
    if (channel == 0)
        side.scale[head * side.scales + blockIdx.x % side.blocks] = scale;
    for (int64_t token = begin; token < end && channel < padded; token++)
        side.x8[(head * side.x.tokens + token) * padded + channel] =
            channel < head_dim ? quantised(centred<T>(side, head_dim, head, token, channel), scale) : 0;
}

/* ---- V ---- */

/* The official code casts V to f16 before anything else. */
template <typename T> __device__ float v_element(const prepare_tensor &v, int64_t head, int64_t token, int channel)
{
    return round_16<__half>(element<T>(v, head, token, channel));
}

/* Where the attention kernels expect a key of v8: cuda_prepared in cuda.h. */
__device__ int64_t v8_place(const prepare_args &args, int padded_dim, int64_t head, int channel, int64_t key)
{
    const int64_t in_group = 4 * (key % 8 / 2) + 2 * (key % 16 / 8) + key % 2;
    const int64_t tile = head * (args.padded_keys / 64) + key / 64;
    return (tile * padded_dim + channel) * 64 + key % 64 / 16 * 16 + in_group;
}

template <typename T> __global__ void __launch_bounds__(channels) round_v(const upstream_prepare_args args)
{
    const int64_t head = blockIdx.x;
    const prepare_args &of = args.of;
    const int channel = static_cast<int>(threadIdx.x), padded = of.head_dim <= 64 ? 64 : 128;
    const bool exists = channel < of.head_dim;
    if (channel >= padded)
        return;
    float most = of.v_tiny;
    for (int64_t token = 0; exists && token < of.v.tokens; token++)
        most = fmaxf(most, fabsf(v_element<T>(of.v, head, token, channel))); /* passes over NaN */
    of.v_scale[head * padded + channel] = exists ? __fmul_rn(most, of.v_max_inverse) : 0;
    const float factor = __fdiv_rn(of.v_max, most);
    for (int64_t key = 0; key < of.padded_keys; key++) {
        const float v = exists && key < of.v.tokens ? __fmul_rn(v_element<T>(of.v, head, key, channel), factor) : 0.0f;
        of.v8[v8_place(of, padded, head, channel, key)] = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
    }
}

__global__ void __launch_bounds__(channels) copy_v(const upstream_prepare_args args)
{
    const int64_t head = blockIdx.x / args.of.v.tokens, token = blockIdx.x % args.of.v.tokens;
    const int channel = static_cast<int>(threadIdx.x);
    if (channel >= args.v16_channels)
        return;
    const float v = channel < args.of.head_dim ? v_element<__nv_bfloat16>(args.of.v, head, token, channel) : 0;
    args.v16[static_cast<int64_t>(blockIdx.x) * args.v16_channels + channel] = __half_as_ushort(__float2half_rn(v));
}

/* ---- Launches ---- */

cudaError_t launch_side(void (*kernel)(upstream_prepare_args, prepare_side), const upstream_prepare_args &args,
                        const prepare_side &side, cudaStream_t stream)
{
    const int64_t batch = args.of.schedule.heads / args.of.k.x.heads, heads = batch * side.x.heads;
    upstream_prepare_args first = args;
    prepare_side second = side;
    void *parameters[] = {&first, &second};
    return cudaLaunchKernel(reinterpret_cast<const void *>(kernel), dim3(static_cast<unsigned>(heads * side.blocks)),
                            dim3(channels), parameters, 0, stream);
}

template <typename T> cudaError_t launch_all(const upstream_prepare_args &args, cudaStream_t stream)
{
    const prepare_args &of = args.of;
    cudaError_t error = cudaSuccess;
    if (of.k_mean)
        error = sparge::launch(find_mean<T>, of.schedule.heads, channels, 0, stream, args);
    for (int i = 0; i < 2; i++) {
        const prepare_side &side = i == 0 ? of.q : of.k;
        if (error == cudaSuccess && side.pool)
            error = launch_side(pool_block<T>, args, side, stream);
        if (error == cudaSuccess && side.x8)
            error = launch_side(quantise<T>, args, side, stream);
    }
    if (error == cudaSuccess && of.v8)
        error = sparge::launch(round_v<T>, of.schedule.heads, channels, 0, stream, args);
    if (error == cudaSuccess && args.v16)
        error = sparge::launch(copy_v, of.schedule.heads * of.v.tokens, channels, 0, stream, args);
    return error;
}

} // namespace

cudaError_t upstream_prepare_launch(const upstream_prepare_args &args, cudaStream_t stream)
{
    return args.bf16 ? launch_all<__nv_bfloat16>(args, stream) : launch_all<__half>(args, stream);
}
