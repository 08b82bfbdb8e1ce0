/* Results files on the command line: opening and closing them with one line of error. */
#ifndef HARNESS_DATABASE_H
#define HARNESS_DATABASE_H

#include "rows.h"
#include "store.h"

/* NULL after one line on stderr (exit code SB_EXIT_ENVIRONMENT). */
rs_store *sb_database_open(const char *path, rs_mode mode);

/* SB_EXIT_OK, or SB_EXIT_ENVIRONMENT after one line on stderr. NULL is fine. */
int sb_database_close(rs_store *store);

/* Opens, loads and closes: all measurements of the file, or with `latest` the newest of each point. SB_EXIT_OK, or
 * SB_EXIT_ENVIRONMENT after one line on stderr. */
int sb_database_rows(const char *path, int latest, an_rows *rows);

#endif
