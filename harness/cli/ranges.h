/* Number lists of the command line: "8k..128k" (doubling), "8k..128k*4", "8k..128k+8k", "1k,2k,3000", mixtures by comma.
 * k, m, g = 1024^n. Both ends belong to the range; an end that the progression does not hit is an error that names the
 * two nearest ends. Reals: "0.05..0.95+0.15", "0.9,0.95". */
#ifndef HARNESS_RANGES_H
#define HARNESS_RANGES_H

#include <stddef.h>
#include <stdint.h>

/* Allocate *values (free()), in the order written, duplicates removed. 0, or -1 with one line in error_text. */
int sb_range_integers(const char *text, int64_t min, int64_t max, int64_t **values, size_t *count, char *error_text,
                      size_t error_size);
int sb_range_reals(const char *text, double min, double max, double **values, size_t *count, char *error_text,
                   size_t error_size);

#endif
