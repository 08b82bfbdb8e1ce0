/* info: this build, this machine, the devices of each backend, the libraries, and what is missing. */
#include <inttypes.h>
#include <jansson.h>
#include <sqlite3.h>
#include <string.h>
#include <unistd.h>

#include "cli/output.h"
#include "command/commands.h"
#include "measure/memory.h"
#include "measure/provenance.h"

/* value NULL = missing; note: what that means, or NULL. */
static void add(an_table *table, const char *topic, const char *item, const char *value, const char *note)
{
    an_table_text(table, topic);
    an_table_text(table, item);
    an_table_text(table, value && *value ? value : NULL);
    an_table_text(table, note);
}

static void add_bytes(an_table *table, const char *topic, const char *item, uint64_t bytes)
{
    char text[64];
    if (bytes == 0 || bytes == UINT64_MAX) {
        add(table, topic, item, NULL, "the system does not tell");
        return;
    }
    sb_memory_text(bytes, text, sizeof text);
    add(table, topic, item, text, NULL);
}

static void add_program(an_table *table, const sb_provenance *provenance)
{
    add(table, "program", "version", provenance->version, NULL);
    add(table, "program", "commit", provenance->git_sha,
        !*provenance->git_sha         ? "built outside a git checkout: results cannot name their commit"
        : provenance->git_dirty == 1  ? "with changes that are not committed"
        : provenance->git_dirty == -1 ? "whether sources differed from it is not known"
                                      : NULL);
    add(table, "program", "build", provenance->build_type,
        strcmp(provenance->build_type, "Debug") == 0 ? "not optimised: times mean little" : NULL);
    add(table, "program", "compiler", provenance->compiler, NULL);
    add(table, "program", "flags", provenance->compiler_flags, NULL);
    add(table, "program", "sha256", provenance->binary_sha256, NULL);
}

static void add_system(an_table *table, const sb_provenance *provenance)
{
    char threads[32];
    snprintf(threads, sizeof threads, "%ld", sysconf(_SC_NPROCESSORS_ONLN));
    add(table, "system", "host", provenance->host, NULL);
    add(table, "system", "os", provenance->os, NULL);
    add(table, "system", "cpu", provenance->cpu_model, NULL);
    add(table, "system", "threads online", threads, NULL);
    add_bytes(table, "system", "memory available", sb_memory_available());
}

/* The "key: value" lines of a device. */
static void add_details(an_table *table, const char *topic, const char *details)
{
    while (*details) {
        char line[512];
        size_t length = strcspn(details, "\n");
        snprintf(line, sizeof line, "%.*s", (int)length, details);
        details += length + (details[length] == '\n');
        char *colon = strchr(line, ':');
        if (!colon)
            continue;
        *colon = '\0';
        add(table, topic, line, colon + 1 + strspn(colon + 1, " "), NULL);
    }
}

/* scale: of the value to the unit. */
static void add_reading(an_table *table, const char *topic, const char *item, int64_t value, double scale,
                        const char *unit)
{
    char text[48];
    snprintf(text, sizeof text, "%.10g %s", (double)value * scale, unit);
    add(table, topic, item, value >= 0 ? text : NULL, value >= 0 ? NULL : "the device does not tell");
}

/* What the device does at this moment. */
static void add_telemetry(an_table *table, const char *topic, sparge_context *context)
{
    sparge_telemetry now;
    sparge_device_state state;
    if (sparge_device_get_telemetry(context, &now) != SPARGE_OK ||
        sparge_device_get_state(context, &state) != SPARGE_OK) {
        add(table, topic, "clocks, power, heat", NULL, sparge_error_string(context));
        return;
    }
    static const char *const yes_or_no[] = {NULL, "no", "yes"};
    const char *untold = "the device does not tell";
    add(table, topic, "PCI", state.pci, NULL);
    add(table, topic, "VBIOS", *state.vbios ? state.vbios : NULL, *state.vbios ? NULL : untold);
    add(table, topic, "ECC", yes_or_no[state.ecc + 1], state.ecc < 0 ? untold : NULL);
    add(table, topic, "persistence mode", yes_or_no[state.persistence + 1], state.persistence < 0 ? untold : NULL);
    add(table, topic, "MIG", yes_or_no[state.mig + 1], state.mig < 0 ? untold : NULL);
    add_reading(table, topic, "computing processes", state.processes, 1, "with this one");
    add_reading(table, topic, "SM clock at most", state.max_sm_clock_mhz, 1, "MHz");
    add_reading(table, topic, "SM clock now", now.sm_clock_mhz, 1, "MHz");
    add_reading(table, topic, "memory clock now", now.memory_clock_mhz, 1, "MHz");
    add_reading(table, topic, "temperature now", now.temperature_c, 1, "C");
    add_reading(table, topic, "power now", now.power_mw, 1e-3, "W");
    add_reading(table, topic, "power limit", now.power_limit_mw, 1e-3, "W");
    add_reading(table, topic, "energy so far", now.energy_mj, 1e-3, "J");
    add_reading(table, topic, "slowed by the power limit so far", now.slowed_ns[SPARGE_SLOWDOWN_POWER_CAP], 1e-9, "s");
}

/* What only a context tells: whether this build can use the device, and what of its memory is free. */
static void add_use(an_table *table, const char *topic, const char *backend, int device)
{
    sparge_error error = {.status = SPARGE_OK};
    sparge_context *context = NULL;
    sb_memory memory;
    if (sparge_context_create(backend, device, 0, &context, &error) != SPARGE_OK) {
        add(table, topic, "usable by this build", "no", error.text);
        return;
    }
    add(table, topic, "usable by this build", "yes", NULL);
    if (sb_memory_of(context, &memory) == SPARGE_OK && memory.is_own)
        add_bytes(table, topic, "memory free", memory.free);
    add_telemetry(table, topic, context);
    sparge_context_destroy(context);
}

static void add_versions(an_table *table, const char *topic, const sparge_device_info *info)
{
    add(table, topic, "driver", info->driver, *info->driver ? NULL : "NVML (libnvidia-ml.so.1) does not tell");
    add(table, topic, "CUDA runtime", info->runtime, NULL);
}

static void add_device(an_table *table, const char *backend, int device)
{
    char topic[48], units[32];
    sparge_error error = {.status = SPARGE_OK};
    sparge_device_info info;
    int is_cuda = strcmp(backend, "cuda") == 0;
    snprintf(topic, sizeof topic, "%s:%d", backend, device);
    if (sparge_device_describe(backend, device, &info, &error) != SPARGE_OK) {
        add(table, topic, "device", NULL, error.text);
        return;
    }
    snprintf(units, sizeof units, "%d", (int)info.units);
    add(table, topic, "device", info.name, NULL);
    add(table, topic, "uuid", info.uuid, NULL);
    if (is_cuda)
        add_versions(table, topic, &info);
    add(table, topic, "arch", info.arch, NULL);
    add(table, topic, "units", units, is_cuda ? "SMs" : "threads");
    add_bytes(table, topic, "memory", info.memory_bytes);
    add_bytes(table, topic, is_cuda ? "L2 cache" : "last-level cache", info.l2_bytes);
    add_details(table, topic, info.details);
    add_use(table, topic, backend, device);
}

static void add_backends(an_table *table, int all)
{
    int has_cuda = 0;
    for (size_t i = 0; i < sparge_backend_count(); i++) {
        const char *name = sparge_backend_name(i);
        int devices = sparge_backend_device_count(name);
        has_cuda = has_cuda || strcmp(name, "cuda") == 0;
        if (strcmp(name, "fake") == 0 && !all)
            continue;
        for (int device = 0; device < devices; device++)
            add_device(table, name, device);
        if (devices < 1)
            add(table, name, "device", NULL, "no device of this backend: it cannot be chosen");
    }
    if (!has_cuda)
        add(table, "cuda", "device", NULL, "this build has no CUDA backend: everything runs on the CPU");
}

static void add_gnuplot(an_table *table)
{
    char line[128] = "";
    FILE *pipe = popen("gnuplot --version 2>/dev/null", "r");
    if (pipe) {
        if (!fgets(line, sizeof line, pipe))
            line[0] = '\0';
        if (pclose(pipe) != 0)
            line[0] = '\0';
    }
    line[strcspn(line, "\n")] = '\0';
    const char *version = strncmp(line, "gnuplot ", 8) == 0 ? line + 8 : line;
    add(table, "library", "gnuplot", version,
        *line ? NULL : "not on PATH: report writes tables and .gp files, no pictures");
}

static int run(const sb_command *command, const sb_arguments *arguments)
{
    sb_provenance provenance;
    an_format format;
    (void)command;
    int code = sb_output_format(arguments, &format);
    if (code != SB_EXIT_OK)
        return code;
    an_table *table = an_table_create();
    if (!table)
        return sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for the table");
    an_table_column(table, "topic", AN_TEXT);
    an_table_column(table, "item", AN_TEXT);
    an_table_column(table, "value", AN_TEXT);
    an_table_column(table, "note", AN_TEXT);
    sb_provenance_gather(&provenance);
    add_program(table, &provenance);
    add_system(table, &provenance);
    add_backends(table, sb_argument(arguments, "all") != NULL);
    add(table, "library", "SQLite", sqlite3_libversion(), NULL);
    add(table, "library", "Jansson", jansson_version_str(), NULL);
    add_gnuplot(table);
    code = sb_output_table(arguments, table, NULL);
    an_table_destroy(table);
    return code;
}

static const sb_option options[] = {
    SB_FORMAT_OPTION("table"),
    {.name = "all", .help = "Also what is meant for tests: the fake backend."},
};

const sb_command sb_command_info = {
    .name = "info",
    .summary = "tell about this build, this machine and its devices",
    .operands = "",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .description =
        "Lists the build, the machine, the devices of each backend and the libraries. What is missing has no "
        "value and a note that says what that means.",
    .examples = "sparge-bench info\nsparge-bench info --format json",
    .run = run,
};
