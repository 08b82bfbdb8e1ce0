/* What the other tiles wait for: K's token mean and V's channel maxima.
 *
 * A CTA takes PREPARE_CHUNK tokens of one head (two such chunks at D = 64) and leaves a partial sum or maximum per
 * channel. The last CTA of a head to arrive, told by a counter, combines the partials and raises the head's flag; tiles
 * of that head wait for the flag. The sum is kernels/cpu/prepare/smooth.h's: thread (chunk, slot) is lane slot mod 8. */
#ifndef SPARGE_CUDA_PREPARE_STATS_CUH
#define SPARGE_CUDA_PREPARE_STATS_CUH

#include "slab.cuh"

namespace sparge::prepare
{

constexpr int passes = PREPARE_CHUNK / (PREPARE_LANES * rows_of_thread); /* slabs of a chunk: 2 */

template <int D> struct stats_shared {
    float sum[slab_shape<D>::slots * D];
    float max[slab_shape<D>::slots * D];
    unsigned last;
};

/* True in the CTA that arrives last of `expected`; it then sees what all others wrote before. A fence by one thread is
 * enough: the barrier orders the others' writes before it. */
__device__ __forceinline__ bool arrives_last(unsigned *arrived, unsigned expected, unsigned &last)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(arrived, 1u) == expected - 1;
        __threadfence();
    }
    __syncthreads();
    return last != 0;
}

__device__ __forceinline__ void raise_flag(unsigned *flag)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicExch(flag, 1u);
    }
}

__device__ __forceinline__ unsigned load_acquire(const unsigned *from)
{
#ifdef __CUDA_ARCH__
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
#else
    return *from;
#endif
}

/* Until the flag is raised. All threads of the CTA call it. */
__device__ __forceinline__ void wait_for_flag(const unsigned *flag)
{
    if (threadIdx.x == 0)
        while (load_acquire(flag) == 0)
            __nanosleep(40);
    __syncthreads();
}

/* Adds up a column of partials in the order of the chunks. */
template <typename Value, typename Add>
__device__ __forceinline__ Value combine(const float *partial, int64_t stride, int chunks, Value value, Add add)
{
    constexpr int batch = 16; /* loads in flight */
    for (int chunk = 0; chunk < chunks; chunk += batch) {
        float term[batch];
#pragma unroll
        for (int i = 0; i < batch; i++)
            if (chunk + i < chunks)
                term[i] = __ldcg(partial + (chunk + i) * stride);
#pragma unroll
        for (int i = 0; i < batch; i++)
            if (chunk + i < chunks)
                value = add(value, term[i]);
    }
    return value;
}

/* The rows of pass p of a thread: tokens lane, lane + 8, ... of its chunk. */
template <int D> struct stats_place {
    int chunk, slot, lane; /* 16-byte chunk of the row; slot; lane of the sum */
    int64_t part;          /* chunk of tokens */
    __device__ __forceinline__ explicit stats_place(int index)
    {
        using S = slab_shape<D>;
        chunk = static_cast<int>(threadIdx.x) % S::chunks;
        slot = static_cast<int>(threadIdx.x) / S::chunks;
        lane = slot % PREPARE_LANES;
        part = static_cast<int64_t>(index) * (S::slots / PREPARE_LANES) + slot / PREPARE_LANES;
    }
    __device__ __forceinline__ void load(slab &data, const prepare_tensor &x, uint32_t head, int load_chunks,
                                         int pass) const
    {
        const int64_t first = part * PREPARE_CHUNK + pass * (PREPARE_CHUNK / passes) + lane;
        load_slab(data, head_of(x, head) + first * x.token_stride + chunk * 8, PREPARE_LANES * x.token_stride,
                  chunk < load_chunks ? rows_below(x.tokens, first, PREPARE_LANES) : 0, load_keeping());
    }
};

template <typename T, int D>
__device__ __forceinline__ void k_stats(const prepare_args &args, uint32_t head, int index, stats_shared<D> &shared)
{
    using S = slab_shape<D>;
    const stats_place<D> at(index);
    float sum[8] = {};
#pragma unroll 1
    for (int pass = 0; pass < passes; pass++) {
        slab data;
        at.load(data, args.k.x, head, args.load_chunks, pass);
#pragma unroll
        for (int a = 0; a < rows_of_thread; a++) {
            float x[8];
            unpack<T>(x, data.row[a]);
#pragma unroll
            for (int i = 0; i < 8; i++)
                sum[i] = __fadd_rn(sum[i], x[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        shared.sum[at.slot * D + at.chunk * 8 + i] = sum[i];
    __syncthreads();
    float *partial = args.k_partial + static_cast<int64_t>(head) * args.chunks * D;
    for (int i = static_cast<int>(threadIdx.x); i < S::slots / PREPARE_LANES * D; i += threads) {
        const int64_t part = static_cast<int64_t>(index) * (S::slots / PREPARE_LANES) + i / D;
        const float *lane = shared.sum + i / D * PREPARE_LANES * D + i % D;
        float half[4];
        for (int r = 0; r < 4; r++)
            half[r] = __fadd_rn(lane[r * D], lane[(r + 4) * D]);
        if (part < args.chunks)
            partial[part * D + i % D] = __fadd_rn(__fadd_rn(half[0], half[2]), __fadd_rn(half[1], half[3]));
    }
    if (!arrives_last(args.k_arrived + head, static_cast<unsigned>(args.schedule.k_stats), shared.last))
        return;
    const int channel = static_cast<int>(threadIdx.x);
    if (channel < args.head_dim) {
        const double total = combine(partial + channel, D, args.chunks, 0.0,
                                     [](double a, float b) { return __dadd_rn(a, static_cast<double>(b)); });
        args.k_mean[static_cast<int64_t>(head) * args.head_dim + channel] =
            __double2float_rn(__ddiv_rn(total, static_cast<double>(args.k.x.tokens)));
    }
    raise_flag(args.k_ready + head);
}

/* NaN is passed over here; it stays NaN in v8. */
template <typename T, int D>
__device__ __forceinline__ void v_stats(const prepare_args &args, uint32_t head, int index, stats_shared<D> &shared)
{
    using S = slab_shape<D>;
    const stats_place<D> at(index);
    using pair = typename pair_of<T>::type;
    uint4 most = make_uint4(0, 0, 0, 0);
#pragma unroll 1
    for (int pass = 0; pass < passes; pass++) {
        slab data;
        at.load(data, args.v, head, args.load_chunks, pass);
#pragma unroll
        for (int a = 0; a < rows_of_thread; a++) {
            most.x = max_magnitudes_of_numbers<pair>(most.x, data.row[a].x);
            most.y = max_magnitudes_of_numbers<pair>(most.y, data.row[a].y);
            most.z = max_magnitudes_of_numbers<pair>(most.z, data.row[a].z);
            most.w = max_magnitudes_of_numbers<pair>(most.w, data.row[a].w);
        }
    }
    float max[8];
    unpack<T>(max, most);
#pragma unroll
    for (int i = 0; i < 8; i++)
        shared.max[at.slot * D + at.chunk * 8 + i] = max[i];
    __syncthreads();
    float *partial = args.v_partial + static_cast<int64_t>(head) * args.chunks * D;
    for (int i = static_cast<int>(threadIdx.x); i < S::slots / PREPARE_LANES * D; i += threads) {
        const int64_t part = static_cast<int64_t>(index) * (S::slots / PREPARE_LANES) + i / D;
        float most = 0;
        for (int r = 0; r < PREPARE_LANES; r++)
            most = fmaxf(most, shared.max[(i / D * PREPARE_LANES + r) * D + i % D]);
        if (part < args.chunks)
            partial[part * D + i % D] = most;
    }
    if (!arrives_last(args.v_arrived + head, static_cast<unsigned>(args.schedule.v_stats), shared.last))
        return;
    const int channel = static_cast<int>(threadIdx.x);
    if (channel < D) {
        const float most =
            combine(partial + channel, D, args.chunks, args.v_tiny, [](float a, float b) { return fmaxf(a, b); });
        const bool exists = channel < args.head_dim;
        args.v_scale[static_cast<int64_t>(head) * D + channel] = exists ? __fmul_rn(most, args.v_max_inverse) : 0;
        args.v_factor[static_cast<int64_t>(head) * D + channel] = exists ? __fdiv_rn(args.v_max, most) : 0;
    }
    raise_flag(args.v_ready + head);
}

} // namespace sparge::prepare

#endif
