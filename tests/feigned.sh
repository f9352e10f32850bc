#!/bin/sh
# Tests how tools/feigned.sh reads machine code and statistics, on excerpts of what RADV, NVK, ANV and Turnip print
# (Mesa 26.1.6). `make check` runs this. An excerpt whose numbers change tells that tables of BENCHMARKS.md made before and
# after cannot be compared.
#   sh tests/feigned.sh
cd "$(dirname "$0")/.." || exit 1
failed=0

expect() { # expect WHAT WANTED GOT
    [ "$2" = "$3" ] && return
    echo "$1: '$3' in place of '$2'"
    failed=1
}
loop() { # loop WHAT LANES WANTED <CODE
    expect "$1" "$3" "$(awk -v lanes="$2" -v together="${4:-0}" -f tools/feigned_loop.awk)"
}

loop 'RADV: matrices; waits are no instructions, other multiplications do not count beside them' 64 '8192 4 0' <<'EOF'
BB0:
	s_mov_b32 s0, s3                                            ; be800003
	v_wmma_f32_16x16x16_f16 v[4:7], v[88:95], v[120:127], v[4:7] ; cc404004 1c12f158
BB1:
	v_wmma_f32_16x16x16_f16 v[4:7], v[88:95], v[120:127], v[4:7] ; cc404004 1c12f158
	s_delay_alu instid0(SALU_CYCLE_1)                           ; bf870009
	v_wmma_i32_16x16x16_iu8 v[4:7], v[84:87], v[100:103], v[4:7] neg_lo:[1,1,0] ; cc444004 7c12c954
	v_pk_fma_f16 v1, v2, v3, v4                                 ; cc0e4001
	s_cbranch_scc1 BB1                                          ; bfa201a2
BB2:
	s_endpgm                                                    ; bfb00000
EOF
loop 'RADV: a loop within the loop, where halves count and floats beside them do not; a jump forward is none' 32 '128 7 1 128 3' <<'EOF'
BB0:
	s_cbranch_execz BB2                                         ; bfa5000e
BB1:
	v_fma_f32 v1, v2, v3, v1                                    ; d6130001
	v_dual_fmac_f32 v1, v2, v3 :: v_dual_mov_b32 v4, v5         ; c8000000
	s_cbranch_execz BB2                                         ; bfa5000e
BB2:
	v_dot2_f32_f16 v1, v2, v3, v1                               ; cc134001
	v_pk_fmac_f16 v1, v2, v3                                    ; 78020702
	s_cbranch_scc0 BB2                                          ; bfa1002a
BB3:
	s_branch BB1                                                ; bfa0fff0
EOF
loop 'RADV: halves and floats together' 32 '96 3 0' 1 <<'EOF'
BB1:
	v_fma_f32 v1, v2, v3, v1                                    ; d6130001
	v_pk_fma_f16 v1, v2, v3, v4                                 ; cc0e4001
	s_cbranch_scc1 BB1                                          ; bfa201a2
EOF
loop 'RADV: no loop multiplies' 64 '0 0 0' <<'EOF'
BB0:
	v_fma_f32 v1, v2, v3, v1                                    ; d6130001
BB1:
	s_cbranch_scc1 BB1                                          ; bfa201a2
EOF
loop 'NVK: jumps are lists behind blocks' 32 '6144 4 0' <<'EOF'
block.u 0 L2 [] -> {
      ur3       = mov rZ                                            // delay=2
} -> [1]
block.u 1 L1 [0, 2] -> {
      r68..72   = hmma.m16n8k16.f32 r8..12 r64..66 r68..72          // delay=1 wt=001000 wr:3
      r64..66   = imma.m16n8k32.i8.i8 r8 r60 r64..66                // delay=1 wt=001000 wr:3
} -> [2, 3]
block 2 L9 [1] -> {
      r138      = ffma.ftz r138 r139 r176                           // delay=1 wt=000010
@!p0              bra pT L1                                         // delay=1 wt=001111
} -> [1]
block 3 L4 [1] -> {
      exit                                                          // delay=1
} -> []
EOF
loop 'NVK: blocks that stand within a loop and do not lead back are no part of it' 32 '64 3 0' <<'EOF'
block.u 0 L1 [2] -> {
      r1        = ffma.ftz r2 r3 r1                                 // delay=1
} -> [1, 2]
block 1 L2 [0] -> {
      r4        = ffma.ftz r2 r3 r4                                 // delay=1
      exit                                                          // delay=1
} -> []
block.u 2 L3 [0] -> {
      r5        = ffma.ftz r2 r3 r5                                 // delay=1
                bra pT L1                                           // delay=1
} -> [0]
EOF
loop 'ANV: matrices of halves and of bytes, as wide as they say' 16 '6144 5 0' <<'EOF'
LABEL5:
cmp.ge.f0.0(16) null<1>UD       g51<8,8,1>UD    g89<0,1,0>UD    { align1 1H };
(+f0.0) break(16) JIP:  LABEL0        UIP:  LABEL0              { align1 1H };
sync nop(1)                     null<0,1,0>UB                   { align1 WE_all 1N I@2 };
                slm MsgDesc: ( load, a32, d32, V4, L1STATE_L3MOCS dst_len = 4 )  base_offset 0  { align1 1H };
dpas.8x8(16)    g9<1>F          g1<1,1,0>F      g57<1,1,0>HF    g25<1,1,0>HF { align1 WE_all 1H $6 };
dpas.8x8(16)    g25<1>D         g17<1,1,0>D     g41<1,1,0>B     g77<1,1,0>B { align1 WE_all 1H $15 };

LABEL0:
while(16)       JIP:  LABEL5                                    { align1 1H };
EOF
loop 'ANV: packed products before single ones; integers are no multiplications' 8 '64 5 0' <<'EOF'
LABEL6:
dp4a(8)         g87<1>D         g88.0<0,1,0>D   g91<8,8,1>D     g36<1,1,1>D { align1 1Q $10.dst };
(-f0.0) dp4a(8) g19<1>D         g88.0<0,1,0>D   g91<8,8,1>D     g24<1,1,1>D { align1 1Q $12.dst };
mad(8)          g23<1>UD        0x00c0UW        g23<8,8,1>UW    0x0004UW { align1 WE_all 1Q I@2 };
mad(16)         g91<1>HF        g40<8,8,1>HF    g14<8,8,1>HF    g87<1,1,1>HF { align1 1H };
while(8)        JIP:  LABEL6                                    { align1 1Q };
EOF
loop 'Turnip: an instruction for several registers counts as often, waits do not; jumps name labels behind a sign' 64 '128 13 1 128 10' <<'EOF'
l120:
(nop1) cmps.u.lt r21.y, (last)r21.y, c13.x
(sy)(ss)nop
br !p0.y, #l130
l123:
(sy)mad.f16 hr35.z, hr46.z, hr35.z, (last)hr35.y
(rpt2)mad.f32 r3.y, (last)(r)r3.y, c13.z, (r)r4.x
mul.f hr3.x, hr2.x, hr1.x
mul.f r3.x, r2.x, r1.x
(rpt1)add.u r18.z, r16.w, (r)c16.w
br p0.z, #l130
jump #l123
l130:
jump #l120
EOF

said() { # said WHAT WHO CASE WANTED <LINES
    expect "$1" "$4" "$(tr '|' '\t' | awk -v who="$2" -v case="$3" -f tools/feigned_versus.awk)"
}
said 'the kernel that multiplies most counts, by multiplications of a round times workgroups' dit.h gemm:f16:1024:4096:4096 \
    'gemm_coop|235|-|3|2000.0|6.10|2|32768|32768' <<'EOF'
pipeline 55a 0 78.53|Subgroup=16|Instructions=600|Cycles=65536|Spills=3|Max live registers=235
constants 55a 0:512 1:1 10:16 11:8 12:16 13:16 14:2 15:2 16:8 17:64 24:512
pipeline 55b 0 9.75|Subgroup=32|Cycles=3742|Spills=0|Max live registers=26
constants 55b 0:64 1:5 24:64
pipeline 55c 0 9.75|Subgroup=32|Cycles=3742|Spills=0|Max live registers=26
dispatch 55a 256 1 1 gemm_coop
dispatch 55a 256 1 1 gemm_coop
dispatch 55b 100000 1 1 expand
loop 55a 32768 200 0 0 0
loop 55b 65536 10 0 0 0
loop 55c 999999 10 0 0 0
EOF
said 'what the tile says and the code does not: the loop within counts as often as it takes' dit.h gemm:f16:1024:4096:4096 \
    'gemm_half|91|-|0|500.0*|250.00|1|2048|512' <<'EOF'
pipeline 55a 0 66.75|Subgroup=8|Cycles=1024|Spills=0|Max live registers=91
constants 55a 0:256 1:1 10:4 11:4 12:0 13:1 14:4 24:256
dispatch 55a 1024 1 1 gemm_half
loop 55a 512 152 1 512 120
EOF
said "RADV's and NVK's words; what compilers say of ggml stands as it is" ggml gemm:q8_0:1024:4096:4096 \
    '|192|8|1|125.0|2.00|1|4096|4096' <<'EOF'
pipeline 55a 0 89.02|Subgroup=64|VGPRs=192|Spilled VGPRs=1|Subgroups per SIMD=8|Latency=17567|Inverse Throughput=512
dispatch 55a 32 8 1
loop 55a 4096 8.192 0 0 0
EOF
said 'a loop within, of unknown rounds: no more than' ggml gemm:q8_0:1024:4096:4096 '|110|12|0|<= 2000.0*|<= 100.00|1|512|512' <<'EOF'
pipeline 55a 0 89.02|Subgroup=32|Number of GPRs=110|Spills to memory=0|Max warps/SM=12|Static cycle count=1024
dispatch 55a 32 8 1
loop 55a 512 51.2 1 256 20
EOF
said 'nothing multiplies' dit.h gemm:f16:1:1:1 'none||||||||' </dev/null

# The list has all that `make gpus` and the table of BENCHMARKS.md go through.
names=$(sh tools/feigned.sh list | sed 's/ .*//')
for gpu in $names $(sed -n "s/^compared='\([^']*\)'.*/\1/p" tools/feigned.sh); do
    case $(sh tools/feigned.sh run "$gpu" /bin/true 2>&1) in *'there is no GPU'*) expect "tools/feigned.sh list" "a GPU $gpu" none ;; esac
    case " $(echo "$names" | tr '\n' ' ') " in *" $gpu "*) ;; *) expect "tools/feigned.sh list" "$gpu" none ;; esac
done
exit $failed
