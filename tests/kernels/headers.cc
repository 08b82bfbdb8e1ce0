// The umbrella header from C++: the declarations have C linkage.
#include "sparge/sparge.h"

extern "C" const char *sparge_version_from_cxx(void);

extern "C" const char *sparge_version_from_cxx(void) { return sparge_version(); }
