/* Small transformers of every family with as many heads, layers and channels as a test wants, in diffusers' naming: the
   values are real_shapes.h's (the place of a tensor and nothing else decides), spread so that activations keep their
   size and attention prefers some tokens.

       static const generated_model shape = {"pixart8", "pixart", 8, 16, 8, 0, 0, 0};
       generated_files files;
       generated_make(&files, &shape);
       desc.components = files.components;      // transformer and autoencoder; texts are given (generated_inputs)
       desc.component_count = files.component_count;
       ...
       generated_free(&files);

   Include it after dit.h's implementation. */
#ifndef GENERATED_MODEL_H
#define GENERATED_MODEL_H
#include "files.h"
#include "real_shapes.h"

typedef struct generated_model {
    const char *name, *family;
    uint32_t heads, head_dim, layers;
    uint32_t singles; /* FLUX: so many of the layers are single */
    uint32_t dual;    /* SD3: so many first layers attend twice */
    bool normed;      /* SD3: queries and keys are */
} generated_model;

enum {
    GENERATED_TEXT = 32,
    GENERATED_TEXT2 = 64,
    GENERATED_POOLED = 32,
    GENERATED_TOKENS = 16,
    GENERATED_TOKENS2 = 13
};

/* Logits of queries and keys have a standard deviation of about 2. */
#define GENERATED_SHARPNESS 1.4

typedef struct generated_files {
    folder transformer;
    bytes vae; /* of more than 4 channels */
    dit_component components[2];
    uint32_t component_count;
} generated_files;

/* ---- tensors ---- */

static inline void generated_sharp(real_file *file, uint64_t rows, uint64_t columns, const char *name, uint32_t block) {
    const uint64_t shape[2] = {rows, columns};
    real_tensor_of(file, shape, 2, 0, GENERATED_SHARPNESS / sqrt((double)columns), name, NULL, block, ".weight");
    real_vector(file, rows, 0, name, NULL, block, ".bias");
}

/* Queries, keys and values: "….%u.….to_%c". */
static inline void generated_qkv(real_file *file, uint64_t rows, uint64_t columns, const char *format, uint32_t block) {
    static const char letters[] = "qkv";
    char name[112];
    uint32_t i;
    for (i = 0; i < 3; i++) {
        diti_format(name, sizeof name, format, block, letters[i]);
        if (i < 2)
            generated_sharp(file, rows, columns, name, 0);
        else
            real_layer(file, rows, columns, name, NULL, 0);
    }
}

static inline void generated_norm(real_file *file, uint64_t size, double center, bool bias, const char *name,
                                  uint32_t block) {
    real_vector(file, size, center, name, NULL, block, ".weight");
    if (bias) real_vector(file, size, 0, name, NULL, block, ".bias");
}

static inline void generated_pixart(real_file *file, const generated_model *m) {
    const uint64_t width = m->heads * m->head_dim;
    uint32_t i;
    real_patches(file, width, 4);
    real_embedder(file, width, width, 256, "adaln_single.emb.timestep_embedder", NULL);
    real_layer(file, 6 * width, width, "adaln_single.linear", NULL, 0);
    real_layer(file, width, GENERATED_TEXT, "caption_projection.linear_1", NULL, 0);
    real_layer(file, width, width, "caption_projection.linear_2", NULL, 0);
    for (i = 0; i < m->layers; i++) {
        real_table(file, 6, width, "transformer_blocks.%u.scale_shift_table", NULL, i);
        generated_qkv(file, width, width, "transformer_blocks.%u.attn1.to_%c", i);
        real_layer(file, width, width, "transformer_blocks.%u.attn1.to_out.0", NULL, i);
        generated_qkv(file, width, width, "transformer_blocks.%u.attn2.to_%c", i);
        real_layer(file, width, width, "transformer_blocks.%u.attn2.to_out.0", NULL, i);
        real_layer(file, 4 * width, width, "transformer_blocks.%u.ff.net.0.proj", NULL, i);
        real_layer(file, width, 4 * width, "transformer_blocks.%u.ff.net.2", NULL, i);
    }
    real_table(file, 2, width, "scale_shift_table", NULL, 0);
    real_layer(file, 32, width, "proj_out", NULL, 0);
}

static inline void generated_dit(real_file *file, const generated_model *m) {
    const uint64_t width = m->heads * m->head_dim;
    uint32_t i;
    real_patches(file, width, 4);
    real_embedder(file, width, width, 256, "transformer_blocks.0.norm1.emb.timestep_embedder", NULL);
    real_table(file, 11, width, "transformer_blocks.0.norm1.emb.class_embedder.embedding_table.weight", NULL, 0);
    for (i = 0; i < m->layers; i++) {
        real_layer(file, 6 * width, width, "transformer_blocks.%u.norm1.linear", NULL, i);
        generated_qkv(file, width, width, "transformer_blocks.%u.attn1.to_%c", i);
        real_layer(file, width, width, "transformer_blocks.%u.attn1.to_out.0", NULL, i);
        real_layer(file, 4 * width, width, "transformer_blocks.%u.ff.net.0.proj", NULL, i);
        real_layer(file, width, 4 * width, "transformer_blocks.%u.ff.net.2", NULL, i);
    }
    real_layer(file, 2 * width, width, "proj_out_1", NULL, 0);
    real_layer(file, 32, width, "proj_out_2", NULL, 0);
}

static inline void generated_norms(real_file *file, const generated_model *m, const char *const *names, uint32_t count,
                                   uint32_t block) {
    uint32_t i;
    for (i = 0; i < count; i++) generated_norm(file, m->head_dim, GENERATED_SHARPNESS, false, names[i], block);
}

static inline void generated_sd3_block(real_file *file, const generated_model *m, uint32_t i) {
    static const char *const norms[] = {"transformer_blocks.%u.attn.norm_q", "transformer_blocks.%u.attn.norm_k",
                                        "transformer_blocks.%u.attn.norm_added_q",
                                        "transformer_blocks.%u.attn.norm_added_k"};
    static const char *const norms2[] = {"transformer_blocks.%u.attn2.norm_q", "transformer_blocks.%u.attn2.norm_k"};
    const uint64_t width = m->heads * m->head_dim;
    bool last = i + 1 == m->layers, dual = i < m->dual;
    real_layer(file, (dual ? 9 : 6) * width, width, "transformer_blocks.%u.norm1.linear", NULL, i);
    real_layer(file, (last ? 2 : 6) * width, width, "transformer_blocks.%u.norm1_context.linear", NULL, i);
    generated_qkv(file, width, width, "transformer_blocks.%u.attn.to_%c", i);
    generated_qkv(file, width, width, "transformer_blocks.%u.attn.add_%c_proj", i);
    if (m->normed) generated_norms(file, m, norms, 4, i);
    if (dual) generated_qkv(file, width, width, "transformer_blocks.%u.attn2.to_%c", i);
    if (dual) real_layer(file, width, width, "transformer_blocks.%u.attn2.to_out.0", NULL, i);
    if (dual && m->normed) generated_norms(file, m, norms2, 2, i);
    real_layer(file, width, width, "transformer_blocks.%u.attn.to_out.0", NULL, i);
    real_layer(file, 4 * width, width, "transformer_blocks.%u.ff.net.0.proj", NULL, i);
    real_layer(file, width, 4 * width, "transformer_blocks.%u.ff.net.2", NULL, i);
    if (last) return;
    real_layer(file, width, width, "transformer_blocks.%u.attn.to_add_out", NULL, i);
    real_layer(file, 4 * width, width, "transformer_blocks.%u.ff_context.net.0.proj", NULL, i);
    real_layer(file, width, 4 * width, "transformer_blocks.%u.ff_context.net.2", NULL, i);
}

static inline void generated_sd3(real_file *file, const generated_model *m) {
    const uint64_t width = m->heads * m->head_dim;
    uint32_t i;
    real_positions(file, 20, width, "pos_embed.pos_embed");
    real_patches(file, width, 16);
    real_embedder(file, width, width, 256, "time_text_embed.timestep_embedder", NULL);
    real_embedder(file, width, width, GENERATED_POOLED, "time_text_embed.text_embedder", NULL);
    real_layer(file, width, GENERATED_TEXT, "context_embedder", NULL, 0);
    for (i = 0; i < m->layers; i++) generated_sd3_block(file, m, i);
    real_layer(file, 2 * width, width, "norm_out.linear", NULL, 0);
    real_layer(file, 64, width, "proj_out", NULL, 0);
}

static inline void generated_flux_double(real_file *file, const generated_model *m, uint32_t i) {
    static const char *const norms[] = {"transformer_blocks.%u.attn.norm_q", "transformer_blocks.%u.attn.norm_k",
                                        "transformer_blocks.%u.attn.norm_added_q",
                                        "transformer_blocks.%u.attn.norm_added_k"};
    const uint64_t width = m->heads * m->head_dim;
    real_layer(file, 6 * width, width, "transformer_blocks.%u.norm1.linear", NULL, i);
    real_layer(file, 6 * width, width, "transformer_blocks.%u.norm1_context.linear", NULL, i);
    generated_qkv(file, width, width, "transformer_blocks.%u.attn.to_%c", i);
    generated_qkv(file, width, width, "transformer_blocks.%u.attn.add_%c_proj", i);
    generated_norms(file, m, norms, 4, i);
    real_layer(file, width, width, "transformer_blocks.%u.attn.to_out.0", NULL, i);
    real_layer(file, width, width, "transformer_blocks.%u.attn.to_add_out", NULL, i);
    real_layer(file, 4 * width, width, "transformer_blocks.%u.ff.net.0.proj", NULL, i);
    real_layer(file, width, 4 * width, "transformer_blocks.%u.ff.net.2", NULL, i);
    real_layer(file, 4 * width, width, "transformer_blocks.%u.ff_context.net.0.proj", NULL, i);
    real_layer(file, width, 4 * width, "transformer_blocks.%u.ff_context.net.2", NULL, i);
}

static inline void generated_flux(real_file *file, const generated_model *m) {
    static const char *const norms[] = {"single_transformer_blocks.%u.attn.norm_q",
                                        "single_transformer_blocks.%u.attn.norm_k"};
    const uint64_t width = m->heads * m->head_dim;
    uint32_t i;
    real_layer(file, width, 64, "x_embedder", NULL, 0);
    real_layer(file, width, GENERATED_TEXT, "context_embedder", NULL, 0);
    real_embedder(file, width, width, 256, "time_text_embed.timestep_embedder", NULL);
    real_embedder(file, width, width, GENERATED_POOLED, "time_text_embed.text_embedder", NULL);
    for (i = 0; i < m->layers; i++) generated_flux_double(file, m, i);
    for (i = 0; i < m->singles; i++) {
        real_layer(file, 3 * width, width, "single_transformer_blocks.%u.norm.linear", NULL, i);
        generated_qkv(file, width, width, "single_transformer_blocks.%u.attn.to_%c", i);
        real_layer(file, 4 * width, width, "single_transformer_blocks.%u.proj_mlp", NULL, i);
        real_layer(file, width, 5 * width, "single_transformer_blocks.%u.proj_out", NULL, i);
        generated_norms(file, m, norms, 2, i);
    }
    real_layer(file, 2 * width, width, "norm_out.linear", NULL, 0);
    real_layer(file, 64, width, "proj_out", NULL, 0);
}

static inline void generated_hunyuandit_block(real_file *file, const generated_model *m, uint32_t i) {
    static const char *const parts[] = {"k", "v"};
    static const char *const norms[] = {"blocks.%u.attn1.norm_q", "blocks.%u.attn1.norm_k", "blocks.%u.attn2.norm_q",
                                        "blocks.%u.attn2.norm_k"};
    static const char *const wide[] = {"blocks.%u.norm1.norm", "blocks.%u.norm2", "blocks.%u.norm3"};
    const uint64_t width = m->heads * m->head_dim;
    char name[112];
    uint32_t k;
    for (k = 0; k < 3; k++) generated_norm(file, width, 1, true, wide[k], i);
    for (k = 0; k < 4; k++) generated_norm(file, m->head_dim, GENERATED_SHARPNESS, true, norms[k], i);
    real_layer(file, width, width, "blocks.%u.norm1.linear", NULL, i);
    generated_qkv(file, width, width, "blocks.%u.attn1.to_%c", i);
    real_layer(file, width, width, "blocks.%u.attn1.to_out.0", NULL, i);
    real_layer(file, width, width, "blocks.%u.attn2.to_q", NULL, i);
    for (k = 0; k < 2; k++) {
        diti_format(name, sizeof name, "blocks.%u.attn2.to_%s", i, parts[k]);
        real_layer(file, width, GENERATED_TEXT, name, NULL, 0);
    }
    real_layer(file, width, width, "blocks.%u.attn2.to_out.0", NULL, i);
    real_layer(file, 4 * width + 3, width, "blocks.%u.ff.net.0.proj", NULL, i); /* published ratios are odd */
    real_layer(file, width, 4 * width + 3, "blocks.%u.ff.net.2", NULL, i);
    if (i <= m->layers / 2) return;
    generated_norm(file, 2 * width, 1, true, "blocks.%u.skip_norm", i);
    real_layer(file, width, 2 * width, "blocks.%u.skip_linear", NULL, i);
}

static inline void generated_hunyuandit(real_file *file, const generated_model *m) {
    static const char *const parts[] = {"q", "k", "v", "c"};
    const uint64_t width = m->heads * m->head_dim;
    char name[112];
    uint32_t i;
    real_patches(file, width, 4);
    real_embedder(file, width, width, 256, "time_extra_emb.timestep_embedder", NULL);
    real_embedder(file, GENERATED_TEXT, 4 * GENERATED_TEXT2, GENERATED_TEXT2, "text_embedder", NULL);
    real_embedder(file, width, 4 * width, GENERATED_POOLED, "time_extra_emb.extra_embedder", NULL);
    real_table(file, GENERATED_TOKENS + GENERATED_TOKENS2, GENERATED_TEXT, "text_embedding_padding", NULL, 0);
    real_table(file, GENERATED_TOKENS2 + 1, GENERATED_TEXT2, "time_extra_emb.pooler.positional_embedding", NULL, 0);
    for (i = 0; i < 4; i++) {
        diti_format(name, sizeof name, "time_extra_emb.pooler.%s_proj", parts[i]);
        real_layer(file, i < 3 ? GENERATED_TEXT2 : GENERATED_POOLED, GENERATED_TEXT2, name, NULL, 0);
    }
    for (i = 0; i < m->layers; i++) generated_hunyuandit_block(file, m, i);
    real_layer(file, 2 * width, width, "norm_out.linear", NULL, 0);
    real_layer(file, 32, width, "proj_out", NULL, 0);
}

/* ---- files ---- */

static inline void generated_zimage_block(real_file *file, const generated_model *m, const char *list, uint32_t i) {
    static const char *const norms[] = {"attention_norm1", "attention_norm2", "ffn_norm1", "ffn_norm2"};
    const uint64_t width = m->heads * m->head_dim, feed = width * 8 / 3;
    char name[112];
    uint32_t k;
#define NAME(REST) (diti_format(name, sizeof name, "%s.%u.%s", list, i, REST), name)
    if (strcmp(list, "context_refiner"))
        real_layer(file, 4 * width, width < 256 ? width : 256, NAME("adaLN_modulation.0"), NULL, 0);
    for (k = 0; k < 3; k++) {
        static const char *const parts[] = {"attention.to_q", "attention.to_k", "attention.to_v"};
        real_matrix(file, width, width, NAME(parts[k]), NULL, 0);
    }
    generated_norm(file, m->head_dim, GENERATED_SHARPNESS, false, NAME("attention.norm_q"), 0);
    generated_norm(file, m->head_dim, GENERATED_SHARPNESS, false, NAME("attention.norm_k"), 0);
    real_matrix(file, width, width, NAME("attention.to_out.0"), NULL, 0);
    real_matrix(file, feed, width, NAME("feed_forward.w1"), NULL, 0);
    real_matrix(file, width, feed, NAME("feed_forward.w2"), NULL, 0);
    real_matrix(file, feed, width, NAME("feed_forward.w3"), NULL, 0);
    for (k = 0; k < 4; k++) generated_norm(file, width, 1, false, NAME(norms[k]), 0);
#undef NAME
}

static inline void generated_zimage(real_file *file, const generated_model *m) {
    const uint64_t width = m->heads * m->head_dim, time = width < 256 ? width : 256;
    uint32_t i;
    real_layer(file, width, 64, "all_x_embedder.2-1", NULL, 0);
    generated_norm(file, GENERATED_TEXT, 1, false, "cap_embedder.0", 0);
    real_layer(file, width, GENERATED_TEXT, "cap_embedder.1", NULL, 0);
    real_table(file, 1, width, "cap_pad_token", NULL, 0);
    real_table(file, 1, width, "x_pad_token", NULL, 0);
    real_layer(file, 1024, 256, "t_embedder.mlp.0", NULL, 0);
    real_layer(file, time, 1024, "t_embedder.mlp.2", NULL, 0);
    generated_zimage_block(file, m, "context_refiner", 0);
    generated_zimage_block(file, m, "noise_refiner", 0);
    for (i = 0; i < m->layers; i++) generated_zimage_block(file, m, "layers", i);
    real_layer(file, width, time, "all_final_layer.2-1.adaLN_modulation.1", NULL, 0);
    real_layer(file, 64, width, "all_final_layer.2-1.linear", NULL, 0);
}

/* One block of the image, or of the text, which has no table and no shared heads. */
static inline void generated_krea2_block(real_file *file, uint64_t width, uint64_t kv, uint64_t head, const char *list,
                                         uint32_t i) {
    static const char *const parts[] = {"to_q", "to_gate", "to_out.0", "to_k", "to_v"};
    static const char *const norms[] = {"norm1", "norm2", "attn.norm_q", "attn.norm_k"};
    const uint64_t feed = width * 8 / 3;
    char name[112];
    uint32_t k;
#define NAME(REST, PART) (diti_format(name, sizeof name, "%s.%u." REST "%s", list, i, PART), name)
    for (k = 0; k < 5; k++) real_matrix(file, k < 3 ? width : kv, width, NAME("attn.", parts[k]), NULL, 0);
    for (k = 0; k < 4; k++) /* 1 is added to all of them */
        generated_norm(file, k < 2 ? width : head, k < 2 ? 0 : GENERATED_SHARPNESS - 1, false, NAME("", norms[k]), 0);
    real_matrix(file, feed, width, NAME("ff.", "gate"), NULL, 0);
    real_matrix(file, feed, width, NAME("ff.", "up"), NULL, 0);
    real_matrix(file, width, feed, NAME("ff.", "down"), NULL, 0);
#undef NAME
}

/* Four heads of queries share keys and values, as published. */
static inline void generated_krea2(real_file *file, const generated_model *m) {
    const uint64_t width = m->heads * m->head_dim, text = GENERATED_TEXT;
    uint32_t i;
    real_layer(file, width, 64, "img_in", NULL, 0);
    real_embedder(file, width, width, 256, "time_embed", NULL);
    real_layer(file, 6 * width, width, "time_mod_proj", NULL, 0);
    generated_krea2_block(file, text, text, 16, "text_fusion.layerwise_blocks", 0);
    generated_krea2_block(file, text, text, 16, "text_fusion.refiner_blocks", 0);
    real_matrix(file, 1, 12, "text_fusion.projector", NULL, 0);
    generated_norm(file, text, 0, false, "txt_in.norm", 0);
    real_layer(file, width, text, "txt_in.linear_1", NULL, 0);
    real_layer(file, width, width, "txt_in.linear_2", NULL, 0);
    for (i = 0; i < m->layers; i++) {
        generated_krea2_block(file, width, width / 4, m->head_dim, "transformer_blocks", i);
        real_table(file, 6, width, "transformer_blocks.%u.scale_shift_table", NULL, i);
    }
    generated_norm(file, width, 0, false, "final_layer.norm", 0);
    real_table(file, 2, width, "final_layer.scale_shift_table", NULL, 0);
    real_layer(file, 64, width, "final_layer.linear", NULL, 0);
}

static inline void generated_ernie(real_file *file, const generated_model *m) {
    real_ernie(file, m->heads * m->head_dim, 2 * m->heads * m->head_dim, GENERATED_TEXT, m->head_dim, m->layers);
}

static inline void generated_kandinsky(real_file *file, const generated_model *m) {
    real_kandinsky(file, m->heads * m->head_dim, 2 * m->heads * m->head_dim, 32, GENERATED_TEXT, GENERATED_POOLED,
                   m->head_dim, 16, 2, m->layers);
}

/* Tokens of CogVideoX 1.5 are two frames of the latent deep. */
static inline void generated_cogvideox15(real_file *file, const generated_model *m) {
    real_cogvideox(file, m->heads * m->head_dim, m->layers, 2, 16);
}

typedef struct generated_family {
    const char *name, *config; /* config: what shapes don't say; %u: channels of a head, then heads */
    void (*make)(real_file *file, const generated_model *m);
    uint32_t channels;
} generated_family;

static const generated_family generated_families[] = {
    {"pixart",
     "{\"_class_name\": \"PixArtTransformer2DModel\", \"attention_head_dim\": %u, \"num_attention_heads\": %u, "
     "\"sample_size\": 16}",
     generated_pixart, 4},
    {"dit",
     "{\"_class_name\": \"DiTTransformer2DModel\", \"attention_head_dim\": %u, \"num_attention_heads\": %u, "
     "\"sample_size\": 16}",
     generated_dit, 4},
    {"sd3",
     "{\"_class_name\": \"SD3Transformer2DModel\", \"attention_head_dim\": %u, \"num_attention_heads\": %u, "
     "\"sample_size\": 16}",
     generated_sd3, 16},
    {"flux", "{\"_class_name\": \"FluxTransformer2DModel\", \"axes_dims_rope\": [%u, %u, %u]}", generated_flux, 16},
    {"hunyuandit",
     "{\"_class_name\": \"HunyuanDiT2DModel\", \"attention_head_dim\": %u, \"num_attention_heads\": %u, "
     "\"sample_size\": 16}",
     generated_hunyuandit, 4},
    {"zimage",
     "{\"_class_name\": \"ZImageTransformer2DModel\", \"axes_dims\": [%u, %u, %u], \"dim\": %u, \"n_heads\": %u, "
     "\"n_kv_heads\": %u, \"n_layers\": %u, \"n_refiner_layers\": 1, \"cap_feat_dim\": %u}",
     generated_zimage, 16},
    {"krea2", "{\"_class_name\": \"Krea2Transformer2DModel\", \"axes_dims_rope\": [%u, %u, %u]}", generated_krea2, 16},
    {"ernie", "{\"_class_name\": \"ErnieImageTransformer2DModel\", \"rope_axes_dim\": [%u, %u, %u]}", generated_ernie,
     128},
    {"kandinsky", "{\"_class_name\": \"Kandinsky5Transformer3DModel\", \"axes_dims\": [%u, %u, %u]}",
     generated_kandinsky, 16},
    {"cogvideox15",
     "{\"_class_name\": \"CogVideoXTransformer3DModel\", \"attention_head_dim\": %u, \"num_attention_heads\": %u, "
     "\"use_rotary_positional_embeddings\": true, \"max_text_seq_length\": 7}",
     generated_cogvideox15, 16},
};

static inline const generated_family *generated_family_of(const generated_model *m) {
    size_t i;
    for (i = 0; i < DITI_COUNT(generated_families); i++)
        if (diti_equal(generated_families[i].name, m->family)) return &generated_families[i];
    return NULL;
}

/* Positions rotate by three axes of even numbers of channels. */
static inline void generated_config(const generated_model *m, char *out, size_t size) {
    const generated_family *family = generated_family_of(m);
    uint32_t axis = (m->head_dim / 2 + 1) / 2 & ~1u;
    if (axis < 2) axis = 2;
    if (diti_equal(m->family, "flux") || diti_equal(m->family, "krea2") || diti_equal(m->family, "ernie") ||
        diti_equal(m->family, "kandinsky"))
        diti_format(out, size, family->config, m->head_dim - 2 * axis, axis, axis);
    else if (diti_equal(m->family, "zimage"))
        diti_format(out, size, family->config, m->head_dim - 2 * axis, axis, axis, m->heads * m->head_dim, m->heads,
                    m->heads, m->layers, GENERATED_TEXT);
    else
        diti_format(out, size, family->config, m->head_dim, m->heads);
}

/* The values of a tensor as floats, freed with free. */
static inline float *generated_values(const generated_model *m, const char *name, uint64_t *count) {
    real_file file = {0};
    float *out = NULL;
    size_t i;
    file.container = REAL_SAFETENSORS;
    file.type = DIT_TYPE_F32;
    generated_family_of(m)->make(&file, m);
    for (i = 0; i < file.count && !out; i++) {
        if (strcmp(file.tensors[i].name, name) != 0) continue;
        if (count) *count = file.tensors[i].elements;
        out = (float *)malloc((size_t)file.tensors[i].bytes);
        real_fill(&file, i, 0, file.tensors[i].bytes, (unsigned char *)out);
    }
    CHECK_MESSAGE(out, "there is no tensor %s", name);
    real_free(&file);
    return out;
}

#define GENERATED_VAE "tests/fixtures/pipe_dit/vae"

/* The decoder of GENERATED_VAE with a first convolution that takes more channels: its own four, repeated. */
static inline bytes generated_wide_vae(uint32_t channels) {
    diti_env env = test_env(NULL);
    diti_checkpoint *checkpoint = NULL;
    dit_source source = {0};
    dit_error err = {0};
    real_file file = {0};
    bytes data = {0}, out = {0};
    uint32_t i;
    uint64_t k, count, all;
    source.path = GENERATED_VAE "/diffusion_pytorch_model.safetensors";
    file.container = REAL_SAFETENSORS;
    file.type = DIT_TYPE_F32;
    if (!CHECK_MESSAGE(diti_checkpoint_open(&env, &source, &checkpoint, &err) == DIT_OK, "%s", err.message)) return out;
    for (i = 0; i < diti_checkpoint_count(checkpoint); i++) {
        diti_stored_tensor tensor = *diti_checkpoint_tensor(checkpoint, i);
        float *values;
        if (!diti_starts_with(tensor.name, "decoder.")) continue;
        count = all = diti_stored_tensor_elements(&tensor);
        if (diti_equal(tensor.name, "decoder.conv_in.weight")) {
            all *= channels / tensor.shape[1];
            tensor.shape[1] = channels;
        }
        values = (float *)calloc((size_t)all, sizeof *values);
        diti_checkpoint_read_float(checkpoint, diti_checkpoint_tensor(checkpoint, i), values, count, NULL);
        for (k = count; k < all; k++) values[k] = values[k - count];
        real_add(&file, tensor.shape, tensor.rank, 0, 0, tensor.name);
        bytes_add(&data, values, (size_t)all * sizeof *values);
        free(values);
    }
    diti_checkpoint_close(checkpoint);
    real_safetensors_header(&file);
    out = file.header;
    memset(&file.header, 0, sizeof file.header);
    bytes_add(&out, data.data, data.size);
    bytes_free(&data);
    real_free(&file);
    return out;
}

static inline void generated_make(generated_files *out, const generated_model *m) {
    const generated_family *family = generated_family_of(m);
    real_file file = {0};
    bytes whole = {0};
    char config[256];
    dit_source source;
    memset(out, 0, sizeof *out);
    file.container = REAL_SAFETENSORS;
    file.type = DIT_TYPE_F32;
    family->make(&file, m);
    source = real_source(&file);
    bytes_add(&whole, NULL, (size_t)source.size);
    CHECK(source.read_at(0, whole.data, (size_t)source.size, source.user) == (int64_t)source.size);
    real_free(&file);
    generated_config(m, config, sizeof config);
    folder_add_text(&out->transformer, "config.json", config);
    folder_add(&out->transformer, "model.safetensors", whole);
    out->components[0].role = DIT_ROLE_TRANSFORMER;
    out->components[0].source = folder_source(&out->transformer);
    out->components[1].role = DIT_ROLE_VAE;
    if (family->channels > 4) {
        out->vae = generated_wide_vae(family->channels);
        out->components[1].source = memory_source(&out->vae);
    } else {
        out->components[1].source.path = GENERATED_VAE;
    }
    out->component_count = 2;
}

static inline void generated_free(generated_files *files) {
    folder_free(&files->transformer);
    bytes_free(&files->vae);
}

/* ---- what a job is given ---- */

/* Sums of four uniform numbers: near enough to normal. */
static inline void generated_normal(float *out, uint64_t count, uint64_t seed) {
    uint64_t i;
    uint32_t k;
    for (i = 0; i < count; i++) {
        uint64_t random = real_random(seed, i);
        for (k = 0, out[i] = 0; k < 4; k++) out[i] += (float)(random >> 16 * k & 0xffff) / 65536.0f - 0.5f;
        out[i] *= 1.7320508f;
    }
}

typedef struct generated_inputs {
    dit_tensor list[10];
    uint32_t count;
    float *memory[10];
} generated_inputs;

static inline void generated_add_input(generated_inputs *in, const char *name, uint64_t rows, uint64_t columns,
                                       uint32_t valid) {
    dit_tensor *tensor = &in->list[in->count];
    float *values = (float *)calloc((size_t)(rows * columns), sizeof *values);
    uint32_t i;
    if (valid)
        for (i = 0; i < valid; i++) values[i] = 1;
    else
        generated_normal(values, rows * columns, 1000 + in->count);
    memset(tensor, 0, sizeof *tensor);
    tensor->name = name;
    tensor->type = DIT_TYPE_F32;
    tensor->rank = 2;
    tensor->shape[0] = rows;
    tensor->shape[1] = columns;
    tensor->data = in->memory[in->count++] = values;
}

/* The texts of both branches, as a model wants them: of `tokens` rows, those of the negative prompt two less where
   lengths may differ. negative false: of the prompt alone. */
static inline void generated_texts(generated_inputs *in, const dit_model *model, uint32_t tokens, bool negative) {
    static const char *const names[2][3] = {
        {"prompt_embeds", "prompt_embeds_2", "pooled_prompt_embeds"},
        {"negative_prompt_embeds", "negative_prompt_embeds_2", "negative_pooled_prompt_embeds"}};
    static const char *const masks[2][2] = {{"prompt_attention_mask", "prompt_attention_mask_2"},
                                            {"negative_prompt_attention_mask", "negative_prompt_attention_mask_2"}};
    uint32_t branch, i, rows, valid;
    memset(in, 0, sizeof *in);
    for (branch = 0; branch < (negative ? 2u : 1u); branch++) {
        for (i = 0; i < 3; i++) {
            const diti_text_shape *shape = &model->texts[i];
            if (!shape->tokens) continue;
            rows = model->fixed_text || shape->tokens < tokens ? shape->tokens : tokens;
            generated_add_input(in, names[branch][i], rows, shape->columns, 0);
            valid = rows > 4 ? rows - 2 * branch - 1 : rows;
            if (i < 2 && (!model->fixed_text || diti_encoders_mask(model)))
                generated_add_input(in, masks[branch][i], 1, rows, valid);
        }
    }
}

static inline void generated_free_inputs(generated_inputs *in) {
    while (in->count) free(in->memory[--in->count]);
}
#endif
