# What goes where: full disks, closed pipes, files instead of terminals.
load common

setup_file() {
    cd "$BATS_FILE_TMPDIR"
    fake_sweep a.db
    sb merge many.db a.db >/dev/null
}

setup() {
    cd "$BATS_FILE_TMPDIR"
}

@test "a full disk is an error of its own" {
    local command
    for command in "--help" "--version" "help sweep" "list" "list methods --names" "info" "manual man" "export a.db" \
        "merge other.db a.db"; do
        # shellcheck disable=SC2086  # the words are meant
        run bash -c '"$SPARGE_BENCH" "$@" 2>&1 >/dev/full' bash $command
        echo "$command: $status $output"
        [ "$status" -eq 3 ]
        [[ $output == "sparge-bench: cannot write to standard output: "* ]]
    done
    refused 3 "cannot write '/dev/full': No space left on device" export a.db -o /dev/full
    refused 3 "cannot write '/no/such/folder/x.csv'" export a.db -o /no/such/folder/x.csv
}

@test "a regression stays a regression on a full disk" {
    SPARGE_FAKE=slow=sparge-f16:2 fake_sweep slow.db
    run bash -c '"$SPARGE_BENCH" compare a.db slow.db 2>/dev/null >/dev/full'
    [ "$status" -eq 1 ]
}

@test "a reader that goes away is no error" {
    local command
    for command in "manual man" "list parameters" "export a.db" "--help"; do
        # shellcheck disable=SC2016
        run bash -c '("$SPARGE_BENCH" $1; echo "code $?" >code) 2>&1 | :; cat code' bash "$command"
        echo "$command: $output"
        [[ $output == "code 0" || $output == "code 141" ]]
        # Even where the parent ignores SIGPIPE.
        run bash -c 'trap "" PIPE; ("$SPARGE_BENCH" $1 2>err) | :; cat err' bash "$command"
        [ -z "$output" ]
    done
}

@test "no escape sequences and no progress where there is no terminal" {
    local quiet
    for quiet in "" 1; do
        NO_COLOR=$quiet run --separate-stderr sb sweep --backend fake --workload random --heads 1 --threads 1 --head-dim 64 --seqlen 128 \
            --method dense-f16 --visits 3 --db "plain$quiet.db"
        [ "$status" -eq 0 ]
        [[ $output$stderr != *$'\e'* ]]
        [[ $output$stderr != *$'\r'* ]]
        [ "$(wc -l <<<"$stderr")" -eq 1 ] # the tally; no progress
    done
}

@test "no escape sequences on a terminal with NO_COLOR" {
    script -qec true /dev/null >/dev/null 2>&1 || skip "script (util-linux) is missing, or no terminal can be made here"
    NO_COLOR=1 run script -qec "\"$SPARGE_BENCH\" list orders" /dev/null
    [ "$status" -eq 0 ]
    [[ $output != *$'\e['[0-9]*m* ]]
}
