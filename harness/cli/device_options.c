/* Options of one number, and the devices and contexts that three of them name. */
#include "cli/device_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ranges.h"

int sb_integer_option(const sb_arguments *arguments, const char *name, int64_t min, int64_t max, int64_t *value)
{
    const char *text = sb_argument(arguments, name);
    int64_t *list = NULL;
    size_t count = 0;
    char error[256];
    if (sb_range_integers(text, min, max, &list, &count, error, sizeof error) != 0)
        return sb_fail(SB_EXIT_USAGE, "--%s %s: %s", name, text, error);
    *value = list[0];
    free(list);
    return count == 1 ? SB_EXIT_OK : sb_fail(SB_EXIT_USAGE, "--%s %s: takes one number", name, text);
}

int sb_real_option(const sb_arguments *arguments, const char *name, double min, double max, double *value)
{
    const char *text = sb_argument(arguments, name);
    double *list = NULL;
    size_t count = 0;
    char error[256];
    if (sb_range_reals(text, min, max, &list, &count, error, sizeof error) != 0)
        return sb_fail(SB_EXIT_USAGE, "--%s %s: %s", name, text, error);
    *value = list[0];
    free(list);
    return count == 1 ? SB_EXIT_OK : sb_fail(SB_EXIT_USAGE, "--%s %s: takes one number", name, text);
}

/* A GPU that is asked for and not there (or not in this build) is no mistake of the command line. */
static int fail_backend(const sb_arguments *arguments, const sparge_error *error)
{
    int is_usage =
        error->status == SPARGE_ERROR_INVALID_ARGUMENT && strcmp(sb_argument(arguments, "backend"), "cuda") != 0;
    return sb_fail(is_usage ? SB_EXIT_USAGE : SB_EXIT_ENVIRONMENT, "%s", error->text);
}

int sb_devices_parse(const sb_arguments *arguments, int takes_all, sb_devices *devices)
{
    sparge_error error = {0};
    int64_t device = 0;
    int all = takes_all && strcmp(sb_argument(arguments, "device"), "all") == 0;
    int code = all ? SB_EXIT_OK : sb_integer_option(arguments, "device", 0, INT32_MAX, &device);
    if (code != SB_EXIT_OK)
        return code;
    devices->backend = sparge_backend_choose(sb_argument(arguments, "backend"), &error);
    if (!devices->backend)
        return fail_backend(arguments, &error);
    int count = sparge_backend_device_count(devices->backend);
    if (count < 1)
        return sb_fail(SB_EXIT_ENVIRONMENT, "--backend %s: this machine has no %s device", devices->backend,
                       devices->backend);
    if (device >= count)
        return sb_fail(SB_EXIT_ENVIRONMENT, "--device %lld: this machine has %d %s device%s, numbers 0 to %d",
                       (long long)device, count, devices->backend, count == 1 ? "" : "s", count - 1);
    devices->first = (int)device;
    devices->count = all ? count : 1;
    return SB_EXIT_OK;
}

int sb_devices_open(const sb_arguments *arguments, const sb_devices *devices, int device, sparge_context **context)
{
    sparge_error error = {0};
    int64_t threads;
    int code = sb_integer_option(arguments, "threads", 0, 4096, &threads);
    if (code != SB_EXIT_OK)
        return code;
    sparge_status status = sparge_context_create(devices->backend, device, (int)threads, context, &error);
    return status == SPARGE_OK ? SB_EXIT_OK : fail_backend(arguments, &error);
}

int sb_devices_label(const sb_devices *devices, int device, char label[SB_DEVICE_LABEL])
{
    sparge_device_info info, other;
    sparge_error error = {0};
    if (sparge_device_describe(devices->backend, device, &info, &error) != SPARGE_OK)
        return sb_fail(SB_EXIT_ENVIRONMENT, "%s", error.text);
    int count = sparge_backend_device_count(devices->backend), equal = 0;
    for (int i = 0; i < count; i++)
        equal += i != device && sparge_device_describe(devices->backend, i, &other, &error) == SPARGE_OK &&
                 strcmp(other.name, info.name) == 0;
    if (equal > 0)
        snprintf(label, SB_DEVICE_LABEL, "%.100s (%.12s)", info.name, info.uuid);
    else
        snprintf(label, SB_DEVICE_LABEL, "%s", info.name);
    return SB_EXIT_OK;
}

int sb_context_open(const sb_arguments *arguments, sparge_context **context)
{
    sb_devices devices;
    int code = sb_devices_parse(arguments, 0, &devices);
    return code == SB_EXIT_OK ? sb_devices_open(arguments, &devices, devices.first, context) : code;
}
