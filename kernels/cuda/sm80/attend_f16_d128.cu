/* See instances.cuh. */
#include "instances.cuh"

attend_kernel_entry sparge::sm80::entry_f16_d128(const attend_kernel_key &key)
{
    return entry_of<arithmetic::f16, 128>(key);
}
