/* verify: every method against exact attention over the pairs that it computes, on a grid of shapes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/device_options.h"
#include "cli/output.h"
#include "command/commands.h"
#include "command/verify_case.h"
#include "plan/axes.h"

typedef struct verify {
    sparge_context *context;
    an_table *table;
    size_t passed, failed, skipped;
} verify;

static void add_row(verify *v, const char *method, const char *arithmetic, const sb_verify_shape *shape,
                    const sb_verify_result *result, const char *verdict, const char *reason)
{
    an_table_text(v->table, method);
    an_table_text(v->table, arithmetic);
    an_table_text(v->table, shape->name);
    an_table_text(v->table, sparge_dtype_name(shape->problem.dtype));
    an_table_number(v->table, result ? result->sparsity : NAN, "%.3f");
    an_table_number(v->table, result ? result->rel_l1 : NAN, "%.2e");
    an_table_number(v->table, result ? result->rel_l1_bound : NAN, "%.0e");
    an_table_number(v->table, result ? result->lse_error : NAN, "%.1e");
    an_table_number(v->table, result ? result->lse_bound : NAN, "%.0e");
    an_table_text(v->table, verdict);
    an_table_text(v->table, reason);
}

static void add_columns(an_table *table)
{
    static const struct {
        const char *name;
        an_cell_type type;
    } columns[] = {{"method", AN_TEXT},         {"arithmetic", AN_TEXT},  {"shape", AN_TEXT},
                   {"dtype", AN_TEXT},          {"sparsity", AN_NUMBER},  {"rel_l1", AN_NUMBER},
                   {"rel_l1_bound", AN_NUMBER}, {"lse_error", AN_NUMBER}, {"lse_bound", AN_NUMBER},
                   {"verdict", AN_TEXT},        {"reason", AN_TEXT}};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        an_table_column(table, columns[i].name, columns[i].type);
}

/* What is wrong, in words. */
static void explain(const sb_verify_result *r, char *text, size_t size)
{
    if (r->nonfinite > 0)
        snprintf(text, size, "%lld values are NaN, infinite or not written", (long long)r->nonfinite);
    else if (r->invisible > 0)
        snprintf(text, size, "computes %lld pairs that the causal mask hides", (long long)r->invisible);
    else if (!(r->rel_l1 <= r->rel_l1_bound))
        snprintf(text, size, "rel_l1 %.3g is above its bound", r->rel_l1);
    else
        snprintf(text, size, "the LSE is off by %.3g", r->lse_error);
}

static void check(verify *v, const sb_verify_inputs *inputs, const sparge_params *params, const char *arithmetic)
{
    const char *method = sparge_method_name(sparge_params_method(params));
    sb_verify_result result;
    sparge_error error = {0};
    char reason[128] = "";
    sparge_status status = sb_verify_run(v->context, inputs, params, arithmetic, &result, &error);
    if (status == SPARGE_ERROR_UNSUPPORTED) {
        v->skipped++;
        add_row(v, method, arithmetic, inputs->shape, NULL, "skipped", error.text);
    } else if (status != SPARGE_OK) {
        v->failed++;
        add_row(v, method, arithmetic, inputs->shape, NULL, "FAILED", error.text);
    } else if (result.passed) {
        v->passed++;
        add_row(v, method, arithmetic, inputs->shape, &result, "ok", "");
    } else {
        v->failed++;
        explain(&result, reason, sizeof reason);
        add_row(v, method, arithmetic, inputs->shape, &result, "FAILED", reason);
    }
}

/* A mask with about a third of the visible blocks, for the method that reads one. The file is the caller's to remove. */
static sparge_status write_mask(const sparge_problem *problem, char path[64], sparge_error *error)
{
    sparge_block_mask mask;
    sparge_status status = sparge_block_mask_create(&mask, problem, 128, 64, error);
    if (status != SPARGE_OK)
        return status;
    for (int32_t head = 0; head < mask.batch * mask.heads; head++)
        for (int64_t i = 0; i < mask.rows; i++)
            for (int64_t j = 0; j < mask.cols; j++)
                mask.value[(head * mask.rows + i) * mask.cols + j] =
                    (head + 2 * i + j) % 3 == 0 && sparge_block_visible(problem, 128, 64, i, j);
    strcpy(path, "/tmp/sparge-bench-XXXXXX");
    int file = mkstemp(path);
    if (file < 0) {
        status = sparge_fail(error, SPARGE_ERROR_IO, "%s: cannot make a file for the block mask", path);
        path[0] = '\0';
    } else {
        close(file);
        status = sparge_block_mask_write(&mask, path, error);
    }
    sparge_block_mask_release(&mask);
    return status;
}

/* Defaults are made for long sequences: on these shapes most methods would keep everything, and nothing but dense
 * attention would be checked. */
static const struct {
    const char *method, *param, *value;
} small_settings[] = {
    {"sparge-f16", "topk", "0.4"},
    {"sparge-int8-f16", "topk", "0.4"},
    {"sparge-int8-fp8", "topk", "0.4"},
    {"minference-vs", "vertical", "20"},
    {"minference-vs", "slash", "60"},
    {"minference-vs-grid", "vertical", "2"},
    {"minference-vs-grid", "slash", "60"},
    {"minference-ashape", "sink", "10"},
    {"minference-ashape", "local", "90"},
    {"minference-block", "k", "2"},
    {"flexprefill", "min_budget", "128"},
    {"window", "local", "90"},
    {"sta", "tile_t", "2"},
    {"sta", "tile_h", "4"},
    {"sta", "tile_w", "4"},
    {"skip-softmax", "threshold", "0"}, /* what it drops is decided inside the kernel: drop nothing */
};

/* What a method needs beside its defaults before it can be verified. mask_path is "" or a file to remove. */
static sparge_status set_up(sparge_params *params, const sb_verify_shape *shape, char mask_path[64],
                            sparge_error *error)
{
    const char *name = sparge_method_name(sparge_params_method(params));
    sparge_status status = SPARGE_OK;
    mask_path[0] = '\0';
    for (size_t i = 0; i < sizeof small_settings / sizeof *small_settings && status == SPARGE_OK; i++)
        if (strcmp(small_settings[i].method, name) == 0)
            status = sparge_params_set(params, small_settings[i].param, small_settings[i].value, error);
    if (status != SPARGE_OK || strcmp(name, "mask") != 0)
        return status;
    status = write_mask(&shape->problem, mask_path, error);
    return status == SPARGE_OK ? sparge_params_set(params, "file", mask_path, error) : status;
}

/* The arithmetics of a method: those of its parameter `attend`, or the one in its name. */
static size_t arithmetics_of(const sparge_method *method, const char *out[3])
{
    static const char *const all[] = {"f16", "int8-f16", "int8-fp8"};
    const char *name = sparge_method_name(method);
    if (sparge_method_param_find(method, "attend")) {
        memcpy(out, all, sizeof all);
        return 3;
    }
    for (size_t i = 1; i < 3; i++)
        if (strstr(name, all[i])) {
            out[0] = all[i];
            return 1;
        }
    out[0] = all[0];
    return 1;
}

static int check_method(verify *v, const sb_verify_inputs *inputs, const sparge_method *method)
{
    const char *arithmetic[3];
    char mask_path[64];
    sparge_error error = {0};
    sparge_params *params = NULL;
    size_t count = arithmetics_of(method, arithmetic);
    if (sparge_params_create(method, &params) != SPARGE_OK)
        return sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for parameters");
    int code = SB_EXIT_OK;
    if (set_up(params, inputs->shape, mask_path, &error) != SPARGE_OK)
        code = sb_fail(SB_EXIT_ENVIRONMENT, "%s", error.text);
    for (size_t i = 0; i < count && code == SB_EXIT_OK; i++)
        if (count > 1 && sparge_params_set(params, "attend", arithmetic[i], &error) != SPARGE_OK)
            code = sb_fail(SB_EXIT_ENVIRONMENT, "%s", error.text);
        else
            check(v, inputs, params, arithmetic[i]);
    if (mask_path[0] != '\0')
        unlink(mask_path);
    sparge_params_destroy(params);
    return code;
}

/* The reference of the error columns is itself under test. */
static int check_exact(verify *v, const sb_verify_inputs *inputs)
{
    static const double bound = 1e-12;
    sparge_error error = {0};
    sb_verify_result result = {.rel_l1_bound = bound, .lse_error = NAN, .lse_bound = NAN};
    if (sb_verify_exact(v->context, inputs, &result.rel_l1, &error) != SPARGE_OK)
        return sb_fail(SB_EXIT_ENVIRONMENT, "%s", error.text);
    int passed = result.rel_l1 <= bound;
    v->passed += (size_t)passed;
    v->failed += (size_t)!passed;
    add_row(v, "exact", "f64", inputs->shape, &result, passed ? "ok" : "FAILED", "");
    return SB_EXIT_OK;
}

static int verify_all(verify *v, const sparge_method *const *method, size_t methods, uint64_t seed)
{
    int code = SB_EXIT_OK;
    for (size_t s = 0; s < sb_verify_shape_count && code == SB_EXIT_OK; s++) {
        sb_verify_inputs inputs;
        sparge_error error = {0};
        if (sb_verify_inputs_create(v->context, &sb_verify_shapes[s], seed, &inputs, &error) != SPARGE_OK)
            return sb_fail(SB_EXIT_ENVIRONMENT, "%s", error.text);
        code = check_exact(v, &inputs);
        for (size_t m = 0; m < methods && code == SB_EXIT_OK; m++)
            code = check_method(v, &inputs, method[m]);
        sb_verify_inputs_release(v->context, &inputs);
    }
    return code;
}

static int run(const sb_command *command, const sb_arguments *arguments)
{
    (void)command;
    verify v = {0};
    const sparge_method **method = NULL;
    size_t methods = 0;
    int64_t seed = 0;
    an_format format;
    int code = sb_output_format(arguments, &format);
    if (code == SB_EXIT_OK)
        code = sb_integer_option(arguments, "seed", 0, INT64_MAX, &seed);
    if (code == SB_EXIT_OK)
        code = sb_methods_parse(arguments, &method, &methods);
    if (code == SB_EXIT_OK)
        code = sb_context_open(arguments, &v.context);
    if (code == SB_EXIT_OK && !(v.table = an_table_create()))
        code = sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for the table");
    if (code == SB_EXIT_OK) {
        add_columns(v.table);
        code = verify_all(&v, method, methods, (uint64_t)seed);
    }
    if (code == SB_EXIT_OK)
        code = sb_output_table(arguments, v.table, NULL);
    if (code == SB_EXIT_OK) {
        fflush(stdout); /* the table comes first where both go to one place */
        fprintf(stderr, "sparge-bench: %zu checks passed, %zu failed, %zu do not apply\n", v.passed, v.failed,
                v.skipped);
        code = v.failed > 0 ? SB_EXIT_REGRESSION : SB_EXIT_OK;
    }
    an_table_destroy(v.table);
    sparge_context_destroy(v.context);
    free(method);
    return code;
}

static const sb_option options[] = {
    {.name = "method",
     .letter = 'm',
     .value = "LIST",
     .default_value = "all",
     .complete = "methods",
     .repeatable = 1,
     .help = "Methods, or all."},
    {.name = "seed", .value = "N", .default_value = "1", .help = "Seed of the inputs."},
    SB_DEVICE_OPTIONS,
    SB_FORMAT_OPTION("table"),
};

const sb_command sb_command_verify = {
    .name = "verify",
    .summary = "check every method against exact attention on a grid of shapes",
    .operands = "",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .description =
        "Runs methods on small problems (whole and ragged blocks, GQA, causal masks of both alignments, more keys than "
        "queries and fewer, queries without keys, a video grid, f16 and bf16, head dimensions 64 to 128) and compares "
        "output and LSE with float64 attention over exactly the pairs that the method says it computes.\n\n"
        "The bounds belong to the arithmetic: f16, int8-f16, int8-fp8. Methods run with parameters "
        "that make them skip work on such small problems, those with the parameter attend in each arithmetic. The exit "
        "code is 1 if a check fails.",
    .examples = "sparge-bench verify\n"
                "sparge-bench verify --method sparge-int8-fp8 --format md",
    .run = run,
};
