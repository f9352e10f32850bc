/* Requests: a job's desc, checked against the model and resolved to numbers, before any work. */
#include "job/job.h"

#define DITI_MAX_SIDE 16384u
#define DITI_MAX_STEPS 1000u

static dit_result diti_request_check_desc(const dit_job_desc *desc, dit_error *err) {
    if (!desc->model) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_desc: model is NULL");
    if (desc->input_count && !desc->inputs)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_desc: inputs is NULL, input_count is %u",
                         desc->input_count);
    if (desc->init_count && !desc->init_image)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_job_desc: init_image is NULL, init_count is %u",
                         desc->init_count);
    return DIT_OK;
}

static dit_result diti_request_check_guidance(const diti_model_traits *traits, const dit_guidance *guidance,
                                              dit_error *err) {
    if (!(guidance->scale >= 0 && guidance->scale <= 1000))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "guidance.scale is %g; it must be 0 (model default) to 1000",
                         (double)guidance->scale);
    if (!(guidance->low_scale >= 0 && guidance->low_scale <= 1000))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "guidance.low_scale is %g; it must be 0 (scale) to 1000",
                         (double)guidance->low_scale);
    if (guidance->distilled != 0 && !traits->wants_guidance)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_guidance: guidance is no input of this model; distilled must be 0");
    if (!(guidance->distilled >= 0 && guidance->distilled <= 1000))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "guidance.distilled is %g; it must be 0 (model default) to 1000", (double)guidance->distilled);
    if (!(guidance->rescale >= 0 && guidance->rescale <= 1) || !(guidance->project >= 0 && guidance->project <= 1))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_guidance: rescale %g and project %g must be 0 (off) to 1 (whole)",
                         (double)guidance->rescale, (double)guidance->project);
    if (!(guidance->norm_limit >= 0 && guidance->norm_limit <= 1e30f))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_guidance: norm_limit %g must be 0 (any) or more",
                         (double)guidance->norm_limit);
    if (!(guidance->length_limit >= 0 && guidance->length_limit <= 1e30f))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_guidance: length_limit %g must be 0 (any) or more",
                         (double)guidance->length_limit);
    if (guidance->first == 0 && guidance->last == 0) return DIT_OK;
    if (!(guidance->first >= 0 && guidance->first < guidance->last && guidance->last <= 1))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_guidance: first %g and last %g must be rising fractions of the steps, 0 to 1",
                         (double)guidance->first, (double)guidance->last);
    return DIT_OK;
}

static dit_result diti_request_parts(const dit_model *model, dit_error *err) {
    if (!model->transformer)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "the model has no transformer; load a whole pipeline or add the component");
    if (!model->device) return DIT_OK; /* the dry run plans what there is */
    if (!model->vae || !diti_vae_get_traits(model->vae)->has_decoder)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "the model has no VAE decoder; add the component");
    if (!diti_model_wants(model, DIT_ROLE_TRANSFORMER) || !diti_model_wants(model, DIT_ROLE_VAE))
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "dit_model_desc.parts left the transformer or the autoencoder out: such a model encodes prompts, "
            "and makes no pictures");
    return DIT_OK;
}

/* The nearest multiple of unit to side, at least unit and at most the limit. */
static uint32_t diti_nearest_multiple(uint32_t side, uint32_t unit) {
    uint32_t most = DITI_MAX_SIDE / unit * unit, below = side / unit * unit, nearest;
    if (side >= most) return most;
    nearest = side - below < unit - (side - below) ? below : below + unit;
    return nearest ? nearest : unit;
}

static dit_result diti_request_side(const char *name, uint32_t given, uint32_t standard, uint32_t unit, uint32_t *out,
                                    dit_error *err) {
    *out = given ? given : standard;
    if (*out % unit == 0 && *out <= DITI_MAX_SIDE) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "%s %u is not possible with this model: it must be a multiple of %u up to %u; the nearest is %u",
                     name, given, unit, DITI_MAX_SIDE / unit * unit, diti_nearest_multiple(given, unit));
}

static dit_result diti_request_size(const dit_model *model, const dit_job_desc *desc, diti_job_request *out,
                                    dit_error *err) {
    const dit_model_info *info = &model->info;
    uint32_t factor = diti_model_factor(model);
    DITI_TRY(diti_request_side("width", desc->width, info->default_width, info->size_multiple, &out->shape.width, err));
    DITI_TRY(
        diti_request_side("height", desc->height, info->default_height, info->size_multiple, &out->shape.height, err));
    out->latent_width = out->shape.width / factor;
    out->latent_height = out->shape.height / factor;
    out->shape.steps = desc->steps ? desc->steps : info->default_steps;
    out->shape.image_count = desc->image_count ? desc->image_count : 1;
    if (out->shape.steps > DITI_MAX_STEPS)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "steps is %u; at most %u are possible", out->shape.steps,
                         DITI_MAX_STEPS);
    if (out->shape.image_count > DITI_JOB_MAX_IMAGES) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "image_count is %u; one job makes at most %u, run more jobs for more", out->shape.image_count,
                         DITI_JOB_MAX_IMAGES);
    }
    return DIT_OK;
}

static dit_result diti_request_family(const dit_model *model, const dit_target *target, dit_error *err) {
    uint32_t family = target->dst_queue_family;
    bool external = family == VK_QUEUE_FAMILY_EXTERNAL || family == VK_QUEUE_FAMILY_FOREIGN_EXT;
    if (family == 0 || family == VK_QUEUE_FAMILY_IGNORED || !model->device || family == model->device->queue_family)
        return DIT_OK;
    if (external && (target->image || target->export_handle)) return DIT_OK;
    if (external)
        return diti_fail(
            err, DIT_ERROR_INVALID_ARGUMENT,
            "target.dst_queue_family: dit's own images leave the device with target.export_handle alone; ask for "
            "it, or give an image of yours");
    if (family < 64 && (model->device->families >> family & 1u)) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "target.dst_queue_family: the device was created without queues of family %u", family);
}

static dit_result diti_request_target(const dit_target *target, diti_job_request *out, dit_error *err) {
    switch (target->format) {
    case VK_FORMAT_UNDEFINED:
    case VK_FORMAT_R8G8B8A8_UNORM:
    case VK_FORMAT_R8G8B8A8_SRGB: break;
    case VK_FORMAT_B8G8R8A8_UNORM:
    case VK_FORMAT_B8G8R8A8_SRGB: out->shape.swap = true; break;
    case VK_FORMAT_R16G16B16A16_SFLOAT: out->shape.texels = DITI_TEXELS_LIGHT; break;
    case VK_FORMAT_R8_UNORM: out->shape.texels = DITI_TEXELS_GREY; break;
    default:
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "target.format %d is not possible; use an 8-bit RGBA or BGRA format, R16G16B16A16_SFLOAT or "
                         "R8_UNORM",
                         (int)target->format);
    }
    if (target->image && target->format == VK_FORMAT_UNDEFINED)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "target.image is given without its format");
    if (target->image && (target->usage || target->flags || target->export_handle))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "target.usage, flags and export_handle are about images of dit's, and target.image is yours");
    if (!target->image && (target->mip || target->layer))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "target.mip %u and layer %u: images of dit's have one of each; give an image of yours",
                         target->mip, target->layer);
    if (target->final_layout && !diti_is_layout(target->final_layout))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "target.final_layout %u is no VkImageLayout that an image can be brought into; use GENERAL, "
                         "or 0",
                         target->final_layout);
    if (target->image && out->shape.image_count > 1)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "target.image takes one picture; image_count must be 1");
    return DIT_OK;
}

/* --- masks --- */

/* -1: masks are not of that type. */
static float diti_mask_value(const dit_tensor *mask, uint64_t i) {
    dit_type type = mask->type == DIT_TYPE_STORED ? DIT_TYPE_F32 : mask->type;
    float value = -1;
    if (type == DIT_TYPE_F32 || type == DIT_TYPE_F16 || type == DIT_TYPE_BF16 || type == DIT_TYPE_I32 ||
        type == DIT_TYPE_I64)
        diti_type_to_float(type, (const uint8_t *)mask->data + i * diti_type_block_bytes(type), 1, &value);
    return value;
}

/* A mask of ones, then zeros: its number of ones. */
static dit_result diti_request_mask_length(const dit_tensor *mask, uint32_t tokens, uint32_t *length, dit_error *err) {
    uint64_t count = 1, i;
    uint32_t d;
    for (d = 0; d < mask->rank; d++) count *= mask->shape[d] <= tokens ? mask->shape[d] : (uint64_t)tokens + 1;
    if (count != tokens)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "input %s must have %u values, one per token of the embedding", mask->name, tokens);
    *length = 0;
    for (i = 0; i < tokens; i++) {
        float value = diti_mask_value(mask, i);
        if (value != 0 && value != 1)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                             "input %s must hold ones and zeros as I32, I64, F32, F16 or BF16", mask->name);
        if (value == 1 && *length != i)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "input %s must be ones followed by zeros", mask->name);
        *length += value == 1;
    }
    return DIT_OK;
}

/* prompt_embeds [1, tokens, columns] with its mask; pooled ones are [1, columns]. */
static dit_result diti_request_embeds(const diti_env *env, const dit_tensor *embeds, const dit_tensor *mask,
                                      bool pooled, diti_embedding *out, dit_error *err) {
    uint64_t tokens = pooled              ? 1
                      : embeds->rank >= 2 ? embeds->shape[embeds->rank - 2]
                                          : 0,
             columns = embeds->rank >= 2 ? embeds->shape[embeds->rank - 1] : 0;
    if (tokens == 0 || tokens > 65536 || columns == 0 || columns > 65536)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "input %s must have the shape [1, %schannels]", embeds->name,
                         pooled ? "" : "tokens, ");
    out->tokens = out->length = (uint32_t)tokens;
    out->columns = (uint32_t)columns;
    DITI_TRY(diti_request_floats(env, embeds, (size_t)(tokens * columns), &out->rows, err));
    DITI_TRY(diti_request_check_finite(embeds->name, out->rows, (size_t)(tokens * columns), err));
    return mask ? diti_request_mask_length(mask, out->tokens, &out->length, err) : DIT_OK;
}

/* The model works on a fixed number of token rows: shorter embeddings are padded with masked rows, longer ones must be
 * masked there. */
static dit_result diti_request_fit_tokens(const diti_env *env, const dit_model *model, const diti_text_shape *wanted,
                                          diti_embedding *text, dit_error *err) {
    uint32_t tokens = wanted->tokens, columns = wanted->columns;
    float *rows;
    if (text->columns != columns)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "the prompt embedding has %u channels, the model wants %u",
                         text->columns, columns);
    if (text->length > tokens)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "the prompt embedding has %u tokens, the model takes at most %u", text->length, tokens);
    if (text->tokens == tokens) return DIT_OK;
    if (model->fixed_text && !diti_encoders_mask(model))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "the prompt embedding has %u tokens, the model takes %u, padding among them", text->tokens,
                         tokens);
    rows = (float *)diti_alloc_array(env, (size_t)tokens * columns, sizeof *rows);
    if (!rows) return diti_fail_memory(err, "the prompt embedding");
    memcpy(rows, text->rows, (size_t)(text->tokens < tokens ? text->tokens : tokens) * columns * sizeof *rows);
    diti_free(env, text->rows);
    text->rows = rows;
    text->tokens = tokens;
    return DIT_OK;
}

/* The input that stands for a text of a branch, or for its mask; NULL: it is not given. */
static const dit_tensor *diti_request_text_input(const dit_job_desc *desc, uint32_t text, bool conditional, bool mask) {
    static const char *const names[2][DITI_TEXTS] = {
        {"negative_prompt_embeds", "negative_prompt_embeds_2", "negative_pooled_prompt_embeds"},
        {"negative_prompt_attention_mask", "negative_prompt_attention_mask_2", ""}};
    return diti_request_input(desc, names[mask][text] + (conditional && names[mask][text][0] ? 9 : 0));
}

static dit_result diti_request_given(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                     bool conditional, diti_conditioning *out, dit_error *err) {
    uint32_t i;
    dit_result result = DIT_OK;
    for (i = 0; i < DITI_TEXTS && result >= 0; i++) {
        const dit_tensor *embeds = diti_request_text_input(desc, i, conditional, false);
        const dit_tensor *mask = diti_request_text_input(desc, i, conditional, true);
        if (!model->texts[i].tokens || diti_text_is_seen(model, i)) continue;
        if (!embeds)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                             "input %s%s is missing: this model needs it beside the prompt embedding",
                             conditional ? "" : "negative_",
                             i == DITI_TEXT_POOLED   ? "pooled_prompt_embeds"
                             : i == DITI_TEXT_SECOND ? "prompt_embeds_2"
                                                     : "prompt_embeds");
        result = diti_request_embeds(env, embeds, mask, i == DITI_TEXT_POOLED, &out->texts[i], err);
    }
    return result;
}

/* Tokens of a branch that are read; where encoders leave padding out, those that are none. */
static void diti_request_lengths(const dit_model *model, uint32_t branch, diti_job_request *out) {
    uint32_t i;
    for (i = 0; i < 2; i++) {
        out->lengths[i][branch] = model->texts[i].tokens;
        if (model->fixed_text && !diti_encoders_mask(model)) continue;
        if (!out->shape.encodes[branch]) out->lengths[i][branch] = out->conditioning[branch].texts[i].length;
    }
    for (i = 0; i < DITI_ENCODERS && out->shape.encodes[branch]; i++) {
        const diti_encoder *encoder = &model->encoders[i];
        if (encoder->tokens && encoder->text != DITI_TEXT_POOLED && (!model->fixed_text || diti_encoders_mask(model)))
            out->lengths[encoder->text][branch] =
                diti_encoder_rows(encoder, out->tokens[i].lengths[branch], diti_references_rows(&out->shape)) -
                diti_encoder_dropped(encoder, diti_references_tokens(&out->shape) > 0);
    }
}

/* Replaces what a dry run lacks: without encoders a text is as if it were given, without tokenizers as long as can be.
 */
static void diti_request_estimate_text(const dit_model *model, uint32_t branch, diti_job_request *out) {
    const uint32_t encoders = 1u << DIT_ROLE_TEXT_1 | 1u << DIT_ROLE_TEXT_2 | 1u << DIT_ROLE_TEXT_3;
    uint32_t i;
    for (i = 0; i < 2; i++) out->lengths[i][branch] = model->texts[i].tokens;
    out->lengths[DITI_TEXT_FIRST][branch] += diti_references_tokens(&out->shape);
    for (i = 0; i < DITI_ENCODERS; i++) out->tokens[i].lengths[branch] = model->encoders[i].tokens;
    if ((diti_encoders_missing(model) & encoders) || diti_encoders_left_out(model)) out->shape.encodes[branch] = false;
}

static dit_result diti_request_branch(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                      uint32_t branch, bool conditional, diti_job_request *out, dit_error *err) {
    const char *member = conditional ? "conditioning" : "negative_conditioning";
    const void *blob = conditional ? desc->conditioning : desc->negative_conditioning;
    size_t size = conditional ? desc->conditioning_size : desc->negative_conditioning_size;
    diti_conditioning *given = &out->conditioning[branch];
    bool embeds = false;
    uint32_t i;
    for (i = 0; i < DITI_TEXTS; i++) {
        const dit_tensor *mask = diti_request_text_input(desc, i, conditional, true);
        bool here = diti_request_text_input(desc, i, conditional, false) != NULL;
        embeds = embeds || here;
        if (mask && !here)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                             "input %s is given without the embedding that it is about; leave it out, or give both",
                             mask->name);
    }
    if (embeds)
        DITI_TRY(diti_request_given(model, env, desc, conditional, given, err));
    else if (blob)
        DITI_TRY(diti_conditioning_from_blob(env, member, blob, size, given, err));
    for (i = 0; i < DITI_TEXTS && (embeds || blob); i++)
        if ((model->texts[i].tokens || given->texts[i].tokens) && !diti_text_is_seen(model, i))
            DITI_TRY(diti_request_fit_tokens(env, model, &model->texts[i], &given->texts[i], err));
    out->shape.null_text = out->shape.null_text || (!conditional && model->transformer->traits.null_text && !embeds &&
                                                    !blob && !desc->negative_prompt);
    if (!conditional && out->shape.null_text) return DIT_OK;
    out->shape.encodes[branch] = !embeds && !blob;
    if (!model->device && out->shape.encodes[branch] &&
        (diti_encoders_missing(model) || diti_encoders_left_out(model))) {
        diti_request_estimate_text(model, branch, out);
        return DIT_OK;
    }
    if (out->shape.encodes[branch]) {
        DITI_TRY(diti_model_check_encoders(model, member, err));
        DITI_TRY(diti_prompt_tokens_make(model, env, &out->shape, conditional ? desc->prompt : desc->negative_prompt,
                                         branch, !conditional, out->tokens, err));
    }
    diti_request_lengths(model, branch, out);
    if (out->shape.encodes[branch] && diti_prompt_tokens_weighted(model, branch, out->tokens))
        out->shape.weighted = true;
    return DIT_OK;
}

/* Where texts have no fixed length: which rows are made, and how many of them are read. The unconditional branch may
   read as many as the other one: of its own prompt, padding among them, or of the model's text in place of one. */
static void diti_request_align_text(const dit_model *model, uint32_t branches, diti_job_request *out) {
    uint32_t *lengths = out->lengths[DITI_TEXT_FIRST], branch;
    for (branch = 0; branch < branches; branch++) {
        bool whole = out->shape.encodes[branch] && diti_prompts_read_padding(model);
        out->encoded[branch] = whole ? model->texts[DITI_TEXT_FIRST].tokens : lengths[branch];
    }
    if (branches < 2 || model->fixed_text) return;
    if (out->shape.null_text) {
        out->encoded[0] = 0;
        lengths[0] = lengths[1];
    } else if (model->transformer->traits.crops_text && out->shape.encodes[0]) {
        if (lengths[1] > out->encoded[0]) out->encoded[0] = lengths[1];
        lengths[0] = lengths[1];
    }
}

static void diti_request_count_rows(uint32_t tokens, uint32_t branches, diti_job_request *out) {
    uint32_t encoded = 0, given = 0, encodes = 0, gives = 0, branch;
    for (branch = out->shape.null_text || out->shape.bare ? 1 : 0; branch < branches; branch++) {
        *(out->shape.encodes[branch] ? &encodes : &gives) += 1;
        *(out->shape.encodes[branch] ? &encoded : &given) += out->encoded[branch];
    }
    if (encodes) out->shape.encoded_rows = diti_conditioning_rows(encoded, encodes * tokens);
    if (gives) out->shape.given_rows = diti_conditioning_rows(given, gives * tokens);
}

/* Rows that an evaluation has for each text, or each second text: as many as the longest one needs. */
static uint32_t diti_request_text_rows(const dit_model *model, uint32_t branches, uint32_t text,
                                       const diti_job_request *out) {
    uint32_t unit = model->transformer->traits.text_unit, longest = text == DITI_TEXT_FIRST ? 1 : 0, branch;
    if (!unit) return model->texts[text].tokens;
    for (branch = 0; branch < branches && model->texts[text].tokens; branch++)
        if (out->lengths[text][branch] > longest) longest = out->lengths[text][branch];
    return (longest + unit - 1) / unit * unit;
}

/* Layers of CLIP count where its states are used, not its pooled output alone. */
static dit_result diti_request_clip_skip(const dit_model *model, const dit_job_desc *desc, diti_job_request *out,
                                         dit_error *err) {
    uint32_t i, layers = 0;
    for (i = 0; i < DITI_ENCODERS; i++) {
        const diti_encoder *encoder = &model->encoders[i];
        uint32_t own = diti_encoder_is_clip(encoder) && encoder->text != DITI_TEXT_POOLED
                           ? diti_encoder_get_traits(encoder)->layers
                           : 0;
        if (own && (!layers || own < layers)) layers = own;
    }
    out->shape.clip_skip = desc->clip_skip;
    if (desc->clip_skip < layers || !desc->clip_skip) return DIT_OK;
    if (layers)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: clip_skip is %u; the model's CLIP has %u layers, so at most %u can be left out",
                         desc->clip_skip, layers, layers - 1);
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "dit_job_desc: this model uses no layers of a CLIP encoder; clip_skip must be 0");
}

/* Prompts and what was made of them have no tokens of the picture. */
static dit_result diti_request_sees(const dit_model *model, const dit_job_desc *desc, uint32_t branches,
                                    dit_error *err) {
    uint32_t branch;
    if (!model->transformer->traits.pictures_seen || model->image_encoder) return DIT_OK;
    if (model->transformer->traits.seen_columns)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "this model (%s %s) reads the picture that it moves by an image encoder, and has none: add "
                         "the component (image_encoder, DIT_ROLE_IMAGE_ENCODER)",
                         model->info.family, model->info.variant);
    for (branch = 0; branch < branches; branch++)
        if (!diti_request_text_input(desc, DITI_TEXT_FIRST, branch + 1 == branches, false) ||
            !diti_request_text_input(desc, DITI_TEXT_SECOND, branch + 1 == branches, false))
            return diti_fail(
                err, DIT_ERROR_UNSUPPORTED_MODEL,
                "this model (%s %s) reads the picture that it moves by an image encoder, and has none: add "
                "the component (image_encoder, DIT_ROLE_IMAGE_ENCODER), or give prompt_embeds and "
                "prompt_embeds_2, for both branches of guidance",
                model->info.family, model->info.variant);
    return DIT_OK;
}

static dit_result diti_request_text(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                    diti_job_request *out, dit_error *err) {
    uint32_t branches = diti_job_branches(&out->shape), branch;
    dit_result result;
    DITI_TRY(diti_request_clip_skip(model, desc, out, err));
    if (model->transformer->traits.class_count) return diti_job_request_classes(model, desc, out, err);
    if (desc->class_labels)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: this model is prompted by text; class_labels must be NULL");
    DITI_TRY(diti_request_sees(model, desc, branches, err));
    result = diti_prompt_tokens_alloc(model, env, desc->prompt_weights, out->tokens, err);
    for (branch = out->shape.bare ? 1 : 0; branch < branches && result >= 0; branch++)
        result = diti_request_branch(model, env, desc, branch, branch + 1 == branches, out, err);
    diti_request_align_text(model, branches, out);
    diti_request_count_rows(model->texts[DITI_TEXT_FIRST].tokens + diti_references_tokens(&out->shape), branches, out);
    out->shape.text_rows = diti_request_text_rows(model, branches, DITI_TEXT_FIRST, out);
    out->shape.text2_rows = diti_request_text_rows(model, branches, DITI_TEXT_SECOND, out);
    return result;
}

/* --- schedule --- */

static dit_result diti_request_schedule(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                        diti_job_request *out, dit_error *err) {
    diti_schedule_request wanted;
    uint32_t patch = model->transformer->traits.patch, i;
    memset(&wanted, 0, sizeof wanted);
    wanted.steps = out->shape.steps;
    wanted.sampler = desc->sampler ? desc->sampler : model->transformer->traits.sampler;
    wanted.schedule = desc->schedule;
    wanted.shift = desc->shift != 0 ? desc->shift : model->transformer->traits.fixed_shift;
    wanted.strength = out->strength;
    wanted.takes_whole = out->shape.clip;
    wanted.eta = desc->eta;
    wanted.uniform = model->transformer->traits.uniform_sigmas;
    wanted.quadratic = model->transformer->traits.quadratic_sigmas && !desc->schedule;
    wanted.measured_shift = model->transformer->traits.measured_shift;
    if (!desc->schedule) wanted.sigma = model->transformer->traits.sigma;
    if (wanted.steps == model->sigma_count && !desc->schedule) {
        wanted.sigmas = model->sigmas;
        wanted.sigma_count = model->sigma_count;
    } else if (wanted.steps == model->transformer->traits.distilled_steps && !out->shape.guided && !desc->schedule &&
               desc->shift == 0) {
        wanted.sigmas = model->transformer->traits.distilled_sigmas;
        wanted.sigma_count = wanted.steps;
        wanted.exact = true;
    }
    wanted.width = out->shape.width;
    wanted.height = out->shape.height;
    wanted.frames = out->shape.frames;
    wanted.image_tokens = (out->latent_width / patch) * (out->latent_height / patch) *
                          (out->shape.latent_frames - out->shape.sound_frames);
    if (model->transformer->traits.patch_frames > 1) wanted.image_tokens /= model->transformer->traits.patch_frames;
    DITI_TRY(diti_schedule_make(env, model->scheduler, &wanted, &out->schedule, err));
    out->shape.steps = out->schedule.count;
    out->shape.stochastic = out->schedule.draws;
    out->shape.has_y = out->schedule.has_y;
    out->shape.has_h3 = out->schedule.has_h3;
    out->shape.learned = out->schedule.learned;
    if (out->shape.learned && model->transformer->traits.out_channels != 2 * model->transformer->traits.latent_channels)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "scheduler_config.json: variance_type: learned_range, but this transformer predicts no "
                         "variance; choose another sampler than ddpm");
    for (i = 0; i < out->schedule.count; i++) {
        if (out->schedule.steps[i].input != 1) out->shape.scaled_input = true;
    }
    return DIT_OK;
}

/* Models that are usually run without guidance (FLUX.1) are guided only away from something, as in diffusers. */
static bool diti_request_guided(const dit_model *model, const diti_env *env, const dit_job_desc *desc, float scale) {
    bool negative =
        desc->negative_prompt || desc->negative_conditioning || diti_request_input(desc, "negative_prompt_embeds");
    if (model->guides_apart && negative && !(desc->negative_prompt && !*desc->negative_prompt))
        diti_log(env, DITI_LOG_WARNING,
                 "a negative prompt has no effect on this model, whose unconditional transformer reads no text");
    if (scale == 1.0f || negative || model->transformer->traits.default_guidance != 1.0f) return scale != 1.0f;
    diti_log(env, DITI_LOG_WARNING, "guidance.scale %g has no effect without a negative prompt on this model",
             (double)scale);
    return false;
}

/* Why rows cannot be divided: a prompt leaves rows of its place empty. NULL: none does. */
static const char *diti_job_uneven(const dit_model *model, const diti_job_request *request) {
    uint32_t branch, unit = model->transformer->traits.text_unit;
    if (!unit || !model->transformer->traits.joint || model->transformer->traits.prefixes) return NULL;
    for (branch = request->shape.bare ? 1 : 0; branch < diti_job_branches(&request->shape); branch++)
        if ((request->lengths[DITI_TEXT_FIRST][branch] + unit - 1) / unit * unit < request->shape.text_rows ||
            request->lengths[DITI_TEXT_SECOND][branch] < request->shape.text2_rows)
            return "devices and patches that divide rows need as many rows of text for each prompt: divide by cfg2, "
                   "tensor or layers alone, or make the prompts as long";
    return NULL;
}

DIT_INTERNAL const char *diti_job_strips_uneven(const dit_model *model, const diti_job_request *request) {
    return diti_strips_used(&request->shape) ? diti_job_uneven(model, request) : NULL;
}

DIT_INTERNAL const char *diti_job_unsplit(const dit_model *model, const diti_job_request *request) {
    const diti_split *split = &request->shape.split;
    const diti_model_traits *traits = &model->transformer->traits;
    uint32_t ranks = split->degree[DITI_SPLIT_ULYSSES] * split->degree[DITI_SPLIT_RING];
    uint32_t texts = request->shape.text_rows ? request->shape.text_rows : model->texts[DITI_TEXT_FIRST].tokens;
    bool by_frame = traits->divided || request->shape.hold_count || request->shape.fixes;
    if (traits->divided && (split->degree[DITI_SPLIT_RING] > 1 || diti_strips_used(&request->shape)))
        return "ring and pipefusion move keys of all rows, and models with attention within frames and within positions "
               "by turns exchange frames for positions; ulysses does, and cfg, tensor and layers can";
    if (by_frame && diti_strips_used(&request->shape))
        return "PipeFusion's patches are no whole frames, which frames with timesteps of their own need";
    if (by_frame && ranks > request->shape.latent_frames)
        return "ulysses and ring give each device whole latent frames of such a clip, which has fewer than devices";
    if (traits->whole_rows && (ranks > 1 || diti_strips_used(&request->shape)))
        return "this model's blocks read all rows of a picture at once, so that no ulysses, ring or pipefusion divides "
               "them; cfg, tensor and layers can";
    if (traits->divided && ranks > diti_request_positions(model, request))
        return "ulysses gives each device positions of a frame, which has fewer than devices";
    if (traits->prefixes && diti_strips_used(&request->shape))
        return "PipeFusion keeps keys and values of its patches, and this model those of the text besides; choose another "
               "split";
    if (request->shape.keeps_references && diti_strips_used(&request->shape))
        return "PipeFusion evaluates references with its first patch, and this job keeps their keys and values; choose "
               "another split, or leave cache away";
    if (model->low && diti_strips_used(&request->shape))
        return "PipeFusion keeps keys and values of one transformer, and this model has two experts";
    if (request->shape.bare && diti_strips_used(&request->shape))
        return "PipeFusion keeps keys and values of one transformer, and this model guides by another one; cfg2 gives each "
               "a device";
    if (split->degree[DITI_SPLIT_PIPEFUSION] > 1 && request->shape.norms_tokens)
        return "this model's guidance must look at whole pictures, of which PipeFusion has a part; choose another "
               "split, or a guidance.scale of 1";
    if (split->degree[DITI_SPLIT_PIPEFUSION] > 1 && request->shape.mixed)
        return "guidance.rescale, project, norm_limit and length_limit look at whole pictures, of which PipeFusion has a part";
    if (diti_strips_used(&request->shape) && request->guidance.skip_layer > 0)
        return "PipeFusion has no skip-layer guidance; skip_layer must be 0";
    if (request->shape.split.shard && split->degree[DITI_SPLIT_CFG] > 1 &&
        (request->guidance.skip_layer > 0 || request->guidance.first > 0 || request->guidance.last > 0 ||
         request->shape.reuse.gate > 0))
        return "shard needs both branches of guidance in every step: without an interval, and without skip_layer";
    if (request->shape.split.shard && traits->joint && (request->shape.loras || model->low_ranks[0]) && texts < ranks)
        return "shard needs a row of the text on every device where LoRAs or low-rank parts are used; leave shard away, "
               "or make the prompt longer";
    return ranks > 1 ? diti_job_uneven(model, request) : diti_job_strips_uneven(model, request);
}

static void diti_request_take_plan(const diti_split_plan *plan, diti_job_shape *out) {
    uint32_t rank;
    out->split = plan->split;
    out->strips = plan->strips;
    out->warmup = plan->warmup;
    out->int8_payload = plan->int8;
    out->int8_feedback = plan->feedback;
    out->int8_kept = plan->kept_int8;
    out->any = plan->any;
    for (rank = 0; rank < DITI_MAX_DEVICES; rank++) out->shares[rank] = plan->shares[rank];
}

/* PipeFusion, on one device too: bands of whole rows of tokens, or of frames where tokens are several frames deep, each
   for all devices of a sequence. */
DIT_INTERNAL dit_result diti_job_check_strips(const dit_model *model, const diti_job_request *request, dit_error *err) {
    const diti_split *split = &request->shape.split;
    const diti_model_traits *traits = &model->transformer->traits;
    uint32_t rows = request->latent_height / traits->patch, columns = request->latent_width / traits->patch;
    uint32_t frames = request->shape.latent_frames, strips = request->shape.strips;
    bool deep = traits->patch_frames > 1;
    uint32_t units = deep ? frames / traits->patch_frames : frames * rows, tokens = deep ? rows * columns : columns;
    uint32_t ranks = split->degree[DITI_SPLIT_ULYSSES] * split->degree[DITI_SPLIT_RING];
    char name[DITI_SPLIT_NAME];
    const char *why = NULL;
    diti_split_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.split = *split;
    plan.strips = strips;
    plan.warmup = request->shape.warmup;
    plan.int8 = request->shape.int8_payload;
    plan.feedback = request->shape.int8_feedback;
    plan.kept_int8 = request->shape.int8_kept;
    if (!diti_strips_used(&request->shape)) return DIT_OK;
    if (request->guidance.skip_layer > 0)
        why = "PipeFusion keeps nothing of evaluations without some blocks; skip_layer must be 0";
    else if (request->shape.warmup == 0)
        why = "PipeFusion needs a step of warm-up at least";
    else if (strips > 1 && request->latent_width * traits->patch % 4)
        why = "PipeFusion's patches are whole lines of a latent, which are no multiple of four long here; choose "
              "another width";
    diti_split_print_plan(&plan, name);
    if (why) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "split %s: %s", name, why);
    if (strips <= units && strips <= DITI_MAX_STRIPS && ranks <= units / strips * tokens) return DIT_OK;
    return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                     "split %s: %u patches of %u %s of %u tokens; at most %u, of a %s or more, are possible", name,
                     strips, units, deep ? "frames" : "rows", tokens, DITI_MAX_STRIPS, deep ? "frame" : "row");
}

static dit_result diti_request_split(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                     diti_job_request *out, dit_error *err) {
    diti_split *split = &out->shape.split;
    diti_split_plan plan;
    diti_split_shape shape;
    const char *why;
    char name[DITI_SPLIT_NAME];
    uint32_t axis;
    DITI_TRY(diti_split_take(env, desc->split ? desc->split : "cfg1", &plan, err));
    diti_request_take_plan(&plan, &out->shape);
    if (diti_split_ranks(split) == 1) return diti_job_check_strips(model, out, err);
    why = diti_job_unsplit(model, out);
    if (!split->degree[0]) { /* auto */
        for (axis = 0; axis < DITI_SPLIT_AXES && why; axis++) split->degree[axis] = 1;
        return DIT_OK;
    }
    diti_job_split_shape(model, out, &shape);
    if (why) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "split %s: %s", diti_split_print_plan(&plan, name), why);
    DITI_TRY(diti_split_check_plan(&plan, &shape, err));
    return diti_job_check_strips(model, out, err);
}

static dit_result diti_request_preview(const dit_model *model, const dit_job_desc *desc, diti_job_request *out,
                                       dit_error *err) {
    bool tiny = model->tae || (model->vae && diti_vae_get_traits(model->vae)->tiny);
    diti_colors colors;
    if ((int)desc->preview < DIT_PREVIEW_DEFAULT || (int)desc->preview > DIT_PREVIEW_VAE)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "preview %d is unknown", (int)desc->preview);
    out->shape.preview_interval = desc->preview_interval;
    if (!desc->preview_interval) return DIT_OK;
    out->shape.preview = desc->preview ? desc->preview : model->tae ? DIT_PREVIEW_TAE : DIT_PREVIEW_VAE;
    if (out->shape.preview == DIT_PREVIEW_TAE && !tiny)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "preview wants a tiny autoencoder, and the model has none: add its file as a component with "
                         "the role DIT_ROLE_TAE");
    if (out->shape.preview == DIT_PREVIEW_PROJ && !diti_model_colors(model, &colors))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "preview wants the colours of latents, and nobody has published those of a model of family "
                         "%s: take DIT_PREVIEW_TAE or DIT_PREVIEW_VAE",
                         model->info.family);
    return DIT_OK;
}

/* In place of the noise that is drawn. */
static dit_result diti_request_noise_input(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                           diti_job_request *out, dit_error *err) {
    const dit_tensor *given = diti_request_input(desc, "noise");
    size_t values = model->transformer->traits.latent_channels * diti_request_plane(out) * out->shape.image_count;
    if (!given) return DIT_OK;
    DITI_TRY(diti_request_floats(env, given, values, &out->noise_input, err));
    return diti_request_check_finite("noise", out->noise_input, values, err);
}

/* In place of the noise that the model's pipeline adds to a picture which is a clip's first frame. */
static dit_result diti_request_picture_noise(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                             diti_job_request *out, dit_error *err) {
    const dit_tensor *given = diti_request_input(desc, "image_cond_noise_scale");
    float *scale = NULL;
    out->first_scale = out->shape.fixes ? model->transformer->traits.picture_noise : 0;
    if (given && !(out->first_scale > 0))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "input image_cond_noise_scale is about the picture that a clip of LTX-Video 0.9.5 and later "
                         "begins with, which this job has not; leave it out");
    if (given) {
        DITI_TRY(diti_request_floats(env, given, 1, &scale, err));
        out->first_scale = *scale;
        diti_free(env, scale);
        if (!(out->first_scale >= 0 && out->first_scale <= 1000))
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                             "input image_cond_noise_scale is %g; it must be 0 (no noise) to 1000",
                             (double)out->first_scale);
    }
    out->shape.noisy_first = out->first_scale > 0;
    return DIT_OK;
}

static dit_result diti_request_fill(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                    const diti_job_request *before, diti_job_request *out, dit_error *err) {
    DITI_TRY(diti_request_check_desc(desc, err));
    DITI_TRY(diti_request_check_inputs(desc, err));
    DITI_TRY(diti_request_parts(model, err));
    DITI_TRY(diti_request_check_guidance(&model->transformer->traits, &desc->guidance, err));
    if (desc->guidance.low_scale > 0 && !model->low && !model->guides_apart)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "guidance.low_scale is that of an expert for low noise, which this model lacks; it must be 0");
    DITI_TRY(diti_job_request_cache(model, desc, out, err));
    DITI_TRY(diti_request_size(model, desc, out, err));
    DITI_TRY(diti_job_request_clip(model, desc, out, err));
    if (diti_request_input(desc, "image_latents") && (out->shape.clip || model->transformer->traits.repaint_channels))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "input image_latents: this model (%s %s) %s; leave it out",
                         model->info.family, model->info.variant,
                         out->shape.clip ? "makes clips, which begin with frames"
                                         : "repaints a picture, which is given as init_image");
    if (out->latent_width * out->latent_height * out->shape.latent_frames == 1)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "width %u and height %u: the latent would be a single pixel; give a larger width or height",
                         out->shape.width, out->shape.height);
    DITI_TRY(diti_request_target(&desc->target, out, err));
    DITI_TRY(diti_request_family(model, &desc->target, err));
    if (model->device)
        DITI_TRY(diti_image_check(model->device, &desc->target, out->shape.width, out->shape.height,
                                  out->shape.clip && desc->target.format ? out->shape.frames : 1, err));
    if (model->transformer->traits.repaint_channels)
        DITI_TRY(diti_job_request_repaint(model, desc, out, err));
    else
        DITI_TRY(out->shape.clip ? DIT_OK : diti_job_request_start(model, env, desc, out, err));
    DITI_TRY(diti_job_request_control(model, desc, out, err));
    DITI_TRY(out->shape.clip && model->transformer->branch
                 ? diti_job_request_branch(model, desc, out, err)
                 : diti_job_request_given(model, env, desc, before, out, err));
    DITI_TRY(diti_request_picture_noise(model, env, desc, out, err));
    out->guidance = desc->guidance;
    if (out->guidance.scale == 0 && out->guidance.low_scale == 0)
        out->guidance.low_scale = model->info.default_low_guidance;
    if (model->guides_apart && out->guidance.low_scale > 0) out->late_steps = (out->shape.steps + 15) / 16;
    if (out->guidance.scale == 0) out->guidance.scale = model->info.default_guidance;
    if (out->guidance.distilled == 0) out->guidance.distilled = model->transformer->traits.default_distilled;
    out->shape.guided = diti_request_guided(
        model, env, desc,
        out->guidance.scale == 1 && out->guidance.low_scale > 0 ? out->guidance.low_scale : out->guidance.scale);
    out->shape.bare = out->shape.guided && model->guides_apart;
    if (out->shape.bare && !model->unconditional)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "guidance.scale %g needs the transformer of the unconditional branch, which the model lacks: "
                         "add it as a component with the role DIT_ROLE_TRANSFORMER_2, or give a scale of 1",
                         (double)out->guidance.scale);
    DITI_TRY(diti_job_request_skipping(model, out, err));
    out->shape.mixed = out->shape.guided && (out->guidance.rescale > 0 || out->guidance.project > 0 ||
                                             out->guidance.norm_limit > 0 || out->guidance.length_limit > 0);
    DITI_TRY(diti_modal_request(model, desc, out, err));
    out->shape.norms_tokens = out->shape.guided && !out->shape.mixed &&
                              !(model->transformer->traits.shortens_tokens && out->shape.reference_count) &&
                              (model->transformer->traits.norms_tokens || model->transformer->traits.norms_lines);
    DITI_TRY(diti_request_preview(model, desc, out, err));
    out->shape.resumes = desc->resume_on_loss;
    out->shape.keeps = desc->keep_state || desc->state;
    out->shape.vae_tile = desc->vae_tile ? desc->vae_tile / diti_model_factor(model) : 0;
    if (desc->vae_tile && out->shape.vae_tile < DITI_VAE_LEAST_TILE) out->shape.vae_tile = DITI_VAE_LEAST_TILE;
    out->seed = desc->seed;
    out->rng = desc->rng;
    if ((int)desc->rng < DIT_RNG_DEFAULT || (int)desc->rng > DIT_RNG_PHILOX)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "rng %d is unknown", (int)desc->rng);
    DITI_TRY(diti_loras_request(model, desc, out, err));
    DITI_TRY(diti_request_split(model, env, desc, out, err));
    DITI_TRY(diti_request_schedule(model, env, desc, out, err));
    DITI_TRY(diti_job_request_frames(env, out, err));
    diti_control_request_sets(out);
    DITI_TRY(diti_job_request_reuse(model, env, desc, out, err));
    if (out->shape.keeps && (out->shape.reuse.policy || out->shape.loop_count > 1))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_job_desc: %s needs more than keep_state and state hold; leave one of them out",
                         out->shape.reuse.policy ? "cache" : "loop_count");
    diti_job_request_kinds(env, out);
    DITI_TRY(diti_request_noise_input(model, env, desc, out, err));
    return diti_request_text(model, env, desc, out, err);
}

DIT_INTERNAL dit_result diti_job_request_make(const dit_model *model, const diti_env *env, const dit_job_desc *desc,
                                              const diti_job_request *before, diti_job_request *out, dit_error *err) {
    dit_result result;
    memset(out, 0, sizeof *out);
    result = diti_request_fill(model, env, desc, before, out, err);
    if (result < 0) diti_job_request_free(env, out);
    return result;
}

/* The member for pictures `i`, and how many they are; NULL: there are no more. */
static const dit_image **diti_request_picture(diti_job_request *request, uint32_t i, uint32_t *count) {
    *count = 1;
    if (i < DITI_MAX_REFERENCES) return &request->reference_images[i];
    if (i - DITI_MAX_REFERENCES < DITI_MAX_CONTROLS) return &request->net_images[i - DITI_MAX_REFERENCES];
    switch (i - DITI_MAX_REFERENCES - DITI_MAX_CONTROLS) {
    case 0:
        if (request->shape.branch) *count = request->shape.frames;
        return &request->control_image;
    case 1:
        if (request->start_count) *count = request->start_count;
        return &request->start;
    case 2:
        if (request->mask_count) *count = request->mask_count;
        return &request->mask;
    }
    return NULL;
}

static size_t diti_request_line(const dit_image *image) { return (size_t)image->width * (image->rgb ? 12 : 4); }

/* NULL: no memory. The pixels stand behind the structs. */
static dit_image *diti_request_copy_pictures(const diti_env *env, const dit_image *images, uint32_t count) {
    size_t size = count * sizeof *images, pixels, y;
    dit_image *copies;
    uint8_t *to;
    uint32_t i;
    for (i = 0; i < count; i++, size += pixels)
        if (!diti_mul_size(diti_request_line(&images[i]), images[i].height, &pixels) || pixels > SIZE_MAX - size)
            return NULL;
    copies = (dit_image *)diti_alloc(env, size);
    if (!copies) return NULL;
    to = (uint8_t *)(copies + count);
    for (i = 0; i < count; i++) {
        size_t line = diti_request_line(&images[i]), pitch = images[i].row_pitch ? images[i].row_pitch : line;
        const uint8_t *from = images[i].rgb ? (const uint8_t *)(const void *)images[i].rgb : images[i].rgba;
        copies[i] = images[i];
        copies[i].row_pitch = line;
        copies[i].rgba = images[i].rgb ? NULL : to;
        copies[i].rgb = images[i].rgb ? (const float *)(const void *)to : NULL;
        for (y = 0; y < images[i].height; y++, to += line) memcpy(to, from + y * pitch, line);
    }
    return copies;
}

DIT_INTERNAL dit_result diti_request_keep_pictures(const diti_env *env, diti_job_request *request, dit_error *err) {
    const dit_image **picture;
    bool copied = true;
    uint32_t i, count;
    if (request->keeps_pictures) return DIT_OK;
    for (i = 0; (picture = diti_request_picture(request, i, &count)) != NULL; i++) {
        bool copies = *picture && (*picture)->rgba; /* a VkImage is read where it is */
        *picture = copies && copied ? diti_request_copy_pictures(env, *picture, count) : NULL;
        copied = copied && (*picture || !copies);
    }
    for (i = 0; i < request->shape.given_count; i++) {
        const dit_image **given = &request->given_images[i];
        bool copies = *given != NULL;
        *given = copies && copied ? diti_request_copy_pictures(env, *given, request->shape.given[i].pictures) : NULL;
        copied = copied && (*given || !copies);
    }
    request->keeps_pictures = true;
    return copied ? DIT_OK : diti_fail_memory(err, "copies of the pictures that the job was given");
}

DIT_INTERNAL void diti_request_drop_pictures(const diti_env *env, diti_job_request *request) {
    const dit_image **picture;
    uint32_t i, count;
    for (i = 0; (picture = diti_request_picture(request, i, &count)) != NULL; i++) {
        if (request->keeps_pictures) diti_free(env, (void *)(uintptr_t)*picture);
        *picture = NULL;
    }
    for (i = 0; i < DITI_JOB_MAX_GIVEN; i++) {
        if (request->keeps_pictures) diti_free(env, (void *)(uintptr_t)request->given_images[i]);
        request->given_images[i] = NULL;
    }
    diti_free(env, request->previous);
    request->previous = NULL;
    request->keeps_pictures = false;
}

DIT_INTERNAL void diti_job_request_free(const diti_env *env, diti_job_request *request) {
    diti_request_drop_pictures(env, request);
    diti_schedule_free(env, &request->schedule);
    diti_free(env, request->noise_input);
    diti_free(env, request->noise);
    diti_free(env, request->start_latents);
    diti_free(env, request->start_noise);
    diti_free(env, request->step_noise);
    diti_free(env, request->reuse_rows);
    diti_free(env, request->reuses);
    diti_free(env, request->sources);
    diti_free(env, request->frame_mask);
    diti_free(env, request->frame_steps);
    diti_free(env, request->renoise);
    diti_free(env, request->given_noise);
    diti_free(env, request->first_noise);
    diti_free(env, request->decode_noise);
    diti_free(env, request->plane_noise);
    diti_prompt_tokens_free(env, request->tokens);
    diti_conditioning_free(env, &request->conditioning[0]);
    diti_conditioning_free(env, &request->conditioning[1]);
    memset(request, 0, sizeof *request);
}
