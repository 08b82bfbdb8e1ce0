# What the tests of the command line share. SPARGE_BENCH is the program, SPARGE_SOURCE_DIR the source tree.
# shellcheck disable=SC2154  # status, output and stderr are set by bats' run
bats_require_minimum_version 1.5.0

sb() {
    "$SPARGE_BENCH" "$@"
}

# A quick sweep on the fake backend, whose clock is scripted by SPARGE_FAKE: fake_sweep DB [OPTION]...
fake_sweep() {
    local db=$1
    shift
    sb sweep --backend fake --workload random --heads 1 --head-dim 64 --threads 1 --seqlen 128,256 \
        --method dense-f16,sparge-f16 --visits 5 --launches 4 --quiet --db "$db" "$@" >/dev/null
}

# refused CODE TEXT COMMAND...: the exit code, nothing on stdout, one line on stderr that contains TEXT.
refused() {
    local code=$1 text=$2
    shift 2
    run --separate-stderr sb "$@"
    printf 'sparge-bench %s\nstatus %s\nstdout %s\nstderr %s\n' "$*" "$status" "$output" "$stderr"
    [ "$status" -eq "$code" ]
    [ -z "$output" ]
    [ "$(grep -c . <<<"$stderr")" -eq 1 ]
    [[ $stderr == "sparge-bench: "* ]]
    [[ $stderr == *"$text"* ]]
}

# fine COMMAND...: exit code 0, nothing on stderr; the output is in $output.
fine() {
    run --separate-stderr sb "$@"
    printf 'sparge-bench %s\nstatus %s\nstdout %s\nstderr %s\n' "$*" "$status" "$output" "$stderr"
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
}

# json EXPRESSION: evaluates a Python expression on the JSON in $output, named `data`; it must be true.
json() {
    python3 -c 'import json, sys
data = json.loads(sys.stdin.read())
if not eval("(" + sys.argv[1] + ")"):
    sys.exit("false: " + sys.argv[1] + " of " + repr(data)[:2000])' "$1" <<<"$output"
}
