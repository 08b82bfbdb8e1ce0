/* What the kernels with INT8 scores share. */
#ifndef SPARGE_SM90_INT8_SCORES_CUH
#define SPARGE_SM90_INT8_SCORES_CUH

#include <limits.h>

#include "row_block.cuh"

namespace sparge::sm90
{

/* The largest scores of the thread's own columns of its two rows, in log2 units, or -inf: of each tile the integer maximum
 * times its scale; of one scale, all have it. Masked: keys from seen[tile][row] on count as INT_MIN, and are set to it. lane_key:
 * the thread's first key of each eight. */
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
