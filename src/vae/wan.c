#include "vae/vae.h"

/* AutoencoderKLWan 2.1 and 2.2 (docs/models.md 4.5). A chunk is one frame of the latent; the first one is a picture,
   whose frames are not doubled. Qwen-Image-2.1's has 2.2's levels with convolutions of pictures, and alpha (4.5.1). */

typedef struct diti_wan_vae_level {
    diti_kl_level level;
    diti_layer time; /* doubles or halves the frames; no parts where the level does not, or of pictures */
    bool doubles;    /* shortcuts have two frames, of which a picture is the second one */
} diti_wan_vae_level;
typedef struct diti_wan_vae_half {
    diti_layer conv_in, norm_out, conv_out;
    diti_kl_resnet mid[2];
    diti_layer norm, qkv, out; /* attention of the middle */
    diti_wan_vae_level *levels;
    uint32_t level_count;
    bool present;
} diti_wan_vae_half;
struct diti_wan_vae {
    diti_wan_vae_half decoder, encoder;
    diti_layer post_quant, quant;
    bool residual;    /* 2.2: levels have shortcuts around them, and a pixel is a patch */
    bool flat;        /* convolutions are those of pictures */
    uint32_t patch;   /* pixels on a side of it; 1: there are none */
    uint32_t rows[2]; /* resnets of a level of the decoder and of the encoder, for the original's flat lists */
};

static bool diti_wan_vae_is(diti_loader *loader, const diti_json *config) {
    static const char *const names[] = {"decoder.mid_block.resnets.0.norm1.gamma",
                                        "encoder.mid_block.resnets.0.norm1.gamma", "decoder.middle.0.residual.0.gamma",
                                        "encoder.middle.0.residual.0.gamma"};
    size_t i;
    (void)config;
    for (i = 0; i < DITI_COUNT(names); i++)
        if (diti_loader_find(loader, names[i])) return true;
    return false;
}

/* ---- the original's names ---- */

/* The part of a name that stands behind a block. */
static bool diti_wan_vae_leaf(const char *leaf, char *out, size_t size) {
    static const char *const pairs[][2] = {{"norm1.", "residual.0."},
                                           {"conv1.", "residual.2."},
                                           {"norm2.", "residual.3."},
                                           {"conv2.", "residual.6."},
                                           {"conv_shortcut.", "shortcut."}};
    size_t i;
    for (i = 0; i < DITI_COUNT(pairs); i++)
        if (diti_starts_with(leaf, pairs[i][0]))
            return diti_format(out, size, "%s%s", pairs[i][1], leaf + strlen(pairs[i][0]));
    return diti_format(out, size, "%s", leaf);
}

/* A name that begins with a number and a dot: the number, and what stands behind them; NULL: it does not. */
static const char *diti_wan_vae_number(const char *name, unsigned *out) {
    char *end;
    *out = (unsigned)strtoul(name, &end, 10);
    return end != name && *end == '.' ? end + 1 : NULL;
}

/* Blocks: 2.2 numbers them by level, 2.1 all in a row. */
static const char *diti_wan_vae_block_name(const struct diti_wan_vae *wan, bool decoder, const char *rest, char *out,
                                           size_t size) {
    const char *half = decoder ? "decoder" : "encoder", *list = decoder ? "upsamples" : "downsamples", *leaf;
    unsigned level, block = wan->rows[decoder ? 0 : 1];
    char text[160];
    rest = diti_wan_vae_number(rest, &level);
    if (!rest) return NULL;
    if (diti_starts_with(rest, "resnets."))
        leaf = diti_wan_vae_number(rest + strlen("resnets."), &block);
    else if (diti_starts_with(rest, "upsamplers.0."))
        leaf = rest + strlen("upsamplers.0.");
    else if (diti_starts_with(rest, "upsampler.") || diti_starts_with(rest, "downsampler."))
        leaf = strchr(rest, '.') + 1;
    else if (!wan->residual && !decoder &&
             diti_wan_vae_leaf(rest, text, sizeof text)) /* a flat list in diffusers, too */
        return diti_format(out, size, "encoder.downsamples.%u.%s", level, text) ? out : NULL;
    else
        return NULL;
    if (!leaf || !diti_wan_vae_leaf(leaf, text, sizeof text)) return NULL;
    if (wan->residual)
        return diti_format(out, size, "%s.%s.%u.%s.%u.%s", half, list, level, list, block, text) ? out : NULL;
    return diti_format(out, size, "%s.%s.%u.%s", half, list, level * (wan->rows[0] + 1) + block, text) ? out : NULL;
}

static const char *diti_wan_vae_name(void *user, const char *name, char *out, size_t size) {
    static const char *const pairs[][2] = {{"mid_block.resnets.0.", "middle.0."},
                                           {"mid_block.attentions.0.", "middle.1."},
                                           {"mid_block.resnets.1.", "middle.2."},
                                           {"conv_in.", "conv1."},
                                           {"norm_out.", "head.0."},
                                           {"conv_out.", "head.2."}};
    const struct diti_wan_vae *wan = (const struct diti_wan_vae *)user;
    bool decoder = diti_starts_with(name, "decoder.");
    const char *rest = name + strlen("decoder.");
    char text[160];
    size_t i;
    if (diti_starts_with(name, "quant_conv."))
        return diti_format(out, size, "conv1.%s", name + strlen("quant_conv.")) ? out : NULL;
    if (diti_starts_with(name, "post_quant_conv."))
        return diti_format(out, size, "conv2.%s", name + strlen("post_quant_conv.")) ? out : NULL;
    if (!decoder && !diti_starts_with(name, "encoder.")) return NULL;
    if (diti_starts_with(rest, decoder ? "up_blocks." : "down_blocks."))
        return diti_wan_vae_block_name(wan, decoder, strchr(rest, '.') + 1, out, size);
    for (i = 0; i < DITI_COUNT(pairs); i++) {
        if (!diti_starts_with(rest, pairs[i][0]) || !diti_wan_vae_leaf(rest + strlen(pairs[i][0]), text, sizeof text))
            continue;
        return diti_format(out, size, "%s.%s%s", decoder ? "decoder" : "encoder", pairs[i][1], text) ? out : NULL;
    }
    return NULL;
}

/* ---- loading ---- */

static void diti_wan_vae_load_norm(diti_loader *loader, diti_layer *out, uint32_t channels, const char *name) {
    char full[80];
    memset(out, 0, sizeof *out);
    diti_format(full, sizeof full, "%s.gamma", name);
    diti_load_vector(loader, &out->weight, 1, channels, full);
}

static uint32_t diti_wan_vae_load_resnet(diti_loader *loader, diti_kl_resnet *out, uint32_t channels,
                                         const char *name) {
    char scope[128];
    diti_format(scope, sizeof scope, "%s", loader->scope);
    diti_loader_scope(loader, "%s%s", scope, name);
    diti_wan_vae_load_norm(loader, &out->norm1, channels, "norm1");
    out->channels = diti_video_load_conv(loader, &out->conv1, channels, "conv1");
    diti_wan_vae_load_norm(loader, &out->norm2, out->channels, "norm2");
    diti_video_load_conv(loader, &out->conv2, out->channels, "conv2");
    if (channels != out->channels) diti_video_load_conv(loader, &out->shortcut, channels, "conv_shortcut");
    diti_loader_scope(loader, "%s", scope);
    return out->channels;
}

static void diti_wan_vae_load_mid(diti_loader *loader, diti_wan_vae_half *half, uint32_t channels) {
    diti_wan_vae_load_resnet(loader, &half->mid[0], channels, "mid_block.resnets.0.");
    diti_wan_vae_load_norm(loader, &half->norm, channels, "mid_block.attentions.0.norm");
    diti_load_layer(loader, &half->qkv, 3 * channels, channels, 1, "mid_block.attentions.0.to_qkv");
    diti_load_layer(loader, &half->out, channels, channels, 1, "mid_block.attentions.0.proj");
    diti_wan_vae_load_resnet(loader, &half->mid[1], channels, "mid_block.resnets.1.");
}

/* name: of the sampler, with a dot; no parts where there is none. */
static uint32_t diti_wan_vae_load_sampler(diti_loader *loader, diti_wan_vae_level *level, uint32_t channels,
                                          const char *name) {
    char full[64], weight[80];
    const diti_stored_tensor *time;
    diti_format(full, sizeof full, "%stime_conv", name);
    diti_format(weight, sizeof weight, "%s.weight", full);
    time = diti_loader_find(loader, weight);
    level->doubles = time != NULL;
    if (time && time->rank == 5) diti_video_load_conv(loader, &level->time, channels, full);
    if (time && time->rank != 5) { /* a picture's go by */
        diti_loader_use(loader, time);
        loader->weights.parameters += diti_stored_tensor_elements(time);
        diti_format(weight, sizeof weight, "%s.bias", full);
        time = diti_loader_find(loader, weight);
        if (time) diti_loader_use(loader, time);
    }
    diti_format(full, sizeof full, "%sresample.1", name);
    diti_format(weight, sizeof weight, "%s.weight", full);
    if (!diti_loader_find(loader, weight)) return channels;
    return diti_video_load_conv(loader, &level->level.resample, channels, full);
}

static uint32_t diti_wan_vae_load_level(diti_loader *loader, diti_wan_vae_level *level, uint32_t channels,
                                        const char *sampler) {
    char name[32];
    uint32_t i;
    level->level.count = diti_loader_count(loader, "resnets.", ".conv1.weight");
    if (!level->level.count || level->level.count > DITI_KL_MAX_RESNETS) {
        diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL, "%s: %smust hold 1 to %u resnets",
                  diti_checkpoint_name(loader->checkpoint), loader->scope, DITI_KL_MAX_RESNETS);
        level->level.count = 0;
    }
    for (i = 0; i < level->level.count; i++) {
        diti_format(name, sizeof name, "resnets.%u.", (unsigned)i);
        channels = diti_wan_vae_load_resnet(loader, &level->level.resnets[i], channels, name);
    }
    return diti_wan_vae_load_sampler(loader, level, channels, sampler);
}

/* Resnets and samplers one after the other: a sampler ends a level. */
static uint32_t diti_wan_vae_load_flat(diti_loader *loader, diti_wan_vae_half *half, uint32_t channels) {
    uint32_t i;
    char name[64];
    for (i = 0; i < 64 && half->level_count <= DITI_KL_MAX_LEVELS && !loader->error.result; i++) {
        diti_wan_vae_level *level = &half->levels[half->level_count];
        diti_format(name, sizeof name, "down_blocks.%u.conv1.weight", (unsigned)i);
        if (diti_loader_find(loader, name)) {
            if (level->level.count >= DITI_KL_MAX_RESNETS) break;
            diti_format(name, sizeof name, "down_blocks.%u.", (unsigned)i);
            channels = diti_wan_vae_load_resnet(loader, &level->level.resnets[level->level.count++], channels, name);
            continue;
        }
        diti_format(name, sizeof name, "down_blocks.%u.resample.1.weight", (unsigned)i);
        if (!diti_loader_find(loader, name) || half->level_count + 1 == DITI_KL_MAX_LEVELS) break;
        diti_format(name, sizeof name, "down_blocks.%u.", (unsigned)i);
        channels = diti_wan_vae_load_sampler(loader, level, channels, name);
        half->level_count++;
    }
    half->level_count++;
    return channels;
}

static void diti_wan_vae_load_half(diti_vae *vae, diti_loader *loader, diti_wan_vae_half *half, bool decoder) {
    const struct diti_wan_vae *own = vae->wan;
    const char *name = decoder ? "decoder" : "encoder", *blocks = decoder ? "up_blocks" : "down_blocks";
    const char *sampler = !decoder ? "downsampler." : own->residual ? "upsampler." : "upsamplers.0.";
    uint32_t i, count = DITI_KL_MAX_LEVELS, channels;
    char before[32];
    diti_loader_scope(loader, "%s.", name);
    half->levels = (diti_wan_vae_level *)diti_component_array(&vae->base, loader, count, sizeof *half->levels);
    if (!half->levels) return;
    half->present = true;
    channels = vae->traits.colors * own->patch * own->patch;
    channels =
        diti_video_load_conv(loader, &half->conv_in, decoder ? vae->traits.latent_channels : channels, "conv_in");
    if (decoder) diti_wan_vae_load_mid(loader, half, channels);
    diti_format(before, sizeof before, "%s.", blocks);
    count = diti_loader_count(loader, before, ".resnets.0.conv1.weight");
    if (!decoder && !own->residual) {
        channels = diti_wan_vae_load_flat(loader, half, channels);
    } else if (!count || count > DITI_KL_MAX_LEVELS) {
        diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL, "%s: the autoencoder's %s has %u levels, not 1 to %u",
                  diti_checkpoint_name(loader->checkpoint), name, (unsigned)count, DITI_KL_MAX_LEVELS);
        return;
    }
    for (i = 0; i < count && (decoder || own->residual) && !loader->error.result; i++) {
        diti_loader_scope(loader, "%s.%s.%u.", name, blocks, (unsigned)i);
        channels = diti_wan_vae_load_level(loader, &half->levels[i], channels, sampler);
        half->level_count++;
    }
    diti_loader_scope(loader, "%s.", name);
    if (!decoder) diti_wan_vae_load_mid(loader, half, channels);
    diti_wan_vae_load_norm(loader, &half->norm_out, channels, "norm_out");
    diti_video_load_conv(loader, &half->conv_out, channels, "conv_out");
    diti_loader_scope_end(loader);
}

static void diti_wan_vae_load(diti_vae *vae, diti_loader *loader) {
    struct diti_wan_vae *own = vae->wan;
    uint32_t latent = vae->traits.latent_channels;
    if (diti_loader_find(loader, "decoder.conv_in.weight")) {
        diti_video_load_conv(loader, &own->post_quant, latent, "post_quant_conv");
        diti_wan_vae_load_half(vae, loader, &own->decoder, true);
    }
    if (diti_loader_find(loader, "encoder.conv_in.weight")) {
        diti_wan_vae_load_half(vae, loader, &own->encoder, false);
        diti_video_load_conv(loader, &own->quant, 2 * latent, "quant_conv");
    }
    vae->traits.has_decoder = own->decoder.present;
    vae->traits.has_encoder = own->encoder.present;
}

/* ---- configuration ---- */

/* Means and deviations of the published autoencoders' latents, with 16 and with 48 channels. */
static const float diti_wan_vae_means[] = {
    -0.7571f, -0.7089f, -0.9113f, 0.1075f, -0.1745f, 0.9653f,  -0.1517f, 1.5508f,  0.4134f,  -0.0715f, 0.5517f,
    -0.3632f, -0.1922f, -0.9497f, 0.2503f, -0.2921f, -0.2289f, -0.0052f, -0.1323f, -0.2339f, -0.2799f, 0.0174f,
    0.1838f,  0.1557f,  -0.1382f, 0.0542f, 0.2813f,  0.0891f,  0.157f,   -0.0098f, 0.0375f,  -0.1825f, -0.2246f,
    -0.1207f, -0.0698f, 0.5109f,  0.2665f, -0.2108f, -0.2158f, 0.2502f,  -0.2055f, -0.0322f, 0.1109f,  0.1567f,
    -0.0729f, 0.0899f,  -0.2799f, -0.123f, -0.0313f, -0.1649f, 0.0117f,  0.0723f,  -0.2839f, -0.2083f, -0.052f,
    0.3748f,  0.0152f,  0.1957f,  0.1433f, -0.2944f, 0.3573f,  -0.0548f, -0.1681f, -0.0667f};
static const float diti_wan_vae_deviations[] = {
    2.8184f, 1.4541f, 2.3275f, 2.6558f, 1.2196f, 1.7708f, 2.6052f, 2.0743f, 3.2687f, 2.1526f, 2.8652f, 1.5579f, 1.6382f,
    1.1253f, 2.8251f, 1.916f,  0.4765f, 1.0364f, 0.4514f, 1.1677f, 0.5313f, 0.499f,  0.4818f, 0.5013f, 0.8158f, 1.0344f,
    0.5894f, 1.0901f, 0.6885f, 0.6165f, 0.8454f, 0.4978f, 0.5759f, 0.3523f, 0.7135f, 0.6804f, 0.5833f, 1.4146f, 0.8986f,
    0.5659f, 0.7069f, 0.5338f, 0.4889f, 0.4917f, 0.4069f, 0.4999f, 0.6866f, 0.4093f, 0.5709f, 0.6065f, 0.6415f, 0.4944f,
    0.5726f, 1.2042f, 0.5458f, 1.6887f, 0.3971f, 1.06f,   0.3943f, 0.5537f, 0.5444f, 0.4089f, 0.7468f, 0.7744f};

static dit_result diti_wan_vae_read(diti_vae *vae, diti_loader *loader, const diti_json *config, dit_error *err) {
    diti_settings settings = diti_settings_of(config, "the autoencoder's config.json", err);
    struct diti_wan_vae *own = (struct diti_wan_vae *)diti_component_array(&vae->base, loader, 1, sizeof *own);
    const diti_stored_tensor *conv;
    uint32_t i, latent, first;
    if (!own) return DIT_ERROR_OUT_OF_HOST_MEMORY;
    vae->wan = own;
    own->rows[0] = 3;
    own->rows[1] = 2;
    own->residual = diti_loader_find(loader, "decoder.upsamples.0.upsamples.0.residual.0.gamma") ||
                    diti_loader_find(loader, "encoder.downsamples.0.downsamples.0.residual.0.gamma") ||
                    diti_loader_find(loader, "decoder.up_blocks.0.upsampler.resample.1.weight") ||
                    diti_loader_find(loader, "encoder.down_blocks.0.resnets.0.conv1.weight");
    if (diti_loader_find(loader, "decoder.conv1.weight") || diti_loader_find(loader, "encoder.conv1.weight")) {
        loader->rename = diti_wan_vae_name;
        loader->user = own;
    }
    latent = diti_loader_dimension(loader, "decoder.conv_in.weight", 1);
    if (!latent) latent = diti_loader_dimension(loader, "encoder.conv_out.weight", 0) / 2;
    if (!latent || latent > DITI_VAE_MAX_CHANNELS)
        return diti_loader_refuse(loader, err, "an autoencoder with %u latent channels", (unsigned)latent);
    conv = diti_loader_find(loader, "decoder.conv_in.weight");
    if (!conv) conv = diti_loader_find(loader, "encoder.conv_in.weight");
    own->flat = conv && conv->rank == 4;
    own->patch = own->residual && !own->flat ? diti_setting_size(&settings, "patch_size", 2, 8) : 1;
    if (own->flat) {
        vae->traits.colors = diti_loader_dimension(loader, "decoder.conv_out.weight", 0);
        if (!vae->traits.colors) vae->traits.colors = conv->shape[1] == 4 ? 4 : 3;
    }
    if (vae->traits.colors != 3 && vae->traits.colors != 4)
        return diti_loader_refuse(loader, err, "an autoencoder of pictures with %u channels, not 3 or 4",
                                  (unsigned)vae->traits.colors);
    vae->traits.latent_channels = latent;
    vae->traits.by_channel = true;
    vae->style.eps = 1e-24f;
    vae->style.cached = vae->tiles_clip = true;
    first = latent == 48 ? 16 : 0;
    for (i = 0; i < latent; i++) {
        bool known = latent == 16 || latent == 48;
        vae->traits.shifts[i] = known ? diti_wan_vae_means[first + i] : 0;
        vae->traits.scales[i] = known ? diti_wan_vae_deviations[first + i] : 1;
    }
    diti_video_read_list(&settings, "latents_mean", latent, vae->traits.shifts);
    diti_video_read_list(&settings, "latents_std", latent, vae->traits.scales);
    for (i = 0; i < latent; i++) {
        if (vae->traits.scales[i] == 0) diti_settings_refuse(&settings, DIT_ERROR_BAD_FILE, "latents_std", "zero");
        vae->traits.scales[i] = 1 / vae->traits.scales[i];
    }
    return settings.result;
}

static dit_result diti_wan_vae_finish(diti_vae *vae, const diti_json *config, dit_error *err) {
    const diti_wan_vae_half *half = vae->traits.has_decoder ? &vae->wan->decoder : &vae->wan->encoder;
    uint32_t i;
    (void)config;
    (void)err;
    vae->traits.factor = vae->wan->patch;
    vae->frame_factor = 1;
    for (i = 0; i < half->level_count; i++) {
        if (half->levels[i].level.resample.weight.part_count) vae->traits.factor *= 2;
        if (half->levels[i].doubles && !vae->wan->flat) vae->frame_factor *= 2;
    }
    return DIT_OK;
}

/* ---- chunks ---- */

static uint32_t diti_wan_vae_latent_frames(const diti_vae *vae, uint32_t frames, bool encode) {
    (void)encode;
    if (vae->wan->flat) return frames == 1;
    return (frames - 1) % vae->frame_factor ? 0 : (frames - 1) / vae->frame_factor + 1;
}

static bool diti_wan_vae_chunk(const diti_vae_clip *clip, uint32_t index, diti_vae_chunk *out) {
    uint32_t factor = clip->vae->frame_factor, first = index ? 1 + (index - 1) * factor : 0,
             frames = index ? factor : 1;
    if (index >= clip->latent.frames) return false;
    out->first = clip->encode ? first : index;
    out->frames = clip->encode ? frames : 1;
    out->out_first = clip->encode ? index : first;
    out->out_frames = clip->encode ? 1 : frames;
    out->kind = index ? 1 : 0;
    return true;
}

/* ---- computing ---- */

static diti_tensor diti_wan_vae_attention(diti_vae_clip *clip, const diti_video *size, diti_tensor x,
                                          const diti_wan_vae_half *half) {
    diti_graph *graph = clip->graph;
    uint32_t channels = half->out.weight.rows, rows = size->frames * size->height * size->width, all;
    diti_attention_desc desc = DITI_ZERO;
    diti_linear_desc linear = DITI_ZERO;
    diti_tensor h = diti_video_norm(clip, size, x, &half->norm, false, true, NULL).own, keys;
    linear.bias = &half->qkv.bias;
    linear.name = "vae_qkv";
    h = diti_linear(graph, h, &half->qkv.weight, &linear);
    desc.batch = size->frames;
    desc.heads = 1;
    desc.head_dim = channels;
    desc.scale = 1.0f / sqrtf((float)channels);
    desc.name = "vae_attention";
    keys = diti_video_keys(clip, size, h, channels);
    all = diti_tensor_rows(graph, keys);
    h = diti_attention(graph, diti_tensor_view(graph, h, 0, rows, 0, channels),
                       diti_tensor_view(graph, keys, 0, all, 0, channels),
                       diti_tensor_view(graph, keys, 0, all, channels, channels), &desc);
    linear.bias = &half->out.bias;
    linear.residual = x;
    linear.out_f32 = true;
    linear.name = "vae_attention_out";
    return diti_linear(graph, h, &half->out.weight, &linear);
}

static diti_tensor diti_wan_vae_mid(diti_vae_clip *clip, const diti_video *size, diti_tensor x,
                                    const diti_wan_vae_half *half) {
    x = diti_video_resnet(clip, size, x, &half->mid[0]);
    x = diti_wan_vae_attention(clip, size, x, half);
    return diti_video_resnet(clip, size, x, &half->mid[1]);
}

/* Twice the frames, but in the first chunk, and twice the size. */
static diti_tensor diti_wan_vae_up(diti_vae_clip *clip, diti_video *size, diti_tensor x,
                                   const diti_wan_vae_level *level) {
    diti_conv_desc more = DITI_ZERO;
    diti_block_desc spread = DITI_ZERO;
    if (level->time.weight.part_count && clip->first) {
        diti_video_skip(clip, size, x, diti_video_before(clip, &level->time), true);
    } else if (level->time.weight.part_count) {
        spread.columns = diti_tensor_columns(clip->graph, x);
        x = diti_video_conv(clip, size, diti_video_plain(clip, size, x, &level->time), &level->time, NULL, "vae_time");
        spread.clip = *size;
        spread.time = 2;
        spread.side = spread.channel_step = 1;
        spread.time_step = spread.columns;
        spread.out_f32 = true;
        spread.name = "vae_frames";
        x = diti_spread_frames(clip->graph, x, &spread);
        size->frames *= 2;
    }
    more.upsample = true;
    x = diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), &level->level.resample, &more,
                        "vae_upsample");
    size->height *= 2;
    size->width *= 2;
    return x;
}

/* Half the size, and but in the first chunk half the frames, which are read with the last one of the chunk before. */
static diti_tensor diti_wan_vae_down(diti_vae_clip *clip, diti_video *size, diti_tensor x,
                                     const diti_wan_vae_level *level) {
    diti_conv_desc more = DITI_ZERO;
    more.stride = 2;
    more.pad_after = 1;
    x = diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), &level->level.resample, &more,
                        "vae_downsample");
    size->height /= 2;
    size->width /= 2;
    if (!level->time.weight.part_count) return x;
    if (clip->first) {
        diti_video_skip(clip, size, x, 1, false);
        return x;
    }
    memset(&more, 0, sizeof more);
    more.frame_stride = 2;
    x = diti_video_conv(clip, size, diti_video_behind(clip, size, x, 1), &level->time, &more, "vae_time");
    size->frames /= 2;
    return x;
}

/* Version 2.2: what the level makes of x, and x itself as large. from: x; size: what the level has made. */
static diti_tensor diti_wan_vae_shortcut(diti_vae_clip *clip, const diti_wan_vae_level *level, diti_tensor x,
                                         diti_tensor made, const diti_video *from) {
    diti_block_desc block = DITI_ZERO;
    uint32_t in = diti_tensor_columns(clip->graph, x), out = diti_tensor_columns(clip->graph, made);
    bool encode = clip->encode;
    if (diti_graph_failed(clip->graph)) return 0;
    block.clip = *from;
    block.columns = out;
    block.time = level->doubles ? 2 : 1;
    block.side = level->level.resample.weight.part_count ? 2 : 1;
    block.channel_step = block.time * block.side * block.side;
    block.time_step = block.side * block.side;
    block.line_step = block.side;
    block.pixel_step = 1;
    block.more = made;
    block.out_f32 = true;
    block.name = "vae_shortcut";
    block.repeats = encode ? in * block.channel_step / out : out * block.channel_step / in;
    block.first = encode ? (block.time - from->frames % block.time) % block.time : clip->first ? block.time - 1 : 0;
    return encode ? diti_gather_frames(clip->graph, x, &block) : diti_spread_frames(clip->graph, x, &block);
}

static diti_tensor diti_wan_vae_level_run(diti_vae_clip *clip, diti_video *size, diti_tensor x,
                                          const diti_wan_vae_level *level) {
    diti_tensor from = x;
    diti_video before = *size;
    bool samples = level->level.resample.weight.part_count != 0;
    uint32_t i;
    for (i = 0; i < level->level.count; i++) x = diti_video_resnet(clip, size, x, &level->level.resnets[i]);
    if (samples) x = clip->encode ? diti_wan_vae_down(clip, size, x, level) : diti_wan_vae_up(clip, size, x, level);
    if (!clip->vae->wan->residual || (!clip->encode && !samples)) return x;
    return diti_wan_vae_shortcut(clip, level, from, x, &before);
}

/* Patches of pixels: column x counts slower than line y. */
static diti_block_desc diti_wan_vae_patches(const struct diti_wan_vae *own, const diti_video *size) {
    diti_block_desc patches = DITI_ZERO;
    patches.clip = *size;
    patches.time = 1;
    patches.side = own->patch;
    patches.channel_step = own->patch * own->patch;
    patches.line_step = 1;
    patches.pixel_step = own->patch;
    patches.name = "vae_patches";
    patches.out_f32 = true;
    return patches;
}

static diti_tensor diti_wan_vae_finish_picture(diti_vae_clip *clip, const diti_video *size, diti_tensor x) {
    const struct diti_wan_vae *own = clip->vae->wan;
    diti_block_desc patches = diti_wan_vae_patches(own, size);
    diti_blend_desc same = DITI_ZERO;
    if (own->patch > 1) {
        patches.columns = 3;
        patches.clamped = !clip->of_tile;
        return diti_spread_frames(clip->graph, x, &patches);
    }
    if (clip->of_tile) return x;
    same.kind = DITI_BLEND_DOUBLE;
    same.clip = *size;
    same.first = size->frames;
    same.clamped = same.out_f32 = true;
    same.name = "vae_clamp";
    return diti_blend_frames(clip->graph, x, &same);
}

static diti_tensor diti_wan_vae_run(diti_vae_clip *clip, const diti_vae_chunk *chunk, diti_tensor x) {
    const struct diti_wan_vae *own = clip->vae->wan;
    const diti_wan_vae_half *half = clip->encode ? &own->encoder : &own->decoder;
    diti_video size = clip->encode ? clip->pixels : clip->latent;
    diti_block_desc patches;
    diti_video_input in;
    uint32_t i;
    size.frames = chunk->frames;
    if (clip->encode && own->patch > 1) {
        patches = diti_wan_vae_patches(own, &size);
        patches.columns = 3 * own->patch * own->patch;
        x = diti_gather_frames(clip->graph, x, &patches);
        size.height /= own->patch;
        size.width /= own->patch;
    }
    if (!clip->encode)
        x = diti_video_conv(clip, &size, diti_video_plain(clip, &size, x, NULL), &own->post_quant, NULL,
                            "vae_post_quant");
    in = diti_video_plain(clip, &size, x, &half->conv_in);
    x = diti_video_conv(clip, &size, in, &half->conv_in, NULL, "vae_conv_in");
    if (!clip->encode) x = diti_wan_vae_mid(clip, &size, x, half);
    for (i = 0; i < half->level_count && !diti_graph_failed(clip->graph); i++)
        x = diti_wan_vae_level_run(clip, &size, x, &half->levels[i]);
    if (clip->encode) x = diti_wan_vae_mid(clip, &size, x, half);
    in = diti_video_norm(clip, &size, x, &half->norm_out, true, true, &half->conv_out);
    x = diti_video_conv(clip, &size, in, &half->conv_out, NULL, "vae_conv_out");
    if (!clip->encode) return diti_wan_vae_finish_picture(clip, &size, x);
    return diti_video_conv(clip, &size, diti_video_plain(clip, &size, x, NULL), &own->quant, NULL, "vae_quant");
}

DIT_INTERNAL const diti_video_kind *diti_wan_vae_kind(void) {
    static const diti_video_kind kind = {"AutoencoderKLWan",
                                         diti_wan_vae_is,
                                         diti_wan_vae_read,
                                         diti_wan_vae_load,
                                         diti_wan_vae_finish,
                                         diti_wan_vae_latent_frames,
                                         diti_wan_vae_chunk,
                                         diti_wan_vae_run,
                                         NULL,
                                         NULL,
                                         false,
                                         NULL};
    return &kind;
}
