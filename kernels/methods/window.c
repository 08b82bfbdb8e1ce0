/* Sliding window with sink tokens, exact at token edges: causal (StreamingLLM, arXiv 2309.17453) and, where the problem
 * is not causal, a band around the diagonal (DiTFastAttn, arXiv 2406.08552, without its cached residual). */
#include "methods/shared.h"
#include "methods/table.h"

static const sparge_param_desc descs[] = {
    {.name = "sink",
     .unit = "tokens",
     .type = SPARGE_PARAM_INTEGER,
     .min = 0,
     .max = 1 << 30,
     .default_value = "4",
     .meaning = "first keys that every query keeps"},
    {.name = "local",
     .unit = "tokens",
     .type = SPARGE_PARAM_INTEGER,
     .min = 1,
     .max = 1 << 30,
     .default_value = "2048",
     .meaning = "keys at a distance below this are kept: on the left of a query and, if not causal, on both sides"},
    PARAM_ATTEND,
    PARAM_SMOOTH_K,
    PARAM_SCALES,
    PARAM_EXP,
};

static sparge_status resolve(const sparge_params *params, const sparge_problem *problem, sparge_recipe *recipe,
                             sparge_error *error)
{
    sparge_status status = method_resolve_shared(params, problem, recipe, error);
    if (status == SPARGE_OK && problem->causal == SPARGE_CAUSAL_NONE)
        status = method_need_equal_lengths(problem, "a band that is not causal needs a diagonal", error);
    recipe->select = SPARGE_SELECT_BAND;
    recipe->band.sink = sparge_params_integer(params, "sink");
    recipe->band.local = sparge_params_integer(params, "local");
    return status;
}

const sparge_method sparge_method_window = {
    .name = "window",
    .summary = "sliding window with sink tokens, exact at token edges",
    .stands_for = "StreamingLLM's prefill (arXiv 2309.17453); the band of DiTFastAttn (arXiv 2406.08552)",
    .params = descs,
    .param_count = sizeof descs / sizeof descs[0],
    .resolve = resolve,
};
