/* What the files of dit-convert share: the converter, its tensors, and the rules of --tensor-type-rules. The files read
 * in this order: convert.h, classes.h, collect.h, blocks.h, kblocks.h, write.h; dit-convert.c has the program. */
#ifndef CONVERT_H
#define CONVERT_H
#include "../../examples/cli/programs.h"

enum { CHUNK = 65536, ALIGNMENT = 32 };

typedef struct out_tensor {
    char *name;
    const diti_checkpoint *from;
    const diti_stored_tensor *stored;
    dit_type type;
    bool flat;     /* written as [shape[0], the rest] with its torch shape in the metadata */
    bool is_scale; /* the scales of the int8 rows before it, whose stored tensor it shares */
    float *scales; /* scales of int8 rows that are made here, known when the rows are written; the tensor of scales owns
                      them */
    uint64_t size, offset;
} out_tensor;

typedef struct type_rule {
    char *glob;
    dit_type type;
} type_rule;

typedef struct small_file {
    char *path, *data;
    size_t size;
} small_file;

typedef struct converter {
    diti_env env;
    const char *input, *output, *name;
    uint32_t steps; /* 0: not told */
    float guidance; /* 0: not told */
    dit_type type;
    type_rule *rules;
    size_t rule_count, rule_capacity;
    diti_package *package;
    const diti_checkpoint *verified; /* the last one whose checksums were compared */
    out_tensor *tensors;
    size_t tensor_count, tensor_capacity;
    small_file *files;
    size_t file_count, file_capacity;
    output_file out;
    bool output_failed, no_memory, help;
    uint64_t written;
    dit_error *err;
} converter;

static dit_result no_memory(converter *convert) {
    return diti_fail(convert->err, DIT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory", convert->input);
}

#endif
