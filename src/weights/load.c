#include "weights/lora.h"

/* Loading is asked for tensor by tensor and done at the end: by then the layout is known, so that every block of device
   memory has exactly the size it needs, wrong shapes are found before anything is uploaded, and progress knows its
   total. */

#define DITI_WEIGHT_ALIGN 16u

static void diti_loader_fail_memory(diti_loader *loader) {
    diti_fail_memory(&loader->error, "loading %s", loader->what);
}

DIT_INTERNAL void diti_loader_begin(diti_loader *loader, diti_device *device, const diti_env *env,
                                    const diti_checkpoint *checkpoint, const char *prefix, const char *what,
                                    const dit_progress *progress) {
    memset(loader, 0, sizeof *loader);
    loader->device = device;
    loader->env = env;
    loader->checkpoint = checkpoint;
    loader->prefix = prefix ? prefix : "";
    loader->what = what;
    loader->progress = progress && progress->func ? progress : NULL;
}

DIT_INTERNAL void diti_loader_scope(diti_loader *loader, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(loader->scope, sizeof loader->scope, format, args);
    va_end(args);
}

DIT_INTERNAL void diti_loader_scope_end(diti_loader *loader) { loader->scope[0] = 0; }

DIT_INTERNAL dit_result diti_loader_refuse(const diti_loader *loader, dit_error *err, const char *format, ...) {
    char message[sizeof err->message];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "%s: %s", diti_checkpoint_name(loader->checkpoint), message);
}

/* The name that the file has for it; false when that is longer than any name in a file that is read. */
static bool diti_loader_name(const diti_loader *loader, const char *name, char *out, size_t size) {
    char asked[256], renamed[256];
    const char *stored = asked;
    if (!diti_format(asked, sizeof asked, "%s%s", loader->scope, name)) return false;
    if (loader->rename) stored = loader->rename(loader->user, asked, renamed, sizeof renamed);
    return stored && diti_format(out, size, "%s%s", loader->prefix, stored);
}

/* A norm's "scale" is "weight" in files that ComfyUI has written. */
DIT_INTERNAL const diti_stored_tensor *diti_loader_find(diti_loader *loader, const char *name) {
    char stored[512], other[512];
    const diti_stored_tensor *tensor;
    if (!diti_loader_name(loader, name, stored, sizeof stored)) return NULL;
    tensor = diti_checkpoint_find(loader->checkpoint, stored);
    if (!tensor && loader->checkpoint->joined && diti_format(stored, sizeof stored, "%s%s", loader->scope, name) &&
        diti_rename_by_tables((void *)(uintptr_t)loader->weights.originals, stored, other, sizeof other))
        return diti_checkpoint_find(loader->checkpoint, other); /* the other file's names are the original's */
    if (tensor || !diti_ends_with(stored, ".scale")) return tensor;
    diti_format(other, sizeof other, "%.*sweight", (int)(strlen(stored) - strlen("scale")), stored);
    return diti_checkpoint_find(loader->checkpoint, other);
}

DIT_INTERNAL uint32_t diti_loader_count(diti_loader *loader, const char *before, const char *after) {
    char name[200];
    uint32_t count = 0;
    while (count < UINT16_MAX && diti_format(name, sizeof name, "%s%u%s", before, (unsigned)count, after) &&
           diti_loader_find(loader, name)) {
        count++;
    }
    return count;
}

DIT_INTERNAL uint32_t diti_loader_layers(diti_loader *loader, diti_settings *settings, const char *key,
                                         const char *before, const char *after) {
    uint32_t stored = diti_loader_count(loader, before, after);
    uint32_t told = diti_setting_size(settings, key, stored, 1024);
    char name[200], problem[400];
    const diti_stored_tensor *first;
    if (told >= stored) return told;
    diti_format(name, sizeof name, "%s%u%s", before, (unsigned)told, after);
    first = diti_loader_find(loader, name);
    diti_format(problem, sizeof problem,
                "%u, but the file holds %u: tensor '%.120s' and all behind it would be left out (%.120s)",
                (unsigned)told, (unsigned)stored, first ? first->name : name, diti_checkpoint_name(loader->checkpoint));
    diti_settings_refuse(settings, DIT_ERROR_BAD_FILE, key, problem);
    return told;
}

DIT_INTERNAL uint32_t diti_loader_dimension(diti_loader *loader, const char *name, uint32_t index) {
    const diti_stored_tensor *tensor = diti_loader_find(loader, name);
    if (!tensor || index >= tensor->rank || tensor->shape[index] > (1u << 24)) return 0;
    return (uint32_t)tensor->shape[index];
}

static const diti_stored_tensor *diti_loader_expect(diti_loader *loader, const char *name) {
    const diti_stored_tensor *tensor;
    char stored[512];
    if (loader->error.result < 0) return NULL;
    tensor = diti_loader_find(loader, name);
    if (tensor) {
        diti_loader_use(loader, tensor);
        return loader->error.result < 0 ? NULL : tensor;
    }
    if (!diti_loader_name(loader, name, stored, sizeof stored)) diti_format(stored, sizeof stored, "%s", name);
    diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL, "%s: tensor %.200s is missing",
              diti_checkpoint_name(loader->checkpoint), stored);
    return NULL;
}

static void diti_shape_text(const uint64_t *shape, uint32_t rank, char *out, size_t size) {
    size_t used = 0;
    uint32_t i;
    out[0] = 0;
    for (i = 0; i < rank && used + 24 < size; i++) {
        snprintf(out + used, size - used, "%s%llu", i ? ", " : "", (unsigned long long)shape[i]);
        used += strlen(out + used);
    }
}

static bool diti_loader_fail_shape(diti_loader *loader, const diti_stored_tensor *tensor, const uint64_t *expected,
                                   uint32_t rank) {
    char found[128], wanted[128];
    diti_shape_text(tensor->shape, tensor->rank, found, sizeof found);
    diti_shape_text(expected, rank, wanted, sizeof wanted);
    diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL, "%s: tensor %.160s has shape [%s], expected [%s]",
              diti_checkpoint_name(loader->checkpoint), tensor->name, found, wanted);
    return false;
}

/* [rows, columns], behind leading ones, too, [rows, columns, 1], [rows, columns, 1, 1], [rows, columns, 1, 1, 1],
   [rows, columns / kernel^2, kernel, kernel] or [rows, columns / (frames * kernel^2), frames, kernel, kernel], frames
   may be 1. The first two of these last five are one in files of stable-diffusion.cpp. A convolution over time alone
   may lack the last two. */
static bool diti_check_matrix(diti_loader *loader, const diti_stored_tensor *tensor, uint32_t rows, uint32_t columns,
                              uint32_t kernel, uint32_t frames) {
    uint64_t expected[5];
    uint32_t i, rank = frames > 1 ? 5u : kernel > 1 ? 4u : 2u, from = tensor->rank > rank ? tensor->rank : rank;
    expected[0] = rows;
    expected[1] = columns / (frames * kernel * kernel);
    expected[2] = from == 5 ? frames : kernel;
    expected[3] = expected[4] = kernel;
    if (tensor->rank == 3 && tensor->shape[0] == 1 && tensor->shape[1] == rows && tensor->shape[2] == columns)
        return true;
    if (tensor->rank == 3 && kernel == 1 && frames <= 1 && tensor->shape[2] == 1)
        return (tensor->shape[0] == rows && tensor->shape[1] == columns) ||
               diti_loader_fail_shape(loader, tensor, expected, 2);
    if (tensor->rank == 3 && kernel == 1 && frames > 1) rank = from = 3;
    if (rank == 3) expected[2] = frames;
    if (tensor->rank == 4 && kernel > 1 && tensor->shape[0] == expected[0] * expected[1] &&
        tensor->shape[1] == frames && tensor->shape[2] == kernel && tensor->shape[3] == kernel)
        return true;
    if (tensor->rank < rank || (tensor->rank != 2 && tensor->rank != rank && tensor->rank != 4 && tensor->rank != 5))
        return diti_loader_fail_shape(loader, tensor, expected, rank);
    for (i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] != expected[i]) return diti_loader_fail_shape(loader, tensor, expected, tensor->rank);
    return true;
}

/* Ones don't matter: [1, N] and [N, 1, 1] are as good as [N] for a vector. */
static bool diti_check_vector(diti_loader *loader, const diti_stored_tensor *tensor, uint32_t rows, uint32_t columns) {
    uint64_t expected[2];
    const uint64_t *shape = tensor->shape;
    uint32_t rank = tensor->rank;
    expected[0] = rows;
    expected[1] = columns;
    while (rank > 1 && shape[0] == 1) shape++, rank--;
    while (rows == 1 && rank > 1 && shape[rank - 1] == 1) rank--;
    if (rows == 1 && rank == 1 && shape[0] == columns) return true;
    if (rank == 2 && shape[0] == rows && shape[1] == columns) return true;
    if (rank == 4 && shape[0] == rows && (shape[2] > 1 || shape[1] > 1) &&
        shape[1] * shape[2] * shape[3] == columns) /* a convolution that keeps channels apart */
        return true;
    return diti_loader_fail_shape(loader, tensor, rows == 1 ? expected + 1 : expected, rows == 1 ? 1u : 2u);
}

static VkDeviceSize diti_loader_block_limit(const diti_loader *loader) {
    return loader->device ? loader->device->limits.block & ~(VkDeviceSize)0xffff : UINT64_MAX / 4;
}

/* The most bytes of one part: a binding may start up to one alignment before the part. */
static VkDeviceSize diti_loader_part_limit(const diti_loader *loader) {
    VkDeviceSize block = diti_loader_block_limit(loader), range;
    if (!loader->device) return block;
    range = loader->device->limits.storage_range - loader->device->limits.storage_alignment;
    return (range < block ? range : block) & ~(VkDeviceSize)(DITI_WEIGHT_ALIGN - 1);
}

static diti_weight_block *diti_loader_new_block(diti_loader *loader) {
    diti_weights *weights = &loader->weights;
    diti_weight_block *block = (diti_weight_block *)diti_alloc_zero(loader->env, sizeof *block);
    void *array = weights->blocks;
    if (!block || !diti_grow(loader->env, &array, &weights->block_capacity, weights->block_count, sizeof block)) {
        diti_free(loader->env, block);
        diti_loader_fail_memory(loader);
        return NULL;
    }
    weights->blocks = (diti_weight_block **)array;
    weights->blocks[weights->block_count++] = block;
    return block;
}

/* Room for bytes in the newest block, or in a new one. */
static diti_weight_block *diti_loader_place(diti_loader *loader, VkDeviceSize bytes, VkDeviceSize *offset) {
    size_t count = loader->weights.block_count;
    diti_weight_block *block = count ? loader->weights.blocks[count - 1] : NULL;
    VkDeviceSize limit = diti_loader_block_limit(loader);
    bytes = diti_align_up(bytes, DITI_WEIGHT_ALIGN);
    if (!block || bytes > limit || block->used > limit - bytes) block = diti_loader_new_block(loader);
    if (!block) return NULL;
    *offset = block->used;
    block->used += bytes;
    return block;
}

/* Where the matrix at hand goes that is not resident. */
static diti_streamed *diti_loader_row(const diti_loader *loader) {
    return loader->streaming ? loader->weights.streamed : loader->weights.expert;
}

static bool diti_loader_add_upload(diti_loader *loader, const diti_upload *upload) {
    diti_streamed *streamed = upload->block ? NULL : diti_loader_row(loader);
    void *array = streamed ? streamed->uploads : loader->uploads;
    if (!diti_grow(loader->env, &array, streamed ? &streamed->capacity : &loader->upload_capacity,
                   streamed ? streamed->count : loader->upload_count, sizeof *upload)) {
        diti_loader_fail_memory(loader);
        return false;
    }
    *(streamed ? &streamed->uploads : &loader->uploads) = (diti_upload *)array;
    ((diti_upload *)array)[streamed ? streamed->count++ : loader->upload_count++] = *upload;
    return true;
}

/* --- what is streamed --- */

static diti_streamed *diti_loader_new_row(diti_loader *loader) {
    diti_streamed *streamed = (diti_streamed *)diti_alloc_zero(loader->env, sizeof *streamed);
    if (!streamed) {
        diti_loader_fail_memory(loader);
        return NULL;
    }
    streamed->stream = loader->stream;
    streamed->env = loader->env;
    streamed->checkpoint = loader->checkpoint;
    return streamed;
}

/* The list of streamed parts is made for the first matrix, since a loader that ends before has nothing to free. */
static bool diti_loader_begin_stream(diti_loader *loader) {
    if (loader->weights.streamed) return true;
    if (!loader->stream && !loader->sizes && !loader->by_need) return false;
    if (loader->expert && !loader->weights.expert) {
        loader->weights.expert = diti_loader_new_row(loader);
        if (!loader->weights.expert) return false;
        loader->weights.expert->slot_bytes = loader->stream->sizes.expert;
    }
    loader->weights.streamed = diti_loader_new_row(loader);
    return loader->weights.streamed != NULL;
}

/* Whether the slots for the expert at work have room for matrices that lie side by side, in one of them; what is left
   of the slot before stays empty. */
static bool diti_loader_expert_room(const diti_loader *loader, uint64_t bytes) {
    diti_streamed *expert = loader->weights.expert;
    uint64_t slot = expert->slot_bytes, at = expert->bytes;
    if (at % slot + bytes > slot) at += slot - at % slot;
    if (bytes > slot || at + bytes > slot * loader->stream->sizes.experts) return false;
    expert->bytes = at;
    return true;
}

/* A matrix stays resident as long as that keeps to the same share everywhere, so that what is streamed is spread over
   all layers. The first of several that lie side by side decides. */
static void diti_loader_choose(diti_loader *loader, uint64_t bytes) {
    uint64_t all = bytes * (loader->join ? loader->join : 1u);
    double share;
    bool first = !loader->join || !loader->chosen;
    if (!diti_loader_begin_stream(loader)) return;
    bytes = diti_align_up(bytes, DITI_WEIGHT_ALIGN);
    share = (double)(loader->seen + all) / (double)(loader->matrices ? loader->matrices : 1);
    if (loader->by_need)
        loader->streaming = true;
    else if (first)
        loader->streaming = (double)(loader->kept + all) > (double)loader->keep * share;
    if (first && !loader->streaming && loader->weights.expert)
        loader->streaming = !diti_loader_expert_room(loader, bytes * (loader->join ? loader->join : 1u));
    loader->chosen = true;
    loader->seen += bytes;
    if (!loader->streaming) loader->kept += bytes;
}

/* A place in the row of what is streamed. */
static uint64_t diti_loader_place_streamed(const diti_loader *loader, uint64_t bytes) {
    diti_streamed *streamed = diti_loader_row(loader);
    uint64_t place = streamed->bytes;
    streamed->bytes += diti_align_up(bytes, DITI_WEIGHT_ALIGN);
    return place;
}

static const char *diti_loader_keep_name(diti_loader *loader, const char *name) {
    diti_weights *weights = &loader->weights;
    char *copy = diti_copy_string(loader->env, name);
    void *array = weights->names;
    if (!copy || !diti_grow(loader->env, &array, &weights->name_capacity, weights->name_count, sizeof copy)) {
        diti_free(loader->env, copy);
        diti_loader_fail_memory(loader);
        return "";
    }
    weights->names = (char **)array;
    return weights->names[weights->name_count++] = copy;
}

/* rows x columns values of tensors that are stored alike become so many bytes on the device. */
static void diti_loader_tally(diti_loader *loader, const diti_stored_tensor *tensor, dit_type type, uint32_t tensors,
                              uint64_t rows, uint32_t columns) {
    diti_weight_tally *tally = &loader->weights.types[tensor->type];
    uint64_t bytes = 0, values = rows * columns, elements = diti_stored_tensor_elements(tensor);
    diti_weight_bytes(type, rows, columns, &bytes);
    tally->tensors += tensors;
    tally->parameters += values;
    tally->stored_bytes += (uint64_t)((double)tensor->size * (double)values / (double)(elements ? elements : 1) + 0.5);
    tally->bytes += diti_align_up(bytes, DITI_WEIGHT_ALIGN);
}

DIT_INTERNAL void diti_loader_discount(diti_loader *loader, const diti_weight *weight, uint32_t tensors,
                                       uint64_t values) {
    const diti_stored_tensor *tensor =
        weight->part_count ? diti_checkpoint_find(loader->checkpoint, weight->name) : NULL;
    if (!tensor) return;
    loader->weights.parameters -= values;
    loader->weights.types[tensor->type].parameters -= values;
    loader->weights.types[tensor->type].tensors -= tensors;
}

static void diti_loader_start_weight(diti_loader *loader, diti_weight *out, const diti_stored_tensor *tensor,
                                     dit_type type, uint32_t rows, uint32_t columns) {
    out->name = diti_loader_keep_name(loader, tensor->name);
    out->type = type;
    out->rows = rows;
    out->columns = columns;
    out->kernel = 1;
    loader->weights.parameters += (uint64_t)rows * columns;
    diti_loader_tally(loader, tensor, type, loader->skip ? 0 : 1, rows, columns);
}

/* --- what adapters are looked up by --- */

static void diti_loader_add_target(diti_loader *loader, const diti_target *target, const char *module) {
    diti_weights *weights = &loader->weights;
    void *array = weights->targets;
    char *copy = diti_copy_string(loader->env, module);
    if (!copy || !diti_grow(loader->env, &array, &weights->target_capacity, weights->target_count, sizeof *target)) {
        diti_free(loader->env, copy);
        diti_loader_fail_memory(loader);
        return;
    }
    weights->targets = (diti_target *)array;
    weights->targets[weights->target_count] = *target;
    weights->targets[weights->target_count++].module = copy;
}

/* The name of a target's module without its ending; false: nothing asks for targets. */
static bool diti_loader_target_name(const diti_loader *loader, const diti_weight *weight, const char *name,
                                    const char *ending, char *out, size_t size) {
    if (!loader->adapts || !weight->part_count || loader->error.result ||
        !diti_format(out, size, "%s%s", loader->scope, name))
        return false;
    if (diti_ends_with(out, ending)) out[strlen(out) - strlen(ending)] = 0;
    return true;
}

/* name: as it is asked for, with ".weight". */
static void diti_loader_note_target(diti_loader *loader, const diti_weight *weight, const diti_stored_tensor *tensor,
                                    uint32_t all, const char *name) {
    diti_target target = DITI_ZERO;
    char module[256];
    if (!diti_loader_target_name(loader, weight, name, ".weight", module, sizeof module)) return;
    target.names = loader->names ? loader->names : (uint32_t)DITI_NAMES_ALL;
    target.first = target.tensor_row = loader->skip;
    target.rows = weight->rows;
    target.all = all;
    target.columns = weight->columns;
    target.weight = weight->name;
    target.tensor = tensor;
    diti_loader_add_target(loader, &target, module);
}

/* name: as it is asked for. The tensor's values are those of the weight from `row` on. */
static void diti_loader_note_vector(diti_loader *loader, const diti_weight *weight, const diti_stored_tensor *tensor,
                                    uint32_t row, const char *name) {
    diti_target target = DITI_ZERO;
    char module[256];
    target.vector = true;
    target.bias = diti_ends_with(name, ".bias");
    if (!diti_loader_target_name(loader, weight, name, target.bias ? ".bias" : ".weight", module, sizeof module))
        return;
    target.names = loader->names ? loader->names : (uint32_t)DITI_NAMES_ALL;
    target.rows = target.all = (uint32_t)diti_stored_tensor_elements(tensor);
    target.columns = 1;
    target.weight = weight->name;
    target.row = row;
    target.tensor = tensor;
    diti_loader_add_target(loader, &target, module);
}

/* A weight has become rows [first, first + rows) of the vector that was noted last. */
static void diti_loader_window_target(diti_loader *loader, const diti_weight *weight, uint32_t first, uint32_t rows) {
    diti_weights *weights = &loader->weights;
    diti_target *target = weights->target_count ? &weights->targets[weights->target_count - 1] : NULL;
    if (!target || target->weight != weight->name) return;
    target->first = target->tensor_row = first;
    target->rows = rows;
}

DIT_INTERNAL void diti_loader_move_targets(diti_loader *loader, const char *from, const char *to, uint32_t row) {
    size_t i;
    for (i = 0; i < loader->weights.target_count; i++) {
        diti_target *target = &loader->weights.targets[i];
        if (target->weight != from) continue;
        target->weight = to;
        target->row += row;
    }
}

/* The alias of a layer's weight, of rows from `row` of its target on, is one of the layer's bias, too. */
static void diti_loader_alias_bias(diti_loader *loader, const diti_target *of, const diti_target *alias, uint32_t row,
                                   const char *module) {
    const diti_weights *weights = &loader->weights;
    size_t i;
    for (i = weights->target_count; i-- > 0;) {
        diti_target target = weights->targets[i];
        uint32_t from = of->tensor_row + row;
        if (!target.bias || target.names != of->names || !diti_equal(target.module, of->module) ||
            from < target.tensor_row || from - target.tensor_row > target.rows ||
            alias->rows > target.rows - (from - target.tensor_row))
            continue;
        target.row += from - target.tensor_row;
        target.tensor_row = from;
        target.rows = alias->rows;
        target.first = alias->first;
        target.all = alias->all;
        target.names = alias->names;
        diti_loader_add_target(loader, &target, module);
        return;
    }
}

DIT_INTERNAL void diti_loader_alias(diti_loader *loader, const diti_weight *weight, uint32_t row, uint32_t rows,
                                    const char *module, uint32_t first, uint32_t all, uint32_t names) {
    const diti_weights *weights = &loader->weights;
    char full[256];
    size_t i = weights->target_count;
    while (i-- > 0 && loader->adapts) { /* the alias is of a target that was noted when the weight was loaded */
        diti_target target = weights->targets[i], of = target;
        if (target.weight != weight->name || row < target.row || row - target.row > target.rows - rows ||
            rows > target.rows)
            continue;
        target.tensor_row += row - target.row;
        target.row = row;
        target.rows = rows;
        target.first = first;
        target.all = all;
        target.names = names;
        if (!diti_format(full, sizeof full, "%s%s", loader->scope, module)) return;
        diti_loader_add_target(loader, &target, full);
        diti_loader_alias_bias(loader, &of, &target, row - of.row, full);
        return;
    }
}

/* Places rows [first, first + rows) of a matrix as one part. */
static void diti_loader_add_part(diti_loader *loader, diti_weight *out, const diti_stored_tensor *tensor,
                                 uint32_t first, uint32_t rows, uint64_t row_bytes) {
    diti_upload upload = DITI_ZERO;
    diti_weight_part *part = &out->parts[out->part_count];
    upload.tensor = tensor;
    upload.offset = (loader->skip + first) * row_bytes;
    upload.size = rows * row_bytes;
    if (diti_type_is_i8(out->type) || (out->type == DIT_TYPE_I4_GROUP && tensor->type != DIT_TYPE_I4_GROUP))
        upload.i8 = out->type;
    if (diti_lora_merges_has(loader->merges, tensor)) {
        upload.merges = loader->merges;
        upload.merged = out->type;
    }
    if (upload.i8 || upload.merges) upload.smooth = loader->smooth;
    upload.halves = !upload.merges && out->type == DIT_TYPE_F16 && tensor->type == DIT_TYPE_BF16;
    upload.first = loader->skip + first;
    upload.rows = rows;
    upload.columns = out->columns;
    if (diti_loader_row(loader)) {
        upload.target = diti_loader_place_streamed(loader, upload.size);
        part->streamed = diti_loader_row(loader);
    } else {
        upload.block = diti_loader_place(loader, upload.size, &upload.target);
        if (!upload.block) return;
        part->block = upload.block;
    }
    if (!diti_loader_add_upload(loader, &upload)) return;
    part->offset = upload.target;
    part->first_row = first;
    part->rows = rows;
    out->part_count++;
}

static bool diti_loader_is_matrix_type(dit_type type) { return type >= DIT_TYPE_F32 && type <= DIT_TYPE_NVFP4; }

static void diti_loader_fail_type(diti_loader *loader, const diti_stored_tensor *tensor, uint32_t columns) {
    diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL,
              "%s: tensor %.200s: rows of %u values can't be used as %s; convert the file to another type",
              diti_checkpoint_name(loader->checkpoint), tensor->name, columns, tensor->type_name);
}

static void diti_loader_measure(diti_loader *loader, uint64_t part_bytes) {
    part_bytes = diti_align_up(part_bytes, DITI_WEIGHT_ALIGN);
    if (loader->sizes && part_bytes > loader->sizes->largest) loader->sizes->largest = part_bytes;
}

/* BF16 has F16's size and fewer bits of its own: in range nothing is lost but bits below 2^-24. A matrix that is read
   in every step stays BF16, since the host would take longer over it each time than the device. So does one that is
   expanded in any case, by factors that may bring a large value back in range. */
static bool diti_loader_halves(const diti_loader *loader) {
    if (!loader->wide || !loader->device || loader->device->rung < DITI_RUNG_FP16) return false;
    return !diti_loader_row(loader) || (loader->read_once && !loader->smooth);
}

/* The type of a matrix with adapters in it: nothing packs it here, and BF16 would round most of them away. */
static dit_type diti_loader_merged_type(const diti_loader *loader, dit_type type) {
    if (type == DIT_TYPE_F32 || diti_type_is_i8(type)) return type;
    return loader->device && loader->device->rung >= DITI_RUNG_FP16 ? DIT_TYPE_F16 : DIT_TYPE_F32;
}

/* Notes all rows, as many to a part as the device can bind, in whole tiles of a product where that many fit: results in
   halves begin at even columns. A table that is streamed has as many to a part as a slot holds. */
static void diti_loader_add_matrix(diti_loader *loader, diti_weight *out, const diti_stored_tensor *tensor,
                                   dit_type type, uint32_t rows, uint32_t columns, bool table) {
    uint64_t row_bytes = 0, most;
    uint32_t first, count;
    if (!table && diti_lora_merges_has(loader->merges, tensor)) type = diti_loader_merged_type(loader, type);
    if (!diti_weight_bytes(type, 1, columns, &row_bytes)) {
        diti_loader_fail_type(loader, tensor, columns);
        return;
    }
    diti_loader_choose(loader, rows * row_bytes);
    if (type == DIT_TYPE_BF16 && !table && diti_loader_halves(loader)) type = DIT_TYPE_F16; /* as many bytes */
    most = diti_loader_part_limit(loader);
    if (table && loader->streaming && !loader->sizes && loader->weights.streamed->stream &&
        loader->weights.streamed->stream->slot_bytes < most)
        most = loader->weights.streamed->stream->slot_bytes;
    most /= row_bytes;
    if (!table && most < rows) most -= most % (most < DITI_PART_ROWS ? 2 : DITI_PART_ROWS);
    if (!most || rows / most >= DITI_MAX_WEIGHT_PARTS) {
        diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_DEVICE,
                  "%s: tensor %.200s does not fit %u parts within this device's storage buffer limit",
                  diti_checkpoint_name(loader->checkpoint), tensor->name, DITI_MAX_WEIGHT_PARTS);
        return;
    }
    diti_loader_start_weight(loader, out, tensor, type, rows, columns);
    if (loader->sizes && table && rows * row_bytes > loader->sizes->table) loader->sizes->table = rows * row_bytes;
    for (first = 0; first < rows && !loader->error.result; first += count) {
        count = rows - first < most ? rows - first : (uint32_t)most;
        diti_loader_add_part(loader, out, tensor, first, count, row_bytes);
        if (!table) diti_loader_measure(loader, count * row_bytes);
    }
}

/* Notes that tensors are used which describe a matrix: its factors, ComfyUI's mark, and factors of activations, which
   programs need that round these to few bits. */
static bool diti_loader_use_factors(diti_loader *loader, const diti_stored_tensor *tensor) {
    static const char *const others[] = {".comfy_quant", ".weight_scale", ".input_scale", ".scale_input"};
    const diti_stored_tensor *found = diti_factor_find(loader->checkpoint, tensor);
    char mark[512];
    size_t i;
    if (found) diti_loader_use(loader, found);
    if (found && diti_format(mark, sizeof mark, "%sscaled_fp8", loader->prefix))
        found = diti_checkpoint_find(loader->checkpoint, mark);
    if (found) diti_loader_use(loader, found);
    for (i = 0; i < DITI_COUNT(others); i++) {
        found = diti_stored_sibling(loader->checkpoint, tensor, ".weight", others[i]);
        if (found) diti_loader_use(loader, found);
    }
    return !loader->error.result && diti_factor_check(loader->checkpoint, tensor, &loader->error) == DIT_OK;
}

/* The factors of a matrix that has its stored type on the device, of rows from `first` on of the stored one; always as
   many as rows, so that layers side by side become one matrix whether they share a factor or not. */
static void diti_loader_add_factors(diti_loader *loader, diti_weight *out, uint32_t first) {
    const diti_stored_tensor *tensor;
    diti_upload upload = DITI_ZERO;
    if (!out->part_count || loader->error.result || !diti_type_has_factors(out->type)) return;
    tensor = diti_checkpoint_find(loader->checkpoint, out->name);
    if (!diti_factor_find(loader->checkpoint, tensor)) return;
    upload.tensor = tensor;
    upload.factors = true;
    upload.first = first;
    upload.floats = out->rows;
    upload.size = (uint64_t)out->rows * sizeof(float);
    upload.block = diti_loader_place(loader, upload.size, &upload.target);
    if (!upload.block || !diti_loader_add_upload(loader, &upload)) return;
    loader->weights.types[tensor->type].bytes += diti_align_up(upload.size, DITI_WEIGHT_ALIGN);
    out->factor.block = upload.block;
    out->factor.offset = upload.target;
    out->factor.rows = out->rows;
}

static void diti_loader_add_stored(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                   uint32_t kernel, uint32_t frames, const char *name, bool table) {
    const diti_stored_tensor *tensor = diti_loader_expect(loader, name);
    memset(out, 0, sizeof *out);
    if (!tensor || !diti_check_matrix(loader, tensor, rows, columns, kernel, frames)) return;
    if (!diti_loader_is_matrix_type(tensor->type)) {
        diti_loader_fail_type(loader, tensor, columns);
        return;
    }
    if (!diti_loader_use_factors(loader, tensor)) return;
    diti_loader_add_matrix(loader, out, tensor, tensor->type, rows, columns, table);
    diti_loader_add_factors(loader, out, 0);
    out->kernel = kernel;
    out->frames = frames;
    if (!table) diti_loader_note_target(loader, out, tensor, rows, name);
}

DIT_INTERNAL void diti_load_matrix(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                   uint32_t kernel, const char *name) {
    diti_loader_add_stored(loader, out, rows, columns, kernel, 1, name, false);
}

DIT_INTERNAL void diti_load_table(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                  const char *name) {
    diti_loader_add_stored(loader, out, rows, columns, 1, 1, name, true);
}

/* --- linear layers: the rules of dit_model_desc.types --- */

DIT_INTERNAL void diti_loader_rules(diti_loader *loader, const char *component, const diti_load_options *options) {
    loader->component = component;
    if (!options) return;
    loader->types = options->types;
    loader->type_count = options->type_count;
    loader->types_used = options->types_used;
    loader->sizes = options->sizes;
    loader->matrices = options->matrices;
    loader->keep = options->keep;
    loader->expert = options->expert;
    loader->stream = options->stream;
    loader->by_need = options->by_need && loader->device && !loader->sizes;
    loader->read_once = options->read_once;
    loader->wide = options->wide;
    loader->adapts = options->adapts;
    loader->merges = options->merges;
    loader->taps = options->taps;
    loader->shown = options->shown;
    loader->sees = options->sees;
}

static dit_type diti_loader_rule(const diti_loader *loader, const diti_stored_tensor *tensor) {
    char name[600];
    uint32_t i;
    if (!loader->type_count ||
        !diti_format(name, sizeof name, "%s.%s", loader->component, tensor->name + strlen(loader->prefix)))
        return DIT_TYPE_STORED;
    for (i = 0; i < loader->type_count; i++) {
        if (!diti_glob(loader->types[i].tensors, name)) continue;
        if (loader->types_used && i < 64) *loader->types_used |= (uint64_t)1 << i;
        return loader->types[i].type;
    }
    return DIT_TYPE_STORED;
}

/* The type that a linear weight gets on the device; false when that can't be. */
static bool diti_loader_linear_type(diti_loader *loader, const diti_stored_tensor *tensor, uint32_t columns,
                                    dit_type *out) {
    dit_type stored = tensor->type, rule = diti_loader_rule(loader, tensor);
    const diti_stored_tensor *scales;
    if (diti_type_is_i8(stored) &&
        (diti_i8_stored_type(loader->checkpoint, tensor, &stored, &loader->error) != DIT_OK ||
         diti_i8_find_scales(loader->checkpoint, tensor, (uint32_t)tensor->shape[0], &scales, &loader->error) !=
             DIT_OK))
        return false;
    if (diti_type_is_i8(stored)) diti_loader_use(loader, scales);
    *out = rule == DIT_TYPE_STORED ? stored : diti_i8_type(rule, columns);
    if (rule == DIT_TYPE_I4_GROUP && columns % DITI_I4_GROUP) *out = stored;
    if (diti_type_is_rotated(rule) && *out != rule) loader->unrotated++;
    if (diti_type_is_i8(stored) && *out != stored) {
        diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL,
                  "%s: tensor %.200s is stored as %s and cannot become %s; convert the model's original file",
                  diti_checkpoint_name(loader->checkpoint), tensor->name, diti_type_name(stored), diti_type_name(*out));
    } else if (diti_type_is_i8(*out) && columns > DITI_I8_MAX_COLUMNS) {
        diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL,
                  "%s: tensor %.200s: rows of %u values are too long for %s, which takes %u",
                  diti_checkpoint_name(loader->checkpoint), tensor->name, columns, diti_type_name(*out),
                  DITI_I8_MAX_COLUMNS);
    } else if (!diti_type_is_i8(stored) && !diti_loader_is_matrix_type(stored)) {
        diti_loader_fail_type(loader, tensor, columns);
    }
    return !loader->error.result;
}

/* --- smoothing factors beside a matrix (smooth.c) --- */

/* The factors, checked; NULL: it has none, or the loader failed. */
static const diti_stored_tensor *diti_loader_find_smooth(diti_loader *loader, const diti_stored_tensor *tensor,
                                                         uint32_t columns) {
    const diti_stored_tensor *smooth = diti_stored_sibling(loader->checkpoint, tensor, "", DITI_LOW_RANK_SMOOTH);
    if (!smooth || loader->error.result) return NULL;
    diti_loader_use(loader, smooth);
    if (diti_type_is_i8(tensor->type))
        diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_MODEL,
                  "%s: tensor %.200s is %s and has smoothing factors beside it, which need another type",
                  diti_checkpoint_name(loader->checkpoint), tensor->name, tensor->type_name);
    else if (smooth->rank != 1 || smooth->shape[0] != columns || !diti_type_block(smooth->type))
        diti_fail(&loader->error, DIT_ERROR_BAD_FILE, "%s: tensor %.200s is not floats [%u], a factor for each column",
                  diti_checkpoint_name(loader->checkpoint), smooth->name, (unsigned)columns);
    return loader->error.result ? NULL : smooth;
}

/* Matrices that are asked for one after the other have the same factors where they have the same x. */
static diti_smooth *diti_smooth_known(const diti_weights *weights, const diti_stored_tensor *smooth) {
    diti_smooth *last = weights->smooth_count ? weights->smooths[weights->smooth_count - 1] : NULL;
    return last && last->file == smooth->file && last->offset == smooth->offset ? last : NULL;
}

/* The inverse factors on the device, for diti_weight.smooth. */
static const diti_weight *diti_loader_add_smooth(diti_loader *loader, const diti_stored_tensor *smooth) {
    diti_weights *weights = &loader->weights;
    diti_smooth *made = diti_smooth_known(weights, smooth);
    void *array = weights->smooths;
    if (made) return &made->weight;
    made = (diti_smooth *)diti_alloc_zero(loader->env, sizeof *made);
    if (!made || !diti_grow(loader->env, &array, &weights->smooth_capacity, weights->smooth_count, sizeof made)) {
        diti_free(loader->env, made);
        diti_fail_memory(&loader->error, "loading %s", loader->what);
        return NULL;
    }
    weights->smooths = (diti_smooth **)array;
    weights->smooths[weights->smooth_count++] = made;
    made->file = smooth->file;
    made->offset = smooth->offset;
    diti_load_inverse(loader, &made->weight, smooth);
    diti_loader_discount(loader, &made->weight, 0, made->weight.columns); /* no parameters of the model */
    return &made->weight;
}

/* Rows [first, first + rows) of a tensor of `all` rows. */
static void diti_load_linear_rows(diti_loader *loader, diti_weight *out, uint32_t first, uint32_t rows, uint32_t all,
                                  uint32_t columns, const char *name) {
    const diti_stored_tensor *tensor = diti_loader_expect(loader, name);
    const diti_weight *smooth = NULL;
    uint64_t stored_bytes;
    dit_type type;
    memset(out, 0, sizeof *out);
    if (!tensor || !diti_check_matrix(loader, tensor, all, columns, 1, 1)) return;
    if (!diti_loader_use_factors(loader, tensor) || !diti_loader_linear_type(loader, tensor, columns, &type)) return;
    if (!diti_type_is_i8(tensor->type) && !diti_type_bytes(tensor->type, 1, columns, &stored_bytes)) {
        diti_loader_fail_type(loader, tensor, columns);
        return;
    }
    diti_loader_use_low_rank(loader, tensor);
    loader->smooth = diti_loader_find_smooth(loader, tensor, columns);
    if (loader->smooth && type == tensor->type && !diti_lora_merges_has(loader->merges, tensor))
        smooth = diti_loader_add_smooth(loader, loader->smooth);
    loader->skip = first;
    if (!loader->error.result) diti_loader_add_matrix(loader, out, tensor, type, rows, columns, false);
    out->smooth = smooth;
    loader->smooth = NULL;
    if (!loader->join) diti_loader_add_factors(loader, out, first);
    diti_loader_note_target(loader, out, tensor, all, name);
    loader->skip = 0;
}

DIT_INTERNAL void diti_load_linear(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                   const char *name) {
    diti_load_linear_rows(loader, out, 0, rows, rows, columns, name);
}

/* A whole tensor as F32 [rows, columns]. */
static void diti_loader_add_floats(diti_loader *loader, diti_weight *out, const diti_stored_tensor *tensor,
                                   uint32_t rows, uint32_t columns, bool inverse) {
    diti_upload upload = DITI_ZERO;
    uint64_t count = (uint64_t)rows * columns;
    if (count > diti_loader_part_limit(loader) / sizeof(float)) {
        diti_fail(&loader->error, DIT_ERROR_UNSUPPORTED_DEVICE,
                  "%s: tensor %.200s is larger than this device's storage buffer limit",
                  diti_checkpoint_name(loader->checkpoint), tensor->name);
        return;
    }
    diti_loader_start_weight(loader, out, tensor, DIT_TYPE_F32, rows, columns);
    upload.tensor = tensor;
    upload.size = tensor->size;
    upload.floats = (uint32_t)count;
    upload.inverse = inverse;
    if (!inverse && diti_lora_merges_has(loader->merges, tensor)) upload.merges = loader->merges;
    upload.block = diti_loader_place(loader, count * sizeof(float), &upload.target);
    if (!upload.block || !diti_loader_add_upload(loader, &upload)) return;
    out->parts[0].block = upload.block;
    out->parts[0].offset = upload.target;
    out->parts[0].rows = rows;
    out->part_count = 1;
}

DIT_INTERNAL void diti_load_vector(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                   const char *name) {
    const diti_stored_tensor *tensor = diti_loader_expect(loader, name);
    memset(out, 0, sizeof *out);
    if (!tensor || !diti_check_vector(loader, tensor, rows, columns)) return;
    diti_loader_add_floats(loader, out, tensor, rows, columns, false);
    diti_loader_note_vector(loader, out, tensor, 0, name);
}

DIT_INTERNAL void diti_load_inverse(diti_loader *loader, diti_weight *out, const diti_stored_tensor *tensor) {
    memset(out, 0, sizeof *out);
    diti_loader_add_floats(loader, out, tensor, 1, (uint32_t)tensor->shape[0], true);
}

DIT_INTERNAL void diti_load_vectors(diti_loader *loader, diti_weight *out, const char *const *names, uint32_t count,
                                    uint32_t columns) {
    diti_upload upload = DITI_ZERO;
    VkDeviceSize first = 0;
    uint32_t i;
    memset(out, 0, sizeof *out);
    upload.block = diti_loader_place(loader, (VkDeviceSize)count * columns * sizeof(float), &first);
    for (i = 0; i < count && upload.block; i++) {
        const diti_stored_tensor *tensor = diti_loader_expect(loader, names[i]);
        if (!tensor || !diti_check_vector(loader, tensor, 1, columns)) return;
        if (i == 0) diti_loader_start_weight(loader, out, tensor, DIT_TYPE_F32, count, columns);
        if (i > 0) loader->weights.types[tensor->type].tensors++;
        upload.tensor = tensor;
        upload.size = tensor->size;
        upload.floats = columns;
        upload.merges = diti_lora_merges_has(loader->merges, tensor) ? loader->merges : NULL;
        upload.target = first + (VkDeviceSize)i * columns * sizeof(float);
        if (!diti_loader_add_upload(loader, &upload)) return;
    }
    if (!upload.block) return;
    out->parts[0].block = upload.block;
    out->parts[0].offset = first;
    out->parts[0].rows = count;
    out->part_count = 1;
    for (i = 0; i < count; i++)
        diti_loader_note_vector(loader, out, diti_loader_find(loader, names[i]), i * columns, names[i]);
}

DIT_INTERNAL void diti_load_offset(diti_loader *loader, diti_weight *out, uint32_t columns, float added,
                                   const char *name) {
    diti_load_vector(loader, out, 1, columns, name);
    if (out->part_count) loader->uploads[loader->upload_count - 1].added = added;
}

DIT_INTERNAL void diti_load_remake(diti_loader *loader, uint32_t back,
                                   void (*make)(const uint32_t *made, const float *values, float *out)) {
    diti_upload *upload = &loader->uploads[loader->upload_count - 1 - back];
    if (loader->error.result) return;
    upload->make = make;
    upload->made[0] = upload->floats;
}

DIT_INTERNAL void diti_load_made(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                 uint32_t frames, const char *name, const uint64_t *shape, uint32_t rank,
                                 void (*make)(const uint32_t *made, const float *values, float *out),
                                 const uint32_t made[6]) {
    const diti_stored_tensor *tensor = diti_loader_expect(loader, name);
    diti_upload *upload;
    uint32_t i;
    memset(out, 0, sizeof *out);
    if (!tensor) return;
    for (i = 0; i < rank && tensor->rank == rank && tensor->shape[i] == shape[i];) i++;
    if (i < rank) {
        diti_loader_fail_shape(loader, tensor, shape, rank);
        return;
    }
    diti_loader_add_floats(loader, out, tensor, rows, columns, false);
    if (!out->part_count) return;
    out->frames = frames;
    upload = &loader->uploads[loader->upload_count - 1];
    upload->make = make;
    memcpy(upload->made, made, sizeof upload->made);
    upload->made[0] = (uint32_t)diti_stored_tensor_elements(tensor);
}

DIT_INTERNAL void diti_load_transposed(diti_loader *loader, diti_weight *out, uint32_t rows, uint32_t columns,
                                       const char *name) {
    diti_load_vector(loader, out, columns, rows, name);
    if (!out->part_count) return;
    out->rows = out->parts[0].rows = rows;
    out->columns = columns;
    loader->uploads[loader->upload_count - 1].turned = true;
    loader->uploads[loader->upload_count - 1].rows = rows;
    loader->uploads[loader->upload_count - 1].columns = columns;
}

static uint64_t diti_part_bytes(const diti_weight *weight, const diti_weight_part *part) {
    uint64_t bytes = 0;
    diti_weight_bytes(weight->type, part->rows, weight->columns, &bytes);
    return bytes;
}

/* Grows a's last part by b's first where b begins in memory at the byte where a ends. */
static bool diti_weight_touches(const diti_loader *loader, const diti_weight *a, const diti_weight *b) {
    const diti_weight_part *last = &a->parts[a->part_count - 1], *next = &b->parts[0];
    uint64_t bytes = diti_part_bytes(a, last);
    return last->block == next->block && last->streamed == next->streamed && last->offset + bytes == next->offset &&
           bytes + diti_part_bytes(b, next) <= diti_loader_part_limit(loader);
}

/* Vectors [1, N] grow along their only row. */
static bool diti_vector_append(const diti_loader *loader, diti_weight *out, const diti_weight *more) {
    if (out->rows != 1 || more->rows != 1 || !diti_weight_touches(loader, out, more)) return false;
    out->columns += more->columns;
    return true;
}

/* Both have factors, side by side, or none has. */
static bool diti_factors_touch(const diti_weight_part *a, const diti_weight_part *b) {
    if (!a->rows || !b->rows) return a->rows == b->rows;
    return a->block == b->block && !a->first_row && !b->first_row &&
           a->offset + a->rows * (VkDeviceSize)sizeof(float) == b->offset;
}

DIT_INTERNAL bool diti_weight_append(const diti_loader *loader, diti_weight *out, const diti_weight *more) {
    uint32_t i = 0;
    if (!out->part_count || !more->part_count || out->type != more->type || out->smooth != more->smooth ||
        diti_weight_taps(out) != diti_weight_taps(more) || !diti_factors_touch(&out->factor, &more->factor))
        return false;
    if (out->rows == 1 && more->rows == 1 && out->type == DIT_TYPE_F32) return diti_vector_append(loader, out, more);
    if (out->columns != more->columns || out->part_count + more->part_count > DITI_MAX_WEIGHT_PARTS) return false;
    if (diti_weight_touches(loader, out, more)) out->parts[out->part_count - 1].rows += more->parts[i++].rows;
    for (; i < more->part_count; i++) {
        diti_weight_part *part = &out->parts[out->part_count++];
        *part = more->parts[i];
        part->first_row += out->rows;
    }
    out->rows += more->rows;
    out->factor.rows += more->factor.rows;
    return true;
}

DIT_INTERNAL void diti_load_layer(diti_loader *loader, diti_layer *out, uint32_t rows, uint32_t columns,
                                  uint32_t kernel, const char *name) {
    char full[160];
    memset(out, 0, sizeof *out);
    diti_format(full, sizeof full, "%s.weight", name);
    if (kernel > 1)
        diti_load_matrix(loader, &out->weight, rows, columns, kernel, full);
    else
        diti_load_linear(loader, &out->weight, rows, columns, full);
    diti_format(full, sizeof full, "%s.bias", name);
    diti_load_vector(loader, &out->bias, 1, rows, full);
}

DIT_INTERNAL void diti_load_bare_rows(diti_loader *loader, diti_layer *out, uint32_t first, uint32_t rows, uint32_t all,
                                      uint32_t columns, const char *name) {
    char full[160];
    memset(out, 0, sizeof *out);
    diti_format(full, sizeof full, "%s.weight", name);
    diti_load_linear_rows(loader, &out->weight, first, rows, all, columns, full);
}

DIT_INTERNAL void diti_load_bare(diti_loader *loader, diti_layer *out, uint32_t rows, uint32_t columns,
                                 const char *name) {
    diti_load_bare_rows(loader, out, 0, rows, rows, columns, name);
}

DIT_INTERNAL void diti_load_conv(diti_loader *loader, diti_layer *out, uint32_t rows, uint32_t channels,
                                 uint32_t frames, uint32_t kernel, bool biased, const char *name) {
    char full[160];
    memset(out, 0, sizeof *out);
    diti_format(full, sizeof full, "%s.weight", name);
    diti_loader_add_stored(loader, &out->weight, rows, channels * frames * kernel * kernel, kernel, frames, full,
                           false);
    diti_format(full, sizeof full, "%s.bias", name);
    if (biased) diti_load_vector(loader, &out->bias, 1, rows, full);
}

DIT_INTERNAL void diti_load_layer_rows(diti_loader *loader, diti_layer *out, uint32_t first, uint32_t rows,
                                       uint32_t all, uint32_t columns, const char *name) {
    char full[160];
    memset(out, 0, sizeof *out);
    diti_format(full, sizeof full, "%s.weight", name);
    diti_load_linear_rows(loader, &out->weight, first, rows, all, columns, full);
    diti_format(full, sizeof full, "%s.bias", name);
    diti_load_vector(loader, &out->bias, 1, all, full);
    if (!out->bias.part_count) return;
    diti_loader_discount(loader, &out->bias, first > 0 ? 1 : 0, all - rows);
    out->bias.columns = rows;
    out->bias.parts[0].offset += (VkDeviceSize)first * sizeof(float);
    diti_loader_window_target(loader, &out->bias, first, rows);
}

DIT_INTERNAL void diti_load_norm(diti_loader *loader, diti_layer *out, uint32_t columns, const char *name) {
    char full[160];
    memset(out, 0, sizeof *out);
    diti_format(full, sizeof full, "%s.weight", name);
    diti_load_vector(loader, &out->weight, 1, columns, full);
    diti_format(full, sizeof full, "%s.bias", name);
    diti_load_vector(loader, &out->bias, 1, columns, full);
}

/* Targets in the matrices that have become one, and in their biases. */
static void diti_join_targets(diti_loader *loader, const diti_fused_linear *out, const diti_layer *joined) {
    uint32_t i, row = out->layers[0].weight.rows;
    for (i = 1; i < out->count; i++) {
        diti_loader_move_targets(loader, out->layers[i].weight.name, joined->weight.name, row);
        if (out->layers[i].bias.part_count)
            diti_loader_move_targets(loader, out->layers[i].bias.name, joined->bias.name, row);
        row += out->layers[i].weight.rows;
    }
}

/* One matrix of all, when every pair can be appended; else out stays as it was. */
static void diti_join(diti_loader *loader, diti_fused_linear *out, bool biased) {
    diti_layer all = out->layers[0];
    uint32_t i;
    for (i = 1; i < out->count; i++) {
        if (!diti_weight_append(loader, &all.weight, &out->layers[i].weight)) return;
        if (biased && !diti_weight_append(loader, &all.bias, &out->layers[i].bias)) return;
    }
    diti_join_targets(loader, out, &all);
    out->layers[0] = all;
    out->count = 1;
}

static void diti_join_measure(diti_loader *loader, const diti_fused_linear *fused) {
    const diti_weight *weight = &fused->layers[0].weight;
    uint32_t i;
    for (i = 0; i < weight->part_count; i++) diti_loader_measure(loader, diti_part_bytes(weight, &weight->parts[i]));
}

DIT_INTERNAL void diti_load_fused_linear(diti_loader *loader, diti_fused_linear *out, const char *const *names,
                                         uint32_t count, uint32_t rows, uint32_t columns, bool biased) {
    char full[160];
    uint32_t i;
    memset(out, 0, sizeof *out);
    out->count = count;
    loader->join = count;
    loader->chosen = false;
    for (i = 0; i < count; i++) {
        diti_format(full, sizeof full, "%s.weight", names[i]);
        diti_load_linear(loader, &out->layers[i].weight, rows, columns, full);
    }
    loader->join = 0;
    for (i = 0; i < count; i++) diti_loader_add_factors(loader, &out->layers[i].weight, 0);
    for (i = 0; biased && i < count; i++) {
        diti_format(full, sizeof full, "%s.bias", names[i]);
        diti_load_vector(loader, &out->layers[i].bias, 1, rows, full);
    }
    if (loader->error.result) return;
    diti_join(loader, out, biased);
    diti_join_measure(loader, out);
}
