#!/bin/sh
# tests/fuzz.sh [SECONDS]: runs every fuzz target (tests/ROOM/fuzz_NAME.c, built as build/fuzz/fuzz_NAME) for that long,
# two at a time, from the seeds in tests/corpus/NAME. New inputs that it finds on the way are kept in build/corpus; an
# input that breaks a target is left in build/fuzz/NAME-*.
set -u
seconds=${1:-10}
passed=0 failed=0
mkdir -p build/corpus build/logs

start() { # start NAME: in the background
    mkdir -p "build/corpus/$1"
    limit=$((seconds + 60))
    timeout $limit "build/fuzz/fuzz_$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
        -verbosity=0 -artifact_prefix="build/fuzz/$1-" "build/corpus/$1" "tests/corpus/$1" >"build/logs/fuzz_$1.log" 2>&1
    echo $? >"build/logs/fuzz_$1.code"
}

finish() { # finish NAME: judges its log
    log=build/logs/fuzz_$1.log
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    seeds=$(find "tests/corpus/$1" -type f 2>/dev/null | wc -l)
    if [ "$(cat "build/logs/fuzz_$1.code")" = 0 ] && [ "${runs:-0}" -gt 0 ] && [ "$seeds" -gt 0 ]; then
        passed=$((passed + 1))
        printf '  ok      fuzz_%s: %s inputs from %s seeds\n' "$1" "$runs" "$seeds"
    else
        failed=$((failed + 1))
        printf '  FAILED  fuzz_%s: %s inputs from %s seeds\n' "$1" "${runs:-0}" "$seeds"
        tail -n 15 "$log" | cut -c 1-200 | sed 's/^/    | /'
    fi
}

set --
for source in tests/*/fuzz_*.c; do
    [ -f "$source" ] && name=${source##*/fuzz_} && set -- "$@" "${name%.c}"
done
while [ $# -gt 0 ]; do
    start "$1" &
    if [ $# -gt 1 ]; then start "$2" & fi
    wait
    finish "$1"
    shift
    if [ $# -gt 0 ]; then finish "$1"; shift; fi
done
[ $((passed + failed)) -gt 0 ] || { failed=1; echo "no fuzz target was run"; }
echo
echo "fuzz: $passed passed, $failed failed"
[ $failed = 0 ]
