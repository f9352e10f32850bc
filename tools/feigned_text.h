/* Text encoders that bench_shapes.h has not, for tools/feigned.c: decoder language models, the towers that show them
   pictures, CLIP's encoder of pictures, BERT and Anima's conditioner, in their published sizes (docs/models.md 5.3 to
   5.8). The library's own code emits them, with one layer of each kind and random weights. */
#ifndef FEIGNED_TEXT_H
#define FEIGNED_TEXT_H
#include "bench_core.h"

typedef struct language {
    const char *name;
    uint32_t columns, heads, kv_heads, head_dim, hidden;
    bool head_norms, biased, gemma; /* Qwen3; Qwen2.5; Gemma 2 with its caps and four norms */
    uint32_t tower;                 /* 2: Qwen2.5-VL's, 3: Qwen3-VL's, 0: none */
} language;

static const language languages[] = {
    {"qwen3-0.6b", 1024, 16, 8, 128, 3072, true, false, false, 0},
    {"qwen3-4b", 2560, 32, 8, 128, 9728, true, false, false, 0},
    {"qwen3-vl-8b", 4096, 32, 8, 128, 12288, true, false, false, 3},
    {"qwen2.5-vl-7b", 3584, 28, 4, 128, 18944, false, true, false, 2},
    {"gemma-2-2b", 2304, 8, 4, 256, 9216, false, false, true, 0},
    {"mistral-small-3", 5120, 32, 8, 128, 32768, false, false, false, 0},
    {"llama-3-8b", 4096, 32, 8, 128, 14336, false, false, false, 0},
};

static diti_weight text_matrix(bench *b, uint32_t rows, uint32_t columns) {
    return *random_weight(b, fitting_type(b, columns), rows, columns, 1);
}

static diti_weight text_vector(bench *b, uint32_t columns) { return *random_weight(b, DIT_TYPE_F32, 1, columns, 1); }

static diti_layer text_layer(bench *b, uint32_t rows, uint32_t columns) {
    diti_layer layer;
    layer.weight = text_matrix(b, rows, columns);
    layer.bias = text_vector(b, rows);
    return layer;
}

static diti_layer text_norm(bench *b, uint32_t columns) {
    diti_layer layer;
    layer.weight = text_vector(b, columns);
    layer.bias = text_vector(b, columns);
    return layer;
}

static diti_fused_linear text_fused(bench *b, uint32_t count, uint32_t rows, uint32_t columns) {
    diti_fused_linear fused = DITI_ZERO;
    fused.count = 1;
    fused.layers[0] = text_layer(b, count * rows, columns);
    return fused;
}

/* Two prompts of unequal length, or of the same where the encoder does not pack them, behind pictures' tokens. */
static diti_encoder_use text_use(bench *b, uint32_t tokens, bool packed) {
    diti_encoder_use use = DITI_ZERO;
    use.batch = 2;
    use.tokens = tokens;
    use.rows = packed ? 2 * tokens - 3 : 2 * tokens;
    use.ids = diti_tensor_input(&b->graph, DITI_U32, 1, use.rows, "ids");
    use.items = diti_tensor_input(&b->graph, DITI_U32, use.batch, DITI_ITEM_WORDS, "items");
    return use;
}

static diti_decoder_block language_block(bench *b, const language *l) {
    diti_decoder_block block = DITI_ZERO;
    uint32_t d = l->columns;
    block.norm = text_vector(b, d);
    block.q.weight = text_matrix(b, l->heads * l->head_dim, d);
    if (l->biased) block.q.bias = text_vector(b, l->heads * l->head_dim);
    block.kv = text_fused(b, 2, l->kv_heads * l->head_dim, d);
    if (!l->biased) memset(&block.kv.layers[0].bias, 0, sizeof block.kv.layers[0].bias);
    block.q_norm = text_vector(b, l->head_dim);
    block.k_norm = text_vector(b, l->head_dim);
    block.out = text_matrix(b, d, l->heads * l->head_dim);
    block.attention_norm = text_vector(b, d);
    block.ff_norm = text_vector(b, d);
    block.gate = text_matrix(b, l->hidden, d);
    block.up = text_matrix(b, l->hidden, d);
    block.down = text_matrix(b, d, l->hidden);
    block.last_norm = text_vector(b, d);
    return block;
}

static diti_vision_merger tower_merger(bench *b, uint32_t width, uint32_t norm, uint32_t columns, bool third) {
    diti_vision_merger merger = DITI_ZERO;
    uint32_t four = DITI_VISION_MERGE * DITI_VISION_MERGE * width;
    merger.norm.weight = text_vector(b, norm);
    if (third) merger.norm.bias = text_vector(b, norm);
    merger.in = text_layer(b, four, four);
    merger.out = text_layer(b, columns, four);
    return merger;
}

/* Two blocks: one attends windows, one the whole picture. */
static diti_vision tower_of(bench *b, const language *l, diti_vision_block *blocks, float *places) {
    const bool third = l->tower == 3;
    diti_vision vision = DITI_ZERO;
    diti_vision_config *config = &vision.config;
    uint32_t i, d = config->columns = third ? 1152 : 1280;
    config->blocks = 2;
    config->heads = 16;
    config->head_dim = d / 16;
    config->hidden = third ? 4304 : 3420;
    config->patch = third ? 16 : 14;
    config->window = third ? 1u << 20 : 4;
    config->whole = third ? 3 : 2;
    config->third = third;
    config->side = 48;
    config->deep_count = third;
    vision.patch.weight = text_matrix(b, d, 6 * config->patch * config->patch);
    vision.patch.bias = text_vector(b, d);
    vision.blocks = blocks;
    vision.places = third ? places : NULL;
    for (i = 0; i < config->blocks; i++) {
        diti_vision_block *block = &blocks[i];
        block->norm1 = block->norm2 = text_norm(b, d);
        if (!third) memset(&block->norm1.bias, 0, sizeof block->norm1.bias);
        block->norm2 = block->norm1;
        block->qkv = text_layer(b, 3 * d, d);
        block->out = text_layer(b, d, d);
        if (!third) block->gate = text_layer(b, config->hidden, d);
        block->up = text_layer(b, config->hidden, d);
        block->down = text_layer(b, d, config->hidden);
    }
    vision.merger = tower_merger(b, d, d, l->columns, third);
    if (third) vision.deep[0] = tower_merger(b, d, DITI_VISION_MERGE * DITI_VISION_MERGE * d, l->columns, third);
    return vision;
}

static void emit_language(bench *b, const language *l, uint32_t tokens) {
    diti_decoder_block block = language_block(b, l);
    diti_vision_block blocks[2];
    diti_decoder decoder = DITI_ZERO;
    diti_decoder_config *config = &decoder.config;
    diti_vision vision = DITI_ZERO;
    diti_encoder_use use;
    float places = 0; /* nothing is run, so that nothing reads them */
    memset(blocks, 0, sizeof blocks);
    config->columns = l->columns;
    config->layers = config->needed = config->taps[1] = 1;
    config->tap_count = 2;
    config->normed = true;
    config->heads = l->heads;
    config->kv_heads = l->kv_heads;
    config->head_dim = l->head_dim;
    config->q_rows = l->heads * l->head_dim;
    config->kv_rows = l->kv_heads * l->head_dim;
    config->eps = 1e-6f;
    config->scale = 0.1f;
    config->cap = l->gemma ? 50.0f : 0.0f;
    config->embedding_scale = l->gemma ? 48.0f : 0.0f;
    config->window = l->gemma ? 4096 : 0;
    config->windowed[0] = 0x55555555u;
    config->head_norms = l->head_norms;
    config->biased = l->biased;
    config->four_norms = config->offset_norms = l->gemma;
    config->activation = l->gemma ? DITI_ACTIVATION_GELU_TANH : DITI_ACTIVATION_SILU;
    decoder.embedding = text_matrix(b, 32000, l->columns);
    decoder.final_norm = text_vector(b, l->columns);
    decoder.blocks = &block;
    if (l->tower) {
        vision = tower_of(b, l, blocks, &places);
        decoder.vision = &vision;
    }
    use = text_use(b, tokens, true);
    if (l->tower) { /* a picture whose windows at the edges are smaller */
        use.picture_count = 1;
        use.pictures[0].rows = 13;
        use.pictures[0].columns = 18;
    }
    if (!b->code) diti_decoder_encode(&decoder, &b->graph, &use);
}

/* Wan's encoder of the first picture, ViT-H/14. */
static void emit_clip_vision(bench *b) {
    diti_clip_vision vision = DITI_ZERO;
    diti_clip_block block = DITI_ZERO;
    diti_clip_config *config = &vision.config;
    uint32_t d = config->columns = 1280;
    config->positions = 257;
    config->blocks = 2;
    config->heads = 16;
    config->hidden = 5120;
    config->eps = 1e-5f;
    config->activation = DITI_ACTIVATION_GELU_ERF;
    vision.side = 16;
    vision.patch = 14;
    vision.pixels = vision.side * vision.patch;
    vision.patches.weight = text_matrix(b, d, 3 * 14 * 14);
    vision.whole = text_vector(b, d);
    vision.position = *random_weight(b, DIT_TYPE_F32, config->positions, d, 1);
    vision.norm = text_norm(b, d);
    vision.blocks = &block;
    block.norm1 = block.norm2 = text_norm(b, d);
    block.qkv = text_fused(b, 3, d, d);
    block.out = text_layer(b, d, d);
    block.up = text_layer(b, config->hidden, d);
    block.down = text_layer(b, d, config->hidden);
    if (!b->code) diti_clip_vision_encode(&vision, &b->graph, diti_clip_vision_input(&vision, &b->graph));
}

/* HunyuanDiT's BERT. */
static void emit_bert(bench *b) {
    diti_bert bert = DITI_ZERO;
    diti_bert_block block = DITI_ZERO;
    diti_encoder_use use = text_use(b, 77, false);
    uint32_t d = bert.config.columns = 1024;
    bert.config.positions = 512;
    bert.config.kinds = 2;
    bert.config.blocks = 1;
    bert.config.heads = 16;
    bert.config.hidden = 4096;
    bert.config.eps = 1e-12f;
    bert.embedding = text_matrix(b, 32000, d);
    bert.position = *random_weight(b, DIT_TYPE_F32, 512, d, 1);
    bert.kind = *random_weight(b, DIT_TYPE_F32, 2, d, 1);
    bert.norm = text_norm(b, d);
    bert.blocks = &block;
    block.qkv = text_fused(b, 3, d, d);
    block.out = text_layer(b, d, d);
    block.attention_norm = block.final_norm = text_norm(b, d);
    block.up = text_layer(b, bert.config.hidden, d);
    block.down = text_layer(b, d, bert.config.hidden);
    if (!b->code) diti_bert_encode(&bert, &b->graph, &use);
}

static diti_conditioner_attention conditioner_attention(bench *b, uint32_t d, uint32_t columns, uint32_t head_dim) {
    diti_conditioner_attention attention = DITI_ZERO;
    attention.q.weight = text_matrix(b, d, d);
    attention.k.weight = text_matrix(b, d, columns);
    attention.v.weight = text_matrix(b, d, columns);
    attention.out.weight = text_matrix(b, d, d);
    attention.q_norm = text_vector(b, head_dim);
    attention.k_norm = text_vector(b, head_dim);
    return attention;
}

/* Anima's conditioner, behind Qwen3-0.6B. */
static void emit_conditioner(bench *b) {
    diti_conditioner conditioner = DITI_ZERO;
    diti_conditioner_block block = DITI_ZERO;
    diti_encoder_use use = text_use(b, 300, false);
    uint32_t i, d = conditioner.config.width = 1024;
    conditioner.config.blocks = 1;
    conditioner.config.columns = conditioner.config.source = d;
    conditioner.config.head_dim = 64;
    conditioner.config.hidden = 4096;
    conditioner.embedding = text_matrix(b, 32000, d);
    conditioner.out = text_layer(b, d, d);
    conditioner.norm = text_vector(b, d);
    conditioner.blocks = &block;
    for (i = 0; i < 3; i++) block.norms[i] = text_vector(b, d);
    block.own = conditioner_attention(b, d, d, 64);
    block.cross = conditioner_attention(b, d, d, 64);
    block.up = text_layer(b, conditioner.config.hidden, d);
    block.down = text_layer(b, d, conditioner.config.hidden);
    use.source_tokens = 300;
    use.source = diti_tensor_input(&b->graph, DITI_F32, 600, d, "states");
    use.source_items = diti_tensor_input(&b->graph, DITI_U32, 2, DITI_ITEM_WORDS, "items of states");
    if (!b->code) diti_conditioner_encode(&conditioner, &b->graph, &use);
}
#endif
