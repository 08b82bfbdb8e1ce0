/* Progress of a sweep on stderr: one line that is drawn again in place, only where stderr is a terminal.
 *
 *     [#########...........]  12/40  ETA 3 min  sparge-int8-fp8 tau=0.9, mochi, 44.5k tokens */
#ifndef HARNESS_PROGRESS_H
#define HARNESS_PROGRESS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct sb_progress {
    FILE *out; /* NULL: nothing is drawn */
    size_t total, done;
    double predicted_ns, passed_ns; /* of all points, of those done: what they were predicted to take */
    double measured_ns;             /* what those that were measured really took */
    double measured_predicted_ns;   /* and what had been predicted for them */
    int drawn;
} sb_progress;

/* Would anything be drawn? */
int sb_progress_draws(FILE *out, int quiet);

/* Draws on `out` if that is a terminal (never if quiet). predicted_ns: of all points. */
void sb_progress_begin(sb_progress *progress, FILE *out, int quiet, size_t points, double predicted_ns);

/* The point that is being worked on. */
void sb_progress_point(sb_progress *progress, const char *label);

/* It ended after elapsed_ns; 0 if it needed no measuring (it was there already, or cannot be done). */
void sb_progress_done(sb_progress *progress, double predicted_ns, double elapsed_ns);

/* Clears the line so that other text can be printed. */
void sb_progress_clear(sb_progress *progress);

/* Nanoseconds left: what is predicted for the points left, times how wrong the predictions were so far. */
double sb_progress_left_ns(const sb_progress *progress);

/* "850 ms", "12 s", "3 min", "2 h 05 min" */
void sb_duration_text(double ns, char *text, size_t size);

#endif
