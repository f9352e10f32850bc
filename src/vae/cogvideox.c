#include "vae/vae.h"

/* AutoencoderKLCogVideoX (docs/models.md 4.3). The decoder's norms are scaled and shifted by what two convolutions of 1
   x 1 x 1 make of the latent, nearest to each pixel. These are computed at the latent's size, where they are small. */

struct diti_cogvideox_vae {
    diti_kl_half decoder, encoder;
    diti_fused_linear *conditions; /* scale and shift of the decoder's norms, in the order of computing */
    uint32_t condition_count;
    uint32_t time_levels; /* levels that halve the frames, too: the encoder's first, the decoder's first */
};

#define DITI_COGVIDEOX_FRAMES 2u   /* latent frames of a chunk */
#define DITI_COGVIDEOX_PICTURES 8u /* frames of one that is encoded, whatever they become */

static bool diti_cogvideox_vae_is(diti_loader *loader, const diti_json *config) {
    return diti_equal(diti_json_string(config, "_class_name", ""), "AutoencoderKLCogVideoX") ||
           diti_loader_find(loader, "decoder.mid_block.resnets.0.norm1.conv_y.conv.weight");
}

/* ---- loading ---- */

static void diti_cogvideox_vae_load_norm(diti_vae *vae, diti_loader *loader, diti_layer *out, uint32_t channels,
                                         bool decoder, const char *name) {
    struct diti_cogvideox_vae *own = vae->cogvideox;
    char texts[3][48];
    const char *names[2];
    diti_format(texts[0], sizeof texts[0], "%s%s", name, decoder ? ".norm_layer" : "");
    diti_format(texts[1], sizeof texts[1], "%s.conv_y.conv", name);
    diti_format(texts[2], sizeof texts[2], "%s.conv_b.conv", name);
    names[0] = texts[1];
    names[1] = texts[2];
    diti_load_norm(loader, out, channels, texts[0]);
    if (!decoder || loader->error.result) return;
    diti_load_fused_linear(loader, &own->conditions[own->condition_count++], names, 2, channels,
                           vae->traits.latent_channels, true);
}

static uint32_t diti_cogvideox_vae_load_resnet(diti_vae *vae, diti_loader *loader, diti_kl_resnet *out,
                                               uint32_t channels, bool decoder, const char *name) {
    char scope[128];
    diti_format(scope, sizeof scope, "%s", loader->scope);
    diti_loader_scope(loader, "%s%s.", scope, name);
    diti_cogvideox_vae_load_norm(vae, loader, &out->norm1, channels, decoder, "norm1");
    out->channels = diti_video_load_conv(loader, &out->conv1, channels, "conv1");
    diti_cogvideox_vae_load_norm(vae, loader, &out->norm2, out->channels, decoder, "norm2");
    diti_video_load_conv(loader, &out->conv2, out->channels, "conv2");
    if (channels != out->channels) diti_video_load_conv(loader, &out->shortcut, channels, "conv_shortcut");
    diti_loader_scope(loader, "%s", scope);
    return out->channels;
}

static void diti_cogvideox_vae_load_mid(diti_vae *vae, diti_loader *loader, diti_kl_half *half, uint32_t channels,
                                        bool decoder) {
    diti_cogvideox_vae_load_resnet(vae, loader, &half->mid[0], channels, decoder, "mid_block.resnets.0");
    diti_cogvideox_vae_load_resnet(vae, loader, &half->mid[1], channels, decoder, "mid_block.resnets.1");
}

static uint32_t diti_cogvideox_vae_load_level(diti_vae *vae, diti_loader *loader, diti_kl_level *level,
                                              uint32_t channels, bool decoder) {
    const char *sampler = decoder ? "upsamplers.0.conv" : "downsamplers.0.conv";
    char name[64];
    uint32_t i;
    for (i = 0; i < level->count; i++) {
        diti_format(name, sizeof name, "resnets.%u", (unsigned)i);
        channels = diti_cogvideox_vae_load_resnet(vae, loader, &level->resnets[i], channels, decoder, name);
    }
    diti_format(name, sizeof name, "%s.weight", sampler);
    if (diti_loader_find(loader, name)) diti_video_load_conv(loader, &level->resample, channels, sampler);
    return channels;
}

static void diti_cogvideox_vae_load_half(diti_vae *vae, diti_loader *loader, diti_kl_half *half, bool decoder) {
    const char *name = decoder ? "decoder" : "encoder", *blocks = decoder ? "up_blocks." : "down_blocks.";
    uint32_t i, channels, norms = 5;
    char resnets[64];
    diti_loader_scope(loader, "%s.", name);
    if (!diti_video_load_levels(vae, loader, half, blocks, ".resnets.0.conv1.conv.weight", 0)) return;
    for (i = 0; i < half->level_count && !loader->error.result; i++) {
        diti_format(resnets, sizeof resnets, "%s%u.resnets.", blocks, (unsigned)i);
        half->levels[i].count = diti_loader_count(loader, resnets, ".conv1.conv.weight");
        norms += 2 * half->levels[i].count;
        if (half->levels[i].count > DITI_KL_MAX_RESNETS)
            diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL, "%s: %s.%s must hold 1 to %u resnets",
                      diti_checkpoint_name(loader->checkpoint), name, resnets, DITI_KL_MAX_RESNETS);
    }
    if (decoder)
        vae->cogvideox->conditions =
            (diti_fused_linear *)diti_component_array(&vae->base, loader, norms, sizeof *vae->cogvideox->conditions);
    if (loader->error.result) return;
    channels = diti_video_load_conv(loader, &half->conv_in, decoder ? vae->traits.latent_channels : 3, "conv_in");
    if (decoder) diti_cogvideox_vae_load_mid(vae, loader, half, channels, true);
    for (i = 0; i < half->level_count && !loader->error.result; i++) {
        diti_loader_scope(loader, "%s.%s%u.", name, blocks, (unsigned)i);
        channels = diti_cogvideox_vae_load_level(vae, loader, &half->levels[i], channels, decoder);
        diti_loader_scope(loader, "%s.", name);
    }
    if (!decoder) diti_cogvideox_vae_load_mid(vae, loader, half, channels, false);
    diti_cogvideox_vae_load_norm(vae, loader, &half->norm_out, channels, decoder, "norm_out");
    diti_video_load_conv(loader, &half->conv_out, channels, "conv_out");
    diti_loader_scope_end(loader);
}

static void diti_cogvideox_vae_load(diti_vae *vae, diti_loader *loader) {
    struct diti_cogvideox_vae *own = vae->cogvideox;
    if (diti_loader_find(loader, "decoder.conv_in.conv.weight"))
        diti_cogvideox_vae_load_half(vae, loader, &own->decoder, true);
    if (diti_loader_find(loader, "encoder.conv_in.conv.weight"))
        diti_cogvideox_vae_load_half(vae, loader, &own->encoder, false);
    vae->traits.has_decoder = own->decoder.present;
    vae->traits.has_encoder = own->encoder.present;
}

/* ---- configuration ---- */

static dit_result diti_cogvideox_vae_read(diti_vae *vae, diti_loader *loader, const diti_json *config, dit_error *err) {
    diti_settings settings = diti_settings_of(config, "the autoencoder's config.json", err);
    uint32_t ratio = diti_setting_size(&settings, "temporal_compression_ratio", 4, 64);
    vae->cogvideox = (struct diti_cogvideox_vae *)diti_component_array(&vae->base, loader, 1, sizeof *vae->cogvideox);
    if (!vae->cogvideox) return DIT_ERROR_OUT_OF_HOST_MEMORY;
    vae->traits.latent_channels = diti_loader_dimension(loader, "decoder.conv_in.conv.weight", 1);
    if (!vae->traits.latent_channels)
        vae->traits.latent_channels = diti_loader_dimension(loader, "encoder.conv_out.conv.weight", 0) / 2;
    while (ratio >> (vae->cogvideox->time_levels + 1)) vae->cogvideox->time_levels++;
    vae->frame_factor = 1u << vae->cogvideox->time_levels;
    vae->style.groups = diti_setting_size(&settings, "norm_num_groups", 32, 1024);
    vae->style.eps = (float)diti_setting_number(&settings, "norm_eps", 1e-6, 0, 1);
    vae->style.ends = vae->style.cached = vae->tiles_clip = true;
    vae->traits.inverts_scale = diti_setting_bool(&settings, "invert_scale_latents", false);
    diti_settings_check_words(&settings, "act_fn", "silu swish");
    return settings.result;
}

static dit_result diti_cogvideox_vae_finish(diti_vae *vae, const diti_json *config, dit_error *err) {
    const diti_kl_half *half = vae->traits.has_decoder ? &vae->cogvideox->decoder : &vae->cogvideox->encoder;
    uint32_t i;
    (void)config;
    vae->traits.factor = 1;
    for (i = 0; i < half->level_count; i++) {
        if (half->levels[i].resample.weight.part_count) vae->traits.factor *= 2;
        if (half->levels[i].count && half->levels[i].resnets[0].channels % vae->style.groups)
            return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                             "the autoencoder's %u channels don't make %u groups (config.json: norm_num_groups)",
                             (unsigned)half->levels[i].resnets[0].channels, (unsigned)vae->style.groups);
    }
    return DIT_OK;
}

/* ---- chunks ---- */

/* Frames that a chunk becomes. An odd number keeps its first frame. */
static uint32_t diti_cogvideox_vae_frames(const diti_vae *vae, uint32_t frames, bool encode) {
    uint32_t i;
    for (i = 0; i < vae->cogvideox->time_levels; i++)
        frames = diti_blended_frames(encode ? DITI_BLEND_HALVES : DITI_BLEND_DOUBLE, frames, frames % 2);
    return frames;
}

/* The first chunk takes what others leave over. */
static bool diti_cogvideox_vae_cut(uint32_t frames, bool encode, uint32_t index, uint32_t *first, uint32_t *count) {
    uint32_t most = encode ? DITI_COGVIDEOX_PICTURES : DITI_COGVIDEOX_FRAMES, rest = frames % most;
    uint32_t chunks = frames / most ? frames / most : 1;
    if (index >= chunks) return false;
    *first = index ? index * most + rest : 0;
    *count = index ? most : frames < most ? frames : most + rest;
    return true;
}

static uint32_t diti_cogvideox_vae_latent_frames(const diti_vae *vae, uint32_t frames, bool encode) {
    uint32_t index, first, count, made = 0, factor = vae->frame_factor;
    uint32_t latent = frames % (2 * factor) == 1 ? (frames - 1) / factor + 1 : frames / factor;
    if (!encode) {
        for (index = 0; diti_cogvideox_vae_cut(latent, false, index, &first, &count); index++)
            made += diti_cogvideox_vae_frames(vae, count, false);
        return made == frames ? latent : 0;
    }
    for (index = 0; diti_cogvideox_vae_cut(frames, true, index, &first, &count); index++)
        made += diti_cogvideox_vae_frames(vae, count, true);
    return made;
}

static bool diti_cogvideox_vae_chunk(const diti_vae_clip *clip, uint32_t index, diti_vae_chunk *out) {
    const diti_vae *vae = clip->vae;
    uint32_t frames = clip->encode ? clip->pixels.frames : clip->latent.frames, i, first, count;
    for (i = 0; i <= index; i++) {
        if (!diti_cogvideox_vae_cut(frames, clip->encode, i, &first, &count)) return false;
        out->out_first += i ? out->out_frames : 0;
        out->out_frames = diti_cogvideox_vae_frames(vae, count, clip->encode);
    }
    out->first = first;
    out->frames = count;
    out->kind = index ? 1 : 0;
    return true;
}

/* ---- computing ---- */

typedef struct diti_cogvideox_vae_pass {
    diti_vae_clip *clip;
    diti_video size, coarse; /* x; the chunk's latent */
    diti_tensor latent;      /* 0: the encoder's norms have no conditions */
    uint32_t norm;           /* number of the next one */
} diti_cogvideox_vae_pass;

static diti_video_input diti_cogvideox_vae_norm(diti_cogvideox_vae_pass *pass, diti_tensor x, const diti_layer *norm,
                                                const diti_layer *reader) {
    diti_vae_clip *clip = pass->clip;
    diti_graph *graph = clip->graph;
    const struct diti_cogvideox_vae *own = clip->vae->cogvideox;
    uint32_t channels = diti_tensor_columns(graph, x), rows = diti_tensor_rows(graph, pass->latent);
    diti_condition_desc desc = DITI_ZERO;
    diti_linear_desc linear = DITI_ZERO;
    diti_video_input normed, in;
    diti_tensor tables;
    if (!pass->latent) return diti_video_norm(clip, &pass->size, x, norm, true, false, reader);
    if (pass->norm >= own->condition_count || diti_graph_failed(graph)) {
        in.all = in.own = 0;
        in.before = 0;
        return in;
    }
    normed = diti_video_norm(clip, &pass->size, x, norm, false, false, NULL);
    in = diti_video_room(clip, &pass->size, channels, graph->activation, diti_video_before(clip, reader));
    linear.out_f32 = true;
    linear.name = "vae_condition";
    tables = diti_linear_fused(graph, pass->latent, &own->conditions[pass->norm++], &linear);
    desc.clip = pass->size;
    desc.coarse = pass->coarse;
    desc.first = pass->size.frames % 2 && pass->size.frames > 1;
    desc.scale = diti_tensor_view(graph, tables, 0, rows, 0, channels);
    desc.shift = diti_tensor_view(graph, tables, 0, rows, channels, channels);
    desc.silu = true;
    desc.out = in.own;
    desc.name = "vae_condition";
    diti_condition_frames(graph, normed.own, &desc);
    return in;
}

static diti_tensor diti_cogvideox_vae_resnet(diti_cogvideox_vae_pass *pass, diti_tensor x,
                                             const diti_kl_resnet *resnet) {
    diti_vae_clip *clip = pass->clip;
    diti_conv_desc more = DITI_ZERO;
    diti_video_input in = diti_cogvideox_vae_norm(pass, x, &resnet->norm1, &resnet->conv1);
    diti_tensor h = diti_video_conv(clip, &pass->size, in, &resnet->conv1, NULL, "vae_conv1");
    in = diti_cogvideox_vae_norm(pass, h, &resnet->norm2, &resnet->conv2);
    if (resnet->shortcut.weight.part_count)
        x = diti_video_conv(clip, &pass->size, diti_video_plain(clip, &pass->size, x, NULL), &resnet->shortcut, NULL,
                            "vae_shortcut");
    more.residual = x;
    return diti_video_conv(clip, &pass->size, in, &resnet->conv2, &more, "vae_conv2");
}

/* Pairs of frames become their mean before the convolution of pictures that halves them in space. */
static diti_tensor diti_cogvideox_vae_resample(diti_cogvideox_vae_pass *pass, diti_tensor x, const diti_layer *layer,
                                               bool time) {
    diti_vae_clip *clip = pass->clip;
    diti_video *size = &pass->size;
    bool encode = clip->encode;
    diti_blend_desc blend = DITI_ZERO;
    diti_conv_desc more = DITI_ZERO;
    blend.kind = encode ? DITI_BLEND_HALVES : DITI_BLEND_DOUBLE;
    blend.first = size->frames % 2;
    blend.out_f32 = true;
    blend.name = "vae_frames";
    time = time && size->frames > 1;
    if (time && encode) {
        blend.clip = *size;
        x = diti_blend_frames(clip->graph, x, &blend);
        size->frames = diti_blended_frames(blend.kind, size->frames, blend.first);
    }
    more.upsample = !encode;
    more.stride = encode ? 2 : 1;
    more.pad_after = 1;
    x = diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), layer, &more, "vae_resample");
    size->height = encode ? size->height / 2 : 2 * size->height;
    size->width = encode ? size->width / 2 : 2 * size->width;
    if (time && !encode) { /* frames that are alike need only one convolution */
        blend.clip = *size;
        x = diti_blend_frames(clip->graph, x, &blend);
        size->frames = diti_blended_frames(blend.kind, size->frames, blend.first);
    }
    return x;
}

static diti_tensor diti_cogvideox_vae_mid(diti_cogvideox_vae_pass *pass, diti_tensor x, const diti_kl_half *half) {
    return diti_cogvideox_vae_resnet(pass, diti_cogvideox_vae_resnet(pass, x, &half->mid[0]), &half->mid[1]);
}

static diti_tensor diti_cogvideox_vae_run(diti_vae_clip *clip, const diti_vae_chunk *chunk, diti_tensor x) {
    const struct diti_cogvideox_vae *own = clip->vae->cogvideox;
    const diti_kl_half *half = clip->encode ? &own->encoder : &own->decoder;
    diti_cogvideox_vae_pass pass = DITI_ZERO;
    diti_video_input in;
    uint32_t i, j;
    pass.clip = clip;
    pass.size = clip->encode ? clip->pixels : clip->latent;
    pass.size.frames = chunk->frames;
    pass.coarse = pass.size;
    pass.latent = clip->encode ? 0 : x;
    in = diti_video_plain(clip, &pass.size, x, &half->conv_in);
    x = diti_video_conv(clip, &pass.size, in, &half->conv_in, NULL, "vae_conv_in");
    if (!clip->encode) x = diti_cogvideox_vae_mid(&pass, x, half);
    for (i = 0; i < half->level_count && !diti_graph_failed(clip->graph); i++) {
        for (j = 0; j < half->levels[i].count; j++)
            x = diti_cogvideox_vae_resnet(&pass, x, &half->levels[i].resnets[j]);
        if (half->levels[i].resample.weight.part_count)
            x = diti_cogvideox_vae_resample(&pass, x, &half->levels[i].resample, i < own->time_levels);
    }
    if (clip->encode) x = diti_cogvideox_vae_mid(&pass, x, half);
    in = diti_cogvideox_vae_norm(&pass, x, &half->norm_out, &half->conv_out);
    return diti_video_conv(clip, &pass.size, in, &half->conv_out, NULL, "vae_conv_out");
}

DIT_INTERNAL const diti_video_kind *diti_cogvideox_vae_kind(void) {
    static const diti_video_kind kind = {"AutoencoderKLCogVideoX",
                                         diti_cogvideox_vae_is,
                                         diti_cogvideox_vae_read,
                                         diti_cogvideox_vae_load,
                                         diti_cogvideox_vae_finish,
                                         diti_cogvideox_vae_latent_frames,
                                         diti_cogvideox_vae_chunk,
                                         diti_cogvideox_vae_run,
                                         NULL,
                                         NULL,
                                         false,
                                         NULL};
    return &kind;
}
