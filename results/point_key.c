/* The key of a point: SHA-256 of a canonical text of its fields, the same on every machine (docs/schema.md). The settings
 * are left out: they follow from the method and its parameters. */
#include "internal.h"

#include "sha256.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* One line a field: name, length of the value in bytes, value. The length keeps values with newlines apart. */
static void add_text(sb_sha256 *hash, const char *name, const char *value)
{
    char head[64];
    size_t length = strlen(value);
    int size = snprintf(head, sizeof head, "%s %zu ", name, length);
    sb_sha256_update(hash, head, (size_t)size);
    sb_sha256_update(hash, value, length);
    sb_sha256_update(hash, "\n", 1);
}

static void add_integer(sb_sha256 *hash, const char *name, int64_t value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%" PRId64, value);
    add_text(hash, name, digits);
}

static void add_unsigned(sb_sha256 *hash, const char *name, uint64_t value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    add_text(hash, name, digits);
}

/* The bits, since decimal text depends on the locale. */
static void add_real(sb_sha256 *hash, const char *name, double value)
{
    uint64_t bits;
    char digits[32];
    memcpy(&bits, &value, sizeof bits);
    snprintf(digits, sizeof digits, "%016" PRIx64, bits);
    add_text(hash, name, digits);
}

rs_status rs_point_check(const rs_point *point, const char *path, rs_error *error)
{
    const struct {
        const char *name, *value;
    } texts[] = {
        {"workload", point->workload}, {"workload_hash", point->workload_hash},
        {"order", point->order},       {"grid", point->grid},
        {"method", point->method},     {"parameters", point->parameters},
        {"settings", point->settings}, {"backend", point->backend},
        {"device", point->device},     {"dtype", point->dtype},
        {"causal", point->causal},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].value == NULL)
            return rs_fail(error, RS_ERROR_ARGUMENT, path, "point: %s is missing", texts[i].name);
    }
    if (!isfinite(point->scale))
        return rs_fail(error, RS_ERROR_ARGUMENT, path, "point: scale is %g, must be a finite number", point->scale);
    return RS_OK;
}

rs_status rs_point_key(const rs_point *point, char key[65], rs_error *error)
{
    rs_status status = rs_point_check(point, "point key", error);
    if (status != RS_OK)
        return status;
    sb_sha256 hash;
    sb_sha256_begin(&hash);
    add_text(&hash, "sparge-bench point", "1");
    add_text(&hash, "workload", point->workload);
    add_text(&hash, "workload_hash", point->workload_hash);
    add_text(&hash, "token_order", point->order);
    add_text(&hash, "grid", point->grid);
    add_integer(&hash, "text_tokens", point->text_tokens);
    add_unsigned(&hash, "seed", point->seed);
    add_text(&hash, "method", point->method);
    add_text(&hash, "parameters", point->parameters);
    add_text(&hash, "backend", point->backend);
    add_text(&hash, "device", point->device);
    add_integer(&hash, "batch", point->batch);
    add_integer(&hash, "heads_q", point->heads_q);
    add_integer(&hash, "heads_kv", point->heads_kv);
    add_integer(&hash, "seqlen_q", point->seqlen_q);
    add_integer(&hash, "seqlen_k", point->seqlen_k);
    add_integer(&hash, "head_dim", point->head_dim);
    add_text(&hash, "dtype", point->dtype);
    add_text(&hash, "causal", point->causal);
    add_real(&hash, "scale", point->scale);
    add_integer(&hash, "threads", point->threads);
    sb_sha256_end(&hash, key);
    return rs_succeed(error);
}
