#include "vae/vae.h"

/* AutoencoderKLHunyuanVideo15 (docs/models.md 4.10.1): causal convolutions whose padding repeats frames and pixels, RMS
   norms, attention in which a token sees its own and earlier frames, and levels that trade channels for pixels and
   frames, each with what the same trade makes of its input.

   The original takes a clip at once. Here the middle, which is as small as the latent, is run on all frames, since it
   attends all earlier ones; levels take the frames of a latent frame after those of another, and keep the last frames
   of each convolution's input for the next ones. */

struct diti_hunyuanvideo15_vae {
    diti_kl_half decoder, encoder;
    uint32_t times[2]; /* bit i: level i of the decoder, of the encoder, changes the number of frames, too */
};

static bool diti_hunyuanvideo15_vae_is(diti_loader *loader, const diti_json *config) {
    (void)config;
    return (diti_loader_find(loader, "decoder.conv_in.conv.weight") &&
            diti_loader_find(loader, "decoder.norm_out.gamma")) ||
           (diti_loader_find(loader, "encoder.conv_in.conv.weight") &&
            diti_loader_find(loader, "encoder.norm_out.gamma"));
}

/* ---- loading ---- */

/* A loader's rename: Tencent's files call up_blocks.1.resnets.0 up.1.block.0, and mid_block.resnets.0 mid.block_1. */
static const char *diti_hunyuanvideo15_vae_rename(void *user, const char *name, char *out, size_t size) {
    static const char *const middle[][2] = {
        {"mid_block.resnets.0", "mid.block_1"},          {"mid_block.resnets.1", "mid.block_2"},
        {"mid_block.attentions.0.to_q", "mid.attn_1.q"}, {"mid_block.attentions.0.to_k", "mid.attn_1.k"},
        {"mid_block.attentions.0.to_v", "mid.attn_1.v"}, {"mid_block.attentions.0", "mid.attn_1"}};
    static const char *const level[][2] = {
        {"resnets", "block"}, {"upsamplers.0", "upsample"}, {"downsamplers.0", "downsample"}};
    static const char blocks[] = "_blocks.";
    const char *half = strchr(name, '.'), *list, *rest;
    char stored[160];
    (void)user;
    if (!half || (!diti_starts_with(name, "decoder.") && !diti_starts_with(name, "encoder."))) return name;
    half++;
    if (diti_starts_with(half, "mid_block.")) {
        if (!diti_rename(middle, DITI_COUNT(middle), half, stored, sizeof stored)) return NULL;
        return diti_format(out, size, "%.*s%s", (int)(half - name), name, stored) ? out : NULL;
    }
    list = strstr(half, blocks);
    if (!list) return name;
    rest = list + strlen(blocks);
    rest += strspn(rest, "0123456789");
    if (*rest == '.') rest++;
    if (!diti_rename(level, DITI_COUNT(level), rest, stored, sizeof stored)) return NULL;
    list++; /* up_blocks.1. becomes up.1. */
    return diti_format(out, size, "%.*s.%.*s%s", (int)(list - 1 - name), name,
                       (int)(rest - (list + strlen(blocks) - 1)), list + strlen(blocks) - 1, stored)
               ? out
               : NULL;
}

static void diti_hunyuanvideo15_vae_load_norm(diti_loader *loader, diti_layer *out, uint32_t channels,
                                              const char *name) {
    char full[80];
    memset(out, 0, sizeof *out);
    diti_format(full, sizeof full, "%s.gamma", name);
    diti_load_vector(loader, &out->weight, 1, channels, full);
}

static uint32_t diti_hunyuanvideo15_vae_load_resnet(diti_loader *loader, diti_kl_resnet *out, uint32_t channels,
                                                    const char *name) {
    char scope[128];
    diti_format(scope, sizeof scope, "%s", loader->scope);
    diti_loader_scope(loader, "%s%s.", scope, name);
    diti_hunyuanvideo15_vae_load_norm(loader, &out->norm1, channels, "norm1");
    out->channels = diti_video_load_conv(loader, &out->conv1, channels, "conv1");
    diti_hunyuanvideo15_vae_load_norm(loader, &out->norm2, out->channels, "norm2");
    diti_video_load_conv(loader, &out->conv2, out->channels, "conv2");
    if (channels != out->channels) diti_video_load_conv(loader, &out->shortcut, channels, "conv_shortcut");
    diti_loader_scope(loader, "%s", scope);
    return out->channels;
}

static void diti_hunyuanvideo15_vae_load_mid(diti_loader *loader, diti_kl_half *half, uint32_t channels) {
    static const char *const qkv[] = {"mid_block.attentions.0.to_q", "mid_block.attentions.0.to_k",
                                      "mid_block.attentions.0.to_v"};
    diti_hunyuanvideo15_vae_load_resnet(loader, &half->mid[0], channels, "mid_block.resnets.0");
    half->attention.present = true;
    diti_hunyuanvideo15_vae_load_norm(loader, &half->attention.norm, channels, "mid_block.attentions.0.norm");
    diti_load_fused_linear(loader, &half->attention.qkv, qkv, 3, channels, channels, true);
    diti_load_layer(loader, &half->attention.out, channels, channels, 1, "mid_block.attentions.0.proj_out");
    diti_hunyuanvideo15_vae_load_resnet(loader, &half->mid[1], channels, "mid_block.resnets.1");
}

/* In the scope of the level. The channels that it gives: next, what the level behind it reads, tells whether eight
   elements are traded, or four; 0: it is the last level. */
static uint32_t diti_hunyuanvideo15_vae_load_level(diti_loader *loader, diti_kl_level *level, uint32_t channels,
                                                   uint32_t next, bool decoder, bool *time) {
    const char *sampler = decoder ? "upsamplers.0.conv" : "downsamplers.0.conv";
    char name[64];
    uint32_t i, rows, wide;
    level->count = diti_loader_count(loader, "resnets.", ".conv1.conv.weight");
    if (!level->count || level->count > DITI_KL_MAX_RESNETS) {
        if (!loader->error.result)
            diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL, "%s: %sresnets. must hold 1 to %u blocks",
                      diti_checkpoint_name(loader->checkpoint), loader->scope, DITI_KL_MAX_RESNETS);
        level->count = 0;
    }
    for (i = 0; i < level->count; i++) {
        diti_format(name, sizeof name, "resnets.%u", (unsigned)i);
        channels = diti_hunyuanvideo15_vae_load_resnet(loader, &level->resnets[i], channels, name);
    }
    diti_format(name, sizeof name, "%s.conv.weight", sampler);
    if (!diti_loader_find(loader, name)) return channels;
    rows = diti_video_load_conv(loader, &level->resample, channels, sampler);
    wide = decoder ? rows : next;
    next = decoder ? next : rows;
    *time = next && wide == 8 * next;
    if (!loader->error.result && (!next || (wide != 4 * next && wide != 8 * next) ||
                                  (decoder ? wide % (channels * (*time ? 2 : 1)) : 4 * channels % wide)))
        diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL,
                  "%s: %s%s trades %u channels for %u: only four or eight for one are known",
                  diti_checkpoint_name(loader->checkpoint), loader->scope, sampler, (unsigned)wide, (unsigned)next);
    return decoder ? next : wide;
}

static void diti_hunyuanvideo15_vae_load_half(diti_vae *vae, diti_loader *loader, diti_kl_half *half, bool decoder) {
    const char *name = decoder ? "decoder" : "encoder", *blocks = decoder ? "up_blocks." : "down_blocks.";
    uint32_t i, channels;
    char next[96];
    diti_loader_scope(loader, "%s.", name);
    if (!diti_video_load_levels(vae, loader, half, blocks, ".resnets.0.conv1.conv.weight", 0)) return;
    channels = diti_video_load_conv(loader, &half->conv_in, decoder ? vae->traits.latent_channels : 3, "conv_in");
    if (decoder) diti_hunyuanvideo15_vae_load_mid(loader, half, channels);
    for (i = 0; i < half->level_count && !loader->error.result; i++) {
        bool time = false;
        uint32_t wanted;
        diti_format(next, sizeof next, "%s%u.resnets.0.conv1.conv.weight", blocks, (unsigned)i + 1);
        wanted = diti_loader_dimension(loader, next, 1);
        diti_loader_scope(loader, "%s.%s%u.", name, blocks, (unsigned)i);
        channels = diti_hunyuanvideo15_vae_load_level(loader, &half->levels[i], channels, wanted, decoder, &time);
        if (time) vae->hunyuanvideo15->times[!decoder] |= 1u << i;
        diti_loader_scope(loader, "%s.", name);
    }
    if (!decoder) diti_hunyuanvideo15_vae_load_mid(loader, half, channels);
    diti_hunyuanvideo15_vae_load_norm(loader, &half->norm_out, channels, "norm_out");
    diti_video_load_conv(loader, &half->conv_out, channels, "conv_out");
    diti_loader_scope_end(loader);
}

static void diti_hunyuanvideo15_vae_load(diti_vae *vae, diti_loader *loader) {
    struct diti_hunyuanvideo15_vae *own = vae->hunyuanvideo15;
    if (diti_loader_find(loader, "decoder.conv_in.conv.weight"))
        diti_hunyuanvideo15_vae_load_half(vae, loader, &own->decoder, true);
    if (diti_loader_find(loader, "encoder.conv_in.conv.weight"))
        diti_hunyuanvideo15_vae_load_half(vae, loader, &own->encoder, false);
    vae->traits.has_decoder = own->decoder.present;
    vae->traits.has_encoder = own->encoder.present;
}

/* ---- configuration ---- */

static dit_result diti_hunyuanvideo15_vae_read(diti_vae *vae, diti_loader *loader, const diti_json *config,
                                               dit_error *err) {
    (void)config;
    vae->hunyuanvideo15 =
        (struct diti_hunyuanvideo15_vae *)diti_component_array(&vae->base, loader, 1, sizeof *vae->hunyuanvideo15);
    if (!vae->hunyuanvideo15) return DIT_ERROR_OUT_OF_HOST_MEMORY;
    if (diti_loader_find(loader, "decoder.mid.block_1.norm1.gamma") ||
        diti_loader_find(loader, "encoder.mid.block_1.norm1.gamma"))
        loader->rename = diti_hunyuanvideo15_vae_rename;
    vae->traits.latent_channels = diti_loader_dimension(loader, "decoder.conv_in.conv.weight", 1);
    if (!vae->traits.latent_channels)
        vae->traits.latent_channels = diti_loader_dimension(loader, "encoder.conv_out.conv.weight", 0) / 2;
    if (!vae->traits.latent_channels || vae->traits.latent_channels > DITI_VAE_MAX_CHANNELS)
        return diti_loader_refuse(loader, err, "an autoencoder with %u latent channels",
                                  (unsigned)vae->traits.latent_channels);
    vae->style.eps = 1e-24f;
    vae->style.ends = vae->style.edges = vae->style.cached = vae->tiles_clip = true;
    return DIT_OK;
}

static dit_result diti_hunyuanvideo15_vae_finish(diti_vae *vae, const diti_json *config, dit_error *err) {
    const struct diti_hunyuanvideo15_vae *own = vae->hunyuanvideo15;
    const diti_kl_half *half = vae->traits.has_decoder ? &own->decoder : &own->encoder;
    uint32_t i, times = own->times[!vae->traits.has_decoder], channels = half->conv_in.weight.rows;
    diti_settings settings = diti_settings_of(config, "the autoencoder's config.json", err);
    vae->traits.factor = vae->frame_factor = 1;
    for (i = 0; i < half->level_count; i++) {
        if (half->levels[i].resample.weight.part_count) vae->traits.factor *= 2;
        if (times & 1u << i) vae->frame_factor *= 2;
    }
    if (vae->traits.has_decoder && channels % vae->traits.latent_channels)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "an autoencoder of %u channels cannot repeat the latent's %u", (unsigned)channels,
                         (unsigned)vae->traits.latent_channels);
    if (diti_setting_size(&settings, "spatial_compression_ratio", vae->traits.factor, 64) != vae->traits.factor ||
        diti_setting_size(&settings, "temporal_compression_ratio", vae->frame_factor, 64) != vae->frame_factor)
        diti_settings_refuse(&settings, DIT_ERROR_BAD_FILE, "spatial_compression_ratio",
                             "it, or temporal_compression_ratio, is not what the file's levels make");
    return settings.result;
}

/* ---- chunks: the clip is one ---- */

static uint32_t diti_hunyuanvideo15_vae_latent_frames(const diti_vae *vae, uint32_t frames, bool encode) {
    (void)encode;
    return (frames - 1) % vae->frame_factor ? 0 : (frames - 1) / vae->frame_factor + 1;
}

static bool diti_hunyuanvideo15_vae_chunk(const diti_vae_clip *clip, uint32_t index, diti_vae_chunk *out) {
    out->frames = clip->encode ? clip->pixels.frames : clip->latent.frames;
    out->out_frames = clip->encode ? clip->latent.frames : clip->pixels.frames;
    return index == 0;
}

/* ---- computing ---- */

/* Elements of blocks of time * 2 * 2, of so many channels each, for channels (t, y, x, c). */
static diti_block_desc diti_hunyuanvideo15_vae_trade(const diti_video *size, uint32_t channels, uint32_t time) {
    diti_block_desc block = DITI_ZERO;
    block.clip = *size;
    block.time = time;
    block.side = 2;
    block.channel_step = 1;
    block.pixel_step = channels;
    block.line_step = 2 * channels;
    block.time_step = 4 * channels;
    block.out_f32 = true;
    block.name = "vae_trade";
    return block;
}

/* Channels of a convolution, and those of x repeated, become pixels and frames. The first frame stays one: it
   has the first halves of what the convolution makes for two. */
static diti_tensor diti_hunyuanvideo15_vae_up(diti_vae_clip *clip, diti_video *size, diti_tensor x,
                                              const diti_layer *layer, bool time) {
    bool alone = time && clip->first;
    uint32_t out = layer->weight.rows / (time ? 8 : 4);
    diti_block_desc made = diti_hunyuanvideo15_vae_trade(size, alone ? 2 * out : out, time && !alone ? 2 : 1);
    diti_block_desc same = diti_hunyuanvideo15_vae_trade(size, out, made.time);
    diti_tensor h = diti_video_conv(clip, size, diti_video_plain(clip, size, x, layer), layer, NULL, "vae_up");
    if (diti_graph_failed(clip->graph)) return 0;
    made.columns = same.columns = out;
    same.repeats = layer->weight.rows / diti_tensor_columns(clip->graph, x) / (alone ? 2 : 1);
    same.more = diti_spread_frames(clip->graph, h, &made);
    x = diti_spread_frames(clip->graph, x, &same);
    size->frames *= made.time;
    size->height *= 2;
    size->width *= 2;
    return x;
}

/* Halves of rows, in turn, side by side: [rows, 2 * columns] of x [rows, 2 * length], each half of which is so many
   columns of several rows. */
static diti_tensor diti_hunyuanvideo15_vae_fold(diti_graph *graph, diti_tensor x, uint32_t rows, uint32_t length,
                                                uint32_t columns) {
    uint32_t all, i;
    diti_tensor out;
    if (diti_graph_failed(graph)) return 0;
    all = rows * (length / columns);
    out = diti_tensor_new(graph, DITI_F32, all, 2 * columns, "vae_fold");
    x = diti_tensor_reshape(graph, x, rows, 2 * length);
    for (i = 0; i < 2 && !diti_graph_failed(graph); i++) {
        diti_tensor half = diti_tensor_new(graph, DITI_F32, rows, length, "vae_half");
        diti_copy(graph, diti_tensor_view(graph, x, 0, rows, i * length, length), half, "vae_half");
        diti_copy(graph, diti_tensor_reshape(graph, half, all, columns),
                  diti_tensor_view(graph, out, 0, all, i * columns, columns), "vae_fold");
    }
    return out;
}

/* Elements of each block of two by two pixels, and of two frames where time is 2, become channels: (t, y, x, c). */
static diti_tensor diti_hunyuanvideo15_vae_pack(diti_graph *graph, const diti_video *size, diti_tensor x,
                                                uint32_t time) {
    uint32_t columns = diti_tensor_columns(graph, x), lines = size->frames * size->height / 2;
    x = diti_hunyuanvideo15_vae_fold(graph, x, lines, size->width * columns, 2 * columns);
    if (time == 1) return x;
    return diti_hunyuanvideo15_vae_fold(graph, x, size->frames / 2, size->height * size->width * columns, 4 * columns);
}

/* A convolution's result and means of x, with elements of pixels and frames as channels. The first frame stands for
   two. */
static diti_tensor diti_hunyuanvideo15_vae_down(diti_vae_clip *clip, diti_video *size, diti_tensor x,
                                                const diti_layer *layer, bool time) {
    diti_graph *graph = clip->graph;
    uint32_t out = layer->weight.rows * (time ? 8 : 4), frames = time && !clip->first ? 2 : 1, columns, rows, i;
    diti_block_desc same = DITI_ZERO;
    diti_tensor h = diti_video_conv(clip, size, diti_video_plain(clip, size, x, layer), layer, NULL, "vae_down");
    h = diti_hunyuanvideo15_vae_pack(graph, size, h, frames);
    x = diti_hunyuanvideo15_vae_pack(graph, size, x, frames);
    if (diti_graph_failed(graph)) return 0;
    columns = diti_tensor_columns(graph, h);
    rows = diti_tensor_rows(graph, h);
    size->frames /= frames;
    size->height /= 2;
    size->width /= 2;
    same.clip = *size;
    same.columns = out;
    same.time = same.side = same.channel_step = 1;
    same.repeats = diti_tensor_columns(graph, x) / out;
    same.out_f32 = true;
    same.name = "vae_down";
    same.more = h;
    if (columns < out) same.more = diti_tensor_new(graph, DITI_F32, rows, out, "vae_down");
    for (i = 0; columns < out && i < 2; i++)
        diti_copy(graph, h, diti_tensor_view(graph, same.more, 0, rows, i * columns, columns), "vae_down");
    return diti_gather_frames(graph, x, &same);
}

static diti_tensor diti_hunyuanvideo15_vae_mid(diti_vae_clip *clip, const diti_video *size, diti_tensor x,
                                               const diti_kl_half *half) {
    x = diti_video_resnet(clip, size, x, &half->mid[0]);
    x = diti_video_attend_before(clip, size, x, &half->attention);
    return diti_video_resnet(clip, size, x, &half->mid[1]);
}

static diti_tensor diti_hunyuanvideo15_vae_levels(diti_vae_clip *clip, diti_video *size, diti_tensor x) {
    const struct diti_hunyuanvideo15_vae *own = clip->vae->hunyuanvideo15;
    const diti_kl_half *half = clip->encode ? &own->encoder : &own->decoder;
    uint32_t times = own->times[clip->encode], i, j;
    for (i = 0; i < half->level_count && !diti_graph_failed(clip->graph); i++) {
        const diti_kl_level *level = &half->levels[i];
        bool time = (times & 1u << i) != 0;
        for (j = 0; j < level->count; j++) x = diti_video_resnet(clip, size, x, &level->resnets[j]);
        if (!level->resample.weight.part_count) continue;
        x = clip->encode ? diti_hunyuanvideo15_vae_down(clip, size, x, &level->resample, time)
                         : diti_hunyuanvideo15_vae_up(clip, size, x, &level->resample, time);
    }
    return x;
}

/* Means of as many channels of x as the result has fewer, or x's channels repeated, are added to a convolution of in.
 */
static diti_tensor diti_hunyuanvideo15_vae_end(diti_vae_clip *clip, const diti_video *size, diti_tensor x,
                                               diti_video_input in, const diti_layer *layer) {
    diti_block_desc same = DITI_ZERO;
    uint32_t from = diti_tensor_columns(clip->graph, x), to = layer->weight.rows;
    same.more = diti_video_conv(clip, size, in, layer, NULL, "vae_end");
    same.clip = *size;
    same.columns = to;
    same.time = same.side = same.channel_step = 1;
    same.repeats = clip->encode ? from / to : to / from;
    same.out_f32 = true;
    same.name = "vae_end";
    return clip->encode ? diti_gather_frames(clip->graph, x, &same) : diti_spread_frames(clip->graph, x, &same);
}

static diti_tensor diti_hunyuanvideo15_vae_decode(diti_vae_clip *clip, diti_video *size, diti_tensor x,
                                                  diti_tensor out) {
    const diti_kl_half *half = &clip->vae->hunyuanvideo15->decoder;
    uint32_t frames = size->frames, area = size->height * size->width, row = 0, i, caches;
    diti_video_input in = diti_video_plain(clip, size, x, &half->conv_in);
    x = diti_hunyuanvideo15_vae_mid(clip, size, diti_hunyuanvideo15_vae_end(clip, size, x, in, &half->conv_in), half);
    caches = clip->cache_next;
    for (i = 0; i < frames && !diti_graph_failed(clip->graph); i++) {
        diti_video part = *size;
        diti_tensor h = diti_tensor_view(clip->graph, x, i * area, area, 0, diti_tensor_columns(clip->graph, x));
        part.frames = 1;
        clip->cache_next = caches;
        clip->first = i == 0;
        clip->last = i + 1 == frames;
        h = diti_hunyuanvideo15_vae_levels(clip, &part, h);
        in = diti_video_norm(clip, &part, h, &half->norm_out, true, true, &half->conv_out);
        h = diti_video_conv(clip, &part, in, &half->conv_out, NULL, "vae_conv_out");
        if (diti_graph_failed(clip->graph)) return 0;
        diti_copy(
            clip->graph, h,
            diti_tensor_view(clip->graph, out, row, diti_tensor_rows(clip->graph, h), 0, half->conv_out.weight.rows),
            "frames");
        row += diti_tensor_rows(clip->graph, h);
    }
    return out;
}

static diti_tensor diti_hunyuanvideo15_vae_encode(diti_vae_clip *clip, diti_video *size, diti_tensor x) {
    const diti_kl_half *half = &clip->vae->hunyuanvideo15->encoder;
    uint32_t factor = clip->vae->frame_factor, frames = (size->frames - 1) / factor + 1, i, row = 0, rows = 0;
    diti_video part = *size;
    diti_video_input in;
    diti_tensor all = 0;
    for (i = 0; i < frames && !diti_graph_failed(clip->graph); i++) {
        diti_tensor h;
        part = *size;
        part.frames = i ? factor : 1;
        rows = part.frames * part.height * part.width;
        h = diti_tensor_view(clip->graph, x, row, rows, 0, diti_tensor_columns(clip->graph, x));
        row += rows;
        clip->cache_next = 0;
        clip->first = i == 0;
        clip->last = i + 1 == frames;
        h = diti_video_conv(clip, &part, diti_video_plain(clip, &part, h, &half->conv_in), &half->conv_in, NULL,
                            "vae_conv_in");
        h = diti_hunyuanvideo15_vae_levels(clip, &part, h);
        if (diti_graph_failed(clip->graph)) return 0;
        rows = diti_tensor_rows(clip->graph, h);
        if (!i)
            all = diti_tensor_new(clip->graph, DITI_F32, frames * rows, diti_tensor_columns(clip->graph, h), "frames");
        diti_copy(clip->graph, h, diti_tensor_view(clip->graph, all, i * rows, rows, 0, half->norm_out.weight.columns),
                  "frames");
    }
    part.frames = frames;
    clip->first = clip->last = true;
    all = diti_hunyuanvideo15_vae_mid(clip, &part, all, half);
    in = diti_video_norm(clip, &part, all, &half->norm_out, true, true, &half->conv_out);
    return diti_hunyuanvideo15_vae_end(clip, &part, all, in, &half->conv_out);
}

static diti_tensor diti_hunyuanvideo15_vae_run(diti_vae_clip *clip, const diti_vae_chunk *chunk, diti_tensor x) {
    diti_vae_clip whole = *clip; /* caches live as long as the ops of the clip */
    diti_video size = clip->encode ? clip->pixels : clip->latent;
    diti_tensor out;
    memset(whole.caches, 0, sizeof whole.caches);
    whole.of_tile = true;
    size.frames = chunk->frames;
    if (clip->encode) return diti_hunyuanvideo15_vae_encode(&whole, &size, x);
    out = diti_tensor_new(clip->graph, DITI_F32, chunk->out_frames * clip->pixels.height * clip->pixels.width,
                          clip->vae->traits.colors, "frames");
    return diti_hunyuanvideo15_vae_decode(&whole, &size, x, out);
}

DIT_INTERNAL const diti_video_kind *diti_hunyuanvideo15_vae_kind(void) {
    static const diti_video_kind kind = {"AutoencoderKLHunyuanVideo15",
                                         diti_hunyuanvideo15_vae_is,
                                         diti_hunyuanvideo15_vae_read,
                                         diti_hunyuanvideo15_vae_load,
                                         diti_hunyuanvideo15_vae_finish,
                                         diti_hunyuanvideo15_vae_latent_frames,
                                         diti_hunyuanvideo15_vae_chunk,
                                         diti_hunyuanvideo15_vae_run,
                                         NULL,
                                         NULL,
                                         false,
                                         NULL};
    return &kind;
}
