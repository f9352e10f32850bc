#include "model/model.h"

#define DITI_FAMILIES 5u

static const diti_family *diti_family_at(size_t index) { /* NULL: it was left out of this build */
    switch (index) {
#ifndef DIT_NO_PIXART
    case 0: return diti_pixart_family();
#endif
#ifndef DIT_NO_DIT
    case 1: return diti_dit_family();
#endif
#ifndef DIT_NO_FLUX
    case 2: return diti_flux_family();
#endif
#ifndef DIT_NO_SD3
    case 3: return diti_sd3_family();
#endif
#ifndef DIT_NO_HUNYUANDIT
    case 4: return diti_hunyuandit_family();
#endif
    default: return NULL;
    }
}

DIT_INTERNAL const char *diti_families_left_out(void) {
    return ""
#ifdef DIT_NO_PIXART
           "; DIT_NO_PIXART left PixArt out of this build"
#endif
#ifdef DIT_NO_DIT
           "; DIT_NO_DIT left DiT out of this build"
#endif
#ifdef DIT_NO_FLUX
           "; DIT_NO_FLUX left FLUX.1 out of this build"
#endif
#ifdef DIT_NO_SD3
           "; DIT_NO_SD3 left SD3 out of this build"
#endif
#ifdef DIT_NO_HUNYUANDIT
           "; DIT_NO_HUNYUANDIT left HunyuanDiT out of this build"
#endif
        ;
}

/* What an unknown model looks like: its class, else one of its tensors. */
static dit_result diti_family_fail(const diti_json *config, const diti_checkpoint *checkpoint, dit_error *err) {
    const diti_stored_tensor *first = diti_checkpoint_count(checkpoint) ? diti_checkpoint_tensor(checkpoint, 0) : NULL;
    const char *name = diti_json_string(config, "_class_name", NULL);
    const char *what = name ? "its config.json says" : "it has no config.json; a tensor of it is";
    if (!name) name = first ? first->name : "none";
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "%s: not a transformer that dit.h knows (PixArt, DiT, FLUX.1, SD3, HunyuanDiT): %s %.200s%s",
                     diti_checkpoint_name(checkpoint), what, name, diti_families_left_out());
}

static const diti_family *diti_family_find(const diti_json *config, const diti_checkpoint *checkpoint,
                                           const char *prefix) {
    size_t i;
    for (i = 0; i < DITI_FAMILIES; i++) {
        const diti_family *family = diti_family_at(i);
        if (family && family->recognise(config, checkpoint, prefix)) return family;
    }
    return NULL;
}

/* Original files of several families, whole pipelines among them, have names behind this. */
static const char *diti_family_prefix(const diti_checkpoint *checkpoint, const char *prefix) {
    static const char original[] = "model.diffusion_model.";
    uint32_t i, count = diti_checkpoint_count(checkpoint);
    for (i = 0; (!prefix || !prefix[0]) && i < count; i++) {
        if (diti_starts_with(diti_checkpoint_tensor(checkpoint, i)->name, original)) return original;
    }
    return prefix ? prefix : "";
}

DIT_INTERNAL bool diti_transformer_known(const diti_json *config, const diti_checkpoint *checkpoint,
                                         const char *prefix) {
    return diti_family_find(config, checkpoint, diti_family_prefix(checkpoint, prefix)) != NULL;
}

DIT_INTERNAL dit_result diti_transformer_load(diti_device *device, const diti_env *env, const diti_json *config,
                                              const diti_checkpoint *checkpoint, const char *prefix,
                                              const diti_load_options *options, diti_transformer **out,
                                              dit_error *err) {
    diti_settings settings = diti_settings_of(config, "the transformer's config.json", err);
    const diti_family *family;
    diti_load_options own = DITI_ZERO;
    bool wide = false;
    dit_result result;
    if (options) own = *options;
    own.wide = &wide;
    *out = NULL;
    diti_setting_text(&settings, "_class_name", NULL);
    diti_setting_text(&settings, "norm_type", NULL);
    if (settings.result != DIT_OK) return settings.result;
    prefix = diti_family_prefix(checkpoint, prefix);
    family = diti_family_find(config, checkpoint, prefix);
    if (!family) return diti_family_fail(config, checkpoint, err);
    result = family->load(device, env, config, checkpoint, prefix, &own, out, err);
    own.wide = NULL;
    return wide ? family->load(device, env, config, checkpoint, prefix, &own, out, err) : result;
}

DIT_INTERNAL void diti_transformer_destroy(diti_transformer *transformer) {
    if (transformer) transformer->family->destroy(transformer);
}
