/* A block mask from a file, per head: what block_sparse_sage2_attn_cuda of the official code takes, and the door for
 * methods that this suite does not have. */
#include "methods/shared.h"
#include "methods/table.h"

#include <string.h>

static const sparge_param_desc descs[] = {
    {.name = "file",
     .unit = "",
     .type = SPARGE_PARAM_PATH,
     .default_value = "",
     .meaning = "the mask, .npy of bool or uint8 [batch, heads, rows, cols]; batch and heads may be 1; must be given"},
    PARAM_BLOCK_Q,
    PARAM_BLOCK_K,
    PARAM_ATTEND,
    PARAM_LAMBDA,
    PARAM_PV_UNIT,
    PARAM_SMOOTH_K,
    PARAM_SCALES,
    PARAM_EXP,
    PARAM_COMPAT,
    PARAM_FILE,
};

static sparge_status resolve(const sparge_params *params, const sparge_problem *problem, sparge_recipe *recipe,
                             sparge_error *error)
{
    const char *path = sparge_params_text(params, "file");
    if (path[0] == '\0')
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "file: not given, the mask method needs one");
    if (strlen(path) >= sizeof recipe->mask.path)
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "file: a path of %zu bytes is longer than %zu",
                           strlen(path), sizeof recipe->mask.path - 1);
    strcpy(recipe->mask.path, path);
    recipe->select = SPARGE_SELECT_MASK;
    return method_resolve_shared(params, problem, recipe, error);
}

const sparge_method sparge_method_mask = {
    .name = "mask",
    .summary = "a block mask from a file, per head",
    .stands_for = "block_sparse_sage2_attn_cuda of the official SpargeAttn, and any block-sparse method",
    .params = descs,
    .param_count = sizeof descs / sizeof descs[0],
    .resolve = resolve,
};
