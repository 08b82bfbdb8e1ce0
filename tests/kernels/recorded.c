/* One recorded case as a case of the attend tests. */
#include "recorded.h"

#include <stdio.h>
#include <string.h>

void recorded_open(recorded *r, int index)
{
    char path[4096];
    sparge_error error = {0};
    upstream_path(index, path, sizeof path);
    if (st_open(path, &r->file, &error) != SPARGE_OK)
        fail_msg("%s", error.text);
    r->name = upstream_cases[index].name;
    const st_tensor *q = st_find(r->file, "q");
    assert_non_null(q);
    assert_int_equal(q->rank, 4);
    r->heads = q->shape[1];
    r->tokens = q->shape[2];
    r->head_dim = q->shape[3];
    r->causal = upstream_cases[index].causal;
}

void recorded_close(recorded *r)
{
    st_close(r->file);
}

const void *recorded_data(const recorded *r, const char *prefix, const char *name, const char *dtype)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s%s", prefix ? prefix : "", prefix ? "." : "", name);
    const st_tensor *tensor = st_find(r->file, full);
    if (!tensor || strcmp(tensor->dtype, dtype) != 0)
        fail_msg("%s: no tensor %s of dtype %s", r->name, full, dtype);
    return tensor->data;
}

void recorded_case(const recorded *r, attend_case *c)
{
    const sparge_problem problem = {.batch = 1,
                                    .heads_q = (int32_t)r->heads,
                                    .heads_kv = (int32_t)r->heads,
                                    .seqlen_q = r->tokens,
                                    .seqlen_k = r->tokens,
                                    .head_dim = (int32_t)r->head_dim,
                                    .dtype = SPARGE_F16,
                                    .causal = r->causal ? SPARGE_CAUSAL_TOP_LEFT : SPARGE_CAUSAL_NONE};
    case_open(c, &problem, CASE_HND, 2, NULL);
    const size_t bytes = sizeof(uint16_t) * (size_t)(r->heads * r->tokens * r->head_dim);
    memcpy(c->io.q.data, recorded_data(r, NULL, "q", "F16"), bytes);
    memcpy(c->io.k.data, recorded_data(r, NULL, "k", "F16"), bytes);
    memcpy(c->io.v.data, recorded_data(r, NULL, "v", "F16"), bytes);
}

void recorded_blocks(const char *shape, int32_t *block_q, int32_t *block_k)
{
    assert_int_equal(sscanf(shape, "%dx%d", block_q, block_k), 2);
}
