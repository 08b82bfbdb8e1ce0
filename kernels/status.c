/* Status names and the one-line error text. */
#include "sparge/status.h"

#include <stdarg.h>
#include <stdio.h>

#include "sparge/sparge.h"

#define QUOTE(x) #x
#define VERSION_TEXT(major, minor, patch) QUOTE(major) "." QUOTE(minor) "." QUOTE(patch)

const char *sparge_status_name(sparge_status status)
{
    switch (status) {
    case SPARGE_OK:
        return "ok";
    case SPARGE_ERROR_INVALID_ARGUMENT:
        return "invalid argument";
    case SPARGE_ERROR_UNSUPPORTED:
        return "unsupported";
    case SPARGE_ERROR_OUT_OF_MEMORY:
        return "out of memory";
    case SPARGE_ERROR_DEVICE:
        return "device error";
    case SPARGE_ERROR_IO:
        return "input/output error";
    case SPARGE_ERROR_INTERNAL:
        return "internal error";
    }
    return "unknown status";
}

sparge_status sparge_fail(sparge_error *error, sparge_status status, const char *format, ...)
{
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error->text, sizeof error->text, format, arguments);
        va_end(arguments);
        error->status = status;
    }
    return status;
}

const char *sparge_version(void)
{
    return VERSION_TEXT(SPARGE_VERSION_MAJOR, SPARGE_VERSION_MINOR, SPARGE_VERSION_PATCH);
}
