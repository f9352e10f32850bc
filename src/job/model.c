/* Models: every part of a pipeline, found (parts.c) and loaded. */
#include "job/job.h"

/* Reads the defaults of the model that dit-convert was told. */
static void diti_model_read_defaults(dit_model *model, const diti_checkpoint *checkpoint) {
    const char *steps = diti_checkpoint_text(checkpoint, "dit.steps");
    const char *guidance = diti_checkpoint_text(checkpoint, "dit.guidance");
    double step_count = steps ? diti_parse_double(steps) : 0, scale = guidance ? diti_parse_double(guidance) : 0;
    if (step_count >= 1 && step_count <= 1000) model->info.default_steps = (uint32_t)step_count;
    if (scale > 0 && scale <= 1000) model->info.default_guidance = (float)scale;
}

/* Parts that are only looked at have none. */
static diti_device *diti_model_device(const dit_model *model, dit_role role) {
    return diti_model_wants(model, role) ? model->device : NULL;
}

/* Whether what the model reads while jobs run, or for them, is read once, and every device that may get it computes
   with F16. */
static bool diti_model_reads_once(const dit_model *model, const dit_model_desc *desc) {
    uint32_t i;
    for (i = 0; model->context && i < model->context->device_count; i++)
        if (model->context->devices[i]->rung < DITI_RUNG_FP16) return false;
    return model->context && (desc->keep_streamed || desc->weights_by_need);
}

static diti_load_options diti_model_options(dit_model *model, const dit_model_desc *desc, diti_part part,
                                            dit_role role) {
    diti_load_options options = DITI_ZERO;
    options.types = desc->types;
    options.type_count = desc->type_count;
    options.types_used = &model->types_used;
    options.adapts = role != DIT_ROLE_VAE && role != DIT_ROLE_SOUND;
    options.role = part == DITI_PART_TRANSFORMER_2 ? DIT_ROLE_TRANSFORMER_2 : role;
    if (!diti_model_wants(model, role)) return options;
    if (model->merges.count && options.adapts) options.merges = &model->merges;
    if (model->measuring) {
        options.sizes = &model->sizes[part];
        return options;
    }
    options.progress = &desc->progress;
    options.matrices = model->sizes[part].matrices;
    options.keep = model->keep[part];
    options.expert = model->stream && model->stream->sizes.experts &&
                     (part == DITI_PART_TRANSFORMER || part == DITI_PART_TRANSFORMER_2);
    if (options.keep < options.matrices || options.expert) options.stream = model->stream;
    options.int8_attention = desc->int8_attention;
    options.by_need = desc->weights_by_need &&
                      (part == DITI_PART_TRANSFORMER || (part == DITI_PART_TRANSFORMER_2 && model->guides_apart));
    options.read_once = diti_model_reads_once(model, desc);
    return options;
}

/* Every part has a config.json: an error in one names the file that it belongs to. Settings of a folder without one are
   guessed as for original files; where that fails, the lack of the file is the cause. */
static dit_result diti_model_name_config(const diti_model_part *part, dit_result result, dit_error *err) {
    static const char config[] = "config.json: ";
    dit_error said;
    if (result >= 0 || !err) return result;
    said = *err;
    if (result == DIT_ERROR_UNSUPPORTED_MODEL && !part->config && diti_package_is_folder(part->package))
        return diti_fail(err, result, "%s: config.json is missing beside it: %s",
                         diti_checkpoint_name(part->checkpoint), said.message);
    if (!diti_starts_with(said.message, config)) return result;
    return diti_fail(err, result, "%s: %s", diti_checkpoint_name(part->checkpoint), said.message);
}

static dit_result diti_model_load_transformer(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    static const diti_model_want want = {DIT_ROLE_TRANSFORMER, "transformer", DITI_ENCODER_NONE};
    diti_load_options options = diti_model_options(model, desc, DITI_PART_TRANSFORMER, DIT_ROLE_TRANSFORMER);
    diti_model_part part;
    dit_result result = diti_model_locate(model, desc, &want, &part, err);
    if (result >= 0 && part.checkpoint) {
        diti_model_read_defaults(model, part.checkpoint);
        result = diti_model_join_vace(model, desc, false, &part, err);
    }
    if (result >= 0 && part.checkpoint) {
        result = diti_transformer_load(diti_model_device(model, DIT_ROLE_TRANSFORMER), &model->env, part.config,
                                       part.checkpoint, part.prefix, &options, &model->transformer, err);
        if (result >= 0) result = diti_loras_low_rank(model, part.checkpoint, false, err);
        result = diti_model_name_config(&part, result, err);
    }
    diti_json_free(&model->env, part.config);
    return result;
}

/* The expert for low noise, or the transformer of the unconditional branch, which is made as the other one is.
   Timesteps of the training go to 1000. */
static dit_result diti_model_load_second(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    diti_model_want want = {DIT_ROLE_TRANSFORMER_2, "transformer_2", DITI_ENCODER_NONE};
    diti_load_options options;
    diti_model_part part;
    dit_result result;
    if (!model->transformer) return DIT_OK;
    model->guides_apart = model->transformer->traits.guides_apart != NULL;
    if (model->guides_apart) want.folder = model->transformer->traits.guides_apart;
    options = diti_model_options(model, desc, DITI_PART_TRANSFORMER_2, DIT_ROLE_TRANSFORMER);
    result = diti_model_locate(model, desc, &want, &part, err);
    if (result >= 0 && part.checkpoint && !model->guides_apart && !(model->transformer->traits.expert_guidance > 0))
        result = diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                           "%s: %s has one transformer; leave out this one, which has the role DIT_ROLE_TRANSFORMER_2",
                           diti_checkpoint_name(part.checkpoint), model->transformer->family->title);
    if (result >= 0 && part.checkpoint) result = diti_model_join_vace(model, desc, true, &part, err);
    if (result >= 0 && part.checkpoint) {
        result = diti_transformer_load(diti_model_device(model, DIT_ROLE_TRANSFORMER), &model->env, part.config,
                                       part.checkpoint, part.prefix, &options,
                                       model->guides_apart ? &model->unconditional : &model->low, err);
        if (result >= 0) result = diti_loras_low_rank(model, part.checkpoint, true, err);
        result = diti_model_name_config(&part, result, err);
    }
    diti_json_free(&model->env, part.config);
    return result;
}

/* The boundary is that of model_index.json, else the original's for pictures or for texts alone. */
static dit_result diti_model_check_low(dit_model *model, dit_error *err) {
    diti_settings settings = diti_settings_of(model->index, "model_index.json", err);
    double boundary = diti_setting_number(&settings, "boundary_ratio", 0, 0, 1);
    const diti_model_traits *high = model->transformer ? &model->transformer->traits : NULL;
    const diti_model_traits *low = model->low ? &model->low->traits : NULL;
    const diti_model_traits *unconditional = model->unconditional ? &model->unconditional->traits : NULL;
    if (settings.result < 0 || !high) return settings.result;
    if (unconditional &&
        (!diti_equal(unconditional->family, high->family) || unconditional->latent_channels != high->latent_channels))
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "the unconditional transformer is one of %s with %u channels, the other one of %s with %u; "
                         "they are not of one model",
                         unconditional->family, (unsigned)unconditional->latent_channels, high->family,
                         (unsigned)high->latent_channels);
    if (boundary > 0 && !low)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "model_index.json: boundary_ratio %g divides the steps between two experts, and transformer_2 "
                         "is missing: add it as a component with the role DIT_ROLE_TRANSFORMER_2",
                         boundary);
    if (!low) return DIT_OK;
    if (!diti_equal(low->family, high->family) || low->latent_channels != high->latent_channels ||
        low->condition_channels != high->condition_channels || low->text_columns != high->text_columns ||
        low->layers != high->layers || low->width != high->width)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "transformer and transformer_2 differ in their sizes; they are not two experts of one model");
    if (low->control_channels != high->control_channels)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "%s follows a clip, and the other one of transformer and transformer_2 does not; they are not "
                         "two experts of one model",
                         high->control_channels ? "transformer" : "transformer_2");
    model->boundary = 1000 * (float)(boundary > 0 ? boundary : high->condition_channels ? 0.9 : 0.875);
    return DIT_OK;
}

/* The whole pipeline tells more of the transformer, by which text encoders are placed and an image encoder loaded. */
static void diti_model_settle(dit_model *model, const dit_model_desc *desc) {
    diti_model_traits *traits = model->transformer ? &model->transformer->traits : NULL;
    uint32_t i;
    if (traits && traits->settle) traits->settle(traits, model->index, model->scheduler);
    for (i = 0; traits && traits->see && i < desc->component_count; i++)
        if (desc->components[i].role == DIT_ROLE_IMAGE_ENCODER) traits->see(traits);
}

/* Control nets are evaluated with the transformer, and streamed as it is. */
static dit_result diti_model_load_control(dit_model *model, const dit_model_desc *desc, uint32_t index,
                                          dit_error *err) {
    static const diti_model_want want = {DIT_ROLE_CONTROL, "controlnet", DITI_ENCODER_NONE};
    diti_load_options options = diti_model_options(
        model, desc, (diti_part)(DITI_PART_CONTROL + (int)model->control_count), DIT_ROLE_TRANSFORMER);
    diti_model_part part;
    dit_result result;
    bool joined; /* the transformer has it */
    options.adapts = false;
    options.merges = NULL;
    result = diti_model_locate_component(model, desc, index, &want, &part, err);
    if (result >= 0 && !part.checkpoint)
        result = diti_fail(
            err, DIT_ERROR_UNSUPPORTED_MODEL,
            "components[%u] (%s): there is no control net, neither as diffusion_pytorch_model.safetensors "
            "nor in a folder controlnet; name its file or folder",
            (unsigned)index, desc->components[index].source.path ? desc->components[index].source.path : "data");
    joined = model->joined[0] && model->transformer->branch && diti_part_is_vace(&part);
    if (result >= 0 && !joined) {
        result = diti_control_load(model->transformer, diti_model_device(model, DIT_ROLE_TRANSFORMER), &model->env,
                                   part.config, part.checkpoint, part.prefix, &options,
                                   &model->controls[model->control_count], err);
        result = diti_model_name_config(&part, result, err);
    }
    if (result >= 0 && !joined) model->control_count++;
    diti_json_free(&model->env, part.config);
    return result;
}

static dit_result diti_model_load_controls(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    uint32_t i;
    for (i = 0; i < desc->component_count; i++) {
        if (desc->components[i].role != DIT_ROLE_CONTROL) continue;
        if (!model->transformer)
            return diti_fail(
                err, DIT_ERROR_UNSUPPORTED_MODEL,
                "components[%u]: a control net without a transformer that it is for; load a whole pipeline",
                (unsigned)i);
        if (model->control_count == DITI_MAX_CONTROLS)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "components[%u]: at most %u control nets are possible",
                             (unsigned)i, DITI_MAX_CONTROLS);
        DITI_TRY(diti_model_load_control(model, desc, i, err));
    }
    return DIT_OK;
}

/* A file that is an encoder and nothing else is the first one, not all of them. */
static bool diti_model_has_encoder(const dit_model *model, uint32_t count, const diti_model_part *part) {
    uint32_t i;
    for (i = 0; i < count; i++) {
        const diti_encoder *encoder = &model->encoders[i];
        if (part->checkpoint && encoder->checkpoint == part->checkpoint && diti_equal(encoder->prefix, part->prefix))
            return true;
    }
    return false;
}

static dit_result diti_model_load_encoder(dit_model *model, const dit_model_desc *desc, uint32_t index,
                                          dit_error *err) {
    const dit_role role = (dit_role)(DIT_ROLE_TEXT_1 + (int)index);
    diti_load_options options = diti_model_options(model, desc, (diti_part)(DITI_PART_TEXT + (int)index), role);
    diti_encoder *encoder = &model->encoders[index];
    diti_model_want want;
    diti_model_part part;
    dit_result result;
    want.role = role;
    want.folder = diti_encoder_folder(index);
    want.kind = encoder->kind = diti_encoder_loaded_as(diti_encoder_wanted(model, index));
    if (model->transformer && want.kind == DITI_ENCODER_NONE) return DIT_OK;
    if (want.kind == DITI_ENCODER_CONDITIONER) want.folder = "text_conditioner";
    if (want.kind == DITI_ENCODER_CONNECTORS) want.folder = "connectors";
    if (diti_kind_is_decoder(want.kind) && !model->transformer->traits.chat)
        return DIT_OK; /* a caller gives the text */
    result = diti_model_locate(model, desc, &want, &part, err);
    if (result >= 0 && !part.checkpoint && index == 0 && model->transformer &&
        model->transformer->traits.encoder_folder) {
        diti_json_free(&model->env, part.config);
        want.folder = model->transformer->traits.encoder_folder;
        result = diti_model_locate(model, desc, &want, &part, err);
    }
    if (result >= 0 && want.kind == DITI_ENCODER_CONNECTORS)
        result = diti_model_join_connectors(model, desc, &part, err);
    if (result >= 0 && want.kind == DITI_ENCODER_NONE && diti_model_has_encoder(model, index, &part))
        part.checkpoint = NULL;
    encoder->checkpoint = result >= 0 ? part.checkpoint : NULL;
    encoder->prefix = part.prefix;
    if (result >= 0 && part.checkpoint && want.kind == DITI_ENCODER_NONE) {
        encoder->kind = diti_encoder_kind_of(part.checkpoint, part.prefix);
        if (encoder->kind == DITI_ENCODER_NONE) encoder->kind = DITI_ENCODER_T5; /* T5 tells what is missing */
        if (encoder->kind == DITI_ENCODER_CLIP_L && index && !diti_kind_is_decoder(model->encoders[0].kind))
            encoder->kind = DITI_ENCODER_CLIP_G;
    }
    if (result >= 0 && part.checkpoint && want.kind != DITI_ENCODER_NONE)
        result = diti_encoder_check_kind(&part, index, diti_encoder_wanted(model, index), err);
    if (result >= 0) result = diti_encoder_ask(model, encoder, err);
    if (diti_encoder_is_third(model, index)) options.other_role = DIT_ROLE_TEXT_3;
    options.sees = diti_encoder_wanted(model, index) == DITI_ENCODER_QWEN3_VL;
    if (result >= 0 && part.checkpoint) {
        result = diti_encoder_load(encoder, diti_model_device(model, role), &model->env, &part, &options, err);
        result = diti_model_name_config(&part, result, err);
    }
    diti_json_free(&model->env, part.config);
    if (model->measuring || result != DIT_OK || encoder->kind == DITI_ENCODER_NONE ||
        encoder->kind == DITI_ENCODER_CONNECTORS)
        return result;
    DITI_TRY(diti_model_locate_tokenizer(model, desc, index, err));
    if (!encoder->tokenizer && encoder->kind == DITI_ENCODER_BYT5)
        return diti_byt5_create(&model->env, NULL, &encoder->tokenizer, err);
    /* llama.cpp's files bring their vocabulary along. */
    if (part.checkpoint && !encoder->tokenizer && encoder->self &&
        (encoder->kind == DITI_ENCODER_T5 || diti_kind_is_decoder(encoder->kind)) &&
        diti_checkpoint_text(part.checkpoint, "tokenizer.ggml.model"))
        return diti_tokenizer_load_gguf(&model->env, part.checkpoint, &encoder->tokenizer, err);
    return DIT_OK;
}

static dit_result diti_model_load_encoders(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    dit_result result = DIT_OK;
    uint32_t i;
    for (i = 0; i < DITI_ENCODERS && result == DIT_OK; i++) result = diti_model_load_encoder(model, desc, i, err);
    return result;
}

/* Latents of the transformer, else of the one in the autoencoder's own file. */
static void diti_model_assume_scale(dit_model *model, const diti_checkpoint *checkpoint) {
    const diti_latents *latents =
        model->transformer ? &model->transformer->traits.latents : diti_families_latents(checkpoint);
    float scale = latents ? latents->scale : 0;
    if (model->pipeline && model->pipeline->latent_scale > 0) scale = model->pipeline->latent_scale;
    if (latents) diti_vae_belongs_to(model->vae, latents->channels, scale, latents->shift);
    if (model->transformer && model->transformer->traits.unshifted) diti_vae_unshift(model->vae);
}

/* The autoencoder has latents as the transformer has them. */
static void diti_model_fit_vae(const dit_model *model, diti_vae *vae) {
    const diti_model_traits *traits = &model->transformer->traits;
    diti_vae_fit(vae, traits->latent_channels);
    if (traits->pixels_last && diti_vae_get_traits(vae)->latent_channels == traits->latent_channels)
        diti_vae_put_pixels_last(vae, traits->latent_means, traits->latent_deviations);
}

static dit_result diti_model_load_vae(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    static const diti_model_want want = {DIT_ROLE_VAE, "vae", DITI_ENCODER_NONE};
    diti_load_options options = diti_model_options(model, desc, DITI_PART_VAE, DIT_ROLE_VAE);
    diti_model_part part;
    dit_result result = diti_model_locate(model, desc, &want, &part, err);
    if (result >= 0 && part.checkpoint) {
        result = diti_vae_load(diti_model_device(model, DIT_ROLE_VAE), &model->env, part.config, part.checkpoint,
                               part.prefix, &options, &model->vae, err);
        result = diti_model_name_config(&part, result, err);
        if (model->vae) diti_model_assume_scale(model, part.checkpoint);
        if (model->vae && model->transformer) diti_model_fit_vae(model, model->vae);
    }
    diti_json_free(&model->env, part.config);
    return result;
}

/* For models that read the picture which they move. */
static dit_result diti_model_load_image_encoder(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    static const diti_model_want want = {DIT_ROLE_IMAGE_ENCODER, "image_encoder", DITI_ENCODER_NONE};
    diti_load_options options = diti_model_options(model, desc, DITI_PART_IMAGE_ENCODER, DIT_ROLE_IMAGE_ENCODER);
    diti_model_part part;
    dit_result result;
    if (!model->transformer || !model->transformer->traits.pictures_seen) return DIT_OK;
    result = diti_model_locate(model, desc, &want, &part, err);
    if (result >= 0 && part.checkpoint) {
        result = diti_clip_vision_load(diti_model_device(model, DIT_ROLE_IMAGE_ENCODER), &model->env, part.config,
                                       part.checkpoint, part.prefix, &options, &model->image_encoder, err);
        result = diti_model_name_config(&part, result, err);
    }
    diti_json_free(&model->env, part.config);
    return result;
}

/* A component that is there for sound has to bring what the source lacks of it. */
static dit_result diti_model_check_sound(const dit_model_desc *desc, const diti_model_part parts[2], dit_error *err) {
    uint32_t i = 0;
    while (i < desc->component_count && desc->components[i].role != DIT_ROLE_SOUND) i++;
    if (i == desc->component_count || (!parts[0].checkpoint && !parts[1].checkpoint)) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "components[%u] (%s): there is %s, but no %s, which sound needs as well", (unsigned)i,
                     desc->components[i].source.path ? desc->components[i].source.path : "data",
                     parts[0].checkpoint ? "an audio_vae" : "a vocoder", parts[0].checkpoint ? "vocoder" : "audio_vae");
}

static dit_result diti_model_load_sound_parts(dit_model *model, const dit_model_desc *desc,
                                              const diti_model_part parts[2], dit_error *err) {
    diti_load_options options;
    diti_component_source from = DITI_ZERO;
    diti_sound_traits traits;
    uint32_t alone = model->transformer->traits.sound_sides > 0 ? 1 : 0, i,
             wanted = alone ? model->transformer->traits.sound_columns : model->transformer->traits.latent_channels;
    if (diti_part_has(parts[0].checkpoint, parts[0].prefix, DITI_SOUND_ALONE) != (alone > 0))
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "%s: this audio_vae makes %s of tokens, and %s's makes %s; it belongs to another model",
                         diti_checkpoint_name(parts[0].checkpoint), alone ? "spectrograms" : "samples",
                         model->transformer->family->name, alone ? "samples" : "spectrograms");
    for (i = alone; i < 2; i++) {
        const diti_model_part *part = &parts[alone ? 0 : i];
        dit_result result;
        options = diti_model_options(model, desc, (diti_part)(DITI_PART_SPECTROGRAM + (int)i), DIT_ROLE_SOUND);
        from.device = diti_model_device(model, DIT_ROLE_SOUND);
        from.env = &model->env;
        from.config = part->config;
        from.checkpoint = part->checkpoint;
        from.prefix = part->prefix;
        from.options = &options;
        result = i ? diti_vocoder_create(&from, &model->vocoder, err)
                   : diti_spectrogram_create(&from, &model->spectrogram, err);
        DITI_TRY(diti_model_name_config(part, result, err));
    }
    diti_sound_traits_of(model->spectrogram, model->vocoder, &traits);
    if (traits.token_values == wanted && traits.moment_values == traits.vocoder_values) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "the audio_vae makes %u bands of tokens with %u values, the vocoder reads %u, and the transformer "
                     "makes tokens with %u; they belong to different models",
                     (unsigned)traits.moment_values, (unsigned)traits.token_values, (unsigned)traits.vocoder_values,
                     (unsigned)wanted);
}

/* For models that denoise the sound of a clip with it; without either part clips are silent. */
static dit_result diti_model_load_sound(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    static const diti_model_want wants[2] = {{DIT_ROLE_SOUND, "audio_vae", DITI_ENCODER_NONE},
                                             {DIT_ROLE_SOUND, "vocoder", DITI_ENCODER_NONE}};
    diti_model_part parts[2];
    dit_result result;
    bool alone = model->transformer && model->transformer->traits.sound_sides > 0;
    if (!model->transformer || !(model->transformer->traits.sound_rate > 0) || !diti_model_wants(model, DIT_ROLE_SOUND))
        return DIT_OK;
    memset(parts, 0, sizeof parts);
    result = diti_model_locate(model, desc, &wants[0], &parts[0], err);
    if (result >= 0 && !alone) result = diti_model_locate(model, desc, &wants[1], &parts[1], err);
    if (result >= 0)
        result = parts[0].checkpoint && (alone || parts[1].checkpoint)
                     ? diti_model_load_sound_parts(model, desc, parts, err)
                     : diti_model_check_sound(desc, parts, err);
    diti_json_free(&model->env, parts[0].config);
    diti_json_free(&model->env, parts[1].config);
    return result;
}

/* A tiny autoencoder, which only a component can name. Its few megabytes are always resident. */
static dit_result diti_model_load_tae(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    static const diti_model_want want = {DIT_ROLE_TAE, "", DITI_ENCODER_NONE};
    diti_load_options options = DITI_ZERO;
    diti_weight_sizes sizes = DITI_ZERO;
    diti_model_part part;
    dit_result result;
    uint32_t i = 0;
    while (i < desc->component_count && desc->components[i].role != DIT_ROLE_TAE) i++;
    if (i == desc->component_count) return DIT_OK;
    result = diti_model_locate(model, desc, &want, &part, err);
    if (model->measuring && diti_model_wants(model, DIT_ROLE_VAE)) options.sizes = &sizes;
    options.progress = &desc->progress;
    if (result >= 0 && part.checkpoint) {
        result = diti_vae_load(diti_model_device(model, DIT_ROLE_VAE), &model->env, part.config, part.checkpoint,
                               part.prefix, &options, &model->tae, err);
        result = diti_model_name_config(&part, result, err);
    }
    diti_json_free(&model->env, part.config);
    model->sizes[DITI_PART_VAE].resident += sizes.resident + sizes.matrices;
    if (model->tae && model->transformer) diti_model_fit_vae(model, model->tae);
    if (!model->vae) {
        model->vae = model->tae;
        model->tae = NULL;
    }
    return result;
}

static dit_result diti_model_load_scheduler(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    return diti_model_locate_json(model, desc, DIT_ROLE_SCHEDULER, "scheduler", "scheduler_config.json",
                                  &model->scheduler, err);
}

/* "sample_sigmas": [1, 0.9, 0.6]: a distilled model was trained for these steps (Qwen-Image-2.1 Turbo, docs/models.md
   3.17). */
static dit_result diti_model_read_sigmas(dit_model *model, dit_error *err) {
    diti_settings settings = diti_settings_of(model->index, "model_index.json", err);
    const diti_json *list = diti_setting_numbers(&settings, "sample_sigmas"), *entry;
    uint32_t count = 0;
    if (settings.result < 0 || !list) return settings.result;
    for (entry = list->first; entry; entry = entry->next) {
        float sigma = (float)entry->number;
        if (count == DITI_MAX_SIGMAS || !(sigma > 0 && sigma <= (count ? model->sigmas[count - 1] : 1)))
            return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                             "model_index.json: sample_sigmas must be at most %u numbers that fall from 1 to above 0",
                             DITI_MAX_SIGMAS);
        model->sigmas[count++] = sigma;
    }
    model->info.default_steps = model->sigma_count = count;
    return DIT_OK;
}

/* Modular pipelines of diffusers keep how much a model is guided beside it. */
static dit_result diti_model_read_guider(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    diti_json *config = NULL;
    diti_settings settings;
    double scale = 0;
    DITI_TRY(diti_model_locate_json(model, desc, DIT_ROLE_NONE, "guider", "guider_config.json", &config, err));
    settings = diti_settings_of(config, "guider_config.json", err);
    if (diti_equal(diti_setting_text(&settings, "_class_name", ""), "ClassifierFreeGuidance")) {
        scale = diti_setting_number(&settings, "guidance_scale", 0, 0, 1000);
        if (diti_setting_bool(&settings, "use_original_formulation", false)) scale += 1;
        if (!diti_setting_bool(&settings, "enabled", true)) scale = 1;
    }
    if (scale > 0) model->info.default_guidance = (float)scale;
    diti_json_free(&model->env, config);
    return settings.result;
}

/* The pipeline's class may tell what the transformer alone does not. */
static dit_result diti_model_read_index(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    dit_result result = diti_model_locate_json(model, desc, DIT_ROLE_NONE, "", "model_index.json", &model->index, err);
    diti_settings settings;
    const diti_json *labels;
    const char *name;
    DITI_TRY(result);
    settings = diti_settings_of(model->index, "model_index.json", err);
    name = diti_setting_text(&settings, "_class_name", "");
    labels = diti_setting(&settings, "id2label");
    if (labels && labels->kind != DITI_JSON_OBJECT)
        diti_settings_refuse(&settings, DIT_ERROR_BAD_FILE, "id2label", "not an object of names of classes");
    model->pipeline = diti_families_pipeline(name);
    return settings.result < 0 ? settings.result : diti_model_read_sigmas(model, err);
}

DIT_INTERNAL uint32_t diti_model_factor(const dit_model *model) {
    if (model->vae) return diti_vae_get_traits(model->vae)->factor;
    return model->transformer && model->transformer->traits.factor ? model->transformer->traits.factor : 8;
}

DIT_API const char *dit_model_distilled(const dit_model *model) {
    if (!model || !model->transformer) return NULL;
    return diti_family_place(model->transformer->family, model->info.variant, DIT_ROLE_NONE);
}

DIT_API int dit_model_edits(const dit_model *model) {
    const diti_model_traits *traits = model && model->transformer ? &model->transformer->traits : NULL;
    if (!traits || !traits->references || traits->default_frames) return 0;
    return traits->edits ? 1 : -1;
}

static void diti_model_describe_transformer(dit_model *model) {
    const diti_model_traits *traits = &model->transformer->traits;
    const diti_family *family = model->transformer->family;
    uint32_t factor = diti_model_factor(model), i;
    diti_format(model->info.family, sizeof model->info.family, "%s", traits->family);
    diti_format(model->info.variant, sizeof model->info.variant, "%s",
                model->pipeline ? model->pipeline->variant : traits->variant);
    model->info.default_height = traits->default_size * factor;
    model->info.default_width = (traits->default_columns ? traits->default_columns : traits->default_size) * factor;
    model->info.size_multiple = (traits->pads_patches ? 1 : traits->patch) * factor;
    if (model->info.default_steps == 0) model->info.default_steps = traits->default_steps;
    if (model->info.default_guidance <= 0) {
        model->info.default_guidance = model->low ? traits->expert_guidance : traits->default_guidance;
        model->info.default_low_guidance = model->low ? traits->expert_low_guidance : traits->late_guidance;
    }
    model->info.default_sound_guidance = traits->sound_guidance;
    model->info.negative_prompt = traits->negative;
    model->info.negative_always = traits->always_negative;
    model->info.latent_channels = traits->latent_channels;
    model->info.layers = traits->layers;
    model->info.single_layers = traits->single_layers;
    model->info.hidden = traits->width;
    model->info.heads = traits->heads;
    model->info.patch = traits->patch;
    model->info.class_count = traits->class_count;
    for (i = 0; i < DITI_ENCODERS; i++) {
        const diti_encoder_kind kind = diti_encoder_wanted(model, i);
        model->info.encoders[i] = kind == DITI_ENCODER_NONE ? NULL : diti_encoder_name(kind);
    }
    for (i = DIT_ROLE_NONE + 1; i < DITI_COUNT(model->info.places); i++)
        model->info.places[i] = diti_family_place(family, model->info.variant, (dit_role)i);
    model->info.parameters[DIT_ROLE_TRANSFORMER] = model->transformer->component.weights.parameters;
    if (diti_model_second(model))
        model->info.parameters[DIT_ROLE_TRANSFORMER_2] = diti_model_second(model)->component.weights.parameters;
    else if (traits->guides_apart)
        model->info.missing |= 1u << DIT_ROLE_TRANSFORMER_2;
    for (i = 0; i < model->control_count; i++)
        model->info.parameters[DIT_ROLE_CONTROL] += model->controls[i]->component.weights.parameters;
    model->info.control_count = model->control_count;
    model->info.wants_mask = traits->repaint_channels > 0;
    model->info.wants_control = traits->condition_channels && !traits->repaint_channels && !traits->default_frames;
}

/* The sampler that the scheduler's file stands for; empty when that file asks for something unknown, which a job then
   reports. */
static dit_result diti_model_describe_sampler(dit_model *model, dit_error *err) {
    diti_schedule_request request = DITI_ZERO;
    diti_schedule schedule = DITI_ZERO;
    dit_error why = DITI_ZERO;
    uint32_t side = model->transformer->traits.default_size / model->transformer->traits.patch;
    request.steps = model->info.default_steps;
    request.image_tokens = side * side;
    request.sampler = model->transformer->traits.sampler;
    if (diti_schedule_make(&model->env, model->scheduler, &request, &schedule, &why) < 0) {
        if (why.result == DIT_ERROR_OUT_OF_HOST_MEMORY && err) *err = why;
        return why.result == DIT_ERROR_OUT_OF_HOST_MEMORY ? why.result : DIT_OK;
    }
    diti_format(model->info.default_sampler, sizeof model->info.default_sampler, "%s", schedule.sampler);
    diti_schedule_free(&model->env, &schedule);
    return DIT_OK;
}

/* Original files come without a scheduler: it is the one of the code that they were made for. */
static dit_result diti_model_default_scheduler(dit_model *model, dit_error *err) {
    const diti_model_traits *traits = model->transformer ? &model->transformer->traits : NULL;
    const char *text = !traits ? NULL : model->low ? traits->expert_scheduler : traits->scheduler;
    if (model->scheduler || !text) return DIT_OK;
    return diti_json_parse(&model->env, text, strlen(text), "the model's scheduler", &model->scheduler, err);
}

static dit_result diti_model_describe(dit_model *model, dit_error *err) {
    dit_model_info *info = &model->info;
    size_t i;
    DITI_TRY(diti_model_default_scheduler(model, err));
    if (model->transformer) diti_model_describe_transformer(model);
    if (!model->transformer || !diti_model_wants(model, DIT_ROLE_TRANSFORMER))
        info->missing |= 1u << DIT_ROLE_TRANSFORMER;
    for (i = 0; i < DITI_ENCODERS; i++) {
        const diti_weights *weights = diti_encoder_weights(&model->encoders[i]);
        if (weights) info->parameters[DIT_ROLE_TEXT_1 + (int)i] = weights->parameters;
    }
    info->lora_count = model->lora_count;
    info->missing |= diti_encoders_missing(model) | diti_encoders_left_out(model);
    if (model->image_encoder)
        info->parameters[DIT_ROLE_IMAGE_ENCODER] = diti_clip_vision_weights(model->image_encoder)->parameters;
    else if (model->transformer && model->transformer->traits.pictures_seen)
        info->missing |= 1u << DIT_ROLE_IMAGE_ENCODER;
    if (model->vae) info->parameters[DIT_ROLE_VAE] = diti_vae_weights(model->vae)->parameters;
    if (!model->vae || !diti_model_wants(model, DIT_ROLE_VAE)) info->missing |= 1u << DIT_ROLE_VAE;
    if (model->vae || model->transformer) info->latent_factor = diti_model_factor(model);
    if (!model->scheduler) info->missing |= 1u << DIT_ROLE_SCHEDULER;
    info->weight_bytes = diti_model_weight_bytes(model, &info->streamed_bytes);
    if (model->transformer) diti_model_describe_frames(model);
    info->lacks_sound = model->transformer && model->transformer->traits.sound_rate > 0 && !model->vocoder;
    if (model->vocoder) {
        diti_sound_traits sound;
        diti_sound_traits_of(model->spectrogram, model->vocoder, &sound);
        info->sound_rate = sound.rate;
        info->sound_channels = sound.channels;
    }
    for (i = 0; i < DITI_COUNT(model->packages); i++) {
        if (model->packages[i]) info->absent_bytes += diti_package_absent(model->packages[i]);
    }
    return model->transformer ? diti_model_describe_sampler(model, err) : DIT_OK;
}

/* Autoencoders of two families may differ in nothing but weights and the scale that their config.json states
   (docs/models.md 4.1). Latents of 16 channels have one scale, or statistics of each channel; a decoder alone is
   taken for what it is given. */
static dit_result diti_model_check_vae(const dit_model *model, dit_error *err) {
    static const char *const kinds[] = {"FLUX.1's and SD3's", "Wan's and Qwen-Image's"};
    const diti_vae_traits *vae = model->vae ? diti_vae_get_traits(model->vae) : NULL;
    const diti_latents *own = &model->transformer->traits.latents;
    float scale = vae ? vae->scale : 0;
    const char *other = vae ? diti_families_foreign(model->transformer, scale) : NULL;
    if (vae && vae->title && !diti_equal(vae->title, model->transformer->family->title))
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "the VAE is that of %s; a model of family %s wants its own",
                         vae->title, model->transformer->traits.family);
    if (vae && !vae->tiny && vae->has_encoder && own->channels == 16 && vae->by_channel != (own->scale == 1))
        return diti_fail(
            err, DIT_ERROR_UNSUPPORTED_MODEL,
            "the VAE is like %s, and a model of family %s wants one like %s; they belong to different models",
            kinds[vae->by_channel], model->transformer->traits.family, kinds[!vae->by_channel]);
    if (!other) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "the VAE is that of %s (scaling_factor %.4f); a model of family %s wants its own", other,
                     (double)scale, model->transformer->traits.family);
}

/* Tokens that are a text of their own may be as many as they are. */
static dit_result diti_model_check_image_encoder(const dit_model *model, dit_error *err) {
    const diti_model_traits *traits = &model->transformer->traits;
    uint32_t tokens, columns, wanted,
        wanted_columns = traits->seen_columns ? traits->seen_columns : traits->text2_columns;
    if (!model->image_encoder) return DIT_OK;
    tokens = diti_clip_vision_tokens(model->image_encoder);
    columns = diti_clip_vision_columns(model->image_encoder);
    wanted = traits->seen_columns ? tokens : traits->text2_tokens / traits->pictures_seen;
    if (tokens == wanted && columns == wanted_columns) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "the image encoder makes %u tokens of %u channels of a picture, the transformer wants %u of %u; "
                     "they belong to different models",
                     tokens, columns, wanted, wanted_columns);
}

/* Parts that were trained together agree in their sizes; say which do not. */
static dit_result diti_model_check_parts(const dit_model *model, dit_error *err) {
    const diti_model_traits *traits;
    if (!model->transformer) return DIT_OK;
    traits = &model->transformer->traits;
    if (model->vae && diti_vae_remembers(model->vae) && traits->default_frames)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "the tiny autoencoder decodes the first frame of a clip alone, for previews; give the model "
                         "its VAE as well");
    if (model->tae && model->vae &&
        (!diti_vae_get_traits(model->tae)->has_decoder ||
         diti_vae_get_traits(model->tae)->factor != diti_vae_get_traits(model->vae)->factor ||
         diti_vae_get_traits(model->tae)->latent_channels != diti_vae_get_traits(model->vae)->latent_channels)) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "the tiny autoencoder does not decode the VAE's %u latent channels at its size, but %u; they "
                         "belong to different models",
                         diti_vae_get_traits(model->vae)->latent_channels,
                         diti_vae_get_traits(model->tae)->latent_channels);
    }
    if (model->vae && diti_vae_get_traits(model->vae)->latent_channels != traits->latent_channels) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "the VAE has %u latent channels, the transformer %u; they belong to different models",
                         diti_vae_get_traits(model->vae)->latent_channels, traits->latent_channels);
    }
    DITI_TRY(diti_model_check_image_encoder(model, err));
    return diti_model_check_vae(model, err);
}

/* --- what stays on the device, where not all weights do --- */

static void diti_model_close_packages(dit_model *model) {
    uint32_t i;
    for (i = 0; i < DITI_COUNT(model->joined); i++) {
        diti_checkpoint_close(model->joined[i]);
        model->joined[i] = NULL;
    }
    for (i = 0; i < DITI_COUNT(model->packages); i++) {
        diti_package_close(model->packages[i]);
        model->packages[i] = NULL;
    }
}

static void diti_model_drop_parts(dit_model *model) {
    uint32_t i;
    for (i = 0; i < DITI_ENCODERS; i++) diti_encoder_unload(&model->encoders[i]);
    diti_transformer_destroy(model->transformer);
    diti_transformer_destroy(diti_model_second(model));
    model->low = model->unconditional = NULL;
    while (model->control_count) diti_transformer_destroy(model->controls[--model->control_count]);
    diti_vae_destroy(model->vae);
    diti_vae_destroy(model->tae);
    diti_clip_vision_destroy(model->image_encoder);
    diti_spectrogram_destroy(model->spectrogram);
    diti_vocoder_destroy(model->vocoder);
    model->spectrogram = NULL;
    model->vocoder = NULL;
    model->image_encoder = NULL;
    model->transformer = NULL;
    model->vae = NULL;
    model->tae = NULL;
}

/* The sizes of all parts, from the headers. */
static dit_result diti_model_measure(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    dit_result result;
    model->measuring = true;
    result = diti_model_load_transformer(model, desc, err);
    if (result == DIT_OK) result = diti_model_load_second(model, desc, err);
    if (result == DIT_OK) diti_model_settle(model, desc);
    if (result == DIT_OK) result = diti_model_load_controls(model, desc, err);
    if (result == DIT_OK) result = diti_model_load_encoders(model, desc, err);
    if (result == DIT_OK) result = diti_model_load_vae(model, desc, err);
    if (result == DIT_OK) result = diti_model_load_tae(model, desc, err);
    if (result == DIT_OK) result = diti_model_load_image_encoder(model, desc, err);
    if (result == DIT_OK) result = diti_model_load_sound(model, desc, err);
    if (result == DIT_OK) result = diti_loras_measure(model, err);
    diti_model_drop_parts(model);
    diti_model_close_packages(model);
    model->measuring = false;
    model->merges.list_count = 0; /* tensors of what was measured */
    return result;
}

/* The least slot: every matrix fits it, and tables fall into few enough parts. */
static uint64_t diti_model_minimum_slot(const dit_model *model, diti_part first) {
    uint64_t slot = 16;
    int part;
    for (part = (int)first; part < DITI_PARTS; part++) {
        const diti_weight_sizes *sizes = &model->sizes[part];
        uint64_t table = sizes->table / (DITI_MAX_WEIGHT_PARTS / 2);
        if (sizes->largest > slot) slot = sizes->largest;
        if (table > slot) slot = table;
    }
    return (slot + 255u) & ~(uint64_t)255u;
}

/* Larger slots mean fewer waits; but what they take is not resident. */
static uint64_t diti_model_slot(const dit_model *model, uint64_t least, uint64_t room) {
    const uint64_t most = (uint64_t)64 << 20;
    uint64_t limit = model->device ? model->device->limits.block & ~(VkDeviceSize)0xffff : (uint64_t)1 << 30;
    uint64_t slot = room / 16 < most ? room / 16 & ~(uint64_t)255u : most;
    if (slot > limit) slot = limit;
    return slot > least ? slot : least;
}

/* Two experts, of which one is at work, that do not both fit have slots for that one, a few large ones, since no matrix
   fills what is left of a slot. Takes them off room. */
static void diti_model_experts(dit_model *model, diti_stream_sizes *sizes, uint64_t *room) {
    const uint64_t limit = model->device ? model->device->limits.block & ~(VkDeviceSize)0xffff : (uint64_t)1 << 30;
    uint64_t high = model->sizes[DITI_PART_TRANSFORMER].matrices, low = model->sizes[DITI_PART_TRANSFORMER_2].matrices,
             most = high > low ? high : low, bytes, count;
    if (!low || model->guides_apart || high + low <= *room) return;
    bytes = most + most / 16 + sizes->slot;
    if (bytes > *room) bytes = *room;
    count = bytes / (8 * sizes->slot);
    if (count < bytes / limit + 1) count = bytes / limit + 1;
    if (count > DITI_EXPERT_SLOTS) count = DITI_EXPERT_SLOTS;
    bytes = bytes / count < limit ? bytes / count & ~(uint64_t)255u : limit;
    if (bytes < sizes->slot) return;
    sizes->expert = bytes;
    sizes->experts = (uint32_t)count;
    *room -= bytes * count;
}

/* An expert that fits keeps a little more than all of it, so that no rounding streams a matrix. */
static void diti_model_keep_expert(dit_model *model, const diti_stream_sizes *sizes, int part) {
    uint64_t bytes = sizes->experts * sizes->expert;
    model->keep[part] = bytes < model->sizes[part].matrices ? bytes : 2 * model->sizes[part].matrices;
}

/* Weights used in every step come first, then those used once per picture, then once per prompt. */
static void diti_model_share(dit_model *model, uint64_t room, bool experts, bool release_text) {
    int part;
    for (part = 0; part < DITI_PARTS; part++) {
        uint64_t *keep = &model->keep[part];
        if (experts && (part == DITI_PART_TRANSFORMER || part == DITI_PART_TRANSFORMER_2)) continue;
        *keep = model->sizes[part].matrices < room ? model->sizes[part].matrices : room;
        if (part >= DITI_PART_TEXT && release_text) *keep = 0;
        room -= *keep;
    }
}

static dit_result diti_model_split(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    uint64_t fixed = model->lora_bytes + model->low_rank_bytes, all = 0, text = 0, slot, room = UINT64_MAX;
    diti_stream_sizes streams = DITI_ZERO;
    int part;
    for (part = 0; part < DITI_PARTS; part++) {
        const diti_weight_sizes *sizes = &model->sizes[part];
        fixed += sizes->resident;
        if (part < DITI_PART_TEXT || !desc->release_text_encoders) all += sizes->matrices;
        if (part >= DITI_PART_TEXT) text += sizes->matrices;
        if (sizes->piece > streams.piece) streams.piece = sizes->piece;
    }
    diti_model_share(model, UINT64_MAX, false, desc->release_text_encoders);
    if (!desc->weight_budget || fixed + all <= desc->weight_budget) {
        if (!desc->release_text_encoders || !text) return DIT_OK;
    }
    slot = diti_model_minimum_slot(model, desc->weight_budget ? DITI_PART_TRANSFORMER : DITI_PART_TEXT);
    if (desc->weight_budget) {
        uint64_t least = fixed + DITI_STREAM_SLOTS * slot;
        if (desc->weight_budget < least)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                             "dit_model_desc: a weight_budget of %llu bytes is too small: this model needs at least "
                             "%llu, %llu for what is never streamed and two slots of %llu for the rest",
                             (unsigned long long)desc->weight_budget, (unsigned long long)least,
                             (unsigned long long)fixed, (unsigned long long)slot);
        room = desc->weight_budget - fixed;
        streams.slot = diti_model_slot(model, slot, room);
        room -= DITI_STREAM_SLOTS * streams.slot;
        diti_model_experts(model, &streams, &room);
    } else {
        streams.slot = diti_model_slot(model, slot, text);
    }
    diti_model_share(model, room, streams.experts > 0, desc->release_text_encoders);
    for (part = DITI_PART_TRANSFORMER; part <= (int)DITI_PART_TRANSFORMER_2 && streams.experts; part++)
        diti_model_keep_expert(model, &streams, part);
    DITI_TRY(diti_stream_create(model->device, &model->env, &streams, &model->stream, err));
    model->stream->keeps = desc->keep_streamed;
    return DIT_OK;
}

/* The weights that are loaded of each part; NULL: none. */
static void diti_model_loaded(const dit_model *model, const diti_weights *parts[DITI_PARTS]) {
    int part;
    for (part = 0; part < DITI_PARTS; part++) parts[part] = NULL;
    if (model->transformer && diti_model_wants(model, DIT_ROLE_TRANSFORMER))
        parts[DITI_PART_TRANSFORMER] = &model->transformer->component.weights;
    if (diti_model_second(model) && diti_model_wants(model, DIT_ROLE_TRANSFORMER))
        parts[DITI_PART_TRANSFORMER_2] = &diti_model_second(model)->component.weights;
    for (part = 0; part < (int)model->control_count; part++)
        if (diti_model_wants(model, DIT_ROLE_TRANSFORMER))
            parts[DITI_PART_CONTROL + part] = &model->controls[part]->component.weights;
    for (part = 0; part < (int)DITI_ENCODERS; part++) {
        if (diti_model_wants(model, (dit_role)(DIT_ROLE_TEXT_1 + part)))
            parts[DITI_PART_TEXT + part] = diti_encoder_weights(&model->encoders[part]);
    }
    if (model->vae && diti_model_wants(model, DIT_ROLE_VAE)) parts[DITI_PART_VAE] = diti_vae_weights(model->vae);
    if (model->image_encoder && diti_model_wants(model, DIT_ROLE_IMAGE_ENCODER))
        parts[DITI_PART_IMAGE_ENCODER] = diti_clip_vision_weights(model->image_encoder);
    if (model->vocoder) {
        if (model->spectrogram) parts[DITI_PART_SPECTROGRAM] = diti_spectrogram_weights(model->spectrogram);
        parts[DITI_PART_VOCODER] = diti_vocoder_weights(model->vocoder);
    }
}

DIT_INTERNAL uint64_t diti_model_staging_bytes(const dit_model *model, uint64_t *loading) {
    const diti_weights *parts[DITI_PARTS];
    const diti_device *device = model->device;
    uint64_t kept = device && diti_atomic_load(&device->stages) ? device->staging_slot : 0;
    int part;
    diti_model_loaded(model, parts);
    *loading = 0;
    for (part = 0; part < DITI_PARTS; part++)
        if (parts[part] && parts[part]->staged > *loading) *loading = parts[part]->staged;
    if (kept && model->stream && model->stream->stage) kept += DITI_STAGE_BUFFERS * model->stream->stage->bytes;
    return kept;
}

DIT_INTERNAL uint64_t diti_model_weight_bytes(const dit_model *model, uint64_t *streamed) {
    const diti_weights *parts[DITI_PARTS];
    uint64_t bytes = diti_stream_bytes(model->stream);
    int part;
    diti_model_loaded(model, parts);
    if (model->tae && diti_model_wants(model, DIT_ROLE_VAE)) bytes += diti_vae_weights(model->tae)->bytes;
    bytes += diti_loras_bytes(model);
    if (streamed) *streamed = 0;
    for (part = 0; part < DITI_PARTS; part++) {
        if (!parts[part]) continue;
        bytes += parts[part]->bytes;
        if (streamed && parts[part]->streamed) *streamed += parts[part]->streamed->bytes;
        if (streamed && parts[part]->expert) *streamed += parts[part]->expert->bytes;
    }
    return bytes;
}

/* A part whose loading takes long enough to be seen in a trace. */
static dit_result diti_model_load_part(dit_model *model, const dit_model_desc *desc, const char *name,
                                       dit_result (*load)(dit_model *model, const dit_model_desc *desc, dit_error *err),
                                       dit_error *err) {
    diti_trace_scope scope = diti_trace_open(model->device ? model->device->trace : NULL, DITI_TRACK_LOAD, name);
    dit_result result = load(model, desc, err);
    diti_trace_close(&scope, 0);
    return result;
}

/* A rule that decides about nothing is a mistake, or meant for another model. */
static void diti_model_tell_unused_types(const dit_model *model, const dit_model_desc *desc) {
    uint32_t i;
    for (i = 0; i < desc->type_count && i < 64; i++)
        if (!(model->types_used & (uint64_t)1 << i))
            diti_log(&model->env, DITI_LOG_WARNING,
                     "dit_model_desc: types has a rule for \"%.80s\", which decides about no weight: none of a linear "
                     "layer has such a name and no earlier rule",
                     desc->types[i].tensors);
}

static dit_result diti_model_load_parts(dit_model *model, const dit_model_desc *desc, dit_error *err) {
    char left_out[DITI_FAMILIES_TEXT];
    dit_result result;
    DITI_TRY(diti_loras_open(model, desc, err));
    DITI_TRY(diti_model_read_index(model, desc, err));
    DITI_TRY(diti_model_read_guider(model, desc, err));
    DITI_TRY(diti_model_load_scheduler(model, desc, err));
    if (desc->weight_budget || desc->release_text_encoders) {
        result = diti_model_measure(model, desc, err);
        if (result == DIT_OK) result = diti_model_split(model, desc, err);
        if (result != DIT_OK) return result;
    }
    result = diti_model_load_part(model, desc, "transformer", diti_model_load_transformer, err);
    if (result == DIT_OK) result = diti_model_load_part(model, desc, "transformer_2", diti_model_load_second, err);
    if (result == DIT_OK) result = diti_model_check_low(model, err);
    if (result == DIT_OK) diti_model_settle(model, desc);
    if (result == DIT_OK) result = diti_model_load_part(model, desc, "control nets", diti_model_load_controls, err);
    if (result == DIT_OK) result = diti_model_load_part(model, desc, "text encoders", diti_model_load_encoders, err);
    if (result == DIT_OK) result = diti_encoders_place(model, err);
    if (result == DIT_OK) result = diti_model_load_part(model, desc, "VAE", diti_model_load_vae, err);
    if (result == DIT_OK) result = diti_model_load_part(model, desc, "tiny VAE", diti_model_load_tae, err);
    if (result == DIT_OK)
        result = diti_model_load_part(model, desc, "image encoder", diti_model_load_image_encoder, err);
    if (result == DIT_OK) result = diti_model_load_part(model, desc, "sound", diti_model_load_sound, err);
    if (result == DIT_OK) result = diti_model_check_parts(model, err);
    if (result != DIT_OK) return result;
    if (!model->transformer && !model->encoders[0].kind && !model->vae) {
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "%s holds no transformer, text encoder or VAE that dit knows%s",
                         desc->source.path ? desc->source.path : "the source", diti_families_left_out(left_out));
    }
    diti_model_tell_unused_types(model, desc);
    result = diti_model_check_used(model, desc, err);
    if (result == DIT_OK) result = diti_loras_load(model, err);
    return result == DIT_OK ? diti_model_describe(model, err) : result;
}

static dit_result diti_model_check_types(const dit_model_desc *desc, dit_error *err) {
    uint32_t i;
    for (i = 0; i < desc->type_count; i++) {
        dit_type type = desc->types[i].type;
        if (!desc->types[i].tensors)
            return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_model_desc: types[%u].tensors is NULL", i);
        if (type == DIT_TYPE_STORED || type == DIT_TYPE_I4_GROUP || diti_type_is_i8(type)) continue;
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_model_desc: types[%u] (\"%.80s\") asks for %s; this version makes I8_ROW, "
                         "I8_ROW_ROTATED, I4_ROW_ROTATED and I4_GROUP at load, dit-convert makes other types",
                         i, desc->types[i].tensors, diti_type_name(type));
    }
    return DIT_OK;
}

static dit_result diti_model_check_desc(dit_context *ctx, const dit_model_desc *desc, dit_error *err) {
    const uint32_t known = 1u << DIT_ROLE_TRANSFORMER | 1u << DIT_ROLE_TEXT_1 | 1u << DIT_ROLE_TEXT_2 |
                           1u << DIT_ROLE_TEXT_3 | 1u << DIT_ROLE_VAE | 1u << DIT_ROLE_IMAGE_ENCODER |
                           1u << DIT_ROLE_SOUND;
    if (!desc) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_model_load: desc is NULL");
    if (desc->_zero_begin || desc->_zero_end)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_model_desc: the guard members are not zero; initialise the struct with {0}");
    if (!ctx && !desc->dry_run)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_model_load: ctx is NULL; only a dry run works without a context");
    if (!desc->source.path && !desc->source.data && !desc->source.read_at && !desc->source.open &&
        desc->component_count == 0)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_model_desc: neither source nor components name anything to load");
    if (desc->component_count && !desc->components)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_model_desc: components is NULL, component_count is %u",
                         desc->component_count);
    if (desc->component_count > DITI_MAX_COMPONENTS)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_model_desc: component_count is %u, at most %u are possible", desc->component_count,
                         DITI_MAX_COMPONENTS);
    if (desc->type_count && !desc->types)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_model_desc: types is NULL, type_count is %u",
                         desc->type_count);
    if ((desc->parts & ~known) && (desc->parts | known) != UINT32_MAX) /* all of them: ~(1u << DIT_ROLE_VAE) */
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_model_desc: parts has the bits 0x%x, which are of no part; 1u << role is the bit of a "
                         "transformer (TRANSFORMER), text encoder (TEXT_1 to TEXT_3), autoencoder (VAE), image "
                         "encoder (IMAGE_ENCODER) or of sound (SOUND)",
                         desc->parts & ~known);
    if (desc->weights_by_need && (desc->weight_budget || desc->release_text_encoders))
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT,
                         "dit_model_desc: weights_by_need cannot be had together with weight_budget or "
                         "release_text_encoders");
    if (diti_model_check_types(desc, err) < 0) return DIT_ERROR_INVALID_ARGUMENT;
    return DIT_OK;
}

static dit_result diti_model_env(dit_context *ctx, bool dry_run, diti_env *env, dit_error *err) {
    dit_result result = DIT_OK;
    if (ctx)
        *env = ctx->env;
    else
        result = diti_env_init(env, NULL, NULL, err);
    env->headers_only = dry_run;
    return result;
}

DIT_API dit_result dit_model_load(dit_context *ctx, const dit_model_desc *desc, dit_model **out, dit_error *err) {
    dit_model_desc told;
    diti_telling telling;
    dit_model *model;
    diti_env env;
    dit_result result;
    if (!out) return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "dit_model_load: out is NULL");
    *out = NULL;
    DITI_TRY(diti_model_check_desc(ctx, desc, err));
    DITI_TRY(diti_model_env(ctx, desc->dry_run, &env, err));
    model = (dit_model *)diti_alloc_zero(&env, sizeof *model);
    if (!model) return diti_fail_memory(err, "the model");
    model->env = env;
    model->device = ctx && !desc->dry_run ? ctx->device : NULL;
    model->context = model->device ? ctx : NULL;
    model->parts = desc->parts ? desc->parts : UINT32_MAX;
    told = *desc;
    if (model->context)
        told.progress =
            diti_beats_progress(ctx->peers, desc->progress.func ? &desc->progress : &ctx->progress, &telling);
    result = diti_model_load_parts(model, &told, err);
    if (!model->stream && !desc->weights_by_need) {
        diti_model_close_packages(model); /* everything is on the device or copied */
        diti_lora_merges_free(&model->merges);
    }
    if (result != DIT_OK) {
        diti_model_free(model);
        return result;
    }
    *out = model;
    return DIT_OK;
}

DIT_API void dit_model_get_info(const dit_model *model, dit_model_info *out) {
    if (!out) return;
    if (model)
        *out = model->info;
    else
        memset(out, 0, sizeof *out);
}

DIT_INTERNAL void diti_model_free(dit_model *model) {
    diti_env env;
    uint32_t i;
    if (!model) return;
    env = model->env;
    diti_stream_destroy(model->stream);
    diti_loras_free(model);
    diti_model_drop_parts(model);
    for (i = 0; i < DITI_ENCODERS; i++) diti_tokenizer_free(model->encoders[i].tokenizer);
    diti_json_free(&env, model->scheduler);
    diti_json_free(&env, model->index);
    diti_model_close_packages(model);
    diti_free(&env, model);
}

DIT_INTERNAL dit_result diti_job_needs_encoder(const dit_model *model, const char *name, dit_error *err) {
    if (model->vae && diti_vae_get_traits(model->vae)->has_encoder) return DIT_OK;
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "%s: the model's autoencoder has no encoder; load the whole one as a component with the role "
                     "DIT_ROLE_VAE",
                     name);
}
