/* sweep as a command: its table, and what the options mean. */
#include "command/sweep_options.h"

#include <stdlib.h>
#include <string.h>

#include "cli/device_options.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/text.h"
#include "command/commands.h"
#include "plan/points.h"

static const sb_option options[] = {
    {.help = "Results"},
    {.name = "db",
     .letter = 'd',
     .value = "FILE",
     .complete = "files",
     .help = "The results file; made if it is missing. What it holds already is not measured again. Required, except "
             "with --dry-run."},
    {.name = "fresh", .help = "Measure all points, also those that the results file holds already."},
    {.name = "since",
     .value = "RUN",
     .default_value = "0",
     .help = "Only measurements of runs from this number on count as done: how an interrupted --fresh is resumed."},
    SB_FORMAT_OPTION("table"),
    {.name = "quiet", .letter = 'q', .help = "No progress, no notes on stderr; errors and failed points remain."},
    {.name = "dry-run",
     .help = "Only list the points with the memory that each needs and its predicted time, beside the memory that is "
             "free; nothing is written."},
    {.help = "Where to run"},
    SB_DEVICE_OPTIONS_OF("N|all", "Device of the backend, or all of them, one after the other."),
    {.name = "max-memory",
     .value = "BYTES",
     .default_value = "0",
     .help = "Points that need more are skipped before anything is allocated; 0 means what is free. k, m and g are "
             "1024, 1024^2 and 1024^3."},
    {.help = "How to measure"},
    {.name = "visits",
     .value = "N",
     .default_value = "0",
     .help = "Visits of a point, of whole launches and of single stages each; 0 means 3 to 20, by --min-time."},
    {.name = "launches",
     .value = "N",
     .default_value = "0",
     .help = "Launches of a visit; 0 means as many as fit into 20 ms, at least 5 on a GPU, 2 to 64 on a CPU."},
    {.name = "warmup",
     .value = "N|auto",
     .default_value = "auto",
     .help = "Launches before the first visit; auto means 1 to 3, up to 100 ms."},
    {.name = "min-time",
     .value = "SECONDS",
     .default_value = "1",
     .help = "Visits go on until their samples sum to this, unless --visits says how many."},
    {.name = "max-time",
     .value = "SECONDS",
     .default_value = "600",
     .help = "No visit of a point begins after this time; a point with too few visits is recorded as unmeasured."},
    {.name = "require",
     .value = "LIST",
     .help =
         "Of nvml (clocks, power, energy and heat of the device), cupti (kernel records) and counters, by comma: what "
         "cannot be had of these ends the sweep before anything is measured, with exit code 3. Without it that is "
         "NULL, and the run's note says why. This version has neither kernel records nor counters."},
    {.name = "error-rows",
     .value = "N|all|none",
     .help = "Query rows compared with exact attention. By default all of short problems, else 256."},
};

const sb_command sb_command_sweep = {
    .name = "sweep",
    .summary = "measure methods over workloads and lengths into a results file",
    .operands = "",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .description =
        "Measures every combination of the values given (a point), prints a summary and keeps everything in the "
        "results "
        "file: all samples in order, sparsity, error against exact attention, and the command that repeats each "
        "point alone.\n\n"
        "Points that the file holds already are passed over, so a sweep that was interrupted or died is resumed by the "
        "same command, and a wider one measures only what is new. Several sweeps may write to one file at once.\n\n"
        "A method that cannot do a problem, or that needs more memory than is free, is recorded as skipped, a point "
        "that fails is recorded with its reason, and the sweep goes on. With --device all each device is a run of its "
        "own; "
        "where a machine has several of one name, results tell them apart by UUID.\n\n"
        "The exit code is 0 if all points are done or skipped, 4 if any failed or could not be "
        "measured, 130 after Ctrl-C. The first Ctrl-C ends after the current launch, a second one at once.",
    .examples = "sparge-bench sweep --seqlen 1k..8k --method dense-f16,sparge-int8-fp8 --db results.db\n"
                "sparge-bench sweep --workload llama3.1-8b --seqlen 4k --heads 8 --set sparge-f16.tau=0.9,0.95,0.98 "
                "--method sparge-f16 --db results.db\n"
                "sparge-bench sweep --seqlen 8k..128k --dry-run",
    .run = sb_sweep_run,
    .shared = sb_point_options,
    .shared_count = &sb_point_option_count,
};

/* An integer, or a word that stands for one. */
static int word_or_integer(const sb_arguments *arguments, const char *name, const char *word, int64_t meaning,
                           int64_t min, int64_t max, int64_t *value)
{
    if (strcmp(sb_argument(arguments, name), word) == 0) {
        *value = meaning;
        return SB_EXIT_OK;
    }
    return sb_integer_option(arguments, name, min, max, value);
}

static int parse_error_rows(const sb_arguments *arguments, int64_t *rows)
{
    const char *text = sb_argument(arguments, "error-rows");
    *rows = SB_ERROR_ROWS_DEFAULT;
    if (!text)
        return SB_EXIT_OK;
    if (strcmp(text, "none") == 0) {
        *rows = 0;
        return SB_EXIT_OK;
    }
    return word_or_integer(arguments, "error-rows", "all", SB_ERROR_ROWS_ALL, 1, INT64_MAX, rows);
}

static int parse_require(const sb_arguments *arguments, int *nvml)
{
    static const char *const words[] = {"nvml", "cupti", "counters"};
    for (const char *item = sb_argument(arguments, "require"); item;) {
        const size_t length = strcspn(item, ",");
        int word = 0;
        while (word < 3 && (strlen(words[word]) != length || strncmp(words[word], item, length) != 0))
            word++;
        if (word == 3)
            return sb_fail(SB_EXIT_USAGE, "--require: '%.*s' is none of nvml, cupti, counters", (int)length, item);
        if (word > 0)
            return sb_fail(SB_EXIT_ENVIRONMENT, "--require %s: this version does not record it", words[word]);
        *nvml = 1;
        item = item[length] ? item + length + 1 : NULL;
    }
    return SB_EXIT_OK;
}

int sb_sweep_options_parse(const sb_arguments *arguments, sb_sweep_options *parsed)
{
    memset(parsed, 0, sizeof *parsed);
    parsed->database = sb_argument(arguments, "db");
    parsed->dry_run = sb_argument(arguments, "dry-run") != NULL;
    parsed->quiet = sb_argument(arguments, "quiet") != NULL;
    parsed->fresh = sb_argument(arguments, "fresh") != NULL;
    if (!parsed->database && !parsed->dry_run)
        return sb_fail(SB_EXIT_USAGE, "sweep needs --db FILE for its results, or --dry-run");
    sb_measure_options *measure = &parsed->measure;
    measure->stop = sb_interrupted;
    int64_t visits = 0, launches = 0, warmup = 0, memory = 0;
    double min_time_s = 0.0, max_time_s = 0.0;
    int code = sb_output_format(arguments, &parsed->format);
    if (code == SB_EXIT_OK)
        code = parse_require(arguments, &parsed->require_nvml);
    if (code == SB_EXIT_OK)
        code = sb_integer_option(arguments, "since", 0, INT64_MAX, &parsed->since);
    if (code == SB_EXIT_OK)
        code = sb_integer_option(arguments, "max-memory", 0, INT64_MAX, &memory);
    if (code == SB_EXIT_OK)
        code = sb_integer_option(arguments, "visits", 0, 1000000, &visits);
    if (code == SB_EXIT_OK)
        code = sb_integer_option(arguments, "launches", 0, 1000000, &launches);
    if (code == SB_EXIT_OK)
        code = word_or_integer(arguments, "warmup", "auto", -1, 1, 1000000, &warmup);
    if (code == SB_EXIT_OK)
        code = sb_real_option(arguments, "min-time", 0.0, 1e6, &min_time_s);
    if (code == SB_EXIT_OK)
        code = sb_real_option(arguments, "max-time", 0.0, 1e6, &max_time_s);
    if (code == SB_EXIT_OK)
        code = parse_error_rows(arguments, &measure->error_rows);
    measure->max_memory = (uint64_t)memory;
    measure->schedule = (sb_schedule){
        .visits = (int32_t)visits,
        .launches = (int32_t)launches,
        .warmup = (int32_t)warmup,
        .min_time_ns = (int64_t)(min_time_s * 1e9),
        .max_time_ns = (int64_t)(max_time_s * 1e9),
    };
    return code;
}

char *sb_sweep_repro(const sb_arguments *arguments, const char *point_command, const char *backend, int device)
{
    static const char *const given[] = {"threads", "max-memory", "visits",   "launches",
                                        "warmup",  "min-time",   "max-time", "error-rows"};
    sb_text text = {0};
    sb_text_add(&text, "%s", point_command);
    sb_text_add_word(&text, "--backend");
    sb_text_add_word(&text, backend);
    if (sb_argument_count(arguments, "device") > 0)
        sb_text_add(&text, " --device %d", device);
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        if (sb_argument_count(arguments, given[i]) == 0)
            continue;
        sb_text_add(&text, " --%s", given[i]);
        sb_text_add_word(&text, sb_argument(arguments, given[i]));
    }
    sb_text_add(&text, " --db repro.db");
    return sb_text_take(&text);
}
