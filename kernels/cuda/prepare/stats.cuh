/* What the other tiles wait for: K's token mean and V's channel maxima.
 *
 * A CTA takes PREPARE_CHUNK tokens of one head (two such chunks at D = 64) and leaves a partial sum per channel, or raises
 * the channels' maxima. The last CTA of a head to arrive, told by a counter, finishes the work and raises the head's flag.
 * Tiles of that head wait for the flag, so K's sums are added up in two steps, a run of chunks by its last CTA, then the
 * runs: the order of kernels/cpu/prepare/smooth.h, where thread (chunk, slot) is lane slot mod 8. */
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

/* Adds up a column of terms in order. */
template <int Batch, typename Value>
__device__ __forceinline__ double add_column(const Value *terms, int64_t stride, int count)
{
    double sum = 0;
    for (int first = 0; first < count; first += Batch) {
        Value term[Batch]; /* loads in flight */
#pragma unroll
        for (int i = 0; i < Batch; i++)
            if (first + i < count)
                term[i] = __ldcg(terms + (first + i) * stride);
#pragma unroll
        for (int i = 0; i < Batch; i++)
            if (first + i < count)
                sum = __dadd_rn(sum, static_cast<double>(term[i]));
    }
    return sum;
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
    /* visit(row) for the rows of one pass that exist, eight loads at a time. */
    template <typename Visit>
    __device__ __forceinline__ void for_rows(const prepare_tensor &x, uint32_t head, int load_chunks, int pass,
                                             Visit visit) const
    {
        constexpr int batch = 8;
        const int64_t first = part * PREPARE_CHUNK + pass * (PREPARE_CHUNK / passes) + lane;
        const uint16_t *row = head_of(x, head) + first * x.token_stride + chunk * 8;
        const int count = chunk < load_chunks ? rows_below(x.tokens, first, PREPARE_LANES) : 0;
        const int64_t step = PREPARE_LANES * x.token_stride;
#pragma unroll
        for (int begin = 0; begin < rows_of_thread; begin += batch) {
            uint4 data[batch];
#pragma unroll
            for (int a = 0; a < batch; a++)
                data[a] = begin + a < count ? __ldcg(reinterpret_cast<const uint4 *>(row + (begin + a) * step))
                                            : make_uint4(0, 0, 0, 0);
#pragma unroll
            for (int a = 0; a < batch; a++)
                visit(data[a]);
        }
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
        at.for_rows(args.k.x, head, args.load_chunks, pass, [&](const uint4 &row) {
            float x[8];
            unpack<T>(x, row);
#pragma unroll
            for (int i = 0; i < 8; i++)
                sum[i] = __fadd_rn(sum[i], x[i]);
        });
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
    /* The last CTA of a run adds up the run, the last one of the last run all of them. */
    constexpr int ctas_of_run = PREPARE_RUN / (S::slots / PREPARE_LANES);
    const int run = index / ctas_of_run, channel = static_cast<int>(threadIdx.x);
    const int left = args.schedule.k_stats - run * ctas_of_run;
    if (!arrives_last(args.k_run_arrived + static_cast<int64_t>(head) * args.runs + run,
                      static_cast<unsigned>(left < ctas_of_run ? left : ctas_of_run), shared.last))
        return;
    double *runs = args.k_run + static_cast<int64_t>(head) * args.runs * D;
    if (channel < D) {
        const int first = run * PREPARE_RUN, chunks = args.chunks - first;
        runs[run * D + channel] =
            add_column<PREPARE_RUN>(partial + first * D + channel, D, chunks < PREPARE_RUN ? chunks : PREPARE_RUN);
    }
    if (!arrives_last(args.k_arrived + head, static_cast<unsigned>(args.runs), shared.last))
        return;
    if (channel < args.head_dim)
        args.k_mean[static_cast<int64_t>(head) * args.head_dim + channel] = __double2float_rn(
            __ddiv_rn(add_column<16>(runs + channel, D, args.runs), static_cast<double>(args.k.x.tokens)));
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
        at.for_rows(args.v, head, args.load_chunks, pass, [&](const uint4 &row) {
            most.x = max_magnitudes<pair, false>(most.x, row.x);
            most.y = max_magnitudes<pair, false>(most.y, row.y);
            most.z = max_magnitudes<pair, false>(most.z, row.z);
            most.w = max_magnitudes<pair, false>(most.w, row.w);
        });
    }
    float max[8];
    unpack<T>(max, most);
#pragma unroll
    for (int i = 0; i < 8; i++)
        shared.max[at.slot * D + at.chunk * 8 + i] = max[i];
    __syncthreads();
    unsigned *head_most = args.v_most + static_cast<int64_t>(head) * D; /* magnitudes order like their bits */
    const int channel = static_cast<int>(threadIdx.x);
    if (channel < D) {
        float of_cta = 0;
#pragma unroll
        for (int r = 0; r < S::slots; r++)
            of_cta = fmaxf(of_cta, shared.max[r * D + channel]);
        atomicMax(head_most + channel, __float_as_uint(of_cta));
    }
    if (!arrives_last(args.v_arrived + head, static_cast<unsigned>(args.schedule.v_stats), shared.last))
        return;
    if (channel < D) {
        const float most = fmaxf(args.v_tiny, __uint_as_float(__ldcg(head_most + channel)));
        const bool exists = channel < args.head_dim;
        args.v_scale[static_cast<int64_t>(head) * D + channel] = exists ? __fmul_rn(most, args.v_max_inverse) : 0;
        args.v_factor[static_cast<int64_t>(head) * D + channel] = exists ? __fdiv_rn(args.v_max, most) : 0;
    }
    raise_flag(args.v_ready + head);
}

} // namespace sparge::prepare

#endif
