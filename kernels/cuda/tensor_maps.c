/* See tensor_maps.h. The encoder is a function of the driver, which nothing links: the runtime finds it. */
#include "cuda/tensor_maps.h"

#include <cudaTypedefs.h>
#include <string.h>

#include "cuda/cuda.h"

enum { RANK = 4, DRIVER_API = 12000 }; /* the CUDA version whose encoder this is written for */

sparge_status tensor_map_encoder(sparge_context *context, void **encoder)
{
    enum cudaDriverEntryPointQueryResult result;
    const cudaError_t code =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", encoder, DRIVER_API, cudaEnableDefault, &result);
    if (code == cudaSuccess && result != cudaDriverEntryPointSuccess)
        return sparge_context_fail(context, SPARGE_ERROR_DEVICE,
                                   "the driver has no cuTensorMapEncodeTiled: it is older than CUDA 12.0");
    return cuda_check(context, code, "looking for cuTensorMapEncodeTiled");
}

sparge_status tensor_map_make(sparge_context *context, void *encoder, const sparge_tensor *tensor, const char *name,
                              CUtensorMap *map)
{
    PFN_cuTensorMapEncodeTiled_v12000 encode;
    cuuint64_t extent[RANK], stride[RANK - 1]; /* innermost first; strides in bytes, from the second axis on */
    const cuuint32_t box[RANK] = {TENSOR_MAP_CHANNELS, TENSOR_MAP_ROWS, 1, 1}, step[RANK] = {1, 1, 1, 1};
    memcpy(&encode, &encoder, sizeof encode); /* ISO C has no conversion from an object pointer to a function's */
    for (int axis = 0; axis < RANK; axis++)
        extent[axis] = (cuuint64_t)tensor->shape[RANK - 1 - axis];
    for (int axis = 0; axis < RANK - 1; axis++) { /* the stride of an axis of one is never used and may be anything */
        const int from = RANK - 2 - axis;
        stride[axis] = 2 * (cuuint64_t)(tensor->shape[from] > 1 ? tensor->stride[from] : tensor->shape[RANK - 1]);
    }
    const CUresult result =
        encode(map, tensor->dtype == SPARGE_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
               RANK, tensor->data, extent, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        return sparge_context_fail(context, SPARGE_ERROR_DEVICE,
                                   "cuTensorMapEncodeTiled: %s, %lld x %lld x %lld x %lld with strides %lld, %lld, "
                                   "%lld: error %d",
                                   name, (long long)tensor->shape[0], (long long)tensor->shape[1],
                                   (long long)tensor->shape[2], (long long)tensor->shape[3],
                                   (long long)tensor->stride[0], (long long)tensor->stride[1],
                                   (long long)tensor->stride[2], (int)result);
    return SPARGE_OK;
}

sparge_status tensor_map_make_planes(sparge_context *context, void *encoder, const tensor_planes *planes,
                                     const char *name, CUtensorMap *map)
{
    PFN_cuTensorMapEncodeTiled_v12000 encode;
    const cuuint64_t row = (cuuint64_t)planes->row_bytes;
    const cuuint64_t extent[3] = {row, (cuuint64_t)planes->rows, (cuuint64_t)planes->planes};
    const cuuint64_t stride[2] = {row, row * (cuuint64_t)planes->rows};
    const cuuint32_t box[3] = {(cuuint32_t)planes->row_bytes, (cuuint32_t)planes->box_rows, 1}, step[3] = {1, 1, 1};
    memcpy(&encode, &encoder, sizeof encode); /* as above */
    const CUresult result = encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, (void *)(uintptr_t)planes->data, extent,
                                   stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                   planes->row_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
                                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        return sparge_context_fail(
            context, SPARGE_ERROR_DEVICE, "cuTensorMapEncodeTiled: %s, %lld planes of %lld rows of %d bytes: error %d",
            name, (long long)planes->planes, (long long)planes->rows, (int)planes->row_bytes, (int)result);
    return SPARGE_OK;
}
