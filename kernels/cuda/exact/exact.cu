/* Exact attention in float64 of selected rows: the reference of the error columns.
 *
 * A CTA takes ROWS rows of one head and walks over the keys they see, TILE at a time, with an online softmax:
 *
 *            TILE keys              D channels
 *          +----------+            +----------+     one buffer holds the K tile, then the V tile, as doubles;
 *   ROWS   |  S -> P  |     ROWS   |    O     |     S and P are in shared memory, O in registers,
 *          +----------+            +----------+     a row's maximum and sum in those of its warp
 *
 * K and V are read once a CTA, mostly from L2, in 16 bits: 4 * D bytes a key for 4 * D * ROWS operations, so the f64 pipe
 * and shared memory are what takes the time. Outputs go through a device buffer of at most CHUNK_ROWS rows. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math_constants.h>

#include "cuda/memory.h"

namespace
{

constexpr int threads = 256;
constexpr int warps = threads / 32;
constexpr int ROWS = 16, TILE = 64;
constexpr int64_t CHUNK_ROWS = 1 << 16; /* 64 MiB of doubles at 128 channels */
static_assert(TILE == 64 && ROWS == 2 * warps, "a warp owns two rows, a lane two keys of each");

struct exact_operand {
    const void *data;
    int64_t batch_stride, head_stride, token_stride;
};

struct exact_args {
    exact_operand q, k, v;
    const int64_t *rows;    /* NULL: all queries, in order */
    int64_t n_rows, groups; /* groups of ROWS rows a head */
    int64_t first_group;    /* of this launch: head * groups + group */
    int32_t heads_q, heads_kv, head_dim;
    int64_t seqlen_k, causal_shift; /* query i sees the keys before i + 1 + causal_shift */
    double scale;
    double *o, *lse; /* of the launch's first row on, head after head */
};

/* Rows of a tile are one double longer than needed: lanes that read one column of 32 rows meet no bank conflict. */
template <int D> struct exact_shared {
    double q[ROWS][D];
    double tile[TILE][D + 1];
    double p[ROWS][TILE];
    double rescale[ROWS]; /* of O: exp(old maximum - new maximum); at the end 1 / sum */
    int64_t end[ROWS];    /* keys that the row sees; 0 for rows that do not exist */
};

__device__ __forceinline__ double widen(__half x)
{
    return static_cast<double>(__half2float(x));
}

__device__ __forceinline__ double widen(__nv_bfloat16 x)
{
    return static_cast<double>(__bfloat162float(x));
}

__device__ __forceinline__ double warp_max(double x)
{
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        x = fmax(x, __shfl_xor_sync(~0u, x, step));
    return x;
}

__device__ __forceinline__ double warp_sum(double x)
{
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        x += __shfl_xor_sync(~0u, x, step);
    return x;
}

template <typename T>
__device__ __forceinline__ const T *head_of(const exact_operand &operand, int64_t batch, int64_t head)
{
    return static_cast<const T *>(operand.data) + batch * operand.batch_stride + head * operand.head_stride;
}

/* Keys first_key .. first_key + TILE - 1 as doubles; channels from head_dim and keys from `end` on are zero. */
template <typename T, int D>
__device__ __forceinline__ void load_tile(double (&tile)[TILE][D + 1], const T *head, int64_t token_stride,
                                          int64_t first_key, int64_t end, int head_dim)
{
    const int channel = static_cast<int>(threadIdx.x) % D;
#pragma unroll 8
    for (int row = static_cast<int>(threadIdx.x) / D; row < TILE; row += threads / D) {
        const int64_t key = first_key + row;
        tile[row][channel] = key < end && channel < head_dim ? widen(head[key * token_stride + channel]) : 0.0;
    }
}

template <typename T, int D> __global__ void __launch_bounds__(threads) exact_kernel(const exact_args args)
{
    extern __shared__ __align__(16) char memory[];
    exact_shared<D> &shared = *reinterpret_cast<exact_shared<D> *>(memory);
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int64_t group = args.first_group + blockIdx.x, bh = group / args.groups;
    const int64_t first = group % args.groups * ROWS; /* of the head's selected rows */
    const int64_t batch = bh / args.heads_q, head = bh % args.heads_q;
    const int64_t kv_head = head / (args.heads_q / args.heads_kv);
    const T *k = head_of<T>(args.k, batch, kv_head), *v = head_of<T>(args.v, batch, kv_head);

    /* Q, and what each row sees. */
    for (int i = thread; i < ROWS * D; i += threads) {
        const int row = i / D, channel = i % D;
        const bool is_row = first + row < args.n_rows;
        const int64_t query = !is_row ? 0 : args.rows ? args.rows[first + row] : first + row;
        shared.q[row][channel] = is_row && channel < args.head_dim
                                     ? widen(head_of<T>(args.q, batch, head)[query * args.q.token_stride + channel])
                                     : 0.0;
        if (channel == 0) {
            const int64_t seen = query + 1 + args.causal_shift;
            shared.end[row] = !is_row || seen < 0 ? 0 : seen < args.seqlen_k ? seen : args.seqlen_k;
        }
    }
    __syncthreads();
    int64_t most = 0;
    for (int row = 0; row < ROWS; row++)
        most = shared.end[row] > most ? shared.end[row] : most;

    constexpr int o_rows = ROWS * D / threads; /* of a thread: one channel of these many rows */
    const int channel = thread % D, first_o_row = thread / D * o_rows;
    double o[o_rows] = {};
    double max[2] = {-CUDART_INF, -CUDART_INF}, sum[2] = {0, 0}; /* of the warp's rows, in every lane */

    for (int64_t first_key = 0; first_key < most; first_key += TILE) {
        load_tile<T, D>(shared.tile, k, args.k.token_stride, first_key, most, args.head_dim);
        __syncthreads();

        { /* S: a thread computes one key of four rows */
            constexpr int s_rows = ROWS * TILE / threads;
            const int key = thread % TILE, first_row = thread / TILE * s_rows;
            double s[s_rows] = {};
#pragma unroll 8
            for (int d = 0; d < D; d++) {
                const double x = shared.tile[key][d];
#pragma unroll
                for (int i = 0; i < s_rows; i++)
                    s[i] = fma(shared.q[first_row + i][d], x, s[i]);
            }
#pragma unroll
            for (int i = 0; i < s_rows; i++)
                shared.p[first_row + i][key] =
                    first_key + key < shared.end[first_row + i] ? s[i] * args.scale : -CUDART_INF;
        }
        __syncthreads();

        load_tile<T, D>(shared.tile, v, args.v.token_stride, first_key, most, args.head_dim);
#pragma unroll
        for (int i = 0; i < 2; i++) { /* P */
            const int row = warp * 2 + i;
            const double s0 = shared.p[row][lane], s1 = shared.p[row][lane + 32];
            const double top = fmax(max[i], warp_max(fmax(s0, s1)));
            const double base = top == -CUDART_INF ? 0 : top; /* no key yet: exp(-inf - 0) = 0 */
            const double p0 = exp(s0 - base), p1 = exp(s1 - base), rescale = exp(max[i] - base);
            shared.p[row][lane] = p0;
            shared.p[row][lane + 32] = p1;
            if (lane == 0)
                shared.rescale[row] = rescale;
            sum[i] = sum[i] * rescale + warp_sum(p0 + p1);
            max[i] = top;
        }
        __syncthreads();

#pragma unroll
        for (int i = 0; i < o_rows; i++)
            o[i] *= shared.rescale[first_o_row + i];
#pragma unroll 4
        for (int key = 0; key < TILE; key++) {
            const double x = shared.tile[key][channel];
#pragma unroll
            for (int i = 0; i < o_rows; i++)
                o[i] = fma(shared.p[first_o_row + i][key], x, o[i]);
        }
        __syncthreads();
    }

    const int64_t begin = bh * args.n_rows + first -
                          (args.first_group / args.groups * args.n_rows + args.first_group % args.groups * ROWS);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int row = warp * 2 + i;
        if (lane != 0)
            continue;
        shared.rescale[row] = sum[i];
        if (args.lse && first + row < args.n_rows)
            args.lse[begin + row] = shared.end[row] > 0 ? max[i] + log(sum[i]) : -CUDART_INF;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < o_rows; i++) {
        const int row = first_o_row + i;
        if (first + row < args.n_rows && channel < args.head_dim)
            args.o[(begin + row) * args.head_dim + channel] = shared.end[row] > 0 ? o[i] / shared.rescale[row] : 0.0;
    }
}

exact_operand operand(const sparge_tensor *x)
{
    return {x->data, x->stride[0], x->stride[1], x->stride[2]};
}

int64_t causal_shift(const sparge_problem *problem)
{
    switch (problem->causal) {
    case SPARGE_CAUSAL_TOP_LEFT:
        return 0;
    case SPARGE_CAUSAL_BOTTOM_RIGHT:
        return problem->seqlen_k - problem->seqlen_q;
    default:
        return problem->seqlen_k; /* beyond every key */
    }
}

template <typename T, int D>
sparge_status launch(sparge_context *context, const exact_args &args, int64_t groups, cudaStream_t stream)
{
    constexpr int bytes = static_cast<int>(sizeof(exact_shared<D>));
    const sparge_status status = cuda_check(
        context, cudaFuncSetAttribute(exact_kernel<T, D>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "shared memory of the exact kernel");
    if (status != SPARGE_OK)
        return status;
    exact_kernel<T, D><<<dim3(static_cast<unsigned>(groups)), threads, bytes, stream>>>(args);
    return cuda_check(context, cudaGetLastError(), "launching the exact kernel");
}

sparge_status launch(sparge_context *context, sparge_dtype dtype, const exact_args &args, int64_t groups)
{
    const cudaStream_t stream = cuda_context_of(context)->stream;
    if (dtype == SPARGE_F16)
        return args.head_dim <= 64 ? launch<__half, 64>(context, args, groups, stream)
                                   : launch<__half, 128>(context, args, groups, stream);
    return args.head_dim <= 64 ? launch<__nv_bfloat16, 64>(context, args, groups, stream)
                               : launch<__nv_bfloat16, 128>(context, args, groups, stream);
}

/* What the launches need on the device: the queries' numbers, and the outputs of a chunk. */
struct exact_memory {
    void *rows, *o, *lse;
};

sparge_status take_memory(sparge_context *context, const int64_t *rows, int64_t n_rows, int64_t chunk_rows,
                          int32_t head_dim, bool wants_lse, exact_memory *memory)
{
    static const char what[] = "memory of the exact reference";
    const size_t doubles = static_cast<size_t>(chunk_rows) * sizeof(double);
    sparge_status status = cuda_allocate(context, what, doubles * static_cast<size_t>(head_dim), &memory->o);
    if (status == SPARGE_OK && wants_lse)
        status = cuda_allocate(context, what, doubles, &memory->lse);
    if (status != SPARGE_OK || !rows)
        return status;
    const size_t row_bytes = static_cast<size_t>(n_rows) * sizeof *rows; /* the caller's array has this size */
    status = cuda_allocate(context, what, row_bytes, &memory->rows);
    if (status != SPARGE_OK)
        return status;
    return cuda_check(
        context,
        cudaMemcpyAsync(memory->rows, rows, row_bytes, cudaMemcpyHostToDevice, cuda_context_of(context)->stream),
        "copying the rows' numbers");
}

/* `count` rows from position `first` of the outputs on. Waits. */
sparge_status read_back(sparge_context *context, const exact_args &args, int64_t first, int64_t count, double *o,
                        double *lse)
{
    static const char what[] = "reading the exact rows";
    const cudaStream_t stream = cuda_context_of(context)->stream;
    const size_t doubles = static_cast<size_t>(count) * sizeof(double);
    sparge_status status =
        cuda_check(context,
                   cudaMemcpyAsync(o + first * args.head_dim, args.o, doubles * static_cast<size_t>(args.head_dim),
                                   cudaMemcpyDeviceToHost, stream),
                   what);
    if (status == SPARGE_OK && lse)
        status =
            cuda_check(context, cudaMemcpyAsync(lse + first, args.lse, doubles, cudaMemcpyDeviceToHost, stream), what);
    return status == SPARGE_OK ? cuda_check(context, cudaStreamSynchronize(stream), what) : status;
}

} // namespace

sparge_status cuda_exact(sparge_context *context, const sparge_problem *problem, const sparge_tensor *q,
                         const sparge_tensor *k, const sparge_tensor *v, const int64_t *rows, int64_t n_rows, double *o,
                         double *lse)
{
    if (n_rows == 0)
        return SPARGE_OK;
    exact_args args = {};
    args.q = operand(q);
    args.k = operand(k);
    args.v = operand(v);
    args.n_rows = n_rows;
    args.groups = (n_rows + ROWS - 1) / ROWS;
    args.heads_q = problem->heads_q;
    args.heads_kv = problem->heads_kv;
    args.head_dim = problem->head_dim;
    args.seqlen_k = problem->seqlen_k;
    args.causal_shift = causal_shift(problem);
    args.scale = problem->scale > 0 ? static_cast<double>(problem->scale)
                                    : 1.0 / sqrt(static_cast<double>(problem->head_dim)); /* not rounded to float */
    const int64_t groups = static_cast<int64_t>(problem->batch) * problem->heads_q * args.groups;
    const int64_t chunk = groups < CHUNK_ROWS / ROWS ? groups : CHUNK_ROWS / ROWS;
    exact_memory memory = {};
    sparge_status status = take_memory(context, rows, n_rows, chunk * ROWS, args.head_dim, lse != nullptr, &memory);
    args.rows = static_cast<const int64_t *>(memory.rows);
    args.o = static_cast<double *>(memory.o);
    args.lse = static_cast<double *>(memory.lse);
    /* Groups are in the order of the outputs, so those of a chunk are one piece. */
    const auto position = [&](int64_t group) { return group / args.groups * n_rows + group % args.groups * ROWS; };
    for (int64_t first = 0; status == SPARGE_OK && first < groups; first += chunk) {
        const int64_t count = groups - first < chunk ? groups - first : chunk;
        args.first_group = first;
        status = launch(context, problem->dtype, args, count);
        if (status == SPARGE_OK)
            status = read_back(context, args, position(first), position(first + count) - position(first), o, lse);
    }
    cuda_deallocate(memory.rows);
    cuda_deallocate(memory.o);
    cuda_deallocate(memory.lse);
    return status;
}
