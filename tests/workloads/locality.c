/* The video presets are as alike within blocks as the paper measured, in every token order; the language presets have
 * sinks and attend to what is near. What docs/workloads.md claims about the tuning, with its bounds. */
#include "check.h"

#include <math.h>
#include <stdlib.h>

#include "generated.h"
#include "workloads.h"

enum { BLOCK_Q = 128, BLOCK_K = 64 };

static void mean_row(const sparge_tensor *tensor, int64_t head, double *mean)
{
    for (int64_t c = 0; c < tensor->shape[3]; c++) {
        double sum = 0;
        for (int64_t i = 0; i < tensor->shape[2]; i++)
            sum += (double)generated_row(tensor, 0, head, i)[c];
        mean[c] = sum / (double)tensor->shape[2];
    }
}

/* Every row of a head, from `mean` (NULL: zero) as the origin, at length 1. */
static double *unit_rows(const sparge_tensor *tensor, int64_t head, const double *mean)
{
    const int64_t n = tensor->shape[3], rows = tensor->shape[2];
    double *unit = malloc((size_t)(rows * n) * sizeof *unit);
    assert_non_null(unit);
    for (int64_t i = 0; i < rows; i++) {
        const float *row = generated_row(tensor, 0, head, i);
        double length = 0;
        for (int64_t c = 0; c < n; c++) {
            unit[i * n + c] = (double)row[c] - (mean ? mean[c] : 0);
            length += unit[i * n + c] * unit[i * n + c];
        }
        for (int64_t c = 0; c < n; c++)
            unit[i * n + c] /= sqrt(length);
    }
    return unit;
}

/* Mean over blocks of the mean cosine between all pairs of their rows: the square of the mean unit row. */
static double block_similarity(const double *unit, int64_t rows, int64_t n, const int64_t *source, int64_t block)
{
    double sum = 0;
    int64_t blocks = rows / block;
    for (int64_t first = 0; first < blocks * block; first += block) {
        double total[SPARGE_MAX_HEAD_DIM] = {0}, square = 0;
        for (int64_t i = first; i < first + block; i++)
            for (int64_t c = 0; c < n; c++)
                total[c] += unit[source[i] * n + c];
        for (int64_t c = 0; c < n; c++)
            square += total[c] * total[c];
        sum += square / (double)(block * block);
    }
    return sum / (double)blocks;
}

typedef struct similarity {
    double q[WL_ORDER_COUNT], k[WL_ORDER_COUNT];
} similarity;

static similarity measure(const char *name, int32_t heads)
{
    wl_workload workload;
    sparge_error error;
    const wl_request request = {.name = name, .heads = heads, .dtype = -1, .causal = -1, .seed = 1};
    if (wl_resolve(&request, &workload, &error) != SPARGE_OK)
        fail_msg("%s", error.text);
    const sparge_problem *p = &workload.problem;
    sparge_tensor q = generated_make(&workload.generator, SPARGE_ROLE_Q, SPARGE_F32, 1, p->seqlen_q, p->head_dim, 0);
    sparge_tensor k = generated_make(&workload.generator, SPARGE_ROLE_K, SPARGE_F32, 1, p->seqlen_k, p->head_dim, 0);
    int64_t *source = malloc((size_t)p->seqlen_q * sizeof *source);
    assert_non_null(source);
    similarity found = {{0}, {0}};
    for (int64_t h = 0; h < heads; h++) {
        double mean[SPARGE_MAX_HEAD_DIM];
        mean_row(&k, h, mean);
        double *unit_q = unit_rows(&q, h, NULL), *unit_k = unit_rows(&k, h, mean);
        for (int order = 0; order < WL_ORDER_COUNT; order++) {
            assert_int_equal(wl_order_permutation(&p->grid, (wl_order)order, 1, source, &error), SPARGE_OK);
            found.q[order] += block_similarity(unit_q, p->seqlen_q, p->head_dim, source, BLOCK_Q) / heads;
            found.k[order] += block_similarity(unit_k, p->seqlen_k, p->head_dim, source, BLOCK_K) / heads;
        }
        free(unit_q);
        free(unit_k);
    }
    for (int order = 0; order < WL_ORDER_COUNT; order++)
        print_message("%s %s: q %.3f k %.3f\n", name, wl_order_name((wl_order)order), found.q[order], found.k[order]);
    free(source);
    generated_free(&q);
    generated_free(&k);
    wl_release(&workload);
    return found;
}

/* SpargeAttn, Table 9 (blocks of 128 queries and 64 keys), in the order row, column, time, random, Hilbert. */
static void check_against_paper(const char *name, const double q[WL_ORDER_COUNT], const double k[WL_ORDER_COUNT],
                                double tolerance)
{
    similarity found = measure(name, 3);
    for (int order = 0; order < WL_ORDER_COUNT; order++) {
        assert_true(fabs(found.q[order] - q[order]) < tolerance);
        assert_true(fabs(found.k[order] - k[order]) < tolerance);
    }
    for (int order = 0; order < WL_ORDER_COUNT; order++) {
        if (order == WL_ORDER_HILBERT)
            continue;
        assert_true(found.q[WL_ORDER_HILBERT] > found.q[order]);
        assert_true(found.k[WL_ORDER_HILBERT] > found.k[order]);
        if (order != WL_ORDER_RANDOM) {
            assert_true(found.q[order] > found.q[WL_ORDER_RANDOM] + 0.1);
            assert_true(found.k[order] > found.k[WL_ORDER_RANDOM] + 0.2);
        }
    }
}

static void test_mochi(void **state)
{
    (void)state;
    const double q[] = {.551, .547, .514, .321, .572}, k[] = {.390, .394, .367, .019, .479};
    check_against_paper("mochi", q, k, 0.08);
}

static void test_cogvideox(void **state)
{
    (void)state;
    const double q[] = {.676, .633, .692, .502, .709}, k[] = {.435, .335, .479, .025, .523};
    check_against_paper("cogvideox-2b", q, k, 0.1);
}

typedef struct masses {
    double sink, near; /* of the softmax, mean over heads and queries */
} masses;

static masses language_masses(const char *name)
{
    wl_workload workload;
    sparge_error error;
    const wl_request request = {.name = name, .seqlen = 4096, .dtype = -1, .causal = -1, .seed = 1};
    if (wl_resolve(&request, &workload, &error) != SPARGE_OK)
        fail_msg("%s", error.text);
    const sparge_problem *p = &workload.problem;
    sparge_tensor q = generated_make(&workload.generator, SPARGE_ROLE_Q, SPARGE_F32, 1, p->seqlen_q, p->head_dim, 0);
    sparge_tensor k = generated_make(&workload.generator, SPARGE_ROLE_K, SPARGE_F32, 1, p->seqlen_k, p->head_dim, 0);
    masses mean = {0, 0};
    double rows = 0;
    for (int64_t h = 0; h < p->heads_q; h++)
        for (int64_t i = 2048; i < 4096; i += 331) {
            const float *query = generated_row(&q, 0, h, i);
            double sum = 0, sink = 0, near = 0;
            for (int64_t j = 0; j < sparge_problem_visible_end(p, i); j++) {
                const float *key = generated_row(&k, 0, h / (p->heads_q / p->heads_kv), j);
                double score = 0;
                for (int c = 0; c < p->head_dim; c++)
                    score += (double)query[c] * (double)key[c];
                double weight = exp(score * (double)sparge_problem_scale(p));
                sum += weight;
                sink += j < workload.generator.sink_tokens ? weight : 0;
                near += j > i - 512 ? weight : 0;
            }
            mean.sink += sink / sum;
            mean.near += near / sum;
            rows++;
        }
    mean.sink /= rows;
    mean.near /= rows;
    print_message("%s: sink %.3f near %.3f\n", name, mean.sink, mean.near);
    generated_free(&q);
    generated_free(&k);
    wl_release(&workload);
    return mean;
}

static void test_language(void **state)
{
    (void)state;
    static const char *const names[] = {"llama3.1-8b", "qwen2.5-7b"};
    for (int i = 0; i < 2; i++) {
        masses mean = language_masses(names[i]);
        assert_true(mean.sink > 0.15 && mean.sink < 0.6); /* 4 of 4096 keys */
        assert_true(mean.near > 0.3 && mean.near < 0.8);  /* 512 of them: an eighth to a quarter */
        assert_true(mean.sink + mean.near > 0.7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mochi),
        cmocka_unit_test(test_cogvideox),
        cmocka_unit_test(test_language),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
