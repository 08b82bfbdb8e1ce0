# Commands and options: help, version, and what every mistake is told.
load common

@test "help names every command, and every command has help" {
    fine --help
    [[ $output == "Usage: sparge-bench COMMAND"* ]]
    local overview=$output command
    for command in sweep verify similarity report compare export merge list info help; do
        grep -q "^  $command " <<<"$overview"
        fine "$command" --help
        [[ $output == "Usage: sparge-bench $command "* ]]
        local help=$output
        fine "$command" -h
        [ "$output" = "$help" ]
        fine help "$command"
        [ "$output" = "$help" ]
    done
    run ! grep -q '^  manual' <<<"$overview"
}

@test "help fits the width asked for" {
    local command
    for command in sweep verify similarity report compare export merge list info; do
        COLUMNS=80 sb "$command" --help >"$BATS_TEST_TMPDIR/help"
        [ "$(awk '{ if (length > 80) print }' "$BATS_TEST_TMPDIR/help")" = "" ]
    done
}

@test "the version is the library's" {
    fine --version
    [[ $output =~ ^sparge-bench\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
    local version=$output
    fine -V
    [ "$output" = "$version" ]
}

@test "mistakes around the command are told in one line" {
    refused 2 "no command given"
    refused 2 "unknown command 'swep'; did you mean 'sweep'?" swep
    refused 2 "unknown command 'zzz'" zzz
    refused 2 "unknown option '--quiet' before the command" --quiet sweep
    refused 2 "no help on 'zzz'" help zzz
    refused 2 "did you mean 'export'" help exprt
}

@test "every command refuses an unknown option and names the nearest" {
    local command
    for command in sweep verify similarity report compare export merge list info; do
        refused 2 "unknown option '--hepl' of '$command'; did you mean '--help'?" "$command" --hepl
        refused 2 "unknown option '-Z' of '$command'" "$command" -Z
    done
}

@test "operands are counted" {
    refused 2 "'export' needs DB: 0 given" export
    refused 2 "'export' takes only DB, but 'b.db' was given too" export a.db b.db
    refused 2 "'report' needs DB" report
    refused 2 "'compare' needs A.db B.db: 1 given" compare a.db
    refused 2 "'merge' needs at least OUT.db IN.db...: 1 given" merge a.db
    refused 2 "'info' takes no operands, but 'x' was given" info x
}

@test "a value may be missing, a flag has none" {
    refused 2 "option '--output' of 'export' needs a value (FILE)" export a.db --output
    refused 2 "needs a value (FILE), but the option '--all' follows" export a.db -o --all
    refused 2 "option '--all' of 'export' takes no value, but 'yes' was given" export a.db --all=yes
}

@test "a format that does not exist is refused before anything is read" {
    local command
    for command in "export missing.db" "compare missing.db missing.db" "merge out.db missing.db" list info; do
        # shellcheck disable=SC2086  # the words are meant
        refused 2 "--format 'xml' is none of table, md, csv, json, jsonl" $command --format xml
    done
}
