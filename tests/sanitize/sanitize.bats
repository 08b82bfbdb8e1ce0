# The script `sanitize` without a GPU: when a record holds, when it is stale, and when nothing can be said.
# shellcheck disable=SC2154  # status, output and stderr are set by bats' run
bats_require_minimum_version 1.5.0

setup() {
    script=$SPARGE_SOURCE_DIR/tests/sanitize/sanitize
    program=$SPARGE_BINARY_DIR/tests/sanitize/every_kernel
    reader=$SPARGE_BINARY_DIR/tests/device_code/device_code
    record=$BATS_TEST_TMPDIR/record
    arch=$("$reader" list "$program" | awk 'NR == 1 { print $1 }')
    {
        echo 'date: 2026-01-01'
        echo 'commit: 0123456789ab'
        echo "compiler: $("$reader" compiler "$program")"
        echo "code: $arch $("$reader" hash "$program" "$arch")"
        printf '%s: passed; ERROR SUMMARY: 0 errors\n' memcheck racecheck initcheck synccheck
    } >"$record"
}

sanitize() {
    run --separate-stderr "$script" "$@"
    printf 'sanitize %s\nstatus %s\nstdout %s\nstderr %s\n' "$*" "$status" "$output" "$stderr"
}

@test "a record of this build's code holds" {
    sanitize check "$record" "$SPARGE_BINARY_DIR"
    [ "$status" -eq 0 ]
    [[ $output == *"holds"*"$arch"* ]]
    sanitize report "$record" "$SPARGE_BINARY_DIR"
    [ "$status" -eq 0 ]
}

@test "a record of other code is stale: check fails, report is skipped" {
    sed -i 's/^\(code: [^ ]* \).*/\1deadbeef/' "$record"
    sanitize check "$record" "$SPARGE_BINARY_DIR"
    [ "$status" -eq 1 ]
    [[ $stderr == *"STALE"*"2026-01-01 (0123456789ab)"* ]]
    sanitize report "$record" "$SPARGE_BINARY_DIR"
    [ "$status" -eq 77 ]
    [[ $stderr == *"STALE"* ]]
}

@test "another compiler, another architecture and another build cannot be compared" {
    sed -i -e 's/^\(code: [^ ]* \).*/\1deadbeef/' -e 's/^compiler: .*/compiler: an older one/' "$record"
    sanitize check "$record" "$SPARGE_BINARY_DIR"
    [ "$status" -eq 77 ]
    [[ $stderr == *"its compiler was an older one"* ]]
    sed -i 's/^code: .*/code: sm_70 deadbeef/' "$record"
    sanitize check "$record" "$SPARGE_BINARY_DIR"
    [ "$status" -eq 77 ]
    [[ $stderr == *"no machine code for sm_70"* ]]
    sanitize check "$record" "$BATS_TEST_TMPDIR"
    [ "$status" -eq 77 ]
}

@test "a record of a failure, without a tool, or none at all fails" {
    sed -i 's/^racecheck: passed/racecheck: FAILED/' "$record"
    sanitize check "$record" "$SPARGE_BINARY_DIR"
    [ "$status" -eq 1 ]
    [[ $stderr == *"racecheck has not passed"* ]]
    sed -i '/^memcheck/d' "$record"
    sanitize check "$record" "$SPARGE_BINARY_DIR"
    [ "$status" -eq 1 ]
    [[ $stderr == *"memcheck has not passed"* ]]
    sanitize check "$BATS_TEST_TMPDIR/nothing" "$SPARGE_BINARY_DIR"
    [ "$status" -eq 1 ]
}

@test "without the tool a run is skipped" {
    PATH=/usr/bin:/bin sanitize memcheck "$program"
    [ "$status" -eq 77 ]
}
