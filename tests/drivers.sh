#!/bin/sh
# tests/drivers.sh: writes the Vulkan drivers that the tests run on to build/drivers/, one manifest each:
#   lavapipe.json     Mesa's software driver, as installed
#   swiftshader.json  SwiftShader, nearly the least device that dit.h supports; unpacked, without root, from Debian's
#                     chromium-common package and kept under XDG_CACHE_HOME
#   families.json     SwiftShader behind tests/drivers/families.c: a device with queue families to compute and to copy
#   discrete.json     the newest lavapipe, which has cooperative matrices, behind tests/drivers/discrete.h: its device looks
#                     like an H100; written where tools/newest.sh fetch succeeds
#   races.json        the newest lavapipe behind tests/drivers/races.c, whose library is also to be preloaded as the loader:
#                     the layers then see races on shared memory
#   devices3          a list of three lavapipe devices (the loader takes every file name for another driver)
# Where SwiftShader cannot be had, swiftshader.skip (not Debian) or swiftshader.fail (Debian) gives the reason.
set -u
out=$PWD/build/drivers
cache=${XDG_CACHE_HOME:-${HOME:-$PWD/build}/.cache}/dit/swiftshader
mkdir -p "$out"
rm -f "$out"/swiftshader.*

write_manifest() { # write_manifest FILE LIBRARY
    printf '{"file_format_version": "1.0.0", "ICD": {"library_path": "%s", "api_version": "1.3.0"}}\n' "$2" >"$1"
}

library_of() { # the library that a manifest names, as a full path where it can be found
    name=$(sed -n 's/.*"library_path"[^"]*"\([^"]*\)".*/\1/p' "$1")
    case $name in
    /*) echo "$name" ;;
    */*) echo "$(dirname "$1")/$name" ;;
    *) { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | sed -n "s#.*$name .*=> ##p" | head -n 1 ;;
    esac
}

find_lavapipe() {
    for manifest in /usr/share/vulkan/icd.d/lvp_icd*.json /usr/local/share/vulkan/icd.d/lvp_icd*.json; do
        [ -f "$manifest" ] || continue
        library=$(library_of "$manifest")
        [ -f "$library" ] || continue
        write_manifest "$out/lavapipe.json" "$library"
        list=
        for i in 1 2 3; do
            ln -sf "$library" "$out/libvulkan_lvp_$i.so"
            write_manifest "$out/lavapipe_$i.json" "$out/libvulkan_lvp_$i.so"
            list=$list${list:+:}$out/lavapipe_$i.json
        done
        echo "$list" >"$out/devices3"
        return 0
    done
    return 1
}

# Downloads with the machine's package lists, or with fresh private ones where those are missing or out of date.
download_chromium() ( # download_chromium FOLDER
    mkdir -p "$1/lists/partial" "$1/cache/archives/partial" && cd "$1" || exit 1
    private="-o Dir::State::Lists=$1/lists -o Dir::Cache=$1/cache -o Debug::NoLocking=1 -o APT::Sandbox::User=$(id -un)"
    apt-get download -qq chromium-common && exit 0
    # shellcheck disable=SC2086
    apt-get $private -qq update && apt-get $private download -qq chromium-common
)

fetch_swiftshader() {
    work=$PWD/build/drivers/fetch
    mkdir -p "$work" "$cache" || return 1
    download_chromium "$work" >"$out/fetch.log" 2>&1 &&
        dpkg --fsys-tarfile "$work"/chromium-common_*.deb |
        tar -x -C "$cache" --strip-components=4 ./usr/lib/chromium/libvk_swiftshader.so
    rm -rf "$work"
    [ -f "$cache/libvk_swiftshader.so" ]
}

is_debian() { grep -q '^ID=debian' /etc/os-release 2>/dev/null; }

find_swiftshader() {
    if [ ! -f "$cache/libvk_swiftshader.so" ]; then
        if ! is_debian; then
            echo "SwiftShader is taken from a Debian package, and this is not Debian" >"$out/swiftshader.skip"
            return
        fi
        echo "drivers: fetching SwiftShader (32 MB, once) from the package chromium-common"
        if ! fetch_swiftshader; then
            echo "SwiftShader could not be fetched: $(tail -n 1 "$out/fetch.log")" >"$out/swiftshader.fail"
            return
        fi
    fi
    write_manifest "$out/swiftshader.json" "$cache/libvk_swiftshader.so"
    cc -std=gnu99 -shared -fPIC -fvisibility=hidden -DDRIVER="\"$cache/libvk_swiftshader.so\"" tests/drivers/families.c \
        -o "$out/libfamilies.so" -ldl -lpthread || exit 1
    write_manifest "$out/families.json" "$out/libfamilies.so"
}

make_newest() {
    sh tools/newest.sh fetch >"$out/fetch.log" 2>&1 || return 0 # tests/run.sh tells why its ways are skipped
    library=$(ls "$(sh tools/newest.sh folder)"/lib/*/libvulkan_lvp.so)
    cc -std=gnu99 -shared -fPIC -fvisibility=hidden -DDISCRETE -DFAMILIES=1 -DDRIVER="\"$library\"" tests/drivers/families.c \
        -o "$out/libdiscrete.so" -ldl -lpthread || exit 1
    write_manifest "$out/discrete.json" "$out/libdiscrete.so"
    cc -std=gnu99 -shared -fPIC -fvisibility=hidden -Wl,-soname,libvulkan.so.1 -DDRIVER="\"$library\"" \
        -DLOADER="\"${library%/*}/libvulkan.so.1\"" tests/drivers/races.c -o "$out/libraces.so" -ldl || exit 1
    write_manifest "$out/races.json" "$out/libraces.so"
}

find_lavapipe || {
    echo "drivers: lavapipe is not installed; run: make setup" >&2
    exit 1
}
find_swiftshader
make_newest
