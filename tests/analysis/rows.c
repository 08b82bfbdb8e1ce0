/* Rows: rates by hand, labels, the newest measurement of a point, the columns of the export. */
#include "check.h"
#include "rows.h"
#include "synthetic.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char database[] = "test_analysis_rows.db";

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-12 * fabs(expected)))
        fail_msg("%.17g is not %.17g", value, expected);
}

static void load(int latest, an_rows *rows)
{
    rs_error error;
    rs_store *store = NULL;
    assert_int_equal(rs_open(database, RS_READ, &store, &error), RS_OK);
    const rs_status status = an_rows_load(store, latest, rows, &error);
    assert_int_equal(rs_close(store, &error), RS_OK);
    assert_int_equal(status, RS_OK);
}

/* B = 1, Hq = 2, D = 64, 100 x 100 pairs, not causal: 4 * 64 * 10^4 * 2 = 5.12 Mops. */
static void rates_by_hand(void **unused)
{
    (void)unused;
    an_row row = {.row.facts = {.dense_ops = 5.12e6, .executed_ops = 1.28e6}};
    const int64_t total[] = {4000, 1000, 2000}, prepare[] = {500}, attend[] = {1000, 1000};
    assert_int_equal(an_row_set_samples(&row, RS_TOTAL, total, 3), 0);
    assert_int_equal(an_row_set_samples(&row, RS_PREPARE, prepare, 1), 0);
    assert_int_equal(an_row_set_samples(&row, RS_SELECT, NULL, 0), 0);
    assert_int_equal(an_row_set_samples(&row, RS_ATTEND, attend, 2), 0);
    assert_near(row.total_ms.value, 2e-3);
    assert_near(row.total_ms.low, 1e-3);
    assert_near(row.total_ms.high, 4e-3);
    assert_near(row.total_ms.coverage, 0.75);
    assert_near(row.prepare_ms.value, 0.5e-3);
    assert_true(isnan(row.prepare_ms.low));
    assert_true(isnan(row.select_ms.value));
    assert_near(row.tops, 2.56);          /* 5.12e6 / 2e-6 s = 2.56e12 */
    assert_near(row.attend_tops, 5.12);   /* 5.12e6 / 1e-6 s */
    assert_near(row.executed_tops, 1.28); /* 1.28e6 / 1e-6 s */
    assert_int_equal(row.total_count, 3);
    assert_near(row.total_ns[0], 4000); /* in order */
    free(row.total_ns);

    row = (an_row){.row.facts = {.dense_ops = NAN, .executed_ops = -1}};
    assert_int_equal(an_row_set_samples(&row, RS_TOTAL, total, 3), 0);
    assert_int_equal(an_row_set_samples(&row, RS_ATTEND, attend, 2), 0);
    assert_true(isnan(row.tops) && isnan(row.attend_tops) && isnan(row.executed_tops));
    free(row.total_ns);
}

/* All that is not at its default, whether other rows have the same or not: a reader sees no other place that says it. */
static void labels_say_every_setting(void **unused)
{
    (void)unused;
    an_row row[] = {{.row.point = {.method = "sparge-f16", .settings = "lambda=-5 topk=0.5"}},
                    {.row.point = {.method = "sparge-f16", .settings = "lambda=-5 topk=0.5"}},
                    {.row.point = {.method = "dense-f16", .settings = ""}}};
    static const char *const expected[] = {"sparge-f16 lambda=-5 topk=0.5", "sparge-f16 lambda=-5 topk=0.5",
                                           "dense-f16"};
    an_rows rows = {.row = row, .count = 3};
    for (int again = 0; again < 2; again++)
        assert_int_equal(an_rows_set_labels(&rows), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(row[i].label, expected[i]);
        free(row[i].label);
    }
}

static synthetic_point point(const char *method, int64_t seqlen, double ms)
{
    return (synthetic_point){.workload = "w",
                             .method = method,
                             .parameters = "{}",
                             .causal = "none",
                             .heads_q = 2,
                             .heads_kv = 1,
                             .seqlen = seqlen,
                             .ms = ms,
                             .stage = {0.1, 0, 0.9},
                             .sparsity = 0.25,
                             .rel_l1 = 0.01,
                             .samples = 20,
                             .outcome = RS_DONE};
}

static void make_store(void)
{
    int64_t run;
    rs_store *store = synthetic_open(database, &run);
    const synthetic_point old = point("a", 256, 2), other = point("b", 256, 1), new = point("a", 256, 4);
    synthetic_point skipped = point("c", 256, 0);
    skipped.outcome = RS_SKIPPED;
    skipped.reason = "too short: 256, limit 1024";
    skipped.samples = 0;
    synthetic_add(store, run, &old);
    synthetic_add(store, run, &other);
    synthetic_add(store, run, &skipped);
    rs_error error;
    assert_int_equal(rs_run_end(store, run, "done", NULL, &error), RS_OK);
    run = synthetic_begin_run(store);
    synthetic_add(store, run, &new);
    synthetic_close(store, run);
}

static void loading_a_store(void **unused)
{
    (void)unused;
    make_store();
    an_rows rows;
    load(0, &rows);
    assert_int_equal(rows.count, 4);
    assert_string_equal(rows.row[0].row.point.method, "a");
    assert_string_equal(rows.row[2].row.reason, "too short: 256, limit 1024");
    assert_int_equal(rows.row[2].total_count, 0);
    assert_true(isnan(rows.row[2].total_ms.value) && isnan(rows.row[2].tops));
    const an_row *r = &rows.row[1];
    assert_int_equal(r->total_count, 20);
    assert_int_equal(r->visits, 1);
    assert_true(fabs(r->total_ms.value - 1) < 0.02);
    assert_true(r->total_ms.low <= r->total_ms.value && r->total_ms.value <= r->total_ms.high);
    assert_true(fabs(r->attend_ms.value - 0.9) < 0.02);
    assert_true(isnan(r->select_ms.value)); /* the method has no such stage */
    const double dense_ops = 4.0 * 128 * 256 * 256 * 2;
    assert_near(r->tops, dense_ops / (r->total_ms.value * 1e9));
    assert_near(r->executed_tops, 0.75 * dense_ops / (r->attend_ms.value * 1e9));
    assert_string_equal(r->label, "b");
    assert_string_equal(r->row.run.device_name, "Synthetic device");
    an_rows_release(&rows);

    load(1, &rows); /* the second "a" replaces the first */
    assert_int_equal(rows.count, 3);
    assert_string_equal(rows.row[0].row.point.method, "b");
    assert_string_equal(rows.row[2].row.point.method, "a");
    assert_true(fabs(rows.row[2].total_ms.value - 4) < 0.1);
    an_rows_release(&rows);
    assert_null(rows.row);
    unlink(database);
}

static char *written(an_table *table, an_format format)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_non_null(table);
    assert_int_equal(an_table_write(table, format, out), 0);
    assert_int_equal(fclose(out), 0);
    an_table_destroy(table);
    return text;
}

static void export_columns(void **unused)
{
    (void)unused;
    static const char header[] =
        "workload,workload_hash,order,grid,text_tokens,method,parameters,settings,backend,device,batch,heads_q,"
        "heads_kv,seqlen_q,seqlen_k,head_dim,dtype,causal,seed,threads,sparsity,sparsity_mg,sparsity_pv,"
        "sparsity_basis,sim_q,sim_k,pv_unit,block_q,block_k,total_ms,total_ms_low,total_ms_high,prepare_ms,prepare_ms_"
        "low,prepare_ms_high,select_ms,"
        "select_ms_low,select_ms_high,attend_ms,attend_ms_low,attend_ms_high,samples,visits,tops,attend_tops,"
        "executed_tops,rel_l1,rel_l2,cosine,rmse,max_abs,nonfinite,error_rows,error_all_rows,workspace_bytes,status,"
        "reason,repro,run,started_utc,git_sha,point_key\r\n";
    make_store();
    an_rows rows;
    load(0, &rows);
    char *csv = written(an_rows_table(&rows), AN_CSV);
    assert_memory_equal(csv, header, sizeof header - 1);
    free(csv);

    char *text = written(an_rows_table(&rows), AN_JSON);
    json_t *whole = json_loads(text, 0, NULL);
    const json_t *done = json_array_get(json_object_get(whole, "rows"), 1);
    const json_t *skipped = json_array_get(json_object_get(whole, "rows"), 2);
    assert_string_equal(json_string_value(json_object_get(done, "status")), "done");
    assert_int_equal(json_integer_value(json_object_get(done, "seqlen_k")), 256);
    assert_true(json_real_value(json_object_get(done, "sparsity")) == 0.25);
    assert_true(json_real_value(json_object_get(done, "total_ms")) == rows.row[1].total_ms.value);
    assert_true(json_is_null(json_object_get(done, "select_ms")));
    assert_int_equal(json_integer_value(json_object_get(done, "error_all_rows")), 0);
    assert_int_equal(strlen(json_string_value(json_object_get(done, "point_key"))), 64);
    assert_string_equal(json_string_value(json_object_get(skipped, "status")), "skipped");
    static const char *const unknown[] = {"sparsity", "block_q",   "total_ms",       "tops",
                                          "rel_l1",   "nonfinite", "error_all_rows", "workspace_bytes"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_true(json_is_null(json_object_get(skipped, unknown[i])));
    json_decref(whole);
    free(text);

    char *summary = written(an_rows_summary(&rows), AN_CSV);
    assert_non_null(
        strstr(summary, "workload,seqlen,method,total_ms,ms_low,ms_high,tops,sparsity,rel_l1,status\r\nw,256,a,"));
    assert_non_null(strstr(summary, "\r\nw,256,c,,,,,,,skipped\r\n"));
    free(summary);
    an_rows_release(&rows);
    unlink(database);
}

static an_row summary_row(const char *workload, int64_t heads_q, int64_t heads_kv, uint64_t seed)
{
    return (an_row){.label = "m",
                    .row = {.point = {.workload = workload,
                                      .order = "row",
                                      .batch = 1,
                                      .heads_q = heads_q,
                                      .heads_kv = heads_kv,
                                      .seqlen_q = 64,
                                      .head_dim = 64,
                                      .dtype = "f16",
                                      .causal = "none",
                                      .parameters = "{\"theta\":\"0.6\"}",
                                      .device = "d",
                                      .seed = seed},
                            .outcome = RS_DONE,
                            .facts = {.sparsity = 0, .sim_q = NAN, .sim_k = NAN}}};
}

static void the_summary_shows_what_varies(void **unused)
{
    (void)unused;
    an_row row[] = {summary_row("a", 32, 8, 1), summary_row("a", 32, 8, 1), summary_row("b", 4, 4, 1)};
    const an_rows rows = {.row = row, .count = 3};
    char *text = written(an_rows_summary(&rows), AN_CSV);
    assert_non_null(strstr(text, "workload,seqlen,method,")); /* b has other heads, which is no axis of a sweep */
    free(text);
    row[1].row.point.heads_q = row[1].row.point.heads_kv = 16;
    row[1].row.point.seed = UINT64_MAX;
    text = written(an_rows_summary(&rows), AN_CSV);
    assert_non_null(strstr(text, "workload,heads,seed,seqlen,method,"));
    assert_non_null(strstr(text, "\r\na,32/8,1,64,m,"));
    assert_non_null(strstr(text, "\r\na,16,18446744073709551615,64,m,"));
    assert_non_null(strstr(text, "\r\nb,4,1,64,m,"));
    free(text);
    struct {
        const char *name, **value;
    } texts[] = {{"order", &row[1].row.point.order},
                 {"dtype", &row[1].row.point.dtype},
                 {"causal", &row[1].row.point.causal},
                 {"device", &row[1].row.point.device}};
    for (size_t i = 0; i < 4; i++) {
        row[1] = row[0];
        *texts[i].value = "other";
        char header[64];
        snprintf(header, sizeof header, "workload,%s,seqlen,", texts[i].name);
        text = written(an_rows_summary(&rows), AN_CSV);
        assert_non_null(strstr(text, header));
        free(text);
    }
    row[1] = row[0];
    row[1].row.point.batch = row[1].row.point.head_dim = row[1].row.point.threads = 7;
    text = written(an_rows_summary(&rows), AN_CSV);
    assert_non_null(strstr(text, "workload,batch,head_dim,threads,seqlen,"));
    free(text);
}

static void notes_tell_of_blocks_below_theta(void **unused)
{
    (void)unused;
    an_row row[] = {summary_row("a", 1, 1, 1), summary_row("a", 1, 1, 1)};
    const an_rows rows = {.row = row, .count = 2};
    row[0].row.facts.sim_q = 0.7; /* above theta: something else kept it from skipping */
    row[0].row.facts.sim_k = 0.65;
    assert_false(an_rows_have_notes(&rows));
    row[1].row.facts.sim_q = 0.7;
    row[1].row.facts.sim_k = 0.25;
    assert_true(an_rows_have_notes(&rows));
    char *text = written(an_rows_summary(&rows), AN_CSV);
    assert_non_null(strstr(text, ",status,note\r\n"));
    assert_non_null(strstr(text, ",done,\r\n"));
    assert_non_null(strstr(text, ",done,\"blocks too unlike: sim_q 0.700, sim_k 0.250, theta 0.6\"\r\n"));
    free(text);
    static const char *const no_theta[] = {"{}", "{\"theta\":\"\"}", "{\"theta\":\"per-head:0123456789abcdef\"}",
                                           "{\"theta\":\"-1\"}"};
    for (size_t i = 0; i < 4; i++) {
        row[1].row.point.parameters = no_theta[i];
        assert_false(an_rows_have_notes(&rows));
    }
    row[1].row.point.parameters = row[0].row.point.parameters;
    row[1].row.facts.sparsity_mg = 0.01; /* some were skipped */
    assert_false(an_rows_have_notes(&rows));
    row[1].row.facts.sparsity_mg = 0;
    row[1].row.outcome = RS_FAILED;
    assert_false(an_rows_have_notes(&rows));
}

static void long_times_have_no_exponent(void **unused)
{
    (void)unused;
    an_row row = summary_row("a", 1, 1, 1);
    const an_rows rows = {.row = &row, .count = 1};
    row.total_ms = (an_estimate){123456.7, 9999.6, 1613.2, 0.95};
    row.tops = 0.00012346;
    char *text = written(an_rows_summary(&rows), AN_MARKDOWN);
    assert_non_null(strstr(text, "| 123457 | 10000 | 1613 | 0.0001235 |"));
    free(text);
}

static void large_seeds_stay_whole(void **unused)
{
    (void)unused;
    an_row row = {.row = {.point = {.seed = UINT64_MAX}}};
    const an_rows rows = {.row = &row, .count = 1};
    char *csv = written(an_rows_table(&rows), AN_CSV);
    assert_non_null(strstr(csv, ",18446744073709551615,"));
    free(csv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_by_hand),
        cmocka_unit_test(labels_say_every_setting),
        cmocka_unit_test(loading_a_store),
        cmocka_unit_test(export_columns),
        cmocka_unit_test(the_summary_shows_what_varies),
        cmocka_unit_test(notes_tell_of_blocks_below_theta),
        cmocka_unit_test(long_times_have_no_exponent),
        cmocka_unit_test(large_seeds_stay_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
