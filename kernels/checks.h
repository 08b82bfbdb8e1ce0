/* Argument checks shared by context.c and plan.c (internal). Each returns SPARGE_OK or INVALID_ARGUMENT with a line that
 * names the argument; sparge_check_permute, which notes the tokens it has seen, also OUT_OF_MEMORY. */
#ifndef SPARGE_CHECKS_H
#define SPARGE_CHECKS_H

#include "sparge/sparge.h"

/* q, k, v against the problem: data, dtype, shape, strides. */
sparge_status sparge_check_qkv(const sparge_problem *problem, const sparge_tensor *q, const sparge_tensor *k,
                               const sparge_tensor *v, sparge_error *error);
sparge_status sparge_check_tensor(const char *name, const sparge_tensor *tensor, sparge_dtype dtype, int64_t batch,
                                  int64_t heads, int64_t tokens, int64_t channels, sparge_error *error);
sparge_status sparge_check_generate(const sparge_generator *generator, sparge_tensor_role role,
                                    const sparge_tensor *tensor, sparge_error *error);
sparge_status sparge_check_permute(const sparge_tensor *from, const sparge_tensor *to, const int64_t *source,
                                   sparge_error *error);

#endif
