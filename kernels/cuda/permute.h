/* Copies of tensors with their tokens in another order (internal to kernels/cuda). */
#ifndef SPARGE_CUDA_PERMUTE_H
#define SPARGE_CUDA_PERMUTE_H

#include "cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* to[.., i, :] = from[.., source[i], :]; `source` is host memory. Waits for the copy. */
sparge_status cuda_permute(sparge_context *context, const sparge_tensor *from, const sparge_tensor *to,
                           const int64_t *source);

/* Whether this build has code for the current device: what asking for a kernel's attributes says. `arch`: which code it
 * is that runs, 86 for sm_86: that of a device of another architecture where there is none of its own. */
cudaError_t cuda_permute_probe(int *arch);

#ifdef __cplusplus
}
#endif
#endif
