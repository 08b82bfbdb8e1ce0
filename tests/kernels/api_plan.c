/* Contract of plans and of sparge_exact (plan.h, context.h): arguments, the order of calls, error strings. */
#include "api.h"

enum { B = 1, HQ = 2, HKV = 1, N = 70, D = 16 };

static const sparge_problem problem = {
    .batch = B, .heads_q = HQ, .heads_kv = HKV, .seqlen_q = N, .seqlen_k = N, .head_dim = D, .dtype = SPARGE_F16};

typedef struct fixture {
    sparge_context *context;
    sparge_params *params; /* a method with all three stages */
    sparge_plan *plan;
    sparge_io io;
    void *memory;
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    size_t q = (size_t)B * HQ * N * D * 2, k = (size_t)B * HKV * N * D * 2, lse = (size_t)B * HQ * N * sizeof(float);
    char *at;

    if (!f)
        return 1;
    f->context = api_context();
    if (sparge_alloc(f->context, 2 * q + 2 * k + lse, &f->memory) != SPARGE_OK ||
        sparge_fill(f->context, f->memory, 0, 2 * q + 2 * k + lse) != SPARGE_OK ||
        sparge_params_create(sparge_method_find("sparge-int8-fp8"), &f->params) != SPARGE_OK ||
        sparge_plan_create(f->context, f->params, &problem, &f->plan) != SPARGE_OK)
        return 1;
    at = f->memory;
    f->io.q = sparge_tensor_hnd(at, SPARGE_F16, B, HQ, N, D);
    f->io.o = sparge_tensor_hnd(at + q, SPARGE_F16, B, HQ, N, D);
    f->io.k = sparge_tensor_hnd(at + 2 * q, SPARGE_F16, B, HKV, N, D);
    f->io.v = sparge_tensor_nhd(at + 2 * q + k, SPARGE_F16, B, HKV, N, D);
    f->io.lse = (float *)(void *)(at + 2 * q + 2 * k);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    sparge_plan_destroy(f->plan);
    sparge_plan_destroy(NULL);
    sparge_params_destroy(f->params);
    sparge_free(f->context, f->memory);
    sparge_context_destroy(f->context);
    free(f);
    return 0;
}

static void refused(fixture *f, const sparge_io *io, const char *names)
{
    assert_fails(sparge_plan_run(f->plan, SPARGE_STAGE_ALL, io), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(f->context), names);
}

static void bad_tensors(void **state)
{
    fixture *f = *state;
    static const char *const names[] = {"q", "k", "v", "o"};

    for (size_t t = 0; t < 4; t++) {
        sparge_io io = f->io;
        sparge_tensor *const tensors[] = {&io.q, &io.k, &io.v, &io.o}, good = *tensors[t];
        char prefix[3] = {names[t][0], ':', 0};

        tensors[t]->data = NULL;
        refused(f, &io, prefix);
        *tensors[t] = good;
        tensors[t]->dtype = SPARGE_BF16;
        refused(f, &io, prefix);
        tensors[t]->dtype = SPARGE_F32;
        refused(f, &io, prefix);
        for (size_t axis = 0; axis < 4; axis++) {
            *tensors[t] = good;
            tensors[t]->shape[axis]++;
            refused(f, &io, prefix);
        }
        *tensors[t] = good;
        tensors[t]->stride[3] = 2;
        refused(f, &io, "stride[3] = 2");
        *tensors[t] = good;
        tensors[t]->stride[2] = -(int64_t)D;
        refused(f, &io, "stride[2] = -16");
    }
    assert_int_equal(sparge_plan_run(f->plan, SPARGE_STAGE_ALL, &f->io), SPARGE_OK);
}

static void bad_stages(void **state)
{
    fixture *f = *state;
    static const int bad[] = {0, -1, 8, 15};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(sparge_plan_run(f->plan, bad[i], &f->io), SPARGE_ERROR_INVALID_ARGUMENT,
                     sparge_error_string(f->context), "stages");
    assert_fails(sparge_plan_run(f->plan, SPARGE_STAGE_ALL, NULL), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(f->context), "io");
}

/* A stage uses what the earlier ones left: it cannot run before them, alone or with a gap. */
static void stages_out_of_order(void **state)
{
    fixture *f = *state;
    static const int bad[] = {SPARGE_STAGE_SELECT, SPARGE_STAGE_ATTEND, SPARGE_STAGE_SELECT | SPARGE_STAGE_ATTEND,
                              SPARGE_STAGE_PREPARE | SPARGE_STAGE_ATTEND};

    assert_int_equal(sparge_plan_stages(f->plan), SPARGE_STAGE_ALL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(sparge_plan_run(f->plan, bad[i], &f->io), SPARGE_ERROR_INVALID_ARGUMENT,
                     sparge_error_string(f->context), "stage");
    assert_int_equal(sparge_plan_run(f->plan, SPARGE_STAGE_PREPARE, &f->io), SPARGE_OK);
    assert_fails(sparge_plan_run(f->plan, SPARGE_STAGE_ATTEND, &f->io), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(f->context), "stage");
    assert_int_equal(sparge_plan_run(f->plan, SPARGE_STAGE_SELECT | SPARGE_STAGE_ATTEND, &f->io), SPARGE_OK);
    assert_int_equal(sparge_plan_run(f->plan, SPARGE_STAGE_ATTEND, &f->io), SPARGE_OK);
}

static void results_before_a_run(void **state)
{
    fixture *f = *state;
    uint8_t kept[N * N];
    sparge_block_mask mask;
    sparge_stats stats;
    double sim_q, sim_k;

    assert_fails(sparge_plan_get_stats(f->plan, &stats), SPARGE_ERROR_INVALID_ARGUMENT, sparge_error_string(f->context),
                 "run");
    assert_fails(sparge_plan_get_block_mask(f->plan, &mask), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(f->context), "run");
    sparge_block_mask_release(&mask);
    assert_fails(sparge_plan_get_pairs(f->plan, 0, 0, kept), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(f->context), "run");
    assert_fails(sparge_plan_get_similarity(f->plan, &sim_q, &sim_k), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(f->context), "run");
}

static void results_after_a_run(void **state)
{
    fixture *f = *state;
    uint8_t kept[N * N];
    sparge_block_mask mask;
    sparge_stats stats;
    double sim_q = -1.0, sim_k = -1.0;

    assert_int_equal(sparge_plan_run(f->plan, SPARGE_STAGE_ALL, &f->io), SPARGE_OK);
    assert_int_equal(sparge_plan_get_stats(f->plan, &stats), SPARGE_OK);
    assert_int_equal(stats.block_q, 128);
    assert_int_equal(stats.block_k, 64);
    assert_int_equal(sparge_plan_get_block_mask(f->plan, &mask), SPARGE_OK);
    assert_int_equal(mask.batch, B);
    assert_int_equal(mask.heads, HQ);
    assert_int_equal(mask.rows, 1);
    assert_int_equal(mask.cols, 2);
    sparge_block_mask_release(&mask);
    sparge_block_mask_release(&mask);
    assert_int_equal(sparge_plan_get_pairs(f->plan, B - 1, HQ - 1, kept), SPARGE_OK);
    assert_fails(sparge_plan_get_pairs(f->plan, B, 0, kept), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(f->context), "batch");
    assert_fails(sparge_plan_get_pairs(f->plan, 0, HQ, kept), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(f->context), "head");
    assert_fails(sparge_plan_get_pairs(f->plan, -1, 0, kept), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(f->context), "batch");
    assert_int_equal(sparge_plan_get_similarity(f->plan, &sim_q, &sim_k), SPARGE_OK);
    assert_true(sim_q >= 0.0 && sim_q <= 1.0 + 1e-6 && sim_k >= 0.0 && sim_k <= 1.0 + 1e-6);
}

static void similarity_where_there_is_none(void **state)
{
    fixture *f = *state;
    sparge_params *params;
    sparge_plan *plan;
    double sim_q, sim_k;

    assert_int_equal(sparge_params_create(sparge_method_find("dense-f16"), &params), SPARGE_OK);
    assert_int_equal(sparge_plan_create(f->context, params, &problem, &plan), SPARGE_OK);
    assert_int_equal(sparge_plan_run(plan, SPARGE_STAGE_ALL, &f->io), SPARGE_OK);
    assert_fails(sparge_plan_get_similarity(plan, &sim_q, &sim_k), SPARGE_ERROR_UNSUPPORTED,
                 sparge_error_string(f->context), "dense-f16");
    sparge_plan_destroy(plan);
    sparge_params_destroy(params);
}

static void bad_problems(void **state)
{
    fixture *f = *state;
    sparge_problem bad;
    sparge_plan *plan = f->plan;

    bad = problem;
    bad.head_dim = 129;
    assert_fails(sparge_plan_create(f->context, f->params, &bad, &plan), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(f->context), "head_dim = 129");
    assert_null(plan);
    bad = problem;
    bad.heads_kv = 3;
    assert_fails(sparge_plan_create(f->context, f->params, &bad, &plan), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(f->context), "heads_kv = 3");
    bad = problem;
    bad.scale = -1.0F;
    assert_fails(sparge_plan_create(f->context, f->params, &bad, &plan), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(f->context), "scale = -1");
    bad = problem;
    bad.dtype = SPARGE_F32;
    assert_fails(sparge_plan_create(f->context, f->params, &bad, &plan), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(f->context), "dtype = f32");
    assert_fails(sparge_plan_create(f->context, NULL, &problem, &plan), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(f->context), "params");
    assert_fails(sparge_plan_create(f->context, f->params, NULL, &plan), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(f->context), "problem");
}

/* A plan keeps its own copy of the parameters. */
static void parameters_are_copied(void **state)
{
    fixture *f = *state;
    sparge_params *params;
    sparge_plan *plan;
    sparge_error error;

    assert_int_equal(sparge_params_clone(f->params, &params), SPARGE_OK);
    assert_int_equal(sparge_plan_create(f->context, params, &problem, &plan), SPARGE_OK);
    assert_int_equal(sparge_params_set(params, "block_q", "64", &error), SPARGE_OK);
    sparge_params_destroy(params);
    sparge_stats stats;
    assert_int_equal(sparge_plan_run(plan, SPARGE_STAGE_ALL, &f->io), SPARGE_OK);
    assert_int_equal(sparge_plan_get_stats(plan, &stats), SPARGE_OK);
    assert_int_equal(stats.block_q, 128);
    sparge_plan_destroy(plan);
}

static void a_missing_mask_file(void **state)
{
    fixture *f = *state;
    sparge_params *params;
    sparge_plan *plan;
    sparge_error error;

    assert_int_equal(sparge_params_create(sparge_method_find("mask"), &params), SPARGE_OK);
    assert_fails(sparge_plan_create(f->context, params, &problem, &plan), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(f->context), "file");
    assert_int_equal(sparge_params_set(params, "file", "/no/such/mask.npy", &error), SPARGE_OK);
    assert_fails(sparge_plan_create(f->context, params, &problem, &plan), SPARGE_ERROR_IO,
                 sparge_error_string(f->context), "/no/such/mask.npy");
    assert_null(plan);
    sparge_params_destroy(params);
}

static void bad_rows_of_exact(void **state)
{
    fixture *f = *state;
    static const int64_t beyond[] = {0, N}, negative[] = {-1};
    static double o[HQ * N * D];
    sparge_tensor wrong = f->io.k;

    assert_fails(sparge_exact(f->context, &problem, &f->io.q, &f->io.k, &f->io.v, beyond, 2, o, NULL),
                 SPARGE_ERROR_INVALID_ARGUMENT, sparge_error_string(f->context), "rows[1] = 70");
    assert_fails(sparge_exact(f->context, &problem, &f->io.q, &f->io.k, &f->io.v, negative, 1, o, NULL),
                 SPARGE_ERROR_INVALID_ARGUMENT, sparge_error_string(f->context), "rows[0] = -1");
    assert_fails(sparge_exact(f->context, &problem, &f->io.q, &f->io.k, &f->io.v, NULL, N - 1, o, NULL),
                 SPARGE_ERROR_INVALID_ARGUMENT, sparge_error_string(f->context), "n_rows");
    assert_fails(sparge_exact(f->context, &problem, &f->io.q, &f->io.k, &f->io.v, beyond, -1, o, NULL),
                 SPARGE_ERROR_INVALID_ARGUMENT, sparge_error_string(f->context), "n_rows = -1");
    assert_fails(sparge_exact(f->context, &problem, &f->io.q, &f->io.k, &f->io.v, NULL, N, NULL, NULL),
                 SPARGE_ERROR_INVALID_ARGUMENT, sparge_error_string(f->context), "o");
    wrong.shape[2]--;
    assert_fails(sparge_exact(f->context, &problem, &f->io.q, &wrong, &f->io.v, NULL, N, o, NULL),
                 SPARGE_ERROR_INVALID_ARGUMENT, sparge_error_string(f->context), "k:");
    assert_int_equal(sparge_exact(f->context, &problem, &f->io.q, &f->io.k, &f->io.v, NULL, N, o, NULL), SPARGE_OK);
}

/* Many plans on one context, destroyed in another order; each keeps its results. */
static void plans_are_independent(void **state)
{
    fixture *f = *state;
    sparge_plan *plans[3];
    sparge_stats before, after;

    for (size_t i = 0; i < 3; i++)
        assert_int_equal(sparge_plan_create(f->context, f->params, &problem, &plans[i]), SPARGE_OK);
    assert_true(sparge_plan_workspace_bytes(plans[0]) > 0);
    assert_int_equal(sparge_plan_run(plans[1], SPARGE_STAGE_ALL, &f->io), SPARGE_OK);
    assert_int_equal(sparge_plan_get_stats(plans[1], &before), SPARGE_OK);
    assert_int_equal(sparge_plan_run(plans[0], SPARGE_STAGE_ALL, &f->io), SPARGE_OK);
    sparge_plan_destroy(plans[0]);
    assert_fails(sparge_plan_get_stats(plans[2], &after), SPARGE_ERROR_INVALID_ARGUMENT,
                 sparge_error_string(f->context), "run");
    sparge_plan_destroy(plans[2]);
    assert_int_equal(sparge_plan_get_stats(plans[1], &after), SPARGE_OK);
    assert_int_equal(before.qk, after.qk);
    assert_true(before.executed_ops == after.executed_ops);
    sparge_plan_destroy(plans[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bad_tensors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_stages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stages_out_of_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(results_before_a_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(results_after_a_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(similarity_where_there_is_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_problems, set_up, tear_down),
        cmocka_unit_test_setup_teardown(parameters_are_copied, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_missing_mask_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_rows_of_exact, set_up, tear_down),
        cmocka_unit_test_setup_teardown(plans_are_independent, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
