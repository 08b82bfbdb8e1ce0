/* Sliding tile attention (arXiv 2502.04507; official code hao-ai-lab/FastVideo): tokens of a T x H x W grid are laid
 * out tile by tile, a tile of queries attends the tiles within a window around it. Text is attended by all, and attends
 * all. Tiles cut off by the grid's border are ours: the official code wants grids of whole tiles. */
#include "methods/shared.h"
#include "methods/table.h"

#define PARAM_STA(name_, unit_, default_, meaning_)                                                                    \
    {                                                                                                                  \
        .name = name_, .unit = unit_, .type = SPARGE_PARAM_INTEGER, .min = 1, .max = 1024, .default_value = default_,  \
        .meaning = meaning_                                                                                            \
    }

static const sparge_param_desc descs[] = {
    PARAM_STA("tile_t", "cells", "6", "tile edge along time"),
    PARAM_STA("tile_h", "cells", "8", "tile edge along height"),
    PARAM_STA("tile_w", "cells", "8", "tile edge along width"),
    PARAM_STA("window_t", "tiles", "3", "tiles of the window along time, odd; clipped to the grid"),
    PARAM_STA("window_h", "tiles", "3", "tiles of the window along height, odd; clipped to the grid"),
    PARAM_STA("window_w", "tiles", "3", "tiles of the window along width, odd; clipped to the grid"),
    PARAM_ATTEND,
    PARAM_SMOOTH_K,
    PARAM_SCALES,
    PARAM_EXP,
};

static sparge_status check_problem(const sparge_problem *problem, sparge_error *error)
{
    if (problem->grid.t == 0)
        return sparge_fail(error, SPARGE_ERROR_UNSUPPORTED, "the problem has no T x H x W grid");
    if (problem->grid.reordered)
        return sparge_fail(error, SPARGE_ERROR_UNSUPPORTED, "the grid's tokens are not in row-major order");
    if (problem->causal != SPARGE_CAUSAL_NONE)
        return sparge_fail(error, SPARGE_ERROR_UNSUPPORTED, "causal = %s: sliding tiles have no causal order",
                           sparge_causal_name(problem->causal));
    return SPARGE_OK;
}

static sparge_status resolve(const sparge_params *params, const sparge_problem *problem, sparge_recipe *recipe,
                             sparge_error *error)
{
    static const char *const tile[3] = {"tile_t", "tile_h", "tile_w"};
    static const char *const window[3] = {"window_t", "window_h", "window_w"};
    sparge_status status = check_problem(problem, error);
    if (status == SPARGE_OK)
        status = method_resolve_shared(params, problem, recipe, error);
    recipe->select = SPARGE_SELECT_STA;
    for (int axis = 0; status == SPARGE_OK && axis < 3; axis++) {
        recipe->sta.tile[axis] = (int32_t)sparge_params_integer(params, tile[axis]);
        recipe->sta.window[axis] = (int32_t)sparge_params_integer(params, window[axis]);
        if (recipe->sta.window[axis] % 2 == 0)
            status = sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "%s: %d is even, a window has a middle tile",
                                 window[axis], recipe->sta.window[axis]);
    }
    return status;
}

const sparge_method sparge_method_sta = {
    .name = "sta",
    .summary = "sliding window of 3-D tiles over a T x H x W grid",
    .stands_for = "Sliding Tile Attention (arXiv 2502.04507)",
    .params = descs,
    .param_count = sizeof descs / sizeof descs[0],
    .resolve = resolve,
};
