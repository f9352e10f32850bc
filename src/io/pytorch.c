/* PyTorch checkpoints as torch.save has written them since 1.6: a zip archive of stored entries, NAME/data.pkl, which
   says what the tensors are, and NAME/data/KEY, their bytes. Nothing in them is ever executed (pickle.c). */
#include "io/io.h"

enum { DITI_PYTORCH_MAX_PICKLE = 16 * 1024 * 1024, DITI_PYTORCH_MAX_DEPTH = 16, DITI_PYTORCH_MAX_NAME = 512 };

typedef struct diti_pytorch {
    diti_checkpoint *checkpoint;
    const diti_file *file;
    const char *name; /* name of the file */
    dit_error *err;
    diti_zip zip;
    char root[256]; /* NAME */
    diti_pickle pickle;
} diti_pytorch;

static dit_result diti_pytorch_fail(const diti_pytorch *torch, const char *tensor, const char *message) {
    return diti_fail(torch->err, DIT_ERROR_BAD_FILE, "%s: tensor '%s': %s", torch->name, tensor, message);
}

/* --- the archive --- */

/* NAME is the part in front of the one entry "NAME/data.pkl". */
static dit_result diti_pytorch_find_root(diti_pytorch *torch) {
    size_t i;
    for (i = 0; i < torch->zip.count; i++) {
        const char *entry = torch->zip.entries[i].name, *slash = strchr(entry, '/');
        if (!slash || strcmp(slash, "/data.pkl") != 0) continue;
        if (diti_format(torch->root, sizeof torch->root, "%.*s", (int)(slash - entry), entry)) return DIT_OK;
    }
    return diti_fail(torch->err, DIT_ERROR_BAD_FILE,
                     "%s: a zip archive, but not one that torch.save wrote (no data.pkl)", torch->name);
}

static const diti_zip_entry *diti_pytorch_entry(const diti_pytorch *torch, const char *text, size_t length) {
    char name[DITI_PYTORCH_MAX_NAME];
    if (length > 256 || memchr(text, 0, length) ||
        !diti_format(name, sizeof name, "%s/%.*s", torch->root, (int)length, text))
        return NULL;
    return diti_zip_find(&torch->zip, name);
}

static dit_result diti_pytorch_check_order(const diti_pytorch *torch) {
    const diti_zip_entry *entry = diti_pytorch_entry(torch, "byteorder", 9);
    char text[3] = {0, 0, 0};
    dit_result result;
    if (!entry || entry->size != sizeof text) return DIT_OK;
    result = diti_file_read(torch->file, entry->offset, text, sizeof text, torch->err);
    if (result < 0 || memcmp(text, "big", 3) != 0) return result;
    return diti_fail(torch->err, DIT_ERROR_BAD_FILE, "%s: written on a big-endian machine; only little-endian is read",
                     torch->name);
}

static dit_result diti_pytorch_read_pickle(diti_pytorch *torch, char **out, size_t *size) {
    const diti_zip_entry *entry = diti_pytorch_entry(torch, "data.pkl", 8);
    dit_result result;
    if (!entry || entry->size > DITI_PYTORCH_MAX_PICKLE)
        return diti_fail(torch->err, DIT_ERROR_BAD_FILE, "%s: its data.pkl has more than %d bytes", torch->name,
                         DITI_PYTORCH_MAX_PICKLE);
    DITI_TRY(diti_zip_check(&torch->checkpoint->env, torch->file, entry, torch->err));
    *size = (size_t)entry->size;
    *out = (char *)diti_alloc(&torch->checkpoint->env, *size);
    if (!*out) return diti_no_memory(torch->name, torch->err);
    result = diti_file_read(torch->file, entry->offset, *out, *size, torch->err);
    if (result < 0) diti_free(&torch->checkpoint->env, *out);
    return result;
}

/* --- one tensor: (storage, offset, size, stride, requires_grad, hooks[, type]), where the storage is ('storage', type,
   key, device, elements) --- */

/* Item i of a tuple; a value of another kind than any that is asked for when there is none. */
static diti_pickle_value diti_pytorch_item(const diti_pytorch *torch, const diti_pickle_value *tuple, uint32_t i) {
    diti_pickle_value none = DITI_ZERO;
    none.kind = DITI_PICKLE_OTHER;
    return i < tuple->count ? torch->pickle.values[torch->pickle.items[tuple->first + i]] : none;
}

typedef struct diti_pytorch_storage {
    const diti_zip_entry *entry;
    const char *type; /* NULL: the tensor tells */
    uint64_t elements;
} diti_pytorch_storage;

static dit_result diti_pytorch_read_storage(const diti_pytorch *torch, const char *tensor,
                                            const diti_pickle_value *value, diti_pytorch_storage *out) {
    diti_pickle_value word = diti_pytorch_item(torch, value, 0), type = diti_pytorch_item(torch, value, 1),
                      key = diti_pytorch_item(torch, value, 2), count = diti_pytorch_item(torch, value, 4);
    char entry[300];
    if (value->kind != DITI_PICKLE_STORAGE || word.kind != DITI_PICKLE_TEXT || word.count != 7 ||
        memcmp(word.text, "storage", 7) != 0 || type.kind != DITI_PICKLE_GLOBAL || type.number != DITI_PICKLE_TYPE ||
        key.kind != DITI_PICKLE_TEXT || count.kind != DITI_PICKLE_INTEGER || count.number < 0)
        return diti_pytorch_fail(torch, tensor, "its storage is not described as torch.save does");
    diti_format(entry, sizeof entry, "data/%.*s", (int)(key.count < 256 ? key.count : 256), key.text);
    out->entry = key.count > 200 ? NULL : diti_pytorch_entry(torch, entry, strlen(entry));
    if (!out->entry || memchr(key.text, 0, key.count))
        return diti_pytorch_fail(torch, tensor, "its bytes are not in the archive");
    out->type = type.text;
    out->elements = (uint64_t)count.number;
    return DIT_OK;
}

static dit_result diti_pytorch_shape(const diti_pytorch *torch, const diti_pickle_value *size,
                                     const diti_pickle_value *stride, diti_stored_tensor *tensor, uint64_t *strides) {
    uint32_t i;
    if (size->kind != DITI_PICKLE_TUPLE || stride->kind != DITI_PICKLE_TUPLE || size->count != stride->count)
        return diti_pytorch_fail(torch, tensor->name, "size and stride are not two tuples of one length");
    if (size->count > DITI_COUNT(tensor->shape))
        return diti_pytorch_fail(torch, tensor->name, "has more than five dimensions");
    tensor->rank = size->count;
    for (i = 0; i < size->count; i++) {
        diti_pickle_value a = diti_pytorch_item(torch, size, i), b = diti_pytorch_item(torch, stride, i);
        if (a.kind != DITI_PICKLE_INTEGER || b.kind != DITI_PICKLE_INTEGER || a.number < 0 || b.number < 0)
            return diti_pytorch_fail(torch, tensor->name, "a dimension or a stride is not a whole number");
        tensor->shape[i] = (uint64_t)a.number;
        strides[i] = (uint64_t)b.number;
    }
    return DIT_OK;
}

/* How many elements of the storage it spans; false when that overflows, or when some serve twice. */
static bool diti_pytorch_span(const diti_stored_tensor *tensor, const uint64_t *strides, uint64_t *out) {
    uint64_t count = 1, last = 0, reach;
    uint32_t i;
    for (i = 0; i < tensor->rank; i++) {
        *out = 0;
        if (tensor->shape[i] == 0) return true;
        if (!diti_mul_u64(count, tensor->shape[i], &count) || !diti_mul_u64(tensor->shape[i] - 1, strides[i], &reach) ||
            !diti_add_u64(last, reach, &last))
            return false;
    }
    *out = last + 1;
    return count <= *out && *out != 0;
}

/* Strides are kept only where the elements do not simply follow one another. */
static dit_result diti_pytorch_keep_strides(const diti_pytorch *torch, const uint64_t *strides,
                                            diti_stored_tensor *tensor) {
    uint64_t wanted = 1, *kept;
    uint32_t i;
    bool dense = true;
    for (i = tensor->rank; i-- > 0;) {
        if (tensor->shape[i] != 1 && strides[i] != wanted) dense = false;
        wanted *= tensor->shape[i];
    }
    if (dense || wanted == 0) return DIT_OK;
    kept = (uint64_t *)diti_checkpoint_keep(torch->checkpoint, sizeof(uint64_t) * DITI_COUNT(tensor->shape));
    if (!kept) return diti_no_memory(torch->name, torch->err);
    memcpy(kept, strides, sizeof(uint64_t) * tensor->rank);
    tensor->strides = kept;
    return DIT_OK;
}

/* Its place in the storage: inside what the storage says it holds, which is inside the entry. */
static dit_result diti_pytorch_place(const diti_pytorch *torch, const diti_pytorch_storage *storage,
                                     const diti_pickle_value *offset, const uint64_t *strides,
                                     const diti_format_type *format, diti_stored_tensor *tensor) {
    uint64_t span, end, bytes, begin;
    if (offset->kind != DITI_PICKLE_INTEGER || offset->number < 0 || !diti_pytorch_span(tensor, strides, &span))
        return diti_pytorch_fail(torch, tensor->name, "offset, size and stride overflow or repeat elements");
    if (!diti_mul_u64(storage->elements, storage->type ? format->bytes : 1, &bytes) || bytes > storage->entry->size)
        return diti_pytorch_fail(torch, tensor->name, "its storage is cut off");
    if (span &&
        (!diti_add_u64((uint64_t)offset->number, span, &end) || !diti_mul_u64(end, format->bytes, &end) || end > bytes))
        return diti_pytorch_fail(torch, tensor->name, "it reaches beyond its storage");
    begin = span ? (uint64_t)offset->number * format->bytes : 0;
    tensor->offset = storage->entry->offset + begin;
    return diti_pytorch_keep_strides(torch, strides, tensor);
}

static dit_result diti_pytorch_add(const diti_pytorch *torch, const diti_pickle_value *value, const char *name) {
    diti_pickle_value base = diti_pytorch_item(torch, value, 0), offset = diti_pytorch_item(torch, value, 1),
                      size = diti_pytorch_item(torch, value, 2), stride = diti_pytorch_item(torch, value, 3),
                      type = diti_pytorch_item(torch, value, 6);
    diti_stored_tensor tensor = DITI_ZERO;
    diti_pytorch_storage storage = DITI_ZERO;
    const diti_format_type *format;
    uint64_t strides[DITI_COUNT(tensor.shape)] = DITI_ZERO;
    tensor.name = diti_checkpoint_keep_text(torch->checkpoint, name, strlen(name));
    if (!tensor.name) return diti_no_memory(torch->name, torch->err);
    DITI_TRY(diti_pytorch_read_storage(torch, name, &base, &storage));
    DITI_TRY(diti_pytorch_shape(torch, &size, &stride, &tensor, strides));
    if (value->number && (type.kind != DITI_PICKLE_GLOBAL || type.number != DITI_PICKLE_TYPE || storage.type))
        return diti_pytorch_fail(torch, name, "its type is not told as torch.save does");
    format = diti_safetensors_find_type(value->number && type.text ? type.text : storage.type ? storage.type : "");
    if (!format) return diti_pytorch_fail(torch, name, "has no type");
    DITI_TRY(diti_pytorch_place(torch, &storage, &offset, strides, format, &tensor));
    return diti_checkpoint_add(torch->checkpoint, &tensor, format, torch->err);
}

/* --- which dictionary, and the names in it --- */

static const diti_pickle_value *diti_pytorch_get(const diti_pytorch *torch, const diti_pickle_value *dictionary,
                                                 const char *key) {
    uint32_t i, at = dictionary->first;
    for (i = 0; i < dictionary->count; i++, at = torch->pickle.pairs[at].next) {
        const diti_pickle_value *name = &torch->pickle.values[torch->pickle.pairs[at].key];
        if (name->kind == DITI_PICKLE_TEXT && name->count == strlen(key) && !memcmp(name->text, key, name->count))
            return &torch->pickle.values[torch->pickle.pairs[at].value];
    }
    return NULL;
}

static bool diti_pytorch_holds_tensors(const diti_pytorch *torch, const diti_pickle_value *dictionary) {
    uint32_t i, at = dictionary->first;
    for (i = 0; i < dictionary->count; i++, at = torch->pickle.pairs[at].next) {
        if (torch->pickle.values[torch->pickle.pairs[at].value].kind == DITI_PICKLE_TENSOR) return true;
    }
    return false;
}

/* Training checkpoints hold the averaged weights, which are wanted, beside those that were trained. */
static const diti_pickle_value *diti_pytorch_weights(const diti_pytorch *torch) {
    static const char *const roots[] = {"ema",        "model_ema", "state_dict_ema", "model",
                                        "state_dict", "module",    "params"};
    const diti_pickle_value *value = &torch->pickle.values[torch->pickle.root];
    size_t depth, i;
    for (depth = 0; depth < DITI_PYTORCH_MAX_DEPTH && value->kind == DITI_PICKLE_DICTIONARY; depth++) {
        const diti_pickle_value *below = NULL;
        if (diti_pytorch_holds_tensors(torch, value)) return value;
        for (i = 0; i < DITI_COUNT(roots) && !below; i++) {
            below = diti_pytorch_get(torch, value, roots[i]);
            if (below && (below->kind != DITI_PICKLE_DICTIONARY || below->count == 0)) below = NULL;
        }
        if (!below) return value;
        value = below;
    }
    return value;
}

typedef struct diti_pytorch_level { /* a dictionary that is being walked through */
    uint32_t next, left;
    size_t name_length; /* length of the name that stands in front of the dictionary's keys */
} diti_pytorch_level;

typedef struct diti_pytorch_walk {
    diti_pytorch_level levels[DITI_PYTORCH_MAX_DEPTH];
    uint32_t depth;
    uint64_t visits; /* shared dictionaries are walked again, but not without end */
    char name[DITI_PYTORCH_MAX_NAME];
} diti_pytorch_walk;

static dit_result diti_pytorch_descend(const diti_pytorch *torch, diti_pytorch_walk *walk,
                                       const diti_pickle_value *dictionary) {
    diti_pytorch_level *level;
    if (walk->depth == DITI_PYTORCH_MAX_DEPTH)
        return diti_fail(torch->err, DIT_ERROR_BAD_FILE, "%s: dictionaries within dictionaries, more than %d deep",
                         torch->name, DITI_PYTORCH_MAX_DEPTH);
    level = &walk->levels[walk->depth++];
    level->next = dictionary->first;
    level->left = dictionary->count;
    level->name_length = strlen(walk->name);
    return DIT_OK;
}

/* Appends ".KEY"; false for keys that are neither text nor number, or too long. */
static bool diti_pytorch_append(diti_pytorch_walk *walk, const diti_pickle_value *key) {
    size_t length = walk->levels[walk->depth - 1].name_length;
    char *out = walk->name + length;
    const char *dot = length ? "." : "";
    *out = 0;
    if (key->kind == DITI_PICKLE_INTEGER)
        return diti_format(out, sizeof walk->name - length, "%s%lld", dot, (long long)key->number);
    return key->kind == DITI_PICKLE_TEXT && key->count < sizeof walk->name && !memchr(key->text, 0, key->count) &&
           diti_format(out, sizeof walk->name - length, "%s%.*s", dot, (int)key->count, key->text);
}

static dit_result diti_pytorch_visit(const diti_pytorch *torch, diti_pytorch_walk *walk) {
    diti_pytorch_level *level = &walk->levels[walk->depth - 1];
    const diti_pickle_pair *pair = &torch->pickle.pairs[level->next];
    const diti_pickle_value *value = &torch->pickle.values[pair->value];
    level->next = pair->next;
    level->left--;
    if (walk->visits++ > 4 * (uint64_t)torch->pickle.pair_count)
        return diti_fail(torch->err, DIT_ERROR_BAD_FILE, "%s: dictionaries that hold each other", torch->name);
    if (value->kind != DITI_PICKLE_TENSOR && value->kind != DITI_PICKLE_DICTIONARY) return DIT_OK;
    if (!diti_pytorch_append(walk, &torch->pickle.values[pair->key]))
        return diti_fail(torch->err, DIT_ERROR_BAD_FILE, "%s: '%s' holds a key that is no name of a tensor",
                         torch->name, walk->name);
    if (value->kind == DITI_PICKLE_TENSOR) return diti_pytorch_add(torch, value, walk->name);
    return diti_pytorch_descend(torch, walk, value);
}

static dit_result diti_pytorch_walk_all(const diti_pytorch *torch, const diti_pickle_value *dictionary) {
    diti_pytorch_walk walk = DITI_ZERO;
    DITI_TRY(diti_pytorch_descend(torch, &walk, dictionary));
    while (walk.depth > 0) {
        if (walk.levels[walk.depth - 1].left == 0)
            walk.depth--;
        else
            DITI_TRY(diti_pytorch_visit(torch, &walk));
    }
    return DIT_OK;
}

/* Removes "module.", which training on several devices puts in front of every name. */
static void diti_pytorch_drop_module(diti_checkpoint *checkpoint, size_t first) {
    static const char prefix[] = "module.";
    size_t i;
    for (i = first; i < checkpoint->tensor_count; i++) {
        if (!diti_starts_with(checkpoint->tensors[i].name, prefix)) return;
    }
    for (i = first; i < checkpoint->tensor_count; i++) checkpoint->tensors[i].name += sizeof prefix - 1;
}

static dit_result diti_pytorch_tensors(diti_pytorch *torch) {
    const diti_pickle_value *weights = diti_pytorch_weights(torch);
    size_t first = torch->checkpoint->tensor_count;
    if (weights->kind != DITI_PICKLE_DICTIONARY)
        return diti_fail(torch->err, DIT_ERROR_BAD_FILE, "%s: holds no dictionary of tensors", torch->name);
    DITI_TRY(diti_pytorch_walk_all(torch, weights));
    if (torch->checkpoint->tensor_count == first)
        return diti_fail(torch->err, DIT_ERROR_BAD_FILE, "%s: holds no tensor in a dictionary", torch->name);
    diti_pytorch_drop_module(torch->checkpoint, first);
    return DIT_OK;
}

static dit_result diti_pytorch_read(diti_pytorch *torch) {
    const diti_env *env = &torch->checkpoint->env;
    char *text = NULL;
    size_t size = 0;
    dit_result result;
    DITI_TRY(diti_pytorch_find_root(torch));
    DITI_TRY(diti_pytorch_check_order(torch));
    DITI_TRY(diti_pytorch_read_pickle(torch, &text, &size));
    result = diti_pickle_parse(env, text, size, torch->name, &torch->pickle, torch->err);
    if (result >= 0) result = diti_pytorch_tensors(torch);
    diti_pickle_free(env, &torch->pickle);
    diti_free(env, text);
    return result;
}

DIT_INTERNAL dit_result diti_pytorch_parse(diti_checkpoint *checkpoint, dit_error *err) {
    diti_pytorch torch = DITI_ZERO;
    dit_result result;
    torch.checkpoint = checkpoint;
    torch.file = checkpoint->files[checkpoint->file_count - 1];
    torch.name = diti_file_name(torch.file);
    torch.err = err;
    DITI_TRY(diti_zip_open(&checkpoint->env, torch.file, &torch.zip, err));
    result = diti_pytorch_read(&torch);
    diti_zip_free(&checkpoint->env, &torch.zip);
    return result;
}
