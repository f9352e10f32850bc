#!/bin/sh
# tests/foreign.sh: the tests for systems that this machine is not, by their compilers.
#   tests/foreign.sh syntax SYSTEM   every test that can be compiled there compiles without warnings (`make check`)
#   tests/foreign.sh [SYSTEM...]     compiles and links them and runs some. Ends with `foreign: N passed, N failed`.
#                                    Part of `make test-all`
#
#   SYSTEM       what it is                       compiler     what runs the tests
#   aarch64      Linux on 64-bit Arm              gcc          QEMU
#   windows      Windows, x86-64                  MinGW-w64    Wine, on lavapipe
#   musl         Linux with another C library     zig cc       this machine, in programs that hold the C library
#   macos        macOS on Apple's processors      zig cc       nothing
#   freebsd      FreeBSD, x86-64                  zig cc       nothing
#   windows-arm  Windows on 64-bit Arm            zig cc       nothing
#
# Exit code 77: no compiler is there. zig (`pip install ziglang`) brings the headers and libraries of its four systems.
# The full sweeps are for drivers of this machine: the tests run here as `make test` has them.
set -u
export DIT_TEST_ALL=0
work=$PWD/build/foreign
passed=0 failed=0

# Tests that no compiler for Windows can take, each for a thing of POSIX that Windows lacks.
for_posix_alone='
cli           poll, fork and signals: it drives build/dit as a process
cli_inputs    likewise
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
resume        fork: it drives build/dit as a process
sound_files   likewise
split_feigned file descriptors that stand for semaphores
split_processes fork, signals and sockets: each rank is a process
terminal      a pseudo-terminal, on which it drives build/dit'

# Tests that run there. QEMU has no Vulkan driver for Arm. Wine hands Vulkan's calls to lavapipe, but without layers, so
# that a few tests show what the others would.
without_vulkan='base budget convert hazards io io_pytorch left_out parameters plan sample spirv text'
run_by_qemu="$without_vulkan io_damaged"
run_by_wine="$without_vulkan application classes contract golden graph in_engine loading model pipelines start trace"

# Tests for Linux, and for its usual C library.
for_linux='
io_damaged      pread through a system call
split_processes gettimeofday as Linux declares it, in its place
stream          likewise
terminal        pty.h'
for_glibc='
faults          backtrace of execinfo.h'

# The programs of the project, which `make check` and tests/wine.sh have for Windows.
programs='examples/cli/txt2img.c tools/dit-bench.c tools/dit-compare.c tools/dit-plan.c tools/dit-convert.c'

zig=zig
command -v zig >/dev/null || zig='python3 -m ziglang'
choose() { # choose SYSTEM
    libraries='-lm -ldl -lpthread' twice=-Wl,-z,muldefs ending= left_out= own= weak= alone=-fno-ipa-ra
    case $1 in
    aarch64) compiler=aarch64-linux-gnu-gcc ;;
    windows) compiler=x86_64-w64-mingw32-gcc libraries=-static twice=-Wl,--allow-multiple-definition ending=.exe left_out=$for_posix_alone ;;
    musl) compiler="$zig cc -target x86_64-linux-musl" libraries='-static -lm' left_out=$for_glibc ;;
    macos) compiler="$zig cc -target aarch64-macos" libraries=-lm left_out=$for_linux ;;
    freebsd) compiler="$zig cc -target x86_64-freebsd" libraries='-lm -lpthread' left_out=$for_linux ;;
    windows-arm) compiler="$zig cc -target aarch64-windows-gnu" libraries= ending=.exe left_out=$for_posix_alone ;;
    *) echo "usage: tests/foreign.sh [syntax] [aarch64|windows|musl|macos|freebsd|windows-arm]" >&2; exit 2 ;;
    esac
    case $compiler in # zig's linkers take no name twice: what a test defines itself comes before what is weak
    zig* | python*) compiler="$compiler -fno-sanitize=undefined -Wno-unused-command-line-argument -Wno-undefined-internal"
        weak='__attribute__((weak))' alone= twice= own=$programs ;;
    esac
    folder=$work/$1
    mkdir -p "$folder/include"
    for part in vulkan vk_video stb; do ln -sfn /usr/include/$part "$folder/include/$part"; done
    flags="-std=gnu99 -D_GNU_SOURCE= -Wall -Wextra -Werror -Wno-unused-function -I. -Isrc -Itests -Itests/support -isystem $folder/include"
    case $1 in windows*) flags="$flags -D__USE_MINGW_ANSI_STDIO=1" ;; esac
    sources=
    for source in tests/*/*.c $own; do
        echo "$left_out" | grep -q "^$(basename "$source" .c) " || sources="$sources $source"
    done
}
there() {
    case $compiler in
    *gcc) command -v "$compiler" ;;
    *) $zig version ;;
    esac >/dev/null 2>&1
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
    [ "$folder/library.o" -nt dit.h ] && return
    printf '#define DIT_IMPLEMENTATION\n#define DIT_API %s\n#define DIT_INTERNAL DIT_API\n#include "dit.h"\n' "${weak:-extern}" >"$folder/library.c"
    $compiler -std=gnu99 -O1 -I. -isystem "$folder/include" -ffunction-sections $alone -c "$folder/library.c" -o "$folder/library.o"
}
objects() { # programs see what tests see, and pages that the build makes
    # shellcheck disable=SC2016
    side_by_side sh -c 'case $1 in tests/*) more= ;; *) more="-Ibuild -include library.h" ;; esac
        $0 $more -DDRIVER="\"\"" -DLOADER="\"\"" -O0 -c "$1" -o "$2/$(basename "$1" .c).o"' "$compiler $flags" '{}' "$folder"
}
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
    */musl) timeout 900 "$folder/$1" ;;
    *) xvfb-run -a timeout 900 wine "$folder/$1.exe" ;;
    esac >"$folder/$1.log" 2>&1
    code=$?
    tr -d '\r' <"$folder/$1.log" | grep -qE '^[a-z0-9_-]*: [1-9][0-9]* passed, 0 failed' && [ $code = 0 ] && return
    echo "exit code $code"
    tail -n 8 "$folder/$1.log"
    return 1
}
whole() { # whole SYSTEM
    choose "$1"
    [ -z "$own" ] || make -s build/page.inc build/compare_page.inc
    check "$1: dit.h compiles" library
    check "$1: $(echo $sources | wc -w) tests${own:+ and programs} compile" objects
    check "$1: they link" programs
    case $1 in
    aarch64)
        if ! qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static); then echo "skipped: $1: no qemu-aarch64"; return; fi
        for name in $run_by_qemu; do check "$1: $name" run "$name"; done ;;
    windows)
        if ! command -v wine >/dev/null || ! command -v xvfb-run >/dev/null; then echo "skipped: $1: no Wine or Xvfb"; return; fi
        [ -f build/drivers/lavapipe.json ] || sh tests/drivers.sh
        export WINEPREFIX="$work/prefix" WINEDEBUG=-all VK_ICD_FILENAMES="$PWD/build/drivers/lavapipe.json" \
            VK_DRIVER_FILES="$PWD/build/drivers/lavapipe.json"
        for name in $run_by_wine; do check "$1: $name" run "$name"; done ;;
    musl)
        for name in $run_by_qemu; do check "$1: $name" run "$name"; done ;;
    esac
}

if [ "${1:-}" = syntax ]; then
    choose "${2:-}"
    syntax
    exit
fi
mkdir -p "$work"
done=
for system in ${*:-aarch64 windows musl macos freebsd windows-arm}; do
    choose "$system"
    if there; then whole "$system"; done=1; else echo "skipped: $system: ${compiler%% *} is not installed"; fi
done
[ -n "$done" ] || { echo "no compiler for another system is installed"; exit 77; }
echo "foreign: $passed passed, $failed failed"
[ $failed = 0 ]
