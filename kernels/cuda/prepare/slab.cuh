/* A slab: the piece of a tensor that one CTA of prepare works on, in registers.
 *
 *                chunk 0      chunk 1            chunk 15 (7)
 *              +------------+------------+ ... +------------+
 *     slot 0   | thread 0   | thread 1   |     | thread 15  |
 *     slot 1   | thread 16  | ...                           |      slots of 16 rows: 8 at D = 128, 16 at D = 64
 *     ...      +------------+------------+ ... +------------+
 *
 * A thread holds one 16-byte chunk (8 channels) of PREPARE_ROWS rows, 64 registers of packed 16-bit values: 16 loads in
 * flight a thread, 32 KiB a CTA. Which rows a slot has is up to the user: every 4th or 8th one for Q and K, so that the
 * tree over rows begins inside the thread, consecutive ones for V. */
#ifndef SPARGE_CUDA_PREPARE_SLAB_CUH
#define SPARGE_CUDA_PREPARE_SLAB_CUH

#include "prepare.h"

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
    uint4 row[rows_of_thread];
};

/* first_row: the thread's first row of the slab, the others `step` elements apart; the first `count` of them exist, the
 * rest is zero. Load says how the data is cached. The usual case has no conditions, so that all loads leave at once. */
template <typename Load>
__device__ __forceinline__ void load_slab(slab &to, const uint16_t *first_row, int64_t step, int count, Load load)
{
    if (count == rows_of_thread) {
#pragma unroll
        for (int a = 0; a < rows_of_thread; a++)
            to.row[a] = load(reinterpret_cast<const uint4 *>(first_row + a * step));
        return;
    }
#pragma unroll
    for (int a = 0; a < rows_of_thread; a++) {
        to.row[a] = make_uint4(0, 0, 0, 0);
        if (a < count)
            to.row[a] = load(reinterpret_cast<const uint4 *>(first_row + a * step));
    }
}

/* Read once: let it leave the L2 cache first. */
struct load_streaming {
    __device__ __forceinline__ uint4 operator()(const uint4 *from) const { return __ldcs(from); }
};

/* Read again soon by another CTA. */
struct load_keeping {
    __device__ __forceinline__ uint4 operator()(const uint4 *from) const { return __ldcg(from); }
};

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
