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

@test "a dry run tells the memory of each point, and of the device" {
    export SPARGE_FAKE=memory=4000000
    run --separate-stderr sb sweep --backend fake --threads 1 --workload random --heads 1 --head-dim 64 --seqlen 1k,64k \
        --method dense-f16 --dry-run --format json
    [ "$status" -eq 0 ]
    json 'all(row["bytes"] == sum(row[part + "_bytes"] for part in ("input", "copy", "workspace", "output")) for row in data["rows"])'
    json '[row["input_bytes"] for row in data["rows"]] == [3 * 2 * 64 * n for n in (1024, 65536)]'
    json '[row["output_bytes"] for row in data["rows"]] == [2 * 64 * n for n in (1024, 65536)]'
    json 'all(row["workspace_bytes"] > 0 and row["device"] == "fake device" for row in data["rows"])'
    json 'data["rows"][0]["note"] == ""'
    json '"memory: needs" in data["rows"][1]["note"] and data["rows"][1]["note"].endswith("3.8 MiB of 3.8 MiB are free")'
    [[ $stderr == *"2 points, 1 to measure; the largest needs 4"*"MiB, 3.8 MiB of the 3.8 MiB of fake device are free"* ]]
    [ "$(wc -l <<<"$stderr")" -eq 1 ]
}

@test "a dry run knows no memory of what a method cannot do" {
    run --separate-stderr sb sweep --backend fake --threads 1 --workload random --heads 1 --head-dim 64 --seqlen 128 \
        --method sta,dense-f16 --dry-run --format json
    [ "$status" -eq 0 ]
    json '[row["bytes"] is None for row in data["rows"]] == [True, False]'
    json 'data["rows"][0]["workspace_bytes"] is None and data["rows"][0]["note"] != ""'
    [[ $stderr == *"2 points, 1 to measure"* ]]
}

@test "a device that cannot be calibrated is swept all the same, without predicted times" {
    export SPARGE_FAKE=fail=dense-f16
    local points="--backend fake --threads 1 --workload random --heads 1 --head-dim 64 --seqlen 128 --method window"
    run --separate-stderr sb sweep $points --dry-run --format json
    [ "$status" -eq 0 ]
    json 'data["rows"][0]["predicted_s"] is None and data["rows"][0]["bytes"] > 0'
    [[ $stderr == *"1 point, 1 to measure; "*"no time is predicted: calibration: launch failed (scripted)" ]]
    # On a terminal a sweep calibrates too.
    run python3 -c 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' \
        "$SPARGE_BENCH" sweep $points --visits 1 --launches 1 --db tty.db
    [ "$status" -eq 0 ]
    fine export tty.db --format json
    json '[row["status"] for row in data["rows"]] == ["done"]'
}

@test "a point that does not fit is skipped with one line, and the sweep goes on" {
    export SPARGE_FAKE=memory=4000000
    run --separate-stderr sb sweep --backend fake --threads 1 --workload random --heads 1 --head-dim 64 --seqlen 64k,1k \
        --method dense-f16 --visits 1 --launches 1 --db small.db --format json
    [ "$status" -eq 0 ]
    json '[row["status"] for row in data["rows"]] == ["skipped", "done"]'
    [ "$(grep -c 'skipped: memory: needs .*MiB of 3.8 MiB are free' <<<"$stderr")" -eq 1 ]
    [ "$(wc -l <<<"$stderr")" -eq 2 ] # and the tally
    fine export small.db --where status=skipped --format json
    json 'data["rows"][0]["reason"].startswith("memory: needs ")'
}

# column DB COLUMN: a column of the runs with their devices, in the order of the runs.
column() {
    python3 -c 'import sqlite3, sys
rows = sqlite3.connect(sys.argv[1]).execute(
    "SELECT " + sys.argv[2] + " FROM run JOIN device ON device.id = device_id ORDER BY run.id")
print(*(row[0] for row in rows), sep=",")' "$1" "$2"
}

@test "--device all measures on each device, one run each" {
    export SPARGE_FAKE=devices=3
    fake_sweep all.db --device all
    [ "$(column all.db device.uuid)" = FAKE-0,FAKE-1,FAKE-2 ]
    [ "$(column all.db status)" = done,done,done ]
    fine export all.db --format json
    json 'len(data["rows"]) == 12 and all(row["status"] == "done" for row in data["rows"])'
    json '[row["device"] for row in data["rows"]] == ["fake device (FAKE-%d)" % d for d in range(3) for i in range(4)]'
    json '[row["run"] for row in data["rows"]] == [1] * 4 + [2] * 4 + [3] * 4'
    json 'all("--device %d " % (row["run"] - 1) in row["repro"] for row in data["rows"])'
    # Nothing is left to do, on all or on one of them.
    fake_sweep all.db --device all
    fake_sweep all.db --device 1
    [ "$(runs_of all.db)" -eq 3 ]
    # The summary has a row for each point on each device.
    run --separate-stderr sb sweep --backend fake --workload random --heads 1 --head-dim 64 --threads 1 \
        --seqlen 128,256 --method dense-f16,sparge-f16 --visits 5 --launches 4 --db all.db --device all --format json
    [ "$status" -eq 0 ]
    json 'len(data["rows"]) == 12'
    [[ $stderr == *"12 points: 12 measured before"* ]]
}

@test "a row of --device all is repeated on its device" {
    export SPARGE_FAKE=devices=2
    fake_sweep all.db --device all
    local repro
    repro=$(sb export all.db --where method=sparge-f16 --format json |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["rows"][3]["repro"])')
    run bash -c 'sparge-bench() { "$SPARGE_BENCH" "$@"; }; eval "$1"' bash "$repro"
    [ "$status" -eq 0 ]
    [ "$(column repro.db device.uuid)" = FAKE-1 ]
    fine export repro.db --format json
    local key
    key=$(grep -o '"point_key":"[^"]*"' <<<"$output")
    [ -n "$key" ]
    [[ $(sb export all.db --where method=sparge-f16 --format json) == *"$key"* ]]
}

@test "a dry run of all devices lists them all" {
    export SPARGE_FAKE=devices=2
    fake_sweep all.db --device 1
    run --separate-stderr sb sweep --backend fake --workload random --heads 1 --head-dim 64 --threads 1 \
        --seqlen 128,256 --method dense-f16,sparge-f16 --db all.db --device all --dry-run --format json
    [ "$status" -eq 0 ]
    json '[row["device"] for row in data["rows"]] == ["fake device (FAKE-%d)" % d for d in range(2) for i in range(4)]'
    json '[row["note"] for row in data["rows"]] == [""] * 4 + ["in the file"] * 4'
    [ "$(grep -c '4 points, [04] to measure' <<<"$stderr")" -eq 2 ]
}

@test "an interrupted sweep of all devices is resumed by the same command" {
    export SPARGE_FAKE=devices=2,sleep_ms=30
    "$SPARGE_BENCH" sweep --backend fake --threads 1 --workload random --heads 1 --head-dim 64 --seqlen 64 \
        --method dense-f16,window --visits 2 --launches 4 --quiet --db cut.db --device all >/dev/null 2>err 3>&- &
    local pid=$!
    for _ in $(seq 500); do
        [ -e cut.db ] && [ "$(runs_of cut.db 2>/dev/null || echo 0)" -ge 2 ] && break
        sleep 0.02
    done
    kill -INT "$pid"
    local code=0
    wait "$pid" || code=$?
    [ "$code" -eq 130 ]
    grep -q 'resume with' err
    SPARGE_FAKE=devices=2 run sb sweep --backend fake --threads 1 --workload random --heads 1 --head-dim 64 --seqlen 64 \
        --method dense-f16,window --visits 2 --launches 4 --quiet --db cut.db --device all
    [ "$status" -eq 0 ]
    fine export cut.db --all --format json
    json 'sorted((row["device"], row["method"], row["status"]) for row in data["rows"]) == [("fake device (FAKE-%d)" % d, m, "done") for d in range(2) for m in ("dense-f16", "window")]'
}

@test "a run names its driver and CUDA runtime, on a CPU neither" {
    fake_sweep fake.db
    [ "$(column fake.db "driver || ' ' || cuda_runtime")" = "scripted none" ]
    cpu_sweep >/dev/null
    [ "$(column cpu.db driver)" = None ]
    [ "$(column cpu.db cuda_runtime)" = None ]
}

@test "a device that tells nothing of clocks and power is swept, and that is said once" {
    SPARGE_FAKE=telemetry=0 run --separate-stderr fake_sweep quiet.db
    [ "$status" -eq 0 ]
    [ "$(grep -c "clocks, power, energy and temperature are not recorded: device 0: " <<<"$stderr")" -eq 1 ]
    [[ $(column quiet.db note) == "not measured on this backend: clocks, power, energy, temperature, slowdowns (device 0: "* ]]
    run --separate-stderr fake_sweep told.db
    [ -z "$stderr" ]
    [[ $(column told.db note) == "not measured on this backend: kernel records, counters;"* ]]
    [ "$(column quiet.db power_limit_mw)" = None ]
    [ "$(column told.db power_limit_mw)" = 200000 ]
    [ "$(column quiet.db processes)" = None ]
    [ "$(column told.db "ecc || ' ' || persistence || ' ' || mig || ' ' || max_sm_clock_mhz || ' ' || processes || vbios")" = "1 0 0 1500 1fake" ]
    SPARGE_FAKE=shared=1 run --separate-stderr fake_sweep shared.db
    [ "$status" -eq 0 ]
    [ "$stderr" = "sparge-bench: sweep: 2 processes compute on the device: times are of a shared one" ]
    [ "$(column shared.db processes)" = 2 ]
}

@test "--require nvml refuses a device that tells nothing, before anything is measured" {
    SPARGE_FAKE=telemetry=0 run --separate-stderr fake_sweep none.db --require nvml
    [ "$status" -eq 3 ]
    [ "$stderr" = "sparge-bench: --require nvml: device 0: SPARGE_FAKE says telemetry=0" ]
    [ ! -e none.db ]
    run --separate-stderr fake_sweep some.db --require nvml
    [ "$status" -eq 0 ]
    run --separate-stderr fake_sweep some.db --require nvml,cupid
    [ "$status" -eq 2 ]
    [ "$stderr" = "sparge-bench: --require: 'cupid' is none of nvml, cupti, counters" ]
    run --separate-stderr fake_sweep some.db --require nvml,cupti
    [ "$status" -eq 3 ]
    [ "$stderr" = "sparge-bench: --require cupti: this version does not record it" ]
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
    refused 3 "--device 7: this machine has 1 cpu device, numbers 0 to 0" sweep --db x.db --backend cpu --device 7
    refused 2 "--device -1" sweep --db x.db --device=-1
    refused 2 "--device 0,1: takes one number" sweep --db x.db --device 0,1
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
