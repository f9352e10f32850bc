#include "vae/vae.h"

/* All autoencoders share this: finding out which one a file holds, and the scale of its latents. */

/* Single files of several models put the autoencoder under a prefix of its own. */
static void diti_vae_choose_prefix(diti_loader *loader) {
    static const char *const prefixes[] = {"first_stage_model.", "vae.", "tae."};
    const char *given = loader->prefix;
    size_t i;
    if (given[0]) return;
    for (i = 0; i < DITI_COUNT(prefixes); i++) {
        loader->prefix = prefixes[i];
        if (diti_loader_find(loader, "decoder.conv_in.weight") || diti_loader_find(loader, "encoder.conv_in.weight") ||
            diti_loader_find(loader, "decoder.conv_in.conv.weight") ||
            diti_loader_find(loader, "encoder.conv_in.conv.weight") ||
            diti_loader_find(loader, "decoder.register_tokens") || diti_tiny_is(loader)) {
            return;
        }
    }
    loader->prefix = given;
}

DIT_INTERNAL void diti_vae_put_pixels_last(diti_vae *vae, const float *means, const float *deviations) {
    diti_vae_traits *traits = &vae->traits;
    uint32_t c;
    vae->pixels_last = vae->packs;
    for (c = 0; vae->packs && traits->by_channel && means && c < traits->latent_channels; c++) {
        traits->shifts[c] = means[c];
        traits->scales[c] = 1 / deviations[c];
    }
}

DIT_INTERNAL void diti_vae_belongs_to(diti_vae *vae, uint32_t channels, float scale, float shift) {
    if (!vae->traits.assumed || channels != vae->traits.latent_channels) return;
    vae->traits.scale = scale;
    vae->traits.shift = shift;
}

DIT_INTERNAL void diti_vae_unshift(diti_vae *vae) { vae->traits.shift = 0; }

/* Where no config.json says them, those that most autoencoders of as many channels have; a transformer may still say
   better. */
static dit_result diti_vae_read_scale(diti_vae *vae, const diti_json *json, dit_error *err) {
    diti_settings settings = diti_settings_of(json, "the autoencoder's config.json", err);
    double scale = diti_setting_number(&settings, "scaling_factor", vae->traits.tiny ? 1.0 : 0.0, 0, 1e6);
    vae->traits.assumed = scale == 0.0;
    vae->traits.scale = (float)scale;
    vae->traits.shift = (float)diti_setting_number(&settings, "shift_factor", 0.0, -1e6, 1e6);
    diti_vae_belongs_to(vae, vae->traits.latent_channels, 0.18215f, 0);
    diti_vae_belongs_to(vae, 16, 0.3611f, 0.1159f);
    return settings.result;
}

/* NULL: an autoencoder of pictures. */
static const diti_video_kind *diti_vae_find_kind(diti_loader *loader, const diti_json *config) {
    const diti_video_kind *kinds[8];
    size_t i;
    /* The first one has all the names by which others are told. */
    kinds[0] = diti_hunyuanvideo15_vae_kind();
    kinds[1] = diti_opensora_kind();
    kinds[2] = diti_causal_kind();
    kinds[3] = diti_cogvideox_vae_kind();
    kinds[4] = diti_wan_vae_kind();
    kinds[5] = diti_hunyuanvideo_vae_kind();
    kinds[6] = diti_ltx_vae_kind();
    kinds[7] = diti_minimax_vae_kind();
    for (i = 0; i < DITI_COUNT(kinds); i++)
        if (kinds[i]->is(loader, config)) return kinds[i];
    return NULL;
}

static dit_result diti_vae_read(diti_component *component, diti_loader *loader, const diti_json *config,
                                dit_error *err) {
    diti_vae *vae = (diti_vae *)(void *)component;
    diti_settings settings = diti_settings_of(config, "the autoencoder's config.json", err);
    const char *name = diti_setting_text(&settings, "_class_name", "AutoencoderTiny");
    DITI_TRY(settings.result);
    diti_vae_choose_prefix(loader);
    vae->traits.colors = 3;
    vae->kind = diti_vae_find_kind(loader, config);
    vae->traits.video = vae->kind != NULL;
    if (vae->kind) return vae->kind->read(vae, loader, config, err);
    if (diti_dc_is(loader, name)) return diti_dc_read(vae, loader, config, err);
    vae->traits.tiny = vae->traits.exact = diti_tiny_is(loader) && diti_equal(name, "AutoencoderTiny");
    if (!vae->traits.tiny) return diti_kl_read(vae, loader, config, err);
    diti_settings_check_words(&settings, "act_fn", "relu");
    diti_settings_check_words(&settings, "upsample_fn", "nearest");
    return settings.result;
}

static void diti_vae_load_weights(diti_component *component, diti_loader *loader) {
    diti_vae *vae = (diti_vae *)(void *)component;
    if (vae->kind)
        vae->kind->load(vae, loader);
    else if (vae->dc)
        diti_dc_load(vae, loader);
    else if (vae->traits.tiny)
        diti_tiny_load(vae, loader);
    else
        diti_kl_load(vae, loader);
}

static dit_result diti_vae_check(diti_component *component, const diti_json *config, dit_error *err) {
    diti_vae *vae = (diti_vae *)(void *)component;
    dit_result result = vae->kind          ? vae->kind->finish(vae, config, err)
                        : vae->dc          ? diti_dc_check(vae, err)
                        : vae->traits.tiny ? diti_tiny_check(vae, err)
                                           : diti_kl_check(vae, config, err);
    if (vae->traits.by_channel) vae->traits.scale = 1;
    return result >= 0 && !vae->traits.by_channel ? diti_vae_read_scale(vae, config, err) : result;
}

DIT_INTERNAL dit_result diti_vae_load(diti_device *device, const diti_env *env, const diti_json *config,
                                      const diti_checkpoint *checkpoint, const char *prefix,
                                      const diti_load_options *options, diti_vae **out, dit_error *err) {
    static const diti_component_kind kind = {"autoencoder",         "vae",         sizeof(diti_vae), diti_vae_read,
                                             diti_vae_load_weights, diti_vae_check};
    diti_load_options plain = DITI_ZERO; /* rules about types are for transformers and text encoders */
    diti_component_source from = {device, env, config, checkpoint, prefix, &plain, NULL, NULL};
    diti_component *component;
    dit_result result;
    if (options) plain = *options;
    plain.types = NULL;
    plain.type_count = 0;
    result = diti_component_load(&kind, &from, &component, err);
    *out = (diti_vae *)(void *)component;
    return result;
}

DIT_INTERNAL void diti_vae_destroy(diti_vae *vae) {
    if (vae) diti_component_free(&vae->base);
}

DIT_INTERNAL const diti_vae_traits *diti_vae_get_traits(const diti_vae *vae) { return &vae->traits; }

DIT_INTERNAL const diti_weights *diti_vae_weights(const diti_vae *vae) { return &vae->base.weights; }

DIT_INTERNAL uint32_t diti_vae_noise_plane(const diti_vae *vae, const diti_video *latent, uint32_t index) {
    return vae->kind && vae->kind->noise_plane ? vae->kind->noise_plane(vae, latent, index) : 0;
}

/* A picture is a clip of one frame to an autoencoder of clips; the first device alone computes it. height, width: of
   the latent. */
static diti_tensor diti_vae_frame(const diti_vae *vae, diti_graph *graph, diti_tensor x, bool decode, uint32_t height,
                                  uint32_t width, uint32_t tile) {
    diti_video pixels;
    diti_vae_clip clip;
    pixels.frames = 1;
    pixels.height = vae->traits.factor * height;
    pixels.width = vae->traits.factor * width;
    if (!diti_vae_clip_begin(&clip, vae, graph, !decode, &pixels, tile, 0)) return 0;
    return diti_vae_clip_all(&clip, decode ? diti_vae_clip_latents(&clip, x) : x);
}

DIT_INTERNAL diti_tensor diti_vae_decode(const diti_vae *vae, diti_graph *graph, diti_tensor latent, uint32_t height,
                                         uint32_t width, uint32_t tile, const diti_ranks *group) {
    const diti_vae_traits *traits = &vae->traits;
    if (diti_ranks_count(group) == 1) group = NULL;
    if (!traits->has_decoder)
        return diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_MODEL, "this autoencoder has no decoder");
    if (traits->video) return group && group->index ? 0 : diti_vae_frame(vae, graph, latent, true, height, width, tile);
    return diti_vae_decode_picture(vae, graph, latent, height, width, tile, group);
}

DIT_INTERNAL diti_tensor diti_vae_encode(const diti_vae *vae, diti_graph *graph, diti_tensor image, uint32_t height,
                                         uint32_t width, uint32_t tile) {
    uint32_t factor = vae->traits.factor;
    if (!vae->traits.has_encoder)
        return diti_graph_fail(graph, DIT_ERROR_UNSUPPORTED_MODEL, "this autoencoder has no encoder");
    if (vae->traits.video) return diti_vae_frame(vae, graph, image, false, height / factor, width / factor, tile);
    return diti_vae_encode_picture(vae, graph, image, height, width, tile);
}
