/* Tensors: a typed, strided view of memory that belongs to the caller.
 *
 * Attention tensors have four axes in the order batch, heads, tokens, channels; the layouts HND ([B,H,L,D]) and NHD
 * ([B,L,H,D]) differ only in their strides. Offsets are 64-bit throughout. */
#ifndef SPARGE_TENSOR_H
#define SPARGE_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sparge_dtype {
    SPARGE_F16 = 0, /* IEEE binary16 */
    SPARGE_BF16,    /* bfloat16 */
    SPARGE_F32,
    SPARGE_F64,
    SPARGE_I8,
    SPARGE_E4M3 /* FP8 e4m3fn: bias 7, largest finite 448, no infinities, NaN = 0x7f and 0xff */
} sparge_dtype;

/* Bytes of one element; 0 for a value that is no dtype. */
size_t sparge_dtype_bytes(sparge_dtype dtype);

/* "f16", "bf16", "f32", "f64", "i8", "e4m3"; "?" for anything else. */
const char *sparge_dtype_name(sparge_dtype dtype);

typedef struct sparge_tensor {
    void *data; /* memory of the backend that will use it: host memory for cpu, device memory for cuda */
    sparge_dtype dtype;
    int64_t shape[4];  /* batch, heads, tokens, channels */
    int64_t stride[4]; /* in elements; stride[3] must be 1 */
} sparge_tensor;

/* Views of densely packed memory. `tokens` and `channels` are the two inner axes of HND; NHD swaps heads and tokens
 * in memory only: shape[] keeps the order above. */
sparge_tensor sparge_tensor_hnd(void *data, sparge_dtype dtype, int64_t batch, int64_t heads, int64_t tokens,
                                int64_t channels);
sparge_tensor sparge_tensor_nhd(void *data, sparge_dtype dtype, int64_t batch, int64_t heads, int64_t tokens,
                                int64_t channels);

/* Scalar conversions, round to nearest even. f16: overflow gives infinity. e4m3: saturates at +-448, NaN stays NaN. */
uint16_t sparge_f16_from_f32(float value);
float sparge_f32_from_f16(uint16_t bits);
uint16_t sparge_bf16_from_f32(float value);
float sparge_f32_from_bf16(uint16_t bits);
uint8_t sparge_e4m3_from_f32(float value);
float sparge_f32_from_e4m3(uint8_t bits);

#ifdef __cplusplus
}
#endif
#endif
