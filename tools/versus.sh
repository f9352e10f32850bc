#!/bin/sh
# ggml-vulkan beside dit.h on one device: what stable-diffusion.cpp and llama.cpp compute with, as Debian unstable builds
# it, with all of its shaders.
#   tools/versus.sh fetch FOLDER             unpacks it there, with the C library that it wants, and builds
#                                            tools/versus_ggml.c against it (no root; 25 MB are downloaded)
#   tools/versus.sh run FOLDER [large|small] prints a Markdown table: GFLOP/s of both, without network. The driver is the
#                                            first that Vulkan finds, or what VK_DRIVER_FILES names; build/dit-bench must
#                                            be there. small: for a software driver. Each row stands there as soon as it
#                                            is known. DIT_VERSUS_SECONDS=300: all cases together; ggml, whose
#                                            kernels a driver compiles long at first, gets for a case what the others do
#                                            not need.
#                                            DIT_VERSUS_CACHE: the file of dit-bench's --cache (build/versus.cache, anew)
set -u

fail() {
    echo "versus: $1" >&2
    exit 1
}

fetch() { # fetch FOLDER
    mkdir -p "$1" build && work=$(mktemp -d "$PWD/build/versus-XXXXXX") || exit 1
    trap 'rm -rf "$work"' EXIT
    sh tools/newest.sh unpack unstable "$work" libggml0 libggml0-backend-vulkan libggml-dev || exit 1
    base=$(find "$work" -name libggml-base.so.0)
    from=$(dirname "$base")
    # The compiler supplies what those packages lack: only the linked program asks for the newer C library.
    cc -std=gnu99 -O2 -Wall -Wextra -I"$work/usr/include" tools/versus_ggml.c -o "$1/versus_ggml" -L"$from" -Wl,--allow-shlib-undefined \
        -Wl,--unresolved-symbols=ignore-all -lggml -lggml-base -lm || fail "tools/versus_ggml.c cannot be built"
    for name in ld-linux*.so.* libc.so.6 libm.so.6 libmvec.so.1 libdl.so.2 libpthread.so.0 librt.so.1 libstdc++.so.6 libgcc_s.so.1 \
        libgomp.so.1 libggml.so.0 libggml-base.so.0 libvulkan.so.1 ggml/backends0/libggml-vulkan.so; do
        for file in "$from"/$name "$work"/usr/lib64/$name; do
            [ ! -e "$file" ] || cp -L "$file" "$1/" || exit 1
        done
    done
    readlink -f "$base" | sed 's/.*\.so\.//' >"$1/VERSION"
    [ -f "$1/libggml-vulkan.so" ] || fail "the packages hold no libggml-vulkan.so"
}

# A number of dit-bench's line of JSON.
number() { # number KEY LINE
    echo "$2" | sed -n "s/.*\"$1\": \([0-9.e+]*\).*/\1/p"
}

ours_seconds=2 # that a case of dit.h is expected to take; and ggml, when a driver has compiled its kernels
ours() { # ours CASE: dit-bench's line for what versus_ggml calls by that name
    IFS=: read -r kind a b c d <<END
$1
END
    case $kind in
    gemm) timeout -k 1 30 build/dit-bench gemm --no-ceilings --cache "$cache" --type "$a" --m "$b" --n "$c" --k "$d" ;;
    attention) timeout -k 1 30 build/dit-bench attention --no-ceilings --cache "$cache" --head-dim "$a" --heads "$b" --tokens "$c" ;;
    esac
}

print_row() { # print_row "CASE|GGML'S SECONDS|ITS GFLOP/S, OR WHY THERE ARE NONE|SECONDS|GFLOP/S"
    echo "$1" | awk -F'|' '{
        split($1, c, ":")
        title = c[1] == "gemm" ? "product " c[3] " × " c[4] " × " c[5] : "attention " c[4] " tokens, " c[3] " heads of " c[2]
        printf "| %s | %s | %s | %s | %s | %s | %s |\n", title, c[1] == "gemm" ? c[2] : "f16", $2 + 0 ? sprintf("%.3f", $2 * 1e3) : "", \
            $4 + 0 ? sprintf("%.3f", $4 * 1e3) : "", $3, $5 == "" ? "failed" : sprintf("%.2f", $5), \
            $3 + 0 && $5 + 0 ? sprintf("%.2f", $5 / $3) : ""
    }'
}

run() { # run FOLDER SIZE
    case $2 in
    small) cases="gemm:f16:256:512:512 gemm:q8_0:256:512:512 gemm:q4_K:256:512:512 attention:64:8:256 attention:128:4:256" ;;
    *) cases="gemm:f16:1024:4096:4096 gemm:q8_0:1024:4096:4096 gemm:q4_K:1024:4096:4096 gemm:f16:4608:12288:3072 gemm:q8_0:4608:12288:3072
        gemm:q4_K:4608:12288:3072 attention:64:24:4608 attention:128:24:4608 attention:72:16:4096" ;;
    esac
    loader=$(ls "$1"/ld-linux*.so.* 2>/dev/null | head -n 1)
    [ -n "$loader" ] && [ -x "$1/versus_ggml" ] || fail "$1 holds no ggml; tools/versus.sh fetch $1 brings it"
    [ -x build/dit-bench ] || fail "build/dit-bench is not built"
    # A driver may need libraries from wherever the system's own loader finds them.
    system=$({ ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | sed -n 's#.*=> \(/.*\)/[^/]*#\1#p' | sort -u | tr '\n' ':')
    mkdir -p build
    cache=${DIT_VERSUS_CACHE:-build/versus.cache}
    [ -n "${DIT_VERSUS_CACHE:-}" ] || rm -f "$cache"
    : >build/versus.log
    echo "ggml-vulkan $(cat "$1/VERSION"): up to 16 operations in one graph, by the clock."
    echo "dit.h: one operation, by the device's timestamps. Sizes of products are tokens × outputs × inputs; medians of 7."
    echo
    echo "| case | type | ggml ms | dit.h ms | ggml GFLOP/s | dit.h GFLOP/s | dit.h / ggml |"
    echo "| --- | --- | --- | --- | --- | --- | --- |"
    end=$(($(date +%s) + ${DIT_VERSUS_SECONDS:-300})) waiting=$(echo $cases | wc -w) bad=0
    for case in $cases; do
        limit=$((end - $(date +%s) - 2 * waiting * ours_seconds)) # the first case may take long, since drivers compile then
        [ $limit -ge 3 ] || limit=3
        # Software drivers are taken only when they are named.
        GGML_VK_VISIBLE_DEVICES=0 timeout -k 1 $limit "$loader" --library-path "$1:${system}${LD_LIBRARY_PATH:-}" "$1/versus_ggml" "$1" "$case" \
            >build/versus.txt 2>>build/versus.log
        code=$?
        row=$(grep "^$case	" build/versus.txt)
        if [ -z "$row" ]; then
            [ $code = 124 ] && row="$case	-	not within $limit s" || row="$case	-	ended early"
        fi
        line=$(ours "$case" 2>>build/versus.log)
        [ -n "$line" ] || bad=1
        print_row "$case|$(echo "$row" | cut -f 2)|$(echo "$row" | cut -f 3)|$(number seconds "$line")|$(number gflops "$line")"
        waiting=$((waiting - 1))
    done
    return $bad
}

case ${1:-} in
fetch) [ $# = 2 ] && fetch "$2" ;;
run) [ $# -ge 2 ] && run "$2" "${3:-large}" ;;
*) fail "fetch FOLDER or run FOLDER [large|small]" ;;
esac
