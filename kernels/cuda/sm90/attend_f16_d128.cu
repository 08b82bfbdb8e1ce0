/* See instances.cuh. */
#include "attend_f16.cuh"
#include "instances.cuh"

attend_kernel_entry sparge::sm90::entry_f16_d128(const attend_kernel_key &key)
{
    return entry_of<shape<128, 192, 2, 1>, shape<128, 128, 2, 1>, shape<128, 64, 1, 2>>(key);
}
