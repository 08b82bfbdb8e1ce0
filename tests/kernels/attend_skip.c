/* The PV skip test against a scalar re-implementation: exact counts, and outputs that follow the same decisions.
 *
 * Q and K are small integers, so that every score is an exact float in any order of summation and each comparison with
 * the threshold has one right answer. Blocks of keys differ in strength, so that some tiles skip and some do not. */
#include "attend_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/isa/isa.h"

typedef enum skip_mode { KEEP_DENOMINATOR = 0, DROP, SKIP_SOFTMAX, UPSTREAM, MODES } skip_mode;

static const double LOG2E = 1.4426950408889634;

/* Scores of `head` as the backend defines them: integer q.k times the float scale * log2(e). */
static float *scores_of(const attend_case *c, int64_t batch, int64_t head)
{
    const sparge_problem *p = &c->problem;
    double *q = case_head(&c->io.q, batch, head);
    double *k = case_head(&c->io.k, batch, oracle_kv_head(head, p->heads_q, p->heads_kv));
    const float scale = (float)((double)sparge_problem_scale(p) * LOG2E);
    float *s = oracle_alloc((size_t)(p->seqlen_q * p->seqlen_k), sizeof *s);
    for (int64_t i = 0; i < p->seqlen_q; i++)
        for (int64_t j = 0; j < p->seqlen_k; j++) {
            double dot = 0;
            for (int32_t d = 0; d < p->head_dim; d++)
                dot += q[i * p->head_dim + d] * k[j * p->head_dim + d];
            s[i * p->seqlen_k + j] = j < sparge_problem_visible_end(p, i) ? (float)dot * scale : -INFINITY;
        }
    free(q);
    free(k);
    return s;
}

typedef struct naive_result {
    double skipped; /* blocks */
    int64_t tiles, skipping_tiles;
} naive_result;

static int vote_to_skip(skip_mode mode, const float *m_old, const float *m_tile, int rows, int padding, float threshold)
{
    for (int i = 0; i < rows; i++) {
        if (m_tile[i] == -INFINITY)
            continue;
        if (mode == UPSTREAM ? m_tile[i] > m_old[i] + threshold : fmaxf(m_old[i], m_tile[i]) - m_tile[i] <= -threshold)
            return 0;
    }
    return mode != UPSTREAM || padding == 0;
}

/* One row block: decides tile by tile, and accumulates o and l in double by those decisions. */
static void naive_row_block(const attend_case *c, skip_mode mode, const float *s, const double *v, int64_t begin,
                            double *o, naive_result *result)
{
    const sparge_problem *p = &c->problem;
    const sparge_recipe *r = &c->recipe;
    const int rows = (int)(p->seqlen_q - begin < r->block_q ? p->seqlen_q - begin : r->block_q);
    const int units = (rows + r->pv_unit - 1) / r->pv_unit;
    const float threshold = (float)(mode == SKIP_SOFTMAX ? log2(r->skip_softmax_threshold) : r->lambda.uniform * LOG2E);
    const int64_t tiles = (sparge_problem_visible_end(p, begin + rows - 1) + r->block_k - 1) / r->block_k;
    const int64_t guarded = mode != UPSTREAM ? 0 : r->block_q > r->block_k ? r->block_q / r->block_k : 1;
    float m[128], m_tile[128];
    double l[128] = {0};
    for (int i = 0; i < rows; i++)
        m[i] = -INFINITY;
    memset(o, 0, sizeof *o * (size_t)(rows * p->head_dim));
    for (int64_t tile = 0; tile < tiles; tile++) {
        const int64_t first = tile * r->block_k;
        const int64_t last = first + r->block_k < p->seqlen_k ? first + r->block_k : p->seqlen_k;
        int skipped = 0, skips[8];
        for (int i = 0; i < rows; i++) {
            m_tile[i] = -INFINITY;
            for (int64_t j = first; j < last; j++)
                m_tile[i] = fmaxf(m_tile[i], s[(begin + i) * p->seqlen_k + j]);
        }
        for (int u = 0; u < units; u++) {
            const int from = u * r->pv_unit, to = from + r->pv_unit < rows ? from + r->pv_unit : rows;
            skips[u] = tile < tiles - guarded &&
                       vote_to_skip(mode, m + from, m_tile + from, to - from, from + r->pv_unit - to, threshold);
            skipped += skips[u];
        }
        result->skipped += (double)skipped / units;
        result->tiles++;
        result->skipping_tiles += skipped > 0;
        for (int i = 0; i < rows; i++) {
            const int skip = skips[i / r->pv_unit];
            const float m_new = fmaxf(m[i], m_tile[i]);
            const double alpha = m[i] == -INFINITY ? 0 : exp2((double)m[i] - (double)m_new);
            l[i] *= alpha;
            for (int32_t d = 0; d < p->head_dim; d++)
                o[i * p->head_dim + d] *= alpha;
            for (int64_t j = first; j < last; j++) {
                const float score = s[(begin + i) * p->seqlen_k + j];
                const double weight = score == -INFINITY ? 0 : exp2((double)score - (double)m_new);
                if (!skip || mode == KEEP_DENOMINATOR)
                    l[i] += weight;
                for (int32_t d = 0; !skip && d < p->head_dim; d++)
                    o[i * p->head_dim + d] += weight * v[j * p->head_dim + d];
            }
            m[i] = m_new;
        }
    }
    for (int i = 0; i < rows; i++)
        for (int32_t d = 0; d < p->head_dim; d++)
            o[i * p->head_dim + d] = l[i] > 0 ? o[i * p->head_dim + d] / l[i] : 0;
}

/* Small integers. The first keys are strong; of the later blocks of 64 every third is zero, every third weak. */
static void fill_integers(attend_case *c, uint64_t seed)
{
    oracle_rng rng = oracle_rng_seed(seed);
    const sparge_tensor *tensors[] = {&c->io.q, &c->io.k, &c->io.v};
    for (int t = 0; t < 3; t++)
        for (int64_t b = 0; b < tensors[t]->shape[0]; b++)
            for (int64_t h = 0; h < tensors[t]->shape[1]; h++)
                for (int64_t i = 0; i < tensors[t]->shape[2]; i++) {
                    const int64_t amplitude = t == 1 ? (i < 32 ? 4 : (i / 64 * 7 + h) % 3) : 3;
                    for (int64_t d = 0; d < tensors[t]->shape[3]; d++)
                        case_set(tensors[t], b, h, i, d, (double)oracle_rng_between(&rng, -amplitude, amplitude));
                }
}

static void check(const sparge_problem *problem, skip_mode mode, int32_t block_q, int32_t block_k, int32_t unit,
                  double lambda, const char *isa, int64_t *skipping_tiles, int64_t *tiles)
{
    attend_case c;
    case_open(&c, problem, CASE_HND, 2, isa);
    fill_integers(&c, (uint64_t)(block_q + unit + (int)mode));
    c.recipe = case_recipe(SPARGE_ARITHMETIC_F16);
    c.recipe.block_q = block_q;
    c.recipe.block_k = block_k;
    c.recipe.pv_unit = unit;
    c.recipe.pv_keeps_denominator = mode == KEEP_DENOMINATOR;
    c.recipe.upstream = mode == UPSTREAM;
    if (mode == SKIP_SOFTMAX)
        c.recipe.skip_softmax_threshold = exp(lambda);
    else
        c.recipe.lambda.uniform = lambda;
    case_plan(&c, NULL);
    case_run(&c, SPARGE_STAGE_ATTEND);

    naive_result naive = {0};
    const int64_t lq = problem->seqlen_q, dim = problem->head_dim;
    double *expected = oracle_alloc((size_t)(lq * dim), sizeof *expected);
    for (int32_t batch = 0; batch < problem->batch; batch++)
        for (int32_t head = 0; head < problem->heads_q; head++) {
            float *s = scores_of(&c, batch, head);
            double *v = case_head(&c.io.v, batch, oracle_kv_head(head, problem->heads_q, problem->heads_kv));
            for (int64_t begin = 0; begin < lq; begin += block_q)
                naive_row_block(&c, mode, s, v, begin, expected + begin * dim, &naive);
            double *got = case_output(&c, batch, head);
            const double error = rel_l2(got, expected, lq * dim);
            if (!(error < 1e-3))
                fail_msg("mode %d %dx%d unit %d %s: rel_l2 %g", (int)mode, block_q, block_k, unit, isa, error);
            free(got);
            free(s);
            free(v);
        }
    sparge_stats stats = {0};
    assert_int_equal(sparge_backend_cpu.plan_stats(&c.plan, &stats), SPARGE_OK);
    if (fabs(stats.pv_skipped - naive.skipped) > 1e-9)
        fail_msg("mode %d %dx%d unit %d %s: pv_skipped %.9g, not %.9g of %d", (int)mode, block_q, block_k, unit, isa,
                 stats.pv_skipped, naive.skipped, (int)naive.tiles);
    assert_int_equal(stats.pv_unit, unit);
    assert_int_equal(stats.qk, naive.tiles);
    const double ops = 2.0 * (double)dim * block_q * block_k * (2.0 * (double)naive.tiles - naive.skipped);
    assert_true(fabs(stats.executed_ops - ops) <= 1e-9 * ops);
    *skipping_tiles += naive.skipping_tiles;
    *tiles += naive.tiles;
    free(expected);
    case_close(&c);
}

static void counts_and_outputs_match_a_scalar_loop(void **state)
{
    (void)state;
    static const int32_t shapes[][3] = {{128, 64, 16}, {128, 64, 32}, {128, 64, 64}, {128, 64, 128},
                                        {64, 64, 16},  {64, 128, 64}, {128, 128, 32}};
    const cpu_isa *isa;
    for (int n = 0; (isa = cpu_isa_at(n)) != NULL; n++)
        for (skip_mode mode = KEEP_DENOMINATOR; mode < MODES; mode++)
            for (int causal = SPARGE_CAUSAL_NONE; causal <= SPARGE_CAUSAL_TOP_LEFT; causal++) {
                int64_t skipping = 0, tiles = 0;
                for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
                    if (mode == UPSTREAM && shapes[i][2] != shapes[i][0])
                        continue; /* upstream votes per block */
                    const sparge_problem problem = {.batch = 1,
                                                    .heads_q = 2,
                                                    .heads_kv = 1,
                                                    .seqlen_q = 300,
                                                    .seqlen_k = 530,
                                                    .head_dim = 24,
                                                    .dtype = SPARGE_F16,
                                                    .causal = (sparge_causal)causal};
                    check(&problem, mode, shapes[i][0], shapes[i][1], shapes[i][2], -2, isa->name, &skipping, &tiles);
                }
                assert_true(skipping > 0 && skipping < tiles); /* else this test tests nothing */
            }
}

/* lambda = -inf counts nothing and has no unit. */
static void off_means_off(void **state)
{
    (void)state;
    const sparge_problem problem = {.batch = 1,
                                    .heads_q = 1,
                                    .heads_kv = 1,
                                    .seqlen_q = 300,
                                    .seqlen_k = 300,
                                    .head_dim = 16,
                                    .dtype = SPARGE_F16,
                                    .causal = SPARGE_CAUSAL_TOP_LEFT};
    attend_case c;
    case_open(&c, &problem, CASE_HND, 1, NULL);
    fill_integers(&c, 1);
    c.recipe = case_recipe(SPARGE_ARITHMETIC_F16);
    case_plan(&c, NULL);
    case_run(&c, SPARGE_STAGE_ATTEND);
    const sparge_stats *stats = &cpu_plan_of(&c.plan)->stats;
    assert_true(stats->pv_skipped == 0);
    assert_int_equal(stats->pv_unit, 0);
    assert_true(stats->executed_ops == 4.0 * 16 * 128 * 64 * (double)stats->qk);
    case_close(&c);
}

/* Heads differ: one never skips, the other does; the one that never skips has the output of a run without the test. */
static void thresholds_are_per_head(void **state)
{
    (void)state;
    const sparge_problem problem = {
        .batch = 1, .heads_q = 2, .heads_kv = 2, .seqlen_q = 256, .seqlen_k = 512, .head_dim = 32, .dtype = SPARGE_F16};
    double lambda[2] = {-INFINITY, -2};
    attend_case plain, tested;
    case_open(&plain, &problem, CASE_HND, 1, NULL);
    case_open(&tested, &problem, CASE_HND, 1, NULL);
    fill_integers(&plain, 5);
    fill_integers(&tested, 5);
    plain.recipe = tested.recipe = case_recipe(SPARGE_ARITHMETIC_F16);
    tested.recipe.lambda.head = lambda;
    tested.recipe.pv_unit = 16;
    case_plan(&plain, NULL);
    case_plan(&tested, NULL);
    case_run(&plain, SPARGE_STAGE_ATTEND);
    case_run(&tested, SPARGE_STAGE_ATTEND);
    const size_t head_bytes = 256 * 32 * sizeof(uint16_t);
    assert_memory_equal(plain.io.o.data, tested.io.o.data, head_bytes);
    assert_memory_not_equal((char *)plain.io.o.data + head_bytes, (char *)tested.io.o.data + head_bytes, head_bytes);
    assert_true(cpu_plan_of(&tested.plan)->stats.pv_skipped > 0);
    case_close(&plain);
    case_close(&tested);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_and_outputs_match_a_scalar_loop),
        cmocka_unit_test(off_means_off),
        cmocka_unit_test(thresholds_are_per_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
