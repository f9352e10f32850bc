/* vae: decoders and encoders between latents and pixels. */
#ifndef DITI_VAE_H
#define DITI_VAE_H
#include "graph/graph.h"
#include "io/io.h"

typedef struct diti_vae diti_vae;
typedef struct diti_vae_traits {
    uint32_t latent_channels, factor; /* pixels per latent element in each direction */
    float scale, shift;               /* latent = (z - shift) * scale (models.md 4.1) */
    bool has_encoder, has_decoder;
} diti_vae_traits;
/* AutoencoderKL in diffusers or LDM/BFL key naming; config NULL: sizes from shapes. */
DIT_INTERNAL dit_result diti_vae_load(diti_device *device, const diti_env *env, const diti_json *config,
                                      const diti_checkpoint *checkpoint, const char *prefix,
                                      const diti_load_options *options, diti_vae **out, dit_error *err);
DIT_INTERNAL void diti_vae_destroy(diti_vae *vae);
DIT_INTERNAL const diti_vae_traits *diti_vae_get_traits(const diti_vae *vae);
DIT_INTERNAL const diti_weights *diti_vae_weights(const diti_vae *vae);
/* latent planar F32 [C, h * w] as the sampler leaves it -> rows [factor^2 * h * w, 3] F32 in about -1..1. */
DIT_INTERNAL diti_tensor diti_vae_decode(const diti_vae *vae, diti_graph *graph, diti_tensor latent, uint32_t height,
                                         uint32_t width);
/* image rows [height * width, 3] F32 in -1..1, both sizes multiples of factor -> moments rows [h * w, 2C] F32: mean,
   then log-variance (to be clamped to [-30, 20] by who draws from it). No public call starts from a picture yet: golden
   tests run it. */
DIT_INTERNAL DITI_UNUSED diti_tensor diti_vae_encode(const diti_vae *vae, diti_graph *graph, diti_tensor image,
                                                     uint32_t height, uint32_t width);
#endif
