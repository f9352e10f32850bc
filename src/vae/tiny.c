#include "vae/vae.h"

/* AutoencoderTiny (docs/models.md 4.2): convolutions and blocks by their numbers, where a missing number means
   something: after the decoder's first convolution a ReLU, later that the size doubles. Convolutions of the encoder
   that halve it have no bias. */

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

static uint32_t diti_tiny_load_block(diti_loader *loader, diti_tiny_layer *layer, uint32_t channels) {
    uint32_t given = channels, i;
    char name[64];
    layer->block = true;
    for (i = 0; i < 3; i++) {
        diti_format(name, sizeof name, "%u.conv.%u", (unsigned)layer->number, (unsigned)(2 * i));
        channels = diti_tiny_load_conv(loader, &layer->convs[i], channels, name);
    }
    diti_format(name, sizeof name, "%u.skip.weight", (unsigned)layer->number);
    if (given != channels) diti_load_matrix(loader, &layer->skip.weight, channels, given, 1, name);
    return channels;
}

static uint32_t diti_tiny_load_single(diti_loader *loader, diti_tiny_layer *layer, uint32_t channels, bool decoder,
                                      bool gap) {
    char name[64];
    diti_format(name, sizeof name, "%u", (unsigned)layer->number);
    channels = diti_tiny_load_conv(loader, &layer->convs[0], channels, name);
    layer->up = decoder && gap;
    layer->down = !decoder && !layer->convs[0].bias.part_count;
    return channels;
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
        diti_format(name, sizeof name, "%u.weight", (unsigned)number);
        if (!block && !diti_loader_find(loader, name)) continue;
        if (number > before + (decoder ? 2u : 1u) || (block && number > before + 1 && before != first)) {
            diti_fail(&loader->error, DIT_ERROR_BAD_FILE, "%s: the tiny autoencoder's layer %u follows layer %u",
                      diti_checkpoint_name(loader->checkpoint), (unsigned)number, (unsigned)before);
            break;
        }
        channels = block ? diti_tiny_load_block(loader, layer, channels)
                         : diti_tiny_load_single(loader, layer, channels, decoder, number > before + 1);
        layer->relu = decoder && number == first;
        half->count++;
    }
    diti_loader_scope(loader, "%s", "");
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
    uint32_t pixels = vae->tiny_pixels, moments = vae->tiny_moments;
    vae->traits.latent_channels = diti_tiny_latent(&vae->tiny_decoder, moments);
    vae->traits.has_decoder = vae->tiny_decoder.count != 0;
    vae->traits.has_encoder = vae->tiny_encoder.count != 0;
    vae->traits.factor = diti_tiny_factor(vae->traits.has_decoder ? &vae->tiny_decoder : &vae->tiny_encoder);
    if (pixels == 3 && (!moments || moments == vae->traits.latent_channels)) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "%s: a tiny autoencoder between %u channels of pixels, not 3, and %u or %u of latents",
                     vae->tiny_file, (unsigned)pixels, (unsigned)vae->traits.latent_channels, (unsigned)moments);
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

static diti_tensor diti_tiny_run_block(diti_graph *graph, diti_tensor x, const diti_tiny_layer *layer,
                                       const diti_row_band *row_band, bool last) {
    diti_conv_desc plain = DITI_ZERO, desc = DITI_ZERO;
    diti_tensor sum = diti_row_band_own(graph, row_band, x);
    if (layer->skip.weight.part_count) sum = diti_tiny_conv(graph, sum, &layer->skip, row_band, &plain, false, false);
    x = diti_tiny_conv(graph, x, &layer->convs[0], row_band, &desc, true, true);
    desc.out = 0;
    x = diti_tiny_conv(graph, x, &layer->convs[1], row_band, &desc, true, true);
    desc.out = 0;
    desc.residual = sum;
    return diti_tiny_conv(graph, x, &layer->convs[2], row_band, &desc, true, !last);
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

static diti_tensor diti_tiny_run(diti_graph *graph, diti_tensor x, const diti_tiny_half *half, diti_row_band row_band) {
    uint32_t i;
    for (i = 0; i < half->count; i++)
        x = diti_tiny_run_layer(graph, x, &half->layers[i], &row_band, i + 1 == half->count);
    return x;
}

DIT_INTERNAL diti_tensor diti_tiny_decode(const diti_vae *vae, diti_graph *graph, diti_tensor x,
                                          diti_row_band row_band) {
    diti_elementwise_desc to_image = DITI_ZERO, squash = DITI_ZERO;
    squash.activation = DITI_ACTIVATION_SQUASH;
    squash.name = "tiny_squash";
    to_image.scale = 2;
    to_image.offset = -1;
    to_image.out_f32 = true;
    to_image.name = "tiny_image";
    x = diti_elementwise(graph, x, &squash);
    return diti_elementwise(graph, diti_tiny_run(graph, x, &vae->tiny_decoder, row_band), &to_image);
}

DIT_INTERNAL diti_tensor diti_tiny_encode(const diti_vae *vae, diti_graph *graph, diti_tensor x,
                                          diti_row_band row_band) {
    diti_elementwise_desc from_image = DITI_ZERO;
    from_image.scale = 0.5f;
    from_image.offset = 0.5f;
    from_image.name = "tiny_image";
    return diti_tiny_run(graph, diti_elementwise(graph, x, &from_image), &vae->tiny_encoder, row_band);
}
