/* Parts of a pipeline: where each of them is, told from roles, from folders, or from what a file holds. */
#include "job/job.h"

static bool diti_source_given(const dit_source *source) {
    return source->path || source->data || source->read_at || source->open;
}

/* index: 0 is the source, others are components. *out stays NULL where nothing is given. */
static dit_result diti_model_open(dit_model *model, const dit_model_desc *desc, uint32_t index, diti_package **out,
                                  dit_error *err) {
    const dit_source *source = index ? &desc->components[index - 1].source : &desc->source;
    dit_result result = DIT_OK;
    if (!model->packages[index] && (index || diti_source_given(source)))
        result = diti_package_open(&model->env, source, &model->packages[index], err);
    *out = model->packages[index];
    return result;
}

/* The places where a part may be, in the order of preference: components for such parts, those that may hold anything
   or hold it beside their own part, the source. */
typedef struct diti_model_search {
    dit_role role;
    diti_encoder_kind kind; /* kind of the text encoder that the part is or belongs to; DITI_ENCODER_NONE: any */
    uint32_t pass, next;
    bool named; /* the component is there for this part alone */
} diti_model_search;

static diti_model_search diti_model_search_for(dit_role role, diti_encoder_kind kind) {
    diti_model_search search = DITI_ZERO;
    search.role = role;
    search.kind = kind;
    return search;
}

static bool diti_role_is_text(dit_role role) {
    return role == DIT_ROLE_TEXT_1 || role == DIT_ROLE_TEXT_2 || role == DIT_ROLE_TEXT_3;
}

static bool diti_role_is_tokenizer(dit_role role) {
    return role == DIT_ROLE_TOKENIZER_1 || role == DIT_ROLE_TOKENIZER_2 || role == DIT_ROLE_TOKENIZER_3;
}

/* Whether a component of this role is looked at in the search's present pass. */
static bool diti_model_may_hold(const diti_model_search *search, dit_role role) {
    const bool t5 = role == DIT_ROLE_T5 && (search->kind == DITI_ENCODER_T5 || search->kind == DITI_ENCODER_BYT5 ||
                                            search->kind == DITI_ENCODER_NONE);
    if (search->pass)
        return role == DIT_ROLE_NONE || (t5 && diti_role_is_tokenizer(search->role)) ||
               (role == DIT_ROLE_TRANSFORMER &&
                (search->kind == DITI_ENCODER_CONNECTORS || search->kind == DITI_ENCODER_CONDITIONER));
    return role == search->role || (t5 && diti_role_is_text(search->role)) ||
           (role == DIT_ROLE_TOKENIZER && diti_role_is_tokenizer(search->role));
}

/* An index for diti_model_open; false: that is all. */
static bool diti_model_next(const dit_model_desc *desc, diti_model_search *search, uint32_t *index) {
    for (; search->pass < 2; search->pass++, search->next = 0) {
        while (search->next < desc->component_count) {
            dit_role role = desc->components[search->next++].role;
            if (!diti_model_may_hold(search, role)) continue;
            search->named = role == search->role;
            *index = search->next;
            return true;
        }
    }
    search->named = false;
    *index = 0;
    return search->pass++ == 2;
}

static dit_result diti_model_config(const dit_model *model, const diti_package *package, const char *folder,
                                    const char *file, diti_json **out, dit_error *err) {
    char path[128], *text = NULL;
    size_t size = 0;
    dit_result result;
    *out = NULL;
    diti_format(path, sizeof path, "%s%s%s", folder, folder[0] ? "/" : "", file);
    result = diti_package_read(package, path, &text, &size, err);
    if (result >= 0 && text) result = diti_json_parse(&model->env, text, size, path, out, err);
    diti_free(&model->env, text);
    return result;
}

DIT_INTERNAL dit_result diti_model_locate_json(dit_model *model, const dit_model_desc *desc, dit_role role,
                                               const char *folder, const char *file, diti_json **out, dit_error *err) {
    diti_model_search search = diti_model_search_for(role, DITI_ENCODER_NONE);
    diti_package *package;
    uint32_t index;
    *out = NULL;
    while (!*out && diti_model_next(desc, &search, &index)) {
        if (index && (!search.named || role == DIT_ROLE_NONE)) continue;
        DITI_TRY(diti_model_open(model, desc, index, &package, err));
        if (package) DITI_TRY(diti_model_config(model, package, index ? "" : folder, file, out, err));
        if (*out) model->used[index] = true;
    }
    return DIT_OK;
}

/* --- what a file holds --- */

DIT_INTERNAL bool diti_part_has(const diti_checkpoint *checkpoint, const char *prefix, const char *name) {
    return diti_model_find(checkpoint, prefix, name) != NULL;
}

/* Embeddings of CLIP-G are wider than CLIP-L's 768. */
static diti_encoder_kind diti_encoder_clip_kind(const diti_checkpoint *checkpoint, const char *prefix) {
    const diti_stored_tensor *table =
        diti_model_find(checkpoint, prefix, "text_model.embeddings.token_embedding.weight");
    if (!table) table = diti_model_find(checkpoint, prefix, "embeddings.token_embedding.weight");
    if (!table) table = diti_model_find(checkpoint, prefix, "token_embedding.weight");
    return table && table->rank == 2 && table->shape[1] > 768 ? DITI_ENCODER_CLIP_G : DITI_ENCODER_CLIP_L;
}

/* Which decoder language model a layer is of: whether queries are normed or biased, and what stands behind the
   feed-forward. LLaMA and Mistral have the same tensors. */
static diti_encoder_kind diti_encoder_decoder_kind(const diti_checkpoint *checkpoint, const char *prefix) {
    static const char *const layers[] = {"model.layers.0.", "layers.0.", "model.language_model.layers.0.",
                                         "language_model.model.layers.0.", "language_model.layers.0."};
    char name[200];
    bool normed;
    size_t i;
    for (i = 0; i < DITI_COUNT(layers); i++) {
        diti_format(name, sizeof name, "%s%sself_attn.", prefix, layers[i]);
        if (!diti_part_has(checkpoint, name, "q_proj.weight")) continue;
        normed = diti_part_has(checkpoint, name, "q_norm.weight");
        if (diti_part_has(checkpoint, name, "q_proj.bias")) return DITI_ENCODER_QWEN2;
        diti_format(name, sizeof name, "%s%s", prefix, layers[i]);
        if (diti_part_has(checkpoint, name, "pre_feedforward_layernorm.weight"))
            return normed ? DITI_ENCODER_GEMMA3 : DITI_ENCODER_GEMMA2;
        return normed ? DITI_ENCODER_QWEN3 : DITI_ENCODER_LLAMA;
    }
    if (!diti_part_has(checkpoint, prefix, "token_embd.weight") ||
        !diti_part_has(checkpoint, prefix, "blk.0.ffn_gate.weight") ||
        !diti_part_has(checkpoint, prefix, "blk.0.attn_q.weight"))
        return DITI_ENCODER_NONE;
    normed = diti_part_has(checkpoint, prefix, "blk.0.attn_q_norm.weight");
    if (diti_part_has(checkpoint, prefix, "blk.0.attn_q.bias")) return DITI_ENCODER_QWEN2;
    if (diti_part_has(checkpoint, prefix, "blk.0.post_ffw_norm.weight"))
        return normed ? DITI_ENCODER_GEMMA3 : DITI_ENCODER_GEMMA2;
    return normed ? DITI_ENCODER_QWEN3 : DITI_ENCODER_LLAMA;
}

/* Halves of LTX-2's connectors: what makes one vector of all states, and the transformers behind that. */
static bool diti_part_connects(const diti_checkpoint *checkpoint, const char *prefix, bool front) {
    static const char *const names[2][4] = {
        {"video_connector.learnable_registers", "video_embeddings_connector.learnable_registers",
         "model.diffusion_model.video_embeddings_connector.learnable_registers", NULL},
        {"text_proj_in.weight", "video_text_proj_in.weight", "text_embedding_projection.aggregate_embed.weight",
         "text_embedding_projection.video_aggregate_embed.weight"}};
    uint32_t i;
    for (i = 0; i < DITI_COUNT(names[0]) && names[front][i]; i++)
        if (diti_part_has(checkpoint, prefix, names[front][i])) return true;
    return false;
}

DIT_INTERNAL diti_encoder_kind diti_encoder_kind_of(const diti_checkpoint *checkpoint, const char *prefix) {
    if (diti_part_has(checkpoint, prefix, "encoder.block.0.layer.0.SelfAttention.q.weight") ||
        diti_part_has(checkpoint, prefix, "enc.blk.0.attn_q.weight") ||
        diti_part_has(checkpoint, prefix, "blocks.0.pos_embedding.embedding.weight"))
        return DITI_ENCODER_T5;
    if (diti_part_has(checkpoint, prefix, "text_model.encoder.layers.0.mlp.fc1.weight") ||
        diti_part_has(checkpoint, prefix, "embeddings.token_embedding.weight") ||
        diti_part_has(checkpoint, prefix, "transformer.resblocks.0.mlp.c_fc.weight"))
        return diti_encoder_clip_kind(checkpoint, prefix);
    if (diti_part_has(checkpoint, prefix, "blocks.0.norm_cross_attn.weight")) return DITI_ENCODER_CONDITIONER;
    if (diti_part_connects(checkpoint, prefix, false) && diti_part_connects(checkpoint, prefix, true))
        return DITI_ENCODER_CONNECTORS;
    if (diti_part_has(checkpoint, prefix, "encoder.layer.0.attention.self.query.weight") ||
        diti_part_has(checkpoint, prefix, "bert.encoder.layer.0.attention.self.query.weight"))
        return DITI_ENCODER_BERT;
    return diti_encoder_decoder_kind(checkpoint, prefix);
}

/* Prefixes of the names of a part in files that hold several (docs/models.md 9.3): the original ones', ComfyUI's and
   stable-diffusion.cpp's. */
typedef struct diti_part_prefix {
    dit_role role;
    diti_encoder_kind kind;
    const char *prefix;
} diti_part_prefix;
static const diti_part_prefix diti_part_prefixes[] = {
    {DIT_ROLE_VAE, DITI_ENCODER_NONE, "first_stage_model."},
    {DIT_ROLE_VAE, DITI_ENCODER_NONE, "vae."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_CLIP_L, "text_encoders.clip_l.transformer."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_CLIP_L, "cond_stage_model.transformer."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_CLIP_L, "conditioner.embedders.0.transformer."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_CLIP_G, "text_encoders.clip_g.transformer."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_CLIP_G, "cond_stage_model.1.transformer."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_T5, "text_encoders.t5xxl.transformer."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_T5, "text_encoders.umt5xxl.transformer."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_QWEN3, "text_encoders.qwen3_06b.transformer."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_QWEN3, "text_encoders.qwen3_2b.transformer."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_QWEN3, "text_encoders.qwen3_4b.transformer."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_QWEN3, "text_encoders.qwen3_8b.transformer."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_QWEN3, "text_encoders.qwen3vl_4b.transformer."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_QWEN3, "text_encoders.qwen3vl_8b.transformer."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_QWEN3, "text_encoders.llm."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_QWEN2, "text_encoders.qwen25_7b.transformer."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_QWEN2, "text_encoders.llm."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_GEMMA2, "text_encoders.gemma2_2b.transformer."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_GEMMA3, "text_encoders.gemma3_12b.transformer."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_LLAMA, "text_encoders.llama.transformer."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_MISTRAL, "text_encoders.mistral3_24b.transformer."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_MISTRAL, "text_encoders.ministral3_3b.transformer."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_MISTRAL, "text_encoders.llm."},
    {DIT_ROLE_SOUND, DITI_ENCODER_NONE, "audio_vae."},
    {DIT_ROLE_SOUND, DITI_ENCODER_NONE, "vocoder."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_CONDITIONER, "net.llm_adapter."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_CONDITIONER, "llm_adapter."},
    {DIT_ROLE_TEXT_1, DITI_ENCODER_CONDITIONER, "model.diffusion_model.llm_adapter."},
};

static bool diti_kind_is_clip(diti_encoder_kind kind) {
    return kind == DITI_ENCODER_CLIP_L || kind == DITI_ENCODER_CLIP_G;
}

/* The part that makes a sound's spectrogram, whose other names are those of pictures' autoencoders; or its vocoder. */
static bool diti_part_sounds(const diti_model_part *part, bool vocoder) {
    static const char *const names[2][4] = {
        {"decoder.up.0.block.0.conv1.conv.weight", NULL},
        {"ups.0.weight", "upsamplers.0.weight", "bwe_generator.ups.0.weight", "bwe_generator.upsamplers.0.weight"}};
    uint32_t i;
    for (i = 0; i < DITI_COUNT(names[0]) && names[vocoder][i]; i++)
        if (diti_part_has(part->checkpoint, part->prefix, names[vocoder][i])) return true;
    return false;
}

static bool diti_part_fits(const diti_model_want *want, const diti_model_part *part) {
    diti_encoder_kind kind;
    switch (want->role) {
    case DIT_ROLE_TRANSFORMER: return diti_transformer_known(part->config, part->checkpoint, part->prefix);
    case DIT_ROLE_SOUND:
        return diti_part_sounds(part, diti_equal(want->folder, "vocoder")) ||
               (diti_equal(want->folder, "audio_vae") &&
                diti_part_has(part->checkpoint, part->prefix, DITI_SOUND_ALONE));
    case DIT_ROLE_VAE:
        if (diti_part_sounds(part, false)) return false;
        return diti_part_has(part->checkpoint, part->prefix, "decoder.conv_in.weight") ||
               diti_part_has(part->checkpoint, part->prefix, "encoder.conv_in.weight") ||
               diti_part_has(part->checkpoint, part->prefix, "decoder.conv_in.conv.weight") ||
               diti_part_has(part->checkpoint, part->prefix, "encoder.conv_in.conv.weight") ||
               diti_part_has(part->checkpoint, part->prefix, "decoder.register_tokens") ||
               diti_part_has(part->checkpoint, part->prefix, "decoder.layers.0.weight");
    case DIT_ROLE_IMAGE_ENCODER: return diti_clip_vision_is(part->checkpoint, part->prefix);
    case DIT_ROLE_TEXT_1:
    case DIT_ROLE_TEXT_2:
    case DIT_ROLE_TEXT_3: break;
    default: return false;
    }
    kind = diti_encoder_kind_of(part->checkpoint, part->prefix);
    if (want->kind == DITI_ENCODER_NONE) return kind != DITI_ENCODER_NONE;
    if (want->kind == DITI_ENCODER_MISTRAL && kind == DITI_ENCODER_LLAMA) return true;
    if (want->kind == DITI_ENCODER_BYT5 && kind == DITI_ENCODER_T5) return true;
    /* The prefix tells two CLIPs in one file apart. */
    return kind == want->kind || (part->prefix[0] && diti_kind_is_clip(kind) && diti_kind_is_clip(want->kind));
}

/* Looks for the part in a file or folder that may be about anything. */
static bool diti_model_find_part(const diti_model_want *want, diti_model_part *part) {
    dit_role role = want->kind == DITI_ENCODER_NONE ? want->role : DIT_ROLE_TEXT_1;
    size_t i;
    if (diti_part_fits(want, part)) return true;
    for (i = 0; i < DITI_COUNT(diti_part_prefixes); i++) {
        const diti_part_prefix *known = &diti_part_prefixes[i];
        part->prefix = known->prefix;
        if (known->role == role && known->kind == want->kind && diti_part_fits(want, part)) return true;
    }
    part->prefix = "";
    return false;
}

static void diti_model_leave(const dit_model *model, diti_model_part *part) {
    part->checkpoint = NULL;
    part->prefix = "";
    diti_json_free(&model->env, part->config);
    part->config = NULL;
}

/* Looks for the part in a package: under its folder's name, else as the whole package or under a known prefix. named:
   it is the part, known or not. */
static dit_result diti_model_look(const dit_model *model, const diti_model_want *want, bool named,
                                  diti_model_part *part, dit_error *err) {
    const char *folder = want->folder;
    dit_result result = DIT_OK;
    part->checkpoint = NULL;
    if (folder[0]) result = diti_package_component(part->package, folder, &part->checkpoint, &part->prefix, err);
    DITI_TRY(result);
    if (part->checkpoint) return diti_model_config(model, part->package, folder, "config.json", &part->config, err);
    result = diti_package_component(part->package, "", &part->checkpoint, &part->prefix, err);
    if (result < 0 || !part->checkpoint) return result;
    result = diti_model_config(model, part->package, "", "config.json", &part->config, err);
    if (result >= 0 && !diti_model_find_part(want, part) && !named) diti_model_leave(model, part);
    return result;
}

/* A T5 may be any of the text encoders of the pipeline that lies there. */
static dit_result diti_model_look_for_t5(const dit_model *model, diti_model_part *part, dit_error *err) {
    static const diti_model_want wants[] = {{DIT_ROLE_TEXT_1, "text_encoder", DITI_ENCODER_T5},
                                            {DIT_ROLE_TEXT_2, "text_encoder_2", DITI_ENCODER_T5},
                                            {DIT_ROLE_TEXT_3, "text_encoder_3", DITI_ENCODER_T5}};
    size_t i;
    for (i = 0; i < DITI_COUNT(wants); i++) {
        DITI_TRY(diti_model_look(model, &wants[i], false, part, err));
        if (part->checkpoint && diti_part_fits(&wants[i], part)) return DIT_OK;
        diti_model_leave(model, part);
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_model_locate(dit_model *model, const dit_model_desc *desc, const diti_model_want *want,
                                          diti_model_part *part, dit_error *err) {
    diti_model_search search = diti_model_search_for(want->role, want->kind);
    dit_result result = DIT_OK;
    uint32_t index;
    memset(part, 0, sizeof *part);
    while (!part->checkpoint && result >= 0 && diti_model_next(desc, &search, &index)) {
        result = diti_model_open(model, desc, index, &part->package, err);
        if (result < 0 || !part->package) continue;
        result = index && desc->components[index - 1].role == DIT_ROLE_T5
                     ? diti_model_look_for_t5(model, part, err)
                     : diti_model_look(model, want, search.named && want->role != DIT_ROLE_SOUND, part, err);
        if (part->checkpoint) model->used[index] = true;
    }
    return result;
}

DIT_INTERNAL dit_result diti_model_join_connectors(dit_model *model, const dit_model_desc *desc, diti_model_part *part,
                                                   dit_error *err) {
    static const diti_model_want want = {DIT_ROLE_TRANSFORMER, "transformer", DITI_ENCODER_NONE};
    diti_model_part other;
    if (!part->checkpoint || diti_part_connects(part->checkpoint, part->prefix, false)) return DIT_OK;
    DITI_TRY(diti_model_locate(model, desc, &want, &other, err));
    diti_json_free(&model->env, other.config);
    if (!other.checkpoint || !diti_part_connects(other.checkpoint, "", false)) return DIT_OK;
    DITI_TRY(diti_checkpoint_join(part->checkpoint, other.checkpoint, &model->joined[0], err));
    part->checkpoint = model->joined[0];
    return DIT_OK;
}

DIT_INTERNAL bool diti_part_is_vace(const diti_model_part *part) {
    return part->checkpoint && diti_part_has(part->checkpoint, part->prefix, "vace_patch_embedding.weight");
}

DIT_INTERNAL dit_result diti_model_join_vace(dit_model *model, const dit_model_desc *desc, bool second,
                                             diti_model_part *part, dit_error *err) {
    static const diti_model_want want = {DIT_ROLE_CONTROL, "controlnet", DITI_ENCODER_NONE};
    const diti_checkpoint *blocks = NULL;
    diti_model_part other;
    uint32_t i;
    for (i = 0; i < desc->component_count && !diti_part_is_vace(part) && (second || !blocks); i++) {
        if (desc->components[i].role != DIT_ROLE_CONTROL) continue;
        DITI_TRY(diti_model_locate_component(model, desc, i, &want, &other, err));
        diti_json_free(&model->env, other.config);
        if (diti_part_is_vace(&other)) blocks = other.checkpoint;
    }
    if (!blocks) return DIT_OK;
    DITI_TRY(diti_checkpoint_join(part->checkpoint, blocks, &model->joined[second], err));
    part->checkpoint = model->joined[second];
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_model_locate_component(dit_model *model, const dit_model_desc *desc, uint32_t index,
                                                    const diti_model_want *want, diti_model_part *part,
                                                    dit_error *err) {
    memset(part, 0, sizeof *part);
    DITI_TRY(diti_model_open(model, desc, index + 1, &part->package, err));
    DITI_TRY(diti_model_look(model, want, true, part, err));
    if (part->checkpoint) model->used[index + 1] = true;
    return DIT_OK;
}

/* --- tokenizers --- */

static bool diti_tokenizer_suits(const diti_tokenizer *tokenizer, diti_encoder_kind kind) {
    switch (kind) {
    case DITI_ENCODER_CONDITIONER:
    case DITI_ENCODER_T5: return tokenizer->kind == DITI_TOKENIZER_UNIGRAM;
    case DITI_ENCODER_BYT5: return tokenizer->kind == DITI_TOKENIZER_BYT5;
    case DITI_ENCODER_BERT: return tokenizer->kind == DITI_TOKENIZER_WORDPIECE;
    case DITI_ENCODER_QWEN3:
    case DITI_ENCODER_QWEN2:
    case DITI_ENCODER_GEMMA2:
    case DITI_ENCODER_GEMMA3:
    case DITI_ENCODER_MISTRAL:
    case DITI_ENCODER_LLAMA: return tokenizer->kind == DITI_TOKENIZER_BYTES || tokenizer->kind == DITI_TOKENIZER_PIECES;
    default: return tokenizer->kind == DITI_TOKENIZER_CLIP;
    }
}

static dit_result diti_model_read_tokenizer(const dit_model *model, const diti_package *package, const char *folder,
                                            diti_encoder *encoder, dit_error *err) {
    dit_result result =
        diti_tokenizer_load_folder(&model->env, package, folder, &encoder->tokenizer, &encoder->limit, err);
    if (!encoder->tokenizer || diti_tokenizer_suits(encoder->tokenizer, encoder->kind)) return result;
    diti_tokenizer_free(encoder->tokenizer);
    encoder->tokenizer = NULL;
    encoder->limit = 0;
    return result;
}

static const char *const diti_tokenizer_folders[DITI_ENCODERS] = {"tokenizer/", "tokenizer_2/", "tokenizer_3/"};

/* In its own folder, or that of a processor for text and images, then, where tokenizers stand for themselves, anywhere.
 */
static dit_result diti_model_search_tokenizer(const dit_model *model, const diti_package *package, uint32_t index,
                                              bool anywhere, diti_encoder *encoder, dit_error *err) {
    uint32_t i;
    DITI_TRY(diti_model_read_tokenizer(model, package, diti_tokenizer_folders[index], encoder, err));
    if (!encoder->tokenizer && index == 0)
        DITI_TRY(diti_model_read_tokenizer(model, package, "processor/", encoder, err));
    if (!encoder->tokenizer && encoder->kind == DITI_ENCODER_CONDITIONER)
        DITI_TRY(diti_model_read_tokenizer(model, package, "t5_tokenizer/", encoder, err));
    if (!encoder->tokenizer && anywhere) DITI_TRY(diti_model_read_tokenizer(model, package, "", encoder, err));
    for (i = 0; i < DITI_ENCODERS && anywhere && !encoder->tokenizer; i++)
        DITI_TRY(diti_model_read_tokenizer(model, package, diti_tokenizer_folders[i], encoder, err));
    return DIT_OK;
}

static dit_result diti_model_find_tokenizer(dit_model *model, const dit_model_desc *desc, dit_role role, uint32_t index,
                                            diti_encoder *encoder, dit_error *err) {
    diti_model_search search = diti_model_search_for(role, encoder->kind);
    diti_package *package;
    uint32_t at;
    while (!encoder->tokenizer && diti_model_next(desc, &search, &at)) {
        if (at && desc->components[at - 1].role == DIT_ROLE_T5 && !model->used[at]) continue; /* no T5 was there */
        DITI_TRY(diti_model_open(model, desc, at, &package, err));
        if (!package) continue;
        DITI_TRY(diti_model_search_tokenizer(model, package, index, at != 0, encoder, err));
        if (!encoder->tokenizer) continue;
        encoder->tokenizer_source = at ? desc->components[at - 1].source.path : desc->source.path;
        model->used[at] = true;
    }
    return DIT_OK;
}

/* CLIP-G reads what CLIP-L reads, but for its padding. */
static dit_result diti_model_share_tokenizer(dit_model *model, const dit_model_desc *desc, uint32_t index,
                                             dit_error *err) {
    diti_encoder *encoder = &model->encoders[index];
    dit_result result = diti_model_find_tokenizer(model, desc, DIT_ROLE_TOKENIZER_1, 0, encoder, err);
    if (result < 0 || !encoder->tokenizer) return result;
    return diti_tokenizer_special(encoder->tokenizer, "!", &encoder->tokenizer->padding, err);
}

DIT_INTERNAL dit_result diti_model_locate_tokenizer(dit_model *model, const dit_model_desc *desc, uint32_t index,
                                                    dit_error *err) {
    diti_encoder *encoder = &model->encoders[index];
    dit_role text = (dit_role)(DIT_ROLE_TEXT_1 + (int)index), own = (dit_role)(DIT_ROLE_TOKENIZER_1 + (int)index);
    DITI_TRY(diti_model_find_tokenizer(model, desc, own, index, encoder, err));
    if (!encoder->tokenizer) DITI_TRY(diti_model_find_tokenizer(model, desc, text, index, encoder, err));
    if (!encoder->tokenizer && encoder->kind == DITI_ENCODER_CLIP_G)
        DITI_TRY(diti_model_share_tokenizer(model, desc, index, err));
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_model_check_used(const dit_model *model, const dit_model_desc *desc, dit_error *err) {
    uint32_t i;
    for (i = 0; i < desc->component_count; i++) {
        const dit_component *component = &desc->components[i];
        const char *path = component->source.path;
        char number[40];
        if (component->role == DIT_ROLE_LORA) continue;
        if (model->used[i + 1]) continue;
        diti_format(number, sizeof number, "components[%u]", (unsigned)i);
        return diti_fail(
            err, DIT_ERROR_UNSUPPORTED_MODEL, "%s holds no part that this model has a place for: %s",
            path ? path : number,
            component->role == DIT_ROLE_T5          ? "no T5 text encoder"
            : component->role == DIT_ROLE_TOKENIZER ? "no tokenizer of one of its text encoders"
            : component->role == DIT_ROLE_IMAGE_ENCODER
                ? "an image encoder serves models that read the picture which they move"
            : component->role == DIT_ROLE_SOUND
                ? "sound has an audio_vae and a vocoder, of MiniMax-H3 an audio_vae alone, and serves models that make it "
                  "with a clip"
                : "neither a transformer, an autoencoder, one of its "
                  "text encoders nor a tokenizer of these");
    }
    return DIT_OK;
}

DIT_INTERNAL bool diti_model_wants(const dit_model *model, dit_role role) {
    return (model->parts & 1u << (uint32_t)role) != 0;
}

DIT_INTERNAL diti_transformer *diti_model_second(const dit_model *model) {
    return model->low ? model->low : model->unconditional;
}
