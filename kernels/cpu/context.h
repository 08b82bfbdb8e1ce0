/* The CPU backend's context: threads and instruction set. */
#ifndef SPARGE_CPU_CONTEXT_H
#define SPARGE_CPU_CONTEXT_H

#include "backend.h"
#include "cpu/isa/isa.h"

/* What the context's plans run on: the best of this machine unless cpu_context_use_isa chose another. */
const cpu_isa *cpu_context_isa(const sparge_context *context);

/* For tests: "baseline", "avx2", "avx512". UNSUPPORTED if this machine or build lacks it. */
sparge_status cpu_context_use_isa(sparge_context *context, const char *name);

#endif
