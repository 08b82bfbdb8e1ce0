/* Comparing two sets of rows, point by point: match, test, correct for the number of points, judge. */
#include "compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double interval_level = 0.95;

const char *an_verdict_name(an_verdict verdict)
{
    static const char *const names[] = {"same",   "regressed", "improved",  "inconclusive",
                                        "only-a", "only-b",    "unmeasured"};
    return (size_t)verdict < sizeof names / sizeof *names ? names[verdict] : "?";
}

/* A row with the text that makes it the same point: everything that names what was measured, but not the workload's
 * hash (if that differs, the user must hear it) and not the point key, which holds the hash. */
typedef struct identity {
    char *text;
    const an_row *row;
    size_t index;
    int newest; /* no later row has the same text */
} identity;

static void put_field(FILE *out, const char *text)
{
    fprintf(out, "%zu:%s,", text ? strlen(text) : (size_t)0, text ? text : "");
}

static char *identity_text(const rs_point *p)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    put_field(out, p->workload);
    put_field(out, p->order);
    put_field(out, p->grid);
    put_field(out, p->method);
    put_field(out, p->parameters);
    put_field(out, p->backend);
    put_field(out, p->device);
    put_field(out, p->dtype);
    put_field(out, p->causal);
    fprintf(out, "%lld %llu %lld %lld %lld %lld %lld %lld %a %d", (long long)p->text_tokens,
            (unsigned long long)p->seed, (long long)p->batch, (long long)p->heads_q, (long long)p->heads_kv,
            (long long)p->seqlen_q, (long long)p->seqlen_k, (long long)p->head_dim, p->scale, p->threads);
    const int bad = ferror(out);
    if (fclose(out) != 0 || bad) {
        free(text);
        return NULL;
    }
    return text;
}

static int compare_identities(const void *a, const void *b)
{
    const identity *x = a, *y = b;
    const int order = strcmp(x->text, y->text);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

static void release_identities(identity *list, size_t count)
{
    for (size_t i = 0; list && i < count; i++)
        free(list[i].text);
    free(list);
}

/* The rows sorted by what they measure. NULL if out of memory. */
static identity *identities(const an_rows *rows)
{
    identity *list = calloc(rows->count + 1, sizeof *list);
    for (size_t i = 0; list && i < rows->count; i++) {
        list[i] = (identity){identity_text(&rows->row[i].row.point), &rows->row[i], i, 1};
        if (!list[i].text) {
            release_identities(list, i);
            return NULL;
        }
    }
    if (!list)
        return NULL;
    qsort(list, rows->count, sizeof *list, compare_identities);
    for (size_t i = 0; i + 1 < rows->count; i++)
        list[i].newest = strcmp(list[i].text, list[i + 1].text) != 0;
    return list;
}

static an_comparison comparison_of(const an_row *a, const an_row *b, an_verdict verdict)
{
    return (an_comparison){
        .a = a, .b = b, .ratio = {NAN, NAN, NAN, NAN}, .p = NAN, .p_adjusted = NAN, .verdict = verdict};
}

/* One side has no times to compare: says which and why. */
static int refuse_unmeasured(an_comparison *c)
{
    const an_row *const sides[] = {c->a, c->b};
    for (size_t i = 0; i < 2; i++) {
        const char side = i == 0 ? 'A' : 'B';
        const rs_row *row = &sides[i]->row;
        if (row->outcome != RS_DONE)
            snprintf(c->reason, sizeof c->reason, "%s in %c%s%s", rs_outcome_name(row->outcome), side,
                     row->reason && *row->reason ? ": " : "", row->reason ? row->reason : "");
        else if (sides[i]->total_count == 0)
            snprintf(c->reason, sizeof c->reason, "no samples in %c", side);
        else
            continue;
        c->verdict = AN_UNMEASURED;
        return 1;
    }
    const char *hash_a = c->a->row.point.workload_hash, *hash_b = c->b->row.point.workload_hash;
    if (strcmp(hash_a ? hash_a : "", hash_b ? hash_b : "") != 0) {
        snprintf(c->reason, sizeof c->reason, "the inputs differ: workload hash %.12s in A, %.12s in B",
                 hash_a ? hash_a : "(none)", hash_b ? hash_b : "(none)");
        c->verdict = AN_UNMEASURED;
        return 1;
    }
    return 0;
}

static double *sorted_samples(const an_row *row)
{
    double *copy = malloc(row->total_count * sizeof *copy);
    if (copy) {
        memcpy(copy, row->total_ns, row->total_count * sizeof *copy);
        an_sort(copy, row->total_count);
    }
    return copy;
}

static int measure(an_comparison *c, unsigned long seed)
{
    const size_t n = c->a->total_count, m = c->b->total_count;
    double *a = sorted_samples(c->a), *b = sorted_samples(c->b);
    if (a && b) {
        c->p = an_mann_whitney_sorted(a, n, b, m);
        c->ratio = an_median_ratio_sorted(a, n, b, m, interval_level, seed);
    }
    const int status = a && b ? 0 : -1;
    free(a);
    free(b);
    return status;
}

static void judge(an_comparison *c, const an_compare_options *options)
{
    const double slower = 1 + options->threshold, faster = 1 - options->threshold;
    const size_t n = c->a->total_count, m = c->b->total_count;
    const double smallest_p = an_mann_whitney_smallest(n, m);
    c->verdict = AN_INCONCLUSIVE;
    if (smallest_p > options->q || isnan(c->ratio.coverage))
        snprintf(c->reason, sizeof c->reason, "too few samples: the smallest possible p is %.2g with %zu and %zu",
                 smallest_p, n, m);
    else if (c->ratio.low >= faster && c->ratio.high <= slower)
        c->verdict = AN_SAME;
    else if (c->ratio.low <= slower && c->ratio.high >= faster)
        snprintf(c->reason, sizeof c->reason, "interval straddles the threshold");
    else if (c->p_adjusted > options->q)
        snprintf(c->reason, sizeof c->reason, "not significant after correction for the number of points");
    else
        c->verdict = c->ratio.low > slower ? AN_REGRESSED : AN_IMPROVED;
}

/* Adds a comparison for every newest row of A, and for those of B without a partner; marks the partners taken. */
static int match(const an_rows *a, const an_rows *b, an_comparisons *out)
{
    identity *in_a = identities(a), *in_b = identities(b);
    /* Where a point of A stands in `partner`, so that the result keeps A's order. */
    const identity **partner = calloc(a->count + 1, sizeof(identity *));
    char *unmatched = calloc(b->count + 1, 1), *newest = calloc(a->count + 1, 1);
    int status = -1;
    if (in_a && in_b && partner && unmatched && newest) {
        for (size_t j = 0; j < b->count; j++)
            unmatched[in_b[j].index] = (char)in_b[j].newest;
        for (size_t i = 0, j = 0; i < a->count; i++) {
            if (!in_a[i].newest)
                continue;
            newest[in_a[i].index] = 1;
            while (j < b->count && (strcmp(in_b[j].text, in_a[i].text) < 0 ||
                                    (!in_b[j].newest && strcmp(in_b[j].text, in_a[i].text) == 0)))
                j++;
            if (j < b->count && strcmp(in_b[j].text, in_a[i].text) == 0) {
                partner[in_a[i].index] = &in_b[j];
                unmatched[in_b[j].index] = 0;
            }
        }
        for (size_t i = 0; i < a->count; i++)
            if (newest[i])
                out->item[out->count++] = comparison_of(&a->row[i], partner[i] ? partner[i]->row : NULL,
                                                        partner[i] ? AN_INCONCLUSIVE : AN_ONLY_A);
        for (size_t j = 0; j < b->count; j++)
            if (unmatched[j])
                out->item[out->count++] = comparison_of(NULL, &b->row[j], AN_ONLY_B);
        status = 0;
    }
    release_identities(in_a, a->count);
    release_identities(in_b, b->count);
    free(partner);
    free(unmatched);
    free(newest);
    return status;
}

/* p of every comparison with times, then the correction over all of them. */
static int test_all(an_comparisons *out, const an_compare_options *options)
{
    double *p = malloc((out->count + 1) * sizeof *p);
    int status = p ? 0 : -1;
    for (size_t i = 0; i < out->count && status == 0; i++) {
        an_comparison *c = &out->item[i];
        if (c->a && c->b && !refuse_unmeasured(c))
            status = measure(c, options->seed + i);
        p[i] = c->p;
    }
    if (status == 0)
        status = an_benjamini_hochberg(p, out->count, p);
    for (size_t i = 0; i < out->count && status == 0; i++)
        out->item[i].p_adjusted = p[i];
    free(p);
    return status;
}

int an_compare(const an_rows *a, const an_rows *b, const an_compare_options *options, an_comparisons *out)
{
    *out = (an_comparisons){.item = calloc(a->count + b->count + 1, sizeof *out->item)};
    if (!out->item || match(a, b, out) != 0 || test_all(out, options) != 0) {
        an_comparisons_release(out);
        return -1;
    }
    for (size_t i = 0; i < out->count; i++) {
        an_comparison *c = &out->item[i];
        if (!isnan(c->p))
            judge(c, options);
        out->regressed += c->verdict == AN_REGRESSED;
        out->improved += c->verdict == AN_IMPROVED;
    }
    return 0;
}

void an_comparisons_release(an_comparisons *comparisons)
{
    free(comparisons->item);
    *comparisons = (an_comparisons){0};
}

static void problem_cell(an_table *table, const rs_point *p)
{
    char text[160];
    snprintf(text, sizeof text, "B%lld H%lld/%lld L%lld/%lld D%lld %s %s", (long long)p->batch, (long long)p->heads_q,
             (long long)p->heads_kv, (long long)p->seqlen_q, (long long)p->seqlen_k, (long long)p->head_dim, p->dtype,
             p->causal);
    an_table_text(table, text);
}

an_table *an_comparisons_table(const an_comparisons *comparisons)
{
    static const char *const texts[] = {"workload", "order", "problem", "method"};
    static const char *const numbers[] = {"a_ms", "b_ms", "ratio", "ratio_low", "ratio_high", "p", "p_adjusted"};
    an_table *table = an_table_create();
    if (!table)
        return NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        an_table_column(table, texts[i], AN_TEXT);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        an_table_column(table, numbers[i], AN_NUMBER);
    an_table_column(table, "verdict", AN_TEXT);
    an_table_column(table, "reason", AN_TEXT);
    for (size_t i = 0; i < comparisons->count; i++) {
        const an_comparison *c = &comparisons->item[i];
        const an_row *row = c->a ? c->a : c->b;
        an_table_text(table, row->row.point.workload);
        an_table_text(table, row->row.point.order);
        problem_cell(table, &row->row.point);
        an_table_text(table, row->label);
        an_table_short(table, c->a ? c->a->total_ms.value : NAN);
        an_table_short(table, c->b ? c->b->total_ms.value : NAN);
        an_table_number(table, c->ratio.value, "%.4f");
        an_table_number(table, c->ratio.low, "%.4f");
        an_table_number(table, c->ratio.high, "%.4f");
        an_table_number(table, c->p, "%.2g");
        an_table_number(table, c->p_adjusted, "%.2g");
        an_table_text(table, an_verdict_name(c->verdict));
        an_table_text(table, c->reason);
    }
    return table;
}
