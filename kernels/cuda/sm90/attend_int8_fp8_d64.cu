/* See instances.cuh. */
#include "attend_int8_fp8.cuh"
#include "instances.cuh"

attend_kernel_entry sparge::sm90::entry_int8_fp8_d64(const attend_kernel_key &key)
{
    return entry_int8_fp8<int8_fp8_shape<64, 2, 1, 4, 64>, int8_fp8_shape<64, 1, 2, 4, 64>,
                          int8_fp8_shape<64, 1, 2, 4, 128>>(key);
}
