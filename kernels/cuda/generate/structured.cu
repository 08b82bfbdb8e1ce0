/* Q and K of the structured model (generate/model.h).
 *
 * A quad of threads makes one row. Thread i of the quad has the channels i, i + 4, i + 8, ... in registers: one strand
 * of the sums of squares that the model defines, so that a row is normalised with two shuffles and the CPU's bits.
 *
 *   anchors   [owner][total][channels] f32: for each owner, a (batch, KV head), the table of its field
 *   rows      the heads of these owners, in the order of the tensor; a row reads two anchors an axis, from L2
 *
 * Owners are taken in batches, so that their anchors stay within TABLE_BYTES (or are those of one owner). Traffic: the
 * tensor written once; 2 * axes * channels * 4 bytes read from L2 for each row. */
#include <stdlib.h>

#include "cuda/generate/generate.h"
#include "cuda/generate/store.cuh"
#include "cuda/memory.h"

namespace
{

constexpr int threads = 256;
constexpr int block_rows = threads / 4;
constexpr size_t TABLE_BYTES = static_cast<size_t>(64) << 20;

struct structured_args {
    structured_layout layout;
    uint64_t seed;
    generate_stream stream; /* of the noise */
    float *anchor;          /* [owners][total][channels] */
    const structured_head *head;
    void *out;             /* the first row of the first head */
    int64_t first_owner;   /* of this launch */
    int64_t heads_kv;      /* owners of a batch */
    int64_t owners, heads; /* of this launch */
    int64_t tokens;
    int32_t heads_per_owner, channels;
};

/* The sum over a quad's strands: (0 + 1) + (2 + 3), whichever thread adds. */
__device__ __forceinline__ float quad_sum(float strand)
{
    strand += __shfl_xor_sync(~0u, strand, 1);
    return strand + __shfl_xor_sync(~0u, strand, 2);
}

/* The word of this thread's strand. */
__device__ __forceinline__ uint32_t word_of(const philox_words &random, int strand)
{
    const uint32_t low = strand == 0 ? random.word[0] : random.word[1];
    const uint32_t high = strand == 2 ? random.word[2] : random.word[3];
    return strand < 2 ? low : high;
}

/* A thread's channels strand, strand + 4, ...: at most Count, those from `channels` on are kept at zero. All threads of
 * a warp call these together. */
template <int Count> struct strand_row {
    float value[Count];

    __device__ __forceinline__ float normaliser(int channels) const
    {
        float square = 0;
#pragma unroll
        for (int i = 0; i < Count; i++)
            square += ieee_product(value[i], value[i]); /* adding a square of zero changes nothing */
        return structured_normaliser(quad_sum(square), channels);
    }

    __device__ __forceinline__ void scale(float factor)
    {
#pragma unroll
        for (int i = 0; i < Count; i++)
            value[i] = ieee_product(value[i], factor);
    }

    /* The field along one axis, from the owner's table. */
    __device__ __forceinline__ void set_axis(const structured_layout &layout, const float *anchor, int axis,
                                             int64_t cell, int strand, int channels)
    {
        const structured_span span = structured_span_of(&layout, axis, cell);
        const float *a = anchor + span.anchor * channels, *b = a + channels;
#pragma unroll
        for (int i = 0; i < Count; i++) {
            const int c = strand + 4 * i;
            value[i] = c < channels ? structured_between(&span, a[c], b[c]) : 0.0f;
        }
        scale(normaliser(channels));
    }
};

__device__ __forceinline__ int64_t quad_index()
{
    return static_cast<int64_t>(blockIdx.x) * block_rows + threadIdx.x / 4;
}

template <int Count> __global__ void __launch_bounds__(threads) anchor_kernel(const structured_args args)
{
    const int64_t total = args.layout.total, quads = args.owners * total;
    const int64_t quad = quad_index(), at = quad < quads ? quad : quads - 1; /* the shuffles need whole warps */
    const int strand = static_cast<int>(threadIdx.x) % 4;
    const int64_t owner = args.first_owner + at / total, index = at % total;
    const int axis = structured_anchor_axis(&args.layout, index);
    const generate_stream stream = static_cast<generate_stream>(STREAM_FIELD + axis);
    strand_row<Count> row;
#pragma unroll
    for (int i = 0; i < Count; i++) {
        const philox_words random = generate_words(args.seed, stream, owner / args.heads_kv, owner % args.heads_kv,
                                                   index - args.layout.first[axis], i);
        row.value[i] = strand + 4 * i < args.channels ? normal_from_bits(word_of(random, strand)) : 0.0f;
    }
    row.scale(row.normaliser(args.channels));
    float *out = args.anchor + at * args.channels;
#pragma unroll
    for (int i = 0; i < Count; i++)
        if (quad < quads && strand + 4 * i < args.channels)
            out[strand + 4 * i] = row.value[i];
}

template <typename T, int Count> __global__ void __launch_bounds__(threads) row_kernel(const structured_args args)
{
    const int64_t quads = args.heads * args.tokens;
    const int64_t quad = quad_index(), at = quad < quads ? quad : quads - 1;
    const int strand = static_cast<int>(threadIdx.x) % 4, channels = args.channels;
    const int64_t which = at / args.tokens, token = at % args.tokens;
    const structured_head *head = args.head + which;
    const float *anchor = args.anchor + which / args.heads_per_owner * args.layout.total * channels;

    /* Rows of a warp may lie on and off the grid. Text goes through the loop over the axes like the others, so that
     * whole warps take each turn; a row without a cell on an axis computes cell 0 and drops it. */
    const structured_cells cells = structured_cells_of(&args.layout, token);
    const bool is_text = cells.at[FIELD_TEXT] >= 0;
    strand_row<Count> field = {};
#pragma unroll 1
    for (int axis = FIELD_T; axis < FIELD_AXES; axis++) {
        const int64_t cell = cells.at[axis];
        if (!__any_sync(~0u, cell >= 0))
            continue;
        strand_row<Count> one;
        one.set_axis(args.layout, anchor, axis, cell < 0 ? 0 : cell, strand, channels);
#pragma unroll
        for (int i = 0; i < Count; i++)
            if (cell >= 0)
                field.value[i] = is_text ? one.value[i] : field.value[i] + one.value[i];
    }
    const float factor = field.normaliser(channels);
    field.scale(is_text ? 1.0f : factor); /* text lies along one axis: it has its length already */

    T *out = static_cast<T *>(args.out) + at * channels;
#pragma unroll
    for (int i = 0; i < Count; i++) {
        const int c = strand + 4 * i;
        if (quad >= quads || c >= channels)
            continue;
        const philox_words random = generate_words(args.seed, args.stream, head->batch, head->head, token, i);
        const float noise = normal_from_bits(word_of(random, strand));
        out[c] = sparge::generate::rounded<T>(structured_value(head, token, c, field.value[i], noise));
    }
}

dim3 grid_of(int64_t quads)
{
    return dim3(static_cast<unsigned>((quads + block_rows - 1) / block_rows));
}

template <typename T, int Count> void launch(const structured_args &args, cudaStream_t stream)
{
    if (args.layout.total > 0)
        anchor_kernel<Count><<<grid_of(args.owners * args.layout.total), threads, 0, stream>>>(args);
    row_kernel<T, Count><<<grid_of(args.heads * args.tokens), threads, 0, stream>>>(args);
}

template <typename T> void launch(const structured_args &args, cudaStream_t stream)
{
    if (args.channels <= 64)
        launch<T, 16>(args, stream);
    else
        launch<T, SPARGE_MAX_HEAD_DIM / 4>(args, stream);
}

/* The memory of a launch: tables of anchors and heads on the device, and the heads to copy there. */
struct tables {
    void *anchor, *head;
    structured_head *host;
};

sparge_status take_tables(sparge_context *context, size_t anchor_bytes, size_t head_bytes, tables *taken)
{
    static const char what[] = "tables of the structured generator";
    sparge_status status = cuda_allocate(context, what, anchor_bytes, &taken->anchor);
    if (status == SPARGE_OK)
        status = cuda_allocate(context, what, head_bytes, &taken->head);
    if (status != SPARGE_OK)
        return status;
    taken->host = static_cast<structured_head *>(malloc(head_bytes));
    return taken->host ? SPARGE_OK
                       : sparge_context_fail(context, SPARGE_ERROR_OUT_OF_MEMORY, "%s: out of host memory, %zu bytes",
                                             what, head_bytes);
}

/* The rows of args.owners owners from args.first_owner on. Waits, so that the tables can be filled anew. */
sparge_status generate_owners(sparge_context *context, const sparge_generator *generator, sparge_tensor_role role,
                              const sparge_tensor *tensor, structured_args args, const tables *memory)
{
    static const char what[] = "generating";
    const cudaStream_t stream = cuda_context_of(context)->stream;
    const int64_t first_head = args.first_owner * args.heads_per_owner, heads = tensor->shape[1];
    const int64_t row_bytes = args.channels * static_cast<int64_t>(sparge_dtype_bytes(tensor->dtype));
    args.heads = args.owners * args.heads_per_owner;
    args.out = static_cast<char *>(tensor->data) + first_head * args.tokens * row_bytes;
    for (int64_t i = 0; i < args.heads; i++)
        memory->host[i] =
            structured_head_make(generator, role, (first_head + i) / heads, (first_head + i) % heads, args.channels);
    sparge_status status =
        cuda_check(context,
                   cudaMemcpyAsync(memory->head, memory->host, static_cast<size_t>(args.heads) * sizeof *memory->host,
                                   cudaMemcpyHostToDevice, stream),
                   what);
    if (status != SPARGE_OK)
        return status;
    if (tensor->dtype == SPARGE_F32)
        launch<float>(args, stream);
    else if (tensor->dtype == SPARGE_F16)
        launch<__half>(args, stream);
    else
        launch<__nv_bfloat16>(args, stream);
    status = cuda_check(context, cudaGetLastError(), "launching the generator");
    return status == SPARGE_OK ? cuda_check(context, cudaStreamSynchronize(stream), what) : status;
}

} // namespace

sparge_status cuda_generate_structured(sparge_context *context, const sparge_generator *generator,
                                       sparge_tensor_role role, const sparge_tensor *tensor)
{
    structured_args args = {};
    args.layout = structured_layout_of(generator, tensor->shape[2]);
    args.seed = generator->seed;
    args.stream = generate_stream_of(role);
    args.heads_kv = generator->heads_kv;
    args.tokens = tensor->shape[2];
    args.channels = static_cast<int32_t>(tensor->shape[3]);
    args.heads_per_owner = role == SPARGE_ROLE_Q ? generator->heads_q / generator->heads_kv : 1;

    size_t owner_anchors;
    sparge_status status =
        cuda_size_product(context, "anchors of the structured generator", static_cast<size_t>(args.layout.total),
                          static_cast<size_t>(args.channels) * sizeof *args.anchor, &owner_anchors);
    if (status != SPARGE_OK)
        return status;
    const size_t owner_heads = static_cast<size_t>(args.heads_per_owner) * sizeof *args.head;
    const size_t larger = owner_anchors > owner_heads ? owner_anchors : owner_heads;
    const int64_t owners = tensor->shape[0] * args.heads_kv;
    int64_t at_once = static_cast<int64_t>(TABLE_BYTES / larger);
    at_once = at_once < 1 ? 1 : at_once > owners ? owners : at_once;

    tables memory = {};
    status = take_tables(context, static_cast<size_t>(at_once) * owner_anchors,
                         static_cast<size_t>(at_once) * owner_heads, &memory);
    args.anchor = static_cast<float *>(memory.anchor);
    args.head = static_cast<const structured_head *>(memory.head);
    for (int64_t first = 0; status == SPARGE_OK && first < owners; first += at_once) {
        args.first_owner = first;
        args.owners = owners - first < at_once ? owners - first : at_once;
        status = generate_owners(context, generator, role, tensor, args, &memory);
    }
    free(memory.host);
    cuda_deallocate(memory.head);
    cuda_deallocate(memory.anchor);
    return status;
}
