/* The method table, access to descriptors, and the step from checked parameters to a recipe. */
#include "methods/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const sparge_method *const methods[] = {
    &sparge_method_dense_f16,
    &sparge_method_dense_int8_f16,
    &sparge_method_dense_int8_fp8,
    &sparge_method_sparge_f16,
    &sparge_method_sparge_int8_f16,
    &sparge_method_sparge_int8_fp8,
    &sparge_method_minference_vs,
    &sparge_method_minference_ashape,
    &sparge_method_minference_block,
    &sparge_method_minference_vs_grid,
    &sparge_method_flexprefill,
    &sparge_method_window,
    &sparge_method_sta,
    &sparge_method_xattention,
    &sparge_method_skip_softmax,
    &sparge_method_mask,
};

size_t sparge_method_count(void)
{
    return sizeof methods / sizeof methods[0];
}

const sparge_method *sparge_method_at(size_t index)
{
    return index < sparge_method_count() ? methods[index] : NULL;
}

const sparge_method *sparge_method_find(const char *name)
{
    for (size_t i = 0; name && i < sparge_method_count(); i++)
        if (strcmp(methods[i]->name, name) == 0)
            return methods[i];
    return NULL;
}

const char *sparge_method_name(const sparge_method *method)
{
    return method->name;
}
const char *sparge_method_summary(const sparge_method *method)
{
    return method->summary;
}
const char *sparge_method_stands_for(const sparge_method *method)
{
    return method->stands_for;
}
size_t sparge_method_param_count(const sparge_method *method)
{
    return method->param_count;
}

const sparge_param_desc *sparge_method_param_at(const sparge_method *method, size_t index)
{
    return index < method->param_count ? &method->params[index] : NULL;
}

const sparge_param_desc *sparge_method_param_find(const sparge_method *method, const char *name)
{
    for (size_t i = 0; name && i < method->param_count; i++)
        if (strcmp(method->params[i].name, name) == 0)
            return &method->params[i];
    return NULL;
}

sparge_status sparge_recipe_create(const sparge_params *params, const sparge_problem *problem, sparge_recipe *recipe,
                                   sparge_error *error)
{
    memset(recipe, 0, sizeof *recipe);
    recipe->method = sparge_params_method(params);
    recipe->lambda.uniform = -INFINITY;
    recipe->pv_keeps_denominator = 1;
    recipe->fp8_v_max = SPARGE_FP8_V_MAX;
    sparge_status status = recipe->method->resolve(params, problem, recipe, error);
    if (status != SPARGE_OK)
        sparge_recipe_release(recipe);
    return status;
}

void sparge_recipe_release(sparge_recipe *recipe)
{
    sparge_per_head *const owners[] = {
        &recipe->lambda,        &recipe->meansim.tau,     &recipe->meansim.topk,
        &recipe->meansim.theta, &recipe->vslash.vertical, &recipe->vslash.slash,
    };
    for (size_t i = 0; i < sizeof owners / sizeof owners[0]; i++) {
        free(owners[i]->head);
        owners[i]->head = NULL;
    }
}

sparge_status sparge_params_check(const sparge_params *params, const sparge_problem *problem, sparge_error *error)
{
    sparge_status status = sparge_problem_check(problem, error);
    if (status != SPARGE_OK)
        return status;
    sparge_recipe recipe;
    status = sparge_recipe_create(params, problem, &recipe, error);
    if (status == SPARGE_OK)
        sparge_recipe_release(&recipe);
    return status;
}
