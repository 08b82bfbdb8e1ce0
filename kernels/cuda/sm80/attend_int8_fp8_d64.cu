/* See instances.cuh. */
#include "instances.cuh"

attend_kernel_entry sparge::sm80::entry_int8_fp8_d64(const attend_kernel_key &key)
{
    return entry_of<arithmetic::int8_fp8, 64>(key);
}
