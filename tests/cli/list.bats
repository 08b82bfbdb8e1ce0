# list and info: what there is to choose from, in every format.
load common

@test "list without operand lists the methods" {
    fine list
    local first=$output
    fine list methods
    [ "$output" = "$first" ]
    [[ $output == *sparge-int8-fp8* ]]
    [[ $output == *dense-f16* ]]
}

@test "every subject is valid JSON with a row for each name" {
    local subject
    for subject in methods workloads orders backends; do
        fine list "$subject" --names
        local names=$output
        [ -n "$names" ]
        fine list "$subject" --format json
        json 'data["schema_version"] == 1'
        json "[next(iter(row.values())) for row in data['rows']] == '''$names'''.split()"
    done
}

@test "parameters have a range, a default and a meaning" {
    fine list parameters sparge-int8-fp8 --format json
    json 'all(row["method"] == "sparge-int8-fp8" and row["meaning"] and row["range"] for row in data["rows"])'
    json '[row for row in data["rows"] if row["parameter"] == "tau"][0]["default"] == "0.98"'
    json '[row for row in data["rows"] if row["parameter"] == "tau"][0]["range"] == "0..1"'
    json '[row for row in data["rows"] if row["parameter"] == "theta"][0]["range"] == "-1..1"'
    fine list parameters window sta --format json
    json '{row["method"] for row in data["rows"]} == {"window", "sta"}'
    fine list parameters --names
    [[ $output == *sparge-int8-fp8.tau* ]]
    fine list parameters dense-f16 --names
    [ "$output" = dense-f16.exp ]
    refused 2 "unknown method 'zzz'" list parameters zzz --names
}

@test "csv, jsonl and md have a line for each row" {
    local rows
    rows=$(sb list orders --names | wc -l)
    [ "$(sb list orders --format csv | wc -l)" -eq $((rows + 1)) ]
    [ "$(sb list orders --format jsonl | wc -l)" -eq "$rows" ]
    [ "$(sb list orders --format md | grep -c '^|')" -eq $((rows + 2)) ]
    sb list orders --format jsonl | while read -r line; do python3 -m json.tool <<<"$line" >/dev/null; done
}

@test "the fake backend is listed with --all only" {
    fine list backends
    [[ $output == *cpu* && $output != *fake* ]]
    fine list backends --all
    [[ $output == *fake* ]]
    fine info
    [[ $output != *fake* ]]
    fine info --all
    [[ $output == *fake* ]]
}

@test "what list does not know is refused" {
    refused 2 "nothing to list under 'method'; did you mean 'methods'?" list method
    refused 2 "nothing to list under 'zzz'; there are methods" list zzz
    refused 2 "unknown method 'sparge-int8-fp9'; did you mean 'sparge-int8-fp8'?" list parameters sparge-int8-fp9
    refused 2 "'list orders' takes no names, but 'row' was given" list orders row
}

@test "info tells the build, the devices and the libraries" {
    fine info --format json
    json '{"program", "system", "cpu:0", "library"} <= {row["topic"] for row in data["rows"]}'
    json '[row for row in data["rows"] if row["item"] == "version"][0]["value"] == "'"$(sb --version | cut -d' ' -f2)"'"'
    json 'any(row["item"] == "SQLite" and row["value"].startswith("3.") for row in data["rows"])'
}

@test "info tells what a device has free, and whether it can be used" {
    SPARGE_FAKE=devices=2,memory=1048576 run --separate-stderr sb info --all --format json
    [ "$status" -eq 0 ]
    json '[row["value"] for row in data["rows"] if row["topic"] == "fake:1" and row["item"] == "uuid"] == ["FAKE-1"]'
    json '[row["value"] for row in data["rows"] if row["topic"] == "fake:1" and row["item"] == "memory free"] == ["1.0 MiB"]'
    json 'all(row["value"] == "yes" for row in data["rows"] if row["item"] == "usable by this build")'
}

@test "info tells what a device does now, or why it does not tell" {
    run --separate-stderr sb info --all --format json
    json '[row["value"] for row in data["rows"] if row["topic"] == "fake:0" and row["item"] == "SM clock now"] == ["1000 MHz"]'
    json '[row["value"] for row in data["rows"] if row["topic"] == "fake:0" and row["item"] == "power limit"] == ["200 W"]'
    SPARGE_FAKE=telemetry=0 run --separate-stderr sb info --all --format json
    [ "$status" -eq 0 ]
    json '["telemetry=0" in row["note"] for row in data["rows"] if row["topic"] == "fake:0" and row["item"] == "clocks, power, heat"] == [True]'
}

@test "info lists each GPU" {
    fine info --format json
    json 'any(row["topic"] == "cuda:0" for row in data["rows"])' || skip "no GPU"
    json '{"device", "uuid", "driver", "CUDA runtime", "arch", "units", "memory", "memory free", "L2 cache", "shared memory", "highest SM clock", "highest memory clock", "usable by this build"} <= {row["item"] for row in data["rows"] if row["topic"] == "cuda:0"}'
    json 'all(row["value"] for row in data["rows"] if row["topic"] == "cuda:0")'
}

@test "info says what a missing gnuplot means" {
    run --separate-stderr bash -c 'PATH=$1 "$SPARGE_BENCH" info --format json' bash "$BATS_TEST_TMPDIR"
    json '[row for row in data["rows"] if row["item"] == "gnuplot"][0]["value"] is None'
    json '"report" in [row for row in data["rows"] if row["item"] == "gnuplot"][0]["note"]'
}
