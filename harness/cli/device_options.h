/* The options that commands which compute have in common: --backend, --device, --threads; and options of one number. */
#ifndef HARNESS_DEVICE_OPTIONS_H
#define HARNESS_DEVICE_OPTIONS_H

#include <stdint.h>

#include "cli/options.h"
#include "sparge/sparge.h"

/* Entries of a command's table, with the value and the help of --device. */
#define SB_DEVICE_OPTIONS_OF(device_value, device_help)                                                                \
    {.name = "backend",                                                                                                \
     .value = "NAME",                                                                                                  \
     .default_value = "auto",                                                                                          \
     .complete = "backends",                                                                                           \
     .help = "Where to compute."},                                                                                     \
        {.name = "device", .value = device_value, .default_value = "0", .help = device_help},                          \
    {                                                                                                                  \
        .name = "threads", .value = "N", .default_value = "0", .help = "CPU threads; 0 means all."                     \
    }
#define SB_DEVICE_OPTIONS SB_DEVICE_OPTIONS_OF("N", "Device of the backend.")

/* The devices that --backend and --device name. */
typedef struct sb_devices {
    const char *backend; /* never "auto" */
    int first, count;
} sb_devices;

/* takes_all: --device all stands for all devices of the backend. SB_EXIT_OK, or an exit code after one line on stderr:
 * usage for an unknown backend, environment for a device that is not there. */
int sb_devices_parse(const sb_arguments *arguments, int takes_all, sb_devices *devices);

/* A context on one of them. SB_EXIT_OK, or an exit code after one line on stderr. */
int sb_devices_open(const sb_arguments *arguments, const sb_devices *devices, int device, sparge_context **context);

/* What results call a device: its name, and where the machine has several of this name, the first of its UUID too:
 * "NVIDIA H200 (GPU-6f3a1c02)". Results of equal devices are kept apart by it. */
enum { SB_DEVICE_LABEL = 128 };
int sb_devices_label(const sb_devices *devices, int device, char label[SB_DEVICE_LABEL]);

/* Both at once for commands that take one device. */
int sb_context_open(const sb_arguments *arguments, sparge_context **context);

/* The number of an option that has a default or is given; k, m, g are allowed. */
int sb_integer_option(const sb_arguments *arguments, const char *name, int64_t min, int64_t max, int64_t *value);
int sb_real_option(const sb_arguments *arguments, const char *name, double min, double max, double *value);

#endif
