/* Scores of key blocks: q_pool k_pool^T * scale, with the CPU's bits.
 *
 *                128 columns
 *              +------------+      256 threads of 8 x 8 scores: rows 4 ty .. 4 ty + 3 and 64 + those, columns alike.
 *    128 rows  |   scores   |      8 channels at a time, transposed in shared memory, q[channel][row] and
 *              +------------+      k[channel][column]; the next 8 wait in registers meanwhile.
 *
 * The order of cpu_isa.dots: the products of a score are added channel by channel, fused.
 *
 * Shared memory: a warp loads 16 rows of 8 channels (2 lanes a row) and writes single floats; channels 4 to 7 have their
 * rows at row ^ 16, so that the 32 floats of a store meet 32 banks and four neighbouring rows stay together.
 *
 * Work: rows * cols * D fused multiply-adds: at 32 heads and 32k tokens (256 x 512 blocks) 0.54 G, at 8 heads and 128k
 * 2.1 G. Four loads from shared memory for 64 of them. Traffic: scores 4 bytes a block (17 and 67 MB), pools from L2.
 * Causal: tiles that no row sees are skipped. */
#include "select.h"

#include "cuda/prepare/launch.cuh"

namespace
{

constexpr int tile = SELECT_TILE, threads = SELECT_SCORE_THREADS;
constexpr int step = 8;                 /* channels in shared memory */
constexpr int half = tile / 2, own = 8; /* a thread has `own` rows and columns, in two halves */

struct score_shared {
    float q[2][step][tile], k[2][step][tile];
};

/* Channels [c, c + 4) of a row of `channels`; what does not exist is zero. */
__device__ __forceinline__ float4 load_4(const float *row, bool exists, int c, int channels)
{
    float4 x = make_float4(0, 0, 0, 0);
    if (!exists || c >= channels)
        return x;
    if (channels % 4 == 0)
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

static_assert(threads == tile * step / 4, "a thread loads four channels of each operand");

__device__ __forceinline__ void store_step(float (&to)[step][tile], int row, int c, float4 x)
{
    const int at = swizzled(c, row);
    to[c][at] = x.x;
    to[c + 1][at] = x.y;
    to[c + 2][at] = x.z;
    to[c + 3][at] = x.w;
}

/* Rows first .. first + 3 and 64 + those, of one channel: `from` is the first of them. */
__device__ __forceinline__ void load_own(float (&to)[own], const float *from)
{
    const float4 low = *reinterpret_cast<const float4 *>(from), high = *reinterpret_cast<const float4 *>(from + half);
    to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
    to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
}

__device__ __forceinline__ void add_step(float (&sum)[own][own], const score_shared &shared, int stage, int row,
                                         int col)
{
#pragma unroll 1
    for (int four = 0; four < step; four += 4) { /* channels with the same places of rows */
        const float *q_rows = &shared.q[stage][four][swizzled(four, row)];
        const float *k_cols = &shared.k[stage][four][swizzled(four, col)];
#pragma unroll 2 /* more would spill */
        for (int c = 0; c < 4; c++) {
            float q[own], k[own];
            load_own(q, q_rows + c * tile);
            load_own(k, k_cols + c * tile);
#pragma unroll
            for (int i = 0; i < own; i++)
#pragma unroll
                for (int j = 0; j < own; j++)
                    sum[i][j] = __fmaf_rn(q[i], k[j], sum[i][j]);
        }
    }
}

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
    const bool q_exists = first_row + load_row < args.rows, k_exists = first_col + load_row < args.cols;
    const float *q = args.q_pool + (bh * args.rows + first_row + load_row) * channels;
    const float *k = args.k_pool + (kv * args.cols + first_col + load_row) * channels;

    /* A warp has 4 x 8 threads. */
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int row = (warp / 2 * 4 + lane / 8) * 4, col = (warp % 2 * 8 + lane % 8) * 4;
    float sum[own][own] = {};
    float4 next_q = load_4(q, q_exists, load_c, channels), next_k = load_4(k, k_exists, load_c, channels);
    for (int c = 0, stage = 0; c < channels; c += step, stage ^= 1) {
        store_step(shared.q[stage], load_row, load_c, next_q);
        store_step(shared.k[stage], load_row, load_c, next_k);
        __syncthreads(); /* the last use of this stage was before the last barrier */
        next_q = load_4(q, q_exists, load_c + c + step, channels);
        next_k = load_4(k, k_exists, load_c + c + step, channels);
        add_step(sum, shared, stage, row, col);
    }
#pragma unroll
    for (int i = 0; i < own; i++) {
        const int64_t r = first_row + i / 4 * half + row + i % 4;
        if (r >= args.rows)
            continue;
#pragma unroll
        for (int j = 0; j < own; j += 4) {
            const int64_t c = first_col + j / 4 * half + col;
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
    return sparge::launch(score_tiles, ctas, threads, 0, stream, args);
}
