/* Wan 2.1 and 2.2: docs/models.md 3.9. Original:
   https://github.com/huggingface/diffusers/blob/v0.36.0/src/diffusers/models/transformers/transformer_wan.py

   D is the width of the residual stream. Tokens of all frames attend to each other, then to the text, and, in 2.1's
   models of pictures, to tokens of the picture besides. Frames may have timesteps of their own. VACE has blocks
   besides, which follow another clip: a control net (docs/models.md 3.9.1) that reads the model's own text and
   timestep. */
#include "model/model.h"

#define DITI_WAN_MAX_BLOCKS 64u

/* ---- configuration ---- */

typedef struct diti_wan_config {
    uint32_t blocks, heads, head_dim, width, feed; /* width: D; feed: of the feed-forward */
    uint32_t channels, out_channels, patch;        /* channels: the latent's, and behind them a condition's */
    uint32_t text, frequencies;                    /* columns of the text encoder's output, of the sinusoids */
    uint32_t image;                                /* columns of a picture's tokens; 0: the model reads none */
    uint32_t pictures;                             /* pictures that have tokens: 2 are the first and the last one */
    uint32_t vace, vace_channels;                  /* VACE's blocks, and channels of the clip that they follow; 0 */
    uint32_t vace_places[DITI_WAN_MAX_BLOCKS];     /* blocks that VACE's add behind, rising */
    bool skyreels;                                 /* SkyReels V2, told by its class alone */
    float eps;
} diti_wan_config;

/* ---- weights ---- */

typedef struct diti_wan_block {
    diti_table_block base;                /* norms there are unused */
    diti_weight norm_q, norm_k;           /* F32 [1, D] each: RMS norms over all heads */
    diti_layer norm_text;                 /* [D] */
    diti_weight text_norm_q, text_norm_k; /* F32 [1, D] each */
    diti_fused_linear image_kv;           /* [2D, D], or none */
    diti_weight image_norm_k;             /* F32 [1, D] */
} diti_wan_block;

typedef struct diti_wan {
    diti_transformer base;
    diti_wan_config config;
    const struct diti_wan *owner;   /* the model whose layers stand around the blocks: itself, or that of VACE's */
    diti_layer vace_patch, vace_in; /* VACE's [D, vace_channels * p * p], [D, D] */
    diti_layer *outlets;            /* VACE's [D, D], one behind each block */
    diti_layer patch;               /* [D, C * p * p] */
    diti_embedder time, text;       /* [D, frequencies], [D, D]; [D, text], [D, D] */
    diti_layer modulation;          /* [6D, D] */
    diti_layer image_in, image_out; /* [image, image], [D, image], between norms, or none */
    diti_layer image_norms[2];      /* [image], [D] */
    diti_weight image_places;       /* F32 [2 * image tokens, image], where two pictures are read */
    diti_weight final_table;        /* F32 [2, D] */
    diti_layer proj_out;            /* [p * p * out_channels, D] */
    diti_sublayer last;
    diti_wan_block *blocks;
} diti_wan;

#define diti_wan_of(transformer) ((const diti_wan *)(const void *)(transformer))

/* ---- key tables: names asked for are diffusers' ---- */

static const char *const diti_wan_keys[][2] = {
    {"patch_embedding", "patch_embedding"},
    {"vace_patch_embedding", "vace_patch_embedding"},
    {"condition_embedder.time_embedder.linear_1", "time_embedding.0"},
    {"condition_embedder.time_embedder.linear_2", "time_embedding.2"},
    {"condition_embedder.time_proj", "time_projection.1"},
    {"condition_embedder.text_embedder.linear_1", "text_embedding.0"},
    {"condition_embedder.text_embedder.linear_2", "text_embedding.2"},
    {"condition_embedder.image_embedder.norm1", "img_emb.proj.0"},
    {"condition_embedder.image_embedder.ff.net.0.proj", "img_emb.proj.1"},
    {"condition_embedder.image_embedder.ff.net.2", "img_emb.proj.3"},
    {"condition_embedder.image_embedder.norm2", "img_emb.proj.4"},
    {"condition_embedder.image_embedder.pos_embed", "img_emb.emb_pos"},
    {"scale_shift_table", "head.modulation"},
    {"proj_out", "head.head"},
};
static const char *const diti_wan_block_keys[][2] = {
    {"scale_shift_table", "modulation"},
    {"attn1.to_q", "self_attn.q"},
    {"attn1.to_k", "self_attn.k"},
    {"attn1.to_v", "self_attn.v"},
    {"attn1.to_out.0", "self_attn.o"},
    {"attn1.norm_q", "self_attn.norm_q"},
    {"attn1.norm_k", "self_attn.norm_k"},
    {"norm2", "norm3"},
    {"attn2.to_q", "cross_attn.q"},
    {"attn2.to_k", "cross_attn.k"},
    {"attn2.to_v", "cross_attn.v"},
    {"attn2.to_out.0", "cross_attn.o"},
    {"attn2.norm_q", "cross_attn.norm_q"},
    {"attn2.norm_k", "cross_attn.norm_k"},
    {"attn2.add_k_proj", "cross_attn.k_img"},
    {"attn2.add_v_proj", "cross_attn.v_img"},
    {"attn2.norm_added_k", "cross_attn.norm_k_img"},
    {"ffn.net.0.proj", "ffn.0"},
    {"ffn.net.2", "ffn.2"},
    {"proj_in", "before_proj"}, /* VACE's */
    {"proj_out", "after_proj"},
};

static const diti_key_table diti_wan_names[DITI_KEY_TABLES] = {
    {"blocks.", "blocks.", diti_wan_block_keys, DITI_COUNT(diti_wan_block_keys)},
    {"vace_blocks.", "vace_blocks.", diti_wan_block_keys, DITI_COUNT(diti_wan_block_keys)},
    {NULL, NULL, diti_wan_keys, DITI_COUNT(diti_wan_keys)},
    {NULL, NULL, NULL, 0},
};

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

#define DITI_WAN_PATCH 2u          /* lines and columns, of one frame */
#define DITI_WAN_MASKS 4u          /* channels that tell which frames of a picture's latent are given */
#define DITI_WAN_IMAGE_TOKENS 257u /* CLIP's largest encoder makes so many of a picture */

static dit_result diti_wan_read_shapes(diti_loader *loader, diti_wan_config *config, dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_wan_config, width), "condition_embedder.time_embedder.linear_1.weight", 0},
        {offsetof(diti_wan_config, frequencies), "condition_embedder.time_embedder.linear_1.weight", 1},
        {offsetof(diti_wan_config, text), "condition_embedder.text_embedder.linear_1.weight", 1},
        {offsetof(diti_wan_config, feed), "blocks.0.ffn.net.0.proj.weight", 0},
        {offsetof(diti_wan_config, image), "condition_embedder.image_embedder.ff.net.2.weight", 1},
        {offsetof(diti_wan_config, out_channels), "proj_out.weight", 0}};
    const diti_stored_tensor *patch = diti_loader_find(loader, "patch_embedding.weight");
    const diti_stored_tensor *places = diti_loader_find(loader, "condition_embedder.image_embedder.pos_embed");
    uint32_t area = DITI_WAN_PATCH * DITI_WAN_PATCH;
    uint64_t channels;
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    if (!config->width || !config->text || !config->feed || !patch || config->out_channels / area == 0) {
        return diti_loader_refuse(loader, err, "a Wan transformer without %s: the file is incomplete",
                                  !patch           ? "patch_embedding"
                                  : !config->feed  ? "blocks"
                                  : !config->text  ? "text_embedding"
                                  : !config->width ? "time_embedding"
                                                   : "a layer behind the blocks");
    }
    config->pictures = places ? 2 : config->image != 0;
    if (places && diti_stored_tensor_elements(places) != 2ull * DITI_WAN_IMAGE_TOKENS * config->image)
        return diti_loader_refuse(
            loader, err, "a Wan transformer whose tokens of pictures have other places than two of %u is not known",
            DITI_WAN_IMAGE_TOKENS);
    channels = diti_stored_tensor_elements(patch) / area / config->width; /* some GGUF files join its dimensions */
    if (!channels || channels > 1024 || config->frequencies % 2) {
        return diti_loader_refuse(loader, err,
                                  "a Wan transformer with %llu channels and %u frequencies is out of range",
                                  (unsigned long long)channels, (unsigned)config->frequencies);
    }
    config->channels = (uint32_t)channels;
    config->patch = DITI_WAN_PATCH;
    config->out_channels /= area;
    config->head_dim = 128; /* as published */
    return DIT_OK;
}

/* Where VACE's blocks add, as config.json lists it, or evenly; the first of them is behind the first block. */
static dit_result diti_wan_read_vace(diti_loader *loader, diti_wan_config *config, diti_settings *settings,
                                     dit_error *err) {
    const char *name = diti_setting_text(settings, "_class_name", "");
    bool named = diti_equal(name, "WanVACETransformer3DModel") || diti_equal(name, "VaceWanModel");
    const diti_stored_tensor *patch = diti_loader_find(loader, "vace_patch_embedding.weight");
    const diti_json *list = diti_setting_numbers(settings, "vace_layers"), *entry = list ? list->first : NULL;
    uint32_t count = diti_loader_count(loader, "vace_blocks.", ".scale_shift_table"), i;
    uint64_t channels, place = 0, before = 0;
    if (settings->result < 0 || (!named && !patch && !count)) return settings->result;
    channels = patch ? diti_stored_tensor_elements(patch) / (DITI_WAN_PATCH * DITI_WAN_PATCH) / config->width : 0;
    if (!count || count > config->blocks || channels <= 2 * config->out_channels || channels > 1024 || config->image)
        return diti_loader_refuse(
            loader, err,
            "a Wan VACE transformer with %u vace_blocks beside %u blocks, %u channels of a clip to "
            "follow%s is not known",
            (unsigned)count, (unsigned)config->blocks, (unsigned)channels,
            config->image ? " and tokens of a picture" : "");
    config->vace = count;
    config->vace_channels = (uint32_t)channels;
    for (i = 0; i < count; i++) {
        place = (uint64_t)i * (config->blocks / count);
        if (list && (!entry || !diti_json_u64(entry, &place))) break;
        if (place >= config->blocks || (i ? place <= before : place > 0)) break;
        config->vace_places[i] = (uint32_t)(before = place);
        if (entry) entry = entry->next;
    }
    if (settings->result < 0 || (i == count && !entry)) return settings->result;
    return diti_fail(err, DIT_ERROR_BAD_FILE,
                     "config.json: vace_layers must be %u rising numbers of blocks, of which the model has %u, from 0 "
                     "on: as many as %.200s has vace_blocks",
                     (unsigned)count, (unsigned)config->blocks, diti_checkpoint_name(loader->checkpoint));
}

static dit_result diti_wan_check_patch(diti_settings *settings, dit_error *err) {
    const diti_json *size = diti_setting_numbers(settings, "patch_size"), *item = size ? size->first : NULL;
    uint64_t wanted, found;
    uint32_t i;
    for (i = 0; i < 3 && item; i++, item = item->next) {
        wanted = i ? DITI_WAN_PATCH : 1;
        if (!diti_json_u64(item, &found) || found != wanted) break;
    }
    if (settings->result < 0 || !size || (i == 3 && !item)) return settings->result;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "config.json: a Wan transformer whose patch_size is not 1, %u, %u is not known", DITI_WAN_PATCH,
                     DITI_WAN_PATCH);
}

/* A picture's latent stands behind the clip's own, and before it a mask of four channels. */
static bool diti_wan_channels_fit(const diti_wan_config *config) {
    uint32_t own = config->out_channels;
    return own && (config->channels == own || config->channels == 2 * own + DITI_WAN_MASKS);
}

static dit_result diti_wan_check(const diti_wan_config *config, diti_settings *settings, dit_error *err) {
    const char *norm = diti_setting_text(settings, "qk_norm", "rms_norm_across_heads");
    bool normed = diti_setting_bool(settings, "cross_attn_norm", true);
    DITI_TRY(diti_wan_check_patch(settings, err));
    DITI_TRY(settings->result);
    if (!diti_equal(norm, "rms_norm_across_heads") || !normed) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "config.json: a Wan transformer with qk_norm %.40s, cross_attn_norm %s is not known", norm,
                         normed ? "true" : "false");
    }
    if ((uint64_t)config->heads * config->head_dim != config->width || config->head_dim > 256 || config->head_dim % 4 ||
        config->head_dim < 6) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "Wan transformer: %u heads of %u (a multiple of 4) don't make a width of %u",
                         (unsigned)config->heads, (unsigned)config->head_dim, (unsigned)config->width);
    }
    if (!diti_wan_channels_fit(config) || !config->blocks || config->blocks > DITI_WAN_MAX_BLOCKS) {
        return diti_fail(
            err, DIT_ERROR_UNSUPPORTED_MODEL,
            "Wan transformer: %u blocks, %u channels out of %u are out of range; it takes as many channels "
            "as it makes, or besides a picture's and %u of a mask",
            (unsigned)config->blocks, (unsigned)config->out_channels, (unsigned)config->channels, DITI_WAN_MASKS);
    }
    return DIT_OK;
}

static dit_result diti_wan_read(diti_component *component, diti_loader *loader, const diti_json *json, dit_error *err) {
    /* diffusers' name of a size, then the original's */
    static const diti_size_key keys[] = {{offsetof(diti_wan_config, head_dim), "attention_head_dim", 1024},
                                         {offsetof(diti_wan_config, channels), "in_channels", 1024},
                                         {offsetof(diti_wan_config, channels), "in_dim", 1024},
                                         {offsetof(diti_wan_config, out_channels), "out_channels", 1024},
                                         {offsetof(diti_wan_config, out_channels), "out_dim", 1024},
                                         {offsetof(diti_wan_config, feed), "ffn_dim", 1u << 20}};
    diti_wan_config *config = &((diti_wan *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    uint32_t heads;
    static const char *const others[][2] = {
        {"face_adapter.fuser_blocks.0.k_norm.weight", "Wan's Animate, which follows a face and a pose"},
        {"casual_audio_encoder.encoder.final_linear.weight", "Wan's S2V, which follows sound"},
        {"audio_proj.audio_proj_glob_1.layer.bias", "HuMo, which follows sound"},
        {"control_adapter.conv.weight", "Wan's Fun-Camera, which follows a path of the camera"},
        {"ref_conv.weight", "Wan's Fun-Control, which follows another clip"}};
    DITI_TRY(diti_refuse_others(loader, others, DITI_COUNT(others), "T2V, I2V, TI2V or VACE", err));
    DITI_TRY(diti_wan_read_shapes(loader, config, err));
    config->blocks = diti_loader_layers(loader, &settings, "num_layers", "blocks.", ".scale_shift_table");
    diti_read_sizes(&settings, config, keys, DITI_COUNT(keys));
    heads = diti_setting_size(&settings, "num_heads", config->width / config->head_dim, 1024);
    config->heads = diti_setting_size(&settings, "num_attention_heads", heads, 1024);
    if (diti_setting(&settings, "num_heads") && config->width % config->heads == 0)
        config->head_dim = config->width / config->heads;
    config->eps = (float)diti_setting_number(&settings, "eps", 1e-6, 0, 1);
    config->skyreels = diti_equal(diti_setting_text(&settings, "_class_name", ""), "SkyReelsV2Transformer3DModel");
    if (diti_setting_bool(&settings, "inject_sample_info", false) ||
        diti_setting_size(&settings, "num_frame_per_block", 1, 1024) > 1)
        diti_settings_refuse(&settings, DIT_ERROR_UNSUPPORTED_MODEL, "inject_sample_info",
                             "SkyReels V2 that reads frames per second or attends frames block by block is not "
                             "supported; use its T2V or I2V");
    DITI_TRY(diti_wan_check(config, &settings, err));
    return diti_wan_read_vace(loader, config, &settings, err);
}

/* ---- loading ---- */

static void diti_wan_load_image(diti_loader *loader, const diti_wan_config *config, diti_wan_block *block) {
    static const char *const kv[] = {"attn2.add_k_proj", "attn2.add_v_proj"};
    if (!config->image) return;
    diti_load_fused_linear(loader, &block->image_kv, kv, 2, config->width, config->width, true);
    diti_load_vector(loader, &block->image_norm_k, 1, config->width, "attn2.norm_added_k.weight");
}

static void diti_wan_heads(const diti_pass *p, diti_tensor x, uint32_t kind);

static void diti_wan_load_block(diti_loader *loader, const diti_wan_config *config, const char *blocks, uint32_t index,
                                diti_wan_block *block) {
    static const char *const qkv[] = {"attn1.to_q", "attn1.to_k", "attn1.to_v"};
    static const char *const kv[] = {"attn2.to_k", "attn2.to_v"};
    diti_table_block *base = &block->base;
    uint32_t width = config->width;
    diti_loader_scope(loader, "%s.%u.", blocks, (unsigned)index);
    diti_load_vector(loader, &base->table, 6, width, "scale_shift_table");
    diti_load_fused_linear(loader, &base->qkv, qkv, 3, width, width, true);
    diti_load_vector(loader, &block->norm_q, 1, width, "attn1.norm_q.weight");
    diti_load_vector(loader, &block->norm_k, 1, width, "attn1.norm_k.weight");
    diti_load_layer(loader, &base->out, width, width, 1, "attn1.to_out.0");
    diti_load_norm(loader, &block->norm_text, width, "norm2");
    diti_load_layer(loader, &base->text_q, width, width, 1, "attn2.to_q");
    diti_load_fused_linear(loader, &base->text_kv, kv, 2, width, width, true);
    diti_load_vector(loader, &block->text_norm_q, 1, width, "attn2.norm_q.weight");
    diti_load_vector(loader, &block->text_norm_k, 1, width, "attn2.norm_k.weight");
    diti_load_layer(loader, &base->text_out, width, width, 1, "attn2.to_out.0");
    diti_wan_load_image(loader, config, block);
    diti_load_layer(loader, &base->ff_in, config->feed, width, 1, "ffn.net.0.proj");
    diti_load_layer(loader, &base->ff_out, width, config->feed, 1, "ffn.net.2");
    diti_loader_scope_end(loader);
    diti_table_block_pair(base, width, config->head_dim, config->eps);
    base->attention.heads = diti_wan_heads;
    base->cross.norm = &block->norm_text;
    base->cross.norm_name = "norm_text";
    base->cross.eps = config->eps;
}

static void diti_wan_load_weights(diti_loader *loader, diti_wan *model) {
    static const char image[] = "condition_embedder.image_embedder.";
    const diti_wan_config *config = &model->config;
    uint32_t i, width = config->width, area = config->patch * config->patch;
    diti_load_layer(loader, &model->patch, width, config->channels * area, config->patch, "patch_embedding");
    model->patch.weight.kernel = 1; /* used as a matrix on flattened patches */
    diti_load_embedder(loader, &model->time, width, width, config->frequencies, "condition_embedder.time_embedder");
    diti_load_layer(loader, &model->modulation, 6 * width, width, 1, "condition_embedder.time_proj");
    diti_load_embedder(loader, &model->text, width, width, config->text, "condition_embedder.text_embedder");
    if (config->image) {
        diti_loader_scope(loader, "%s", image);
        if (config->pictures > 1)
            diti_load_vector(loader, &model->image_places, 2 * DITI_WAN_IMAGE_TOKENS, config->image, "pos_embed");
        diti_load_norm(loader, &model->image_norms[0], config->image, "norm1");
        diti_load_layer(loader, &model->image_in, config->image, config->image, 1, "ff.net.0.proj");
        diti_load_layer(loader, &model->image_out, width, config->image, 1, "ff.net.2");
        diti_load_norm(loader, &model->image_norms[1], width, "norm2");
        diti_loader_scope_end(loader);
    }
    for (i = 0; i < config->blocks; i++) diti_wan_load_block(loader, config, "blocks", i, &model->blocks[i]);
    diti_load_vector(loader, &model->final_table, 2, width, "scale_shift_table");
    diti_load_layer(loader, &model->proj_out, config->out_channels * area, width, 1, "proj_out");
    diti_make_output(&model->last, DITI_STREAMS_ONE, &model->proj_out);
    model->last.eps = config->eps;
}

/* Repositories have these, with a shift of 3 for 480 lines and of 5 for TI2V-5B. VACE's own programs take 16. */
#define DITI_WAN_SCHEDULER(SHIFT)                                                                                      \
    "{\"_class_name\":\"UniPCMultistepScheduler\",\"prediction_type\":\"flow_prediction\",\"use_flow_sigmas\":true,"   \
    "\"flow_shift\":" SHIFT "}"

/* UTF-8: Chinese, as the original's program has it; SkyReels V2's says much of it in English. */
static const char diti_wan_negative[] =
    "\xe8\x89\xb2\xe8\xb0\x83\xe8\x89\xb3\xe4\xb8\xbd\xef\xbc\x8c\xe8\xbf\x87\xe6\x9b\x9d\xef\xbc\x8c\xe9\x9d\x99"
    "\xe6\x80\x81\xef\xbc\x8c\xe7\xbb\x86\xe8\x8a\x82\xe6\xa8\xa1\xe7\xb3\x8a\xe4\xb8\x8d\xe6\xb8\x85\xef\xbc\x8c"
    "\xe5\xad\x97\xe5\xb9\x95\xef\xbc\x8c\xe9\xa3\x8e\xe6\xa0\xbc\xef\xbc\x8c\xe4\xbd\x9c\xe5\x93\x81\xef\xbc\x8c"
    "\xe7\x94\xbb\xe4\xbd\x9c\xef\xbc\x8c\xe7\x94\xbb\xe9\x9d\xa2\xef\xbc\x8c\xe9\x9d\x99\xe6\xad\xa2\xef\xbc\x8c"
    "\xe6\x95\xb4\xe4\xbd\x93\xe5\x8f\x91\xe7\x81\xb0\xef\xbc\x8c\xe6\x9c\x80\xe5\xb7\xae\xe8\xb4\xa8\xe9\x87\x8f"
    "\xef\xbc\x8c\xe4\xbd\x8e\xe8\xb4\xa8\xe9\x87\x8f\xef\xbc\x8cJPEG\xe5\x8e\x8b\xe7\xbc\xa9\xe6\xae\x8b"
    "\xe7\x95\x99\xef\xbc\x8c\xe4\xb8\x91\xe9\x99\x8b\xe7\x9a\x84\xef\xbc\x8c\xe6\xae\x8b\xe7\xbc\xba\xe7\x9a\x84"
    "\xef\xbc\x8c\xe5\xa4\x9a\xe4\xbd\x99\xe7\x9a\x84\xe6\x89\x8b\xe6\x8c\x87\xef\xbc\x8c\xe7\x94\xbb\xe5\xbe\x97"
    "\xe4\xb8\x8d\xe5\xa5\xbd\xe7\x9a\x84\xe6\x89\x8b\xe9\x83\xa8\xef\xbc\x8c\xe7\x94\xbb\xe5\xbe\x97\xe4\xb8\x8d"
    "\xe5\xa5\xbd\xe7\x9a\x84\xe8\x84\xb8\xe9\x83\xa8\xef\xbc\x8c\xe7\x95\xb8\xe5\xbd\xa2\xe7\x9a\x84\xef\xbc\x8c"
    "\xe6\xaf\x81\xe5\xae\xb9\xe7\x9a\x84\xef\xbc\x8c\xe5\xbd\xa2\xe6\x80\x81\xe7\x95\xb8\xe5\xbd\xa2\xe7\x9a\x84"
    "\xe8\x82\xa2\xe4\xbd\x93\xef\xbc\x8c\xe6\x89\x8b\xe6\x8c\x87\xe8\x9e\x8d\xe5\x90\x88\xef\xbc\x8c\xe9\x9d\x99"
    "\xe6\xad\xa2\xe4\xb8\x8d\xe5\x8a\xa8\xe7\x9a\x84\xe7\x94\xbb\xe9\x9d\xa2\xef\xbc\x8c\xe6\x9d\x82\xe4\xb9\xb1"
    "\xe7\x9a\x84\xe8\x83\x8c\xe6\x99\xaf\xef\xbc\x8c\xe4\xb8\x89\xe6\x9d\xa1\xe8\x85\xbf\xef\xbc\x8c\xe8\x83\x8c"
    "\xe6\x99\xaf\xe4\xba\xba\xe5\xbe\x88\xe5\xa4\x9a\xef\xbc\x8c\xe5\x80\x92\xe7\x9d\x80\xe8\xb5\xb0";
static const char diti_wan_skyreels_negative[] =
    "Bright tones, overexposed, static, blurred details, subtitles, style, works, paintings, images, static, "
    "overall gray, worst quality, low quality, JPEG compression residue, ugly, incomplete, extra fingers, "
    "poorly drawn hands, poorly drawn faces, deformed, disfigured, misshapen limbs, fused fingers, still "
    "picture, messy background, three legs, many people in the background, walking backwards";

static void diti_wan_set_traits(diti_wan *model) {
    const diti_wan_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    bool compact = config->out_channels > 16, pictures = config->channels > config->out_channels;
    traits->variant = config->vace           ? config->width > 2048 ? "vace-14b" : "vace-1.3b"
                      : compact              ? "ti2v-5b"
                      : config->pictures > 1 ? "flf2v-14b"
                      : config->image        ? "i2v-14b"
                      : pictures             ? "i2v-a14b"
                      : config->width > 2048 ? "t2v-14b"
                                             : "t2v-1.3b";
    traits->latents.channels = config->out_channels;
    traits->latents.scale = 1;
    diti_traits_sizes(traits, config->blocks, config->width, config->heads, config->out_channels, config->patch);
    traits->feed = config->feed;
    traits->condition_channels = config->channels - config->out_channels;
    traits->mask_channels = pictures ? DITI_WAN_MASKS : 0;
    traits->means = true;
    traits->fixes_first = compact;
    traits->default_size = compact ? 44 : 60;
    traits->default_columns = compact ? 80 : 104;
    traits->default_frames = compact ? 31 : 21;
    traits->default_fps = compact ? 24 : 16;
    traits->text_tokens = 512;
    traits->text_columns = config->text;
    traits->text2_tokens = config->pictures * DITI_WAN_IMAGE_TOKENS;
    traits->text2_columns = config->image;
    traits->pictures_seen = config->pictures;
    traits->encoders[0] = DITI_ENCODER_UMT5;
    traits->default_steps = 50;
    traits->negative = diti_wan_negative;
    traits->default_guidance = 5;
    traits->control_channels = config->vace_channels;
    traits->references = config->vace ? DITI_MAX_REFERENCES : 0;
    traits->scheduler = compact                                ? DITI_WAN_SCHEDULER("5.0")
                        : config->pictures > 1 || config->vace ? DITI_WAN_SCHEDULER("16.0")
                                                               : DITI_WAN_SCHEDULER("3.0");
    traits->expert_guidance = pictures ? 3.5f : 4.0f; /* A14B's */
    traits->expert_low_guidance = pictures ? 3.5f : 3.0f;
    traits->expert_scheduler = pictures ? DITI_WAN_SCHEDULER("5.0") : DITI_WAN_SCHEDULER("12.0");
    traits->attends_padding = traits->masks_padding = true;
    traits->frame_steps = compact;
    traits->mends_prompts = true;
}

/* SkyReels V2 is Wan 2.1 trained further; its repositories' schedulers have no shift, and their pages name these. */
static void diti_wan_set_skyreels(diti_model_traits *traits) {
    bool pictures = traits->condition_channels > 0;
    traits->variant = pictures ? "skyreels-v2-i2v" : "skyreels-v2-t2v";
    traits->default_size = 68;
    traits->default_columns = 120;
    traits->default_frames = 25;
    traits->default_fps = 24;
    traits->default_guidance = pictures ? 5 : 6;
    traits->negative = diti_wan_skyreels_negative;
    traits->fixed_shift = pictures ? 5 : 8;
}

/* VACE's blocks, a transformer of their own inside the model. */
static void diti_wan_load_vace(diti_component *component, diti_loader *loader, diti_wan *model) {
    const diti_wan_config *config = &model->config;
    diti_wan *vace = (diti_wan *)diti_component_array(component, loader, 1, sizeof *vace);
    uint32_t i, width = config->width;
    char name[48];
    if (!vace) return;
    vace->base.component.env = component->env;
    vace->config = *config;
    vace->config.blocks = config->vace;
    vace->owner = model;
    vace->blocks = (diti_wan_block *)diti_component_array(component, loader, config->vace, sizeof *vace->blocks);
    vace->outlets = (diti_layer *)diti_component_array(component, loader, config->vace, sizeof *vace->outlets);
    if (!vace->blocks || !vace->outlets) return;
    diti_load_layer(loader, &vace->vace_patch, width, config->vace_channels * config->patch * config->patch,
                    config->patch, "vace_patch_embedding");
    vace->vace_patch.weight.kernel = 1; /* used as a matrix on flattened patches */
    diti_load_layer(loader, &vace->vace_in, width, width, 1, "vace_blocks.0.proj_in");
    for (i = 0; i < config->vace; i++) {
        diti_wan_load_block(loader, config, "vace_blocks", i, &vace->blocks[i]);
        diti_format(name, sizeof name, "vace_blocks.%u.proj_out", (unsigned)i);
        diti_load_layer(loader, &vace->outlets[i], width, width, 1, name);
    }
    vace->base.traits = model->base.traits;
    vace->base.traits.layers = config->vace;
    vace->base.traits.adds_behind = config->vace_places;
    vace->base.outlets = vace->outlets;
    model->base.branch = &vace->base;
}

static void diti_wan_load(diti_component *component, diti_loader *loader) {
    diti_wan *model = (diti_wan *)(void *)component;
    model->owner = model;
    model->blocks =
        (diti_wan_block *)diti_component_array(component, loader, model->config.blocks, sizeof *model->blocks);
    if (!model->blocks) return;
    diti_wan_load_weights(loader, model);
    diti_wan_set_traits(model);
    if (model->config.skyreels) diti_wan_set_skyreels(&model->base.traits);
    if (model->config.vace) diti_wan_load_vace(component, loader, model);
}

/* ---- once per clip: everything that does not depend on the latent ---- */

typedef struct diti_wan_state { /* prepare leaves these for the steps */
    diti_tensor sinusoids;      /* input F32 [steps, or one more, frequencies] */
    diti_rotation rotation;     /* [tokens, head_dim / 2] */
    diti_tensor text_rows;      /* input U32 [1, prompts * text tokens]: rows of the text, or none */
    diti_tensor modulation;     /* F32 [steps, or one more, 8D]: six rows for all blocks, two for the last */
    diti_tensor rows;           /* F32 [1 or items * frames, 8D]: the step's */
    diti_tensor followed;       /* F32 [tokens, D]: the clip that VACE's blocks follow; else 0 */
    /* [prompts * tokens, 2D]: keys, normed, and values of the attention to the text and to the picture's tokens */
    diti_tensor text[DITI_WAN_MAX_BLOCKS], image[DITI_WAN_MAX_BLOCKS];
} diti_wan_state;

#define diti_wan_state_of(step) ((diti_wan_state *)(step)->family)

/* Keys, normed, and values. */
static diti_tensor diti_wan_text_kv(const diti_pass *p, diti_tensor y, const diti_fused_linear *kv,
                                    const diti_weight *norm, const char *name) {
    const diti_sublayer *cross = &diti_wan_of(p->model)->blocks[p->index].base.cross;
    diti_tensor both = diti_sublayer_fused(p, y, kv, 2, cross, name);
    uint32_t rows = diti_tensor_rows(p->graph, both);
    diti_all_heads_norm(p, diti_tensor_view(p->graph, both, 0, rows, 0, diti_column_shard_of(p, cross).count), cross,
                        norm, diti_wan_of(p->model)->config.eps, "text_k_norm");
    return both;
}

/* The text as blocks read it, F32 [prompts * text tokens, D]: rows behind a prompt's are zeros, and are attended. */
static diti_tensor diti_wan_text(const diti_pass *p, diti_tensor text_rows) {
    const diti_wan *model = diti_wan_of(p->model)->owner;
    uint32_t rows = p->step->text_batch * p->step->text_tokens;
    diti_tensor text = diti_tensor_view(p->graph, p->step->text, 0, rows, 0, model->config.text);
    text = diti_gather_tensor(p->graph, diti_add_rows(p->graph, text, 0, 0, "text"), text_rows, "text");
    text = diti_layer_run(p->graph, text, &model->text.in, DITI_ACTIVATION_GELU_TANH, "caption_in");
    return diti_layer_run(p->graph, text, &model->text.out, DITI_ACTIVATION_NONE, "caption_out");
}

/* The pictures' tokens as blocks read them, between two LayerNorms with affine: [prompts * image tokens, D]. Tokens of
   two pictures know their places. */
static diti_tensor diti_wan_image(const diti_pass *p) {
    const diti_wan *model = diti_wan_of(p->model);
    uint32_t rows = p->step->text_batch * model->base.traits.text2_tokens;
    diti_tensor x = diti_tensor_view(p->graph, p->step->text2, 0, rows, 0, model->config.image);
    const float eps = 1e-5f; /* PyTorch's default, which the configuration does not change */
    if (model->config.pictures > 1)
        x = diti_add_rows(p->graph, x, diti_tensor_weight(p->graph, &model->image_places, 0), 0, "image_places");
    x = diti_layer_norm(p->graph, x, &model->image_norms[0], eps, "image_norm");
    x = diti_layer_run(p->graph, x, &model->image_in, DITI_ACTIVATION_GELU_ERF, "image_in");
    x = diti_layer_run(p->graph, x, &model->image_out, DITI_ACTIVATION_NONE, "image_out");
    return diti_layer_norm(p->graph, x, &model->image_norms[1], eps, "image_norm");
}

static void diti_wan_project_text(diti_pass *p, diti_wan_state *state) {
    const diti_wan *model = diti_wan_of(p->model);
    diti_tensor y = diti_wan_text(p, state->text_rows), image = model->config.image ? diti_wan_image(p) : 0;
    uint32_t i, end;
    diti_axes_blocks(p->step->axes, model->config.blocks, &i, &end);
    for (; i < end && !diti_graph_failed(p->graph); i++) {
        const diti_wan_block *w = &model->blocks[i];
        diti_pass_enter(p, i);
        state->text[i] = diti_wan_text_kv(p, y, &w->base.text_kv, &w->text_norm_k, "text_kv");
        if (image) state->image[i] = diti_wan_text_kv(p, image, &w->image_kv, &w->image_norm_k, "image_kv");
    }
    diti_graph_scope(p->graph, NULL, 0);
}

/* A picture's tokens come from outside. */
static bool diti_wan_can(const diti_pass *p) {
    const diti_wan *model = diti_wan_of(p->model);
    if (model->config.image && !p->step->text2)
        diti_graph_fail(p->graph, DIT_ERROR_INVALID_ARGUMENT,
                        "Wan %s reads a picture's %u tokens of %u columns besides its latent, and has none",
                        model->base.traits.variant, (unsigned)model->base.traits.text2_tokens,
                        (unsigned)model->config.image);
    return !diti_graph_failed(p->graph);
}

/* VACE's first block adds this to the residual stream that it begins with. */
static diti_tensor diti_wan_followed(const diti_pass *p) {
    const diti_wan *vace = diti_wan_of(p->model);
    diti_tensor x = diti_control_patches(p);
    x = diti_layer_run(p->graph, x, &vace->vace_patch, DITI_ACTIVATION_NONE, "followed clip");
    return diti_layer_f32(p->graph, x, &vace->vace_in, DITI_ACTIVATION_NONE, 0, "followed clip");
}

static void diti_wan_prepare(diti_pass *p) {
    const diti_wan *model = diti_wan_of(p->model), *owner = model->owner;
    const diti_wan_config *config = &model->config;
    const diti_step_desc *step = p->step;
    diti_token_grid grid = diti_transformer_grid(p->model, step);
    diti_wan_state *state = diti_wan_state_of(step);
    diti_graph *graph = p->graph;
    uint32_t tokens = grid.frames * p->positions, steps = step->steps + (step->frame_steps ? 1 : 0);
    if (!diti_wan_can(p)) return;
    state->sinusoids = diti_tensor_input(graph, DITI_F32, steps, config->frequencies, "timesteps");
    diti_rotation_prepare(graph, &state->rotation, tokens, config->head_dim / 2);
    state->text_rows = diti_tensor_input(graph, DITI_U32, 1, step->text_batch * step->text_tokens, "text_rows");
    state->modulation = diti_table_rows(p, diti_embed(graph, &owner->time, state->sinusoids, 0), &owner->modulation,
                                        &owner->final_table);
    diti_wan_project_text(p, state);
    if (model != owner) state->followed = diti_wan_followed(p);
}

/* ---- inputs ---- */

/* A head's pairs turn by the frame, then by the line, then by the column, which have a sixth of its channels each.
   Angles are doubles. Tables F32 [tokens, pairs]; lines: room for as many pairs as the longest axis has, twice. */
static void diti_wan_turn(const diti_wan_config *config, const diti_token_grid *grid, float *cosines, float *sines,
                          float *lines) {
    uint32_t half = config->head_dim / 2, side = config->head_dim / 6, axis, at = 0, i;
    uint32_t tokens = grid->frames * grid->rows * grid->columns;
    for (axis = 0; axis < 3; axis++) {
        uint32_t pairs = axis ? side : half - 2 * side;
        uint32_t count = axis == 0 ? grid->frames : axis == 1 ? grid->rows : grid->columns;
        uint32_t share = axis == 0 ? grid->rows * grid->columns : axis == 1 ? grid->columns : 1;
        for (i = 0; i < count * pairs; i++) {
            double angle = (double)(i / pairs) / pow(10000.0, (double)(i % pairs) / (double)pairs);
            lines[i] = (float)cos(angle);
            lines[count * pairs + i] = (float)sin(angle);
        }
        for (i = 0; i < tokens; i++) {
            size_t place = i / share % count * pairs, to = (size_t)i * half + at;
            memcpy(cosines + to, lines + place, pairs * sizeof *lines);
            memcpy(sines + to, lines + count * pairs + place, pairs * sizeof *lines);
        }
        at += pairs;
    }
}

static dit_result diti_wan_write_turn(const diti_wan *model, diti_plan *plan, const diti_step_desc *step,
                                      const diti_wan_state *state, dit_error *err) {
    const diti_env *env = &model->base.component.env;
    diti_token_grid grid = diti_transformer_grid(&model->base, step);
    uint32_t half = plan->tensors[state->rotation.cosines].columns;
    size_t count = (size_t)plan->tensors[state->rotation.cosines].rows * half;
    size_t longest = grid.frames > grid.rows ? grid.frames : grid.rows;
    float *table;
    dit_result result;
    if (longest < grid.columns) longest = grid.columns;
    table = (float *)diti_alloc_array(env, 2 * (count + longest * half), sizeof *table);
    if (!table) return diti_fail_memory(err, "the rotation of positions");
    diti_wan_turn(&model->config, &grid, table, table + count, table + 2 * count);
    result = diti_plan_write(plan, state->rotation.cosines, table, count * sizeof *table, err);
    if (result >= 0) result = diti_plan_write(plan, state->rotation.sines, table + count, count * sizeof *table, err);
    diti_free(env, table);
    return result;
}

static dit_result diti_wan_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                        const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_wan *model = diti_wan_of(transformer);
    const diti_wan_state *state = (const diti_wan_state *)step->family;
    DITI_TRY(diti_wan_write_turn(model, plan, step, state, err));
    DITI_TRY(diti_write_text_rows(plan, state->text_rows, step, err));
    return diti_write_timesteps(plan, state->sinusoids, step, timesteps, err);
}

/* ---- one evaluation ---- */

static void diti_wan_begin(diti_pass *p) {
    diti_wan_state *state = diti_wan_state_of(p->step);
    diti_rotation_begin(p, &state->rotation);
    if (!p->step->same_timestep)
        state->rows = diti_pass_frame_rows(p, state->modulation, diti_pass_frame_steps(p), "select_modulation");
}

static diti_tensor diti_wan_embed(diti_pass *p) {
    return diti_patch_embed(p, 0, &diti_wan_of(p->model)->owner->patch, diti_wan_state_of(p->step)->followed);
}

/* Queries or keys of the block at hand: norm over all heads, then rotation of each. */
static void diti_wan_heads(const diti_pass *p, diti_tensor x, uint32_t kind) {
    const diti_wan *model = diti_wan_of(p->model);
    const diti_wan_block *w = &model->blocks[p->index];
    const diti_wan_state *state = diti_wan_state_of(p->step);
    diti_qkv_desc desc = DITI_ZERO;
    diti_all_heads_norm(p, x, &w->base.attention, kind ? &w->norm_k : &w->norm_q, diti_wan_of(p->model)->config.eps,
                        kind ? "k_norm" : "q_norm");
    desc.head_dim = model->config.head_dim;
    desc.heads = diti_tensor_columns(p->graph, x) / desc.head_dim;
    desc.cosines = state->rotation.here_cosines;
    desc.sines = state->rotation.here_sines;
    desc.tokens = p->image;
    desc.name = kind ? "k_turn" : "q_turn";
    diti_qk_norm_rope(p->graph, x, &desc);
}

/* Attention of every item's rows to `tokens` rows of its prompt in kv; pictures that share a prompt are queries of one
   attention. */
static diti_tensor diti_wan_attend(const diti_pass *p, const diti_sublayer *cross, diti_tensor q, diti_tensor kv,
                                   diti_tensor out, const char *name) {
    uint32_t width = diti_column_shard_of(p, cross).count, rows;
    diti_attention_desc desc = DITI_ZERO;
    kv = diti_pass_last(p, kv);
    rows = diti_tensor_rows(p->graph, kv);
    desc.batch = p->prompts;
    desc.heads = width / cross->head_dim;
    desc.head_dim = cross->head_dim;
    desc.scale = 1.0f / sqrtf((float)cross->head_dim);
    desc.out = out;
    desc.name = name;
    return diti_attention(p->graph, q, diti_tensor_view(p->graph, kv, 0, rows, 0, width),
                          diti_tensor_view(p->graph, kv, 0, rows, width, width), &desc);
}

/* x += to_out(attention of LN(x) to the text + attention of it to the picture's tokens). */
static void diti_wan_attend_text(const diti_pass *p, diti_tensor x, const diti_wan_block *w) {
    const diti_sublayer *cross = &w->base.cross;
    const diti_wan_state *state = diti_wan_state_of(p->step);
    diti_norm_desc norm = DITI_ZERO;
    diti_tensor q = diti_sublayer_in(p, diti_sublayer_norm(p, x, &norm, cross), cross, 0), h, image;
    diti_all_heads_norm(p, q, cross, &w->text_norm_q, diti_wan_of(p->model)->config.eps, "text_q_norm");
    h = diti_wan_attend(p, cross, q, state->text[p->index], 0, "text_attention");
    if (state->image[p->index]) {
        image = diti_tensor_new(p->graph, DITI_F32, diti_tensor_rows(p->graph, q), diti_tensor_columns(p->graph, q),
                                "image_attention");
        image = diti_wan_attend(p, cross, q, state->image[p->index], image, "image_attention");
        h = diti_add_rows(p->graph, h, diti_add_rows(p->graph, image, 0, 0, "image_attention"), 0, "add_image");
    }
    diti_sublayer_add(p, x, DITI_NO_GATE, cross, h);
}

/* WanTransformerBlock.forward, docs/models.md 3.9 step 4; x F32 [items * tokens, D] is changed in place. */
static diti_tensor diti_wan_run_block(diti_pass *p, diti_tensor x) {
    const diti_wan_block *w = &diti_wan_of(p->model)->blocks[p->index];
    diti_table_modulate(p, &w->base.table, diti_wan_state_of(p->step)->rows, 0);
    diti_block_attend(p, x, &w->base.attention);
    diti_wan_attend_text(p, x, w);
    diti_sublayer_feed(p, x, DITI_SHIFT_MLP, DITI_SCALE_MLP, DITI_GATE_MLP, &w->base.feed);
    return x;
}

static diti_tensor diti_wan_final(diti_pass *p, diti_tensor x) {
    const diti_sublayer *last = &diti_wan_of(p->model)->last;
    diti_tensor rows = diti_wan_state_of(p->step)->rows;
    p->modulation.rows =
        diti_tensor_view(p->graph, rows, 0, diti_tensor_rows(p->graph, rows), 6 * p->width, 2 * p->width);
    return diti_output_modulated(p, x, last);
}

/* ---- where parts of such models are ---- */

#define DITI_WAN_PLACE "Wan-AI/Wan2.1-T2V-14B-Diffusers"
#define DITI_WAN_TI2V "Wan-AI/Wan2.2-TI2V-5B-Diffusers"
static const diti_place diti_wan_places[] = {
    {"vace-1.3b", DIT_ROLE_TRANSFORMER, "Wan-AI/Wan2.1-VACE-1.3B-diffusers: transformer/"},
    {"vace-14b", DIT_ROLE_TRANSFORMER,
     "Wan-AI/Wan2.1-VACE-14B-diffusers: transformer/, or QuantStack/Wan2.1_14B_VACE-GGUF"},
    {"t2v-1.3b", DIT_ROLE_TRANSFORMER, "Wan-AI/Wan2.1-T2V-1.3B-Diffusers: transformer/"},
    {"t2v-14b", DIT_ROLE_TRANSFORMER, DITI_WAN_PLACE ": transformer/, or city96/Wan2.1-T2V-14B-gguf"},
    {"i2v-14b", DIT_ROLE_TRANSFORMER, "Wan-AI/Wan2.1-I2V-14B-720P-Diffusers: transformer/"},
    {"i2v-14b", DIT_ROLE_IMAGE_ENCODER, "Wan-AI/Wan2.1-I2V-14B-720P-Diffusers: image_encoder/"},
    {"flf2v-14b", DIT_ROLE_TRANSFORMER, "Wan-AI/Wan2.1-FLF2V-14B-720P-diffusers: transformer/"},
    {"flf2v-14b", DIT_ROLE_IMAGE_ENCODER, "Wan-AI/Wan2.1-FLF2V-14B-720P-diffusers: image_encoder/"},
    {"i2v-a14b", DIT_ROLE_TRANSFORMER, "Wan-AI/Wan2.2-I2V-A14B-Diffusers: transformer/"},
    {"ti2v", DIT_ROLE_TRANSFORMER, DITI_WAN_TI2V ": transformer/"},
    {"ti2v", DIT_ROLE_VAE, DITI_WAN_TI2V ": vae/"},
    {"ti2v", DIT_ROLE_SCHEDULER, DITI_WAN_TI2V ": scheduler/"},
    {"", DIT_ROLE_TEXT_1, DITI_WAN_PLACE ": text_encoder/, or city96/umt5-xxl-encoder-gguf"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_WAN_PLACE ": tokenizer/"},
    {"", DIT_ROLE_VAE, DITI_WAN_PLACE ": vae/"},
    {"", DIT_ROLE_SCHEDULER, DITI_WAN_PLACE ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

/* The original's configuration names WanModel; patch_embedding has five dimensions in its files. */
DIT_INTERNAL const diti_family *diti_wan_family(void) {
    static const diti_family family = {
        "wan",
        "Wan",
        {"WanTransformer3DModel WanVACETransformer3DModel SkyReelsV2Transformer3DModel WanModel VaceWanModel",
         NULL,
         {"condition_embedder.time_proj.weight", "blocks.0.attn1.norm_q.weight", "blocks.0.scale_shift_table", NULL},
         {"time_projection.1.weight", "blocks.0.self_attn.norm_q.weight", "blocks.0.modulation", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_wan), diti_wan_read, diti_wan_load, NULL},
        diti_wan_names,
        {16, 1, 0, false},
        NULL,
        NULL,
        diti_wan_places,
        sizeof(diti_wan_state),
        diti_wan_prepare,
        diti_wan_begin,
        diti_wan_embed,
        diti_wan_run_block,
        diti_wan_final,
        diti_wan_write_inputs};
    return &family;
}
