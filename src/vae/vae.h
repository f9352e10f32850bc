/* vae: decoders and encoders between latents and pixels. */
#ifndef DITI_VAE_H
#define DITI_VAE_H
#include "graph/ops.h"
#include "io/io.h"
#include "weights/component.h"

typedef struct diti_vae diti_vae;
typedef struct diti_vae_traits {
    uint32_t latent_channels, factor; /* pixels per latent element in each direction */
    float scale, shift;               /* latent = (z - shift) * scale (docs/models.md 4.1) */
    bool has_encoder, has_decoder;
    bool assumed; /* scale and shift: no config.json said them */
    bool tiny;    /* AutoencoderTiny: what it encodes has no log-variance */
} diti_vae_traits;
/* AutoencoderKL in diffusers or LDM/BFL key naming, AutoencoderTiny (TAESD, TAESD3, TAEF1) in diffusers' or its own,
   whole or one half of it; config NULL: sizes from shapes. */
DIT_INTERNAL dit_result diti_vae_load(diti_device *device, const diti_env *env, const diti_json *config,
                                      const diti_checkpoint *checkpoint, const char *prefix,
                                      const diti_load_options *options, diti_vae **out, dit_error *err);
DIT_INTERNAL void diti_vae_destroy(diti_vae *vae);
DIT_INTERNAL const diti_vae_traits *diti_vae_get_traits(const diti_vae *vae);
DIT_INTERNAL const diti_weights *diti_vae_weights(const diti_vae *vae);
/* A scale and a shift that were only assumed become these, where the latents have so many channels. */
DIT_INTERNAL void diti_vae_belongs_to(diti_vae *vae, uint32_t channels, float scale, float shift);
/* latent planar F32 [C, h * w] as the sampler leaves it -> rows [factor^2 * h * w, 3] F32 in about -1..1. tile: longest
   side, in latent elements, of what is decoded at a time (at least DITI_VAE_LEAST_TILE); 0: all at once. Tiles overlap
   by a quarter and fade into each other; AutoencoderKL normalises each on its own, so results differ a little.
   group: devices that do it together, each of which has the whole latent; NULL: this one alone. The result are the
   lines that diti_vae_lines tells; 0 where there are none. */
#define DITI_VAE_LEAST_TILE 8u
DIT_INTERNAL diti_tensor diti_vae_decode(const diti_vae *vae, diti_graph *graph, diti_tensor latent, uint32_t height,
                                         uint32_t width, uint32_t tile, const diti_group *group);
/* How many lines of a decoded picture a member of the group comes to have, from *first on: a band each, where
   more members than lines of the latent leave none to the last; of tiles, which go round, all with member 0. */
DIT_INTERNAL uint32_t diti_vae_lines(const diti_vae *vae, const diti_group *group, uint32_t member, uint32_t height,
                                     uint32_t width, uint32_t tile, uint32_t *first);
/* image rows [height * width, 3] F32 in -1..1, both sizes multiples of factor -> moments rows [h * w, 2C] F32: mean,
   then log-variance (to be clamped to [-30, 20] by who draws from it); of a tiny one [h * w, C], the latent before
   scaling. */
DIT_INTERNAL diti_tensor diti_vae_encode(const diti_vae *vae, diti_graph *graph, diti_tensor image, uint32_t height,
                                         uint32_t width, uint32_t tile);

/* ---- inside the room ---- */

#define DITI_KL_MAX_LEVELS 8u
#define DITI_KL_MAX_RESNETS 8u

typedef struct diti_kl_resnet {
    diti_layer norm1, conv1, norm2, conv2;
    diti_layer shortcut; /* 1x1; no parts where input and output have the same channels */
    uint32_t channels;   /* channels of the output */
} diti_kl_resnet;

typedef struct diti_kl_attention {
    diti_layer norm;
    diti_fused_linear qkv;
    diti_layer out;
    bool present;
} diti_kl_attention;

typedef struct diti_kl_level { /* in the order of computing, not of LDM's names */
    diti_kl_resnet resnets[DITI_KL_MAX_RESNETS];
    uint32_t count;
    diti_layer resample; /* 3x3 after the resnets; no parts in the last level */
} diti_kl_level;

typedef struct diti_kl_half { /* decoder or encoder */
    diti_layer conv_in, norm_out, conv_out;
    diti_kl_resnet mid[2];
    diti_kl_attention attention;
    diti_kl_level *levels;
    uint32_t level_count;
    bool present;
} diti_kl_half;

#define DITI_TINY_MAX_LAYERS 32u
typedef struct diti_tiny_layer { /* one convolution, or a block of three */
    diti_layer convs[3], skip;
    uint32_t number;  /* in the stored names */
    bool block, relu; /* relu: of one convolution; blocks end in theirs */
    bool up, down;    /* twice the size before it; half of it by it */
} diti_tiny_layer;
typedef struct diti_tiny_half {
    diti_tiny_layer *layers;
    uint32_t count;
} diti_tiny_half;

struct diti_vae {
    diti_component base;
    diti_vae_traits traits;
    uint32_t groups;
    bool wide; /* residuals in F32 whatever the activation format */
    diti_kl_half decoder, encoder;
    diti_layer post_quant, quant; /* 1x1; no parts where the model has none */
    uint32_t ldm_levels;          /* levels of the decoder, where LDM's names count them from the other end */
    diti_tiny_half tiny_decoder, tiny_encoder;
    uint32_t tiny_pixels, tiny_moments; /* channels that the decoder and the encoder give; 0: it has none */
    const char *tiny_file;              /* name of the file for messages, while loading */
};

/* ---- bands (band.c): a picture, or the lines of it that one of several devices has. Tensors that a
   3x3 convolution reads have room for the lines next to the band, which are other devices' and come when they
   are needed. ---- */
typedef struct diti_row_band {
    const diti_group *group; /* NULL: all of it is here */
    uint32_t height, width;  /* as far as it is scaled by now; height: of the lines that are here */
    uint32_t above, below;   /* 1: another device has the line there, and there is room for it */
    uint32_t lines;          /* lines of the latent, of all bands together; 0: an encoder's, which has no bands */
} diti_row_band;
DIT_INTERNAL diti_row_band diti_row_band_whole(uint32_t height, uint32_t width);
/* This member's band of a latent with height lines in all. *first: its first line. */
DIT_INTERNAL diti_row_band diti_row_band_of(const diti_group *group, uint32_t height, uint32_t width, uint32_t *first);
/* x without that room. */
DIT_INTERNAL diti_tensor diti_row_band_own(diti_graph *graph, const diti_row_band *row_band, diti_tensor x);
/* Lines for the room of x, which may be read when this has ended: what begin returned, to end. */
typedef struct diti_row_band_edges {
    diti_trade above, below;
} diti_row_band_edges;
DIT_INTERNAL diti_row_band_edges diti_row_band_begin(diti_graph *graph, const diti_row_band *row_band, diti_tensor x);
DIT_INTERNAL void diti_row_band_end(diti_graph *graph, const diti_row_band *row_band, diti_row_band_edges edges);
/* A convolution of any size, x with room where it is not 1x1. roomy: the result has room, too, still empty. desc:
   stride, padding, what else there is to it. */
DIT_INTERNAL diti_tensor diti_row_band_conv(diti_graph *graph, const diti_row_band *row_band, diti_tensor x,
                                            const diti_layer *layer, diti_conv_desc *desc, bool roomy);

/* The parts of loading (diti_component_kind) of either autoencoder. */
DIT_INTERNAL dit_result diti_kl_read(diti_vae *vae, diti_loader *loader, const diti_json *config, dit_error *err);
DIT_INTERNAL void diti_kl_load(diti_vae *vae, diti_loader *loader);
DIT_INTERNAL dit_result diti_kl_check(diti_vae *vae, const diti_json *config, dit_error *err);
DIT_INTERNAL bool diti_tiny_is(diti_loader *loader);
DIT_INTERNAL void diti_tiny_load(diti_vae *vae, diti_loader *loader);
DIT_INTERNAL dit_result diti_tiny_check(diti_vae *vae, dit_error *err);
/* Rows [pixels, C] in, to be decoded with room; F32 rows out. */
DIT_INTERNAL diti_tensor diti_kl_decode(const diti_vae *vae, diti_graph *graph, diti_tensor x, diti_row_band row_band);
DIT_INTERNAL diti_tensor diti_kl_encode(const diti_vae *vae, diti_graph *graph, diti_tensor x, diti_row_band row_band);
DIT_INTERNAL diti_tensor diti_tiny_decode(const diti_vae *vae, diti_graph *graph, diti_tensor x,
                                          diti_row_band row_band);
DIT_INTERNAL diti_tensor diti_tiny_encode(const diti_vae *vae, diti_graph *graph, diti_tensor x,
                                          diti_row_band row_band);
#endif
