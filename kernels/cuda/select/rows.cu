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
 * Rows of at most 512 columns have a warp, longer ones up to 32; thread t of T has the columns t, t + T, t + 2 T, ... in
 * registers, so that memory is read and written by neighbours, and places in a list come from ballots. A bisection step
 * is one pass over the registers and one sum over the row's threads; 6 to 8 steps for 512 to 2048 candidates. Traffic:
 * scores in, mask and lists out, 9 bytes a block at most. */
#include "select.h"

#include "cuda/attend.h"
#include "cuda/prepare/launch.cuh"

#include "exp.cuh"

namespace
{

constexpr int per_thread = 16;  /* columns of a thread */
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

using sparge::select::mass_of;
using sparge::select::select_exp;

/* A number of candidates and the sum of their weights. Of a thread: weights are at most 2^27, and there are at most 16. */
struct tally {
    uint32_t count, weight;
    template <bool Weighted> __device__ __forceinline__ void add(bool counts, uint32_t w)
    {
        count += counts ? 1 : 0;
        if constexpr (Weighted)
            weight += counts ? w : 0;
    }
};

struct row_tally {
    uint32_t count;
    uint64_t weight;
};

struct candidate {
    uint32_t key, weight, col;
};

template <int Warps> struct row_shared {
    row_tally part[2][Warps]; /* of each warp; two, so that one barrier a sum is enough */
    uint32_t most[Warps], least[Warps];
    uint32_t marked[per_thread * Warps]; /* marks of a warp's columns, then the number of marks before them */
    uint32_t all_marked;
    candidate inside[32];
    uint32_t gathered;
    uint32_t cut, ties;
};

/* What the threads of a row find out together; all of them call, and all get the result. */
template <int Warps> struct row_threads {
    static constexpr int threads = Warps * 32;
    row_shared<Warps> &shared;
    int lane, warp, turn;

    __device__ __forceinline__ explicit row_threads(row_shared<Warps> &s)
        : shared(s), lane(static_cast<int>(threadIdx.x) % 32), warp(static_cast<int>(threadIdx.x) / 32), turn(0)
    {
    }

    __device__ __forceinline__ static void barrier()
    {
        if constexpr (Warps > 1)
            __syncthreads();
        else
            __syncwarp();
    }

    /* Weighted: else all weights are 1, and t.weight is not read. */
    template <bool Weighted> __device__ __forceinline__ row_tally add(tally t)
    {
        row_tally sum = {__reduce_add_sync(~0u, t.count), 0};
        if constexpr (Weighted)
            sum.weight = (static_cast<uint64_t>(__reduce_add_sync(~0u, t.weight >> 16)) << 16) +
                         __reduce_add_sync(~0u, t.weight & 0xffff);
        if constexpr (Warps > 1) {
            turn ^= 1;
            if (lane == 0)
                shared.part[turn][warp] = sum;
            __syncthreads();
            sum = {0, 0};
#pragma unroll
            for (int w = 0; w < Warps; w++) {
                sum.count += shared.part[turn][w].count;
                if constexpr (Weighted)
                    sum.weight += shared.part[turn][w].weight;
            }
        }
        if constexpr (!Weighted)
            sum.weight = sum.count;
        return sum;
    }

    __device__ __forceinline__ void extremes(uint32_t &most, uint32_t &least)
    {
        most = __reduce_max_sync(~0u, most);
        least = __reduce_min_sync(~0u, least);
        if constexpr (Warps == 1)
            return;
        if (lane == 0) {
            shared.most[warp] = most;
            shared.least[warp] = least;
        }
        __syncthreads();
        for (int w = 0; w < Warps; w++) {
            most = shared.most[w] > most ? shared.most[w] : most;
            least = shared.least[w] < least ? shared.least[w] : least;
        }
    }

    /* visit(e, n) for every bit e of `marks`, n being the number of marked columns before this one, of all threads.
     * Returns the number of marked columns. */
    template <typename Visit> __device__ __forceinline__ uint32_t for_marked(unsigned marks, Visit visit)
    {
        uint32_t before = 0;
        if constexpr (Warps > 1) {
#pragma unroll
            for (int e = 0; e < per_thread; e++) {
                const uint32_t ballot = __ballot_sync(~0u, marks >> e & 1);
                if (lane == 0)
                    shared.marked[e * Warps + warp] = static_cast<uint32_t>(__popc(ballot));
            }
            __syncthreads();
            if (warp == 0)
                scan_marked();
            __syncthreads();
        }
#pragma unroll
        for (int e = 0; e < per_thread; e++) {
            const uint32_t ballot = __ballot_sync(~0u, marks >> e & 1);
            if constexpr (Warps > 1)
                before = shared.marked[e * Warps + warp];
            if (marks >> e & 1)
                visit(e, before + static_cast<uint32_t>(__popc(ballot & ((1u << lane) - 1))));
            if constexpr (Warps == 1)
                before += static_cast<uint32_t>(__popc(ballot));
        }
        if constexpr (Warps == 1)
            return before;
        const uint32_t all = shared.all_marked;
        __syncthreads(); /* before the next call */
        return all;
    }

    /* By one warp: numbers of marks become numbers of marks before. */
    __device__ __forceinline__ void scan_marked()
    {
        constexpr int own = (per_thread * Warps + 31) / 32;
        uint32_t upto = 0;
#pragma unroll
        for (int i = 0; i < own; i++)
            upto += shared.marked[lane * own + i];
        const uint32_t mine = upto;
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const uint32_t earlier = __shfl_up_sync(~0u, upto, distance);
            if (lane >= distance)
                upto += earlier;
        }
        if (lane == 31)
            shared.all_marked = upto;
        uint32_t before = upto - mine;
#pragma unroll
        for (int i = 0; i < own; i++) {
            const uint32_t here = shared.marked[lane * own + i];
            shared.marked[lane * own + i] = before;
            before += here;
        }
    }
};

/* The candidates of a thread; key 0: not a candidate. */
struct columns {
    uint32_t key[per_thread], weight[per_thread];
};

/* How many of the first `cols` columns this thread has. */
template <int Warps> __device__ __forceinline__ int own_of(int cols)
{
    const int left = cols - static_cast<int>(threadIdx.x), threads = row_threads<Warps>::threads;
    return left <= 0 ? 0 : (left + threads - 1) / threads;
}

struct row_place {
    int64_t r, row, kv;
    int32_t head;
    int visible; /* columns */
    int own;     /* of this thread: col(0) .. col(own - 1) */
    template <int Warps> __device__ __forceinline__ static int col(int e)
    {
        return e * row_threads<Warps>::threads + static_cast<int>(threadIdx.x);
    }
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
template <int Warps>
__device__ __forceinline__ void read_row(const select_args &args, const row_place &at, columns &own, unsigned &keep)
{
    const int32_t *scores = args.list + at.r * args.list_stride;
    const bool pooled = args.rule == SELECT_BY_COUNT || args.rule == SELECT_BY_SPARSITY;
    const float theta = args.theta ? args.theta[at.head] : 0;
    const float *k_sim = args.k_sim + at.kv * args.cols;
    float score[per_thread], similarity[per_thread]; /* read together: in turn, each would wait for the one before */
#pragma unroll
    for (int e = 0; e < per_thread; e++)
        score[e] = e < at.own ? __int_as_float(scores[at.col<Warps>(e)]) : 0;
    if (args.theta) {
#pragma unroll
        for (int e = 0; e < per_thread; e++)
            similarity[e] = e < at.own ? k_sim[at.col<Warps>(e)] : INFINITY;
#pragma unroll
        for (int e = 0; e < per_thread; e++)
            keep |= similarity[e] > theta ? 0 : 1u << e;
    }
#pragma unroll
    for (int e = 0; e < per_thread; e++) {
        const bool unknown = isnan(score[e]); /* pooled: rank it first */
        keep |= unknown && !pooled ? 1u << e : 0;
        const uint32_t key = key_of(unknown ? INFINITY : score[e]);
        own.key[e] = e < at.own && !(keep >> e & 1) ? key : 0;
    }
}

/* What is known about the cut: it lies in (lo, hi]. */
struct bracket {
    uint32_t lo, hi;
    row_tally above_lo, above_hi; /* candidates with a key above lo, above hi */
    __device__ __forceinline__ uint32_t inside() const { return above_lo.count - above_hi.count; }
};

template <int Warps, bool Weighted>
__device__ __forceinline__ void narrow(bracket &b, const columns &own, uint64_t limit, row_threads<Warps> &row)
{
    for (int step = 0; b.inside() > 32 && b.hi - b.lo > 1; step++) {
        uint32_t middle = key_of(__fadd_rn(__fmul_rn(score_of(b.lo), 0.5f), __fmul_rn(score_of(b.hi), 0.5f)));
        if (step >= value_steps || !(middle > b.lo && middle < b.hi)) /* also where it is NaN or infinite */
            middle = b.lo + (b.hi - b.lo) / 2;
        tally own_above = {0, 0};
#pragma unroll
        for (int e = 0; e < per_thread; e++)
            own_above.template add<Weighted>(own.key[e] > middle, own.weight[e]);
        const row_tally above = row.template add<Weighted>(own_above);
        if (above.weight <= limit) {
            b.hi = middle;
            b.above_hi = above;
        } else {
            b.lo = middle;
            b.above_lo = above;
        }
    }
}

/* One warp ranks the at most 32 candidates inside the bracket. The best one that is not taken has the cut's key. */
template <int Warps>
__device__ __forceinline__ void rank_inside(const bracket &b, uint64_t limit, row_shared<Warps> &shared)
{
    const uint32_t lane = threadIdx.x % 32, inside = b.inside();
    const candidate own = lane < inside ? shared.inside[lane] : candidate{0, 0, ~0u};
    uint64_t sum = b.above_hi.weight; /* of all that come before it, and its own */
#pragma unroll 4
    for (uint32_t i = 0; i < inside; i++) {
        const candidate other = shared.inside[i];
        if (other.key > own.key || (other.key == own.key && other.col <= own.col))
            sum += other.weight;
    }
    const bool taken = lane < inside && sum <= limit;
    const uint32_t cut = __reduce_max_sync(~0u, lane < inside && !taken ? own.key : 0);
    const uint32_t ties = static_cast<uint32_t>(__popc(__ballot_sync(~0u, taken && own.key == cut)));
    const bool none = b.above_hi.count == 0 && !__any_sync(~0u, taken);
    if (lane == 0) {
        shared.cut = cut;
        shared.ties = none ? 1 : ties;
    }
}

/* Keys above *cut are taken, and the first *ties that equal it. */
template <int Warps, bool Weighted>
__device__ __forceinline__ void find_cut(const columns &own, bracket b, uint64_t limit, row_threads<Warps> &row,
                                         uint32_t *cut, uint32_t *ties)
{
    narrow<Warps, Weighted>(b, own, limit, row);
    if (b.inside() > 32) { /* all of one key */
        const uint64_t weight = (b.above_lo.weight - b.above_hi.weight) / b.inside();
        const uint64_t fitting = (limit - b.above_hi.weight) / weight; /* > 0: else lo would be within the limit */
        *cut = b.hi;
        *ties = b.above_hi.count == 0 && fitting == 0 ? 1 : static_cast<uint32_t>(fitting);
        return;
    }
    row_shared<Warps> &shared = row.shared;
    if (threadIdx.x == 0)
        shared.gathered = 0;
    row.barrier();
#pragma unroll
    for (int e = 0; e < per_thread; e++)
        if (own.key[e] > b.lo && own.key[e] <= b.hi)
            shared.inside[atomicAdd(&shared.gathered, 1u)] = {own.key[e], Weighted ? own.weight[e] : 1,
                                                              static_cast<uint32_t>(row_place::col<Warps>(e))};
    row.barrier();
    if (row.warp == 0)
        rank_inside(b, limit, shared);
    row.barrier();
    *cut = shared.cut;
    *ties = shared.ties;
}

/* Adds the chosen candidates to `keep`. Weighted: by mass; else they are counted. */
template <int Warps, bool Weighted>
__device__ __forceinline__ void choose(const select_args &args, const row_place &at, columns &own, unsigned &keep,
                                       row_threads<Warps> &row)
{
    uint32_t most = 0, least = ~0u;
#pragma unroll
    for (int e = 0; e < per_thread; e++) {
        most = own.key[e] > most ? own.key[e] : most;
        least = own.key[e] && own.key[e] < least ? own.key[e] : least;
    }
    row.extremes(most, least);
    if (most == 0)
        return; /* no candidates */
    const float best = score_of(most);
    tally own_all = {0, 0};
    if constexpr (Weighted)
#pragma unroll
        for (int e = 0; e < per_thread; e++)
            own.weight[e] = mass_of(select_exp(__fsub_rn(score_of(own.key[e]), best)));
#pragma unroll
    for (int e = 0; e < per_thread; e++)
        own_all.template add<Weighted>(own.key[e] != 0, own.weight[e]);
    const row_tally all = row.template add<Weighted>(own_all);
    const uint64_t limit = Weighted
                               ? static_cast<uint64_t>(__dmul_rn(args.share[at.head], static_cast<double>(all.weight)))
                               : static_cast<uint64_t>(count_limit(args, at.head, at.visible));
    uint32_t cut = 0, ties = 0;
    if (all.weight > limit)
        find_cut<Warps, Weighted>(own, {least - 1, most, all, {0, 0}}, limit, row, &cut, &ties);
    unsigned equal = 0;
#pragma unroll
    for (int e = 0; e < per_thread; e++) {
        keep |= own.key[e] > cut ? 1u << e : 0;
        equal |= cut != 0 && own.key[e] == cut ? 1u << e : 0;
    }
    if (ties > 0)
        row.for_marked(equal, [&](int e, uint32_t earlier) { keep |= earlier < ties ? 1u << e : 0; });
}

/* CTAs an SM is to hold: 32 warps, in as many CTAs as it takes. */
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 870)
constexpr int most_ctas = 16;
#elif defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200)
constexpr int most_ctas = 24;
#else
constexpr int most_ctas = 32;
#endif
template <int Warps> constexpr int ctas_of_sm = 32 / Warps < most_ctas ? 32 / Warps : most_ctas;

template <int Warps>
__global__ void __launch_bounds__(Warps * 32, ctas_of_sm<Warps>) select_rows(const __grid_constant__ select_args args)
{
    __shared__ row_shared<Warps> shared;
    row_threads<Warps> threads(shared);
    /* In 32 bits, as all of these are (check_limits): a division of 64 bits takes many instructions. */
    const uint32_t bh = blockIdx.x / static_cast<uint32_t>(args.rows), heads_q = static_cast<uint32_t>(args.heads_q);
    const uint32_t head = bh % heads_q, group = heads_q / static_cast<uint32_t>(args.heads_kv);
    row_place at;
    at.r = blockIdx.x;
    at.row = blockIdx.x - bh * static_cast<uint32_t>(args.rows);
    at.head = static_cast<int32_t>(head);
    at.kv = bh / heads_q * static_cast<uint32_t>(args.heads_kv) + head / group;
    at.visible = static_cast<int>(select_visible_cols(args, at.row));
    at.own = own_of<Warps>(at.visible);

    uint8_t *mask = args.mask + at.r * args.cols;
    unsigned keep = 0; /* bit e: column col(e) */
    const unsigned all_visible = (1u << at.own) - 1;
    uint32_t fixed = 0; /* of this thread: kept whatever their score */
    if (args.rule == SELECT_FROM_MASK) {
#pragma unroll
        for (int e = 0; e < per_thread; e++)
            if (all_visible >> e & 1)
                keep |= mask[at.col<Warps>(e)] ? 1u << e : 0;
    } else if (args.theta && !(args.q_sim[at.r] > args.theta[at.head])) {
        keep = all_visible;
        fixed = static_cast<uint32_t>(__popc(keep));
    } else {
        columns own;
        read_row<Warps>(args, at, own, keep);
        fixed = static_cast<uint32_t>(__popc(keep));
        if (args.rule == SELECT_BY_MASS)
            choose<Warps, true>(args, at, own, keep, threads);
        else
            choose<Warps, false>(args, at, own, keep, threads);
        if (args.sink && threadIdx.x == 0)
            keep |= all_visible & 1;
    }
    if (args.rule != SELECT_FROM_MASK) {
        const int existing = own_of<Warps>(static_cast<int>(args.cols));
#pragma unroll
        for (int e = 0; e < per_thread; e++)
            if (e < existing)
                mask[at.col<Warps>(e)] = keep >> e & 1;
    }

    /* A block of 128 keys is two tiles, of which the second may not exist: it would be the list's last one. No score is
     * overwritten by the list before it is read: the places in it depend on what all threads have read. */
    const bool two = args.block_k == 2 * ATTEND_TILE_KEYS;
    int32_t *list = args.list + at.r * args.list_stride;
    const int last_col = args.tiles % 2 ? static_cast<int>(args.cols) - 1 : -1; /* whose second tile does not exist */
    uint32_t blocks;
    uint32_t missing = 0;
    if (two) {
        blocks = threads.for_marked(keep, [&](int e, uint32_t n) {
            const int col = at.col<Warps>(e);
            list[2 * n] = 2 * col;
            if (col == last_col)
                missing++;
            else
                list[2 * n + 1] = 2 * col + 1;
        });
    } else {
        blocks = threads.for_marked(keep, [&](int e, uint32_t n) { list[n] = at.col<Warps>(e); });
    }
    const row_tally row = threads.template add<true>({fixed, missing});
    if (threadIdx.x == 0) {
        args.list_count[at.r] = static_cast<int32_t>(two ? 2 * blocks - static_cast<uint32_t>(row.weight) : blocks);
        atomicAdd(args.qk, static_cast<unsigned long long>(blocks));
        if (row.count)
            atomicAdd(args.extra, static_cast<unsigned long long>(row.count));
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

template <int Warps> cudaError_t launch_rows(const select_args &args, cudaStream_t stream)
{
    return sparge::launch(select_rows<Warps>, args.row_blocks, Warps * 32, 0, stream, args);
}

} // namespace

cudaError_t select_launch_rows(const select_args &args, cudaStream_t stream)
{
    constexpr int of_warp = 32 * per_thread;
    if (args.cols <= of_warp)
        return launch_rows<1>(args, stream);
    if (args.cols <= 2 * of_warp)
        return launch_rows<2>(args, stream);
    if (args.cols <= 4 * of_warp)
        return launch_rows<4>(args, stream);
    return args.cols <= 8 * of_warp ? launch_rows<8>(args, stream) : launch_rows<32>(args, stream);
}

cudaError_t select_launch_counts(const select_args &args, unsigned long long qk, cudaStream_t stream)
{
    select_args with_count = args;
    with_count.count = static_cast<int64_t>(qk);
    return sparge::launch(set_counts, 1, 32, 0, stream, with_count);
}
