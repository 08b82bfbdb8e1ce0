/* Scores of key blocks: q_pool k_pool^T * scale, with the CPU's bits.
 *
 *                128 columns
 *              +------------+      128 threads of 16 x 8 scores: rows 4 ty .. 4 ty + 3, and 32, 64 and 96 + those; columns
 *    128 rows  |   scores   |      4 tx .. 4 tx + 3, and 64 + those. 8 channels at a time, transposed in shared memory,
 *              +------------+      q[channel][row] and k[channel][column]; the next 8 wait in registers meanwhile.
 *
 * The order of cpu_isa.dots: the products of a score are added channel by channel, fused.
 *
 * Shared memory: a warp loads 16 rows of 8 channels (2 lanes a row) and writes single floats; channels 4 to 7 have their
 * rows at row ^ 16, so that the 32 floats of a store meet 32 banks and four neighbouring rows stay together.
 *
 * Work: rows * cols * D fused multiply-adds: at 32 heads and 32k tokens (256 x 512 blocks) 0.54 G, at 8 heads and 128k
 * 2.1 G. A load of 16 bytes a thread takes shared memory 4 clk, 128 of a warp's FMAs the SM 32: with six loads for 128 FMAs
 * (of 8 x 8 scores, four for 64) they do not wait for loads. Traffic: scores 4 bytes a block (17 and 67 MB), pools from L2.
 * Causal: tiles that no row sees are skipped. */
#include "select.h"

#include "cuda/prepare/launch.cuh"

namespace
{

constexpr int tile = SELECT_TILE, threads = SELECT_SCORE_THREADS;
constexpr int step = 8;                    /* channels in shared memory */
constexpr int own_rows = 16, own_cols = 8; /* of a thread, in groups of four */
constexpr int row_groups = own_rows / 4, col_groups = own_cols / 4;
constexpr int row_apart = tile / row_groups, col_apart = tile / col_groups; /* groups of a thread */
constexpr int loads = tile * step / 4 / threads;                            /* of a thread, of each operand */

struct score_shared {
    float q[2][step][tile], k[2][step][tile];
};

/* Channels [c, c + 4) of a row of `channels`; what does not exist is zero. Fours: channels is a multiple of 4. */
template <bool Fours> __device__ __forceinline__ float4 load_4(const float *row, bool exists, int c, int channels)
{
    float4 x = make_float4(0, 0, 0, 0);
    if (!exists || c >= channels)
        return x;
    if constexpr (Fours)
        return *reinterpret_cast<const float4 *>(row + c);
    x.x = row[c];
    x.y = c + 1 < channels ? row[c + 1] : 0;
    x.z = c + 2 < channels ? row[c + 2] : 0;
    x.w = c + 3 < channels ? row[c + 3] : 0;
    return x;
}

__device__ __forceinline__ int swizzled(int channel, int row)
{
    return row ^ channel / 4 * 16;
}

static_assert(threads * own_rows * own_cols == tile * tile, "a score has a thread");

__device__ __forceinline__ void store_step(float (&to)[step][tile], int row, int c, float4 x)
{
    const int at = swizzled(c, row);
    to[c][at] = x.x;
    to[c + 1][at] = x.y;
    to[c + 2][at] = x.z;
    to[c + 3][at] = x.w;
}

/* Groups of four, Apart from each other, of one channel. */
template <int Apart, int N> __device__ __forceinline__ void load_own(float (&to)[N], const float *from)
{
#pragma unroll
    for (int g = 0; g < N / 4; g++) {
        const float4 four = *reinterpret_cast<const float4 *>(from + g * Apart);
        to[4 * g] = four.x, to[4 * g + 1] = four.y, to[4 * g + 2] = four.z, to[4 * g + 3] = four.w;
    }
}

__device__ __forceinline__ void add_step(float (&sum)[own_rows][own_cols], const score_shared &shared, int stage,
                                         int row, int col)
{
#pragma unroll
    for (int c = 0; c < step; c++) {
        float q[own_rows], k[own_cols];
        load_own<row_apart>(q, &shared.q[stage][c][swizzled(c, row)]);
        load_own<col_apart>(k, &shared.k[stage][c][swizzled(c, col)]);
#pragma unroll
        for (int i = 0; i < own_rows; i++)
#pragma unroll
            for (int j = 0; j < own_cols; j++)
                sum[i][j] = __fmaf_rn(q[i], k[j], sum[i][j]);
    }
}

template <bool Fours>
__global__ void __launch_bounds__(threads, 2) score_tiles(const __grid_constant__ select_args args)
{
    __shared__ score_shared shared;
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
    const int load_row = static_cast<int>(threadIdx.x) / (step / 4);
    const int load_c = static_cast<int>(threadIdx.x) % (step / 4) * 4, channels = args.head_dim;
    const float *q = args.q_pool + (bh * args.rows + first_row) * channels;
    const float *k = args.k_pool + (kv * args.cols + first_col) * channels;
    const int64_t rows_left = args.rows - first_row, cols_left = args.cols - first_col;

    /* A warp has 4 x 8 threads. */
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int row = (warp / 2 * 4 + lane / 8) * 4, col = (warp % 2 * 8 + lane % 8) * 4;
    float sum[own_rows][own_cols] = {};
    float4 next_q[loads], next_k[loads];
    const auto load_next = [&](int c) {
#pragma unroll
        for (int i = 0; i < loads; i++) {
            const int at = load_row + i * (tile / loads);
            next_q[i] = load_4<Fours>(q + at * channels, at < rows_left, load_c + c, channels);
            next_k[i] = load_4<Fours>(k + at * channels, at < cols_left, load_c + c, channels);
        }
    };
    load_next(0);
#pragma unroll 1
    for (int c = 0, stage = 0; c < channels; c += step, stage ^= 1) {
#pragma unroll
        for (int i = 0; i < loads; i++) {
            store_step(shared.q[stage], load_row + i * (tile / loads), load_c, next_q[i]);
            store_step(shared.k[stage], load_row + i * (tile / loads), load_c, next_k[i]);
        }
        __syncthreads(); /* the last use of this stage was before the last barrier */
        load_next(c + step);
        add_step(sum, shared, stage, row, col);
    }
#pragma unroll
    for (int i = 0; i < own_rows; i++) {
        const int64_t r = first_row + i / 4 * row_apart + row + i % 4;
        if (r >= args.rows)
            continue;
#pragma unroll
        for (int j = 0; j < own_cols; j += 4) {
            const int64_t c = first_col + j / 4 * col_apart + col;
            if (c < args.list_stride)
                *reinterpret_cast<int4 *>(args.list + (bh * args.rows + r) * args.list_stride + c) =
                    make_int4(__float_as_int(__fmul_rn(sum[i][j], args.scale)),
                              __float_as_int(__fmul_rn(sum[i][j + 1], args.scale)),
                              __float_as_int(__fmul_rn(sum[i][j + 2], args.scale)),
                              __float_as_int(__fmul_rn(sum[i][j + 3], args.scale)));
        }
    }
}

} // namespace

cudaError_t select_launch_scores(const select_args &args, cudaStream_t stream)
{
    const int64_t ctas =
        args.row_blocks / args.rows * ((args.rows + tile - 1) / tile) * ((args.cols + tile - 1) / tile);
    return sparge::launch(args.head_dim % 4 == 0 ? score_tiles<true> : score_tiles<false>, ctas, threads, 0, stream,
                          args);
}
