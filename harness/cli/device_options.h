/* The options that commands which compute have in common: --backend, --device, --threads; and options of one number. */
#ifndef HARNESS_DEVICE_OPTIONS_H
#define HARNESS_DEVICE_OPTIONS_H

#include <stdint.h>

#include "cli/options.h"
#include "sparge/sparge.h"

/* Entries of a command's table. */
#define SB_DEVICE_OPTIONS                                                                                              \
    {.name = "backend",                                                                                                \
     .value = "NAME",                                                                                                  \
     .default_value = "auto",                                                                                          \
     .complete = "backends",                                                                                           \
     .help = "Where to compute."},                                                                                     \
        {.name = "device", .value = "N", .default_value = "0", .help = "Device of the backend."},                      \
    {                                                                                                                  \
        .name = "threads", .value = "N", .default_value = "0", .help = "CPU threads; 0 means all."                     \
    }

/* SB_EXIT_OK, or an exit code after one line on stderr: usage for an unknown backend, else environment. */
int sb_context_open(const sb_arguments *arguments, sparge_context **context);

/* The number of an option that has a default or is given; k, m, g are allowed. */
int sb_integer_option(const sb_arguments *arguments, const char *name, int64_t min, int64_t max, int64_t *value);
int sb_real_option(const sb_arguments *arguments, const char *name, double min, double max, double *value);

#endif
