#include "check.h"
#include "synthetic.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void must(rs_status status, const rs_error *error)
{
    if (status != RS_OK)
        fail_msg("%s", error->text);
}

double synthetic_noise(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    const double u = (double)(*state >> 11) * 0x1p-53;
    return 1 + 0.02 * (u - 0.5) + (u > 0.98 ? 0.08 : 0);
}

int64_t synthetic_begin_run(rs_store *store)
{
    int64_t id = 0;
    rs_error error;
    const rs_run run = {.started_utc = "2026-11-30T12:00:00Z",
                        .command = "sparge-bench sweep --seqlen 1k..64k --workload 'llama3.1-8b,mochi' --db demo.db",
                        .program_version = "0.1.0",
                        .git_sha = "0123456789abcdef0123456789abcdef01234567",
                        .git_dirty = 0,
                        .build_type = "Release",
                        .compiler = "gcc 12.2.0",
                        .backend = "fake",
                        .device_name = "Synthetic device",
                        .device_uuid = "none",
                        .device_arch = "fake",
                        .device_units = 1,
                        .device_memory_bytes = -1,
                        .host = "example",
                        .cpu_threads = 2,
                        .driver = "580.159.04",
                        .cuda_runtime = "13.0",
                        .seed = 1};
    must(rs_run_begin(store, &run, &id, &error), &error);
    return id;
}

rs_store *synthetic_open(const char *path, int64_t *run_id)
{
    rs_store *store = NULL;
    rs_error error;
    unlink(path);
    must(rs_open(path, RS_WRITE, &store, &error), &error);
    *run_id = synthetic_begin_run(store);
    return store;
}

static double visible_pairs(const synthetic_point *p)
{
    const double l = (double)p->seqlen;
    return strcmp(p->causal, "none") == 0 ? l * l : l * (l + 1) / 2;
}

static void add_visit(rs_store *store, int64_t measurement, const synthetic_point *p, int32_t position, int stages)
{
    rs_error error;
    uint64_t noise = (uint64_t)(p->seqlen * 31 + position) ^ (uint64_t)(p->ms * 1e6);
    rs_sample sample[256];
    size_t count = 0;
    for (int32_t launch = 0; launch < p->samples; launch++) {
        for (int s = 0; s < (stages ? 3 : 1); s++) {
            const double share = stages ? p->stage[s] : 1;
            if (share == 0)
                continue;
            sample[count++] = (rs_sample){.ns = (int64_t)(p->ms * share * 1e6 * synthetic_noise(&noise)),
                                          .launch = launch,
                                          .stage = stages ? (rs_stage)(RS_PREPARE + s) : RS_TOTAL};
        }
    }
    const rs_visit visit = {.position = position,
                            .kind = stages ? "stages" : "total",
                            .timer = "fake",
                            .launches = p->samples,
                            .clock_mhz = NAN,
                            .power_mw = NAN,
                            .temperature_c = NAN,
                            .flags = "",
                            .samples = sample,
                            .sample_count = count};
    must(rs_visit_add(store, measurement, &visit, &error), &error);
}

void synthetic_add(rs_store *store, int64_t run_id, const synthetic_point *p)
{
    rs_error error;
    int64_t point_id, measurement;
    char hash[65];
    snprintf(hash, sizeof hash, "%08x%056llx", p->edition, (unsigned long long)p->seqlen);
    const rs_point point = {.workload = p->workload,
                            .workload_hash = hash,
                            .order = p->order ? p->order : "row",
                            .grid = "",
                            .seed = 1,
                            .method = p->method,
                            .parameters = p->parameters,
                            .settings = p->settings ? p->settings : "",
                            .backend = "fake",
                            .device = "Synthetic device",
                            .batch = 1,
                            .heads_q = p->heads_q,
                            .heads_kv = p->heads_kv,
                            .seqlen_q = p->seqlen,
                            .seqlen_k = p->seqlen,
                            .head_dim = 128,
                            .dtype = "bf16",
                            .causal = p->causal,
                            .scale = 1 / sqrt(128)};
    must(rs_point_intern(store, &point, &point_id, &error), &error);
    must(rs_measurement_begin(store, run_id, point_id, "sparge-bench sweep ...", &measurement, &error), &error);
    if (p->samples > 0 && p->ms > 0) {
        add_visit(store, measurement, p, 0, 0);
        if (p->stage[2] > 0)
            add_visit(store, measurement, p, 1, 1);
    }
    const double dense_ops = 4 * 128 * visible_pairs(p) * (double)p->heads_q;
    const rs_facts facts = {.sparsity = p->sparsity,
                            .sparsity_mg = p->sparsity,
                            .sparsity_pv = 0,
                            .sparsity_basis = "block",
                            .block_q = 128,
                            .block_k = 64,
                            .units_visible = 1000,
                            .units_qk = (int64_t)(1000 * (1 - p->sparsity)),
                            .dense_ops = dense_ops,
                            .executed_ops = dense_ops * (1 - p->sparsity),
                            .workspace_bytes = 1 << 20,
                            .sim_q = NAN,
                            .sim_k = NAN,
                            .error_rows = 64,
                            .rel_l1 = p->rel_l1,
                            .rel_l2 = p->rel_l1,
                            .cosine = 1 - p->rel_l1 * p->rel_l1,
                            .rmse = p->rel_l1 / 10,
                            .max_abs = p->rel_l1};
    const int measured = p->outcome == RS_DONE;
    must(rs_measurement_end(store, measurement, p->outcome, p->reason, measured ? &facts : NULL, &error), &error);
}

void synthetic_close(rs_store *store, int64_t run_id)
{
    rs_error error;
    must(rs_run_end(store, run_id, "done", NULL, &error), &error);
    must(rs_close(store, &error), &error);
}

typedef struct synthetic_method {
    const char *name, *parameters, *settings;
    double peak_tops, overhead_ms; /* of the arithmetic; of preparing and selecting, per thousand tokens */
    double sparsity;               /* at 64k */
    double rel_l1;
} synthetic_method;

static const synthetic_method methods[] = {
    {"dense-f16", "{\"exp\":\"exact\"}", "", 650, 0, 0, 2e-4},
    {"dense-int8-fp8", "{\"exp\":\"accurate\"}", "", 800, 0.003, 0, 2.5e-2},
    {"sparge-int8-fp8", "{\"tau\":\"0.9\",\"theta\":\"0.6\"}", "tau=0.9", 780, 0.008, 0.72, 8e-2},
    {"sparge-int8-fp8", "{\"tau\":\"0.95\",\"theta\":\"0.6\"}", "tau=0.95", 780, 0.008, 0.58, 5e-2},
    {"sparge-int8-fp8", "{\"tau\":\"0.98\",\"theta\":\"0.6\"}", "", 780, 0.008, 0.41, 3.5e-2},
    {"minference-vs", "{\"slash\":\"6096\",\"vertical\":\"1000\"}", "", 420, 0.03, 0.7, 1.2e-1},
    {"flexprefill", "{\"gamma\":\"0.9\"}", "", 450, 0.02, 0.6, 9e-2},
    {"window", "{\"sink\":\"64\",\"size\":\"4096\"}", "size=4096", 640, 0, 0.93, 3e-1},
};

static void add_method(rs_store *store, int64_t run, const synthetic_method *m, int mochi, int64_t length)
{
    const double share = (double)length / 65536, sparsity = m->sparsity * pow(share, 0.35);
    synthetic_point p = {.workload = mochi ? "mochi" : "llama3.1-8b",
                         .method = m->name,
                         .parameters = m->parameters,
                         .settings = m->settings,
                         .causal = mochi ? "none" : "bottom-right",
                         .heads_q = mochi ? 24 : 32,
                         .heads_kv = mochi ? 24 : 8,
                         .seqlen = length,
                         .sparsity = sparsity,
                         .rel_l1 = m->rel_l1 * (0.5 + share / 2),
                         .samples = 20,
                         .outcome = RS_DONE};
    const double attend =
        4 * 128 * visible_pairs(&p) * (double)p.heads_q * (1 - sparsity) / (m->peak_tops * 1e9) + 0.012;
    const double before = m->overhead_ms * (double)length / 1000 + (m->overhead_ms > 0 ? 0.02 : 0);
    p.ms = attend + before;
    p.stage[0] = 0.4 * before / p.ms;
    p.stage[1] = strncmp(m->name, "dense", 5) == 0 ? 0 : 0.6 * before / p.ms;
    p.stage[2] = attend / p.ms;
    if (length == 65536 && strcmp(m->name, "minference-vs") == 0)
        p.samples = 1;
    if (mochi && strcmp(m->name, "flexprefill") == 0) {
        p.outcome = RS_SKIPPED;
        p.reason = "flexprefill needs a causal problem: causal is none";
        p.samples = 0;
    }
    synthetic_add(store, run, &p);
}

void synthetic_sweep(const char *path)
{
    static const char similarity[] =
        "{\"workload\":\"mochi\",\"method\":\"sparge-int8-fp8\",\"settings\":\"theta=0.2\",\"batch\":1,\"heads_q\":24,"
        "\"heads_kv\":24,\"head_dim\":128,\"dtype\":\"bf16\",\"causal\":\"none\",\"seed\":\"1\",\"grid\":\"13x30x56\","
        "\"text_tokens\":240,\"rows\":["
        "{\"order\":\"row\",\"sim_q\":0.551,\"sim_k\":0.39,\"sparsity\":0.363,\"rel_l1\":0.0307,\"tokens\":22080},"
        "{\"order\":\"hilbert\",\"sim_q\":0.572,\"sim_k\":0.479,\"sparsity\":0.392,\"rel_l1\":0.0389,\"tokens\":22080},"
        "{\"order\":\"column\",\"sim_q\":0.53,\"sim_k\":0.38,\"sparsity\":0.35,\"rel_l1\":0.032,\"tokens\":22080},"
        "{\"order\":\"time\",\"sim_q\":0.514,\"sim_k\":0.367,\"sparsity\":0.338,\"rel_l1\":0.0342,\"tokens\":22080},"
        "{\"order\":\"random\",\"sim_q\":0.321,\"sim_k\":0.019,\"sparsity\":0.048,\"rel_l1\":0.0414,\"tokens\":22080}]"
        "}";
    int64_t run;
    rs_error error;
    rs_store *store = synthetic_open(path, &run);
    for (int mochi = 0; mochi < 2; mochi++)
        for (int64_t length = 1024; length <= 65536; length *= 2)
            for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
                add_method(store, run, &methods[m], mochi, length);
    must(rs_run_end(store, run, "done", NULL, &error), &error);
    run = synthetic_begin_run(store); /* without measurements, as `similarity` leaves it */
    must(rs_document_add(store, run, "similarity", similarity, &error), &error);
    synthetic_close(store, run);
}
