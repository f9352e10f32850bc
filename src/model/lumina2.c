/* Lumina-Image 2 and Boogu-Image: docs/models.md 3.18 and 3.29. Originals:
   https://github.com/Alpha-VLLM/Lumina-Image-2.0,
   https://github.com/huggingface/diffusers/blob/v0.36.0/src/diffusers/models/transformers/transformer_lumina2.py and
   https://github.com/boogu-project/Boogu-Image, boogu/models/transformers/transformer_boogu.py

   Text and image are one row of tokens with the same weights. Before they meet, the text goes through blocks of its own
   once per picture, and the image through blocks of its own in every step. Heads of queries share heads of keys and
   values. Every sublayer has a norm before and one behind it. Boogu-Image has pictures that it is made after, with
   blocks of their own, and double blocks before the others: text and image have weights of their own there, and the
   image attends itself beside them. */
#include "model/model.h"
#include "text/text.h"

#define DITI_LUMINA2_MAX_BLOCKS 128u
#define DITI_LUMINA2_AXES 3u
#define DITI_BOOGU_REFERENCES 5u
#define DITI_BOOGU_MODULATIONS 5u /* layers of a double block: the text's two, the image's two, its own attention's */

/* ---- configuration ---- */

typedef struct diti_lumina2_config {
    uint32_t refiners, blocks;             /* refiners: of the text, and as many of the image, before the blocks */
    uint32_t doubles;                      /* Boogu-Image's double blocks, before the others */
    uint32_t heads, head_dim, width, feed; /* width: D */
    uint32_t shared;                       /* heads of queries that share one of keys and values */
    uint32_t kv_width;                     /* columns of all keys */
    uint32_t channels;                     /* channels of the latent; its patches of 2 x 2 are the tokens */
    uint32_t text, time;                   /* columns of the text, of the vector that modulates */
    uint32_t axes[DITI_LUMINA2_AXES];      /* channels of a head that rotate with each coordinate */
    float theta, eps;
    float time_scale; /* times are multiplied by this */
    bool boogu;
    uint32_t in, out; /* columns that the first layer reads, and that the last one makes */
} diti_lumina2_config;

/* ---- key tables: names asked for here are diffusers'; single files and GGUF call them so ---- */

static const char *const diti_lumina2_keys[][2] = {
    {"x_embedder", "x_embedder"},
    {"time_caption_embed.timestep_embedder.linear_1", "t_embedder.mlp.0"},
    {"time_caption_embed.timestep_embedder.linear_2", "t_embedder.mlp.2"},
    {"time_caption_embed.caption_embedder", "cap_embedder"},
    {"norm_out.linear_1", "final_layer.adaLN_modulation.1"},
    {"norm_out.linear_2", "final_layer.linear"},
};
static const char *const diti_lumina2_block_keys[][2] = {
    {"attn.qkv", "attention.qkv"}, /* rows q, k, v; three matrices in diffusers */
    {"attn.to_out.0", "attention.out"},
    {"attn.norm_q", "attention.q_norm"},
    {"attn.norm_k", "attention.k_norm"},
    {"norm1.linear", "adaLN_modulation.1"},
    {"norm1.norm", "attention_norm1"},
    {"norm1", "attention_norm1"},
    {"norm2", "attention_norm2"},
    {"ffn_norm1", "ffn_norm1"},
    {"ffn_norm2", "ffn_norm2"},
    {"feed_forward.linear_1", "feed_forward.w1"},
    {"feed_forward.linear_2", "feed_forward.w2"},
    {"feed_forward.linear_3", "feed_forward.w3"},
};

static const diti_key_table diti_lumina2_names[DITI_KEY_TABLES] = {
    {"layers.", "layers.", diti_lumina2_block_keys, DITI_COUNT(diti_lumina2_block_keys)},
    {"noise_refiner.", "noise_refiner.", diti_lumina2_block_keys, DITI_COUNT(diti_lumina2_block_keys)},
    {"context_refiner.", "context_refiner.", diti_lumina2_block_keys, DITI_COUNT(diti_lumina2_block_keys)},
    {NULL, NULL, diti_lumina2_keys, DITI_COUNT(diti_lumina2_keys)},
};

/* ---- weights ---- */

/* Arrays are of the streams that have weights of their own, the text's first; of others the first counts. */
typedef struct diti_lumina2_block {
    diti_layer modulation[DITI_JOINT_STREAMS][2]; /* [4D, time]; the text's blocks have none */
    diti_layer q[DITI_JOINT_STREAMS], k[DITI_JOINT_STREAMS], v[DITI_JOINT_STREAMS]; /* [D, D], [kv width, D] each */
    diti_weight norms[2];                                                           /* F32 [head_dim]: of q, of k */
    diti_layer out[DITI_JOINT_STREAMS];                                             /* [D, D] */
    diti_layer ff_gate[DITI_JOINT_STREAMS], ff_in[DITI_JOINT_STREAMS];              /* [feed, D] each */
    diti_layer ff_out[DITI_JOINT_STREAMS];                                          /* [D, feed] */
    diti_layer before[2][DITI_JOINT_STREAMS], behind[2][DITI_JOINT_STREAMS]; /* [D]: RMS norms around attention and
                                                                                feed-forward */
    diti_sublayer attention, feed; /* attention is divided in whole groups of heads that share keys */
} diti_lumina2_block;

typedef struct diti_boogu_double {
    diti_lumina2_block joint, own;        /* own: the image's attention to itself, without a feed-forward */
    diti_layer both;                      /* [D, D]: behind what joint.out makes of either stream's heads */
    diti_layer inner[DITI_JOINT_STREAMS]; /* [D]: RMS norms of what the feed-forward's modulation makes */
} diti_boogu_double;

typedef struct diti_lumina2 {
    diti_transformer base;
    diti_lumina2_config config;
    diti_layer patch;               /* [D, 4 * channels] */
    diti_layer reference;           /* Boogu-Image's, [D, 4 * channels] */
    diti_weight reference_rows;     /* F32 [5, D]: added to tokens of each picture that is referred to */
    diti_weight text_norm;          /* F32 [text] */
    diti_layer text;                /* [D, text] */
    diti_embedder time;             /* [time, 256], [time, time] */
    diti_lumina2_block *blocks;     /* the image's refiners, then the blocks, then the text's refiners */
    diti_lumina2_block *references; /* Boogu-Image's refiners of pictures that are referred to */
    diti_boogu_double *doubles;
    diti_layer final_modulation; /* [D, time]: scale */
    diti_layer proj_out;         /* [4 * channels, D] */
    diti_sublayer last;
} diti_lumina2;

#define diti_lumina2_of(transformer) ((const diti_lumina2 *)(const void *)(transformer))

/* ---- reading the configuration: what config.json does not say comes from shapes ---- */

static const char *diti_lumina2_title(const diti_lumina2_config *config) {
    return config->boogu ? "Boogu-Image" : "Lumina-Image 2";
}

/* The number of the first layer that modulates a block, in the order of blocks. */
static uint32_t diti_lumina2_modulation(const diti_lumina2_config *config, uint32_t block) {
    uint32_t refiners = config->refiners, behind = refiners + config->doubles;
    if (!config->boogu) return block;
    if (block <= refiners) return 2 * block;
    if (block <= behind) return 2 * refiners + DITI_BOOGU_MODULATIONS * (block - refiners);
    return 2 * refiners + DITI_BOOGU_MODULATIONS * config->doubles + block - behind;
}

static dit_result diti_lumina2_check(const diti_loader *loader, const diti_lumina2_config *config, dit_error *err) {
    static const diti_need needs[] = {{offsetof(diti_lumina2_config, blocks), "layers"},
                                      {offsetof(diti_lumina2_config, feed), "layers"},
                                      {offsetof(diti_lumina2_config, text), "a caption embedder"},
                                      {offsetof(diti_lumina2_config, time), "a timestep embedder"},
                                      {offsetof(diti_lumina2_config, head_dim), "queries and keys"},
                                      {offsetof(diti_lumina2_config, kv_width), "queries and keys"},
                                      {offsetof(diti_lumina2_config, width), "x_embedder or the last layer"},
                                      {offsetof(diti_lumina2_config, in), "x_embedder or the last layer"},
                                      {offsetof(diti_lumina2_config, out), "x_embedder or the last layer"}};
    const char *title = diti_lumina2_title(config);
    DITI_TRY(diti_config_complete(loader, config, title, needs, DITI_COUNT(needs), err));
    if (config->in != config->out || config->in % 4 || config->in > 1024 || config->width % config->head_dim ||
        config->kv_width % config->head_dim || config->width % config->kv_width || config->head_dim > 256 ||
        config->head_dim % 4 || config->time % 4 || config->blocks + 2 * config->refiners > DITI_LUMINA2_MAX_BLOCKS ||
        diti_lumina2_modulation(config, config->refiners + config->doubles + config->blocks) > DITI_ADALN_LAYERS) {
        return diti_loader_refuse(
            loader, err,
            "a transformer of %s with %u + %u + %u blocks, heads of %u in widths of %u and %u, that "
            "takes %u columns of patches and makes %u, is out of range",
            title, (unsigned)config->refiners, (unsigned)config->doubles, (unsigned)config->blocks,
            (unsigned)config->head_dim, (unsigned)config->width, (unsigned)config->kv_width, (unsigned)config->in,
            (unsigned)config->out);
    }
    return DIT_OK;
}

/* Boogu-Image's double blocks are among num_layers. */
static void diti_boogu_read(diti_loader *loader, diti_settings *settings, const diti_json *json,
                            diti_lumina2_config *config) {
    uint32_t stored = diti_loader_count(loader, "single_stream_layers.", ".ffn_norm1.weight"), all;
    config->doubles = diti_loader_layers(loader, settings, "num_double_stream_layers", "double_stream_layers.",
                                         ".img_norm1.norm.weight");
    all = diti_setting_size(settings, "num_layers", config->doubles + stored, 1024);
    if (all < config->doubles + stored)
        diti_settings_refuse(settings, DIT_ERROR_BAD_FILE, "num_layers", "the file holds more layers of both kinds");
    config->blocks = all - config->doubles;
    config->time_scale = (float)diti_setting_number(settings, "timestep_scale", 1000, 1e-3, 1e6);
    diti_setting_number(settings, "norm_eps", 1e-5, 1e-5, 1e-5); /* norms of heads have no other one */
    if (diti_json_number(diti_json_get(json, "instruction_feature_configs"), "num_instruction_feat_layers", 1) > 1)
        diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, "num_instruction_feat_layers",
                             "a text of several states is not known for Boogu-Image");
    if (diti_json_bool(diti_json_get(json, "prompt_tuning_configs"), "use_prompt_tuning", false))
        diti_settings_refuse(settings, DIT_ERROR_UNSUPPORTED_MODEL, "use_prompt_tuning",
                             "learned rows in front of prompts are not known");
}

static dit_result diti_lumina2_read_as(diti_component *component, diti_loader *loader, const diti_json *json,
                                       bool boogu, dit_error *err) {
    static const diti_shape_key keys[] = {
        {offsetof(diti_lumina2_config, in), "x_embedder.weight", 1},
        {offsetof(diti_lumina2_config, out), "norm_out.linear_2.weight", 0},
        {offsetof(diti_lumina2_config, width), "x_embedder.weight", 0},
        {offsetof(diti_lumina2_config, text), "time_caption_embed.caption_embedder.1.weight", 1},
        {offsetof(diti_lumina2_config, time), "time_caption_embed.timestep_embedder.linear_2.weight", 0}};
    static const diti_shape_key blocks[2][3] = {
        {{offsetof(diti_lumina2_config, feed), "layers.0.feed_forward.linear_1.weight", 0},
         {offsetof(diti_lumina2_config, head_dim), "layers.0.attn.norm_q.weight", 0},
         {offsetof(diti_lumina2_config, kv_width), "layers.0.attn.to_k.weight", 0}},
        {{offsetof(diti_lumina2_config, feed), "single_stream_layers.0.feed_forward.linear_1.weight", 0},
         {offsetof(diti_lumina2_config, head_dim), "single_stream_layers.0.attn.norm_q.weight", 0},
         {offsetof(diti_lumina2_config, kv_width), "single_stream_layers.0.attn.to_k.weight", 0}}};
    diti_lumina2_config *config = &((diti_lumina2 *)(void *)component)->config;
    diti_settings settings = diti_settings_of(json, "the transformer's config.json", err);
    uint32_t fused = diti_loader_dimension(loader, "layers.0.attn.qkv.weight", 0);
    static const char *const others[][2] = {
        {"ref_image_patch_embedder.weight", "OmniGen2, another model than Lumina-Image 2"},
        {"clip_text_pooled_proj.0.weight", "NewBie, another model than Lumina-Image 2"}};
    if (!boogu) DITI_TRY(diti_refuse_others(loader, others, DITI_COUNT(others), "Lumina-Image 2", err));
    config->boogu = boogu;
    config->time_scale = 1;
    diti_read_shapes(loader, config, keys, DITI_COUNT(keys));
    diti_read_shapes(loader, config, blocks[boogu], DITI_COUNT(blocks[boogu]));
    if (fused > config->width) config->kv_width = (fused - config->width) / 2;
    if (boogu)
        diti_boogu_read(loader, &settings, json, config);
    else
        config->blocks = diti_loader_layers(loader, &settings, "num_layers", "layers.", ".ffn_norm1.weight");
    config->refiners =
        diti_loader_layers(loader, &settings, "num_refiner_layers", "noise_refiner.", ".ffn_norm1.weight");
    DITI_TRY(diti_lumina2_check(loader, config, err));
    config->channels = config->in / 4;
    config->heads = config->width / config->head_dim;
    config->shared = config->width / config->kv_width;
    config->theta = 10000;
    config->eps = (float)diti_setting_number(&settings, "norm_eps", 1e-5, 0, 1);
    if (diti_setting_size(&settings, "num_kv_heads", config->heads / config->shared, 1024) !=
        config->heads / config->shared)
        diti_settings_refuse(&settings, DIT_ERROR_BAD_FILE, "num_kv_heads", "the matrices of keys have another number");
    /* As published, a third of a head each. */
    return diti_setting_axes(&settings, diti_lumina2_title(config), "axes_dim_rope", config->head_dim,
                             config->head_dim / 3, config->head_dim / 3, DITI_LUMINA2_AXES, config->axes, err);
}

static dit_result diti_lumina2_read(diti_component *component, diti_loader *loader, const diti_json *json,
                                    dit_error *err) {
    return diti_lumina2_read_as(component, loader, json, false, err);
}

static dit_result diti_boogu_read_all(diti_component *component, diti_loader *loader, const diti_json *json,
                                      dit_error *err) {
    return diti_lumina2_read_as(component, loader, json, true, err);
}

/* ---- loading ---- */

/* Original files have one matrix of rows q, k, v, diffusers' three; adapters have the names of either. before: "attn."
   where the loader's scope does not end with it. */
static void diti_lumina2_load_heads(diti_loader *loader, diti_lumina2_block *block, const diti_lumina2_config *config,
                                    uint32_t stream, const char *before) {
    static const char *const names[] = {"to_q", "to_k", "to_v"};
    diti_layer *const layers[] = {&block->q[stream], &block->k[stream], &block->v[stream]};
    uint32_t width = config->width, all = width + 2 * config->kv_width, first = 0, i;
    char name[32], fused[32], stored[40];
    diti_format(fused, sizeof fused, "%sqkv", before);
    diti_format(stored, sizeof stored, "%s.weight", fused);
    for (i = 0; i < 3; i++) {
        uint32_t rows = i ? config->kv_width : width;
        diti_format(name, sizeof name, "%s%s", before, names[i]);
        if (diti_loader_find(loader, stored)) {
            diti_load_bare_rows(loader, layers[i], first, rows, all, width, fused);
            diti_loader_alias(loader, &layers[i]->weight, 0, rows, name, 0, rows, DITI_NAMES_ALL);
        } else {
            diti_load_bare(loader, layers[i], rows, width, name);
            if (!config->boogu)
                diti_loader_alias(loader, &layers[i]->weight, 0, rows, fused, first, all, DITI_NAMES_ALL);
        }
        first += rows;
    }
}

static void diti_lumina2_load_head_norms(diti_loader *loader, diti_lumina2_block *block,
                                         const diti_lumina2_config *config, const char *before) {
    static const char *const names[] = {"norm_q.weight", "norm_k.weight"};
    char name[32];
    uint32_t i;
    for (i = 0; i < 2; i++) {
        diti_format(name, sizeof name, "%s%s", before, names[i]);
        diti_load_vector(loader, &block->norms[i], 1, config->head_dim, name);
    }
}

static void diti_lumina2_load_feed(diti_loader *loader, diti_lumina2_block *block, const diti_lumina2_config *config,
                                   uint32_t stream) {
    diti_load_bare(loader, &block->ff_gate[stream], config->feed, config->width, "feed_forward.linear_1");
    diti_load_bare(loader, &block->ff_in[stream], config->feed, config->width, "feed_forward.linear_3");
    diti_load_bare(loader, &block->ff_out[stream], config->width, config->feed, "feed_forward.linear_2");
    diti_load_vector(loader, &block->behind[1][stream].weight, 1, config->width, "ffn_norm2.weight");
}

/* Norms in front of sublayers of two streams are the caller's. */
static void diti_lumina2_pair(diti_lumina2_block *block, const diti_lumina2_config *config, diti_streams streams) {
    diti_make_attention(&block->attention, streams, NULL, block->out, config->width, config->shared * config->head_dim);
    block->attention.in = block->q;
    block->attention.in_name = "q";
    block->attention.rms = block->feed.rms = true;
    block->attention.eps = config->eps;
    if (streams != DITI_STREAMS_TWO) block->attention.norm = &block->before[0][0];
    if (!block->ff_in[streams == DITI_STREAMS_TWO].weight.rows) return;
    diti_make_feed(&block->feed, streams, block->ff_in, block->ff_out);
    block->feed.gate = block->ff_gate;
    block->feed.activation = DITI_ACTIVATION_SILU;
    block->feed.rms = true;
    block->feed.eps = config->eps;
    if (streams != DITI_STREAMS_TWO) block->feed.norm = &block->before[1][0];
}

static void diti_lumina2_load_block(diti_loader *loader, diti_lumina2_block *block, const diti_lumina2_config *config,
                                    const char *list, uint32_t index, diti_streams streams, bool modulated) {
    uint32_t width = config->width;
    diti_loader_scope(loader, "%s%u.", list, (unsigned)index);
    if (modulated) diti_load_layer(loader, &block->modulation[0][0], 4 * width, config->time, 1, "norm1.linear");
    diti_lumina2_load_heads(loader, block, config, 0, "attn.");
    diti_lumina2_load_head_norms(loader, block, config, "attn.");
    diti_load_bare(loader, &block->out[0], width, width, "attn.to_out.0");
    diti_lumina2_load_feed(loader, block, config, 0);
    diti_load_vector(loader, &block->before[0][0].weight, 1, width, modulated ? "norm1.norm.weight" : "norm1.weight");
    diti_load_vector(loader, &block->before[1][0].weight, 1, width, "ffn_norm1.weight");
    diti_load_vector(loader, &block->behind[0][0].weight, 1, width, "norm2.weight");
    diti_loader_scope_end(loader);
    diti_lumina2_pair(block, config, streams);
}

#define DITI_BOOGU_DOUBLE "double_stream_layers."

/* Layers that modulate the second norms and the third one have four rows, of which the first two are read. */
static void diti_boogu_load_double(diti_loader *loader, diti_boogu_double *block, const diti_lumina2_config *config,
                                   uint32_t index) {
    static const char *const streams[DITI_JOINT_STREAMS] = {"instruct_", "img_"};
    uint32_t width = config->width, i;
    for (i = 0; i < DITI_JOINT_STREAMS; i++) {
        diti_loader_scope(loader, DITI_BOOGU_DOUBLE "%u.%s", (unsigned)index, streams[i]);
        diti_load_layer(loader, &block->joint.modulation[i][0], 4 * width, config->time, 1, "norm1.linear");
        diti_load_layer(loader, &block->joint.modulation[i][1], 4 * width, config->time, 1, "norm2.linear");
        diti_load_vector(loader, &block->joint.before[0][i].weight, 1, width, "norm1.norm.weight");
        diti_load_vector(loader, &block->joint.before[1][i].weight, 1, width, "norm2.norm.weight");
        diti_load_vector(loader, &block->joint.behind[0][i].weight, 1, width, "attn_norm.weight");
        diti_load_vector(loader, &block->inner[i].weight, 1, width, "ffn_norm1.weight");
        diti_lumina2_load_feed(loader, &block->joint, config, i);
        diti_loader_scope(loader, DITI_BOOGU_DOUBLE "%u.img_instruct_attn.processor.%s", (unsigned)index, streams[i]);
        diti_lumina2_load_heads(loader, &block->joint, config, i, "");
        diti_load_bare(loader, &block->joint.out[i], width, width, "out");
    }
    diti_loader_scope(loader, DITI_BOOGU_DOUBLE "%u.img_instruct_attn.", (unsigned)index);
    diti_lumina2_load_head_norms(loader, &block->joint, config, "");
    diti_load_bare(loader, &block->both, width, width, "to_out.0");
    diti_loader_scope(loader, DITI_BOOGU_DOUBLE "%u.img_self_", (unsigned)index);
    diti_lumina2_load_heads(loader, &block->own, config, 0, "attn.");
    diti_lumina2_load_head_norms(loader, &block->own, config, "attn.");
    diti_load_bare(loader, &block->own.out[0], width, width, "attn.to_out.0");
    diti_load_vector(loader, &block->own.behind[0][0].weight, 1, width, "attn_norm.weight");
    diti_loader_scope(loader, DITI_BOOGU_DOUBLE "%u.", (unsigned)index);
    diti_load_layer(loader, &block->own.modulation[0][0], 4 * width, config->time, 1, "img_norm3.linear");
    diti_load_vector(loader, &block->own.before[0][0].weight, 1, width, "img_norm3.norm.weight");
    diti_loader_scope_end(loader);
    diti_lumina2_pair(&block->joint, config, DITI_STREAMS_TWO);
    diti_lumina2_pair(&block->own, config, DITI_STREAMS_IMAGE);
}

static void diti_lumina2_load_weights(diti_loader *loader, diti_lumina2 *model) {
    const diti_lumina2_config *config = &model->config;
    uint32_t i, width = config->width, image = config->refiners, all = image + config->blocks;
    diti_load_layer(loader, &model->patch, width, 4 * config->channels, 1, "x_embedder");
    diti_load_vector(loader, &model->text_norm, 1, config->text, "time_caption_embed.caption_embedder.0.weight");
    diti_load_layer(loader, &model->text, width, config->text, 1, "time_caption_embed.caption_embedder.1");
    diti_load_embedder(loader, &model->time, config->time, config->time, 256, "time_caption_embed.timestep_embedder");
    for (i = 0; i < config->refiners; i++)
        diti_lumina2_load_block(loader, &model->blocks[all + i], config, "context_refiner.", i, DITI_STREAMS_ONE,
                                false);
    for (i = 0; i < config->refiners; i++)
        diti_lumina2_load_block(loader, &model->blocks[i], config, "noise_refiner.", i, DITI_STREAMS_IMAGE, true);
    for (i = 0; i < config->blocks; i++)
        diti_lumina2_load_block(loader, &model->blocks[image + i], config,
                                config->boogu ? "single_stream_layers." : "layers.", i, DITI_STREAMS_ONE, true);
    for (i = 0; i < config->doubles; i++) diti_boogu_load_double(loader, &model->doubles[i], config, i);
    if (config->boogu) {
        diti_load_layer(loader, &model->reference, width, 4 * config->channels, 1, "ref_image_patch_embedder");
        diti_load_vector(loader, &model->reference_rows, DITI_BOOGU_REFERENCES, width, "image_index_embedding");
        for (i = 0; i < config->refiners; i++)
            diti_lumina2_load_block(loader, &model->references[i], config, "ref_image_refiner.", i, DITI_STREAMS_IMAGE,
                                    true);
    }
    diti_load_layer(loader, &model->final_modulation, width, config->time, 1, "norm_out.linear_1");
    diti_load_layer(loader, &model->proj_out, 4 * config->channels, width, 1, "norm_out.linear_2");
    diti_make_output(&model->last, DITI_STREAMS_IMAGE, &model->proj_out);
}

/* ---- how its language model is asked (docs/models.md 5.5) ---- */

#define DITI_LUMINA2_SUPERIOR                                                                                           \
    "You are an assistant designed to generate superior images with the superior degree of image-text alignment based " \
    "on textual prompts or user prompts. <Prompt Start> "

static const diti_chat diti_lumina2_chats[] = {
    {"Lumina2Pipeline Lumina2Text2ImgPipeline",
     DITI_LUMINA2_SUPERIOR,
     "",
     NULL,
     "",
     "",
     256,
     false,
     DITI_CHAT_PLAIN_GUIDES,
     {1, 0, {-2}, false},
     0},
    DITI_CHATS_END,
};

#define DITI_BOOGU_GENERATE                                                                                            \
    DITI_CHAT_SYSTEM                                                                                                   \
    "You are a helpful assistant that generates high-quality images based on user instructions. The instructions are " \
    "as follows.<|im_end|>\n" DITI_CHAT_USER
#define DITI_BOOGU_EDIT                                                                                                \
    DITI_CHAT_SYSTEM                                                                                                   \
    "Describe the key features of the input image (color, shape, size, texture, objects, background), then explain "   \
    "how the user's text instruction should alter or modify the image. Generate a new image that meets the user's "    \
    "requirements while maintaining consistency with the original input where appropriate.<|im_end|>\n" DITI_CHAT_USER
#define DITI_BOOGU_END "<|im_end|>\n"

/* An empty prompt is put as that of an edit, with or without pictures. */
static const diti_chat diti_boogu_chats[] = {
    {"BooguImagePipeline BooguImageTurboPipeline",
     DITI_BOOGU_GENERATE,
     DITI_BOOGU_END,
     NULL,
     "",
     DITI_BOOGU_EDIT DITI_BOOGU_END,
     1280,
     false,
     DITI_CHAT_EMPTY_ALONE,
     {1, 0, {-1}, 0},
     0},
    {"BooguImageEditPipeline",
     DITI_BOOGU_EDIT,
     DITI_BOOGU_END,
     "",
     "",
     "",
     1280,
     false,
     DITI_CHAT_GUIDES_UNSEEN,
     {1, 0, {-1}, 0},
     0},
    DITI_CHATS_END,
};

/* Shifts of Boogu-Image's scheduler, docs/models.md 3.29: with the number of latent elements, or a fixed one. */
static double diti_boogu_shift(const char *version, double low, double high, double elements) {
    if (diti_equal(version, "v2")) return sqrt(elements) / 120;
    return exp(low + (high - low) * (elements - 256) / (4096 - 256));
}

/* The distilled model is told by its pipeline, and has neither guidance nor the scheduler's sigmas. */
static double diti_boogu_sigma(uint32_t step, uint32_t steps, uint32_t image_tokens) {
    (void)image_tokens;
    return 0.999 * (1 - (double)step / steps);
}

static double diti_boogu_shifted(uint32_t step, uint32_t steps, double shift) {
    double sigma = 1 - (double)step / steps;
    return shift * sigma / (1 + (shift - 1) * sigma);
}

static double diti_boogu_dynamic_v1(uint32_t step, uint32_t steps, uint32_t image_tokens) {
    return diti_boogu_shifted(step, steps, diti_boogu_shift("v1", 0.5, 1.15, image_tokens));
}

static double diti_boogu_dynamic_v2(uint32_t step, uint32_t steps, uint32_t image_tokens) {
    return diti_boogu_shifted(step, steps, diti_boogu_shift("v2", 0, 0, 4.0 * image_tokens));
}

/* A configuration has the original class's defaults; where there is none, the published one's numbers count. */
static void diti_boogu_settle(diti_model_traits *traits, const diti_json *index, const diti_json *scheduler) {
    const char *version = diti_json_string(scheduler, "time_shift_version", scheduler ? "v2" : "v1");
    double length = diti_json_number(scheduler, "seq_len", scheduler ? 0 : 4096);
    traits->fixed_shift = 1;
    if (diti_equal(diti_json_string(index, "_class_name", ""), "BooguImageTurboPipeline")) {
        traits->variant = "turbo";
        traits->default_steps = 4;
        traits->default_guidance = 1;
        traits->sampler = "lcm";
        traits->sigma = diti_boogu_sigma;
    } else if (diti_json_get(scheduler, "shift")) { /* diffusers' own scheduler */
        traits->fixed_shift = 0;
    } else if (scheduler && diti_json_bool(scheduler, "do_shift", true) &&
               diti_json_bool(scheduler, "dynamic_time_shift", true)) {
        traits->sigma = diti_equal(version, "v2") ? diti_boogu_dynamic_v2 : diti_boogu_dynamic_v1;
    } else if (diti_json_bool(scheduler, "do_shift", true) && length > 0) {
        traits->fixed_shift = (float)diti_boogu_shift(version, diti_json_number(scheduler, "base_shift", 0.5),
                                                      diti_json_number(scheduler, "max_shift", 1.15), length);
    }
}

static void diti_boogu_set_traits(diti_model_traits *traits) {
    traits->variant = "0.1";
    traits->chat = &diti_boogu_chats[0];
    traits->picture_chat = &diti_boogu_chats[1];
    traits->encoders[0] = DITI_ENCODER_QWEN3_VL;
    traits->encoder_folder = "mllm";
    traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"dynamic_time_shift\":false,"
                        "\"time_shift_version\":\"v1\",\"seq_len\":4096}";
    traits->norms_lines = false;
    traits->default_steps = 50;
    traits->references = DITI_BOOGU_REFERENCES;
    traits->floors_references = true;
    traits->reference_limit = traits->reference_limit_alone = 2048 * 2048;
    traits->shown_area = 384 * 384;
    traits->settle = diti_boogu_settle;
    diti_boogu_settle(traits, NULL, NULL);
}

static void diti_lumina2_set_traits(diti_lumina2 *model) {
    const diti_lumina2_config *config = &model->config;
    diti_model_traits *traits = &model->base.traits;
    traits->variant = "lumina2";
    diti_traits_sizes(traits, config->refiners + config->doubles + config->blocks, config->width, config->heads,
                      config->channels, 2);
    traits->feed = config->feed;
    traits->gated = true;
    traits->default_size = 128;
    traits->chat = &diti_lumina2_chats[0];
    traits->text_columns = config->text;
    traits->text_unit = 1;
    traits->encoders[0] = DITI_ENCODER_GEMMA2;
    traits->scheduler = "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":6.0}";
    traits->uniform_sigmas = true;
    traits->norms_lines = true;
    traits->whole_rows = true;
    traits->default_steps = 30;
    traits->default_guidance = 4;
    traits->joint = traits->channels_last = true;
    if (config->boogu) diti_boogu_set_traits(traits);
    traits->text_tokens = traits->chat->tokens;
}

static void diti_lumina2_load(diti_component *component, diti_loader *loader) {
    diti_lumina2 *model = (diti_lumina2 *)(void *)component;
    model->blocks = (diti_lumina2_block *)diti_component_array(
        component, loader, model->config.blocks + 2 * model->config.refiners, sizeof *model->blocks);
    model->references = (diti_lumina2_block *)diti_component_array(
        component, loader, model->config.boogu ? model->config.refiners : 0, sizeof *model->references);
    model->doubles =
        (diti_boogu_double *)diti_component_array(component, loader, model->config.doubles, sizeof *model->doubles);
    if (!model->blocks || !model->references || !model->doubles) return;
    diti_lumina2_load_weights(loader, model);
    diti_lumina2_set_traits(model);
}

/* ---- once per picture: everything that does not depend on the latent ---- */

typedef struct diti_lumina2_state {              /* prepare leaves these for the steps */
    diti_tensor sinusoids;                       /* input F32 [steps, 256] */
    diti_rotation rotations[DITI_JOINT_STREAMS]; /* [prompts * (text + image rows), head_dim / 2]: for all rows, for the
                                                    image's */
    diti_text_order order;
    diti_tensor text;  /* F32 [prompts * text rows, D], refined */
    diti_tensor final; /* F32 [steps, D] */
    diti_adaln adaln;
} diti_lumina2_state;

#define diti_lumina2_state_of(step) ((diti_lumina2_state *)(step)->family)

/* Rows of a modulation, F32 [1, 4D]. A double block's second norms have the feed-forward's shift as the second row. */
enum {
    DITI_LUMINA2_SCALE_MSA,
    DITI_LUMINA2_GATE_MSA,
    DITI_LUMINA2_SCALE_MLP,
    DITI_LUMINA2_GATE_MLP,
    DITI_BOOGU_SHIFT_MLP = DITI_LUMINA2_GATE_MSA
};

/* RMS norm of each head, then rotation: in place. */
static void diti_lumina2_turn(const diti_pass *p, diti_tensor x, const diti_weight *norm, diti_tensor cosines,
                              diti_tensor sines, const char *name) {
    const diti_lumina2_config *config = &diti_lumina2_of(p->model)->config;
    diti_qkv_desc post = DITI_ZERO;
    post.head_dim = config->head_dim;
    post.heads = diti_tensor_columns(p->graph, x) / post.head_dim;
    post.norm = DITI_QKV_RMS;
    post.eps = config->eps;
    post.weight = norm;
    post.cosines = cosines;
    post.sines = sines;
    post.tokens = diti_tensor_rows(p->graph, cosines);
    post.name = name;
    diti_qk_norm_rope(p->graph, x, &post);
}

/* Keys or values, [rows of h, columns here]. */
static diti_tensor diti_lumina2_linear(const diti_pass *p, diti_tensor h, const diti_layer *layers,
                                       const diti_sublayer *attention, const diti_column_shard *shard,
                                       const char *name) {
    const diti_lumina2_config *config = &diti_lumina2_of(p->model)->config;
    bool two = attention->streams == DITI_STREAMS_TWO;
    diti_tensor out = diti_tensor_new(p->graph, p->graph->activation, diti_tensor_rows(p->graph, h),
                                      shard->count / config->shared, name);
    uint32_t i;
    for (i = 0; i < (two ? (uint32_t)DITI_JOINT_STREAMS : 1); i++) {
        diti_linear_desc desc = DITI_ZERO;
        if (shard->count < shard->all) {
            desc.first = shard->first / config->shared;
            desc.count = shard->count / config->shared;
        }
        if (two) desc.rows = diti_pass_rows(p, i);
        desc.out = out;
        desc.name = name;
        diti_linear(p->graph, h, &layers[i].weight, &desc);
    }
    return out;
}

/* Attention within each of `runs` equal runs of rows of h, one after the other, so that a device binds the keys of one
   at a time. keys U32 [items, DITI_ITEM_WORDS]: the rows that its items attend, counted from the run's first on; 0: a
   run is an item that attends all of it. */
static diti_tensor diti_lumina2_attend(const diti_pass *p, const diti_lumina2_block *w, diti_tensor h, uint32_t runs,
                                       diti_tensor keys, diti_tensor cosines, diti_tensor sines) {
    const diti_lumina2_config *config = &diti_lumina2_of(p->model)->config;
    diti_graph *graph = p->graph;
    diti_column_shard shard = diti_column_shard_of(p, &w->attention);
    diti_tensor q, k, v, out;
    uint32_t rows, items, i;
    q = diti_sublayer_in(p, h, &w->attention, 0);
    k = diti_lumina2_linear(p, h, w->k, &w->attention, &shard, "k");
    v = diti_lumina2_linear(p, h, w->v, &w->attention, &shard, "v");
    if (diti_graph_failed(graph)) return 0;
    diti_lumina2_turn(p, q, &w->norms[0], cosines, sines, "q_turn");
    diti_lumina2_turn(p, k, &w->norms[1], cosines, sines, "k_turn");
    rows = diti_tensor_rows(graph, q) / runs;
    items = keys ? diti_tensor_rows(graph, keys) / runs : 1;
    out = diti_tensor_new(graph, graph->activation, runs * rows, shard.count, "attention");
    for (i = 0; i < runs && !diti_graph_failed(graph); i++) {
        diti_attention_desc desc = DITI_ZERO;
        desc.batch = items;
        desc.heads = shard.count / config->head_dim;
        desc.kv_heads = desc.heads / config->shared;
        desc.head_dim = config->head_dim;
        desc.scale = 1.0f / sqrtf((float)config->head_dim);
        if (keys) desc.items = diti_tensor_view(graph, keys, i * items, items, 0, DITI_ITEM_WORDS);
        desc.key_limit = rows / items;
        desc.out = diti_tensor_view(graph, out, i * rows, rows, 0, shard.count);
        desc.name = "attention";
        diti_attention(graph, diti_tensor_view(graph, q, i * rows, rows, 0, shard.count),
                       diti_tensor_view(graph, k, i * rows, rows, 0, shard.count / config->shared),
                       diti_tensor_view(graph, v, i * rows, rows, 0, shard.count / config->shared), &desc);
    }
    return out;
}

/* A pass whose rows are those of the texts alone, one item for each prompt. */
static diti_pass diti_lumina2_text_pass(const diti_pass *p) {
    diti_pass here = *p;
    here.items = here.prompts = p->step->text_batch;
    here.text = p->step->text_tokens;
    here.image = 0;
    memset(&here.modulation, 0, sizeof here.modulation);
    return here;
}

/* A block of the text's own, docs/models.md 3.18 step 2: no modulation; a prompt's rows attend those that it fills. */
static void diti_lumina2_refine(const diti_pass *p, const diti_lumina2_block *w, diti_tensor x, diti_tensor cosines,
                                diti_tensor sines) {
    const diti_lumina2_config *config = &diti_lumina2_of(p->model)->config;
    diti_norm_desc norm = DITI_ZERO;
    diti_pass here = diti_lumina2_text_pass(p);
    diti_tensor h = diti_sublayer_norm(&here, x, &norm, &w->attention);
    h = diti_lumina2_attend(&here, w, h, 1, diti_lumina2_state_of(p->step)->order.items, cosines, sines);
    diti_norm_behind(p->graph, x, diti_sublayer_out(&here, &w->attention, h), &w->behind[0][0].weight, config->eps, 0);
    memset(&norm, 0, sizeof norm);
    h = diti_sublayer_norm(&here, x, &norm, &w->feed);
    h = diti_sublayer_in(&here, h, &w->feed, 0);
    diti_norm_behind(p->graph, x, diti_sublayer_out(&here, &w->feed, h), &w->behind[1][0].weight, config->eps, 0);
}

/* The text as blocks read it: F32 [prompts * text rows, D], zeros in front of it. */
static diti_tensor diti_lumina2_text(diti_pass *p) {
    const diti_lumina2 *model = diti_lumina2_of(p->model);
    const diti_lumina2_config *config = &model->config;
    const diti_lumina2_state *state = diti_lumina2_state_of(p->step);
    diti_graph *graph = p->graph;
    uint32_t i;
    diti_tensor text = diti_text_columns(p, config->text), cosines, sines;
    text = diti_layer_f32(graph, diti_rms_norm(graph, text, &model->text_norm, config->eps, NULL, "text_norm"),
                          &model->text, DITI_ACTIVATION_NONE, 0, "context");
    text = diti_text_order_rows(p, &state->order, text);
    cosines = diti_rotation_rows_of(p, state->rotations[0].cosines, p->step->text_batch, 0, p->step->text_tokens);
    sines = diti_rotation_rows_of(p, state->rotations[0].sines, p->step->text_batch, 0, p->step->text_tokens);
    for (i = 0; i < config->refiners && !diti_graph_failed(graph); i++)
        diti_lumina2_refine(p, &model->blocks[config->refiners + config->blocks + i], text, cosines, sines);
    return text;
}

/* Layers that modulate a block. */
static void diti_lumina2_add_modulation(const diti_lumina2 *model, diti_adaln *adaln, uint32_t block) {
    const diti_lumina2_config *config = &model->config;
    uint32_t doubles = block - config->refiners, stream;
    if (block < config->refiners || doubles >= config->doubles) {
        diti_adaln_add(adaln,
                       &model->blocks[block < config->refiners ? block : block - config->doubles].modulation[0][0]);
        if (config->boogu && block < config->refiners)
            diti_adaln_add(adaln, &model->references[block].modulation[0][0]);
        return;
    }
    for (stream = 0; stream < DITI_JOINT_STREAMS; stream++) {
        diti_adaln_add(adaln, &model->doubles[doubles].joint.modulation[stream][0]);
        diti_adaln_add(adaln, &model->doubles[doubles].joint.modulation[stream][1]);
    }
    diti_adaln_add(adaln, &model->doubles[doubles].own.modulation[0][0]);
}

/* Tokens of pictures that are referred to, each with the row that tells which one it is. */
static void diti_boogu_references(const diti_pass *p) {
    const diti_lumina2 *model = diti_lumina2_of(p->model);
    const diti_step_desc *step = p->step;
    uint32_t i, row = 0;
    diti_reference_lead(p, &model->reference);
    for (i = 0; i < step->reference_count && !diti_graph_failed(p->graph); i++) {
        uint32_t tokens = step->references[i].height / 2 * (step->references[i].width / 2);
        diti_tensor rows = diti_tensor_view(p->graph, step->lead_rows, row, tokens, 0, p->width);
        diti_add_rows(
            p->graph, rows,
            diti_tensor_view(p->graph, diti_tensor_weight(p->graph, &model->reference_rows, 0), i, 1, 0, p->width),
            rows, "reference_index");
        row += tokens;
    }
}

static void diti_lumina2_prepare(diti_pass *p) {
    const diti_lumina2 *model = diti_lumina2_of(p->model);
    const diti_lumina2_config *config = &model->config;
    diti_step_desc *step = p->step;
    diti_graph *graph = p->graph;
    uint32_t rows = step->text_tokens + diti_reference_tokens(p) + step->height / 2 * (step->width / 2), i, end;
    diti_lumina2_state *state = diti_lumina2_state_of(step);
    diti_tensor time;
    state->sinusoids = diti_tensor_input(graph, DITI_F32, step->steps, 256, "timesteps");
    diti_rotation_prepare(graph, &state->rotations[0], step->text_batch * rows, config->head_dim / 2);
    diti_text_order_prepare(p, &state->order);
    if (!state->order.keys) /* another device may have the longer text */
        state->order.keys = diti_tensor_input(graph, DITI_U32, step->branches * step->batch, DITI_ITEM_WORDS, "keys");
    time = diti_silu(graph, diti_embed(graph, &model->time, state->sinusoids, 0), "modulation_silu");
    diti_axes_blocks(step->axes, p->model->traits.layers, &i, &end);
    for (state->adaln.first = diti_lumina2_modulation(config, i); i < end; i++)
        diti_lumina2_add_modulation(model, &state->adaln, i);
    diti_adaln_prepare_active(p, &state->adaln, time, 1);
    state->final = diti_layer_f32(graph, time, &model->final_modulation, DITI_ACTIVATION_NONE, 0, "final_modulation");
    if (config->boogu) diti_boogu_references(p);
    state->text = diti_lumina2_text(p);
}

/* ---- inputs ---- */

/* A text's tokens stand behind each other from 0 on, Boogu-Image's on a diagonal, and the picture at the next place;
   pictures that are referred to take as many places in between as their longer sides have tokens. */
static void diti_lumina2_place(const diti_transformer *transformer, const diti_step_desc *step, uint32_t prompt,
                               float *cosines, float *sines) {
    const diti_lumina2_config *config = &diti_lumina2_of(transformer)->config;
    uint32_t half = config->head_dim / 2, texts = step->text_tokens, columns = step->width / 2, row;
    uint32_t rows = texts + diti_image_rows(step), i;
    uint32_t length = diti_text_order_length(step, prompt, 1);
    for (row = 0; row < rows; row++) {
        int32_t position[DITI_LUMINA2_AXES] = {0, 0, 0};
        size_t at = ((size_t)prompt * rows + row) * half;
        uint32_t token = row - texts, y, x, pictures = step->reference_count;
        if (row < texts && row >= texts - length) position[0] = (int32_t)(row - (texts - length));
        if (row < texts && config->boogu) position[1] = position[2] = position[0];
        if (row >= texts) {
            y = (token - step->lead) / columns;
            x = (token - step->lead) % columns;
            if (token < step->lead) pictures = diti_reference_position(step, 2, token, &y, &x);
            position[0] = (int32_t)length;
            for (i = 0; i < pictures; i++) {
                const diti_reference_latent *picture = &step->references[i];
                position[0] += (int32_t)((picture->height > picture->width ? picture->height : picture->width) / 2);
            }
            position[1] = (int32_t)y;
            position[2] = (int32_t)x;
        }
        diti_rotate_axes(config->axes, DITI_LUMINA2_AXES, (double)config->theta, position, cosines + at, sines + at);
    }
}

/* The model counts time from noise, 0, to the picture, 1. */
static dit_result diti_lumina2_write_inputs(const diti_transformer *transformer, diti_plan *plan,
                                            const diti_step_desc *step, const float *timesteps, dit_error *err) {
    const diti_lumina2 *model = diti_lumina2_of(transformer);
    const diti_lumina2_state *state = (const diti_lumina2_state *)step->family;
    const diti_env *env = &model->base.component.env;
    uint32_t i;
    float *times;
    dit_result result;
    DITI_TRY(diti_text_order_write(plan, step, &state->order, env, 1, diti_image_rows(step), err));
    DITI_TRY(diti_write_places(transformer, plan, step, state->rotations[0].cosines, state->rotations[0].sines,
                               step->text_batch, diti_lumina2_place, err));
    times = (float *)diti_alloc_array(env, step->steps, sizeof *times);
    if (!times) return diti_fail_memory(err, "the timesteps");
    for (i = 0; i < step->steps; i++) times[i] = model->config.time_scale * (1 - timesteps[i] / 1000);
    result = diti_write_sinusoids(plan, state->sinusoids, times, step->steps, 0, err);
    diti_free(env, times);
    return result;
}

/* ---- one evaluation ---- */

static void diti_lumina2_begin(diti_pass *p) {
    diti_lumina2_state *state = diti_lumina2_state_of(p->step);
    diti_rotation_begin_both(p, state->rotations);
    diti_adaln_select_gates(p, &state->adaln);
}

static diti_tensor diti_lumina2_embed(diti_pass *p) {
    return diti_patch_embed(p, diti_lumina2_state_of(p->step)->text, &diti_lumina2_of(p->model)->patch, 0);
}

/* The pass's modulation becomes that of a layer, and so do gates, F32 [1, its columns]. */
static void diti_lumina2_modulate(diti_pass *p, uint32_t layer, diti_tensor *gates) {
    const diti_lumina2_state *state = diti_lumina2_state_of(p->step);
    diti_pass here = *p;
    here.index = layer;
    here.modulation.rows = p->modulation.rows = diti_adaln_get(p->graph, &state->adaln, layer);
    *gates = diti_adaln_gates(&here, &state->adaln);
}

/* One of the rows of a modulation, or of gates. */
static diti_tensor diti_lumina2_row(const diti_pass *p, diti_tensor rows, uint32_t which) {
    return diti_tensor_view(p->graph, rows, 0, 1, which * p->width, p->width);
}

/* Lumina2TransformerBlock.forward, docs/models.md 3.18 step 3, of all rows or of the image's; x F32 [items * (text +
   image), D] is changed in place. layer: what modulates it. */
static void diti_lumina2_run(const diti_pass *p, const diti_lumina2_block *w, uint32_t layer, diti_tensor x,
                             diti_tensor keys, diti_tensor cosines, diti_tensor sines) {
    diti_pass here = *p;
    diti_tensor gates, h;
    diti_lumina2_modulate(&here, layer, &gates);
    h = diti_modulate(&here, x, DITI_NO_GATE, (diti_modulator)DITI_LUMINA2_SCALE_MSA, &w->attention);
    h = diti_lumina2_attend(&here, w, h, here.items, keys, cosines, sines);
    diti_sublayer_add_normed(&here, x, &w->attention, h, &w->behind[0][0].weight,
                             diti_lumina2_row(p, gates, DITI_LUMINA2_GATE_MSA));
    h = diti_modulate(&here, x, DITI_NO_GATE, (diti_modulator)DITI_LUMINA2_SCALE_MLP, &w->feed);
    h = diti_sublayer_in(&here, h, &w->feed, 0);
    diti_sublayer_add_normed(&here, x, &w->feed, h, &w->behind[1][0].weight,
                             diti_lumina2_row(p, gates, DITI_LUMINA2_GATE_MLP));
}

/* A refiner on `count` of an item's rows behind its text, from `first` on. */
static void diti_boogu_refine(const diti_pass *p, const diti_lumina2_block *w, uint32_t layer, diti_tensor x,
                              uint32_t item, uint32_t first, uint32_t count) {
    const diti_lumina2_state *state = diti_lumina2_state_of(p->step);
    uint32_t row = item * (p->text + p->image), half = diti_lumina2_of(p->model)->config.head_dim / 2,
             place = (p->step->text_batch > 1 ? item * p->image : 0) + first;
    diti_pass here = *p;
    here.items = here.prompts = 1;
    here.text = p->text + first;
    here.image = count;
    diti_lumina2_run(&here, w, layer, diti_tensor_view(p->graph, x, row, here.text + count, 0, p->width), 0,
                     diti_tensor_view(p->graph, state->rotations[DITI_JOINT_IMAGE].here_cosines, place, count, 0, half),
                     diti_tensor_view(p->graph, state->rotations[DITI_JOINT_IMAGE].here_sines, place, count, 0, half));
}

/* Refiners of the image's tokens, and of each picture that is referred to. */
static void diti_boogu_refine_all(const diti_pass *p, diti_tensor x) {
    const diti_lumina2 *model = diti_lumina2_of(p->model);
    const diti_step_desc *step = p->step;
    uint32_t layer = diti_lumina2_modulation(&model->config, p->index), item, i, row, tokens;
    for (item = 0; item < p->items && !diti_graph_failed(p->graph); item++) {
        diti_boogu_refine(p, &model->blocks[p->index], layer, x, item, step->lead, p->image - step->lead);
        for (i = row = 0; i < step->reference_count; i++, row += tokens) {
            tokens = step->references[i].height / 2 * (step->references[i].width / 2);
            diti_boogu_refine(p, &model->references[p->index], layer + 1, x, item, row, tokens);
        }
    }
}

/* Norms of double blocks, which text and image have each: RMS(x) * weight * (1 + scale) + shift, a new
   tensor of x's rows; or, with to not 0, to += gate * RMS(x) * weight, gates in scales. */
static diti_tensor diti_boogu_norm(const diti_pass *p, diti_tensor x, const diti_layer *weights,
                                   const diti_tensor *scales, const diti_tensor *shifts, diti_tensor to) {
    diti_graph *graph = p->graph;
    diti_tensor out = to ? to : diti_tensor_new(graph, graph->activation, diti_tensor_rows(graph, x), p->width, "norm");
    uint32_t item, stream;
    for (item = 0; item < p->items; item++) {
        for (stream = 0; stream < DITI_JOINT_STREAMS && !diti_graph_failed(graph); stream++) {
            diti_rows at = diti_pass_rows(p, stream);
            uint32_t row = item * at.of + at.first;
            diti_norm_desc desc = DITI_ZERO;
            desc.rms = true;
            desc.eps = diti_lumina2_of(p->model)->config.eps;
            desc.weight = &weights[stream].weight;
            desc.scale = scales ? scales[stream] : 0;
            desc.shift = shifts ? shifts[stream] : 0;
            desc.out = diti_tensor_view(graph, out, row, at.count, 0, p->width);
            desc.residual = to ? desc.out : 0;
            desc.factor = to != 0;
            desc.name = to ? "norm_behind" : "norm_before";
            diti_norm(graph, diti_tensor_view(graph, x, row, at.count, 0, p->width), &desc);
        }
    }
    return out;
}

/* (1 + a) * (1 + b) - 1, all F32 [1, D]. */
static diti_tensor diti_boogu_scales(const diti_pass *p, diti_tensor a, diti_tensor b) {
    diti_tensor sum = diti_add_rows(p->graph, a, b, 0, "scales");
    return diti_add_rows(p->graph, diti_multiply(p->graph, diti_add_rows(p->graph, a, 0, 0, "scales"), b, 0, "scales"),
                         sum, 0, "scales");
}

/* A double block, docs/models.md 3.29 step 4. Modulation, and what the feed-forward reads, are of x as it comes. */
static void diti_boogu_double_run(diti_pass *p, const diti_boogu_double *w, diti_tensor x, diti_tensor keys) {
    const diti_lumina2_state *state = diti_lumina2_state_of(p->step);
    const diti_lumina2_block *joint = &w->joint;
    uint32_t layer = diti_lumina2_modulation(&diti_lumina2_of(p->model)->config, p->index), i;
    diti_tensor scales[2][DITI_JOINT_STREAMS], shifts[DITI_JOINT_STREAMS], gates[2][DITI_JOINT_STREAMS], tanhs, h, feed,
        own;
    for (i = 0; i < DITI_JOINT_STREAMS; i++, layer += 2) {
        diti_tensor scale;
        diti_lumina2_modulate(p, layer, &tanhs);
        scales[0][i] = diti_lumina2_row(p, p->modulation.rows, DITI_LUMINA2_SCALE_MSA);
        scale = diti_lumina2_row(p, p->modulation.rows, DITI_LUMINA2_SCALE_MLP);
        gates[0][i] = diti_lumina2_row(p, tanhs, DITI_LUMINA2_GATE_MSA);
        gates[1][i] = diti_lumina2_row(p, tanhs, DITI_LUMINA2_GATE_MLP);
        diti_lumina2_modulate(p, layer + 1, &tanhs);
        scales[1][i] = diti_boogu_scales(p, scale, diti_lumina2_row(p, p->modulation.rows, DITI_LUMINA2_SCALE_MSA));
        shifts[i] = diti_lumina2_row(p, p->modulation.rows, DITI_BOOGU_SHIFT_MLP);
    }
    feed = diti_boogu_norm(p, x, joint->before[1], scales[1], shifts, 0);
    feed = diti_boogu_norm(p, feed, w->inner, NULL, NULL, 0);
    diti_lumina2_modulate(p, layer, &tanhs);
    own = diti_modulate(p, x, DITI_NO_GATE, (diti_modulator)DITI_LUMINA2_SCALE_MSA, &w->own.attention);
    own = diti_lumina2_attend(p, &w->own, own, p->items, 0, state->rotations[DITI_JOINT_IMAGE].here_cosines,
                              state->rotations[DITI_JOINT_IMAGE].here_sines);
    h = diti_boogu_norm(p, x, joint->before[0], scales[0], NULL, 0);
    h = diti_lumina2_attend(p, joint, h, p->items, keys, state->rotations[DITI_JOINT_TEXT].here_cosines,
                            state->rotations[DITI_JOINT_TEXT].here_sines);
    h = diti_layer_f32(p->graph, diti_sublayer_out(p, &joint->attention, h), &w->both, DITI_ACTIVATION_NONE, 0,
                       "attention_both");
    diti_boogu_norm(p, h, joint->behind[0], gates[0], NULL, x);
    diti_sublayer_add_normed(p, x, &w->own.attention, own, &w->own.behind[0][0].weight,
                             diti_lumina2_row(p, tanhs, DITI_LUMINA2_GATE_MSA));
    h = diti_sublayer_out(p, &joint->feed, diti_sublayer_in(p, feed, &joint->feed, 0));
    diti_boogu_norm(p, h, joint->behind[1], gates[1], NULL, x);
}

/* x F32 [items * (text + image), D] is changed in place. */
static diti_tensor diti_lumina2_run_block(diti_pass *p, diti_tensor x) {
    const diti_lumina2 *model = diti_lumina2_of(p->model);
    const diti_lumina2_config *config = &model->config;
    const diti_lumina2_state *state = diti_lumina2_state_of(p->step);
    bool refines = p->index < config->refiners;
    uint32_t doubles = p->index - config->refiners, stream = refines ? DITI_JOINT_IMAGE : DITI_JOINT_TEXT;
    diti_tensor keys = refines ? 0 : diti_text_order_keys(p, &state->order);
    if (p->image != p->step->token_range.all)
        return diti_graph_fail(p->graph, DIT_ERROR_INVALID_ARGUMENT,
                               "%s wants all rows on one device: no ulysses, ring or pipefusion",
                               diti_lumina2_title(config));
    if (refines && p->step->lead)
        diti_boogu_refine_all(p, x);
    else if (!refines && doubles < config->doubles)
        diti_boogu_double_run(p, &model->doubles[doubles], x, keys);
    else
        diti_lumina2_run(p, &model->blocks[refines ? p->index : p->index - config->doubles],
                         diti_lumina2_modulation(config, p->index), x, keys, state->rotations[stream].here_cosines,
                         state->rotations[stream].here_sines);
    return x;
}

static diti_tensor diti_lumina2_final(diti_pass *p, diti_tensor x) {
    return diti_gated_final(p, x, diti_lumina2_state_of(p->step)->final, &diti_lumina2_of(p->model)->last);
}

/* ---- where parts of such models are ---- */

#define DITI_LUMINA2_USUAL "Alpha-VLLM/Lumina-Image-2.0"
static const diti_place diti_lumina2_places[] = {
    {"", DIT_ROLE_TRANSFORMER, DITI_LUMINA2_USUAL ": transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_LUMINA2_USUAL ": text_encoder/"},
    {"", DIT_ROLE_VAE, DITI_LUMINA2_USUAL ": vae/"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_LUMINA2_USUAL ": tokenizer/"},
    {"", DIT_ROLE_SCHEDULER, DITI_LUMINA2_USUAL ": scheduler/"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_lumina2_family(void) {
    static const diti_family family = {
        "lumina2",
        "Lumina-Image 2",
        {"Lumina2Transformer2DModel",
         NULL,
         {"time_caption_embed.caption_embedder.1.weight", "layers.0.norm1.linear.weight", NULL, NULL},
         {"cap_embedder.1.weight", "layers.0.attention.qkv.weight", "layers.0.adaLN_modulation.1.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_lumina2), diti_lumina2_read, diti_lumina2_load, NULL},
        diti_lumina2_names,
        {16, 0.3611f, 0.1159f, false},
        NULL,
        diti_lumina2_chats,
        diti_lumina2_places,
        sizeof(diti_lumina2_state),
        diti_lumina2_prepare,
        diti_lumina2_begin,
        diti_lumina2_embed,
        diti_lumina2_run_block,
        diti_lumina2_final,
        diti_lumina2_write_inputs};
    return &family;
}

#define DITI_BOOGU_PLACE "Boogu/Boogu-Image-0.1-"
static const diti_place diti_boogu_places[] = {
    {"turbo", DIT_ROLE_TRANSFORMER, DITI_BOOGU_PLACE "Turbo: transformer/"},
    {"", DIT_ROLE_TRANSFORMER, DITI_BOOGU_PLACE "Base or " DITI_BOOGU_PLACE "Edit: transformer/"},
    {"", DIT_ROLE_TEXT_1, DITI_BOOGU_PLACE "Base: mllm/, or Qwen/Qwen3-VL-8B-Instruct"},
    {"", DIT_ROLE_VAE, DITI_BOOGU_PLACE "Base: vae/, FLUX.1's"},
    {"", DIT_ROLE_TOKENIZER_1, DITI_BOOGU_PLACE "Base: processor/"},
    {"", DIT_ROLE_SCHEDULER, DITI_BOOGU_PLACE "Base: scheduler/"},
    {"0.1", DIT_ROLE_NONE,
     "a single file of Boogu-Image-Turbo looks alike and wants 4 steps, guidance 1, sampler lcm and shift 1"},
    {NULL, DIT_ROLE_NONE, NULL},
};

DIT_INTERNAL const diti_family *diti_lumina2_boogu_family(void) {
    static const diti_family family = {
        "boogu",
        "Boogu-Image",
        {"BooguImageTransformer2DModel",
         NULL,
         {"ref_image_patch_embedder.weight", "double_stream_layers.0.img_instruct_attn.processor.img_to_q.weight",
          "single_stream_layers.0.norm1.linear.weight", NULL},
         {"ref_image_patch_embedder.weight", "double_stream_layers.0.img_instruct_attn.processor.img_to_q.weight",
          "single_stream_layers.0.norm1.linear.weight", NULL},
         {NULL, NULL}},
        {"transformer", "transformer", sizeof(diti_lumina2), diti_boogu_read_all, diti_lumina2_load, NULL},
        NULL,
        {16, 0.3611f, 0.1159f, false}, /* FLUX.1's */
        NULL,
        diti_boogu_chats,
        diti_boogu_places,
        sizeof(diti_lumina2_state),
        diti_lumina2_prepare,
        diti_lumina2_begin,
        diti_lumina2_embed,
        diti_lumina2_run_block,
        diti_lumina2_final,
        diti_lumina2_write_inputs};
    return &family;
}
