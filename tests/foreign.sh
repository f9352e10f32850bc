#!/bin/sh
# tests/foreign.sh: the tests for systems that this machine is not, 64-bit Arm and Windows, by their compilers.
#   tests/foreign.sh syntax aarch64|windows   every test that can be compiled there compiles without warnings (`make check`)
#   tests/foreign.sh [aarch64|windows]        compiles them whole and runs some, Arm's by QEMU and those for Windows by Wine.
#                                             Ends with `foreign: N passed, N failed`. Part of `make test-all`
# Exit code 77: the compiler is missing.
# The full sweeps are for drivers of this machine: the tests run here as `make test` has them.
set -u
export DIT_TEST_ALL=0
work=$PWD/build/foreign
passed=0 failed=0

# Tests that no compiler for Windows can take, each for a thing of POSIX that Windows lacks.
for_posix_alone='
cli           poll, fork and signals: it drives build/dit as a process
compare       the shell: it drives build/dit-compare as a process
engine        sleep, and programs that the shell runs in the background: it drives build/engine as a process
faults        backtrace of execinfo.h, by which it knows call sites
families      it is a driver, opened by the loader of Linux
fuzz_frames   fmemopen, a file that lies in memory
io_damaged    pread through a system call
job_faults    fork: a device that never answers takes its process with it
mpi           mpirun
races         it is a driver and a loader of Linux
real          fork and getrusage: each model has a process of its own
server        sockets, fork and signals: it drives build/dit --serve as a process
split_feigned file descriptors that stand for semaphores
split_processes fork, signals and sockets: each rank is a process
terminal      a pseudo-terminal, on which it drives build/dit'

# Tests that run there. QEMU has no Vulkan driver for Arm. Wine hands Vulkan's calls to lavapipe, but without layers, so
# that a few tests show what the others would.
without_vulkan='base budget convert hazards io io_pytorch left_out parameters plan sample spirv text'
run_by_qemu="$without_vulkan io_damaged"
run_by_wine="$without_vulkan classes contract golden graph in_engine model pipelines start trace"

choose() { # choose aarch64|windows
    case $1 in
    aarch64) compiler=aarch64-linux-gnu-gcc libraries='-lm -ldl -lpthread' twice=-Wl,-z,muldefs ending= ;;
    windows) compiler=x86_64-w64-mingw32-gcc libraries=-static twice=-Wl,--allow-multiple-definition ending=.exe ;;
    *) echo "usage: tests/foreign.sh [syntax] [aarch64|windows]" >&2; exit 2 ;;
    esac
    folder=$work/$1
    mkdir -p "$folder/include"
    for part in vulkan vk_video stb; do ln -sfn /usr/include/$part "$folder/include/$part"; done
    flags="-std=gnu99 -D_GNU_SOURCE= -Wall -Wextra -Werror -Wno-unused-function -I. -Isrc -Itests -Itests/support -isystem $folder/include"
    [ "$1" = aarch64 ] || flags="$flags -D__USE_MINGW_ANSI_STDIO=1"
    sources=
    for source in tests/*/*.c; do
        name=$(basename "$source" .c)
        [ "$1" = aarch64 ] || ! echo "$for_posix_alone" | grep -q "^$name " || continue
        sources="$sources $source"
    done
}
processors=$(getconf _NPROCESSORS_ONLN)
side_by_side() { # side_by_side COMMAND...: for each source, put in place of {}
    printf '%s\n' $sources | xargs -P "$processors" -I '{}' "$@"
}

syntax() { # a precompiled header halves the time
    printf '#include "library.h"\n#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n' >"$folder/first.h"
    $compiler $flags -x c-header "$folder/first.h" -o "$folder/first.h.gch" || return 1
    side_by_side $compiler $flags -DDRIVER='""' -DLOADER='""' -Winvalid-pch -include "$folder/first.h" -fsyntax-only '{}' || return 1
    echo "note: $(echo $sources | wc -w) of $(ls tests/*/*.c | wc -l) tests"
}

check() { # check TITLE COMMAND...
    title=$1
    shift
    if "$@" >"$folder/log" 2>&1; then
        passed=$((passed + 1))
        echo "  ok      $title"
    else
        failed=$((failed + 1))
        echo "  FAILED  $title"
        tail -n 10 "$folder/log" | cut -c 1-240 | sed 's/^/          | /'
    fi
}

library() {
    [ "$folder/library.o" -nt dit.h ] || $compiler -std=gnu99 -O1 -I. -isystem "$folder/include" -fno-ipa-ra -ffunction-sections \
        -c build/library.c -o "$folder/library.o"
}
objects() { side_by_side sh -c "$compiler $flags -DDRIVER='\"\"' -DLOADER='\"\"' -O0 -c {} -o $folder/\$(basename {} .c).o"; }
programs() { # fuzz targets have no main, and a driver is no program
    all=$sources sources=
    for source in $all; do
        case $source in */fuzz_*.c | tests/drivers/*) ;; *) sources="$sources $(basename "$source" .c)" ;; esac
    done
    side_by_side $compiler "$folder/{}.o" "$folder/library.o" -o "$folder/{}$ending" $twice -Wl,--gc-sections $libraries
}
run() { # run NAME: its last line must tell that something passed and nothing failed
    case $folder in
    */aarch64) timeout 900 "$qemu" -L /usr/aarch64-linux-gnu "$folder/$1" ;;
    *) xvfb-run -a timeout 900 wine "$folder/$1.exe" ;;
    esac >"$folder/$1.log" 2>&1
    code=$?
    tr -d '\r' <"$folder/$1.log" | grep -qE '^[a-z0-9_-]*: [1-9][0-9]* passed, 0 failed' && [ $code = 0 ] && return
    echo "exit code $code"
    tail -n 8 "$folder/$1.log"
    return 1
}
whole() { # whole aarch64|windows
    choose "$1"
    check "$1: dit.h compiles" library
    check "$1: $(echo $sources | wc -w) tests compile" objects
    check "$1: tests link" programs
    if [ "$1" = aarch64 ]; then
        if ! qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static); then echo "skipped: $1: no qemu-aarch64"; return; fi
        for name in $run_by_qemu; do check "$1: $name" run "$name"; done
    else
        if ! command -v wine >/dev/null || ! command -v xvfb-run >/dev/null; then echo "skipped: $1: no Wine or Xvfb"; return; fi
        [ -f build/drivers/lavapipe.json ] || sh tests/drivers.sh
        export WINEPREFIX="$work/prefix" WINEDEBUG=-all VK_ICD_FILENAMES="$PWD/build/drivers/lavapipe.json" \
            VK_DRIVER_FILES="$PWD/build/drivers/lavapipe.json"
        for name in $run_by_wine; do check "$1: $name" run "$name"; done
    fi
}

if [ "${1:-}" = syntax ]; then
    choose "${2:-}"
    syntax
    exit
fi
mkdir -p "$work"
[ -f build/library.c ] || printf '#define DIT_IMPLEMENTATION\n#define DIT_INTERNAL extern\n#include "dit.h"\n' >build/library.c
done=
for system in ${1:-aarch64 windows}; do
    choose "$system"
    if command -v $compiler >/dev/null 2>&1; then whole "$system"; done=1; else echo "skipped: $system: $compiler is not installed"; fi
done
[ -n "$done" ] || { echo "no compiler for another system is installed"; exit 77; }
echo "foreign: $passed passed, $failed failed"
[ $failed = 0 ]
