/* The CPU's hot loops for AVX2 with FMA and F16C; kernels/CMakeLists.txt compiles this file with the flags for it. */
#include "cpu/isa/isa.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#define ISA_NAME "avx2"
#define ISA_FUNCTION cpu_isa_avx2
#include "cpu/isa/isa_template.h"

#else

const cpu_isa *cpu_isa_avx2(void)
{
    return NULL;
}

#endif
