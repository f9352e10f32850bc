/* vae: decoders and encoders between latents and pixels. */
#ifndef DITI_VAE_H
#define DITI_VAE_H
#include "graph/ops.h"
#include "io/io.h"
#include "weights/component.h"

typedef struct diti_vae diti_vae;
#define DITI_VAE_MAX_CHANNELS 128u
typedef struct diti_vae_traits {
    uint32_t latent_channels, factor; /* pixels per latent element in each direction */
    float scale, shift;               /* latent = (z - shift) * scale (docs/models.md 4.1) */
    /* With by_channel each channel has a scale and a shift of its own in place of these. */
    bool by_channel;
    float scales[DITI_VAE_MAX_CHANNELS], shifts[DITI_VAE_MAX_CHANNELS];
    uint32_t colors; /* channels of a pixel: 3, or 4 where the last one is alpha */
    bool video;      /* frames of a clip are not independent of each other: a latent frame may be several */
    bool has_encoder, has_decoder;
    bool assumed;       /* scale and shift: no config.json said them */
    bool tiny;          /* AutoencoderTiny */
    bool exact;         /* an encoder gives the latent itself, without a log-variance */
    bool means;         /* a latent is the mean that the encoder gives, and no draw */
    bool inverts_scale; /* pictures that a model moves are divided by scale (CogVideoX 1.5) */
    /* LTX-Video's decoder from 0.9.1 on is told a timestep, and pipelines mix so much noise into the latent before it:
       (1 - decode_noise) z + decode_noise n. timed false: it is told none. */
    bool timed;
    float decode_timestep, decode_noise;
    const char *title; /* the family that it belongs to, where another one's has the same latents; NULL: unknown */
} diti_vae_traits;
/* AutoencoderKL in diffusers or LDM/BFL key naming, AutoencoderTiny (TAESD, TAESD3, TAEF1, TAEF2, the decoders of
   TAEHV) in diffusers' or its own, whole or one half of it; config NULL: sizes from shapes. */
DIT_INTERNAL dit_result diti_vae_load(diti_device *device, const diti_env *env, const diti_json *config,
                                      const diti_checkpoint *checkpoint, const char *prefix,
                                      const diti_load_options *options, diti_vae **out, dit_error *err);
DIT_INTERNAL void diti_vae_destroy(diti_vae *vae);
DIT_INTERNAL const diti_vae_traits *diti_vae_get_traits(const diti_vae *vae);
DIT_INTERNAL const diti_weights *diti_vae_weights(const diti_vae *vae);
/* A scale and a shift that were only assumed become these, where the latents have so many channels. */
DIT_INTERNAL void diti_vae_belongs_to(diti_vae *vae, uint32_t channels, float scale, float shift);
/* Latents are scaled alone, even where a config.json says a shift. */
DIT_INTERNAL void diti_vae_unshift(diti_vae *vae);
/* Fits a tiny autoencoder to a model whose latents have four times its channels, since a pixel of them is 2 x 2. */
DIT_INTERNAL void diti_vae_fit(diti_vae *vae, uint32_t latent_channels);
/* Where vae packs: channels of packed pixels are (dy, dx, c). means, deviations: of each, in place of those that the
   file has; NULL: the file's. */
DIT_INTERNAL void diti_vae_put_pixels_last(diti_vae *vae, const float *means, const float *deviations);
/* Whether it is a tiny autoencoder of clips (TAEHV), which decodes their first frame, or a picture, and no more. */
DIT_INTERNAL bool diti_vae_remembers(const diti_vae *vae);
/* Colours of latents without a decoder (colors.c), for latents of so many channels and that scale; false: none are
   known. clips: an autoencoder of clips has them. */
typedef struct diti_colors {
    uint32_t channels, patch; /* a pixel of the latent is patch x patch of so many channels */
    const float *values;      /* [channels + 1, 3] */
} diti_colors;
DIT_INTERNAL bool diti_colors_find(uint32_t channels, float scale, bool clips, diti_colors *out);
/* latent planar F32 [C, h * w] as the sampler leaves it -> rows [factor^2 * h * w, colors] F32 in about -1..1. tile:
   longest side, in latent elements, of what is decoded at a time (at least DITI_VAE_LEAST_TILE); 0: all at once. Tiles
   overlap by a quarter and fade into each other; AutoencoderKL normalises each on its own, so results differ a little.
   group: devices that do it together, each of which has the whole latent; NULL: this one alone. The result are the
   lines that diti_vae_lines tells; 0 where there are none. */
#define DITI_VAE_LEAST_TILE 8u
DIT_INTERNAL diti_tensor diti_vae_decode(const diti_vae *vae, diti_graph *graph, diti_tensor latent, uint32_t height,
                                         uint32_t width, uint32_t tile, const diti_ranks *group);
/* How many lines of a decoded picture a member of the group comes to have, from *first on: a band each, where
   more members than lines of the latent leave none to the last; of tiles, which go round, all with member 0. */
DIT_INTERNAL uint32_t diti_vae_lines(const diti_vae *vae, const diti_ranks *group, uint32_t member, uint32_t height,
                                     uint32_t width, uint32_t tile, uint32_t *first);
/* image rows [height * width, colors] F32 in -1..1, both sizes multiples of factor -> moments rows [h * w, 2C] F32:
   mean, then log-variance (to be clamped to [-30, 20] by who draws from it); of an exact one [h * w, C], the latent
   before scaling. */
DIT_INTERNAL diti_tensor diti_vae_encode(const diti_vae *vae, diti_graph *graph, diti_tensor image, uint32_t height,
                                         uint32_t width, uint32_t tile);

/* ---- clips: chunk after chunk. A job that has few frames on the device at a time emits the chunks of each kind as a
   segment of their own, which is run again for every chunk of the kind with another input, and reads its frames before
   the next one begins. Memory depends on the largest chunk, not on the length of the clip; diti_plan_measure of a graph
   with one chunk of each kind tells it in advance. Chunks run in their order, for what one leaves in caches the next
   one reads: where a guard wants a chunk to run again, all of them run again from the first. ---- */
typedef struct diti_vae_chunk {
    uint32_t first, frames;         /* frames of the input: the latent that is decoded, or the pictures */
    uint32_t out_first, out_frames; /* frames of the result */
    uint32_t kind; /* chunks of a kind are made by the same ops: 0 the first, 1 those behind it, 2 a last
                      one of another length, 3 one in front of that */
    bool tiled;    /* in parts that the autoencoder fades into each other */
} diti_vae_chunk;
#define DITI_VAE_CHUNK_KINDS 4u
#define DITI_VAE_CACHES 128u
typedef struct diti_vae_clip {
    const diti_vae *vae;
    diti_graph *graph;
    bool encode;
    diti_video pixels, latent; /* the whole clip */
    uint32_t tile;             /* latent elements on the longest side of what is computed at a time; 0: all */
    uint32_t tile_frames;      /* for autoencoders that cut tiles in time, too: latent frames of one; 0: as many as the
                                  original takes */
    diti_tensor noise;         /* an encoder that draws between its halves reads it: F32 [latent rows of all pictures,
                                  channels];         0: it takes the mean */
    /* LTX-Video's decoder from 0.9.1 on: sinusoids of the timestep that the latent is said to have, F32 [1, 256]
       (diti_vae_clip_timestep). Where it adds noise, it reads that from noise, F32 [values, 1], a plane after the
       other. */
    diti_tensor timestep;
    diti_tensor turns[2]; /* cosines and sines for a decoder that is a transformer (diti_vae_turns) */
    uint32_t noise_next;  /* values of noise that were read */
    diti_tensor caches[DITI_VAE_CACHES];
    uint32_t cache_next; /* cache of the next convolution of the chunk */
    bool first, last;    /* the chunk at hand has none before it; has none behind it */
    diti_ranks group;    /* devices that compute it together (diti_vae_clip_divide) */
    bool tiled;          /* these have tiles of each chunk: the first has all frames, and puts them together */
    bool of_tile;        /* caches live as long as the ops of a tile */
    uint32_t lines;      /* lines of the latent of which norms add the sums in order; 0: as suits the device */
} diti_vae_clip;
/* Latent frames of a clip that is decoded, or encoded; 0: the autoencoder makes no clip of so many frames, or takes
 *none. nearest, where not NULL, becomes the largest number up to frames that it does, or the least one. */
DIT_INTERNAL uint32_t diti_vae_latent_frames(const diti_vae *vae, uint32_t frames, bool encode, uint32_t *nearest);
#define DITI_VAE_PICTURES 4u /* frames that an autoencoder of pictures has at a time */
DIT_INTERNAL uint32_t diti_vae_frame_factor(const diti_vae *vae); /* frames that a latent frame stands for */
/* The autoencoder is one of pictures, which takes frames one by one. */
DIT_INTERNAL bool diti_vae_is_of_pictures(const diti_vae *vae);
/* The encoder draws noise for each picture, too, before it comes to frames (diti_vae_clip.noise). */
DIT_INTERNAL bool diti_vae_draws_inside(const diti_vae *vae);
/* Latent frames of a chunk that needs no chunk before it; 0: only the first needs none. */
DIT_INTERNAL uint32_t diti_vae_independent_frames(const diti_vae *vae);
/* frames, height and width are those of the pictures. tile and tile_frames: see diti_vae_clip. false: the graph has
   failed. */
DIT_INTERNAL bool diti_vae_clip_begin(diti_vae_clip *clip, const diti_vae *vae, diti_graph *graph, bool encode,
                                      const diti_video *pixels, uint32_t tile, uint32_t tile_frames);
/* The chunk of that number; false: there are fewer. */
DIT_INTERNAL bool diti_vae_clip_chunk(const diti_vae_clip *clip, uint32_t index, diti_vae_chunk *out);
/* A clip that has begun is decoded or encoded by a group of devices together, by the bytes of one alone: those that
   have no part in it are told by false. clip->latent and clip->pixels become what this device has of each frame. Chunks
   are asked for behind it. */
DIT_INTERNAL bool diti_vae_clip_divide(diti_vae_clip *clip, const diti_ranks *group);
/* Which part of some frames a member of the group has: of a chunk's latent, and of what it makes of that. */
typedef struct diti_vae_portion {
    uint32_t first, frames; /* frames among the chunk's; frames 0: none */
    uint32_t line, lines;   /* lines of each frame; line: the first */
} diti_vae_portion;
DIT_INTERNAL diti_vae_portion diti_vae_clip_portion(const diti_vae_clip *clip, const diti_vae_chunk *chunk,
                                                    uint32_t member, bool made);
/* Latents as the sampler leaves them, planar F32 [C, frames * h * w], as rows for a decoder: F32 [frames * h * w, C].
 */
DIT_INTERNAL diti_tensor diti_vae_clip_latents(const diti_vae_clip *clip, diti_tensor latents);
/* The ops of a chunk: x has the rows of its input that this device has, and the result those that it makes; 0, and the
   graph has not failed: it makes none. Rows of pictures are [pixels, 3]
   in about -1..1; those of latents that are encoded are moments as diti_vae_encode gives them. */
DIT_INTERNAL diti_tensor diti_vae_clip_run(diti_vae_clip *clip, const diti_vae_chunk *chunk, diti_tensor x);
/* Values of the plane of that number among those that the decoder adds as noise; 0: there are no more. */
DIT_INTERNAL uint32_t diti_vae_noise_plane(const diti_vae *vae, const diti_video *latent, uint32_t index);
#define DITI_VAE_TIMESTEP 256u
DIT_INTERNAL void diti_vae_clip_timestep(const diti_vae *vae, float timestep, float *out);
/* Cosines, then sines, by which a decoder rotates the tokens of a tile of a latent of that size, [rows, columns] each;
   the number of rows, 0: it rotates none. tile: see diti_vae_clip. table NULL: the sizes alone are wanted. */
DIT_INTERNAL uint32_t diti_vae_turns(const diti_vae *vae, const diti_video *latent, uint32_t tile, uint32_t *columns,
                                     float *table);
/* All chunks, one after the other in the current segment. */
DIT_INTERNAL diti_tensor diti_vae_clip_all(diti_vae_clip *clip, diti_tensor x);

/* ---- sound (sound.c): of a clip whose model denoises tokens of it. With LTX-2 the part that is called its autoencoder
   makes a spectrogram of them, and the vocoder samples of that; with MiniMax-H3 there is a vocoder alone, which makes
   one channel of the tokens themselves. ---- */
typedef struct diti_spectrogram diti_spectrogram;
typedef struct diti_vocoder diti_vocoder;
DIT_INTERNAL dit_result diti_spectrogram_create(const diti_component_source *from, diti_spectrogram **out,
                                                dit_error *err);
DIT_INTERNAL dit_result diti_vocoder_create(const diti_component_source *from, diti_vocoder **out, dit_error *err);
DIT_INTERNAL void diti_spectrogram_destroy(diti_spectrogram *spectrogram); /* NULL is fine, as below */
DIT_INTERNAL void diti_vocoder_destroy(diti_vocoder *vocoder);
DIT_INTERNAL const diti_weights *diti_spectrogram_weights(const diti_spectrogram *spectrogram);
DIT_INTERNAL const diti_weights *diti_vocoder_weights(const diti_vocoder *vocoder);
typedef struct diti_sound_traits {
    uint32_t rate, channels;                /* samples of a second; interleaved channels */
    uint32_t token_values;                  /* values of a token */
    uint32_t moment_values, vocoder_values; /* values of a moment that the spectrogram has, and the vocoder reads */
} diti_sound_traits;
/* spectrogram, here and below: NULL where there is none. */
DIT_INTERNAL void diti_sound_traits_of(const diti_spectrogram *spectrogram, const diti_vocoder *vocoder,
                                       diti_sound_traits *out);
/* The tensor by which the file of a vocoder that reads tokens is told. */
#define DITI_SOUND_ALONE "dec_in_proj.weight"
/* Samples that so many tokens become; 0: too many. */
DIT_INTERNAL uint32_t diti_sound_samples(const diti_vocoder *vocoder, uint32_t tokens);
/* tokens F32 [tokens, token_values] as the sampler leaves them, channel plane * lines + line -> out F32 [samples,
   channels] in -1..1. Tokens of channels that are made alone stand one channel after the other. tile: tokens that are
   decoded at a time; 0: some seconds. Samples do not depend on it, but for rounding. */
DIT_INTERNAL void diti_sound_decode(const diti_spectrogram *spectrogram, const diti_vocoder *vocoder, diti_graph *graph,
                                    diti_tensor tokens, uint32_t tile, diti_tensor out);

/* ---- inside the room ---- */

/* A name in which the first of each pair, where it is, has become the second one. */
DIT_INTERNAL const char *diti_kl_replace_all(const char *const (*pairs)[2], size_t count, const char *name, char *out,
                                             size_t size);

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
    diti_layer pool_in, pool_norm,
        pool_out;     /* branch that is added before a block of FLUX.2's; no parts where there is none */
    uint32_t number;  /* in the stored names */
    bool block, relu; /* relu: of one convolution; blocks end in theirs */
    bool up, down;    /* twice the size before it; half of it by it */
    bool remembers;   /* a block that reads the frame before, too */
    uint32_t frames;  /* every frame becomes so many; 0: the layer is no such one */
} diti_tiny_layer;
typedef struct diti_tiny_half {
    diti_tiny_layer *layers;
    uint32_t count;
    bool remembers; /* some block does: frames of clips */
    uint32_t patch; /* side of the pixels that the last convolution makes at a time; 0: 1 */
} diti_tiny_half;

/* Convolutions and norms of a video autoencoder have this in common. */
typedef struct diti_video_style {
    uint32_t groups; /* GroupNorms over all frames of a chunk have so many; 0: RMSNorm of each pixel */
    float eps;
    bool ends;            /* the first frame stands before itself, in place of zeros */
    bool edges;           /* pixels at the edges of a frame stand beyond them, in place of zeros */
    bool mirrored;        /* a decoder's frames have the pixels next to their edges beyond them, in place of zeros */
    bool mirrors_encoder; /* an encoder's have them, too */
    bool cached;          /* the last frames of a chunk stand before the first of the next one */
    bool both;            /* half of the frames that a decoder lacks stand behind the last one, and repeat that */
} diti_video_style;
typedef struct diti_video_kind {
    const char *name; /* for messages */
    bool (*is)(diti_loader *loader, const diti_json *config);
    dit_result (*read)(diti_vae *vae, diti_loader *loader, const diti_json *config, dit_error *err);
    void (*load)(diti_vae *vae, diti_loader *loader);
    dit_result (*finish)(diti_vae *vae, const diti_json *config, dit_error *err);
    /* Latent frames; 0: there are no such clips. */
    uint32_t (*latent_frames)(const diti_vae *vae, uint32_t frames, bool encode);
    bool (*chunk)(const diti_vae_clip *clip, uint32_t index, diti_vae_chunk *out);
    diti_tensor (*run)(diti_vae_clip *clip, const diti_vae_chunk *chunk, diti_tensor x);
    /* A tile of a chunk that run cuts into tiles; size becomes that of the result. NULL: run cuts none. */
    diti_tensor (*whole)(diti_vae_clip *clip, diti_video *size, diti_tensor x);
    /* Values of the noise that a decoder adds in its plane of that number; 0: there is no such plane. NULL: it adds
       none. */
    uint32_t (*noise_plane)(const diti_vae *vae, const diti_video *latent, uint32_t index);
    bool of_two; /* an autoencoder of frames behind one of pictures: an encoder draws noise between them, every chunk
                    stands alone, and devices divide the pictures of bands */
    /* diti_vae_turns of a tile of a chunk, of that size; NULL: nothing rotates. */
    uint32_t (*turns)(const diti_vae *vae, const diti_video *tile, uint32_t *columns, float *table);
} diti_video_kind;

struct diti_vae {
    diti_component base;
    diti_vae_traits traits;
    const diti_video_kind *kind; /* NULL: AutoencoderKL or AutoencoderTiny, for pictures */
    diti_video_style style;
    uint32_t frame_factor; /* frames per latent frame */
    uint32_t chunk_frames; /* frames of a chunk by the original's rule, where it has one */
    uint32_t own_tile;     /* the side of tiles that the original always has; 0: it goes without */
    bool spreads_tiles;    /* all tiles are as large, and what is too much is spread over where they overlap */
    bool tiles_clip;       /* tiles go through all frames of a clip, which is one chunk then */
    struct diti_opensora *opensora;
    struct diti_causal *causal;
    struct diti_cogvideox_vae *cogvideox;
    struct diti_wan_vae *wan;
    struct diti_hunyuanvideo_vae *hunyuanvideo;
    struct diti_hunyuanvideo15_vae *hunyuanvideo15;
    struct diti_ltx_vae *ltx;
    struct diti_minimax_vae *minimax;
    struct diti_dc *dc;        /* AutoencoderDC; NULL: it is another one */
    float timestep_multiplier; /* a decoder is told the timestep times this */
    uint32_t groups;
    bool packs; /* a pixel of the latent is 2 x 2 of what the decoder reads: channel c * 4 + dy * 2 + dx, or with */
    bool pixels_last; /* channel (dy * 2 + dx) * C + c */
    bool wide;        /* residuals in F32 whatever the activation format */
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
    const diti_ranks *group; /* NULL: all of it is here */
    uint32_t height, width;  /* as far as it is scaled by now; height: of the lines that are here */
    uint32_t above, below;   /* 1: another device has the line there, and there is room for it */
    uint32_t lines;          /* lines of the latent, of all bands together; 0: an encoder's, which has no bands */
    uint32_t images;         /* pictures one below the other, all of them here: 1 where there is a group */
} diti_row_band;
DIT_INTERNAL diti_row_band diti_row_band_whole(uint32_t height, uint32_t width);
/* This member's band of a latent with height lines in all. *first: its first line. */
DIT_INTERNAL diti_row_band diti_row_band_of(const diti_ranks *group, uint32_t height, uint32_t width, uint32_t *first);
/* x without that room. */
DIT_INTERNAL diti_tensor diti_row_band_local(diti_graph *graph, const diti_row_band *row_band, diti_tensor x);
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
/* GroupNorm over all lines, wherever they are. roomy: x has room, and the lines in it come meanwhile. desc: groups,
   eps, what else there is to it. */
DIT_INTERNAL diti_tensor diti_row_band_norm(diti_graph *graph, const diti_row_band *row_band, diti_tensor x,
                                            const diti_layer *layer, diti_group_norm_desc *desc, bool roomy);

/* ---- parts of video autoencoders (video_parts.c; docs/models.md 4.11) ---- */
DIT_INTERNAL const diti_video_kind *diti_opensora_kind(void);
DIT_INTERNAL const diti_video_kind *diti_causal_kind(void);
DIT_INTERNAL const diti_video_kind *diti_cogvideox_vae_kind(void);
DIT_INTERNAL const diti_video_kind *diti_wan_vae_kind(void);
DIT_INTERNAL const diti_video_kind *diti_hunyuanvideo_vae_kind(void);
DIT_INTERNAL const diti_video_kind *diti_hunyuanvideo15_vae_kind(void);
DIT_INTERNAL const diti_video_kind *diti_ltx_vae_kind(void);
DIT_INTERNAL const diti_video_kind *diti_minimax_vae_kind(void);
DIT_INTERNAL uint32_t diti_ltx_vae_noise_plane(const diti_vae *vae, const diti_video *latent, uint32_t index);
/* NAME.weight, or NAME.conv.weight, [C', C, frames, kernel, kernel] with as many channels and as wide as the file has
   it; the channels that it gives. The bias is loaded if the file has one. */
DIT_INTERNAL uint32_t diti_video_load_conv(diti_loader *loader, diti_layer *out, uint32_t channels, const char *name);
/* NAME.norm1, conv1, norm2, conv2 and, where channels differ, the shortcut; LIST0, LIST1, ... so. The channels they
 * give. */
DIT_INTERNAL uint32_t diti_video_load_resnet(diti_loader *loader, diti_kl_resnet *out, uint32_t channels,
                                             const char *shortcut, const char *name);
DIT_INTERNAL uint32_t diti_video_load_resnets(diti_loader *loader, diti_kl_level *level, uint32_t channels,
                                              const char *shortcut, const char *list);
/* Room for as many levels as the file has names BEFORE0AFTER, and `more`; NULL: the loader has failed. */
DIT_INTERNAL diti_kl_level *diti_video_load_levels(diti_vae *vae, diti_loader *loader, diti_kl_half *half,
                                                   const char *before, const char *after, uint32_t more);
/* A list of as many numbers as the latent has channels; where there is none, out stays as it is. */
DIT_INTERNAL void diti_video_read_list(diti_settings *settings, const char *key, uint32_t count, float *out);
/* Devices have a band of lines of every frame: not whole frames, which an autoencoder takes one by one, nor tiles. */
DIT_INTERNAL bool diti_vae_clip_has_bands(const diti_vae_clip *clip);
/* A chunk's frames in tiles, of which each makes made_frames behind the first ones that are dropped; on the first of
   several devices, 0 on the others. */
DIT_INTERNAL diti_tensor diti_video_tiled(diti_vae_clip *clip, uint32_t frames, uint32_t made_frames, uint32_t dropped,
                                          diti_tensor x);
/* The next cache of the chunk, for so many frames before the next one; the first chunk makes it. */
DIT_INTERNAL diti_tensor diti_video_cache(diti_vae_clip *clip, const diti_video *size, diti_tensor like,
                                          uint32_t before);
/* A convolution's input: rows of the frames, and in front of them room for some of the chunk before. */
typedef struct diti_video_input {
    diti_tensor all, own;
    uint32_t before; /* frames that there is room for */
} diti_video_input;
/* How many frames reader has from the chunk before; NULL: there is no such convolution. */
DIT_INTERNAL uint32_t diti_video_before(const diti_vae_clip *clip, const diti_layer *reader);
DIT_INTERNAL diti_video_input diti_video_room(diti_vae_clip *clip, const diti_video *size, uint32_t columns,
                                              diti_element format, uint32_t before);
/* A convolution that the first chunk goes without leaves zeros, or the last frames of x, for the one of the next chunk.
 */
DIT_INTERNAL void diti_video_skip(diti_vae_clip *clip, const diti_video *size, diti_tensor x, uint32_t before,
                                  bool zeros);
/* x, normed as style says, in front of reader. alone: every frame by itself. */
DIT_INTERNAL diti_video_input diti_video_norm(diti_vae_clip *clip, const diti_video *size, diti_tensor x,
                                              const diti_layer *norm, bool silu, bool alone, const diti_layer *reader);
/* Where devices have a band of each frame: x, so many rows to a line of the latent, with the lines of all of them. */
DIT_INTERNAL diti_tensor diti_video_all_lines(diti_vae_clip *clip, uint32_t frames, diti_tensor x, const char *name);
/* Where devices have whole frames of what an encoder reads: x, rows of those that are this one's (0: none are), becomes
   out, its lines of all frames of the chunk. */
DIT_INTERNAL void diti_video_local_lines(diti_vae_clip *clip, const diti_vae_chunk *chunk, diti_tensor x,
                                         diti_tensor out);
/* Keys and values of all lines, of qkv [pixels, 3 * channels] those behind the queries. */
DIT_INTERNAL diti_tensor diti_video_keys(diti_vae_clip *clip, const diti_video *size, diti_tensor qkv,
                                         uint32_t channels);
/* x, or a copy behind room for so many frames. */
DIT_INTERNAL diti_video_input diti_video_behind(diti_vae_clip *clip, const diti_video *size, diti_tensor x,
                                                uint32_t before);
DIT_INTERNAL diti_video_input diti_video_plain(diti_vae_clip *clip, const diti_video *size, diti_tensor x,
                                               const diti_layer *reader);
/* more: stride, frame_stride, padding, frames_before, upsample, residual, out; all 0 for a convolution of stride 1 that
   keeps the size. F32. */
DIT_INTERNAL diti_tensor diti_video_conv(diti_vae_clip *clip, const diti_video *size, diti_video_input in,
                                         const diti_layer *layer, const diti_conv_desc *more, const char *name);
/* Two norms, two convolutions, and a shortcut where channels differ. */
DIT_INTERNAL diti_tensor diti_video_resnet(diti_vae_clip *clip, const diti_video *size, diti_tensor x,
                                           const diti_kl_resnet *resnet);

/* Attention of one head: the keys of a frame's queries are those of its own and of earlier frames. */
DIT_INTERNAL diti_tensor diti_video_attend_before(diti_vae_clip *clip, const diti_video *size, diti_tensor x,
                                                  const diti_kl_attention *attention);

/* Values that a file has as a tensor of so many; out stays as it is where it has none. */
DIT_INTERNAL void diti_vae_read_values(diti_loader *loader, const char *name, float *out, uint32_t count);
/* Latents as the sampler leaves them, planar F32 [C, any], as rows [any, C] of what a decoder reads. */
DIT_INTERNAL diti_tensor diti_vae_unscale(const diti_vae *vae, diti_graph *graph, diti_tensor latents);
/* A picture or several, or the lines of one, by an autoencoder of pictures; in tiles (tiles.c). size: of the latent
   that is decoded, or of the picture that is encoded. */
DIT_INTERNAL diti_tensor diti_vae_run(const diti_vae *vae, diti_graph *graph, diti_tensor x, bool decode,
                                      diti_row_band row_band);
/* diti_vae_decode and diti_vae_encode of autoencoders of pictures. */
DIT_INTERNAL diti_tensor diti_vae_decode_picture(const diti_vae *vae, diti_graph *graph, diti_tensor latent,
                                                 uint32_t height, uint32_t width, uint32_t tile,
                                                 const diti_ranks *group);
DIT_INTERNAL diti_tensor diti_vae_encode_picture(const diti_vae *vae, diti_graph *graph, diti_tensor image,
                                                 uint32_t height, uint32_t width, uint32_t tile);
DIT_INTERNAL diti_tensor diti_vae_run_tiled(const diti_vae *vae, diti_graph *graph, diti_tensor x, bool decode,
                                            const diti_video *size, uint32_t tile);

/* The parts of loading (diti_component_kind) of either autoencoder. */
DIT_INTERNAL dit_result diti_kl_read(diti_vae *vae, diti_loader *loader, const diti_json *config, dit_error *err);
DIT_INTERNAL void diti_kl_load(diti_vae *vae, diti_loader *loader);
DIT_INTERNAL dit_result diti_kl_check(diti_vae *vae, const diti_json *config, dit_error *err);
DIT_INTERNAL bool diti_dc_is(diti_loader *loader, const char *class_name);
DIT_INTERNAL dit_result diti_dc_read(diti_vae *vae, diti_loader *loader, const diti_json *config, dit_error *err);
DIT_INTERNAL void diti_dc_load(diti_vae *vae, diti_loader *loader);
DIT_INTERNAL dit_result diti_dc_check(diti_vae *vae, dit_error *err);
DIT_INTERNAL diti_tensor diti_dc_decode(const diti_vae *vae, diti_graph *graph, diti_tensor x, diti_row_band size);
DIT_INTERNAL diti_tensor diti_dc_encode(const diti_vae *vae, diti_graph *graph, diti_tensor x, diti_row_band size);
/* row_band: its images are pictures one below the other. */
DIT_INTERNAL bool diti_tiny_is(diti_loader *loader);
DIT_INTERNAL void diti_tiny_load(diti_vae *vae, diti_loader *loader);
DIT_INTERNAL dit_result diti_tiny_check(diti_vae *vae, dit_error *err);
/* Rows [pixels, C] in, to be decoded with room; F32 rows out. */
DIT_INTERNAL diti_tensor diti_kl_decode(const diti_vae *vae, diti_graph *graph, diti_tensor x, diti_row_band row_band);
DIT_INTERNAL diti_tensor diti_kl_encode(const diti_vae *vae, diti_graph *graph, diti_tensor x, diti_row_band row_band);
/* Where vae packs: each pixel of the latent as 2 x 2, of whose lines on other devices the next one is left. */
DIT_INTERNAL diti_tensor diti_kl_unpack(diti_graph *graph, const diti_vae *vae, diti_tensor x, diti_row_band *row_band);
DIT_INTERNAL diti_tensor diti_tiny_decode(const diti_vae *vae, diti_graph *graph, diti_tensor x,
                                          diti_row_band row_band);
DIT_INTERNAL diti_tensor diti_tiny_encode(const diti_vae *vae, diti_graph *graph, diti_tensor x,
                                          diti_row_band row_band);
#endif
