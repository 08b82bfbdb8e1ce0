/* Rows of 16-bit tensors as floats and back, with the context's instruction set. */
#ifndef SPARGE_CPU_LOAD_H
#define SPARGE_CPU_LOAD_H

#include "cpu/context.h"
#include "cpu/cpu.h"

/* Row `token` of a 16-bit tensor. */
static inline void cpu_load_row(const sparge_context *context, const sparge_tensor *tensor, int64_t batch, int64_t head,
                                int64_t token, float *out)
{
    const cpu_isa *isa = cpu_context_isa(context);
    const uint16_t *row = (const uint16_t *)tensor->data + batch * tensor->stride[0] + head * tensor->stride[1] +
                          token * tensor->stride[2];
    (tensor->dtype == SPARGE_F16 ? isa->f32_from_f16 : isa->f32_from_bf16)(out, row, (size_t)tensor->shape[3]);
}

/* In place: the nearest values of a 16-bit type. */
static inline void cpu_round_16(const sparge_context *context, sparge_dtype dtype, float *values, size_t count)
{
    const cpu_isa *isa = cpu_context_isa(context);
    (dtype == SPARGE_F16 ? isa->round_f16 : isa->round_bf16)(values, count);
}

#endif
