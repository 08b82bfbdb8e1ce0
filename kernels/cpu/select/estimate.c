/* One pass over the keys per query; sums run in query order, so they do not depend on how the work is split. */
#include "cpu/select/estimate.h"

#include <string.h>

#include "cpu/select/numeric.h"

void cpu_estimate(const sparge_plan *plan, int64_t batch, int64_t head, int64_t last, float *row, float *vertical,
                  float *slash)
{
    const sparge_problem *p = &plan->problem;
    const cpu_prepared *in = &cpu_plan_of(plan)->prepared;
    const int64_t kv = head / (p->heads_q / p->heads_kv);
    const float scale = sparge_problem_scale(p);
    float q[SPARGE_MAX_HEAD_DIM], k[SPARGE_MAX_HEAD_DIM];
    memset(vertical, 0, (size_t)p->seqlen_k * sizeof *vertical);
    memset(slash, 0, (size_t)p->seqlen_k * sizeof *slash);
    for (int64_t r = p->seqlen_q - last; r < p->seqlen_q; r++) {
        const int64_t end = sparge_problem_visible_end(p, r);
        cpu_load_row(&in->q, batch, head, r, q);
        for (int64_t j = 0; j < end; j++) {
            cpu_load_row(&in->k, batch, kv, j, k);
            row[j] = cpu_dot(q, k, p->head_dim) * scale;
        }
        cpu_softmax(row, end);
        for (int64_t j = 0; j < end; j++) {
            vertical[j] += row[j];
            slash[r < j ? j - r : r - j] += row[j];
        }
    }
}
