#include "vae/vae.h"

/* AutoencoderKLLTXVideo 0.9.0, 0.9.1 and 0.9.5, and AutoencoderKLLTX2Video (docs/models.md 4.9). The decoder is not
   causal, and may be told how much noise its latent has. */

typedef struct diti_ltx_vae_resnet {
    diti_layer conv1, conv2, shortcut, norm3;
    diti_weight table;     /* [4, channels]: shift and scale of either norm; no parts without a timestep */
    diti_weight noises[2]; /* [channels, 1]: behind either convolution; no parts: none is added */
    uint32_t channels;
} diti_ltx_vae_resnet;
typedef struct diti_ltx_vae_time { /* layers that read the timestep's sinusoids */
    diti_layer first, second;
} diti_ltx_vae_time;
typedef struct diti_ltx_vae_level {
    diti_ltx_vae_resnet change; /* a resnet for other channels: the decoder's before all, the encoder's behind all */
    diti_ltx_vae_resnet resnets[DITI_KL_MAX_RESNETS];
    uint32_t count;
    bool changes;
    diti_layer resample;
    uint32_t time_step, side_step; /* strides */
    bool strided;                  /* the encoder's convolution has them; else blocks become channels */
    bool adds;                     /* the decoder's x itself is added, so spread */
    diti_ltx_vae_time time;
} diti_ltx_vae_level;
typedef struct diti_ltx_vae_half {
    diti_layer conv_in, conv_out;
    diti_ltx_vae_level *levels; /* the decoder's first one is its middle, the encoder's last one */
    uint32_t level_count;
    bool present;
} diti_ltx_vae_half;
struct diti_ltx_vae {
    diti_ltx_vae_half decoder, encoder;
    diti_ltx_vae_time time;
    diti_weight table; /* [2, channels]: of the last norm */
    uint32_t patch;
    float eps; /* norm3 has it */
};

/* ---- names of original files: docs/models.md 4.9 ---- */

/* An element of the original's list of blocks is a row of resnets, with which a level of ours ends (the encoder's
   begins), a layer that changes the size, or a resnet for other channels. */
typedef enum diti_ltx_vae_element {
    DITI_LTX_VAE_NONE,
    DITI_LTX_VAE_RESNETS,
    DITI_LTX_VAE_SAMPLER,
    DITI_LTX_VAE_CHANGE
} diti_ltx_vae_element;

static bool diti_ltx_vae_stored(const diti_loader *loader, bool decoder, uint32_t index, const char *rest) {
    char name[160];
    diti_format(name, sizeof name, "%s%s.%u.%s", loader->prefix, decoder ? "decoder.up_blocks" : "encoder.down_blocks",
                (unsigned)index, rest);
    return diti_checkpoint_find(loader->checkpoint, name) != NULL;
}

static diti_ltx_vae_element diti_ltx_vae_element_at(const diti_loader *loader, bool decoder, uint32_t index) {
    if (diti_ltx_vae_stored(loader, decoder, index, "res_blocks.0.conv1.conv.weight")) return DITI_LTX_VAE_RESNETS;
    if (diti_ltx_vae_stored(loader, decoder, index, "conv1.conv.weight")) return DITI_LTX_VAE_CHANGE;
    if (diti_ltx_vae_stored(loader, decoder, index, "conv.weight") ||
        diti_ltx_vae_stored(loader, decoder, index, "conv.conv.weight"))
        return DITI_LTX_VAE_SAMPLER;
    return DITI_LTX_VAE_NONE;
}

/* The element of a level; UINT32_MAX: there is none. The decoder's first row of resnets is its middle, the encoder's
   last one. */
static uint32_t diti_ltx_vae_find(const diti_loader *loader, bool decoder, uint32_t level,
                                  diti_ltx_vae_element wanted) {
    uint32_t i, rows = 0, last = 0;
    diti_ltx_vae_element element;
    for (i = 0; (element = diti_ltx_vae_element_at(loader, decoder, i)) != DITI_LTX_VAE_NONE; i++)
        if (element == DITI_LTX_VAE_RESNETS) last = i;
    if (level == UINT32_MAX) return decoder ? 0 : last;
    for (i = 0; (element = diti_ltx_vae_element_at(loader, decoder, i)) != DITI_LTX_VAE_NONE; i++) {
        if (!decoder && i == last) break;
        if (!decoder && element == DITI_LTX_VAE_RESNETS) rows++;
        if (rows == level + 1 && element == wanted) return i;
        if (decoder && element == DITI_LTX_VAE_RESNETS) rows++;
    }
    return UINT32_MAX;
}

static const char *diti_ltx_vae_rename_rest(const char *rest, uint32_t index, bool decoder, char *out, size_t size) {
    static const char norm3[] = ".norm3.";
    const char *list = decoder ? "decoder.up_blocks" : "encoder.down_blocks", *resnets = "resnets.", *at;
    bool good;
    if (!diti_starts_with(rest, resnets))
        return diti_format(out, size, "%s.%u.%s", list, (unsigned)index, rest) ? out : NULL;
    rest += strlen(resnets);
    at = strstr(rest, norm3);
    good = at ? diti_format(out, size, "%s.%u.res_blocks.%.*s.norm3.norm.%s", list, (unsigned)index, (int)(at - rest),
                            rest, at + strlen(norm3))
              : diti_format(out, size, "%s.%u.res_blocks.%s", list, (unsigned)index, rest);
    return good ? out : NULL;
}

/* A loader's rename; user: the loader. */
static const char *diti_ltx_vae_rename(void *user, const char *name, char *out, size_t size) {
    static const char *const others[][2] = {{"latents_mean", "per_channel_statistics.mean-of-means"},
                                            {"latents_std", "per_channel_statistics.std-of-means"},
                                            {"decoder.time_embedder", "decoder.last_time_embedder"},
                                            {"decoder.scale_shift_table", "decoder.last_scale_shift_table"},
                                            {"decoder", "decoder"},
                                            {"encoder", "encoder"}};
    static const struct {
        const char *before;
        diti_ltx_vae_element element;
    } parts[] = {{"conv_in.", DITI_LTX_VAE_CHANGE},
                 {"conv_out.", DITI_LTX_VAE_CHANGE},
                 {"upsamplers.0.", DITI_LTX_VAE_SAMPLER},
                 {"downsamplers.0.", DITI_LTX_VAE_SAMPLER}};
    bool decoder = diti_starts_with(name, "decoder.");
    const char *list = decoder ? "up_blocks." : "down_blocks.", *rest = name + strlen("decoder.");
    diti_ltx_vae_element wanted = DITI_LTX_VAE_RESNETS;
    uint32_t level = UINT32_MAX, index;
    size_t i;
    bool inside = decoder || diti_starts_with(name, "encoder.");
    if (inside && diti_starts_with(rest, "mid_block.")) {
        rest += strlen("mid_block.");
    } else if (inside && diti_starts_with(rest, list)) {
        for (rest += strlen(list), level = 0; *rest >= '0' && *rest <= '9' && level < 1000; rest++)
            level = 10 * level + (uint32_t)(*rest - '0');
        if (*rest == '.') rest++;
    } else {
        return diti_rename(others, DITI_COUNT(others), name, out, size);
    }
    for (i = 0; i < DITI_COUNT(parts); i++) {
        if (!diti_starts_with(rest, parts[i].before)) continue;
        wanted = parts[i].element;
        rest += strlen(parts[i].before);
        break;
    }
    index = diti_ltx_vae_find((const diti_loader *)user, decoder, level, wanted);
    return index == UINT32_MAX ? NULL : diti_ltx_vae_rename_rest(rest, index, decoder, out, size);
}

static bool diti_ltx_vae_is_original(diti_loader *loader) {
    return diti_loader_find(loader, "per_channel_statistics.mean-of-means") &&
           (diti_loader_find(loader, "decoder.up_blocks.0.res_blocks.0.conv1.conv.weight") ||
            diti_loader_find(loader, "encoder.down_blocks.0.res_blocks.0.conv1.conv.weight"));
}

static bool diti_ltx_vae_is(diti_loader *loader, const diti_json *config) {
    const char *name = diti_json_string(config, "_class_name", "");
    return diti_equal(name, "AutoencoderKLLTXVideo") || diti_equal(name, "AutoencoderKLLTX2Video") ||
           diti_ltx_vae_is_original(loader) ||
           (diti_loader_find(loader, "decoder.up_blocks.0.resnets.0.conv1.conv.weight") &&
            !diti_loader_find(loader, "decoder.up_blocks.0.resnets.0.norm1.weight") &&
            diti_loader_find(loader, "latents_mean"));
}

/* ---- loading ---- */

static bool diti_ltx_vae_has(diti_loader *loader, const char *format, const char *name) {
    char full[96];
    diti_format(full, sizeof full, format, name);
    return diti_loader_find(loader, full) != NULL;
}

static uint32_t diti_ltx_vae_load_resnet(diti_loader *loader, diti_ltx_vae_resnet *out, uint32_t channels,
                                         const char *name) {
    static const char *const noises[2] = {"per_channel_scale1", "per_channel_scale2"};
    char scope[128];
    uint32_t i;
    diti_format(scope, sizeof scope, "%s", loader->scope);
    diti_loader_scope(loader, "%s%s.", scope, name);
    out->channels = diti_video_load_conv(loader, &out->conv1, channels, "conv1");
    diti_video_load_conv(loader, &out->conv2, out->channels, "conv2");
    if (channels != out->channels) {
        diti_load_norm(loader, &out->norm3, channels, "norm3");
        diti_video_load_conv(loader, &out->shortcut, channels, "conv_shortcut");
    }
    if (diti_loader_find(loader, "scale_shift_table"))
        diti_load_vector(loader, &out->table, 4, out->channels, "scale_shift_table");
    for (i = 0; i < 2 && diti_loader_find(loader, noises[i]) && !loader->error.result; i++) {
        diti_load_vector(loader, &out->noises[i], 1, out->channels, noises[i]);
        out->noises[i].rows = out->noises[i].parts[0].rows = out->channels; /* a matrix of one column */
        out->noises[i].columns = out->noises[i].kernel = 1;
    }
    diti_loader_scope(loader, "%s", scope);
    return out->channels;
}

static void diti_ltx_vae_load_time(diti_loader *loader, diti_ltx_vae_time *out, uint32_t size, const char *name) {
    char full[96];
    if (!diti_ltx_vae_has(loader, "%s.timestep_embedder.linear_1.weight", name)) return;
    diti_format(full, sizeof full, "%s.timestep_embedder.linear_1", name);
    diti_load_layer(loader, &out->first, size, 256, 1, full);
    diti_format(full, sizeof full, "%s.timestep_embedder.linear_2", name);
    diti_load_layer(loader, &out->second, size, size, 1, full);
}

/* Elements of a block that becomes channels, or that channels become. */
static uint32_t diti_ltx_vae_volume(const diti_ltx_vae_level *level) {
    return level->time_step * level->side_step * level->side_step;
}

/* In the scope of the level. */
static uint32_t diti_ltx_vae_load_level(diti_loader *loader, diti_ltx_vae_level *level, uint32_t channels,
                                        bool decoder) {
    const char *sampler = decoder ? "upsamplers.0.conv" : "downsamplers.0";
    char name[32];
    uint32_t i, rows;
    level->changes =
        diti_loader_find(loader, decoder ? "conv_in.conv1.conv.weight" : "conv_out.conv1.conv.weight") != NULL;
    if (decoder && level->changes) channels = diti_ltx_vae_load_resnet(loader, &level->change, channels, "conv_in");
    if (decoder && diti_ltx_vae_has(loader, "%s.conv.weight", sampler)) {
        rows = diti_video_load_conv(loader, &level->resample, channels, sampler);
        channels = rows / diti_ltx_vae_volume(level);
    }
    level->count = diti_loader_count(loader, "resnets.", ".conv1.conv.weight");
    if (!level->count || level->count > DITI_KL_MAX_RESNETS) {
        if (!loader->error.result)
            diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL, "%s: %smust hold 1 to %u resnets",
                      diti_checkpoint_name(loader->checkpoint), loader->scope, DITI_KL_MAX_RESNETS);
        level->count = 0;
    }
    for (i = 0; i < level->count; i++) {
        diti_format(name, sizeof name, "resnets.%u", (unsigned)i);
        channels = diti_ltx_vae_load_resnet(loader, &level->resnets[i], channels, name);
    }
    diti_ltx_vae_load_time(loader, &level->time, 4 * channels, "time_embedder");
    if (decoder || !diti_loader_find(loader, "downsamplers.0.conv.bias")) {
        if (!decoder && diti_loader_find(loader, "downsamplers.0.conv.conv.weight")) {
            rows = diti_video_load_conv(loader, &level->resample, channels, "downsamplers.0.conv");
            channels = rows * diti_ltx_vae_volume(level);
        }
        return channels;
    }
    level->strided = true;
    diti_video_load_conv(loader, &level->resample, channels, sampler);
    if (level->changes) channels = diti_ltx_vae_load_resnet(loader, &level->change, channels, "conv_out");
    return channels;
}

static void diti_ltx_vae_load_half(diti_vae *vae, diti_loader *loader, diti_ltx_vae_half *half, bool decoder) {
    const struct diti_ltx_vae *own = vae->ltx;
    const char *name = decoder ? "decoder" : "encoder", *blocks = decoder ? "up_blocks" : "down_blocks";
    uint32_t i, channels, pixels = 3 * own->patch * own->patch;
    diti_loader_scope(loader, "%s.", name);
    channels = diti_video_load_conv(loader, &half->conv_in, decoder ? vae->traits.latent_channels : pixels, "conv_in");
    for (i = 0; i < half->level_count && !loader->error.result; i++) {
        bool middle = i == (decoder ? 0 : half->level_count - 1);
        if (middle)
            diti_loader_scope(loader, "%s.mid_block.", name);
        else
            diti_loader_scope(loader, "%s.%s.%u.", name, blocks, (unsigned)(decoder ? i - 1 : i));
        channels = diti_ltx_vae_load_level(loader, &half->levels[i], channels, decoder);
    }
    diti_loader_scope(loader, "%s.", name);
    diti_video_load_conv(loader, &half->conv_out, channels, "conv_out");
    if (decoder && diti_loader_find(loader, "scale_shift_table")) {
        diti_load_vector(loader, &vae->ltx->table, 2, channels, "scale_shift_table");
        diti_ltx_vae_load_time(loader, &vae->ltx->time, 2 * channels, "time_embedder");
    }
    diti_loader_scope_end(loader);
}

static void diti_ltx_vae_load(diti_vae *vae, diti_loader *loader) {
    if (vae->ltx->decoder.present) diti_ltx_vae_load_half(vae, loader, &vae->ltx->decoder, true);
    if (vae->ltx->encoder.present) diti_ltx_vae_load_half(vae, loader, &vae->ltx->encoder, false);
    vae->traits.has_decoder = vae->ltx->decoder.present;
    vae->traits.has_encoder = vae->ltx->encoder.present;
}

/* ---- configuration ---- */

/* Numbers that the file holds, of which config.json knows nothing. */

static void diti_ltx_vae_set_strides(diti_ltx_vae_level *level, uint32_t volume) {
    level->side_step = volume >= 4 ? 2 : 1;
    level->time_step = volume == 4 ? 1 : 2;
}

/* Strides of an encoder's level that makes blocks to channels: its layer makes as many times fewer channels. */
static void diti_ltx_vae_find_strides(diti_loader *loader, diti_ltx_vae_level *level, uint32_t index, uint32_t count) {
    char name[96];
    uint32_t rows, next, volume;
    diti_format(name, sizeof name, "encoder.down_blocks.%u.downsamplers.0.conv.conv.weight", (unsigned)index);
    rows = diti_loader_dimension(loader, name, 0);
    if (index + 1 < count)
        diti_format(name, sizeof name, "encoder.down_blocks.%u.resnets.0.conv1.conv.weight", (unsigned)index + 1);
    else
        diti_format(name, sizeof name, "encoder.mid_block.resnets.0.conv1.conv.weight");
    next = diti_loader_dimension(loader, name, 1);
    volume = rows ? next / rows : 8;
    diti_ltx_vae_set_strides(level, volume);
}

/* Strides of a decoder's level: its layer makes as many times more channels than the level's resnets have. */
static void diti_ltx_vae_find_up(diti_loader *loader, diti_ltx_vae_level *level, uint32_t index) {
    char name[96];
    uint32_t rows, channels;
    diti_format(name, sizeof name, "decoder.up_blocks.%u.upsamplers.0.conv.conv.weight", (unsigned)index);
    rows = diti_loader_dimension(loader, name, 0);
    diti_format(name, sizeof name, "decoder.up_blocks.%u.resnets.0.conv1.conv.weight", (unsigned)index);
    channels = diti_loader_dimension(loader, name, 1);
    diti_ltx_vae_set_strides(level, rows && channels ? rows / channels : 8);
}

/* Levels, with room for the middle, and their strides. */
static bool diti_ltx_vae_make_levels(diti_vae *vae, diti_loader *loader, diti_ltx_vae_half *half, bool decoder,
                                     const diti_json *kinds) {
    uint32_t i, count = diti_loader_count(loader, decoder ? "decoder.up_blocks." : "encoder.down_blocks.",
                                          ".resnets.0.conv1.conv.weight");
    const diti_json *kind = kinds ? kinds->first : NULL;
    if (!count || count > DITI_KL_MAX_LEVELS) return !count;
    half->levels = (diti_ltx_vae_level *)diti_component_array(&vae->base, loader, count + 1, sizeof *half->levels);
    if (!half->levels) return false;
    half->level_count = count + 1;
    half->present = true;
    for (i = 0; i < count; i++, kind = kind ? kind->next : NULL) {
        const char *text = kind && kind->kind == DITI_JSON_STRING ? kind->text : "";
        if (!decoder) {
            half->levels[i].time_step = diti_equal(text, "spatial") ? 1 : 2;
            half->levels[i].side_step = diti_equal(text, "temporal") ? 1 : 2;
        }
        if (decoder) diti_ltx_vae_find_up(loader, &half->levels[i + 1], i);
        if (!decoder && !kinds) diti_ltx_vae_find_strides(loader, &half->levels[i], i, count);
    }
    return true;
}

/* Which levels of the decoder add x: the list's last element is that of the coarsest one, behind the middle. */
static void diti_ltx_vae_find_adds(diti_ltx_vae_half *half, diti_settings *settings, bool otherwise) {
    const diti_json *list = diti_setting(settings, "upsample_residual"), *item = list ? list->first : NULL;
    uint32_t i, last;
    for (i = 1; i < half->level_count; i++) half->levels[i].adds = otherwise;
    if (!list || !half->present) return;
    for (last = list->count; item && item->kind == DITI_JSON_BOOL; item = item->next, last--)
        if (last < half->level_count) half->levels[last].adds = item->number != 0;
    if (list->kind != DITI_JSON_ARRAY || item || list->count + 1 < half->level_count)
        diti_settings_refuse(settings, DIT_ERROR_BAD_FILE, "upsample_residual",
                             "not a list of true or false for each level of the decoder in the file");
}

/* LTX-2's decoders have no timestep and halve the channels in their first level, which LTX-Video's 0.9.0 does not. */
static bool diti_ltx_vae_is_second(const diti_vae *vae, diti_loader *loader) {
    uint32_t in = diti_loader_dimension(loader, "decoder.up_blocks.0.upsamplers.0.conv.conv.weight", 1),
             out = diti_loader_dimension(loader, "decoder.up_blocks.0.resnets.0.conv1.conv.weight", 1);
    return !vae->traits.timed && in == 2 * out;
}

static bool diti_ltx_vae_mirrors(const struct diti_ltx_vae *own, diti_settings *settings, bool otherwise) {
    const char *mode = diti_setting_text(settings, "decoder_spatial_padding_mode", otherwise ? "reflect" : "zeros");
    bool mirrors = diti_equal(mode, "reflect");
    if (!mirrors && !diti_equal(mode, "zeros"))
        diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, "decoder_spatial_padding_mode",
                             "only zeros and reflect are known");
    if (!diti_equal(diti_setting_text(settings, "encoder_spatial_padding_mode", "zeros"), "zeros"))
        diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, "encoder_spatial_padding_mode",
                             "only zeros are known");
    return mirrors && own->decoder.present;
}

static dit_result diti_ltx_vae_read(diti_vae *vae, diti_loader *loader, const diti_json *config, dit_error *err) {
    diti_settings settings = diti_settings_of(config, "the autoencoder's config.json", err);
    struct diti_ltx_vae *own = (struct diti_ltx_vae *)diti_component_array(&vae->base, loader, 1, sizeof *own);
    double scaling = diti_setting_number(&settings, "scaling_factor", 1, 1e-6, 1e6);
    const char *name = diti_json_string(config, "_class_name", "");
    uint32_t i, latent;
    bool second;
    if (!own) return DIT_ERROR_OUT_OF_HOST_MEMORY;
    vae->ltx = own;
    if (diti_ltx_vae_is_original(loader)) {
        loader->rename = diti_ltx_vae_rename;
        loader->user = loader;
    }
    latent = diti_loader_dimension(loader, "decoder.conv_in.conv.weight", 1);
    if (!latent) latent = diti_loader_dimension(loader, "encoder.conv_out.conv.weight", 0) - 1;
    if (latent > DITI_VAE_MAX_CHANNELS || !diti_ltx_vae_make_levels(vae, loader, &own->decoder, true, NULL) ||
        !diti_ltx_vae_make_levels(vae, loader, &own->encoder, false, diti_setting(&settings, "downsample_type")))
        return diti_loader_refuse(loader, err, "%u latent channels, or too many levels", (unsigned)latent);
    own->patch = diti_setting_size(&settings, "patch_size", 4, 16);
    vae->traits.timed = diti_loader_find(loader, "decoder.timestep_scale_multiplier") != NULL;
    vae->traits.decode_timestep = 0.05f; /* as the models' page tells users to call the pipeline */
    vae->traits.decode_noise = 0.025f;
    own->eps = (float)diti_setting_number(&settings, "resnet_norm_eps", 1e-6, 0, 1);
    second = diti_ltx_vae_is_second(vae, loader);
    if (*name || own->decoder.present)
        vae->traits.title = (*name ? diti_equal(name, "AutoencoderKLLTX2Video") : second) ? "LTX-2" : "LTX-Video";
    second = second && own->decoder.level_count == 4; /* LTX-2.3's has five */
    diti_ltx_vae_find_adds(&own->decoder, &settings, vae->traits.timed || second);
    vae->timestep_multiplier = 1000;
    diti_vae_read_values(loader, "decoder.timestep_scale_multiplier", &vae->timestep_multiplier, 1);
    vae->traits.latent_channels = latent;
    vae->traits.by_channel = true;
    vae->style.eps = 1e-8f;
    vae->style.ends = true;
    vae->style.mirrored = diti_ltx_vae_mirrors(own, &settings, !config && second);
    vae->style.both = !diti_setting_bool(&settings, "decoder_causal", false);
    if (!diti_setting_bool(&settings, "encoder_causal", true))
        diti_settings_refuse(&settings, DIT_ERROR_UNSUPPORTED_MODEL, "encoder_causal", "only true is known");
    for (i = 0; i < latent; i++) vae->traits.scales[i] = 1;
    diti_vae_read_values(loader, "latents_mean", vae->traits.shifts, latent);
    diti_vae_read_values(loader, "latents_std", vae->traits.scales, latent);
    for (i = 0; i < latent; i++) vae->traits.scales[i] = (float)(scaling / (double)vae->traits.scales[i]);
    return settings.result;
}

static dit_result diti_ltx_vae_finish(diti_vae *vae, const diti_json *config, dit_error *err) {
    const struct diti_ltx_vae *own = vae->ltx;
    const diti_ltx_vae_half *half = own->decoder.present ? &own->decoder : &own->encoder;
    const diti_video one = {1, 1, 1};
    uint32_t i;
    (void)config;
    (void)err;
    vae->traits.factor = own->patch;
    vae->frame_factor = 1;
    for (i = 0; i < half->level_count; i++) {
        if (!half->levels[i].resample.weight.part_count) continue;
        vae->traits.factor *= half->levels[i].side_step;
        vae->frame_factor *= half->levels[i].time_step;
    }
    vae->tiles_clip = !diti_ltx_vae_noise_plane(vae, &one, 0); /* noise is drawn for the whole clip */
    return DIT_OK;
}

/* ---- the whole clip is one chunk ---- */

static uint32_t diti_ltx_vae_latent_frames(const diti_vae *vae, uint32_t frames, bool encode) {
    (void)encode;
    return (frames - 1) % vae->frame_factor ? 0 : (frames - 1) / vae->frame_factor + 1;
}

static bool diti_ltx_vae_chunk(const diti_vae_clip *clip, uint32_t index, diti_vae_chunk *out) {
    out->frames = clip->encode ? clip->pixels.frames : clip->latent.frames;
    out->out_frames = clip->encode ? clip->latent.frames : clip->pixels.frames;
    return index == 0;
}

/* ---- noise that the decoder adds ---- */

static uint32_t diti_ltx_vae_noises(const diti_ltx_vae_resnet *resnet) {
    return (resnet->noises[0].part_count ? 1u : 0u) + (resnet->noises[1].part_count ? 1u : 0u);
}

DIT_INTERNAL uint32_t diti_ltx_vae_noise_plane(const diti_vae *vae, const diti_video *latent, uint32_t index) {
    const diti_ltx_vae_half *half = &vae->ltx->decoder;
    uint32_t area = latent->height * latent->width, seen = 0, i, k;
    for (i = 0; i < half->level_count; i++) {
        const diti_ltx_vae_level *level = &half->levels[i];
        if (level->changes) seen += diti_ltx_vae_noises(&level->change);
        if (index < seen) return area;
        if (level->resample.weight.part_count) area *= level->side_step * level->side_step;
        for (k = 0; k < level->count; k++) seen += diti_ltx_vae_noises(&level->resnets[k]);
        if (index < seen) return area;
    }
    return 0;
}

/* ---- computing ---- */

/* linear_2(silu(linear_1(sinusoids))), F32; 0: there is none. */
static diti_tensor diti_ltx_vae_time_run(diti_vae_clip *clip, const diti_ltx_vae_time *time) {
    diti_linear_desc desc = DITI_ZERO;
    diti_tensor x;
    if (!time->first.weight.part_count || !clip->timestep) return 0;
    desc.bias = &time->first.bias;
    desc.activation = DITI_ACTIVATION_SILU;
    desc.out_f32 = true;
    desc.name = "vae_time";
    x = diti_linear(clip->graph, clip->timestep, &time->first.weight, &desc);
    desc.bias = &time->second.bias;
    desc.activation = DITI_ACTIVATION_NONE;
    return diti_linear(clip->graph, x, &time->second.weight, &desc);
}

/* The rows of table, each with its part of the timestep's vector added: [1, rows * channels]; 0: there are none. */
static diti_tensor diti_ltx_vae_table(diti_vae_clip *clip, const diti_weight *table, diti_tensor time) {
    diti_elementwise_desc add = DITI_ZERO;
    if (!table->part_count || !time || diti_graph_failed(clip->graph)) return 0;
    add.add =
        diti_tensor_reshape(clip->graph, diti_tensor_weight(clip->graph, table, 0), 1, table->rows * table->columns);
    add.out_f32 = true;
    add.name = "vae_modulation";
    return diti_elementwise(clip->graph, time, &add);
}

/* RMSNorm without weights, then row `row` of the table as shift and the next one as scale, then SiLU. */
static diti_tensor diti_ltx_vae_norm(diti_vae_clip *clip, diti_tensor x, diti_tensor table, uint32_t row) {
    uint32_t channels = diti_tensor_columns(clip->graph, x);
    diti_norm_desc desc = DITI_ZERO;
    desc.rms = desc.silu = true;
    desc.eps = clip->vae->style.eps;
    desc.name = "vae_norm";
    if (table) {
        desc.shift = diti_tensor_view(clip->graph, table, 0, 1, row * channels, channels);
        desc.scale = diti_tensor_view(clip->graph, table, 0, 1, (row + 1) * channels, channels);
    }
    return diti_norm(clip->graph, x, &desc);
}

/* Noise that all frames share, by channels. */
static diti_tensor diti_ltx_vae_inject(diti_vae_clip *clip, const diti_video *size, diti_tensor x,
                                       const diti_weight *scale) {
    diti_graph *graph = clip->graph;
    uint32_t area = size->height * size->width, scale_lines = size->height / clip->latent.height;
    uint32_t line = scale_lines * diti_ranks_first(&clip->group, clip->group.index, clip->lines);
    diti_linear_desc linear = DITI_ZERO;
    diti_elementwise_desc add = DITI_ZERO;
    if (!scale->part_count || diti_graph_failed(graph)) return x;
    if (!clip->noise)
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "the autoencoder wants noise for its decoder");
    linear.out_f32 = add.out_f32 = true;
    linear.name = add.name = "vae_noise";
    add.add = diti_linear(
        graph, diti_tensor_view(graph, clip->noise, clip->noise_next + line * size->width, area, 0, 1), scale, &linear);
    clip->noise_next += scale_lines * (clip->lines ? clip->lines : clip->latent.height) * size->width;
    return diti_elementwise(graph, x, &add);
}

static diti_tensor diti_ltx_vae_conv(diti_vae_clip *clip, const diti_video *size, diti_tensor x,
                                     const diti_layer *layer, const diti_conv_desc *more, const char *name) {
    return diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), layer, more, name);
}

static diti_tensor diti_ltx_vae_resnet_run(diti_vae_clip *clip, const diti_video *size, diti_tensor x,
                                           const diti_ltx_vae_resnet *resnet, diti_tensor time) {
    diti_tensor table = diti_ltx_vae_table(clip, &resnet->table, time), h;
    diti_conv_desc more = DITI_ZERO;
    diti_norm_desc norm3 = DITI_ZERO;
    bool noisy = resnet->noises[1].part_count != 0;
    h = diti_ltx_vae_conv(clip, size, diti_ltx_vae_norm(clip, x, table, 0), &resnet->conv1, NULL, "vae_conv1");
    h = diti_ltx_vae_inject(clip, size, h, &resnet->noises[0]);
    h = diti_ltx_vae_norm(clip, h, table, 2);
    if (resnet->shortcut.weight.part_count) {
        norm3.eps = clip->vae->ltx->eps;
        norm3.weight = &resnet->norm3.weight;
        norm3.bias = &resnet->norm3.bias;
        norm3.name = "vae_norm3";
        x = diti_ltx_vae_conv(clip, size, diti_norm(clip->graph, x, &norm3), &resnet->shortcut, NULL, "vae_shortcut");
    }
    more.residual = x; /* sums have any order: noise comes last */
    h = diti_ltx_vae_conv(clip, size, h, &resnet->conv2, &more, "vae_conv2");
    return noisy ? diti_ltx_vae_inject(clip, size, h, &resnet->noises[1]) : h;
}

static diti_block_desc diti_ltx_vae_block(const diti_video *size, uint32_t time, uint32_t side, uint32_t columns) {
    diti_block_desc block = DITI_ZERO;
    block.clip = *size;
    block.columns = columns;
    block.time = time;
    block.side = side;
    block.channel_step = time * side * side;
    block.time_step = side * side;
    block.line_step = side;
    block.pixel_step = 1;
    block.out_f32 = true;
    block.name = "vae_blocks";
    return block;
}

/* Channels become frames, lines and columns, less the first frame; later versions add those of x itself, which are
   repeated. */
static diti_tensor diti_ltx_vae_up(diti_vae_clip *clip, diti_video *size, diti_tensor x,
                                   const diti_ltx_vae_level *level) {
    uint32_t channels = diti_tensor_columns(clip->graph, x), volume = diti_ltx_vae_volume(level),
             columns = level->resample.weight.rows / volume;
    diti_tensor h = diti_ltx_vae_conv(clip, size, x, &level->resample, NULL, "vae_upsample");
    diti_block_desc block = diti_ltx_vae_block(size, level->time_step, level->side_step, columns);
    block.first = level->time_step - 1;
    h = diti_spread_frames(clip->graph, h, &block);
    if (level->adds) {
        block.modulus = channels / volume;
        block.more = h;
        h = diti_spread_frames(clip->graph, x, &block);
    }
    size->frames = level->time_step * size->frames - block.first;
    size->height *= level->side_step;
    size->width *= level->side_step;
    return h;
}

static diti_tensor diti_ltx_vae_down(diti_vae_clip *clip, diti_video *size, diti_tensor x,
                                     const diti_ltx_vae_level *level) {
    uint32_t channels = diti_tensor_columns(clip->graph, x), block_size, area = size->height * size->width;
    diti_conv_desc more = DITI_ZERO;
    diti_block_desc block;
    diti_video_input in;
    if (level->strided) {
        more.stride = more.frame_stride = 2;
        more.pad_before = more.pad_after = 1;
        x = diti_ltx_vae_conv(clip, size, x, &level->resample, &more, "vae_downsample");
        size->frames = (size->frames + 1) / 2;
        size->height /= 2;
        size->width /= 2;
        return x;
    }
    if (level->time_step > 1) { /* the first frame twice */
        in = diti_video_behind(clip, size, x, 1);
        diti_copy(clip->graph, diti_tensor_view(clip->graph, in.own, 0, area, 0, channels),
                  diti_tensor_view(clip->graph, in.all, 0, area, 0, channels), "first frame");
        x = in.all;
        size->frames++;
    }
    block_size = diti_ltx_vae_volume(level);
    block = diti_ltx_vae_block(size, level->time_step, level->side_step, block_size * level->resample.weight.rows);
    block.more = diti_gather_frames(clip->graph,
                                    diti_ltx_vae_conv(clip, size, x, &level->resample, NULL, "vae_downsample"), &block);
    block.repeats = channels * block_size / block.columns;
    x = diti_gather_frames(clip->graph, x, &block);
    size->frames /= level->time_step;
    size->height /= level->side_step;
    size->width /= level->side_step;
    return x;
}

static diti_tensor diti_ltx_vae_level_run(diti_vae_clip *clip, diti_video *size, diti_tensor x,
                                          const diti_ltx_vae_level *level) {
    diti_tensor time = diti_ltx_vae_time_run(clip, &level->time);
    bool samples = level->resample.weight.part_count != 0;
    uint32_t i;
    if (!clip->encode && level->changes) x = diti_ltx_vae_resnet_run(clip, size, x, &level->change, time);
    if (!clip->encode && samples) x = diti_ltx_vae_up(clip, size, x, level);
    for (i = 0; i < level->count; i++) x = diti_ltx_vae_resnet_run(clip, size, x, &level->resnets[i], time);
    if (clip->encode && samples) x = diti_ltx_vae_down(clip, size, x, level);
    if (clip->encode && level->changes) x = diti_ltx_vae_resnet_run(clip, size, x, &level->change, 0);
    return x;
}

static diti_block_desc diti_ltx_vae_patches(const struct diti_ltx_vae *own, const diti_video *size, uint32_t columns) {
    diti_block_desc patches = diti_ltx_vae_block(size, 1, own->patch, columns);
    patches.line_step = 1;
    patches.pixel_step = own->patch;
    return patches;
}

/* The one logarithm of the variance counts for all channels. */
static diti_tensor diti_ltx_vae_moments(diti_vae_clip *clip, const diti_video *size, diti_tensor x) {
    diti_graph *graph = clip->graph;
    uint32_t rows = diti_tensor_rows(graph, x), latent = clip->vae->traits.latent_channels;
    diti_block_desc repeat = diti_ltx_vae_block(size, 1, 1, latent);
    diti_tensor out = diti_tensor_new(graph, DITI_F32, rows, 2 * latent, "moments");
    if (diti_graph_failed(graph)) return 0;
    diti_copy(graph, diti_tensor_view(graph, x, 0, rows, 0, latent), diti_tensor_view(graph, out, 0, rows, 0, latent),
              "means");
    repeat.modulus = 1;
    repeat.out = diti_tensor_view(graph, out, 0, rows, latent, latent);
    diti_spread_frames(graph, diti_tensor_view(graph, x, 0, rows, latent, 1), &repeat);
    return out;
}

static diti_tensor diti_ltx_vae_run(diti_vae_clip *clip, const diti_vae_chunk *chunk, diti_tensor x) {
    const struct diti_ltx_vae *own = clip->vae->ltx;
    const diti_ltx_vae_half *half = clip->encode ? &own->encoder : &own->decoder;
    diti_video size = clip->encode ? clip->pixels : clip->latent;
    diti_block_desc patches;
    diti_tensor table = 0;
    uint32_t i;
    size.frames = chunk->frames;
    clip->noise_next = 0;
    if (!clip->encode && clip->vae->traits.timed && !clip->timestep)
        return diti_graph_fail(clip->graph, DIT_ERROR_INVALID_ARGUMENT,
                               "the autoencoder wants a timestep for its decoder");
    if (clip->encode) {
        patches = diti_ltx_vae_patches(own, &size, 3 * own->patch * own->patch);
        x = diti_gather_frames(clip->graph, x, &patches);
        size.height /= own->patch;
        size.width /= own->patch;
    }
    x = diti_ltx_vae_conv(clip, &size, x, &half->conv_in, NULL, "vae_conv_in");
    for (i = 0; i < half->level_count && !diti_graph_failed(clip->graph); i++)
        x = diti_ltx_vae_level_run(clip, &size, x, &half->levels[i]);
    if (!clip->encode) table = diti_ltx_vae_table(clip, &own->table, diti_ltx_vae_time_run(clip, &own->time));
    x = diti_ltx_vae_conv(clip, &size, diti_ltx_vae_norm(clip, x, table, 0), &half->conv_out, NULL, "vae_conv_out");
    if (clip->encode) return diti_ltx_vae_moments(clip, &size, x);
    patches = diti_ltx_vae_patches(own, &size, 3);
    return diti_spread_frames(clip->graph, x, &patches);
}

DIT_INTERNAL const diti_video_kind *diti_ltx_vae_kind(void) {
    static const diti_video_kind kind = {"AutoencoderKLLTXVideo",
                                         diti_ltx_vae_is,
                                         diti_ltx_vae_read,
                                         diti_ltx_vae_load,
                                         diti_ltx_vae_finish,
                                         diti_ltx_vae_latent_frames,
                                         diti_ltx_vae_chunk,
                                         diti_ltx_vae_run,
                                         NULL,
                                         diti_ltx_vae_noise_plane,
                                         false,
                                         NULL};
    return &kind;
}
