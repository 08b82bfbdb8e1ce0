/* Instruction sets: the hot loops of the CPU backend, compiled several times from one source and chosen at run time.
 *
 * isa_baseline.c, isa_avx2.c and isa_avx512.c include the same templates (vector.h, convert.h, sums.h, attend/tile.h and
 * attend/row_block.h) under different compiler flags; each exports one table. Nothing else in the library depends on
 * the instruction set. Conversions, integers and the sums of sums.h are bit-equal on all of them; the float sums of
 * attention differ by rounding (fused multiply-add or not, but never by the number of threads). */
#ifndef SPARGE_CPU_ISA_H
#define SPARGE_CPU_ISA_H

#include <stddef.h>
#include <stdint.h>

struct cpu_attend_job;
struct cpu_attend_workspace;
struct cpu_row_block;

typedef struct cpu_isa {
    const char *name; /* "baseline", "avx2", "avx512" */
    int lanes;        /* floats in a vector */

    /* Conversions of `count` elements, bit-equal to the scalar ones of sparge/tensor.h except for NaN payloads. */
    void (*f32_from_f16)(float *to, const uint16_t *from, size_t count);
    void (*f32_from_bf16)(float *to, const uint16_t *from, size_t count);
    void (*f32_from_i8)(float *to, const int8_t *from, size_t count);
    void (*f32_from_e4m3)(float *to, const uint8_t *from, size_t count);
    void (*f16_from_f32)(uint16_t *to, const float *from, size_t count);
    void (*bf16_from_f32)(uint16_t *to, const float *from, size_t count);
    void (*e4m3_from_f32)(uint8_t *to, const float *from, size_t count);

    /* In place: the float nearest to each value in a narrower type (e4m3 saturates at 448). */
    void (*round_f16)(float *values, size_t count);
    void (*round_bf16)(float *values, size_t count);
    void (*round_e4m3)(float *values, size_t count);

    /* In place: 2^x for x < 128, within 2 ulp; 0 below -126, -infinity included. NaN stays NaN. */
    void (*exp2)(float *values, size_t count);

    /* sum[i] = fma(x[i], factor, sum[i]) */
    void (*add_scaled)(float *sum, const float *x, float factor, size_t count);

    /* Sum of squares of 64 or 128 values: from 0, each group of eight neighbours adds its squares in order, fused; then
     * neighbouring groups are added until one is left. */
    float (*sum_squares)(const float *x, size_t count);

    /* to[r] = a . row r of rows[count][channels]: from 0, the products are added in order, fused. */
    void (*dots)(float *to, const float *a, const float *rows, size_t count, size_t channels);

    /* The integer nearest to x * inverse, ties to even, of which the low byte is taken; NaN gives -1. */
    void (*i8_from_f32)(int8_t *to, const float *x, float inverse, size_t count);

    /* One row block of attention, see attend/row_block.h. Returns the number of PV skip votes that said skip. */
    int64_t (*attend_row_block)(const struct cpu_attend_job *job, int64_t index,
                                struct cpu_attend_workspace *workspace);

    /* Multiply-adds on registers only, for `rounds` rounds; returns a value that depends on all of them. The rate of
     * this loop is what bench_attend calls the machine's peak: *flops = operations done. */
    float (*fma_peak)(int64_t rounds, double *flops);
} cpu_isa;

/* The tables that this build has and this machine can run, best first; NULL past the end. */
const cpu_isa *cpu_isa_at(int index);
const cpu_isa *cpu_isa_find(const char *name); /* NULL if it is absent here */

/* Of each file: NULL where the compiler's target has no such instructions. cpu_isa_at checks the machine. */
const cpu_isa *cpu_isa_baseline(void);
const cpu_isa *cpu_isa_avx2(void);
const cpu_isa *cpu_isa_avx512(void);

#endif
