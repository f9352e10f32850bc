#!/bin/sh
# tests/run.sh [NAME...]: runs the test programs (all, or those named) and ends with one line, `N passed, N failed`.
#
# A program runs in one or more ways. A comment `test-runs: WAY...` in its source names them; without it a program that
# includes vulkan_test.h has `lavapipe swiftshader sanitize`, any other `plain sanitize`. `test-runs: WAY..., in
# test-all WAY...` leaves expensive ways that find little more to the full run.
#   plain                  no driver chosen
#   sanitize               built with AddressSanitizer and UBSan, on lavapipe; without the layers, whose allocations take
#                          half of the time, where way lavapipe runs the same program under them
#   lavapipe swiftshader   on that driver, under the validation layers
#   lavapipe4 lavapipe16   on lavapipe with subgroups of 4 and 16 instead of 8
#   devices3               on three lavapipe devices and SwiftShader
#   gpuav                  on lavapipe with GPU-assisted validation
#   newest                 on the newest lavapipe, which has cooperative matrices: what tools/newest.sh fetch unpacks
#   families               on SwiftShader with a second and a third queue family (tests/drivers/families.c), with the newest
#                          loader and layers: older layers do not follow timeline semaphores from queue to queue
#   discrete               on the newest lavapipe behind tests/drivers/discrete.h: a device that looks like an H100, with a heap
#                          that the host does not see and kernels for GPUs
#   races                  on the newest lavapipe, under layers that look for races on shared memory and accesses beyond a
#                          binding, and for nothing else; tests/drivers/races.c stands on both sides of them
#   driver                 on the driver whose manifest (a .json) DIT_TEST_DRIVER names; added where that is set.
#                          DIT_TEST_WAYS=driver leaves the other ways out, and needs no other driver; so do other ways'
#                          names in it: DIT_TEST_WAYS="lavapipe newest"
# A comment `test-compiler: quick` marks a program whose time is nearly all LLVM's: make test leaves LLVM's optimizations
# out there, and make test-all has them.
# The names `check`, `fuzz`, `wine`, `foreign`, `packages` and `godot` stand for tools/check.sh and tests/fuzz.sh, wine.sh,
# foreign.sh, packages.sh and godot.sh. Without names fuzz runs as well, and with DIT_TEST_ALL=1 the other five do, too.
# Every way but those of tests that compile dit.h themselves is linked with an object of dit.h itself (build/library.c).
# One program more runs at a time than there are processors, since some of them wait for most of their time: for
# processes, for limits, for devices that never answer. DIT_TEST_JOBS is another number.
# DIT_TEST_ALL=1 (make test-all): the programs do their full sweeps, Vulkan programs run in every way but devices3 and
# families, and a program that has passed is remembered in build/all, so that a run which was stopped goes on where it
# stood. Programs that drive others (they include test.h, not vulkan_test.h) have no way newest: those others would get
# the newest driver with the system's older libraries.
set -u
all=${DIT_TEST_ALL:-0}
limit=${DIT_TEST_SECONDS:-$([ "$all" = 1 ] && echo 7200 || echo 300)}
logs=build/logs
passed=0 failed=0 skipped=0
mkdir -p $logs build/all build/mesa
export MESA_SHADER_CACHE_DIR="$PWD/build/mesa" DIT_TEST_ALL="$all"
[ "${DIT_TEST_WAYS:-}" = driver ] || sh tests/drivers.sh || exit 1
began=$(date +%s)

skip() { # skip REASON
    skipped=$((skipped + 1))
    echo "  skipped: $1"
}

fail() { # fail REASON
    failed=$((failed + 1))
    echo "  FAILED: $1"
}

# Time on the clock and processor time: where other work shares the machine, only the second says what a part costs.
processor_seconds() { # of all programs this shell has run
    times >"$logs/times.$worker"
    awk 'END { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); sum += t[1] * 60 + t[2] } printf "%d\n", sum + 0.5 }' "$logs/times.$worker" >"$logs/seconds.$worker"
    read -r processor <"$logs/seconds.$worker"
}
start_clock() {
    processor_seconds
    start=$(date +%s) start_processor=$processor
}
stop_clock() {
    processor_seconds
    taken="$(($(date +%s) - start)) s, processor $((processor - start_processor)) s"
}

ways_of() {
    source=$(echo tests/*/"$1.c")
    ways=$(sed -n 's/.*test-runs: *\([a-z0-9 ]*\).*/\1/p' "$source")
    [ "$all" = 0 ] || ways="$ways $(sed -n 's/.*test-runs: *[a-z0-9 ]*, in test-all \([a-z0-9 ]*\).*/\1/p' "$source")"
    if [ "$ways" = " " ] || [ -z "$ways" ]; then
        if grep -q '#include "vulkan_test.h"' "$source"; then ways="lavapipe swiftshader sanitize"; else ways="plain sanitize"; fi
    fi
    case $ways in
    *lavapipe*)
        [ "$all" = 0 ] || ways="$ways lavapipe4 lavapipe16 gpuav"
        [ "$all" = 0 ] || grep -q '#include "test.h"' "$source" || ways="$ways newest"
        case $all$1 in 1split | 1split_matrix | 1split_vae) ways="$ways devices3" ;; esac
        [ -z "${DIT_TEST_DRIVER:-}" ] || ways="$ways driver"
        ;;
    esac
    echo "$ways" | tr -s ' ' '\n' | awk -v only=" ${DIT_TEST_WAYS:-} " 'NF && !seen[$1]++ && (only ~ /^ *$/ || index(only, " " $1 " "))'
}

# Runs one program in one way, its output to a log.
run_program() { # run_program NAME WAY LOG
    folder=tests starter= driver=$PWD/build/drivers/lavapipe.json width=256 layers=${DIT_TEST_LAYERS:-1}
    case $2 in
    sanitize)
        folder=asan
        case "$all $1 $(ways_of "$1" | tr '\n' ' ')" in "0 layers "*) ;; "0 "*" lavapipe "*) layers=0 ;; esac
        ;;
    swiftshader) driver=$PWD/build/drivers/swiftshader.json ;;
    lavapipe4) width=128 ;;
    lavapipe16) width=512 ;;
    devices3) driver=$(cat build/drivers/devices3):$PWD/build/drivers/swiftshader.json ;;
    gpuav) layers=full ;;
    driver) driver=$DIT_TEST_DRIVER ;;
    newest) starter="sh tools/newest.sh run" ;;
    races)
        driver=$PWD/build/drivers/races.json layers=races
        starter="env LD_PRELOAD=$PWD/build/drivers/libraces.so sh tools/newest.sh with $driver"
        ;;
    families | discrete) driver=$PWD/build/drivers/$2.json starter="sh tools/newest.sh with $PWD/build/drivers/$2.json" ;;
    esac
    quick=
    [ "$all" != 0 ] || ! grep -q 'test-compiler: quick' tests/*/"$1.c" || quick=GALLIVM_PERF=nopt
    [ -x "build/$folder/$1" ] || { echo "build/$folder/$1 is not built" >"$3"; return 1; }
    VK_ICD_FILENAMES=$driver VK_DRIVER_FILES=$driver LP_NATIVE_VECTOR_WIDTH=$width DIT_TEST_LAYERS=$layers DIT_TEST_WAY=$2 \
        UBSAN_OPTIONS=print_stacktrace=1 timeout "$limit" env $quick $starter "build/$folder/$1" >"$3" 2>&1
}

# Adds a log's closing line (`NAME: N passed, N failed`) and its skips to the totals.
count() { # count TITLE LOG EXIT_CODE TIME
    line=$(sed -n 's/^[a-z0-9_-]*: \([0-9]* passed, [0-9]* failed\).*/\1/p' "$2" | tail -n 1)
    p=${line%% *} f=${line#*, } f=${f%% *}
    problem=
    if [ -z "$line" ]; then problem="no closing line (exit code $3)" p=0 f=0; fi
    [ "$3" != 124 ] || problem="stopped after $limit s"
    [ -n "$problem" ] || [ "$f" != 0 ] || [ "$3" = 0 ] || problem="exit code $3"
    [ -n "$problem" ] || [ "$p" != 0 ] || [ "$f" != 0 ] || problem="checked nothing"
    printf '%-26s %s  (%s)\n' "$1" "${line:-}" "$4"
    grep '^skipped: ' "$2" >"$2.skips"
    while read -r _ reason; do skip "$reason"; done <"$2.skips"
    passed=$((passed + p)) failed=$((failed + f))
    [ -z "$problem" ] || fail "$problem"
    if [ -n "$problem" ] || [ "$f" != 0 ]; then
        grep -v '^ *$' "$2" | head -n 30 | cut -c 1-300 | sed 's/^/    | /'
        echo "    | (all of it: $2)"
        { # once more, where a reader of the end sees it
            echo "$1: ${problem:-$f failed}"
            grep -A 1 'failed: \|ERROR: \|runtime error\|^ *layers: ' "$2" | head -n 6 | cut -c 1-200 | sed 's/^/    | /'
        } >>$logs/failures
        return 1
    fi
}

# A worker runs one program in one way. It says `TITLE|LOG|EXIT_CODE|TIME` when it is done, and `|REASON` in place of
# the code where it cannot run.
run_part() { # run_part NAME WAY
    title="$1 [$2]" log=$logs/$1.$2.log stamp=build/all/$1.$2
    case $2 in swiftshader | families | devices3)
        for kind in skip fail; do
            if [ -f build/drivers/swiftshader.$kind ]; then echo "$title|$kind|$(cat build/drivers/swiftshader.$kind)"; return; fi
        done
        ;;
    esac
    if [ "$all" = 1 ] && [ -f "$stamp" ] && [ -z "$(find "build/tests/$1" tests/fixtures -newer "$stamp" 2>/dev/null | head -n 1)" ]; then
        cp "$stamp" "$log"
        echo "$title|$log|0|done before"
        return
    fi
    rm -f "$stamp"
    case $2 in newest | families | discrete | races)
        if ! sh tools/newest.sh fetch >"$log" 2>&1; then
            echo "$title|skip|$(tail -n 1 "$log")"
            return
        fi
        ;;
    esac
    start_clock
    run_program "$1" "$2" "$log"
    code=$?
    stop_clock
    echo "$title|$log|$code|$taken"
}

run_tool() { # run_tool NAME COMMAND...: a script that ends with `NAME: N passed, N failed`, or a reason and exit code 77
    title=$1 log=$logs/$1.log
    shift
    start_clock
    "$@" >"$log" 2>&1
    code=$?
    stop_clock
    if [ $code = 77 ]; then echo "$title|skip|$(tail -n 1 "$log")"; else echo "$title|$log|$code|$taken"; fi
}

run_name() {
    case $1 in
    check) run_tool check sh tools/check.sh ;;
    fuzz) run_tool fuzz sh tests/fuzz.sh "${FUZZ_SECONDS:-10}" ;;
    wine) run_tool wine sh tests/wine.sh ;;
    foreign) run_tool foreign sh tests/foreign.sh ;;
    packages) run_tool packages sh tests/packages.sh ;;
    godot) run_tool godot sh tests/godot.sh ;;
    *) for way in $(ways_of "$1"); do run_part "$1" "$way"; done ;;
    esac
}

# Takes names that no other worker has taken. The ways of one program follow each other: they may write the same files.
work() { # work WORKER NAME...
    worker=$1
    shift
    for name in "$@"; do
        if mkdir "$logs/turn.$name" 2>/dev/null; then run_name "$name"; fi
    done
}

judge() { # judge TITLE LOG EXIT_CODE TIME, as run_part says them
    case $2 in
    skip) echo "$1"; skip "$3" ;;
    fail) echo "$1"; fail "$3" ;;
    *)
        stamp=build/all/$(basename "$2" .log)
        if count "$1" "$2" "$3" "$4" && [ "$all" = 1 ]; then cp "$2" "$stamp"; else rm -f "$stamp"; fi
        ;;
    esac
}

# The longest programs come first, so that no worker is left alone with one at the end.
if [ $# = 0 ]; then
    set -- kernels selftest application int8 golden cli cli_inputs bench bundled kernels_rows fuzz
    [ "$all" = 0 ] || set -- check foreign wine packages godot "$@"
    for source in tests/*/*.c; do
        case $source in tests/drivers/*) continue ;; esac
        name=$(basename "$source" .c)
        case " $* " in *" $name "*) ;; *) case $name in fuzz_*) ;; *) set -- "$@" "$name" ;; esac ;; esac
    done
fi
rm -rf $logs/turn.* $logs/done $logs/failures
mkfifo $logs/done
trap 'trap - TERM; kill 0' INT TERM # workers in the background hear no interrupt of their own
jobs=${DIT_TEST_JOBS:-$(($(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1) + 1))}
{
    i=0
    while [ $i -lt "$jobs" ]; do
        i=$((i + 1))
        work $i "$@" &
    done
    wait
} >$logs/done &
while IFS='|' read -r title log code taken; do judge "$title" "$log" "$code" "$taken"; done <$logs/done
wait
rm -rf $logs/turn.* $logs/done
[ $((passed + failed)) -gt 0 ] || fail "no test was run"
seconds=$(($(date +%s) - began))
echo
[ ! -f $logs/failures ] || { cat $logs/failures; echo; }
echo "all of it: $seconds s, $jobs at a time"
if [ $skipped = 0 ]; then echo "$passed passed, $failed failed"; else echo "$passed passed, $failed failed, $skipped skipped"; fi
[ $failed = 0 ]
