/* SpargeAttn (arXiv 2502.18137): blocks predicted from mean-pooled Q and K, kept by cumulative probability (tau) or a
 * fixed share (topk); blocks whose rows do not resemble each other (theta) are always computed; P V skipped inside the
 * kernel where it cannot matter (lambda). */
#include "methods/shared.h"
#include "methods/table.h"

static const sparge_param_desc descs[] = {
    {.name = "tau",
     .unit = "fraction",
     .type = SPARGE_PARAM_REAL,
     .min = 0,
     .max = 1,
     .default_value = "0.98",
     .per_head = 1,
     .meaning = "per row, keep the most probable blocks while their summed probability is at most tau (paper, TopCdf; "
                "official cdfthreshd); unset with topk",
     .replaced_by = "topk"},
    {.name = "topk",
     .unit = "fraction",
     .type = SPARGE_PARAM_REAL,
     .min = 0,
     .max = 1,
     .default_value = "",
     .per_head = 1,
     .meaning =
         "instead of tau: keep this share of a row's visible blocks, rounded up, at least 1 (official topk; there "
         "of all blocks, rounded down)"},
    {.name = "theta",
     .unit = "cosine",
     .type = SPARGE_PARAM_REAL,
     .min = -1,
     .max = 1,
     .default_value = "0.6",
     .per_head = 1,
     .meaning = "blocks of Q or K whose mean self-similarity is not above theta are always computed (paper 3.2; "
                "official simthreshd1); unset with topk: off",
     .replaced_by = "topk"},
    PARAM_LAMBDA,
    PARAM_PV_UNIT,
    PARAM_BLOCK_Q,
    PARAM_BLOCK_K,
    PARAM_SMOOTH_K,
    PARAM_SCALES,
    {.name = "sink",
     .unit = "",
     .type = SPARGE_PARAM_CHOICE,
     .choices = "off|on",
     .default_value = "off",
     .meaning = "always keep the first key block (official attention_sink)"},
    PARAM_EXP,
    PARAM_COMPAT,
    PARAM_FILE,
};

static sparge_status resolve_selection(const sparge_params *params, const sparge_problem *problem,
                                       sparge_recipe *recipe, sparge_error *error)
{
    int32_t heads = problem->heads_q;
    recipe->select = SPARGE_SELECT_MEANSIM;
    recipe->meansim.use_topk = sparge_params_is_set(params, "topk");
    recipe->meansim.use_theta = sparge_params_is_set(params, "theta");
    recipe->meansim.sink = sparge_params_choice(params, "sink") == 1;
    if (recipe->meansim.use_topk && sparge_params_is_set(params, "tau"))
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "tau = %s and topk = %s: give one of them",
                           sparge_params_text(params, "tau"), sparge_params_text(params, "topk"));
    sparge_status status = sparge_params_per_head(params, "tau", heads, &recipe->meansim.tau, error);
    if (status == SPARGE_OK)
        status = sparge_params_per_head(params, "topk", heads, &recipe->meansim.topk, error);
    if (status == SPARGE_OK)
        status = sparge_params_per_head(params, "theta", heads, &recipe->meansim.theta, error);
    return status;
}

static sparge_status resolve(const sparge_params *params, const sparge_problem *problem, sparge_recipe *recipe,
                             sparge_error *error)
{
    sparge_status status = resolve_selection(params, problem, recipe, error);
    if (status == SPARGE_OK)
        status = method_resolve_shared(params, problem, recipe, error);
    if (status == SPARGE_OK && recipe->upstream && problem->heads_q != problem->heads_kv)
        return sparge_fail(error, SPARGE_ERROR_UNSUPPORTED,
                           "compat=upstream: %d query and %d KV heads, the official predictor needs as many of each",
                           problem->heads_q, problem->heads_kv);
    return status;
}

const sparge_method sparge_method_sparge_f16 = {
    .name = "sparge-f16",
    .summary = "SpargeAttn's selection on 16-bit arithmetic",
    .stands_for = "SpargeAttn (arXiv 2502.18137) on FlashAttention-2",
    .params = descs,
    .param_count = sizeof descs / sizeof descs[0],
    .arithmetic = SPARGE_ARITHMETIC_F16,
    .resolve = resolve,
};

const sparge_method sparge_method_sparge_int8_f16 = {
    .name = "sparge-int8-f16",
    .summary = "SpargeAttn with INT8 QK and 16-bit PV",
    .stands_for = "SpargeAttn (arXiv 2502.18137) on SageAttention",
    .params = descs,
    .param_count = sizeof descs / sizeof descs[0],
    .arithmetic = SPARGE_ARITHMETIC_INT8_F16,
    .resolve = resolve,
};

const sparge_method sparge_method_sparge_int8_fp8 = {
    .name = "sparge-int8-fp8",
    .summary = "SpargeAttn with INT8 QK and FP8 PV",
    .stands_for = "SpargeAttn (arXiv 2502.18137) on SageAttention2",
    .params = descs,
    .param_count = sizeof descs / sizeof descs[0],
    .arithmetic = SPARGE_ARITHMETIC_INT8_FP8,
    .resolve = resolve,
};
