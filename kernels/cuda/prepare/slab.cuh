/* A slab: the piece of a tensor that one CTA of prepare works on.
 *
 *                chunk 0      chunk 1            chunk 15 (7)
 *              +------------+------------+ ... +------------+
 *     slot 0   | thread 0   | thread 1   |     | thread 15  |
 *     slot 1   | thread 16  | ...                           |      slots of 16 rows: 8 at D = 128, 16 at D = 64
 *     ...      +------------+------------+ ... +------------+
 *
 * A thread has one 16-byte chunk (8 channels) of PREPARE_ROWS rows, 32 KiB a CTA. They wait in shared memory, where
 * cp.async brings them: each thread reads only what it asked for, so no barrier is needed, and neighbouring threads'
 * chunks lie side by side. That leaves the registers to more warps: five CTAs an SM.
 *
 * Which rows a slot has is up to the user: every 4th or 8th one for Q and K, so that a thread is a lane of the sums over
 * rows, consecutive ones for V. */
#ifndef SPARGE_CUDA_PREPARE_SLAB_CUH
#define SPARGE_CUDA_PREPARE_SLAB_CUH

#include "prepare.h"

#include "cuda/ptx/cp_async.cuh"
#include "numbers.cuh"

namespace sparge::prepare
{

constexpr int threads = PREPARE_THREADS, rows_of_thread = PREPARE_ROWS;

/* D: channels of the slab, 64 or 128. */
template <int D> struct slab_shape {
    static constexpr int chunks = D / 8;
    static constexpr int slots = threads / chunks;
    static constexpr int rows = slots * rows_of_thread;
};

struct slab {
    uint4 chunk[rows_of_thread][threads];
    __device__ __forceinline__ const uint4 &row(int a) const { return chunk[a][threadIdx.x]; }
};

/* Starts the copies; what was read leaves the L2 cache first. first_row: the thread's first row of the slab, the others `step` elements apart; the first `count` of
 * them exist, the rest is zero. */
__device__ __forceinline__ void load_slab(slab &to, const uint16_t *first_row, int64_t step, int count)
{
    const uint32_t shared = ptx::shared_address(&to.chunk[0][threadIdx.x]);
    const uint64_t policy = ptx::evict_first();
#pragma unroll
    for (int a = 0; a < rows_of_thread; a++) {
        const uint16_t *from = a < count ? first_row + a * step : first_row;
        ptx::cp_async_16(shared + a * threads * 16, from, a < count, policy);
    }
    ptx::cp_async_commit();
}

/* Until this thread's part of the slab is there. */
__device__ __forceinline__ void wait_for_slab()
{
    ptx::cp_async_wait<0>();
}

__device__ __forceinline__ const uint16_t *head_of(const prepare_tensor &x, uint32_t head)
{
    const uint32_t heads = static_cast<uint32_t>(x.heads);
    return x.data + head / heads * x.batch_stride + head % heads * x.head_stride;
}

/* How many of the rows first, first + step, ... (at most rows_of_thread) are below end. */
__device__ __forceinline__ int rows_below(int64_t end, int64_t first, int step)
{
    const int64_t left = end - first;
    return left <= 0 ? 0 : left >= step * rows_of_thread ? rows_of_thread : (static_cast<int>(left) + step - 1) / step;
}

} // namespace sparge::prepare

#endif
