/* Parsing of SPARGE_FAKE. */
#include "fake.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static sparge_status malformed(sparge_error *error, const char *item, const char *what)
{
    return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "SPARGE_FAKE: %s: %s", item, what);
}

static int parse_real(const char *text, double min, double max, double *value)
{
    char *end;
    errno = 0;
    *value = strtod(text, &end);
    return end != text && !*end && !errno && *value >= min && *value <= max;
}

static int parse_integer(const char *text, int64_t min, int64_t *value)
{
    char *end;
    errno = 0;
    long long parsed = strtoll(text, &end, 10);
    *value = parsed;
    return end != text && !*end && !errno && parsed >= min;
}

static sparge_status add_rule(fake_scenario *scenario, fake_rule_kind kind, const char *method, size_t length,
                              double factor, const char *item, sparge_error *error)
{
    if (scenario->rules == FAKE_MAX_RULES)
        return malformed(error, item, "more than 16 slow, fail and poison rules");
    if (length == 0 || length >= FAKE_METHOD_NAME)
        return malformed(error, item, "needs a method's name of at most 63 characters");
    fake_rule *rule = &scenario->rule[scenario->rules++];
    rule->kind = kind;
    rule->factor = factor;
    memcpy(rule->method, method, length);
    rule->method[length] = 0;
    return SPARGE_OK;
}

/* One NAME=VALUE; `value` points behind the '='. */
static sparge_status parse_item(fake_scenario *scenario, const char *item, const char *name, const char *value,
                                sparge_error *error)
{
    int64_t integer;
    double real;
    if (strcmp(name, "seed") == 0) {
        if (!parse_integer(value, 0, &integer))
            return malformed(error, item, "must be an integer >= 0");
        scenario->seed = (uint64_t)integer;
    } else if (strcmp(name, "noise") == 0) {
        if (!parse_real(value, 0, 0.2, &scenario->noise))
            return malformed(error, item, "must be in 0..0.2");
    } else if (strcmp(name, "drift") == 0) {
        if (!parse_real(value, -0.001, 1, &scenario->drift))
            return malformed(error, item, "must be in -0.001..1");
    } else if (strcmp(name, "spike") == 0) {
        if (!parse_real(value, 0, 1, &scenario->spike))
            return malformed(error, item, "must be in 0..1");
    } else if (strcmp(name, "lost") == 0) {
        if (!parse_integer(value, 0, &scenario->lost))
            return malformed(error, item, "must be an integer >= 0");
    } else if (strcmp(name, "zero") == 0) {
        if (!parse_integer(value, 0, &scenario->zero))
            return malformed(error, item, "must be an integer >= 0");
    } else if (strcmp(name, "memory") == 0) {
        if (!parse_integer(value, 1, &scenario->memory_bytes))
            return malformed(error, item, "must be a number of bytes >= 1");
    } else if (strcmp(name, "devices") == 0) {
        if (!parse_integer(value, 1, &scenario->devices) || scenario->devices > FAKE_MAX_DEVICES)
            return malformed(error, item, "must be an integer in 1..64");
    } else if (strcmp(name, "telemetry") == 0 || strcmp(name, "capped") == 0 || strcmp(name, "shared") == 0) {
        int64_t *flag = *name == 't' ? &scenario->telemetry : *name == 'c' ? &scenario->capped : &scenario->shared;
        if (!parse_integer(value, 0, flag) || *flag > 1)
            return malformed(error, item, "must be 0 or 1");
    } else if (strcmp(name, "sleep_ms") == 0) {
        if (!parse_real(value, 0, 60000, &scenario->sleep_ms))
            return malformed(error, item, "must be in 0..60000");
    } else if (strcmp(name, "fail") == 0) {
        return add_rule(scenario, FAKE_FAIL, value, strlen(value), 0, item, error);
    } else if (strcmp(name, "poison") == 0) {
        return add_rule(scenario, FAKE_POISON, value, strlen(value), 0, item, error);
    } else if (strcmp(name, "slow") == 0 || strcmp(name, "step") == 0) {
        const char *colon = strchr(value, ':');
        if (!colon || !parse_real(colon + 1, 0.001, 1000, &real))
            return malformed(error, item, "must end in :FACTOR with a factor in 0.001..1000");
        if (strcmp(name, "slow") == 0)
            return add_rule(scenario, FAKE_SLOW, value, (size_t)(colon - value), real, item, error);
        char *end;
        scenario->step_launch = strtoll(value, &end, 10);
        scenario->step_factor = real;
        if (end != colon || end == value || scenario->step_launch < 0)
            return malformed(error, item, "must begin with a launch number >= 0");
    } else {
        return malformed(error, item, "unknown name; see kernels/fake/fake.h");
    }
    return SPARGE_OK;
}

sparge_status fake_scenario_parse(const char *text, fake_scenario *scenario, sparge_error *error)
{
    *scenario = (fake_scenario){.seed = 1, .step_launch = -1, .step_factor = 1, .devices = 1, .telemetry = 1};
    while (text && *text) {
        size_t length = strcspn(text, ",");
        char item[160], name[160];
        if (length >= sizeof item)
            return malformed(error, "item", "longer than 159 characters");
        memcpy(item, text, length);
        item[length] = 0;
        memcpy(name, item, length + 1);
        char *equals = strchr(name, '=');
        if (!equals)
            return malformed(error, item, "must be NAME=VALUE");
        *equals = 0;
        sparge_status status = parse_item(scenario, item, name, item + (equals - name) + 1, error);
        if (status != SPARGE_OK)
            return status;
        text += length;
        text += *text == ',';
    }
    return SPARGE_OK;
}
