/* Error metrics by their definitions (design.md section 2). */
#include "oracle/oracle.h"

#include <math.h>

oracle_error oracle_compare(const double *a, const double *b, int64_t count)
{
    oracle_error e = {0};
    double l1 = 0.0, l1_b = 0.0, l2 = 0.0, a2 = 0.0, b2 = 0.0, dot = 0.0;
    int64_t used = 0;

    for (int64_t i = 0; i < count; i++) {
        double difference = fabs(a[i] - b[i]);

        if (!isfinite(a[i]))
            e.non_finite++;
        if (!isfinite(a[i]) || !isfinite(b[i]))
            continue;
        used++;
        l1 += difference;
        l1_b += fabs(b[i]);
        l2 += difference * difference;
        a2 += a[i] * a[i];
        b2 += b[i] * b[i];
        dot += a[i] * b[i];
        e.max_abs = fmax(e.max_abs, difference);
    }
    e.rel_l1 = l1_b > 0.0 ? l1 / l1_b : (l1 > 0.0 ? INFINITY : 0.0);
    e.rel_l2 = b2 > 0.0 ? sqrt(l2 / b2) : (l2 > 0.0 ? INFINITY : 0.0);
    e.cosine = a2 > 0.0 && b2 > 0.0 ? dot / sqrt(a2 * b2) : (a2 == b2 ? 1.0 : 0.0);
    e.rmse = used > 0 ? sqrt(l2 / (double)used) : 0.0;
    return e;
}
