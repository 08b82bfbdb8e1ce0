/* See instances.cuh. */
#include "instances.cuh"

attend_kernel_entry sparge::sm80::entry_int8_f16_d128(const attend_kernel_key &key)
{
    return entry_of<arithmetic::int8_f16, 128>(key);
}
