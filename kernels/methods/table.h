/* The method table (internal): every method's descriptor. Adding a method adds one line here and one in table.c. */
#ifndef SPARGE_METHODS_TABLE_H
#define SPARGE_METHODS_TABLE_H

#include "methods/recipe.h"

extern const sparge_method sparge_method_dense_f16;
extern const sparge_method sparge_method_dense_int8_f16;
extern const sparge_method sparge_method_dense_int8_fp8;
extern const sparge_method sparge_method_sparge_f16;
extern const sparge_method sparge_method_sparge_int8_f16;
extern const sparge_method sparge_method_sparge_int8_fp8;
extern const sparge_method sparge_method_minference_vs;
extern const sparge_method sparge_method_minference_ashape;
extern const sparge_method sparge_method_minference_block;
extern const sparge_method sparge_method_minference_vs_grid;
extern const sparge_method sparge_method_flexprefill;
extern const sparge_method sparge_method_window;
extern const sparge_method sparge_method_sta;
extern const sparge_method sparge_method_xattention;
extern const sparge_method sparge_method_skip_softmax;
extern const sparge_method sparge_method_mask;

#endif
