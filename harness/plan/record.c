/* The fields of a point, in the store's words. */
#include "plan/record.h"

#include <stdio.h>
#include <string.h>

rs_status sb_record_point(const sb_point *point, const sparge_device_info *device, sb_record *record, rs_error *error)
{
    const wl_workload *workload = &point->workload;
    const sparge_problem *problem = &workload->problem;
    const sparge_grid *grid = &problem->grid;
    record->grid[0] = '\0';
    if (grid->t > 0)
        snprintf(record->grid, sizeof record->grid, "%dx%dx%d", grid->t, grid->h, grid->w);
    record->point = (rs_point){
        .workload = workload->name,
        .workload_hash = workload->hash,
        .order = wl_order_name(workload->order),
        .grid = record->grid,
        .text_tokens = (int64_t)grid->text_before + grid->text_after,
        .seed = workload->seed,
        .method = sparge_method_name(sparge_params_method(point->params)),
        .parameters = point->parameters,
        .settings = point->settings,
        .backend = device->backend,
        .device = device->name,
        .batch = problem->batch,
        .heads_q = problem->heads_q,
        .heads_kv = problem->heads_kv,
        .seqlen_q = problem->seqlen_q,
        .seqlen_k = problem->seqlen_k,
        .head_dim = problem->head_dim,
        .dtype = sparge_dtype_name(problem->dtype),
        .causal = sparge_causal_name(problem->causal),
        .scale = (double)sparge_problem_scale(problem),
        .threads = strcmp(device->backend, "cuda") == 0 ? 0 : device->units,
    };
    return rs_point_key(&record->point, record->key, error);
}
