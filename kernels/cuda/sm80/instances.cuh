/* Instances of attend.cuh: one .cu file for each arithmetic and head dim, so that they compile side by side.
 *
 * A row block of 128 queries is four warps of 32 rows: every K and V fragment read from shared memory serves two products.
 * A row block of 64 is four warps of 16. */
#ifndef SPARGE_SM80_INSTANCES_CUH
#define SPARGE_SM80_INSTANCES_CUH

#include "attend.cuh"

namespace sparge::sm80
{

template <typename T16, arithmetic A, int D, int WarpRows, bool Votes> attend_kernel_entry entry_of()
{
    constexpr int warps = 4;
    using S = shape<T16, A, D, WarpRows, warps>;
    return {reinterpret_cast<const void *>(&attend_kernel<T16, A, D, WarpRows, warps, Votes>), S::rows, S::threads,
            S::shared_bytes};
}

template <typename T16, arithmetic A, int D> attend_kernel_entry entry_of(const attend_kernel_key &key)
{
    if (key.rows == 128)
        return key.votes ? entry_of<T16, A, D, 32, true>() : entry_of<T16, A, D, 32, false>();
    return key.votes ? entry_of<T16, A, D, 16, true>() : entry_of<T16, A, D, 16, false>();
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
