#!/bin/sh
# The day when a GPU is there: writes all that a real one can tell, in ten minutes and without network, as one page.
#   tools/gpu-day.sh pack FOLDER       before, on a machine with network: FOLDER/gpu-day.tar.xz (18 MB) with what the other
#                                      machine may lack: headers, Vulkan's loader and validation layers, ggml, programs for
#                                      the case that it has no compiler, and the libraries of OpenGL and X11
#                                      without which NVIDIA's driver does not open; and FOLDER/tree.tar.xz (67 MB) with what `run`
#                                      needs of this tree, for a machine that cannot have all of it. The other machine must
#                                      be of this architecture
#   tools/gpu-day.sh run FOLDER [PAGE] there, in this tree or in what the second file holds: writes PAGE
#                                      (build/gpu-day/page.md):
#                                        mkdir dit && tar -xJf FOLDER/tree.tar.xz -C dit && cd dit
#                                        sh tools/gpu-day.sh run FOLDER page.md
#
# DIT_DAY_FIXTURES=few packs a smaller tree (39 MB), without the models of tests/fixtures that weigh most: the goldens and tests
# of the others run. DIT_DAY_VULKAN=installed packs the loader and the layers of this machine, else those that
# tools/newest.sh fetched are preferred, which want a C library of 2024 (glibc 2.38); `pack` tells which they are.
#
# The day is made of parts; the most important part comes first. Each may take its own time and what those before it
# left over; a part that fails, or is stopped, is written down with the end of what it said, and the next one begins.
# The page is written anew after every part. DIT_DAY_SCALE=50 gives each half of its time, DIT_DAY_SIZE=small is for
# software drivers, and DIT_DAY_NOTE is a sentence for the head of the page. DIT_DAY_PARTS="device goldens" runs these parts
# alone, in this order; carried programs serve where nothing was built. All parts of dit-bench share one file of --cache, so
# that the first of them alone waits for self-tests. The drivers are those that are no software and have a device, or whose
# manifests VK_DRIVER_FILES or VK_ICD_FILENAMES names.
set -u
work=$PWD/build/gpu-day
carried=$work/carried
all_parts="build device tests goldens networks kernels versus suite"
parts=${DIT_DAY_PARTS:-$all_parts}
cache=$work/dit-bench.cache
seconds_of() {
    case $1 in
    build) echo 70 ;;     # build/dit and build/dit-bench
    device) echo 60 ;;    # what the device is, its rungs, pictures, one of them as two devices
    tests) echo 60 ;;     # building them
    goldens) echo 90 ;;   # on every rung that works
    networks) echo 80 ;;  # dit-bench's models, alone on the machine
    kernels) echo 60 ;;   # and single kernels, alone as well
    versus) echo 70 ;;    # ggml beside
    suite) echo 90 ;;     # tests/run.sh in the way `driver`
    esac
}
tests="kernels kernels_rows attention int8 guard stream contract application split_jobs"
[ -d tests/fixtures/pipe_opensora12 ] || tests=${tests% split_jobs} # whose models a small tree lacks
# Models that weigh a megabyte and more, and that none of the other tests and fixtures reads.
heavy="pipe_opensora12 pipe_flux2_klein pipe_krea2 pipe_flux3 pipe_qwenimage pipe_opensora11 pipe_ltx pipe_cogvideox_2b"
heavy="$heavy pipe_wan22_i2v_a14b pipe_latte taesd hunyuandit_v12 sd35_odd osp11_lattet2v_rope vae_hunyuanvideo vae_wan gguf_flux_sdcpp qwen3_text_gguf lora_zimage"
threads=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)

fail() {
    echo "gpu-day: $1" >&2
    exit 1
}

# The loader and the layers: the newest, where they were fetched.
pack_vulkan() {
    folder=
    [ "${DIT_DAY_VULKAN:-}" = installed ] || folder=$(sh tools/newest.sh folder)
    for library in libvulkan.so.1 libVkLayer_khronos_validation.so; do
        if [ -n "$folder" ]; then
            path=$(ls "$folder"/lib/*/$library "$folder"/lib64/$library "$folder"/lib/$library 2>/dev/null | head -n 1)
        else
            path=$(ls /usr/lib/*/$library /usr/lib64/$library /usr/lib/$library 2>/dev/null | head -n 1)
        fi
        [ -n "$path" ] || fail "$library is not installed"
        cp -L "$path" "$work/pack/lib/" || exit 1
        echo "gpu-day: $(readlink -f "$path"), which wants $(objdump -T "$path" 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)"
    done
    cp "${folder:-/usr}"/share/vulkan/explicit_layer.d/*validation*.json "$work/pack/layers/" || exit 1
}

# Copies the libraries that NVIDIA's driver loads when it opens, though nothing is drawn: those of this machine, else those
# of packages that apt-get can download without root.
pack_gl() {
    missing=
    for library in libGL.so.1:libgl1 libGLX.so.0:libglx0 libGLdispatch.so.0:libglvnd0 libOpenGL.so.0:libopengl0 libEGL.so.1:libegl1 \
        libGLESv2.so.2:libgles2 libX11.so.6:libx11-6 libXext.so.6:libxext6 libxcb.so.1:libxcb1 libXau.so.6:libxau6 libXdmcp.so.6:libxdmcp6 \
        libbsd.so.0:libbsd0 libmd.so.0:libmd0; do
        path=$(cc -print-file-name="${library%:*}") # the name itself where the compiler finds none
        if [ ! -f "$path" ]; then
            rm -rf "$work/gl" && mkdir -p "$work/gl/root"
            ! (cd "$work/gl" && apt-get -qq download "${library#*:}" && dpkg -x ./*.deb root) >/dev/null 2>&1 ||
                path=$(find "$work/gl/root" -name "${library%:*}" | head -n 1)
        fi
        if [ -f "$path" ]; then cp -L "$path" "$work/pack/gl/${library%:*}" || exit 1; else missing="$missing ${library%:*}"; fi
    done
    rm -rf "$work/gl"
    [ -z "$missing" ] || echo "gpu-day: no$missing: they are not installed, and apt-get cannot download them; a driver that wants them opens only where the other machine has them"
}

# Prints the files of some paths: those that git knows, where this is a checkout.
files_of() {
    git ls-files -- "$@" 2>/dev/null | grep . || find "$@" -type f
}

# The models that the goldens and the tests read, by the names that their sources hold.
fixtures_of_day() {
    sources=tests/golden/golden.c
    for name in $tests; do sources="$sources $(ls tests/*/"$name.c")"; done
    # shellcheck disable=SC2086
    { sed '/own_folders\[\]/,/^}/d; /sweep_folders\[\]/,/^}/d' tests/golden/golden.c && cat ${sources#* } tests/golden/*.h tests/support/*.h; } |
        grep -o 'tests/fixtures/[a-z0-9_][a-z0-9_]*' | sort -u | while read -r folder; do
        [ -d "$folder" ] || continue
        case "${DIT_DAY_FIXTURES:-all} $heavy " in few*" ${folder##*/} "*) continue ;; esac
        echo "$folder"
    done
}

# Packs what `run` needs of the tree. Sources stand beside dit.h, which is made of them, so that they are stored once.
pack_tree() { # pack_tree FILE
    # shellcheck disable=SC2046
    files_of Makefile src dit.h shaders tools tests examples models $(ls LICENSE meson.build 2>/dev/null) |
        grep -v -e '^tests/fixtures/' -e '^tests/corpus/' -e '^tests/reference/' -e '^tests/godot/' -e '^examples/godot/' -e '\.png$' -e '\.webp$' \
            >"$work/tree.files" || return 1
    # shellcheck disable=SC2046
    files_of $(fixtures_of_day) >>"$work/tree.files" || return 1
    # shellcheck disable=SC2046
    XZ_OPT=-6 tar -cJf "$1" -T "$work/tree.files" && du -ch --apparent-size $(cat "$work/tree.files") | sed -n 's/total/of files in the tree/p'
}

pack() { # pack FOLDER
    rm -rf "$work/pack" && mkdir -p "$1" "$work/pack/include/stb" "$work/pack/lib" "$work/pack/layers" "$work/pack/bin" "$work/pack/ggml" "$work/pack/gl" || exit 1
    include=$(echo '#include <vulkan/vulkan_core.h>' | cc -E - | sed -n 's#.*"\(.*\)/vulkan/vulkan_core.h".*#\1#p' | head -n 1)
    mkdir -p "$work/pack/include/vulkan"
    cp "$include"/vulkan/*.h "$work/pack/include/vulkan/" && cp -r "$include/vk_video" "$work/pack/include/" || fail "Vulkan's headers are not installed"
    stb=$(echo '#include <stb/stb_image.h>' | cc -E - | sed -n 's#.*"\(.*\)/stb_image.h".*#\1#p' | head -n 1)
    cp "$stb"/stb_image.h "$stb"/stb_image_write.h "$work/pack/include/stb/" || fail "stb's headers are not installed"
    pack_vulkan
    pack_gl
    make build/alone/dit build/dit-bench build/tests/golden build/tests/kernels build/tests/kernels_rows || exit 1
    for program in alone/dit dit-bench tests/golden tests/kernels tests/kernels_rows; do strip -o "$work/pack/bin/${program##*/}" "build/$program" || exit 1; done
    sh tools/versus.sh fetch "$work/pack/ggml" || exit 1
    git rev-parse --short HEAD >"$work/pack/COMMIT" 2>/dev/null || echo unknown >"$work/pack/COMMIT"
    XZ_OPT=-4 tar -C "$work/pack" -cJf "$1/gpu-day.tar.xz" . && rm -rf "$work/pack" && pack_tree "$1/tree.tar.xz" || exit 1
    ls -l "$1/gpu-day.tar.xz" "$1/tree.tar.xz"
}

opens() { VK_DRIVER_FILES=$1 VK_ICD_FILENAMES=$1 "$carried/bin/dit" --list-devices >/dev/null 2>&1; }

# Puts the carried libraries of OpenGL and X11 that this machine lacks behind its own. False: the driver does not open with
# them, either.
opens_with_gl() { # opens_with_gl MANIFESTS
    before=${LD_LIBRARY_PATH:-}
    rm -rf "$work/gl" && mkdir -p "$work/gl" || return 1
    for library in "$carried"/gl/*; do
        [ ! -f "$library" ] || { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | grep -q "^[[:space:]]*${library##*/} " || ln -s "$library" "$work/gl/"
    done
    export LD_LIBRARY_PATH="${before:+$before:}$work/gl"
    if opens "$1"; then
        gl="The driver does not open without libraries that this machine lacks, carried ones take their place: $(ls -m "$work/gl" | paste -sd ' ' | tr -s ' ')."
        echo "gpu-day: $gl"
        return
    fi
    export LD_LIBRARY_PATH="$before"
    return 1
}

# The drivers to use: those named, else all that are no software where they have a device, else those that are.
find_driver() {
    driver=${VK_DRIVER_FILES:-${VK_ICD_FILENAMES:-}}
    if [ -n "$driver" ]; then
        [ "$1" = part ] || opens "$driver" || opens_with_gl "$driver"
        return
    fi
    manifests=$(ls /etc/vulkan/icd.d/*.json /usr/share/vulkan/icd.d/*.json /usr/local/etc/vulkan/icd.d/*.json /usr/local/share/vulkan/icd.d/*.json \
        /usr/local/*/share/vulkan/icd.d/*.json /opt/*/share/vulkan/icd.d/*.json 2>/dev/null)
    software='lvp\|llvmpipe\|swiftshader'
    driver=$(echo "$manifests" | grep -v "$software" | sort -u | paste -sd :)
    [ -n "$driver" ] && { opens "$driver" || opens_with_gl "$driver"; } || driver=$(echo "$manifests" | grep "$software" | sort -u | paste -sd :)
}

# Sets the environment that every part needs. The layers' manifest names its library by a path.
environment() { # environment run|part: the parts inherit what `run` found
    export CPATH="$carried/include${CPATH:+:$CPATH}"
    if ! { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | grep -q 'libvulkan\.so\.1'; then
        ! ldd "$carried/lib/libvulkan.so.1" 2>&1 | grep -q 'not found' ||
            fail "the carried loader wants a newer C library than this machine has; pack again with DIT_DAY_VULKAN=installed"
        export LD_LIBRARY_PATH="$carried/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    fi
    gl=
    find_driver "$1"
    [ -n "$driver" ] || fail "no Vulkan driver: no manifest in any icd.d, and VK_DRIVER_FILES names none"
    export VK_DRIVER_FILES="$driver" VK_ICD_FILENAMES="$driver" DIT_VERSUS_CACHE="$cache"
    sed -i "s#\"library_path\": *\"[^\"]*\"#\"library_path\": \"$carried/lib/libVkLayer_khronos_validation.so\"#" "$carried"/layers/*.json
    export VK_LAYER_PATH="$carried/layers"
    layers=1
    ! ldd "$carried/lib/libVkLayer_khronos_validation.so" 2>&1 | grep -q 'not found' || layers=0
}

# --- the parts: each prints its piece of the page; what goes wrong is said on stderr ---

carried_program() { # carried_program NAME...: in place of what was not built
    mkdir -p build/tests
    for name in "$@"; do
        folder=build
        case $name in golden | kernels*) folder=build/tests ;; esac
        rm -f "$folder/$name" && cp "$carried/bin/$name" "$folder/$name" || return 1
    done
    echo "Not built: $*. Carried programs take their place."
}

# The parts may come in any order.
have() { # have NAME...: what was not built is carried
    for program in "$@"; do
        case $program in golden | kernels*) path=build/tests/$program ;; *) path=build/$program ;; esac
        [ -x "$path" ] || carried_program "$program" >&2 || return 1
    done
}

part_build() {
    timeout "$1" make -j"$threads" build/dit build/dit-bench >&2 || carried_program dit dit-bench || return 1
    build/dit-bench --help >/dev/null
}

report() { # report PARTS SECONDS
    have dit-bench && build/dit-bench report --cache "$cache" --parts "$1" --seconds "$2"
}

part_device() { report device,rungs,pictures "$1"; }

part_tests() {
    names=
    for name in golden $tests; do names="$names build/tests/$name"; done
    # shellcheck disable=SC2086
    timeout "$1" make -k -j"$threads" $names >&2 && return
    for name in golden kernels kernels_rows; do [ -x build/tests/$name ] || carried_program $name || return 1; done
    for name in golden $tests; do [ -x "build/tests/$name" ] || echo "tests/$name.c was not built"; done >&2
    return 1
}

# Compilers take most of the time of a rung, so that rungs run side by side where processors are many.
golden_rung() { # golden_rung RUNG SECONDS [FOLDER...]: prints the row of a rung
    rung=$1 seconds=$2 began=$(date +%s)
    shift 2
    DIT_TEST_LAYERS=0 timeout -k 3 "$seconds" build/tests/golden "$@" --rung "$rung" >"$work/golden.$rung.log" 2>&1
    code=$?
    log=$work/golden.$rung.log
    line=$(grep '^golden: ' "$log" | tail -n 1)
    [ $code != 124 ] || line="stopped after $seconds s in folder $(grep -c '^tests/' "$log"): $(grep -c ' ok$' "$log") results right, $(grep -c 'FAILED$' "$log") wrong"
    echo "| $rung | $(($(date +%s) - began)) | ${line:-ended with code $code} |"
    [ $code = 0 ] || { : >"$work/golden.$rung.bad"; echo "rung $rung:" >&2; grep -iE 'fail|error' "$work/golden.$rung.log" | head -n 8 >&2; }
}

part_goldens() {
    printf '\n## Goldens\n\nResults of the original implementations, all models of tests/fixtures on each rung that works.\n\n'
    folders=$(sed -n '/model_folders\[\]/,/^}/s/.*"\(tests[^"]*\)".*/\1/p' tests/golden/golden.c | while read -r folder; do [ ! -d "$folder" ] || echo "$folder"; done)
    folders=$(echo "$folders" | grep /pipe_; echo "$folders" | grep -v /pipe_) # whole pictures first, should the time end
    if [ ! -d tests/fixtures/pipe_opensora12 ]; then
        printf 'This tree holds %s of them.\n\n' "$(echo "$folders" | wc -l)"
    fi
    echo "| rung | seconds | |"
    echo "| --- | --- | --- |"
    rm -f "$work"/golden.*.bad
    have golden || return 1
    rungs=$({ grep '| works |' "$work/device.md" || report rungs 20; } 2>/dev/null | sed -n 's/^| \([a-z0-9]*\) | works |.*/\1/p')
    for rung in ${rungs:-base}; do
        case ${DIT_DAY_SIZE:-large}:$rung in small:half | small:coop*) echo "| $rung | | emulated: left out |"; continue ;; esac
        # shellcheck disable=SC2086
        if [ "$threads" -ge 8 ]; then
            golden_rung "$rung" "$1" $folders &
        else
            golden_rung "$rung" "$(($1 / 3))" $folders
        fi
    done
    wait
    ! ls "$work"/golden.*.bad >/dev/null 2>&1
}

part_networks() { report steps "$1"; }
part_kernels() { report kernels "$1"; }

part_versus() {
    have dit-bench || return 1
    printf '\n## ggml beside dit.h\n\n'
    DIT_VERSUS_SECONDS=$1 sh tools/versus.sh run "$carried/ggml" "${DIT_DAY_SIZE:-large}"
}

part_suite() {
    printf '\n## Tests\n\n`tests/run.sh` in the way `driver`, %s validation layers.\n\n```\n' "$([ "$layers" = 1 ] && echo with || echo without)"
    built=
    for name in $tests; do [ ! -x "build/tests/$name" ] || built="$built $name"; done
    # shellcheck disable=SC2086
    DIT_TEST_WAYS=driver DIT_TEST_DRIVER=$driver DIT_TEST_LAYERS=$layers DIT_TEST_SECONDS=$1 DIT_TEST_JOBS=$([ "$threads" -ge 8 ] && echo 8 || echo 2) sh tests/run.sh ${built:-kernels kernels_rows}
    code=$?
    echo '```'
    return $code
}

# --- the day ---

write_page() { # write_page PAGE
    {
        name=$(sed -n 's/^| device | \(.*\) (.*/\1/p' "$work/device.md" 2>/dev/null | head -n 1)
        echo "# ${name:-a device that could not be opened}"
        echo
        echo "Made by \`tools/gpu-day.sh\`, commit $(cat "$carried/COMMIT"), drivers $(echo "$driver" | tr ':' '\n' | sed 's#.*/##' | paste -sd ' ')${DIT_DAY_SIZE:+, size $DIT_DAY_SIZE}."
        [ -z "${DIT_DAY_NOTE:-}" ] || printf '\n%s\n' "$DIT_DAY_NOTE"
        [ -z "$gl" ] || printf '\n%s\n' "$gl"
        printf '\n| part | outcome | seconds | may take |\n| --- | --- | --- | --- |\n'
        cat "$work/outcomes"
        for part in $parts; do
            [ -f "$work/$part.md" ] || continue
            grep -v -e '^# ' -e '^Made by `build/dit-bench report`' "$work/$part.md" | cat -s
            [ $(($(grep -c '^```' "$work/$part.md") % 2)) = 0 ] || echo '```' # it was stopped inside
        done
        for part in $parts; do
            [ -f "$work/$part.failed" ] || continue
            printf '\n<details><summary>the end of what %s said</summary>\n\n```\n' "$part"
            tail -n 15 "$work/$part.log" | cut -c 1-200 | tr '`' "'"
            printf '```\n\n</details>\n'
        done
    } >"$1.part" && mv "$1.part" "$1"
}

run() { # run FOLDER PAGE
    for part in $parts; do
        case " $all_parts " in *" $part "*) ;; *) fail "DIT_DAY_PARTS: there is no part $part, but $all_parts" ;; esac
    done
    [ -f "$1/gpu-day.tar.xz" ] || fail "$1/gpu-day.tar.xz is not there; tools/gpu-day.sh pack $1 makes it where there is network"
    rm -rf "$work" && mkdir -p "$carried" && tar -xJf "$1/gpu-day.tar.xz" -C "$carried" || exit 1
    environment run
    : >"$work/outcomes"
    start=$(date +%s) may=0
    for part in $parts; do
        may=$((may + $(seconds_of "$part") * ${DIT_DAY_SCALE:-100} / 100))
        began=$(date +%s)
        left=$((start + may - began))
        echo "gpu-day: $part, at most $left s"
        timeout -k 3 "$left" sh "$0" part "$part" $((left * 5 / 6)) >"$work/$part.md" 2>"$work/$part.log"
        code=$?
        case $code in
        0) outcome=good ;;
        124 | 137) outcome="**stopped**" ;;
        *) outcome="**failed** (code $code)" ;;
        esac
        [ $code = 0 ] || : >"$work/$part.failed"
        echo "| $part | $outcome | $(($(date +%s) - began)) | $left |" >>"$work/outcomes"
        write_page "$2"
    done
    echo "gpu-day: $(($(date +%s) - start)) s, $2"
    ! grep -q '\*\*' "$work/outcomes"
}

case ${1:-} in
pack) [ $# = 2 ] && pack "$2" ;;
run) [ $# -ge 2 ] && run "$2" "${3:-$work/page.md}" ;;
part) environment part && "part_$2" "$3" ;;
*) fail "pack FOLDER, or run FOLDER [PAGE]" ;;
esac
