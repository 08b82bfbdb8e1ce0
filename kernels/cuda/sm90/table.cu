/* The table of the wgmma kernels. */
#include "methods/recipe.h"
#include "instances.cuh"

attend_kernel_entry sm90_attend_kernel(attend_kernel_key key)
{
    if (key.arithmetic != SPARGE_ARITHMETIC_F16 || key.vote_keys != 0)
        return {};
    return key.head_dim == 128 ? sparge::sm90::entry_f16_d128(key) : sparge::sm90::entry_f16_d64(key);
}
