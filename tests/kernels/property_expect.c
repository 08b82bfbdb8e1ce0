/* What must hold after a run: counts, pairs and block mask agree with each other and with the visibility rule; O and LSE
 * lie within the oracle's bounds for exactly the pairs that the plan says it computed. */
#include "property.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The method's arithmetic, as its parameters state it. */
typedef struct model {
    oracle_arithmetic arithmetic;
    int int8, fp8, smooth;
    int modelled; /* the oracle knows where everything is rounded; else only coarse limits are checked */
    int64_t block_q, block_k;
    oracle_sharing sharing_q, sharing_k; /* of INT8 scales */
    int skip, drops_denominator;
    oracle_skip rule;
} model;

/* What one head is compared with. */
typedef struct head {
    oracle_shape shape;
    const double *q, *k, *v;
    const uint8_t *kept; /* [lq][lk], of the plan */
    const uint16_t *o;
    const float *lse;
} head;

static const char *value(const sparge_params *params, const char *name)
{
    const char *text = sparge_params_get(params, name);

    return text ? text : "";
}

static int is(const sparge_params *params, const char *name, const char *text)
{
    return strcmp(value(params, name), text) == 0;
}

static int ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);

    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static void model_skip(model *m, const sparge_params *params, const sparge_problem *problem, const sparge_stats *stats)
{
    double lambda = -INFINITY;

    if (strcmp(sparge_method_name(sparge_params_method(params)), "skip-softmax") == 0) {
        const char *threshold = value(params, "threshold");

        lambda = log(*threshold ? strtod(threshold, NULL)
                                : strtod(value(params, "scale_factor"), NULL) / (double)problem->seqlen_k);
        m->drops_denominator = 1;
    } else if (*value(params, "lambda")) {
        lambda = strtod(value(params, "lambda"), NULL);
    }
    m->skip = lambda > -INFINITY;
    /* Scores of INT8 differ by what rounding leaves in doubt, up to a few steps of Q or K. */
    m->rule = (oracle_skip){m->block_q, m->block_k, stats->pv_unit, lambda, m->int8 ? 0.1 : 1e-3};
}

/* What a row's largest weight is in e4m3, at least: docs/methods/dense.md. */
static double fp8_p_range(void)
{
    return strcmp(property_backend(), "cuda") == 0 ? 64.0 : 448.0; /* Hopper's; portable kernels have the latter too */
}

/* As docs/methods/dense.md has them. */
static void model_scales(model *m, const sparge_params *params)
{
    m->sharing_q = (oracle_sharing){32, 8, 1};
    m->sharing_k = (oracle_sharing){m->block_k, 8, 2};
    if (is(params, "scales", "warp") || is(params, "scales", "block")) {
        m->sharing_q = (oracle_sharing){is(params, "scales", "warp") ? 32 : m->block_q, 1, 1};
        m->sharing_k = (oracle_sharing){m->block_k, 1, 1};
    }
}

static model model_of(const sparge_params *params, const sparge_problem *problem, const sparge_stats *stats)
{
    const char *name = sparge_method_name(sparge_params_method(params));
    oracle_format format = property_format(problem->dtype);
    model m = {.block_q = stats->block_q > 0 ? stats->block_q : 128,
               .block_k = stats->block_k > 0 ? stats->block_k : 64};
    int upstream = is(params, "compat", "upstream");

    m.fp8 = is(params, "attend", "int8-fp8") || ends_with(name, "int8-fp8");
    m.int8 = m.fp8 || is(params, "attend", "int8-f16") || ends_with(name, "int8-f16");
    m.smooth = m.int8 && is(params, "smooth_k", "on");
    m.arithmetic = (oracle_arithmetic){m.fp8 ? ORACLE_E4M3 : format, m.fp8 ? fp8_p_range() : 1.0, format, 0x1p-21, 0.0};
    if (is(params, "exp", "fast"))
        m.arithmetic.exp_error = oracle_unit_roundoff(m.fp8 ? ORACLE_F16 : format);
    model_skip(&m, params, problem, stats);
    model_scales(&m, params);
    /* Not modelled: the official rounding points, and scales of tokens in another order (sta). */
    m.modelled = !upstream && !(m.int8 && strcmp(name, "sta") == 0);
    return m;
}

/* ---- Counts ---- */

static int64_t visible_blocks(const oracle_shape *shape, int64_t block_q, int64_t block_k)
{
    int64_t blocks = 0;

    for (int64_t i = 0; i * block_q < shape->lq; i++)
        for (int64_t j = 0; j * block_k < shape->lk; j++)
            blocks += oracle_block_visible(shape, block_q, block_k, i, j);
    return blocks;
}

static void check_ratios(property_run *run, const sparge_stats *s)
{
    double mg = s->visible > 0 ? 1.0 - (double)s->qk / (double)s->visible : 0.0;
    double pv = s->visible > 0 ? s->pv_skipped / (double)s->visible : 0.0;

    property_check(run,
                   fabs(s->sparsity_mg - mg) < 1e-12 && fabs(s->sparsity_pv - pv) < 1e-12 &&
                       fabs(s->sparsity - (mg + pv / 2.0)) < 1e-12,
                   "sparsity %g = %g + %g / 2 from visible %" PRId64 ", qk %" PRId64 ", pv_skipped %g", s->sparsity,
                   s->sparsity_mg, s->sparsity_pv, s->visible, s->qk, s->pv_skipped);
}

static void check_counts(property_run *run, const property_case *c, const sparge_stats *s, const model *m,
                         int64_t pairs, int64_t blocks)
{
    const sparge_problem *p = &c->problem;
    oracle_shape shape = property_shape(p);
    int64_t heads = (int64_t)p->batch * p->heads_q;
    double dim = (double)p->head_dim;

    check_ratios(run, s);
    if (!m->skip)
        property_check(run, s->pv_skipped == 0.0, "pv_skipped = %g without a test", s->pv_skipped);
    if (s->basis == SPARGE_BASIS_PAIR) {
        property_check(run, s->visible == heads * oracle_visible_pairs(&shape),
                       "visible = %" PRId64 " pairs, not %" PRId64, s->visible, heads * oracle_visible_pairs(&shape));
        property_check(run, s->qk == pairs, "qk = %" PRId64 ", but %" PRId64 " pairs are kept", s->qk, pairs);
        property_check(run, s->executed_ops >= 4.0 * dim * (double)pairs, "executed_ops = %g for %" PRId64 " pairs",
                       s->executed_ops, pairs);
        return;
    }
    property_check(run, s->visible == heads * visible_blocks(&shape, s->block_q, s->block_k),
                   "visible = %" PRId64 " blocks, not %" PRId64, s->visible,
                   heads * visible_blocks(&shape, s->block_q, s->block_k));
    property_check(run, s->qk == blocks, "qk = %" PRId64 ", but the mask has %" PRId64 " blocks", s->qk, blocks);
    /* design.md 4.1: 2 D BQ BK (QK blocks + PV blocks) */
    double ops = 2.0 * dim * (double)s->block_q * (double)s->block_k * (2.0 * (double)s->qk - s->pv_skipped);
    property_check(run, fabs(s->executed_ops - ops) <= 1e-9 * ops, "executed_ops = %.17g, not %.17g", s->executed_ops,
                   ops);
}

/* Kept pairs are visible; on a block grid they are the visible pairs of the mask's blocks. */
static void check_pairs(property_run *run, const property_case *c, const sparge_stats *s, const sparge_block_mask *mask,
                        int64_t batch, int64_t query_head, const uint8_t *kept)
{
    oracle_shape shape = property_shape(&c->problem);

    for (int64_t i = 0; i < shape.lq; i++) {
        for (int64_t j = 0; j < shape.lk; j++) {
            int got = kept[i * shape.lk + j], seen = oracle_visible(&shape, i, j), block = 1;

            if (s->basis == SPARGE_BASIS_BLOCK)
                block = mask->value[((batch * mask->heads + query_head) * mask->rows + i / s->block_q) * mask->cols +
                                    j / s->block_k];
            else
                block = got;
            if (got == (seen && block))
                continue;
            property_check(
                run, 0, "pair (%" PRId64 ", %" PRId64 ") of b%" PRId64 " h%" PRId64 ": kept %d, visible %d, block %d",
                i, j, batch, query_head, got, seen, block);
            return;
        }
    }
}

/* ---- Outputs ---- */

/* Q, K and V as the arithmetic sees them. */
typedef struct lowered {
    double *q, *q_doubt, *k, *k_doubt, *v, *v_doubt;
    double *smoothed, *mean, *mean_error;
    double scale_error;
    oracle_inputs in; /* points at the above, or at the head's own values */
} lowered;

static double *doubles(int64_t count)
{
    return oracle_alloc((size_t)count, sizeof(double));
}

static lowered lower(const model *m, const head *h)
{
    int64_t lq = h->shape.lq, lk = h->shape.lk, dim = h->shape.dim;
    lowered l = {.in = {.q = h->q, .k = h->k, .v = h->v, .keep = h->kept}};

    if (m->smooth) {
        l.smoothed = doubles(lk * dim);
        l.mean = doubles(dim);
        l.mean_error = doubles(dim);
        oracle_smooth(h->k, lk, dim, l.mean, l.smoothed, l.mean_error);
    }
    if (m->int8) {
        l.in.q = l.q = doubles(lq * dim);
        l.in.k = l.k = doubles(lk * dim);
        l.in.q_doubt = l.q_doubt = doubles(lq * dim);
        l.in.k_doubt = l.k_doubt = doubles(lk * dim);
        l.scale_error = oracle_quantise_int8(h->q, lq, dim, m->sharing_q, NULL, l.q, l.q_doubt);
        l.scale_error +=
            oracle_quantise_int8(m->smooth ? l.smoothed : h->k, lk, dim, m->sharing_k, l.mean_error, l.k, l.k_doubt);
    }
    if (m->fp8) {
        l.in.v = l.v = doubles(lk * dim);
        l.in.v_doubt = l.v_doubt = doubles(lk * dim);
        oracle_quantise_e4m3(h->v, lk, dim, 0.5, l.v, l.v_doubt); /* docs/methods/dense.md */
    }
    return l;
}

static void lowered_release(lowered *l)
{
    double *const memory[] = {l->q,       l->q_doubt,  l->k,    l->k_doubt,   l->v,
                              l->v_doubt, l->smoothed, l->mean, l->mean_error};

    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        free(memory[i]);
}

static void check_lse(property_run *run, const head *h, const double *expected, const double *bound)
{
    for (int64_t i = 0; i < h->shape.lq; i++) {
        double got = (double)h->lse[i];
        int fits = expected[i] == -INFINITY ? got == -INFINITY : fabs(got - expected[i]) <= bound[i];

        if (!property_check(run, fits, "LSE of query %" PRId64 " is %.9g, expected %.9g within %.3g", i, got,
                            expected[i], bound[i]))
            return;
    }
}

static void check_outputs(property_run *run, const property_case *c, const head *h, const oracle_expectation *e)
{
    int64_t count = h->shape.lq * h->shape.dim;
    oracle_format format = property_format(c->problem.dtype);
    int random = c->content == CONTENT_NORMAL || c->content == CONTENT_PEAKED || c->content == CONTENT_BLOCKY;
    double squares = 0.0, expected_squares = 0.0;

    for (int64_t i = 0; i < count; i++) {
        double got = oracle_decode(format, h->o[i]), error = fabs(got - e->o[i]);

        if (!property_check(run, error <= e->o_bound[i],
                            "O of query %" PRId64 " channel %" PRId64 " is %.9g, expected %.9g within %.3g",
                            i / h->shape.dim, i % h->shape.dim, got, e->o[i], e->o_bound[i]))
            return;
        squares += error * error;
        expected_squares += e->o_deviation[i] * e->o_deviation[i];
    }
    /* The expected square is about twice the mean one (bound.c): a method that truncates instead of rounding, or rounds
     * once too often, comes out above it. Few elements scatter more. */
    if (random && count >= 64)
        property_check(run, squares <= (count >= 1000 ? 0.75 : 3.0) * expected_squares,
                       "O deviates by %.3g rms, expected %.3g", sqrt(squares / (double)count),
                       sqrt(expected_squares / (double)count));
}

/* Scores of smoothed keys lack q . mean, which is added back to LSE in float32. */
static void add_mean_score(const head *h, const lowered *l, const oracle_expectation *e)
{
    int64_t dim = h->shape.dim;

    for (int64_t i = 0; i < h->shape.lq; i++) {
        double shift = 0.0, error = 0.0;

        for (int64_t d = 0; d < dim; d++) {
            double q = h->shape.scale * h->q[i * dim + d];

            shift += q * l->mean[d];
            error += fabs(q) * (((double)dim + 4.0) * 0x1p-24 * fabs(l->mean[d]) + l->mean_error[d]);
        }
        e->lse[i] += shift;
        e->lse_bound[i] += error + 0x1p-23 * (fabs(shift) + fabs(e->lse[i]));
    }
}

/* The row sum and O in the method's own arithmetic, every rounding bounded. `pv`: pairs whose PV product is computed, or
 * NULL for all. */
static void compare_modelled(property_run *run, const property_case *c, const model *m, const head *h, lowered *l,
                             const uint8_t *pv)
{
    int64_t lq = h->shape.lq, dim = h->shape.dim;
    oracle_expectation e = {.o = doubles(lq * dim),
                            .lse = doubles(lq),
                            .o_bound = doubles(lq * dim),
                            .lse_bound = doubles(lq),
                            .o_deviation = doubles(lq * dim)};
    oracle_arithmetic arithmetic = m->arithmetic;

    arithmetic.scale_error = l->scale_error;
    l->in.keep_pv = pv;
    l->in.keep = pv && m->drops_denominator ? pv : h->kept;
    oracle_expect(&h->shape, &l->in, &arithmetic, &e);
    if (m->smooth)
        add_mean_score(h, l, &e);
    run->heads_compared++;
    check_lse(run, h, e.lse, e.lse_bound);
    check_outputs(run, c, h, &e);
    free(e.o_deviation);
    free(e.lse_bound);
    free(e.o_bound);
    free(e.lse);
    free(e.o);
}

/* Counts the tiles that the oracle skips; compares O and LSE where `in_full`, unless a vote is too close to call. */
static oracle_skip_result check_modelled(property_run *run, const property_case *c, const model *m, const head *h,
                                         int in_full)
{
    oracle_skip_result skips = {0};
    uint8_t *pv = NULL;
    lowered l;

    if (!m->skip && !in_full)
        return skips;
    l = lower(m, h);
    if (m->skip) {
        pv = oracle_alloc((size_t)(h->shape.lq * h->shape.lk), 1);
        skips = oracle_skip_pv(&h->shape, &m->rule, l.in.q, l.in.k, h->kept, pv);
    }
    if (in_full && skips.ambiguous == 0)
        compare_modelled(run, c, m, h, &l, pv);
    free(pv);
    lowered_release(&l);
    return skips;
}

/* Against exact attention over the same pairs: what a user sees as error, on inputs where that is a meaningful number. */
static void compare_exact(property_run *run, const property_case *c, const model *m, const head *h)
{
    int64_t count = h->shape.lq * h->shape.dim;
    double *exact = doubles(count), *got = doubles(count);
    oracle_format format = property_format(c->problem.dtype);
    double limit = m->fp8 ? 0.06 : m->int8 ? 0.02 : format == ORACLE_BF16 ? 4e-3 : 1e-3;
    oracle_error error;

    oracle_attention(&h->shape, h->q, h->k, h->v, h->kept, exact, NULL);
    for (int64_t i = 0; i < count; i++)
        got[i] = oracle_decode(format, h->o[i]);
    error = oracle_compare(got, exact, count);
    if (c->content == CONTENT_NORMAL && c->problem.scale == 0.0F && count >= 1000 && h->shape.lk >= 16 && !m->skip)
        property_check(run, error.rel_l2 <= limit && error.cosine >= 1.0 - limit * limit,
                       "rel_l2 = %.3g, cosine = %.9g", error.rel_l2, error.cosine);
    free(got);
    free(exact);
}

/* Every element was written; none is infinite, none outside the range of V. */
static void check_range(property_run *run, const property_case *c, const model *m, const head *h)
{
    double largest = 0.0, slack = m->fp8 ? 1.1 : 1.01;

    for (int64_t i = 0; i < h->shape.lk * h->shape.dim; i++)
        largest = fmax(largest, fabs(h->v[i]));
    for (int64_t i = 0; i < h->shape.lq * h->shape.dim; i++) {
        double got = oracle_decode(property_format(c->problem.dtype), h->o[i]);

        if (!property_check(run, isfinite(got) && fabs(got) <= slack * largest,
                            "O of query %" PRId64 " channel %" PRId64 " is %g (code %04x), |V| <= %g", i / h->shape.dim,
                            i % h->shape.dim, got, h->o[i], largest))
            return;
    }
}

/* ---- */

static head head_of(const property_case *c, const property_output *output, int64_t batch, int64_t query_head,
                    const uint8_t *kept)
{
    const sparge_problem *p = &c->problem;
    int64_t kv = oracle_kv_head(query_head, p->heads_q, p->heads_kv),
            row = (batch * p->heads_q + query_head) * p->seqlen_q;

    return (head){property_shape(p),
                  property_head(c->q_values, p, p->heads_q, p->seqlen_q, batch, query_head),
                  property_head(c->k_values, p, p->heads_kv, p->seqlen_k, batch, kv),
                  property_head(c->v_values, p, p->heads_kv, p->seqlen_k, batch, kv),
                  kept,
                  output->o + row * p->head_dim,
                  output->lse + row};
}

void property_check_run(property_run *run, property_case *c, const sparge_params *params, sparge_plan *plan,
                        const property_output *output, oracle_rng *rng)
{
    const sparge_problem *p = &c->problem;
    int64_t heads = (int64_t)p->batch * p->heads_q, pairs = 0, blocks = 0, first, stride;
    uint8_t *kept = oracle_alloc((size_t)(p->seqlen_q * p->seqlen_k), 1);
    oracle_skip_result skips = {0};
    sparge_block_mask mask = {0};
    sparge_stats stats;
    sparge_status masked;
    model m;

    if (!property_check(run, sparge_plan_get_stats(plan, &stats) == SPARGE_OK, "stats: %s",
                        sparge_error_string(run->context)))
        goto done;
    m = model_of(params, p, &stats);
    masked = sparge_plan_get_block_mask(plan, &mask);
    if (!property_check(run, masked == (stats.basis == SPARGE_BASIS_BLOCK ? SPARGE_OK : SPARGE_ERROR_UNSUPPORTED),
                        "block mask of basis %d: %s", (int)stats.basis, sparge_status_name(masked)))
        goto done;
    for (int64_t i = 0; mask.value && i < heads * mask.rows * mask.cols; i++)
        blocks += mask.value[i] != 0;

    /* All heads by their counts and ranges, about three in full, from a random one on. */
    stride = (heads + 2) / 3;
    first = oracle_rng_between(rng, 0, stride - 1);
    for (int64_t i = 0; i < heads; i++) {
        int64_t b = i / p->heads_q, query_head = i % p->heads_q;
        head h = head_of(c, output, b, query_head, kept);

        if (!property_check(run, sparge_plan_get_pairs(plan, (int32_t)b, (int32_t)query_head, kept) == SPARGE_OK,
                            "pairs: %s", sparge_error_string(run->context)))
            goto done;
        for (int64_t pair = 0; pair < p->seqlen_q * p->seqlen_k; pair++)
            pairs += kept[pair];
        check_pairs(run, c, &stats, &mask, b, query_head, kept);
        check_range(run, c, &m, &h);
        if (m.modelled) {
            oracle_skip_result one = check_modelled(run, c, &m, &h, i % stride == first);

            skips.skipped += one.skipped;
            skips.ambiguous += one.ambiguous;
        }
        if (i % stride == first)
            compare_exact(run, c, &m, &h);
    }
    check_counts(run, c, &stats, &m, pairs, blocks);
    if (m.modelled && m.skip) {
        property_check(run, fabs(stats.pv_skipped - skips.skipped) <= (double)skips.ambiguous + 1e-9,
                       "pv_skipped = %.9g, the oracle's count is %.9g with %" PRId64 " votes too close to call",
                       stats.pv_skipped, skips.skipped, skips.ambiguous);
        run->tiles_skipped += skips.skipped;
    }
done:
    sparge_block_mask_release(&mask);
    free(kept);
}
