/* The CPU's hot loops for AVX-512 F, BW, VL and DQ; kernels/CMakeLists.txt compiles this file with the flags for it. */
#include "cpu/isa/isa.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)

#define ISA_NAME "avx512"
#define ISA_FUNCTION cpu_isa_avx512
#include "cpu/isa/isa_template.h"

#else

const cpu_isa *cpu_isa_avx512(void)
{
    return NULL;
}

#endif
