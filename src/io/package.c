/* A model that lies in several places: a folder of diffusers, one file with all parts, or a file for each part. */
#include "io/io.h"

/* A component that was looked for, found or not. */
typedef struct diti_package_part {
    char *component, *prefix;
    diti_checkpoint *checkpoint; /* NULL: the package's single file */
    bool found;
} diti_package_part;

struct diti_package {
    diti_env env;
    dit_source root; /* the folder; its path is owned */
    char *path;
    diti_checkpoint *single; /* the whole package in one checkpoint; NULL for a folder */
    diti_package_part *parts;
    size_t part_count, part_capacity;
};

/* --- opening --- */

static dit_result diti_package_fill(diti_package *package, const dit_source *source, dit_error *err) {
    package->root = *source;
    if (!diti_source_is_folder(source)) return diti_checkpoint_open(&package->env, source, &package->single, err);
    package->path = diti_copy_string(&package->env, source->path);
    if (source->path && !package->path) return diti_no_memory(source->path, err);
    package->root.path = package->path;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_package_open(const diti_env *env, const dit_source *source, diti_package **out,
                                          dit_error *err) {
    diti_package *package = (diti_package *)diti_alloc_zero(env, sizeof *package);
    dit_result result;
    *out = NULL;
    if (!package) return diti_no_memory(source->path ? source->path : "model", err);
    package->env = *env;
    result = diti_package_fill(package, source, err);
    if (result < 0)
        diti_package_close(package);
    else
        *out = package;
    return result;
}

static void diti_package_part_free(const diti_env *env, diti_package_part *part) {
    diti_free(env, part->component);
    diti_free(env, part->prefix);
    diti_checkpoint_close(part->checkpoint);
}

DIT_INTERNAL void diti_package_close(diti_package *package) {
    diti_env env;
    size_t i;
    if (!package) return;
    env = package->env;
    for (i = 0; i < package->part_count; i++) diti_package_part_free(&env, &package->parts[i]);
    diti_free(&env, package->parts);
    diti_checkpoint_close(package->single);
    diti_free(&env, package->path);
    diti_free(&env, package);
}

DIT_INTERNAL bool diti_package_is_folder(const diti_package *package) { return package->single == NULL; }

DIT_INTERNAL uint64_t diti_package_absent(const diti_package *package) {
    uint64_t absent = package->single ? diti_checkpoint_absent(package->single) : 0;
    size_t i;
    for (i = 0; i < package->part_count; i++) {
        if (package->parts[i].checkpoint) absent += diti_checkpoint_absent(package->parts[i].checkpoint);
    }
    return absent;
}

/* --- small files --- */

/* ComfyUI's files of T5 have the tokenizer as a tensor of bytes, and so have those that hold a whole pipeline. */
static dit_result diti_package_read_words(const diti_package *package, const char *path, char **out, size_t *size,
                                          dit_error *err) {
    const diti_checkpoint *from = package->single;
    const diti_stored_tensor *words = NULL;
    if (diti_equal(path, "spiece.model")) words = diti_checkpoint_find(from, DITI_WORDS_TENSOR);
    if (diti_equal(path, "tokenizer/spiece.model"))
        words = diti_checkpoint_find(from, "text_encoders." DITI_WORDS_TENSOR);
    if (!words || !diti_equal(words->type_name, "U8") || from->absent) return DIT_OK;
    *out = words->size < SIZE_MAX ? (char *)diti_alloc(&package->env, (size_t)words->size + 1) : NULL;
    if (!*out) return diti_no_memory(path, err);
    *size = (size_t)words->size;
    (*out)[*size] = 0;
    return diti_file_read(from->files[words->file], words->offset, *out, *size, err);
}

static dit_result diti_package_read_bundled(const diti_package *package, const char *path, char **out, size_t *size,
                                            dit_error *err) {
    char key[512];
    const void *data;
    uint64_t count;
    uint32_t type;
    if (!diti_format(key, sizeof key, "dit.file.%s", path) ||
        !diti_checkpoint_array(package->single, key, &data, &count, &type) || type != DITI_GGUF_U8) {
        return diti_package_read_words(package, path, out, size, err);
    }
    *out = (char *)diti_alloc(&package->env, (size_t)count + 1);
    if (!*out) return diti_no_memory(path, err);
    memcpy(*out, data, (size_t)count);
    (*out)[count] = 0;
    *size = (size_t)count;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_package_read(const diti_package *package, const char *path, char **out, size_t *size,
                                          dit_error *err) {
    diti_file *file;
    dit_result result;
    *out = NULL;
    *size = 0;
    if (package->single) return diti_package_read_bundled(package, path, out, size, err);
    result = diti_file_open_member(&package->env, &package->root, path, &file, err);
    if (result < 0 || !file) return result;
    result = diti_file_read_all(&package->env, file, out, size, err);
    diti_file_close(file);
    return result;
}

/* --- components in a folder --- */

/* In the order that diffusers and transformers prefer them. */
static const char *const diti_weight_files[] = {
    "diffusion_pytorch_model.safetensors",
    "diffusion_pytorch_model.safetensors.index.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "diffusion_pytorch_model.fp16.safetensors",
    "diffusion_pytorch_model.safetensors.index.fp16.json",
    "model.fp16.safetensors",
    "model.safetensors.index.fp16.json",
    "diffusion_pytorch_model.bf16.safetensors",
    "diffusion_pytorch_model.safetensors.index.bf16.json",
    "model.bf16.safetensors",
    "model.safetensors.index.bf16.json",
    "diffusion_pytorch_model.gguf",
    "model.gguf",
    "diffusion_pytorch_model.bin",
    "diffusion_pytorch_model.bin.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "diffusion_pytorch_model.fp16.bin",
    "pytorch_model.fp16.bin",
};

static dit_result diti_package_find_weights(const diti_package *package, diti_package_part *part, dit_error *err) {
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_weight_files) && !part->checkpoint; i++) {
        char member[256];
        if (!diti_format(member, sizeof member, "%s%s%s", part->component, *part->component ? "/" : "",
                         diti_weight_files[i])) {
            return DIT_OK;
        }
        DITI_TRY(diti_checkpoint_open_member(&package->env, &package->root, member, &part->checkpoint, err));
    }
    part->found = part->checkpoint != NULL;
    return DIT_OK;
}

/* --- components in one file --- */

typedef struct diti_known_prefix {
    const char *component, *prefix;
} diti_known_prefix;

/* Prefixes in original checkpoints and files of stable-diffusion.cpp (docs/models.md 9.3). Text encoders in such files
   have no numbers. */
static const diti_known_prefix diti_known_prefixes[] = {
    {"transformer", "model.diffusion_model."},
    {"vae", "first_stage_model."},
};

static const char *diti_find_known_prefix(const diti_checkpoint *checkpoint, const char *component) {
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_known_prefixes); i++) {
        const diti_known_prefix *known = &diti_known_prefixes[i];
        if (diti_equal(known->component, component) && diti_checkpoint_has_prefix(checkpoint, known->prefix)) {
            return known->prefix;
        }
    }
    return NULL;
}

static dit_result diti_package_find_prefix(const diti_package *package, diti_package_part *part, dit_error *err) {
    const char *known;
    char own[128] = "";
    if (*part->component && !diti_format(own, sizeof own, "%s.", part->component)) return DIT_OK;
    if (!*own || diti_checkpoint_has_prefix(package->single, own))
        known = own;
    else
        known = diti_find_known_prefix(package->single, part->component);
    if (!known) return DIT_OK;
    part->prefix = diti_copy_string(&package->env, known);
    part->found = true;
    return part->prefix ? DIT_OK : diti_no_memory(diti_checkpoint_name(package->single), err);
}

/* --- components --- */

static diti_package_part *diti_package_known_part(const diti_package *package, const char *component) {
    size_t i;
    for (i = 0; i < package->part_count; i++) {
        if (strcmp(package->parts[i].component, component) == 0) return &package->parts[i];
    }
    return NULL;
}

static dit_result diti_package_part_fill(const diti_package *package, const char *component, diti_package_part *part,
                                         dit_error *err) {
    part->component = diti_copy_string(&package->env, component);
    if (!part->component) return diti_no_memory(component, err);
    return package->single ? diti_package_find_prefix(package, part, err)
                           : diti_package_find_weights(package, part, err);
}

/* Adds a part. One that could not be opened is not remembered, so that the next call tells the error again. */
static dit_result diti_package_new_part(diti_package *package, const char *component, diti_package_part **out,
                                        dit_error *err) {
    diti_package_part part = DITI_ZERO;
    dit_result result = diti_package_part_fill(package, component, &part, err);
    if (result >= 0 && !diti_grow(&package->env, (void **)&package->parts, &package->part_capacity, package->part_count,
                                  sizeof part)) {
        result = diti_no_memory(component, err);
    }
    if (result < 0) {
        diti_package_part_free(&package->env, &part);
        return result;
    }
    *out = &package->parts[package->part_count++];
    **out = part;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_package_component(diti_package *package, const char *component,
                                               const diti_checkpoint **out, const char **prefix, dit_error *err) {
    diti_package_part *part = diti_package_known_part(package, component);
    dit_result result = part ? DIT_OK : diti_package_new_part(package, component, &part, err);
    *out = NULL;
    *prefix = "";
    if (result < 0 || !part->found) return result;
    *out = part->checkpoint ? part->checkpoint : package->single;
    if (part->prefix) *prefix = part->prefix;
    return DIT_OK;
}
