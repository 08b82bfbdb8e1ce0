/* One run of one point, then its similarity, sparsity and error. Nothing is timed here. */
#include "measure/locality.h"

#include <math.h>
#include <string.h>

#include "measure/cossim.h"
#include "measure/reference.h"

/* Of methods without blocks of their own: the paper's. */
enum { PAPER_BLOCK_Q = 128, PAPER_BLOCK_K = 64 };

static sparge_status fail_as(sparge_context *context, sparge_status status, sparge_error *error)
{
    return status == SPARGE_OK ? status : sparge_fail(error, status, "%s", sparge_error_string(context));
}

/* Ctrl-C may simply end the program: nothing is kept before the last row is done. */
static int never(void)
{
    return 0;
}

static sparge_status measure_error(sparge_context *context, const sb_point *point, const sb_inputs *inputs,
                                   const sparge_io *io, int64_t error_rows, sb_locality *locality, sparge_error *error)
{
    sb_reference reference;
    sb_error_sums sums = {0};
    int64_t nonfinite = 0;
    int stopped = 0;
    sparge_status status = sb_reference_create(context, &point->workload.problem, inputs, error_rows,
                                               point->workload.seed, never, &reference, &stopped, error);
    if (status != SPARGE_OK)
        return status;
    status = sb_reference_compare(context, &io->o, &reference, &nonfinite, &sums, error);
    locality->error_rows = reference.rows;
    sb_reference_release(&reference);
    if (status == SPARGE_OK && nonfinite > 0)
        return sparge_fail(error, SPARGE_ERROR_INTERNAL, "%lld values of the output are not finite",
                           (long long)nonfinite);
    locality->rel_l1 = sb_errors_of(&sums).rel_l1;
    return status;
}

static sparge_status measure_similarity(sparge_context *context, sparge_plan *plan, const sparge_io *io,
                                        sb_locality *locality, sparge_error *error)
{
    sparge_stats stats;
    sparge_status status = sparge_plan_get_stats(plan, &stats);
    if (status != SPARGE_OK)
        return fail_as(context, status, error);
    locality->sparsity = stats.sparsity;
    locality->block_q = stats.block_q ? stats.block_q : PAPER_BLOCK_Q;
    locality->block_k = stats.block_k ? stats.block_k : PAPER_BLOCK_K;
    status = sparge_plan_get_similarity(plan, &locality->sim_q, &locality->sim_k);
    if (status == SPARGE_ERROR_UNSUPPORTED)
        locality->sim_q = locality->sim_k = NAN;
    else if (status != SPARGE_OK)
        return fail_as(context, status, error);
    status = sb_cossim_mean(context, &io->q, locality->block_q, 0, &locality->sim_q_paper, error);
    if (status == SPARGE_OK)
        status = sb_cossim_mean(context, &io->k, locality->block_k, 1, &locality->sim_k_paper, error);
    return status;
}

static sparge_status run_plan(sparge_context *context, sparge_plan *plan, const sparge_io *io, sparge_error *error)
{
    sparge_status status = sparge_plan_run(plan, SPARGE_STAGE_ALL, io);
    if (status == SPARGE_OK)
        status = sparge_synchronize(context);
    return fail_as(context, status, error);
}

sparge_status sb_locality_measure(sparge_context *context, const sb_point *point, const sb_inputs *inputs,
                                  int64_t error_rows, sb_locality *locality, sparge_error *error)
{
    sparge_plan *plan = NULL;
    sparge_io io = {.q = inputs->q, .k = inputs->k, .v = inputs->v, .o = inputs->q}; /* O has Q's shape */
    size_t bytes;
    memset(locality, 0, sizeof *locality);
    io.o.data = NULL;
    if (sb_tensor_bytes(&io.o, &bytes) != 0)
        return sparge_fail(error, SPARGE_ERROR_OUT_OF_MEMORY, "the output does not fit into memory");
    sparge_status status = sparge_plan_create(context, point->params, &point->workload.problem, &plan);
    if (status == SPARGE_OK)
        status = sparge_alloc(context, bytes, &io.o.data);
    if (status == SPARGE_OK)
        status = sparge_fill(context, io.o.data, 0xff, bytes); /* NaN: rows that nobody writes are found */
    status = fail_as(context, status, error);
    if (status == SPARGE_OK)
        status = run_plan(context, plan, &io, error);
    if (status == SPARGE_OK)
        status = measure_similarity(context, plan, &io, locality, error);
    if (status == SPARGE_OK)
        status = measure_error(context, point, inputs, &io, error_rows, locality, error);
    sparge_plan_destroy(plan);
    sparge_free(context, io.o.data);
    return status;
}
