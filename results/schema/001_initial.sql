-- Version 1 of the results store. The files of this folder are the migrations: number N brings a file of version N-1 to
-- version N, in one transaction. A file that has been released is never edited; a change is a new file.
-- Columns, units and example queries: docs/schema.md. Unknown is always NULL.

PRAGMA application_id = 1399874114; -- "SpbB"

-- What ran: one row for each distinct machine part that executed a run.
CREATE TABLE device (
    id           INTEGER PRIMARY KEY,
    backend      TEXT,
    name         TEXT,
    uuid         TEXT,
    arch         TEXT,
    units        INTEGER CONSTRAINT "device units must not be negative" CHECK (units >= 0),
    memory_bytes INTEGER CONSTRAINT "device memory must not be negative" CHECK (memory_bytes >= 0)
) STRICT;

-- One row for each distinct device. A blob stands for NULL because it equals no text and no number.
CREATE UNIQUE INDEX device_identity ON device (
    ifnull(backend, x''), ifnull(name, x''), ifnull(uuid, x''), ifnull(arch, x''), ifnull(units, x''),
    ifnull(memory_bytes, x''));

-- The program: one row for each distinct build.
CREATE TABLE build (
    id              INTEGER PRIMARY KEY,
    program_version TEXT,
    git_sha         TEXT,
    git_dirty       INTEGER CONSTRAINT "git_dirty must be 0 or 1" CHECK (git_dirty IN (0, 1)),
    build_type      TEXT,
    compiler        TEXT,
    compiler_flags  TEXT,
    binary_sha256   TEXT
) STRICT;

CREATE UNIQUE INDEX build_identity ON build (
    ifnull(program_version, x''), ifnull(git_sha, x''), ifnull(git_dirty, x''), ifnull(build_type, x''),
    ifnull(compiler, x''), ifnull(compiler_flags, x''), ifnull(binary_sha256, x''));

-- One execution of the program that wrote results. uuid is what makes it the same run in every file.
CREATE TABLE run (
    id           INTEGER PRIMARY KEY,
    uuid         TEXT NOT NULL UNIQUE
                 CONSTRAINT "run uuid must be 32 hex digits" CHECK (length(uuid) = 32 AND uuid NOT GLOB '*[^0-9a-f]*'),
    started_utc  TEXT CONSTRAINT "started_utc must be an ISO 8601 time"
                 CHECK (started_utc GLOB '[0-9][0-9][0-9][0-9]-*' AND julianday(started_utc) > 0),
    ended_utc    TEXT CONSTRAINT "ended_utc must be an ISO 8601 time"
                 CHECK (ended_utc GLOB '[0-9][0-9][0-9][0-9]-*' AND julianday(ended_utc) > 0),
    status       TEXT NOT NULL CONSTRAINT "run status must be running, done, partial or failed"
                 CHECK (status IN ('running', 'done', 'partial', 'failed')),
    command      TEXT,
    build_id     INTEGER NOT NULL REFERENCES build (id),
    device_id    INTEGER NOT NULL REFERENCES device (id),
    host         TEXT,
    os           TEXT,
    cpu_model    TEXT,
    cpu_threads  INTEGER CONSTRAINT "cpu_threads must not be negative" CHECK (cpu_threads >= 0),
    driver       TEXT,
    cuda_runtime TEXT,
    seed         TEXT NOT NULL CONSTRAINT "seed must be decimal digits"
                 CHECK (length(seed) > 0 AND seed NOT GLOB '*[^0-9]*'),
    note         TEXT
) STRICT;

-- What is measured, independent of when. key is the SHA-256 of all the other columns but settings, which follows from
-- method and parameters.
CREATE TABLE point (
    id            INTEGER PRIMARY KEY,
    key           TEXT NOT NULL UNIQUE
                  CONSTRAINT "point key must be 64 hex digits" CHECK (length(key) = 64 AND key NOT GLOB '*[^0-9a-f]*'),
    workload      TEXT NOT NULL,
    workload_hash TEXT NOT NULL,
    token_order   TEXT NOT NULL,
    grid          TEXT NOT NULL,
    text_tokens   INTEGER NOT NULL CONSTRAINT "text_tokens must not be negative" CHECK (text_tokens >= 0),
    seed          TEXT NOT NULL CONSTRAINT "seed must be decimal digits"
                  CHECK (length(seed) > 0 AND seed NOT GLOB '*[^0-9]*'),
    method        TEXT NOT NULL CONSTRAINT "method must be named" CHECK (length(method) > 0),
    parameters    TEXT NOT NULL CONSTRAINT "parameters must be a JSON object"
                  CHECK (json_valid(parameters) AND json_type(parameters) = 'object'),
    settings      TEXT NOT NULL, -- the parameters that differ from their defaults: "sink=on topk=0.25"
    backend       TEXT NOT NULL,
    device        TEXT NOT NULL,
    batch         INTEGER NOT NULL CONSTRAINT "batch must be positive" CHECK (batch > 0),
    heads_q       INTEGER NOT NULL CONSTRAINT "heads_q must be positive" CHECK (heads_q > 0),
    heads_kv      INTEGER NOT NULL CONSTRAINT "heads_kv must be positive" CHECK (heads_kv > 0),
    seqlen_q      INTEGER NOT NULL CONSTRAINT "seqlen_q must be positive" CHECK (seqlen_q > 0),
    seqlen_k      INTEGER NOT NULL CONSTRAINT "seqlen_k must be positive" CHECK (seqlen_k > 0),
    head_dim      INTEGER NOT NULL CONSTRAINT "head_dim must be positive" CHECK (head_dim > 0),
    dtype         TEXT NOT NULL,
    causal        TEXT NOT NULL,
    scale         REAL NOT NULL,
    threads       INTEGER NOT NULL CONSTRAINT "threads must not be negative" CHECK (threads >= 0)
) STRICT;

-- One point in one run: how it ended, what it computed and how well.
CREATE TABLE measurement (
    id               INTEGER PRIMARY KEY,
    run_id           INTEGER NOT NULL REFERENCES run (id),
    point_id         INTEGER NOT NULL REFERENCES point (id),
    outcome          TEXT NOT NULL CONSTRAINT "outcome must be running, done, skipped, partial, failed or unmeasured"
                     CHECK (outcome IN ('running', 'done', 'skipped', 'partial', 'failed', 'unmeasured')),
    reason           TEXT,
    repro            TEXT,
    sparsity         REAL CONSTRAINT "sparsity must be in 0..1" CHECK (sparsity BETWEEN -1e-9 AND 1 + 1e-9),
    sparsity_mg      REAL CONSTRAINT "sparsity_mg must be in 0..1" CHECK (sparsity_mg BETWEEN -1e-9 AND 1 + 1e-9),
    sparsity_pv      REAL CONSTRAINT "sparsity_pv must be in 0..1" CHECK (sparsity_pv BETWEEN -1e-9 AND 1 + 1e-9),
    sparsity_basis   TEXT CONSTRAINT "sparsity_basis must be block or pair" CHECK (sparsity_basis IN ('block', 'pair')),
    pv_unit          INTEGER CONSTRAINT "pv_unit must not be negative" CHECK (pv_unit >= 0),
    block_q          INTEGER CONSTRAINT "block_q must not be negative" CHECK (block_q >= 0),
    block_k          INTEGER CONSTRAINT "block_k must not be negative" CHECK (block_k >= 0),
    units_visible    INTEGER CONSTRAINT "units_visible must not be negative" CHECK (units_visible >= 0),
    units_qk         INTEGER CONSTRAINT "units_qk must not be negative" CHECK (units_qk >= 0),
    units_pv_skipped REAL CONSTRAINT "units_pv_skipped must not be negative" CHECK (units_pv_skipped >= 0),
    dense_ops        REAL CONSTRAINT "dense_ops must not be negative" CHECK (dense_ops >= 0),
    executed_ops     REAL CONSTRAINT "executed_ops must not be negative" CHECK (executed_ops >= 0),
    workspace_bytes  INTEGER CONSTRAINT "workspace_bytes must not be negative" CHECK (workspace_bytes >= 0),
    sim_q            REAL,
    sim_k            REAL,
    error_rows       INTEGER CONSTRAINT "error_rows must not be negative" CHECK (error_rows >= 0),
    error_all_rows   INTEGER CONSTRAINT "error_all_rows must be 0 or 1" CHECK (error_all_rows IN (0, 1)),
    rel_l1           REAL CONSTRAINT "rel_l1 must not be negative" CHECK (rel_l1 >= 0),
    rel_l2           REAL CONSTRAINT "rel_l2 must not be negative" CHECK (rel_l2 >= 0),
    cosine           REAL CONSTRAINT "cosine must be in -1..1" CHECK (cosine BETWEEN -1 - 1e-9 AND 1 + 1e-9),
    rmse             REAL CONSTRAINT "rmse must not be negative" CHECK (rmse >= 0),
    max_abs          REAL CONSTRAINT "max_abs must not be negative" CHECK (max_abs >= 0),
    nonfinite        INTEGER CONSTRAINT "nonfinite must not be negative" CHECK (nonfinite >= 0),
    CONSTRAINT "a point is measured once in a run" UNIQUE (run_id, point_id),
    CONSTRAINT "skipped, failed and unmeasured need a reason"
    CHECK (outcome NOT IN ('skipped', 'failed', 'unmeasured') OR ifnull(length(reason), 0) > 0)
) STRICT;

CREATE INDEX measurement_of_point ON measurement (point_id);

-- K back-to-back timed launches of a point.
CREATE TABLE visit (
    id             INTEGER PRIMARY KEY,
    measurement_id INTEGER NOT NULL REFERENCES measurement (id),
    position       INTEGER NOT NULL CONSTRAINT "visit position must not be negative" CHECK (position >= 0),
    kind           TEXT NOT NULL CONSTRAINT "visit kind must be total or stages" CHECK (kind IN ('total', 'stages')),
    timer          TEXT NOT NULL,
    started_ns     INTEGER NOT NULL,
    launches       INTEGER NOT NULL CONSTRAINT "launches must be positive" CHECK (launches > 0),
    clock_mhz      REAL CONSTRAINT "clock_mhz must not be negative" CHECK (clock_mhz >= 0),
    power_mw       REAL CONSTRAINT "power_mw must not be negative" CHECK (power_mw >= 0),
    temperature_c  REAL,
    flags          TEXT NOT NULL,
    UNIQUE (measurement_id, position)
) STRICT;

-- One timed launch, or one stage of it. The order of a measurement's samples is (visit.position, launch).
CREATE TABLE sample (
    visit_id INTEGER NOT NULL REFERENCES visit (id),
    launch   INTEGER NOT NULL CONSTRAINT "launch must not be negative" CHECK (launch >= 0),
    stage    TEXT NOT NULL CONSTRAINT "stage must be total, prepare, select or attend"
             CHECK (stage IN ('total', 'prepare', 'select', 'attend')),
    ns       INTEGER NOT NULL CONSTRAINT "ns must not be negative" CHECK (ns >= 0),
    PRIMARY KEY (visit_id, launch, stage)
) STRICT, WITHOUT ROWID;

-- Results that are not sweeps, as JSON. position counts the documents of a run from 0.
CREATE TABLE document (
    id       INTEGER PRIMARY KEY,
    run_id   INTEGER NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL CONSTRAINT "document position must not be negative" CHECK (position >= 0),
    kind     TEXT NOT NULL CONSTRAINT "document kind must be named" CHECK (length(kind) > 0),
    json     TEXT NOT NULL CONSTRAINT "document must be valid JSON" CHECK (json_valid(json)),
    UNIQUE (run_id, position)
) STRICT;

-- Median of the samples of each stage of each measurement; of an even number, the mean of the middle two.
CREATE VIEW stage_medians AS
WITH ranked AS (
    SELECT visit.measurement_id AS measurement_id, sample.stage AS stage, sample.ns AS ns,
           row_number() OVER of_stage AS rank,
           count(*) OVER (PARTITION BY visit.measurement_id, sample.stage) AS samples
    FROM sample JOIN visit ON visit.id = sample.visit_id
    WINDOW of_stage AS (PARTITION BY visit.measurement_id, sample.stage ORDER BY sample.ns)
)
SELECT measurement_id, stage, samples, avg(ns) AS median_ns
FROM ranked
WHERE rank IN ((samples + 1) / 2, samples / 2 + 1)
GROUP BY measurement_id, stage;

-- One flat row for each measurement: the columns of `sparge-bench export` (without the intervals), under its names.
CREATE VIEW results AS
WITH medians AS (
    SELECT measurement_id,
           max(samples) FILTER (WHERE stage = 'total') AS samples,
           max(median_ns) FILTER (WHERE stage = 'total') / 1e6 AS total_ms,
           max(median_ns) FILTER (WHERE stage = 'prepare') / 1e6 AS prepare_ms,
           max(median_ns) FILTER (WHERE stage = 'select') / 1e6 AS select_ms,
           max(median_ns) FILTER (WHERE stage = 'attend') / 1e6 AS attend_ms
    FROM stage_medians GROUP BY measurement_id
)
SELECT
    point.workload, point.workload_hash, point.token_order AS "order", point.grid, point.text_tokens,
    point.method, point.parameters, point.settings, point.backend, point.device,
    point.batch, point.heads_q, point.heads_kv, point.seqlen_q, point.seqlen_k, point.head_dim,
    point.dtype, point.causal, point.seed, point.threads,
    m.sparsity, m.sparsity_mg, m.sparsity_pv, m.sparsity_basis, m.sim_q, m.sim_k,
    m.pv_unit, m.block_q, m.block_k,
    medians.total_ms, medians.prepare_ms, medians.select_ms, medians.attend_ms,
    ifnull(medians.samples, 0) AS samples,
    (SELECT count(*) FROM visit WHERE visit.measurement_id = m.id AND visit.kind = 'total') AS visits,
    m.dense_ops / (medians.total_ms * 1e9) AS tops,
    m.dense_ops / (medians.attend_ms * 1e9) AS attend_tops,
    m.executed_ops / (medians.attend_ms * 1e9) AS executed_tops,
    m.rel_l1, m.rel_l2, m.cosine, m.rmse, m.max_abs, m.nonfinite, m.error_rows, m.error_all_rows, m.workspace_bytes,
    m.outcome AS status, m.reason, m.repro,
    run.id AS run, run.started_utc, build.git_sha, point.key AS point_key, m.id AS measurement_id
FROM measurement AS m
JOIN run ON run.id = m.run_id
JOIN build ON build.id = run.build_id
JOIN point ON point.id = m.point_id
LEFT JOIN medians ON medians.measurement_id = m.id;
