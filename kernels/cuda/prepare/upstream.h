/* Prepare in parity mode (compat=upstream), where the official code's rounding points matter and speed does not. */
#ifndef SPARGE_CUDA_PREPARE_UPSTREAM_H
#define SPARGE_CUDA_PREPARE_UPSTREAM_H

#include "prepare.h"

typedef struct upstream_prepare_args {
    prepare_args of; /* as the fixed mode's kernel gets them; its schedule, partial sums and flags are not used */
    int bf16;
    int whole_divisor; /* non-zero: a partial block's mean divides by the whole block (MInference pads with zeros) */
    uint16_t *v16;     /* bf16 V as f16, dense, rows of v16_channels; NULL: not wanted */
    int32_t v16_channels;
} upstream_prepare_args;

#ifdef __cplusplus
/* Launches what the arguments have output pointers for. INT8 scales are those of whole blocks. */
cudaError_t upstream_prepare_launch(const upstream_prepare_args &args, cudaStream_t stream);
#endif

#endif
