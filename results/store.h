/* The results store: one SQLite file that holds everything a run measured. Schema: results/schema/, docs/schema.md.
 *
 * Writers: rs_open -> rs_run_begin -> per point: rs_point_intern, rs_measurement_begin, rs_visit_add ... ,
 * rs_measurement_end -> rs_run_end -> rs_close. Every rs_* call that writes is one transaction: it has happened entirely
 * or not at all, also if the process is killed. Two processes may write to one file at once.
 * A closed file is one file: the last writer checkpoints it and leaves WAL mode. */
#ifndef RESULTS_STORE_H
#define RESULTS_STORE_H

#include <stddef.h>
#include <stdint.h>

typedef enum rs_status {
    RS_OK = 0,
    RS_ERROR_ARGUMENT,  /* a value the schema forbids */
    RS_ERROR_NOT_FOUND, /* no such file, no such row */
    RS_ERROR_FOREIGN,   /* not a sparge-bench results file */
    RS_ERROR_NEWER,     /* written by a newer version: user_version above ours */
    RS_ERROR_READ_ONLY, /* file or folder not writable */
    RS_ERROR_FULL,      /* disk full; nothing was lost that had been committed */
    RS_ERROR_BUSY,      /* locked by another process for longer than the timeout */
    RS_ERROR_CORRUPT,
    RS_ERROR_OTHER
} rs_status;

typedef struct rs_error {
    rs_status status;
    char text[512]; /* one line that names the file */
} rs_error;

typedef struct rs_store rs_store;

typedef enum rs_mode { RS_READ = 0, RS_WRITE /* creates the file if it is missing */ } rs_mode;

/* A file of an older version is brought up to date when it is opened for writing; opened for reading, it stays as it is, and
 * what it lacks is not known. */
rs_status rs_open(const char *path, rs_mode mode, rs_store **store, rs_error *error);
rs_status rs_close(rs_store *store, rs_error *error); /* frees the store in any case */

/* Provenance of a run. Pointers may be NULL = unknown. Times are UTC, ISO 8601. */
typedef struct rs_run {
    int64_t id;
    const char *started_utc, *ended_utc;
    const char *status;  /* "running", "done", "partial" (interrupted), "failed" */
    const char *command; /* the whole command line, shell-quoted */
    const char *program_version, *git_sha;
    int git_dirty; /* -1 unknown */
    const char *build_type, *compiler, *compiler_flags, *binary_sha256;
    const char *backend, *device_name, *device_uuid, *device_arch;
    int device_units;
    int64_t device_memory_bytes;
    const char *host, *os, *cpu_model;
    int cpu_threads;
    const char *driver, *cuda_runtime; /* NULL on the CPU */
    const char *device_code_sha256;    /* of the machine code that the device runs; NULL on the CPU */
    /* The device when the run began; -1 and NULL unknown. */
    int64_t power_limit_mw;
    int max_sm_clock_mhz, ecc, persistence, mig, processes;
    const char *vbios, *pci;
    uint64_t seed;
    const char *note; /* capabilities missing in this run, with reasons */
} rs_run;

/* A run of which nothing is known but that it is running. */
rs_run rs_run_unknown(void);
rs_status rs_run_begin(rs_store *store, const rs_run *run, int64_t *run_id, rs_error *error);
rs_status rs_run_end(rs_store *store, int64_t run_id, const char *status, const char *note, rs_error *error);
/* Ends a run whose process is gone: partial, and when it ended stays unknown. Nothing happens to a run that has ended. */
rs_status rs_run_abandon(rs_store *store, int64_t run_id, rs_error *error);

/* A point: what is measured, independent of when. Equal points (all fields below but settings) share one row and one
 * key. */
typedef struct rs_point {
    int64_t id;
    const char *key;           /* out: SHA-256 of the canonical text of all fields, hex */
    const char *workload;      /* name as asked */
    const char *workload_hash; /* wl_workload.hash */
    const char *order;         /* token order */
    const char *grid;          /* "13x30x45", "" without a grid */
    int64_t text_tokens;
    uint64_t seed;
    const char *method;
    const char *parameters;       /* canonical JSON object of all parameters, keys sorted: {"tau":"0.98",...} */
    const char *settings;         /* those that differ from their defaults, sorted: "sink=on topk=0.25", or "" */
    const char *backend, *device; /* device = name */
    int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_k, head_dim;
    const char *dtype, *causal;
    double scale;
    int threads; /* CPU threads, 0 on a GPU */
} rs_point;

/* The key that rs_point_intern would give: hex, 64 digits. Equal fields, equal key, on every machine. */
rs_status rs_point_key(const rs_point *point, char key[65], rs_error *error);
rs_status rs_point_intern(rs_store *store, const rs_point *point, int64_t *point_id, rs_error *error);

/* A measurement: one point in one run, at most once. */
typedef enum rs_outcome {
    RS_RUNNING = 0, /* begun; a killed process leaves this behind, `sweep` takes it up again */
    RS_DONE,
    RS_SKIPPED,   /* the method cannot do the problem; reason */
    RS_PARTIAL,   /* interrupted; the committed visits stand */
    RS_FAILED,    /* error, or an output that did not pass its check; reason */
    RS_UNMEASURED /* ran, but the times are not to be trusted; reason */
} rs_outcome;
const char *rs_outcome_name(rs_outcome outcome); /* "running", "done", "skipped", ... as stored */

rs_status rs_measurement_begin(rs_store *store, int64_t run_id, int64_t point_id, const char *repro,
                               int64_t *measurement_id, rs_error *error);

/* A visit: K back-to-back launches. kind "total": one sample a launch of the whole method; kind "stages": the stages
 * timed one by one. Samples keep their order. */
typedef enum rs_stage { RS_TOTAL = 0, RS_PREPARE, RS_SELECT, RS_ATTEND } rs_stage;
const char *rs_stage_name(rs_stage stage); /* "total", "prepare", ... */
typedef struct rs_sample {
    int64_t ns;
    int32_t launch; /* 0..K-1 */
    rs_stage stage;
} rs_sample;
typedef struct rs_visit {
    int32_t position;   /* order of the visits of this measurement, from 0 */
    const char *kind;   /* "total", "stages" */
    const char *timer;  /* "monotonic-raw", "cuda-event", "fake" */
    int64_t started_ns; /* since the run began */
    int32_t launches;
    double clock_mhz, memory_clock_mhz, power_mw, temperature_c; /* NAN = not known */
    /* Of the visit; -1 = not known. Energy, and for how long the device held its clocks down, by reason. */
    int64_t energy_mj, power_capped_ns, software_thermal_ns, hardware_thermal_ns, power_braked_ns;
    const char *flags; /* "" or comma-separated words */
    const rs_sample *samples;
    size_t sample_count;
} rs_visit;
rs_status rs_visit_add(rs_store *store, int64_t measurement_id, const rs_visit *visit, rs_error *error);

/* What the point computed and how well; written with the outcome. NAN or -1 = not known. */
typedef struct rs_facts {
    double sparsity, sparsity_mg, sparsity_pv;
    const char *sparsity_basis; /* "block", "pair", NULL */
    int32_t pv_unit, block_q, block_k;
    int64_t units_visible, units_qk;
    double units_pv_skipped;
    double dense_ops, executed_ops; /* of one launch, all batches and heads */
    int64_t workspace_bytes;
    double sim_q, sim_k;
    /* error against exact attention */
    int64_t error_rows; /* query rows compared, per head; 0 = none */
    int error_all_rows;
    double rel_l1, rel_l2, cosine, rmse, max_abs;
    int64_t nonfinite;
} rs_facts;
/* `facts` may be NULL: those written before stay. reason: required for skipped, failed and unmeasured. Only a running or
 * partial measurement can be ended or take visits. */
rs_status rs_measurement_end(rs_store *store, int64_t measurement_id, rs_outcome outcome, const char *reason,
                             const rs_facts *facts, rs_error *error);

/* Has this point a finished measurement (done, skipped, failed or unmeasured)? For resuming. Gives the newest finished
 * one; without one, the newest unfinished one (running, partial), which takes further visits; without any, RS_RUNNING,
 * *measurement_id 0. *visits: how many it has; the next one has this position. */
rs_status rs_point_state(rs_store *store, const char *point_key, rs_outcome *outcome, int64_t *measurement_id,
                         int32_t *visits, rs_error *error);

/* Every run, in the order they were begun; also those without measurements. Strings live until the callback returns; a
 * non-zero return stops and is not an error. */
typedef int (*rs_run_fn)(void *user, const rs_run *run);
rs_status rs_runs(rs_store *store, rs_run_fn fn, void *user, rs_error *error);

/* Reading. One row per measurement, in the order they were begun; samples on demand. Strings live until the callback
 * returns; a non-zero return stops and is not an error. */
typedef struct rs_row {
    int64_t measurement_id;
    rs_run run;
    rs_point point;
    rs_outcome outcome;
    const char *reason, *repro;
    rs_facts facts;
} rs_row;
typedef int (*rs_row_fn)(void *user, const rs_row *row);
rs_status rs_rows(rs_store *store, rs_row_fn fn, void *user, rs_error *error);

/* All samples of one stage of one measurement, in order of visit and launch. Free *ns and *visit with free().
 * RS_TOTAL comes from "total" visits, the stages from "stages" visits. Either pointer array may be NULL to skip it. */
rs_status rs_samples(rs_store *store, int64_t measurement_id, rs_stage stage, int64_t **ns, int32_t **visit,
                     size_t *count, rs_error *error);

/* Copies every run of `from` that `to` does not have yet (runs are identified by a random 128-bit id), with its
 * measurements and documents; one transaction a run, so that merging again goes on where it stopped. A run that both
 * have counts as present: what is unfinished in `to` takes the visits and the outcome that it has in `from`. */
rs_status rs_merge(rs_store *to, rs_store *from, int64_t *runs_added, int64_t *runs_present, rs_error *error);

/* Generic key-value and JSON results that are not sweeps (similarity tables, ...). kind: "similarity". */
rs_status rs_document_add(rs_store *store, int64_t run_id, const char *kind, const char *json, rs_error *error);
typedef int (*rs_document_fn)(void *user, int64_t run_id, const char *kind, const char *json);
/* In the order they were added; kind NULL: all. A non-zero return stops and is not an error. */
rs_status rs_documents(rs_store *store, const char *kind, rs_document_fn fn, void *user, rs_error *error);

#endif
