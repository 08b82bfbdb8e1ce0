/* Q, K and V as the kernels can read them: rows of whole, aligned 16-byte chunks. */
#ifndef SPARGE_CUDA_PREPARE_OPERANDS_H
#define SPARGE_CUDA_PREPARE_OPERANDS_H

#include "cuda/cuda.h"

typedef struct cuda_operand_copies {
    void *q, *k, *v; /* dense, channels padded to a multiple of 8 with zeros; NULL: not needed so far */
} cuda_operand_copies;

#ifdef __cplusplus
extern "C" {
#endif

/* Takes the copies that every run of this plan will need: those of a head_dim that is no multiple of 8. */
sparge_status cuda_operands_plan(sparge_plan *plan, cuda_operand_copies *copies);

/* Sets prepared.q, k and v to the run's tensors, or copies them where an address or a stride is not a multiple of 16
 * bytes. The first run that is given such a tensor takes the memory of its copy: the plan cannot know it before. */
sparge_status cuda_operands_run(sparge_plan *plan, cuda_operand_copies *copies, const sparge_io *io);

#ifdef __cplusplus
}
#endif
#endif
