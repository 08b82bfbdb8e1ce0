/* Methods: one attention under test with its parameters.
 *
 * The method table is the single source for parsing, help, `list`, database rows and docs. A method is found by name;
 * its parameters are set by text and checked against their descriptors. */
#ifndef SPARGE_METHOD_H
#define SPARGE_METHOD_H

#include "sparge/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sparge_param_type {
    SPARGE_PARAM_REAL = 0,
    SPARGE_PARAM_INTEGER,
    SPARGE_PARAM_CHOICE, /* one of `choices` */
    SPARGE_PARAM_PATH    /* a file name */
} sparge_param_type;

typedef struct sparge_param_desc {
    const char *name;
    const char *unit; /* "tokens", "blocks", "nats", "fraction", ... or "" */
    sparge_param_type type;
    double min, max;           /* inclusive, for REAL and INTEGER; infinities allowed */
    const char *choices;       /* "a|b|c" for CHOICE, else NULL */
    const char *default_value; /* text; "" = unset, the meaning says what then happens */
    int per_head;              /* may take one value per query head (sparge_params_set_heads, params files) */
    const char *meaning;       /* one sentence with its source */
    const char *replaced_by;   /* while that parameter is given, this one is unset unless given too; or NULL */
} sparge_param_desc;

typedef struct sparge_method sparge_method; /* opaque; static storage */

size_t sparge_method_count(void);
const sparge_method *sparge_method_at(size_t index);       /* NULL past the end; the order is that of the docs */
const sparge_method *sparge_method_find(const char *name); /* NULL if there is none */

const char *sparge_method_name(const sparge_method *method);
const char *sparge_method_summary(const sparge_method *method);
const char *sparge_method_stands_for(const sparge_method *method); /* published work it represents */
size_t sparge_method_param_count(const sparge_method *method);
const sparge_param_desc *sparge_method_param_at(const sparge_method *method, size_t index);
const sparge_param_desc *sparge_method_param_find(const sparge_method *method, const char *name);

/* A set of parameter values of one method. All start at their defaults. */
typedef struct sparge_params sparge_params;

sparge_status sparge_params_create(const sparge_method *method, sparge_params **params);
sparge_status sparge_params_clone(const sparge_params *params, sparge_params **copy);
void sparge_params_destroy(sparge_params *params); /* NULL is fine */

/* Parses and range-checks one value. "" returns the parameter to its default. "params" reads its file at once; if that
 * fails, nothing changes. */
sparge_status sparge_params_set(sparge_params *params, const char *name, const char *value, sparge_error *error);

/* One value per query head, for parameters with per_head. `count` must equal the problem's heads_q at plan time. */
sparge_status sparge_params_set_heads(sparge_params *params, const char *name, const double *values, size_t count,
                                      sparge_error *error);

/* The value's canonical text ("0.9", "int8-fp8", "" if unset, "per-head:<16 hex digits of a hash>"). NULL for a name
 * the method does not have. Valid until the next set on the same parameter. */
const char *sparge_params_get(const sparge_params *params, const char *name);
const sparge_method *sparge_params_method(const sparge_params *params);

/* Can this method, with these parameters, do this problem at all (on any backend)? UNSUPPORTED carries the reason;
 * INVALID_ARGUMENT a contradiction between parameters (tau and topk both given, ...). */
sparge_status sparge_params_check(const sparge_params *params, const sparge_problem *problem, sparge_error *error);

#ifdef __cplusplus
}
#endif
#endif
