/* The body of each isa_*.c: the table of one instruction set. ISA_NAME and ISA_FUNCTION are defined by the includer. */
#include "cpu/attend/row_block.h"
#include "cpu/isa/sums.h"

/* 12 independent chains hide a multiply-add's latency of 4..5 cycles at two per cycle. */
static float fma_peak(int64_t rounds, double *flops)
{
    enum { CHAINS = 12 };
    vec sum[CHAINS];
    const vec factor = vec_set(0.999f), term = vec_set(1e-3f);
    for (int i = 0; i < CHAINS; i++)
        sum[i] = vec_set((float)i);
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++)
            sum[i] = vec_fma(sum[i], factor, term);
    float lanes[VEC_LANES], total = 0;
    for (int i = 1; i < CHAINS; i++)
        sum[0] = vec_add(sum[0], sum[i]);
    vec_store(lanes, sum[0]);
    for (int i = 0; i < VEC_LANES; i++)
        total += lanes[i];
    *flops = 2.0 * CHAINS * VEC_LANES * (double)rounds;
    return total;
}

static const cpu_isa table = {.name = ISA_NAME,
                              .lanes = VEC_LANES,
                              .f32_from_f16 = f32_from_f16,
                              .f32_from_bf16 = f32_from_bf16,
                              .f32_from_i8 = f32_from_i8,
                              .f32_from_e4m3 = f32_from_e4m3,
                              .f16_from_f32 = f16_from_f32,
                              .bf16_from_f32 = bf16_from_f32,
                              .e4m3_from_f32 = e4m3_from_f32,
                              .round_f16 = round_f16,
                              .round_bf16 = round_bf16,
                              .round_e4m3 = round_e4m3,
                              .exp2 = exp2_array,
                              .add_scaled = add_scaled,
                              .sum_squares = sum_squares,
                              .dots = dots,
                              .i8_from_f32 = i8_from_f32,
                              .attend_row_block = attend_row_block,
                              .fma_peak = fma_peak};

const cpu_isa *ISA_FUNCTION(void)
{
    return &table;
}
