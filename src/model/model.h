/* model: one file per transformer family. It reads its config and key names, loads weights, and emits the ops of one denoiser evaluation. */
#ifndef DITI_MODEL_H
#define DITI_MODEL_H
#include "graph/graph.h"
#include "io/io.h"

/* What a family tells the job. */
typedef struct diti_model_traits {
    const char *family, *variant;          /* "pixart", "sigma" */
    uint32_t latent_channels;              /* C */
    uint32_t out_channels;                 /* of the transformer: C, or 2C with the learned sigma that is dropped */
    uint32_t patch;
    uint32_t default_size;                 /* latent height and width */
    uint32_t text_tokens, text_columns;    /* of the encoder output it wants */
    uint32_t default_steps;
    float default_guidance;
} diti_model_traits;

/* One denoiser evaluation inside a plan. Rows of the batch: the `copies` (unconditional, then conditional) of `batch` images. */
typedef struct diti_denoise {
    uint32_t batch, copies;
    uint32_t height, width;                /* of the latent */
    uint32_t steps;                        /* rows of the timestep tables */
    uint32_t timestep_groups;              /* 1: all rows share a timestep; copies * batch: one each (reference tests) */
    uint32_t text_batch, text_tokens;      /* text rows are [text_batch * text_tokens, text_columns]; text_batch is copies (images share a prompt) or copies * batch */
    float resolution[2], aspect;           /* micro-conditions in pixels (height, width), height / width; where the family has them */
    diti_tensor latent;                    /* state, planar F32 [batch * C, height * width] */
    diti_tensor input_scale;               /* F32 [1, 1], or 0 */
    diti_tensor text;                      /* F32 or activation format [text_batch * text_tokens, text_columns] */
    diti_tensor text_lengths;              /* U32 [1, text_batch] valid tokens of each */
    diti_tensor step;                      /* U32 [1, 1] state: which row of the tables */
    diti_tensor probe;                     /* reference tests: when not 0, the first block's input is replaced by this F32 tensor */
    uint32_t probe_block;                  /* and the blocks before this one are left out */
    diti_tensor taps[64];                  /* outputs: state copies of block outputs when tap_blocks is set (reference tests) */
    bool tap_blocks;
    void *family;                          /* family's own tensors between prepare and step; freed with diti_free by the caller */
} diti_denoise;

typedef struct diti_transformer diti_transformer;
typedef struct diti_family {
    const char *name;
    /* true when config (may be NULL) or the tensors under prefix are this family's. */
    bool (*recognise)(const diti_json *config, const diti_checkpoint *checkpoint, const char *prefix);
    dit_result (*load)(diti_device *device, const diti_env *env, const diti_json *config, const diti_checkpoint *checkpoint, const char *prefix, const dit_progress *progress, diti_transformer **out, dit_error *err);
    void (*destroy)(diti_transformer *transformer);
    void (*prepare)(const diti_transformer *transformer, diti_graph *graph, diti_denoise *denoise); /* once per image: modulation of all steps, text projections */
    diti_tensor (*step)(const diti_transformer *transformer, diti_graph *graph, diti_denoise *denoise); /* prediction planar F32 [copies * batch * C, height * width] */
    /* Host inputs that prepare declared: timesteps [steps * timestep_groups]. */
    dit_result (*write_inputs)(const diti_transformer *transformer, diti_plan *plan, const diti_denoise *denoise, const float *timesteps, dit_error *err);
} diti_family;
struct diti_transformer { /* first member of every family's own struct */
    const diti_family *family;
    diti_model_traits traits;
    diti_device *device; /* NULL after a dry run */
    diti_env env;
    diti_weights weights;
};
/* Finds the family; the error names what the file looks like. */
DIT_INTERNAL dit_result diti_transformer_load(diti_device *device, const diti_env *env, const diti_json *config, const diti_checkpoint *checkpoint, const char *prefix, const dit_progress *progress, diti_transformer **out, dit_error *err);
DIT_INTERNAL void diti_transformer_destroy(diti_transformer *transformer);
/* models.md 2.1: rows [count, dim] of sin/cos of scaled timesteps, in float32 as the references round. */
DIT_INTERNAL void diti_sinusoid(const float *timesteps, uint32_t count, uint32_t dim, bool cosine_first, float shift, float scale, float *out);
/* models.md 2.4: rows [gh * gw, dim]; coordinates y * step_y, x * step_x. */
DIT_INTERNAL void diti_position_table(uint32_t grid_height, uint32_t grid_width, uint32_t dim, double step_y, double step_x, float *out);
#endif
