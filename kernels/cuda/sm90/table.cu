/* The table of the wgmma kernels. */
#include "methods/recipe.h"
#include "instances.cuh"

attend_kernel_entry sm90_attend_kernel(attend_kernel_key key)
{
    const bool wide = key.head_dim == 128;
    if (key.vote_keys != 0 || (key.exp == SPARGE_EXP_FAST && key.arithmetic != SPARGE_ARITHMETIC_INT8_FP8))
        return {};
    if (key.arithmetic == SPARGE_ARITHMETIC_F16)
        return wide ? sparge::sm90::entry_f16_d128(key) : sparge::sm90::entry_f16_d64(key);
    if (key.arithmetic == SPARGE_ARITHMETIC_INT8_F16)
        return wide ? sparge::sm90::entry_int8_f16_d128(key) : sparge::sm90::entry_int8_f16_d64(key);
    if (key.arithmetic == SPARGE_ARITHMETIC_INT8_FP8)
        return wide ? sparge::sm90::entry_int8_fp8_d128(key) : sparge::sm90::entry_int8_fp8_d64(key);
    return {};
}
