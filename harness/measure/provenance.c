/* Provenance from the build's header, /proc, /etc/os-release and uname. */
#include "measure/provenance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "device_code.h"
#include "sb_build_info.h"
#include "sha256.h"

/* The text after "key" and its separator in the first line that begins so, without quotes. 0 if there is none. */
static int read_key(const char *path, const char *key, char separator, char *value, size_t size)
{
    char line[512];
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    size_t length = strlen(key);
    int found = 0;
    while (!found && fgets(line, sizeof line, file)) {
        const char *begin = strchr(line, separator);
        if (strncmp(line, key, length) != 0 || !begin)
            continue;
        begin += 1 + strspn(begin + 1, " \t\"");
        size_t end = strcspn(begin, "\"\n");
        snprintf(value, size, "%.*s", (int)end, begin);
        found = 1;
    }
    fclose(file);
    return found;
}

static void hash_program(char hex[SB_SHA256_HEX_SIZE])
{
    unsigned char bytes[65536];
    sb_sha256 hash;
    hex[0] = '\0';
    FILE *file = fopen("/proc/self/exe", "rb");
    if (!file)
        return;
    sb_sha256_begin(&hash);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, file)) > 0;)
        sb_sha256_update(&hash, bytes, n);
    if (!ferror(file))
        sb_sha256_end(&hash, hex);
    fclose(file);
}

/* Empty where there is no such code. */
static void hash_device_code(const char *arch, char hex[SB_SHA256_HEX_SIZE])
{
    device_code code;
    hex[0] = '\0';
    const char *of_device = device_code_read(&code, "/proc/self/exe") == 0 ? device_code_arch(&code, arch) : NULL;
    if (of_device && device_code_hash(&code, of_device, hex) != 0)
        hex[0] = '\0';
    device_code_release(&code);
}

static void describe_system(sb_provenance *provenance)
{
    char name[128];
    struct utsname system;
    if (uname(&system) != 0)
        return;
    snprintf(provenance->host, sizeof provenance->host, "%s", system.nodename);
    int known = read_key("/etc/os-release", "PRETTY_NAME", '=', name, sizeof name);
    snprintf(provenance->os, sizeof provenance->os, "%s%s%.32s %.64s %.32s", known ? name : "", known ? ", " : "",
             system.sysname, system.release, system.machine);
}

void sb_provenance_stamp(sb_provenance *provenance)
{
    struct timespec now;
    struct tm utc;
    char seconds[24];
    clock_gettime(CLOCK_REALTIME, &now);
    if (!gmtime_r(&now.tv_sec, &utc))
        return;
    strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(provenance->started_utc, sizeof provenance->started_utc, "%s.%03ldZ", seconds, now.tv_nsec / 1000000);
}

void sb_provenance_gather(sb_provenance *provenance)
{
    memset(provenance, 0, sizeof *provenance);
    provenance->version = sparge_version();
    provenance->git_sha = SB_BUILD_GIT_SHA;
    provenance->git_dirty = SB_BUILD_GIT_DIRTY;
    provenance->build_type = SB_BUILD_TYPE;
    provenance->compiler = SB_BUILD_COMPILER;
    provenance->compiler_flags = SB_BUILD_FLAGS;
    hash_program(provenance->binary_sha256);
    describe_system(provenance);
    if (!read_key("/proc/cpuinfo", "model name", ':', provenance->cpu_model, sizeof provenance->cpu_model))
        provenance->cpu_model[0] = '\0';
    sb_provenance_stamp(provenance);
}

static const char *known(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

rs_run sb_provenance_run(const sb_provenance *provenance, const sparge_device_info *device)
{
    rs_run run = rs_run_unknown();
    run.started_utc = known(provenance->started_utc);
    run.program_version = provenance->version;
    run.git_sha = known(provenance->git_sha);
    run.git_dirty = provenance->git_dirty;
    run.build_type = known(provenance->build_type);
    run.compiler = known(provenance->compiler);
    run.compiler_flags = known(provenance->compiler_flags);
    run.binary_sha256 = known(provenance->binary_sha256);
    run.backend = device->backend;
    run.device_name = device->name;
    run.device_uuid = known(device->uuid);
    run.device_arch = known(device->arch);
    run.device_units = device->units;
    run.device_memory_bytes = device->memory_bytes > INT64_MAX ? -1 : (int64_t)device->memory_bytes;
    run.host = known(provenance->host);
    run.os = known(provenance->os);
    run.cpu_model = known(provenance->cpu_model);
    run.driver = known(device->driver);
    run.cuda_runtime = known(device->runtime);
    if (strcmp(device->backend, "cuda") != 0) /* on the host */
        run.cpu_threads = device->units;
    return run;
}

sparge_status sb_provenance_add_device(sb_provenance *provenance, sparge_context *context,
                                       const sparge_device_info *device, rs_run *run)
{
    sparge_telemetry now;
    sparge_device_state *state = &provenance->device_state;
    if (strcmp(device->backend, "cuda") == 0)
        hash_device_code(device->arch, provenance->device_code_sha256);
    run->device_code_sha256 = known(provenance->device_code_sha256);
    sparge_status status = sparge_device_get_state(context, state);
    const sparge_status telemetry = sparge_device_get_telemetry(context, &now);
    run->power_limit_mw = now.power_limit_mw;
    run->max_sm_clock_mhz = state->max_sm_clock_mhz;
    run->ecc = state->ecc;
    run->persistence = state->persistence;
    run->mig = state->mig;
    run->vbios = known(state->vbios);
    run->pci = known(state->pci);
    run->processes = state->processes;
    return status == SPARGE_OK ? telemetry : status;
}
