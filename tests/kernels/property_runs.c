/* What a run may not depend on: how its stages are called, what ran before, the number of threads, the memory layout. */
#include "property.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { MAX_METHODS = 64, CASES = 10 };

typedef struct fixture {
    property_run run;
    sparge_context *single; /* one thread */
    char folder[32];
    int lacks[MAX_METHODS]; /* the backend does not have the method */
    int64_t compared[MAX_METHODS];
} fixture;

static int set_up(void **state)
{
    fixture *f = oracle_alloc(1, sizeof *f);
    sparge_error error = {0};

    *state = f;
    f->run.program = "test_property_runs";
    strcpy(f->folder, "/tmp/sparge-property-XXXXXX");
    if (!mkdtemp(f->folder) || sparge_context_create(property_backend(), 0, 0, &f->run.context, &error) != SPARGE_OK ||
        sparge_context_create(property_backend(), 0, 1, &f->single, &error) != SPARGE_OK)
        fail_msg("%s", error.text);
    assert_true(sparge_method_count() <= MAX_METHODS);
    for (size_t i = 0; i < sparge_method_count(); i++)
        f->lacks[i] = property_lacks(f->run.context, sparge_method_at(i), f->folder);
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    char path[64];

    snprintf(path, sizeof path, "%s/mask.npy", f->folder);
    unlink(path);
    rmdir(f->folder);
    sparge_context_destroy(f->single);
    sparge_context_destroy(f->run.context);
    free(f);
    return 0;
}

/* The cases of one context, with equal numbers in another where asked. */
static sparge_params *params_for(fixture *f, property_case *c, size_t method, int attempt)
{
    oracle_rng rng = oracle_rng_seed(c->seed * 1000 + method * 10 + (uint64_t)attempt);
    char text[1280];
    sparge_params *params =
        property_params_create(sparge_method_at(method), &c->problem, attempt < 3 ? PROPERTY_ANY : PROPERTY_DEFAULTS,
                               &rng, f->folder, text, sizeof text);

    property_describe(&f->run, c->seed, "%s | %s", c->text, text);
    return params;
}

static property_output run_stages(property_run *run, property_case *c, sparge_plan *plan, const int *stages, int count)
{
    sparge_io io = property_case_io(c, run->context);

    for (int i = 0; i < count; i++)
        property_check(run, sparge_plan_run(plan, stages[i], &io) == SPARGE_OK, "run of stages %d: %s", stages[i],
                       sparge_error_string(run->context));
    return property_case_output(run, c);
}

static int same_stats(const sparge_stats *a, const sparge_stats *b)
{
    return a->basis == b->basis && a->visible == b->visible && a->qk == b->qk && a->pv_skipped == b->pv_skipped &&
           a->pv_unit == b->pv_unit && a->executed_ops == b->executed_ops && a->extra == b->extra;
}

/* Compares `plan` after a run with the reference, bit by bit, and frees the output. */
static void expect_same(property_run *run, sparge_plan *plan, const char *what, property_output *output,
                        const property_output *reference, const sparge_stats *stats)
{
    sparge_stats now = {0};

    property_check(run, property_output_equal(output, reference), "%s: O or LSE has other bits", what);
    property_check(run, sparge_plan_get_stats(plan, &now) == SPARGE_OK && same_stats(&now, stats),
                   "%s: the counts differ", what);
    property_output_release(output);
}

typedef void check(fixture *f, property_case *c, const sparge_params *params, sparge_plan *plan,
                   const property_output *reference, const sparge_stats *stats);

/* Calls `function` for every (method, case) that is supported, after one reference run. */
static void for_each_run(fixture *f, uint64_t seed, check *function)
{
    property_run *run = &f->run;

    run->failures = 0;
    memset(f->compared, 0, sizeof f->compared);
    for (int64_t i = 0; i < property_cases(CASES); i++) {
        property_case c;

        property_case_create(&c, run->context, property_seed(seed) + (uint64_t)i);
        for (size_t method = 0; method < sparge_method_count(); method++) {
            sparge_plan *plan = NULL;

            if (f->lacks[method] || !property_wants(sparge_method_at(method), NULL))
                continue;
            for (int attempt = 0; attempt < 4 && !plan; attempt++) {
                static const int all[] = {SPARGE_STAGE_ALL};
                sparge_params *params = params_for(f, &c, method, attempt);
                property_output reference;
                sparge_stats stats;

                if (sparge_plan_create(run->context, params, &c.problem, &plan) == SPARGE_OK) {
                    reference = run_stages(run, &c, plan, all, 1);
                    sparge_plan_get_stats(plan, &stats);
                    function(f, &c, params, plan, &reference, &stats);
                    property_output_release(&reference);
                    f->compared[method]++;
                }
                sparge_params_destroy(params);
            }
            sparge_plan_destroy(plan);
        }
        property_case_release(&c, run->context);
    }
    for (size_t method = 0; method < sparge_method_count(); method++) {
        const char *name = sparge_method_name(sparge_method_at(method));

        if (f->lacks[method])
            print_message("%-20s not in the backend %s\n", name, property_backend());
        else if (property_cases(-1) < 0 && property_wants(sparge_method_at(method), NULL) && f->compared[method] == 0)
            fail_msg("%s never ran", name);
    }
    assert_int_equal(run->failures, 0);
}

static void check_stages(fixture *f, property_case *c, const sparge_params *params, sparge_plan *plan,
                         const property_output *reference, const sparge_stats *stats)
{
    static const int stages[][3] = {{SPARGE_STAGE_PREPARE, SPARGE_STAGE_SELECT, SPARGE_STAGE_ATTEND},
                                    {SPARGE_STAGE_PREPARE | SPARGE_STAGE_SELECT, SPARGE_STAGE_ATTEND, 0},
                                    {SPARGE_STAGE_PREPARE, SPARGE_STAGE_SELECT | SPARGE_STAGE_ATTEND, 0}};
    static const int counts[] = {3, 2, 2};

    (void)plan;
    for (size_t i = 0; i < 3; i++) {
        sparge_plan *fresh = NULL;

        if (!property_check(&f->run, sparge_plan_create(f->run.context, params, &c->problem, &fresh) == SPARGE_OK,
                            "a second plan: %s", sparge_error_string(f->run.context)))
            return;
        property_output output = run_stages(&f->run, c, fresh, stages[i], counts[i]);
        expect_same(&f->run, fresh, "stage by stage", &output, reference, stats);
        sparge_plan_destroy(fresh);
    }
}

static void stages_equal_all(void **state)
{
    for_each_run(*state, 20000, check_stages);
}

/* Whether no device needs aligned copies of these (plan.h). */
static int sides_are_aligned(const sparge_io *io)
{
    const sparge_tensor *const inputs[] = {&io->q, &io->k, &io->v};
    uintptr_t bits = 0;
    for (size_t i = 0; i < 3; i++)
        for (int axis = 0; axis < 3; axis++)
            bits |= (uintptr_t)inputs[i]->data | (uintptr_t)(2 * inputs[i]->stride[axis]);
    return bits % 16 == 0;
}

/* The same plan again, and again after other inputs went through it. */
static void check_reuse(fixture *f, property_case *c, const sparge_params *params, sparge_plan *plan,
                        const property_output *reference, const sparge_stats *stats)
{
    static const int all[] = {SPARGE_STAGE_ALL}, attend[] = {SPARGE_STAGE_ATTEND};
    size_t bytes = sparge_plan_workspace_bytes(plan);
    property_output output = run_stages(&f->run, c, plan, all, 1);
    sparge_io other;

    (void)params;
    expect_same(&f->run, plan, "a second run", &output, reference, stats);
    output = run_stages(&f->run, c, plan, attend, 1);
    expect_same(&f->run, plan, "attend again", &output, reference, stats);

    other = property_case_io(c, f->run.context); /* K in the place of V and the other way round */
    other.k = c->v.view;
    other.v = c->k.view;
    property_check(&f->run, sparge_plan_run(plan, SPARGE_STAGE_ALL, &other) == SPARGE_OK, "other inputs: %s",
                   sparge_error_string(f->run.context));
    output = run_stages(&f->run, c, plan, all, 1);
    expect_same(&f->run, plan, "after other inputs", &output, reference, stats);
    if (sides_are_aligned(&other))
        property_check(&f->run, sparge_plan_workspace_bytes(plan) == bytes, "the workspace grew from %zu to %zu bytes",
                       bytes, sparge_plan_workspace_bytes(plan));
}

static void plans_can_be_reused(void **state)
{
    for_each_run(*state, 21000, check_reuse);
}

static void check_threads(fixture *f, property_case *c, const sparge_params *params, sparge_plan *plan,
                          const property_output *reference, const sparge_stats *stats)
{
    static const int all[] = {SPARGE_STAGE_ALL};
    property_run run = f->run;
    sparge_plan *single = NULL;

    (void)plan;
    run.context = f->single;
    if (property_check(&run, sparge_plan_create(f->single, params, &c->problem, &single) == SPARGE_OK, "one thread: %s",
                       sparge_error_string(f->single))) {
        property_output output = run_stages(&run, c, single, all, 1);
        expect_same(&run, single, "one thread", &output, reference, stats);
    }
    sparge_plan_destroy(single);
    run.context = f->run.context;
    f->run = run;
}

static void threads_do_not_matter(void **state)
{
    for_each_run(*state, 22000, check_threads);
}

/* The same numbers in densely packed memory, without LSE. */
static void check_layout(fixture *f, property_case *c, const sparge_params *params, sparge_plan *plan,
                         const property_output *reference, const sparge_stats *stats)
{
    const property_tensor *const strided[] = {&c->q, &c->k, &c->v, &c->o};
    property_output output = {.o_count = reference->o_count, .lse_count = reference->lse_count};
    sparge_tensor dense[4];
    sparge_stats now;

    (void)params;
    for (size_t t = 0; t < 4; t++) {
        const int64_t *shape = strided[t]->view.shape, *stride = strided[t]->view.stride;
        size_t count = (size_t)(shape[0] * shape[1] * shape[2] * shape[3]), at = 0;
        uint16_t *codes = oracle_alloc(count, sizeof *codes);
        void *memory = NULL;

        for (int64_t b = 0; b < shape[0]; b++)
            for (int64_t h = 0; h < shape[1]; h++)
                for (int64_t i = 0; i < shape[2]; i++)
                    for (int64_t d = 0; d < shape[3]; d++)
                        codes[at++] =
                            strided[t]
                                ->host[strided[t]->first + (size_t)(b * stride[0] + h * stride[1] + i * stride[2] + d)];
        if (sparge_alloc(f->run.context, count * sizeof *codes, &memory) != SPARGE_OK)
            fail_msg("%s", sparge_error_string(f->run.context));
        sparge_upload(f->run.context, memory, codes, count * sizeof *codes);
        dense[t] = sparge_tensor_hnd(memory, c->problem.dtype, shape[0], shape[1], shape[2], shape[3]);
        if (t == 3)
            output.o = codes;
        else
            free(codes);
    }
    sparge_io io = {dense[0], dense[1], dense[2], dense[3], NULL};
    property_check(&f->run, sparge_plan_run(plan, SPARGE_STAGE_ALL, &io) == SPARGE_OK, "densely packed: %s",
                   sparge_error_string(f->run.context));
    sparge_download(f->run.context, output.o, dense[3].data, output.o_count * sizeof *output.o);
    property_check(&f->run, memcmp(output.o, reference->o, output.o_count * sizeof *output.o) == 0,
                   "densely packed: O has other bits");
    property_check(&f->run, sparge_plan_get_stats(plan, &now) == SPARGE_OK && same_stats(&now, stats),
                   "densely packed: the counts differ");
    for (size_t t = 0; t < 4; t++)
        sparge_free(f->run.context, dense[t].data);
    free(output.o);
}

static void layout_does_not_matter(void **state)
{
    for_each_run(*state, 23000, check_layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_equal_all),
        cmocka_unit_test(plans_can_be_reused),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(layout_does_not_matter),
    };
    const int nothing = property_start();

    if (nothing)
        return nothing;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
