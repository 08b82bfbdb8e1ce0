/* FP8 V: e4m3 with one scale per channel (upstream.md 2.8).
 *
 * a = max|v| over the tokens; v_scale = a * (1 / fp8_v_max); v8 = e4m3(v * (fp8_v_max / a)), f32, one rounding per
 * operation. v_scale equals the official one bit for bit; its quotient fp8_v_max / a comes from the GPU's approximate
 * reciprocal, so there an element close to a tie may differ by one code. a is raised to CPU_FP8_TINY where it is smaller,
 * so that a channel of zeros (or of bf16 subnormals) divides by no zero. In parity mode bf16 V is rounded to f16 first.
 * Tokens stay in their order: the permutation of the official layout belongs to its kernels. */
#ifndef SPARGE_CPU_FP8_H
#define SPARGE_CPU_FP8_H

#include "cpu/cpu.h"

#define CPU_FP8_TINY 0x1p-100f

sparge_status cpu_fp8_plan(sparge_plan *plan);
void cpu_fp8_run(sparge_plan *plan);

#endif
