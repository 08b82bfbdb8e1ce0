/* XAttention (arXiv 2503.16428; official code mit-han-lab/x-attention): block importance from sums along antidiagonals
 * of stride x stride patches, blocks kept by cumulative mass. */
#include "methods/shared.h"
#include "methods/table.h"

static const sparge_param_desc descs[] = {
    {.name = "stride",
     .unit = "tokens",
     .type = SPARGE_PARAM_CHOICE,
     .choices = "8|16",
     .default_value = "8",
     .meaning = "edge of the patches whose antidiagonals are summed"},
    {.name = "threshold",
     .unit = "fraction",
     .type = SPARGE_PARAM_REAL,
     .min = 0,
     .max = 1,
     .default_value = "0.9",
     .meaning = "share of a row's mass that the kept blocks reach (official default 0.8, typical 0.9)"},
    PARAM_ATTEND,
    PARAM_SMOOTH_K,
    PARAM_SCALES,
    PARAM_EXP,
};

static sparge_status resolve(const sparge_params *params, const sparge_problem *problem, sparge_recipe *recipe,
                             sparge_error *error)
{
    sparge_status status = method_resolve_shared(params, problem, recipe, error);
    recipe->select = SPARGE_SELECT_ANTIDIAGONAL;
    recipe->antidiagonal.stride = 8 << sparge_params_choice(params, "stride");
    recipe->antidiagonal.threshold = sparge_params_real(params, "threshold");
    recipe->block_q = recipe->block_k = 128;
    return status;
}

const sparge_method sparge_method_xattention = {
    .name = "xattention",
    .summary = "blocks scored along antidiagonals, kept by cumulative mass, 128x128",
    .stands_for = "XAttention (arXiv 2503.16428)",
    .params = descs,
    .param_count = sizeof descs / sizeof descs[0],
    .resolve = resolve,
};
