/* Dense attention: every visible block. The yardstick of all others, in three arithmetics. */
#include "methods/shared.h"
#include "methods/table.h"

static const sparge_param_desc params_f16[] = {PARAM_EXP};

static const sparge_param_desc params_int8[] = {
    PARAM_SCALES, PARAM_SMOOTH_K, PARAM_BLOCK_Q, PARAM_BLOCK_K, PARAM_EXP,
};

static sparge_status resolve(const sparge_params *params, const sparge_problem *problem, sparge_recipe *recipe,
                             sparge_error *error)
{
    recipe->select = SPARGE_SELECT_ALL;
    return method_resolve_shared(params, problem, recipe, error);
}

const sparge_method sparge_method_dense_f16 = {
    .name = "dense-f16",
    .summary = "dense attention in the input's 16-bit type",
    .stands_for = "FlashAttention-2/3 (Dao et al.), own kernel",
    .params = params_f16,
    .param_count = sizeof params_f16 / sizeof params_f16[0],
    .arithmetic = SPARGE_ARITHMETIC_F16,
    .resolve = resolve,
};

const sparge_method sparge_method_dense_int8_f16 = {
    .name = "dense-int8-f16",
    .summary = "dense attention, INT8 QK and 16-bit PV",
    .stands_for = "SageAttention (arXiv 2410.02367), own kernel",
    .params = params_int8,
    .param_count = sizeof params_int8 / sizeof params_int8[0],
    .arithmetic = SPARGE_ARITHMETIC_INT8_F16,
    .resolve = resolve,
};

const sparge_method sparge_method_dense_int8_fp8 = {
    .name = "dense-int8-fp8",
    .summary = "dense attention, INT8 QK and FP8 PV",
    .stands_for = "SageAttention2 (arXiv 2411.10958) with INT8 QK, own kernel",
    .params = params_int8,
    .param_count = sizeof params_int8 / sizeof params_int8[0],
    .arithmetic = SPARGE_ARITHMETIC_INT8_FP8,
    .resolve = resolve,
};
