/* A tool that NVTX loads (NVTX_INJECTION64_PATH): writes each range of the calling process to SPARGE_TEST_NVTX_LOG, a line when it
 * begins, "+ DOMAIN: NAME", and one when it ends, "-". */
#include <stdio.h>
#include <stdlib.h>

#include <nvtx3/nvToolsExt.h>

static FILE *file;

static nvtxDomainHandle_t make_domain(const char *name)
{
    return (nvtxDomainHandle_t)(void *)name; /* a literal of the program's: it lives as long */
}

static int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *range)
{
    return fprintf(file, "+ %s: %s\n", (const char *)(void *)domain, range->message.ascii);
}

static int pop(nvtxDomainHandle_t domain)
{
    (void)domain;
    return fprintf(file, "-\n");
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned int size;
    const char *path = getenv("SPARGE_TEST_NVTX_LOG");
    if (!callbacks || !path || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) ||
        size <= NVTX_CBID_CORE2_DomainRangePop)
        return 0;
    file = fopen(path, "w");
    if (!file)
        return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)make_domain;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
    return 1;
}
