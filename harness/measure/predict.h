/* The time that a sweep will take, from the dense operations at a rate measured in a fraction of a
 * second with dense-f16. An upper bound for methods that skip work, and no more than an estimate for all. */
#ifndef HARNESS_PREDICT_H
#define HARNESS_PREDICT_H

#include "measure/measure.h"

typedef struct sb_rates {
    double dense_ops; /* operations per second of dense-f16 */
    double exact_ops; /* of the exact reference */
} sb_rates;

/* Runs dense-f16 and the exact reference once on a small problem. */
sparge_status sb_rates_measure(sparge_context *context, sb_rates *rates, sparge_error *error);

typedef struct sb_prediction {
    double ns;   /* warm-up, visits, and the reference if the point is the first of its workload; 0 without rates */
    int skipped; /* the method cannot do the problem */
    char reason[SPARGE_ERROR_TEXT];
} sb_prediction;

/* Of all points, to be freed. rates: NULL if they are not known. NULL if memory runs out. */
sb_prediction *sb_predict_all(const sb_points *points, const sb_measure_options *options, const sb_rates *rates);

#endif
