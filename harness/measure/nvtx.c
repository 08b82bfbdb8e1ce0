#include "measure/nvtx.h"

#ifdef SPARGE_HAVE_NVTX

#include <stdarg.h>
#include <stdio.h>

#include <nvtx3/nvToolsExt.h>

/* NULL without a tool. Asked for once: NVTX looks for its tool in the first call. */
static nvtxDomainHandle_t domain(void)
{
    static nvtxDomainHandle_t handle;
    static int is_made;
    if (!is_made)
        handle = nvtxDomainCreateA("sparge-bench");
    is_made = 1;
    return handle;
}

void sb_nvtx_begin(const char *format, ...)
{
    if (!domain())
        return;
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    nvtxEventAttributes_t range = {.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                   .message.ascii = text};
    nvtxDomainRangePushEx(domain(), &range);
}

void sb_nvtx_end(void)
{
    if (domain())
        nvtxDomainRangePop(domain());
}

#else

void sb_nvtx_begin(const char *format, ...)
{
    (void)format;
}

void sb_nvtx_end(void) {}

#endif
