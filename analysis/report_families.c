/* Families: which rows may share a figure, and what to call them. */
#include "report_internal.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int report_is_measured(const an_row *row)
{
    return row->row.outcome == RS_DONE && row->total_count > 0;
}

static const char *known(const char *text)
{
    return text ? text : "";
}

/* Whether rows that a reader would take for the same inputs are not: two captured files of one name, or one that was
 * captured again. */
static int is_ambiguous(const report *r, const rs_point *p)
{
    for (size_t i = 0; i < r->rows.count; i++) {
        const rs_point *other = &r->rows.row[i].row.point;
        if (p->seqlen_k == other->seqlen_k && p->seqlen_q == other->seqlen_q && p->seed == other->seed &&
            p->heads_q == other->heads_q && p->heads_kv == other->heads_kv && p->batch == other->batch &&
            p->head_dim == other->head_dim && strcmp(known(p->workload_hash), known(other->workload_hash)) != 0 &&
            strcmp(known(p->workload), known(other->workload)) == 0 &&
            strcmp(known(p->dtype), known(other->dtype)) == 0)
            return 1;
    }
    return 0;
}

static void describe(report *r, const rs_point *p, const char *field[FAMILY_FIELDS])
{
    const double usual_scale = 1 / sqrt((double)p->head_dim);
    field[FAMILY_WORKLOAD] = known(p->workload);
    field[FAMILY_ORDER] = known(p->order);
    field[FAMILY_BATCH] = report_text(r, "batch %lld", (long long)p->batch);
    field[FAMILY_HEADS] = p->heads_q == p->heads_kv
                              ? report_text(r, "%lld heads", (long long)p->heads_q)
                              : report_text(r, "%lld/%lld heads", (long long)p->heads_q, (long long)p->heads_kv);
    field[FAMILY_HEAD_DIM] = report_text(r, "D %lld", (long long)p->head_dim);
    field[FAMILY_DTYPE] = known(p->dtype);
    field[FAMILY_CAUSAL] =
        strcmp(known(p->causal), "none") == 0 ? "not causal" : report_text(r, "causal %s", known(p->causal));
    field[FAMILY_QUERIES] = p->seqlen_q == p->seqlen_k ? "" : report_text(r, "%lld queries", (long long)p->seqlen_q);
    field[FAMILY_SCALE] =
        p->scale > 0 && fabs(p->scale / usual_scale - 1) > 1e-5 ? report_text(r, "scale %g", p->scale) : "";
    field[FAMILY_INPUT] = is_ambiguous(r, p) ? report_text(r, "input %.8s", known(p->workload_hash)) : "";
    field[FAMILY_SEED] = report_text(r, "seed %llu", (unsigned long long)p->seed);
    field[FAMILY_BACKEND] = known(p->backend);
    field[FAMILY_DEVICE] = known(p->device);
    field[FAMILY_THREADS] = p->threads > 0 ? report_text(r, "%d threads", p->threads) : "";
}

static report_family *family_of(report *r, const char *const field[FAMILY_FIELDS])
{
    for (size_t i = 0; i < r->families; i++) {
        size_t equal = 0;
        while (equal < FAMILY_FIELDS && strcmp(r->family[i].field[equal], field[equal]) == 0)
            equal++;
        if (equal == FAMILY_FIELDS)
            return &r->family[i];
    }
    return NULL;
}

/* Does another family differ from this one in that field? */
static int distinguishes(const report *r, const report_family *family, family_field field)
{
    for (size_t i = 0; i < r->families; i++)
        if (strcmp(r->family[i].field[field], family->field[field]) != 0)
            return 1;
    return 0;
}

static const char *joined(report *r, const char *text, const char *separator, const char *more)
{
    if (!*more)
        return text;
    return report_text(r, "%s%s%s", text, *text ? separator : "", more);
}

const char *report_workload_name(report *r, const char *name)
{
    static const char ending[] = ".safetensors";
    const size_t length = strlen(name), cut = sizeof ending - 1;
    if (length <= cut || strcmp(name + length - cut, ending) != 0)
        return name;
    const char *text = report_text(r, "%.*s", (int)(length - cut), name);
    for (size_t i = 0; i < r->families; i++)
        if (strcmp(r->family[i].field[FAMILY_WORKLOAD], text) == 0)
            return name;
    return text;
}

/* The problem in words: always what a reader must know, the rest where families differ in it. */
static const char *title_of(report *r, const report_family *family)
{
    const char *title = report_workload_name(r, family->field[FAMILY_WORKLOAD]);
    const int row_order = strcmp(family->field[FAMILY_ORDER], "row") == 0;
    const int one_batch = strcmp(family->field[FAMILY_BATCH], "batch 1") == 0;
    for (family_field f = FAMILY_ORDER; f < FAMILY_FIELDS; f++) {
        const int usual = (f == FAMILY_ORDER && row_order) || (f == FAMILY_BATCH && one_batch) || f >= FAMILY_SEED;
        if (usual && !distinguishes(r, family, f))
            continue;
        const char *text = family->field[f];
        title = joined(r, title, ", ", f == FAMILY_ORDER && *text ? report_text(r, "%s order", text) : text);
    }
    return title;
}

const char *report_file_part(report *r, const char *text)
{
    enum { PART_MAX = 40 };
    char part[PART_MAX + 1];
    size_t length = 0;
    for (; *text && length < PART_MAX; text++) {
        const unsigned char c = (unsigned char)*text;
        const int plain = c < 0x80 && (isalnum(c) || (c == '.' && length > 0) || c == '_');
        if (plain)
            part[length++] = (char)tolower(c);
        else if (length > 0 && part[length - 1] != '-')
            part[length++] = '-';
    }
    while (length > 0 && part[length - 1] == '-')
        length--;
    part[length] = '\0';
    return report_text(r, "%s", length ? part : "x");
}

static int slug_taken(const report *r, size_t before, const char *slug)
{
    for (size_t i = 0; i < before; i++)
        if (strcmp(r->family[i].slug, slug) == 0)
            return 1;
    return 0;
}

/* The workload, then every field in which families of that workload differ. */
static void name_families(report *r)
{
    for (size_t i = 0; i < r->families; i++) {
        report_family *family = &r->family[i];
        family->title = title_of(r, family);
        family->slug = "";
        const char *slug = report_file_part(r, report_workload_name(r, family->field[FAMILY_WORKLOAD]));
        for (family_field f = FAMILY_ORDER; f < FAMILY_FIELDS; f++) {
            int differs = 0;
            for (size_t j = 0; j < r->families; j++)
                differs |= strcmp(r->family[j].field[FAMILY_WORKLOAD], family->field[FAMILY_WORKLOAD]) == 0 &&
                           strcmp(r->family[j].field[f], family->field[f]) != 0;
            if (differs && *family->field[f])
                slug = joined(r, slug, "-", report_file_part(r, family->field[f]));
        }
        family->slug = slug;
        for (size_t n = 2; slug_taken(r, i, family->slug) && r->status == AN_REPORT_OK; n++)
            family->slug = report_text(r, "%s-%zu", slug, n);
    }
}

an_report_status report_make_families(report *r)
{
    r->family = calloc(r->rows.count + 1, sizeof *r->family);
    if (!r->family)
        return report_no_memory(r);
    for (size_t i = 0; i < r->rows.count && r->status == AN_REPORT_OK; i++) {
        const char *field[FAMILY_FIELDS];
        describe(r, &r->rows.row[i].row.point, field);
        report_family *family = family_of(r, field);
        if (!family) {
            family = &r->family[r->families++];
            memcpy(family->field, field, sizeof field);
            family->row = calloc(r->rows.count, sizeof(an_row *));
            if (!family->row)
                return report_no_memory(r);
        }
        family->row[family->rows++] = &r->rows.row[i];
    }
    name_families(r);
    return r->status;
}
