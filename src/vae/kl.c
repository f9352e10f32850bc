#include "vae/vae.h"

/* AutoencoderKL (docs/models.md 4.1): decoder and encoder are the same parts in another order. Pixels are rows,
   channels are columns. Residuals stay F32 where the model asks for it (force_upcast): their values can leave the range
   of F16. */

/* ---- key names: asked for as diffusers has them ---- */

/* Replaces the first occurrence of from; false when the result does not fit. */
static bool diti_kl_replace(char *text, size_t size, const char *from, const char *to) {
    char *place = strstr(text, from);
    size_t from_length = strlen(from), to_length = strlen(to), rest;
    if (!place) return true;
    rest = strlen(place + from_length) + 1;
    if ((size_t)(place - text) + to_length + rest > size) return false;
    memmove(place + to_length, place + from_length, rest);
    memcpy(place, to, to_length);
    return true;
}

DIT_INTERNAL const char *diti_kl_replace_all(const char *const (*pairs)[2], size_t count, const char *name, char *out,
                                             size_t size) {
    size_t i;
    if (!diti_format(out, size, "%s", name)) return NULL;
    for (i = 0; i < count; i++)
        if (!diti_kl_replace(out, size, pairs[i][0], pairs[i][1])) return NULL;
    return out;
}

/* Very old diffusers files differ in the attention only. */
static const char *diti_kl_old_name(void *user, const char *name, char *out, size_t size) {
    static const char *const pairs[][2] = {{"attentions.0.to_q", "attentions.0.query"},
                                           {"attentions.0.to_k", "attentions.0.key"},
                                           {"attentions.0.to_v", "attentions.0.value"},
                                           {"attentions.0.to_out.0", "attentions.0.proj_attn"}};
    (void)user;
    return diti_kl_replace_all(pairs, DITI_COUNT(pairs), name, out, size);
}

/* LDM and BFL; the decoder's levels are numbered from the pixels, user: how many there are. */
static const char *diti_kl_ldm_name(void *user, const char *name, char *out, size_t size) {
    static const char *const pairs[][2] = {{"mid_block.resnets.0.", "mid.block_1."},
                                           {"mid_block.resnets.1.", "mid.block_2."},
                                           {"mid_block.attentions.0.group_norm", "mid.attn_1.norm"},
                                           {"mid_block.attentions.0.to_out.0", "mid.attn_1.proj_out"},
                                           {"mid_block.attentions.0.to_", "mid.attn_1."},
                                           {"down_blocks.", "down."},
                                           {".resnets.", ".block."},
                                           {"upsamplers.0.conv", "upsample.conv"},
                                           {"downsamplers.0.conv", "downsample.conv"},
                                           {"conv_shortcut", "nin_shortcut"},
                                           {"conv_norm_out", "norm_out"}};
    static const char up[] = "decoder.up_blocks.";
    const uint32_t *levels = (const uint32_t *)user;
    char renumbered[256];
    unsigned level;
    const char *rest;
    if (diti_starts_with(name, up)) {
        level = (unsigned)strtoul(name + sizeof up - 1, NULL, 10);
        rest = strchr(name + sizeof up - 1, '.');
        if (!rest || level >= *levels) return NULL;
        if (!diti_format(renumbered, sizeof renumbered, "decoder.up.%u%s", *levels - 1 - level, rest)) return NULL;
        name = renumbered;
    }
    return diti_kl_replace_all(pairs, DITI_COUNT(pairs), name, out, size);
}

static void diti_kl_choose_names(diti_vae *vae, diti_loader *loader) {
    vae->ldm_levels = diti_loader_count(loader, "decoder.up.", ".block.0.conv1.weight");
    if (diti_loader_find(loader, "decoder.mid.block_1.conv1.weight") ||
        diti_loader_find(loader, "encoder.mid.block_1.conv1.weight")) {
        loader->rename = diti_kl_ldm_name;
        loader->user = &vae->ldm_levels;
    } else if (diti_loader_find(loader, "decoder.mid_block.attentions.0.query.weight") ||
               diti_loader_find(loader, "encoder.mid_block.attentions.0.query.weight")) {
        loader->rename = diti_kl_old_name;
    }
}

/* ---- loading: channels come from the shapes, each layer's input must be what the one before it gives ---- */

static void diti_kl_load_resnet(diti_loader *loader, diti_kl_resnet *out, uint32_t channels, const char *name) {
    char scope[sizeof loader->scope];
    memcpy(scope, loader->scope, sizeof scope);
    diti_loader_scope(loader, "%s%s.", scope, name);
    out->channels = diti_loader_dimension(loader, "conv1.weight", 0);
    diti_load_norm(loader, &out->norm1, channels, "norm1");
    diti_load_layer(loader, &out->conv1, out->channels, 9 * channels, 3, "conv1");
    diti_load_norm(loader, &out->norm2, out->channels, "norm2");
    diti_load_layer(loader, &out->conv2, out->channels, 9 * out->channels, 3, "conv2");
    if (channels != out->channels) diti_load_layer(loader, &out->shortcut, out->channels, channels, 1, "conv_shortcut");
    diti_loader_scope(loader, "%s", scope);
}

static void diti_kl_load_mid(diti_loader *loader, diti_kl_half *half, uint32_t channels, const char *name) {
    static const char *const qkv[] = {"attentions.0.to_q", "attentions.0.to_k", "attentions.0.to_v"};
    diti_loader_scope(loader, "%s.mid_block.", name);
    diti_kl_load_resnet(loader, &half->mid[0], channels, "resnets.0");
    half->attention.present = diti_loader_find(loader, "attentions.0.group_norm.weight") != NULL;
    if (half->attention.present) {
        diti_load_norm(loader, &half->attention.norm, channels, "attentions.0.group_norm");
        diti_load_fused_linear(loader, &half->attention.qkv, qkv, 3, channels, channels, true);
        diti_load_layer(loader, &half->attention.out, channels, channels, 1, "attentions.0.to_out.0");
    }
    diti_kl_load_resnet(loader, &half->mid[1], channels, "resnets.1");
    diti_loader_scope_end(loader);
}

/* Returns the channels that the level gives. */
static uint32_t diti_kl_load_level(diti_loader *loader, diti_kl_level *level, uint32_t channels, const char *sampler) {
    char name[32];
    uint32_t i;
    level->count = diti_loader_count(loader, "resnets.", ".conv1.weight");
    if (level->count > DITI_KL_MAX_RESNETS) level->count = 0;
    if (!level->count && !loader->error.result) {
        diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL, "%s: the autoencoder's %s must hold 1 to %u resnets",
                  diti_checkpoint_name(loader->checkpoint), loader->scope, DITI_KL_MAX_RESNETS);
    }
    for (i = 0; i < level->count; i++) {
        diti_format(name, sizeof name, "resnets.%u", (unsigned)i);
        diti_kl_load_resnet(loader, &level->resnets[i], channels, name);
        channels = level->resnets[i].channels;
    }
    diti_format(name, sizeof name, "%s.weight", sampler);
    if (diti_loader_find(loader, name)) diti_load_layer(loader, &level->resample, channels, 9 * channels, 3, sampler);
    return channels;
}

static uint32_t diti_kl_load_levels(diti_loader *loader, diti_vae *vae, diti_kl_half *half, uint32_t channels,
                                    const char *blocks, const char *sampler) {
    uint32_t i, count = diti_loader_count(loader, blocks, ".resnets.0.conv1.weight");
    if (!count || count > DITI_KL_MAX_LEVELS) {
        diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL, "%s: the autoencoder has %u levels, not 1 to %u",
                  diti_checkpoint_name(loader->checkpoint), (unsigned)count, DITI_KL_MAX_LEVELS);
        return channels;
    }
    half->levels = (diti_kl_level *)diti_component_array(&vae->base, loader, count, sizeof *half->levels);
    if (!half->levels) return channels;
    half->level_count = count;
    for (i = 0; i < count && !loader->error.result; i++) {
        diti_loader_scope(loader, "%s%u.", blocks, (unsigned)i);
        channels = diti_kl_load_level(loader, &half->levels[i], channels, sampler);
    }
    diti_loader_scope_end(loader);
    return channels;
}

/* Channels of what the decoder reads. */
static uint32_t diti_kl_channels(const diti_vae *vae) { return vae->traits.latent_channels / (vae->packs ? 4 : 1); }

static void diti_kl_load_decoder(diti_loader *loader, diti_vae *vae) {
    diti_kl_half *half = &vae->decoder;
    uint32_t latent = diti_kl_channels(vae), channels = diti_loader_dimension(loader, "decoder.conv_in.weight", 0);
    half->present = true;
    if (diti_loader_find(loader, "post_quant_conv.weight")) {
        diti_load_layer(loader, &vae->post_quant, latent, latent, 1, "post_quant_conv");
    }
    diti_load_layer(loader, &half->conv_in, channels, 9 * latent, 3, "decoder.conv_in");
    diti_kl_load_mid(loader, half, channels, "decoder");
    channels = diti_kl_load_levels(loader, vae, half, channels, "decoder.up_blocks.", "upsamplers.0.conv");
    diti_load_norm(loader, &half->norm_out, channels, "decoder.conv_norm_out");
    diti_load_layer(loader, &half->conv_out, 3, 9 * channels, 3, "decoder.conv_out");
}

static void diti_kl_load_encoder(diti_loader *loader, diti_vae *vae) {
    diti_kl_half *half = &vae->encoder;
    uint32_t moments = 2 * diti_kl_channels(vae);
    uint32_t channels = diti_loader_dimension(loader, "encoder.conv_in.weight", 0);
    half->present = true;
    diti_load_layer(loader, &half->conv_in, channels, 27, 3, "encoder.conv_in");
    channels = diti_kl_load_levels(loader, vae, half, channels, "encoder.down_blocks.", "downsamplers.0.conv");
    diti_kl_load_mid(loader, half, channels, "encoder");
    diti_load_norm(loader, &half->norm_out, channels, "encoder.conv_norm_out");
    diti_load_layer(loader, &half->conv_out, moments, 9 * channels, 3, "encoder.conv_out");
    if (diti_loader_find(loader, "quant_conv.weight")) {
        diti_load_layer(loader, &vae->quant, moments, moments, 1, "quant_conv");
    }
}

/* ---- configuration ---- */

/* The most groups up to 32 that divide every number of channels, as powers of two. */
static uint32_t diti_kl_groups(diti_loader *loader, uint32_t latent) {
    const diti_checkpoint *checkpoint = loader->checkpoint;
    uint32_t i, groups = 32, count = diti_checkpoint_count(checkpoint);
    for (i = 0; i < count; i++) {
        const diti_stored_tensor *tensor = diti_checkpoint_tensor(checkpoint, i);
        if (!diti_starts_with(tensor->name, loader->prefix) || tensor->rank != 4 || tensor->shape[2] != 3) continue;
        if (tensor->shape[1] == 3 || tensor->shape[1] == latent) continue; /* not normalised: image and latent */
        while (groups > 1 && tensor->shape[1] % groups) groups /= 2;
    }
    return groups;
}

/* FLUX.2's: the running statistics of a batch norm over pixels of 2 x 2 are the scale of its latents (docs/models.md
   4.4). */
static void diti_kl_read_normal(diti_vae *vae, diti_loader *loader, double eps) {
    uint32_t i, channels = 4 * vae->traits.latent_channels;
    vae->packs = diti_loader_dimension(loader, "bn.running_mean", 0) == channels && channels <= DITI_VAE_MAX_CHANNELS &&
                 diti_loader_dimension(loader, "bn.running_var", 0) == channels;
    if (!vae->packs) return;
    vae->traits.latent_channels = channels;
    vae->traits.by_channel = vae->traits.means = true;
    diti_vae_read_values(loader, "bn.running_mean", vae->traits.shifts, channels);
    diti_vae_read_values(loader, "bn.running_var", vae->traits.scales, channels);
    for (i = 0; i < channels; i++) vae->traits.scales[i] = (float)(1 / sqrt((double)vae->traits.scales[i] + eps));
}

DIT_INTERNAL dit_result diti_kl_read(diti_vae *vae, diti_loader *loader, const diti_json *json, dit_error *err) {
    diti_settings settings = diti_settings_of(json, "the autoencoder's config.json", err);
    const char *name = diti_setting_text(&settings, "_class_name", "AutoencoderKL");
    uint32_t latent;
    diti_kl_choose_names(vae, loader);
    latent = diti_loader_dimension(loader, "decoder.conv_in.weight", 1);
    if (!latent) latent = diti_loader_dimension(loader, "encoder.conv_out.weight", 0) / 2;
    diti_settings_check_words(&settings, "act_fn", "silu swish");
    diti_settings_check_words(&settings, "down_block_types", "DownEncoderBlock2D");
    diti_settings_check_words(&settings, "up_block_types", "UpDecoderBlock2D");
    DITI_TRY(settings.result);
    if ((!diti_equal(name, "AutoencoderKL") && !diti_equal(name, "AutoencoderKLFlux2")) || !latent) {
        return diti_loader_refuse(loader, err,
                                  "not an autoencoder that dit.h knows (AutoencoderKL, AutoencoderTiny): %.80s",
                                  latent ? name : "conv_in is missing");
    }
    vae->traits.latent_channels = latent;
    diti_kl_read_normal(vae, loader, diti_setting_number(&settings, "batch_norm_eps", 1e-4, 0, 1));
    vae->wide = diti_setting_bool(&settings, "force_upcast", true);
    vae->groups = diti_setting_size(&settings, "norm_num_groups", diti_kl_groups(loader, latent), 1024);
    return settings.result;
}

/* The halves are built from what the file holds; a config that tells of other ones belongs to another file. */
static dit_result diti_kl_check_levels(const diti_vae *vae, const diti_json *json, dit_error *err) {
    diti_settings settings = diti_settings_of(json, "the autoencoder's config.json", err);
    const diti_kl_half *halves[2];
    const diti_json *channels = diti_setting_numbers(&settings, "block_out_channels");
    uint32_t resnets = diti_setting_size(&settings, "layers_per_block", 0, DITI_KL_MAX_RESNETS), i, level;
    char problem[200];
    halves[0] = &vae->encoder;
    halves[1] = &vae->decoder;
    for (i = 0; i < 2; i++) {
        const diti_kl_half *half = halves[i];
        const char *name = i ? "decoder" : "encoder";
        if (half->present && channels && channels->count != half->level_count) {
            diti_format(problem, sizeof problem, "a list of %u, but the %s in the file has %u levels",
                        (unsigned)channels->count, name, (unsigned)half->level_count);
            diti_settings_refuse(&settings, DIT_ERROR_BAD_FILE, "block_out_channels", problem);
        }
        for (level = 0; level < half->level_count && resnets; level++) {
            if (half->levels[level].count == resnets + i) continue;
            diti_format(problem, sizeof problem, "%u, which makes %u in the %s, but level %u in the file has %u",
                        (unsigned)resnets, (unsigned)(resnets + i), name, (unsigned)level,
                        (unsigned)half->levels[level].count);
            diti_settings_refuse(&settings, DIT_ERROR_BAD_FILE, "layers_per_block", problem);
        }
    }
    return settings.result;
}

static dit_result diti_kl_check_groups(const diti_vae *vae, const diti_kl_half *half, dit_error *err) {
    uint32_t i, j;
    for (i = 0; i < half->level_count; i++)
        for (j = 0; j < half->levels[i].count; j++)
            if (half->levels[i].resnets[j].channels % vae->groups) {
                return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                                 "the autoencoder's %u channels don't make %u groups (config.json: norm_num_groups)",
                                 (unsigned)half->levels[i].resnets[j].channels, (unsigned)vae->groups);
            }
    return DIT_OK;
}

/* Every level but the last doubles the size. */
static uint32_t diti_kl_factor(const diti_kl_half *half) {
    uint32_t i, factor = 1;
    for (i = 0; i < half->level_count; i++) factor <<= half->levels[i].resample.weight.part_count ? 1 : 0;
    return factor;
}

DIT_INTERNAL void diti_kl_load(diti_vae *vae, diti_loader *loader) {
    if (diti_loader_find(loader, "decoder.conv_in.weight")) diti_kl_load_decoder(loader, vae);
    if (diti_loader_find(loader, "encoder.conv_in.weight")) diti_kl_load_encoder(loader, vae);
    vae->traits.has_decoder = vae->decoder.present;
    vae->traits.has_encoder = vae->encoder.present;
}

DIT_INTERNAL dit_result diti_kl_check(diti_vae *vae, const diti_json *config, dit_error *err) {
    dit_result result = diti_kl_check_levels(vae, config, err);
    DITI_TRY(result);
    vae->traits.factor = diti_kl_factor(vae->decoder.present ? &vae->decoder : &vae->encoder) * (vae->packs ? 2 : 1);
    result = diti_kl_check_groups(vae, &vae->decoder, err);
    return result >= 0 ? diti_kl_check_groups(vae, &vae->encoder, err) : result;
}

/* ---- computing ---- */

/* Inputs and outputs have room for lines of other devices where that is said; what is in it comes before a norm, raw,
   while moments are taken: one meeting of all devices for both. */

/* Alone, or of devices that have a band each. roomy: x has room, which is to be filled, and so has the result.
 */
static diti_tensor diti_kl_norm(diti_graph *graph, const diti_vae *vae, diti_tensor x, const diti_layer *layer,
                                const diti_row_band *row_band, bool roomy, bool silu, const char *name) {
    diti_group_norm_desc desc = DITI_ZERO;
    desc.groups = vae->groups;
    desc.eps = 1e-6f;
    desc.silu = silu;
    desc.name = name;
    return diti_row_band_norm(graph, row_band, x, layer, &desc, roomy);
}

/* 3x3 or 1x1 with the same size in and out. */
static diti_tensor diti_kl_conv(diti_graph *graph, diti_tensor x, const diti_layer *layer,
                                const diti_row_band *row_band, diti_tensor residual, bool roomy, bool out_f32,
                                const char *name) {
    diti_conv_desc desc = DITI_ZERO;
    desc.stride = 1;
    desc.pad_before = desc.pad_after = layer->weight.kernel / 2;
    desc.residual = residual;
    desc.out_f32 = out_f32;
    desc.name = name;
    return diti_row_band_conv(graph, row_band, x, layer, &desc, roomy);
}

static diti_tensor diti_kl_upsample(diti_graph *graph, const diti_vae *vae, diti_tensor x, const diti_layer *layer,
                                    diti_row_band *row_band) {
    diti_conv_desc desc = DITI_ZERO;
    desc.stride = 1;
    desc.pad_before = desc.pad_after = 1;
    desc.upsample = true;
    desc.out_f32 = vae->wide;
    desc.name = "vae_upsample";
    diti_row_band_end(graph, row_band, diti_row_band_begin(graph, row_band, x));
    x = diti_row_band_conv(graph, row_band, x, layer, &desc, true);
    row_band->height *= 2;
    row_band->width *= 2;
    return x;
}

/* Zeros on the right and below only. */
static diti_tensor diti_kl_downsample(diti_graph *graph, const diti_vae *vae, diti_tensor x, const diti_layer *layer,
                                      diti_row_band *row_band) {
    diti_conv_desc desc = DITI_ZERO;
    desc.stride = 2;
    desc.pad_after = 1;
    desc.out_f32 = vae->wide;
    desc.name = "vae_downsample";
    x = diti_row_band_conv(graph, row_band, x, layer, &desc, false);
    row_band->height /= 2;
    row_band->width /= 2;
    return x;
}

/* x with room, and the result. */
static diti_tensor diti_kl_run_resnet(diti_graph *graph, const diti_vae *vae, diti_tensor x,
                                      const diti_kl_resnet *resnet, const diti_row_band *row_band) {
    diti_tensor shortcut = diti_row_band_local(graph, row_band, x);
    diti_tensor h = diti_kl_norm(graph, vae, x, &resnet->norm1, row_band, true, true, "vae_norm1");
    h = diti_kl_conv(graph, h, &resnet->conv1, row_band, 0, true, vae->wide, "vae_conv1");
    h = diti_kl_norm(graph, vae, h, &resnet->norm2, row_band, true, true, "vae_norm2");
    if (resnet->shortcut.weight.part_count)
        shortcut = diti_kl_conv(graph, shortcut, &resnet->shortcut, row_band, 0, false, vae->wide, "vae_shortcut");
    return diti_kl_conv(graph, h, &resnet->conv2, row_band, shortcut, true, vae->wide, "vae_conv2");
}

/* Keys and values of all bands, side by side. */
static diti_tensor diti_kl_keys(diti_graph *graph, const diti_vae *vae, diti_tensor qkv, uint32_t channels,
                                const diti_row_band *row_band) {
    uint32_t side = vae->packs ? 2 : 1; /* lines here of a line of the latent, which devices divide */
    uint32_t rows = row_band->images * row_band->height * row_band->width;
    diti_tensor own = diti_tensor_view(graph, qkv, 0, rows, channels, 2 * channels), part, all;
    if (!row_band->group || diti_graph_failed(graph)) return own;
    part = diti_tensor_new(graph, diti_tensor_get(graph, own)->format, rows, 2 * channels, "keys and values");
    diti_copy(graph, own, part, "keys and values");
    part = diti_tensor_reshape(graph, part, row_band->height / side, side * row_band->width * 2 * channels);
    all = diti_all_gather(graph, row_band->group, part, 1, row_band->lines, "keys and values of all bands");
    return diti_tensor_reshape(graph, all, side * row_band->lines * row_band->width, 2 * channels);
}

/* One head of all channels. x with room, and the result. */
static diti_tensor diti_kl_run_attention(diti_graph *graph, const diti_vae *vae, diti_tensor x,
                                         const diti_kl_attention *attention, const diti_row_band *row_band) {
    uint32_t rows = row_band->images * row_band->height * row_band->width, channels = attention->out.weight.rows, all;
    diti_attention_desc desc = DITI_ZERO;
    diti_linear_desc fused = DITI_ZERO;
    diti_tensor h, keys;
    x = diti_row_band_local(graph, row_band, x);
    h = diti_kl_norm(graph, vae, x, &attention->norm, row_band, false, false, "vae_attention_norm");
    fused.name = "vae_qkv";
    h = diti_linear_fused(graph, h, &attention->qkv, &fused);
    keys = diti_kl_keys(graph, vae, h, channels, row_band);
    all = diti_tensor_get(graph, keys)->rows;
    desc.batch = row_band->images;
    desc.heads = 1;
    desc.head_dim = channels;
    desc.scale = 1.0f / sqrtf((float)channels);
    desc.name = "vae_attention";
    h = diti_attention(graph, diti_tensor_view(graph, h, 0, rows, 0, channels),
                       diti_tensor_view(graph, keys, 0, all, 0, channels),
                       diti_tensor_view(graph, keys, 0, all, channels, channels), &desc);
    return diti_kl_conv(graph, h, &attention->out, row_band, x, true, vae->wide, "vae_attention_out");
}

static diti_tensor diti_kl_run_mid(diti_graph *graph, const diti_vae *vae, diti_tensor x, const diti_kl_half *half,
                                   const diti_row_band *row_band) {
    x = diti_kl_run_resnet(graph, vae, x, &half->mid[0], row_band);
    if (half->attention.present) x = diti_kl_run_attention(graph, vae, x, &half->attention, row_band);
    return diti_kl_run_resnet(graph, vae, x, &half->mid[1], row_band);
}

static diti_tensor diti_kl_run_level(diti_graph *graph, const diti_vae *vae, diti_tensor x, const diti_kl_level *level,
                                     bool up, diti_row_band *row_band) {
    uint32_t i;
    for (i = 0; i < level->count; i++) x = diti_kl_run_resnet(graph, vae, x, &level->resnets[i], row_band);
    if (!level->resample.weight.part_count) return x;
    return up ? diti_kl_upsample(graph, vae, x, &level->resample, row_band)
              : diti_kl_downsample(graph, vae, x, &level->resample, row_band);
}

static diti_tensor diti_kl_finish(diti_graph *graph, const diti_vae *vae, diti_tensor x, const diti_kl_half *half,
                                  const diti_row_band *row_band, bool out_f32) {
    x = diti_kl_norm(graph, vae, x, &half->norm_out, row_band, true, true, "vae_norm_out");
    return diti_kl_conv(graph, x, &half->conv_out, row_band, 0, false, out_f32, "vae_conv_out");
}

/* Numbers of channels, lines and columns in a pixel of 2 x 2. */
static diti_block_desc diti_kl_block(const diti_vae *vae, const diti_row_band *row_band, uint32_t lines,
                                     uint32_t columns) {
    diti_block_desc block = DITI_ZERO;
    block.clip.frames = row_band->images;
    block.clip.height = lines;
    block.clip.width = row_band->width;
    block.columns = columns;
    block.time = 1;
    block.side = 2;
    block.time_step = 4;
    block.channel_step = vae->pixels_last ? 1 : 4;
    block.pixel_step = vae->pixels_last ? diti_kl_channels(vae) : 1;
    block.line_step = 2 * block.pixel_step;
    block.name = "vae_pack";
    return block;
}

/* Pixels of the latent become 2 x 2 each; of the lines that other devices have the next one is left. */
DIT_INTERNAL diti_tensor diti_kl_unpack(diti_graph *graph, const diti_vae *vae, diti_tensor x,
                                        diti_row_band *row_band) {
    uint32_t lines = row_band->above + row_band->height + row_band->below, columns = diti_kl_channels(vae);
    diti_block_desc block = diti_kl_block(vae, row_band, lines, columns);
    x = diti_spread_frames(graph, x, &block);
    row_band->height *= 2;
    row_band->width *= 2;
    lines = row_band->above + row_band->height + row_band->below;
    return diti_tensor_view(graph, x, row_band->above * row_band->width, row_band->images * lines * row_band->width, 0,
                            columns);
}

/* x [h * w, C] packed with columns (dy, dx, c), in out [h / 2 * w / 2, 4C]. */
static void diti_kl_pack_pixels(diti_graph *graph, diti_tensor x, const diti_row_band *row_band, diti_tensor out) {
    uint32_t own = diti_tensor_columns(graph, x), rows = diti_tensor_rows(graph, x), dy;
    uint32_t line = row_band->width * own;
    diti_tensor all = diti_tensor_new(graph, DITI_F32, rows, own, "vae_pack"), lines;
    diti_copy(graph, x, all, "vae_pack");
    all = diti_tensor_reshape(graph, all, rows / row_band->width / 2, 2 * line);
    for (dy = 0; dy < 2 && !diti_graph_failed(graph); dy++) {
        lines = diti_tensor_new(graph, DITI_F32, rows / row_band->width / 2, line, "vae_pack");
        diti_copy(graph, diti_tensor_view(graph, all, 0, rows / row_band->width / 2, dy * line, line), lines,
                  "vae_pack");
        diti_copy(graph, diti_tensor_reshape(graph, lines, rows / 4, 2 * own),
                  diti_tensor_view(graph, out, 0, rows / 4, dy * 2 * own, 2 * own), "vae_pack");
    }
}

/* Means and logarithms of variances [h * w, 2C] become [h / 2 * w / 2, 8C], each packed. */
static diti_tensor diti_kl_pack(diti_graph *graph, const diti_vae *vae, diti_tensor x, const diti_row_band *row_band) {
    uint32_t own = diti_kl_channels(vae), all = vae->traits.latent_channels, rows = diti_tensor_rows(graph, x), i;
    diti_tensor packed = diti_tensor_new(graph, DITI_F32, rows / 4, 2 * all, "vae_pack");
    for (i = 0; i < 2 && !diti_graph_failed(graph); i++) {
        diti_block_desc block = diti_kl_block(vae, row_band, row_band->height, all);
        diti_tensor one = diti_tensor_view(graph, x, 0, rows, i * own, own);
        block.out = diti_tensor_view(graph, packed, 0, rows / 4, i * all, all);
        if (vae->pixels_last)
            diti_kl_pack_pixels(graph, one, row_band, block.out);
        else
            diti_gather_frames(graph, one, &block);
    }
    return packed;
}

DIT_INTERNAL diti_tensor diti_kl_decode(const diti_vae *vae, diti_graph *graph, diti_tensor x, diti_row_band row_band) {
    const diti_kl_half *half = &vae->decoder;
    diti_row_band all;
    uint32_t i;
    if (vae->packs) x = diti_kl_unpack(graph, vae, x, &row_band);
    all = diti_row_band_whole(row_band.above + row_band.height + row_band.below, row_band.width);
    all.images = row_band.images;
    if (vae->post_quant.weight.part_count)
        x = diti_kl_conv(graph, x, &vae->post_quant, &all, 0, false, vae->wide, "vae_post_quant");
    x = diti_kl_conv(graph, x, &half->conv_in, &row_band, 0, true, vae->wide, "vae_conv_in");
    x = diti_kl_run_mid(graph, vae, x, half, &row_band);
    for (i = 0; i < half->level_count; i++) x = diti_kl_run_level(graph, vae, x, &half->levels[i], true, &row_band);
    return diti_kl_finish(graph, vae, x, half, &row_band, true);
}

DIT_INTERNAL diti_tensor diti_kl_encode(const diti_vae *vae, diti_graph *graph, diti_tensor x, diti_row_band row_band) {
    const diti_kl_half *half = &vae->encoder;
    bool quant = vae->quant.weight.part_count != 0;
    uint32_t i;
    row_band.lines = 0; /* one device encodes */
    x = diti_kl_conv(graph, x, &half->conv_in, &row_band, 0, false, vae->wide, "vae_conv_in");
    for (i = 0; i < half->level_count; i++) x = diti_kl_run_level(graph, vae, x, &half->levels[i], false, &row_band);
    x = diti_kl_run_mid(graph, vae, x, half, &row_band);
    x = diti_kl_finish(graph, vae, x, half, &row_band, quant ? vae->wide : true);
    if (quant) x = diti_kl_conv(graph, x, &vae->quant, &row_band, 0, false, true, "vae_quant");
    return vae->packs ? diti_kl_pack(graph, vae, x, &row_band) : x;
}
