/* Instances of attend_f16.cuh: one .cu file for each head dim, so that they compile side by side.
 *
 *   D = 128  dense         128 rows, turns of 192 keys
 *            128-row lists 128 rows, turns of 128 keys: a list's last turn lacks less
 *            64-row lists   64 rows, turns of  64 keys, two CTAs on an SM, so that one's softmax runs beside the other's
 *                           products
 *   D = 64   dense         192 rows, turns of 128 keys: the softmax is most of the work, and three groups share it
 *            128-row lists 128 rows, turns of 128 keys
 *            64-row lists   64 rows, turns of 128 keys, two CTAs on an SM */
#ifndef SPARGE_SM90_INSTANCES_CUH
#define SPARGE_SM90_INSTANCES_CUH

#include "attend_f16.cuh"

namespace sparge::sm90
{

template <typename T16, typename S, bool Lists> attend_kernel_entry entry_of()
{
    return {reinterpret_cast<const void *>(&attend_f16<T16, S, Lists>), S::rows, S::threads, S::shared_bytes, 1};
}

template <typename T16, typename Dense, typename Lists128, typename Lists64> attend_kernel_entry entry_of(int rows)
{
    switch (rows) {
    case 64:
        return entry_of<T16, Lists64, true>();
    case 128:
        return entry_of<T16, Lists128, true>();
    default:
        return entry_of<T16, Dense, false>();
    }
}

template <typename Dense, typename Lists128, typename Lists64>
attend_kernel_entry entry_of(const attend_kernel_key &key)
{
    return key.bf16 ? entry_of<__nv_bfloat16, Dense, Lists128, Lists64>(key.rows)
                    : entry_of<__half, Dense, Lists128, Lists64>(key.rows);
}

attend_kernel_entry entry_f16_d64(const attend_kernel_key &key);
attend_kernel_entry entry_f16_d128(const attend_kernel_key &key);

} // namespace sparge::sm90

#endif
