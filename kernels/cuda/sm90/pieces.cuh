/* What the kernels with 16-bit V share: stages in shared memory, and the pieces that 16-bit rows lie in there. */
#ifndef SPARGE_SM90_PIECES_CUH
#define SPARGE_SM90_PIECES_CUH

#include "row_block.cuh"

namespace sparge::sm90
{

constexpr int piece = 64;        /* channels */
constexpr int piece_bytes = 128; /* of a row */
constexpr int box_bytes = TENSOR_MAP_ROWS * piece_bytes;
static_assert(TENSOR_MAP_ROWS == tile_keys && TENSOR_MAP_CHANNELS == piece, "a box is a tile's piece");

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

} // namespace sparge::sm90

#endif
