# Results files: export, report, compare and merge, on sweeps of the fake backend.
load common

setup_file() {
    cd "$BATS_FILE_TMPDIR"
    SPARGE_FAKE=seed=1,noise=0.01 fake_sweep a.db
    SPARGE_FAKE=seed=2,noise=0.01 fake_sweep same.db
    SPARGE_FAKE=seed=3,noise=0.01,slow=sparge-f16:1.5 fake_sweep slow.db
    SPARGE_FAKE=seed=4 fake_sweep other.db --seqlen 512
}

setup() {
    cd "$BATS_FILE_TMPDIR"
}

@test "export has one row for each point" {
    fine export a.db --format json
    json 'data["schema_version"] == 1 and len(data["rows"]) == 4'
    json '{(r["method"], r["seqlen_q"]) for r in data["rows"]} ==
        {(m, n) for m in ("dense-f16", "sparge-f16") for n in (128, 256)}'
    json 'all(r["backend"] == "fake" for r in data["rows"])'
    [ "$(sb export a.db | wc -l)" -eq 5 ]
    [ "$(sb export a.db --format jsonl | wc -l)" -eq 4 ]
    sb export a.db | python3 -c 'import csv, sys
rows = list(csv.DictReader(sys.stdin))
assert len(rows) == 4 and all(float(r["total_ms"]) > 0 for r in rows), rows'
}

@test "export writes the same bytes to a file" {
    sb export a.db >stdout.csv
    fine export a.db -o file.csv
    [ -z "$output" ]
    cmp stdout.csv file.csv
}

@test "export shows the newest measurement of a point, or all" {
    cp a.db twice.db
    fine merge twice.db same.db
    fine export twice.db --format json
    json 'len(data["rows"]) == 4'
    fine export twice.db --all --format json
    json 'len(data["rows"]) == 8'
}

@test "export filters" {
    fine export a.db --format json --where method=sparge-f16
    json '[r["method"] for r in data["rows"]] == ["sparge-f16"] * 2'
    fine export a.db --format json --where method=dense-f16,sparge-f16 --where seqlen=256
    json 'len(data["rows"]) == 2 and all(r["seqlen_q"] == 256 for r in data["rows"])'
    fine export a.db --format json --where seqlen=128..256 --where status=done
    json 'len(data["rows"]) == 4'
    refused 2 "no measurement has method 'sparge-f61'; did you mean 'sparge-f16'?" export a.db --where method=sparge-f61
    refused 2 "no measurement has seqlen 1024" export a.db --where seqlen=1k
    refused 2 "the key is none of workload, order, method" export a.db --where color=red
    refused 2 "--where 'method' is not KEY=VALUE" export a.db --where method
    refused 2 "a value is empty" export a.db --where method=
    refused 2 "--where 'seqlen=8x'" export a.db --where seqlen=8x
}

@test "files that cannot be read are the environment's fault" {
    local command
    echo "no database" >text.db
    : >empty.db
    sqlite3 foreign.db 'CREATE TABLE t(x); INSERT INTO t VALUES(1)' 2>/dev/null ||
        python3 -c 'import sqlite3; c = sqlite3.connect("foreign.db"); c.execute("CREATE TABLE t(x)"); c.commit()'
    for db in missing.db text.db foreign.db .; do
        refused 3 "$db" export "$db"
        refused 3 "$db" report "$db" -o never
        refused 3 "$db" compare a.db "$db"
        refused 3 "$db" merge never.db "$db"
    done
    [ ! -e never ]
    [ ! -e never.db ]
}

@test "compare finds what became slower" {
    run --separate-stderr sb compare a.db slow.db --format json
    [ "$status" -eq 1 ]
    json 'sorted(r["verdict"] for r in data["rows"] if r["method"] == "sparge-f16") == ["regressed"] * 2'
    json 'not any(r["verdict"] == "regressed" for r in data["rows"] if r["method"] == "dense-f16")'
    [[ $stderr == "unpaired: 4 of 4 points are in both files; 2 regressed, 0 improved"* ]]
    run --separate-stderr sb compare slow.db a.db
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [[ $output == *"2 improved"* ]]
}

@test "compare finds no change where there is none" {
    run --separate-stderr sb compare a.db same.db
    [ "$status" -eq 0 ]
    [[ $output == *"unpaired: 4 of 4 points are in both files; 0 regressed, 0 improved (threshold 2 %, q 0.05)"* ]]
    run --separate-stderr sb compare a.db slow.db --threshold 80%
    [ "$status" -eq 0 ]
}

@test "compare does not call nothing a success" {
    run --separate-stderr sb compare a.db other.db
    [ "$status" -eq 4 ]
    [[ $stderr == "sparge-bench: nothing was compared: 'a.db' and 'other.db' have no point in common" ]]
}

@test "compare checks its numbers" {
    refused 2 "--threshold 'two' is no number from 0 to 100 (percent)" compare a.db same.db --threshold two
    refused 2 "--threshold '-1'" compare a.db same.db --threshold=-1
    refused 2 "--threshold 'nan'" compare a.db same.db --threshold nan
    refused 2 "--threshold ''" compare a.db same.db --threshold ''
    refused 2 "--q '0'" compare a.db same.db --q 0
    refused 2 "--q '5%'" compare a.db same.db --q 5%
}

@test "merge copies runs once" {
    rm -f all.db
    fine merge all.db a.db other.db --format json
    json '[(r["file"], r["runs_added"], r["runs_present"]) for r in data["rows"]] == [("a.db", 1, 0), ("other.db", 1, 0)]'
    fine merge all.db a.db --format json
    json 'data["rows"][0]["runs_added"] == 0 and data["rows"][0]["runs_present"] == 1'
    fine export all.db --format json
    json 'len(data["rows"]) == 6'
    [ "$(ls all.db*)" = all.db ]
    refused 2 "'all.db' is both the output and an input" merge all.db a.db all.db
}

@test "report writes a page" {
    fine report a.db -o report
    [ "$output" = report/index.html ]
    [ -s report/index.html ]
    [ -n "$(find report -name '*.svg')" ]
    fine report a.db -o report/
    [ "$output" = report/index.html ]
}

@test "report without gnuplot still writes tables and says what is missing" {
    run --separate-stderr sb report a.db -o bare --gnuplot /no/such/gnuplot
    [ "$status" -eq 3 ]
    [ "$output" = bare/index.html ]
    [[ $stderr == "sparge-bench: no pictures"*gnuplot* ]]
    [ "$(wc -l <<<"$stderr")" -eq 1 ]
    [ -n "$(find bare -name '*.gp')" ]
    [ -z "$(find bare -name '*.svg')" ]
}

@test "report refuses a folder it cannot write" {
    : >file
    refused 3 "file" report a.db -o file
    refused 3 "/proc" report a.db -o /proc/report
    refused 2 "--output is empty" report a.db --output=
}
