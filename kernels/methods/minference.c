/* MInference (Jiang et al., 2024; official code microsoft/MInference): four patterns, each a method of its own.
 *
 *   minference-vs       vertical columns and slash diagonals estimated from the last 64 queries, token-granular
 *   minference-vs-grid  the same, widened to whole blocks of the mask grid: a superset, hence the suffix
 *   minference-ashape   sink and local band, nothing estimated
 *   minference-block    top-k of mean-pooled block scores */
#include "methods/shared.h"
#include "methods/table.h"

#include <math.h>

static const char why_causal_vs[] = "the last 64 queries see slashes on one side only; use minference-block";
static const char why_equal_vs[] = "vertical-slash is defined for equal lengths";

enum { ESTIMATE_QUERIES = 64, VERTICAL_MIN = 30, SLASH_MIN = 50 };

#define PARAM_VERTICAL                                                                                                 \
    {                                                                                                                  \
        .name = "vertical", .unit = "tokens", .type = SPARGE_PARAM_INTEGER, .min = 1, .max = 1 << 30,                  \
        .default_value = "1000", .per_head = 1,                                                                        \
        .meaning = "key columns kept, the first 30 always among them; at least 30 are kept (official vertical_size)"   \
    }
#define PARAM_SLASH                                                                                                    \
    {                                                                                                                  \
        .name = "slash", .unit = "tokens", .type = SPARGE_PARAM_INTEGER, .min = 1, .max = 1 << 30,                     \
        .default_value = "6096", .per_head = 1,                                                                        \
        .meaning = "diagonals q - k kept, 0 to 99 first; at least 50 are kept (official slash_size)"                   \
    }
#define PARAM_RATIO                                                                                                    \
    {                                                                                                                  \
        .name = "ratio", .unit = "fraction", .type = SPARGE_PARAM_REAL, .min = 0, .max = 16, .default_value = "1",     \
        .meaning = "multiplies vertical and slash, rounded down (official minference_ratio)"                           \
    }

static const sparge_param_desc params_vs[] = {PARAM_VERTICAL, PARAM_SLASH, PARAM_RATIO, PARAM_EXP, PARAM_FILE};

static const sparge_param_desc params_vs_grid[] = {
    PARAM_VERTICAL, PARAM_SLASH,    PARAM_RATIO,  PARAM_BLOCK_Q, PARAM_BLOCK_K,
    PARAM_ATTEND,   PARAM_SMOOTH_K, PARAM_SCALES, PARAM_EXP,     PARAM_FILE,
};

static const sparge_param_desc params_ashape[] = {
    {.name = "sink",
     .unit = "tokens",
     .type = SPARGE_PARAM_INTEGER,
     .min = 0,
     .max = 1 << 30,
     .default_value = "128",
     .meaning = "first keys that every query keeps (official n_init)"},
    {.name = "local",
     .unit = "tokens",
     .type = SPARGE_PARAM_INTEGER,
     .min = 1,
     .max = 1 << 30,
     .default_value = "3968",
     .meaning = "keys of the band up to and with the query's own (official n_local)"},
    {.name = "dense_rows",
     .unit = "tokens",
     .type = SPARGE_PARAM_INTEGER,
     .min = 0,
     .max = 1 << 30,
     .default_value = "0",
     .meaning = "last queries that keep everything (tri-shape: 100)"},
    PARAM_EXP,
};

static const sparge_param_desc params_block[] = {
    {.name = "k",
     .unit = "blocks",
     .type = SPARGE_PARAM_INTEGER,
     .min = 1,
     .max = 1 << 30,
     .default_value = "100",
     .meaning = "key blocks of 64 that a row of 64 queries keeps (official, fixed there)",
     .replaced_by = "sparsity"},
    {.name = "sparsity",
     .unit = "fraction",
     .type = SPARGE_PARAM_REAL,
     .min = 0,
     .max = 1,
     .default_value = "",
     .meaning =
         "instead of k: a row keeps round((1 - sparsity) * visible blocks), at least 1 (SpargeAttn's comparison)"},
    PARAM_EXP,
    PARAM_COMPAT,
};

/* The official clamps, in its order: ratio first, then the minimum; the number of tokens bounds both when selecting. */
static void scale_and_clamp(sparge_per_head *size, int32_t heads, double ratio, double least)
{
    size->uniform = fmax(floor(size->uniform * ratio), least);
    for (int32_t h = 0; size->head && h < heads; h++)
        size->head[h] = fmax(floor(size->head[h] * ratio), least);
}

static sparge_status resolve_vs(const sparge_params *params, const sparge_problem *problem, sparge_recipe *recipe,
                                sparge_error *error)
{
    sparge_status status = method_need_causal(problem, why_causal_vs, error);
    if (status == SPARGE_OK)
        status = method_need_equal_lengths(problem, why_equal_vs, error);
    if (status == SPARGE_OK)
        status = method_resolve_shared(params, problem, recipe, error);
    if (status == SPARGE_OK)
        status = sparge_params_per_head(params, "vertical", problem->heads_q, &recipe->vslash.vertical, error);
    if (status == SPARGE_OK)
        status = sparge_params_per_head(params, "slash", problem->heads_q, &recipe->vslash.slash, error);
    if (status != SPARGE_OK)
        return status;
    const double ratio = sparge_params_real(params, "ratio");
    scale_and_clamp(&recipe->vslash.vertical, problem->heads_q, ratio, VERTICAL_MIN);
    scale_and_clamp(&recipe->vslash.slash, problem->heads_q, ratio, SLASH_MIN);
    recipe->vslash.last_q = ESTIMATE_QUERIES;
    recipe->select = SPARGE_SELECT_VERTICAL_SLASH;
    recipe->block_q = 64; /* of the official kernel's tiles; key ranges start at any token */
    return SPARGE_OK;
}

static sparge_status resolve_vs_grid(const sparge_params *params, const sparge_problem *problem, sparge_recipe *recipe,
                                     sparge_error *error)
{
    sparge_status status = resolve_vs(params, problem, recipe, error);
    recipe->select = SPARGE_SELECT_VERTICAL_SLASH_GRID;
    recipe->block_q = 64 << sparge_params_choice(params, "block_q");
    return status;
}

static sparge_status resolve_ashape(const sparge_params *params, const sparge_problem *problem, sparge_recipe *recipe,
                                    sparge_error *error)
{
    sparge_status status =
        method_need_causal(problem, "the A-shape is defined for causal attention; use window", error);
    if (status != SPARGE_OK)
        return status;
    recipe->select = SPARGE_SELECT_BAND;
    recipe->band.sink = sparge_params_integer(params, "sink");
    recipe->band.local = sparge_params_integer(params, "local");
    recipe->band.dense_rows = sparge_params_integer(params, "dense_rows");
    status = method_resolve_shared(params, problem, recipe, error);
    recipe->block_q = 64;
    return status;
}

static sparge_status resolve_block(const sparge_params *params, const sparge_problem *problem, sparge_recipe *recipe,
                                   sparge_error *error)
{
    recipe->select = SPARGE_SELECT_POOLED_TOPK;
    recipe->pooled.use_sparsity = sparge_params_is_set(params, "sparsity");
    recipe->pooled.sparsity = sparge_params_real(params, "sparsity");
    recipe->pooled.k = sparge_params_integer(params, "k");
    if (recipe->pooled.use_sparsity && sparge_params_is_set(params, "k"))
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "k = %s and sparsity = %s: give one of them",
                           sparge_params_text(params, "k"), sparge_params_text(params, "sparsity"));
    sparge_status status = method_resolve_shared(params, problem, recipe, error);
    recipe->block_q = 64;
    return status;
}

const sparge_method sparge_method_minference_vs = {
    .name = "minference-vs",
    .summary = "vertical columns and slash diagonals from the last 64 queries, exact at token offsets",
    .stands_for = "MInference (arXiv 2407.02490), vertical-slash heads",
    .params = params_vs,
    .param_count = sizeof params_vs / sizeof params_vs[0],
    .resolve = resolve_vs,
};

const sparge_method sparge_method_minference_vs_grid = {
    .name = "minference-vs-grid",
    .summary = "vertical-slash widened to whole blocks of the grid: computes more than minference-vs",
    .stands_for = "a block-grid superset of MInference's vertical-slash; not MInference itself",
    .params = params_vs_grid,
    .param_count = sizeof params_vs_grid / sizeof params_vs_grid[0],
    .resolve = resolve_vs_grid,
};

const sparge_method sparge_method_minference_ashape = {
    .name = "minference-ashape",
    .summary = "sink tokens and a causal local band, exact at token edges",
    .stands_for = "MInference (arXiv 2407.02490), A-shape and tri-shape heads; StreamingLLM's prefill",
    .params = params_ashape,
    .param_count = sizeof params_ashape / sizeof params_ashape[0],
    .resolve = resolve_ashape,
};

const sparge_method sparge_method_minference_block = {
    .name = "minference-block",
    .summary = "top-k of mean-pooled block scores, 64x64; the not causal form is ours",
    .stands_for = "MInference (arXiv 2407.02490), block-sparse heads; the baseline of SpargeAttn's Table 1",
    .params = params_block,
    .param_count = sizeof params_block / sizeof params_block[0],
    .resolve = resolve_block,
};
