/* model: one file per transformer family. It reads its config and key names, loads weights, and emits the ops of one
 * denoiser evaluation. */
#ifndef DITI_MODEL_H
#define DITI_MODEL_H
#include "graph/graph.h"
#include "io/io.h"

/* What a family tells the job. */
typedef struct diti_model_traits {
    const char *family, *variant; /* "pixart", "sigma": a guess from the transformer alone */
    uint32_t latent_channels;     /* C */
    uint32_t out_channels;        /* of the transformer: C, or 2C with the learned sigma that is dropped */
    uint32_t patch;
    uint32_t default_size; /* latent height and width */
    uint32_t text_tokens,
        text_columns; /* of the encoder output it wants; the pipeline's class may say another number of tokens */
    uint32_t default_steps;
    float default_guidance;
    uint32_t text2_tokens, text2_columns; /* of a second encoder's output; 0: there is none */
    uint32_t pooled_columns;              /* of the encoders' pooled outputs, joined; 0: not used */
    uint32_t class_count;                 /* classes in place of a text, without the one that means none; 0: none */
    uint32_t guided_channels;             /* the first so many are guided; 0: all */
    const char *scheduler;                /* the scheduler_config.json of models that come without; NULL: unknown */
    bool wants_size;                      /* resolution and aspect below are used */
    bool wants_guidance;                  /* guidance below is an input (distilled models) */
    bool attends_padding;                 /* every prompt is padded to text_tokens, and the padding is read as well */
} diti_model_traits;

/* One denoiser evaluation inside a plan. Rows of the batch: the `copies` (unconditional, then conditional) of `batch`
 * images. */
typedef struct diti_denoise {
    uint32_t batch, copies;
    uint32_t height, width;           /* of the latent, multiples of the patch */
    uint32_t steps;                   /* rows of the timestep tables */
    uint32_t text_batch, text_tokens; /* prompts: copies (images share one) or copies * batch; tokens that one of them
                                         has at most */
    float resolution[2], aspect;      /* micro-conditions: pixels (height, width), and height / width */
    diti_tensor latent;               /* state, planar F32 [batch * C, height * width] */
    diti_tensor input_scale;          /* F32 [1, 1], or 0 */
    diti_tensor text;                 /* F32 or activation format [rows, text_columns]: the prompts' tokens, of
                                         unequal number, and rows that nothing reads */
    diti_tensor text_items;           /* U32 [text_batch, DITI_ITEM_WORDS]: which rows are each prompt's (as keys) */
    diti_tensor text2, text2_items;   /* the same for the second encoder; 0 where traits name none */
    diti_tensor pooled;               /* F32 [text_batch, pooled_columns], or 0 */
    diti_tensor labels;               /* U32 [1, text_batch]: classes, class_count for none; or 0 */
    float guidance;                   /* distilled guidance; read by write_inputs */
    diti_tensor step;                 /* U32 [1, 1] state: which row of the tables */
    bool variance;                    /* the prediction keeps all 2C channels (traits.out_channels) of every image */
    void *family; /* family's own tensors between prepare and step; freed with diti_free by the caller */
} diti_denoise;

typedef struct diti_transformer diti_transformer;
typedef struct diti_family {
    const char *name;
    /* true when config (may be NULL) or the tensors under prefix are this family's. */
    bool (*recognise)(const diti_json *config, const diti_checkpoint *checkpoint, const char *prefix);
    /* What config (may be NULL) does not say comes from shapes. */
    dit_result (*load)(diti_device *device, const diti_env *env, const diti_json *config,
                       const diti_checkpoint *checkpoint, const char *prefix, const diti_load_options *options,
                       diti_transformer **out, dit_error *err);
    void (*destroy)(diti_transformer *transformer);
    void (*prepare)(const diti_transformer *transformer, diti_graph *graph,
                    diti_denoise *denoise); /* once per image: modulation of all steps, text projections */
    diti_tensor (*step)(const diti_transformer *transformer, diti_graph *graph,
                        diti_denoise *denoise); /* prediction planar F32 [copies * batch * C, height * width] */
    /* Host inputs that prepare declared; timesteps: one for each of denoise->steps. */
    dit_result (*write_inputs)(const diti_transformer *transformer, diti_plan *plan, const diti_denoise *denoise,
                               const float *timesteps, dit_error *err);
} diti_family;
struct diti_transformer { /* first member of every family's own struct */
    const diti_family *family;
    diti_model_traits traits;
    diti_device *device; /* NULL after a dry run */
    diti_env env;
    diti_weights weights;
};
/* Finds the family; the error names what the file looks like. */
DIT_INTERNAL dit_result diti_transformer_load(diti_device *device, const diti_env *env, const diti_json *config,
                                              const diti_checkpoint *checkpoint, const char *prefix,
                                              const diti_load_options *options, diti_transformer **out, dit_error *err);
DIT_INTERNAL bool diti_transformer_known(const diti_json *config, const diti_checkpoint *checkpoint,
                                         const char *prefix);
DIT_INTERNAL void diti_transformer_destroy(diti_transformer *transformer); /* NULL is fine */

/* --- for the families --- */
/* The tensor prefix + name, NULL when absent. */
DIT_INTERNAL const diti_stored_tensor *diti_model_find(const diti_checkpoint *checkpoint, const char *prefix,
                                                       const char *name);
/* diti_rename behind the number of a block: "BEFORE3.NAME" -> "AFTER3.RENAMED". NULL as well where name does not begin
   with before. */
DIT_INTERNAL const char *diti_rename_block(const char *before, const char *after, const char *const (*pairs)[2],
                                           size_t count, const char *name, char *out, size_t size);
/* models.md 2.1: rows [count, dim] of scaled timesteps, cosines first, in float32 as the references round. dim is even.
   shift: 1 where the last frequency is exactly 1/10000, else 0. */
DIT_INTERNAL void diti_sinusoid(const float *timesteps, uint32_t count, uint32_t dim, uint32_t shift, float *out);
/* models.md 2.4: rows [gh * gw, dim]. A token's coordinate is y / divide_y / interpolation in float32, as the
 * references round. dim is a multiple of 4. */
DIT_INTERNAL void diti_position_table(uint32_t grid_height, uint32_t grid_width, uint32_t dim, float divide_y,
                                      float divide_x, float interpolation, float *out);

/* Sinusoids -> linear -> silu -> linear (models.md 2.2): NAME.linear_1 [width, columns], NAME.linear_2 [rows, width].
 */
typedef struct diti_embedder {
    diti_layer in, out;
} diti_embedder;
DIT_INTERNAL void diti_load_embedder(diti_loader *loader, diti_embedder *out, uint32_t rows, uint32_t width,
                                     uint32_t columns, const char *name);
/* F32 [rows of x, rows], written to out where it is not 0. */
DIT_INTERNAL diti_tensor diti_embed(diti_graph *graph, const diti_embedder *embedder, diti_tensor x, diti_tensor out);
/* Sinusoids of values as an input's content, F32 [count, 256]. shift: models.md 2.1. */
DIT_INTERNAL dit_result diti_write_sinusoids(const diti_env *env, diti_plan *plan, diti_tensor input,
                                             const float *values, uint32_t count, uint32_t shift, dit_error *err);
/* The position table of a grid as an input's content, F32 [rows * columns, D]: see diti_position_table. */
DIT_INTERNAL dit_result diti_write_positions(const diti_env *env, diti_plan *plan, diti_tensor input, uint32_t rows,
                                             uint32_t columns, float divide_y, float divide_x, float interpolation,
                                             dit_error *err);
/* A layer on x; out and out_f32 as in diti_linear_desc. */
DIT_INTERNAL diti_tensor diti_layer_run(diti_graph *graph, diti_tensor x, const diti_layer *layer,
                                        diti_activation activation, diti_tensor out, bool out_f32, const char *name);
/* x += gate * layer(h), in place. gate F32 [groups, columns] or 0: none; so many rows share one of its rows, 0: all. */
DIT_INTERNAL void diti_layer_add(diti_graph *graph, diti_tensor x, diti_tensor h, const diti_layer *layer,
                                 diti_tensor gate, uint32_t rows_per_gate, const char *name);
/* x + add, F32; add's rows are repeated, 0: a copy. */
DIT_INTERNAL diti_tensor diti_add_rows(diti_graph *graph, diti_tensor x, diti_tensor add, diti_tensor out,
                                       const char *name);
/* silu(x), F32: what modulations are linear in. */
DIT_INTERNAL diti_tensor diti_silu(diti_graph *graph, diti_tensor x, const char *name);
/* Attention of every item of a batch to itself: qkv [rows, 3 * heads * head_dim], q, k, v side by side. */
DIT_INTERNAL diti_tensor diti_self_attention(diti_graph *graph, diti_tensor qkv, uint32_t batch, uint32_t heads,
                                             uint32_t head_dim, bool int8);
/* The latent's patches, projected, plus positions (F32 [tokens, D], 0: none): the residual stream, F32 [copies * batch
 * tokens, D]. All branches have the same ones. */
DIT_INTERNAL diti_tensor diti_patch_embed(diti_graph *graph, const diti_denoise *denoise, const diti_layer *layer,
                                          uint32_t channels, uint32_t patch, diti_tensor positions);

DIT_INTERNAL const diti_family *diti_dit_family(void);
DIT_INTERNAL const diti_family *diti_pixart_family(void);
#endif
