/* Scores of key blocks: q_pool k_pool^T * scale, with the CPU's bits.
 *
 *                64 columns
 *              +------------+      256 threads of 8 x 4 scores; both tiles, all channels, transposed in shared memory:
 *    128 rows  |   scores   |      q[channel][row], k[channel][column], 96 KiB at D = 128
 *              +------------+
 *
 * The order of cpu_isa.dots: eight lanes, each the fused sum of every 8th product, added up in order. A thread forms one
 * lane of its 32 scores at a time and adds it to what it has: 64 registers.
 *
 * Work: rows * cols * D fused multiply-adds: at 32 heads and 32k tokens (256 x 512 blocks) 0.54 G, 18 us of the FP32
 * pipes of an H200; at 8 heads and 128k 2.1 G, 73 us at 1.75 GHz. Three loads from shared memory for 32 of them. Traffic:
 * scores 4 bytes a block (17 and 67 MB), pools from L2. Causal: tiles that no row sees are skipped. */
#include "select.h"

#include "cuda/prepare/launch.cuh"

namespace
{

constexpr int tile_rows = SELECT_TILE_ROWS, tile_cols = SELECT_TILE_COLS, threads = SELECT_SCORE_THREADS;
constexpr int lanes = 8, own_rows = 8, own_cols = 4;

__host__ __device__ int padded_channels(int head_dim)
{
    return (head_dim + lanes - 1) / lanes * lanes;
}

/* Rows [first, first + Tile) of [count][channels], transposed; what does not exist is zero. */
template <int Tile>
__device__ __forceinline__ void load_transposed(float *to, const float *from, int64_t first, int64_t count,
                                                int channels)
{
    const int row = static_cast<int>(threadIdx.x) % Tile;
    const bool exists = first + row < count;
    const float *source = from + (first + row) * channels;
#pragma unroll 4
    for (int c = static_cast<int>(threadIdx.x) / Tile * 4; c < padded_channels(channels); c += threads / Tile * 4) {
        float4 x = make_float4(0, 0, 0, 0);
        if (exists && channels % 4 == 0 && c < channels) {
            x = *reinterpret_cast<const float4 *>(source + c);
        } else if (exists) {
            x.x = c < channels ? source[c] : 0;
            x.y = c + 1 < channels ? source[c + 1] : 0;
            x.z = c + 2 < channels ? source[c + 2] : 0;
            x.w = c + 3 < channels ? source[c + 3] : 0;
        }
        to[c * Tile + row] = x.x;
        to[(c + 1) * Tile + row] = x.y;
        to[(c + 2) * Tile + row] = x.z;
        to[(c + 3) * Tile + row] = x.w;
    }
}

/* One lane's sum of each of a thread's scores. */
__device__ __forceinline__ void lane_sum(float (&sum)[own_rows][own_cols], const float *q, const float *k, int channels,
                                         int lane)
{
#pragma unroll
    for (int i = 0; i < own_rows; i++)
#pragma unroll
        for (int j = 0; j < own_cols; j++)
            sum[i][j] = 0;
#pragma unroll 4
    for (int c = lane; c < channels; c += lanes) {
        const float4 a = *reinterpret_cast<const float4 *>(q + c * tile_rows);
        const float4 b = *reinterpret_cast<const float4 *>(q + c * tile_rows + 4);
        const float4 d = *reinterpret_cast<const float4 *>(k + c * tile_cols);
        const float row[own_rows] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}, col[own_cols] = {d.x, d.y, d.z, d.w};
#pragma unroll
        for (int i = 0; i < own_rows; i++)
#pragma unroll
            for (int j = 0; j < own_cols; j++)
                sum[i][j] = __fmaf_rn(row[i], col[j], sum[i][j]);
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
    const int64_t col_tiles = (args.cols + tile_cols - 1) / tile_cols,
                  row_tiles = (args.rows + tile_rows - 1) / tile_rows;
    const int64_t first_col = blockIdx.x % col_tiles * tile_cols;
    const int64_t first_row = blockIdx.x / col_tiles % row_tiles * tile_rows;
    const int64_t bh = blockIdx.x / col_tiles / row_tiles;
    const int64_t last_row = first_row + tile_rows < args.rows ? first_row + tile_rows - 1 : args.rows - 1;
    if (first_col >= select_visible_cols(args, last_row))
        return;
    const int64_t kv = bh / args.heads_q * args.heads_kv + bh % args.heads_q / (args.heads_q / args.heads_kv);
    const int channels = padded_channels(args.head_dim);
    float *q = shared, *k = shared + channels * tile_rows;
    load_transposed<tile_rows>(q, args.q_pool + bh * args.rows * args.head_dim, first_row, args.rows, args.head_dim);
    load_transposed<tile_cols>(k, args.k_pool + kv * args.cols * args.head_dim, first_col, args.cols, args.head_dim);
    __syncthreads();

    /* A warp has 4 x 8 threads: 32 rows and 32 columns. */
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int row = (warp / 2 * 4 + lane / 8) * own_rows, col = (warp % 2 * 8 + lane % 8) * own_cols;
    float score[own_rows][own_cols];
    lane_sum(score, q + row, k + col, channels, 0);
#pragma unroll 1
    for (int l = 1; l < lanes; l++) {
        float sum[own_rows][own_cols];
        lane_sum(sum, q + row, k + col, channels, l);
#pragma unroll
        for (int i = 0; i < own_rows; i++)
#pragma unroll
            for (int j = 0; j < own_cols; j++)
                score[i][j] = __fadd_rn(score[i][j], sum[i][j]);
    }
    if (first_col + col >= args.list_stride)
        return;
#pragma unroll
    for (int i = 0; i < own_rows; i++) {
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
    return sizeof(float) * (tile_rows + tile_cols) * static_cast<size_t>(padded_channels(args.head_dim));
}

} // namespace

cudaError_t select_prepare_scores(void)
{
    return cudaFuncSetAttribute(reinterpret_cast<const void *>(score_tiles),
                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(sizeof(float) * (tile_rows + tile_cols) * 128));
}

cudaError_t select_launch_scores(const select_args &args, cudaStream_t stream)
{
    const int64_t ctas = args.row_blocks / args.rows * ((args.rows + tile_rows - 1) / tile_rows) *
                         ((args.cols + tile_cols - 1) / tile_cols);
    return sparge::launch(score_tiles, ctas, threads, shared_bytes(args), stream, args);
}
