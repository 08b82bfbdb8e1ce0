/* See instances.cuh. */
#include "attend_int8_fp8.cuh"
#include "instances.cuh"

attend_kernel_entry sparge::sm90::entry_int8_fp8_d128(const attend_kernel_key &key)
{
    return entry_int8_fp8<int8_fp8_shape<128, 2, 1, 4, 64>, int8_fp8_shape<128, 1, 2, 3, 64>,
                          int8_fp8_shape<128, 1, 2, 3, 128>>(key);
}
