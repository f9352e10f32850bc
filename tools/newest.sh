#!/bin/sh
# The newest Vulkan that Debian has, beside the one that is installed: unpacked without root under XDG_CACHE_HOME.
#   tools/newest.sh fetch            lavapipe, the layers, glslang and spirv-tools (80 MB, once); says why it cannot
#   tools/newest.sh run PROGRAM ...  runs a program, one of those or one built here, with that loader, driver and C library;
#                                    fails where they were not fetched
#   tools/newest.sh with MANIFEST PROGRAM ...  the same with another driver
#   tools/newest.sh godot ARGUMENT...  Godot 4 of Debian unstable, with the lavapipe and the OpenGL that belong to it (700 MB,
#                                    fetched on first use)
#   tools/newest.sh beside-godot PROGRAM ...  a program with that lavapipe
#   tools/newest.sh unpack SUITE FOLDER PACKAGE...  packages of a suite with all that they need, into a folder; those of
#                                    another kind of machine with NEWEST_ARCHITECTURE=arm64, say
#   tools/newest.sh folder           prints the folder usr/ of what was fetched; fails where nothing was
#   tools/newest.sh headers          prints a folder with the headers, fetched on first use; fails quietly
#   tools/newest.sh windows-headers  prints a folder with Wine's headers for Windows, msvcrt/ and windows/: the installed
#                                    ones, else fetched on first use (5 MB); fails quietly
#   tools/newest.sh source PACKAGE FOLDER  unpacks what a package is built from
set -u
cache=${XDG_CACHE_HOME:-${HOME:-$PWD/build}/.cache}/dit
root=$cache/newest/root
manifest=

fail() {
    echo "newest: $1" >&2
    exit 1
}

# Reads a suite's lists beside the machine's own, which are left alone: $work is a folder that lasts as long as the
# subshell, $options are the options that apt-get then wants.
lists() { # lists SUITE KIND...: deb for packages, deb-src for their sources
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -f $keys ] && command -v apt-get >/dev/null && command -v dpkg >/dev/null || fail "it is taken from Debian's packages, and this is not Debian"
    host=$(cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null |
        sed -n -e 's/^URIs: *//p' -e 's/^deb \(\[[^]]*\] \)*\([^ ]*debian[^ ]*\) .*/\2/p' | head -n 1)
    [ -n "$host" ] || fail "no source of Debian packages is configured"
    mkdir -p build && work=$(mktemp -d "$PWD/build/newest-XXXXXX") || exit 1
    trap 'rm -rf "$work"' EXIT
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
    suite=$1
    shift
    for kind in "$@"; do echo "$kind [signed-by=$keys] $host $suite main"; done >"$work/sources.list"
    : >"$work/status"
    options="-o Dir::State::Lists=$work/lists -o Dir::State::status=$work/status -o Dir::Cache=$work/cache -o Dir::Etc::sourcelist=$work/sources.list
        -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null -o APT::Sandbox::User=$(id -un) -o APT::Install-Recommends=false
        -o Debug::NoLocking=1 -o Acquire::Languages=none
        ${NEWEST_ARCHITECTURE:+-o APT::Architecture=$NEWEST_ARCHITECTURE -o APT::Architectures=$NEWEST_ARCHITECTURE}"
}

# Unpacks packages of a suite, with all that they need, into a folder.
unpack() ( # unpack SUITE FOLDER PACKAGE...
    lists "$1" deb
    folder=$2
    shift 2
    mkdir -p "$folder" || exit 1
    # shellcheck disable=SC2086
    apt-get $options -qq update >"$work/log" 2>&1 && apt-get $options -qq -y --download-only install "$@" >>"$work/log" 2>&1 ||
        fail "$(tail -n 1 "$work/log")"
    for package in "$work"/cache/archives/*.deb; do dpkg -x "$package" "$folder" || exit 1; done
)

# Unpacks the source of a package, as its authors published it, into a folder.
unpack_source() ( # unpack_source SUITE FOLDER PACKAGE
    lists "$1" deb-src
    mkdir -p "$2" || exit 1
    # shellcheck disable=SC2086
    cd "$work" && apt-get $options -qq update >log 2>&1 && apt-get $options -qq --download-only source "$3" >>log 2>&1 || fail "$(tail -n 1 "$work/log")"
    tar -C "$2" --strip-components 1 -xf "$work/$3"_*.orig.tar.*[!c]
)

found() { ls "$@" 2>/dev/null | head -n 1; }

fetch() {
    [ ! -d "$root" ] || return 0
    for suite in testing unstable; do
        rm -rf "$root.part"
        unpack $suite "$root.part" mesa-vulkan-drivers libvulkan1 libc6 vulkan-validationlayers glslang-tools spirv-tools && mv "$root.part" "$root" && return 0
    done
    rm -rf "$root.part"
    return 1
}

run() {
    loader=$(found "$root"/usr/lib64/ld-linux*.so.* "$root"/usr/lib/ld-linux*.so.* "$root"/usr/lib/*/ld-linux*.so.*)
    driver=$(found "$root"/usr/lib/*/libvulkan_lvp.so)
    [ -n "$loader" ] && [ -n "$driver" ] || fail "nothing is there; tools/newest.sh fetch fetches it"
    program=$1
    shift
    [ ! -x "$root/usr/bin/$program" ] || program=$root/usr/bin/$program
    manifest=${manifest:-${root%/root}/lavapipe.json}
    [ -f "$manifest" ] || printf '{"file_format_version": "1.0.0", "ICD": {"library_path": "%s", "api_version": "1.4.0"}}\n' "$driver" >"$manifest"
    export VK_DRIVER_FILES="$manifest" VK_ICD_FILENAMES="$manifest" VK_LAYER_PATH="$root/usr/share/vulkan/explicit_layer.d"
    libraries=${driver%/*}
    exec "$loader" --library-path "$libraries:$libraries/pulseaudio:/usr/lib/${libraries##*/}" "$program" "$@"
}

with_godot() {
    root=$cache/godot/root
    if [ ! -d "$root" ]; then
        rm -rf "$root.part"
        unpack unstable "$root.part" godot mesa-vulkan-drivers libvulkan1 libgl1-mesa-dri libglx-mesa0 && mv "$root.part" "$root" || exit 1
    fi
    run "$@"
}

headers() {
    folder=$cache/vulkan-headers
    if [ ! -f "$folder/vulkan/vulkan_core.h" ]; then
        unpack unstable "$folder.part" libvulkan-dev 2>/dev/null || exit 1
        rm -rf "$folder" && mv "$folder.part/usr/include" "$folder" && rm -rf "$folder.part"
    fi
    echo "$folder"
}

windows_headers() { # without the rest of Wine, which the package wants
    for folder in /usr/include/wine/wine /usr/include/wine; do
        [ ! -f $folder/windows/windows.h ] || { echo $folder; return; }
    done
    folder=$cache/wine-headers
    if [ ! -f "$folder/windows/windows.h" ]; then
        rm -rf "$folder" "$folder.part" && mkdir -p "$folder.part" || exit 1
        (
            lists stable deb
            # shellcheck disable=SC2086
            cd "$work" && apt-get $options -qq update >log 2>&1 && apt-get $options -qq download libwine-dev >>log 2>&1 && dpkg -x libwine-dev_*.deb "$folder.part"
        ) 2>/dev/null || exit 1
        mv "$folder.part/usr/include/wine/wine" "$folder" && rm -rf "$folder.part"
    fi
    echo "$folder"
}

case ${1:-} in
fetch) fetch ;;
run) [ $# -ge 2 ] && shift && run "$@" ;;
with) [ $# -ge 3 ] && manifest=$2 && shift 2 && run "$@" ;;
godot) shift && with_godot godot "$@" ;;
beside-godot) [ $# -ge 2 ] && shift && with_godot "$@" ;;
folder) [ -d "$root/usr" ] && echo "$root/usr" ;;
headers) headers ;;
windows-headers) windows_headers ;;
unpack) [ $# -ge 4 ] && shift && unpack "$@" ;;
source) # a mirror may lack sources of suites that move
    [ $# -eq 3 ] && for suite in testing unstable; do unpack_source $suite "$3" "$2" 2>/dev/null && exit 0; done
    [ $# -eq 3 ] && unpack_source stable "$3" "$2"
    ;;
*) fail "fetch, run PROGRAM, with MANIFEST PROGRAM, godot, beside-godot PROGRAM, unpack SUITE FOLDER PACKAGE, folder, headers, windows-headers or source PACKAGE FOLDER" ;;
esac
