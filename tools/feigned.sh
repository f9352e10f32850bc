#!/bin/sh
# GPUs on machines that have none: Mesa's "drm-shim" libraries stand in for a kernel driver, so that RADV, ANV and NVK open
# a device of a given model, accept or refuse features, and compile every kernel with the compiler that users have. Nothing is
# executed: this tells whether kernels compile, how long that takes, and what registers and spills come out; never whether
# results are right.
#   tools/feigned.sh fetch [GPU...]      drivers (tools/newest.sh), the shims from Mesa's source (47 MB) and the layer: once,
#                                        some minutes; says why it cannot. Arm's GPUs, if named, need a second set of
#                                        drivers (350 MB), qemu and a compiler for Arm's processors
#   tools/feigned.sh list                names of GPUs
#   tools/feigned.sh run GPU PROGRAM...  runs a program on one; FEIGNED_STATISTICS=FILE appends what the driver says of each
#                                        pipeline (tools/feigned_layer.c). dit.h's own self-test needs the override selftest=skip,
#                                        which build/feigned sets, with those that FEIGNED_OVERRIDES adds
#   tools/feigned.sh gpus [GPU...]       `make gpus`: every kernel that is chosen by default (tools/feigned.c), one table of all
#                                        GPUs but Arm's or of these; exits 1 where one fails, spills to memory, or FLUX.1's take
#                                        too long, and 77 without drivers
#   tools/feigned.sh versus [GPU...]     dit.h's kernels beside ggml-vulkan's (tools/versus.sh), by what compilers say of both: a
#                                        table; BENCHMARKS.md has it and tells what its columns are
set -u
cache=${XDG_CACHE_HOME:-${HOME:-$PWD/build}/.cache}/dit
root=$cache/newest/root shims=$cache/feigned
compared='navi21 navi31 gfx1150 turing ampere dg2 dg2-half bmg vega10 polaris10 pascal volta cfl x1-85' # rows of the table in BENCHMARKS.md

fail() {
    echo "feigned: $1" >&2
    exit 1
}

list() { # one in a line, the name first
    cat <<'EOF'
pascal         NVIDIA GP104, GTX 1070 and 1080
volta          NVIDIA GV100
turing         NVIDIA TU102, RTX 20 and T4
ampere         NVIDIA GA102, RTX 30
polaris10      AMD RX 480 and 580
vega10         AMD Vega 56 and 64
navi10         AMD RDNA1, RX 5700
navi21         AMD RDNA2, RX 6800
navi21-mixed   the same with VK_VALVE_shader_mixed_float_dot_product (override unverified=1)
vangogh        AMD RDNA2, Steam Deck
navi31         AMD RDNA3, RX 7900
navi31-wave32  the same with matrices in subgroups of 32 threads, not 64 (override subgroup=32)
navi31-f16     the same as a GPU whose matrices hold halves and no int8 (overrides rung=coop,int8_matrices=0)
gfx1150        AMD RDNA3.5, Radeon 890M
gfx1201        AMD RDNA4, RX 9070
gfx1201-float8 the same with F8 weights on matrices of 8-bit floats (override float8=1)
gfx1201-bf16   the same as a GPU whose matrices hold bfloat16 and no halves (override half_matrices=0)
cfl            Intel Gen 9, UHD 630
icl            Intel Gen 11, Iris Plus
tgl            Intel Xe-LP, Iris Xe
adl            Intel Xe-LP
dg2            Intel Xe-HPG, Arc A770
dg2-half       the same where its matrices turned out not to be faster (diti_device_choose_matrices)
mtl            Intel Xe-LPG
arl-h          Intel Xe-LPG with matrix units, Arrow Lake H
bmg            Intel Xe2, Arc B580
a630           Qualcomm Adreno 630, Snapdragon 845
a660           Qualcomm Adreno 660, Snapdragon 888
a740           Qualcomm Adreno 740, Snapdragon 8 Gen 2
x1-85          Qualcomm Adreno X1-85, Snapdragon X Elite
m1             Apple M1, under Linux
m2-max         Apple M2 Max, under Linux
g610           Arm Mali-G610, RK3588; compiled under qemu: seven minutes, and times are not the compiler's
EOF
}

# A GPU is three things to the shim: the driver's library, the shim's, and the variable that says which model; a kind of
# machine is a fourth where the driver is for that alone. The overrides say what a self-test would find: how NVK lays out
# matrices is read from its source.
describe() {
    overrides='' machine=''
    case $1 in
    pascal) driver=nouveau shim=nouveau model=NOUVEAU_CHIPSET=134 ;;
    volta) driver=nouveau shim=nouveau model=NOUVEAU_CHIPSET=140 ;;
    turing) driver=nouveau shim=nouveau model=NOUVEAU_CHIPSET=162 overrides=layout=1283 ;;
    ampere) driver=nouveau shim=nouveau model=NOUVEAU_CHIPSET=172 overrides=layout=1283 ;;
    polaris10 | vega10 | navi10 | navi21 | vangogh | navi31 | gfx1150 | gfx1201) driver=radeon shim=amdgpu model=AMDGPU_GPU_ID=$1 ;;
    gfx1201-float8) driver=radeon shim=amdgpu model=AMDGPU_GPU_ID=gfx1201 overrides=float8=1 ;;
    gfx1201-bf16) driver=radeon shim=amdgpu model=AMDGPU_GPU_ID=gfx1201 overrides=half_matrices=0 ;;
    navi21-mixed) driver=radeon shim=amdgpu model=AMDGPU_GPU_ID=navi21 overrides=unverified=1 ;;
    navi31-wave32) driver=radeon shim=amdgpu model=AMDGPU_GPU_ID=navi31 overrides=subgroup=32 ;;
    navi31-f16) driver=radeon shim=amdgpu model=AMDGPU_GPU_ID=navi31 overrides=rung=coop,int8_matrices=0 ;;
    arl-h) driver=intel shim=intel model=INTEL_STUB_GPU_DEVICE_ID=7d51 overrides=layout=196608 ;;
    dg2-half) driver=intel shim=intel model=INTEL_STUB_GPU_PLATFORM=dg2 overrides=rung=half ;;
    a630 | a660 | a740) driver=freedreno shim=freedreno model=FD_GPU_ID=${1#a} ;;
    x1-85) driver=freedreno shim=freedreno model=FD_GPU_ID=741 ;;
    dg2 | bmg) driver=intel shim=intel model=INTEL_STUB_GPU_PLATFORM=$1 overrides=layout=196608 ;;
    cfl | icl | tgl | adl | mtl) driver=intel shim=intel model=INTEL_STUB_GPU_PLATFORM=$1 ;;
    m1) driver=asahi shim=asahi model=FEIGNED_ASAHI=8103 ;;
    m2-max) driver=asahi shim=asahi model=FEIGNED_ASAHI=6021 ;;
    g610) machine=arm64 driver=panfrost shim=panfrost model=PAN_GPU_ID=a807 ;;
    *) fail "there is no GPU $1; tools/feigned.sh list names those that there are" ;;
    esac
}

# The GPUs whose drivers run here without an emulator.
of_this_machine() {
    for gpu in $(list | sed 's/ .*//'); do
        describe "$gpu"
        [ -n "$machine" ] || echo "$gpu"
    done
}

# The shims are not packaged. Mesa's build needs a newer meson than many distributions have, which a folder of its own gets.
build_shims() (
    mesa=$shims/mesa
    rm -rf "$mesa" && sh tools/newest.sh source mesa "$mesa" || exit 1
    python3 -m venv "$shims/python" && "$shims/python/bin/pip" -q install meson ninja mako pyyaml packaging setuptools || exit 1
    # the shims need neither the newest libdrm, nor the version of the kernel's interface that newer drivers ask for
    sed -i "s/_drm_amdgpu_ver = '[0-9.]*'/_drm_amdgpu_ver = '2.4.100'/; s/_drm_ver = '[0-9.]*'/_drm_ver = '2.4.100'/" "$mesa/meson.build"
    sed -i 's/version_minor = [0-9]*/version_minor = 61/' "$mesa/src/amd/drm-shim/amdgpu_noop_drm_shim.c"
    awk -f tools/feigned_gfx1201.awk "$mesa/src/amd/drm-shim/amdgpu_devices.c" >"$shims/devices" && mv "$shims/devices" "$mesa/src/amd/drm-shim/amdgpu_devices.c" || exit 1
    # a call that a noop must not answer: newer drivers for Adreno take it for memory that is bound by another call. The
    # X1-85 is given the numbers of the Adreno 750.
    sed -i -e '/\[DRM_MSM_SET_PARAM\]/d' \
        -e 's/\.gpu_id = 750,/.gpu_id = 741, .chip_id = 0x43050c01, .gmem_size = 3 << 20 }, { &/' "$mesa/src/freedreno/drm-shim/freedreno_noop.c"
    # the shim for Apple's GPUs is tools/feigned_asahi.c
    cp tools/feigned_asahi.c "$mesa/src/drm-shim/" && cat >>"$mesa/src/drm-shim/meson.build" <<'EOF' || exit 1

shared_library('asahi_noop_drm_shim', 'feigned_asahi.c', include_directories: [inc_include, inc_src], dependencies: dep_drm_shim, gnu_symbol_visibility: 'hidden')
EOF
    PATH=$shims/python/bin:$PATH
    none='-Dllvm=disabled -Dplatforms= -Dglx=disabled -Degl=disabled -Dgbm=disabled -Dopengl=false -Dgles1=disabled -Dgles2=disabled -Dvideo-codecs='
    # shellcheck disable=SC2086
    meson setup "$mesa/build" "$mesa" --buildtype=release -Dtools=drm-shim,intel -Dvulkan-drivers=amd,intel_hasvk,freedreno -Dfreedreno-kmds=msm -Dgallium-drivers=nouveau \
        -Dbuild-tests=false $none >"$shims/log" 2>&1 || exit 1
    libraries=$(ninja -C "$mesa/build" -t targets all | sed -n 's/^\(src[^ ]*_noop_drm_shim\.so\):.*/\1/p')
    # shellcheck disable=SC2086
    ninja -j 2 -C "$mesa/build" $libraries >>"$shims/log" 2>&1 || exit 1
    for library in $libraries; do cp "$mesa/build/$library" "$shims/" || exit 1; done
    rm -rf "$mesa" "$shims/python"
)

# Debian has a driver for Arm's GPUs in its build for Arm's processors alone, so qemu runs it. The shim, the layer and
# build/feigned are made for those processors, too.
fetch_arm64() {
    sh tools/setup.sh arm64 || exit 1
    folder=$cache/newest/arm64 cross=aarch64-linux-gnu-gcc
    mkdir -p "$shims/arm64" build/arm64
    for suite in testing unstable; do
        [ -d "$folder" ] || { rm -rf "$folder.part" && NEWEST_ARCHITECTURE=arm64 sh tools/newest.sh unpack $suite "$folder.part" mesa-vulkan-drivers libvulkan1 libc6 && mv "$folder.part" "$folder"; }
    done
    [ -d "$folder" ] || exit 1
    [ -f "$shims/arm64/libpanfrost_noop_drm_shim.so" ] || build_arm64_shim || fail "Mesa's shim for Arm's GPUs was not built"
    $cross -std=gnu99 -O1 -shared -fPIC tools/feigned_layer.c -o build/arm64/libfeigned_layer.so -lpthread || exit 1
    [ build/arm64/feigned -nt build/feigned ] ||
        $cross -std=gnu99 -I. -Isrc -Itests -Itests/support -O1 -DDIT_API=static -Wno-unused-function tools/feigned.c -o build/arm64/feigned -lm -ldl -lpthread || exit 1
}

# Mesa's meson would want all that Mesa needs for those processors. The linker takes the helpers that the shim wants; one that
# does not compile without meson is not among them.
build_arm64_shim() (
    mesa=$shims/mesa
    rm -rf "$mesa" && sh tools/newest.sh source mesa "$mesa" && cd "$mesa" && mkdir objects || exit 1
    flags="-std=gnu11 -O1 -fPIC -fvisibility=hidden -w -DNDEBUG -D_GNU_SOURCE -DHAVE_PTHREAD -DHAVE_STRUCT_TIMESPEC -DHAVE_ENDIAN_H -DHAVE_SECURE_GETENV
        -DHAVE_MEMFD_CREATE -DHAVE_LINUX_FUTEX_H -Iinclude -Isrc -Isrc/util $(pkg-config --cflags libdrm)"
    # shellcheck disable=SC2086
    for source in src/util/*.c; do $cross $flags -c "$source" -o "objects/$(basename "$source" .c).o" 2>/dev/null; done
    # shellcheck disable=SC2086
    aarch64-linux-gnu-ar rc helpers.a objects/*.o && $cross $flags -shared -Wl,--no-undefined src/drm-shim/*.c src/panfrost/drm-shim/panfrost_noop.c helpers.a \
        -o "$shims/arm64/libpanfrost_noop_drm_shim.so" -lm -ldl -lpthread || exit 1
    rm -rf "$mesa"
)

fetch() { # fetch [GPU...]
    sh tools/newest.sh fetch || exit 1
    mkdir -p "$shims" || exit 1
    if ! grep -qs gfx1201 "$shims/libamdgpu_noop_drm_shim.so" ||
        [ ! -f "$shims/libfreedreno_noop_drm_shim.so" ] || [ ! -f "$shims/libasahi_noop_drm_shim.so" ]; then
        sh tools/setup.sh gpus || exit 1
        build_shims || fail "Mesa's shims were not built: $(tail -n 1 "$shims/log" 2>/dev/null)"
    fi
    mkdir -p build && cc -std=gnu99 -Wall -Wextra -O1 -shared -fPIC tools/feigned_layer.c -o build/libfeigned_layer.so -lpthread || exit 1
    for gpu; do
        describe "$gpu"
        [ -z "$machine" ] || { fetch_arm64 && break; }
    done
}

run() { # run GPU PROGRAM...
    describe "$1"
    shift
    built=build start=env
    [ -z "$machine" ] || root=$cache/newest/$machine shims=$shims/$machine built=build/$machine start="$(command -v qemu-aarch64 || command -v qemu-aarch64-static) -E"
    program=$1
    shift
    case $program in build/*) program=$built/${program#build/} ;; esac
    library=$(ls "$root"/usr/lib/*/libvulkan_$driver.so 2>/dev/null | head -n 1)
    loader=$(ls "$root"/usr/lib64/ld-linux*.so.* "$root"/usr/lib/ld-linux*.so.* "$root"/usr/lib/*/ld-linux*.so.* 2>/dev/null | head -n 1)
    { [ -f "$library" ] && [ -n "$loader" ] && [ -f "$shims/lib${shim}_noop_drm_shim.so" ] && [ -f $built/libfeigned_layer.so ]; } ||
        fail "nothing is there; tools/feigned.sh fetch fetches it"
    # whole files take the place of old ones, which another run may be about to read
    printf '{"file_format_version": "1.0.0", "ICD": {"library_path": "%s", "api_version": "1.4.0"}}\n' "$library" >"build/feigned_$driver.$$" &&
        mv "build/feigned_$driver.$$" "build/feigned_$driver.json"
    mkdir -p $built/feigned_layers
    cat >$built/feigned_layer.$$ <<EOF
{"file_format_version": "1.2.0", "layer": {"name": "VK_LAYER_DIT_feigned", "type": "GLOBAL", "api_version": "1.3.0", "implementation_version": "1",
 "library_path": "$PWD/$built/libfeigned_layer.so", "description": "what the driver says of each pipeline",
 "functions": {"vkNegotiateLoaderLayerInterfaceVersion": "feigned_negotiate"}}}
EOF
    mv $built/feigned_layer.$$ $built/feigned_layers/feigned.json
    libraries=${library%/*}
    # shellcheck disable=SC2086
    exec env "$model" ${machine:+FEIGNED_EMULATED=1} "FEIGNED_OVERRIDES=${FEIGNED_OVERRIDES:-$overrides}" VK_DRIVER_FILES="$PWD/build/feigned_$driver.json" \
        VK_ICD_FILENAMES="$PWD/build/feigned_$driver.json" VK_LAYER_PATH="$PWD/$built/feigned_layers" VK_INSTANCE_LAYERS=VK_LAYER_DIT_feigned \
        MESA_SHADER_CACHE_DISABLE=true $start LD_PRELOAD="$shims/lib${shim}_noop_drm_shim.so" \
        "$loader" --library-path "$libraries:/usr/lib/${libraries##*/}${FEIGNED_LIBRARIES:+:$FEIGNED_LIBRARIES}" "$program" "$@"
}

# One row for each GPU; a GPU whose row is there already, from the same sources, is not done again.
gpus() {
    for gpu; do describe "$gpu"; done # a name that is wrong is no reason to skip
    (fetch "$@") || {
        echo "skipped: the drivers and shims for feigned GPUs are not here" >&2
        exit 77
    }
    result=0
    mkdir -p build/gpus && rm -f build/gpus/table
    for gpu; do
        describe "$gpu"
        row=build/gpus/$gpu
        if [ ! -f "$row" ] || [ build/feigned -nt "$row" ]; then
            rm -f "$row" "$row.statistics"
            (FEIGNED_STATISTICS="$PWD/$row.statistics" run "$gpu" build/feigned "$gpu" "$PWD/$row.statistics") >"$row.part" 2>"$row.log"
            status=$?
            [ $status -le 1 ] || printf '| %s | the program ended with status %s: %s |\n1\n' "$gpu" $status "$(tail -n 1 "$row.log")" >"$row.part"
            mv "$row.part" "$row"
        fi
        sed -n 's/^\(spills\|never\|fails\) /'"$gpu"': \1 /p' "$row" >&2
    done
    build/feigned head
    for gpu; do sed -n '/^|/p' "build/gpus/$gpu"; done
    for gpu; do ! grep -q '^missed' "build/gpus/$gpu" || result=1; done
    exit $result
}

# Asks the compiler about one case: leaves the layer's lines in FOLDER/said, with those of the kernels' loops.
look() { # look FOLDER WHO GPU CASE
    rm -rf "$1" && mkdir -p "$1" || exit 1
    together=0 # dit.h's kernels of halves have loops of floats beside, for sums that did not fit
    if [ "$2" = ggml ]; then
        together=1
        (FEIGNED_LIBRARIES=$versus FEIGNED_CODE=$PWD/$1 FEIGNED_STATISTICS=$PWD/$1/said run "$3" "$versus/versus_ggml" "$versus" "$4") >"$1/log" 2>&1
    else
        (FEIGNED_CODE=$PWD/$1 FEIGNED_STATISTICS=$PWD/$1/said run "$3" build/feigned case "$4") >"$1/log" 2>&1
        grep '^dispatch\|^constants' "$1/log" >>"$1/said"
    fi
    for code in "$1"/*.0; do
        handle=${code##*/} handle=${handle%.0}
        lanes=$(sed -n "s/^pipeline $handle .*	Subgroup=\([0-9]*\).*/\1/p" "$1/said" | head -n 1)
        echo "loop $handle $(awk -v lanes="${lanes:-1}" -v together=$together -f tools/feigned_loop.awk "$code")" >>"$1/said"
        echo "cycles $handle $(awk -v lanes="${lanes:-1}" -v together=$together -v cycles=1 -f tools/feigned_loop.awk "$code")" >>"$1/said"
    done
    awk -v who="$2" -v case="$4" -f tools/feigned_versus.awk "$1/said"
}

# dit.h beside ggml-vulkan, by what compilers say of the kernels that each dispatches for a case: a Markdown table.
versus() {
    (fetch "$@") || fail "the drivers and shims for feigned GPUs are not here"
    make build/feigned >&2 || exit 1
    versus=build/ggml
    [ -x $versus/versus_ggml ] || sh tools/versus.sh fetch $versus || exit 1
    echo "ggml-vulkan $(cat $versus/VERSION). Each pair of figures: dit.h / ggml."
    echo
    echo '| GPU | case | kernel | round | registers | occupancy | spills | cycles | ggml / dit.h | instructions | ggml / dit.h |'
    echo '| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |'
    for gpu; do
        describe "$gpu"
        [ -z "$machine" ] || fail "ggml-vulkan is not compiled for $machine"
        for case in gemm:f16:1024:4096:4096 gemm:q8_0:1024:4096:4096 gemm:q4_K:1024:4096:4096 attention:64:24:4096 attention:128:24:4096; do
            ours=$(look "build/versus/$gpu-dit.h-$case" dit.h "$gpu" "$case")
            theirs=$(look "build/versus/$gpu-ggml-$case" ggml "$gpu" "$case")
            echo "$gpu|$case|$ours|$theirs" | awk -F'|' '
                function better(a, b, mark) { # b / a, where both are numbers
                    mark = (b ~ /<=/ ? "<= " : "")
                    star = (a ~ /\*/) != (b ~ /\*/) ? "*" : ""
                    sub(/<= /, "", b)
                    return a + 0 && b + 0 ? mark sprintf("%.2f", b / a) star : "-"
                }
                {
                    split($2, part, ":")
                    printf "| %s | %s %s | %s | %s / %s | %s / %s | %s / %s | %s / %s | %s / %s | %s | %s / %s | %s |\n", $1, part[1] == "gemm" ? "product" : part[1], \
                        part[2], $3, $10, $19, $4, $13, $5, $14, $6, $15, $7, $16, better($7, $16), $8, $17, better($8, $17)
                }'
        done
    done
}

cd "$(dirname "$0")/.." || exit 1
case ${1:-} in
fetch) shift && fetch "$@" ;;
list) list ;;
run) [ $# -ge 3 ] || fail "run GPU PROGRAM..." && shift && run "$@" ;;
gpus)
    shift
    # shellcheck disable=SC2086
    [ $# -gt 0 ] && gpus "$@" || gpus $(of_this_machine)
    ;;
versus)
    shift
    # shellcheck disable=SC2086
    [ $# -gt 0 ] && versus "$@" || versus $compared
    ;;
*) fail "fetch [GPU...], list, run GPU PROGRAM..., gpus [GPU...] or versus [GPU...]" ;;
esac
