/* Chooses among the instruction sets compiled in by what the machine reports. */
#include "cpu/isa/isa.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* clang 14 does not know "f16c" as a feature string: leaf 1, ECX. */
static int machine_has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

static int machine_has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && machine_has_f16c();
}

static int machine_has_avx512(void)
{
    return machine_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#else
static int machine_has_avx2(void)
{
    return 0;
}

static int machine_has_avx512(void)
{
    return 0;
}
#endif

const cpu_isa *cpu_isa_at(int index)
{
    const cpu_isa *const candidates[] = {machine_has_avx512() ? cpu_isa_avx512() : NULL,
                                         machine_has_avx2() ? cpu_isa_avx2() : NULL, cpu_isa_baseline()};
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++)
        if (candidates[i] && index-- == 0)
            return candidates[i];
    return NULL;
}

const cpu_isa *cpu_isa_find(const char *name)
{
    const cpu_isa *isa;
    for (int i = 0; (isa = cpu_isa_at(i)) != NULL; i++)
        if (strcmp(isa->name, name) == 0)
            return isa;
    return NULL;
}
