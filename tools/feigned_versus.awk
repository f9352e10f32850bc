# Reads what the layer wrote while one program computed one case, "loop HANDLE ..." lines with what tools/feigned_loop.awk
# says of each pipeline among them and "cycles HANDLE ..." lines with what it says with cycles=1, and prints what is
# known of the kernel that multiplies most, for tools/feigned.sh:
#   KERNEL|REGISTERS|OCCUPANCY|SPILLS|CYCLES PER 1000 MULTIPLICATIONS|INSTRUCTIONS PER 1000|DISPATCHES|ROUND|WRITTEN
# Cycles have a star where the main loop holds another; instructions are - where a round's cannot be told. Round:
# multiplications of one subgroup in a round of the main loop; written: how many of them the machine code has.
# Variables: case, and who: dit.h or ggml.
function statistic(names, i, j, count, name) { # the first of those that the driver tells, or nothing
    count = split(names, name, ",")
    for (j = 1; j <= count; j++)
        for (i = 2; i <= fields; i++)
            if (index(field[i], name[j] "=") == 1) return substr(field[i], length(name[j]) + 2)
    return ""
}
$1 == "pipeline" { said[$2] = $0 }
$1 == "constants" { for (i = 3; i <= NF; i++) constant[$2, substr($i, 1, index($i, ":") - 1)] = substr($i, index($i, ":") + 1) }
$1 == "dispatch" {
    if (!(($2, $3, $4, $5) in seen)) dispatches++
    seen[$2, $3, $4, $5] = 1
    if ($3 * $4 * $5 > groups[$2]) groups[$2] = $3 * $4 * $5
    if ($6 != "") module[$2] = $6
}
$1 == "loop" { loop[$2] = $0 }
$1 == "cycles" { cycles_of[$2] = $0 }
function of_a_round(text, number) { # instructions, or cycles, of a line that tells of loops
    split(text, number, " ")
    if (number[5] == 1) number[4] += ((round - number[3]) / number[6]) * number[7]
    if (halves) for (i = 6; i <= 8; i += 2) number[4] += ((round / 2 - number[i]) / number[i]) * number[i + 1]
    return number[4]
}
END {
    split(case, part, ":")
    for (handle in groups) {
        split(loop[handle], number, " ")
        if (module[handle] == "expand" || number[3] * groups[handle] <= most) continue
        most = number[3] * groups[handle]
        best = handle
    }
    if (best == "") {
        print "none||||||||"
        exit
    }
    for (i = 0; i < 32; i++) c[i] = constant[best, i]
    fields = split(said[best], field, "\t")
    split(loop[best], number, " ")
    lanes = statistic("Subgroup")
    # Multiplications of a subgroup in a round. Those of ggml's products are as its machine code has them.
    round = number[3]
    if (module[best] == "gemm_coop" && c[1] == 1) round = c[11] * c[12] * c[14] * c[15] * c[17]
    if (module[best] == "gemm_broadcast") round = c[10] * c[11] * c[13] * 4 * lanes
    if (module[best] == "gemm_half") round = c[10] * c[11] * c[14] * 4 * lanes
    if (module[best] == "attention_coop") round = c[7] * c[10] * c[11] * 2 * part[2] / c[14]
    if (module[best] == "attention_half") round = c[6] * c[7] * 16 * part[2] * lanes / c[0]
    if (module[best] == "attention_gpu") round = c[6] * c[8] * 2 * part[2] * lanes / c[0]
    if (module[best] == "attention_direct") round = c[7] * c[10] * c[11] * 2 * part[2]
    if (module[best] == "attention_columns") round = c[8] * c[10] * c[11] * 2 * part[2] / c[14]
    if (module[best] == "attention_broadcast") round = c[10] * c[11] * c[12] * 2 * part[2]
    if (who == "ggml" && part[1] == "attention") round = c[1] * c[2] * (c[3] + c[4]) * lanes / c[0]
    halves = number[5] == 2 && who == "dit.h" && part[1] == "attention" # one loop multiplies keys, one values
    instructions = of_a_round(loop[best])
    cycles = statistic("Inverse Throughput,Static cycle count,Cycles")
    spills = statistic("Spilled VGPRs,Spills to memory,Spills,STP Count")
    scratch = statistic("Scratch size,Scratch Memory Size,SLM size")
    if (!(spills > 0) && scratch > 0) spills = scratch " bytes" # arrays that stand in memory
    occupancy = statistic("Subgroups per SIMD,Max warps/SM,Max Waves Per Core")
    unknown = (number[5] > 1 && !halves) || (!number[5] && number[3] < 0.9 * round)
    bound = number[5] == 1 && round == number[3] # more rounds of the inner loop would do more
    # The compilers' cycles do not know how many rounds a loop within a loop has; Turnip tells none.
    if (cycles == "")
        cycles = unknown ? "-" : (bound ? "<= " : "") sprintf("%.1f", of_a_round(cycles_of[best]) * 1000 / round)
    else
        cycles = (bound ? "<= " : "") sprintf("%.1f", cycles * 1000 / round) (number[5] ? "*" : "")
    printf "%s|%s|%s|%s|%s|%s|%d|%d|%d\n", module[best], statistic("VGPRs,Number of GPRs,Max live registers,Registers used"), \
        (occupancy == "" ? "-" : occupancy), spills, cycles, \
        (unknown ? "-" : (bound ? "<= " : "") sprintf("%.2f", instructions * 1000 / round)), dispatches, round, number[3]
}
