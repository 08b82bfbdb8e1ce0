/* Options of one number, and the context that three of them name. */
#include "cli/device_options.h"

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

int sb_context_open(const sb_arguments *arguments, sparge_context **context)
{
    int64_t device, threads;
    int code = sb_integer_option(arguments, "device", 0, 1024, &device);
    if (code == SB_EXIT_OK)
        code = sb_integer_option(arguments, "threads", 0, 4096, &threads);
    if (code != SB_EXIT_OK)
        return code;
    sparge_error error = {0};
    sparge_status status =
        sparge_context_create(sb_argument(arguments, "backend"), (int)device, (int)threads, context, &error);
    if (status == SPARGE_OK)
        return SB_EXIT_OK;
    /* A GPU that is asked for and not there (or not in this build) is no mistake of the command line. */
    int is_usage = status == SPARGE_ERROR_INVALID_ARGUMENT && strcmp(sb_argument(arguments, "backend"), "cuda") != 0;
    return sb_fail(is_usage ? SB_EXIT_USAGE : SB_EXIT_ENVIRONMENT, "%s", error.text);
}
