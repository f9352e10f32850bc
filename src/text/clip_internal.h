/* Layers of CLIP, of which the encoders of texts and of pictures consist. */
#ifndef DITI_CLIP_INTERNAL_H
#define DITI_CLIP_INTERNAL_H
#include "text/text.h"

typedef struct diti_clip_block {
    diti_layer norm1, norm2; /* [d] */
    diti_fused_linear qkv;   /* [3 * d, d] */
    diti_layer out;          /* [d, d] */
    diti_layer up, down;     /* [ff, d], [d, ff] */
} diti_clip_block;

typedef struct diti_clip_config {
    uint32_t columns, vocabulary, positions, blocks, heads, hidden, projected;
    uint32_t head; /* columns of a head where config.json does not say how many heads there are */
    int32_t end;   /* the token that stands for the prompt; -1: the one with the largest id */
    float eps;
    diti_activation activation;
    bool siglip; /* SigLIP, whose activation and eps are others where config.json does not say them */
} diti_clip_config;

/* Heads, activation and eps of config.json, or by size. */
DIT_INTERNAL dit_result diti_clip_read_layers(diti_settings *settings, diti_clip_config *config, dit_error *err);
/* tower: "text_model" or "vision_model", before the names of layers. */
DIT_INTERNAL void diti_clip_load_block(diti_loader *loader, const diti_clip_config *config, diti_clip_block *block,
                                       const char *tower, uint32_t index);
/* x F32 [batch * tokens, d] is changed in place. mask: relative bias; 0: tokens see all of their item. */
DIT_INTERNAL void diti_clip_run_block(const diti_clip_config *config, const diti_clip_block *block, diti_graph *graph,
                                      uint32_t batch, diti_tensor mask, diti_tensor x);
DIT_INTERNAL diti_tensor diti_clip_norm(const diti_clip_config *config, diti_graph *graph, diti_tensor x,
                                        const diti_layer *norm, const diti_weight *reader, bool out_f32,
                                        const char *name);
#endif
