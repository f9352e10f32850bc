#include "vae/vae.h"

/* AutoencoderDC, DC-AE (docs/models.md 4.6). Original:
   https://github.com/huggingface/diffusers/blob/v0.36.0/src/diffusers/models/autoencoders/autoencoder_dc.py

   Each level has blocks of one kind, of two convolutions, or of attention without a softmax and a feed-forward whose
   middle is a convolution. Where the size changes, pixels and channels are traded for each other beside the
   convolution. The residual stream is F32; what is in it may be larger than halves can be. */

#define DITI_DC_MAX_LEVELS 8u
#define DITI_DC_MAX_BLOCKS 16u
#define DITI_DC_MAX_SCALES 3u

typedef struct diti_dc_block {
    bool attends;
    diti_layer conv1, conv2, norm;         /* [C, 9C] each, the second one without a bias; RMS norm [C] */
    diti_fused_linear qkv;                 /* [3 inner, C], without biases */
    diti_weight taps[DITI_DC_MAX_SCALES];  /* F32 [3 inner, k * k] */
    diti_weight mixes[DITI_DC_MAX_SCALES]; /* F32 [3 inner, head_dim] */
    uint32_t scales, inner;
    diti_layer out, norm_attention; /* [C, inner * (1 + scales)], [C] */
    diti_layer ff_in, ff_out;       /* [2 hidden, C], [C, hidden] */
    diti_weight ff_depth, ff_biases;
    diti_layer norm_ff;
} diti_dc_block;
typedef struct diti_dc_level {
    diti_layer
        resample; /* 3x3: before the blocks of a decoder, behind those of an encoder; none at the coarsest level */
    diti_dc_block blocks[DITI_DC_MAX_BLOCKS];
    uint32_t count, channels;
} diti_dc_level;
typedef struct diti_dc_half {
    diti_layer conv_in, norm_out, conv_out; /* an encoder has no norm */
    diti_dc_level *levels;                  /* from the finest on */
    uint32_t level_count;
    bool present, shortcut;
} diti_dc_half;
struct diti_dc {
    diti_dc_half decoder, encoder;
    uint32_t head_dim;
};

DIT_INTERNAL bool diti_dc_is(diti_loader *loader, const char *class_name) {
    return diti_equal(class_name, "AutoencoderDC") ||
           (diti_equal(class_name, "AutoencoderTiny") &&
            (diti_loader_find(loader, "decoder.up_blocks.0.1.conv1.weight") ||
             diti_loader_find(loader, "encoder.down_blocks.0.0.conv1.weight")));
}

/* ---- reading ---- */

DIT_INTERNAL dit_result diti_dc_read(diti_vae *vae, diti_loader *loader, const diti_json *config, dit_error *err) {
    diti_settings settings = diti_settings_of(config, "the autoencoder's config.json", err);
    uint32_t latent = diti_loader_dimension(loader, "decoder.conv_in.weight", 1);
    if (!latent) latent = diti_loader_dimension(loader, "encoder.conv_out.weight", 0);
    vae->dc = (struct diti_dc *)diti_component_array(&vae->base, loader, 1, sizeof *vae->dc);
    if (!vae->dc) return loader->error.result;
    diti_settings_check_words(&settings, "encoder_block_types", "ResBlock EfficientViTBlock");
    diti_settings_check_words(&settings, "decoder_block_types", "ResBlock EfficientViTBlock");
    diti_settings_check_words(&settings, "decoder_norm_types", "rms_norm");
    diti_settings_check_words(&settings, "decoder_act_fns", "silu");
    diti_settings_check_words(&settings, "decoder_conv_act_fn", "relu");
    vae->dc->head_dim = diti_setting_size(&settings, "attention_head_dim", 32, 128);
    vae->dc->encoder.shortcut = diti_setting_bool(&settings, "encoder_out_shortcut", true);
    vae->dc->decoder.shortcut = diti_setting_bool(&settings, "decoder_in_shortcut", true);
    vae->traits.latent_channels = diti_setting_size(&settings, "latent_channels", latent, DITI_VAE_MAX_CHANNELS);
    vae->traits.exact = true;
    DITI_TRY(settings.result);
    if (latent && latent == vae->traits.latent_channels && vae->dc->head_dim % 4 == 0) return DIT_OK;
    return diti_loader_refuse(loader, err,
                              "an AutoencoderDC with %u channels of latents and heads of %u is out of range",
                              (unsigned)latent, (unsigned)vae->dc->head_dim);
}

/* ---- loading ---- */

static void diti_dc_load_attention(diti_loader *loader, diti_dc_block *block, uint32_t channels, uint32_t head_dim) {
    static const char *const qkv[] = {"attn.to_q", "attn.to_k", "attn.to_v"};
    uint32_t i, hidden = diti_loader_dimension(loader, "conv_out.conv_point.weight", 1);
    char name[96];
    block->inner = diti_loader_dimension(loader, "attn.to_q.weight", 0);
    diti_load_fused_linear(loader, &block->qkv, qkv, 3, block->inner, channels, false);
    for (i = 0; i < DITI_DC_MAX_SCALES; i++) {
        uint32_t side;
        diti_format(name, sizeof name, "attn.to_qkv_multiscale.%u.proj_in.weight", (unsigned)i);
        side = diti_loader_dimension(loader, name, 3);
        if (!side) break;
        diti_load_vector(loader, &block->taps[i], 3 * block->inner, side * side, name);
        diti_format(name, sizeof name, "attn.to_qkv_multiscale.%u.proj_out.weight", (unsigned)i);
        diti_load_vector(loader, &block->mixes[i], 3 * block->inner, head_dim, name);
    }
    block->scales = i;
    diti_load_bare(loader, &block->out, channels, block->inner * (1 + block->scales), "attn.to_out");
    diti_load_norm(loader, &block->norm_attention, channels, "attn.norm_out");
    diti_load_layer(loader, &block->ff_in, 2 * hidden, channels, 1, "conv_out.conv_inverted");
    diti_load_vector(loader, &block->ff_depth, 2 * hidden, 9, "conv_out.conv_depth.weight");
    diti_load_vector(loader, &block->ff_biases, 1, 2 * hidden, "conv_out.conv_depth.bias");
    diti_load_bare(loader, &block->ff_out, channels, hidden, "conv_out.conv_point");
    diti_load_norm(loader, &block->norm_ff, channels, "conv_out.norm");
}

/* The block in the loader's scope, if there is one. */
static bool diti_dc_load_block(diti_loader *loader, diti_dc_block *block, uint32_t channels, uint32_t head_dim) {
    block->attends = diti_loader_find(loader, "attn.to_q.weight") != NULL;
    if (block->attends) {
        diti_dc_load_attention(loader, block, channels, head_dim);
    } else if (diti_loader_find(loader, "conv1.weight")) {
        diti_load_layer(loader, &block->conv1, channels, 9 * channels, 3, "conv1");
        diti_load_conv(loader, &block->conv2, channels, channels, 1, 3, false, "conv2");
        diti_load_norm(loader, &block->norm, channels, "norm");
    } else {
        return false;
    }
    return true;
}

/* Level `index` of a half, whose names count from the finest level on; other: channels of the level that is coarser. */
static void diti_dc_load_level(diti_loader *loader, diti_dc_level *level, bool decoder, uint32_t index,
                               uint32_t head_dim, uint32_t other) {
    const char *list = decoder ? "decoder.up_blocks" : "encoder.down_blocks";
    uint32_t number, rows;
    for (number = 0; number <= DITI_DC_MAX_BLOCKS && !loader->error.result; number++) {
        diti_loader_scope(loader, "%s.%u.%u.", list, (unsigned)index, (unsigned)number);
        rows = diti_loader_dimension(loader, "conv.weight", 0);
        if (rows)
            diti_load_layer(loader, &level->resample, rows, 9 * (decoder ? other : level->channels), 3, "conv");
        else if (level->count == DITI_DC_MAX_BLOCKS ||
                 !diti_dc_load_block(loader, &level->blocks[level->count], level->channels, head_dim))
            break;
        else
            level->count++;
    }
    diti_loader_scope_end(loader);
}

/* Channels of a level, which its first block tells. */
static uint32_t diti_dc_channels(diti_loader *loader, bool decoder, uint32_t index) {
    static const char *const names[] = {"conv1.weight", "attn.to_out.weight"};
    uint32_t number, i, channels = 0;
    for (number = 0; number < 2; number++)
        for (i = 0; i < DITI_COUNT(names) && !channels; i++) {
            char name[96];
            diti_format(name, sizeof name, "%s.%u.%u.%s", decoder ? "decoder.up_blocks" : "encoder.down_blocks",
                        (unsigned)index, (unsigned)number, names[i]);
            channels = diti_loader_dimension(loader, name, 0);
        }
    return channels;
}

static void diti_dc_load_half(diti_vae *vae, diti_loader *loader, diti_dc_half *half, bool decoder) {
    uint32_t latent = vae->traits.latent_channels, i;
    half->levels = (diti_dc_level *)diti_component_array(&vae->base, loader, DITI_DC_MAX_LEVELS, sizeof *half->levels);
    if (!half->levels) return;
    half->present = true;
    for (i = 0; i < DITI_DC_MAX_LEVELS; i++) {
        half->levels[i].channels = diti_dc_channels(loader, decoder, i);
        if (!half->levels[i].channels) break;
    }
    half->level_count = i;
    if (!i) {
        diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL,
                  "%s: an AutoencoderDC without blocks at its finest level is not known",
                  diti_checkpoint_name(loader->checkpoint));
        return;
    }
    if (decoder) {
        diti_load_layer(loader, &half->conv_in, half->levels[i - 1].channels, 9 * latent, 3, "decoder.conv_in");
        diti_load_norm(loader, &half->norm_out, half->levels[0].channels, "decoder.norm_out");
        diti_load_layer(loader, &half->conv_out, 3, 9 * half->levels[0].channels, 3, "decoder.conv_out");
    } else {
        diti_load_layer(loader, &half->conv_in, half->levels[0].channels, 27, 3, "encoder.conv_in");
        diti_load_layer(loader, &half->conv_out, latent, 9 * half->levels[i - 1].channels, 3, "encoder.conv_out");
    }
    for (i = 0; i < half->level_count; i++)
        diti_dc_load_level(loader, &half->levels[i], decoder, i, vae->dc->head_dim,
                           i + 1 < half->level_count ? half->levels[i + 1].channels : 0);
}

DIT_INTERNAL void diti_dc_load(diti_vae *vae, diti_loader *loader) {
    if (diti_loader_find(loader, "decoder.conv_in.weight")) diti_dc_load_half(vae, loader, &vae->dc->decoder, true);
    if (diti_loader_find(loader, "encoder.conv_in.weight")) diti_dc_load_half(vae, loader, &vae->dc->encoder, false);
    vae->traits.has_decoder = vae->dc->decoder.present;
    vae->traits.has_encoder = vae->dc->encoder.present;
}

/* Shortcuts repeat channels, or take means of them, as often as one number of channels is in the other. */
static bool diti_dc_fits(const diti_vae *vae, const diti_dc_half *half, bool decoder) {
    uint32_t i, last, head_dim = vae->dc->head_dim, latent = vae->traits.latent_channels;
    if (!half->present) return true;
    last = half->levels[half->level_count - 1].channels;
    for (i = 0; i < half->level_count; i++) {
        const diti_dc_level *level = &half->levels[i];
        uint32_t rows = level->resample.weight.rows, more = i + 1 < half->level_count ? level[1].channels : 0, k;
        uint32_t given = decoder ? level->channels : more, traded = decoder ? 4 * given : given / 4;
        if (level->channels % 4 || !level->count || (rows != 0) != (more != 0)) return false;
        if (rows && rows != given && rows != traded) return false;
        if (rows && 4 * level->channels % more) return false;
        for (k = 0; k < level->count; k++)
            if (level->blocks[k].attends && (!level->blocks[k].inner || level->blocks[k].inner % head_dim))
                return false;
    }
    return !half->shortcut || last % latent == 0;
}

DIT_INTERNAL dit_result diti_dc_check(diti_vae *vae, dit_error *err) {
    const diti_dc_half *half = vae->dc->decoder.present ? &vae->dc->decoder : &vae->dc->encoder;
    vae->traits.factor = half->level_count ? 1u << (half->level_count - 1) : 0;
    if (half->present && diti_dc_fits(vae, &vae->dc->decoder, true) && diti_dc_fits(vae, &vae->dc->encoder, false))
        return DIT_OK;
    return diti_fail(
        err, DIT_ERROR_UNSUPPORTED_MODEL,
        "the AutoencoderDC has levels, channels or heads (config.json: attention_head_dim) that do not fit "
        "each other");
}

/* ---- computing ---- */

/* 3x3, padding of 1. */
static diti_tensor diti_dc_conv(diti_graph *graph, diti_tensor x, const diti_layer *layer, const diti_row_band *size,
                                diti_conv_desc *desc, const char *name) {
    desc->batch = 1;
    desc->height = size->height;
    desc->width = size->width;
    desc->bias = &layer->bias;
    desc->pad_before = desc->pad_after = 1;
    desc->name = name;
    return diti_conv(graph, x, &layer->weight, desc);
}

/* RMS(x) * weight + bias, plus residual. */
static diti_tensor diti_dc_norm(diti_graph *graph, diti_tensor x, const diti_layer *layer, diti_tensor residual) {
    diti_norm_desc desc = DITI_ZERO;
    desc.rms = desc.out_f32 = true;
    desc.eps = 1e-5f;
    desc.weight = &layer->weight;
    desc.bias = &layer->bias;
    desc.residual = residual;
    desc.name = "dc_norm";
    return diti_norm(graph, x, &desc);
}

/* A layer without a bias. */
static diti_tensor diti_dc_linear(diti_graph *graph, diti_tensor x, const diti_layer *layer, const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.out_f32 = true;
    desc.name = name;
    return diti_linear(graph, x, &layer->weight, &desc);
}

static diti_tensor diti_dc_resnet(diti_graph *graph, diti_tensor x, const diti_dc_block *block,
                                  const diti_row_band *size) {
    diti_conv_desc first = DITI_ZERO, second = DITI_ZERO;
    diti_tensor h;
    first.activation = DITI_ACTIVATION_SILU;
    second.out_f32 = true;
    h = diti_dc_conv(graph, x, &block->conv1, size, &first, "dc_conv1");
    return diti_dc_norm(graph, diti_dc_conv(graph, h, &block->conv2, size, &second, "dc_conv2"), &block->norm, x);
}

/* Queries, keys and values as they are, and as every scale has mixed them with their neighbours. */
static diti_tensor diti_dc_attend(diti_graph *graph, diti_tensor x, const diti_dc_block *block, uint32_t head_dim,
                                  const diti_row_band *size) {
    uint32_t rows = diti_tensor_rows(graph, x), columns = 3 * block->inner, i;
    diti_tensor all = diti_tensor_new(graph, DITI_F32, rows, columns * (1 + block->scales), "dc_qkv"), own, h;
    diti_linear_attention_desc attention = DITI_ZERO;
    diti_linear_desc linear = DITI_ZERO;
    own = diti_tensor_view(graph, all, 0, rows, 0, columns);
    linear.out = own;
    linear.name = "dc_qkv";
    diti_linear_fused(graph, x, &block->qkv, &linear);
    for (i = 0; i < block->scales && !diti_graph_failed(graph); i++) {
        diti_depthwise_desc depth = DITI_ZERO;
        depth.height = size->height;
        depth.width = size->width;
        depth.weight = &block->taps[i];
        depth.name = "dc_scale";
        diti_grouped(graph, diti_depthwise(graph, own, &depth), &block->mixes[i],
                     diti_tensor_view(graph, all, 0, rows, (i + 1) * columns, columns), "dc_scale_mix");
    }
    attention.items = 1;
    attention.heads = (1 + block->scales) * block->inner / head_dim;
    attention.head_dim = attention.key_offset = head_dim;
    attention.step = 3 * head_dim;
    attention.value_offset = 2 * head_dim;
    attention.name = "dc_attention";
    h = diti_linear_attention(graph, all, &attention);
    h = diti_dc_linear(graph, h, &block->out, "dc_attention_out");
    return diti_dc_norm(graph, h, &block->norm_attention, x);
}

static diti_tensor diti_dc_feed(diti_graph *graph, diti_tensor x, const diti_dc_block *block,
                                const diti_row_band *size) {
    uint32_t rows = diti_tensor_rows(graph, x), hidden = block->ff_out.weight.columns;
    diti_linear_desc linear = DITI_ZERO;
    diti_depthwise_desc depth = DITI_ZERO;
    diti_tensor h;
    linear.bias = &block->ff_in.bias;
    linear.activation = DITI_ACTIVATION_SILU;
    linear.out_f32 = true;
    linear.name = "dc_ff_in";
    h = diti_linear(graph, x, &block->ff_in.weight, &linear);
    depth.height = size->height;
    depth.width = size->width;
    depth.weight = &block->ff_depth;
    depth.bias = &block->ff_biases;
    depth.gate = diti_tensor_view(graph, h, 0, rows, hidden, hidden);
    depth.gate_first = hidden;
    depth.name = "dc_ff_depth";
    h = diti_depthwise(graph, diti_tensor_view(graph, h, 0, rows, 0, hidden), &depth);
    return diti_dc_norm(graph, diti_dc_linear(graph, h, &block->ff_out, "dc_ff_out"), &block->norm_ff, x);
}

static diti_tensor diti_dc_run_blocks(diti_graph *graph, diti_tensor x, const diti_dc_level *level, uint32_t head_dim,
                                      const diti_row_band *size) {
    uint32_t i;
    for (i = 0; i < level->count && !diti_graph_failed(graph); i++) {
        const diti_dc_block *block = &level->blocks[i];
        if (!block->attends) {
            x = diti_dc_resnet(graph, x, block, size);
            continue;
        }
        x = diti_dc_attend(graph, x, block, head_dim, size);
        x = diti_dc_feed(graph, x, block, size);
    }
    return x;
}

/* How channels and blocks of side x side pixels are traded: number channel * side^2 + dy * side + dx. clip: of x. */
static diti_block_desc diti_dc_trade(const diti_row_band *size, uint32_t side, uint32_t columns, const char *name) {
    diti_block_desc block = DITI_ZERO;
    block.clip.frames = 1;
    block.clip.height = size->height;
    block.clip.width = size->width;
    block.columns = columns;
    block.time = 1;
    block.side = side;
    block.channel_step = block.time_step = side * side;
    block.line_step = side;
    block.pixel_step = 1;
    block.out_f32 = true;
    block.name = name;
    return block;
}

/* Twice the size: the convolution of pixels that stand for four, or of channels that become them, plus x, whose
   channels are repeated and then become pixels. */
static diti_tensor diti_dc_up(diti_graph *graph, diti_tensor x, const diti_layer *layer, uint32_t channels,
                              diti_row_band *size) {
    diti_block_desc shortcut = diti_dc_trade(size, 2, channels, "dc_up"), shuffle = shortcut;
    diti_conv_desc conv = DITI_ZERO;
    conv.upsample = layer->weight.rows == channels;
    conv.out_f32 = true;
    shortcut.more = diti_dc_conv(graph, x, layer, size, &conv, "dc_up");
    if (!conv.upsample) shortcut.more = diti_spread_frames(graph, shortcut.more, &shuffle);
    if (diti_graph_failed(graph)) return 0;
    shortcut.repeats = 4 * channels / diti_tensor_columns(graph, x);
    size->height *= 2;
    size->width *= 2;
    return diti_spread_frames(graph, x, &shortcut);
}

/* Half the size, in the same way: pixels become channels, and means of these are taken. */
static diti_tensor diti_dc_down(diti_graph *graph, diti_tensor x, const diti_layer *layer, uint32_t channels,
                                diti_row_band *size) {
    diti_block_desc shortcut = diti_dc_trade(size, 2, channels, "dc_down"), shuffle = shortcut;
    diti_conv_desc conv = DITI_ZERO;
    conv.stride = layer->weight.rows == channels ? 2 : 1;
    conv.out_f32 = true;
    shortcut.more = diti_dc_conv(graph, x, layer, size, &conv, "dc_down");
    if (conv.stride == 1) shortcut.more = diti_gather_frames(graph, shortcut.more, &shuffle);
    if (diti_graph_failed(graph)) return 0;
    shortcut.repeats = 4 * diti_tensor_columns(graph, x) / channels;
    size->height /= 2;
    size->width /= 2;
    return diti_gather_frames(graph, x, &shortcut);
}

DIT_INTERNAL diti_tensor diti_dc_decode(const diti_vae *vae, diti_graph *graph, diti_tensor x, diti_row_band size) {
    const diti_dc_half *half = &vae->dc->decoder;
    uint32_t i, last = half->levels[half->level_count - 1].channels;
    diti_block_desc repeat = diti_dc_trade(&size, 1, last, "dc_conv_in");
    diti_conv_desc in = DITI_ZERO, out = DITI_ZERO;
    diti_elementwise_desc relu = DITI_ZERO;
    in.out_f32 = out.out_f32 = true;
    repeat.more = diti_dc_conv(graph, x, &half->conv_in, &size, &in, "dc_conv_in");
    repeat.repeats = last / vae->traits.latent_channels;
    x = half->shortcut ? diti_spread_frames(graph, x, &repeat) : repeat.more;
    for (i = half->level_count; i-- > 0 && !diti_graph_failed(graph);) {
        const diti_dc_level *level = &half->levels[i];
        if (level->resample.weight.part_count) x = diti_dc_up(graph, x, &level->resample, level->channels, &size);
        x = diti_dc_run_blocks(graph, x, level, vae->dc->head_dim, &size);
    }
    relu.activation = DITI_ACTIVATION_RELU;
    relu.name = "dc_relu";
    x = diti_elementwise(graph, diti_dc_norm(graph, x, &half->norm_out, 0), &relu);
    return diti_dc_conv(graph, x, &half->conv_out, &size, &out, "dc_conv_out");
}

DIT_INTERNAL diti_tensor diti_dc_encode(const diti_vae *vae, diti_graph *graph, diti_tensor x, diti_row_band size) {
    const diti_dc_half *half = &vae->dc->encoder;
    uint32_t i, last = half->levels[half->level_count - 1].channels, latent = vae->traits.latent_channels;
    diti_conv_desc in = DITI_ZERO, out = DITI_ZERO;
    diti_block_desc mean;
    in.out_f32 = out.out_f32 = true;
    x = diti_dc_conv(graph, x, &half->conv_in, &size, &in, "dc_conv_in");
    for (i = 0; i < half->level_count && !diti_graph_failed(graph); i++) {
        const diti_dc_level *level = &half->levels[i];
        x = diti_dc_run_blocks(graph, x, level, vae->dc->head_dim, &size);
        if (level->resample.weight.part_count) x = diti_dc_down(graph, x, &level->resample, level[1].channels, &size);
    }
    mean = diti_dc_trade(&size, 1, latent, "dc_conv_out");
    mean.more = diti_dc_conv(graph, x, &half->conv_out, &size, &out, "dc_conv_out");
    mean.repeats = last / latent;
    return half->shortcut ? diti_gather_frames(graph, x, &mean) : mean.more;
}
