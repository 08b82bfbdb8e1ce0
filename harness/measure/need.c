/* Sizes are added up as they will be allocated: inputs, their copies, the plan's workspace, the output, and on the host the
 * reference. A backend that computes in the host's memory takes both from there. */
#include "measure/need.h"

#include <stdio.h>
#include <string.h>

static uint64_t plus(uint64_t a, uint64_t b)
{
    return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    return a != 0 && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}

static uint64_t bytes_of(const sparge_tensor *tensor)
{
    size_t bytes;
    return sb_tensor_bytes(tensor, &bytes) == 0 ? bytes : UINT64_MAX;
}

/* How many sets of inputs of `bytes` keep twice the last-level cache between two uses of one. */
static size_t sets_of(const sb_session *session, uint64_t bytes)
{
    if (!session->options.schedule.is_device)
        return 1;
    uint64_t sets = 2 * session->device.l2_bytes / (bytes > 0 ? bytes : 1) + 1;
    return sets < SB_MAX_INPUT_SETS ? (size_t)sets : SB_MAX_INPUT_SETS;
}

sparge_status sb_need_of(const sb_session *session, const sb_point *point, sb_need *need, sparge_error *error)
{
    const sparge_problem *problem = &point->workload.problem;
    sparge_tensor q =
        sparge_tensor_hnd(NULL, problem->dtype, problem->batch, problem->heads_q, problem->seqlen_q, problem->head_dim);
    sparge_tensor k = q;
    k.shape[1] = problem->heads_kv;
    k.shape[2] = problem->seqlen_k;
    size_t inputs, reference = 0, workspace;
    memset(need, 0, sizeof *need);
    sparge_status status = sparge_plan_size(session->context, point->params, problem, &workspace);
    if (status != SPARGE_OK && status != SPARGE_ERROR_OUT_OF_MEMORY)
        return sparge_fail(error, status, "%s", sparge_error_string(session->context));
    need->workspace = status == SPARGE_OK ? workspace : UINT64_MAX;
    need->inputs = sb_inputs_bytes(&point->workload, &inputs) == 0 ? inputs : UINT64_MAX;
    need->sets = sets_of(session, need->inputs);
    need->copies = times(need->inputs, need->sets - 1);
    need->output = bytes_of(&q);
    need->device = plus(plus(need->inputs, need->copies), plus(need->workspace, need->output));
    if (session->options.error_rows != 0)
        need->host = sb_reference_bytes(problem, session->options.error_rows, &reference) == 0 ? reference : UINT64_MAX;
    if (point->workload.kind == WL_CAPTURED)
        need->host = plus(need->host, bytes_of(&q) > bytes_of(&k) ? bytes_of(&q) : bytes_of(&k));
    return SPARGE_OK;
}

/* What the session has taken and gives back, or uses again, for the next point. */
static uint64_t held_on_device(const sb_session *session)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < session->input_sets; i++) {
        const sb_inputs *inputs = &session->inputs[i];
        sum = plus(sum, plus(bytes_of(&inputs->q), plus(bytes_of(&inputs->k), bytes_of(&inputs->v))));
    }
    return sum;
}

static uint64_t held_on_host(const sb_session *session)
{
    if (!session->has_reference)
        return 0;
    sparge_tensor o = session->inputs[0].q;
    o.dtype = SPARGE_F64;
    o.shape[2] = session->reference.rows;
    return bytes_of(&o);
}

sparge_status sb_need_memory(const sb_session *session, sb_memory *memory, sparge_error *error)
{
    sparge_status status = sb_memory_of(session->context, memory);
    if (status != SPARGE_OK)
        return sparge_fail(error, status, "%s", sparge_error_string(session->context));
    memory->free = plus(memory->free, held_on_device(session));
    if (!memory->is_own)
        memory->free = plus(memory->free, held_on_host(session));
    return SPARGE_OK;
}

uint64_t sb_need_total(const sb_need *need, const sb_memory *memory)
{
    return memory->is_own ? need->device : plus(need->device, need->host);
}

static const char *text_of(uint64_t bytes, char text[32])
{
    sb_memory_text(bytes, text, 32);
    return text;
}

int sb_need_fits(const sb_session *session, const sb_need *need, const sb_memory *memory, char *reason, size_t size)
{
    char text[8][32];
    const uint64_t most = session->options.max_memory > 0 ? session->options.max_memory : UINT64_MAX;
    const uint64_t needed = sb_need_total(need, memory);
    const uint64_t host_free = memory->is_own ? plus(sb_memory_available(), held_on_host(session)) : UINT64_MAX;
    reason[0] = '\0';
    if (needed < UINT64_MAX && needed <= memory->free && needed <= most && need->host <= host_free)
        return 1;
    if (needed < UINT64_MAX && needed <= memory->free && needed <= most) {
        snprintf(reason, size, "memory: the reference needs %s of the host, %s are free", text_of(need->host, text[0]),
                 text_of(host_free, text[1]));
        return 0;
    }
    int used = snprintf(reason, size, "memory: needs %s (inputs %s, copies %s, workspace %s, output %s%s%s), ",
                        text_of(needed, text[0]), text_of(need->inputs, text[1]), text_of(need->copies, text[2]),
                        text_of(need->workspace, text[3]), text_of(need->output, text[4]),
                        memory->is_own ? "" : ", reference ", memory->is_own ? "" : text_of(need->host, text[5]));
    if (used < 0 || (size_t)used >= size)
        return 0;
    if (most < memory->free)
        snprintf(reason + used, size - (size_t)used, "--max-memory allows %s", text_of(most, text[6]));
    else
        snprintf(reason + used, size - (size_t)used, "%s of %s are free", text_of(memory->free, text[6]),
                 text_of(memory->total, text[7]));
    return 0;
}
