/* Memory that a point may take: asked for before it is allocated, so that a sweep is never ended by the kernel. */
#ifndef HARNESS_MEMORY_H
#define HARNESS_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "sparge/sparge.h"

/* Host memory that can be taken without swapping: MemAvailable, or what the control group leaves, whichever is less.
 * UINT64_MAX if the system does not say. */
uint64_t sb_memory_available(void);

/* The memory that a backend computes in: the device's own, or the host's. */
typedef struct sb_memory {
    int is_own;
    uint64_t free, total; /* UINT64_MAX if the system does not say */
} sb_memory;
sparge_status sb_memory_of(sparge_context *context, sb_memory *memory);

/* "12.3 GiB"; UINT64_MAX: "more than any memory" */
void sb_memory_text(uint64_t bytes, char *text, size_t size);

#endif
