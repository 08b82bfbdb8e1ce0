/* Prepare: everything in the pre-pass over Q, K and V, in the order in which one step needs another's result. */
#include "cpu/prepare/fp8.h"
#include "cpu/prepare/pool.h"
#include "cpu/prepare/quantise.h"
#include "cpu/prepare/smooth.h"

#include "cpu/context.h"

/* A dense tensor of the plan's own for a permuted copy. */
static sparge_status take_copy(sparge_plan *plan, int32_t heads, int64_t tokens, sparge_tensor *copy)
{
    const sparge_problem *problem = &plan->problem;
    const size_t rows = (size_t)problem->batch * (size_t)heads;
    void *memory;
    const sparge_status status =
        cpu_take(plan, rows * (size_t)tokens, (size_t)problem->head_dim * sparge_dtype_bytes(problem->dtype), &memory);
    if (status == SPARGE_OK)
        *copy = sparge_tensor_hnd(memory, problem->dtype, problem->batch, heads, tokens, problem->head_dim);
    return status;
}

sparge_status cpu_prepare_plan(sparge_plan *plan)
{
    cpu_plan *cpu = cpu_plan_of(plan);
    const sparge_problem *problem = &plan->problem;
    sparge_status status = SPARGE_OK;
    if (cpu->permuted) {
        status = take_copy(plan, problem->heads_q, problem->seqlen_q, &cpu->prepared.q);
        if (status == SPARGE_OK)
            status = take_copy(plan, problem->heads_kv, problem->seqlen_k, &cpu->prepared.k);
        if (status == SPARGE_OK)
            status = take_copy(plan, problem->heads_kv, problem->seqlen_k, &cpu->prepared.v);
    }
    if (status == SPARGE_OK)
        status = cpu_smooth_plan(plan);
    if (status == SPARGE_OK)
        status = cpu_pool_plan(plan);
    if (status == SPARGE_OK)
        status = cpu_quantise_plan(plan);
    if (status == SPARGE_OK)
        status = cpu_fp8_plan(plan);
    return status;
}

sparge_status cpu_prepare_run(sparge_plan *plan, const sparge_io *io)
{
    cpu_plan *cpu = cpu_plan_of(plan);
    if (cpu->permuted) {
        const sparge_backend *backend = plan->context->backend;
        sparge_status status = backend->permute(plan->context, &io->q, &cpu->prepared.q, cpu->permuted);
        if (status == SPARGE_OK)
            status = backend->permute(plan->context, &io->k, &cpu->prepared.k, cpu->permuted);
        if (status == SPARGE_OK)
            status = backend->permute(plan->context, &io->v, &cpu->prepared.v, cpu->permuted);
        if (status != SPARGE_OK)
            return status;
    }
    cpu_smooth_run(plan);
    cpu_pool_run(plan);
    cpu_quantise_run(plan);
    cpu_fp8_run(plan);
    return SPARGE_OK;
}
