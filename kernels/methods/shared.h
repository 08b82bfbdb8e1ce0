/* What several methods share (internal): descriptors of common parameters and the code that reads them. */
#ifndef SPARGE_METHODS_SHARED_H
#define SPARGE_METHODS_SHARED_H

#include "methods/params.h"

#include <math.h>

/* Initialisers of one sparge_param_desc each; the names and meanings must not differ between methods. */
#define PARAM_EXP                                                                                                      \
    {                                                                                                                  \
        .name = "exp", .unit = "", .type = SPARGE_PARAM_CHOICE, .choices = "exact|accurate|fast", .default_value = "", \
        .meaning =                                                                                                     \
            "exponential of the softmax: to f32's accuracy; with an error that is small beside the rounding of "       \
            "P; with one like it; unset: exact for 16-bit, accurate for INT8 and FP8"                                  \
    }
#define PARAM_ATTEND                                                                                                   \
    {                                                                                                                  \
        .name = "attend", .unit = "", .type = SPARGE_PARAM_CHOICE, .choices = "f16|int8-f16|int8-fp8",                 \
        .default_value = "f16",                                                                                        \
        .meaning = "arithmetic of QK and PV: the input's 16-bit type, INT8 and 16-bit, INT8 and FP8"                   \
    }
#define PARAM_SMOOTH_K                                                                                                 \
    {                                                                                                                  \
        .name = "smooth_k", .unit = "", .type = SPARGE_PARAM_CHOICE, .choices = "off|on", .default_value = "on",       \
        .meaning = "subtract K's token mean before pooling and INT8 (SageAttention); no effect on plain f16"           \
    }
#define PARAM_SCALES                                                                                                   \
    {                                                                                                                  \
        .name = "scales", .unit = "", .type = SPARGE_PARAM_CHOICE, .choices = "block|warp|thread",                     \
        .default_value = "",                                                                                           \
        .meaning = "granularity of the INT8 scales of Q and K: per BQ and BK tokens, per warp, per thread "            \
                   "(SageAttention2); unset: thread, block with compat=upstream; no effect on plain f16"               \
    }
#define PARAM_BLOCK_Q                                                                                                  \
    {                                                                                                                  \
        .name = "block_q", .unit = "tokens", .type = SPARGE_PARAM_CHOICE, .choices = "64|128", .default_value = "128", \
        .meaning = "BQ, query rows of a block"                                                                         \
    }
#define PARAM_BLOCK_K                                                                                                  \
    {                                                                                                                  \
        .name = "block_k", .unit = "tokens", .type = SPARGE_PARAM_CHOICE, .choices = "64|128", .default_value = "64",  \
        .meaning = "BK, keys of a block"                                                                               \
    }
#define PARAM_LAMBDA                                                                                                   \
    {                                                                                                                  \
        .name = "lambda", .unit = "nats", .type = SPARGE_PARAM_REAL, .min = -INFINITY, .max = 0,                       \
        .default_value = "-inf", .per_head = 1,                                                                        \
        .meaning = "skip P V of a tile if no row of the vote comes within -lambda of its running maximum (paper 3.4; " \
                   "-inf: off; the official pvthreshd p is -p ln 2)"                                                   \
    }
#define PARAM_PV_UNIT                                                                                                  \
    {                                                                                                                  \
        .name = "pv_unit", .unit = "rows", .type = SPARGE_PARAM_CHOICE, .choices = "16|32|64|128",                     \
        .default_value = "", .meaning = "query rows of one skip vote, at most BQ; unset: 64, BQ with compat=upstream"  \
    }
#define PARAM_COMPAT                                                                                                   \
    {                                                                                                                  \
        .name = "compat", .unit = "", .type = SPARGE_PARAM_CHOICE, .choices = "fixed|upstream",                        \
        .default_value = "fixed",                                                                                      \
        .meaning = "upstream: the official code's 16-bit rounding points and quirks, to check against its recordings"  \
    }
#define PARAM_FILE                                                                                                     \
    {                                                                                                                  \
        .name = SPARGE_PARAMS_FILE, .unit = "", .type = SPARGE_PARAM_PATH, .default_value = "",                        \
        .meaning = "JSON file of per-head values (docs/methods/params.md)"                                             \
    }

/* Reads those of the parameters above that the method has (PARAM_FILE excepted: it acts when it is set) into *recipe.
 * Block sizes of methods without block_q, block_k are 128 x 64. */
sparge_status method_resolve_shared(const sparge_params *params, const sparge_problem *problem, sparge_recipe *recipe,
                                    sparge_error *error);

/* UNSUPPORTED unless causal, with Lq = Lk: what MInference and FlexPrefill are defined for. `why` ends the sentence. */
sparge_status method_need_causal(const sparge_problem *problem, const char *why, sparge_error *error);
sparge_status method_need_equal_lengths(const sparge_problem *problem, const char *why, sparge_error *error);

#endif
