/* A point as the results store knows it. */
#ifndef HARNESS_RECORD_H
#define HARNESS_RECORD_H

#include "plan/points.h"
#include "store.h"

typedef struct sb_record {
    rs_point point; /* strings of the sb_point, the device info, and below */
    char grid[64];
    char key[65]; /* rs_point_key */
} sb_record;

/* *record must not be moved: it points into itself. */
rs_status sb_record_point(const sb_point *point, const sparge_device_info *device, sb_record *record, rs_error *error);

#endif
