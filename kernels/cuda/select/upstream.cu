/* Parity mode's choice of key blocks (compat=upstream), with the bits of kernels/cpu/select/meansim.c and pooled.c.
 * Written to be read beside those files, not to be fast: one CTA a row of blocks, which
 *
 *   scores every visible block          in 16 bits, as the official code does, into the row's list
 *   sets those without similarity       they are no candidates
 *   ranks the candidates                by counting those before them: equal scores in the order of the blocks
 *   counts how many are taken           one thread adds up the probabilities in 16 bits
 *
 * and leaves the row of the mask. Lists, counts and order come from the mask afterwards, as for a mask from a file. */
#include "select.h"

#include "cuda/prepare/launch.cuh"
#include "cuda/prepare/round.cuh"

#include "exp.cuh"

namespace
{

constexpr int threads = 256, dot_lanes = 8; /* CPU_DOT_LANES */

struct row_shared {
    uint16_t order[SELECT_MOST_COLS]; /* candidates by falling score */
    unsigned candidates, fixed;
    unsigned long long mass; /* of all candidates */
    int64_t taken;
};

/* cpu_dot: eight sums of every 8th product, products and sums rounded on their own, then a tree over the eight. */
__device__ float dot(const float *a, const float *b, int channels)
{
    float lane[dot_lanes] = {};
    for (int c = 0; c < channels; c++)
        lane[c % dot_lanes] = __fadd_rn(lane[c % dot_lanes], __fmul_rn(a[c], b[c]));
    for (int half = dot_lanes / 2; half >= 1; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] = __fadd_rn(lane[l], lane[l + half]);
    return lane[0];
}

/* A partial block is dissimilar whatever its similarity, which is NaN in the official code. */
__device__ bool is_dissimilar(const select_args &args, float similarity, int head, bool partial)
{
    return partial || (args.theta ? !(similarity > args.theta[head]) : isnan(similarity));
}

/* The longest prefix whose probabilities, and their running sum, rounded to 16 bits, are at most tau. */
template <typename T> __device__ int64_t count_by_mass(const float *probability, const row_shared &shared, float tau)
{
    float sum = 0;
    unsigned count = 0;
    for (; count < shared.candidates; count++) {
        sum = sparge::round_16<T>(__fadd_rn(sum, sparge::round_16<T>(probability[shared.order[count]])));
        if (!(sum <= tau))
            break;
    }
    return count;
}

template <typename T>
__device__ int64_t count_taken(const select_args &args, const float *probability, const row_shared &shared, int head,
                               int64_t visible)
{
    int64_t count = args.count;
    if (args.rule == SELECT_BY_MASS)
        count = count_by_mass<T>(probability, shared, static_cast<float>(args.share[head]));
    if (args.rule == SELECT_BY_SHARE) /* of all blocks, not of the visible ones */
        count = static_cast<int64_t>(
            floorf(__fmul_rn(static_cast<float>(args.share[head]), static_cast<float>(args.cols))));
    if (args.rule == SELECT_BY_SPARSITY)
        count = static_cast<int64_t>(floor(__dadd_rn(__dmul_rn(args.kept, static_cast<double>(visible)), 0.5)));
    count = count > 1 ? count : 1;
    return count < shared.candidates ? count : shared.candidates;
}

/* Scores, and the mask of the blocks that are no candidates. */
template <typename T>
__device__ void score_row(const select_args &args, int64_t r, int64_t kv, int head, int64_t visible, float *score,
                          uint8_t *mask, row_shared &shared)
{
    const float *q = args.q_pool + r * args.head_dim;
    for (int64_t col = threadIdx.x; col < visible; col += threads) {
        const int64_t block = kv * args.cols + col;
        float s = sparge::round_16<T>(dot(q, args.k_pool + block * args.head_dim, args.head_dim));
        if (!args.k_sim) { /* MInference: nothing is scaled or judged; a block of which nothing is known comes first */
            score[col] = isnan(s) ? __int_as_float(0x7f800000) : s;
            continue;
        }
        s = sparge::round_16<T>(__fmul_rn(s, args.scale));
        const bool partial = (col + 1) * args.block_k > args.seqlen_k;
        const bool fixed = is_dissimilar(args, args.k_sim[block], head, partial) || isnan(s);
        mask[col] = fixed;
        score[col] = fixed ? __int_as_float(0xff800000) : s;
        if (fixed)
            atomicAdd(&shared.fixed, 1u);
    }
}

/* order[rank] = candidate. */
__device__ void rank_row(int64_t visible, const float *score, const uint8_t *mask, row_shared &shared)
{
    for (int64_t col = threadIdx.x; col < visible; col += threads) {
        if (mask[col])
            continue;
        unsigned rank = 0;
        for (int64_t other = 0; other < visible; other++)
            rank += !mask[other] && (score[other] > score[col] || (score[other] == score[col] && other < col));
        shared.order[rank] = static_cast<uint16_t>(col);
        atomicAdd(&shared.candidates, 1u);
    }
}

/* Scores become probabilities, in place. */
__device__ void softmax_row(int64_t visible, float *score, row_shared &shared)
{
    const float most = shared.candidates ? score[shared.order[0]] : 0;
    __syncthreads();
    for (int64_t col = threadIdx.x; col < visible; col += threads) {
        score[col] = sparge::select::select_exp(__fsub_rn(score[col], most));
        atomicAdd(&shared.mass, static_cast<unsigned long long>(sparge::select::mass_of(score[col])));
    }
    __syncthreads();
    const float total = __fmul_rn(__ull2float_rn(shared.mass), 0x1p-27f);
    for (int64_t col = threadIdx.x; col < visible && shared.mass; col += threads)
        score[col] = __fdiv_rn(score[col], total);
    __syncthreads();
}

template <typename T> __global__ void __launch_bounds__(threads) choose_row(const __grid_constant__ select_args args)
{
    __shared__ row_shared shared;
    const int64_t r = blockIdx.x, row = r % args.rows, bh = r / args.rows, visible = select_visible_cols(args, row);
    const int head = static_cast<int>(bh % args.heads_q);
    const int64_t kv = bh / args.heads_q * args.heads_kv + head / (args.heads_q / args.heads_kv);
    float *score = reinterpret_cast<float *>(args.list + r * args.list_stride);
    uint8_t *mask = args.mask + r * args.cols;
    const bool all = args.q_sim && is_dissimilar(args, args.q_sim[r], head, (row + 1) * args.block_q > args.seqlen_q);
    for (int64_t col = threadIdx.x; col < args.cols; col += threads)
        mask[col] = all && col < visible;
    if (all && threadIdx.x == 0)
        atomicAdd(args.extra, static_cast<unsigned long long>(visible));
    if (all || visible == 0)
        return;
    if (threadIdx.x == 0) {
        shared.candidates = shared.fixed = 0;
        shared.mass = 0;
    }
    __syncthreads();
    score_row<T>(args, r, kv, head, visible, score, mask, shared);
    __syncthreads();
    rank_row(visible, score, mask, shared);
    __syncthreads();
    if (args.rule == SELECT_BY_MASS)
        softmax_row(visible, score, shared);
    if (threadIdx.x == 0) {
        shared.taken = count_taken<T>(args, score, shared, head, visible);
        atomicAdd(args.extra, static_cast<unsigned long long>(shared.fixed));
        if (args.sink)
            mask[0] = 1;
    }
    __syncthreads();
    for (int64_t rank = threadIdx.x; rank < shared.taken; rank += threads)
        mask[shared.order[rank]] = 1;
}

} // namespace

cudaError_t select_launch_upstream(const select_args &args, int bf16, cudaStream_t stream)
{
    return sparge::launch(bf16 ? choose_row<__nv_bfloat16> : choose_row<__half>, args.row_blocks, threads, 0, stream,
                          args);
}
