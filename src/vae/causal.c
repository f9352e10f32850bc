#include "vae/vae.h"

/* Open-Sora-Plan's CausalVAEModel 1.0 and 1.1 (docs/models.md 4.7). The config names the kind of every part; where
   there is none, what the file holds tells it. */

typedef enum diti_causal_time { DITI_CAUSAL_NONE, DITI_CAUSAL_PLAIN, DITI_CAUSAL_MIXED } diti_causal_time;
typedef struct diti_causal_half {
    diti_kl_half half;
    diti_causal_time times[DITI_KL_MAX_LEVELS]; /* how a level changes the number of frames, behind its resampling */
    diti_layer convs[DITI_KL_MAX_LEVELS];       /* MIXED: added to what PLAIN gives, and the share of that */
    float mixes[DITI_KL_MAX_LEVELS];
    bool folded; /* the attention of 1.0 */
} diti_causal_half;
struct diti_causal {
    diti_causal_half decoder, encoder;
    diti_layer post_quant, quant;
};

#define DITI_CAUSAL_TILE_FRAMES 17u /* latent frames of a tile */

static bool diti_causal_is(diti_loader *loader, const diti_json *config) {
    (void)config;
    return diti_loader_find(loader, "decoder.mid.block_1.conv1.conv.weight") ||
           diti_loader_find(loader, "encoder.mid.block_1.conv1.conv.weight");
}

/* ---- loading ---- */

static void diti_causal_load_mid(diti_loader *loader, diti_kl_half *half, uint32_t channels) {
    static const char *const qkv[] = {"mid.attn_1.q.conv", "mid.attn_1.k.conv", "mid.attn_1.v.conv"};
    diti_video_load_resnet(loader, &half->mid[0], channels, "nin_shortcut", "mid.block_1");
    half->attention.present = diti_loader_find(loader, "mid.attn_1.norm.weight") != NULL;
    if (half->attention.present) {
        diti_load_norm(loader, &half->attention.norm, channels, "mid.attn_1.norm");
        diti_load_fused_linear(loader, &half->attention.qkv, qkv, 3, channels, channels, true);
        diti_video_load_conv(loader, &half->attention.out, channels, "mid.attn_1.proj_out");
    }
    diti_video_load_resnet(loader, &half->mid[1], channels, "nin_shortcut", "mid.block_2");
}

/* The share of what is interpolated: the sigmoid of a parameter. */
static void diti_causal_load_mix(diti_loader *loader, diti_causal_half *out, uint32_t i, uint32_t channels,
                                 const char *name) {
    const diti_stored_tensor *mix;
    char text[80];
    float value = 0;
    diti_format(text, sizeof text, "%s.mix_factor", name);
    mix = diti_loader_find(loader, text);
    if (!mix || diti_stored_tensor_elements(mix) != 1) return;
    diti_loader_use(loader, mix);
    if (diti_checkpoint_read_float(loader->checkpoint, mix, &value, 1, &loader->error) != DIT_OK) return;
    out->times[i] = DITI_CAUSAL_MIXED;
    out->mixes[i] = 1 / (1 + expf(-value));
    diti_format(text, sizeof text, "%s.conv", name);
    diti_video_load_conv(loader, &out->convs[i], channels, text);
}

static uint32_t diti_causal_load_level(diti_loader *loader, diti_causal_half *out, uint32_t i, uint32_t channels,
                                       bool decoder) {
    diti_kl_level *level = &out->half.levels[i];
    const char *resample = decoder ? "upsample.conv" : "downsample.conv";
    char name[2][64];
    channels = diti_video_load_resnets(loader, level, channels, "nin_shortcut", "block.");
    diti_format(name[0], sizeof name[0], "%s.weight", resample);
    diti_format(name[1], sizeof name[1], "%s.conv.weight", resample);
    if (diti_loader_find(loader, name[0]) || diti_loader_find(loader, name[1]))
        diti_video_load_conv(loader, &level->resample, channels, resample);
    diti_causal_load_mix(loader, out, i, channels, decoder ? "time_upsample" : "time_downsample");
    return channels;
}

static void diti_causal_load_half(diti_vae *vae, diti_loader *loader, diti_causal_half *out, bool decoder) {
    const char *name = decoder ? "decoder" : "encoder", *blocks = decoder ? "up" : "down";
    diti_kl_half *half = &out->half;
    uint32_t i, number, channels;
    char before[16];
    diti_loader_scope(loader, "%s.", name);
    diti_format(before, sizeof before, "%s.", blocks);
    if (!diti_video_load_levels(vae, loader, half, before, ".block.0.norm1.weight", 0)) return;
    channels = diti_video_load_conv(loader, &half->conv_in, decoder ? vae->traits.latent_channels : 3, "conv_in");
    if (decoder) diti_causal_load_mid(loader, half, channels);
    for (i = 0; i < half->level_count && !loader->error.result; i++) {
        number = decoder ? half->level_count - 1 - i : i;
        diti_loader_scope(loader, "%s.%s.%u.", name, blocks, (unsigned)number);
        channels = diti_causal_load_level(loader, out, i, channels, decoder);
        diti_loader_scope(loader, "%s.", name);
    }
    if (!decoder) diti_causal_load_mid(loader, half, channels);
    diti_load_norm(loader, &half->norm_out, channels, "norm_out");
    diti_video_load_conv(loader, &half->conv_out, channels, "conv_out");
    diti_loader_scope_end(loader);
}

static void diti_causal_load(diti_vae *vae, diti_loader *loader) {
    struct diti_causal *own = vae->causal;
    uint32_t latent = vae->traits.latent_channels;
    if (diti_loader_find(loader, "decoder.conv_in.conv.weight")) {
        diti_video_load_conv(loader, &own->post_quant, latent, "post_quant_conv");
        diti_causal_load_half(vae, loader, &own->decoder, true);
    }
    if (diti_loader_find(loader, "encoder.conv_out.conv.weight")) {
        diti_causal_load_half(vae, loader, &own->encoder, false);
        diti_video_load_conv(loader, &own->quant, 2 * latent, "quant_conv");
    }
    vae->traits.has_decoder = own->decoder.half.present;
    vae->traits.has_encoder = own->encoder.half.present;
}

/* ---- configuration ---- */

/* Item number i of a list of names; "" where there is none. */
static const char *diti_causal_item(const diti_json *list, uint32_t i) {
    const diti_json *item = list ? list->first : NULL;
    while (item && i--) item = item->next;
    return item && item->kind == DITI_JSON_STRING ? item->text : "";
}

static dit_result diti_causal_read(diti_vae *vae, diti_loader *loader, const diti_json *config, dit_error *err) {
    static const char *const plain[2][4] = {{"", "", "TimeUpsample2x", "TimeUpsample2x"},
                                            {"", "TimeDownsample2x", "TimeDownsample2x", ""}};
    static const char *const keys[2][2] = {{"decoder_temporal_upsample", "decoder_attention"},
                                           {"encoder_temporal_downsample", "encoder_attention"}};
    diti_settings settings = diti_settings_of(config, "the autoencoder's config.json", err);
    bool mixed = diti_loader_find(loader, "decoder.up.3.time_upsample.mix_factor") ||
                 diti_loader_find(loader, "encoder.down.1.time_downsample.mix_factor");
    uint32_t i, h;
    vae->causal = (struct diti_causal *)diti_component_array(&vae->base, loader, 1, sizeof *vae->causal);
    if (!vae->causal) return DIT_ERROR_OUT_OF_HOST_MEMORY;
    vae->traits.latent_channels = diti_loader_dimension(loader, "decoder.conv_in.conv.weight", 1);
    if (!vae->traits.latent_channels)
        vae->traits.latent_channels = diti_loader_dimension(loader, "encoder.conv_out.conv.weight", 0) / 2;
    vae->style.groups = 32;
    vae->style.eps = 1e-6f;
    vae->style.ends = true;
    for (h = 0; h < 2; h++) {
        diti_causal_half *half = h ? &vae->causal->encoder : &vae->causal->decoder;
        const diti_json *list = diti_setting(&settings, keys[h][0]);
        for (i = 0; i < 4 && !mixed; i++) {
            const char *kind = list ? diti_causal_item(list, i) : plain[h][i];
            if (kind[0]) half->times[h ? i : 3 - i] = DITI_CAUSAL_PLAIN;
        }
        half->folded = diti_equal(diti_setting_text(&settings, keys[h][1], mixed ? "AttnBlock3DFix" : "AttnBlock3D"),
                                  "AttnBlock3D");
    }
    return settings.result;
}

/* Pixels per element of the latent, and frames per frame of it. */
static dit_result diti_causal_check(diti_vae *vae, const diti_json *config, dit_error *err) {
    const diti_causal_half *half = vae->traits.has_decoder ? &vae->causal->decoder : &vae->causal->encoder;
    uint32_t i, j;
    (void)config;
    vae->traits.factor = vae->frame_factor = 1;
    for (i = 0; i < half->half.level_count; i++) {
        if (half->half.levels[i].resample.weight.part_count) vae->traits.factor *= 2;
        if (half->times[i]) vae->frame_factor *= 2;
        for (j = 0; j < half->half.levels[i].count; j++)
            if (half->half.levels[i].resnets[j].channels % vae->style.groups)
                return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "the autoencoder's %u channels don't make %u groups",
                                 (unsigned)half->half.levels[i].resnets[j].channels, (unsigned)vae->style.groups);
    }
    return DIT_OK;
}

/* ---- chunks ---- */

static uint32_t diti_causal_latent_frames(const diti_vae *vae, uint32_t frames, bool encode) {
    uint32_t factor, latent = frames;
    for (factor = vae->frame_factor; factor > 1; factor /= 2) latent = (latent + 1) / 2;
    return encode || vae->frame_factor * (latent - 1) + 1 == frames ? latent : 0;
}

/* Latent frames of a chunk; 0: the clip is not cut. */
static uint32_t diti_causal_tile_frames(const diti_vae_clip *clip) {
    uint32_t frames = clip->tile_frames ? clip->tile_frames : DITI_CAUSAL_TILE_FRAMES;
    if (!clip->tile ||
        (clip->latent.frames <= frames && clip->latent.height <= clip->tile && clip->latent.width <= clip->tile))
        return 0;
    return frames;
}

/* Neighbouring chunks share a frame of the input, and all but the first drop the first frame that they make. */
static bool diti_causal_chunk(const diti_vae_clip *clip, uint32_t index, diti_vae_chunk *out) {
    uint32_t tile = diti_causal_tile_frames(clip), factor = clip->vae->frame_factor, starts, step, frames, end, i;
    const diti_video *from = clip->encode ? &clip->pixels : &clip->latent;
    out->frames = from->frames;
    out->out_frames = clip->encode ? clip->latent.frames : clip->pixels.frames;
    out->tiled = tile != 0;
    if (!tile) return index == 0;
    step = clip->encode ? (tile - 1) * factor : tile - 1;
    starts = (from->frames + step - 1) / step;
    if (starts <= 1) return index == 0;
    if (index >= starts || (index == starts - 1 && (starts - 1) * step + 1 >= from->frames)) return false;
    end = index + 1 < starts ? (index + 1) * step + 1 : from->frames;
    out->first = index * step;
    frames = out->frames = end - out->first;
    for (i = factor; i > 1; i /= 2) frames = clip->encode ? (frames + 1) / 2 : 2 * frames - 1;
    out->out_frames = frames - (index > 0);
    out->out_first = index ? (clip->encode ? index * (tile - 1) : index * (tile - 1) * factor) + 1 : 0;
    out->kind = index == 0 ? 0 : index + 1 < starts ? 1 : 2;
    return true;
}

/* ---- computing ---- */

static diti_tensor diti_causal_attention(diti_vae_clip *clip, const diti_video *size, diti_tensor x,
                                         const diti_kl_attention *attention, bool folded) {
    diti_graph *graph = clip->graph;
    uint32_t channels = attention->out.weight.rows, rows = size->frames * size->height * size->width, i;
    diti_video_input in = diti_video_norm(clip, size, x, &attention->norm, false, false, NULL);
    diti_video wide = *size; /* the lines of all bands */
    diti_attention_desc desc = DITI_ZERO;
    diti_linear_desc fused = DITI_ZERO;
    diti_conv_desc more = DITI_ZERO;
    diti_tensor all, parts[3], keys;
    fused.name = "vae_qkv";
    all = diti_linear_fused(graph, in.own, &attention->qkv, &fused);
    keys = diti_video_keys(clip, size, all, channels);
    if (diti_graph_failed(graph)) return 0;
    wide.height = diti_tensor_rows(graph, keys) / (size->frames * size->width);
    for (i = 0; i < 3; i++) {
        parts[i] = i ? diti_tensor_view(graph, keys, 0, diti_tensor_rows(graph, keys), (i - 1) * channels, channels)
                     : diti_tensor_view(graph, all, 0, rows, 0, channels);
        if (folded) parts[i] = diti_fold_frames(graph, parts[i], i ? &wide : size, false);
    }
    desc.batch = size->frames;
    desc.heads = 1;
    desc.head_dim = channels;
    desc.scale = 1.0f / sqrtf((float)channels);
    desc.name = "vae_attention";
    in.own = diti_attention(graph, parts[0], parts[1], parts[2], &desc);
    if (folded) in.own = diti_fold_frames(graph, in.own, size, true);
    in.all = in.own;
    more.residual = x;
    return diti_video_conv(clip, size, in, &attention->out, &more, "vae_attention_out");
}

static diti_tensor diti_causal_mid(diti_vae_clip *clip, const diti_video *size, diti_tensor x,
                                   const diti_causal_half *half) {
    x = diti_video_resnet(clip, size, x, &half->half.mid[0]);
    if (half->half.attention.present) x = diti_causal_attention(clip, size, x, &half->half.attention, half->folded);
    return diti_video_resnet(clip, size, x, &half->half.mid[1]);
}

static diti_tensor diti_causal_shorter(diti_vae_clip *clip, diti_video *size, diti_tensor x,
                                       const diti_causal_half *half, uint32_t level) {
    diti_blend_desc blend = DITI_ZERO;
    diti_conv_desc more = DITI_ZERO;
    blend.kind = DITI_BLEND_THIRDS;
    blend.clip = *size;
    blend.out_f32 = true;
    blend.name = "vae_frames";
    if (half->times[level] == DITI_CAUSAL_MIXED) {
        more.frame_stride = more.frames_before = 2;
        blend.more = diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), &half->convs[level], &more,
                                     "vae_time_downsample");
        blend.weight = half->mixes[level];
        blend.more_weight = 1 - half->mixes[level];
    }
    size->frames = diti_blended_frames(blend.kind, size->frames, 0);
    return diti_blend_frames(clip->graph, x, &blend);
}

static diti_tensor diti_causal_longer(diti_vae_clip *clip, diti_video *size, diti_tensor x,
                                      const diti_causal_half *half, uint32_t level) {
    diti_blend_desc blend = DITI_ZERO;
    blend.kind = DITI_BLEND_LINEAR;
    blend.clip = *size;
    blend.first = 1;
    blend.out_f32 = true;
    blend.name = "vae_frames";
    x = diti_blend_frames(clip->graph, x, &blend);
    size->frames = diti_blended_frames(blend.kind, size->frames, 1);
    if (half->times[level] != DITI_CAUSAL_MIXED) return x;
    blend.kind = DITI_BLEND_DOUBLE; /* all frames stay */
    blend.clip = *size;
    blend.first = size->frames;
    blend.more = diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), &half->convs[level], NULL,
                                 "vae_time_upsample");
    blend.weight = half->mixes[level];
    blend.more_weight = 1 - half->mixes[level];
    return diti_blend_frames(clip->graph, x, &blend);
}

static diti_tensor diti_causal_level(diti_vae_clip *clip, diti_video *size, diti_tensor x, const diti_causal_half *half,
                                     uint32_t number, bool decoder) {
    const diti_kl_level *level = &half->half.levels[number];
    diti_conv_desc more = DITI_ZERO;
    uint32_t i;
    for (i = 0; i < level->count; i++) x = diti_video_resnet(clip, size, x, &level->resnets[i]);
    if (level->resample.weight.part_count) {
        more.upsample = decoder;
        more.stride = decoder ? 1 : 2;
        more.pad_after = 1;
        x = diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), &level->resample, &more, "vae_resample");
        size->height = decoder ? 2 * size->height : size->height / 2;
        size->width = decoder ? 2 * size->width : size->width / 2;
    }
    if (!half->times[number]) return x;
    return decoder ? diti_causal_longer(clip, size, x, half, number) : diti_causal_shorter(clip, size, x, half, number);
}

/* size becomes that of the result. */
static diti_tensor diti_causal_whole(diti_vae_clip *clip, diti_video *size, diti_tensor x) {
    const struct diti_causal *own = clip->vae->causal;
    bool decoder = !clip->encode;
    const diti_causal_half *half = decoder ? &own->decoder : &own->encoder;
    diti_video_input in;
    uint32_t i;
    if (decoder)
        x = diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), &own->post_quant, NULL,
                            "vae_post_quant");
    x = diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), &half->half.conv_in, NULL, "vae_conv_in");
    if (decoder) x = diti_causal_mid(clip, size, x, half);
    for (i = 0; i < half->half.level_count; i++) x = diti_causal_level(clip, size, x, half, i, decoder);
    if (!decoder) x = diti_causal_mid(clip, size, x, half);
    in = diti_video_norm(clip, size, x, &half->half.norm_out, true, false, NULL);
    x = diti_video_conv(clip, size, in, &half->half.conv_out, NULL, "vae_conv_out");
    if (decoder) return x;
    return diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), &own->quant, NULL, "vae_quant");
}

static diti_tensor diti_causal_run(diti_vae_clip *clip, const diti_vae_chunk *chunk, diti_tensor x) {
    diti_video size = clip->encode ? clip->pixels : clip->latent;
    if (diti_causal_tile_frames(clip))
        return diti_video_tiled(clip, chunk->frames, chunk->out_frames, chunk->first > 0, x);
    size.frames = chunk->frames;
    return diti_causal_whole(clip, &size, x);
}

DIT_INTERNAL const diti_video_kind *diti_causal_kind(void) {
    static const diti_video_kind kind = {"CausalVAEModel",
                                         diti_causal_is,
                                         diti_causal_read,
                                         diti_causal_load,
                                         diti_causal_check,
                                         diti_causal_latent_frames,
                                         diti_causal_chunk,
                                         diti_causal_run,
                                         diti_causal_whole,
                                         NULL,
                                         false,
                                         NULL};
    return &kind;
}
