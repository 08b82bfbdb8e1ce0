/* The two kinds of generators on CUDA (internal). Both wait for their kernels: generating is not part of any timing. */
#ifndef SPARGE_CUDA_GENERATE_H
#define SPARGE_CUDA_GENERATE_H

#include "cuda/cuda.h"
#include "generate/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every number from its own random word. */
sparge_status cuda_generate_independent(sparge_context *context, const sparge_generator *generator,
                                        sparge_tensor_role role, const sparge_tensor *tensor);

/* Q and K of the structured model. */
sparge_status cuda_generate_structured(sparge_context *context, const sparge_generator *generator,
                                       sparge_tensor_role role, const sparge_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
