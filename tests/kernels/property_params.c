/* Random parameters from the descriptors alone, so that a new method or parameter is tested without a change here. */
#include "property.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void random_choice(const char *choices, oracle_rng *rng, char *value, size_t size)
{
    int64_t count = 1, pick;

    for (const char *c = choices; *c; c++)
        count += *c == '|';
    pick = oracle_rng_between(rng, 0, count - 1);
    while (pick-- > 0)
        choices = strchr(choices, '|') + 1;
    snprintf(value, size, "%.*s", (int)strcspn(choices, "|"), choices);
}

static void random_real(const sparge_param_desc *desc, oracle_rng *rng, char *value, size_t size)
{
    double x = oracle_rng_uniform(rng);

    if (isinf(desc->min)) /* up to a finite maximum: 0.1 to 30 below it */
        x = desc->max - 0.1 * exp(5.7 * x);
    else if (isinf(desc->max))
        x = desc->min + 0.1 * exp(5.7 * x);
    else if (oracle_rng_between(rng, 0, 9) == 0)
        x = oracle_rng_between(rng, 0, 1) ? desc->min : desc->max;
    else
        x = desc->min + x * (desc->max - desc->min);
    snprintf(value, size, "%.6g", x);
}

/* Small values are the interesting ones at the lengths of the cases; spread over octaves. */
static void random_integer(const sparge_param_desc *desc, oracle_rng *rng, char *value, size_t size)
{
    double low = fmax(desc->min, 0.0), high = fmin(desc->max, low + 400.0);
    double x = exp(oracle_rng_uniform(rng) * log(high - low + 1.0)) - 1.0;

    snprintf(value, size, "%.0f", floor(low + x));
}

static int64_t block_edge(const sparge_params *params, const char *name, int64_t fallback)
{
    const char *text = sparge_params_get(params, name);

    return text && *text ? strtoll(text, NULL, 10) : fallback;
}

/* Half of the blocks, some rows and heads empty; batch or heads shared by one mask now and then. */
static void random_mask_file(const sparge_params *params, const sparge_problem *problem, oracle_rng *rng,
                             const char *path)
{
    sparge_problem shape = *problem;
    sparge_block_mask mask;
    sparge_error error;

    if (oracle_rng_between(rng, 0, 3) == 0)
        shape.batch = 1;
    if (oracle_rng_between(rng, 0, 3) == 0)
        shape.heads_q = shape.heads_kv = 1;
    if (sparge_block_mask_create(&mask, &shape, (int32_t)block_edge(params, "block_q", 128),
                                 (int32_t)block_edge(params, "block_k", 64), &error) != SPARGE_OK) {
        fprintf(stderr, "%s\n", error.text);
        abort();
    }
    for (int64_t row = 0; row < (int64_t)mask.batch * mask.heads * mask.rows; row++) {
        int64_t kind = oracle_rng_between(rng, 0, 4); /* 0: empty, 1: full */

        for (int64_t col = 0; col < mask.cols; col++)
            mask.value[row * mask.cols + col] =
                (uint8_t)(kind == 1 || (kind > 1 && oracle_rng_between(rng, 0, 1) == 1));
    }
    if (sparge_block_mask_write(&mask, path, &error) != SPARGE_OK) {
        fprintf(stderr, "%s\n", error.text);
        abort();
    }
    sparge_block_mask_release(&mask);
}

/* Turns on skipping of tiles inside the kernel. */
static int skips(const sparge_method *method, const sparge_param_desc *desc)
{
    return strcmp(desc->name, "lambda") == 0 ||
           (strcmp(desc->name, "threshold") == 0 && strcmp(sparge_method_name(method), "skip-softmax") == 0);
}

static int wanted(const sparge_method *method, const sparge_param_desc *desc, property_freedom freedom, oracle_rng *rng)
{
    int64_t dice = oracle_rng_between(rng, 0, 9);

    if (freedom == PROPERTY_DEFAULTS)
        return 0;
    if (freedom == PROPERTY_WITH_SKIP && skips(method, desc))
        return 1;
    if (freedom == PROPERTY_UPSTREAM && strcmp(desc->name, "compat") == 0)
        return 1;
    return strcmp(desc->name, "compat") == 0 ? dice == 0 : dice < 4;
}

static void set(sparge_params *params, const char *name, const char *value, char *text, size_t text_size)
{
    size_t used = strlen(text);
    sparge_error error;

    if (sparge_params_set(params, name, value, &error) != SPARGE_OK) {
        fprintf(stderr, "FAILED to set %s = %s: %s\n", name, value, error.text);
        abort();
    }
    if (used < text_size)
        snprintf(text + used, text_size - used, " %s=%s", name, value);
}

static void random_number(const sparge_param_desc *desc, oracle_rng *rng, char *value, size_t size)
{
    if (desc->type == SPARGE_PARAM_REAL)
        random_real(desc, rng, value, size);
    else
        random_integer(desc, rng, value, size);
}

/* One value a head. Not of lambda: the oracle could not learn the values from the parameters. */
static void set_heads(sparge_params *params, const sparge_param_desc *desc, int32_t heads, oracle_rng *rng, char *text,
                      size_t text_size)
{
    double *values = oracle_alloc((size_t)heads, sizeof *values);
    size_t used = strlen(text);
    sparge_error error;
    char value[64];

    for (int32_t h = 0; h < heads; h++) {
        random_number(desc, rng, value, sizeof value);
        values[h] = strtod(value, NULL);
    }
    if (sparge_params_set_heads(params, desc->name, values, (size_t)heads, &error) != SPARGE_OK) {
        fprintf(stderr, "FAILED to set %s per head: %s\n", desc->name, error.text);
        abort();
    }
    if (used < text_size)
        snprintf(text + used, text_size - used, " %s=%s", desc->name, sparge_params_get(params, desc->name));
    free(values);
}

sparge_params *property_params_create(const sparge_method *method, const sparge_problem *problem,
                                      property_freedom freedom, oracle_rng *rng, const char *folder, char *text,
                                      size_t text_size)
{
    sparge_params *params;
    char value[1024];

    snprintf(text, text_size, "%s", sparge_method_name(method));
    if (sparge_params_create(method, &params) != SPARGE_OK)
        abort();
    for (size_t i = 0; i < sparge_method_param_count(method); i++) {
        const sparge_param_desc *desc = sparge_method_param_at(method, i);

        if (desc->type == SPARGE_PARAM_PATH || !wanted(method, desc, freedom, rng))
            continue;
        if (desc->per_head && !skips(method, desc) && oracle_rng_between(rng, 0, 2) == 0) {
            set_heads(params, desc, problem->heads_q, rng, text, text_size);
            continue;
        }
        if (freedom == PROPERTY_UPSTREAM && strcmp(desc->name, "compat") == 0)
            snprintf(value, sizeof value, "upstream");
        else if (desc->type == SPARGE_PARAM_CHOICE)
            random_choice(desc->choices, rng, value, sizeof value);
        else
            random_number(desc, rng, value, sizeof value);
        set(params, desc->name, value, text, text_size);
    }
    for (size_t i = 0; i < sparge_method_param_count(method); i++) {
        const sparge_param_desc *desc = sparge_method_param_at(method, i);

        if (desc->type != SPARGE_PARAM_PATH || strcmp(desc->name, "params") == 0)
            continue;
        snprintf(value, sizeof value, "%s/mask.npy", folder);
        random_mask_file(params, problem, rng, value);
        set(params, desc->name, value, text, text_size);
    }
    return params;
}
