/* Every field there and back: random rows with all that text and numbers can hold, written and read again. */
#include "fixture.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 60, MAX_TEXTS = 40, SAMPLES = 12, VISITS = 3 };

/* One measurement as it was written. */
typedef struct expected_row {
    rs_row row;
    char *texts[MAX_TEXTS];
    size_t text_count;
    int64_t total_ns[VISITS * SAMPLES];
    size_t total_count;
} expected_row;

static const char *random_text(expected_row *e, uint64_t *random)
{
    static const char *const pieces[] = {"a",  "Zz9",    " ",      "'",          "\"", "\\",         "\n",   "%s", "--",
                                         "\t", "\u00e9", "\u6ce8", "\U0001f680", ";",  "DROP TABLE", "\x7f", "{}", ","};
    char text[200] = "";
    size_t count = next_random(random) % 9;
    for (size_t i = 0; i < count; i++)
        strcat(text, pieces[next_random(random) % (sizeof pieces / sizeof pieces[0])]);
    assert_true(e->text_count < MAX_TEXTS);
    char *copy = strdup(text);
    assert_non_null(copy);
    e->texts[e->text_count++] = copy;
    return copy;
}

static const char *text_or_null(expected_row *e, uint64_t *random)
{
    return next_random(random) % 4 == 0 ? NULL : random_text(e, random);
}

static const char *one_of(const char *const *choices, size_t count, uint64_t *random)
{
    return choices[next_random(random) % count];
}

static int64_t count_or_unknown(uint64_t *random)
{
    uint64_t bits = next_random(random);
    return bits % 4 == 0 ? -1 : (int64_t)(next_random(random) >> (1 + bits % 60));
}

static int32_t small_count_or_unknown(uint64_t *random)
{
    int64_t value = count_or_unknown(random);
    return value > INT32_MAX ? INT32_MAX : (int32_t)value;
}

static double unit_real(uint64_t *random)
{
    return (double)(next_random(random) >> 11) * 0x1p-53;
}

/* In 0..scale, sometimes not known, sometimes an end, sometimes tiny. */
static double real_or_unknown(double scale, uint64_t *random)
{
    switch (next_random(random) % 6) {
    case 0:
        return NAN;
    case 1:
        return 0;
    case 2:
        return scale;
    case 3:
        return unit_real(random) * 1e-300;
    default:
        return unit_real(random) * scale;
    }
}

static void fill_run(expected_row *e, uint64_t *random)
{
    rs_run *run = &e->row.run;
    static const char *const times[] = {NULL, "2026-08-24T12:00:00Z", "1999-12-31T23:59:59.999Z",
                                        "2026-08-24 01:02:03"};
    static const char *const statuses[] = {"running", "done", "partial", "failed"};
    run->started_utc = one_of(times, 4, random);
    run->ended_utc = one_of(times, 4, random);
    run->status = one_of(statuses, 4, random);
    run->git_dirty = (int)(next_random(random) % 3) - 1;
    run->device_units = small_count_or_unknown(random);
    run->device_memory_bytes = count_or_unknown(random);
    run->cpu_threads = small_count_or_unknown(random);
    run->power_limit_mw = count_or_unknown(random);
    run->max_sm_clock_mhz = small_count_or_unknown(random);
    run->processes = small_count_or_unknown(random);
    run->ecc = (int)(next_random(random) % 3) - 1;
    run->persistence = (int)(next_random(random) % 3) - 1;
    run->mig = (int)(next_random(random) % 3) - 1;
    run->seed = next_random(random);
    const char **const texts[] = {&run->command,
                                  &run->program_version,
                                  &run->git_sha,
                                  &run->build_type,
                                  &run->compiler,
                                  &run->compiler_flags,
                                  &run->binary_sha256,
                                  &run->backend,
                                  &run->device_name,
                                  &run->device_uuid,
                                  &run->device_arch,
                                  &run->host,
                                  &run->os,
                                  &run->cpu_model,
                                  &run->driver,
                                  &run->cuda_runtime,
                                  &run->device_code_sha256,
                                  &run->vbios,
                                  &run->pci,
                                  &run->note};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        *texts[i] = text_or_null(e, random);
}

static void fill_point(expected_row *e, uint64_t *random)
{
    rs_point *point = &e->row.point;
    static const char *const parameters[] = {"{}", "{\"tau\":\"0.98\"}", "{\"a\":\"\",\"b\":\"1\",\"c\":{\"z\":[1,2]}}",
                                             "{\"\u00e9\":\"\\\"quoted\\\"\"}"};
    const char **const texts[] = {&point->workload, &point->workload_hash, &point->order,
                                  &point->grid,     &point->settings,      &point->backend,
                                  &point->device,   &point->dtype,         &point->causal};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        *texts[i] = random_text(e, random);
    point->method = "sparge-\u00b5";
    point->parameters = one_of(parameters, 4, random);
    int64_t *const sizes[] = {&point->batch,    &point->heads_q,  &point->heads_kv,
                              &point->seqlen_q, &point->seqlen_k, &point->head_dim};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        *sizes[i] = 1 + (int64_t)(next_random(random) >> (2 + next_random(random) % 50));
    point->text_tokens = (int64_t)(next_random(random) % 1000);
    point->seed = next_random(random);
    point->scale = unit_real(random) - 0.5;
    point->threads = (int)(next_random(random) % 300);
}

static void fill_facts(expected_row *e, uint64_t *random)
{
    static const char *const bases[] = {"block", "pair", NULL};
    rs_facts *f = &e->row.facts;
    *f = (rs_facts){.sparsity = real_or_unknown(1, random),
                    .sparsity_mg = real_or_unknown(1, random),
                    .sparsity_pv = real_or_unknown(1, random),
                    .sparsity_basis = one_of(bases, 3, random),
                    .pv_unit = small_count_or_unknown(random),
                    .block_q = small_count_or_unknown(random),
                    .block_k = small_count_or_unknown(random),
                    .units_visible = count_or_unknown(random),
                    .units_qk = count_or_unknown(random),
                    .units_pv_skipped = real_or_unknown(1e12, random),
                    .dense_ops = real_or_unknown(1e18, random),
                    .executed_ops = real_or_unknown(1e18, random),
                    .workspace_bytes = count_or_unknown(random),
                    .sim_q = real_or_unknown(-1, random),
                    .sim_k = real_or_unknown(1, random),
                    .error_rows = (int64_t)(next_random(random) % 3) * 1000,
                    .error_all_rows = (int)(next_random(random) % 2),
                    .rel_l1 = next_random(random) % 4 == 0 ? INFINITY : real_or_unknown(10, random),
                    .rel_l2 = real_or_unknown(10, random),
                    .cosine = real_or_unknown(next_random(random) % 2 ? 1 : -1, random),
                    .rmse = real_or_unknown(1e3, random),
                    .max_abs = real_or_unknown(1e3, random),
                    .nonfinite = count_or_unknown(random)};
}

static void add_random_visits(rs_store *store, expected_row *e, uint64_t *random)
{
    for (int32_t position = 0; position < VISITS; position++) {
        int of_stages = position == VISITS - 1;
        rs_sample samples[SAMPLES];
        for (int32_t i = 0; i < SAMPLES; i++) {
            samples[i].ns = (int64_t)(next_random(random) >> (1 + next_random(random) % 60));
            samples[i].launch = of_stages ? i / 3 : i;
            samples[i].stage = of_stages ? (rs_stage)(RS_PREPARE + i % 3) : RS_TOTAL;
            if (!of_stages)
                e->total_ns[e->total_count++] = samples[i].ns;
        }
        rs_visit visit = {.position = position,
                          .kind = of_stages ? "stages" : "total",
                          .timer = "fake",
                          .started_ns = (int64_t)(next_random(random) >> 2),
                          .launches = SAMPLES,
                          .clock_mhz = real_or_unknown(2e3, random),
                          .power_mw = real_or_unknown(7e5, random),
                          .temperature_c = real_or_unknown(90, random),
                          .flags = position == 0 ? "" : "throttled,\"odd\"",
                          .samples = samples,
                          .sample_count = SAMPLES};
        rs_error error;
        assert_ok(rs_visit_add(store, e->row.measurement_id, &visit, &error), &error);
    }
}

static void write_random_row(rs_store *store, expected_row *e, uint64_t *random)
{
    rs_error error;
    fill_run(e, random);
    fill_point(e, random);
    fill_facts(e, random);
    e->row.repro = text_or_null(e, random);
    e->row.outcome = (rs_outcome)(RS_DONE + next_random(random) % 5);
    e->row.reason = e->row.outcome == RS_DONE ? text_or_null(e, random) : "a reason";
    assert_ok(rs_run_begin(store, &e->row.run, &e->row.run.id, &error), &error);
    assert_ok(rs_point_intern(store, &e->row.point, &e->row.point.id, &error), &error);
    assert_ok(rs_measurement_begin(store, e->row.run.id, e->row.point.id, e->row.repro, &e->row.measurement_id, &error),
              &error);
    add_random_visits(store, e, random);
    assert_ok(rs_measurement_end(store, e->row.measurement_id, e->row.outcome, e->row.reason, &e->row.facts, &error),
              &error);
}

static void assert_same_text(const char *a, const char *b)
{
    if (a == NULL || b == NULL)
        assert_ptr_equal(a, b);
    else
        assert_string_equal(a, b);
}

static void assert_same_real(double a, double b)
{
    if (isnan(a) || isnan(b))
        assert_true(isnan(a) && isnan(b));
    else if (memcmp(&a, &b, sizeof a) != 0)
        fail_msg("%a is not %a", a, b);
}

static void assert_same_run(const rs_run *a, const rs_run *b)
{
    assert_int_equal(a->id, b->id);
    const char *const texts[][2] = {
        {a->started_utc, b->started_utc},
        {a->ended_utc, b->ended_utc},
        {a->status, b->status},
        {a->command, b->command},
        {a->program_version, b->program_version},
        {a->git_sha, b->git_sha},
        {a->build_type, b->build_type},
        {a->compiler, b->compiler},
        {a->compiler_flags, b->compiler_flags},
        {a->binary_sha256, b->binary_sha256},
        {a->backend, b->backend},
        {a->device_name, b->device_name},
        {a->device_uuid, b->device_uuid},
        {a->device_arch, b->device_arch},
        {a->host, b->host},
        {a->os, b->os},
        {a->cpu_model, b->cpu_model},
        {a->driver, b->driver},
        {a->cuda_runtime, b->cuda_runtime},
        {a->device_code_sha256, b->device_code_sha256},
        {a->vbios, b->vbios},
        {a->pci, b->pci},
        {a->note, b->note},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_same_text(texts[i][0], texts[i][1]);
    assert_int_equal(a->git_dirty, b->git_dirty);
    assert_int_equal(a->device_units, b->device_units);
    assert_int_equal(a->device_memory_bytes, b->device_memory_bytes);
    assert_int_equal(a->cpu_threads, b->cpu_threads);
    assert_int_equal(a->power_limit_mw, b->power_limit_mw);
    assert_int_equal(a->max_sm_clock_mhz, b->max_sm_clock_mhz);
    assert_int_equal(a->processes, b->processes);
    assert_int_equal(a->ecc, b->ecc);
    assert_int_equal(a->persistence, b->persistence);
    assert_int_equal(a->mig, b->mig);
    assert_true(a->seed == b->seed);
}

static void assert_same_point(const rs_point *a, const rs_point *b)
{
    char key[65];
    rs_error error;
    assert_ok(rs_point_key(b, key, &error), &error);
    assert_string_equal(a->key, key);
    assert_int_equal(a->id, b->id);
    const char *const texts[][2] = {
        {a->workload, b->workload}, {a->workload_hash, b->workload_hash},
        {a->order, b->order},       {a->grid, b->grid},
        {a->method, b->method},     {a->parameters, b->parameters},
        {a->settings, b->settings}, {a->backend, b->backend},
        {a->device, b->device},     {a->dtype, b->dtype},
        {a->causal, b->causal},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_same_text(texts[i][0], texts[i][1]);
    assert_int_equal(a->text_tokens, b->text_tokens);
    assert_true(a->seed == b->seed);
    assert_int_equal(a->batch, b->batch);
    assert_int_equal(a->heads_q, b->heads_q);
    assert_int_equal(a->heads_kv, b->heads_kv);
    assert_int_equal(a->seqlen_q, b->seqlen_q);
    assert_int_equal(a->seqlen_k, b->seqlen_k);
    assert_int_equal(a->head_dim, b->head_dim);
    assert_same_real(a->scale, b->scale);
    assert_int_equal(a->threads, b->threads);
}

static void assert_same_facts(const rs_facts *a, const rs_facts *b)
{
    const double reals[][2] = {
        {a->sparsity, b->sparsity},
        {a->sparsity_mg, b->sparsity_mg},
        {a->sparsity_pv, b->sparsity_pv},
        {a->units_pv_skipped, b->units_pv_skipped},
        {a->dense_ops, b->dense_ops},
        {a->executed_ops, b->executed_ops},
        {a->sim_q, b->sim_q},
        {a->sim_k, b->sim_k},
        {a->rel_l1, b->rel_l1},
        {a->rel_l2, b->rel_l2},
        {a->cosine, b->cosine},
        {a->rmse, b->rmse},
        {a->max_abs, b->max_abs},
    };
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        assert_same_real(reals[i][0], reals[i][1]);
    assert_same_text(a->sparsity_basis, b->sparsity_basis);
    assert_int_equal(a->pv_unit, b->pv_unit);
    assert_int_equal(a->block_q, b->block_q);
    assert_int_equal(a->block_k, b->block_k);
    assert_int_equal(a->units_visible, b->units_visible);
    assert_int_equal(a->units_qk, b->units_qk);
    assert_int_equal(a->workspace_bytes, b->workspace_bytes);
    assert_int_equal(a->error_rows, b->error_rows);
    assert_int_equal(a->error_all_rows, b->error_all_rows);
    assert_int_equal(a->nonfinite, b->nonfinite);
}

typedef struct reading {
    rs_store *store;
    const expected_row *expected;
    size_t count;
} reading;

static int check_row(void *user, const rs_row *row)
{
    reading *r = user;
    assert_true(r->count < ROWS);
    const expected_row *e = &r->expected[r->count++];
    assert_int_equal(row->measurement_id, e->row.measurement_id);
    assert_same_run(&row->run, &e->row.run);
    assert_same_point(&row->point, &e->row.point);
    assert_int_equal(row->outcome, e->row.outcome);
    assert_same_text(row->reason, e->row.reason);
    assert_same_text(row->repro, e->row.repro);
    assert_same_facts(&row->facts, &e->row.facts);

    int64_t *ns;
    int32_t *visit;
    size_t count;
    rs_error error;
    assert_ok(rs_samples(r->store, row->measurement_id, RS_TOTAL, &ns, &visit, &count, &error), &error);
    assert_int_equal(count, e->total_count);
    assert_memory_equal(ns, e->total_ns, count * sizeof *ns);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(visit[i], i / SAMPLES);
    free(ns);
    free(visit);
    /* Nothing that was read for the samples may have disturbed the row. */
    assert_same_text(row->point.workload, e->row.point.workload);
    assert_same_text(row->run.note, e->row.run.note);
    return 0;
}

static void random_rows_come_back(void **state)
{
    char path[PATH_SIZE];
    uint64_t random = 20260824;
    expected_row *expected = calloc(ROWS, sizeof *expected);
    assert_non_null(expected);
    rs_store *store = open_store(in_folder(*state, "random.db", path), RS_WRITE);
    for (size_t i = 0; i < ROWS; i++)
        write_random_row(store, &expected[i], &random);
    close_store(store);
    assert_one_sound_file(path);

    rs_error error;
    store = open_store(path, RS_READ);
    reading r = {.store = store, .expected = expected};
    assert_ok(rs_rows(store, check_row, &r, &error), &error);
    assert_int_equal(r.count, ROWS);
    close_store(store);
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t t = 0; t < expected[i].text_count; t++)
            free(expected[i].texts[t]);
    }
    free(expected);
}

static void stages_come_back_in_order(void **state)
{
    char path[PATH_SIZE];
    rs_error error;
    rs_store *store = open_store(in_folder(*state, "stages.db", path), RS_WRITE);
    int64_t id = begin_measurement(store, begin_run(store), 128);
    /* Given out of order, in two visits that are added out of order too. */
    const rs_sample late[] = {{70, 1, RS_ATTEND}, {60, 1, RS_SELECT}, {40, 0, RS_ATTEND}, {10, 0, RS_PREPARE}};
    const rs_sample early[] = {{7, 0, RS_ATTEND}};
    rs_visit visit = {.position = 5,
                      .kind = "stages",
                      .timer = "fake",
                      .launches = 2,
                      .samples = late,
                      .sample_count = 4,
                      .clock_mhz = NAN,
                      .power_mw = NAN,
                      .temperature_c = NAN,
                      .flags = ""};
    assert_ok(rs_visit_add(store, id, &visit, &error), &error);
    visit.position = 2;
    visit.samples = early;
    visit.sample_count = 1;
    assert_ok(rs_visit_add(store, id, &visit, &error), &error);

    int64_t *ns;
    int32_t *positions;
    size_t count;
    assert_ok(rs_samples(store, id, RS_ATTEND, &ns, &positions, &count, &error), &error);
    assert_int_equal(count, 3);
    const int64_t expected_ns[] = {7, 40, 70};
    const int32_t expected_positions[] = {2, 5, 5};
    assert_memory_equal(ns, expected_ns, sizeof expected_ns);
    assert_memory_equal(positions, expected_positions, sizeof expected_positions);
    free(ns);
    free(positions);

    assert_ok(rs_samples(store, id, RS_SELECT, &ns, NULL, &count, &error), &error);
    assert_int_equal(count, 1);
    assert_int_equal(ns[0], 60);
    free(ns);
    assert_ok(rs_samples(store, id, RS_TOTAL, NULL, &positions, &count, &error), &error);
    assert_int_equal(count, 0);
    free(positions);
    close_store(store);
}

/* More samples than the first allocation holds. */
static void long_visits_come_back_whole(void **state)
{
    enum { LONG = 5000 };
    char path[PATH_SIZE];
    rs_error error;
    rs_store *store = open_store(in_folder(*state, "long.db", path), RS_WRITE);
    int64_t id = begin_measurement(store, begin_run(store), 128);
    rs_sample *samples = malloc(LONG * sizeof *samples);
    assert_non_null(samples);
    for (int32_t i = 0; i < LONG; i++)
        samples[i] = (rs_sample){.ns = (int64_t)i * i, .launch = i, .stage = RS_TOTAL};
    rs_visit visit = {.kind = "total", .timer = "fake", .launches = LONG, .samples = samples, .sample_count = LONG};
    assert_ok(rs_visit_add(store, id, &visit, &error), &error);
    free(samples);
    int64_t *ns;
    int32_t *positions;
    size_t count;
    assert_ok(rs_samples(store, id, RS_TOTAL, &ns, &positions, &count, &error), &error);
    assert_int_equal(count, LONG);
    for (int64_t i = 0; i < LONG; i++) {
        assert_int_equal(ns[i], i * i);
        assert_int_equal(positions[i], 0);
    }
    free(ns);
    free(positions);
    close_store(store);
}

static int stop_at_second(void *user, const rs_row *row)
{
    (void)row;
    return ++*(int *)user == 2;
}

static void a_reader_may_stop(void **state)
{
    char path[PATH_SIZE];
    rs_error error;
    rs_store *store = open_store(in_folder(*state, "stop.db", path), RS_WRITE);
    int64_t run = begin_run(store);
    for (int64_t i = 1; i <= 4; i++)
        begin_measurement(store, run, i);
    int seen = 0;
    assert_ok(rs_rows(store, stop_at_second, &seen, &error), &error);
    assert_int_equal(seen, 2);
    close_store(store);
}

static int collect_document(void *user, int64_t run_id, const char *kind, const char *json)
{
    char *text = user;
    sprintf(text + strlen(text), "[%" PRId64 " %s %s]", run_id, kind, json);
    return strstr(json, "last") != NULL;
}

static void documents_come_back(void **state)
{
    char path[PATH_SIZE], text[512] = "";
    rs_error error;
    rs_store *store = open_store(in_folder(*state, "documents.db", path), RS_WRITE);
    int64_t first = begin_run(store), second = begin_run(store);
    assert_ok(rs_document_add(store, second, "similarity", "{\"q\":[0.5]}", &error), &error);
    assert_ok(rs_document_add(store, first, "other", "\"it's\"", &error), &error);
    assert_ok(rs_document_add(store, second, "similarity", "[\"last\"]", &error), &error);
    assert_ok(rs_document_add(store, first, "similarity", "1", &error), &error);
    assert_refused(rs_document_add(store, first, "similarity", "{", &error), &error, RS_ERROR_ARGUMENT, path);
    assert_refused(rs_document_add(store, 99, "similarity", "{}", &error), &error, RS_ERROR_NOT_FOUND, path);

    assert_ok(rs_documents(store, "similarity", collect_document, text, &error), &error);
    assert_string_equal(text, "[2 similarity {\"q\":[0.5]}][2 similarity [\"last\"]]");
    text[0] = '\0';
    assert_ok(rs_documents(store, "other", collect_document, text, &error), &error);
    assert_string_equal(text, "[1 other \"it's\"]");
    text[0] = '\0';
    assert_ok(rs_documents(store, "nothing", collect_document, text, &error), &error);
    assert_string_equal(text, "");
    close_store(store);
}

/* The same part of provenance is stored once; NULL and "" are different things. */
static void devices_and_builds_are_shared(void **state)
{
    char path[PATH_SIZE];
    rs_error error;
    rs_store *store = open_store(in_folder(*state, "shared.db", path), RS_WRITE);
    int64_t id;
    rs_run run = plain_run();
    for (int i = 0; i < 3; i++)
        assert_ok(rs_run_begin(store, &run, &id, &error), &error);
    run.device_uuid = "";
    assert_ok(rs_run_begin(store, &run, &id, &error), &error);
    run.git_sha = "abc";
    assert_ok(rs_run_begin(store, &run, &id, &error), &error);
    close_store(store);
    assert_int_equal(query_integer(path, "SELECT count(*) FROM device"), 2);
    assert_int_equal(query_integer(path, "SELECT count(*) FROM build"), 2);
    assert_int_equal(query_integer(path, "SELECT count(DISTINCT uuid) FROM run"), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_rows_come_back),       cmocka_unit_test(stages_come_back_in_order),
        cmocka_unit_test(long_visits_come_back_whole), cmocka_unit_test(a_reader_may_stop),
        cmocka_unit_test(documents_come_back),         cmocka_unit_test(devices_and_builds_are_shared),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
