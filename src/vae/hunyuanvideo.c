#include "vae/vae.h"

/* AutoencoderKLHunyuanVideo (docs/models.md 4.10): the blocks of AutoencoderKL with convolutions over time, whose
   padding repeats frames and pixels, and attention in which a token sees its own and earlier frames. */

struct diti_hunyuanvideo_vae {
    diti_kl_half decoder, encoder;
    diti_layer post_quant, quant;
    uint32_t
        time_levels; /* number of levels that change the number of frames, too: the last ones that change the size */
};

static bool diti_hunyuanvideo_vae_is(diti_loader *loader, const diti_json *config) {
    (void)config;
    return (diti_loader_find(loader, "decoder.conv_in.conv.weight") &&
            diti_loader_find(loader, "decoder.conv_norm_out.weight")) ||
           (diti_loader_find(loader, "encoder.conv_in.conv.weight") &&
            diti_loader_find(loader, "encoder.conv_norm_out.weight"));
}

static void diti_hunyuanvideo_vae_load_mid(diti_loader *loader, diti_kl_half *half, uint32_t channels) {
    static const char *const qkv[] = {"mid_block.attentions.0.to_q", "mid_block.attentions.0.to_k",
                                      "mid_block.attentions.0.to_v"};
    diti_video_load_resnet(loader, &half->mid[0], channels, "conv_shortcut", "mid_block.resnets.0");
    half->attention.present = diti_loader_find(loader, "mid_block.attentions.0.group_norm.weight") != NULL;
    if (half->attention.present) {
        diti_load_norm(loader, &half->attention.norm, channels, "mid_block.attentions.0.group_norm");
        diti_load_fused_linear(loader, &half->attention.qkv, qkv, 3, channels, channels, true);
        diti_load_layer(loader, &half->attention.out, channels, channels, 1, "mid_block.attentions.0.to_out.0");
    }
    diti_video_load_resnet(loader, &half->mid[1], channels, "conv_shortcut", "mid_block.resnets.1");
}

static void diti_hunyuanvideo_vae_load_half(diti_vae *vae, diti_loader *loader, diti_kl_half *half, bool decoder) {
    const char *name = decoder ? "decoder" : "encoder", *blocks = decoder ? "up_blocks." : "down_blocks.";
    const char *sampler = decoder ? "upsamplers.0.conv" : "downsamplers.0.conv";
    char weight[64];
    uint32_t i, channels;
    diti_loader_scope(loader, "%s.", name);
    if (!diti_video_load_levels(vae, loader, half, blocks, ".resnets.0.norm1.weight", 0)) return;
    channels = diti_video_load_conv(loader, &half->conv_in, decoder ? vae->traits.latent_channels : 3, "conv_in");
    if (decoder) diti_hunyuanvideo_vae_load_mid(loader, half, channels);
    diti_format(weight, sizeof weight, "%s.conv.weight", sampler);
    for (i = 0; i < half->level_count && !loader->error.result; i++) {
        diti_loader_scope(loader, "%s.%s%u.", name, blocks, (unsigned)i);
        channels = diti_video_load_resnets(loader, &half->levels[i], channels, "conv_shortcut", "resnets.");
        if (diti_loader_find(loader, weight))
            diti_video_load_conv(loader, &half->levels[i].resample, channels, sampler);
        diti_loader_scope(loader, "%s.", name);
    }
    if (!decoder) diti_hunyuanvideo_vae_load_mid(loader, half, channels);
    diti_load_norm(loader, &half->norm_out, channels, "conv_norm_out");
    diti_video_load_conv(loader, &half->conv_out, channels, "conv_out");
    diti_loader_scope_end(loader);
}

static void diti_hunyuanvideo_vae_load(diti_vae *vae, diti_loader *loader) {
    struct diti_hunyuanvideo_vae *own = vae->hunyuanvideo;
    uint32_t latent = vae->traits.latent_channels;
    if (diti_loader_find(loader, "decoder.conv_in.conv.weight")) {
        diti_video_load_conv(loader, &own->post_quant, latent, "post_quant_conv");
        diti_hunyuanvideo_vae_load_half(vae, loader, &own->decoder, true);
    }
    if (diti_loader_find(loader, "encoder.conv_in.conv.weight")) {
        diti_hunyuanvideo_vae_load_half(vae, loader, &own->encoder, false);
        diti_video_load_conv(loader, &own->quant, 2 * latent, "quant_conv");
    }
    vae->traits.has_decoder = own->decoder.present;
    vae->traits.has_encoder = own->encoder.present;
}

static dit_result diti_hunyuanvideo_vae_read(diti_vae *vae, diti_loader *loader, const diti_json *config,
                                             dit_error *err) {
    diti_settings settings = diti_settings_of(config, "the autoencoder's config.json", err);
    uint32_t ratio = diti_setting_size(&settings, "temporal_compression_ratio", 4, 64);
    vae->hunyuanvideo =
        (struct diti_hunyuanvideo_vae *)diti_component_array(&vae->base, loader, 1, sizeof *vae->hunyuanvideo);
    if (!vae->hunyuanvideo) return DIT_ERROR_OUT_OF_HOST_MEMORY;
    vae->traits.latent_channels = diti_loader_dimension(loader, "decoder.conv_in.conv.weight", 1);
    if (!vae->traits.latent_channels)
        vae->traits.latent_channels = diti_loader_dimension(loader, "encoder.conv_out.conv.weight", 0) / 2;
    while (ratio >> (vae->hunyuanvideo->time_levels + 1)) vae->hunyuanvideo->time_levels++;
    vae->frame_factor = 1u << vae->hunyuanvideo->time_levels;
    vae->style.groups = diti_setting_size(&settings, "norm_num_groups", 32, 1024);
    vae->style.eps = 1e-6f;
    vae->style.ends = vae->style.edges = true;
    diti_settings_check_words(&settings, "act_fn", "silu swish");
    return settings.result;
}

static dit_result diti_hunyuanvideo_vae_finish(diti_vae *vae, const diti_json *config, dit_error *err) {
    const diti_kl_half *half = vae->traits.has_decoder ? &vae->hunyuanvideo->decoder : &vae->hunyuanvideo->encoder;
    diti_settings settings = diti_settings_of(config, "the autoencoder's config.json", err);
    uint32_t i, levels = 0;
    for (i = 0; i < half->level_count; i++) {
        levels += half->levels[i].resample.weight.part_count ? 1 : 0;
        if (half->levels[i].count && half->levels[i].resnets[0].channels % vae->style.groups)
            return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                             "the autoencoder's %u channels don't make %u groups (config.json: norm_num_groups)",
                             (unsigned)half->levels[i].resnets[0].channels, (unsigned)vae->style.groups);
    }
    vae->traits.factor = 1u << levels;
    if (diti_setting_size(&settings, "spatial_compression_ratio", vae->traits.factor, 64) != vae->traits.factor)
        diti_settings_refuse(&settings, DIT_ERROR_UNSUPPORTED_MODEL, "spatial_compression_ratio",
                             "only twice for each level of the file but the last is known");
    DITI_TRY(settings.result);
    if (levels >= vae->hunyuanvideo->time_levels) return DIT_OK;
    return diti_fail(err, DIT_ERROR_BAD_FILE, "the autoencoder has %u levels, and %u that change the number of frames",
                     (unsigned)levels, (unsigned)vae->hunyuanvideo->time_levels);
}

/* ---- chunks: 16 frames and one more, every 12; short clips are one chunk ---- */

#define DITI_HUNYUANVIDEO_FRAMES 16u
#define DITI_HUNYUANVIDEO_STRIDE 12u

static uint32_t diti_hunyuanvideo_vae_latent_frames(const diti_vae *vae, uint32_t frames, bool encode) {
    uint32_t factor, latent = frames;
    for (factor = vae->frame_factor; factor > 1; factor /= 2) latent = (latent + 1) / 2;
    return encode || vae->frame_factor * (latent - 1) + 1 == frames ? latent : 0;
}

/* Frames that so many become. */
static uint32_t diti_hunyuanvideo_vae_made(const diti_vae_clip *clip, uint32_t frames) {
    uint32_t factor;
    if (!clip->encode) return clip->vae->frame_factor * (frames - 1) + 1;
    for (factor = clip->vae->frame_factor; factor > 1; factor /= 2) frames = (frames + 1) / 2;
    return frames;
}

/* Every chunk but the first drops the first frame that it makes, and fades into what the chunk before made of the same
   frames. One that makes a single frame is none. */
static bool diti_hunyuanvideo_vae_chunk(const diti_vae_clip *clip, uint32_t index, diti_vae_chunk *out) {
    const uint32_t factor = clip->vae->frame_factor, of = clip->encode ? 1 : factor, by = clip->encode ? factor : 1;
    const uint32_t all = clip->encode ? clip->pixels.frames : clip->latent.frames, most = DITI_HUNYUANVIDEO_FRAMES / of,
                   stride = DITI_HUNYUANVIDEO_STRIDE / of, made_stride = DITI_HUNYUANVIDEO_STRIDE / by;
    if (index && (all <= most || index >= all || index * stride >= all)) return false;
    out->first = index * stride;
    out->frames = all <= most || all - out->first < most + 1 ? all - out->first : most + 1;
    out->out_first = index ? index * made_stride + 1 : 0;
    out->out_frames = diti_hunyuanvideo_vae_made(clip, out->frames) - (index > 0);
    out->kind = !index ? 0 : out->frames == most + 1 ? 1 : 2;
    if (all > most && out->out_frames > made_stride + !index) out->out_frames = made_stride + !index;
    out->tiled = clip->tile && (clip->latent.height > clip->tile || clip->latent.width > clip->tile);
    return out->out_frames > 0;
}

/* ---- computing ---- */

static diti_tensor diti_hunyuanvideo_vae_mid(diti_vae_clip *clip, const diti_video *size, diti_tensor x,
                                             const diti_kl_half *half) {
    x = diti_video_resnet(clip, size, x, &half->mid[0]);
    if (half->attention.present) x = diti_video_attend_before(clip, size, x, &half->attention);
    return diti_video_resnet(clip, size, x, &half->mid[1]);
}

/* Nearest neighbours, of which the first frame gets none in time, and a convolution; or one with strides. */
static diti_tensor diti_hunyuanvideo_vae_resample(diti_vae_clip *clip, diti_video *size, diti_tensor x,
                                                  const diti_layer *layer, bool time) {
    diti_blend_desc blend = DITI_ZERO;
    diti_conv_desc more = DITI_ZERO;
    if (clip->encode) {
        more.stride = 2;
        more.pad_before = more.pad_after = 1;
        more.frame_stride = time ? 2 : 1;
        x = diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), layer, &more, "vae_downsample");
        if (time) size->frames = (size->frames + 1) / 2;
        size->height /= 2;
        size->width /= 2;
        return x;
    }
    if (time) {
        blend.kind = DITI_BLEND_DOUBLE;
        blend.clip = *size;
        blend.first = 1;
        blend.out_f32 = true;
        blend.name = "vae_frames";
        x = diti_blend_frames(clip->graph, x, &blend);
        size->frames = diti_blended_frames(blend.kind, size->frames, 1);
    }
    more.upsample = true;
    x = diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), layer, &more, "vae_upsample");
    size->height *= 2;
    size->width *= 2;
    return x;
}

static diti_tensor diti_hunyuanvideo_vae_whole(diti_vae_clip *clip, diti_video *size, diti_tensor x) {
    const struct diti_hunyuanvideo_vae *own = clip->vae->hunyuanvideo;
    const diti_kl_half *half = clip->encode ? &own->encoder : &own->decoder;
    diti_video_input in;
    uint32_t i, j;
    if (!clip->encode)
        x = diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), &own->post_quant, NULL,
                            "vae_post_quant");
    x = diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), &half->conv_in, NULL, "vae_conv_in");
    if (!clip->encode) x = diti_hunyuanvideo_vae_mid(clip, size, x, half);
    for (i = 0; i < half->level_count && !diti_graph_failed(clip->graph); i++) {
        for (j = 0; j < half->levels[i].count; j++) x = diti_video_resnet(clip, size, x, &half->levels[i].resnets[j]);
        if (half->levels[i].resample.weight.part_count)
            x = diti_hunyuanvideo_vae_resample(clip, size, x, &half->levels[i].resample,
                                               i + own->time_levels + 1 >= half->level_count);
    }
    if (clip->encode) x = diti_hunyuanvideo_vae_mid(clip, size, x, half);
    in = diti_video_norm(clip, size, x, &half->norm_out, true, false, NULL);
    x = diti_video_conv(clip, size, in, &half->conv_out, NULL, "vae_conv_out");
    if (!clip->encode) return x;
    return diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), &own->quant, NULL, "vae_quant");
}

/* The first frames of x fade into the last ones of the chunk before, which a cache has; the last ones of a long chunk
   are kept for the next one. Frames stand here for the lines of one tall frame. */
static diti_tensor diti_hunyuanvideo_vae_fade(diti_vae_clip *clip, const diti_vae_chunk *chunk, diti_tensor x) {
    const uint32_t by = clip->encode ? clip->vae->frame_factor : 1,
                   overlap = DITI_HUNYUANVIDEO_FRAMES / by - DITI_HUNYUANVIDEO_STRIDE / by,
                   frames = diti_hunyuanvideo_vae_made(clip, chunk->frames) - (chunk->first > 0),
                   columns = diti_tensor_columns(clip->graph, x);
    diti_video size = clip->encode ? clip->latent : clip->pixels;
    uint32_t area = size.height * size.width;
    diti_place_desc fade = DITI_ZERO;
    diti_tensor cache = diti_video_cache(clip, &size, x, overlap);
    if (diti_graph_failed(clip->graph)) return 0;
    if (chunk->first) {
        fade.from.frames = 1;
        fade.from.height = frames;
        fade.from.width = area;
        fade.to = fade.part = fade.other_size = fade.from;
        fade.other_size.height = overlap;
        fade.part.height = overlap < frames ? overlap : frames;
        fade.other_y = overlap - fade.part.height;
        fade.other = cache;
        fade.out = x;
        diti_place_frames(clip->graph, x, &fade);
    }
    if (!clip->last)
        diti_copy(clip->graph, diti_tensor_view(clip->graph, x, (frames - overlap) * area, overlap * area, 0, columns),
                  cache, "keep frames");
    return diti_tensor_view(clip->graph, x, 0, chunk->out_frames * area, 0, columns);
}

static diti_tensor diti_hunyuanvideo_vae_run(diti_vae_clip *clip, const diti_vae_chunk *chunk, diti_tensor x) {
    diti_video size = clip->encode ? clip->pixels : clip->latent;
    uint32_t dropped = chunk->first > 0, made = diti_hunyuanvideo_vae_made(clip, chunk->frames);
    size.frames = chunk->frames;
    if (chunk->tiled) {
        x = diti_video_tiled(clip, chunk->frames, made - dropped, dropped, x);
    } else {
        x = diti_hunyuanvideo_vae_whole(clip, &size, x);
        if (dropped)
            x = diti_tensor_view(clip->graph, x, size.height * size.width, (made - 1) * size.height * size.width, 0,
                                 diti_tensor_columns(clip->graph, x));
    }
    if (!x || diti_graph_failed(clip->graph) || (!chunk->first && clip->last)) return x;
    return diti_hunyuanvideo_vae_fade(clip, chunk, x);
}

DIT_INTERNAL const diti_video_kind *diti_hunyuanvideo_vae_kind(void) {
    static const diti_video_kind kind = {"AutoencoderKLHunyuanVideo",
                                         diti_hunyuanvideo_vae_is,
                                         diti_hunyuanvideo_vae_read,
                                         diti_hunyuanvideo_vae_load,
                                         diti_hunyuanvideo_vae_finish,
                                         diti_hunyuanvideo_vae_latent_frames,
                                         diti_hunyuanvideo_vae_chunk,
                                         diti_hunyuanvideo_vae_run,
                                         diti_hunyuanvideo_vae_whole,
                                         NULL,
                                         false,
                                         NULL};
    return &kind;
}
