/* Tensors made through the public interface on the CPU. */
#ifndef TESTS_WORKLOADS_GENERATED_H
#define TESTS_WORKLOADS_GENERATED_H

#include "sparge/sparge.h"

/* A dense tensor of the generator's heads for `role`; data is malloc'ed. threads: of the context, 0 = all. */
sparge_tensor generated_make(const sparge_generator *generator, sparge_tensor_role role, sparge_dtype dtype,
                             int64_t batch, int64_t tokens, int64_t channels, int threads);
void generated_free(sparge_tensor *tensor);

/* Row `token` of an F32 tensor. */
const float *generated_row(const sparge_tensor *tensor, int64_t batch, int64_t head, int64_t token);

size_t generated_bytes(const sparge_tensor *tensor);

#endif
