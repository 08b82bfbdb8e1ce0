/* Which kernels this program has launched. The linker sends every call that launches one here first (--wrap). */
#ifndef TESTS_SANITIZE_LAUNCHES_H
#define TESTS_SANITIZE_LAUNCHES_H

#include <stddef.h>

/* Has the kernel of this (mangled) name been launched? */
int launches_include(const char *name);

/* Launches in all, and those of them on the default stream, which nobody may use. */
size_t launches_count(void);
size_t launches_on_default_stream(void);

#endif
