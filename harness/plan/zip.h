/* --zip A,B,...: axes that run together, value by value, instead of being multiplied. */
#ifndef HARNESS_ZIP_H
#define HARNESS_ZIP_H

#include "plan/axes.h"

/* `option` is the list of names: common axes, parameters, or METHOD.param. SB_EXIT_OK, or an exit code after one line on
 * stderr. */
int sb_axes_zip(sb_axes *axes, const char *option);

#endif
