/* See instances.cuh. */
#include "attend_f16.cuh"
#include "instances.cuh"

attend_kernel_entry sparge::sm90::entry_f16_d64(const attend_kernel_key &key)
{
    return entry_of<shape<64, 128, 3, 1>, shape<64, 128, 2, 1>, shape<64, 128, 1, 2>>(key);
}
