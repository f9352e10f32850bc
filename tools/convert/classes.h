/* Which type a tensor gets: by class, from what published quantizations skip. */
#ifndef CONVERT_CLASSES_H
#define CONVERT_CLASSES_H
#include "convert.h"

static bool contains_one_of(const char *name, const char *const *parts, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (strstr(name, parts[i])) return true;
    }
    return false;
}

/* Patch embedders, embedders of single numbers and sizes, final projections, position and relative tables, long skips.
 */
static bool is_sensitive(const char *name) {
    static const char *const parts[] = {"pos_embed",
                                        "patch_embed",
                                        "x_embedder",
                                        "img_in.",
                                        "emb_in.",
                                        "timestep_embedder",
                                        "time_embed",
                                        "t_embedder",
                                        "time_in.",
                                        "time_text_embed",
                                        "guidance_in.",
                                        "guidance_embed",
                                        "vector_in.",
                                        "y_embedder",
                                        "resolution_embedder",
                                        "aspect_ratio_embedder",
                                        "size_embedder",
                                        "csize_embedder",
                                        "ar_embedder",
                                        "extra_embedder",
                                        "style_embedder",
                                        "fps_embedder",
                                        "proj_out.",
                                        "final_layer",
                                        "norm_out",
                                        "relative_attention_bias",
                                        "attn_rel_b.",
                                        "position_embedding",
                                        "skip_linear",
                                        "conv_in.",
                                        "conv_out."};
    /* Blocks of FLUX end in a large proj_out of their own, which is no final projection. */
    if (strstr(name, "blocks.") && strstr(name, "proj_out.")) return false;
    return contains_one_of(name, parts, DITI_COUNT(parts));
}

static bool is_modulation(const char *name) {
    static const char *const parts[] = {"adaln",        "adaLN",        "modulation",           "_mod.",
                                        ".norm.linear", "norm1.linear", "norm1_context.linear", "distilled_guidance"};
    return contains_one_of(name, parts, DITI_COUNT(parts));
}

static bool is_text_stream(const char *name) {
    static const char *const parts[] = {"add_q_proj", "add_k_proj", "add_v_proj", "to_add_out",
                                        "ff_context", "txt_attn",   "txt_mlp",    "context_block"};
    return contains_one_of(name, parts, DITI_COUNT(parts));
}

/* Needs 8 bits where the rest has fewer: modulation, and the text stream of joint blocks. */
static bool is_delicate(const char *name) { return is_modulation(name) || is_text_stream(name); }

/* A matrix product with many rows, in the blocks of a transformer: what int8 activations suit. */
static bool is_block(const char *name) {
    static const char *const others[] = {"down_blocks.", "up_blocks."};
    return strstr(name, "blocks.") && !contains_one_of(name, others, DITI_COUNT(others)) && !is_modulation(name);
}

/* Tables that are looked up, not multiplied. */
static bool is_table(const char *name) {
    static const char *const parts[] = {"shared.",         "embed_tokens",       "token_embd",
                                        "token_embedding", "position_embedding", "relative_attention_bias",
                                        "attn_rel_b.",     "embedding_table"};
    return contains_one_of(name, parts, DITI_COUNT(parts));
}

static uint64_t row_length(const diti_stored_tensor *tensor) {
    return tensor->shape[0] ? diti_stored_tensor_elements(tensor) / tensor->shape[0] : 0;
}

/* F8 has no place in a GGUF, nor have factors beside a matrix; F16 holds all values of F8. */
static dit_type kept_type(dit_type stored) { return diti_type_has_factors(stored) ? DIT_TYPE_F16 : stored; }

static bool is_weight(const diti_stored_tensor *tensor) {
    return tensor->rank >= 2 && diti_stored_tensor_elements(tensor) > 0 && diti_ends_with(tensor->name, ".weight") &&
           tensor->type != DIT_TYPE_I32 && tensor->type != DIT_TYPE_I64;
}

/* Linear layers have int8 rows; other matrices get as many bits. */
static bool suits_rows(const char *component, const diti_stored_tensor *tensor) {
    return tensor->rank == 2 && strcmp(component, "vae") != 0 && !is_table(tensor->name) &&
           row_length(tensor) <= DITI_I8_MAX_COLUMNS &&
           (diti_type_is_i8(tensor->type) || row_length(tensor) % diti_type_block(tensor->type) == 0);
}

/* The nearest type with blocks of 32, where rows do not fill larger ones. */
static dit_type nearest_type(dit_type wanted) {
    switch (wanted) {
    case DIT_TYPE_I4_GROUP: return DIT_TYPE_Q4_1;
    case DIT_TYPE_Q4_K: return DIT_TYPE_Q5_0;
    case DIT_TYPE_Q5_K: return DIT_TYPE_Q5_1;
    case DIT_TYPE_Q6_K: return DIT_TYPE_Q8_0;
    default: return wanted;
    }
}

/* The type that was asked for, or the nearest one where rows do not fill its blocks. */
static dit_type fitting_type(dit_type wanted, const char *component, const diti_stored_tensor *tensor) {
    if (diti_type_is_i8(wanted) && suits_rows(component, tensor))
        return diti_i8_type(wanted, (uint32_t)row_length(tensor));
    if (diti_type_is_i8(wanted)) wanted = DIT_TYPE_Q8_0;
    if (row_length(tensor) % diti_type_block(wanted) || (wanted == DIT_TYPE_I4_GROUP && !suits_rows(component, tensor)))
        wanted = nearest_type(wanted);
    if (row_length(tensor) % diti_type_block(wanted) == 0) return wanted;
    return tensor->type == DIT_TYPE_BF16 ? DIT_TYPE_BF16 : DIT_TYPE_F16;
}

/* Parts that make sound have convolutions alone, in which errors are heard. */
static bool makes_sound(const char *component) {
    return strcmp(component, "audio_vae") == 0 || strcmp(component, "vocoder") == 0;
}

static dit_type choose_type(dit_type wanted, const char *component, const diti_stored_tensor *tensor) {
    bool few_bits = diti_type_block(wanted) > 1 && wanted != DIT_TYPE_Q8_0;
    if (!is_weight(tensor) || is_sensitive(tensor->name) || makes_sound(component)) return kept_type(tensor->type);
    if (few_bits && is_delicate(tensor->name)) wanted = DIT_TYPE_Q8_0;
    if (wanted == DIT_TYPE_I4_ROW_ROTATED && is_delicate(tensor->name)) wanted = DIT_TYPE_I8_ROW_ROTATED;
    if (diti_type_is_i8(wanted) && !is_block(tensor->name)) wanted = DIT_TYPE_Q8_0;
    return fitting_type(wanted, component, tensor);
}

/* Whether a tensor that is packed may stay as it is where types are chosen for a size: no larger type holds more of it.
 * Smoothing changes values, so that they are packed anew. */
static bool may_stay(const converter *convert, const diti_stored_tensor *tensor) {
    return convert->budget && diti_type_block(tensor->type) > 1 && !diti_type_has_factors(tensor->type) &&
           !diti_type_is_i8(tensor->type) && !(convert->smoothing > 0);
}

static uint64_t bytes_as(dit_type type, const diti_stored_tensor *tensor) {
    uint64_t bytes = UINT64_MAX;
    diti_type_bytes(type, 1, diti_stored_tensor_elements(tensor), &bytes);
    return bytes;
}

/* name: what the tensor is called in the output. */
static dit_type ruled_type(const converter *convert, const char *component, const char *name,
                           const diti_stored_tensor *tensor) {
    dit_type type;
    for (size_t i = 0; i < convert->rule_count && is_weight(tensor); i++) {
        if (diti_glob(convert->rules[i].glob, name)) return fitting_type(convert->rules[i].type, component, tensor);
    }
    type = choose_type(convert->type, component, tensor);
    return may_stay(convert, tensor) && bytes_as(tensor->type, tensor) < bytes_as(type, tensor) ? tensor->type : type;
}

#endif
