/* Provenance: what ran, built how, where. Fields that are not known are empty. */
#ifndef HARNESS_PROVENANCE_H
#define HARNESS_PROVENANCE_H

#include "sparge/sparge.h"
#include "store.h"

typedef struct sb_provenance {
    const char *version, *git_sha, *build_type, *compiler, *compiler_flags; /* static */
    int git_dirty;               /* tracked files differed from the commit when this was built; -1 unknown */
    char binary_sha256[65];      /* of the running program's file */
    char device_code_sha256[65]; /* of the device last added, as the next */
    sparge_device_state device_state;
    char host[256], os[320]; /* "Debian GNU/Linux 12 (bookworm), Linux 6.1.0 x86_64" */
    char cpu_model[128];
    char started_utc[48]; /* now: "2026-08-11T12:00:00.123Z" */
} sb_provenance;

void sb_provenance_gather(sb_provenance *provenance);

/* started_utc becomes now. */
void sb_provenance_stamp(sb_provenance *provenance);

/* The run's fields from the provenance and the device; command, seed and note are the caller's, and what only a context tells is
 * not known. Points into both. */
rs_run sb_provenance_run(const sb_provenance *provenance, const sparge_device_info *device);

/* Adds which machine code of this program the device runs, and what it tells of itself now. Not SPARGE_OK, with the reason in the
 * context's error string, if it tells nothing. The run points into *provenance. */
sparge_status sb_provenance_add_device(sb_provenance *provenance, sparge_context *context,
                                       const sparge_device_info *device, rs_run *run);

#endif
