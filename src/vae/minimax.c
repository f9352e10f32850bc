#include "vae/vae.h"

/* AutoencoderKLMiniMaxH3 (docs/models.md 4.10.2). Original:
   https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/models/autoencoders/autoencoder_kl_minimax_h3.py

   The encoder has convolutions over time, and reads single pictures here. The decoder is a transformer. A latent
   element is a token, which attends all others of its tile and of the seven latent frames of a chunk, and becomes a
   block of pixels and frames at the end. Chunks overlap by two latent frames, whose pictures fade into each other. */

#define DITI_MINIMAX_VAE_MAX_BLOCKS 128u
enum {                           /* frames, as all published models have them */
       DITI_MINIMAX_FACTOR = 4,  /* pictures that a latent frame becomes */
       DITI_MINIMAX_CLIP = 17,   /* pictures of a chunk that the next one begins behind */
       DITI_MINIMAX_STRIDE = 5,  /* latent frames of them */
       DITI_MINIMAX_OVERLAP = 2, /* latent frames that a chunk has with the next one in common */
       DITI_MINIMAX_DROPPED = 3, /* pictures that are made before the first one of a chunk, and of the overlap */
       DITI_MINIMAX_FADED = 5,   /* pictures of the overlap */
       DITI_MINIMAX_TILE = 256   /* pixels of a tile's side */
};

typedef struct diti_minimax_vae_block {
    diti_layer norm1, norm2;    /* [D]: RMS norms */
    diti_fused_linear qkv;      /* [3D, D] */
    diti_layer out;             /* [D, D] */
    diti_layer ff_in, ff_gate;  /* [feed, D] each */
    diti_layer ff_out;          /* [D, feed] */
    diti_weight scale1, scale2; /* F32 [1, D]: what attention and feed-forward count */
} diti_minimax_vae_block;
struct diti_minimax_vae {
    uint32_t width, heads, head_dim, blocks, feed, registers, turned; /* turned: channels of a head that rotate */
    bool mixed;                                                       /* queries, keys and values lie head by head */
    float eps, theta;
    diti_layer post_quant, in;   /* [C, C], [D, C] */
    diti_weight register_tokens; /* F32 [registers, D] */
    diti_minimax_vae_block *block;
    diti_layer norm_out, out; /* [D], [3 * 4 * factor^2, D] */
    diti_kl_half encoder;
    diti_layer quant; /* [2C, 2C] */
};

/* The original's names. Its queries, keys and values are one matrix, head by head, and its feed-forward has the half
   with the activation first. */
static const char *const diti_minimax_vae_keys[][2] = {
    {"decoder.proj_in", "decoder.x_embedder"}, {"decoder.proj_out", "decoder.proj_out"},
    {"decoder.norm_out", "decoder.norm_out"},  {"decoder.register_tokens", "decoder.register_tokens"},
    {"post_quant_conv", "post_quant_conv"},
};
static const char *const diti_minimax_vae_block_keys[][2] = {
    {"norm1", "norm1"},   {"norm2", "norm2"},         {"attn.to_qkv", "attn.to_qkv"}, {"attn.to_out.0", "attn.to_out"},
    {"scale1", "scale1"}, {"ff.net.0.proj", "ff.w1"}, {"ff.net.2", "ff.w2"},          {"scale2", "scale2"},
};
static const diti_key_table diti_minimax_vae_names[DITI_KEY_TABLES] = {
    {"decoder.transformer_blocks.", "decoder.transformer_blocks.", diti_minimax_vae_block_keys,
     DITI_COUNT(diti_minimax_vae_block_keys)},
    {NULL, NULL, diti_minimax_vae_keys, DITI_COUNT(diti_minimax_vae_keys)},
    {NULL, "", NULL, 0}, /* the encoder's */
};

/* Statistics of the published model's latents, for files without a config.json. */
/* clang-format off */
static const float diti_minimax_vae_means[24] = {
    0.85809034f, -0.96065915f, 1.066164f, -0.50903255f, -0.27275819f, -1.3675414f, -0.2553255f, -0.26907554f,
    -0.53768408f, -0.046409730f, 0.66573703f, 0.19690128f, -0.5460608f, -0.4035342f, -0.23683025f, 0.25928453f,
    -0.30133945f, 0.21134199f, -1.1206849f, 0.35819334f, -0.042251438f, 0.260483f, 0.22864093f, 0.70560318f};
static const float diti_minimax_vae_deviations[24] = {
    1.2223774f, 1.2767264f, 1.6831775f, 1.7549455f, 1.5636216f, 2.1941435f, 0.96531379f, 1.0569886f,
    0.84194893f, 0.77299529f, 1.8955938f, 0.94684184f, 0.79968095f, 0.449889f, 0.71973997f, 0.69362932f,
    2.9610951f, 2.7694199f, 3.0496185f, 2.1088054f, 3.2762263f, 3.1627357f, 2.2816813f, 2.6127844f};
/* clang-format on */

/* ---- reading ---- */

static bool diti_minimax_vae_is(diti_loader *loader, const diti_json *config) {
    return diti_equal(diti_json_string(config, "_class_name", ""), "AutoencoderKLMiniMaxH3") ||
           diti_loader_find(loader, "decoder.register_tokens") != NULL;
}

static dit_result diti_minimax_vae_check(const diti_vae *vae, const diti_loader *loader, dit_error *err) {
    const struct diti_minimax_vae *own = vae->minimax;
    const char *file = diti_checkpoint_name(loader->checkpoint);
    if (!own->width || !own->blocks || !own->feed || !own->registers || !vae->traits.latent_channels)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "%s: an autoencoder of MiniMax-H3 without %s: the file is incomplete, or has no decoder", file,
                         own->registers ? "decoder.proj_in or transformer_blocks" : "decoder.register_tokens");
    if (vae->traits.latent_channels <= DITI_VAE_MAX_CHANNELS && vae->traits.factor && vae->traits.factor <= 64 &&
        own->head_dim <= 256 && own->width % own->head_dim == 0 && own->turned && own->turned % 12 == 0 &&
        own->turned <= own->head_dim && own->head_dim % 4 == 0 && own->blocks <= DITI_MINIMAX_VAE_MAX_BLOCKS &&
        own->registers <= 64)
        return DIT_OK;
    return diti_fail(
        err, DIT_ERROR_UNSUPPORTED_MODEL,
        "%s: an autoencoder of MiniMax-H3 of %u blocks, heads of %u, of which %u rotate, in a width of %u, "
        "and %u channels of latents is out of range",
        file, (unsigned)own->blocks, (unsigned)own->head_dim, (unsigned)own->turned, (unsigned)own->width,
        (unsigned)vae->traits.latent_channels);
}

static uint64_t diti_minimax_vae_elements(diti_loader *loader, const char *name) {
    const diti_stored_tensor *tensor = diti_loader_find(loader, name);
    return tensor ? diti_stored_tensor_elements(tensor) : 0;
}

static dit_result diti_minimax_vae_read(diti_vae *vae, diti_loader *loader, const diti_json *config, dit_error *err) {
    diti_settings settings = diti_settings_of(config, "the autoencoder's config.json", err);
    uint32_t pixels = diti_loader_dimension(loader, "decoder.proj_out.weight", 0) / (3 * DITI_MINIMAX_FACTOR);
    struct diti_minimax_vae *own =
        (struct diti_minimax_vae *)diti_component_array(&vae->base, loader, 1, sizeof *vae->minimax);
    vae->minimax = own;
    if (!own) return DIT_ERROR_OUT_OF_HOST_MEMORY;
    own->mixed = diti_loader_find(loader, "decoder.transformer_blocks.0.attn.to_qkv.weight") != NULL;
    if (own->mixed) {
        loader->user = (void *)(uintptr_t)diti_minimax_vae_names;
        loader->rename = diti_rename_by_tables;
    }
    own->width = diti_loader_dimension(loader, "decoder.proj_in.weight", 0);
    own->feed = diti_loader_dimension(loader, "decoder.transformer_blocks.0.ff.net.2.weight", 1);
    own->registers =
        (uint32_t)(diti_minimax_vae_elements(loader, "decoder.register_tokens") / (own->width + !own->width));
    own->blocks =
        diti_loader_layers(loader, &settings, "decoder_num_layers", "decoder.transformer_blocks.", ".norm1.weight");
    own->head_dim = diti_setting_size(&settings, "decoder_attention_head_dim", 64, 1024);
    own->heads = own->width / own->head_dim;
    own->turned = (uint32_t)(own->head_dim * diti_setting_number(&settings, "decoder_rope_dim_ratio", 0.75, 0, 1));
    own->theta = (float)diti_setting_number(&settings, "decoder_rope_theta", 100, 2, 1e9);
    own->eps = (float)diti_setting_number(&settings, "decoder_norm_eps", 1e-5, 0, 1);
    vae->traits.latent_channels = diti_loader_dimension(loader, "decoder.proj_in.weight", 1);
    vae->style.groups = diti_setting_size(&settings, "norm_num_groups", 32, 1024);
    vae->style.eps = (float)diti_setting_number(&settings, "norm_eps", 1e-6, 0, 1);
    vae->style.mirrors_encoder = true;
    while ((vae->traits.factor + 1) * (vae->traits.factor + 1) <= pixels && vae->traits.factor < 64)
        vae->traits.factor++;
    if (diti_setting_size(&settings, "clip_length", DITI_MINIMAX_CLIP, 1024) != DITI_MINIMAX_CLIP ||
        diti_setting_size(&settings, "token_drop", 3, 1024) != 3)
        diti_settings_refuse(&settings, DIT_ERROR_UNSUPPORTED_MODEL, "clip_length",
                             "only 17 with a token_drop of 3 is known");
    DITI_TRY(settings.result);
    return diti_minimax_vae_check(vae, loader, err);
}

/* ---- loading ---- */

static void diti_minimax_vae_load_block(diti_loader *loader, const struct diti_minimax_vae *own, uint32_t index) {
    static const char *const qkv[] = {"attn.to_q", "attn.to_k", "attn.to_v"};
    diti_minimax_vae_block *block = &own->block[index];
    uint32_t width = own->width, feed = own->feed;
    diti_loader_scope(loader, "decoder.transformer_blocks.%u.", (unsigned)index);
    diti_load_vector(loader, &block->norm1.weight, 1, width, "norm1.weight");
    diti_load_vector(loader, &block->norm2.weight, 1, width, "norm2.weight");
    if (own->mixed) {
        block->qkv.count = 1;
        diti_load_layer(loader, &block->qkv.layers[0], 3 * width, width, 1, "attn.to_qkv");
    } else {
        diti_load_fused_linear(loader, &block->qkv, qkv, 3, width, width, true);
    }
    diti_load_layer(loader, &block->out, width, width, 1, "attn.to_out.0");
    diti_load_layer_rows(loader, own->mixed ? &block->ff_gate : &block->ff_in, 0, feed, 2 * feed, width,
                         "ff.net.0.proj");
    diti_load_layer_rows(loader, own->mixed ? &block->ff_in : &block->ff_gate, feed, feed, 2 * feed, width,
                         "ff.net.0.proj");
    diti_load_layer(loader, &block->ff_out, width, feed, 1, "ff.net.2");
    diti_load_vector(loader, &block->scale1, 1, width, "scale1");
    diti_load_vector(loader, &block->scale2, 1, width, "scale2");
    diti_loader_scope(loader, "%s", "");
}

/* By diffusers' names or the original's. */
static void diti_minimax_vae_load_encoder(diti_vae *vae, diti_loader *loader) {
    static const char *const names[2][5] = {
        {"down_blocks.", ".resnets.0.norm1.weight", "resnets.", "conv_shortcut", "downsamplers.0.conv"},
        {"down.", ".block.0.norm1.weight", "block.", "nin_shortcut", "downsample.conv"}};
    const char *const *name = names[vae->minimax->mixed];
    diti_kl_half *half = &vae->minimax->encoder;
    uint32_t i, channels;
    char weight[64];
    diti_loader_scope(loader, "encoder.");
    if (!diti_video_load_levels(vae, loader, half, name[0], name[1], 0)) return;
    channels = diti_video_load_conv(loader, &half->conv_in, 3, "conv_in");
    diti_format(weight, sizeof weight, "%s.weight", name[4]);
    for (i = 0; i < half->level_count && !loader->error.result; i++) {
        diti_loader_scope(loader, "encoder.%s%u.", name[0], (unsigned)i);
        channels = diti_video_load_resnets(loader, &half->levels[i], channels, name[3], name[2]);
        if (diti_loader_find(loader, weight))
            diti_video_load_conv(loader, &half->levels[i].resample, channels, name[4]);
    }
    diti_loader_scope(loader, "encoder.");
    diti_load_norm(loader, &half->norm_out, channels, "norm_out");
    diti_video_load_conv(loader, &half->conv_out, channels, "conv_out");
    diti_loader_scope(loader, "%s", "");
    diti_video_load_conv(loader, &vae->minimax->quant, 2 * vae->traits.latent_channels, "quant_conv");
}

static void diti_minimax_vae_load(diti_vae *vae, diti_loader *loader) {
    struct diti_minimax_vae *own = vae->minimax;
    uint32_t i, channels = vae->traits.latent_channels, factor = vae->traits.factor;
    own->block = (diti_minimax_vae_block *)diti_component_array(&vae->base, loader, own->blocks, sizeof *own->block);
    if (!own->block) return;
    diti_load_layer(loader, &own->post_quant, channels, channels, 1, "post_quant_conv");
    diti_load_layer(loader, &own->in, own->width, channels, 1, "decoder.proj_in");
    diti_load_vector(loader, &own->register_tokens, own->registers, own->width, "decoder.register_tokens");
    for (i = 0; i < own->blocks; i++) diti_minimax_vae_load_block(loader, own, i);
    diti_load_norm(loader, &own->norm_out, own->width, "decoder.norm_out");
    diti_load_layer(loader, &own->out, 3 * DITI_MINIMAX_FACTOR * factor * factor, own->width, 1, "decoder.proj_out");
    if (diti_loader_find(loader, "encoder.conv_in.weight")) diti_minimax_vae_load_encoder(vae, loader);
}

/* The encoder makes as few pixels of so many as the decoder makes of them, and its channels make whole groups. */
static dit_result diti_minimax_vae_check_encoder(const diti_vae *vae, dit_error *err) {
    const diti_kl_half *half = &vae->minimax->encoder;
    uint32_t factor = 1, i, k;
    for (i = 0; i < half->level_count; i++) {
        factor <<= half->levels[i].resample.weight.part_count > 0;
        for (k = 0; k < half->levels[i].count; k++)
            if (half->levels[i].resnets[k].channels % vae->style.groups)
                return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                                 "MiniMax-H3's autoencoder: %u channels of its encoder don't make %u groups "
                                 "(config.json: norm_num_groups)",
                                 (unsigned)half->levels[i].resnets[k].channels, (unsigned)vae->style.groups);
    }
    if (!half->level_count || factor == vae->traits.factor) return DIT_OK;
    return diti_fail(
        err, DIT_ERROR_BAD_FILE,
        "MiniMax-H3's autoencoder: an encoder that makes one of %u pixels along a side, and a decoder that "
        "makes %u of it, do not belong together",
        (unsigned)factor, (unsigned)vae->traits.factor);
}

static dit_result diti_minimax_vae_finish(diti_vae *vae, const diti_json *config, dit_error *err) {
    diti_vae_traits *traits = &vae->traits;
    diti_settings settings = diti_settings_of(config, "the autoencoder's config.json", err);
    float means[DITI_VAE_MAX_CHANNELS] = {0}, deviations[DITI_VAE_MAX_CHANNELS];
    uint32_t i;
    for (i = 0; i < traits->latent_channels; i++) deviations[i] = 1;
    if (traits->latent_channels == DITI_COUNT(diti_minimax_vae_means)) {
        memcpy(means, diti_minimax_vae_means, sizeof diti_minimax_vae_means);
        memcpy(deviations, diti_minimax_vae_deviations, sizeof diti_minimax_vae_deviations);
    }
    diti_video_read_list(&settings, "latents_mean", traits->latent_channels, means);
    diti_video_read_list(&settings, "latents_std", traits->latent_channels, deviations);
    for (i = 0; i < traits->latent_channels; i++) {
        traits->shifts[i] = means[i];
        traits->scales[i] = 1 / deviations[i];
    }
    traits->by_channel = traits->has_decoder = true;
    traits->has_encoder = vae->minimax->encoder.present;
    DITI_TRY(diti_minimax_vae_check_encoder(vae, err));
    vae->frame_factor = DITI_MINIMAX_FACTOR;
    vae->own_tile = DITI_MINIMAX_TILE / traits->factor;
    vae->spreads_tiles = true;
    return settings.result;
}

/* ---- chunks ---- */

static uint32_t diti_minimax_vae_latent_frames(const diti_vae *vae, uint32_t frames, bool encode) {
    uint32_t chunks = frames / DITI_MINIMAX_CLIP;
    (void)vae;
    if (frames == 1) return 1;
    if (encode || !chunks || frames % DITI_MINIMAX_CLIP != DITI_MINIMAX_FADED) return 0;
    return chunks * DITI_MINIMAX_STRIDE + DITI_MINIMAX_OVERLAP;
}

static bool diti_minimax_vae_chunk(const diti_vae_clip *clip, uint32_t index, diti_vae_chunk *out) {
    uint32_t chunks = clip->latent.frames / DITI_MINIMAX_STRIDE;
    bool last = index + 1 == chunks;
    if (clip->latent.frames == 1) { /* the last picture of four, as stable-diffusion.cpp shows them */
        out->frames = out->out_frames = 1;
        out->tiled = true;
        return index == 0;
    }
    out->first = index * DITI_MINIMAX_STRIDE;
    out->frames = DITI_MINIMAX_STRIDE + DITI_MINIMAX_OVERLAP;
    out->out_first = index * DITI_MINIMAX_CLIP;
    out->out_frames = DITI_MINIMAX_CLIP + (last ? DITI_MINIMAX_FADED : 0);
    out->kind = !index ? 0 : last ? 2 : 1;
    out->tiled = true;
    return index < chunks;
}

/* ---- rotations ---- */

/* Tokens of a tile stand in the middle of equal parts of -1 to 1 along each axis; angles are 2 pi times that, and
   float32, as the original rounds them. Rows behind the tokens do not rotate, nor do values. */
static uint32_t diti_minimax_vae_turns(const diti_vae *vae, const diti_video *tile, uint32_t *columns, float *table) {
    const struct diti_minimax_vae *own = vae->minimax;
    const uint32_t sizes[3] = {tile->frames, tile->height, tile->width};
    uint32_t tokens = tile->frames * tile->height * tile->width, rows = 3 * (tokens + own->registers + 1),
             half = own->turned / 2, each = half / 3, row, i;
    float *sines = table ? table + (size_t)rows * half : NULL;
    *columns = half;
    for (row = 0; table && row < rows; row++)
        for (i = 0; i < half; i++) {
            uint32_t token = row / 3, axis = i / each, at = token % tile->width;
            float frequency = 1.0f / powf(own->theta, (float)(i % each) * 6.0f / (float)own->turned), angle = 0;
            if (axis == 0) at = token / (tile->width * tile->height);
            if (axis == 1) at = token / tile->width % tile->height;
            if (token < tokens && row % 3 < 2)
                angle = 6.28318530717958647692f * (2.0f * (((float)at + 0.5f) / (float)sizes[axis]) - 1.0f) * frequency;
            table[(size_t)row * half + i] = (float)cos((double)angle);
            sines[(size_t)row * half + i] = (float)sin((double)angle);
        }
    return rows;
}

/* ---- computing ---- */

static diti_tensor diti_minimax_vae_norm(diti_graph *graph, diti_tensor x, const diti_layer *norm, bool rms,
                                         float eps) {
    diti_norm_desc desc = DITI_ZERO;
    desc.rms = rms;
    desc.eps = eps;
    desc.weight = &norm->weight;
    desc.bias = &norm->bias;
    desc.name = "vae_norm";
    return diti_norm(graph, x, &desc);
}

/* x += scale * layer(h), in place. */
static void diti_minimax_vae_add(diti_graph *graph, diti_tensor x, diti_tensor h, const diti_layer *layer,
                                 const diti_weight *scale) {
    diti_linear_desc desc = DITI_ZERO;
    desc.bias = &layer->bias;
    desc.gate = diti_tensor_weight(graph, scale, 0);
    desc.residual = desc.out = x;
    desc.name = "vae_out";
    diti_linear(graph, h, &layer->weight, &desc);
}

/* [rows, 3 * D] with queries, keys and values side by side of h, which has them head by head. */
static diti_tensor diti_minimax_vae_part(const struct diti_minimax_vae *own, diti_graph *graph, diti_tensor h) {
    uint32_t tokens = diti_tensor_rows(graph, h), rows = tokens * own->heads, i;
    diti_tensor out = diti_tensor_new(graph, graph->activation, tokens, 3 * own->width, "vae_qkv");
    h = diti_tensor_reshape(graph, h, rows, 3 * own->head_dim);
    for (i = 0; i < 3 && !diti_graph_failed(graph); i++) {
        diti_tensor one = diti_tensor_new(graph, graph->activation, rows, own->head_dim, "vae_heads");
        diti_copy(graph, diti_tensor_view(graph, h, 0, rows, i * own->head_dim, own->head_dim), one, "vae_heads");
        diti_copy(graph, diti_tensor_reshape(graph, one, tokens, own->width),
                  diti_tensor_view(graph, out, 0, tokens, i * own->width, own->width), "vae_qkv");
    }
    return out;
}

static diti_tensor diti_minimax_vae_attend(const diti_vae_clip *clip, diti_tensor h,
                                           const diti_minimax_vae_block *block) {
    const struct diti_minimax_vae *own = clip->vae->minimax;
    diti_graph *graph = clip->graph;
    uint32_t rows = diti_tensor_rows(graph, h), width = own->width;
    diti_linear_desc fused = DITI_ZERO;
    diti_qkv_desc norm = DITI_ZERO;
    diti_attention_desc desc = DITI_ZERO;
    fused.name = "vae_qkv";
    h = diti_linear_fused(graph, h, &block->qkv, &fused);
    if (own->mixed) h = diti_minimax_vae_part(own, graph, h);
    norm.heads = 2 * own->heads;
    norm.head_dim = own->head_dim;
    norm.norm = DITI_QKV_RMS;
    norm.eps = own->eps;
    norm.name = "vae_heads";
    diti_qk_norm_rope(graph, diti_tensor_view(graph, h, 0, rows, 0, 2 * width), &norm);
    diti_turn_heads(graph, h, own->heads, own->head_dim, clip->turns[0], clip->turns[1], "vae_turn");
    desc.batch = 1;
    desc.heads = own->heads;
    desc.head_dim = own->head_dim;
    desc.scale = 1.0f / sqrtf((float)own->head_dim);
    desc.name = "vae_attention";
    return diti_attention(graph, diti_tensor_view(graph, h, 0, rows, 0, width),
                          diti_tensor_view(graph, h, 0, rows, width, width),
                          diti_tensor_view(graph, h, 0, rows, 2 * width, width), &desc);
}

/* MiniMaxH3VideoTransformerBlock.forward; x F32 [tokens and what is behind them, D] is changed in place. */
static void diti_minimax_vae_run_block(const diti_vae_clip *clip, diti_tensor x, const diti_minimax_vae_block *block) {
    diti_graph *graph = clip->graph;
    float eps = clip->vae->minimax->eps;
    diti_linear_desc linear = DITI_ZERO;
    diti_tensor h = diti_minimax_vae_norm(graph, x, &block->norm1, true, eps);
    diti_minimax_vae_add(graph, x, diti_minimax_vae_attend(clip, h, block), &block->out, &block->scale1);
    h = diti_minimax_vae_norm(graph, x, &block->norm2, true, eps);
    linear.bias = &block->ff_in.bias;
    linear.name = "vae_ff_in";
    linear.multiply = diti_linear(graph, h, &block->ff_in.weight, &linear);
    linear.bias = &block->ff_gate.bias;
    linear.activation = DITI_ACTIVATION_SILU;
    linear.name = "vae_ff_gate";
    h = diti_linear(graph, h, &block->ff_gate.weight, &linear);
    diti_minimax_vae_add(graph, x, h, &block->ff_out, &block->scale2);
}

/* F32 of a layer's result, to out or a new tensor. */
static diti_tensor diti_minimax_vae_linear(diti_graph *graph, diti_tensor x, const diti_layer *layer, diti_tensor out,
                                           const char *name) {
    diti_linear_desc desc = DITI_ZERO;
    desc.bias = &layer->bias;
    desc.out = out;
    desc.out_f32 = true;
    desc.name = name;
    return diti_linear(graph, x, &layer->weight, &desc);
}

/* Pixels are read and made as ImageNet's means and deviations have them. */
static const float diti_minimax_vae_colors[2][3] = {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};

/* Whitened colours become -1..1, in place. x: rows of so many columns for each of three colours. */
static void diti_minimax_vae_color(diti_graph *graph, diti_tensor x, uint32_t columns) {
    uint32_t rows = diti_tensor_rows(graph, x), i;
    for (i = 0; i < 3 && !diti_graph_failed(graph); i++) {
        diti_tensor color = diti_tensor_view(graph, x, 0, rows, i * columns, columns);
        diti_elementwise_desc desc = DITI_ZERO;
        desc.scale = 2 * diti_minimax_vae_colors[1][i];
        desc.offset = 2 * diti_minimax_vae_colors[0][i] - 1;
        desc.out = color;
        desc.name = "vae_color";
        diti_elementwise(graph, color, &desc);
    }
}

/* Colours in -1..1 become whitened ones, F32 [pixels, 3]. */
static diti_tensor diti_minimax_vae_whiten(diti_graph *graph, diti_tensor x) {
    uint32_t rows = diti_tensor_rows(graph, x), i;
    diti_tensor out = diti_tensor_new(graph, DITI_F32, rows, 3, "vae_color");
    for (i = 0; i < 3 && !diti_graph_failed(graph); i++) {
        diti_elementwise_desc desc = DITI_ZERO;
        desc.scale = 0.5f / diti_minimax_vae_colors[1][i];
        desc.offset = (0.5f - diti_minimax_vae_colors[0][i]) / diti_minimax_vae_colors[1][i];
        desc.out = diti_tensor_view(graph, out, 0, rows, i, 1);
        desc.name = "vae_color";
        diti_elementwise(graph, diti_tensor_view(graph, x, 0, rows, i, 1), &desc);
    }
    return out;
}

/* MiniMaxH3VideoEncoder3d.forward of a tile of one picture, rows F32 [pixels, 3]; size becomes that of its latent. */
static diti_tensor diti_minimax_vae_encode(diti_vae_clip *clip, diti_video *size, diti_tensor x) {
    const diti_kl_half *half = &clip->vae->minimax->encoder;
    diti_graph *graph = clip->graph;
    uint32_t i, k;
    x = diti_minimax_vae_whiten(graph, x);
    x = diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), &half->conv_in, NULL, "vae_conv_in");
    for (i = 0; i < half->level_count && !diti_graph_failed(graph); i++) {
        diti_conv_desc more = DITI_ZERO;
        for (k = 0; k < half->levels[i].count; k++) x = diti_video_resnet(clip, size, x, &half->levels[i].resnets[k]);
        if (!half->levels[i].resample.weight.part_count) continue;
        more.stride = 2;
        more.pad_after = 1;
        x = diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), &half->levels[i].resample, &more,
                            "vae_downsample");
        size->height /= 2;
        size->width /= 2;
    }
    x = diti_video_conv(clip, size, diti_video_norm(clip, size, x, &half->norm_out, true, false, NULL), &half->conv_out,
                        NULL, "vae_conv_out");
    return diti_video_conv(clip, size, diti_video_plain(clip, size, x, NULL), &clip->vae->minimax->quant, NULL,
                           "vae_quant");
}

/* A tile of a chunk, rows F32 [tokens, C]; size becomes that of its pictures. */
static diti_tensor diti_minimax_vae_whole(diti_vae_clip *clip, diti_video *size, diti_tensor x) {
    const struct diti_minimax_vae *own = clip->vae->minimax;
    diti_graph *graph = clip->graph;
    uint32_t tokens = size->frames * size->height * size->width, width = own->width, factor = clip->vae->traits.factor,
             i;
    diti_block_desc block = DITI_ZERO;
    diti_tensor all;
    if (clip->encode) return diti_minimax_vae_encode(clip, size, x);
    if (!clip->turns[0])
        return diti_graph_fail(graph, DIT_ERROR_INVALID_ARGUMENT, "MiniMax-H3's decoder wants its rotations");
    all = diti_tensor_new(graph, DITI_F32, tokens + own->registers + 1, width, "vae_tokens");
    x = diti_minimax_vae_linear(graph, x, &own->post_quant, 0, "vae_post_quant");
    diti_minimax_vae_linear(graph, x, &own->in, diti_tensor_view(graph, all, 0, tokens, 0, width), "vae_in");
    diti_copy(graph, diti_tensor_weight(graph, &own->register_tokens, 0),
              diti_tensor_view(graph, all, tokens, own->registers, 0, width), "vae_registers");
    diti_fill_zeros(graph, diti_tensor_view(graph, all, tokens + own->registers, 1, 0, width));
    for (i = 0; i < own->blocks && !diti_graph_failed(graph); i++) {
        diti_graph_scope(graph, "vae block", i);
        diti_minimax_vae_run_block(clip, all, &own->block[i]);
    }
    diti_graph_scope(graph, NULL, 0);
    x = diti_minimax_vae_norm(graph, diti_tensor_view(graph, all, 0, tokens, 0, width), &own->norm_out, false,
                              own->eps);
    x = diti_minimax_vae_linear(graph, x, &own->out, 0, "vae_proj_out");
    diti_minimax_vae_color(graph, x, DITI_MINIMAX_FACTOR * factor * factor);
    block.clip = *size;
    block.columns = 3;
    block.time = DITI_MINIMAX_FACTOR;
    block.side = factor;
    block.pixel_step = 1;
    block.line_step = factor;
    block.time_step = factor * factor;
    block.channel_step = DITI_MINIMAX_FACTOR * factor * factor;
    block.out_f32 = true;
    block.name = "vae_pixels";
    size->frames *= DITI_MINIMAX_FACTOR;
    size->height *= factor;
    size->width *= factor;
    return diti_spread_frames(graph, x, &block);
}

/* The first frames of x fade into the last ones of the chunk before, which the cache has. Frames stand here for the
   lines of one tall frame. */
static void diti_minimax_vae_fade(const diti_vae_clip *clip, diti_tensor x, diti_tensor cache, uint32_t frames,
                                  uint32_t area) {
    diti_place_desc fade = DITI_ZERO;
    fade.from.frames = 1;
    fade.from.height = frames;
    fade.from.width = area;
    fade.to = fade.part = fade.other_size = fade.from;
    fade.other_size.height = fade.part.height = DITI_MINIMAX_FADED;
    fade.other = cache;
    fade.out = x;
    diti_place_frames(clip->graph, x, &fade);
}

static diti_tensor diti_minimax_vae_run(diti_vae_clip *clip, const diti_vae_chunk *chunk, diti_tensor x) {
    const uint32_t made = DITI_MINIMAX_FACTOR * chunk->frames - DITI_MINIMAX_DROPPED,
                   behind = DITI_MINIMAX_CLIP + DITI_MINIMAX_DROPPED;
    uint32_t area = clip->pixels.height * clip->pixels.width, colors = clip->vae->traits.colors,
             kept = DITI_MINIMAX_CLIP * area, faded = DITI_MINIMAX_FADED * area;
    diti_graph *graph = clip->graph;
    bool last = chunk->out_frames > DITI_MINIMAX_CLIP;
    diti_tensor end, cache = 0, out;
    if (clip->encode) return diti_video_tiled(clip, 1, 1, 0, x);
    x = diti_video_tiled(clip, chunk->frames, made, DITI_MINIMAX_DROPPED, x);
    if (!x || diti_graph_failed(graph) || chunk->frames == 1) return x;
    if (!last || chunk->first) cache = diti_video_cache(clip, &clip->pixels, x, DITI_MINIMAX_FADED);
    if (chunk->first) diti_minimax_vae_fade(clip, x, cache, made, area);
    end = diti_tensor_view(graph, x, behind * area, faded, 0, colors);
    if (!last) {
        diti_copy(graph, end, cache, "keep frames");
        return diti_tensor_view(graph, x, 0, kept, 0, colors);
    }
    out = diti_tensor_new(graph, DITI_F32, kept + faded, colors, "last frames");
    diti_copy(graph, diti_tensor_view(graph, x, 0, kept, 0, colors), diti_tensor_view(graph, out, 0, kept, 0, colors),
              "last frames");
    diti_copy(graph, end, diti_tensor_view(graph, out, kept, faded, 0, colors), "last frames");
    return out;
}

DIT_INTERNAL const diti_video_kind *diti_minimax_vae_kind(void) {
    static const diti_video_kind kind = {"AutoencoderKLMiniMaxH3",
                                         diti_minimax_vae_is,
                                         diti_minimax_vae_read,
                                         diti_minimax_vae_load,
                                         diti_minimax_vae_finish,
                                         diti_minimax_vae_latent_frames,
                                         diti_minimax_vae_chunk,
                                         diti_minimax_vae_run,
                                         diti_minimax_vae_whole,
                                         NULL,
                                         false,
                                         diti_minimax_vae_turns};
    return &kind;
}
