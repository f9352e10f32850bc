#!/bin/sh
# How far each type moves the bundled model from its stored weights, as a Markdown table (BENCHMARKS.md):
#   sh tools/type-errors.sh [FOLDER]    FOLDER for the converted models
# The autoencoder stays q8_0, because no latent goes through it; so does the text encoder in the second group.
set -eu
out=${1:-build/type-errors}
model=models/emoji-q8_0.gguf
mkdir -p "$out"
echo 'fox, fluent style on a purple background' >"$out/calibrate.txt"
echo 'orca, fluent style on a teal background' >"$out/prompts.txt"

make() { # NAME RULES OPTIONS...
    file=$out/$1.gguf rules=$2
    shift 2
    [ -s "$file" ] || build/dit-convert "$@" --tensor-type-rules "$rules" $model "$file" >"$file.txt"
}
types='i8r i8r+rot q6_k q5_1 q5_k q5_0 q4_1 q4_k q4_0 i4_group i4r+rot'
methods='plain gptq awq svd+gptq'
for type in $types; do make "$type" 'vae.*=q8_0' --type "$type"; done
make fit-as-q4_k 'vae.*=q8_0' --fit "$(wc -c <"$out/q4_k.gguf")" --calibrate "$out/calibrate.txt"
for method in $methods; do
    set -- --type i4_group --method "$method" --expanded
    [ "$method" = plain ] || set -- "$@" --calibrate "$out/calibrate.txt"
    make "i4_group-$method" 'vae.*=q8_0,text_encoder.*=q8_0' "$@"
done
set --
for name in $types fit-as-q4_k; do set -- "$@" "$out/$name.gguf"; done
for method in $methods; do set -- "$@" "$out/i4_group-$method.gguf"; done
build/dit-convert --errors "$out/prompts.txt" --steps 10 $model "$@" >"$out/errors.txt"
echo '| weights | bytes | relative L2 of the latents |'
echo '| --- | --- | --- |'
sed 's#.*/\([^/]*\)\.gguf", "bytes": \([0-9]*\), "trajectory_error": \(.*\)}#| \1 | \2 | \3 |#' "$out/errors.txt"
