/* sparge_generate on CUDA: the bits of the CPU, because both compute with the functions of generate/model.h. */
#include "cuda/generate/generate.h"

sparge_status cuda_generate(sparge_context *context, const sparge_generator *generator, sparge_tensor_role role,
                            const sparge_tensor *tensor)
{
    if (generator->kind == SPARGE_GENERATE_STRUCTURED && role != SPARGE_ROLE_V)
        return cuda_generate_structured(context, generator, role, tensor);
    return cuda_generate_independent(context, generator, role, tensor);
}
