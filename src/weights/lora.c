/* Adapters on the device: for each weight that a file adds to, down of all its modules as one matrix, and up of each
   run of the weight's rows. */
#include "weights/lora.h"

DITI_ONCE_BEGIN

#define DITI_LORA_ALIGN 16u
#define DITI_LORA_RANK 4u /* ranks are filled up with zeros to multiples, as kernels want operands */

typedef struct diti_lora_build {
    diti_lora *lora;
    const diti_lora_file *file;
    dit_type type; /* type of all matrices */
    bool measures; /* nothing is made on the device */
    dit_error *err;
} diti_lora_build;

static uint32_t diti_lora_padded(uint32_t rank) {
    return (rank + DITI_LORA_RANK - 1) / DITI_LORA_RANK * DITI_LORA_RANK;
}

/* --- places --- */

static dit_result diti_lora_new_block(diti_lora_build *build) {
    diti_weights *weights = &build->lora->weights;
    const diti_env *env = &build->lora->env;
    diti_weight_block *block = (diti_weight_block *)diti_alloc_zero(env, sizeof *block);
    void *array = weights->blocks;
    if (!block || !diti_grow(env, &array, &weights->block_capacity, weights->block_count, sizeof block)) {
        diti_free(env, block);
        return diti_fail_memory(build->err, "a LoRA");
    }
    weights->blocks = (diti_weight_block **)array;
    weights->blocks[weights->block_count++] = block;
    return DIT_OK;
}

/* A matrix as one part of the newest block. */
static dit_result diti_lora_place(diti_lora_build *build, diti_weight *out, uint32_t rows, uint32_t columns,
                                  const char *name) {
    const diti_device *device = build->lora->device;
    diti_weights *weights = &build->lora->weights;
    uint64_t bytes = 0, limit = UINT64_MAX / 4, range = UINT64_MAX / 4;
    diti_weight_block *block;
    if (device) {
        limit = device->limits.block & ~(VkDeviceSize)0xffff;
        range = device->limits.storage_range - device->limits.storage_alignment;
    }
    if (!diti_type_bytes(build->type, rows, columns, &bytes) || bytes > (range < limit ? range : limit))
        return diti_fail(build->err, DIT_ERROR_UNSUPPORTED_DEVICE,
                         "%s: module %.200s: a matrix [%u, %u] is larger than this device's storage buffer limit; have "
                         "the adapter merged",
                         diti_checkpoint_name(build->file->checkpoint), name, (unsigned)rows, (unsigned)columns);
    bytes = diti_align_up(bytes, DITI_LORA_ALIGN);
    block = weights->block_count ? weights->blocks[weights->block_count - 1] : NULL;
    if (!block || block->used > limit - bytes) {
        DITI_TRY(diti_lora_new_block(build));
        block = weights->blocks[weights->block_count - 1];
    }
    out->name = name;
    out->type = build->type;
    out->rows = rows;
    out->columns = columns;
    out->kernel = 1;
    out->part_count = 1;
    out->parts[0].block = block;
    out->parts[0].offset = block->used;
    out->parts[0].rows = rows;
    block->used += bytes;
    weights->parameters += (uint64_t)rows * columns;
    return DIT_OK;
}

static diti_adapter *diti_lora_add_adapter(diti_lora_build *build, const char *weight, size_t parts) {
    diti_lora *lora = build->lora;
    diti_adapter *adapter;
    if (!diti_grow(&lora->env, (void **)&lora->adapters, &lora->adapter_capacity, lora->adapter_count,
                   sizeof *lora->adapters))
        return NULL;
    adapter = &lora->adapters[lora->adapter_count];
    memset(adapter, 0, sizeof *adapter);
    adapter->parts = (diti_adapter_part *)diti_alloc_array(&lora->env, parts, sizeof *adapter->parts);
    if (!adapter->parts) return NULL;
    lora->adapter_count++;
    adapter->weight = weight;
    adapter->scale = lora->scale_count;
    return adapter;
}

DITI_REGION_END

/* --- numbers --- */

/* Exponent of the power of two that brings such values below 1: halves keep all eleven bits then, and the power goes
   into the scale. F32 needs none. */
static int diti_lora_exponent(const diti_lora_build *build, float most) {
    int exponent = 0;
    if (build->type == DIT_TYPE_F16 && most > 0) frexpf(most, &exponent);
    return exponent;
}

static void diti_lora_lower(float *values, size_t count, int exponent) {
    size_t i;
    for (i = 0; i < count && exponent; i++) values[i] = ldexpf(values[i], -exponent);
}

static dit_result diti_lora_write(diti_lora_build *build, const diti_weight *weight, float *values) {
    size_t i, count = (size_t)weight->rows * weight->columns, size = build->type == DIT_TYPE_F16 ? 2 : 4;
    diti_buffer *buffer = (diti_buffer *)(uintptr_t)&weight->parts[0].block->buffer;
    for (i = 0; i < count && size == 2; i++) { /* in place, from the front */
        uint16_t half = diti_float_to_half(values[i]);
        memcpy((unsigned char *)values + 2 * i, &half, 2);
    }
    return diti_buffer_write(build->lora->device, buffer, weight->parts[0].offset, values, count * size, build->err);
}

static float *diti_lora_room(diti_lora_build *build, const diti_weight *weight) {
    float *values = (float *)diti_alloc_array(&build->lora->env, (size_t)weight->rows * weight->columns, sizeof(float));
    if (!values) diti_fail_memory(build->err, "module %.200s", weight->name);
    return values;
}

DITI_ONCE_BEGIN

/* --- one weight --- */

/* A run of matches of one weight, whose thin modules share a matrix down, while dense ones stand alone. */
typedef struct diti_lora_group {
    const diti_lora_match *matches;
    size_t count;
} diti_lora_group;

static bool diti_lora_is_first(const diti_lora_group *group, size_t index) { /* match of its module */
    size_t i;
    for (i = 0; i < index; i++)
        if (group->matches[i].module == group->matches[index].module) return false;
    return true;
}

/* The first row of down that belongs to a module; NULL: the rows of all. */
static uint32_t diti_lora_rank_before(const diti_lora_group *group, const diti_lora_module *module) {
    uint32_t rank = 0;
    size_t i;
    for (i = 0; i < group->count; i++) {
        if (group->matches[i].module == module) return rank;
        if (diti_lora_is_first(group, i)) rank += diti_lora_padded(diti_lora_thin(group->matches[i].module));
    }
    return rank;
}

static dit_result diti_lora_place_part(diti_lora_build *build, diti_adapter *adapter, const diti_lora_match *match,
                                       uint32_t first, uint32_t rank) {
    diti_adapter_part *part = &adapter->parts[adapter->part_count++];
    part->row = match->row;
    part->rows = match->rows;
    part->first = first;
    part->rank = rank;
    return diti_lora_place(build, &part->up, part->rows, rank ? rank : match->target->columns, match->module->name);
}

static dit_result diti_lora_place_thin(diti_lora_build *build, const diti_lora_group *group) {
    const diti_target *target = group->matches[0].target;
    uint32_t rank = diti_lora_rank_before(group, NULL);
    diti_adapter *adapter;
    size_t i;
    if (!rank) return DIT_OK;
    adapter = diti_lora_add_adapter(build, target->weight, group->count);
    if (!adapter) return diti_fail_memory(build->err, "a LoRA");
    build->lora->scale_count += rank;
    DITI_TRY(diti_lora_place(build, &adapter->down, rank, target->columns, group->matches[0].module->name));
    for (i = 0; i < group->count; i++) {
        const diti_lora_module *module = group->matches[i].module;
        uint32_t thin = diti_lora_thin(module);
        if (thin)
            DITI_TRY(diti_lora_place_part(build, adapter, &group->matches[i], diti_lora_rank_before(group, module),
                                          diti_lora_padded(thin)));
    }
    return DIT_OK;
}

/* A vector's differences need no matrices: they are columns among the scales. */
static dit_result diti_lora_place_vector(diti_lora_build *build, const diti_lora_group *group) {
    diti_adapter *adapter = diti_lora_add_adapter(build, group->matches[0].target->weight, 1);
    size_t i;
    if (!adapter) return diti_fail_memory(build->err, "a LoRA");
    for (i = 0; i < group->count; i++) {
        uint32_t end = group->matches[i].row + group->matches[i].rows;
        if (end > adapter->values) adapter->values = end;
    }
    build->lora->scale_count += (uint32_t)diti_align_up(adapter->values, DITI_LORA_RANK);
    return DIT_OK;
}

static dit_result diti_lora_place_dense(diti_lora_build *build, const diti_lora_match *match) {
    diti_adapter *adapter = diti_lora_add_adapter(build, match->target->weight, 1);
    if (!adapter) return diti_fail_memory(build->err, "a LoRA");
    build->lora->scale_count += (uint32_t)diti_align_up(match->rows, DITI_LORA_RANK);
    return diti_lora_place_part(build, adapter, match, 0, 0);
}

/* --- writing, in the order of placing --- */

static dit_result diti_lora_write_up(diti_lora_build *build, const diti_adapter_part *part,
                                     const diti_lora_match *match, int exponent) {
    float *values = diti_lora_room(build, &part->up);
    dit_result result;
    if (!values) return DIT_ERROR_OUT_OF_HOST_MEMORY;
    diti_lora_up(match->module, match->first, part->rows, part->rank, values);
    diti_lora_lower(values, (size_t)part->rows * part->rank, exponent);
    result = diti_lora_write(build, &part->up, values);
    diti_free(&build->lora->env, values);
    return result;
}

static dit_result diti_lora_write_down(diti_lora_build *build, const diti_lora_group *group,
                                       const diti_adapter *adapter) {
    float *values = diti_lora_room(build, &adapter->down);
    uint32_t columns = adapter->down.columns;
    dit_result result;
    size_t i;
    if (!values) return DIT_ERROR_OUT_OF_HOST_MEMORY;
    for (i = 0; i < group->count; i++) {
        const diti_lora_module *module = group->matches[i].module;
        float *rows = values + (size_t)diti_lora_rank_before(group, module) * columns, up, down;
        uint32_t thin = diti_lora_thin(module);
        if (!thin || !diti_lora_is_first(group, i)) continue;
        diti_lora_down(module, rows);
        diti_lora_bounds(module, &up, &down);
        diti_lora_lower(rows, (size_t)thin * columns, diti_lora_exponent(build, down));
    }
    result = diti_lora_write(build, &adapter->down, values);
    diti_free(&build->lora->env, values);
    return result;
}

static dit_result diti_lora_write_thin(diti_lora_build *build, const diti_lora_group *group,
                                       const diti_adapter *adapter) {
    const diti_adapter_part *part = adapter->parts;
    uint32_t k;
    size_t i;
    DITI_TRY(diti_lora_write_down(build, group, adapter));
    for (i = 0; i < group->count; i++) {
        const diti_lora_module *module = group->matches[i].module;
        uint32_t thin = diti_lora_thin(module);
        int exponent;
        float up, down;
        if (!thin) continue;
        diti_lora_bounds(module, &up, &down);
        exponent = diti_lora_exponent(build, up);
        DITI_TRY(diti_lora_write_up(build, part, &group->matches[i], exponent));
        for (k = 0; k < thin; k++)
            build->lora->scales[adapter->scale + part->first + k] =
                (float)ldexp(module->scale, exponent + diti_lora_exponent(build, down));
        part++;
    }
    return DIT_OK;
}

/* The delta itself, with the scale of the file in it. */
static dit_result diti_lora_write_dense(diti_lora_build *build, const diti_lora_match *match,
                                        const diti_adapter *adapter) {
    const diti_adapter_part *part = adapter->parts;
    size_t count = (size_t)part->rows * part->up.columns;
    float *values = diti_lora_room(build, &part->up);
    int exponent;
    uint32_t r;
    dit_result result;
    if (!values) return DIT_ERROR_OUT_OF_HOST_MEMORY;
    for (r = 0; r < part->rows; r++)
        diti_lora_add_row(match->module, match->first + r, 1, values + (size_t)r * part->up.columns);
    exponent = diti_lora_exponent(build, diti_lora_largest(values, count));
    diti_lora_lower(values, count, exponent);
    result = diti_lora_write(build, &part->up, values);
    for (r = 0; r < part->rows; r++) build->lora->scales[adapter->scale + r] = ldexpf(1, exponent);
    diti_free(&build->lora->env, values);
    return result;
}

static void diti_lora_write_vector(diti_lora_build *build, const diti_lora_group *group, const diti_adapter *adapter) {
    uint32_t k;
    size_t i;
    for (i = 0; i < group->count; i++) {
        const diti_lora_match *match = &group->matches[i];
        float *values = build->lora->scales + adapter->scale + match->row;
        for (k = 0; k < match->rows; k++) values[k] += diti_lora_value(match->module, match->first + k);
    }
}

/* --- groups --- */

static int diti_lora_match_order(const void *a, const void *b) {
    const diti_lora_match *x = (const diti_lora_match *)a, *y = (const diti_lora_match *)b;
    if (x->target->weight != y->target->weight)
        return (uintptr_t)x->target->weight < (uintptr_t)y->target->weight ? -1 : 1;
    if (x->module != y->module) return x->module < y->module ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Rows of a module that follow each other in the weight, too, become one match: q, k and v. */
static void diti_lora_join_matches(diti_lora_matches *matches) {
    size_t i, last = 0;
    diti_sort(matches->list, matches->count, sizeof *matches->list, diti_lora_match_order);
    for (i = 1; i < matches->count; i++) {
        diti_lora_match *before = &matches->list[last];
        const diti_lora_match *match = &matches->list[i];
        if (match->target->weight == before->target->weight && match->module == before->module &&
            match->row == before->row + before->rows && match->first == before->first + before->rows)
            before->rows += match->rows;
        else
            matches->list[++last] = *match;
    }
    matches->count = last + 1;
}

static dit_result diti_lora_place_group(diti_lora_build *build, const diti_lora_group *group) {
    size_t i;
    if (group->matches[0].target->vector) return diti_lora_place_vector(build, group);
    DITI_TRY(diti_lora_place_thin(build, group));
    for (i = 0; i < group->count; i++) {
        if (diti_lora_thin(group->matches[i].module)) continue;
        DITI_TRY(diti_lora_place_dense(build, &group->matches[i]));
        build->lora->dense++;
    }
    return DIT_OK;
}

static dit_result diti_lora_write_matches(diti_lora_build *build, const diti_lora_group *group, size_t *next) {
    size_t i;
    if (group->matches[0].target->vector) {
        diti_lora_write_vector(build, group, &build->lora->adapters[(*next)++]);
        return DIT_OK;
    }
    if (diti_lora_rank_before(group, NULL))
        DITI_TRY(diti_lora_write_thin(build, group, &build->lora->adapters[(*next)++]));
    for (i = 0; i < group->count; i++)
        if (!diti_lora_thin(group->matches[i].module))
            DITI_TRY(diti_lora_write_dense(build, &group->matches[i], &build->lora->adapters[(*next)++]));
    return DIT_OK;
}

static dit_result diti_lora_write_group(diti_lora_build *build, const diti_lora_group *group, size_t *next) {
    dit_result result = DIT_OK;
    size_t i;
    for (i = 0; i < group->count && result >= 0; i++)
        result = diti_lora_read(build->file, group->matches[i].module, build->err);
    if (result >= 0) result = diti_lora_write_matches(build, group, next);
    for (i = 0; i < group->count; i++) diti_lora_forget(build->file, group->matches[i].module);
    return result;
}

/* The matches of one weight, behind those of the group before. */
static bool diti_lora_next_group(const diti_lora_matches *matches, diti_lora_group *group) {
    size_t begin = group->matches ? (size_t)(group->matches - matches->list) + group->count : 0, end = begin;
    while (end < matches->count && matches->list[end].target->weight == matches->list[begin].target->weight) end++;
    group->matches = matches->list + begin;
    group->count = end - begin;
    return end > begin;
}

static dit_result diti_lora_make_memory(diti_lora_build *build) {
    diti_lora *lora = build->lora;
    size_t i;
    lora->scales = (float *)diti_alloc_array(&lora->env, lora->scale_count, sizeof *lora->scales);
    if (!lora->scales) return diti_fail_memory(build->err, "a LoRA");
    for (i = 0; i < lora->weights.block_count; i++) lora->weights.bytes += lora->weights.blocks[i]->used;
    if (build->measures) return DIT_OK;
    lora->weights.replicas = diti_replicas_create(&lora->env, lora->device);
    if (!lora->weights.replicas) return diti_fail_memory(build->err, "a LoRA");
    for (i = 0; i < lora->weights.block_count; i++) {
        diti_weight_block *block = lora->weights.blocks[i];
        block->replicas = lora->weights.replicas;
        DITI_TRY(diti_buffer_create_shared(lora->device, block->used, "LoRA", &block->buffer, build->err));
    }
    return DIT_OK;
}

/* Names are in the file, which is closed; the messages of a plan want them. */
static dit_result diti_lora_keep_names(diti_lora_build *build) {
    diti_weights *weights = &build->lora->weights;
    const diti_env *env = &build->lora->env;
    size_t i;
    uint32_t p;
    weights->names = (char **)diti_alloc_array(env, build->lora->adapter_count + 1, sizeof *weights->names);
    if (!weights->names) return diti_fail_memory(build->err, "a LoRA");
    for (i = 0; i < build->lora->adapter_count; i++) {
        diti_adapter *adapter = &build->lora->adapters[i];
        char *name;
        if (adapter->values) continue;
        name = diti_copy_string(env, adapter->parts[0].up.name);
        if (!name) return diti_fail_memory(build->err, "a LoRA");
        weights->names[weights->name_count++] = name;
        adapter->down.name = name;
        for (p = 0; p < adapter->part_count; p++) adapter->parts[p].up.name = name;
    }
    return DIT_OK;
}

static dit_result diti_lora_build_all(diti_lora_build *build, const diti_lora_matches *matches) {
    diti_lora_group group = DITI_ZERO;
    size_t next = 0;
    while (diti_lora_next_group(matches, &group)) DITI_TRY(diti_lora_place_group(build, &group));
    DITI_TRY(diti_lora_make_memory(build));
    memset(&group, 0, sizeof group);
    while (!build->measures && diti_lora_next_group(matches, &group))
        DITI_TRY(diti_lora_write_group(build, &group, &next));
    return diti_lora_keep_names(build);
}

/* DoRA scales what the weight itself gives. Only a dry run goes on, and tells it. */
static dit_result diti_lora_check_beside(diti_lora_build *build, const diti_lora_matches *matches) {
    size_t i;
    for (i = 0; i < matches->count && !build->lora->merged; i++)
        if (matches->list[i].module->tensors[DITI_LORA_MAGNITUDE]) build->lora->merged = matches->list[i].module;
    if (!build->lora->merged || !build->lora->device) return DIT_OK;
    return diti_fail(build->err, DIT_ERROR_UNSUPPORTED_MODEL,
                     "%s: module %.200s is DoRA, which cannot be computed beside the weights; have the adapter merged "
                     "(dit_component.merge, --lora-merge)",
                     diti_checkpoint_name(build->file->checkpoint), build->lora->merged->name);
}

DIT_INTERNAL dit_result diti_lora_load(diti_device *device, const diti_env *env, const diti_lora_file *file,
                                       diti_lora_matches *matches, bool measures, diti_lora **out, dit_error *err) {
    diti_lora_build build = DITI_ZERO;
    diti_lora *lora = (diti_lora *)diti_alloc_zero(env, sizeof *lora);
    dit_result result;
    size_t i;
    *out = NULL;
    if (!lora) return diti_fail_memory(err, "a LoRA");
    lora->env = *env;
    lora->device = device;
    for (i = 0; i < file->module_count; i++) lora->modules += file->modules[i].fits;
    build.lora = lora;
    build.file = file;
    build.measures = measures || !device;
    build.type = !device || device->rung >= DITI_RUNG_FP16 ? DIT_TYPE_F16 : DIT_TYPE_F32;
    build.err = err;
    result = diti_lora_check_beside(&build, matches);
    if (matches->count) diti_lora_join_matches(matches);
    if (result >= 0) result = diti_lora_build_all(&build, matches);
    if (result < 0)
        diti_lora_free(lora);
    else
        *out = lora;
    return result;
}

DIT_INTERNAL void diti_lora_free(diti_lora *lora) {
    diti_env env;
    size_t i;
    if (!lora) return;
    env = lora->env;
    for (i = 0; i < lora->adapter_count; i++) diti_free(&env, lora->adapters[i].parts);
    diti_free(&env, lora->adapters);
    diti_free(&env, lora->scales);
    diti_weights_free(lora->device, &env, &lora->weights);
    diti_free(&env, lora);
}

DIT_INTERNAL const diti_adapter *diti_lora_find(const diti_lora *lora, const diti_weight *weight, size_t *count) {
    uintptr_t name = (uintptr_t)weight->name;
    size_t low = 0, high = lora->adapter_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)lora->adapters[middle].weight < name)
            low = middle + 1;
        else
            high = middle;
    }
    for (*count = 0; low + *count < lora->adapter_count && lora->adapters[low + *count].weight == weight->name;)
        ++*count;
    return lora->adapters + low;
}

DITI_REGION_END
