# Reads the machine code of one program, as RADV, NVK, ANV or Turnip print it, and prints what one round of its main loop
# holds:
#   MULTIPLICATIONS INSTRUCTIONS NESTED [MULTIPLICATIONS INSTRUCTIONS]...
# as written, so that a loop within it counts once. Multiplications are those of one subgroup of so many lanes, by
# matrices where there are any, else by dot products of bytes, else of halves, with together=1 of halves and floats. Nested
# is how many loops within it multiply; the numbers behind it are those of each of them. A loop is the code between a
# label and a jump back to it. NVK tells where blocks lead, so that there a loop is the blocks from which that jump can be
# reached.
#   With cycles=1 an instruction of Turnip's counts as the cycles that it takes by the notes in Mesa's ir3.c: one for 64
# threads, so that one of 128 threads takes two, or one where it makes halves of halves.
#   awk -v lanes=LANES [-v together=1] [-v cycles=1] -f tools/feigned_loop.awk FILE

# How many multiplications of which kind an instruction does: by matrices, dot products of bytes, halves or floats.
function count(text, word) {
    split(text, word, /[ \t]+/)
    if (word[1] ~ /^v_s?wmma/) return put(4, 4096)
    if (text ~ /hmma\.m16n8k16/) return put(4, 2048)
    if (text ~ /hmma\.m16n8k8/) return put(4, 1024)
    if (text ~ /imma\.m16n8k32/) return put(4, 4096)
    if (text ~ /imma\.m16n8k16/) return put(4, 2048)
    if (text ~ /imma\.m8n8k16/) return put(4, 1024)
    if (text ~ /dpas\.8x8/) return put(4, 64 * size(text) * (text ~ />(UB|B)|:(UB|B)/ ? 4 : 2))
    if (word[1] ~ /^v_dot4/) return put(3, 4 * lanes)
    if (text ~ /(^| )dp4a\(/) return put(3, 4 * size(text))
    if (text ~ /= idp4/) return put(3, 4 * lanes)
    if (word[1] ~ /^v_(dot2|pk_fmac?_f16)/) return put(2, 2 * lanes)
    if (word[1] ~ /^v_(dual_)?(fma|fmac|fma_mix|mac|mad)[a-z]*_f/) return put(1, lanes)
    if (text ~ /= hfma2/) return put(2, 2 * lanes)
    if (text ~ /= ffma/) return put(1, lanes)
    if (word[1] ~ /^dp4acc/) return put(3, 4 * lanes * repeated)
    if (word[1] ~ /^mad\.f(16|32)$/) return put(word[1] ~ /16/ ? 2 : 1, lanes * repeated)
    if (text ~ /^mul\.f hr/) return put(2, lanes * repeated)
    if (text ~ /(^| )mul\(/ && text ~ />HF/) return put(2, size(text)) # the first product of a sum
    if (text ~ /(^| )(mad|mac)\(/ && text ~ />(HF|F)/) return put(text ~ />HF/ ? 2 : 1, size(text))
}
function size(text) {
    match(text, /\([0-9]+\)/)
    return substr(text, RSTART + 1, RLENGTH - 2) + 0
}
function put(kind, number) {
    if (kind == 2 && together) kind = 1
    made[kind, n] = number
}
function loop(from, i) { # a jump here, back to a line
    loops++
    first[loops] = from
    for (i = from; i <= n; i++) part_of[loops, i] = 1
}
function cycles_of(text, word) {
    split(text, word, /[ \t]+/)
    return lanes > 64 && !(word[2] ~ /^(\(.*\))?hr/ && text ~ /,.*hr/) ? 2 : 1
}
function loop_of_blocks(from, to, waiting, top, b, i) { # an edge back to a block, and all from which it is reached
    loops++
    first[loops] = at[to]
    for (i = at[to]; i <= end_of[to]; i++) part_of[loops, i] = 1
    seen[loops, to] = 1
    waiting[top = 1] = from
    while (top) {
        b = waiting[top--]
        if ((loops, b) in seen) continue
        seen[loops, b] = 1
        for (i = at[b]; i <= end_of[b]; i++) part_of[loops, i] = 1
        for (i = 1; i <= edges; i++) if (edge_to[i] == b) waiting[++top] = edge_from[i]
    }
}
{
    text = $0
    sub(/^[ \t]+/, "", text)
    sub(/^\(?[-+@]?!?u?[fp][0-9.]+(\.any[0-9a-z]*|\.all[0-9a-z]*)?\)? +/, "", text)
}
{
    # an instruction of Turnip's may be for several registers
    repeated = match(text, /^[^ ]*\(rpt[0-9]\)/) ? substr(text, RSTART + RLENGTH - 2, 1) + 1 : 1
    sub(/^(\((sy|ss|jp|eq|nop[0-9]|rpt[0-9])\) ?)+/, "", text)
}
text ~ /^l[0-9]+:/ { sub(/:.*/, "", text); at["#" text] = n + 1; next }
text ~ /^nop( |$)/ { next }
text ~ /^BB[0-9]+:/ { sub(/:.*/, "", text); at[text] = n + 1; next }
text ~ /^LABEL[0-9]+:/ { sub(/:.*/, "", text); at[text] = n + 1; next }
text ~ /^block(\.u)? [0-9]+ / { split(text, part, " "); block = part[2]; at[block] = n + 1; next }
text ~ /^\} -> / {
    gsub(/[^0-9]+/, " ", text)
    to = split(text, part, " ")
    end_of[block] = n
    for (i = 1; i <= to; i++) if (part[i] != "") {
        edge_from[++edges] = block + 0
        edge_to[edges] = part[i] + 0
    }
    next
}
text ~ /MsgDesc/ || text ~ /^(sync|s_delay_alu|s_nop|\/\/)/ || text == "" { next } # no work
{
    n++
    count(text)
    for (i = 0; i < repeated; i++) cost[n + i] = cycles ? cycles_of(text) : 1
    n += repeated - 1
}
text ~ /^(jump|br[a-z]*) / { if ($NF in at) loop(at[$NF]) }
text ~ /^s_c?branch/ { if ($2 in at) loop(at[$2]) }
text ~ /^while\(/ { for (i = 1; i <= NF; i++) if ($i in at) loop(at[$i]) }
END {
    for (e = 1; e <= edges; e++) if (edge_to[e] <= edge_from[e]) loop_of_blocks(edge_from[e], edge_to[e])
    for (l = 1; l <= loops; l++) for (i = 1; i <= n; i++) if (part_of[l, i]) size_of[l] += cost[i]
    for (kind = 4; kind > 0 && !best; kind--)
        for (l = 1; l <= loops; l++) {
            total[l] = 0
            for (i = 1; i <= n; i++) if (part_of[l, i]) total[l] += made[kind, i]
            if (total[l] > most || (total[l] == most && most && size_of[l] > size_of[best])) {
                most = total[l]
                best = l
            }
        }
    for (l = 1; l <= loops; l++)
        if (l != best && total[l] && part_of[best, first[l]] && size_of[l] < size_of[best]) {
            nested++
            inner = inner " " total[l] " " size_of[l]
        }
    print most + 0, best ? size_of[best] : 0, nested + 0 inner
}
