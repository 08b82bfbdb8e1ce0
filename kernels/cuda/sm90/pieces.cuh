/* What the kernels with 16-bit V share: a CTA's warpgroups, stages in shared memory, the pieces that 16-bit rows lie in
 * there, and how O is stored. */
#ifndef SPARGE_SM90_PIECES_CUH
#define SPARGE_SM90_PIECES_CUH

#include "row_block.cuh"

namespace sparge::sm90
{

constexpr int piece = 64;        /* channels */
constexpr int piece_bytes = 128; /* of a row */
constexpr int box_bytes = TENSOR_MAP_ROWS * piece_bytes;
static_assert(TENSOR_MAP_ROWS == tile_keys && TENSOR_MAP_CHANNELS == piece, "a box is a tile's piece");

/* One warpgroup that loads and Consumers that compute 64 rows each. Ctas: that share an SM. */
template <int Consumers_, int Ctas_> struct cta_shape {
    static constexpr int Consumers = Consumers_, Ctas = Ctas_;
    static constexpr int rows = 64 * Consumers, threads = warpgroup * (1 + Consumers);
    /* The SM's registers, first shared evenly, then what the producer leaves. */
    static constexpr int entry_registers = 65536 / (threads * Ctas) / 8 * 8;
    static constexpr int producer_registers = 24;
    static constexpr int left = (entry_registers * threads - producer_registers * warpgroup) / (warpgroup * Consumers);
    static constexpr int consumer_registers = left < 240 ? left / 8 * 8 : 240;
};

/* The stages of K or of V, used in turn: addresses in shared memory. */
template <int Stages, int Bytes> struct ring {
    static_assert((Stages & (Stages - 1)) == 0, "a turn's stage and parity are bits of its number");
    uint32_t data, barriers; /* Stages full ones, then empty ones */
    __device__ uint32_t at(int turn) const { return data + (turn & (Stages - 1)) * Bytes; }
    __device__ uint32_t full(int turn) const { return barriers + (turn & (Stages - 1)) * 8; }
    __device__ uint32_t empty(int turn) const { return barriers + Stages * 8 + (turn & (Stages - 1)) * 8; }

    static __device__ uint32_t parity(int turn) { return static_cast<uint32_t>(turn) / Stages & 1; }
    __device__ void wait_full(int turn) const { ptx::mbarrier_wait_parity(full(turn), parity(turn)); }
    __device__ bool is_full(int turn) const { return ptx::mbarrier_test_parity(full(turn), parity(turn)); }
    /* Stages begin empty: the first waits are for a phase before the first, and pass at once. */
    __device__ void wait_empty(int turn) const { ptx::mbarrier_wait_parity(empty(turn), parity(turn) ^ 1); }
};

/* Waits for an empty stage and starts copying a turn's 16-bit tiles into it. */
template <typename S, int Stages>
__device__ __forceinline__ void load_turn(const ring<Stages, S::tiles * S::pieces * box_bytes> &r, int turn,
                                          const CUtensorMap *map, const row_block_place &p, const int (&tile)[S::tiles])
{
    r.wait_empty(turn);
    ptx::mbarrier_arrive_expect_tx(r.full(turn), S::tiles * S::pieces * box_bytes);
#pragma unroll
    for (int c = 0; c < S::pieces; c++)
#pragma unroll
        for (int t = 0; t < S::tiles; t++)
            ptx::cp_async_bulk_tensor_4d(r.at(turn) + (c * S::tiles + t) * box_bytes, map, r.full(turn), c * piece,
                                         tile[t] * tile_keys, p.kv_head, p.batch);
}

/* Divides, rounds, and stores a consumer's rows, by way of `stage`, where its rows of Q were. */
template <typename T16, typename S>
__device__ __forceinline__ void store_rows(const attend_args &args, const row_block_place &p, int consumer, char *stage,
                                           const float (&o)[S::D / 2], const float (&m)[2], const float (&l)[2])
{
    const int lane = static_cast<int>(threadIdx.x) % 32, warp_row = static_cast<int>(threadIdx.x) % warpgroup / 32 * 16;
    ptx::bar_sync(1 + consumer, warpgroup);         /* all four warps are done with Q */
    const auto chunk_at = [&](int row, int chunk) { /* 16 bytes of a row of the consumer */
                                                    return stage + (chunk / 8 * S::Consumers + consumer) * box_bytes +
                                                           chunk_offset<piece_bytes>(row, chunk % 8);
    };
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int local_row = warp_row + lane / 4 + h * 8;
        const int row = p.first_row + consumer * 64 + local_row;
        const float sum = quad_sum(l[h]);
        const float inverse = sum > 0 ? 1 / sum : 0;
        if (args.lse && lane % 4 == 0 && row < args.seqlen_q) {
            const int64_t index = p.batch_head * args.seqlen_q + row;
            float lse = sum > 0 ? (m[h] + log2f(sum)) * CUDART_LN2_F : -CUDART_INF_F;
            if (args.lse_offset)
                lse += args.lse_offset[index];
            args.lse[index] = lse;
        }
#pragma unroll
        for (int d = 0; d < S::D / 8; d++)
            *reinterpret_cast<uint32_t *>(chunk_at(local_row, d) + lane % 4 * 4) =
                pack(o[4 * d + 2 * h] * inverse, o[4 * d + 2 * h + 1] * inverse, T16());
    }
    __syncwarp(); /* a warp stages and stores its own rows only */
    char *out = static_cast<char *>(args.o.data) + (p.batch * args.o.batch_stride + p.head * args.o.head_stride) * 2;
    constexpr int chunks = S::D / 8, steps = 16 * chunks / 32;
    const auto each_chunk = [&](int step, auto store) {
        const int local_row = warp_row + (step * 32 + lane) / chunks, chunk = (step * 32 + lane) % chunks;
        const int row = p.first_row + consumer * 64 + local_row;
        if (row < args.seqlen_q && chunk * 8 < args.head_dim)
            store(out + row * args.o.token_stride * 2 + chunk * 16, chunk_at(local_row, chunk), chunk * 8);
    };
    if (args.o_scalar) {
#pragma unroll 1
        for (int step = 0; step < steps; step++)
            each_chunk(step, [&](char *to, const char *from, int channel) {
                store_elements(to, from, args.head_dim - channel);
            });
        return;
    }
#pragma unroll
    for (int step = 0; step < steps; step++)
        each_chunk(step, [&](char *to, const char *from, int) {
            *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(from);
        });
}

} // namespace sparge::sm90

#endif
