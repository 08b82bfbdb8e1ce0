/* What the kernels with INT8 scores share. */
#ifndef SPARGE_SM90_INT8_SCORES_CUH
#define SPARGE_SM90_INT8_SCORES_CUH

#include <limits.h>

#include "row_block.cuh"

namespace sparge::sm90
{

/* INT8 scales, at every granularity (quantise.h of the CPU): a thread's two rows share one of Q, and its keys of a tile one of
 * K. Here that of the i-th four rows from first_row on, a multiple of 32: of each 32, those with equal row mod 8. */
__device__ __forceinline__ float q_scale_of(const attend_args &args, int batch_head, int first_row, int i)
{
    int index = first_row / 4 + i;
    if (args.scales == ATTEND_SCALES_WARP)
        index /= 8;
    if (args.scales == ATTEND_SCALES_BLOCK)
        index = first_row / args.q_scale_rows;
    return args.scale_log2 *
           __ldg(args.q_scale + (static_cast<int64_t>(batch_head) * args.q_scales + min(index, args.q_scales - 1)));
}

/* A thread's, of a consumer's 64 rows. */
__device__ __forceinline__ int q_scale_of_thread()
{
    const int thread = thread_anew() % warpgroup;
    return thread / 64 * 8 + thread % 32 / 4;
}

/* Of a block's scales of K, the thread's. */
__device__ __forceinline__ int k_scale_of_lane(const attend_args &args, int lane)
{
    return lane & (args.k_scale_groups - 1);
}

/* The scale of K's tile `tile`, or of some other one if that is -1. first: of the head's first block, the thread's. */
__device__ __forceinline__ float k_scale_of(const attend_args &args, int first, int tile)
{
    return __ldg(args.k_scale + (first + (max(tile, 0) >> args.k_scale_shift) * args.k_scale_groups));
}

/* The largest scores of the thread's own columns of its two rows, in log2 units, or -inf: of each tile the integer maximum
 * times the thread's scale of it; of one scale, all have it. Masked: keys from seen[tile][row] on count as INT_MIN, and are set
 * to it. lane_key: the thread's first key of each eight. */
template <bool Masked, int Tiles, int Scales>
__device__ __forceinline__ void largest_scores(int32_t (&s)[Tiles * 32], const float (&scale)[Scales],
                                               const int (&seen)[Tiles][2], int lane_key, float (&top)[2])
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        top[h] = -CUDART_INF_F;
#pragma unroll
        for (int x = 0; x < Tiles; x++) {
            int32_t most = INT_MIN;
#pragma unroll
            for (int i = 0; i < 8; i++) {
                int32_t(&pair)[2] = reinterpret_cast<int32_t(&)[2]>(s[4 * (8 * x + i) + 2 * h]);
                if constexpr (Masked)
#pragma unroll
                    for (int e = 0; e < 2; e++)
                        pair[e] = i * 8 + e + lane_key < seen[x][h] ? pair[e] : INT_MIN;
                most = __vimax3_s32(most, pair[0], pair[1]);
            }
            if (!Masked || most != INT_MIN)
                top[h] = fmaxf(top[h], static_cast<float>(most) * scale[x % Scales]);
        }
    }
}

} // namespace sparge::sm90

#endif
