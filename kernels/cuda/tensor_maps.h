/* Tensor maps: how TMA is told where a tensor lies. For the kernels that load Q, K and V by it (sm90/).
 *
 * A map is 128 bytes that the driver's encoder makes on the host, and goes to the kernel by value: making one needs no
 * device and may be done while a stream is captured. */
#ifndef SPARGE_CUDA_TENSOR_MAPS_H
#define SPARGE_CUDA_TENSOR_MAPS_H

#include <cuda.h>

#include "sparge/context.h"

enum { TENSOR_MAP_ROWS = 64, TENSOR_MAP_CHANNELS = 64 }; /* of the box that one copy brings */

/* Of 16-bit [B][H][L][D] tensors, coordinates (channel, token, head, batch), with the 128-byte swizzle; or of bytes in planes,
 * coordinates (byte, row, plane), with a swizzle as wide as a row. Zeros outside. */
typedef struct tensor_maps {
    CUtensorMap q, k, v;
} tensor_maps;

#ifdef __cplusplus
extern "C" {
#endif

/* Finds the driver's encoder; what tensor_map_make takes. */
sparge_status tensor_map_encoder(sparge_context *context, void **encoder);

/* Of a tensor whose address, strides and rows are multiples of 16 bytes (prepare/operands.h). name: for errors. */
sparge_status tensor_map_make(sparge_context *context, void *encoder, const sparge_tensor *tensor, const char *name,
                              CUtensorMap *map);

/* Bytes [planes][rows][row_bytes], row_bytes 64 or 128. */
typedef struct tensor_planes {
    const void *data;
    int32_t row_bytes;
    int64_t rows, planes;
    int32_t box_rows; /* that one copy brings, at most 256 */
} tensor_planes;
sparge_status tensor_map_make_planes(sparge_context *context, void *encoder, const tensor_planes *planes,
                                     const char *name, CUtensorMap *map);

#ifdef __cplusplus
}
#endif
#endif
