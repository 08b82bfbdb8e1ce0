/* FlexPrefill (arXiv 2502.20766; official code bytedance/FlexPrefill): per head either vertical-slash blocks with
 * budgets by cumulative attention, or, where pooled scores predict the last block's attention well, query-aware blocks.
 * The not causal form (slashes on both sides, no causal mask in the estimate) is ours. */
#include "methods/shared.h"
#include "methods/table.h"

static const sparge_param_desc descs[] = {
    {.name = "gamma",
     .unit = "fraction",
     .type = SPARGE_PARAM_REAL,
     .min = 0,
     .max = 1,
     .default_value = "0.9",
     .meaning = "cumulative attention that the kept verticals, slashes or blocks should reach"},
    {.name = "tau",
     .unit = "sqrt nats",
     .type = SPARGE_PARAM_REAL,
     .min = 0,
     .max = 1,
     .default_value = "0.1",
     .meaning = "a head is query-aware if the square root of the Jensen-Shannon divergence is below tau; 0: never"},
    {.name = "min_budget",
     .unit = "tokens",
     .type = SPARGE_PARAM_INTEGER,
     .min = 0,
     .max = 1 << 30,
     .default_value = "1024",
     .meaning = "least verticals and slashes; sequences of at most this (or two blocks) are dense"},
    {.name = "max_budget",
     .unit = "tokens",
     .type = SPARGE_PARAM_INTEGER,
     .min = 1,
     .max = 1 << 30,
     .default_value = "",
     .meaning = "most verticals and slashes; unset: no limit"},
    {.name = "block",
     .unit = "tokens",
     .type = SPARGE_PARAM_CHOICE,
     .choices = "64|128",
     .default_value = "128",
     .meaning = "block edge of queries and keys"},
    PARAM_EXP,
};

static sparge_status resolve(const sparge_params *params, const sparge_problem *problem, sparge_recipe *recipe,
                             sparge_error *error)
{
    sparge_status status = method_need_equal_lengths(problem, "FlexPrefill is defined for equal lengths", error);
    if (status == SPARGE_OK)
        status = method_resolve_shared(params, problem, recipe, error);
    if (status != SPARGE_OK)
        return status;
    recipe->select = SPARGE_SELECT_FLEX;
    recipe->flex.gamma = sparge_params_real(params, "gamma");
    recipe->flex.tau = sparge_params_real(params, "tau");
    recipe->flex.min_budget = sparge_params_integer(params, "min_budget");
    recipe->flex.max_budget = sparge_params_integer(params, "max_budget");
    recipe->block_q = recipe->block_k = 64 << sparge_params_choice(params, "block");
    if (recipe->flex.max_budget && recipe->flex.max_budget < recipe->flex.min_budget)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "max_budget = %s is below min_budget = %s",
                           sparge_params_text(params, "max_budget"), sparge_params_text(params, "min_budget"));
    return SPARGE_OK;
}

const sparge_method sparge_method_flexprefill = {
    .name = "flexprefill",
    .summary = "per head vertical-slash or query-aware blocks, budgets by cumulative attention",
    .stands_for = "FlexPrefill (arXiv 2502.20766)",
    .params = descs,
    .param_count = sizeof descs / sizeof descs[0],
    .resolve = resolve,
};
