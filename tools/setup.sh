#!/bin/sh
# tools/setup.sh image|test|test-all|shaders|gpus|arm64|list: makes sure that what the make target of that name needs is installed
# (arm64: what `tools/feigned.sh fetch` needs for Arm's GPUs), with the distribution's own package manager. As root, or with sudo, it installs; else it prints the command and stops.
# `list` only names what is missing for `make`.
set -u
purpose=${1:-test}
everything=
[ "$purpose" != test-all ] || { purpose=test everything=1; }
missing=

need() { # need THING COMMAND...: THING is missing when COMMAND fails
    thing=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $thing"
}

has() { command -v "$1"; }
has_header() { echo "#include <$1>" | cc -E -; }
has_loader() { { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | grep -q 'libvulkan\.so\.1'; }
has_driver() { # any driver's manifest, or lavapipe's
    for folder in /usr/share /usr/local/share /etc /usr/local/etc "${XDG_DATA_HOME:-${HOME:-}/.local/share}"; do
        ls "$folder"/vulkan/icd.d/$1*.json 2>/dev/null && return 0
    done
    [ "$1" = "" ] && [ -n "${VK_ICD_FILENAMES:-}${VK_DRIVER_FILES:-}" ]
}
has_qemu() { command -v qemu-aarch64 || command -v qemu-aarch64-static; }
has_layers() { ls /usr/share/vulkan/explicit_layer.d/*validation*.json; }
has_fuzzer() { ls "$(clang -print-resource-dir)"/lib/*/libclang_rt.fuzzer*.a; }
has_sanitizers() { echo 'int main(void){return 0;}' | cc -fsanitize=address,undefined -x c - -o /dev/null; }
has_mpi() { PATH=$PATH:/usr/lib64/openmpi/bin:/usr/lib64/mpi/gcc/openmpi4/bin command -v mpicc; }
has_mesa_needs() { # to build its shims
    command -v flex && command -v bison && command -v c++ && pkg-config --exists libdrm expat libelf && python3 -c 'import ensurepip'
}
has_zip() { command -v zip && command -v unzip; }
has_numpy() { /usr/bin/python3 -c 'import numpy' || python3 -c 'import numpy'; }
has_mono() { command -v mcs && command -v mono; }
has_webp() { pkg-config --exists libwebpmux libwebpdemux libwebp; }
has_jpeg() { pkg-config --exists libjpeg; }
has_sixel() { pkg-config --exists libsixel; }
has_edit() { pkg-config --exists libedit; }
has_json() { pkg-config --exists jansson; }
has_http() { pkg-config --exists libmicrohttpd; }
has_browser() { command -v chromium && command -v chromedriver; }
has_client() { command -v curl && python3 -c 'import ensurepip'; } # OpenAI's, which pip installs
has_shells() { command -v zsh && command -v fish; }
has_window() { pkg-config --exists glfw3; }
has_32_bit() {
    [ "$(uname -m)" != x86_64 ] || echo '#include <errno.h>' | gcc -m32 -idirafter "/usr/include/$(gcc -print-multiarch)" -E -
}

need compiler has_header stdio.h
[ "$purpose" = list ] || need loader has_loader
need headers has_header vulkan/vulkan_core.h
need stb has_header stb/stb_image_write.h
if [ "$purpose" = test ]; then
    need lavapipe has_driver lvp_
    need layers has_layers
    need sanitizers has_sanitizers
    need c++ has c++
    need clang has clang
    need fuzzer has_fuzzer
    need 32-bit has_32_bit
    need clang-format has clang-format
    need mpi has_mpi
    need mingw has x86_64-w64-mingw32-g++
    [ "$(uname -m)" = aarch64 ] || need aarch64 has aarch64-linux-gnu-g++
    need volk has_header volk.h
    need window has_window
    need webp has_webp
    need jpeg has_jpeg
    need sixel has_sixel
    need edit has_edit
    need json has_json
    need http has_http
fi
if [ -n "$everything" ]; then
    [ "$(uname -m)" != x86_64 ] || need wine has wine
    [ "$(uname -m)" = aarch64 ] || need qemu has_qemu
    need x-server has xvfb-run
    need x-keys has xdotool
    need spirv-cross has spirv-cross
    need zip has_zip
    need mono has_mono
    need meson has meson
    need numpy has_numpy
    need ffmpeg has ffmpeg
    need browser has_browser
    need client has_client
    need shells has_shells
fi
if [ "$purpose" = test ] || [ "$purpose" = shaders ]; then
    need glslang has glslangValidator
    need spirv-tools has spirv-opt
fi
[ "$purpose" != image ] || need driver has_driver ''
[ "$purpose" != gpus ] || need mesa has_mesa_needs
if [ "$purpose" = arm64 ]; then # gpus, those of Arm
    need mesa has_mesa_needs
    need aarch64 has aarch64-linux-gnu-g++
    need qemu has_qemu
fi

# Some modules of shaders/MODULES need a newer glslang than most distributions have.
newest_glslang() {
    [ "$purpose" = shaders ] || return 0
    version=$(glslangValidator --version | sed -n 's/^Glslang Version: [0-9]*:\([0-9]*\).*/\1/p')
    [ "${version:-0}" -lt 16 ] || return 0
    sh tools/newest.sh fetch || echo "setup: modules that need glslang 16 cannot be compiled here; they stay as they are, or install the Vulkan SDK" >&2
}
if [ -z "$missing" ]; then
    newest_glslang
    exit 0
fi

manager=none
for candidate in apt-get dnf pacman zypper; do
    command -v $candidate >/dev/null 2>&1 && manager=$candidate && break
done

package() { # the packages that hold a thing
    case $manager:$1 in
    apt-get:compiler) echo gcc libc6-dev ;;
    apt-get:loader) echo libvulkan1 ;;
    apt-get:headers) echo libvulkan-dev ;;
    apt-get:stb) echo libstb-dev ;;
    apt-get:driver | apt-get:lavapipe) echo mesa-vulkan-drivers ;;
    apt-get:layers) echo vulkan-validationlayers ;;
    apt-get:sanitizers) echo gcc ;;
    apt-get:c++) echo g++ ;;
    apt-get:clang) echo clang ;;
    apt-get:fuzzer) echo libclang-rt-dev ;;
    apt-get:32-bit) echo libc6-dev-i386 ;;
    apt-get:clang-format) echo clang-format ;;
    apt-get:glslang) echo glslang-tools ;;
    apt-get:spirv-tools) echo spirv-tools ;;
    apt-get:mpi) echo libopenmpi-dev openmpi-bin ;;
    apt-get:mingw) echo gcc-mingw-w64-x86-64-posix g++-mingw-w64-x86-64-posix ;;
    apt-get:aarch64) echo gcc-aarch64-linux-gnu g++-aarch64-linux-gnu ;;
    apt-get:volk) echo libvulkan-volk-dev ;;
    apt-get:wine) echo wine wine64 ;;
    apt-get:qemu) echo qemu-user ;;
    apt-get:x-server) echo xvfb xauth ;;
    apt-get:spirv-cross) echo spirv-cross ;;
    apt-get:x-keys) echo xdotool ;;
    apt-get:zip) echo zip unzip ;;
    apt-get:mono) echo mono-mcs mono-runtime libmono-system-core4.0-cil ;;
    apt-get:meson) echo meson ninja-build pkg-config ;;
    apt-get:numpy) echo python3-numpy ;;
    apt-get:window) echo libglfw3-dev pkg-config ;;
    apt-get:webp) echo libwebp-dev pkg-config ;;
    apt-get:ffmpeg) echo ffmpeg ;;
    apt-get:jpeg) echo libjpeg-dev pkg-config ;;
    apt-get:sixel) echo libsixel-dev pkg-config ;;
    apt-get:edit) echo libedit-dev pkg-config ;;
    apt-get:json) echo libjansson-dev pkg-config ;;
    apt-get:http) echo libmicrohttpd-dev pkg-config ;;
    apt-get:browser) echo chromium chromium-driver ;;
    apt-get:client) echo curl python3-venv ;;
    apt-get:shells) echo zsh fish ;;
    dnf:jpeg | zypper:jpeg) echo libjpeg-turbo-devel ;;
    pacman:jpeg) echo libjpeg-turbo ;;
    dnf:sixel | zypper:sixel) echo libsixel-devel ;;
    pacman:sixel) echo libsixel ;;
    dnf:edit | zypper:edit) echo libedit-devel ;;
    pacman:edit) echo libedit ;;
    dnf:json) echo jansson-devel ;;
    zypper:json) echo libjansson-devel ;;
    pacman:json) echo jansson ;;
    dnf:http | zypper:http) echo libmicrohttpd-devel ;;
    pacman:http) echo libmicrohttpd ;;
    dnf:webp | zypper:webp) echo libwebp-devel ;;
    pacman:webp) echo libwebp ;;
    apt-get:mesa) echo g++ bison flex pkg-config libdrm-dev libexpat1-dev libelf-dev python3-venv ;;
    dnf:mingw) echo mingw64-gcc mingw64-gcc-c++ ;;
    pacman:mingw) echo mingw-w64-gcc ;;
    pacman:volk) echo volk ;;
    dnf:mpi) echo openmpi-devel ;;
    pacman:mpi) echo openmpi ;;
    zypper:mpi) echo openmpi4-devel ;;
    dnf:compiler) echo gcc glibc-devel ;;
    dnf:loader) echo vulkan-loader ;;
    dnf:headers) echo vulkan-headers ;;
    dnf:stb) echo stb_image_write-devel stb_image-devel ;;
    dnf:driver | dnf:lavapipe) echo mesa-vulkan-drivers ;;
    dnf:layers) echo vulkan-validation-layers ;;
    dnf:sanitizers) echo libasan libubsan ;;
    dnf:c++) echo gcc-c++ ;;
    dnf:clang) echo clang ;;
    dnf:fuzzer) echo compiler-rt ;;
    dnf:32-bit) echo glibc-devel.i686 ;;
    dnf:clang-format) echo clang-tools-extra ;;
    dnf:glslang) echo glslang ;;
    dnf:spirv-tools) echo spirv-tools ;;
    pacman:compiler | pacman:sanitizers | pacman:c++) echo gcc ;;
    pacman:loader) echo vulkan-icd-loader ;;
    pacman:headers) echo vulkan-headers ;;
    pacman:stb) echo stb ;;
    pacman:driver | pacman:lavapipe) echo vulkan-swrast ;;
    pacman:layers) echo vulkan-validation-layers ;;
    pacman:clang | pacman:clang-format) echo clang ;;
    pacman:fuzzer) echo compiler-rt ;;
    pacman:32-bit) echo lib32-glibc ;;
    pacman:glslang) echo glslang ;;
    pacman:spirv-tools) echo spirv-tools ;;
    zypper:compiler | zypper:sanitizers) echo gcc glibc-devel ;;
    zypper:loader) echo libvulkan1 ;;
    zypper:headers) echo vulkan-headers ;;
    zypper:stb) echo stb-devel ;;
    zypper:driver | zypper:lavapipe) echo libvulkan_lvp ;;
    zypper:layers) echo vulkan-validationlayers ;;
    zypper:c++) echo gcc-c++ ;;
    zypper:clang | zypper:fuzzer | zypper:clang-format) echo clang ;;
    zypper:32-bit) echo glibc-devel-32bit ;;
    zypper:glslang) echo glslang-devel ;;
    zypper:spirv-tools) echo spirv-tools ;;
    esac
}

# Foreign compilers and what only test-all runs have packages under Debian; elsewhere the checks that want them are skipped.
packages= unknown=
for thing in $missing; do
    found=$(package "$thing")
    case "$found:$thing" in
    :mingw | :aarch64 | :volk | :wine | :qemu | :x-server | :x-keys | :window | :spirv-cross | :zip | :mono | :meson | :numpy | :browser | :client | :shells) unknown="$unknown $thing" ;;
    *) packages="$packages $found" ;;
    esac
done
[ -z "$unknown" ] || [ $manager = none ] || echo "setup: no package is known for$unknown; what needs it is skipped"
if [ -z "$packages" ] && [ $manager != none ]; then
    newest_glslang
    exit 0
fi
packages=" $(echo $packages | tr ' ' '\n' | awk '!seen[$1]++' | tr '\n' ' ')"
case $manager in
apt-get) update='apt-get update' install="apt-get install -y --no-install-recommends$packages" ;;
dnf) update=true install="dnf install -y$packages" ;;
pacman) update=true install="pacman -Sy --needed --noconfirm$packages" ;;
zypper) update=true install="zypper --non-interactive install$packages" ;;
none)
    echo "setup: missing:$missing" >&2
    echo "setup: no package manager that this script knows; install these by hand, then try again" >&2
    exit 1
    ;;
esac

as_root=
can_install() {
    [ "$purpose" != list ] || return 1
    [ "$(id -u)" != 0 ] || return 0
    command -v sudo >/dev/null 2>&1 || return 1
    as_root=sudo
    [ -t 0 ] || sudo -n true 2>/dev/null
}

if ! can_install; then
    echo "setup: missing:$missing" >&2
    echo "setup: run this as root, then try again:" >&2
    if [ "$update" = true ]; then echo "    $install" >&2; else echo "    $update && $install" >&2; fi
    exit 1
fi

# A machine that never ran `apt-get update` knows no packages; one that ran it long ago knows only old ones.
mkdir -p build
echo "setup: installing$packages ($manager)"
run() { DEBIAN_FRONTEND=noninteractive $as_root "$@" >build/setup.log 2>&1 </dev/null; }
# shellcheck disable=SC2086
if ! run $install && ! { run $update && run $install; }; then
    tail -n 5 build/setup.log >&2
    echo "setup: this failed (all of it: build/setup.log): $install" >&2
    exit 1
fi
newest_glslang
