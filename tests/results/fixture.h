/* What the tests of the results store share: a folder of their own, rows to fill a store with, looks at the file. */
#ifndef TESTS_RESULTS_FIXTURE_H
#define TESTS_RESULTS_FIXTURE_H

#include "../check.h"

#include "store.h"

enum { PATH_SIZE = 256 };

/* A fresh folder for each test program; the group's setup and teardown. */
int make_folder(void **state);
int remove_folder(void **state);
/* The path of `name` in the folder. */
const char *in_folder(const char *folder, const char *name, char path[PATH_SIZE]);

/* Fails the test with the store's own message. */
void assert_ok(rs_status status, const rs_error *error);
/* The status, and a message of one line that begins with the path. */
void assert_refused(rs_status status, const rs_error *error, rs_status expected, const char *path);

rs_store *open_store(const char *path, rs_mode mode);
void close_store(rs_store *store);

rs_run plain_run(void);
rs_point plain_point(int64_t seqlen); /* points of other lengths are other points */
int64_t begin_run(rs_store *store);
int64_t begin_measurement(rs_store *store, int64_t run_id, int64_t seqlen);
/* A total visit of 4 launches whose times follow from `position`. */
rs_status add_visit(rs_store *store, int64_t measurement_id, int32_t position, rs_error *error);
int64_t visit_ns(int32_t position, int32_t launch);
/* Visits that the store has of the plain point of this length; *measurement_id may be NULL. */
int32_t visits_of(rs_store *store, int64_t seqlen, int64_t *measurement_id);

uint64_t next_random(uint64_t *state); /* splitmix64 */

/* The whole file; the caller frees. */
unsigned char *read_file(const char *path, size_t *size);
void write_file(const char *path, const void *bytes, size_t size);
int file_exists(const char *path);
/* One integer or text from the file, asked through SQLite alone. */
int64_t query_integer(const char *path, const char *sql);
void query_text(const char *path, const char *sql, char *text, size_t size);
/* integrity_check, foreign_key_check, rollback-journal mode, no side files. */
void assert_one_sound_file(const char *path);

#endif
