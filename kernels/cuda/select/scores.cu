/* Scores of key blocks: q_pool k_pool^T * scale, with the CPU's bits.
 *
 *               64 columns
 *             +------------+      256 threads of 4 x 4 scores; both tiles, all channels, transposed in shared memory:
 *    64 rows  |   scores   |      q[channel][row], k[channel][column], 64 KiB at D = 128
 *             +------------+
 *
 * kernels/cpu/select/numeric.h: eight sums of every 8th product, products and sums rounded on their own, then a tree over
 * the eight. A thread forms one of the eight sums for its 16 scores at a time, in the order 0 4 2 6 1 5 3 7, which keeps
 * at most four of them alive (64 registers).
 *
 * Work: rows * cols * D multiplies and as many adds, no fused ones: at 32 heads and 32k tokens (256 x 512 blocks)
 * 1.07 G instructions, 36 us of the FP32 pipes of an H200; at 8 heads and 128k 4.3 G, 145 us at 1.75 GHz. Two loads from
 * shared memory for 32 arithmetic instructions. Traffic: scores 4 bytes a block (17 and 67 MB), pools from L2.
 * Causal: tiles that no row sees are skipped. */
#include "select.h"

#include "cuda/prepare/launch.cuh"

namespace
{

constexpr int tile = SELECT_TILE, threads = SELECT_SCORE_THREADS, lanes = 8; /* CPU_DOT_LANES */

__host__ __device__ int padded_channels(int head_dim)
{
    return (head_dim + lanes - 1) / lanes * lanes;
}

/* Rows [first, first + tile) of [count][channels], transposed; what does not exist is zero. */
__device__ __forceinline__ void load_transposed(float *to, const float *from, int64_t first, int64_t count,
                                                int channels)
{
    const int row = static_cast<int>(threadIdx.x) % tile;
    const bool exists = first + row < count;
    const float *source = from + (first + row) * channels;
    for (int c = static_cast<int>(threadIdx.x) / tile * 4; c < padded_channels(channels); c += threads / tile * 4) {
        float4 x = make_float4(0, 0, 0, 0);
        if (exists && channels % 4 == 0 && c < channels) {
            x = *reinterpret_cast<const float4 *>(source + c);
        } else if (exists) {
            x.x = c < channels ? source[c] : 0;
            x.y = c + 1 < channels ? source[c + 1] : 0;
            x.z = c + 2 < channels ? source[c + 2] : 0;
            x.w = c + 3 < channels ? source[c + 3] : 0;
        }
        to[c * tile + row] = x.x;
        to[(c + 1) * tile + row] = x.y;
        to[(c + 2) * tile + row] = x.z;
        to[(c + 3) * tile + row] = x.w;
    }
}

/* One of the eight sums, for 4 x 4 scores. */
__device__ __forceinline__ void lane_sum(float (&sum)[4][4], const float *q, const float *k, int channels, int lane)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            sum[i][j] = 0;
#pragma unroll 4
    for (int c = lane; c < channels; c += lanes) {
        const float4 a = *reinterpret_cast<const float4 *>(q + c * tile);
        const float4 b = *reinterpret_cast<const float4 *>(k + c * tile);
        const float row[4] = {a.x, a.y, a.z, a.w}, col[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                sum[i][j] = __fadd_rn(sum[i][j], __fmul_rn(row[i], col[j]));
    }
}

/* The tree over the sums first, first + stride, first + 2 stride, ... */
template <int First, int Stride>
__device__ __forceinline__ void add_lanes(float (&sum)[4][4], const float *q, const float *k, int channels)
{
    if constexpr (Stride == lanes) {
        lane_sum(sum, q, k, channels, First);
    } else {
        float upper[4][4];
        add_lanes<First, 2 * Stride>(sum, q, k, channels);
        add_lanes<First + Stride, 2 * Stride>(upper, q, k, channels);
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                sum[i][j] = __fadd_rn(sum[i][j], upper[i][j]);
    }
}

__global__ void __launch_bounds__(threads, 2) score_tiles(const __grid_constant__ select_args args)
{
    extern __shared__ float shared[];
    if (blockIdx.x == 0 && threadIdx.x == 0) { /* the next kernel on the stream counts */
        *args.visible = args.visible_blocks;
        *args.qk = 0;
        *args.extra = 0;
    }
    const int64_t col_tiles = (args.cols + tile - 1) / tile, row_tiles = (args.rows + tile - 1) / tile;
    const int64_t first_col = blockIdx.x % col_tiles * tile, first_row = blockIdx.x / col_tiles % row_tiles * tile;
    const int64_t bh = blockIdx.x / col_tiles / row_tiles;
    const int64_t last_row = first_row + tile < args.rows ? first_row + tile - 1 : args.rows - 1;
    if (first_col >= select_visible_cols(args, last_row))
        return;
    const int64_t kv = bh / args.heads_q * args.heads_kv + bh % args.heads_q / (args.heads_q / args.heads_kv);
    const int channels = padded_channels(args.head_dim);
    float *q = shared, *k = shared + channels * tile;
    load_transposed(q, args.q_pool + bh * args.rows * args.head_dim, first_row, args.rows, args.head_dim);
    load_transposed(k, args.k_pool + kv * args.cols * args.head_dim, first_col, args.cols, args.head_dim);
    __syncthreads();

    /* A warp has 4 x 8 threads: 16 rows and 32 columns, one wavefront of shared memory for each operand. */
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int row = (warp / 2 * 4 + lane / 8) * 4, col = (warp % 2 * 8 + lane % 8) * 4;
    float score[4][4];
    add_lanes<0, 1>(score, q + row, k + col, channels);
    if (first_col + col >= args.list_stride)
        return;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (first_row + row + i >= args.rows)
            break;
        int32_t *to = args.list + (bh * args.rows + first_row + row + i) * args.list_stride + first_col + col;
        *reinterpret_cast<int4 *>(to) = make_int4(
            __float_as_int(__fmul_rn(score[i][0], args.scale)), __float_as_int(__fmul_rn(score[i][1], args.scale)),
            __float_as_int(__fmul_rn(score[i][2], args.scale)), __float_as_int(__fmul_rn(score[i][3], args.scale)));
    }
}

size_t shared_bytes(const select_args &args)
{
    return sizeof(float) * 2 * tile * static_cast<size_t>(padded_channels(args.head_dim));
}

} // namespace

cudaError_t select_prepare_scores(void)
{
    return cudaFuncSetAttribute(reinterpret_cast<const void *>(score_tiles),
                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(sizeof(float) * 2 * tile * 128));
}

cudaError_t select_launch_scores(const select_args &args, cudaStream_t stream)
{
    const int64_t ctas =
        args.row_blocks / args.rows * ((args.rows + tile - 1) / tile) * ((args.cols + tile - 1) / tile);
    return sparge::launch(score_tiles, ctas, threads, shared_bytes(args), stream, args);
}
