/* The kernels' entries: one .cu file for each arithmetic and head dim, so that they compile side by side. INT8
 * scores are for row blocks of 128 queries, and over lists also of 64, two CTAs on an SM, with FP8 V in a form of its own
 * where blocks are of 128 keys; 16 bits have
 *
 *   D = 128  dense         128 rows, turns of 192 keys
 *            128-row lists 128 rows, turns of 128 keys: a list's last turn lacks less
 *            64-row lists   64 rows, turns of  64 keys, two CTAs on an SM, so that one's softmax runs beside the other's
 *                           products
 *   D = 64   dense         192 rows, turns of 128 keys: the softmax is most of the work, and three groups share it
 *            128-row lists 128 rows, turns of 128 keys
 *            64-row lists   64 rows, turns of 128 keys, two CTAs on an SM */
#ifndef SPARGE_SM90_INSTANCES_CUH
#define SPARGE_SM90_INSTANCES_CUH

#include "../attend.h"

namespace sparge::sm90
{

attend_kernel_entry entry_f16_d64(const attend_kernel_key &key);
attend_kernel_entry entry_f16_d128(const attend_kernel_key &key);
attend_kernel_entry entry_int8_f16_d64(const attend_kernel_key &key);
attend_kernel_entry entry_int8_f16_d128(const attend_kernel_key &key);
attend_kernel_entry entry_int8_fp8_d64(const attend_kernel_key &key);
attend_kernel_entry entry_int8_fp8_d128(const attend_kernel_key &key);

} // namespace sparge::sm90

#endif
