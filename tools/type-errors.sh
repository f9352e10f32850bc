#!/bin/sh
# How far each type moves the bundled model from its stored weights, as a Markdown table (BENCHMARKS.md):
#   sh tools/type-errors.sh [FOLDER]    FOLDER for the converted models; DIT_CONVERT=another build
# The autoencoder stays q8_0, because no latent goes through it. Mixed models are fitted to the size of a uniform one.
set -eu
out=${1:-build/type-errors}
convert=${DIT_CONVERT:-build/dit-convert}
model=models/emoji-q8_0.gguf
mkdir -p "$out"
printf 'fox, fluent style on a purple background\nbanana, fluent style\n' >"$out/calibrate.txt"
printf 'orca, fluent style on a teal background\n' >"$out/prompts.txt"

make() { # NAME OPTIONS...
    name=$1
    shift
    [ -s "$out/$name.gguf" ] || "$convert" "$@" --tensor-type-rules 'vae.*=q8_0' $model "$out/$name.gguf" >"$out/$name.txt"
}
types='q6_k q5_1 q5_k q5_0 q4_1 q4_k q4_0 i4_group'
for type in $types; do make "$type" --type "$type"; done
for method in gptq awq svd+gptq; do make "i4_group+$method" --type i4_group --method $method --expanded --calibrate "$out/calibrate.txt"; done
for type in q5_k q4_k; do make "fit-as-$type" --fit "$(wc -c <"$out/$type.gguf")" --calibrate "$out/calibrate.txt"; done

set --
for name in $types i4_group+gptq i4_group+awq i4_group+svd+gptq fit-as-q5_k fit-as-q4_k; do set -- "$@" "$out/$name.gguf"; done
"$convert" --errors "$out/prompts.txt" --steps 10 $model "$@" >"$out/errors.txt"
echo '| weights | MB | relative L2 of the latents |'
echo '| --- | --- | --- |'
sed -n 's,.*/\([^/]*\)\.gguf", "bytes": \([0-9]*\)\([0-9]\)[0-9]\{5\}\, "trajectory_error": \(.*\)},| \1 | \2.\3 | \4 |,p' "$out/errors.txt"
