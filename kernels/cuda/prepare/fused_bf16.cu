/* The prepare kernels for bfloat16. */
#include "fused.cuh"

using namespace sparge::prepare;

prepare_kernel prepare_kernel_bf16(prepare_kernel_key key)
{
    return key.padded_dim == 64 ? choose<__nv_bfloat16, 64>(key) : choose<__nv_bfloat16, 128>(key);
}
