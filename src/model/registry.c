/* The list of all families, and which of them a file belongs to. */
#include "model/model.h"
#include "text/text.h"

typedef struct diti_family_row {
    const diti_family *(*family)(void); /* NULL: it was left out of this build */
    const char *title, *left_out_by;
} diti_family_row;

/* The families, in the order in which a file is shown to them: Sana's original files have all the names by which
   PixArt's are told, HunyuanVideo 1.5's those of 1.0, and LTX-2's those of LTX-Video. A new one is a row here, and a
   line in model.h. */
static const diti_family_row diti_families[] = {
#ifndef DIT_NO_SANA
    {diti_sana_family, "Sana", NULL},
#else
    {NULL, "Sana", "DIT_NO_SANA"},
#endif
#ifndef DIT_NO_PIXART
    {diti_pixart_family, "PixArt", NULL},
#else
    {NULL, "PixArt", "DIT_NO_PIXART"},
#endif
#ifndef DIT_NO_DIT
    {diti_dit_family, "DiT", NULL},
#else
    {NULL, "DiT", "DIT_NO_DIT"},
#endif
#ifndef DIT_NO_FLUX
    {diti_flux_family, "FLUX.1", NULL},
#else
    {NULL, "FLUX.1", "DIT_NO_FLUX"},
#endif
#ifndef DIT_NO_CHROMA
    {diti_chroma_family, "Chroma", NULL},
#else
    {NULL, "Chroma", "DIT_NO_CHROMA"},
#endif
#ifndef DIT_NO_LONGCAT
    {diti_longcat_ovis_family, "Ovis-Image", NULL},
    {diti_longcat_family, "LongCat-Image", NULL},
#else
    {NULL, "LongCat-Image and Ovis-Image", "DIT_NO_LONGCAT"},
#endif
#ifndef DIT_NO_SD3
    {diti_sd3_family, "SD3", NULL},
#else
    {NULL, "SD3", "DIT_NO_SD3"},
#endif
#ifndef DIT_NO_HUNYUANDIT
    {diti_hunyuandit_family, "HunyuanDiT", NULL},
#else
    {NULL, "HunyuanDiT", "DIT_NO_HUNYUANDIT"},
#endif
#ifndef DIT_NO_STDIT
    {diti_stdit_family, "Open-Sora", NULL},
#else
    {NULL, "Open-Sora", "DIT_NO_STDIT"},
#endif
#ifndef DIT_NO_LATTE
    {diti_latte_plan_family, "Open-Sora-Plan", NULL},
    {diti_latte_family, "Latte", NULL},
#else
    {NULL, "Latte and Open-Sora-Plan", "DIT_NO_LATTE"},
#endif
#ifndef DIT_NO_COGVIDEOX
    {diti_cogvideox_family, "CogVideoX", NULL},
#else
    {NULL, "CogVideoX", "DIT_NO_COGVIDEOX"},
#endif
#ifndef DIT_NO_LTX2
    {diti_ltx2_family, "LTX-2", NULL},
#else
    {NULL, "LTX-2", "DIT_NO_LTX2"},
#endif
#ifndef DIT_NO_LTX
    {diti_ltx_family, "LTX-Video", NULL},
#else
    {NULL, "LTX-Video", "DIT_NO_LTX"},
#endif
#ifndef DIT_NO_HUNYUANVIDEO
    {diti_hunyuanvideo15_family, "HunyuanVideo 1.5", NULL},
    {diti_hunyuanvideo_family, "HunyuanVideo", NULL},
#else
    {NULL, "HunyuanVideo", "DIT_NO_HUNYUANVIDEO"},
#endif
#ifndef DIT_NO_WAN
    {diti_wan_family, "Wan", NULL},
#else
    {NULL, "Wan", "DIT_NO_WAN"},
#endif
#ifndef DIT_NO_ZIMAGE
    {diti_zimage_family, "Z-Image", NULL},
#else
    {NULL, "Z-Image", "DIT_NO_ZIMAGE"},
#endif
#ifndef DIT_NO_FLUX2
    {diti_flux2_family, "FLUX.2", NULL},
#else
    {NULL, "FLUX.2", "DIT_NO_FLUX2"},
#endif
#ifndef DIT_NO_FLUX3
    {diti_flux3_family, "FLUX.3", NULL},
#else
    {NULL, "FLUX.3", "DIT_NO_FLUX3"},
#endif
#ifndef DIT_NO_QWENIMAGE
    {diti_qwenimage_family, "Qwen-Image", NULL},
    {diti_qwenimage21_family, "Qwen-Image-2.1", NULL},
#else
    {NULL, "Qwen-Image", "DIT_NO_QWENIMAGE"},
#endif
#ifndef DIT_NO_LUMINA2
    {diti_lumina2_boogu_family, "Boogu-Image", NULL},
    {diti_lumina2_family, "Lumina-Image 2", NULL},
#else
    {NULL, "Lumina-Image 2 and Boogu-Image", "DIT_NO_LUMINA2"},
#endif
#ifndef DIT_NO_KREA2
    {diti_krea2_family, "Krea 2", NULL},
#else
    {NULL, "Krea 2", "DIT_NO_KREA2"},
#endif
#ifndef DIT_NO_ANIMA
    {diti_anima_family, "Anima", NULL},
#else
    {NULL, "Anima", "DIT_NO_ANIMA"},
#endif
#ifndef DIT_NO_ERNIE
    {diti_ernie_family, "ERNIE-Image", NULL},
#else
    {NULL, "ERNIE-Image", "DIT_NO_ERNIE"},
#endif
#ifndef DIT_NO_IDEOGRAM4
    {diti_ideogram4_family, "Ideogram 4", NULL},
#else
    {NULL, "Ideogram 4", "DIT_NO_IDEOGRAM4"},
#endif
#ifndef DIT_NO_KANDINSKY
    {diti_kandinsky_family, "Kandinsky 5.0", NULL},
#else
    {NULL, "Kandinsky 5.0", "DIT_NO_KANDINSKY"},
#endif
#ifndef DIT_NO_MINIMAX
    {diti_minimax_family, "MiniMax-H3", NULL},
#else
    {NULL, "MiniMax-H3", "DIT_NO_MINIMAX"},
#endif
};
#define DITI_FAMILIES DITI_COUNT(diti_families)

static const diti_family *diti_family_at(size_t index) { /* NULL: it was left out of this build */
    return diti_families[index].family ? diti_families[index].family() : NULL;
}

DIT_INTERNAL const char *diti_families_left_out(char out[DITI_FAMILIES_TEXT]) {
    size_t i, used = 0;
    out[0] = 0;
    for (i = 0; i < DITI_FAMILIES; i++) {
        const diti_family_row *row = &diti_families[i];
        const char *front = used ? ", _" : "; this build was made with DIT_NO_"; /* short, so that a message has room */
        if (row->family ||
            !diti_format(out + used, DITI_FAMILIES_TEXT - used, "%s%s", front, row->left_out_by + strlen("DIT_NO_")))
            continue;
        used += strlen(out + used);
    }
    return out;
}

/* ---- which family a file is of ---- */

/* Every tensor of a list is there, with so many dimensions at most. */
static bool diti_family_has(const diti_checkpoint *checkpoint, const char *prefix,
                            const char *const names[DITI_SIGNATURE], uint32_t most) {
    size_t i;
    for (i = 0; i < DITI_SIGNATURE && names[i]; i++) {
        const diti_stored_tensor *tensor = diti_model_find(checkpoint, prefix, names[i]);
        if (!tensor || tensor->rank > most) return false;
    }
    return true;
}

static bool diti_family_is_diffusers(const diti_family *family, const diti_checkpoint *checkpoint, const char *prefix) {
    return diti_family_has(checkpoint, prefix, family->signature.diffusers, UINT32_MAX);
}

/* A signature names one class, or several with spaces between. */
static bool diti_family_has_class(const diti_signature *signature, const char *name) {
    const char *at = strstr(signature->class_name, name);
    size_t length = strlen(name);
    return at && length && (at == signature->class_name || at[-1] == ' ') && (!at[length] || at[length] == ' ');
}

static bool diti_family_recognises(const diti_family *family, const diti_json *config,
                                   const diti_checkpoint *checkpoint, const char *prefix) {
    const diti_signature *s = &family->signature;
    const char *name = diti_json_string(config, "_class_name", "");
    size_t i;
    if (diti_family_has_class(s, name)) return true;
    if (s->norm_type && diti_equal(name, "Transformer2DModel"))
        return diti_equal(diti_json_string(config, "norm_type", ""), s->norm_type);
    for (i = 0; i < DITI_COUNT(s->video) && s->video[i]; i++)
        if (diti_model_find(checkpoint, prefix, s->video[i])) return false;
    if (name[0]) return false;
    return diti_family_has(checkpoint, prefix, s->original, 4) || diti_family_is_diffusers(family, checkpoint, prefix);
}

static const diti_family *diti_family_find(const diti_json *config, const diti_checkpoint *checkpoint,
                                           const char *prefix) {
    size_t i;
    for (i = 0; i < DITI_FAMILIES; i++) {
        const diti_family *family = diti_family_at(i);
        if (family && diti_family_recognises(family, config, checkpoint, prefix)) return family;
    }
    return NULL;
}

/* Original files of several families, whole pipelines among them, have names behind this. */
static const char diti_family_original[] = "model.diffusion_model.";

static const char *diti_family_prefix(const diti_checkpoint *checkpoint, const char *prefix) {
    /* Anima's own files have "net.", and those that ComfyUI makes of them have not. */
    static const char *const known[] = {"model.diffusion_model.net.", diti_family_original, "net."};
    bool told = prefix && prefix[0] && !diti_equal(prefix, diti_family_original);
    uint32_t i, k, count = told ? 0 : diti_checkpoint_count(checkpoint);
    for (k = 0; k < DITI_COUNT(known); k++)
        for (i = 0; i < count; i++)
            if (diti_starts_with(diti_checkpoint_tensor(checkpoint, i)->name, known[k])) return known[k];
    return prefix ? prefix : "";
}

DIT_INTERNAL bool diti_transformer_known(const diti_json *config, const diti_checkpoint *checkpoint,
                                         const char *prefix) {
    return diti_family_find(config, checkpoint, diti_family_prefix(checkpoint, prefix)) != NULL;
}

/* An unknown model is told by its class, else by one of its tensors. */
static dit_result diti_family_fail(const diti_json *config, const diti_checkpoint *checkpoint, dit_error *err) {
    const diti_stored_tensor *first = diti_checkpoint_count(checkpoint) ? diti_checkpoint_tensor(checkpoint, 0) : NULL;
    const char *name = diti_json_string(config, "_class_name", NULL);
    const char *what = name ? "its config.json says" : "it has no config.json; a tensor of it is";
    char known[DITI_FAMILIES_TEXT], left_out[DITI_FAMILIES_TEXT];
    size_t i, used = 0;
    known[0] = 0;
    for (i = 0; i < DITI_FAMILIES; i++) {
        if (!diti_families[i].family) continue; /* told behind */
        diti_format(known + used, sizeof known - used, "%s%s", used ? ", " : "", diti_families[i].title);
        used += strlen(known + used);
    }
    if (!name) name = first ? first->name : "none";
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "%s: not a transformer that dit.h knows (%s): %s %.200s%s",
                     diti_checkpoint_name(checkpoint), known, what, name, diti_families_left_out(left_out));
}

/* ---- what families say of other parts ---- */

DIT_INTERNAL const diti_pipeline_class *diti_families_pipeline(const char *class_name) {
    size_t i;
    for (i = 0; i < DITI_FAMILIES; i++) {
        const diti_family *family = diti_family_at(i);
        const diti_pipeline_class *pipeline = family ? family->pipelines : NULL;
        for (; pipeline && pipeline->class_name; pipeline++)
            if (diti_equal(pipeline->class_name, class_name)) return pipeline;
    }
    return NULL;
}

DIT_INTERNAL const diti_chat *diti_families_chat(const char *class_name) {
    size_t i;
    for (i = 0; i < DITI_FAMILIES; i++) {
        const diti_family *family = diti_family_at(i);
        const diti_chat *chat = family ? family->chats : NULL;
        for (; chat && chat->classes; chat++)
            if (diti_chat_has_class(chat, class_name)) return chat;
    }
    return NULL;
}

DIT_INTERNAL const char *diti_family_place(const diti_family *family, const char *variant, dit_role role) {
    const diti_place *place = family->places;
    for (; place && place->variant; place++)
        if (place->role == role && diti_starts_with(variant, place->variant)) return place->place;
    return NULL;
}

DIT_INTERNAL const diti_latents *diti_families_latents(const diti_checkpoint *checkpoint) {
    const diti_family *family = diti_family_find(NULL, checkpoint, diti_family_original);
    return family ? &family->latents : NULL;
}

DIT_INTERNAL const char *diti_families_foreign(const diti_transformer *transformer, float scale) {
    const diti_latents *own = &transformer->traits.latents;
    size_t i;
    bool fits = !own->only && fabsf(own->scale - scale) <= 1e-4f;
    for (i = 0; i < DITI_FAMILIES && !fits; i++) {
        const diti_family *family = diti_family_at(i);
        if (!family || family == transformer->family || !family->latents.only) continue;
        if (family->latents.channels == own->channels && fabsf(family->latents.scale - scale) <= 1e-4f)
            return family->title;
    }
    return NULL;
}

/* ---- loading ---- */

static dit_result diti_family_load(const diti_family *family, const diti_component_source *from, diti_transformer **out,
                                   dit_error *err) {
    diti_component *component;
    dit_result result = diti_component_load(&family->kind, from, &component, err);
    if (result != DIT_OK) return result;
    *out = (diti_transformer *)(void *)component;
    (*out)->family = family;
    (*out)->int8_attention = from->options->int8_attention;
    (*out)->traits.family = family->name;
    if ((*out)->traits.latents.scale == 0) (*out)->traits.latents = family->latents;
    if ((*out)->branch) {
        (*out)->branch->family = family;
        (*out)->branch->traits.family = family->name;
        (*out)->branch->int8_attention = (*out)->int8_attention;
    }
    return result;
}

/* Names that control nets of diffusers have, whatever their family. */
static bool diti_control_is(const diti_checkpoint *checkpoint, const char *prefix) {
    return diti_model_find(checkpoint, prefix, "controlnet_blocks.0.weight") != NULL;
}

DIT_INTERNAL dit_result diti_transformer_load(diti_device *device, const diti_env *env, const diti_json *config,
                                              const diti_checkpoint *checkpoint, const char *prefix,
                                              const diti_load_options *options, diti_transformer **out,
                                              dit_error *err) {
    diti_settings settings = diti_settings_of(config, "the transformer's config.json", err);
    diti_component_source from = DITI_ZERO;
    diti_load_options own = DITI_ZERO;
    const diti_family *family;
    bool wide = false;
    dit_result result;
    if (options) own = *options;
    own.wide = &wide;
    *out = NULL;
    diti_setting_text(&settings, "_class_name", NULL);
    diti_setting_text(&settings, "norm_type", NULL);
    DITI_TRY(settings.result);
    from.device = device;
    from.env = env;
    from.config = config;
    from.checkpoint = checkpoint;
    from.prefix = diti_family_prefix(checkpoint, prefix);
    from.options = &own;
    family = diti_family_find(config, checkpoint, from.prefix);
    if (diti_control_is(checkpoint, from.prefix) ||
        (!family && diti_model_find(checkpoint, from.prefix, "vace_patch_embedding.weight")))
        return diti_fail(
            err, DIT_ERROR_UNSUPPORTED_MODEL,
            "%s: a control net, which makes no pictures by itself: name the model that it is for, and this "
            "file as a component with the role DIT_ROLE_CONTROL",
            diti_checkpoint_name(checkpoint));
    if (!family) return diti_family_fail(config, checkpoint, err);
    if (!diti_family_is_diffusers(family, checkpoint, from.prefix)) from.keys = family->keys;
    from.originals = family->keys;
    result = diti_family_load(family, &from, out, err);
    own.wide = NULL;
    return wide ? diti_family_load(family, &from, out, err) : result;
}

/* A net adds to the residual stream of a model that reads the same text and latent. */
static dit_result diti_control_check(const diti_transformer *model, const diti_transformer *net, const char *file,
                                     dit_error *err) {
    const diti_model_traits *a = &model->traits, *b = &net->traits;
    if (net->outlets && a->width == b->width && a->text_columns == b->text_columns &&
        a->pooled_columns == b->pooled_columns && a->latent_channels == b->latent_channels && a->patch == b->patch)
        return DIT_OK;
    return diti_fail(
        err, DIT_ERROR_UNSUPPORTED_MODEL,
        "%s: the control net is not for this model (%s %s): it has %u channels of a token and %u columns of "
        "text, the model %u and %u; use one that was made for it",
        file, a->family, a->variant, (unsigned)b->width, (unsigned)b->text_columns, (unsigned)a->width,
        (unsigned)a->text_columns);
}

DIT_INTERNAL dit_result diti_control_load(const diti_transformer *model, diti_device *device, const diti_env *env,
                                          const diti_json *config, const diti_checkpoint *checkpoint,
                                          const char *prefix, const diti_load_options *options, diti_transformer **out,
                                          dit_error *err) {
    const diti_family *family = model->family;
    const char *file = diti_checkpoint_name(checkpoint), *name = diti_json_string(config, "_class_name", "");
    diti_component_source from = DITI_ZERO;
    dit_result result;
    *out = NULL;
    if (!model->traits.control_by)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "%s: this model (%s %s) takes no control net; leave it out",
                         file, model->traits.family, model->traits.variant);
    if (!diti_control_is(checkpoint, prefix))
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "%s: no control net that dit knows: controlnet_blocks.0.weight is missing; those of diffusers "
                         "have it, and others must be converted to its names first",
                         file);
    if (!diti_model_find(checkpoint, prefix, model->traits.control_by))
        return diti_fail(
            err, DIT_ERROR_UNSUPPORTED_MODEL,
            "%s: a control net of another family%s%s%s than the model's, which is %s; use one that was made "
            "for %s",
            file, name[0] ? " (" : "", name, name[0] ? ")" : "", family->title, family->title);
    from.device = device;
    from.env = env;
    from.config = config;
    from.checkpoint = checkpoint;
    from.prefix = prefix;
    from.options = options;
    result = diti_family_load(family, &from, out, err);
    if (result == DIT_OK) result = diti_control_check(model, *out, file, err);
    if (result == DIT_OK) return DIT_OK;
    diti_transformer_destroy(*out);
    *out = NULL;
    return result;
}

DIT_INTERNAL void diti_transformer_destroy(diti_transformer *transformer) {
    if (transformer) diti_component_free(&transformer->component);
}
