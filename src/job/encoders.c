/* Text encoders of all kinds: which type each is, and where their results belong. */
#include "job/job.h"

#define DITI_CLIP_TOKENS 77u

DIT_INTERNAL const char *diti_encoder_name(diti_encoder_kind kind) {
    switch (kind) {
    case DITI_ENCODER_T5: return "T5";
    case DITI_ENCODER_BYT5: return "ByT5";
    case DITI_ENCODER_CLIP_L: return "CLIP-L";
    case DITI_ENCODER_CLIP_G: return "CLIP-G";
    case DITI_ENCODER_BERT: return "BERT";
    case DITI_ENCODER_CONDITIONER: return "text conditioner";
    case DITI_ENCODER_CONNECTORS: return "connectors";
    case DITI_ENCODER_QWEN3: return "Qwen3";
    case DITI_ENCODER_QWEN2: return "Qwen2.5";
    case DITI_ENCODER_GEMMA2: return "Gemma 2";
    case DITI_ENCODER_GEMMA3: return "Gemma 3";
    case DITI_ENCODER_MISTRAL: return "Mistral";
    case DITI_ENCODER_LLAMA: return "LLaMA";
    case DITI_ENCODER_QWEN3_VL: return "Qwen3-VL";
    case DITI_ENCODER_QWEN2_VL: return "Qwen2.5-VL";
    case DITI_ENCODER_MT5: return "mT5";
    case DITI_ENCODER_UMT5: return "umT5";
    default: return "unknown";
    }
}

DIT_INTERNAL bool diti_kind_is_decoder(diti_encoder_kind kind) {
    return kind >= DITI_ENCODER_QWEN3 && kind <= DITI_ENCODER_LLAMA;
}

DIT_INTERNAL const char *diti_encoder_folder(uint32_t index) {
    static const char *const folders[DITI_ENCODERS] = {"text_encoder", "text_encoder_2", "text_encoder_3"};
    return folders[index];
}

DIT_INTERNAL diti_encoder_kind diti_encoder_loaded_as(diti_encoder_kind kind) {
    if (kind == DITI_ENCODER_MT5 || kind == DITI_ENCODER_UMT5) return DITI_ENCODER_T5;
    if (kind == DITI_ENCODER_QWEN2_VL) return DITI_ENCODER_QWEN2;
    return kind == DITI_ENCODER_QWEN3_VL ? DITI_ENCODER_QWEN3 : kind;
}

DIT_INTERNAL diti_encoder_kind diti_encoder_wanted(const dit_model *model, uint32_t index) {
    return model->transformer ? model->transformer->traits.encoders[index] : DITI_ENCODER_NONE;
}

/* Tells that text encoder `index` is of another kind; by: what says so, "" where its tensors do. */
static dit_result diti_encoder_refuse(const diti_checkpoint *checkpoint, uint32_t index, diti_encoder_kind wanted,
                                      diti_encoder_kind found, const char *by, dit_error *err) {
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "%s: no %s, which the %s of this model is%s%s%s%s%s",
                     diti_checkpoint_name(checkpoint), diti_encoder_name(wanted), diti_encoder_folder(index),
                     found ? ", but " : "", found ? diti_encoder_name(found) : "", *by ? " (" : "", by, *by ? ")" : "");
}

static const diti_encoder_type *diti_encoder_type_of(diti_encoder_kind kind) {
    if (diti_kind_is_decoder(kind)) return diti_decoder_type();
    switch (kind) {
    case DITI_ENCODER_T5:
    case DITI_ENCODER_BYT5: return diti_t5_type();
    case DITI_ENCODER_BERT: return diti_bert_type();
#ifndef DIT_NO_ANIMA
    case DITI_ENCODER_CONDITIONER: return diti_conditioner_type();
#endif
#ifndef DIT_NO_LTX2
    case DITI_ENCODER_CONNECTORS: return diti_connectors_type();
#endif
    default: return diti_clip_type();
    }
}

DIT_INTERNAL const diti_weights *diti_encoder_weights(const diti_encoder *encoder) {
    return encoder->self ? encoder->type->weights(encoder->self) : NULL;
}

DIT_INTERNAL uint32_t diti_encoder_dropped(const diti_encoder *encoder, bool shown) {
    return shown ? encoder->picture_dropped : encoder->dropped;
}

DIT_INTERNAL uint32_t diti_encoder_room(const diti_encoder *encoder) {
    if (!encoder->picture_chat) return encoder->tokens;
    return encoder->tokens + DITI_MAX_PICTURES * encoder->picture_tokens;
}

DIT_INTERNAL uint32_t diti_encoder_rows(const diti_encoder *encoder, uint32_t tokens, uint32_t pictures) {
    uint32_t unit = encoder->chat ? encoder->chat->unit : 0, rows = tokens + encoder->padding;
    if (encoder->chat && encoder->chat->padded)
        return encoder->tokens + (pictures ? pictures + encoder->picture_dropped - encoder->dropped : 0);
    if (unit) rows = (rows + unit - 1) / unit * unit;
    return rows > tokens && rows > encoder->tokens ? encoder->tokens : rows;
}

DIT_INTERNAL const diti_encoder_traits *diti_encoder_get_traits(const diti_encoder *encoder) {
    static const diti_encoder_traits none = DITI_ZERO;
    return encoder->self ? encoder->type->traits(encoder->self) : &none;
}

DIT_INTERNAL bool diti_encoder_is_clip(const diti_encoder *encoder) {
    return encoder->self && (encoder->kind == DITI_ENCODER_CLIP_L || encoder->kind == DITI_ENCODER_CLIP_G);
}

/* The width of the pooled output: FLUX takes it without the projection. */
static uint32_t diti_encoder_pooled(const diti_encoder *encoder) {
    const diti_encoder_traits *traits = diti_encoder_get_traits(encoder);
    if (!diti_encoder_is_clip(encoder)) return 0;
    return encoder->text != DITI_TEXT_POOLED && traits->projected ? traits->projected : traits->columns;
}

DIT_INTERNAL dit_result diti_encoder_load(diti_encoder *encoder, diti_device *device, const diti_env *env,
                                          const diti_model_part *part, const diti_load_options *options,
                                          dit_error *err) {
    diti_load_options own = *options;
    bool wide = false;
    dit_result result;
    encoder->type = diti_encoder_type_of(encoder->kind);
    own.wide = &wide;
    own.taps = &encoder->taps;
    own.shown = encoder->picture_chat != NULL;
    result = encoder->type->load(device, env, part->config, part->checkpoint, part->prefix, &own, &encoder->self, err);
    if (!wide) return result;
    own.wide = NULL;
    return encoder->type->load(device, env, part->config, part->checkpoint, part->prefix, &own, &encoder->self, err);
}

DIT_INTERNAL void diti_encoder_unload(diti_encoder *encoder) {
    if (encoder->self) encoder->type->destroy(encoder->self);
    encoder->self = NULL;
}

DIT_INTERNAL bool diti_text_is_seen(const dit_model *model, uint32_t text) {
    return text == DITI_TEXT_SECOND && model->image_encoder && !model->transformer->traits.seen_columns;
}

DIT_INTERNAL bool diti_encoder_feeds(const dit_model *model, const diti_encoder *encoder) {
    return encoder < model->encoders + DITI_ENCODERS - 1 &&
           (encoder[1].kind == DITI_ENCODER_CONDITIONER || encoder[1].kind == DITI_ENCODER_CONNECTORS);
}

/* --- how a decoder language model is asked (docs/models.md 5.5) --- */

/* The states that a repository names: Krea 2's "text_encoder_select_layers". */
static dit_result diti_encoder_read_taps(const dit_model *model, diti_taps *taps, dit_error *err) {
    diti_settings settings = diti_settings_of(model->index, "model_index.json", err);
    const diti_json *list = diti_setting_numbers(&settings, "text_encoder_select_layers"), *entry;
    uint64_t state = 0;
    if (settings.result < 0 || !list) return settings.result;
    taps->count = taps->layers = 0;
    for (entry = list->first; entry; entry = entry->next) {
        if (taps->count == DITI_TAPS || !diti_json_u64(entry, &state) || state > 1024)
            return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                             "model_index.json: text_encoder_select_layers must be at most %u numbers of states from 0 "
                             "to 1024",
                             DITI_TAPS);
        taps->at[taps->count++] = (int32_t)state;
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_encoder_ask(const dit_model *model, diti_encoder *encoder, dit_error *err) {
    if (!diti_kind_is_decoder(encoder->kind)) return DIT_OK;
    encoder->chat = diti_families_chat(diti_json_string(model->index, "_class_name", ""));
    if (!encoder->chat && model->transformer) encoder->chat = model->transformer->traits.chat;
    if (!encoder->chat) encoder->chat = diti_chat_plain();
    if (model->transformer && model->transformer->traits.shown_area)
        encoder->picture_chat = encoder->chat->picture ? encoder->chat : model->transformer->traits.picture_chat;
    if (encoder->picture_chat) /* a token of 28 x 28 pixels, or more, sides that are rounded up, the text around it */
        encoder->picture_tokens = model->transformer->traits.shown_area / (28 * 28) * 9 / 8 + 64;
    encoder->taps = encoder->chat->taps;
    return diti_encoder_read_taps(model, &encoder->taps, err);
}

/* --- where results belong (docs/models.md 3) --- */

static const diti_encoder *diti_model_encoder(const dit_model *model, diti_encoder_kind kind) {
    uint32_t i;
    for (i = 0; i < DITI_ENCODERS && model->encoders[i].kind != kind; i++) {
    }
    return i < DITI_ENCODERS ? &model->encoders[i] : NULL;
}

/* Encoders alone: what the pipeline of the transformer that has such ones takes. */
static void diti_encoders_guess_texts(dit_model *model) {
    const diti_encoder *first = &model->encoders[0], *t5 = diti_model_encoder(model, DITI_ENCODER_T5),
                       *bert = diti_model_encoder(model, DITI_ENCODER_BERT),
                       *l = diti_model_encoder(model, DITI_ENCODER_CLIP_L),
                       *g = diti_model_encoder(model, DITI_ENCODER_CLIP_G);
    diti_text_shape *texts = model->texts;
    if (diti_kind_is_decoder(first->kind)) {
        texts[DITI_TEXT_FIRST].tokens = first->chat->tokens;
        texts[DITI_TEXT_FIRST].columns = diti_encoder_get_traits(first)->columns;
        texts[DITI_TEXT_POOLED].tokens = l != NULL;
        texts[DITI_TEXT_POOLED].columns = l ? diti_encoder_get_traits(l)->columns : 0;
        model->fixed_text = l || first->chat->padded;
        return;
    }
    model->fixed_text = bert || l || g;
    texts[DITI_TEXT_FIRST].tokens = bert ? 77 : g ? 77 + 256 : l ? 512 : 256;
    texts[DITI_TEXT_FIRST].columns = bert ? diti_encoder_get_traits(bert)->columns
                                     : t5 ? diti_encoder_get_traits(t5)->columns
                                          : 4096;
    if (bert && t5) {
        texts[DITI_TEXT_SECOND].tokens = 256;
        texts[DITI_TEXT_SECOND].columns = diti_encoder_get_traits(t5)->columns;
    }
    texts[DITI_TEXT_POOLED].tokens = l || g;
    if (l && g) /* projected both */
        texts[DITI_TEXT_POOLED].columns = diti_encoder_pooled(l) + diti_encoder_pooled(g);
    else if (l)
        texts[DITI_TEXT_POOLED].columns = diti_encoder_get_traits(l)->columns;
}

static void diti_encoders_read_texts(dit_model *model) {
    const diti_model_traits *traits;
    diti_text_shape *texts = model->texts;
    if (!model->transformer) {
        diti_encoders_guess_texts(model);
        return;
    }
    traits = &model->transformer->traits;
    model->fixed_text = traits->attends_padding;
    texts[DITI_TEXT_FIRST].tokens = traits->text_tokens;
    texts[DITI_TEXT_FIRST].columns = traits->text_columns;
    texts[DITI_TEXT_SECOND].tokens = traits->text2_tokens;
    texts[DITI_TEXT_SECOND].columns = traits->text2_columns;
    texts[DITI_TEXT_POOLED].tokens = traits->pooled_columns != 0;
    texts[DITI_TEXT_POOLED].columns = traits->pooled_columns;
}

/* T5's rows: all of a text, or those behind CLIP's. The tokenizer's config may allow less than the pipeline asks for,
   which counts but for fixed_tokens; where padding has rows of its own their number is the transformer's. */
static void diti_encoders_place_t5(dit_model *model, diti_encoder *encoder) {
    const diti_model_traits *traits = model->transformer ? &model->transformer->traits : NULL;
    bool sees = traits && traits->pictures_seen > 0 && !traits->seen_columns; /* text2 is no text */
    diti_text_shape *text;
    encoder->text = model->texts[DITI_TEXT_SECOND].tokens && !sees ? DITI_TEXT_SECOND : DITI_TEXT_FIRST;
    text = &model->texts[encoder->text];
    encoder->padding = traits ? traits->padding_rows : 0;
    encoder->row = diti_model_encoder(model, DITI_ENCODER_CLIP_G) ? DITI_CLIP_TOKENS : 0;
    if (!model->fixed_text && model->pipeline) text->tokens = model->pipeline->text_tokens;
    encoder->tokens = text->tokens - encoder->row;
    if (traits && traits->fixed_tokens) return;
    if (encoder->text == DITI_TEXT_SECOND || !encoder->limit || encoder->limit >= encoder->tokens) return;
    encoder->tokens = encoder->limit;
    text->tokens = encoder->row + encoder->limit;
}

/* A decoder's rows are all of the first text. Some that stand in front of the prompt in its chat template are left out;
   the tokenizer tells how many. */
static dit_result diti_encoders_place_decoder(dit_model *model, diti_encoder *encoder, dit_error *err) {
    diti_text_shape *text = &model->texts[DITI_TEXT_FIRST];
    encoder->text = DITI_TEXT_FIRST;
    encoder->dropped = 0;
    if (!encoder->chat) return DIT_OK;
    if (!model->fixed_text) text->tokens = encoder->chat->tokens;
    if (encoder->limit && encoder->limit < text->tokens) text->tokens = encoder->limit;
    if (encoder->tokenizer && *encoder->chat->dropped) {
        DITI_TRY(diti_tokenizer_count(encoder->tokenizer, encoder->chat->dropped, &encoder->dropped, err));
        if (encoder->tokenizer->begin >= 0) encoder->dropped++;
        if (encoder->chat->rules & DITI_CHAT_KEEPS_FIRST)
            encoder->dropped -= encoder->dropped > 2 ? 2 : encoder->dropped;
    }
    if (encoder->tokenizer && encoder->picture_chat && *encoder->picture_chat->dropped)
        DITI_TRY(
            diti_tokenizer_count(encoder->tokenizer, encoder->picture_chat->dropped, &encoder->picture_dropped, err));
    encoder->tokens = text->tokens + encoder->dropped;
    return DIT_OK;
}

/* CLIP-G's columns come last, whether CLIP-L is there or not. */
static void diti_encoders_place_clip(dit_model *model, diti_encoder *encoder) {
    const diti_encoder *l = diti_model_encoder(model, DITI_ENCODER_CLIP_L);
    uint32_t all = model->texts[DITI_TEXT_POOLED].columns, own;
    encoder->tokens = DITI_CLIP_TOKENS;
    encoder->text = diti_model_encoder(model, DITI_ENCODER_CLIP_G) ? DITI_TEXT_FIRST : DITI_TEXT_POOLED;
    own = diti_encoder_pooled(encoder);
    if (encoder->kind != DITI_ENCODER_CLIP_G) return;
    encoder->pooled = own < all ? all - own : 0;
    encoder->column = l && l->self ? diti_encoder_get_traits(l)->columns : encoder->pooled;
}

/* Qwen3 and Qwen3-VL have the same tensors, and so have Qwen2.5 and Qwen2.5-VL, but for the tower, which may be left
   out. Files that say what they are tell it. */
DIT_INTERNAL dit_result diti_encoder_check_kind(const diti_model_part *part, uint32_t index, diti_encoder_kind wanted,
                                                dit_error *err) {
    diti_encoder_kind found = diti_encoder_kind_of(part->checkpoint, part->prefix),
                      base = diti_encoder_loaded_as(wanted);
    const char *stated = diti_checkpoint_text(part->checkpoint, "general.architecture"),
               *said = diti_json_string(part->config, "model_type", stated ? stated : "");
    bool t5 = base == DITI_ENCODER_T5 || base == DITI_ENCODER_BYT5,
         sees = strstr(said, "vl") ||
                diti_model_find(part->checkpoint, part->prefix, "visual.patch_embed.proj.weight") ||
                diti_model_find(part->checkpoint, part->prefix, "model.visual.patch_embed.proj.weight");
    if (sees && found == DITI_ENCODER_QWEN3) found = DITI_ENCODER_QWEN3_VL;
    if (sees && found == DITI_ENCODER_QWEN2) found = DITI_ENCODER_QWEN2_VL;
    if (found == wanted || (found == base && strncmp(said, "qwen", 4)) || (found == DITI_ENCODER_NONE && !t5) ||
        (found == DITI_ENCODER_T5 && t5) || (found == DITI_ENCODER_LLAMA && base == DITI_ENCODER_MISTRAL) ||
        (found == DITI_ENCODER_CLIP_L && base == DITI_ENCODER_CLIP_G) || /* a small one */
        base == DITI_ENCODER_CONDITIONER || base == DITI_ENCODER_CONNECTORS)
        return DIT_OK;
    return diti_encoder_refuse(part->checkpoint, index, wanted, found, said, err);
}

/* Language models of one width are told apart by the tokens that they were published with. */
static dit_result diti_encoders_check_tokens(const dit_model *model, const diti_encoder *encoder, dit_error *err) {
    static const struct {
        uint32_t tokens;
        diti_encoder_kind kind;
    } published[] = {{32128, DITI_ENCODER_T5},       {250112, DITI_ENCODER_MT5},   {256384, DITI_ENCODER_UMT5},
                     {131072, DITI_ENCODER_MISTRAL}, {128256, DITI_ENCODER_LLAMA}, {128320, DITI_ENCODER_LLAMA}};
    uint32_t tokens = diti_encoder_get_traits(encoder)->vocabulary, index = (uint32_t)(encoder - model->encoders), i;
    const diti_encoder_kind wanted = diti_encoder_wanted(model, index);
    char by[32];
    for (i = 0; wanted != DITI_ENCODER_CONDITIONER && i < DITI_COUNT(published); i++) {
        if (published[i].tokens != tokens || published[i].kind == wanted) continue;
        diti_format(by, sizeof by, "%u tokens", tokens);
        return diti_encoder_refuse(encoder->checkpoint, index, wanted, published[i].kind, by, err);
    }
    return DIT_OK;
}

static dit_result diti_encoders_check(const dit_model *model, const diti_encoder *encoder, dit_error *err) {
    const diti_text_shape *text = &model->texts[encoder->text];
    uint32_t columns = diti_encoder_get_traits(encoder)->columns, wanted = text->columns;
    bool good = columns == wanted, clip = diti_encoder_is_clip(encoder);
    bool both = diti_model_encoder(model, DITI_ENCODER_CLIP_G) != NULL;
    if (diti_encoder_feeds(model, encoder)) {
        wanted = diti_encoder_get_traits(encoder + 1)->source;
        good = columns == wanted || !wanted;
    }
    DITI_TRY(diti_encoders_check_tokens(model, encoder, err));
    if (clip && both) { /* side by side: the other one's columns and zeros are beside it */
        const diti_encoder *other =
            diti_model_encoder(model, encoder->kind == DITI_ENCODER_CLIP_G ? DITI_ENCODER_CLIP_L : DITI_ENCODER_CLIP_G);
        columns = diti_encoder_pooled(encoder) + (other ? diti_encoder_pooled(other) : 0);
        wanted = model->texts[DITI_TEXT_POOLED].columns;
        good = (columns == wanted || (columns < wanted && !(other && other->self))) &&
               encoder->column + diti_encoder_get_traits(encoder)->columns <= text->columns;
    }
    if (good) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "the text encoder%s (%s) give%s %u channels, the transformer wants %u; they belong to different "
                     "models",
                     clip && both ? "s" : "", clip && both ? "CLIP" : diti_encoder_name(encoder->kind),
                     clip && both ? "" : "s", columns, wanted);
}

/* A token without an embedding would be read as nothing, and the picture be of something else. */
static dit_result diti_encoder_check_tokenizer(const diti_encoder *encoder, dit_error *err) {
    const uint32_t vocabulary = diti_encoder_get_traits(encoder)->vocabulary;
    const diti_piece_index *words = encoder->tokenizer ? &encoder->tokenizer->words : NULL;
    uint32_t i;
    for (i = 0; words && vocabulary && i < words->count; i++) {
        if (words->pieces[i].id < (int32_t)vocabulary) continue;
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "the tokenizer of %s has a token %d, the text encoder %u of them; they belong to different "
                         "models (%s in %s)",
                         diti_encoder_name(encoder->kind), words->pieces[i].id, vocabulary, encoder->tokenizer->name,
                         encoder->tokenizer_source ? encoder->tokenizer_source : "data");
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_encoders_place(dit_model *model, dit_error *err) {
    uint32_t i;
    diti_encoders_read_texts(model);
    for (i = 0; i < DITI_ENCODERS; i++) {
        diti_encoder *encoder = &model->encoders[i];
        if (encoder->kind == DITI_ENCODER_NONE) continue;
        if (encoder->kind == DITI_ENCODER_T5) diti_encoders_place_t5(model, encoder);
        if (diti_kind_is_decoder(encoder->kind)) DITI_TRY(diti_encoders_place_decoder(model, encoder, err));
        if (encoder->kind == DITI_ENCODER_BYT5) {
            encoder->text = DITI_TEXT_SECOND;
            encoder->tokens = model->texts[DITI_TEXT_SECOND].tokens;
        }
        if (encoder->kind == DITI_ENCODER_BERT || encoder->kind == DITI_ENCODER_CONDITIONER ||
            encoder->kind == DITI_ENCODER_CONNECTORS)
            encoder->tokens = model->texts[DITI_TEXT_FIRST].tokens;
        if (encoder->kind == DITI_ENCODER_CLIP_L || encoder->kind == DITI_ENCODER_CLIP_G)
            diti_encoders_place_clip(model, encoder);
        if (diti_encoder_weights(encoder) && model->transformer) DITI_TRY(diti_encoders_check(model, encoder, err));
        DITI_TRY(diti_encoder_check_tokenizer(encoder, err));
    }
    return DIT_OK;
}

DIT_INTERNAL uint32_t diti_encoders_missing(const dit_model *model) {
    bool lacks = model->transformer && model->transformer->traits.lacks_encoders;
    uint32_t i, found = 0, missing = 0, tokenizers = 0;
    for (i = 0; i < DITI_ENCODERS; i++) {
        const diti_encoder *encoder = &model->encoders[i];
        bool there = diti_encoder_weights(encoder) != NULL;
        if (encoder->kind == DITI_ENCODER_NONE) continue;
        if (there) found++;
        if (!there) missing |= 1u << (DIT_ROLE_TEXT_1 + (int)i);
        if (encoder->kind == DITI_ENCODER_CONNECTORS) continue; /* connectors read no tokens */
        if (!encoder->tokenizer && (there || !lacks)) tokenizers |= 1u << (DIT_ROLE_TOKENIZER_1 + (int)i);
    }
    return (lacks && found ? 0 : missing) | tokenizers;
}

DIT_INTERNAL uint32_t diti_encoders_left_out(const dit_model *model) {
    uint32_t i, out = 0;
    for (i = 0; i < DITI_ENCODERS; i++) {
        dit_role role = (dit_role)(DIT_ROLE_TEXT_1 + (int)i);
        if (diti_encoder_weights(&model->encoders[i]) && !diti_model_wants(model, role)) out |= 1u << (uint32_t)role;
    }
    return out;
}

DIT_INTERNAL dit_result diti_model_check_encoders(const dit_model *model, const char *member, dit_error *err) {
    static const char *const numbers[DITI_ENCODERS] = {"", "_2", "_3"};
    uint32_t missing = diti_encoders_missing(model), left_out = diti_encoders_left_out(model), i;
    char instead[200] = "", subject[40] = "";
    if (member) {
        diti_format(subject, sizeof subject, "%s is missing: ", member);
        diti_format(instead, sizeof instead,
                    "; give dit_job_desc.%s, what dit_encode_prompt made elsewhere, or embeddings among the inputs%s",
                    member, diti_equal(member, "conditioning") ? "" : ", or turn guidance off (scale 1)");
    }
    for (i = 0; i < DITI_ENCODERS; i++) {
        const char *name = diti_encoder_name(model->encoders[i].kind);
        bool encoder = (missing & 1u << (DIT_ROLE_TEXT_1 + (int)i)) != 0;
        bool tokenizer = (missing & 1u << (DIT_ROLE_TOKENIZER_1 + (int)i)) != 0;
        if (left_out & 1u << (DIT_ROLE_TEXT_1 + (int)i))
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%sdit_model_desc.parts left the %s text encoder out%s",
                             subject, name, instead);
        if (encoder || tokenizer)
            return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "%sthe model has no %s%s (%s%s): add the component%s",
                             subject, name, encoder ? " text encoder" : " tokenizer",
                             encoder ? "text_encoder" : "tokenizer", numbers[i], instead);
    }
    return DIT_OK;
}

/* Padding is left out where the transformer masks it, or, of encoders alone, where the first one can. */
DIT_INTERNAL bool diti_encoders_mask(const dit_model *model) {
    const diti_encoder *first = &model->encoders[0];
    if (model->transformer) return model->transformer->traits.masks_padding;
    return first->kind == DITI_ENCODER_BERT ||
           (diti_kind_is_decoder(first->kind) && model->texts[DITI_TEXT_POOLED].tokens);
}
