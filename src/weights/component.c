/* Tables that loaders share: sizes from shapes or from config.json, fused layers, and the skeleton that loads a part of
   a model. */
#include "weights/lora.h"

/* ---- sizes ---- */

static uint32_t *diti_config_member(void *config, size_t member) {
    return (uint32_t *)(void *)((char *)config + member);
}

DIT_INTERNAL void diti_read_shapes(diti_loader *loader, void *config, const diti_shape_key *keys, size_t count) {
    size_t i;
    for (i = 0; i < count; i++)
        *diti_config_member(config, keys[i].member) = diti_loader_dimension(loader, keys[i].tensor, keys[i].index);
}

DIT_INTERNAL void diti_read_sizes(diti_settings *settings, void *config, const diti_size_key *keys, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) {
        uint32_t *member = diti_config_member(config, keys[i].member);
        *member = diti_setting_size(settings, keys[i].key, *member, keys[i].most);
    }
}

DIT_INTERNAL dit_result diti_config_complete(const diti_loader *loader, const void *config, const char *title,
                                             const diti_need *needs, size_t count, dit_error *err) {
    size_t i;
    for (i = 0; i < count; i++)
        if (!*(const uint32_t *)(const void *)((const char *)config + needs[i].member))
            return diti_loader_refuse(loader, err, "a transformer of %s without %s: the file is incomplete", title,
                                      needs[i].part);
    return DIT_OK;
}

/* ---- loading ---- */

/* Whether the file has the fused matrix: files of other names do, but for those that have the first of the others. */
static bool diti_fused_stored(diti_loader *loader, const diti_fused *names) {
    char first[160];
    diti_format(first, sizeof first, "%s.weight", names->names[0]);
    return loader->rename && (names->count == 1 || !diti_loader_find(loader, first));
}

static void diti_load_fused_layers(diti_loader *loader, diti_fused_linear *out, const diti_fused *names, uint32_t rows,
                                   uint32_t columns, bool biased) {
    bool fused = diti_fused_stored(loader, names);
    uint32_t i;
    if (fused)
        diti_load_fused_linear(loader, out, &names->fused, 1, names->count * rows, columns, biased);
    else
        diti_load_fused_linear(loader, out, names->names, names->count, rows, columns, biased);
    for (i = 0; i < names->count && names->count > 1; i++) { /* the names that the file does not have */
        bool joined = out->count == 1;
        const diti_weight *weight = &out->layers[joined ? 0 : i].weight;
        uint32_t row = joined ? i * rows : 0;
        if (fused)
            diti_loader_alias(loader, weight, row, rows, names->names[i], 0, rows, DITI_NAMES_ALL);
        else
            diti_loader_alias(loader, weight, row, rows, names->fused, i * rows, names->count * rows, DITI_NAMES_ALL);
    }
}

DIT_INTERNAL void diti_load_fused(diti_loader *loader, diti_fused_linear *out, const diti_fused *names, uint32_t rows,
                                  uint32_t columns) {
    diti_load_fused_layers(loader, out, names, rows, columns, true);
}

DIT_INTERNAL void diti_load_fused_bare(diti_loader *loader, diti_fused_linear *out, const diti_fused *names,
                                       uint32_t rows, uint32_t columns) {
    diti_load_fused_layers(loader, out, names, rows, columns, false);
}

typedef struct diti_component_block {
    struct diti_component_block *next;
    double aligned; /* aligns the array behind it */
} diti_component_block;

DIT_INTERNAL void *diti_component_array(diti_component *component, diti_loader *loader, size_t count, size_t size) {
    diti_component_block *array = NULL;
    if (size && count <= (SIZE_MAX - sizeof *array) / size)
        array = (diti_component_block *)diti_alloc_zero(&component->env, sizeof *array + count * size);
    if (!array) {
        if (loader->error.result == DIT_OK) diti_fail_memory(&loader->error, "the %s", loader->what);
        return NULL;
    }
    array->next = component->arrays;
    component->arrays = array;
    return array + 1;
}

DIT_INTERNAL bool diti_component_has(const diti_component_source *from, const char *name) {
    char full[320];
    return diti_format(full, sizeof full, "%s%s", from->prefix ? from->prefix : "", name) &&
           diti_checkpoint_find(from->checkpoint, full);
}

static dit_result diti_component_fill(const diti_component_kind *kind, const diti_component_source *from,
                                      diti_component *component, dit_error *err) {
    diti_loader loader;
    dit_result result;
    diti_loader_begin(&loader, component->device, &component->env, from->checkpoint, from->prefix, kind->what,
                      from->options ? from->options->progress : NULL);
    diti_loader_rules(&loader, kind->role, from->options);
    loader.rename = from->keys ? diti_rename_by_tables : NULL;
    loader.user = (void *)(uintptr_t)from->keys;
    loader.weights.originals = from->originals ? from->originals : from->keys;
    result = kind->read(component, &loader, from->config, err);
    if (result != DIT_OK) {
        diti_free(loader.env, loader.used);
        return result;
    }
    kind->load(component, &loader);
    result = diti_loader_finish(&loader, &component->weights, err);
    return result == DIT_OK && kind->finish ? kind->finish(component, from->config, err) : result;
}

/* Adapters that become part of the weights are looked up before: a matrix may change its type with them. */
static dit_result diti_component_match_merges(const diti_component_kind *kind, const diti_component_source *from,
                                              dit_error *err) {
    diti_component *component = (diti_component *)diti_alloc_zero(from->env, kind->size);
    diti_load_options options = DITI_ZERO;
    diti_weight_sizes sizes = DITI_ZERO;
    diti_component_source dry = *from;
    dit_result result;
    if (!component) return diti_fail_memory(err, "the %s", kind->what);
    component->env = *from->env;
    options.sizes = &sizes;
    options.adapts = true;
    options.types = from->options->types;
    options.type_count = from->options->type_count;
    dry.options = &options;
    result = diti_component_fill(kind, &dry, component, err);
    if (result == DIT_OK)
        result = diti_lora_merges_match(from->options->merges, from->options->role, &component->weights, err);
    if (result == DIT_OK && from->options->other_role != DIT_ROLE_NONE)
        result = diti_lora_merges_match(from->options->merges, from->options->other_role, &component->weights, err);
    if (result == DIT_OK && from->device && !from->options->sizes)
        result = diti_lora_merges_measure(from->options->merges, from->checkpoint, err);
    diti_component_free(component);
    return result;
}

DIT_INTERNAL dit_result diti_component_load(const diti_component_kind *kind, const diti_component_source *from,
                                            diti_component **out, dit_error *err) {
    diti_component *component = (diti_component *)diti_alloc_zero(from->env, kind->size);
    dit_result result;
    *out = NULL;
    if (!component) return diti_fail_memory(err, "the %s", kind->what);
    component->device = from->device;
    component->env = *from->env;
    result = from->options && from->options->merges ? diti_component_match_merges(kind, from, err) : DIT_OK;
    if (result == DIT_OK) result = diti_component_fill(kind, from, component, err);
    if (result != DIT_OK)
        diti_component_free(component);
    else
        *out = component;
    return result;
}

DIT_INTERNAL void diti_component_free(diti_component *component) {
    diti_component_block *array, *next;
    diti_env env;
    if (!component) return;
    env = component->env;
    diti_weights_free(component->device, &env, &component->weights);
    for (array = component->arrays; array; array = next) {
        next = array->next;
        diti_free(&env, array);
    }
    diti_free(&env, component);
}
