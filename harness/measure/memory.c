/* /proc/meminfo and the control group of version 2. */
#include "measure/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t read_number(const char *path)
{
    uint64_t value = UINT64_MAX;
    FILE *file = fopen(path, "r");
    if (!file)
        return UINT64_MAX;
    if (fscanf(file, "%" SCNu64, &value) != 1)
        value = UINT64_MAX; /* "max" */
    fclose(file);
    return value;
}

/* The number of /proc/meminfo's line that begins with `key`, in bytes. */
static uint64_t read_meminfo(const char *key)
{
    char line[256];
    uint64_t kib = UINT64_MAX;
    FILE *file = fopen("/proc/meminfo", "r");
    if (!file)
        return UINT64_MAX;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0) {
            if (sscanf(line + strlen(key), "%" SCNu64 " kB", &kib) != 1)
                kib = UINT64_MAX;
            break;
        }
    fclose(file);
    return kib > UINT64_MAX / 1024 ? UINT64_MAX : kib * 1024;
}

uint64_t sb_memory_available(void)
{
    uint64_t available = read_meminfo("MemAvailable:");
    uint64_t limit = read_number("/sys/fs/cgroup/memory.max");
    uint64_t used = read_number("/sys/fs/cgroup/memory.current");
    if (limit == UINT64_MAX || used == UINT64_MAX)
        return available;
    uint64_t left = limit > used ? limit - used : 0;
    return left < available ? left : available;
}

static uint64_t total_of_host(void)
{
    uint64_t total = read_meminfo("MemTotal:"), limit = read_number("/sys/fs/cgroup/memory.max");
    return limit < total ? limit : total;
}

sparge_status sb_memory_of(sparge_context *context, sb_memory *memory)
{
    sparge_status status = sparge_device_get_memory(context, &memory->free, &memory->total);
    memory->is_own = memory->free != UINT64_MAX;
    if (status == SPARGE_OK && !memory->is_own)
        *memory = (sb_memory){.free = sb_memory_available(), .total = total_of_host()};
    return status;
}

void sb_memory_text(uint64_t bytes, char *text, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    if (bytes == UINT64_MAX) {
        snprintf(text, size, "more than any memory");
        return;
    }
    while (value >= 1024.0 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024.0;
        unit++;
    }
    snprintf(text, size, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}
