/* Skip-softmax (BLASST, arXiv 2512.12087): nothing is predicted; the kernel computes every QK tile and drops softmax
 * and P V of tiles whose scores lie too far below the running maximum. */
#include "methods/shared.h"
#include "methods/table.h"

#include <inttypes.h>

static const sparge_param_desc descs[] = {
    {.name = "threshold",
     .unit = "",
     .type = SPARGE_PARAM_REAL,
     .min = 0,
     .max = 1,
     .default_value = "",
     .meaning = "a tile is dropped if exp(tile maximum - running maximum) is below this for all rows of the vote"},
    {.name = "scale_factor",
     .unit = "tokens",
     .type = SPARGE_PARAM_REAL,
     .min = 0,
     .max = 1e9,
     .default_value = "1000",
     .meaning = "threshold = scale_factor / number of keys (TensorRT-LLM's threshold_scale_factor)",
     .replaced_by = "threshold"},
    PARAM_PV_UNIT,
    PARAM_BLOCK_Q,
    PARAM_BLOCK_K,
    PARAM_ATTEND,
    PARAM_SMOOTH_K,
    PARAM_SCALES,
    PARAM_EXP,
};

static sparge_status resolve(const sparge_params *params, const sparge_problem *problem, sparge_recipe *recipe,
                             sparge_error *error)
{
    const int direct = sparge_params_is_set(params, "threshold");
    if (direct && sparge_params_is_set(params, "scale_factor"))
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT,
                           "threshold = %s and scale_factor = %s: give one of them",
                           sparge_params_text(params, "threshold"), sparge_params_text(params, "scale_factor"));
    const double threshold = direct ? sparge_params_real(params, "threshold")
                                    : sparge_params_real(params, "scale_factor") / (double)problem->seqlen_k;
    if (threshold > 1)
        return sparge_fail(error, SPARGE_ERROR_UNSUPPORTED,
                           "scale_factor = %s: a threshold of %.3g at %" PRId64 " keys is above 1 and drops everything",
                           sparge_params_text(params, "scale_factor"), threshold, problem->seqlen_k);
    recipe->skip_softmax_threshold = threshold;
    recipe->select = SPARGE_SELECT_ALL;
    return method_resolve_shared(params, problem, recipe, error);
}

const sparge_method sparge_method_skip_softmax = {
    .name = "skip-softmax",
    .summary = "dense QK, softmax and PV dropped for tiles far below the running maximum",
    .stands_for = "BLASST (arXiv 2512.12087), skip-softmax of TensorRT-LLM and FlashInfer",
    .params = descs,
    .param_count = sizeof descs / sizeof descs[0],
    .resolve = resolve,
};
