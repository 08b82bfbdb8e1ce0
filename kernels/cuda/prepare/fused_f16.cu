/* The prepare kernels for binary16. */
#include "fused.cuh"

using namespace sparge::prepare;

prepare_kernel prepare_kernel_f16(prepare_kernel_key key)
{
    return key.padded_dim == 64 ? choose<__half, 64>(key) : choose<__half, 128>(key);
}
