/* One pass over the keys per query; sums run in query order, so they do not depend on how the work is split. */
#include "cpu/select/estimate.h"

#include <string.h>

#include "cpu/load.h"
#include "cpu/select/numeric.h"

/* Scaled scores of queries [first, first + count) into rows[count][Lk]. */
static void score_group(const sparge_plan *plan, int64_t batch, int64_t head, int64_t first, int64_t count, float *rows)
{
    const sparge_problem *p = &plan->problem;
    const cpu_prepared *in = &cpu_plan_of(plan)->prepared;
    const int64_t kv = head / (p->heads_q / p->heads_kv), end = sparge_problem_visible_end(p, first + count - 1);
    const float scale = sparge_problem_scale(p);
    float q[CPU_ESTIMATE_GROUP][SPARGE_MAX_HEAD_DIM], k[SPARGE_MAX_HEAD_DIM];
    for (int64_t g = 0; g < count; g++)
        cpu_load_row(plan->context, &in->q, batch, head, first + g, q[g]);
    for (int64_t j = 0; j < end; j++) {
        cpu_load_row(plan->context, &in->k, batch, kv, j, k);
        for (int64_t g = 0; g < count; g++)
            rows[g * p->seqlen_k + j] = cpu_dot(q[g], k, p->head_dim) * scale;
    }
}

void cpu_estimate(const sparge_plan *plan, int64_t batch, int64_t head, int64_t last, float *rows, float *vertical,
                  float *slash)
{
    const sparge_problem *p = &plan->problem;
    memset(vertical, 0, (size_t)p->seqlen_k * sizeof *vertical);
    memset(slash, 0, (size_t)p->seqlen_k * sizeof *slash);
    for (int64_t first = p->seqlen_q - last; first < p->seqlen_q; first += CPU_ESTIMATE_GROUP) {
        const int64_t left = p->seqlen_q - first, count = left < CPU_ESTIMATE_GROUP ? left : CPU_ESTIMATE_GROUP;
        score_group(plan, batch, head, first, count, rows);
        for (int64_t r = first; r < first + count; r++) {
            float *row = rows + (r - first) * p->seqlen_k;
            const int64_t end = sparge_problem_visible_end(p, r);
            cpu_softmax(row, end);
            for (int64_t j = 0; j < end; j++) {
                vertical[j] += row[j];
                slash[r < j ? j - r : r - j] += row[j];
            }
        }
    }
}
