# check_spills on two toy kernels, one of which spills (spilling.cu). SPARGE_SPILLING is their object file.
# shellcheck disable=SC2154  # status, output and stderr are set by bats' run
bats_require_minimum_version 1.5.0

setup() {
    allowed=$BATS_TEST_TMPDIR/allowed
    echo '# none' >"$allowed"
    # What is to be found: "ARCH BYTES" of the spilling kernel.
    mapfile -t spills < <("$SPARGE_DEVICE_CODE" list "$SPARGE_SPILLING" | awk '/attend_much/ { print $1, $3 }')
}

check() {
    run --separate-stderr "$SPARGE_SOURCE_DIR/tests/device_code/check_spills" "$SPARGE_DEVICE_CODE" "$SPARGE_SPILLING" "$allowed"
    printf 'status %s\nstdout %s\nstderr %s\n' "$status" "$output" "$stderr"
}

# Allows what spills; DIFFERENCE is added to the bytes.
allow() {
    local spill
    for spill in "${spills[@]}"; do
        printf '%s | %d | %s | a toy\n' "${spill% *}" "$((${spill#* } + ${1:-0}))" attend_much >>"$allowed"
    done
}

@test "a spill fails, once for each architecture" {
    [ "${#spills[@]}" -gt 0 ]
    [ "${spills[0]#* }" -gt 0 ]
    check
    [ "$status" -eq 1 ]
    [ "$(grep -c 'attend_much keeps' <<<"$stderr")" -eq "${#spills[@]}" ]
    [[ $stderr != *attend_little* ]]
}

@test "what is allowed passes" {
    allow
    check
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [[ $output == *"2 attention kernels"* ]]
}

@test "fewer or more bytes than allowed fail" {
    local difference
    for difference in 4 -4; do
        echo '# none' >"$allowed"
        allow "$difference"
        check
        [ "$status" -eq 1 ]
        [ "$(grep -c "attend_much keeps .* says $((${spills[0]#* } + difference)))" <<<"$stderr")" -gt 0 ]
    done
}

@test "an exception for what does not spill, or is not there, fails" {
    allow
    printf '%s | 8 | attend_little | a toy\n' "${spills[0]% *}" >>"$allowed"
    check
    [ "$status" -eq 1 ]
    [[ $stderr == *"attend_little keeps 0 bytes"* ]]
    sed -i s/attend_little/attend_nothing/ "$allowed"
    check
    [ "$status" -eq 1 ]
    [[ $stderr == *"there is no kernel ${spills[0]% *} attend_nothing"* ]]
}

@test "an exception for an architecture that was not built is left alone" {
    allow
    echo 'sm_70 | 8 | attend_much | a toy' >>"$allowed"
    check
    [ "$status" -eq 0 ]
}

@test "an exception without a reason, or twice, fails" {
    allow
    echo 'sm_70 | 8 | attend_much |' >>"$allowed"
    check
    [ "$status" -eq 1 ]
    [[ $stderr == *"not ARCHITECTURE | BYTES | KERNEL | REASON"* ]]
    echo '# none' >"$allowed"
    allow
    allow
    check
    [ "$status" -eq 1 ]
    [[ $stderr == *"a second line"* ]]
}

@test "a missing list and a file without machine code fail" {
    allow
    allowed=$BATS_TEST_TMPDIR/nothing check
    [ "$status" -eq 1 ]
    [[ $stderr == *"cannot be read"* ]]
    SPARGE_SPILLING=/bin/sh check
    [ "$status" -eq 1 ]
    [[ $stderr == *"no machine code"* ]]
}
