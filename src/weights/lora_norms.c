/* DoRA that divides columns: their lengths in the weight with its LoRA, which takes a pass over the weight before it is
   loaded. */
#include "weights/lora.h"

/* Adds the squares of the columns that an entry's rows have with its module. */
static dit_result diti_lora_merges_sum(const diti_lora_merges *merges, const diti_i8_source *source, size_t index,
                                       float *values, dit_error *err) {
    const diti_lora_merge *merge = &merges->list[index];
    uint32_t r, c;
    for (r = 0; r < merge->rows; r++) {
        DITI_TRY(diti_i8_floats(source, merge->row + r, values, err));
        diti_lora_merges_add_until(merges, merge->tensor, merge->row + r, index, values);
        diti_lora_add_row(merge->module, merge->first + r, 1, values);
        for (c = 0; c < source->columns; c++)
            merge->module->norms[c / merge->module->share] += (double)values[c] * (double)values[c];
    }
    return DIT_OK;
}

static dit_result diti_lora_merges_measure_entry(const diti_lora_merges *merges, const diti_checkpoint *checkpoint,
                                                 size_t index, dit_error *err) {
    const diti_lora_merge *merge = &merges->list[index];
    diti_i8_source source = DITI_ZERO;
    float *values = (float *)diti_alloc_array(&merges->env, merge->module->columns, sizeof *values);
    dit_result result = values ? DIT_OK : diti_fail_memory(err, "tensor %.200s", merge->tensor->name);
    source.env = &merges->env;
    source.checkpoint = checkpoint;
    source.tensor = merge->tensor;
    source.columns = merge->module->columns;
    source.smooth = diti_stored_sibling(checkpoint, merge->tensor, "", DITI_LOW_RANK_SMOOTH);
    source.type = merge->tensor->type;
    if (result >= 0 && diti_type_is_i8(source.type))
        result = diti_i8_stored_type(checkpoint, merge->tensor, &source.type, err);
    if (result >= 0) result = diti_lora_merges_sum(merges, &source, index, values, err);
    diti_free(&merges->env, values);
    return result;
}

DIT_INTERNAL dit_result diti_lora_merges_measure(diti_lora_merges *merges, const diti_checkpoint *checkpoint,
                                                 dit_error *err) {
    uint32_t file;
    size_t i, k;
    for (file = 0; file < merges->count; file++) /* one file's columns are those that the files before it leave */
        for (i = 0; i < merges->list_count; i++) {
            diti_lora_module *module = merges->list[i].module;
            if (merges->list[i].file != file || !module->share || module->norms) continue;
            module->norms =
                (double *)diti_alloc_array(&merges->env, module->columns / module->share, sizeof *module->norms);
            if (!module->norms) return diti_fail_memory(err, "module %.200s", module->name);
            for (k = 0; k < merges->list_count; k++)
                if (merges->list[k].module == module)
                    DITI_TRY(diti_lora_merges_measure_entry(merges, checkpoint, k, err));
        }
    return DIT_OK;
}
