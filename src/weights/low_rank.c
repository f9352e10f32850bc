/* Low-rank parts that a file has beside its matrices (docs/quantized.md): adapters at strength 1, of every job. */
#include "weights/lora.h"

/* Adds the module of a tensor; *added NULL: the tensor has none. */
static dit_result diti_low_rank_add(diti_lora_file *file, const diti_target *target, diti_lora_module **added,
                                    dit_error *err) {
    const diti_stored_tensor *of = target->tensor,
                             *down = diti_stored_sibling(file->checkpoint, of, "", DITI_LOW_RANK_DOWN),
                             *up = diti_stored_sibling(file->checkpoint, of, "", DITI_LOW_RANK_UP);
    diti_lora_module *module;
    *added = NULL;
    if (!down && !up) return DIT_OK;
    if (!down || !up || down->rank != 2 || up->rank != 2 || !down->shape[0] || down->shape[0] > target->columns ||
        down->shape[1] != target->columns || up->shape[0] != of->shape[0] || up->shape[1] != down->shape[0])
        return diti_fail(err, DIT_ERROR_BAD_FILE,
                         "%s: the low-rank part of tensor %.160s is not %s [rank, %u] and %s [%u, rank]",
                         diti_checkpoint_name(file->checkpoint), of->name, DITI_LOW_RANK_DOWN,
                         (unsigned)target->columns, DITI_LOW_RANK_UP, (unsigned)of->shape[0]);
    module = &file->modules[file->module_count++];
    module->name = of->name;
    module->part = DIT_ROLE_TRANSFORMER;
    module->kind = DITI_KIND_LORA;
    module->tensors[DITI_LORA_DOWN] = down;
    module->tensors[DITI_LORA_UP] = up;
    module->rows = (uint32_t)up->shape[0];
    module->columns = target->columns;
    module->rank = (uint32_t)down->shape[0];
    module->scale = 1;
    module->fits = true;
    *added = module;
    return DIT_OK;
}

static dit_result diti_low_rank_match(diti_lora_file *file, const diti_weights *weights, diti_lora_matches *out,
                                      dit_error *err) {
    size_t i;
    for (i = 0; i < weights->target_count; i++) {
        const diti_target *target = &weights->targets[i];
        diti_lora_module *module;
        diti_lora_match *match = &out->list[out->count];
        if (diti_lora_matches_have(out, target, NULL)) continue;
        DITI_TRY(diti_low_rank_add(file, target, &module, err));
        if (!module) continue;
        match->module = module;
        match->target = target;
        match->first = target->tensor_row;
        match->row = target->row;
        match->rows = target->rows;
        out->count++;
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_low_rank_load(diti_device *device, const diti_env *env, const diti_checkpoint *checkpoint,
                                           const diti_weights *weights, bool measures, diti_lora **out,
                                           dit_error *err) {
    diti_lora_file file = DITI_ZERO;
    diti_lora_matches matches = DITI_ZERO;
    dit_result result = DIT_OK;
    size_t i, count = weights->target_count + 1;
    *out = NULL;
    file.env = *env;
    file.checkpoint = (diti_checkpoint *)(uintptr_t)checkpoint;
    file.modules = (diti_lora_module *)diti_alloc_array(env, count, sizeof *file.modules);
    matches.list = (diti_lora_match *)diti_alloc_array(env, count, sizeof *matches.list);
    if (!file.modules || !matches.list) result = diti_fail_memory(err, "low-rank parts");
    if (result >= 0) memset(file.modules, 0, count * sizeof *file.modules);
    if (result >= 0) result = diti_low_rank_match(&file, weights, &matches, err);
    if (result >= 0 && matches.count) result = diti_lora_load(device, env, &file, &matches, measures, out, err);
    for (i = 0; i < file.module_count; i++) diti_lora_forget(&file, &file.modules[i]);
    diti_free(env, file.modules);
    diti_free(env, matches.list);
    return result;
}
