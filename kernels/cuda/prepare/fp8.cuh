/* FP8 V: e4m3 of v * (fp8_v_max / channel maximum), transposed, in the tensor cores' order of keys.
 *
 * A slot holds 16 consecutive keys, so a thread has, for each of its 8 channels, the 16 bytes that lie together in
 *
 *   v8[tile of 64 keys][channel][four times 16 keys in the order 0 1 8 9 2 3 10 11 4 5 12 13 6 7 14 15]
 *
 * Two neighbouring slots of a warp fill a sector of 32 bytes, four slots a tile, which lies together. Keys past the end
 * and channels from D on give zeros, as their loads do. */
#ifndef SPARGE_CUDA_PREPARE_FP8_CUH
#define SPARGE_CUDA_PREPARE_FP8_CUH

#include <cuda_fp8.h>

#include "stats.cuh"

namespace sparge::prepare
{

/* Two e4m3 codes, saturating, the first in the low byte. */
__device__ __forceinline__ uint32_t e4m3_pair(float first, float second)
{
    return __nv_cvt_float2_to_fp8x2(make_float2(first, second), __NV_SATFINITE, __NV_E4M3);
}

template <typename T, int D>
__device__ __forceinline__ void v_tile(const prepare_args &args, uint32_t head, int slab_index, slab &data)
{
    using S = slab_shape<D>;
    const int chunk = static_cast<int>(threadIdx.x) % S::chunks, slot = static_cast<int>(threadIdx.x) / S::chunks;
    const int64_t first = static_cast<int64_t>(slab_index) * S::rows + slot * rows_of_thread;
    load_slab(data, head_of(args.v, head) + first * args.v.token_stride + chunk * 8, args.v.token_stride,
              chunk < args.load_chunks ? rows_below(args.v.tokens, first, 1) : 0);
    wait_for_flag(args.v_ready + head);
    wait_for_slab();
    if (first >= args.padded_keys)
        return;
    const float4 *factors =
        reinterpret_cast<const float4 *>(args.v_factor + static_cast<int64_t>(head) * D + chunk * 8);
    const float4 factor[2] = {__ldcg(factors), __ldcg(factors + 1)};
    uint8_t *to =
        args.v8 + (static_cast<int64_t>(head) * args.padded_keys + first / 64 * 64) * D + chunk * 8 * 64 + first % 64;
#pragma unroll
    for (int pair = 0; pair < 4; pair++) { /* channels 2 pair, 2 pair + 1 */
        const float low = pair % 2 ? factor[pair / 2].z : factor[pair / 2].x;
        const float high = pair % 2 ? factor[pair / 2].w : factor[pair / 2].y;
        uint32_t code[2][4]; /* word w: keys 2w, 2w + 1, 2w + 8, 2w + 9 */
#pragma unroll
        for (int w = 0; w < 4; w++) {
            float2 x[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint4 &row = data.row(2 * w + i / 2 * 8 + i % 2);
                x[i] = unpack<T>(pair == 0 ? row.x : pair == 1 ? row.y : pair == 2 ? row.z : row.w);
                x[i].x = __fmul_rn(x[i].x, low);
                x[i].y = __fmul_rn(x[i].y, high);
            }
            code[0][w] = e4m3_pair(x[0].x, x[1].x) | e4m3_pair(x[2].x, x[3].x) << 16;
            code[1][w] = e4m3_pair(x[0].y, x[1].y) | e4m3_pair(x[2].y, x[3].y) << 16;
        }
#pragma unroll
        for (int c = 0; c < 2; c++)
            __stcs(reinterpret_cast<uint4 *>(to + (2 * pair + c) * 64),
                   make_uint4(code[c][0], code[c][1], code[c][2], code[c][3]));
    }
}

} // namespace sparge::prepare

#endif
