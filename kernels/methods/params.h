/* Parameter values (internal): what params.c and params_file.c share. */
#ifndef SPARGE_METHODS_PARAMS_H
#define SPARGE_METHODS_PARAMS_H

#include "methods/recipe.h"

/* The parameter whose value is a file of per-head values. */
#define SPARGE_PARAMS_FILE "params"

/* Sets the per-head values found in the file; *params is in an unspecified state if that fails. The format is described
 * in docs/methods/params.md. */
sparge_status sparge_params_read_file(sparge_params *params, const char *path, sparge_error *error);

#endif
