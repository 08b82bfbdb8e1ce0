/* Chooses the key blocks of every row block and writes its mask row, its tile list and their length. One CTA a row.
 *
 * The CPU (kernels/cpu/select/meansim.c, pooled.c) sorts the candidates by falling score, equal scores by index, gives
 * each a weight (its probability mass as an integer; 1 where blocks are only counted), and takes the longest prefix whose
 * weights sum to at most a limit, at least one. Here nothing is sorted:
 *
 *   key(x) maps a score to an integer of the same order (-0 counts as +0). Let W(k) be the weights of the candidates with
 *   a key above k. W never grows with k, and the prefixes of the sorted order that end between two different keys are
 *   exactly the sets {key > k}. Prefix sums never fall, so the longest prefix within the limit is {key > cut} and some of
 *   the candidates with key = cut, where cut is the largest k with W(k - 1) > limit. (If even W(0) is within the limit,
 *   all are taken.) Candidates with key = cut have equal scores, so equal weights w: the sort takes the first
 *   floor((limit - W(cut)) / w) of them by index.
 *
 * cut lies in (lo, hi] with W(lo) > limit >= W(hi); bisection between the scores of lo and hi narrows that. Once 32 or
 * fewer candidates are left inside, one warp ranks them; many equal scores end with hi = lo + 1 instead. Sums of integers
 * have no order, the limit is the CPU's product of doubles rounded down (sums are below 2^52, so comparing them as
 * integers is the same), and the exponential is the CPU's: the choice is bit-equal.
 *
 * A thread has 4 or 16 neighbouring columns in registers. A bisection step is one pass over them and one sum over the
 * CTA; 6 to 8 steps for 512 to 2048 candidates. Traffic: scores in, mask and lists out, 9 bytes a block at most. */
#include "select.h"

#include "cuda/prepare/launch.cuh"

namespace
{

constexpr int most_warps = 32;
constexpr int value_steps = 20; /* then bisect keys, which ends after 32 more whatever the scores */

__device__ __forceinline__ uint32_t key_of(float score)
{
    const uint32_t bits = __float_as_uint(__fadd_rn(score, 0.0f));
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u; /* -inf gives 0x007fffff; 0 is no score's */
}

__device__ __forceinline__ float score_of(uint32_t key)
{
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

/* kernels/cpu/select/exp.h */
__device__ __forceinline__ float select_exp(float x)
{
    if (!(x >= -87.0f))
        return 0.0f;
    const float magic = 12582912.0f;
    const float t = __fadd_rn(__fmul_rn(x, 1.44269504f), magic);
    const float k = __fsub_rn(t, magic);
    float r = __fsub_rn(x, __fmul_rn(k, 0.693359375f));
    r = __fsub_rn(r, __fmul_rn(k, -2.12194440e-4f));
    float p = 1.98412698e-4f;
    p = __fadd_rn(__fmul_rn(p, r), 1.38888889e-3f);
    p = __fadd_rn(__fmul_rn(p, r), 8.33333333e-3f);
    p = __fadd_rn(__fmul_rn(p, r), 4.16666667e-2f);
    p = __fadd_rn(__fmul_rn(p, r), 1.66666667e-1f);
    p = __fadd_rn(__fmul_rn(p, r), 0.5f);
    p = __fadd_rn(__fmul_rn(p, r), 1.0f);
    p = __fadd_rn(__fmul_rn(p, r), 1.0f);
    return __fmul_rn(p, __uint_as_float(static_cast<uint32_t>(__float2int_rz(k) + 127) << 23));
}

/* A number of candidates and the sum of their weights: at most 2^14 and 2^45, in one integer. */
using tally = unsigned long long;
constexpr int count_bit = 48;
__device__ __forceinline__ tally one(uint32_t weight)
{
    return (1ull << count_bit) + weight;
}
__device__ __forceinline__ uint32_t count_in(tally t)
{
    return static_cast<uint32_t>(t >> count_bit);
}
__device__ __forceinline__ uint64_t weight_in(tally t)
{
    return t & ((1ull << count_bit) - 1);
}

struct candidate {
    uint32_t key, weight, col;
};

struct row_shared {
    tally part[2][most_warps]; /* of each warp; two, so that one barrier a sum is enough */
    uint32_t most[most_warps], least[most_warps], sum[2][most_warps];
    candidate inside[32];
    uint32_t gathered;
    uint32_t cut, ties;
};

/* Sums over the CTA. All threads call them, and all get the sum. */
struct block_sums {
    row_shared &shared;
    int lane, warp, warps, turn;

    __device__ __forceinline__ explicit block_sums(row_shared &s)
        : shared(s), lane(static_cast<int>(threadIdx.x) % 32), warp(static_cast<int>(threadIdx.x) / 32),
          warps(static_cast<int>(blockDim.x) / 32), turn(0)
    {
    }

    /* Of a thread's at most 16 candidates, so that the parts below stay within 32 bits over a warp. */
    __device__ __forceinline__ tally add(tally t)
    {
        const uint32_t low = __reduce_add_sync(~0u, static_cast<uint32_t>(t) & 0xfffffu);
        const uint32_t high = __reduce_add_sync(~0u, count_in(t) << 21 | static_cast<uint32_t>(weight_in(t) >> 20));
        turn ^= 1;
        if (lane == 0)
            shared.part[turn][warp] =
                (static_cast<tally>(high >> 21) << count_bit) + (static_cast<tally>(high & 0x1fffffu) << 20) + low;
        __syncthreads();
        tally sum = 0;
        for (int w = 0; w < warps; w++)
            sum += shared.part[turn][w];
        return sum;
    }

    /* The sum of the threads before this one; *all: of every thread. */
    __device__ __forceinline__ uint32_t scan(uint32_t value, uint32_t *all)
    {
        uint32_t upto = value;
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const uint32_t before = __shfl_up_sync(~0u, upto, distance);
            if (lane >= distance)
                upto += before;
        }
        turn ^= 1;
        if (lane == 31)
            shared.sum[turn][warp] = upto;
        __syncthreads();
        uint32_t sum = 0, earlier = 0;
        for (int w = 0; w < warps; w++) {
            earlier += w < warp ? shared.sum[turn][w] : 0;
            sum += shared.sum[turn][w];
        }
        *all = sum;
        return earlier + upto - value;
    }

    __device__ __forceinline__ void extremes(uint32_t &most, uint32_t &least)
    {
        const uint32_t warp_most = __reduce_max_sync(~0u, most), warp_least = __reduce_min_sync(~0u, least);
        if (lane == 0) {
            shared.most[warp] = warp_most;
            shared.least[warp] = warp_least;
        }
        __syncthreads();
        for (int w = 0; w < warps; w++) {
            most = shared.most[w] > most ? shared.most[w] : most;
            least = shared.least[w] < least ? shared.least[w] : least;
        }
    }
};

/* The candidates of a thread: columns first, first + 1, ...; key 0: not a candidate. */
template <int PerThread> struct columns {
    uint32_t key[PerThread], weight[PerThread];
};

struct row_place {
    int64_t r, row, kv;
    int32_t head;
    int visible, first;
};

/* Blocks kept by rules that count, of `visible` ones. */
__device__ __forceinline__ int64_t count_limit(const select_args &args, int32_t head, int visible)
{
    double count = 0;
    switch (args.rule) {
    case SELECT_BY_SHARE:
        count = ceil(__dadd_rn(__dmul_rn(args.share[head], static_cast<double>(visible)), -1e-9));
        break;
    case SELECT_BY_SPARSITY:
        count = floor(__dadd_rn(__dmul_rn(args.kept, static_cast<double>(visible)), 0.5));
        break;
    default:
        return args.count;
    }
    return count > 1 ? static_cast<int64_t>(count) : 1;
}

/* Reads the scores; marks the blocks that are kept whatever their score in `keep`. */
template <int PerThread>
__device__ __forceinline__ void read_row(const select_args &args, const row_place &at, columns<PerThread> &own,
                                         unsigned &keep)
{
    const int4 *scores = reinterpret_cast<const int4 *>(args.list + at.r * args.list_stride + at.first);
    const bool pooled = args.rule == SELECT_BY_COUNT || args.rule == SELECT_BY_SPARSITY;
#pragma unroll
    for (int part = 0; part < PerThread / 4; part++) {
        int4 bits = make_int4(0, 0, 0, 0);
        if (at.first + 4 * part < at.visible)
            bits = scores[part];
        const int word[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int e = 4 * part + i, col = at.first + e;
            float score = __int_as_float(word[i]);
            own.key[e] = own.weight[e] = 0;
            if (col >= at.visible)
                continue;
            if (pooled && isnan(score))
                score = __int_as_float(0x7f800000); /* nothing is known about this block: rank it first */
            const bool fixed =
                isnan(score) || (args.theta && !(args.k_sim[at.kv * args.cols + col] > args.theta[at.head]));
            if (fixed)
                keep |= 1u << e;
            else
                own.key[e] = key_of(score);
        }
    }
}

/* What is known about the cut: it lies in (lo, hi]. */
struct bracket {
    uint32_t lo, hi;
    tally above_lo, above_hi; /* candidates with a key above lo, above hi */
    __device__ __forceinline__ uint32_t inside() const { return count_in(above_lo) - count_in(above_hi); }
};

template <int PerThread>
__device__ __forceinline__ void narrow(bracket &b, const columns<PerThread> &own, uint64_t limit, block_sums &sums)
{
    for (int step = 0; b.inside() > 32 && b.hi - b.lo > 1; step++) {
        uint32_t middle = key_of(__fadd_rn(__fmul_rn(score_of(b.lo), 0.5f), __fmul_rn(score_of(b.hi), 0.5f)));
        if (step >= value_steps || !(middle > b.lo && middle < b.hi)) /* also where it is NaN or infinite */
            middle = b.lo + (b.hi - b.lo) / 2;
        tally above = 0;
#pragma unroll
        for (int e = 0; e < PerThread; e++)
            if (own.key[e] > middle)
                above += one(own.weight[e]);
        above = sums.add(above);
        if (weight_in(above) <= limit) {
            b.hi = middle;
            b.above_hi = above;
        } else {
            b.lo = middle;
            b.above_lo = above;
        }
    }
}

/* One warp ranks the at most 32 candidates inside the bracket. The best one that is not taken has the cut's key. */
__device__ __forceinline__ void rank_inside(const bracket &b, uint64_t limit, row_shared &shared)
{
    const uint32_t lane = threadIdx.x % 32, inside = b.inside();
    candidate own = {0, 0, ~0u};
    if (lane < inside)
        own = shared.inside[lane];
    uint64_t sum = weight_in(b.above_hi); /* of all that come before it, and its own */
#pragma unroll 4
    for (int other = 0; other < 32; other++) {
        const uint32_t key = __shfl_sync(~0u, own.key, other), col = __shfl_sync(~0u, own.col, other);
        const uint32_t weight = __shfl_sync(~0u, own.weight, other);
        if (key > own.key || (key == own.key && col <= own.col))
            sum += weight;
    }
    const bool taken = lane < inside && sum <= limit;
    const uint32_t cut = __reduce_max_sync(~0u, lane < inside && !taken ? own.key : 0);
    const uint32_t ties = static_cast<uint32_t>(__popc(__ballot_sync(~0u, taken && own.key == cut)));
    const bool none = count_in(b.above_hi) == 0 && !__any_sync(~0u, taken);
    if (lane == 0) {
        shared.cut = cut;
        shared.ties = none ? 1 : ties;
    }
}

/* Keys above *cut are taken, and the first *ties that equal it. */
template <int PerThread>
__device__ __forceinline__ void find_cut(const columns<PerThread> &own, bracket b, uint64_t limit, int first,
                                         block_sums &sums, uint32_t *cut, uint32_t *ties)
{
    narrow(b, own, limit, sums);
    if (b.inside() > 32) { /* all of one key */
        const uint64_t weight = (weight_in(b.above_lo) - weight_in(b.above_hi)) / b.inside();
        const uint64_t fitting = (limit - weight_in(b.above_hi)) / weight; /* > 0: else lo would be within the limit */
        *cut = b.hi;
        *ties = count_in(b.above_hi) == 0 && fitting == 0 ? 1 : static_cast<uint32_t>(fitting);
        return;
    }
    row_shared &shared = sums.shared;
    if (threadIdx.x == 0)
        shared.gathered = 0;
    __syncthreads();
#pragma unroll
    for (int e = 0; e < PerThread; e++)
        if (own.key[e] > b.lo && own.key[e] <= b.hi)
            shared.inside[atomicAdd(&shared.gathered, 1u)] = {own.key[e], own.weight[e],
                                                              static_cast<uint32_t>(first + e)};
    __syncthreads();
    if (threadIdx.x < 32)
        rank_inside(b, limit, shared);
    __syncthreads();
    *cut = shared.cut;
    *ties = shared.ties;
}

/* Adds the chosen candidates to `keep`. */
template <int PerThread>
__device__ __forceinline__ void choose(const select_args &args, const row_place &at, columns<PerThread> &own,
                                       unsigned &keep, block_sums &sums)
{
    uint32_t most = 0, least = ~0u;
#pragma unroll
    for (int e = 0; e < PerThread; e++) {
        most = own.key[e] > most ? own.key[e] : most;
        least = own.key[e] && own.key[e] < least ? own.key[e] : least;
    }
    sums.extremes(most, least);
    if (most == 0)
        return; /* no candidates */
    const bool by_mass = args.rule == SELECT_BY_MASS;
    const float best = score_of(most);
    tally all = 0;
#pragma unroll
    for (int e = 0; e < PerThread; e++)
        if (own.key[e]) {
            own.weight[e] =
                by_mass ? __float2uint_rz(__fmul_rn(select_exp(__fsub_rn(score_of(own.key[e]), best)), 0x1p31f)) : 1;
            all += one(own.weight[e]);
        }
    all = sums.add(all);
    const uint64_t limit =
        by_mass ? static_cast<uint64_t>(__dmul_rn(args.share[at.head], static_cast<double>(weight_in(all))))
                : static_cast<uint64_t>(count_limit(args, at.head, at.visible));
    uint32_t cut = 0, ties = 0;
    if (weight_in(all) > limit)
        find_cut(own, {least - 1, most, all, 0}, limit, at.first, sums, &cut, &ties);
    uint32_t rank = 0;
    if (ties > 0) {
        uint32_t equal = 0, all_equal;
#pragma unroll
        for (int e = 0; e < PerThread; e++)
            equal += own.key[e] == cut;
        rank = sums.scan(equal, &all_equal);
    }
#pragma unroll
    for (int e = 0; e < PerThread; e++) {
        if (own.key[e] > cut || (own.key[e] == cut && cut != 0 && rank < ties))
            keep |= 1u << e;
        rank += own.key[e] == cut;
    }
}

template <int PerThread>
__device__ __forceinline__ void write_mask(const select_args &args, const row_place &at, unsigned keep)
{
    uint8_t *mask = args.mask + at.r * args.cols + at.first;
    if (args.cols % PerThread == 0) { /* so that every thread's columns lie together and aligned */
        uint32_t word[PerThread / 4];
#pragma unroll
        for (int i = 0; i < PerThread / 4; i++) {
            const unsigned bits = keep >> 4 * i;
            word[i] = (bits & 1) | (bits & 2) << 7 | (bits & 4) << 14 | (bits & 8) << 21;
        }
        if (at.first >= args.cols)
            return;
        if constexpr (PerThread == 16)
            *reinterpret_cast<uint4 *>(mask) = make_uint4(word[0], word[1], word[2], word[3]);
        else
            *reinterpret_cast<uint32_t *>(mask) = word[0];
        return;
    }
#pragma unroll
    for (int e = 0; e < PerThread; e++)
        if (at.first + e < args.cols)
            mask[e] = keep >> e & 1;
}

template <int PerThread, int MostThreads>
__global__ void __launch_bounds__(MostThreads) select_rows(const __grid_constant__ select_args args)
{
    __shared__ row_shared shared;
    block_sums sums(shared);
    row_place at;
    at.r = blockIdx.x;
    at.row = at.r % args.rows;
    const int64_t bh = at.r / args.rows;
    at.head = static_cast<int32_t>(bh % args.heads_q);
    at.kv = bh / args.heads_q * args.heads_kv + at.head / (args.heads_q / args.heads_kv);
    at.visible = static_cast<int>(select_visible_cols(args, at.row));
    at.first = static_cast<int>(threadIdx.x) * PerThread;

    unsigned keep = 0; /* bit e: column first + e */
    unsigned all_visible = 0;
#pragma unroll
    for (int e = 0; e < PerThread; e++)
        all_visible |= at.first + e < at.visible ? 1u << e : 0;
    uint32_t fixed = 0; /* of this thread: kept whatever their score */
    if (args.rule == SELECT_FROM_MASK) {
        for (int e = 0; e < PerThread; e++)
            if (all_visible >> e & 1)
                keep |= args.mask[at.r * args.cols + at.first + e] ? 1u << e : 0;
    } else if (args.theta && !(args.q_sim[at.r] > args.theta[at.head])) {
        keep = all_visible;
        fixed = static_cast<uint32_t>(__popc(keep));
    } else {
        columns<PerThread> own;
        read_row(args, at, own, keep);
        fixed = static_cast<uint32_t>(__popc(keep));
        choose(args, at, own, keep, sums);
        if (args.sink && at.first == 0)
            keep |= all_visible & 1;
    }
    if (args.rule != SELECT_FROM_MASK)
        write_mask<PerThread>(args, at, keep);

    /* A block of 128 keys is two tiles, of which the second may not exist. The scan's barrier is also what keeps the list
     * from overwriting scores that have not been read. */
    const int tiles_of_block = args.block_k / 64, last_col = static_cast<int>(args.cols) - 1;
    const bool half_last = tiles_of_block == 2 && args.tiles % 2 != 0 &&
                           last_col / PerThread == static_cast<int>(threadIdx.x) && (keep >> last_col % PerThread & 1);
    const uint32_t blocks = static_cast<uint32_t>(__popc(keep));
    uint32_t all_blocks, all_tiles;
    sums.scan(blocks | fixed << 16, &all_blocks); /* at most 2^14 of each */
    uint32_t at_tile = sums.scan(blocks * tiles_of_block - half_last, &all_tiles);
    int32_t *list = args.list + at.r * args.list_stride;
#pragma unroll
    for (int e = 0; e < PerThread; e++) {
        if (!(keep >> e & 1))
            continue;
        const int tile = (at.first + e) * tiles_of_block;
        list[at_tile++] = tile;
        if (tiles_of_block == 2 && tile + 1 < args.tiles)
            list[at_tile++] = tile + 1;
    }
    if (threadIdx.x == 0) {
        args.list_count[at.r] = static_cast<int32_t>(all_tiles);
        atomicAdd(args.qk, static_cast<unsigned long long>(all_blocks & 0xffff));
        if (all_blocks >> 16)
            atomicAdd(args.extra, static_cast<unsigned long long>(all_blocks >> 16));
    }
}

__global__ void set_counts(const select_args args)
{
    if (threadIdx.x == 0) {
        *args.visible = args.visible_blocks;
        *args.qk = static_cast<unsigned long long>(args.count);
        *args.extra = 0;
    }
}

template <int PerThread, int MostThreads> cudaError_t launch_rows(const select_args &args, cudaStream_t stream)
{
    const int64_t threads = (args.cols + 32 * PerThread - 1) / (32 * PerThread) * 32;
    return sparge::launch(select_rows<PerThread, MostThreads>, args.row_blocks, static_cast<int>(threads), 0, stream,
                          args);
}

} // namespace

cudaError_t select_launch_rows(const select_args &args, cudaStream_t stream)
{
    if (args.cols <= 128 * 4)
        return launch_rows<4, 128>(args, stream);
    return args.cols <= 128 * 16 ? launch_rows<16, 128>(args, stream) : launch_rows<16, 1024>(args, stream);
}

cudaError_t select_launch_counts(const select_args &args, unsigned long long qk, cudaStream_t stream)
{
    select_args with_count = args;
    with_count.count = static_cast<int64_t>(qk);
    return sparge::launch(set_counts, 1, 32, 0, stream, with_count);
}
