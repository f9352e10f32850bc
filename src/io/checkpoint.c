/* Opening a checkpoint: which format it has, which other files, and what its tensors hold. */
#include "io/io.h"

/* --- opening: which format, which other files --- */

typedef enum diti_file_kind {
    DITI_FILE_SAFETENSORS,
    DITI_FILE_GGUF,
    DITI_FILE_INDEX,
    DITI_FILE_PYTORCH
} diti_file_kind;

/* torch.save before 1.6 wrote a pickle with nothing around it, and before 0.2 a tar archive. */
static bool diti_file_is_old_pytorch(const diti_file *file, const unsigned char *head, size_t have) {
    char magic[5] = {0, 0, 0, 0, 0};
    if (have >= 2 && head[0] == 0x80 && head[1] <= 5) return true;
    return diti_file_size(file) > 512 && diti_file_read(file, 257, magic, sizeof magic, NULL) >= 0 &&
           memcmp(magic, "ustar", sizeof magic) == 0;
}

static dit_result diti_file_recognise(const diti_file *file, diti_file_kind *out, dit_error *err) {
    unsigned char head[9] = DITI_ZERO;
    size_t have = diti_file_size(file) < sizeof head ? (size_t)diti_file_size(file) : sizeof head, i = 0;
    DITI_TRY(diti_file_read(file, 0, head, have, err));
    *out = DITI_FILE_SAFETENSORS;
    if (have == sizeof head && head[8] == '{' && !head[6] && !head[7]) return DIT_OK;
    if (have >= 4 && memcmp(head, "GGUF", 4) == 0) {
        *out = DITI_FILE_GGUF;
        return DIT_OK;
    }
    while (i < have && (head[i] == ' ' || head[i] == '\t' || head[i] == '\n' || head[i] == '\r')) i++;
    if (i < have && head[i] == '{') {
        *out = DITI_FILE_INDEX;
        return DIT_OK;
    }
    if (have >= 4 && memcmp(head, "PK\3\4", 4) == 0) {
        *out = DITI_FILE_PYTORCH;
        return DIT_OK;
    }
    if (diti_file_is_old_pytorch(file, head, have)) {
        return diti_fail(err, DIT_ERROR_BAD_FILE,
                         "%s: written by a PyTorch before 1.6 (no zip archive around its pickle): load it in a newer "
                         "PyTorch and save it again, or as safetensors",
                         diti_file_name(file));
    }
    return DIT_OK; /* the safetensors parser says what is wrong with it */
}

/* Takes the file over, also on failure. */
static dit_result diti_checkpoint_take_file(diti_checkpoint *checkpoint, diti_file *file, dit_error *err) {
    if (!diti_grow(&checkpoint->env, (void **)&checkpoint->files, &checkpoint->file_capacity, checkpoint->file_count,
                   sizeof *checkpoint->files)) {
        dit_result result = diti_no_memory(diti_file_name(file), err);
        diti_file_close(file);
        return result;
    }
    checkpoint->files[checkpoint->file_count++] = file;
    return DIT_OK;
}

static dit_result diti_index_names(diti_checkpoint *checkpoint, dit_error *err) {
    return diti_name_build(&checkpoint->env, &checkpoint->index, checkpoint->tensors, sizeof *checkpoint->tensors,
                           checkpoint->tensor_count, diti_checkpoint_name(checkpoint), "tensor", err);
}

/* NAME.weight_v beside its lengths becomes NAME.weight. */
static dit_result diti_checkpoint_name_lengths(diti_checkpoint *checkpoint, dit_error *err) {
    bool renames = false;
    size_t i;
    for (i = 0; i < checkpoint->tensor_count; i++) {
        diti_stored_tensor *tensor = &checkpoint->tensors[i];
        const diti_stored_tensor *given = diti_stored_sibling(checkpoint, tensor, ".weight_v", ".weight_g");
        diti_row_lengths *lengths;
        char *name;
        if (!given) continue;
        if (tensor->type != DIT_TYPE_F32 || given->type != DIT_TYPE_F32 || tensor->strides || given->strides ||
            !tensor->rank || !tensor->size || diti_stored_tensor_elements(given) != tensor->shape[0])
            return diti_fail(
                err, DIT_ERROR_UNSUPPORTED_MODEL,
                "%s: tensor '%.200s' and the weight_g beside it are read as F32 alone, one length for each "
                "row; fold them into a weight",
                diti_checkpoint_name(checkpoint), tensor->name);
        lengths = (diti_row_lengths *)diti_checkpoint_keep(checkpoint, sizeof *lengths);
        name = diti_checkpoint_keep_text(checkpoint, tensor->name, strlen(tensor->name) - strlen("_v"));
        if (!lengths || !name) return diti_no_memory(diti_checkpoint_name(checkpoint), err);
        lengths->file = given->file;
        lengths->offset = given->offset;
        tensor->lengths = lengths;
        tensor->name = name;
        renames = true;
    }
    if (!renames) return DIT_OK;
    diti_free(&checkpoint->env, checkpoint->index.slots);
    memset(&checkpoint->index, 0, sizeof checkpoint->index);
    return diti_index_names(checkpoint, err);
}

static dit_result diti_index_tensors(diti_checkpoint *checkpoint, dit_error *err) {
    DITI_TRY(diti_index_names(checkpoint, err));
    DITI_TRY(diti_checkpoint_name_lengths(checkpoint, err));
    DITI_TRY(diti_checkpoint_name_nunchaku(checkpoint, err));
    return diti_checkpoint_name_types(checkpoint, err);
}

/* Where the other files of a checkpoint are: members of root, beside the first one. */
typedef struct diti_siblings {
    const dit_source *root;
    const char *first; /* member name of the first file; "" when it has none */
} diti_siblings;

/* The path of name in the folder of the first file. */
static dit_result diti_open_sibling(diti_checkpoint *checkpoint, const diti_siblings *siblings, const char *name,
                                    dit_error *err) {
    const char *slash = strrchr(siblings->first, '/');
    size_t folder = slash ? (size_t)(slash - siblings->first) + 1 : 0, size = folder + strlen(name) + 1;
    char *member = (char *)diti_alloc(&checkpoint->env, size);
    diti_file *file = NULL;
    dit_result result;
    if (!member) return diti_no_memory(name, err);
    diti_format(member, size, "%.*s%s", (int)folder, siblings->first, name);
    result = diti_file_open_member(&checkpoint->env, siblings->root, member, &file, err);
    if (result >= 0 && !file) {
        result = diti_fail(err, DIT_ERROR_BAD_FILE, "%s: names the file '%s', which does not exist",
                           diti_checkpoint_name(checkpoint), member);
    }
    diti_free(&checkpoint->env, member);
    return result < 0 ? result : diti_checkpoint_take_file(checkpoint, file, err);
}

/* --- shards with an index --- */

static dit_result diti_index_read(const diti_checkpoint *checkpoint, diti_json **out, dit_error *err) {
    const diti_file *file = checkpoint->files[0];
    char *text = NULL;
    size_t size = 0;
    dit_result result;
    DITI_TRY(diti_file_read_all(&checkpoint->env, file, &text, &size, err));
    result = diti_json_parse(&checkpoint->env, text, size, diti_file_name(file), out, err);
    diti_free(&checkpoint->env, text);
    return result;
}

/* weight_map while its shards are opened: shards[i] is the name of the checkpoint's file i + 1. */
typedef struct diti_shard_list {
    const char **shards;
    size_t count, capacity;
} diti_shard_list;

static bool diti_shard_is_open(const diti_shard_list *list, const char *shard) {
    size_t i;
    for (i = 0; i < list->count; i++) {
        if (strcmp(list->shards[i], shard) == 0) return true;
    }
    return false;
}

static dit_result diti_open_shard(diti_checkpoint *checkpoint, const diti_siblings *siblings, diti_shard_list *list,
                                  const diti_json *entry, dit_error *err) {
    if (entry->kind != DITI_JSON_STRING || strlen(entry->text) != entry->text_length ||
        (!diti_ends_with(entry->text, ".safetensors") && !diti_ends_with(entry->text, ".bin"))) {
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensor '%s': its shard '%s' is not a .safetensors or .bin file",
                         diti_checkpoint_name(checkpoint), entry->key, entry->text ? entry->text : "");
    }
    if (diti_shard_is_open(list, entry->text)) return DIT_OK;
    if (!diti_grow(&checkpoint->env, (void **)&list->shards, &list->capacity, list->count, sizeof *list->shards)) {
        return diti_no_memory(diti_checkpoint_name(checkpoint), err);
    }
    DITI_TRY(diti_open_sibling(checkpoint, siblings, entry->text, err));
    list->shards[list->count++] = entry->text;
    return diti_ends_with(entry->text, ".bin") ? diti_pytorch_parse(checkpoint, err)
                                               : diti_safetensors_parse(checkpoint, err);
}

static dit_result diti_check_shard(const diti_checkpoint *checkpoint, const diti_shard_list *list,
                                   const diti_json *entry, dit_error *err) {
    const diti_stored_tensor *tensor = diti_checkpoint_find(checkpoint, entry->key);
    if (tensor && strcmp(list->shards[tensor->file - 1], entry->text) == 0) return DIT_OK;
    return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: tensor '%s' is not in its shard '%s'",
                     diti_checkpoint_name(checkpoint), entry->key, entry->text);
}

static dit_result diti_open_shards(diti_checkpoint *checkpoint, const diti_siblings *siblings, const diti_json *map,
                                   dit_error *err) {
    diti_shard_list list = DITI_ZERO;
    const diti_json *entry;
    dit_result result = DIT_OK;
    for (entry = map->first; entry && result >= 0; entry = entry->next) {
        result = diti_open_shard(checkpoint, siblings, &list, entry, err);
    }
    if (result >= 0) result = diti_index_tensors(checkpoint, err);
    for (entry = map->first; entry && result >= 0; entry = entry->next) {
        result = diti_check_shard(checkpoint, &list, entry, err);
    }
    diti_free(&checkpoint->env, (void *)list.shards);
    return result;
}

static dit_result diti_open_index(diti_checkpoint *checkpoint, const diti_siblings *siblings, dit_error *err) {
    diti_json *root;
    const diti_json *map;
    dit_result result;
    DITI_TRY(diti_index_read(checkpoint, &root, err));
    map = diti_json_get(root, "weight_map");
    if (!map || map->kind != DITI_JSON_OBJECT) {
        result = diti_fail(err, DIT_ERROR_BAD_FILE, "%s: JSON without a weight_map, so no index of shards",
                           diti_checkpoint_name(checkpoint));
    } else {
        result = diti_open_shards(checkpoint, siblings, map, err);
    }
    diti_json_free(&checkpoint->env, root);
    return result;
}

/* --- checksums --- */

static dit_result diti_verify_archive(const diti_env *env, const diti_file *file, dit_error *err) {
    diti_zip zip;
    size_t i;
    dit_result result = diti_zip_open(env, file, &zip, err);
    DITI_TRY(result);
    for (i = 0; i < zip.count && result >= 0; i++) result = diti_zip_check(env, file, &zip.entries[i], err);
    diti_zip_free(env, &zip);
    return result;
}

DIT_INTERNAL dit_result diti_checkpoint_verify(const diti_checkpoint *checkpoint, dit_error *err) {
    size_t i;
    for (i = 0; i < checkpoint->file_count; i++) {
        diti_file_kind kind;
        DITI_TRY(diti_file_recognise(checkpoint->files[i], &kind, err));
        if (kind == DITI_FILE_PYTORCH) DITI_TRY(diti_verify_archive(&checkpoint->env, checkpoint->files[i], err));
    }
    return DIT_OK;
}

/* --- GGUF, split or not --- */

/* The part of "name-00001-of-00003.gguf" that all files share. */
static bool diti_split_stem(const char *first, uint32_t count, size_t *stem) {
    char tail[32];
    const char *slash = strrchr(first, '/');
    const char *name = slash ? slash + 1 : first;
    if (!diti_format(tail, sizeof tail, "-00001-of-%05u.gguf", (unsigned)count) || !diti_ends_with(name, tail))
        return false;
    *stem = strlen(name) - strlen(tail);
    return true;
}

static dit_result diti_open_split(diti_checkpoint *checkpoint, const diti_siblings *siblings, size_t stem,
                                  uint32_t number, uint32_t count, dit_error *err) {
    const char *slash = strrchr(siblings->first, '/');
    char name[512];
    uint32_t own_number, own_count;
    if (!diti_format(name, sizeof name, "%.*s-%05u-of-%05u.gguf", (int)stem, slash ? slash + 1 : siblings->first,
                     (unsigned)number + 1, (unsigned)count)) {
        return diti_fail(err, DIT_ERROR_IO, "%s: its name is too long", siblings->first);
    }
    DITI_TRY(diti_open_sibling(checkpoint, siblings, name, err));
    DITI_TRY(diti_gguf_parse(checkpoint, &own_number, &own_count, err));
    if (own_number == number && own_count == count) return DIT_OK;
    return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: calls itself part %u of %u", name, (unsigned)own_number + 1,
                     (unsigned)own_count);
}

static dit_result diti_open_gguf(diti_checkpoint *checkpoint, const diti_siblings *siblings, dit_error *err) {
    uint32_t number, count, i;
    size_t stem = 0;
    DITI_TRY(diti_gguf_parse(checkpoint, &number, &count, err));
    if (count > 1 && (number != 0 || !diti_split_stem(siblings->first, count, &stem))) {
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: part %u of %u; open the first, named ...-00001-of-%05u.gguf",
                         diti_checkpoint_name(checkpoint), (unsigned)number + 1, (unsigned)count, (unsigned)count);
    }
    for (i = 1; i < count; i++) {
        DITI_TRY(diti_open_split(checkpoint, siblings, stem, i, count, err));
    }
    return diti_index_tensors(checkpoint, err);
}

/* --- shards without an index: the first one's name tells how many there are --- */

/* "name-00002-of-00003.safetensors"; stem: length of "name". false: the file stands alone. */
static bool diti_shard_number(const char *name, size_t *stem, uint32_t *number, uint32_t *count) {
    static const char digits[] = "0123456789";
    size_t length = strlen(name), tail = strlen("-00002-of-00003.safetensors");
    const char *at = length < tail ? name : name + length - tail;
    if (at[0] != '-' || strspn(at + 1, digits) != 5 || strncmp(at + 6, "-of-", 4) != 0 ||
        strspn(at + 10, digits) != 5 || !diti_equal(at + 15, ".safetensors"))
        return false;
    *stem = length - tail;
    *number = (uint32_t)strtoul(at + 1, NULL, 10);
    *count = (uint32_t)strtoul(at + 10, NULL, 10);
    return *count > 1 && *number >= 1 && *number <= *count;
}

static dit_result diti_open_numbered(diti_checkpoint *checkpoint, const diti_siblings *siblings, dit_error *err) {
    const char *slash = strrchr(siblings->first, '/'), *first = slash ? slash + 1 : siblings->first;
    uint32_t number, count, i;
    size_t stem;
    char name[512];
    if (!diti_shard_number(first, &stem, &number, &count)) return DIT_OK;
    if (number != 1)
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: part %u of %u; open the first, or the index.json beside it",
                         diti_checkpoint_name(checkpoint), (unsigned)number, (unsigned)count);
    for (i = 2; i <= count; i++) {
        if (!diti_format(name, sizeof name, "%.*s-%05u-of-%05u.safetensors", (int)stem, first, (unsigned)i,
                         (unsigned)count))
            return diti_fail(err, DIT_ERROR_IO, "%s: its name is too long", siblings->first);
        DITI_TRY(diti_open_sibling(checkpoint, siblings, name, err));
        DITI_TRY(diti_safetensors_parse(checkpoint, err));
    }
    return DIT_OK;
}

/* --- opening --- */

static dit_result diti_open_single(diti_checkpoint *checkpoint, const diti_siblings *siblings, diti_file_kind kind,
                                   dit_error *err) {
    DITI_TRY(kind == DITI_FILE_PYTORCH ? diti_pytorch_parse(checkpoint, err) : diti_safetensors_parse(checkpoint, err));
    if (kind != DITI_FILE_PYTORCH) DITI_TRY(diti_open_numbered(checkpoint, siblings, err));
    return diti_index_tensors(checkpoint, err);
}

static dit_result diti_open_contents(diti_checkpoint *checkpoint, const diti_siblings *siblings, dit_error *err) {
    diti_file_kind kind;
    DITI_TRY(diti_file_recognise(checkpoint->files[0], &kind, err));
    switch (kind) {
    case DITI_FILE_GGUF: return diti_open_gguf(checkpoint, siblings, err);
    case DITI_FILE_INDEX: return diti_open_index(checkpoint, siblings, err);
    default: return diti_open_single(checkpoint, siblings, kind, err);
    }
}

/* Takes the first file over. */
static dit_result diti_checkpoint_create(const diti_env *env, diti_file *file, const diti_siblings *siblings,
                                         diti_checkpoint **out, dit_error *err) {
    diti_checkpoint *checkpoint = (diti_checkpoint *)diti_alloc_zero(env, sizeof *checkpoint);
    dit_result result;
    if (!checkpoint) {
        result = diti_no_memory(diti_file_name(file), err);
        diti_file_close(file);
        return result;
    }
    checkpoint->env = *env;
    result = diti_checkpoint_take_file(checkpoint, file, err);
    if (result >= 0) result = diti_open_contents(checkpoint, siblings, err);
    if (result < 0)
        diti_checkpoint_close(checkpoint);
    else
        *out = checkpoint;
    return result;
}

/* Length of the folder in a path, its last slash included. */
static size_t diti_folder_length(const char *path) {
    size_t length = strlen(path);
#ifdef _WIN32
    while (length && path[length - 1] != '/' && path[length - 1] != '\\') length--;
#else
    while (length && path[length - 1] != '/') length--;
#endif
    return length;
}

DIT_INTERNAL dit_result diti_checkpoint_open(const diti_env *env, const dit_source *source, diti_checkpoint **out,
                                             dit_error *err) {
    const char *path = source->path ? source->path : "";
    size_t length = diti_folder_length(path);
    dit_source root = *source;
    diti_siblings siblings;
    diti_file *file;
    dit_result result;
    char *folder = (char *)diti_alloc(env, length + 1);
    *out = NULL;
    if (!folder) return diti_no_memory(path, err);
    memcpy(folder, path, length);
    folder[length] = 0;
    root.path = source->path ? folder : NULL;
    siblings.root = &root;
    siblings.first = path + length;
    result = diti_file_open(env, source, NULL, &file, err);
    if (result >= 0) result = diti_checkpoint_create(env, file, &siblings, out, err);
    diti_free(env, folder);
    return result;
}

DIT_INTERNAL dit_result diti_checkpoint_open_member(const diti_env *env, const dit_source *root, const char *member,
                                                    diti_checkpoint **out, dit_error *err) {
    diti_siblings siblings;
    diti_file *file;
    dit_result result = diti_file_open_member(env, root, member, &file, err);
    *out = NULL;
    if (result < 0 || !file) return result;
    siblings.root = root;
    siblings.first = member;
    return diti_checkpoint_create(env, file, &siblings, out, err);
}

/* The tensor's bytes, and those of scales and lengths beside them, are so many files further. */
static dit_result diti_checkpoint_move(diti_checkpoint *checkpoint, diti_stored_tensor *tensor, uint32_t files,
                                       dit_error *err) {
    diti_row_lengths *lengths;
    diti_nvfp4_pair *pair;
    tensor->file += files;
    if (tensor->lengths) {
        lengths = (diti_row_lengths *)diti_checkpoint_keep(checkpoint, sizeof *lengths);
        if (!lengths) return diti_no_memory(diti_checkpoint_name(checkpoint), err);
        *lengths = *tensor->lengths;
        lengths->file += files;
        tensor->lengths = lengths;
    }
    if (!tensor->nvfp4) return DIT_OK;
    pair = (diti_nvfp4_pair *)diti_checkpoint_keep(checkpoint, sizeof *pair);
    if (!pair) return diti_no_memory(diti_checkpoint_name(checkpoint), err);
    *pair = *tensor->nvfp4;
    pair->scales_file += files;
    tensor->nvfp4 = pair;
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_checkpoint_join(const diti_checkpoint *first, const diti_checkpoint *second,
                                             diti_checkpoint **out, dit_error *err) {
    const diti_env *env = &first->env;
    diti_checkpoint *all = (diti_checkpoint *)diti_alloc_zero(env, sizeof *all);
    dit_result result;
    size_t i;
    *out = NULL;
    if (!all) return diti_no_memory(diti_checkpoint_name(first), err);
    all->env = *env;
    all->joined = true;
    all->file_count = first->file_count + second->file_count;
    all->files = (diti_file **)diti_alloc_array(env, all->file_count, sizeof *all->files);
    all->tensors =
        (diti_stored_tensor *)diti_alloc_array(env, first->tensor_count + second->tensor_count, sizeof *all->tensors);
    result = all->files && all->tensors ? DIT_OK : diti_no_memory(diti_checkpoint_name(first), err);
    if (result == DIT_OK) {
        memcpy((void *)all->files, (void *)first->files, first->file_count * sizeof *all->files);
        memcpy((void *)(all->files + first->file_count), (void *)second->files,
               second->file_count * sizeof *all->files);
        memcpy(all->tensors, first->tensors, first->tensor_count * sizeof *all->tensors);
        all->tensor_count = first->tensor_count;
        for (i = 0; i < second->tensor_count && result == DIT_OK; i++) {
            if (diti_checkpoint_find(first, second->tensors[i].name)) continue;
            all->tensors[all->tensor_count] = second->tensors[i];
            result = diti_checkpoint_move(all, &all->tensors[all->tensor_count++], (uint32_t)first->file_count, err);
        }
    }
    if (result == DIT_OK)
        result = diti_name_build(env, &all->index, all->tensors, sizeof *all->tensors, all->tensor_count,
                                 diti_checkpoint_name(first), "tensor", err);
    if (result == DIT_OK)
        *out = all;
    else
        diti_checkpoint_close(all);
    return result;
}

DIT_INTERNAL void diti_checkpoint_close(diti_checkpoint *checkpoint) {
    diti_env env;
    size_t i;
    if (!checkpoint) return;
    env = checkpoint->env;
    for (i = 0; i < checkpoint->file_count && !checkpoint->joined; i++) diti_file_close(checkpoint->files[i]);
    diti_checkpoint_free_kept(checkpoint);
    diti_metadata_free(&env, &checkpoint->metadata);
    diti_free(&env, (void *)checkpoint->files);
    diti_free(&env, checkpoint->tensors);
    diti_free(&env, checkpoint->packed);
    diti_free(&env, checkpoint->index.slots);
    diti_free(&env, checkpoint);
}

/* --- asking --- */

DIT_INTERNAL uint32_t diti_checkpoint_count(const diti_checkpoint *checkpoint) {
    return (uint32_t)checkpoint->tensor_count;
}

DIT_INTERNAL uint64_t diti_checkpoint_absent(const diti_checkpoint *checkpoint) { return checkpoint->absent; }

DIT_INTERNAL const diti_stored_tensor *diti_checkpoint_tensor(const diti_checkpoint *checkpoint, uint32_t index) {
    return index < checkpoint->tensor_count ? &checkpoint->tensors[index] : NULL;
}

DIT_INTERNAL bool diti_checkpoint_has_prefix(const diti_checkpoint *checkpoint, const char *prefix) {
    size_t i;
    for (i = 0; i < checkpoint->tensor_count; i++) {
        if (diti_starts_with(checkpoint->tensors[i].name, prefix)) return true;
    }
    return false;
}

DIT_INTERNAL dit_result diti_checkpoint_refuse_type(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                                    dit_error *err) {
    if (tensor->type != DIT_TYPE_STORED) return DIT_OK;
    return diti_fail(
        err, DIT_ERROR_UNSUPPORTED_MODEL,
        "%s: tensor '%s' is stored as %s; dit.h reads F32, F16, BF16, F8, I8 with scales, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K, MXFP4 and NVFP4",
        diti_file_name(checkpoint->files[tensor->file]), tensor->name, tensor->type_name);
}

/* Where element i of a tensor with strides stands, in elements behind its first one. */
static uint64_t diti_strided_place(const diti_stored_tensor *tensor, uint64_t i) {
    uint64_t place = 0;
    uint32_t d;
    for (d = tensor->rank; d-- > 0; i /= tensor->shape[d]) place += i % tensor->shape[d] * tensor->strides[d];
    return place;
}

#define DITI_GATHER_MAX ((uint64_t)64 << 20)

/* Elements offset / bytes and on of a tensor with strides: picked from the stretch of the file that holds them all, or
   read one by one where that is too long. */
static dit_result diti_checkpoint_gather(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                         uint64_t offset, unsigned char *out, size_t size, dit_error *err) {
    const diti_file *file = checkpoint->files[tensor->file];
    uint64_t bytes = tensor->size / diti_stored_tensor_elements(tensor), first = offset / bytes, i;
    uint64_t count = size / bytes, low = UINT64_MAX, high = 0;
    unsigned char *stretch;
    dit_result result = DIT_OK;
    if (offset % bytes != 0 || size % bytes != 0)
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: reading parts of elements of tensor '%s'",
                         diti_file_name(file), tensor->name);
    for (i = 0; i < count; i++) {
        uint64_t place = diti_strided_place(tensor, first + i);
        if (place < low) low = place;
        if (place > high) high = place;
    }
    if (count == 0) return DIT_OK;
    if ((high - low + 1) * bytes > DITI_GATHER_MAX) {
        for (i = 0; i < count && result >= 0; i++)
            result = diti_file_read(file, tensor->offset + diti_strided_place(tensor, first + i) * bytes,
                                    out + i * bytes, (size_t)bytes, err);
        return result;
    }
    stretch = (unsigned char *)diti_alloc(&checkpoint->env, (size_t)((high - low + 1) * bytes));
    if (!stretch) return diti_no_memory(diti_file_name(file), err);
    result = diti_file_read(file, tensor->offset + low * bytes, stretch, (size_t)((high - low + 1) * bytes), err);
    for (i = 0; i < count && result >= 0; i++)
        memcpy(out + i * bytes, stretch + (diti_strided_place(tensor, first + i) - low) * bytes, (size_t)bytes);
    diti_free(&checkpoint->env, stretch);
    return result;
}

/* Bytes [offset, offset + size) of rows that get their lengths, row by row. */
static dit_result diti_checkpoint_lengthen(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                           uint64_t offset, unsigned char *out, size_t size, dit_error *err) {
    const uint64_t bytes = tensor->size / tensor->shape[0], end = offset + size, count = bytes / sizeof(float);
    float *row = (float *)diti_alloc(&checkpoint->env, (size_t)bytes), length;
    dit_result result = row ? DIT_OK : diti_no_memory(diti_checkpoint_name(checkpoint), err);
    uint64_t r, i;
    for (r = offset / bytes; r * bytes < end && result >= 0; r++) {
        uint64_t from = r * bytes > offset ? r * bytes : offset, to = (r + 1) * bytes < end ? (r + 1) * bytes : end;
        double sum = 0;
        result = diti_file_read(checkpoint->files[tensor->lengths->file], tensor->lengths->offset + r * sizeof length,
                                &length, sizeof length, err);
        if (result >= 0)
            result =
                diti_file_read(checkpoint->files[tensor->file], tensor->offset + r * bytes, row, (size_t)bytes, err);
        if (result < 0) break;
        for (i = 0; i < count; i++) sum += (double)row[i] * (double)row[i];
        length = sum > 0 ? (float)((double)length / sqrt(sum)) : 0;
        for (i = 0; i < count; i++) row[i] *= length;
        memcpy(out + (from - offset), (const unsigned char *)row + (from - r * bytes), (size_t)(to - from));
    }
    diti_free(&checkpoint->env, row);
    return result;
}

DIT_INTERNAL dit_result diti_checkpoint_read(const diti_checkpoint *checkpoint, const diti_stored_tensor *tensor,
                                             uint64_t offset, void *out, size_t size, dit_error *err) {
    DITI_TRY(diti_checkpoint_refuse_type(checkpoint, tensor, err));
    if (offset > tensor->size || size > tensor->size - offset) {
        return diti_fail(err, DIT_ERROR_INVALID_ARGUMENT, "%s: reading past the end of tensor '%s'",
                         diti_file_name(checkpoint->files[tensor->file]), tensor->name);
    }
    if (tensor->made) return diti_nunchaku_read(checkpoint, tensor, offset, (unsigned char *)out, size, err);
    if (tensor->nvfp4) return diti_nvfp4_read(checkpoint, tensor, offset, (unsigned char *)out, size, err);
    if (tensor->iq4) return diti_iq4_read(checkpoint, tensor, false, offset, (unsigned char *)out, size, err);
    if (tensor->lengths) return diti_checkpoint_lengthen(checkpoint, tensor, offset, (unsigned char *)out, size, err);
    if (tensor->strides) return diti_checkpoint_gather(checkpoint, tensor, offset, (unsigned char *)out, size, err);
    return diti_file_read(checkpoint->files[tensor->file], tensor->offset + offset, out, size, err);
}

DIT_INTERNAL const char *diti_checkpoint_text(const diti_checkpoint *checkpoint, const char *key) {
    const diti_meta *meta = diti_metadata_find(&checkpoint->metadata, key);
    return meta ? meta->text : NULL;
}

DIT_INTERNAL bool diti_checkpoint_array(const diti_checkpoint *checkpoint, const char *key, const void **data,
                                        uint64_t *count, uint32_t *gguf_type) {
    const diti_meta *meta = diti_metadata_find(&checkpoint->metadata, key);
    if (!meta || !meta->array || !meta->data) return false;
    *data = meta->data;
    *count = meta->count;
    *gguf_type = meta->type;
    return true;
}

DIT_INTERNAL const char *diti_checkpoint_array_text(const diti_checkpoint *checkpoint, const char *key, uint64_t index,
                                                    size_t *length) {
    const diti_meta *meta = diti_metadata_find(&checkpoint->metadata, key);
    if (!meta || !meta->texts || index >= meta->count) return NULL;
    if (length) *length = meta->texts[index].length;
    return meta->texts[index].text;
}
