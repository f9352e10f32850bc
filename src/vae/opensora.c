#include "vae/vae.h"

/* Open-Sora's VideoAutoencoderPipeline (docs/models.md 4.8): AutoencoderKL takes each frame by itself; a causal
   autoencoder over time takes its latents, in chunks that know nothing of each other. */

struct diti_opensora {
    diti_kl_half decoder, encoder; /* over time; the first level of the decoder, and the last of the encoder, have no
                                      resampling and are the original's res_blocks */
    diti_layer post_quant, quant;
    uint32_t latent_chunk; /* latent frames of a chunk of chunk_frames pictures */
};

#define DITI_OPENSORA_PICTURES 4u /* pictures that AutoencoderKL has at a time */
#define DITI_OPENSORA_PREFIX "spatial_vae.module."
#define DITI_OPENSORA_SCALE 0.18215f /* the pictures' autoencoder has it whatever its config says */

static bool diti_opensora_is(diti_loader *loader, const diti_json *config) {
    (void)config;
    return diti_loader_find(loader, "temporal_vae.decoder.conv1.conv.weight") ||
           diti_loader_find(loader, "temporal_vae.encoder.conv_in.conv.weight");
}

/* ---- loading ---- */

static uint32_t diti_opensora_load_resample(diti_loader *loader, diti_kl_level *level, uint32_t channels,
                                            uint32_t number) {
    char name[64], weight[80];
    diti_format(name, sizeof name, "conv_blocks.%u.conv", (unsigned)number);
    diti_format(weight, sizeof weight, "%s.weight", name);
    return diti_loader_find(loader, weight) ? diti_video_load_conv(loader, &level->resample, channels, name) : 0;
}

/* Levels in the order of computing: the original numbers them from the pictures. */
static void diti_opensora_load_half(diti_vae *vae, diti_loader *loader, diti_kl_half *half, bool decoder) {
    uint32_t i, number, count, channels, latent = vae->traits.latent_channels;
    char name[64];
    diti_loader_scope(loader, "temporal_vae.%s.", decoder ? "decoder" : "encoder");
    if (!diti_video_load_levels(vae, loader, half, "block_res_blocks.", ".0.norm1.weight", 1)) return;
    count = half->level_count - 1;
    channels = diti_video_load_conv(loader, &half->conv_in, latent, decoder ? "conv1" : "conv_in");
    if (decoder) channels = diti_video_load_resnets(loader, &half->levels[0], channels, "conv3", "res_blocks.");
    for (i = 0; i < count && !loader->error.result; i++) {
        diti_kl_level *level = &half->levels[decoder ? i + 1 : i];
        number = decoder ? count - 1 - i : i;
        diti_format(name, sizeof name, "block_res_blocks.%u.", (unsigned)number);
        channels = diti_video_load_resnets(loader, level, channels, "conv3", name);
        if (decoder && number) diti_opensora_load_resample(loader, level, channels, number - 1);
        if (!decoder && i + 1 < count) diti_opensora_load_resample(loader, level, channels, number);
    }
    if (!decoder) channels = diti_video_load_resnets(loader, &half->levels[count], channels, "conv3", "res_blocks.");
    diti_load_norm(loader, &half->norm_out, channels, "norm1");
    diti_video_load_conv(loader, &half->conv_out, channels, decoder ? "conv_out" : "conv2");
    diti_loader_scope_end(loader);
}

/* The pictures' autoencoder stands in the same file under a name of its own. */
static bool diti_opensora_pictures(diti_loader *loader, char *prefix, size_t size) {
    return diti_format(prefix, size, "%s" DITI_OPENSORA_PREFIX, loader->prefix);
}

static void diti_opensora_load(diti_vae *vae, diti_loader *loader) {
    const char *prefix = loader->prefix;
    uint32_t i, latent = vae->traits.latent_channels;
    struct diti_opensora *own = vae->opensora;
    char pictures[128];
    if (diti_loader_find(loader, "temporal_vae.decoder.conv1.conv.weight")) {
        diti_video_load_conv(loader, &own->post_quant, latent, "temporal_vae.post_quant_conv.conv");
        diti_opensora_load_half(vae, loader, &own->decoder, true);
    }
    if (diti_loader_find(loader, "temporal_vae.encoder.conv_in.conv.weight")) {
        diti_opensora_load_half(vae, loader, &own->encoder, false);
        diti_video_load_conv(loader, &own->quant, 2 * latent, "temporal_vae.quant_conv.conv");
    }
    vae->frame_factor = 1;
    for (i = 0; i < own->decoder.level_count; i++)
        if (own->decoder.levels[i].resample.weight.part_count) vae->frame_factor *= 2;
    for (i = 0; i < own->encoder.level_count && !own->decoder.present; i++)
        if (own->encoder.levels[i].resample.weight.part_count) vae->frame_factor *= 2;
    own->latent_chunk = (vae->chunk_frames + vae->frame_factor - 1) / vae->frame_factor;
    if (!diti_opensora_pictures(loader, pictures, sizeof pictures)) return;
    loader->prefix = pictures;
    diti_kl_load(vae, loader);
    loader->prefix = prefix;
    vae->traits.has_decoder = vae->traits.has_decoder && own->decoder.present;
    vae->traits.has_encoder = vae->traits.has_encoder && own->encoder.present;
}

/* ---- configuration ---- */

static dit_result diti_opensora_read(diti_vae *vae, diti_loader *loader, const diti_json *config, dit_error *err) {
    static const float scales[4] = {3.85f, 2.32f, 2.33f, 3.06f}, shifts[4] = {-0.10f, 0.34f, 0.27f, 0.98f};
    diti_settings settings = diti_settings_of(config, "the autoencoder's config.json", err);
    diti_settings temporal = diti_settings_of(diti_setting(&settings, "vae_temporal"), "vae_temporal", err);
    const char *prefix = loader->prefix;
    char pictures[128];
    dit_result result;
    uint32_t i;
    if (!diti_opensora_pictures(loader, pictures, sizeof pictures))
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "the autoencoder's names are too long");
    loader->prefix = pictures;
    result = diti_kl_read(vae, loader, diti_setting(&settings, "vae_2d"), err);
    loader->prefix = prefix;
    if (result != DIT_OK) return result;
    vae->opensora = (struct diti_opensora *)diti_component_array(&vae->base, loader, 1, sizeof *vae->opensora);
    if (!vae->opensora) return DIT_ERROR_OUT_OF_HOST_MEMORY;
    vae->chunk_frames = diti_setting_size(&settings, "micro_frame_size", 17, 1024);
    vae->style.groups = diti_setting_size(&temporal, "num_groups", 32, 1024);
    vae->style.eps = 1e-5f;
    vae->traits.by_channel = true;
    for (i = 0; i < vae->traits.latent_channels && i < DITI_VAE_MAX_CHANNELS; i++) {
        vae->traits.scales[i] = scales[i % 4];
        vae->traits.shifts[i] = shifts[i % 4];
    }
    diti_video_read_list(&settings, "scale", vae->traits.latent_channels, vae->traits.scales);
    diti_video_read_list(&settings, "shift", vae->traits.latent_channels, vae->traits.shifts);
    for (i = 0; i < vae->traits.latent_channels && i < DITI_VAE_MAX_CHANNELS; i++) {
        if (vae->traits.scales[i] == 0) diti_settings_refuse(&settings, DIT_ERROR_BAD_FILE, "scale", "zero");
        vae->traits.scales[i] = 1 / vae->traits.scales[i];
    }
    return settings.result != DIT_OK ? settings.result : temporal.result;
}

/* ---- chunks ---- */

static uint32_t diti_opensora_latent_frames(const diti_vae *vae, uint32_t frames, bool encode) {
    uint32_t factor = vae->frame_factor;
    (void)encode;
    return frames / vae->chunk_frames * vae->opensora->latent_chunk +
           (frames % vae->chunk_frames + factor - 1) / factor;
}

static bool diti_opensora_chunk(const diti_vae_clip *clip, uint32_t index, diti_vae_chunk *out) {
    uint32_t chunk = clip->vae->chunk_frames, latent_chunk = clip->vae->opensora->latent_chunk, frames, latents;
    if (index > clip->pixels.frames / chunk || index * chunk >= clip->pixels.frames) return false;
    frames = clip->pixels.frames - index * chunk;
    latents = clip->latent.frames - index * latent_chunk;
    if (frames > chunk) frames = chunk;
    if (latents > latent_chunk) latents = latent_chunk;
    out->first = index * (clip->encode ? chunk : latent_chunk);
    out->out_first = index * (clip->encode ? latent_chunk : chunk);
    out->frames = clip->encode ? frames : latents;
    out->out_frames = clip->encode ? latents : frames;
    out->kind = frames < chunk && index ? 2 : 0;
    return true;
}

/* ---- computing ---- */

static diti_tensor diti_opensora_level(diti_vae_clip *clip, diti_tensor x, const diti_kl_level *level, bool decoder,
                                       diti_video *size) {
    diti_conv_desc halve = DITI_ZERO;
    diti_block_desc spread = DITI_ZERO;
    uint32_t i;
    for (i = 0; i < level->count; i++) x = diti_video_resnet(clip, size, x, &level->resnets[i]);
    if (!level->resample.weight.part_count) return x;
    if (!decoder) { /* one frame of zeros in front */
        halve.frame_stride = 2;
        halve.frames_before = 1;
        x = diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), &level->resample, &halve,
                            "vae_downsample");
        size->frames = (size->frames + 1 - 3) / 2 + 1;
        return x;
    }
    x = diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), &level->resample, NULL, "vae_upsample");
    spread.clip = *size;
    spread.columns = diti_tensor_columns(clip->graph, x) / 2;
    spread.time = spread.channel_step = 2;
    spread.side = spread.time_step = 1;
    spread.out_f32 = true;
    spread.name = "vae_frames";
    size->frames *= 2;
    return diti_spread_frames(clip->graph, x, &spread);
}

/* From conv_in to conv_out. */
static diti_tensor diti_opensora_half(diti_vae_clip *clip, diti_tensor x, const diti_kl_half *half, bool decoder,
                                      diti_video *size) {
    diti_video_input in = diti_video_plain(clip, size, x, NULL);
    uint32_t i;
    x = diti_video_conv(clip, size, in, &half->conv_in, NULL, "vae_conv_in");
    for (i = 0; i < half->level_count; i++) x = diti_opensora_level(clip, x, &half->levels[i], decoder, size);
    in = diti_video_norm(clip, size, x, &half->norm_out, true, false, NULL);
    return diti_video_conv(clip, size, in, &half->conv_out, NULL, "vae_conv_out");
}

static diti_tensor diti_opensora_decode(diti_vae_clip *clip, const diti_vae_chunk *chunk, diti_tensor x) {
    const struct diti_opensora *own = clip->vae->opensora;
    diti_graph *graph = clip->graph;
    diti_video size = {chunk->frames, clip->latent.height, clip->latent.width};
    uint32_t factor = clip->vae->frame_factor, area, first, i;
    uint32_t columns = clip->vae->traits.latent_channels, pixels;
    diti_vae_portion made = diti_vae_clip_portion(clip, chunk, clip->group.index, true);
    diti_elementwise_desc scale = DITI_ZERO;
    diti_video whole = {1, made.lines / clip->vae->traits.factor, size.width};
    diti_row_band row_band = diti_row_band_whole(whole.height, whole.width);
    diti_tensor out, some;
    x = diti_video_conv(clip, &size, diti_video_plain(clip, &size, x, NULL), &own->post_quant, NULL, "vae_post_quant");
    x = diti_opensora_half(clip, x, &own->decoder, true, &size);
    x = diti_video_all_lines(clip, size.frames, x, "latents of pictures");
    if (diti_graph_failed(graph) || !made.frames) return 0;
    area = whole.height * whole.width;
    pixels = made.lines * clip->pixels.width;
    first = (factor - chunk->out_frames % factor) % factor + made.first;
    scale.scale = 1 / DITI_OPENSORA_SCALE;
    scale.name = "vae_scale";
    x = diti_elementwise(graph, diti_tensor_view(graph, x, first * area, made.frames * area, 0, columns), &scale);
    out = diti_tensor_new(graph, DITI_F32, made.frames * pixels, 3, "frames");
    for (i = 0; i < made.frames && !diti_graph_failed(graph); i += row_band.images) {
        row_band.images = made.frames - i < DITI_OPENSORA_PICTURES ? made.frames - i : DITI_OPENSORA_PICTURES;
        if (clip->tile) row_band.images = 1;
        some = diti_tensor_view(graph, x, i * area, row_band.images * area, 0, columns);
        some = clip->tile ? diti_vae_run_tiled(clip->vae, graph, some, true, &whole, clip->tile)
                          : diti_kl_decode(clip->vae, graph, some, row_band);
        if (diti_graph_failed(graph)) return 0;
        diti_copy(graph, some, diti_tensor_view(graph, out, i * pixels, row_band.images * pixels, 0, 3), "frames");
    }
    return out;
}

/* Latents of the pictures that this device has, as the autoencoder over time wants them: [frames * whole latent,
   channels] in out. */
static void diti_opensora_encode_pictures(diti_vae_clip *clip, const diti_vae_chunk *chunk, diti_tensor x,
                                          diti_tensor out) {
    diti_graph *graph = clip->graph;
    diti_vae_portion own = diti_vae_clip_portion(clip, chunk, clip->group.index, false);
    diti_video whole = {1, own.lines, clip->pixels.width};
    uint32_t area = clip->lines * clip->latent.width, pixels = whole.height * whole.width, i;
    uint32_t columns = clip->vae->traits.latent_channels, first = chunk->first + own.first;
    diti_row_band row_band = diti_row_band_whole(whole.height, whole.width);
    diti_tensor some, noise;
    for (i = 0; i < own.frames && !diti_graph_failed(graph); i += row_band.images) {
        row_band.images = own.frames - i < DITI_OPENSORA_PICTURES ? own.frames - i : DITI_OPENSORA_PICTURES;
        if (clip->tile) row_band.images = 1;
        some = diti_tensor_view(graph, x, i * pixels, row_band.images * pixels, 0, 3);
        some = clip->tile ? diti_vae_run_tiled(clip->vae, graph, some, false, &whole, clip->tile)
                          : diti_kl_encode(clip->vae, graph, some, row_band);
        noise = clip->noise
                    ? diti_tensor_view(graph, clip->noise, (first + i) * area, row_band.images * area, 0, columns)
                    : 0;
        some = diti_draw(graph, some, noise, DITI_OPENSORA_SCALE, "vae_draw");
        if (diti_graph_failed(graph)) return;
        diti_copy(graph, some, diti_tensor_view(graph, out, i * area, row_band.images * area, 0, columns), "frames");
    }
}

static diti_tensor diti_opensora_encode(diti_vae_clip *clip, const diti_vae_chunk *chunk, diti_tensor x) {
    const struct diti_opensora *own = clip->vae->opensora;
    diti_graph *graph = clip->graph;
    diti_video size = {chunk->frames, clip->latent.height, clip->latent.width};
    uint32_t factor = clip->vae->frame_factor, area = size.height * size.width;
    uint32_t columns = clip->vae->traits.latent_channels, before = (factor - chunk->frames % factor) % factor;
    uint32_t frames = diti_vae_clip_portion(clip, chunk, clip->group.index, false).frames;
    diti_tensor all = diti_tensor_new(graph, DITI_F32, (before + chunk->frames) * area, columns, "latents of frames");
    diti_tensor latents = diti_tensor_view(graph, all, before * area, chunk->frames * area, 0, columns), pictures;
    bool divided = diti_ranks_count(&clip->group) > 1;
    if (before) diti_fill_zeros(graph, diti_tensor_view(graph, all, 0, before * area, 0, columns));
    pictures = !divided ? latents
               : frames ? diti_tensor_new(graph, DITI_F32, frames * clip->lines * size.width, columns, "pictures")
                        : 0;
    diti_opensora_encode_pictures(clip, chunk, x, pictures);
    if (divided) diti_video_local_lines(clip, chunk, pictures, latents);
    size.frames += before;
    x = diti_opensora_half(clip, all, &own->encoder, false, &size);
    return diti_video_conv(clip, &size, diti_video_plain(clip, &size, x, NULL), &own->quant, NULL, "vae_quant");
}

static diti_tensor diti_opensora_run(diti_vae_clip *clip, const diti_vae_chunk *chunk, diti_tensor x) {
    return clip->encode ? diti_opensora_encode(clip, chunk, x) : diti_opensora_decode(clip, chunk, x);
}

static dit_result diti_opensora_check(diti_vae *vae, const diti_json *config, dit_error *err) {
    return diti_kl_check(vae, diti_json_get(config, "vae_2d"), err);
}

DIT_INTERNAL const diti_video_kind *diti_opensora_kind(void) {
    static const diti_video_kind kind = {"VideoAutoencoderPipeline",
                                         diti_opensora_is,
                                         diti_opensora_read,
                                         diti_opensora_load,
                                         diti_opensora_check,
                                         diti_opensora_latent_frames,
                                         diti_opensora_chunk,
                                         diti_opensora_run,
                                         NULL,
                                         NULL,
                                         true,
                                         NULL};
    return &kind;
}
