/* A libnvidia-ml.so.1 for tests: one device, GPU-1, whose readings are known. The environment variable FAKE_NVML names the function
 * that fails, by a part of its name. */
#include <stdlib.h>
#include <string.h>

enum { UNINITIALISED = 1, NOT_FOUND = 6, NOT_SUPPORTED = 3, TOO_SMALL = 7, VALUE_UINT = 1, VALUE_ULLONG = 3 };

typedef struct field {
    unsigned int id, scope;
    long long time, latency;
    int value_type, result;
    union {
        unsigned int of_uint;
        unsigned long long of_ullong;
    } value;
} field;

static int running;

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int result);
int nvmlSystemGetDriverVersion(char *text, unsigned int size);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device);
int nvmlDeviceGetClockInfo(void *device, unsigned int which, unsigned int *mhz);
int nvmlDeviceGetPowerUsage(void *device, unsigned int *mw);
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned int *mw);
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj);
int nvmlDeviceGetFieldValues(void *device, int count, field *fields);
int nvmlDeviceGetMaxClockInfo(void *device, unsigned int which, unsigned int *mhz);
int nvmlDeviceGetEccMode(void *device, unsigned int *now, unsigned int *after_restart);
int nvmlDeviceGetPersistenceMode(void *device, unsigned int *on);
int nvmlDeviceGetVbiosVersion(void *device, char *text, unsigned int size);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, void *processes);

static int result_of(const char *function, int failure)
{
    const char *failing = getenv("FAKE_NVML");
    if (failing && *failing && strstr(function, failing))
        return failure;
    return running || strstr(function, "Init") ? 0 : UNINITIALISED;
}

int nvmlInit_v2(void)
{
    const int result = result_of("Init", 9);
    running += result == 0;
    return result;
}

int nvmlShutdown(void)
{
    running--;
    return 0;
}

const char *nvmlErrorString(int result)
{
    return result == 9 ? "Driver Not Loaded" : result == NOT_FOUND ? "Not Found" : "Some Error";
}

int nvmlSystemGetDriverVersion(char *text, unsigned int size)
{
    strncpy(text, "580.0.1", size);
    return result_of("DriverVersion", NOT_SUPPORTED);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
    *device = &running;
    return strcmp(uuid, "GPU-1") == 0 ? result_of("HandleByUUID", NOT_FOUND) : NOT_FOUND;
}

int nvmlDeviceGetClockInfo(void *device, unsigned int which, unsigned int *mhz)
{
    *mhz = which == 1 ? 1755 : which == 2 ? 3201 : 0;
    return device == &running ? result_of("GetClockInfo", NOT_SUPPORTED) : NOT_FOUND;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned int *mw)
{
    *mw = 123456;
    return device == &running ? result_of("PowerUsage", NOT_SUPPORTED) : NOT_FOUND;
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned int *mw)
{
    *mw = 700000;
    return device == &running ? result_of("PowerLimit", NOT_SUPPORTED) : NOT_FOUND;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj)
{
    *mj = 5000000000ull; /* beyond 32 bits */
    return device == &running ? result_of("Energy", NOT_SUPPORTED) : NOT_FOUND;
}

/* No nvmlDeviceGetTemperature: libraries may lack what newer ones call otherwise. */

int nvmlDeviceGetFieldValues(void *device, int count, field *fields)
{
    for (int i = 0; i < count; i++) {
        fields[i].result = fields[i].id == 271 ? NOT_SUPPORTED : 0;
        fields[i].value_type = fields[i].id == 269 ? VALUE_UINT : VALUE_ULLONG;
        if (fields[i].id == 269)
            fields[i].value.of_uint = 77;
        else
            fields[i].value.of_ullong = 10000000000ull + fields[i].id;
    }
    return device == &running ? result_of("FieldValues", NOT_SUPPORTED) : NOT_FOUND;
}

int nvmlDeviceGetMaxClockInfo(void *device, unsigned int which, unsigned int *mhz)
{
    *mhz = which == 1 ? 1980 : 0;
    return device == &running ? result_of("MaxClock", NOT_SUPPORTED) : NOT_FOUND;
}

int nvmlDeviceGetEccMode(void *device, unsigned int *now, unsigned int *after_restart)
{
    *now = 1;
    *after_restart = 0;
    return device == &running ? result_of("EccMode", NOT_SUPPORTED) : NOT_FOUND;
}

int nvmlDeviceGetPersistenceMode(void *device, unsigned int *on)
{
    *on = 0;
    return device == &running ? result_of("Persistence", NOT_SUPPORTED) : NOT_FOUND;
}

/* No nvmlDeviceGetMigMode either. */

int nvmlDeviceGetVbiosVersion(void *device, char *text, unsigned int size)
{
    strncpy(text, "96.00.89", size);
    return device == &running ? result_of("Vbios", NOT_SUPPORTED) : NOT_FOUND;
}

/* Three, which is more than no array holds. */
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, void *processes)
{
    const int fits = *count >= 3 && processes;
    const int result = result_of("Processes", NOT_SUPPORTED);
    *count = 3;
    return device != &running ? NOT_FOUND : result != 0 ? result : fits ? 0 : TOO_SMALL;
}
