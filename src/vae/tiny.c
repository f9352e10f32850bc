#include "vae/vae.h"

/* AutoencoderTiny (docs/models.md 4.2): convolutions and blocks by their numbers, where a missing number means
   something: between convolutions a ReLU, later that the size doubles. Convolutions of the encoder that halve it have
   no bias. Decoders of TAEHV have layers that make several frames of one, and blocks that read the frame before. */

/* Finds the text before the layers' numbers; the original decoder counts from 1. NULL: there is no such half. */
static const char *diti_tiny_scope(diti_loader *loader, bool decoder, uint32_t *first) {
    static const char *const scopes[2][3] = {{"encoder.layers.", "encoder.", ""}, {"decoder.layers.", "decoder.", ""}};
    char conv[64], block[64];
    uint32_t i;
    for (i = 0; i < 3; i++) {
        *first = decoder && i > 0;
        diti_format(conv, sizeof conv, "%s%u.weight", scopes[decoder][i], (unsigned)*first);
        diti_format(block, sizeof block, "%s%u.conv.0.weight", scopes[decoder][i], (unsigned)*first + 1 + decoder);
        if (diti_loader_find(loader, conv) && diti_loader_find(loader, block)) return scopes[decoder][i];
    }
    return NULL;
}

DIT_INTERNAL bool diti_tiny_is(diti_loader *loader) {
    uint32_t first;
    return diti_tiny_scope(loader, true, &first) || diti_tiny_scope(loader, false, &first);
}

/* 3x3, with or without a bias; the channels it gives. */
static uint32_t diti_tiny_load_conv(diti_loader *loader, diti_layer *out, uint32_t channels, const char *name) {
    char full[64];
    uint32_t rows;
    diti_format(full, sizeof full, "%s.bias", name);
    if (diti_loader_find(loader, full)) {
        diti_format(full, sizeof full, "%s.weight", name);
        rows = diti_loader_dimension(loader, full, 0);
        diti_load_layer(loader, out, rows, 9 * channels, 3, name);
    } else {
        diti_format(full, sizeof full, "%s.weight", name);
        rows = diti_loader_dimension(loader, full, 0);
        diti_load_matrix(loader, &out->weight, rows, 9 * channels, 3, full);
    }
    return rows;
}

/* The branch that FLUX.2's has in front of a block: to four times the channels and back, over a GroupNorm. */
static void diti_tiny_load_pool(diti_loader *loader, diti_tiny_layer *layer, uint32_t channels) {
    uint32_t wide;
    char name[64];
    diti_format(name, sizeof name, "%u.pool.0.weight", (unsigned)layer->number);
    if (!diti_loader_find(loader, name)) return;
    wide = diti_loader_dimension(loader, name, 0);
    diti_load_matrix(loader, &layer->pool_in.weight, wide, channels, 1, name);
    diti_format(name, sizeof name, "%u.pool.1.weight", (unsigned)layer->number);
    diti_load_vector(loader, &layer->pool_norm.weight, 1, wide, name);
    diti_format(name, sizeof name, "%u.pool.1.bias", (unsigned)layer->number);
    diti_load_vector(loader, &layer->pool_norm.bias, 1, wide, name);
    diti_format(name, sizeof name, "%u.pool.3.weight", (unsigned)layer->number);
    diti_load_matrix(loader, &layer->pool_out.weight, channels, wide, 1, name);
}

static uint32_t diti_tiny_load_block(diti_loader *loader, diti_tiny_layer *layer, uint32_t channels) {
    uint32_t given = channels, i;
    char name[64];
    layer->block = true;
    diti_tiny_load_pool(loader, layer, channels);
    diti_format(name, sizeof name, "%u.conv.0.weight", (unsigned)layer->number);
    layer->remembers = diti_loader_dimension(loader, name, 1) == 2 * channels;
    if (layer->remembers) channels *= 2;
    for (i = 0; i < 3; i++) {
        diti_format(name, sizeof name, "%u.conv.%u", (unsigned)layer->number, (unsigned)(2 * i));
        channels = diti_tiny_load_conv(loader, &layer->convs[i], channels, name);
    }
    diti_format(name, sizeof name, "%u.skip.weight", (unsigned)layer->number);
    if (given != channels) diti_load_matrix(loader, &layer->skip.weight, channels, given, 1, name);
    return channels;
}

/* A product that makes several frames of one, in front of which the size doubles. */
static void diti_tiny_load_frames(diti_loader *loader, diti_tiny_layer *layer, uint32_t channels) {
    char name[64];
    uint32_t rows;
    diti_format(name, sizeof name, "%u.conv.weight", (unsigned)layer->number);
    rows = diti_loader_dimension(loader, name, 0);
    layer->frames = channels ? rows / channels : 0;
    diti_load_matrix(loader, &layer->convs[0].weight, rows, channels, 1, name);
}

static uint32_t diti_tiny_load_single(diti_loader *loader, diti_tiny_layer *layer, uint32_t channels, bool decoder,
                                      bool gap) {
    char name[64];
    diti_format(name, sizeof name, "%u.conv.weight", (unsigned)layer->number);
    layer->up = decoder && gap;
    if (diti_loader_find(loader, name)) {
        diti_tiny_load_frames(loader, layer, channels);
        return channels;
    }
    diti_format(name, sizeof name, "%u", (unsigned)layer->number);
    channels = diti_tiny_load_conv(loader, &layer->convs[0], channels, name);
    layer->down = !decoder && !layer->convs[0].bias.part_count;
    return channels;
}

/* Whether the file has a layer of that number that is no block. */
static bool diti_tiny_has(diti_loader *loader, uint32_t number) {
    char name[64];
    diti_format(name, sizeof name, "%u.weight", (unsigned)number);
    if (diti_loader_find(loader, name)) return true;
    diti_format(name, sizeof name, "%u.conv.weight", (unsigned)number);
    return diti_loader_find(loader, name) != NULL;
}

/* The size doubles before frames are made, but a product of single pixels may as well come first; and between two
   convolutions stands a ReLU. */
static void diti_tiny_settle(diti_tiny_layer *before, diti_tiny_layer *layer) {
    if (before->frames) {
        layer->up = before->up;
        before->up = false;
    } else if (!before->block && layer->up) {
        before->relu = true;
        layer->up = false;
    }
}

/* Returns the channels that the half gives, 0 where there is no such half. */
static uint32_t diti_tiny_load_half(diti_vae *vae, diti_loader *loader, diti_tiny_half *half, bool decoder,
                                    uint32_t channels) {
    uint32_t first, number;
    const char *scope = diti_tiny_scope(loader, decoder, &first);
    char name[64];
    if (!scope) return 0;
    half->layers =
        (diti_tiny_layer *)diti_component_array(&vae->base, loader, DITI_TINY_MAX_LAYERS, sizeof *half->layers);
    if (!half->layers) return 0;
    diti_loader_scope(loader, "%s", scope);
    for (number = first; number < DITI_TINY_MAX_LAYERS && !loader->error.result; number++) {
        diti_tiny_layer *layer = &half->layers[half->count];
        uint32_t before = half->count ? layer[-1].number : number;
        bool block;
        layer->number = number;
        diti_format(name, sizeof name, "%u.conv.0.weight", (unsigned)number);
        block = diti_loader_find(loader, name) != NULL;
        if (!block && !diti_tiny_has(loader, number)) continue;
        if (number > before + (decoder ? 2u : 1u) || (block && number > before + 1 && before != first)) {
            diti_fail(&loader->error, DIT_ERROR_BAD_FILE, "%s: the tiny autoencoder's layer %u follows layer %u",
                      diti_checkpoint_name(loader->checkpoint), (unsigned)number, (unsigned)before);
            break;
        }
        channels = block ? diti_tiny_load_block(loader, layer, channels)
                         : diti_tiny_load_single(loader, layer, channels, decoder, number > before + 1);
        layer->relu = decoder && number == first;
        half->remembers |= layer->remembers;
        if (decoder && half->count && !block) diti_tiny_settle(layer - 1, layer);
        half->count++;
    }
    diti_loader_scope_end(loader);
    return channels;
}

static uint32_t diti_tiny_factor(const diti_tiny_half *half) {
    uint32_t i, factor = 1;
    for (i = 0; i < half->count; i++) factor <<= half->layers[i].up || half->layers[i].down ? 1 : 0;
    return factor;
}

/* By the first convolution of the decoder, or the last one of the encoder. */
static uint32_t diti_tiny_latent(const diti_tiny_half *half, uint32_t given) {
    return half->count ? half->layers[0].convs[0].weight.columns / 9 : given;
}

DIT_INTERNAL void diti_tiny_load(diti_vae *vae, diti_loader *loader) {
    uint32_t first, latent = 0;
    const char *scope = diti_tiny_scope(loader, true, &first);
    char name[64];
    diti_format(name, sizeof name, "%s%u.weight", scope ? scope : "", (unsigned)first);
    vae->tiny_pixels = 3;
    vae->tiny_file = diti_checkpoint_name(loader->checkpoint);
    if (scope) latent = diti_loader_dimension(loader, name, 1);
    if (scope) vae->tiny_pixels = diti_tiny_load_half(vae, loader, &vae->tiny_decoder, true, latent);
    vae->tiny_moments = diti_tiny_load_half(vae, loader, &vae->tiny_encoder, false, 3);
}

DIT_INTERNAL dit_result diti_tiny_check(diti_vae *vae, dit_error *err) {
    uint32_t pixels = vae->tiny_pixels, moments = vae->tiny_moments, patch;
    vae->traits.latent_channels = diti_tiny_latent(&vae->tiny_decoder, moments);
    vae->traits.has_decoder = vae->tiny_decoder.count != 0;
    vae->traits.has_encoder = vae->tiny_encoder.count != 0;
    vae->traits.factor = diti_tiny_factor(vae->traits.has_decoder ? &vae->tiny_decoder : &vae->tiny_encoder);
    for (patch = 1; vae->tiny_decoder.remembers && 3 * patch * patch < pixels;) patch++;
    vae->tiny_decoder.patch = patch;
    vae->traits.factor *= patch;
    pixels /= patch * patch;
    if (pixels == 3 && (!moments || moments == vae->traits.latent_channels)) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "%s: a tiny autoencoder between %u channels of pixels, not 3, and %u or %u of latents",
                     vae->tiny_file, (unsigned)pixels, (unsigned)vae->traits.latent_channels, (unsigned)moments);
}

DIT_INTERNAL bool diti_vae_remembers(const diti_vae *vae) { return vae->tiny_decoder.remembers; }

DIT_INTERNAL void diti_vae_fit(diti_vae *vae, uint32_t latent_channels) {
    diti_vae_traits *traits = &vae->traits;
    if (!traits->tiny || vae->packs || traits->latent_channels * 4 != latent_channels) return;
    vae->packs = true;
    traits->latent_channels *= 4;
    traits->factor *= 2;
    traits->has_encoder = false; /* nothing asks for packed latents of a tiny one */
}

/* x with room that is filled. roomy: so has the result. */
static diti_tensor diti_tiny_conv(diti_graph *graph, diti_tensor x, const diti_layer *layer,
                                  const diti_row_band *row_band, diti_conv_desc *desc, bool relu, bool roomy) {
    diti_row_band to = *row_band;
    desc->pad_before = desc->pad_after = layer->weight.kernel / 2;
    desc->activation = relu ? DITI_ACTIVATION_RELU : DITI_ACTIVATION_NONE;
    desc->name = "tiny_conv";
    x = diti_row_band_conv(graph, row_band, x, layer, desc, roomy);
    to.width <<= desc->upsample;
    to.height <<= desc->upsample;
    if (roomy) diti_row_band_end(graph, &to, diti_row_band_begin(graph, &to, x));
    return x;
}

/* x plus what GroupNorm and ReLU between two products make of it; x and the result with room. */
static diti_tensor diti_tiny_run_pool(diti_graph *graph, diti_tensor x, const diti_tiny_layer *layer,
                                      const diti_row_band *row_band) {
    diti_tensor own = diti_row_band_local(graph, row_band, x), h;
    diti_conv_desc in = DITI_ZERO, out = DITI_ZERO;
    diti_group_norm_desc norm = DITI_ZERO;
    diti_elementwise_desc relu = DITI_ZERO;
    norm.groups = 4;
    norm.eps = 1e-5f;
    norm.name = "tiny_norm";
    relu.activation = DITI_ACTIVATION_RELU;
    relu.name = "tiny_relu";
    out.residual = own;
    h = diti_tiny_conv(graph, own, &layer->pool_in, row_band, &in, false, false);
    h = diti_elementwise(graph, diti_row_band_norm(graph, row_band, h, &layer->pool_norm, &norm, false), &relu);
    return diti_tiny_conv(graph, h, &layer->pool_out, row_band, &out, false, true);
}

/* x beside the frame before it; zeros stand for what is before the first one. [frames * pixels, 2C] */
static diti_tensor diti_tiny_remember(diti_graph *graph, diti_tensor x, const diti_row_band *row_band) {
    uint32_t pixels = row_band->height * row_band->width, rows = row_band->images * pixels;
    uint32_t columns = diti_tensor_columns(graph, x);
    diti_tensor both = diti_tensor_new(graph, graph->activation, rows, 2 * columns, "frames and those before");
    if (diti_graph_failed(graph)) return 0;
    diti_copy(graph, x, diti_tensor_view(graph, both, 0, rows, 0, columns), "frames");
    diti_fill_zeros(graph, diti_tensor_view(graph, both, 0, pixels, columns, columns));
    if (row_band->images > 1)
        diti_copy(graph, diti_tensor_view(graph, x, 0, rows - pixels, 0, columns),
                  diti_tensor_view(graph, both, pixels, rows - pixels, columns, columns), "frames before");
    return both;
}

static diti_tensor diti_tiny_run_block(diti_graph *graph, diti_tensor x, const diti_tiny_layer *layer,
                                       const diti_row_band *row_band, bool last) {
    diti_conv_desc plain = DITI_ZERO, desc = DITI_ZERO;
    diti_tensor sum;
    if (layer->pool_in.weight.part_count) x = diti_tiny_run_pool(graph, x, layer, row_band);
    sum = diti_row_band_local(graph, row_band, x);
    if (layer->skip.weight.part_count) sum = diti_tiny_conv(graph, sum, &layer->skip, row_band, &plain, false, false);
    if (layer->remembers) x = diti_tiny_remember(graph, x, row_band);
    x = diti_tiny_conv(graph, x, &layer->convs[0], row_band, &desc, true, true);
    desc.out = 0;
    x = diti_tiny_conv(graph, x, &layer->convs[1], row_band, &desc, true, true);
    desc.out = 0;
    desc.residual = sum;
    return diti_tiny_conv(graph, x, &layer->convs[2], row_band, &desc, true, !last);
}

/* Frame after frame of the product's columns. only: the last of them all. */
static diti_tensor diti_tiny_run_frames(diti_graph *graph, diti_tensor x, const diti_tiny_layer *layer,
                                        diti_row_band *row_band, bool only) {
    uint32_t pixels = row_band->height * row_band->width, columns = diti_tensor_columns(graph, x);
    diti_conv_desc desc = DITI_ZERO;
    diti_block_desc spread = DITI_ZERO;
    if (only) x = diti_tensor_view(graph, x, (row_band->images - 1) * pixels, pixels, 0, columns);
    if (only) row_band->images = 1;
    x = diti_tiny_conv(graph, x, &layer->convs[0], row_band, &desc, false, false);
    if (layer->frames == 1) return x;
    if (only) return diti_tensor_view(graph, x, 0, pixels, (layer->frames - 1) * columns, columns);
    spread.clip.frames = row_band->images;
    spread.clip.height = row_band->height;
    spread.clip.width = row_band->width;
    spread.columns = spread.time_step = columns;
    spread.time = layer->frames;
    spread.side = spread.channel_step = 1;
    spread.name = "tiny_frames";
    row_band->images *= layer->frames;
    return diti_spread_frames(graph, x, &spread);
}

static diti_tensor diti_tiny_run_layer(diti_graph *graph, diti_tensor x, const diti_tiny_layer *layer,
                                       diti_row_band *row_band, bool last) {
    diti_conv_desc desc = DITI_ZERO;
    if (layer->block) return diti_tiny_run_block(graph, x, layer, row_band, last);
    desc.stride = layer->down ? 2 : 1;
    desc.upsample = layer->up;
    desc.out_f32 = last;
    x = diti_tiny_conv(graph, x, &layer->convs[0], row_band, &desc, layer->relu, !last);
    row_band->height = (row_band->height << layer->up) >> layer->down;
    row_band->width = (row_band->width << layer->up) >> layer->down;
    return x;
}

/* The first frame of TAEHV's is the last of those that its decoder makes of one latent frame: what is computed behind
   the last block that remembers is computed of that frame alone. */
static diti_tensor diti_tiny_run(diti_graph *graph, diti_tensor x, const diti_tiny_half *half, diti_row_band row_band) {
    uint32_t i, memory = 0;
    for (i = 0; i < half->count; i++)
        if (half->layers[i].remembers) memory = i;
    for (i = 0; i < half->count && !diti_graph_failed(graph); i++)
        x = half->layers[i].frames ? diti_tiny_run_frames(graph, x, &half->layers[i], &row_band, i > memory)
                                   : diti_tiny_run_layer(graph, x, &half->layers[i], &row_band, i + 1 == half->count);
    return x;
}

/* A pixel of what the last convolution gives is patch x patch of the picture's, channel c * patch^2 + dy * patch + dx.
 */
static diti_tensor diti_tiny_unpatch(const diti_vae *vae, diti_graph *graph, diti_tensor x, uint32_t lines,
                                     uint32_t width) {
    uint32_t patch = vae->tiny_decoder.patch;
    diti_block_desc spread = DITI_ZERO;
    if (patch <= 1) return x;
    spread.clip.frames = 1;
    spread.clip.height = lines;
    spread.clip.width = width;
    spread.columns = 3;
    spread.time = 1;
    spread.side = spread.line_step = patch;
    spread.channel_step = spread.time_step = patch * patch;
    spread.pixel_step = 1;
    spread.out_f32 = true;
    spread.name = "tiny_patches";
    return diti_spread_frames(graph, x, &spread);
}

DIT_INTERNAL diti_tensor diti_tiny_decode(const diti_vae *vae, diti_graph *graph, diti_tensor x,
                                          diti_row_band row_band) {
    uint32_t patch = vae->tiny_decoder.patch, scale = vae->traits.factor / patch;
    diti_elementwise_desc to_image = DITI_ZERO, squash = DITI_ZERO;
    diti_row_band latent = row_band;
    squash.activation = DITI_ACTIVATION_SQUASH;
    squash.name = "tiny_squash";
    to_image.scale = 2;
    to_image.offset = -1;
    to_image.out_f32 = true;
    to_image.name = "tiny_image";
    if (vae->packs) x = diti_kl_unpack(graph, vae, x, &latent);
    x = diti_tiny_run(graph, diti_elementwise(graph, x, &squash), &vae->tiny_decoder, latent);
    x = diti_tiny_unpatch(vae, graph, x, row_band.height * scale, row_band.width * scale);
    return diti_elementwise(graph, x, &to_image);
}

DIT_INTERNAL diti_tensor diti_tiny_encode(const diti_vae *vae, diti_graph *graph, diti_tensor x,
                                          diti_row_band row_band) {
    diti_elementwise_desc from_image = DITI_ZERO;
    from_image.scale = 0.5f;
    from_image.offset = 0.5f;
    from_image.name = "tiny_image";
    return diti_tiny_run(graph, diti_elementwise(graph, x, &from_image), &vae->tiny_encoder, row_band);
}
