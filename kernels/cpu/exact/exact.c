/* Exact attention in float64 of selected rows: the reference of the error columns. No blocks, no online softmax: all
 * scores of a row, their maximum, the exponentials and their sum, then the weighted sum of V.
 *
 * A thread takes GROUP rows of one head at a time, so that each row of K and V is converted once per group. Every sum
 * runs over ascending channels or keys, in LANES interleaved partial sums where it is a dot product. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/load.h"

enum { GROUP = 8, LANES = 8 };

typedef struct exact_job {
    const sparge_context *context;
    const sparge_problem *problem;
    const sparge_tensor *q, *k, *v;
    const int64_t *rows;
    int64_t n_rows;
    double *o, *lse;
} exact_job;

/* Channels are padded with zeros to a multiple of LANES. */
static void load_row(const exact_job *job, const sparge_tensor *tensor, int64_t batch, int64_t head, int64_t token,
                     double *out)
{
    float row[SPARGE_MAX_HEAD_DIM] = {0};
    cpu_load_row(job->context, tensor, batch, head, token, row);
    for (int d = 0; d < SPARGE_MAX_HEAD_DIM; d++)
        out[d] = (double)row[d];
}

static double dot(const double *a, const double *b, int channels)
{
    double partial[LANES] = {0};
    for (int d = 0; d < channels; d += LANES)
        for (int lane = 0; lane < LANES; lane++)
            partial[lane] += a[d + lane] * b[d + lane];
    double sum = 0;
    for (int lane = 0; lane < LANES; lane++)
        sum += partial[lane];
    return sum;
}

/* Scores -> weights exp(score - max); returns their sum and the maximum. */
static double weigh(double *score, int64_t keys, double *max)
{
    *max = -INFINITY;
    for (int64_t j = 0; j < keys; j++)
        *max = score[j] > *max ? score[j] : *max;
    double sum = 0;
    for (int64_t j = 0; j < keys; j++) {
        score[j] = exp(score[j] - *max);
        sum += score[j];
    }
    return sum;
}

/* `count` rows of one (batch, query head) from `first` on. score: double[GROUP][Lk]. */
static void exact_rows(const exact_job *job, int64_t bh, int64_t first, int count, double *score)
{
    const sparge_problem *problem = job->problem;
    const int64_t batch = bh / problem->heads_q, head = bh % problem->heads_q;
    const int64_t head_kv = head / (problem->heads_q / problem->heads_kv);
    const int head_dim = problem->head_dim, channels = (head_dim + LANES - 1) / LANES * LANES;
    const double scale =
        problem->scale > 0 ? (double)problem->scale : 1.0 / sqrt((double)head_dim); /* not rounded to float */
    double q[GROUP][SPARGE_MAX_HEAD_DIM], o[GROUP][SPARGE_MAX_HEAD_DIM] = {{0}}, row[SPARGE_MAX_HEAD_DIM];
    double sum[GROUP], max[GROUP];
    int64_t keys[GROUP], most = 0;
    for (int i = 0; i < count; i++) {
        const int64_t query = job->rows ? job->rows[first + i] : first + i;
        load_row(job, job->q, batch, head, query, q[i]);
        keys[i] = sparge_problem_visible_end(problem, query);
        most = keys[i] > most ? keys[i] : most;
    }
    for (int64_t j = 0; j < most; j++) {
        load_row(job, job->k, batch, head_kv, j, row);
        for (int i = 0; i < count; i++)
            if (j < keys[i])
                score[i * problem->seqlen_k + j] = dot(q[i], row, channels) * scale;
    }
    for (int i = 0; i < count; i++)
        sum[i] = weigh(score + i * problem->seqlen_k, keys[i], &max[i]);
    for (int64_t j = 0; j < most; j++) {
        load_row(job, job->v, batch, head_kv, j, row);
        for (int i = 0; i < count; i++) {
            if (j >= keys[i])
                continue;
            const double weight = score[i * problem->seqlen_k + j];
            for (int d = 0; d < channels; d++)
                o[i][d] += weight * row[d];
        }
    }
    for (int i = 0; i < count; i++) {
        const int64_t at = bh * job->n_rows + first + i;
        for (int d = 0; d < head_dim; d++)
            job->o[at * head_dim + d] = keys[i] ? o[i][d] / sum[i] : 0.0;
        if (job->lse)
            job->lse[at] = keys[i] ? max[i] + log(sum[i]) : -INFINITY;
    }
}

static sparge_status out_of_memory(sparge_context *context, int threads)
{
    return sparge_context_fail(context, SPARGE_ERROR_OUT_OF_MEMORY, "out of memory for the scores of %d rows",
                               GROUP * threads);
}

sparge_status cpu_exact(sparge_context *context, const sparge_problem *problem, const sparge_tensor *q,
                        const sparge_tensor *k, const sparge_tensor *v, const int64_t *rows, int64_t n_rows, double *o,
                        double *lse)
{
    const exact_job job = {.context = context,
                           .problem = problem,
                           .q = q,
                           .k = k,
                           .v = v,
                           .rows = rows,
                           .n_rows = n_rows,
                           .o = o,
                           .lse = lse};
    const int64_t heads = (int64_t)problem->batch * problem->heads_q;
    const int64_t groups = (n_rows + GROUP - 1) / GROUP;
    const int threads = cpu_threads(context);
    const uint64_t limit = SIZE_MAX / sizeof(double) / GROUP;
    if ((uint64_t)problem->seqlen_k > limit)
        return out_of_memory(context, threads);
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(| : failed)
    {
        double *score = malloc((size_t)problem->seqlen_k * sizeof(double) * GROUP);
        failed = score == NULL;
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < heads * groups; i++) {
            const int64_t first = i % groups * GROUP;
            const int count = (int)(n_rows - first < GROUP ? n_rows - first : GROUP);
            if (score)
                exact_rows(&job, i / groups, first, count, score);
        }
        free(score);
    }
    return failed ? out_of_memory(context, threads) : SPARGE_OK;
}
