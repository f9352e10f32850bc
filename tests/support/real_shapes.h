/* Files of real architectures without their weights: names and shapes as published checkpoints have them (computed from
   a few numbers per family), and random values that are made for the bytes that are read, whenever they are read.

       real_file file = {0};
       file.original = true;                        // the code base's own names, else those of diffusers
       file.container = REAL_GGUF;
       file.type = DIT_TYPE_Q8_0;                   // of matrices in a GGUF; in other containers of all tensors
       real_flux(&file, 3072, 19, 38, true);
       desc.source = real_source(&file);            // header and, on demand, data
       ...
       real_free(&file);

   Include it after dit.h's implementation. */
#ifndef REAL_SHAPES_H
#define REAL_SHAPES_H
#include "model_files.h"
#include "test.h"

typedef struct real_tensor {
    char name[112];
    dit_type type;
    uint32_t rank;
    uint64_t shape[5], elements;
    double center, spread; /* mean and standard deviation of the values */
    uint64_t offset, bytes;
} real_tensor;

typedef enum real_container { REAL_GGUF, REAL_SAFETENSORS, REAL_PYTORCH } real_container;

typedef struct real_file {
    real_container container;
    bool original;
    dit_type type;
    const char *prefix; /* before every name; NULL: none */
    bool sparse;        /* of every 32 values of a matrix one is not 0, and larger for it */
    real_tensor *tensors;
    size_t count, capacity;
    uint64_t parameters; /* without positions, copies and the empty caption, which no one counts */
    uint64_t data;       /* bytes of all tensors */
    bytes header, tail;  /* before and behind the data */
    uint64_t data_read;  /* bytes of data that were asked for */
} real_file;

enum { REAL_ENTRY = 128 }; /* bytes of a zip archive before each tensor: its name, padded, as PyTorch does */

/* ---- tensors ---- */

/* In a GGUF matrices of layers become blocks, vectors stay floats, tables and convolutions are halves: as converters do
   it. */
static inline dit_type real_type(const real_file *file, const uint64_t *shape, uint32_t rank, const char *name) {
    const char *table = strstr(name, "embedding_table");
    if (file->container != REAL_GGUF) return file->type;
    if (rank == 1) return DIT_TYPE_F32;
    return rank == 2 && !table && diti_ends_with(name, ".weight") && shape[1] % 32 == 0 ? file->type : DIT_TYPE_F16;
}

static inline real_tensor *real_add(real_file *file, const uint64_t *shape, uint32_t rank, double center, double spread,
                                    const char *name) {
    real_tensor *tensor;
    uint32_t i;
    if (file->count == file->capacity) {
        file->capacity = 2 * file->capacity + 64;
        file->tensors = (real_tensor *)realloc(file->tensors, file->capacity * sizeof *file->tensors);
    }
    tensor = &file->tensors[file->count++];
    memset(tensor, 0, sizeof *tensor);
    diti_format(tensor->name, sizeof tensor->name, "%s%s", file->prefix ? file->prefix : "", name);
    tensor->rank = rank;
    tensor->elements = 1;
    for (i = 0; i < rank; i++) tensor->elements *= tensor->shape[i] = shape[i];
    tensor->center = center;
    tensor->spread = spread;
    tensor->type = real_type(file, shape, rank, name);
    diti_type_bytes(tensor->type, tensor->elements / shape[rank - 1], shape[rank - 1], &tensor->bytes);
    if (file->container == REAL_PYTORCH) file->data += REAL_ENTRY;
    tensor->offset = file->data;
    file->data += file->container == REAL_GGUF ? (tensor->bytes + 31) / 32 * 32 : tensor->bytes;
    return tensor;
}

/* ---- layers; a name that is NULL in one of the two conventions is not in its files; %u is the block ---- */

static inline const char *real_name(const real_file *file, const char *diffusers, const char *original, uint32_t block,
                                    const char *suffix) {
    static char name[112];
    const char *format = file->original ? original : diffusers;
    if (!format) return NULL;
    diti_format(name, sizeof name, format, block);
    diti_format(name + strlen(name), sizeof name - strlen(name), "%s", suffix);
    return name;
}

static inline void real_tensor_of(real_file *file, const uint64_t *shape, uint32_t rank, double center, double spread,
                                  const char *diffusers, const char *original, uint32_t block, const char *suffix) {
    const char *name = real_name(file, diffusers, original, block, suffix);
    if (name) file->parameters += real_add(file, shape, rank, center, spread, name)->elements;
}

static inline void real_vector(real_file *file, uint64_t size, double center, const char *diffusers,
                               const char *original, uint32_t block, const char *suffix) {
    real_tensor_of(file, &size, 1, center, 0.02, diffusers, original, block, suffix);
}

/* Positions, embeddings, modulations that are no layers. */
static inline void real_table(real_file *file, uint64_t rows, uint64_t columns, const char *diffusers,
                              const char *original, uint32_t block) {
    const uint64_t shape[2] = {rows, columns};
    real_tensor_of(file, shape, 2, 0, 0.2, diffusers, original, block, "");
}

/* Activations keep their size: the spread is 1 / sqrt(inputs). */
static inline void real_matrix(real_file *file, uint64_t rows, uint64_t columns, const char *diffusers,
                               const char *original, uint32_t block) {
    const uint64_t shape[2] = {rows, columns};
    real_tensor_of(file, shape, 2, 0, 1 / sqrt((double)columns), diffusers, original, block, ".weight");
}

static inline void real_layer(real_file *file, uint64_t rows, uint64_t columns, const char *diffusers,
                              const char *original, uint32_t block) {
    real_matrix(file, rows, columns, diffusers, original, block);
    real_vector(file, rows, 0, diffusers, original, block, ".bias");
}

static inline void real_norm(real_file *file, uint64_t size, bool bias, const char *diffusers, const char *original,
                             uint32_t block) {
    real_vector(file, size, 1, diffusers, original, block, ".weight");
    if (bias) real_vector(file, size, 0, diffusers, original, block, ".bias");
}

/* Layers that originals hold as one: `letters` names diffusers' parts, in their %c. */
static inline void real_joined(real_file *file, const char *letters, uint64_t rows, uint64_t columns,
                               const char *diffusers, const char *original, uint32_t block) {
    char name[112];
    size_t i;
    if (file->original) {
        real_layer(file, strlen(letters) * rows, columns, NULL, original, block);
        return;
    }
    for (i = 0; letters[i]; i++) {
        diti_format(name, sizeof name, diffusers, block, letters[i]);
        real_layer(file, rows, columns, name, NULL, block);
    }
}

static inline void real_patches(real_file *file, uint64_t width, uint64_t channels) {
    const uint64_t shape[4] = {width, channels, 2, 2};
    real_tensor_of(file, shape, 4, 0, 1 / sqrt(4 * (double)channels), "pos_embed.proj", "x_embedder.proj", 0,
                   ".weight");
    real_vector(file, width, 0, "pos_embed.proj", "x_embedder.proj", 0, ".bias");
}

/* DIFFUSERS.linear_1 and .linear_2; in the originals 0 and 2 for %u. */
static inline void real_embedder(real_file *file, uint64_t out, uint64_t hidden, uint64_t in, const char *diffusers,
                                 const char *original) {
    char name[160];
    diti_format(name, sizeof name, "%s.linear_1", diffusers);
    real_layer(file, hidden, in, name, original, 0);
    diti_format(name, sizeof name, "%s.linear_2", diffusers);
    real_layer(file, out, hidden, name, original, 2);
}

/* The position table that originals keep, and older files of diffusers, [1, size * size, width]. */
static inline void real_positions(real_file *file, uint64_t size, uint64_t width, const char *diffusers) {
    const uint64_t shape[3] = {1, size * size, width};
    uint64_t before = file->parameters;
    real_tensor_of(file, shape, 3, 0, 0.7, diffusers, "pos_embed", 0, "");
    file->parameters = before;
}

/* ---- families (docs/models.md 3.1 to 3.5) ---- */

/* DiT: diffusers keeps the embedders in every block. */
static inline void real_dit(real_file *file, uint64_t width, uint32_t blocks, uint64_t grid) {
    uint64_t once = 0;
    uint32_t i, repeats = file->original ? 1 : blocks;
    real_positions(file, grid, width, "pos_embed.pos_embed");
    real_patches(file, width, 4);
    for (i = 0; i < repeats; i++) {
        char name[112];
        if (i == 1) once = file->parameters;
        diti_format(name, sizeof name, "transformer_blocks.%u.norm1.emb.timestep_embedder", i);
        real_embedder(file, width, width, 256, name, "t_embedder.mlp.%u");
        real_table(file, 1001, width, "transformer_blocks.%u.norm1.emb.class_embedder.embedding_table.weight",
                   "y_embedder.embedding_table.weight", i);
    }
    if (once) file->parameters = once;
    for (i = 0; i < blocks; i++) {
        real_layer(file, 6 * width, width, "transformer_blocks.%u.norm1.linear", "blocks.%u.adaLN_modulation.1", i);
        real_joined(file, "qkv", width, width, "transformer_blocks.%u.attn1.to_%c", "blocks.%u.attn.qkv", i);
        real_layer(file, width, width, "transformer_blocks.%u.attn1.to_out.0", "blocks.%u.attn.proj", i);
        real_layer(file, 4 * width, width, "transformer_blocks.%u.ff.net.0.proj", "blocks.%u.mlp.fc1", i);
        real_layer(file, width, 4 * width, "transformer_blocks.%u.ff.net.2", "blocks.%u.mlp.fc2", i);
    }
    real_layer(file, 2 * width, width, "proj_out_1", "final_layer.adaLN_modulation.1", 0);
    real_layer(file, 32, width, "proj_out_2", "final_layer.linear", 0);
}

/* PixArt; sized: alpha's micro-conditions. */
static inline void real_pixart(real_file *file, uint64_t width, uint32_t blocks, uint64_t tokens, uint64_t grid,
                               bool sized) {
    uint32_t i;
    real_positions(file, grid, width, "pos_embed.pos_embed");
    real_patches(file, width, 4);
    real_embedder(file, width, width, 256, "adaln_single.emb.timestep_embedder", "t_embedder.mlp.%u");
    if (sized) {
        real_embedder(file, width / 3, width / 3, 256, "adaln_single.emb.resolution_embedder", "csize_embedder.mlp.%u");
        real_embedder(file, width / 3, width / 3, 256, "adaln_single.emb.aspect_ratio_embedder", "ar_embedder.mlp.%u");
    }
    real_layer(file, 6 * width, width, "adaln_single.linear", "t_block.1", 0);
    real_table(file, tokens, 4096, "caption_projection.y_embedding", "y_embedder.y_embedding", 0);
    file->parameters -= tokens * 4096;
    real_layer(file, width, 4096, "caption_projection.linear_1", "y_embedder.y_proj.fc1", 0);
    real_layer(file, width, width, "caption_projection.linear_2", "y_embedder.y_proj.fc2", 0);
    for (i = 0; i < blocks; i++) {
        real_table(file, 6, width, "transformer_blocks.%u.scale_shift_table", "blocks.%u.scale_shift_table", i);
        real_joined(file, "qkv", width, width, "transformer_blocks.%u.attn1.to_%c", "blocks.%u.attn.qkv", i);
        real_layer(file, width, width, "transformer_blocks.%u.attn1.to_out.0", "blocks.%u.attn.proj", i);
        real_layer(file, width, width, "transformer_blocks.%u.attn2.to_q", "blocks.%u.cross_attn.q_linear", i);
        real_joined(file, "kv", width, width, "transformer_blocks.%u.attn2.to_%c", "blocks.%u.cross_attn.kv_linear", i);
        real_layer(file, width, width, "transformer_blocks.%u.attn2.to_out.0", "blocks.%u.cross_attn.proj", i);
        real_layer(file, 4 * width, width, "transformer_blocks.%u.ff.net.0.proj", "blocks.%u.mlp.fc1", i);
        real_layer(file, width, 4 * width, "transformer_blocks.%u.ff.net.2", "blocks.%u.mlp.fc2", i);
    }
    real_table(file, 2, width, "scale_shift_table", "final_layer.scale_shift_table", 0);
    real_layer(file, 32, width, "proj_out", "final_layer.linear", 0);
}

/* One stream of a block of SD3: its attention, and the norms of that. */
static inline void real_sd3_attention(real_file *file, uint64_t width, uint32_t block, bool text, bool normed) {
    if (text) {
        real_joined(file, "qkv", width, width, "transformer_blocks.%u.attn.add_%c_proj",
                    "joint_blocks.%u.context_block.attn.qkv", block);
    } else {
        real_joined(file, "qkv", width, width, "transformer_blocks.%u.attn.to_%c", "joint_blocks.%u.x_block.attn.qkv",
                    block);
    }
    if (!normed) return;
    real_norm(file, 64, false, text ? "transformer_blocks.%u.attn.norm_added_q" : "transformer_blocks.%u.attn.norm_q",
              text ? "joint_blocks.%u.context_block.attn.ln_q" : "joint_blocks.%u.x_block.attn.ln_q", block);
    real_norm(file, 64, false, text ? "transformer_blocks.%u.attn.norm_added_k" : "transformer_blocks.%u.attn.norm_k",
              text ? "joint_blocks.%u.context_block.attn.ln_k" : "joint_blocks.%u.x_block.attn.ln_k", block);
}

static inline void real_sd3_second_attention(real_file *file, uint64_t width, uint32_t block) {
    real_joined(file, "qkv", width, width, "transformer_blocks.%u.attn2.to_%c", "joint_blocks.%u.x_block.attn2.qkv",
                block);
    real_layer(file, width, width, "transformer_blocks.%u.attn2.to_out.0", "joint_blocks.%u.x_block.attn2.proj", block);
    real_norm(file, 64, false, "transformer_blocks.%u.attn2.norm_q", "joint_blocks.%u.x_block.attn2.ln_q", block);
    real_norm(file, 64, false, "transformer_blocks.%u.attn2.norm_k", "joint_blocks.%u.x_block.attn2.ln_k", block);
}

static inline void real_sd3_block(real_file *file, uint64_t width, uint32_t i, bool last, bool dual, bool normed) {
    real_layer(file, (dual ? 9 : 6) * width, width, "transformer_blocks.%u.norm1.linear",
               "joint_blocks.%u.x_block.adaLN_modulation.1", i);
    real_layer(file, (last ? 2 : 6) * width, width, "transformer_blocks.%u.norm1_context.linear",
               "joint_blocks.%u.context_block.adaLN_modulation.1", i);
    real_sd3_attention(file, width, i, false, normed);
    real_sd3_attention(file, width, i, true, normed);
    if (dual) real_sd3_second_attention(file, width, i);
    real_layer(file, width, width, "transformer_blocks.%u.attn.to_out.0", "joint_blocks.%u.x_block.attn.proj", i);
    real_layer(file, 4 * width, width, "transformer_blocks.%u.ff.net.0.proj", "joint_blocks.%u.x_block.mlp.fc1", i);
    real_layer(file, width, 4 * width, "transformer_blocks.%u.ff.net.2", "joint_blocks.%u.x_block.mlp.fc2", i);
    if (last) return;
    real_layer(file, width, width, "transformer_blocks.%u.attn.to_add_out", "joint_blocks.%u.context_block.attn.proj",
               i);
    real_layer(file, 4 * width, width, "transformer_blocks.%u.ff_context.net.0.proj",
               "joint_blocks.%u.context_block.mlp.fc1", i);
    real_layer(file, width, 4 * width, "transformer_blocks.%u.ff_context.net.2",
               "joint_blocks.%u.context_block.mlp.fc2", i);
}

/* SD3: table * table positions are stored in both conventions; the first `dual` blocks attend twice. */
static inline void real_sd3(real_file *file, uint32_t blocks, uint64_t table, uint32_t dual, bool normed) {
    uint64_t width = 64 * (uint64_t)blocks;
    uint32_t i;
    real_positions(file, table, width, "pos_embed.pos_embed");
    real_patches(file, width, 16);
    real_embedder(file, width, width, 256, "time_text_embed.timestep_embedder", "t_embedder.mlp.%u");
    real_embedder(file, width, width, 2048, "time_text_embed.text_embedder", "y_embedder.mlp.%u");
    real_layer(file, width, 4096, "context_embedder", "context_embedder", 0);
    for (i = 0; i < blocks; i++) real_sd3_block(file, width, i, i + 1 == blocks, i < dual, normed);
    real_layer(file, 2 * width, width, "norm_out.linear", "final_layer.adaLN_modulation.1", 0);
    real_layer(file, 64, width, "proj_out", "final_layer.linear", 0);
}

static inline void real_flux_embedder(real_file *file, uint64_t width, uint64_t in, const char *diffusers,
                                      const char *original) {
    char names[4][112];
    diti_format(names[0], sizeof names[0], "time_text_embed.%s.linear_1", diffusers);
    diti_format(names[1], sizeof names[1], "%s.in_layer", original);
    diti_format(names[2], sizeof names[2], "time_text_embed.%s.linear_2", diffusers);
    diti_format(names[3], sizeof names[3], "%s.out_layer", original);
    real_layer(file, width, in, names[0], names[1], 0);
    real_layer(file, width, width, names[2], names[3], 0);
}

static inline void real_flux_attention(real_file *file, uint64_t width, uint32_t i) {
    real_joined(file, "qkv", width, width, "transformer_blocks.%u.attn.to_%c", "double_blocks.%u.img_attn.qkv", i);
    real_joined(file, "qkv", width, width, "transformer_blocks.%u.attn.add_%c_proj", "double_blocks.%u.txt_attn.qkv",
                i);
    real_vector(file, 128, 1, "transformer_blocks.%u.attn.norm_q.weight",
                "double_blocks.%u.img_attn.norm.query_norm.scale", i, "");
    real_vector(file, 128, 1, "transformer_blocks.%u.attn.norm_k.weight",
                "double_blocks.%u.img_attn.norm.key_norm.scale", i, "");
    real_vector(file, 128, 1, "transformer_blocks.%u.attn.norm_added_q.weight",
                "double_blocks.%u.txt_attn.norm.query_norm.scale", i, "");
    real_vector(file, 128, 1, "transformer_blocks.%u.attn.norm_added_k.weight",
                "double_blocks.%u.txt_attn.norm.key_norm.scale", i, "");
    real_layer(file, width, width, "transformer_blocks.%u.attn.to_out.0", "double_blocks.%u.img_attn.proj", i);
    real_layer(file, width, width, "transformer_blocks.%u.attn.to_add_out", "double_blocks.%u.txt_attn.proj", i);
}

static inline void real_flux_double(real_file *file, uint64_t width, uint32_t i) {
    real_flux_attention(file, width, i);
    real_layer(file, 4 * width, width, "transformer_blocks.%u.ff.net.0.proj", "double_blocks.%u.img_mlp.0", i);
    real_layer(file, width, 4 * width, "transformer_blocks.%u.ff.net.2", "double_blocks.%u.img_mlp.2", i);
    real_layer(file, 4 * width, width, "transformer_blocks.%u.ff_context.net.0.proj", "double_blocks.%u.txt_mlp.0", i);
    real_layer(file, width, 4 * width, "transformer_blocks.%u.ff_context.net.2", "double_blocks.%u.txt_mlp.2", i);
}

/* feed: widths of the feed-forward's first layer; 4, or 8 where it is gated. */
static inline void real_flux_single(real_file *file, uint64_t width, uint32_t feed, uint32_t i) {
    if (file->original) {
        real_layer(file, (3 + feed) * width, width, NULL, "single_blocks.%u.linear1", i);
    } else {
        real_joined(file, "qkv", width, width, "single_transformer_blocks.%u.attn.to_%c", NULL, i);
        real_layer(file, feed * width, width, "single_transformer_blocks.%u.proj_mlp", NULL, i);
    }
    real_layer(file, width, 5 * width, "single_transformer_blocks.%u.proj_out", "single_blocks.%u.linear2", i);
    real_vector(file, 128, 1, "single_transformer_blocks.%u.attn.norm_q.weight",
                "single_blocks.%u.norm.query_norm.scale", i, "");
    real_vector(file, 128, 1, "single_transformer_blocks.%u.attn.norm_k.weight", "single_blocks.%u.norm.key_norm.scale",
                i, "");
}

static inline void real_flux_modulation(real_file *file, uint64_t width, uint32_t i, bool single) {
    if (single) {
        real_layer(file, 3 * width, width, "single_transformer_blocks.%u.norm.linear",
                   "single_blocks.%u.modulation.lin", i);
        return;
    }
    real_layer(file, 6 * width, width, "transformer_blocks.%u.norm1.linear", "double_blocks.%u.img_mod.lin", i);
    real_layer(file, 6 * width, width, "transformer_blocks.%u.norm1_context.linear", "double_blocks.%u.txt_mod.lin", i);
}

static inline void real_flux(real_file *file, uint64_t width, uint32_t doubles, uint32_t singles, bool guided) {
    uint32_t i;
    real_layer(file, width, 64, "x_embedder", "img_in", 0);
    real_layer(file, width, 4096, "context_embedder", "txt_in", 0);
    real_flux_embedder(file, width, 256, "timestep_embedder", "time_in");
    if (guided) real_flux_embedder(file, width, 256, "guidance_embedder", "guidance_in");
    real_flux_embedder(file, width, 768, "text_embedder", "vector_in");
    for (i = 0; i < doubles; i++) {
        real_flux_modulation(file, width, i, false);
        real_flux_double(file, width, i);
    }
    for (i = 0; i < singles; i++) {
        real_flux_modulation(file, width, i, true);
        real_flux_single(file, width, 4, i);
    }
    real_layer(file, 2 * width, width, "norm_out.linear", "final_layer.adaLN_modulation.1", 0);
    real_layer(file, 64, width, "proj_out", "final_layer.linear", 0);
}

/* Matrices without biases that originals hold as one: real_joined. */
static inline void real_joined_bare(real_file *file, const char *letters, uint64_t rows, uint64_t columns,
                                    const char *diffusers, const char *original, uint32_t block) {
    char name[112];
    size_t i;
    if (file->original) {
        real_matrix(file, strlen(letters) * rows, columns, NULL, original, block);
        return;
    }
    for (i = 0; letters[i]; i++) {
        diti_format(name, sizeof name, diffusers, block, letters[i]);
        real_matrix(file, rows, columns, name, NULL, block);
    }
}

/* Z-Image; list: "layers", "noise_refiner" or "context_refiner". */
static inline void real_zimage_block(real_file *file, uint64_t width, const char *list, uint32_t i) {
    static const char *const norms[] = {"attention_norm1", "attention_norm2", "ffn_norm1", "ffn_norm2"};
    char names[2][112];
    uint32_t k;
#define NAME(WHICH, REST) (diti_format(names[WHICH], sizeof names[WHICH], "%s.%%u.%s", list, REST), names[WHICH])
    if (strcmp(list, "context_refiner"))
        real_layer(file, 4 * width, 256, NAME(0, "adaLN_modulation.0"), NAME(1, "adaLN_modulation.0"), i);
    real_joined_bare(file, "qkv", width, width, NAME(0, "attention.to_%c"), NAME(1, "attention.qkv"), i);
    real_vector(file, 128, 1, NAME(0, "attention.norm_q.weight"), NAME(1, "attention.q_norm.weight"), i, "");
    real_vector(file, 128, 1, NAME(0, "attention.norm_k.weight"), NAME(1, "attention.k_norm.weight"), i, "");
    real_matrix(file, width, width, NAME(0, "attention.to_out.0"), NAME(1, "attention.out"), i);
    real_matrix(file, width * 8 / 3, width, NAME(0, "feed_forward.w1"), NAME(1, "feed_forward.w1"), i);
    real_matrix(file, width, width * 8 / 3, NAME(0, "feed_forward.w2"), NAME(1, "feed_forward.w2"), i);
    real_matrix(file, width * 8 / 3, width, NAME(0, "feed_forward.w3"), NAME(1, "feed_forward.w3"), i);
    for (k = 0; k < 4; k++) real_norm(file, width, false, NAME(0, norms[k]), NAME(1, norms[k]), i);
#undef NAME
}

static inline void real_zimage(real_file *file, uint64_t width, uint32_t refiners, uint32_t blocks) {
    uint32_t i;
    real_layer(file, width, 64, "all_x_embedder.2-1", "x_embedder", 0);
    real_norm(file, 2560, false, "cap_embedder.0", "cap_embedder.0", 0);
    real_layer(file, width, 2560, "cap_embedder.1", "cap_embedder.1", 0);
    real_table(file, 1, width, "cap_pad_token", "cap_pad_token", 0);
    real_table(file, 1, width, "x_pad_token", "x_pad_token", 0);
    real_layer(file, 1024, 256, "t_embedder.mlp.0", "t_embedder.mlp.0", 0);
    real_layer(file, 256, 1024, "t_embedder.mlp.2", "t_embedder.mlp.2", 0);
    for (i = 0; i < refiners; i++) real_zimage_block(file, width, "context_refiner", i);
    for (i = 0; i < refiners; i++) real_zimage_block(file, width, "noise_refiner", i);
    for (i = 0; i < blocks; i++) real_zimage_block(file, width, "layers", i);
    real_layer(file, width, 256, "all_final_layer.2-1.adaLN_modulation.1", "final_layer.adaLN_modulation.1", 0);
    real_layer(file, 64, width, "all_final_layer.2-1.linear", "final_layer.linear", 0);
}

/* Ideogram 4: either of its transformers. */
static inline void real_ideogram4(real_file *file) {
    static const char *const norms[] = {"attention_norm1", "attention_norm2", "ffn_norm1", "ffn_norm2"};
    const uint64_t width = 4608, time = 512, text = 13 * 4096, feed = 12288;
    char name[64];
    uint32_t i, k;
    real_layer(file, width, 128, "input_proj", "input_proj", 0);
    real_norm(file, text, false, "llm_cond_norm", "llm_cond_norm", 0);
    real_layer(file, width, text, "llm_cond_proj", "llm_cond_proj", 0);
    real_table(file, 2, width, "embed_image_indicator.weight", "embed_image_indicator.weight", 0);
    real_layer(file, width, width, "t_embedding.mlp_in", "t_embedding.mlp_in", 0);
    real_layer(file, width, width, "t_embedding.mlp_out", "t_embedding.mlp_out", 0);
    real_layer(file, time, width, "adaln_proj", "adaln_proj", 0);
    for (i = 0; i < 34; i++) {
        real_layer(file, 4 * width, time, "layers.%u.adaln_modulation", "layers.%u.adaln_modulation", i);
        real_joined_bare(file, "qkv", width, width, "layers.%u.attention.to_%c", "layers.%u.attention.qkv", i);
        real_vector(file, 256, 1, "layers.%u.attention.norm_q.weight", "layers.%u.attention.norm_q.weight", i, "");
        real_vector(file, 256, 1, "layers.%u.attention.norm_k.weight", "layers.%u.attention.norm_k.weight", i, "");
        real_matrix(file, width, width, "layers.%u.attention.to_out.0", "layers.%u.attention.o", i);
        real_matrix(file, feed, width, "layers.%u.feed_forward.w1", "layers.%u.feed_forward.w1", i);
        real_matrix(file, width, feed, "layers.%u.feed_forward.w2", "layers.%u.feed_forward.w2", i);
        real_matrix(file, feed, width, "layers.%u.feed_forward.w3", "layers.%u.feed_forward.w3", i);
        for (k = 0; k < 4; k++) {
            diti_format(name, sizeof name, "layers.%%u.%s", norms[k]);
            real_norm(file, width, false, name, name, i);
        }
    }
    real_layer(file, width, time, "final_layer.adaln_modulation", "final_layer.adaln_modulation", 0);
    real_layer(file, 128, width, "final_layer.linear", "final_layer.linear", 0);
}

static inline void real_flux2_embedder(real_file *file, uint64_t width, const char *diffusers, const char *original) {
    char names[4][112];
    diti_format(names[0], sizeof names[0], "time_guidance_embed.%s.linear_1", diffusers);
    diti_format(names[1], sizeof names[1], "%s.in_layer", original);
    diti_format(names[2], sizeof names[2], "time_guidance_embed.%s.linear_2", diffusers);
    diti_format(names[3], sizeof names[3], "%s.out_layer", original);
    real_matrix(file, width, 256, names[0], names[1], 0);
    real_matrix(file, width, width, names[2], names[3], 0);
}

static inline void real_flux2_double(real_file *file, uint64_t width, uint32_t i) {
    real_joined_bare(file, "qkv", width, width, "transformer_blocks.%u.attn.to_%c", "double_blocks.%u.img_attn.qkv", i);
    real_joined_bare(file, "qkv", width, width, "transformer_blocks.%u.attn.add_%c_proj",
                     "double_blocks.%u.txt_attn.qkv", i);
    real_vector(file, 128, 1, "transformer_blocks.%u.attn.norm_q.weight",
                "double_blocks.%u.img_attn.norm.query_norm.scale", i, "");
    real_vector(file, 128, 1, "transformer_blocks.%u.attn.norm_k.weight",
                "double_blocks.%u.img_attn.norm.key_norm.scale", i, "");
    real_vector(file, 128, 1, "transformer_blocks.%u.attn.norm_added_q.weight",
                "double_blocks.%u.txt_attn.norm.query_norm.scale", i, "");
    real_vector(file, 128, 1, "transformer_blocks.%u.attn.norm_added_k.weight",
                "double_blocks.%u.txt_attn.norm.key_norm.scale", i, "");
    real_matrix(file, width, width, "transformer_blocks.%u.attn.to_out.0", "double_blocks.%u.img_attn.proj", i);
    real_matrix(file, width, width, "transformer_blocks.%u.attn.to_add_out", "double_blocks.%u.txt_attn.proj", i);
    real_matrix(file, 6 * width, width, "transformer_blocks.%u.ff.linear_in", "double_blocks.%u.img_mlp.0", i);
    real_matrix(file, width, 3 * width, "transformer_blocks.%u.ff.linear_out", "double_blocks.%u.img_mlp.2", i);
    real_matrix(file, 6 * width, width, "transformer_blocks.%u.ff_context.linear_in", "double_blocks.%u.txt_mlp.0", i);
    real_matrix(file, width, 3 * width, "transformer_blocks.%u.ff_context.linear_out", "double_blocks.%u.txt_mlp.2", i);
}

/* FLUX.2. */
static inline void real_flux2(real_file *file, uint64_t width, uint32_t doubles, uint32_t singles, uint64_t text,
                              bool guided) {
    uint32_t i;
    real_matrix(file, width, 128, "x_embedder", "img_in", 0);
    real_matrix(file, width, text, "context_embedder", "txt_in", 0);
    real_flux2_embedder(file, width, "timestep_embedder", "time_in");
    if (guided) real_flux2_embedder(file, width, "guidance_embedder", "guidance_in");
    real_matrix(file, 6 * width, width, "double_stream_modulation_img.linear", "double_stream_modulation_img.lin", 0);
    real_matrix(file, 6 * width, width, "double_stream_modulation_txt.linear", "double_stream_modulation_txt.lin", 0);
    real_matrix(file, 3 * width, width, "single_stream_modulation.linear", "single_stream_modulation.lin", 0);
    for (i = 0; i < doubles; i++) real_flux2_double(file, width, i);
    for (i = 0; i < singles; i++) {
        real_matrix(file, 9 * width, width, "single_transformer_blocks.%u.attn.to_qkv_mlp_proj",
                    "single_blocks.%u.linear1", i);
        real_matrix(file, width, 4 * width, "single_transformer_blocks.%u.attn.to_out", "single_blocks.%u.linear2", i);
        real_vector(file, 128, 1, "single_transformer_blocks.%u.attn.norm_q.weight",
                    "single_blocks.%u.norm.query_norm.scale", i, "");
        real_vector(file, 128, 1, "single_transformer_blocks.%u.attn.norm_k.weight",
                    "single_blocks.%u.norm.key_norm.scale", i, "");
    }
    real_matrix(file, 2 * width, width, "norm_out.linear", "final_layer.adaLN_modulation.1", 0);
    real_matrix(file, 128, width, "proj_out", "final_layer.linear", 0);
}

/* Chroma: FLUX.1's blocks without modulation, and what makes it for all of them. */
static inline void real_chroma(real_file *file, uint64_t width, uint32_t doubles, uint32_t singles, uint64_t hidden) {
    uint32_t i;
    real_layer(file, width, 64, "x_embedder", "img_in", 0);
    real_layer(file, width, 4096, "context_embedder", "txt_in", 0);
    real_layer(file, hidden, 64, "distilled_guidance_layer.in_proj", "distilled_guidance_layer.in_proj", 0);
    for (i = 0; i < 5; i++) {
        real_layer(file, hidden, hidden, "distilled_guidance_layer.layers.%u.linear_1",
                   "distilled_guidance_layer.layers.%u.in_layer", i);
        real_layer(file, hidden, hidden, "distilled_guidance_layer.layers.%u.linear_2",
                   "distilled_guidance_layer.layers.%u.out_layer", i);
        real_vector(file, hidden, 1, "distilled_guidance_layer.norms.%u.weight",
                    "distilled_guidance_layer.norms.%u.scale", i, "");
    }
    real_layer(file, width, hidden, "distilled_guidance_layer.out_proj", "distilled_guidance_layer.out_proj", 0);
    for (i = 0; i < doubles; i++) real_flux_double(file, width, i);
    for (i = 0; i < singles; i++) real_flux_single(file, width, 4, i);
    real_layer(file, 64, width, "proj_out", "final_layer.linear", 0);
}

/* Ovis-Image: FLUX.1 without pooled text, and with gated feed-forwards. */
static inline void real_ovis_double(real_file *file, uint64_t width, uint32_t i) {
    static const char *const layers[][2] = {
        {"transformer_blocks.%u.ff.up", "double_blocks.%u.img_mlp.up_proj"},
        {"transformer_blocks.%u.ff.gate", "double_blocks.%u.img_mlp.gate_proj"},
        {"transformer_blocks.%u.ff_context.up", "double_blocks.%u.txt_mlp.up_proj"},
        {"transformer_blocks.%u.ff_context.gate", "double_blocks.%u.txt_mlp.gate_proj"}};
    uint32_t k;
    real_flux_attention(file, width, i);
    for (k = 0; k < 4 && file->original; k++) real_layer(file, 4 * width, width, layers[k][0], layers[k][1], i);
    if (!file->original) real_layer(file, 8 * width, width, "transformer_blocks.%u.ff.net.0.proj", NULL, i);
    if (!file->original) real_layer(file, 8 * width, width, "transformer_blocks.%u.ff_context.net.0.proj", NULL, i);
    real_layer(file, width, 4 * width, "transformer_blocks.%u.ff.net.2", "double_blocks.%u.img_mlp.down_proj", i);
    real_layer(file, width, 4 * width, "transformer_blocks.%u.ff_context.net.2", "double_blocks.%u.txt_mlp.down_proj",
               i);
}

static inline void real_ovis(real_file *file, uint64_t width, uint32_t doubles, uint32_t singles) {
    uint32_t i;
    real_layer(file, width, 64, "x_embedder", "img_in", 0);
    real_vector(file, 2048, 1, "context_embedder_norm.weight", "txt_norm.scale", 0, "");
    real_layer(file, width, 2048, "context_embedder", "txt_in", 0);
    real_layer(file, width, 256, "timestep_embedder.linear_1", "time_in.in_layer", 0);
    real_layer(file, width, width, "timestep_embedder.linear_2", "time_in.out_layer", 0);
    for (i = 0; i < doubles; i++) {
        real_flux_modulation(file, width, i, false);
        real_ovis_double(file, width, i);
    }
    for (i = 0; i < singles; i++) {
        real_flux_modulation(file, width, i, true);
        real_flux_single(file, width, 8, i);
    }
    real_layer(file, 2 * width, width, "norm_out.linear", "final_layer.adaLN_modulation.1", 0);
    real_layer(file, 64, width, "proj_out", "final_layer.linear", 0);
}

/* LongCat-Image: FLUX.1 without pooled text. */
static inline void real_longcat(real_file *file, uint64_t width, uint32_t doubles, uint32_t singles) {
    uint32_t i;
    real_layer(file, width, 64, "x_embedder", "img_in", 0);
    real_layer(file, width, 3584, "context_embedder", "txt_in", 0);
    real_layer(file, width, 256, "time_embed.timestep_embedder.linear_1", "time_in.in_layer", 0);
    real_layer(file, width, width, "time_embed.timestep_embedder.linear_2", "time_in.out_layer", 0);
    for (i = 0; i < doubles; i++) {
        real_flux_modulation(file, width, i, false);
        real_flux_double(file, width, i);
    }
    for (i = 0; i < singles; i++) {
        real_flux_modulation(file, width, i, true);
        real_flux_single(file, width, 4, i);
    }
    real_layer(file, 2 * width, width, "norm_out.linear", "final_layer.adaLN_modulation.1", 0);
    real_layer(file, 64, width, "proj_out", "final_layer.linear", 0);
}

/* FLUX.3. */
static inline void real_flux3_block(real_file *file, uint64_t width, const char *diffusers, const char *original,
                                    uint32_t i) {
    static const char *const squares[][2] = {
        {"attn.to_q", "q_proj"}, {"attn.to_k", "k_proj"}, {"attn.to_v", "v_proj"}, {"attn.to_out.0", "attn_out"}};
    char names[2][112];
    uint32_t k;
    for (k = 0; k < 8; k++) {
        static const char *const others[][2] = {{"ff.linear_in", "mlp_in"},
                                                {"ff.linear_out", "mlp_out"},
                                                {"attn.norm_q.weight", "norm.query_norm.scale"},
                                                {"attn.norm_k.weight", "norm.key_norm.scale"}};
        const char *const *own = k < 4 ? squares[k] : others[k - 4];
        diti_format(names[0], sizeof names[0], "%s%s", diffusers, own[0]);
        diti_format(names[1], sizeof names[1], "%s%s", original, own[1]);
        if (k < 6)
            real_matrix(file, k == 4 ? 6 * width : width, k == 5 ? 3 * width : width, names[0], names[1], i);
        else
            real_vector(file, 128, 1, names[0], names[1], i, "");
    }
}

static inline void real_flux3(real_file *file, uint64_t width, uint32_t alone, uint32_t joint, bool jumps) {
    static const char *const kinds[] = {"image", "image_cond", "txt"};
    char names[2][112];
    uint32_t i, k;
    real_matrix(file, width, 128, "x_embedders.image", "emb_in.image", 0);
    real_matrix(file, width, 128, "x_embedders.image_cond", "emb_in.image_cond", 0);
    real_matrix(file, width, 20480, "context_embedder", "txt_in", 0);
    real_matrix(file, width, 256, "timestep_embedder.linear_1", "time_in.in_layer", 0);
    real_matrix(file, width, width, "timestep_embedder.linear_2", "time_in.out_layer", 0);
    if (jumps) real_matrix(file, width, 256, "target_timestep_embedder.linear_1", "ref_time_in.in_layer", 0);
    if (jumps) real_matrix(file, width, width, "target_timestep_embedder.linear_2", "ref_time_in.out_layer", 0);
    for (k = 0; k < 6; k++) {
        diti_format(names[1], sizeof names[1], "%s_stream_modulations.%s.lin", k < 3 ? "early" : "single",
                    kinds[k % 3]);
        diti_format(names[0], sizeof names[0], "%sear", names[1]);
        real_matrix(file, 3 * width, width, names[0], names[1], 0);
    }
    for (i = 0; i < alone; i++) {
        real_flux3_block(file, width, "mode_blocks.image.%u.", "content_mode_blocks.image.%u.", i);
        real_flux3_block(file, width, "mode_blocks.image_cond.%u.", "content_mode_blocks.image_cond.%u.", i);
        real_flux3_block(file, width, "txt_mode_blocks.%u.", "txt_mode_blocks.%u.", i);
    }
    for (i = 0; i < joint; i++) real_flux3_block(file, width, "single_transformer_blocks.%u.", "single_blocks.%u.", i);
    real_matrix(file, 2 * width, width, "norm_out.linear", "final_layer.image.adaLN_modulation.1", 0);
    real_matrix(file, 128, width, "proj_out", "final_layer.image.linear", 0);
}

/* Qwen-Image; single files have diffusers' names. */
static inline void real_qwenimage_part(real_file *file, uint64_t rows, uint64_t columns, const char *name, uint32_t i) {
    real_layer(file, rows, columns, name, name, i);
}

static inline void real_qwenimage(real_file *file, uint64_t width, uint32_t blocks) {
    static const char *const squares[] = {"attn.to_q",       "attn.to_k",       "attn.to_v",       "attn.to_out.0",
                                          "attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj", "attn.to_add_out"};
    static const char *const norms[] = {"norm_q", "norm_k", "norm_added_q", "norm_added_k"};
    char name[112];
    uint32_t i, k;
    real_qwenimage_part(file, width, 64, "img_in", 0);
    real_norm(file, 3584, false, "txt_norm", "txt_norm", 0);
    real_qwenimage_part(file, width, 3584, "txt_in", 0);
    real_qwenimage_part(file, width, 256, "time_text_embed.timestep_embedder.linear_1", 0);
    real_qwenimage_part(file, width, width, "time_text_embed.timestep_embedder.linear_2", 0);
    for (i = 0; i < blocks; i++) {
        for (k = 0; k < 8; k++) {
            diti_format(name, sizeof name, "transformer_blocks.%%u.%s", squares[k]);
            real_qwenimage_part(file, width, width, name, i);
        }
        for (k = 0; k < 4; k++) {
            diti_format(name, sizeof name, "transformer_blocks.%%u.attn.%s", norms[k]);
            real_norm(file, 128, false, name, name, i);
        }
        for (k = 0; k < 2; k++) {
            const char *stream = k ? "txt" : "img";
            diti_format(name, sizeof name, "transformer_blocks.%%u.%s_mod.1", stream);
            real_qwenimage_part(file, 6 * width, width, name, i);
            diti_format(name, sizeof name, "transformer_blocks.%%u.%s_mlp.net.0.proj", stream);
            real_qwenimage_part(file, 4 * width, width, name, i);
            diti_format(name, sizeof name, "transformer_blocks.%%u.%s_mlp.net.2", stream);
            real_qwenimage_part(file, width, 4 * width, name, i);
        }
    }
    real_qwenimage_part(file, 2 * width, width, "norm_out.linear", 0);
    real_qwenimage_part(file, 64, width, "proj_out", 0);
}

/* Qwen-Image-2.1; single files have diffusers' names. Layers of a block in groups of one shape. */
static inline void real_qwenimage21(real_file *file) {
    static const char *const layers[] = {"attn.to_q",          "attn.to_k",    "attn.to_v",  "attn.to_out.0",
                                         "img_mlp.gate_layer", "img_mlp.proj", "img_mlp.out"};
    const uint64_t width = 4096;
    char name[112];
    uint32_t i, k;
    real_matrix(file, width, 64, "img_in", "img_in", 0);
    real_vector(file, width, 0, "txt_in.text_norm", "txt_in.text_norm", 0, ".weight");
    real_matrix(file, width, width, "txt_in.in_layer", "txt_in.in_layer", 0);
    real_matrix(file, width, width, "txt_in.out_layer", "txt_in.out_layer", 0);
    for (k = 0; k < 2; k++) {
        diti_format(name, sizeof name, "time_text_embed.timestep_embedder.linear_%u", k + 1);
        real_matrix(file, width, k ? width : 256, name, name, 0);
    }
    real_matrix(file, 4 * width, width, "modulation.1", "modulation.1", 0);
    for (i = 0; i < 32; i++) {
        for (k = 0; k < 7; k++) {
            diti_format(name, sizeof name, "transformer_blocks.%%u.%s", layers[k]);
            real_matrix(file, k == 4 || k == 5 ? 3 * width : width, k == 6 ? 3 * width : width, name, name, i);
        }
        for (k = 0; k < 2; k++) {
            diti_format(name, sizeof name, "transformer_blocks.%%u.attn.norm_%c", "qk"[k]);
            real_norm(file, 128, false, name, name, i);
        }
    }
    real_matrix(file, width, width, "norm_out.linear", "norm_out.linear", 0);
    real_matrix(file, 64, width, "proj_out", "proj_out", 0);
}

/* Anima's transformer, without the conditioner of its text. */
static inline void real_anima(real_file *file) {
    static const char *const attention[][2] = {
        {"to_q", "q_proj"}, {"to_out.0", "output_proj"}, {"to_k", "k_proj"}, {"to_v", "v_proj"}};
    static const char *const modulations[] = {"self_attn", "cross_attn", "mlp"};
    const uint64_t width = 2048;
    char name[112], other[112];
    uint32_t i, j, k;
    real_matrix(file, width, 68, "patch_embed.proj", "net.x_embedder.proj.1", 0);
    real_matrix(file, width, width, "time_embed.t_embedder.linear_1", "net.t_embedder.1.linear_1", 0);
    real_matrix(file, 3 * width, width, "time_embed.t_embedder.linear_2", "net.t_embedder.1.linear_2", 0);
    real_vector(file, width, 1, "time_embed.norm", "net.t_embedding_norm", 0, ".weight");
    for (i = 0; i < 28; i++) {
        for (k = 0; k < 6; k++) {
            diti_format(name, sizeof name, "transformer_blocks.%%u.norm%u.linear_%u", k / 2 + 1, k % 2 + 1);
            diti_format(other, sizeof other, "net.blocks.%%u.adaln_modulation_%s.%u", modulations[k / 2], k % 2 + 1);
            real_matrix(file, k % 2 ? 3 * width : 256, k % 2 ? 256 : width, name, other, i);
        }
        for (j = 0; j < 2; j++) {
            for (k = 0; k < 4; k++) {
                diti_format(name, sizeof name, "transformer_blocks.%%u.attn%u.%s", j + 1, attention[k][0]);
                diti_format(other, sizeof other, "net.blocks.%%u.%s.%s", modulations[j], attention[k][1]);
                real_matrix(file, width, j && k > 1 ? 1024 : width, name, other, i);
            }
            for (k = 0; k < 2; k++) {
                diti_format(name, sizeof name, "transformer_blocks.%%u.attn%u.norm_%c", j + 1, "qk"[k]);
                diti_format(other, sizeof other, "net.blocks.%%u.%s.%c_norm", modulations[j], "qk"[k]);
                real_norm(file, 128, false, name, other, i);
            }
        }
        real_matrix(file, 4 * width, width, "transformer_blocks.%u.ff.net.0.proj", "net.blocks.%u.mlp.layer1", i);
        real_matrix(file, width, 4 * width, "transformer_blocks.%u.ff.net.2", "net.blocks.%u.mlp.layer2", i);
    }
    real_matrix(file, 256, width, "norm_out.linear_1", "net.final_layer.adaln_modulation.1", 0);
    real_matrix(file, 2 * width, 256, "norm_out.linear_2", "net.final_layer.adaln_modulation.2", 0);
    real_matrix(file, 64, width, "proj_out", "net.final_layer.linear", 0);
}

/* Krea 2: the image's blocks, or those of the text. */
static inline void real_krea2_block(real_file *file, uint64_t width, uint64_t kv, uint64_t feed, uint64_t head,
                                    const char *list, const char *original, uint32_t i) {
    static const char *const parts[][2] = {
        {"attn.to_q", "attn.wq"}, {"attn.to_gate", "attn.gate"}, {"attn.to_out.0", "attn.wo"}, {"attn.to_k", "attn.wk"},
        {"attn.to_v", "attn.wv"}, {"ff.gate", "mlp.gate"},       {"ff.up", "mlp.up"},          {"ff.down", "mlp.down"}};
    static const char *const vectors[][2] = {{"attn.norm_q.weight", "attn.qknorm.qnorm.scale"},
                                             {"attn.norm_k.weight", "attn.qknorm.knorm.scale"},
                                             {"norm1.weight", "prenorm.scale"},
                                             {"norm2.weight", "postnorm.scale"}};
    char name[112], other[112];
    uint32_t k;
    for (k = 0; k < 8; k++) {
        diti_format(name, sizeof name, "%s%%u.%s", list, parts[k][0]);
        diti_format(other, sizeof other, "%s%%u.%s", original, parts[k][1]);
        real_matrix(file, k < 3 ? width : k < 5 ? kv : k < 7 ? feed : width, k < 7 ? width : feed, name, other, i);
    }
    for (k = 0; k < 4; k++) {
        diti_format(name, sizeof name, "%s%%u.%s", list, vectors[k][0]);
        diti_format(other, sizeof other, "%s%%u.%s", original, vectors[k][1]);
        real_vector(file, k < 2 ? head : width, 0, name, other, i, "");
    }
}

static inline void real_krea2(real_file *file) {
    const uint64_t width = 6144, text = 2560;
    uint32_t i;
    real_layer(file, width, 64, "img_in", "first", 0);
    real_layer(file, width, 256, "time_embed.linear_1", "tmlp.0", 0);
    real_layer(file, width, width, "time_embed.linear_2", "tmlp.2", 0);
    real_layer(file, 6 * width, width, "time_mod_proj", "tproj.1", 0);
    for (i = 0; i < 2; i++) {
        real_krea2_block(file, text, text, 6912, 128, "text_fusion.layerwise_blocks.", "txtfusion.layerwise_blocks.",
                         i);
        real_krea2_block(file, text, text, 6912, 128, "text_fusion.refiner_blocks.", "txtfusion.refiner_blocks.", i);
    }
    real_matrix(file, 1, 12, "text_fusion.projector", "txtfusion.projector", 0);
    real_vector(file, text, 0, "txt_in.norm.weight", "txtmlp.0.scale", 0, "");
    real_layer(file, width, text, "txt_in.linear_1", "txtmlp.1", 0);
    real_layer(file, width, width, "txt_in.linear_2", "txtmlp.3", 0);
    for (i = 0; i < 28; i++) {
        real_krea2_block(file, width, 1536, 16384, 128, "transformer_blocks.", "blocks.", i);
        real_vector(file, 6 * width, 0, "transformer_blocks.%u.scale_shift_table", "blocks.%u.mod.lin", i, "");
    }
    real_vector(file, width, 0, "final_layer.norm.weight", "last.norm.scale", 0, "");
    real_vector(file, 2 * width, 0, "final_layer.scale_shift_table", "last.modulation.lin", 0, "");
    real_layer(file, 64, width, "final_layer.linear", "last.linear", 0);
}

/* ERNIE-Image, whose files all have one naming. */
static inline void real_ernie(real_file *file, uint64_t width, uint64_t feed, uint64_t text, uint64_t head,
                              uint32_t blocks) {
    static const char *const parts[] = {"self_attention.to_q",     "self_attention.to_k", "self_attention.to_v",
                                        "self_attention.to_out.0", "mlp.gate_proj",       "mlp.up_proj",
                                        "mlp.linear_fc2"};
    static const char *const norms[] = {"adaLN_sa_ln", "adaLN_mlp_ln", "self_attention.norm_q",
                                        "self_attention.norm_k"};
    const uint64_t shape[4] = {width, 128, 1, 1};
    char name[112];
    uint32_t i, k;
    real_tensor_of(file, shape, 4, 0, 0.1, "x_embedder.proj", "x_embedder.proj", 0, ".weight");
    real_vector(file, width, 0, "x_embedder.proj", "x_embedder.proj", 0, ".bias");
    real_matrix(file, width, text, "text_proj", "text_proj", 0);
    for (k = 1; k <= 2; k++) {
        diti_format(name, sizeof name, "time_embedding.linear_%u", k);
        real_layer(file, width, width, name, name, 0);
    }
    real_layer(file, 6 * width, width, "adaLN_modulation.1", "adaLN_modulation.1", 0);
    for (i = 0; i < blocks; i++) {
        for (k = 0; k < DITI_COUNT(parts); k++) {
            diti_format(name, sizeof name, "layers.%%u.%s", parts[k]);
            real_matrix(file, k < 4 || k == 6 ? width : feed, k < 6 ? width : feed, name, name, i);
        }
        for (k = 0; k < DITI_COUNT(norms); k++) {
            diti_format(name, sizeof name, "layers.%%u.%s", norms[k]);
            real_norm(file, k < 2 ? width : head, false, name, name, i);
        }
    }
    real_layer(file, 2 * width, width, "final_norm.linear", "final_norm.linear", 0);
    real_layer(file, 128, width, "final_linear", "final_linear", 0);
}

static inline void real_kandinsky_attention(real_file *file, uint64_t width, uint64_t head, const char *block,
                                            uint32_t i) {
    static const char *const parts[] = {"to_query", "to_key", "to_value", "out_layer"};
    char name[112];
    uint32_t k;
    for (k = 0; k < DITI_COUNT(parts); k++) {
        diti_format(name, sizeof name, "%s%s", block, parts[k]);
        real_layer(file, width, width, name, name, i);
    }
    for (k = 0; k < 2; k++) {
        diti_format(name, sizeof name, "%s%s", block, k ? "key_norm" : "query_norm");
        real_norm(file, head, false, name, name, i);
    }
}

/* Kandinsky 5's models, whose files all have one naming: of 16 channels of a latent those of clips read 33. */
static inline void real_kandinsky(real_file *file, uint64_t width, uint64_t feed, uint64_t time, uint64_t text,
                                  uint64_t pooled, uint64_t head, uint32_t channels, uint32_t text_blocks,
                                  uint32_t blocks) {
#define KANDINSKY(rows, columns, name, i) real_layer(file, rows, columns, name, name, i)
#define KANDINSKY_TEXT "text_transformer_blocks.%u."
#define KANDINSKY_IMAGE "visual_transformer_blocks.%u."
    uint32_t i;
    KANDINSKY(width, 4 * channels, "visual_embeddings.in_layer", 0);
    KANDINSKY(width, text, "text_embeddings.in_layer", 0);
    real_norm(file, width, true, "text_embeddings.norm", "text_embeddings.norm", 0);
    KANDINSKY(time, pooled, "pooled_text_embeddings.in_layer", 0);
    real_norm(file, time, true, "pooled_text_embeddings.norm", "pooled_text_embeddings.norm", 0);
    KANDINSKY(time, width, "time_embeddings.in_layer", 0);
    KANDINSKY(time, time, "time_embeddings.out_layer", 0);
    for (i = 0; i < text_blocks; i++) {
        static const char *const feeds[] = {KANDINSKY_TEXT "feed_forward.in_layer",
                                            KANDINSKY_TEXT "feed_forward.out_layer"};
        KANDINSKY(6 * width, time, KANDINSKY_TEXT "text_modulation.out_layer", i);
        real_kandinsky_attention(file, width, head, KANDINSKY_TEXT "self_attention.", i);
        real_matrix(file, feed, width, feeds[0], feeds[0], i);
        real_matrix(file, width, feed, feeds[1], feeds[1], i);
    }
    for (i = 0; i < blocks; i++) {
        static const char *const feeds[] = {KANDINSKY_IMAGE "feed_forward.in_layer",
                                            KANDINSKY_IMAGE "feed_forward.out_layer"};
        KANDINSKY(9 * width, time, KANDINSKY_IMAGE "visual_modulation.out_layer", i);
        real_kandinsky_attention(file, width, head, KANDINSKY_IMAGE "self_attention.", i);
        real_kandinsky_attention(file, width, head, KANDINSKY_IMAGE "cross_attention.", i);
        real_matrix(file, feed, width, feeds[0], feeds[0], i);
        real_matrix(file, width, feed, feeds[1], feeds[1], i);
    }
    KANDINSKY(2 * width, time, "out_layer.modulation.out_layer", 0);
    KANDINSKY(64, width, "out_layer.out_layer", 0);
#undef KANDINSKY
#undef KANDINSKY_TEXT
#undef KANDINSKY_IMAGE
}

static inline void real_hunyuandit_attention(real_file *file, uint64_t width, uint32_t i, bool cross) {
    if (cross) {
        real_layer(file, width, width, "blocks.%u.attn2.to_q", "blocks.%u.attn2.q_proj", i);
        real_joined(file, "kv", width, 1024, "blocks.%u.attn2.to_%c", "blocks.%u.attn2.kv_proj", i);
    } else {
        real_joined(file, "qkv", width, width, "blocks.%u.attn1.to_%c", "blocks.%u.attn1.Wqkv", i);
    }
    real_norm(file, 88, true, cross ? "blocks.%u.attn2.norm_q" : "blocks.%u.attn1.norm_q",
              cross ? "blocks.%u.attn2.q_norm" : "blocks.%u.attn1.q_norm", i);
    real_norm(file, 88, true, cross ? "blocks.%u.attn2.norm_k" : "blocks.%u.attn1.norm_k",
              cross ? "blocks.%u.attn2.k_norm" : "blocks.%u.attn1.k_norm", i);
    real_layer(file, width, width, cross ? "blocks.%u.attn2.to_out.0" : "blocks.%u.attn1.to_out.0",
               cross ? "blocks.%u.attn2.out_proj" : "blocks.%u.attn1.out_proj", i);
}

static inline void real_hunyuandit_block(real_file *file, uint64_t width, uint64_t inner, uint32_t i, bool skip) {
    real_norm(file, width, true, "blocks.%u.norm1.norm", "blocks.%u.norm1", i);
    real_layer(file, width, width, "blocks.%u.norm1.linear", "blocks.%u.default_modulation.1", i);
    real_norm(file, width, true, "blocks.%u.norm2", "blocks.%u.norm3", i);
    real_norm(file, width, true, "blocks.%u.norm3", "blocks.%u.norm2", i);
    real_hunyuandit_attention(file, width, i, false);
    real_hunyuandit_attention(file, width, i, true);
    real_layer(file, inner, width, "blocks.%u.ff.net.0.proj", "blocks.%u.mlp.fc1", i);
    real_layer(file, width, inner, "blocks.%u.ff.net.2", "blocks.%u.mlp.fc2", i);
    if (!skip) return;
    real_norm(file, 2 * width, true, "blocks.%u.skip_norm", "blocks.%u.skip_norm", i);
    real_layer(file, width, 2 * width, "blocks.%u.skip_linear", "blocks.%u.skip_linear", i);
}

/* HunyuanDiT; sized: 1.0's and 1.1's style and sizes. */
static inline void real_hunyuandit(real_file *file, uint64_t width, uint64_t inner, uint32_t blocks, bool sized) {
    static const char *const parts[] = {"q", "k", "v", "c"};
    char names[2][112];
    uint32_t i;
    real_patches(file, width, 4);
    real_embedder(file, width, width, 256, "time_extra_emb.timestep_embedder", "t_embedder.mlp.%u");
    real_embedder(file, 1024, 8192, 2048, "text_embedder", "mlp_t5.%u");
    real_embedder(file, width, 4 * width, sized ? 1024 + 1536 + width : 1024, "time_extra_emb.extra_embedder",
                  "extra_embedder.%u");
    real_table(file, 333, 1024, "text_embedding_padding", "text_embedding_padding", 0);
    real_table(file, 257, 2048, "time_extra_emb.pooler.positional_embedding", "pooler.positional_embedding", 0);
    for (i = 0; i < 4; i++) {
        diti_format(names[0], sizeof names[0], "time_extra_emb.pooler.%s_proj", parts[i]);
        diti_format(names[1], sizeof names[1], "pooler.%s_proj", parts[i]);
        real_layer(file, i < 3 ? 2048 : 1024, 2048, names[0], names[1], 0);
    }
    if (sized) real_table(file, 1, width, "time_extra_emb.style_embedder.weight", "style_embedder.weight", 0);
    for (i = 0; i < blocks; i++) real_hunyuandit_block(file, width, inner, i, i > blocks / 2);
    real_layer(file, 2 * width, width, "norm_out.linear", "final_layer.adaLN_modulation.1", 0);
    real_layer(file, 32, width, "proj_out", "final_layer.linear", 0);
}

static inline void real_rows(real_file *file, uint64_t rows, uint64_t columns, const char *name) {
    real_table(file, rows, columns, name, name, 0);
}

static inline void real_named_layer(real_file *file, uint64_t rows, uint64_t columns, const char *block,
                                    const char *name, uint32_t index) {
    char text[112];
    diti_format(text, sizeof text, "%s.%s", block, name);
    real_layer(file, rows, columns, text, text, index);
}

static inline void real_named_norm(real_file *file, uint64_t size, bool bias, const char *block, const char *name,
                                   uint32_t index) {
    char text[112];
    diti_format(text, sizeof text, "%s%s%s", block, block[0] ? "." : "", name);
    real_norm(file, size, bias, text, text, index);
}

/* A block's attention and, where it has them, text and feed-forward; of Open-Sora, whose names are the same everywhere.
   part: "blocks.%u.", "attn". */
static inline void real_stdit_part(real_file *file, uint64_t width, const char *block, const char *attention,
                                   uint32_t index, bool normed, bool whole) {
    static const char *const layers[] = {"cross_attn.q_linear", "cross_attn.kv_linear", "cross_attn.proj", "mlp.fc1",
                                         "mlp.fc2"};
    static const uint64_t rows[] = {1, 2, 1, 4, 1}, columns[] = {1, 1, 1, 1, 4};
    static const char *const norms[] = {"q_norm", "k_norm"};
    char name[112];
    uint32_t i;
    diti_format(name, sizeof name, "%s%s.qkv", block, attention);
    real_layer(file, 3 * width, width, name, name, index);
    diti_format(name, sizeof name, "%s%s.proj", block, attention);
    real_layer(file, width, width, name, name, index);
    for (i = 0; i < 2 && normed; i++) {
        diti_format(name, sizeof name, "%s%s.%s", block, attention, norms[i]);
        real_norm(file, 72, false, name, name, index);
    }
    for (i = 0; i < 5 && whole; i++) {
        diti_format(name, sizeof name, "%s%s", block, layers[i]);
        real_layer(file, rows[i] * width, columns[i] * width, name, name, index);
    }
    diti_format(name, sizeof name, "%sscale_shift_table", block);
    if (whole) real_table(file, 6, width, name, name, index);
}

static inline void real_mlp(real_file *file, uint64_t width, const char *name) {
    char layer[112];
    diti_format(layer, sizeof layer, "%s.mlp.0", name);
    real_layer(file, width, 256, layer, layer, 0);
    diti_format(layer, sizeof layer, "%s.mlp.2", name);
    real_layer(file, width, width, layer, layer, 0);
}

/* Open-Sora v1.0 (version 1) to v1.2 (3). In a GGUF, which has four dimensions, patches are those of pictures. */
static inline void real_stdit(real_file *file, uint32_t version, uint64_t tokens, uint32_t blocks) {
    static const char temporal[] = "blocks.%u.scale_shift_table_temporal";
    const uint64_t width = 1152, shape[5] = {width, 4, 1, 2, 2}, flat[4] = {width, 4, 2, 2};
    bool gguf = file->container == REAL_GGUF;
    uint64_t counted;
    uint32_t i;
    real_tensor_of(file, gguf ? flat : shape, gguf ? 4 : 5, 0, 0.25, "x_embedder.proj", "x_embedder.proj", 0,
                   ".weight");
    real_vector(file, width, 0, "x_embedder.proj", "x_embedder.proj", 0, ".bias");
    real_mlp(file, width, "t_embedder");
    real_layer(file, 6 * width, width, "t_block.1", "t_block.1", 0);
    if (version == 2) {
        real_mlp(file, width / 3, "csize_embedder");
        real_mlp(file, width / 3, "ar_embedder");
        real_mlp(file, width, "fl_embedder");
        real_layer(file, 3 * width, width, "t_block_temp.1", "t_block_temp.1", 0);
    }
    if (version > 1) real_mlp(file, width, "fps_embedder");
    real_layer(file, width, 4096, "y_embedder.y_proj.fc1", "y_embedder.y_proj.fc1", 0);
    real_layer(file, width, width, "y_embedder.y_proj.fc2", "y_embedder.y_proj.fc2", 0);
    for (i = 0; i < blocks; i++) {
        real_stdit_part(file, width, version == 3 ? "spatial_blocks.%u." : "blocks.%u.", "attn", i, version > 1, true);
        real_stdit_part(file, width, version == 3 ? "temporal_blocks.%u." : "blocks.%u.",
                        version == 3 ? "attn" : "attn_temp", i, version > 1, version == 3);
        if (version == 2) real_table(file, 3, width, temporal, temporal, i);
    }
    real_table(file, 2, width, "final_layer.scale_shift_table", "final_layer.scale_shift_table", 0);
    real_layer(file, 32, width, "final_layer.linear", "final_layer.linear", 0);
    counted = file->parameters; /* without buffers */
    real_rows(file, tokens, 4096, "y_embedder.y_embedding");
    if (version > 1) real_vector(file, 36, 0, "rope.freqs", "rope.freqs", 0, "");
    file->parameters = counted;
}

/* Latte-1 and Open-Sora-Plan's LatteT2V, under diffusers' names alone. */
static inline void real_latte(real_file *file, bool plan, uint32_t blocks) {
    static const char *const scopes[] = {"transformer_blocks.%u.", "temporal_transformer_blocks.%u."};
    static const char *const layers[] = {"attn1.to_q", "attn1.to_k", "attn1.to_v", "attn1.to_out.0", "ff.net.0.proj",
                                         "ff.net.2",   "attn2.to_q", "attn2.to_k", "attn2.to_v",     "attn2.to_out.0"};
    const uint64_t width = 1152;
    char name[112];
    uint32_t i, part, k;
    bool original = file->original;
    file->original = false;
    real_patches(file, width, 4);
    real_embedder(file, width, width, 256, "adaln_single.emb.timestep_embedder", NULL);
    real_layer(file, 6 * width, width, "adaln_single.linear", NULL, 0);
    real_layer(file, width, 4096, "caption_projection.linear_1", NULL, 0);
    real_layer(file, width, width, "caption_projection.linear_2", NULL, 0);
    for (i = 0; i < blocks; i++)
        for (part = 0; part < 2; part++) {
            for (k = 0; k < (part ? 6u : 10u); k++) {
                diti_format(name, sizeof name, "%s%s", scopes[part], layers[k]);
                real_layer(file, (k == 4 ? 4 : 1) * width, (k == 5 ? 4 : 1) * width, name, NULL, i);
            }
            diti_format(name, sizeof name, "%sscale_shift_table", scopes[part]);
            real_table(file, 6, width, name, NULL, i);
        }
    real_table(file, 2, width, "scale_shift_table", NULL, 0);
    real_layer(file, 32, width, "proj_out", NULL, 0);
    if (plan) real_rows(file, 120, 4096, "caption_projection.y_embedding");
    if (plan) file->parameters -= 120 * 4096;
    file->original = original;
}

/* CogVideoX under diffusers' names alone; frames: of a patch. */
static inline void real_cogvideox(real_file *file, uint64_t width, uint32_t blocks, uint64_t frames,
                                  uint64_t channels) {
    static const char block[] = "transformer_blocks.%u";
    static const char *const layers[] = {"attn1.to_q",    "attn1.to_k", "attn1.to_v",   "attn1.to_out.0",
                                         "ff.net.0.proj", "ff.net.2",   "norm1.linear", "norm2.linear"};
    static const uint32_t rows[] = {1, 1, 1, 1, 4, 1, 6, 6}, columns[] = {1, 1, 1, 1, 1, 4, 0, 0};
    const uint64_t shape[4] = {width, channels, 2, 2};
    uint32_t i, k;
    if (frames > 1) {
        real_layer(file, width, channels * 4 * frames, "patch_embed.proj", "patch_embed.proj", 0);
    } else {
        real_tensor_of(file, shape, 4, 0, 0.125, "patch_embed.proj", "patch_embed.proj", 0, ".weight");
        real_vector(file, width, 0, "patch_embed.proj", "patch_embed.proj", 0, ".bias");
    }
    real_layer(file, width, 4096, "patch_embed.text_proj", "patch_embed.text_proj", 0);
    real_layer(file, 512, width, "time_embedding.linear_1", "time_embedding.linear_1", 0);
    real_layer(file, 512, 512, "time_embedding.linear_2", "time_embedding.linear_2", 0);
    for (i = 0; i < blocks; i++) {
        for (k = 0; k < DITI_COUNT(layers); k++)
            real_named_layer(file, rows[k] * width, columns[k] ? columns[k] * width : 512, block, layers[k], i);
        real_named_norm(file, width, true, block, "norm1.norm", i);
        real_named_norm(file, width, true, block, "norm2.norm", i);
        real_named_norm(file, 64, true, block, "attn1.norm_q", i);
        real_named_norm(file, 64, true, block, "attn1.norm_k", i);
    }
    real_named_norm(file, width, true, "", "norm_final", 0);
    real_layer(file, 2 * width, 512, "norm_out.linear", "norm_out.linear", 0);
    real_named_norm(file, width, true, "", "norm_out.norm", 0);
    real_layer(file, 16 * 4 * frames, width, "proj_out", "proj_out", 0);
}

/* LTX-Video; heads: 32 always. */
static inline void real_ltx(real_file *file, uint64_t width, uint32_t blocks) {
    static const char block[] = "transformer_blocks.%u";
    static const char *const layers[] = {"to_q", "to_k", "to_v", "to_out.0"};
    char names[2][112];
    uint32_t i, k, part;
    real_layer(file, width, 128, "proj_in", "patchify_proj", 0);
    for (i = 0; i < 2; i++) {
        diti_format(names[0], sizeof names[0], "time_embed.emb.timestep_embedder.linear_%u", i + 1);
        diti_format(names[1], sizeof names[1], "adaln_single.emb.timestep_embedder.linear_%u", i + 1);
        real_layer(file, width, i ? width : 256, names[0], names[1], 0);
    }
    real_layer(file, 6 * width, width, "time_embed.linear", "adaln_single.linear", 0);
    real_named_layer(file, width, 4096, "caption_projection", "linear_1", 0);
    real_named_layer(file, width, width, "caption_projection", "linear_2", 0);
    for (i = 0; i < blocks; i++) {
        for (part = 1; part < 3; part++) {
            for (k = 0; k < DITI_COUNT(layers); k++) {
                diti_format(names[0], sizeof names[0], "attn%u.%s", part, layers[k]);
                real_named_layer(file, width, width, block, names[0], i);
            }
            for (k = 0; k < 2; k++) {
                diti_format(names[0], sizeof names[0], "%s.attn%u.norm_%c", block, part, k ? 'k' : 'q');
                diti_format(names[1], sizeof names[1], "%s.attn%u.%c_norm", block, part, k ? 'k' : 'q');
                real_norm(file, width, false, names[0], names[1], i);
            }
        }
        real_named_layer(file, 4 * width, width, block, "ff.net.0.proj", i);
        real_named_layer(file, width, 4 * width, block, "ff.net.2", i);
        real_table(file, 6, width, "transformer_blocks.%u.scale_shift_table", "transformer_blocks.%u.scale_shift_table",
                   i);
    }
    real_table(file, 2, width, "scale_shift_table", "scale_shift_table", 0);
    real_layer(file, 128, width, "proj_out", "proj_out", 0);
}

/* LTX-2 and LTX-2.3; heads: 32 always. */
static inline void real_ltx2_attention(real_file *file, uint64_t width, uint64_t columns, uint64_t inner, bool gated,
                                       const char *name, uint32_t block) {
    static const char *const layers[] = {"to_q", "to_k", "to_v", "to_out.0", "to_gate_logits"};
    char names[2][112];
    uint32_t k;
    for (k = 0; k < (gated ? 5u : 4u); k++) {
        diti_format(names[0], sizeof names[0], "%s.%s", name, layers[k]);
        real_named_layer(file,
                         k == 3   ? width
                         : k == 4 ? 32
                                  : inner,
                         k == 3             ? inner
                         : k == 1 || k == 2 ? columns
                                            : width,
                         "transformer_blocks.%u", names[0], block);
    }
    for (k = 0; k < 2; k++) {
        diti_format(names[0], sizeof names[0], "transformer_blocks.%%u.%s.norm_%c", name, k ? 'k' : 'q');
        diti_format(names[1], sizeof names[1], "transformer_blocks.%%u.%s.%c_norm", name, k ? 'k' : 'q');
        real_norm(file, inner, false, names[0], names[1], block);
    }
}
static inline void real_ltx2_time(real_file *file, uint64_t rows, uint64_t width, const char *diffusers,
                                  const char *original) {
    char names[2][112];
    uint32_t i;
    for (i = 0; i < 2; i++) {
        diti_format(names[0], sizeof names[0], "%s.emb.timestep_embedder.linear_%u", diffusers, i + 1);
        diti_format(names[1], sizeof names[1], "%s.emb.timestep_embedder.linear_%u", original, i + 1);
        real_layer(file, width, i ? width : 256, names[0], names[1], 0);
    }
    diti_format(names[0], sizeof names[0], "%s.linear", diffusers);
    diti_format(names[1], sizeof names[1], "%s.linear", original);
    real_layer(file, rows * width, width, names[0], names[1], 0);
}
static inline void real_ltx2(real_file *file, bool newer, uint64_t unit, uint32_t blocks) {
    static const char *const befores[] = {"", "audio_"},
                             *const others[] = {"audio_to_video_attn", "video_to_audio_attn"},
                             *const times[][2] = {
                                 {"av_cross_attn_video_scale_shift", "av_ca_video_scale_shift_adaln_single"},
                                 {"av_cross_attn_audio_scale_shift", "av_ca_audio_scale_shift_adaln_single"},
                                 {"av_cross_attn_video_a2v_gate", "av_ca_a2v_gate_adaln_single"},
                                 {"av_cross_attn_audio_v2a_gate", "av_ca_v2a_gate_adaln_single"}};
    char names[2][112];
    uint32_t i, s;
#define NAME(WHICH, FORMAT) (diti_format(names[WHICH], sizeof names[WHICH], FORMAT, befores[s]), names[WHICH])
    for (s = 0; s < 2; s++) {
        uint64_t width = s ? 16 * unit : 32 * unit;
        real_layer(file, width, 128, NAME(0, "%sproj_in"), NAME(1, "%spatchify_proj"), 0);
        real_ltx2_time(file, newer ? 9 : 6, width, NAME(0, "%stime_embed"), NAME(1, "%sadaln_single"));
        if (newer) real_ltx2_time(file, 2, width, NAME(0, "%sprompt_adaln"), NAME(1, "%sprompt_adaln_single"));
        real_ltx2_time(file, 4, width, times[s][0], times[s][1]);
        real_ltx2_time(file, 1, width, times[2 + s][0], times[2 + s][1]);
        if (!newer) {
            real_named_layer(file, width, 3840, NAME(0, "%scaption_projection"), "linear_1", 0);
            real_named_layer(file, width, width, NAME(0, "%scaption_projection"), "linear_2", 0);
        }
        real_table(file, 2, width, NAME(0, "%sscale_shift_table"), names[0], 0);
        real_layer(file, 128, width, NAME(0, "%sproj_out"), names[0], 0);
    }
    for (i = 0; i < blocks; i++) {
        for (s = 0; s < 2; s++) {
            uint64_t width = s ? 16 * unit : 32 * unit, other = s ? 32 * unit : 16 * unit;
            real_ltx2_attention(file, width, width, width, newer, NAME(0, "%sattn1"), i);
            real_ltx2_attention(file, width, width, width, newer, NAME(0, "%sattn2"), i);
            real_ltx2_attention(file, width, other, 16 * unit, newer, others[s], i);
            real_named_layer(file, 4 * width, width, "transformer_blocks.%u", NAME(0, "%sff.net.0.proj"), i);
            real_named_layer(file, width, 4 * width, "transformer_blocks.%u", NAME(0, "%sff.net.2"), i);
            real_table(file, newer ? 9 : 6, width, NAME(0, "transformer_blocks.%%u.%sscale_shift_table"), names[0], i);
            if (newer)
                real_table(file, 2, width, NAME(0, "transformer_blocks.%%u.%sprompt_scale_shift_table"), names[0], i);
            real_table(file, 5, width,
                       s ? "transformer_blocks.%u.audio_a2v_cross_attn_scale_shift_table"
                         : "transformer_blocks.%u.video_a2v_cross_attn_scale_shift_table",
                       s ? "transformer_blocks.%u.scale_shift_table_a2v_ca_audio"
                         : "transformer_blocks.%u.scale_shift_table_a2v_ca_video",
                       i);
        }
    }
#undef NAME
}

/* MiniMax-H3. time_width 0: a pruned file, whose table of so many rows stands for the layers of the timestep. */
static inline void real_minimax_block(real_file *file, const char *list, const char *original, uint64_t width,
                                      uint64_t inner, uint64_t feed, uint64_t head, uint64_t time, uint32_t i) {
    char names[2][112];
#define NAME(WHICH, REST)                                                                                              \
    (diti_format(names[WHICH], sizeof names[WHICH], "%s.%%u.%s", WHICH ? original : list, REST), names[WHICH])
    if (time) real_layer(file, 18 * width, time, NAME(0, "adaln_proj.linear"), NAME(1, "adaln_proj.linear"), i);
    real_norm(file, width, false, NAME(0, "norm1"), NAME(1, "norm1"), i);
    real_norm(file, width, false, NAME(0, "norm2"), NAME(1, "norm2"), i);
    real_joined_bare(file, "qkv", inner, width, NAME(0, "attn.to_%c"), NAME(1, "attn.qkv_proj"), i);
    real_norm(file, head, false, NAME(0, "attn.norm_q"), NAME(1, "attn.q_norm"), i);
    real_norm(file, head, false, NAME(0, "attn.norm_k"), NAME(1, "attn.k_norm"), i);
    real_matrix(file, width, inner, NAME(0, "attn.to_out.0"), NAME(1, "attn.out_proj"), i);
    real_matrix(file, 2 * feed, width, NAME(0, "ff.net.0.proj"), NAME(1, "mlp.fc1"), i);
    real_matrix(file, width, feed, NAME(0, "ff.net.2"), NAME(1, "mlp.fc2"), i);
#undef NAME
}
static inline void real_minimax(real_file *file, uint64_t width, uint64_t inner, uint64_t feed, uint64_t head,
                                uint64_t time_width, uint64_t time, uint64_t text, uint32_t blocks) {
    uint32_t i;
    real_layer(file, width, 96, "proj_in", "video_patch_proj", 0);
    real_layer(file, width, 32, "audio_proj_in", "audio_patch_proj", 0);
    real_layer(file, width, text, "context_embedder", "condition_proj", 0);
    if (time_width) {
        real_layer(file, time_width, 256, "time_embedder.linear_1", "time_embedder.proj_in", 0);
        real_layer(file, time, time_width, "time_embedder.linear_2", "time_embedder.proj_out", 0);
    } else {
        real_table(file, 1001, time, "adaln_t_table", "adaln_t_table", 0);
    }
    for (i = 0; i < 2; i++)
        real_minimax_block(file, "token_refiner.refiner_blocks", "token_refiner.blocks", width, inner, feed, head, 0,
                           i);
    real_norm(file, width, false, "token_refiner.final_norm", "token_refiner.final_norm", 0);
    for (i = 0; i < blocks; i++)
        real_minimax_block(file, "transformer_blocks", "blocks", width, inner, feed, head, time, i);
    real_norm(file, width, false, "norm_out.norm", "final_layer.norm", 0);
    real_layer(file, 2 * width, time, "norm_out.linear", "final_layer.adaln_proj.linear", 0);
    real_layer(file, 96, width, "proj_out", "final_layer.video_out", 0);
    real_layer(file, 32, width, "audio_proj_out", "final_layer.audio_out", 0);
}

static inline void real_hunyuanvideo_double(real_file *file, uint64_t width, uint32_t i) {
    static const char *const names[2][2][6] = {
        {{"norm1.linear", "attn.to_%c", "attn.norm_%c", "attn.to_out.0", "ff"},
         {"img_mod.linear", "img_attn_qkv", "img_attn_%c_norm", "img_attn_proj", "img_mlp.fc%u"}},
        {{"norm1_context.linear", "attn.add_%c_proj", "attn.norm_added_%c", "attn.to_add_out", "ff_context"},
         {"txt_mod.linear", "txt_attn_qkv", "txt_attn_%c_norm", "txt_attn_proj", "txt_mlp.fc%u"}}};
    char own[2][112], rest[48];
    uint32_t stream, k;
    for (stream = 0; stream < 2; stream++) {
        const char *const *diffusers = names[stream][0], *const *original = names[stream][1];
        diti_format(own[0], sizeof own[0], "transformer_blocks.%u.%s", i, diffusers[0]);
        diti_format(own[1], sizeof own[1], "double_blocks.%u.%s", i, original[0]);
        real_layer(file, 6 * width, width, own[0], own[1], 0);
        for (k = 0; k < (file->original ? 1u : 3u); k++) {
            diti_format(rest, sizeof rest, diffusers[1], "qkv"[k]);
            diti_format(own[0], sizeof own[0], "transformer_blocks.%u.%s", i, rest);
            diti_format(own[1], sizeof own[1], "double_blocks.%u.%s", i, original[1]);
            real_layer(file, (file->original ? 3 : 1) * width, width, own[0], own[1], 0);
        }
        for (k = 0; k < 2; k++) {
            diti_format(rest, sizeof rest, diffusers[2], "qk"[k]);
            diti_format(own[0], sizeof own[0], "transformer_blocks.%u.%s", i, rest);
            diti_format(rest, sizeof rest, original[2], "qk"[k]);
            diti_format(own[1], sizeof own[1], "double_blocks.%u.%s", i, rest);
            real_norm(file, 128, false, own[0], own[1], 0);
        }
        diti_format(own[0], sizeof own[0], "transformer_blocks.%u.%s", i, diffusers[3]);
        diti_format(own[1], sizeof own[1], "double_blocks.%u.%s", i, original[3]);
        real_layer(file, width, width, own[0], own[1], 0);
        for (k = 0; k < 2; k++) {
            diti_format(own[0], sizeof own[0], "transformer_blocks.%u.%s.net.%s", i, diffusers[4], k ? "2" : "0.proj");
            diti_format(rest, sizeof rest, original[4], k + 1);
            diti_format(own[1], sizeof own[1], "double_blocks.%u.%s", i, rest);
            real_layer(file, (k ? 1 : 4) * width, (k ? 4 : 1) * width, own[0], own[1], 0);
        }
    }
}

static inline void real_hunyuanvideo_single(real_file *file, uint64_t width, uint32_t i) {
    static const char *const parts[] = {"attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"};
    uint32_t k;
    real_layer(file, 3 * width, width, "single_transformer_blocks.%u.norm.linear", "single_blocks.%u.modulation.linear",
               i);
    if (file->original) real_layer(file, 7 * width, width, NULL, "single_blocks.%u.linear1", i);
    for (k = 0; k < 4 && !file->original; k++)
        real_named_layer(file, (k == 3 ? 4 : 1) * width, width, "single_transformer_blocks.%u", parts[k], i);
    real_layer(file, width, 5 * width, "single_transformer_blocks.%u.proj_out", "single_blocks.%u.linear2", i);
    real_norm(file, 128, false, "single_transformer_blocks.%u.attn.norm_q", "single_blocks.%u.q_norm", i);
    real_norm(file, 128, false, "single_transformer_blocks.%u.attn.norm_k", "single_blocks.%u.k_norm", i);
}

#define REAL_REFINER "context_embedder.token_refiner.refiner_blocks.%u."
#define REAL_REFINER_ORIGINAL "txt_in.individual_token_refiner.blocks.%u."
static inline void real_refiner(real_file *file, uint64_t width, uint64_t text) {
    uint32_t i;
    real_layer(file, width, text, "context_embedder.proj_in", "txt_in.input_embedder", 0);
    real_embedder(file, width, width, 256, "context_embedder.time_text_embed.timestep_embedder",
                  "txt_in.t_embedder.mlp.%u");
    real_layer(file, width, text, "context_embedder.time_text_embed.text_embedder.linear_1",
               "txt_in.c_embedder.linear_1", 0);
    real_layer(file, width, width, "context_embedder.time_text_embed.text_embedder.linear_2",
               "txt_in.c_embedder.linear_2", 0);
    for (i = 0; i < 2; i++) {
        real_norm(file, width, true, REAL_REFINER "norm1", REAL_REFINER_ORIGINAL "norm1", i);
        real_joined(file, "qkv", width, width, REAL_REFINER "attn.to_%c", REAL_REFINER_ORIGINAL "self_attn_qkv", i);
        real_layer(file, width, width, REAL_REFINER "attn.to_out.0", REAL_REFINER_ORIGINAL "self_attn_proj", i);
        real_norm(file, width, true, REAL_REFINER "norm2", REAL_REFINER_ORIGINAL "norm2", i);
        real_layer(file, 4 * width, width, REAL_REFINER "ff.net.0.proj", REAL_REFINER_ORIGINAL "mlp.fc1", i);
        real_layer(file, width, 4 * width, REAL_REFINER "ff.net.2", REAL_REFINER_ORIGINAL "mlp.fc2", i);
        real_layer(file, 2 * width, width, REAL_REFINER "norm_out.linear", REAL_REFINER_ORIGINAL "adaLN_modulation.1",
                   i);
    }
}

static inline void real_hunyuanvideo(real_file *file, uint64_t width, uint32_t doubles, uint32_t singles) {
    const uint64_t shape[5] = {width, 16, 1, 2, 2};
    uint32_t i;
    real_tensor_of(file, shape, 5, 0, 0.125, "x_embedder.proj", "img_in.proj", 0, ".weight");
    real_vector(file, width, 0, "x_embedder.proj", "img_in.proj", 0, ".bias");
    real_embedder(file, width, width, 256, "time_text_embed.timestep_embedder", "time_in.mlp.%u");
    real_embedder(file, width, width, 256, "time_text_embed.guidance_embedder", "guidance_in.mlp.%u");
    real_layer(file, width, 768, "time_text_embed.text_embedder.linear_1", "vector_in.in_layer", 0);
    real_layer(file, width, width, "time_text_embed.text_embedder.linear_2", "vector_in.out_layer", 0);
    real_refiner(file, width, 4096);
    for (i = 0; i < doubles; i++) real_hunyuanvideo_double(file, width, i);
    for (i = 0; i < singles; i++) real_hunyuanvideo_single(file, width, i);
    real_layer(file, 2 * width, width, "norm_out.linear", "final_layer.adaLN_modulation.1", 0);
    real_layer(file, 64, width, "proj_out", "final_layer.linear", 0);
}

static inline void real_hunyuanvideo15(real_file *file, uint64_t width, uint32_t blocks, uint64_t glyph) {
    const uint64_t shape[5] = {width, 65, 1, 1, 1};
    uint32_t i;
    real_tensor_of(file, shape, 5, 0, 0.125, "x_embedder.proj", "img_in.proj", 0, ".weight");
    real_vector(file, width, 0, "x_embedder.proj", "img_in.proj", 0, ".bias");
    real_embedder(file, width, width, 256, "time_embed.timestep_embedder", "time_in.mlp.%u");
    real_refiner(file, width, 3584);
    real_norm(file, 1472, true, "context_embedder_2.norm", "byt5_in.layernorm", 0);
    real_layer(file, glyph, 1472, "context_embedder_2.linear_1", "byt5_in.fc1", 0);
    real_layer(file, glyph, glyph, "context_embedder_2.linear_2", "byt5_in.fc2", 0);
    real_layer(file, width, glyph, "context_embedder_2.linear_3", "byt5_in.fc3", 0);
    real_norm(file, 1152, true, "image_embedder.norm_in", "vision_in.proj.0", 0);
    real_layer(file, 1152, 1152, "image_embedder.linear_1", "vision_in.proj.1", 0);
    real_layer(file, width, 1152, "image_embedder.linear_2", "vision_in.proj.3", 0);
    real_norm(file, width, true, "image_embedder.norm_out", "vision_in.proj.4", 0);
    real_table(file, 3, width, "cond_type_embed.weight", "cond_type_embedding.weight", 0);
    for (i = 0; i < blocks; i++) real_hunyuanvideo_double(file, width, i);
    real_layer(file, 2 * width, width, "norm_out.linear", "final_layer.adaLN_modulation.1", 0);
    real_layer(file, 32, width, "proj_out", "final_layer.linear", 0);
}

/* One of Wan's attentions: queries, keys and values, the result, and norms over all heads. */
static inline void real_wan_attention(real_file *file, const char *blocks, uint64_t width, uint32_t block, bool text) {
    static const char *const parts[4][2] = {{"to_q", "q"}, {"to_k", "k"}, {"to_v", "v"}, {"to_out.0", "o"}};
    char diffusers[112], original[112];
    uint32_t i;
    for (i = 0; i < 4; i++) {
        diti_format(diffusers, sizeof diffusers, "%s.%%u.attn%u.%s", blocks, text ? 2u : 1u, parts[i][0]);
        diti_format(original, sizeof original, "%s.%%u.%s.%s", blocks, text ? "cross_attn" : "self_attn", parts[i][1]);
        real_layer(file, width, width, diffusers, original, block);
    }
    for (i = 0; i < 2; i++) {
        diti_format(diffusers, sizeof diffusers, "%s.%%u.attn%u.norm_%c", blocks, text ? 2u : 1u, "qk"[i]);
        diti_format(original, sizeof original, "%s.%%u.%s.norm_%c", blocks, text ? "cross_attn" : "self_attn", "qk"[i]);
        real_norm(file, width, false, diffusers, original, block);
    }
}

/* A block of Wan's without what pictures add; blocks: "blocks", or "vace_blocks". */
static inline void real_wan_block(real_file *file, const char *blocks, uint64_t width, uint64_t feed, uint32_t i) {
    const uint64_t table[3] = {1, 6, width};
    char names[8][64];
    diti_format(names[0], sizeof names[0], "%s.%%u.scale_shift_table", blocks);
    diti_format(names[1], sizeof names[1], "%s.%%u.modulation", blocks);
    diti_format(names[2], sizeof names[2], "%s.%%u.norm2", blocks);
    diti_format(names[3], sizeof names[3], "%s.%%u.norm3", blocks);
    diti_format(names[4], sizeof names[4], "%s.%%u.ffn.net.0.proj", blocks);
    diti_format(names[5], sizeof names[5], "%s.%%u.ffn.0", blocks);
    diti_format(names[6], sizeof names[6], "%s.%%u.ffn.net.2", blocks);
    diti_format(names[7], sizeof names[7], "%s.%%u.ffn.2", blocks);
    real_tensor_of(file, table, 3, 0, 0.2, names[0], names[1], i, "");
    real_wan_attention(file, blocks, width, i, false);
    real_norm(file, width, true, names[2], names[3], i);
    real_wan_attention(file, blocks, width, i, true);
    real_layer(file, feed, width, names[4], names[5], i);
    real_layer(file, width, feed, names[6], names[7], i);
}

/* Wan; image: columns of a picture's tokens, 0: the model reads none. */
static inline void real_wan(real_file *file, uint64_t width, uint32_t blocks, uint64_t feed, uint64_t in, uint64_t out,
                            uint64_t image) {
    const uint64_t shape[5] = {width, in, 1, 2, 2}, table[3] = {1, 2, width};
    uint32_t i;
    real_tensor_of(file, shape, 5, 0, 1 / sqrt(4 * (double)in), "patch_embedding", "patch_embedding", 0, ".weight");
    real_vector(file, width, 0, "patch_embedding", "patch_embedding", 0, ".bias");
    real_embedder(file, width, width, 256, "condition_embedder.time_embedder", "time_embedding.%u");
    real_layer(file, 6 * width, width, "condition_embedder.time_proj", "time_projection.1", 0);
    real_embedder(file, width, width, 4096, "condition_embedder.text_embedder", "text_embedding.%u");
    if (image) {
        real_norm(file, image, true, "condition_embedder.image_embedder.norm1", "img_emb.proj.0", 0);
        real_layer(file, image, image, "condition_embedder.image_embedder.ff.net.0.proj", "img_emb.proj.1", 0);
        real_layer(file, width, image, "condition_embedder.image_embedder.ff.net.2", "img_emb.proj.3", 0);
        real_norm(file, width, true, "condition_embedder.image_embedder.norm2", "img_emb.proj.4", 0);
    }
    for (i = 0; i < blocks; i++) {
        real_wan_block(file, "blocks", width, feed, i);
        if (!image) continue;
        real_layer(file, width, width, "blocks.%u.attn2.add_k_proj", "blocks.%u.cross_attn.k_img", i);
        real_layer(file, width, width, "blocks.%u.attn2.add_v_proj", "blocks.%u.cross_attn.v_img", i);
        real_norm(file, width, false, "blocks.%u.attn2.norm_added_k", "blocks.%u.cross_attn.norm_k_img", i);
    }
    real_tensor_of(file, table, 3, 0, 0.2, "scale_shift_table", "head.modulation", 0, "");
    real_layer(file, 4 * out, width, "proj_out", "head.head", 0);
}

/* VACE's blocks beside those of real_wan. */
static inline void real_wan_vace(real_file *file, uint64_t width, uint32_t blocks, uint64_t feed) {
    const uint64_t shape[5] = {width, 96, 1, 2, 2};
    uint32_t i;
    real_tensor_of(file, shape, 5, 0, 0.05, "vace_patch_embedding", "vace_patch_embedding", 0, ".weight");
    real_vector(file, width, 0, "vace_patch_embedding", "vace_patch_embedding", 0, ".bias");
    real_layer(file, width, width, "vace_blocks.0.proj_in", "vace_blocks.0.before_proj", 0);
    for (i = 0; i < blocks; i++) {
        real_wan_block(file, "vace_blocks", width, feed, i);
        real_layer(file, width, width, "vace_blocks.%u.proj_out", "vace_blocks.%u.after_proj", i);
    }
}

/* ---- text encoders and VAE, whose names are the same everywhere; file->prefix may change in between ---- */

/* CLIP (docs/models.md 5.2); projected: with the matrix that pooled outputs go through. */
static inline void real_clip(real_file *file, uint64_t width, uint32_t layers, bool projected) {
    static const char block[] = "text_model.encoder.layers.%u";
    static const char *const square[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                         "self_attn.out_proj"};
    uint32_t i, k;
    real_rows(file, 49408, width, "text_model.embeddings.token_embedding.weight");
    real_rows(file, 77, width, "text_model.embeddings.position_embedding.weight");
    for (i = 0; i < layers; i++) {
        for (k = 0; k < 4; k++) real_named_layer(file, width, width, block, square[k], i);
        real_named_norm(file, width, true, block, "layer_norm1", i);
        real_named_norm(file, width, true, block, "layer_norm2", i);
        real_named_layer(file, 4 * width, width, block, "mlp.fc1", i);
        real_named_layer(file, width, 4 * width, block, "mlp.fc2", i);
    }
    real_named_norm(file, width, true, "text_model", "final_layer_norm", 0);
    if (projected) real_matrix(file, width, width, "text_projection", "text_projection", 0);
}

/* T5's encoder, XXL: 32128, 4096, 10240, 24, 64 heads of 64; mT5-XL: 250112, 2048, 5120, 24, 32 heads. */
static inline void real_t5(real_file *file, uint64_t words, uint64_t width, uint64_t inner, uint32_t blocks,
                           uint64_t heads) {
    static const char attention[] = "encoder.block.%u.layer.0.SelfAttention.%c";
    static const char feed[] = "encoder.block.%u.layer.1.DenseReluDense.";
    char name[112], position[112];
    uint32_t i, k;
    real_rows(file, words, width, "shared.weight");
    for (i = 0; i < blocks; i++) {
        for (k = 0; k < 4; k++) {
            diti_format(name, sizeof name, attention, i, "qkvo"[k]);
            real_matrix(file, k < 3 ? 64 * heads : width, k < 3 ? width : 64 * heads, name, name, 0);
        }
        diti_format(position, sizeof position, "encoder.block.%u.layer.0.SelfAttention.relative_attention_bias.weight",
                    i);
        if (i == 0) real_rows(file, 32, heads, position);
        for (k = 0; k < 3; k++) {
            diti_format(name, sizeof name, feed, i);
            strcat(name, k == 0 ? "wi_0" : k == 1 ? "wi_1" : "wo");
            real_matrix(file, k < 2 ? inner : width, k < 2 ? width : inner, name, name, 0);
        }
        real_named_norm(file, width, false, "encoder.block.%u.layer.0", "layer_norm", i);
        real_named_norm(file, width, false, "encoder.block.%u.layer.1", "layer_norm", i);
    }
    real_named_norm(file, width, false, "encoder", "final_layer_norm", 0);
}

/* Decoder language models (docs/models.md 5.4), without the matrix behind the last norm that no encoder needs. */
typedef struct real_decoder_shape {
    const char *before; /* every name: "model." */
    uint64_t words, width, inner;
    uint32_t layers, heads, kv_heads, head_dim;
    bool head_norms, biased, four_norms; /* Qwen3; Qwen2.5; Gemma 2 */
} real_decoder_shape;
static inline void real_decoder(real_file *file, const real_decoder_shape *shape) {
    static const char *const names[] = {"q_proj", "k_proj", "v_proj"}, *const ends[] = {"", ".weight"};
    uint64_t q = (uint64_t)shape->heads * shape->head_dim, kv = (uint64_t)shape->kv_heads * shape->head_dim;
    char name[112];
    uint32_t i, k;
    diti_format(name, sizeof name, "%sembed_tokens%s", shape->before, ends[1]);
    real_rows(file, shape->words, shape->width, name);
    for (i = 0; i < shape->layers; i++) {
        const char *norms[4] = {"input_layernorm", "post_attention_layernorm", NULL, NULL};
        if (shape->four_norms) norms[2] = "pre_feedforward_layernorm", norms[3] = "post_feedforward_layernorm";
        for (k = 0; k < 4 && norms[k]; k++) {
            diti_format(name, sizeof name, "%slayers.%u.%s", shape->before, i, norms[k]);
            real_norm(file, shape->width, false, name, name, 0);
        }
        for (k = 0; k < 3; k++) {
            diti_format(name, sizeof name, "%slayers.%u.self_attn.%s", shape->before, i, names[k]);
            real_matrix(file, k ? kv : q, shape->width, name, name, 0);
            if (shape->biased) real_vector(file, k ? kv : q, 0, name, name, 0, ".bias");
        }
        for (k = 0; k < 2 && shape->head_norms; k++) {
            diti_format(name, sizeof name, "%slayers.%u.self_attn.%c_norm", shape->before, i, "qk"[k]);
            real_norm(file, shape->head_dim, false, name, name, 0);
        }
        diti_format(name, sizeof name, "%slayers.%u.self_attn.o_proj", shape->before, i);
        real_matrix(file, shape->width, q, name, name, 0);
        for (k = 0; k < 3; k++) {
            diti_format(name, sizeof name, "%slayers.%u.mlp.%s_proj", shape->before, i,
                        k == 0   ? "gate"
                        : k == 1 ? "up"
                                 : "down");
            real_matrix(file, k < 2 ? shape->inner : shape->width, k < 2 ? shape->width : shape->inner, name, name, 0);
        }
    }
    diti_format(name, sizeof name, "%snorm", shape->before);
    real_norm(file, shape->width, false, name, name, 0);
}

/* --- Lumina-Image 2; list: "layers", "noise_refiner" or "context_refiner" --- */
static inline void real_lumina2_block(real_file *file, uint64_t width, uint64_t kv, uint64_t head, const char *list,
                                      uint32_t i) {
    char names[2][112];
    uint64_t feed = 4 * width;
    bool modulated = strcmp(list, "context_refiner") != 0;
    uint32_t k;
#define NAME(WHICH, REST) (diti_format(names[WHICH], sizeof names[WHICH], "%s.%%u.%s", list, REST), names[WHICH])
    if (modulated)
        real_layer(file, 4 * width, width < 1024 ? width : 1024, NAME(0, "norm1.linear"), NAME(1, "adaLN_modulation.1"),
                   i);
    if (file->original) real_matrix(file, width + 2 * kv, width, NULL, NAME(1, "attention.qkv"), i);
    for (k = 0; k < 3 && !file->original; k++) {
        static const char *const parts[] = {"attn.to_q", "attn.to_k", "attn.to_v"};
        real_matrix(file, k ? kv : width, width, NAME(0, parts[k]), NULL, i);
    }
    real_norm(file, head, false, NAME(0, "attn.norm_q"), NAME(1, "attention.q_norm"), i);
    real_norm(file, head, false, NAME(0, "attn.norm_k"), NAME(1, "attention.k_norm"), i);
    real_matrix(file, width, width, NAME(0, "attn.to_out.0"), NAME(1, "attention.out"), i);
    real_matrix(file, feed, width, NAME(0, "feed_forward.linear_1"), NAME(1, "feed_forward.w1"), i);
    real_matrix(file, width, feed, NAME(0, "feed_forward.linear_2"), NAME(1, "feed_forward.w2"), i);
    real_matrix(file, feed, width, NAME(0, "feed_forward.linear_3"), NAME(1, "feed_forward.w3"), i);
    real_norm(file, width, false, modulated ? NAME(0, "norm1.norm") : NAME(0, "norm1"), NAME(1, "attention_norm1"), i);
    real_norm(file, width, false, NAME(0, "norm2"), NAME(1, "attention_norm2"), i);
    real_norm(file, width, false, NAME(0, "ffn_norm1"), NAME(1, "ffn_norm1"), i);
    real_norm(file, width, false, NAME(0, "ffn_norm2"), NAME(1, "ffn_norm2"), i);
#undef NAME
}

static inline void real_lumina2(real_file *file, uint64_t width, uint64_t kv, uint64_t head, uint64_t text,
                                uint32_t refiners, uint32_t blocks) {
    uint64_t time = width < 1024 ? width : 1024;
    uint32_t i;
    real_layer(file, width, 64, "x_embedder", "x_embedder", 0);
    real_embedder(file, time, time, 256, "time_caption_embed.timestep_embedder", "t_embedder.mlp.%u");
    real_norm(file, text, false, "time_caption_embed.caption_embedder.0", "cap_embedder.0", 0);
    real_layer(file, width, text, "time_caption_embed.caption_embedder.1", "cap_embedder.1", 0);
    for (i = 0; i < refiners; i++) real_lumina2_block(file, width, kv, head, "context_refiner", i);
    for (i = 0; i < refiners; i++) real_lumina2_block(file, width, kv, head, "noise_refiner", i);
    for (i = 0; i < blocks; i++) real_lumina2_block(file, width, kv, head, "layers", i);
    real_layer(file, width, time, "norm_out.linear_1", "final_layer.adaLN_modulation.1", 0);
    real_layer(file, 64, width, "norm_out.linear_2", "final_layer.linear", 0);
}

/* --- Boogu-Image: all of its files have the same names; list and the name behind it have room for a number --- */
typedef struct real_boogu_sizes {
    uint64_t width, kv, feed, head;
} real_boogu_sizes;

static inline void real_boogu_matrix(real_file *file, uint64_t rows, uint64_t columns, const char *list, uint32_t i,
                                     const char *name) {
    char full[112];
    diti_format(full, sizeof full, "%s.%%u.%s", list, name);
    real_matrix(file, rows, columns, full, full, i);
}

static inline void real_boogu_norm(real_file *file, uint64_t columns, const char *list, uint32_t i, const char *name) {
    char full[112];
    diti_format(full, sizeof full, "%s.%%u.%s", list, name);
    real_norm(file, columns, false, full, full, i);
}

/* Queries, keys, values and the layer behind them, with that in front of their names. */
static inline void real_boogu_heads(real_file *file, const real_boogu_sizes *sizes, const char *list, uint32_t i,
                                    const char *before, const char *out) {
    char name[64];
    uint32_t k;
    for (k = 0; k < 3; k++) {
        diti_format(name, sizeof name, "%sto_%c", before, "qkv"[k]);
        real_boogu_matrix(file, k ? sizes->kv : sizes->width, sizes->width, list, i, name);
    }
    diti_format(name, sizeof name, "%s%s", before, out);
    real_boogu_matrix(file, sizes->width, sizes->width, list, i, name);
}

static inline void real_boogu_head_norms(real_file *file, const real_boogu_sizes *sizes, const char *list, uint32_t i,
                                         const char *attention) {
    char name[64];
    uint32_t k;
    for (k = 0; k < 2; k++) {
        diti_format(name, sizeof name, "%s.norm_%c", attention, "qk"[k]);
        real_boogu_norm(file, sizes->head, list, i, name);
    }
}

static inline void real_boogu_feed(real_file *file, const real_boogu_sizes *sizes, const char *list, uint32_t i,
                                   const char *before) {
    char name[64];
    uint32_t k;
    for (k = 1; k <= 3; k++) {
        diti_format(name, sizeof name, "%sfeed_forward.linear_%u", before, (unsigned)k);
        real_boogu_matrix(file, k == 2 ? sizes->width : sizes->feed, k == 2 ? sizes->feed : sizes->width, list, i,
                          name);
    }
}

static inline void real_boogu_modulation(real_file *file, const real_boogu_sizes *sizes, const char *list, uint32_t i,
                                         const char *name) {
    char full[112];
    diti_format(full, sizeof full, "%s.%%u.%s.linear", list, name);
    real_layer(file, 4 * sizes->width, sizes->width < 1024 ? sizes->width : 1024, full, full, i);
    diti_format(full, sizeof full, "%s.norm", name);
    real_boogu_norm(file, sizes->width, list, i, full);
}

static inline void real_boogu_block(real_file *file, const real_boogu_sizes *sizes, const char *list, uint32_t i) {
    static const char *const norms[] = {"norm2", "ffn_norm1", "ffn_norm2"};
    uint32_t k;
    real_boogu_heads(file, sizes, list, i, "attn.", "to_out.0");
    real_boogu_head_norms(file, sizes, list, i, "attn");
    real_boogu_feed(file, sizes, list, i, "");
    for (k = 0; k < DITI_COUNT(norms); k++) real_boogu_norm(file, sizes->width, list, i, norms[k]);
    if (diti_equal(list, "context_refiner"))
        real_boogu_norm(file, sizes->width, list, i, "norm1");
    else
        real_boogu_modulation(file, sizes, list, i, "norm1");
}

static inline void real_boogu_double(real_file *file, const real_boogu_sizes *sizes, uint32_t i) {
    static const char list[] = "double_stream_layers",
                      *const modulations[] = {"img_norm1", "img_norm2", "img_norm3", "instruct_norm1",
                                              "instruct_norm2"},
                      *const norms[] = {"img_attn_norm",     "img_self_attn_norm", "img_ffn_norm1",
                                        "img_ffn_norm2",     "instruct_attn_norm", "instruct_ffn_norm1",
                                        "instruct_ffn_norm2"};
    uint32_t k;
    real_boogu_heads(file, sizes, list, i, "img_instruct_attn.processor.img_", "out");
    real_boogu_heads(file, sizes, list, i, "img_instruct_attn.processor.instruct_", "out");
    real_boogu_matrix(file, sizes->width, sizes->width, list, i, "img_instruct_attn.to_out.0");
    real_boogu_head_norms(file, sizes, list, i, "img_instruct_attn");
    real_boogu_heads(file, sizes, list, i, "img_self_attn.", "to_out.0");
    real_boogu_head_norms(file, sizes, list, i, "img_self_attn");
    real_boogu_feed(file, sizes, list, i, "img_");
    real_boogu_feed(file, sizes, list, i, "instruct_");
    for (k = 0; k < DITI_COUNT(modulations); k++) real_boogu_modulation(file, sizes, list, i, modulations[k]);
    for (k = 0; k < DITI_COUNT(norms); k++) real_boogu_norm(file, sizes->width, list, i, norms[k]);
}

static inline void real_boogu(real_file *file, const real_boogu_sizes *sizes, uint64_t text, uint32_t refiners,
                              uint32_t doubles, uint32_t singles) {
    static const char *const refined[] = {"context_refiner", "noise_refiner", "ref_image_refiner"};
    uint64_t width = sizes->width, time = width < 1024 ? width : 1024;
    uint32_t i, k;
#define SAME(NAME) NAME, NAME, 0
    real_layer(file, width, 64, SAME("x_embedder"));
    real_layer(file, width, 64, SAME("ref_image_patch_embedder"));
    real_table(file, 5, width, SAME("image_index_embedding"));
    real_layer(file, time, 256, SAME("time_caption_embed.timestep_embedder.linear_1"));
    real_layer(file, time, time, SAME("time_caption_embed.timestep_embedder.linear_2"));
    real_norm(file, text, false, SAME("time_caption_embed.caption_embedder.0"));
    real_layer(file, width, text, SAME("time_caption_embed.caption_embedder.1"));
    for (k = 0; k < DITI_COUNT(refined); k++)
        for (i = 0; i < refiners; i++) real_boogu_block(file, sizes, refined[k], i);
    for (i = 0; i < doubles; i++) real_boogu_double(file, sizes, i);
    for (i = 0; i < singles; i++) real_boogu_block(file, sizes, "single_stream_layers", i);
    real_layer(file, width, time, SAME("norm_out.linear_1"));
    real_layer(file, 64, width, SAME("norm_out.linear_2"));
#undef SAME
}

/* --- Sana; sprint: with guidance as an input, and norms of queries and keys --- */
static inline void real_filter(real_file *file, uint64_t out, uint64_t in, uint64_t kernel, bool bias,
                               const char *diffusers, const char *original, uint32_t block) {
    const uint64_t shape[4] = {out, in, kernel, kernel};
    real_tensor_of(file, shape, 4, 0, 1 / sqrt((double)(kernel * kernel * in)), diffusers, original, block, ".weight");
    if (bias) real_vector(file, out, 0, diffusers, original, block, ".bias");
}

static inline void real_sana(real_file *file, uint64_t width, uint64_t channels, uint64_t text, uint32_t blocks,
                             bool sprint) {
    static const char *const norms[][2] = {{"transformer_blocks.%u.attn1.norm_q", "blocks.%u.attn.q_norm"},
                                           {"transformer_blocks.%u.attn1.norm_k", "blocks.%u.attn.k_norm"},
                                           {"transformer_blocks.%u.attn2.norm_q", "blocks.%u.cross_attn.q_norm"},
                                           {"transformer_blocks.%u.attn2.norm_k", "blocks.%u.cross_attn.k_norm"}};
    const char *time = sprint ? "time_embed.timestep_embedder" : "time_embed.emb.timestep_embedder";
    uint64_t hidden = width * 5 / 2;
    uint32_t i, k;
    real_filter(file, width, channels, 1, true, "patch_embed.proj", "x_embedder.proj", 0);
    if (sprint) real_embedder(file, width, width, 256, "time_embed.guidance_embedder", "cfg_embedder.mlp.%u");
    real_embedder(file, width, width, 256, time, "t_embedder.mlp.%u");
    real_layer(file, 6 * width, width, "time_embed.linear", "t_block.1", 0);
    real_layer(file, width, text, "caption_projection.linear_1", "y_embedder.y_proj.fc1", 0);
    real_layer(file, width, width, "caption_projection.linear_2", "y_embedder.y_proj.fc2", 0);
    real_norm(file, width, false, "caption_norm", "attention_y_norm", 0);
    for (i = 0; i < blocks; i++) {
        real_table(file, 6, width, "transformer_blocks.%u.scale_shift_table", "blocks.%u.scale_shift_table", i);
        real_joined_bare(file, "qkv", width, width, "transformer_blocks.%u.attn1.to_%c", "blocks.%u.attn.qkv", i);
        real_layer(file, width, width, "transformer_blocks.%u.attn1.to_out.0", "blocks.%u.attn.proj", i);
        real_layer(file, width, width, "transformer_blocks.%u.attn2.to_q", "blocks.%u.cross_attn.q_linear", i);
        real_joined(file, "kv", width, width, "transformer_blocks.%u.attn2.to_%c", "blocks.%u.cross_attn.kv_linear", i);
        real_layer(file, width, width, "transformer_blocks.%u.attn2.to_out.0", "blocks.%u.cross_attn.proj", i);
        for (k = 0; k < 4 && sprint; k++) real_norm(file, width, false, norms[k][0], norms[k][1], i);
        real_filter(file, 2 * hidden, width, 1, true, "transformer_blocks.%u.ff.conv_inverted",
                    "blocks.%u.mlp.inverted_conv.conv", i);
        real_filter(file, 2 * hidden, 1, 3, true, "transformer_blocks.%u.ff.conv_depth",
                    "blocks.%u.mlp.depth_conv.conv", i);
        real_filter(file, width, hidden, 1, false, "transformer_blocks.%u.ff.conv_point",
                    "blocks.%u.mlp.point_conv.conv", i);
    }
    real_table(file, 2, width, "scale_shift_table", "final_layer.scale_shift_table", 0);
    real_layer(file, channels, width, "proj_out", "final_layer.linear", 0);
}

/* --- AutoencoderDC with 32 channels of latents and 32 times the pixels of a side --- */
static inline void real_dc_block(real_file *file, uint64_t width, bool attends, const char *half, uint32_t level,
                                 uint32_t number) {
    char name[112];
    uint32_t k;
#define NAME(REST) (diti_format(name, sizeof name, "%s.%u.%u.%s", half, level, number, REST), name)
    if (!attends) {
        real_filter(file, width, width, 3, true, NAME("conv1"), name, 0);
        real_filter(file, width, width, 3, false, NAME("conv2"), name, 0);
        real_norm(file, width, true, NAME("norm"), name, 0);
        return;
    }
    for (k = 0; k < 3; k++) {
        static const char *const parts[] = {"attn.to_q", "attn.to_k", "attn.to_v"};
        real_matrix(file, width, width, NAME(parts[k]), name, 0);
    }
    real_filter(file, 3 * width, 1, 5, false, NAME("attn.to_qkv_multiscale.0.proj_in"), name, 0);
    real_filter(file, 3 * width, 32, 1, false, NAME("attn.to_qkv_multiscale.0.proj_out"), name, 0);
    real_matrix(file, width, 2 * width, NAME("attn.to_out"), name, 0);
    real_norm(file, width, true, NAME("attn.norm_out"), name, 0);
    real_filter(file, 8 * width, width, 1, true, NAME("conv_out.conv_inverted"), name, 0);
    real_filter(file, 8 * width, 1, 3, true, NAME("conv_out.conv_depth"), name, 0);
    real_filter(file, width, 4 * width, 1, false, NAME("conv_out.conv_point"), name, 0);
    real_norm(file, width, true, NAME("conv_out.norm"), name, 0);
#undef NAME
}

static inline void real_dcae(real_file *file) {
    static const uint64_t widths[] = {128, 256, 512, 512, 1024, 1024};
    static const uint32_t counts[2][6] = {{2, 2, 2, 3, 3, 3}, {3, 3, 3, 3, 3, 3}};
    char name[112];
    uint32_t level, half, i;
    real_filter(file, 128, 3, 3, true, "encoder.conv_in", "encoder.conv_in", 0);
    real_filter(file, 32, 1024, 3, true, "encoder.conv_out", "encoder.conv_out", 0);
    real_filter(file, 1024, 32, 3, true, "decoder.conv_in", "decoder.conv_in", 0);
    real_norm(file, 128, true, "decoder.norm_out", "decoder.norm_out", 0);
    real_filter(file, 3, 128, 3, true, "decoder.conv_out", "decoder.conv_out", 0);
    for (half = 0; half < 2; half++)
        for (level = 0; level < 6; level++) {
            const char *list = half ? "decoder.up_blocks" : "encoder.down_blocks";
            uint32_t first = half && level < 5 ? 1 : 0;
            for (i = 0; i < counts[half][level]; i++)
                real_dc_block(file, widths[level], level > 2, list, level, first + i);
            diti_format(name, sizeof name, "%s.%u.%u.conv", list, level, half ? 0 : counts[half][level]);
            if (level < 5)
                real_filter(file, half ? widths[level] : widths[level + 1], half ? widths[level + 1] : widths[level], 3,
                            true, name, name, 0);
        }
}

/* BERT (docs/models.md 5.3). */
static inline void real_bert(real_file *file, uint64_t words, uint64_t width, uint32_t layers) {
    static const char block[] = "encoder.layer.%u";
    static const char *const square[] = {"attention.self.query", "attention.self.key", "attention.self.value",
                                         "attention.output.dense"};
    uint32_t i, k;
    real_rows(file, words, width, "embeddings.word_embeddings.weight");
    real_rows(file, 512, width, "embeddings.position_embeddings.weight");
    real_rows(file, 2, width, "embeddings.token_type_embeddings.weight");
    real_named_norm(file, width, true, "embeddings", "LayerNorm", 0);
    for (i = 0; i < layers; i++) {
        for (k = 0; k < 4; k++) real_named_layer(file, width, width, block, square[k], i);
        real_named_norm(file, width, true, block, "attention.output.LayerNorm", i);
        real_named_layer(file, 4 * width, width, block, "intermediate.dense", i);
        real_named_layer(file, width, 4 * width, block, "output.dense", i);
        real_named_norm(file, width, true, block, "output.LayerNorm", i);
    }
    real_layer(file, width, width, "pooler.dense", "pooler.dense", 0);
}

static inline void real_convolution(real_file *file, uint64_t out, uint64_t in, uint64_t kernel, const char *name) {
    const uint64_t shape[4] = {out, in, kernel, kernel};
    real_tensor_of(file, shape, 4, 0, 1 / sqrt((double)(kernel * kernel * in)), name, name, 0, ".weight");
    real_vector(file, out, 0, name, name, 0, ".bias");
}

static inline void real_vae_resnet(real_file *file, uint64_t out, uint64_t in, const char *block) {
    char name[112];
    real_named_norm(file, in, true, block, "norm1", 0);
    diti_format(name, sizeof name, "%s.conv1", block);
    real_convolution(file, out, in, 3, name);
    real_named_norm(file, out, true, block, "norm2", 0);
    diti_format(name, sizeof name, "%s.conv2", block);
    real_convolution(file, out, out, 3, name);
    diti_format(name, sizeof name, "%s.nin_shortcut", block);
    if (out != in) real_convolution(file, out, in, 1, name);
}

static inline void real_vae_middle(real_file *file, const char *side) {
    static const char *const parts[] = {"q", "k", "v", "proj_out"};
    char name[112];
    uint32_t i;
    for (i = 1; i < 3; i++) {
        diti_format(name, sizeof name, "%s.mid.block_%u", side, i);
        real_vae_resnet(file, 512, 512, name);
    }
    for (i = 0; i < 4; i++) {
        diti_format(name, sizeof name, "%s.mid.attn_1.%s", side, parts[i]);
        real_convolution(file, 512, 512, 1, name);
    }
    diti_format(name, sizeof name, "%s.mid.attn_1.norm", side);
    real_named_norm(file, 512, true, "", name, 0);
}

/* AutoencoderKL by the original names (docs/models.md 4.1). */
static inline void real_vae(real_file *file, uint64_t latent, bool quant) {
    static const uint64_t channels[] = {128, 256, 512, 512};
    uint64_t width = 128;
    char name[112];
    uint32_t i, k;
    real_convolution(file, 128, 3, 3, "encoder.conv_in");
    for (i = 0; i < 4; i++) {
        for (k = 0; k < 2; k++, width = channels[i]) {
            diti_format(name, sizeof name, "encoder.down.%u.block.%u", i, k);
            real_vae_resnet(file, channels[i], width, name);
        }
        diti_format(name, sizeof name, "encoder.down.%u.downsample.conv", i);
        if (i < 3) real_convolution(file, width, width, 3, name);
    }
    real_vae_middle(file, "encoder");
    real_named_norm(file, 512, true, "encoder", "norm_out", 0);
    real_convolution(file, 2 * latent, 512, 3, "encoder.conv_out");
    real_convolution(file, 512, latent, 3, "decoder.conv_in");
    real_vae_middle(file, "decoder");
    for (i = 4; i-- > 0;) {
        for (k = 0; k < 3; k++, width = channels[i]) {
            diti_format(name, sizeof name, "decoder.up.%u.block.%u", i, k);
            real_vae_resnet(file, channels[i], width, name);
        }
        diti_format(name, sizeof name, "decoder.up.%u.upsample.conv", i);
        if (i > 0) real_convolution(file, width, width, 3, name);
    }
    real_named_norm(file, 128, true, "decoder", "norm_out", 0);
    real_convolution(file, 3, 128, 3, "decoder.conv_out");
    if (quant) real_convolution(file, 2 * latent, 2 * latent, 1, "quant_conv");
    if (quant) real_convolution(file, latent, latent, 1, "post_quant_conv");
}

/* TAESD's decoder as its author keeps it (docs/models.md 4.2): three convolutions a block, at 3, 3, 3, 1 blocks. */
static inline void real_taesd_conv(real_file *file, uint64_t out, uint64_t in, bool bias, const char *name,
                                   uint32_t layer) {
    const uint64_t shape[4] = {out, in, 3, 3};
    real_tensor_of(file, shape, 4, 0, 1 / sqrt(9 * (double)in), NULL, name, layer, ".weight");
    if (bias) real_vector(file, out, 0, NULL, name, layer, ".bias");
}

static inline void real_taesd(real_file *file, uint64_t channels) {
    static const char *const convolutions[] = {"%u.conv.0", "%u.conv.2", "%u.conv.4"};
    static const uint32_t blocks[] = {3, 4, 5, 8, 9, 10, 13, 14, 15, 18}, others[] = {7, 12, 17};
    uint32_t i, k;
    file->original = true;
    real_taesd_conv(file, 64, channels, true, "%u", 1);
    for (i = 0; i < 10; i++)
        for (k = 0; k < 3; k++) real_taesd_conv(file, 64, 64, true, convolutions[k], blocks[i]);
    for (i = 0; i < 3; i++) real_taesd_conv(file, 64, 64, false, "%u", others[i]);
    real_taesd_conv(file, 3, 64, true, "%u", 19);
}

/* ---- published models ---- */

static inline void published_dit_xl_2(real_file *file) { real_dit(file, 1152, 28, 16); }
static inline void published_dit_s_2(real_file *file) { real_dit(file, 384, 12, 16); }
static inline void published_pixart_alpha(real_file *file) { real_pixart(file, 1152, 28, 120, 64, true); }
static inline void published_pixart_alpha_512(real_file *file) { real_pixart(file, 1152, 28, 120, 32, false); }
static inline void published_pixart_sigma(real_file *file) { real_pixart(file, 1152, 28, 300, 64, false); }
static inline void published_sd3_medium(real_file *file) { real_sd3(file, 24, 192, 0, false); }
static inline void published_sd35_medium(real_file *file) { real_sd3(file, 24, 384, 13, true); }
static inline void published_sd35_large(real_file *file) { real_sd3(file, 38, 192, 0, true); }
static inline void published_flux_schnell(real_file *file) { real_flux(file, 3072, 19, 38, false); }
static inline void published_flux_dev(real_file *file) { real_flux(file, 3072, 19, 38, true); }
static inline void published_chroma(real_file *file) { real_chroma(file, 3072, 19, 38, 5120); }
static inline void published_longcat(real_file *file) { real_longcat(file, 3072, 10, 20); }
static inline void published_ovis(real_file *file) { real_ovis(file, 3072, 6, 27); }
static inline void published_zimage(real_file *file) { real_zimage(file, 3840, 2, 30); }
static inline void published_klein_4b(real_file *file) { real_flux2(file, 3072, 5, 20, 7680, false); }
static inline void published_klein_9b(real_file *file) { real_flux2(file, 4096, 8, 24, 12288, false); }
static inline void published_flux2_dev(real_file *file) { real_flux2(file, 6144, 8, 48, 15360, true); }
static inline void published_flux3_klein(real_file *file) { real_flux3(file, 3072, 5, 28, true); }
static inline void published_flux3_klein_base(real_file *file) { real_flux3(file, 3072, 5, 28, false); }
static inline void published_qwenimage(real_file *file) { real_qwenimage(file, 3072, 60); }
static inline void published_boogu(real_file *file) {
    static const real_boogu_sizes sizes = {3360, 840, 13568, 120};
    real_boogu(file, &sizes, 4096, 2, 8, 32);
}
static inline void published_lumina2(real_file *file) { real_lumina2(file, 2304, 768, 96, 2304, 2, 26); }
static inline void published_sana_600m(real_file *file) { real_sana(file, 1152, 32, 2304, 28, false); }
static inline void published_sana_1600m(real_file *file) { real_sana(file, 2240, 32, 2304, 20, false); }
static inline void published_sana_sprint(real_file *file) { real_sana(file, 2240, 32, 2304, 20, true); }
static inline void published_krea2(real_file *file) { real_krea2(file); }
static inline void published_ernie(real_file *file) { real_ernie(file, 4096, 12288, 3072, 128, 36); }
static inline void published_kandinsky(real_file *file) {
    real_kandinsky(file, 2560, 10240, 512, 3584, 768, 128, 16, 2, 50);
}
static inline void published_kandinsky_t2v(real_file *file) {
    real_kandinsky(file, 1792, 7168, 512, 3584, 768, 64, 33, 2, 32);
}
static inline void published_kandinsky_t2v_pro(real_file *file) {
    real_kandinsky(file, 4096, 16384, 1024, 3584, 768, 128, 33, 4, 60);
}
static inline void published_qwenimage21(real_file *file) { real_qwenimage21(file); }
static inline void published_ideogram4(real_file *file) { real_ideogram4(file); }
static inline void published_anima(real_file *file) { real_anima(file); }
static inline void published_hunyuandit_v11(real_file *file) { real_hunyuandit(file, 1408, 6144, 40, true); }
static inline void published_hunyuandit_v12(real_file *file) { real_hunyuandit(file, 1408, 6144, 40, false); }
static inline void published_stdit_1(real_file *file) { real_stdit(file, 1, 120, 28); }
static inline void published_stdit_2(real_file *file) { real_stdit(file, 2, 200, 28); }
static inline void published_stdit_3(real_file *file) { real_stdit(file, 3, 300, 28); }
static inline void published_latte(real_file *file) { real_latte(file, false, 28); }
static inline void published_lattet2v(real_file *file) { real_latte(file, true, 28); }
static inline void published_cogvideox_2b(real_file *file) { real_cogvideox(file, 1920, 30, 1, 16); }
static inline void published_cogvideox_5b(real_file *file) { real_cogvideox(file, 3072, 42, 1, 16); }
static inline void published_cogvideox15(real_file *file) { real_cogvideox(file, 3072, 42, 2, 16); }
static inline void published_ltx_2b(real_file *file) { real_ltx(file, 2048, 28); }
static inline void published_ltx_13b(real_file *file) { real_ltx(file, 4096, 48); }
static inline void published_minimax(real_file *file) {
    real_minimax(file, 5376, 7168, 14336, 128, 5376, 2688, 5120, 50);
}
static inline void published_ltx2(real_file *file) { real_ltx2(file, false, 128, 48); }
static inline void published_ltx23(real_file *file) { real_ltx2(file, true, 128, 48); }
static inline void published_hunyuanvideo(real_file *file) { real_hunyuanvideo(file, 3072, 20, 40); }
static inline void published_hunyuanvideo15(real_file *file) { real_hunyuanvideo15(file, 2048, 54, 2048); }
static inline void published_hunyuanvideo15_flow(real_file *file) {
    published_hunyuanvideo15(file);
    real_embedder(file, 2048, 2048, 256, "time_embed.timestep_embedder_r", "time_r_in.mlp.%u");
}
static inline void published_wan_1_3b(real_file *file) { real_wan(file, 1536, 30, 8960, 16, 16, 0); }
static inline void published_wan_14b(real_file *file) { real_wan(file, 5120, 40, 13824, 16, 16, 0); }
static inline void published_wan_i2v_14b(real_file *file) { real_wan(file, 5120, 40, 13824, 36, 16, 1280); }
static inline void published_wan_i2v_a14b(real_file *file) { real_wan(file, 5120, 40, 13824, 36, 16, 0); }
static inline void published_wan_vace_1_3b(real_file *file) {
    real_wan(file, 1536, 30, 8960, 16, 16, 0);
    real_wan_vace(file, 1536, 15, 8960);
}
static inline void published_wan_vace_14b(real_file *file) {
    real_wan(file, 5120, 40, 13824, 16, 16, 0);
    real_wan_vace(file, 5120, 8, 13824);
}
static inline void published_wan_ti2v_5b(real_file *file) { real_wan(file, 3072, 30, 14336, 48, 48, 0); }
static inline void published_clip_l(real_file *file) { real_clip(file, 768, 12, true); }
static inline void published_clip_l_bare(real_file *file) { real_clip(file, 768, 12, false); }
static inline void published_clip_g(real_file *file) { real_clip(file, 1280, 32, true); }
static inline void published_t5_xxl(real_file *file) { real_t5(file, 32128, 4096, 10240, 24, 64); }
static inline void published_byt5_small(real_file *file) { real_t5(file, 1510, 1472, 3584, 12, 6); }
static inline void published_mt5_xl(real_file *file) { real_t5(file, 250112, 2048, 5120, 24, 32); }
static inline void published_bert_large(real_file *file) { real_bert(file, 47020, 1024, 24); }
static inline void published_vae_sd(real_file *file) { real_vae(file, 4, true); }
static inline void published_vae_16(real_file *file) { real_vae(file, 16, false); }

/* ---- headers ---- */

static inline void real_safetensors_header(real_file *file) {
    char text[400];
    size_t i;
    uint64_t size;
    uint32_t d;
    bytes_u64(&file->header, 0);
    for (i = 0; i < file->count; i++) {
        const real_tensor *t = &file->tensors[i];
        int used = snprintf(text, sizeof text, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", i ? "," : "{", t->name,
                            diti_type_name(t->type));
        for (d = 0; d < t->rank; d++)
            used += snprintf(text + used, sizeof text - (size_t)used, "%s%llu", d ? "," : "",
                             (unsigned long long)t->shape[d]);
        used += snprintf(text + used, sizeof text - (size_t)used, "],\"data_offsets\":[%llu,%llu]}",
                         (unsigned long long)t->offset, (unsigned long long)(t->offset + t->bytes));
        bytes_add(&file->header, text, (size_t)used);
    }
    bytes_add(&file->header, "}", 1);
    size = file->header.size - 8;
    memcpy(file->header.data, &size, 8);
}

/* Q4_0 is for headers alone: nothing makes its values. */
static inline uint32_t real_ggml_type(dit_type type) {
    return type == DIT_TYPE_F32    ? 0
           : type == DIT_TYPE_F16  ? 1
           : type == DIT_TYPE_Q4_0 ? 2
           : type == DIT_TYPE_Q8_0 ? 8
                                   : 30; /* BF16 */
}

static inline void real_gguf_header(real_file *file) {
    size_t i;
    uint32_t d;
    gguf_head(&file->header, 3, file->count, 0);
    for (i = 0; i < file->count; i++) {
        const real_tensor *t = &file->tensors[i];
        bytes_text(&file->header, t->name);
        bytes_u32(&file->header, t->rank);
        for (d = t->rank; d > 0; d--) bytes_u64(&file->header, t->shape[d - 1]);
        bytes_u32(&file->header, real_ggml_type(t->type));
        bytes_u64(&file->header, t->offset);
    }
    bytes_pad(&file->header, 32);
}

/* A zip archive of stored entries: in front of each its name, with an extra field that fills `room` bytes. */
static inline void real_zip_entry(bytes *out, const char *name, uint64_t size, size_t room) {
    size_t length = strlen(name), extra = room - 30 - length;
    bytes_add(out, "PK\3\4\55\0\0\0\0\0\0\0\0\0\0\0\0\0", 18);
    bytes_u32(out, (uint32_t)size);
    bytes_u32(out, (uint32_t)size);
    bytes_u16(out, (uint32_t)length);
    bytes_u16(out, (uint32_t)extra);
    bytes_add(out, name, length);
    bytes_add(out, "FB", 2);
    bytes_u16(out, (uint32_t)extra - 4);
    bytes_add(out, NULL, extra - 4);
}

/* Adds the entry to the archive's directory; offsets past 4 GB stand in an extra field of 64 bits. */
static inline void real_zip_listed(bytes *out, const char *name, uint64_t size, uint64_t at) {
    bool wide = at > 0xfffffffeu;
    bytes_add(out, "PK\1\2\55\0\55\0\0\0\0\0\0\0\0\0\0\0\0\0", 20);
    bytes_u32(out, (uint32_t)size);
    bytes_u32(out, (uint32_t)size);
    bytes_u16(out, (uint32_t)strlen(name));
    bytes_u16(out, wide ? 12 : 0);
    bytes_add(out, NULL, 10);
    bytes_u32(out, wide ? 0xffffffffu : (uint32_t)at);
    bytes_add(out, name, strlen(name));
    if (!wide) return;
    bytes_add(out, "\1\0\10\0", 4);
    bytes_u64(out, at);
}

static inline void real_pickle_text(bytes *out, const char *text) {
    bytes_add(out, "X", 1);
    bytes_u32(out, (uint32_t)strlen(text));
    bytes_add(out, text, strlen(text));
}

static inline void real_pickle_number(bytes *out, uint64_t value) {
    bytes_add(out, "J", 1);
    bytes_u32(out, (uint32_t)value);
}

/* name: _rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict()) */
static inline void real_pickle_tensor(bytes *out, const real_tensor *t, size_t index) {
    const char *storage = t->type == DIT_TYPE_F32    ? "ctorch\nFloatStorage\n"
                          : t->type == DIT_TYPE_BF16 ? "ctorch\nBFloat16Storage\n"
                                                     : "ctorch\nHalfStorage\n";
    static const char rebuild[] = "ctorch._utils\n_rebuild_tensor_v2\n((";
    char key[24];
    uint64_t stride = t->elements;
    uint32_t d;
    diti_format(key, sizeof key, "%u", (unsigned)index);
    real_pickle_text(out, t->name);
    bytes_add(out, rebuild, sizeof rebuild - 1);
    real_pickle_text(out, "storage");
    bytes_add(out, storage, strlen(storage));
    real_pickle_text(out, key);
    real_pickle_text(out, "cpu");
    real_pickle_number(out, t->elements);
    bytes_add(out, "tQK\0(", 5);
    for (d = 0; d < t->rank; d++) real_pickle_number(out, t->shape[d]);
    bytes_add(out, "t(", 2);
    for (d = 0; d < t->rank; d++) real_pickle_number(out, stride /= t->shape[d]);
    bytes_add(out, "t\211ccollections\nOrderedDict\n)RtR", 31);
}

static inline void real_zip_name(char *out, size_t size, size_t index) {
    diti_format(out, size, "archive/data/%u", (unsigned)index);
}

/* As torch.save writes a state dict: the pickle, the tensors, the directory with its 64-bit end. */
static inline void real_pytorch_header(real_file *file) {
    static const char begin[] = "\200\2ccollections\nOrderedDict\n)R(";
    bytes pickle = {0}, listed = {0};
    char name[64];
    uint64_t end;
    size_t i;
    bytes_add(&pickle, begin, sizeof begin - 1);
    for (i = 0; i < file->count; i++) real_pickle_tensor(&pickle, &file->tensors[i], i);
    bytes_add(&pickle, "u.", 2);
    real_zip_entry(&file->header, "archive/data.pkl", pickle.size, 64);
    bytes_add(&file->header, pickle.data, pickle.size);
    real_zip_listed(&listed, "archive/data.pkl", pickle.size, 0);
    for (i = 0; i < file->count; i++) {
        real_zip_name(name, sizeof name, i);
        real_zip_listed(&listed, name, file->tensors[i].bytes,
                        file->header.size + file->tensors[i].offset - REAL_ENTRY);
    }
    end = file->header.size + file->data + listed.size;
    bytes_add(&file->tail, listed.data, listed.size);
    bytes_add(&file->tail, "PK\6\6\54\0\0\0\0\0\0\0\55\0\55\0\0\0\0\0\0\0\0\0", 24);
    bytes_u64(&file->tail, file->count + 1);
    bytes_u64(&file->tail, file->count + 1);
    bytes_u64(&file->tail, listed.size);
    bytes_u64(&file->tail, end - listed.size);
    bytes_add(&file->tail, "PK\6\7\0\0\0\0", 8);
    bytes_u64(&file->tail, end);
    bytes_u32(&file->tail, 1);
    bytes_add(&file->tail, "PK\5\6\0\0\0\0\377\377\377\377\377\377\377\377\377\377\377\377\0\0", 22);
    bytes_free(&pickle);
    bytes_free(&listed);
}

/* ---- data ---- */

/* 8 numbers of 8 bits: a counter and nothing else decides (splitmix64's finaliser). */
static inline uint64_t real_random(uint64_t tensor, uint64_t counter) {
    uint64_t z = tensor * 0x9e3779b97f4a7c15u + counter * 0xd1342543de82ef95u + 1;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

#define REAL_SPREAD 73.9 /* standard deviation of the 256 values of an int8 */

/* Blocks of 32 values, as they are stored; `count` of them from block `first`. The last one may have less. */
static inline void real_blocks(const real_tensor *t, uint64_t tensor, uint64_t first, uint64_t count, bool sparse,
                               unsigned char *out) {
    uint64_t block, size = t->type == DIT_TYPE_Q8_0 ? 34 : t->type == DIT_TYPE_F32 ? 128 : 64, word;
    double spread = sparse ? t->spread * sqrt(32.0) : t->spread;
    uint16_t scale = diti_float_to_half((float)(spread / REAL_SPREAD));
    for (block = first; block < first + count; block++, out += size) {
        uint64_t random[4];
        int8_t values[32];
        uint32_t i;
        for (word = 0; word < 4; word++) random[word] = real_random(tensor, 4 * block + word);
        memcpy(values, random, 32);
        for (i = 0; i < 32 && sparse; i++)
            if (i != block * 7 % 32) values[i] = 0;
        if (t->type == DIT_TYPE_Q8_0) {
            memcpy(out, &scale, 2);
            memcpy(out + 2, values, 32);
            continue;
        }
        for (i = 0; i < 32; i++) {
            float value = (float)(t->center + spread / REAL_SPREAD * values[i]);
            uint16_t half = t->type == DIT_TYPE_BF16 ? diti_float_to_bfloat(value) : diti_float_to_half(value);
            if (t->type == DIT_TYPE_F32)
                memcpy(out + 4 * i, &value, 4);
            else
                memcpy(out + 2 * i, &half, 2);
        }
    }
}

/* Bytes from..from + size of a tensor's data. */
static inline void real_fill(const real_file *file, size_t tensor, uint64_t from, uint64_t size, unsigned char *out) {
    const real_tensor *t = &file->tensors[tensor];
    uint64_t unit = t->type == DIT_TYPE_Q8_0 ? 34 : t->type == DIT_TYPE_F32 ? 128 : 64;
    bool sparse = file->sparse && t->rank == 2 && diti_ends_with(t->name, ".weight");
    while (size) {
        unsigned char block[128];
        uint64_t skip = from % unit, whole = size / unit, part = unit - skip < size ? unit - skip : size;
        if (skip == 0 && whole) {
            real_blocks(t, tensor, from / unit, whole, sparse, out);
            part = whole * unit;
        } else {
            real_blocks(t, tensor, from / unit, 1, sparse, block);
            memcpy(out, block + skip, (size_t)part);
        }
        from += part, out += part, size -= part;
    }
}

/* The last tensor that begins at or before `at`. */
static inline size_t real_find(const real_file *file, uint64_t at) {
    size_t low = 0, high = file->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (file->tensors[middle].offset <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Between tensors: zeros, or a zip archive's words about the next one. */
static inline void real_fill_gap(const real_file *file, uint64_t at, uint64_t size, unsigned char *out) {
    size_t next = real_find(file, at) + (at >= file->tensors[0].offset ? 1 : 0);
    bytes entry = {0};
    char name[64];
    memset(out, 0, (size_t)size);
    if (file->container != REAL_PYTORCH) return;
    real_zip_name(name, sizeof name, next);
    real_zip_entry(&entry, name, file->tensors[next].bytes, REAL_ENTRY);
    memcpy(out, entry.data + REAL_ENTRY - (file->tensors[next].offset - at), (size_t)size);
    bytes_free(&entry);
}

/* The piece of the data at `at` that is of one kind; the bytes done. */
static inline uint64_t real_read_data(const real_file *file, uint64_t at, uint64_t size, unsigned char *out) {
    size_t i = real_find(file, at);
    const real_tensor *t = &file->tensors[i];
    bool inside = at >= t->offset && at - t->offset < t->bytes;
    uint64_t end = inside                ? t->offset + t->bytes
                   : at < t->offset      ? t->offset
                   : i + 1 < file->count ? file->tensors[i + 1].offset
                                         : file->data;
    if (size > end - at) size = end - at;
    if (inside)
        real_fill(file, i, at - t->offset, size, out);
    else
        real_fill_gap(file, at, size, out);
    return size;
}

static inline int64_t real_read(uint64_t offset, void *out, size_t size, void *user) {
    real_file *file = (real_file *)user;
    unsigned char *to = (unsigned char *)out;
    uint64_t left = size, part;
    for (; left; offset += part, to += part, left -= part) {
        uint64_t at = offset - file->header.size, behind = at - file->data;
        if (offset < file->header.size) {
            part = file->header.size - offset < left ? file->header.size - offset : left;
            memcpy(to, file->header.data + offset, (size_t)part);
        } else if (at < file->data) {
            part = real_read_data(file, at, left, to);
            file->data_read += part;
        } else {
            if (behind >= file->tail.size) return -1;
            part = file->tail.size - behind < left ? file->tail.size - behind : left;
            memcpy(to, file->tail.data + behind, (size_t)part);
        }
    }
    return (int64_t)size;
}

static inline dit_source real_source(real_file *file) {
    dit_source source;
    memset(&source, 0, sizeof source);
    if (!file->header.size) {
        if (file->container == REAL_GGUF) real_gguf_header(file);
        if (file->container == REAL_SAFETENSORS) real_safetensors_header(file);
        if (file->container == REAL_PYTORCH) real_pytorch_header(file);
    }
    source.read_at = real_read;
    source.size = file->header.size + file->data + file->tail.size;
    source.user = file;
    return source;
}

static inline void real_free(real_file *file) {
    free(file->tensors);
    bytes_free(&file->header);
    bytes_free(&file->tail);
    memset(file, 0, sizeof *file);
}
#endif
