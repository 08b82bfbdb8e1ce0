/* The table of the mma.sync kernels. */
#include "methods/recipe.h"
#include "instances.cuh"

using namespace sparge::sm80;

attend_kernel_entry sm80_attend_kernel(attend_kernel_key key)
{
    const bool wide = key.head_dim == 128;
    if (key.exp == SPARGE_EXP_FAST)
        return {};
    switch (static_cast<arithmetic>(key.arithmetic)) {
    case arithmetic::f16:
        return wide ? entry_f16_d128(key) : entry_f16_d64(key);
    case arithmetic::int8_f16:
        return wide ? entry_int8_f16_d128(key) : entry_int8_f16_d64(key);
    case arithmetic::int8_fp8:
        return wide ? entry_int8_fp8_d128(key) : entry_int8_fp8_d64(key);
    }
    return {};
}
