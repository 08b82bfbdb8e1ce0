/* The CPU's hot loops for the compiler's default target (SSE2 on x86-64). */
#include "cpu/isa/isa.h"

#define ISA_NAME "baseline"
#define ISA_FUNCTION cpu_isa_baseline
#include "cpu/isa/isa_template.h"
