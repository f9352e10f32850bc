#!/bin/sh
# tests/wine.sh: the programs as MinGW builds them for Windows, run by Wine on this machine's Vulkan driver. They must
# make the pictures that the programs for this system make, but for the rounding of another C library's exp and log.
# Ends with `wine: N passed, N failed`. Part of `make test-all`; exit code 77 where MinGW, Wine or Xvfb is missing.
set -u
work=$PWD/build/wine
passed=0 failed=0
compiler=x86_64-w64-mingw32-gcc
for need in $compiler wine xvfb-run; do
    command -v $need >/dev/null 2>&1 || { echo "$need is not installed"; exit 77; }
done
mkdir -p "$work/include"
for folder in vulkan vk_video stb; do ln -sfn /usr/include/$folder "$work/include/$folder"; done
export WINEPREFIX="$work/prefix" WINEDEBUG=-all VK_ICD_FILENAMES="$PWD/build/drivers/lavapipe.json" VK_DRIVER_FILES="$PWD/build/drivers/lavapipe.json"

check() { # check TITLE COMMAND...
    title=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
        echo "  ok      $title"
    else
        failed=$((failed + 1))
        echo "  FAILED  $title"
        tail -n 10 "$work/log" | cut -c 1-240 | sed 's/^/          | /'
    fi
}

build() { # build SOURCE NAME
    if [ "$work/$2.exe" -nt dit.h ] && [ "$work/$2.exe" -nt "$1" ]; then return; fi
    x86_64-w64-mingw32-windres examples/cli/windows.rc "$work/windows.o" &&
        $compiler -std=gnu99 -O2 -static -I. -isystem "$work/include" "$1" "$work/windows.o" -o "$work/$2.exe"
}
windows() { # windows PROGRAM ARGUMENTS...: Wine finds graphics drivers only where there is a display
    program=$1
    shift
    xvfb-run -a timeout 600 wine "$work/$program.exe" "$@"
}
same_pixels() { # of two PPM files: at least 50 dB, which is one level in a byte of 25
    [ "$(wc -c <"$1")" = "$(wc -c <"$2")" ] || { echo "the files differ in length"; return 1; }
    cmp -l "$1" "$2" | awk -v count="$(wc -c <"$1")" '
        function octal(text, i, n) { for (i = 1; i <= length(text); i++) n = n * 8 + substr(text, i, 1); return n }
        { d = octal($2) - octal($3); sum += d * d; if (d < 0) d = -d; if (d > most) most = d }
        END {
            decibel = sum ? 10 * log(255 * 255 * count / sum) / log(10) : 999
            printf "%d bytes of %d differ, by %d at most: %.1f dB\n", NR, count, most, decibel
            exit decibel < 50
        }'
}

minimal_picture() {
    build/minimal models/emoji-q8_0.gguf banana "$work/here.ppm" && windows minimal models/emoji-q8_0.gguf banana "$work/there.ppm" &&
        same_pixels "$work/here.ppm" "$work/there.ppm"
}
command_line() {
    rm -f "$work/banana.png"
    windows dit -m models/emoji-q8_0.gguf --prompt banana --steps 4 --seed 7 -o "$work/banana.png" || return 1
    grep -aq '^banana' "$work/banana.png" || grep -aq 'parameters.*banana' "$work/banana.png" || { echo "the PNG does not name its prompt"; return 1; }
    grep -aq 'Seed: 7' "$work/banana.png"
}
other_letters() { # prompts and paths beyond the system's code page arrive as they are
    rm -rf "$work/grün ♥" && mkdir "$work/grün ♥" && cp models/emoji-q8_0.gguf "$work/grün ♥/模型.gguf" || return 1
    windows dit -m "$work/grün ♥/模型.gguf" --prompt 'grünes Herz ♥' --steps 1 -o "$work/grün ♥/häßlich ♥.png" || return 1
    grep -aq 'grünes Herz ♥' "$work/grün ♥/häßlich ♥.png" || { echo 'the PNG names another prompt'; return 1; }
    windows dit --repeat-from "$work/grün ♥/häßlich ♥.png" -m "$work/grün ♥/模型.gguf" -o "$work/grün ♥/wieder.png" &&
        cmp "$work/grün ♥/häßlich ♥.png" "$work/grün ♥/wieder.png"
}
refusal() { # a missing file ends with a sentence and the exit code that Linux has
    windows dit -m missing.gguf --prompt x -o "$work/none.png" >"$work/refusal" 2>&1
    there=$?
    build/dit -m missing.gguf --prompt x -o "$work/none.png" >/dev/null 2>&1
    [ $? = $there ] && grep -q missing.gguf "$work/refusal" || { echo "exit code $there"; cat "$work/refusal"; return 1; }
}
check 'minimal.exe is built' build examples/minimal.c minimal
check 'dit.exe is built' build examples/cli/txt2img.c dit
check 'dit.exe lists a device' windows dit --list-devices
check 'minimal.exe makes the picture that minimal makes' minimal_picture
check 'dit.exe makes a PNG that names its parameters' command_line
check 'dit.exe takes prompts and paths in any letters' other_letters
check 'dit.exe refuses a missing model as dit does' refusal
echo "wine: $passed passed, $failed failed"
[ $failed = 0 ]
