/* Which rows of a model's weights a module of an adapter is about: by diffusers' names and, through the key tables of
   families, by the original's, both with dots or with underscores. */
#include "weights/lora.h"

typedef struct diti_lora_name { /* a target under one of its names, with underscores for dots */
    const char *text;
    const diti_target *target;
    uint32_t names; /* code bases that call it so: DITI_NAMES_DIFFUSERS and _ORIGINAL */
} diti_lora_name;
typedef struct diti_lora_names {
    diti_env env;
    diti_lora_name *list; /* by text */
    size_t count, capacity;
    char *memory; /* behind all texts */
    size_t used, size;
    uint32_t preferred; /* the code base of the file, where one name means different modules to both */
} diti_lora_names;

#define DITI_LORA_NAME 256u

static void diti_lora_underscore(char *text) {
    for (; *text; text++)
        if (*text == '.') *text = '_';
}

static bool diti_lora_names_add(diti_lora_names *names, const diti_target *target, const char *name, uint32_t who) {
    size_t length = strlen(name) + 1;
    if (length > names->size - names->used || names->count == names->capacity) return false;
    memcpy(names->memory + names->used, name, length);
    diti_lora_underscore(names->memory + names->used);
    names->list[names->count].text = names->memory + names->used;
    names->list[names->count].names = who;
    names->list[names->count++].target = target;
    names->used += length;
    return true;
}

/* The original's name of a target; NULL: the original has none for it. */
static const char *diti_lora_original(const diti_weights *weights, const diti_target *target,
                                      char out[DITI_LORA_NAME]) {
    if (!(target->names & DITI_NAMES_ORIGINAL) || !weights->originals) return NULL;
    return diti_rename_by_tables((void *)(uintptr_t)weights->originals, target->module, out, DITI_LORA_NAME);
}

static int diti_lora_name_order(const void *a, const void *b) {
    return strcmp(((const diti_lora_name *)a)->text, ((const diti_lora_name *)b)->text);
}

static dit_result diti_lora_names_make(const diti_env *env, const diti_weights *weights, diti_lora_names *names,
                                       dit_error *err) {
    char original[DITI_LORA_NAME];
    const char *name;
    size_t i;
    memset(names, 0, sizeof *names);
    names->env = *env;
    names->capacity = 2 * weights->target_count + 1;
    for (i = 0; i < weights->target_count; i++) {
        const diti_target *target = &weights->targets[i];
        names->size += strlen(target->module) + 1;
        name = diti_lora_original(weights, target, original);
        names->size += name ? strlen(name) + 1 : 0;
    }
    names->list = (diti_lora_name *)diti_alloc_array(env, names->capacity, sizeof *names->list);
    names->memory = (char *)diti_alloc_array(env, names->size + 1, 1);
    if (!names->list || !names->memory) return diti_fail_memory(err, "names of modules");
    for (i = 0; i < weights->target_count; i++) {
        const diti_target *target = &weights->targets[i];
        name = diti_lora_original(weights, target, original);
        if (name && (target->names & DITI_NAMES_DIFFUSERS) && diti_equal(name, target->module)) {
            diti_lora_names_add(names, target, name, DITI_NAMES_ALL);
            continue;
        }
        if (target->names & DITI_NAMES_DIFFUSERS)
            diti_lora_names_add(names, target, target->module, DITI_NAMES_DIFFUSERS);
        if (name) diti_lora_names_add(names, target, name, DITI_NAMES_ORIGINAL);
    }
    diti_sort(names->list, names->count, sizeof *names->list, diti_lora_name_order);
    return DIT_OK;
}

static void diti_lora_names_free(diti_lora_names *names) {
    diti_free(&names->env, names->list);
    diti_free(&names->env, names->memory);
}

/* The first entry of that name, and behind the last. */
static size_t diti_lora_names_find(const diti_lora_names *names, const char *text, size_t *end) {
    size_t low = 0, high = names->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(names->list[middle].text, text) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (*end = low; *end < names->count && !strcmp(names->list[*end].text, text); ++*end) {
    }
    return low;
}

/* The entries of a module's name; false: none. ComfyUI calls HunyuanVideo's modules as FLUX's: ends of names there and
   here. */
static bool diti_lora_names_of(const diti_lora_names *names, const diti_lora_module *module, size_t *first,
                               size_t *end) {
    static const char *const ends[][2] = {{"_mod_lin", "_mod_linear"},
                                          {"_modulation_lin", "_modulation_linear"},
                                          {"_mlp_0", "_mlp_fc1"},
                                          {"_mlp_2", "_mlp_fc2"},
                                          {"_c_embedder_in_layer", "_c_embedder_linear_1"},
                                          {"_c_embedder_out_layer", "_c_embedder_linear_2"},
                                          {"_in_layer", "_mlp_0"},
                                          {"_out_layer", "_mlp_2"}};
    char name[DITI_LORA_NAME], other[DITI_LORA_NAME];
    size_t i;
    if (!diti_format(name, sizeof name, "%s", module->name)) return false; /* longer than any of a model */
    diti_lora_underscore(name);
    *first = diti_lora_names_find(names, name, end);
    for (i = 0; *first == *end && i < DITI_COUNT(ends); i++)
        if (diti_ends_with(name, ends[i][0]) &&
            diti_format(other, sizeof other, "%.*s%s", (int)(strlen(name) - strlen(ends[i][0])), name, ends[i][1]))
            *first = diti_lora_names_find(names, other, end);
    return *first < *end;
}

/* Whose names a file has is told by those of its modules that only diffusers or only the original uses. HunyuanDiT's
   norm2 is the original's norm3, and the other way round. */
static uint32_t diti_lora_names_preferred(const diti_lora_names *names, const diti_lora_file *file, dit_role part) {
    size_t i, k, end, diffusers = 0, original = 0;
    for (k = 0; k < file->module_count; k++) {
        uint32_t who = 0;
        if (file->modules[k].part != part || !diti_lora_names_of(names, &file->modules[k], &i, &end)) continue;
        for (; i < end; i++) who |= names->list[i].names;
        diffusers += who == DITI_NAMES_DIFFUSERS;
        original += who == DITI_NAMES_ORIGINAL;
    }
    return original > diffusers ? DITI_NAMES_ORIGINAL : DITI_NAMES_DIFFUSERS;
}

/* Leaves the entries that a module can mean: matrices or vectors, and of two code bases the file's. */
static bool diti_lora_name_means(const diti_lora_names *names, const diti_lora_module *module, size_t index,
                                 bool preferred) {
    const diti_target *target = names->list[index].target;
    return target->bias == module->bias && (!target->vector || module->kind == DITI_KIND_DIFF) &&
           (!preferred || (names->list[index].names & names->preferred));
}

static dit_result diti_lora_wrong_shape(const diti_lora_file *file, const diti_lora_module *module,
                                        const diti_target *target, dit_error *err) {
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "%s: module %.200s is [%u, %u], and the model's is [%u, %u]: the adapter is for another model",
                     diti_checkpoint_name(file->checkpoint), module->name, (unsigned)module->rows,
                     (unsigned)module->columns, (unsigned)target->all, (unsigned)target->columns);
}

/* Whether shapes agree: a vector's may differ as long as it has as many values. */
static bool diti_lora_target_fits(const diti_lora_module *module, const diti_target *target) {
    if (target->vector) return target->all == (uint64_t)module->rows * module->columns;
    return target->all == module->rows && target->columns == module->columns;
}

DIT_INTERNAL bool diti_lora_matches_have(const diti_lora_matches *matches, const diti_target *target,
                                         const diti_lora_module *besides) {
    size_t i;
    for (i = 0; i < matches->count; i++) {
        const diti_lora_match *match = &matches->list[i];
        if (match->module != besides && match->target->weight == target->weight &&
            match->row < target->row + target->rows && target->row < match->row + match->rows)
            return true;
    }
    return false;
}

/* An adapter of a model that reads the latent alone fits one that reads more behind it (FLUX.1 Fill, Wan for a first
   picture): what stands there gets nothing, as in diffusers. */
static bool diti_lora_widens(const diti_lora_module *module, const diti_target *target) {
    return module->kind == DITI_KIND_LORA && !module->tensors[DITI_LORA_MAGNITUDE] && !target->vector &&
           target->all == module->rows && target->columns > module->columns &&
           (diti_equal(target->module, "x_embedder") || diti_equal(target->module, "patch_embedding"));
}

static dit_result diti_lora_match_module(const diti_lora_file *file, diti_lora_module *module,
                                         const diti_lora_names *names, diti_lora_matches *out, dit_error *err) {
    size_t first, i, end, before = out->count;
    uint32_t rows = 0, all = 0;
    bool preferred = false;
    if (!diti_lora_names_of(names, module, &first, &end)) return DIT_OK;
    for (i = first; i < end; i++) preferred = preferred || diti_lora_name_means(names, module, i, true);
    for (i = first; i < end; i++) {
        const diti_target *target = names->list[i].target;
        if (!diti_lora_name_means(names, module, i, preferred)) continue;
        if (diti_lora_widens(module, target)) module->columns = target->columns;
        if (!diti_lora_target_fits(module, target)) return diti_lora_wrong_shape(file, module, target, err);
        if (diti_lora_matches_have(out, target, module)) {
            module->doubled = true;
            out->count = before;
            return DIT_OK;
        }
        if (!diti_grow(&file->env, (void **)&out->list, &out->capacity, out->count, sizeof *out->list))
            return diti_fail_memory(err, "modules of a LoRA");
        out->list[out->count].module = module;
        out->list[out->count].target = target;
        out->list[out->count].first = target->first;
        out->list[out->count].row = target->row;
        out->list[out->count++].rows = target->rows;
        rows += target->rows;
        all = target->all;
    }
    if (!rows && module->bias)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "%s: tensor %.200s changes a bias, and the model's layer has none: the adapter is for another "
                         "model",
                         diti_checkpoint_name(file->checkpoint), module->tensors[diti_lora_diff_slot(module)]->name);
    if (!rows) return DIT_OK;
    if (rows < all)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "%s: module %.200s has %u rows, of which the model has %u in its weights",
                         diti_checkpoint_name(file->checkpoint), module->name, (unsigned)all, (unsigned)rows);
    module->fits = true;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_lora_match_scopes(diti_lora_file *file, const diti_lora_scope *scopes, size_t count,
                                               diti_lora_matches *out, dit_error *err) {
    dit_result result = DIT_OK;
    size_t i, k;
    for (i = 0; i < count && result >= 0; i++) {
        diti_lora_names names;
        result = diti_lora_names_make(&file->env, scopes[i].weights, &names, err);
        if (result >= 0) names.preferred = diti_lora_names_preferred(&names, file, scopes[i].part);
        for (k = 0; k < file->module_count && result >= 0; k++)
            if (file->modules[k].part == scopes[i].part)
                result = diti_lora_match_module(file, &file->modules[k], &names, out, err);
        diti_lora_names_free(&names);
    }
    return result;
}

/* Modules that the model does not have, or, if `doubled`, that the file has twice; at most three in the list. */
static uint32_t diti_lora_left_out(const diti_lora_file *file, bool doubled, char *names, size_t size) {
    uint32_t count = 0;
    size_t i;
    names[0] = 0;
    for (i = 0; i < file->module_count; i++) {
        const diti_lora_module *module = &file->modules[i];
        size_t length = strlen(names);
        if (!module->fits && module->doubled == doubled && count++ < 3)
            diti_format(names + length, size - length, "%s%.120s", length ? ", " : "", module->name);
    }
    return count;
}

/* An adapter of a model that has some layers of the same names and shapes. */
static void diti_lora_doubt(const diti_lora_file *file) {
    const char *first = NULL;
    uint32_t all = 0, fits = 0;
    size_t i;
    for (i = 0; i < file->module_count; i++) {
        const diti_lora_module *module = &file->modules[i];
        if (module->part != DIT_ROLE_TRANSFORMER || module->doubled) continue;
        all++;
        if (module->fits && !fits++) first = module->name;
    }
    if (first && 2 * fits < all)
        diti_log(
            &file->env, DITI_LOG_WARNING,
            "%s: only %u of its %u modules of a transformer fit (the first is %.120s): the adapter is probably for "
            "another model",
            diti_checkpoint_name(file->checkpoint), (unsigned)fits, (unsigned)all, first);
}

DIT_INTERNAL dit_result diti_lora_check_fits(const diti_lora_file *file, dit_error *err) {
    static const char more[] = ", ...; the log names all at level 2 (--verbose)";
    const char *name = diti_checkpoint_name(file->checkpoint);
    char names[500];
    uint32_t missing = diti_lora_left_out(file, false, names, sizeof names);
    size_t i;
    if (missing == file->module_count)
        return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                         "%s: none of its %u modules fits this model (the first is %.200s): the adapter is for another "
                         "model, or has names that dit does not know",
                         name, (unsigned)missing, missing ? file->modules[0].name : "");
    if (missing)
        diti_log(&file->env, DITI_LOG_WARNING, "%s: %u of %u modules fit nothing in this model and are left out: %s%s",
                 name, (unsigned)missing, (unsigned)file->module_count, names, missing > 3 ? more : "");
    diti_lora_doubt(file);
    missing = diti_lora_left_out(file, true, names, sizeof names);
    if (missing)
        diti_log(
            &file->env, DITI_LOG_WARNING,
            "%s: %u modules are about layers that other modules of the file are about, too, and are left out: %s%s",
            name, (unsigned)missing, names, missing > 3 ? more : "");
    if (file->foreign)
        diti_log(&file->env, DITI_LOG_WARNING, "%s: %u tensors are no adapter's and are left out: %.200s%s", name,
                 (unsigned)file->foreign, file->first_foreign->name, file->foreign > 1 ? more : "");
    for (i = 0; i < file->module_count; i++)
        if (!file->modules[i].fits)
            diti_log(&file->env, DITI_LOG_INFO, "%s: left out: module %s", name, file->modules[i].name);
    return DIT_OK;
}
