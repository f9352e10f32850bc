#!/bin/sh
# What --cache costs: prompts by presets on the bundled model, as a Markdown table (docs/caching.md, BENCHMARKS.md):
#   sh tools/cache-quality.sh [FOLDER] [FLAGS] [STYLES] [COLUMN...]
# FOLDER for the sheets; FLAGS of dit such as "-W 64 -H 64 --steps 10"; STYLES of eight prompts each, 8 at most; columns
# "NAME: FLAGS" in place of those below. Errors are to the picture without a cache. Sheets that are there stay.
set -eu
out=${1:-build/cache-quality}
flags=${2:---steps 20}
count=${3:-8}
if [ $# -gt 3 ]; then
    shift 3
else
    set -- "delta: --cache delta" "taylor: --cache taylor:order=1,interval=3,from=0.2" \
        "fbcache 0.2: --cache fbcache:threshold=0.2" "easycache 0.1: --cache easycache:threshold=0.1" \
        "easycache 0.2: --cache easycache" "gate 0.7: --cache gate:0.7"
fi
mkdir -p "$out"
things='fox rocket cat_face red_apple orca unicorn telescope red_heart'
styles='noto_style:white flat_style:red fluent_style:teal noto_style:black flat_style:yellow fluent_style:purple noto_style:pink flat_style:blue'

make_sheet() { # make_sheet STYLE:COLOR FILE COLUMN...
    style=$1 sheet=$2
    shift 2
    for column in "$@"; do
        shift
        set -- "$@" --column "$column"
    done
    for thing in $things; do
        set -- "$@" --row "$(echo "${style%:*} $thing on a ${style#*:} background" | tr _ ' ')"
    done
    # shellcheck disable=SC2086
    build/dit-compare sheet $flags --column "none:" "$@" --json >"$sheet.new"
    mv "$sheet.new" "$sheet"
}

for style in $styles; do
    [ "$count" -gt 0 ] || break
    count=$((count - 1))
    sheet=$out/${style%%_*}-${style#*:}.json
    [ -s "$sheet" ] || make_sheet "$style" "$sheet" "$@"
done
echo '| cache | pictures | seconds of the processor | steps reused | latent, relative L2 | PSNR, dB: median | least | SSIM |'
echo '| --- | --- | --- | --- | --- | --- | --- | --- |'
# One line a cell, in the order of columns.
cat "$out"/*.json | tr -d '\n' | sed 's/"rows":\[/\n"rows":[/g; s/{"prompt"/\n{"prompt"/g; s/{"seconds"/\n{"seconds"/g; s/{"name"/\n{"name"/g' | awk '
function value(key) { return match($0, "\"" key "\":[-0-9.e+]*") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) : "" }
/^{"columns"|^{"name"/ { if (/"name"/) { name = $0; sub(/.*"name":"/, "", name); sub(/".*/, "", name); if (!(name in seen)) { seen[name] = 1; names[++count] = name } } }
/^{"prompt"/ { column = 0 }
/^{"seconds"/ {
    column++; n[column]++; time[column] += value("processor_seconds"); reused[column] += value("reused")
    latent[column] += value("latent_relative_l2"); ssim[column] += value("ssim")
    psnr = value("psnr"); list[column, n[column]] = psnr == "" ? 99 : psnr + 0
}
END {
    for (c = 1; c <= count; c++) {
        for (i = 1; i <= n[c]; i++) for (k = i; k > 1 && list[c, k - 1] > list[c, k]; k--) { t = list[c, k]; list[c, k] = list[c, k - 1]; list[c, k - 1] = t }
        printf "| %s | %d | %.2f | %.1f |", names[c], n[c], time[c] / n[c], reused[c] / n[c]
        if (c > 1) printf " %.3f | %.1f | %.1f | %.4f |\n", latent[c] / n[c], list[c, int((n[c] + 1) / 2)], list[c, 1], ssim[c] / n[c]
        else print " | | | |"
    }
}'
