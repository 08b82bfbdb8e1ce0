/* The order in which the attention kernel starts row blocks: longest list first, within groups of heads.
 *
 * One CTA sorts one group by counting, in 256 bins of list length, and stably: row blocks of one bin stay in their order,
 * so that neighbours walk the same head's keys and share them in the L2 cache; where all lists are equal the order is the
 * identity. Each turn places one row block a thread: its rank among the warp's of the same bin comes from a match, the
 * warps' shares of a bin from a running sum by the bin's own thread. Traffic: 8 bytes in, 4 out, a row block. */
#include "select.h"

#include "cuda/prepare/launch.cuh"

namespace
{

constexpr int threads = SELECT_ORDER_THREADS, warps = threads / 32, bins = 256;

struct order_shared {
    uint32_t before[bins]; /* row blocks of earlier bins; then also those of the bin already placed */
    uint32_t of_warp[warps][bins];
    uint32_t scan[bins / 32];
};

/* Longest first: bin 0. */
__device__ __forceinline__ int bin_of(const order_args &args, int32_t length)
{
    return bins - 1 - static_cast<int>(static_cast<int64_t>(length) * (bins - 1) / args.tiles);
}

/* before[bin] = sum of the bins before it, in place. The first `bins` threads do it. */
__device__ __forceinline__ void scan_bins(order_shared &shared)
{
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
    uint32_t own = 0, upto = 0;
    if (thread < bins) {
        own = upto = shared.before[thread];
        for (int distance = 1; distance < 32; distance *= 2) {
            const uint32_t earlier = __shfl_up_sync(~0u, upto, distance);
            if (lane >= distance)
                upto += earlier;
        }
        if (lane == 31)
            shared.scan[thread / 32] = upto;
    }
    __syncthreads();
    if (thread < bins) {
        for (int w = 0; w < thread / 32; w++)
            upto += shared.scan[w];
        shared.before[thread] = upto - own;
    }
    __syncthreads();
}

__global__ void __launch_bounds__(threads) order_group(const order_args args)
{
    __shared__ order_shared shared;
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int64_t first = static_cast<int64_t>(blockIdx.x) * args.group;
    const int64_t end = first + args.group < args.row_blocks ? first + args.group : args.row_blocks;
    if (thread < bins) {
        shared.before[thread] = 0;
        for (int w = 0; w < warps; w++)
            shared.of_warp[w][thread] = 0;
    }
    __syncthreads();
    for (int64_t r = first + thread; r < end; r += threads)
        atomicAdd(&shared.before[bin_of(args, args.list_count[r])], 1u);
    __syncthreads();
    scan_bins(shared);
    for (int64_t turn = first; turn < end; turn += threads) {
        const int64_t r = turn + thread;
        const bool exists = r < end;
        const int bin = exists ? bin_of(args, args.list_count[r]) : bins; /* those past the end match each other */
        const uint32_t same = __match_any_sync(~0u, static_cast<uint32_t>(bin));
        const uint32_t rank = static_cast<uint32_t>(__popc(same & ((1u << lane) - 1)));
        if (exists && rank == 0)
            shared.of_warp[warp][bin] = static_cast<uint32_t>(__popc(same));
        __syncthreads();
        if (thread < bins) {
            uint32_t next = shared.before[thread];
            for (int w = 0; w < warps; w++) {
                const uint32_t here = shared.of_warp[w][thread];
                shared.of_warp[w][thread] = next;
                next += here;
            }
            shared.before[thread] = next;
        }
        __syncthreads();
        if (exists)
            args.order[first + shared.of_warp[warp][bin] + rank] = static_cast<int32_t>(r);
        __syncthreads();
        if (thread < bins)
            for (int w = 0; w < warps; w++)
                shared.of_warp[w][thread] = 0;
        __syncthreads();
    }
}

} // namespace

cudaError_t select_launch_order(const order_args &args, cudaStream_t stream)
{
    return sparge::launch(order_group, (args.row_blocks + args.group - 1) / args.group, threads, 0, stream, args);
}
