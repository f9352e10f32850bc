/* The files of dit-convert share this: the converter, its tensors, and the rules of --tensor-type-rules. The files read
 * in this order: convert.h, classes.h, prompts.h, calibrate.h, collect.h, kblocks.h,
 * blocks.h, methods.h, layers.h, write.h, trajectory.h, sense.h, fit.h, resume.h; dit-convert.c has the program. */
#ifndef CONVERT_H
#define CONVERT_H
#include "../../examples/cli/programs.h"

enum { CHUNK = 65536, ALIGNMENT = 32 };

typedef enum rounding_method { ROUND_PLAIN, ROUND_AWQ, ROUND_GPTQ, ROUND_SVD, ROUND_SVD_GPTQ } rounding_method;

typedef struct out_tensor {
    char *name;
    const diti_checkpoint *from;
    const diti_stored_tensor *stored;
    const char *rest; /* stored name, without what names the component */
    dit_type type;
    bool flat; /* written as [shape[0], the rest] with its torch shape in the metadata */
    /* Values that are made when a matrix is written, and stand behind it as tensors of its own: scales of int8 rows, a
       low-rank part. They share its stored tensor. */
    bool is_made;
    uint32_t made_rows, made_columns;     /* columns 0: a vector */
    float *made;                          /* values; known when the matrix before it is written */
    uint32_t made_count;                  /* a matrix: such tensors behind it */
    rounding_method method;               /* of I4_GROUP */
    float *row_divisors, *column_factors; /* folded scales: what the stored values are multiplied with; NULL: 1 */
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

typedef struct run_place { /* where --calibrate and --errors run the model; zeros: the best device, all weights on it */
    const char *device;
    uint64_t weight_budget;
} run_place;

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
    bool without_text, without_vae;
    const char *prompts; /* file of --calibrate or --errors; NULL: none */
    bool tells_errors;   /* of models, whose paths these are; the first is the reference */
    char **models;
    size_t model_count;
    run_place place;
    struct calibration *calibration;
    rounding_method method;
    uint32_t rank;    /* of low-rank parts */
    double smoothing; /* alpha of SmoothQuant; 0: off */
    uint64_t budget;  /* bytes of --fit; 0: none */
    bool json;
    bool expanded; /* I4_GROUP is written as the values that it stands for, as F32 */
    output_file out;
    bool resumes; /* what was written stays when this program is interrupted, and it goes on from there */
    FILE *journal;
    uint64_t plan;         /* hash of all that decides the output's bytes (resume.h) */
    uint64_t kept;         /* bytes of an earlier run that are used */
    uint64_t journalled;   /* bytes that the journal says are on the disk */
    uint64_t journal_step; /* a line for so many bytes at least */
    bool output_failed, no_memory, help;
    uint64_t written;
    dit_error *err;
} converter;

/* A text in quotes, as JSON has it. */
static void print_json_text(const char *text) {
    putchar('"');
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < ' ')
            printf("\\u%04x", c);
        else
            printf(c == '"' || c == '\\' ? "\\%c" : "%c", c);
    }
    putchar('"');
}

/* Where sentences go: beside lines of JSON, which alone are on standard output. */
static FILE *told_to(const converter *convert) { return convert->json ? stderr : stdout; }

/* FNV-1a */
static void hash_bytes(uint64_t *hash, const void *data, size_t size) {
    for (size_t i = 0; i < size; i++) *hash = (*hash ^ ((const uint8_t *)data)[i]) * 0x100000001b3u;
}

static dit_result no_memory(converter *convert) {
    return diti_fail(convert->err, DIT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory", convert->input);
}

#endif
