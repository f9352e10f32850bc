# Reads the machine code of one program, as RADV, NVK or ANV print it, and prints what one round of its main loop holds:
#   MULTIPLICATIONS INSTRUCTIONS CYCLES NESTED
# Multiplications are those of one subgroup, by the kind of instruction that does most of them; cycles are those that
# NVK's code waits for after each instruction, 0 elsewhere; nested is 1 where there is a loop within that loop which
# multiplies, too. A loop is the code between a label and a jump back to it. lanes: of a subgroup.

# How many multiplications of which kind an instruction does: by matrices, by packed dot products, by one or two.
function count(text, word) {
    split(text, word, /[ \t]+/)
    if (word[1] ~ /^v_s?wmma/) return put(3, 4096)
    if (text ~ /hmma\.m16n8k16/) return put(3, 2048)
    if (text ~ /hmma\.m16n8k8/) return put(3, 1024)
    if (text ~ /imma\.m16n8k32/) return put(3, 4096)
    if (text ~ /imma\.m16n8k16/) return put(3, 2048)
    if (text ~ /imma\.m8n8k16/) return put(3, 1024)
    if (text ~ /dpas\.8x8/) return put(3, 64 * size(text) * (text ~ />(UB|B)|:(UB|B)/ ? 4 : 2))
    if (word[1] ~ /^v_dot4/) return put(2, 4 * lanes)
    if (text ~ /(^| )dp4a\(/) return put(2, 4 * size(text))
    if (text ~ /= idp4/) return put(2, 4 * lanes)
    if (word[1] ~ /^v_(dot2|pk_fma_f16)/) return put(1, 2 * lanes)
    if (word[1] ~ /^v_(dual_)?(fma|fmac|fma_mix)[a-z]*_f/) return put(1, lanes)
    if (text ~ /= hfma2/) return put(1, 2 * lanes)
    if (text ~ /= ffma/) return put(1, lanes)
    if (text ~ /(^| )(mad|mac)\(/ && text ~ />(HF|F)/) return put(1, size(text))
}
function size(text) {
    match(text, /\([0-9]+\)/)
    return substr(text, RSTART + 1, RLENGTH - 2) + 0
}
function put(kind, number) {
    made[kind, n] = number
}
function loop(from, label) { # a jump here, back to a line
    loops++
    first[loops] = from
    last[loops] = n
}
{
    text = $0
    sub(/^[ \t]+/, "", text)
    sub(/^\(?[-+@]?!?u?[fp][0-9.]+(\.any[0-9a-z]*|\.all[0-9a-z]*)?\)? +/, "", text)
}
text ~ /^BB[0-9]+:/ { sub(/:.*/, "", text); at[text] = n + 1; next }
text ~ /^LABEL[0-9]+:/ { sub(/:.*/, "", text); at[text] = n + 1; next }
text ~ /^block(\.u)? [0-9]+ / { split(text, part, " "); block = part[2]; at[block] = n + 1; next }
text ~ /^\} -> / {
    gsub(/[^0-9]+/, " ", text)
    to = split(text, part, " ")
    for (i = 1; i <= to; i++) if (part[i] != "" && part[i] + 0 <= block + 0) loop(at[part[i]])
    next
}
text ~ /MsgDesc/ || text ~ /^(sync|s_delay_alu|s_nop|\/\/)/ || text == "" { next } # no work
{
    n++
    count(text)
    if (match(text, /delay=[0-9]+/)) waits[n] = substr(text, RSTART + 6, RLENGTH - 6)
}
text ~ /^s_c?branch/ { if ($2 in at) loop(at[$2]) }
text ~ /^while\(/ { for (i = 1; i <= NF; i++) if ($i in at) loop(at[$i]) }
END {
    for (kind = 3; kind > 0 && !best; kind--)
        for (l = 1; l <= loops; l++) {
            sum = 0
            for (i = first[l]; i <= last[l]; i++) sum += made[kind, i]
            total[l] = sum
            # of equal ones the inner loop, which comes to its end first
            if (sum > most) {
                most = sum
                best = l
            }
        }
    for (i = first[best]; best && i <= last[best]; i++) {
        instructions++
        cycles += waits[i]
    }
    for (l = 1; l <= loops; l++)
        if (l != best && total[l] && first[l] >= first[best] && last[l] <= last[best] && total[l] < most) nested = 1
    print most + 0, instructions + 0, cycles + 0, nested + 0
}
