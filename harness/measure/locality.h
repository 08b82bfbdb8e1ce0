/* What a token order does to one point: how alike the tokens of a block are, how sparse the attention became for it, and
 * at which error (paper, Tables 4 and 9). */
#ifndef HARNESS_LOCALITY_H
#define HARNESS_LOCALITY_H

#include "measure/inputs.h"
#include "plan/points.h"

typedef struct sb_locality {
    double sim_q, sim_k;             /* mean cosine, as the official code computes it; NAN if the method does not */
    double sim_q_paper, sim_k_paper; /* as the paper defines it (cossim.h), K centred */
    double sparsity;
    double rel_l1;            /* against exact attention on the sampled rows */
    int64_t error_rows;       /* query rows compared, of each head */
    int32_t block_q, block_k; /* of the blocks above */
} sb_locality;

/* Runs the point once on its inputs. error_rows: as at sb_reference_create. UNSUPPORTED, with the reason,
 * where the method or the backend cannot do the problem. */
sparge_status sb_locality_measure(sparge_context *context, const sb_point *point, const sb_inputs *inputs,
                                  int64_t error_rows, sb_locality *locality, sparge_error *error);

#endif
