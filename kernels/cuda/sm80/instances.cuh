/* Instances of attend.cuh: one .cu file for each arithmetic and head dim, so that they compile side by side.
 *
 * A row block of 128 queries is four warps of 32 rows: every K and V fragment read from shared memory serves two products.
 * With the PV skip that takes more registers than there are at D = 128 (some 180 bytes are spilled on sm_90a), so its warps
 * have 16 rows, as have those of a row block of 64. */
#ifndef SPARGE_SM80_INSTANCES_CUH
#define SPARGE_SM80_INSTANCES_CUH

#include "attend.cuh"

namespace sparge::sm80
{

template <typename T16, arithmetic A, int D, int WarpRows, int Warps, int VoteKeys> attend_kernel_entry entry_of()
{
    using S = shape<T16, A, D, WarpRows, Warps>;
    return {reinterpret_cast<const void *>(&attend_kernel<T16, A, D, WarpRows, Warps, VoteKeys>),
            S::rows,
            S::threads,
            S::shared_bytes,
            0,
            nullptr,
            0};
}

template <typename T16, arithmetic A, int D> attend_kernel_entry entry_of(const attend_kernel_key &key)
{
    if (key.vote_keys == 128)
        return key.rows == 64 ? entry_of<T16, A, D, 16, 4, 128>() : entry_of<T16, A, D, 16, 8, 128>();
    if (key.vote_keys == 64)
        return key.rows == 64 ? entry_of<T16, A, D, 16, 4, 64>() : entry_of<T16, A, D, 16, 8, 64>();
    return key.rows == 64 ? entry_of<T16, A, D, 16, 4, 0>() : entry_of<T16, A, D, 32, 4, 0>();
}

template <arithmetic A, int D> attend_kernel_entry entry_of(const attend_kernel_key &key)
{
    return key.bf16 ? entry_of<__nv_bfloat16, A, D>(key) : entry_of<__half, A, D>(key);
}

attend_kernel_entry entry_f16_d64(const attend_kernel_key &key);
attend_kernel_entry entry_f16_d128(const attend_kernel_key &key);
attend_kernel_entry entry_int8_f16_d64(const attend_kernel_key &key);
attend_kernel_entry entry_int8_f16_d128(const attend_kernel_key &key);
attend_kernel_entry entry_int8_fp8_d64(const attend_kernel_key &key);
attend_kernel_entry entry_int8_fp8_d128(const attend_kernel_key &key);

} // namespace sparge::sm80

#endif
