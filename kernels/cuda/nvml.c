/* NVML without its header, which CUDA toolkits may lack: the functions that are needed, whose types have not changed since NVML 8.
 * All return 0 if all went well. */
#include "cuda/nvml.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char file_name[] = "libnvidia-ml.so.1";

enum {
    CLOCK_SM = 1,
    CLOCK_MEMORY = 2,
    SENSOR_GPU = 0,
    TOO_SMALL = 7, /* a result: there are more than the array holds */
    TEXT_SIZE = 80,
    VALUE_UINT = 1,
    VALUE_ULONG = 2,
    VALUE_ULLONG = 3
};

/* Nanoseconds for which clocks were lower than they could be, since the driver was loaded: field numbers. */
static const unsigned int slowdown_field[SPARGE_SLOWDOWNS] = {
    [SPARGE_SLOWDOWN_POWER_CAP] = 74,
    [SPARGE_SLOWDOWN_SOFTWARE_THERMAL] = 269,
    [SPARGE_SLOWDOWN_HARDWARE_THERMAL] = 270,
    [SPARGE_SLOWDOWN_POWER_BRAKE] = 271,
};

typedef void *nvml_device;

typedef struct nvml_field {
    unsigned int id, scope;
    long long time, latency;
    int value_type, result;
    union {
        unsigned int of_uint;
        unsigned long of_ulong;
        unsigned long long of_ullong;
        double of_double;
    } value;
} nvml_field;

_Static_assert(sizeof(nvml_field) == 40, "as NVML lays it out");

typedef struct nvml_functions {
    int (*init)(void);
    int (*shut_down)(void);
    const char *(*error)(int result);
    int (*driver_version)(char *text, unsigned int size);
    int (*device_of_uuid)(const char *uuid, nvml_device *device);
    /* The rest may be missing. */
    int (*clock)(nvml_device device, unsigned int which, unsigned int *mhz);
    int (*power)(nvml_device device, unsigned int *mw);
    int (*power_limit)(nvml_device device, unsigned int *mw);
    int (*energy)(nvml_device device, unsigned long long *mj);
    int (*temperature)(nvml_device device, unsigned int sensor, unsigned int *celsius);
    int (*fields)(nvml_device device, int count, nvml_field *fields);
    int (*max_clock)(nvml_device device, unsigned int which, unsigned int *mhz);
    int (*ecc)(nvml_device device, unsigned int *now, unsigned int *after_restart);
    int (*persistence)(nvml_device device, unsigned int *on);
    int (*mig)(nvml_device device, unsigned int *now, unsigned int *after_restart);
    int (*vbios)(nvml_device device, char *text, unsigned int size);
    int (*processes)(nvml_device device, unsigned int *count, void *processes);
} nvml_functions;

struct cuda_nvml {
    void *library;
    nvml_functions call;
    nvml_device device;
};

/* ISO C has no conversion from dlsym's object pointer to a function's: the bits are copied. */
static int find(void *library, const char *name, void *function, size_t size)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, size);
    return found != NULL;
}

#define FIND(library, name, function) find(library, name, &(function), sizeof(function))

static void close_library(void *library, const nvml_functions *call)
{
    call->shut_down();
    dlclose(library);
}

/* NULL, with the reason, if it cannot be used. */
static void *open_library(nvml_functions *call, char *reason, size_t size)
{
    memset(call, 0, sizeof *call);
    void *library = dlopen(file_name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(reason, size, "%s: not found where the dynamic linker looks; it comes with the driver", file_name);
        return NULL;
    }
    if (!FIND(library, "nvmlInit_v2", call->init) || !FIND(library, "nvmlErrorString", call->error) ||
        !FIND(library, "nvmlSystemGetDriverVersion", call->driver_version) ||
        !FIND(library, "nvmlDeviceGetHandleByUUID", call->device_of_uuid) ||
        !FIND(library, "nvmlShutdown", call->shut_down)) {
        snprintf(reason, size, "%s: lacks functions that every NVML has", file_name);
        dlclose(library);
        return NULL;
    }
    const int result = call->init();
    if (result != 0) {
        snprintf(reason, size, "%s: nvmlInit_v2: %s", file_name, call->error(result));
        dlclose(library);
        return NULL;
    }
    (void)FIND(library, "nvmlDeviceGetClockInfo", call->clock);
    (void)FIND(library, "nvmlDeviceGetPowerUsage", call->power);
    (void)FIND(library, "nvmlDeviceGetEnforcedPowerLimit", call->power_limit);
    (void)FIND(library, "nvmlDeviceGetTotalEnergyConsumption", call->energy);
    (void)FIND(library, "nvmlDeviceGetTemperature", call->temperature);
    (void)FIND(library, "nvmlDeviceGetFieldValues", call->fields);
    (void)FIND(library, "nvmlDeviceGetMaxClockInfo", call->max_clock);
    (void)FIND(library, "nvmlDeviceGetEccMode", call->ecc);
    (void)FIND(library, "nvmlDeviceGetPersistenceMode", call->persistence);
    (void)FIND(library, "nvmlDeviceGetMigMode", call->mig);
    (void)FIND(library, "nvmlDeviceGetVbiosVersion", call->vbios);
    (void)FIND(library, "nvmlDeviceGetComputeRunningProcesses_v3", call->processes);
    return library;
}

void cuda_driver_version(char *text, size_t size)
{
    nvml_functions call;
    char told[TEXT_SIZE] = "", reason[TEXT_SIZE];
    text[0] = '\0';
    void *library = open_library(&call, reason, sizeof reason);
    if (!library)
        return;
    if (call.driver_version(told, sizeof told) == 0)
        snprintf(text, size, "%s", told);
    close_library(library, &call);
}

cuda_nvml *cuda_nvml_open(const char *uuid, char *reason, size_t size)
{
    nvml_functions call;
    nvml_device device;
    void *library = open_library(&call, reason, size);
    if (!library)
        return NULL;
    const int result = call.device_of_uuid(uuid, &device);
    cuda_nvml *nvml = result == 0 ? malloc(sizeof *nvml) : NULL;
    if (!nvml) {
        if (result != 0)
            snprintf(reason, size, "%s: nvmlDeviceGetHandleByUUID of %s: %s", file_name, uuid, call.error(result));
        else
            snprintf(reason, size, "out of memory for NVML");
        close_library(library, &call);
        return NULL;
    }
    *nvml = (cuda_nvml){library, call, device};
    return nvml;
}

void cuda_nvml_close(cuda_nvml *nvml)
{
    if (!nvml)
        return;
    close_library(nvml->library, &nvml->call);
    free(nvml);
}

static int64_t value_of(const nvml_field *field)
{
    if (field->result != 0)
        return -1;
    switch (field->value_type) {
    case VALUE_UINT:
        return field->value.of_uint;
    case VALUE_ULONG:
        return (int64_t)field->value.of_ulong;
    case VALUE_ULLONG:
        return (int64_t)field->value.of_ullong;
    default:
        return -1;
    }
}

static void read_slowdowns(const cuda_nvml *nvml, sparge_telemetry *telemetry)
{
    nvml_field field[SPARGE_SLOWDOWNS] = {0};
    for (int i = 0; i < SPARGE_SLOWDOWNS; i++)
        field[i].id = slowdown_field[i];
    const int read = nvml->call.fields && nvml->call.fields(nvml->device, SPARGE_SLOWDOWNS, field) == 0;
    for (int i = 0; i < SPARGE_SLOWDOWNS; i++)
        telemetry->slowed_ns[i] = read ? value_of(&field[i]) : -1;
}

void cuda_nvml_read(const cuda_nvml *nvml, sparge_telemetry *telemetry)
{
    const nvml_functions *call = &nvml->call;
    unsigned int value;
    unsigned long long energy;
    telemetry->sm_clock_mhz = call->clock && call->clock(nvml->device, CLOCK_SM, &value) == 0 ? (int32_t)value : -1;
    telemetry->memory_clock_mhz =
        call->clock && call->clock(nvml->device, CLOCK_MEMORY, &value) == 0 ? (int32_t)value : -1;
    telemetry->temperature_c =
        call->temperature && call->temperature(nvml->device, SENSOR_GPU, &value) == 0 ? (int32_t)value : -1;
    telemetry->power_mw = call->power && call->power(nvml->device, &value) == 0 ? (int64_t)value : -1;
    telemetry->power_limit_mw = call->power_limit && call->power_limit(nvml->device, &value) == 0 ? (int64_t)value : -1;
    telemetry->energy_mj = call->energy && call->energy(nvml->device, &energy) == 0 ? (int64_t)energy : -1;
    read_slowdowns(nvml, telemetry);
}

void cuda_nvml_read_state(const cuda_nvml *nvml, sparge_device_state *state)
{
    const nvml_functions *call = &nvml->call;
    unsigned int value, later;
    state->ecc = call->ecc && call->ecc(nvml->device, &value, &later) == 0 ? value != 0 : -1;
    state->mig = call->mig && call->mig(nvml->device, &value, &later) == 0 ? value != 0 : -1;
    state->persistence = call->persistence && call->persistence(nvml->device, &value) == 0 ? value != 0 : -1;
    state->max_sm_clock_mhz =
        call->max_clock && call->max_clock(nvml->device, CLOCK_SM, &value) == 0 ? (int32_t)value : -1;
    /* Asked with no room for them, it says how many there are. */
    unsigned int count = 0;
    const int result = call->processes ? call->processes(nvml->device, &count, NULL) : -1;
    state->processes = result == 0 || result == TOO_SMALL ? (int32_t)count : -1;
    char text[sizeof state->vbios] = "";
    const int told = call->vbios && call->vbios(nvml->device, text, sizeof text) == 0;
    snprintf(state->vbios, sizeof state->vbios, "%s", told ? text : "");
}
