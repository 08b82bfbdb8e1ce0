# sweep and verify as a user runs them; their parts are tested in tests/harness.
load common

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" # bats keeps files of its own in the folder above
    cd "$BATS_TEST_TMPDIR/work"
}

# A sweep of two points on the real CPU.
cpu_sweep() {
    sb sweep --backend cpu --threads 1 --workload random --heads 1 --head-dim 64 --seqlen 128 \
        --method dense-f16,window --visits 3 --launches 1 --db cpu.db "$@"
}

runs_of() {
    python3 -c 'import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM run").fetchone()[0])' "$1"
}

@test "sweep measures, prints a summary and leaves one file" {
    run --separate-stderr cpu_sweep --format json
    [ "$status" -eq 0 ]
    json '[row["method"] for row in data["rows"]] == ["dense-f16", "window"]'
    json 'all(row["status"] == "done" and row["total_ms"] > 0 and row["rel_l1"] < 0.01 for row in data["rows"])'
    [ "$(echo cpu.db*)" = cpu.db ]
}

@test "a reader that goes away leaves one file" {
    # More than a pipe's buffer of stdio takes, so that the summary meets the closed pipe while it is printed.
    run bash -c '("$SPARGE_BENCH" sweep --backend fake --threads 1 --workload random --heads 1 --head-dim 64 \
        --seqlen 16..640+16 --method dense-f16 --visits 3 --format json --db piped.db 2>/dev/null; echo "$?" >code) | :
        cat code'
    [ "$output" -eq 141 ]
    [ "$(echo piped.db*)" = piped.db ]
    fine export piped.db --format json
    json 'len(data["rows"]) == 40'
}

@test "the same command measures nothing twice" {
    cpu_sweep >/dev/null
    cpu_sweep >/dev/null
    fine export cpu.db --all --format json
    json 'len(data["rows"]) == 2'
    [ "$(runs_of cpu.db)" -eq 1 ] # nothing to do, no run
    cpu_sweep --fresh >/dev/null
    fine export cpu.db --all --format json
    json 'len(data["rows"]) == 4'
    [ "$(runs_of cpu.db)" -eq 2 ]
}

@test "each row's command repeats its point" {
    cpu_sweep >/dev/null
    local repro
    repro=$(sb export cpu.db --where method=window --format json |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["rows"][0]["repro"])')
    [[ $repro == "sparge-bench sweep "* ]]
    run bash -c 'sparge-bench() { "$SPARGE_BENCH" "$@"; }; eval "$1"' bash "$repro"
    [ "$status" -eq 0 ]
    [ "$(sb export cpu.db --where method=window --format json | grep -o '"point_key":"[^"]*"')" = \
        "$(sb export repro.db --format json | grep -o '"point_key":"[^"]*"')" ]
}

@test "a dry run writes nothing" {
    run --separate-stderr sb sweep --backend fake --min-time .05 --seqlen 1k..4k --method dense-f16 --dry-run --format json
    [ "$status" -eq 0 ]
    json 'len(data["rows"]) == 3'
    [ -z "$(ls)" ]
}

@test "a method that fails is recorded and the sweep goes on" {
    SPARGE_FAKE=fail=dense-f16 run --separate-stderr fake_sweep broken.db
    [ "$status" -eq 4 ]
    fine export broken.db --format json
    json '{(row["method"], row["status"]) for row in data["rows"]} == {("dense-f16", "failed"), ("sparge-f16", "done")}'
    json 'all(row["reason"] for row in data["rows"] if row["status"] == "failed")'
}

@test "mistakes on sweep's command line are told in one line" {
    refused 2 "sweep needs --db FILE" sweep --seqlen 1k
    refused 2 "unknown method 'sparge-int8-fp9'; did you mean 'sparge-int8-fp8'?" sweep --db x.db --method sparge-int8-fp9
    refused 2 "unknown workload 'mochy'; did you mean 'mochi'?" sweep --db x.db --workload mochy
    refused 2 "--seqlen 8k..100k" sweep --db x.db --seqlen 8k..100k
    refused 2 "--dtype: 'f8' is neither f16 nor bf16" sweep --db x.db --dtype f8
    refused 2 "--causal: 'yes' is none of" sweep --db x.db --causal yes
    refused 2 "the range 1k.. has no end" sweep --db x.db --seqlen 1k..
    refused 2 "must be one of auto, " sweep --db x.db --seqlen 128 --backend gpu
    [[ $stderr != *fake* ]]
    refused 2 "tau" sweep --db x.db --method sparge-f16 --set tau=2
    refused 2 "both 'sparge-f16' and 'sparge-int8-f16' have this parameter" \
        sweep --db x.db --method sparge-f16,sparge-int8-f16 --set tau=0.9
    refused 2 "--visits" sweep --db x.db --visits=-1
    refused 2 "backend gpu: unknown" sweep --db x.db --backend gpu
    refused 3 "device 7" sweep --db x.db --backend cpu --device 7
    refused 3 "/no/such/folder/x.db" sweep --db /no/such/folder/x.db --backend fake --seqlen 128 --heads 1
    [ -z "$(ls)" ]
}

@test "verify passes, and fails with exit code 1" {
    run --separate-stderr sb verify --method dense-f16 --threads 1 --format json
    [ "$status" -eq 0 ]
    json 'len(data["rows"]) > 5'
    SPARGE_FAKE=poison=dense-f16 run --separate-stderr sb verify --backend fake --method dense-f16 --threads 1
    [ "$status" -eq 1 ]
    refused 2 "unknown method 'dense'" verify --method dense
}
