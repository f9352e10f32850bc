/* Adapters that become part of the weights: their rows are added to those of stored tensors when these are read. */
#include "weights/lora.h"

static int diti_lora_merge_order(const void *a, const void *b) {
    const diti_lora_merge *x = (const diti_lora_merge *)a, *y = (const diti_lora_merge *)b;
    if (x->tensor != y->tensor) return x->tensor < y->tensor ? -1 : 1;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* A component is loaded again where its values do not fit halves. */
static bool diti_lora_merges_noted(const diti_lora_merges *merges, const diti_lora_match *match) {
    size_t i;
    for (i = 0; i < merges->list_count; i++)
        if (merges->list[i].tensor == match->target->tensor && merges->list[i].row == match->target->tensor_row &&
            merges->list[i].module == match->module)
            return true;
    return false;
}

static dit_result diti_lora_merges_note(diti_lora_merges *merges, uint32_t file, const diti_lora_matches *matches,
                                        dit_error *err) {
    size_t i;
    for (i = 0; i < matches->count; i++) {
        const diti_lora_match *match = &matches->list[i];
        diti_lora_merge *merge;
        if (diti_lora_merges_noted(merges, match)) continue;
        DITI_TRY(diti_lora_read(merges->files[file], match->module, err));
        if (!diti_grow(&merges->env, (void **)&merges->list, &merges->list_capacity, merges->list_count,
                       sizeof *merges->list))
            return diti_fail_memory(err, "modules of a LoRA");
        merge = &merges->list[merges->list_count++];
        merge->tensor = match->target->tensor;
        merge->row = match->target->tensor_row;
        merge->rows = match->target->rows;
        merge->first = match->target->first;
        merge->module = match->module;
        merge->file = file;
        merge->weight = (double)merges->weights[file];
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_lora_merges_match(diti_lora_merges *merges, dit_role part, const diti_weights *weights,
                                               dit_error *err) {
    diti_lora_scope scope;
    dit_result result = DIT_OK;
    uint32_t i;
    bool low = part == DIT_ROLE_TRANSFORMER_2;
    scope.part = low ? DIT_ROLE_TRANSFORMER : part;
    scope.weights = weights;
    for (i = 0; i < merges->count && result >= 0; i++) {
        diti_lora_matches matches = DITI_ZERO;
        if (scope.part == DIT_ROLE_TRANSFORMER && low != (merges->of[i] == DIT_ROLE_TRANSFORMER_2)) continue;
        result = diti_lora_match_scopes(merges->files[i], &scope, 1, &matches, err);
        if (result >= 0) result = diti_lora_merges_note(merges, i, &matches, err);
        diti_free(&merges->env, matches.list);
    }
    diti_sort(merges->list, merges->list_count, sizeof *merges->list, diti_lora_merge_order);
    return result;
}

static size_t diti_lora_merges_first(const diti_lora_merges *merges, const diti_stored_tensor *tensor) {
    size_t low = 0, high = merges->list_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (merges->list[middle].tensor < tensor)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

DIT_INTERNAL bool diti_lora_merges_has(const diti_lora_merges *merges, const diti_stored_tensor *tensor) {
    size_t first = merges ? diti_lora_merges_first(merges, tensor) : 0;
    return merges && first < merges->list_count && merges->list[first].tensor == tensor;
}

DIT_INTERNAL void diti_lora_merges_add_until(const diti_lora_merges *merges, const diti_stored_tensor *tensor,
                                             uint32_t row, size_t end, float *values) {
    size_t i;
    for (i = diti_lora_merges_first(merges, tensor); i < end && merges->list[i].tensor == tensor; i++) {
        const diti_lora_merge *merge = &merges->list[i];
        if (row < merge->row || row - merge->row >= merge->rows) continue;
        if (merge->module->tensors[DITI_LORA_MAGNITUDE])
            diti_dora_apply_row(merge->module, merge->first + row - merge->row, merge->weight, values);
        else
            diti_lora_add_row(merge->module, merge->first + row - merge->row, merge->weight, values);
    }
}

DIT_INTERNAL void diti_lora_merges_add(const diti_lora_merges *merges, const diti_stored_tensor *tensor, uint32_t row,
                                       float *values) {
    diti_lora_merges_add_until(merges, tensor, row, merges->list_count, values);
}

DIT_INTERNAL void diti_lora_merges_add_vector(const diti_lora_merges *merges, const diti_stored_tensor *tensor,
                                              float *values) {
    size_t i;
    uint32_t k;
    for (i = diti_lora_merges_first(merges, tensor); i < merges->list_count && merges->list[i].tensor == tensor; i++) {
        const diti_lora_merge *merge = &merges->list[i];
        for (k = 0; k < merge->rows; k++)
            values[merge->row + k] += (float)(merge->weight * (double)diti_lora_value(merge->module, merge->first + k));
    }
}

DIT_INTERNAL void diti_lora_merges_free(diti_lora_merges *merges) {
    uint32_t i;
    for (i = 0; i < merges->count; i++) diti_lora_close(merges->files[i]);
    diti_free(&merges->env, merges->list);
    memset(merges, 0, sizeof *merges);
}
