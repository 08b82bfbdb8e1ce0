/* Predictions from operations and rates. */
#include "measure/predict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const sparge_problem small_problem = {
    .batch = 1, .heads_q = 4, .heads_kv = 4, .seqlen_q = 512, .seqlen_k = 512, .head_dim = 64, .dtype = SPARGE_F16};
enum { EXACT_ROWS = 16 };

static int never(void)
{
    return 0;
}

/* Two launches of dense-f16 on the small problem; the second is timed. */
static sparge_status time_dense(sparge_context *context, const sparge_io *io, double *seconds)
{
    sparge_params *params = NULL;
    sparge_plan *plan = NULL;
    sb_timer timer = {.context = context};
    sparge_status status = sparge_params_create(sparge_method_find("dense-f16"), &params);
    if (status == SPARGE_OK)
        status = sparge_plan_create(context, params, &small_problem, &plan);
    for (int launch = 0; launch < 2 && status == SPARGE_OK; launch++) {
        sb_visit visit;
        int64_t before_ns = sb_clock_ns();
        status = sb_visit_run(&timer, plan, io, 1, SB_VISIT_TOTAL, 1, never, &visit);
        if (status == SPARGE_OK) {
            int64_t ns = visit.sum_ns > 0 ? visit.sum_ns : sb_clock_ns() - before_ns;
            *seconds = (double)ns / 1e9;
            sb_visit_release(&visit);
        }
    }
    sb_timer_release(&timer);
    sparge_plan_destroy(plan);
    sparge_params_destroy(params);
    return status;
}

static sparge_status time_exact(sparge_context *context, const sb_inputs *inputs, double *seconds)
{
    static const int64_t row[EXACT_ROWS] = {0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448, 480};
    size_t values = (size_t)small_problem.heads_q * EXACT_ROWS * (size_t)small_problem.head_dim;
    double *o = malloc(values * sizeof *o);
    if (!o)
        return SPARGE_ERROR_OUT_OF_MEMORY;
    int64_t before_ns = sb_clock_ns();
    sparge_status status =
        sparge_exact(context, &small_problem, &inputs->q, &inputs->k, &inputs->v, row, EXACT_ROWS, o, NULL);
    *seconds = (double)(sb_clock_ns() - before_ns + 1) / 1e9;
    free(o);
    return status;
}

sparge_status sb_rates_measure(sparge_context *context, sb_rates *rates, sparge_error *error)
{
    wl_workload workload = {
        .name = "calibration",
        .kind = WL_SYNTHETIC,
        .problem = small_problem,
        .generator = {.kind = SPARGE_GENERATE_NORMAL,
                      .heads_q = small_problem.heads_q,
                      .heads_kv = small_problem.heads_kv},
        .order = WL_ORDER_ROW,
    };
    sb_inputs inputs;
    sparge_error reason = {0};
    sparge_status status = sb_inputs_create(context, &workload, &inputs, &reason);
    if (status != SPARGE_OK)
        return sparge_fail(error, status, "calibration: %s", reason.text);
    sparge_io io = {.q = inputs.q, .k = inputs.k, .v = inputs.v, .o = inputs.q};
    size_t bytes;
    double dense_s = 1.0, exact_s = 1.0;
    if (sb_tensor_bytes(&io.o, &bytes) != 0)
        status = SPARGE_ERROR_INTERNAL;
    if (status == SPARGE_OK)
        status = sparge_alloc(context, bytes, &io.o.data);
    if (status == SPARGE_OK) {
        status = time_dense(context, &io, &dense_s);
        if (status == SPARGE_OK)
            status = time_exact(context, &inputs, &exact_s);
        sparge_free(context, io.o.data);
    }
    sb_inputs_release(context, &inputs);
    if (status != SPARGE_OK)
        return sparge_fail(error, status, "calibration: %s", sparge_error_string(context));
    double ops = sparge_problem_dense_ops(&small_problem);
    rates->dense_ops = ops / dense_s;
    rates->exact_ops = ops * EXACT_ROWS / (double)small_problem.seqlen_q / exact_s;
    return SPARGE_OK;
}

/* `first`: no earlier point of the sweep has this workload. */
static sb_prediction predict(const sb_point *point, const sb_measure_options *options, const sb_rates *rates, int first)
{
    const sparge_problem *problem = &point->workload.problem;
    sb_prediction prediction = {0};
    sparge_error error = {0};
    if (sparge_params_check(point->params, problem, &error) != SPARGE_OK) {
        prediction.skipped = 1;
        snprintf(prediction.reason, sizeof prediction.reason, "%s", error.text);
        return prediction;
    }
    if (!rates)
        return prediction;
    double ops = sparge_problem_dense_ops(problem);
    double launch_ns = ops / rates->dense_ops * 1e9;
    if (launch_ns > 1e18) /* thirty years: beyond the clock's range soon */
        launch_ns = 1e18 / 64;
    prediction.ns = (double)sb_schedule_predict(&options->schedule, (int64_t)launch_ns);
    if (first && options->error_rows != 0)
        prediction.ns += ops * (double)sb_reference_rows(problem, options->error_rows) / (double)problem->seqlen_q /
                         rates->exact_ops * 1e9;
    return prediction;
}

sb_prediction *sb_predict_all(const sb_points *points, const sb_measure_options *options, const sb_rates *rates)
{
    sb_prediction *prediction = calloc(points->count, sizeof *prediction);
    for (size_t i = 0; prediction && i < points->count; i++) {
        int first = i == 0 || points->point[i].workload_index != points->point[i - 1].workload_index;
        prediction[i] = predict(&points->point[i], options, rates, first);
    }
    return prediction;
}
