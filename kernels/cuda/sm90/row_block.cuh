/* What the kernels of sm_90a share: which row block a CTA has, and which tiles of keys it visits. */
#ifndef SPARGE_SM90_ROW_BLOCK_CUH
#define SPARGE_SM90_ROW_BLOCK_CUH

#include "../attend_rows.cuh"
#include "../ptx/bar.cuh"
#include "../ptx/cp_async.cuh"
#include "../ptx/elect.cuh"
#include "../ptx/mbarrier.cuh"
#include "../ptx/setmaxnreg.cuh"
#include "../ptx/tma.cuh"
#include "../ptx/wgmma.cuh"
#include "../tensor_maps.h"

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "compiled for sm_90a alone: kernels/CMakeLists.txt"
#endif

namespace sparge::sm90
{

constexpr int tile_keys = ATTEND_TILE_KEYS;
constexpr int warpgroup = 128; /* threads */

/* One warpgroup that loads and Consumers that compute 64 rows each. Ctas: that share an SM. */
template <int Consumers_, int Ctas_> struct cta_shape {
    static constexpr int Consumers = Consumers_, Ctas = Ctas_;
    static constexpr int rows = 64 * Consumers, threads = warpgroup * (1 + Consumers);
    /* The SM's registers, first shared evenly, then what the producer leaves. */
    static constexpr int entry_registers = 65536 / (threads * Ctas) / 8 * 8;
    static constexpr int producer_registers = 24;
    static constexpr int left = (entry_registers * threads - producer_registers * warpgroup) / (warpgroup * Consumers);
    static constexpr int consumer_registers = left < 240 ? left / 8 * 8 : 240;
};

/* The row block of a CTA. */
struct row_block_place {
    int batch_head, head, batch, kv_head;
    int first_row;
    int tiles;           /* to compute */
    const int32_t *list; /* of them, or NULL: the first ones */
};

/* The keys that a row sees are those before this one. Positions fit in 32 bits (problem.c). */
__device__ __forceinline__ int visible_end(const attend_args &args, int row)
{
    return static_cast<int>(max(min(row + 1 + args.causal_shift, args.seqlen_k), int64_t(0)));
}

template <typename S, bool Lists>
__device__ __forceinline__ row_block_place place_of(const attend_args &args, int number)
{
    row_block_place p;
    p.batch_head = number / args.row_blocks;
    p.batch = p.batch_head / args.heads_q;
    p.head = p.batch_head % args.heads_q;
    p.kv_head = p.head / (args.heads_q / args.heads_kv);
    p.first_row = number % args.row_blocks * S::rows;
    const int end = visible_end(args, min(p.first_row + S::rows, static_cast<int>(args.seqlen_q)) - 1);
    p.list = Lists ? args.list + number * args.list_stride : nullptr;
    p.tiles = Lists ? args.count[number] : (end + tile_keys - 1) / tile_keys;
    return p;
}

/* The CTA's, where each has one. */
template <typename S, bool Lists> __device__ __forceinline__ row_block_place find_place(const attend_args &args)
{
    int work;
    asm volatile("mov.u32 %0, %%ctaid.x;\n" : "=r"(work));
    return place_of<S, Lists>(args, row_block_number<Lists>(args, work));
}

/* Multiplies two rows, as wgmma lays them out, by a factor each. */
template <int N> __device__ __forceinline__ void scale_rows(float (&o)[N], const float (&factor)[2])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        o[i] *= factor[i / 2 % 2];
}

/* Lane i of each four gets word i of all four, in their order. */
__device__ __forceinline__ void transpose_quad(uint32_t (&word)[4])
{
#pragma unroll
    for (int bit = 1; bit < 4; bit *= 2) { /* swaps with the lane whose number differs in the bit */
        const bool high = threadIdx.x & bit;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & bit)
                continue;
            const uint32_t other = __shfl_xor_sync(~0u, high ? word[i] : word[i | bit], bit);
            word[i] = high ? other : word[i];
            word[i | bit] = high ? word[i | bit] : other;
        }
    }
}

/* Stores a thread's two rows of O, `row` and row + 8. pair(eight, h): its two channels of the eight-th eight of row h, as a
 * pair of 16 bits. Four lanes share a row; they hand pairs to each other until lane i has all of the i-th of four eights. */
template <int D, typename F>
__device__ __forceinline__ void store_eights(const attend_args &args, const row_block_place &p, int row, F &&pair)
{
    const int quarter = static_cast<int>(threadIdx.x) % 4;
    char *out = static_cast<char *>(args.o.data) +
                (p.batch * args.o.batch_stride + p.head * args.o.head_stride + row * args.o.token_stride) * 2;
    const auto each_sixteen_bytes = [&](auto store) {
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int d = 0; d < D / 8; d += 4) {
                uint32_t word[4]; /* of the four eights; then of the lane's eight */
#pragma unroll
                for (int i = 0; i < 4; i++)
                    word[i] = pair(d + i, h);
                transpose_quad(word);
                const int channel = (d + quarter) * 8;
                if (row + h * 8 < args.seqlen_q && channel < args.head_dim)
                    store(out + (h * 8 * args.o.token_stride + channel) * 2, word, channel);
            }
    };
    if (args.o_scalar)
        each_sixteen_bytes([&](char *to, const uint32_t(&word)[4], int channel) {
#pragma unroll
            for (int e = 0; e < 8; e++)
                if (channel + e < args.head_dim)
                    reinterpret_cast<uint16_t *>(to)[e] = static_cast<uint16_t>(word[e / 2] >> e % 2 * 16);
        });
    else
        each_sixteen_bytes([&](char *to, const uint32_t(&word)[4], int) {
            *reinterpret_cast<uint4 *>(to) = make_uint4(word[0], word[1], word[2], word[3]);
        });
}

/* What the thread that takes row blocks from the queue does when that is empty: after all CTAs have, it is as it was. */
__device__ __forceinline__ void leave_queue(const attend_args &args)
{
    if (atomicAdd(args.queue + 1, 1) == gridDim.x - 1)
        args.queue[0] = args.queue[1] = 0;
}

/* The thread's number, read anew in every call: what is made of it then needs no registers across a kernel's loop. */
__device__ __forceinline__ int thread_anew()
{
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;\n" : "=r"(thread));
    return thread;
}

/* A value that is the same in a warp. From the maximum of equal values ptxas sees that it is; without, it takes the branches
 * that hang on it for divergent, and the loop of a kernel grows by a hundred instructions. */
__device__ __forceinline__ int same_in_warp(int value)
{
    return __reduce_max_sync(~0u, value);
}

/* The index-th tile, or `missing` past the last. */
template <bool Lists> __device__ __forceinline__ int tile_at(const row_block_place &p, int index, int missing)
{
    if (index >= p.tiles)
        return missing;
    return Lists ? __ldg(p.list + index) : index;
}

} // namespace sparge::sm90

#endif
