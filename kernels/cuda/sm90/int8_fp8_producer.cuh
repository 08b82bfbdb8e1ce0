/* attend_int8_fp8.cuh: what lies in shared memory, and the two threads that fill it. */
#ifndef SPARGE_SM90_INT8_FP8_PRODUCER_CUH
#define SPARGE_SM90_INT8_FP8_PRODUCER_CUH

#include "int8_scores.cuh"

namespace sparge::sm90
{

/* Consumers: of 64 rows each. Ctas: that share an SM. Scale_keys: in which a thread has one scale of K, 64 or 128. Of
 * 128 keys a turn's tiles are those of a block: lists are made of whole ones. */
template <int D_, int Consumers_, int Ctas_, int Stages_, int Scale_keys>
struct int8_fp8_shape : cta_shape<Consumers_, Ctas_> {
    static constexpr int D = D_, stages = Stages_;
    static constexpr int tiles = 2, keys = tiles * tile_keys, scales = keys / Scale_keys;
    static constexpr int q_bytes = 64 * Consumers_ * D, k_bytes = keys * D;
    static constexpr int v_tile_bytes = (D + 8) * tile_keys,
                         v_bytes = tiles * v_tile_bytes; /* with the row of quarters */
    static constexpr int s_registers = keys / 2, o_registers = D / 2, t_registers = (D + 8) / 4;
    static constexpr int p_words = keys / 8;
    static constexpr int stage_bytes = k_bytes + v_bytes;
    static constexpr int shared_bytes = 1024 + q_bytes + stages * stage_bytes;
};

/* The stages, which are used in turn. */
template <typename S> struct stage_ring {
    uint32_t data, barriers; /* of `stages` full ones, then empty ones */
    int stage;
    uint32_t parity;

    __device__ uint32_t k() const { return data + stage * S::stage_bytes; }
    __device__ uint32_t v() const { return k() + S::k_bytes; }
    __device__ uint32_t full() const { return barriers + stage * 8; }
    __device__ uint32_t empty() const { return full() + S::stages * 8; }
    __device__ void next()
    {
        if (++stage == S::stages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

/* The rows below V's in every stage: one of quarters (0x28 in e4m3; with ones, sums of P would leave f16) and seven of
 * zeros. The swizzle leaves an atom's first row where it is. */
template <typename S> __device__ __forceinline__ void write_quarters(char *stages)
{
    constexpr int words = 8 * tile_keys / 4;
    for (int i = static_cast<int>(threadIdx.x); i < S::stages * S::tiles * words; i += S::threads) {
        const int tile = i / words;
        char *v = stages + tile / S::tiles * S::stage_bytes + S::k_bytes + tile % S::tiles * S::v_tile_bytes;
        uint32_t *rows = reinterpret_cast<uint32_t *>(v + S::D * tile_keys);
        rows[i % words] = i % words < tile_keys / 4 ? 0x28282828u : 0;
    }
    ptx::fence_proxy_async();
}

/* The tiles of a turn of a row block; -1 past the last. Lists of blocks of 128 keys are read once a turn: the block's second
 * tile, which the list lacks where no key of it is seen, is then not -1; its keys are masked all the same. */
template <typename S, bool Lists>
__device__ __forceinline__ void tiles_of_turn(const row_block_place &p, int turn, int (&tile)[S::tiles])
{
#pragma unroll
    for (int t = 0; t < S::tiles; t++)
        tile[t] = Lists && S::scales == 1 && t > 0 ? tile[0] + t : tile_at<Lists>(p, turn * S::tiles + t, -1);
}

/* A row block to be computed, and what consumers need of it first and would wait for. */
template <typename S> struct row_block_record {
    int number; /* or -1 after the last */
    int tiles, batch, head, kv_head, first_row;
    int tile[2 * S::tiles];      /* of turns 0 and 1, or -1 */
    float q_scale[S::rows / 4];  /* to log2 units; q_scale_of_thread says which is a thread's */
    float k_scale[S::scales][4]; /* of turn 0, by lane mod 4 */
};

/* Addresses in shared memory, what is there, and where in the ring a thread is. Two records are used in turn: one is full when
 * it has been written, Q when that of the same row block is there; a record has been read when Q is empty. */
template <typename S> struct int8_fp8_memory {
    uint32_t q, q_full, q_empty;
    uint32_t record_full;   /* of two records, 8 bytes each */
    uint32_t record_wanted; /* when the producer is near the end of a row block */
    stage_ring<S> ring;
    volatile row_block_record<S> *record;
};

/* Turns of so many tiles. */
template <typename S> __device__ __forceinline__ int turns_of(int tiles)
{
    return (tiles + S::tiles - 1) / S::tiles;
}

/* One warp: takes row blocks from the queue and writes their records, each when the producer is near the end of the one
 * before: what is taken earlier than it is needed, another CTA may be free for by then. */
template <typename S, bool Lists>
__device__ __forceinline__ void look_for_work(const attend_args &args, const int8_fp8_memory<S> &memory)
{
    uint32_t work = blockIdx.x;
#pragma unroll 1
    for (uint32_t n = 0;; n++) {
        const int lane = thread_anew() % 32;
        volatile row_block_record<S> &record = memory.record[n % 2];
        if (n > 0) {
            ptx::mbarrier_wait_parity(memory.record_wanted, (n - 1) % 2);
            if (lane == 0)
                work = gridDim.x + atomicAdd(args.queue, 1);
            work = __shfl_sync(~0u, work, 0);
        }
        const bool is_last =
            work >= static_cast<uint32_t>(args.row_blocks) * static_cast<uint32_t>(args.batch * args.heads_q);
        if (lane == 0)
            record.number = -1;
        if (!is_last) {
            const int number = row_block_number<Lists>(args, static_cast<int>(work));
            const row_block_place p = place_of<S, Lists>(args, number);
            if (lane == 0) {
                record.number = number;
                record.tiles = p.tiles;
                record.batch = p.batch;
                record.head = p.head;
                record.kv_head = p.kv_head;
                record.first_row = p.first_row;
            }
            const int tile = tile_at<Lists>(p, lane, -1);
            if (lane < 2 * S::tiles)
                record.tile[lane] = tile;
            if (lane < S::rows / 4)
                record.q_scale[lane] = q_scale_of(args, p.batch_head, p.first_row, lane);
            const int of_turn = __shfl_sync(~0u, tile, lane / 4);
            if (lane < 4 * S::scales)
                record.k_scale[lane / 4][lane % 4] = k_scale_of(
                    args, (p.batch * args.heads_kv + p.kv_head) * args.k_scales + k_scale_of_lane(args, lane), of_turn);
        }
        ptx::mbarrier_arrive(memory.record_full + n % 2 * 8);
        if (is_last)
            break;
    }
    if (threadIdx.x % 32 == 0)
        leave_queue(args);
}

/* The row block of a record. number: that in the record. */
template <bool Lists, typename S>
__device__ __forceinline__ row_block_place place_of(const attend_args &args, const volatile row_block_record<S> &record,
                                                    int number)
{
    row_block_place p;
    p.batch = record.batch;
    p.head = record.head;
    p.kv_head = record.kv_head;
    p.batch_head = p.batch * args.heads_q + p.head;
    p.first_row = record.first_row;
    p.tiles = record.tiles;
    p.list = Lists ? args.list + number * args.list_stride : nullptr;
    return p;
}

/* Turns before the last one's loads at which the next row block is asked for: as long as it takes to find. */
constexpr int turns_ahead = 2;

/* One thread: loads, as far ahead as there are empty stages. */
template <typename S, bool Lists>
__device__ __forceinline__ void produce(const tensor_maps &maps, const attend_args &args, int8_fp8_memory<S> memory)
{
    stage_ring<S> &ring = memory.ring;
    ring.parity = 1; /* all begin empty: the first waits pass at once */
#pragma unroll 1
    for (uint32_t n = 0;; n++) {
        const volatile row_block_record<S> &record = memory.record[n % 2];
        ptx::mbarrier_wait_parity(memory.record_full + n % 2 * 8, n / 2 % 2);
        const int number = record.number;
        if (number < 0) {
            ptx::mbarrier_wait_parity(memory.q_empty, n % 2 ^ 1);
            ptx::mbarrier_arrive(memory.q_full);
            return;
        }
        const row_block_place p = place_of<Lists>(args, record, number);
        const int kv_batch_head = p.batch * args.heads_kv + p.kv_head;
        const int turns = turns_of<S>(p.tiles);
        int tile[S::tiles]; /* of K's turn, and then of V's */
        const auto load_stage = [&](int turn) {
            const bool has_k = turn < turns;
            const bool has_v = turn > 0;
            const uint32_t k = ring.k(), v = ring.v(), full = ring.full();
            ptx::mbarrier_wait_parity(ring.empty(), ring.parity);
            ptx::mbarrier_arrive_expect_tx(full, (has_k ? S::k_bytes : 0) + (has_v ? S::tiles * S::D * tile_keys : 0));
            if (has_v)
#pragma unroll
                for (int t = 0; t < S::tiles; t++)
                    ptx::cp_async_bulk_tensor_3d(v + t * S::v_tile_bytes, &maps.v, full, 0, tile[t] * S::D,
                                                 kv_batch_head);
            if (has_k) {
                tiles_of_turn<S, Lists>(p, turn, tile);
#pragma unroll
                for (int t = 0; t < S::tiles; t++)
                    ptx::cp_async_bulk_tensor_3d(k + t * tile_keys * S::D, &maps.k, full, 0, tile[t] * tile_keys,
                                                 kv_batch_head);
            }
            ring.next();
        };
        if (turns > 0)
            load_stage(0);
        ptx::mbarrier_wait_parity(memory.q_empty, n % 2 ^ 1); /* the first passes at once */
        ptx::mbarrier_arrive_expect_tx(memory.q_full, S::q_bytes);
#pragma unroll
        for (int i = 0; i < S::Consumers; i++)
            ptx::cp_async_bulk_tensor_3d(memory.q + i * 64 * S::D, &maps.q, memory.q_full, 0, p.first_row + i * 64,
                                         p.batch_head);
        /* The record before this one's has been read: Q was empty. */
        if (turns <= turns_ahead)
            ptx::mbarrier_arrive(memory.record_wanted);
#pragma unroll 1
        for (int turn = 1; turn <= turns; turn++) {
            if (turn == turns - turns_ahead)
                ptx::mbarrier_arrive(memory.record_wanted);
            load_stage(turn);
        }
    }
}

} // namespace sparge::sm90

#endif
