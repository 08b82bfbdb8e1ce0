/* The driver's version, from NVML: a library that comes with the driver and is opened when it is asked, so that the program
 * starts on machines without one. Only three of its functions are needed, whose types have not changed since NVML 2. */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef int nvml_plain(void); /* both 0 if all went well */
typedef int nvml_version(char *text, unsigned int size);

/* ISO C has no conversion from dlsym's object pointer to a function's: the bits are copied. */
static int find(void *library, const char *name, void *function, size_t size)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, size);
    return found != NULL;
}

void cuda_driver_version(char *text, size_t size)
{
    nvml_plain *init, *shut_down;
    nvml_version *version;
    char told[80] = ""; /* NVML's own limit */
    text[0] = '\0';
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    if (find(library, "nvmlInit_v2", &init, sizeof init) &&
        find(library, "nvmlSystemGetDriverVersion", &version, sizeof version) &&
        find(library, "nvmlShutdown", &shut_down, sizeof shut_down) && init() == 0) {
        if (version(told, sizeof told) == 0)
            snprintf(text, size, "%s", told);
        shut_down();
    }
    dlclose(library);
}
