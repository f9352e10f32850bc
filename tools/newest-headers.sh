#!/bin/sh
# tools/newest-headers.sh: prints a folder that holds the newest Vulkan headers in Debian (unstable's), fetched without root
# into XDG_CACHE_HOME on first use. Fails quietly where that is not possible.
set -u
cache=${XDG_CACHE_HOME:-${HOME:-$PWD/build}/.cache}/dit/vulkan-headers
if [ ! -f "$cache/vulkan/vulkan_core.h" ]; then
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    sources=/etc/apt/sources.list.d/debian.sources
    [ -f $keys ] && command -v apt-get >/dev/null || exit 1
    host=$(cat $sources /etc/apt/sources.list 2>/dev/null | sed -n -e 's/^URIs: *//p' -e 's/^deb \(\[[^]]*\] \)*\([^ ]*debian[^ ]*\) .*/\2/p' | head -n 1)
    [ -n "$host" ] || exit 1
    mkdir -p build "$cache" && work=$(mktemp -d "$PWD/build/headers-XXXXXX") || exit 1
    trap 'rm -rf "$work"' EXIT
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
    echo "deb [signed-by=$keys] $host sid main" >"$work/sources.list"
    : >"$work/status"
    cd "$work" || exit 1
    options="-o Dir::State::Lists=$work/lists -o Dir::State::status=$work/status -o Dir::Cache=$work/cache -o Dir::Etc::sourcelist=$work/sources.list
        -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null -o APT::Sandbox::User=$(id -un) -o Debug::NoLocking=1 -o Acquire::Languages=none"
    # shellcheck disable=SC2086
    apt-get $options -qq update >/dev/null 2>&1 && apt-get $options -qq download libvulkan-dev >/dev/null 2>&1 || exit 1
    dpkg --fsys-tarfile libvulkan-dev_*.deb | tar -x -C "$cache" --strip-components=3 ./usr/include || exit 1
fi
[ -f "$cache/vulkan/vulkan_core.h" ] && echo "$cache"
