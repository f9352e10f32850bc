/* How much of a kernel's work one thread, one subgroup and one workgroup get. A portion that is too much for the
   registers goes through memory, which is many times slower, and no driver says so when it compiles: the figures are
   those of compilers, found by `make gpus` (tools/feigned.c). Which results a device gets depends on its line, so that
   lines change only with a reason. */
#include "vk/vk.h"

typedef struct diti_portions_line {
    uint32_t vendor, min_subgroup; /* 0: any; of AMD's the size with matrices */
    diti_portions portions;
} diti_portions_line;

/* The reasons, in figures of compilers. Spills are values that go through memory.

   Intel up to Xe-HPG: 128 registers of 8 floats for each thread of the hardware, which runs 8 or 16 of ours. Halves
   take a register of their own each. 8 x 4 results of halves: 559 to 617 spills, 4 x 4: none, 92 registers. For 1000
   products those take 337 instructions, halves that are broadcast within subgroups of 16 take 99, of which most take
   half as long as those of 16 floats (92). Attention in subgroups of 16 spills: 109 values with heads of 128, in
   subgroups of 8 none. On Arc A's matrix units parts of 16 x 16 take 18 instructions, and 2990 cycles for what
   broadcasts take 6930; with slices twice as deep they spill 20 values, parts of 32 x 8 with such 37. Convolutions
   with tiles of 128 x 128 spill 7 to 22, of 64 x 64 none: 44 instructions and 6040 cycles for what broadcasts take
   125 and 10120. Attention is turned up to 128 channels (attention_columns.comp): sums of 32 channels and 16 keys
   need 114 registers in 256 threads and spill 1 to 24 values in 128, sums of 64 and 16 spill 133. Above them, by
   eight subgroups with 32 channels and 8 queries each, sums apart and values channel by channel, it has 123
   registers and takes 9960 cycles in heads of 256, without matrices 26350; with 48 channels 42 to 114 values spill,
   with int8 queries 8 to 32. Blocks of int8, broadcast within subgroups of 8: 48 instructions, 2757 cycles; 8 x 4
   results without broadcasts 58 and 4595, two blocks of K in a slice 27 spills.

   Intel from Xe2 on: 128 registers of 16 floats, subgroups of 16. Parts of 32 x 32: 133 to 170 spills, of 16 x 32
   none. In attention 8 queries with 64 channels, or 16 with 32, already spill; 16 with 16 channels do not, and take
   5570 cycles for what 8 with 32 take 6658 (heads of 64). Turned attention takes 1770 (attention_columns.comp), with
   sums of 40 channels and 16 keys up to 2 spills, of 40 and 8 or 32 and 16 none, of 64 and 16 59. In
   attention_coop.comp values by channels take 4570 cycles where values by keys take 5680 (heads of 128, 8 queries).
   A tile's outputs summed apart leave room for 64 channels: heads of 256 take 7340 cycles in place of 7760, of 512,
   which had no matrices, 6480 in place of 17670; values by channels spill 2 there, with 48 channels none, and heads
   of 384 take 6100 in place of 8330.

   AMD: 256 registers, of which a workgroup of many waves gets fewer: 192 with 8 waves on RDNA3, 128 on RDNA3.5.
   Matrices of scores that are all written out together spill from 16 queries with 128 channels on. Pairs of matrices
   of queries in heads of 128: 6.2 instructions for 1000 products, without 7.0. Two subgroups with 80 channels each
   and pairs spill 24 values, four with 64 none: heads of 192 take 63.6 cycles for 1000 products in place of 79.4, of
   256 61.2 and 74.5, of 384, by eight subgroups, 71.6 and 88.2, of 160 76.4 and 72.6. Without matrices and halves
   heads of 1024 spill 134 values where a thread has 16 groups of channels, none with 8 or 4. On RDNA2 8 x 4 results
   of blocks of int8 take 98 cycles with 8 subgroups to a SIMD unit, 8 x 8 take 95 with 4; products of halves 134.
   Products on matrices take 41.9 cycles for 1000 where the loop asks at its end whether it goes on, 46.2 where it
   asks at its beginning; on BMG 1459 and 1458, and on DG2 58 values spill. Attention of halves takes 16.2
   instructions for 1000 products with 8 queries of a thread and heads of 128, 18.8 with 4. Polaris takes 305 cycles
   for 1000 products of floats with 8 x 8 results, 317 with 8 x 4.

   NVIDIA: 255 registers. 16 queries with 256 channels: 121 spills, 32 with 128: 69 to other registers. Pairs in
   heads of 128 take 338 cycles for 1000 products, without 411; of 256 445 and 558. One subgroup with 96 channels and
   its own queries takes 180 cycles, two that share them 233; two with 96 channels each spill 4 values, four none,
   and take 297 cycles in heads of 384, eight with 48 427. Without matrices heads of 1024 spill 192 values with 16
   groups of channels for a thread, none with 8, and 8 x 8 results of blocks of int8 take 529 cycles, 8 x 4 617,
   products of halves with 8 x 4 results 1309. Volta takes 1129 cycles for 1000 products of halves with 8 x 8
   results, 1762 with 8 x 4. Pascal takes 1248 cycles for 1000 products of floats with 8 x 8 results, 1996 with 8 x
   4. Volta takes 31.4 instructions for 1000 products of attention with 8 queries of a thread and heads of 128, 38.3
   with 4. An H200 multiplies halves at 297 TFLOP/s with tiles of 256 x 128 and slices of 48 columns, at 272 with
   slices of 32, of which neighbouring threads load from more rows at a time, and at 267 with tiles of 128 x 128.
   With a condition in the loop over slices it is 171, since 144 bytes of sums go through memory (BENCHMARKS.md).

   AMD with matrices in subgroups of 32, of which a thread has twice the sums: parts of 64 x 64 put 16 KB of a
   subgroup into memory.

   Qualcomm: registers hold four floats, and a thread gets 32 of them on Adreno 6xx and 48 on 7xx where a workgroup
   has 256 threads, 16 and 24 where it has 512. Turnip multiplies halves one by one. With 8 x 4 results, slices of 16
   columns, sums of eight products and vectors that are loaded apart products take 10.4 instructions for 1000 and 24
   registers. With sums of 16, which are too coarse, they took 0.4 fewer, with sums of pairs 1.3 more and 30 registers,
   with vectors that are loaded in pairs as well 2.5 more and 39, with 8 x 8 results 0.4 more and 48 (28 spills on
   Adreno 660). Attention of halves with heads of 256 spills 9 values in 128 threads, none in 256; without halves
   heads of 1024 spill 876 in 128 threads, 218 in 512, none in 256 that have 16 queries.

   Apple: 256 registers of 16 bits for a thread; the more it takes, the fewer threads a core has. Halves are multiplied
   one by one: with one sum for each result, of 8 products, a product of halves has 2003 arithmetic instructions and
   183 registers, with two sums 2080 and 215, so that 576 threads fit in place of 448. Attention without
   halves spills 17 values with heads of 384 in 128 threads, 158 with 512, 879 with 1024, none in 256 threads that have
   16 queries of the widest; attention of halves with heads of 256 and a mask spills 3 in 128 threads, none in 256.

   Arm: 64 registers for a thread, and half as many threads where it takes more than 32. 8 x 4 results of halves: 99 to
   159 spills, 4 x 4 with slices of 16 columns 10 to 13 in convolutions, with slices of 8 none. 8 x 4 results of floats
   spill 19 to 85. Attention in 256 threads spills 1 to 5 values with heads of 144 to 256, 38 with 512; in 512 threads
   none and 2. */

/* clang-format off */
/* Vendor, size of subgroups (0: any), and the members of diti_portions: those of kernels without matrices in the first line
   of a device,

                  team
                  |   attention_team
                  |   |  half_rows
                  |   |  |  half_columns
                  |   |  |  |  half_step
                  |   |  |  |  |  half_unrolled
                  |   |  |  |  |  |  half_scalar
                  |   |  |  |  |  |  |      half_apart
                  |   |  |  |  |  |  |      |      float_rows
                  |   |  |  |  |  |  |      |      |  float_columns
                  |   |  |  |  |  |  |      |      |  |  dot_columns
                  |   |  |  |  |  |  |      |      |  |  |  packed_dot
                  |   |  |  |  |  |  |      |      |  |  |  |      dot_team
                  |   |  |  |  |  |  |      |      |  |  |  |      |  block_rows
                  |   |  |  |  |  |  |      |      |  |  |  |      |  |  block_columns
                  |   |  |  |  |  |  |      |      |  |  |  |      |  |  |  block_teams
                  |   |  |  |  |  |  |      |      |  |  |  |      |  |  |  |  half_quads
                  |   |  |  |  |  |  |      |      |  |  |  |      |  |  |  |  |  quads
                  |   |  |  |  |  |  |      |      |  |  |  |      |  |  |  |  |  |  row_quads
                  |   |  |  |  |  |  |      |      |  |  |  |      |  |  |  |  |  |  |  attention_threads

   those of kernels on matrices in the second.

                  part_rows
                  |   part_columns
                  |   |   step
                  |   |   |  conv_step
                  |   |   |  |  conv_edge
                  |   |   |  |  |    tall_step
                  |   |   |  |  |    |  ahead
                  |   |   |  |  |    |  |      late
                  |   |   |  |  |    |  |      |      queries
                  |   |   |  |  |    |  |      |      |   channels
                  |   |   |  |  |    |  |      |      |   |    int8
                  |   |   |  |  |    |  |      |      |   |    |      pair_alone
                  |   |   |  |  |    |  |      |      |   |    |      |   pair_two
                  |   |   |  |  |    |  |      |      |   |    |      |   |   pair_channels
                  |   |   |  |  |    |  |      |      |   |    |      |   |   |   pair_heads
                  |   |   |  |  |    |  |      |      |   |    |      |   |   |   |    column_channels
                  |   |   |  |  |    |  |      |      |   |    |      |   |   |   |    |   column_sums
                  |   |   |  |  |    |  |      |      |   |    |      |   |   |   |    |   |   column_threads
                  |   |   |  |  |    |  |      |      |   |    |      |   |   |   |    |   |   |    turned
                  |   |   |  |  |    |  |      |      |   |    |      |   |   |   |    |   |   |    |   apart
                  |   |   |  |  |    |  |      |      |   |    |      |   |   |   |    |   |   |    |   |   unrolled
                  |   |   |  |  |    |  |      |      |   |    |      |   |   |   |    |   |   |    |   |   |           registers */
static const diti_portions_line diti_portions_table[] = {
    {0x8086,  8, {16, 8, 4, 4, 4, 1, false, false, 8, 4, 4, true,  8, 8, 4, 2, 1, 2, 0, 512,  /* Intel up to Xe-HPG */
                  16, 16, 4, 4, 64,  0, true,  false, 8,  32,  false, 0,  0,  0,  0,   32, 48, 256, 32, 32, UINT32_MAX, 0}},
    {0x8086, 16, {0,  0, 4, 4, 4, 1, false, false, 8, 4, 4, true,  0, 8, 4, 1, 1, 2, 0, 512,  /* Intel from Xe2 on */
                  16, 32, 8, 4, 128, 0, false, false, 8,  64,  true,  16, 16, 16, 64,  40, 48, 256, 48, 64, UINT32_MAX, 0}},
    {0x1002,  0, {0,  0, 8, 4, 8, 8, false, false, 8, 8, 8, true,  0, 8, 4, 1, 0, 4, 2, 512,  /* AMD */
                  64, 64, 4, 4, 128, 0, false, true,  16, 160, true,  80, 64, 64, 512, 0,  0,  0,   0,  80, 1024,       192}},
    {0x10de,  0, {0,  0, 8, 8, 8, 8, false, false, 8, 8, 8, true,  0, 8, 8, 1, 0, 8, 2, 512,  /* NVIDIA */
                  64, 64, 4, 4, 128, 6, true,  false, 16, 192, true,  96, 80, 96, 384, 0,  0,  0,   0,  0,  UINT32_MAX, 0}},
    {0x1002, 32, {0,  0, 8, 4, 8, 8, false, false, 8, 8, 8, true,  0, 8, 4, 1, 0, 4, 2, 512,  /* AMD, matrices by 32 */
                  32, 64, 4, 4, 128, 0, false, true,  16, 160, true,  80, 64, 64, 512, 0,  0,  0,   0,  0,  1024,       192}},
    {0x5143,  0, {0,  0, 8, 4, 4, 4, true,  true,  8, 4, 8, false, 0, 8, 8, 1, 2, 2, 1, 256,  /* Qualcomm */
                  64, 64, 4, 4, 128, 0, false, false, 16, 256, true,  80, 80, 80, 160, 0,  0,  0,   0,  0,  UINT32_MAX, 0}},
    {0x106b,  0, {0,  0, 8, 4, 8, 8, true,  false, 8, 4, 8, false, 0, 8, 8, 1, 2, 2, 0, 256,  /* Apple */
                  64, 64, 4, 4, 128, 0, false, false, 16, 256, true,  80, 80, 80, 160, 0,  0,  0,   0,  0,  UINT32_MAX, 0}},
    {0x13b5,  0, {0,  0, 4, 4, 2, 1, false, false, 4, 4, 4, false, 0, 4, 4, 1, 1, 1, 0, 512,  /* Arm */
                  64, 64, 4, 4, 128, 0, false, false, 16, 256, true,  80, 80, 80, 160, 0,  0,  0,   0,  0,  UINT32_MAX, 0}},
    {     0,  0, {0,  0, 8, 4, 8, 8, false, false, 8, 4, 8, false, 0, 8, 8, 1, 0, 0, 0, 512,  /* others */
                  64, 64, 4, 4, 128, 0, false, false, 16, 256, true,  80, 80, 80, 160, 0,  0,  0,   0,  0,  UINT32_MAX, 0}}
};
/* clang-format on */

/* A line that names a size of subgroups goes before one of the vendor's that names none. */
DIT_INTERNAL const diti_portions *diti_portions_of(const diti_identity *id, uint64_t wanted) {
    const diti_portions_line *line = diti_portions_table, *found = NULL;
    if (wanted < DITI_COUNT(diti_portions_table)) return &diti_portions_table[wanted].portions;
    for (;; line++) {
        if (line->vendor == id->vendor && line->min_subgroup && line->min_subgroup == id->min_subgroup)
            return &line->portions;
        if (!found && (!line->vendor || line->vendor == id->vendor) && !line->min_subgroup) found = line;
        if (!line->vendor) break;
    }
    return &found->portions;
}
