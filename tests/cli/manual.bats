# Man page, completion and docs/cli.md, all printed from the option tables.
load common

@test "docs/cli.md is current" {
    sb manual markdown >"$BATS_TEST_TMPDIR/cli.md"
    diff -u "$SPARGE_SOURCE_DIR/docs/cli.md" "$BATS_TEST_TMPDIR/cli.md" ||
        { echo "run: cmake --build BUILD --target docs"; false; }
}

@test "the man page has no warnings and every option" {
    command -v groff || skip "groff is missing"
    sb manual man >"$BATS_TEST_TMPDIR/page.1"
    groff -man -Tascii -ww -rLL=78n -P-cbou "$BATS_TEST_TMPDIR/page.1" >"$BATS_TEST_TMPDIR/page" 2>"$BATS_TEST_TMPDIR/warnings"
    [ ! -s "$BATS_TEST_TMPDIR/warnings" ]
    local text option command
    text=$(cat "$BATS_TEST_TMPDIR/page")
    for command in sweep export compare; do
        while read -r option; do
            grep -q -e "$option" <<<"$text" || { echo "$option of $command is missing"; false; }
        done < <(sb "$command" --help | grep -oE '^ +(-., )?--[a-z0-9-]+' | grep -oE -e '--[a-z0-9-]+')
    done
}

@test "the completion script is clean" {
    command -v shellcheck || skip "shellcheck is missing"
    sb manual bash | shellcheck -s bash -
}

# complete WORD...: the completions of the last word, in $output.
complete_words() {
    run bash --norc -c '
        sparge-bench() { "$SPARGE_BENCH" "$@"; }
        export -f sparge-bench
        source <("$SPARGE_BENCH" manual bash)
        COMP_WORDS=("$@")
        COMP_CWORD=$(($# - 1))
        _sparge_bench
        printf "%s\n" "${COMPREPLY[@]}"' bash "$@"
    echo "$output"
}

@test "completion offers commands, options and values" {
    complete_words sparge-bench sw
    [ "$output" = sweep ]
    complete_words sparge-bench export --wh
    [ "$output" = --where ]
    complete_words sparge-bench export --format js
    [ "$output" = $'json\njsonl' ]
    complete_words sparge-bench export --format = js
    [ "$output" = $'json\njsonl' ]
    complete_words sparge-bench sweep --method dense-f16,sparge-int8-fp
    [ "$output" = dense-f16,sparge-int8-fp8 ]
    complete_words sparge-bench sweep --order hil
    [ "$output" = hilbert ]
    complete_words sparge-bench list para
    [ "$output" = parameters ]
    complete_words sparge-bench help merg
    [ "$output" = merge ]
    cd "$BATS_TEST_TMPDIR"
    : >some.db
    complete_words sparge-bench export some
    [ "$output" = some.db ]
}

@test "only known forms of the manual exist" {
    refused 2 "no manual of the form 'pdf'; there are man, bash and markdown" manual pdf
}
